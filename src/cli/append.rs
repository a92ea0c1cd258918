//! `append`: standard input to a session, line by line, in batches of whatever has arrived. It must
//! not say that something is durable before the owner did.

use std::io::{self, BufRead, Read};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    args,
    failure::{Failure, Outcome},
    screen::Screen,
};
use crate::{
    client::{Client, ClientError, Request, session_path},
    event::limits,
    import::Members,
};

/// Lines read ahead of the batch on its way.
const LINES_AHEAD: usize = limits::BATCH_EVENTS_MAX;
/// Room in a request for what is around the events.
const BATCH_BYTES: usize = limits::BATCH_BYTES_MAX - (64 << 10);

struct Line {
    number: u64,
    text: io::Result<Vec<u8>>,
}

/// What was acknowledged.
#[derive(Default)]
struct Done {
    events: u64,
    first: Option<u64>,
    next: Option<u64>,
}

pub(super) async fn run(client: &Client, wanted: args::Append, screen: &mut Screen) -> Outcome {
    let mut lines = read_lines();
    let mut done = Done::default();
    let mut waiting = None;
    while let Some(batch) = collect(&mut lines, &mut waiting).await? {
        send(client, &wanted, batch, &mut done, screen).await?;
    }
    if done.first.is_none() && wanted.create {
        create_empty(client, &wanted, screen).await?;
    } else if !screen.json {
        let (first, next) = (done.first.unwrap_or(0), done.next.unwrap_or(0));
        let noun = if done.events == 1 { "event" } else { "events" };
        let range = if done.events == 0 { String::new() } else { format!(" at {first}..{next}") };
        screen.line(format!("appended {} {noun} to {}{range}", done.events, wanted.session))?;
    }
    Ok(())
}

/// Reads standard input on a thread of its own: it may block for ever.
fn read_lines() -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut input = io::BufReader::with_capacity(256 << 10, io::stdin());
        for number in 1.. {
            let mut bytes = Vec::new();
            let longest = limits::EVENT_BYTES_MAX as u64 + 2;
            let text = match (&mut input).take(longest).read_until(b'\n', &mut bytes) {
                Ok(0) => return,
                Ok(read) if read as u64 == longest => {
                    let why = format!("it is longer than {} bytes", limits::EVENT_BYTES_MAX);
                    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
                }
                Ok(_) => Ok(bytes),
                Err(error) => Err(error),
            };
            let ended = text.is_err();
            if sender.blocking_send(Line { number, text }).is_err() || ended {
                return;
            }
        }
    });
    receiver
}

struct Batch {
    first_line: u64,
    last_line: u64,
    texts: Vec<String>,
}

/// The lines that are there, up to the limits of a batch; waits for the first.
async fn collect(
    lines: &mut mpsc::Receiver<Line>,
    waiting: &mut Option<(u64, String)>,
) -> Outcome<Option<Batch>> {
    let mut batch = Batch { first_line: 0, last_line: 0, texts: Vec::new() };
    let mut bytes = 0;
    loop {
        let (number, text) = match waiting.take() {
            Some(line) => line,
            None => {
                let next = match batch.texts.is_empty() {
                    true => lines.recv().await,
                    false => lines.try_recv().ok(),
                };
                match next {
                    None => break,
                    Some(line) => match event(line)? {
                        Some(line) => line,
                        None => continue,
                    },
                }
            }
        };
        bytes += text.len() + 1;
        let full = batch.texts.len() == limits::BATCH_EVENTS_MAX || bytes > BATCH_BYTES;
        if full && !batch.texts.is_empty() {
            *waiting = Some((number, text));
            break;
        }
        if batch.texts.is_empty() {
            batch.first_line = number;
        }
        batch.last_line = number;
        batch.texts.push(text);
    }
    Ok((!batch.texts.is_empty()).then_some(batch))
}

/// One line as an event; `None` for an empty line.
fn event(line: Line) -> Outcome<Option<(u64, String)>> {
    let wrong = |problem: String| Failure::Refused {
        code: "invalid_json",
        message: format!("line {}: {problem}", line.number),
        action: "send one JSON object a line; the lines before it were appended".to_owned(),
    };
    let bytes = line.text.map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    Members::read(text).map_err(|error| wrong(format!("it is not a JSON object: {error}")))?;
    Ok(Some((line.number, text.to_owned())))
}

async fn send(
    client: &Client,
    wanted: &args::Append,
    batch: Batch,
    done: &mut Done,
    screen: &mut Screen,
) -> Outcome {
    let body = format!("{{\"events\":[{}]}}", batch.texts.join(","));
    let mut request = Request::post(session_path(&wanted.session, "/events"));
    if wanted.create {
        request = request.query("create", "true");
    }
    // From the second batch on the precondition says: nobody came between.
    let expected = wanted.if_position.map(|first| done.next.unwrap_or(first));
    if let Some(position) = expected {
        request = request.header("If-Position", position.to_string());
    }
    let answer = client.send(request.body(body, "application/json")).await;
    let body = answer.map_err(|error| at_lines(error, &batch, done))?.body;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    done.events += batch.texts.len() as u64;
    done.first = done.first.or(number("first_position"));
    done.next = number("next_position").or(done.next);
    if screen.json {
        screen.answer(&body)?;
        screen.flush()?;
    }
    Ok(())
}

/// Says which lines a refusal is about and how many went in before it.
fn at_lines(mut error: ClientError, batch: &Batch, done: &Done) -> Failure {
    if let ClientError::Refused(refusal) = &mut error {
        let (first, last) = (batch.first_line, batch.last_line);
        let lines =
            if first == last { format!("line {first}") } else { format!("lines {first}-{last}") };
        let before = match done.events {
            0 => String::new(),
            count => format!(" ({count} events before were appended)"),
        };
        refusal.message = format!("{lines}: {}{before}", refusal.message);
    }
    Failure::Client(error)
}

async fn create_empty(client: &Client, wanted: &args::Append, screen: &mut Screen) -> Outcome {
    let body = json!({ "id": wanted.session.as_str() });
    match client.send(Request::post("/v1/sessions").json(&body)).await {
        Ok(answer) if screen.json => screen.answer(&answer.body)?,
        Ok(_) => screen.line(format!("created {}", wanted.session))?,
        Err(error) if error.code() == "session_exists" => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
