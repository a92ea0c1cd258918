//! The protobuf bodies of emitEvent and getEvents, for clients with many events. Checks and answers
//! are those of JSON, and bodies are JSON text here too. It must not be stricter or less strict.

use prost::{
    Message as _,
    bytes::{Buf as _, Bytes},
    encoding::{
        DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint,
        encoded_len_varint, key_len, skip_field,
    },
};

use super::{convert, json, pb};
use crate::{
    event::{EventId, EventRef, EventType, NewEvent, Origin, Position, Timestamp, limits},
    service::{AppendResult, Code, EmitResult, EventSlice, ServiceError, ServiceResult},
};

/// Parses the events of an `EmitRequest` one by one, so that a small body of many empty events
/// cannot grow large in memory.
///
/// # Errors
/// `invalid_json` if it is not such a message; `invalid_request` naming the field.
pub fn parse_events(mut body: Bytes, origin: Origin) -> ServiceResult<Vec<NewEvent>> {
    let mut found = Vec::new();
    while body.has_remaining() {
        let (tag, kind) = decode_key(&mut body).map_err(malformed_error)?;
        if tag != 1 {
            skip_field(kind, tag, &mut body, DecodeContext::default()).map_err(malformed_error)?;
            continue;
        }
        if kind != WireType::LengthDelimited {
            // Skipping it would report that every event is stored.
            return Err(malformed_error("an event that is no message"));
        }
        let length = decode_varint(&mut body).map_err(malformed_error)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= body.len());
        let Some(length) = length else { return Err(malformed_error("a length beyond the end")) };
        if found.len() == limits::BATCH_EVENTS_MAX {
            let problem = format!("more than {} events", limits::BATCH_EVENTS_MAX);
            return Err(
                ServiceError::invalid("events", problem).action("send them as several batches")
            );
        }
        let sent = pb::NewEvent::decode(body.split_to(length)).map_err(malformed_error)?;
        let path = format!("events[{}]", found.len());
        found.push(parse_event(sent, origin).map_err(|error| prefix_field(&path, error))?);
    }
    Ok(found)
}

fn malformed_error(problem: impl std::fmt::Display) -> ServiceError {
    ServiceError::new(Code::InvalidJson, format!("not a protobuf EmitRequest: {problem}"))
        .action("see proto/sessionlog/v1/events.proto")
}

/// Prefixes the field that an error names with the event's path.
fn prefix_field(path: &str, error: ServiceError) -> ServiceError {
    match (error.code, &error.hint.field) {
        (Code::InvalidRequest, Some(field)) => {
            let problem = error.message.strip_prefix(&format!("{field}: "));
            ServiceError::invalid(&format!("{path}.{field}"), problem.unwrap_or(&error.message))
        }
        _ => error,
    }
}

fn parse_event(sent: pb::NewEvent, origin: Origin) -> ServiceResult<NewEvent> {
    let invalid = ServiceError::invalid;
    let kind = EventType::new(&sent.r#type).map_err(|error| invalid("type", error))?;
    let id = Some(sent.id.as_str()).filter(|id| !id.is_empty()).map(EventId::new).transpose();
    if sent.body.len() > limits::EVENT_BYTES_MAX {
        let message = format!("body: larger than {} bytes", limits::EVENT_BYTES_MAX);
        return Err(ServiceError::new(Code::BodyTooLarge, message));
    }
    let body = if sent.body.is_empty() { Bytes::from_static(b"{}") } else { sent.body };
    json::check_body(json::check_utf8(&body)?)?;
    let created_at = sent.created_at_micros.map(Timestamp);
    if created_at.is_some_and(|at| at.in_range().is_none()) {
        return Err(ServiceError::invalid("created_at_micros", Timestamp::EXPECTED));
    }
    Ok(NewEvent {
        id: id.map_err(|error| invalid("id", error))?,
        kind,
        origin,
        created_at,
        position: sent.position.map(Position),
        body,
    })
}

/// Encodes the answer to emitEvent.
#[must_use]
pub fn encode_emitted(emitted: &EmitResult) -> Vec<u8> {
    let AppendResult { first_position, next_position, receipt, repeated, .. } = &emitted.appended;
    let rest = pb::EmitAnswer {
        data: Vec::new(),
        first_position: first_position.0,
        next_position: next_position.0,
        receipt: Some(pb::Receipt {
            position: receipt.position.0,
            chain: Bytes::copy_from_slice(&receipt.chain),
        }),
        repeated: *repeated,
    };
    encode_answer(emitted.stored_events(), &rest)
}

/// Encodes the answer to getEvents.
#[must_use]
pub fn encode_slice(slice: &EventSlice) -> Vec<u8> {
    let gaps = slice.gaps.iter().map(|gap| pb::Gap {
        from: gap.range.from.0,
        to: gap.range.to.0,
        reason: gap.reason.clone(),
        accepted_at_micros: gap.accepted_at.map(|time| time.0),
    });
    let rest = pb::EventsAnswer {
        data: Vec::new(),
        next_page: slice.next_page.clone(),
        next_position: slice.next_position.0,
        tail: slice.tail.0,
        gaps: gaps.collect(),
        types_seen: slice.types_seen.iter().map(ToString::to_string).collect(),
    };
    encode_answer(slice.events.iter().map(EventRef::from), &rest)
}

/// Encodes an answer whose first field is its events: they are copied directly into the output, and
/// the other fields follow.
fn encode_answer<'a>(
    events: impl Iterator<Item = EventRef<'a>> + Clone,
    rest: &impl prost::Message,
) -> Vec<u8> {
    let sizes = || events.clone().map(|event| EventFields::new(event).encoded_len());
    let all =
        sizes().map(|size| size + key_len(1) + encoded_len_varint(size as u64)).sum::<usize>();
    let mut out = Vec::with_capacity(all + rest.encoded_len());
    for (event, size) in events.clone().zip(sizes()) {
        encode_key(1, WireType::LengthDelimited, &mut out);
        encode_varint(size as u64, &mut out);
        EventFields::new(event).write(&mut out);
    }
    rest.encode(&mut out).expect("a vector takes every byte");
    out
}

/// Fields of an event in the order of their numbers, as `pb::Event` would be encoded.
struct EventFields<'a> {
    texts: [(u32, &'a [u8]); 3],
    /// Numbers; 0 is not encoded.
    numbers: [(u32, u64); 3],
    created_at: Option<u64>,
}

impl<'a> EventFields<'a> {
    fn new(event: EventRef<'a>) -> Self {
        let (id, kind) = (event.id.as_str().as_bytes(), event.kind.as_str().as_bytes());
        let origin = i32::from(convert::origin_number(event.origin));
        Self {
            texts: [(1, id), (2, kind), (5, event.body)],
            numbers: [
                (3, event.position.0),
                (6, event.processed_at.0.cast_unsigned()),
                (7, u64::from(origin.cast_unsigned())),
            ],
            created_at: event.created_at.map(|time| time.0.cast_unsigned()),
        }
    }

    fn encoded_len(&self) -> usize {
        let text = |(tag, text): &(u32, &[u8])| {
            key_len(*tag) + encoded_len_varint(text.len() as u64) + text.len()
        };
        let number = |(tag, number): &(u32, u64)| key_len(*tag) + encoded_len_varint(*number);
        let texts = self.texts.iter().filter(|(_, text)| !text.is_empty()).map(text);
        let numbers = self.numbers.iter().filter(|(_, number)| *number != 0).map(number);
        let created_at = self.created_at.map_or(0, |micros| number(&(4, micros)));
        texts.sum::<usize>() + numbers.sum::<usize>() + created_at
    }

    fn write(&self, out: &mut Vec<u8>) {
        let [id, kind, body] = self.texts;
        let [position, processed_at, origin] = self.numbers;
        write_text(id, out);
        write_text(kind, out);
        write_number(position, out);
        if let Some(micros) = self.created_at {
            encode_key(4, WireType::Varint, out);
            encode_varint(micros, out);
        }
        write_text(body, out);
        write_number(processed_at, out);
        write_number(origin, out);
    }
}

fn write_text((tag, text): (u32, &[u8]), out: &mut Vec<u8>) {
    if !text.is_empty() {
        encode_key(tag, WireType::LengthDelimited, out);
        encode_varint(text.len() as u64, out);
        out.extend_from_slice(text);
    }
}

fn write_number((tag, number): (u32, u64), out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(number, out);
    }
}
