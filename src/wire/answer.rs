//! Answers that carry events, as text: the bodies are written as they are stored, never parsed.
//! It must not decide what is in an answer.

use std::io::Write as _;

use super::{convert, json};
use crate::{
    api::{error::ErrorBody, events},
    event::{Event, EventRef, EventType, NewEvent, Position, SessionId, Timestamp, kinds},
    service::{Appended, Emitted, EventSlice, Gap, Receipt, ServiceError},
};

/// The line of an append stream that an answer is about.
pub struct LineLabel<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// The client's name for it, as JSON text.
    pub reference: Option<&'a str>,
    /// The session it names.
    pub session: Option<&'a SessionId>,
}

impl LineLabel<'_> {
    /// Writes which line it is, after other members of an object.
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

/// Answer to a line whose batch is durable.
pub fn appended(out: &mut Vec<u8>, line: &LineLabel<'_>, appended: &Appended) {
    out.extend_from_slice(br#"{"type":"appended""#);
    line.write(out);
    write_places(out, appended.first_position, appended.next_position);
    write_receipt(out, &appended.receipt);
    write_repeated(out, appended.repeated);
    out.push(b'\n');
}

/// Answer to a line that is refused: an error as on any route, and which line it is.
pub fn line_refused(
    out: &mut Vec<u8>,
    line: &LineLabel<'_>,
    error: &ServiceError,
    request_id: &str,
) {
    let start = out.len();
    write_value(out, &convert::error(error, Some(request_id)));
    debug_assert!(out.len() > start && out.ends_with(b"}"), "an error body is an object");
    out.pop();
    line.write(out);
    out.extend_from_slice(b"}\n");
}

/// Answer to emitEvent as JSON.
#[must_use]
pub fn emitted(emitted: &Emitted) -> Vec<u8> {
    let Emitted { events, appended } = emitted;
    let mut out = data(emitted.kept());
    write_places(&mut out, appended.first_position, appended.next_position);
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

/// Notices about events that were kept: types that no view shows, where another was meant.
#[must_use]
pub fn notices(events: &[NewEvent]) -> Vec<String> {
    let mut notices: Vec<String> = Vec::new();
    for event in events {
        let Some(meant) = kinds::meant(event.kind.as_str()) else { continue };
        let notice = format!("no view shows {}: the type that views know is {meant}", event.kind);
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    notices
}

/// Answer to getEvents as JSON.
#[must_use]
pub fn slice(slice: &EventSlice) -> Vec<u8> {
    let mut out = data(slice.events.iter().map(EventRef::from));
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

/// Events as JSON lines; a line of the type `gap` where some are lost for good.
#[must_use]
pub fn lines(events: &[Event], gaps: &[Gap]) -> Vec<u8> {
    let mut out = Vec::with_capacity(size(events.iter().map(EventRef::from)));
    for part in parts(events, gaps) {
        match part {
            EventOrGap::Event(event) => json::write_event_line(&mut out, event),
            EventOrGap::Gap(gap) => write_gap(&mut out, gap),
        }
        out.push(b'\n');
    }
    out
}

/// Events as frames of a server-sent event stream: `id` is the position. A gap has none.
#[must_use]
pub fn frames(events: &[Event], gaps: &[Gap]) -> Vec<u8> {
    let mut out = Vec::with_capacity(size(events.iter().map(EventRef::from)));
    for part in parts(events, gaps) {
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

/// Content of a stream or an export at a position.
enum EventOrGap<'a> {
    Event(&'a Event),
    Gap(&'a Gap),
}

/// Events and gaps in the order of their positions, both being so already.
fn parts<'a>(events: &'a [Event], gaps: &'a [Gap]) -> impl Iterator<Item = EventOrGap<'a>> {
    let (mut events, mut gaps) = (events.iter().peekable(), gaps.iter().peekable());
    std::iter::from_fn(move || {
        let first = |gap: &&Gap| events.peek().is_none_or(|event| gap.range.from <= event.position);
        match gaps.next_if(first) {
            Some(gap) => Some(EventOrGap::Gap(gap)),
            None => events.next().map(EventOrGap::Event),
        }
    })
}

fn write_gap(out: &mut Vec<u8>, gap: &Gap) {
    write_value(out, &events::GapLine { kind: "gap".to_owned(), gap: gap.into() });
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

/// The last frame of a stream whose session is deleted, an event of the Managed Agents wire that no
/// session holds; it has no id.
#[must_use]
pub fn deleted(session: &SessionId, now: Timestamp) -> Vec<u8> {
    // The alphabet of a session's id needs no escape.
    format!(
        "event: session.deleted\ndata: {{\"id\":\"deleted-{session}\",\"type\":\"session.deleted\",\
         \"processed_at\":\"{now}\"}}\n\n"
    )
    .into_bytes()
}

/// An error in a stream that has begun; it has no id.
#[must_use]
pub fn failed(error: &ErrorBody) -> Vec<u8> {
    let mut out = b"event: error\ndata: ".to_vec();
    write_value(&mut out, error);
    out.extend_from_slice(b"\n\n");
    out
}

fn data<'a>(events: impl Iterator<Item = EventRef<'a>> + Clone) -> Vec<u8> {
    let mut out = Vec::with_capacity(size(events.clone()));
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

fn write_places(out: &mut Vec<u8>, first: Position, next: Position) {
    out.extend_from_slice(br#","first_position":"#);
    json::write_number(out, first.0);
    out.extend_from_slice(br#","next_position":"#);
    json::write_number(out, next.0);
}

fn write_receipt(out: &mut Vec<u8>, receipt: &Receipt) {
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

/// Roughly what the events take as text.
fn size<'a>(events: impl Iterator<Item = EventRef<'a>>) -> usize {
    256 + events.map(|event| event.body.len() + 256).sum::<usize>()
}

fn write_value(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    serde_json::to_writer(out, value).expect("wire shapes are JSON and memory takes it");
}
