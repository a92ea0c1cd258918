//! Verbs that list, read and forget items of memory. They must not judge what is worth remembering.

use super::{
    Caller, Code, MemoryPlace, Service, ServiceError, ServiceResult,
    added::event,
    error::check_count,
    is_notebook,
    memory::kinds_of,
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
        body::{self, ForgottenBody, PlaceBody},
    },
    store::SessionInfo,
};

/// Maximum number of characters of a text in a list.
const LISTED_CHARS: usize = 600;

/// An item of memory and the session that contains it.
pub(super) struct KeptItem {
    pub(super) session: SessionId,
    pub(super) item: projection::MemoryItem,
}

impl Service {
    /// Returns the items of a session and of its workspace's notebook, newest first, without
    /// forgotten ones.
    ///
    /// # Errors
    /// `invalid_request`, and those of the session.
    pub async fn memory(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        query: ListMemoryQuery,
    ) -> ServiceResult<MemoryList> {
        check_count("kinds", query.kinds.len())?;
        let limit = page_limit(query.limit)?;
        let kinds = kinds_of("kinds", &query.kinds)?;
        let skip = match &query.page {
            Some(page) => page::open::<1>("m", page)?[0].parse().unwrap_or(usize::MAX),
            None => 0,
        };
        let keepers = self.keepers(caller, place).await?;
        let (items, left_out) =
            self.kept_items(caller, &keepers, kinds, query.include_ended).await?;
        let end = skip.saturating_add(limit);
        let next_page = (end < items.len()).then(|| page::seal("m", &[&end.to_string()]));
        let short = |kept: KeptItem| {
            let mut item = kept.shown();
            if let Some((at, _)) = item.text.char_indices().nth(LISTED_CHARS) {
                item.text.truncate(at);
                item.text.push('…');
            }
            item
        };
        Ok(MemoryList {
            data: items.into_iter().skip(skip).take(limit).map(short).collect(),
            notebook: keepers.into_iter().rfind(is_notebook),
            left_out,
            next_page,
            trust: TRUST.to_owned(),
        })
    }

    /// Returns the items of these kinds, or of all kinds if empty, newest first; and the number of
    /// further items for which the sessions had no space.
    pub(super) async fn kept_items(
        &self,
        caller: &Caller,
        keepers: &[SessionId],
        kinds: Vec<MemoryKind>,
        include_ended: bool,
    ) -> ServiceResult<(Vec<KeptItem>, u64)> {
        let wanted = move |item: &&projection::MemoryItem| {
            (kinds.is_empty() || kinds.contains(&item.kind))
                && !matches!(item.state, MemoryState::Forgotten(_))
                && (include_ended || item.is_current())
        };
        let (mut items, mut left) = (Vec::new(), 0);
        for session in keepers {
            let wanted = wanted.clone();
            let look = move |_: &SessionInfo, facts: &Facts| {
                let items: Vec<_> = facts.memory.all().filter(wanted).cloned().collect();
                (items, facts.memory.left())
            };
            let (some, more) = self.peek_view(&caller.key(session), look).await?;
            left += more;
            items.extend(some.into_iter().map(|item| KeptItem { session: session.clone(), item }));
        }
        items.sort_by(|one, other| {
            let place = |kept: &KeptItem| (kept.item.at, kept.item.position);
            place(other).cmp(&place(one)).then_with(|| one.session.cmp(&other.session))
        });
        Ok((items, left))
    }

    /// Returns one item of a session or of its workspace's notebook.
    ///
    /// # Errors
    /// `event_not_found`, and those of the session.
    pub async fn memory_item(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        id: &EventId,
    ) -> ServiceResult<MemoryItemAnswer> {
        let item = self.kept_item(caller, place, id).await?.shown();
        Ok(MemoryItemAnswer { item, trust: TRUST.to_owned() })
    }

    pub(super) async fn kept_item(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        id: &EventId,
    ) -> ServiceResult<KeptItem> {
        for session in self.keepers(caller, place).await? {
            let look = |facts: &Facts| facts.memory.get(id).cloned();
            let found = self.peek_facts(&caller.key(&session), |_, facts| look(facts)).await?;
            if let Some(item) = found {
                return Ok(KeptItem { session, item });
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
    pub async fn forget(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
        id: &EventId,
    ) -> ServiceResult<MemoryForgotten> {
        let KeptItem { session, item } = self.kept_item(caller, place, id).await?;
        if !matches!(item.state, MemoryState::Forgotten(_)) {
            let body = body::write(&ForgottenBody { of: id.to_string() });
            let events = [event(kinds::MEMORY_FORGOTTEN, caller.origin, body)];
            let batch = Batch { events: events.into(), ..Batch::default() };
            let fence = caller.fence.filter(|_| !is_notebook(&session));
            let caller = &Caller { fence, ..caller.clone() };
            self.append(caller, &session, batch, false).await?;
        }
        let (memory_id, position) = (item.id, item.position);
        Ok(MemoryForgotten { memory_id, session, position, kind: "memory_forgotten".to_owned() })
    }

    /// Returns the sessions that contain the memory of a place: the session, and the notebook of
    /// its workspace if that exists.
    pub(super) async fn keepers(
        &self,
        caller: &Caller,
        place: &MemoryPlace,
    ) -> ServiceResult<Vec<SessionId>> {
        let mut keepers = Vec::new();
        let workspace = match place {
            MemoryPlace::Session(session) => {
                keepers.push(session.clone());
                self.store.used(&caller.key(session)).await?.workspace
            }
            MemoryPlace::Workspace(workspace) => Some(workspace.clone()),
        };
        if let Some(workspace) = workspace
            && !keepers.first().is_some_and(is_notebook)
        {
            keepers.extend(self.notebooks(caller, &workspace).await?);
        }
        Ok(keepers)
    }
}

impl KeptItem {
    fn shown(self) -> MemoryItem {
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
                .map(|PlaceBody { session, position }| WrittenFrom { session, position }),
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
