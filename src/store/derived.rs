//! Derived files: bytes that a caller made from events and that may be lost, kept by the engine
//! beside the sessions, and what such a caller follows: which sessions changed. It must not look
//! inside the bytes, nor answer an erasure or a redaction while a file holds what is to go.

use std::{collections::BTreeSet, fmt, sync::Arc};

use futures_util::FutureExt;
use tokio::sync::watch;

use super::{StoreError, StoreFuture, StoreResult, Survival};
pub use crate::env::Mapped;
use crate::event::{Position, Range, SessionHash, SessionKey, Timestamp};

/// Bytes of a label at most.
pub const LABEL_BYTES_MAX: usize = 4096;
/// Sessions that one derived file may hold events of.
pub const HELD_MAX: usize = 65_536;
/// Bytes of a derived file at most.
pub const DERIVED_BYTES_MAX: usize = 256 << 20;

/// Names a derived file; random, and given once.
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
    /// The session that wrote them.
    pub key: SessionKey,
    /// Id of the session itself; another one may have its name later.
    pub hash: SessionHash,
    /// Their positions.
    pub range: Range,
    /// [`Moved::rewritten`] as it was before they were read.
    pub rewritten: u64,
}

impl HeldEvents {
    /// True if it holds events of a session, at one of `positions` where they are named.
    #[must_use]
    pub fn is_of(&self, session: SessionHash, positions: Option<&BTreeSet<u64>>) -> bool {
        let (from, to) = (self.range.from.0, self.range.to.0);
        let any = |positions: &BTreeSet<u64>| positions.range(from..to).next().is_some();
        self.hash == session && positions.is_none_or(any)
    }
}

/// A derived file that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedFile {
    /// Its name.
    pub name: DerivedName,
    /// Name that the caller gave it.
    pub label: Arc<[u8]>,
    /// Events it was made from.
    pub holds: Arc<[HeldEvents]>,
    /// Bytes of it, those of the label and of what it holds left out.
    pub bytes: u64,
}

/// Place of a caller in the changes of sessions; the default is "before all". It is void after a
/// restart of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// The count of changes that `number` belongs to; 0 is none.
    pub(super) epoch: u64,
    /// The last change that was handed out.
    pub(super) number: u64,
    /// The last evicted session that was handed out, while all of them are.
    pub(super) walked: Walked,
}

impl Since {
    /// The last change that was handed out, in the count of the engine.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The same, once the changes up to that one are handed out.
    #[must_use]
    pub fn to(self, number: u64) -> Self {
        Self { number, ..self }
    }
}

/// Progress of the walk over all sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Walked {
    #[default]
    Begins,
    To(SessionKey),
    Ended,
}

/// A session that changed: events came, something of it was taken away, or its stage is another.
/// One that did not change may be handed out, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its name.
    pub key: SessionKey,
    /// Id of the session itself.
    pub hash: SessionHash,
    /// Its first own position: what is below is its parent's.
    pub base: Position,
    /// The session that it is a fork of.
    pub parent: Option<SessionHash>,
    /// The position of its next event; everything below is durable.
    pub tail: Position,
    /// When it was created.
    pub created_at: Timestamp,
    /// [`super::SessionInfo::rewritten`].
    pub rewritten: u64,
    /// Its workspace.
    pub workspace: Option<String>,
    /// True if it is archived.
    pub is_archived: bool,
    /// State of its deletion.
    pub survival: Survival,
    /// True if it has damage that was not accepted.
    pub is_damaged: bool,
}

/// Answer to [`Derived::moved`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// The sessions, each as it is now.
    pub sessions: Vec<Moved>,
    /// Argument of the next call, once these are processed.
    pub since: Since,
    /// Call again at once if true; else wait for [`Derived::moved_watch`].
    pub more: bool,
}

/// Derived files of a store. What an engine does not override answers
/// [`StoreError::NotOffered`].
pub trait Derived: Send + Sync {
    /// The derived files that are there, by their names.
    ///
    /// # Errors
    /// [`StoreError::NotOffered`].
    fn derived(&self) -> StoreResult<Vec<DerivedFile>> {
        Err(not_offered())
    }

    /// Keeps bytes that were made from the events of these sessions: durable when it answers, whole
    /// or absent after a crash.
    ///
    /// # Errors
    /// [`StoreError::Outdated`] when a session is gone, or something of it was taken away since it
    /// was read; [`StoreError::TooMuch`], [`StoreError::ReadOnly`], [`StoreError::DiskFull`],
    /// [`StoreError::Io`]: nothing was kept, unless it is listed after a start.
    fn put_derived<'a>(
        &'a self,
        label: &'a [u8],
        holds: Vec<HeldEvents>,
        bytes: &'a [u8],
    ) -> StoreFuture<'a, DerivedName> {
        let _ = (label, holds, bytes);
        async { Err(not_offered()) }.boxed()
    }

    /// Opens a derived file, checked as a whole. It may read all of the file: call it where waiting
    /// for the disk is allowed. An erasure and a redaction wait for the answer to be dropped: hold
    /// it while you compute, not across an `await`, nor across another call of the store, and drop
    /// it within milliseconds once it [is hurt](Mapped::is_hurt): it is opened anew then, or is
    /// lost and made anew.
    ///
    /// # Errors
    /// [`StoreError::DerivedLost`] when it is gone or not what was put: then it goes, too.
    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        let _ = name;
        Err(not_offered())
    }

    /// Takes a derived file away; one that is gone is success. Its bytes are in no file then, but
    /// where it is open: then they go after the last reader, with a later flush, erasure or
    /// start.
    ///
    /// # Errors
    /// [`StoreError::Io`]: it is not there any more, and bytes of it may be left until a later
    /// erasure, flush or start.
    fn drop_derived(&self, name: DerivedName) -> StoreFuture<'_, ()> {
        let _ = name;
        async { Err(not_offered()) }.boxed()
    }

    /// Up to `limit` of the sessions of all scopes that changed since: all of them at first and
    /// when the engine lost count, else those that did. Asked again with the same mark, it hands
    /// out at least the same sessions. One caller follows a store.
    ///
    /// # Errors
    /// [`StoreError::NotOffered`].
    fn moved(&self, since: Since, limit: usize) -> StoreFuture<'_, Moves> {
        let _ = (since, limit);
        async { Err(not_offered()) }.boxed()
    }

    /// Changes when a session does that the caller of [`Self::moved`] has not been handed since.
    fn moved_watch(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}

fn not_offered() -> StoreError {
    StoreError::NotOffered { what: "derived files" }
}

/// Checks the sizes against the limits; for engines.
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
