//! Bytes as sealed segments, settled files and control records: no panic, nothing invented.

#![no_main]

#[path = "../checks/tables.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
