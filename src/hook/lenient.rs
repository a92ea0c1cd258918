//! A lenient reader of what an agent's program wrote: an event that is cut off, too long, nested
//! too deep, has too many values or is not quite JSON is read as far as possible; a member of which
//! no tree can be built stays text. It must not interpret events, and never makes valid JSON worse:
//! callers try the strict parser first.

use std::io::{self, Read};

use serde_json::{Map, Value};

use crate::event::{
    json::{self, Weight},
    limits,
};

/// Bytes of an input that are kept, once its longest texts are cut: twice what the store accepts of
/// one event. The rules that remove secrets read all of it, and an agent waits for them.
const KEPT_BYTES_MAX: usize = 2 * limits::EVENT_BYTES_MAX;
/// Mark where a text was cut. A noncharacter: no program writes one.
const CUT: &str = "\u{ffff}";
/// Bytes before a cut that are dropped once secrets were removed: a part of a secret is recognised
/// by no rule. Each is shorter, and a private span without its end is removed to the cut.
const LOOSE_BYTES: usize = 64 << 10;
/// Bytes read at most: bounds the input of a program that never stops.
const INPUT_BYTES_MAX: u64 = 4 << 30;
/// Most levels of nesting: the event adds its own, up to the limit of the store.
pub(super) const LEVELS_MAX: usize = 100;

/// Input from an agent's program.
#[derive(Debug, Default)]
pub struct Input {
    /// The input, or what is kept of it.
    pub bytes: Vec<u8>,
    /// Its length, when something was left out.
    pub cut_from: Option<u64>,
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, cut_from: None }
    }
}

impl Input {
    /// Reads to the end, or to the first error; either may be a whole event. When the input is too
    /// long, its longest texts are cut first.
    pub fn read(source: impl Read) -> Self {
        Self::read_within(source, KEPT_BYTES_MAX)
    }

    fn read_within(mut source: impl Read, bytes_max: usize) -> Self {
        let mut bytes = Vec::new();
        // What was read before an error is kept.
        let _ = source.by_ref().take(bytes_max as u64 + 1).read_to_end(&mut bytes);
        if bytes.len() <= bytes_max {
            return bytes.into();
        }
        let mut shortened = Shortened { bytes_max, bytes: Vec::new(), text: None };
        shortened.take(&bytes);
        let begun = bytes.len() as u64;
        drop(bytes);
        let rest = source.take(INPUT_BYTES_MAX - begun);
        let more = io::copy(&mut io::BufReader::with_capacity(1 << 20, rest), &mut shortened);
        Self { bytes: shortened.bytes, cut_from: Some(begun + more.unwrap_or_default()) }
    }
}

/// A JSON text on its way. Each text in it may have half of the room that is left, so that what
/// follows a long one has its place.
struct Shortened {
    bytes_max: usize,
    bytes: Vec<u8>,
    /// The text that the next byte is in.
    text: Option<Text>,
}

struct Text {
    /// Bytes that there is room for.
    left: usize,
    /// Bytes of an escape that are still to come.
    escape: u8,
    is_cut: bool,
}

impl io::Write for Shortened {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.take(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shortened {
    fn take(&mut self, part: &[u8]) {
        for byte in part {
            let left = self.bytes_max.saturating_sub(self.bytes.len());
            let Some(text) = &mut self.text else {
                if left > 0 {
                    self.bytes.push(*byte);
                    let begins = *byte == b'"';
                    self.text = begins.then_some(Text { left: left / 2, escape: 0, is_cut: false });
                }
                continue;
            };
            if text.escape == 0 && *byte == b'"' {
                self.bytes.push(*byte);
                self.text = None;
                continue;
            }
            // Between characters, so that what is left is JSON.
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

/// A value of which texts were cut, without the ends that may be parts of secrets.
pub(super) fn without_loose_ends(value: Value) -> Value {
    match value {
        Value::String(text) => Value::from(match text.split_once(CUT) {
            Some((before, _)) => {
                let end = before.len().saturating_sub(LOOSE_BYTES);
                before.get(..before.floor_char_boundary(end)).unwrap_or_default().to_owned() + "…"
            }
            None => text,
        }),
        Value::Array(values) => values.into_iter().map(without_loose_ends).collect(),
        Value::Object(members) => {
            let whole = members.into_iter().filter(|(name, _)| !name.contains(CUT));
            Value::Object(whole.map(|(name, value)| (name, without_loose_ends(value))).collect())
        }
        other => other,
    }
}

/// Reads an object as far as it goes; `None` for a text that is not an object.
pub(super) fn object(text: &str) -> Option<Map<String, Value>> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let (mut rest, mut left) = (text.strip_prefix('{')?, limits::JSON_VALUES_MAX - 1);
    let mut members = Map::new();
    loop {
        rest = rest.trim_start();
        match rest.chars().next() {
            Some('"') if left > 0 => {}
            Some('"' | '}') | None => return Some(members),
            // A comma; or what no JSON has there.
            Some(other) => {
                rest = rest.get(other.len_utf8()..).unwrap_or_default();
                continue;
            }
        }
        let name = ValueText::take(&mut rest).read(&mut 1);
        rest = rest.trim_start();
        if let (Value::String(name), Some(behind)) = (name, rest.strip_prefix(':')) {
            rest = behind.trim_start();
            members.insert(name, ValueText::take(&mut rest).read(&mut left));
        }
    }
}

/// The text of one value.
struct ValueText<'a> {
    text: &'a str,
    /// Quote and brackets that the text does not close, the innermost last.
    open: Vec<char>,
}

impl<'a> ValueText<'a> {
    /// Takes the value that a text begins with: up to its last quote or bracket, or a word. A
    /// bracket that does not close the innermost one closes none.
    fn take(rest: &mut &'a str) -> Self {
        let (mut open, mut escaped) = (Vec::new(), false);
        let ends = |(at, c): (usize, char)| {
            let is_within = open.last() == Some(&'"');
            match c {
                _ if escaped => escaped = false,
                '\\' if is_within => escaped = true,
                _ if open.last() == Some(&c) => {
                    open.pop();
                    return open.is_empty().then_some(at + 1);
                }
                _ if is_within => {}
                '"' | '{' | '[' if at == 0 || !open.is_empty() => open.push(match c {
                    '{' => '}',
                    '[' => ']',
                    quote => quote,
                }),
                c if open.is_empty() && (c.is_whitespace() || "\"{}[],:".contains(c)) => {
                    return Some(at);
                }
                _ => {}
            }
            None
        };
        let end = rest.char_indices().find_map(ends).unwrap_or(rest.len());
        let (text, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        *rest = behind;
        Self { text, open }
    }

    /// The value; its text where it is no JSON, is nested too deep or has more than `left` values.
    fn read(self, left: &mut usize) -> Value {
        let Weight { values, depth } = json::weigh(self.text.as_bytes(), usize::MAX);
        let fits = values <= *left && depth < LEVELS_MAX;
        *left = left.saturating_sub(if fits { values.max(1) } else { 1 });
        let tree =
            || serde_json::from_str(self.text).or_else(|_| serde_json::from_str(&self.mended()));
        match fits.then(tree) {
            Some(Ok(value)) => value,
            _ if self.text.is_empty() => Value::Null,
            _ => Value::from(shortened(self.text)),
        }
    }

    /// The same with valid strings: known escapes stay, any other backslash and control characters
    /// are escaped. What is open is closed.
    fn mended(&self) -> String {
        let text = json::paired(self.text);
        let (mut out, mut rest, mut is_within) = (String::new(), &*text, false);
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
            let taken = known.max(first.len_utf8());
            match first {
                '\\' if is_within && known == 0 => out.push_str("\\\\"),
                _ if is_within && first.is_control() => {
                    out.push_str(&format!("\\u{:04x}", u32::from(first)));
                }
                _ => out.push_str(rest.get(..taken).unwrap_or_default()),
            }
            is_within ^= first == '"';
            rest = rest.get(taken..).unwrap_or_default();
        }
        out.extend(self.open.iter().rev());
        out
    }
}

/// A text of at most as many bytes as the store takes in an event.
fn shortened(text: &str) -> String {
    match text.get(..text.floor_char_boundary(limits::EVENT_BYTES_MAX)) {
        Some(begin) if begin.len() < text.len() => begin.to_owned() + CUT,
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_that_is_not_quite_json_is_read_as_far_as_it_goes() {
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
            (r#"{"a":[1 2,,3,],"b":2,}"#, json!({ "a": "[1 2,,3,]", "b": 2 })),
            (
                "{\"a\":{\"b\":\"\n\\d\",\"c\":\"\\ud83d",
                json!({ "a": { "b": "\n\\d", "c": "\u{fffd}" } }),
            ),
            (r#"{"a":{"b":1]},"c":2}"#, json!({ "a": "{\"b\":1]}", "c": 2 })),
            (r#"{"a":1} and more"#, json!({ "a": 1 })),
            (r#"{a:1,"b"2:"c":3]]"#, json!({ "c": 3 })),
            ("\u{feff}{\"a\":NaN}", json!({ "a": "NaN" })),
            ("{", json!({})),
        ] {
            assert_eq!(object(text).map(Value::Object), Some(expected), "{text}");
        }
        let nested = |levels| ["[".repeat(levels), "]".repeat(levels)].concat();
        for (levels, is_tree) in [(LEVELS_MAX - 1, true), (LEVELS_MAX, false), (5_000, false)] {
            let members = object(&format!("{{\"a\":{},\"b\":1}}", nested(levels)));
            let members = members.expect("an object");
            assert_eq!((members["a"].is_array(), &members["b"]), (is_tree, &json!(1)), "{levels}");
            assert!(is_tree || members["a"] == nested(levels));
        }
        for text in ["", "[]", "x", "\"{\"", "7"] {
            assert_eq!(object(text), None, "{text}");
        }
    }

    #[test]
    fn a_member_with_too_many_values_stays_text_however_its_brackets_close() {
        let many = "1 } ".repeat(limits::JSON_VALUES_MAX);
        let text = format!(r#"{{"a":[1],"many":[{many}],"b":2}}"#);
        let members = object(&text).expect("an object");
        assert_eq!(members["a"], json!([1]));
        let many = members["many"].as_str().expect("text");
        assert!(many.starts_with("[1 } 1 }") && many.len() > limits::JSON_VALUES_MAX);
        // Where values are left, what follows is read.
        let closed = format!(r#"{{"many":[{}0],"b":2}}"#, "1,".repeat(limits::JSON_VALUES_MAX));
        let members = object(&closed).expect("an object");
        assert!(members["many"].is_string() && members["b"] == 2);
        // Brackets that never close are read once: this ends.
        let open = format!("{{{}", "\"a\":{]".repeat(300_000));
        assert!(object(&open).is_some());
    }

    #[test]
    fn json_reads_the_same_through_the_lenient_and_the_strict_reader() {
        for text in [
            r#"{"a":{"b":[1.5e3,-2,true,null,"\u00e9\"\\\/\n"],"":{}},"c":[[],[[]]],"a":2}"#,
            " { \"x\" : \"\\ud83d\\ude00\" }\n",
        ] {
            let read: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(object(text).map(Value::Object), Some(read), "{text}");
        }
    }

    #[test]
    fn a_text_that_was_cut_is_json_wherever_it_is_cut_and_loses_what_may_be_a_part_of_a_secret() {
        for filler in ["x", "\\\"", "\\u00e9", "é", "\\\\", "\\ud83d\\ude00", "日本\\n"] {
            for before in 0..12 {
                let long = filler.repeat(2_000);
                let text = format!("{{\"{}\":\"{long}\",\"id\":\"i\"}}", "k".repeat(before));
                let read = Input::read_within(text.as_bytes(), 1_000);
                let kept = std::str::from_utf8(&read.bytes).expect("text");
                let members = object(kept).expect("an object");
                assert_eq!(members["id"], "i", "{filler} {kept}");
                if !filler.contains("ud83d") {
                    assert!(serde_json::from_str::<Value>(kept).is_ok(), "{filler} {kept}");
                }
                let clean = without_loose_ends(Value::Object(members));
                assert_eq!(clean, json!({ "k".repeat(before): "…", "id": "i" }), "{filler}");
            }
        }
        let secret = format!("{}{CUT}", "a".repeat(LOOSE_BYTES + 7));
        let clean = without_loose_ends(json!([secret, { "\u{ffff}name": 1, "b": "whole" }]));
        assert_eq!(clean, json!(["aaaaaaa…", { "b": "whole" }]));
    }

    #[test]
    fn the_longest_texts_of_what_is_too_long_lose_their_ends_and_nothing_behind_them_is_lost() {
        let text = |byte: u8, count: usize| vec![byte; count];
        let long = [
            &b"{\"a\":\"\\\""[..],
            &text(b'x', 1_000),
            b"\",\"b\":\"",
            &text(b'\\', 102),
            b"\",\"c\":[1,\"y\"]}",
        ]
        .concat();
        let read = Input::read_within(&*long, 1_000);
        assert_eq!(read.cut_from, Some(long.len() as u64));
        assert!(read.bytes.len() <= 1_000, "{}", read.bytes.len());
        let members = object(std::str::from_utf8(&read.bytes).expect("text")).expect("an object");
        assert_eq!(members["c"], json!([1, "y"]));
        assert!(members["a"].as_str().expect("a text").starts_with("\"xxx"));
        // At the bound it is unchanged; beyond it, small parts are dropped at the end.
        let exact = text(b'x', 1_000);
        let read = Input::read_within(&*exact, 1_000);
        assert_eq!((read.bytes.len(), read.cut_from), (1_000, None));
        let many = [&b"{\"s\":1,\"a\":["[..], &b"\"z\",".repeat(1_000)].concat();
        let read = Input::read_within(&*many, 1_000);
        assert_eq!(read.cut_from, Some(many.len() as u64));
        assert!(read.bytes.len() < 1_000 + 2 * CUT.len(), "{}", read.bytes.len());
    }
}
