//! Output to a terminal or a pipe: lines, JSON, tables, colours. It must not decide what to show.

use std::{
    cell::RefCell,
    io::{self, IsTerminal, Write},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation as _;

pub(super) use super::safe::escaped;
use super::{
    columns::text_columns,
    failure::Outcome,
    pager::Pager,
    safe::{Style, StyleMarker},
    times::TimeFormat,
};
use crate::wire::json;

/// Standard output and error of one run.
pub(super) struct Screen {
    out: io::BufWriter<io::Stdout>,
    /// True if the verb prints JSON.
    pub(super) json: bool,
    /// True if standard output is a terminal.
    pub(super) terminal: bool,
    /// True if standard error is a terminal.
    pub(super) terminal_errors: bool,
    colours: bool,
    /// True if the terminal only prints lines (`TERM=dumb`).
    is_dumb: bool,
    seal: StyleMarker,
    /// True if remarks are suppressed.
    pub(super) quiet: bool,
    /// Pager of long output, while it is used.
    pager: Option<Pager>,
    /// Remarks held until the pager ends.
    held: RefCell<Vec<String>>,
}

/// Minimum terminal columns at which table cells are wrapped.
const TABLE_COLUMNS_MIN: u16 = 60;
/// Default text columns, for output that is not a terminal or does not report its width.
const COLUMNS: usize = 100;
/// Minimum columns to which text is wrapped.
const COLUMNS_MIN: usize = 20;

/// Interval between two steps of a spinner.
const SPINNER_TICK: std::time::Duration = std::time::Duration::from_millis(120);

/// Emphasis of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// No emphasis.
    Plain,
    /// Less important than its surroundings.
    Faint,
    /// A heading.
    Strong,
    /// A success.
    Good,
    /// A failure or a loss.
    Bad,
}

impl Screen {
    pub(super) fn new(json: bool, colours_allowed: bool, is_dumb: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            out: io::BufWriter::new(io::stdout()),
            json,
            terminal,
            terminal_errors: io::stderr().is_terminal(),
            colours: terminal && colours_allowed,
            is_dumb,
            seal: StyleMarker::new(),
            quiet: false,
            pager: None,
            held: RefCell::default(),
        }
    }

    /// Sends further output through a pager, where it is text for a terminal and exceeds its
    /// height.
    pub(super) fn start_pager(&mut self, command: String, has_less: bool) {
        let is_used = !self.json && !self.is_dumb && self.pager.is_none();
        let size = self.terminal_size().filter(|_| is_used);
        if let Some(size) = size.filter(|(_, rows)| *rows > 1) {
            self.pager = Some(Pager::new(command, has_less, size));
        }
    }

    /// Ends the pager, and prints the remarks held for it.
    pub(super) fn finish_pager(&mut self) -> io::Result<()> {
        let ended = self.pager.take().map_or(Ok(()), Pager::finish);
        for text in self.held.take() {
            self.print_note(text);
        }
        ended
    }

    /// Returns true if input and output are a terminal that can be drawn on, and the output is not
    /// JSON.
    pub(super) fn is_full_screen(&self) -> bool {
        self.terminal && !self.is_dumb && !self.json && io::stdin().is_terminal()
    }

    /// Returns the columns of a line of text: the width of the terminal, or 100 if it is unknown.
    pub(super) fn columns(&self) -> usize {
        self.terminal_size().map_or(COLUMNS, |(columns, _)| columns).max(COLUMNS_MIN)
    }

    /// Returns the columns and lines of the terminal of standard output, if it reports them.
    fn terminal_size(&self) -> Option<(usize, usize)> {
        let told = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|_| self.terminal)?;
        let size = (usize::from(told.ws_col), usize::from(told.ws_row));
        (size.0 > 0).then_some(size)
    }

    /// Returns the format of instants: relative and local on a terminal, RFC 3339 in a pipe.
    pub(super) fn times(&self) -> TimeFormat {
        if self.terminal { TimeFormat::new_local() } else { TimeFormat::default() }
    }

    pub(super) fn print_line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        let text = text.as_ref();
        if !self.terminal {
            self.out.write_all(text.as_bytes())?;
            return self.out.write_all(b"\n");
        }
        if let Some(pager) = &mut self.pager {
            let safe = self.seal.sanitise(text).into_owned() + "\n";
            return pager.print(&safe, &self.seal.strip_marks(text));
        }
        self.out.write_all(self.seal.sanitise(text).as_bytes())?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Prints lines of a [`Paper`](super::readable::LineBuffer), each in its tone.
    pub(super) fn print_lines(&mut self, lines: Vec<(Tone, String)>) -> io::Result<()> {
        for (tone, text) in lines {
            let text = self.paint(tone, &text);
            self.print_line(text)?;
        }
        Ok(())
    }

    /// Prints a line of JSON.
    pub(super) fn print_json(&mut self, value: &Value) -> io::Result<()> {
        self.print_line(value.to_string())
    }

    /// Prints an answer of HTTP: indented on a terminal, unchanged in a pipe.
    pub(super) fn print_answer(&mut self, body: &[u8]) -> io::Result<()> {
        let indented = self
            .terminal
            .then(|| json::parse_lossy(body).ok())
            .flatten()
            .and_then(|value| serde_json::to_string_pretty(&value).ok());
        match indented {
            Some(text) => self.print_line(text),
            None if self.terminal => self.print_line(String::from_utf8_lossy(body)),
            None => {
                self.out.write_all(body)?;
                self.out.write_all(b"\n")
            }
        }
    }

    /// Prints a typed answer in the form of [`Self::print_answer`].
    pub(super) fn print_typed(&mut self, answer: &impl Serialize) -> io::Result<()> {
        self.print_answer(&serde_json::to_vec(answer)?)
    }

    /// Prints an answer as JSON with `--json`, else with `text`.
    pub(super) fn print_result(
        &mut self,
        answer: &impl Serialize,
        text: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> Outcome {
        let printed = if self.json { self.print_typed(answer) } else { text(self) };
        Ok(printed?)
    }

    /// Writes bytes unchanged.
    pub(super) fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Flushes standard output.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Prints a remark about the result to standard error.
    pub(super) fn print_note(&self, text: impl AsRef<str>) {
        if self.quiet {
            return;
        }
        if self.pager.is_some() {
            return self.held.borrow_mut().push(text.as_ref().to_owned());
        }
        self.print_error(text);
    }

    /// Prints a sentence to standard error, even with `--quiet`.
    pub(super) fn print_error(&self, text: impl AsRef<str>) {
        // The sentence is lost if standard error is closed.
        let _ = writeln!(io::stderr(), "{}", self.seal.sanitise(text.as_ref()));
    }

    /// Creates a progress bar in a style of `indicatif`, with a total of `units` if known.
    pub(super) fn create_progress_bar(&self, units: Option<u64>, style: &str) -> ProgressBar {
        let is_heard = !self.json && !self.quiet && self.pager.is_none();
        let target = match self.terminal_errors && !self.is_dumb && is_heard {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(units, target);
        match ProgressStyle::with_template(style) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// Creates a spinner, for a verb whose progress is unknown.
    pub(super) fn create_spinner(&self, doing: &str) -> ProgressBar {
        let bar = self.create_progress_bar(None, "{spinner} {msg} {elapsed}");
        bar.set_message(doing.to_owned());
        bar.enable_steady_tick(SPINNER_TICK);
        bar
    }

    /// Awaits a call and returns its result, with a spinner meanwhile.
    pub(super) async fn await_with_spinner<T>(
        &self,
        doing: &str,
        call: impl Future<Output = T>,
    ) -> T {
        let spinner = self.create_spinner(doing);
        let outcome = call.await;
        spinner.finish_and_clear();
        outcome
    }

    /// Returns true if the user can be asked for confirmation.
    pub(super) fn is_interactive(&self) -> bool {
        self.terminal_errors && !self.json && io::stdin().is_terminal()
    }

    /// Asks the user for confirmation; returns true for a yes.
    pub(super) fn confirm(&mut self, question: &str) -> io::Result<bool> {
        self.flush()?;
        write!(io::stderr(), "{} [y/N] ", self.seal.sanitise(question))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(is_yes(&answer))
    }

    /// Returns the text with the codes of a tone, where colours are shown.
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colours || text.is_empty() {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Faint => Style::Faint,
            Tone::Strong => Style::Strong,
            Tone::Good => Style::Green,
            Tone::Bad => Style::Red,
        };
        format!("{}{text}{}", self.seal.mark(style), self.seal.mark(Style::Off))
    }

    /// Prints a table of plain text (colour codes would be counted as width), or tab-separated
    /// lines where standard output is not a terminal.
    pub(super) fn print_table(&mut self, heads: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        if !self.terminal {
            for row in rows {
                self.print_line(row.join("\t"))?;
            }
            return Ok(());
        }
        self.print_line(draw_table(heads, rows))
    }
}

/// Returns true if an answer is a yes; any other text is a no.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

/// Draws a table, for a terminal or not.
fn draw_table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // A very narrow terminal, or one of unknown width, wraps lines itself.
    if table.width().is_some_and(|columns| columns >= TABLE_COLUMNS_MIN) {
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    }
    table.set_header(heads.to_vec());
    table.add_rows(rows);
    // The first column has ids, which are copied whole into the next command.
    if let Some(ids) = table.column_mut(0) {
        ids.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
    }
    table.to_string()
}

/// Returns a text as one line, cut to `max` columns of a terminal.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut line = escaped(text).replace(['\n', '\t'], " ");
    let (mut columns, mut kept) = (0, 0);
    for part in line.graphemes(true) {
        columns += text_columns(part);
        if columns > max {
            line.truncate(kept);
            line.push('…');
            break;
        }
        // The mark of the cut takes a column.
        kept += if columns < max { part.len() } else { 0 };
    }
    line
}

/// Formats a count with its noun.
pub(super) fn with_noun(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Formats an instant of RFC 3339 to the second, in UTC, with its zone.
pub(super) fn format_instant(text: &str) -> String {
    match text.get(..19) {
        Some(second) => format!("{second}Z"),
        None => text.to_owned(),
    }
}

/// Formats a size with its unit.
pub(super) fn format_size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_wider_than_its_columns_is_cut_between_its_characters() {
        for (text, max, expected) in [
            ("é\nbcd", 4, "é b…"),
            ("abcd", 4, "abcd"),
            ("運行測試", 8, "運行測試"),
            ("運行測試", 7, "運行測…"),
            ("運行測試", 6, "運行…"),
            ("a運b", 3, "a…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("ab", 0, "…"),
        ] {
            let line = one_line(text, max);
            assert_eq!(line, expected, "{text:?} in {max}");
            assert!(text_columns(&line) <= max.max(1), "{text:?} in {max}");
        }
    }

    #[test]
    fn only_y_or_yes_counts_as_confirmation() {
        assert!(["y", "Y\n", " yes ", "YES\r\n"].into_iter().all(is_yes));
        assert!(!["", "\n", "n", "yep", "y y", "ye", "yes please"].into_iter().any(is_yes));
    }
}
