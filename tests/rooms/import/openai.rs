//! Conversion of chat messages to events and back.

use serde_json::value::RawValue;

use sessionlog::{
    event::SessionId,
    import::{ChatFormat, ConversationIds, EventDraft, JsonMembers, to_chat},
};

fn raw(text: &str) -> Box<RawValue> {
    serde_json::from_str(text).expect("JSON")
}

fn drafts(messages: &[&str]) -> Vec<EventDraft> {
    let mut conversation = ConversationIds::new();
    messages.iter().flat_map(|text| conversation.add_message(&raw(text))).collect()
}

fn kinds(drafts: &[EventDraft]) -> Vec<String> {
    let kind = |draft: &EventDraft| JsonMembers::read(&draft.text).expect("object").text("type");
    drafts.iter().map(|draft| kind(draft).expect("a type")).collect()
}

const MESSAGES: &[(&str, &[&str])] = &[
    (r#"{"role":"system","content":"be good"}"#, &["system.message"]),
    (r#"{"role":"developer","content":"be good"}"#, &["system.message"]),
    (r#"{"role":"user","content":[{"type":"text","text":"hi"}],"name":"ann"}"#, &["user.message"]),
    (
        r#"{"content":null,"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]}"#,
        &["agent.tool_use"],
    ),
    (
        r#"{"role":"assistant","content":"both","x":1e400,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"not json"}},{"id":"c2","type":"function","function":{"name":"g","arguments":""}}]}"#,
        &["agent.message", "agent.tool_use", "agent.tool_use"],
    ),
    (r#"{"role":"assistant","content":null}"#, &["agent.message"]),
    (r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}"#, &["agent.tool_use"]),
    (
        r#"{"role":"tool","tool_call_id":"c1","name":"f","content":"\ud83d\ude00"}"#,
        &["agent.tool_result"],
    ),
    (r#"{"role":"narrator","content":"?"}"#, &["transcript.entry"]),
    ("7", &["transcript.entry"]),
];

#[test]
fn every_message_kind_round_trips_through_its_events() {
    for (message, expected) in MESSAGES {
        let drafts = drafts(&[message]);
        assert_eq!(kinds(&drafts), *expected, "{message}");
        let events: Vec<JsonMembers> =
            drafts.iter().map(|draft| JsonMembers::read(&draft.text).expect("object")).collect();
        let session = SessionId::new("s").expect("an id");
        let lines = to_chat(ChatFormat::Openai, &session, &|_| None, &events);
        assert_eq!(lines, [format!("{{\"id\":\"s\",\"messages\":[{message}]}}")]);
    }
}

#[test]
fn event_ids_depend_on_the_message_and_all_messages_before_it() {
    let names = |messages: &[&str]| -> Vec<String> {
        drafts(messages).into_iter().map(|draft| draft.id).collect()
    };
    let (a, b) = (r#"{"role":"user","content":"a"}"#, r#"{"role":"user","content":"b"}"#);
    let spaced = r#"{ "content": "a", "role": "user" }"#;
    assert_eq!(names(&[a, b]), names(&[spaced, b]));
    assert_eq!(names(&[a])[0], names(&[a, b])[0]);
    assert_ne!(names(&[a, b])[1], names(&[b, b])[1]);
    assert_ne!(names(&[a, a])[0], names(&[a, a])[1]);
}

#[test]
fn events_of_other_clients_become_equivalent_messages() {
    let events: Vec<JsonMembers> = [
        r#"{"type":"user.message","content":"go"}"#,
        r#"{"type":"agent.message","content":"I look"}"#,
        r#"{"type":"agent.tool_use","name":"f","input":{"a":1},"call_id":"c"}"#,
        r#"{"type":"agent.tool_result","call_id":"c","content":"ok"}"#,
        r#"{"type":"research.goal","goal":"none of theirs"}"#,
    ]
    .iter()
    .map(|text| JsonMembers::read(text).expect("object"))
    .collect();
    let session = SessionId::new("s").expect("an id");
    let lines = to_chat(ChatFormat::Openai, &session, &|_| None, &events);
    let expected = concat!(
        r#"{"id":"s","messages":[{"role":"user","content":"go"},"#,
        r#"{"role":"assistant","content":"I look","tool_calls":[{"id":"c","type":"function","#,
        r#""function":{"name":"f","arguments":"{\"a\":1}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"c","content":"ok"}]}"#,
    );
    assert_eq!(lines, [expected]);
}
