//! A line of an append stream: its session, its events and the reference of the client. It must not
//! append.

use super::{
    LEVELS_INSIDE, Refused, field,
    members::{Member, Object, is_within},
    take, text,
};
use crate::{
    event::{Batch, BatchKey, Fence, Origin, Position, SessionId},
    service::{ServiceError, ServiceResult},
};

/// Bytes of the text of a `ref` at most, quotes included.
const REFERENCE_BYTES_MAX: usize = 130;

/// One line, as far as it could be read.
#[derive(Debug)]
pub struct AppendLine<'a> {
    /// The client's name for it: the JSON text of a string or a whole number.
    pub reference: Option<&'a str>,
    /// The session, when the line names one.
    pub session: Option<SessionId>,
    /// The batch, or why there is none.
    pub batch: ServiceResult<Batch>,
}

/// Reads `{"session":…,"events":[…],"if_position":…,"idempotency_key":…,"fencing_token":…,
/// "ref":…}`. A refused line still has its session and its reference. Any other member is refused:
/// a misspelt condition would not apply.
#[must_use]
pub fn append_line(text: &str, origin: Origin) -> AppendLine<'_> {
    let mut line = AppendLine { reference: None, session: None, batch: Ok(Batch::default()) };
    line.batch = read(text, origin, &mut line.reference, &mut line.session);
    if line.batch.is_err() {
        owner(text, &mut line);
    }
    line
}

fn read<'a>(
    text: &'a str,
    origin: Origin,
    reference: &mut Option<&'a str>,
    session: &mut Option<SessionId>,
) -> ServiceResult<Batch> {
    let mut batch = Batch::default();
    let object = match Object::request(text)? {
        Ok(object) => object,
        Err(unlike) => {
            let expected = "an object {\"session\":…,\"events\":[…]}";
            return Err(take::refused(&unlike, "line", expected));
        }
    };
    let mut seen: Vec<&[u8]> = Vec::new();
    for Member { name: key, value, .. } in &object.members {
        let name = String::from_utf8_lossy(key);
        if seen.contains(&&**key) {
            return Err(ServiceError::invalid(&name, "the key comes twice"));
        }
        if !is_within(value, LEVELS_INSIDE) {
            return Err(Refused::Deep.into_error(""));
        }
        let taken = member(&name, value, &mut batch, reference, session);
        taken.map_err(|refused| refused.into_error(""))?;
        seen.push(key);
    }
    let events = take::listed(text, object, origin)?;
    if session.is_none() {
        return Err(ServiceError::invalid("session", "it is missing"));
    }
    batch.events = events.into();
    Ok(batch)
}

fn member<'a>(
    name: &str,
    value: &'a str,
    batch: &mut Batch,
    reference: &mut Option<&'a str>,
    session: &mut Option<SessionId>,
) -> Result<(), Refused> {
    match name {
        "session" => match text(name, value)?.map(|text| SessionId::new(&text)) {
            Some(Ok(named)) => *session = Some(named),
            Some(Err(error)) => return field(name, error),
            None => return field(name, "a text is expected, not null"),
        },
        "ref" if value == "null" => {}
        "ref" => {
            let fits = value.len() <= REFERENCE_BYTES_MAX;
            if !fits || value.parse::<u64>().is_err() && text(name, value)?.is_none() {
                return field(name, "a text of at most 128 bytes or a whole number is expected");
            }
            *reference = Some(value);
        }
        "if_position" if value == "null" => {}
        "if_position" => match value.parse() {
            Ok(position) => batch.if_position = Some(Position(position)),
            Err(_) => return field(name, "a whole number from 0 on is expected"),
        },
        "fencing_token" if value == "null" => {}
        "fencing_token" => match value.parse() {
            Ok(token) => batch.fence = Some(Fence(token)),
            Err(_) => return field(name, "a whole number from 0 on is expected"),
        },
        "idempotency_key" => match text(name, value)?.map(|text| BatchKey::new(&text)) {
            Some(Ok(key)) => batch.key = Some(key),
            Some(Err(error)) => return field(name, error),
            None => {}
        },
        _ => {
            let known = "a line has session, events, if_position, idempotency_key, \
                         fencing_token and ref";
            return field(name, known);
        }
    }
    Ok(())
}

/// Reads the session and the reference of a line that is refused, up to the first error of its
/// JSON.
fn owner<'a>(text: &'a str, line: &mut AppendLine<'a>) {
    for Member { name, value, .. } in Object::begun(text).members {
        if matches!(&*name, b"session" | b"ref") {
            let name = String::from_utf8_lossy(&name);
            let mut unused = Batch::default();
            let _ = member(&name, value, &mut unused, &mut line.reference, &mut line.session);
        }
    }
}
