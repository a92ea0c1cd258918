//! Leases and notes of a session.

use std::time::Duration;

use sessionlog::{
    event::{Fence, SessionId, Timestamp},
    store::{LeaseCall, StoreError, StoreResult, WorkState},
};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the outcome of a call or of a write: `held`, `lost`, or the token.
fn outcome_text<T>(result: StoreResult<T>, token: impl FnOnce(T) -> u64) -> String {
    match result {
        Ok(fine) => token(fine).to_string(),
        Err(StoreError::LeaseHeld { seconds, .. }) => format!("held {seconds}"),
        Err(StoreError::LeaseLost { .. }) => "lost".to_owned(),
        Err(other) => other.to_string(),
    }
}

#[test]
fn a_lease_allows_one_writer_until_it_expires_or_is_released() {
    let session = SessionId::new("s").unwrap();
    let at = |seconds: i64| Timestamp(seconds * 1_000_000);
    let key = Some([9; 16]);
    let leased = WorkState { fence: Fence(7), until: Some(at(60)), key, ..WorkState::default() };
    let given_back = WorkState { until: None, ..leased };
    for (work, second, fence, wanted) in [
        (WorkState::default(), 0, None, "0"),
        (WorkState::default(), 0, Some(0), "lost"),
        (WorkState::default(), 0, Some(1), "lost"),
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
        let found = work.check_writer(&session, fence.map(Fence), at(second));
        assert_eq!(outcome_text(found, |()| 0), wanted, "{work:?} at {second} with {fence:?}");
    }
    let keyed = |steal, key| LeaseCall::Take { steal, ttl: MINUTE, key };
    let take = |steal| keyed(steal, None);
    let renew = |fence| LeaseCall::Renew { fence: Fence(fence), ttl: MINUTE };
    let release = |fence| LeaseCall::Release { fence: Fence(fence) };
    for (work, second, call, wanted) in [
        (WorkState::default(), 0, take(false), "1"),
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
        let found = work.apply_call(&session, call, at(second));
        assert_eq!(outcome_text(found, |(lease, _)| lease.fence.0), wanted, "{call:?} at {second}");
    }
    let (lease, changes) = leased.apply_call(&session, renew(7), at(30)).unwrap();
    assert_eq!((lease.until, changes), (Some(at(90)), true));
    let (lease, changes) = given_back.apply_call(&session, release(7), at(30)).unwrap();
    assert_eq!((lease.until, changes), (None, false), "given back twice is once");
}
