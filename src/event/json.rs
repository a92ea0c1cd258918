//! Counts the values and the nesting of a JSON text in one pass without allocating, before a parser
//! builds a tree of untrusted text, which takes up to a hundred times the memory of the
//! text. It must not validate the JSON.

use std::borrow::Cow;

use super::limits::{JSON_DEPTH_MAX, JSON_VALUES_MAX};

/// Size of the tree of a JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// Number of values: scalars, lists and objects, without the names of members.
    pub values: usize,
    /// Maximum nesting of lists and objects.
    pub depth: usize,
}

impl JsonSize {
    /// Returns true if a tree of this size is within the limits.
    #[must_use]
    pub fn is_small(self) -> bool {
        self.values <= JSON_VALUES_MAX && self.depth <= JSON_DEPTH_MAX
    }
}

/// Returns the text if it is small enough for a tree of all its values.
#[must_use]
pub fn check(text: &str) -> Option<&str> {
    check_levels(text, usize::MAX)
}

/// Returns the text if it is small enough for a tree of its outer `levels`, deeper values raw:
/// level 1 has the elements of a list or the members of an object.
#[must_use]
pub fn check_levels(text: &str, levels: usize) -> Option<&str> {
    // Each value takes at least a byte, and parsers of trees bound the depth themselves.
    (text.len() <= JSON_VALUES_MAX || measure(text.as_bytes(), levels).is_small()).then_some(text)
}

/// Counts the values of the outer `levels`; stops where a limit is exceeded. Text that is not
/// JSON is counted as well: no lenient parser finds more values in it.
#[must_use]
pub fn measure(text: &[u8], levels: usize) -> JsonSize {
    let (mut weight, mut depth) = (JsonSize::default(), 0_usize);
    let (mut string, mut escaped, mut word, mut named) = (false, false, false, false);
    for byte in text {
        if string {
            (string, escaped) = match byte {
                _ if escaped => (true, false),
                b'\\' => (true, true),
                other => (*other != b'"', false),
            };
            continue;
        }
        let counted = depth <= levels;
        let begins = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                word = false;
                continue;
            }
            b'"' | b'[' | b'{' => true,
            b':' if named && counted => {
                // The string before it was a member's name.
                weight.values -= 1;
                false
            }
            b',' | b':' | b']' | b'}' => false,
            _ => !word,
        };
        word = !matches!(byte, b'"' | b'[' | b']' | b'{' | b'}' | b',' | b':');
        named = *byte == b'"';
        string = named;
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        weight.depth = weight.depth.max(depth);
        weight.values += usize::from(begins && counted);
        // One value more than the limit may be a member's name.
        if weight.values > JSON_VALUES_MAX + 1 || depth > JSON_DEPTH_MAX {
            break;
        }
    }
    weight
}

/// Returns the bytes of the string at the start of a text, its quotes included; `None` if the text
/// does not start with a string or the string does not end.
#[must_use]
pub fn string_len(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.strip_prefix('"')?.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(end + 2)
}

/// Replaces each lone half of a surrogate pair by U+FFFD, in a JSON text or the inside of a string.
#[must_use]
pub fn replace_lone_surrogates(inside: &str) -> Cow<'_, str> {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(next) = inside.get(at..).and_then(|rest| rest.find('\\')) {
        at += next;
        let rest = inside.get(at..).unwrap_or_default();
        let low = rest.get(6..).and_then(unit);
        at += match unit(rest) {
            Some(0xD800..=0xDBFF) if matches!(low, Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str(inside.get(done..at).unwrap_or_default());
                out.push('\u{fffd}');
                done = at + 6;
                6
            }
            // The backslash and the character it escapes.
            _ => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
        };
    }
    if done == 0 {
        return Cow::Borrowed(inside);
    }
    out.push_str(inside.get(done..).unwrap_or_default());
    Cow::Owned(out)
}
