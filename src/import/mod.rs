//! TRANSCRIPTS: other programs' conversations to events and back, without loss. The original of
//! every message is kept under `raw`, so that an export is deep-equal to the imported file. It must
//! not open files, print, or locate an owner.

mod anthropic;
mod claude;
mod codex;
mod deliver;
mod draft;
mod fitting;
mod known;
mod lines;
mod members;
mod merge;
mod openai;
mod queue;
mod records;
mod refusal;
mod requests;
mod responses;
mod route;
mod speech;
mod stored;
pub mod tail;
mod transcript;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    io::BufRead,
};

use serde_json::{Value, value::RawValue};

pub use deliver::UNKNOWN_KEY;
pub use draft::{Draft, NamedBy};
pub use lines::{BadLine, First, LINE_BYTES_MAX};
pub use members::Members;
pub use openai::{Chat, Conversation, to_chat, to_messages};
pub use transcript::{Program, Transcript, TranscriptLines};

use crate::{
    client::{Client, ClientError, Obstacle},
    event::{SessionId, Timestamp, kinds},
    secrets::Report as Taken,
};
use deliver::{Delivered, Delivery};
use draft::{RecordName, event};
use known::Understood;
use lines::{Content, LineItem, SourceLines};
use members::Object;

/// Error that stopped an import. Events acknowledged before are kept; a repeated import continues
/// there.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The owner or server refused or does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The source could not be read.
    #[error("reading: {0}")]
    Read(#[from] std::io::Error),
    /// The session holds other events, or another writer is active.
    #[error("session {session} cannot be imported into: {other}")]
    Taken {
        /// The session.
        session: SessionId,
        /// The reason.
        other: String,
    },
}

impl ImportError {
    /// Returns true if the error concerns one conversation only: others may still be imported.
    fn is_about_content(&self) -> bool {
        match self {
            Self::Taken { .. } => true,
            Self::Client(error) => {
                matches!(error.obstacle(), Obstacle::Event | Obstacle::Session | Obstacle::Gone)
            }
            Self::Read(_) => false,
        }
    }
}

/// Most left-out lines and conversations, and most sessions, that a report names.
const LEFT_OUT_NAMED_MAX: usize = 20;
const SESSIONS_NAMED_MAX: usize = 10_000;

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Sessions written to or found complete.
    pub sessions: First<SessionId, SESSIONS_NAMED_MAX>,
    /// Number of messages and events read.
    pub records: u64,
    /// Number of events added.
    pub added: u64,
    /// Number of events that were stored already.
    pub known: u64,
    /// Lines left out, each with its reason.
    pub bad: First<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Whole conversations left out.
    pub skipped: First<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Lines that were imported with text replaced, each with the replacement.
    pub mended: First<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Number of results that a transcript keeps in a separate file, which is missing.
    pub results_missing: u64,
    /// Number of lines left out because recording was off at that time or in that directory.
    pub kept_out: u64,
    /// True if the last line was incomplete and left out: its writer had not finished it.
    pub torn: bool,
    /// Records of unknown type, stored whole: the number of each type.
    pub unknown: BTreeMap<String, u64>,
    /// The session that held other events, and the alternative that holds the transcript.
    pub beside: Option<(SessionId, SessionId)>,
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of events acknowledged now or earlier.
    pub events: u64,
}

/// Recording rules and workspaces of the directory that a transcript is from.
pub trait Around: Send + Sync {
    /// Returns true if a line may be recorded, by its session, time and directory.
    fn may_record(&self, session: &str, at: Option<Timestamp>, directory: Option<&str>) -> bool;
    /// Returns true if a call with that input must not be recorded.
    fn withholds(&self, input: &Value, directory: Option<&str>) -> bool;
    /// Returns the workspace of a directory.
    fn workspace(&self, directory: &str) -> Option<String>;
}

/// Source of an import.
pub struct Source<'a> {
    /// JSON lines.
    pub reader: Box<dyn BufRead + Send + 'a>,
    /// Prefix of the ids of conversations without one.
    pub name: String,
    /// The session of a source that holds one conversation without an id.
    pub session: Option<SessionId>,
    /// Reads a result that is kept in a separate file, by the path that a line names.
    pub results: Results<'a>,
    /// Rules for transcripts; none for those that belong to no directory of this machine.
    pub around: Option<&'a dyn Around>,
}

/// Reads a result by its path; `None` if the file is missing or not next to the source.
pub type Results<'a> = Box<dyn Fn(&str) -> Option<String> + Send + Sync + 'a>;

/// Imports one source; calls `progress` after every acknowledged part.
///
/// # Errors
/// [`ImportError`]; an invalid line is not an error but part of the report.
pub async fn import(
    client: &Client,
    source: Source<'_>,
    progress: &mut (dyn FnMut(ImportProgress) + Send),
) -> Result<ImportReport, ImportError> {
    let mut run = ImportRun {
        client,
        single: None,
        report: ImportReport::default(),
        taken: Taken::default(),
        held: VecDeque::new(),
        results: source.results,
        single_name: source.session.clone().unwrap_or_else(|| lines::session_id(&source.name).0),
        name: source.session.is_none().then(|| source.name.clone()),
        around: source.around,
    };
    let mut lines = SourceLines::new(source.reader, source.name, source.session);
    while let Some(item) = lines.next()? {
        run.taken = lines.taken().clone();
        if matches!(item, LineItem::Good(_)) {
            lines.take_mended().into_iter().for_each(|line| run.report.mended.push(line));
        }
        run.take(item, lines.line()).await?;
        progress(run.progress(lines.bytes()));
    }
    run.process_held(true).await?;
    run.end(lines.around()).await?;
    run.finish().await?;
    progress(run.progress(lines.bytes()));
    Ok(run.report)
}

/// Most events, and most bytes, of a source's only conversation that are collected before a send.
const PART_EVENTS: usize = 1_000;
const PART_BYTES: usize = 8 << 20;

/// Number of a line, and an event made of it.
type Sent = (u64, Draft);

struct ImportRun<'a> {
    client: &'a Client,
    /// The conversation whose messages or events are separate lines.
    single: Option<Single<'a>>,
    single_name: SessionId,
    /// The source's name, while it may name the session of a transcript.
    name: Option<String>,
    around: Option<&'a dyn Around>,
    report: ImportReport,
    /// Counts of private text removed from the current line.
    taken: Taken,
    /// Lines held until a later line shows if it repeats the text of the first.
    held: VecDeque<HeldLine>,
    results: Results<'a>,
}

/// A line of a transcript that was read and not processed yet.
struct HeldLine {
    number: u64,
    program: Program,
    line: Members,
    text: Box<RawValue>,
    before: String,
    taken: Taken,
}

/// Most lines that are held, and most bytes of them.
const HELD_MAX: usize = 200;
const HELD_BYTES_MAX: usize = 8 << 20;

struct Single<'a> {
    delivery: Delivery<'a>,
    conversation: Conversation,
    /// The session that the transcript names.
    wanted: Option<SessionId>,
    /// The transcript's state, and the directory that its lines name.
    transcript: Option<Transcript>,
    place: Option<String>,
    /// Ids of calls that must not be recorded: their results are left out as well.
    withheld: HashSet<String>,
    drafts: Vec<Sent>,
    bytes: usize,
    understood: Understood,
    /// True if the session's metadata describes the transcript.
    described: bool,
    /// True if a part was refused: later parts are skipped.
    refused: bool,
}

impl<'a> ImportRun<'a> {
    async fn take(&mut self, item: LineItem, line: u64) -> Result<(), ImportError> {
        match item {
            LineItem::Bad(bad) => self.report.bad.push(bad),
            LineItem::Torn => self.report.torn = true,
            LineItem::Good(Content::Conversation { session, about, messages }) => {
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
                if self.accept(line, delivery.session(), sent)? {
                    self.report.records += messages.len() as u64;
                    self.report.sessions.push(delivery.session().clone());
                }
            }
            LineItem::Good(Content::Message(message)) => {
                let members = Members::read(message.get()).unwrap_or_default();
                let make = |conversation: &mut Conversation, understood: &mut Understood| {
                    let drafts = conversation.message(&message);
                    understood.message(&members, &drafts);
                    drafts
                };
                self.collect(line, make).await?;
            }
            LineItem::Good(Content::Event(event)) => {
                let make = |conversation: &mut Conversation, understood: &mut Understood| {
                    let draft = conversation.event(&event);
                    understood.event(&event, &draft);
                    vec![draft]
                };
                self.collect(line, make).await?;
            }
            LineItem::Good(Content::Entry(program, entry, text, before)) => {
                let taken = std::mem::take(&mut self.taken);
                let held = HeldLine { number: line, program, line: entry, text, before, taken };
                self.held.push_back(held);
                self.process_held(false).await?;
            }
        }
        Ok(())
    }

    /// Processes held lines that need no later line; at the end of the source all of them.
    async fn process_held(&mut self, is_end: bool) -> Result<(), ImportError> {
        while let Some(first) = self.held.front() {
            let transcript = self.single.as_ref().and_then(|single| single.transcript.as_ref());
            let leaving = transcript.and_then(|transcript| transcript.leaving(&first.line));
            let repeated = leaving.map(|words| {
                let mut later = self.held.iter().skip(1);
                later.find_map(|held| queue::delivers(&words, &first.line, &held.line))
            });
            let bytes = || self.held.iter().map(|held| held.text.get().len()).sum::<usize>();
            let is_full = || self.held.len() >= HELD_MAX || bytes() >= HELD_BYTES_MAX;
            if repeated == Some(None) && !is_end && !is_full() {
                return Ok(());
            }
            let Some(held) = self.held.pop_front() else { return Ok(()) };
            self.entry(held, repeated.flatten() == Some(true)).await?;
        }
        Ok(())
    }

    /// Processes one line of a program's transcript. No line is dropped: a line without events, or
    /// too large for one event, is stored all the same.
    async fn entry(&mut self, held: HeldLine, is_repeated: bool) -> Result<(), ImportError> {
        let HeldLine { number, program, line, text, before, taken } = held;
        let (line, text) = (&line, text.get());
        self.taken = taken;
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
            // A compaction's kept events are stored as positions, so earlier events are sent first.
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
        if is_repeated {
            transcript.repeat();
        }
        let apart = text.contains(claude::APART).then(|| claude::kept_apart(line)).flatten();
        if let Some(path) = apart {
            match (self.results)(&path) {
                Some(text) => transcript.set_whole_result(text),
                None => self.report.results_missing += 1,
            }
        }
        transcript.note(line, number);
        let mut drafts = transcript.line(line, text, &before);
        single.understood.line(program, line, &drafts);
        single.place = single.place.take().or_else(|| program.directory(line));
        if !self.may_record(&mut single, program, line, &drafts) {
            self.report.kept_out += 1;
            self.single = Some(single);
            return Ok(());
        }
        let at = line.text("timestamp").as_deref().and_then(Timestamp::parse);
        at.into_iter().for_each(|at| single.delivery.note_time(at));
        let session = program.session(line);
        let is_own = single.wanted.as_ref().zip(session).is_none_or(|(own, of)| own.as_str() == of);
        if let Some(transcript) = &mut single.transcript {
            drafts.extend(transcript.reports(Some(line), is_own));
        }
        self.report.records += 1;
        self.keep(single, number, drafts).await
    }

    /// Returns true if a line may be recorded: the rules of hooks also apply to imports.
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

    fn progress(&self, bytes: u64) -> ImportProgress {
        ImportProgress { bytes, events: self.report.added + self.report.known }
    }

    fn bad(&mut self, line: u64, problem: String) {
        self.report.bad.push(BadLine::new(line, problem, None));
    }

    /// Returns true if a conversation was accepted. Rejected content becomes a bad line, and the
    /// import continues.
    fn accept(
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

    /// Processes one line of the source's only conversation. An invalid line is skipped, and later
    /// ids do not depend on it.
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

    /// Collects events, and sends them once there are enough.
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

    /// Sends the collected events; sends no request if there are none.
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
            single.delivery.transcript(transcript.program(), place);
            single.described = true;
        }
        let title = single.transcript.as_ref().and_then(Transcript::title);
        title.into_iter().for_each(|(id, is_name)| single.delivery.entitle(id, is_name));
        if !single.refused {
            let line = drafts.first().map_or(1, |(line, _)| *line);
            let sent = self.send(&mut single.delivery, drafts).await;
            single.refused = !self.accept(line, single.delivery.session(), sent)?;
            let there = single.delivery.session();
            let moved = single.wanted.as_ref().filter(|wanted| *wanted != there);
            self.report.beside = moved.map(|wanted| (wanted.clone(), there.clone()));
        }
        self.single = Some(single);
        Ok(())
    }

    /// Adds the last events: reports of requests, withdrawn ranges, and the text after the last
    /// line if it is unusual or an earlier import stored an empty one.
    async fn end(&mut self, after: &str) -> Result<(), ImportError> {
        if let Some(single) = &mut self.single {
            let reports =
                single.transcript.as_mut().map(|transcript| transcript.reports(None, true));
            single.drafts.extend(reports.into_iter().flatten().map(|draft| (1, draft)));
        }
        self.flush().await?;
        let Some(single) = self.single.as_mut().filter(|single| !single.refused) else {
            return Ok(());
        };
        if let Some(transcript) = &single.transcript {
            let withdrawn = single.delivery.withdrawn(&transcript.withdrawn());
            if !withdrawn.is_empty() || single.delivery.was_rewound() {
                single.drafts.push((1, rewound_event(&withdrawn)));
            }
        }
        let of = |after| single.transcript.as_ref().and_then(|transcript| transcript.end(after));
        let (Some(draft), Some(without)) = (of(after), of("")) else { return Ok(()) };
        if after != transcript::usual_separator(false) || single.delivery.has(&(1, without)).await?
        {
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

    /// Adds the numbers of records of unknown type to the report.
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
        let mut done = Delivered::default();
        let sent = delivery.deliver(drafts, &mut done).await;
        self.report.added += done.added;
        self.report.known += done.known;
        done.bad.into_iter().for_each(|bad| self.report.bad.push(bad));
        sent
    }
}

/// Returns the event that lists the positions withdrawn from the conversation.
fn rewound_event(withdrawn: &[(u64, u64)]) -> Draft {
    let range = |(from, to): &(u64, u64)| format!("{{\"from\":{from},\"to\":{to}}}");
    let ranges = format!("[{}]", withdrawn.iter().map(range).collect::<Vec<_>>().join(","));
    let hash = blake3::hash(ranges.as_bytes()).to_hex().chars().take(24).collect();
    let id = RecordName { name: "rewound-".to_owned(), hash }.part('.', 0);
    let mut body = Object::new();
    body.add("withdrawn", &ranges);
    Draft { named: NamedBy::Content, ..event(&id, kinds::CONTEXT_REWOUND, &body.finish()) }
}

/// Returns the session of a transcript: from the file's name if that is a session id, else from a
/// line. A subagent's own file gets a separate session, named after its parent's.
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
