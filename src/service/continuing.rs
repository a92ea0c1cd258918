//! `continue_session`: continues past the limit of a context window. The call records the attempted
//! work and the state in the caller's words, stores the content that leaves the context and marks
//! it as dropped, creates a checkpoint, and returns all that is needed to continue the same
//! session. It must not end a session.

use super::{
    BoundBy, Caller, ClientIdentity, Code, Service, ServiceError, ServiceResult, added::new_event,
    checkpoints::EarlierCall, views::continuation_budget,
};
use crate::{
    api::views::ContinuationAnswer,
    event::{
        Batch, BatchKey, NewNote, Origin, Position, Range, SessionId, kinds,
        text::{clip, one_line},
    },
    harness::{self, CONTINUATION_TOKENS_MIN, Counter as _, Tokenizer},
    projection::{
        Facts,
        body::{self, CompactedBody, MemoryBody, OutcomeBody, SummaryBody},
        checkpoints::Trigger,
    },
};

/// Maximum number of retries after another writer appended concurrently.
const ATTEMPTS_MAX: usize = 20;
/// Maximum number of bytes stored of a block that leaves the context.
const MEMORY_BYTES: usize = 2_000;
/// Maximum number of characters of the caller's summary.
const SUMMARY_CHARS_MAX: usize = 8_000;
const TOPIC_CHARS_MAX: usize = 120;
/// Importance of the stored item, from 1 to 10; the usual value.
const IMPORTANCE: u8 = 5;
/// Tokens reserved for the ids, range and markers around the view in a response.
const AROUND_TOKENS: usize = 120;
/// Trigger recorded for such a compaction.
const TRIGGER: &str = "continuation";

/// Parameters of a call that continues a session.
#[derive(Clone, Debug, Default)]
pub struct ContinueCall {
    /// Session, if the caller names one.
    pub session: Option<SessionId>,
    /// Token budget of the response.
    pub tokens_max: Option<usize>,
    /// Work that was tried, its outcome, and the next steps.
    pub outcome: OutcomeBody,
    /// The state of the work, in the caller's words.
    pub summary: Option<String>,
    /// True to store the content that leaves the context.
    pub page_out: bool,
    /// Idempotency key: a retry writes nothing more.
    pub key: Option<BatchKey>,
}

/// Result of continuing a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueResult {
    /// Session, unchanged.
    pub session: SessionId,
    /// How the session was found.
    pub bound_by: BoundBy,
    /// Session that it continues; the view covers both.
    pub continues: Option<SessionId>,
    /// Range that this call paged out.
    pub paged_out: Option<Range>,
    /// Id of the checkpoint after it, labelled `continuation`; absent if nothing was written.
    pub checkpoint: Option<String>,
    /// View that an agent needs to continue.
    pub continuation: ContinuationAnswer,
}

/// Range that left the context, and the checkpoint's id.
type Written = (Option<Range>, Option<String>);

impl Service {
    /// Stores the content that leaves the context and returns the continuation.
    ///
    /// # Errors
    /// `session_required`, `invalid_request`, and those of the session and the engine.
    pub async fn continue_session(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        call: ContinueCall,
    ) -> ServiceResult<ContinueResult> {
        let tokens_max = continuation_budget(call.tokens_max)?;
        let (session, bound_by) = self.resolve_session(caller, via, call.session.as_ref()).await?;
        let key = caller.key(&session);
        let (paged_out, checkpoint) = self.page_out(caller, &session, &call).await?;
        self.bind(caller, via, &session);
        // The ids and markers around the view count towards the budget.
        let room = tokens_max.saturating_sub(AROUND_TOKENS).max(CONTINUATION_TOKENS_MIN);
        let remembered = self.format_workspace_items(caller, &session, room).await?;
        let remembered_tokens = Tokenizer::O200k.count(&remembered);
        let (name, room) = (session.to_string(), room - remembered_tokens);
        let look =
            move |facts: &Facts| harness::continuation(facts, &name, room, Tokenizer::O200k, false);
        let continues = self.prior_sessions(&key).await?.pop().map(|link| link.key.session);
        let (mut view, text) = self.view_chain_as_of(&key, None, look).await?;
        let tokens_max = tokens_max as u64;
        view.tokens = (view.tokens + (remembered_tokens + AROUND_TOKENS) as u64).min(tokens_max);
        let continuation = ContinuationAnswer { view, tokens_max, text: Some(text + &remembered) };
        Ok(ContinueResult { session, bound_by, continues, paged_out, checkpoint, continuation })
    }

    /// Writes the events of the call and its checkpoint atomically, unless an earlier attempt of
    /// the same call did.
    async fn page_out(
        &self,
        caller: &Caller,
        session: &SessionId,
        call: &ContinueCall,
    ) -> ServiceResult<Written> {
        let key = caller.key(session);
        for _ in 0..ATTEMPTS_MAX {
            let if_notes = match self.find_earlier_call(&key, call.key.as_ref()).await? {
                EarlierCall::Made(known, _) => return Ok((None, Some(known.id))),
                EarlierCall::New { if_notes } => if_notes,
            };
            let call_of = call.clone();
            let look = move |facts: &Facts| (draft_events(facts, &call_of), facts.position);
            let ((range, bodies), tail) =
                self.view_facts(&key, move |_, facts| look(facts)).await?;
            if bodies.is_empty() {
                return Ok((None, None));
            }
            let events = bodies.into_iter().map(|(kind, body)| {
                let origin =
                    if kind == kinds::CONTEXT_COMPACTED { Origin::Harness } else { caller.origin };
                new_event(kind, origin, body)
            });
            let info = self.store.info(&key).await?;
            let made = self.labelled_note(&info, call.key.as_ref(), Trigger::Limit, TRIGGER);
            let note = NewNote { if_notes, ..made };
            let name = note.name.clone();
            let batch = Batch {
                events: events.collect(),
                note: Some(note),
                if_position: Some(tail),
                ..Batch::default()
            };
            match self.append(caller, session, batch, false).await {
                Ok(_) => return Ok((range, Some(name))),
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(ServiceError::new(Code::PositionConflict, "others write to the session all the time")
            .action("call again"))
    }
}

/// Returns the range that leaves the context and the events to write, by type: the outcome, the
/// caller's summary, the stored blocks, and the record that they left.
fn draft_events(
    facts: &Facts,
    call: &ContinueCall,
) -> (Option<Range>, Vec<(&'static str, bytes::Bytes)>) {
    let mut made = Vec::new();
    if call.outcome != OutcomeBody::default() {
        made.push((kinds::OUTCOME_RECORDED, body::write(&call.outcome)));
    }
    let own = call.summary.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let own = own.map(|text| clip(text, SUMMARY_CHARS_MAX));
    let known = facts.research.summary().map(|summary| &summary.text);
    if let Some(summary) = own.clone().filter(|own| known != Some(own)) {
        let summary = SummaryBody { summary, step: None, branch_id: None };
        made.push((kinds::RESEARCH_SUMMARY, body::write(&summary)));
    }
    // Starts after the last compaction.
    let last = facts.compactions.latest().next_back();
    let since = last.map_or(Position::ZERO, |one| one.position.plus(1));
    let range = Range::new(since, facts.position);
    if range.is_empty() || !call.page_out {
        return (None, made);
    }
    let text = own.unwrap_or_else(|| harness::summary(facts, MEMORY_BYTES));
    let topic = facts.research.goal().or(facts.progress.task().map(|task| task.text.as_str()));
    made.push((
        kinds::MEMORY_ITEM,
        body::write(&MemoryBody {
            kind: "episodic".to_owned(),
            text: text.clone(),
            tags: vec!["page-out".to_owned()],
            topic: topic.map(|text| one_line(text, TOPIC_CHARS_MAX)),
            importance: Some(IMPORTANCE),
            positions: Some(range.into()),
            ..MemoryBody::default()
        }),
    ));
    made.push((
        kinds::CONTEXT_COMPACTED,
        body::write(&CompactedBody {
            trigger: TRIGGER.to_owned(),
            kept: Vec::new(),
            dropped: vec![range.into()],
            summary: Some(text),
        }),
    ));
    (Some(range), made)
}
