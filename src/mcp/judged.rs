//! Checks messages of a client before the protocol's library parses them, on both transports: one
//! that is too large, or that the library cannot parse, is refused with its own id. It must not
//! depend on a particular tool.

use serde::de::DeserializeOwned;

use crate::{
    event::limits,
    verbs::tools,
    wire::{
        json,
        rpc::{self, Outline, Part},
    },
};

/// A message that was checked.
pub(super) enum Judged<M> {
    /// A valid message, and its text.
    Message(M, String),
    /// The error to answer with.
    Refused(String),
}

impl<M> Judged<M> {
    /// Returns the refusal of a request; `None` if the message takes no answer.
    pub(super) fn refused(outline: &Outline, code: i32, problem: &str) -> Option<Self> {
        let id = outline.id.as_deref().filter(|_| !outline.is_answer)?;
        Some(Self::Refused(rpc::refusal(Some(id), code, problem)))
    }
}

/// Checks a part of a client's input; `None` for an invalid part that takes no answer.
pub(super) fn judged<M: DeserializeOwned>(part: Part<'_>) -> Option<Judged<M>> {
    let text = match part {
        Part::Message(text) => text,
        Part::Broken(text) => {
            return Judged::refused(&Outline::of(text), rpc::NOT_JSON, "the request is no JSON");
        }
    };
    if let Some(problem) = problem(text) {
        return Judged::refused(&Outline::of(text), rpc::NO_REQUEST, &problem);
    }
    let text = tools::with_text(text).unwrap_or_else(|| text.to_owned());
    match serde_json::from_str(&text) {
        Ok(message) => Some(Judged::Message(message, text)),
        Err(error) => {
            let problem = format!("it is no request of the protocol: {error}");
            Judged::refused(&Outline::of(&text), rpc::NO_REQUEST, &problem)
        }
    }
}

/// Returns the reason for which a message is refused.
fn problem(text: &str) -> Option<String> {
    if let Err(error) = json::values(text.as_bytes()) {
        return Some(error.to_string());
    }
    let too_large = text.len() > limits::MCP_BYTES_MAX && !tools::carries(text.as_bytes())
        || text.len() > limits::MCP_CARRIER_BYTES_MAX;
    too_large.then(|| format!("the request is larger than {} bytes", limits::MCP_BYTES_MAX))
}
