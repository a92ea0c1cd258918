//! Errors below the verbs, as facts. It must not hold a text for a client: service writes the
//! message and the hint.

use std::io;

use futures_util::future::BoxFuture;

use crate::{
    env::DiskShortage,
    event::{EventId, Position, Range, SessionId},
};

use super::{KeyProblem, SessionGap};

/// Result of a method of a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Future of a method of a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, StoreResult<T>>;

/// Reason for which a store rejected a request or failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The scope has no such session.
    #[error("session \"{session}\" not found")]
    SessionNotFound {
        /// Id of the requested session.
        session: SessionId,
    },
    /// The session id is already in use.
    #[error("session {session} exists")]
    SessionExists {
        /// Id of the requested session.
        session: SessionId,
    },
    /// The session was deleted and its grace has not ended.
    #[error("session {session} was deleted{}", restore_hint(*.restorable))]
    SessionDeleted {
        /// Id of the requested session.
        session: SessionId,
        /// True if it can still be restored.
        restorable: bool,
    },
    /// The session was idle for too long; it can be restored.
    #[error("session {session} has expired: it was idle for too long")]
    SessionExpired {
        /// Id of the requested session.
        session: SessionId,
    },
    /// An operator holds the session: it cannot be deleted.
    #[error("session {session} is held")]
    SessionHeld {
        /// Id of the requested session.
        session: SessionId,
    },
    /// The session is archived: it can be read, not written.
    #[error("session {session} is archived")]
    SessionArchived {
        /// Id of the requested session.
        session: SessionId,
    },
    /// The expected position of a request is not the tail.
    #[error("the next position is {tail}, not {expected}")]
    PositionConflict {
        /// Tail that the client expected.
        expected: Position,
        /// Current tail.
        tail: Position,
    },
    /// The expected number of notes of a request is not the current one.
    #[error("the session has {notes} notes, not {expected}")]
    NotesConflict {
        /// Number of notes that the client expected.
        expected: u64,
        /// Current number of notes.
        notes: u64,
    },
    /// Another writer has the lease of the session, and the write carried no token.
    #[error("session {session} is leased to another for up to {seconds} s")]
    LeaseHeld {
        /// Id of the session.
        session: SessionId,
        /// Seconds until the lease ends unless it is renewed.
        seconds: u64,
    },
    /// The token is not that of the current lease.
    #[error("the lease of session {session} is lost: its time ran out, or another took it")]
    LeaseLost {
        /// Id of the session.
        session: SessionId,
    },
    /// A known event id or batch key was sent again with different content.
    #[error("{what} is known with other content")]
    IdempotencyConflict {
        /// The event id or batch key.
        what: String,
        /// Position of the known event, if it is an event.
        position: Option<Position>,
    },
    /// Some events of a batch are known by their ids and some are not.
    #[error("the batch is known in part: event {known} is at position {position}")]
    KnownInPart {
        /// The first event that is known.
        known: EventId,
        /// Position of that event.
        position: Position,
    },
    /// The same event id occurs twice in one batch.
    #[error("event id {id} comes twice in one batch")]
    DuplicateEventId {
        /// The repeated id.
        id: EventId,
    },
    /// The encoded batch exceeds the size of a frame.
    #[error("the batch has {bytes} bytes as stored; {max} are allowed")]
    BatchTooLarge {
        /// Bytes of the encoded batch.
        bytes: usize,
        /// Maximum bytes of a frame.
        max: usize,
    },
    /// Acknowledged bytes of this session are damaged.
    #[error("session {session} is damaged in {} place(s)", gaps.len())]
    SessionDamaged {
        /// Id of the session.
        session: SessionId,
        /// The missing positions.
        gaps: Vec<SessionGap>,
        /// Tail of the session.
        tail: Position,
    },
    /// Some positions of a fork are unreadable, because their writer was erased.
    #[error("positions {range} of session {session} were written by one that was erased")]
    PrefixErased {
        /// Id of the fork.
        session: SessionId,
        /// Requested positions that can no longer be read.
        range: Range,
    },
    /// The journal's sync failed: the append may or may not survive a restart.
    #[error("the append's outcome is unknown: {reason}")]
    OutcomeUnknown {
        /// Error of the storage.
        reason: String,
    },
    /// The keys given are not those that the store needs; nothing was changed.
    #[error("{0}")]
    Key(#[from] KeyProblem),
    /// The store has no keys: it was created without one.
    #[error("the store is in plaintext: it has no keys")]
    Plaintext,
    /// The store accepts no writes.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// Cause of the rejection.
        reason: String,
    },
    /// The queue of the store is full; nothing of the append was stored.
    #[error("too much waits to be stored")]
    Busy,
    /// The engine keeps its bytes on another host that does not respond; nothing was written. A
    /// commit that may have been written is [`Self::OutcomeUnknown`].
    #[error("the storage cannot be reached: {reason}")]
    Unreachable {
        /// Error of the connection.
        reason: String,
    },
    /// No space or inode is left, or a file may not grow; nothing of the append was stored.
    #[error("{}", full_message(*.0))]
    DiskFull(DiskShortage),
    /// The request is accepted and durable; bytes that it removes are left in the storage.
    #[error(
        "the {what} is accepted and not finished, bytes are left in the storage: {doing}: {source}"
    )]
    Unfinished {
        /// Kind of the accepted request.
        what: &'static str,
        /// The step that failed.
        doing: &'static str,
        /// Error of the storage.
        source: io::Error,
    },
    /// A session is gone, or content of it was removed, since a derived file was made from it.
    #[error("session {session} is not what it was when it was read: read it again")]
    Outdated {
        /// Id of the session.
        session: SessionId,
    },
    /// A derived file is missing, or is not what was stored.
    #[error("a derived file is lost: {reason}")]
    DerivedLost {
        /// Description of the damage, for the operator.
        reason: String,
    },
    /// The request exceeds a limit of the store.
    #[error("too many {what}: {max} are allowed")]
    TooMuch {
        /// Kind of the limit.
        what: &'static str,
        /// Maximum number allowed.
        max: usize,
    },
    /// This engine does not support the operation.
    #[error("this engine does not offer {what}")]
    NotOffered {
        /// Name of the requested operation, for the message.
        what: &'static str,
    },
    /// Another read or write error; nothing of an append was stored.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// Error of the storage.
        source: io::Error,
    },
}

/// Returns the message for full storage.
fn full_message(short: DiskShortage) -> &'static str {
    match short {
        DiskShortage::Space => "the storage is full, or a limit of file sizes is met",
        DiskShortage::Inodes => "the storage is full: no inode is free",
    }
}

/// Returns the part of the message about a deletion that states whether it can be undone.
fn restore_hint(restorable: bool) -> &'static str {
    if restorable { "; it can be restored until its grace ends" } else { "" }
}
