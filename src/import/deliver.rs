//! Appends the events of one conversation to its session: only those not stored yet, in batches,
//! each durable before the next; never two conversations into one session. It must not read lines.
//!
//! The id of a message depends on all messages before it. So the stored ids form a prefix, whose
//! end is found by bisection, and the session must end there too. The id of a native event or of a
//! transcript's line depends on that event alone: each is stored or missing by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    BadLine, Draft, ImportError, Sent,
    draft::NamedBy,
    members::Members,
    merge::Recorded,
    openai::{About, SHAPE_KEY},
    stored::{Stored, StoredLine},
    transcript::{Program, name_of_line},
};
use crate::{
    api::sessions::{CreateSession, UpdateSession},
    client::{BatchParts, Client, ClientError, Obstacle, SessionWriter, WrittenBatch},
    event::{Range, SessionId, Timestamp, limits, push_bounded},
    verbs::{InSession, NoQuery, sessions},
    wire::{BEGAN_KEY, ENDED_KEY, TAIL_KEY},
};

/// Most retries of a part after another import of the same conversation appended first.
const RACES_MAX: u32 = 5;
/// Metadata key for the types of imported records that are not known.
pub const UNKNOWN_KEY: &str = "import.unknown";
/// A position that no session reaches.
const NEVER: u64 = i64::MAX as u64;
/// Error code for an event that is stored already, with other content or among new events.
const CONFLICT: &str = "idempotency_conflict";
/// Most events whose positions are remembered: a compaction may keep some of the latest.
const PLACED_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Delivered {
    pub(super) added: u64,
    pub(super) known: u64,
    /// Events that were refused.
    pub(super) bad: Vec<BadLine>,
}

pub(super) struct Delivery<'a> {
    client: &'a Client,
    session: SessionId,
    /// The alternative session, used when the first one holds something else.
    beside: Option<SessionId>,
    found: Option<Existing>,
    /// Number of events of this conversation in the session, up to the last one read.
    there: u64,
    /// True if an event was added: later ones cannot be stored already.
    adding: bool,
    /// True if the session was created here.
    is_new: bool,
    /// True if events have independent ids, so that positions cannot be compared.
    native: bool,
    /// The form of lines that an existing session must have for the import to continue it.
    shape: Option<&'static str>,
    title: Title,
    workspace: Option<String>,
    metadata: BTreeMap<String, String>,
    /// Metadata about this import, written to new and existing sessions alike.
    noted: BTreeMap<String, String>,
    /// Events that hooks recorded in the session; read once.
    recorded: Option<Option<Recorded>>,
    /// Ids and positions of the latest events of lines.
    placed: VecDeque<(String, u64)>,
    /// The lines that the session held before, until all are compared.
    stored: Option<Stored>,
    /// The line being compared, and the number of its events compared so far.
    compared: Option<(String, StoredLine, u64)>,
    /// Line numbers of the source, with the positions of the first and last event of each.
    places: Vec<(u64, u64, u64)>,
    /// True if the title's event was recorded to name the transcript.
    is_named: bool,
    /// The position of the event that is to name the session, and the position last sent.
    title_at: (Option<u64>, Option<u64>),
    /// Ranges withdrawn by an earlier import, once the session's lines are compared.
    rewound: Option<Vec<Range>>,
    /// The times of the first and the last event of a transcript.
    times: Option<(Timestamp, Timestamp)>,
    /// The position after the last event.
    tail: u64,
}

/// The title of a session that is created.
enum Title {
    /// The title of the conversation, if it has one.
    Own(Option<String>),
    /// The text of an event, given by the event's id. The server reads the text from the event: a
    /// redaction of the event also removes the title.
    Of(String),
}

/// The session before the import.
enum Existing {
    Absent,
    There { metadata: BTreeMap<String, String>, tail: u64, written: Option<Timestamp> },
}

impl<'a> Delivery<'a> {
    pub(super) fn new(client: &'a Client, session: SessionId) -> Self {
        Self {
            client,
            session,
            beside: None,
            found: None,
            there: 0,
            adding: false,
            is_new: false,
            native: false,
            shape: None,
            title: Title::Own(None),
            workspace: None,
            metadata: BTreeMap::new(),
            noted: BTreeMap::new(),
            recorded: None,
            placed: VecDeque::new(),
            stored: None,
            compared: None,
            places: Vec::new(),
            is_named: false,
            title_at: (None, None),
            rewound: None,
            times: None,
            tail: 0,
        }
    }

    /// Sets the session and its alternative, before the first request.
    pub(super) fn rename(&mut self, session: SessionId, beside: SessionId) {
        (self.session, self.beside) = (session, Some(beside));
    }

    /// Returns the session.
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Sets the title and metadata of a session created for this conversation.
    pub(super) fn describe(&mut self, about: About, drafts: &[Draft]) {
        self.metadata = about.metadata().into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let of = drafts.iter().find(|draft| draft.is_prompt());
        self.title = match (about.title, of) {
            (None, Some(draft)) => Title::Of(draft.id.clone()),
            (title, _) => Title::Own(title),
        };
    }

    /// Sets the transcript's program and its directory.
    pub(super) fn transcript(&mut self, program: Program, place: Option<String>) {
        let about = About::transcript(program);
        self.shape = Some(about.shape());
        self.stored = Some(Stored::new(program));
        self.describe(about, &[]);
        let fits = |place: &String| place.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        self.workspace = place.filter(fits);
    }

    /// Extends the time range of the transcript to the time of a line's events.
    pub(super) fn note_time(&mut self, at: Timestamp) {
        let (first, last) = self.times.unwrap_or((at, at));
        self.times = Some((first.min(at), last.max(at)));
    }

    /// Returns the events of lines that hooks did not record. A transcript of a session that hooks
    /// recorded is imported into that session.
    async fn without_recorded(&mut self, drafts: Vec<Sent>) -> Result<Vec<Sent>, ImportError> {
        if self.shape.is_none() {
            return Ok(drafts);
        }
        if self.recorded.is_none() {
            let is_new = self.look_up().await?;
            let recorded = match &self.found {
                Some(Existing::There { metadata, tail, written }) if !is_new && *tail > 0 => {
                    let has_lines = metadata.contains_key(SHAPE_KEY);
                    let of = Recorded::read(self.client, &self.session, has_lines).await?;
                    of.map(|recorded| (recorded, *written))
                }
                _ => None,
            };
            // The session's last write also bounds the transcript's time range.
            let written = recorded.as_ref().and_then(|(_, written)| *written);
            written.into_iter().for_each(|at| self.note_time(at));
            self.recorded = Some(recorded.map(|(recorded, _)| recorded));
        }
        Ok(match self.recorded.iter_mut().flatten().next() {
            Some(recorded) => recorded.without(drafts),
            None => drafts,
        })
    }

    /// Appends the missing events.
    pub(super) async fn deliver(
        &mut self,
        drafts: Vec<Sent>,
        done: &mut Delivered,
    ) -> Result<(), ImportError> {
        let drafts = self.without_recorded(drafts).await?;
        for part in BatchParts::new(&drafts, bytes) {
            self.native |= part.iter().any(|(_, draft)| draft.named != NamedBy::AllBefore);
            match self.native {
                true => self.deliver_each(part, done).await?,
                false => self.deliver_prefix(part, done).await?,
            }
        }
        Ok(())
    }

    /// Appends events whose ids depend on all before them, if the session ends with those.
    async fn deliver_prefix(
        &mut self,
        drafts: &[Sent],
        done: &mut Delivered,
    ) -> Result<(), ImportError> {
        for _ in 0..RACES_MAX {
            if self.look_up().await? {
                if !self.create(drafts).await? {
                    self.found = None;
                    continue;
                }
                self.count(drafts.len(), 0, done);
                return Ok(());
            }
            let known = if self.adding { 0 } else { self.known(drafts).await? };
            let new = drafts.get(known..).unwrap_or_default();
            if new.is_empty() {
                self.count(0, known, done);
                return Ok(());
            }
            let end = self.there + known as u64;
            // Valid only if the conversation ends the session: no other event is between.
            match self.append(new, Some(end)).await {
                Ok(_) => {
                    self.count(new.len(), known, done);
                    return Ok(());
                }
                Err(error) if error.code() == "position_conflict" => {
                    if !self.adding && self.known(drafts).await? == known {
                        return Err(self.conflict_error());
                    }
                    self.adding = false;
                }
                // Another writer added some of them since the last read.
                Err(error) if error.code() == CONFLICT => self.adding = false,
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.conflict_error())
    }

    fn count(&mut self, added: usize, known: usize, done: &mut Delivered) {
        self.there += (added + known) as u64;
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
    async fn deliver_each(
        &mut self,
        drafts: &[Sent],
        done: &mut Delivered,
    ) -> Result<(), ImportError> {
        self.enter().await?;
        while self.holds_another_shape() {
            let Some(beside) = self.beside.take() else { return Err(self.conflict_error()) };
            (self.session, self.found) = (beside, None);
            self.enter().await?;
        }
        let (others, drafts) = self.compare(drafts, done).await?;
        for events in [&*others, drafts] {
            let mut parts = BatchParts::new(events, bytes);
            while let Some(part) = parts.next() {
                match (self.append(part, None).await, part) {
                    (Ok(appended), _) => {
                        let size = part.len() as u64;
                        done.known += if appended.repeated { size } else { 0 };
                        done.added += if appended.repeated { 0 } else { size };
                        self.adding |= !appended.repeated;
                        self.note_places(part, &appended).await?;
                    }
                    (Err(error), _) if error.obstacle() != Obstacle::Event => {
                        return Err(error.into());
                    }
                    (Err(_), _) if parts.divide(part) => {}
                    // The same line, from another session.
                    (Err(error), [(_, Draft { named: NamedBy::Content, .. })])
                        if error.code() == CONFLICT =>
                    {
                        done.known += 1;
                    }
                    (Err(error), _) => {
                        let line = part.first().map_or(0, |(line, _)| *line);
                        done.bad.push(BadLine::new(line, error.to_string(), None));
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the types of unknown records in the session's metadata, up to the size limit.
    pub(super) fn note_unknown(&mut self, unknown: &BTreeMap<String, u64>) {
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
            self.noted.insert(UNKNOWN_KEY.to_owned(), text);
        }
    }

    /// Compares lines with those that the session holds. Returns the drafts that are not lines, and
    /// the drafts after the last compared line.
    async fn compare<'b>(
        &mut self,
        drafts: &'b [Sent],
        done: &mut Delivered,
    ) -> Result<(Vec<Sent>, &'b [Sent]), ImportError> {
        let mut others = Vec::new();
        let is_empty = matches!(self.found, Some(Existing::There { tail: 0, .. }));
        self.stored.take_if(|_| self.is_new || is_empty);
        for (place, (number, draft)) in drafts.iter().enumerate() {
            let Some(stored) = &mut self.stored else {
                return Ok((others, drafts.get(place..).unwrap_or_default()));
            };
            let Some(hash) = line_hash(draft) else {
                others.push((*number, draft.clone()));
                continue;
            };
            let of = draft.id.rsplit_once('~').map_or(&*draft.id, |(of, _)| of);
            let line = match self.compared.take() {
                Some((known, line, parts)) if known == of || draft.is_part() => {
                    (known, line, parts + 1)
                }
                _ => match stored.next(self.client, &self.session).await? {
                    None => {
                        self.rewound = stored.rewound.take();
                        self.stored = None;
                        return Ok((others, drafts.get(place..).unwrap_or_default()));
                    }
                    Some(line)
                        if line.hash.as_ref().is_none_or(|known| *known == hash)
                            || is_of_resumed(&line.text, draft) =>
                    {
                        (of.to_owned(), line, 0)
                    }
                    Some(_) => return Err(self.rewritten_error(*number)),
                },
            };
            let at = (line.1.first + line.2).min(line.1.last);
            self.place(*number, &draft.id, at, false);
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

    /// Finds the session, or creates it without events.
    pub(super) async fn enter(&mut self) -> Result<(), ImportError> {
        if self.look_up().await? {
            self.create(&[]).await?;
            self.found = None;
            self.look_up().await?;
        }
        Ok(())
    }

    /// Returns true if the session was found or created.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.found, Some(Existing::There { .. }))
    }

    /// Returns true if the session has events that are not from lines of this form.
    fn holds_another_shape(&self) -> bool {
        let (Some(shape), Some(Existing::There { metadata, tail, .. })) = (self.shape, &self.found)
        else {
            return false;
        };
        let is_merged = self.recorded.iter().flatten().next().is_some();
        *tail > 0 && !is_merged && metadata.get(SHAPE_KEY).map(String::as_str) != Some(shape)
    }

    /// Looks up the session; returns true if it must be created.
    async fn look_up(&mut self) -> Result<bool, ImportError> {
        if self.found.is_none() {
            let place = InSession { session: self.session.clone() };
            let found = self.client.call::<sessions::Get>(&place, &NoQuery {}, &()).await;
            self.found = Some(match found {
                Err(error) if error.code() == "session_not_found" => Existing::Absent,
                found => {
                    let found = found?;
                    let written = Timestamp::parse(&found.updated_at);
                    Existing::There { metadata: found.metadata, tail: found.tail, written }
                }
            });
        }
        Ok(matches!(self.found, Some(Existing::Absent)))
    }

    /// Updates the metadata of the session after the last part.
    pub(super) async fn finish(&mut self) -> Result<(), ImportError> {
        self.update_metadata(self.noted.clone()).await?;
        if self.shape.is_some() && (self.is_new || self.adding && self.is_named) {
            self.name().await?;
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

    /// Writes the metadata values of the session that differ.
    async fn update_metadata(&self, pairs: BTreeMap<String, String>) -> Result<(), ImportError> {
        let Some(Existing::There { metadata, .. }) = &self.found else { return Ok(()) };
        let stale: BTreeMap<String, Option<String>> = pairs
            .into_iter()
            .filter(|(name, value)| metadata.get(name) != Some(value))
            .map(|(name, value)| (name, Some(value)))
            .collect();
        if !stale.is_empty() {
            let place = InSession { session: self.session.clone() };
            let change = UpdateSession { metadata: Some(stale), ..UpdateSession::default() };
            self.client.call::<sessions::Update>(&place, &NoQuery {}, &change).await?;
        }
        Ok(())
    }

    /// Creates the session with its first events; returns false if it exists.
    async fn create(&mut self, drafts: &[Sent]) -> Result<bool, ClientError> {
        let (title, title_of) = match &self.title {
            Title::Own(title) => (title.clone(), None),
            Title::Of(id) => (None, drafts.iter().position(|(_, draft)| draft.id == *id)),
        };
        let new = CreateSession {
            title,
            title_of: title_of.map(|at| at as u64),
            metadata: Some(self.metadata.clone()),
            workspace: self.workspace.clone(),
            ..CreateSession::default()
        };
        let is_new = self.writer().create(new, drafts.iter().map(text)).await?;
        if is_new {
            self.is_new = true;
            let (metadata, tail) = (self.metadata.clone(), drafts.len() as u64);
            self.found = Some(Existing::There { metadata, tail, written: None });
        }
        Ok(is_new)
    }

    /// Appends the events at that position, or at the tail if `at` is `None`.
    async fn append(&self, drafts: &[Sent], at: Option<u64>) -> Result<WrittenBatch, ClientError> {
        self.writer().append(drafts.iter().map(text), at, None).await
    }

    fn writer(&self) -> SessionWriter<'_> {
        SessionWriter { origin: Some("import"), ..SessionWriter::new(self.client, &self.session) }
    }

    /// Returns how many of the first events are stored already.
    async fn known(&self, drafts: &[Sent]) -> Result<usize, ClientError> {
        match drafts.last() {
            None => return Ok(0),
            Some(last) if self.has(last).await? => return Ok(drafts.len()),
            Some(_) => {}
        }
        let (mut known, mut unknown) = (0, drafts.len() - 1);
        while known < unknown {
            let middle = known.midpoint(unknown);
            match drafts.get(middle) {
                Some(sent) if self.has(sent).await? => known = middle + 1,
                _ => unknown = middle,
            }
        }
        Ok(known)
    }

    /// Tests if an event is stored. Only the store knows the name that it keeps an event under, so
    /// the event is sent as a retry at a position that the session never reaches.
    pub(super) async fn has(&self, sent: &Sent) -> Result<bool, ClientError> {
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
    async fn note_places(&mut self, drafts: &[Sent], at: &WrittenBatch) -> Result<(), ClientError> {
        for ((number, draft), placed) in drafts.iter().zip(&at.data) {
            self.place(*number, &draft.id, placed.position, true);
        }
        let Title::Of(_) = &self.title else { return Ok(()) };
        if self.is_new && self.title_at.1.is_none() {
            self.name().await?;
        }
        Ok(())
    }

    /// Records the position of an event, and whether it may name the session.
    fn place(&mut self, number: u64, id: &str, at: u64, may_name: bool) {
        self.tail = self.tail.max(at + 1);
        push_bounded(&mut self.placed, (id.to_owned(), at), PLACED_MAX);
        if may_name && matches!(&self.title, Title::Of(of) if of == id) {
            self.title_at.0 = Some(at);
        }
        match self.places.last_mut() {
            _ if !["line-", "raw-"].iter().any(|begin| id.starts_with(begin)) => {}
            Some((line, _, last)) if *line == number => *last = at,
            _ => self.places.push((number, at, at)),
        }
    }

    /// Sets the event that names the session, if it changed.
    async fn name(&mut self) -> Result<(), ClientError> {
        let (wanted, given) = self.title_at;
        let Some(at) = wanted.filter(|_| wanted != given) else { return Ok(()) };
        self.title_at.1 = wanted;
        let place = InSession { session: self.session.clone() };
        let change = UpdateSession { title_of: Some(at), ..UpdateSession::default() };
        self.client.call::<sessions::Update>(&place, &NoQuery {}, &change).await?;
        Ok(())
    }

    /// Selects the event that names the session from now on.
    pub(super) fn entitle(&mut self, id: &str, is_name: bool) {
        self.is_named |= is_name;
        if !matches!(&self.title, Title::Of(of) if of == id) {
            self.title = Title::Of(id.to_owned());
            self.title_at.0 = self.position(id).filter(|_| self.is_new).or(self.title_at.0);
        }
    }

    /// Returns the positions of runs of lines, each from its first line to its last.
    fn ranges_of_lines(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let range = |(first, last): &(u64, u64)| {
            let from = self.places.partition_point(|(line, ..)| line < first);
            let to = self.places.partition_point(|(line, ..)| line <= last);
            let lines = self.places.get(from..to)?;
            Some((lines.first()?.1, lines.last()?.2 + 1))
        };
        runs.iter().filter_map(range).collect()
    }

    /// Returns the positions of withdrawn lines, of the events that hooks recorded of those lines,
    /// and of the ranges that hooks had withdrawn before.
    pub(super) fn withdrawn(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let recorded = self.recorded.iter().flatten().next();
        let before = self.rewound_before().filter(|_| recorded.is_some()).into_iter().flatten();
        let before = before.map(|range| (range.from.0, range.to.0));
        let places =
            runs.iter().flat_map(|run| recorded.into_iter().flat_map(move |by| by.places(*run)));
        let all: BTreeSet<_> = before.chain(places).chain(self.ranges_of_lines(runs)).collect();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in all {
            match joined.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(to),
                None => joined.push((from, to)),
            }
        }
        joined
    }

    fn rewound_before(&self) -> Option<&Vec<Range>> {
        let stored = self.stored.as_ref().and_then(|stored| stored.rewound.as_ref());
        self.rewound.as_ref().or(stored)
    }

    /// Returns true if lines of the session were withdrawn before.
    pub(super) fn was_rewound(&self) -> bool {
        self.rewound_before().is_some()
    }

    fn position(&self, id: &str) -> Option<u64> {
        self.placed.iter().rev().find(|(known, _)| known == id).map(|(_, position)| *position)
    }

    /// Returns the positions of runs of events, where both ends are known.
    pub(super) fn positions(&self, runs: &[(String, String)]) -> Vec<(u64, u64)> {
        let place = |(first, last): &(String, String)| {
            Some((self.position(first)?, self.position(last)? + 1))
        };
        runs.iter().filter_map(place).collect()
    }
}

/// Returns true if an event holds the same line apart from the session id in it: a resumed file
/// repeats the first line under another session id.
fn is_of_resumed(stored: &str, draft: &Draft) -> bool {
    let without_session = |text: &str| {
        let line = Members::read(text).unwrap_or_default();
        let sessions = [Program::ClaudeCode, Program::Codex].map(|program| program.session(&line));
        let sessions = sessions.into_iter().flatten().filter(|session| !session.is_empty());
        sessions.fold(text.to_owned(), |text, session| text.replace(&session, ""))
    };
    let event = Members::read(&draft.text).unwrap_or_default();
    let own = event.non_null("raw").or_else(|| event.non_null("entry"));
    own.is_some_and(|own| without_session(own.get()) == without_session(stored))
}

/// Returns the hash of the line that an event is made of, or holds.
fn line_hash(draft: &Draft) -> Option<String> {
    if draft.id.starts_with("raw-") {
        let event = Members::read(&draft.text).ok()?;
        let text = event.non_null("raw")?.get();
        return Some(name_of_line(&Members::read(text).ok()?, text).1.hash);
    }
    draft.line_hash().map(str::to_owned)
}

fn text((_, draft): &Sent) -> &str {
    &draft.text
}

fn bytes((_, draft): &Sent) -> usize {
    draft.text.len()
}
