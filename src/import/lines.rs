//! Splits a source into lines and classifies each as a conversation, a message, an event or a line
//! of a transcript. A bad line or an unfinished last one is reported, and the import continues. It
//! must not send requests.

use std::io::{self, BufRead, Read};

use serde_json::value::RawValue;

use super::{
    JsonMembers,
    members::parse_list,
    openai::ConversationFields,
    records::{self, NextRecord},
    responses,
    transcript::TranscriptProgram,
};
use crate::{
    event::{EventType, SessionId},
    secrets::{MaskingReport, Recogniser},
};

/// Maximum bytes of a line; a longer one is reported and left out.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// Maximum bytes of the text between two lines that are stored.
const BETWEEN_BYTES_MAX: usize = 64 << 10;

/// Maximum characters of a rejected type that the problem quotes.
const TYPE_CHARS_SHOWN: usize = 80;

/// Maximum bytes of a problem, which may quote another program's text.
const PROBLEM_BYTES_MAX: usize = 400;

/// A line of a source or of its subagents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePlace {
    /// Number of the subagent's file among those of the source, from 1; 0 for the source itself.
    pub file: usize,
    /// Line number, from 1.
    pub number: u64,
}

/// A line that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line.
    pub place: LinePlace,
    /// Reason for which it was left out.
    pub problem: String,
    /// The session of a whole conversation that was left out.
    pub session: Option<SessionId>,
}

impl BadLine {
    pub(super) fn new(place: LinePlace, mut problem: String, session: Option<SessionId>) -> Self {
        problem.truncate(problem.floor_char_boundary(PROBLEM_BYTES_MAX));
        Self { place, problem, session }
    }
}

/// A list of at most `MAX` items; further items are only counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CappedList<T, const MAX: usize> {
    count: u64,
    items: Vec<T>,
}

impl<T, const MAX: usize> Default for CappedList<T, MAX> {
    fn default() -> Self {
        Self { count: 0, items: Vec::new() }
    }
}

impl<T, const MAX: usize> CappedList<T, MAX> {
    pub(super) fn push(&mut self, one: T) {
        self.count += 1;
        if self.items.len() < MAX {
            self.items.push(one);
        }
    }

    /// Returns the number of all items.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first items, at most `MAX`.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

/// A record as it was read.
pub(super) struct ReadLine {
    pub(super) item: LineItem,
    pub(super) place: LinePlace,
    /// Counts of private text that was removed.
    pub(super) taken: MaskingReport,
    /// Message about replaced bytes.
    pub(super) mended: Option<BadLine>,
}

/// Result of reading one record.
pub(super) enum LineItem {
    Good(LineContent),
    Bad(BadLine),
    /// The last line is incomplete.
    Torn,
}

pub(super) enum LineContent {
    Conversation {
        session: SessionId,
        about: ConversationFields,
        messages: Vec<Box<RawValue>>,
    },
    Message(Box<RawValue>),
    Event(JsonMembers),
    /// A line of a program's transcript, its text, and the text before it.
    Entry(TranscriptProgram, JsonMembers, Box<RawValue>, String),
}

pub(super) struct SourceLines<'a> {
    reader: Box<dyn BufRead + Send + 'a>,
    name: String,
    /// Session of the first conversation that has no id.
    session: Option<SessionId>,
    conversations: u64,
    /// Number of the file, as in [`LinePlace`].
    file: usize,
    /// The program that wrote the transcript, once a line of it was recognized.
    program: Option<TranscriptProgram>,
    line: u64,
    bytes: u64,
    /// Rest of the current line, which may have more records.
    rest: Option<LineRest>,
    /// Text since the last transcript record: its newline, and lines without content.
    between: String,
    private: Recogniser,
    /// Counts of private text that was removed from the last record.
    removed: MaskingReport,
    /// Message about replaced bytes in the line, until it is taken.
    replaced: Option<String>,
}

/// Remaining bytes of a line.
struct LineRest {
    bytes: Vec<u8>,
    at: usize,
    /// True if the line ends with a newline.
    whole: bool,
    /// True if a transcript record of the line was returned.
    has_entry: bool,
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
            file: 0,
            program: None,
            line: 0,
            bytes: 0,
            rest: None,
            between: String::new(),
            private: Recogniser::private_spans_only(),
            removed: MaskingReport::default(),
            replaced: None,
        }
    }

    /// Creates the lines of a subagent's file of Claude Code.
    pub(super) fn for_subagent(reader: Box<dyn BufRead + Send + 'a>, file: usize) -> Self {
        let program = Some(TranscriptProgram::ClaudeCode);
        Self { file, program, ..Self::new(reader, String::new(), None) }
    }

    /// Returns the text after the last transcript record.
    pub(super) fn trailing_text(&self) -> &str {
        &self.between
    }

    fn place(&self) -> LinePlace {
        LinePlace { file: self.file, number: self.line }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes
    }

    pub(super) fn next_line(&mut self) -> io::Result<Option<ReadLine>> {
        let Some(item) = self.next_item()? else { return Ok(None) };
        let replaced = self.replaced.take_if(|_| matches!(item, LineItem::Good(_)));
        let mended = replaced.map(|problem| BadLine::new(self.place(), problem, None));
        let (place, taken) = (self.place(), std::mem::take(&mut self.removed));
        Ok(Some(ReadLine { item, place, taken, mended }))
    }

    fn next_item(&mut self) -> io::Result<Option<LineItem>> {
        loop {
            let mut rest = match self.rest.take() {
                Some(rest) => rest,
                None => match self.read_line()? {
                    Ok(Some(rest)) => rest,
                    Ok(None) => return Ok(None),
                    Err(problem) => return Ok(Some(self.bad_item(problem))),
                },
            };
            let (before, line, _) = split_blanks(rest.bytes.get(rest.at..).unwrap_or_default());
            if line.is_empty() {
                // The newline of a line without a record does not separate two records.
                if rest.at == 0 || rest.has_entry {
                    self.collect_between(before);
                }
                continue;
            }
            let (item, used) = self.parse_item(line, rest.whole);
            let item = match item {
                LineItem::Good(LineContent::Entry(program, members, text, _)) => {
                    self.collect_between(before);
                    let before = std::mem::take(&mut self.between);
                    rest.has_entry = true;
                    LineItem::Good(LineContent::Entry(program, members, text, before))
                }
                other => other,
            };
            rest.at += before.len() + used;
            self.rest = Some(rest);
            return Ok(Some(item));
        }
    }

    /// Reads the next line with its newline; the inner error is the reason to leave it out.
    fn read_line(&mut self) -> io::Result<Result<Option<LineRest>, String>> {
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
        self.replaced = None;
        if let Err(error) = str::from_utf8(&bytes) {
            let at = error.valid_up_to();
            self.replaced = Some(format!("its byte {at} is not UTF-8: U+FFFD is in its place"));
            bytes = String::from_utf8_lossy(&bytes).into_owned().into_bytes();
        }
        Ok(Ok(Some(LineRest { bytes, at: 0, whole, has_entry: false })))
    }

    /// Appends text between records, up to the limit.
    fn collect_between(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        if self.between.len() + text.len() <= BETWEEN_BYTES_MAX {
            self.between.push_str(text);
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
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

    fn bad_item(&self, problem: String) -> LineItem {
        LineItem::Bad(BadLine::new(self.place(), problem, None))
    }

    /// Parses the first record of a line; also returns its length in bytes.
    fn parse_item(&mut self, line: &[u8], whole: bool) -> (LineItem, usize) {
        let (value, used) = match records::next_record(line) {
            NextRecord::Record(value, used) => (value, used),
            NextRecord::Bad(problem, used) => return (self.bad_item(problem), used),
            NextRecord::Cut if !whole => return (LineItem::Torn, line.len()),
            NextRecord::Cut => {
                return (self.bad_item("it ends within a record".to_owned()), line.len());
            }
        };
        self.removed = MaskingReport::default();
        let clean = self.private.mask_json(value.get(), &mut self.removed);
        let value = clean.and_then(|text| RawValue::from_string(text).ok()).unwrap_or(value);
        let item = match self.classify(value) {
            Ok(content) if self.file == 0 || matches!(content, LineContent::Entry(..)) => {
                LineItem::Good(content)
            }
            Ok(_) => self.bad_item("it is no line of a subagent's transcript".to_owned()),
            Err(problem) => self.bad_item(problem),
        };
        (item, used)
    }

    fn classify(&mut self, value: Box<RawValue>) -> Result<LineContent, String> {
        if value.get().starts_with('[') {
            let messages = parse_list(&value).ok_or("it is not a list of objects that fits")?;
            let session = self.session_for(None)?;
            return Ok(LineContent::Conversation {
                session,
                about: ConversationFields::for_array(),
                messages,
            });
        }
        let line = JsonMembers::read(value.get())
            .map_err(|_| "it is neither an object nor an array".to_owned())?;
        let foreign = || line.text("type").is_none_or(|kind| !kind.contains('.'));
        if let Some(program) = self.program.filter(|_| foreign()) {
            return Ok(LineContent::Entry(program, line, value, String::new()));
        }
        if let Some(messages) = line.non_null("messages") {
            let messages = parse_list(messages).ok_or("`messages` is not an array that fits")?;
            let id = line
                .non_null("id")
                .map(|id| line.text("id").unwrap_or_else(|| id.get().to_owned()));
            let session = self.session_for(id)?;
            return Ok(LineContent::Conversation {
                session,
                about: ConversationFields::from_object(&line),
                messages,
            });
        }
        if line.text("role").is_some() || responses::is_item(&line) {
            return Ok(LineContent::Message(value));
        }
        if let Some(program) = TranscriptProgram::from_line(&line).filter(|_| foreign()) {
            self.program = Some(program);
            return Ok(LineContent::Entry(program, line, value, String::new()));
        }
        match line.text("type") {
            Some(kind) => match EventType::new(&kind) {
                Ok(_) => Ok(LineContent::Event(line)),
                Err(why) => {
                    let begins: String = kind.chars().take(TYPE_CHARS_SHOWN).collect();
                    Err(format!("its `type` {begins:?} is none of an event: {why}"))
                }
            },
            None => Err("it has no `messages`, no `role` and no `type`".to_owned()),
        }
    }

    fn session_for(&mut self, id: Option<String>) -> Result<SessionId, String> {
        self.conversations += 1;
        match (id, &self.session) {
            (Some(id), _) => Ok(session_id_from(&id).0),
            (None, None) => Ok(session_id_from(&format!("{}-{}", self.name, self.line)).0),
            (None, Some(session)) if self.conversations == 1 => Ok(session.clone()),
            (None, Some(session)) => {
                Err(format!("it is a second conversation, and {session} is to hold one"))
            }
        }
    }
}

/// Splits a line into the blanks before its content, the content, and the blanks after it. Byte
/// order marks, and the zero bytes that a file system crash leaves, are blanks.
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

/// Derives a session id from a text: the text itself if it is valid, otherwise its valid characters
/// and a hash of it, so that two texts never share a session. Also returns true if it is unchanged.
pub(super) fn session_id_from(text: &str) -> (SessionId, bool) {
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
        std::iter::from_fn(|| lines.next_item().expect("memory is readable")).collect()
    }

    fn names(text: &str) -> Vec<String> {
        lines(text)
            .into_iter()
            .map(|item| match item {
                LineItem::Good(LineContent::Conversation { session, messages, .. }) => {
                    format!("{session}:{}", messages.len())
                }
                LineItem::Good(LineContent::Message(_)) => "message".to_owned(),
                LineItem::Good(LineContent::Event(_)) => "event".to_owned(),
                LineItem::Good(LineContent::Entry(program, ..)) => program.as_str().to_owned(),
                LineItem::Bad(bad) => format!("bad {}", bad.place.number),
                LineItem::Torn => "torn".to_owned(),
            })
            .collect()
    }

    #[test]
    fn each_form_of_a_line_is_classified() {
        let text = concat!(
            "{\"id\":\"a\",\"messages\":[{},{}]}\n\n[{}]\n{\"role\":\"user\"}\n",
            "{\"type\":\"user.message\"}\n{\"id\":7,\"messages\":[]}\n",
        );
        assert_eq!(names(text), ["a:2", "file-3:1", "message", "event", "7:0"]);
    }

    #[test]
    fn a_type_with_a_dot_makes_a_line_a_native_event_and_not_a_transcript_line() {
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
        let (kept, same) = session_id_from("airline-46-3");
        assert_eq!((kept.as_str(), same), ("airline-46-3", true));
        let texts = ["a/b", "a b", "a:b", "", "é", "--", &"x".repeat(500), &"x".repeat(501)];
        let ids: std::collections::BTreeSet<String> =
            texts.iter().map(|text| session_id_from(text).0.to_string()).collect();
        assert_eq!(ids.len(), texts.len(), "{ids:?}");
    }
}
