//! Converts transcripts of agents' programs, line by line, to events and back. A line is stored
//! whole, so that an export equals the imported file. Its id is derived from its text and the
//! number of earlier occurrences, so that a repeated import adds only new lines, even where a
//! resumed file repeats its beginning. It must not do I/O.

use std::collections::{HashMap, VecDeque};

use super::{
    claude::ClaudeState,
    codex::{self, CodexState},
    draft::{ASIDE, EventDraft, IdSource, RecordName, new_draft, rewound_event, time_head},
    fitting,
    members::{JsonMembers, ObjectWriter, canonical_text, merge, quote},
    requests::{self, Sidechains},
    route::LineTree,
};
use crate::event::{Timestamp, kinds, push_bounded};

/// Maximum lines whose event ids are kept in memory: a compaction may name recent ones.
const RECENT_MAX: usize = 10_000;

/// Format of the lines of a subagent's own file: they are not lines of the session's transcript.
const SUBAGENT_FORMAT: &str = "claude-code-subagent";

/// Maximum requests whose report may still change, and maximum summaries that are kept.
const OPEN_MAX: usize = 4;
const SUMMARIES_MAX: usize = 100;

/// The program that wrote a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptProgram {
    /// JSON lines of Claude Code.
    ClaudeCode,
    /// A rollout of Codex.
    Codex,
}

impl TranscriptProgram {
    /// Returns the name of the program in formats and metadata.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Returns the program that wrote a line; `None` for other forms.
    pub(super) fn from_line(line: &JsonMembers) -> Option<Self> {
        if codex::is_legacy(line) {
            return Some(Self::Codex);
        }
        line.text("type")?;
        let has = |name: &&str| line.raw(name).is_some();
        if ["sessionId", "uuid", "leafUuid", "messageId"].iter().any(has) {
            return Some(Self::ClaudeCode);
        }
        has(&"payload").then_some(Self::Codex)
    }

    pub(super) fn session_id(self, line: &JsonMembers) -> Option<String> {
        match self {
            Self::ClaudeCode => line.text("sessionId"),
            Self::Codex => codex::session_id(line),
        }
    }

    /// Returns the working directory in a line.
    pub(super) fn directory(self, line: &JsonMembers) -> Option<String> {
        match self {
            Self::ClaudeCode => line.text("cwd"),
            Self::Codex => codex::directory(line),
        }
    }
}

/// State of one transcript, whose lines are passed in order.
#[derive(Clone, Debug)]
pub struct Transcript {
    program: TranscriptProgram,
    /// Id of the subagent whose own file it is.
    subagent: Option<String>,
    pub(super) claude: ClaudeState,
    codex: CodexState,
    sidechains: Sidechains,
    /// Id of the subagent that wrote the current line; `None` for the session's agent.
    thread: Option<String>,
    /// Number of occurrences of each line, by its short hash.
    seen: HashMap<[u8; 12], u32>,
    /// The time of the latest line that has one: a line without a time has this one.
    at: Option<String>,
    recent: VecDeque<RecentLine>,
    /// Id of the first event of the last line.
    last: Option<String>,
    route: LineTree,
    /// Latest reports of requests that later lines may still replace.
    requests: VecDeque<EventDraft>,
    titles: TitleEvents,
    /// Whole result for the next line, which has only its beginning.
    pub(super) apart: Option<String>,
}

/// Ids of the events that may name a transcript.
#[derive(Clone, Debug, Default)]
struct TitleEvents {
    /// The title that the user set, and the one that the program made.
    given: Option<String>,
    made: Option<String>,
    /// For each summary, the `uuid` of its line, perhaps of another transcript, and its event.
    summaries: VecDeque<(String, String)>,
    /// The first message with text that the user typed.
    prompt: Option<String>,
}

/// The events of a line that has a `uuid`.
#[derive(Clone, Debug)]
struct RecentLine {
    uuid: String,
    first: String,
    last: String,
}

impl Transcript {
    /// Creates the state of a transcript without lines.
    #[must_use]
    pub fn new(program: TranscriptProgram) -> Self {
        Self {
            program,
            subagent: None,
            claude: ClaudeState::default(),
            codex: CodexState::default(),
            sidechains: Sidechains::default(),
            thread: None,
            seen: HashMap::new(),
            at: None,
            recent: VecDeque::new(),
            last: None,
            route: LineTree::default(),
            requests: VecDeque::new(),
            titles: TitleEvents::default(),
            apart: None,
        }
    }

    /// Creates the state of a subagent's own transcript without lines.
    pub(super) fn for_subagent(id: &str) -> Self {
        Self { subagent: Some(id.to_owned()), ..Self::new(TranscriptProgram::ClaudeCode) }
    }

    /// Returns the format of its lines.
    fn format(&self) -> &'static str {
        if self.subagent.is_some() { SUBAGENT_FORMAT } else { self.program.as_str() }
    }

    /// Returns the program that wrote the transcript.
    #[must_use]
    pub fn program(&self) -> TranscriptProgram {
        self.program
    }

    /// Removes and returns the runs that a compaction line keeps: ids of first and last event.
    pub(super) fn take_preserved(&mut self, line: &JsonMembers) -> Vec<(String, String)> {
        let preserved = self.claude.take_preserved(line);
        if preserved.is_empty() {
            return Vec::new();
        }
        let at = |uuid: &str| self.recent.iter().rposition(|line| line.uuid == uuid);
        let mut indexes: Vec<(usize, usize)> = preserved
            .iter()
            .filter_map(|run| Some((at(&run.head)?, at(&run.tail)?)))
            .filter(|(head, tail)| head <= tail)
            .collect();
        indexes.sort_unstable();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (head, tail) in indexes {
            match runs.last_mut() {
                Some((_, last)) if head <= *last + 1 => *last = tail.max(*last),
                _ => runs.push((head, tail)),
            }
        }
        let ids = |(head, tail)| {
            let (head, tail) = (self.recent.get(head)?, self.recent.get(tail)?);
            Some((head.first.clone(), tail.last.clone()))
        };
        runs.into_iter().filter_map(ids).collect()
    }

    /// Returns first and last line of each prompt that a compaction line of Codex keeps.
    pub(super) fn kept_lines(&self, line: &JsonMembers) -> Vec<(u64, u64)> {
        match self.program {
            TranscriptProgram::ClaudeCode => Vec::new(),
            TranscriptProgram::Codex => self.codex.kept_lines(line),
        }
    }

    /// Sets the positions that the next compaction keeps.
    pub(super) fn set_kept(&mut self, kept: Vec<(u64, u64)>) {
        match self.program {
            TranscriptProgram::ClaudeCode => self.claude.kept = kept,
            TranscriptProgram::Codex => self.codex.kept = kept,
        }
    }

    /// Records number and parent of the next line, before [`Self::process_line`].
    pub(super) fn record_line(&mut self, line: &JsonMembers, number: u64) {
        match self.program {
            TranscriptProgram::ClaudeCode => self.route.add_line(line, number),
            TranscriptProgram::Codex => self.codex.set_line_number(number),
        }
    }

    /// Returns first and last line number of each run that was withdrawn from the conversation.
    pub(super) fn withdrawn_lines(&self) -> Vec<(u64, u64)> {
        match self.program {
            TranscriptProgram::ClaudeCode => self.route.withdrawn_lines(),
            TranscriptProgram::Codex => self.codex.withdrawn_lines().to_vec(),
        }
    }

    /// Returns the id of the event with the title, and false if it is only the first prompt.
    pub(super) fn title_event(&self) -> Option<(&str, bool)> {
        let TitleEvents { given, made, summaries, prompt } = &self.titles;
        let own = summaries.iter().rev().find(|(leaf, _)| self.route.contains(leaf));
        let own = own.map(|(_, id)| id);
        let name = given.as_ref().or(made.as_ref()).or(own);
        name.or(prompt.as_ref()).map(|id| (id.as_str(), name.is_some()))
    }

    /// Removes and returns the usage reports that later lines do not replace; without a line, all
    /// of them. The report of a line from another transcript is ignored.
    pub(super) fn finished_reports(
        &mut self,
        line: Option<&JsonMembers>,
        is_own: bool,
    ) -> Vec<EventDraft> {
        let own = line.filter(|_| is_own);
        let report = own.and_then(|line| {
            usage_report(self.program, line, self.thread.clone(), self.codex.model.as_deref())
        });
        if let Some(report) = report {
            self.requests.retain(|one| one.id != report.id);
            self.requests.push_back(named_by_content(report));
        }
        let left = if line.is_some() { OPEN_MAX } else { 0 };
        let done = self.requests.len().saturating_sub(left);
        self.requests.drain(..done).collect()
    }

    /// Returns true if no line with a time was recorded.
    pub(super) fn is_untimed(&self) -> bool {
        self.at.is_none()
    }

    /// Records the time of a line, if it has one, for the next lines without.
    pub(super) fn record_time(&mut self, line: &JsonMembers) {
        self.at = time_text(line).or(self.at.take());
    }

    /// Returns the event with the ranges that were withdrawn from the conversation.
    pub(super) fn rewound_event(&self, withdrawn: &[(u64, u64)]) -> EventDraft {
        rewound_event(withdrawn, self.at.as_deref())
    }

    /// Returns the events of the next line. `before` is the text between it and the line before.
    #[must_use]
    pub fn process_line(
        &mut self,
        line: &JsonMembers,
        text: &str,
        before: &str,
    ) -> Vec<EventDraft> {
        self.record_time(line);
        self.thread = self.subagent.clone().or_else(|| self.sidechains.thread_of(line));
        let is_first = self.last.is_none();
        let unusual = before != usual_separator(is_first);
        // This record is in the same line as the previous one.
        let joined = !is_first && !before.contains('\n');
        let drafts =
            self.make_drafts(line, text, RecordPrefix { text: unusual.then_some(before), joined });
        self.last = drafts.first().map(|draft| draft.id.clone());
        self.record_title_event(line, &drafts);
        if let (Some(uuid), Some(first), Some(last)) =
            (line.text("uuid"), drafts.first(), drafts.last())
        {
            let (first, last) = (first.id.clone(), last.id.clone());
            push_bounded(&mut self.recent, RecentLine { uuid, first, last }, RECENT_MAX);
        }
        drafts
    }

    /// Returns the event that stores the text after the last line.
    pub(super) fn end_event(&self, after: &str) -> Option<EventDraft> {
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 end of a transcript");
        hasher.update(self.last.as_ref()?.as_bytes());
        hasher.update(after.as_bytes());
        let hash = hasher.finalize().to_hex().chars().take(24).collect();
        let id = RecordName { name: "end-".to_owned(), hash }.part_id('.', 0);
        let mut body = time_head(self.at.as_deref());
        body.add("raw_format", &quote(self.program.as_str()));
        body.add("raw_after", &quote(after));
        Some(named_by_content(new_draft(&id, kinds::TRANSCRIPT_ENTRY, &body.finish())))
    }

    fn record_title_event(&mut self, line: &JsonMembers, drafts: &[EventDraft]) {
        let Some(first) = drafts.first().map(|draft| draft.id.clone()) else { return };
        let has = |name: &str| line.text(name).is_some_and(|title| !title.trim().is_empty());
        let titles = &mut self.titles;
        match line.text("type").as_deref() {
            Some("custom-title") if has("customTitle") => titles.given = Some(first),
            Some("ai-title") if has("aiTitle") => titles.made = Some(first),
            Some("summary") if has("summary") => {
                let Some(leaf) = line.text("leafUuid") else { return };
                push_bounded(&mut titles.summaries, (leaf, first), SUMMARIES_MAX);
            }
            _ if titles.prompt.is_none() => {
                let prompt = drafts.iter().find(|draft| draft.is_prompt());
                titles.prompt = prompt.map(|draft| draft.id.clone());
            }
            _ => {}
        }
    }

    fn make_drafts(
        &mut self,
        line: &JsonMembers,
        text: &str,
        before: RecordPrefix<'_>,
    ) -> Vec<EventDraft> {
        let id = self.unique_name(line, text);
        let bodies = match self.program {
            TranscriptProgram::ClaudeCode => self.claude.bodies(line, self.thread.is_some()),
            TranscriptProgram::Codex => self.codex.bodies(line),
        };
        let apart = self.apart.take();
        let whole = |(kind, body): (&'static str, ObjectWriter)| match &apart {
            Some(text) if kind == kinds::AGENT_TOOL_RESULT => {
                (kind, fitting::with_whole_result(body, text))
            }
            _ => (kind, body.finish()),
        };
        let bodies: Vec<(&str, String)> = bodies.into_iter().map(whole).collect();
        let made = |first: usize, has_raw: bool| {
            let draft = |(part, (kind, body)): (usize, &(&str, String))| {
                let mut whole = self.event_head(line);
                if part == 0 && has_raw {
                    whole.add("raw", text);
                    before.add(&mut whole);
                } else {
                    whole.add("raw_in", "true");
                }
                whole.add("raw_format", &quote(self.format()));
                named_by_content(new_draft(
                    &id.part_id('.', first + part),
                    kind,
                    &merge(body, &whole.finish()),
                ))
            };
            bodies.iter().enumerate().map(draft).collect::<Vec<EventDraft>>()
        };
        let drafts = made(0, true);
        if !drafts.is_empty() && drafts.iter().all(|draft| draft.problem().is_none()) {
            return drafts;
        }
        // One event cannot hold both the line and its content, so they are stored separately.
        let mut drafts = self.entry_drafts(line, text, &id, before);
        let apart = made(drafts.len(), false).into_iter().filter_map(fitting::fit_draft);
        drafts.extend(apart);
        drafts
    }

    /// Returns the members that each event of a line has; a missing time is the previous one.
    fn event_head(&self, line: &JsonMembers) -> ObjectWriter {
        head_at(self.at.as_deref(), line, self.thread.clone())
    }

    /// Returns the name of a line, with the number of its occurrence. The session id is ignored: a
    /// program that resumes a session in another file may repeat the line there.
    fn unique_name(&mut self, line: &JsonMembers, text: &str) -> RecordName {
        let (short, mut name) = name_of_line(line, text);
        if let Some(subagent) = &self.subagent {
            let hash = blake3::hash(format!("{subagent} {}", name.hash).as_bytes());
            let hash = hash.to_hex().chars().take(24).collect();
            name = RecordName { name: ASIDE.to_owned(), hash };
        }
        let times = self.seen.entry(short).or_default();
        *times += 1;
        if *times > 1 {
            name.hash += &format!("-{times}");
        }
        name
    }

    /// Returns the events that store a line without content: the whole line, or pieces of its text.
    fn entry_drafts(
        &self,
        line: &JsonMembers,
        text: &str,
        id: &RecordName,
        before: RecordPrefix<'_>,
    ) -> Vec<EventDraft> {
        let head = || {
            let mut body = self.event_head(line);
            body.add("raw_format", &quote(self.format()));
            body
        };
        let mut body = head();
        before.add(&mut body);
        body.add("entry", text);
        let whole = named_by_content(new_draft(
            &id.part_id('.', 0),
            kinds::TRANSCRIPT_ENTRY,
            &body.finish(),
        ));
        if whole.problem().is_none() {
            return vec![whole];
        }
        let pieces = fitting::split_pieces(text);
        let piece = |(part, piece): (usize, &&str)| {
            let mut body = head();
            if part == 0 {
                before.add(&mut body);
            }
            fitting::add_piece(&mut body, (part, piece), pieces.len());
            named_by_content(new_draft(
                &id.part_id('.', part),
                kinds::TRANSCRIPT_ENTRY,
                &body.finish(),
            ))
        };
        pieces.iter().enumerate().map(piece).collect()
    }
}

/// Text between a record and the previous one, if unusual.
#[derive(Clone, Copy)]
struct RecordPrefix<'a> {
    text: Option<&'a str>,
    /// True if the record is in the same line as the previous one.
    joined: bool,
}

impl RecordPrefix<'_> {
    fn add(self, body: &mut ObjectWriter) {
        self.text.iter().for_each(|before| body.add("raw_before", &quote(before)));
        if self.joined {
            body.add("raw_joined", "true");
        }
    }
}

fn named_by_content(draft: EventDraft) -> EventDraft {
    EventDraft { named: IdSource::Content, ..draft }
}

/// Returns the event of the usage report in a line, with an id derived from the request's. `model`
/// is that of the turn, for a program whose reports do not name it.
pub(super) fn usage_report(
    program: TranscriptProgram,
    line: &JsonMembers,
    thread: Option<String>,
    model: Option<&str>,
) -> Option<EventDraft> {
    let (request, members) = match program {
        TranscriptProgram::ClaudeCode => requests::claude_report(line)?,
        TranscriptProgram::Codex => requests::codex_report(line, model)?,
    };
    let mut whole = line_head(line, thread);
    whole.add("recorded_from", "\"transcript\"");
    members.iter().for_each(|(name, value)| whole.add(name, value));
    let hash = blake3::hash(request.as_bytes()).to_hex().chars().take(24).collect();
    let id = RecordName { name: "usage-".to_owned(), hash }.part_id('.', 0);
    Some(new_draft(&id, kinds::SPAN_MODEL_REQUEST_END, &whole.finish()))
}

/// Returns a short hash and the name of a line, both without regard to its session id.
pub(super) fn name_of_line(line: &JsonMembers, text: &str) -> ([u8; 12], RecordName) {
    let rest = line.without(&["sessionId"]);
    let meaning =
        canonical_text(&rest).unwrap_or_else(|| if rest == "{}" { text.to_owned() } else { rest });
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 line of a transcript");
    hasher.update(meaning.as_bytes());
    let hash = hasher.finalize();
    let short = *hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    (short, RecordName { name: "line-".to_owned(), hash: hash.to_hex().chars().take(24).collect() })
}

/// Returns the time of a line as it has it, if it is valid.
fn time_text(line: &JsonMembers) -> Option<String> {
    line.text("timestamp").filter(|time| Timestamp::parse(time).is_some())
}

/// Returns the members that each event of a line has: its time, its id, its parent's id and the
/// subagent's.
pub(super) fn line_head(line: &JsonMembers, thread: Option<String>) -> ObjectWriter {
    head_at(time_text(line).as_deref(), line, thread)
}

fn head_at(at: Option<&str>, line: &JsonMembers, thread: Option<String>) -> ObjectWriter {
    let mut head = time_head(at);
    for (from, to) in [("uuid", "uuid"), ("parentUuid", "parent_uuid")] {
        if let Some(value) = line.non_null(from) {
            head.add(to, value.get());
        }
    }
    thread.into_iter().for_each(|thread| head.add("session_thread_id", &quote(&thread)));
    head
}

/// Returns the usual text between two lines, or before the first.
pub(super) fn usual_separator(first: bool) -> &'static str {
    if first { "" } else { "\n" }
}

/// Writer of a transcript's lines from the events of its session.
#[derive(Debug)]
pub struct TranscriptLines {
    program: TranscriptProgram,
    text: String,
    begun: bool,
    before: String,
    /// True if the record is in the same line as the one before it.
    joined: bool,
    /// Text after the last line, if it is not the usual newline.
    after: Option<String>,
}

impl TranscriptLines {
    /// Creates a writer for a session that was imported from a transcript of the program.
    #[must_use]
    pub fn new(program: TranscriptProgram) -> Self {
        let (text, before) = (String::new(), String::new());
        Self { program, text, begun: false, before, joined: false, after: None }
    }

    /// Adds an event; returns the line that it completes, as the text before it and its text.
    pub fn add_event(&mut self, event: &JsonMembers) -> Option<(String, String)> {
        if event.text("raw_format").as_deref() != Some(self.program.as_str()) {
            return None;
        }
        if let Some(after) = event.text("raw_after") {
            self.after = Some(after);
            return None;
        }
        if let Some(before) = event.text("raw_before") {
            self.before = before;
        }
        self.joined |= event.raw("raw_joined").is_some();
        let line = self.complete_line(event)?;
        let mut before = std::mem::take(&mut self.before);
        let joined = std::mem::take(&mut self.joined);
        // The line before may have been the last of a file, without its newline.
        if !joined && (before.is_empty() || self.begun && !before.contains('\n')) {
            before.insert_str(0, usual_separator(!self.begun));
        }
        (self.begun, self.after) = (true, None);
        Some((before, line))
    }

    /// Returns the text after the last line.
    #[must_use]
    pub fn trailing_text(self) -> String {
        let usual = || usual_separator(!self.begun).to_owned();
        self.after.unwrap_or_else(usual)
    }

    fn complete_line(&mut self, event: &JsonMembers) -> Option<String> {
        if let (Some(piece), Some(pieces)) = (event.value("piece"), event.value("pieces")) {
            self.text.push_str(&event.text("text").unwrap_or_default());
            let last = piece.as_u64().map(|piece| piece + 1) == pieces.as_u64();
            return last.then(|| std::mem::take(&mut self.text));
        }
        event.raw("raw").or_else(|| event.raw("entry")).map(|line| line.get().to_owned())
    }
}
