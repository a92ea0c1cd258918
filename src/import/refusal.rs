//! Calls that the user or a rule of Claude Code refused: who refused, and the text that the user
//! typed with the refusal, which is an instruction like any other. It must not mark a call that ran
//! and failed.

use super::{
    anthropic::Bodies,
    members::{Members, Object, quote, text_of},
};
use crate::{
    event::kinds,
    wire::{RefusedCall, refused, said_with_refusal},
};

/// Marks refused calls among the events of a line, and adds a message with the user's text.
pub(super) fn marked(line: &Members, bodies: Bodies) -> Bodies {
    let kind = line.text("toolDenialKind");
    let by = match kind.as_deref() {
        Some("user-rejected" | "interrupted" | "cancelled") => Some(RefusedCall::USER),
        Some(_) => Some(RefusedCall::RULE),
        None => line
            .text("toolUseResult")
            .filter(|text| text.contains("rejected"))
            .map(|_| RefusedCall::USER),
    };
    let mut marked = Bodies::with_capacity(bodies.len());
    for (kind, body) in bodies {
        let text = body.finish();
        let members = match kind {
            kinds::AGENT_TOOL_RESULT => Members::read(&text).unwrap_or_default(),
            _ => Members::default(),
        };
        let failed = members.raw("is_error").is_some_and(|value| value.get() == "true");
        let said = members.non_null("content").filter(|_| failed).map(text_of).unwrap_or_default();
        let by = refused(&said).map(|refused| refused.by).or(by.filter(|_| failed));
        let mut body = Object::from_text(text);
        by.into_iter().for_each(|by| body.add("refused", &quote(by)));
        marked.push((kind, body));
        if let Some(words) = said_with_refusal(&said).filter(|_| by == Some(RefusedCall::USER)) {
            let mut message = Object::new();
            message.add("content", &quote(words));
            marked.push((kinds::USER_MESSAGE, message));
        }
    }
    marked
}
