//! Doubts about a hit and marks on it, as far as the log of its session shows; unknown ones are
//! omitted. It must not rank.

use super::{Service, is_notebook};
use crate::{
    api::{
        memory::Mark,
        search::{ChangedFile, Doubt},
    },
    event::{Event, Position, Range, SessionKey, kinds},
    projection::{
        Facts, FileFact, MemoryState,
        body::{self, StepBody},
    },
    search::PassageSnippet,
    store::{FillDirection, ReadRequest, SessionInfo},
};

/// Maximum number of reads of 1 000 events per search to compare its hits with later events.
pub(super) const READS_MAX: usize = 20;
/// Maximum number of changed files listed with a hit.
const FILES_MAX: usize = 8;
/// Maximum number of events before a result, and of their body bytes, searched for its call.
const CALL_EVENTS: u64 = 32;
const CALL_BYTES: usize = 4 << 20;

/// Known doubts and marks of a hit.
#[derive(Default)]
pub(super) struct HitAssessment {
    /// Evidence against it.
    pub(super) doubt: Option<Doubt>,
    pub(super) marked: Vec<Mark>,
    /// Positions of forgotten items of memory, among the hit and its neighbours.
    pub(super) forgotten: Vec<Position>,
    /// True if too many later events exist to read them all.
    pub(super) unchecked: bool,
}

impl Service {
    /// Returns the doubts and marks on a hit, if the remaining reads suffice to load the facts of
    /// its session. The memory facts are always brought up to date: forgotten items are not shown.
    pub(super) async fn assess_hit(
        &self,
        key: &SessionKey,
        event: &Event,
        shown: &PassageSnippet,
        around: &[Event],
        reads: &mut usize,
    ) -> HitAssessment {
        let is_memory = event.kind.as_str() == kinds::MEMORY_ITEM || is_notebook(&key.session);
        if !is_memory && self.try_with_facts(key, reads, |_, _| ()).await.ok().flatten().is_none() {
            return HitAssessment { unchecked: true, ..HitAssessment::default() };
        }
        let run = if kinds::is_result(event.kind.as_str()) {
            self.read_events_with_call(key, event).await
        } else {
            Vec::new()
        };
        let look = |_: &SessionInfo, facts: &Facts| {
            let doubt = collect_doubt(facts, event, shown, &run);
            let is_forgotten = |event: &&Event| {
                let item = facts.memory.get(&event.id);
                item.is_some_and(|item| matches!(item.state, MemoryState::Forgotten(_)))
            };
            let forgotten = around.iter().filter(is_forgotten).map(|event| event.position);
            let doubt = (doubt != Doubt::default()).then_some(doubt);
            let marked = facts.marks.of_event(&event.id).to_vec();
            HitAssessment { doubt, marked, forgotten: forgotten.collect(), unchecked: false }
        };
        self.peek_facts(key, look).await.unwrap_or_default()
    }

    /// Returns the events up to a result, which may include its call.
    async fn read_events_with_call(&self, key: &SessionKey, event: &Event) -> Vec<Event> {
        let from = Position(event.position.0.saturating_sub(CALL_EVENTS));
        let read = ReadRequest {
            range: Range::new(from, event.position.plus(1)),
            events_max: CALL_EVENTS as usize + 1,
            bytes_max: CALL_BYTES,
            fill: FillDirection::Backward,
            allow_gaps: true,
        };
        let mut events =
            self.store.read(key, read).await.map(|slice| slice.events).unwrap_or_default();
        events.sort_by_key(|event| event.position);
        let is_whole = events.last().is_some_and(|last| last.position == event.position);
        if is_whole { events } else { Vec::new() }
    }
}

fn collect_doubt(facts: &Facts, event: &Event, shown: &PassageSnippet, run: &[Event]) -> Doubt {
    let position = event.position;
    // A call and a user state a request, which stays true; a call's own result is a later change.
    let kind = event.kind.as_str();
    let is_request = kinds::is_call(kind) || kind == kinds::USER_MESSAGE;
    let later = facts.work.files().filter(|file| !is_request && file.last > position);
    let named = later.filter(|file| shown.text.contains(&*file.path)).take(FILES_MAX);
    let changed =
        |file: &FileFact| ChangedFile { path: file.path.to_string(), position: file.last };
    let steps = facts.research.steps();
    let step = steps.binary_search_by_key(&position, |step| step.position).ok();
    let mut doubt = Doubt {
        files_changed: named.map(changed).collect(),
        superseded_by: step.and_then(|at| steps.get(at)?.superseded_by),
        rejected: is_rejected(event, shown),
        mended_at: facts.work.resolved_after(run),
        ..Doubt::default()
    };
    match facts.memory.get(&event.id).map(|item| &item.state) {
        Some(MemoryState::Superseded(by)) => doubt.replaced_by = Some(by.clone()),
        Some(MemoryState::Ended(at)) => doubt.ended_at = Some(*at),
        Some(MemoryState::Current | MemoryState::Forgotten(_)) | None => {}
    }
    doubt
}

/// Returns true if all matched words are in one approach that the step rejected, and not all in the
/// rest of its text.
fn is_rejected(event: &Event, shown: &PassageSnippet) -> bool {
    if event.kind.as_str() != kinds::RESEARCH_STEP || shown.matched.is_empty() {
        return false;
    }
    let Some(step) = body::read::<StepBody>(&event.body) else { return false };
    let has_all = |text: &str| shown.matched.iter().all(|word| text.contains(word.as_str()));
    let besides = format!("{}\n{}", step.description, step.reasoning.unwrap_or_default());
    step.rejected.iter().any(|approach| has_all(approach)) && !has_all(&besides)
}
