//! Bytes as queries of a graph and as parameters of a search: no panic, and no memory without bound
//! (`-rss_limit_mb=512`).

#![no_main]

#[path = "../checks/query.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
