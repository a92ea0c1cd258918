//! Every integration test in one binary, one `mod` line each with its subject: it links once and
//! runs in parallel. A test that needs no interface belongs into `tests/rooms`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub
)]

// The engines, and the words tests of a store are written in.
mod bytes;
mod engines;
// The client's record, crashes, and defects that these tests must detect.
mod crash;
mod expiry;
// Forks.
mod forks;
mod ledger;
mod lifetimes;
mod listings;
mod mortal;
mod notes;
mod odds;
// A fault at the n-th call, once and persistently.
mod nth;
// A device that fails and works again.
mod healing;
// One session that cannot be flushed, and a journal that continues.
mod forward;
// Reading back without requests; reading again.
mod read_cache;
mod scrub;
mod strays;
mod unreadable;
// What other stores got wrong.
mod peers;
mod place;
// What a person gives up, of a session and of the store.
mod repair;
mod store_repair;
// What the journal lost and a segment has; the witnesses of the journal's files.
mod life;
mod mutants;
mod proof;
mod recovered;
mod witness;
// Unused sessions.
mod evicted;
// Files cut, gone, put back from before or copied over each other.
mod tamper;
// Invalid numbers and names under valid checksums.
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
// What the fuzzer was given and what it found.
mod fuzz_seeds;
// Research sessions over MCP.
#[cfg(feature = "cli")]
mod mcp;
// Other people's servers, wrapped.
#[cfg(feature = "cli")]
mod proxy;
// What is left of one when everything else is lost.
mod recall;
// The stories of the reference systems.
#[cfg(feature = "cli")]
mod seeds;
// What every engine promises, whatever it keeps its bytes in.
/// Damage on the device.
mod damage;
mod deleted;
// What is made from events, and may be lost.
mod derived;
/// The embedded engine over stops of every kind.
mod restart;
mod store;

// A word and a file, for the tests below and above.
mod say;

// The real program and its processes, for the tests below.
#[cfg(feature = "cli")]
mod program;

// A terminal for the program.
#[cfg(feature = "cli")]
#[expect(clippy::disallowed_types, reason = "a terminal is a device")]
mod pty;

// What a person sees on a terminal.
#[cfg(feature = "cli")]
mod names;
#[cfg(feature = "cli")]
mod terminal;

// The command line: every verb, its exit codes, its refusals.
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod settings;
// First use of the program.
#[cfg(feature = "cli")]
mod newcomer;
// Recorded text in documents that are made.
#[cfg(feature = "cli")]
mod quoted;
// Rollouts of Codex, and forms that are not known.
#[cfg(feature = "cli")]
mod rollouts;
// Transcripts of agents' programs, in and out.
#[cfg(feature = "cli")]
mod imported;
#[cfg(feature = "cli")]
mod transcripts;
// Cursors, checkpoints and leases from the command line, and after a crash.
#[cfg(feature = "cli")]
mod work;
// Hooks of other people's agents.
#[cfg(feature = "cli")]
mod hook;
// The main job on real input, and the demo.
#[cfg(feature = "cli")]
mod main_job;
// One owner per data directory, whatever happens to it.
#[cfg(feature = "cli")]
mod owner;
// Faults of the surroundings that once lost something.
#[cfg(feature = "cli")]
mod holes;
// Findings of people who tried the program.
#[cfg(feature = "cli")]
mod tried;
// A data directory under a key, and copies of one through its owner.
#[cfg(feature = "cli")]
mod copied;
#[cfg(feature = "cli")]
mod keyed;
// The README, followed by a newcomer.
#[cfg(feature = "cli")]
mod readme;
// Credentials, tenants, limits, and clients that mean harm.
#[cfg(feature = "cli")]
mod access;
// Folds of real work.
#[cfg(feature = "cli")]
mod facts;
// The one text that says where a session stands.
#[cfg(feature = "cli")]
mod brief;
// Views of a session within a budget.
#[cfg(feature = "cli")]
mod views;
// Searching all sessions.
#[cfg(feature = "cli")]
mod search;
// What is remembered beyond a conversation.
#[cfg(feature = "cli")]
mod memory;
// Entities and relations of a workspace.
#[cfg(feature = "cli")]
mod graph;
// A session handed to the one that continues it.
#[cfg(feature = "cli")]
mod handoff;
// The HTTP interface: routes, refusals, tails, limits.
#[cfg(feature = "cli")]
mod http;
