//! The `sessionlog` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    sessionlog::cli::run()
}
