//! `append`: sends standard input to a session, line by line, in batches of the lines that have
//! arrived. It must not report an event as durable before the owner acknowledged it.

use std::{
    collections::HashSet,
    io::{self, BufRead, Read},
    sync::Arc,
};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use super::{
    args,
    failure::{CliError, Outcome},
    names,
    screen::{Screen, escaped},
};
use crate::{
    api::sessions::CreateSession,
    client::{BatchParts, BatchRoom, Client, ClientError, SessionWriter, WrittenBatch},
    event::limits,
    import::JsonMembers,
    verbs::{NoParams, NoQuery, SessionPath, sessions},
};

/// Number of lines read ahead of the batch being sent.
const LINES_AHEAD: usize = limits::BATCH_EVENTS_MAX;
/// Maximum bytes of the lines read ahead.
const BYTES_AHEAD: u32 = 16 << 20;
/// Maximum bytes of one line: an event's body plus the members that `events` prints.
const LINE_BYTES_MAX: u64 = limits::EVENT_BYTES_MAX as u64 + (64 << 10);

struct InputLine {
    number: u64,
    text: io::Result<Vec<u8>>,
    /// Permits taken from [`BYTES_AHEAD`], held until the line is in a batch.
    _room: Option<OwnedSemaphorePermit>,
}

/// Counts of acknowledged batches and events.
#[derive(Default)]
struct AppendCounts {
    batches: u64,
    events: u64,
    /// Number of events that the session already had.
    known: u64,
    /// Position of the first event.
    first: Option<u64>,
    /// Position after the last event.
    end: u64,
    /// Tail after the batch, which includes events that the server added.
    next: Option<u64>,
}

pub(super) async fn run(
    client: &Client,
    mut wanted: args::AppendArgs,
    screen: &mut Screen,
) -> Outcome {
    let mut lines = read_lines();
    let mut done = AppendCounts::default();
    let mut waiting = None;
    loop {
        let LineBatch { events, wrong } = collect_batch(&mut lines, &mut waiting, &wanted).await;
        let ended = events.is_empty();
        if !ended {
            let sent = send_batch(client, &wanted, &events, &mut done, screen).await;
            let unknown = |failure: &CliError| failure.code() == "session_not_found";
            if sent.as_ref().is_err_and(unknown) && done.events + done.known == 0 {
                names::resolve_prefix(client, &mut wanted.session, true).await?;
                send_batch(client, &wanted, &events, &mut done, screen).await?;
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
        return create_empty_session(client, &wanted, screen).await;
    }
    if done.batches == 0 {
        // Empty input is a failure when the session does not exist.
        names::resolve_prefix(client, &mut wanted.session, true).await?;
        let place = SessionPath { session: wanted.session.clone() };
        client.call::<sessions::GetSession>(&place, &NoQuery {}, &()).await?;
    }
    if !screen.json {
        let (first, end) = (done.first.unwrap_or(0), done.end);
        let noun = if done.events == 1 { "event" } else { "events" };
        let range = if done.events == 0 { String::new() } else { format!(" at {first}..{end}") };
        let known = if done.known == 0 { String::new() } else { format!(", {} known", done.known) };
        let (events, session) = (done.events, &wanted.session);
        screen.print_line(format!("appended {events} {noun} to {session}{range}{known}"))?;
    }
    Ok(())
}

/// Reads standard input on its own thread: it may block without end.
fn read_lines() -> mpsc::Receiver<InputLine> {
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
            if sender.blocking_send(InputLine { number, text, _room: room }).is_err() || ended {
                return;
            }
        }
    });
    receiver
}

/// An event with the number of its input line.
struct NumberedEvent {
    line: u64,
    text: String,
    id: Option<String>,
}

/// A line that is not a valid event.
struct WrongLine {
    line: u64,
    problem: String,
}

impl WrongLine {
    fn into_failure(self, done: &AppendCounts) -> CliError {
        CliError::Refused {
            code: "invalid_json",
            message: format!(
                "line {}: {}{}",
                self.line,
                self.problem,
                format_appended_before(done)
            ),
            action: "send one JSON object a line; continue from this line".to_owned(),
        }
    }
}

/// Events to send in one batch, and why the input ended after them.
struct LineBatch {
    events: Vec<NumberedEvent>,
    wrong: Option<WrongLine>,
}

/// Collects the lines that have arrived, up to the limits of a batch; waits for the first. A batch
/// with the caller's key waits for all lines, so that a retry forms the same batch. A line with the
/// id of an earlier one starts the next batch, where it is a duplicate or a conflict.
async fn collect_batch(
    lines: &mut mpsc::Receiver<InputLine>,
    waiting: &mut Option<NumberedEvent>,
    wanted: &args::AppendArgs,
) -> LineBatch {
    let mut batch = LineBatch { events: Vec::new(), wrong: None };
    let mut room = BatchRoom::default();
    let mut ids = HashSet::new();
    loop {
        let event = match waiting.take() {
            Some(event) => event,
            None => {
                let next = match batch.events.is_empty() || wanted.idempotency_key.is_some() {
                    true => lines.recv().await,
                    false => lines.try_recv().ok(),
                };
                match next.map(parse_event) {
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
        let again = event.id.as_ref().is_some_and(|id| !ids.insert(id.clone()));
        if again || !room.try_reserve(event.text.len()) {
            *waiting = Some(event);
            return batch;
        }
        batch.events.push(event);
    }
}

/// Parses a line as an event; returns `None` for an empty line.
fn parse_event(line: InputLine) -> Result<Option<NumberedEvent>, WrongLine> {
    let wrong = |problem: String| WrongLine { line: line.number, problem };
    let bytes = line.text.map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let members = JsonMembers::read(text)
        .map_err(|error| wrong(format!("it is not a JSON object: {error}")))?;
    let id = members.text("id");
    Ok(Some(NumberedEvent { line: line.number, text: text.to_owned(), id }))
}

/// Sends one batch. If it is refused because some events are already stored, splits it until each
/// part is all stored or all new; an event that differs is reported by its line.
async fn send_batch(
    client: &Client,
    wanted: &args::AppendArgs,
    events: &[NumberedEvent],
    done: &mut AppendCounts,
    screen: &mut Screen,
) -> Outcome {
    let writer = SessionWriter {
        fencing_token: wanted.fencing_token,
        creates: wanted.create,
        ..SessionWriter::new(client, &wanted.session)
    };
    done.batches += 1;
    let mut key_of_batch = wanted.idempotency_key.as_ref().map(|key| match done.batches {
        1 => key.clone(),
        batches => format!("{key}-{batches}"),
    });
    let is_divisible = events.iter().all(|event| event.id.is_some());
    let mut parts = BatchParts::new(events, |event| event.text.len());
    while let Some(part) = parts.next() {
        let key = key_of_batch.take().unwrap_or_else(|| client.mint_key());
        // From the second batch on, the precondition excludes concurrent writers.
        let at = wanted.if_position.map(|first| done.next.unwrap_or(first));
        match writer.append(part.iter().map(|event| &event.text), at, Some(&key)).await {
            Ok(appended) => done.add_batch(part.len() as u64, &appended, screen)?,
            Err(error)
                if error.code() == "idempotency_conflict" && is_divisible && parts.divide(part) => {
            }
            Err(error) => return Err(add_lines_to_refusal(error, part, &key, done)),
        }
    }
    Ok(())
}

impl AppendCounts {
    /// Adds an acknowledged batch to the counts and prints it.
    fn add_batch(&mut self, count: u64, appended: &WrittenBatch, screen: &mut Screen) -> Outcome {
        if appended.repeated {
            self.known += count;
        } else {
            let first = appended.first_position;
            self.events += count;
            self.first = self.first.or(first);
            self.end = first.map_or(self.end, |first| first + count);
        }
        self.next = appended.next_position.or(self.next);
        for notice in &appended.notices {
            screen.print_note(escaped(notice));
        }
        if screen.json {
            screen.print_answer(&appended.body)?;
            screen.flush()?;
        }
        Ok(())
    }
}

/// Formats the number of events that were already stored, in brackets.
fn format_appended_before(done: &AppendCounts) -> String {
    match done.events {
        0 => String::new(),
        1 => " (1 event before was appended)".to_owned(),
        count => format!(" ({count} events before were appended)"),
    }
}

/// Adds to a refusal the input lines that it concerns and the number of events stored before.
fn add_lines_to_refusal(
    mut error: ClientError,
    events: &[NumberedEvent],
    key: &str,
    done: &AppendCounts,
) -> CliError {
    let lines = match events {
        [] => String::new(),
        [one] => format!("line {}", one.line),
        [first, .., last] => format!("lines {}-{}", first.line, last.line),
    };
    if let ClientError::Refused(refusal) = &mut error {
        let action = (refusal.code == "outcome_unknown")
            .then(|| format!("append {lines} again with --idempotency-key {key}: nothing doubles"));
        let (line, problem) = split_line_of_message(&refusal.message, events);
        let lines = line.map_or(lines, |line| format!("line {line}"));
        refusal.reword(format!("{lines}: {problem}{}", format_appended_before(done)), action);
    }
    CliError::Client(error)
}

/// Returns the line of the event that a refusal names, if any, and the rest of its message.
fn split_line_of_message<'a>(message: &'a str, events: &[NumberedEvent]) -> (Option<u64>, &'a str) {
    let named = message.strip_prefix("events[").and_then(|rest| rest.split_once(']'));
    let found = named.and_then(|(index, rest)| {
        Some((
            events.get(index.parse::<usize>().ok()?)?.line,
            rest.trim_start_matches(['.', ':', ' ']),
        ))
    });
    found.map_or((None, message), |(line, rest)| (Some(line), rest))
}

async fn create_empty_session(
    client: &Client,
    wanted: &args::AppendArgs,
    screen: &mut Screen,
) -> Outcome {
    let body = CreateSession { id: Some(wanted.session.to_string()), ..Default::default() };
    match client.call::<sessions::Create>(&NoParams {}, &NoQuery {}, &body).await {
        Ok(session) if screen.json => screen.print_typed(&session)?,
        Ok(_) => screen.print_line(format!("created {}", wanted.session))?,
        Err(error) if error.code() == "session_exists" => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
