//! `move`: renames a workspace whose directory was renamed, with its sessions and its notebook of
//! memory and graph. Each session is moved separately and durably, so repeating an interrupted call
//! moves the rest. It must not copy an event, nor move workspaces below it: a workspace is
//! identified by its whole name.

use futures_util::future::join_all;

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, is_notebook, values::check_workspace,
};
use crate::{
    api::handoff::{LeftBehind, MovedAnswer},
    event::{SessionId, WORKSPACE_MOVED, limits},
    store::{Listing, SessionUpdate},
};

/// Number of sessions moved concurrently.
const AT_ONCE: usize = 64;
/// Maximum number of unmoved sessions named in a report.
const NAMED_MAX: usize = 20;

/// Error codes after which one session stays while others are moved.
const REFUSALS: [Code; 3] = [Code::SessionDamaged, Code::LeaseHeld, Code::LeaseLost];

impl Service {
    /// Moves the sessions of a workspace to another one, which may have sessions already.
    ///
    /// # Errors
    /// `invalid_request` for an invalid or unchanged name; `limit_reached` if the other one has too
    /// many notebooks; and those of the engine. A session that cannot be moved is reported.
    pub async fn move_workspace(
        &self,
        caller: &Caller,
        from: &str,
        to: &str,
    ) -> ServiceResult<MovedAnswer> {
        check_workspace(from)?;
        check_workspace(to)?;
        if from == to {
            return Err(ServiceError::invalid("to", "it is the workspace itself"));
        }
        let (service, caller) = (self.clone(), caller.clone());
        let (from, to) = (from.to_owned(), to.to_owned());
        // A started move completes even if its client stops waiting.
        let moving = async move {
            service.agents.suspend_caching(&caller.scope);
            let moved = service.relocate(&caller, &from, &to).await;
            service.agents.resume_caching(&caller.scope, &moved);
            moved
        };
        self.run_to_completion(moving).await
    }

    async fn relocate(&self, caller: &Caller, from: &str, to: &str) -> ServiceResult<MovedAnswer> {
        let mut done = MovedAnswer::default();
        let (notebooks, sessions): (Vec<SessionId>, Vec<SessionId>) =
            self.list_sessions_in(caller, from).await?.into_iter().partition(is_notebook);
        // The pointers to a notebook are written before it is moved: neither of two interrupted
        // moves loses it.
        for notebook in &notebooks {
            self.create_notebook_pointer(caller, notebook, to).await?;
        }
        done.notebooks = self.rename_all(caller, &notebooks, to, &mut done).await?;
        done.sessions = self.rename_all(caller, &sessions, to, &mut done).await?;
        Ok(done)
    }

    /// Renames the workspace of sessions; returns the number of moved ones.
    async fn rename_all(
        &self,
        caller: &Caller,
        sessions: &[SessionId],
        to: &str,
        done: &mut MovedAnswer,
    ) -> ServiceResult<u64> {
        let mut moved = 0;
        for part in sessions.chunks(AT_ONCE) {
            let each = part.iter().map(|session| {
                let metadata = [(WORKSPACE_MOVED.to_owned(), Some(to.to_owned()))].into();
                let change = SessionUpdate { metadata, ..SessionUpdate::default() };
                let key = caller.key(session);
                async move { self.await_durable(self.store.change(&key, change)).await }
            });
            for (session, changed) in part.iter().zip(join_all(each).await) {
                match changed.map_err(super::store_error::write_error) {
                    Ok(_) => moved += 1,
                    Err(error) if error.code.is_gone() => {}
                    Err(error) if !REFUSALS.contains(&error.code) => return Err(error),
                    Err(error) => {
                        done.left_total += 1;
                        if done.left.len() < NAMED_MAX {
                            let (session, problem) = (session.clone(), error.to_string());
                            done.left.push(LeftBehind { session, problem });
                        }
                    }
                }
            }
        }
        Ok(moved)
    }

    /// Returns all sessions of a workspace, including its notebooks.
    async fn list_sessions_in(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<Vec<SessionId>> {
        let (limit, workspace) = (limits::LIST_EXAMINED_MAX, Some(workspace.to_owned()));
        let listing = Listing { limit, workspace, ..Listing::default() };
        let listed = self.store.list(&caller.scope, listing).await?.sessions;
        Ok(listed.into_iter().map(|info| info.key.session).collect())
    }
}
