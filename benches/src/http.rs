//! Requests to our server over HTTP: single and batch appends, slices and the latest event, as JSON
//! and as protobuf. Requests are encoded by hand from docs/http.md and the proto file alone, like
//! those of a client in another language. It must not share code with the server.

use super::{
    cell::{Cell, Group, Load, Prepare, Prepared},
    failure::Outcome,
    network::{self, Manner, Network, Number, Talk},
    protocol::{body, json},
    sample::{Numbers, Sample, TYPE},
    server::SEALED,
    site::Site,
};

pub(super) const CELLS: &[Cell] = &[
    append_cell("http.append.json.1", "1 connection, 1 event a request, JSON", 1, prepare_json_1),
    append_cell(
        "http.append.json.64",
        "64 connections, 1 event a request, JSON",
        64,
        prepare_json_1,
    ),
    append_cell("http.append.json.1.token", "the same, with a token", 1, prepare_json_1),
    append_cell("http.append.json.64.token", "the same, with a token each", 64, prepare_json_1),
    append_cell("http.append.json.1.keys", "the same, encrypted", 1, prepare_json_1),
    append_cell(
        "http.append.json.64.keys",
        "the same, encrypted, 64 connections",
        64,
        prepare_json_1,
    ),
    append_cell(
        "http.append.json.64.sessions",
        "64 connections, many sessions",
        64,
        prepare_json_many,
    ),
    append_cell(
        "http.append.protobuf.1",
        "1 connection, 1 event a request, protobuf",
        1,
        prepare_protobuf_1,
    ),
    append_cell(
        "http.append.protobuf.64",
        "64 connections, 1 event a request, protobuf",
        64,
        prepare_protobuf_1,
    ),
    append_cell(
        "http.batch.json.1",
        "1 connection, 100 events a request, JSON",
        1,
        prepare_json_100,
    ),
    append_cell(
        "http.batch.json.64",
        "64 connections, 100 events a request, JSON",
        64,
        prepare_json_100,
    ),
    append_cell(
        "http.batch.protobuf.64",
        "64 connections, 100 events, protobuf",
        64,
        prepare_protobuf_100,
    ),
    read_cell(
        "slice.json.1",
        "1 connection, 100 events of the active segment, JSON",
        1,
        prepare_slice_json,
    ),
    read_cell("slice.json.64", "64 connections, 100 events, JSON", 64, prepare_slice_json),
    read_cell("slice.protobuf.1", "1 connection, 100 events, protobuf", 1, prepare_slice_protobuf),
    read_cell(
        "slice.protobuf.64",
        "64 connections, 100 events, protobuf",
        64,
        prepare_slice_protobuf,
    ),
    read_cell(
        "slice.sealed.json.1",
        "1 connection, 100 of a sealed segment, JSON",
        1,
        prepare_sealed_json,
    ),
    read_cell(
        "slice.sealed.protobuf.64",
        "64 connections, sealed, protobuf",
        64,
        prepare_sealed_protobuf,
    ),
    read_cell("slice.latest.1", "1 connection, the latest event, JSON", 1, prepare_latest),
    read_cell("slice.latest.64", "64 connections, the latest event, JSON", 64, prepare_latest),
];

const fn append_cell(
    id: &'static str,
    what: &'static str,
    clients: usize,
    prepare: Prepare,
) -> Cell {
    Cell::durable(Group::Http, id, what, clients, clients as u64, prepare)
}

const fn read_cell(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::reads(Group::Slice, id, what, clients, prepare)
}

/// Number of events of a slice.
pub(super) const SLICE: usize = 100;
/// Session whose active segment slices are read from.
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

    /// Writes the body of an emitEvent request with these events.
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
            Self::Protobuf => samples.for_each(|sample| write_protobuf_event(sample, out)),
        }
    }

    fn carried(self) -> Number {
        match self {
            Self::Json => |answer| Some(json(answer)?.get("data")?.as_array()?.len() as u64),
            Self::Protobuf => |answer| count_protobuf_events(body(answer)?),
        }
    }
}

/// Encodes one `events` field of an EmitRequest: field 1, with `type` as 2 and `body` as 5.
fn write_protobuf_event(sample: &Sample, out: &mut Vec<u8>) {
    let (kind, body) = (TYPE.as_bytes(), &sample.body);
    let length = 1 + varint_length(kind.len()) + kind.len() + 1 + varint_length(body.len());
    for (tag, length, bytes) in [
        (0x0a, length + body.len(), [].as_slice()),
        (0x12, kind.len(), kind),
        (0x2a, body.len(), body),
    ] {
        out.push(tag);
        write_varint(length, out);
        out.extend_from_slice(bytes);
    }
}

fn write_varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
}

fn varint_length(value: usize) -> usize {
    value.checked_ilog2().map_or(1, |bits| bits as usize / 7 + 1)
}

/// Counts the length-delimited fields of number 1 in a message.
fn count_protobuf_events(mut bytes: &[u8]) -> Option<u64> {
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

/// Creates a request for the number of events of a session.
pub(super) fn count_of(session: &str, credential: &str) -> Vec<u8> {
    let path = format!("/v1/sessions/{session}/events?from=-1&limit=1");
    get(&path, Form::Json.media_type(), credential)
}

/// Creates a GET request; the credential is a header line, or empty.
pub(super) fn get(path: &str, form: &str, credential: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{credential}accept: {form}\r\n\r\n")
        .into_bytes()
}

/// Creates a request with a JSON body.
pub(super) fn post_json(path: &str, body: &str) -> Vec<u8> {
    post_json_as(path, "", body)
}

/// Creates a request with a JSON body and a credential, which is a header line.
pub(super) fn post_json_as(path: &str, credential: &str, body: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_post(path, Form::Json, credential, body.as_bytes(), &mut out);
    out
}

fn write_post(path: &str, form: Form, credential: &str, body: &[u8], out: &mut Vec<u8>) {
    let (form, length) = (form.media_type(), body.len());
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{credential}content-type: {form}\r\n\
         accept: {form}\r\ncontent-length: {length}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

/// Creates the requests that create a session, unless it exists, and fill it.
pub(super) fn creation_requests(
    site: &Site,
    session: &str,
    events: usize,
    credential: &str,
) -> Vec<Vec<u8>> {
    let mut samples = site.samples.clone();
    let mut requests = Vec::new();
    let mut create = Vec::new();
    let body = format!(r#"{{"id":"{session}"}}"#);
    write_post("/v1/sessions", Form::Json, credential, body.as_bytes(), &mut create);
    requests.push(create);
    let path = format!("/v1/sessions/{session}/events");
    for from in (0..events).step_by(SLICE) {
        let wanted = SLICE.min(events - from);
        let part: Vec<Sample> = (0..wanted).map(|_| samples.next().clone()).collect();
        let (mut body, mut request) = (Vec::new(), Vec::new());
        Form::Json.emit(part.iter(), &mut body);
        write_post(&path, Form::Json, credential, &body, &mut request);
        requests.push(request);
    }
    requests
}

fn prepare_json_1(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Json, 1))
}

fn prepare_json_many(site: &mut Site, cell: &Cell) -> Prepared {
    let sessions = site.settings.sessions.max(cell.clients);
    appends(site, cell, sessions, (Form::Json, 1))
}

fn prepare_json_100(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Json, SLICE))
}

fn prepare_protobuf_1(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Protobuf, 1))
}

fn prepare_protobuf_100(site: &mut Site, cell: &Cell) -> Prepared {
    appends(site, cell, cell.clients, (Form::Protobuf, SLICE))
}

/// Returns the id of a session that a cell appends to: connection n of c has the sessions n, n + c,
/// n + 2c and so on.
pub(super) fn session_of(cell: &Cell, number: usize) -> String {
    format!("{}-{number}", cell.id)
}

/// Creates sessions for a cell; returns the connection options of its server and the credential
/// that it requires.
pub(super) fn create_sessions(
    site: &mut Site,
    cell: &Cell,
    sessions: usize,
) -> Outcome<(Manner, String)> {
    let server = site.server_of(cell)?;
    let (manner, credential) = (server.manner(), server.credential.clone());
    let one = |number| creation_requests(site, &session_of(cell, number), 0, &credential);
    let requests: Vec<_> = (0..sessions).flat_map(one).collect();
    network::once(manner, &requests)?;
    Ok((manner, credential))
}

/// Sets up appends: each connection appends `events` a request to each of its sessions in turn.
fn appends(
    site: &mut Site,
    cell: &Cell,
    sessions: usize,
    (form, events): (Form, usize),
) -> Prepared {
    let created = create_sessions(site, cell, sessions)?;
    append_to(site, cell, created, sessions, (form, events))
}

/// Sets up appends of one JSON event a request to sessions of a server that exist.
pub(super) fn append_json_to(site: &Site, cell: &Cell, manner: Manner) -> Prepared {
    append_to(site, cell, (manner, String::new()), cell.clients, (Form::Json, 1))
}

fn append_to(
    site: &Site,
    cell: &Cell,
    (manner, credential): (Manner, String),
    sessions: usize,
    (form, events): (Form, usize),
) -> Prepared {
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
            paths
                .get(turn)
                .into_iter()
                .for_each(|path| write_post(path, form, &credential, &body, out));
        };
        Talk { hello: Vec::new(), next: Box::new(next), count }
    };
    let talks = (0..cell.clients).map(talk).collect();
    Ok(Some(Box::new(Network::new(manner, talks, &site.clock))))
}

fn prepare_slice_json(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_slices(site, cell, Form::Json, ACTIVE)
}

fn prepare_slice_protobuf(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_slices(site, cell, Form::Protobuf, ACTIVE)
}

fn prepare_sealed_json(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_slices(site, cell, Form::Json, SEALED)
}

fn prepare_sealed_protobuf(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_slices(site, cell, Form::Protobuf, SEALED)
}

fn prepare_slices(site: &mut Site, cell: &Cell, form: Form, session: &'static str) -> Prepared {
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

fn prepare_latest(site: &mut Site, cell: &Cell) -> Prepared {
    let path = format!("/v1/sessions/{ACTIVE}/events?from=-1&limit=1");
    reads(site, cell, Form::Json, ACTIVE, 1, move |_| path.clone())
}

/// Sets up reads of a session, which is filled before its first use.
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
        network::once(manner, &creation_requests(site, ACTIVE, site.settings.events, ""))?;
    }
    Ok(Some(read_from(site, cell, form, manner, path)))
}

/// Sets up reads of slices of a filled session of a server, as JSON.
pub(super) fn read_slices_of(
    site: &Site,
    cell: &Cell,
    manner: Manner,
    session: &'static str,
) -> Box<dyn Load> {
    let places = (site.settings.events - SLICE) as u64;
    let carried = Some(Form::Json.carried());
    let manner = Manner { events: SLICE as u64, carried, ..manner };
    read_from(site, cell, Form::Json, manner, move |numbers| {
        let from = numbers.below(places + 1);
        format!("/v1/sessions/{session}/events?from={from}&limit={SLICE}")
    })
}

fn read_from(
    site: &Site,
    cell: &Cell,
    form: Form,
    manner: Manner,
    path: impl Fn(&mut Numbers) -> String + Clone + Send + 'static,
) -> Box<dyn Load> {
    let talk = |connection: usize| {
        let (path, mut numbers) = (path.clone(), Numbers::from(connection));
        let accept = form.media_type();
        let next = move |out: &mut Vec<u8>| out.extend(get(&path(&mut numbers), accept, ""));
        Talk { hello: Vec::new(), next: Box::new(next), count: Vec::new() }
    };
    let talks = (0..cell.clients).map(talk).collect();
    Box::new(Network::new(manner, talks, &site.clock))
}

#[cfg(test)]
mod tests {
    use super::super::sample::Samples;
    use super::*;
    use sessionlog::{event::Origin, wire::protobuf};

    #[test]
    fn the_server_decodes_a_hand_written_protobuf_request() {
        let mut samples = Samples::new();
        let part: Vec<Sample> = (0..3).map(|_| samples.next().clone()).collect();
        let mut body = Vec::new();
        Form::Protobuf.emit(part.iter(), &mut body);
        assert_eq!(count_protobuf_events(&body), Some(3));
        let events = protobuf::parse_events(body.into(), Origin::Harness).expect("a request");
        for (event, sample) in events.iter().zip(&part) {
            assert_eq!((event.kind.as_str(), &event.body), (TYPE, &sample.body));
        }
        assert_eq!(events.len(), 3);
    }

    #[test]
    fn a_varint_round_trips_and_has_its_computed_length() {
        for value in [0, 1, 127, 128, 1_023, 16_383, 16_384, 1 << 21, 1 << 40] {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(out.len(), varint_length(value), "{value}");
            assert_eq!(read_varint(&out), Some((value as u64, [].as_slice())));
        }
    }
}
