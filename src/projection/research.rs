//! Research in a session: goal, steps, revisions, branches, gaps, rejected approaches, sources and
//! the caller's summary, each with a permanent ordinal, so that a page of a list can be continued
//! while the list grows. It must not decide which steps are valid: service does.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{
    Findings,
    body::{self, GapBody, GoalBody, SourceBody, StepBody, SummaryBody},
    sources::Sources,
};
use crate::{
    api::step::Confidence,
    event::{
        Event, Position, Range, Timestamp, kinds, push_bounded,
        text::{clip, one_line},
    },
};

/// Most characters of a step's line.
pub const LINE_CHARS_MAX: usize = 120;
/// Most steps kept in full.
const FULL_MAX: usize = 3;
/// Most characters kept of a goal, gap, summary, rejected approach, and branch name.
const GOAL_CHARS_MAX: usize = 2_000;
const GAP_CHARS_MAX: usize = 500;
const SUMMARY_CHARS_MAX: usize = 8_000;
const REJECTED_CHARS_MAX: usize = 200;
const NAME_CHARS_MAX: usize = 64;
/// Most characters of a goal taken from the first step's description.
const GOAL_FROM_STEP_CHARS_MAX: usize = 200;

/// A step of the research, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResearchStep {
    /// 1-based number on its branch or the main line.
    pub number: u64,
    /// Index of its branch in [`Research::branches`]; `None` on the main line.
    pub branch: Option<usize>,
    /// Description on one line.
    pub line: Box<str>,
    /// Confidence of the caller.
    pub confidence: Option<Confidence>,
    /// Number of the latest step that revises it; derived, not stored.
    pub superseded_by: Option<u64>,
    /// Position of the step event.
    pub position: Position,
    /// Range of all events in its batch, so that one slice reads the step and its gaps.
    pub extent: Range,
}

/// A branch of steps off the main line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Name of the branch.
    pub id: Arc<str>,
    /// Number of the step from which it starts.
    pub from: Option<u64>,
    /// Number of its latest step.
    pub last: u64,
    /// Number of its steps.
    pub steps: u64,
}

/// A knowledge gap, open or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnowledgeGap {
    /// Name of the gap.
    pub id: Arc<str>,
    /// Open question.
    pub description: Box<str>,
    /// Number of the step that opened it.
    pub opened_by: Option<u64>,
    /// Position where it was closed, and the number of the step that closed it.
    pub closed: Option<(Position, Option<u64>)>,
}

/// Summary of the research that the caller wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerSummary {
    /// Text of the summary.
    pub text: String,
    /// Number of the latest step at that time.
    pub step: Option<u64>,
}

/// Research of a session.
#[derive(Clone, Debug, Default)]
pub struct Research {
    goal: Option<String>,
    goal_from_step: Option<String>,
    estimate: Option<u64>,
    steps: Vec<ResearchStep>,
    numbers: HashMap<(Option<usize>, u64), usize>,
    last_main: u64,
    last_any: u64,
    full: VecDeque<(usize, StepBody, Timestamp)>,
    superseded: u64,
    branches: Vec<Branch>,
    branch_names: HashMap<Arc<str>, usize>,
    gaps: Vec<KnowledgeGap>,
    gap_names: HashMap<Arc<str>, usize>,
    gap_texts: HashMap<Box<str>, usize>,
    gap_texts_closed: HashMap<Box<str>, usize>,
    gaps_open: BTreeSet<usize>,
    rejected: Vec<(usize, Arc<str>)>,
    rejected_known: HashSet<Arc<str>>,
    sources: Sources,
    summary: Option<CallerSummary>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    /// Events of a batch before its step: the step's number, its branch, and their range.
    pending: Option<(u64, Option<Box<str>>, Range)>,
    weight: usize,
}

impl Research {
    /// Clears the numbers of steps and the names of branches: another session begins.
    pub(super) fn begin_session(&mut self) {
        self.numbers.clear();
        self.branch_names.clear();
        (self.last_main, self.last_any, self.pending) = (0, 0, None);
    }

    pub(super) fn fold(&mut self, event: &Event, findings: &mut Findings) -> bool {
        let known = match event.kind.as_str() {
            kinds::RESEARCH_GOAL => self.fold_goal(event),
            kinds::RESEARCH_STEP => self.fold_step(event, findings),
            kinds::RESEARCH_GAP_OPENED => self.fold_gap_opened(event, findings),
            kinds::RESEARCH_GAP_CLOSED => self.fold_gap_closed(event, findings),
            kinds::RESEARCH_SUMMARY => self.fold_summary(event),
            kinds::SOURCE_FOUND => self.fold_source(event, findings),
            _ => return false,
        };
        if known.is_some() {
            self.started_at.get_or_insert(event.happened_at());
            self.weight += 64;
        }
        true
    }

    fn fold_goal(&mut self, event: &Event) -> Option<()> {
        let body: GoalBody = body::read(&event.body)?;
        let goal = clip(body.goal.trim(), GOAL_CHARS_MAX);
        if goal.is_empty() {
            return None;
        }
        self.goal = Some(goal);
        self.start_batch(body.step, body.branch_id.as_deref(), event.position);
        Some(())
    }

    fn fold_step(&mut self, event: &Event, findings: &mut Findings) -> Option<()> {
        let body: StepBody = body::read(&event.body)?;
        if body.number == 0 {
            return None;
        }
        let branch =
            body.branch_id.as_deref().map(|name| self.find_or_add_branch(name, body.branch_from));
        let ordinal = self.steps.len();
        let line = one_line(&body.description, LINE_CHARS_MAX);
        if self.steps.is_empty() {
            self.goal_from_step = Some(clip(body.description.trim(), GOAL_FROM_STEP_CHARS_MAX));
        }
        let extent = self.batch_range(&body, event.position);
        self.weight += line.len() + 160;
        self.steps.push(ResearchStep {
            number: body.number,
            branch,
            line: line.into(),
            confidence: body.confidence,
            superseded_by: None,
            position: event.position,
            extent,
        });
        self.numbers.entry((branch, body.number)).or_insert(ordinal);
        self.last_any = self.last_any.max(body.number);
        match branch.and_then(|at| self.branches.get_mut(at)) {
            Some(branch) => {
                branch.last = branch.last.max(body.number);
                branch.steps += 1;
            }
            None => self.last_main = self.last_main.max(body.number),
        }
        if let Some(revised) = body.revises.filter(|number| *number != body.number) {
            self.supersede(revised, branch, body.number, findings);
        }
        self.estimate = body.total_steps_estimate.filter(|count| *count > 0).or(self.estimate);
        self.completed_at = body.is_final.then_some(event.happened_at());
        let rejected = self.add_rejected(&body, ordinal);
        findings.fold_step(ordinal, &body, &rejected);
        push_bounded(&mut self.full, (ordinal, body, event.happened_at()), FULL_MAX);
        Some(())
    }

    fn fold_gap_opened(&mut self, event: &Event, findings: &mut Findings) -> Option<()> {
        let body: GapBody = body::read(&event.body)?;
        let description = clip(body.description.as_deref()?.trim(), GAP_CHARS_MAX);
        if description.is_empty() {
            return None;
        }
        self.extend_batch(body.step, body.branch_id.as_deref(), event.position);
        let id = match body.gap_id.as_deref() {
            Some(id) => one_line(id, NAME_CHARS_MAX),
            None => format!("p{}", event.position),
        };
        let id: Arc<str> = id.into();
        if let Some(open) = self.gap_texts.get(description.as_str()) {
            self.gap_names.entry(id).or_insert(*open);
            return Some(());
        }
        let ordinal = self.gaps.len();
        self.weight += 2 * description.len() + 160;
        self.gap_names.insert(Arc::clone(&id), ordinal);
        self.gap_texts.insert(description.as_str().into(), ordinal);
        self.gaps_open.insert(ordinal);
        findings.fold_gap(ordinal, &description);
        let description = description.into();
        self.gaps.push(KnowledgeGap { id, description, opened_by: body.step, closed: None });
        Some(())
    }

    fn fold_gap_closed(&mut self, event: &Event, findings: &mut Findings) -> Option<()> {
        let body: GapBody = body::read(&event.body)?;
        self.extend_batch(body.step, body.branch_id.as_deref(), event.position);
        let named = body.gap_id.as_deref().and_then(|id| self.find_gap(id));
        let ordinal = named.or_else(|| self.find_gap(body.description.as_deref()?))?;
        let gap = self.gaps.get_mut(ordinal)?;
        if gap.closed.is_none() {
            gap.closed = Some((event.position, body.step));
            self.gap_texts.remove(&gap.description);
            self.gap_texts_closed.insert(gap.description.clone(), ordinal);
            self.gaps_open.remove(&ordinal);
            findings.remove_gap(ordinal);
        }
        Some(())
    }

    fn fold_summary(&mut self, event: &Event) -> Option<()> {
        let body: SummaryBody = body::read(&event.body)?;
        self.extend_batch(body.step, body.branch_id.as_deref(), event.position);
        let text = clip(body.summary.trim(), SUMMARY_CHARS_MAX);
        let step = body.step.or(self.steps.last().map(|step| step.number));
        self.summary = (!text.is_empty()).then_some(CallerSummary { text, step });
        Some(())
    }

    fn fold_source(&mut self, event: &Event, findings: &mut Findings) -> Option<()> {
        let body: SourceBody = body::read(&event.body)?;
        self.weight += body.url.len().min(4_000) * 2 + 200;
        let step = self.steps.last().map(|step| step.number);
        let title = self.sources.fold(body, step, event.position);
        if let Some((ordinal, title)) = title {
            findings.fold_source(ordinal, title);
        }
        Some(())
    }

    fn find_or_add_branch(&mut self, name: &str, from: Option<u64>) -> usize {
        let name: Arc<str> = one_line(name, NAME_CHARS_MAX).into();
        if let Some(at) = self.branch_names.get(&name) {
            return *at;
        }
        let at = self.branches.len();
        self.weight += 160;
        self.branch_names.insert(Arc::clone(&name), at);
        self.branches.push(Branch { id: name, from, last: from.unwrap_or(0), steps: 0 });
        at
    }

    /// Returns the range of a step's batch, from its first event before the step.
    fn batch_range(&mut self, body: &StepBody, position: Position) -> Range {
        let from = match self.pending.take() {
            Some((step, branch, range))
                if step == body.number
                    && branch.as_deref() == body.branch_id.as_deref()
                    && range.to == position =>
            {
                range.from
            }
            _ => position,
        };
        Range::new(from, position.plus(1))
    }

    fn start_batch(&mut self, step: Option<u64>, branch: Option<&str>, position: Position) {
        self.pending =
            step.map(|step| (step, branch.map(Into::into), Range::new(position, position.plus(1))));
    }

    /// Extends the latest step's range over later events of its batch.
    fn extend_batch(&mut self, number: Option<u64>, branch: Option<&str>, position: Position) {
        let branch = branch.map(|name| self.branch_names.get(name).copied());
        let Some(last) = self.steps.last_mut() else { return };
        let same_branch = match branch {
            None => last.branch.is_none(),
            Some(at) => at.is_some() && last.branch == at,
        };
        if number == Some(last.number) && same_branch && last.extent.to == position {
            last.extent.to = position.plus(1);
        }
    }

    fn supersede(&mut self, revised: u64, branch: Option<usize>, by: u64, findings: &mut Findings) {
        let own =
            self.numbers.get(&(branch, revised)).or_else(|| self.numbers.get(&(None, revised)));
        let Some(at) = own.copied() else { return };
        let Some(step) = self.steps.get_mut(at) else { return };
        self.superseded += u64::from(step.superseded_by.is_none());
        step.superseded_by = Some(by);
        findings.remove_step(at);
    }

    /// Stores the approaches that the step is the first to reject; returns them with their
    /// ordinals.
    fn add_rejected<'a>(&mut self, body: &'a StepBody, ordinal: usize) -> Vec<(usize, &'a str)> {
        let mut new = Vec::new();
        for approach in &body.rejected {
            let line: Arc<str> = one_line(approach, REJECTED_CHARS_MAX).into();
            if line.is_empty() || self.rejected_known.contains(&line) {
                continue;
            }
            self.weight += line.len() + 100;
            self.rejected_known.insert(Arc::clone(&line));
            new.push((self.rejected.len(), approach.as_str()));
            self.rejected.push((ordinal, line));
        }
        new
    }
}

/// Queries; none of them iterates over the steps.
impl Research {
    /// Returns true if no research was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.started_at.is_none()
    }

    /// Returns the goal as given, or the beginning of the first step.
    #[must_use]
    pub fn goal(&self) -> Option<&str> {
        self.goal.as_deref().or(self.goal_from_step.as_deref())
    }

    /// Returns the number of steps that the caller last expected in total.
    #[must_use]
    pub fn estimate(&self) -> Option<u64> {
        self.estimate
    }

    /// Returns every step on one line, in the order of recording.
    #[must_use]
    pub fn steps(&self) -> &[ResearchStep] {
        &self.steps
    }

    /// Returns the latest steps in full, oldest first, each with its time.
    pub fn full_steps(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&ResearchStep, &StepBody, Timestamp)> {
        self.full.iter().filter_map(|(at, body, time)| Some((self.steps.get(*at)?, body, *time)))
    }

    /// Returns the number of superseded steps.
    #[must_use]
    pub fn superseded_count(&self) -> u64 {
        self.superseded
    }

    /// Returns the ordinal of a step by its number: on the named branch; without one on the main
    /// line, or else on the newest branch that has it.
    #[must_use]
    pub fn find_step(&self, number: u64, branch: Option<&str>) -> Option<usize> {
        if let Some(name) = branch {
            let branch = self.branch_names.get(name)?;
            return self.numbers.get(&(Some(*branch), number)).copied();
        }
        if let Some(at) = self.numbers.get(&(None, number)) {
            return Some(*at);
        }
        let newest_first = (0..self.branches.len()).rev();
        newest_first.filter_map(|at| self.numbers.get(&(Some(at), number)).copied()).next()
    }

    /// Returns the ordinal of a step by its number on exactly that branch or the main line.
    #[must_use]
    pub fn find_step_on(&self, number: u64, branch: Option<&str>) -> Option<usize> {
        match branch {
            Some(_) => self.find_step(number, branch),
            None => self.numbers.get(&(None, number)).copied(),
        }
    }

    /// Returns the branch with that name.
    #[must_use]
    pub fn branch(&self, name: &str) -> Option<&Branch> {
        self.branch_names.get(name).and_then(|at| self.branches.get(*at))
    }

    /// Returns the branch of a step; `None` on the main line.
    #[must_use]
    pub fn branch_of_step(&self, step: &ResearchStep) -> Option<&Branch> {
        step.branch.and_then(|at| self.branches.get(at))
    }

    /// Returns the branches, oldest first.
    #[must_use]
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Returns the highest step number on the main line; 0 without steps.
    #[must_use]
    pub fn last_main_number(&self) -> u64 {
        self.last_main
    }

    /// Returns the highest step number of all branches and the main line; 0 without steps.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        self.last_any
    }

    /// Returns every gap, in the order of opening.
    #[must_use]
    pub fn gaps(&self) -> &[KnowledgeGap] {
        &self.gaps
    }

    /// Returns the ordinals of the open gaps.
    #[must_use]
    pub fn open_gaps(&self) -> &BTreeSet<usize> {
        &self.gaps_open
    }

    /// Returns the ordinal of the gap with that name, or with that description: an open one, else
    /// the one closed last.
    #[must_use]
    pub fn find_gap(&self, name: &str) -> Option<usize> {
        let text = clip(name.trim(), GAP_CHARS_MAX);
        let named = self.gap_names.get(name.trim());
        let open = || self.gap_texts.get(text.as_str());
        let closed = || self.gap_texts_closed.get(text.as_str());
        named.or_else(open).or_else(closed).copied()
    }

    /// Returns the rejected approaches, once each, with the ordinal of the step.
    #[must_use]
    pub fn rejected_approaches(&self) -> &[(usize, Arc<str>)] {
        &self.rejected
    }

    /// Returns the sources in the order of discovery.
    #[must_use]
    pub fn sources(&self) -> &[super::ResearchSource] {
        self.sources.list()
    }

    /// Returns true if recording the source would add something.
    #[must_use]
    pub fn would_add_source(&self, found: &super::body::SourceBody) -> bool {
        self.sources.would_add(found)
    }

    /// Returns the summary that the caller wrote.
    #[must_use]
    pub fn summary(&self) -> Option<&CallerSummary> {
        self.summary.as_ref()
    }

    /// Returns the time of the first research event.
    #[must_use]
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// Returns the time of the latest step, if it was marked as the last one.
    #[must_use]
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    pub(super) fn weight(&self) -> usize {
        let full = self.full.iter().map(|(_, body, _)| {
            let rejected: usize = body.rejected.iter().map(String::len).sum();
            body.description.len() + body.reasoning.as_ref().map_or(0, String::len) + rejected
        });
        self.weight + full.sum::<usize>()
    }
}
