//! Limits and usage of a tenant.

use std::{sync::Arc, time::Duration};

use sessionlog::{
    access::{Full, Limits, Tenant},
    event::TenantId,
};

fn tenant(limits: Limits) -> Arc<Tenant> {
    Arc::new(Tenant::new(TenantId::new("t").expect("a name"), limits))
}

#[test]
fn a_dropped_permit_is_released_and_the_limit_is_never_exceeded() {
    let tenant = tenant(Limits { requests_max: 2, readers_max: 1, ..Limits::default() });
    let now = Duration::ZERO;
    let first = tenant.enter(now).expect("a place");
    let _second = tenant.enter(now).expect("a place");
    assert_eq!(tenant.enter(now).err(), Some(Full::Requests(2)));
    let _reader = tenant.read().expect("readers are counted apart");
    assert_eq!(tenant.read().err(), Some(Full::Readers(1)));
    drop(first);
    assert!(tenant.enter(now).is_ok());
}

#[test]
fn requests_are_limited_to_a_rate_with_a_burst_of_one_second() {
    let tenant = tenant(Limits { requests_per_second: 10, ..Limits::default() });
    let at = |millis: u64| Duration::from_secs(5) + Duration::from_millis(millis);
    for _ in 0..10 {
        assert!(tenant.enter(at(0)).is_ok());
    }
    assert_eq!(tenant.enter(at(0)).err(), Some(Full::Pace(10, Duration::from_millis(100))));
    assert!(tenant.enter(at(99)).is_err());
    assert!(tenant.enter(at(100)).is_ok() && tenant.enter(at(100)).is_err());
    // An idle hour accumulates one second's worth of requests, not an hour's.
    let later = Duration::from_secs(3_600);
    assert_eq!((0..100).filter(|_| tenant.enter(later).is_ok()).count(), 10);
}

#[test]
fn rejected_credentials_are_audited_at_most_once_per_interval() {
    let tenant = tenant(Limits::default());
    let noted = (0..100).filter(|second| tenant.notes(Duration::from_secs(*second)));
    assert_eq!(noted.count(), 10);
}
