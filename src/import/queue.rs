//! Prompts that the user typed while the agent of Claude Code worked. Newer transcripts have an
//! attachment where the model received one; older ones record only that it left the queue, with or
//! without its text. It must not make events.

use std::collections::VecDeque;

use super::members::{Members, is_true, text_of};
use crate::event::{Timestamp, push_bounded};

/// Most queued texts that are remembered.
const WAITING_MAX: usize = 100;
/// First characters of a program's notice, which is queued like a user's prompt.
const NOTICE: &str = "<task-notification";

/// The queue of a transcript.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptQueue {
    waiting: VecDeque<String>,
    /// Texts that other lines delivered since the agent's last message.
    delivered: Vec<String>,
}

impl PromptQueue {
    /// Returns the text that leaves the queue with a line, unless an earlier line delivered it.
    pub(super) fn leaving(&self, line: &Members) -> Option<String> {
        let operation = line.text("operation")?;
        let is_queue = line.text("type").as_deref() == Some("queue-operation");
        if !is_queue || operation != "remove" {
            return None;
        }
        let text = line.text("content").or_else(|| self.waiting.front().cloned())?;
        (is_typed(&text) && !self.delivered.contains(&text)).then_some(text)
    }

    /// Applies a line to the queue.
    pub(super) fn take(&mut self, line: &Members) {
        match line.text("type").as_deref() {
            Some("queue-operation") => self.apply_operation(line),
            Some("assistant") if !is_true(line, "isSidechain") => self.delivered.clear(),
            _ => self.delivered.extend(delivered(line)),
        }
    }

    fn apply_operation(&mut self, line: &Members) {
        let content = line.text("content");
        match (line.text("operation").as_deref(), content) {
            (Some("enqueue"), Some(text)) => {
                push_bounded(&mut self.waiting, text, WAITING_MAX);
            }
            (Some("popAll"), _) => self.waiting.clear(),
            (Some("dequeue" | "remove"), text) => {
                let named = text.map(|text| self.waiting.iter().position(|one| *one == text));
                if let Some(place) = named.unwrap_or(Some(0)) {
                    self.waiting.remove(place);
                }
            }
            _ => {}
        }
    }
}

/// Returns true if a later line delivers the text that left the queue, false if an answer comes
/// first; `None` if `later` decides neither. An answer with an earlier time does not count.
pub(super) fn delivers(words: &str, left: &Members, later: &Members) -> Option<bool> {
    if delivered(later).as_deref() == Some(words) {
        return Some(true);
    }
    let at = |line: &Members| line.text("timestamp").as_deref().and_then(Timestamp::parse);
    let is_answer =
        later.text("type").as_deref() == Some("assistant") && !is_true(later, "isSidechain");
    (is_answer && at(later) > at(left)).then_some(false)
}

/// Returns the attachment of a line if it is a prompt that the user queued.
pub(super) fn attached(line: &Members) -> Option<Members> {
    let attachment = Members::read(line.non_null("attachment")?.get()).ok()?;
    let is = |name: &str, value: &str| attachment.text(name).is_none_or(|said| said == value);
    let of = attachment.non_null("origin").and_then(|origin| Members::read(origin.get()).ok());
    let is_person = of.and_then(|of| of.text("kind")).is_none_or(|kind| kind == "human");
    let is_prompt = attachment.text("type").as_deref() == Some("queued_command")
        && is("commandMode", "prompt")
        && is_person
        && !is_true(line, "isMeta")
        && !is_true(&attachment, "isMeta");
    let typed = attachment.non_null("prompt").is_some_and(|prompt| is_typed(&text_of(prompt)));
    let has_picture =
        attachment.non_null("prompt").is_some_and(|prompt| prompt.get().starts_with('['));
    (is_prompt && (typed || has_picture)).then_some(attachment)
}

/// Returns the user's text in an attachment or a message.
fn delivered(line: &Members) -> Option<String> {
    match line.text("type").as_deref()? {
        "attachment" => Some(text_of(attached(line)?.non_null("prompt")?)),
        "user" => {
            let message = Members::read(line.non_null("message")?.get()).ok()?;
            Some(text_of(message.non_null("content")?)).filter(|text| is_typed(text))
        }
        _ => None,
    }
}

/// Returns true if a queued text is the user's, and more than the name of a command.
fn is_typed(text: &str) -> bool {
    let text = text.trim();
    let is_command = text.starts_with('/') && !text.contains(char::is_whitespace);
    !text.is_empty() && !text.starts_with(NOTICE) && !is_command
}
