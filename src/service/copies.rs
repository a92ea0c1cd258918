//! Copies of an event's content elsewhere, and how a redaction reaches them. The list is complete:
//! a part that derives new content from an event adds a line here.
//!
//! - The title of a session: a position in metadata, never a copy.
//! - The record that an event is a part of: `raw` of another event of the record, whose id ends
//!   with another number. Redacted with it.
//! - A source that the server found: `source.found`, which has positions in `from`. Redacted with
//!   it.
//! - A reused tool result with `cached.position`. Redacted with it.
//! - Text that a hook gave a model: `context.injected`, which may repeat any earlier content of its
//!   session and workspace. All texts that hooks gave later are redacted with it.
//! - `session.restored`: positions without text. `memory.paged_in`: positions, and the text of a
//!   query, which is the caller's.
//! - Facts, titles and states in memory: dropped with each redaction.
//! - Index and vectors: derived files, which a step of the store's redaction cleans.
//! - The spool of a hook or proxy: its event has the same id, so sending it writes nothing.
//! - Items of memory that a caller wrote about it, with `positions` or `from`: named in the
//!   response, and redacted with it on request.
//! - Text that a caller wrote without naming an event, such as titles, marks, notes, checkpoint
//!   states or a graph: left to the caller.
//!
//! It must not redact anything itself.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Caller, Service, ServiceResult};
use crate::{
    api::events::ItemOf,
    event::{Event, EventId, Position, Range, SessionId, SessionKey, kinds},
    projection::{StoredMemory, body},
    store::{FillDirection, ReadRequest},
};

/// Maximum number of events of one record; a line of many pieces has as many events.
const PARTS_MAX: usize = 10_000;
/// Minimum number of characters of a hash that names a record.
const HASH_CHARS_MIN: usize = 16;
/// Maximum number of events and body bytes read in one step.
const SCAN_EVENTS: usize = 1_000;
const SCAN_BYTES: usize = 4 << 20;

impl Service {
    /// Returns the events of a session that copy content of one of its events, in order, without
    /// that event and without events that a caller wrote.
    pub(super) async fn find_copies(
        &self,
        key: &SessionKey,
        (id, position): (&EventId, Position),
    ) -> ServiceResult<Vec<(EventId, Position)>> {
        let mut copies = self.find_record_events(key, id).await?;
        let mut of: BTreeSet<u64> = copies.iter().map(|(_, position)| position.0).collect();
        of.insert(position.0);
        let mut from = Position(of.first().copied().unwrap_or(position.0));
        loop {
            let read = ReadRequest {
                range: Range::new(from, Position(u64::MAX)),
                events_max: SCAN_EVENTS,
                bytes_max: SCAN_BYTES,
                fill: FillDirection::Forward,
                allow_gaps: true,
            };
            let slice = self.store.read(key, read).await?;
            // A copy follows its source, so one pass also finds copies of copies.
            for event in &slice.events {
                if !of.contains(&event.position.0) && is_copy_of(event, &of) {
                    of.insert(event.position.0);
                    copies.push((event.id.clone(), event.position));
                }
            }
            from = slice.covered.to;
            if from >= slice.tail {
                return Ok(copies);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the events that contain the record from which an event was made. All events of a
    /// record have the first one's id with a number appended.
    async fn find_record_events(
        &self,
        key: &SessionKey,
        id: &EventId,
    ) -> ServiceResult<Vec<(EventId, Position)>> {
        let first = id.first_id_of_record().unwrap_or_else(|| id.clone());
        let mut found = Vec::new();
        if !is_named_by_hash(&first) {
            return Ok(found);
        }
        let parts = |sign: &'static str| {
            let first = first.clone();
            (1..PARTS_MAX).map_while(move |n| EventId::new(&format!("{first}{sign}{n}")).ok())
        };
        let runs: [Box<dyn Iterator<Item = EventId> + Send>; 3] =
            [Box::new([first.clone()].into_iter()), Box::new(parts("-")), Box::new(parts("."))];
        for run in runs {
            for part in run {
                let Some(position) = self.store.find(key, &part).await? else { break };
                let event = self.read_event(key, position).await?;
                if part != *id && event.is_some_and(|event| has_record(&event)) {
                    found.push((part, position));
                }
            }
        }
        Ok(found)
    }

    /// Returns the items of memory that reference an event, and those written from its session to a
    /// notebook after it, which may repeat it.
    pub(super) async fn list_items_about(
        &self,
        caller: &Caller,
        session: &SessionId,
        position: Position,
    ) -> ServiceResult<Vec<ItemOf>> {
        let stands = |item: &StoredMemory| item.positions.is_some_and(|all| all.contains(position));
        let of = item_reporter(session);
        let key = caller.key(session);
        let look = self.peek_facts(&key, |_, facts| {
            facts.memory.all().filter(|item| stands(item)).map(&of).collect::<Vec<_>>()
        });
        let mut items = look.await?;
        let is_of = |item: &StoredMemory| {
            let after = item.from.as_ref().is_some_and(|from| from.position > position.0);
            if item.positions.is_some() { stands(item) } else { after }
        };
        items.extend(self.list_items_from(caller, session, is_of).await?);
        Ok(items)
    }

    /// Returns the wanted items of memory that were written from a session, from the notebooks of
    /// its workspace.
    pub(super) async fn list_items_from(
        &self,
        caller: &Caller,
        session: &SessionId,
        wanted: impl Fn(&StoredMemory) -> bool + Send + Sync,
    ) -> ServiceResult<Vec<ItemOf>> {
        let mut items = Vec::new();
        let Some(workspace) = self.store.workspace(&caller.key(session)).await? else {
            return Ok(items);
        };
        for notebook in self.list_notebooks(caller, &workspace).await? {
            let is_of = |item: &&StoredMemory| {
                item.from.as_ref().is_some_and(|from| from.session == session.as_str())
                    && wanted(item)
            };
            let key = caller.key(&notebook);
            let found = self.peek_facts(&key, |_, facts| {
                let found = facts.memory.all().filter(is_of);
                found.map(item_reporter(&notebook)).collect::<Vec<_>>()
            });
            items.extend(found.await?);
        }
        Ok(items)
    }
}

/// Returns a function that builds the report of an item which may repeat removed content.
fn item_reporter(session: &SessionId) -> impl Fn(&StoredMemory) -> ItemOf {
    move |item: &StoredMemory| ItemOf {
        memory_id: item.id.clone(),
        notebook: session.clone(),
        position: item.position,
        redacted: false,
    }
}

/// Members of a copy that reference its source.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OriginMembers {
    /// For a source: positions of the events that name it.
    from: Vec<u64>,
    found_by: Option<String>,
    /// For a tool result: the reused result.
    cached: Option<CachedReference>,
}

#[derive(Deserialize)]
struct CachedReference {
    position: u64,
}

/// Returns true if an event copies content of an event at one of the positions.
fn is_copy_of(event: &Event, of: &BTreeSet<u64>) -> bool {
    let made = || body::read::<OriginMembers>(&event.body).unwrap_or_default();
    match event.kind.as_str() {
        kinds::SOURCE_FOUND => {
            let made = made();
            let is_by_server = made.found_by.as_deref() == Some(body::BY_SERVER);
            is_by_server && made.from.iter().any(|position| of.contains(position))
        }
        kind if kinds::is_result(kind) => {
            made().cached.is_some_and(|cached| of.contains(&cached.position))
        }
        _ => false,
    }
}

/// Returns true if an id contains a content hash, with or without a number appended.
fn is_named_by_hash(id: &EventId) -> bool {
    let is_hash = |part: &str| {
        part.len() >= HASH_CHARS_MIN && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    id.as_str().split(['-', '_', '.']).any(is_hash)
}

/// Returns true if an event contains the record from which it and others were made.
fn has_record(event: &Event) -> bool {
    #[derive(Deserialize)]
    struct RecordMember {
        raw: Option<serde::de::IgnoredAny>,
    }
    body::read::<RecordMember>(&event.body).is_some_and(|record| record.raw.is_some())
}
