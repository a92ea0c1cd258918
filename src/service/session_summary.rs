//! A session in a history: its goal and state, computed from its facts. It must not read an event.

use super::SessionInfo;
use crate::{harness, projection::Facts};

/// Maximum bytes of a goal and of a summary in a history.
const PAST_GOAL_BYTES: usize = 240;
const PAST_SUMMARY_BYTES: usize = 800;
/// Maximum characters of a line of that summary.
const PAST_LINE_CHARS: usize = 120;

/// A session in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Session record.
    pub info: SessionInfo,
    /// Goal of the session.
    pub goal: String,
    /// State of the session as text.
    pub summary: String,
    /// Number of recorded steps.
    pub steps: u64,
    /// Number of open gaps.
    pub gaps_open: u64,
    /// True if its latest step was marked as final.
    pub complete: bool,
    /// Number of tool calls without a result.
    pub calls_open: usize,
}

pub(super) fn summarize(info: SessionInfo, facts: &Facts) -> SessionSummary {
    let research = &facts.research;
    SessionSummary {
        info,
        goal: harness::goal_or_task(facts, PAST_GOAL_BYTES).text,
        summary: harness::summary_in_lines(facts, PAST_SUMMARY_BYTES, PAST_LINE_CHARS),
        steps: research.steps().len() as u64,
        gaps_open: research.open_gaps().len() as u64,
        complete: research.completed_at().is_some(),
        calls_open: facts.outcomes.open_calls().len(),
    }
}
