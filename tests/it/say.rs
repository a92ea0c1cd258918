//! Shared by tests of every interface: a file's text, a report about a test that could not run. It
//! must not start anything.

use std::{io::Write, path::Path};

/// Says that a test is skipped, past the harness that hides what passing tests print.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Everything a file holds.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// An HTTP client, in clear or over TLS.
#[cfg(feature = "cli")]
pub fn http_client() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

/// Prints a figure, past the harness that hides what passing tests print.
#[cfg(feature = "cli")]
pub fn told(figure: &str) {
    let _ = writeln!(std::io::stderr(), "FIGURE: {figure}");
}
