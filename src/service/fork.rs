//! Forks: a session that goes on from a point of another one, and who is related to whom. It must
//! not copy an event.

use super::{Caller, Service, ServiceError, ServiceResult};
use crate::{
    event::{BatchKey, Point, SessionId},
    store::{Family, ForkPoint, NewSession, SessionInfo},
};

/// Relatives of each kind that are named.
const RELATIVES_MAX: usize = 1_000;

/// What a fork is asked to be.
#[derive(Clone, Debug)]
pub struct ForkCall {
    /// Where it goes on from.
    pub at: Point,
    /// Its id; the server gives one when absent.
    pub id: Option<SessionId>,
    /// A line for people; the parent's when absent.
    pub title: Option<String>,
    /// A retry with the same key answers the same fork.
    pub key: Option<BatchKey>,
}

impl Service {
    /// Makes a session that goes on from a point of another one: what lies below it is common to
    /// both. It belongs to what its parent belongs to, and lives as long.
    ///
    /// # Errors
    /// `session_not_found` and its like for the parent, `point_not_found`, `session_exists`,
    /// `prefix_erased`, and those of the disk.
    pub async fn fork_session(
        &self,
        caller: &Caller,
        parent: &SessionId,
        call: ForkCall,
    ) -> ServiceResult<SessionInfo> {
        let key = caller.key(parent);
        let info = self.store.used(&key).await?;
        let at = self.position_of(&key, &call.at, info.tail).await?;
        if at > info.tail {
            return Err(ServiceError::point_not_found(&call.at, info.tail));
        }
        let new = NewSession {
            id: call.id,
            title: call.title.or(info.title),
            workspace: info.workspace,
            ttl_seconds: info.ttl_seconds,
            key: call.key,
            parent: Some(ForkPoint { session: parent.clone(), at }),
            ..NewSession::default()
        };
        Ok(self.create_session(caller, new).await?.0)
    }

    /// The sessions that one reads from and those that read from it.
    ///
    /// # Errors
    /// `session_not_found` and its like.
    pub async fn family(&self, caller: &Caller, session: &SessionId) -> ServiceResult<Family> {
        Ok(self.store.family(&caller.key(session), RELATIVES_MAX).await?)
    }
}
