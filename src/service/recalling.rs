//! Content of the log that a window shows in addition to its newest messages: a brief of the
//! omitted part, and passages of the session and its ancestors, and of its workspace's others on
//! request, found by the text of the current work. A window never waits long for the index, nor
//! fails because of it. It must not write.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Caller, Code, Service, ServiceResult,
    memory_budget::Reservation,
    search::{RECALLED_TYPES, SearchLimits, is_by_user_or_agent, matches_query_words},
};
use crate::{
    api::{
        search::{Hit, SearchBody},
        window::{NoRecallReason, OmissionReason, RecallFrom},
    },
    event::{Event, EventType, Position, Range, SessionId, SessionKey, kinds},
    harness::{self, RecallCandidate, RecalledText, Tokenizer, Window, WindowParameters},
    projection::Facts,
};

/// Divisor of the budget for the default recall, and its minimum and maximum tokens. The frame
/// would take too much of a smaller recall.
const PART: usize = 3;
const TOKENS_MIN: usize = 400;
const TOKENS_MAX: usize = 4_000;
/// Divisor of the recall's budget for passages; the brief gets the rest.
const PASSAGES_PART: usize = 3;
/// Minimum tokens of a brief.
const BRIEF_TOKENS_MIN: usize = 100;
/// Maximum number of passages considered of the session's lineage, and of the workspace.
const CANDIDATES: usize = 20;
/// Types of events recalled from the session and its ancestors.
const OF_LINE: [&str; 8] = [
    kinds::USER_MESSAGE,
    kinds::AGENT_MESSAGE,
    kinds::AGENT_TOOL_RESULT,
    kinds::AGENT_MCP_TOOL_RESULT,
    kinds::USER_TOOL_RESULT,
    kinds::USER_CUSTOM_TOOL_RESULT,
    kinds::RESEARCH_STEP,
    kinds::MEMORY_ITEM,
];

/// Content recalled for a window that omits part of its session.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallView {
    /// Source of the passages.
    pub from: RecallFrom,
    /// Token budget of the recall.
    pub tokens_max: usize,
    /// Message with the recalled content, if any.
    pub recalled: Option<RecalledText>,
    /// Reason for missing passages.
    pub missing: Option<NoRecallReason>,
    /// Passages in the message, in log order.
    pub passages: Vec<RecallCandidate>,
}

impl Service {
    /// Recalls content for a window of these events; `None` if it omits nothing, or recall is
    /// disabled.
    pub(super) async fn recall(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<Position>,
        (from, tokens_max): (RecallFrom, usize),
        (window, events, plan): (&Window, &Arc<Vec<Event>>, &WindowParameters),
        held: &mut Option<Reservation>,
    ) -> ServiceResult<Option<RecallView>> {
        if window.whole || window.tokens == 0 || tokens_max == 0 || from == RecallFrom::Nowhere {
            return Ok(None);
        }
        let (tenant, tokenizer) = (&caller.scope.tenant, plan.tokenizer);
        let found = self.find_passages(caller, session, from, (window, events, plan)).await?;
        let (missing, [mut others, mut found]) = match found {
            Ok(found) => (None, found),
            Err(missing) => (Some(missing), [vec![], vec![]]),
        };
        let chosen = move || {
            let room = tokens_max / PASSAGES_PART;
            choose_passages(&mut others, &mut found, room, tokenizer)
        };
        let (passages, spent) = self.compute_unlimited(tenant, chosen).await?;
        let (key, room) = (caller.key(session), (tokens_max, spent, tokenizer));
        // An unreadable session, or one that cannot be folded now, does not fail the window.
        let brief = self.build_brief(&key, at, window, room, held).await;
        let brief = brief.ok().flatten().unwrap_or_default();
        let missing = missing.or(passages.is_empty().then_some(NoRecallReason::NothingFits));
        let made = move || {
            let mut passages = passages;
            let recalled = harness::fit_passages(&brief, &mut passages, tokens_max, &tokenizer);
            (recalled, passages)
        };
        let (recalled, passages) = self.compute_unlimited(tenant, made).await?;
        Ok(Some(RecallView { from, tokens_max, recalled, missing, passages }))
    }

    /// Returns the brief of the content that a window omits, within the remaining tokens.
    async fn build_brief(
        &self,
        key: &SessionKey,
        at: Option<Position>,
        window: &Window,
        (tokens_max, spent, tokenizer): (usize, usize, Tokenizer),
        held: &mut Option<Reservation>,
    ) -> ServiceResult<Option<String>> {
        let frame = harness::empty_message_tokens(&tokenizer);
        let room = tokens_max.saturating_sub(frame.max(spent));
        if room < BRIEF_TOKENS_MIN {
            return Ok(None);
        }
        let out = window.dropped.iter().filter(|(_, reason)| is_hidden_by(*reason));
        let out: Vec<Range> = out.map(|(range, _)| *range).collect();
        let is_shown = move |at: Position| {
            let after = out.partition_point(|range| range.from <= at);
            let range = after.checked_sub(1).and_then(|index| out.get(index));
            range.is_none_or(|range| !range.contains(at))
        };
        let look =
            move |facts: &Facts| harness::write_unshown_brief(facts, &is_shown, room, tokenizer);
        match at {
            None => self.view_chain(key, look).await,
            Some(at) => {
                let taken = held.as_ref().map_or(0, Reservation::bytes);
                self.view_chain_with_memory(key, at, (held, taken), look).await
            }
        }
    }

    /// Returns passages of other sessions, and of the session and its ancestors, best first.
    async fn find_passages(
        &self,
        caller: &Caller,
        session: &SessionId,
        from: RecallFrom,
        (window, events, plan): (&Window, &Arc<Vec<Event>>, &WindowParameters),
    ) -> ServiceResult<Result<[Vec<RecallCandidate>; 2], NoRecallReason>> {
        let of_events = Arc::clone(events);
        let at_work = move || harness::work_query_words(&of_events);
        let words = self.compute_unlimited(&caller.scope.tenant, at_work).await?;
        if words.is_empty() {
            return Ok(Err(NoRecallReason::NothingFits));
        }
        let words = words.join(" ");
        let found = match self.find_own_passages(caller, session, &words, window, plan).await {
            Ok(found) => found,
            Err(missing) => return Ok(Err(missing)),
        };
        let others = match from {
            RecallFrom::Workspace => self.find_other_passages(caller, session, &words).await,
            RecallFrom::Line | RecallFrom::Nowhere => Vec::new(),
        };
        Ok(Ok([others, found]))
    }

    /// Returns passages of the session and its ancestors that the window omits, best first.
    async fn find_own_passages(
        &self,
        caller: &Caller,
        session: &SessionId,
        words: &str,
        window: &Window,
        plan: &WindowParameters,
    ) -> Result<Vec<RecallCandidate>, NoRecallReason> {
        let left_out =
            window.dropped.iter().filter(|(_, reason)| *reason == OmissionReason::Budget);
        let Some(below) = left_out.map(|(range, _)| range.to).max() else { return Ok(vec![]) };
        let asked = SearchBody {
            q: words.to_owned(),
            session: Some(session.to_string()),
            ..search_body(&OF_LINE)
        };
        let within = SearchLimits { below: Some(below), skip_vectors: true };
        let found = self.run_search(caller, &asked, within, false).await;
        let found = found.map_err(|error| match error.code {
            Code::LimitReached => NoRecallReason::Busy,
            _ => NoRecallReason::SearchOff,
        })?;
        if found.lacks_session {
            return Err(NoRecallReason::IndexBehind);
        }
        let is_shown = |position: Position| {
            plan.withdrawn.contains(position)
                || !window
                    .dropped
                    .iter()
                    .any(|(range, why)| range.contains(position) && is_hidden_by(*why))
        };
        let is_filtered =
            |kind: &EventType| plan.transforms.iter().any(|one| one.drops_type(kind.as_str()));
        let hits = found.answer.hits.into_iter().filter(is_current_match);
        let hits = hits.filter(|hit| !is_shown(hit.position) && !is_filtered(&hit.kind));
        Ok(hits.map(|hit| to_passage(hit, None)).collect())
    }

    /// Returns passages of other sessions of its workspace, best first; empty without a workspace.
    async fn find_other_passages(
        &self,
        caller: &Caller,
        own: &SessionId,
        words: &str,
    ) -> Vec<RecallCandidate> {
        let key = caller.key(own);
        let workspace = self.store.info(&key).await.ok().and_then(|info| info.workspace);
        let Some(workspace) = workspace else { return Vec::new() };
        let family = self.store.family(&key, CANDIDATES).await;
        let line: BTreeSet<SessionId> = family.map_or_else(
            |_| BTreeSet::new(),
            |family| family.ancestors.into_iter().map(|one| one.session).collect(),
        );
        let q = format!("{words} -session:{own}");
        let asked = SearchBody { q, workspace: Some(workspace), ..search_body(&RECALLED_TYPES) };
        let within = SearchLimits { below: None, skip_vectors: true };
        let found = self.run_search(caller, &asked, within, false).await;
        let Ok(found) = found else { return Vec::new() };
        let hits = found.answer.hits.into_iter().filter(is_current_match);
        let hits = hits.filter(|hit| !line.contains(&hit.session));
        let session = |hit: Hit| {
            let session = hit.session.clone();
            to_passage(hit, Some(session))
        };
        hits.filter(is_by_user_or_agent).map(session).collect()
    }
}

/// Returns the default tokens of a recall for a window's budget; 0 if that is too small.
pub(super) fn default_recall_tokens(tokens_max: usize) -> usize {
    let part = (tokens_max / PART).min(TOKENS_MAX);
    if part < TOKENS_MIN { 0 } else { part }
}

fn search_body(types: &[&str]) -> SearchBody {
    let types = types.iter().map(ToString::to_string).collect();
    SearchBody { types, limit: Some(CANDIDATES), ..SearchBody::default() }
}

/// Returns true if a hit concerns the current work and is known not to be outdated.
fn is_current_match(hit: &Hit) -> bool {
    matches_query_words(hit) && hit.stale.is_none()
}

fn to_passage(hit: Hit, session: Option<SessionId>) -> RecallCandidate {
    let Hit { position, at, who, snippet, score, origin, .. } = hit;
    let text = snippet.text;
    RecallCandidate { session, position, at, origin, who, text, score }
}

/// Chooses the passages: other sessions get at most half of the budget, the lineage the rest.
/// Also returns the tokens of the message with these alone.
fn choose_passages(
    others: &mut Vec<RecallCandidate>,
    line: &mut Vec<RecallCandidate>,
    tokens_max: usize,
    tokenizer: Tokenizer,
) -> (Vec<RecallCandidate>, usize) {
    harness::fit_passages("", others, tokens_max / 2, &tokenizer);
    others.append(line);
    let recalled = harness::fit_passages("", others, tokens_max, &tokenizer);
    (std::mem::take(others), recalled.map_or(0, |recalled| recalled.tokens))
}

/// Returns true if content omitted for this reason is hidden from a reader who may need it.
fn is_hidden_by(reason: OmissionReason) -> bool {
    matches!(reason, OmissionReason::Budget | OmissionReason::NotAMessage)
}
