//! Verbs that list, read and forget items of memory. They must not rate the importance of an item.

use super::{
    Caller, Code, MemoryTarget, Service, ServiceError, ServiceResult,
    added::new_event,
    error::check_count,
    is_notebook,
    memory::parse_kinds,
    page::{self, page_limit},
};
use crate::{
    api::memory::{
        ListMemoryQuery, MemoryForgotten, MemoryItem, MemoryItemAnswer, MemoryKind, MemoryList,
        WrittenFrom,
    },
    event::{Batch, EventId, SessionId, kinds},
    harness::TRUST,
    projection::{
        self, Facts, MemoryState,
        body::{self, ForgottenBody, PositionBody},
    },
    store::SessionInfo,
};

/// Maximum number of characters of a text in a list.
const LISTED_CHARS: usize = 600;

/// An item of memory and the session that contains it.
pub(super) struct StoredItem {
    pub(super) session: SessionId,
    pub(super) item: projection::StoredMemory,
}

impl Service {
    /// Returns the items of a session and of its workspace's notebook, newest first, without
    /// forgotten ones.
    ///
    /// # Errors
    /// `invalid_request`, and those of the session.
    pub async fn list_memory(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
        query: ListMemoryQuery,
    ) -> ServiceResult<MemoryList> {
        check_count("kinds", query.kinds.len())?;
        let limit = page_limit(query.limit)?;
        let kinds = parse_kinds("kinds", &query.kinds)?;
        let skip = match &query.page {
            Some(page) => page::decode::<1>("m", page)?[0].parse().unwrap_or(usize::MAX),
            None => 0,
        };
        let sessions = self.list_memory_sessions(caller, location).await?;
        let (items, left_out) =
            self.list_items(caller, &sessions, kinds, query.include_ended).await?;
        let end = skip.saturating_add(limit);
        let next_page = (end < items.len()).then(|| page::encode("m", &[&end.to_string()]));
        let short = |kept: StoredItem| {
            let mut item = kept.into_memory_item();
            if let Some((at, _)) = item.text.char_indices().nth(LISTED_CHARS) {
                item.text.truncate(at);
                item.text.push('…');
            }
            item
        };
        Ok(MemoryList {
            data: items.into_iter().skip(skip).take(limit).map(short).collect(),
            notebook: sessions.into_iter().rfind(is_notebook),
            left_out,
            next_page,
            trust: TRUST.to_owned(),
        })
    }

    /// Returns the items of these kinds, or of all kinds if empty, newest first; and the number of
    /// further items for which the sessions had no space.
    pub(super) async fn list_items(
        &self,
        caller: &Caller,
        sessions: &[SessionId],
        kinds: Vec<MemoryKind>,
        include_ended: bool,
    ) -> ServiceResult<(Vec<StoredItem>, u64)> {
        let wanted = move |item: &&projection::StoredMemory| {
            (kinds.is_empty() || kinds.contains(&item.kind))
                && !matches!(item.state, MemoryState::Forgotten(_))
                && (include_ended || item.is_current())
        };
        let (mut items, mut left) = (Vec::new(), 0);
        for session in sessions {
            let wanted = wanted.clone();
            let look = move |_: &SessionInfo, facts: &Facts| {
                let items: Vec<_> = facts.memory.all().filter(wanted).cloned().collect();
                (items, facts.memory.dropped_count())
            };
            let (some, more) = self.peek_view(&caller.key(session), look).await?;
            left += more;
            items
                .extend(some.into_iter().map(|item| StoredItem { session: session.clone(), item }));
        }
        items.sort_by(|one, other| {
            let location = |kept: &StoredItem| (kept.item.at, kept.item.position);
            location(other).cmp(&location(one)).then_with(|| one.session.cmp(&other.session))
        });
        Ok((items, left))
    }

    /// Returns one item of a session or of its workspace's notebook.
    ///
    /// # Errors
    /// `event_not_found`, and those of the session.
    pub async fn get_memory_item(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
        id: &EventId,
    ) -> ServiceResult<MemoryItemAnswer> {
        let item = self.find_item(caller, location, id).await?.into_memory_item();
        Ok(MemoryItemAnswer { item, trust: TRUST.to_owned() })
    }

    pub(super) async fn find_item(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
        id: &EventId,
    ) -> ServiceResult<StoredItem> {
        for session in self.list_memory_sessions(caller, location).await? {
            let look = |facts: &Facts| facts.memory.get(id).cloned();
            let found = self.peek_facts(&caller.key(&session), |_, facts| look(facts)).await?;
            if let Some(item) = found {
                return Ok(StoredItem { session, item });
            }
        }
        Err(ServiceError::new(Code::EventNotFound, format!("there is no item {id} of memory"))
            .action("list the memory of the session for the ids of its items"))
    }

    /// Forgets an item: it is no longer listed, found or recalled. The log keeps its event; redact
    /// it to remove its bytes. Idempotent.
    ///
    /// # Errors
    /// `event_not_found`, and those of the session and the engine.
    pub async fn forget_item(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
        id: &EventId,
    ) -> ServiceResult<MemoryForgotten> {
        let StoredItem { session, item } = self.find_item(caller, location, id).await?;
        if !matches!(item.state, MemoryState::Forgotten(_)) {
            let body = body::write(&ForgottenBody { of: id.to_string() });
            let events = [new_event(kinds::MEMORY_FORGOTTEN, caller.origin, body)];
            let batch = Batch { events: events.into(), ..Batch::default() };
            let fence = caller.fence.filter(|_| !is_notebook(&session));
            let caller = &Caller { fence, ..caller.clone() };
            self.append(caller, &session, batch, false).await?;
        }
        let (memory_id, position) = (item.id, item.position);
        Ok(MemoryForgotten { memory_id, session, position, kind: "memory_forgotten".to_owned() })
    }

    /// Returns the sessions that contain the memory at a location: the session, and the notebook of
    /// its workspace if that exists.
    pub(super) async fn list_memory_sessions(
        &self,
        caller: &Caller,
        location: &MemoryTarget,
    ) -> ServiceResult<Vec<SessionId>> {
        let mut sessions = Vec::new();
        let workspace = match location {
            MemoryTarget::Session(session) => {
                sessions.push(session.clone());
                self.store.use_session(&caller.key(session)).await?.workspace
            }
            MemoryTarget::Workspace(workspace) => Some(workspace.clone()),
        };
        if let Some(workspace) = workspace
            && !sessions.first().is_some_and(is_notebook)
        {
            sessions.extend(self.list_notebooks(caller, &workspace).await?);
        }
        Ok(sessions)
    }
}

impl StoredItem {
    fn into_memory_item(self) -> MemoryItem {
        let Self { session, item } = self;
        let mut shown = MemoryItem {
            memory_id: item.id,
            session,
            position: item.position,
            at: item.at,
            kind: item.kind.into(),
            text: item.text.into(),
            topic: item.topic.map(String::from),
            tags: item.tags.into_iter().map(String::from).collect(),
            importance: item.importance,
            name: item.name.map(String::from),
            from: item
                .from
                .map(|PositionBody { session, position }| WrittenFrom { session, position }),
            positions: item.positions,
            superseded_by: None,
            forgotten_at: None,
            ended_at: None,
            paged_in: item.paged_in,
        };
        match item.state {
            MemoryState::Current => {}
            MemoryState::Superseded(by) => shown.superseded_by = Some(by),
            MemoryState::Forgotten(at) => shown.forgotten_at = Some(at),
            MemoryState::Ended(at) => shown.ended_at = Some(at),
        }
        shown
    }
}
