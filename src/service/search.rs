//! Search in all sessions of a caller: the index finds the events, and `hits` reads their content
//! from the log. It must not compare words: `search` does.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Caller, Code, Service, ServiceError, ServiceResult,
    error::{check_chars, check_count},
    hits::{IN_ROW_MAX, PageBudget, RankedEvent, bytes_of_hit},
    indexing::{ScopeIndex, Served},
    memory::kinds_of,
    page,
    places::Place,
    room::Held,
    values::{self, Times},
};
use crate::{
    api::{
        memory::MarkKind,
        scalar::Word,
        search::{Complete, Hit, MeaningOf, SearchAnswer, SearchBody, VectorsBehind},
    },
    event::{
        EventType, Origin, Position, Range, SessionHash, SessionId, TenantId, Timestamp, kinds,
        text::TOKEN_BYTES,
    },
    harness::{Budget, TOKEN_BYTES_LEAST, TRUST, quote, speaks_of_it},
    search::{self, HitOrder, Near, Part, Ranked, SearchQuery, SessionRef, rank},
};

/// Default and maximum number of hits of a page, and maximum number of all ranked hits.
const HITS_DEFAULT: usize = 10;
const HITS_MAX: usize = 100;
const RANKED_MAX: usize = 1_000;
/// Maximum number of events on either side of a hit.
const AROUND_MAX: u64 = 5;
/// Maximum milliseconds that a search may wait for the index to catch up.
const WAIT_MS_MAX: u64 = 60_000;
/// Default time that a search waits for the index to catch up with earlier writes.
pub(super) const CATCH_UP: Duration = Duration::from_millis(50);
/// Number of hits from which those for an unrequested recall are chosen.
const CANDIDATES: usize = 12;
/// Types of events recalled from other sessions.
pub(super) const RECALLED_TYPES: [&str; 4] =
    [kinds::USER_MESSAGE, kinds::AGENT_MESSAGE, kinds::RESEARCH_STEP, kinds::MEMORY_ITEM];
/// Maximum bytes of the text that the model has already.
const GIVEN_BYTES_MAX: usize = 256 << 10;
/// Bytes of such a hit in addition to its text.
const FRAME_BYTES: usize = 160;
/// Separator of an item's text from its members.
const MEMBERS: &str = "\nkind: ";
/// Ranked hits per hit of a page, because some are repeats.
const REPEATS: usize = 4;
/// Additional ranked hits, to replace those that the log no longer returns.
const SPARE: usize = 20;
/// Maximum number of candidates read, and the time for it, if an exact text is required.
const VERIFIED_MAX: usize = 200;
const VERIFIED_FOR: Duration = Duration::from_millis(100);
/// Typical bytes used by a search: its hits before a page is cut, a page with adjacent events, and
/// one event with its text. A single event may be larger.
pub(super) const SEARCH_BYTES: usize = 2 << 20;
/// Maximum number of a fork's ancestors that are searched.
const ANCESTORS_MAX: usize = 100;

/// Restrictions of an internal search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Within {
    /// End of the searched part of the wanted session; then only this part of the index is awaited.
    pub(super) below: Option<Position>,
    /// True to skip the vector search.
    pub(super) words_alone: bool,
}

/// Result of a search; true if the index is behind for the wanted session.
pub(super) struct Searched {
    pub(super) answer: SearchAnswer,
    pub(super) lacks_session: bool,
}

/// Limits of a page.
#[derive(Clone, Copy)]
struct Bounds {
    /// Number of hits on the page, and before it.
    limit: usize,
    skip: usize,
    /// Number of events on either side of a hit.
    around: u64,
    /// Approximate bytes of the hits.
    bytes_max: usize,
}

/// Sessions included in one search, each with the end of its positions.
type Family = HashMap<SessionId, Position>;

impl Service {
    /// Returns the matching events of the caller's sessions, best or newest first. An event is
    /// found in the session that wrote it, also by a search in a fork that shares it; if that
    /// session is deleted or expired, in its oldest fork with the event.
    ///
    /// # Errors
    /// `invalid_request` for a query that does not parse (field `q`), a limit out of bounds or a
    /// foreign page; `session_not_found` for the wanted session; `limit_reached` while too many
    /// computations of the tenant wait or memory is exhausted.
    pub async fn search(&self, caller: &Caller, asked: SearchBody) -> ServiceResult<SearchAnswer> {
        if asked.recall {
            return self.recall_hits(caller, asked).await;
        }
        Ok(self.searched(caller, &asked, Within::default(), true).await?.answer)
    }

    /// Searches without a model's request: returns only the best matches that may be recalled.
    async fn recall_hits(
        &self,
        caller: &Caller,
        mut asked: SearchBody,
    ) -> ServiceResult<SearchAnswer> {
        if asked.given.len() > GIVEN_BYTES_MAX {
            let problem = format!("at most {GIVEN_BYTES_MAX} bytes");
            return Err(ServiceError::invalid("given", problem));
        }
        let (limit, tokens_max) = (bounds(&asked)?.limit, asked.tokens_max);
        if asked.types.is_empty() && asked.kinds.is_empty() {
            asked.types = RECALLED_TYPES.map(str::to_owned).into();
        }
        // Of each hit the passage alone is shown, so the budget is of passages.
        let wider = SearchBody { limit: Some(CANDIDATES), tokens_max: None, around: None, ..asked };
        let mut answer = self.searched(caller, &wider, Within::default(), true).await?.answer;
        let room = tokens_max.map_or(usize::MAX, |tokens| tokens.saturating_mul(TOKEN_BYTES_LEAST));
        let mut budget = Budget::new(room);
        let hits = answer.hits.into_iter().filter(may_be_shown).map(words_alone);
        let hits = hits.filter(|hit| {
            let text = &hit.snippet.text;
            !wider.given.contains(&quote::item(text)) && budget.spend(text.len() + FRAME_BYTES)
        });
        answer.hits = hits.take(limit).collect();
        answer.next_page = None;
        Ok(answer)
    }

    /// Like [`Self::search`]; reserves memory, or uses [`SEARCH_BYTES`] reserved by its caller.
    pub(super) async fn searched(
        &self,
        caller: &Caller,
        asked: &SearchBody,
        within: Within,
        asks_for_room: bool,
    ) -> ServiceResult<Searched> {
        self.check_search_enabled()?;
        let (wait, newest_first) = (wait_time(asked)?, newest_first(asked)?);
        let session = values::session("session", asked.session.as_deref())?;
        let query = Arc::new(parse_query(asked, self.now())?);
        let bounds = bounds(asked)?;
        let family = match &session {
            Some(session) => Some(self.line_of(caller, session, within.below).await?),
            None => None,
        };
        let lacks = |index: &ScopeIndex| family.as_ref().is_some_and(|line| index.lacks(line));
        let has_enough =
            |index: &ScopeIndex| index.is_caught_up() || within.below.is_some() && !lacks(index);
        let caught_up = self.caught_up(&caller.scope, CATCH_UP + wait, has_enough);
        let words = (!within.words_alone && !newest_first).then_some(&*asked.q);
        let ((index, is_noted), vector) = tokio::join!(caught_up, self.vector_of_query(words));
        let lacks_session = !is_noted || lacks(&index);
        let meaning = vector.as_ref().and_then(|vector| {
            let meaning = if vector.is_some() { MeaningOf::Used } else { MeaningOf::Absent };
            Some((meaning, self.embedding.as_ref()?.behind(&caller.scope)))
        });
        let _room = self.room_of_search(&caller.scope.tenant, asks_for_room).await?;
        let place = self.places.ask(&caller.scope.tenant).await?;
        let (place, workspaces) = self.meant_workspaces(&index, &query, place).await?;
        let spare = if query.needs_text() { VERIFIED_MAX } else { SPARE };
        let wanted = (bounds.skip + REPEATS * bounds.limit + spare).clamp(IN_ROW_MAX, RANKED_MAX);
        let of = (Arc::clone(&index), vector.flatten());
        let order = if newest_first { HitOrder::Time } else { HitOrder::Score };
        let how = (order, asked.include_archived);
        let ranking = self.ranking(of, Arc::clone(&query), how, family, wanted);
        let (mut place, (mut ranked, near)) = place.run(ranking).await?;
        if !newest_first {
            place = self.add_rows(caller, &query, &mut ranked.hits, place).await?;
        }
        let mut answer = SearchAnswer {
            hits: Vec::new(),
            complete: with_meaning(index.coverage(), is_noted, meaning),
            workspaces,
            limited: ranked.limited,
            next_page: None,
            trust: TRUST.to_owned(),
        };
        let is_cut = ranked.hits.len() == wanted && wanted < RANKED_MAX;
        let found = RankedEvent::merged(ranked.hits, near);
        let mut looked = PageBudget::new(place);
        self.add_page(caller, (&query, &index), found, bounds, &mut looked, &mut answer).await?;
        if is_cut && answer.next_page.is_none() {
            answer.next_page = Some(page::seal("q", &[&wanted.to_string()]));
        }
        looked.name_hurt(&mut answer.complete);
        Ok(Searched { answer, lacks_session })
    }

    /// Adds one page of the ranked events to the response, without repeats and within the limits.
    async fn add_page(
        &self,
        caller: &Caller,
        (query, index): (&Arc<SearchQuery>, &ScopeIndex),
        found: Vec<RankedEvent>,
        bounds: Bounds,
        looked: &mut PageBudget,
        answer: &mut SearchAnswer,
    ) -> ServiceResult<()> {
        let Bounds { limit, skip, around, bytes_max } = bounds;
        let until = self.monotonic() + VERIFIED_FOR;
        let mut budget = Budget::new(bytes_max);
        let mut texts = HashMap::<u64, usize>::new();
        for (at, found) in found.into_iter().enumerate().skip(skip) {
            let next_page = || Some(page::seal("q", &[&at.to_string()]));
            if answer.hits.len() == limit || looked.is_spent() {
                answer.next_page = next_page();
                break;
            }
            if query.needs_text() && (at - skip >= VERIFIED_MAX || self.monotonic() > until) {
                (answer.limited, answer.next_page) = (true, next_page());
                break;
            }
            let shown = self.shown(caller, query, index, &found, around, looked).await?;
            let Some((text, hit)) = shown else { continue };
            if let Some(first) = texts.get(&text).and_then(|first| answer.hits.get_mut(*first)) {
                first.repeated += 1;
                continue;
            }
            let bytes = bytes_of_hit(&hit);
            if bytes > budget.left() && !answer.hits.is_empty() {
                answer.next_page = next_page();
                break;
            }
            budget.spend_up_to(bytes);
            texts.insert(text, answer.hits.len());
            answer.hits.push(hit);
        }
        Ok(())
    }

    /// Reserves the memory of a search after it has waited for the index.
    async fn room_of_search(
        &self,
        tenant: &TenantId,
        asks_for_room: bool,
    ) -> ServiceResult<Option<Held>> {
        match asks_for_room {
            true => self.room(tenant, SEARCH_BYTES).await.map(Some),
            false => Ok(None),
        }
    }

    fn check_search_enabled(&self) -> ServiceResult<()> {
        if self.indexing.is_enabled() {
            return Ok(());
        }
        let message = "searching is turned off on this server";
        Err(ServiceError::new(Code::InvalidRequest, message)
            .action("the operator turns it on by the setting search"))
    }

    /// Returns a session and its ancestors, each with the end of the events that it shares.
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

    /// Returns the workspaces whose names partly match words of a query.
    async fn meant_workspaces(
        &self,
        index: &Arc<ScopeIndex>,
        query: &Arc<SearchQuery>,
        place: Place,
    ) -> ServiceResult<(Place, Vec<String>)> {
        if !query.filters.names_workspaces() {
            return Ok((place, Vec::new()));
        }
        let (index, query) = (Arc::clone(index), Arc::clone(query));
        place.run(move || index.workspaces(|name| query.filters.admits_workspace(Some(name)))).await
    }

    /// Returns the vector of the query; outer `None` if not wanted, inner `None` if not in time.
    async fn vector_of_query(&self, words: Option<&str>) -> Option<Option<Vec<f32>>> {
        self.meant(words?, plain).await
    }

    /// Returns a computation that ranks the matches and owns its inputs.
    fn ranking(
        &self,
        (index, vector): (Arc<ScopeIndex>, Option<Vec<f32>>),
        query: Arc<SearchQuery>,
        (order, archived): (HitOrder, bool),
        family: Option<Family>,
        wanted: usize,
    ) -> impl FnOnce() -> (Ranked, Vec<Near>) + Send + 'static {
        let service = self.clone();
        move || {
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
            let mut ranked = service.over(&index, |parts| {
                let parts = parts.iter().filter_map(|bytes| Part::trusted(bytes).ok());
                rank(&parts.collect::<Vec<_>>(), &query, &keep, order, wanted)
            });
            let near = vector.as_ref();
            let near = near.map(|vector| service.near(&index.scope, vector, &keep));
            let mut near = near.unwrap_or_default();
            for hit in &mut ranked.hits {
                serve_from(served(hit.hash), hit.position, (&mut hit.hash, &mut hit.session));
            }
            for one in &mut near {
                serve_from(served(one.hash), one.position, (&mut one.hash, &mut one.session));
            }
            (ranked, near)
        }
    }
}

/// Returns true if a hit is about the words of the query and is known not to be marked as wrong.
pub(super) fn speaks_of_words(hit: &Hit) -> bool {
    speaks_of_it(&hit.snippet.text, &hit.snippet.marks, f64::from(hit.why.words))
        && !hit.unchecked
        && hit.marks.iter().all(|mark| mark.kind != MarkKind::Wrong)
}

/// Returns true if users or agents wrote it, not a tool or a web page.
pub(super) fn is_said(hit: &Hit) -> bool {
    hit.origin != Origin::Tool && hit.origin != Origin::Web
}

/// Returns true if a hit may be recalled without a request: no evidence is against it. A user's
/// message about a file stays valid when the file changes.
fn may_be_shown(hit: &Hit) -> bool {
    let is_current = hit.stale.is_none() || hit.kind.as_str() == kinds::USER_MESSAGE;
    is_said(hit) && is_current && speaks_of_words(hit)
}

/// Returns the hit with only the text of an item of memory: without its kind, name and source.
fn words_alone(mut hit: Hit) -> Hit {
    let is_item = hit.kind.as_str() == kinds::MEMORY_ITEM;
    if let Some(end) = hit.snippet.text.find(MEMBERS).filter(|_| is_item) {
        hit.snippet.text.truncate(end);
        let chars = hit.snippet.text.chars().count() as u64;
        hit.snippet.marks.retain(|(_, to)| *to <= chars);
    }
    hit
}

/// Returns the requested time that a search waits for the index.
fn wait_time(asked: &SearchBody) -> ServiceResult<Duration> {
    match asked.wait_ms {
        0..=WAIT_MS_MAX => Ok(Duration::from_millis(asked.wait_ms)),
        _ => Err(ServiceError::invalid("wait_ms", format!("at most {WAIT_MS_MAX}"))),
    }
}

fn newest_first(asked: &SearchBody) -> ServiceResult<bool> {
    match asked.order.as_deref() {
        None | Some("score") => Ok(false),
        Some("time") => Ok(true),
        Some(_) => Err(ServiceError::invalid("order", "score or time is expected")),
    }
}

fn bounds(asked: &SearchBody) -> ServiceResult<Bounds> {
    let (limit, around) = (asked.limit.unwrap_or(HITS_DEFAULT), asked.around.unwrap_or(0));
    if limit == 0 || limit > HITS_MAX {
        let problem = format!("from 1 to {HITS_MAX}, not {limit}");
        return Err(ServiceError::invalid("limit", problem));
    }
    if around > AROUND_MAX {
        return Err(ServiceError::invalid("around", format!("at most {AROUND_MAX}")));
    }
    let skip = asked.page.as_deref().map(open_page).transpose()?.unwrap_or(0);
    let bytes_max =
        asked.tokens_max.map_or(usize::MAX, |tokens| tokens.saturating_mul(TOKEN_BYTES));
    Ok(Bounds { limit, skip, around, bytes_max })
}

fn parse_query(asked: &SearchBody, now: Timestamp) -> ServiceResult<SearchQuery> {
    let types = values::types(&asked.types)?;
    let (gte, lt) = (asked.after.as_deref(), asked.before.as_deref());
    let window = Times { gte, lt, ..Times::default() }.window()?;
    check_count("kinds", asked.kinds.len())?;
    check_chars("workspace", asked.workspace.as_deref())?;
    check_chars("who", asked.who.as_deref())?;
    if !asked.kinds.is_empty() && !types.is_empty() {
        return Err(ServiceError::invalid("kinds", "they do not go with types"));
    }
    let texts = [&asked.workspace, &asked.who, &asked.origin, &asked.session];
    let has_filter = texts.iter().any(|text| text.is_some())
        || !types.is_empty()
        || !asked.kinds.is_empty()
        || window.from.or(window.to).is_some();
    let wrong = |error| ServiceError::invalid("q", error);
    let mut query = match asked.q.trim() {
        "" if has_filter => SearchQuery::everything(),
        words => SearchQuery::parse(words, now).map_err(wrong)?,
    };
    let memory = (!asked.kinds.is_empty()).then_some(kinds::MEMORY_ITEM);
    let types: Vec<&str> = types.iter().map(EventType::as_str).chain(memory).collect();
    let beside = search::Beside {
        types: &types,
        workspace: asked.workspace.as_deref(),
        who: asked.who.as_deref(),
        origin: asked.origin.as_deref(),
    };
    let limited = query.limit(beside, now);
    limited.map_err(|fault| ServiceError::invalid("origin", fault))?;
    let kinds = kinds_of("kinds", &asked.kinds)?;
    if !kinds.is_empty() {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        query.narrow_to_kinds(&names);
    }
    let filters = &mut query.filters;
    filters.after = filters.after.max(window.from);
    filters.before = filters.before.into_iter().chain(window.to).min();
    Ok(query)
}

/// Combines the coverage of the index and of the vectors.
fn with_meaning(
    complete: Complete,
    is_noted: bool,
    meaning: Option<(MeaningOf, VectorsBehind)>,
) -> Complete {
    let (meaning, vectors) = meaning.unzip();
    let is_of_note = |one: &VectorsBehind| one.events > 0 || one.problem.is_some();
    let is_complete = is_noted && complete.is_complete;
    let meaning = meaning.map(Word::from);
    Complete { is_complete, meaning, vectors_behind: vectors.filter(is_of_note), ..complete }
}

/// Returns the words of a query without operators.
fn plain(words: &str) -> String {
    let is_plain = |word: &&str| !word.starts_with('-') && !word.contains(':');
    let words = words.split_whitespace().filter(is_plain);
    let plain: Vec<&str> = words.map(|word| word.trim_matches(['"', '+', '*'])).collect();
    plain.join(" ").trim().to_owned()
}

/// Replaces the session that wrote an event by the one that returns its position.
fn serve_from(
    servers: Vec<Served>,
    position: Position,
    (hash, session): (&mut SessionHash, &mut SessionId),
) {
    if let Some(one) = servers.into_iter().find(|one| one.range.contains(position)) {
        (*hash, *session) = (one.hash, one.session);
    }
}

fn open_page(page: &str) -> ServiceResult<usize> {
    let [skip] = page::open::<1>("q", page)?;
    let skip = skip.parse().ok().filter(|skip| *skip < RANKED_MAX);
    skip.ok_or_else(|| ServiceError::invalid("page", "this is no page of this search"))
}
