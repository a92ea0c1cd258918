//! Transcripts of agents' programs, line by line: the program that wrote a line, its events, and
//! lines from events. A line is stored whole, so that an export equals the imported file. Its id is
//! made from its text and the number of earlier occurrences, so that a repeated import adds only
//! new lines, even where a resumed file repeats its beginning. It must not do I/O.

use std::collections::{HashMap, VecDeque};

use super::{
    claude::Claude,
    codex::{self, Codex},
    draft::{Draft, NamedBy, RecordName, event},
    fitting,
    members::{Members, Object, canonical_text, joined, quote},
    requests,
    route::LineTree,
};
use crate::event::{Timestamp, kinds, push_bounded};

/// Most recent lines whose events are remembered: a compaction may keep some of them.
const RECENT_MAX: usize = 10_000;

/// Most requests that may get more lines, and most summaries that may belong to this transcript.
const OPEN_MAX: usize = 4;
const SUMMARIES_MAX: usize = 100;

/// The program that wrote a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// JSON lines of Claude Code.
    ClaudeCode,
    /// A rollout of Codex.
    Codex,
}

impl Program {
    /// Returns its name, as used for formats.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Returns the program that wrote a line; `None` for other forms.
    pub(super) fn from_line(line: &Members) -> Option<Self> {
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

    /// Returns the session id in a line.
    pub(super) fn session(self, line: &Members) -> Option<String> {
        match self {
            Self::ClaudeCode => line.text("sessionId"),
            Self::Codex => codex::session(line),
        }
    }

    /// Returns the working directory in a line.
    pub(super) fn directory(self, line: &Members) -> Option<String> {
        match self {
            Self::ClaudeCode => line.text("cwd"),
            Self::Codex => codex::directory(line),
        }
    }
}

/// State of one transcript, whose lines are passed in order.
#[derive(Clone, Debug)]
pub struct Transcript {
    program: Program,
    claude: Claude,
    codex: Codex,
    /// Number of occurrences of each line.
    seen: HashMap<[u8; 12], u32>,
    recent: VecDeque<Recent>,
    /// The id of the last line's first event.
    last: Option<String>,
    route: LineTree,
    /// Reports of requests: of the lines of one request, the last counts.
    requests: VecDeque<Draft>,
    titles: Titles,
    /// The whole result for the next line, which has only a part of it.
    apart: Option<String>,
}

/// Ids of the events that may name a transcript.
#[derive(Clone, Debug, Default)]
struct Titles {
    /// The name that the user gave, and the one that the program made.
    given: Option<String>,
    made: Option<String>,
    /// Summaries, each after the `uuid` of the line that it is of: maybe another transcript's.
    summaries: VecDeque<(String, String)>,
    /// The first message with text that the user typed.
    prompt: Option<String>,
}

/// The events of a line that has a `uuid`.
#[derive(Clone, Debug)]
struct Recent {
    uuid: String,
    first: String,
    last: String,
}

impl Transcript {
    /// Returns a transcript without lines.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            claude: Claude::default(),
            codex: Codex::default(),
            seen: HashMap::new(),
            recent: VecDeque::new(),
            last: None,
            route: LineTree::default(),
            requests: VecDeque::new(),
            titles: Titles::default(),
            apart: None,
        }
    }

    /// Returns its program.
    #[must_use]
    pub fn program(&self) -> Program {
        self.program
    }

    /// Returns the first and last events of the runs that a compaction line keeps in the context.
    pub(super) fn preserved(&mut self, line: &Members) -> Vec<(String, String)> {
        let preserved = self.claude.preserved(line);
        if preserved.is_empty() {
            return Vec::new();
        }
        let at = |uuid: &str| self.recent.iter().rposition(|line| line.uuid == uuid);
        let mut places: Vec<(usize, usize)> = preserved
            .iter()
            .filter_map(|run| Some((at(&run.head)?, at(&run.tail)?)))
            .filter(|(head, tail)| head <= tail)
            .collect();
        places.sort_unstable();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (head, tail) in places {
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

    /// Sets the positions of kept lines, before the compaction line is processed.
    pub(super) fn keep(&mut self, kept: Vec<(u64, u64)>) {
        self.claude.keep(kept);
    }

    /// Returns the user's text that leaves the queue with a line, unless an earlier line delivered
    /// it.
    pub(super) fn leaving(&self, line: &Members) -> Option<String> {
        self.claude.leaving(line)
    }

    /// Marks the text that leaves the queue with the next line as delivered by a later line.
    pub(super) fn repeat(&mut self) {
        self.claude.repeat();
    }

    /// Sets the whole result that the next line has a part of.
    pub(super) fn set_whole_result(&mut self, text: String) {
        self.apart = Some(text);
    }

    /// Records the next line's number and parent, before [`Self::line`].
    pub(super) fn note(&mut self, line: &Members, number: u64) {
        match self.program {
            Program::ClaudeCode => self.route.take(line, number),
            Program::Codex => self.codex.at_line(number),
        }
    }

    /// Returns the first and last line of each run withdrawn from the conversation.
    pub(super) fn withdrawn(&self) -> Vec<(u64, u64)> {
        match self.program {
            Program::ClaudeCode => self.route.withdrawn(),
            Program::Codex => self.codex.withdrawn().to_vec(),
        }
    }

    /// Returns the event that names the transcript, and whether it is an explicit name.
    pub(super) fn title(&self) -> Option<(&str, bool)> {
        let Titles { given, made, summaries, prompt } = &self.titles;
        let own = summaries.iter().rev().find(|(leaf, _)| self.route.has(leaf));
        let own = own.map(|(_, id)| id);
        let name = given.as_ref().or(made.as_ref()).or(own);
        name.or(prompt.as_ref()).map(|id| (id.as_str(), name.is_some()))
    }

    /// Returns the reports of requests that later lines do not change; at the end all of them. Of a
    /// line from another transcript no report is kept.
    pub(super) fn reports(&mut self, line: Option<&Members>, is_own: bool) -> Vec<Draft> {
        let own = line.filter(|_| is_own);
        if let Some(report) = own.and_then(|line| report(self.program, line)) {
            self.requests.retain(|one| one.id != report.id);
            self.requests.push_back(named(report));
        }
        let left = if line.is_some() { OPEN_MAX } else { 0 };
        let done = self.requests.len().saturating_sub(left);
        self.requests.drain(..done).collect()
    }

    /// Returns the events of the next line. `before` is the text between it and the line before.
    #[must_use]
    pub fn line(&mut self, line: &Members, text: &str, before: &str) -> Vec<Draft> {
        let is_first = self.last.is_none();
        let unusual = before != usual_separator(is_first);
        // Another record of the same line.
        let joined = !is_first && !before.contains('\n');
        let drafts = self.drafts(line, text, Before { text: unusual.then_some(before), joined });
        self.last = drafts.first().map(|draft| draft.id.clone());
        self.note_title_event(line, &drafts);
        if let (Some(uuid), Some(first), Some(last)) =
            (line.text("uuid"), drafts.first(), drafts.last())
        {
            let (first, last) = (first.id.clone(), last.id.clone());
            push_bounded(&mut self.recent, Recent { uuid, first, last }, RECENT_MAX);
        }
        drafts
    }

    /// Returns the event that stores the text after the last line.
    pub(super) fn end(&self, after: &str) -> Option<Draft> {
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 end of a transcript");
        hasher.update(self.last.as_ref()?.as_bytes());
        hasher.update(after.as_bytes());
        let hash = hasher.finalize().to_hex().chars().take(24).collect();
        let id = RecordName { name: "end-".to_owned(), hash }.part('.', 0);
        let mut body = Object::new();
        body.add("raw_format", &quote(self.program.as_str()));
        body.add("raw_after", &quote(after));
        Some(named(event(&id, kinds::TRANSCRIPT_ENTRY, &body.finish())))
    }

    fn note_title_event(&mut self, line: &Members, drafts: &[Draft]) {
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

    fn drafts(&mut self, line: &Members, text: &str, before: Before<'_>) -> Vec<Draft> {
        let id = self.name(line, text);
        let bodies = match self.program {
            Program::ClaudeCode => self.claude.bodies(line),
            Program::Codex => self.codex.bodies(line),
        };
        let apart = self.apart.take();
        let whole = |(kind, body): (&'static str, Object)| match &apart {
            Some(text) if kind == kinds::AGENT_TOOL_RESULT => {
                (kind, fitting::with_whole_result(body, text))
            }
            _ => (kind, body.finish()),
        };
        let bodies: Vec<(&str, String)> = bodies.into_iter().map(whole).collect();
        let made = |first: usize, has_raw: bool| {
            let draft = |(part, (kind, body)): (usize, &(&str, String))| {
                let mut whole = self.head(line);
                if part == 0 && has_raw {
                    whole.add("raw", text);
                    before.add(&mut whole);
                } else {
                    whole.add("raw_in", "true");
                }
                whole.add("raw_format", &quote(self.program.as_str()));
                named(event(&id.part('.', first + part), kind, &joined(body, &whole.finish())))
            };
            bodies.iter().enumerate().map(draft).collect::<Vec<Draft>>()
        };
        let drafts = made(0, true);
        if !drafts.is_empty() && drafts.iter().all(|draft| draft.too_much().is_none()) {
            return drafts;
        }
        // Stores the line separately from its content: one event cannot hold both.
        let mut drafts = self.entry(line, text, &id, before);
        let apart = made(drafts.len(), false).into_iter().filter_map(fitting::fitted);
        drafts.extend(apart);
        drafts
    }

    /// Returns the members of every event of a line; a line without a time gets the previous time.
    fn head(&self, line: &Members) -> Object {
        let mut head = head(line);
        if let Some(at) = self.codex.time_of(line) {
            head.add("created_at", &quote(at));
        }
        head
    }

    /// Returns the id of a line. The session id in the line is ignored, because a program that
    /// resumes a session in another file may repeat the line there.
    fn name(&mut self, line: &Members, text: &str) -> RecordName {
        let (short, mut name) = name_of_line(line, text);
        let times = self.seen.entry(short).or_default();
        *times += 1;
        if *times > 1 {
            name.hash += &format!("-{times}");
        }
        name
    }

    /// Stores a line without events: whole, or as a text in pieces when it is too large.
    fn entry(&self, line: &Members, text: &str, id: &RecordName, before: Before<'_>) -> Vec<Draft> {
        let head = || {
            let mut body = self.head(line);
            body.add("raw_format", &quote(self.program.as_str()));
            body
        };
        let mut body = head();
        before.add(&mut body);
        body.add("entry", text);
        let whole = named(event(&id.part('.', 0), kinds::TRANSCRIPT_ENTRY, &body.finish()));
        if whole.too_much().is_none() {
            return vec![whole];
        }
        let pieces = fitting::pieces(text);
        let piece = |(part, piece): (usize, &&str)| {
            let mut body = head();
            if part == 0 {
                before.add(&mut body);
            }
            fitting::add_piece(&mut body, (part, piece), pieces.len());
            named(event(&id.part('.', part), kinds::TRANSCRIPT_ENTRY, &body.finish()))
        };
        pieces.iter().enumerate().map(piece).collect()
    }
}

/// Text before a record, if unusual.
#[derive(Clone, Copy)]
struct Before<'a> {
    text: Option<&'a str>,
    /// True if the record is in the same line as the one before it.
    joined: bool,
}

impl Before<'_> {
    fn add(self, body: &mut Object) {
        self.text.iter().for_each(|before| body.add("raw_before", &quote(before)));
        if self.joined {
            body.add("raw_joined", "true");
        }
    }
}

fn named(draft: Draft) -> Draft {
    Draft { named: NamedBy::Content, ..draft }
}

/// Returns the usage report in a line, with an id made from the request's.
pub(super) fn report(program: Program, line: &Members) -> Option<Draft> {
    let (request, members) = match program {
        Program::ClaudeCode => requests::of_claude(line)?,
        Program::Codex => requests::of_codex(line)?,
    };
    let mut whole = head(line);
    whole.add("recorded_from", "\"transcript\"");
    members.iter().for_each(|(name, value)| whole.add(name, value));
    let hash = blake3::hash(request.as_bytes()).to_hex().chars().take(24).collect();
    let id = RecordName { name: "usage-".to_owned(), hash }.part('.', 0);
    Some(event(&id, kinds::SPAN_MODEL_REQUEST_END, &whole.finish()))
}

/// Returns a short hash of a line, and its name. The session id in the line is ignored.
pub(super) fn name_of_line(line: &Members, text: &str) -> ([u8; 12], RecordName) {
    let rest = line.without(&["sessionId"]);
    let meaning =
        canonical_text(&rest).unwrap_or_else(|| if rest == "{}" { text.to_owned() } else { rest });
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 line of a transcript");
    hasher.update(meaning.as_bytes());
    let hash = hasher.finalize();
    let short = *hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    (short, RecordName { name: "line-".to_owned(), hash: hash.to_hex().chars().take(24).collect() })
}

/// Returns the members of every event of a line: its time, its id and its parent's.
pub(super) fn head(line: &Members) -> Object {
    let mut head = Object::new();
    let time = line.text("timestamp").filter(|time| Timestamp::parse(time).is_some());
    if let Some(time) = time {
        head.add("created_at", &quote(&time));
    }
    for (theirs, ours) in [("uuid", "uuid"), ("parentUuid", "parent_uuid")] {
        if let Some(value) = line.non_null(theirs) {
            head.add(ours, value.get());
        }
    }
    head
}

/// Returns the usual text between two lines, or before the first.
pub(super) fn usual_separator(first: bool) -> &'static str {
    if first { "" } else { "\n" }
}

/// Writer of a transcript's lines from the events of its session.
#[derive(Debug)]
pub struct TranscriptLines {
    program: Program,
    text: String,
    begun: bool,
    before: String,
    /// True if the record is in the same line as the one before it.
    joined: bool,
    /// Text after the last line, if it is not the usual newline.
    after: Option<String>,
}

impl TranscriptLines {
    /// Creates a writer for a session that was imported from a transcript of that program.
    #[must_use]
    pub fn new(program: Program) -> Self {
        let (text, before) = (String::new(), String::new());
        Self { program, text, begun: false, before, joined: false, after: None }
    }

    /// Returns the line that an event completes: the text before it, and its text.
    pub fn take(&mut self, event: &Members) -> Option<(String, String)> {
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
        let line = self.text_of(event)?;
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
    pub fn end(self) -> String {
        let usual = || usual_separator(!self.begun).to_owned();
        self.after.unwrap_or_else(usual)
    }

    fn text_of(&mut self, event: &Members) -> Option<String> {
        if let (Some(piece), Some(pieces)) = (event.value("piece"), event.value("pieces")) {
            self.text.push_str(&event.text("text").unwrap_or_default());
            let last = piece.as_u64().map(|piece| piece + 1) == pieces.as_u64();
            return last.then(|| std::mem::take(&mut self.text));
        }
        event.raw("raw").or_else(|| event.raw("entry")).map(|line| line.get().to_owned())
    }
}
