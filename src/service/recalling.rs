//! What a window shows of the log beside its newest messages: passages of the session's own line,
//! and of other sessions of its workspace when they are asked for, found by the words of the work
//! in hand. A window never waits long for the index, and never fails for it. It must not write.

use std::{collections::BTreeSet, sync::Arc};

use super::{Caller, Code, Hit, SearchCall, Service, ServiceResult};
use crate::{
    event::{Event, EventType, Origin, Position, SessionId, kinds},
    harness::{self, Passage, Plan, Reason, Recalled, Tokenizer, Window, speaks_of_it},
    projection::MarkKind,
};

/// Part of the budget that recall takes by default, one in so many, and tokens of it at least and
/// at most. Of a smaller part the frame around the passages takes too much.
const PART: usize = 10;
const TOKENS_MIN: usize = 400;
const TOKENS_MAX: usize = 4_000;
/// Passages that are considered of the line, and of the workspace.
const CANDIDATES: usize = 20;
/// What is recalled of the session's own line, and of other sessions.
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

/// Where a window recalls from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecallFrom {
    /// The session, and what it has of its parents.
    #[default]
    Line,
    /// Nowhere.
    Nowhere,
    /// Also the other sessions of its workspace: what was said there, and items of memory.
    Workspace,
}

impl RecallFrom {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Line, Self::Nowhere, Self::Workspace];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Nowhere => "none",
            Self::Workspace => "workspace",
        }
    }
}

/// Why a window recalls nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecalled {
    /// Searching is turned off.
    SearchOff,
    /// The index does not have yet what the window leaves out.
    IndexBehind,
    /// Too many searches are under way.
    Busy,
    /// Nothing that is left out speaks of the work in hand, or fits.
    NothingFits,
}

impl Unrecalled {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SearchOff => "search_off",
            Self::IndexBehind => "index_behind",
            Self::Busy => "busy",
            Self::NothingFits => "nothing_fits",
        }
    }
}

/// What a window recalls, of a session of which it leaves something out.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallView {
    /// From where.
    pub from: RecallFrom,
    /// Tokens of it at most.
    pub tokens_max: usize,
    /// The message; or why there is none.
    pub recalled: Result<Recalled, Unrecalled>,
    /// What is in it, in the order of the log.
    pub passages: Vec<Passage>,
}

impl Service {
    /// What a window of these events is to recall; `None` when it leaves nothing out, or is to
    /// recall nothing.
    pub(super) async fn recall(
        &self,
        caller: &Caller,
        session: &SessionId,
        (from, tokens_max): (RecallFrom, usize),
        (window, events, plan): (&Window, &Arc<Vec<Event>>, &Plan),
    ) -> ServiceResult<Option<RecallView>> {
        if window.whole || window.tokens == 0 || tokens_max == 0 || from == RecallFrom::Nowhere {
            return Ok(None);
        }
        let mut view = RecallView {
            from,
            tokens_max,
            recalled: Err(Unrecalled::NothingFits),
            passages: vec![],
        };
        let (tenant, events) = (&caller.scope.tenant, Arc::clone(events));
        let words = self.computed_again(tenant, move || harness::at_work(&events)).await?;
        if words.is_empty() {
            return Ok(Some(view));
        }
        let words = words.join(" ");
        let mut found = match self.of_line(caller, session, &words, window, plan).await {
            Ok(found) => found,
            Err(missing) => {
                view.recalled = Err(missing);
                return Ok(Some(view));
            }
        };
        let mut others = match from {
            RecallFrom::Workspace => self.of_workspace(caller, session, &words).await,
            RecallFrom::Line | RecallFrom::Nowhere => Vec::new(),
        };
        let tokenizer = plan.tokenizer;
        let chosen = move || choose(&mut others, &mut found, tokens_max, tokenizer);
        let (recalled, passages) = self.computed_again(tenant, chosen).await?;
        view.recalled = recalled.ok_or(Unrecalled::NothingFits);
        view.passages = passages;
        Ok(Some(view))
    }

    /// Passages of the session's own line that its window does not show, the best first.
    async fn of_line(
        &self,
        caller: &Caller,
        session: &SessionId,
        words: &str,
        window: &Window,
        plan: &Plan,
    ) -> Result<Vec<Passage>, Unrecalled> {
        let is_out = |reason: Reason| matches!(reason, Reason::Budget | Reason::NotAMessage);
        let left_out = window.dropped.iter().filter(|(_, reason)| *reason == Reason::Budget);
        let Some(below) = left_out.map(|(range, _)| range.to).max() else { return Ok(vec![]) };
        let asked = SearchCall {
            words: words.to_owned(),
            session: Some(session.clone()),
            below: Some(below),
            ..asked(&OF_LINE)
        };
        let found = self.search(caller, asked).await.map_err(|error| match error.code {
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
        let hits = found.hits.into_iter().filter(holds);
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
        let words = format!("{words} -session:{own}");
        let asked = SearchCall { words, workspace: Some(workspace), ..asked(&OF_OTHERS) };
        let Ok(found) = self.search(caller, asked).await else { return Vec::new() };
        let hits = found.hits.into_iter().filter(holds);
        let hits = hits.filter(|hit| !line.contains(&hit.session));
        let is_said = |hit: &Hit| !matches!(hit.origin, Origin::Tool | Origin::Web);
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

fn asked(types: &[&str]) -> SearchCall {
    let types = types.iter().filter_map(|kind| EventType::new(kind).ok()).collect();
    SearchCall { types, limit: Some(CANDIDATES), words_alone: true, ..SearchCall::default() }
}

/// Whether a hit speaks of the work in hand, and it is known that nothing speaks against it.
fn holds(hit: &Hit) -> bool {
    let is_wrong = hit.marked.iter().any(|mark| mark.kind == MarkKind::Wrong);
    speaks_of_it(&hit.text, &hit.marks, f64::from(hit.why.words))
        && hit.doubt.is_none()
        && !hit.unchecked
        && !is_wrong
}

fn passage(hit: Hit, session: Option<SessionId>) -> Passage {
    let Hit { position, at, who, text, score, origin, .. } = hit;
    Passage { session, position, at, origin, who, text, score }
}

/// Other sessions get half of the room at most, the line all that is left.
fn choose(
    others: &mut Vec<Passage>,
    line: &mut Vec<Passage>,
    tokens_max: usize,
    tokenizer: Tokenizer,
) -> (Option<Recalled>, Vec<Passage>) {
    harness::recalled(others, tokens_max / 2, &tokenizer);
    others.append(line);
    let recalled = harness::recalled(others, tokens_max, &tokenizer);
    (recalled, std::mem::take(others))
}
