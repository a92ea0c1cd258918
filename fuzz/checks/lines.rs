//! Feeds bytes to what comes in bulk: lines of an append stream as JSON, requests as protobuf. Both
//! are compared with another parser: what is taken is what that one reads, too.

use prost::{Message as _, bytes::Bytes};
use serde_json::Value;
use sessionlog::{
    event::{Origin, Position},
    wire::{json, pb, protobuf},
};

pub fn check(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        line(text);
    }
    message(bytes);
}

/// A line is taken whole or refused; either way it says whose it is as far as it can.
fn line(text: &str) {
    let line = json::parse_append_line(text, Origin::Harness);
    if let Some(reference) = line.reference {
        assert!(text.contains(reference), "a reference is a part of the line");
        json::check(reference).expect("a reference is JSON");
    }
    let Ok(batch) = line.batch else { return };
    json::check(text).expect("what is taken is JSON");
    // Numbers beyond f64 and halves of surrogate pairs are ours alone.
    let Ok(sent) = serde_json::from_str::<Value>(text) else { return };
    let session = line.session.expect("a line that is taken has a session");
    assert_eq!(sent["session"], session.as_str());
    assert_eq!(sent["events"].as_array().map(Vec::len), Some(batch.events.len()));
    assert_eq!(sent["if_position"].as_u64().map(Position), batch.if_position);
    assert_eq!(sent["idempotency_key"].as_str(), batch.key.as_ref().map(|key| key.as_str()));
    for (event, sent) in batch.events.iter().zip(sent["events"].as_array().into_iter().flatten()) {
        assert_eq!(sent["type"], event.kind.as_str());
        assert_eq!(sent["id"].as_str(), event.id.as_ref().map(|id| id.as_str()));
    }
}

/// What we take prost takes as well, and reads the same events.
fn message(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    let Ok(events) = protobuf::parse_events(body.clone(), Origin::Tool) else { return };
    let theirs = pb::EmitRequest::decode(body).expect("we are not laxer");
    assert_eq!(theirs.events.len(), events.len());
    for (event, theirs) in events.iter().zip(theirs.events) {
        assert_eq!(event.kind.as_str(), theirs.r#type);
        assert_eq!(event.id.as_ref().map_or("", |id| id.as_str()), theirs.id);
        assert_eq!(event.position.map(|position| position.0), theirs.position);
        let body = if theirs.body.is_empty() { &b"{}"[..] } else { &theirs.body };
        assert_eq!(event.body, body);
    }
}
