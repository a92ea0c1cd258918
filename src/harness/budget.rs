//! The budget of a view, in bytes of JSON or in tokens, and the bytes that a text costs. It must
//! not count tokens, which needs a model's tokenizer; here they are estimated.

pub(super) use crate::event::text::TOKEN_BYTES;
use crate::event::text::{ELLIPSIS, shortened, whole_graphemes};

/// Least bytes per token in prose, by which a token budget becomes bytes.
pub const TOKEN_BYTES_LEAST: usize = 3;
/// Most bytes per token in a response with its members and escapes, for memory reservations.
pub const TOKEN_BYTES_MOST: usize = 8;

/// Default limit of a response's structured content, in bytes.
pub const ANSWER_BYTES: usize = 10_000;
/// Most bytes of structured content in the response to a recorded step.
pub const STEP_ANSWER_BYTES: usize = 5_000;
/// Smallest budget for which a view can be built, in bytes.
pub const ANSWER_BYTES_MIN: usize = 3_000;

/// Returns the bytes of the text as a JSON string, quotes included.
#[must_use]
pub fn json_bytes(text: &str) -> usize {
    2 + escaped_bytes(text)
}

fn escaped_bytes(text: &str) -> usize {
    // Few texts have special bytes. A loop without an early exit compares many bytes at once.
    let special = |byte: u8| u8::from(byte < 0x20) | u8::from(byte == b'"' || byte == b'\\');
    if text.bytes().fold(0, |any, byte| any | special(byte)) == 0 {
        return text.len();
    }
    text.bytes().map(escaped_len).sum()
}

/// Returns the bytes that one byte of a text takes in a JSON string.
fn escaped_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// A text, possibly shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortenedText {
    /// Text to show.
    pub text: String,
    /// True if something was left out.
    pub truncated: bool,
}

/// Shortens a text to `bytes_max` bytes of JSON; a longer one ends in an ellipsis after a complete
/// grapheme.
#[must_use]
pub fn fit(text: &str, bytes_max: usize) -> ShortenedText {
    let room = bytes_max.max(2);
    if text.len() + 2 <= room && json_bytes(text) <= room {
        return ShortenedText { text: text.to_owned(), truncated: false };
    }
    let end = find_fitting_end(text, bytes_max.saturating_sub(2 + ELLIPSIS.len_utf8()));
    ShortenedText { text: shortened(text, end), truncated: true }
}

/// Returns the end of a text's part within `bytes_max` escaped bytes, at a grapheme boundary.
#[must_use]
pub(super) fn find_fitting_end(text: &str, bytes_max: usize) -> usize {
    whole_graphemes(text, find_fitting_char_end(text, bytes_max))
}

/// Returns the end of a text's part within `bytes_max` escaped bytes, at a character boundary.
fn find_fitting_char_end(text: &str, bytes_max: usize) -> usize {
    let mut spent = 0;
    let over = text.bytes().position(|byte| {
        spent += escaped_len(byte);
        spent > bytes_max
    });
    let Some(over) = over else { return text.len() };
    text.floor_char_boundary(over)
}

/// Returns [`find_fitting_end`], but never 0 for a non-empty text: a grapheme larger than the
/// budget is cut between its characters, so that paging always advances.
#[must_use]
pub(super) fn find_nonzero_end(text: &str, bytes_max: usize) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    match find_fitting_end(text, bytes_max) {
        0 => find_fitting_char_end(text, bytes_max).max(first),
        end => end,
    }
}

/// An amount of bytes or tokens that may be spent.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: usize,
}

impl Budget {
    /// Creates a budget of an amount.
    #[must_use]
    pub fn new(amount: usize) -> Self {
        Self { left: amount }
    }

    /// Returns the remaining amount.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Spends a cost; returns false and spends nothing if too little remains.
    pub fn spend(&mut self, cost: usize) -> bool {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Spends a cost, or all that remains.
    pub fn spend_up_to(&mut self, cost: usize) {
        self.left = self.left.saturating_sub(cost);
    }

    /// Adds back the cost of something that is not shown after all.
    pub fn refund(&mut self, cost: usize) {
        self.left += cost;
    }

    /// Returns a budget of a percentage of the rest; this one is not reduced until that is spent.
    #[must_use]
    pub fn share(self, percent: usize) -> Self {
        Self::new(self.left * percent / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paging_advances_over_a_grapheme_larger_than_the_budget() {
        let text = format!("e{}", "\u{301}".repeat(100));
        assert_eq!(find_fitting_end(&text, 50), 0);
        let end = find_nonzero_end(&text, 50);
        assert!(end > 0 && end <= 51, "{end}");
        assert_eq!(find_nonzero_end("\u{1}", 1), 1);
    }
}
