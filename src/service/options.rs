//! Limits of research sessions and of their memory, set by the operator. It must not apply them.

use std::time::Duration;

use crate::harness;

/// Limits of research sessions.
#[derive(Clone, Copy, Debug)]
pub struct ResearchOptions {
    /// Maximum steps of a session; 0 (the default) for no limit. Set to limit the cost of storage.
    pub steps_max: u64,
    /// Maximum bytes of a response's structured content; default 10 000, at least 3 000.
    pub answer_bytes_max: usize,
    /// Memory for cached facts of sessions, in bytes; default 64 MiB.
    pub facts_bytes_max: usize,
    /// Memory in bytes for all running computations, and the same for the facts of sessions in use;
    /// default 256 MiB. A tenant may use half of it.
    pub held_bytes_max: usize,
    /// Time that a computation waits for memory; default 10 s.
    pub held_patience: Duration,
}

impl Default for ResearchOptions {
    fn default() -> Self {
        Self {
            steps_max: 0,
            answer_bytes_max: harness::ANSWER_BYTES,
            facts_bytes_max: 64 << 20,
            held_bytes_max: 256 << 20,
            held_patience: Duration::from_secs(10),
        }
    }
}
