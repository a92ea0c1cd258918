//! Verbs of a harness that resumes a session: wake, renew, release. A lease lets one harness write
//! at a time; its fencing token increases with each, so that a harness that was presumed dead
//! cannot write after its successor took over. It must not decide whether a token is valid: the
//! store does.

use std::time::Duration;

use super::{
    Caller, CheckpointState, Code, Resumed, Service, ServiceError, ServiceResult,
    store_error::unwritten,
};
use crate::{
    event::{BatchKey, Fence, Position, Range, SessionId, SessionKey, Timestamp, limits},
    projection::{OpenCall, Outcomes},
    store::{Fill, Lease, LeaseCall, Read, SessionInfo},
};

/// Events before the tail that are searched for calls without a result.
const SEARCH_EVENTS: usize = 1_000;
/// Bytes of bodies held while they are searched.
const SEARCH_BYTES: usize = 8 << 20;

/// A lease as returned to its harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its token.
    pub fence: Fence,
    /// How long it holds from now on.
    pub ttl: Duration,
    /// When that is, by the wall clock.
    pub expires_at: Timestamp,
}

/// The answer for a harness that resumes a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Woken {
    /// The session.
    pub info: SessionInfo,
    /// The right to write to it.
    pub lease: Granted,
    /// The last checkpoint, with the state there.
    pub last_checkpoint: Option<CheckpointState>,
    /// What an earlier harness left.
    pub unfinished: Option<Unfinished>,
}

/// Work that a harness left unfinished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Events that no checkpoint covers.
    pub since_checkpoint: Range,
    /// Calls without a result among the last events.
    pub open_calls: Vec<OpenCall>,
    /// Its lease was not released.
    pub lease_kept: bool,
}

/// How a lease is to be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeCall {
    /// Take it from its holder.
    pub steal: bool,
    /// Its duration in seconds.
    pub ttl_seconds: Option<u64>,
}

/// The parameters of a resumption.
#[derive(Clone, Debug, Default)]
pub struct TakeUp {
    /// The checkpoint to resume from; the last one when none is named.
    pub checkpoint: Option<String>,
    /// Acquires the lease too; or extends it, when its token is shown.
    pub wake: Option<WakeCall>,
    /// A retry with the same key has the same lease and makes no second checkpoint.
    pub key: Option<BatchKey>,
}

/// A resumed session.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenUp {
    /// The lease, if requested.
    pub lease: Option<Granted>,
    /// With the lease: what an earlier harness left.
    pub unfinished: Option<Unfinished>,
    /// The resumed checkpoint; `None` when the session has none.
    pub resumed: Option<Resumed>,
    /// The tail of the session.
    pub tail: Position,
}

impl Service {
    /// Resumes from a checkpoint, with the lease when requested.
    ///
    /// # Errors
    /// Those of [`Self::wake`] and of [`Self::resume`]; with the latter no lease is taken.
    pub async fn take_up(
        &self,
        caller: &Caller,
        session: &SessionId,
        call: TakeUp,
    ) -> ServiceResult<TakenUp> {
        let name = call.checkpoint.as_deref();
        let Some(wake) = call.wake else {
            let resumed = self.resume(caller, session, name, call.key).await?;
            let tail = resumed.as_checkpoint.tail;
            return Ok(TakenUp { lease: None, unfinished: None, resumed: Some(resumed), tail });
        };
        if let Some(name) = name {
            self.get_checkpoint(caller, session, name).await?;
        }
        let (lease, unfinished) = match caller.fence {
            Some(_) if !wake.steal => {
                let lease = self.renew_lease(caller, session, wake.ttl_seconds).await?;
                let key = caller.key(session);
                let info = self.store.info(&key).await?;
                (lease, self.unfinished_of(&key, &info, false).await?)
            }
            _ => {
                let WakeCall { steal, ttl_seconds } = wake;
                let key = call.key.as_ref();
                let woken = self.wake(caller, session, steal, ttl_seconds, key).await?;
                (woken.lease, woken.unfinished)
            }
        };
        let holder = Caller { fence: Some(lease.fence), ..caller.clone() };
        let resumed = match self.resume(&holder, session, name, call.key).await {
            Err(error) if error.code == Code::CheckpointNotFound && name.is_none() => None,
            resumed => Some(resumed?),
        };
        let tail = match &resumed {
            Some(resumed) => resumed.as_checkpoint.tail,
            None => self.store.info(&caller.key(session)).await?.tail,
        };
        Ok(TakenUp { lease: Some(lease), unfinished, resumed, tail })
    }

    /// Resumes a session: its lease, its state, and what is left to do.
    ///
    /// # Errors
    /// `lease_held` unless `steal` is set, `invalid_request`, and those of the session.
    pub async fn wake(
        &self,
        caller: &Caller,
        session: &SessionId,
        steal: bool,
        ttl_seconds: Option<u64>,
        key: Option<&BatchKey>,
    ) -> ServiceResult<Woken> {
        let ttl = ttl(ttl_seconds)?;
        let session_key = caller.key(session);
        let before = self.store.used(&session_key).await?;
        let key = key.map(BatchKey::digest);
        let again = key.is_some() && key == before.work.key;
        let call = LeaseCall::Take { steal, ttl, key };
        let (lease, info) =
            self.durable(self.store.lease(&session_key, call)).await.map_err(unwritten)?;
        // The lease is held from here on: what is read now stays valid.
        let last_checkpoint = self.checkpoint_state(&session_key, None).await?;
        let lease_kept = before.work.until.is_some() && !again;
        let unfinished = self.unfinished_of(&session_key, &info, lease_kept).await?;
        let lease = self.granted(lease);
        let info = self.titled(info).await;
        Ok(Woken { info, lease, last_checkpoint, unfinished })
    }

    /// Keeps a lease for longer.
    ///
    /// # Errors
    /// `lease_lost`, `invalid_request`, and those of the session.
    pub async fn renew_lease(
        &self,
        caller: &Caller,
        session: &SessionId,
        ttl_seconds: Option<u64>,
    ) -> ServiceResult<Granted> {
        let ttl = ttl(ttl_seconds)?;
        let call = LeaseCall::Renew { fence: token(caller)?, ttl };
        let key = caller.key(session);
        let verb = self.store.lease(&key, call);
        let (lease, _) = self.durable(verb).await.map_err(unwritten)?;
        Ok(self.granted(lease))
    }

    fn granted(&self, lease: Lease) -> Granted {
        let counted = self.store.counted();
        let left = lease.until.map_or(0, |until| until.0.saturating_sub(counted.0).max(0));
        let ttl = Duration::from_micros(u64::try_from(left).unwrap_or(0));
        Granted { fence: lease.fence, ttl, expires_at: self.now().plus_micros(left) }
    }

    /// Releases a lease. A retry succeeds too.
    ///
    /// # Errors
    /// `lease_lost`, `invalid_request`, and those of the session.
    pub async fn release_lease(&self, caller: &Caller, session: &SessionId) -> ServiceResult<()> {
        let call = LeaseCall::Release { fence: token(caller)? };
        let key = caller.key(session);
        let verb = self.store.lease(&key, call);
        self.durable(verb).await.map_err(unwritten)?;
        Ok(())
    }

    /// The unfinished work of a session; `None` when all of it was ended.
    async fn unfinished_of(
        &self,
        key: &SessionKey,
        info: &SessionInfo,
        lease_kept: bool,
    ) -> ServiceResult<Option<Unfinished>> {
        let read = Read {
            range: Range::new(Position::ZERO, info.tail),
            events_max: SEARCH_EVENTS,
            bytes_max: SEARCH_BYTES,
            fill: Fill::Backward,
            allow_gaps: true,
        };
        let mut outcomes = Outcomes::default();
        for event in &self.store.read(key, read).await?.events {
            outcomes.fold(event);
        }
        let open_calls = outcomes.open();
        let mark = info.work.checkpoint;
        let from = mark.map_or(Position::ZERO, |mark| mark.position);
        let open = mark.is_some_and(|mark| mark.open);
        let left = lease_kept || open || !open_calls.is_empty();
        let since_checkpoint = Range::new(from, info.tail);
        Ok(left.then_some(Unfinished { since_checkpoint, open_calls, lease_kept }))
    }
}

fn ttl(seconds: Option<u64>) -> ServiceResult<Duration> {
    let seconds = seconds.unwrap_or(limits::LEASE_SECONDS_DEFAULT);
    if seconds == 0 || seconds > limits::LEASE_SECONDS_MAX {
        let problem = format!("from 1 to {}, not {seconds}", limits::LEASE_SECONDS_MAX);
        return Err(ServiceError::invalid("ttl_seconds", problem));
    }
    Ok(Duration::from_secs(seconds))
}

fn token(caller: &Caller) -> ServiceResult<Fence> {
    caller.fence.ok_or_else(|| {
        ServiceError::invalid("fencing-token", "it is missing")
            .action("send the fencing_token of the lease as the header Fencing-Token")
    })
}
