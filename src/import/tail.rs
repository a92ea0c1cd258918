//! Reads events from a program's transcript that its hooks do not report: the agent's messages
//! between calls, calls that failed or were refused, the user's text with a refusal, and usage of
//! requests. Whole lines are read from a byte offset on; events get the ids that an import gives.
//! It must not open a file, nor return an event that a hook records.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    claude::{ClaudeState, is_true},
    codex::{self, CodexState, RolloutCompaction, RunOutcome},
    draft::{EventDraft, new_draft},
    lines::LINE_BYTES_MAX,
    members::{JsonMembers, ObjectWriter, content_text, quote},
    queue,
    records::{self, NextRecord},
    requests::{SYNTHETIC, thread_of},
    route::LineTree,
    transcript::{TranscriptProgram, line_head, name_of_line, usage_report},
};
use crate::{
    event::{Timestamp, kinds},
    secrets::{MaskedText, MaskingReport, Recogniser},
};

/// Maximum bytes that are read at once, and maximum events made from them.
pub const TAIL_BYTES: usize = 4 << 20;
const EVENTS_MAX: usize = 500;
/// Bytes before an offset that are checked for changes, and the members in them that are hashed: no
/// content, which the log may have to erase.
const CHECKED_BYTES: u64 = 4 << 10;
const CHECKED: [&str; 2] = ["\"timestamp\":\"", "\"uuid\":\""];
/// Maximum bytes before an offset that are read again for calls without a result.
const OPEN_BYTES: u64 = 1 << 20;
/// Maximum bytes before the end of a transcript that are searched for withdrawn prompts.
const ROUTE_BYTES: u64 = 16 << 20;

/// Offset up to which a transcript was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOffset {
    /// Byte offset.
    pub bytes: u64,
    /// Hash of the times and `uuid`s of lines before the offset.
    pub check: String,
    /// `uuid` of the last line of the conversation before the offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
    /// Byte offset of the oldest line of Codex before the offset whose call has no output yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<u64>,
    /// Name of the model before the offset, if only the context of a turn has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reason for which the transcript was read from its beginning again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<TranscriptChange>,
}

/// Change of a transcript since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptChange {
    /// It ends before the offset.
    Shorter,
    /// It has other bytes before the offset.
    Rewritten,
}

/// Content of the lines after an offset.
#[derive(Clone, Debug, Default)]
pub struct NewLines {
    /// Offset up to which the transcript is read now.
    pub place: ReadOffset,
    /// Branch of the repository, if the program records it.
    pub branch: Option<MaskedText>,
    /// Events as JSON: messages of the agent, queued prompts, failed calls and their results, and
    /// usage reports. A hook may also have recorded a call or its result.
    pub events: Vec<String>,
    /// Prompts of the transcript, if one of them replaced an earlier one: the typed text, and true
    /// if it was withdrawn from the conversation.
    pub prompts: Vec<(String, bool)>,
}

/// Returns the read offset at the end of a transcript.
///
/// # Errors
/// The error of the source.
pub fn find_end(source: &mut (impl Read + Seek)) -> io::Result<ReadOffset> {
    let bytes = source.seek(SeekFrom::End(0))?;
    Ok(ReadOffset { bytes, check: hash_before(source, bytes)?, ..ReadOffset::default() })
}

/// Returns the outcome of a call of Codex, if one of the latest lines of its rollout reports it.
///
/// # Errors
/// The error of the source.
pub fn find_outcome(source: &mut (impl Read + Seek), call: &str) -> io::Result<Option<RunOutcome>> {
    let size = source.seek(SeekFrom::End(0))?;
    source.seek(SeekFrom::Start(size.saturating_sub(OPEN_BYTES)))?;
    let mut bytes = Vec::new();
    source.take(OPEN_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().rev().filter(|line| line.contains(call));
    Ok(lines.find_map(|line| codex::outcome_of_call(&JsonMembers::read(line).ok()?, call)))
}

/// Returns the latest compaction in a rollout of Codex after an offset.
///
/// # Errors
/// The error of the source.
pub fn find_compaction(
    source: &mut (impl Read + Seek),
    place: Option<&ReadOffset>,
) -> io::Result<Option<RolloutCompaction>> {
    let size = source.seek(SeekFrom::End(0))?;
    let from = place.map_or(0, |place| place.bytes).max(size.saturating_sub(ROUTE_BYTES));
    source.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    source.take(ROUTE_BYTES).read_to_end(&mut bytes)?;
    let private = Recogniser::private_spans_only();
    let records = bytes.rsplit(|byte| *byte == b'\n').flat_map(split_records);
    let mut records = records.filter_map(|text| CleanRecord::read(text, &private));
    Ok(records.find_map(|record| RolloutCompaction::read(&record.line)))
}

/// Returns the read offset at the end of a transcript that begins with a copy of another session's;
/// `None` for any other.
///
/// # Errors
/// The error of the source.
pub fn find_end_of_copy(source: &mut (impl Read + Seek)) -> io::Result<Option<ReadOffset>> {
    source.seek(SeekFrom::Start(0))?;
    let mut first = Vec::new();
    BufReader::new(source.take(TAIL_BYTES as u64)).read_until(b'\n', &mut first)?;
    let head = split_records(&first).first().and_then(|head| JsonMembers::read(head).ok());
    if head.is_some_and(|head| codex::is_fork(&head)) {
        find_end(source).map(Some)
    } else {
        Ok(None)
    }
}

/// Returns true if a line may be read, by its time and its directory if it has them.
pub type MayRead<'a> = dyn Fn(Option<Timestamp>, Option<&str>) -> bool + 'a;

/// Reads the lines after an offset, up to [`TAIL_BYTES`]; from the beginning without an offset, or
/// if the transcript was rewritten. An unfinished last line is left for the next call. Private text
/// is removed as in an import, and secrets are masked in the whole text of an event.
///
/// # Errors
/// The error of the source.
pub fn read_since(
    source: &mut (impl Read + Seek),
    program: TranscriptProgram,
    place: Option<&ReadOffset>,
    may_read: &MayRead<'_>,
    secrets: &Recogniser,
) -> io::Result<NewLines> {
    let size = source.seek(SeekFrom::End(0))?;
    let again = match place {
        Some(place) if place.bytes > size => Some(TranscriptChange::Shorter),
        Some(place) if hash_before(source, place.bytes)? != place.check => {
            Some(TranscriptChange::Rewritten)
        }
        _ => None,
    };
    let known = place.filter(|_| again.is_none());
    let from = known.map_or(0, |place| place.bytes);
    let open = known.and_then(|place| place.open);
    let begin = open.filter(|open| *open < from && from - open <= OPEN_BYTES).unwrap_or(from);
    let bytes_max = TAIL_BYTES + usize::try_from(from - begin).unwrap_or_default();
    source.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    source.take(bytes_max as u64).read_to_end(&mut bytes)?;
    let private = Recogniser::private_spans_only();
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let lines: Vec<(usize, Vec<CleanRecord>)> = whole
        .map(|line| {
            let text = String::from_utf8_lossy(line);
            let records = split_records(text.as_bytes()).into_iter();
            (line.len(), records.filter_map(|text| CleanRecord::read(text, &private)).collect())
        })
        .collect();
    let mut reader = TailReader::new(program, known, begin, (may_read, secrets));
    let mut read = 0;
    for (index, (length, records)) in lines.iter().enumerate() {
        if reader.events.len() >= EVENTS_MAX {
            break;
        }
        let later = || lines.iter().skip(index + 1).flat_map(|(_, records)| records);
        records.iter().for_each(|record| reader.read_record(record, later()));
        if reader.at < from {
            // The events of this line are recorded already.
            reader.events.clear();
        } else {
            read += length;
        }
        reader.at += *length as u64;
    }
    // A line longer than one read is reported in an event and skipped.
    let mut long = None;
    if read == 0 && bytes.len() == bytes_max {
        long = long_line_length(source, from)?;
        reader.events.extend(long.map(|bytes| skipped_line_event(from, bytes)));
    }
    let bytes = from + long.unwrap_or(read as u64);
    let prompts = match reader.is_branch || reader.codex.is_rolled_back() {
        true => read_prompts(source, bytes, program, secrets)?,
        false => Vec::new(),
    };
    let open = reader.calls.values().map(|call| call.line);
    let open = open.filter(|open| bytes - open <= OPEN_BYTES).min();
    let open = open.filter(|_| program == TranscriptProgram::Codex);
    let place = ReadOffset {
        bytes,
        check: hash_before(source, bytes)?,
        leaf: reader.leaf,
        open,
        model: reader.codex.model,
        again,
    };
    let events = reader.events.into_iter().map(|(_, event)| event).collect();
    Ok(NewLines { place, branch: reader.branch, events, prompts })
}

/// Returns the length of a line that is longer than [`TAIL_BYTES`], at most [`LINE_BYTES_MAX`];
/// `None` for a shorter line whose newline is not written yet.
fn long_line_length(source: &mut (impl Read + Seek), from: u64) -> io::Result<Option<u64>> {
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

/// Returns the prompts before an offset, with true for a withdrawn one.
fn read_prompts(
    source: &mut (impl Read + Seek),
    bytes: u64,
    program: TranscriptProgram,
    secrets: &Recogniser,
) -> io::Result<Vec<(String, bool)>> {
    let from = bytes.saturating_sub(ROUTE_BYTES);
    source.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    source.take(bytes - from).read_to_end(&mut text)?;
    let (mut route, mut codex, mut prompts) =
        (LineTree::default(), CodexState::default(), Vec::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        for text in split_records(line) {
            let Ok(line) = JsonMembers::read(&text) else { continue };
            let text = match program {
                TranscriptProgram::ClaudeCode => {
                    route.add_line(&line, number);
                    LineTree::prompt_text(&line)
                }
                TranscriptProgram::Codex => codex.prompt_text(&line, number),
            };
            prompts.extend(text.map(|text| (number, text)));
        }
    }
    let withdrawn = [route.withdrawn_lines(), codex.withdrawn_lines().to_vec()].concat();
    let is_withdrawn = |at| withdrawn.iter().any(|(first, last)| (*first..=*last).contains(&at));
    // Hooks recorded the prompts masked.
    let masked = |text: &str| secrets.mask(text).into_text();
    Ok(prompts.iter().map(|(at, text)| (masked(text), is_withdrawn(*at))).collect())
}

/// Returns the texts of the whole records of a line.
fn split_records(line: &[u8]) -> Vec<String> {
    let (mut records, mut rest) = (Vec::new(), line.trim_ascii());
    while !rest.is_empty() {
        let used = match records::next_record(rest) {
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
fn hash_before(source: &mut (impl Read + Seek), bytes: u64) -> io::Result<String> {
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
    line: JsonMembers,
    text: String,
    taken: MaskingReport,
}

impl CleanRecord {
    fn read(text: String, private: &Recogniser) -> Option<Self> {
        let mut taken = MaskingReport::default();
        let text = private.mask_json(&text, &mut taken).unwrap_or(text);
        Some(Self { line: JsonMembers::read(&text).ok()?, text, taken })
    }
}

struct TailReader<'a> {
    program: TranscriptProgram,
    claude: ClaudeState,
    codex: CodexState,
    secrets: &'a Recogniser,
    may_read: &'a MayRead<'a>,
    /// `uuid` of the last line of the conversation.
    leaf: Option<String>,
    /// True if the parent of a prompt is another line than the last one.
    is_branch: bool,
    branch: Option<MaskedText>,
    /// Events, each as its id and its text.
    events: Vec<(String, String)>,
    /// Calls without a result so far, by id.
    calls: BTreeMap<String, UnfinishedCall>,
    /// Byte offset of the current line.
    at: u64,
}

/// A call without a result.
struct UnfinishedCall {
    /// Byte offset of its line.
    line: u64,
    /// Id and text of its event.
    event: (String, String),
}

impl<'a> TailReader<'a> {
    /// Creates a reader of the lines from a byte offset on, which continues from a read offset.
    fn new(
        program: TranscriptProgram,
        known: Option<&ReadOffset>,
        at: u64,
        (may_read, secrets): (&'a MayRead<'a>, &'a Recogniser),
    ) -> Self {
        Self {
            program,
            claude: ClaudeState::default(),
            codex: CodexState::with_model(known.and_then(|place| place.model.clone())),
            secrets,
            may_read,
            leaf: known.and_then(|place| place.leaf.clone()),
            is_branch: false,
            branch: None,
            events: Vec::new(),
            calls: BTreeMap::new(),
            at,
        }
    }
}

impl TailReader<'_> {
    /// Reads the events of a record; skips a record of a subagent of Claude Code.
    fn read_record<'b>(
        &mut self,
        record: &CleanRecord,
        mut later: impl Iterator<Item = &'b CleanRecord>,
    ) {
        let CleanRecord { line, text, taken } = record;
        if !(self.may_read)(line.time(), line.text("cwd").as_deref()) {
            return;
        }
        let (bodies, may_type) = match self.program {
            // Hooks report what a subagent does, but for its tokens.
            TranscriptProgram::ClaudeCode if thread_of(line).is_some() => (Vec::new(), false),
            TranscriptProgram::ClaudeCode => {
                if !self.follow_line(line) {
                    return;
                }
                if let Some(text) = self.claude.dequeued_text(line) {
                    // If no line decides it, a line that delivers the text is not written yet.
                    let delivered =
                        later.find_map(|later| queue::is_delivered_by(&text, line, &later.line));
                    if delivered != Some(false) {
                        self.claude.mark_delivered();
                    }
                }
                // Hooks report every other prompt.
                let kind = line.text("type").unwrap_or_default();
                (self.claude.bodies(line, false), kind == "attachment" || kind == "queue-operation")
            }
            TranscriptProgram::Codex => (self.codex.bodies(line), false),
        };
        let name = name_of_line(line, text).1;
        let is_claude = self.program == TranscriptProgram::ClaudeCode;
        let is_note = line.text("type").as_deref() == Some("event_msg");
        let mut failed = false;
        for (part, (kind, body)) in bodies.into_iter().enumerate() {
            let body = JsonMembers::read(&body.finish()).unwrap_or_default();
            let mut whole = line_members(line);
            match kind {
                kinds::AGENT_TOOL_USE | kinds::AGENT_TOOL_RESULT => whole.add_all(&body),
                kinds::AGENT_MESSAGE | kinds::USER_MESSAGE => {
                    let text = body.non_null("content").map(content_text).unwrap_or_default();
                    if text.trim().is_empty() {
                        continue;
                    }
                    whole.add("content", &quote(&text));
                }
                _ => continue,
            }
            let event =
                self.mask(new_draft(&name.part_id('.', part), kind, &whole.finish()), taken);
            let call = body.text("call_id").unwrap_or_default();
            match kind {
                kinds::AGENT_TOOL_USE => {
                    self.calls.insert(call, UnfinishedCall { line: self.at, event });
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
        if let Some(report) =
            usage_report(self.program, line, thread_of(line), self.codex.model.as_deref())
        {
            // The report of a request's last line replaces the earlier ones.
            self.events.retain(|(id, _)| *id != report.id);
            let report = self.mask(report, &MaskingReport::default());
            self.events.push(report);
        }
    }

    /// Returns the id of an event, and its text with secrets masked.
    fn mask(&self, event: EventDraft, taken: &MaskingReport) -> (String, String) {
        (event.id, self.secrets.mask(&event.text).into_event(taken))
    }

    /// Records parent and branch of a line of Claude Code; returns true if it may have events.
    fn follow_line(&mut self, line: &JsonMembers) -> bool {
        let is_known = self.leaf.is_some() && line.raw("parentUuid").is_some();
        if is_known && LineTree::prompt_text(line).is_some() {
            self.is_branch |= line.text("parentUuid") != self.leaf;
        }
        self.leaf = line.text("uuid").or(self.leaf.take());
        if line.text("type").as_deref() != Some("assistant") {
            return true;
        }
        let message = line.non_null("message").map(|message| JsonMembers::read(message.get()));
        let Some(Ok(message)) = message else { return false };
        let branch = line.text("gitBranch").map(|branch| self.secrets.mask(&branch));
        self.branch = branch.or(self.branch.take());
        message.text("model").as_deref() != Some(SYNTHETIC)
    }
}

/// Returns the members that each event of a line has: time, ids and source.
fn line_members(line: &JsonMembers) -> ObjectWriter {
    let mut whole = line_head(line, None);
    whole.add("recorded_from", "\"transcript\"");
    whole
}
