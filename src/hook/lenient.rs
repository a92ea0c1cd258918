//! A lenient reader of what an agent's program wrote: an event that is cut off, too long, nested
//! too deep, has too many values or is not quite JSON is read as far as possible; a member that is
//! too much for a tree stays text. It must not interpret events, and never makes valid JSON worse:
//! callers try the strict parser first.

use std::io::{self, Read};

use serde_json::{Map, Value};

use crate::{event::limits, wire::json::paired};

const BOUNDS: Bounds = Bounds { bytes_max: 64 << 20, text_bytes_max: 8 << 20 };
/// Bytes read at most: bounds the input of a program that never stops.
const INPUT_BYTES_MAX: u64 = 4 << 30;
/// Most levels of nesting: the event adds its own, up to the limit of the store.
pub(super) const LEVELS_MAX: usize = 100;

/// The part of a text's bound in which its last white space is looked for when it is cut: longer
/// than a secret.
const WORD_PART: usize = 128;

/// How much is kept of an input.
#[derive(Clone, Copy)]
struct Bounds {
    /// Bytes of it at most, once its longest texts are cut.
    bytes_max: usize,
    /// Bytes of one text within an input that is too long: more than the store accepts.
    text_bytes_max: usize,
}

/// What an agent's program wrote.
#[derive(Debug, Default)]
pub struct Input {
    /// The input, or what is kept of it.
    pub bytes: Vec<u8>,
    /// How long it was, when something was left out.
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
        Self::within(source, BOUNDS)
    }

    fn within(mut source: impl Read, bounds: Bounds) -> Self {
        let mut bytes = Vec::new();
        // What was read before an error is kept.
        let _ = source.by_ref().take(bounds.bytes_max as u64 + 1).read_to_end(&mut bytes);
        if bytes.len() <= bounds.bytes_max {
            return bytes.into();
        }
        let mut shortened =
            Shortened { bounds, bytes: Vec::new(), begun: 0, text: None, escaped: false };
        shortened.take(&bytes);
        let begun = bytes.len() as u64;
        drop(bytes);
        let rest = source.take(INPUT_BYTES_MAX - begun);
        let more = io::copy(&mut io::BufReader::with_capacity(1 << 20, rest), &mut shortened);
        let is_cut = shortened.text.is_some_and(|bytes| bytes > bounds.text_bytes_max);
        if is_cut || shortened.bytes.len() == bounds.bytes_max {
            shortened.cut();
        }
        Self { bytes: shortened.bytes, cut_from: Some(begun + more.unwrap_or_default()) }
    }
}

/// A JSON text on its way, of which every text has so many bytes at most.
struct Shortened {
    bounds: Bounds,
    bytes: Vec<u8>,
    /// Where its last text begins.
    begun: usize,
    /// Bytes of the text that contains it.
    text: Option<usize>,
    escaped: bool,
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
            let ends = !self.escaped && *byte == b'"';
            self.escaped = !self.escaped && *byte == b'\\' && self.text.is_some();
            let is_cut = self.text.is_some_and(|bytes| bytes > self.bounds.text_bytes_max);
            let keeps = self.text.is_none_or(|bytes| bytes < self.bounds.text_bytes_max);
            if ends && is_cut && self.bytes.len() < self.bounds.bytes_max {
                self.cut();
            }
            self.text = match self.text {
                Some(_) if ends => None,
                Some(bytes) => Some(bytes + 1),
                None => ends.then_some(0),
            };
            if (keeps || ends) && self.bytes.len() < self.bounds.bytes_max {
                self.bytes.push(*byte);
            }
            if self.text == Some(0) {
                self.begun = self.bytes.len();
            }
        }
    }

    /// Drops the last word of a text that was cut.
    fn cut(&mut self) {
        let text = self.bytes.get(self.begun..).unwrap_or_default();
        let end = self.begun + whole_words(text, self.bounds.text_bytes_max);
        self.bytes.truncate(end);
    }
}

/// Reads an object as far as it goes; `None` for a text that is not an object.
pub(super) fn object(text: &str) -> Option<Map<String, Value>> {
    let rest = text.trim_start_matches('\u{feff}').trim_start();
    let mut reader = Reader { rest, left: limits::JSON_VALUES_MAX, is_over: false };
    match reader.rest.starts_with('{').then(|| reader.value(0)) {
        Some(Value::Object(members)) => Some(members),
        _ => None,
    }
}

/// How many levels a value has.
pub(super) fn levels(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// Reads one value at a time. Each step consumes something, or is at the end.
struct Reader<'a> {
    rest: &'a str,
    /// Values that may still be read.
    left: usize,
    /// Whether a value did not fit in `left`: what is being read is dropped.
    is_over: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// The next character after blanks.
    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn value(&mut self, level: usize) -> Value {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.is_over = true,
        }
        match self.next() {
            None => Value::Null,
            _ if self.is_over => Value::Null,
            Some('{' | '[') if level >= LEVELS_MAX => Value::from(shortened(self.nested())),
            Some('{') => Value::Object(self.members(level)),
            Some('[') => Value::Array(self.values(level)),
            Some('"') => Value::from(self.string()),
            Some(other) => {
                let ends = |c: char| c.is_whitespace() || "\"{}[],:".contains(c);
                let end = self.rest.find(ends).unwrap_or(self.rest.len());
                let word = self.take(end.max(other.len_utf8()));
                serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
            }
        }
    }

    /// A member of the outermost object; its source text when it has too many values for a tree.
    fn member(&mut self) -> Value {
        let (begun, left) = (self.rest, self.left);
        let value = self.value(1);
        if !std::mem::take(&mut self.is_over) {
            return value;
        }
        drop(value);
        // At least what was read, however the brackets close: no byte is read twice as a value.
        let read = begun.len() - self.rest.len();
        (self.rest, self.left) = (begun, left.saturating_sub(1));
        let nested = self.nested().len();
        self.rest = begun;
        Value::from(shortened(self.take(nested.max(read))))
    }

    fn members(&mut self, level: usize) -> Map<String, Value> {
        let mut members = Map::new();
        self.take(1);
        loop {
            if self.is_over || level == 0 && self.left == 0 {
                return members;
            }
            match self.next() {
                None => return members,
                Some('}') => {
                    self.take(1);
                    return members;
                }
                Some('"') => {
                    let name = self.string();
                    if self.next() == Some(':') {
                        self.take(1);
                        let value = if level == 0 { self.member() } else { self.value(level + 1) };
                        members.insert(name, value);
                    }
                }
                // A comma; or what no JSON has there.
                Some(other) => drop(self.take(other.len_utf8())),
            }
        }
    }

    fn values(&mut self, level: usize) -> Vec<Value> {
        let mut values = Vec::new();
        self.take(1);
        loop {
            match self.next() {
                _ if self.is_over => return values,
                None => return values,
                Some(']') => {
                    self.take(1);
                    return values;
                }
                Some(',') => drop(self.take(1)),
                Some(_) => values.push(self.value(level + 1)),
            }
        }
    }

    /// A string with its valid escapes decoded.
    fn string(&mut self) -> String {
        let (inside, whole) = self.quoted();
        let inside = paired(inside);
        // Left are unescaped control characters and invalid escapes.
        let read = serde_json::from_str(&format!("\"{inside}\"")).ok().filter(|_| whole);
        read.unwrap_or_else(|| serde_json::from_str(&spelt(&inside)).unwrap_or(inside.into_owned()))
    }

    /// The text between the quotes, and whether it was closed.
    fn quoted(&mut self) -> (&'a str, bool) {
        self.take(1);
        let mut escaped = false;
        let end = self.rest.bytes().position(|byte| {
            let ends = !escaped && byte == b'"';
            escaped = !escaped && byte == b'\\';
            ends
        });
        let inside = self.take(end.unwrap_or(self.rest.len()));
        self.take(1);
        (inside, end.is_some())
    }

    /// The source text of an object or list, up to its end.
    fn nested(&mut self) -> &'a str {
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
        self.take(end.map_or(self.rest.len(), |end| end + 1))
    }
}

/// A text of at most as many bytes as the store takes in an event.
fn shortened(text: &str) -> &str {
    let max = limits::EVENT_BYTES_MAX;
    let Some(head) = text.as_bytes().get(..max).filter(|_| text.len() > max) else { return text };
    text.get(..text.floor_char_boundary(whole_words(head, max))).unwrap_or(text)
}

/// The end of the last whole word of a text that was cut to `max` bytes before the rules of secrets
/// see it: they know a secret by all of it, so nothing of one at the cut may stay.
fn whole_words(text: &[u8], max: usize) -> usize {
    let from = text.len().saturating_sub(max / WORD_PART);
    let last = text.get(from..).unwrap_or_default();
    from + last.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0)
}

/// A JSON string of what is between its quotes, however it is written: known escapes stay, any
/// other backslash is escaped.
fn spelt(inside: &str) -> String {
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

    #[test]
    fn text_that_is_not_quite_json_is_read_as_far_as_it_goes() {
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
            assert_eq!(object(text).map(Value::Object), Some(expected), "{text}");
        }
        let members = object(&deep).expect("an object");
        let value = Value::Object(members);
        assert!(levels(&value) == LEVELS_MAX && value.to_string().contains("[1]"));
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
    fn the_longest_texts_of_what_is_too_long_lose_their_ends_and_nothing_behind_them_is_lost() {
        let bounds = Bounds { bytes_max: 1_000, text_bytes_max: 100 };
        let text = |byte: u8, count: usize| vec![byte; count];
        let long = [
            &b"{\"a\":\"\\\""[..],
            &text(b'x', 1_000),
            b"\",\"b\":\"",
            &text(b'\\', 102),
            b"\",\"c\":[1,\"y\"]}",
        ]
        .concat();
        let read = Input::within(&*long, bounds);
        assert_eq!(read.cut_from, Some(long.len() as u64));
        assert!(read.bytes.len() < 250, "{}", read.bytes.len());
        let members = object(std::str::from_utf8(&read.bytes).expect("text")).expect("an object");
        assert_eq!(members["c"], json!([1, "y"]));
        assert!(members["a"].as_str().expect("a text").starts_with("\"xxx"));
        // At the bound it is unchanged; beyond it, small parts are dropped at the end.
        let exact = text(b'x', 1_000);
        let read = Input::within(&*exact, bounds);
        assert_eq!((read.bytes.len(), read.cut_from), (1_000, None));
        let many = [&b"{\"s\":1,\"a\":["[..], &b"\"z\",".repeat(1_000)].concat();
        let read = Input::within(&*many, bounds);
        assert_eq!((read.bytes.len(), read.cut_from), (1_000, Some(many.len() as u64)));
    }

    #[test]
    fn a_text_that_is_cut_loses_the_word_at_the_cut() {
        let bounds = Bounds { bytes_max: 20_000, text_bytes_max: 12_800 };
        let word = "abcdefghijklmnopqrstuvwxyz";
        for at in (12_800 - 60)..12_820 {
            let text = format!("{{\"a\":\"{} {word} {}\"}}", "x".repeat(at), "y".repeat(20_000));
            let read = Input::within(text.as_bytes(), bounds);
            let read = String::from_utf8(read.bytes).expect("text");
            assert!(read.contains(word) || !read.contains("ab"), "{at}");
            // And where the whole input ends.
            let text = format!("{{{}\"a\":\"{} {word}", "\"b\":1,".repeat(1_000), "x".repeat(at));
            let read = Input::within((text + &"y".repeat(20_000)).as_bytes(), bounds);
            assert!(!read.bytes.windows(2).any(|two| two == b"ab"), "{at}");
        }
    }
}
