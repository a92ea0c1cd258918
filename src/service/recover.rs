//! `get_research_session`: the subject and state of a session, one step of it, the rest of a list,
//! or the matches of a query, for a reader that lost its context. It must not write.

use super::{
    BoundBy, Caller, ClientIdentity, Code, Service, ServiceError, ServiceResult,
    links::restored_session,
};
use crate::{
    api::{cursor::PageCursor, find::FindAnswer, overview::PageAnswer, step::StepAnswer},
    event::{Point, Position, Range, SessionId, SessionKey, Timestamp, kinds, limits},
    harness::{self, Overview, StepContext, TOKEN_BYTES_LEAST},
    projection::{
        Facts,
        body::{self, StepBody},
    },
    store::{FillDirection, ReadRequest},
};

/// Bytes of a page's names, ids, marker and cursor.
const PAGE_FRAME_BYTES: usize = 900;

/// Parameters of a read.
#[derive(Clone, Debug, Default)]
pub struct RecoverCall {
    /// Session, if named.
    pub session: Option<SessionId>,
    /// Number of a step to return in full.
    pub step: Option<u64>,
    /// Branch of the step, if several steps have that number.
    pub branch: Option<String>,
    /// Cursor of an earlier response.
    pub cursor: Option<PageCursor>,
    /// Point as of which to read; the present if absent.
    pub at: Option<Point>,
    /// Search query; combinable only with `at`.
    pub find: Option<String>,
    /// True if the overview includes a text for a model.
    pub is_text: bool,
}

/// Response to a reader.
#[derive(Clone, Debug, PartialEq)]
pub enum RecoverAnswer {
    /// Overview of the session.
    Overview(Box<Overview>),
    /// One step in full.
    Step(Box<StepAnswer>),
    /// Rest of a list.
    Page(PageAnswer),
    /// Matches of the query.
    Found(Box<FindAnswer>),
}

/// Response to a reader, with its session.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredSession {
    /// Session that was read.
    pub session: SessionId,
    /// How it was found.
    pub by: BoundBy,
    /// Continued session shown in its place, if nothing was asked or done in it yet.
    pub continues: Option<SessionId>,
    /// Response content.
    pub recovered: RecoverAnswer,
}

/// Position of a step.
struct LocatedStep {
    ordinal: usize,
    extent: Range,
    place: StepContext,
}

impl RecoverCall {
    /// Returns the query, which excludes other parameters.
    fn query_text(&self) -> ServiceResult<&str> {
        for (field, is_there) in [
            ("stepId", self.step.is_some()),
            ("branchId", self.branch.is_some()),
            ("cursor", self.cursor.is_some()),
        ] {
            if is_there {
                return Err(ServiceError::invalid(field, "it does not go with find")
                    .action("look words up with find, and at if need be; then ask for the step"));
            }
        }
        Ok(self.find.as_deref().unwrap_or_default())
    }
}

impl Service {
    /// Returns the content of a session for a reader that lost its context.
    ///
    /// # Errors
    /// `session_required`, `session_not_found`, `session_damaged`, `step_not_found`,
    /// `point_not_found`, and `invalid_request` for a cursor of another session or an invalid
    /// query.
    pub async fn get_research_session(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        call: &RecoverCall,
    ) -> ServiceResult<RecoveredSession> {
        let (session, by) = self.resolve_session(caller, via, call.session.as_ref()).await?;
        let own = caller.key(&session);
        let stand_in = self.find_stand_in(&own).await?;
        let continues = stand_in.as_ref().map(|(key, _)| key.session.clone());
        let (key, read_to) = stand_in.map_or((own, None), |(key, to)| (key, Some(to)));
        let bytes_max = self.options.answer_bytes_max;
        let at = match (&call.at, read_to) {
            (Some(point), _) => Some(self.view_position(&key, Some(point)).await?),
            (None, Some(to)) if to < self.store.info(&key).await?.tail => Some(to),
            _ => None,
        };
        let recovered = match (call.cursor, call.step) {
            _ if call.find.is_some() => {
                let found = self.find_in_session(&key, call.query_text()?, at, bytes_max).await?;
                RecoverAnswer::Found(Box::new(found))
            }
            (Some(PageCursor::Step { ordinal, byte_offset }), _) => {
                let find = move |facts: &Facts| locate_step(facts, ordinal);
                let found = self.view_facts_as_of(&key, at, find).await?;
                let found = found.ok_or_else(foreign_cursor_error)?;
                self.read_step_page(&key, found, byte_offset, bytes_max).await?
            }
            (Some(PageCursor::List { list, before }), _) => {
                let room = bytes_max - PAGE_FRAME_BYTES;
                let page =
                    move |facts: &Facts| harness::list_page(&facts.research, list, before, room);
                RecoverAnswer::Page(self.view_facts_as_of(&key, at, page).await?)
            }
            (None, Some(number)) => {
                let branch = call.branch.clone();
                let find = move |facts: &Facts| find_step(facts, number, branch.as_deref());
                let found = self.view_facts_as_of(&key, at, find).await??;
                self.read_step_page(&key, found, 0, bytes_max).await?
            }
            (None, None) => {
                let view = self.recover_overview(caller, &session, &key, at, call).await?;
                RecoverAnswer::Overview(Box::new(view))
            }
        };
        self.bind(caller, via, &session);
        Ok(RecoveredSession { session, by, continues, recovered })
    }

    /// Returns the overview of `key`, which `session` is or continues, with its text and what
    /// precedes it if the call asks for them.
    async fn recover_overview(
        &self,
        caller: &Caller,
        session: &SessionId,
        key: &SessionKey,
        at: Option<Position>,
        call: &RecoverCall,
    ) -> ServiceResult<Overview> {
        let room = self.options.answer_bytes_max.saturating_sub(session.as_str().len());
        let has_chain = call.is_text && restored_session(&self.store.info(key).await?).is_some();
        let (name, is_text) = (key.session.to_string(), call.is_text && !has_chain);
        let session_name = name.clone();
        let view = move |facts: &Facts| {
            let view = match is_text {
                true => harness::overview_in_text(facts, &session_name, room, false),
                false => harness::overview(facts, false, room),
            };
            (view, harness::has_work(facts))
        };
        // Its lists are bounded: without the text it takes less than a millisecond.
        let (mut view, has_work) = match at {
            None if !is_text => self.with_facts(key, |_, facts| view(facts)).await?,
            _ => self.view_facts_as_of(key, at, view).await?,
        };
        if has_chain {
            // The text covers the sessions before it as well.
            let text = move |facts: &Facts| harness::overview_text(facts, &name, room);
            view.shown.text = Some(self.view_chain_as_of(key, at, text).await?);
        }
        if call.at.is_none() && call.is_text {
            let tokens = room / TOKEN_BYTES_LEAST;
            let kept = self.format_workspace_items(caller, session, tokens).await?;
            let before = match has_work {
                true => String::new(),
                false => self.format_last_work(caller, session).await?,
            };
            view.shown.text = view.shown.text.map(|text| text + &before + &kept);
        }
        Ok(view)
    }

    /// Reads the events of the step only.
    async fn read_step_page(
        &self,
        key: &SessionKey,
        found: LocatedStep,
        byte_offset: usize,
        bytes_max: usize,
    ) -> ServiceResult<RecoverAnswer> {
        let read = ReadRequest {
            range: found.extent,
            events_max: limits::BATCH_EVENTS_MAX,
            bytes_max: limits::BATCH_BYTES_MAX,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let events = self.store.read(key, read).await?.events;
        let event = events.into_iter().find(|event| event.position == found.place.position);
        let step = event
            .filter(|event| event.kind.as_str() == kinds::RESEARCH_STEP)
            .and_then(|event| Some((body::read::<StepBody>(&event.body)?, event.happened_at())));
        let Some((step, at)) = step else {
            return Err(ServiceError::new(Code::StepNotFound, "the step's text is gone"));
        };
        let place = StepContext { at, ..found.place };
        let bytes_max = bytes_max - PAGE_FRAME_BYTES;
        let (step, next) = harness::step_page(&step, place, byte_offset, bytes_max);
        let next = next.map(|byte_offset| PageCursor::Step { ordinal: found.ordinal, byte_offset });
        Ok(RecoverAnswer::Step(Box::new(StepAnswer { step, next_cursor: next })))
    }
}

fn locate_step(facts: &Facts, ordinal: usize) -> Option<LocatedStep> {
    let step = facts.research.steps().get(ordinal)?;
    let superseded_by = step.superseded_by;
    let place = StepContext { position: step.position, at: Timestamp(0), superseded_by };
    Some(LocatedStep { ordinal, extent: step.extent, place })
}

fn find_step(facts: &Facts, number: u64, branch: Option<&str>) -> ServiceResult<LocatedStep> {
    let research = &facts.research;
    if let Some(found) = research.find_step(number, branch).and_then(|at| locate_step(facts, at)) {
        return Ok(found);
    }
    let on = branch.map(|name| format!(" on branch {name:?}")).unwrap_or_default();
    let message = match research.steps().len() {
        0 => format!("there is no step {number}{on}: this session has no research steps"),
        1 => format!("there is no step {number}{on}: this session has one step"),
        count => format!(
            "there is no step {number}{on}: this session has {count} steps, up to number {}",
            research.last_number()
        ),
    };
    let mut error = ServiceError::new(Code::StepNotFound, message)
        .action("leave stepId out for the index of all steps");
    error.hint.last_step = Some(research.last_number());
    Err(error)
}

fn foreign_cursor_error() -> ServiceError {
    ServiceError::invalid("cursor", "it does not belong to this session")
        .action("send the cursor of an earlier answer with the sessionId of that answer")
}
