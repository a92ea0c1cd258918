//! Transcripts of agents' programs, line by line: which program wrote it, the events of each line,
//! and the lines back. A line is kept whole, so that an export equals the imported file. Its id
//! comes from its text and how often that occurred before, so that importing again adds only what
//! is new, even where a resumed file repeats its beginning. It must not do I/O.

use std::collections::{HashMap, VecDeque};

use super::{
    claude::Claude,
    codex,
    draft::{Draft, Named, event},
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
            Self::Codex => payload(line)?.text("id"),
        }
    }

    /// The working directory in a line.
    pub(super) fn directory(self, line: &Members) -> Option<String> {
        match self {
            Self::ClaudeCode => line.text("cwd"),
            Self::Codex => payload(line)?.text("cwd"),
        }
    }
}

fn payload(line: &Members) -> Option<Members> {
    Members::read(line.some("payload")?.get()).ok()
}

/// The lines of one transcript, in order.
#[derive(Clone, Debug)]
pub struct Transcript {
    program: Program,
    claude: Claude,
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
        let (claude, seen, recent) = (Claude::default(), HashMap::new(), VecDeque::new());
        Self { program, claude, seen, recent, last: None }
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
        let hex: String = hasher.finalize().to_hex().chars().take(24).collect();
        let mut body = Object::new();
        body.add("raw_format", &quote(self.program.as_str()));
        body.add("raw_after", &quote(after));
        Some(named(event(&format!("end-{hex}"), kinds::TRANSCRIPT_ENTRY, &body.finish())))
    }

    fn drafts(&mut self, line: &Members, text: &str, before: Option<&str>) -> Vec<Draft> {
        let id = self.name(line, text);
        let bodies = match self.program {
            Program::ClaudeCode => self.claude.bodies(line),
            Program::Codex => codex::bodies(line),
        };
        let mut drafts = Vec::with_capacity(bodies.len());
        for (part, (kind, body)) in bodies.into_iter().enumerate() {
            let mut whole = head(line);
            if part == 0 {
                whole.add("raw", text);
                before.iter().for_each(|before| whole.add("raw_before", &quote(before)));
            } else {
                whole.add("raw_in", &quote(&id));
            }
            whole.add("raw_format", &quote(self.program.as_str()));
            let id = if part == 0 { id.clone() } else { format!("{id}.{part}") };
            drafts.push(named(event(&id, kind, &joined(&body.finish(), &whole.finish()))));
        }
        if drafts.is_empty() || drafts.iter().any(|draft| draft.too_much().is_some()) {
            return self.entry(line, text, &id, before);
        }
        drafts
    }

    /// The id of a line. The session in it does not count, because a program that resumes a session
    /// in another file may repeat the line there.
    fn name(&mut self, line: &Members, text: &str) -> String {
        let (short, hex) = hash_of_line(line, text);
        let times = self.seen.entry(short).or_default();
        *times += 1;
        if *times == 1 { format!("line-{hex}") } else { format!("line-{hex}-{times}") }
    }

    /// A line stored without events: whole, or as a text in pieces when it is too large.
    fn entry(&self, line: &Members, text: &str, id: &str, before: Option<&str>) -> Vec<Draft> {
        let head = || {
            let mut body = head(line);
            body.add("raw_format", &quote(self.program.as_str()));
            body
        };
        let mut body = head();
        before.iter().for_each(|before| body.add("raw_before", &quote(before)));
        body.add("entry", text);
        let whole = named(event(id, kinds::TRANSCRIPT_ENTRY, &body.finish()));
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
            let id = if part == 0 { id.to_owned() } else { format!("{id}.{part}") };
            named(event(&id, kinds::TRANSCRIPT_ENTRY, &body.finish()))
        };
        pieces.iter().enumerate().map(piece).collect()
    }
}

fn named(draft: Draft) -> Draft {
    Draft { named: Named::ByItself, ..draft }
}

/// The hash that names a line: short, and as digits. The session in the line does not count.
pub(super) fn hash_of_line(line: &Members, text: &str) -> ([u8; 12], String) {
    let meaning = meaning(&line.without(&["sessionId"])).unwrap_or_else(|| text.to_owned());
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 line of a transcript");
    hasher.update(meaning.as_bytes());
    let hash = hasher.finalize();
    let short = *hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    (short, hash.to_hex().chars().take(24).collect())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::import::openai::{Chat, messages};

    const CLAUDE: &str = include_str!("../../tests/fixtures/transcripts/claude-code.jsonl");
    const CODEX: &str = include_str!("../../tests/fixtures/transcripts/codex.jsonl");

    fn drafts<'a>(program: Program, lines: impl Iterator<Item = &'a str>) -> Vec<Draft> {
        let mut transcript = Transcript::new(program);
        let mut before = "";
        let line = |text: &str| {
            let line = Members::read(text).expect("an object");
            transcript.line(&line, text, std::mem::replace(&mut before, "\n"))
        };
        lines.flat_map(line).collect()
    }

    /// Their events as the store serves them.
    fn served(drafts: &[Draft]) -> Vec<Members> {
        drafts.iter().map(|draft| Members::read(&draft.text).expect("an object")).collect()
    }

    fn back(program: Program, drafts: &[Draft]) -> Vec<String> {
        let mut lines = TranscriptLines::new(program);
        served(drafts).iter().filter_map(|event| Some(lines.take(event)?.1)).collect()
    }

    fn kinds(drafts: &[Draft]) -> Vec<String> {
        let kind = |event: &Members| event.text("type").expect("a type");
        let all = served(drafts).iter().map(kind).collect::<Vec<_>>();
        all.into_iter().filter(|kind| kind != "transcript.entry").collect()
    }

    #[test]
    fn a_transcript_comes_back_line_by_line_and_byte_by_byte() {
        for (program, text) in [(Program::ClaudeCode, CLAUDE), (Program::Codex, CODEX)] {
            let first = Members::read(text.lines().next().expect("a line")).expect("an object");
            assert_eq!(Program::of(&first), Some(program));
            let drafts = drafts(program, text.lines());
            assert_eq!(back(program, &drafts), text.lines().collect::<Vec<_>>());
            let other = [Program::ClaudeCode, Program::Codex].into_iter().find(|p| *p != program);
            assert!(back(other.expect("another"), &drafts).is_empty());
            let ids: std::collections::BTreeSet<&str> =
                drafts.iter().map(|draft| draft.id.as_str()).collect();
            assert_eq!(ids.len(), drafts.len(), "each event has a name of its own");
        }
    }

    #[test]
    fn lines_of_claude_code_become_what_they_mean() {
        let drafts = drafts(Program::ClaudeCode, CLAUDE.lines());
        assert_eq!(
            kinds(&drafts),
            [
                "system.message",
                "user.message",
                "agent.thinking",
                "agent.message",
                "agent.tool_use",
                "agent.tool_result",
                "agent.tool_use",
                "agent.thread_message_sent",
                "agent.tool_use",
                "agent.tool_result",
                "agent.thread_message_received",
                "agent.tool_result",
                "context.compacted",
                "user.message",
                "agent.message",
            ]
        );
        let events = served(&drafts);
        let of = |kind: &str| {
            events.iter().find(|event| event.text("type").as_deref() == Some(kind)).expect("one")
        };
        let compacted = of("context.compacted");
        assert_eq!(compacted.text("trigger").as_deref(), Some("manual"));
        let summary = compacted.text("summary").expect("a summary");
        assert_eq!(summary, "The walk starts at the Museum of Industry.");
        let sent = of("agent.thread_message_sent");
        assert_eq!(sent.text("session_thread_id").as_deref(), Some("a17f"));
        let used = of("agent.tool_use");
        assert_eq!(used.text("call_id").as_deref(), Some("toolu_1"));
        assert!(used.text("parent_uuid").is_some() && used.text("created_at").is_some());
        assert_ne!(used.text("uuid"), used.text("parent_uuid"));
    }

    #[test]
    fn lines_of_codex_become_what_they_mean() {
        let drafts = drafts(Program::Codex, CODEX.lines());
        let expected = "system.message system.message user.message agent.thinking agent.tool_use \
                        agent.tool_result agent.tool_use agent.tool_result agent.tool_use \
                        agent.tool_use agent.tool_use context.compacted agent.message";
        assert_eq!(kinds(&drafts).join(" "), expected);
        let events = served(&drafts);
        let failed = events.iter().filter(|event| event.raw("is_error").is_some()).count();
        let inputs: Vec<&str> =
            events.iter().filter_map(|event| Some(event.raw("input")?.get())).collect();
        assert_eq!(failed, 1);
        assert_eq!(inputs.first(), Some(&r#"{"command":["cat","mills.txt"]}"#));
        assert_eq!(inputs.last(), Some(&r#""{not json""#));
    }

    #[test]
    fn names_say_what_a_line_says_and_how_often() {
        let ids = |lines: &[&str]| -> Vec<String> {
            drafts(Program::ClaudeCode, lines.iter().copied()).into_iter().map(|d| d.id).collect()
        };
        let line = r#"{"type":"mode","mode":"plan","sessionId":"a"}"#;
        let moved = r#"{"sessionId": "b", "mode":"plan","type":"mode"}"#;
        let other = r#"{"type":"mode","mode":"default","sessionId":"a"}"#;
        let (once, twice) = (ids(&[line, other]), ids(&[line, line, other]));
        assert_eq!((&once[0], &once[1]), (&twice[0], &twice[2]), "others say nothing of it");
        assert_ne!(twice[0], twice[1]);
        assert_eq!(ids(&[moved])[0], once[0], "nor does the session it is in");
    }

    #[test]
    fn a_line_that_is_too_much_for_one_event_is_kept_in_pieces() {
        let text = "\u{1f600}\\\"".repeat(400_000);
        let big =
            serde_json::json!({"type":"user","uuid":"u","message":{"role":"user","content":text}});
        let deep =
            format!(r#"{{"type":"x","uuid":"v","deep":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        for line in [big.to_string(), deep] {
            let drafts = drafts(Program::ClaudeCode, std::iter::once(line.as_str()));
            assert!(drafts.iter().all(|draft| draft.too_much().is_none()));
            assert!(back(Program::ClaudeCode, &drafts) == [line], "it comes back as it was");
        }
    }

    #[test]
    fn a_transcript_is_read_as_messages_of_either_chat() {
        let events = served(&drafts(Program::ClaudeCode, CLAUDE.lines()));
        for (chat, texts) in [
            (Chat::Openai, ["\"tool_calls\":[{\"id\":\"toolu_1\"", "\"tool_call_id\":\"toolu_1\""]),
            (
                Chat::Anthropic,
                ["\"type\":\"tool_use\",\"id\":\"toolu_1\"", "\"tool_use_id\":\"toolu_1\""],
            ),
        ] {
            let made = messages(chat, &events);
            assert!(texts.iter().all(|text| made.contains(text)), "{made}");
            assert!(!made.contains("parentUuid") && !made.contains("isSidechain"), "{made}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".{0,8}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map("[a-zA-Z]{1,6}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    /// A line of any shape, with members that lines have, holding anything.
    fn line() -> impl Strategy<Value = String> {
        const NAMES: &[&str] = &[
            "type",
            "uuid",
            "parentUuid",
            "timestamp",
            "message",
            "payload",
            "isMeta",
            "content",
            "isSidechain",
            "isCompactSummary",
            "compactMetadata",
            "subtype",
            "agentId",
            "entry",
            "raw",
            "raw_in",
            "raw_format",
            "piece",
            "pieces",
            "text",
            "id",
            "role",
            "position",
        ];
        const KINDS: &[&str] =
            &["user", "assistant", "system", "response_item", "compacted", "new"];
        const BLOCKS: &[&str] =
            &["text", "tool_use", "tool_result", "thinking", "message", "x_call"];
        let block =
            (prop::sample::select(BLOCKS), json(), any::<bool>()).prop_map(|(kind, any, id)| {
                let mut block =
                    serde_json::json!({"type": kind, "text": any, "content": any, "input": any});
                if id {
                    block["tool_use_id"] = "c".into();
                    block["role"] = "user".into();
                }
                block
            });
        let message = prop::collection::vec(block, 0..4)
            .prop_map(|blocks| serde_json::json!({"role": "user", "content": blocks}));
        let value = prop_oneof![3 => json(), 2 => message, 1 => Just(true.into())];
        let members = prop::collection::vec((prop::sample::select(NAMES), value), 0..6);
        (prop::sample::select(KINDS), members).prop_map(|(kind, members)| {
            let mut line: serde_json::Map<_, _> =
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            line.insert("type".to_owned(), kind.into());
            serde_json::Value::Object(line).to_string()
        })
    }

    proptest! {
        #[test]
        fn any_lines_come_back_as_they_were(
            lines in prop::collection::vec(line(), 0..12), again in any::<bool>(), codex: bool,
        ) {
            let program = if codex { Program::Codex } else { Program::ClaudeCode };
            let mut all: Vec<&str> = lines.iter().map(String::as_str).collect();
            if again {
                all.extend(all.clone());
            }
            let drafts = drafts(program, all.iter().copied());
            prop_assert_eq!(back(program, &drafts), all.clone());
            let ids: std::collections::BTreeSet<&str> =
                drafts.iter().map(|draft| draft.id.as_str()).collect();
            prop_assert_eq!(ids.len(), drafts.len());
            for draft in &drafts {
                let taken = crate::wire::json::event(&draft.text, crate::event::Origin::Import);
                prop_assert!(taken.is_ok(), "{:?}: {}", taken, draft.text);
            }
        }
    }
}
