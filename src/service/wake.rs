//! Verbs of a harness that resumes a session: wake, renew, release. A lease lets one harness write
//! at a time; its fencing token increases with each, so that a harness that was presumed dead
//! cannot write after its successor took over. It must not decide whether a token is valid: the
//! store does.

use std::time::Duration;

use super::{Caller, Code, Service, ServiceError, ServiceResult, store_error::write_error};
use crate::{
    api::work::{Lease, RenewRequest, ResumeAnswer, Unfinished, WakeAnswer, WakeRequest},
    event::{BatchKey, Fence, Position, Range, SessionId, SessionKey, limits},
    projection::Outcomes,
    store::{self, FillDirection, LeaseCall, ReadRequest, SessionInfo},
};

/// Number of events before the tail searched for calls without a result.
const SEARCH_EVENTS: usize = 1_000;
/// Maximum body bytes in memory during the search.
const SEARCH_BYTES: usize = 8 << 20;

/// Parameters of a resumption.
#[derive(Clone, Debug, Default)]
pub struct ResumeCall {
    /// Checkpoint to resume from; the last one if absent.
    pub checkpoint: Option<String>,
    /// Request to acquire the lease as well, or to extend it if its token is sent.
    pub wake: Option<WakeRequest>,
    /// Idempotency key: a retry gets the same lease and creates no second checkpoint.
    pub key: Option<BatchKey>,
}

/// A resumed session.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumeResult {
    /// Lease, if requested.
    pub lease: Option<Lease>,
    /// Work left by an earlier harness, if the lease was requested.
    pub unfinished: Option<Unfinished>,
    /// Resumed checkpoint; `None` if the session has none.
    pub resumed: Option<ResumeAnswer>,
    /// Tail of the session.
    pub tail: Position,
}

impl Service {
    /// Resumes from a checkpoint, with the lease if requested.
    ///
    /// # Errors
    /// Those of [`Self::wake`] and of [`Self::resume`]; with the latter no lease is acquired.
    pub async fn resume_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        call: ResumeCall,
    ) -> ServiceResult<ResumeResult> {
        let name = call.checkpoint.as_deref();
        let Some(wake) = call.wake else {
            let resumed = self.resume(caller, session, name, call.key).await?;
            let tail = resumed.behind.to;
            return Ok(ResumeResult {
                lease: None,
                unfinished: None,
                resumed: Some(resumed),
                tail,
            });
        };
        if let Some(name) = name {
            self.get_checkpoint(caller, session, name).await?;
        }
        let key = caller.key(session);
        let renews = caller.fence.is_some() && !wake.steal;
        let (lease, unfinished) = if renews {
            let asked = RenewRequest { ttl_seconds: wake.ttl_seconds };
            let lease = self.renew_lease(caller, session, &asked).await?;
            let info = self.store.info(&key).await?;
            (lease, self.find_unfinished(&key, &info, false).await?)
        } else {
            let woken = self.wake(caller, session, &wake, call.key.as_ref()).await?;
            (woken.lease, woken.unfinished)
        };
        let fence = Fence(lease.fencing_token);
        let holder = Caller { fence: Some(fence), ..caller.clone() };
        let resumed = match self.resume(&holder, session, name, call.key).await {
            Err(error) if error.code == Code::CheckpointNotFound && name.is_none() => None,
            resumed if renews => Some(resumed?),
            resumed => Some(self.keep_lease_if(&key, fence, resumed).await?),
        };
        // The events after a checkpoint end at the tail.
        let tail = match &resumed {
            Some(resumed) => resumed.behind.to,
            None => self.store.info(&key).await?.tail,
        };
        Ok(ResumeResult { lease: Some(lease), unfinished, resumed, tail })
    }

    /// Resumes a session: returns its lease, its state, and the unfinished work.
    ///
    /// # Errors
    /// `lease_held` unless `steal` is set, `invalid_request`, and those of the session.
    pub async fn wake(
        &self,
        caller: &Caller,
        session: &SessionId,
        asked: &WakeRequest,
        key: Option<&BatchKey>,
    ) -> ServiceResult<WakeAnswer> {
        let (steal, ttl) = (asked.steal, parse_ttl(asked.ttl_seconds)?);
        let session_key = caller.key(session);
        let before = self.store.use_session(&session_key).await?;
        let key = key.map(BatchKey::digest);
        let again = key.is_some() && key == before.work.key;
        let call = LeaseCall::Take { steal, ttl, key };
        let (lease, info) =
            self.await_durable(self.store.lease(&session_key, call)).await.map_err(write_error)?;
        // The lease is held from here on: data read now stays valid.
        let lease_kept = before.work.until.is_some() && !again;
        let left = async {
            let last_checkpoint = self.checkpoint_state(&session_key, None).await?;
            Ok((last_checkpoint, self.find_unfinished(&session_key, &info, lease_kept).await?))
        };
        let (last_checkpoint, unfinished) =
            self.keep_lease_if(&session_key, lease.fence, left.await).await?;
        let lease = self.to_lease(lease);
        Ok(WakeAnswer {
            session: session.to_string(),
            fencing_token: lease.fencing_token,
            lease,
            tail: info.tail,
            last_checkpoint,
            unfinished,
        })
    }

    /// Returns the outcome of a call that took a lease, and releases it if that failed: the caller
    /// does not get its token.
    async fn keep_lease_if<T>(
        &self,
        key: &SessionKey,
        fence: Fence,
        outcome: ServiceResult<T>,
    ) -> ServiceResult<T> {
        if outcome.is_err() {
            // If this fails as well, the lease ends with its time.
            let release = self.store.lease(key, LeaseCall::Release { fence });
            let _ = self.await_durable(release).await;
        }
        outcome
    }

    /// Extends a lease.
    ///
    /// # Errors
    /// `lease_lost`, `invalid_request`, and those of the session.
    pub async fn renew_lease(
        &self,
        caller: &Caller,
        session: &SessionId,
        asked: &RenewRequest,
    ) -> ServiceResult<Lease> {
        let ttl = parse_ttl(asked.ttl_seconds)?;
        let call = LeaseCall::Renew { fence: required_fence(caller)?, ttl };
        let key = caller.key(session);
        let verb = self.store.lease(&key, call);
        let (lease, _) = self.await_durable(verb).await.map_err(write_error)?;
        Ok(self.to_lease(lease))
    }

    fn to_lease(&self, lease: store::SessionLease) -> Lease {
        let counted = self.store.counted_time();
        let left = lease.until.map_or(0, |until| until.0.saturating_sub(counted.0).max(0));
        Lease {
            fencing_token: lease.fence.0,
            ttl_seconds: u64::try_from(left / 1_000).unwrap_or(0).div_ceil(1_000),
            expires_at: self.now().plus_micros(left).to_string(),
        }
    }

    /// Releases a lease. Idempotent.
    ///
    /// # Errors
    /// `lease_lost`, `invalid_request`, and those of the session.
    pub async fn release_lease(&self, caller: &Caller, session: &SessionId) -> ServiceResult<()> {
        let call = LeaseCall::Release { fence: required_fence(caller)? };
        let key = caller.key(session);
        let verb = self.store.lease(&key, call);
        self.await_durable(verb).await.map_err(write_error)?;
        Ok(())
    }

    /// Returns the unfinished work of a session; `None` if all work was ended.
    async fn find_unfinished(
        &self,
        key: &SessionKey,
        info: &SessionInfo,
        lease_kept: bool,
    ) -> ServiceResult<Option<Unfinished>> {
        let read = ReadRequest {
            range: Range::new(Position::ZERO, info.tail),
            events_max: SEARCH_EVENTS,
            bytes_max: SEARCH_BYTES,
            fill: FillDirection::Backward,
            allow_gaps: true,
        };
        let mut outcomes = Outcomes::default();
        for event in &self.store.read(key, read).await?.events {
            outcomes.fold(event);
        }
        let open_calls = outcomes.open_calls();
        let mark = info.work.checkpoint;
        let from = mark.map_or(Position::ZERO, |mark| mark.position);
        let open = mark.is_some_and(|mark| mark.open);
        let left = lease_kept || open || !open_calls.is_empty();
        let since_checkpoint = Range::new(from, info.tail);
        Ok(left.then_some(Unfinished { since_checkpoint, open_calls, lease_kept }))
    }
}

fn parse_ttl(seconds: Option<u64>) -> ServiceResult<Duration> {
    let seconds = seconds.unwrap_or(limits::LEASE_SECONDS_DEFAULT);
    if seconds == 0 || seconds > limits::LEASE_SECONDS_MAX {
        let problem = format!("from 1 to {}, not {seconds}", limits::LEASE_SECONDS_MAX);
        return Err(ServiceError::invalid("ttl_seconds", problem));
    }
    Ok(Duration::from_secs(seconds))
}

fn required_fence(caller: &Caller) -> ServiceResult<Fence> {
    caller.fence.ok_or_else(|| {
        ServiceError::invalid("fencing-token", "it is missing")
            .action("send the fencing_token of the lease as the header Fencing-Token")
    })
}
