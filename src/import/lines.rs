//! Splits a source into lines and classifies each: a conversation, a message, an event, a
//! transcript's line. A bad line or an unfinished last one is reported and stops nothing. It must
//! not send.

use std::io::{BufRead, Read};

use serde_json::value::RawValue;

use super::{
    Members,
    members::listed,
    openai::About,
    records::{self, NextRecord},
    responses,
    transcript::Program,
};
use crate::{
    event::{EventType, SessionId},
    secrets::{Recogniser, Report},
};

/// Most bytes of one line; a longer one is reported and left out.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// Most bytes kept of the text between two lines.
const AROUND_BYTES_MAX: usize = 64 << 10;

/// Most characters of a rejected type that its problem repeats.
const TYPE_CHARS_SHOWN: usize = 80;

/// Most bytes of a problem: it may repeat another program's text.
const PROBLEM_BYTES_MAX: usize = 400;

/// A line that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line, from 1.
    pub line: u64,
    /// The problem.
    pub problem: String,
    /// The session of a whole conversation that was left out.
    pub session: Option<SessionId>,
}

impl BadLine {
    pub(super) fn new(line: u64, mut problem: String, session: Option<SessionId>) -> Self {
        problem.truncate(problem.floor_char_boundary(PROBLEM_BYTES_MAX));
        Self { line, problem, session }
    }
}

/// Findings of unbounded number: all are counted, the first `MAX` are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First<T, const MAX: usize> {
    count: u64,
    named: Vec<T>,
}

impl<T, const MAX: usize> Default for First<T, MAX> {
    fn default() -> Self {
        Self { count: 0, named: Vec::new() }
    }
}

impl<T, const MAX: usize> First<T, MAX> {
    pub(super) fn push(&mut self, one: T) {
        self.count += 1;
        if self.named.len() < MAX {
            self.named.push(one);
        }
    }

    /// Returns the number of findings.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first findings.
    #[must_use]
    pub fn named(&self) -> &[T] {
        &self.named
    }
}

/// Item read from one line.
pub(super) enum LineItem {
    Good(Content),
    Bad(BadLine),
    /// The last line is incomplete.
    Torn,
}

pub(super) enum Content {
    Conversation {
        session: SessionId,
        about: About,
        messages: Vec<Box<RawValue>>,
    },
    Message(Box<RawValue>),
    Event(Members),
    /// A line of a program's transcript, its text, and the text before it.
    Entry(Program, Members, Box<RawValue>, String),
}

pub(super) struct SourceLines<'a> {
    reader: Box<dyn BufRead + Send + 'a>,
    name: String,
    /// The session of a conversation without an id, for the first one.
    session: Option<SessionId>,
    conversations: u64,
    /// The program that wrote the lines, once one was recognised.
    program: Option<Program>,
    line: u64,
    bytes: u64,
    /// The rest of the line being read: it may have several records.
    rest: Option<Rest>,
    /// Text after the last transcript line: its end, and lines without content.
    around: String,
    private: Recogniser,
    /// Counts of private text removed from the last line.
    taken: Report,
    /// Description of replaced bytes in the line, until its first record is returned.
    mended: Option<String>,
}

/// Remaining bytes of a line.
struct Rest {
    bytes: Vec<u8>,
    at: usize,
    /// True if the line has a newline.
    whole: bool,
    /// True if it had a record of a transcript.
    given: bool,
}

impl<'a> SourceLines<'a> {
    pub(super) fn new(
        reader: Box<dyn BufRead + Send + 'a>,
        name: String,
        session: Option<SessionId>,
    ) -> Self {
        Self {
            reader,
            name,
            session,
            conversations: 0,
            program: None,
            line: 0,
            bytes: 0,
            rest: None,
            around: String::new(),
            private: Recogniser::of_private_spans(),
            taken: Report::default(),
            mended: None,
        }
    }

    /// Returns the text after the last line.
    pub(super) fn around(&self) -> &str {
        &self.around
    }

    /// Returns the counts of private text removed from the last line.
    pub(super) fn taken(&self) -> &Report {
        &self.taken
    }

    /// Returns the replaced bytes of the last record's line, once for each line.
    pub(super) fn take_mended(&mut self) -> Option<BadLine> {
        let problem = self.mended.take()?;
        Some(BadLine::new(self.line, problem, None))
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn next(&mut self) -> std::io::Result<Option<LineItem>> {
        loop {
            let mut rest = match self.rest.take() {
                Some(rest) => rest,
                None => match self.read_line()? {
                    Ok(Some(rest)) => rest,
                    Ok(None) => return Ok(None),
                    Err(problem) => return Ok(Some(self.bad(problem))),
                },
            };
            let (before, line, _) = split_blanks(rest.bytes.get(rest.at..).unwrap_or_default());
            if line.is_empty() {
                // The newline of a line without a record does not separate two records.
                if rest.at == 0 || rest.given {
                    self.keep_around(before);
                }
                continue;
            }
            let (item, used) = self.item(line, rest.whole);
            let item = match item {
                LineItem::Good(Content::Entry(program, members, text, _)) => {
                    self.keep_around(before);
                    let before = std::mem::take(&mut self.around);
                    rest.given = true;
                    LineItem::Good(Content::Entry(program, members, text, before))
                }
                other => other,
            };
            rest.at += before.len() + used;
            self.rest = Some(rest);
            return Ok(Some(item));
        }
    }

    /// Reads the next line with its newline, or returns the reason for leaving it out.
    fn read_line(&mut self) -> std::io::Result<Result<Option<Rest>, String>> {
        let mut bytes = Vec::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(Ok(None));
        }
        self.line += 1;
        self.bytes += read as u64;
        let whole = bytes.last() == Some(&b'\n');
        if !whole && read as u64 == LINE_BYTES_MAX {
            self.skip_line()?;
            return Ok(Err(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        self.mended = None;
        if let Err(error) = str::from_utf8(&bytes) {
            let at = error.valid_up_to();
            self.mended = Some(format!("its byte {at} is not UTF-8: U+FFFD is in its place"));
            bytes = String::from_utf8_lossy(&bytes).into_owned().into_bytes();
        }
        Ok(Ok(Some(Rest { bytes, at: 0, whole, given: false })))
    }

    /// Collects text between lines, up to the limit.
    fn keep_around(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        if self.around.len() + text.len() <= AROUND_BYTES_MAX {
            self.around.push_str(text);
        }
    }

    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let (used, done) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.reader.consume(used);
            self.bytes += used as u64;
            if done {
                return Ok(());
            }
        }
    }

    fn bad(&self, problem: String) -> LineItem {
        LineItem::Bad(BadLine::new(self.line, problem, None))
    }

    /// Returns the first item of a line, and its length in bytes.
    fn item(&mut self, line: &[u8], whole: bool) -> (LineItem, usize) {
        let (value, used) = match records::next(line) {
            NextRecord::Record(value, used) => (value, used),
            NextRecord::Bad(problem, used) => return (self.bad(problem), used),
            NextRecord::Cut if !whole => return (LineItem::Torn, line.len()),
            NextRecord::Cut => return (self.bad("it ends within a record".to_owned()), line.len()),
        };
        self.taken = Report::default();
        let clean = self.private.json(value.get(), &mut self.taken);
        let value = clean.and_then(|text| RawValue::from_string(text).ok()).unwrap_or(value);
        let item = match self.content(value) {
            Ok(content) => LineItem::Good(content),
            Err(problem) => self.bad(problem),
        };
        (item, used)
    }

    fn content(&mut self, value: Box<RawValue>) -> Result<Content, String> {
        if value.get().starts_with('[') {
            let messages = listed(&value).ok_or("it is not a list of objects that fits")?;
            let session = self.session_of(None)?;
            return Ok(Content::Conversation { session, about: About::array(), messages });
        }
        let line = Members::read(value.get())
            .map_err(|_| "it is neither an object nor an array".to_owned())?;
        let foreign = || line.text("type").is_none_or(|kind| !kind.contains('.'));
        if let Some(program) = self.program.filter(|_| foreign()) {
            return Ok(Content::Entry(program, line, value, String::new()));
        }
        if let Some(messages) = line.non_null("messages") {
            let messages = listed(messages).ok_or("`messages` is not an array that fits")?;
            let id = line
                .non_null("id")
                .map(|id| line.text("id").unwrap_or_else(|| id.get().to_owned()));
            let session = self.session_of(id)?;
            return Ok(Content::Conversation { session, about: About::object(&line), messages });
        }
        if line.text("role").is_some() || responses::is_item(&line) {
            return Ok(Content::Message(value));
        }
        if let Some(program) = Program::from_line(&line).filter(|_| foreign()) {
            self.program = Some(program);
            return Ok(Content::Entry(program, line, value, String::new()));
        }
        match line.text("type") {
            Some(kind) => match EventType::new(&kind) {
                Ok(_) => Ok(Content::Event(line)),
                Err(why) => {
                    let begins: String = kind.chars().take(TYPE_CHARS_SHOWN).collect();
                    Err(format!("its `type` {begins:?} is none of an event: {why}"))
                }
            },
            None => Err("it has no `messages`, no `role` and no `type`".to_owned()),
        }
    }

    fn session_of(&mut self, id: Option<String>) -> Result<SessionId, String> {
        self.conversations += 1;
        match (id, &self.session) {
            (Some(id), _) => Ok(session_id(&id).0),
            (None, None) => Ok(session_id(&format!("{}-{}", self.name, self.line)).0),
            (None, Some(session)) if self.conversations == 1 => Ok(session.clone()),
            (None, Some(session)) => {
                Err(format!("it is a second conversation, and {session} is to hold one"))
            }
        }
    }
}

/// Splits a line into the text before its content, the content, and the text after it. Byte order
/// marks, and the zero bytes that a crash of a file system leaves, are not content.
fn split_blanks(bytes: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let mut rest = bytes;
    while let Some(after) = rest
        .strip_prefix(b"\xef\xbb\xbf")
        .or_else(|| rest.split_first().filter(|(first, _)| is_blank(first)).map(|(_, rest)| rest))
    {
        rest = after;
    }
    let (before, rest) = bytes.split_at(bytes.len() - rest.len());
    let end = rest.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    let (line, after) = rest.split_at(end);
    (before, line, after)
}

/// Returns a session id made from a text: the text itself if valid; otherwise its valid characters
/// and a hash of the whole, so that two texts never share a session. Also returns whether it is
/// unchanged.
pub(super) fn session_id(text: &str) -> (SessionId, bool) {
    if let Ok(id) = SessionId::new(text) {
        return (id, true);
    }
    let kept: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .take(90)
        .collect();
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let short: String = hash.chars().take(16).collect();
    let kept = kept.trim_start_matches(['.', '_', '-']);
    let id = if kept.is_empty() { format!("import-{short}") } else { format!("{kept}-{short}") };
    (SessionId::new(&id).expect("made of allowed characters, a letter or digit first"), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<LineItem> {
        let reader = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut lines = SourceLines::new(reader, "file".to_owned(), None);
        std::iter::from_fn(|| lines.next().expect("memory is readable")).collect()
    }

    fn names(text: &str) -> Vec<String> {
        lines(text)
            .into_iter()
            .map(|item| match item {
                LineItem::Good(Content::Conversation { session, messages, .. }) => {
                    format!("{session}:{}", messages.len())
                }
                LineItem::Good(Content::Message(_)) => "message".to_owned(),
                LineItem::Good(Content::Event(_)) => "event".to_owned(),
                LineItem::Good(Content::Entry(program, ..)) => program.as_str().to_owned(),
                LineItem::Bad(bad) => format!("bad {}", bad.line),
                LineItem::Torn => "torn".to_owned(),
            })
            .collect()
    }

    #[test]
    fn each_form_of_line_is_recognised() {
        let text = concat!(
            "{\"id\":\"a\",\"messages\":[{},{}]}\n\n[{}]\n{\"role\":\"user\"}\n",
            "{\"type\":\"user.message\"}\n{\"id\":7,\"messages\":[]}\n",
        );
        assert_eq!(names(text), ["a:2", "file-3:1", "message", "event", "7:0"]);
    }

    #[test]
    fn lines_of_other_programs_and_native_events_are_distinguished() {
        let claude = r#"{"type":"summary","leafUuid":"u"}"#;
        let codex = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{}}"#;
        let odd = r#"{"kind":"nobody knows"}"#;
        assert_eq!(names(&format!("{claude}\n{odd}\n[1")), ["claude-code", "claude-code", "torn"]);
        assert_eq!(names(&format!("{odd}\n{codex}\n{odd}")), ["bad 1", "codex", "codex"]);
        let ours = r#"{"type":"user.message","timestamp":"x"}"#;
        assert_eq!(names(ours), ["event"]);
    }

    #[test]
    fn bad_lines_and_a_torn_last_line_are_reported_separately() {
        let text = "nonsense\n{\"x\":1}\n{\"messages\":3}\n{\"role\":\"user\"}\n{\"role\":\"us";
        assert_eq!(names(text), ["bad 1", "bad 2", "bad 3", "message", "torn"]);
        assert_eq!(names("{\"type\":\"a b\"}"), ["bad 1"], "no type of ours");
        assert_eq!(names("{\"role\":\"user\"}\nnonsense"), ["message", "bad 2"]);
        assert_eq!(names("{\"role\":\"user\"}"), ["message"], "a whole line may lack its end");
    }

    #[test]
    fn each_text_maps_to_a_distinct_valid_session_id() {
        let (kept, same) = session_id("airline-46-3");
        assert_eq!((kept.as_str(), same), ("airline-46-3", true));
        let texts = ["a/b", "a b", "a:b", "", "é", "--", &"x".repeat(500), &"x".repeat(501)];
        let ids: std::collections::BTreeSet<String> =
            texts.iter().map(|text| session_id(text).0.to_string()).collect();
        assert_eq!(ids.len(), texts.len(), "{ids:?}");
    }
}
