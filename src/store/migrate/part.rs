//! A session between two stores: its entry without what belongs to one engine, and its frames. It
//! must not read or write a store.

use crate::{
    event::{Incarnation, Lsn, Position, SessionHash, SessionKey, Timestamp},
    log::{Entry, Frame, KnownBatch, Record},
    store::rules::redact_records,
};

/// A session of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MigratedSession {
    pub(crate) key: SessionKey,
    pub(crate) hash: SessionHash,
    /// Its entry, without the places of its records and its key.
    pub(crate) entry: Entry,
}

impl MigratedSession {
    /// Takes the entry of a session; `None` if one of its ids is invalid.
    pub(crate) fn new(mut entry: Entry) -> Option<Self> {
        let key = entry.session_key()?;
        let hash = SessionHash::new(&key, Incarnation(entry.incarnation));
        entry.segments.clear();
        entry.key = 0;
        // The copy has no file with bytes that were removed.
        entry.redacted.iter_mut().for_each(|one| one.cleared = true);
        if entry.stage.is_erasing() {
            entry.stage.finish_erasure();
        }
        Some(Self { key, hash, entry })
    }

    /// Returns the hash of the session that it is a fork of.
    pub(crate) fn parent(&self) -> Option<SessionHash> {
        self.entry.parent(&self.key.scope).map(|(_, hash)| hash)
    }

    /// Returns true if no caller can read it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.entry.stage.is_discarded() || self.entry.stage.is_reclaimed()
    }

    /// Returns the number of events that it wrote itself.
    pub(crate) fn own_events(&self) -> u64 {
        self.entry.tail.saturating_sub(self.entry.base().0)
    }
}

/// Progress of reading a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadPlace {
    /// Number of parts that were read.
    pub(crate) parts: usize,
    /// Number and position after the records that were read.
    pub(crate) next: Lsn,
    pub(crate) position: Position,
}

/// Some frames of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionPart {
    /// Frames in plaintext, of requests or blocks.
    pub(crate) frames: Vec<Frame>,
    /// Faults of bytes that were no frame.
    pub(crate) faults: Vec<String>,
    /// Batches of which an event was redacted, and the time of each: frames do not have their keys.
    pub(crate) batches: Vec<(Timestamp, KnownBatch)>,
}

/// Records with their numbers, and batches without digest.
pub(crate) type RecordsAndBatches = (Vec<(Lsn, Record)>, Vec<(Timestamp, KnownBatch)>);

/// Returns the records of a frame, without what was redacted, and the batches that this hides. A
/// frame that cannot be decoded has none: the walk over the chains reports it.
pub(crate) fn records_of(frame: &Frame, entry: &Entry) -> RecordsAndBatches {
    let mut records = frame.records().unwrap_or_default();
    let hidden = redact_records(frame.header.first_position, &mut records, &entry.redacted);
    (records, hidden)
}
