//! Quotas of a tenant: sessions and bytes. They are counted once from the store and then
//! incrementally, in counters per tenant; the store is counted again when a limit is reached, and
//! every few seconds where other nodes write to it.
//! It must not block one tenant on another, nor read a body.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{Code, Service, ServiceError, ServiceResult};
use crate::{
    access::{AUDIT_USER, PerTenant},
    env::sync::{Mutex, RwLock},
    event::{TenantId, UserId},
};

/// Maximum bytes of a record in addition to client data.
const RECORD_BYTES: u64 = 256;
/// Minimum time between two counts of the store for a full tenant.
const RECOUNT: Duration = Duration::from_secs(1);
/// Maximum age of a count of a store that other nodes write to: what they write meanwhile may
/// exceed a quota.
const RECOUNT_SHARED: Duration = Duration::from_secs(5);

/// Storage limits of each tenant; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Maximum number of sessions.
    pub sessions_max: u64,
    /// Maximum bytes of bodies, checkpoints, cursors, titles and metadata, before compression.
    pub bytes_max: u64,
}

/// Counted usage of tenants.
#[derive(Default)]
pub(super) struct UsageLedger {
    quotas: PerTenant<Quotas>,
    /// True if other nodes write to the store, too.
    is_shared: bool,
    by_tenant: RwLock<HashMap<TenantId, Arc<TenantCounts>>>,
}

#[derive(Default)]
struct TenantCounts {
    sessions: AtomicU64,
    bytes: AtomicU64,
    /// Time of the last count of the store.
    counted: Mutex<Option<Duration>>,
}

impl UsageLedger {
    pub(super) fn new(quotas: PerTenant<Quotas>, is_shared: bool) -> Self {
        Self { quotas, is_shared, by_tenant: RwLock::default() }
    }

    fn tenant_counts(&self, tenant: &TenantId) -> Arc<TenantCounts> {
        let known = self.by_tenant.read();
        if let Some(counts) = known.get(tenant) {
            return Arc::clone(counts);
        }
        drop(known);
        let mut known = self.by_tenant.write();
        Arc::clone(known.entry(tenant.clone()).or_default())
    }
}

impl TenantCounts {
    /// Reserves quota, if enough is left.
    fn reserve(&self, quotas: &Quotas, sessions: u64, bytes: u64) -> Result<(), ServiceError> {
        let over = |counter: &AtomicU64, more: u64, max: u64| {
            let sum = counter.fetch_add(more, Ordering::AcqRel) + more;
            let over = max != 0 && more != 0 && sum > max;
            if over {
                counter.fetch_sub(more, Ordering::AcqRel);
            }
            over
        };
        if over(&self.sessions, sessions, quotas.sessions_max) {
            return Err(quota_error(&format!("the tenant keeps {} sessions", quotas.sessions_max)));
        }
        if over(&self.bytes, bytes, quotas.bytes_max) {
            self.sessions.fetch_sub(sessions, Ordering::AcqRel);
            return Err(quota_error(&format!("the tenant keeps {} bytes", quotas.bytes_max)));
        }
        Ok(())
    }

    /// Returns true if a count is due: initially, and once the last one is older than `age_max`, if
    /// given.
    fn is_due(&self, now: Duration, age_max: Option<Duration>) -> bool {
        let mut counted = self.counted.lock();
        let due = counted.is_none_or(|last| age_max.is_some_and(|age| now >= last + age));
        if due {
            *counted = Some(now);
        }
        due
    }
}

impl Service {
    pub(super) async fn reserve_quota(
        &self,
        tenant: &TenantId,
        sessions: u64,
        records: usize,
        body_bytes: usize,
    ) -> ServiceResult<()> {
        let quotas = self.ledger.quotas.get(tenant);
        if *quotas == Quotas::default() {
            return Ok(());
        }
        let bytes =
            (body_bytes as u64).saturating_add((records as u64).saturating_mul(RECORD_BYTES));
        let counts = self.ledger.tenant_counts(tenant);
        let age_max = self.ledger.is_shared.then_some(RECOUNT_SHARED);
        if counts.is_due(self.clock.monotonic(), age_max) {
            self.recount(tenant, &counts).await?;
        }
        let Err(error) = counts.reserve(quotas, sessions, bytes) else { return Ok(()) };
        if !counts.is_due(self.clock.monotonic(), Some(RECOUNT)) {
            return Err(error);
        }
        self.recount(tenant, &counts).await?;
        counts.reserve(quotas, sessions, bytes)
    }

    async fn recount(&self, tenant: &TenantId, counts: &TenantCounts) -> ServiceResult<()> {
        // The server's own sessions count towards no quota.
        let own = UserId::new(AUDIT_USER).expect("a constant that is a name");
        let usage = self.store.usage(tenant, &own).await.inspect_err(|_| {
            // A failed count is repeated before the next write.
            *counts.counted.lock() = None;
        })?;
        counts.sessions.store(usage.sessions, Ordering::Release);
        counts.bytes.store(usage.bytes, Ordering::Release);
        Ok(())
    }
}

fn quota_error(problem: &str) -> ServiceError {
    ServiceError::new(Code::QuotaExceeded, format!("{problem}, as many as it may"))
        .action("delete sessions that are not needed, or ask the server's operator for more")
}
