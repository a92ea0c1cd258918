//! Room in memory: for large requests and answers, for what computations hold, and for facts. It is
//! asked for before the bytes are there and given back when they are gone. A later caller waits
//! for a while and is then refused as retryable. Of a room that is shared a tenant has half. It
//! must not know what takes it.
//!
//! Rooms are asked in one order: bodies, answers, computations, facts. What has room in one of them
//! waits for no more of it: it grows when there is more just now, or is refused.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Code, Service, ServiceError, ServiceResult};
use crate::{env::sync::Mutex, event::TenantId};

/// Room is counted in units of so many bytes.
const UNIT: usize = 1 << 10;
/// Bytes that a computation holds for each byte of a body that it reads: the body, its text, and
/// what is made of it.
pub(super) const HELD_FOR_A_BYTE: usize = 3;
/// Time that a computation waits for room for facts.
const PATIENCE: Duration = Duration::from_secs(10);

/// The room for all of a kind.
pub struct Room {
    units: Arc<Semaphore>,
    all: u32,
    patience: Duration,
    full: Full,
    /// Share of each tenant; those that hold none are not in it.
    shares: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// The refusal where there is no room.
#[derive(Clone, Copy, Debug)]
pub struct Full {
    /// Cause of the lack of room.
    pub problem: &'static str,
    /// Advice to the caller.
    pub action: &'static str,
}

/// Refusal where computations take the room.
const COMPUTATIONS: Full = Full {
    problem: "the computations that are under way take all the room there is",
    action: "come back later, or ask for less at once",
};

/// Facts of sessions.
const FACTS: Full = Full {
    problem: "the facts of the sessions in use take all the room there is",
    action: "come back later",
};

/// Room for one of them.
pub struct Held {
    of_all: OwnedSemaphorePermit,
    of_share: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Room for so many bytes.
    #[must_use]
    pub fn new(bytes: usize, patience: Duration, full: Full) -> Self {
        let all = units(bytes);
        let units = Arc::new(Semaphore::new(all as usize));
        Self { units, all, patience, full, shares: Mutex::default() }
    }

    /// Room for computations.
    pub(super) fn of_computations(bytes: usize, patience: Duration) -> Self {
        Self::new(bytes, patience, COMPUTATIONS)
    }

    /// Room for facts.
    pub(super) fn of_facts(bytes: usize) -> Self {
        Self::new(bytes, PATIENCE, FACTS)
    }

    /// Room for so many bytes, or for all there is when it is less: that one goes alone.
    ///
    /// # Errors
    /// `limit_reached`, retryable.
    pub async fn ask(&self, bytes: usize) -> ServiceResult<Held> {
        // Mostly there is room, and no timer is needed.
        if let Some(held) = self.now(bytes) {
            return Ok(held);
        }
        let held = tokio::time::timeout(self.patience, self.wait(bytes)).await;
        held.ok().flatten().ok_or_else(|| self.refusal())
    }

    /// The same of the share of a tenant.
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

    /// Room for so many bytes when there is so much just now.
    #[must_use]
    pub fn now(&self, bytes: usize) -> Option<Held> {
        let of_all = Arc::clone(&self.units).try_acquire_many_owned(units(bytes).min(self.all));
        of_all.ok().map(|of_all| Held { of_all, of_share: None })
    }

    /// Room for so many bytes, however long that takes.
    pub async fn wait(&self, bytes: usize) -> Option<Held> {
        let wanted = units(bytes).min(self.all);
        let of_all = Arc::clone(&self.units).acquire_many_owned(wanted).await.ok()?;
        Some(Held { of_all, of_share: None })
    }

    /// Makes it room for so many bytes, when there is so much just now.
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

    /// Makes it room of a tenant for so many bytes, more or less than before, when there is so much
    /// just now.
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

    /// Units of a tenant at most.
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
    /// The answer, which takes no more room than it needs until its last byte has left.
    #[must_use]
    pub fn answer(mut self, bytes: Vec<u8>) -> Bytes {
        let needed = self.of_all.num_permits().min(units(bytes.capacity()) as usize);
        let _room = self.of_all.split(needed);
        Bytes::from_owner(BytesInRoom { bytes, _room })
    }

    /// The bytes it is room for.
    pub(super) fn bytes(&self) -> usize {
        self.of_all.num_permits() * UNIT
    }

    /// Gives so many units back.
    fn split_off(&mut self, units: usize) {
        drop(self.of_all.split(units));
        drop(self.of_share.as_mut().and_then(|share| share.split(units)));
    }
}

/// The bytes and the room they take, dropped together.
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
    /// Room for what a computation of a tenant holds at most. A verb asks once, before it reads.
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
    async fn a_tenant_has_half_of_a_room_and_another_one_the_rest() {
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
    async fn a_holder_of_room_grows_when_there_is_more_and_waits_for_none() {
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
