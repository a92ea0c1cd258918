//! Derived files: bytes that a caller computed from events and that may be lost, kept by the engine
//! next to the sessions, and the changes of sessions that such a caller follows. It must not parse
//! the bytes, nor complete an erasure or a redaction while a file holds erased content.

use std::{collections::BTreeSet, fmt, sync::Arc};

use futures_util::FutureExt;
use tokio::sync::watch;

use super::{StoreError, StoreFuture, StoreResult, Survival};
pub use crate::env::Mapped;
use crate::event::{Position, Range, SessionHash, SessionKey, Timestamp};

/// Maximum bytes of a label.
pub const LABEL_BYTES_MAX: usize = 4096;
/// Maximum sessions whose events one derived file may hold.
pub const HELD_MAX: usize = 65_536;
/// Maximum bytes of a derived file.
pub const DERIVED_BYTES_MAX: usize = 256 << 20;

/// Name of a derived file: random, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DerivedName(pub u64);

impl fmt::Display for DerivedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Events of one session that a derived file was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldEvents {
    /// Scope and id of the session that wrote the events.
    pub key: SessionKey,
    /// Hash of the session; a later session with the same id has another hash.
    pub hash: SessionHash,
    /// Positions of the events.
    pub range: Range,
    /// Value of [`ChangedSession::rewritten`] before they were read.
    pub rewritten: u64,
}

impl HeldEvents {
    /// Returns true if it holds events of a session, at one of `positions` if these are given.
    #[must_use]
    pub fn holds_events_of(&self, session: SessionHash, positions: Option<&BTreeSet<u64>>) -> bool {
        let (from, to) = (self.range.from.0, self.range.to.0);
        let any = |positions: &BTreeSet<u64>| positions.range(from..to).next().is_some();
        self.hash == session && positions.is_none_or(any)
    }
}

/// An existing derived file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedFile {
    /// Random name, assigned by the store.
    pub name: DerivedName,
    /// Label that the caller assigned to it.
    pub label: Arc<[u8]>,
    /// Events that it was made from.
    pub holds: Arc<[HeldEvents]>,
    /// Bytes of its content, without the label and the list of held events.
    pub bytes: u64,
}

/// Progress of a caller in the changes of sessions; the default is before all of them. It is void
/// after a restart of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesSeen {
    /// The change count that `number` belongs to; 0 is none.
    pub(super) epoch: u64,
    /// The last change that was returned.
    pub(super) number: u64,
    /// The last evicted session that was returned during the first walk over all of them.
    pub(super) walked: WalkProgress,
}

impl ChangesSeen {
    /// Returns the number of the last change that was returned, as the engine counts them.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns this progress, advanced to the change with that number.
    #[must_use]
    pub fn with_number(self, number: u64) -> Self {
        Self { number, ..self }
    }
}

/// Progress of the first walk over all sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum WalkProgress {
    #[default]
    Begins,
    To(SessionKey),
    Ended,
}

/// A session that changed: events were added, content was removed, or its stage changed. A session
/// without a change may be returned as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSession {
    /// Scope and id of the session.
    pub key: SessionKey,
    /// Hash of the session; a later session with the same id has another hash.
    pub hash: SessionHash,
    /// First position that the session wrote itself: lower ones are its parent's.
    pub base: Position,
    /// The session that it is a fork of.
    pub parent: Option<SessionHash>,
    /// The position of its next event; everything below is durable.
    pub tail: Position,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// [`super::SessionInfo::rewritten`].
    pub rewritten: u64,
    /// Workspace of the session, if it has one.
    pub workspace: Option<String>,
    /// True if it is archived.
    pub is_archived: bool,
    /// State of its deletion.
    pub survival: Survival,
    /// True if it has damage that was not accepted.
    pub is_damaged: bool,
}

/// Result of [`Derived::list_changes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedSessions {
    /// The sessions, each in its current state.
    pub sessions: Vec<ChangedSession>,
    /// Progress for the next call, once these are processed.
    pub since: ChangesSeen,
    /// True if the next call returns more at once; else wait for [`Derived::watch_changes`].
    pub more: bool,
}

/// Derived files of a store. A method that an engine does not override returns
/// [`StoreError::NotOffered`].
pub trait Derived: Send + Sync {
    /// Returns the existing derived files, sorted by name.
    ///
    /// # Errors
    /// [`StoreError::NotOffered`].
    fn list_derived(&self) -> StoreResult<Vec<DerivedFile>> {
        Err(not_offered_error())
    }

    /// Stores bytes that were computed from the events of these sessions: durable on return, whole
    /// or absent after a crash.
    ///
    /// # Errors
    /// [`StoreError::Outdated`] when a session is gone, or content of it was removed since it was
    /// read; [`StoreError::TooMuch`], [`StoreError::ReadOnly`], [`StoreError::DiskFull`],
    /// [`StoreError::Io`]: the bytes were not stored, unless they are listed after a start.
    fn put_derived<'a>(
        &'a self,
        label: &'a [u8],
        holds: Vec<HeldEvents>,
        bytes: &'a [u8],
    ) -> StoreFuture<'a, DerivedName> {
        let _ = (label, holds, bytes);
        async { Err(not_offered_error()) }.boxed()
    }

    /// Opens a derived file after checking all of it. It may read the whole file: call it where
    /// blocking on the disk is allowed. An erasure and a redaction wait until the result is
    /// dropped: hold it while you compute, not across an `await`, nor across another call of the
    /// store, and drop it within milliseconds once [`Mapped::has_read_error`]: then it is
    /// opened again, or is lost and rebuilt.
    ///
    /// # Errors
    /// [`StoreError::DerivedLost`] when it is missing or is not what was stored: then it is
    /// removed.
    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        let _ = name;
        Err(not_offered_error())
    }

    /// Removes a derived file; an absent one is success. No file has its bytes afterwards, except
    /// while it is open: then they are removed after the last reader, with a later flush, erasure
    /// or start.
    ///
    /// # Errors
    /// [`StoreError::Io`]: it is removed, and some of its bytes may be left until a later erasure,
    /// flush or start.
    fn drop_derived(&self, name: DerivedName) -> StoreFuture<'_, ()> {
        let _ = name;
        async { Err(not_offered_error()) }.boxed()
    }

    /// Returns up to `limit` sessions of all scopes: at first, and after the engine lost count, any
    /// session, else those that changed after `since`. Called again with the same progress, it
    /// returns at least the same sessions. A store has one such caller.
    ///
    /// # Errors
    /// [`StoreError::NotOffered`].
    fn list_changes(&self, since: ChangesSeen, limit: usize) -> StoreFuture<'_, ChangedSessions> {
        let _ = (since, limit);
        async { Err(not_offered_error()) }.boxed()
    }

    /// Returns the number of removals of content, at any node, that this engine has learned of; the
    /// read of a session before the use of something cached brings the newest number. Constant in
    /// an engine whose removals all pass through this process.
    fn removal_count(&self) -> u64 {
        0
    }

    /// Returns a watch on [`Self::removal_count`], for a caller that keeps content of sessions.
    /// From now on a removal at any node waits until this caller confirms it, or is not finished.
    fn follow_removals(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Records that the caller of [`Self::follow_removals`] keeps nothing of what the first
    /// `removals` removals removed.
    fn confirm_removals(&self, removals: u64) {
        let _ = removals;
    }

    /// Returns a watch that fires when [`Self::list_changes`] has a changed session to return.
    fn watch_changes(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}

fn not_offered_error() -> StoreError {
    StoreError::NotOffered { what: "derived files" }
}

/// Checks the sizes against the limits, for implementations of [`Derived`].
///
/// # Errors
/// [`StoreError::TooMuch`].
pub fn check_size(label: &[u8], holds: &[HeldEvents], bytes: &[u8]) -> StoreResult<()> {
    let sizes = [
        ("bytes of a label", label.len(), LABEL_BYTES_MAX),
        ("sessions in a derived file", holds.len(), HELD_MAX),
        ("bytes of a derived file", bytes.len(), DERIVED_BYTES_MAX),
    ];
    let over = sizes.into_iter().find(|(_, has, max)| has > max);
    over.map_or(Ok(()), |(what, _, max)| Err(StoreError::TooMuch { what, max }))
}
