//! Calls that the user or a rule of Claude Code refused: marks their results, and makes a message
//! of the text that the user typed with a refusal. It must not mark a call that ran and failed.

use super::{
    anthropic::Bodies,
    members::{JsonMembers, ObjectWriter, content_text, quote},
};
use crate::{
    event::kinds,
    wire::{RefusedCall, is_interruption, parse_refusal, refusal_comment},
};

/// Marks refused calls among the events of a line, and adds a message with the user's text.
pub(super) fn mark_refused(line: &JsonMembers, bodies: Bodies) -> Bodies {
    let kind = line.text("toolDenialKind");
    let by = match kind.as_deref() {
        // Such a call may have run.
        Some("interrupted" | "cancelled") => None,
        Some("user-rejected") => Some(RefusedCall::USER),
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
            kinds::AGENT_TOOL_RESULT => JsonMembers::read(&text).unwrap_or_default(),
            _ => JsonMembers::default(),
        };
        let failed = members.raw("is_error").is_some_and(|value| value.get() == "true");
        let output =
            members.non_null("content").filter(|_| failed).map(content_text).unwrap_or_default();
        let is_stopped = failed && is_interruption(&output);
        let by = by.filter(|_| failed && !is_stopped);
        let by = parse_refusal(&output).map(|refused| refused.by).or(by);
        let mut body = ObjectWriter::from_text(text);
        by.into_iter().for_each(|by| body.add("refused", &quote(by)));
        marked.push((kind, body));
        if let Some(instruction) =
            refusal_comment(&output).filter(|_| by == Some(RefusedCall::USER) || is_stopped)
        {
            let mut message = ObjectWriter::new();
            message.add("content", &quote(instruction));
            marked.push((kinds::USER_MESSAGE, message));
        }
    }
    marked
}
