//! A derived file that is open, and waiting until it is open no more. It must not know its name.

use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{super::rank, file::Body};
use crate::{
    env::sync::{Condvar, Mutex},
    store::Mapped,
};

/// How long those who have a file open are waited for before its bytes are taken away.
const HELD_OPEN_MAX: Duration = Duration::from_secs(10);

/// The bytes of a derived file in memory.
pub(super) struct Opened {
    /// `None` while it is dropped.
    body: Option<Body>,
    /// Dropped behind the bytes.
    alive: Option<Arc<()>>,
    closing: Arc<Closing>,
}

/// Tells when the bytes have left memory.
pub(super) struct Ended(Weak<()>);

/// Wakes those who wait until a file is open no more.
pub(super) struct Closing {
    turn: Mutex<()>,
    closed: Condvar,
}

impl Opened {
    pub(super) fn new(body: Body, closing: &Arc<Closing>) -> Self {
        let (alive, closing) = (Some(Arc::new(())), Arc::clone(closing));
        Self { body: Some(body), alive, closing }
    }

    /// What tells when it is open no more.
    pub(super) fn ended(&self) -> Ended {
        Ended(self.alive.as_ref().map_or_else(Weak::new, Arc::downgrade))
    }
}

impl Mapped for Opened {
    fn bytes(&self) -> &[u8] {
        let body = self.body.as_ref();
        body.and_then(|(bytes, at)| bytes.bytes().get(*at..)).unwrap_or_default()
    }

    fn is_hurt(&self) -> bool {
        self.body.as_ref().is_none_or(|(bytes, _)| bytes.is_hurt())
    }

    fn is_copy(&self) -> bool {
        self.body.as_ref().is_some_and(|(bytes, _)| bytes.is_copy())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // The bytes leave memory before any thread hears of it.
        drop(self.body.take());
        let turn = self.closing.turn.lock();
        drop(self.alive.take());
        drop(turn);
        self.closing.closed.notify_all();
    }
}

impl Closing {
    pub(super) fn new() -> Self {
        Self { turn: Mutex::new(rank::LAST, ()), closed: Condvar::new() }
    }

    /// Waits until a file is open no more.
    ///
    /// # Errors
    /// It stays open for too long.
    pub(super) fn wait(&self, ended: &Ended) -> io::Result<()> {
        let (mut turn, mut elapsed) = (self.turn.lock(), false);
        while ended.0.strong_count() > 0 {
            if elapsed {
                return Err(io::Error::other("a derived file is held open"));
            }
            (turn, elapsed) = self.closed.wait_timeout(turn, HELD_OPEN_MAX);
        }
        Ok(())
    }
}
