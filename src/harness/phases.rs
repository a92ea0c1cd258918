//! Summary of a session at three levels: one line per step, phases, the whole session; or the
//! finest that fits a budget. The caller's own summary comes first at each. It must not read a
//! step: the facts contain the texts.

use std::collections::BTreeMap;

use super::{
    budget::{Budget, fit, json_bytes},
    overview::step_summary,
    quote,
    summary::{format_count, summary},
};
use crate::{
    api::overview::{OverviewAnswer, PhaseOut, SummaryAnswer, SummaryLevel},
    event::{Position, pace},
    projection::{Facts, Phase, PhaseEnd},
};

/// Number of steps of work that formatting a phase counts as.
const TEXT_STEPS: usize = 8;
/// Bytes of JSON of a phase's numbers, times and names.
const PHASE_BYTES: usize = 170;
/// Bytes of JSON that every response has.
const FRAME_BYTES: usize = 700;

/// Least weight of a phase that ends at a soft end: its number of events, to which `STEP_WEIGHT` is
/// added for each research step.
const WEIGHT_MIN: u64 = 12;
const STEP_WEIGHT: u64 = 2;
/// Approximate number of phases of a session without hard ends.
const PHASES_WANTED: u64 = 10;
/// Fraction of a session beyond which a phase is divided: one in so many.
const PARTS_WANTED: u64 = 3;

/// Position and label of a checkpoint.
pub type Named = (Position, String);

/// Builds the summary at a level within a byte budget. Labelled checkpoints end phases.
#[must_use]
pub fn summarize_at_level(
    facts: &Facts,
    named: &[Named],
    level: SummaryLevel,
    bytes_max: usize,
) -> SummaryAnswer {
    let view = step_summary(facts, bytes_max);
    let all = build_phases(facts, named);
    let count = all.len() as u64 + facts.phases.joined_count();
    let budget = bytes_max.saturating_sub(FRAME_BYTES + json_bytes(&view.goal));
    let said = facts.research.summary().map(|said| said.text.as_str()).unwrap_or_default();
    let said = fit(said, budget / 3).text;
    let phases = fit_newest_phases(&all, budget.saturating_sub(json_bytes(&said)));
    let left_out = count - phases.len() as u64;
    let level = match level {
        SummaryLevel::Auto if !view.truncated => SummaryLevel::Step,
        SummaryLevel::Auto if left_out == 0 && count > 1 => SummaryLevel::Phase,
        SummaryLevel::Auto => SummaryLevel::Session,
        level => level,
    };
    let mut view = remove_replaced_members(view, level);
    match level {
        SummaryLevel::Phase => {
            view.summary = said;
            view.truncated = left_out > 0;
            if left_out > 0 {
                view.left_out.insert("phases".to_owned(), left_out);
            }
            SummaryAnswer { level: level.into(), overview: view, phases: Some(phases) }
        }
        _ => {
            if level == SummaryLevel::Session {
                view.summary = summary(facts, budget);
            }
            SummaryAnswer { level: level.into(), overview: view, phases: None }
        }
    }
}

fn remove_replaced_members(view: OverviewAnswer, level: SummaryLevel) -> OverviewAnswer {
    let view =
        OverviewAnswer { steps: None, last_steps: None, sources: None, recent: None, ..view };
    if level == SummaryLevel::Step {
        return view;
    }
    OverviewAnswer {
        task: None,
        instructions: Vec::new(),
        next: Vec::new(),
        failures: Vec::new(),
        files: Vec::new(),
        changes: Vec::new(),
        gaps: Vec::new(),
        rejected: Vec::new(),
        plan: None,
        cursors: BTreeMap::new(),
        left_out: BTreeMap::new(),
        ..view
    }
}

/// A phase, and the label of the checkpoint that ended it.
type LabelledPhase = (Phase, Option<String>);

/// Joins the stretches of a session into phases, oldest first.
fn build_phases(facts: &Facts, named: &[Named]) -> Vec<LabelledPhase> {
    let stretches = facts.phases.all();
    let mut parts: Vec<Vec<LabelledPhase>> = vec![Vec::new()];
    for (stretch, name) in stretches.iter().zip(checkpoint_labels(stretches, named)) {
        let is_over = name.is_some() || stretch.ended.is_some_and(PhaseEnd::ends_phase);
        let last = parts.last_mut().into_iter();
        last.for_each(|last| last.push((stretch.clone(), name.map(str::to_owned))));
        if is_over {
            parts.push(Vec::new());
        }
    }
    let total = stretches.iter().map(weight).sum();
    let divide = |part| divide_stretches(part, total, &[PhaseEnd::Instruction, PhaseEnd::Step]);
    let mut all: Vec<LabelledPhase> = parts.into_iter().flat_map(divide).collect();
    if let Some((last, _)) = all.last_mut() {
        last.ended = last.ended.filter(|by| by.ends_phase());
    }
    all
}

/// Returns the checkpoint that ends each stretch: since it is not an event, it ends the stretch
/// with the nearest end.
fn checkpoint_labels<'n>(stretches: &[Phase], named: &'n [Named]) -> Vec<Option<&'n str>> {
    let mut names = vec![None; stretches.len()];
    for (at, name) in named {
        let Some(index) = stretches.iter().position(|one| one.from < *at && *at <= one.to) else {
            continue;
        };
        let is_end = stretches.get(index).is_some_and(|one| one.to.0 - at.0 <= at.0 - one.from.0);
        let ended = if is_end { Some(index) } else { index.checked_sub(1) };
        if let Some(ended) = ended.and_then(|index| names.get_mut(index)) {
            *ended = Some(&**name);
        }
    }
    names
}

fn weight(phase: &Phase) -> u64 {
    pace::step();
    phase.to.0 - phase.from.0 + STEP_WEIGHT * phase.steps
}

/// Joins the stretches between two hard ends into one phase, or divides a long sequence by the
/// first of `ends`, and long parts by the next.
fn divide_stretches(
    stretches: Vec<LabelledPhase>,
    total: u64,
    ends: &[PhaseEnd],
) -> Vec<LabelledPhase> {
    let whole: u64 = stretches.iter().map(|(stretch, _)| weight(stretch)).sum();
    let is_long = whole > (2 * WEIGHT_MIN).max(total / PARTS_WANTED);
    let Some((end, rest)) = ends.split_first().filter(|_| is_long) else {
        return join_stretches(stretches).into_iter().collect();
    };
    let least = WEIGHT_MIN.max(total / PHASES_WANTED);
    let (mut left, mut size) = (whole, 0);
    let mut groups: Vec<Vec<LabelledPhase>> = vec![Vec::new()];
    for part in stretches {
        let last = groups.last().and_then(|group| group.last());
        let may_end = last.is_some_and(|(last, _)| last.ended == Some(*end));
        if may_end && size >= least && left >= least / 2 {
            groups.push(Vec::new());
            size = 0;
        }
        left -= weight(&part.0);
        size += weight(&part.0);
        groups.last_mut().into_iter().for_each(|group| group.push(part.clone()));
    }
    groups.into_iter().flat_map(|group| divide_stretches(group, total, rest)).collect()
}

/// Joins stretches into one phase; `None` without any.
fn join_stretches(stretches: Vec<LabelledPhase>) -> Option<LabelledPhase> {
    let mut all = stretches.into_iter();
    let (mut phase, mut name) = all.next()?;
    for (next, ended) in all {
        phase.join(next);
        name = ended;
    }
    if name.is_some() && !phase.ended.is_some_and(PhaseEnd::ends_phase) {
        phase.ended = Some(PhaseEnd::Checkpoint);
    }
    Some((phase, name))
}

/// Returns the newest phases that fit, oldest first.
fn fit_newest_phases(all: &[LabelledPhase], budget: usize) -> Vec<PhaseOut> {
    let mut budget = Budget::new(budget);
    let newest = all.iter().rev().map(|(phase, name)| PhaseOut {
        from: phase.from,
        to: phase.to,
        began_at: phase.times.0,
        last_at: phase.times.1,
        ended_by: phase.ended.map(|ended| ended.as_str().to_owned()),
        steps: phase.steps,
        text: format_phase(phase, name.as_deref()),
    });
    let fitting = newest.take_while(|one| budget.spend(PHASE_BYTES + json_bytes(&one.text)));
    let mut made: Vec<PhaseOut> = fitting.collect();
    made.reverse();
    made
}

fn format_phase(phase: &Phase, checkpoint: Option<&str>) -> String {
    pace::steps(TEXT_STEPS);
    let mut lines: Vec<String> = Vec::new();
    lines.extend(phase.asked.iter().map(|text| format!("Asked: {text}")));
    let more = phase.requests.saturating_sub(phase.asked.len() as u64);
    lines.extend((more > 0).then(|| format!("and {} more", format_count(more, "request"))));
    lines.extend(phase.finished.as_ref().map(|text| format!("Finished: {text}")));
    lines.extend(phase.found.iter().map(|(_, text)| format!("- {text}")));
    lines.extend(format_calls(phase));
    let said = phase.last.as_deref().filter(|last| {
        let beginning = last.trim_end_matches('…');
        !phase.found.iter().any(|(_, text)| text.starts_with(beginning) || last.contains(&**text))
    });
    lines.extend(said.map(|text| format!("Last: {text}")));
    lines.extend(checkpoint.map(|name| format!("Checkpoint: {name}")));
    let lines: Vec<String> = lines.iter().map(|line| quote::indent_continuation(line)).collect();
    lines.join("\n")
}

/// Returns the calls of a phase and its changed files, in one line.
fn format_calls(phase: &Phase) -> Option<String> {
    if phase.calls == 0 {
        return None;
    }
    let mut tools: Vec<&(Box<str>, u64)> = phase.tools.iter().collect();
    tools.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let tools: Vec<String> = tools.iter().map(|(tool, count)| format!("{tool} {count}")).collect();
    let files = match phase.files.as_slice() {
        [] => String::new(),
        files => format!("; changed {}", files.join(", ")),
    };
    Some(format!("{}: {}{files}", format_count(phase.calls, "call"), tools.join(", ")))
}
