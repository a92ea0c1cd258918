//! Places for computations that take longer than a millisecond. As many run at once as there are
//! processors; tenants that wait take turns. A computation passes its place on after a slice of time,
//! and ends once its caller stops waiting. It must not know what is computed.

use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Code, Service, ServiceError, ServiceResult};
use crate::{
    env::{Clock, sync::Mutex},
    event::{
        TenantId,
        pace::{Ended, paced},
    },
};

/// How long a computation keeps its place while others wait.
const SLICE: Duration = Duration::from_millis(2);
/// Computations of a tenant that have begun at most: each may hold memory while it waits.
const BEGUN_MAX: usize = 8;
/// Computations of a tenant that wait to begin at most.
const WAITING_MAX: usize = 64;

/// The places of a process.
pub(super) struct Places {
    clock: Arc<dyn Clock>,
    queue: Mutex<Queue>,
}

struct Queue {
    /// Places that no computation has.
    free: usize,
    lanes: HashMap<TenantId, Lane>,
    /// Tenants of whose computations one waits, each once; the next is first.
    turns: VecDeque<TenantId>,
}

/// The computations of a tenant.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Waiter>,
    /// Those that have begun, with a place or waiting for one.
    begun: usize,
}

struct Waiter {
    has_begun: bool,
    place: oneshot::Sender<Place>,
}

/// A place of a computation, given back when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    tenant: TenantId,
    since: Duration,
    /// Cleared where the queue counts it already.
    is_counted: bool,
}

impl Places {
    pub(super) fn new(clock: Arc<dyn Clock>, at_once: usize) -> Arc<Self> {
        let (lanes, turns) = (HashMap::new(), VecDeque::new());
        let queue = Queue { free: at_once.max(1), lanes, turns };
        Arc::new(Self { clock, queue: Mutex::from(queue) })
    }

    /// A place for a computation of a tenant, once it is its turn.
    ///
    /// # Errors
    /// `limit_reached` while too many computations of this tenant wait.
    pub(super) async fn ask(self: &Arc<Self>, tenant: &TenantId) -> ServiceResult<Place> {
        let (place, turn) = oneshot::channel();
        let waiter = Waiter { has_begun: false, place };
        if !self.queue.lock().take(tenant, waiter) {
            let message = format!("{WAITING_MAX} computations of this tenant wait for their turn");
            return Err(ServiceError::new(Code::LimitReached, message).action("try again shortly"));
        }
        self.give_out();
        turn.await.map_err(|error| ServiceError::new(Code::InternalError, error.to_string()))
    }

    /// Gives the free places to those whose turn it is.
    fn give_out(self: &Arc<Self>) {
        loop {
            let Some((tenant, waiter)) = self.queue.lock().next() else { return };
            let (places, since) = (Arc::clone(self), self.clock.monotonic());
            let place = Place { places, tenant, since, is_counted: true };
            // A caller that is gone takes none.
            if let Err(mut place) = waiter.place.send(place) {
                place.is_counted = false;
                self.queue.lock().leave(&place.tenant);
            }
        }
    }
}

impl Queue {
    /// Takes one that waits; whether there was room for it.
    fn take(&mut self, tenant: &TenantId, waiter: Waiter) -> bool {
        let lane = self.lanes.entry(tenant.clone()).or_default();
        let fresh = lane.waiting.iter().filter(|one| !one.has_begun && !one.place.is_closed());
        if !waiter.has_begun && fresh.count() >= WAITING_MAX {
            return false;
        }
        if lane.waiting.is_empty() {
            self.turns.push_back(tenant.clone());
        }
        lane.waiting.push_back(waiter);
        true
    }

    /// The one whose turn it is, when a place is free: it has the place then.
    fn next(&mut self) -> Option<(TenantId, Waiter)> {
        for _ in 0..self.turns.len() {
            if self.free == 0 {
                return None;
            }
            let tenant = self.turns.pop_front()?;
            let lane = self.lanes.get_mut(&tenant)?;
            let may_begin = lane.begun < BEGUN_MAX;
            let at = lane.waiting.iter().position(|one| one.has_begun || may_begin);
            let waiter = at.and_then(|at| lane.waiting.remove(at));
            if !lane.waiting.is_empty() {
                self.turns.push_back(tenant.clone());
            }
            if let Some(waiter) = waiter {
                self.free -= 1;
                lane.begun += usize::from(!waiter.has_begun);
                return Some((tenant, waiter));
            }
        }
        None
    }

    /// A computation of a tenant is over.
    fn leave(&mut self, tenant: &TenantId) {
        self.free += 1;
        let Some(lane) = self.lanes.get_mut(tenant) else { return };
        lane.begun -= 1;
        if lane.begun == 0 && lane.waiting.is_empty() {
            self.lanes.remove(tenant);
        }
    }

    /// A computation gives its place up until its next turn; whether another one waits for it.
    fn step_aside(&mut self, tenant: &TenantId, place: oneshot::Sender<Place>) -> bool {
        if self.turns.is_empty() {
            return false;
        }
        self.take(tenant, Waiter { has_begun: true, place });
        self.free += 1;
        true
    }
}

impl Place {
    /// Whether it is to be passed on, if another computation waits.
    fn is_due(&self) -> bool {
        self.places.clock.monotonic().saturating_sub(self.since) >= SLICE
    }

    /// Gives the place up, when another computation waits: then it comes back by the receiver.
    fn step_aside(&mut self) -> Option<oneshot::Receiver<Place>> {
        let (place, turn) = oneshot::channel();
        if !self.places.queue.lock().step_aside(&self.tenant, place) {
            self.since = self.places.clock.monotonic();
            return None;
        }
        self.is_counted = false;
        self.places.give_out();
        Some(turn)
    }

    /// Gives way to others, if it is time to.
    pub(super) async fn give_way(mut self) -> ServiceResult<Self> {
        if !self.is_due() {
            return Ok(self);
        }
        match self.step_aside() {
            None => Ok(self),
            Some(turn) => turn
                .await
                .map_err(|error| ServiceError::new(Code::InternalError, error.to_string())),
        }
    }

    /// The same on a thread that may block.
    fn give_way_blocking(mut self) -> Result<Self, Ended> {
        if !self.is_due() {
            return Ok(self);
        }
        match self.step_aside() {
            None => Ok(self),
            Some(turn) => turn.blocking_recv().map_err(|_| Ended),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.places.queue.lock().leave(&self.tenant);
            self.places.give_out();
        }
    }
}

/// Ends a computation when its caller stops waiting.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Service {
    /// Runs a computation of a tenant on a thread of its own, once it has a place. Its loops call
    /// [`crate::event::pace::steps`]: it gives way to others there, and ends there when this future
    /// is dropped. It must hold no lock and wait for nothing.
    ///
    /// # Errors
    /// `limit_reached` while too many computations of this tenant wait.
    pub(super) async fn computed<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let place = self.places.ask(tenant).await?;
        let is_over = Arc::new(AtomicBool::new(false));
        let _wanted = Wanted(Arc::clone(&is_over));
        let computing = tokio::task::spawn_blocking(move || {
            let place = Cell::new(Some(place));
            let look = move || {
                let held = place.take().ok_or(Ended)?;
                if is_over.load(Ordering::Relaxed) {
                    return Err(Ended);
                }
                place.set(Some(held.give_way_blocking()?));
                Ok(())
            };
            paced(look, compute)
        });
        let failed = |message: String| ServiceError::new(Code::InternalError, message);
        let computed = computing.await.map_err(|error| failed(error.to_string()))?;
        computed.map_err(|Ended| failed("the computation was ended".to_owned()))
    }
}
