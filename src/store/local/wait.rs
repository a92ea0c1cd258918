//! Waiting for the disk in a task. It must not wait for another task.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs what may wait for the disk without holding up the other tasks of this thread.
pub(super) fn blocking<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}
