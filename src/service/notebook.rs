//! The notebook of a workspace: a session of the server's own making that keeps what was learned in
//! no single session of it. Its id follows from the workspace that it was begun in; where it was
//! moved to another, an empty session with an id of that one names it. It is bound, offered and
//! listed nowhere, and does not expire. It must not know what it keeps.

use super::{
    Caller, Code, RESERVED_METADATA, Service, ServiceError, ServiceResult, store_error::unwritten,
};
use crate::{
    event::{SessionId, limits, text::clip},
    store::{Criterion, NewSession, SessionInfo, StoreError},
};

/// Prefix of the id of a notebook, and the hexadecimal digits behind that.
const PREFIX: &str = "notebook.";
const DIGITS: usize = 32;

/// Ids that a workspace may have: that of an erased notebook is not free at once.
const IDS: u8 = 8;

/// An id of a workspace's notebook, in every scope the same.
fn notebook_of(workspace: &str, number: u8) -> SessionId {
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 notebook of a workspace");
    let hash = hasher.update(&[number]).update(workspace.as_bytes()).finalize();
    let digits: String = hash.to_hex().chars().take(DIGITS).collect();
    SessionId::new(&format!("{PREFIX}{digits}")).expect("digits are characters of an id")
}

/// Metadata of an empty session that stands for a notebook: the id of that one.
fn pointer() -> String {
    format!("{RESERVED_METADATA}notebook")
}

pub(super) fn title_of(workspace: &str) -> String {
    clip(&format!("Notebook of {workspace}"), limits::TITLE_CHARS_MAX)
}

/// True if an id is one of a notebook.
#[must_use]
pub fn is_notebook(session: &SessionId) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = session.as_str().strip_prefix(PREFIX);
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(is_digit))
}

/// The condition of the sessions that are no notebooks.
pub(super) fn no_notebook() -> Criterion {
    Criterion::not(Criterion::HexId(PREFIX.to_owned(), DIGITS))
}

/// Refuses a client's new session with the id of a notebook.
///
/// # Errors
/// `invalid_request`.
pub(super) fn refuse_reserved(session: &SessionId) -> ServiceResult<()> {
    if is_notebook(session) {
        return Err(ServiceError::invalid("id", "ids of this form are those of notebooks")
            .action("choose another id, or write to the memory of the workspace"));
    }
    Ok(())
}

impl Service {
    /// The notebook of a workspace, and whether it is there already.
    ///
    /// # Errors
    /// `limit_reached` when too many were erased lately, and those of the store.
    pub(super) async fn notebook(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<(SessionId, bool)> {
        let mut free = None;
        for number in 0..IDS {
            let session = notebook_of(workspace, number);
            match self.store.info(&caller.key(&session)).await {
                Ok(info) => {
                    if let Some(found) = self.pointed_at(caller, info, workspace).await? {
                        return Ok((found, true));
                    }
                }
                Err(StoreError::SessionNotFound { .. }) => free = free.or(Some(session)),
                Err(StoreError::SessionDeleted { .. } | StoreError::SessionExpired { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let free = free.map(|session| (session, false));
        free.ok_or_else(|| {
            let message = format!("{IDS} notebooks of this workspace were erased lately");
            ServiceError::new(Code::LimitReached, message)
                .action("wait until the grace period of one has ended")
        })
    }

    /// All notebooks of a workspace: more than one, where one was deleted and restored later.
    pub(super) async fn notebooks(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<Vec<SessionId>> {
        let mut found = Vec::new();
        for number in 0..IDS {
            let session = notebook_of(workspace, number);
            match self.store.info(&caller.key(&session)).await.map_err(ServiceError::from) {
                Ok(info) => found.extend(self.pointed_at(caller, info, workspace).await?),
                Err(error) if error.code.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The notebook that a session with the id of one is or names, where that is one of the
    /// workspace: it may have been moved to another.
    async fn pointed_at(
        &self,
        caller: &Caller,
        info: SessionInfo,
        workspace: &str,
    ) -> ServiceResult<Option<SessionId>> {
        let is_of = |info: &SessionInfo| info.workspace.as_deref() == Some(workspace);
        if !is_of(&info) {
            return Ok(None);
        }
        let Some(notebook) = info.metadata.get(&pointer()) else {
            return Ok(Some(info.key.session));
        };
        let Ok(notebook) = SessionId::new(notebook) else { return Ok(None) };
        match self.store.info(&caller.key(&notebook)).await.map_err(ServiceError::from) {
            Ok(found) => Ok(is_of(&found).then_some(notebook)),
            Err(error) if error.code.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has a workspace find a notebook that is about to be moved to it.
    pub(super) async fn point_at_notebook(
        &self,
        caller: &Caller,
        notebook: &SessionId,
        workspace: &str,
    ) -> ServiceResult<()> {
        let moved = self.store.info(&caller.key(notebook)).await?;
        if moved.metadata.contains_key(&pointer()) {
            return Ok(());
        }
        for number in 0..IDS {
            let id = notebook_of(workspace, number);
            if id == *notebook {
                return Ok(());
            }
            let new = NewSession {
                id: Some(id.clone()),
                title: Some(title_of(workspace)),
                workspace: Some(workspace.to_owned()),
                metadata: [(pointer(), notebook.to_string())].into(),
                ttl_seconds: Some(0),
                ..NewSession::default()
            };
            match self.store.info(&caller.key(&id)).await {
                Ok(info) if info.metadata.get(&pointer()) == Some(&notebook.to_string()) => {
                    return Ok(());
                }
                Err(StoreError::SessionNotFound { .. }) => {
                    self.room_for(&caller.scope.tenant, 1, 1, new.text_bytes()).await?;
                    match self.durable(self.store.create(&caller.scope, new)).await {
                        Ok(_) => return Ok(()),
                        // Another caller took it in between.
                        Err(StoreError::SessionExists { .. }) => {}
                        Err(error) => return Err(unwritten(error)),
                    }
                }
                _ => {}
            }
        }
        let message = format!("{workspace} has {IDS} notebooks already");
        Err(ServiceError::new(Code::LimitReached, message)
            .action("move to another name, or erase a notebook that is not needed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workspace_has_a_notebook_of_its_own() {
        let one = notebook_of("/work/bank", 0);
        assert!(is_notebook(&one) && one == notebook_of("/work/bank", 0), "{one}");
        assert_ne!(one, notebook_of("/work/bank/", 0));
        assert_ne!(one, notebook_of("/work/bank", 1));
        for other in ["notebook", "notebook.2026", &one.as_str().to_uppercase(), "trip"] {
            let other = SessionId::new(other).expect("an id");
            assert!(!is_notebook(&other) && refuse_reserved(&other).is_ok(), "{other}");
        }
        assert_eq!(refuse_reserved(&one).expect_err("reserved").code, Code::InvalidRequest);
    }
}
