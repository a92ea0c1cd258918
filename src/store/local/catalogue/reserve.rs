//! State of the disk space reserved for deletions: its files, whether deletions may use it, the
//! resource missing last. It must not make or remove a file; `removal` does.

use std::io;

use super::super::rank;
use crate::env::{
    DiskShortage, shortage,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

pub(crate) struct ReservedSpace {
    turn: Mutex<()>,
    /// True if all of its files exist.
    kept: AtomicBool,
    /// True if its space was released to deletions and could not be reserved again since.
    given: AtomicBool,
    /// True if the last write that needed space found none.
    cramped: AtomicBool,
    /// True if an inode was missing then.
    inodes: AtomicBool,
}

impl Default for ReservedSpace {
    fn default() -> Self {
        Self {
            turn: Mutex::new(rank::RESERVE, ()),
            kept: AtomicBool::new(false),
            given: AtomicBool::new(false),
            cramped: AtomicBool::new(false),
            inodes: AtomicBool::new(false),
        }
    }
}

impl ReservedSpace {
    /// Locks the reserve while its files are created or removed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Returns true if all of its files exist.
    pub(crate) fn is_complete(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Records that all of its files exist; returns whether it was released to deletions before.
    pub(crate) fn mark_complete(&self) -> bool {
        self.kept.store(true, Ordering::Release);
        self.given.swap(false, Ordering::AcqRel)
    }

    /// Records that one of its files was removed.
    pub(crate) fn mark_incomplete(&self) {
        self.kept.store(false, Ordering::Release);
    }

    /// Records that it is released to deletions; returns whether it was already.
    pub(crate) fn mark_released(&self) -> bool {
        self.given.swap(true, Ordering::AcqRel)
    }

    /// Returns true if only deletions may be written.
    pub(crate) fn is_released(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Returns true if the last write that needed space found none.
    pub(crate) fn lacks_space(&self) -> bool {
        self.cramped.load(Ordering::Acquire)
    }

    /// Records the result of a write that may need space.
    pub(crate) fn record_write(&self, error: Option<&io::Error>) {
        let short = error.and_then(shortage);
        if error.is_none() || short.is_some() {
            self.inodes.store(short == Some(DiskShortage::Inodes), Ordering::Release);
            self.cramped.store(short.is_some(), Ordering::Release);
        }
    }

    /// Returns the resource that was missing when a write last failed for want of space.
    pub(crate) fn shortage(&self) -> DiskShortage {
        if self.inodes.load(Ordering::Acquire) { DiskShortage::Inodes } else { DiskShortage::Space }
    }
}

pub(crate) fn is_storage_full(error: &io::Error) -> bool {
    shortage(error).is_some()
}
