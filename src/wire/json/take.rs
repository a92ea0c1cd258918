//! Events from JSON text: reserved members are cut out, what is left is the body. One pass, no
//! tree. It must not write.

use std::collections::HashSet;

use bytes::Bytes;

use super::{
    LEVELS_INSIDE, RESERVED, Refused, field,
    members::{Member, Object, Unlike, is_within},
    text,
};
use crate::{
    event::{EventId, EventType, NewEvent, Origin, Position, Timestamp, limits},
    service::{Code, ServiceError, ServiceResult},
};

/// One event from its JSON object text.
///
/// # Errors
/// `invalid_json`; `invalid_request` naming the member; `body_too_large`.
pub fn event(text: &str, origin: Origin) -> ServiceResult<NewEvent> {
    match Object::read(text)? {
        Ok(object) => taken(text, object.members, origin, None),
        Err(_) => Err(ServiceError::invalid("", "an event is a JSON object")),
    }
}

/// Members of an event up to which each name is compared with those before it; the names of more
/// are kept in a table.
const FEW_MEMBERS: usize = 16;
/// Characters of an unknown member that are said again.
const MEMBER_CHARS_MAX: usize = 100;
/// The conditions of an append: each a header, and no member of the body.
const CONDITIONS: [&str; 3] = ["If-Position", "Idempotency-Key", "Fencing-Token"];

/// The events of `{"events":[…]}`. Another member of the request is refused; with `hosted` it is
/// checked and ignored, except for a condition: a client whose condition is ignored believes that
/// it holds.
///
/// # Errors
/// Those of [`event`], each naming the event by its index; a condition or another member.
pub fn events(text: &str, origin: Origin, hosted: bool) -> ServiceResult<Vec<NewEvent>> {
    let object = match Object::request(text)? {
        Ok(object) => object,
        Err(unlike) => return Err(refused(&unlike, "body", "an object {\"events\":[…]}")),
    };
    for Member { name, value, .. } in &object.members {
        if !is_within(value, LEVELS_INSIDE) {
            return Err(Refused::Deep.into_error(""));
        }
        if *value != "null" {
            no_condition(name)?;
        }
        if !hosted {
            return Err(no_member(name));
        }
    }
    listed(text, object, origin)
}

/// The refusal of a request that has another form than `expected`.
pub(super) fn refused(unlike: &Unlike, whole: &str, expected: &str) -> ServiceError {
    match unlike {
        Unlike::Object => ServiceError::invalid(whole, format!("{expected} is expected")),
        Unlike::List => ServiceError::invalid("events", "a list is expected"),
        Unlike::Event(index) => {
            ServiceError::invalid(&format!("events[{index}]"), "an event is a JSON object")
        }
    }
}

/// The events of a request.
pub(super) fn listed(
    text: &str,
    object: Object<'_>,
    origin: Origin,
) -> ServiceResult<Vec<NewEvent>> {
    if object.twice {
        return Err(ServiceError::invalid("events", "the key comes twice"));
    }
    let events = object.events.ok_or_else(|| ServiceError::invalid("events", "it is missing"))?;
    let many = events.len() > limits::BATCH_EVENTS_MAX;
    let events = events.into_iter().take(limits::BATCH_EVENTS_MAX).enumerate();
    let taken = events.map(|(index, members)| taken(text, members, origin, Some(index)));
    let taken = taken.collect::<ServiceResult<_>>()?;
    if many {
        let problem = format!("more than {} events", limits::BATCH_EVENTS_MAX);
        return Err(ServiceError::invalid("events", problem).action("send them as several batches"));
    }
    Ok(taken)
}

/// The refusal of a member other than the events.
fn no_member(name: &[u8]) -> ServiceError {
    let name: String = String::from_utf8_lossy(name).chars().take(MEMBER_CHARS_MAX).collect();
    let meant =
        name.len().abs_diff("events".len()) <= 1 && name.to_ascii_lowercase().starts_with("event");
    let meant = if meant { "; did you mean events?" } else { "" };
    ServiceError::invalid(&name, format!("there is no such member{meant}"))
}

/// Refuses a condition, however it is written.
fn no_condition(name: &[u8]) -> ServiceResult<()> {
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

/// One event by its members in `text`; `index` is its place in a list.
fn taken(
    text: &str,
    members: Vec<Member<'_>>,
    origin: Origin,
    index: Option<usize>,
) -> ServiceResult<NewEvent> {
    let place = || index.map(|index| format!("events[{index}]")).unwrap_or_default();
    let event = divided(text, &members, origin).map_err(|refused| refused.into_error(&place()))?;
    // The reserved members are not counted: with those of the server an event would be larger
    // on its way out than it may be on its way in.
    if event.body.len() > limits::EVENT_BYTES_MAX {
        let name = index.map_or_else(|| "event".to_owned(), |_| place());
        let message = format!("{name}: larger than {} bytes", limits::EVENT_BYTES_MAX);
        return Err(ServiceError::new(Code::BodyTooLarge, message)
            .action("keep large content elsewhere and refer to it"));
    }
    Ok(event)
}

/// Reserved members of one event.
#[derive(Default)]
struct Head {
    id: Option<EventId>,
    kind: Option<EventType>,
    position: Option<Position>,
    created_at: Option<Timestamp>,
}

/// Tells whether a member belongs to the store, not to the body.
fn is_reserved(name: &[u8]) -> bool {
    RESERVED.iter().any(|reserved| reserved.as_bytes() == name)
}

/// The head and the body of an event.
fn divided(text: &str, members: &[Member<'_>], origin: Origin) -> Result<NewEvent, Refused> {
    let mut head = Head::default();
    let mut seen = HashSet::new();
    for (index, Member { name, value, .. }) in members.iter().enumerate() {
        if !is_within(value, LEVELS_INSIDE) {
            return Err(Refused::Deep);
        }
        head.take(name, value)?;
        let is_twice = if members.len() <= FEW_MEMBERS {
            members.iter().take(index).any(|before| before.name == *name)
        } else {
            !seen.insert(name)
        };
        if is_twice {
            return field(&String::from_utf8_lossy(name), "the key comes twice");
        }
    }
    let Some(kind) = head.kind else { return field("type", "it is missing") };
    // Made at its length: nothing is allocated beside it, and it is not copied again.
    let kept = members.iter().filter(|member| !is_reserved(&member.name));
    let parts = kept.map(|member| member.in_text(text).as_bytes());
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

impl Head {
    /// Takes a reserved member.
    fn take(&mut self, key: &[u8], value: &str) -> Result<(), Refused> {
        match key {
            b"id" => {
                let Some(text) = text("id", value)? else { return Ok(()) };
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
                let Some(text) = text("created_at", value)? else { return Ok(()) };
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
            // Members that only the server sets: checked, then dropped.
            b"processed_at" => drop(text("processed_at", value)?),
            b"origin" => drop(text("origin", value)?),
            _ => {}
        }
        Ok(())
    }
}

/// Checks a body that comes without reserved members, as protobuf carries it.
///
/// # Errors
/// `invalid_json`; `invalid_request` naming the member.
pub fn bare_body(body: &str) -> ServiceResult<()> {
    let Ok(object) = Object::read(body)? else {
        return Err(ServiceError::invalid("body", "a JSON object is expected"));
    };
    let mut seen = HashSet::with_capacity(object.members.len());
    for Member { name, value, .. } in object.members {
        if !is_within(value, LEVELS_INSIDE) {
            return Err(Refused::Deep.into_error(""));
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
