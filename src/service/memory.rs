//! Verbs on memory: items are written, listed, read and forgotten. What holds beyond a session goes
//! into the notebook of its workspace. It must not judge what is worth remembering.

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, added::event, error::check_count,
    is_notebook, page, sessions::page_limit,
};
use crate::{
    event::{Batch, BatchKey, EventId, Position, SessionId, SessionKey, kinds, limits},
    projection::{
        Facts, MemoryItem, MemoryKind, MemoryState,
        body::{self, ForgottenBody, MemoryBody, PlaceBody},
    },
    store::SessionInfo,
};

/// Characters of a text, of a topic, a tag and a name; tags of an item; its importance at most.
const TEXT_CHARS_MAX: usize = 8_000;
const NAME_CHARS_MAX: usize = 120;
const TAGS_MAX: usize = 32;
const IMPORTANCE_MAX: u8 = 10;
/// Hexadecimal digits of the id of an item that was written with a key.
const ID_DIGITS: usize = 24;
/// How often a superseding is tried again when something was written in between.
const TRIES_MAX: usize = 16;

/// Where something is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPlace {
    /// In a session; what holds beyond it, in the notebook of its workspace.
    Session(SessionId),
    /// In the notebook of a workspace.
    Workspace(String),
}

/// Something to remember.
#[derive(Clone, Debug, Default)]
pub struct RememberCall {
    /// The text.
    pub text: String,
    /// `episodic`, `semantic`, `procedural` or `working`.
    pub kind: String,
    /// Its topic.
    pub topic: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// From 1 to 10.
    pub importance: Option<u8>,
    /// Its name: it supersedes the item of that name.
    pub name: Option<String>,
    /// The item that it supersedes.
    pub supersedes: Option<String>,
    /// A retry with the same key writes nothing more.
    pub key: Option<BatchKey>,
}

/// What was remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryWritten {
    /// Id of the item.
    pub id: EventId,
    /// The session that keeps it.
    pub session: SessionId,
    /// Its position there.
    pub position: Position,
    /// Items there that say much the same, the most alike first.
    pub similar: Vec<MemoryItem>,
}

/// Which items to list.
#[derive(Clone, Debug, Default)]
pub struct MemoryQuery {
    /// Only of these kinds; empty for all.
    pub kinds: Vec<String>,
    /// Also those that were superseded or ended.
    pub include_ended: bool,
    /// Items of a page: 100 by default, 1 000 at most.
    pub limit: Option<usize>,
    /// `next_page` of the answer before.
    pub page: Option<String>,
}

/// An item and the session that keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptItem {
    /// The session.
    pub session: SessionId,
    /// The item.
    pub item: MemoryItem,
}

/// A page of items.
#[derive(Clone, Debug, Default)]
pub struct MemoryPage {
    /// The items, newest first.
    pub items: Vec<KeptItem>,
    /// The notebook of the workspace, if there is one.
    pub notebook: Option<SessionId>,
    /// Items that are known and not listed for want of room.
    pub left: u64,
    /// The cursor of the next page, if there is one.
    pub next_page: Option<String>,
}

/// Where an item goes.
struct Target {
    session: SessionId,
    /// The workspace whose notebook it is.
    workspace: Option<String>,
    from: Option<PlaceBody>,
}

impl Service {
    /// Remembers something; durable when this returns. Items that say much the same are named, and
    /// stay.
    ///
    /// # Errors
    /// `invalid_request`, `idempotency_conflict`, and those of the session and the engine.
    pub async fn remember(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        call: RememberCall,
    ) -> ServiceResult<MemoryWritten> {
        let key = call.key.clone();
        let body = call.checked()?;
        let kind = MemoryKind::named(&body.kind).expect("it was checked");
        let target = self.goes_to(caller, place, kind).await?;
        let at = caller.key(&target.session);
        let id = key.as_ref().map(id_of);
        for _ in 0..TRIES_MAX {
            let (similar, replaced, tail) = self.looked_at(&at, &target, &body, id.clone()).await?;
            let written = |id: EventId, position: Position| MemoryWritten {
                id,
                session: target.session.clone(),
                position,
                similar,
            };
            if let Some(id) = &id
                && let Some(position) = self.written_before(&at, id, &body).await?
            {
                return Ok(written(id.clone(), position));
            }
            replaced?;
            let of = MemoryBody { from: target.from.clone(), ..body.clone() };
            let mut new = event(kinds::MEMORY_ITEM, caller.origin, body::write(&of));
            new.id = id.clone();
            // What another caller supersedes in between is looked at again.
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

    /// Looks at what is there already: items that say much the same, whether the item may be
    /// superseded, and the tail.
    async fn looked_at(
        &self,
        at: &SessionKey,
        target: &Target,
        body: &MemoryBody,
        id: Option<EventId>,
    ) -> ServiceResult<(Vec<MemoryItem>, ServiceResult<()>, Option<Position>)> {
        let (of, text, name) = (body.supersedes.clone(), body.text.clone(), body.name.clone());
        let keeper = target.session.clone();
        let look = move |info: &SessionInfo, facts: &Facts| {
            let supersedes = of.as_deref().and_then(|id| EventId::new(id).ok());
            let replaced = |item: &MemoryItem| {
                Some(&item.id) == supersedes.as_ref()
                    || item.name.is_some() && item.name.as_deref() == name.as_deref()
            };
            let similar = facts.memory.similar(&text).into_iter();
            let is_other = |item: &&MemoryItem| !replaced(item) && Some(&item.id) != id.as_ref();
            let similar: Vec<MemoryItem> = similar.filter(is_other).cloned().collect();
            let may = of.as_ref().map_or(Ok(()), |of| {
                replaceable(facts, supersedes.as_ref()).map_err(|why| {
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

    async fn goes_to(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        kind: MemoryKind,
    ) -> ServiceResult<Target> {
        let needs_session = || {
            let problem = format!("{} memory belongs to a session", kind.as_str());
            ServiceError::invalid("kind", problem).action("name the session, or choose semantic")
        };
        match place {
            MemoryPlace::Session(session) => {
                let info = self.store.used(&caller.key(session)).await?;
                let notebook = info.workspace.as_deref().filter(|_| kind.is_lasting());
                match notebook {
                    Some(workspace) if !is_notebook(session) => Ok(Target {
                        session: self.notebook(caller, workspace).await?.0,
                        workspace: Some(workspace.to_owned()),
                        from: Some(PlaceBody {
                            session: session.to_string(),
                            position: info.tail.0,
                        }),
                    }),
                    None if is_notebook(session) => Err(needs_session()),
                    _ => Ok(Target { session: session.clone(), workspace: None, from: None }),
                }
            }
            MemoryPlace::Workspace(_) if !kind.is_lasting() => Err(needs_session()),
            MemoryPlace::Workspace(workspace) => {
                let chars = workspace.chars().count();
                if chars == 0 || chars > limits::WORKSPACE_CHARS_MAX {
                    let problem = format!("1 to {} characters", limits::WORKSPACE_CHARS_MAX);
                    return Err(ServiceError::invalid("workspace", problem));
                }
                let (session, _) = self.notebook(caller, workspace).await?;
                Ok(Target { session, workspace: Some(workspace.clone()), from: None })
            }
        }
    }

    /// The position of the item of that id, when the same call has written it.
    async fn written_before(
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
        let event = self.event_at(key, position).await?;
        let known = event.and_then(|event| body::read::<MemoryBody>(&event.body));
        if known.is_some_and(|known| MemoryBody { from: None, ..known } == *wanted) {
            return Ok(Some(position));
        }
        let message = "the key was used for another item";
        Err(ServiceError::new(Code::IdempotencyConflict, message).action("send another key"))
    }

    /// The items of a session and of the notebook of its workspace, newest first. Forgotten ones
    /// are not listed.
    ///
    /// # Errors
    /// `invalid_request`, and those of the session.
    pub async fn memory(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        query: MemoryQuery,
    ) -> ServiceResult<MemoryPage> {
        check_count("kinds", query.kinds.len())?;
        let limit = page_limit(query.limit)?;
        let kinds = kinds_of("kinds", &query.kinds)?;
        let skip = match &query.page {
            Some(page) => page::open::<1>("m", page)?[0].parse().unwrap_or(usize::MAX),
            None => 0,
        };
        let include_ended = query.include_ended;
        let wanted = move |item: &&MemoryItem| {
            (kinds.is_empty() || kinds.contains(&item.kind))
                && !matches!(item.state, MemoryState::Forgotten(_))
                && (include_ended || item.is_current())
        };
        let mut found = MemoryPage::default();
        for session in self.keepers(caller, place).await? {
            found.notebook = is_notebook(&session).then(|| session.clone()).or(found.notebook);
            let wanted = wanted.clone();
            let look = move |_: &SessionInfo, facts: &Facts| {
                let items: Vec<MemoryItem> = facts.memory.all().filter(wanted).cloned().collect();
                (items, facts.memory.left())
            };
            let (items, left) = self.peek_view(&caller.key(&session), look).await?;
            found.left += left;
            found
                .items
                .extend(items.into_iter().map(|item| KeptItem { session: session.clone(), item }));
        }
        found.items.sort_by(|one, other| {
            let place = |kept: &KeptItem| (kept.item.at, kept.item.position);
            place(other).cmp(&place(one)).then_with(|| one.session.cmp(&other.session))
        });
        let all = found.items.len();
        let end = skip.saturating_add(limit);
        found.items = found.items.into_iter().skip(skip).take(limit).collect();
        found.next_page = (end < all).then(|| page::seal("m", &[&end.to_string()]));
        Ok(found)
    }

    /// One item of a session or of the notebook of its workspace.
    ///
    /// # Errors
    /// `event_not_found`, and those of the session.
    pub async fn memory_item(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        id: &EventId,
    ) -> ServiceResult<KeptItem> {
        for session in self.keepers(caller, place).await? {
            let look = |facts: &Facts| facts.memory.get(id).cloned();
            let found = self.peek_facts(&caller.key(&session), |_, facts| look(facts)).await?;
            if let Some(item) = found {
                return Ok(KeptItem { session, item });
            }
        }
        Err(ServiceError::new(Code::EventNotFound, format!("there is no item {id} of memory"))
            .action("list the memory of the session for the ids of its items"))
    }

    /// Forgets an item: it is listed, found and recalled no more. The log keeps its event; to
    /// remove its bytes, redact it. Twice is once.
    ///
    /// # Errors
    /// `event_not_found`, and those of the session and the engine.
    pub async fn forget(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        id: &EventId,
    ) -> ServiceResult<KeptItem> {
        let kept = self.memory_item(caller, place, id).await?;
        if !matches!(kept.item.state, MemoryState::Forgotten(_)) {
            let body = body::write(&ForgottenBody { of: id.to_string() });
            let events = [event(kinds::MEMORY_FORGOTTEN, caller.origin, body)];
            let batch = Batch { events: events.into(), ..Batch::default() };
            let fence = caller.fence.filter(|_| !is_notebook(&kept.session));
            let caller = &Caller { fence, ..caller.clone() };
            self.append(caller, &kept.session, batch, false).await?;
        }
        Ok(kept)
    }

    /// The sessions that keep the memory of a place: itself, and the notebook of its workspace when
    /// there is one.
    pub(super) async fn keepers(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
    ) -> ServiceResult<Vec<SessionId>> {
        let mut keepers = Vec::new();
        let workspace = match place {
            MemoryPlace::Session(session) => {
                keepers.push(session.clone());
                self.store.used(&caller.key(session)).await?.workspace
            }
            MemoryPlace::Workspace(workspace) => Some(workspace.clone()),
        };
        if let Some(workspace) = workspace
            && !keepers.first().is_some_and(is_notebook)
        {
            keepers.extend(self.notebooks(caller, &workspace).await?);
        }
        Ok(keepers)
    }
}

/// Checks whether an item may be superseded; the error says why not, or nothing of one that is not
/// known.
fn replaceable(facts: &Facts, id: Option<&EventId>) -> Result<(), Option<String>> {
    let item = id.and_then(|id| facts.memory.get(id)).ok_or(None)?;
    Err(Some(match &item.state {
        MemoryState::Current => return Ok(()),
        MemoryState::Forgotten(at) => format!("it was forgotten at {at}"),
        MemoryState::Ended(at) => format!("it ended with its context at {at}"),
        MemoryState::Superseded(by) => match facts.memory.in_force(&item.id) {
            Some(holds) if holds.is_current() => {
                format!("it was superseded; {} holds in its place: supersede that one", holds.id)
            }
            _ => format!("it was superseded by {by}"),
        },
    }))
}

impl RememberCall {
    /// The body of the item.
    fn checked(self) -> ServiceResult<MemoryBody> {
        kinds_of("kind", std::slice::from_ref(&self.kind))?;
        let Self { text, kind, topic, tags, importance, name, supersedes, .. } = self;
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
}

/// Refuses what is no importance, of an item or of a mark.
pub(super) fn check_importance(importance: Option<u8>) -> ServiceResult<()> {
    match importance {
        Some(importance) if !(1..=IMPORTANCE_MAX).contains(&importance) => {
            Err(ServiceError::invalid("importance", "from 1 to 10"))
        }
        _ => Ok(()),
    }
}

/// The kinds of these names.
pub(super) fn kinds_of(field: &str, names: &[String]) -> ServiceResult<Vec<MemoryKind>> {
    let kind = |name: &String| {
        MemoryKind::named(name).ok_or_else(|| {
            let problem = "episodic, semantic, procedural or working is expected";
            ServiceError::invalid(field, problem)
        })
    };
    names.iter().map(kind).collect()
}

/// The id of the item that is written with a key.
fn id_of(key: &BatchKey) -> EventId {
    let context = "sessionlog v1 id of an item of memory";
    let hash = blake3::Hasher::new_derive_key(context).update(key.as_str().as_bytes()).finalize();
    let digits: String = hash.to_hex().chars().take(ID_DIGITS).collect();
    EventId::new(&format!("memory_{digits}")).expect("digits are characters of an id")
}
