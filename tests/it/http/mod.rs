//! The HTTP interface through a real loopback connection, over every engine: each route, each
//! refusal, tails, protobuf, access, and how the server starts and ends. What a slice holds is
//! decided in service; here a client sees it.

mod added;
mod appends;
mod broken;
mod connections;
mod forks;
pub mod gate;
mod held;
pub mod house;
mod keys;
mod lifetimes;
mod refused;
mod removals;
mod sessions;
mod slices;
mod streams;
mod strict;
mod work;
