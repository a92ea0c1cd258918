//! Hits of a search with their content from the log: their events are read and formatted in a
//! compute slot, and the bytes read for a page are limited. An event that the log no longer returns
//! is not shown. It must not rank.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use super::{
    Caller, Service, ServiceResult,
    compute::ComputeSlot,
    hit_doubts::{HitAssessment, READS_MAX},
    hit_text,
    indexing::{ScopeIndex, add_unreadable},
};
use crate::{
    api::{
        memory::MemoryKind,
        search::{Complete, Hit, Memory, Neighbour, Snippet, Why},
    },
    event::{Event, Position, Range, SessionHash, SessionId, SessionKey, kinds, pace},
    harness::{fit, json_bytes},
    projection::body::{self, MemoryBody},
    search::{self, EventText, NearPassage, ParsedQuery},
    store::{FillDirection, ReadRequest, SessionInfo, StoreError},
};

/// Maximum bytes of a hit's text, and of the text of an adjacent event.
const SNIPPET_BYTES: usize = 600;
const NEIGHBOUR_BYTES: usize = 240;
/// Approximate bytes of a hit's members other than its texts in a response.
const FRAME_BYTES: usize = 400;
const NEIGHBOUR_FRAME_BYTES: usize = 60;
/// Maximum body bytes read for a page; and the part of them used to score consecutive words.
const PAGE_BYTES: usize = 32 << 20;
const ROWS_BYTES: usize = 8 << 20;
/// Maximum body bytes read at once for a hit and its adjacent events, or on either side of a larger
/// hit.
const EVENTS_BYTES: usize = 256 << 10;
/// Body bytes from which a hit is formatted on a separate thread.
const LARGE_BYTES: usize = 64 << 10;
/// Number of events before a result searched for its call, and after a call for its result.
const CALL_EVENTS: u64 = 8;
/// Bytes of a body read between two yields.
const BYTES_OF_A_STEP: usize = 256;
/// Number of first hits whose texts are scored for consecutive words before a page is cut.
pub(super) const IN_ROW_MAX: usize = 50;
/// Maximum number of passages that are ranked by their vectors.
const NEAR_MAX: usize = 100;
/// Constant of reciprocal rank fusion, and weight of vector ranks relative to word ranks.
const RANKS: f32 = 60.0;
const MEANING: f32 = 0.5;

/// Sessions and budgets used by the hits of one page of a search.
pub(super) struct PageBudget {
    infos: HashMap<SessionId, Option<SessionInfo>>,
    /// Number of reads left to catch up facts.
    reads: usize,
    /// Body bytes that may still be read.
    bytes_left: usize,
    slot: Option<ComputeSlot>,
    /// Sessions with a hit that the log could not return because of damage.
    unreadable: BTreeMap<SessionId, Position>,
}

/// Events of a hit and their formatted text.
struct FormattedHit {
    events: Vec<Event>,
    event: Event,
    who: Option<String>,
    shown: search::PassageSnippet,
    /// Hash that is equal for equal passages.
    passage: u64,
    neighbours: Vec<Neighbour>,
}

impl PageBudget {
    pub(super) fn new(slot: ComputeSlot) -> Self {
        let (infos, slot, unreadable) = (HashMap::new(), Some(slot), BTreeMap::new());
        Self { infos, reads: READS_MAX, bytes_left: PAGE_BYTES, slot, unreadable }
    }

    /// Returns true if no more bytes may be read for this page.
    pub(super) fn is_spent(&self) -> bool {
        self.bytes_left == 0
    }

    pub(super) fn report_unreadable(self, complete: &mut Complete) {
        self.unreadable
            .into_iter()
            .for_each(|(session, tail)| add_unreadable(complete, session, tail));
    }
}

impl Service {
    /// Adds the score for consecutive words to the first hits, and sorts them.
    pub(super) async fn add_phrase_scores(
        &self,
        caller: &Caller,
        query: &Arc<ParsedQuery>,
        hits: &mut [search::SearchHit],
        mut slot: ComputeSlot,
    ) -> ServiceResult<ComputeSlot> {
        let first = hits.len().min(IN_ROW_MAX);
        let (first, _) = hits.split_at_mut(first);
        let mut bytes_left = ROWS_BYTES;
        for hit in first.iter_mut().filter(|hit| hit.may_have_row) {
            slot = slot.yield_if_due().await?;
            let range = Range::new(hit.position, hit.position.plus(1));
            let read =
                self.read_range(&caller.key(&hit.session), range, FillDirection::Forward).await;
            let bytes = body_bytes(&read);
            if bytes > bytes_left {
                break;
            }
            bytes_left -= bytes;
            if let Some(event) = read.into_iter().next() {
                let (query, piece) = (Arc::clone(query), hit.piece);
                let row = move || query.row_bonus(EventText::from_event(&event).piece(piece));
                let row = if bytes < LARGE_BYTES {
                    row()
                } else {
                    let (back, row) = slot.run(row).await?;
                    slot = back;
                    row
                };
                hit.why.row = row;
                hit.score = search::score(&hit.why);
            }
        }
        first.sort_by(|one, other| other.score.total_cmp(&one.score));
        Ok(slot)
    }

    /// Reads the events of a range, only the first if it is large; empty if the log returns none.
    async fn read_range(&self, key: &SessionKey, range: Range, fill: FillDirection) -> Vec<Event> {
        if range.is_empty() {
            return Vec::new();
        }
        let events_max = usize::try_from(range.len()).unwrap_or(usize::MAX);
        let read =
            ReadRequest { range, events_max, bytes_max: EVENTS_BYTES, fill, allow_gaps: true };
        self.store.read(key, read).await.map(|slice| slice.events).unwrap_or_default()
    }

    /// Reads the event at a position and its adjacent events, ascending; only the nearest if large.
    async fn read_hit_events(&self, key: &SessionKey, at: Position, range: Range) -> Vec<Event> {
        let mut events = self.read_range(key, range, FillDirection::Forward).await;
        if events.last().is_some_and(|last| last.position.plus(1) == range.to) {
            return events;
        }
        events = self.read_range(key, Range::new(range.from, at), FillDirection::Backward).await;
        events
            .extend(self.read_range(key, Range::new(at, at.plus(1)), FillDirection::Forward).await);
        events.extend(
            self.read_range(key, Range::new(at.plus(1), range.to), FillDirection::Forward).await,
        );
        events.sort_by_key(|event| event.position);
        events
    }

    /// Reads the events that may include the call of a result, or the result of a call; empty if
    /// the hit is neither.
    async fn read_call_events(
        &self,
        key: &SessionKey,
        at: Position,
        around: Range,
        events: &[Event],
    ) -> Vec<Event> {
        let Some(event) = events.iter().find(|event| event.position == at) else {
            return Vec::new();
        };
        let kind = event.kind.as_str();
        let (range, fill) = if kinds::is_call(kind) {
            (Range::new(around.to, at.plus(1 + CALL_EVENTS)), FillDirection::Forward)
        } else if kinds::is_result(kind) {
            let from = Position(at.0.saturating_sub(CALL_EVENTS));
            (Range::new(from, around.from), FillDirection::Backward)
        } else {
            return Vec::new();
        };
        let mut near = self.read_range(key, range, fill).await;
        near.extend(events.iter().cloned());
        near.sort_by_key(|event| event.position);
        near
    }

    /// Returns true if damage prevents a session from returning an existing event.
    async fn is_unreadable(&self, key: &SessionKey, at: Position) -> bool {
        let range = Range::new(at, at.plus(1));
        let read = ReadRequest {
            range,
            events_max: 1,
            bytes_max: 1,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let read = self.store.read(key, read).await;
        matches!(read, Err(StoreError::SessionDamaged { .. } | StoreError::Io { .. }))
    }

    /// Returns the record of a hit's session, cached for the page; `None` if it was deleted.
    async fn find_session(&self, key: &SessionKey, page: &mut PageBudget) -> Option<SessionInfo> {
        if !page.infos.contains_key(&key.session) {
            let info = match self.store.info(key).await {
                Ok(info) => Some(self.with_title(info).await),
                Err(_) => None,
            };
            page.infos.insert(key.session.clone(), info);
        }
        page.infos.get(&key.session).and_then(Clone::clone)
    }

    /// Returns a hit with its text from the log, and a hash that is equal for equal passages;
    /// `None` if the log no longer returns it.
    pub(super) async fn load_hit(
        &self,
        caller: &Caller,
        query: &Arc<ParsedQuery>,
        index: &ScopeIndex,
        found: &RankedEvent,
        around: u64,
        page: &mut PageBudget,
    ) -> ServiceResult<Option<(u64, Hit)>> {
        let session = found.session.clone();
        let key = caller.key(&session);
        let Some(info) = self.find_session(&key, page).await else { return Ok(None) };
        let mut slot =
            self.compute.yield_or_acquire(&caller.scope.tenant, page.slot.take()).await?;
        let (from, to) = (found.position.0.saturating_sub(around), found.position.0 + 1 + around);
        let range = Range::new(Position(from), Position(to).min(info.tail));
        let events = self.read_hit_events(&key, found.position, range).await;
        if events.iter().all(|event| event.position != found.position)
            && self.is_unreadable(&key, found.position).await
        {
            page.unreadable.insert(session, info.tail);
            page.slot = Some(slot);
            return Ok(None);
        }
        let near = self.read_call_events(&key, found.position, range, &events).await;
        let bytes = body_bytes(&events) + body_bytes(&near);
        page.bytes_left = page.bytes_left.saturating_sub(bytes);
        let (query, of) = (Arc::clone(query), (found.position, found.piece, found.is_by_words));
        let draw = move || format_hit(&query, of, events, near);
        let drawn = if bytes < LARGE_BYTES {
            draw()
        } else {
            let (back, drawn) = slot.run(draw).await?;
            slot = back;
            drawn
        };
        page.slot = Some(slot);
        let Some(FormattedHit { events, event, who, shown, passage, mut neighbours }) = drawn
        else {
            return Ok(None);
        };
        let standing = if index.is_final_from(found.hash, Position(from), info.tail) {
            HitAssessment::default()
        } else {
            // Waiting for the facts of a session must not hold a compute slot.
            page.slot = None;
            self.assess_hit(&key, &event, &shown, &events, &mut page.reads).await
        };
        if standing.forgotten.contains(&event.position) {
            return Ok(None);
        }
        neighbours.retain(|one| !standing.forgotten.contains(&one.position));
        // An equal passage with other marks or doubts is a separate hit.
        let mut hasher = DefaultHasher::new();
        (passage, standing.marked.len(), standing.doubt.is_some()).hash(&mut hasher);
        let ends = events.first().zip(events.last());
        let range = ends.map(|(first, last)| Range::new(first.position, last.position.plus(1)));
        let hit = Hit {
            title: info.title.clone(),
            workspace: info.workspace.clone(),
            position: found.position,
            range: range.unwrap_or(Range::new(found.position, found.position.plus(1))),
            kind: event.kind.clone(),
            at: event.happened_at(),
            who,
            origin: event.origin.into(),
            score: found.score,
            why: found.why,
            snippet: Snippet { marks: char_ranges(&shown), text: shown.text },
            around: neighbours,
            repeated: 0,
            memory: parse_memory(&event),
            marks: standing.marked,
            stale: standing.doubt,
            unchecked: standing.unchecked,
            session,
        };
        Ok(Some((hasher.finish(), hit)))
    }
}

/// Formats the event at a position and its adjacent events; `None` if the query does not match the
/// current content there.
fn format_hit(
    query: &ParsedQuery,
    (position, piece, is_by_words): (Position, u16, bool),
    events: Vec<Event>,
    near: Vec<Event>,
) -> Option<FormattedHit> {
    let event = events.iter().find(|event| event.position == position)?.clone();
    pace::steps(1 + event.body.len() / BYTES_OF_A_STEP);
    let content = EventText::from_event(&event);
    let matches = is_by_words || query.allows_event(&event, content.speaker.as_deref());
    if content.text.is_empty() || !query.matches_phrases(&content.text) || !matches {
        return None;
    }
    let item = hit_text::record_text(&event);
    let passage = item.as_deref().unwrap_or_else(|| content.piece(piece));
    let shown =
        hit_text::format_match(query.snippet_query(), &event, passage, &near, SNIPPET_BYTES);
    let mut hasher = DefaultHasher::new();
    passage.hash(&mut hasher);
    pace::steps(1 + body_bytes(&near) / BYTES_OF_A_STEP);
    let neighbours = events.iter().filter(|event| event.position != position).filter_map(|event| {
        pace::steps(1 + event.body.len() / BYTES_OF_A_STEP);
        let text = fit(&hit_text::neighbour_text(event), NEIGHBOUR_BYTES).text;
        let (position, kind) = (event.position, event.kind.clone());
        (!text.is_empty()).then_some(Neighbour { position, kind, text })
    });
    let neighbours = neighbours.collect();
    Some(FormattedHit {
        who: content.speaker,
        shown,
        passage: hasher.finish(),
        neighbours,
        event,
        events,
    })
}

fn body_bytes(events: &[Event]) -> usize {
    events.iter().map(|event| event.body.len()).sum()
}

pub(super) fn hit_bytes(hit: &Hit) -> usize {
    let neighbours = hit.around.iter().map(|one| json_bytes(&one.text) + NEIGHBOUR_FRAME_BYTES);
    FRAME_BYTES + json_bytes(&hit.snippet.text) + neighbours.sum::<usize>()
}

/// Event ranked by its words, by its vector, or by both. With vectors, the ranks in both orders are
/// combined instead of the scores, which have no common scale.
pub(super) struct RankedEvent {
    hash: SessionHash,
    session: SessionId,
    position: Position,
    piece: u16,
    score: f32,
    why: Why,
    /// True if the words of the query found it; that search already applies the filters.
    is_by_words: bool,
}

impl RankedEvent {
    /// Merges the hits by words and by vectors into one order.
    pub(super) fn merge(hits: Vec<search::SearchHit>, near: Vec<NearPassage>) -> Vec<Self> {
        let mut indexes = HashMap::new();
        let mut all: Vec<Self> = Vec::new();
        let is_fused = !near.is_empty();
        for (rank, hit) in hits.into_iter().enumerate() {
            indexes.insert((hit.hash, hit.position), all.len());
            let search::SearchHit { hash, session, position, piece, score, why, .. } = hit;
            let score = if is_fused { rank_weight(rank) } else { score };
            all.push(Self { hash, session, position, piece, score, why, is_by_words: true });
        }
        let mut rank = 0;
        for near in near.into_iter().take(NEAR_MAX) {
            let NearPassage { hash, session, position, piece, .. } = near;
            let at = *indexes.entry((hash, position)).or_insert_with(|| {
                let (why, score) = (Why::default(), 0.0);
                all.push(Self { hash, session, position, piece, score, why, is_by_words: false });
                all.len() - 1
            });
            // Only the nearest piece of an event counts, which comes first.
            if let Some(one) = all.get_mut(at).filter(|one| one.why.meaning == 0.0) {
                one.why.meaning = MEANING * rank_weight(rank);
                one.score += one.why.meaning;
                rank += 1;
            }
        }
        if is_fused {
            all.sort_by(|one, other| other.score.total_cmp(&one.score));
        }
        all
    }
}

/// Returns the weight of a rank: 1 for the first, and less for later ones.
fn rank_weight(rank: usize) -> f32 {
    (RANKS + 1.0) / (RANKS + 1.0 + rank as f32)
}

fn parse_memory(event: &Event) -> Option<Memory> {
    let is_item = event.kind.as_str() == kinds::MEMORY_ITEM;
    let body: MemoryBody = is_item.then(|| body::read(&event.body)).flatten()?;
    let kind = MemoryKind::parse(&body.kind)?.as_str().to_owned();
    let (topic, importance) = (body.topic, body.importance);
    Some(Memory { memory_id: event.id.clone(), kind, topic, importance })
}

/// Returns the ranges of the matched words in a snippet, in characters.
fn char_ranges(shown: &search::PassageSnippet) -> Vec<(u64, u64)> {
    let count = |end: usize| shown.text.get(..end).unwrap_or_default().chars().count() as u64;
    shown.marks.iter().map(|mark| (count(mark.start), count(mark.end))).collect()
}
