//! TRANSCRIPTS: conversion of other programs' conversations to events and back, without loss. An
//! event has the original of its message in `raw`, so that an export is deep-equal to the imported
//! file. It must not open files, print, or locate an owner.

mod anthropic;
mod claude;
mod codex;
mod copied;
mod deliver;
mod draft;
mod fitting;
mod interleave;
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
pub use draft::{EventDraft, IdSource};
pub use interleave::SubagentFile;
pub use lines::{BadLine, CappedList, LINE_BYTES_MAX, LinePlace};
pub use members::JsonMembers;
pub use openai::{ChatFormat, ConversationIds, SHAPE_KEY, to_chat, to_messages};
pub use transcript::{Transcript, TranscriptLines, TranscriptProgram};

use crate::{
    client::{Client, ClientError, RefusalCause},
    event::{SessionId, Timestamp},
    secrets::MaskingReport,
};
use deliver::{DeliveryReport, ImportDelivery};
use interleave::InterleavedLines;
use known::SourceClasses;
use lines::{LineContent, LineItem, ReadLine, SourceLines};

/// Error that stopped an import. Events acknowledged before stay stored; a repeated import adds the
/// others.
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
        /// Id of the session.
        session: SessionId,
        /// The reason.
        other: String,
    },
}

impl ImportError {
    /// Returns true if the error concerns only one conversation, so that others can be imported.
    fn is_about_content(&self) -> bool {
        match self {
            Self::Taken { .. } => true,
            Self::Client(error) => {
                matches!(
                    error.obstacle(),
                    RefusalCause::Event | RefusalCause::Session | RefusalCause::Gone
                )
            }
            Self::Read(_) => false,
        }
    }

    /// Returns true if another source can be imported although this one failed: the store works.
    #[must_use]
    pub fn is_about_source(&self) -> bool {
        match self {
            Self::Client(error) => {
                !matches!(error.obstacle(), RefusalCause::Store | RefusalCause::Caller)
            }
            Self::Taken { .. } | Self::Read(_) => true,
        }
    }

    /// Describes the error and what makes the session accept the import.
    fn describe(&self, session: &SessionId) -> String {
        let Self::Client(ClientError::Refused(refusal)) = self else { return self.to_string() };
        let is_restorable = refusal.action().is_some_and(|action| action.contains("restore"));
        let verb = match &*refusal.code {
            "session_archived" => "unarchive",
            "session_deleted" | "session_expired" if is_restorable => "restore",
            _ => return self.to_string(),
        };
        format!("{self}; `sessionlog {verb} {session}`, then import the file again")
    }
}

/// Maximum left-out lines and conversations, and maximum sessions, that a report lists.
const LEFT_OUT_NAMED_MAX: usize = 20;
const SESSIONS_NAMED_MAX: usize = 10_000;

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Sessions written to or found complete.
    pub sessions: CappedList<SessionId, SESSIONS_NAMED_MAX>,
    /// Number of messages and events read.
    pub records: u64,
    /// Number of events added.
    pub added: u64,
    /// Number of events that were stored already.
    pub known: u64,
    /// Lines left out, each with its reason.
    pub bad: CappedList<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Whole conversations left out.
    pub skipped: CappedList<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Lines that were imported with text replaced, each with the replacement.
    pub mended: CappedList<BadLine, LEFT_OUT_NAMED_MAX>,
    /// Number of results that a transcript keeps in a separate file, which is missing.
    pub results_missing: u64,
    /// Number of lines left out because recording was off at that time or in that directory.
    pub kept_out: u64,
    /// True if the last line of a file was incomplete and left out: its writer had not finished it.
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
pub trait RecordingContext: Send + Sync {
    /// Returns true if a line may be recorded, by its session, time and directory.
    fn may_record(&self, session: &str, at: Option<Timestamp>, directory: Option<&str>) -> bool;
    /// Returns true if a call with that input must not be recorded.
    fn is_excluded(&self, input: &Value, directory: Option<&str>) -> bool;
    /// Returns the workspace of a directory.
    fn workspace(&self, directory: &str) -> Option<String>;
}

/// Source of an import.
pub struct ImportSource<'a> {
    /// JSON lines.
    pub reader: Box<dyn BufRead + Send + 'a>,
    /// Prefix of the ids of conversations without one.
    pub name: String,
    /// The session of a source that holds one conversation without an id.
    pub session: Option<SessionId>,
    /// Transcripts of its subagents: their lines are part of its session.
    pub subagents: Vec<SubagentFile<'a>>,
    /// Reads a result that is kept in a separate file, by the path that a line names.
    pub results: Results<'a>,
    /// Rules for transcripts; none for those that belong to no directory of this machine.
    pub around: Option<&'a dyn RecordingContext>,
}

/// Reads a result by its path; `None` if the file is missing or not next to the source.
pub type Results<'a> = Box<dyn Fn(&str) -> Option<String> + Send + Sync + 'a>;

/// Imports one source; calls `progress` after every acknowledged part.
///
/// # Errors
/// [`ImportError`]; an invalid line is not an error but part of the report.
pub async fn import(
    client: &Client,
    source: ImportSource<'_>,
    progress: &mut (dyn FnMut(ImportProgress) + Send),
) -> Result<ImportReport, ImportError> {
    let mut run = ImportRun {
        client,
        single: None,
        report: ImportReport::default(),
        taken: MaskingReport::default(),
        held: VecDeque::new(),
        results: source.results,
        single_name: source
            .session
            .clone()
            .unwrap_or_else(|| lines::session_id_from(&source.name).0),
        name: source.session.is_none().then(|| source.name.clone()),
        around: source.around,
        subagents: (1..)
            .zip(source.subagents.iter().map(|file| Transcript::for_subagent(&file.id)))
            .collect(),
    };
    let lines = SourceLines::new(source.reader, source.name, source.session);
    let mut lines = InterleavedLines::new(lines, source.subagents)?;
    while let Some(ReadLine { item, place, taken, mended }) = lines.next_line()? {
        run.taken = taken;
        mended.into_iter().for_each(|line| run.report.mended.push(line));
        run.process_item(item, place).await?;
        progress(run.progress(lines.source().bytes_read()));
    }
    run.process_held(true).await?;
    run.send_last_events(lines.source().trailing_text()).await?;
    run.finish().await?;
    progress(run.progress(lines.source().bytes_read()));
    Ok(run.report)
}

/// Maximum events, and maximum bytes, of a conversation that are collected before they are sent.
const PART_EVENTS: usize = 1_000;
const PART_BYTES: usize = 8 << 20;

/// A line, and an event made from it.
type LineDraft = (LinePlace, EventDraft);

/// The first line of a source, for what is about the whole.
const FIRST_LINE: LinePlace = LinePlace { file: 0, number: 1 };

struct ImportRun<'a> {
    client: &'a Client,
    /// The source's only conversation, if its messages or events are separate lines.
    single: Option<SingleImport<'a>>,
    single_name: SessionId,
    /// Name of the source, until the session of a transcript is known.
    name: Option<String>,
    around: Option<&'a dyn RecordingContext>,
    report: ImportReport,
    /// Counts of private text that was removed from the current line.
    taken: MaskingReport,
    /// Lines that wait for a later line, which shows if the first one's queued text was delivered,
    /// or has the time that the first one lacks.
    held: VecDeque<BufferedLine>,
    results: Results<'a>,
    /// States of the subagents' transcripts without lines, by file.
    subagents: BTreeMap<usize, Transcript>,
}

/// A line of a transcript that is not processed yet.
struct BufferedLine {
    place: LinePlace,
    program: TranscriptProgram,
    line: JsonMembers,
    text: Box<RawValue>,
    before: String,
    taken: MaskingReport,
}

/// Maximum lines that are held, and maximum bytes of them.
const HELD_MAX: usize = 200;
const HELD_BYTES_MAX: usize = 8 << 20;

struct SingleImport<'a> {
    delivery: ImportDelivery<'a>,
    conversation: ConversationIds,
    /// Session that the transcript names.
    wanted: Option<SessionId>,
    /// States of the transcript and of its subagents', by file.
    transcripts: BTreeMap<usize, Transcript>,
    /// The first directory that a line names.
    directory: Option<String>,
    /// Ids of calls that must not be recorded: their results are left out as well.
    withheld: HashSet<String>,
    drafts: Vec<LineDraft>,
    bytes: usize,
    seen: SourceClasses,
    /// True if the session's metadata describes the transcript.
    described: bool,
    /// True if a part was refused: later parts are skipped.
    refused: bool,
}

impl<'a> ImportRun<'a> {
    async fn process_item(&mut self, item: LineItem, line: LinePlace) -> Result<(), ImportError> {
        match item {
            LineItem::Bad(bad) => self.report.bad.push(bad),
            LineItem::Torn => self.report.torn = true,
            LineItem::Good(LineContent::Conversation { session, about, messages }) => {
                let mut delivery = ImportDelivery::new(self.client, session);
                let mut conversation = ConversationIds::new();
                let mut drafts = about.field_drafts(&mut conversation);
                let mut seen = SourceClasses::default();
                for message in &messages {
                    let made = conversation.add_message(message);
                    let members = JsonMembers::read(message.get()).unwrap_or_default();
                    seen.classify_message(&members, &made);
                    drafts.extend(made);
                }
                if let Some(problem) = drafts.iter().find_map(EventDraft::problem) {
                    self.report.bad.push(BadLine::new(line, problem, None));
                    return Ok(());
                }
                if let Some(problem) = seen.rejection() {
                    let session = Some(delivery.session().clone());
                    self.report.skipped.push(BadLine::new(line, problem, session));
                    return Ok(());
                }
                self.add_unknown_counts(&seen);
                drafts.iter_mut().take(1).for_each(|first| first.add_redactions(&self.taken));
                delivery.describe(about, &drafts);
                let drafts: Vec<LineDraft> =
                    drafts.into_iter().map(|draft| (line, draft)).collect();
                let sent = match drafts.is_empty() {
                    true => delivery.open_or_create().await,
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
            LineItem::Good(LineContent::Message(message)) => {
                let members = JsonMembers::read(message.get()).unwrap_or_default();
                let make = |conversation: &mut ConversationIds, seen: &mut SourceClasses| {
                    let drafts = conversation.add_message(&message);
                    seen.classify_message(&members, &drafts);
                    drafts
                };
                self.process_record(line, make).await?;
            }
            LineItem::Good(LineContent::Event(event)) => {
                let make = |conversation: &mut ConversationIds, seen: &mut SourceClasses| {
                    let draft = conversation.add_event(&event);
                    seen.classify_event(&event, &draft);
                    vec![draft]
                };
                self.process_record(line, make).await?;
            }
            LineItem::Good(LineContent::Entry(program, entry, text, before)) => {
                let taken = std::mem::take(&mut self.taken);
                let held = BufferedLine { place: line, program, line: entry, text, before, taken };
                self.held.push_back(held);
                self.process_held(false).await?;
            }
        }
        Ok(())
    }

    /// Processes the held lines that need no later line; with `is_end`, all of them.
    async fn process_held(&mut self, is_end: bool) -> Result<(), ImportError> {
        while let Some(first) = self.held.front() {
            let file = first.place.file;
            let transcript = self.single.as_ref().and_then(|single| single.transcripts.get(&file));
            let dequeued =
                transcript.and_then(|transcript| transcript.claude.dequeued_text(&first.line));
            let later = || self.held.iter().skip(1).filter(|held| held.place.file == file);
            let repeated = dequeued.map(|text| {
                later().find_map(|held| queue::is_delivered_by(&text, &first.line, &held.line))
            });
            let is_untimed = transcript.is_none_or(Transcript::is_untimed);
            let is_timed = |held: &&BufferedLine| held.line.time().is_some();
            let timed = (is_untimed && !is_timed(&first)).then(|| later().find(is_timed));
            let lacks_later = repeated == Some(None) || matches!(timed, Some(None));
            let bytes = || self.held.iter().map(|held| held.text.get().len()).sum::<usize>();
            let is_full = || self.held.len() >= HELD_MAX || bytes() >= HELD_BYTES_MAX;
            if lacks_later && !is_end && !is_full() {
                return Ok(());
            }
            let timed = timed.flatten().map(|held| held.line.clone());
            let Some(held) = self.held.pop_front() else { return Ok(()) };
            let mut single = self.single.take().unwrap_or_else(|| self.new_single());
            let transcript = single.transcript(held.place, held.program);
            timed.iter().for_each(|timed| transcript.record_time(timed));
            self.process_transcript_line(single, held, repeated.flatten() == Some(true)).await?;
        }
        Ok(())
    }

    /// Processes one line of a transcript. A line without events, or too large for one event, is
    /// stored too.
    async fn process_transcript_line(
        &mut self,
        mut single: SingleImport<'a>,
        held: BufferedLine,
        is_repeated: bool,
    ) -> Result<(), ImportError> {
        let BufferedLine { place, program, line, text, before, taken } = held;
        let (line, text) = (&line, text.get());
        self.taken = taken;
        // The first line with a session id names the session, unless events were sent before.
        let name = self.name.as_ref().filter(|_| !single.described);
        if let Some(session) = name.and_then(|name| transcript_session(program, name, line)) {
            self.name = None;
            let beside = lines::session_id_from(&format!("{session}.transcript")).0;
            single.delivery.set_sessions(session.clone(), beside);
            single.wanted = Some(session);
        }
        let preserved = single.transcript(place, program).take_preserved(line);
        let kept_lines = single.transcript(place, program).kept_lines(line);
        let keeps = !preserved.is_empty() || !kept_lines.is_empty();
        if keeps && !single.refused {
            // A compaction lists its kept events by position, so earlier events are sent first.
            self.single = Some(single);
            self.flush().await?;
            let Some(returned) = self.single.take() else { return Ok(()) };
            single = returned;
            let kept = match single.refused {
                true => Vec::new(),
                false => {
                    let lines = single.delivery.ranges_of_lines(&kept_lines).into_iter();
                    let mut kept = single.delivery.find_positions(&preserved);
                    kept.extend(lines);
                    kept.sort_unstable();
                    kept
                }
            };
            single.transcript(place, program).set_kept(kept);
        }
        let transcript = single.transcript(place, program);
        if is_repeated {
            transcript.claude.mark_delivered();
        }
        let apart =
            text.contains(claude::PERSISTED).then(|| claude::whole_result_path(line)).flatten();
        if let Some(path) = apart {
            match (self.results)(&path) {
                Some(text) => transcript.apart = Some(text),
                None => self.report.results_missing += 1,
            }
        }
        transcript.record_line(line, place.number);
        let mut drafts = transcript.process_line(line, text, &before);
        single.seen.classify_line(program, line, &drafts);
        single.directory = single.directory.take().or_else(|| program.directory(line));
        if !self.may_record(&mut single, program, line, &drafts) {
            self.report.kept_out += 1;
            self.single = Some(single);
            return Ok(());
        }
        line.time().into_iter().for_each(|at| single.delivery.extend_times(at));
        let session = program.session_id(line);
        let is_own = single.wanted.as_ref().zip(session).is_none_or(|(own, of)| own.as_str() == of);
        drafts.extend(single.transcript(place, program).finished_reports(Some(line), is_own));
        self.report.records += 1;
        self.collect_drafts(single, place, drafts).await
    }

    /// Returns true if the recording rules, which are those of hooks, allow a line.
    fn may_record(
        &self,
        single: &mut SingleImport<'_>,
        program: TranscriptProgram,
        line: &JsonMembers,
        drafts: &[EventDraft],
    ) -> bool {
        let Some(around) = self.around else { return true };
        let session = single.wanted.as_ref().unwrap_or(&self.single_name);
        let directory = program.directory(line).or_else(|| single.directory.clone());
        let directory = directory.as_deref();
        let mut may = around.may_record(session.as_str(), line.time(), directory);
        for draft in drafts {
            let event = JsonMembers::read(&draft.text).unwrap_or_default();
            let Some(call) = event.text("call_id") else { continue };
            let input = event.value("input");
            if input.is_some_and(|input| around.is_excluded(&input, directory)) {
                single.withheld.insert(call.clone());
            }
            may &= !single.withheld.contains(&call);
        }
        may
    }

    fn progress(&self, bytes: u64) -> ImportProgress {
        ImportProgress { bytes, events: self.report.added + self.report.known }
    }

    /// Returns true if a conversation was sent. Rejected content is reported as skipped, and the
    /// import continues.
    fn accept(
        &mut self,
        line: LinePlace,
        session: &SessionId,
        sent: Result<(), ImportError>,
    ) -> Result<bool, ImportError> {
        match sent {
            Ok(()) => Ok(true),
            Err(error) if error.is_about_content() => {
                let problem = error.describe(session);
                self.report.skipped.push(BadLine::new(line, problem, Some(session.clone())));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Processes a message or an event of the source's only conversation. An invalid one is
    /// skipped, and later ids do not depend on it.
    async fn process_record(
        &mut self,
        line: LinePlace,
        draft: impl FnOnce(&mut ConversationIds, &mut SourceClasses) -> Vec<EventDraft>,
    ) -> Result<(), ImportError> {
        let mut single = self.single.take().unwrap_or_else(|| self.new_single());
        let mut conversation = single.conversation.clone();
        let drafts = draft(&mut conversation, &mut single.seen);
        if let Some(problem) = drafts.iter().find_map(EventDraft::problem) {
            self.report.bad.push(BadLine::new(line, problem, None));
            self.single = Some(single);
            return Ok(());
        }
        self.report.records += 1;
        single.conversation = conversation;
        self.collect_drafts(single, line, drafts).await
    }

    /// Collects events, and sends them once the limit of a part is reached.
    async fn collect_drafts(
        &mut self,
        mut single: SingleImport<'a>,
        line: LinePlace,
        mut drafts: Vec<EventDraft>,
    ) -> Result<(), ImportError> {
        drafts.iter_mut().take(1).for_each(|first| first.add_redactions(&self.taken));
        single.bytes += drafts.iter().map(|draft| draft.text.len()).sum::<usize>();
        single.drafts.extend(drafts.into_iter().map(|draft| (line, draft)));
        let full = single.drafts.len() >= PART_EVENTS || single.bytes >= PART_BYTES;
        self.single = Some(single);
        if full { self.flush().await } else { Ok(()) }
    }

    fn new_single(&mut self) -> SingleImport<'a> {
        let mut delivery = ImportDelivery::new(self.client, self.single_name.clone());
        delivery.describe(openai::ConversationFields::for_lines(), &[]);
        SingleImport {
            delivery,
            conversation: ConversationIds::new(),
            wanted: None,
            transcripts: self.subagents.clone(),
            directory: None,
            withheld: HashSet::new(),
            drafts: Vec::new(),
            bytes: 0,
            seen: SourceClasses::default(),
            described: false,
            refused: false,
        }
    }

    /// Sends the collected events; sends no request if there are none.
    async fn flush(&mut self) -> Result<(), ImportError> {
        let has_events = |single: &mut SingleImport<'_>| !single.drafts.is_empty();
        let Some(mut single) = self.single.take_if(has_events) else { return Ok(()) };
        let drafts = std::mem::take(&mut single.drafts);
        single.bytes = 0;
        if let Some(problem) = single.seen.rejection().filter(|_| !single.refused) {
            let session = single.delivery.session().clone();
            self.report.skipped.push(BadLine::new(FIRST_LINE, problem, Some(session)));
            single.refused = true;
        }
        let transcript = single.transcripts.values().next().filter(|_| !single.described);
        if let Some(program) = transcript.map(Transcript::program) {
            let directory = single.directory.clone();
            let workspace = match self.around {
                Some(around) => directory.and_then(|path| around.workspace(&path)),
                None => directory,
            };
            single.delivery.describe_transcript(program, workspace);
            single.described = true;
        }
        let title = single.transcripts.get(&0).and_then(Transcript::title_event);
        title.into_iter().for_each(|(id, is_name)| single.delivery.set_title_event(id, is_name));
        if !single.refused {
            let line = drafts.first().map_or(FIRST_LINE, |(line, _)| *line);
            let sent = self.send(&mut single.delivery, drafts).await;
            single.refused = !self.accept(line, single.delivery.session(), sent)?;
            let session = single.delivery.session();
            let replaced = single.wanted.as_ref().filter(|wanted| *wanted != session);
            self.report.beside = replaced.map(|wanted| (wanted.clone(), session.clone()));
        }
        self.single = Some(single);
        Ok(())
    }

    /// Sends the last events: reports of requests, withdrawn ranges, and the text after the last
    /// line if it is unusual or an earlier import stored that there was none.
    async fn send_last_events(&mut self, after: &str) -> Result<(), ImportError> {
        if let Some(single) = &mut self.single {
            let all = single.transcripts.values_mut();
            let reports = all.flat_map(|transcript| transcript.finished_reports(None, true));
            single.drafts.extend(reports.map(|draft| (FIRST_LINE, draft)));
        }
        self.flush().await?;
        let Some(single) = self.single.as_mut().filter(|single| !single.refused) else {
            return Ok(());
        };
        if let Some(transcript) = single.transcripts.get(&0) {
            let withdrawn = single.delivery.withdrawn_positions(&transcript.withdrawn_lines());
            if !withdrawn.is_empty() || single.delivery.has_earlier_withdrawn() {
                let rewound = transcript.rewound_event(&withdrawn);
                single.drafts.push((FIRST_LINE, rewound));
            }
        }
        let of = |after| single.transcripts.get(&0)?.end_event(after);
        let (Some(draft), Some(without)) = (of(after), of("")) else { return Ok(()) };
        if after != transcript::usual_separator(false)
            || single.delivery.is_stored(&(FIRST_LINE, without)).await?
        {
            single.drafts.push((FIRST_LINE, draft));
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), ImportError> {
        self.flush().await?;
        match &mut self.single {
            Some(single) if !single.refused && single.delivery.has_session() => {
                self.report.sessions.push(single.delivery.session().clone());
                single.delivery.record_unknown_types(single.seen.unknown_types());
                let session = single.delivery.session().clone();
                let seen = std::mem::take(&mut single.seen);
                let finished = single.delivery.finish().await;
                self.add_unknown_counts(&seen);
                self.accept(FIRST_LINE, &session, finished).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Adds the counts of records of unknown type to the report.
    fn add_unknown_counts(&mut self, seen: &SourceClasses) {
        for (name, count) in seen.unknown_types() {
            *self.report.unknown.entry(name.clone()).or_default() += count;
        }
    }

    async fn send(
        &mut self,
        delivery: &mut ImportDelivery<'_>,
        drafts: Vec<LineDraft>,
    ) -> Result<(), ImportError> {
        let mut done = DeliveryReport::default();
        let sent = delivery.deliver(drafts, &mut done).await;
        self.report.added += done.added;
        self.report.known += done.known;
        done.bad.into_iter().for_each(|bad| self.report.bad.push(bad));
        sent
    }
}

impl SingleImport<'_> {
    /// Returns the state of the transcript that a line is from.
    fn transcript(&mut self, line: LinePlace, program: TranscriptProgram) -> &mut Transcript {
        self.transcripts.entry(line.file).or_insert_with(|| Transcript::new(program))
    }
}

/// Returns the session of a transcript: the file's name if that is a session id, else the id in a
/// line.
fn transcript_session(
    program: TranscriptProgram,
    name: &str,
    line: &JsonMembers,
) -> Option<SessionId> {
    let is_id = name.len() == 36 && name.split('-').count() == 5;
    let name = if is_id { name.to_owned() } else { program.session_id(line)? };
    Some(lines::session_id_from(&name).0)
}
