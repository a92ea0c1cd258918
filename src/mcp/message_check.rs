//! Checks messages of a client before the protocol's library parses them, on both transports: one
//! that is too large, or that the library cannot parse, is refused with its own id. It must not
//! depend on a particular tool.

use serde::de::DeserializeOwned;

use crate::{
    event::limits,
    verbs::tools,
    wire::{
        json,
        rpc::{self, MessageOutline, RpcPart},
    },
};

/// Result of checking a message.
pub(super) enum CheckedMessage<M> {
    /// A valid message, and its text.
    Message(M, String),
    /// The refusal to answer with, as JSON text.
    Refused(String),
}

impl<M> CheckedMessage<M> {
    /// Creates the refusal of a request; returns `None` if the message takes no answer.
    pub(super) fn refuse(outline: &MessageOutline, code: i32, problem: &str) -> Option<Self> {
        let id = outline.id.as_deref().filter(|_| !outline.is_answer)?;
        Some(Self::Refused(rpc::error_response(Some(id), code, problem)))
    }
}

/// Checks a part of a client's input; returns `None` for an invalid part that takes no answer.
pub(super) fn check_message<M: DeserializeOwned>(part: RpcPart<'_>) -> Option<CheckedMessage<M>> {
    let text = match part {
        RpcPart::Message(text) => text,
        RpcPart::Broken(text) => {
            return CheckedMessage::refuse(
                &MessageOutline::from_text(text),
                rpc::NOT_JSON,
                "the request is no JSON",
            );
        }
    };
    if let Some(problem) = find_problem(text) {
        return CheckedMessage::refuse(&MessageOutline::from_text(text), rpc::NO_REQUEST, &problem);
    }
    let text = tools::encode_arguments_as_text(text).unwrap_or_else(|| text.to_owned());
    match serde_json::from_str(&text) {
        Ok(message) => Some(CheckedMessage::Message(message, text)),
        Err(error) => {
            let problem = format!("it is no request of the protocol: {error}");
            CheckedMessage::refuse(&MessageOutline::from_text(&text), rpc::NO_REQUEST, &problem)
        }
    }
}

/// Finds the reason why a message is refused; `None` if it is accepted.
fn find_problem(text: &str) -> Option<String> {
    if let Err(error) = json::count_values(text.as_bytes()) {
        return Some(error.to_string());
    }
    let too_large = text.len() > limits::MCP_BYTES_MAX
        && !tools::has_large_arguments(text.as_bytes())
        || text.len() > limits::MCP_CARRIER_BYTES_MAX;
    too_large.then(|| format!("the request is larger than {} bytes", limits::MCP_BYTES_MAX))
}
