//! Content that is made of an event and kept elsewhere, and how a redaction reaches it. This list
//! is the whole of it: a part that makes something new of an event's words adds a line here.
//!
//! - The title of a session: a position in metadata, never a copy.
//! - The record that an event is a part of: `raw` of another event of the record, whose id has
//!   another number at the end. Taken along.
//! - A source that the server found: `source.found`, which has positions in `from`. Taken along.
//! - An answer given again: a result with `cached.position`. Taken along.
//! - What a model was given by a hook: `context.injected`, which may repeat whatever its session
//!   and the others of its workspace had by then. All that were given after it are taken along.
//! - `session.restored`: positions without words. `memory.paged_in`: positions, and the words of a
//!   query, which are the caller's.
//! - Facts, titles and states in memory: dropped with each redaction.
//! - Index and vectors: derived files, of which a step of the store's redaction takes them.
//! - The spool of a hook or proxy: its event has the same id, so that sending it writes nothing.
//! - What a caller wrote of it, as `positions` or `from` of an item of memory: named in the
//!   answer, and taken along when that is asked for.
//! - What a caller wrote and names no event, as given titles, marks, notes, states of checkpoints,
//!   a graph: the caller's.
//!
//! It must not take anything away itself.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Caller, Service, ServiceResult};
use crate::{
    api::events::ItemOf,
    event::{Event, EventId, Position, Range, SessionId, SessionKey, kinds},
    projection::{MemoryItem, body},
    store::{Fill, Read},
};

/// Events of one record at most: a line of many pieces has as many.
const PARTS_MAX: usize = 10_000;
/// Characters of a hash that names a record at least.
const HASH_CHARS_MIN: usize = 16;
/// Events looked at in one step, and bytes of their bodies.
const LOOKED_EVENTS: usize = 1_000;
const LOOKED_BYTES: usize = 4 << 20;

impl Service {
    /// The events of a session that have words of one of its events beside those that a caller
    /// wrote: in order, that one left out.
    pub(super) async fn copies_of(
        &self,
        key: &SessionKey,
        (id, position): (&EventId, Position),
    ) -> ServiceResult<Vec<(EventId, Position)>> {
        let mut copies = self.whole_record(key, id).await?;
        let mut of: BTreeSet<u64> = copies.iter().map(|(_, position)| position.0).collect();
        of.insert(position.0);
        let mut from = Position(of.first().copied().unwrap_or(position.0));
        loop {
            let read = Read {
                range: Range::new(from, Position(u64::MAX)),
                events_max: LOOKED_EVENTS,
                bytes_max: LOOKED_BYTES,
                fill: Fill::Forward,
                allow_gaps: true,
            };
            let slice = self.store.read(key, read).await?;
            // A copy is behind what it was made of, so that one pass finds copies of copies.
            for event in &slice.events {
                if !of.contains(&event.position.0) && is_made_of(event, &of) {
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

    /// The events that have the record which an event was made of: all that were made of it have
    /// the id of the first, with a number behind.
    async fn whole_record(
        &self,
        key: &SessionKey,
        id: &EventId,
    ) -> ServiceResult<Vec<(EventId, Position)>> {
        let first = id.first_of_record().unwrap_or_else(|| id.clone());
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
                let event = self.event_at(key, position).await?;
                if part != *id && event.is_some_and(|event| has_record(&event)) {
                    found.push((part, position));
                }
            }
        }
        Ok(found)
    }

    /// The items of memory that say that they stand for an event, and those that were written into
    /// a notebook from its session after it: they may repeat it.
    pub(super) async fn written_of(
        &self,
        caller: &Caller,
        session: &SessionId,
        position: Position,
    ) -> ServiceResult<Vec<ItemOf>> {
        let stands = |item: &MemoryItem| item.positions.is_some_and(|all| all.contains(position));
        let of = item_of(session);
        let key = caller.key(session);
        let look = self.peek_facts(&key, |_, facts| {
            facts.memory.all().filter(|item| stands(item)).map(&of).collect::<Vec<_>>()
        });
        let mut items = look.await?;
        let is_of = |item: &MemoryItem| {
            let after = item.from.as_ref().is_some_and(|from| from.position > position.0);
            if item.positions.is_some() { stands(item) } else { after }
        };
        items.extend(self.written_from(caller, session, is_of).await?);
        Ok(items)
    }

    /// Those items of memory that were written from a session and are wanted. They are in the
    /// notebook of its workspace, which a session does not change.
    pub(super) async fn written_from(
        &self,
        caller: &Caller,
        session: &SessionId,
        wanted: impl Fn(&MemoryItem) -> bool + Send + Sync,
    ) -> ServiceResult<Vec<ItemOf>> {
        let mut items = Vec::new();
        let Some(workspace) = self.store.workspace(&caller.key(session)).await? else {
            return Ok(items);
        };
        for notebook in self.notebooks(caller, &workspace).await? {
            let is_of = |item: &&MemoryItem| {
                item.from.as_ref().is_some_and(|from| from.session == session.as_str())
                    && wanted(item)
            };
            let key = caller.key(&notebook);
            let found = self.peek_facts(&key, |_, facts| {
                let found = facts.memory.all().filter(is_of);
                found.map(item_of(&notebook)).collect::<Vec<_>>()
            });
            items.extend(found.await?);
        }
        Ok(items)
    }
}

/// An item of memory that a session keeps and that may repeat what is removed.
fn item_of(session: &SessionId) -> impl Fn(&MemoryItem) -> ItemOf {
    move |item: &MemoryItem| ItemOf {
        memory_id: item.id.clone(),
        notebook: session.clone(),
        position: item.position,
        redacted: false,
    }
}

/// Members of a copy that say where it is from.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OriginMembers {
    /// Of a source: the events that name it.
    from: Vec<u64>,
    found_by: Option<String>,
    /// Of a result: the one that was given again.
    cached: Option<Cached>,
}

#[derive(Deserialize)]
struct Cached {
    position: u64,
}

/// True if an event has words of one of those at some positions.
fn is_made_of(event: &Event, of: &BTreeSet<u64>) -> bool {
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

/// True if an id is a name of content, or that with a number behind.
fn is_named_by_hash(id: &EventId) -> bool {
    let is_hash = |part: &str| {
        part.len() >= HASH_CHARS_MIN && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    id.as_str().split(['-', '_', '.']).any(is_hash)
}

/// True if an event has the record that it and others were made of.
fn has_record(event: &Event) -> bool {
    #[derive(Deserialize)]
    struct RecordMember {
        raw: Option<serde::de::IgnoredAny>,
    }
    body::read::<RecordMember>(&event.body).is_some_and(|record| record.raw.is_some())
}
