//! `save`: records the data that only a client knows of its session, in one batch with a
//! checkpoint: the conversation in its words, context items, referenced files, and the workspace's
//! state. The log contains everything else, so an empty call suffices. It must not read a file.

use super::{
    Caller, Code, Service, ServiceError, ServiceResult,
    added::new_event,
    checkpoints::EarlierCall,
    links::{SAVED, is_secondary_import, saved_name},
    titles::title_of_name,
    values::{self, check_workspace},
};
use crate::{
    api::handoff::{NewFile, NewItem, SaveRequest, SavedAnswer},
    event::{Batch, BatchKey, NewEvent, NewNote, Position, SessionId, kinds},
    projection::{
        body::{self, ContextItemBody, FileBody, SavedBody, StateBody},
        checkpoints::Trigger,
    },
    store::{NewSession, SessionInfo, StoreError},
    traces::normalize_path,
};

/// Maximum number of retries after another writer appended concurrently.
const ATTEMPTS_MAX: usize = 20;
/// Maximum number of items and files of a call.
const ITEMS_MAX: usize = 500;
const FILES_MAX: usize = 490;
/// Maximum characters of a content, of a category and a name, and of a path, hash or time.
const CONTENT_CHARS_MAX: usize = 64_000;
const NAME_CHARS_MAX: usize = 120;
const PATH_CHARS_MAX: usize = 4_096;
/// Maximum characters of the conversation, and bytes of the workspace's state.
const CONTEXT_CHARS_MAX: usize = 1_000_000;
const STATE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of sessions searched for one with work.
const LATEST_MAX: usize = 32;
/// Number of hexadecimal digits in the id of a session created with a key.
const ID_DIGITS: usize = 24;

impl Service {
    /// Saves a session of a workspace; durable on return.
    ///
    /// # Errors
    /// `invalid_request` naming the invalid member, `session_not_found` for a session of another
    /// workspace and for a workspace without work, `idempotency_conflict`, and those of the session
    /// and the engine.
    pub async fn save_session(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: SaveRequest,
        batch_key: Option<BatchKey>,
    ) -> ServiceResult<SavedAnswer> {
        let session = values::parse_session("session_id", asked.session_id.as_deref())?;
        check_workspace(workspace)?;
        let (asked, outside) = check_and_normalise(asked, workspace, &self.restoring.files_roots)?;
        let batch_key = batch_key.as_ref();
        let (info, is_new) = match &session {
            Some(session) => (self.get_in_workspace(caller, workspace, session).await?, false),
            None => self.choose_to_save(caller, workspace, &asked, batch_key).await?,
        };
        let key = info.key.clone();
        let saved_at = |info: SessionInfo, position: Position, checkpoint: String| SavedAnswer {
            session_id: info.key.session,
            position,
            checkpoint,
            items: asked.context_items.len() as u64,
            files: asked.file_references.len() as u64,
            is_new,
            workspace: info.workspace.unwrap_or_default(),
            notices: notice_of_outside(&outside).into_iter().collect(),
        };
        for _ in 0..ATTEMPTS_MAX {
            let if_notes = match self.find_earlier_call(&key, batch_key).await? {
                EarlierCall::Made(known, _) => {
                    return Ok(saved_at(info, known.position, known.id));
                }
                EarlierCall::New { if_notes } => if_notes,
            };
            let info = self.store.info(&key).await?;
            let made = self.labelled_note(&info, batch_key, Trigger::Manual, SAVED);
            let note = NewNote { if_notes, ..made };
            let checkpoint = note.name.clone();
            let events = build_events(&asked, caller);
            let after = info.tail.plus(events.len() as u64);
            let has_context = is_new && asked.conversation_context.is_some();
            let title = Some(after.minus(1).to_string()).filter(|_| has_context);
            let title = title.map(|position| (title_of_name(), Some(position)));
            let batch = Batch {
                events: events.into(),
                note: Some(note),
                if_position: Some(info.tail),
                metadata: [(saved_name(), Some(after.to_string()))]
                    .into_iter()
                    .chain(title)
                    .collect(),
                ..Batch::default()
            };
            match self.append(caller, &key.session, batch, false).await {
                Ok(_) => return Ok(saved_at(info, after, checkpoint)),
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(ServiceError::new(Code::PositionConflict, "others write to the session all the time")
            .action("call again"))
    }

    /// Returns the session that a call without an id saves; true if the call created it.
    async fn choose_to_save(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: &SaveRequest,
        batch_key: Option<&BatchKey>,
    ) -> ServiceResult<(SessionInfo, bool)> {
        let mut latest = None;
        for info in self.list_latest(caller, Some(&workspace.to_owned()), LATEST_MAX).await? {
            // A retry saves the same session as its first attempt, regardless of later writes.
            if let Some(key) = batch_key
                && let Ok(EarlierCall::Made(..)) =
                    self.find_earlier_call(&info.key, Some(key)).await
            {
                let is_new = info.key.session == keyed_session_id(workspace, key);
                return Ok((info, is_new));
            }
            if latest.is_none() && !is_secondary_import(&info) && self.has_work(&info).await {
                latest = Some(info);
            }
        }
        match latest {
            Some(info) => Ok((info, false)),
            None if has_content(asked) => {
                Ok((self.create_or_find(caller, workspace, batch_key).await?, true))
            }
            None => Err(Self::no_session_error(workspace, None)),
        }
    }

    /// Creates a session in a workspace, or returns the one with the same key for a retry.
    async fn create_or_find(
        &self,
        caller: &Caller,
        workspace: &str,
        batch_key: Option<&BatchKey>,
    ) -> ServiceResult<SessionInfo> {
        let id = batch_key.map(|key| keyed_session_id(workspace, key));
        let new = NewSession {
            id: id.clone(),
            workspace: Some(workspace.to_owned()),
            ..NewSession::default()
        };
        self.reserve_quota(&caller.scope.tenant, 1, 1, new.text_bytes()).await?;
        match (self.await_durable(self.store.create(&caller.scope, new)).await, id) {
            (Ok((info, _)), _) => Ok(info),
            (Err(StoreError::SessionExists { .. }), Some(id)) => {
                Ok(self.store.info(&caller.key(&id)).await?)
            }
            (Err(error), _) => Err(super::store_error::write_error(error)),
        }
    }
}

/// Returns true if a call contains data that the log does not have.
fn has_content(asked: &SaveRequest) -> bool {
    asked.conversation_context.is_some()
        || !asked.context_items.is_empty()
        || !asked.file_references.is_empty()
        || asked.workspace_state.is_some()
}

/// Returns the events of a call: the saved data, followed by the record of the save.
fn build_events(asked: &SaveRequest, caller: &Caller) -> Vec<NewEvent> {
    let made = |kind, body| new_event(kind, caller.origin, body);
    let item = |item: &NewItem| {
        let NewItem { id, category, content, importance } = item.clone();
        let body = ContextItemBody { item_id: id, category, content, importance };
        made(kinds::CONTEXT_ITEM, body::write(&body))
    };
    let file = |file: &NewFile| {
        let NewFile { path, hash, last_modified, bytes } = file.clone();
        let body = FileBody { path, hash, modified_at: last_modified, bytes };
        made(kinds::FILE_REFERENCED, body::write(&body))
    };
    let state = asked.workspace_state.as_ref();
    let state = state.map(|state| {
        made(kinds::WORKSPACE_STATE, body::write(&StateBody { state: state.clone() }))
    });
    let saved = SavedBody {
        tokens: asked.token_count,
        items: asked.context_items.len() as u64,
        files: asked.file_references.len() as u64,
        context: asked.conversation_context.clone(),
    };
    let saved = made(kinds::SESSION_SAVED, body::write(&saved));
    let items = asked.context_items.iter().map(item);
    items.chain(asked.file_references.iter().map(file)).chain(state).chain([saved]).collect()
}

/// Checks a call's limits, and normalises and deduplicates its paths; also returns the paths of
/// files outside of the workspace and the roots.
fn check_and_normalise(
    mut asked: SaveRequest,
    workspace: &str,
    roots: &[String],
) -> ServiceResult<(SaveRequest, Vec<String>)> {
    let (items, files) = (asked.context_items.len(), asked.file_references.len());
    if items > ITEMS_MAX {
        let problem = format!("{items} items; {ITEMS_MAX} are allowed");
        return Err(ServiceError::invalid("context_items", problem));
    }
    if files > FILES_MAX {
        let problem = format!("{files} files; {FILES_MAX} are allowed");
        return Err(ServiceError::invalid("file_references", problem));
    }
    for (at, item) in asked.context_items.iter().enumerate() {
        check_item(at, item)?;
    }
    let mut outside = Vec::new();
    let mut kept: Vec<NewFile> = Vec::new();
    for (at, file) in asked.file_references.into_iter().enumerate() {
        let path = normalise_path(at, &file.path, workspace)?;
        if is_outside(&path, workspace, roots) {
            outside.push(path);
        } else {
            kept.retain(|known| known.path != path);
            kept.push(NewFile { path, ..file });
        }
    }
    asked.file_references = kept;
    asked.conversation_context = asked.conversation_context.filter(|text| !text.trim().is_empty());
    let chars = asked.conversation_context.as_ref().map_or(0, |text| text.chars().count());
    if chars > CONTEXT_CHARS_MAX {
        let problem = format!("{chars} characters; {CONTEXT_CHARS_MAX} are allowed");
        return Err(ServiceError::invalid("conversation_context", problem));
    }
    let state = asked.workspace_state.as_ref().map(serde_json::to_string);
    let state = state.transpose().map_err(|e| ServiceError::invalid("workspace_state", e))?;
    let bytes = state.map_or(0, |text| text.len());
    if bytes > STATE_BYTES_MAX {
        let problem = format!("{bytes} bytes; {STATE_BYTES_MAX} are allowed");
        return Err(ServiceError::invalid("workspace_state", problem));
    }
    Ok((asked, outside))
}

fn check_item(at: usize, item: &NewItem) -> ServiceResult<()> {
    let field = |name: &str| format!("context_items[{at}].{name}");
    for (name, text, max) in [
        ("category", Some(&item.category), NAME_CHARS_MAX),
        ("id", item.id.as_ref(), NAME_CHARS_MAX),
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

/// Normalises a path: relative to the workspace if inside it.
fn normalise_path(at: usize, path: &str, workspace: &str) -> ServiceResult<String> {
    let refused =
        |problem: &str| ServiceError::invalid(&format!("file_references[{at}].path"), problem);
    if path.is_empty() || path.chars().count() > PATH_CHARS_MAX {
        return Err(refused("1 to 4096 characters"));
    }
    if path.chars().any(char::is_control) {
        return Err(refused("it has control characters"));
    }
    let kept = normalize_path(path, Some(workspace), None);
    let kept = kept.ok_or_else(|| refused("it names no file of the workspace"))?;
    match kept.starts_with('/') && !path.starts_with('/') {
        true => Err(refused("it leaves the workspace")),
        false => Ok(kept),
    }
}

/// Returns true if a normalised path is outside of the workspace and the roots; false if the
/// workspace is not a path.
fn is_outside(path: &str, workspace: &str, roots: &[String]) -> bool {
    let is_below =
        |root: &String| path.strip_prefix(&**root).is_some_and(|rest| rest.starts_with('/'));
    workspace.starts_with('/') && path.starts_with('/') && !roots.iter().any(is_below)
}

/// Returns a notice about rejected files outside of the workspace.
fn notice_of_outside(outside: &[String]) -> Option<String> {
    let first = outside.first()?;
    let others = match outside.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "left out, because it is outside of the workspace and of files_roots: {first}{others}"
    ))
}

fn keyed_session_id(workspace: &str, key: &BatchKey) -> SessionId {
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 id of a saved session");
    let hash = hasher.update(workspace.as_bytes()).update(&[0]).update(key.as_str().as_bytes());
    let digits: String = hash.finalize().to_hex().chars().take(ID_DIGITS).collect();
    SessionId::new(&format!("saved_{digits}")).expect("digits are characters of an id")
}
