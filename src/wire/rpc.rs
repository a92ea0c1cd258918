//! JSON-RPC as clients write it: the messages of a text, also where it is not quite JSON, and the
//! id under which one that cannot be read is refused. It must not know a method.

use std::borrow::Cow;

use serde_json::{Deserializer, json, value::RawValue};

use super::json::paired;
use crate::event::json as bounded;

/// Beginning of a message: never inside another one, whose texts have their quotes escaped.
const BEGINS: &str = "{\"jsonrpc\"";
/// The code of a text that is no JSON.
pub const NOT_JSON: i32 = -32700;
/// The code of JSON that is no request.
pub const NO_REQUEST: i32 = -32600;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// JSON, which may be a message.
    Message(&'a str),
    /// Text that is no JSON, such as a message that was cut off.
    Broken(&'a str),
}

/// A text with U+FFFD for what is not UTF-8, and for each lone half of a surrogate pair.
#[must_use]
pub fn mended(bytes: &[u8]) -> Cow<'_, str> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => paired(text),
        Cow::Owned(text) => Cow::Owned(paired(&text).into_owned()),
    }
}

/// The parts of a text in their order: messages one after another, those of a batch, and whole ones
/// behind one that was cut off.
#[must_use]
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while !rest.is_empty() {
        let mut values = Deserializer::from_str(rest).into_iter::<&RawValue>();
        let end = if let Some(Ok(value)) = values.next() {
            let text = value.get();
            let batch = bounded::list(text, 1).filter(|text| text.starts_with('['));
            match batch.and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok()) {
                Some(batch) => parts.extend(batch.iter().map(|one| Part::Message(one.get()))),
                None => parts.push(Part::Message(text)),
            }
            values.byte_offset()
        } else {
            let next = rest.get(1..).and_then(|behind| behind.find(BEGINS));
            let end = next.map_or(rest.len(), |at| at + 1);
            parts.push(Part::Broken(rest.get(..end).unwrap_or(rest)));
            end
        };
        rest = rest.get(end..).unwrap_or_default().trim_start();
    }
    parts
}

/// The answer to a request that is refused: under its id, or under none where that cannot be read.
#[must_use]
pub fn refusal(id: Option<&str>, code: i32, problem: &str) -> String {
    let error = json!({ "code": code, "message": problem });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", id.unwrap_or("null"))
}

/// Properties of a message that is too long to be read, from its bytes as they pass: its id,
/// whether it has a method, whether it reports an error, and its length.
#[derive(Debug, Default)]
pub struct Outline {
    depth: usize,
    quoted: bool,
    escaped: bool,
    /// The text at the first two levels since the last member began, as far as it may be a name or
    /// an id.
    token: Vec<u8>,
    name: Vec<u8>,
    /// The member of the top level whose members are being read.
    within: Vec<u8>,
    /// The text of its id, a whole number or a string.
    pub id: Option<String>,
    /// True if it is a request or a notification.
    pub has_method: bool,
    /// True if it answers one.
    pub is_answer: bool,
    /// True if it reports an error.
    pub is_error: bool,
    /// Its length.
    pub bytes: u64,
    /// True if the message has begun and ended.
    pub is_whole: bool,
}

impl Outline {
    /// Bytes of an id at most.
    const TOKEN_BYTES_MAX: usize = 256;

    /// The outline of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut outline = Self::default();
        outline.push(text.as_bytes());
        outline
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            let inside = self.quoted;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if inside => self.escaped = true,
                b'"' => self.quoted = !inside,
                b'{' | b'[' if !inside => {
                    self.opens();
                    continue;
                }
                b':' if !inside && self.depth <= 2 => {
                    self.name = std::mem::take(&mut self.token);
                    continue;
                }
                b',' | b'}' | b']' if !inside => {
                    self.member();
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

    fn opens(&mut self) {
        if self.depth == 1 {
            self.within = std::mem::take(&mut self.name);
            self.is_error |= is_name(&self.within, "error");
            self.is_answer |= self.is_error || is_name(&self.within, "result");
        }
        self.token.clear();
        self.depth += 1;
    }

    fn member(&mut self) {
        if self.depth > 2 {
            return;
        }
        let (name, value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.token));
        match self.depth {
            1 if is_name(&name, "id") => self.id = id(&value),
            1 => self.has_method |= is_name(&name, "method"),
            2 if is_name(&name, "isError") && is_name(&self.within, "result") => {
                self.is_error |= value.trim_ascii() == b"true";
            }
            _ => {}
        }
    }
}

/// The text of an id, which is a string or a number.
fn id(value: &[u8]) -> Option<String> {
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
    fn a_message_that_is_too_long_still_has_the_id_to_answer() {
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
                let mut outline = Outline::default();
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
            let mut outline = Outline::default();
            text.as_bytes().chunks(5).for_each(|bytes| outline.push(bytes));
            assert_eq!(outline.is_error, is_error, "{text}");
        }
        let mut outline = Outline::default();
        outline.push(b"{\"id\":1,\"result\":{}");
        assert!(!outline.is_whole);
    }

    #[test]
    fn a_message_behind_one_that_was_cut_off_is_still_a_message() {
        let whole = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let cut = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arg"#;
        for (text, expected) in [
            (format!("{whole} {whole}"), vec![Part::Message(whole), Part::Message(whole)]),
            (format!("[{whole},{whole}]"), vec![Part::Message(whole), Part::Message(whole)]),
            (
                format!("\u{feff}\u{feff}{cut}{whole}"),
                vec![Part::Broken(cut), Part::Message(whole)],
            ),
            (cut.to_owned(), vec![Part::Broken(cut)]),
            (" \r\n".to_owned(), vec![]),
        ] {
            assert_eq!(parts(&text), expected, "{text}");
        }
        assert_eq!(Outline::of(cut).id.as_deref(), Some("1"));
        let large = r#"{"id":12345678901234567890123,"method":"#;
        assert_eq!(Outline::of(large).id.as_deref(), Some("12345678901234567890123"));
    }

    #[test]
    fn halves_and_bytes_that_are_no_text_become_the_replacement_character() {
        for (bytes, text) in [
            (&b"caf\xe9"[..], "caf\u{fffd}"),
            (br"\ud83d \ud83d\ude00", "\u{fffd} \\ud83d\\ude00"),
            (b"plain", "plain"),
        ] {
            assert_eq!(mended(bytes), text);
        }
    }
}
