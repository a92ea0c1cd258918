//! Searching all sessions of a caller: the index says which events, the log says what they say. An
//! event that the log does not serve any more is not shown, whatever the index holds. It must not
//! compare words: `search` does.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, Window,
    doubt::Doubt,
    indexing::{Coverage, ScopeIndex},
    memory::kinds_of,
    page,
};
use crate::{
    event::{Event, EventId, EventType, Position, Range, SessionId, Timestamp, kinds},
    harness::{fit, json_bytes},
    projection::{
        Mark, MemoryKind,
        body::{self, MemoryBody},
    },
    search::{
        self, EventText, Member, Order, Part, Ranked, SearchQuery, SessionRef, Snippet, rank,
        snippet,
    },
    store::{Fill, Mapped, Read, SessionInfo},
};

/// Hits of a page, by default and at most, and hits of all pages at most.
const HITS_DEFAULT: usize = 10;
const HITS_MAX: usize = 100;
const RANKED_MAX: usize = 1_000;
/// Events on either side of a hit at most.
const AROUND_MAX: u64 = 5;
/// Bytes of a hit's text, and of an event beside it.
const SNIPPET_BYTES: usize = 600;
const BESIDE_BYTES: usize = 240;
/// Searches that rank at once.
pub(super) const AT_ONCE: usize = 8;
/// How long a search catches up with what was written before it.
pub(super) const CATCH_UP: Duration = Duration::from_millis(50);
/// Bytes that a token takes in an answer, about, and of a hit's members beside its texts.
const TOKEN_BYTES: usize = 4;
const FRAME_BYTES: usize = 400;
const BESIDE_FRAME_BYTES: usize = 60;
/// Bytes of bodies that are read for one hit.
const EVENTS_BYTES: usize = 16 << 20;
/// How many times the hits of a page are ranked, because some say the same.
const REPEATS: usize = 4;
/// Hits that are ranked beyond a page, in place of those that the log does not serve any more.
const SPARE: usize = 20;
/// Candidates that are read, and for how long, where a text must be there exactly.
const VERIFIED_MAX: usize = 200;
const VERIFIED_FOR: Duration = Duration::from_millis(100);
/// Sessions that a fork reads from, as far as it is searched.
const ANCESTORS_MAX: usize = 100;

/// What to search for.
#[derive(Clone, Debug, Default)]
pub struct SearchCall {
    /// Words, with operators.
    pub words: String,
    /// Only this session; of a fork also what it has of its parents.
    pub session: Option<SessionId>,
    /// Only sessions of this workspace.
    pub workspace: Option<String>,
    /// Only these types; empty for all.
    pub types: Vec<EventType>,
    /// Only items of memory of these kinds; empty for all events.
    pub kinds: Vec<String>,
    /// Only by this speaker.
    pub who: Option<String>,
    /// Only of this origin.
    pub origin: Option<String>,
    /// Also archived sessions.
    pub include_archived: bool,
    /// When they were written.
    pub window: Window,
    /// Hits of a page; 10 by default, 100 at most.
    pub limit: Option<usize>,
    /// `next_page` of the answer before.
    pub page: Option<String>,
    /// Events to show on either side of a hit; 5 at most.
    pub around: u64,
    /// The newest first.
    pub newest_first: bool,
    /// Tokens of the hits at most, about; at least one hit is shown.
    pub tokens_max: Option<usize>,
    /// How long to wait for what is not in the index yet, beyond the usual.
    pub wait: Duration,
}

/// An event beside a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Its position.
    pub position: Position,
    /// Its type.
    pub kind: EventType,
    /// What it says, in a line.
    pub text: String,
}

/// What a hit is that was written to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryOf {
    /// Its id.
    pub id: EventId,
    /// Its kind.
    pub kind: MemoryKind,
    /// Its topic.
    pub topic: Option<String>,
    /// From 1 to 10.
    pub importance: Option<u8>,
}

/// An event that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The session that it was written to.
    pub session: SessionId,
    /// That session's title.
    pub title: Option<String>,
    /// That session's workspace.
    pub workspace: Option<String>,
    /// Its position.
    pub position: Position,
    /// The positions that are shown.
    pub range: Range,
    /// Its type.
    pub kind: EventType,
    /// When it was written.
    pub at: Timestamp,
    /// The speaker.
    pub who: Option<String>,
    /// How well it fits.
    pub score: f32,
    /// What the score is made of.
    pub why: search::Why,
    /// The part that matches.
    pub text: String,
    /// Where the words are in it, in characters.
    pub marks: Vec<(u64, u64)>,
    /// The events around it.
    pub around: Vec<Beside>,
    /// Further hits with the same text, which are left out.
    pub repeated: u64,
    /// What it is, of an item of memory.
    pub memory: Option<MemoryOf>,
    /// What is said of it.
    pub marked: Vec<Mark>,
    /// What speaks against it, where something does.
    pub doubt: Option<Doubt>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResult {
    /// The best first, or the newest.
    pub hits: Vec<Hit>,
    /// What the index lacks.
    pub coverage: Coverage,
    /// Whether it is known what was written before the search; else more may be missing.
    pub is_noted: bool,
    /// Whether a check ended at its limit, so that more may match.
    pub limited: bool,
    /// The cursor of the next page.
    pub next_page: Option<String>,
}

/// Positions of a session and of those it reads from, that belong to one search.
type Family = HashMap<SessionId, Position>;

impl Service {
    /// Events of the caller's sessions that match, best or newest first. An event is found in the
    /// session that wrote it, also by a search in a fork that has it from there.
    ///
    /// # Errors
    /// `invalid_request` for a query that does not parse (field `q`), a limit out of bounds or a
    /// foreign page; `session_not_found` for the wanted session; `limit_reached` while too many
    /// searches rank.
    pub async fn search(&self, caller: &Caller, asked: SearchCall) -> ServiceResult<SearchResult> {
        if !self.indexing.is_enabled() {
            let message = "searching is turned off on this server";
            return Err(ServiceError::new(Code::InvalidRequest, message)
                .action("the operator turns it on by the setting search"));
        }
        let query = asked.parsed(self.now())?;
        let limit = asked.limit.unwrap_or(HITS_DEFAULT);
        if limit == 0 || limit > HITS_MAX {
            let problem = format!("from 1 to {HITS_MAX}, not {limit}");
            return Err(ServiceError::invalid("limit", problem));
        }
        if asked.around > AROUND_MAX {
            return Err(ServiceError::invalid("around", format!("at most {AROUND_MAX}")));
        }
        let skip = asked.page.as_deref().map(open_page).transpose()?.unwrap_or(0);
        let family = match &asked.session {
            Some(session) => Some(self.line_of(caller, session).await?),
            None => None,
        };
        let (index, is_noted) = self.caught_up(&caller.scope, CATCH_UP + asked.wait).await;
        let mut result = SearchResult { is_noted, ..SearchResult::default() };
        let spare = if query.needs_text() { VERIFIED_MAX } else { SPARE };
        let wanted = (skip + REPEATS * limit + spare).min(RANKED_MAX);
        let ranked = self.ranked_events(Arc::clone(&index), query.clone(), &asked, family, wanted);
        let ranked = ranked.await?;
        (result.limited, result.coverage) = (ranked.limited, index.coverage());
        let until = self.monotonic() + VERIFIED_FOR;
        let mut bytes_left = asked.tokens_max.map_or(usize::MAX, |tokens| tokens * TOKEN_BYTES);
        let (mut infos, mut texts) = (HashMap::new(), HashMap::<u64, usize>::new());
        let is_cut = ranked.hits.len() == wanted && wanted < RANKED_MAX;
        for (at, found) in ranked.hits.into_iter().enumerate().skip(skip) {
            let next_page = || Some(page::seal("q", &[&at.to_string()]));
            if result.hits.len() == limit {
                result.next_page = next_page();
                break;
            }
            if query.needs_text() && (at - skip >= VERIFIED_MAX || self.monotonic() > until) {
                (result.limited, result.next_page) = (true, next_page());
                break;
            }
            let shown = self.shown(caller, &query, &found, asked.around, &mut infos).await?;
            let Some((text, hit)) = shown else { continue };
            if let Some(first) = texts.get(&text).and_then(|first| result.hits.get_mut(*first)) {
                first.repeated += 1;
                continue;
            }
            let bytes = hit.bytes();
            if bytes > bytes_left && !result.hits.is_empty() {
                result.next_page = next_page();
                break;
            }
            bytes_left = bytes_left.saturating_sub(bytes);
            texts.insert(text, result.hits.len());
            result.hits.push(hit);
        }
        if is_cut && result.next_page.is_none() {
            result.next_page = Some(page::seal("q", &[&wanted.to_string()]));
        }
        Ok(result)
    }

    /// A session and those it reads from, each with the position below which it has their events.
    async fn line_of(&self, caller: &Caller, session: &SessionId) -> ServiceResult<Family> {
        let key = caller.key(session);
        let tail = self.store.info(&key).await?.tail;
        let family = self.store.family(&key, ANCESTORS_MAX).await?;
        let mut line = Family::from([(session.clone(), tail)]);
        let mut below = tail;
        for one in family.ancestors {
            below = below.min(one.at);
            line.insert(one.session, below);
        }
        Ok(line)
    }

    async fn ranked_events(
        &self,
        index: Arc<ScopeIndex>,
        query: SearchQuery,
        asked: &SearchCall,
        family: Option<Family>,
        wanted: usize,
    ) -> ServiceResult<Ranked> {
        let Ok(permit) = Arc::clone(&self.searches).try_acquire_owned() else {
            let message = format!("{AT_ONCE} searches are under way");
            return Err(ServiceError::new(Code::LimitReached, message).action("try again shortly"));
        };
        let (archived, newest_first) = (asked.include_archived, asked.newest_first);
        let service = self.clone();
        let ranked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let below = |session: SessionRef<'_>| {
                let admits = |id: &SessionId, workspace: Option<&str>, is_archived: bool| {
                    let is_wanted = query.filters.admits_session(id.as_str(), workspace);
                    let is_wanted = is_wanted && (archived || !is_archived);
                    let below = match &family {
                        Some(family) => family.get(id).copied(),
                        None => Some(Position(u64::MAX)),
                    };
                    below.filter(|_| is_wanted)
                };
                index.session(session.hash, admits)?
            };
            let keep = |session: SessionRef<'_>, range: Range| {
                let kept = below(session).map(|to| Range::new(range.from, range.to.min(to)));
                kept.filter(|range| !range.is_empty()).into_iter().collect()
            };
            let order = if newest_first { Order::Time } else { Order::Score };
            loop {
                let bytes = index.parts().into_iter();
                let bytes: Vec<Arc<dyn Mapped>> =
                    bytes.filter_map(|bytes| service.open_part(&index, bytes)).collect();
                let parts: Vec<Part<'_>> =
                    bytes.iter().filter_map(|bytes| Part::trusted(bytes.bytes()).ok()).collect();
                let ranked = rank(&parts, &query, &keep, order, wanted);
                // What was computed from a file that the disk lost is void; the file goes.
                if bytes.iter().all(|bytes| !bytes.is_hurt()) {
                    return ranked;
                }
            }
        });
        ranked.await.map_err(|error| ServiceError::new(Code::InternalError, error.to_string()))
    }

    /// A hit with its text from the log, and a number that is the same for the same passage; `None`
    /// when the log does not serve it any more.
    async fn shown(
        &self,
        caller: &Caller,
        query: &SearchQuery,
        found: &search::Hit,
        around: u64,
        infos: &mut HashMap<SessionId, Option<SessionInfo>>,
    ) -> ServiceResult<Option<(u64, Hit)>> {
        let session = found.session.clone();
        let key = caller.key(&session);
        if !infos.contains_key(&session) {
            infos.insert(session.clone(), self.store.info(&key).await.ok());
        }
        let Some(info) = infos.get(&session).and_then(Option::as_ref) else { return Ok(None) };
        let (from, to) = (found.position.0.saturating_sub(around), found.position.0 + 1 + around);
        let read = Read {
            range: Range::new(Position(from), Position(to).min(info.tail)),
            events_max: 2 * AROUND_MAX as usize + 1,
            bytes_max: EVENTS_BYTES,
            fill: Fill::Forward,
            allow_gaps: true,
        };
        let Ok(slice) = self.store.read(&key, read).await else { return Ok(None) };
        let at = |event: &&Event| event.position == found.position;
        let Some(event) = slice.events.iter().find(at) else { return Ok(None) };
        let said = EventText::of(event);
        if said.text.is_empty() || !query.fits(&said.text) {
            return Ok(None);
        }
        let passage = said.piece(found.piece);
        let shown = snippet(query.words(), passage, SNIPPET_BYTES);
        let standing = self.standing(&key, info, event, &shown, &slice.events).await;
        if standing.forgotten.contains(&event.position) {
            return Ok(None);
        }
        // What says the same and has another standing is another hit.
        let mut hasher = DefaultHasher::new();
        (passage, standing.marked.len(), standing.doubt.is_some()).hash(&mut hasher);
        let is_shown = |event: &&Event| {
            event.position != found.position && !standing.forgotten.contains(&event.position)
        };
        let beside = slice.events.iter().filter(is_shown);
        let beside = beside.map(|event| Beside {
            position: event.position,
            kind: event.kind.clone(),
            text: fit(EventText::of(event).text.trim(), BESIDE_BYTES).text,
        });
        let hit = Hit {
            title: info.title.clone(),
            workspace: info.workspace.clone(),
            position: found.position,
            range: slice.covered,
            kind: event.kind.clone(),
            at: event.created_at.unwrap_or(event.processed_at),
            who: said.speaker,
            score: found.score,
            why: found.why,
            marks: marks(&shown),
            around: beside.collect(),
            memory: memory_of(event),
            marked: standing.marked,
            doubt: standing.doubt,
            text: shown.text,
            repeated: 0,
            session,
        };
        Ok(Some((hasher.finish(), hit)))
    }
}

impl Hit {
    /// Bytes of it in an answer, about.
    fn bytes(&self) -> usize {
        let beside = self.around.iter().map(|one| json_bytes(&one.text) + BESIDE_FRAME_BYTES);
        FRAME_BYTES + json_bytes(&self.text) + beside.sum::<usize>()
    }
}

impl SearchCall {
    fn parsed(&self, now: Timestamp) -> ServiceResult<SearchQuery> {
        if !self.kinds.is_empty() && !self.types.is_empty() {
            return Err(ServiceError::invalid("kinds", "they do not go with types"));
        }
        let wrong = |error| ServiceError::invalid("q", error);
        let mut query = match self.words.trim() {
            "" if self.has_filter() => SearchQuery::everything(),
            words => SearchQuery::parse(words, now).map_err(wrong)?,
        };
        let memory = (!self.kinds.is_empty()).then_some((Member::Type, kinds::MEMORY_ITEM));
        let types = self.types.iter().map(|kind| (Member::Type, kind.as_str()));
        let types = types.chain(memory);
        let workspace = self.workspace.as_deref().map(|value| (Member::Workspace, value));
        let who = self.who.as_deref().map(|value| (Member::Who, value));
        let origin = self.origin.as_deref().map(|value| (Member::Origin, value));
        for (member, value) in types.chain(workspace).chain(who).chain(origin) {
            let narrowed = query.narrow(member, value, false, now);
            narrowed.map_err(|fault| ServiceError::invalid("origin", fault))?;
        }
        let kinds = kinds_of("kinds", &self.kinds)?;
        if !kinds.is_empty() {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            query.narrow_to_kinds(&names);
        }
        let filters = &mut query.filters;
        filters.after = filters.after.max(self.window.from);
        filters.before = filters.before.into_iter().chain(self.window.to).min();
        Ok(query)
    }

    /// Whether it narrows the answer without a word.
    fn has_filter(&self) -> bool {
        let texts = [&self.workspace, &self.who, &self.origin];
        texts.iter().any(|text| text.is_some())
            || !self.types.is_empty()
            || !self.kinds.is_empty()
            || self.session.is_some()
            || self.window.from.or(self.window.to).is_some()
    }
}

/// What an event is, if it was written to be remembered.
fn memory_of(event: &Event) -> Option<MemoryOf> {
    let is_item = event.kind.as_str() == kinds::MEMORY_ITEM;
    let body: MemoryBody = is_item.then(|| body::read(&event.body)).flatten()?;
    let kind = MemoryKind::named(&body.kind)?;
    let (topic, importance) = (body.topic, body.importance);
    Some(MemoryOf { id: event.id.clone(), kind, topic, importance })
}

/// Where the words that matched are in a snippet, in characters.
fn marks(shown: &Snippet) -> Vec<(u64, u64)> {
    let count = |end: usize| shown.text.get(..end).unwrap_or_default().chars().count() as u64;
    shown.marks.iter().map(|mark| (count(mark.start), count(mark.end))).collect()
}

fn open_page(page: &str) -> ServiceResult<usize> {
    let [skip] = page::open::<1>("q", page)?;
    let skip = skip.parse().ok().filter(|skip| *skip < RANKED_MAX);
    skip.ok_or_else(|| ServiceError::invalid("page", "this is no page of this search"))
}
