//! Files that a backup still has to read: they are not unlinked meanwhile. It must not read them.

use super::super::rank;
use crate::env::sync::Mutex;

/// Backups under way: what they name stays until they have it.
pub(crate) struct Pins {
    state: Mutex<Pinned>,
}

#[derive(Default)]
struct Pinned {
    /// Counts what takes something away at once, backups or not: those before are void.
    taken: u64,
    /// Backups that are not.
    held: u64,
}

impl Pins {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(rank::LAST, Pinned::default()) }
    }

    /// True if files that are not needed any more must stay for a while.
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().held > 0
    }

    /// Something is being taken away for good: a backup under way must not bring it back.
    pub(crate) fn take_away(&self) {
        let mut state = self.state.lock();
        state.taken += 1;
        state.held = 0;
    }
}

/// A backup under way.
pub(crate) struct Pin<'a> {
    pins: &'a Pins,
    taken: u64,
}

impl<'a> Pin<'a> {
    pub(crate) fn new(pins: &'a Pins) -> Self {
        let mut state = pins.state.lock();
        state.held += 1;
        Self { pins, taken: state.taken }
    }

    /// True if nothing was removed since it was taken.
    pub(crate) fn is_valid(&self) -> bool {
        self.pins.state.lock().taken == self.taken
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut state = self.pins.state.lock();
        if state.taken == self.taken {
            assert!(state.held > 0, "a pin is counted once");
            state.held -= 1;
        }
    }
}
