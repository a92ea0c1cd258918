//! Quotas of a tenant: sessions and bytes. They are counted once from the store and then by
//! addition, in counters of the tenant; the store is counted again only when a limit is reached. It
//! must not make tenants wait for each other, nor look at a body.

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

/// Most bytes of a record besides what the client chose.
const RECORD_BYTES: u64 = 256;
/// Time before the store of a full tenant is counted again.
const RECOUNT: Duration = Duration::from_secs(1);

/// Limits of what each tenant may store; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Sessions.
    pub sessions_max: u64,
    /// Bytes of bodies, checkpoints, cursors, titles and metadata, before compression.
    pub bytes_max: u64,
}

/// Usage of tenants, as far as it was counted.
#[derive(Default)]
pub(super) struct Ledger {
    quotas: PerTenant<Quotas>,
    by_tenant: RwLock<HashMap<TenantId, Arc<TenantCounts>>>,
}

#[derive(Default)]
struct TenantCounts {
    sessions: AtomicU64,
    bytes: AtomicU64,
    /// Time of the last count of the store.
    counted: Mutex<Option<Duration>>,
}

impl Ledger {
    pub(super) fn new(quotas: PerTenant<Quotas>) -> Self {
        Self { quotas, by_tenant: RwLock::default() }
    }

    fn counts_of(&self, tenant: &TenantId) -> Arc<TenantCounts> {
        let known = self.by_tenant.read();
        if let Some(kept) = known.get(tenant) {
            return Arc::clone(kept);
        }
        drop(known);
        let mut known = self.by_tenant.write();
        Arc::clone(known.entry(tenant.clone()).or_default())
    }
}

impl TenantCounts {
    /// Reserves room, if there is enough.
    fn take(&self, quotas: &Quotas, sessions: u64, bytes: u64) -> Result<(), ServiceError> {
        let over = |counter: &AtomicU64, more: u64, max: u64| {
            let sum = counter.fetch_add(more, Ordering::AcqRel) + more;
            let over = max != 0 && more != 0 && sum > max;
            if over {
                counter.fetch_sub(more, Ordering::AcqRel);
            }
            over
        };
        if over(&self.sessions, sessions, quotas.sessions_max) {
            return Err(full(&format!("the tenant keeps {} sessions", quotas.sessions_max)));
        }
        if over(&self.bytes, bytes, quotas.bytes_max) {
            self.sessions.fetch_sub(sessions, Ordering::AcqRel);
            return Err(full(&format!("the tenant keeps {} bytes", quotas.bytes_max)));
        }
        Ok(())
    }

    /// True if a count is due: at first, and from time to time while a limit is reached.
    fn is_due(&self, now: Duration, only_first: bool) -> bool {
        let mut counted = self.counted.lock();
        let due = counted.is_none_or(|last| !only_first && now >= last + RECOUNT);
        if due {
            *counted = Some(now);
        }
        due
    }
}

impl Service {
    /// Reserves room for a tenant's write.
    pub(super) async fn room_for(
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
        let kept = self.ledger.counts_of(tenant);
        if kept.is_due(self.clock.monotonic(), true) {
            self.recount(tenant, &kept).await?;
        }
        let Err(error) = kept.take(quotas, sessions, bytes) else { return Ok(()) };
        if !kept.is_due(self.clock.monotonic(), false) {
            return Err(error);
        }
        self.recount(tenant, &kept).await?;
        kept.take(quotas, sessions, bytes)
    }

    async fn recount(&self, tenant: &TenantId, kept: &TenantCounts) -> ServiceResult<()> {
        // The server's own sessions count against no quota.
        let own = UserId::new(AUDIT_USER).expect("a constant that is a name");
        let usage = self.store.usage(tenant, &own).await.inspect_err(|_| {
            // What was not counted is counted before the next write.
            *kept.counted.lock() = None;
        })?;
        kept.sessions.store(usage.sessions, Ordering::Release);
        kept.bytes.store(usage.bytes, Ordering::Release);
        Ok(())
    }
}

fn full(problem: &str) -> ServiceError {
    ServiceError::new(Code::QuotaExceeded, format!("{problem}, as many as it may"))
        .action("delete sessions that are not needed, or ask the server's operator for more")
}
