//! Lines of a transcript by kind: a conversation, a message, an event. A bad line is reported, an
//! unfinished last one too; neither stops the rest. It must not send.

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

/// Bytes of one line at most; a longer one is reported and left out.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// Bytes kept of what stands between two lines at most.
const AROUND_BYTES_MAX: usize = 64 << 10;

/// Characters of a refused type that its problem repeats.
const TYPE_CHARS_SHOWN: usize = 80;

/// Bytes of a problem at most: it may repeat what another program wrote.
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

/// Findings of which a file has any number: all are counted, the first `MAX` are kept.
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

    /// Number of findings.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first of them.
    #[must_use]
    pub fn named(&self) -> &[T] {
        &self.named
    }
}

/// Item read from one line.
pub(super) enum LineItem {
    Good(Content),
    Bad(BadLine),
    /// The last line ends in the middle.
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
    /// A line of a program's transcript, its text, and what stands before that.
    Entry(Program, Members, Box<RawValue>, String),
}

pub(super) struct SourceLines<'a> {
    reader: Box<dyn BufRead + Send + 'a>,
    name: String,
    /// The id of the only conversation, until it is used.
    session: Option<SessionId>,
    conversations: u64,
    /// The program whose lines these are, once one was recognised.
    program: Option<Program>,
    line: u64,
    bytes: u64,
    /// The line being read: a record may stand behind another one.
    rest: Option<Rest>,
    /// Text behind the last line that was taken: its end, and lines without content.
    around: String,
    private: Recogniser,
    /// Private parts of the last line.
    taken: Report,
    /// Replacements in the line, until its first record is taken.
    mended: Option<String>,
}

/// Remaining bytes of a line.
struct Rest {
    bytes: Vec<u8>,
    at: usize,
    /// True if the line has an end.
    whole: bool,
    /// True if a record of a transcript was in it.
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

    /// Text behind the last line.
    pub(super) fn around(&self) -> &str {
        &self.around
    }

    /// Private parts of the last line, which are not in its item.
    pub(super) fn taken(&self) -> &Report {
        &self.taken
    }

    /// Replacements in the line of the last record, once for each line.
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
            let (before, line, _) = parts(rest.bytes.get(rest.at..).unwrap_or_default());
            if line.is_empty() {
                // The end of a line that gave nothing is none between two others.
                if rest.at == 0 || rest.given {
                    self.keep(before);
                }
                continue;
            }
            let (item, used) = self.item(line, rest.whole);
            let item = match item {
                LineItem::Good(Content::Entry(program, members, text, _)) => {
                    self.keep(before);
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

    /// The next line with its end; why it is left out.
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

    /// Keeps what stands around lines, as far as one event holds it.
    fn keep(&mut self, bytes: &[u8]) {
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

    /// First item of a line, and its number of bytes.
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
            let session = self.name_of(None)?;
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
            let session = self.name_of(id)?;
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

    fn name_of(&mut self, id: Option<String>) -> Result<SessionId, String> {
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

/// Text before a line's content, the content, and the text behind it. Byte order marks and the zero
/// bytes that a crash of a file system leaves are no content.
fn parts(bytes: &[u8]) -> (&[u8], &[u8], &[u8]) {
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

/// A session id made from a text: the text itself where it is valid; otherwise its valid characters
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
    fn lines_of_other_programs_and_our_own_are_distinguished() {
        let claude = r#"{"type":"summary","leafUuid":"u"}"#;
        let codex = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{}}"#;
        let odd = r#"{"kind":"nobody knows"}"#;
        assert_eq!(names(&format!("{claude}\n{odd}\n[1")), ["claude-code", "claude-code", "torn"]);
        assert_eq!(names(&format!("{odd}\n{codex}\n{odd}")), ["bad 1", "codex", "codex"]);
        let ours = r#"{"type":"user.message","timestamp":"x"}"#;
        assert_eq!(names(ours), ["event"]);
    }

    #[test]
    fn bad_lines_are_reported_and_a_torn_last_line_is_no_bad_one() {
        let text = "nonsense\n{\"x\":1}\n{\"messages\":3}\n{\"role\":\"user\"}\n{\"role\":\"us";
        assert_eq!(names(text), ["bad 1", "bad 2", "bad 3", "message", "torn"]);
        assert_eq!(names("{\"type\":\"a b\"}"), ["bad 1"], "no type of ours");
        assert_eq!(names("{\"role\":\"user\"}\nnonsense"), ["message", "bad 2"]);
        assert_eq!(names("{\"role\":\"user\"}"), ["message"], "a whole line may lack its end");
    }

    #[test]
    fn any_text_names_a_session_of_its_own() {
        let (kept, same) = session_id("airline-46-3");
        assert_eq!((kept.as_str(), same), ("airline-46-3", true));
        let texts = ["a/b", "a b", "a:b", "", "é", "--", &"x".repeat(500), &"x".repeat(501)];
        let ids: std::collections::BTreeSet<String> =
            texts.iter().map(|text| session_id(text).0.to_string()).collect();
        assert_eq!(ids.len(), texts.len(), "{ids:?}");
    }
}
