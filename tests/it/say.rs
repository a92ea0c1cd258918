//! What every test may need, whichever door it goes through: a file's text, a word about a test
//! that could not run. It must not start anything.

use std::{io::Write, path::Path};

/// Says that a test is skipped, past the harness that hides what passing tests print.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Everything a file holds.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
