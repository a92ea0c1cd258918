//! The real binary on a real system that fails: processes killed between any two calls, syncs that
//! fail or report a false success, disks that are full, read-only or slow, descriptors that run
//! out, files cut under readers. Everything is requested over HTTP, as by a client. It must not
//! depend on the engine's internals.
//!
//! Most of it needs Linux, root or a tool; what cannot run here says `SKIPPED` and why.
//! `SESSIONLOG_BINARY` names another build to attack, `SESSIONLOG_KILLS` how many kills,
//! `SESSIONLOG_STRIDE` which of the points of a sweep (1: every one).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    unreachable_pub
)]

// The parts of the tests: the machine, the server, its clients, and their ledger.
mod device;
mod harness;
mod http;
mod ledger;
mod machine;
mod served;
mod story;
mod streams;
mod trace;
mod writers;

// The faults.
mod cache;
mod descriptors;
mod full;
mod inject;
mod kill;
mod mapped;
mod memory;
mod order;
mod readonly;
mod slow;
mod truncated;
mod work;
