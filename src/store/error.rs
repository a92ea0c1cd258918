//! Failures below the verbs, as facts. It must not hold a text for a client: service words the
//! message and the hint.

use std::io;

use futures_util::future::BoxFuture;

use crate::{
    env::Short,
    event::{EventId, Position, Range, SessionId},
};

use super::Gap;

/// Result of a store's method.
pub type StoreResult<T> = Result<T, StoreError>;

/// Future of an operation of the store.
pub type StoreFuture<'a, T> = BoxFuture<'a, StoreResult<T>>;

/// Reason for which a store refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such session in the scope.
    #[error("session \"{session}\" not found")]
    SessionNotFound {
        /// The session asked for.
        session: SessionId,
    },
    /// The id is taken.
    #[error("session {session} exists")]
    SessionExists {
        /// The session asked for.
        session: SessionId,
    },
    /// It was deleted and its grace has not ended.
    #[error("session {session} was deleted{}", restore_hint(*.restorable))]
    SessionDeleted {
        /// The session asked for.
        session: SessionId,
        /// True if it can be restored until then.
        restorable: bool,
    },
    /// It was idle for too long; it can be restored.
    #[error("session {session} has expired: it was idle for too long")]
    SessionExpired {
        /// The session asked for.
        session: SessionId,
    },
    /// A person holds it: it is not deleted.
    #[error("session {session} is held")]
    SessionHeld {
        /// The session asked for.
        session: SessionId,
    },
    /// It was archived: it can be read, not written.
    #[error("session {session} is archived")]
    SessionArchived {
        /// The session asked for.
        session: SessionId,
    },
    /// A precondition named another position than the next one.
    #[error("the next position is {tail}, not {expected}")]
    PositionConflict {
        /// Tail that the client expected.
        expected: Position,
        /// The position the next event will get.
        tail: Position,
    },
    /// A precondition named another number of notes than there are.
    #[error("the session has {notes} notes, not {expected}")]
    NotesConflict {
        /// Number of notes that the client expected.
        expected: u64,
        /// Number of notes there are.
        notes: u64,
    },
    /// Another harness has the session, and no token came with the write.
    #[error("session {session} is leased to another for up to {seconds} s")]
    LeaseHeld {
        /// The session.
        session: SessionId,
        /// When the lease ends unless it is renewed.
        seconds: u64,
    },
    /// The token is not that of a lease that holds.
    #[error("the lease of session {session} is lost: its time ran out, or another took it")]
    LeaseLost {
        /// The session.
        session: SessionId,
    },
    /// A known event id or batch key came with other content, or a batch is half known.
    #[error("{what} is known with other content")]
    IdempotencyConflict {
        /// The event id or batch key.
        what: String,
        /// Position of the known event, when it is an event.
        position: Option<Position>,
    },
    /// Some events of a batch are known by their ids and some are not.
    #[error("the batch is known in part: event {known} is at position {position}")]
    KnownInPart {
        /// The first event that is known.
        known: EventId,
        /// Its position.
        position: Position,
    },
    /// The same event id twice in one batch.
    #[error("event id {id} comes twice in one batch")]
    DuplicateEventId {
        /// The id.
        id: EventId,
    },
    /// The batch is larger than one frame may be.
    #[error("the batch has {bytes} bytes as stored; {max} are allowed")]
    BatchTooLarge {
        /// Bytes of the encoded batch.
        bytes: usize,
        /// Bytes a frame may have.
        max: usize,
    },
    /// Acknowledged bytes of this session are damaged.
    #[error("session {session} is damaged in {} place(s)", gaps.len())]
    SessionDamaged {
        /// The session.
        session: SessionId,
        /// The missing positions.
        gaps: Vec<Gap>,
        /// The tail.
        tail: Position,
    },
    /// Positions of a fork whose writer was erased.
    #[error("positions {range} of session {session} were written by one that was erased")]
    PrefixErased {
        /// The fork.
        session: SessionId,
        /// Positions that can no longer be read, of those that were asked for.
        range: Range,
    },
    /// The journal's sync failed: the append may or may not survive a restart.
    #[error("the append's outcome is unknown: {reason}")]
    OutcomeUnknown {
        /// Error of the storage.
        reason: String,
    },
    /// It has no keys: it was made without one.
    #[error("the store is in plaintext: it has no keys")]
    Plaintext,
    /// The store takes no writes, and why.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// Cause of the refusal.
        reason: String,
    },
    /// As much as may wait to be stored waits; nothing of the append was kept.
    #[error("too much waits to be stored")]
    Busy,
    /// The engine keeps its bytes elsewhere, and that place does not answer; nothing was written.
    /// A commit that may have been written is [`Self::OutcomeUnknown`].
    #[error("the storage cannot be reached: {reason}")]
    Unreachable {
        /// Error of the connection.
        reason: String,
    },
    /// No space or no inode is left, or a file may not grow; nothing of the append was kept.
    #[error("{}", full(*.0))]
    DiskFull(Short),
    /// It is accepted and holds; bytes that it takes away are left in the storage.
    #[error(
        "the {what} is accepted and not finished, bytes are left in the storage: {doing}: {source}"
    )]
    Unfinished {
        /// Kind of request that was accepted.
        what: &'static str,
        /// The step that failed.
        doing: &'static str,
        /// Error of the storage.
        source: io::Error,
    },
    /// A session is gone, or something of it was taken away, since a derived file was made from it.
    #[error("session {session} is not what it was when it was read: read it again")]
    Outdated {
        /// The session.
        session: SessionId,
    },
    /// A derived file is not there, or not what was put.
    #[error("a derived file is lost: {reason}")]
    DerivedLost {
        /// The finding, for a person.
        reason: String,
    },
    /// More than the store keeps together.
    #[error("too many {what}: {max} are allowed")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// Maximum allowed.
        max: usize,
    },
    /// This engine has no such thing.
    #[error("this engine does not offer {what}")]
    NotOffered {
        /// The operation asked for.
        what: &'static str,
    },
    /// Reading or writing failed in another way; nothing of an append was kept.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// Error of the storage.
        source: io::Error,
    },
}

/// Message for full storage.
fn full(short: Short) -> &'static str {
    match short {
        Short::Space => "the storage is full, or a limit of file sizes is met",
        Short::Inodes => "the storage is full: no inode is free",
    }
}

/// Part of the message about a deletion that says if it can be undone.
fn restore_hint(restorable: bool) -> &'static str {
    if restorable { "; it can be restored until its grace ends" } else { "" }
}
