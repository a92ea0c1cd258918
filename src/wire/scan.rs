//! A strict scanner of JSON text that returns offsets instead of values: where a value begins and
//! ends, and whether the text is JSON (RFC 8259), without recursion, allocation or a tree. It
//! must not know what an event is.

use std::borrow::Cow;

/// Deepest nesting the scanner can follow: one bit each.
const LEVELS_MAX: u32 = u128::BITS;

/// Why a text is not JSON this store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Byte of the text where it shows.
    pub at: usize,
    /// What is wrong there.
    pub problem: &'static str,
    /// It is JSON, but nested too deep.
    pub deep: bool,
}

/// Walks over one JSON text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The byte the scanner is at.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn text_between(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).expect("the scanner stops at ASCII bytes only")
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn flaw<T>(&self, problem: &'static str) -> Result<T, Flaw> {
        Err(Flaw { at: self.at, problem, deep: false })
    }

    /// Skips white space.
    pub(super) fn space(&mut self) {
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.rest().iter().take_while(blank).count();
    }

    /// Takes one byte, or says what was expected.
    pub(super) fn take(&mut self, byte: u8, problem: &'static str) -> Result<(), Flaw> {
        if self.peek() != Some(byte) {
            return self.flaw(problem);
        }
        self.at += 1;
        Ok(())
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), Flaw> {
        self.space();
        if self.peek().is_some() { self.flaw("more text after the value") } else { Ok(()) }
    }

    /// Goes to the next member of an object whose `{` was taken: its key, quotes included, with
    /// the scanner before the value; `None` when the `}` was taken.
    pub(super) fn next_key(&mut self, first: bool) -> Result<Option<&'a str>, Flaw> {
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(None);
        }
        if !first {
            self.take(b',', "a comma or } is missing")?;
            self.space();
        }
        self.key().map(Some)
    }

    /// Goes to the next element of an array whose `[` was taken; `false` when the `]` was taken.
    pub(super) fn next_element(&mut self, first: bool) -> Result<bool, Flaw> {
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(false);
        }
        if !first {
            self.take(b',', "a comma or ] is missing")?;
            self.space();
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<&'a str, Flaw> {
        let key = self.string()?;
        self.space();
        self.take(b':', "a colon is missing")?;
        self.space();
        Ok(key)
    }

    /// Takes one value of at most `levels` of nesting and answers its text.
    pub(super) fn value(&mut self, levels: u32) -> Result<&'a str, Flaw> {
        self.space();
        let start = self.at;
        let mut nest = Nest { objects: 0, depth: 0, levels: levels.min(LEVELS_MAX) };
        loop {
            let opened = match self.peek() {
                Some(b'{') => self.open(&mut nest, true)?,
                Some(b'[') => self.open(&mut nest, false)?,
                _ => self.scalar().map(|()| false)?,
            };
            if !opened && !self.after(&mut nest)? {
                return Ok(self.text_between(start, self.at));
            }
        }
    }

    /// Takes a bracket and, of an object, the first key; `false` when it closed at once.
    fn open(&mut self, nest: &mut Nest, object: bool) -> Result<bool, Flaw> {
        if nest.depth == nest.levels {
            return Err(Flaw { at: self.at, problem: "nested too deep", deep: true });
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(if object { b'}' } else { b']' }) {
            self.at += 1;
            return Ok(false);
        }
        nest.objects = nest.objects << 1 | u128::from(object);
        nest.depth += 1;
        if object {
            self.key()?;
        }
        Ok(true)
    }

    /// After a value: goes to the next one, closing what closes; `false` when all is closed.
    fn after(&mut self, nest: &mut Nest) -> Result<bool, Flaw> {
        while nest.depth > 0 {
            let object = nest.objects & 1 == 1;
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                    if object {
                        self.key()?;
                    }
                    return Ok(true);
                }
                Some(b'}') if object => {}
                Some(b']') if !object => {}
                _ if object => return self.flaw("a comma or } is missing"),
                _ => return self.flaw("a comma or ] is missing"),
            }
            self.at += 1;
            nest.objects >>= 1;
            nest.depth -= 1;
        }
        Ok(false)
    }

    fn scalar(&mut self) -> Result<(), Flaw> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = ["true", "false", "null"];
                let word = words.iter().find(|word| self.rest().starts_with(word.as_bytes()));
                match word {
                    Some(word) => self.at += word.len(),
                    None => return self.flaw("a value is missing"),
                }
                Ok(())
            }
        }
    }

    /// Takes a string and answers its text, quotes included.
    fn string(&mut self) -> Result<&'a str, Flaw> {
        let start = self.at;
        self.take(b'"', "a string is missing")?;
        loop {
            let Some(plain) = plain_bytes(self.rest()) else {
                self.at = self.text.len();
                return self.flaw("the string does not end");
            };
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(self.text_between(start, self.at));
                }
                Some(b'\\') => self.escape()?,
                _ => return self.flaw("a control character in a string"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Flaw> {
        let length = match self.rest() {
            [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [_, b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) => 6,
            _ => return self.flaw("an escape that JSON does not have"),
        };
        self.at += length;
        Ok(())
    }

    fn number(&mut self) -> Result<(), Flaw> {
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Flaw> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        if digits == 0 { self.flaw("a digit is missing") } else { Ok(()) }
    }
}

/// Bytes before the first special one of a string. Most bytes of most texts are plain:
/// they are looked at a block at a time, which a processor does with one instruction.
fn plain_bytes(rest: &[u8]) -> Option<usize> {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    let plain = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | special(byte));
    let blocks = 32 * rest.chunks_exact(32).take_while(plain).count();
    let found = rest.get(blocks..)?.iter().position(special)?;
    Some(blocks + found)
}

/// Which of the open brackets are objects: the innermost is the lowest bit.
struct Nest {
    objects: u128,
    depth: u32,
    levels: u32,
}

/// The bytes that a checked string stands for, without quotes. Halves of surrogate pairs alone
/// keep a place of their own (three bytes, as in WTF-8), so that different keys stay different.
pub(super) fn unescaped(string: &str) -> Cow<'_, [u8]> {
    let inner = string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(string);
    if !inner.contains('\\') {
        return Cow::Borrowed(inner.as_bytes());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else { break };
        rest = after;
        match escape {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => rest = unicode(rest, &mut out),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// Writes the character of the hex digits that follow `\u`; answers the rest.
fn unicode<'a>(digits: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (unit, mut rest) = hex4(digits);
    let mut code = unit;
    if (0xd800..0xdc00).contains(&unit)
        && let Some(low_digits) = rest.strip_prefix(b"\\u")
    {
        let (low, after) = hex4(low_digits);
        if (0xdc00..0xe000).contains(&low) {
            code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            rest = after;
        }
    }
    match char::from_u32(code) {
        Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        None => {
            out.extend([0xe0 | code >> 12, 0x80 | code >> 6 & 0x3f, 0x80 | code & 0x3f].map(
                |byte| u8::try_from(byte).expect("a surrogate's three bytes are below 256 each"),
            ))
        }
    }
    rest
}

fn hex4(digits: &[u8]) -> (u32, &[u8]) {
    let (four, rest) = digits.split_at(digits.len().min(4));
    let value =
        four.iter().fold(0, |sum, byte| sum * 16 + char::from(*byte).to_digit(16).unwrap_or(0));
    (value, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Result<&str, Flaw> {
        let mut scanner = Scanner::new(text);
        let value = scanner.value(128)?;
        scanner.end()?;
        Ok(value)
    }

    #[test]
    fn what_is_json_is_taken_whole() {
        for text in [
            "0",
            "-0",
            "1.5e+10",
            "12345678901234567890123",
            "\"\"",
            r#""\u00e9\n\/""#,
            "[]",
            "{}",
            " [ 1 , [ ] , { } ] ",
            r#"{"a":{"b":[true,false,null]},"":1}"#,
            r#""\ud800""#,
        ] {
            assert_eq!(scan(text), Ok(text.trim()), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "tru",
            "nul",
            "[1,]",
            "[,]",
            "{,}",
            "[1 2]",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{a:1}"#,
            "{\"a\":1",
            "[",
            "\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u12",
            "\"\\",
            "\"\n\"",
            "[1}",
            "{\"a\":1]",
            "1 2",
            "\u{feff}1",
            "'a'",
            "NaN",
            "Infinity",
            "]",
            "}",
        ] {
            assert!(scan(text).is_err(), "{text:?}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_means_something_in_a_string_is_found_wherever_it_stands() {
        for length in 0..100 {
            let mut text = vec![b'x'; length];
            assert_eq!(plain_bytes(&text), None);
            for at in 0..length {
                for byte in (0..=0x20).chain([b'"', b'\\', 0x7f, 0x80, 0xff]) {
                    let Some(place) = text.get_mut(at) else { continue };
                    *place = byte;
                    let means = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(plain_bytes(&text), means.then_some(at), "{byte} at {at}");
                    text.fill(b'x');
                }
            }
        }
    }

    #[test]
    fn depth_is_bounded_without_recursion() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(scan(&nested(128)).is_ok());
        assert!(scan(&nested(129)).is_err_and(|flaw| flaw.deep));
        assert!(scan(&"[".repeat(1 << 20)).is_err_and(|flaw| flaw.deep));
        assert!(scan(&("{\"a\":".repeat(128) + "1" + &"}".repeat(128))).is_ok());
    }

    #[test]
    fn escaped_keys_name_what_they_spell() {
        for (text, bytes) in [
            (r#""id""#, "id".as_bytes()),
            (r#""\u0069d""#, b"id"),
            (r#""\u00e9""#, "é".as_bytes()),
            (r#""\ud83d\ude00""#, "😀".as_bytes()),
            (r#""\ud83d""#, &[0xed, 0xa0, 0xbd]),
            (r#""\ud83d\u0041""#, &[0xed, 0xa0, 0xbd, b'A']),
            (r#""a\"\\\/\b\f\n\r\t""#, b"a\"\\/\x08\x0c\n\r\t"),
        ] {
            assert_eq!(unescaped(text).as_ref(), bytes, "{text}");
        }
    }
}
