//! The window view: reads the start and the end of a session, as much as a budget may show, and
//! lets harness choose. It must not interpret a message.

use std::sync::Arc;

use super::{
    Caller, RecallView, Service, ServiceError, ServiceResult,
    error::check_count,
    memory_budget::{HELD_FOR_A_BYTE, Reservation},
    recalling::default_recall_tokens,
    search::SEARCH_BYTES,
    status::rewound_name,
};
use crate::{
    api::window::{RecallFrom, WindowQuery, WindowShape},
    event::{Event, Point, Position, Range, SessionId, SessionKey, kinds},
    harness::{
        self, RecalledText, Tokenizer, Transform, WINDOW_TOKENS_MIN, Window, WindowParameters,
    },
    projection::{Facts, WithdrawnRanges},
    store::{FillDirection, ReadRequest},
};

/// Maximum tokens of a window.
pub const WINDOW_TOKENS_MAX: usize = 4_000_000;
/// Maximum number of events and body bytes searched for the task.
const HEAD_EVENTS: usize = 64;
const HEAD_BYTES: usize = 1 << 20;
/// Initial number of events and body bytes read from the end; doubled while the budget has space.
const NEWEST_EVENTS: usize = 256;
const NEWEST_BYTES: usize = 4 << 20;
/// Maximum number of events and body bytes read for one window.
const EVENTS_MAX: usize = 50_000;
const BYTES_MAX: usize = 32 << 20;

/// Validated parameters of a window.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// Token budget; by default the one that the token monitor computes.
    pub tokens_max: Option<usize>,
    /// Tokenizer; by default that of the format.
    pub tokenizer: Option<Tokenizer>,
    /// Transforms, in order.
    pub transforms: Vec<Transform>,
    /// Format of the messages.
    pub shape: WindowShape,
    /// First position of the window: the end of an earlier window.
    pub from: Option<Point>,
    /// Point as of which the window is built; now by default.
    pub at: Option<Point>,
    /// Source of the recalled passages, if content is omitted.
    pub recall: RecallFrom,
    /// Maximum tokens of the recall; by default a third of the budget, at most 4 000, and none if
    /// that is less than 400.
    pub recall_tokens: Option<usize>,
}

impl WindowCall {
    /// Parses a client's request, with its start point and the point as of which the window is
    /// built.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter.
    pub fn from_query(
        asked: &WindowQuery,
        (from, at): (Option<Point>, Option<Point>),
    ) -> ServiceResult<Self> {
        let transforms = asked.transforms.iter().map(|text| {
            Transform::parse(text).map_err(|error| ServiceError::invalid("transforms[]", error))
        });
        let tokenizer = asked.tokenizer.as_deref().map(|name| {
            let problem = || ServiceError::invalid("tokenizer", "o200k_base or claude");
            Tokenizer::parse(name).ok_or_else(problem)
        });
        let shape = asked.format.as_deref().map(|name| {
            let problem = || ServiceError::invalid("format", "events, anthropic or openai");
            WindowShape::parse(name).ok_or_else(problem)
        });
        let recall = asked.recall.as_deref().map(|name| {
            let problem = || ServiceError::invalid("recall", "line, none or workspace");
            RecallFrom::parse(name).ok_or_else(problem)
        });
        Ok(Self {
            recall: recall.transpose()?.unwrap_or_default(),
            recall_tokens: asked.recall_tokens,
            tokens_max: asked.tokens_max,
            tokenizer: tokenizer.transpose()?,
            transforms: transforms.collect::<ServiceResult<_>>()?,
            shape: shape.transpose()?.unwrap_or_default(),
            from,
            at,
        })
    }
}

/// Window with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowView {
    /// The window.
    pub window: Window,
    /// Tokenizer used for the counts.
    pub tokenizer: Tokenizer,
    /// End position of the window's input.
    pub position: Position,
    /// Recalled content; `None` if nothing is omitted or recall is disabled.
    pub recall: Option<RecallView>,
}

impl Service {
    /// Returns the part of a session that a model sees within a token budget.
    ///
    /// # Errors
    /// `invalid_request`, `point_not_found`, `session_damaged`, and those of the session.
    pub async fn window(
        &self,
        caller: &Caller,
        session: &SessionId,
        query: WindowCall,
    ) -> ServiceResult<WindowView> {
        let key = caller.key(session);
        let at = self.view_position(&key, query.at.as_ref()).await?;
        let begin = match &query.from {
            Some(_) => Some(self.view_position(&key, query.from.as_ref()).await?.min(at)),
            None => None,
        };
        let (recall_from, recall_tokens) = (query.recall, query.recall_tokens);
        let as_of = query.at.as_ref().map(|_| at);
        let tokens_max = match query.tokens_max {
            Some(tokens) => tokens,
            None => self.default_tokens(&key).await?,
        };
        let mut plan = Self::plan_window(query, begin, tokens_max)?;
        plan.withdrawn = self.withdrawn_parts(&key, at).await?;
        let plan = plan;
        let recall_tokens = recall_tokens.unwrap_or_else(|| default_recall_tokens(plan.tokens_max));
        if recall_tokens > plan.tokens_max / 2 {
            let problem = format!("at most half of the budget, {}", plan.tokens_max / 2);
            return Err(ServiceError::invalid("recall_tokens", problem));
        }
        let recall = (as_of, (recall_from, recall_tokens));
        let tokenizer = plan.tokenizer;
        let tenant = &caller.scope.tenant;
        let first = SEARCH_BYTES + HELD_FOR_A_BYTE * (HEAD_BYTES + NEWEST_BYTES);
        let mut room = Some(self.reserve_memory(tenant, first).await?);
        let head = match begin {
            Some(_) => Vec::new(),
            None => self.read_head(&key, at, &plan.withdrawn).await?,
        };
        let after_head = head.last().map_or(Position::ZERO, |event| event.position.plus(1));
        let start = begin.unwrap_or(after_head);
        let (mut from, mut chunk, mut bytes) = (at, NEWEST_EVENTS, 0);
        let (heads, mut events) = (head.len(), head);
        let mut slot = self.compute.acquire(&key.scope.tenant).await?;
        loop {
            self.computations.resize(tenant, &mut room, first + HELD_FOR_A_BYTE * bytes)?;
            let read = ReadRequest {
                range: Range::new(start, from),
                events_max: chunk,
                bytes_max: NEWEST_BYTES,
                fill: FillDirection::Backward,
                allow_gaps: false,
            };
            let slice = self.store.read(&key, read).await?;
            from = if slice.covered.is_empty() { start } else { slice.covered.from };
            bytes += slice.events.iter().map(|event| event.body.len()).sum::<usize>();
            events.splice(heads..heads, slice.events);
            let (all, by) = (events, plan.clone());
            let build = move || (harness::window(&all, at, &by), all);
            let window;
            (slot, (window, events)) = slot.run(build).await?;
            let more = from > start && events.len() < EVENTS_MAX && bytes < BYTES_MAX;
            if !(window.whole && more) {
                drop(slot);
                let view = WindowView { window, tokenizer, position: at, recall: None };
                let of = (view, Arc::new(events), plan);
                return self.with_recall(caller, session, recall, of, &mut room).await;
            }
            slot = slot.yield_if_due().await?;
            chunk = chunk.saturating_mul(2);
        }
    }

    /// Rebuilds the window of the same events with recalled content, within the same budget. The
    /// recalled content comes from the part that the smaller window omits.
    async fn with_recall(
        &self,
        caller: &Caller,
        session: &SessionId,
        (as_of, recall): (Option<Position>, (RecallFrom, usize)),
        (mut view, events, mut plan): (WindowView, Arc<Vec<Event>>, WindowParameters),
        room: &mut Option<Reservation>,
    ) -> ServiceResult<WindowView> {
        if recall.1 == 0 || recall.0 == RecallFrom::Nowhere || view.window.whole {
            return Ok(view);
        }
        plan.recalled = Some(RecalledText { text: String::new(), tokens: recall.1 });
        let window = self.rebuild_window(caller, view.position, &events, &plan).await?;
        let of = (&window, &events, &plan);
        view.recall = self.recall(caller, session, as_of, recall, of, room).await?;
        plan.recalled = view.recall.as_ref().and_then(|recall| recall.recalled.clone());
        if plan.recalled.is_some() {
            view.window = self.rebuild_window(caller, view.position, &events, &plan).await?;
        }
        Ok(view)
    }

    async fn rebuild_window(
        &self,
        caller: &Caller,
        at: Position,
        events: &Arc<Vec<Event>>,
        plan: &WindowParameters,
    ) -> ServiceResult<Window> {
        let (events, plan) = (Arc::clone(events), plan.clone());
        let build = move || harness::window(&events, at, &plan);
        self.compute_unlimited(&caller.scope.tenant, build).await
    }

    fn plan_window(
        query: WindowCall,
        from: Option<Position>,
        tokens_max: usize,
    ) -> ServiceResult<WindowParameters> {
        if !(WINDOW_TOKENS_MIN..=WINDOW_TOKENS_MAX).contains(&tokens_max) {
            let problem = format!("from {WINDOW_TOKENS_MIN} to {WINDOW_TOKENS_MAX}");
            return Err(ServiceError::invalid("tokens_max", problem));
        }
        check_count("transforms[]", query.transforms.len())?;
        let usual = match query.shape {
            WindowShape::Anthropic => Tokenizer::Claude,
            WindowShape::Events | WindowShape::OpenAi => Tokenizer::O200k,
        };
        Ok(WindowParameters {
            tokens_max,
            tokenizer: query.tokenizer.unwrap_or(usual),
            transforms: query.transforms,
            shape: query.shape,
            from: from.unwrap_or(Position::ZERO),
            recalled: None,
            withdrawn: WithdrawnRanges::default(),
        })
    }

    /// Returns the tokens of a window whose caller gives none: those of the session's model.
    async fn default_tokens(&self, key: &SessionKey) -> ServiceResult<usize> {
        let info = self.store.info(key).await?;
        let reported = match self.peek_facts(key, |_, facts| facts.usage.window).await {
            Err(error) if error.code.has_lost_events() => None,
            reported => reported?,
        };
        let tokens = self.monitor.of_session(&info.metadata, reported).window_tokens();
        Ok(tokens.clamp(WINDOW_TOKENS_MIN, WINDOW_TOKENS_MAX))
    }

    /// Returns the parts of a session withdrawn from the conversation as of a position.
    async fn withdrawn_parts(
        &self,
        key: &SessionKey,
        at: Position,
    ) -> ServiceResult<WithdrawnRanges> {
        let info = self.store.info(key).await?;
        match info.metadata.contains_key(&rewound_name()) {
            false => Ok(WithdrawnRanges::default()),
            true if at == info.tail => {
                self.peek_facts(key, |_, facts| facts.withdrawn_ranges()).await
            }
            true => self.view_facts_at(key, at, Facts::withdrawn_ranges).await,
        }
    }

    /// Reads the first events, up to the user's first message that was not withdrawn, and the
    /// following ones until their calls have results.
    async fn read_head(
        &self,
        key: &SessionKey,
        at: Position,
        withdrawn: &WithdrawnRanges,
    ) -> ServiceResult<Vec<Event>> {
        let mut from = Position::ZERO;
        let mut events;
        loop {
            let read = ReadRequest {
                range: Range::new(from, at),
                events_max: HEAD_EVENTS,
                bytes_max: HEAD_BYTES,
                fill: FillDirection::Forward,
                allow_gaps: false,
            };
            events = self.store.read(key, read).await?.events;
            let is_prompt = |event: &&Event| event.kind.as_str() == kinds::USER_MESSAGE;
            let first = events.iter().find(is_prompt).map(|event| event.position);
            match first.and_then(|first| withdrawn.end_of_range_at(first)) {
                Some(end) => from = end,
                None => break,
            }
        }
        let prompt = events.iter().position(|event| event.kind.as_str() == kinds::USER_MESSAGE);
        let is_system = |event: &&Event| event.kind.as_str() == kinds::SYSTEM_MESSAGE;
        let mut end =
            prompt.map_or_else(|| events.iter().take_while(is_system).count(), |at| at + 1);
        let mut open = 0_usize;
        for (at, event) in events.iter().enumerate().skip(end) {
            match event.kind.as_str() {
                kind if kinds::is_call(kind) => open += 1,
                kind if kinds::is_result(kind) => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 && prompt.is_some() {
                end = at + 1;
            }
        }
        events.truncate(end);
        Ok(events)
    }
}
