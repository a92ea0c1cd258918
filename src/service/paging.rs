//! Paging in: returns items of memory, ranges of events or search results in full within a token
//! budget, and names the rest. It must not write, except for a record of what a model received.

use super::{
    Caller, Code, MemoryTarget, Service, ServiceError, ServiceResult,
    added::new_event,
    hit_text::full_text,
    memory_budget::HELD_FOR_A_BYTE,
    search::{SEARCH_BYTES, SearchLimits},
};
use crate::{
    api::{
        memory::{MemoryBlock, PagedInAnswer},
        search::SearchBody,
    },
    event::{Batch, Event, EventId, Range, SessionId, kinds, pace},
    harness::{Counter as _, TRUST, Tokenizer},
    projection::{
        MemoryState,
        body::{self, MemoryBody, PagedBlockBody, PagedInBody},
    },
    search::EventText,
    store::{FillDirection, ReadRequest},
};

/// Default, minimum and maximum tokens of a response.
const TOKENS_DEFAULT: usize = 2_000;
const TOKENS_MIN: usize = 100;
const TOKENS_MAX: usize = 200_000;
/// Maximum number of blocks requested in one call.
const BLOCKS_MAX: usize = 100;
/// Maximum number of hits of a query considered.
const HITS_MAX: usize = 20;
/// Maximum number of events of a range, and of their body bytes.
const EVENTS_MAX: usize = 1_000;
const EVENTS_BYTES: usize = 2 << 20;
/// Steps counted for a line of a range, and body bytes read in one step.
const LINE_STEPS: usize = 4;
const BYTES_OF_A_STEP: usize = 256;
/// Bytes of a text up to which its tokens are counted without a compute slot.
const SHORT_BYTES: usize = 8 << 10;
/// Tokens of the members around a text.
const FRAME_TOKENS: usize = 40;

/// Content to page in: exactly one of ids, ranges and query.
#[derive(Clone, Debug, Default)]
pub struct PageInCall {
    /// Memory in which the ids are looked up, and the session of a range that names none.
    pub place: Option<MemoryTarget>,
    /// Ids of items of memory.
    pub ids: Vec<EventId>,
    /// Ranges of events.
    pub ranges: Vec<(Option<SessionId>, Range)>,
    /// Search query.
    pub query: Option<String>,
    /// Token budget of all blocks; 2 000 by default.
    pub tokens_max: Option<usize>,
}

impl Service {
    /// Returns blocks in full, within the budget.
    ///
    /// # Errors
    /// `invalid_request`, `event_not_found` for an id, those of the sessions and of a search.
    pub async fn page_in(&self, caller: &Caller, call: PageInCall) -> ServiceResult<PagedInAnswer> {
        let tokens_max = call.tokens_max.unwrap_or(TOKENS_DEFAULT);
        if !(TOKENS_MIN..=TOKENS_MAX).contains(&tokens_max) {
            let problem = format!("from {TOKENS_MIN} to {TOKENS_MAX}, not {tokens_max}");
            return Err(ServiceError::invalid("tokens_max", problem));
        }
        let asked = [!call.ids.is_empty(), !call.ranges.is_empty(), call.query.is_some()];
        if asked.into_iter().filter(|is| *is).count() != 1 {
            return Err(ServiceError::invalid("ids", "one of ids, ranges and query is needed"));
        }
        let count = call.ids.len().max(call.ranges.len());
        if count > BLOCKS_MAX {
            let problem = format!("{count} blocks; {BLOCKS_MAX} are allowed");
            let field = if call.ids.is_empty() { "ranges" } else { "ids" };
            return Err(ServiceError::invalid(field, problem));
        }
        let mut paged = PagedInAnswer { trust: TRUST.to_owned(), ..PagedInAnswer::default() };
        for id in &call.ids {
            let block = self.read_item_block(caller, call.place.as_ref(), id).await?;
            paged = self.add_block(caller, paged, block, tokens_max).await?;
        }
        for (session, range) in &call.ranges {
            let own = match &call.place {
                Some(MemoryTarget::Session(session)) => Some(session),
                _ => None,
            };
            let session = session
                .as_ref()
                .or(own)
                .ok_or_else(|| ServiceError::invalid("ranges", "a range needs its session"))?;
            if let Some(MemoryTarget::Workspace(workspace)) = &call.place
                && !self.is_in_workspace(caller, workspace, session).await
            {
                return Err(Self::no_session_error(workspace, Some(session)));
            }
            let block = self.read_range_block(caller, session, *range).await?;
            paged = self.add_block(caller, paged, block, tokens_max).await?;
        }
        if let Some(words) = call.query {
            let (blocks, workspaces) = self.search_blocks(caller, call.place, words).await?;
            for block in blocks {
                paged = self.add_block(caller, paged, block, tokens_max).await?;
            }
            paged.workspaces = workspaces;
        }
        Ok(paged)
    }

    /// Adds a block; the tokens of a long one are counted in a compute slot.
    async fn add_block(
        &self,
        caller: &Caller,
        mut paged: PagedInAnswer,
        block: MemoryBlock,
        tokens_max: usize,
    ) -> ServiceResult<PagedInAnswer> {
        let is_short = block.text.len() <= SHORT_BYTES;
        let add = move || {
            push_block(&mut paged, block, tokens_max);
            paged
        };
        if is_short { Ok(add()) } else { self.compute_unlimited(&caller.scope.tenant, add).await }
    }

    /// Records in a model's session that it received these blocks, if there are any. A failure to
    /// record does not fail the call.
    pub async fn record_paged_in(
        &self,
        caller: &Caller,
        session: &SessionId,
        paged: &PagedInAnswer,
        query: Option<String>,
    ) {
        if paged.blocks.is_empty() {
            return;
        }
        let block = |block: &MemoryBlock| PagedBlockBody {
            session: (block.session != *session).then(|| block.session.to_string()),
            positions: block.range.into(),
            item: block.memory_id.as_ref().map(ToString::to_string),
        };
        let body = PagedInBody {
            blocks: paged.blocks.iter().map(block).collect(),
            tokens: paged.tokens,
            by: "model".to_owned(),
            query,
        };
        let events = [new_event(kinds::MEMORY_PAGED_IN, caller.origin, body::write(&body))];
        let batch = Batch { events: events.into(), ..Batch::default() };
        if let Err(error) = self.append(caller, session, batch, false).await {
            tracing::debug!(%error, "what a model was given is not noted");
        }
    }

    /// Returns the events that a query finds, best first, and the workspaces that it names.
    async fn search_blocks(
        &self,
        caller: &Caller,
        place: Option<MemoryTarget>,
        q: String,
    ) -> ServiceResult<(Vec<MemoryBlock>, Vec<String>)> {
        let (session, workspace) = match place {
            Some(MemoryTarget::Session(session)) => (Some(session.to_string()), None),
            Some(MemoryTarget::Workspace(workspace)) => (None, Some(workspace)),
            None => (None, None),
        };
        let limit = Some(HITS_MAX);
        let asked = SearchBody { q, session, workspace, limit, ..SearchBody::default() };
        let tenant = &caller.scope.tenant;
        let mut room = Some(self.reserve_memory(tenant, SEARCH_BYTES).await?);
        let (mut blocks, mut bytes) = (Vec::new(), SEARCH_BYTES);
        let found = self.run_search(caller, &asked, SearchLimits::default(), false).await?.answer;
        for hit in found.hits {
            let event = self.read_event(&caller.key(&hit.session), hit.position).await?;
            let Some(event) = event else { continue };
            bytes += event.body.len();
            self.computations.resize(tenant, &mut room, bytes)?;
            let memory = hit.memory;
            let item = memory.is_some().then(|| body::read::<MemoryBody>(&event.body)).flatten();
            let event_text = || EventText::from_event(&event).text.trim().to_owned();
            let text = item.map_or_else(event_text, |item| item.text);
            let kind = memory.as_ref().map(|memory| memory.kind.clone());
            blocks.push(MemoryBlock {
                session: hit.session,
                range: Range::new(event.position, event.position.plus(1)),
                kind: kind.unwrap_or_else(|| event.kind.to_string()),
                at: hit.at,
                memory_id: memory.as_ref().map(|memory| memory.memory_id.clone()),
                importance: memory.as_ref().and_then(|memory| memory.importance),
                topic: memory.and_then(|memory| memory.topic),
                text,
                tokens: 0,
            });
        }
        Ok((blocks, found.workspaces))
    }

    async fn read_item_block(
        &self,
        caller: &Caller,
        place: Option<&MemoryTarget>,
        id: &EventId,
    ) -> ServiceResult<MemoryBlock> {
        let problem = "ids are those of a session or of a workspace: name one";
        let place = place.ok_or_else(|| ServiceError::invalid("session", problem))?;
        let kept = self.find_item(caller, place, id).await?;
        if matches!(kept.item.state, MemoryState::Forgotten(_)) {
            let message = format!("the item {id} was forgotten");
            return Err(ServiceError::new(Code::EventNotFound, message)
                .action("list the memory of the session for what it keeps"));
        }
        let item = kept.item;
        Ok(MemoryBlock {
            session: kept.session,
            range: Range::new(item.position, item.position.plus(1)),
            kind: item.kind.as_str().to_owned(),
            at: item.at,
            memory_id: Some(item.id),
            topic: item.topic.map(String::from),
            importance: item.importance,
            text: item.text.into(),
            tokens: 0,
        })
    }

    async fn read_range_block(
        &self,
        caller: &Caller,
        session: &SessionId,
        range: Range,
    ) -> ServiceResult<MemoryBlock> {
        if range.is_empty() || range.to.0 - range.from.0 > EVENTS_MAX as u64 {
            let problem = format!("a range has 1 to {EVENTS_MAX} events");
            return Err(ServiceError::invalid("ranges", problem));
        }
        let read = ReadRequest {
            range,
            events_max: EVENTS_MAX,
            bytes_max: EVENTS_BYTES,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let key = caller.key(session);
        self.store.use_session(&key).await?;
        let _memory =
            self.reserve_memory(&caller.scope.tenant, HELD_FOR_A_BYTE * EVENTS_BYTES).await?;
        let slice = self.store.read(&key, read).await?;
        let events = slice.events;
        let line = |event: &Event| {
            pace::steps(LINE_STEPS + event.body.len() / BYTES_OF_A_STEP);
            match full_text(event) {
                words if words.is_empty() => String::new(),
                words => format!("{} {}: {words}\n", event.position, event.kind),
            }
        };
        let at = events.first().map_or_else(|| self.now(), |event| event.processed_at);
        let lines = move || events.iter().map(line).collect();
        let text = self.compute_unlimited(&caller.scope.tenant, lines).await?;
        Ok(MemoryBlock {
            session: session.clone(),
            range: slice.covered,
            kind: "events".to_owned(),
            at,
            memory_id: None,
            topic: None,
            importance: None,
            text,
            tokens: 0,
        })
    }
}

/// Adds a block, or only its name if it exceeds the budget.
fn push_block(paged: &mut PagedInAnswer, mut block: MemoryBlock, tokens_max: usize) {
    let tokens = Tokenizer::O200k.count(&block.text) + FRAME_TOKENS;
    block.tokens = tokens as u64;
    if paged.tokens + block.tokens > tokens_max as u64 {
        block.text.clear();
        paged.left_out.push(block);
    } else {
        paged.tokens += block.tokens;
        paged.blocks.push(block);
    }
}
