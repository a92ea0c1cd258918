//! Compute slots for computations that take longer than a millisecond. One processor is reserved
//! for serving requests; each other one has a slot. Waiting tenants take turns. A computation
//! releases its slot after a time slice, and ends once its caller stops waiting. At each step it
//! yields to threads that wait for its processor: otherwise the system delays them for a tick, 4
//! ms. It must not depend on the computation.
//!
//! A task that holds a slot must not wait for another slot or for the facts of a session: their
//! holders may be waiting for its slot.

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
        pace::{Cancelled, run_paced},
    },
};

/// Time that a computation keeps its slot while others wait.
const SLICE: Duration = Duration::from_millis(2);
/// Maximum number of started computations of a tenant: each may hold memory while it waits.
const BEGUN_MAX: usize = 8;
/// Number of started computations of all tenants up to which a tenant may have several: each may
/// block one of the runtime's 512 threads. And the maximum number of them.
const BEGUN_SHARED: usize = 64;
const BEGUN_ALL: usize = 256;
/// Maximum number of computations of a tenant that wait to start.
const WAITING_MAX: usize = 64;

/// Compute slots of a process.
pub(super) struct ComputeSlots {
    clock: Arc<dyn Clock>,
    queue: Mutex<SlotQueue>,
}

struct SlotQueue {
    /// Number of free slots.
    free: usize,
    /// Number of started computations of all tenants.
    begun: usize,
    lanes: HashMap<TenantId, TenantQueue>,
    /// Tenants with a waiting computation, each once; the next one is first.
    turns: VecDeque<TenantId>,
}

/// Computations of a tenant.
#[derive(Default)]
struct TenantQueue {
    waiting: VecDeque<Waiter>,
    /// Number of started computations, with a slot or waiting for one.
    begun: usize,
}

struct Waiter {
    has_begun: bool,
    slot: oneshot::Sender<ComputeSlot>,
}

/// Compute slot of a computation, released on drop.
pub(super) struct ComputeSlot {
    slots: Arc<ComputeSlots>,
    tenant: TenantId,
    since: Duration,
    /// False once the queue has already released it.
    is_counted: bool,
}

impl ComputeSlots {
    pub(super) fn for_processors(clock: Arc<dyn Clock>, processors: usize) -> Arc<Self> {
        // Serving requests needs one processor at all times.
        Self::new(clock, processors.saturating_sub(1))
    }

    pub(super) fn new(clock: Arc<dyn Clock>, at_once: usize) -> Arc<Self> {
        let (lanes, turns) = (HashMap::new(), VecDeque::new());
        let queue = SlotQueue { free: at_once.max(1), begun: 0, lanes, turns };
        Arc::new(Self { clock, queue: Mutex::from(queue) })
    }

    /// Waits for a slot for a computation of a tenant.
    ///
    /// # Errors
    /// `limit_reached` if too many computations of this tenant wait.
    pub(super) async fn acquire(self: &Arc<Self>, tenant: &TenantId) -> ServiceResult<ComputeSlot> {
        self.await_slot(tenant, WAITING_MAX).await
    }

    /// Waits for a slot without a limit on waiters: for a request that must complete.
    pub(super) async fn acquire_unlimited(
        self: &Arc<Self>,
        tenant: &TenantId,
    ) -> ServiceResult<ComputeSlot> {
        self.await_slot(tenant, usize::MAX).await
    }

    async fn await_slot(
        self: &Arc<Self>,
        tenant: &TenantId,
        most: usize,
    ) -> ServiceResult<ComputeSlot> {
        let (slot, turn) = oneshot::channel();
        if !self.queue.lock().enqueue(tenant, Waiter { has_begun: false, slot }, most) {
            let message =
                format!("{WAITING_MAX} computations of tenant {tenant} wait for their turn");
            return Err(ServiceError::new(Code::LimitReached, message).action("try again shortly"));
        }
        self.assign_free_slots();
        turn.await.map_err(|error| ServiceError::new(Code::InternalError, error.to_string()))
    }

    /// Returns the task's slot after yielding it if due, or waits for a first slot; never rejects.
    pub(super) async fn yield_or_acquire(
        self: &Arc<Self>,
        tenant: &TenantId,
        slot: Option<ComputeSlot>,
    ) -> ServiceResult<ComputeSlot> {
        match slot {
            Some(slot) => slot.yield_if_due().await,
            None => self.acquire_unlimited(tenant).await,
        }
    }

    fn assign_free_slots(self: &Arc<Self>) {
        loop {
            let Some((tenant, waiter)) = self.queue.lock().pop_next() else { return };
            let (slots, since) = (Arc::clone(self), self.clock.monotonic());
            let slot = ComputeSlot { slots, tenant, since, is_counted: true };
            // A waiter that is gone gets no slot.
            if let Err(mut slot) = waiter.slot.send(slot) {
                slot.is_counted = false;
                self.queue.lock().finish_computation(&slot.tenant);
            }
        }
    }
}

impl SlotQueue {
    /// Queues a waiter if fewer than `most` of its tenant wait to start; returns true if it did.
    /// Waiters whose callers are gone are removed.
    fn enqueue(&mut self, tenant: &TenantId, waiter: Waiter, most: usize) -> bool {
        let lane = self.lanes.entry(tenant.clone()).or_default();
        let has_turn = !lane.waiting.is_empty();
        lane.waiting.retain(|one| one.has_begun || !one.slot.is_closed());
        let takes = lane.waiting.iter().filter(|one| !one.has_begun).count() < most;
        if takes {
            lane.waiting.push_back(waiter);
        }
        if !has_turn {
            self.turns.push_back(tenant.clone());
        }
        takes
    }

    /// Returns the next waiter if a slot is free, and assigns the slot to it.
    fn pop_next(&mut self) -> Option<(TenantId, Waiter)> {
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

    fn finish_computation(&mut self, tenant: &TenantId) {
        (self.free, self.begun) = (self.free + 1, self.begun - 1);
        let Some(lane) = self.lanes.get_mut(tenant) else { return };
        lane.begun -= 1;
        if lane.begun == 0 && lane.waiting.is_empty() {
            self.lanes.remove(tenant);
        }
    }

    /// Releases a computation's slot until its next turn; returns false if no other one waits.
    fn requeue(&mut self, tenant: &TenantId, slot: oneshot::Sender<ComputeSlot>) -> bool {
        if self.turns.is_empty() {
            return false;
        }
        self.enqueue(tenant, Waiter { has_begun: true, slot }, usize::MAX);
        self.free += 1;
        true
    }
}

impl ComputeSlot {
    /// Returns true if the slot must be released when another computation waits.
    fn is_due(&self) -> bool {
        self.slots.clock.monotonic().saturating_sub(self.since) >= SLICE
    }

    /// Leaves the processor to other threads of the machine, if this server has more to compute
    /// than it has processors for (docs/decisions/0093).
    fn leave_processor_if_others_wait(&self) {
        if !self.slots.queue.lock().turns.is_empty() {
            thread::yield_now();
        }
    }

    /// Releases the slot if another computation waits; the receiver then gets a slot again.
    fn release_if_others_wait(&mut self) -> Option<oneshot::Receiver<ComputeSlot>> {
        let (slot, turn) = oneshot::channel();
        if !self.slots.queue.lock().requeue(&self.tenant, slot) {
            self.since = self.slots.clock.monotonic();
            return None;
        }
        self.is_counted = false;
        self.slots.assign_free_slots();
        Some(turn)
    }

    /// Yields to other computations, if the time slice is over.
    pub(super) async fn yield_if_due(mut self) -> ServiceResult<Self> {
        self.leave_processor_if_others_wait();
        if !self.is_due() {
            return Ok(self);
        }
        match self.release_if_others_wait() {
            None => Ok(self),
            Some(turn) => turn
                .await
                .map_err(|error| ServiceError::new(Code::InternalError, error.to_string())),
        }
    }

    /// Yields to other computations if the time slice is over; blocks the thread meanwhile.
    fn yield_if_due_blocking(mut self) -> Result<Self, Cancelled> {
        self.leave_processor_if_others_wait();
        if !self.is_due() {
            return Ok(self);
        }
        match self.release_if_others_wait() {
            None => Ok(self),
            Some(turn) => turn.blocking_recv().map_err(|_| Cancelled),
        }
    }
}

impl Drop for ComputeSlot {
    fn drop(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.slots.queue.lock().finish_computation(&self.tenant);
            self.slots.assign_free_slots();
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

impl ComputeSlot {
    /// Runs a computation in this slot on a separate thread and returns the slot with the result.
    /// Its loops call [`crate::event::pace::steps`], where it yields to others, and ends if this
    /// future was dropped. It must hold no lock and wait for nothing.
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
            let cell = Rc::new(Cell::new(Some(self)));
            let slot = Rc::clone(&cell);
            let look = move || {
                // The client may have left while this waited for its turn.
                slot.set(Some(slot.take().ok_or(Cancelled)?.yield_if_due_blocking()?));
                if is_over.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
            };
            look()?;
            let computed = run_paced(look, compute)?;
            cell.take().map(|slot| (slot, computed)).ok_or(Cancelled)
        });
        let failed = |message: String| ServiceError::new(Code::InternalError, message);
        let computed = computing.await.map_err(|error| failed(error.to_string()))?;
        computed.map_err(|Cancelled| failed("the computation was ended".to_owned()))
    }
}

impl Service {
    /// Runs a computation of a tenant once it has a slot: see [`ComputeSlot::run`].
    ///
    /// # Errors
    /// `limit_reached` if too many computations of this tenant wait.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<T> {
        Ok(self.compute.acquire(tenant).await?.run(compute).await?.1)
    }

    /// Runs a computation of a request that must complete: it is never rejected.
    pub(super) async fn compute_unlimited<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<T> {
        Ok(self.compute.acquire_unlimited(tenant).await?.run(compute).await?.1)
    }
}

/// Runs a short part of a computation in a task that holds a slot, without blocking the other tasks
/// of this thread.
pub(super) fn block_in_place<T>(run: impl FnOnce() -> T) -> T {
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

    /// Manual clock, in milliseconds.
    #[derive(Default)]
    struct TestClock(AtomicU64);

    impl Clock for TestClock {
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

    fn new_slots(at_once: usize) -> (Arc<TestClock>, Arc<ComputeSlots>) {
        let clock = Arc::new(TestClock::default());
        (Arc::clone(&clock), ComputeSlots::new(clock, at_once))
    }

    /// Runs all tasks until each of them waits.
    async fn run_until_idle() {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the numbers of free slots, started computations, known tenants and waiting tenants.
    fn state(slots: &ComputeSlots) -> (usize, usize, usize, usize) {
        let queue = slots.queue.lock();
        (queue.free, queue.begun, queue.lanes.len(), queue.turns.len())
    }

    #[tokio::test]
    async fn waiting_tenants_take_turns_and_each_tenant_is_served_in_order() {
        let (_, slots) = new_slots(1);
        let held = slots.acquire(&tenant("a")).await.unwrap();
        let order = Arc::new(Mutex::from(Vec::new()));
        let mut tasks = Vec::new();
        for name in ["a1", "a2", "a3", "b1", "c1", "b2"] {
            let (slots, order) = (Arc::clone(&slots), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let slot = slots.acquire(&tenant(&name[..1])).await.unwrap();
                order.lock().push(name);
                drop(slot);
            }));
            run_until_idle().await;
        }
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!(state(&slots), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_slot_is_released_after_a_time_slice_only_if_another_computation_waits() {
        let (clock, slots) = new_slots(1);
        let mut own = slots.acquire(&tenant("a")).await.unwrap();
        clock.0.fetch_add(10, Ordering::Relaxed);
        own = own.yield_if_due().await.unwrap();
        let (taken, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let other = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move {
                let slot = slots.acquire(&tenant("b")).await.unwrap();
                taken.send(()).unwrap();
                slot
            }
        });
        run_until_idle().await;
        own = own.yield_if_due().await.unwrap();
        assert!(seen.try_recv().is_err(), "the slice is not over");
        clock.0.fetch_add(2, Ordering::Relaxed);
        let back = tokio::spawn(own.yield_if_due());
        run_until_idle().await;
        assert!(seen.try_recv().is_ok() && !back.is_finished(), "the other one has the place");
        drop(other.await.unwrap());
        drop(back.await.unwrap().unwrap());
        assert_eq!(state(&slots), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_tenant_with_too_many_waiting_computations_is_rejected_and_another_is_not() {
        let (_, slots) = new_slots(1);
        let held = slots.acquire(&tenant("acme")).await.unwrap();
        let ask = |name: &'static str| {
            let slots = Arc::clone(&slots);
            tokio::spawn(async move { slots.acquire(&tenant(name)).await.map(drop) })
        };
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| ask("acme")).collect();
        run_until_idle().await;
        let refused = slots.acquire(&tenant("acme")).await.err().unwrap();
        assert_eq!(refused.code, Code::LimitReached);
        assert!(refused.message.contains("tenant acme"), "{}", refused.message);
        let other = ask("other");
        let again = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire_unlimited(&tenant("acme")).await.map(drop) }
        });
        run_until_idle().await;
        assert!(!other.is_finished() && !again.is_finished(), "both wait");
        drop(held);
        for task in waiting.into_iter().chain([other, again]) {
            task.await.unwrap().unwrap();
        }
        assert_eq!(state(&slots), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_tenant_starts_a_limited_number_and_leaves_free_slots_to_others() {
        let (_, slots) = new_slots(2 * BEGUN_MAX);
        let mut begun = Vec::new();
        for _ in 0..BEGUN_MAX {
            begun.push(slots.acquire(&tenant("a")).await.unwrap());
        }
        let next = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire(&tenant("a")).await.map(drop) }
        });
        run_until_idle().await;
        assert!(!next.is_finished(), "places are free, and not for this tenant");
        drop(slots.acquire(&tenant("b")).await.unwrap());
        assert!(!next.is_finished());
        begun.pop();
        next.await.unwrap().unwrap();
        drop(begun);
        assert_eq!(state(&slots), (2 * BEGUN_MAX, 0, 0, 0));
    }

    #[tokio::test]
    async fn callers_cancelled_at_any_moment_leak_no_slot_and_no_queue_entry() {
        let (clock, slots) = new_slots(2);
        let mut tasks = Vec::new();
        let mut seed = 7_usize;
        for round in 0..3_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let name = ["a", "b", "c"][(seed >> 33) % 3];
            let slots = Arc::clone(&slots);
            tasks.push(tokio::spawn(async move {
                let Ok(mut slot) = slots.acquire(&tenant(name)).await else { return };
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                    slot = slot.yield_if_due().await.unwrap();
                }
            }));
            clock.0.fetch_add(1, Ordering::Relaxed);
            if (seed >> 37).is_multiple_of(3) {
                tokio::task::yield_now().await;
            }
            if (seed >> 41).is_multiple_of(2) {
                let at = (seed >> 44) % tasks.len();
                tasks.swap_remove(at).abort();
            }
            if round % 500 == 499 {
                run_until_idle().await;
            }
        }
        for task in tasks {
            let _ = task.await;
        }
        run_until_idle().await;
        assert_eq!(state(&slots), (2, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_computation_whose_caller_is_cancelled_ends_at_its_next_step() {
        const ALL: u64 = 100_000;
        let (_, slots) = new_slots(1);
        let slot = slots.acquire(&tenant("a")).await.unwrap();
        let (begins, begun) = oneshot::channel();
        let (leaves, left) = oneshot::channel();
        let done = Arc::new(AtomicU64::new(0));
        let computing = tokio::spawn({
            let done = Arc::clone(&done);
            slot.run(move || {
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
        // The slot is free only once the computation has ended.
        drop(slots.acquire(&tenant("a")).await.unwrap());
        assert!(done.load(Ordering::Relaxed) < ALL / 10);
        assert_eq!(state(&slots), (1, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_panicking_computation_releases_its_slot() {
        let (_, slots) = new_slots(1);
        let slot = slots.acquire(&tenant("a")).await.unwrap();
        let panics = || -> u32 { panic::resume_unwind(Box::new("planted")) };
        let failed = slot.run(panics).await.err().unwrap();
        assert_eq!(failed.code, Code::InternalError);
        let (slot, computed) = slots.acquire(&tenant("a")).await.unwrap().run(|| 7).await.unwrap();
        assert_eq!(computed, 7);
        drop(slot);
        assert_eq!(state(&slots), (1, 0, 0, 0));
    }
}
