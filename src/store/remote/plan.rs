//! The change of one session by the requests of a round: each is decided on the entry as the ones
//! before it leave it. It must not read the base nor write to it.

use std::{collections::HashSet, mem};

use bytes::Bytes;

use super::row::{Head, uid_of};
use crate::{
    env::Entropy,
    event::{Lsn, Position, Timestamp},
    log::{Control, KnownBatch, TAG_BYTES, frame::PAYLOAD_BYTES_MAX, keyring::NameKey},
    store::{
        AppendResult, StoreError, StoreResult,
        base::{AbsentName, Hash16, KnownName, NewFrame, RowWrite},
        rules::{
            Draw, FrameEffect, PendingEnd, RequestDecision, RequestFacts, SessionAccess, StoredId,
            WriteKind, WriteRequest, apply, decide, names::key_hash,
        },
    },
};

/// Salt of the frames in a base: they are in no file.
pub(super) const NO_SALT: u64 = 0;

/// Planned change of one session.
pub(super) struct Plan {
    /// The session as the change leaves it.
    pub(super) head: Head,
    frames: Vec<NewFrame>,
    names: Vec<(Hash16, KnownName)>,
    absent: Vec<AbsentName>,
    changes_entry: bool,
    holds: bool,
    /// Names of the planned frames.
    taken: HashSet<[u8; 16]>,
}

/// Times and randomness that a plan depends on.
pub(super) struct PlanContext<'a> {
    pub(super) counted: Timestamp,
    /// Batch keys stored before this count of time have expired.
    pub(super) keys_live_from: Timestamp,
    pub(super) entropy: &'a dyn Entropy,
}

/// Result of planning a request.
pub(super) enum PlanOutcome {
    /// Its frame is part of the change: the answer once that is committed.
    Framed(AppendResult),
    /// It writes nothing.
    Unchanged(AppendResult),
    /// The batch is known.
    Batch(KnownBatch),
    /// Some events of the batch are known.
    Events(Vec<Option<Position>>),
    /// It depends on planned frames: to be planned again after their commit.
    Later,
}

impl Plan {
    /// Creates an empty plan.
    pub(super) fn new(head: Head) -> Self {
        Self {
            head,
            frames: Vec::new(),
            names: Vec::new(),
            absent: Vec::new(),
            changes_entry: false,
            holds: false,
            taken: HashSet::new(),
        }
    }

    /// Returns true if nothing is planned.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Plans a request after those before it.
    ///
    /// # Errors
    /// The reason of its rejection.
    pub(super) fn add(
        &mut self,
        request: &mut WriteRequest,
        facts: RequestFacts,
        context: &PlanContext<'_>,
    ) -> StoreResult<PlanOutcome> {
        self.check_access(request)?;
        let mut end = PendingEnd::from_entry(&self.head.entry);
        request.raise_time(end.updated_at, context.entropy);
        end.names = mem::take(&mut self.taken);
        let named = (&self.head.key.session, self.head.hash);
        let decided = decide(named, &self.head.entry, &end, request, facts, &|| context.counted);
        self.taken = end.names;
        Ok(match decided? {
            RequestDecision::Nothing => {
                PlanOutcome::Unchanged(AppendResult::unchanged(self.head.entry.receipt()))
            }
            RequestDecision::Batch(known) => PlanOutcome::Batch(known),
            RequestDecision::Events(known) => PlanOutcome::Events(known),
            RequestDecision::Wait => PlanOutcome::Later,
            RequestDecision::Draft(mut draft) => {
                let plain = draft.take_frame();
                // A base that encrypts adds a tag.
                let bytes = plain.payload.len() + TAG_BYTES;
                if bytes > PAYLOAD_BYTES_MAX {
                    let max = PAYLOAD_BYTES_MAX;
                    return Err(StoreError::BatchTooLarge { bytes, max });
                }
                let next = draft.queued_end(request);
                let number = Lsn(self.head.entry.end_lsn.max(1));
                let effect = draft.into_effect(number);
                let mut header = plain.header;
                header.first_lsn = number;
                let mut bytes = Vec::new();
                header.write(NO_SALT, &plain.payload, &mut bytes);
                self.add_names(request, &effect, header.first_position, context);
                self.frames.push(NewFrame {
                    first: header.first_position,
                    number,
                    events: header.events,
                    at: effect.at,
                    noted: effect.controls.iter().any(|(_, one)| matches!(one, Control::Note(_))),
                    attempt: context.entropy.draw_salt(),
                    bytes: Bytes::from(bytes),
                });
                self.record(&effect, context.counted);
                PlanOutcome::Framed(next.answer(request))
            }
        })
    }

    /// Applies the effect of a planned frame.
    fn record(&mut self, effect: &FrameEffect, counted: Timestamp) {
        for (_, control) in &effect.controls {
            self.changes_entry |= !matches!(
                control,
                Control::Note(_) | Control::Lease(_) | Control::Batch(_) | Control::Unknown(_)
            );
            self.holds |=
                matches!(control, Control::Change(change) if change.life.hold == Some(true));
        }
        apply(&mut self.head.entry, effect, counted);
    }

    /// Adds the names of a planned frame: none of them may exist already.
    fn add_names(
        &mut self,
        request: &WriteRequest,
        effect: &FrameEffect,
        first: Position,
        context: &PlanContext<'_>,
    ) {
        let uid = self.head.uid();
        for (n, name) in (0..).zip(&request.names) {
            let StoredId::Given(hash) = name else { continue };
            let (position, at) = (first.plus(n), context.counted);
            self.names.push((*hash, KnownName { position, events: 0, digest: None, at }));
            let live_from = Timestamp(i64::MIN);
            let below = Position(u64::MAX);
            self.absent.push(AbsentName { session: uid, hash: *hash, below, live_from });
            for ancestor in self.head.ancestors.iter() {
                let (session, below) = (uid_of(ancestor.hash), ancestor.range.to);
                self.absent.push(AbsentName { session, hash: *hash, below, live_from });
            }
            self.taken.insert(*hash);
        }
        if let Some(batch) = effect.batch() {
            let hash = key_hash(&batch.key);
            self.names.push((hash, name_of_batch(batch, context.counted)));
            let (below, live_from) = (Position(u64::MAX), context.keys_live_from);
            self.absent.push(AbsentName { session: uid, hash, below, live_from });
            self.taken.insert(hash);
        }
    }

    /// Checks that a session in that state takes a request of that kind.
    fn check_access(&self, request: &WriteRequest) -> StoreResult<()> {
        let (head, entry) = (&self.head, &self.head.entry);
        match request.ask.access() {
            SessionAccess::Visible => head.check_visible(),
            SessionAccess::Restorable => entry.check_restorable(&head.key.session),
            SessionAccess::Kept if entry.stage.is_reclaimed() => Err(head.not_found_error()),
            SessionAccess::Read if entry.stage.is_erased() => Err(head.not_found_error()),
            SessionAccess::Kept | SessionAccess::Read => Ok(()),
        }
    }

    /// Returns the planned change and the session as it will be.
    pub(super) fn finish(self, keys: &NameKey) -> (RowWrite, Head) {
        let Self { mut head, frames, names, absent, changes_entry, holds, .. } = self;
        let revision = head.row.revision;
        head.row = head.to_row(keys);
        if changes_entry {
            head.row.entry = head.entry.encode().into();
        }
        // An erasure planned before must see the hold of a fork.
        let touches = match holds {
            true => head.ancestors.iter().map(|one| uid_of(one.hash)).collect(),
            false => Vec::new(),
        };
        let after = head.row.clone();
        let write = RowWrite { revision, after, changes_entry, frames, names, absent, touches };
        (write, head)
    }
}

/// Returns the stored name of a batch.
pub(super) fn name_of_batch(batch: &KnownBatch, at: Timestamp) -> KnownName {
    KnownName {
        position: Position(batch.first_position),
        events: batch.events,
        digest: Some(Bytes::copy_from_slice(&batch.digest)),
        at,
    }
}

/// Returns the batch with a key that a name describes.
pub(super) fn batch_of_name(key: &str, name: &KnownName) -> KnownBatch {
    let digest = name.digest.as_deref().and_then(|digest| digest.try_into().ok());
    let known = KnownBatch {
        key: key.to_owned(),
        first_position: name.position.0,
        events: name.events,
        digest: digest.unwrap_or_default(),
    };
    if name.digest.is_some() { known } else { known.without_digest() }
}

/// Returns true if a request of this kind may be answered without a frame only after a fresh look
/// at its names.
pub(super) fn has_names(request: &WriteRequest) -> bool {
    matches!(request.ask, WriteKind::Append)
        && (request.batch.key.is_some()
            || request.names.iter().any(|name| name.given_hash().is_some()))
}
