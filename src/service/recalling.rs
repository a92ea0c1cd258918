//! Content of the log that a window shows in addition to its newest messages: a brief of the
//! omitted part, and passages of the session's own line, and of other sessions of its workspace on
//! request, found by the text of the current work. A window never waits long for the index, nor
//! fails because of it. It must not write.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Caller, Code, Service, ServiceResult,
    room::Held,
    search::{RECALLED_TYPES, Within, is_said, speaks_of_words},
};
use crate::{
    api::{
        search::{Hit, SearchBody},
        window::{Reason, RecallFrom, Unrecalled},
    },
    event::{Event, EventType, Position, Range, SessionId, SessionKey, kinds},
    harness::{self, Passage, Recalled, Tokenizer, Window, WindowPlan},
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
/// Maximum number of passages considered of the line, and of the workspace.
const CANDIDATES: usize = 20;
/// Types of events recalled from the session's own line.
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
    pub recalled: Option<Recalled>,
    /// Reason for missing passages.
    pub missing: Option<Unrecalled>,
    /// Passages in the message, in log order.
    pub passages: Vec<Passage>,
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
        (window, events, plan): (&Window, &Arc<Vec<Event>>, &WindowPlan),
        held: &mut Option<Held>,
    ) -> ServiceResult<Option<RecallView>> {
        if window.whole || window.tokens == 0 || tokens_max == 0 || from == RecallFrom::Nowhere {
            return Ok(None);
        }
        let (tenant, tokenizer) = (&caller.scope.tenant, plan.tokenizer);
        let found = self.passages(caller, session, from, (window, events, plan)).await?;
        let (missing, [mut others, mut found]) = match found {
            Ok(found) => (None, found),
            Err(missing) => (Some(missing), [vec![], vec![]]),
        };
        let chosen = move || {
            let room = tokens_max / PASSAGES_PART;
            choose_passages(&mut others, &mut found, room, tokenizer)
        };
        let (passages, spent) = self.computed_again(tenant, chosen).await?;
        let (key, room) = (caller.key(session), (tokens_max, spent, tokenizer));
        // An unreadable session, or one that cannot be folded now, does not fail the window.
        let brief = self.brief_of_rest(&key, at, window, room, held).await;
        let brief = brief.ok().flatten().unwrap_or_default();
        let missing = missing.or(passages.is_empty().then_some(Unrecalled::NothingFits));
        let made = move || {
            let mut passages = passages;
            let recalled = harness::recalled(&brief, &mut passages, tokens_max, &tokenizer);
            (recalled, passages)
        };
        let (recalled, passages) = self.computed_again(tenant, made).await?;
        Ok(Some(RecallView { from, tokens_max, recalled, missing, passages }))
    }

    /// Returns the brief of the content that a window omits, within the remaining tokens.
    async fn brief_of_rest(
        &self,
        key: &SessionKey,
        at: Option<Position>,
        window: &Window,
        (tokens_max, spent, tokenizer): (usize, usize, Tokenizer),
        held: &mut Option<Held>,
    ) -> ServiceResult<Option<String>> {
        let frame = harness::recalled_frame(&tokenizer);
        let room = tokens_max.saturating_sub(frame.max(spent));
        if room < BRIEF_TOKENS_MIN {
            return Ok(None);
        }
        let out = window.dropped.iter().filter(|(_, reason)| is_hidden_by(*reason));
        let out: Vec<Range> = out.map(|(range, _)| *range).collect();
        let is_shown = move |at: Position| {
            let after = out.partition_point(|range| range.from <= at);
            let range = after.checked_sub(1).and_then(|place| out.get(place));
            range.is_none_or(|range| !range.contains(at))
        };
        let look = move |facts: &Facts| harness::rest_of(facts, &is_shown, room, tokenizer);
        match at {
            None => self.view_line(key, look).await,
            Some(at) => {
                let taken = held.as_ref().map_or(0, Held::bytes);
                self.look_over_line_in(key, at, (held, taken), look).await
            }
        }
    }

    /// Returns the passages of other sessions and of the session's own line, best first.
    async fn passages(
        &self,
        caller: &Caller,
        session: &SessionId,
        from: RecallFrom,
        (window, events, plan): (&Window, &Arc<Vec<Event>>, &WindowPlan),
    ) -> ServiceResult<Result<[Vec<Passage>; 2], Unrecalled>> {
        let of_events = Arc::clone(events);
        let at_work = move || harness::at_work(&of_events);
        let words = self.computed_again(&caller.scope.tenant, at_work).await?;
        if words.is_empty() {
            return Ok(Err(Unrecalled::NothingFits));
        }
        let words = words.join(" ");
        let found = match self.line_passages(caller, session, &words, window, plan).await {
            Ok(found) => found,
            Err(missing) => return Ok(Err(missing)),
        };
        let others = match from {
            RecallFrom::Workspace => self.other_passages(caller, session, &words).await,
            RecallFrom::Line | RecallFrom::Nowhere => Vec::new(),
        };
        Ok(Ok([others, found]))
    }

    /// Returns passages of the session's own line that its window omits, best first.
    async fn line_passages(
        &self,
        caller: &Caller,
        session: &SessionId,
        words: &str,
        window: &Window,
        plan: &WindowPlan,
    ) -> Result<Vec<Passage>, Unrecalled> {
        let left_out = window.dropped.iter().filter(|(_, reason)| *reason == Reason::Budget);
        let Some(below) = left_out.map(|(range, _)| range.to).max() else { return Ok(vec![]) };
        let asked = SearchBody {
            q: words.to_owned(),
            session: Some(session.to_string()),
            ..asked(&OF_LINE)
        };
        let within = Within { below: Some(below), words_alone: true };
        let found = self.searched(caller, &asked, within, false).await;
        let found = found.map_err(|error| match error.code {
            Code::LimitReached => Unrecalled::Busy,
            _ => Unrecalled::SearchOff,
        })?;
        if found.lacks_session {
            return Err(Unrecalled::IndexBehind);
        }
        let is_shown = |position: Position| {
            plan.withdrawn.has(position)
                || !window
                    .dropped
                    .iter()
                    .any(|(range, why)| range.contains(position) && is_hidden_by(*why))
        };
        let is_filtered =
            |kind: &EventType| plan.transforms.iter().any(|one| one.leaves_out(kind.as_str()));
        let hits = found.answer.hits.into_iter().filter(is_current_match);
        let hits = hits.filter(|hit| !is_shown(hit.position) && !is_filtered(&hit.kind));
        Ok(hits.map(|hit| passage(hit, None)).collect())
    }

    /// Returns passages of other sessions of its workspace, best first; empty without a workspace.
    async fn other_passages(&self, caller: &Caller, own: &SessionId, words: &str) -> Vec<Passage> {
        let key = caller.key(own);
        let workspace = self.store.info(&key).await.ok().and_then(|info| info.workspace);
        let Some(workspace) = workspace else { return Vec::new() };
        let family = self.store.family(&key, CANDIDATES).await;
        let line: BTreeSet<SessionId> = family.map_or_else(
            |_| BTreeSet::new(),
            |family| family.ancestors.into_iter().map(|one| one.session).collect(),
        );
        let q = format!("{words} -session:{own}");
        let asked = SearchBody { q, workspace: Some(workspace), ..asked(&RECALLED_TYPES) };
        let within = Within { below: None, words_alone: true };
        let found = self.searched(caller, &asked, within, false).await;
        let Ok(found) = found else { return Vec::new() };
        let hits = found.answer.hits.into_iter().filter(is_current_match);
        let hits = hits.filter(|hit| !line.contains(&hit.session));
        let session = |hit: Hit| {
            let session = hit.session.clone();
            passage(hit, Some(session))
        };
        hits.filter(is_said).map(session).collect()
    }
}

/// Returns the default tokens of a recall for a window's budget; 0 if that is too small.
pub(super) fn usual(tokens_max: usize) -> usize {
    let part = (tokens_max / PART).min(TOKENS_MAX);
    if part < TOKENS_MIN { 0 } else { part }
}

fn asked(types: &[&str]) -> SearchBody {
    let types = types.iter().map(ToString::to_string).collect();
    SearchBody { types, limit: Some(CANDIDATES), ..SearchBody::default() }
}

/// Returns true if a hit concerns the current work and is known not to be outdated.
fn is_current_match(hit: &Hit) -> bool {
    speaks_of_words(hit) && hit.stale.is_none()
}

fn passage(hit: Hit, session: Option<SessionId>) -> Passage {
    let Hit { position, at, who, snippet, score, origin, .. } = hit;
    let text = snippet.text;
    Passage { session, position, at, origin, who, text, score }
}

/// Chooses the passages: other sessions get at most half of the budget, the line gets the rest.
/// Also returns the tokens of the message with these alone.
fn choose_passages(
    others: &mut Vec<Passage>,
    line: &mut Vec<Passage>,
    tokens_max: usize,
    tokenizer: Tokenizer,
) -> (Vec<Passage>, usize) {
    harness::recalled("", others, tokens_max / 2, &tokenizer);
    others.append(line);
    let recalled = harness::recalled("", others, tokens_max, &tokenizer);
    (std::mem::take(others), recalled.map_or(0, |recalled| recalled.tokens))
}

/// Returns true if content omitted for this reason is hidden from a reader who may need it.
fn is_hidden_by(reason: Reason) -> bool {
    matches!(reason, Reason::Budget | Reason::NotAMessage)
}
