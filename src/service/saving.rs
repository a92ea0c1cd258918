//! `save`: what a client knows of its session beside the log is recorded in one batch, with a
//! checkpoint: the conversation in its words, context items, files that it refers to, the state of
//! the workspace. The log has everything else, so that a bare call is enough. It must not read a
//! file.

use serde_json::{Map, Value};

use super::{
    Caller, Code, Service, ServiceError, ServiceResult,
    added::event,
    checkpoints::Before,
    is_notebook,
    line::{SAVED, is_beside, saved},
    titles::title_of,
};
use crate::{
    event::{Batch, BatchKey, NewEvent, NewNote, Position, SessionId, kinds, limits},
    projection::{
        body::{self, ContextItemBody, FileBody, SavedBody, StateBody},
        checkpoints::Trigger,
        placed,
    },
    store::{NewSession, SessionInfo, StoreError},
};

/// Retries after another writer appended in between.
const ATTEMPTS_MAX: usize = 20;
/// Items and files of a call.
const ITEMS_MAX: usize = 500;
const FILES_MAX: usize = 490;
/// Characters of a content, of a category and a name, of a path, of a hash or a time.
const CONTENT_CHARS_MAX: usize = 64_000;
const NAME_CHARS_MAX: usize = 120;
const PATH_CHARS_MAX: usize = 4_096;
/// Characters of the conversation, and bytes of the state of the workspace.
const CONTEXT_CHARS_MAX: usize = 1_000_000;
const STATE_BYTES_MAX: usize = 64 << 10;
/// Sessions among which the one with work is looked for.
const LATEST_MAX: usize = 32;
/// Hexadecimal digits of the id of a session that was begun with a key.
const ID_DIGITS: usize = 24;

/// What is saved.
#[derive(Clone, Debug, Default)]
pub struct SaveCall {
    /// The session; left out: the latest with work, or a new one for what is said where there is
    /// none.
    pub session: Option<SessionId>,
    /// The conversation, in the client's words.
    pub context: Option<String>,
    /// Its tokens, as the client counts them.
    pub tokens: Option<u64>,
    /// Context items.
    pub items: Vec<ContextItemBody>,
    /// Files that it refers to.
    pub files: Vec<FileBody>,
    /// The state of the workspace.
    pub state: Option<Map<String, Value>>,
    /// A retry with the same key writes nothing more.
    pub key: Option<BatchKey>,
}

/// A saved session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSession {
    /// The session.
    pub session: SessionId,
    /// The position after what was saved.
    pub position: Position,
    /// Id of the checkpoint there, labelled `saved`.
    pub checkpoint: String,
    /// Context items and files of the call.
    pub items: usize,
    /// Files of the call.
    pub files: usize,
    /// Whether the session was begun with this call.
    pub is_new: bool,
    /// Its workspace.
    pub workspace: String,
    /// What the caller should know of what was saved.
    pub notices: Vec<String>,
}

impl Service {
    /// Saves a session of a workspace; durable when this returns.
    ///
    /// # Errors
    /// `invalid_request` naming what does not fit, `session_not_found` for a session of another
    /// workspace and for a workspace without work, `idempotency_conflict`, and those of the session
    /// and the engine.
    pub async fn save_session(
        &self,
        caller: &Caller,
        workspace: &str,
        call: SaveCall,
    ) -> ServiceResult<SavedSession> {
        check_workspace(workspace)?;
        let (call, outside) = call.checked(workspace, &self.restoring.files_roots)?;
        let (info, is_new) = self.to_save(caller, workspace, &call).await?;
        let key = info.key.clone();
        for _ in 0..ATTEMPTS_MAX {
            let if_notes = match self.made_before(&key, call.key.as_ref()).await? {
                Before::Made(known, _) => {
                    return Ok(call.saved(&info, known.position, known.id, is_new, &outside));
                }
                Before::New { if_notes } => if_notes,
            };
            let info = self.store.info(&key).await?;
            let made = self.labelled_note(&info, call.key.as_ref(), Trigger::Manual, SAVED);
            let note = NewNote { if_notes, ..made };
            let checkpoint = note.name.clone();
            let events = call.events(caller);
            let after = info.tail.plus(events.len() as u64);
            let title =
                Some(after.minus(1).to_string()).filter(|_| is_new && call.context.is_some());
            let title = title.map(|place| (title_of(), Some(place)));
            let batch = Batch {
                events: events.into(),
                note: Some(note),
                if_position: Some(info.tail),
                metadata: [(saved(), Some(after.to_string()))].into_iter().chain(title).collect(),
                ..Batch::default()
            };
            match self.append(caller, &key.session, batch, false).await {
                Ok(_) => return Ok(call.saved(&info, after, checkpoint, is_new, &outside)),
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(ServiceError::new(Code::PositionConflict, "others write to the session all the time")
            .action("call again"))
    }

    /// The session that a call saves, and whether it was begun with it.
    async fn to_save(
        &self,
        caller: &Caller,
        workspace: &str,
        call: &SaveCall,
    ) -> ServiceResult<(SessionInfo, bool)> {
        if let Some(session) = &call.session {
            return Ok((self.in_workspace(caller, workspace, session).await?, false));
        }
        let mut latest = None;
        for info in self.latest(caller, Some(&workspace.to_owned()), LATEST_MAX).await? {
            // A retry saves what its first call did, whatever was written since.
            if let Some(key) = &call.key
                && let Ok(Before::Made(..)) = self.made_before(&info.key, Some(key)).await
            {
                let is_new = info.key.session == session_of(workspace, key);
                return Ok((info, is_new));
            }
            if latest.is_none() && !is_beside(&info) && self.has_work(&info).await {
                latest = Some(info);
            }
        }
        match latest {
            Some(info) => Ok((info, false)),
            None if call.says_something() => Ok((self.begun(caller, workspace, call).await?, true)),
            None => Err(Self::none_in(workspace, None)),
        }
    }

    /// A session of work of a workspace, as a use of it: its notebook is none.
    pub(super) async fn in_workspace(
        &self,
        caller: &Caller,
        workspace: &str,
        session: &SessionId,
    ) -> ServiceResult<SessionInfo> {
        let info = self.store.used(&caller.key(session)).await?;
        if info.workspace.as_deref() != Some(workspace) || is_notebook(session) {
            return Err(Self::none_in(workspace, Some(session)));
        }
        Ok(info)
    }

    /// A new session of a workspace; that of the same key, when the call is a retry.
    async fn begun(
        &self,
        caller: &Caller,
        workspace: &str,
        call: &SaveCall,
    ) -> ServiceResult<SessionInfo> {
        let id = call.key.as_ref().map(|key| session_of(workspace, key));
        let new = NewSession {
            id: id.clone(),
            workspace: Some(workspace.to_owned()),
            ..NewSession::default()
        };
        self.room_for(&caller.scope.tenant, 1, 1, new.text_bytes()).await?;
        match (self.durable(self.store.create(&caller.scope, new)).await, id) {
            (Ok((info, _)), _) => Ok(info),
            (Err(StoreError::SessionExists { .. }), Some(id)) => {
                Ok(self.store.info(&caller.key(&id)).await?)
            }
            (Err(error), _) => Err(super::store_error::unwritten(error)),
        }
    }
}

impl SaveCall {
    /// Whether it says anything that the log does not have.
    fn says_something(&self) -> bool {
        self.context.is_some()
            || !self.items.is_empty()
            || !self.files.is_empty()
            || self.state.is_some()
    }

    fn saved(
        &self,
        info: &SessionInfo,
        position: Position,
        checkpoint: String,
        is_new: bool,
        outside: &[String],
    ) -> SavedSession {
        let (items, files) = (self.items.len(), self.files.len());
        let session = info.key.session.clone();
        let workspace = info.workspace.clone().unwrap_or_default();
        let notices = said_of(outside).into_iter().collect();
        SavedSession { session, position, checkpoint, items, files, is_new, workspace, notices }
    }

    /// The events of the call: what was saved, and last that it was.
    fn events(&self, caller: &Caller) -> Vec<NewEvent> {
        let made = |kind, body| event(kind, caller.origin, body);
        let items = self.items.iter().map(|item| made(kinds::CONTEXT_ITEM, body::write(item)));
        let files = self.files.iter().map(|file| made(kinds::FILE_REFERENCED, body::write(file)));
        let state = self.state.as_ref();
        let state = state.map(|state| {
            made(kinds::WORKSPACE_STATE, body::write(&StateBody { state: state.clone() }))
        });
        let said = SavedBody {
            tokens: self.tokens,
            items: self.items.len() as u64,
            files: self.files.len() as u64,
            context: self.context.clone(),
        };
        let said = made(kinds::SESSION_SAVED, body::write(&said));
        items.chain(files).chain(state).chain([said]).collect()
    }

    /// The call within its limits, with paths as they are kept, each once; and the paths of files
    /// that are neither in the workspace nor below one of the roots.
    fn checked(mut self, workspace: &str, roots: &[String]) -> ServiceResult<(Self, Vec<String>)> {
        if self.items.len() > ITEMS_MAX {
            let problem = format!("{} items; {ITEMS_MAX} are allowed", self.items.len());
            return Err(ServiceError::invalid("context_items", problem));
        }
        if self.files.len() > FILES_MAX {
            let problem = format!("{} files; {FILES_MAX} are allowed", self.files.len());
            return Err(ServiceError::invalid("file_references", problem));
        }
        for (at, item) in self.items.iter().enumerate() {
            check_item(at, item)?;
        }
        let mut outside = Vec::new();
        let mut kept: Vec<FileBody> = Vec::new();
        for (at, file) in self.files.into_iter().enumerate() {
            let path = path_of(at, &file.path, workspace)?;
            if is_outside(&path, workspace, roots) {
                outside.push(path);
            } else {
                kept.retain(|known| known.path != path);
                kept.push(FileBody { path, ..file });
            }
        }
        self.files = kept;
        self.context = self.context.filter(|text| !text.trim().is_empty());
        let chars = self.context.as_ref().map_or(0, |text| text.chars().count());
        if chars > CONTEXT_CHARS_MAX {
            let problem = format!("{chars} characters; {CONTEXT_CHARS_MAX} are allowed");
            return Err(ServiceError::invalid("conversation_context", problem));
        }
        let state = self.state.as_ref().map(serde_json::to_string);
        let state = state.transpose().map_err(|e| ServiceError::invalid("workspace_state", e))?;
        let bytes = state.map_or(0, |text| text.len());
        if bytes > STATE_BYTES_MAX {
            let problem = format!("{bytes} bytes; {STATE_BYTES_MAX} are allowed");
            return Err(ServiceError::invalid("workspace_state", problem));
        }
        Ok((self, outside))
    }
}

fn check_item(at: usize, item: &ContextItemBody) -> ServiceResult<()> {
    let field = |name: &str| format!("context_items[{at}].{name}");
    for (name, text, max) in [
        ("category", Some(&item.category), NAME_CHARS_MAX),
        ("id", item.item_id.as_ref(), NAME_CHARS_MAX),
        ("content", Some(&item.content), CONTENT_CHARS_MAX),
    ] {
        let Some(text) = text else { continue };
        let chars = text.chars().count();
        if text.trim().is_empty() || chars > max {
            let problem = format!("1 to {max} characters, not {chars}");
            return Err(ServiceError::invalid(&field(name), problem));
        }
    }
    super::memory::check_importance(item.importance)
        .map_err(|_| ServiceError::invalid(&field("importance"), "from 1 to 10"))
}

/// A path as it is kept: below the workspace from there.
fn path_of(at: usize, path: &str, workspace: &str) -> ServiceResult<String> {
    let refused =
        |problem: &str| ServiceError::invalid(&format!("file_references[{at}].path"), problem);
    if path.is_empty() || path.chars().count() > PATH_CHARS_MAX {
        return Err(refused("1 to 4096 characters"));
    }
    if path.chars().any(char::is_control) {
        return Err(refused("it has control characters"));
    }
    let kept = placed(path, Some(workspace), None);
    let kept = kept.ok_or_else(|| refused("it names no file of the workspace"))?;
    match kept.starts_with('/') && !path.starts_with('/') {
        true => Err(refused("it leaves the workspace")),
        false => Ok(kept),
    }
}

/// Whether a path that is kept is neither in the workspace nor below one of the roots. Of a
/// workspace that is no path nothing is known.
fn is_outside(path: &str, workspace: &str, roots: &[String]) -> bool {
    let is_below =
        |root: &String| path.strip_prefix(&**root).is_some_and(|rest| rest.starts_with('/'));
    workspace.starts_with('/') && path.starts_with('/') && !roots.iter().any(is_below)
}

/// What a caller should know of files that are no references.
fn said_of(outside: &[String]) -> Option<String> {
    let first = outside.first()?;
    let others = match outside.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "left out, because it is outside of the workspace and of files_roots: {first}{others}"
    ))
}

/// Refuses what is no name of a workspace.
pub(super) fn check_workspace(workspace: &str) -> ServiceResult<()> {
    let chars = workspace.chars().count();
    if chars == 0 || chars > limits::WORKSPACE_CHARS_MAX {
        let problem = format!("1 to {} characters", limits::WORKSPACE_CHARS_MAX);
        return Err(ServiceError::invalid("workspace", problem));
    }
    Ok(())
}

/// The id of the session that is begun with a key.
fn session_of(workspace: &str, key: &BatchKey) -> SessionId {
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 id of a saved session");
    let hash = hasher.update(workspace.as_bytes()).update(&[0]).update(key.as_str().as_bytes());
    let digits: String = hash.finalize().to_hex().chars().take(ID_DIGITS).collect();
    SessionId::new(&format!("saved_{digits}")).expect("digits are characters of an id")
}
