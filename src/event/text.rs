//! Shortening text for a reader: whole graphemes only, with an ellipsis where text is omitted. It
//! must not allocate more than the length of its result.

use unicode_segmentation::GraphemeCursor;

/// Estimated bytes of a token in any language.
pub const TOKEN_BYTES: usize = 4;
/// Mark of omitted text.
pub const ELLIPSIS: char = '…';

/// Returns the text on one line of at most `chars_max` characters: white space and control
/// characters become single spaces; a longer text ends in an ellipsis after a whole grapheme.
#[must_use]
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = LineBuilder::new(chars_max, text.len());
    let (mut rest, mut space) = (text, false);
    while let Some(character) = rest.chars().next() {
        let mut taken = character.len_utf8();
        if character.is_whitespace() || character.is_control() {
            space = !line.text.is_empty();
        } else if std::mem::take(&mut space) && !line.push(' ') {
            return shortened(&line.text, line.cut_at);
        } else {
            let run = line.push_run(rest);
            if run == 0 && !line.push(character) {
                return shortened(&line.text, line.cut_at);
            }
            taken = taken.max(run);
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    line.text
}

/// Returns the start of the text: as many whole characters as fit in `bytes_max` bytes.
#[must_use]
pub fn head(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

/// Returns the first `chars_max` characters of the text with its line breaks; a longer text ends in
/// an ellipsis after a whole grapheme.
#[must_use]
pub fn clip(text: &str, chars_max: usize) -> String {
    let byte_offset = |characters: usize| text.char_indices().nth(characters).map(|(at, _)| at);
    if text.len() <= chars_max || byte_offset(chars_max).is_none() {
        return text.to_owned();
    }
    shortened(text, byte_offset(chars_max.saturating_sub(1)).unwrap_or(0))
}

/// Returns the text up to `end`, or to the start of the grapheme at `end`, and an ellipsis.
#[must_use]
pub fn shortened(text: &str, end: usize) -> String {
    let kept = text.get(..whole_graphemes(text, end)).unwrap_or_default().trim_end();
    let mut made = String::with_capacity(kept.len() + ELLIPSIS.len_utf8());
    made.push_str(kept);
    made.push(ELLIPSIS);
    made
}

/// Returns the last grapheme boundary up to `end`, which must be a character boundary. Only the
/// text around it is read.
#[must_use]
pub fn whole_graphemes(text: &str, end: usize) -> usize {
    let mut cursor = GraphemeCursor::new(end, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => end,
        _ => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
    }
}

struct LineBuilder {
    text: String,
    chars: usize,
    chars_max: usize,
    /// Bytes of `text` that leave space for the ellipsis.
    cut_at: usize,
}

impl LineBuilder {
    fn new(chars_max: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes.min(chars_max)), chars: 0, chars_max, cut_at: 0 }
    }

    /// Appends the printable ASCII characters at the start of a text, as many as leave space for
    /// one more. Returns their number.
    fn push_run(&mut self, text: &str) -> usize {
        let space = self.chars_max.saturating_sub(self.chars + 1);
        let run = text.bytes().take(space).take_while(u8::is_ascii_graphic).count();
        if run > 0 {
            self.text.push_str(text.get(..run).unwrap_or_default());
            self.chars += run;
            self.cut_at = self.text.len();
        }
        run
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_equals_a_line_built_by_character() {
        let by_character = |text: &str, chars_max: usize| {
            let space = |c: char| c.is_whitespace() || c.is_control();
            let words: Vec<&str> = text.split(space).filter(|word| !word.is_empty()).collect();
            let mut line = LineBuilder::new(chars_max, 0);
            let whole = words.join(" ").chars().all(|character| line.push(character));
            if whole { line.text } else { shortened(&line.text, line.cut_at) }
        };
        let words =
            ["a", "word", "é", "aé", "e\u{301}b", "👨‍👩‍👧", "x\u{7f}y", "~!", "longer-than-most"];
        for (at, word) in words.iter().enumerate() {
            for gap in [" ", "  ", "\n", "\u{a0}\t", "\u{0}"] {
                let text = [&words[at..], &[word, ""], &words[..at]].concat().join(gap);
                for chars_max in 0..60 {
                    let line = one_line(&text, chars_max);
                    assert_eq!(line, by_character(&text, chars_max), "{text:?} {chars_max}");
                }
            }
        }
    }
}
