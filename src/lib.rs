//! sessionlog records the work of an agent: one append-only, crash-safe log of events per session,
//! outside the model's context window, and views of it within a budget.
//!
//! The rooms, bottom to top; each uses only those below it (docs/architecture.md):
//! event, api, secrets, env, access, log, store | traces, projection, search, harness | service |
//! wire, verbs | client | page, http, mcp, hook, import, proxy | cli.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod event;

pub mod api;

pub mod secrets;

pub mod env;

pub mod access;

pub mod log;
pub mod store;

pub mod traces;

pub mod projection;

pub mod search;

pub mod harness;

pub mod service;

pub mod wire;

pub mod verbs;

#[cfg(feature = "client")]
pub mod client;

#[cfg(feature = "page")]
pub mod page;

#[cfg(feature = "http")]
pub mod http;

#[cfg(feature = "mcp")]
pub mod mcp;

#[cfg(feature = "client")]
pub mod hook;
#[cfg(feature = "client")]
pub mod import;

#[cfg(feature = "mcp")]
pub mod proxy;

#[cfg(feature = "cli")]
pub mod cli;
