//! What a person or a pipe sees: lines, JSON, tables, colours. It must not decide what to show.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

/// Standard output and error of one run.
pub(super) struct Screen {
    out: io::BufWriter<io::Stdout>,
    /// Whether the verb prints JSON.
    pub(super) json: bool,
    /// Whether a person looks at standard output.
    pub(super) terminal: bool,
    /// Whether a person looks at standard error.
    pub(super) terminal_errors: bool,
    colours: bool,
}

/// Columns from which cells are wrapped to fit the terminal.
const TABLE_COLUMNS_MIN: u16 = 60;

/// How a word stands out.
#[derive(Clone, Copy)]
pub(super) enum Tone {
    /// Less important than its surroundings.
    Faint,
    /// A heading.
    Strong,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
}

impl Screen {
    pub(super) fn new(json: bool, colours_allowed: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            out: io::BufWriter::new(io::stdout()),
            json,
            terminal,
            terminal_errors: io::stderr().is_terminal(),
            colours: terminal && colours_allowed,
        }
    }

    /// Whether a person sits before a whole screen, and types.
    pub(super) fn plays(&self) -> bool {
        self.terminal && !self.json && io::stdin().is_terminal()
    }

    /// One line of text.
    pub(super) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.out.write_all(text.as_ref().as_bytes())?;
        self.out.write_all(b"\n")?;
        if self.terminal { self.out.flush() } else { Ok(()) }
    }

    /// One line of JSON.
    pub(super) fn value(&mut self, value: &Value) -> io::Result<()> {
        self.line(value.to_string())
    }

    /// An answer as HTTP gave it: indented for a person, as it came for a pipe.
    pub(super) fn answer(&mut self, body: &[u8]) -> io::Result<()> {
        let indented = self
            .terminal
            .then(|| serde_json::from_slice::<Value>(body).ok())
            .flatten()
            .and_then(|value| serde_json::to_string_pretty(&value).ok());
        match indented {
            Some(text) => self.line(text),
            None => {
                self.out.write_all(body)?;
                self.out.write_all(b"\n")
            }
        }
    }

    /// Bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Everything printed so far, out.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A remark beside the result, on standard error.
    pub(super) fn note(&self, text: impl AsRef<str>) {
        // Nobody can be told when standard error is gone.
        let _ = writeln!(io::stderr(), "{}", text.as_ref());
    }

    /// Whether there is a person to be asked.
    pub(super) fn asks(&self) -> bool {
        self.terminal_errors && !self.json && io::stdin().is_terminal()
    }

    /// Asks a person, who must say yes.
    pub(super) fn agreed(&mut self, question: &str) -> io::Result<bool> {
        self.flush()?;
        write!(io::stderr(), "{question} [y/N] ")?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(is_yes(&answer))
    }

    /// The text in a tone, where colours are shown.
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Faint => "2",
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A table of plain text (codes for colours would be counted as width); tab-separated lines
    /// where nobody looks.
    pub(super) fn table(&mut self, heads: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        if !self.terminal {
            for row in rows {
                self.line(row.join("\t"))?;
            }
            return Ok(());
        }
        self.line(drawn(heads, rows))
    }
}

/// Whether an answer is a yes; whatever else it is, is a no.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

/// A table as people read it, whoever looks.
pub(super) fn drawn(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // A terminal that is very narrow, or does not say how wide it is, wraps better by itself.
    if table.width().is_some_and(|columns| columns >= TABLE_COLUMNS_MIN) {
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    }
    table.set_header(heads.to_vec());
    table.add_rows(rows);
    table.to_string()
}

/// Recorded text made safe for a terminal: what would move the cursor or change colours is shown
/// instead of sent.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c {
            '\n' | '\t' => vec![c],
            c if c.is_control() => c.escape_default().collect(),
            c => vec![c],
        })
        .collect()
}

/// The first line of a text, at most `max` characters of it.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let line = printable(text).replace(['\n', '\t'], " ");
    let mut short: String = line.chars().take(max).collect();
    if short.len() < line.len() {
        short.pop();
        short.push('…');
    }
    short
}

/// So many of a thing, in words.
pub(super) fn counted(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// An instant for a person: to the second.
pub(super) fn instant(text: &str) -> String {
    text.get(..19).unwrap_or(text).replace('T', " ")
}

/// A size for a person.
pub(super) fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_text_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\r\n\tc"), "a\\u{1b}[31mb\\r\n\tc");
        assert_eq!(one_line("é\nbcd", 4), "é b…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn nothing_but_yes_is_a_yes() {
        assert!(["y", "Y\n", " yes ", "YES\r\n"].into_iter().all(is_yes));
        assert!(!["", "\n", "n", "yep", "y y", "ye", "yes please"].into_iter().any(is_yes));
    }
}
