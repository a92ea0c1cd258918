//! Limits of a tenant: concurrent requests, readers, and requests per second. Counted by atomics of
//! each tenant, so that tenants never wait for each other. It must not interpret a request.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::event::TenantId;

/// Limits of each tenant; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Concurrent requests.
    pub requests_max: u32,
    /// Concurrent streams, long polls, exports and append streams.
    pub readers_max: u32,
    /// Requests per second, on average; bursts of one second's worth are accepted.
    pub requests_per_second: u32,
}

/// A setting with a default for all tenants and overrides for some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerTenant<T> {
    default: T,
    overrides: HashMap<TenantId, T>,
}

impl<T> From<T> for PerTenant<T> {
    fn from(default: T) -> Self {
        Self { default, overrides: HashMap::new() }
    }
}

impl<T> PerTenant<T> {
    /// Overrides the setting for one tenant.
    pub fn set(&mut self, tenant: TenantId, value: T) {
        self.overrides.insert(tenant, value);
    }

    /// Returns the value for a tenant.
    #[must_use]
    pub fn get(&self, tenant: &TenantId) -> &T {
        self.overrides.get(tenant).unwrap_or(&self.default)
    }
}

/// Live counters of a tenant.
#[derive(Debug)]
pub struct Tenant {
    id: TenantId,
    limits: TenantLimits,
    requests: AtomicU32,
    readers: AtomicU32,
    /// Theoretical arrival time of the last request (GCRA), in nanoseconds of the interface's
    /// clock.
    arrival: AtomicU64,
    /// Time of the last refusal written to the audit log, in seconds of the interface's clock, plus
    /// one.
    audited_at: AtomicU64,
}

/// An exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// Too many concurrent requests.
    Requests(u32),
    /// Too many readers are connected.
    Readers(u32),
    /// Too many requests per second; the next one is accepted after this time.
    Pace(u32, Duration),
}

/// Minimum seconds between entries of a tenant's audit log about refused credentials.
const AUDIT_INTERVAL_SECONDS: u64 = 10;
const SECOND: u64 = 1_000_000_000;

impl Tenant {
    /// Creates a tenant without requests so far.
    #[must_use]
    pub fn new(id: TenantId, limits: TenantLimits) -> Self {
        let zero = AtomicU64::new;
        let none = AtomicU32::new;
        Self {
            id,
            limits,
            requests: none(0),
            readers: none(0),
            arrival: zero(0),
            audited_at: zero(0),
        }
    }

    /// Returns the id of the tenant.
    #[must_use]
    pub fn id(&self) -> &TenantId {
        &self.id
    }

    /// Admits a request: counts it until the result is dropped.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn admit(self: &Arc<Self>, now: Duration) -> Result<Option<TenantSlot>, ExceededLimit> {
        self.check_rate(now)?;
        let max = self.limits.requests_max;
        match TenantSlot::acquire(self, max, |tenant| &tenant.requests) {
            Some(held) => Ok(held),
            None => Err(ExceededLimit::Requests(max)),
        }
    }

    /// Counts a reader until the result is dropped.
    ///
    /// # Errors
    /// [`ExceededLimit::Readers`].
    pub fn acquire_reader(self: &Arc<Self>) -> Result<Option<TenantSlot>, ExceededLimit> {
        let max = self.limits.readers_max;
        TenantSlot::acquire(self, max, |tenant| &tenant.readers).ok_or(ExceededLimit::Readers(max))
    }

    /// Limits requests to an even rate with a burst of one second (GCRA).
    fn check_rate(&self, now: Duration) -> Result<(), ExceededLimit> {
        let rate = self.limits.requests_per_second;
        if rate == 0 {
            return Ok(());
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let step = SECOND / u64::from(rate).max(1);
        let next = |arrival: u64| {
            let due = arrival.max(now);
            (due + step <= now + SECOND.max(step)).then_some(due + step)
        };
        match self.arrival.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(arrival) => {
                let wait = (arrival + step).saturating_sub(now + SECOND.max(step));
                Err(ExceededLimit::Pace(rate, Duration::from_nanos(wait)))
            }
        }
    }

    /// Returns true at most once per interval: a flood of refusals must not fill the audit log.
    pub fn should_audit_refusal(&self, now: Duration) -> bool {
        let now = now.as_secs() + 1;
        let due = |last: u64| (last == 0 || now >= last + AUDIT_INTERVAL_SECONDS).then_some(now);
        self.audited_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}

/// A counted request or reader of a tenant; released when dropped.
#[derive(Debug)]
pub struct TenantSlot {
    tenant: Arc<Tenant>,
    counter: fn(&Tenant) -> &AtomicU32,
}

impl TenantSlot {
    /// Increments a counter; returns `None` at the limit, an inner `None` if there is no limit.
    #[expect(clippy::option_option, reason = "no place and no count are different answers")]
    fn acquire(
        tenant: &Arc<Tenant>,
        max: u32,
        counter: fn(&Tenant) -> &AtomicU32,
    ) -> Option<Option<Self>> {
        if max == 0 {
            return Some(None);
        }
        let one_more = |held: u32| (held < max).then_some(held + 1);
        counter(tenant).fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Some(Self { tenant: Arc::clone(tenant), counter }))
    }
}

impl Drop for TenantSlot {
    fn drop(&mut self) {
        (self.counter)(&self.tenant).fetch_sub(1, Ordering::AcqRel);
    }
}
