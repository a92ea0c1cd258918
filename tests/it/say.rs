//! Shared by tests of every interface: reading a file, and reporting a test that could not run. It
//! must not start a process.

use std::{io::Write, path::Path};

/// Reports a skipped test on standard error, which the test harness does not hide.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Reads a text file.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Returns a builder of an HTTP client, which trusts no certificate of the machine: reading them,
/// hundreds of files, takes longer than most requests.
#[cfg(feature = "cli")]
pub fn http_client() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

/// Prints a figure on standard error, which the test harness does not hide.
#[cfg(feature = "cli")]
pub fn told(figure: &str) {
    let _ = writeln!(std::io::stderr(), "FIGURE: {figure}");
}
