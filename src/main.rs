//! The `sessionlog` program: everything is in the library, but for the allocator, which a program
//! chooses for all of its libraries.

use std::process::ExitCode;

/// Why another than the system's: docs/decisions/0017-an-allocator-of-our-own.md.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    sessionlog::cli::run()
}
