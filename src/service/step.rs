//! Validation of a step against the facts, and its events: its number, and the steps and gaps that
//! it revises, branches from or closes. It must not read or write a session.

use super::{Code, ServiceError, ServiceResult, added::new_event};
use crate::{
    api::overview::OpenGap,
    event::{BatchKey, Event, NewEvent, Origin, Position, Range, SessionId, kinds, text::one_line},
    harness::full_gap_line,
    projection::{
        Facts, Research,
        body::{self, GapBody, GoalBody, StepBody, SummaryBody},
    },
};

/// Number of characters by which two goals are compared.
const GOAL_CHARS_COMPARED: usize = 1_000;
/// Maximum characters of a branch name.
const BRANCH_CHARS_MAX: usize = 64;

/// Step in a caller's request.
#[derive(Clone, Debug, Default)]
pub struct StepCall {
    /// Session, if named.
    pub session: Option<SessionId>,
    /// Content of the step.
    pub step: StepBody,
    /// Purpose of the research.
    pub goal: Option<String>,
    /// A knowledge gap.
    pub gap: Option<String>,
    /// Name or text of a gap that the step closes.
    pub closes_gap: Option<String>,
    /// Summary of the research in the caller's words.
    pub summary: Option<String>,
    /// Full view (`true`), summary view (`false`), or chosen by the number of steps.
    pub full: Option<bool>,
    /// True to report the coverage of the sources.
    pub coverage: bool,
    /// Idempotency key: a retry of a call that creates a session creates it once.
    pub key: Option<BatchKey>,
}

/// Result of the validation.
pub(super) enum StepVerdict {
    /// Positions of the existing step with the same number.
    Taken(Range),
    /// Position at which the step may be written, and the id of the gap that it closes.
    Write(Position, Option<String>),
}

/// Returns true if a recorded event equals the one the call would write. A closed gap may be named
/// by its id or its text.
pub(super) fn is_same_event(found: &Event, wanted: &NewEvent, call: &StepCall) -> bool {
    if found.kind != wanted.kind {
        return false;
    }
    if found.kind.as_str() != kinds::RESEARCH_GAP_CLOSED {
        return found.body == wanted.body;
    }
    let Some(closed) = body::read::<GapBody>(&found.body) else { return false };
    let name = call.closes_gap.as_deref().map(str::trim);
    name.is_some() && (closed.gap_id.as_deref() == name || closed.description.as_deref() == name)
}

/// Trims the texts and rejects an invalid step, naming the argument.
pub(super) fn validate(mut call: StepCall) -> ServiceResult<StepCall> {
    let step = &mut call.step;
    if step.number == 0 {
        return Err(ServiceError::invalid("stepNumber", "steps are numbered from 1"));
    }
    if step.description.trim().is_empty() {
        return Err(ServiceError::invalid("searchStep", "say what this step did and found"));
    }
    let blank = |text: &Option<String>| text.as_ref().is_some_and(|text| text.trim().is_empty());
    for text in [&mut call.goal, &mut call.gap, &mut call.closes_gap, &mut call.summary] {
        if blank(text) {
            *text = None;
        }
    }
    if blank(&step.branch_id) {
        step.branch_id = None;
    }
    if let Some(name) = &step.branch_id
        && (name.chars().count() > BRANCH_CHARS_MAX || *name != one_line(name, BRANCH_CHARS_MAX))
    {
        let problem = format!("one line of at most {BRANCH_CHARS_MAX} characters");
        return Err(ServiceError::invalid("branchId", problem));
    }
    if step.branch_from.is_some() && step.branch_id.is_none() {
        let problem = "a branch needs a name: send branchId with it";
        return Err(ServiceError::invalid("branchFromStep", problem));
    }
    Ok(call)
}

/// Returns the position at which the step may be written now, or the step already recorded.
pub(super) fn judge(facts: &Facts, call: &StepCall, steps_max: u64) -> ServiceResult<StepVerdict> {
    let research = &facts.research;
    let step = &call.step;
    let branch = step.branch_id.as_deref();
    if let Some(found) = research.find_step_on(step.number, branch)
        && let Some(found) = research.steps().get(found)
    {
        return Ok(StepVerdict::Taken(found.extent));
    }
    let (next, next_any) = next_numbers(research, step);
    if step.number != next && step.number != next_any {
        let message = format!("step {} cannot follow: the next one is {next}", step.number);
        let go_on = format!("send this step as stepNumber {next}");
        let mut error = conflict_error(research, call, message, &go_on);
        error.hint.next_step = Some(next);
        return Err(error);
    }
    if let Some(revised) = step.revises
        && research
            .find_step(revised, branch)
            .or_else(|| research.find_step(revised, None))
            .is_none()
    {
        let problem = format!("there is no step {revised} to revise");
        return Err(with_last_step(ServiceError::invalid("revisesStep", problem), research));
    }
    if let (Some(from), None) = (step.branch_from, branch.and_then(|name| research.branch(name)))
        && research.find_step(from, None).is_none()
    {
        let problem = format!("there is no step {from} to branch from");
        return Err(with_last_step(ServiceError::invalid("branchFromStep", problem), research));
    }
    if steps_max > 0 && research.steps().len() as u64 >= steps_max {
        let message = format!("this session has {steps_max} steps, the most that is allowed");
        return Err(with_last_step(ServiceError::new(Code::LimitReached, message), research));
    }
    let closes =
        call.closes_gap.as_deref().map(|name| find_open_gap(research, name)).transpose()?;
    Ok(StepVerdict::Write(facts.position, closes))
}

/// Returns the positions of the step with the call's number.
pub(super) fn find_recorded_step(research: &Research, call: &StepCall) -> Option<Range> {
    let at = research.find_step_on(call.step.number, call.step.branch_id.as_deref())?;
    research.steps().get(at).map(|step| step.extent)
}

/// Returns true if a first step starts other work than the recorded research: its goal differs, or
/// it has none and the research is complete.
pub(super) fn is_other_work(research: &Research, call: &StepCall) -> bool {
    // The facts keep only the start of a long goal.
    let words = |text: &str| -> String {
        let words: Vec<_> = text.split_whitespace().map(str::to_lowercase).collect();
        words.join(" ").chars().take(GOAL_CHARS_COMPARED).collect()
    };
    if research.steps().is_empty() {
        return false;
    }
    match &call.goal {
        Some(goal) => research.goal().is_none_or(|known| words(known) != words(goal)),
        None => research.completed_at().is_some(),
    }
}

/// Returns the allowed numbers of the next step: the next on its branch, or the next of all.
fn next_numbers(research: &Research, step: &StepBody) -> (u64, u64) {
    let last = match &step.branch_id {
        None => research.last_main_number(),
        Some(name) => match research.branch(name) {
            Some(branch) => branch.last,
            None => step.branch_from.unwrap_or(research.last_main_number()),
        },
    };
    (last.saturating_add(1), research.last_number().saturating_add(1))
}

pub(super) fn conflict_error(
    research: &Research,
    call: &StepCall,
    message: String,
    first: &str,
) -> ServiceError {
    let (next, _) = next_numbers(research, &call.step);
    let action = format!("{first}; new work continues as stepNumber {next}");
    with_last_step(ServiceError::new(Code::StepConflict, message).action(action), research)
}

fn with_last_step(mut error: ServiceError, research: &Research) -> ServiceError {
    error.hint.last_step = Some(research.last_number());
    error
}

/// Returns the id of the open gap with that name or text.
fn find_open_gap(research: &Research, name: &str) -> ServiceResult<String> {
    let gap = research.find_gap(name).and_then(|at| research.gaps().get(at));
    if let Some(gap) = gap.filter(|gap| gap.closed.is_none()) {
        return Ok(gap.id.to_string());
    }
    let problem = if gap.is_some() { "is closed already" } else { "is no open gap" };
    let open: Vec<String> = research
        .open_gaps()
        .iter()
        .rev()
        .take(5)
        .filter_map(|at| {
            let gap = research.gaps().get(*at)?;
            Some(format!("{} ({:?})", gap.id, one_line(&gap.description, 60)))
        })
        .collect();
    let error = ServiceError::invalid("closesGap", format!("{:?} {problem}", one_line(name, 80)));
    Err(if open.is_empty() {
        error.action("no gap is open: leave closesGap out")
    } else {
        error.action(format!("name an open gap by its id: {}", open.join(", ")))
    })
}

pub(super) fn find_gap(research: &Research, name: Option<&str>) -> Option<OpenGap> {
    let at = research.find_gap(name?)?;
    research.gaps().get(at).map(full_gap_line)
}

/// Returns the id of the gap that a step opens, the same for a retry.
pub(super) fn gap_id(step: &StepBody) -> String {
    match &step.branch_id {
        None => format!("g{}", step.number),
        Some(branch) => format!("g{}@{branch}", step.number),
    }
}

/// Returns the events of a step: its goal, the step, its gaps and summary, each with its number.
pub(super) fn build_events(
    call: &StepCall,
    origin: Origin,
    closes: Option<String>,
) -> Vec<NewEvent> {
    let (step, branch_id) = (Some(call.step.number), call.step.branch_id.clone());
    let mut events = Vec::new();
    let mut add = |name: &str, body| events.push(new_event(name, origin, body));
    if let Some(goal) = call.goal.clone() {
        add(
            kinds::RESEARCH_GOAL,
            body::write(&GoalBody { goal, step, branch_id: branch_id.clone() }),
        );
    }
    add(kinds::RESEARCH_STEP, body::write(&call.step));
    if let Some(text) = &call.gap {
        let (gap_id, description) = (Some(gap_id(&call.step)), Some(text.clone()));
        let gap = GapBody { gap_id, description, step, branch_id: branch_id.clone() };
        add(kinds::RESEARCH_GAP_OPENED, body::write(&gap));
    }
    if let Some(gap_id) = closes {
        let description = call.closes_gap.as_deref().map(|name| name.trim().to_owned());
        let gap_id = Some(gap_id);
        let gap = GapBody { gap_id, description, step, branch_id: branch_id.clone() };
        add(kinds::RESEARCH_GAP_CLOSED, body::write(&gap));
    }
    if let Some(summary) = call.summary.clone() {
        add(kinds::RESEARCH_SUMMARY, body::write(&SummaryBody { summary, step, branch_id }));
    }
    events
}
