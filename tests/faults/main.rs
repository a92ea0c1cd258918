//! The real binary on a failing system: processes killed between any two calls, syncs that fail or
//! falsely report success, full, read-only or slow disks, exhausted descriptors, files truncated
//! under readers. Every request is sent over HTTP, as by a client. It must not depend on the
//! engine's internals.
//!
//! Most of it needs Linux, root or a tool; a test that cannot run prints `SKIPPED` and the reason.
//! `SESSIONLOG_BINARY` is the path of another build to test, `SESSIONLOG_KILLS` the number of
//! kills, `SESSIONLOG_STRIDE` the step between points of a sweep (1: every one).

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

// The test infrastructure: the machine, the server, its clients, and their ledger.
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
