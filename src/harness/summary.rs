//! Where the research stands, put together from the facts: the goal, how far it is, the sentences
//! that say most, what was ruled out, what is open. No model: every word was recorded, the same
//! facts give the same summary. It must not walk the steps: it costs the same at any number.

use std::{cmp::Reverse, fmt::Write as _};

use super::{
    budget::{Purse, fit, json_bytes},
    overview::RejectedLine,
    step::StepView,
};
use crate::projection::{Facts, Finding, Research, text::one_line};

/// Characters of the goal and of the latest step's line.
const GOAL_CHARS_MAX: usize = 200;
const LATEST_CHARS_MAX: usize = 100;
/// Characters of an approach or a gap.
const ITEM_CHARS_MAX: usize = 120;
/// Items named of a list that stands beside the summary.
const NEWEST: usize = 2;
/// Shares of what the first lines leave, in percent; what was found gets the rest.
const RULED_OUT: usize = 30;
const OPEN: usize = 15;
/// Bytes of a new line, a dash and two spaces in JSON.
const ITEM_BYTES: usize = 4;

/// What the reader has before the eyes beside the summary: it is not said twice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside<'a> {
    /// The last steps.
    pub(super) steps: &'a [StepView],
    /// The newest approaches that were ruled out.
    pub(super) rejected: &'a [RejectedLine],
    /// Ordinal of the oldest gap shown.
    pub(super) gaps: Option<usize>,
}

/// The summary for a reader who sees nothing else.
#[must_use]
pub fn summary(facts: &Facts, bytes_max: usize) -> String {
    summary_beside(facts, Beside::default(), bytes_max)
}

/// The caller's summary first, when there is one; then what the facts say; within `bytes_max` bytes
/// of JSON.
pub(super) fn summary_beside(facts: &Facts, beside: Beside<'_>, bytes_max: usize) -> String {
    let research = &facts.research;
    let mut text = String::new();
    if let Some(said) = research.summary() {
        let step = said.step.map(|step| format!(" after step {step}")).unwrap_or_default();
        let words = fit(&said.text, bytes_max * 6 / 10).text;
        let _ = writeln!(text, "Caller's summary{step}: {words}");
    }
    if research.steps().is_empty() {
        text.push_str(&talk(facts));
        return fit(&text, bytes_max).text;
    }
    head(&mut text, research);
    let mut purse = Purse::new(bytes_max.saturating_sub(json_bytes(&text)));
    let whole = purse.left();
    let ruled_out = part(&mut purse, whole, RULED_OUT, "Ruled out", |purse| {
        let shown = |one: &&Finding| beside.rejected.iter().any(|line| *line.text == *one.text);
        best(research, research.ruled_out().iter().filter(|one| !shown(one)), purse)
    });
    let open = part(&mut purse, whole, OPEN, "Open", |purse| {
        let ordinals = shown_last(beside.gaps, research.gaps_open().iter().rev().copied());
        items(
            purse,
            ordinals
                .filter_map(|at| research.gaps().get(at))
                .map(|gap| format!("({}) {}", gap.id, one_line(&gap.description, ITEM_CHARS_MAX))),
        )
    });
    let found = part(&mut purse, whole, 100, "Found", |purse| found(research, beside.steps, purse));
    text.push_str(&found);
    text.push_str(&ruled_out);
    text.push_str(&open);
    fit(&text, bytes_max).text
}

/// The goal, and how far it is.
fn head(text: &mut String, research: &Research) {
    if let Some(goal) = research.goal() {
        let _ = writeln!(text, "Goal: {}", one_line(goal, GOAL_CHARS_MAX));
    }
    let steps = research.steps();
    let _ = write!(text, "Recorded {} step(s)", steps.len());
    if let Some(estimate) = research.estimate() {
        let _ = write!(text, " of about {estimate}");
    }
    if research.superseded() > 0 {
        let _ = write!(text, ", {} superseded", research.superseded());
    }
    if !research.branches().is_empty() {
        let _ = write!(text, ", {} branch(es)", research.branches().len());
    }
    let complete = research.completed_at().is_some();
    text.push_str(if complete { "; complete." } else { "; not complete." });
    if let Some(step) = steps.last() {
        let line = one_line(&step.line, LATEST_CHARS_MAX);
        let _ = write!(text, " Latest: {}", labelled(research, steps.len() - 1, &line));
    }
}

/// A heading and its items, within a share of the whole; nothing without items.
fn part(
    purse: &mut Purse,
    whole: usize,
    percent: usize,
    name: &str,
    list: impl FnOnce(&mut Purse) -> Vec<String>,
) -> String {
    let mut share = purse.share(whole, percent);
    let before = share;
    let items = if share.pay(name.len() + ITEM_BYTES) { list(&mut share) } else { Vec::new() };
    if items.is_empty() {
        purse.refund(before);
        return String::new();
    }
    purse.refund(share);
    let mut text = format!("\n{name}:");
    for item in items {
        let _ = write!(text, "\n- {item}");
    }
    text
}

/// Items as far as the purse goes.
fn items(purse: &mut Purse, items: impl Iterator<Item = String>) -> Vec<String> {
    items.take_while(|item| purse.pay(json_bytes(item) + ITEM_BYTES - 2)).collect()
}

/// The newest, and those older than what is shown beside them.
fn shown_last(
    oldest: Option<usize>,
    newest_first: impl Iterator<Item = usize>,
) -> impl Iterator<Item = usize> {
    let beside = move |(place, ordinal): &(usize, usize)| {
        *place < NEWEST || oldest.is_none_or(|oldest| *ordinal < oldest)
    };
    newest_first.enumerate().filter(beside).map(|(_, ordinal)| ordinal)
}

/// The sentences that say most, in the order they were said.
fn found(research: &Research, shown: &[StepView], purse: &mut Purse) -> Vec<String> {
    let steps = research.steps().len();
    let is_shown = |one: &Finding| {
        one.step + 1 == steps && research.steps().last().is_some_and(|step| *step.line == *one.text)
            || one.step + shown.len() >= steps
                && shown.iter().any(|step| {
                    let reasoning = step.reasoning.as_deref().unwrap_or_default();
                    step.description.contains(&*one.text) || reasoning.contains(&*one.text)
                })
    };
    best(research, research.findings().iter().filter(|one| !is_shown(one)), purse)
}

/// The best as far as the purse goes, in the order they were said.
fn best<'a>(
    research: &Research,
    findings: impl Iterator<Item = &'a Finding>,
    purse: &mut Purse,
) -> Vec<String> {
    let mut best: Vec<&Finding> = findings.collect();
    best.sort_unstable_by_key(|one| Reverse((one.score, one.step, &one.text)));
    let fits = |one: &&Finding| purse.pay(ITEM_BYTES + 12 + json_bytes(&one.text));
    let mut chosen: Vec<&Finding> = best.into_iter().take_while(fits).collect();
    chosen.sort_by_key(|one| one.step);
    chosen.into_iter().map(|one| labelled(research, one.step, &one.text)).collect()
}

/// A text with the number of the step that said it.
fn labelled(research: &Research, ordinal: usize, text: &str) -> String {
    let Some(step) = research.steps().get(ordinal) else { return text.to_owned() };
    match research.branch_of_step(step) {
        Some(branch) => format!("[{}@{}] {text}", step.number, one_line(&branch.id, 16)),
        None => format!("[{}] {text}", step.number),
    }
}

fn talk(facts: &Facts) -> String {
    let conversation = &facts.conversation;
    let mut text = format!("A session of {} event(s) without research steps.", facts.position.0);
    if let Some(said) = &conversation.first_said {
        let _ = write!(text, " It began with: {}", one_line(&said.text, 300));
    }
    if let Some(said) = &conversation.last_said
        && conversation.first_said.as_ref().is_some_and(|first| first.position != said.position)
    {
        let _ = write!(text, " The user last said: {}", one_line(&said.text, 300));
    }
    if let Some(answer) = &conversation.last_answer {
        let _ = write!(text, " The agent last said: {}", one_line(&answer.text, 300));
    }
    text
}
