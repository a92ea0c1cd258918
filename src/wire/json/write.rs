//! Writer of events as JSON text: the reserved members first, then the stored text unchanged. It
//! must not parse a body.

use crate::event::{Event, EventRef};

/// Writes an event as wire text.
pub fn write_event(out: &mut Vec<u8>, event: EventRef<'_>) {
    write_head(out, event);
    let (comma, members) = body_tail(event.body);
    out.extend_from_slice(comma);
    out.extend_from_slice(members);
}

/// Writes an event as wire text on one line: line breaks in its white space become blanks.
pub fn write_event_line(out: &mut Vec<u8>, event: &Event) {
    write_head(out, event.into());
    let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let (comma, members) = body_tail(&event.body);
    out.extend_from_slice(comma);
    out.extend(members.iter().map(blank));
}

/// Returns an event as wire text.
#[must_use]
pub fn event_text(event: &Event) -> String {
    let mut out = Vec::with_capacity(event.body.len() + 256);
    write_event(&mut out, event.into());
    String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Returns an event as wire text with further members, which its body does not have.
#[must_use]
pub fn event_text_with(event: &Event, extra: &impl serde::Serialize) -> String {
    let mut text = event_text(event);
    let extra = serde_json::to_string(extra).unwrap_or_default();
    if let Some(members) = extra.strip_prefix('{').filter(|members| *members != "}") {
        text.pop();
        text.push(',');
        text.push_str(members);
    }
    text
}

/// Writes the reserved members, without the brace that ends an object.
fn write_head(out: &mut Vec<u8>, event: EventRef<'_>) {
    out.extend_from_slice(b"{\"id\":");
    write_text(out, event.id.as_str());
    out.extend_from_slice(br#","type":""#);
    out.extend_from_slice(event.kind.as_str().as_bytes());
    out.extend_from_slice(br#"","position":"#);
    write_number(out, event.position.0);
    out.extend_from_slice(br#","processed_at":""#);
    out.extend_from_slice(&event.processed_at.to_rfc3339());
    if let Some(created_at) = event.created_at {
        out.extend_from_slice(br#"","created_at":""#);
        out.extend_from_slice(&created_at.to_rfc3339());
    }
    out.extend_from_slice(br#"","origin":""#);
    out.extend_from_slice(event.origin.as_str().as_bytes());
    out.push(b'"');
}

/// Writes a whole number, faster than by formatting.
pub(in crate::wire) fn write_number(out: &mut Vec<u8>, number: u64) {
    let start = out.len();
    let mut rest = number;
    loop {
        out.push(b'0' + u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.get_mut(start..).unwrap_or_default().reverse();
}

/// Writes a JSON string. Most ids have nothing to escape.
fn write_text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    serde_json::to_writer(out, text).expect("a text is JSON and memory takes it");
}

/// Returns the text after the reserved members: a comma and the body's members, or only a brace.
fn body_tail(body: &[u8]) -> (&'static [u8], &[u8]) {
    debug_assert!(body.starts_with(b"{"), "a stored body is an object");
    let members = body.strip_prefix(b"{").unwrap_or(b"}");
    if members.trim_ascii_start().starts_with(b"}") { (b"", b"}") } else { (b",", members) }
}
