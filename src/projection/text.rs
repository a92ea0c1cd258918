//! Shortening text for a reader: whole graphemes only, with an ellipsis where something is left
//! out. It must not allocate more than it keeps.

use unicode_segmentation::GraphemeCursor;

/// What marks left-out text.
pub const ELLIPSIS: char = '…';

/// The text on one line of at most `chars_max` characters: white space and control characters
/// become single spaces; a longer text ends in an ellipsis after a whole grapheme.
#[must_use]
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = Line::new(chars_max, text.len());
    let mut space = false;
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() {
            space = !line.text.is_empty();
        } else if std::mem::take(&mut space) && !line.push(' ') || !line.push(character) {
            return shortened(&line.text, line.cut_at);
        }
    }
    line.text
}

/// The first `chars_max` characters of the text, its lines kept; a longer text ends in an ellipsis
/// after a whole grapheme.
#[must_use]
pub fn clip(text: &str, chars_max: usize) -> String {
    let place = |characters: usize| text.char_indices().nth(characters).map(|(at, _)| at);
    if text.len() <= chars_max || place(chars_max).is_none() {
        return text.to_owned();
    }
    shortened(text, place(chars_max.saturating_sub(1)).unwrap_or(0))
}

/// The text up to `end`, or to where the grapheme there begins, and an ellipsis.
#[must_use]
pub fn shortened(text: &str, end: usize) -> String {
    let kept = text.get(..whole_graphemes(text, end)).unwrap_or_default().trim_end();
    let mut made = String::with_capacity(kept.len() + ELLIPSIS.len_utf8());
    made.push_str(kept);
    made.push(ELLIPSIS);
    made
}

/// The last grapheme boundary up to `end`, which must be a character boundary. Only the text around
/// it is read.
#[must_use]
pub fn whole_graphemes(text: &str, end: usize) -> usize {
    let mut cursor = GraphemeCursor::new(end, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => end,
        _ => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
    }
}

struct Line {
    text: String,
    chars: usize,
    chars_max: usize,
    /// Bytes of `text` that leave room for the ellipsis.
    cut_at: usize,
}

impl Line {
    fn new(chars_max: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes.min(chars_max)), chars: 0, chars_max, cut_at: 0 }
    }

    fn push(&mut self, character: char) -> bool {
        if self.chars == self.chars_max {
            return false;
        }
        self.text.push(character);
        self.chars += 1;
        if self.chars < self.chars_max {
            self.cut_at = self.text.len();
        }
        true
    }
}
