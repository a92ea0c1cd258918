//! FACTS: pure folds of a session's events. Each event takes constant time; no I/O, no clock, no
//! failure: an unknown type and a body that does not parse fold to nothing. It must not depend on
//! views, budgets or clients.

pub mod body;
mod changes;
pub mod checkpoints;
mod claims;
mod compactions;
mod conversation;
mod edits;
mod failures;
mod findings;
mod found_sources;
mod graph;
mod instructions;
mod marks;
mod memory;
mod messages;
mod outcomes;
mod outline;
mod phases;
mod plans;
mod progress;
mod research;
pub mod reusable_results;
mod rewinds;
mod saved_work;
pub(crate) mod sentences;
mod small_talk;
mod sources;
mod strip;
pub mod threads;
mod times;
mod turns;
pub mod usage;
mod user_text;
mod work;

pub use changes::{Commit, EffectFact};
pub use compactions::{
    Compactions, DroppedRanges, SUMMARY_FRAME, introduced_summary, read_compaction,
};
pub use conversation::{Conversation, SpokenMessage};
pub use edits::{Edit, Edits};
pub use failures::{CommandFact, PassedTests};
pub use findings::{Finding, FindingSource, Findings, Signature};
pub use found_sources::{FoundSource, UnrecordedSources};
pub use graph::{ENTITIES_MAX, GRAPH_BYTES_MAX, Graph, GraphEntity, RELATIONS_MAX, Relation};
pub use instructions::{Instruction, Instructions};
pub use marks::Marks;
pub use memory::{MemoryItems, MemoryState, StoredMemory};
pub use outcomes::{Outcomes, ToolOutcome};
pub use outline::{Outline, SessionFold};
pub use phases::{Phase, PhaseEnd, Phases};
pub use plans::{AgentPlan, is_done, is_in_progress};
pub use progress::{CallOutput, WorkProgress};
pub use research::{Branch, CallerSummary, KnowledgeGap, LINE_CHARS_MAX, Research, ResearchStep};
pub use reusable_results::{RememberedResult, RememberedResults};
pub use rewinds::{WithdrawnRanges, parse_withdrawn};
pub use saved_work::{SavedFile, SavedItem, SavedText, SavedWork};
pub use small_talk::is_narration;
pub use sources::{ResearchSource, Sources, normalize_url};
pub use strip::{CELLS_MAX, PAIR_REACH, Strip, row_kind};
pub use threads::Threads;
pub use times::{EventTimes, own_time};
pub use usage::{ContextLevel, ReportedRequest, ReportedUsage};
pub use user_text::{extract_typed_text, strip_program_text};
pub use work::{FileFact, FileState, RefusalFact, WorkFacts};

use crate::{
    event::{Event, Position, Timestamp, kinds, pace},
    traces::{OpenCalls, TracedCall, tools::ToolKind},
};

/// Least steps that folding an event counts as, and bytes of its body per further step.
const FOLD_STEPS: usize = 4;
const BYTES_OF_A_STEP: usize = 128;

/// Facts of a session up to a position.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// First position that is not folded yet.
    pub position: Position,
    /// Times of its events.
    pub times: EventTimes,
    /// Research steps, gaps and sources.
    pub research: Research,
    /// Best sentences of steps and messages.
    pub findings: Findings,
    /// Outcomes of tool calls.
    pub outcomes: Outcomes,
    /// Messages, and counts of events.
    pub conversation: Conversation,
    /// Progress of the work: task, plan, attempts, results.
    pub progress: WorkProgress,
    /// Files, commands and changes.
    pub work: WorkFacts,
    /// Phases of the work.
    pub phases: Phases,
    /// Events that the client's compactions removed from its context.
    pub compactions: Compactions,
    /// Tokens that the model's requests used.
    pub usage: ReportedUsage,
    /// Subagents.
    pub threads: Threads,
    /// Results of tools that may be reused.
    pub remembered: RememberedResults,
    /// Items of memory.
    pub memory: MemoryItems,
    /// Marks on single events.
    pub marks: Marks,
    /// Entities and relations.
    pub graph: Graph,
    /// Items saved by the client.
    pub saved: SavedWork,
    /// Sessions of a chain that these facts cover, each with the position where its events begin.
    line: Vec<(Position, Box<str>)>,
    /// Ranges removed from the conversation, for each session of the chain.
    routes: Vec<rewinds::LeftOutRanges>,
    /// Sources in results that the log does not contain yet.
    pub findable: UnrecordedSources,
    calls: OpenCalls,
    /// Latest statements of the agent.
    claims: claims::AgentClaims,
}

impl Facts {
    /// Creates empty facts for a session of a workspace.
    #[must_use]
    pub fn from_workspace(workspace: Option<&str>) -> Self {
        Self { calls: OpenCalls::with_workspace(workspace), ..Self::default() }
    }

    /// Returns the workspace to which file paths are relative.
    #[must_use]
    pub fn workspace(&self) -> Option<&str> {
        self.calls.workspace()
    }

    /// Begins the next session of the chain: its events follow, with positions from 0. Earlier
    /// statements hold until its events withdraw them.
    pub fn begin_session(&mut self, session: &str) {
        let open: Vec<Position> =
            self.outcomes.open_calls().iter().map(|call| call.position).collect();
        // The calls of earlier sessions were marked when the next session began.
        let base = self.line.last().map_or(Position::ZERO, |(base, _)| *base);
        let is_left = |at: &Position| *at >= base && open.contains(at);
        let left = self.calls.open().filter(|call| is_left(&call.position));
        left.for_each(|call| self.work.fold_unfinished(call));
        self.line.push((self.position, session.into()));
        self.research.begin_session();
        self.progress.begin_session();
        self.current_ranges();
    }

    /// Returns the left-out ranges of the session that is being folded.
    fn current_ranges(&mut self) -> &mut rewinds::LeftOutRanges {
        let index = self.line.len().saturating_sub(1);
        if self.routes.len() <= index {
            self.routes.resize(index + 1, rewinds::LeftOutRanges::default());
        }
        self.routes.get_mut(index).expect("there are as many as sessions")
    }

    /// Returns empty facts for a new fold, if the session must be folded again: these facts include
    /// events that a rewind withdrew later, or dropped messages that were marked important later.
    /// `None` if they are up to date.
    #[must_use]
    pub fn for_new_fold(&self) -> Option<Self> {
        let folded = self.line.len().max(1);
        let stale = self.routes.iter().take(folded).any(rewinds::LeftOutRanges::is_stale);
        let route = |(index, route): (usize, &rewinds::LeftOutRanges)| {
            if index < folded { route.for_new_fold() } else { route.clone() }
        };
        let routes = || self.routes.iter().enumerate().map(route).collect();
        (stale || self.marks.has_late_marks()).then(|| Self {
            routes: routes(),
            marks: self.marks.for_new_fold(self.position),
            ..Self::from_workspace(self.calls.workspace())
        })
    }

    /// Resets the facts of a single session for [a new fold](Self::for_new_fold), if needed;
    /// returns true if it did.
    pub fn restart_if_stale(&mut self) -> bool {
        let again = self.for_new_fold().filter(|_| self.line.len() <= 1);
        let Some(again) = again else { return false };
        *self = Self { line: std::mem::take(&mut self.line), ..again };
        true
    }

    /// Returns true if no ranges to leave out are known yet.
    #[must_use]
    pub fn has_no_ranges(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the ranges removed from the conversation of the session folded last.
    #[must_use]
    pub fn withdrawn_ranges(&self) -> WithdrawnRanges {
        self.routes.last().map(rewinds::LeftOutRanges::latest_withdrawn).unwrap_or_default()
    }

    /// Sets the session of these facts, before another one begins.
    pub fn set_session(&mut self, session: &str) {
        if self.line.is_empty() {
            self.line.push((Position(0), session.into()));
        }
    }

    /// Returns the first position of the current session that is not folded yet.
    #[must_use]
    pub fn next_position(&self) -> Position {
        Position(self.position.0 - self.session_base().0)
    }

    fn session_base(&self) -> Position {
        self.line.last().map_or(Position(0), |(base, _)| *base)
    }

    /// Returns the calls of the last session's agent without a result whose turn has not ended,
    /// oldest first, but for those of this program: position, tool, and input on one line. Those of
    /// a subagent are left out: its own call is listed, and no event may end its turn.
    pub fn unfinished_calls(&self) -> impl DoubleEndedIterator<Item = (Position, &str, &str)> {
        let open: Vec<Position> =
            self.outcomes.open_calls().iter().map(|call| call.position).collect();
        let base = self.session_base();
        let is_left = move |call: &&TracedCall| {
            call.position >= base
                && open.contains(&call.position)
                && call.does != ToolKind::Own
                && !call.is_aside()
        };
        let calls = self.calls.open().filter(is_left);
        calls.map(|call| (call.position, &*call.tool, &*call.input))
    }

    /// Converts a position of the facts: the 1-based number of its session in the chain, `None` for
    /// the last session, and the position in that session.
    #[must_use]
    pub fn to_session_position(&self, at: Position) -> (Option<usize>, Position) {
        let number = self.line.partition_point(|(base, _)| *base <= at);
        let base = number.checked_sub(1).and_then(|index| self.line.get(index));
        let Some((base, _)) = base else { return (None, at) };
        ((number < self.line.len()).then_some(number), Position(at.0 - base.0))
    }

    /// Returns the sessions of the chain before the last one with their numbers, latest first.
    pub fn earlier_sessions(&self) -> impl Iterator<Item = (usize, &str)> {
        let before = self.line.len().saturating_sub(1);
        let named = self.line.iter().take(before).enumerate();
        named.map(|(index, (_, session))| (index + 1, &**session)).rev()
    }

    /// Folds one event. Events of a session must come in ascending order of position.
    pub fn fold(&mut self, event: &Event) {
        let (event, base) = (&*event.with_paired_surrogates(), self.session_base());
        if base > Position(0) {
            let position = base.plus(event.position.0);
            self.fold_at(&Event { position, ..event.clone() }, base);
        } else {
            self.fold_at(event, base);
        }
    }

    fn fold_at(&mut self, event: &Event, base: Position) {
        pace::steps(FOLD_STEPS + event.body.len() / BYTES_OF_A_STEP);
        self.position = event.position.plus(1);
        let happened_at = self.times.fold(event);
        self.memory.fold(event);
        self.graph.fold(event);
        if let Some(marked) = self.marks.fold(event, base)
            && (self.conversation.may_have_dropped(marked)
                || self.progress.instructions().may_have_dropped(marked))
        {
            self.marks.record_late_mark(event.position);
        }
        if self.current_ranges().fold(event, base) {
            // The tokens of a withdrawn request are still used.
            return self.usage.fold(event);
        }
        let context = self.saved.context().map(|said| said.position);
        if let Some(words) = self.saved.fold(event, self.calls.workspace()) {
            // The text of an earlier save is no longer current.
            context.into_iter().for_each(|before| self.findings.remove_text(before));
            self.findings.fold_text(event.position, &words);
        }
        let mut made = None;
        if !self.research.fold(event, &mut self.findings) {
            self.outcomes.fold(event);
            if let Some(said) = self.conversation.fold(event, &self.marks) {
                let gone = self.claims.fold_message(event.position, &said);
                self.withdraw_statements(&gone);
                self.findings.fold_message(event.position, &said);
            }
            for mut notice in self.calls.fold_notices(event) {
                self.work.fold(&mut notice);
            }
            let mut tool_event = self.calls.fold(event);
            if let Some(tool_event) = &mut tool_event {
                self.work.fold(tool_event);
                made = phases::ToolEffect::from_event(tool_event);
            }
            self.work.fold_others(event);
            let is_refused = self
                .work
                .refusals()
                .next_back()
                .is_some_and(|one| one.position == event.position && !one.words.is_empty());
            self.progress.fold(event, tool_event.as_ref(), &self.marks);
            self.threads.fold(event, tool_event.as_ref());
            self.fold_refutations(event.position, is_refused);
            self.compactions.fold(event);
            self.usage.fold(event);
            self.remembered.fold(event);
            self.findable.fold(event);
        } else {
            self.findable.fold_recorded(event);
        }
        self.fold_phase(event, happened_at, made);
    }

    /// Withdraws the statements that a user message, a refused call or a run of tests at a position
    /// refutes.
    fn fold_refutations(&mut self, position: Position, is_refused: bool) {
        let word = self.progress.instructions().recent_instructions().next_back();
        let word = word.filter(|word| word.position == position).map(|word| word.text.clone());
        let mut gone = if is_refused { self.claims.withdraw_refused_plans() } else { Vec::new() };
        gone.extend(word.iter().flat_map(|text| self.claims.fold_user_message(text)));
        if self.work.all_tests_pass_since(position) {
            gone.extend(self.claims.withdraw_failing_tests());
        }
        self.withdraw_statements(&gone);
    }

    fn withdraw_statements(&mut self, gone: &[claims::WithdrawnStatement]) {
        for one in gone {
            if let Some(statement) = self.conversation.withdraw_statement(one) {
                self.findings.withdraw(one.position, statement);
            }
        }
    }

    /// Folds into the phases the meaning that other folds found in the event.
    fn fold_phase(
        &mut self,
        event: &Event,
        happened_at: Timestamp,
        made: Option<phases::ToolEffect>,
    ) {
        let at = event.position;
        let is_step = event.kind.as_str() == kinds::RESEARCH_STEP;
        let found = self.findings.take_latest();
        let word = self.progress.instructions().recent_instructions().next_back();
        let task = self.progress.task();
        let asked = word.or(task).filter(|word| word.position == at);
        let plan = self.progress.plan().filter(|plan| plan.position == at);
        let done = plan.map(|plan| plan.steps.iter().filter(|step| is_done(step)).count());
        let finished = match (plan, done) {
            (Some(plan), Some(done)) if self.phases.record_finished_steps(done) => {
                plan.steps.iter().rev().find(|step| is_done(step))
            }
            _ => None,
        };
        let answer = self.conversation.last_answer.as_ref().filter(|line| line.position == at);
        let step = self.research.steps().last().filter(|step| step.position == at);
        let said = answer.map(|line| line.text.as_str()).or(step.map(|step| &*step.line));
        let mark = phases::EventMeaning {
            is_step,
            asked: asked.map(|word| word.text.as_str()),
            finished: finished.map(|step| step.text.as_str()),
            is_compaction: event.kind.as_str() == kinds::CONTEXT_COMPACTED,
            found: found.as_ref().map(|(score, text)| (*score, &**text)),
            made,
            said,
        };
        self.phases.fold(at, happened_at, mark);
    }

    /// Returns the approximate memory use of the facts in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>()
            + self.research.weight()
            + self.findings.weight()
            + self.phases.weight()
            + self.outcomes.weight()
            + self.conversation.weight()
            + self.claims.weight()
            + self.progress.weight()
            + self.work.weight()
            + self.calls.weight()
            + self.compactions.weight()
            + self.remembered.weight()
            + self.memory.weight()
            + self.marks.weight()
            + self.graph.weight()
            + self.saved.weight()
            + self.routes.iter().map(rewinds::LeftOutRanges::weight).sum::<usize>()
            + self.findable.weight()
    }
}
