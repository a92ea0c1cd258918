//! Answers of the event tools. Events have the same form as on HTTP; the first one that does not
//! fit the answer is truncated. It must not resolve a point.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    event::{Event, json as bounded, kinds},
    harness::fit,
    projection::body,
    service::{EmitResult, EventSlice, hex},
    wire::{answer::notices, json as text},
};

/// Default, minimum and maximum bytes of an answer.
const BYTES_DEFAULT: usize = 10_000;
const BYTES_MIN: usize = 2_000;
const BYTES_MAX: usize = 1_000_000;
/// Bytes reserved for names, ids and marker of an answer, and for an event's other members.
const FRAME_BYTES: usize = 700;
const HEAD_BYTES: usize = 700;

/// Answer to an appended event.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EventEmitted {
    id: String,
    position: u64,
    next_position: u64,
    /// True if the event had been appended before.
    repeated: bool,
    /// Chain value after the event.
    chain: String,
    /// Notices about the event, such as that no view shows its type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

impl EventEmitted {
    pub(crate) fn new(emitted: &EmitResult) -> Self {
        let EmitResult { events, appended } = emitted;
        let id = appended.events.first().map(|event| event.id.to_string()).unwrap_or_default();
        Self {
            id,
            position: appended.first_position.0,
            next_position: appended.next_position.0,
            repeated: appended.repeated,
            chain: hex(&appended.receipt.chain),
            notices: notices(events),
        }
    }
}

/// Events of a slice.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SliceShown {
    /// Events as HTTP returns them; one too large for the answer has a preview instead of its body.
    #[schemars(with = "Vec<Map<String, Value>>")]
    events: Vec<Box<RawValue>>,
    /// Position to continue from: the next from, or with order desc the next to.
    next_position: u64,
    /// Position that the next event of the session will get.
    tail: u64,
    /// True if the range has more events.
    has_more: bool,
    /// If types matched no event of the range: types of the session's last 200 events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    types_seen: Vec<String>,
}

impl SliceShown {
    pub(crate) fn new(slice: &EventSlice, descending: bool, bytes_max: Option<usize>) -> Self {
        let bytes_max = bytes_max.unwrap_or(BYTES_DEFAULT).clamp(BYTES_MIN, BYTES_MAX);
        let mut left = bytes_max - FRAME_BYTES;
        let (mut events, mut cut) = (Vec::new(), None);
        for event in &slice.events {
            let without = without_injected_text(event);
            let event = without.as_ref().unwrap_or(event);
            let shown = whole_event(event).filter(|(_, price)| *price <= left);
            let shown = shown.or_else(|| {
                let first = events.is_empty();
                first.then(|| preview(event, left.saturating_sub(HEAD_BYTES)))
            });
            let Some((shown, price)) = shown else {
                cut = Some(if descending { event.position.plus(1) } else { event.position });
                break;
            };
            left = left.saturating_sub(price);
            events.push(shown);
        }
        Self {
            events,
            next_position: cut.unwrap_or(slice.next_position).0,
            tail: slice.tail.0,
            has_more: cut.is_some() || slice.next_page.is_some(),
            types_seen: slice.types_seen.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Returns the event without the text that a model was given, so that it is not given again.
fn without_injected_text(event: &Event) -> Option<Event> {
    let mut members: Map<String, Value> = (event.kind.as_str() == kinds::CONTEXT_INJECTED)
        .then(|| body::read_tree(&event.body))
        .flatten()?;
    members.shift_remove("text")?;
    Some(Event { body: body::write(&members), ..event.clone() })
}

/// Returns the event as HTTP returns it, and its bytes; `None` if it has a number beyond the range
/// of doubles, or too many values for a tree.
fn whole_event(event: &Event) -> Option<(Box<RawValue>, usize)> {
    let text = text::event_text(event);
    text::parse_lossy(bounded::check(&text)?.as_bytes()).ok()?;
    let text = RawValue::from_string(text::replace_lone_surrogates(&text).into_owned()).ok()?;
    let bytes = text.get().len();
    Some((text, bytes + 1))
}

/// Returns the reserved members, and the beginning of the body as text.
fn preview(event: &Event, bytes_max: usize) -> (Box<RawValue>, usize) {
    let body = String::from_utf8_lossy(&event.body);
    let beginning = fit(&body, bytes_max).text;
    let mut members = Map::new();
    members.insert("id".to_owned(), json!(event.id.as_str()));
    members.insert("type".to_owned(), json!(event.kind.as_str()));
    members.insert("position".to_owned(), json!(event.position.0));
    members.insert("processed_at".to_owned(), json!(event.processed_at.to_string()));
    members.insert("origin".to_owned(), json!(event.origin.as_str()));
    members.insert("truncated".to_owned(), json!(true));
    members.insert("body_bytes".to_owned(), json!(event.body.len()));
    members.insert("preview".to_owned(), json!(beginning));
    let text = serde_json::value::to_raw_value(&members).expect("members are JSON");
    (text, bytes_max + HEAD_BYTES)
}
