//! Places for computations that take longer than a millisecond. One processor is left to serve:
//! as many run at once as there are others. Tenants that wait take turns. A computation passes its
//! place on after a slice of time, and ends once its caller stops waiting. At each step it lets the
//! threads run that wait for its processor: else the system leaves it there for a tick, 4 ms, while
//! a request waits to be read. It must not know what is computed.
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
    thread,
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

/// Time that a computation keeps its place while others wait.
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
    /// The places of a machine of so many processors.
    pub(super) fn beside_serving(clock: Arc<dyn Clock>, processors: usize) -> Arc<Self> {
        // What serves a request needs a processor at once, however many compute.
        Self::new(clock, processors.saturating_sub(1))
    }

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

    /// The next turn of a task: with the place that it has, or one that it asks for without being
    /// refused.
    pub(super) async fn turn(
        self: &Arc<Self>,
        tenant: &TenantId,
        place: Option<Place>,
    ) -> ServiceResult<Place> {
        match place {
            Some(place) => place.give_way().await,
            None => self.ask_again(tenant).await,
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
    /// True if it is to be passed on when another computation waits.
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
        thread::yield_now();
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
        thread::yield_now();
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
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
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
        let _wanted = CancelOnDrop(Arc::clone(&is_over));
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

#[cfg(test)]
mod tests {
    use std::{panic, sync::atomic::AtomicU64};

    use super::*;
    use crate::event::{Timestamp, pace::steps};

    /// A clock that a test moves, in milliseconds.
    #[derive(Default)]
    struct Hands(AtomicU64);

    impl Clock for Hands {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn made(at_once: usize) -> (Arc<Hands>, Arc<Places>) {
        let hands = Arc::new(Hands::default());
        (Arc::clone(&hands), Places::new(hands, at_once))
    }

    /// Lets every task run until it waits.
    async fn settled() {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Free places, computations that have begun, and tenants that are known.
    fn state(places: &Places) -> (usize, usize, usize, usize) {
        let queue = places.queue.lock();
        (queue.free, queue.begun, queue.lanes.len(), queue.turns.len())
    }

    #[tokio::test]
    async fn tenants_that_wait_take_turns_and_a_tenants_own_keep_their_order() {
        let (_, places) = made(1);
        let held = places.ask(&tenant("a")).await.unwrap();
        let order = Arc::new(Mutex::from(Vec::new()));
        let mut tasks = Vec::new();
        for name in ["a1", "a2", "a3", "b1", "c1", "b2"] {
            let (places, order) = (Arc::clone(&places), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let place = places.ask(&tenant(&name[..1])).await.unwrap();
                order.lock().push(name);
                drop(place);
            }));
            settled().await;
        }
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!(state(&places), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_place_is_passed_on_after_a_slice_and_only_while_another_waits() {
        let (hands, places) = made(1);
        let mut own = places.ask(&tenant("a")).await.unwrap();
        hands.0.fetch_add(10, Ordering::Relaxed);
        own = own.give_way().await.unwrap();
        let (taken, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let other = tokio::spawn({
            let places = Arc::clone(&places);
            async move {
                let place = places.ask(&tenant("b")).await.unwrap();
                taken.send(()).unwrap();
                place
            }
        });
        settled().await;
        own = own.give_way().await.unwrap();
        assert!(seen.try_recv().is_err(), "the slice is not over");
        hands.0.fetch_add(2, Ordering::Relaxed);
        let back = tokio::spawn(own.give_way());
        settled().await;
        assert!(seen.try_recv().is_ok() && !back.is_finished(), "the other one has the place");
        drop(other.await.unwrap());
        drop(back.await.unwrap().unwrap());
        assert_eq!(state(&places), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_tenant_with_too_many_that_wait_is_refused_by_its_name_and_another_is_not() {
        let (_, places) = made(1);
        let held = places.ask(&tenant("acme")).await.unwrap();
        let ask = |name: &'static str| {
            let places = Arc::clone(&places);
            tokio::spawn(async move { places.ask(&tenant(name)).await.map(drop) })
        };
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| ask("acme")).collect();
        settled().await;
        let refused = places.ask(&tenant("acme")).await.err().unwrap();
        assert_eq!(refused.code, Code::LimitReached);
        assert!(refused.message.contains("tenant acme"), "{}", refused.message);
        let other = ask("other");
        let again = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.ask_again(&tenant("acme")).await.map(drop) }
        });
        settled().await;
        assert!(!other.is_finished() && !again.is_finished(), "both wait");
        drop(held);
        for task in waiting.into_iter().chain([other, again]) {
            task.await.unwrap().unwrap();
        }
        assert_eq!(state(&places), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn so_many_of_a_tenant_begin_and_the_free_places_are_the_others() {
        let (_, places) = made(2 * BEGUN_MAX);
        let mut begun = Vec::new();
        for _ in 0..BEGUN_MAX {
            begun.push(places.ask(&tenant("a")).await.unwrap());
        }
        let next = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.ask(&tenant("a")).await.map(drop) }
        });
        settled().await;
        assert!(!next.is_finished(), "places are free, and not for this tenant");
        drop(places.ask(&tenant("b")).await.unwrap());
        assert!(!next.is_finished());
        begun.pop();
        next.await.unwrap().unwrap();
        drop(begun);
        assert_eq!(state(&places), (2 * BEGUN_MAX, 0, 0, 0));
    }

    #[tokio::test]
    async fn callers_that_leave_at_any_moment_lose_no_place_and_leave_no_queue() {
        let (hands, places) = made(2);
        let mut tasks = Vec::new();
        let mut seed = 7_usize;
        for round in 0..3_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let name = ["a", "b", "c"][(seed >> 33) % 3];
            let places = Arc::clone(&places);
            tasks.push(tokio::spawn(async move {
                let Ok(mut place) = places.ask(&tenant(name)).await else { return };
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                    place = place.give_way().await.unwrap();
                }
            }));
            hands.0.fetch_add(1, Ordering::Relaxed);
            if (seed >> 37).is_multiple_of(3) {
                tokio::task::yield_now().await;
            }
            if (seed >> 41).is_multiple_of(2) {
                let at = (seed >> 44) % tasks.len();
                tasks.swap_remove(at).abort();
            }
            if round % 500 == 499 {
                settled().await;
            }
        }
        for task in tasks {
            let _ = task.await;
        }
        settled().await;
        assert_eq!(state(&places), (2, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_computation_whose_caller_is_gone_ends_at_its_next_step() {
        const ALL: u64 = 100_000;
        let (_, places) = made(1);
        let place = places.ask(&tenant("a")).await.unwrap();
        let (begins, begun) = oneshot::channel();
        let (leaves, left) = oneshot::channel();
        let done = Arc::new(AtomicU64::new(0));
        let computing = tokio::spawn({
            let done = Arc::clone(&done);
            place.run(move || {
                begins.send(()).unwrap();
                left.blocking_recv().unwrap();
                for _ in 0..ALL {
                    steps(1);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        begun.await.unwrap();
        computing.abort();
        assert!(computing.await.is_err_and(|error| error.is_cancelled()));
        leaves.send(()).unwrap();
        // The place is free only once the computation is over.
        drop(places.ask(&tenant("a")).await.unwrap());
        assert!(done.load(Ordering::Relaxed) < ALL / 10);
        assert_eq!(state(&places), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_computation_that_panics_gives_its_place_back() {
        let (_, places) = made(1);
        let place = places.ask(&tenant("a")).await.unwrap();
        let panics = || -> u32 { panic::resume_unwind(Box::new("planted")) };
        let failed = place.run(panics).await.err().unwrap();
        assert_eq!(failed.code, Code::InternalError);
        let (place, computed) = places.ask(&tenant("a")).await.unwrap().run(|| 7).await.unwrap();
        assert_eq!(computed, 7);
        drop(place);
        assert_eq!(state(&places), (1, 0, 0, 0));
    }
}
