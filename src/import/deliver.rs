//! Appends the events of one conversation to its session: only those not stored yet, in batches,
//! each durable before the next. It must not put two conversations into one session, or read lines.
//!
//! The id of a message depends on all messages before it. So the stored messages form a prefix,
//! whose end is found by bisection, and the session must end there too. The id of a native event or
//! of a transcript's line is independent: each is stored or missing by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    BadLine, EventDraft, FIRST_LINE, ImportError, LineDraft,
    copied::{CopiedReports, reported_message},
    draft::{ASIDE, IdSource},
    members::JsonMembers,
    merge::RecordedEvents,
    openai::{ConversationFields, SHAPE_KEY},
    stored::{StoredLine, StoredLines},
    transcript::{TranscriptProgram, name_of_line},
};
use crate::{
    api::sessions::{CreateSession, UpdateSession},
    client::{
        BatchParts, CLIENT_KEY, Client, ClientError, RefusalCause, SessionWriter, WrittenBatch,
    },
    event::{Range, SessionId, Timestamp, limits, push_bounded},
    verbs::{NoQuery, SessionPath, sessions},
    wire::{BEGAN_KEY, ENDED_KEY, TAIL_KEY},
};

/// Maximum attempts to append a part while another import appends the same conversation.
const RACES_MAX: u32 = 5;
/// Metadata key for the unknown types of imported records, with their counts.
pub const UNKNOWN_KEY: &str = "import.unknown";
/// A position that no session reaches.
const NEVER: u64 = i64::MAX as u64;
/// Error code for an event whose id is stored with other content, or in a batch with new events.
const CONFLICT: &str = "idempotency_conflict";
/// Maximum events whose positions are kept in memory: a compaction may name recent ones.
const RECENT_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct DeliveryReport {
    pub(super) added: u64,
    pub(super) known: u64,
    /// Events that were refused.
    pub(super) bad: Vec<BadLine>,
}

pub(super) struct ImportDelivery<'a> {
    client: &'a Client,
    session: SessionId,
    /// The session to use instead if the first one has other events.
    alternative: Option<SessionId>,
    found: Option<ExistingSession>,
    /// Number of events of this conversation that are in the session so far.
    stored_count: u64,
    /// True if an event was added: later events cannot be stored already.
    adding: bool,
    /// True if this import created the session.
    is_new: bool,
    /// True if events have independent ids, so that positions cannot be compared.
    native: bool,
    /// For a transcript, the shape that an existing session must have to be continued.
    shape: Option<&'static str>,
    title: NewTitle,
    workspace: Option<String>,
    metadata: BTreeMap<String, String>,
    /// Metadata about this import, written to new and existing sessions alike.
    import_metadata: BTreeMap<String, String>,
    /// Events that hooks recorded in the session; read once.
    recorded: Option<Option<RecordedEvents>>,
    /// Requests that other sessions report; read before the first report.
    copied: Option<CopiedReports>,
    /// Ids and positions of the latest events.
    recent: VecDeque<(String, u64)>,
    /// The lines that the session had before this import, until all are compared.
    stored: Option<StoredLines>,
    /// The line being compared, and the number of its events compared so far.
    compared: Option<(String, StoredLine, u64)>,
    /// Lines by number, each with the positions of its first and last event.
    line_positions: Vec<(u64, u64, u64)>,
    /// True if an existing session may get a title: it has none, or the transcript names itself.
    may_name: bool,
    /// Position of the event that has the title, and the position last sent to the server.
    title_at: (Option<u64>, Option<u64>),
    /// Ranges that an earlier import withdrew; set once the stored lines are compared.
    rewound: Option<Vec<Range>>,
    /// Times of the first and the last event of a transcript.
    times: Option<(Timestamp, Timestamp)>,
    /// Position after the last event of this conversation.
    tail: u64,
}

/// The title of a session that is created.
enum NewTitle {
    /// The title in the source, if it has one.
    Text(Option<String>),
    /// The id of an event: the server takes the title from its text, so that a redaction of the
    /// event also removes the title.
    OfEvent(String),
}

/// State of the session on the server before the import.
enum ExistingSession {
    Absent,
    Present { metadata: BTreeMap<String, String>, tail: u64, written: Option<Timestamp> },
}

impl<'a> ImportDelivery<'a> {
    pub(super) fn new(client: &'a Client, session: SessionId) -> Self {
        Self {
            client,
            session,
            alternative: None,
            found: None,
            stored_count: 0,
            adding: false,
            is_new: false,
            native: false,
            shape: None,
            title: NewTitle::Text(None),
            workspace: None,
            metadata: BTreeMap::new(),
            import_metadata: BTreeMap::new(),
            recorded: None,
            copied: None,
            recent: VecDeque::new(),
            stored: None,
            compared: None,
            line_positions: Vec::new(),
            may_name: false,
            title_at: (None, None),
            rewound: None,
            times: None,
            tail: 0,
        }
    }

    /// Sets the session and its alternative, before the first request.
    pub(super) fn set_sessions(&mut self, session: SessionId, alternative: SessionId) {
        (self.session, self.alternative) = (session, Some(alternative));
    }

    /// Returns the session that the events are appended to.
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Sets the title and metadata of a session created for this conversation.
    pub(super) fn describe(&mut self, about: ConversationFields, drafts: &[EventDraft]) {
        self.metadata = about.metadata().into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let of = drafts.iter().find(|draft| draft.is_prompt());
        self.title = match (about.title, of) {
            (None, Some(draft)) => NewTitle::OfEvent(draft.id.clone()),
            (title, _) => NewTitle::Text(title),
        };
    }

    /// Sets the program and the workspace directory of a transcript.
    pub(super) fn describe_transcript(
        &mut self,
        program: TranscriptProgram,
        directory: Option<String>,
    ) {
        let about = ConversationFields::for_transcript(program);
        self.shape = Some(about.shape());
        self.stored = Some(StoredLines::new(program));
        self.describe(about, &[]);
        let fits = |path: &String| path.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        self.workspace = directory.filter(fits);
    }

    /// Extends the time range of the transcript to include `at`.
    pub(super) fn extend_times(&mut self, at: Timestamp) {
        let (first, last) = self.times.unwrap_or((at, at));
        self.times = Some((first.min(at), last.max(at)));
    }

    /// Removes the events that hooks recorded: a transcript of a session that hooks recorded is
    /// imported into that session.
    async fn remove_recorded(
        &mut self,
        drafts: Vec<LineDraft>,
    ) -> Result<Vec<LineDraft>, ImportError> {
        if self.shape.is_none() {
            return Ok(drafts);
        }
        if self.recorded.is_none() {
            let is_new = self.find_session().await?;
            let recorded = match &self.found {
                Some(ExistingSession::Present { metadata, tail, written })
                    if !is_new && *tail > 0 =>
                {
                    let has_lines = metadata.contains_key(SHAPE_KEY);
                    let of = RecordedEvents::read(self.client, &self.session, has_lines).await?;
                    of.map(|recorded| (recorded, *written))
                }
                _ => None,
            };
            // The session's last write also bounds the transcript's time range.
            let written = recorded.as_ref().and_then(|(_, written)| *written);
            written.into_iter().for_each(|at| self.extend_times(at));
            self.recorded = Some(recorded.map(|(recorded, _)| recorded));
        }
        Ok(match self.recorded.iter_mut().flatten().next() {
            Some(recorded) => recorded.remove_recorded(drafts),
            None => drafts,
        })
    }

    /// Removes the reports of requests that another session has.
    async fn remove_copied(&mut self, drafts: &mut Vec<LineDraft>) -> Result<(), ImportError> {
        let is_report = |(_, draft): &LineDraft| reported_message(draft).is_some();
        let Some((began, _)) = self.times.filter(|_| drafts.iter().any(is_report)) else {
            return Ok(());
        };
        let copied = match self.copied.take() {
            Some(copied) => copied,
            None => CopiedReports::read(self.client, &self.session, began).await?,
        };
        self.copied.insert(copied).remove_from(drafts);
        Ok(())
    }

    /// Appends the events that the session does not have.
    pub(super) async fn deliver(
        &mut self,
        drafts: Vec<LineDraft>,
        done: &mut DeliveryReport,
    ) -> Result<(), ImportError> {
        let mut drafts = self.remove_recorded(drafts).await?;
        self.remove_copied(&mut drafts).await?;
        for part in BatchParts::new(&drafts, draft_bytes) {
            self.native |= part.iter().any(|(_, draft)| draft.named != IdSource::AllBefore);
            match self.native {
                true => self.deliver_independent(part, done).await?,
                false => self.deliver_prefix(part, done).await?,
            }
        }
        Ok(())
    }

    /// Appends events whose ids depend on all before them, if the session ends with those.
    async fn deliver_prefix(
        &mut self,
        drafts: &[LineDraft],
        done: &mut DeliveryReport,
    ) -> Result<(), ImportError> {
        for _ in 0..RACES_MAX {
            if self.find_session().await? {
                if !self.create(drafts).await? {
                    self.found = None;
                    continue;
                }
                self.add_counts(drafts.len(), 0, done);
                return Ok(());
            }
            let known = if self.adding { 0 } else { self.count_stored(drafts).await? };
            let new = drafts.get(known..).unwrap_or_default();
            if new.is_empty() {
                self.add_counts(0, known, done);
                return Ok(());
            }
            let end = self.stored_count + known as u64;
            // Valid only if the conversation ends the session: no other event is between.
            match self.append(new, Some(end)).await {
                Ok(_) => {
                    self.add_counts(new.len(), known, done);
                    return Ok(());
                }
                Err(error) if error.code() == "position_conflict" => {
                    if !self.adding && self.count_stored(drafts).await? == known {
                        return Err(self.conflict_error());
                    }
                    self.adding = false;
                }
                // Another writer added some of the events since the last read.
                Err(error) if error.code() == CONFLICT => self.adding = false,
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.conflict_error())
    }

    fn add_counts(&mut self, added: usize, known: usize, done: &mut DeliveryReport) {
        self.stored_count += (added + known) as u64;
        self.adding |= added > 0;
        done.added += added as u64;
        done.known += known as u64;
    }

    fn conflict_error(&self) -> ImportError {
        let other = "it holds other events than this conversation; nothing of it was changed. To \
                     keep both, name another session with --session, or give the conversation \
                     another id"
            .to_owned();
        ImportError::Taken { session: self.session.clone(), other }
    }

    /// Appends events with independent ids: together when all are new or all are stored, otherwise
    /// in halves.
    async fn deliver_independent(
        &mut self,
        drafts: &[LineDraft],
        done: &mut DeliveryReport,
    ) -> Result<(), ImportError> {
        self.open_or_create().await?;
        while self.holds_another_shape() {
            let Some(alternative) = self.alternative.take() else {
                return Err(self.conflict_error());
            };
            (self.session, self.found) = (alternative, None);
            self.open_or_create().await?;
        }
        let (others, drafts) = self.compare_lines(drafts, done).await?;
        for events in [&*others, drafts] {
            let mut parts = BatchParts::new(events, draft_bytes);
            while let Some(part) = parts.next() {
                match (self.append(part, None).await, part) {
                    (Ok(appended), _) => {
                        let size = part.len() as u64;
                        done.known += if appended.repeated { size } else { 0 };
                        done.added += if appended.repeated { 0 } else { size };
                        self.adding |= !appended.repeated;
                        self.record_positions(part, &appended).await?;
                    }
                    (Err(error), _) if error.obstacle() != RefusalCause::Event => {
                        return Err(error.into());
                    }
                    (Err(_), _) if parts.divide(part) => {}
                    // The same line, from another session.
                    (Err(error), [(_, EventDraft { named: IdSource::Content, .. })])
                        if error.code() == CONFLICT =>
                    {
                        done.known += 1;
                    }
                    (Err(error), _) => {
                        let line = part.first().map_or(FIRST_LINE, |(line, _)| *line);
                        done.bad.push(BadLine::new(line, error.to_string(), None));
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the types of unknown records in the session's metadata, up to the size limit.
    pub(super) fn record_unknown_types(&mut self, unknown: &BTreeMap<String, u64>) {
        let mut text = String::new();
        for (name, count) in unknown {
            let one = format!("{count} {name}");
            if text.chars().count() + one.chars().count() + 2 > limits::METADATA_VALUE_CHARS_MAX {
                break;
            }
            let comma = if text.is_empty() { "" } else { ", " };
            text.push_str(&format!("{comma}{one}"));
        }
        if !text.is_empty() {
            self.import_metadata.insert(UNKNOWN_KEY.to_owned(), text);
        }
    }

    /// Compares drafts with the stored lines. Returns the drafts that are not from lines, and the
    /// drafts after the last stored line.
    async fn compare_lines<'b>(
        &mut self,
        drafts: &'b [LineDraft],
        done: &mut DeliveryReport,
    ) -> Result<(Vec<LineDraft>, &'b [LineDraft]), ImportError> {
        let mut others = Vec::new();
        let is_empty = matches!(self.found, Some(ExistingSession::Present { tail: 0, .. }));
        self.stored.take_if(|_| self.is_new || is_empty);
        for (index, (place, draft)) in drafts.iter().enumerate() {
            let Some(stored) = &mut self.stored else {
                return Ok((others, drafts.get(index..).unwrap_or_default()));
            };
            let Some(hash) = line_hash(draft) else {
                others.push((*place, draft.clone()));
                continue;
            };
            let of = draft.id.rsplit_once('~').map_or(&*draft.id, |(of, _)| of);
            let line = match self.compared.take() {
                Some((known, line, parts)) if known == of || draft.is_part() => {
                    (known, line, parts + 1)
                }
                _ => match stored.next_line(self.client, &self.session).await? {
                    None => {
                        self.rewound = stored.rewound.take();
                        self.stored = None;
                        return Ok((others, drafts.get(index..).unwrap_or_default()));
                    }
                    Some(line)
                        if line.hash.as_ref().is_none_or(|known| *known == hash)
                            || is_same_line(&line.text, draft) =>
                    {
                        (of.to_owned(), line, 0)
                    }
                    Some(_) => return Err(self.rewritten_error(place.number)),
                },
            };
            let at = (line.1.first + line.2).min(line.1.last);
            self.record_position(place.number, &draft.id, at, false);
            self.compared = Some(line);
            done.known += 1;
        }
        Ok((others, &[]))
    }

    fn rewritten_error(&self, number: u64) -> ImportError {
        let other = format!(
            "the file was rewritten: its line {number} is not the one that was imported; nothing \
             was changed. To have the file as it is now, name another session with --session, or \
             delete this one and import again"
        );
        ImportError::Taken { session: self.session.clone(), other }
    }

    /// Finds the session, or creates it empty.
    pub(super) async fn open_or_create(&mut self) -> Result<(), ImportError> {
        if self.find_session().await? {
            self.create(&[]).await?;
            self.found = None;
            self.find_session().await?;
        }
        Ok(())
    }

    /// Returns true if the session was found or created.
    pub(super) fn has_session(&self) -> bool {
        matches!(self.found, Some(ExistingSession::Present { .. }))
    }

    /// Returns true if the session has events that are not from lines of this program.
    fn holds_another_shape(&self) -> bool {
        let (Some(shape), Some(ExistingSession::Present { metadata, tail, .. })) =
            (self.shape, &self.found)
        else {
            return false;
        };
        let is_merged = self.recorded.iter().flatten().next().is_some();
        *tail > 0 && !is_merged && metadata.get(SHAPE_KEY).map(String::as_str) != Some(shape)
    }

    /// Fetches the session, once; returns true if it does not exist.
    async fn find_session(&mut self) -> Result<bool, ImportError> {
        if self.found.is_none() {
            let place = SessionPath { session: self.session.clone() };
            let found = self.client.call::<sessions::GetSession>(&place, &NoQuery {}, &()).await;
            self.found = Some(match found {
                Err(error) if error.code() == "session_not_found" => ExistingSession::Absent,
                found => {
                    let found = found?;
                    let written = Timestamp::parse(&found.updated_at);
                    // A subagent's file that was imported alone gave its session no title.
                    self.may_name |= found.title.is_none();
                    let client = self.metadata.get_key_value(CLIENT_KEY);
                    let client = client.filter(|_| !found.metadata.contains_key(CLIENT_KEY));
                    let client = client.map(|(key, program)| (key.clone(), program.clone()));
                    self.import_metadata.extend(client);
                    ExistingSession::Present { metadata: found.metadata, tail: found.tail, written }
                }
            });
        }
        Ok(matches!(self.found, Some(ExistingSession::Absent)))
    }

    /// Updates title and metadata of the session after the last part.
    pub(super) async fn finish(&mut self) -> Result<(), ImportError> {
        self.update_metadata(self.import_metadata.clone()).await?;
        if self.shape.is_some() && (self.is_new || self.adding && self.may_name) {
            self.update_title().await?;
        }
        if let Some((began, ended)) = self.times.filter(|_| self.shape.is_some()) {
            let (began, ended, tail) =
                (began.to_string(), ended.to_string(), self.tail.to_string());
            let pairs = [(BEGAN_KEY, began), (ENDED_KEY, ended), (TAIL_KEY, tail)];
            return self
                .update_metadata(pairs.map(|(name, value)| (name.to_owned(), value)).into())
                .await;
        }
        if self.native {
            return Ok(());
        }
        self.update_metadata(self.metadata.clone()).await
    }

    /// Writes the metadata values that differ from the session's.
    async fn update_metadata(&self, pairs: BTreeMap<String, String>) -> Result<(), ImportError> {
        let Some(ExistingSession::Present { metadata, .. }) = &self.found else { return Ok(()) };
        let stale: BTreeMap<String, Option<String>> = pairs
            .into_iter()
            .filter(|(name, value)| metadata.get(name) != Some(value))
            .map(|(name, value)| (name, Some(value)))
            .collect();
        if !stale.is_empty() {
            let place = SessionPath { session: self.session.clone() };
            let change = UpdateSession { metadata: Some(stale), ..UpdateSession::default() };
            self.client.call::<sessions::Update>(&place, &NoQuery {}, &change).await?;
        }
        Ok(())
    }

    /// Creates the session with its first events; returns false if it exists already.
    async fn create(&mut self, drafts: &[LineDraft]) -> Result<bool, ClientError> {
        let (title, title_of) = match &self.title {
            NewTitle::Text(title) => (title.clone(), None),
            NewTitle::OfEvent(id) => (None, drafts.iter().position(|(_, draft)| draft.id == *id)),
        };
        let new = CreateSession {
            title,
            title_of: title_of.map(|at| at as u64),
            metadata: Some(self.metadata.clone()),
            workspace: self.workspace.clone(),
            ..CreateSession::default()
        };
        let is_new = self.writer().create(new, drafts.iter().map(draft_text)).await?;
        if is_new {
            self.is_new = true;
            let (metadata, tail) = (self.metadata.clone(), drafts.len() as u64);
            self.found = Some(ExistingSession::Present { metadata, tail, written: None });
        }
        Ok(is_new)
    }

    /// Appends the events at position `at`, or at the tail if it is `None`.
    async fn append(
        &self,
        drafts: &[LineDraft],
        at: Option<u64>,
    ) -> Result<WrittenBatch, ClientError> {
        self.writer().append(drafts.iter().map(draft_text), at, None).await
    }

    fn writer(&self) -> SessionWriter<'_> {
        SessionWriter { origin: Some("import"), ..SessionWriter::new(self.client, &self.session) }
    }

    /// Counts the events at the start of `drafts` that are stored already.
    async fn count_stored(&self, drafts: &[LineDraft]) -> Result<usize, ClientError> {
        match drafts.last() {
            None => return Ok(0),
            Some(last) if self.is_stored(last).await? => return Ok(drafts.len()),
            Some(_) => {}
        }
        let (mut known, mut unknown) = (0, drafts.len() - 1);
        while known < unknown {
            let middle = known.midpoint(unknown);
            match drafts.get(middle) {
                Some(sent) if self.is_stored(sent).await? => known = middle + 1,
                _ => unknown = middle,
            }
        }
        Ok(known)
    }

    /// Returns true if an event is stored. Only the store knows the id that it gave the event, so
    /// the event is sent as a retry at a position that no session reaches.
    pub(super) async fn is_stored(&self, sent: &LineDraft) -> Result<bool, ClientError> {
        match self.append(std::slice::from_ref(sent), Some(NEVER)).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == CONFLICT => Ok(true),
            Err(error)
                if error.code() == "position_conflict" || error.code() == "session_not_found" =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Records the positions of appended events, and updates the session's title if needed.
    async fn record_positions(
        &mut self,
        drafts: &[LineDraft],
        at: &WrittenBatch,
    ) -> Result<(), ClientError> {
        for ((place, draft), stored) in drafts.iter().zip(&at.data) {
            self.record_position(place.number, &draft.id, stored.position, true);
        }
        let NewTitle::OfEvent(_) = &self.title else { return Ok(()) };
        if self.is_new && self.title_at.1.is_none() {
            self.update_title().await?;
        }
        Ok(())
    }

    /// Records the position of an event; with `may_name` it may become the title's position.
    fn record_position(&mut self, number: u64, id: &str, at: u64, may_name: bool) {
        self.tail = self.tail.max(at + 1);
        if id.starts_with(ASIDE) {
            return;
        }
        push_bounded(&mut self.recent, (id.to_owned(), at), RECENT_MAX);
        if may_name && matches!(&self.title, NewTitle::OfEvent(of) if of == id) {
            self.title_at.0 = Some(at);
        }
        match self.line_positions.last_mut() {
            _ if !["line-", "raw-"].iter().any(|begin| id.starts_with(begin)) => {}
            Some((line, _, last)) if *line == number => *last = at,
            _ => self.line_positions.push((number, at, at)),
        }
    }

    /// Sends the position of the title's event to the server, if it changed.
    async fn update_title(&mut self) -> Result<(), ClientError> {
        let (wanted, given) = self.title_at;
        let Some(at) = wanted.filter(|_| wanted != given) else { return Ok(()) };
        self.title_at.1 = wanted;
        let place = SessionPath { session: self.session.clone() };
        let change = UpdateSession { title_of: Some(at), ..UpdateSession::default() };
        self.client.call::<sessions::Update>(&place, &NoQuery {}, &change).await?;
        Ok(())
    }

    /// Selects the event whose text is the title from now on.
    pub(super) fn set_title_event(&mut self, id: &str, is_name: bool) {
        self.may_name |= is_name;
        if !matches!(&self.title, NewTitle::OfEvent(of) if of == id) {
            self.title = NewTitle::OfEvent(id.to_owned());
            self.title_at.0 = self.find_position(id).filter(|_| self.is_new).or(self.title_at.0);
        }
    }

    /// Returns the positions of runs of lines, each given by its first and last line number.
    pub(super) fn ranges_of_lines(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let range = |(first, last): &(u64, u64)| {
            let from = self.line_positions.partition_point(|(line, ..)| line < first);
            let to = self.line_positions.partition_point(|(line, ..)| line <= last);
            let lines = self.line_positions.get(from..to)?;
            Some((lines.first()?.1, lines.last()?.2 + 1))
        };
        runs.iter().filter_map(range).collect()
    }

    /// Returns the positions of withdrawn lines: of their events, of the events that hooks recorded
    /// of them, and of ranges that hooks withdrew before.
    pub(super) fn withdrawn_positions(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let recorded = self.recorded.iter().flatten().next();
        let before = self.earlier_withdrawn().filter(|_| recorded.is_some()).into_iter().flatten();
        let before = before.map(|range| (range.from.0, range.to.0));
        let recorded_positions = runs
            .iter()
            .flat_map(|run| recorded.into_iter().flat_map(move |by| by.positions_of_lines(*run)));
        let all: BTreeSet<_> =
            before.chain(recorded_positions).chain(self.ranges_of_lines(runs)).collect();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in all {
            match joined.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(to),
                None => joined.push((from, to)),
            }
        }
        joined
    }

    fn earlier_withdrawn(&self) -> Option<&Vec<Range>> {
        let stored = self.stored.as_ref().and_then(|stored| stored.rewound.as_ref());
        self.rewound.as_ref().or(stored)
    }

    /// Returns true if the session has a rewind event from before this import.
    pub(super) fn has_earlier_withdrawn(&self) -> bool {
        self.earlier_withdrawn().is_some()
    }

    fn find_position(&self, id: &str) -> Option<u64> {
        self.recent.iter().rev().find(|(known, _)| known == id).map(|(_, position)| *position)
    }

    /// Returns the positions of runs of events, given by ids; a run with an unknown id is omitted.
    pub(super) fn find_positions(&self, runs: &[(String, String)]) -> Vec<(u64, u64)> {
        let range = |(first, last): &(String, String)| {
            Some((self.find_position(first)?, self.find_position(last)? + 1))
        };
        runs.iter().filter_map(range).collect()
    }
}

/// Returns true if an event has the same line except for the session id: a resumed file repeats the
/// first line with another session id.
fn is_same_line(stored: &str, draft: &EventDraft) -> bool {
    let without_session = |text: &str| {
        let line = JsonMembers::read(text).unwrap_or_default();
        let sessions = [TranscriptProgram::ClaudeCode, TranscriptProgram::Codex]
            .map(|program| program.session_id(&line));
        let sessions = sessions.into_iter().flatten().filter(|session| !session.is_empty());
        sessions.fold(text.to_owned(), |text, session| text.replace(&session, ""))
    };
    let event = JsonMembers::read(&draft.text).unwrap_or_default();
    let own = event.non_null("raw").or_else(|| event.non_null("entry"));
    own.is_some_and(|own| without_session(own.get()) == without_session(stored))
}

/// Returns the hash of the line that an event was made from.
fn line_hash(draft: &EventDraft) -> Option<String> {
    if draft.id.starts_with("raw-") {
        let event = JsonMembers::read(&draft.text).ok()?;
        let text = event.non_null("raw")?.get();
        return Some(name_of_line(&JsonMembers::read(text).ok()?, text).1.hash);
    }
    draft.line_hash().map(str::to_owned)
}

fn draft_text((_, draft): &LineDraft) -> &str {
    &draft.text
}

fn draft_bytes((_, draft): &LineDraft) -> usize {
    draft.text.len()
}
