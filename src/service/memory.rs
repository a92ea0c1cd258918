//! Verbs that write items of memory. An item that is valid beyond its session is written to the
//! notebook of its workspace. They must not rate the importance of an item.

use super::{Caller, Code, Service, ServiceError, ServiceResult, added::new_event, is_notebook};
use crate::{
    api::memory::{MemoryKind, RememberRequest, Remembered, SimilarItem, SkillRequest},
    event::{
        Batch, BatchKey, EventId, Position, SessionId, SessionKey, kinds, limits, text::one_line,
    },
    projection::{
        self, Facts, MemoryState,
        body::{self, MemoryBody, PositionBody},
    },
    store::SessionInfo,
};

/// Limits: characters of a text, and of a topic, tag or name; tags of an item; its importance.
const TEXT_CHARS_MAX: usize = 8_000;
const NAME_CHARS_MAX: usize = 120;
const TAGS_MAX: usize = 32;
const IMPORTANCE_MAX: u8 = 10;
/// Maximum number of characters of a similar item.
const SIMILAR_CHARS: usize = 200;
/// Number of hexadecimal digits in the id of an item that was written with a key.
const ID_DIGITS: usize = 24;
/// Maximum number of attempts to supersede an item, repeated after a concurrent write.
const TRIES_MAX: usize = 16;

/// Target of an item of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryTarget {
    /// A session; an item valid beyond it goes into the notebook of its workspace.
    Session(SessionId),
    /// The notebook of a workspace.
    Workspace(String),
}

/// Session that an item is written to.
struct ItemDestination {
    session: SessionId,
    /// Workspace whose notebook it is.
    workspace: Option<String>,
    from: Option<PositionBody>,
}

impl Service {
    /// Writes an item of memory; durable on return. Similar items are named in the response and
    /// stay. A retry with the same key writes nothing more.
    ///
    /// # Errors
    /// `invalid_request`, `idempotency_conflict`, and those of the session and the engine.
    pub async fn remember(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
        asked: RememberRequest,
        key: Option<&BatchKey>,
    ) -> ServiceResult<Remembered> {
        let body = validate_request(asked)?;
        let kind = MemoryKind::parse(&body.kind).expect("it was checked");
        let target = self.find_destination(caller, location, kind).await?;
        let at = caller.key(&target.session);
        let id = key.map(item_id);
        for _ in 0..TRIES_MAX {
            let (similar, replaced, tail) =
                self.read_existing(&at, &target, &body, id.clone()).await?;
            let written = |memory_id: EventId, position: Position| Remembered {
                memory_id,
                session: target.session.clone(),
                position,
                similar,
            };
            if let Some(id) = &id
                && let Some(position) = self.find_earlier_write(&at, id, &body).await?
            {
                return Ok(written(id.clone(), position));
            }
            replaced?;
            let of = MemoryBody { from: target.from.clone(), ..body.clone() };
            let mut new = new_event(kinds::MEMORY_ITEM, caller.origin, body::write(&of));
            new.id = id.clone();
            // The precondition detects an item that another caller supersedes concurrently.
            let if_position = body.supersedes.as_ref().and(tail);
            let batch = Batch { events: [new].into(), if_position, ..Batch::default() };
            let appended = match &target.workspace {
                Some(workspace) => {
                    self.append_to_notebook(caller, &target.session, workspace, batch).await
                }
                None => self.append(caller, &target.session, batch, false).await,
            };
            match appended {
                Err(error) if if_position.is_some() && error.code == Code::PositionConflict => {}
                appended => {
                    let placed = appended?.events.into_iter().next();
                    let placed =
                        placed.ok_or_else(|| ServiceError::new(Code::InternalError, "no place"))?;
                    return Ok(written(placed.id, placed.position));
                }
            }
        }
        Err(ServiceError::new(Code::PositionConflict, "the memory changes too fast")
            .action("try again"))
    }

    /// Reads the existing memory: similar items, whether the named item may be superseded, and the
    /// tail.
    async fn read_existing(
        &self,
        at: &SessionKey,
        target: &ItemDestination,
        body: &MemoryBody,
        id: Option<EventId>,
    ) -> ServiceResult<(Vec<SimilarItem>, ServiceResult<()>, Option<Position>)> {
        let (of, text, name) = (body.supersedes.clone(), body.text.clone(), body.name.clone());
        let keeper = target.session.clone();
        let look = move |info: &SessionInfo, facts: &Facts| {
            let supersedes = of.as_deref().and_then(|id| EventId::new(id).ok());
            let replaced = |item: &projection::StoredMemory| {
                Some(&item.id) == supersedes.as_ref()
                    || item.name.is_some() && item.name.as_deref() == name.as_deref()
            };
            let similar = facts.memory.find_similar(&text).into_iter();
            let is_other =
                |item: &&projection::StoredMemory| !replaced(item) && Some(&item.id) != id.as_ref();
            let similar = similar.filter(is_other).map(|item| SimilarItem {
                memory_id: item.id.clone(),
                text: one_line(&item.text, SIMILAR_CHARS),
            });
            let similar: Vec<SimilarItem> = similar.collect();
            let may = of.as_ref().map_or(Ok(()), |of| {
                check_replaceable(facts, supersedes.as_ref()).map_err(|why| {
                    let why = why.unwrap_or_else(|| format!("{keeper} keeps no such item"));
                    ServiceError::invalid("supersedes", format!("{of}: {why}"))
                })
            });
            (similar, may, Some(info.tail))
        };
        match self.peek_view(at, look).await {
            Err(error) if error.code == Code::SessionNotFound && target.workspace.is_some() => {
                let problem = || format!("{} keeps no such item", target.session);
                let may = match &body.supersedes {
                    None => Ok(()),
                    Some(_) => Err(ServiceError::invalid("supersedes", problem())),
                };
                Ok((Vec::new(), may, None))
            }
            found => found,
        }
    }

    async fn find_destination(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
        kind: MemoryKind,
    ) -> ServiceResult<ItemDestination> {
        let needs_session = || {
            let problem = format!("{} memory belongs to a session", kind.as_str());
            ServiceError::invalid("kind", problem).action("name the session, or choose semantic")
        };
        match location {
            MemoryTarget::Session(session) => {
                let info = self.store.use_session(&caller.key(session)).await?;
                let notebook = info.workspace.as_deref().filter(|_| kind.is_lasting());
                match notebook {
                    Some(workspace) if !is_notebook(session) => Ok(ItemDestination {
                        session: self.find_notebook(caller, workspace).await?.0,
                        workspace: Some(workspace.to_owned()),
                        from: Some(PositionBody {
                            session: session.to_string(),
                            position: info.tail.0,
                        }),
                    }),
                    None if is_notebook(session) => Err(needs_session()),
                    _ => Ok(ItemDestination {
                        session: session.clone(),
                        workspace: None,
                        from: None,
                    }),
                }
            }
            MemoryTarget::Workspace(_) if !kind.is_lasting() => Err(needs_session()),
            MemoryTarget::Workspace(workspace) => {
                let chars = workspace.chars().count();
                if chars == 0 || chars > limits::WORKSPACE_CHARS_MAX {
                    let problem = format!("1 to {} characters", limits::WORKSPACE_CHARS_MAX);
                    return Err(ServiceError::invalid("workspace", problem));
                }
                let (session, _) = self.find_notebook(caller, workspace).await?;
                Ok(ItemDestination { session, workspace: Some(workspace.clone()), from: None })
            }
        }
    }

    /// Returns the position of the item with that id if an earlier attempt of this call wrote it.
    async fn find_earlier_write(
        &self,
        key: &SessionKey,
        id: &EventId,
        wanted: &MemoryBody,
    ) -> ServiceResult<Option<Position>> {
        let position = match self.store.find(key, id).await.map_err(ServiceError::from) {
            Ok(Some(position)) => position,
            Ok(None) => return Ok(None),
            Err(error) if error.code == Code::SessionNotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let event = self.read_event(key, position).await?;
        let known = event.and_then(|event| body::read::<MemoryBody>(&event.body));
        if known.is_some_and(|known| MemoryBody { from: None, ..known } == *wanted) {
            return Ok(Some(position));
        }
        let message = "the key was used for another item";
        Err(ServiceError::new(Code::IdempotencyConflict, message).action("send another key"))
    }

    /// Writes a skill as an item of memory, as [`Self::remember`] does.
    ///
    /// # Errors
    /// Those of [`Self::remember`].
    pub async fn save_skill(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
        skill: SkillRequest,
        key: Option<&BatchKey>,
    ) -> ServiceResult<Remembered> {
        let SkillRequest { name, description, body, tags } = skill;
        let asked = RememberRequest {
            kind: MemoryKind::Procedural.as_str().to_owned(),
            text: format!("{}\n\n{}", description.trim(), body.trim()),
            tags,
            name: Some(name),
            ..RememberRequest::default()
        };
        // A skill's text is its description and body.
        self.remember(caller, location, asked, key).await.map_err(|mut error| {
            if error.hint.field.as_deref() == Some("text") {
                error.message = error.message.replacen("text", "body", 1);
                error.hint.field = Some("body".to_owned());
            }
            error
        })
    }
}

/// Checks that an item may be superseded; the error contains the reason, or nothing for an
/// unknown item.
fn check_replaceable(facts: &Facts, id: Option<&EventId>) -> Result<(), Option<String>> {
    let item = id.and_then(|id| facts.memory.get(id)).ok_or(None)?;
    Err(Some(match &item.state {
        MemoryState::Current => return Ok(()),
        MemoryState::Forgotten(at) => format!("it was forgotten at {at}"),
        MemoryState::Ended(at) => format!("it ended with its context at {at}"),
        MemoryState::Superseded(by) => match facts.memory.current_successor(&item.id) {
            Some(holds) if holds.is_current() => {
                format!("it was superseded; {} holds in its place: supersede that one", holds.id)
            }
            _ => format!("it was superseded by {by}"),
        },
    }))
}

fn validate_request(asked: RememberRequest) -> ServiceResult<MemoryBody> {
    parse_kinds("kind", std::slice::from_ref(&asked.kind))?;
    let RememberRequest { text, kind, topic, tags, importance, name, supersedes } = asked;
    if text.trim().is_empty() {
        return Err(ServiceError::invalid("text", "it is empty"));
    }
    if tags.len() > TAGS_MAX {
        return Err(ServiceError::invalid("tags", format!("at most {TAGS_MAX}")));
    }
    let tagged = tags.iter().map(|tag| ("tags", tag));
    let texts = [("topic", &topic), ("name", &name)];
    let texts = texts.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?)));
    for (field, text) in tagged.chain(texts) {
        let chars = text.chars().count();
        if chars == 0 || chars > NAME_CHARS_MAX {
            let problem = format!("1 to {NAME_CHARS_MAX} characters");
            return Err(ServiceError::invalid(field, problem));
        }
    }
    let chars = text.chars().count();
    if chars > TEXT_CHARS_MAX {
        let problem = format!("{chars} characters; {TEXT_CHARS_MAX} are allowed");
        return Err(ServiceError::invalid("text", problem)
            .action("keep the text in a file or an event, and remember where it is"));
    }
    check_importance(importance)?;
    let (positions, from) = (None, None);
    Ok(MemoryBody { kind, text, tags, topic, importance, name, supersedes, positions, from })
}

pub(super) fn check_importance(importance: Option<u8>) -> ServiceResult<()> {
    match importance {
        Some(importance) if !(1..=IMPORTANCE_MAX).contains(&importance) => {
            Err(ServiceError::invalid("importance", "from 1 to 10"))
        }
        _ => Ok(()),
    }
}

pub(super) fn parse_kinds(field: &str, names: &[String]) -> ServiceResult<Vec<MemoryKind>> {
    let kind = |name: &String| {
        MemoryKind::parse(name).ok_or_else(|| {
            let problem = "episodic, semantic, procedural or working is expected";
            ServiceError::invalid(field, problem)
        })
    };
    names.iter().map(kind).collect()
}

fn item_id(key: &BatchKey) -> EventId {
    let context = "sessionlog v1 id of an item of memory";
    let hash = blake3::Hasher::new_derive_key(context).update(key.as_str().as_bytes()).finalize();
    let digits: String = hash.to_hex().chars().take(ID_DIGITS).collect();
    EventId::new(&format!("memory_{digits}")).expect("digits are characters of an id")
}
