//! Work on a session: the records of notes and leases, and the summary of them in an entry. It must
//! not know what a note is for.

use bincode::{Decode, Encode};

use crate::event::NoteKind;

/// A note. Frozen: another shape is another kind of record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NoteRecord {
    /// The ordinal of its kind.
    pub(crate) kind: u8,
    /// The place it is about.
    pub(crate) position: u64,
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
    /// No caller asked for it.
    pub(crate) idle: bool,
}

impl NoteRecord {
    /// Kind of the note; `None` for a kind of a later version, which is ignored here.
    #[must_use]
    pub fn kind(&self) -> Option<NoteKind> {
        Some(match self.kind {
            1 => NoteKind::Cursor,
            2 => NoteKind::Checkpoint,
            3 => NoteKind::Final,
            _ => return None,
        })
    }

    /// The ordinals are on disk.
    #[must_use]
    pub fn ordinal(kind: NoteKind) -> u8 {
        match kind {
            NoteKind::Cursor => 1,
            NoteKind::Checkpoint => 2,
            NoteKind::Final => 3,
        }
    }
}

/// A lease that was given, renewed or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRecord {
    /// Its fencing token.
    pub(crate) fence: u64,
    /// When it ends, by the store's count of time; `None` once it was given back.
    pub(crate) until: Option<i64>,
    /// Digest of the key of the request that took it.
    pub(crate) key: Option<[u8; 16]>,
}

/// Summary in an entry of the work on its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct WorkSummary {
    /// The last lease's token; 0 when there was none.
    pub(crate) fence: u64,
    /// When the last lease ends, by the store's count of time; `None` once it was given back.
    pub(crate) until: Option<i64>,
    /// Digest of the key of the request that took it.
    pub(crate) key: Option<[u8; 16]>,
    /// Number of its notes.
    pub(crate) notes: u64,
    /// The last checkpoint.
    pub(crate) checkpoint: Option<CheckpointMark>,
}

/// The last checkpoint of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct CheckpointMark {
    /// Number of its record.
    pub(crate) lsn: u64,
    /// The place it names.
    pub(crate) position: u64,
    /// True if the work continues, as the caller of the last one said; the store's own say nothing.
    pub(crate) open: bool,
}

impl WorkSummary {
    /// Folds a note whose record has that number.
    pub fn note(&mut self, lsn: u64, note: &NoteRecord) {
        self.notes += 1;
        if let Some(kind) = note.kind().filter(|kind| kind.is_checkpoint()) {
            let before = self.checkpoint.is_some_and(|mark| mark.open);
            let open = if note.idle { before } else { kind != NoteKind::Final };
            self.checkpoint = Some(CheckpointMark { lsn, position: note.position, open });
        }
    }

    /// Folds a lease.
    pub fn lease(&mut self, lease: LeaseRecord) {
        self.fence = self.fence.max(lease.fence);
        (self.until, self.key) = (lease.until, lease.key);
    }
}
