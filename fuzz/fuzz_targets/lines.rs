//! Bytes as lines of an append stream and as protobuf: read as other parsers read them.

#![no_main]

#[path = "../checks/lines.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
