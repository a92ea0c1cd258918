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
    doubt::{Doubt, READS_MAX, Standing},
    embedding::{MeaningOf, VectorsBehind},
    indexing::{Coverage, ScopeIndex, Served, apart},
    memory::kinds_of,
    page,
};
use crate::{
    event::{
        Event, EventId, EventType, Origin, Position, Range, SessionHash, SessionId, Timestamp,
        kinds,
    },
    harness::{fit, json_bytes},
    projection::{
        Mark, MemoryKind,
        body::{self, MemoryBody},
    },
    search::{
        self, EventText, Member, Near, Order, Part, Ranked, SearchQuery, SessionRef, Snippet, rank,
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
/// The first hits whose texts are read for words in a row, before a page is cut from them.
const IN_ROW_MAX: usize = 50;
/// Sessions that a fork reads from, as far as it is searched.
const ANCESTORS_MAX: usize = 100;
/// What the passage that is nearest in meaning has for it, and passages that have something.
const MEANING: f32 = 0.5;
const NEAR_MAX: usize = 100;

/// What to search for.
#[derive(Clone, Debug, Default)]
pub struct SearchCall {
    /// Words, with operators.
    pub words: String,
    /// Only this session; of a fork also what it has of its parents.
    pub session: Option<SessionId>,
    /// Only what is below this position; then the search waits for this of `session` alone.
    pub below: Option<Position>,
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
    /// Not by meaning, whatever embedder there is.
    pub words_alone: bool,
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
    /// What caused it.
    pub origin: Origin,
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
    /// Whether too much came later in its session to be looked at: something may speak against it.
    pub unchecked: bool,
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
    /// Whether the index lacks something of `session` that was to be searched.
    pub lacks_session: bool,
    /// Where there is an embedder: whether meanings ranked, and how far the vectors are.
    pub meaning: Option<(MeaningOf, VectorsBehind)>,
    /// Whether a check ended at its limit, so that more may match.
    pub limited: bool,
    /// The cursor of the next page.
    pub next_page: Option<String>,
}

/// What one search has looked at for its hits.
struct Looked {
    infos: HashMap<SessionId, Option<SessionInfo>>,
    /// Reads that are left to bring facts up to now.
    reads: usize,
}

/// Positions of a session and of those it reads from, that belong to one search.
type Family = HashMap<SessionId, Position>;

impl Service {
    /// Events of the caller's sessions that match, best or newest first. An event is found in the
    /// session that wrote it, also by a search in a fork that has it from there; once that session
    /// is deleted or expired, in its oldest fork that has the event.
    ///
    /// # Errors
    /// `invalid_request` for a query that does not parse (field `q`), a limit out of bounds or a
    /// foreign page; `session_not_found` for the wanted session; `limit_reached` while too many
    /// searches rank.
    pub async fn search(&self, caller: &Caller, asked: SearchCall) -> ServiceResult<SearchResult> {
        self.must_be_searchable()?;
        let query = asked.parsed(self.now())?;
        let (limit, skip) = asked.bounds()?;
        let family = match &asked.session {
            Some(session) => Some(self.line_of(caller, session, asked.below).await?),
            None => None,
        };
        let lacks = |index: &ScopeIndex| family.as_ref().is_some_and(|line| index.lacks(line));
        let has_enough =
            |index: &ScopeIndex| index.is_caught_up() || asked.below.is_some() && !lacks(index);
        let wait = CATCH_UP + asked.wait;
        let caught_up = self.caught_up(&caller.scope, wait, has_enough);
        let ((index, is_noted), vector) = tokio::join!(caught_up, self.meant_by(&asked));
        let lacks_session = !is_noted || lacks(&index);
        let mut result = SearchResult { is_noted, lacks_session, ..SearchResult::default() };
        result.meaning = vector.as_ref().and_then(|vector| {
            let meaning = if vector.is_some() { MeaningOf::Used } else { MeaningOf::Absent };
            Some((meaning, self.embedding.as_ref()?.behind(&caller.scope)))
        });
        let vector = vector.flatten();
        let spare = if query.needs_text() { VERIFIED_MAX } else { SPARE };
        let wanted = (skip + REPEATS * limit + spare).clamp(IN_ROW_MAX, RANKED_MAX);
        let of = (Arc::clone(&index), vector);
        let ranked = self.ranked_events(of, query.clone(), &asked, family, wanted).await?;
        let (mut ranked, near) = ranked;
        if !asked.newest_first {
            self.add_rows(caller, &query, &mut ranked.hits).await;
        }
        (result.limited, result.coverage) = (ranked.limited, index.coverage());
        let is_cut = ranked.hits.len() == wanted && wanted < RANKED_MAX;
        let found = Found::of(ranked.hits, near);
        let until = self.monotonic() + VERIFIED_FOR;
        let mut bytes_left = asked.tokens_max.map_or(usize::MAX, |tokens| tokens * TOKEN_BYTES);
        let mut looked = Looked { infos: HashMap::new(), reads: READS_MAX };
        let mut texts = HashMap::<u64, usize>::new();
        for (at, found) in found.into_iter().enumerate().skip(skip) {
            let next_page = || Some(page::seal("q", &[&at.to_string()]));
            if result.hits.len() == limit {
                result.next_page = next_page();
                break;
            }
            if query.needs_text() && (at - skip >= VERIFIED_MAX || self.monotonic() > until) {
                (result.limited, result.next_page) = (true, next_page());
                break;
            }
            let around = asked.around;
            let shown = self.shown(caller, &query, &index, &found, around, &mut looked).await?;
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

    fn must_be_searchable(&self) -> ServiceResult<()> {
        if self.indexing.is_enabled() {
            return Ok(());
        }
        let message = "searching is turned off on this server";
        Err(ServiceError::new(Code::InvalidRequest, message)
            .action("the operator turns it on by the setting search"))
    }

    /// A session and those it reads from, each with the position below which it has their events.
    async fn line_of(
        &self,
        caller: &Caller,
        session: &SessionId,
        below: Option<Position>,
    ) -> ServiceResult<Family> {
        let key = caller.key(session);
        let tail = self.store.info(&key).await?.tail;
        let tail = below.map_or(tail, |below| below.min(tail));
        let family = self.store.family(&key, ANCESTORS_MAX).await?;
        let mut line = Family::from([(session.clone(), tail)]);
        let mut below = tail;
        for one in family.ancestors {
            below = below.min(one.at);
            line.insert(one.session, below);
        }
        Ok(line)
    }

    /// The vector of what is asked for; `None` where none is wanted, an empty one where there is
    /// none in time.
    async fn meant_by(&self, asked: &SearchCall) -> Option<Option<Vec<f32>>> {
        let words = plain(&asked.words);
        let wants = !asked.words_alone && !asked.newest_first && !words.is_empty();
        match self.embedding.is_some() && wants {
            true => Some(self.meant(words).await),
            false => None,
        }
    }

    async fn ranked_events(
        &self,
        (index, vector): (Arc<ScopeIndex>, Option<Vec<f32>>),
        query: SearchQuery,
        asked: &SearchCall,
        family: Option<Family>,
        wanted: usize,
    ) -> ServiceResult<(Ranked, Vec<Near>)> {
        let Ok(permit) = Arc::clone(&self.searches).try_acquire_owned() else {
            let message = format!("{AT_ONCE} searches are under way");
            return Err(ServiceError::new(Code::LimitReached, message).action("try again shortly"));
        };
        let (archived, newest_first) = (asked.include_archived, asked.newest_first);
        let service = self.clone();
        let ranked = apart(async move {
            let _permit = permit;
            let served = |session: SessionHash| {
                let admits = |id: &SessionId, workspace: Option<&str>, is_archived: bool| {
                    let is_wanted = query.filters.admits_session(id.as_str(), workspace);
                    let is_wanted = is_wanted && (archived || !is_archived);
                    let below = match &family {
                        Some(family) => family.get(id).copied(),
                        None => Some(Position(u64::MAX)),
                    };
                    below.filter(|_| is_wanted)
                };
                index.served(session, admits)
            };
            let keep = |session: SessionRef<'_>, range: Range| {
                let kept = served(session.hash).into_iter().map(|one| one.range);
                let kept = kept.map(|of| (of.from.max(range.from), of.to.min(range.to)));
                kept.filter(|(from, to)| from < to).map(|(from, to)| Range::new(from, to)).collect()
            };
            let order = if newest_first { Order::Time } else { Order::Score };
            loop {
                let bytes = index.parts().into_iter();
                let bytes: Vec<Arc<dyn Mapped>> =
                    bytes.filter_map(|bytes| service.open_part(&index, bytes)).collect();
                let parts: Vec<Part<'_>> =
                    bytes.iter().filter_map(|bytes| Part::trusted(bytes.bytes()).ok()).collect();
                let mut ranked = rank(&parts, &query, &keep, order, wanted);
                // What was computed from a file that the disk lost is void; the file goes.
                if bytes.iter().any(|bytes| bytes.is_hurt()) {
                    continue;
                }
                let near = vector.map(|vector| service.near(&index.scope, &vector, &keep));
                let mut near = near.unwrap_or_default();
                for hit in &mut ranked.hits {
                    serve_from(served(hit.hash), hit.position, (&mut hit.hash, &mut hit.session));
                }
                for one in &mut near {
                    serve_from(served(one.hash), one.position, (&mut one.hash, &mut one.session));
                }
                return Ok((ranked, near));
            }
        });
        ranked.await
    }

    /// Adds to the first hits what they get for words in a row, and puts them in their order.
    async fn add_rows(&self, caller: &Caller, query: &SearchQuery, hits: &mut [search::Hit]) {
        let first = hits.len().min(IN_ROW_MAX);
        let (first, _) = hits.split_at_mut(first);
        for hit in first.iter_mut().filter(|hit| hit.may_have_row) {
            let read = Read {
                range: Range::new(hit.position, hit.position.plus(1)),
                events_max: 1,
                bytes_max: EVENTS_BYTES,
                fill: Fill::Forward,
                allow_gaps: true,
            };
            let Ok(slice) = self.store.read(&caller.key(&hit.session), read).await else {
                continue;
            };
            if let Some(event) = slice.events.first() {
                hit.why.row = query.row(EventText::of(event).piece(hit.piece));
                hit.score = hit.why.sum();
            }
        }
        first.sort_by(|one, other| other.score.total_cmp(&one.score));
    }

    /// A hit with its text from the log, and a number that is the same for the same passage; `None`
    /// when the log does not serve it any more.
    async fn shown(
        &self,
        caller: &Caller,
        query: &SearchQuery,
        index: &ScopeIndex,
        found: &Found,
        around: u64,
        looked: &mut Looked,
    ) -> ServiceResult<Option<(u64, Hit)>> {
        let session = found.session.clone();
        let key = caller.key(&session);
        if !looked.infos.contains_key(&session) {
            looked.infos.insert(session.clone(), self.store.info(&key).await.ok());
        }
        let Some(info) = looked.infos.get(&session).and_then(Option::as_ref) else {
            return Ok(None);
        };
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
        let admits = found.is_by_words || query.admits(event, said.speaker.as_deref());
        if said.text.is_empty() || !query.fits(&said.text) || !admits {
            return Ok(None);
        }
        let passage = said.piece(found.piece);
        let shown = snippet(query.words(), passage, SNIPPET_BYTES);
        let around = &slice.events;
        let standing = if index.is_settled(found.hash, Position(from), info.tail) {
            Standing::default()
        } else {
            self.standing(&key, event, &shown, around, &mut looked.reads).await
        };
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
            title: self.titled(info.clone()).await.title,
            workspace: info.workspace.clone(),
            position: found.position,
            range: slice.covered,
            kind: event.kind.clone(),
            at: event.created_at.unwrap_or(event.processed_at),
            who: said.speaker,
            origin: event.origin,
            score: found.score,
            why: found.why,
            marks: marks(&shown),
            around: beside.collect(),
            memory: memory_of(event),
            marked: standing.marked,
            doubt: standing.doubt,
            unchecked: standing.unchecked,
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
    /// Hits of the page, and those before it.
    fn bounds(&self) -> ServiceResult<(usize, usize)> {
        let limit = self.limit.unwrap_or(HITS_DEFAULT);
        if limit == 0 || limit > HITS_MAX {
            let problem = format!("from 1 to {HITS_MAX}, not {limit}");
            return Err(ServiceError::invalid("limit", problem));
        }
        if self.around > AROUND_MAX {
            return Err(ServiceError::invalid("around", format!("at most {AROUND_MAX}")));
        }
        Ok((limit, self.page.as_deref().map(open_page).transpose()?.unwrap_or(0)))
    }

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

/// What ranks: an event by its words, by its meaning, or by both.
struct Found {
    hash: SessionHash,
    session: SessionId,
    position: Position,
    piece: u16,
    score: f32,
    why: search::Why,
    /// Whether the words of the query found it, which looks at the filters.
    is_by_words: bool,
}

impl Found {
    /// What words found and what is near in meaning, in one order.
    fn of(hits: Vec<search::Hit>, near: Vec<Near>) -> Vec<Self> {
        let mut places = HashMap::new();
        let mut all: Vec<Self> = Vec::new();
        for hit in hits {
            places.insert((hit.hash, hit.position), all.len());
            let search::Hit { hash, session, position, piece, score, why, .. } = hit;
            all.push(Self { hash, session, position, piece, score, why, is_by_words: true });
        }
        let most = near.first().map_or(0.0, |near| near.cosine);
        let least = near.last().map_or(0.0, |near| near.cosine);
        for near in near.into_iter().take(NEAR_MAX) {
            let share = (near.cosine - least) / (most - least).max(f32::EPSILON);
            let meaning = if most > least { MEANING * share } else { MEANING };
            let Near { hash, session, position, piece, .. } = near;
            let at = *places.entry((hash, position)).or_insert_with(|| {
                let (why, score) = (search::Why::default(), 0.0);
                all.push(Self { hash, session, position, piece, score, why, is_by_words: false });
                all.len() - 1
            });
            // Of an event the nearest piece counts, which comes first.
            if let Some(one) = all.get_mut(at).filter(|one| one.why.meaning == 0.0) {
                one.why.meaning = meaning;
                one.score += meaning;
            }
        }
        if all.iter().any(|one| one.why.meaning > 0.0) {
            all.sort_by(|one, other| other.score.total_cmp(&one.score));
        }
        all
    }
}

/// The words of a query without what directs the search.
fn plain(words: &str) -> String {
    let is_plain = |word: &&str| !word.starts_with('-') && !word.contains(':');
    let words = words.split_whitespace().filter(is_plain);
    let plain: Vec<&str> = words.map(|word| word.trim_matches(['"', '+', '*'])).collect();
    plain.join(" ").trim().to_owned()
}

/// Puts the session that serves a position in the place of the one that wrote it.
fn serve_from(
    servers: Vec<Served>,
    position: Position,
    (hash, session): (&mut SessionHash, &mut SessionId),
) {
    if let Some(one) = servers.into_iter().find(|one| one.range.contains(position)) {
        (*hash, *session) = (one.hash, one.session);
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
