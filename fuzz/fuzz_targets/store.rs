//! Requests to the engine and to the model side by side: they answer alike.

#![no_main]

#[path = "../checks/store.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
