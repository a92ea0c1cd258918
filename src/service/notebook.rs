//! The notebook of a workspace: a session created by the server that keeps knowledge beyond single
//! sessions. Its id is derived from its first workspace; if it was moved to another, an empty
//! session with that workspace's notebook id points to it. It is never bound, offered or listed,
//! and does not expire. It must not interpret its content.

use super::{
    Caller, Code, RESERVED_METADATA, Service, ServiceError, ServiceResult, store_error::write_error,
};
use crate::{
    event::{SessionId, limits, text::clip},
    store::{Criterion, NewSession, SessionInfo, StoreError, is_hex_id},
};

/// Prefix of a notebook's id, and the number of hexadecimal digits after it.
const PREFIX: &str = "notebook.";
const DIGITS: usize = 32;

/// Number of possible ids per workspace: the id of an erased notebook is not free at once.
const IDS: u8 = 8;

/// Returns an id of a workspace's notebook, the same in every scope.
fn notebook_id(workspace: &str, number: u8) -> SessionId {
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 notebook of a workspace");
    let hash = hasher.update(&[number]).update(workspace.as_bytes()).finalize();
    let digits: String = hash.to_hex().chars().take(DIGITS).collect();
    SessionId::new(&format!("{PREFIX}{digits}")).expect("digits are characters of an id")
}

/// Returns the metadata name with which an empty session points to a notebook's id.
fn pointer_name() -> String {
    format!("{RESERVED_METADATA}notebook")
}

pub(super) fn notebook_title(workspace: &str) -> String {
    clip(&format!("Notebook of {workspace}"), limits::TITLE_CHARS_MAX)
}

/// Returns true if an id is that of a notebook.
#[must_use]
pub fn is_notebook(session: &SessionId) -> bool {
    is_hex_id(session, PREFIX, DIGITS)
}

pub(super) fn exclude_notebooks() -> Criterion {
    Criterion::negate(Criterion::HexId(PREFIX.to_owned(), DIGITS))
}

/// Rejects a client's new session with the id of a notebook.
///
/// # Errors
/// `invalid_request`.
pub(super) fn check_not_notebook(session: &SessionId) -> ServiceResult<()> {
    if is_notebook(session) {
        return Err(ServiceError::invalid("id", "ids of this form are those of notebooks")
            .action("choose another id, or write to the memory of the workspace"));
    }
    Ok(())
}

impl Service {
    /// Returns the id of a workspace's notebook; true if it exists.
    ///
    /// # Errors
    /// `limit_reached` if too many were erased recently, and those of the store.
    pub(super) async fn find_notebook(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<(SessionId, bool)> {
        let mut free = None;
        for number in 0..IDS {
            let session = notebook_id(workspace, number);
            match self.store.info(&caller.key(&session)).await {
                Ok(info) => {
                    if let Some(found) = self.resolve_notebook(caller, info, workspace).await? {
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

    /// Returns all notebooks of a workspace: several if one was deleted and restored later.
    pub(super) async fn list_notebooks(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<Vec<SessionId>> {
        let mut found = Vec::new();
        for number in 0..IDS {
            let session = notebook_id(workspace, number);
            match self.store.info(&caller.key(&session)).await.map_err(ServiceError::from) {
                Ok(info) => found.extend(self.resolve_notebook(caller, info, workspace).await?),
                Err(error) if error.code.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Returns the notebook that a session is or points to, if it belongs to the workspace: it may
    /// have been moved to another.
    async fn resolve_notebook(
        &self,
        caller: &Caller,
        info: SessionInfo,
        workspace: &str,
    ) -> ServiceResult<Option<SessionId>> {
        let is_of = |info: &SessionInfo| info.workspace.as_deref() == Some(workspace);
        if !is_of(&info) {
            return Ok(None);
        }
        let Some(notebook) = info.metadata.get(&pointer_name()) else {
            return Ok(Some(info.key.session));
        };
        let Ok(notebook) = SessionId::new(notebook) else { return Ok(None) };
        match self.store.info(&caller.key(&notebook)).await.map_err(ServiceError::from) {
            Ok(found) => Ok(is_of(&found).then_some(notebook)),
            Err(error) if error.code.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates pointers in a workspace to a notebook that is about to be moved to it.
    pub(super) async fn create_notebook_pointer(
        &self,
        caller: &Caller,
        notebook: &SessionId,
        workspace: &str,
    ) -> ServiceResult<()> {
        let moved = self.store.info(&caller.key(notebook)).await?;
        if moved.metadata.contains_key(&pointer_name()) {
            return Ok(());
        }
        for number in 0..IDS {
            let id = notebook_id(workspace, number);
            if id == *notebook {
                return Ok(());
            }
            let new = NewSession {
                id: Some(id.clone()),
                title: Some(notebook_title(workspace)),
                workspace: Some(workspace.to_owned()),
                metadata: [(pointer_name(), notebook.to_string())].into(),
                ttl_seconds: Some(0),
                ..NewSession::default()
            };
            match self.store.info(&caller.key(&id)).await {
                Ok(info) if info.metadata.get(&pointer_name()) == Some(&notebook.to_string()) => {
                    return Ok(());
                }
                Err(StoreError::SessionNotFound { .. }) => {
                    self.reserve_quota(&caller.scope.tenant, 1, 1, new.text_bytes()).await?;
                    match self.await_durable(self.store.create(&caller.scope, new)).await {
                        Ok(_) => return Ok(()),
                        // Another caller created it concurrently.
                        Err(StoreError::SessionExists { .. }) => {}
                        Err(error) => return Err(write_error(error)),
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
    fn notebook_ids_differ_by_workspace_and_clients_cannot_create_them() {
        let one = notebook_id("/work/bank", 0);
        assert!(is_notebook(&one) && one == notebook_id("/work/bank", 0), "{one}");
        assert_ne!(one, notebook_id("/work/bank/", 0));
        assert_ne!(one, notebook_id("/work/bank", 1));
        for other in ["notebook", "notebook.2026", &one.as_str().to_uppercase(), "trip"] {
            let other = SessionId::new(other).expect("an id");
            assert!(!is_notebook(&other) && check_not_notebook(&other).is_ok(), "{other}");
        }
        assert_eq!(check_not_notebook(&one).expect_err("reserved").code, Code::InvalidRequest);
    }
}
