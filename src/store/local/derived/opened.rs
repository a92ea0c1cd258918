//! A derived file that is in use: open, being read or being made; and waiting until it is not. It
//! must not know its name.

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

/// Users of a derived file.
pub(super) struct DerivedUsage {
    users: AtomicUsize,
    /// Its bytes are to go: what its users compute is void.
    withdrawn: AtomicBool,
    /// Held by the one user that reads all of it; others take what that one opened.
    pub(super) reading: Mutex<()>,
    closing: Arc<Closing>,
}

/// Wakes those who wait until a file is not in use any more.
pub(super) struct Closing {
    turn: Mutex<()>,
    closed: Condvar,
}

/// A user of a derived file, until it is dropped.
pub(super) struct User(Arc<DerivedUsage>);

/// The bytes of a derived file in memory.
pub(super) struct Opened {
    /// Dropped first: the bytes leave memory before any thread hears of it.
    body: DerivedBody,
    user: User,
}

impl DerivedUsage {
    pub(super) fn new(closing: &Arc<Closing>) -> Arc<Self> {
        Arc::new(Self {
            users: AtomicUsize::new(0),
            withdrawn: AtomicBool::new(false),
            reading: Mutex::new(rank::DERIVED_FILES, ()),
            closing: Arc::clone(closing),
        })
    }

    /// One more user. The file is listed, and stays so meanwhile: none comes to one that is hidden.
    pub(super) fn user(self: &Arc<Self>) -> User {
        self.users.fetch_add(1, Ordering::AcqRel);
        User(Arc::clone(self))
    }

    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Has the users of the file give way.
    pub(super) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }

    /// Waits until the file, which is hidden, has no user. The caller holds no lock.
    ///
    /// # Errors
    /// It stays in use for too long.
    pub(super) fn wait(&self) -> io::Result<()> {
        let (mut turn, mut elapsed) = (self.closing.turn.lock(), false);
        while self.is_used() {
            if elapsed {
                return Err(held_open());
            }
            (turn, elapsed) = self.closing.closed.wait_timeout(turn, HELD_OPEN_MAX);
        }
        Ok(())
    }
}

/// A file that is in use keeps its bytes.
pub(super) fn held_open() -> io::Error {
    io::Error::other("a derived file is held open")
}

impl Closing {
    pub(super) fn new() -> Self {
        Self { turn: Mutex::new(rank::LAST, ()), closed: Condvar::new() }
    }
}

impl User {
    pub(super) fn usage(&self) -> &Arc<DerivedUsage> {
        &self.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let turn = self.0.closing.turn.lock();
        self.0.users.fetch_sub(1, Ordering::AcqRel);
        drop(turn);
        self.0.closing.closed.notify_all();
    }
}

impl Opened {
    pub(super) fn new(body: DerivedBody, user: User) -> Self {
        Self { body, user }
    }

    /// When its file was written to before it was read.
    pub(super) fn written_at(&self) -> Option<(i64, i64)> {
        self.body.written_at
    }

    /// True if the file may lack bytes that it had.
    pub(super) fn is_lacking(&self) -> bool {
        self.body.bytes.is_hurt()
    }
}

impl Mapped for Opened {
    fn bytes(&self) -> &[u8] {
        self.body.bytes.bytes().get(self.body.at..).unwrap_or_default()
    }

    fn is_hurt(&self) -> bool {
        self.user.usage().withdrawn.load(Ordering::Acquire) || self.is_lacking()
    }

    fn is_copy(&self) -> bool {
        self.body.bytes.is_copy()
    }
}
