//! The budget that every view spends, in bytes of JSON or in tokens, and what a text costs in
//! bytes. It must not count tokens: that needs a model's tokenizer; here they are estimated.

pub(super) use crate::event::text::TOKEN_BYTES;
use crate::event::text::{ELLIPSIS, shortened, whole_graphemes};

/// Bytes of a token in a text of words, at least: tokens asked of a view are so many bytes.
pub const TOKEN_BYTES_LEAST: usize = 3;
/// Bytes of a token in an answer, mostly, with its members and escapes: for memory to reserve.
pub const TOKEN_BYTES_MOST: usize = 8;

/// Default limit of an answer's structured content, in bytes.
pub const ANSWER_BYTES: usize = 10_000;
/// Bytes of structured content of the answer to a recorded step, at most.
pub const STEP_ANSWER_BYTES: usize = 5_000;
/// The smallest budget that a view can be built for.
pub const ANSWER_BYTES_MIN: usize = 3_000;

/// Bytes of the text as a JSON string, quotes included.
#[must_use]
pub fn json_bytes(text: &str) -> usize {
    2 + escaped(text)
}

fn escaped(text: &str) -> usize {
    // Few texts have any. Without a way out of the loop many bytes are compared at once.
    let special = |byte: u8| u8::from(byte < 0x20) | u8::from(byte == b'"' || byte == b'\\');
    if text.bytes().fold(0, |any, byte| any | special(byte)) == 0 {
        return text.len();
    }
    text.bytes().map(price).sum()
}

/// Bytes of a text's byte in a JSON string.
fn price(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// A text, and whether something of it was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The shown text.
    pub text: String,
    /// True if there is more.
    pub truncated: bool,
}

/// The text within `bytes_max` bytes of JSON; a longer one ends in an ellipsis after a whole
/// grapheme.
#[must_use]
pub fn fit(text: &str, bytes_max: usize) -> Cut {
    let room = bytes_max.max(2);
    if text.len() + 2 <= room && json_bytes(text) <= room {
        return Cut { text: text.to_owned(), truncated: false };
    }
    let end = end_of(text, bytes_max.saturating_sub(2 + ELLIPSIS.len_utf8()));
    Cut { text: shortened(text, end), truncated: true }
}

/// End of the text that costs at most `bytes_max` escaped bytes: after a whole grapheme.
#[must_use]
pub(super) fn end_of(text: &str, bytes_max: usize) -> usize {
    whole_graphemes(text, end_of_characters(text, bytes_max))
}

/// The same after a whole character.
fn end_of_characters(text: &str, bytes_max: usize) -> usize {
    let mut spent = 0;
    let over = text.bytes().position(|byte| {
        spent += price(byte);
        spent > bytes_max
    });
    let Some(over) = over else { return text.len() };
    text.floor_char_boundary(over)
}

/// Like [`end_of`], but never 0 for a text: a grapheme larger than the budget is cut between its
/// characters, so that reading on always gets on.
#[must_use]
pub(super) fn end_of_some(text: &str, bytes_max: usize) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    match end_of(text, bytes_max) {
        0 => end_of_characters(text, bytes_max).max(first),
        end => end,
    }
}

/// Amount that may still be spent: bytes or tokens.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: usize,
}

impl Budget {
    /// A budget of so much.
    #[must_use]
    pub fn new(amount: usize) -> Self {
        Self { left: amount }
    }

    /// Amount left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Spends a cost; returns false and spends nothing when not enough is left.
    pub fn spend(&mut self, cost: usize) -> bool {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Spends a cost, or all that is left.
    pub fn spend_up_to(&mut self, cost: usize) {
        self.left = self.left.saturating_sub(cost);
    }

    /// Takes back what is not shown after all.
    pub fn give_back(&mut self, cost: usize) {
        self.left += cost;
    }

    /// A budget of a share of what is left, in percent; this one keeps it until it is spent.
    #[must_use]
    pub fn share(self, percent: usize) -> Self {
        Self::new(self.left * percent / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grapheme_larger_than_the_budget_still_gets_on() {
        let text = format!("e{}", "\u{301}".repeat(100));
        assert_eq!(end_of(&text, 50), 0);
        let end = end_of_some(&text, 50);
        assert!(end > 0 && end <= 51, "{end}");
        assert_eq!(end_of_some("\u{1}", 1), 1);
    }
}
