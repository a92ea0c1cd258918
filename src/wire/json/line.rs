//! Parser of a line of an append stream: its session, its events and the client's reference. It
//! must not append.

use super::{
    EventError, LEVELS_INSIDE, field_error,
    members::{Member, ParsedObject, is_within_depth},
    parse, parse_text,
};
use crate::{
    event::{Batch, BatchKey, Fence, Origin, Position, SessionId},
    service::{ServiceError, ServiceResult},
};

/// Maximum bytes of the text of a `ref`, quotes included.
const REFERENCE_BYTES_MAX: usize = 130;

/// A line, as far as it could be parsed.
#[derive(Debug)]
pub struct ParsedAppendLine<'a> {
    /// Client's name for the line: the JSON text of a string or a whole number.
    pub reference: Option<&'a str>,
    /// Session, if the line names one.
    pub session: Option<SessionId>,
    /// Batch, or the error if there is none.
    pub batch: ServiceResult<Batch>,
}

/// Parses an object with `session`, `events`, `if_position`, `idempotency_key`, `fencing_token` and
/// `ref`. A refused line still has its session and its reference. Unknown members are refused: a
/// misspelt condition would not apply.
#[must_use]
pub fn parse_append_line(text: &str, origin: Origin) -> ParsedAppendLine<'_> {
    let mut line = ParsedAppendLine { reference: None, session: None, batch: Ok(Batch::default()) };
    line.batch = parse_batch(text, origin, &mut line.reference, &mut line.session);
    if line.batch.is_err() {
        read_identity(text, &mut line);
    }
    line
}

fn parse_batch<'a>(
    text: &'a str,
    origin: Origin,
    reference: &mut Option<&'a str>,
    session: &mut Option<SessionId>,
) -> ServiceResult<Batch> {
    let mut batch = Batch::default();
    let object = match ParsedObject::parse_request(text)? {
        Ok(object) => object,
        Err(error) => {
            let expected = "an object {\"session\":…,\"events\":[…]}";
            return Err(parse::shape_error(&error, "line", expected));
        }
    };
    let mut seen: Vec<&[u8]> = Vec::new();
    for Member { name: key, value, .. } in &object.members {
        let name = String::from_utf8_lossy(key);
        if seen.contains(&&**key) {
            return Err(ServiceError::invalid(&name, "the key comes twice"));
        }
        if !is_within_depth(value, LEVELS_INSIDE) {
            return Err(EventError::Deep.into_error(""));
        }
        let result = set_member(&name, value, &mut batch, reference, session);
        result.map_err(|refused| refused.into_error(""))?;
        seen.push(key);
    }
    let events = parse::build_events(text, object, origin)?;
    if session.is_none() {
        return Err(ServiceError::invalid("session", "it is missing"));
    }
    batch.events = events.into();
    Ok(batch)
}

fn set_member<'a>(
    name: &str,
    value: &'a str,
    batch: &mut Batch,
    reference: &mut Option<&'a str>,
    session: &mut Option<SessionId>,
) -> Result<(), EventError> {
    match name {
        "session" => match parse_text(name, value)?.map(|text| SessionId::new(&text)) {
            Some(Ok(named)) => *session = Some(named),
            Some(Err(error)) => return field_error(name, error),
            None => return field_error(name, "a text is expected, not null"),
        },
        "ref" if value == "null" => {}
        "ref" => {
            let fits = value.len() <= REFERENCE_BYTES_MAX;
            if !fits || value.parse::<u64>().is_err() && parse_text(name, value)?.is_none() {
                return field_error(
                    name,
                    "a text of at most 128 bytes or a whole number is expected",
                );
            }
            *reference = Some(value);
        }
        "if_position" if value == "null" => {}
        "if_position" => match value.parse() {
            Ok(position) => batch.if_position = Some(Position(position)),
            Err(_) => return field_error(name, "a whole number from 0 on is expected"),
        },
        "fencing_token" if value == "null" => {}
        "fencing_token" => match value.parse() {
            Ok(token) => batch.fence = Some(Fence(token)),
            Err(_) => return field_error(name, "a whole number from 0 on is expected"),
        },
        "idempotency_key" => match parse_text(name, value)?.map(|text| BatchKey::new(&text)) {
            Some(Ok(key)) => batch.key = Some(key),
            Some(Err(error)) => return field_error(name, error),
            None => {}
        },
        _ => {
            let known = "a line has session, events, if_position, idempotency_key, \
                         fencing_token and ref";
            return field_error(name, known);
        }
    }
    Ok(())
}

/// Reads the session and the reference of a refused line, up to the first error of its JSON.
fn read_identity<'a>(text: &'a str, line: &mut ParsedAppendLine<'a>) {
    for Member { name, value, .. } in ParsedObject::parse_prefix(text).members {
        if matches!(&*name, b"session" | b"ref") {
            let name = String::from_utf8_lossy(&name);
            let mut unused = Batch::default();
            let _ = set_member(&name, value, &mut unused, &mut line.reference, &mut line.session);
        }
    }
}
