//! When a session was worked in last. An import writes today what happened then: the order of
//! sessions goes by the times of its events until something else is written. It must not change
//! what the store keeps of a write.

use super::{Caller, RESERVED_METADATA, Service};
use crate::{
    event::{Batch, Origin, SessionId, Timestamp},
    store::SessionInfo,
};

/// Metadata of an import: the time of the last event of it, and the tail behind it.
fn name() -> String {
    format!("{RESERVED_METADATA}imported")
}

fn imported(info: &SessionInfo) -> Option<Timestamp> {
    let (at, tail) = info.metadata.get(&name())?.split_once('@')?;
    let is_last = tail.parse() == Ok(info.tail.0);
    at.parse().ok().filter(|_| is_last).map(Timestamp)
}

/// When the work of a session was done last.
pub(super) fn worked_at(info: &SessionInfo) -> Timestamp {
    imported(info).map_or(info.updated_at, |at| at.min(info.updated_at))
}

/// Notes in a batch of an import, behind a tail, when its last event was.
pub(super) fn date(batch: &mut Batch, before: Option<&SessionInfo>) {
    let is_imported = batch.events.iter().all(|event| event.origin == Origin::Import);
    let last = batch.events.iter().filter_map(|event| event.created_at).max();
    let Some(last) = last.filter(|_| is_imported) else { return };
    let tail = before.map_or(0, |info| info.tail.0) + batch.events.len() as u64;
    // Where something else was written before, that is the later work.
    let known = before.filter(|info| info.tail.0 > 0).map(worked_at);
    let last = known.map_or(last, |known| known.max(last));
    batch.metadata.insert(name(), Some(format!("{}@{tail}", last.0)));
}

impl Service {
    /// Notes when the events of an import were, before they are appended.
    pub(super) async fn date_import(
        &self,
        caller: &Caller,
        session: &SessionId,
        batch: &mut Batch,
    ) {
        if batch.events.first().is_some_and(|first| first.origin == Origin::Import) {
            let before = self.store.info(&caller.key(session)).await.ok();
            date(batch, before.as_ref());
        }
    }
}
