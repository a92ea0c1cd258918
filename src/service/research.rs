//! `sequential_search`: records one numbered step with its goal, gaps and summary as one durable
//! batch before the response. The same number with the same content is a retry; with other content
//! it is a `step_conflict`: a step is never overwritten, forked or dropped. It must not format a
//! response: harness renders the facts.

use super::{
    BoundBy, Caller, ClientIdentity, Code, EmitResult, NewSession, Service, ServiceError,
    ServiceResult, SessionInfo,
    bind::to_candidate,
    directory::{LocalChoice, LocalSession, choose_local, find_idle_session},
    links::continues_name,
    step::{
        StepCall, StepVerdict, build_events, conflict_error, find_gap, find_recorded_step, gap_id,
        is_other_work, is_same_event, judge, validate,
    },
    titles::title_of_name,
};
use crate::{
    api::{overview::OpenGap, research::CoverageOut},
    event::{Batch, Origin, Range, SessionId, SessionKey, kinds, limits},
    harness::{self, COVERAGE_BYTES, FULL_STEPS_MAX, Overview},
    projection::Facts,
    store::{FillDirection, ReadRequest},
};

/// Maximum number of retries of a step after another writer appended concurrently.
const ATTEMPTS_MAX: usize = 100;
/// Maximum JSON bytes of the description of an opened or closed gap in a step's response.
const GAP_BYTES_MAX: usize = 400;
/// Bytes of the members that only a step's response has: its number, whether it is a repeat, the
/// opened gap, the closed gap, and the earlier session.
const OF_STEP_BYTES: usize = 110;

/// Result of a step.
#[derive(Clone, Debug)]
pub struct RecordedStep {
    /// Session of the step.
    pub session: SessionId,
    /// How the session was found.
    pub bound_by: BoundBy,
    /// Number of the step.
    pub number: u64,
    /// Positions of the step and the other events of its batch.
    pub extent: Range,
    /// True if it was stored before and nothing was written.
    pub repeated: bool,
    /// Session that this one continues, if the step created this one.
    pub continues: Option<SessionId>,
    /// True if the overview is the full view.
    pub full: bool,
    /// Gap that this step opened.
    pub gap_opened: Option<OpenGap>,
    /// Gap that this step closed.
    pub gap_closed: Option<OpenGap>,
    /// Coverage of the sources and further search suggestions, on request.
    pub coverage: Option<(CoverageOut, Vec<String>)>,
    /// Current overview of the session.
    pub overview: Overview,
}

/// Session that a step is written to.
struct StepTarget {
    /// Session id; absent for a new session with a generated id.
    session: Option<SessionId>,
    /// True if it must be created.
    new: bool,
    by: BoundBy,
    /// Session that this one continues with another goal.
    continues: Option<SessionId>,
}

impl StepTarget {
    fn existing(session: SessionId, by: BoundBy) -> Self {
        Self { session: Some(session), new: false, by, continues: None }
    }

    fn new(session: Option<SessionId>, by: BoundBy) -> Self {
        Self { session, new: true, by, continues: None }
    }
}

impl Service {
    /// Records a step.
    ///
    /// # Errors
    /// `step_conflict`, `session_required`, `session_not_found`, `limit_reached`,
    /// `invalid_request`, `body_too_large`, and those of the engine.
    pub async fn sequential_search(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        call: StepCall,
    ) -> ServiceResult<RecordedStep> {
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
        via: &ClientIdentity,
        call: StepCall,
    ) -> ServiceResult<RecordedStep> {
        let call = validate(call)?;
        let target = self.choose_target(caller, via, &call).await?;
        let (bound_by, continues) = (target.by, target.continues.clone());
        let (session, extent, repeated) = match target {
            StepTarget { session: Some(session), new: false, .. } => {
                let appended = self.append_step(caller, &session, &call).await;
                let (extent, repeated) = match appended {
                    Err(error) if error.hint.next_step == Some(1) => {
                        return Err(self.offer_others(caller, via, &session, error).await?);
                    }
                    appended => appended?,
                };
                (session, extent, repeated)
            }
            target => self.create_with_step(caller, via, &call, target).await?,
        };
        self.bind(caller, via, &session);
        if let Some(before) = &continues
            && let Err(error) = self.link_sessions(caller, before, &session).await
        {
            // The step is durable, so a failed link does not fail the call.
            tracing::warn!(%session, code = error.code.as_str(), "the session is not linked");
        }
        let whole = self.options.answer_bytes_max.min(harness::STEP_ANSWER_BYTES);
        // A response without space for both omits the coverage.
        let room =
            whole.checked_sub(COVERAGE_BYTES).filter(|left| *left >= harness::ANSWER_BYTES_MIN);
        let room = room.filter(|_| call.coverage);
        let ids = session.as_str().len() + continues.as_ref().map_or(0, |id| id.as_str().len());
        let bytes_max = room.unwrap_or(whole).saturating_sub(ids + OF_STEP_BYTES);
        let (key, number, shown) = (caller.key(&session), call.step.number, call);
        let (full, overview, gap_opened, gap_closed, coverage) = self
            .peek_view(&key, move |_, facts| {
                let steps = facts.research.steps().len();
                let full = shown.full.unwrap_or(steps <= FULL_STEPS_MAX);
                let gap = |name: Option<&str>| {
                    let line = find_gap(&facts.research, name)?;
                    let description = harness::fit(&line.description, GAP_BYTES_MAX).text;
                    Some(OpenGap { description, ..line })
                };
                let opened = shown.gap.as_ref().map(|_| gap_id(&shown.step));
                let (opened, closed) = (gap(opened.as_deref()), gap(shown.closes_gap.as_deref()));
                let told: usize = opened.iter().chain(&closed).map(harness::gap_bytes).sum();
                let overview = harness::overview(facts, full, bytes_max.saturating_sub(told));
                let coverage = room.map(|_| harness::coverage(&facts.research));
                (full, overview, opened, closed, coverage)
            })
            .await?;
        Ok(RecordedStep {
            session,
            bound_by,
            number,
            extent,
            repeated,
            continues,
            full,
            gap_opened,
            gap_closed,
            coverage,
            overview,
        })
    }

    /// Returns the target of a step: the given or bound session. A first step without a session id
    /// uses the bound session if it contains no other work, and creates a session otherwise.
    async fn choose_target(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        call: &StepCall,
    ) -> ServiceResult<StepTarget> {
        if call.session.is_some() || call.step.number > 1 {
            let (session, by) = self.resolve_session(caller, via, call.session.as_ref()).await?;
            return Ok(StepTarget::existing(session, by));
        }
        let remembered = self.last_used_session(caller, via);
        if !remembered.fresh
            && let Some(session) = &self.find_started_session(caller, via).await?
        {
            let by = BoundBy::Started;
            return match self.find_chain_end(caller, session).await? {
                Some(session) => {
                    self.choose_target_of_first_step(caller, call, session, by, None).await
                }
                None => Ok(StepTarget::new(Some(session.clone()), by)),
            };
        }
        if let Some(session) = remembered.session {
            return self
                .choose_target_of_first_step(caller, call, session, BoundBy::Connection, None)
                .await;
        }
        if remembered.fresh {
            return Ok(StepTarget::new(None, BoundBy::New));
        }
        let locals = self.local_sessions(caller, via).await?;
        match choose_local(&locals) {
            LocalChoice::One(session) => {
                let idle = find_idle_session(&locals).cloned();
                self.choose_target_of_first_step(caller, call, session, BoundBy::Directory, idle)
                    .await
            }
            LocalChoice::Several if self.is_new_work(caller, call, &locals).await? => {
                Ok(match find_idle_session(&locals) {
                    Some(idle) => StepTarget::existing(idle.clone(), BoundBy::Directory),
                    None => StepTarget::new(None, BoundBy::New),
                })
            }
            LocalChoice::Several => Err(self.session_required_error(caller, via, &locals).await?),
            LocalChoice::None => Ok(StepTarget::new(None, BoundBy::New)),
        }
    }

    /// Returns true if no live research of the directory has the first step's goal.
    async fn is_new_work(
        &self,
        caller: &Caller,
        call: &StepCall,
        locals: &[LocalSession],
    ) -> ServiceResult<bool> {
        let mut is_new = false;
        for local in locals {
            if call.goal.is_none() || !local.live || local.steps == 0 {
                continue;
            }
            let key = caller.key(&local.info.key.session);
            let other = |_: &SessionInfo, facts: &Facts| is_other_work(&facts.research, call);
            is_new = self.with_facts(&key, other).await?;
            if !is_new {
                break;
            }
        }
        Ok(is_new)
    }

    /// Returns the target of a first step, given the caller's session. If that contains other work,
    /// the step goes to the caller's `idle` session, or else to a new one, linked to the caller's.
    async fn choose_target_of_first_step(
        &self,
        caller: &Caller,
        call: &StepCall,
        session: SessionId,
        by: BoundBy,
        idle: Option<SessionId>,
    ) -> ServiceResult<StepTarget> {
        let key = caller.key(&session);
        let leaves = by == BoundBy::Connection;
        let look = |info: &SessionInfo, facts: &Facts| {
            let first = find_recorded_step(&facts.research, call);
            (first, info.archived_at.is_some(), is_other_work(&facts.research, call))
        };
        let (first, archived, other) = match self.with_facts(&key, look).await {
            Err(error) if error.code.is_gone() && leaves => {
                return Ok(StepTarget::new(None, BoundBy::New));
            }
            found => found?,
        };
        let repeats = match first {
            Some(extent) => self.is_same_step(&key, extent, call).await?,
            None => false,
        };
        if repeats || !(other || archived && leaves) {
            return Ok(StepTarget::existing(session, by));
        }
        let continues = other.then_some(session);
        Ok(match idle.filter(|idle| continues.as_ref() != Some(idle)) {
            Some(idle) => StepTarget { continues, ..StepTarget::existing(idle, by) },
            None => StepTarget { continues, ..StepTarget::new(None, BoundBy::New) },
        })
    }

    /// Adds to the error of a later step in an empty session the other sessions of the directory
    /// that have steps.
    async fn offer_others(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        session: &SessionId,
        mut error: ServiceError,
    ) -> ServiceResult<ServiceError> {
        let locals = self.local_sessions(caller, via).await?;
        let mut others = self.filter_with_research(&locals).await;
        others.retain(|info| info.key.session != *session);
        if others.is_empty() {
            return Ok(error);
        }
        error.message = format!("session {session} holds no steps; others of this directory do");
        error.hint.next_step = None;
        self.add_titles(&mut others).await;
        error.hint.candidates = others.into_iter().map(|info| to_candidate(info, true)).collect();
        Ok(error.action("name the candidate whose research this step continues as sessionId"))
    }

    async fn create_with_step(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        call: &StepCall,
        target: StepTarget,
    ) -> ServiceResult<(SessionId, Range, bool)> {
        if let StepVerdict::Taken(_) = judge(&Facts::default(), call, self.options.steps_max)? {
            return Err(ServiceError::new(Code::InternalError, "a new session holds no step"));
        }
        let id = target.session;
        let link = match target.continues {
            Some(before) => {
                let info = self.store.info(&caller.key(&before)).await;
                let is_of_one = info.is_ok_and(|info| info.workspace == via.workspace());
                is_of_one.then(|| (continues_name(), before.to_string()))
            }
            None => None,
        };
        let events = build_events(call, caller.origin, None);
        let names = |kind: &str| events.iter().position(|event| event.kind.as_str() == kind);
        let title = names(kinds::RESEARCH_GOAL).or_else(|| names(kinds::RESEARCH_STEP));
        let title = title.map(|position| (title_of_name(), position.to_string()));
        let new = NewSession {
            id: id.clone(),
            metadata: link.into_iter().chain(title).collect(),
            workspace: via.workspace(),
            events: Batch { events: events.into(), ..Batch::default() },
            key: call.key.clone(),
            ..NewSession::default()
        };
        match (self.create_session(caller, new).await, id) {
            (Ok((info, appended)), _) => {
                let extent = Range::new(appended.first_position, appended.next_position);
                if appended.repeated && !self.is_same_step(&info.key, extent, call).await? {
                    let message = "this Idempotency-Key came with another step before";
                    let error = ServiceError::new(Code::IdempotencyConflict, message);
                    return Err(error.action("send another step under another key"));
                }
                Ok((info.key.session, extent, appended.repeated))
            }
            // Another caller created the same id first: the step is appended to it.
            (Err(error), Some(session)) if error.code == Code::SessionExists => {
                let (extent, repeated) = self.append_step(caller, &session, call).await?;
                Ok((session, extent, repeated))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Appends the step if the facts allow it; retries after concurrent appends.
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
            let look = |info: &SessionInfo, facts: &Facts| {
                judge(facts, call, steps_max).map_err(|error| with_continue_advice(error, info))
            };
            let verdict = self.with_facts(&key, look).await??;
            let (position, closes) = match verdict {
                StepVerdict::Write(position, closes) => (position, closes),
                StepVerdict::Taken(extent) if self.is_same_step(&key, extent, call).await? => {
                    return Ok((extent, true));
                }
                StepVerdict::Taken(_) => return Err(self.taken_error(&key, call).await?),
            };
            let batch = Batch {
                events: build_events(call, caller.origin, closes).into(),
                if_position: Some(position),
                ..Batch::default()
            };
            match self.emit(caller, session, batch, false).await {
                Ok(EmitResult { appended, .. }) => {
                    let extent = Range::new(appended.first_position, appended.next_position);
                    return Ok((extent, appended.repeated));
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

    /// Returns true if the events in the range are those the call would write.
    async fn is_same_step(
        &self,
        key: &SessionKey,
        extent: Range,
        call: &StepCall,
    ) -> ServiceResult<bool> {
        let read = ReadRequest {
            range: extent,
            events_max: limits::BATCH_EVENTS_MAX,
            bytes_max: limits::BATCH_BYTES_MAX,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let found = self.store.read(key, read).await?.events;
        let wanted = build_events(call, Origin::Model, call.closes_gap.clone());
        Ok(found.len() == wanted.len()
            && found.iter().zip(&wanted).all(|(found, wanted)| is_same_event(found, wanted, call)))
    }

    async fn taken_error(&self, key: &SessionKey, call: &StepCall) -> ServiceResult<ServiceError> {
        self.with_facts(key, |_, facts| {
            let number = call.step.number;
            let message = format!("step {number} is recorded with other content");
            if number == 1 && call.step.branch_id.is_none() {
                // A caller that starts again with the same goal has lost its context.
                let recover = "this research has begun: recover it with get_research_session";
                let mut error = conflict_error(&facts.research, call, message, recover);
                let other = "other work begins with a researchGoal of its own and no sessionId, \
                             or after clear_session";
                let action = error.hint.action.take().unwrap_or_default();
                return error.action(format!("{action}; {other}"));
            }
            let read = format!("read it with get_research_session stepId {number}");
            conflict_error(&facts.research, call, message, &read)
        })
        .await
    }
}

/// Adds advice on how to continue the work of a full session; returns other errors unchanged.
fn with_continue_advice(error: ServiceError, info: &SessionInfo) -> ServiceError {
    if error.code != Code::LimitReached {
        return error;
    }
    let session = &info.key.session;
    let next = match info.workspace {
        Some(_) => format!("restore_session with sessionId {session} after it hands all of it on"),
        None => format!("get_research_session with sessionId {session} reads it after that, too"),
    };
    error.action(format!(
        "nothing was recorded and nothing is lost; the work continues as stepNumber 1 after \
         clear_session; {next}"
    ))
}
