//! Parser of events from JSON text: reserved members are removed, the rest is the body. One pass,
//! no tree. It must not write.

use std::collections::HashSet;

use bytes::Bytes;

use super::{
    EventError, LEVELS_INSIDE, RESERVED, field_error,
    members::{Member, ParsedObject, ShapeError, is_within_depth},
    parse_text,
};
use crate::{
    event::{EventId, EventType, NewEvent, Origin, Position, Timestamp, limits},
    service::{Code, ServiceError, ServiceResult},
};

/// Parses one event from the text of a JSON object.
///
/// # Errors
/// `invalid_json`; `invalid_request` naming the member; `body_too_large`.
pub fn parse_event(text: &str, origin: Origin) -> ServiceResult<NewEvent> {
    match ParsedObject::parse(text)? {
        Ok(object) => build_event(text, object.members, origin, None),
        Err(_) => Err(ServiceError::invalid("", "an event is a JSON object")),
    }
}

/// Number of members up to which each name is compared with the earlier ones; more names are stored
/// in a set.
const FEW_MEMBERS: usize = 16;
/// Maximum characters of an unknown member that an error repeats.
const MEMBER_CHARS_MAX: usize = 100;
/// Conditions of an append: each is a header, not a member of the body.
const CONDITIONS: [&str; 3] = ["If-Position", "Idempotency-Key", "Fencing-Token"];

/// Parses the events of `{"events":[…]}`. Other members of the request are refused; with `hosted`
/// they are checked and ignored, except for a condition: a client whose condition is ignored would
/// believe that it holds.
///
/// # Errors
/// Those of [`parse_event`], each naming the event by its index; a condition or another member.
pub fn parse_events(text: &str, origin: Origin, hosted: bool) -> ServiceResult<Vec<NewEvent>> {
    let object = match ParsedObject::parse_request(text)? {
        Ok(object) => object,
        Err(error) => return Err(shape_error(&error, "body", "an object {\"events\":[…]}")),
    };
    for Member { name, value, .. } in &object.members {
        if !is_within_depth(value, LEVELS_INSIDE) {
            return Err(EventError::Deep.into_error(""));
        }
        if *value != "null" {
            refuse_condition(name)?;
        }
        if !hosted {
            return Err(unknown_member(name));
        }
    }
    build_events(text, object, origin)
}

/// Builds the error of a request that has another shape than `expected`.
pub(super) fn shape_error(error: &ShapeError, whole: &str, expected: &str) -> ServiceError {
    match error {
        ShapeError::Object => ServiceError::invalid(whole, format!("{expected} is expected")),
        ShapeError::List => ServiceError::invalid("events", "a list is expected"),
        ShapeError::Event(index) => {
            ServiceError::invalid(&format!("events[{index}]"), "an event is a JSON object")
        }
    }
}

/// Builds the events of a request.
pub(super) fn build_events(
    text: &str,
    object: ParsedObject<'_>,
    origin: Origin,
) -> ServiceResult<Vec<NewEvent>> {
    if object.twice {
        return Err(ServiceError::invalid("events", "the key comes twice"));
    }
    let events = object.events.ok_or_else(|| ServiceError::invalid("events", "it is missing"))?;
    let many = events.len() > limits::BATCH_EVENTS_MAX;
    let events = events.into_iter().take(limits::BATCH_EVENTS_MAX).enumerate();
    let parsed = events.map(|(index, members)| build_event(text, members, origin, Some(index)));
    let parsed = parsed.collect::<ServiceResult<_>>()?;
    if many {
        let problem = format!("more than {} events", limits::BATCH_EVENTS_MAX);
        return Err(ServiceError::invalid("events", problem).action("send them as several batches"));
    }
    Ok(parsed)
}

/// Builds the error of a member other than the events.
fn unknown_member(name: &[u8]) -> ServiceError {
    let name: String = String::from_utf8_lossy(name).chars().take(MEMBER_CHARS_MAX).collect();
    let meant =
        name.len().abs_diff("events".len()) <= 1 && name.to_ascii_lowercase().starts_with("event");
    let meant = if meant { "; did you mean events?" } else { "" };
    ServiceError::invalid(&name, format!("there is no such member{meant}"))
}

/// Refuses a condition, in any spelling.
fn refuse_condition(name: &[u8]) -> ServiceResult<()> {
    let plain = |name: &[u8]| {
        let letters = name.iter().filter(|letter| !matches!(letter, b'_' | b'-'));
        letters.map(u8::to_ascii_lowercase).collect::<Vec<u8>>()
    };
    let Some(header) = CONDITIONS.iter().find(|known| plain(known.as_bytes()) == plain(name))
    else {
        return Ok(());
    };
    let problem = format!("here it would say nothing: it is the header {header}");
    Err(ServiceError::invalid(&String::from_utf8_lossy(name), problem))
}

/// Builds one event from its members in `text`; `index` is its index in a list.
fn build_event(
    text: &str,
    members: Vec<Member<'_>>,
    origin: Origin,
    index: Option<usize>,
) -> ServiceResult<NewEvent> {
    let path = || index.map(|index| format!("events[{index}]")).unwrap_or_default();
    let event =
        split_event(text, &members, origin).map_err(|refused| refused.into_error(&path()))?;
    // The reserved members are not counted: with those of the server an event would be larger on
    // output than it may be on input.
    if event.body.len() > limits::EVENT_BYTES_MAX {
        let name = index.map_or_else(|| "event".to_owned(), |_| path());
        let message = format!("{name}: larger than {} bytes", limits::EVENT_BYTES_MAX);
        return Err(ServiceError::new(Code::BodyTooLarge, message)
            .action("keep large content elsewhere and refer to it"));
    }
    Ok(event)
}

/// Reserved members of one event.
#[derive(Default)]
struct ReservedMembers {
    id: Option<EventId>,
    kind: Option<EventType>,
    position: Option<Position>,
    created_at: Option<Timestamp>,
}

/// Returns true if a member belongs to the store and not to the body.
fn is_reserved(name: &[u8]) -> bool {
    RESERVED.iter().any(|reserved| reserved.as_bytes() == name)
}

/// Splits an event into its reserved members and its body.
fn split_event(text: &str, members: &[Member<'_>], origin: Origin) -> Result<NewEvent, EventError> {
    let mut head = ReservedMembers::default();
    let mut seen = HashSet::new();
    for (index, Member { name, value, .. }) in members.iter().enumerate() {
        if !is_within_depth(value, LEVELS_INSIDE) {
            return Err(EventError::Deep);
        }
        head.set_member(name, value)?;
        let is_twice = if members.len() <= FEW_MEMBERS {
            members.iter().take(index).any(|before| before.name == *name)
        } else {
            !seen.insert(name)
        };
        if is_twice {
            return field_error(&String::from_utf8_lossy(name), "the key comes twice");
        }
    }
    let Some(kind) = head.kind else { return field_error("type", "it is missing") };
    // Allocated at its final length, so that it is not copied again.
    let kept = members.iter().filter(|member| !is_reserved(&member.name));
    let parts = kept.map(|member| member.with_surrounding_space(text).as_bytes());
    let bytes = parts.clone().map(|part| part.len() + 1).sum::<usize>().max(1) + 1;
    let mut body = Vec::with_capacity(bytes);
    body.push(b'{');
    for (index, part) in parts.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(part);
    }
    body.push(b'}');
    debug_assert_eq!(body.len(), bytes, "its length was counted before");
    Ok(NewEvent {
        id: head.id,
        kind,
        origin,
        created_at: head.created_at,
        position: head.position,
        body: Bytes::from(body),
    })
}

impl ReservedMembers {
    /// Sets a reserved member; ignores others.
    fn set_member(&mut self, key: &[u8], value: &str) -> Result<(), EventError> {
        match key {
            b"id" => {
                let Some(text) = parse_text("id", value)? else { return Ok(()) };
                match EventId::new(&text) {
                    Ok(id) => self.id = Some(id),
                    Err(error) => return field_error("id", error),
                }
            }
            b"type" => match parse_text("type", value)?.map(|text| EventType::new(&text)) {
                Some(Ok(kind)) => self.kind = Some(kind),
                Some(Err(error)) => return field_error("type", error),
                None => return field_error("type", "a text is expected, not null"),
            },
            b"created_at" => {
                let Some(text) = parse_text("created_at", value)? else { return Ok(()) };
                match Timestamp::parse(&text) {
                    Some(time) => self.created_at = Some(time),
                    None => return field_error("created_at", Timestamp::EXPECTED),
                }
            }
            b"position" if value == "null" => {}
            b"position" => match value.parse() {
                Ok(position) => self.position = Some(Position(position)),
                Err(_) => return field_error("position", "a whole number from 0 on is expected"),
            },
            // Members that only the server sets: checked, then dropped.
            b"processed_at" => drop(parse_text("processed_at", value)?),
            b"origin" => drop(parse_text("origin", value)?),
            _ => {}
        }
        Ok(())
    }
}

/// Checks a body without reserved members, as protobuf carries it.
///
/// # Errors
/// `invalid_json`; `invalid_request` naming the member.
pub fn check_body(body: &str) -> ServiceResult<()> {
    let Ok(object) = ParsedObject::parse(body)? else {
        return Err(ServiceError::invalid("body", "a JSON object is expected"));
    };
    let mut seen = HashSet::with_capacity(object.members.len());
    for Member { name, value, .. } in object.members {
        if !is_within_depth(value, LEVELS_INSIDE) {
            return Err(EventError::Deep.into_error(""));
        }
        let said = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        if is_reserved(&name) {
            return Err(ServiceError::invalid(&said(&name), "reserved: it has a field of its own"));
        }
        if let Some(twice) = seen.replace(name) {
            return Err(ServiceError::invalid(&said(&twice), "the key comes twice"));
        }
    }
    Ok(())
}
