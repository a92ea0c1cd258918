//! The protobuf bodies of emitEvent and getEvents, for clients that move much. The same checks and
//! the same answers as JSON; bodies are JSON text here too. It must not be stricter or laxer.

use prost::{
    Message as _,
    bytes::{Buf as _, Bytes},
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use super::{convert, json, pb};
use crate::{
    event::{Event, EventId, EventType, NewEvent, Origin, Position, Timestamp, limits},
    service::{Code, Emitted, EventSlice, ServiceError, ServiceResult},
};

/// The media type of these bodies.
pub const MEDIA_TYPE: &str = "application/x-protobuf";

/// The events of an `EmitRequest`. They are taken one by one, so that a small body of many empty
/// events cannot grow large in memory.
///
/// # Errors
/// `invalid_json` when it is no such message; `invalid_request` naming the field.
pub fn events(mut body: Bytes, origin: Origin) -> ServiceResult<Vec<NewEvent>> {
    let mut found = Vec::new();
    while body.has_remaining() {
        let (tag, kind) = decode_key(&mut body).map_err(malformed)?;
        if (tag, kind) != (1, WireType::LengthDelimited) {
            skip_field(kind, tag, &mut body, DecodeContext::default()).map_err(malformed)?;
            continue;
        }
        let length = decode_varint(&mut body).map_err(malformed)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= body.len());
        let Some(length) = length else { return Err(malformed("a length beyond the end")) };
        if found.len() == limits::BATCH_EVENTS_MAX {
            let problem = format!("more than {} events", limits::BATCH_EVENTS_MAX);
            return Err(
                ServiceError::invalid("events", problem).action("send them as several batches")
            );
        }
        let sent = pb::NewEvent::decode(body.split_to(length)).map_err(malformed)?;
        let place = format!("events[{}]", found.len());
        found.push(event(sent, origin).map_err(|error| at(&place, error))?);
    }
    Ok(found)
}

fn malformed(problem: impl std::fmt::Display) -> ServiceError {
    ServiceError::new(Code::InvalidJson, format!("not a protobuf EmitRequest: {problem}"))
        .action("see proto/sessionlog/v1/events.proto")
}

/// Puts the event's place before the field an error names.
fn at(place: &str, error: ServiceError) -> ServiceError {
    match (error.code, &error.hint.field) {
        (Code::InvalidRequest, Some(field)) => {
            let problem = error.message.strip_prefix(&format!("{field}: "));
            ServiceError::invalid(&format!("{place}.{field}"), problem.unwrap_or(&error.message))
        }
        _ => error,
    }
}

fn event(sent: pb::NewEvent, origin: Origin) -> ServiceResult<NewEvent> {
    let invalid = ServiceError::invalid;
    let kind = EventType::new(&sent.r#type).map_err(|error| invalid("type", error))?;
    let id = Some(sent.id.as_str()).filter(|id| !id.is_empty()).map(EventId::new).transpose();
    if sent.body.len() > limits::EVENT_BYTES_MAX {
        let message = format!("body: larger than {} bytes", limits::EVENT_BYTES_MAX);
        return Err(ServiceError::new(Code::BodyTooLarge, message));
    }
    let body = if sent.body.is_empty() { Bytes::from_static(b"{}") } else { sent.body };
    json::bare_body(&kind, json::utf8(&body)?)?;
    Ok(NewEvent {
        id: id.map_err(|error| invalid("id", error))?,
        kind,
        origin,
        created_at: sent.created_at_micros.map(Timestamp),
        position: sent.position.map(Position),
        body,
    })
}

/// Answer to emitEvent.
#[must_use]
pub fn emitted(emitted: &Emitted) -> Vec<u8> {
    let answer = pb::EmitAnswer {
        data: emitted.events.iter().map(served).collect(),
        first_position: emitted.first_position.0,
        next_position: emitted.next_position.0,
        receipt: Some(pb::Receipt {
            position: emitted.receipt.position.0,
            chain: Bytes::copy_from_slice(&emitted.receipt.chain),
        }),
        repeated: emitted.repeated,
    };
    answer.encode_to_vec()
}

/// Answer to getEvents.
#[must_use]
pub fn slice(slice: &EventSlice) -> Vec<u8> {
    let gaps = slice.gaps.iter().map(|gap| pb::Gap {
        from: gap.range.from.0,
        to: gap.range.to.0,
        reason: gap.reason.clone(),
    });
    let answer = pb::EventsAnswer {
        data: slice.events.iter().map(served).collect(),
        next_page: slice.next_page.clone(),
        next_position: slice.next_position.0,
        tail: slice.tail.0,
        gaps: gaps.collect(),
    };
    answer.encode_to_vec()
}

fn served(event: &Event) -> pb::Event {
    pb::Event {
        id: event.id.to_string(),
        r#type: event.kind.to_string(),
        position: event.position.0,
        created_at_micros: event.created_at.map(|time| time.0),
        body: event.body.clone(),
        processed_at_micros: event.processed_at.0,
        origin: convert::origin_number(event.origin).into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(body: &'static str) -> pb::NewEvent {
        pb::NewEvent {
            r#type: "a.b".to_owned(),
            body: Bytes::from_static(body.as_bytes()),
            ..pb::NewEvent::default()
        }
    }

    #[test]
    fn a_protobuf_event_is_checked_like_json() {
        let refused = |new: pb::NewEvent| {
            let request = pb::EmitRequest { events: vec![sent("{}"), new] };
            let error = events(request.encode_to_vec().into(), Origin::Harness).expect_err("bad");
            (error.code, error.hint.field.unwrap_or_default())
        };
        for (body, field) in [
            (r#"{"id":"x"}"#, "events[1].id"),
            (r#"{"x":1,"x":2}"#, "events[1].x"),
            ("[1]", "events[1].body"),
        ] {
            assert_eq!(refused(sent(body)), (Code::InvalidRequest, field.to_owned()), "{body}");
        }
        assert_eq!(refused(sent("{")).0, Code::InvalidJson);
        let untyped = pb::NewEvent { r#type: String::new(), ..sent("{}") };
        assert_eq!(refused(untyped), (Code::InvalidRequest, "events[1].type".to_owned()));
    }

    #[test]
    fn many_empty_events_are_refused_before_they_grow() {
        let body: Vec<u8> = [0x0a, 0x00].repeat(limits::BATCH_EVENTS_MAX + 1);
        assert_eq!(
            events(body.into(), Origin::Harness).map_err(|error| error.code),
            Err(Code::InvalidRequest)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = events(bytes.into(), Origin::Harness);
        }
    }
}
