//! Requests that were made before: whether one is the same as what was stored then, and what is to
//! be read to find out. It must not read it.

use super::entry::is_redacted;
use crate::{
    event::{Batch, BatchKey, Event, NewEvent, Position, Range},
    log::{KnownBatch, REDACTED, Redaction},
    store::{Appended, ForkPoint, NewSession, SessionInfo, StoreError, StoreResult},
};

/// Positions of the stored events of a batch with a known key.
///
/// # Errors
/// [`StoreError::IdempotencyConflict`] when the batch is another one.
pub(crate) fn batch_range(batch: &Batch, known: &KnownBatch) -> StoreResult<Range> {
    let from = Position(known.first_position);
    if !known.answers(&batch.events) {
        let (what, position) = (known.key.clone(), Some(from));
        return Err(StoreError::IdempotencyConflict { what, position });
    }
    Ok(Range::new(from, from.plus(u64::from(known.events))))
}

/// A batch of which event ids are known, compared with what is stored, a run of adjacent events at
/// a time.
pub(crate) struct Repeated<'a> {
    batch: &'a Batch,
    /// Indices of the stored events of the batch, with their positions.
    known: Vec<(usize, Position)>,
    /// As many of them as were compared.
    stored: Vec<Event>,
}

impl<'a> Repeated<'a> {
    /// Of each event of the batch the position where its id is known, if it is.
    pub(crate) fn new(batch: &'a Batch, positions: &[Option<Position>]) -> Self {
        let known = positions.iter().enumerate();
        let known = known.filter_map(|(index, at)| at.map(|at| (index, at))).collect();
        Self { batch, known, stored: Vec::new() }
    }

    /// The positions to be read next; `None` when everything was compared.
    pub(crate) fn next_run(&self) -> Option<Range> {
        let left = self.known.get(self.stored.len()..).unwrap_or_default();
        let run = left.chunk_by(|(_, one), (_, next)| one.plus(1) == *next).next()?;
        let from = run.first()?.1;
        Some(Range::new(from, from.plus(run.len() as u64)))
    }

    /// Compares stored events from the beginning of the next run on, at least one; `redacted` are
    /// the redactions of the session, which wrote what is at `base` and behind it.
    ///
    /// # Errors
    /// [`StoreError::IdempotencyConflict`] with the first event that is another one.
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
            if !gone && !is_same(&old, new) {
                let what = new.id.as_ref().map(ToString::to_string).unwrap_or_default();
                return Err(StoreError::IdempotencyConflict { what, position: Some(at) });
            }
            self.stored.push(old);
        }
        Ok(())
    }

    /// The stored events, when they are all of the batch.
    ///
    /// # Errors
    /// [`StoreError::KnownInPart`] with the first of them.
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

/// The answer to a creation whose key is known, from the events that were stored then. `first` is
/// the key as it was stored, `redacted` the redactions of the session.
///
/// # Errors
/// [`StoreError::IdempotencyConflict`] when the creation is another one.
pub(crate) fn created_before(
    new: &NewSession,
    info: SessionInfo,
    first: Option<&str>,
    redacted: &[Redaction],
    stored: &[Event],
) -> StoreResult<(SessionInfo, Appended)> {
    let events = &new.events.events;
    let same = |(old, new): (&Event, &NewEvent)| {
        (is_redacted(redacted, old.position) || is_same(old, new))
            && new.id.as_ref().is_none_or(|id| *id == old.id)
    };
    let same_events = stored.len() == events.len() && stored.iter().zip(events.iter()).all(same);
    let same_parent = ForkPoint::repeats(info.forked_from.as_ref(), new.parent.as_ref());
    let same_name = new.id.as_ref().is_none_or(|id| *id == info.key.session);
    let first = first.and_then(|key| BatchKey::of_stored(key).ok());
    let same_call = first
        .zip(new.key.as_ref())
        .is_none_or(|(first, key)| BatchKey::retries(first.digest(), key.digest()) == Some(true));
    if same_events && same_parent && same_call && same_name {
        let appended = Appended::repeated(stored, info.receipt);
        return Ok((info, appended));
    }
    let what = new.key.as_ref().map(ToString::to_string).unwrap_or_default();
    Err(StoreError::IdempotencyConflict { what, position: None })
}

fn is_same(old: &Event, new: &NewEvent) -> bool {
    (&old.kind, &old.body) == (&new.kind, &new.body)
}
