//! Lines of text within a width: headings, paragraphs and items with hanging indents. It must not
//! know what the text is about.

use std::io;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::cli::{
    columns::text_columns,
    screen::{Screen, Tone, escaped},
    times::TimeFormat,
};

/// Minimum columns of a text, regardless of its indent.
const TEXT_COLUMNS_MIN: usize = 8;
/// Spaces that replace a tab.
const TAB: &str = "    ";

/// Buffer of printed lines.
pub(in crate::cli) struct LineBuffer {
    columns: usize,
    /// Format of instants.
    pub(in crate::cli) times: TimeFormat,
    lines: Vec<(Tone, String)>,
}

impl LineBuffer {
    /// Creates an empty paper of a width in columns.
    pub(in crate::cli) fn new(columns: usize, times: TimeFormat) -> Self {
        Self { columns, times, lines: Vec::new() }
    }

    /// Prints the text that `fill` writes, at the width of the screen.
    pub(in crate::cli) fn print(
        screen: &mut Screen,
        fill: impl FnOnce(&mut Self),
    ) -> io::Result<()> {
        let mut paper = Self::new(screen.columns(), screen.times());
        fill(&mut paper);
        screen.print_lines(paper.into_lines())
    }

    /// Returns the lines, none wider than the columns except for commands.
    pub(in crate::cli) fn into_lines(self) -> Vec<(Tone, String)> {
        self.lines
    }

    /// Adds a heading on one line, with an empty line above unless it is the first.
    pub(in crate::cli) fn push_heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.lines.push((Tone::Plain, String::new()));
        }
        self.push(Tone::Strong, "", &text.replace('\n', " "));
    }

    /// Adds a text after a lead; continuation lines are aligned with the text.
    pub(in crate::cli) fn push(&mut self, tone: Tone, lead: &str, text: &str) {
        let indent = text_columns(lead);
        let width = self.columns.saturating_sub(indent).max(TEXT_COLUMNS_MIN);
        for (n, line) in wrap_text(text, width).into_iter().enumerate() {
            let line = match n {
                0 => format!("{lead}{line}"),
                _ if line.is_empty() => line,
                _ => format!("{:indent$}{line}", ""),
            };
            self.lines.push((tone, line.trim_end().to_owned()));
        }
    }

    /// Adds a text below a heading.
    pub(in crate::cli) fn push_text(&mut self, text: &str) {
        self.push(Tone::Plain, "  ", text);
    }

    /// Adds an item of a list below a heading.
    pub(in crate::cli) fn push_item(&mut self, text: &str) {
        self.push(Tone::Plain, "  - ", text);
    }

    /// Adds a server's Markdown text: its headings strong, the rest unchanged.
    pub(in crate::cli) fn push_markdown(&mut self, text: &str) {
        for line in text.trim_end().lines() {
            let is_heading =
                line.starts_with("# ") || line.ends_with(':') && !line.starts_with(' ');
            let tone = if is_heading { Tone::Strong } else { Tone::Plain };
            let indent = line.len() - line.trim_start_matches([' ', '-']).len();
            let (lead, text) = line.split_at(indent);
            match text {
                "" => self.lines.push((tone, String::new())),
                text => self.push(tone, lead, text),
            }
        }
    }

    /// Adds a command to be copied: on one line, even if it exceeds the width.
    pub(in crate::cli) fn push_command(&mut self, lead: &str, text: &str) {
        self.lines.push((Tone::Faint, format!("{lead}{}", escaped(text))));
    }

    /// Adds a text less important than its surroundings.
    pub(in crate::cli) fn push_faint(&mut self, text: &str) {
        self.push(Tone::Faint, "  ", text);
    }
}

/// Wraps a text into lines of at most `width` columns, between words where possible. Expands tabs,
/// escapes control sequences of a terminal, and drops empty lines at the ends.
pub(in crate::cli) fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let text = escaped(text).replace('\t', TAB);
    let text = text.trim_end().trim_start_matches('\n');
    let mut lines = Vec::new();
    for line in text.split('\n') {
        wrap_line(line, width.max(1), &mut lines);
    }
    lines
}

fn wrap_line(line: &str, width: usize, lines: &mut Vec<String>) {
    if text_columns(line) <= width {
        return lines.push(line.to_owned());
    }
    // Continuation lines are indented like the text of an item or code, by half the width at most.
    let text = line.trim_start_matches(' ');
    let marker = if text.starts_with("- ") || text.starts_with("* ") { 2 } else { 0 };
    let indent = (line.len() - text.len() + marker).min(width / 2);
    let mut filled = String::new();
    for word in line.split_inclusive(' ') {
        let room = width.saturating_sub(text_columns(&filled));
        if text_columns(word.trim_end_matches(' ')) <= room {
            filled.push_str(word);
            continue;
        }
        if !filled.trim_end().is_empty() {
            lines.push(filled.trim_end().to_owned());
        }
        filled = " ".repeat(indent);
        for part in word.graphemes(true) {
            if text_columns(&filled) + text_columns(part.trim_end_matches(' ')) > width {
                lines.push(std::mem::replace(&mut filled, " ".repeat(indent)));
            }
            filled.push_str(part);
        }
    }
    if !filled.trim_end().is_empty() {
        lines.push(filled.trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words_and_inside_a_word_that_exceeds_the_width() {
        for (text, width, expected) in [
            ("one two three", 7, &["one two", "three"][..]),
            ("one  two", 20, &["one  two"]),
            ("abcdefghij k", 4, &["abcd", "efgh", "ij k"]),
            ("    let x = 1;\n\ty", 9, &["    let x", "    = 1;", "    y"]),
            ("\na\n\nb\n\n", 5, &["a", "", "b"]),
            ("- one two\n  * three four", 9, &["- one two", "  * three", "    four"]),
            ("日本語 日本", 6, &["日本語", "日本"]),
            ("日本語日本", 5, &["日本", "語日", "本"]),
            ("a\u{202e}b\u{9b}c", 20, &["a\\u202eb\\u009bc"]),
            ("", 5, &[""]),
            ("              x", 4, &["  x"]),
        ] {
            let lines = wrap_text(text, width);
            assert_eq!(lines, expected, "{text:?}");
            assert!(lines.iter().all(|line| text_columns(line) <= width), "{text:?}");
        }
    }

    #[test]
    fn an_item_has_a_hanging_indent_and_a_heading_an_empty_line_above() {
        let mut paper = LineBuffer::new(20, TimeFormat::default());
        paper.push_heading("Next");
        paper.push_item("mend the lock and look again");
        paper.push_heading("Done");
        paper.push(Tone::Plain, "  [12] ", "a\nb");
        let lines: Vec<String> = paper.into_lines().into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            lines,
            ["Next", "  - mend the lock", "    and look again", "", "Done", "  [12] a", "       b"]
        );
    }
}
