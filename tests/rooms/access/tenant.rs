//! Limits of a tenant, and how much it uses.

use std::{sync::Arc, time::Duration};

use sessionlog::{
    access::{Full, Limits, Tenant},
    event::TenantId,
};

fn tenant(limits: Limits) -> Arc<Tenant> {
    Arc::new(Tenant::new(TenantId::new("t").expect("a name"), limits))
}

#[test]
fn a_permit_is_returned_and_no_more_are_given_than_the_limit() {
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
    // An hour of quiet saves up a second, not an hour.
    let later = Duration::from_secs(3_600);
    assert_eq!((0..100).filter(|_| tenant.enter(later).is_ok()).count(), 10);
}

#[test]
fn refusals_are_logged_at_most_once_an_interval() {
    let tenant = tenant(Limits::default());
    let noted = (0..100).filter(|second| tenant.notes(Duration::from_secs(*second)));
    assert_eq!(noted.count(), 10);
}
