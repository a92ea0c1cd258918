//! Content of a program's transcript that its hooks do not report: the agent's messages between
//! calls, calls that failed or were refused, the user's text with a refusal, and usage of requests.
//! Whole lines are read from a byte offset on, each with the id of an import. It must not open a
//! file, nor return what a hook records.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    claude::{Claude, is_true},
    codex::{self, Codex},
    draft::{Draft, event},
    lines::LINE_BYTES_MAX,
    members::{Members, Object, quote, text_of},
    queue,
    records::{self, NextRecord},
    requests::SYNTHETIC,
    route::LineTree,
    transcript::{Program, head, name_of_line, report},
};
use crate::{
    event::{Timestamp, kinds},
    secrets::{Masked, Recogniser, Report as Taken},
};

/// Most bytes read at once, and most events made of them.
pub const TAIL_BYTES: usize = 4 << 20;
const EVENTS_MAX: usize = 500;
/// Bytes before an offset that identify the transcript, and the members in them that are hashed:
/// none from a content, which the log may have to erase.
const CHECKED_BYTES: u64 = 4 << 10;
const CHECKED: [&str; 2] = ["\"timestamp\":\"", "\"uuid\":\""];
/// Most bytes before an offset that are read again for calls open there.
const OPEN_BYTES: u64 = 1 << 20;
/// Most bytes before the end of a transcript that are searched for a branch.
const ROUTE_BYTES: u64 = 16 << 20;

/// Offset up to which a transcript was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPlace {
    /// The byte offset.
    pub bytes: u64,
    /// A hash of the times and `uuid`s of lines before it.
    pub check: String,
    /// The `uuid` of the last line of the conversation before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
    /// The byte offset of the oldest line of Codex before it whose call has no output yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<u64>,
    /// Reason for which the transcript was read from its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Again>,
}

/// Change of a transcript since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// It ends before the offset.
    Shorter,
    /// It has other bytes before the offset.
    Rewritten,
}

/// Content of the lines after an offset.
#[derive(Clone, Debug, Default)]
pub struct NewLines {
    /// Offset up to which it is read now.
    pub place: ReadPlace,
    /// The branch of the repository, if the program records it.
    pub branch: Option<Masked>,
    /// The texts of the events: messages of the agent, queued prompts, failed calls and their
    /// results, and reports of requests. A hook may also have recorded a call, its result, or both.
    pub events: Vec<String>,
    /// The prompts of the transcript, if one of them replaced an earlier one: the typed text, and
    /// whether it was withdrawn from the conversation.
    pub prompts: Vec<(String, bool)>,
}

/// Returns the end of a transcript.
///
/// # Errors
/// The error of the source.
pub fn end(source: &mut (impl Read + Seek)) -> io::Result<ReadPlace> {
    let bytes = source.seek(SeekFrom::End(0))?;
    Ok(ReadPlace { bytes, check: check(source, bytes)?, ..ReadPlace::default() })
}

/// Returns the end of a transcript that begins with a copy of another session's; else `None`.
///
/// # Errors
/// The error of the source.
pub fn end_of_copy(source: &mut (impl Read + Seek)) -> io::Result<Option<ReadPlace>> {
    source.seek(SeekFrom::Start(0))?;
    let mut first = Vec::new();
    BufReader::new(source.take(TAIL_BYTES as u64)).read_until(b'\n', &mut first)?;
    let head = records_of(&first).first().and_then(|head| Members::read(head).ok());
    if head.is_some_and(|head| codex::is_fork(&head)) { end(source).map(Some) } else { Ok(None) }
}

/// Decides if a line may be read, by its time and its directory if it has them.
pub type MayRead<'a> = dyn Fn(Option<Timestamp>, Option<&str>) -> bool + 'a;

/// Reads the lines after an offset, up to [`TAIL_BYTES`]; from the beginning without an offset, or
/// if the transcript was rewritten. An unfinished last line is left for the next call. Private text
/// in a line is not read, as in an import, and only text that the secret rules judged as a whole is
/// kept.
///
/// # Errors
/// The error of the source.
pub fn since(
    source: &mut (impl Read + Seek),
    program: Program,
    place: Option<&ReadPlace>,
    may_read: &MayRead<'_>,
    secrets: &Recogniser,
) -> io::Result<NewLines> {
    let size = source.seek(SeekFrom::End(0))?;
    let again = match place {
        Some(place) if place.bytes > size => Some(Again::Shorter),
        Some(place) if check(source, place.bytes)? != place.check => Some(Again::Rewritten),
        _ => None,
    };
    let from = place.filter(|_| again.is_none()).map_or(0, |place| place.bytes);
    let open = place.filter(|_| again.is_none()).and_then(|place| place.open);
    let begin = open.filter(|open| *open < from && from - open <= OPEN_BYTES).unwrap_or(from);
    let bytes_max = TAIL_BYTES + usize::try_from(from - begin).unwrap_or_default();
    source.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    source.take(bytes_max as u64).read_to_end(&mut bytes)?;
    let private = Recogniser::of_private_spans();
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let lines: Vec<(usize, Vec<CleanRecord>)> = whole
        .map(|line| {
            let text = String::from_utf8_lossy(line);
            let records = records_of(text.as_bytes()).into_iter();
            (line.len(), records.filter_map(|text| CleanRecord::read(text, &private)).collect())
        })
        .collect();
    let mut said = TailReader {
        program,
        claude: Claude::default(),
        codex: Codex::default(),
        secrets,
        may_read,
        leaf: place.filter(|_| again.is_none()).and_then(|place| place.leaf.clone()),
        is_branch: false,
        branch: None,
        events: Vec::new(),
        calls: BTreeMap::new(),
        at: begin,
    };
    let mut read = 0;
    for (place, (length, records)) in lines.iter().enumerate() {
        if said.events.len() >= EVENTS_MAX {
            break;
        }
        let later = || lines.iter().skip(place + 1).flat_map(|(_, records)| records);
        records.iter().for_each(|record| said.record(record, later()));
        if said.at < from {
            // Its events are already recorded.
            said.events.clear();
        } else {
            read += length;
        }
        said.at += *length as u64;
    }
    // A line longer than one read is reported in an event and skipped.
    let mut long = None;
    if read == 0 && bytes.len() == bytes_max {
        long = long_line(source, from)?;
        said.events.extend(long.map(|bytes| skipped_line_event(from, bytes)));
    }
    let bytes = from + long.unwrap_or(read as u64);
    let prompts = match said.is_branch || said.codex.rolled_back() {
        true => prompts(source, bytes, program, secrets)?,
        false => Vec::new(),
    };
    let open = said.calls.values().map(|call| call.line);
    let open = open.filter(|open| bytes - open <= OPEN_BYTES).min();
    let open = open.filter(|_| program == Program::Codex);
    let place = ReadPlace { bytes, check: check(source, bytes)?, leaf: said.leaf, open, again };
    let events = said.events.into_iter().map(|(_, event)| event).collect();
    Ok(NewLines { place, branch: said.branch, events, prompts })
}

/// Returns the length of a line that is longer than [`TAIL_BYTES`]; `None` while its newline is not
/// written. A line without one within [`LINE_BYTES_MAX`] counts as that long.
fn long_line(source: &mut (impl Read + Seek), from: u64) -> io::Result<Option<u64>> {
    source.seek(SeekFrom::Start(from))?;
    let mut source = BufReader::with_capacity(TAIL_BYTES, source.take(LINE_BYTES_MAX));
    let mut length = 0;
    loop {
        let part = source.fill_buf()?;
        let end = part.iter().position(|byte| *byte == b'\n');
        let read = end.map_or(part.len(), |end| end + 1);
        source.consume(read);
        length += read as u64;
        if end.is_some() || read == 0 {
            return Ok(Some(length).filter(|_| end.is_some() || length == LINE_BYTES_MAX));
        }
    }
}

/// Returns id and text of the event that reports a skipped line.
fn skipped_line_event(from: u64, bytes: u64) -> (String, String) {
    let id = format!("hook_skipped-{from}-{bytes}");
    let message = format!(
        "a line of the transcript has {bytes} bytes, more than the {TAIL_BYTES} that a hook reads: \
         import the transcript to record it"
    );
    let error = json!({ "type": "line_skipped", "message": message, "bytes": bytes, "at": from });
    let event = json!({
        "id": id, "type": kinds::SESSION_ERROR, "error": error, "recorded_from": "transcript",
    });
    (id, event.to_string())
}

/// Returns the prompts before an offset, and whether each was withdrawn.
fn prompts(
    source: &mut (impl Read + Seek),
    bytes: u64,
    program: Program,
    secrets: &Recogniser,
) -> io::Result<Vec<(String, bool)>> {
    let from = bytes.saturating_sub(ROUTE_BYTES);
    source.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    source.take(bytes - from).read_to_end(&mut text)?;
    let (mut route, mut codex, mut prompts) = (LineTree::default(), Codex::default(), Vec::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        for text in records_of(line) {
            let Ok(line) = Members::read(&text) else { continue };
            let words = match program {
                Program::ClaudeCode => {
                    route.take(&line, number);
                    LineTree::prompt(&line)
                }
                Program::Codex => codex.prompt(&line, number),
            };
            prompts.extend(words.map(|words| (number, words)));
        }
    }
    let withdrawn = [route.withdrawn(), codex.withdrawn().to_vec()].concat();
    let is_gone = |at| withdrawn.iter().any(|(first, last)| (*first..=*last).contains(&at));
    // Masked, as hooks recorded them.
    let masked = |words: &str| secrets.masked(words).into_text();
    Ok(prompts.iter().map(|(at, words)| (masked(words), is_gone(*at))).collect())
}

/// Returns the whole records of a line.
fn records_of(line: &[u8]) -> Vec<String> {
    let (mut records, mut rest) = (Vec::new(), line.trim_ascii());
    while !rest.is_empty() {
        let used = match records::next(rest) {
            NextRecord::Record(record, used) => {
                records.push(record.get().to_owned());
                used
            }
            NextRecord::Bad(_, used) => used,
            NextRecord::Cut => rest.len(),
        };
        rest = rest.get(used..).unwrap_or_default().trim_ascii_start();
    }
    records
}

/// Hashes the times and `uuid`s among the last bytes before an offset.
fn check(source: &mut (impl Read + Seek), bytes: u64) -> io::Result<String> {
    let from = bytes.saturating_sub(CHECKED_BYTES);
    source.seek(SeekFrom::Start(from))?;
    let mut before = Vec::new();
    source.take(bytes - from).read_to_end(&mut before)?;
    let text = String::from_utf8_lossy(&before);
    let mut hasher = blake3::Hasher::new();
    for name in CHECKED {
        for (at, _) in text.match_indices(name) {
            let value = text.get(at + name.len()..).and_then(|rest| rest.split('"').next());
            hasher.update(value.unwrap_or_default().as_bytes()).update(b"\0");
        }
    }
    Ok(hasher.finalize().to_hex().chars().take(16).collect())
}

/// A record without its private text.
struct CleanRecord {
    line: Members,
    text: String,
    taken: Taken,
}

impl CleanRecord {
    fn read(text: String, private: &Recogniser) -> Option<Self> {
        let mut taken = Taken::default();
        let text = private.json(&text, &mut taken).unwrap_or(text);
        Some(Self { line: Members::read(&text).ok()?, text, taken })
    }
}

struct TailReader<'a> {
    program: Program,
    claude: Claude,
    codex: Codex,
    secrets: &'a Recogniser,
    may_read: &'a MayRead<'a>,
    /// The `uuid` of the last line of the conversation.
    leaf: Option<String>,
    /// True if a prompt follows a line other than that.
    is_branch: bool,
    branch: Option<Masked>,
    /// Ids and texts.
    events: Vec<(String, String)>,
    /// Calls without a result so far, by id.
    calls: BTreeMap<String, OpenCall>,
    /// The byte offset of the current line.
    at: u64,
}

/// A call without a result.
struct OpenCall {
    /// The byte offset of its line.
    line: u64,
    /// The id and the text of its event.
    event: (String, String),
}

impl TailReader<'_> {
    /// Reads the events of a record, in the order of the transcript; skips a subagent's.
    fn record<'b>(
        &mut self,
        record: &CleanRecord,
        mut later: impl Iterator<Item = &'b CleanRecord>,
    ) {
        let CleanRecord { line, text, taken } = record;
        let at = line.text("timestamp").as_deref().and_then(Timestamp::parse);
        if !(self.may_read)(at, line.text("cwd").as_deref()) {
            return;
        }
        let (bodies, may_type) = match self.program {
            Program::ClaudeCode if is_true(line, "isSidechain") => return,
            Program::ClaudeCode => {
                if !self.follow_line(line) {
                    return;
                }
                if let Some(words) = self.claude.leaving(line) {
                    // If no line decides it yet, a line that delivers the text is still to come.
                    let told = later.find_map(|later| queue::delivers(&words, line, &later.line));
                    if told != Some(false) {
                        self.claude.repeat();
                    }
                }
                // Hooks report every other prompt.
                let kind = line.text("type").unwrap_or_default();
                (self.claude.bodies(line), kind == "attachment" || kind == "queue-operation")
            }
            Program::Codex => (self.codex.bodies(line), false),
        };
        let name = name_of_line(line, text).1;
        let is_claude = self.program == Program::ClaudeCode;
        let is_note = line.text("type").as_deref() == Some("event_msg");
        let mut failed = false;
        for (part, (kind, body)) in bodies.into_iter().enumerate() {
            let body = Members::read(&body.finish()).unwrap_or_default();
            let mut whole = line_members(line);
            match kind {
                kinds::AGENT_TOOL_USE | kinds::AGENT_TOOL_RESULT => whole.add_all(&body),
                kinds::AGENT_MESSAGE | kinds::USER_MESSAGE => {
                    let words = body.non_null("content").map(text_of).unwrap_or_default();
                    if words.trim().is_empty() {
                        continue;
                    }
                    whole.add("content", &quote(&words));
                }
                _ => continue,
            }
            let event = self.masked(event(&name.part('.', part), kind, &whole.finish()), taken);
            let call = body.text("call_id").unwrap_or_default();
            match kind {
                kinds::AGENT_TOOL_USE => {
                    self.calls.insert(call, OpenCall { line: self.at, event });
                }
                // Hooks report a call that succeeded, and no call of a program of code mode.
                kinds::AGENT_TOOL_RESULT => {
                    let call = self.calls.remove(&call);
                    failed = is_true(&body, "is_error");
                    if failed || body.raw("within").is_some() {
                        let call = call.map(|call| call.event);
                        self.events.extend(call.into_iter().chain([event]));
                    }
                }
                // No hook reports the objective of a goal.
                kinds::USER_MESSAGE if !is_claude && is_note => self.events.push(event),
                kinds::AGENT_MESSAGE => self.events.push(event),
                // The user's text with a refusal is a string; a prompt is in blocks.
                kinds::USER_MESSAGE if may_type || failed && body.text("content").is_some() => {
                    self.events.push(event);
                }
                _ => {}
            }
        }
        if let Some(report) = report(self.program, line) {
            // Of the lines of one message, the last counts.
            self.events.retain(|(id, _)| *id != report.id);
            let report = self.masked(report, &Taken::default());
            self.events.push(report);
        }
    }

    /// Returns the id of an event, and its text without secrets.
    fn masked(&self, event: Draft, taken: &Taken) -> (String, String) {
        (event.id, self.secrets.masked(&event.text).into_event(taken))
    }

    /// Follows the conversation of Claude Code; returns true if the line may have events.
    fn follow_line(&mut self, line: &Members) -> bool {
        let is_known = self.leaf.is_some() && line.raw("parentUuid").is_some();
        if is_known && LineTree::prompt(line).is_some() {
            self.is_branch |= line.text("parentUuid") != self.leaf;
        }
        self.leaf = line.text("uuid").or(self.leaf.take());
        if line.text("type").as_deref() != Some("assistant") {
            return true;
        }
        let message = line.non_null("message").map(|message| Members::read(message.get()));
        let Some(Ok(message)) = message else { return false };
        let branch = line.text("gitBranch").map(|branch| self.secrets.masked(&branch));
        self.branch = branch.or(self.branch.take());
        message.text("model").as_deref() != Some(SYNTHETIC)
    }
}

/// Returns the members of every event of a line: its time and ids, and its source.
fn line_members(line: &Members) -> Object {
    let mut whole = head(line);
    whole.add("recorded_from", "\"transcript\"");
    whole
}
