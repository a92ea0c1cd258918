//! The rules of a session, the same for every engine: what a request may do, what a frame does to
//! the entry of its session, and what an entry says to callers. Pure functions of an entry, a
//! request and a time. It must not do I/O, hold a lock, read a clock or wait.

pub(crate) mod effect;
pub(crate) mod entry;
pub(crate) mod names;

pub(crate) use effect::{Effect, apply};
pub(crate) use names::{Name, given, key_hash, mint};
