//! Locks, and threads that wait for them: the standard library's, or with `--cfg shuttle` those of
//! a scheduler that tries one interleaving after another (`tests/shuttle.rs`). The engine must use
//! no others; a lock of another kind would block the scheduler. It must not wrap anything.

#[cfg(not(shuttle))]
pub use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
    },
    thread,
};

#[cfg(shuttle)]
pub use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic},
    thread,
};
#[cfg(shuttle)]
pub use std::sync::PoisonError;
