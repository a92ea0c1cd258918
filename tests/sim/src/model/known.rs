//! Results of the model for repeated requests: by a key, or by the ids of events.

use super::{Session, gone};
use sessionlog::{
    event::{Batch, BatchKey, Event, NewEvent},
    store::{
        AppendResult, ForkPoint, NewSession, PlacedEvent, SessionInfo, StoreError, StoreResult,
    },
};

/// Returns the earlier result of a creation with the same key, if its content is the same.
pub(super) fn created_before(
    known: &Session,
    new: &NewSession,
) -> StoreResult<(SessionInfo, AppendResult)> {
    gone(known)?;
    let session = known.info.key.session.clone();
    let sent = &new.events.events;
    let own = known.events.get(known.base().0 as usize..);
    let stored = own.and_then(|own| own.get(..sent.len()));
    let same = |old: &Event, new: &NewEvent| {
        let redacted = known.redacted.contains(&old.position);
        (redacted || (&old.kind, &old.body) == (&new.kind, &new.body))
            && new.id.as_ref().is_none_or(|id| *id == old.id)
    };
    let stored =
        stored.filter(|stored| stored.iter().zip(sent.iter()).all(|(old, new)| same(old, new)));
    let parents = (known.info.forked_from.as_ref(), new.parent.as_ref());
    let same_call =
        known.key.as_ref().zip(new.key.as_ref()).is_none_or(|(first, key)| {
            BatchKey::is_retry(first.digest(), key.digest()) == Some(true)
        });
    let stored = stored.filter(|_| same_call);
    let stored = stored.filter(|_| ForkPoint::may_repeat(parents.0, parents.1));
    let Some(stored) = stored.filter(|_| new.id.as_ref().is_none_or(|id| *id == session)) else {
        let what = new.key.as_ref().map(ToString::to_string).unwrap_or_default();
        return Err(StoreError::IdempotencyConflict { what, position: None });
    };
    let placed = |event: &Event| PlacedEvent {
        id: event.id.clone(),
        position: event.position,
        processed_at: event.processed_at,
    };
    let appended = AppendResult {
        events: stored.iter().map(placed).collect(),
        first_position: known.base(),
        next_position: known.base().plus(stored.len() as u64),
        receipt: known.info.receipt,
        repeated: true,
    };
    Ok((known.info.clone(), appended))
}

pub(super) fn same_batch(known: &Batch, answer: &AppendResult, sent: &Batch) -> bool {
    let mut both = known.events.iter().zip(sent.events.iter());
    answer.events.len() == sent.events.len()
        && both.all(|(a, b)| (&a.kind, &a.body) == (&b.kind, &b.body))
}

/// Returns the earlier result, if every event of the batch is known by its id.
pub(super) fn known_ids(session: &Session, batch: &Batch) -> StoreResult<Option<AppendResult>> {
    let mut known = Vec::new();
    for (index, event) in batch.events.iter().enumerate() {
        let Some(id) = &event.id else { continue };
        if batch.events.iter().take(index).any(|other| other.id.as_ref() == Some(id)) {
            return Err(StoreError::DuplicateEventId { id: id.clone() });
        }
        let Some(old) = session.whole().find(|old| old.id == *id) else { continue };
        let redacted = session.redacted.contains(&old.position);
        if !redacted && (&old.kind, &old.body) != (&event.kind, &event.body) {
            let position = Some(old.position);
            return Err(StoreError::IdempotencyConflict { what: id.to_string(), position });
        }
        known.push(PlacedEvent {
            id: id.clone(),
            position: old.position,
            processed_at: old.processed_at,
        });
    }
    if known.is_empty() {
        return Ok(None);
    }
    if let Some(first) = known.first().filter(|_| known.len() < batch.events.len()) {
        let (known, position) = (first.id.clone(), first.position);
        return Err(StoreError::KnownInPart { known, position });
    }
    let first_position = known.first().map_or(session.info.tail, |placed| placed.position);
    let next_position = known.last().map_or(session.info.tail, |placed| placed.position.plus(1));
    Ok(Some(AppendResult {
        events: known,
        first_position,
        next_position,
        receipt: session.info.receipt,
        repeated: true,
    }))
}
