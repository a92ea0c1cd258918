//! Users of a derived file, which is open, being read or being created; and waiting for them to
//! finish. It must not know the file's name.

use std::{io, sync::Arc, time::Duration};

use super::{super::rank, file::DerivedBody};
use crate::{
    env::sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    store::Mapped,
};

/// Longest wait for the users of a file before its bytes are removed.
const HELD_OPEN_MAX: Duration = Duration::from_secs(10);

/// Users of a derived file: their number, and whether they must stop.
pub(super) struct DerivedUsage {
    users: AtomicUsize,
    /// True if its bytes are to be removed: results of its users are void.
    withdrawn: AtomicBool,
    /// Held by the user that reads the whole file; other users share the result.
    pub(super) reading: Mutex<()>,
    closing: Arc<CloseSignal>,
}

/// Wakes threads that wait until a file has no users.
pub(super) struct CloseSignal {
    turn: Mutex<()>,
    closed: Condvar,
}

/// Guard of one user of a derived file.
pub(super) struct UserGuard(Arc<DerivedUsage>);

/// Derived file in memory.
pub(super) struct LoadedDerivedFile {
    /// Dropped before the guard: the bytes leave memory before waiting threads wake.
    body: DerivedBody,
    user: UserGuard,
}

impl DerivedUsage {
    pub(super) fn new(closing: &Arc<CloseSignal>) -> Arc<Self> {
        Arc::new(Self {
            users: AtomicUsize::new(0),
            withdrawn: AtomicBool::new(false),
            reading: Mutex::new(rank::DERIVED_FILES, ()),
            closing: Arc::clone(closing),
        })
    }

    /// Adds a user. The caller keeps the file listed: a hidden one gets no new users.
    pub(super) fn add_user(self: &Arc<Self>) -> UserGuard {
        self.users.fetch_add(1, Ordering::AcqRel);
        UserGuard(Arc::clone(self))
    }

    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Tells the users of the file to stop.
    pub(super) fn request_stop(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }

    /// Waits until the hidden file has no user. The caller holds no lock.
    ///
    /// # Errors
    /// The file stays in use for too long.
    pub(super) fn wait_unused(&self) -> io::Result<()> {
        let (mut turn, mut elapsed) = (self.closing.turn.lock(), false);
        while self.is_used() {
            if elapsed {
                return Err(held_open_error());
            }
            (turn, elapsed) = self.closing.closed.wait_timeout(turn, HELD_OPEN_MAX);
        }
        Ok(())
    }
}

/// Returns the error for removing a file that is in use.
pub(super) fn held_open_error() -> io::Error {
    io::Error::other("a derived file is held open")
}

impl CloseSignal {
    pub(super) fn new() -> Self {
        Self { turn: Mutex::new(rank::LAST, ()), closed: Condvar::new() }
    }
}

impl UserGuard {
    pub(super) fn usage(&self) -> &Arc<DerivedUsage> {
        &self.0
    }
}

impl Drop for UserGuard {
    fn drop(&mut self) {
        let turn = self.0.closing.turn.lock();
        self.0.users.fetch_sub(1, Ordering::AcqRel);
        drop(turn);
        self.0.closing.closed.notify_all();
    }
}

impl LoadedDerivedFile {
    pub(super) fn new(body: DerivedBody, user: UserGuard) -> Self {
        Self { body, user }
    }

    /// Returns the last write time of its file, taken before it was read.
    pub(super) fn last_write_time(&self) -> Option<(i64, i64)> {
        self.body.written_at
    }

    /// Returns true if the file may have lost bytes while open.
    pub(super) fn may_lack_bytes(&self) -> bool {
        self.body.bytes.has_read_error()
    }
}

impl Mapped for LoadedDerivedFile {
    fn bytes(&self) -> &[u8] {
        self.body.bytes.bytes().get(self.body.at..).unwrap_or_default()
    }

    fn has_read_error(&self) -> bool {
        self.user.usage().withdrawn.load(Ordering::Acquire) || self.may_lack_bytes()
    }

    fn is_copy(&self) -> bool {
        self.body.bytes.is_copy()
    }
}
