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
pub struct Room {
    units: Arc<Semaphore>,
    all: u32,
    patience: Duration,
    full: Full,
    /// Share of each tenant; tenants without reservations are absent.
    shares: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// Texts of the error when the budget is exhausted.
#[derive(Clone, Copy, Debug)]
pub struct Full {
    /// Cause of the exhaustion.
    pub problem: &'static str,
    /// Advice to the caller.
    pub action: &'static str,
}

/// Error texts of the computations' budget.
const COMPUTATIONS: Full = Full {
    problem: "the computations that are under way take all the room there is",
    action: "come back later, or ask for less at once",
};

/// Error texts of the facts' budget.
const FACTS: Full = Full {
    problem: "the facts of the sessions in use take all the room there is",
    action: "come back later",
};

/// Memory reservation, released on drop.
pub struct Held {
    of_all: OwnedSemaphorePermit,
    of_share: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Creates a budget of a number of bytes.
    #[must_use]
    pub fn new(bytes: usize, patience: Duration, full: Full) -> Self {
        let all = units(bytes);
        let units = Arc::new(Semaphore::new(all as usize));
        Self { units, all, patience, full, shares: Mutex::default() }
    }

    /// Creates the budget for computations.
    pub(super) fn of_computations(bytes: usize, patience: Duration) -> Self {
        Self::new(bytes, patience, COMPUTATIONS)
    }

    /// Creates the budget for facts.
    pub(super) fn of_facts(bytes: usize) -> Self {
        Self::new(bytes, PATIENCE, FACTS)
    }

    /// Reserves a number of bytes, or the whole budget if that is less, waiting for a limited time.
    ///
    /// # Errors
    /// `limit_reached`, retryable.
    pub async fn ask(&self, bytes: usize) -> ServiceResult<Held> {
        // Usually memory is free, and no timer is needed.
        if let Some(held) = self.now(bytes) {
            return Ok(held);
        }
        let held = tokio::time::timeout(self.patience, self.wait(bytes)).await;
        held.ok().flatten().ok_or_else(|| self.refusal())
    }

    /// Like `ask`, within the share of a tenant.
    pub(super) async fn ask_for(&self, tenant: &TenantId, bytes: usize) -> ServiceResult<Held> {
        let wanted = units(bytes).min(self.share_max());
        let both = async {
            let of_share = self.share(tenant).acquire_many_owned(wanted).await.ok()?;
            let of_all = Arc::clone(&self.units).acquire_many_owned(wanted).await.ok()?;
            Some(Held { of_all, of_share: Some(of_share) })
        };
        let held = tokio::time::timeout(self.patience, both).await;
        held.ok().flatten().ok_or_else(|| self.refusal_of(tenant))
    }

    /// Reserves a number of bytes, if that many are free now.
    #[must_use]
    pub fn now(&self, bytes: usize) -> Option<Held> {
        let of_all = Arc::clone(&self.units).try_acquire_many_owned(units(bytes).min(self.all));
        of_all.ok().map(|of_all| Held { of_all, of_share: None })
    }

    /// Reserves a number of bytes, waiting without a limit.
    pub async fn wait(&self, bytes: usize) -> Option<Held> {
        let wanted = units(bytes).min(self.all);
        let of_all = Arc::clone(&self.units).acquire_many_owned(wanted).await.ok()?;
        Some(Held { of_all, of_share: None })
    }

    /// Grows a reservation to a number of bytes; returns false if too few are free now.
    #[must_use]
    pub fn grow(&self, held: &mut Held, bytes: usize) -> bool {
        let wanted = units(bytes).min(self.all) as usize;
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
    pub(super) fn fit(
        &self,
        tenant: &TenantId,
        held: &mut Option<Held>,
        bytes: usize,
    ) -> ServiceResult<()> {
        let wanted = units(bytes).min(self.share_max()) as usize;
        let has = held.as_ref().map_or(0, |held| held.of_all.num_permits());
        if wanted <= has {
            if let Some(held) = held {
                held.split_off(has - wanted);
            }
            return Ok(());
        }
        let more = u32::try_from(wanted - has).unwrap_or(u32::MAX);
        let of_share = self.share(tenant).try_acquire_many_owned(more);
        let of_all = Arc::clone(&self.units).try_acquire_many_owned(more);
        let (Ok(of_share), Ok(of_all)) = (of_share, of_all) else {
            return Err(self.refusal_of(tenant));
        };
        match held {
            None => *held = Some(Held { of_all, of_share: Some(of_share) }),
            Some(held) => {
                held.of_all.merge(of_all);
                if let Some(known) = &mut held.of_share {
                    known.merge(of_share);
                }
            }
        }
        Ok(())
    }

    /// Returns the maximum units of a tenant.
    fn share_max(&self) -> u32 {
        self.all.div_ceil(2)
    }

    fn share(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(tenant) {
            return Arc::clone(share);
        }
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        let share = Arc::new(Semaphore::new(self.share_max() as usize));
        shares.insert(tenant.clone(), Arc::clone(&share));
        share
    }

    fn refusal(&self) -> ServiceError {
        self.refused(self.full.problem.to_owned())
    }

    fn refusal_of(&self, tenant: &TenantId) -> ServiceError {
        self.refused(format!("{} for tenant {tenant}", self.full.problem))
    }

    fn refused(&self, problem: String) -> ServiceError {
        let mut error = ServiceError::new(Code::LimitReached, problem).action(self.full.action);
        error.hint.retryable = true;
        error
    }
}

impl Held {
    /// Attaches the reservation to a response, shrunk to its size, until the last byte is sent.
    #[must_use]
    pub fn answer(mut self, bytes: Vec<u8>) -> Bytes {
        let needed = self.of_all.num_permits().min(units(bytes.capacity()) as usize);
        let _room = self.of_all.split(needed);
        Bytes::from_owner(BytesInRoom { bytes, _room })
    }

    /// Returns the reserved bytes.
    pub(super) fn bytes(&self) -> usize {
        self.of_all.num_permits() * UNIT
    }

    /// Releases a number of units.
    fn split_off(&mut self, units: usize) {
        drop(self.of_all.split(units));
        drop(self.of_share.as_mut().and_then(|share| share.split(units)));
    }
}

/// Bytes with their memory reservation, dropped together.
struct BytesInRoom {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for BytesInRoom {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

impl Service {
    /// Reserves memory for a tenant's computation. A verb calls this once, before it reads.
    ///
    /// # Errors
    /// `limit_reached`, retryable.
    pub(super) async fn room(&self, tenant: &TenantId, bytes: usize) -> ServiceResult<Held> {
        self.computations.ask_for(tenant, bytes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Full = Full { problem: "it is full", action: "come back" };

    fn tenants() -> [TenantId; 3] {
        ["a", "b", "c"].map(|name| TenantId::new(name).expect("a name"))
    }

    #[tokio::test]
    async fn a_tenant_gets_half_of_a_budget_and_another_tenant_the_rest() {
        let room = Room::new(8 * UNIT, Duration::ZERO, FULL);
        let [one, other, third] = tenants();
        let all = room.ask_for(&one, 100 * UNIT).await.expect("what is more than all goes alone");
        let refused = room.ask_for(&one, UNIT).await.err().expect("its half is taken");
        assert_eq!((refused.code, refused.hint.retryable), (Code::LimitReached, true));
        let rest = room.ask_for(&other, 4 * UNIT).await.expect("the other half is there");
        assert!(room.ask_for(&third, UNIT).await.is_err(), "all of it is taken");
        drop(all);
        drop(room.ask_for(&third, UNIT).await.expect("some was given back"));
        drop(rest);
        assert!(room.now(8 * UNIT).is_some());
    }

    #[tokio::test]
    async fn a_reservation_grows_only_while_memory_is_free_and_never_waits() {
        let room = Room::new(8 * UNIT, Duration::from_secs(3_600), FULL);
        let [one, other, _] = tenants();
        let (mut held, mut others) = (None, None);
        room.fit(&one, &mut held, 3 * UNIT).expect("there is room");
        room.fit(&other, &mut others, 4 * UNIT).expect("there is room");
        assert_eq!(room.units.available_permits(), 1);
        room.fit(&one, &mut held, 100 * UNIT).expect("no more than its half counts");
        assert!(room.fit(&one, &mut None, UNIT).is_err());
        room.fit(&one, &mut held, UNIT).expect("less is always there");
        assert_eq!(room.units.available_permits(), 3);
        drop((held, others));
        assert_eq!(room.units.available_permits(), 8);
    }
}
