//! TRANSCRIPTS: other programs' conversations to events and back, without loss. The original of
//! every message is kept under `raw`, so that an export is deep-equal to the imported file. It must
//! not open files, print, or locate an owner.

mod anthropic;
mod claude;
mod codex;
mod deliver;
mod draft;
mod known;
mod lines;
mod members;
mod merge;
mod openai;
mod refusal;
mod responses;
mod speech;
pub mod tail;
mod transcript;

use std::{
    collections::{BTreeMap, HashSet},
    io::BufRead,
};

use serde_json::Value;

pub use deliver::UNKNOWN_KEY;
pub use draft::{Draft, Named};
pub use lines::{BadLine, First, LINE_BYTES_MAX};
pub use members::Members;
pub use openai::{Chat, Conversation, to_chat, to_messages};
pub use transcript::{Program, Transcript, TranscriptLines};

use crate::{
    client::{Client, ClientError},
    event::{SessionId, Timestamp},
    secrets::Report as Taken,
};
use deliver::Delivery;
use known::Understood;
use lines::{Content, Item, Lines};

/// Why an import stopped. What was acknowledged before is kept; importing again continues there.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The owner or server refused or does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Reading failed.
    #[error("reading: {0}")]
    Read(#[from] std::io::Error),
    /// The session holds something else, or another writer is active.
    #[error("session {session} cannot be imported into: {other}")]
    Taken {
        /// The session.
        session: SessionId,
        /// Why not.
        other: String,
    },
}

impl ImportError {
    /// Whether it concerns one conversation only, so that others may still be imported.
    fn is_about_content(&self) -> bool {
        match self {
            Self::Taken { .. } => true,
            Self::Client(error) => {
                deliver::is_about_content(error) || deliver::is_about_session(error)
            }
            Self::Read(_) => false,
        }
    }
}

/// Lines and conversations that were left out, and sessions, that a report names at most.
const LEFT_OUT_NAMED_MAX: usize = 20;
const SESSIONS_NAMED_MAX: usize = 10_000;

/// What became of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions written to or found complete.
    pub sessions: First<SessionId, SESSIONS_NAMED_MAX>,
    /// Messages and events read.
    pub records: u64,
    /// Events added.
    pub added: u64,
    /// Events that were there already.
    pub known: u64,
    /// Lines left out, each with its reason.
    pub bad: First<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Whole conversations left out.
    pub skipped: First<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Lines left out because nothing was to be recorded then, or there.
    pub kept_out: u64,
    /// Whether the last line was incomplete and left out: its writer had not finished it.
    pub torn: bool,
    /// Records of no known type, kept whole: how many of each type.
    pub unknown: BTreeMap<String, u64>,
    /// The session that held something else, and the alternative that holds the transcript.
    pub beside: Option<(SessionId, SessionId)>,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub bytes: u64,
    /// Events acknowledged now or earlier.
    pub events: u64,
}

/// What a front end knows of the place that a transcript is from.
pub trait Around: Send + Sync {
    /// Whether a line may be recorded: of a session, by its time and its directory.
    fn may_record(&self, session: &str, at: Option<Timestamp>, directory: Option<&str>) -> bool;
    /// Whether a call with that input is not to be recorded.
    fn withholds(&self, input: &Value, directory: Option<&str>) -> bool;
    /// The workspace of a directory.
    fn workspace(&self, directory: &str) -> Option<String>;
}

/// What to import.
pub struct Source<'a> {
    /// JSON lines.
    pub reader: Box<dyn BufRead + Send + 'a>,
    /// Prefix of the ids of conversations without one.
    pub name: String,
    /// The session of a source that holds one conversation without an id.
    pub session: Option<SessionId>,
    /// Where transcripts are from; none for those that belong to no directory of this machine.
    pub around: Option<&'a dyn Around>,
}

/// Imports one source; calls `progress` after every acknowledged part.
///
/// # Errors
/// [`ImportError`]; lines that make no sense are no error but reported.
pub async fn import(
    client: &Client,
    source: Source<'_>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report, ImportError> {
    let mut run = Run {
        client,
        single: None,
        report: Report::default(),
        events: 0,
        taken: Taken::default(),
        single_name: source.session.clone().unwrap_or_else(|| lines::session_id(&source.name).0),
        name: source.session.is_none().then(|| source.name.clone()),
        around: source.around,
    };
    let mut lines = Lines::new(source.reader, source.name, source.session);
    while let Some(item) = lines.next()? {
        run.taken = lines.taken().clone();
        run.take(item, lines.line()).await?;
        progress(Progress { bytes: lines.bytes(), events: run.events });
    }
    run.end(lines.around()).await?;
    run.finish().await?;
    progress(Progress { bytes: lines.bytes(), events: run.events });
    Ok(run.report)
}

/// Events of a source's only conversation that are collected before they are sent.
const PART_EVENTS: usize = 1_000;
const PART_BYTES: usize = 8 << 20;

/// An event and its line.
type Sent = (u64, Draft);

struct Run<'a> {
    client: &'a Client,
    /// The conversation whose messages or events are lines of their own.
    single: Option<Single<'a>>,
    single_name: SessionId,
    /// The source's name, when it may name the session of a transcript.
    name: Option<String>,
    around: Option<&'a dyn Around>,
    report: Report,
    events: u64,
    /// What was private in the line.
    taken: Taken,
}

struct Single<'a> {
    delivery: Delivery<'a>,
    conversation: Conversation,
    /// The session named in the transcript.
    wanted: Option<SessionId>,
    /// The lines of a program's transcript and its directory, until the session has them.
    transcript: Option<Transcript>,
    place: Option<String>,
    /// Calls that are not to be recorded: their results are not, either.
    withheld: HashSet<String>,
    drafts: Vec<Sent>,
    bytes: usize,
    understood: Understood,
    /// Whether the session's metadata names the transcript.
    described: bool,
    /// Whether a part was refused: later parts are skipped.
    refused: bool,
}

impl<'a> Run<'a> {
    async fn take(&mut self, item: Item, line: u64) -> Result<(), ImportError> {
        match item {
            Item::Bad(bad) => self.report.bad.push(bad),
            Item::Torn => self.report.torn = true,
            Item::Good(Content::Conversation { session, about, messages }) => {
                let mut delivery = Delivery::new(self.client, session);
                let mut conversation = Conversation::new();
                let mut drafts = about.drafts(&mut conversation);
                let mut understood = Understood::default();
                for message in &messages {
                    let made = conversation.message(message);
                    let members = Members::read(message.get()).unwrap_or_default();
                    understood.message(&members, &made);
                    drafts.extend(made);
                }
                if let Some(problem) = drafts.iter().find_map(Draft::too_much) {
                    self.bad(line, problem);
                    return Ok(());
                }
                if let Some(problem) = understood.refusal() {
                    self.report.skipped.push(BadLine::new(
                        line,
                        problem,
                        Some(delivery.session().clone()),
                    ));
                    return Ok(());
                }
                self.count(&understood);
                drafts.iter_mut().take(1).for_each(|first| first.redacted(&self.taken));
                delivery.describe(about, &drafts);
                let drafts: Vec<Sent> = drafts.into_iter().map(|draft| (line, draft)).collect();
                let sent = match drafts.is_empty() {
                    true => delivery.enter().await,
                    false => self.send(&mut delivery, drafts).await,
                };
                let sent = match sent {
                    Ok(()) => delivery.finish().await,
                    Err(error) => Err(error),
                };
                if self.whole(line, delivery.session(), sent)? {
                    self.report.records += messages.len() as u64;
                    self.report.sessions.push(delivery.session().clone());
                }
            }
            Item::Good(Content::Message(message)) => {
                let members = Members::read(message.get()).unwrap_or_default();
                let make = |conversation: &mut Conversation, understood: &mut Understood| {
                    let drafts = conversation.message(&message);
                    understood.message(&members, &drafts);
                    drafts
                };
                self.collect(line, make).await?;
            }
            Item::Good(Content::Event(event)) => {
                let make = |conversation: &mut Conversation, understood: &mut Understood| {
                    let draft = conversation.event(&event);
                    understood.event(&event, &draft);
                    vec![draft]
                };
                self.collect(line, make).await?;
            }
            Item::Good(Content::Entry(program, entry, text, before)) => {
                self.entry(line, program, &entry, (text.get(), &before)).await?;
            }
        }
        Ok(())
    }

    /// Takes one line of a program's transcript. None is dropped: a line without events, or too
    /// large for one event, is stored all the same.
    async fn entry(
        &mut self,
        number: u64,
        program: Program,
        line: &Members,
        (text, before): (&str, &str),
    ) -> Result<(), ImportError> {
        let mut single = self.single.take().unwrap_or_else(|| self.new_single());
        // The first line with a session id names the session, unless events were sent before.
        let name = self.name.as_ref().filter(|_| !single.described);
        if let Some(session) = name.and_then(|name| transcript_name(program, name, line)) {
            self.name = None;
            let beside = lines::session_id(&format!("{session}.transcript")).0;
            single.delivery.rename(session.clone(), beside);
            single.wanted = Some(session);
        }
        let transcript = single.transcript.get_or_insert_with(|| Transcript::new(program));
        let preserved = transcript.preserved(line);
        if !preserved.is_empty() && !single.refused {
            // Stored events are recognised by their positions.
            self.single = Some(single);
            self.flush().await?;
            let Some(back) = self.single.take() else { return Ok(()) };
            single = back;
            let kept = match single.refused {
                true => Vec::new(),
                false => single.delivery.positions(&preserved),
            };
            single.transcript.iter_mut().for_each(|transcript| transcript.keep(kept.clone()));
        }
        let transcript = single.transcript.get_or_insert_with(|| Transcript::new(program));
        let drafts = transcript.line(line, text, before);
        single.understood.line(program, line, &drafts);
        single.place = single.place.take().or_else(|| program.directory(line));
        if !self.may_record(&mut single, program, line, &drafts) {
            self.report.kept_out += 1;
            self.single = Some(single);
            return Ok(());
        }
        self.report.records += 1;
        self.keep(single, number, drafts).await
    }

    /// Whether a line may be recorded: hooks did not where a person kept something out.
    fn may_record(
        &self,
        single: &mut Single<'_>,
        program: Program,
        line: &Members,
        drafts: &[Draft],
    ) -> bool {
        let Some(around) = self.around else { return true };
        let session = single.wanted.as_ref().unwrap_or(&self.single_name);
        let directory = program.directory(line).or_else(|| single.place.clone());
        let directory = directory.as_deref();
        let at = line.text("timestamp").as_deref().and_then(Timestamp::parse);
        let mut may = around.may_record(session.as_str(), at, directory);
        for draft in drafts {
            let event = Members::read(&draft.text).unwrap_or_default();
            let Some(call) = event.text("call_id") else { continue };
            let input = event.value("input");
            if input.is_some_and(|input| around.withholds(&input, directory)) {
                single.withheld.insert(call.clone());
            }
            may &= !single.withheld.contains(&call);
        }
        may
    }

    fn bad(&mut self, line: u64, problem: String) {
        self.report.bad.push(BadLine::new(line, problem, None));
    }

    /// Whether a conversation was accepted. Refused content becomes a bad line, and the import
    /// continues.
    fn whole(
        &mut self,
        line: u64,
        session: &SessionId,
        sent: Result<(), ImportError>,
    ) -> Result<bool, ImportError> {
        match sent {
            Ok(()) => Ok(true),
            Err(error) if error.is_about_content() => {
                let problem = error.to_string();
                self.report.skipped.push(BadLine::new(line, problem, Some(session.clone())));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes one line of the source's only conversation. An invalid line is skipped, and later ids
    /// do not depend on it.
    async fn collect(
        &mut self,
        line: u64,
        draft: impl FnOnce(&mut Conversation, &mut Understood) -> Vec<Draft>,
    ) -> Result<(), ImportError> {
        let mut single = self.single.take().unwrap_or_else(|| self.new_single());
        let mut conversation = single.conversation.clone();
        let drafts = draft(&mut conversation, &mut single.understood);
        if let Some(problem) = drafts.iter().find_map(Draft::too_much) {
            self.bad(line, problem);
            self.single = Some(single);
            return Ok(());
        }
        self.report.records += 1;
        single.conversation = conversation;
        self.keep(single, line, drafts).await
    }

    /// Keeps events until there are enough to be sent.
    async fn keep(
        &mut self,
        mut single: Single<'a>,
        line: u64,
        mut drafts: Vec<Draft>,
    ) -> Result<(), ImportError> {
        drafts.iter_mut().take(1).for_each(|first| first.redacted(&self.taken));
        single.bytes += drafts.iter().map(|draft| draft.text.len()).sum::<usize>();
        single.drafts.extend(drafts.into_iter().map(|draft| (line, draft)));
        let full = single.drafts.len() >= PART_EVENTS || single.bytes >= PART_BYTES;
        self.single = Some(single);
        if full { self.flush().await } else { Ok(()) }
    }

    fn new_single(&mut self) -> Single<'a> {
        let mut delivery = Delivery::new(self.client, self.single_name.clone());
        delivery.describe(openai::About::lines(), &[]);
        Single {
            delivery,
            conversation: Conversation::new(),
            wanted: None,
            transcript: None,
            place: None,
            withheld: HashSet::new(),
            drafts: Vec::new(),
            bytes: 0,
            understood: Understood::default(),
            described: false,
            refused: false,
        }
    }

    /// Sends the collected events; without any there is no request.
    async fn flush(&mut self) -> Result<(), ImportError> {
        let has_events = |single: &mut Single<'_>| !single.drafts.is_empty();
        let Some(mut single) = self.single.take_if(has_events) else { return Ok(()) };
        let drafts = std::mem::take(&mut single.drafts);
        single.bytes = 0;
        if let Some(problem) = single.understood.refusal().filter(|_| !single.refused) {
            let session = single.delivery.session().clone();
            self.report.skipped.push(BadLine::new(1, problem, Some(session)));
            single.refused = true;
        }
        if let Some(transcript) = single.transcript.as_ref().filter(|_| !single.described) {
            let place = single.place.clone();
            let place = match self.around {
                Some(around) => place.and_then(|place| around.workspace(&place)),
                None => place,
            };
            single.delivery.transcript(transcript.program(), &drafts, place);
            single.described = true;
        }
        if !single.refused {
            let line = drafts.first().map_or(1, |(line, _)| *line);
            let sent = self.send(&mut single.delivery, drafts).await;
            single.refused = !self.whole(line, single.delivery.session(), sent)?;
            let there = single.delivery.session();
            let moved = single.wanted.as_ref().filter(|wanted| *wanted != there);
            self.report.beside = moved.map(|wanted| (wanted.clone(), there.clone()));
        }
        self.single = Some(single);
        Ok(())
    }

    /// Keeps what stands behind the last line of a transcript, where it is not a usual end, or
    /// where the file was imported before without one.
    async fn end(&mut self, after: &str) -> Result<(), ImportError> {
        self.flush().await?;
        let Some(single) = self.single.as_mut().filter(|single| !single.refused) else {
            return Ok(());
        };
        let of = |after| single.transcript.as_ref().and_then(|transcript| transcript.end(after));
        let (Some(draft), Some(without)) = (of(after), of("")) else { return Ok(()) };
        if after != transcript::usual(false) || single.delivery.has(&(1, without)).await? {
            single.drafts.push((1, draft));
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), ImportError> {
        self.flush().await?;
        match &mut self.single {
            Some(single) if !single.refused && single.delivery.is_there() => {
                self.report.sessions.push(single.delivery.session().clone());
                single.delivery.note_unknown(single.understood.unknown());
                single.delivery.finish().await?;
                let understood = std::mem::take(&mut single.understood);
                self.count(&understood);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Counts records of no known type.
    fn count(&mut self, understood: &Understood) {
        for (name, count) in understood.unknown() {
            *self.report.unknown.entry(name.clone()).or_default() += count;
        }
    }

    async fn send(
        &mut self,
        delivery: &mut Delivery<'_>,
        drafts: Vec<Sent>,
    ) -> Result<(), ImportError> {
        let drafts = delivery.merged(drafts).await?;
        for part in deliver::parts(&drafts) {
            let done = delivery.deliver(part).await?;
            self.report.added += done.added;
            self.report.known += done.known;
            done.bad.into_iter().for_each(|bad| self.report.bad.push(bad));
            self.events += done.added + done.known;
        }
        Ok(())
    }
}

/// The session of a transcript: from the file's name, where that is a session's id; else from a
/// line. A subagent's own file gets a session beside its parent's.
fn transcript_name(program: Program, name: &str, line: &Members) -> Option<SessionId> {
    let said = program.session(line);
    let is_id = name.len() == 36 && name.split('-').count() == 5;
    let name = match said {
        _ if is_id => name.to_owned(),
        Some(parent) if name.starts_with("agent-") => format!("{parent}.{name}"),
        said => said?,
    };
    Some(lines::session_id(&name).0)
}
