//! The work on a session and how far it came: leases and the marks of checkpoints, and the rules
//! of both, the same for every engine. Pure; it must not read a clock.

use std::time::Duration;

use super::{Lease, LeaseCall, StoreError, StoreResult, Work};
use crate::event::{BatchKey, Fence, SessionId, Timestamp};

/// How far tokens jump in a store that was brought back from a copy.
const JUMP: u64 = 1 << 32;

impl Work {
    /// Whether a caller began and did not say that it is done.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.until.is_some() || self.checkpoint.is_some_and(|mark| mark.open)
    }

    /// Whether a lease holds at that count of time.
    #[must_use]
    pub fn is_leased(&self, counted: Timestamp) -> bool {
        self.until.is_some_and(|until| counted <= until)
    }

    /// Whether who has that token, or none, may write.
    ///
    /// # Errors
    /// [`StoreError::LeaseHeld`] without the token of the lease that holds,
    /// [`StoreError::LeaseLost`] with one that does not hold any more.
    pub fn admit(
        &self,
        session: &SessionId,
        fence: Option<Fence>,
        counted: Timestamp,
    ) -> StoreResult<()> {
        match fence {
            Some(fence) if self.is_leased(counted) && fence == self.fence => Ok(()),
            Some(_) => Err(StoreError::LeaseLost { session: session.clone() }),
            None if self.is_leased(counted) => Err(self.held(session, counted)),
            None => Ok(()),
        }
    }

    /// The lease as it is after the call, and whether the call changes it.
    ///
    /// # Errors
    /// Those of [`Self::admit`], and [`StoreError::IdempotencyConflict`] for another call with the
    /// key of the lease that holds.
    pub fn call(
        &self,
        session: &SessionId,
        call: LeaseCall,
        counted: Timestamp,
    ) -> StoreResult<(Lease, bool)> {
        let until = |ttl: Duration| {
            let micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
            Some(counted.plus_micros(micros))
        };
        let lease = Lease { fence: self.fence, until: self.until, key: self.key };
        match call {
            LeaseCall::Take { key, .. }
                if let Some(same) = self.retried(key).filter(|_| self.is_leased(counted)) =>
            {
                let what = || "the key of the lease".to_owned();
                let conflict = || StoreError::IdempotencyConflict { what: what(), position: None };
                same.then_some((lease, false)).ok_or_else(conflict)
            }
            LeaseCall::Take { steal: false, .. } if self.is_leased(counted) => {
                Err(self.held(session, counted))
            }
            LeaseCall::Take { ttl, key, .. } => {
                let fence = Fence(self.fence.0.saturating_add(1));
                Ok((Lease { fence, until: until(ttl), key }, true))
            }
            LeaseCall::Renew { fence, ttl } => {
                self.admit(session, Some(fence), counted)?;
                Ok((Lease { until: until(ttl), ..lease }, true))
            }
            LeaseCall::Release { fence } if fence == self.fence => {
                Ok((Lease { until: None, ..lease }, self.until.is_some()))
            }
            LeaseCall::Void => {
                let fence = Fence(self.fence.0.saturating_add(JUMP));
                Ok((Lease { fence, until: None, key: None }, true))
            }
            LeaseCall::Release { .. } => Err(StoreError::LeaseLost { session: session.clone() }),
        }
    }

    /// Whether a call with that key is the one that took the lease; `None` with another key.
    fn retried(&self, key: Option<[u8; 16]>) -> Option<bool> {
        BatchKey::retries(self.key?, key?)
    }

    fn held(&self, session: &SessionId, counted: Timestamp) -> StoreError {
        let micros = self.until.map_or(0, |until| until.0.saturating_sub(counted.0));
        let seconds = u64::try_from(micros).unwrap_or(0).div_ceil(1_000_000).max(1);
        StoreError::LeaseHeld { session: session.clone(), seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// What became of a call or of a write: `held`, `lost`, or the token.
    fn told<T>(result: StoreResult<T>, token: impl FnOnce(T) -> u64) -> String {
        match result {
            Ok(fine) => token(fine).to_string(),
            Err(StoreError::LeaseHeld { seconds, .. }) => format!("held {seconds}"),
            Err(StoreError::LeaseLost { .. }) => "lost".to_owned(),
            Err(other) => other.to_string(),
        }
    }

    #[test]
    fn a_lease_lets_one_writer_in_until_its_time_is_over() {
        let session = SessionId::new("s").unwrap();
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        let key = Some([9; 16]);
        let leased = Work { fence: Fence(7), until: Some(at(60)), key, ..Work::default() };
        let given_back = Work { until: None, ..leased };
        for (work, second, fence, wanted) in [
            (Work::default(), 0, None, "0"),
            (Work::default(), 0, Some(0), "lost"),
            (Work::default(), 0, Some(1), "lost"),
            (leased, 0, None, "held 60"),
            (leased, 60, None, "held 1"),
            (leased, 61, None, "0"),
            (leased, 60, Some(7), "0"),
            (leased, 61, Some(7), "lost"),
            (leased, 0, Some(6), "lost"),
            (leased, 0, Some(8), "lost"),
            (given_back, 0, None, "0"),
            (given_back, 0, Some(7), "lost"),
        ] {
            let found = work.admit(&session, fence.map(Fence), at(second));
            assert_eq!(told(found, |()| 0), wanted, "{work:?} at {second} with {fence:?}");
        }
        let keyed = |steal, key| LeaseCall::Take { steal, ttl: MINUTE, key };
        let take = |steal| keyed(steal, None);
        let renew = |fence| LeaseCall::Renew { fence: Fence(fence), ttl: MINUTE };
        let release = |fence| LeaseCall::Release { fence: Fence(fence) };
        for (work, second, call, wanted) in [
            (Work::default(), 0, take(false), "1"),
            (leased, 0, take(false), "held 60"),
            (leased, 0, take(true), "8"),
            (leased, 60, keyed(true, key), "7"),
            (leased, 61, keyed(false, key), "8"),
            (leased, 0, keyed(false, Some([8; 16])), "held 60"),
            (given_back, 0, keyed(false, key), "8"),
            (leased, 61, take(false), "8"),
            (given_back, 0, take(false), "8"),
            (leased, 0, renew(7), "7"),
            (leased, 61, renew(7), "lost"),
            (leased, 0, renew(6), "lost"),
            (given_back, 0, renew(7), "lost"),
            (leased, 0, release(7), "7"),
            (leased, 61, release(7), "7"),
            (given_back, 0, release(7), "7"),
            (leased, 0, release(6), "lost"),
        ] {
            let found = work.call(&session, call, at(second));
            assert_eq!(told(found, |(lease, _)| lease.fence.0), wanted, "{call:?} at {second}");
        }
        let (lease, changes) = leased.call(&session, renew(7), at(30)).unwrap();
        assert_eq!((lease.until, changes), (Some(at(90)), true));
        let (lease, changes) = given_back.call(&session, release(7), at(30)).unwrap();
        assert_eq!((lease.until, changes), (None, false), "given back twice is once");
    }
}
