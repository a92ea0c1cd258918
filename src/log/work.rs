//! Records of notes and leases of a session, and their summary in an entry. It must not interpret
//! the content of a note.

use bincode::{Decode, Encode};

use super::encoding::{decode_value, encode_value};
use crate::event::NoteKind;

/// Record of a note. Frozen: another layout gets another kind of record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NoteRecord {
    /// Ordinal of the note's kind, see [`Self::ordinal`].
    pub(crate) kind: u8,
    /// Position that the note names.
    pub(crate) position: u64,
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
    /// True if the store wrote it without a request of a caller.
    pub(crate) idle: bool,
}

impl NoteRecord {
    /// Returns the kind of the note; `None` for a kind of a later version, which is ignored here.
    #[must_use]
    pub fn kind(&self) -> Option<NoteKind> {
        Some(match self.kind {
            1 => NoteKind::Cursor,
            2 => NoteKind::Checkpoint,
            3 => NoteKind::Final,
            _ => return None,
        })
    }

    /// Returns the ordinal of a kind of note, as stored on disk.
    #[must_use]
    pub fn ordinal(kind: NoteKind) -> u8 {
        match kind {
            NoteKind::Cursor => 1,
            NoteKind::Checkpoint => 2,
            NoteKind::Final => 3,
        }
    }
}

/// Record of a lease that was granted, renewed or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRecord {
    /// Fencing token of the lease.
    pub(crate) fence: u64,
    /// Expiry, by the store's count of time; `None` once the lease was released.
    pub(crate) until: Option<i64>,
    /// Digest of the idempotency key of the request that acquired the lease.
    pub(crate) key: Option<[u8; 16]>,
}

/// Summary of a session's notes and leases, as stored in its entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct WorkSummary {
    /// Fencing token of the last lease; 0 if there was none.
    pub(crate) fence: u64,
    /// Expiry of the last lease, by the store's count of time; `None` once it was released.
    pub(crate) until: Option<i64>,
    /// Digest of the idempotency key of the request that acquired the lease.
    pub(crate) key: Option<[u8; 16]>,
    /// Number of notes.
    pub(crate) notes: u64,
    /// Last checkpoint, if any: of those with the highest position the latest.
    pub(crate) checkpoint: Option<CheckpointMark>,
}

/// Last checkpoint of a session, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct CheckpointMark {
    /// Log sequence number of the checkpoint's record.
    pub(crate) lsn: u64,
    /// Position that the checkpoint names.
    pub(crate) position: u64,
    /// True if the last checkpoint of a caller was not final; the store's checkpoints do not count.
    pub(crate) open: bool,
}

impl WorkSummary {
    /// Encodes the summary.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_value(self, &mut bytes);
        bytes
    }

    /// Decodes a summary; `None` if it is damaged.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        decode_value(bytes)
    }

    /// Adds a note whose record has the log sequence number `lsn`. A checkpoint of an earlier
    /// position than the last one names a point of the past: it begins and ends no work.
    pub fn record_note(&mut self, lsn: u64, note: &NoteRecord) {
        self.notes += 1;
        let is_past = self.checkpoint.is_some_and(|mark| note.position < mark.position);
        if let Some(kind) = note.kind().filter(|kind| kind.is_checkpoint() && !is_past) {
            let before = self.checkpoint.is_some_and(|mark| mark.open);
            let open = if note.idle { before } else { kind != NoteKind::Final };
            self.checkpoint = Some(CheckpointMark { lsn, position: note.position, open });
        }
    }

    /// Replaces the last lease.
    pub fn record_lease(&mut self, lease: LeaseRecord) {
        self.fence = self.fence.max(lease.fence);
        (self.until, self.key) = (lease.until, lease.key);
    }
}
