//! Answers that carry events, as text: the bodies are written as they are stored, never parsed.
//! It must not decide what is in an answer.

use std::io::Write as _;

use super::{json, types};
use crate::{
    event::{Event, Position},
    service::{Emitted, EventSlice},
};

/// Answer to emitEvent as JSON.
#[must_use]
pub fn emitted(emitted: &Emitted) -> Vec<u8> {
    let mut out = data(&emitted.events);
    let _ = write!(
        out,
        r#","first_position":{},"next_position":{},"receipt":"#,
        emitted.first_position, emitted.next_position
    );
    write_value(&mut out, &types::Receipt::from(emitted.receipt));
    let _ = write!(out, r#","repeated":{}}}"#, emitted.repeated);
    out
}

/// Answer to getEvents as JSON.
#[must_use]
pub fn slice(slice: &EventSlice) -> Vec<u8> {
    let mut out = data(&slice.events);
    out.extend_from_slice(br#","next_page":"#);
    write_value(&mut out, &slice.next_page);
    let _ = write!(out, r#","next_position":{},"tail":{}"#, slice.next_position, slice.tail);
    if !slice.gaps.is_empty() {
        let gaps: Vec<types::Gap> = slice.gaps.iter().map(types::Gap::from).collect();
        out.extend_from_slice(br#","gaps":"#);
        write_value(&mut out, &gaps);
    }
    out.push(b'}');
    out
}

/// Events as JSON lines.
#[must_use]
pub fn lines(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::with_capacity(size(events));
    for event in events {
        json::write_event_line(&mut out, event);
        out.push(b'\n');
    }
    out
}

/// Events as frames of a server-sent event stream: `id` is the position.
#[must_use]
pub fn frames(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::with_capacity(size(events));
    for event in events {
        let _ = write!(out, "event: {}\nid: {}\ndata: ", event.kind, event.position);
        json::write_event_line(&mut out, event);
        out.extend_from_slice(b"\n\n");
    }
    out
}

/// A heartbeat of a server-sent event stream; it has no id.
#[must_use]
pub fn ping(Position(tail): Position) -> Vec<u8> {
    format!("event: ping\ndata: {{\"type\":\"ping\",\"tail\":{tail}}}\n\n").into_bytes()
}

/// The last frame before the server ends a stream; it has no id.
#[must_use]
pub fn done(Position(next): Position) -> Vec<u8> {
    format!("event: done\ndata: {{\"type\":\"done\",\"next_position\":{next}}}\n\n").into_bytes()
}

/// An error in a stream that has begun; it has no id.
#[must_use]
pub fn failed(error: &types::ErrorBody) -> Vec<u8> {
    let mut out = b"event: error\ndata: ".to_vec();
    write_value(&mut out, error);
    out.extend_from_slice(b"\n\n");
    out
}

fn data(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::with_capacity(size(events));
    out.extend_from_slice(br#"{"data":["#);
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::write_event(&mut out, event);
    }
    out.push(b']');
    out
}

/// Roughly what the events take as text.
fn size(events: &[Event]) -> usize {
    256 + events.iter().map(|event| event.body.len() + 256).sum::<usize>()
}

fn write_value(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    serde_json::to_writer(out, value).expect("wire shapes are JSON and memory takes it");
}
