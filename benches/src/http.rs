//! Our server over HTTP: appends one by one and in batches, slices and the latest event, as JSON
//! and as protobuf. Requests are bytes written here by hand, from docs/http.md and the proto file
//! alone, as a client in another language would. It must not share code with the server.

use super::{
    cell::{Cell, Group, Prepare, Prepared},
    failure::Outcome,
    network::{self, Manner, Network, Number, Talk},
    protocol::{body, json},
    sample::{Numbers, Sample, TYPE},
    server::SEALED,
    site::Site,
};

pub(super) const CELLS: &[Cell] = &[
    append("http.append.json.1", "1 connection, 1 event a request, JSON", 1, json_1),
    append("http.append.json.64", "64 connections, 1 event a request, JSON", 64, json_1),
    append("http.append.json.1.token", "the same, with a token", 1, json_1),
    append("http.append.json.64.token", "the same, with a token each", 64, json_1),
    append("http.append.json.1.keys", "the same, encrypted", 1, json_1),
    append("http.append.json.64.keys", "the same, encrypted, 64 connections", 64, json_1),
    append("http.append.json.64.sessions", "64 connections, many sessions", 64, json_many),
    append("http.append.protobuf.1", "1 connection, 1 event a request, protobuf", 1, protobuf_1),
    append(
        "http.append.protobuf.64",
        "64 connections, 1 event a request, protobuf",
        64,
        protobuf_1,
    ),
    append("http.batch.json.1", "1 connection, 100 events a request, JSON", 1, json_100),
    append("http.batch.json.64", "64 connections, 100 events a request, JSON", 64, json_100),
    append("http.batch.protobuf.64", "64 connections, 100 events, protobuf", 64, protobuf_100),
    read("slice.json.1", "1 connection, 100 events of the active segment, JSON", 1, slice_json),
    read("slice.json.64", "64 connections, 100 events, JSON", 64, slice_json),
    read("slice.protobuf.1", "1 connection, 100 events, protobuf", 1, slice_protobuf),
    read("slice.protobuf.64", "64 connections, 100 events, protobuf", 64, slice_protobuf),
    read("slice.sealed.json.1", "1 connection, 100 of a sealed segment, JSON", 1, sealed_json),
    read("slice.sealed.protobuf.64", "64 connections, sealed, protobuf", 64, sealed_protobuf),
    read("slice.latest.1", "1 connection, the latest event, JSON", 1, latest),
    read("slice.latest.64", "64 connections, the latest event, JSON", 64, latest),
];

const fn append(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::durable(Group::Http, id, what, clients, clients as u64, prepare)
}

const fn read(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::reads(Group::Slice, id, what, clients, prepare)
}

/// Events of a slice.
pub(super) const SLICE: usize = 100;
/// The session whose active segment slices are read from.
const ACTIVE: &str = "active";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

impl Form {
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }

    /// Writes the body of an emitEvent with these events.
    fn emit<'a>(self, samples: impl Iterator<Item = &'a Sample>, out: &mut Vec<u8>) {
        match self {
            Self::Json => {
                out.extend_from_slice(br#"{"events":["#);
                for (number, sample) in samples.enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(&sample.json);
                }
                out.extend_from_slice(b"]}");
            }
            Self::Protobuf => samples.for_each(|sample| protobuf_event(sample, out)),
        }
    }

    fn carried(self) -> Number {
        match self {
            Self::Json => |answer| Some(json(answer)?.get("data")?.as_array()?.len() as u64),
            Self::Protobuf => |answer| protobuf_count(body(answer)?),
        }
    }
}

/// One `events` field of an EmitRequest: field 1, holding `type` as 2 and `body` as 5.
fn protobuf_event(sample: &Sample, out: &mut Vec<u8>) {
    let (kind, body) = (TYPE.as_bytes(), &sample.body);
    let length = 1 + varint_bytes(kind.len()) + kind.len() + 1 + varint_bytes(body.len());
    for (tag, length, bytes) in [
        (0x0a, length + body.len(), [].as_slice()),
        (0x12, kind.len(), kind),
        (0x2a, body.len(), body),
    ] {
        out.push(tag);
        varint(length, out);
        out.extend_from_slice(bytes);
    }
}

fn varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
}

fn varint_bytes(value: usize) -> usize {
    value.checked_ilog2().map_or(1, |bits| bits as usize / 7 + 1)
}

/// How many fields of number 1 with a length a message has.
fn protobuf_count(mut bytes: &[u8]) -> Option<u64> {
    let mut count = 0;
    while let Some((tag, rest)) = bytes.split_first() {
        let (value, rest) = read_varint(rest)?;
        let skipped = if tag & 7 == 2 { usize::try_from(value).ok()? } else { 0 };
        count += u64::from(*tag == 0x0a);
        bytes = rest.get(skipped..)?;
    }
    Some(count)
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at_checked(end + 1)?;
    let value = number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, rest))
}

/// Asks how many events a session has.
pub(super) fn count_of(session: &str, credential: &str) -> Vec<u8> {
    let path = format!("/v1/sessions/{session}/events?from=-1&limit=1");
    get(&path, Form::Json.media_type(), credential)
}

/// A GET; the credential is a line of its head, or nothing.
pub(super) fn get(path: &str, form: &str, credential: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{credential}accept: {form}\r\n\r\n")
        .into_bytes()
}

/// A request with a JSON body.
pub(super) fn post_json(path: &str, body: &str) -> Vec<u8> {
    post_json_as(path, "", body)
}

/// The same with a credential: a line of its head.
pub(super) fn post_json_as(path: &str, credential: &str, body: &str) -> Vec<u8> {
    let mut out = Vec::new();
    post(path, Form::Json, credential, body.as_bytes(), &mut out);
    out
}

fn post(path: &str, form: Form, credential: &str, body: &[u8], out: &mut Vec<u8>) {
    let (form, length) = (form.media_type(), body.len());
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{credential}content-type: {form}\r\n\
         accept: {form}\r\ncontent-length: {length}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

/// Creates a session, or finds it there, with so many events.
fn created(site: &Site, session: &str, events: usize, credential: &str) -> Vec<Vec<u8>> {
    let mut samples = site.samples.clone();
    let mut requests = Vec::new();
    let mut create = Vec::new();
    let body = format!(r#"{{"id":"{session}"}}"#);
    post("/v1/sessions", Form::Json, credential, body.as_bytes(), &mut create);
    requests.push(create);
    let path = format!("/v1/sessions/{session}/events");
    for from in (0..events).step_by(SLICE) {
        let wanted = SLICE.min(events - from);
        let part: Vec<Sample> = (0..wanted).map(|_| samples.next().clone()).collect();
        let (mut body, mut request) = (Vec::new(), Vec::new());
        Form::Json.emit(part.iter(), &mut body);
        post(&path, Form::Json, credential, &body, &mut request);
        requests.push(request);
    }
    requests
}

fn json_1(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Json, 1))
}

fn json_many(site: &mut Site, cell: &Cell) -> Prepared {
    let sessions = site.settings.sessions.max(cell.clients);
    appends(site, cell, sessions, (Form::Json, 1))
}

fn json_100(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Json, SLICE))
}

fn protobuf_1(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Protobuf, 1))
}

fn protobuf_100(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Protobuf, SLICE))
}

/// One of the sessions that a cell appends to: those of a connection are as many connections
/// apart as the cell has.
pub(super) fn session_of(cell: &Cell, number: usize) -> String {
    format!("{}-{number}", cell.id)
}

/// Creates that many sessions for a cell; how its server is spoken to, and the credential it asks
/// for.
pub(super) fn create_sessions(
    site: &mut Site,
    cell: &Cell,
    sessions: usize,
) -> Outcome<(Manner, String)> {
    let server = site.server_of(cell)?;
    let (manner, credential) = (server.manner(), server.credential.clone());
    let one = |number| created(site, &session_of(cell, number), 0, &credential);
    let requests: Vec<_> = (0..sessions).flat_map(one).collect();
    network::once(manner, &requests)?;
    Ok((manner, credential))
}

/// Appends so many events a request, each connection to its part of so many sessions in turn.
fn appends(
    site: &mut Site,
    cell: &Cell,
    sessions: usize,
    (form, events): (Form, usize),
) -> Prepared {
    let (manner, credential) = create_sessions(site, cell, sessions)?;
    let manner = Manner { events: events as u64, carried: Some(form.carried()), ..manner };
    let talk = |connection: usize| {
        let own = (connection..sessions).step_by(cell.clients);
        let own: Vec<String> = own.map(|number| session_of(cell, number)).collect();
        let count = own.iter().map(|session| count_of(session, &credential)).collect();
        let paths: Vec<String> =
            own.iter().map(|session| format!("/v1/sessions/{session}/events")).collect();
        let credential = credential.clone();
        let mut samples = site.samples.starting_at(connection);
        let (mut body, mut turn) = (Vec::new(), 0);
        let next = move |out: &mut Vec<u8>| {
            body.clear();
            let part: Vec<Sample> = (0..events).map(|_| samples.next().clone()).collect();
            form.emit(part.iter(), &mut body);
            turn = (turn + 1) % paths.len();
            paths.get(turn).into_iter().for_each(|path| post(path, form, &credential, &body, out));
        };
        Talk { hello: Vec::new(), next: Box::new(next), count }
    };
    let talks = (0..cell.clients).map(talk).collect();
    Ok(Some(Box::new(Network::new(manner, talks, &site.clock))))
}

fn slice_json(site: &mut Site, cell: &Cell) -> Prepared {
    slices(site, cell, Form::Json, ACTIVE)
}

fn slice_protobuf(site: &mut Site, cell: &Cell) -> Prepared {
    slices(site, cell, Form::Protobuf, ACTIVE)
}

fn sealed_json(site: &mut Site, cell: &Cell) -> Prepared {
    slices(site, cell, Form::Json, SEALED)
}

fn sealed_protobuf(site: &mut Site, cell: &Cell) -> Prepared {
    slices(site, cell, Form::Protobuf, SEALED)
}

fn slices(site: &mut Site, cell: &Cell, form: Form, session: &'static str) -> Prepared {
    if session == SEALED && !site.server()?.has_sealed {
        site.notes.push(format!("{}: no segment was sealed, so nothing was measured", cell.id));
        return Ok(None);
    }
    let places = (site.settings.events - SLICE) as u64;
    reads(site, cell, form, session, SLICE, move |numbers| {
        let from = numbers.below(places + 1);
        format!("/v1/sessions/{session}/events?from={from}&limit={SLICE}")
    })
}

fn latest(site: &mut Site, cell: &Cell) -> Prepared {
    let path = format!("/v1/sessions/{ACTIVE}/events?from=-1&limit=1");
    reads(site, cell, Form::Json, ACTIVE, 1, move |_| path.clone())
}

/// Reads of a session that is filled when it is first wanted.
fn reads(
    site: &mut Site,
    cell: &Cell,
    form: Form,
    session: &str,
    events: usize,
    path: impl Fn(&mut Numbers) -> String + Clone + Send + 'static,
) -> Prepared {
    let server = site.server()?;
    let manner = Manner { events: events as u64, carried: Some(form.carried()), ..server.manner() };
    if session == ACTIVE && !std::mem::replace(&mut server.has_active, true) {
        network::once(manner, &created(site, ACTIVE, site.settings.events, ""))?;
    }
    let talk = |connection: usize| {
        let (path, mut numbers) = (path.clone(), Numbers::from(connection));
        let accept = form.media_type();
        let next = move |out: &mut Vec<u8>| out.extend(get(&path(&mut numbers), accept, ""));
        Talk { hello: Vec::new(), next: Box::new(next), count: Vec::new() }
    };
    let talks = (0..cell.clients).map(talk).collect();
    Ok(Some(Box::new(Network::new(manner, talks, &site.clock))))
}

#[cfg(test)]
mod tests {
    use super::super::sample::Samples;
    use super::*;
    use sessionlog::{event::Origin, wire::protobuf};

    #[test]
    fn a_request_written_by_hand_is_what_the_server_reads() {
        let mut samples = Samples::new();
        let part: Vec<Sample> = (0..3).map(|_| samples.next().clone()).collect();
        let mut body = Vec::new();
        Form::Protobuf.emit(part.iter(), &mut body);
        assert_eq!(protobuf_count(&body), Some(3));
        let events = protobuf::events(body.into(), Origin::Harness).expect("a request");
        for (event, sample) in events.iter().zip(&part) {
            assert_eq!((event.kind.as_str(), &event.body), (TYPE, &sample.body));
        }
        assert_eq!(events.len(), 3);
    }

    #[test]
    fn a_number_is_as_long_as_it_is_written() {
        for value in [0, 1, 127, 128, 1_023, 16_383, 16_384, 1 << 21, 1 << 40] {
            let mut out = Vec::new();
            varint(value, &mut out);
            assert_eq!(out.len(), varint_bytes(value), "{value}");
            assert_eq!(read_varint(&out), Some((value as u64, [].as_slice())));
        }
    }
}
