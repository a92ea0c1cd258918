//! The real binary on a real system that fails: processes killed between any two calls, syncs that
//! fail or lie, disks that are full, read-only or slow, descriptors that run out, files cut under
//! readers. Everything goes through HTTP, as a client would. It must not know the engine's insides.
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

// What the tests stand on: the machine, the server, its clients, and what those know.
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
mod memory;
mod order;
mod readonly;
mod slow;
mod truncated;
mod work;
