//! Feeds text to the JSON of the wire and compares it with another parser: what is taken is JSON
//! and comes back as it was sent, what is refused is refused with an error and never a panic.

use sessionlog::{
    event::{Event, EventId, Origin, Position, Timestamp},
    wire::json,
};

pub fn check(bytes: &[u8]) {
    let Ok(text) = json::check_utf8(bytes) else {
        assert!(std::str::from_utf8(bytes).is_err());
        return;
    };
    let parsed = serde_json::from_str::<serde_json::Value>(text);
    if json::check(text).is_ok() {
        // serde_json holds no number beyond f64 and no half of a surrogate pair, and stops one
        // level earlier; no more may part us.
        let refused = parsed.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let known = ["number out of range", "recursion limit exceeded", "hex escape"];
        let explained = known.iter().any(|reason| refused.contains(reason));
        assert!(refused.is_empty() || explained, "{refused}");
    }
    drop(json::parse_events(text, Origin::User, false));
    let Ok(new) = json::parse_event(text, Origin::Tool) else { return };
    let event = Event {
        position: Position(7),
        id: new.id.unwrap_or_else(|| EventId::new("minted").expect("printable")),
        kind: new.kind,
        origin: Origin::Tool,
        created_at: new.created_at,
        processed_at: Timestamp(1),
        body: new.body.clone(),
    };
    let written = json::event_text(&event);
    json::check(&written).expect("what is written is JSON");
    let mut line = Vec::new();
    json::write_event_line(&mut line, &event);
    assert!(!line.contains(&b'\n'), "a line is a line");
    // The reserved members aside, a client gets what it sent.
    let (Ok(sent), Ok(back)) = (parsed, serde_json::from_str::<serde_json::Value>(&written)) else {
        return;
    };
    let body = |value: serde_json::Value| match value {
        serde_json::Value::Object(mut members) => {
            json::RESERVED.iter().for_each(|name| drop(members.shift_remove(*name)));
            serde_json::to_string(&members).expect("it was JSON")
        }
        other => other.to_string(),
    };
    assert_eq!(body(sent), body(back));
}
