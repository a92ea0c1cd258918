//! Decides a request: it is rejected, answered, built into the draft of a frame, or waits for
//! frames in flight that it depends on. A pure function of the entry, the end of the frames in
//! flight, the request and the facts looked up for it. It must not change the session:
//! [`super::apply`] does that, once the frame is durable.

use std::{collections::HashSet, io};

use super::{
    FrameDraft, PendingEnd,
    entry::{is_redacted, to_work},
    names::key_hash,
    request::{WriteKind, WriteRequest},
};
use crate::{
    env::DiskShortage,
    event::{Batch, Position, SessionHash, SessionId, Timestamp},
    log::{Entry, KnownBatch},
    store::{SessionGap, StoreError, StoreResult},
};

/// Facts that an engine looked up for a request, under the same lock or of the same version as the
/// entry.
#[derive(Debug, Default)]
pub(crate) struct RequestFacts {
    /// Known batch with the request's key, if any.
    pub(crate) batch: Option<KnownBatch>,
    /// Known positions of the events whose ids the caller gave; empty when none is known.
    pub(crate) known: Vec<Option<Position>>,
    /// Positions of the session that the device could not read and no operator accepted as lost.
    pub(crate) unread: Vec<SessionGap>,
    /// The resource that a full disk lacks: only requests that free space are accepted.
    pub(crate) cramped: Option<DiskShortage>,
    /// Reason for which the session's segment accepts no more appends.
    pub(crate) unwritable: Option<String>,
    /// True if the event to be redacted is in a segment that can no longer be verified.
    pub(crate) unprovable: bool,
}

/// Decision on a request that is not rejected.
pub(crate) enum RequestDecision {
    /// The request writes nothing.
    Nothing,
    /// The batch is known: its answer is read from the stored events.
    Batch(KnownBatch),
    /// Some events of the batch are known: their positions.
    Events(Vec<Option<Position>>),
    /// The request depends on frames in flight.
    Wait,
    /// The request becomes this frame.
    Draft(Box<FrameDraft>),
}

/// Decides a request. Few requests depend on the count of time, which takes a lock: `counted` is
/// called for those.
///
/// # Errors
/// The reason of the rejection as a [`StoreError`].
pub(crate) fn decide(
    (session, hash): (&SessionId, SessionHash),
    entry: &Entry,
    ahead: &PendingEnd,
    request: &mut WriteRequest,
    looked: RequestFacts,
    counted: &dyn Fn() -> Timestamp,
) -> StoreResult<RequestDecision> {
    debug_assert!(
        looked.known.is_empty() || looked.known.len() == request.placed.len(),
        "an engine looks up all ids of a request or none"
    );
    if must_wait(ahead, &request.ask) {
        return Ok(RequestDecision::Wait);
    }
    if let WriteKind::Append = request.ask {
        match classify_batch(ahead, request, &looked)? {
            KnownPart::New => {}
            KnownPart::Wait => return Ok(RequestDecision::Wait),
            KnownPart::Batch => {
                return Ok(looked.batch.map_or(RequestDecision::Nothing, RequestDecision::Batch));
            }
            KnownPart::Events => return Ok(RequestDecision::Events(looked.known)),
        }
    }
    if is_done(session, entry, request, counted)? {
        return Ok(RequestDecision::Nothing);
    }
    check_state(session, entry, &request.ask, looked)?;
    if request.needs_lease() && (entry.work.until.is_some() || request.batch.fence.is_some()) {
        to_work(&entry.work).check_writer(session, request.batch.fence, counted())?;
    }
    if let Some(expected) = position_conflict(&request.batch, ahead.tail) {
        // Frames in flight may still fail; that never undoes what is durable.
        let durable = Position(entry.tail);
        let decided = ahead.frames == 0 || expected < durable;
        let refused = StoreError::PositionConflict { expected, tail: durable };
        return if decided { Err(refused) } else { Ok(RequestDecision::Wait) };
    }
    let expected = request.batch.note.as_ref().and_then(|note| note.if_notes);
    let durable = entry.work.notes;
    if let Some(expected) = expected.filter(|expected| *expected != durable + ahead.notes) {
        let decided = ahead.notes == 0 || expected < durable;
        let refused = StoreError::NotesConflict { expected, notes: durable };
        return if decided { Err(refused) } else { Ok(RequestDecision::Wait) };
    }
    let Some(draft) = FrameDraft::new(hash, entry, ahead, request) else {
        let wait = ahead.frames > 0 && request.batch.if_position.is_some();
        return Ok(if wait { RequestDecision::Wait } else { RequestDecision::Nothing });
    };
    Ok(RequestDecision::Draft(Box::new(draft)))
}

/// Returns true if the decision on a request depends on frames in flight.
fn must_wait(ahead: &PendingEnd, ask: &WriteKind) -> bool {
    match ask {
        WriteKind::Create(_) | WriteKind::Expire => false,
        // A frame in flight would follow the tombstone, or be answered as if it did not.
        WriteKind::Erase => ahead.frames > 0,
        _ => ahead.barrier,
    }
}

/// Returns true if the session is already as a request wants it; sets the lease of a lease request.
fn is_done(
    session: &SessionId,
    entry: &Entry,
    request: &mut WriteRequest,
    counted: &dyn Fn() -> Timestamp,
) -> StoreResult<bool> {
    let keeps = match &request.ask {
        WriteKind::Change(change) => change.delete,
        WriteKind::Redact(_) | WriteKind::Erase => true,
        _ => false,
    };
    if keeps && entry.held_at.is_some() {
        return Err(StoreError::SessionHeld { session: session.clone() });
    }
    match &request.ask {
        WriteKind::Erase => Ok(entry.stage.is_erased()),
        WriteKind::Redact(position) => Ok(is_redacted(&entry.redacted, *position)),
        WriteKind::Lease(call) => {
            let (lease, changes) = to_work(&entry.work).apply_call(session, *call, counted())?;
            request.lease = Some(lease);
            Ok(!changes)
        }
        _ => Ok(false),
    }
}

/// Checks that the current state of the session accepts a request of that kind.
fn check_state(
    session: &SessionId,
    entry: &Entry,
    ask: &WriteKind,
    looked: RequestFacts,
) -> StoreResult<()> {
    if let WriteKind::Erase = ask {
        // Regardless of other problems of the session.
        return Ok(());
    }
    let deletes = matches!(ask, WriteKind::Change(change) if change.delete);
    if let Some(short) = looked.cramped.filter(|_| !deletes) {
        return Err(StoreError::DiskFull(short));
    }
    let damaged = entry.is_degraded() || !looked.unread.is_empty();
    if damaged && !ask.ignores_damage() || looked.unprovable {
        return Err(entry.damage_error(session, looked.unread));
    }
    if entry.archived_at.is_some() && !ask.is_allowed_when_archived() {
        return Err(StoreError::SessionArchived { session: session.clone() });
    }
    match looked.unwritable {
        Some(error) => {
            let source = io::Error::other(error);
            Err(StoreError::Io { doing: "writing the session's segment", source })
        }
        None => Ok(()),
    }
}

/// Known part of a batch.
enum KnownPart {
    New,
    Batch,
    Events,
    Wait,
}

fn classify_batch(
    ahead: &PendingEnd,
    request: &WriteRequest,
    looked: &RequestFacts,
) -> StoreResult<KnownPart> {
    let in_flight = |name: &[u8; 16]| ahead.names.contains(name);
    let key = request.batch.key.as_ref();
    if key.is_some_and(|key| in_flight(&key_hash(key.as_str()))) {
        return Ok(KnownPart::Wait);
    }
    let mut seen = HashSet::new();
    for (placed, name) in request.placed.iter().zip(&request.names) {
        let Some(hash) = name.given_hash() else { continue };
        if !seen.insert(hash) {
            return Err(StoreError::DuplicateEventId { id: placed.id.clone() });
        }
        if in_flight(&hash) {
            return Ok(KnownPart::Wait);
        }
    }
    Ok(match &looked.batch {
        Some(_) => KnownPart::Batch,
        None if looked.known.iter().any(Option::is_some) => KnownPart::Events,
        None => KnownPart::New,
    })
}

/// Returns the position that a batch expects and will not get.
fn position_conflict(batch: &Batch, tail: Position) -> Option<Position> {
    let wanted = batch.events.iter().enumerate();
    let wanted = wanted.filter_map(|(n, event)| Some((event.position?, tail.plus(n as u64))));
    batch
        .if_position
        .map(|expected| (expected, tail))
        .into_iter()
        .chain(wanted)
        .find(|(expected, next)| expected != next)
        .map(|(expected, _)| expected)
}
