//! The work on a session: leases and the marks of checkpoints, and the rules of both, the same for
//! every engine. Pure; it must not read a clock.

use std::time::Duration;

use crate::{
    event::{BatchKey, Fence, SessionId, Timestamp},
    store::{LeaseCall, SessionLease, StoreError, StoreResult, WorkState},
};

/// Increment of fencing tokens in a store that was restored from a copy.
const JUMP: u64 = 1 << 32;

impl WorkState {
    /// Returns true if a caller began work and did not finish it.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.until.is_some() || self.checkpoint.is_some_and(|mark| mark.open)
    }

    /// Returns true if a lease is valid at that count of time.
    #[must_use]
    pub fn is_leased(&self, counted: Timestamp) -> bool {
        self.until.is_some_and(|until| counted <= until)
    }

    /// Checks that the holder of that token, or a caller without one, may write.
    ///
    /// # Errors
    /// [`StoreError::LeaseHeld`] without the token of the valid lease, [`StoreError::LeaseLost`]
    /// with one that is no longer valid.
    pub fn check_writer(
        &self,
        session: &SessionId,
        fence: Option<Fence>,
        counted: Timestamp,
    ) -> StoreResult<()> {
        match fence {
            Some(fence) if self.is_leased(counted) && fence == self.fence => Ok(()),
            Some(_) => Err(StoreError::LeaseLost { session: session.clone() }),
            None if self.is_leased(counted) => Err(self.lease_held_error(session, counted)),
            None => Ok(()),
        }
    }

    /// Returns the lease after the call, and whether the call changes it.
    ///
    /// # Errors
    /// Errors of [`Self::check_writer`], and [`StoreError::IdempotencyConflict`] for a different
    /// call with the key of the valid lease.
    pub fn apply_call(
        &self,
        session: &SessionId,
        call: LeaseCall,
        counted: Timestamp,
    ) -> StoreResult<(SessionLease, bool)> {
        let until = |ttl: Duration| {
            let micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
            Some(counted.plus_micros(micros))
        };
        let lease = SessionLease { fence: self.fence, until: self.until, key: self.key };
        match call {
            LeaseCall::Take { key, .. }
                if let Some(same) = self.compare_keys(key).filter(|_| self.is_leased(counted)) =>
            {
                let what = || "the key of the lease".to_owned();
                let conflict = || StoreError::IdempotencyConflict { what: what(), position: None };
                same.then_some((lease, false)).ok_or_else(conflict)
            }
            LeaseCall::Take { steal: false, .. } if self.is_leased(counted) => {
                Err(self.lease_held_error(session, counted))
            }
            LeaseCall::Take { ttl, key, .. } => {
                let fence = Fence(self.fence.0.saturating_add(1));
                Ok((SessionLease { fence, until: until(ttl), key }, true))
            }
            LeaseCall::Renew { fence, ttl } => {
                self.check_writer(session, Some(fence), counted)?;
                Ok((SessionLease { until: until(ttl), ..lease }, true))
            }
            LeaseCall::Release { fence } if fence == self.fence => {
                Ok((SessionLease { until: None, ..lease }, self.until.is_some()))
            }
            LeaseCall::Void => {
                let fence = Fence(self.fence.0.saturating_add(JUMP));
                Ok((SessionLease { fence, until: None, key: None }, true))
            }
            LeaseCall::Release { .. } => Err(StoreError::LeaseLost { session: session.clone() }),
        }
    }

    /// Compares a call with the one that took the lease, by their keys; `None` with another key.
    fn compare_keys(&self, key: Option<[u8; 16]>) -> Option<bool> {
        BatchKey::is_retry(self.key?, key?)
    }

    fn lease_held_error(&self, session: &SessionId, counted: Timestamp) -> StoreError {
        let micros = self.until.map_or(0, |until| until.0.saturating_sub(counted.0));
        let seconds = u64::try_from(micros).unwrap_or(0).div_ceil(1_000_000).max(1);
        StoreError::LeaseHeld { session: session.clone(), seconds }
    }
}
