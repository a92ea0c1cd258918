//! Prompts that the user typed while Claude Code's agent worked, and that were queued. Newer
//! transcripts have an attachment where the model received one; older ones record only that it left
//! the queue, with or without its text. It must not make events.

use std::collections::VecDeque;

use super::members::{JsonMembers, content_text, is_true};
use crate::event::push_bounded;

/// Maximum queued texts; beyond it, the oldest is dropped.
const WAITING_MAX: usize = 100;
/// Prefix of a program's notice, which is queued like a user's prompt.
const NOTICE: &str = "<task-notification";

/// Queue of prompts, as far as the lines of a transcript show it.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptQueue {
    waiting: VecDeque<String>,
    /// Texts that other lines delivered since the agent's last message.
    delivered: Vec<String>,
}

impl PromptQueue {
    /// Returns the queued text that a line removes, unless an earlier line delivered it.
    pub(super) fn dequeued_text(&self, line: &JsonMembers) -> Option<String> {
        let operation = line.text("operation")?;
        let is_queue = line.text("type").as_deref() == Some("queue-operation");
        if !is_queue || operation != "remove" {
            return None;
        }
        let text = line.text("content").or_else(|| self.waiting.front().cloned())?;
        (is_typed(&text) && !self.delivered.contains(&text)).then_some(text)
    }

    pub(super) fn apply_line(&mut self, line: &JsonMembers) {
        match line.text("type").as_deref() {
            Some("queue-operation") => self.apply_operation(line),
            Some("assistant") if !is_true(line, "isSidechain") => self.delivered.clear(),
            _ => self.delivered.extend(delivered_text(line)),
        }
    }

    fn apply_operation(&mut self, line: &JsonMembers) {
        let content = line.text("content");
        match (line.text("operation").as_deref(), content) {
            (Some("enqueue"), Some(text)) => {
                push_bounded(&mut self.waiting, text, WAITING_MAX);
            }
            (Some("popAll"), _) => self.waiting.clear(),
            (Some("dequeue" | "remove"), text) => {
                let named = text.map(|text| self.waiting.iter().position(|one| *one == text));
                if let Some(index) = named.unwrap_or(Some(0)) {
                    self.waiting.remove(index);
                }
            }
            _ => {}
        }
    }
}

/// Returns true if the line `later` delivers the text that left the queue with `left`, false if it
/// is an answer with a later time, which comes first; `None` if it decides neither.
pub(super) fn is_delivered_by(text: &str, left: &JsonMembers, later: &JsonMembers) -> Option<bool> {
    if delivered_text(later).as_deref() == Some(text) {
        return Some(true);
    }
    let is_answer =
        later.text("type").as_deref() == Some("assistant") && !is_true(later, "isSidechain");
    (is_answer && later.time() > left.time()).then_some(false)
}

/// Returns the attachment of a line if it is a queued prompt of the user.
pub(super) fn queued_prompt(line: &JsonMembers) -> Option<JsonMembers> {
    let attachment = JsonMembers::read(line.non_null("attachment")?.get()).ok()?;
    let is = |name: &str, value: &str| attachment.text(name).is_none_or(|found| found == value);
    let of = attachment.non_null("origin").and_then(|origin| JsonMembers::read(origin.get()).ok());
    let is_person = of.and_then(|of| of.text("kind")).is_none_or(|kind| kind == "human");
    let is_prompt = attachment.text("type").as_deref() == Some("queued_command")
        && is("commandMode", "prompt")
        && is_person
        && !is_true(line, "isMeta")
        && !is_true(&attachment, "isMeta");
    let typed = attachment.non_null("prompt").is_some_and(|prompt| is_typed(&content_text(prompt)));
    let has_picture =
        attachment.non_null("prompt").is_some_and(|prompt| prompt.get().starts_with('['));
    (is_prompt && (typed || has_picture)).then_some(attachment)
}

/// Returns the attachment of a line if it is a program's notice that a task in the background
/// ended, which the model received while it worked.
pub(super) fn queued_notice(line: &JsonMembers) -> Option<JsonMembers> {
    let attachment = JsonMembers::read(line.non_null("attachment")?.get()).ok()?;
    let prompt = attachment.non_null("prompt").map(content_text)?;
    (attachment.text("type")? == "queued_command" && prompt.trim_start().starts_with(NOTICE))
        .then_some(attachment)
}

/// Returns the user's text in an attachment or a message.
fn delivered_text(line: &JsonMembers) -> Option<String> {
    match line.text("type").as_deref()? {
        "attachment" => Some(content_text(queued_prompt(line)?.non_null("prompt")?)),
        "user" => {
            let message = JsonMembers::read(line.non_null("message")?.get()).ok()?;
            Some(content_text(message.non_null("content")?)).filter(|text| is_typed(text))
        }
        _ => None,
    }
}

/// Returns true if the user typed a queued text, and it is not just the name of a command.
fn is_typed(text: &str) -> bool {
    let text = text.trim();
    let is_command = text.starts_with('/') && !text.contains(char::is_whitespace);
    !text.is_empty() && !text.starts_with(NOTICE) && !is_command
}
