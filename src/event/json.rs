//! How many values a JSON text has and how deep they are nested, counted in one pass without
//! allocating: what has to be known before a parser builds a tree of foreign text, which takes up
//! to a hundred times the memory of the text. It must not judge whether the text is JSON.

use super::limits::{JSON_DEPTH_MAX, JSON_VALUES_MAX};

/// What a tree of a text would have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Values: each scalar, list and object; the names of members are none.
    pub values: usize,
    /// Lists and objects around the innermost value.
    pub depth: usize,
}

impl Weight {
    /// Whether a tree may be built.
    #[must_use]
    pub fn fits(self) -> bool {
        self.values <= JSON_VALUES_MAX && self.depth <= JSON_DEPTH_MAX
    }
}

/// The text, when a tree of all its values may be built.
#[must_use]
pub fn tree(text: &str) -> Option<&str> {
    list(text, usize::MAX)
}

/// The text, when a tree of its outer `levels` may be built, with all that is deeper as raw text:
/// level 1 has the elements of a list or the members of an object.
#[must_use]
pub fn list(text: &str, levels: usize) -> Option<&str> {
    // Each value takes a byte at least, and parsers of trees bound the depth themselves.
    (text.len() <= JSON_VALUES_MAX || weigh(text.as_bytes(), levels).fits()).then_some(text)
}

/// Counts the values of the outer `levels`. It stops where a limit is exceeded. Text that is not
/// JSON is counted, too: no lenient reader finds more values in it.
#[must_use]
pub fn weigh(text: &[u8], levels: usize) -> Weight {
    let (mut weight, mut depth) = (Weight::default(), 0_usize);
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
                // The string before it was a name.
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
        // One more than the limit may be a name.
        if weight.values > JSON_VALUES_MAX + 1 || depth > JSON_DEPTH_MAX {
            break;
        }
    }
    weight
}
