//! The binary. It must not do anything but hand over to the command line.
fn main() {}
