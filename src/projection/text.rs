//! Shortening text for a reader: whole graphemes only, with an ellipsis where something is left
//! out. It must not allocate more than it keeps.

use unicode_segmentation::UnicodeSegmentation as _;

/// What marks left-out text.
pub const ELLIPSIS: char = '…';

/// The text on one line of at most `chars_max` characters: white space and control characters
/// become single spaces; a longer text ends in an ellipsis after a whole grapheme.
#[must_use]
pub fn one_line(text: &str, chars_max: usize) -> String {
    let words = text.graphemes(true).map(|grapheme| {
        if grapheme.chars().all(|c| c.is_whitespace() || c.is_control()) { " " } else { grapheme }
    });
    let mut line = Clipped::new(chars_max);
    let mut space = false;
    for word in words {
        if word == " " {
            space = !line.is_empty();
            continue;
        }
        if space && !line.push(" ") {
            return line.cut();
        }
        space = false;
        if !line.push(word) {
            return line.cut();
        }
    }
    line.whole()
}

/// The first `chars_max` characters of the text, its lines kept; a longer text ends in an ellipsis
/// after a whole grapheme.
#[must_use]
pub fn clip(text: &str, chars_max: usize) -> String {
    let mut kept = Clipped::new(chars_max);
    for grapheme in text.graphemes(true) {
        if !kept.push(grapheme) {
            return kept.cut();
        }
    }
    kept.whole()
}

struct Clipped {
    text: String,
    chars: usize,
    chars_max: usize,
    /// Bytes of `text` that leave room for the ellipsis.
    cut_at: usize,
}

impl Clipped {
    fn new(chars_max: usize) -> Self {
        Self { text: String::new(), chars: 0, chars_max, cut_at: 0 }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn push(&mut self, grapheme: &str) -> bool {
        let chars = self.chars + grapheme.chars().count();
        if chars > self.chars_max {
            return false;
        }
        self.text.push_str(grapheme);
        self.chars = chars;
        if chars < self.chars_max {
            self.cut_at = self.text.len();
        }
        true
    }

    fn cut(mut self) -> String {
        self.text.truncate(self.cut_at);
        self.text.truncate(self.text.trim_end().len());
        self.text.push(ELLIPSIS);
        self.text
    }

    fn whole(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_a_whole_grapheme_and_says_so() {
        let family = "👨‍👩‍👧";
        for (text, max, expected) in [
            ("", 5, ""),
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("  two\n\n words\t", 20, "two words"),
            ("a\u{0}b", 20, "a b"),
            ("ééééé", 5, "ééééé"),
            ("e\u{301}e\u{301}e\u{301}", 5, "e\u{301}e\u{301}…"),
            (&format!("ab{family}cd"), 6, "ab…"),
            (&format!("ab{family}cd"), 9, &format!("ab{family}cd")),
            ("four five six", 10, "four five…"),
            (&"\u{301}".repeat(500), 120, "…"),
        ] {
            let line = one_line(text, max);
            assert_eq!(line, expected, "{text:?}");
            assert!(line.chars().count() <= max.max(1), "{text:?}");
        }
    }

    #[test]
    fn a_clipped_text_keeps_its_lines() {
        assert_eq!(clip("a\nb\nc", 4), "a\nb…");
        assert_eq!(clip("a\nb", 4), "a\nb");
    }
}
