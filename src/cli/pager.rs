//! Long output on a terminal, shown by the program that PAGER names. It must not know what is
//! printed.

use std::{
    io::{self, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
};

use super::columns::text_columns;

/// Output buffered until it is known whether it fits the terminal.
pub(super) struct Pager {
    /// Command line for the shell.
    command: String,
    /// True if the user has set `LESS`.
    has_less: bool,
    columns: usize,
    lines_max: usize,
    waiting: String,
    lines: usize,
    running: Option<(Child, Option<ChildStdin>)>,
    /// True if the command could not be started.
    failed: bool,
}

impl Pager {
    /// Creates a pager for a terminal of the given size.
    pub(super) fn new(command: String, has_less: bool, (columns, rows): (usize, usize)) -> Self {
        Self {
            command,
            has_less,
            columns: columns.max(1),
            // The shell's prompt takes one line.
            lines_max: rows.saturating_sub(1),
            waiting: String::new(),
            lines: 0,
            running: None,
            failed: false,
        }
    }

    /// Adds text that is safe for a terminal; `plain` is the same text without colour codes.
    pub(super) fn print(&mut self, text: &str, plain: &str) -> io::Result<()> {
        let rows = |line: &str| text_columns(line).div_ceil(self.columns).max(1);
        self.lines += plain.lines().map(rows).sum::<usize>();
        if self.running.is_none() && !self.failed {
            self.waiting.push_str(text);
            if self.lines <= self.lines_max {
                return Ok(());
            }
            self.start();
            let waiting = std::mem::take(&mut self.waiting);
            return self.write_text(&waiting);
        }
        self.write_text(text)
    }

    fn start(&mut self) {
        let mut command = Command::new("sh");
        command.args(["-c", &self.command]).stdin(Stdio::piped());
        if !self.has_less {
            // Exit when the text fits or on an interrupt, keep colours, keep the screen.
            command.env("LESS", "FRXK");
        }
        match command.spawn() {
            Ok(mut child) => {
                let input = child.stdin.take();
                self.running = Some((child, input));
            }
            Err(_) => self.failed = true,
        }
    }

    fn write_text(&mut self, text: &str) -> io::Result<()> {
        match &mut self.running {
            Some((_, Some(input))) => input.write_all(text.as_bytes()),
            _ => io::stdout().write_all(text.as_bytes()),
        }
    }

    /// Prints the buffered text, and waits until the user leaves the pager.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let printed = self.write_text(&waiting).and_then(|()| io::stdout().flush());
        if let Some((mut child, input)) = self.running.take() {
            drop(input);
            child.wait()?;
        }
        printed
    }
}
