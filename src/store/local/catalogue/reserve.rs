//! State of the disk space reserved for deletions: its files, whether deletions may use it, the
//! resource missing last. It must not make or remove a file; `removal` does.

use std::io;

use super::super::rank;
use crate::env::{
    Short, short_of,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

/// State of the reserved space.
pub(crate) struct Reserve {
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

impl Default for Reserve {
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

impl Reserve {
    /// Locks the reserve while its files are created or removed.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Returns true if all of its files exist.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Records that all of its files exist; returns whether it was released to deletions before.
    pub(crate) fn keep(&self) -> bool {
        self.kept.store(true, Ordering::Release);
        self.given.swap(false, Ordering::AcqRel)
    }

    /// Records that one of its files was removed.
    pub(crate) fn lose_a_file(&self) {
        self.kept.store(false, Ordering::Release);
    }

    /// Records that it is released to deletions; returns whether it was already.
    pub(crate) fn give(&self) -> bool {
        self.given.swap(true, Ordering::AcqRel)
    }

    /// Returns true if only deletions may be written.
    pub(crate) fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Returns true if the last write that needed space found none.
    pub(crate) fn is_cramped(&self) -> bool {
        self.cramped.load(Ordering::Acquire)
    }

    /// Records the result of a write that may need space.
    pub(crate) fn note(&self, error: Option<&io::Error>) {
        let short = error.and_then(short_of);
        if error.is_none() || short.is_some() {
            self.inodes.store(short == Some(Short::Inodes), Ordering::Release);
            self.cramped.store(short.is_some(), Ordering::Release);
        }
    }

    /// Returns the resource that was missing when a write last failed for want of space.
    pub(crate) fn missing(&self) -> Short {
        if self.inodes.load(Ordering::Acquire) { Short::Inodes } else { Short::Space }
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    short_of(error).is_some()
}
