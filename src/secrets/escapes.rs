//! A text with its escapes resolved: `\n`, `\u002d`, `\"`, `%3D`, `&quot;`, also where they were
//! escaped repeatedly, with a mapping of byte offsets to the original. Rules are run on both. It
//! must not classify a text.

use std::ops::Range;

/// Maximum escapes of one text that are resolved; the rest of the text is unchanged.
const ESCAPES_MAX: usize = 1 << 22;
/// Maximum bytes of a name or number between `&` and `;`.
const ENTITY_BYTES_MAX: usize = 8;

/// Text with its escapes resolved, and the mapping to the original.
pub(super) struct UnescapedText {
    pub(super) text: String,
    /// Byte offset of the end of each escape: in the resolved text, and in the original.
    ends: Vec<(u32, u32)>,
}

impl UnescapedText {
    /// Resolves the escapes of a text; `None` when it has none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let marks = |byte: &u8| matches!(byte, b'\\' | b'%' | b'&');
        let mut resolved = Self { text: String::new(), ends: Vec::new() };
        let (mut at, mut done) = (0, 0);
        while let Some(mark) = bytes.get(at..).and_then(|rest| rest.iter().position(marks)) {
            let from = at + mark;
            let Some((character, length)) = decode_escape(bytes.get(from..).unwrap_or_default())
            else {
                // Skips the whole run of backslashes, so that each is examined once.
                let rest = bytes.get(from..).unwrap_or_default();
                at = from + rest.iter().take_while(|byte| **byte == b'\\').count().max(1);
                continue;
            };
            if resolved.ends.len() == ESCAPES_MAX {
                break;
            }
            resolved.text.push_str(text.get(done..from).unwrap_or_default());
            resolved.text.push(character);
            (at, done) = (from + length, from + length);
            let end = (u32::try_from(resolved.text.len()), u32::try_from(done));
            let (Ok(here), Ok(there)) = end else { return None };
            resolved.ends.push((here, there));
        }
        resolved.text.push_str(text.get(done..).unwrap_or_default());
        (!resolved.ends.is_empty()).then_some(resolved)
    }

    /// Maps a byte offset in this text to one in the original.
    pub(super) fn source_offset(&self, offset: usize) -> usize {
        let before = self.ends.partition_point(|(here, _)| *here as usize <= offset);
        let last = before.checked_sub(1).and_then(|last| self.ends.get(last));
        last.map_or(offset, |(here, there)| *there as usize + (offset - *here as usize))
    }

    /// Returns the parts of this text within `bytes` of a resolved escape, in order.
    pub(super) fn ranges_near_escapes(&self, bytes: usize) -> impl Iterator<Item = Range<usize>> {
        let around = move |here: u32| {
            let here = here as usize;
            let from = self.text.floor_char_boundary(here.saturating_sub(bytes));
            from..self.text.ceil_char_boundary(here + bytes)
        };
        let mut rest = self.ends.iter().map(move |(here, _)| around(*here)).peekable();
        std::iter::from_fn(move || {
            let mut part = rest.next()?;
            while let Some(next) = rest.next_if(|next| next.start <= part.end) {
                part.end = next.end;
            }
            Some(part)
        })
    }
}

/// Decodes the escape at the start; returns its character and its length in bytes. Only ASCII
/// characters are decoded: no rule depends on others.
fn decode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let (code, length) = match bytes.first()? {
        b'\\' => decode_backslashes(bytes)?,
        b'%' => {
            let mut before = 1;
            // `%253D`: escaped more than once.
            while bytes.get(before..).is_some_and(|rest| rest.starts_with(b"25")) {
                before += 2;
            }
            let is_percent =
                before > 1 && decode_hex(bytes, before, 2).is_none_or(|code| code > 0x7f);
            if is_percent {
                (u32::from(b'%'), before)
            } else {
                (decode_hex(bytes, before, 2)?, before + 2)
            }
        }
        _ => decode_entity(bytes)?,
    };
    let character = char::from_u32(code).filter(|c| matches!(c, ' '..='~' | '\n' | '\r' | '\t'))?;
    Some((character, length))
}

/// Decodes any number of backslashes and the character after them: `\\n` is a `\n` escaped again.
fn decode_backslashes(bytes: &[u8]) -> Option<(u32, usize)> {
    let run = bytes.iter().take_while(|byte| **byte == b'\\').count();
    let is_braced = bytes.get(run + 1) == Some(&b'{');
    Some(match bytes.get(run)? {
        b'n' => (u32::from(b'\n'), run + 1),
        b'r' => (u32::from(b'\r'), run + 1),
        b't' => (u32::from(b'\t'), run + 1),
        b'x' => (decode_hex(bytes, run + 1, 2)?, run + 3),
        b'u' if is_braced => {
            let digits = bytes.get(run + 2..)?.iter().take(6).position(|byte| *byte == b'}')?;
            (decode_hex(bytes, run + 2, digits)?, run + digits + 3)
        }
        b'u' => (decode_hex(bytes, run + 1, 4)?, run + 5),
        b'U' => (decode_hex(bytes, run + 1, 8)?, run + 9),
        other if other.is_ascii_punctuation() => (u32::from(*other), run + 1),
        _ => return None,
    })
}

/// Decodes `&quot;`, `&#45;`, `&#x2d;`, and those whose `&` was escaped again.
fn decode_entity(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut from = 1;
    while bytes.get(from..).is_some_and(|rest| rest.starts_with(b"amp;")) {
        from += b"amp;".len();
    }
    let rest = bytes.get(from..)?;
    let named = rest.iter().take(ENTITY_BYTES_MAX + 1).position(|byte| *byte == b';');
    let code = named.and_then(|end| match rest.get(..end)? {
        b"lt" => Some(u32::from(b'<')),
        b"gt" => Some(u32::from(b'>')),
        b"quot" => Some(u32::from(b'"')),
        b"apos" => Some(u32::from(b'\'')),
        [b'#', b'x' | b'X', digits @ ..] => decode_hex(digits, 0, digits.len()),
        [b'#', digits @ ..] => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    });
    match (code, named) {
        (Some(code), Some(end)) => Some((code, from + end + 1)),
        _ => (from > 1).then_some((u32::from(b'&'), from)),
    }
}

fn decode_hex(bytes: &[u8], from: usize, count: usize) -> Option<u32> {
    let digits = bytes.get(from..from + count).filter(|digits| !digits.is_empty())?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    is_hex.then(|| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved_at_every_nesting_level() {
        for (text, expected) in [
            (r"a\nb\\tc\\\\rd", "a\nb\tc\rd"),
            (r#"{\"k\":\\\"v\\\"}"#, r#"{"k":"v"}"#),
            (r"g\u002da\u{2d}b\x2dc\U0000002dd\\u002d", "g-a-b-c-d-"),
            (r"ghp\_a\$6\$", "ghp_a$6$"),
            ("a%3Db%253Dc%25253D%22", "a=b=c=\""),
            ("&quot;a&#45;b&#x2D;c&amp;lt;d&amp;amp;gt;&apos;", "\"a-b-c<d>'"),
            ("a=1&amp;b", "a=1&b"),
            ("100%25 é", "100% é"),
        ] {
            let resolved = UnescapedText::parse(text).map(|one| one.text);
            assert_eq!(resolved.as_deref(), Some(expected), "{text}");
        }
        for text in
            ["", "plain", "50% of a & b", r"C:\Dir\é", r"\u00e9 \ud83d", "%c3%a9", r"\", "&x;"]
        {
            assert_eq!(UnescapedText::parse(text).map(|one| one.text), None, "{text}");
        }
    }

    #[test]
    fn byte_offsets_of_resolved_text_map_to_the_original() {
        let text = r"é\n\u002dab%3Dc";
        let resolved = UnescapedText::parse(text).expect("it has escapes");
        assert_eq!(resolved.text, "é\n-ab=c");
        let places: Vec<usize> =
            [0, 2, 3, 4, 5, 6, 7, 8].map(|at| resolved.source_offset(at)).into();
        assert_eq!(places, [0, 2, 4, 10, 11, 12, 15, 16]);
        assert_eq!(resolved.ranges_near_escapes(1).collect::<Vec<_>>(), [2..5, 6..8]);
        assert!(resolved.ranges_near_escapes(9).eq(std::iter::once(0..8)));
    }
}
