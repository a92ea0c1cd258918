//! Text as events: what is taken comes back as it was sent, what is refused is refused kindly.

#![no_main]

#[path = "../checks/wire.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
