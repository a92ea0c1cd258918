//! The HTTP interface through a real loopback connection, over every engine: each route, each
//! error, tails, protobuf, access, and the start and stop of the server. The content of a slice is
//! decided in service; here a client sees it.

mod added;
mod appends;
mod broken;
mod changed;
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
