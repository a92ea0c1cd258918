//! A lenient reader of what an agent's program wrote: an event that is cut off, too long, nested
//! too deep, has too many values or is not quite JSON is read as far as possible; a member that is
//! too much for a tree stays text. It must not interpret events, and never makes valid JSON worse:
//! callers try the strict parser first.

use std::io::{self, Read};

use serde_json::{Map, Value};

use crate::event::{
    json::{replace_lone_surrogates, string_len},
    limits,
};

/// Maximum bytes of an input kept; its longest texts are truncated to fit: twice the maximum size
/// of an event. The secret rules read all of it, and an agent waits for them.
const KEPT_BYTES_MAX: usize = 2 * limits::EVENT_BYTES_MAX;
/// Mark where a text was truncated: a Unicode noncharacter, which no program writes.
const CUT: &str = "\u{ffff}";
/// Bytes dropped before a cut once secrets were removed: no rule recognises a part of a secret.
/// Every secret is shorter; a private span without its end is removed up to the cut.
const LOOSE_BYTES: usize = 64 << 10;
/// Maximum bytes read: bounds the input of a program that never stops writing.
const INPUT_BYTES_MAX: u64 = 4 << 30;
/// Maximum depth of nesting: the members around it in the event add to the limit of the store.
pub(super) const LEVELS_MAX: usize = 100;

/// Input from an agent's program.
#[derive(Debug, Default)]
pub struct HookInput {
    /// The input, truncated if it was too long.
    pub bytes: Vec<u8>,
    /// Original length in bytes, if the input was truncated.
    pub cut_from: Option<u64>,
}

impl From<Vec<u8>> for HookInput {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, cut_from: None }
    }
}

impl HookInput {
    /// Reads to the end, or to the first error; either may be a whole event. When the input is too
    /// long, its longest texts are cut first.
    pub fn read(source: impl Read) -> Self {
        Self::read_bounded(source, KEPT_BYTES_MAX)
    }

    fn read_bounded(mut source: impl Read, bytes_max: usize) -> Self {
        let mut bytes = Vec::new();
        // The bytes read before an error are kept.
        let _ = source.by_ref().take(bytes_max as u64 + 1).read_to_end(&mut bytes);
        if bytes.len() <= bytes_max {
            return bytes.into();
        }
        let mut shortened = JsonShortener { bytes_max, bytes: Vec::new(), text: None };
        shortened.feed(&bytes);
        let begun = bytes.len() as u64;
        drop(bytes);
        let rest = source.take(INPUT_BYTES_MAX - begun);
        let more = io::copy(&mut io::BufReader::with_capacity(1 << 20, rest), &mut shortened);
        Self { bytes: shortened.bytes, cut_from: Some(begun + more.unwrap_or_default()) }
    }
}

/// Truncates the strings of a JSON text as it is written. Each string gets at most half of the
/// remaining bytes, so that the members after a long one still fit.
struct JsonShortener {
    bytes_max: usize,
    bytes: Vec<u8>,
    /// The string that contains the next byte, if any.
    text: Option<OpenText>,
}

struct OpenText {
    /// Number of bytes that still fit.
    left: usize,
    /// Number of bytes missing of the current escape.
    escape: u8,
    is_cut: bool,
}

impl io::Write for JsonShortener {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.feed(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl JsonShortener {
    fn feed(&mut self, part: &[u8]) {
        for byte in part {
            let left = self.bytes_max.saturating_sub(self.bytes.len());
            let Some(text) = &mut self.text else {
                if left > 0 {
                    self.bytes.push(*byte);
                    let begins = *byte == b'"';
                    self.text =
                        begins.then_some(OpenText { left: left / 2, escape: 0, is_cut: false });
                }
                continue;
            };
            if text.escape == 0 && *byte == b'"' {
                self.bytes.push(*byte);
                self.text = None;
                continue;
            }
            // Cuts only between characters, so that the result is valid JSON.
            let may_end = text.escape == 0 && byte & 0xc0 != 0x80;
            if text.left == 0 && may_end && !text.is_cut {
                self.bytes.extend(CUT.as_bytes());
                text.is_cut = true;
            }
            text.escape = match (text.escape, byte) {
                (0, b'\\') => 1,
                (1, b'u') => 4,
                (left, _) => left.saturating_sub(1),
            };
            if !text.is_cut {
                self.bytes.push(*byte);
                text.left = text.left.saturating_sub(1);
            }
        }
    }
}

/// Removes from truncated strings the ends that may be parts of secrets.
pub(super) fn drop_cut_ends(value: Value) -> Value {
    match value {
        Value::String(text) => Value::from(match text.split_once(CUT) {
            Some((before, _)) => {
                let end = before.len().saturating_sub(LOOSE_BYTES);
                before.get(..before.floor_char_boundary(end)).unwrap_or_default().to_owned() + "…"
            }
            None => text,
        }),
        Value::Array(values) => values.into_iter().map(drop_cut_ends).collect(),
        Value::Object(members) => {
            let whole = members.into_iter().filter(|(name, _)| !name.contains(CUT));
            Value::Object(whole.map(|(name, value)| (name, drop_cut_ends(value))).collect())
        }
        other => other,
    }
}

/// Parses an object as far as possible; returns `None` for a text that is not an object.
pub(super) fn parse_object(text: &str) -> Option<Map<String, Value>> {
    let rest = text.trim_start_matches('\u{feff}').trim_start();
    let mut reader = ValueReader { rest, left: limits::JSON_VALUES_MAX, is_over: false };
    match reader.rest.starts_with('{').then(|| reader.read_value(0)) {
        Some(Value::Object(members)) => Some(members),
        _ => None,
    }
}

/// Lenient parser. Each step consumes at least one byte, or is at the end of the text.
struct ValueReader<'a> {
    rest: &'a str,
    /// Number of values that may still be read.
    left: usize,
    /// True once the number of values exceeds the limit: the value being read is dropped.
    is_over: bool,
}

impl<'a> ValueReader<'a> {
    fn consume(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Skips blanks and returns the next character without consuming it.
    fn peek_nonblank(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn read_value(&mut self, level: usize) -> Value {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.is_over = true,
        }
        match self.peek_nonblank() {
            None => Value::Null,
            _ if self.is_over => Value::Null,
            Some('{' | '[') if level >= LEVELS_MAX => {
                Value::from(truncate_to_event_limit(self.read_nested()))
            }
            Some('{') => Value::Object(self.read_members(level)),
            Some('[') => Value::Array(self.read_values(level)),
            Some('"') => Value::from(self.read_string()),
            Some(other) => {
                let ends = |c: char| c.is_whitespace() || "\"{}[],:".contains(c);
                let end = self.rest.find(ends).unwrap_or(self.rest.len());
                let word = self.consume(end.max(other.len_utf8()));
                serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
            }
        }
    }

    /// Reads a member of the outermost object; returns its source text if it has too many values.
    fn read_top_member(&mut self) -> Value {
        let (begun, left) = (self.rest, self.left);
        let value = self.read_value(1);
        if !std::mem::take(&mut self.is_over) {
            return value;
        }
        drop(value);
        // Takes at least the bytes read so far, so that no byte is read twice as a value.
        let read = begun.len() - self.rest.len();
        (self.rest, self.left) = (begun, left.saturating_sub(1));
        let nested = self.read_nested().len();
        self.rest = begun;
        Value::from(truncate_to_event_limit(self.consume(nested.max(read))))
    }

    fn read_members(&mut self, level: usize) -> Map<String, Value> {
        let mut members = Map::new();
        self.consume(1);
        loop {
            if self.is_over || level == 0 && self.left == 0 {
                return members;
            }
            match self.peek_nonblank() {
                None => return members,
                Some('}') => {
                    self.consume(1);
                    return members;
                }
                Some('"') => {
                    let name = self.read_string();
                    if self.peek_nonblank() == Some(':') {
                        self.consume(1);
                        let value = if level == 0 {
                            self.read_top_member()
                        } else {
                            self.read_value(level + 1)
                        };
                        members.insert(name, value);
                    }
                }
                // A comma, or an invalid character.
                Some(other) => drop(self.consume(other.len_utf8())),
            }
        }
    }

    fn read_values(&mut self, level: usize) -> Vec<Value> {
        let mut values = Vec::new();
        self.consume(1);
        loop {
            match self.peek_nonblank() {
                _ if self.is_over => return values,
                None => return values,
                Some(']') => {
                    self.consume(1);
                    return values;
                }
                Some(',') => drop(self.consume(1)),
                Some(_) => values.push(self.read_value(level + 1)),
            }
        }
    }

    /// Reads a string and decodes its valid escapes.
    fn read_string(&mut self) -> String {
        let (inside, whole) = self.read_quoted();
        let inside = replace_lone_surrogates(inside);
        // Unescaped control characters and invalid escapes remain.
        let read = serde_json::from_str(&format!("\"{inside}\"")).ok().filter(|_| whole);
        read.unwrap_or_else(|| {
            serde_json::from_str(&quote_leniently(&inside)).unwrap_or(inside.into_owned())
        })
    }

    /// Reads the text between quotes; returns true with it if the closing quote exists.
    fn read_quoted(&mut self) -> (&'a str, bool) {
        let length = string_len(self.rest);
        let string = self.consume(length.unwrap_or(self.rest.len()));
        let inside = string.strip_prefix('"').unwrap_or_default();
        (inside.strip_suffix('"').filter(|_| length.is_some()).unwrap_or(inside), length.is_some())
    }

    /// Reads the source text of an object or list, up to its end.
    fn read_nested(&mut self) -> &'a str {
        let (mut open, mut inside, mut escaped) = (0_usize, false, false);
        let end = self.rest.bytes().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if inside => escaped = true,
                b'"' => inside = !inside,
                b'{' | b'[' if !inside => open += 1,
                b'}' | b']' if !inside => {
                    open = open.saturating_sub(1);
                    return open == 0;
                }
                _ => {}
            }
            false
        });
        self.consume(end.map_or(self.rest.len(), |end| end + 1))
    }
}

/// Truncates a text to the maximum size of an event.
fn truncate_to_event_limit(text: &str) -> String {
    match text.get(..text.floor_char_boundary(limits::EVENT_BYTES_MAX)) {
        Some(begin) if begin.len() < text.len() => begin.to_owned() + CUT,
        _ => text.to_owned(),
    }
}

/// Formats the text between quotes as a valid JSON string: known escapes stay, any other backslash
/// is escaped.
fn quote_leniently(inside: &str) -> String {
    let mut out = String::from("\"");
    let mut rest = inside;
    while let Some(first) = rest.chars().next() {
        let known = match rest.as_bytes() {
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'\\', b'u', a, b, c, d, ..]
                if [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                6
            }
            _ => 0,
        };
        if known > 0 {
            out.push_str(rest.get(..known).unwrap_or_default());
        } else if first == '\\' {
            out.push_str("\\\\");
        } else if first.is_control() {
            out.push_str(&format!("\\u{:04x}", u32::from(first)));
        } else {
            out.push(first);
        }
        rest = rest.get(known.max(first.len_utf8())..).unwrap_or_default();
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    #[test]
    fn malformed_json_is_parsed_as_far_as_possible() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
        for (text, expected) in [
            (r#"{"a":"x\ud83dy"}"#, json!({ "a": "x\u{fffd}y" })),
            (r#"{"a":"\ud83d\ude00\ude00\ud83d"}"#, json!({ "a": "😀\u{fffd}\u{fffd}" })),
            (r#"{"\ud83d":1,"a":"\\ud83d"}"#, json!({ "\u{fffd}": 1, "a": "\\ud83d" })),
            ("{\"a\":\"line\nnext\u{0}\"}", json!({ "a": "line\nnext\u{0}" })),
            (r#"{"a":"C:\dir\u12","b":"é\é"}"#, json!({ "a": "C:\\dir\\u12", "b": "é\\é" })),
            (r#"{"a":[1,{"b":"cut of"#, json!({ "a": [1, { "b": "cut of" }] })),
            (r#"{"a":1,"b":"x\"#, json!({ "a": 1, "b": "x\\" })),
            (r#"{"a":1,"b"#, json!({ "a": 1 })),
            (r#"{"a":1,"b":"#, json!({ "a": 1, "b": null })),
            (r#"{"a":1e999,"b":nul,"c":tru"#, json!({ "a": "1e999", "b": "nul", "c": "tru" })),
            (r#"{"a":[1 2,,3,],"b":2,}"#, json!({ "a": [1, 2, 3], "b": 2 })),
            (r#"{"a":1} and more"#, json!({ "a": 1 })),
            (r#"{a:1,"b"2:"c":3]]"#, json!({ "c": 3 })),
            ("\u{feff}{\"a\":NaN}", json!({ "a": "NaN" })),
            ("{", json!({})),
        ] {
            assert_eq!(parse_object(text).map(Value::Object), Some(expected), "{text}");
        }
        let members = parse_object(&deep).expect("an object");
        let value = Value::Object(members);
        assert!(depth(&value) == LEVELS_MAX && value.to_string().contains("[1]"));
        for text in ["", "[]", "x", "\"{\"", "7"] {
            assert_eq!(parse_object(text), None, "{text}");
        }
    }

    #[test]
    fn a_member_with_too_many_values_stays_text_with_any_closing_brackets() {
        let many = "1 } ".repeat(limits::JSON_VALUES_MAX);
        let text = format!(r#"{{"a":[1],"many":[{many}],"b":2}}"#);
        let members = parse_object(&text).expect("an object");
        assert_eq!(members["a"], json!([1]));
        let many = members["many"].as_str().expect("text");
        assert!(many.starts_with("[1 } 1 }") && many.len() > limits::JSON_VALUES_MAX);
        // While the limit is not reached, the members after it are read.
        let closed = format!(r#"{{"many":[{}0],"b":2}}"#, "1,".repeat(limits::JSON_VALUES_MAX));
        let members = parse_object(&closed).expect("an object");
        assert!(members["many"].is_string() && members["b"] == 2);
        // Brackets that never close are read only once: parsing terminates.
        let open = format!("{{{}", "\"a\":{]".repeat(300_000));
        assert!(parse_object(&open).is_some());
    }

    #[test]
    fn the_lenient_and_the_strict_parser_agree_on_valid_json() {
        for text in [
            r#"{"a":{"b":[1.5e3,-2,true,null,"\u00e9\"\\\/\n"],"":{}},"c":[[],[[]]],"a":2}"#,
            " { \"x\" : \"\\ud83d\\ude00\" }\n",
        ] {
            let read: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(parse_object(text).map(Value::Object), Some(read), "{text}");
        }
    }

    #[test]
    fn a_truncated_input_stays_valid_json_and_drops_possible_parts_of_secrets() {
        for filler in ["x", "\\\"", "\\u00e9", "é", "\\\\", "\\ud83d\\ude00", "日本\\n"] {
            for before in 0..12 {
                let long = filler.repeat(2_000);
                let text = format!("{{\"{}\":\"{long}\",\"id\":\"i\"}}", "k".repeat(before));
                let read = HookInput::read_bounded(text.as_bytes(), 1_000);
                let kept = std::str::from_utf8(&read.bytes).expect("text");
                let members = parse_object(kept).expect("an object");
                assert_eq!(members["id"], "i", "{filler} {kept}");
                if !filler.contains("ud83d") {
                    assert!(serde_json::from_str::<Value>(kept).is_ok(), "{filler} {kept}");
                }
                let clean = drop_cut_ends(Value::Object(members));
                assert_eq!(clean, json!({ "k".repeat(before): "…", "id": "i" }), "{filler}");
            }
        }
        let secret = format!("{}{CUT}", "a".repeat(LOOSE_BYTES + 7));
        let clean = drop_cut_ends(json!([secret, { "\u{ffff}name": 1, "b": "whole" }]));
        assert_eq!(clean, json!(["aaaaaaa…", { "b": "whole" }]));
    }

    #[test]
    fn an_oversized_input_keeps_its_last_members_and_truncates_its_longest_texts() {
        let text = |byte: u8, count: usize| vec![byte; count];
        let long = [
            &b"{\"a\":\"\\\""[..],
            &text(b'x', 1_000),
            b"\",\"b\":\"",
            &text(b'\\', 102),
            b"\",\"c\":[1,\"y\"]}",
        ]
        .concat();
        let read = HookInput::read_bounded(&*long, 1_000);
        assert_eq!(read.cut_from, Some(long.len() as u64));
        assert!(read.bytes.len() <= 1_000, "{}", read.bytes.len());
        let members =
            parse_object(std::str::from_utf8(&read.bytes).expect("text")).expect("an object");
        assert_eq!(members["c"], json!([1, "y"]));
        assert!(members["a"].as_str().expect("a text").starts_with("\"xxx"));
        // At the bound it is unchanged; beyond it, small parts are dropped at the end.
        let exact = text(b'x', 1_000);
        let read = HookInput::read_bounded(&*exact, 1_000);
        assert_eq!((read.bytes.len(), read.cut_from), (1_000, None));
        let many = [&b"{\"s\":1,\"a\":["[..], &b"\"z\",".repeat(1_000)].concat();
        let read = HookInput::read_bounded(&*many, 1_000);
        assert_eq!(read.cut_from, Some(many.len() as u64));
        assert!(read.bytes.len() < 1_000 + 2 * CUT.len(), "{}", read.bytes.len());
    }
}
