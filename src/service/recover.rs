//! `get_research_session`: the subject and state of a session, one step of it, the rest of a list,
//! or the matches of a query, for a reader that lost its context. It must not write.

use super::{BoundBy, Caller, Code, Service, ServiceError, ServiceResult, Via, links::read_before};
use crate::{
    api::{cursor::Cursor, find::FindAnswer, overview::PageAnswer, step::StepAnswer},
    event::{Point, Range, SessionId, SessionKey, Timestamp, kinds, limits},
    harness::{self, Overview, StepPlace, TOKEN_BYTES_LEAST},
    projection::{
        Facts,
        body::{self, StepBody},
    },
    store::{Fill, Read},
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
    pub cursor: Option<Cursor>,
    /// Point as of which to read; the present if absent.
    pub at: Option<Point>,
    /// Search query; combinable only with `at`.
    pub find: Option<String>,
    /// True if the overview includes a text for a model.
    pub is_text: bool,
}

/// Response to a reader.
#[derive(Clone, Debug, PartialEq)]
pub enum Recovered {
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
    pub recovered: Recovered,
}

/// Position of a step.
struct StepFound {
    ordinal: usize,
    extent: Range,
    place: StepPlace,
}

impl RecoverCall {
    /// Returns the query, which excludes other parameters.
    fn words(&self) -> ServiceResult<&str> {
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
        via: &Via,
        call: &RecoverCall,
    ) -> ServiceResult<RecoveredSession> {
        let (session, by) = self.bound(caller, via, call.session.as_ref()).await?;
        let own = caller.key(&session);
        let stand_in = self.stand_in(&own).await?;
        let continues = stand_in.as_ref().map(|(key, _)| key.session.clone());
        let (key, read_to) = stand_in.map_or((own, None), |(key, to)| (key, Some(to)));
        let bytes_max = self.options.answer_bytes_max;
        let at = match &call.at {
            Some(point) => Some(self.as_of(&key, Some(point)).await?),
            None => match read_to {
                Some(to) if to < self.store.info(&key).await?.tail => Some(to),
                _ => None,
            },
        };
        let recovered = match (call.cursor, call.step) {
            _ if call.find.is_some() => {
                let found = self.find(&key, call.words()?, at, bytes_max).await?;
                Recovered::Found(Box::new(found))
            }
            (Some(Cursor::Step { ordinal, byte_offset }), _) => {
                let found = self.look(&key, at, move |facts| step_at(facts, ordinal)).await?;
                let found = found.ok_or_else(foreign_cursor)?;
                self.step_page(&key, found, byte_offset, bytes_max).await?
            }
            (Some(Cursor::List { list, before }), _) => {
                let room = bytes_max - PAGE_FRAME_BYTES;
                let page =
                    move |facts: &Facts| harness::list_page(&facts.research, list, before, room);
                Recovered::Page(self.look(&key, at, page).await?)
            }
            (None, Some(number)) => {
                let branch = call.branch.clone();
                let find = move |facts: &Facts| step_of(facts, number, branch.as_deref());
                self.step_page(&key, self.look(&key, at, find).await??, 0, bytes_max).await?
            }
            (None, None) => {
                let room = bytes_max.saturating_sub(session.as_str().len());
                let has_line = call.is_text && read_before(&self.store.info(&key).await?).is_some();
                let (name, is_text) = (key.session.to_string(), call.is_text && !has_line);
                let of_own = name.clone();
                let view = move |facts: &Facts| {
                    let view = match is_text {
                        true => harness::overview_in_text(facts, &of_own, room, false),
                        false => harness::overview(facts, false, room),
                    };
                    (view, harness::has_work(facts))
                };
                // Its lists are bounded: without the text it takes less than a millisecond.
                let (mut view, has_work) = match at {
                    None if !is_text => self.with_facts(&key, |_, facts| view(facts)).await?,
                    _ => self.look(&key, at, view).await?,
                };
                if has_line {
                    // The text covers the sessions before it as well.
                    let text = move |facts: &Facts| harness::overview_text(facts, &name, room);
                    view.shown.text = Some(self.look_over_line(&key, at, text).await?);
                }
                if call.at.is_none() && call.is_text {
                    let tokens = room / TOKEN_BYTES_LEAST;
                    let kept = self.kept_in_workspace(caller, &session, tokens).await?;
                    let before = match has_work {
                        true => String::new(),
                        false => self.last_work(caller, &session).await?,
                    };
                    view.shown.text = view.shown.text.map(|text| text + &before + &kept);
                }
                Recovered::Overview(Box::new(view))
            }
        };
        self.bind(caller, via, &session);
        Ok(RecoveredSession { session, by, continues, recovered })
    }

    /// Reads the events of the step only.
    async fn step_page(
        &self,
        key: &SessionKey,
        found: StepFound,
        byte_offset: usize,
        bytes_max: usize,
    ) -> ServiceResult<Recovered> {
        let read = Read {
            range: found.extent,
            events_max: limits::BATCH_EVENTS_MAX,
            bytes_max: limits::BATCH_BYTES_MAX,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        let events = self.store.read(key, read).await?.events;
        let event = events.into_iter().find(|event| event.position == found.place.position);
        let step = event
            .filter(|event| event.kind.as_str() == kinds::RESEARCH_STEP)
            .and_then(|event| Some((body::read::<StepBody>(&event.body)?, event.processed_at)));
        let Some((step, at)) = step else {
            return Err(ServiceError::new(Code::StepNotFound, "the step's text is gone"));
        };
        let place = StepPlace { at, ..found.place };
        let bytes_max = bytes_max - PAGE_FRAME_BYTES;
        let (step, next) = harness::page(&step, place, byte_offset, bytes_max);
        let next = next.map(|byte_offset| Cursor::Step { ordinal: found.ordinal, byte_offset });
        Ok(Recovered::Step(Box::new(StepAnswer { step, next_cursor: next })))
    }
}

fn step_at(facts: &Facts, ordinal: usize) -> Option<StepFound> {
    let step = facts.research.steps().get(ordinal)?;
    let superseded_by = step.superseded_by;
    let place = StepPlace { position: step.position, at: Timestamp(0), superseded_by };
    Some(StepFound { ordinal, extent: step.extent, place })
}

fn step_of(facts: &Facts, number: u64, branch: Option<&str>) -> ServiceResult<StepFound> {
    let research = &facts.research;
    if let Some(found) = research.find(number, branch).and_then(|at| step_at(facts, at)) {
        return Ok(found);
    }
    let on = branch.map(|name| format!(" on branch {name:?}")).unwrap_or_default();
    let message = match research.steps().len() {
        0 => format!("there is no step {number}{on}: this session has no research steps"),
        1 => format!("there is no step {number}{on}: this session has one step"),
        count => format!(
            "there is no step {number}{on}: this session has {count} steps, up to number {}",
            research.last_any()
        ),
    };
    let mut error = ServiceError::new(Code::StepNotFound, message)
        .action("leave stepId out for the index of all steps");
    error.hint.last_step = Some(research.last_any());
    Err(error)
}

fn foreign_cursor() -> ServiceError {
    ServiceError::invalid("cursor", "it does not belong to this session")
        .action("send the cursor of an earlier answer with the sessionId of that answer")
}
