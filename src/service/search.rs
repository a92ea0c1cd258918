//! Searching all sessions of a caller: the index says which events, the log says what they say
//! (`hits`). It must not compare words: `search` does.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, Window,
    embedding::{MeaningOf, VectorsBehind},
    error::{check_chars, check_count},
    hits::{Found, Hit, IN_ROW_MAX, Looked},
    indexing::{Coverage, ScopeIndex, Served},
    memory::kinds_of,
    page,
    places::Place,
    room::Held,
};
use crate::{
    event::{EventType, Position, Range, SessionHash, SessionId, TenantId, Timestamp, kinds},
    search::{self, Near, Order, Part, Ranked, SearchQuery, SessionRef, rank},
};

/// Hits of a page, by default and at most, and hits of all pages at most.
const HITS_DEFAULT: usize = 10;
const HITS_MAX: usize = 100;
const RANKED_MAX: usize = 1_000;
/// Events on either side of a hit at most.
const AROUND_MAX: u64 = 5;
/// How long a search catches up with what was written before it.
pub(super) const CATCH_UP: Duration = Duration::from_millis(50);
/// Bytes that a token takes in an answer, about.
const TOKEN_BYTES: usize = 4;
/// How many times the hits of a page are ranked, because some say the same.
const REPEATS: usize = 4;
/// Hits that are ranked beyond a page, in place of those that the log does not serve any more.
const SPARE: usize = 20;
/// Candidates that are read, and for how long, where a text must be there exactly.
const VERIFIED_MAX: usize = 200;
const VERIFIED_FOR: Duration = Duration::from_millis(100);
/// Bytes that a search holds mostly: its hits before a page is cut from them, a page with what is
/// beside its hits, and an event with its text. One event may be larger.
pub(super) const SEARCH_BYTES: usize = 2 << 20;
/// Sessions that a fork reads from, as far as it is searched.
const ANCESTORS_MAX: usize = 100;

/// What to search for.
#[derive(Clone, Debug, Default)]
pub struct SearchCall {
    /// Words, with operators.
    pub words: String,
    /// Only this session; of a fork also what it has of its parents.
    pub session: Option<SessionId>,
    /// Only what is below this position; then the search waits for this of `session` alone.
    pub below: Option<Position>,
    /// Only sessions of this workspace, by its whole name.
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
    /// The workspaces that a `workspace:` of the query means, up to 100: it may be a part of
    /// several names.
    pub workspaces: Vec<String>,
    /// Whether a check ended at its limit, so that more may match.
    pub limited: bool,
    /// The cursor of the next page.
    pub next_page: Option<String>,
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
    /// computations of the tenant wait, or there is no room for one more.
    pub async fn search(&self, caller: &Caller, asked: SearchCall) -> ServiceResult<SearchResult> {
        self.searched(caller, asked, true).await
    }

    /// [`Self::search`], which asks for room or has [`SEARCH_BYTES`] of that of its caller.
    pub(super) async fn searched(
        &self,
        caller: &Caller,
        asked: SearchCall,
        asks_for_room: bool,
    ) -> ServiceResult<SearchResult> {
        self.must_be_searchable()?;
        let query = Arc::new(asked.parsed(self.now())?);
        let (limit, skip) = asked.bounds()?;
        let family = match &asked.session {
            Some(session) => Some(self.line_of(caller, session, asked.below).await?),
            None => None,
        };
        let lacks = |index: &ScopeIndex| family.as_ref().is_some_and(|line| index.lacks(line));
        let has_enough =
            |index: &ScopeIndex| index.is_caught_up() || asked.below.is_some() && !lacks(index);
        let caught_up = self.caught_up(&caller.scope, CATCH_UP + asked.wait, has_enough);
        let ((index, is_noted), vector) = tokio::join!(caught_up, self.meant_by(&asked));
        let lacks_session = !is_noted || lacks(&index);
        let mut result = SearchResult { is_noted, lacks_session, ..SearchResult::default() };
        result.meaning = vector.as_ref().and_then(|vector| {
            let meaning = if vector.is_some() { MeaningOf::Used } else { MeaningOf::Absent };
            Some((meaning, self.embedding.as_ref()?.behind(&caller.scope)))
        });
        let _room = self.room_of_search(&caller.scope.tenant, asks_for_room).await?;
        let mut place = self.places.ask(&caller.scope.tenant).await?;
        (place, result.workspaces) = self.meant_workspaces(&index, &query, place).await?;
        let vector = vector.flatten();
        let spare = if query.needs_text() { VERIFIED_MAX } else { SPARE };
        let wanted = (skip + REPEATS * limit + spare).clamp(IN_ROW_MAX, RANKED_MAX);
        let of = (Arc::clone(&index), vector);
        let ranking = self.ranking(of, Arc::clone(&query), &asked, family, wanted);
        let (mut place, (mut ranked, near)) = place.run(ranking).await?;
        if !asked.newest_first {
            place = self.add_rows(caller, &query, &mut ranked.hits, place).await?;
        }
        (result.limited, result.coverage) = (ranked.limited, index.coverage());
        let is_cut = ranked.hits.len() == wanted && wanted < RANKED_MAX;
        let found = Found::of(ranked.hits, near);
        let until = self.monotonic() + VERIFIED_FOR;
        let mut bytes_left = asked.tokens_max.map_or(usize::MAX, |tokens| tokens * TOKEN_BYTES);
        let mut looked = Looked::new(place);
        let mut texts = HashMap::<u64, usize>::new();
        for (at, found) in found.into_iter().enumerate().skip(skip) {
            let next_page = || Some(page::seal("q", &[&at.to_string()]));
            if result.hits.len() == limit || looked.is_spent() {
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
        looked.name_hurt(&mut result.coverage);
        Ok(result)
    }

    /// The room of a search, which it takes once it has waited for the index.
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

    /// The workspaces that the words of a query mean by a part of their names.
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

    /// The vector of what is asked for; `None` where none is wanted, an empty one where there is
    /// none in time.
    async fn meant_by(&self, asked: &SearchCall) -> Option<Option<Vec<f32>>> {
        match asked.words_alone || asked.newest_first {
            true => None,
            false => self.meant(&asked.words, plain).await,
        }
    }

    /// Ranks what matches, as a computation that owns all it needs.
    fn ranking(
        &self,
        (index, vector): (Arc<ScopeIndex>, Option<Vec<f32>>),
        query: Arc<SearchQuery>,
        asked: &SearchCall,
        family: Option<Family>,
        wanted: usize,
    ) -> impl FnOnce() -> (Ranked, Vec<Near>) + Send + 'static {
        let (archived, newest_first) = (asked.include_archived, asked.newest_first);
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
            let order = if newest_first { Order::Time } else { Order::Score };
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
        check_count("types", self.types.len())?;
        check_count("kinds", self.kinds.len())?;
        check_chars("workspace", self.workspace.as_deref())?;
        check_chars("who", self.who.as_deref())?;
        if !self.kinds.is_empty() && !self.types.is_empty() {
            return Err(ServiceError::invalid("kinds", "they do not go with types"));
        }
        let wrong = |error| ServiceError::invalid("q", error);
        let mut query = match self.words.trim() {
            "" if self.has_filter() => SearchQuery::everything(),
            words => SearchQuery::parse(words, now).map_err(wrong)?,
        };
        let memory = (!self.kinds.is_empty()).then_some(kinds::MEMORY_ITEM);
        let types: Vec<&str> = self.types.iter().map(EventType::as_str).chain(memory).collect();
        let beside = search::Beside {
            types: &types,
            workspace: self.workspace.as_deref(),
            who: self.who.as_deref(),
            origin: self.origin.as_deref(),
        };
        let limited = query.limit(beside, now);
        limited.map_err(|fault| ServiceError::invalid("origin", fault))?;
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

fn open_page(page: &str) -> ServiceResult<usize> {
    let [skip] = page::open::<1>("q", page)?;
    let skip = skip.parse().ok().filter(|skip| *skip < RANKED_MAX);
    skip.ok_or_else(|| ServiceError::invalid("page", "this is no page of this search"))
}
