//! Tools as models see them: names, answers that no verb has, refusals. It must not know MCP's
//! framing or HTTP, and it calls no verb: `verbs` does.

pub(crate) mod answer;
pub(crate) mod continuation;
pub(crate) mod events;
mod failure;
pub(crate) mod handoff;
pub(crate) mod lists;
pub(crate) mod names;
mod parts;
pub(crate) mod research;
pub(crate) mod search;
pub mod via;
pub(crate) mod work;

pub use failure::ToolFailure;
pub(crate) use failure::to_camel_case;

pub use super::{BRIEF_NOTICE, NOTICE, TRUST};
