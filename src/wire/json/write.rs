//! Events as JSON text: the reserved members first, then the stored text, untouched. It must not
//! parse a body.

use std::io::Write as _;

use crate::{event::Event, wire::convert};

/// Writes an event's wire text.
pub fn write_event(out: &mut Vec<u8>, event: &Event) {
    write_head(out, event);
    let (comma, members) = tail_of(&event.body);
    out.extend_from_slice(comma);
    out.extend_from_slice(members);
}

/// Writes an event's wire text on one line: line breaks of its white space become blanks.
pub fn write_event_line(out: &mut Vec<u8>, event: &Event) {
    write_head(out, event);
    let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let (comma, members) = tail_of(&event.body);
    out.extend_from_slice(comma);
    out.extend(members.iter().map(blank));
}

/// An event's wire text.
#[must_use]
pub fn event_text(event: &Event) -> String {
    let mut out = Vec::with_capacity(event.body.len() + 256);
    write_event(&mut out, event);
    String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The reserved members, without the brace that ends an object.
fn write_head(out: &mut Vec<u8>, event: &Event) {
    out.extend_from_slice(b"{\"id\":");
    write_text(out, event.id.as_str());
    let _ = write!(
        out,
        r#","type":"{}","position":{},"processed_at":"{}""#,
        event.kind, event.position, event.processed_at
    );
    if let Some(created_at) = event.created_at {
        let _ = write!(out, r#","created_at":"{created_at}""#);
    }
    let _ = write!(out, r#","origin":"{}""#, convert::origin(event.origin));
}

/// Writes a JSON string.
fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text is JSON and memory takes it");
}

/// What follows the reserved members: a comma and the body's members, or only its brace.
fn tail_of(body: &[u8]) -> (&'static [u8], &[u8]) {
    debug_assert!(body.starts_with(b"{"), "a stored body is an object");
    let members = body.strip_prefix(b"{").unwrap_or(b"}");
    if members.trim_ascii_start().starts_with(b"}") { (b"", b"}") } else { (b",", members) }
}
