//! Bytes as frames, headers and entries of every kind of file: src/log must never panic.

#![no_main]

#[path = "../checks/frame.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
