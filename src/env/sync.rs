//! Locks, and threads that wait for them: the standard library's, or with `--cfg shuttle` those of
//! a scheduler that tries one interleaving after another (`tests/shuttle.rs`). Every room takes
//! them from here, `env::sim` excepted; a lock of another kind would stop the scheduler. A lock is
//! taken though a thread panicked while it held it: what it guards is valid after every statement.
//! It must not do anything else.

use std::time::Duration;

#[cfg(shuttle)]
use shuttle::sync as imp;
#[cfg(not(shuttle))]
use std::sync as imp;

pub use imp::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(shuttle)]
pub use shuttle::thread;
#[cfg(not(shuttle))]
pub use std::thread;

/// A mutex that a panic does not poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex around a value.
    pub fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Blocks until this thread has the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// A lock that many readers or one writer have; a panic does not poison it.
#[derive(Debug, Default)]
pub struct RwLock<T>(imp::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around a value.
    pub fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }

    /// Blocks until this thread may read.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Blocks until this thread may write.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A condition that threads wait for with a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// A condition that no thread waits for.
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Gives the mutex up and blocks until notified; spurious wake-ups happen.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// [`Self::wait`] for so long at most; answers also whether the time ran out.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout(guard, timeout);
        let (guard, waited) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        (guard, waited.timed_out())
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
