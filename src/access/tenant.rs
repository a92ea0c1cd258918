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
pub struct Limits {
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
    general: T,
    own: HashMap<TenantId, T>,
}

impl<T> From<T> for PerTenant<T> {
    fn from(general: T) -> Self {
        Self { general, own: HashMap::new() }
    }
}

impl<T> PerTenant<T> {
    /// Overrides the setting for one tenant.
    pub fn set(&mut self, tenant: TenantId, own: T) {
        self.own.insert(tenant, own);
    }

    /// Returns the value for a tenant.
    #[must_use]
    pub fn get(&self, tenant: &TenantId) -> &T {
        self.own.get(tenant).unwrap_or(&self.general)
    }
}

/// Live counters of a tenant.
#[derive(Debug)]
pub struct Tenant {
    id: TenantId,
    limits: Limits,
    requests: AtomicU32,
    readers: AtomicU32,
    /// Theoretical arrival time of the last request (GCRA), in nanoseconds of the interface's
    /// clock.
    paced: AtomicU64,
    /// Time of the last refusal written to the audit log, in seconds of the interface's clock, plus
    /// one.
    noted: AtomicU64,
}

/// An exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Too many concurrent requests.
    Requests(u32),
    /// Too many readers are connected.
    Readers(u32),
    /// Too many requests per second; the next one is accepted after this time.
    Pace(u32, Duration),
}

/// Minimum seconds between entries of a tenant's audit log about refused credentials.
const NOTED_SECONDS: u64 = 10;
const SECOND: u64 = 1_000_000_000;

impl Tenant {
    /// Creates a tenant without requests so far.
    #[must_use]
    pub fn new(id: TenantId, limits: Limits) -> Self {
        let zero = AtomicU64::new;
        let none = AtomicU32::new;
        Self { id, limits, requests: none(0), readers: none(0), paced: zero(0), noted: zero(0) }
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> &TenantId {
        &self.id
    }

    /// Counts a request until the result is dropped.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn enter(self: &Arc<Self>, now: Duration) -> Result<Option<Reading>, Full> {
        self.check_rate(now)?;
        let max = self.limits.requests_max;
        match Reading::acquire(self, max, |tenant| &tenant.requests) {
            Some(held) => Ok(held),
            None => Err(Full::Requests(max)),
        }
    }

    /// Counts a reader until the result is dropped.
    ///
    /// # Errors
    /// [`Full::Readers`].
    pub fn read(self: &Arc<Self>) -> Result<Option<Reading>, Full> {
        let max = self.limits.readers_max;
        Reading::acquire(self, max, |tenant| &tenant.readers).ok_or(Full::Readers(max))
    }

    /// Limits requests to an even rate with a burst of one second (GCRA).
    fn check_rate(&self, now: Duration) -> Result<(), Full> {
        let rate = self.limits.requests_per_second;
        if rate == 0 {
            return Ok(());
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let step = SECOND / u64::from(rate).max(1);
        let next = |paced: u64| {
            let due = paced.max(now);
            (due + step <= now + SECOND.max(step)).then_some(due + step)
        };
        match self.paced.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(paced) => {
                let wait = (paced + step).saturating_sub(now + SECOND.max(step));
                Err(Full::Pace(rate, Duration::from_nanos(wait)))
            }
        }
    }

    /// Returns true if a refusal is to be audited now: a flood of them must not fill the audit log.
    pub fn notes(&self, now: Duration) -> bool {
        let now = now.as_secs() + 1;
        let due = |last: u64| (last == 0 || now >= last + NOTED_SECONDS).then_some(now);
        self.noted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}

/// A counted request or reader of a tenant; released when dropped.
#[derive(Debug)]
pub struct Reading {
    tenant: Arc<Tenant>,
    counter: fn(&Tenant) -> &AtomicU32,
}

impl Reading {
    /// Returns `None` at the limit, and an inner `None` if there is no limit.
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

impl Drop for Reading {
    fn drop(&mut self) {
        (self.counter)(&self.tenant).fetch_sub(1, Ordering::AcqRel);
    }
}
