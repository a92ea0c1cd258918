//! JSON events parsed and written: removed, rejected and kept members.

use proptest::prelude::*;
use serde_json::Value;

use sessionlog::{
    event::{Event, EventId, NewEvent, Origin, Position, Timestamp, limits},
    service::Code,
    wire::json::{
        RESERVED, check, check_utf8, event_text, parse_event, parse_events, write_event_line,
    },
};

fn code(text: &str) -> (Code, Option<String>) {
    let error = parse_event(text, Origin::Harness).expect_err(text);
    (error.code, error.hint.field)
}

fn store_event(new: NewEvent) -> Event {
    Event {
        position: Position(7),
        id: new.id.unwrap_or_else(|| EventId::new("e \"1\"").expect("an id")),
        kind: new.kind,
        origin: new.origin,
        created_at: new.created_at,
        processed_at: Timestamp(1_700_000_000_000_000),
        body: new.body,
    }
}

#[test]
fn reserved_members_are_removed_and_the_rest_is_kept_verbatim() {
    for (text, body) in [
        (r#"{"type":"a.b"}"#, "{}"),
        (r#" { "type" : "a.b" } "#, "{}"),
        (r#"{"type":"a.b", "x" : 1.0 }"#, r#"{ "x" : 1.0 }"#),
        (r#"{"x":1,"type":"a.b","y":2,"id":"e"}"#, r#"{"x":1,"y":2}"#),
        (r#"{"\u0074ype":"a.b","z":"\u00e9"}"#, r#"{"z":"\u00e9"}"#),
        (
            r#"{"type":"a.b","n":1234567890123456789012345678901.50e400}"#,
            r#"{"n":1234567890123456789012345678901.50e400}"#,
        ),
        (
            r#"{"b":1,"a":{"type":7,"id":[]},"type":"a.b","processed_at":"x","origin":null}"#,
            r#"{"b":1,"a":{"type":7,"id":[]}}"#,
        ),
    ] {
        let event = parse_event(text, Origin::Harness).expect(text);
        assert_eq!(event.body, body.as_bytes(), "{text}");
        assert_eq!(event.kind.as_str(), "a.b", "{text}");
    }
}

#[test]
fn reserved_members_of_a_wrong_type_are_rejected_with_an_error_naming_them() {
    for (text, name) in [
        (r#"{"x":1}"#, "type"),
        (r#"{"type":7}"#, "type"),
        (r#"{"type":null}"#, "type"),
        (r#"{"type":"a b"}"#, "type"),
        (r#"{"type":"bare"}"#, "type"),
        (r#"{"type":"a.b","id":7}"#, "id"),
        (r#"{"type":"a.b","id":""}"#, "id"),
        (r#"{"type":"a.b","id":"\ud800"}"#, "id"),
        (r#"{"type":"a.b","position":"7"}"#, "position"),
        (r#"{"type":"a.b","position":-1}"#, "position"),
        (r#"{"type":"a.b","position":1.0}"#, "position"),
        (r#"{"type":"a.b","position":18446744073709551616}"#, "position"),
        (r#"{"type":"a.b","created_at":7}"#, "created_at"),
        (r#"{"type":"a.b","created_at":"yesterday"}"#, "created_at"),
        (r#"{"type":"a.b","processed_at":7}"#, "processed_at"),
        (r#"{"type":"a.b","origin":{}}"#, "origin"),
        (r#"{"type":"a.b","x":1,"x":2}"#, "x"),
        (r#"{"type":"a.b","\u0078":1,"x":2}"#, "x"),
        (r#"{"type":"a.b","type":"b.b"}"#, "type"),
    ] {
        assert_eq!(code(text), (Code::InvalidRequest, Some(name.to_owned())), "{text}");
    }
    for text in ["", "{", r#"{"type":"a.b",}"#, r#"{"type":"a.b"} x"#, r#"{"type":"a.b" "b":1}"#] {
        assert_eq!(code(text).0, Code::InvalidJson, "{text}");
    }
    assert_eq!(code("[1]").0, Code::InvalidRequest);
}

#[test]
fn an_invalid_request_error_names_its_invalid_event() {
    let refused = |text: &str| {
        let error = parse_events(text, Origin::Harness, true).expect_err(text);
        (error.code, error.hint.field.unwrap_or_default())
    };
    for (text, name) in [
        (r#"{"events":[{"type":"a.b"},{"type":"a.b","id":1}]}"#, "events[1].id"),
        (r#"{"events":[1]}"#, "events[0]"),
        (r#"{"events":{}}"#, "events"),
        (r#"{"events":[],"events":[]}"#, "events"),
        (r#"{"events":[{"type":"a.b"}],"if_position":0}"#, "if_position"),
        (r#"{"ifPosition":0,"events":[{"type":"a.b"}]}"#, "ifPosition"),
        (r#"{"Idempotency-Key":"k","events":[{"type":"a.b"}]}"#, "Idempotency-Key"),
        (r#"{"events":[{"type":"a.b"}],"fencing\u005ftoken":1}"#, "fencing_token"),
        (r#"{}"#, "events"),
        (r#"[]"#, "body"),
    ] {
        assert_eq!(refused(text), (Code::InvalidRequest, name.to_owned()), "{text}");
    }
    assert_eq!(refused(r#"{"events":[{"type":"a.b"}}"#).0, Code::InvalidJson);
    let deep =
        format!(r#"{{"events":[{{"type":"a.b","x":{}1{}}}]}}"#, "[".repeat(128), "]".repeat(128));
    assert_eq!(refused(&deep), (Code::InvalidRequest, "events[0]".to_owned()));
    let fits =
        format!(r#"{{"events":[{{"type":"a.b","x":{}1{}}}]}}"#, "[".repeat(127), "]".repeat(127));
    assert_eq!(parse_events(&fits, Origin::Harness, true).map(|events| events.len()), Ok(1));
}

#[test]
fn an_exported_event_of_maximum_size_is_accepted_again() {
    let body = |bytes: usize| format!(r#"{{"x":"{}"}}"#, "y".repeat(bytes - 8));
    let typed = |body: &str| body.replacen('{', r#"{"type":"a.b","id":"e","#, 1);
    let largest = body(limits::EVENT_BYTES_MAX);
    let first = parse_event(&typed(&largest), Origin::Harness).expect("it fits");
    assert_eq!(first.body, largest);
    let again =
        parse_event(&event_text(&store_event(first)), Origin::Harness).expect("it fits again");
    assert_eq!(again.body, largest);
    let larger = parse_event(&typed(&body(limits::EVENT_BYTES_MAX + 1)), Origin::Harness);
    assert_eq!(larger.map_err(|error| error.code), Err(Code::BodyTooLarge));
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn an_event_round_trips_through_json(
        members in prop::collection::btree_map("[a-z\\\\\"é]{1,4}", json(), 0..5),
        pretty in any::<bool>(),
        created in prop::option::of(0i64..2_000_000_000_000_000),
        at in 0usize..6,
    ) {
        let mut members: Vec<(String, Value)> = members.into_iter().collect();
        members.retain(|(name, _)| !RESERVED.contains(&name.as_str()));
        members.insert(at.min(members.len()), ("type".to_owned(), "a.b".into()));
        if let Some(micros) = created {
            let time = Timestamp(micros).to_string();
            members.insert(at.min(members.len()), ("created_at".to_owned(), time.into()));
        }
        let sent: serde_json::Map<String, Value> = members.into_iter().collect();
        let text = if pretty {
            serde_json::to_string_pretty(&sent)
        } else {
            serde_json::to_string(&sent)
        }
        .expect("JSON");
        let mut body: serde_json::Map<String, Value> =
            serde_json::from_str(&text).expect("JSON");
        body.retain(|name, _| !RESERVED.contains(&name.as_str()));
        let first = parse_event(&text, Origin::Model).expect("taken");
        let stored: Value = serde_json::from_slice(&first.body).expect("the body is JSON");
        prop_assert_eq!(&stored, &Value::Object(body));
        let wire = event_text(&store_event(first.clone()));
        let again = parse_event(&wire, Origin::Model).expect("taken again");
        prop_assert_eq!(&again.body, &first.body, "body bytes survive");
        prop_assert_eq!(again.created_at, first.created_at);
        prop_assert_eq!(again.position, Some(Position(7)));
        let mut line = Vec::new();
        write_event_line(&mut line, &store_event(first));
        prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        prop_assert_eq!(
            serde_json::from_slice::<Value>(&line).expect("JSON"),
            serde_json::from_str::<Value>(&wire).expect("JSON")
        );
    }

    #[test]
    fn numbers_round_trip_through_parsed_tool_arguments(number in any::<f64>()) {
        let text = Value::from(number).to_string();
        let tree: Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(tree.to_string(), text);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(text) = check_utf8(&bytes) {
            let one = parse_event(text, Origin::User);
            let _ = (check(text), one, parse_events(text, Origin::User, true));
        }
    }
}
