//! The summary of a session on its three levels: every step in a line, phases, the session as a
//! whole; and the finest that fits a budget. A caller's own summary comes first on each. It must
//! not read a step: the facts contain the texts.

use super::{
    budget::{fit, json_bytes},
    overview::{Overview, step_summary},
    summary::summary,
};
use crate::{
    event::{Position, Timestamp},
    projection::{Ended, Facts, Phase},
};

/// Bytes of JSON of the numbers, times and names of a phase.
const PHASE_BYTES: usize = 170;
/// Bytes of what every answer has.
const FRAME_BYTES: usize = 700;

/// How fine a summary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Every step that fits, and the items worth most.
    Step,
    /// A text for each phase.
    Phase,
    /// One text.
    Session,
    /// The finest of these that leaves nothing out.
    Auto,
}

impl Level {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Phase => "phase",
            Self::Session => "session",
            Self::Auto => "auto",
        }
    }

    /// The level of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Step, Self::Phase, Self::Session, Self::Auto];
        all.into_iter().find(|level| level.as_str() == name)
    }
}

/// A phase, rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseView {
    /// Its first position, and the position after it.
    pub range: (Position, Position),
    /// When it began and when its last event came.
    pub times: (Timestamp, Timestamp),
    /// What ended it; `None` for the current one.
    pub ended: Option<Ended>,
    /// Research steps recorded in it.
    pub steps: u64,
    /// Its request, finished steps, findings and messages, a sentence a line.
    pub text: String,
}

/// A session on one of its levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levelled {
    /// The level.
    pub level: Level,
    /// The overview, with the summary of that level.
    pub overview: Overview,
    /// The phases, oldest first, on their level.
    pub phases: Vec<PhaseView>,
    /// Phases that are not shown.
    pub phases_left_out: u64,
}

/// The summary on a level, within a budget of bytes.
#[must_use]
pub fn levelled(facts: &Facts, level: Level, bytes_max: usize) -> Levelled {
    let mut view = step_summary(facts, bytes_max);
    let all = facts.phases.all().len() as u64 + facts.phases.joined();
    let budget = bytes_max.saturating_sub(FRAME_BYTES + json_bytes(&view.goal.text));
    let said = facts.research.summary().map(|said| said.text.as_str()).unwrap_or_default();
    let said = fit(said, budget / 3).text;
    let phases = newest_phases(facts, budget.saturating_sub(json_bytes(&said)));
    let left_out = all - phases.len() as u64;
    let level = match level {
        Level::Auto if !view.truncated => Level::Step,
        Level::Auto if left_out == 0 && all > 1 => Level::Phase,
        Level::Auto => Level::Session,
        level => level,
    };
    match level {
        Level::Phase => {
            view.summary = said;
            view.truncated = left_out > 0;
            Levelled { level, overview: view, phases, phases_left_out: left_out }
        }
        _ => {
            if level == Level::Session {
                view.summary = summary(facts, budget);
            }
            Levelled { level, overview: view, phases: Vec::new(), phases_left_out: 0 }
        }
    }
}

/// The newest phases that fit, oldest first.
fn newest_phases(facts: &Facts, budget: usize) -> Vec<PhaseView> {
    let mut left = budget;
    let mut made = Vec::new();
    for phase in facts.phases.all().iter().rev() {
        let text = text_of(phase);
        let Some(rest) = left.checked_sub(PHASE_BYTES + json_bytes(&text)) else { break };
        left = rest;
        made.push(PhaseView {
            range: (phase.from, phase.to),
            times: phase.times,
            ended: phase.ended,
            steps: phase.steps,
            text,
        });
    }
    made.reverse();
    made
}

fn text_of(phase: &Phase) -> String {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(phase.asked.as_ref().map(|text| format!("Asked: {text}")));
    lines.extend(phase.finished.as_ref().map(|text| format!("Finished: {text}")));
    lines.extend(phase.found.iter().map(|(_, text)| text.to_string()));
    let said = phase.last.as_deref().filter(|last| {
        let beginning = last.trim_end_matches('…');
        !phase.found.iter().any(|(_, text)| text.starts_with(beginning) || last.contains(&**text))
    });
    lines.extend(said.map(|text| format!("Last: {text}")));
    lines.join("\n")
}
