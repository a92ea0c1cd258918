//! The recording proxy between a client and a scripted server, over streams of bytes: which
//! messages it forwards unchanged, records, or answers from the log.

pub mod wrapped;

mod cache;
mod callers;
mod http;
mod leaving;
mod passing;
mod program;
mod recorded;
mod scripted;
mod trouble;
mod upstream;
