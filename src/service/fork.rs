//! Forks: a session that continues from a point of another one, and the relations between sessions.
//! It must not copy an event.

use super::{
    Caller, NewCheckpoint, Service, ServiceError, ServiceResult, status::rewound_name,
    titles::title_of_name,
};
use crate::{
    api::{
        fork::{Kin, Lineage},
        sessions::Session,
        work::CreateCheckpoint,
    },
    event::{BatchKey, Point, SessionId, SessionKey},
    projection::checkpoints::Trigger,
    store::{ForkPoint, NewSession, RelatedSession, SessionInfo, Survival},
};

/// Maximum number of relatives of each kind in a response.
const RELATIVES_MAX: usize = 1_000;

/// Parameters of a fork.
#[derive(Clone, Debug)]
pub struct ForkCall {
    /// Point at which it starts.
    pub at: Point,
    /// Session id; generated if absent.
    pub id: Option<SessionId>,
    /// Title; the parent's if absent.
    pub title: Option<String>,
    /// Idempotency key: a retry returns the same fork.
    pub key: Option<BatchKey>,
}

impl Service {
    /// Creates a session that continues from a point of another one and shares the events before
    /// it. It has the same workspace and lifetime as its parent.
    ///
    /// # Errors
    /// `session_not_found` and similar for the parent, `lease_lost`, `point_not_found`,
    /// `session_exists`, `prefix_erased`, and those of the engine.
    pub async fn fork_session(
        &self,
        caller: &Caller,
        parent: &SessionId,
        call: ForkCall,
    ) -> ServiceResult<Session> {
        let key = caller.key(parent);
        let info = self.store.use_session(&key).await?;
        if caller.fence.is_some() {
            // A read needs no lease, but a lost one is rejected.
            info.work.check_writer(parent, caller.fence, self.store.counted_time())?;
        }
        let caller = &Caller { fence: None, ..caller.clone() };
        let at = self.resolve_end(&key, &call.at, info.tail).await?;
        if at > info.tail {
            return Err(ServiceError::point_not_found(&call.at, info.tail));
        }
        // The title's event is shared only if it precedes the fork point.
        let is_own =
            |position: &String| position.parse::<u64>().map_or(true, |position| position < at.0);
        let position = info.metadata.get(&title_of_name()).filter(|position| is_own(position));
        let position = position.filter(|_| call.title.is_none() && info.title.is_none());
        let new = NewSession {
            id: call.id,
            metadata: position
                .map(|position| (title_of_name(), position.clone()))
                .into_iter()
                .chain(
                    info.metadata
                        .get_key_value(&rewound_name())
                        .map(|(k, v)| (k.clone(), v.clone())),
                )
                .collect(),
            title: call.title.or(info.title),
            workspace: info.workspace,
            ttl_seconds: info.ttl_seconds,
            key: call.key,
            parent: Some(ForkPoint { session: parent.clone(), at }),
            ..NewSession::default()
        };
        let child = self.create_session(caller, new).await?.0;
        let child = match &call.at {
            // A retry finds the checkpoint that the first attempt copied.
            Point::Checkpoint(name) if child.work.notes == 0 => {
                self.copy_checkpoint(caller, &key, name, child).await?
            }
            _ => child,
        };
        Ok(child.into())
    }

    /// Copies the state of the checkpoint at which a fork starts into a checkpoint of the fork.
    async fn copy_checkpoint(
        &self,
        caller: &Caller,
        parent: &SessionKey,
        name: &str,
        child: SessionInfo,
    ) -> ServiceResult<SessionInfo> {
        let Some(from) = self.checkpoint_state(parent, Some(name)).await? else { return Ok(child) };
        let asked = CreateCheckpoint {
            label: from.checkpoint.label,
            thread: from.checkpoint.thread,
            state: Some(from.state).filter(|state| !state.is_empty()),
            ..CreateCheckpoint::default()
        };
        let new = NewCheckpoint { asked, trigger: Trigger::Resume, ..NewCheckpoint::default() };
        self.create_checkpoint(caller, &child.key.session, new).await?;
        Ok(self.store.info(&child.key).await?)
    }

    /// Returns the ancestors and the forks of a session.
    ///
    /// # Errors
    /// `session_not_found` and similar.
    pub async fn lineage(&self, caller: &Caller, session: &SessionId) -> ServiceResult<Lineage> {
        let mut family = self.store.family(&caller.key(session), RELATIVES_MAX).await?;
        let all = family.ancestors.iter_mut().chain(&mut family.children);
        for one in all.filter(|one| one.title.is_none() && one.survival == Survival::Alive) {
            one.title = self.read_title(&caller.key(&one.session)).await;
        }
        Ok(Lineage {
            session: session.to_string(),
            ancestors: family.ancestors.into_iter().map(Kin::from).collect(),
            depth: family.depth,
            children: family.children.into_iter().map(Kin::from).collect(),
            forks: family.forks,
        })
    }
}

impl From<RelatedSession> for Kin {
    fn from(one: RelatedSession) -> Self {
        let stage = match one.survival {
            Survival::Alive => "alive",
            Survival::Expired => "expired",
            Survival::Deleted => "deleted",
            Survival::Erased => "erased",
        };
        Self {
            id: one.session.to_string(),
            title: one.title,
            stage: stage.to_owned(),
            position: one.at.0,
            tail: one.tail.0,
            bytes: one.bytes,
        }
    }
}
