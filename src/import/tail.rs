//! What a program's transcript says beyond its hooks: the agent's words between calls, calls that
//! were refused or failed, what a person said with a refusal, and what requests took. Whole lines
//! are read from a byte offset on, each with the id of an import. It must not open a file, nor take
//! what a hook records.

use std::{
    collections::BTreeMap,
    io::{self, Read, Seek, SeekFrom},
};

use serde::{Deserialize, Serialize};

use super::{
    claude::{Claude, says},
    codex::Codex,
    draft::{Name, event},
    members::{Members, Object, quote, text_of},
    transcript::{Program, head, name_of_line},
};
use crate::{
    event::{Timestamp, kinds},
    secrets::{Masked, Recogniser, Report as Taken},
};

/// Bytes read at once, and events made of them.
pub const TAIL_BYTES: usize = 4 << 20;
const EVENTS_MAX: usize = 500;
/// Bytes before a place that say whether it is still the same transcript, and the members in them
/// that are compared: none of a content, which the log may have to forget.
const CHECKED_BYTES: u64 = 4 << 10;
const CHECKED: [&str; 2] = ["\"timestamp\":\"", "\"uuid\":\""];
/// The model of messages that the program made up itself.
const SYNTHETIC: &str = "<synthetic>";

/// How far a transcript was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The byte offset.
    pub bytes: u64,
    /// A hash of the times and names of lines before it.
    pub check: String,
    /// Why the transcript was read from its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Again>,
}

/// What became of a transcript that was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// It ends before the place.
    Shorter,
    /// It has other bytes before the place.
    Rewritten,
}

/// What came after a place.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// How far it was read now.
    pub place: Place,
    /// The branch of the repository, where the program notes it.
    pub branch: Option<Masked>,
    /// The texts of the events: the agent's words, failed calls and their results, and reports of
    /// requests. Of a call and its result a hook may have recorded one or both.
    pub events: Vec<String>,
}

/// The end of a transcript, as a place.
///
/// # Errors
/// The error of the source.
pub fn end(source: &mut (impl Read + Seek)) -> io::Result<Place> {
    let bytes = source.seek(SeekFrom::End(0))?;
    Ok(Place { bytes, check: check(source, bytes)?, again: None })
}

/// Whether a line may be read, by its time and the directory that it is from, where it has them.
pub type MayRead<'a> = dyn Fn(Option<Timestamp>, Option<&str>) -> bool + 'a;

/// Reads what came after a place, up to [`TAIL_BYTES`]; from the beginning without a place, or when
/// the place is not there any more. An unfinished last line is left for the next reading. What is
/// private in a line is not read, as an import does not, and nothing of it is kept that the rules
/// have not judged whole.
///
/// # Errors
/// The error of the source.
pub fn since(
    source: &mut (impl Read + Seek),
    program: Program,
    place: Option<&Place>,
    may_read: &MayRead<'_>,
    secrets: &Recogniser,
) -> io::Result<Tail> {
    let size = source.seek(SeekFrom::End(0))?;
    let again = match place {
        Some(place) if place.bytes > size => Some(Again::Shorter),
        Some(place) if check(source, place.bytes)? != place.check => Some(Again::Rewritten),
        _ => None,
    };
    let from = place.filter(|_| again.is_none()).map_or(0, |place| place.bytes);
    source.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    source.take(TAIL_BYTES as u64).read_to_end(&mut bytes)?;
    let private = Recogniser::of_private_spans();
    let (tail, requests, calls) = (Tail::default(), BTreeMap::new(), BTreeMap::new());
    let codex = Codex::default();
    let mut said = Said { program, codex, private, secrets, may_read, tail, requests, calls };
    let mut read = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let full = said.tail.events.len() + said.requests.len() >= EVENTS_MAX;
        if full || line.last() != Some(&b'\n') {
            break;
        }
        read += line.len();
        said.line(line);
    }
    // Of a line that is longer than all that is read at once, only the end is left to skip.
    if read == 0 && bytes.len() == TAIL_BYTES {
        read = bytes.len();
    }
    let mut tail = said.tail;
    tail.events.extend(said.requests.into_values());
    let bytes = from + read as u64;
    tail.place = Place { bytes, check: check(source, bytes)?, again };
    Ok(tail)
}

/// A hash of the times and names of the last lines before an offset, as far as they are among the
/// last bytes.
fn check(source: &mut (impl Read + Seek), bytes: u64) -> io::Result<String> {
    let from = bytes.saturating_sub(CHECKED_BYTES);
    source.seek(SeekFrom::Start(from))?;
    let mut before = Vec::new();
    source.take(bytes - from).read_to_end(&mut before)?;
    let text = String::from_utf8_lossy(&before);
    let mut hasher = blake3::Hasher::new();
    for name in CHECKED {
        for (at, _) in text.match_indices(name) {
            let value = text.get(at + name.len()..).and_then(|rest| rest.split('"').next());
            hasher.update(value.unwrap_or_default().as_bytes()).update(b"\0");
        }
    }
    Ok(hasher.finalize().to_hex().chars().take(16).collect())
}

struct Said<'a> {
    program: Program,
    codex: Codex,
    private: Recogniser,
    secrets: &'a Recogniser,
    may_read: &'a MayRead<'a>,
    tail: Tail,
    /// Reports by id: of the lines of one message, the last counts.
    requests: BTreeMap<String, String>,
    /// Calls without a result so far, by id.
    calls: BTreeMap<String, String>,
}

impl Said<'_> {
    /// Takes what a line says; one that is no JSON, or a subagent's, says nothing.
    fn line(&mut self, line: &[u8]) {
        let Ok(text) = str::from_utf8(line) else { return };
        let mut taken = Taken::default();
        let clean = self.private.json(text.trim(), &mut taken);
        let text = clean.as_deref().unwrap_or(text.trim());
        let Ok(line) = Members::read(text) else { return };
        let at = line.text("timestamp").as_deref().and_then(Timestamp::parse);
        if !(self.may_read)(at, line.text("cwd").as_deref()) {
            return;
        }
        let (bodies, report) = match self.program {
            Program::ClaudeCode if says(&line, "isSidechain") => return,
            Program::ClaudeCode if line.text("type").as_deref() == Some("user") => {
                let bodies = Claude::default().bodies(&line);
                // A line without a refused or failed call is a prompt, or a result that hooks have.
                let failed = |(kind, _): &(&str, _)| *kind == kinds::AGENT_TOOL_RESULT;
                (if bodies.iter().any(failed) { bodies } else { return }, None)
            }
            Program::ClaudeCode if line.text("type").as_deref() != Some("assistant") => return,
            Program::ClaudeCode => {
                let message = line.some("message").map(|message| Members::read(message.get()));
                let Some(Ok(message)) = message else { return };
                if message.text("model").as_deref() == Some(SYNTHETIC) {
                    return;
                }
                let branch = line.text("gitBranch").map(|branch| self.secrets.masked(&branch));
                self.tail.branch = branch.or(self.tail.branch.take());
                (Claude::default().bodies(&line), request_of_claude(&message))
            }
            Program::Codex => (self.codex.bodies(&line), request_of_codex(&line)),
        };
        let name = name_of_line(&line, text).1;
        let mut failed = false;
        for (part, (kind, body)) in bodies.into_iter().enumerate() {
            let text = body.finish();
            let body = Members::read(&text).unwrap_or_default();
            let mut whole = of_line(&line);
            match kind {
                kinds::AGENT_TOOL_USE | kinds::AGENT_TOOL_RESULT => whole.add_all(&body),
                kinds::AGENT_MESSAGE | kinds::USER_MESSAGE => {
                    let words = body.some("content").map(text_of).unwrap_or_default();
                    if words.trim().is_empty() {
                        continue;
                    }
                    whole.add("content", &quote(&words));
                }
                _ => continue,
            }
            let event = event(&name.part('.', part), kind, &whole.finish());
            let event = self.secrets.masked(&event.text).into_event(&taken);
            let call = body.text("call_id").unwrap_or_default();
            match kind {
                kinds::AGENT_TOOL_USE => {
                    self.calls.insert(call, event);
                }
                // Hooks report a call that succeeded, and none that a program of code mode made.
                kinds::AGENT_TOOL_RESULT => {
                    let call = self.calls.remove(&call);
                    failed = says(&body, "is_error");
                    if failed || body.raw("within").is_some() {
                        self.tail.events.extend(call.into_iter().chain([event]));
                    }
                }
                // No hook reports the objective of a goal.
                kinds::USER_MESSAGE if line.text("type").as_deref() == Some("event_msg") => {
                    self.tail.events.push(event);
                }
                kinds::AGENT_MESSAGE => self.tail.events.push(event),
                // What a person said with a refusal: a prompt is in blocks.
                kinds::USER_MESSAGE if failed && body.text("content").is_some() => {
                    self.tail.events.push(event);
                }
                _ => {}
            }
        }
        if let Some((name, members)) = report {
            let mut whole = of_line(&line);
            members.iter().for_each(|(name, value)| whole.add(name, value));
            let hash = blake3::hash(name.as_bytes()).to_hex().chars().take(24).collect();
            let id = Name { name: "usage-".to_owned(), hash }.part('.', 0);
            let report = event(&id, kinds::SPAN_MODEL_REQUEST_END, &whole.finish());
            let report = self.secrets.masked(&report.text).into_event(&Taken::default());
            self.requests.insert(id, report);
        }
    }
}

/// Members of every event of a line: when it was, and where it is from.
fn of_line(line: &Members) -> Object {
    let mut whole = head(line);
    whole.add("recorded_from", "\"transcript\"");
    whole
}

/// What names a request, and the members of its report.
type Report = (String, Vec<(&'static str, String)>);

/// Every line of a message repeats what its request took; its id names the request.
fn request_of_claude(message: &Members) -> Option<Report> {
    const COUNTS: [&str; 4] =
        ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let id = message.text("id")?;
    let usage = Members::read(message.some("usage")?.get()).ok()?;
    let mut members = vec![("message_id", quote(&id)), ("model_usage", counts(&usage, &COUNTS)?)];
    members.extend(message.some("model").map(|model| ("model", model.get().to_owned())));
    Some((id, members))
}

/// The running total names a request: it is reported again without one.
fn request_of_codex(line: &Members) -> Option<Report> {
    const COUNTS: [&str; 3] = ["input_tokens", "output_tokens", "total_tokens"];
    let inner = |of: &Members, name: &str| Members::read(of.some(name)?.get()).ok();
    let payload = inner(line, "payload")?;
    if payload.text("type")? != "token_count" {
        return None;
    }
    let info = inner(&payload, "info")?;
    let (total, last) = (info.some("total_token_usage")?, inner(&info, "last_token_usage")?);
    let mut usage = counts(&last, &COUNTS)?;
    if let Some(cached) = last.some("cached_input_tokens") {
        usage.pop();
        usage.push_str(&format!(
            ",\"input_tokens_details\":{{\"cached_tokens\":{}}}}}",
            cached.get()
        ));
    }
    Some((total.get().to_owned(), vec![("model_usage", usage)]))
}

/// The counts among some members, as an object; `None` without any.
fn counts(usage: &Members, names: &[&str]) -> Option<String> {
    let mut object = Object::new();
    let mut any = false;
    for name in names {
        let count = usage.some(name).filter(|count| count.get().parse::<u64>().is_ok());
        if let Some(count) = count {
            object.add(name, count.get());
            any = true;
        }
    }
    any.then(|| object.finish())
}
