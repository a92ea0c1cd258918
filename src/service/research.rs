//! `sequential_search`: one numbered step, durable with its goal, gaps and summary as one batch
//! before the answer. The same number with the same content is a retry; with other content it is a
//! `step_conflict`: a step is never overwritten, forked or dropped. It must not word an answer:
//! harness dresses the facts.

use super::{
    BoundBy, Caller, Code, NewSession, Service, ServiceError, ServiceResult, Via,
    step::{Verdict, alike, checked, conflict, events_of, gap_id, gap_line, judge},
};
use crate::{
    event::{Batch, BatchKey, Origin, Range, SessionId, SessionKey, limits},
    harness::{self, COVERAGE_BYTES, Coverage, FULL_STEPS_MAX, GapLine, Overview},
    projection::{Facts, body::StepBody, text::one_line},
    store::{Fill, Read},
};

/// How often a step is tried again because somebody else wrote in between.
const ATTEMPTS_MAX: usize = 100;
/// Characters of a session's title taken from its goal.
const TITLE_CHARS_MAX: usize = 120;
/// Bounds of research sessions.
#[derive(Clone, Copy, Debug)]
pub struct ResearchOptions {
    /// Steps of one session; 0 (the default) for no limit. An operator who pays for storage
    /// changes it.
    pub steps_max: u64,
    /// Bytes of one answer's structured content; default 10 000, at least 3 000.
    pub answer_bytes_max: usize,
    /// Memory for facts of sessions, in bytes; default 64 MiB.
    pub facts_bytes_max: usize,
}

impl Default for ResearchOptions {
    fn default() -> Self {
        Self { steps_max: 0, answer_bytes_max: harness::ANSWER_BYTES, facts_bytes_max: 64 << 20 }
    }
}

/// A step as a caller brings it.
#[derive(Clone, Debug, Default)]
pub struct StepCall {
    /// The session, when named.
    pub session: Option<SessionId>,
    /// The step.
    pub step: StepBody,
    /// What the research is for.
    pub goal: Option<String>,
    /// Something that is not known.
    pub gap: Option<String>,
    /// Name or text of a gap that is closed now.
    pub closes_gap: Option<String>,
    /// Where the research stands, in the caller's words.
    pub summary: Option<String>,
    /// The full view (`true`), the summary view (`false`), or by the number of steps.
    pub full: Option<bool>,
    /// Whether to say what the sources cover.
    pub coverage: bool,
    /// The client's name for this call: a retry that creates a session creates it once.
    pub key: Option<BatchKey>,
}

/// What became of a step.
#[derive(Clone, Debug)]
pub struct StepAnswer {
    /// The session.
    pub session: SessionId,
    /// By what it was found.
    pub bound_by: BoundBy,
    /// The step's number.
    pub number: u64,
    /// Where the step and what came with it lie.
    pub extent: Range,
    /// Whether it was known already and nothing was written.
    pub repeated: bool,
    /// Whether the overview is the full view.
    pub full: bool,
    /// The gap this step opened.
    pub gap_opened: Option<GapLine>,
    /// The gap this step closed.
    pub gap_closed: Option<GapLine>,
    /// What the sources cover, when asked.
    pub coverage: Option<Coverage>,
    /// The session as it is now.
    pub overview: Overview,
}

/// Where a step goes.
enum Target {
    Existing(SessionId, BoundBy),
    New(Option<SessionId>, BoundBy),
}

impl Service {
    /// Records a step.
    ///
    /// # Errors
    /// `step_conflict`, `session_required`, `session_not_found`, `limit_reached`,
    /// `invalid_request`, `body_too_large`, and those of the disk.
    pub async fn sequential_search(
        &self,
        caller: &Caller,
        via: &Via,
        call: StepCall,
    ) -> ServiceResult<StepAnswer> {
        let number = call.step.number;
        self.record_step(caller, via, call).await.map_err(|mut error| {
            if error.code == Code::SessionNotFound {
                error.hint.last_step = Some(number.saturating_sub(1));
            }
            error
        })
    }

    async fn record_step(
        &self,
        caller: &Caller,
        via: &Via,
        call: StepCall,
    ) -> ServiceResult<StepAnswer> {
        let call = checked(call)?;
        let (session, bound_by, extent, repeated) = match self.target(caller, via, &call).await? {
            Target::Existing(session, by) => {
                let (extent, repeated) = self.append_step(caller, &session, &call).await?;
                (session, by, extent, repeated)
            }
            Target::New(id, by) => self.start(caller, via, &call, id, by).await?,
        };
        self.bind(caller, via, &session);
        let whole = self.options.answer_bytes_max;
        // An answer too small for both goes without what the sources cover.
        let room =
            whole.checked_sub(COVERAGE_BYTES).filter(|left| *left >= harness::ANSWER_BYTES_MIN);
        let room = room.filter(|_| call.coverage);
        let bytes_max = room.unwrap_or(whole);
        let key = caller.key(&session);
        let (full, overview, gap_opened, gap_closed, coverage) = self
            .with_facts(&key, |_, facts| {
                let steps = facts.research.steps().len();
                let full = call.full.unwrap_or(steps <= FULL_STEPS_MAX);
                let gap = |name: Option<&str>| gap_line(&facts.research, name);
                let opened = call.gap.as_ref().map(|_| gap_id(&call.step));
                let overview = harness::overview(facts, full, bytes_max);
                let closed = gap(call.closes_gap.as_deref());
                let coverage = room.map(|_| harness::coverage(&facts.research));
                (full, overview, gap(opened.as_deref()), closed, coverage)
            })
            .await?;
        Ok(StepAnswer {
            session,
            bound_by,
            number: call.step.number,
            extent,
            repeated,
            full,
            gap_opened,
            gap_closed,
            coverage,
            overview,
        })
    }

    /// Where the step goes: the session that is named or bound; a first step without a name starts
    /// a session, unless it repeats the one this connection just started.
    async fn target(&self, caller: &Caller, via: &Via, call: &StepCall) -> ServiceResult<Target> {
        if call.session.is_some() || call.step.number > 1 {
            let (session, by) = self.bound(caller, via, call.session.as_ref()).await?;
            return Ok(Target::Existing(session, by));
        }
        let remembered = self.remembered(caller, via);
        if !remembered.fresh
            && let Some(session) = &via.session
        {
            let by = BoundBy::Started;
            return Ok(if self.known(caller, session).await? {
                Target::Existing(session.clone(), by)
            } else {
                Target::New(Some(session.clone()), by)
            });
        }
        if let Some(session) = remembered.session
            && self.repeats(&caller.key(&session), call).await?
        {
            return Ok(Target::Existing(session, BoundBy::Connection));
        }
        Ok(Target::New(None, BoundBy::New))
    }

    /// Whether the session holds this step, the same, as its latest.
    async fn repeats(&self, key: &SessionKey, call: &StepCall) -> ServiceResult<bool> {
        let branch = call.step.branch_id.as_deref();
        let look = self
            .with_facts(key, |_, facts| {
                let research = &facts.research;
                let at = research.find_on(call.step.number, branch)?;
                let step = research.steps().get(at)?;
                (at + 1 == research.steps().len()).then_some(step.extent)
            })
            .await;
        match look {
            Ok(Some(extent)) => self.same(key, extent, call).await,
            Ok(None) => Ok(false),
            Err(error) if error.code.is_gone() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a session with the step in it.
    async fn start(
        &self,
        caller: &Caller,
        via: &Via,
        call: &StepCall,
        id: Option<SessionId>,
        by: BoundBy,
    ) -> ServiceResult<(SessionId, BoundBy, Range, bool)> {
        if let Verdict::Taken(_) = judge(&Facts::default(), call, self.options.steps_max)? {
            return Err(ServiceError::new(Code::InternalError, "a new session holds no step"));
        }
        let title =
            one_line(call.goal.as_deref().unwrap_or(&call.step.description), TITLE_CHARS_MAX);
        let new = NewSession {
            id: id.clone(),
            title: Some(title),
            workspace: via.workspace(),
            events: Batch { events: events_of(call, caller.origin, None), ..Batch::default() },
            key: call.key.clone(),
            ..NewSession::default()
        };
        match (self.create_session(caller, new).await, id) {
            (Ok((info, emitted)), _) => {
                let extent = Range::new(emitted.first_position, emitted.next_position);
                if emitted.repeated && !self.same(&info.key, extent, call).await? {
                    let message = "this Idempotency-Key came with another step before";
                    let error = ServiceError::new(Code::IdempotencyConflict, message);
                    return Err(error.action("send another step under another key"));
                }
                Ok((info.key.session, by, extent, emitted.repeated))
            }
            // Another caller of the same name was first: the step goes where it is.
            (Err(error), Some(session)) if error.code == Code::SessionExists => {
                let (extent, repeated) = self.append_step(caller, &session, call).await?;
                Ok((session, by, extent, repeated))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Appends the step where the facts allow it; looks again whenever somebody wrote in between.
    async fn append_step(
        &self,
        caller: &Caller,
        session: &SessionId,
        call: &StepCall,
    ) -> ServiceResult<(Range, bool)> {
        let key = caller.key(session);
        let mut conflict = None;
        for _ in 0..ATTEMPTS_MAX {
            let steps_max = self.options.steps_max;
            let verdict = self.with_facts(&key, |_, facts| judge(facts, call, steps_max)).await??;
            let (position, closes) = match verdict {
                Verdict::Write(position, closes) => (position, closes),
                Verdict::Taken(extent) if self.same(&key, extent, call).await? => {
                    return Ok((extent, true));
                }
                Verdict::Taken(_) => return Err(self.taken(&key, call).await?),
            };
            let batch = Batch {
                events: events_of(call, caller.origin, closes),
                if_position: Some(position),
                ..Batch::default()
            };
            match self.emit(caller, session, batch, false).await {
                Ok(emitted) => {
                    let extent = Range::new(emitted.first_position, emitted.next_position);
                    return Ok((extent, emitted.repeated));
                }
                Err(error) if error.code == Code::PositionConflict => conflict = Some(error),
                Err(error) => return Err(error),
            }
        }
        let mut error = conflict.unwrap_or_else(|| {
            ServiceError::new(Code::PositionConflict, "the session is being written to")
        });
        error.hint.retryable = true;
        Err(error.action("many writers are busy with this session: send the same step again"))
    }

    /// Whether what lies in the range is what the call would write.
    async fn same(&self, key: &SessionKey, extent: Range, call: &StepCall) -> ServiceResult<bool> {
        let read = Read {
            range: extent,
            events_max: limits::BATCH_EVENTS_MAX,
            bytes_max: limits::BATCH_BYTES_MAX,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        let found = self.store.read(key, read).await?.events;
        let wanted = events_of(call, Origin::Model, call.closes_gap.clone());
        Ok(found.len() == wanted.len()
            && found.iter().zip(&wanted).all(|(found, wanted)| alike(found, wanted, call)))
    }

    async fn taken(&self, key: &SessionKey, call: &StepCall) -> ServiceResult<ServiceError> {
        self.with_facts(key, |_, facts| {
            let number = call.step.number;
            let message = format!("step {number} is recorded with other content");
            let read = format!("read it with get_research_session stepId {number}");
            conflict(&facts.research, call, message, &read)
        })
        .await
    }
}
