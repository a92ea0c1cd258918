//! The `sessionlog` program: everything is in the library, except for the allocator, which a binary
//! chooses for all of its libraries.

use std::process::ExitCode;

/// Replaces the system's allocator: docs/decisions/0017-an-allocator-of-our-own.md.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    sessionlog::cli::run()
}
