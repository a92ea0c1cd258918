//! Blocking waits: for the disk in an async task, for work in a thread of the engine. It must not
//! wait for another task.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::rank;
use crate::env::sync::{Condvar, Mutex};

/// Runs a function that may block on the disk, without blocking other tasks of this thread.
pub(super) fn run_blocking<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}

/// Signal that wakes or ends a thread of the engine.
pub(super) struct ThreadSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    work: bool,
    stop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// The signal woke the thread: there is work.
    Woken,
    /// The time elapsed.
    Elapsed,
    /// The thread must end.
    Stopped,
}

impl ThreadSignal {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(rank::LAST, SignalState::default()), changed: Condvar::new() }
    }

    /// Wakes the thread to do its work now.
    pub(super) fn wake(&self) {
        self.state.lock().work = true;
        self.changed.notify_one();
    }

    /// Makes the thread end.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stop
    }

    /// Waits until the time elapses or the signal fires; leaves the work pending.
    pub(super) fn pause(&self, time: Duration) -> WaitOutcome {
        let state = self.state.lock();
        if state.stop {
            return WaitOutcome::Stopped;
        }
        let (state, elapsed) = self.changed.wait_timeout(state, time);
        match (state.stop, elapsed) {
            (true, _) => WaitOutcome::Stopped,
            (false, true) => WaitOutcome::Elapsed,
            (false, false) => WaitOutcome::Woken,
        }
    }

    /// Waits until the time elapses or work is pending; the caller does the work.
    pub(super) fn wait_for_work(&self, time: Duration) -> WaitOutcome {
        let mut state = self.state.lock();
        if !state.stop && !state.work {
            state = self.changed.wait_timeout(state, time).0;
        }
        match (state.stop, std::mem::take(&mut state.work)) {
            (true, _) => WaitOutcome::Stopped,
            (false, true) => WaitOutcome::Woken,
            (false, false) => WaitOutcome::Elapsed,
        }
    }
}
