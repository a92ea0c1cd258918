//! Events as JSON text. On the way in the reserved members are cut out and what is left is the
//! body; on the way out they come first and the stored text follows, untouched: key order, big
//! numbers, escapes and white space survive. One pass, no tree. It must not interpret a body
//! beyond its top-level keys.
//!
//! ```text
//! in    {"type":"t", "content": 1.0, "id":"e"}
//! body  { "content": 1.0}                        members between their commas, joined again
//! out   {"id":"e","type":"t","position":7,…, "content": 1.0}
//! ```

use std::{borrow::Cow, collections::HashSet, io::Write as _};

use bytes::Bytes;

use super::{
    convert,
    scan::{Flaw, Scanner, unescaped},
};
use crate::{
    event::{Event, EventId, EventType, NewEvent, Origin, Position, Timestamp, limits},
    service::{Code, ServiceError, ServiceResult},
};

/// Members that belong to the store, not to the body.
pub const RESERVED: [&str; 6] = ["id", "type", "position", "processed_at", "created_at", "origin"];

/// Nesting inside an event's own braces.
const LEVELS_INSIDE: u32 = limits::JSON_DEPTH_MAX as u32 - 1;
const _: () = assert!(limits::JSON_DEPTH_MAX <= 128, "the scanner follows 128 levels");

/// Why an event's text is refused, before the caller says which event of the batch it is.
enum Refused {
    Text(Flaw),
    Field { name: String, problem: String },
}

impl From<Flaw> for Refused {
    fn from(flaw: Flaw) -> Self {
        Self::Text(flaw)
    }
}

fn field<T>(name: &str, problem: impl ToString) -> Result<T, Refused> {
    Err(Refused::Field { name: name.to_owned(), problem: problem.to_string() })
}

impl Refused {
    /// `place` is empty or `events[3]`.
    fn into_error(self, place: &str) -> ServiceError {
        match self {
            Self::Text(flaw) if flaw.deep => too_deep(place),
            Self::Text(flaw) => not_json(flaw.at, flaw.problem),
            Self::Field { name, problem } if place.is_empty() => {
                ServiceError::invalid(&name, problem)
            }
            Self::Field { name, problem } if name.is_empty() => {
                ServiceError::invalid(place, problem)
            }
            Self::Field { name, problem } => {
                ServiceError::invalid(&format!("{place}.{name}"), problem)
            }
        }
    }
}

fn not_json(at: usize, problem: &str) -> ServiceError {
    ServiceError::new(Code::InvalidJson, format!("not JSON at byte {at}: {problem}"))
        .action("send one JSON document in UTF-8")
}

fn too_deep(place: &str) -> ServiceError {
    let problem = format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX);
    ServiceError::invalid(if place.is_empty() { "body" } else { place }, problem)
}

/// Text of a body, when it is UTF-8.
///
/// # Errors
/// `invalid_json`.
pub fn utf8(bytes: &[u8]) -> ServiceResult<&str> {
    std::str::from_utf8(bytes).map_err(|error| not_json(error.valid_up_to(), "not UTF-8"))
}

/// Checks that a text is one JSON value, nested no deeper than the limit.
///
/// # Errors
/// `invalid_json`, or `invalid_request` for a document that is nested too deep.
pub fn check(text: &str) -> ServiceResult<()> {
    let mut scanner = Scanner::new(text);
    let levels = u32::try_from(limits::JSON_DEPTH_MAX).unwrap_or(u32::MAX);
    let checked = scanner.value(levels).and_then(|_| scanner.end());
    checked.map_err(|flaw| Refused::Text(flaw).into_error(""))
}

/// One event from its JSON object text.
///
/// # Errors
/// `invalid_json`; `invalid_request` naming the member; `body_too_large`.
pub fn event(text: &str, origin: Origin) -> ServiceResult<NewEvent> {
    let mut scanner = Scanner::new(text);
    scanner.space();
    let event = object(&mut scanner, origin, "")?;
    scanner.end().map_err(|flaw| Refused::Text(flaw).into_error(""))?;
    Ok(event)
}

/// The events of `{"events":[…]}`. Other members of the request are checked and ignored.
///
/// # Errors
/// Those of [`event`], each naming the event by its index.
pub fn events(text: &str, origin: Origin) -> ServiceResult<Vec<NewEvent>> {
    let plain = |flaw: Flaw| Refused::Text(flaw).into_error("");
    let mut scanner = Scanner::new(text);
    let mut found = None;
    scanner.space();
    if scanner.peek() != Some(b'{') {
        check(text)?;
        return Err(ServiceError::invalid("body", "an object {\"events\":[…]} is expected"));
    }
    scanner.take(b'{', "an object is missing").map_err(plain)?;
    let mut first = true;
    while let Some(key) = scanner.next_key(first).map_err(plain)? {
        first = false;
        if unescaped(key).as_ref() != b"events" {
            scanner.value(LEVELS_INSIDE).map_err(plain)?;
        } else if found.is_some() {
            return Err(ServiceError::invalid("events", "the key comes twice"));
        } else {
            found = Some(array(&mut scanner, origin)?);
        }
    }
    scanner.end().map_err(plain)?;
    found.ok_or_else(|| ServiceError::invalid("events", "it is missing"))
}

fn array(scanner: &mut Scanner<'_>, origin: Origin) -> ServiceResult<Vec<NewEvent>> {
    let plain = |flaw: Flaw| Refused::Text(flaw).into_error("");
    if scanner.peek() != Some(b'[') {
        scanner.value(LEVELS_INSIDE).map_err(plain)?;
        return Err(ServiceError::invalid("events", "a list is expected"));
    }
    scanner.take(b'[', "a list is missing").map_err(plain)?;
    let mut events = Vec::new();
    while scanner.next_element(events.is_empty()).map_err(plain)? {
        if events.len() == limits::BATCH_EVENTS_MAX {
            let problem = format!("more than {} events", limits::BATCH_EVENTS_MAX);
            return Err(
                ServiceError::invalid("events", problem).action("send them as several batches")
            );
        }
        let place = format!("events[{}]", events.len());
        events.push(object(scanner, origin, &place)?);
    }
    Ok(events)
}

fn object(scanner: &mut Scanner<'_>, origin: Origin, place: &str) -> ServiceResult<NewEvent> {
    let event = members(scanner, origin).map_err(|refused| refused.into_error(place))?;
    // The reserved members are not counted: with those of the server an event would be larger
    // on its way out than it may be on its way in.
    if event.body.len() > limits::EVENT_BYTES_MAX {
        let name = if place.is_empty() { "event" } else { place };
        let message = format!("{name}: larger than {} bytes", limits::EVENT_BYTES_MAX);
        return Err(ServiceError::new(Code::BodyTooLarge, message)
            .action("keep large content elsewhere and refer to it"));
    }
    Ok(event)
}

/// What the reserved members of one event say.
#[derive(Default)]
struct Head {
    id: Option<EventId>,
    kind: Option<EventType>,
    position: Option<Position>,
    created_at: Option<Timestamp>,
}

fn members(scanner: &mut Scanner<'_>, origin: Origin) -> Result<NewEvent, Refused> {
    if scanner.peek() != Some(b'{') {
        scanner.value(LEVELS_INSIDE)?;
        return field("", "an event is a JSON object");
    }
    scanner.take(b'{', "an object is missing")?;
    let mut head = Head::default();
    let mut found_by = None;
    let mut body = vec![b'{'];
    let mut seen: HashSet<Cow<'_, [u8]>> = HashSet::new();
    let mut chunk = scanner.at();
    while let Some(key) = scanner.next_key(seen.is_empty())? {
        let value = scanner.value(LEVELS_INSIDE)?;
        scanner.space();
        let text = scanner.text_between(chunk, scanner.at());
        chunk = scanner.at() + 1;
        let key = unescaped(key);
        if !head.take(&key, value)? {
            if key.as_ref() == b"found_by" {
                found_by = Some(value);
            }
            if body.len() > 1 {
                body.push(b',');
            }
            body.extend_from_slice(text.as_bytes());
        }
        if let Some(twice) = seen.replace(key) {
            return field(&String::from_utf8_lossy(&twice), "the key comes twice");
        }
    }
    body.push(b'}');
    let Some(kind) = head.kind else { return field("type", "it is missing") };
    if found_by.is_some_and(|value| by_server(&kind, b"found_by", value)) {
        return field("found_by", "only the server says that it found a source");
    }
    Ok(NewEvent {
        id: head.id,
        kind,
        origin,
        created_at: head.created_at,
        position: head.position,
        body: Bytes::from(body),
    })
}

impl Head {
    /// Takes a reserved member; `false` leaves the member to the body.
    fn take(&mut self, key: &[u8], value: &str) -> Result<bool, Refused> {
        match key {
            b"id" => {
                let Some(text) = text("id", value)? else { return Ok(true) };
                match EventId::new(&text) {
                    Ok(id) => self.id = Some(id),
                    Err(error) => return field("id", error),
                }
            }
            b"type" => match text("type", value)?.map(|text| EventType::new(&text)) {
                Some(Ok(kind)) => self.kind = Some(kind),
                Some(Err(error)) => return field("type", error),
                None => return field("type", "a text is expected, not null"),
            },
            b"created_at" => {
                let Some(text) = text("created_at", value)? else { return Ok(true) };
                match Timestamp::parse(&text) {
                    Some(time) => self.created_at = Some(time),
                    None => return field("created_at", "an RFC 3339 time is expected"),
                }
            }
            b"position" if value == "null" => {}
            b"position" => match value.parse() {
                Ok(position) => self.position = Some(Position(position)),
                Err(_) => return field("position", "a whole number from 0 on is expected"),
            },
            // What the server says of an event is the server's: checked, then left aside.
            b"processed_at" => drop(text("processed_at", value)?),
            b"origin" => drop(text("origin", value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The text of a string member; `None` for null.
fn text(name: &str, value: &str) -> Result<Option<String>, Refused> {
    if value == "null" {
        return Ok(None);
    }
    if !value.starts_with('"') {
        return field(name, "a text is expected");
    }
    match String::from_utf8(unescaped(value).into_owned()) {
        Ok(text) => Ok(Some(text)),
        Err(_) => field(name, "it holds half of a surrogate pair"),
    }
}

/// Checks a body that comes without reserved members, as protobuf carries it.
///
/// # Errors
/// `invalid_json`; `invalid_request` naming the member.
pub fn bare_body(kind: &EventType, body: &str) -> ServiceResult<()> {
    let mut scanner = Scanner::new(body);
    let checked = bare_members(&mut scanner, kind);
    let ended = checked.and_then(|()| scanner.end().map_err(Refused::Text));
    ended.map_err(|refused| refused.into_error(""))
}

fn bare_members(scanner: &mut Scanner<'_>, kind: &EventType) -> Result<(), Refused> {
    if scanner.peek() != Some(b'{') {
        scanner.value(LEVELS_INSIDE)?;
        return field("body", "a JSON object is expected");
    }
    scanner.take(b'{', "an object is missing")?;
    let mut seen: HashSet<Cow<'_, [u8]>> = HashSet::new();
    while let Some(key) = scanner.next_key(seen.is_empty())? {
        let value = scanner.value(LEVELS_INSIDE)?;
        let key = unescaped(key);
        if RESERVED.iter().any(|reserved| reserved.as_bytes() == key.as_ref()) {
            return field(&String::from_utf8_lossy(&key), "reserved: it has a field of its own");
        }
        if by_server(kind, &key, value) {
            return field("found_by", "only the server says that it found a source");
        }
        if let Some(twice) = seen.replace(key) {
            return field(&String::from_utf8_lossy(&twice), "the key comes twice");
        }
    }
    Ok(())
}

/// Whether a member claims what only the server may: that it found a source itself.
fn by_server(kind: &EventType, key: &[u8], value: &str) -> bool {
    kind.as_str() == "source.found" && key == b"found_by" && unescaped(value).as_ref() == b"server"
}

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
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text is JSON and memory takes it");
}

/// What follows the reserved members: a comma and the body's members, or only its brace.
fn tail_of(body: &[u8]) -> (&'static [u8], &[u8]) {
    debug_assert!(body.starts_with(b"{"), "a stored body is an object");
    let members = body.strip_prefix(b"{").unwrap_or(b"}");
    if members.trim_ascii_start().starts_with(b"}") { (b"", b"}") } else { (b",", members) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn code(text: &str) -> (Code, Option<String>) {
        let error = event(text, Origin::Harness).expect_err(text);
        (error.code, error.hint.field)
    }

    fn kept(new: NewEvent) -> Event {
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
    fn reserved_members_are_cut_out_and_the_rest_stays_as_it_came() {
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
            let event = event(text, Origin::Harness).expect(text);
            assert_eq!(event.body, body.as_bytes(), "{text}");
            assert_eq!(event.kind.as_str(), "a.b", "{text}");
        }
    }

    #[test]
    fn reserved_members_of_the_wrong_type_are_refused_by_name() {
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
            (r#"{"type":"source.found","found_by":"server"}"#, "found_by"),
            (r#"{"found_by":"s\u0065rver","type":"source.found"}"#, "found_by"),
        ] {
            assert_eq!(code(text), (Code::InvalidRequest, Some(name.to_owned())), "{text}");
        }
        for text in
            ["", "{", r#"{"type":"a.b",}"#, r#"{"type":"a.b"} x"#, r#"{"type":"a.b" "b":1}"#]
        {
            assert_eq!(code(text).0, Code::InvalidJson, "{text}");
        }
        assert_eq!(code("[1]").0, Code::InvalidRequest);
    }

    #[test]
    fn a_request_names_the_event_that_is_wrong() {
        let refused = |text: &str| {
            let error = events(text, Origin::Harness).expect_err(text);
            (error.code, error.hint.field.unwrap_or_default())
        };
        for (text, name) in [
            (r#"{"events":[{"type":"a.b"},{"type":"a.b","id":1}]}"#, "events[1].id"),
            (r#"{"events":[1]}"#, "events[0]"),
            (r#"{"events":{}}"#, "events"),
            (r#"{"events":[],"events":[]}"#, "events"),
            (r#"{}"#, "events"),
            (r#"[]"#, "body"),
        ] {
            assert_eq!(refused(text), (Code::InvalidRequest, name.to_owned()), "{text}");
        }
        assert_eq!(refused(r#"{"events":[{"type":"a.b"}}"#).0, Code::InvalidJson);
        let deep = format!(
            r#"{{"events":[{{"type":"a.b","x":{}1{}}}]}}"#,
            "[".repeat(128),
            "]".repeat(128)
        );
        assert_eq!(refused(&deep), (Code::InvalidRequest, "events[0]".to_owned()));
        let fits = format!(
            r#"{{"events":[{{"type":"a.b","x":{}1{}}}]}}"#,
            "[".repeat(127),
            "]".repeat(127)
        );
        assert_eq!(events(&fits, Origin::Harness).map(|events| events.len()), Ok(1));
    }

    #[test]
    fn an_event_of_the_largest_size_comes_back_in() {
        let body = |bytes: usize| format!(r#"{{"x":"{}"}}"#, "y".repeat(bytes - 8));
        let typed = |body: &str| body.replacen('{', r#"{"type":"a.b","id":"e","#, 1);
        let largest = body(limits::EVENT_BYTES_MAX);
        let first = event(&typed(&largest), Origin::Harness).expect("it fits");
        assert_eq!(first.body, largest);
        let again = event(&event_text(&kept(first)), Origin::Harness).expect("it fits again");
        assert_eq!(again.body, largest);
        let larger = event(&typed(&body(limits::EVENT_BYTES_MAX + 1)), Origin::Harness);
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
        fn an_event_survives_the_wire(
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
            let first = event(&text, Origin::Model).expect("taken");
            let stored: Value = serde_json::from_slice(&first.body).expect("the body is JSON");
            prop_assert_eq!(&stored, &Value::Object(body));
            let wire = event_text(&kept(first.clone()));
            let again = event(&wire, Origin::Model).expect("taken again");
            prop_assert_eq!(&again.body, &first.body, "body bytes survive");
            prop_assert_eq!(again.created_at, first.created_at);
            prop_assert_eq!(again.position, Some(Position(7)));
            let mut line = Vec::new();
            write_event_line(&mut line, &kept(first));
            prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            prop_assert_eq!(
                serde_json::from_slice::<Value>(&line).expect("JSON"),
                serde_json::from_str::<Value>(&wire).expect("JSON")
            );
        }

        #[test]
        fn a_number_survives_the_tree_that_tools_make_of_their_arguments(number in any::<f64>()) {
            let text = Value::from(number).to_string();
            let tree: Value = serde_json::from_str(&text).expect("JSON");
            prop_assert_eq!(tree.to_string(), text);
        }

        #[test]
        fn the_scanner_and_a_parser_agree_on_what_is_json(text in "[\\[\\]{}\",:0-9eE.+ \\\\utrfalsn-]{0,24}") {
            let parsed = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            prop_assert_eq!(check(&text).is_ok(), parsed);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(text) = utf8(&bytes) {
                let _ = (check(text), event(text, Origin::User), events(text, Origin::User));
            }
        }
    }
}
