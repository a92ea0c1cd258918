//! Events as protobuf: checked like JSON, encoded like their message.

use proptest::prelude::*;
use prost::{Message as _, bytes::Bytes};

use sessionlog::{
    event::{Event, EventId, EventType, Origin, Position, Timestamp, limits},
    service::{Code, EventSlice},
    wire::{
        pb,
        protobuf::{encode_slice, parse_events},
    },
};

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
        let error = parse_events(request.encode_to_vec().into(), Origin::Harness).expect_err("bad");
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
    for micros in [i64::MIN, i64::MAX] {
        let beyond = pb::NewEvent { created_at_micros: Some(micros), ..sent("{}") };
        let field = "events[1].created_at_micros".to_owned();
        assert_eq!(refused(beyond), (Code::InvalidRequest, field));
    }
    let untyped = pb::NewEvent { r#type: String::new(), ..sent("{}") };
    assert_eq!(refused(untyped), (Code::InvalidRequest, "events[1].type".to_owned()));
}

#[test]
fn many_empty_events_are_rejected_before_allocation() {
    let body: Vec<u8> = [0x0a, 0x00].repeat(limits::BATCH_EVENTS_MAX + 1);
    assert_eq!(
        parse_events(body.into(), Origin::Harness).map_err(|error| error.code),
        Err(Code::InvalidRequest)
    );
}

fn kept(id: &str, position: u64, created_at: Option<i64>, processed_at: i64) -> Event {
    Event {
        position: Position(position),
        id: EventId::new(id).expect("an id"),
        kind: EventType::from_stored("a.b"),
        origin: Origin::Import,
        created_at: created_at.map(Timestamp),
        processed_at: Timestamp(processed_at),
        body: Bytes::from(format!("{{\"n\":{position}}}").repeat(id.len())),
    }
}

fn message(event: &Event) -> pb::Event {
    pb::Event {
        id: event.id.to_string(),
        r#type: event.kind.to_string(),
        position: event.position.0,
        created_at_micros: event.created_at.map(|time| time.0),
        body: event.body.clone(),
        processed_at_micros: event.processed_at.0,
        origin: pb::Origin::Import.into(),
    }
}

proptest! {
    #[test]
    fn a_response_encodes_like_its_protobuf_message(
        fields in prop::collection::vec(
            (".{1,40}", any::<u64>(), any::<Option<i64>>(), any::<i64>()), 0..5),
        zero in any::<bool>(),
        page in any::<Option<String>>(),
    ) {
        let one = |(id, position, created, processed): &(String, u64, Option<i64>, i64)| {
            let id: String = id.chars().filter(|c| !c.is_control()).take(9).collect();
            let id = format!("e{id}");
            match zero {
                true => kept(&id, 0, Some(0), 0),
                false => kept(&id, *position, *created, *processed),
            }
        };
        let slice_of = EventSlice {
            events: fields.iter().map(one).collect(),
            next_page: page.clone(),
            next_position: Position(7),
            tail: Position(9),
            gaps: Vec::new(),
            types_seen: vec![EventType::new("a.b").unwrap()],
        };
        let whole = pb::EventsAnswer {
            data: slice_of.events.iter().map(message).collect(),
            next_page: page,
            next_position: 7,
            tail: 9,
            gaps: Vec::new(),
            types_seen: vec!["a.b".to_owned()],
        };
        prop_assert_eq!(encode_slice(&slice_of), whole.encode_to_vec());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse_events(bytes.into(), Origin::Harness);
    }
}
