//! Waiting: for the disk in a task, for work in a thread of the engine. It must not wait for
//! another task.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::rank;
use crate::env::sync::{Condvar, Mutex};

/// Runs what may wait for the disk without holding up the other tasks of this thread.
pub(super) fn blocking<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}

/// Wakes a thread of the engine, and ends it.
pub(super) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    work: bool,
    stop: bool,
}

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// There is work.
    Woken,
    /// The time is over.
    Elapsed,
    /// The thread is to end.
    Stopped,
}

impl Signal {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(rank::LAST, SignalState::default()), changed: Condvar::new() }
    }

    /// Has the thread do its work now.
    pub(super) fn wake(&self) {
        self.state.lock().work = true;
        self.changed.notify_one();
    }

    /// Has the thread end.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stop
    }

    /// Waits until the time is over or it is woken; the work stays to be done.
    pub(super) fn pause(&self, time: Duration) -> Waited {
        let state = self.state.lock();
        if state.stop {
            return Waited::Stopped;
        }
        let (state, elapsed) = self.changed.wait_timeout(state, time);
        match (state.stop, elapsed) {
            (true, _) => Waited::Stopped,
            (false, true) => Waited::Elapsed,
            (false, false) => Waited::Woken,
        }
    }

    /// Waits until the time is over or there is work, which the caller does.
    pub(super) fn work(&self, time: Duration) -> Waited {
        let mut state = self.state.lock();
        if !state.stop && !state.work {
            state = self.changed.wait_timeout(state, time).0;
        }
        match (state.stop, std::mem::take(&mut state.work)) {
            (true, _) => Waited::Stopped,
            (false, true) => Waited::Woken,
            (false, false) => Waited::Elapsed,
        }
    }
}
