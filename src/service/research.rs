//! `sequential_search`: one numbered step, durable with its goal, gaps and summary as one batch
//! before the answer. The same number with the same content is a retry; with other content it is a
//! `step_conflict`: a step is never overwritten, forked or dropped. It must not word an answer:
//! harness dresses the facts.

use super::{BoundBy, Caller, Code, NewSession, Service, ServiceError, ServiceResult, Via};
use crate::{
    event::{
        Batch, BatchKey, Event, EventType, NewEvent, Origin, Position, Range, SessionId,
        SessionKey, limits,
    },
    harness::{self, COVERAGE_BYTES, Coverage, FULL_STEPS_MAX, GapLine, Overview},
    projection::{
        Facts, Research,
        body::{self, GapBody, GoalBody, SourceBody, StepBody, SummaryBody, kind},
        text::one_line,
    },
    store::{Fill, Read},
};

/// How often a step is tried again because somebody else wrote in between.
const ATTEMPTS_MAX: usize = 100;
/// Characters of a session's title taken from its goal.
const TITLE_CHARS_MAX: usize = 120;
/// Characters of a branch's name.
const BRANCH_CHARS_MAX: usize = 64;

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

/// What became of reported sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcesAdded {
    /// The session.
    pub session: SessionId,
    /// By what it was found.
    pub bound_by: BoundBy,
    /// How many were not known before.
    pub added: u64,
    /// How many the session has now.
    pub total: u64,
}

/// Where a step goes.
enum Target {
    Existing(SessionId, BoundBy),
    New(Option<SessionId>, BoundBy),
}

/// What a look at the facts says about a step.
enum Verdict {
    /// Its number is taken by what lies there.
    Taken(Range),
    /// It can be written at that position.
    Write(Position, Option<String>),
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

    /// Records sources a caller reports; known ones stay as they are.
    ///
    /// # Errors
    /// `session_required`, `invalid_request`, and those of the disk.
    pub async fn add_sources(
        &self,
        caller: &Caller,
        via: &Via,
        session: Option<&SessionId>,
        sources: Vec<SourceBody>,
        key: Option<BatchKey>,
    ) -> ServiceResult<SourcesAdded> {
        if sources.is_empty() {
            return Err(ServiceError::invalid("sources", "send at least one"));
        }
        if sources.iter().any(|source| source.url.trim().is_empty()) {
            return Err(ServiceError::invalid("sources", "a source needs a url"));
        }
        let (session, bound_by) = self.bound(caller, via, session).await?;
        let count = |facts: &Facts| facts.research.sources().len() as u64;
        let session_key = caller.key(&session);
        // What says nothing new is not written: the same call again changes nothing.
        let news = |facts: &Facts| {
            let new = |source: &&SourceBody| facts.research.wants_source(source);
            (count(facts), sources.iter().filter(new).cloned().collect::<Vec<_>>())
        };
        let (before, sources) = self.with_facts(&session_key, |_, facts| news(facts)).await?;
        let event = |source: &SourceBody| NewEvent {
            id: None,
            kind: EventType::new(kind::SOURCE).expect("it keeps to the alphabet"),
            origin: caller.origin,
            created_at: None,
            position: None,
            body: body::write(source),
        };
        let events: Vec<NewEvent> = sources.iter().map(event).collect();
        if !events.is_empty() {
            self.emit(caller, &session, Batch { events, if_position: None, key }, false).await?;
        }
        self.bind(caller, via, &session);
        let total = self.with_facts(&session_key, |_, facts| count(facts)).await?;
        Ok(SourcesAdded { session, bound_by, added: total.saturating_sub(before), total })
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
            Err(error) if matches!(error.code, Code::SessionNotFound | Code::SessionDeleted) => {
                Ok(false)
            }
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
                key: None,
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

/// Whether a recorded event is the one the call would write. A closed gap is told by either of its
/// names: which of them the call used does not matter.
fn alike(found: &Event, wanted: &NewEvent, call: &StepCall) -> bool {
    if found.kind != wanted.kind {
        return false;
    }
    if found.kind.as_str() != kind::GAP_CLOSED {
        return found.body == wanted.body;
    }
    let Some(closed) = body::read::<GapBody>(&found.body) else { return false };
    let name = call.closes_gap.as_deref().map(str::trim);
    name.is_some() && (closed.gap_id.as_deref() == name || closed.description.as_deref() == name)
}

/// Trims what is said and refuses what cannot be a step, naming the argument.
fn checked(mut call: StepCall) -> ServiceResult<StepCall> {
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

/// Whether the step may be written now, and where.
fn judge(facts: &Facts, call: &StepCall, steps_max: u64) -> ServiceResult<Verdict> {
    let research = &facts.research;
    let step = &call.step;
    let branch = step.branch_id.as_deref();
    if let Some(found) = research.find_on(step.number, branch)
        && let Some(found) = research.steps().get(found)
    {
        return Ok(Verdict::Taken(found.extent));
    }
    let (next, next_any) = next_numbers(research, step);
    if step.number != next && step.number != next_any {
        let message = format!("step {} cannot follow: the next one is {next}", step.number);
        let go_on = format!("send this step as stepNumber {next}");
        let mut error = conflict(research, call, message, &go_on);
        error.hint.next_step = Some(next);
        return Err(error);
    }
    if let Some(revised) = step.revises
        && research.find(revised, branch).or_else(|| research.find(revised, None)).is_none()
    {
        let problem = format!("there is no step {revised} to revise");
        return Err(last_step(ServiceError::invalid("revisesStep", problem), research));
    }
    if let (Some(from), None) = (step.branch_from, branch.and_then(|name| research.branch(name)))
        && research.find(from, None).is_none()
    {
        let problem = format!("there is no step {from} to branch from");
        return Err(last_step(ServiceError::invalid("branchFromStep", problem), research));
    }
    if steps_max > 0 && research.steps().len() as u64 >= steps_max {
        let message = format!("this session has {steps_max} steps, the most that is allowed");
        let error = ServiceError::new(Code::LimitReached, message).action(
            "nothing was recorded; start another session with stepNumber 1 after clear_session",
        );
        return Err(last_step(error, research));
    }
    let closes = call.closes_gap.as_deref().map(|name| gap_named(research, name)).transpose()?;
    Ok(Verdict::Write(facts.position, closes))
}

/// The numbers the next step may have: next on its own line, or next of all.
fn next_numbers(research: &Research, step: &StepBody) -> (u64, u64) {
    let last = match &step.branch_id {
        None => research.last_main(),
        Some(name) => match research.branch(name) {
            Some(branch) => branch.last,
            None => step.branch_from.unwrap_or(research.last_main()),
        },
    };
    (last.saturating_add(1), research.last_any().saturating_add(1))
}

fn conflict(research: &Research, call: &StepCall, message: String, first: &str) -> ServiceError {
    let (next, _) = next_numbers(research, &call.step);
    let action = format!("{first}; new work goes on as stepNumber {next}");
    last_step(ServiceError::new(Code::StepConflict, message).action(action), research)
}

fn last_step(mut error: ServiceError, research: &Research) -> ServiceError {
    error.hint.last_step = Some(research.last_any());
    error
}

/// Id of the open gap of that name or text.
fn gap_named(research: &Research, name: &str) -> ServiceResult<String> {
    let gap = research.gap_at(name).and_then(|at| research.gaps().get(at));
    if let Some(gap) = gap.filter(|gap| gap.closed.is_none()) {
        return Ok(gap.id.to_string());
    }
    let problem = if gap.is_some() { "is closed already" } else { "is no open gap" };
    let open: Vec<String> = research
        .gaps_open()
        .iter()
        .rev()
        .take(5)
        .filter_map(|at| {
            let gap = research.gaps().get(*at)?;
            Some(format!("{} ({})", gap.id, one_line(&gap.description, 60)))
        })
        .collect();
    let error = ServiceError::invalid("closesGap", format!("{:?} {problem}", one_line(name, 80)));
    Err(if open.is_empty() {
        error.action("no gap is open: leave closesGap out")
    } else {
        error.action(format!("name an open gap by its id: {}", open.join(", ")))
    })
}

fn gap_line(research: &Research, name: Option<&str>) -> Option<GapLine> {
    let at = research.gap_at(name?)?;
    research.gaps().get(at).map(harness::gap_line)
}

/// Name of the gap a step opens: a retry opens the same.
fn gap_id(step: &StepBody) -> String {
    match &step.branch_id {
        None => format!("g{}", step.number),
        Some(branch) => format!("g{}@{branch}", step.number),
    }
}

/// The batch of a step: the goal before it, gaps and summary after it, each saying whose they are.
fn events_of(call: &StepCall, origin: Origin, closes: Option<String>) -> Vec<NewEvent> {
    let (step, branch_id) = (Some(call.step.number), call.step.branch_id.clone());
    let mut events = Vec::new();
    let mut add = |name: &str, body| {
        events.push(NewEvent {
            id: None,
            kind: EventType::new(name).expect("the research types keep to the alphabet"),
            origin,
            created_at: None,
            position: None,
            body,
        });
    };
    if let Some(goal) = call.goal.clone() {
        add(kind::GOAL, body::write(&GoalBody { goal, step, branch_id: branch_id.clone() }));
    }
    add(kind::STEP, body::write(&call.step));
    if let Some(text) = &call.gap {
        let (gap_id, description) = (Some(gap_id(&call.step)), Some(text.clone()));
        let gap = GapBody { gap_id, description, step, branch_id: branch_id.clone() };
        add(kind::GAP_OPENED, body::write(&gap));
    }
    if let Some(gap_id) = closes {
        let description = call.closes_gap.as_deref().map(|name| name.trim().to_owned());
        let gap_id = Some(gap_id);
        let gap = GapBody { gap_id, description, step, branch_id: branch_id.clone() };
        add(kind::GAP_CLOSED, body::write(&gap));
    }
    if let Some(summary) = call.summary.clone() {
        add(kind::SUMMARY, body::write(&SummaryBody { summary, step, branch_id }));
    }
    events
}
