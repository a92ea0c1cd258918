//! Events of one conversation into their session: only those that are not there, in batches, each
//! durable before the next, and never two conversations into one session. It must not read lines.
//!
//! The id of a message depends on everything before it. So the stored ids of a conversation form a
//! prefix, whose end is found by bisection, and the session must end there too. The id of a native
//! event or of a program's line depends on that event alone: each is stored or not by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::json;

use super::{
    BadLine, Draft, ImportError, Sent,
    draft::Named,
    members::Members,
    merge::Recorded,
    openai::{About, SHAPE_KEY},
    stored::{Stored, StoredLine},
    transcript::{Program, name_of_line},
};
use crate::{
    api::sessions::UpdateSession,
    client::{Client, ClientError, Request, session_path},
    event::{Range, SessionId, Timestamp, limits},
    verbs::{InSession, NoQuery, Verb as _, sessions},
    wire::{BEGAN_KEY, ENDED_KEY, TAIL_KEY},
};

/// Most retries of a part after another import of the same conversation was faster.
const RACES_MAX: u32 = 5;
/// Room in a request besides the events.
const BATCH_BYTES: usize = limits::BATCH_BYTES_MAX - (64 << 10);
/// Metadata with the types of imported records that are not known.
pub const UNKNOWN_KEY: &str = "import.unknown";
/// A position that no session reaches.
const NEVER: u64 = i64::MAX as u64;
/// Events whose positions are remembered: a compaction may keep some of the latest.
const PLACED_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) added: u64,
    pub(super) known: u64,
    /// Events that were refused.
    pub(super) bad: Vec<BadLine>,
}

pub(super) struct Delivery<'a> {
    client: &'a Client,
    session: SessionId,
    /// The session to use when this one holds something else.
    beside: Option<SessionId>,
    found: Option<Existing>,
    /// Events of this conversation in the session, up to the last one read.
    there: u64,
    /// True if an event was added: later ones cannot be stored already.
    adding: bool,
    /// True if the session was created here.
    is_new: bool,
    /// True if events have ids of their own, so that positions cannot be compared.
    native: bool,
    /// The form of lines that a continued session must have.
    shape: Option<&'static str>,
    title: Title,
    workspace: Option<String>,
    metadata: BTreeMap<String, String>,
    /// Metadata of the session about this import, whatever the session was before.
    noted: BTreeMap<String, String>,
    /// Events that hooks recorded of the session; looked up once.
    recorded: Option<Option<Recorded>>,
    /// Ids and positions of the latest events of lines.
    placed: VecDeque<(String, u64)>,
    /// The lines that the session had before, until they are compared.
    stored: Option<Stored>,
    /// The line being compared, and how many of its events were.
    compared: Option<(String, StoredLine, u64)>,
    /// Lines of the source, and the positions of the first and last event of each.
    places: Vec<(u64, u64, u64)>,
    /// True if the event of the title was made to name the transcript.
    is_named: bool,
    /// The position that names the session, and the one that it was named by.
    title_at: (Option<u64>, Option<u64>),
    /// Ranges withdrawn before, when the session has lines.
    rewound: Option<Vec<Range>>,
    /// The times of the first and the last event of a transcript.
    times: Option<(Timestamp, Timestamp)>,
    /// The position behind the last event.
    tail: u64,
}

/// The title of a session that is created.
enum Title {
    /// That of the conversation, if it has one.
    Own(Option<String>),
    /// The words of an event, by its id. The server reads them there: what becomes of the event
    /// becomes of the title.
    Of(String),
}

/// The session before the import.
enum Existing {
    Absent,
    There { metadata: BTreeMap<String, String>, tail: u64, written: Option<Timestamp> },
}

/// Cuts events into what one batch may hold, in order; no part is empty.
pub(super) fn parts(drafts: &[Sent]) -> Vec<&[Sent]> {
    let mut parts = Vec::new();
    let mut rest = drafts;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest
            .iter()
            .take(limits::BATCH_EVENTS_MAX)
            .take_while(|draft| {
                bytes += draft.1.text.len() + 1;
                bytes <= BATCH_BYTES
            })
            .count();
        // A single event may be too large; the owner's error is better than one from here.
        let (part, after) = rest.split_at(fits.max(1));
        parts.push(part);
        rest = after;
    }
    parts
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

    /// Renames the session and its alternative, before the first request.
    pub(super) fn rename(&mut self, session: SessionId, beside: SessionId) {
        (self.session, self.beside) = (session, Some(beside));
    }

    /// The session.
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

    /// Sets the transcript's program, and its directory.
    pub(super) fn transcript(&mut self, program: Program, place: Option<String>) {
        let about = About::transcript(program);
        self.shape = Some(about.shape());
        self.stored = Some(Stored::new(program));
        self.describe(about, &[]);
        let fits = |place: &String| place.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        self.workspace = place.filter(fits);
    }

    /// Notes when the events of a line were.
    pub(super) fn note_time(&mut self, at: Timestamp) {
        let (first, last) = self.times.unwrap_or((at, at));
        self.times = Some((first.min(at), last.max(at)));
    }

    /// The events of lines that hooks did not record: where they recorded the session, its
    /// transcript goes into it.
    pub(super) async fn merged(&mut self, drafts: Vec<Sent>) -> Result<Vec<Sent>, ImportError> {
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
            // It is as new as what was recorded as it happened.
            let written = recorded.as_ref().and_then(|(_, written)| *written);
            written.into_iter().for_each(|at| self.note_time(at));
            self.recorded = Some(recorded.map(|(recorded, _)| recorded));
        }
        Ok(match self.recorded.iter_mut().flatten().next() {
            Some(recorded) => recorded.without(drafts),
            None => drafts,
        })
    }

    /// Appends the missing events of one part.
    pub(super) async fn deliver(&mut self, drafts: &[Sent]) -> Result<Done, ImportError> {
        self.native |= drafts.iter().any(|(_, draft)| draft.named != Named::ByAllBefore);
        if self.native {
            return self.deliver_each(drafts).await;
        }
        for _ in 0..RACES_MAX {
            if self.look_up().await? {
                match self.create(drafts).await {
                    Ok(()) => return Ok(self.count_added(drafts.len() as u64, 0)),
                    Err(error) if has_code(&error, "session_exists") => {
                        self.found = None;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let known = if self.adding { 0 } else { self.known(drafts).await? };
            let new = drafts.get(known..).unwrap_or_default();
            if new.is_empty() {
                return Ok(self.count_added(0, known as u64));
            }
            let end = self.there + known as u64;
            // Valid only if the conversation ends the session: no other event comes between.
            match self.append(new, Some(end)).await {
                Ok(_) => return Ok(self.count_added(new.len() as u64, known as u64)),
                Err(error) if has_code(&error, "position_conflict") => {
                    if !self.adding && self.known(drafts).await? == known {
                        return Err(self.taken());
                    }
                    self.adding = false;
                }
                // Another writer added some of them since the last read.
                Err(error) if has_code(&error, "idempotency_conflict") => self.adding = false,
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.taken())
    }

    fn count_added(&mut self, added: u64, known: u64) -> Done {
        self.there += added + known;
        self.adding |= added > 0;
        Done { added, known, bad: Vec::new() }
    }

    fn taken(&self) -> ImportError {
        let other = "it holds other events than this conversation; nothing of it was changed. To \
                     keep both, name another session with --session, or give the conversation \
                     another id"
            .to_owned();
        ImportError::Taken { session: self.session.clone(), other }
    }

    /// Appends events with independent ids: together when all are new or all are stored, otherwise
    /// in halves. Each half is smaller than its part, and a single event is not halved.
    async fn deliver_each(&mut self, drafts: &[Sent]) -> Result<Done, ImportError> {
        self.enter().await?;
        while self.holds_another_shape() {
            let Some(beside) = self.beside.take() else { return Err(self.taken()) };
            (self.session, self.found) = (beside, None);
            self.enter().await?;
        }
        let mut done = Done::default();
        let (others, drafts) = self.compare(drafts, &mut done).await?;
        let mut left = vec![drafts, others.as_slice()];
        left.retain(|part| !part.is_empty());
        while let Some(part) = left.pop() {
            let size = part.len() as u64;
            match (self.append(part, None).await, part) {
                (Ok(appended), _) => {
                    done.known += if appended.repeated { size } else { 0 };
                    done.added += if appended.repeated { 0 } else { size };
                    self.adding |= !appended.repeated;
                    self.note_places(part, &appended).await?;
                }
                // The same line, from another session.
                (Err(error), [(_, Draft { named: Named::ByItself, .. })])
                    if has_code(&error, "idempotency_conflict") =>
                {
                    done.known += 1;
                }
                (Err(error), [(line, _)]) if is_about_content(&error) => {
                    done.bad.push(BadLine::new(*line, error.to_string(), None));
                }
                (Err(error), _) if is_about_content(&error) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    assert!(!first.is_empty(), "a part of one event is not halved");
                    left.extend([second, first]);
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Notes the types of records that are not known, as the session's metadata has room.
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

    /// Compares lines with those that the session has: which of the drafts are no lines, and what
    /// comes behind the last of these.
    async fn compare<'b>(
        &mut self,
        drafts: &'b [Sent],
        done: &mut Done,
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
                    Some(_) => return Err(self.rewritten(*number)),
                },
            };
            let at = (line.1.first + line.2).min(line.1.last);
            self.place(*number, &draft.id, at, false);
            self.compared = Some(line);
            done.known += 1;
        }
        Ok((others, &[]))
    }

    fn rewritten(&self, number: u64) -> ImportError {
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
            match self.create(&[]).await {
                Err(error) if !has_code(&error, "session_exists") => return Err(error.into()),
                _ => self.found = None,
            }
            self.look_up().await?;
        }
        Ok(())
    }

    /// True if the session was found or created.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.found, Some(Existing::There { .. }))
    }

    /// True if the session has events, and not of lines of this form.
    fn holds_another_shape(&self) -> bool {
        let (Some(shape), Some(Existing::There { metadata, tail, .. })) = (self.shape, &self.found)
        else {
            return false;
        };
        let is_merged = self.recorded.iter().flatten().next().is_some();
        *tail > 0 && !is_merged && metadata.get(SHAPE_KEY).map(String::as_str) != Some(shape)
    }

    /// Looks the session up; true if it is to be created.
    async fn look_up(&mut self) -> Result<bool, ImportError> {
        if self.found.is_none() {
            let place = InSession { session: self.session.clone() };
            let found = self.client.call::<sessions::Get>(&place, &NoQuery {}, &()).await;
            self.found = Some(match found {
                Err(error) if has_code(&error, "session_not_found") => Existing::Absent,
                found => {
                    let found = found?;
                    let written = Timestamp::parse(&found.updated_at);
                    Existing::There { metadata: found.metadata, tail: found.tail, written }
                }
            });
        }
        Ok(matches!(self.found, Some(Existing::Absent)))
    }

    /// After the last part: updates the metadata of a session that existed before.
    pub(super) async fn finish(&mut self) -> Result<(), ImportError> {
        self.tag(self.noted.clone()).await?;
        if self.shape.is_some() && (self.is_new || self.adding && self.is_named) {
            self.name().await?;
        }
        if let Some((began, ended)) = self.times.filter(|_| self.shape.is_some()) {
            let (began, ended, tail) =
                (began.to_string(), ended.to_string(), self.tail.to_string());
            let pairs = [(BEGAN_KEY, began), (ENDED_KEY, ended), (TAIL_KEY, tail)];
            return self.tag(pairs.map(|(name, value)| (name.to_owned(), value)).into()).await;
        }
        if self.native {
            return Ok(());
        }
        self.tag(self.metadata.clone()).await
    }

    /// Sets metadata of the session, where it has other.
    async fn tag(&self, pairs: BTreeMap<String, String>) -> Result<(), ImportError> {
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

    async fn create(&mut self, drafts: &[Sent]) -> Result<(), ClientError> {
        let (title, of) = match &self.title {
            Title::Own(title) => (title.as_ref(), None),
            Title::Of(id) => (None, drafts.iter().position(|(_, draft)| draft.id == *id)),
        };
        let head = json!({
            "id": self.session.as_str(), "title": title, "title_of": of,
            "metadata": self.metadata, "workspace": self.workspace,
        });
        let mut body = head.to_string();
        body.pop();
        body.push_str(",\"initial_events\":");
        body.push_str(&array(drafts));
        body.push('}');
        self.client
            .send(
                from_here(Request::post(sessions::Create::ROUTE.path))
                    .body(body, "application/json"),
            )
            .await?;
        self.is_new = true;
        let metadata = self.metadata.clone();
        let tail = drafts.len() as u64;
        self.found = Some(Existing::There { metadata, tail, written: None });
        Ok(())
    }

    /// Appends them at that position, or wherever the session ends.
    async fn append(&self, drafts: &[Sent], at: Option<u64>) -> Result<Appended, ClientError> {
        assert!(!drafts.is_empty(), "no request without events");
        let body = format!("{{\"events\":{}}}", array(drafts));
        let mut request = from_here(Request::post(session_path(&self.session, "/events")));
        if let Some(position) = at {
            request = request.header("If-Position", position.to_string());
        }
        let answer = self.client.send(request.body(body, "application/json")).await?;
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Number of the first events that are stored already.
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

    /// Tests if an event is stored. Only a store knows the name that it keeps one under, so it is
    /// sent as a retry, which it can only be where the session will never end.
    pub(super) async fn has(&self, sent: &Sent) -> Result<bool, ClientError> {
        match self.append(std::slice::from_ref(sent), Some(NEVER)).await {
            Ok(_) => Ok(true),
            Err(error) if has_code(&error, "idempotency_conflict") => Ok(true),
            Err(error)
                if has_code(&error, "position_conflict")
                    || has_code(&error, "session_not_found") =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Remembers where events are, and has the session named after the event of its title.
    async fn note_places(&mut self, drafts: &[Sent], at: &Appended) -> Result<(), ClientError> {
        for ((number, draft), placed) in drafts.iter().zip(&at.data) {
            self.place(*number, &draft.id, placed.position, true);
        }
        let Title::Of(_) = &self.title else { return Ok(()) };
        if self.is_new && self.title_at.1.is_none() {
            self.name().await?;
        }
        Ok(())
    }

    /// Notes where an event is, and whether it may name the session.
    fn place(&mut self, number: u64, id: &str, at: u64, may_name: bool) {
        self.tail = self.tail.max(at + 1);
        if self.placed.len() == PLACED_MAX {
            self.placed.pop_front();
        }
        self.placed.push_back((id.to_owned(), at));
        if may_name && matches!(&self.title, Title::Of(of) if of == id) {
            self.title_at.0 = Some(at);
        }
        match self.places.last_mut() {
            _ if !["line-", "raw-"].iter().any(|begin| id.starts_with(begin)) => {}
            Some((line, _, last)) if *line == number => *last = at,
            _ => self.places.push((number, at, at)),
        }
    }

    /// Has the session named after the event of its title, where that is another one now.
    async fn name(&mut self) -> Result<(), ClientError> {
        let (wanted, given) = self.title_at;
        let Some(at) = wanted.filter(|_| wanted != given) else { return Ok(()) };
        self.title_at.1 = wanted;
        let place = InSession { session: self.session.clone() };
        let change = UpdateSession { title_of: Some(at), ..UpdateSession::default() };
        self.client.call::<sessions::Update>(&place, &NoQuery {}, &change).await?;
        Ok(())
    }

    /// The event that names the session from now on.
    pub(super) fn entitle(&mut self, id: &str, is_name: bool) {
        self.is_named |= is_name;
        if !matches!(&self.title, Title::Of(of) if of == id) {
            self.title = Title::Of(id.to_owned());
            self.title_at.0 = self.position(id).filter(|_| self.is_new).or(self.title_at.0);
        }
    }

    /// The positions of runs of lines, each from its first line to its last.
    fn ranges(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let range = |(first, last): &(u64, u64)| {
            let from = self.places.partition_point(|(line, ..)| line < first);
            let to = self.places.partition_point(|(line, ..)| line <= last);
            let lines = self.places.get(from..to)?;
            Some((lines.first()?.1, lines.last()?.2 + 1))
        };
        runs.iter().filter_map(range).collect()
    }

    /// The positions of lines that are withdrawn, with what hooks recorded of them, and what hooks
    /// found to be in their own session.
    pub(super) fn withdrawn(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let recorded = self.recorded.iter().flatten().next();
        let before = self.rewound_before().filter(|_| recorded.is_some()).into_iter().flatten();
        let before = before.map(|range| (range.from.0, range.to.0));
        let places =
            runs.iter().flat_map(|run| recorded.into_iter().flat_map(move |by| by.places(*run)));
        let all: BTreeSet<_> = before.chain(places).chain(self.ranges(runs)).collect();
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

    /// True if lines of the session were withdrawn before.
    pub(super) fn was_rewound(&self) -> bool {
        self.rewound_before().is_some()
    }

    fn position(&self, id: &str) -> Option<u64> {
        self.placed.iter().rev().find(|(known, _)| known == id).map(|(_, position)| *position)
    }

    /// Positions of events from one to another, where both are known.
    pub(super) fn positions(&self, runs: &[(String, String)]) -> Vec<(u64, u64)> {
        let place = |(first, last): &(String, String)| {
            Some((self.position(first)?, self.position(last)? + 1))
        };
        runs.iter().filter_map(place).collect()
    }
}

/// The part of an answer to an append that matters here; the rest repeats the events, whose numbers
/// may be too large to parse.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Appended {
    repeated: bool,
    data: Vec<Placed>,
}

#[derive(serde::Deserialize)]
struct Placed {
    position: u64,
}

/// True if an event keeps a line that is the same but for the session in it: a resumed file repeats
/// the first one as its own.
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

/// The hash of the line that an event is made of, or keeps.
fn line_hash(draft: &Draft) -> Option<String> {
    if draft.id.starts_with("raw-") {
        let event = Members::read(&draft.text).ok()?;
        let text = event.non_null("raw")?.get();
        return Some(name_of_line(&Members::read(text).ok()?, text).1.hash);
    }
    draft.line_hash().map(str::to_owned)
}

/// Marks the request as an import.
fn from_here(request: Request) -> Request {
    request.header("Sessionlog-Origin", "import")
}

/// True if a refusal is about the content, not about the session or the store.
pub(super) fn is_about_content(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refusal) => {
            matches!(refusal.status, 400 | 413 | 422) || refusal.code == "idempotency_conflict"
        }
        _ => false,
    }
}

/// True if a refusal is about the one session that was written to: others may still be.
pub(super) fn is_about_session(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refusal) => {
            matches!(refusal.status, 410 | 423)
                || matches!(refusal.code.as_str(), "lease_held" | "lease_lost")
        }
        _ => false,
    }
}

fn has_code(error: &ClientError, code: &str) -> bool {
    matches!(error, ClientError::Refused(refusal) if refusal.code == code)
}

fn array(drafts: &[Sent]) -> String {
    let texts: Vec<&str> = drafts.iter().map(|(_, draft)| draft.text.as_str()).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn draft(bytes: usize) -> Sent {
        let text = "x".repeat(bytes);
        (1, Draft { id: String::new(), text, named: Named::ByAllBefore })
    }

    fn sizes(drafts: &[Sent]) -> Vec<usize> {
        parts(drafts).iter().map(|part| part.len()).collect()
    }

    #[test]
    fn parts_keep_to_the_limits_of_a_batch_and_to_the_order() {
        for (drafts, expected) in [
            (vec![], vec![]),
            (vec![draft(1); 999], vec![999]),
            (vec![draft(1); 1_000], vec![1_000]),
            (vec![draft(1); 1_001], vec![1_000, 1]),
            (vec![draft(1); 2_000], vec![1_000, 1_000]),
            (vec![draft(1); 2_001], vec![1_000, 1_000, 1]),
            (vec![draft(6 << 20); 5], vec![2, 2, 1]),
            (vec![draft(BATCH_BYTES - 1)], vec![1]),
            (vec![draft(BATCH_BYTES - 1), draft(0)], vec![1, 1]),
            (vec![draft(20 << 20), draft(1)], vec![1, 1]),
        ] {
            assert_eq!(sizes(&drafts), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64,
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn parts_are_never_empty_hold_every_event_in_order_and_keep_to_the_limits(
            count in prop_oneof![
                0..3_usize,
                (limits::BATCH_EVENTS_MAX - 1)..=(limits::BATCH_EVENTS_MAX + 1),
                (2 * limits::BATCH_EVENTS_MAX - 1)..=(2 * limits::BATCH_EVENTS_MAX + 1),
            ],
            large in prop::collection::vec(
                (any::<prop::sample::Index>(), prop_oneof![
                    0..3_usize,
                    (BATCH_BYTES / 2 - 2)..(BATCH_BYTES / 2 + 2),
                    (BATCH_BYTES - 2)..(BATCH_BYTES + 2),
                ]),
                0..4,
            ),
        ) {
            let mut drafts: Vec<Sent> = (0..count).map(|_| draft(1)).collect();
            for (at, bytes) in large.iter().filter(|_| count > 0) {
                drafts[at.index(count)] = draft(*bytes);
            }
            (1..).zip(&mut drafts).for_each(|(line, sent)| sent.0 = line);
            let parts = parts(&drafts);
            prop_assert!(parts.iter().flat_map(|part| part.iter()).eq(&drafts));
            for part in parts {
                let bytes: usize = part.iter().map(|sent| sent.1.text.len() + 1).sum();
                prop_assert!(!part.is_empty() && part.len() <= limits::BATCH_EVENTS_MAX);
                prop_assert!(part.len() == 1 || bytes <= BATCH_BYTES);
            }
        }
    }
}
