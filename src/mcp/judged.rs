//! Messages of a client, judged before the library of the protocol builds trees of them, on both
//! transports: one that is too large, or that the library would not read, is refused under its own
//! id. It must not know a tool.

use serde::de::DeserializeOwned;

use crate::{
    event::limits,
    verbs::tools,
    wire::{
        json,
        rpc::{self, Outline, Part},
    },
};

/// A message that was judged.
pub(super) enum Judged<M> {
    /// It is handed on, and its text.
    Message(M, String),
    /// It is answered with this.
    Refused(String),
}

impl<M> Judged<M> {
    /// The refusal of a request; `None` of what takes no answer.
    pub(super) fn refused(outline: &Outline, code: i32, problem: &str) -> Option<Self> {
        let id = outline.id.as_deref().filter(|_| !outline.is_answer)?;
        Some(Self::Refused(rpc::refusal(Some(id), code, problem)))
    }
}

/// Judges a part of what a client sent; `None` of what takes no answer.
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

/// The reason for which a message is refused.
fn problem(text: &str) -> Option<String> {
    if let Err(error) = json::values(text.as_bytes()) {
        return Some(error.to_string());
    }
    let too_large = text.len() > limits::MCP_BYTES_MAX && !tools::carries(text.as_bytes())
        || text.len() > limits::MCP_CARRIER_BYTES_MAX;
    too_large.then(|| format!("the request is larger than {} bytes", limits::MCP_BYTES_MAX))
}
