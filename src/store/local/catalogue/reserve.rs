//! State of the space reserved for deletions: present or not, released to them or not, and what was
//! missing last. It must not make or remove a file; `removal` does.

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
    /// All of its files are there.
    kept: AtomicBool,
    /// It was given to deletions, and there was no room for another since.
    given: AtomicBool,
    /// The last write that needed room found none.
    cramped: AtomicBool,
    /// It was an inode that was missing then.
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
    /// Held while its files are made or removed.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// True if all of its files are present.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Notes that all of its files are there; returns whether it was given until now.
    pub(crate) fn keep(&self) -> bool {
        self.kept.store(true, Ordering::Release);
        self.given.swap(false, Ordering::AcqRel)
    }

    /// Notes that a file of it was removed.
    pub(crate) fn lose_a_file(&self) {
        self.kept.store(false, Ordering::Release);
    }

    /// Notes that deletions have it; returns whether they had it before.
    pub(crate) fn give(&self) -> bool {
        self.given.swap(true, Ordering::AcqRel)
    }

    /// True if only deletions may be written.
    pub(crate) fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// True if the last write that needed space found none.
    pub(crate) fn is_cramped(&self) -> bool {
        self.cramped.load(Ordering::Acquire)
    }

    /// Notes how a write ended that may need room.
    pub(crate) fn note(&self, error: Option<&io::Error>) {
        let short = error.and_then(short_of);
        if error.is_none() || short.is_some() {
            self.inodes.store(short == Some(Short::Inodes), Ordering::Release);
            self.cramped.store(short.is_some(), Ordering::Release);
        }
    }

    /// The resource that was missing when a write last failed for want of space.
    pub(crate) fn missing(&self) -> Short {
        if self.inodes.load(Ordering::Acquire) { Short::Inodes } else { Short::Space }
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    short_of(error).is_some()
}
