//! Changes of single bytes to a store that was stopped: it tells damage, serves no wrong byte.

#![no_main]

#[path = "../checks/recover.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
