//! Part of the log that a window shows beside its newest messages: a brief of what it leaves out,
//! passages of the session's own line, and of other sessions of its workspace when they are asked
//! for, found by the words of the work in hand. A window never waits long for the index, and never
//! fails for it. It must not write.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Caller, Code, Service, ServiceResult,
    room::Held,
    search::{Within, is_said, speaks_of_words},
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

/// Part of the budget that recall takes by default, one in so many, and tokens of it at least and
/// at most. Of a smaller part the frame around it takes too much.
const PART: usize = 3;
const TOKENS_MIN: usize = 400;
const TOKENS_MAX: usize = 4_000;
/// Part of that which passages have, one in so many; the brief has the rest.
const PASSAGES_PART: usize = 3;
/// Tokens of a brief at least.
const BRIEF_TOKENS_MIN: usize = 100;
/// Passages that are considered of the line, and of the workspace.
const CANDIDATES: usize = 20;
/// Types of events recalled of the session's own line, and of other sessions.
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
const OF_OTHERS: [&str; 4] =
    [kinds::USER_MESSAGE, kinds::AGENT_MESSAGE, kinds::RESEARCH_STEP, kinds::MEMORY_ITEM];

/// View that a window recalls of a session of which it leaves something out.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallView {
    /// From where.
    pub from: RecallFrom,
    /// Tokens of it at most.
    pub tokens_max: usize,
    /// The message, where there is anything to tell.
    pub recalled: Option<Recalled>,
    /// Reason for the lack of passages.
    pub missing: Option<Unrecalled>,
    /// The passages in it, in the order of the log.
    pub passages: Vec<Passage>,
}

impl Service {
    /// Recalls content for a window of these events; `None` when it leaves nothing out, or is to
    /// recall nothing.
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
            choose(&mut others, &mut found, room, tokenizer)
        };
        let (passages, spent) = self.computed_again(tenant, chosen).await?;
        let (key, room) = (caller.key(session), (tokens_max, spent, tokenizer));
        // What of the session cannot be read, or folded now, is no reason to refuse the window.
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

    /// The brief of what a window does not show, in what is left of so many tokens.
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
        let out = window.dropped.iter().filter(|(_, reason)| is_out(*reason));
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

    /// The passages of other sessions, and of the session's own line, the best first.
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
        let found = match self.of_line(caller, session, &words, window, plan).await {
            Ok(found) => found,
            Err(missing) => return Ok(Err(missing)),
        };
        let others = match from {
            RecallFrom::Workspace => self.of_workspace(caller, session, &words).await,
            RecallFrom::Line | RecallFrom::Nowhere => Vec::new(),
        };
        Ok(Ok([others, found]))
    }

    /// Passages of the session's own line that its window does not show, the best first.
    async fn of_line(
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
                    .any(|(range, why)| range.contains(position) && is_out(*why))
        };
        let is_filtered =
            |kind: &EventType| plan.transforms.iter().any(|one| one.leaves_out(kind.as_str()));
        let hits = found.answer.hits.into_iter().filter(holds);
        let hits = hits.filter(|hit| !is_shown(hit.position) && !is_filtered(&hit.kind));
        Ok(hits.map(|hit| passage(hit, None)).collect())
    }

    /// Passages of other sessions of its workspace, the best first; none where there is none.
    async fn of_workspace(&self, caller: &Caller, own: &SessionId, words: &str) -> Vec<Passage> {
        let key = caller.key(own);
        let workspace = self.store.info(&key).await.ok().and_then(|info| info.workspace);
        let Some(workspace) = workspace else { return Vec::new() };
        let family = self.store.family(&key, CANDIDATES).await;
        let line: BTreeSet<SessionId> = family.map_or_else(
            |_| BTreeSet::new(),
            |family| family.ancestors.into_iter().map(|one| one.session).collect(),
        );
        let q = format!("{words} -session:{own}");
        let asked = SearchBody { q, workspace: Some(workspace), ..asked(&OF_OTHERS) };
        let within = Within { below: None, words_alone: true };
        let found = self.searched(caller, &asked, within, false).await;
        let Ok(found) = found else { return Vec::new() };
        let hits = found.answer.hits.into_iter().filter(holds);
        let hits = hits.filter(|hit| !line.contains(&hit.session));
        let session = |hit: Hit| {
            let session = hit.session.clone();
            passage(hit, Some(session))
        };
        hits.filter(is_said).map(session).collect()
    }
}

/// Tokens that a window of this budget recalls by default; 0 when it is too small.
pub(super) fn usual(tokens_max: usize) -> usize {
    let part = (tokens_max / PART).min(TOKENS_MAX);
    if part < TOKENS_MIN { 0 } else { part }
}

fn asked(types: &[&str]) -> SearchBody {
    let types = types.iter().map(ToString::to_string).collect();
    SearchBody { types, limit: Some(CANDIDATES), ..SearchBody::default() }
}

/// True if a hit speaks of the work in hand, and it is known that nothing speaks against it.
fn holds(hit: &Hit) -> bool {
    speaks_of_words(hit) && hit.stale.is_none()
}

fn passage(hit: Hit, session: Option<SessionId>) -> Passage {
    let Hit { position, at, who, snippet, score, origin, .. } = hit;
    let text = snippet.text;
    Passage { session, position, at, origin, who, text, score }
}

/// Other sessions get half of the room at most, the line all that is left; with the tokens of the
/// message of these alone.
fn choose(
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

/// True if a reader does not see what is left out for this reason, and might.
fn is_out(reason: Reason) -> bool {
    matches!(reason, Reason::Budget | Reason::NotAMessage)
}
