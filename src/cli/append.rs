//! `append`: standard input to a session, line by line, in batches of whatever has arrived. It must
//! not say that something is durable before the owner did.

use std::{
    collections::HashSet,
    io::{self, BufRead, Read},
    sync::Arc,
};

use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use super::{
    args,
    failure::{Failure, Outcome},
    names,
    screen::{Screen, printable},
    work::FENCING_TOKEN,
};
use crate::{
    api::sessions::CreateSession,
    client::{Client, ClientError, IDEMPOTENCY_KEY, Request, session_path},
    event::limits,
    import::Members,
    verbs::{InSession, NoQuery, Nowhere, sessions},
};

/// Lines read ahead of the batch on its way.
const LINES_AHEAD: usize = limits::BATCH_EVENTS_MAX;
/// Bytes of them at most.
const BYTES_AHEAD: u32 = 16 << 20;
/// Room in a request for what is around the events.
const BATCH_BYTES: usize = limits::BATCH_BYTES_MAX - (64 << 10);
/// Bytes of one line at most: an event's body, and room for what `events` prints around it.
const LINE_BYTES_MAX: u64 = limits::EVENT_BYTES_MAX as u64 + (64 << 10);

struct Line {
    number: u64,
    text: io::Result<Vec<u8>>,
    /// Its part of [`BYTES_AHEAD`], until it is in a batch.
    _room: Option<OwnedSemaphorePermit>,
}

/// Counts of acknowledged batches and events.
#[derive(Default)]
struct Done {
    batches: u64,
    events: u64,
    /// Events that were there before.
    known: u64,
    /// Position of the first.
    first: Option<u64>,
    /// The position after the last.
    end: u64,
    /// The tail after that: events that the server added are between.
    next: Option<u64>,
}

pub(super) async fn run(client: &Client, mut wanted: args::Append, screen: &mut Screen) -> Outcome {
    let mut lines = read_lines();
    let mut done = Done::default();
    let mut waiting = None;
    loop {
        let Batch { events, wrong } = collect(&mut lines, &mut waiting, &wanted).await;
        let ended = events.is_empty();
        if !ended {
            let sent = send(client, &wanted, &events, &mut done, screen).await;
            let unknown = |failure: &Failure| failure.code() == "session_not_found";
            if sent.as_ref().is_err_and(unknown) && done.events + done.known == 0 {
                names::look_up(client, &mut wanted.session, true).await?;
                send(client, &wanted, &events, &mut done, screen).await?;
            } else {
                sent?;
            }
        }
        if let Some(wrong) = wrong {
            return Err(wrong.into_failure(&done));
        }
        if ended {
            break;
        }
    }
    if done.batches == 0 && wanted.create {
        return create_empty(client, &wanted, screen).await;
    }
    if done.batches == 0 {
        // Empty input is a failure when the session does not exist.
        names::look_up(client, &mut wanted.session, true).await?;
        let place = InSession { session: wanted.session.clone() };
        client.call::<sessions::Get>(&place, &NoQuery {}, &()).await?;
    }
    if !screen.json {
        let (first, end) = (done.first.unwrap_or(0), done.end);
        let noun = if done.events == 1 { "event" } else { "events" };
        let range = if done.events == 0 { String::new() } else { format!(" at {first}..{end}") };
        let known = if done.known == 0 { String::new() } else { format!(", {} known", done.known) };
        let (events, session) = (done.events, &wanted.session);
        screen.line(format!("appended {events} {noun} to {session}{range}{known}"))?;
    }
    Ok(())
}

/// Reads standard input on its own thread: it may block without end.
fn read_lines() -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    let (room, runtime) = (Arc::new(Semaphore::new(BYTES_AHEAD as usize)), Handle::current());
    std::thread::spawn(move || {
        let mut input = io::BufReader::with_capacity(256 << 10, io::stdin());
        for number in 1.. {
            let mut bytes = Vec::new();
            let longest = LINE_BYTES_MAX + 2;
            let text = match (&mut input).take(longest).read_until(b'\n', &mut bytes) {
                Ok(0) => return,
                Ok(read) if read as u64 == longest => {
                    let why = format!("it is longer than {LINE_BYTES_MAX} bytes");
                    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
                }
                Ok(_) => Ok(bytes),
                Err(error) => Err(error),
            };
            let ended = text.is_err();
            let bytes = text.as_ref().map_or(0, Vec::len);
            let wanted = u32::try_from(bytes).unwrap_or(BYTES_AHEAD).min(BYTES_AHEAD);
            let room = runtime.block_on(Arc::clone(&room).acquire_many_owned(wanted)).ok();
            if sender.blocking_send(Line { number, text, _room: room }).is_err() || ended {
                return;
            }
        }
    });
    receiver
}

/// One event as it was read.
struct Numbered {
    line: u64,
    text: String,
    id: Option<String>,
}

/// A line that is no event.
struct Wrong {
    line: u64,
    problem: String,
}

impl Wrong {
    fn into_failure(self, done: &Done) -> Failure {
        Failure::Refused {
            code: "invalid_json",
            message: format!("line {}: {}{}", self.line, self.problem, appended_before(done)),
            action: "send one JSON object a line; continue from this line".to_owned(),
        }
    }
}

/// Events to send together, and why nothing comes after them.
struct Batch {
    events: Vec<Numbered>,
    wrong: Option<Wrong>,
}

/// The lines that have arrived, up to the limits of a batch; waits for the first. A batch with a
/// key of the caller waits for all lines, so that a retry cuts its input alike. A line with the id
/// of an earlier one begins the next batch, where it is known or differs.
async fn collect(
    lines: &mut mpsc::Receiver<Line>,
    waiting: &mut Option<Numbered>,
    wanted: &args::Append,
) -> Batch {
    let mut batch = Batch { events: Vec::new(), wrong: None };
    let mut bytes = 0;
    let mut ids = HashSet::new();
    loop {
        let event = match waiting.take() {
            Some(event) => event,
            None => {
                let next = match batch.events.is_empty() || wanted.idempotency_key.is_some() {
                    true => lines.recv().await,
                    false => lines.try_recv().ok(),
                };
                match next.map(event) {
                    None => return batch,
                    Some(Ok(None)) => continue,
                    Some(Ok(Some(event))) => event,
                    Some(Err(wrong)) => {
                        batch.wrong = Some(wrong);
                        return batch;
                    }
                }
            }
        };
        bytes += event.text.len() + 1;
        let full = batch.events.len() == limits::BATCH_EVENTS_MAX || bytes > BATCH_BYTES;
        let again = event.id.as_ref().is_some_and(|id| !ids.insert(id.clone()));
        if again || (full && !batch.events.is_empty()) {
            *waiting = Some(event);
            return batch;
        }
        batch.events.push(event);
    }
}

/// One line as an event; `None` for an empty line.
fn event(line: Line) -> Result<Option<Numbered>, Wrong> {
    let wrong = |problem: String| Wrong { line: line.number, problem };
    let bytes = line.text.map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let members =
        Members::read(text).map_err(|error| wrong(format!("it is not a JSON object: {error}")))?;
    let id = members.text("id");
    Ok(Some(Numbered { line: line.number, text: text.to_owned(), id }))
}

/// Sends one batch. When it is refused because a part of it is known, its events are sent one by
/// one: each alone is known or new, and one that differs is reported by its line.
async fn send(
    client: &Client,
    wanted: &args::Append,
    events: &[Numbered],
    done: &mut Done,
    screen: &mut Screen,
) -> Outcome {
    done.batches += 1;
    let key = match &wanted.idempotency_key {
        Some(key) if done.batches == 1 => key.clone(),
        Some(key) => format!("{key}-{}", done.batches),
        None => client.mint_key(),
    };
    let refused = match post(client, wanted, events, &key, done, screen).await {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    let apart = events.len() > 1 && events.iter().all(|event| event.id.is_some());
    if refused.code() != "idempotency_conflict" || !apart {
        return Err(refused);
    }
    for event in events {
        let event = std::slice::from_ref(event);
        post(client, wanted, event, &client.mint_key(), done, screen).await?;
    }
    Ok(())
}

async fn post(
    client: &Client,
    wanted: &args::Append,
    events: &[Numbered],
    key: &str,
    done: &mut Done,
    screen: &mut Screen,
) -> Outcome {
    let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    let body = format!("{{\"events\":[{}]}}", texts.join(","));
    let path = session_path(&wanted.session, "/events");
    let mut request = Request::post(path).header(IDEMPOTENCY_KEY, key);
    if let Some(token) = wanted.fencing_token {
        request = request.header(FENCING_TOKEN, token.to_string());
    }
    if wanted.create {
        request = request.query("create", "true");
    }
    // From the second batch on, the precondition excludes other writers.
    let expected = wanted.if_position.map(|first| done.next.unwrap_or(first));
    if let Some(position) = expected {
        request = request.header("If-Position", position.to_string());
    }
    let answer = client.send(request.body(body, "application/json")).await;
    let body = answer.map_err(|error| at_lines(error, events, key, done))?.body;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let count = events.len() as u64;
    if value.get("repeated").and_then(Value::as_bool).unwrap_or_default() {
        done.known += count;
    } else {
        let first = number("first_position");
        done.events += count;
        done.first = done.first.or(first);
        done.end = first.map_or(done.end, |first| first + count);
    }
    done.next = number("next_position").or(done.next);
    let notices = value.get("notices").and_then(Value::as_array).into_iter().flatten();
    for notice in notices.filter_map(Value::as_str) {
        screen.note(printable(notice));
    }
    if screen.json {
        screen.answer(&body)?;
        screen.flush()?;
    }
    Ok(())
}

/// Number of events that were appended before, in brackets.
fn appended_before(done: &Done) -> String {
    match done.events {
        0 => String::new(),
        1 => " (1 event before was appended)".to_owned(),
        count => format!(" ({count} events before were appended)"),
    }
}

/// Says which lines a refusal is about and how many went in before it.
fn at_lines(mut error: ClientError, events: &[Numbered], key: &str, done: &Done) -> Failure {
    let lines = match events {
        [] => String::new(),
        [one] => format!("line {}", one.line),
        [first, .., last] => format!("lines {}-{}", first.line, last.line),
    };
    if let ClientError::Refused(refusal) = &mut error {
        let action = (refusal.code == "outcome_unknown")
            .then(|| format!("append {lines} again with --idempotency-key {key}: nothing doubles"));
        let (line, problem) = at_line(&refusal.message, events);
        let lines = line.map_or(lines, |line| format!("line {line}"));
        refusal.reword(format!("{lines}: {problem}{}", appended_before(done)), action);
    }
    Failure::Client(error)
}

/// The line of the event that a refusal is about, where it names one, and the rest of what it says.
fn at_line<'a>(message: &'a str, events: &[Numbered]) -> (Option<u64>, &'a str) {
    let named = message.strip_prefix("events[").and_then(|rest| rest.split_once(']'));
    let found = named.and_then(|(index, rest)| {
        Some((
            events.get(index.parse::<usize>().ok()?)?.line,
            rest.trim_start_matches(['.', ':', ' ']),
        ))
    });
    found.map_or((None, message), |(line, rest)| (Some(line), rest))
}

async fn create_empty(client: &Client, wanted: &args::Append, screen: &mut Screen) -> Outcome {
    let body = CreateSession { id: Some(wanted.session.to_string()), ..Default::default() };
    match client.call::<sessions::Create>(&Nowhere {}, &NoQuery {}, &body).await {
        Ok(session) if screen.json => screen.print(&session)?,
        Ok(_) => screen.line(format!("created {}", wanted.session))?,
        Err(error) if error.code() == "session_exists" => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
