//! Transcripts of agents' programs, line by line: which program wrote it, the events of each line,
//! and the lines back. A line is kept whole, so that an export equals the imported file. Its id
//! comes from its text and how often that occurred before, so that importing again adds only what
//! is new, even where a resumed file repeats its beginning. It must not do I/O.

use std::collections::{HashMap, VecDeque};

use super::{
    claude::Claude,
    codex::{self, Codex},
    draft::{Draft, Name, Named, event},
    members::{Members, Object, meaning, quote},
};
use crate::event::{Timestamp, kinds, limits};

/// Bytes of one piece of a line that is too much for one event. Escaped as a text it may double.
const PIECE_BYTES: usize = 1 << 20;

/// Most latest lines whose events are remembered: a compaction may keep some of them.
const RECENT_MAX: usize = 10_000;

/// The program of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// JSON lines of Claude Code.
    ClaudeCode,
    /// A rollout of Codex.
    Codex,
}

impl Program {
    /// Its name, as formats are named.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// The program of a line that is not native.
    pub(super) fn of(line: &Members) -> Option<Self> {
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

    /// The session id in a line.
    pub(super) fn session(self, line: &Members) -> Option<String> {
        match self {
            Self::ClaudeCode => line.text("sessionId"),
            Self::Codex => codex::session(line),
        }
    }

    /// The working directory in a line.
    pub(super) fn directory(self, line: &Members) -> Option<String> {
        match self {
            Self::ClaudeCode => line.text("cwd"),
            Self::Codex => codex::directory(line),
        }
    }
}

/// The lines of one transcript, in order.
#[derive(Clone, Debug)]
pub struct Transcript {
    program: Program,
    claude: Claude,
    codex: Codex,
    /// How often each line was there.
    seen: HashMap<[u8; 12], u32>,
    recent: VecDeque<Recent>,
    /// The id of the last line.
    last: Option<String>,
}

/// The events of a line that has a name of its own.
#[derive(Clone, Debug)]
struct Recent {
    uuid: String,
    first: String,
    last: String,
}

impl Transcript {
    /// A transcript without a line yet.
    #[must_use]
    pub fn new(program: Program) -> Self {
        let (claude, codex) = (Claude::default(), Codex::default());
        let (seen, recent) = (HashMap::new(), VecDeque::new());
        Self { program, claude, codex, seen, recent, last: None }
    }

    /// Its program.
    #[must_use]
    pub fn program(&self) -> Program {
        self.program
    }

    /// The first and last events of the runs that a compaction line keeps in the context.
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

    /// Sets the positions of kept lines, before the line is taken.
    pub(super) fn keep(&mut self, kept: Vec<(u64, u64)>) {
        self.claude.keep(kept);
    }

    /// The events of the next line. `before` stands between its text and that of the line before.
    #[must_use]
    pub fn line(&mut self, line: &Members, text: &str, before: &str) -> Vec<Draft> {
        let unusual = before != usual(self.last.is_none());
        let drafts = self.drafts(line, text, unusual.then_some(before));
        self.last = drafts.first().map(|draft| draft.id.clone());
        if let (Some(uuid), Some(first), Some(last)) =
            (line.text("uuid"), drafts.first(), drafts.last())
        {
            if self.recent.len() == RECENT_MAX {
                self.recent.pop_front();
            }
            let (first, last) = (first.id.clone(), last.id.clone());
            self.recent.push_back(Recent { uuid, first, last });
        }
        drafts
    }

    /// The event of what stands behind the last line.
    pub(super) fn end(&self, after: &str) -> Option<Draft> {
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 end of a transcript");
        hasher.update(self.last.as_ref()?.as_bytes());
        hasher.update(after.as_bytes());
        let hash = hasher.finalize().to_hex().chars().take(24).collect();
        let id = Name { name: "end-".to_owned(), hash }.part('.', 0);
        let mut body = Object::new();
        body.add("raw_format", &quote(self.program.as_str()));
        body.add("raw_after", &quote(after));
        Some(named(event(&id, kinds::TRANSCRIPT_ENTRY, &body.finish())))
    }

    fn drafts(&mut self, line: &Members, text: &str, before: Option<&str>) -> Vec<Draft> {
        let id = self.name(line, text);
        let bodies = match self.program {
            Program::ClaudeCode => self.claude.bodies(line),
            Program::Codex => self.codex.bodies(line),
        };
        let mut drafts = Vec::with_capacity(bodies.len());
        for (part, (kind, body)) in bodies.into_iter().enumerate() {
            let mut whole = self.head(line);
            if part == 0 {
                whole.add("raw", text);
                before.iter().for_each(|before| whole.add("raw_before", &quote(before)));
            } else {
                whole.add("raw_in", "true");
            }
            whole.add("raw_format", &quote(self.program.as_str()));
            let id = id.part('.', part);
            drafts.push(named(event(&id, kind, &joined(&body.finish(), &whole.finish()))));
        }
        if drafts.is_empty() || drafts.iter().any(|draft| draft.too_much().is_some()) {
            return self.entry(line, text, &id, before);
        }
        drafts
    }

    /// Members of every event of a line, one without a time at the time of the line before it.
    fn head(&self, line: &Members) -> Object {
        let mut head = head(line);
        if let Some(at) = self.codex.time_of(line) {
            head.add("created_at", &quote(at));
        }
        head
    }

    /// The id of a line. The session in it does not count, because a program that resumes a session
    /// in another file may repeat the line there.
    fn name(&mut self, line: &Members, text: &str) -> Name {
        let (short, mut name) = name_of_line(line, text);
        let times = self.seen.entry(short).or_default();
        *times += 1;
        if *times > 1 {
            name.hash += &format!("-{times}");
        }
        name
    }

    /// A line stored without events: whole, or as a text in pieces when it is too large.
    fn entry(&self, line: &Members, text: &str, id: &Name, before: Option<&str>) -> Vec<Draft> {
        let head = || {
            let mut body = self.head(line);
            body.add("raw_format", &quote(self.program.as_str()));
            body
        };
        let mut body = head();
        before.iter().for_each(|before| body.add("raw_before", &quote(before)));
        body.add("entry", text);
        let whole = named(event(&id.part('.', 0), kinds::TRANSCRIPT_ENTRY, &body.finish()));
        if whole.too_much().is_none() {
            return vec![whole];
        }
        let pieces = pieces(text);
        let count = pieces.len().to_string();
        let piece = |(part, piece): (usize, &&str)| {
            let mut body = head();
            let before = before.filter(|_| part == 0);
            before.iter().for_each(|before| body.add("raw_before", &quote(before)));
            body.add("piece", &part.to_string());
            body.add("pieces", &count);
            body.add("text", &quote(piece));
            named(event(&id.part('.', part), kinds::TRANSCRIPT_ENTRY, &body.finish()))
        };
        pieces.iter().enumerate().map(piece).collect()
    }
}

fn named(draft: Draft) -> Draft {
    Draft { named: Named::ByItself, ..draft }
}

/// A short hash of a line, and its name by one. The session in the line does not count.
pub(super) fn name_of_line(line: &Members, text: &str) -> ([u8; 12], Name) {
    let meaning = meaning(&line.without(&["sessionId"])).unwrap_or_else(|| text.to_owned());
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 line of a transcript");
    hasher.update(meaning.as_bytes());
    let hash = hasher.finalize();
    let short = *hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    (short, Name { name: "line-".to_owned(), hash: hash.to_hex().chars().take(24).collect() })
}

/// Members of every event of a line: its time, and the line it follows.
pub(super) fn head(line: &Members) -> Object {
    let mut head = Object::new();
    let time = line.text("timestamp").filter(|time| Timestamp::parse(time).is_some());
    if let Some(time) = time {
        head.add("created_at", &quote(&time));
    }
    for (theirs, ours) in [("uuid", "uuid"), ("parentUuid", "parent_uuid")] {
        if let Some(value) = line.some(theirs) {
            head.add(ours, value.get());
        }
    }
    head
}

/// One object of the members of two.
fn joined(one: &str, other: &str) -> String {
    match (one, other) {
        ("{}", text) | (text, "{}") => text.to_owned(),
        _ => {
            let (one, other) = (one.strip_suffix('}'), other.strip_prefix('{'));
            format!("{},{}", one.unwrap_or("{"), other.unwrap_or("}"))
        }
    }
}

fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

const _: () = assert!(limits::EVENT_BYTES_MAX > 3 * PIECE_BYTES, "a piece fits, escaped");

/// What usually stands between the texts of two lines, or before the first.
pub(super) fn usual(first: bool) -> &'static str {
    if first { "" } else { "\n" }
}

/// The lines of a transcript, from the events of its session.
#[derive(Debug)]
pub struct TranscriptLines {
    program: Program,
    text: String,
    begun: bool,
    before: String,
    /// What stands behind the last line, where it is not a line's usual end.
    after: Option<String>,
}

impl TranscriptLines {
    /// Of a session that was imported from that program's transcript.
    #[must_use]
    pub fn new(program: Program) -> Self {
        let (text, before) = (String::new(), String::new());
        Self { program, text, begun: false, before, after: None }
    }

    /// The line that ends with an event, as imported: what stands before its text, and the text.
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
        let line = self.text_of(event)?;
        let mut before = std::mem::take(&mut self.before);
        // The line before may have been the last of a file without its end.
        if before.is_empty() || self.begun && !before.contains('\n') {
            before.insert_str(0, usual(!self.begun));
        }
        (self.begun, self.after) = (true, None);
        Some((before, line))
    }

    /// What stands behind the last line.
    #[must_use]
    pub fn end(self) -> String {
        let usual = || usual(!self.begun).to_owned();
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
