//! Limits and usage of a tenant.

use std::{sync::Arc, time::Duration};

use sessionlog::{
    access::{ExceededLimit, Tenant, TenantLimits},
    event::TenantId,
};

fn tenant(limits: TenantLimits) -> Arc<Tenant> {
    Arc::new(Tenant::new(TenantId::new("t").expect("a name"), limits))
}

#[test]
fn a_dropped_permit_is_released_and_the_limit_is_never_exceeded() {
    let tenant =
        tenant(TenantLimits { requests_max: 2, readers_max: 1, ..TenantLimits::default() });
    let now = Duration::ZERO;
    let first = tenant.admit(now).expect("a place");
    let _second = tenant.admit(now).expect("a place");
    assert_eq!(tenant.admit(now).err(), Some(ExceededLimit::Requests(2)));
    let _reader = tenant.acquire_reader().expect("readers are counted apart");
    assert_eq!(tenant.acquire_reader().err(), Some(ExceededLimit::Readers(1)));
    drop(first);
    assert!(tenant.admit(now).is_ok());
}

#[test]
fn requests_are_limited_to_a_rate_with_a_burst_of_one_second() {
    let tenant = tenant(TenantLimits { requests_per_second: 10, ..TenantLimits::default() });
    let at = |millis: u64| Duration::from_secs(5) + Duration::from_millis(millis);
    for _ in 0..10 {
        assert!(tenant.admit(at(0)).is_ok());
    }
    assert_eq!(
        tenant.admit(at(0)).err(),
        Some(ExceededLimit::Pace(10, Duration::from_millis(100)))
    );
    assert!(tenant.admit(at(99)).is_err());
    assert!(tenant.admit(at(100)).is_ok() && tenant.admit(at(100)).is_err());
    // An idle hour accumulates one second's worth of requests, not an hour's.
    let later = Duration::from_secs(3_600);
    assert_eq!((0..100).filter(|_| tenant.admit(later).is_ok()).count(), 10);
}

#[test]
fn rejected_credentials_are_audited_at_most_once_per_interval() {
    let tenant = tenant(TenantLimits::default());
    let noted = (0..100).filter(|second| tenant.should_audit_refusal(Duration::from_secs(*second)));
    assert_eq!(noted.count(), 10);
}
