//! Bytes as a part of an index and as a query: no panic.

#![no_main]

#[path = "../checks/index.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
