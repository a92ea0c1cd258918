//! Memory budgets for large requests and responses, for computations, and for facts. Memory is
//! reserved before it is allocated and released after it is freed. A caller waits for a limited
//! time and is then rejected with a retryable error. A tenant gets at most half of a shared budget.
//! It must not depend on the use of the memory.
//!
//! Budgets are acquired in a fixed order: bodies, responses, computations, facts. The holder of a
//! reservation never waits for more of the same budget: it grows if memory is free, or is rejected.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Code, Service, ServiceError, ServiceResult};
use crate::{env::sync::Mutex, event::TenantId};

/// Unit of a budget in bytes.
const UNIT: usize = 1 << 10;
/// Bytes reserved by a computation for each byte of a body that it reads: the body, its text, and
/// data derived from it.
pub(super) const HELD_FOR_A_BYTE: usize = 3;
/// Time that a computation waits for memory for facts.
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory budget for one purpose.
pub struct MemoryBudget {
    units: Arc<Semaphore>,
    all: u32,
    patience: Duration,
    full: BudgetFull,
    /// Share of each tenant; tenants without reservations are absent.
    shares: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// Texts of the error when the budget is exhausted.
#[derive(Clone, Copy, Debug)]
pub struct BudgetFull {
    /// Cause of the exhaustion.
    pub problem: &'static str,
    /// Advice to the caller.
    pub action: &'static str,
}

/// Error texts of the computations' budget.
const COMPUTATIONS: BudgetFull = BudgetFull {
    problem: "the computations that are under way take all the room there is",
    action: "come back later, or ask for less at once",
};

/// Error texts of the facts' budget.
const FACTS: BudgetFull = BudgetFull {
    problem: "the facts of the sessions in use take all the room there is",
    action: "come back later",
};

/// Memory reservation, released on drop.
pub struct Reservation {
    of_all: OwnedSemaphorePermit,
    of_share: Option<OwnedSemaphorePermit>,
}

impl MemoryBudget {
    /// Creates a budget of a number of bytes.
    #[must_use]
    pub fn new(bytes: usize, patience: Duration, full: BudgetFull) -> Self {
        let all = to_units(bytes);
        let units = Arc::new(Semaphore::new(all as usize));
        Self { units, all, patience, full, shares: Mutex::default() }
    }

    pub(super) fn for_computations(bytes: usize, patience: Duration) -> Self {
        Self::new(bytes, patience, COMPUTATIONS)
    }

    pub(super) fn for_facts(bytes: usize) -> Self {
        Self::new(bytes, PATIENCE, FACTS)
    }

    /// Reserves a number of bytes, or the whole budget if that is less, waiting for a limited time.
    ///
    /// # Errors
    /// `limit_reached`, retryable.
    pub async fn reserve(&self, bytes: usize) -> ServiceResult<Reservation> {
        // Usually memory is free, and no timer is needed.
        if let Some(held) = self.try_reserve(bytes) {
            return Ok(held);
        }
        let held = tokio::time::timeout(self.patience, self.reserve_without_timeout(bytes)).await;
        held.ok().flatten().ok_or_else(|| self.exhausted_error())
    }

    /// Reserves a number of bytes within the share of a tenant, waiting for a limited time.
    pub(super) async fn reserve_for(
        &self,
        tenant: &TenantId,
        bytes: usize,
    ) -> ServiceResult<Reservation> {
        let wanted = to_units(bytes).min(self.tenant_units_max());
        let both = async {
            let of_share = self.tenant_share(tenant).acquire_many_owned(wanted).await.ok()?;
            let of_all = Arc::clone(&self.units).acquire_many_owned(wanted).await.ok()?;
            Some(Reservation { of_all, of_share: Some(of_share) })
        };
        let held = tokio::time::timeout(self.patience, both).await;
        held.ok().flatten().ok_or_else(|| self.tenant_exhausted_error(tenant))
    }

    /// Reserves a number of bytes, if that many are free now.
    #[must_use]
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let of_all = Arc::clone(&self.units).try_acquire_many_owned(to_units(bytes).min(self.all));
        of_all.ok().map(|of_all| Reservation { of_all, of_share: None })
    }

    /// Reserves a number of bytes, waiting without a limit.
    pub async fn reserve_without_timeout(&self, bytes: usize) -> Option<Reservation> {
        let wanted = to_units(bytes).min(self.all);
        let of_all = Arc::clone(&self.units).acquire_many_owned(wanted).await.ok()?;
        Some(Reservation { of_all, of_share: None })
    }

    /// Grows a reservation to a number of bytes; returns false if too few are free now.
    #[must_use]
    pub fn try_grow(&self, held: &mut Reservation, bytes: usize) -> bool {
        let wanted = to_units(bytes).min(self.all) as usize;
        let Some(more) = wanted.checked_sub(held.of_all.num_permits()).filter(|more| *more > 0)
        else {
            return true;
        };
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        match Arc::clone(&self.units).try_acquire_many_owned(more) {
            Ok(permit) => held.of_all.merge(permit),
            Err(_) => return false,
        }
        true
    }

    /// Resizes a tenant's reservation to a number of bytes; growing requires that many to be free
    /// now.
    ///
    /// # Errors
    /// `limit_reached`, retryable.
    pub(super) fn resize(
        &self,
        tenant: &TenantId,
        held: &mut Option<Reservation>,
        bytes: usize,
    ) -> ServiceResult<()> {
        let wanted = to_units(bytes).min(self.tenant_units_max()) as usize;
        let has = held.as_ref().map_or(0, |held| held.of_all.num_permits());
        if wanted <= has {
            if let Some(held) = held {
                held.release_units(has - wanted);
            }
            return Ok(());
        }
        let more = u32::try_from(wanted - has).unwrap_or(u32::MAX);
        let of_share = self.tenant_share(tenant).try_acquire_many_owned(more);
        let of_all = Arc::clone(&self.units).try_acquire_many_owned(more);
        let (Ok(of_share), Ok(of_all)) = (of_share, of_all) else {
            return Err(self.tenant_exhausted_error(tenant));
        };
        match held {
            None => *held = Some(Reservation { of_all, of_share: Some(of_share) }),
            Some(held) => {
                held.of_all.merge(of_all);
                if let Some(known) = &mut held.of_share {
                    known.merge(of_share);
                }
            }
        }
        Ok(())
    }

    fn tenant_units_max(&self) -> u32 {
        self.all.div_ceil(2)
    }

    fn tenant_share(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(tenant) {
            return Arc::clone(share);
        }
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        let share = Arc::new(Semaphore::new(self.tenant_units_max() as usize));
        shares.insert(tenant.clone(), Arc::clone(&share));
        share
    }

    fn exhausted_error(&self) -> ServiceError {
        self.limit_error(self.full.problem.to_owned())
    }

    fn tenant_exhausted_error(&self, tenant: &TenantId) -> ServiceError {
        self.limit_error(format!("{} for tenant {tenant}", self.full.problem))
    }

    fn limit_error(&self, problem: String) -> ServiceError {
        let mut error = ServiceError::new(Code::LimitReached, problem).action(self.full.action);
        error.hint.retryable = true;
        error
    }
}

impl Reservation {
    /// Attaches the reservation to a response, shrunk to its size, until the last byte is sent.
    #[must_use]
    pub fn into_response(mut self, bytes: Vec<u8>) -> Bytes {
        let needed = self.of_all.num_permits().min(to_units(bytes.capacity()) as usize);
        let _memory = self.of_all.split(needed);
        Bytes::from_owner(ReservedBytes { bytes, _memory })
    }

    pub(super) fn bytes(&self) -> usize {
        self.of_all.num_permits() * UNIT
    }

    fn release_units(&mut self, units: usize) {
        drop(self.of_all.split(units));
        drop(self.of_share.as_mut().and_then(|share| share.split(units)));
    }
}

/// Bytes with their memory reservation, dropped together.
struct ReservedBytes {
    bytes: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn to_units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

impl Service {
    /// Reserves memory for a tenant's computation. A verb calls this once, before it reads.
    ///
    /// # Errors
    /// `limit_reached`, retryable.
    pub(super) async fn reserve_memory(
        &self,
        tenant: &TenantId,
        bytes: usize,
    ) -> ServiceResult<Reservation> {
        self.computations.reserve_for(tenant, bytes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: BudgetFull = BudgetFull { problem: "it is full", action: "come back" };

    fn tenants() -> [TenantId; 3] {
        ["a", "b", "c"].map(|name| TenantId::new(name).expect("a name"))
    }

    #[tokio::test]
    async fn a_tenant_gets_half_of_a_budget_and_another_tenant_the_rest() {
        let room = MemoryBudget::new(8 * UNIT, Duration::ZERO, FULL);
        let [one, other, third] = tenants();
        let all =
            room.reserve_for(&one, 100 * UNIT).await.expect("what is more than all goes alone");
        let refused = room.reserve_for(&one, UNIT).await.err().expect("its half is taken");
        assert_eq!((refused.code, refused.hint.retryable), (Code::LimitReached, true));
        let rest = room.reserve_for(&other, 4 * UNIT).await.expect("the other half is there");
        assert!(room.reserve_for(&third, UNIT).await.is_err(), "all of it is taken");
        drop(all);
        drop(room.reserve_for(&third, UNIT).await.expect("some was given back"));
        drop(rest);
        assert!(room.try_reserve(8 * UNIT).is_some());
    }

    #[tokio::test]
    async fn a_reservation_grows_only_while_memory_is_free_and_never_waits() {
        let room = MemoryBudget::new(8 * UNIT, Duration::from_secs(3_600), FULL);
        let [one, other, _] = tenants();
        let (mut held, mut others) = (None, None);
        room.resize(&one, &mut held, 3 * UNIT).expect("there is room");
        room.resize(&other, &mut others, 4 * UNIT).expect("there is room");
        assert_eq!(room.units.available_permits(), 1);
        room.resize(&one, &mut held, 100 * UNIT).expect("no more than its half counts");
        assert!(room.resize(&one, &mut None, UNIT).is_err());
        room.resize(&one, &mut held, UNIT).expect("less is always there");
        assert_eq!(room.units.available_permits(), 3);
        drop((held, others));
        assert_eq!(room.units.available_permits(), 8);
    }
}
