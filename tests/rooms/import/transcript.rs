//! Transcripts of agents: their conversion to events, and their byte-for-byte round trip.

use proptest::prelude::*;

use sessionlog::{
    event::Origin,
    import::{
        ChatFormat, EventDraft, JsonMembers, Transcript, TranscriptLines, TranscriptProgram,
        to_messages,
    },
    wire::json,
};

const CLAUDE: &str = include_str!("../../fixtures/transcripts/claude-code.jsonl");
const CODEX: &str = include_str!("../../fixtures/transcripts/codex.jsonl");

fn drafts<'a>(program: TranscriptProgram, lines: impl Iterator<Item = &'a str>) -> Vec<EventDraft> {
    let mut transcript = Transcript::new(program);
    let mut before = "";
    let line = |text: &str| {
        let line = JsonMembers::read(text).expect("an object");
        transcript.process_line(&line, text, std::mem::replace(&mut before, "\n"))
    };
    lines.flat_map(line).collect()
}

/// Returns their events as the store serves them.
fn served_events(drafts: &[EventDraft]) -> Vec<JsonMembers> {
    drafts.iter().map(|draft| JsonMembers::read(&draft.text).expect("an object")).collect()
}

fn restored_lines(program: TranscriptProgram, drafts: &[EventDraft]) -> Vec<String> {
    let mut lines = TranscriptLines::new(program);
    served_events(drafts).iter().filter_map(|event| Some(lines.add_event(event)?.1)).collect()
}

fn kinds(drafts: &[EventDraft]) -> Vec<String> {
    let kind = |event: &JsonMembers| event.text("type").expect("a type");
    let all = served_events(drafts).iter().map(kind).collect::<Vec<_>>();
    all.into_iter().filter(|kind| kind != "transcript.entry").collect()
}

#[test]
fn a_transcript_round_trips_line_by_line_and_byte_by_byte() {
    for (program, text) in
        [(TranscriptProgram::ClaudeCode, CLAUDE), (TranscriptProgram::Codex, CODEX)]
    {
        let drafts = drafts(program, text.lines());
        assert_eq!(restored_lines(program, &drafts), text.lines().collect::<Vec<_>>());
        let other = [TranscriptProgram::ClaudeCode, TranscriptProgram::Codex]
            .into_iter()
            .find(|p| *p != program);
        assert!(restored_lines(other.expect("another"), &drafts).is_empty());
        let ids: std::collections::BTreeSet<&str> =
            drafts.iter().map(|draft| draft.id.as_str()).collect();
        assert_eq!(ids.len(), drafts.len(), "each event has a name of its own");
    }
}

#[test]
fn claude_code_lines_become_equivalent_events() {
    let drafts = drafts(TranscriptProgram::ClaudeCode, CLAUDE.lines());
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
    let events = served_events(&drafts);
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
fn codex_lines_become_equivalent_events() {
    let drafts = drafts(TranscriptProgram::Codex, CODEX.lines());
    let expected = "system.message system.message user.message agent.thinking agent.tool_use \
                    agent.tool_result agent.tool_use agent.tool_result agent.tool_use \
                    agent.tool_use agent.tool_result agent.tool_use context.compacted \
                    agent.message agent.tool_result agent.tool_result";
    assert_eq!(kinds(&drafts).join(" "), expected);
    let events = served_events(&drafts);
    let failed = events.iter().filter(|event| event.raw("is_error").is_some()).count();
    let inputs: Vec<&str> =
        events.iter().filter_map(|event| Some(event.raw("input")?.get())).collect();
    assert_eq!(failed, 3, "a patch, and the two calls that are open when the turn ends");
    assert_eq!(inputs.first(), Some(&r#"{"command":["cat","mills.txt"]}"#));
    assert_eq!(inputs.last(), Some(&r#""{not json""#));
}

#[test]
fn event_ids_depend_on_the_line_and_its_repetition() {
    let ids = |lines: &[&str]| -> Vec<String> {
        drafts(TranscriptProgram::ClaudeCode, lines.iter().copied())
            .into_iter()
            .map(|d| d.id)
            .collect()
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
fn a_line_too_large_for_one_event_is_split_into_several() {
    let text = "\u{1f600}\\\"".repeat(400_000);
    let big =
        serde_json::json!({"type":"user","uuid":"u","message":{"role":"user","content":text}});
    let deep =
        format!(r#"{{"type":"x","uuid":"v","deep":{}{}}}"#, "[".repeat(300), "]".repeat(300));
    for line in [big.to_string(), deep] {
        let drafts = drafts(TranscriptProgram::ClaudeCode, std::iter::once(line.as_str()));
        assert!(drafts.iter().all(|draft| draft.problem().is_none()));
        assert!(
            restored_lines(TranscriptProgram::ClaudeCode, &drafts) == [line],
            "it comes back as it was"
        );
    }
}

#[test]
fn a_transcript_is_read_as_messages_of_either_chat() {
    let events = served_events(&drafts(TranscriptProgram::ClaudeCode, CLAUDE.lines()));
    for (chat, texts) in [
        (
            ChatFormat::Openai,
            ["\"tool_calls\":[{\"id\":\"toolu_1\"", "\"tool_call_id\":\"toolu_1\""],
        ),
        (
            ChatFormat::Anthropic,
            ["\"type\":\"tool_use\",\"id\":\"toolu_1\"", "\"tool_use_id\":\"toolu_1\""],
        ),
    ] {
        let made = to_messages(chat, &events);
        assert!(texts.iter().all(|text| made.contains(text)), "{made}");
        assert!(!made.contains("parentUuid") && !made.contains("isSidechain"), "{made}");
    }
}

fn value() -> impl Strategy<Value = serde_json::Value> {
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

/// Returns a line of any shape, with the usual members and arbitrary values.
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
    const KINDS: &[&str] = &["user", "assistant", "system", "response_item", "compacted", "new"];
    const BLOCKS: &[&str] = &["text", "tool_use", "tool_result", "thinking", "message", "x_call"];
    let block =
        (prop::sample::select(BLOCKS), value(), any::<bool>()).prop_map(|(kind, any, id)| {
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
    let value = prop_oneof![3 => value(), 2 => message, 1 => Just(true.into())];
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
    fn arbitrary_lines_round_trip(
        lines in prop::collection::vec(line(), 0..12), again in any::<bool>(), codex: bool,
    ) {
        let program = if codex { TranscriptProgram::Codex } else { TranscriptProgram::ClaudeCode };
        let mut all: Vec<&str> = lines.iter().map(String::as_str).collect();
        if again {
            all.extend(all.clone());
        }
        let drafts = drafts(program, all.iter().copied());
        prop_assert_eq!(restored_lines(program, &drafts), all.clone());
        let ids: std::collections::BTreeSet<&str> =
            drafts.iter().map(|draft| draft.id.as_str()).collect();
        prop_assert_eq!(ids.len(), drafts.len());
        for draft in &drafts {
            let taken = json::parse_event(&draft.text, Origin::Import);
            prop_assert!(taken.is_ok(), "{:?}: {}", taken, draft.text);
        }
    }
}
