//! Search in all sessions of a caller: the index finds the events, and `hits` reads their content
//! from the log. It must not compare words: `search` does.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Caller, Code, Service, ServiceError, ServiceResult,
    compute::ComputeSlot,
    error::{check_chars, check_count},
    hits::{IN_ROW_MAX, PageBudget, RankedEvent, hit_bytes},
    indexing::{ScopeIndex, ServedRange},
    memory::parse_kinds,
    memory_budget::Reservation,
    page,
    values::{self, TimeBounds},
};
use crate::{
    api::{
        memory::MarkKind,
        scalar::OpenEnum,
        search::{Complete, Hit, MeaningUse, SearchAnswer, SearchBody, VectorsBehind},
    },
    event::{
        EventType, Origin, Position, Range, SessionHash, SessionId, TenantId, Timestamp, kinds,
        text::TOKEN_BYTES,
    },
    harness::{Budget, TOKEN_BYTES_LEAST, TRUST, is_relevant, quote},
    search::{self, HitOrder, NearPassage, ParsedQuery, Part, RankedHits, SessionRef, rank},
};

/// Default and maximum number of hits of a page, and maximum number of all ranked hits.
const HITS_DEFAULT: usize = 10;
const HITS_MAX: usize = 100;
const RANKED_MAX: usize = 1_000;
/// Maximum number of events on either side of a hit.
const AROUND_MAX: u64 = 5;
/// Maximum milliseconds that a search may wait for the index to catch up.
const WAIT_MS_MAX: u64 = 60_000;
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
pub(super) struct SearchLimits {
    /// End of the searched part of the wanted session; then only this part of the index is awaited.
    pub(super) below: Option<Position>,
    /// True to skip the vector search.
    pub(super) skip_vectors: bool,
}

/// Result of a search; true if the index is behind for the wanted session.
pub(super) struct SearchResult {
    pub(super) answer: SearchAnswer,
    pub(super) lacks_session: bool,
}

#[derive(Clone, Copy)]
struct PageLimits {
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
        Ok(self.run_search(caller, &asked, SearchLimits::default(), true).await?.answer)
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
        let (limit, tokens_max) = (parse_bounds(&asked)?.limit, asked.tokens_max);
        if asked.types.is_empty() && asked.kinds.is_empty() {
            asked.types = RECALLED_TYPES.map(str::to_owned).into();
        }
        // Of each hit the passage alone is shown, so the budget is of passages.
        let wider = SearchBody { limit: Some(CANDIDATES), tokens_max: None, around: None, ..asked };
        let mut answer =
            self.run_search(caller, &wider, SearchLimits::default(), true).await?.answer;
        let room = tokens_max.map_or(usize::MAX, |tokens| tokens.saturating_mul(TOKEN_BYTES_LEAST));
        let mut budget = Budget::new(room);
        let hits = answer.hits.into_iter().filter(may_be_recalled).map(without_item_members);
        let hits = hits.filter(|hit| {
            let text = &hit.snippet.text;
            !wider.given.contains(&quote::escape_item(text))
                && budget.spend(text.len() + FRAME_BYTES)
        });
        answer.hits = hits.take(limit).collect();
        answer.next_page = None;
        Ok(answer)
    }

    /// Runs a search; reserves memory, or uses [`SEARCH_BYTES`] reserved by its caller.
    pub(super) async fn run_search(
        &self,
        caller: &Caller,
        asked: &SearchBody,
        within: SearchLimits,
        reserves_memory: bool,
    ) -> ServiceResult<SearchResult> {
        self.check_search_enabled()?;
        let (wait, newest_first) = (parse_wait(asked)?, parse_newest_first(asked)?);
        let session = values::parse_session("session", asked.session.as_deref())?;
        let query = Arc::new(parse_query(asked, self.now())?);
        let bounds = parse_bounds(asked)?;
        let family = match &session {
            Some(session) => Some(self.list_family(caller, session, within.below).await?),
            None => None,
        };
        let lacks =
            |index: &ScopeIndex| family.as_ref().is_some_and(|line| index.lacks_events_of(line));
        let has_enough =
            |index: &ScopeIndex| index.is_caught_up() || within.below.is_some() && !lacks(index);
        let caught_up = self.wait_for_index(&caller.scope, wait, has_enough);
        let words = (!within.skip_vectors && !newest_first).then_some(&*asked.q);
        let ((index, has_all_changes), vector) = tokio::join!(caught_up, self.query_vector(words));
        let lacks_session = !has_all_changes || lacks(&index);
        let meaning = vector.as_ref().and_then(|vector| {
            let meaning = if vector.is_some() { MeaningUse::Used } else { MeaningUse::Absent };
            Some((meaning, self.embedding.as_ref()?.count_behind(&caller.scope)))
        });
        let _memory = self.reserve_search_memory(&caller.scope.tenant, reserves_memory).await?;
        let slot = self.compute.acquire(&caller.scope.tenant).await?;
        let (slot, workspaces) = self.list_matching_workspaces(&index, &query, slot).await?;
        let spare = if query.needs_text() { VERIFIED_MAX } else { SPARE };
        let wanted = (bounds.skip + REPEATS * bounds.limit + spare).clamp(IN_ROW_MAX, RANKED_MAX);
        let of = (Arc::clone(&index), vector.flatten());
        let order = if newest_first { HitOrder::Time } else { HitOrder::Score };
        let how = (order, asked.include_archived);
        let ranking = self.prepare_ranking(of, Arc::clone(&query), how, family, wanted);
        let (mut slot, (mut ranked, near, covered)) = slot.run(ranking).await?;
        if !newest_first {
            slot = self.add_phrase_scores(caller, &query, &mut ranked.hits, slot).await?;
        }
        let mut answer = SearchAnswer {
            hits: Vec::new(),
            complete: merge_coverage(covered, has_all_changes, meaning),
            workspaces,
            limited: ranked.limited,
            next_page: None,
            trust: TRUST.to_owned(),
        };
        let is_cut = ranked.hits.len() == wanted && wanted < RANKED_MAX;
        let found = RankedEvent::merge(ranked.hits, near);
        let mut page = PageBudget::new(slot);
        self.add_page(caller, (&query, &index), found, bounds, &mut page, &mut answer).await?;
        if is_cut && answer.next_page.is_none() {
            answer.next_page = Some(page::encode("q", &[&wanted.to_string()]));
        }
        page.report_unreadable(&mut answer.complete);
        Ok(SearchResult { answer, lacks_session })
    }

    /// Adds one page of the ranked events to the response, without repeats and within the limits.
    async fn add_page(
        &self,
        caller: &Caller,
        (query, index): (&Arc<ParsedQuery>, &ScopeIndex),
        found: Vec<RankedEvent>,
        bounds: PageLimits,
        page: &mut PageBudget,
        answer: &mut SearchAnswer,
    ) -> ServiceResult<()> {
        let PageLimits { limit, skip, around, bytes_max } = bounds;
        let until = self.monotonic() + VERIFIED_FOR;
        let mut budget = Budget::new(bytes_max);
        let mut texts = HashMap::<u64, usize>::new();
        for (at, found) in found.into_iter().enumerate().skip(skip) {
            let next_page = || Some(page::encode("q", &[&at.to_string()]));
            if answer.hits.len() == limit || page.is_spent() {
                answer.next_page = next_page();
                break;
            }
            if query.needs_text() && (at - skip >= VERIFIED_MAX || self.monotonic() > until) {
                (answer.limited, answer.next_page) = (true, next_page());
                break;
            }
            let shown = self.load_hit(caller, query, index, &found, around, page).await?;
            let Some((text, hit)) = shown else { continue };
            if let Some(first) = texts.get(&text).and_then(|first| answer.hits.get_mut(*first)) {
                first.repeated += 1;
                continue;
            }
            let bytes = hit_bytes(&hit);
            if bytes > budget.remaining() && !answer.hits.is_empty() {
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
    async fn reserve_search_memory(
        &self,
        tenant: &TenantId,
        reserves_memory: bool,
    ) -> ServiceResult<Option<Reservation>> {
        match reserves_memory {
            true => self.reserve_memory(tenant, SEARCH_BYTES).await.map(Some),
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
    async fn list_family(
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
    async fn list_matching_workspaces(
        &self,
        index: &Arc<ScopeIndex>,
        query: &Arc<ParsedQuery>,
        slot: ComputeSlot,
    ) -> ServiceResult<(ComputeSlot, Vec<String>)> {
        if !query.filters.names_workspaces() {
            return Ok((slot, Vec::new()));
        }
        let (index, query) = (Arc::clone(index), Arc::clone(query));
        slot.run(move || index.workspaces(|name| query.filters.allows_workspace(Some(name)))).await
    }

    /// Returns the vector of the query; outer `None` if not wanted, inner `None` if not in time.
    async fn query_vector(&self, words: Option<&str>) -> Option<Option<Vec<f32>>> {
        self.embed_query(words?, strip_operators).await
    }

    /// Returns a computation that ranks the matches and owns its inputs. It also returns the
    /// coverage of the parts that it read: the index may have more by the time of the answer.
    fn prepare_ranking(
        &self,
        (index, vector): (Arc<ScopeIndex>, Option<Vec<f32>>),
        query: Arc<ParsedQuery>,
        (order, archived): (HitOrder, bool),
        family: Option<Family>,
        wanted: usize,
    ) -> impl FnOnce() -> (RankedHits, Vec<NearPassage>, Complete) + Send + 'static {
        let service = self.clone();
        move || {
            let served = |session: SessionHash| {
                let admits = |id: &SessionId, workspace: Option<&str>, is_archived: bool| {
                    let is_wanted = query.filters.allows_session(id.as_str(), workspace);
                    let is_wanted = is_wanted && (archived || !is_archived);
                    let below = match &family {
                        Some(family) => family.get(id).copied(),
                        None => Some(Position(u64::MAX)),
                    };
                    below.filter(|_| is_wanted)
                };
                index.serving_ranges(session, admits)
            };
            let keep = |session: SessionRef<'_>, range: Range| {
                let kept = served(session.hash).into_iter().map(|one| one.range);
                let kept = kept.map(|of| (of.from.max(range.from), of.to.min(range.to)));
                kept.filter(|(from, to)| from < to).map(|(from, to)| Range::new(from, to)).collect()
            };
            let (mut ranked, covered) = service.with_parts(&index, |parts| {
                let parts = parts.iter().filter_map(|bytes| Part::from_trusted(bytes).ok());
                rank(&parts.collect::<Vec<_>>(), &query, &keep, order, wanted)
            });
            let near = vector.as_ref();
            let near = near.map(|vector| service.find_nearest(&index.scope, vector, &keep));
            let mut near = near.unwrap_or_default();
            for hit in &mut ranked.hits {
                set_server(served(hit.hash), hit.position, (&mut hit.hash, &mut hit.session));
            }
            for one in &mut near {
                set_server(served(one.hash), one.position, (&mut one.hash, &mut one.session));
            }
            (ranked, near, covered)
        }
    }
}

/// Returns true if a hit is about the words of the query and is known not to be marked as wrong.
pub(super) fn matches_query_words(hit: &Hit) -> bool {
    is_relevant(&hit.snippet.text, &hit.snippet.marks, f64::from(hit.why.words))
        && !hit.unchecked
        && hit.marks.iter().all(|mark| mark.kind != MarkKind::Wrong)
}

/// Returns true if users or agents wrote it, not a tool or a web page.
pub(super) fn is_by_user_or_agent(hit: &Hit) -> bool {
    hit.origin != Origin::Tool && hit.origin != Origin::Web
}

/// Returns true if a hit may be recalled without a request: no evidence is against it. A user's
/// message about a file stays valid when the file changes.
fn may_be_recalled(hit: &Hit) -> bool {
    let is_current = hit.stale.is_none() || hit.kind.as_str() == kinds::USER_MESSAGE;
    is_by_user_or_agent(hit) && is_current && matches_query_words(hit)
}

/// Returns the hit with only the text of an item of memory: without its kind, name and source.
fn without_item_members(mut hit: Hit) -> Hit {
    let is_item = hit.kind.as_str() == kinds::MEMORY_ITEM;
    if let Some(end) = hit.snippet.text.find(MEMBERS).filter(|_| is_item) {
        hit.snippet.text.truncate(end);
        let chars = hit.snippet.text.chars().count() as u64;
        hit.snippet.marks.retain(|(_, to)| *to <= chars);
    }
    hit
}

fn parse_wait(asked: &SearchBody) -> ServiceResult<Duration> {
    match asked.wait_ms {
        0..=WAIT_MS_MAX => Ok(Duration::from_millis(asked.wait_ms)),
        _ => Err(ServiceError::invalid("wait_ms", format!("at most {WAIT_MS_MAX}"))),
    }
}

fn parse_newest_first(asked: &SearchBody) -> ServiceResult<bool> {
    match asked.order.as_deref() {
        None | Some("score") => Ok(false),
        Some("time") => Ok(true),
        Some(_) => Err(ServiceError::invalid("order", "score or time is expected")),
    }
}

fn parse_bounds(asked: &SearchBody) -> ServiceResult<PageLimits> {
    let (limit, around) = (asked.limit.unwrap_or(HITS_DEFAULT), asked.around.unwrap_or(0));
    if limit == 0 || limit > HITS_MAX {
        let problem = format!("from 1 to {HITS_MAX}, not {limit}");
        return Err(ServiceError::invalid("limit", problem));
    }
    if around > AROUND_MAX {
        return Err(ServiceError::invalid("around", format!("at most {AROUND_MAX}")));
    }
    let skip = asked.page.as_deref().map(parse_page).transpose()?.unwrap_or(0);
    let bytes_max =
        asked.tokens_max.map_or(usize::MAX, |tokens| tokens.saturating_mul(TOKEN_BYTES));
    Ok(PageLimits { limit, skip, around, bytes_max })
}

fn parse_query(asked: &SearchBody, now: Timestamp) -> ServiceResult<ParsedQuery> {
    let types = values::parse_types(&asked.types)?;
    let (gte, lt) = (asked.after.as_deref(), asked.before.as_deref());
    let window = TimeBounds { gte, lt, ..TimeBounds::default() }.window()?;
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
        "" if has_filter => ParsedQuery::match_all(),
        words => ParsedQuery::parse(words, now).map_err(wrong)?,
    };
    let memory = (!asked.kinds.is_empty()).then_some(kinds::MEMORY_ITEM);
    let types: Vec<&str> = types.iter().map(EventType::as_str).chain(memory).collect();
    let beside = search::CallerFilters {
        types: &types,
        workspace: asked.workspace.as_deref(),
        who: asked.who.as_deref(),
        origin: asked.origin.as_deref(),
    };
    let limited = query.add_filters(beside, now);
    limited.map_err(|fault| ServiceError::invalid("origin", fault))?;
    let kinds = parse_kinds("kinds", &asked.kinds)?;
    if !kinds.is_empty() {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        query.narrow_to_kinds(&names);
    }
    let filters = &mut query.filters;
    filters.after = filters.after.max(window.from);
    filters.before = filters.before.into_iter().chain(window.to).min();
    Ok(query)
}

fn merge_coverage(
    complete: Complete,
    has_all_changes: bool,
    meaning: Option<(MeaningUse, VectorsBehind)>,
) -> Complete {
    let (meaning, vectors) = meaning.unzip();
    let is_of_note = |one: &VectorsBehind| one.events > 0 || one.problem.is_some();
    let is_complete = has_all_changes && complete.is_complete;
    let meaning = meaning.map(OpenEnum::from);
    Complete { is_complete, meaning, vectors_behind: vectors.filter(is_of_note), ..complete }
}

fn strip_operators(words: &str) -> String {
    let is_plain = |word: &&str| !word.starts_with('-') && !word.contains(':');
    let words = words.split_whitespace().filter(is_plain);
    let plain: Vec<&str> = words.map(|word| word.trim_matches(['"', '+', '*'])).collect();
    plain.join(" ").trim().to_owned()
}

/// Replaces the session that wrote an event by the one that returns its position.
fn set_server(
    servers: Vec<ServedRange>,
    position: Position,
    (hash, session): (&mut SessionHash, &mut SessionId),
) {
    if let Some(one) = servers.into_iter().find(|one| one.range.contains(position)) {
        (*hash, *session) = (one.hash, one.session);
    }
}

fn parse_page(page: &str) -> ServiceResult<usize> {
    let [skip] = page::decode::<1>("q", page)?;
    let skip = skip.parse().ok().filter(|skip| *skip < RANKED_MAX);
    skip.ok_or_else(|| ServiceError::invalid("page", "this is no page of this search"))
}
