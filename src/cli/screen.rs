//! Output to a person or a pipe: lines, JSON, tables, colours. It must not decide what to show.

use std::{
    cell::RefCell,
    io::{self, IsTerminal, Write},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

pub(super) use super::safe::printable;
use super::{
    failure::Outcome,
    pager::Pager,
    safe::{Seal, Style},
    times::Times,
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
    seal: Seal,
    /// True if remarks are left out.
    pub(super) quiet: bool,
    /// Pager of long output, while it runs.
    pager: Option<Pager>,
    /// Remarks that wait for the pager's end.
    held: RefCell<Vec<String>>,
}

/// Columns from which cells are wrapped to fit the terminal.
const TABLE_COLUMNS_MIN: u16 = 60;
/// Columns of text where standard output is no terminal, or one that does not say its width.
const COLUMNS: usize = 100;
/// Columns below which text is not wrapped any narrower.
const COLUMNS_MIN: usize = 20;

/// Interval of a spinner's steps.
const SPINNER_TICK: std::time::Duration = std::time::Duration::from_millis(120);

/// Emphasis of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As its surroundings.
    Plain,
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
            seal: Seal::new(),
            quiet: false,
            pager: None,
            held: RefCell::default(),
        }
    }

    /// Sends what is printed from now on through a pager, where a person looks at text and it does
    /// not fit the terminal.
    pub(super) fn page(&mut self, command: String, has_less: bool) {
        let size = self.size().filter(|_| !self.json && self.pager.is_none());
        if let Some(size) = size.filter(|(_, rows)| *rows > 1) {
            self.pager = Some(Pager::new(command, has_less, size));
        }
    }

    /// Ends the pager, and prints the remarks that waited for it.
    pub(super) fn end_page(&mut self) -> io::Result<()> {
        let ended = self.pager.take().map_or(Ok(()), Pager::end);
        for text in self.held.take() {
            self.note(text);
        }
        ended
    }

    /// True if a person sits before a whole screen, and types.
    pub(super) fn is_full_screen(&self) -> bool {
        self.terminal && !self.json && io::stdin().is_terminal()
    }

    /// Columns of a line of text: those of the terminal, 100 where there is none.
    pub(super) fn columns(&self) -> usize {
        self.size().map_or(COLUMNS, |(columns, _)| columns).max(COLUMNS_MIN)
    }

    /// Columns and lines of the terminal of standard output, when it reports them.
    fn size(&self) -> Option<(usize, usize)> {
        let told = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|_| self.terminal)?;
        let size = (usize::from(told.ws_col), usize::from(told.ws_row));
        (size.0 > 0).then_some(size)
    }

    /// Format of instants: relative and local on a terminal, RFC 3339 in a pipe.
    pub(super) fn times(&self) -> Times {
        if self.terminal { Times::local() } else { Times::default() }
    }

    /// One line of text.
    pub(super) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        let text = text.as_ref();
        if !self.terminal {
            self.out.write_all(text.as_bytes())?;
            return self.out.write_all(b"\n");
        }
        if let Some(pager) = &mut self.pager {
            let safe = self.seal.guard(text).into_owned() + "\n";
            return pager.print(&safe, &self.seal.without_marks(text));
        }
        self.out.write_all(self.seal.guard(text).as_bytes())?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Lines of a [`Paper`](super::readable::Paper), each in its tone.
    pub(super) fn lines(&mut self, lines: Vec<(Tone, String)>) -> io::Result<()> {
        for (tone, text) in lines {
            let text = self.paint(tone, &text);
            self.line(text)?;
        }
        Ok(())
    }

    /// One line of JSON.
    pub(super) fn value(&mut self, value: &Value) -> io::Result<()> {
        self.line(value.to_string())
    }

    /// An answer as HTTP gave it: indented for a person, as it came for a pipe.
    pub(super) fn answer(&mut self, body: &[u8]) -> io::Result<()> {
        let indented = self
            .terminal
            .then(|| json::shown(body).ok())
            .flatten()
            .and_then(|value| serde_json::to_string_pretty(&value).ok());
        match indented {
            Some(text) => self.line(text),
            None if self.terminal => self.line(String::from_utf8_lossy(body)),
            None => {
                self.out.write_all(body)?;
                self.out.write_all(b"\n")
            }
        }
    }

    /// An answer that was read: as [`Self::answer`] shows it.
    pub(super) fn print(&mut self, answer: &impl Serialize) -> io::Result<()> {
        self.answer(&serde_json::to_vec(answer)?)
    }

    /// An answer as JSON where that is wanted, else what `text` prints of it.
    pub(super) fn show(
        &mut self,
        answer: &impl Serialize,
        text: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> Outcome {
        let printed = if self.json { self.print(answer) } else { text(self) };
        Ok(printed?)
    }

    /// Bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Everything printed so far, out.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A remark about the result, on standard error.
    pub(super) fn note(&self, text: impl AsRef<str>) {
        if self.quiet {
            return;
        }
        if self.pager.is_some() {
            return self.held.borrow_mut().push(text.as_ref().to_owned());
        }
        self.error(text);
    }

    /// A sentence on standard error that is never left out.
    pub(super) fn error(&self, text: impl AsRef<str>) {
        // It is lost when standard error is gone.
        let _ = writeln!(io::stderr(), "{}", self.seal.guard(text.as_ref()));
    }

    /// Progress of a verb in a style of `indicatif`, of so many units where that is known.
    pub(super) fn progress(&self, units: Option<u64>, style: &str) -> ProgressBar {
        let is_shown = self.terminal_errors && !self.json && !self.quiet && self.pager.is_none();
        let target = match is_shown {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(units, target);
        match ProgressStyle::with_template(style) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// A sign that a verb works, for one that cannot say how far it is.
    pub(super) fn spinner(&self, doing: &str) -> ProgressBar {
        let bar = self.progress(None, "{spinner} {msg} {elapsed}");
        bar.set_message(doing.to_owned());
        bar.enable_steady_tick(SPINNER_TICK);
        bar
    }

    /// The outcome of a call, with a spinner meanwhile.
    pub(super) async fn while_waiting<T>(&self, doing: &str, call: impl Future<Output = T>) -> T {
        let spinner = self.spinner(doing);
        let outcome = call.await;
        spinner.finish_and_clear();
        outcome
    }

    /// True if there is a person who can be asked.
    pub(super) fn is_interactive(&self) -> bool {
        self.terminal_errors && !self.json && io::stdin().is_terminal()
    }

    /// Asks a person, who must say yes.
    pub(super) fn confirm(&mut self, question: &str) -> io::Result<bool> {
        self.flush()?;
        write!(io::stderr(), "{} [y/N] ", self.seal.guard(question))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(is_yes(&answer))
    }

    /// The text in a tone, where colours are shown.
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

    /// A table of plain text (codes for colours would be counted as width); tab-separated lines
    /// when standard output is no terminal.
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

/// True if an answer is a yes; any other text is a no.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

/// A table as people read it, terminal or not.
fn drawn(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // A very narrow terminal, or one of unknown width, wraps by itself.
    if table.width().is_some_and(|columns| columns >= TABLE_COLUMNS_MIN) {
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    }
    table.set_header(heads.to_vec());
    table.add_rows(rows);
    // The first column has what is copied into the next command.
    if let Some(ids) = table.column_mut(0) {
        ids.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
    }
    table.to_string()
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
pub(super) fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// An instant of RFC 3339 for a person: to the second, in UTC, with its zone.
pub(super) fn instant(text: &str) -> String {
    match text.get(..19) {
        Some(second) => format!("{second}Z"),
        None => text.to_owned(),
    }
}

/// A size for a person.
pub(super) fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_first_and_cut_to_its_width() {
        assert_eq!(one_line("é\nbcd", 4), "é b…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn only_y_or_yes_confirms() {
        assert!(["y", "Y\n", " yes ", "YES\r\n"].into_iter().all(is_yes));
        assert!(!["", "\n", "n", "yep", "y y", "ye", "yes please"].into_iter().any(is_yes));
    }
}
