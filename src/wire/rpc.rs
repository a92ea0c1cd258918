//! JSON-RPC as clients write it: the messages of a text, even if it is not quite JSON, and the id
//! under which an unreadable one is refused. It must not know a method.

use std::borrow::Cow;

use serde_json::{Deserializer, json, value::RawValue};

use super::json::replace_lone_surrogates;
use crate::event::json as bounded;

/// Start of a message. It cannot occur inside another one, whose texts have escaped quotes.
const BEGINS: &str = "{\"jsonrpc\"";
/// Error code for a text that is not JSON.
pub const NOT_JSON: i32 = -32700;
/// Error code for JSON that is not a request.
pub const NO_REQUEST: i32 = -32600;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcPart<'a> {
    /// JSON, which may be a message.
    Message(&'a str),
    /// Text that is not JSON, such as a message that was cut off.
    Broken(&'a str),
}

/// Replaces invalid UTF-8 and each lone half of a surrogate pair by U+FFFD.
#[must_use]
pub fn repair_text(bytes: &[u8]) -> Cow<'_, str> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => replace_lone_surrogates(text),
        Cow::Owned(text) => Cow::Owned(replace_lone_surrogates(&text).into_owned()),
    }
}

/// Splits a text into its parts in order: consecutive messages, those of a batch, and whole ones
/// after one that was cut off.
#[must_use]
pub fn split_messages(text: &str) -> Vec<RpcPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while !rest.is_empty() {
        let mut values = Deserializer::from_str(rest).into_iter::<&RawValue>();
        let end = if let Some(Ok(value)) = values.next() {
            let text = value.get();
            let batch = bounded::check_levels(text, 1).filter(|text| text.starts_with('['));
            match batch.and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok()) {
                Some(batch) => parts.extend(batch.iter().map(|one| RpcPart::Message(one.get()))),
                None => parts.push(RpcPart::Message(text)),
            }
            values.byte_offset()
        } else {
            let next = rest.get(1..).and_then(|behind| behind.find(BEGINS));
            let end = next.map_or(rest.len(), |at| at + 1);
            parts.push(RpcPart::Broken(rest.get(..end).unwrap_or(rest)));
            end
        };
        rest = rest.get(end..).unwrap_or_default().trim_start();
    }
    parts
}

/// Returns the answer to a refused request: under its id, or null if the id cannot be read.
#[must_use]
pub fn error_response(id: Option<&str>, code: i32, problem: &str) -> String {
    let error = json!({ "code": code, "message": problem });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", id.unwrap_or("null"))
}

/// Properties of a message that is too long to be stored, read from its bytes as they pass: its id,
/// whether it has a method, whether it reports an error, and its length.
#[derive(Debug, Default)]
pub struct MessageOutline {
    depth: usize,
    quoted: bool,
    escaped: bool,
    /// Text at the first two levels since the last member began, as far as it may be a name or an
    /// id.
    token: Vec<u8>,
    name: Vec<u8>,
    /// Name of the top-level member whose members are being read.
    within: Vec<u8>,
    /// Text of the id, a whole number or a string.
    pub id: Option<String>,
    /// True if the message is a request or a notification.
    pub has_method: bool,
    /// True if the message answers a request.
    pub is_answer: bool,
    /// True if the message reports an error.
    pub is_error: bool,
    /// Length of the message in bytes.
    pub bytes: u64,
    /// True if the message has begun and ended.
    pub is_whole: bool,
}

impl MessageOutline {
    /// Maximum bytes of an id.
    const TOKEN_BYTES_MAX: usize = 256;

    /// Returns the outline of a text.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut outline = Self::default();
        outline.push(text.as_bytes());
        outline
    }

    /// Reads the next bytes of the message.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            let inside = self.quoted;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if inside => self.escaped = true,
                b'"' => self.quoted = !inside,
                b'{' | b'[' if !inside => {
                    self.enter_level();
                    continue;
                }
                b':' if !inside && self.depth <= 2 => {
                    self.name = std::mem::take(&mut self.token);
                    continue;
                }
                b',' | b'}' | b']' if !inside => {
                    self.finish_member();
                    self.depth = self.depth.saturating_sub(usize::from(*byte != b','));
                    self.is_whole = self.depth == 0;
                    continue;
                }
                _ => {}
            }
            let is_near = (1..=2).contains(&self.depth);
            if is_near && self.token.len() < Self::TOKEN_BYTES_MAX {
                self.token.push(*byte);
            }
        }
    }

    fn enter_level(&mut self) {
        if self.depth == 1 {
            self.within = std::mem::take(&mut self.name);
            self.is_error |= is_name(&self.within, "error");
            self.is_answer |= self.is_error || is_name(&self.within, "result");
        }
        self.token.clear();
        self.depth += 1;
    }

    fn finish_member(&mut self) {
        if self.depth > 2 {
            return;
        }
        let (name, value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.token));
        match self.depth {
            1 if is_name(&name, "id") => self.id = parse_id(&value),
            1 => self.has_method |= is_name(&name, "method"),
            2 if is_name(&name, "isError") && is_name(&self.within, "result") => {
                self.is_error |= value.trim_ascii() == b"true";
            }
            _ => {}
        }
    }
}

/// Returns the text of an id, which is a string or a number.
fn parse_id(value: &[u8]) -> Option<String> {
    let text: &RawValue = serde_json::from_slice(value).ok()?;
    let text = text.get();
    let is_plain = |first: char| matches!(first, '"' | '-' | '0'..='9');
    text.starts_with(is_plain).then(|| text.to_owned())
}

fn is_name(text: &[u8], name: &str) -> bool {
    serde_json::from_slice::<String>(text).is_ok_and(|text| text == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_has_the_id_method_and_error_of_a_message_fed_in_chunks() {
        for (text, id, has_method) in [
            (
                r#"{"jsonrpc":"2.0","id":"a\"{b","method":"m","params":{"id":7}}"#,
                Some(r#""a\"{b""#),
                true,
            ),
            (r#" { "params" : [{"id":1},"}\\"] , "method":"m", "id" : -17 } "#, Some("-17"), true),
            (r#"{"result":{"method":"m"},"id":3}"#, Some("3"), false),
            (r#"{"method":"m","params":"\"id\":9"}"#, None, true),
            (r#"{"id":4,"result":{"id":5,"a":{"id":6},"method":"m"}}"#, Some("4"), false),
        ] {
            for size in [1, 3, 1_000] {
                let mut outline = MessageOutline::default();
                text.as_bytes().chunks(size).for_each(|bytes| outline.push(bytes));
                assert_eq!(outline.id.as_deref(), id, "{text}");
                assert_eq!(outline.has_method, has_method, "{text}");
                assert_eq!((outline.bytes, outline.is_whole), (text.len() as u64, true), "{text}");
            }
        }
        for (text, is_error) in [
            (r#"{"id":1,"result":{"content":[{"isError":true}],"isError" : true } }"#, true),
            (r#"{"id":1,"result":{"content":[{"isError":true}],"isError":false}}"#, false),
            (r#"{"id":1,"result":{"text":"\"isError\":true"},"error":null}"#, false),
            (r#"{"id":1,"other":{"isError":true}}"#, false),
            (r#"{"id":1,"error":{"code":-1}}"#, true),
        ] {
            let mut outline = MessageOutline::default();
            text.as_bytes().chunks(5).for_each(|bytes| outline.push(bytes));
            assert_eq!(outline.is_error, is_error, "{text}");
        }
        let mut outline = MessageOutline::default();
        outline.push(b"{\"id\":1,\"result\":{}");
        assert!(!outline.is_whole);
    }

    #[test]
    fn split_messages_finds_a_whole_message_after_a_truncated_one() {
        let whole = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let cut = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arg"#;
        for (text, expected) in [
            (format!("{whole} {whole}"), vec![RpcPart::Message(whole), RpcPart::Message(whole)]),
            (format!("[{whole},{whole}]"), vec![RpcPart::Message(whole), RpcPart::Message(whole)]),
            (
                format!("\u{feff}\u{feff}{cut}{whole}"),
                vec![RpcPart::Broken(cut), RpcPart::Message(whole)],
            ),
            (cut.to_owned(), vec![RpcPart::Broken(cut)]),
            (" \r\n".to_owned(), vec![]),
        ] {
            assert_eq!(split_messages(&text), expected, "{text}");
        }
        assert_eq!(MessageOutline::from_text(cut).id.as_deref(), Some("1"));
        let large = r#"{"id":12345678901234567890123,"method":"#;
        assert_eq!(MessageOutline::from_text(large).id.as_deref(), Some("12345678901234567890123"));
    }

    #[test]
    fn lone_surrogates_and_invalid_utf8_become_the_replacement_character() {
        for (bytes, text) in [
            (&b"caf\xe9"[..], "caf\u{fffd}"),
            (br"\ud83d \ud83d\ude00", "\u{fffd} \\ud83d\\ude00"),
            (b"plain", "plain"),
        ] {
            assert_eq!(repair_text(bytes), text);
        }
    }
}
