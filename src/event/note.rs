//! Notes: records about a position that take no position themselves, so no event's position
//! changes. And the fencing token of a lease. It must not parse a note's body.

use std::fmt;

use bytes::Bytes;

use super::{Lsn, Position, Timestamp};

/// Kind of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// A position where a reader continues. The last note of a name counts; one with an empty body
    /// removes the cursor.
    Cursor,
    /// A position to resume from.
    Checkpoint,
    /// A position to resume from, with the work completed.
    Final,
}

impl NoteKind {
    /// Returns true for a checkpoint, final or not.
    #[must_use]
    pub fn is_checkpoint(self) -> bool {
        self != Self::Cursor
    }
}

/// A note to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNote {
    /// Kind of the note.
    pub kind: NoteKind,
    /// Name: at most as long as an event's id.
    pub name: String,
    /// Position; `None` for the tail after the events of its batch.
    pub position: Option<Position>,
    /// Content that the client gave.
    pub body: Bytes,
    /// True if the server wrote the note without a request: without events in its batch it does
    /// not reset the session's idle time and needs no lease.
    pub idle: bool,
    /// Number of notes the session must have before this one; otherwise it is rejected.
    pub if_notes: Option<u64>,
}

/// A note as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Log sequence number: a later note has a higher one.
    pub number: Lsn,
    /// Kind of the note.
    pub kind: NoteKind,
    /// Name of the cursor or label of the checkpoint.
    pub name: String,
    /// Position that the note names.
    pub position: Position,
    /// Time at which the store accepted the note.
    pub at: Timestamp,
    /// Content that the client gave.
    pub body: Bytes,
}

/// The fencing token of a lease; a later lease of the session has a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
