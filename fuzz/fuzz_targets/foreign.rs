//! Bytes as shapes of JSON from other programs, read in bounded memory: run it with
//! `-rss_limit_mb=1024`.

#![no_main]

#[path = "../checks/foreign.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
