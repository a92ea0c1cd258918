//! A session as Markdown for a reader: messages with their authors, tool calls and their results.
//! Each turn begins with a heading, which recorded text cannot forge. The size is bounded: long
//! texts are cut in the middle, and beyond the maximum events are only counted. It must not print,
//! nor look for secrets: its caller removes them.

use serde_json::Value;

use super::words::{
    content_text, count_of, describe_event, format_call, is_true, number_of, text_of,
};
use crate::{
    cli::{screen::one_line, times::TimeFormat},
    event::kinds,
    harness::quote,
};

/// Maximum bytes of a document.
const BYTES_MAX: usize = 16 << 20;
/// Maximum characters of a message, and of a call or a result.
const MESSAGE_CHARS: usize = 20_000;
const OUTPUT_CHARS: usize = 2_000;
const TITLE_CHARS: usize = 160;
/// Event types that have no content for a reader of the session.
const SILENT: [&str; 4] = [
    kinds::SPAN_MODEL_REQUEST_END,
    kinds::TRANSCRIPT_ENTRY,
    kinds::CONTEXT_INJECTED,
    kinds::SESSION_STATUS_RUNNING,
];

/// A document under construction.
pub(in crate::cli) struct MarkdownDocument {
    times: TimeFormat,
    bytes: usize,
    /// Number of events that exceeded the size, and of those without content.
    left_out: u64,
    silent: u64,
}

impl MarkdownDocument {
    pub(in crate::cli) fn new(times: TimeFormat) -> Self {
        Self { times, bytes: 0, left_out: 0, silent: 0 }
    }

    /// Returns the beginning: a title, and the session's properties.
    pub(in crate::cli) fn format_head(&self, title: &str, session: &Value) -> String {
        let title = quote::escape_inline(&one_line(title, TITLE_CHARS));
        let mut lines = vec![format!("# {title}"), String::new()];
        let client = session.pointer("/metadata/client").and_then(Value::as_str);
        let time = |name: &str| self.times.format_date(text_of(session, name));
        for (name, value) in [
            ("session", quote_name(text_of(session, "id"))),
            ("client", quote_name(client.unwrap_or_default())),
            ("workspace", quote_name(text_of(session, "workspace"))),
            ("begun", time("created_at")),
            ("last written", time("updated_at")),
            ("events", number_of(session, "tail").unwrap_or_default().to_string()),
        ] {
            if !value.is_empty() {
                lines.push(format!("- {name}: {value}"));
            }
        }
        lines.join("\n")
    }

    /// Formats an event; returns `None` for one that is not shown.
    pub(in crate::cli) fn render_event(&mut self, one: &Value) -> Option<String> {
        let kind = text_of(one, "type");
        if SILENT.contains(&kind) {
            self.silent += 1;
            return None;
        }
        if self.bytes > BYTES_MAX {
            self.left_out += 1;
            return None;
        }
        let text = self.format_event(kind, one);
        self.bytes += text.len();
        Some(text)
    }

    fn format_event(&self, kind: &str, one: &Value) -> String {
        let at = number_of(one, "position").unwrap_or_default();
        let time =
            ["created_at", "processed_at"].map(|name| self.times.format_date(text_of(one, name)));
        let time = time.into_iter().find(|time| !time.is_empty()).unwrap_or_default();
        let said = || {
            let text = content_text(one.get("content").unwrap_or(&Value::Null));
            quote::escape_block(&cut_middle(&text, MESSAGE_CHARS))
        };
        let about = format!("*{at} · {}*", quote::escape_inline(&time));
        let error = is_true(one, "is_error");
        match kind {
            kinds::USER_MESSAGE => format!("\n---\n\n## User\n\n{about}\n\n{}", said()),
            kinds::AGENT_MESSAGE => format!("\n## Agent\n\n{about}\n\n{}", said()),
            kind if kinds::is_call(kind) => {
                let name = Some(text_of(one, "name")).filter(|name| !name.is_empty());
                let text = format_call(one);
                // The heading already contains the name.
                let given = name.and_then(|name| text.strip_prefix(name)).unwrap_or(&text).trim();
                let name = quote_name(name.unwrap_or("a tool"));
                format!("\n### Call of {name}\n\n{about}\n\n{}", fence_output(given))
            }
            kind if kinds::is_result(kind) => {
                let how = if error { "Error" } else { "Result" };
                let text = content_text(one.get("content").unwrap_or(&Value::Null));
                match text.trim().is_empty() {
                    true => format!("\n### {how}\n\n{about} no output"),
                    false => format!("\n### {how}\n\n{about}\n\n{}", fence_output(&text)),
                }
            }
            _ => format!(
                "\n### {}\n\n{about}\n\n{}\n",
                quote_name(kind),
                fence_output(&describe_event(one))
            ),
        }
    }

    /// Formats a range whose events cannot be read.
    pub(in crate::cli) fn format_missing(&self, why: &str) -> String {
        format!("\n### Missing\n\n{}", quote::escape_inline(why))
    }

    /// Returns a line with the number of events left out, if any.
    pub(in crate::cli) fn format_omitted(&self) -> Option<String> {
        let parts = [
            (self.left_out, "for which there is no room"),
            (self.silent, "of the recording itself"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> =
            parts.map(|(count, what)| format!("{} {what}", count_of(count, "event"))).collect();
        (!said.is_empty()).then(|| format!("\n---\n\nNot shown: {}.", said.join(", ")))
    }
}

fn fence_output(text: &str) -> String {
    quote::code_block(&cut_middle(text.trim_end(), OUTPUT_CHARS))
}

fn quote_name(text: &str) -> String {
    quote::inline_code(&one_line(text, TITLE_CHARS))
}

/// Removes the middle of a text that exceeds `chars_max`.
fn cut_middle(text: &str, chars_max: usize) -> String {
    let count = text.chars().count();
    if count <= chars_max {
        return text.to_owned();
    }
    let head: String = text.chars().take(chars_max * 2 / 3).collect();
    let tail: String = text.chars().skip(count - chars_max / 3).collect();
    let left_out = count - head.chars().count() - tail.chars().count();
    format!("{head}\n[… {left_out} characters …]\n{tail}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_cannot_close_its_fence_and_a_long_one_is_cut_in_the_middle() {
        let mut document = MarkdownDocument::new(TimeFormat::default());
        let result = json!({
            "type": "agent.tool_result", "position": 3, "content": "```\n````\nout",
            "created_at": "2026-11-20T09:00:00Z",
        });
        let text = document.render_event(&result).expect("shown");
        assert!(text.contains("\n`````\n```\n````\nout\n`````"), "{text}");
        let long = format!("{}middle{}", "a".repeat(9_000), "z".repeat(9_000));
        let text = fence_output(&long);
        assert!(text.contains("a\n[… 16006 characters …]\nz") || text.len() < 2_200, "{text}");
        assert!(!text.contains("middle"));
    }

    #[test]
    fn a_document_is_bounded_and_counts_the_events_left_out() {
        let mut document = MarkdownDocument::new(TimeFormat::default());
        assert_eq!(document.format_omitted(), None);
        let long = json!({ "type": "user.message", "content": "x".repeat(30_000) });
        let shown = (0..2_000).filter(|_| document.render_event(&long).is_some()).count();
        assert!(shown < 900, "{shown}");
        assert_eq!(document.render_event(&json!({ "type": "transcript.entry" })), None);
        let end = document.format_omitted().expect("something is left out");
        assert!(
            end.contains(&format!(
                "{} events for which there is no room, 1 event of",
                count_of((2_000 - shown) as u64, "event").trim_end_matches(" events")
            )),
            "{end}"
        );
    }
}
