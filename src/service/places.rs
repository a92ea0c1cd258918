//! Places for computations that take longer than a millisecond. As many run at once as there are
//! processors; tenants that wait take turns. A computation passes its place on after a slice of time,
//! and ends once its caller stops waiting. It must not know what is computed.
//!
//! A task that has a place waits for no other place and for no facts of a session: both are given
//! back by computations that may wait for its place.

use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
};

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
/// Computations of all tenants that have begun, up to which a tenant has more than one: each may
/// keep a thread while it waits, of the 512 that a runtime has. And those at most.
const BEGUN_SHARED: usize = 64;
const BEGUN_ALL: usize = 256;
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
    /// Computations of all tenants that have begun.
    begun: usize,
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
        let queue = Queue { free: at_once.max(1), begun: 0, lanes, turns };
        Arc::new(Self { clock, queue: Mutex::from(queue) })
    }

    /// A place for a computation of a tenant, once it is its turn.
    ///
    /// # Errors
    /// `limit_reached` while too many computations of this tenant wait.
    pub(super) async fn ask(self: &Arc<Self>, tenant: &TenantId) -> ServiceResult<Place> {
        self.asked(tenant, WAITING_MAX).await
    }

    /// The same for a request that had a place before, or has to be carried out: it is not refused.
    pub(super) async fn ask_again(self: &Arc<Self>, tenant: &TenantId) -> ServiceResult<Place> {
        self.asked(tenant, usize::MAX).await
    }

    async fn asked(self: &Arc<Self>, tenant: &TenantId, most: usize) -> ServiceResult<Place> {
        let (place, turn) = oneshot::channel();
        if !self.queue.lock().take(tenant, Waiter { has_begun: false, place }, most) {
            let message =
                format!("{WAITING_MAX} computations of tenant {tenant} wait for their turn");
            return Err(ServiceError::new(Code::LimitReached, message).action("try again shortly"));
        }
        self.give_out();
        turn.await.map_err(|error| ServiceError::new(Code::InternalError, error.to_string()))
    }

    /// The next turn of a task: with the place that it has, or one that it asks for.
    pub(super) async fn turn(
        self: &Arc<Self>,
        tenant: &TenantId,
        place: Option<Place>,
    ) -> ServiceResult<Place> {
        match place {
            Some(place) => place.give_way().await,
            None => self.ask(tenant).await,
        }
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
    /// Takes one that waits, where fewer than so many of its tenant wait to begin; whether it did.
    /// Those whose callers are gone leave.
    fn take(&mut self, tenant: &TenantId, waiter: Waiter, most: usize) -> bool {
        let lane = self.lanes.entry(tenant.clone()).or_default();
        let has_turn = !lane.waiting.is_empty();
        lane.waiting.retain(|one| one.has_begun || !one.place.is_closed());
        let takes = lane.waiting.iter().filter(|one| !one.has_begun).count() < most;
        if takes {
            lane.waiting.push_back(waiter);
        }
        if !has_turn {
            self.turns.push_back(tenant.clone());
        }
        takes
    }

    /// The one whose turn it is, when a place is free: it has the place then.
    fn next(&mut self) -> Option<(TenantId, Waiter)> {
        for _ in 0..self.turns.len() {
            if self.free == 0 {
                return None;
            }
            let tenant = self.turns.pop_front()?;
            let lane = self.lanes.get_mut(&tenant)?;
            let most = if self.begun < BEGUN_SHARED { BEGUN_MAX } else { 1 };
            let may_begin = lane.begun < most && self.begun < BEGUN_ALL;
            let at = lane.waiting.iter().position(|one| one.has_begun || may_begin);
            let waiter = at.and_then(|at| lane.waiting.remove(at));
            if !lane.waiting.is_empty() {
                self.turns.push_back(tenant.clone());
            }
            if let Some(waiter) = waiter {
                let begins = usize::from(!waiter.has_begun);
                (self.free, self.begun) = (self.free - 1, self.begun + begins);
                lane.begun += begins;
                return Some((tenant, waiter));
            }
        }
        None
    }

    /// A computation of a tenant is over.
    fn leave(&mut self, tenant: &TenantId) {
        (self.free, self.begun) = (self.free + 1, self.begun - 1);
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
        self.take(tenant, Waiter { has_begun: true, place }, usize::MAX);
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

impl Place {
    /// Runs a computation in this place on a thread of its own; the place comes back with what was
    /// computed. Its loops call [`crate::event::pace::steps`]: it gives way to others there, and
    /// ends there when this future is dropped. It must hold no lock and wait for nothing.
    ///
    /// # Errors
    /// `internal_error` for a computation that panics.
    pub(super) async fn run<T: Send + 'static>(
        self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<(Self, T)> {
        let is_over = Arc::new(AtomicBool::new(false));
        let _wanted = Wanted(Arc::clone(&is_over));
        let computing = tokio::task::spawn_blocking(move || {
            let kept = Rc::new(Cell::new(Some(self)));
            let place = Rc::clone(&kept);
            let look = move || {
                // The client may have left while this waited for its turn.
                place.set(Some(place.take().ok_or(Ended)?.give_way_blocking()?));
                if is_over.load(Ordering::Relaxed) { Err(Ended) } else { Ok(()) }
            };
            look()?;
            let computed = paced(look, compute)?;
            kept.take().map(|place| (place, computed)).ok_or(Ended)
        });
        let failed = |message: String| ServiceError::new(Code::InternalError, message);
        let computed = computing.await.map_err(|error| failed(error.to_string()))?;
        computed.map_err(|Ended| failed("the computation was ended".to_owned()))
    }
}

impl Service {
    /// Runs a computation of a tenant once it has a place: see [`Place::run`].
    ///
    /// # Errors
    /// `limit_reached` while too many computations of this tenant wait.
    pub(super) async fn computed<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<T> {
        Ok(self.places.ask(tenant).await?.run(compute).await?.1)
    }

    /// The same for a request that had a place before: it is not refused.
    pub(super) async fn computed_again<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<T> {
        Ok(self.places.ask_again(tenant).await?.run(compute).await?.1)
    }
}

/// Runs a short part of a computation of a task that has a place, without holding up the other
/// tasks of this thread.
pub(super) fn aside<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}
