//! Repeated requests: compares a request with the stored one, and returns the positions of the
//! events to be read for that. It must not read them.

use super::entry::is_redacted;
use crate::{
    event::{Batch, BatchKey, Event, NewEvent, Position, Range},
    log::{KnownBatch, REDACTED, Redaction},
    store::{AppendResult, ForkPoint, NewSession, SessionInfo, StoreError, StoreResult},
};

/// Returns the positions of the stored events of a batch with a known key.
///
/// # Errors
/// [`StoreError::IdempotencyConflict`] when the batch differs.
pub(crate) fn batch_range(batch: &Batch, known: &KnownBatch) -> StoreResult<Range> {
    let from = Position(known.first_position);
    if !known.matches_events(&batch.events) {
        let (what, position) = (known.key.clone(), Some(from));
        return Err(StoreError::IdempotencyConflict { what, position });
    }
    Ok(Range::new(from, from.plus(u64::from(known.events))))
}

/// A batch with known event ids, compared with the stored events, a run of adjacent events at a
/// time.
pub(crate) struct RepeatedBatch<'a> {
    batch: &'a Batch,
    /// Indices of the stored events of the batch, with their positions.
    known: Vec<(usize, Position)>,
    /// The stored events that were compared so far.
    stored: Vec<Event>,
}

impl<'a> RepeatedBatch<'a> {
    /// Starts the comparison; `positions` are those of the events whose ids are known.
    pub(crate) fn new(batch: &'a Batch, positions: &[Option<Position>]) -> Self {
        let known = positions.iter().enumerate();
        let known = known.filter_map(|(index, at)| at.map(|at| (index, at))).collect();
        Self { batch, known, stored: Vec::new() }
    }

    /// Returns the positions to be read next; `None` when everything was compared.
    pub(crate) fn next_run(&self) -> Option<Range> {
        let left = self.known.get(self.stored.len()..).unwrap_or_default();
        let run = left.chunk_by(|(_, one), (_, next)| one.plus(1) == *next).next()?;
        let from = run.first()?.1;
        Some(Range::new(from, from.plus(run.len() as u64)))
    }

    /// Compares stored events from the start of the next run, at least one; `redacted` are the
    /// redactions of the session, which wrote the events from `base` on.
    ///
    /// # Errors
    /// [`StoreError::IdempotencyConflict`] with the first event that differs.
    pub(crate) fn compare(
        &mut self,
        events: Vec<Event>,
        redacted: &[Redaction],
        base: Position,
    ) -> StoreResult<()> {
        assert!(!events.is_empty(), "what is compared was read");
        for old in events {
            let Some((index, at)) = self.known.get(self.stored.len()).copied() else { break };
            let Some(new) = self.batch.events.get(index) else { break };
            // Only the session that wrote an event knows whether it is redacted.
            let gone = is_redacted(redacted, at) || at < base && old.body == REDACTED;
            if !gone && !has_same_content(&old, new) {
                let what = new.id.as_ref().map(ToString::to_string).unwrap_or_default();
                return Err(StoreError::IdempotencyConflict { what, position: Some(at) });
            }
            self.stored.push(old);
        }
        Ok(())
    }

    /// Returns the stored events, if they are all of the batch.
    ///
    /// # Errors
    /// [`StoreError::KnownInPart`] with the first known event.
    pub(crate) fn finish(self) -> StoreResult<Vec<Event>> {
        assert_eq!(self.stored.len(), self.known.len(), "everything was compared");
        let news = self.batch.events.len() > self.known.len();
        if let Some(first) = self.stored.first().filter(|_| news) {
            let (known, position) = (first.id.clone(), first.position);
            return Err(StoreError::KnownInPart { known, position });
        }
        Ok(self.stored)
    }
}

/// Returns the answer to a creation whose key is known, from the events stored then. `first` is the
/// key as it was stored, `redacted` the redactions of the session.
///
/// # Errors
/// [`StoreError::IdempotencyConflict`] when the creation differs.
pub(crate) fn answer_repeated_creation(
    new: &NewSession,
    info: SessionInfo,
    first: Option<&str>,
    redacted: &[Redaction],
    stored: &[Event],
) -> StoreResult<(SessionInfo, AppendResult)> {
    let events = &new.events.events;
    let same = |(old, new): (&Event, &NewEvent)| {
        (is_redacted(redacted, old.position) || has_same_content(old, new))
            && new.id.as_ref().is_none_or(|id| *id == old.id)
    };
    let same_events = stored.len() == events.len() && stored.iter().zip(events.iter()).all(same);
    let same_parent = ForkPoint::may_repeat(info.forked_from.as_ref(), new.parent.as_ref());
    let same_name = new.id.as_ref().is_none_or(|id| *id == info.key.session);
    let first = first.and_then(|key| BatchKey::parse_stored(key).ok());
    let same_call = first
        .zip(new.key.as_ref())
        .is_none_or(|(first, key)| BatchKey::is_retry(first.digest(), key.digest()) == Some(true));
    if same_events && same_parent && same_call && same_name {
        let appended = AppendResult::from_stored(stored, info.receipt);
        return Ok((info, appended));
    }
    let what = new.key.as_ref().map(ToString::to_string).unwrap_or_default();
    Err(StoreError::IdempotencyConflict { what, position: None })
}

fn has_same_content(old: &Event, new: &NewEvent) -> bool {
    (&old.kind, &old.body) == (&new.kind, &new.body)
}
