//! The recording proxy between a client and a scripted server, over streams of bytes: what passes
//! unchanged, what is recorded, what is answered from the log.

pub mod wrapped;

mod cache;
mod http;
mod passing;
mod program;
mod recorded;
