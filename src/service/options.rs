//! Bounds of research sessions and of what is in memory for them, which the operator sets. It must
//! not apply them.

use std::time::Duration;

use crate::harness;

/// Bounds of research sessions.
#[derive(Clone, Copy, Debug)]
pub struct ResearchOptions {
    /// Steps of one session; 0 (the default) for no limit. Set by an operator who pays for storage.
    pub steps_max: u64,
    /// Bytes of one answer's structured content; default 10 000, at least 3 000.
    pub answer_bytes_max: usize,
    /// Memory for facts of sessions, in bytes; default 64 MiB.
    pub facts_bytes_max: usize,
    /// Bytes that computations may hold in memory together, and the same for the facts of sessions
    /// in use; default 256 MiB. A tenant may hold half of it.
    pub held_bytes_max: usize,
    /// How long a computation waits for room among them; default 10 s.
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
