//! The log of an owner: its lines go to standard error, or to a file of the data directory. A line
//! that cannot be written (a closed pipe, a full disk) is counted and dropped: it must not fail the
//! request that logs it.

use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::{
    EnvFilter,
    fmt::{
        MakeWriter, SubscriberBuilder,
        format::{DefaultFields, Format},
    },
};

use super::safe::escaped;
use crate::env::{
    Clock as _,
    clock::SystemClock,
    sync::{Mutex, MutexGuard},
};

/// Sends the log to `file` as JSON, or to standard error: as text on a terminal, else as JSON.
pub(super) fn start_log(level: &str, file: Option<Box<dyn Write + Send>>) {
    if file.is_none() && io::stderr().is_terminal() {
        return start_text_log(level);
    }
    let out = file.unwrap_or_else(|| Box::new(io::stderr()));
    log_builder(level).json().with_writer(LogLines::new(out, true)).init();
}

/// Sends the log of a verb that opens no store to standard error, as text.
pub(super) fn start_text_log(level: &str) {
    let lines = LogLines::new(Box::new(TerminalWriter), false);
    log_builder(level).with_ansi(false).with_writer(lines).init();
}

fn log_builder(level: &str) -> SubscriberBuilder<DefaultFields, Format, EnvFilter> {
    // Debug lines come from this crate only: those of a library may quote recorded text.
    let filter = EnvFilter::builder().parse_lossy(format!("warn,sessionlog={level}"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // Otherwise a failed write would be reported on standard error, which panics when standard
    // error is the closed stream.
    log.log_internal_errors(false)
}

/// Standard error on a terminal: control characters are escaped, since a line may quote text that a
/// client sent.
struct TerminalWriter;

impl Write for TerminalWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(escaped(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Destination of log lines.
struct LogLines {
    state: Mutex<LogState>,
}

struct LogState {
    out: Box<dyn Write + Send>,
    json: bool,
    /// Number of lines dropped since the last successful write.
    dropped: u64,
}

impl LogLines {
    fn new(out: Box<dyn Write + Send>, json: bool) -> Self {
        Self { state: Mutex::from(LogState { out, json, dropped: 0 }) }
    }
}

impl LogState {
    /// Writes a line, preceded by one that counts the lines dropped before it.
    fn write_line(&mut self, line: &[u8]) {
        let written = match self.dropped {
            0 => Ok(()),
            dropped => self.out.write_all(dropped_lines_message(dropped, self.json).as_bytes()),
        };
        match written.and_then(|()| self.out.write_all(line)).and_then(|()| self.out.flush()) {
            Ok(()) => self.dropped = 0,
            Err(_) => self.dropped += 1,
        }
    }
}

/// Formats a line with the number of dropped lines, as JSON or as text.
fn dropped_lines_message(dropped: u64, json: bool) -> String {
    const MESSAGE: &str = "log lines could not be written and were dropped";
    let time = SystemClock::new().now();
    match json {
        true => format!(
            "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\
             \"fields\":{{\"message\":\"{MESSAGE}\",\"dropped\":{dropped}}}}}\n"
        ),
        false => format!("{time}  WARN {MESSAGE} dropped={dropped}\n"),
    }
}

/// A writer of one log line.
struct LogLine<'a>(MutexGuard<'a, LogState>);

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LogLine(self.state.lock())
    }
}

impl Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_line(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A destination that fails some writes.
    #[derive(Clone, Default)]
    struct FailingWriter(Arc<Mutex<(u32, Vec<u8>)>>);

    impl Write for FailingWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut place = self.0.lock();
            if place.0 > 0 {
                place.0 -= 1;
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            place.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_dropped() {
        let place = FailingWriter::default();
        let lines = LogLines::new(Box::new(place.clone()), true);
        let write = |text: &str| lines.make_writer().write_all(text.as_bytes());
        write("{}\n").expect("written");
        place.0.lock().0 = 3;
        for _ in 0..3 {
            write("{}\n").expect("dropped is no error");
        }
        write("{\"after\":1}\n").expect("written");
        let said = String::from_utf8(place.0.lock().1.clone()).expect("text");
        let all: Vec<serde_json::Value> =
            said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(all.len(), 3, "{said}");
        assert_eq!(all[1]["fields"]["dropped"], 3);
        assert_eq!(all[2]["after"], 1);
    }
}
