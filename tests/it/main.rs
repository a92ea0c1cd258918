//! Every integration test in one binary, one `mod` line each with its subject: it links once and
//! runs in parallel. A test that needs no interface belongs into `tests/rooms`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub
)]

// The engines, and helpers for tests of a store.
mod by_turns;
mod bytes;
mod engines;
// The client's record, crashes, and defects that these tests must detect.
mod crash;
mod expiry;
// Sessions that share events of a parent.
mod forks;
mod ledger;
mod lifetimes;
mod listings;
mod mortal;
mod nodes;
mod notes;
mod odds;
// A fault at the n-th call, once and persistently.
mod nth;
// A device that fails and recovers.
mod healing;
// One session that cannot be flushed, while the journal keeps taking appends.
mod forward;
// Background scrubbing; the read cache.
mod read_cache;
mod scrub;
mod strays;
mod unreadable;
// Bugs of other stores.
mod peers;
mod place;
// Losses that an operator gives up, of a session and of the store.
mod repair;
mod store_repair;
// Journal frames recovered from a segment; watermarks of the journal's files.
mod life;
mod mutants;
mod proof;
mod recovered;
mod witness;
// Eviction of unused sessions from memory.
mod evicted;
// Files truncated, missing, rolled back or copied over each other.
mod tamper;
// Forged numbers and names under valid checksums.
mod forged;
// Copies of a store, and encryption on disk.
mod backup;
mod bodies;
mod encrypted;
mod erased;
#[cfg(feature = "cli")]
mod guessed;
mod matrix;
mod receipts;
mod redacted;
mod rotated;
// The bytes of a data directory, old and new, and a second reader of them.
mod format;
// Inputs given to the fuzzer, and inputs it found.
mod fuzz_seeds;
// Research sessions over MCP.
#[cfg(feature = "cli")]
mod mcp;
// Other servers behind the recording proxy.
#[cfg(feature = "cli")]
mod proxy;
// What the store returns after the client lost its context.
mod recall;
// The stories of the reference systems.
#[cfg(feature = "cli")]
mod seeds;
// Promises of every engine, independent of its storage.
/// Corrupted bytes on the device.
mod damage;
mod deleted;
// Derived files, which may be lost.
mod derived;
/// The embedded engine over stops of every kind.
mod restart;
mod store;

// Reading a file and reporting a skip, for the tests below and above.
mod say;

// The real program and its processes, for the tests below.
#[cfg(feature = "cli")]
mod program;

// A pseudo-terminal for the program.
#[cfg(feature = "cli")]
#[expect(clippy::disallowed_types, reason = "a terminal is a device")]
mod pty;

// Output on a terminal.
#[cfg(feature = "cli")]
mod names;
#[cfg(feature = "cli")]
mod terminal;

// The page in a browser.
#[cfg(feature = "cli")]
mod browse;

// The command line: every verb, its exit codes, its refusals.
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod servers;
mod settings;
// First use of the program.
#[cfg(feature = "cli")]
mod newcomer;
// Recorded text in generated documents.
#[cfg(feature = "cli")]
mod quoted;
// Rollouts of Codex, and unknown file formats.
#[cfg(feature = "cli")]
mod rollouts;
// Transcripts of agents' programs, imported and exported.
#[cfg(feature = "cli")]
mod imported;
#[cfg(feature = "cli")]
mod transcripts;
// Cursors, checkpoints and leases from the command line, and after a crash.
#[cfg(feature = "cli")]
mod work;
// Hooks of agents' programs.
#[cfg(feature = "cli")]
mod hook;
// The main job on real input, and the demo.
#[cfg(feature = "cli")]
mod main_job;
// One owner per data directory, under any fault.
#[cfg(feature = "cli")]
mod owner;
// Environment faults that once caused a loss.
#[cfg(feature = "cli")]
mod holes;
// Bugs that users found.
#[cfg(feature = "cli")]
mod tried;
// An encrypted data directory, and copies of one through its owner.
#[cfg(feature = "cli")]
mod copied;
#[cfg(feature = "cli")]
mod keyed;
// The README, followed by a newcomer.
#[cfg(feature = "cli")]
mod readme;
// Credentials, tenants, limits, and malicious clients.
#[cfg(feature = "cli")]
mod access;
mod as_of;
// Projections of real work.
#[cfg(feature = "cli")]
mod facts;
// The one text that describes the state of a session.
#[cfg(feature = "cli")]
mod brief;
// Views of a session within a budget.
#[cfg(feature = "cli")]
mod views;
// Searching all sessions.
#[cfg(feature = "cli")]
mod search;
// Memory that outlives a conversation.
#[cfg(feature = "cli")]
mod memory;
// Entities and relations of a workspace.
#[cfg(feature = "cli")]
mod graph;
// A session handed to the one that continues it.
#[cfg(feature = "cli")]
mod handoff;
// The HTTP interface: routes, errors, tails, limits.
#[cfg(feature = "cli")]
mod http;
