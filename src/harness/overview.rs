//! The index view and its relatives: what a model gets back after it lost its context, within a
//! budget. Each part has a share; what a part does not need goes to the summary and the index; what
//! does not fit is marked and has a cursor. It must not cost more for a longer session.

use super::{
    budget::{ANSWER_BYTES_MIN, Cut, Purse, fit, json_bytes},
    cursor::{Cursor, List},
    outcomes::{self, OutcomesView},
    step::{StepPlace, StepView, brief},
    summary::{Beside, summary_beside},
};
use crate::{
    event::{Position, Timestamp},
    projection::{Confidence, Facts, Line, Research},
};

/// Steps up to which the full view is given without being asked for.
pub const FULL_STEPS_MAX: usize = 8;

/// Bytes for what is always there: ids, times, marker, notice, cursors, names of lists.
const FRAME_BYTES: usize = 1_300;
/// Shares of the rest, in percent; what a share does not need goes to the summary, and what that
/// does not need to the index of steps.
const GOAL: usize = 6;
const LAST_STEPS: usize = 18;
const GAPS: usize = 12;
const SOURCES: usize = 12;
const REJECTED: usize = 5;
const BRANCHES: usize = 3;
const OUTCOMES: usize = 5;
const CONVERSATION: usize = 9;
const CONVERSATION_ALONE: usize = 40;
/// The least the index of steps has; the summary has what is left before it.
const INDEX: usize = 12;
const SUMMARY_MIN: usize = 15;
const _: () = assert!(
    GOAL + LAST_STEPS + GAPS + SOURCES + REJECTED + BRANCHES + OUTCOMES + CONVERSATION
        <= 100 - INDEX - SUMMARY_MIN
);

/// A step in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexLine {
    /// Its number.
    pub number: u64,
    /// Its branch.
    pub branch_id: Option<String>,
    /// Its description in one line.
    pub line: String,
    /// How sure.
    pub confidence: Option<Confidence>,
    /// Number of the step that supersedes it.
    pub superseded_by: Option<u64>,
}

/// A gap, open or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapLine {
    /// Its name, to close it with.
    pub id: String,
    /// What is not known.
    pub description: String,
    /// The step that opened it.
    pub step: Option<u64>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Where it is.
    pub url: String,
    /// What it is called.
    pub title: Option<String>,
    /// What it is.
    pub kind: Option<String>,
    /// The step that met it first.
    pub step: Option<u64>,
    /// Whether the server recorded it itself.
    pub by_server: bool,
    /// The tool whose result named it.
    pub tool: Option<String>,
}

/// An approach that was ruled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedLine {
    /// The approach.
    pub text: String,
    /// Number of the step that ruled it out.
    pub step: Option<u64>,
}

/// A branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchLine {
    /// Its name.
    pub id: String,
    /// The step it left from.
    pub from: Option<u64>,
    /// Its latest step.
    pub last: u64,
}

/// What happened beside the research, and in a session without any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalkView {
    /// Events that are not of research.
    pub events: u64,
    /// How many of each type, the most frequent first.
    pub counts: Vec<(String, u64)>,
    /// The latest ones, oldest first.
    pub recent: Vec<Line>,
}

/// Where the lists of a view go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Older steps.
    pub steps: Option<Cursor>,
    /// Older sources.
    pub sources: Option<Cursor>,
    /// Older open gaps.
    pub gaps: Option<Cursor>,
    /// Older rejected approaches.
    pub rejected: Option<Cursor>,
}

/// The overview of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// What it is for.
    pub goal: Cut,
    /// Steps recorded.
    pub steps: u64,
    /// Steps the caller expects.
    pub estimate: Option<u64>,
    /// When the research, or else the session, began.
    pub started_at: Option<Timestamp>,
    /// When the last event came.
    pub updated_at: Option<Timestamp>,
    /// When its latest step said it was the last.
    pub completed_at: Option<Timestamp>,
    /// The next position of the session.
    pub position: Position,
    /// Where it stands; empty in a full view.
    pub summary: String,
    /// The newest steps in a line each, ascending.
    pub index: Vec<IndexLine>,
    /// The last three steps.
    pub last_steps: Vec<StepView>,
    /// Open gaps, the newest.
    pub gaps: Vec<GapLine>,
    /// How many gaps are open.
    pub gaps_open: u64,
    /// Sources, the newest.
    pub sources: Vec<SourceLine>,
    /// How many sources there are.
    pub sources_total: u64,
    /// Rejected approaches, the newest.
    pub rejected: Vec<RejectedLine>,
    /// Branches, the newest.
    pub branches: Vec<BranchLine>,
    /// How tools fared.
    pub outcomes: OutcomesView,
    /// What else happened.
    pub talk: Option<TalkView>,
    /// Where the lists go on.
    pub more: More,
    /// Whether anything was left out or cut.
    pub truncated: bool,
}

/// The overview of a session within a budget. A full view leaves the summary out.
#[must_use]
pub fn overview(facts: &Facts, full: bool, bytes_max: usize) -> Overview {
    let research = &facts.research;
    let whole = bytes_max.max(ANSWER_BYTES_MIN) - FRAME_BYTES;
    let mut purse = Purse::new(whole);
    let goal = goal_of(facts, &mut purse, whole);
    let last_steps = last_steps(research, &mut purse, whole);
    let (gaps, more_gaps) =
        spend(&mut purse, whole, GAPS, |purse| gaps_page(research, None, purse));
    let (sources, more_sources) =
        spend(&mut purse, whole, SOURCES, |purse| sources_page(research, None, purse));
    let (rejected, more_rejected) =
        spend(&mut purse, whole, REJECTED, |purse| rejected_page(research, None, purse));
    let branches = spend(&mut purse, whole, BRANCHES, |purse| branches_of(research, purse));
    let outcomes =
        spend(&mut purse, whole, OUTCOMES, |purse| outcomes::view(&facts.outcomes, purse));
    let share = if research.steps().is_empty() { CONVERSATION_ALONE } else { CONVERSATION };
    let talk = spend(&mut purse, whole, share, |purse| talk_of(facts, purse));
    let beside = Beside {
        steps: &last_steps,
        gaps: oldest(more_gaps, gaps.is_empty()),
        rejected: &rejected,
    };
    let summary = if full { String::new() } else { summary_of(facts, beside, &mut purse, whole) };
    let (index, more_steps) = steps_page(research, None, &mut purse);
    let more =
        More { steps: more_steps, sources: more_sources, gaps: more_gaps, rejected: more_rejected };
    let truncated = goal.truncated
        || more != More::default()
        || outcomes.truncated
        || last_steps.iter().any(|step| step.truncated)
        || branches.len() < research.branches().len();
    Overview {
        goal,
        steps: research.steps().len() as u64,
        estimate: research.estimate(),
        started_at: research.started_at().or(facts.times.map(|(first, _)| first)),
        updated_at: facts.times.map(|(_, last)| last),
        completed_at: research.completed_at(),
        position: facts.position,
        summary,
        index,
        last_steps,
        gaps,
        gaps_open: research.gaps_open().len() as u64,
        sources,
        sources_total: research.sources().len() as u64,
        rejected,
        branches,
        outcomes,
        talk,
        more,
        truncated,
    }
}

fn spend<T>(
    purse: &mut Purse,
    whole: usize,
    percent: usize,
    run: impl FnOnce(&mut Purse) -> T,
) -> T {
    let mut share = purse.share(whole, percent);
    let made = run(&mut share);
    purse.refund(share);
    made
}

/// What a session is for: as said, or the first thing a person said in it.
#[must_use]
pub fn goal(facts: &Facts, bytes_max: usize) -> Cut {
    let first_said = || facts.conversation.first_said.as_ref().map(|line| line.text.as_str());
    fit(facts.research.goal().or_else(first_said).unwrap_or_default(), bytes_max)
}

fn goal_of(facts: &Facts, purse: &mut Purse, whole: usize) -> Cut {
    spend(purse, whole, GOAL, |purse| {
        let cut = goal(facts, purse.left());
        purse.pay(json_bytes(&cut.text).min(purse.left()));
        cut
    })
}

/// What the index can do without.
fn summary_of(facts: &Facts, beside: Beside<'_>, purse: &mut Purse, whole: usize) -> String {
    let text = summary_beside(facts, beside, purse.left().saturating_sub(whole * INDEX / 100));
    purse.pay(json_bytes(&text).min(purse.left()));
    text
}

/// Ordinal of the oldest item a list shows; 0 when it shows all there are.
fn oldest(more: Option<Cursor>, empty: bool) -> Option<usize> {
    match more {
        Some(Cursor::List { before, .. }) => Some(before),
        _ => (!empty).then_some(0),
    }
}

fn last_steps(research: &Research, purse: &mut Purse, whole: usize) -> Vec<StepView> {
    let count = research.full().count().max(1);
    let mut steps = Vec::new();
    for (step, body, at) in research.full() {
        let superseded_by = step.superseded_by;
        let place = StepPlace { position: step.position, at, superseded_by };
        steps.push(spend(purse, whole, LAST_STEPS / count, |purse| brief(body, place, purse)));
    }
    steps
}

/// Takes items from the newest ordinal below `before` down until the purse is empty; at least one,
/// so that paging gets on. Answers them in ascending order and the ordinal of the oldest taken.
fn newest<T>(
    ordinals: impl Iterator<Item = usize>,
    purse: &mut Purse,
    mut item: impl FnMut(usize) -> Option<(T, usize)>,
    at_least_one: bool,
) -> (Vec<T>, Option<usize>) {
    let (mut items, mut oldest) = (Vec::new(), None);
    for ordinal in ordinals {
        let Some((made, price)) = item(ordinal) else { continue };
        let must = at_least_one && items.is_empty();
        if !purse.pay(price) && !must {
            items.reverse();
            return (items, Some(oldest.unwrap_or(ordinal + 1)));
        }
        items.push(made);
        oldest = Some(ordinal);
    }
    items.reverse();
    (items, None)
}

fn go_on(list: List, before: Option<usize>) -> Option<Cursor> {
    before.map(|before| Cursor::List { list, before })
}

/// Steps before an ordinal, or the newest; the cursor goes on with older ones.
#[must_use]
pub fn steps_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<IndexLine>, Option<Cursor>) {
    let steps = research.steps();
    let end = before.unwrap_or(steps.len()).min(steps.len());
    let (lines, next) = newest(
        (0..end).rev(),
        purse,
        |ordinal| {
            let step = steps.get(ordinal)?;
            let line = IndexLine {
                number: step.number,
                branch_id: research.branch_of_step(step).map(|branch| branch.id.to_string()),
                line: step.line.to_string(),
                confidence: step.confidence,
                superseded_by: step.superseded_by,
            };
            let price = price_of(&line);
            Some((line, price))
        },
        before.is_some(),
    );
    (lines, go_on(List::Steps, next))
}

/// What a line of the index costs in the longest of its wire forms.
fn price_of(line: &IndexLine) -> usize {
    let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let text =
        r#"{"stepNumber":,"oneLiner":},"#.len() + digits(line.number) + json_bytes(&line.line);
    let branch = r#","branchId":"#.len() + line.branch_id.as_deref().map_or(0, json_bytes);
    let confidence = r#","confidence":"medium""#.len();
    let superseded = r#","supersededBy":"#.len() + line.superseded_by.map_or(0, digits);
    text + if line.branch_id.is_some() { branch } else { 0 }
        + if line.confidence.is_some() { confidence } else { 0 }
        + if line.superseded_by.is_some() { superseded } else { 0 }
}

/// Open gaps before an ordinal, or the newest.
#[must_use]
pub fn gaps_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<GapLine>, Option<Cursor>) {
    let open = research.gaps_open().range(..before.unwrap_or(usize::MAX)).rev().copied();
    let (lines, next) = newest(
        open,
        purse,
        |ordinal| {
            let gap = research.gaps().get(ordinal)?;
            let line = gap_line(gap);
            let price = 60 + json_bytes(&line.id) + json_bytes(&line.description);
            Some((line, price))
        },
        before.is_some(),
    );
    (lines, go_on(List::Gaps, next))
}

/// A gap as it is shown.
#[must_use]
pub fn gap_line(gap: &crate::projection::Gap) -> GapLine {
    GapLine {
        id: gap.id.to_string(),
        description: gap.description.to_string(),
        step: gap.opened_by,
    }
}

/// Sources before an ordinal, or the newest.
#[must_use]
pub fn sources_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<SourceLine>, Option<Cursor>) {
    let sources = research.sources();
    let end = before.unwrap_or(sources.len()).min(sources.len());
    let (lines, next) = newest(
        (0..end).rev(),
        purse,
        |ordinal| {
            let source = sources.get(ordinal)?;
            let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
            let line = SourceLine {
                url: fit(&source.url, 900).text,
                title: text(&source.title),
                kind: text(&source.kind),
                step: source.step,
                by_server: source.by_server,
                tool: text(&source.tool),
            };
            let price = |text: &Option<String>| text.as_deref().map_or(0, json_bytes);
            let texts = json_bytes(&line.url) + price(&line.title) + price(&line.kind);
            Some((line, 110 + texts))
        },
        before.is_some(),
    );
    (lines, go_on(List::Sources, next))
}

/// Rejected approaches before an ordinal, or the newest.
#[must_use]
pub fn rejected_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<RejectedLine>, Option<Cursor>) {
    let rejected = research.rejected();
    let end = before.unwrap_or(rejected.len()).min(rejected.len());
    let (lines, next) = newest(
        (0..end).rev(),
        purse,
        |ordinal| {
            let (step, text) = rejected.get(ordinal)?;
            let step = research.steps().get(*step).map(|step| step.number);
            Some((RejectedLine { text: text.to_string(), step }, 50 + json_bytes(text)))
        },
        before.is_some(),
    );
    (lines, go_on(List::Rejected, next))
}

fn branches_of(research: &Research, purse: &mut Purse) -> Vec<BranchLine> {
    let branches = research.branches();
    let (lines, _) = newest(
        (0..branches.len()).rev(),
        purse,
        |ordinal| {
            let branch = branches.get(ordinal)?;
            let line =
                BranchLine { id: branch.id.to_string(), from: branch.from, last: branch.last };
            Some((line, 90 + json_bytes(&branch.id)))
        },
        false,
    );
    lines
}

fn talk_of(facts: &Facts, purse: &mut Purse) -> Option<TalkView> {
    let talk = &facts.conversation;
    if talk.events == 0 {
        return None;
    }
    purse.pay(80.min(purse.left()));
    let mut counts: Vec<(String, u64)> =
        talk.counts.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
    if talk.other > 0 {
        counts.push(("other".to_owned(), talk.other));
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let half = purse.left() / 2;
    counts.retain(|(kind, _)| {
        let price = 50 + json_bytes(kind);
        purse.left() >= half + price && purse.pay(price)
    });
    let lines = talk.recent.len();
    let (recent, _) = newest(
        (0..lines).rev(),
        purse,
        |ordinal| {
            let line = talk.recent.get(ordinal)?;
            Some((line.clone(), 110 + json_bytes(&line.text) + json_bytes(line.kind.as_str())))
        },
        false,
    );
    Some(TalkView { events: talk.events, counts, recent })
}
