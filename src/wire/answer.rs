//! Answers that contain events, as text: bodies are written as they are stored, never parsed. It
//! must not decide what is in an answer.

use std::io::Write as _;

use super::{convert, json};
use crate::{
    api::{error::ErrorBody, events},
    event::{Event, EventRef, EventType, NewEvent, Position, SessionId, Timestamp, kinds},
    service::{AppendResult, ChainReceipt, EmitResult, EventSlice, ServiceError, SessionGap},
};

/// Label of a line of an append stream, repeated in the answer to it.
pub struct LineLabel<'a> {
    /// Line number, from 1.
    pub number: u64,
    /// Client's name for the line, as JSON text.
    pub reference: Option<&'a str>,
    /// Session that the line names.
    pub session: Option<&'a SessionId>,
}

impl LineLabel<'_> {
    /// Writes the label as further members of an object.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","line":"#);
        json::write_number(out, self.number);
        if let Some(reference) = self.reference {
            out.extend_from_slice(br#","ref":"#);
            out.extend_from_slice(reference.as_bytes());
        }
        if let Some(session) = self.session {
            // The alphabet of a session's id needs no escape.
            out.extend_from_slice(br#","session":""#);
            out.extend_from_slice(session.as_str().as_bytes());
            out.push(b'"');
        }
    }
}

/// Writes the answer to a line whose batch is durable.
pub fn write_appended(out: &mut Vec<u8>, line: &LineLabel<'_>, appended: &AppendResult) {
    out.extend_from_slice(br#"{"type":"appended""#);
    line.write(out);
    write_positions(out, appended.first_position, appended.next_position);
    write_receipt(out, &appended.receipt);
    write_repeated(out, appended.repeated);
    out.push(b'\n');
}

/// Writes the answer to a refused line: an error in the form of every route, with the line's label.
pub fn write_line_refused(
    out: &mut Vec<u8>,
    line: &LineLabel<'_>,
    error: &ServiceError,
    request_id: &str,
) {
    let start = out.len();
    write_value(out, &convert::error_body(error, Some(request_id)));
    debug_assert!(out.len() > start && out.ends_with(b"}"), "an error body is an object");
    out.pop();
    line.write(out);
    out.extend_from_slice(b"}\n");
}

/// Formats the answer to emitEvent as JSON.
#[must_use]
pub fn format_emitted(emitted: &EmitResult) -> Vec<u8> {
    let EmitResult { events, appended } = emitted;
    let mut out = format_data(emitted.stored_events());
    write_positions(&mut out, appended.first_position, appended.next_position);
    write_receipt(&mut out, &appended.receipt);
    write_repeated(&mut out, appended.repeated);
    let notices = notices(events);
    if !notices.is_empty() {
        out.pop();
        out.extend_from_slice(br#","notices":"#);
        write_value(&mut out, &notices);
        out.push(b'}');
    }
    out
}

/// Returns notices about stored events whose type no view shows, if a similar type is known.
#[must_use]
pub fn notices(events: &[NewEvent]) -> Vec<String> {
    let mut notices: Vec<String> = Vec::new();
    for event in events {
        let Some(meant) = kinds::resolve_alias(event.kind.as_str()) else { continue };
        let notice = format!("no view shows {}: the type that views know is {meant}", event.kind);
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    notices
}

/// Formats the answer to getEvents as JSON.
#[must_use]
pub fn format_slice(slice: &EventSlice) -> Vec<u8> {
    let mut out = format_data(slice.events.iter().map(EventRef::from));
    out.extend_from_slice(br#","next_page":"#);
    write_value(&mut out, &slice.next_page);
    let _ = write!(out, r#","next_position":{},"tail":{}"#, slice.next_position, slice.tail);
    if !slice.gaps.is_empty() {
        let gaps: Vec<events::Gap> = slice.gaps.iter().map(events::Gap::from).collect();
        out.extend_from_slice(br#","gaps":"#);
        write_value(&mut out, &gaps);
    }
    if !slice.types_seen.is_empty() {
        let types: Vec<&str> = slice.types_seen.iter().map(EventType::as_str).collect();
        out.extend_from_slice(br#","types_seen":"#);
        write_value(&mut out, &types);
    }
    out.push(b'}');
    out
}

/// Formats events as JSON lines, with a line of the type `gap` where some are lost for good.
#[must_use]
pub fn format_lines(events: &[Event], gaps: &[SessionGap]) -> Vec<u8> {
    let mut out = Vec::with_capacity(estimate_size(events.iter().map(EventRef::from)));
    for part in merge_by_position(events, gaps) {
        match part {
            EventOrGap::Event(event) => json::write_event_line(&mut out, event),
            EventOrGap::Gap(gap) => write_gap(&mut out, gap),
        }
        out.push(b'\n');
    }
    out
}

/// Formats events as frames of a server-sent event stream. `id` is the position; a gap has none.
#[must_use]
pub fn format_frames(events: &[Event], gaps: &[SessionGap]) -> Vec<u8> {
    let mut out = Vec::with_capacity(estimate_size(events.iter().map(EventRef::from)));
    for part in merge_by_position(events, gaps) {
        match part {
            EventOrGap::Event(event) => {
                let _ = write!(out, "event: {}\nid: {}\ndata: ", event.kind, event.position);
                json::write_event_line(&mut out, event);
            }
            EventOrGap::Gap(gap) => {
                out.extend_from_slice(b"event: gap\ndata: ");
                write_gap(&mut out, gap);
            }
        }
        out.extend_from_slice(b"\n\n");
    }
    out
}

/// An event or a gap in a stream or an export.
enum EventOrGap<'a> {
    Event(&'a Event),
    Gap(&'a SessionGap),
}

/// Merges events and gaps in the order of their positions; both must be ordered already.
fn merge_by_position<'a>(
    events: &'a [Event],
    gaps: &'a [SessionGap],
) -> impl Iterator<Item = EventOrGap<'a>> {
    let (mut events, mut gaps) = (events.iter().peekable(), gaps.iter().peekable());
    std::iter::from_fn(move || {
        let first =
            |gap: &&SessionGap| events.peek().is_none_or(|event| gap.range.from <= event.position);
        match gaps.next_if(first) {
            Some(gap) => Some(EventOrGap::Gap(gap)),
            None => events.next().map(EventOrGap::Event),
        }
    })
}

fn write_gap(out: &mut Vec<u8>, gap: &SessionGap) {
    write_value(out, &events::GapLine { kind: "gap".to_owned(), gap: gap.into() });
}

/// Formats a heartbeat of a server-sent event stream; it has no id.
#[must_use]
pub fn ping_frame(Position(tail): Position) -> Vec<u8> {
    format!("event: ping\ndata: {{\"type\":\"ping\",\"tail\":{tail}}}\n\n").into_bytes()
}

/// Formats the last frame before the server ends a stream; it has no id.
#[must_use]
pub fn done_frame(Position(next): Position) -> Vec<u8> {
    format!("event: done\ndata: {{\"type\":\"done\",\"next_position\":{next}}}\n\n").into_bytes()
}

/// Formats the last frame of a stream whose session is deleted, an event of the Managed Agents API
/// that no session stores; it has no id.
#[must_use]
pub fn deleted_frame(session: &SessionId, now: Timestamp) -> Vec<u8> {
    // The alphabet of a session's id needs no escape.
    format!(
        "event: session.deleted\ndata: {{\"id\":\"deleted-{session}\",\"type\":\"session.deleted\",\
         \"processed_at\":\"{now}\"}}\n\n"
    )
    .into_bytes()
}

/// Formats an error in a stream that has begun; it has no id.
#[must_use]
pub fn error_frame(error: &ErrorBody) -> Vec<u8> {
    let mut out = b"event: error\ndata: ".to_vec();
    write_value(&mut out, error);
    out.extend_from_slice(b"\n\n");
    out
}

fn format_data<'a>(events: impl Iterator<Item = EventRef<'a>> + Clone) -> Vec<u8> {
    let mut out = Vec::with_capacity(estimate_size(events.clone()));
    out.extend_from_slice(br#"{"data":["#);
    for (index, event) in events.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::write_event(&mut out, event);
    }
    out.push(b']');
    out
}

fn write_positions(out: &mut Vec<u8>, first: Position, next: Position) {
    out.extend_from_slice(br#","first_position":"#);
    json::write_number(out, first.0);
    out.extend_from_slice(br#","next_position":"#);
    json::write_number(out, next.0);
}

fn write_receipt(out: &mut Vec<u8>, receipt: &ChainReceipt) {
    out.extend_from_slice(br#","receipt":"#);
    write_value(out, &events::Receipt::from(*receipt));
}

/// Writes the last member of an answer to an append.
fn write_repeated(out: &mut Vec<u8>, repeated: bool) {
    out.extend_from_slice(if repeated {
        br#","repeated":true}"#
    } else {
        br#","repeated":false}"#
    });
}

/// Estimates the bytes of the events as text.
fn estimate_size<'a>(events: impl Iterator<Item = EventRef<'a>>) -> usize {
    256 + events.map(|event| event.body.len() + 256).sum::<usize>()
}

fn write_value(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    serde_json::to_writer(out, value).expect("wire shapes are JSON and memory takes it");
}
