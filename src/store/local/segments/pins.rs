//! Running backups, whose files are not unlinked meanwhile. It must not read files.

use super::super::rank;
use crate::env::sync::Mutex;

/// Running backups, whose files must not be unlinked.
pub(crate) struct Pins {
    state: Mutex<PinState>,
}

#[derive(Default)]
struct PinState {
    /// Number of immediate removals; each one invalidates earlier backups.
    taken: u64,
    /// Number of running backups that are valid.
    held: u64,
}

impl Pins {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(rank::LAST, PinState::default()) }
    }

    /// Returns true if a valid backup is running, so that replaced files must stay.
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().held > 0
    }

    /// Invalidates the running backups, because bytes are being removed for good.
    pub(crate) fn invalidate(&self) {
        let mut state = self.state.lock();
        state.taken += 1;
        state.held = 0;
    }
}

/// Guard of a running backup.
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

    /// Returns true if the backup was not invalidated.
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
