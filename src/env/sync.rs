//! Locks and condition variables: the standard library's, or with `--cfg shuttle` those of a
//! scheduler that explores interleavings (`tests/shuttle.rs`). Every module uses these; a lock of
//! another kind would block the scheduler. A lock whose holder panicked can still be taken: the
//! value it guards is valid after every statement. A lock of the engine has a [`Rank`]; in debug
//! builds a thread that takes one whose rank is not above those it holds panics before it blocks.
//! It must not depend on what the locks guard.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

#[cfg(shuttle)]
use shuttle::sync as imp;
#[cfg(not(shuttle))]
use std::sync as imp;

pub use imp::atomic;
#[cfg(shuttle)]
pub use shuttle::thread;
#[cfg(not(shuttle))]
pub use std::thread;

/// Order of a lock among those that one thread holds together, and its name in messages. A thread
/// takes locks in rising order of the number. Locks with the same number are never held together by
/// one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank(pub u8, pub &'static str);

impl Rank {
    /// Rank of a lock under which no other lock is acquired.
    pub const LAST: Self = Self(u8::MAX, "a lock that is taken last");
}

/// Checks of ranks in debug builds.
#[cfg(debug_assertions)]
mod order {
    use std::cell::RefCell;

    #[cfg(shuttle)]
    use shuttle::thread_local;

    use super::Rank;

    thread_local! {
        /// Ranks of the locks that this thread holds, or is about to block for.
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// Rank of a lock; `None` for a lock outside the engine.
    #[derive(Debug)]
    pub(super) struct LockRank(Option<Rank>);

    impl LockRank {
        pub(super) const fn new(rank: Option<Rank>) -> Self {
            Self(rank)
        }

        /// Records that this thread acquires the lock.
        ///
        /// # Panics
        /// If the thread holds a lock whose rank is not below this one's.
        #[track_caller]
        pub(super) fn acquire(&self) -> RankHeld {
            let Some(rank) = self.0 else { return RankHeld(None) };
            // A thread that is ending has no list any more, and takes one lock at a time.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if !std::thread::panicking() {
                    let above = held.iter().find(|one| one.0 >= rank.0);
                    assert!(above.is_none(), "{rank:?} is taken under {above:?}");
                }
                held.push(rank);
            });
            RankHeld(Some(rank))
        }
    }

    /// Record that this thread holds a lock; dropped with the lock's guard.
    #[derive(Debug)]
    pub(super) struct RankHeld(Option<Rank>);

    impl Drop for RankHeld {
        fn drop(&mut self) {
            let Some(rank) = self.0 else { return };
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                let last = held.iter().rposition(|one| *one == rank);
                last.map(|last| held.remove(last));
            });
        }
    }
}

/// Ranks in release builds, where they cost nothing.
#[cfg(not(debug_assertions))]
mod order {
    use super::Rank;

    #[derive(Debug)]
    pub(super) struct LockRank;

    impl LockRank {
        pub(super) const fn new(_: Option<Rank>) -> Self {
            Self
        }

        #[allow(clippy::unused_self, reason = "a debug build reads the rank")]
        pub(super) fn acquire(&self) -> RankHeld {
            RankHeld
        }
    }

    #[derive(Debug)]
    pub(super) struct RankHeld;
}

use order::{LockRank, RankHeld};

/// A lock that this thread holds until the guard is dropped.
#[must_use]
pub struct Guard<G> {
    guard: G,
    /// Declared after the guard: fields are dropped in their order.
    held: RankHeld,
}

/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = Guard<imp::MutexGuard<'a, T>>;
/// The guard of a reader of a [`RwLock`].
pub type RwLockReadGuard<'a, T> = Guard<imp::RwLockReadGuard<'a, T>>;
/// The guard of the writer of a [`RwLock`].
pub type RwLockWriteGuard<'a, T> = Guard<imp::RwLockWriteGuard<'a, T>>;

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &Self::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.guard
    }
}

/// A mutex that a panic does not poison.
#[derive(Debug)]
pub struct Mutex<T> {
    rank: LockRank,
    lock: imp::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a mutex of that rank around a value.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self { rank: LockRank::new(Some(rank)), lock: imp::Mutex::new(value) }
    }

    /// Blocks until this thread has the mutex.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.rank.acquire();
        Guard { guard: self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner), held }
    }
}

/// Creates a mutex without a rank: outside the engine no thread holds two that need an order.
impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self { rank: LockRank::new(None), lock: imp::Mutex::new(value) }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        T::default().into()
    }
}

/// A reader-writer lock; a panic does not poison it.
#[derive(Debug)]
pub struct RwLock<T> {
    rank: LockRank,
    lock: imp::RwLock<T>,
}

/// Creates a lock without a rank, like that of a [`Mutex`].
impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self { rank: LockRank::new(None), lock: imp::RwLock::new(T::default()) }
    }
}

impl<T> RwLock<T> {
    /// Creates a lock of that rank around a value.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self { rank: LockRank::new(Some(rank)), lock: imp::RwLock::new(value) }
    }

    /// Blocks until this thread may read.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let held = self.rank.acquire();
        Guard { guard: self.lock.read().unwrap_or_else(std::sync::PoisonError::into_inner), held }
    }

    /// Blocks until this thread may write.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let held = self.rank.acquire();
        Guard { guard: self.lock.write().unwrap_or_else(std::sync::PoisonError::into_inner), held }
    }
}

/// A condition variable, used with a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// Creates a condition variable without waiting threads.
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Releases the mutex and blocks until notified; spurious wake-ups happen.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let Guard { guard, held } = guard;
        let waited = self.0.wait(guard);
        Guard { guard: waited.unwrap_or_else(std::sync::PoisonError::into_inner), held }
    }

    /// Blocks like [`Self::wait`], up to a time limit; also returns true if it timed out.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let Guard { guard, held } = guard;
        let waited = self.0.wait_timeout(guard, timeout);
        let (guard, waited) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        (Guard { guard, held }, waited.timed_out())
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every thread that waits.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(all(test, debug_assertions, not(shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const LOW: Rank = Rank(1, "low");
    const HIGH: Rank = Rank(2, "high");

    #[test]
    fn taking_a_lock_out_of_rank_order_panics() {
        let (low, high) = (Mutex::new(LOW, ()), RwLock::new(HIGH, ()));
        let panics = |run: &dyn Fn()| catch_unwind(AssertUnwindSafe(run)).is_err();
        let nested = |first: &dyn Fn(), held: &dyn Fn()| panics(first) || panics(held);
        assert!(!panics(&|| {
            let _low = low.lock();
            drop(high.read());
            drop(high.write());
        }));
        assert!(panics(&|| {
            let _high = high.read();
            drop(low.lock());
        }));
        assert!(panics(&|| {
            let _low = low.lock();
            drop(Mutex::new(LOW, ()).lock());
        }));
        assert!(panics(&|| {
            let _one = high.read();
            drop(high.read());
        }));
        // A released lock no longer counts, even after a panic or out of order.
        assert!(!nested(&|| drop(high.write()), &|| {
            let (first, second) = (low.lock(), high.read());
            drop(first);
            drop(second);
            drop(low.lock());
        }));
    }
}
