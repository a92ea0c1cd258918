//! ALL SESSIONS: the trait every engine implements, and the values that cross it. One conformance
//! suite (tests/it/store.rs) runs against every implementation. It must not parse a body.

#[cfg(feature = "nodes")]
mod base;
pub mod derived;
mod error;
mod keys;
pub mod lifetime;
mod listing;
pub mod local;
mod maintain;
#[cfg(feature = "cli")]
pub(crate) mod migrate;
#[cfg(feature = "nodes")]
pub mod remote;
mod rules;
mod values;

use std::io;

use futures_util::future::BoxFuture;

pub use derived::{
    ChangedSession, ChangedSessions, ChangesSeen, Derived, DerivedFile, DerivedName, HeldEvents,
    Mapped,
};
pub use error::{StoreError, StoreFuture, StoreResult};
pub use keys::{KeyProblem, key_ids};
pub use listing::{
    BEGAN_KEY, Criterion, ENDED_KEY, Listing, ListingKey, ListingOrder, ListingPage,
    ListingPageBuilder, TAIL_KEY, is_hex_id,
};
pub use maintain::Maintain;
pub use rules::Lifetimes;
pub use values::{
    AppendResult, BackupInfo, ChainReceipt, ExpiringSession, Family, FilePart, FillDirection,
    ForkPoint, Health, KeepReason, KeyReport, LastCheckpoint, LeaseCall, LiveNode, NewSession,
    NotesQuery, PlacedEvent, ReadRequest, ReceiptState, Recovery, RelatedSession, RepairResult,
    ScrubResult, SessionGap, SessionInfo, SessionLease, SessionUpdate, Sharing, Slice, Stage,
    Survival, SweepResult, TenantUsage, VerifyResult, Watch, WorkState,
};

pub use crate::event::KeyId;
use crate::event::{
    Batch, EventId, Fence, NewNote, Note, Position, Scope, SessionId, SessionKey, TenantId,
    Timestamp, UserId,
};
use crate::log::keyring::NameKey;

/// An engine that stores sessions. Every result rests on durable bytes only. A session of another
/// scope is not found: unknown and foreign are the same to every method. Where an engine keeps its
/// bytes on another host, every fallible method may return [`StoreError::Unreachable`].
pub trait Store: Maintain + Derived {
    /// Creates a session, with its first events, all or nothing. With a parent it is a fork: it
    /// shares the parent's events below that position without a copy, and inherits no batch keys.
    ///
    /// # Errors
    /// [`StoreError::SessionExists`], [`StoreError::SessionDeleted`], and those of
    /// [`Self::append`]; those of [`Self::read`] for the parent, and
    /// [`StoreError::PositionConflict`] for a position that it does not have yet.
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> StoreFuture<'a, (SessionInfo, AppendResult)>;

    /// Appends a batch, all or nothing. Order of checks: idempotency, lease, precondition, limits.
    ///
    /// # Errors
    /// Any [`StoreError`]; after `OutcomeUnknown` a retry with the same ids or key is safe.
    fn append<'a>(&'a self, key: &'a SessionKey, batch: Batch) -> StoreFuture<'a, AppendResult>;

    /// Changes the properties of a session.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: SessionUpdate,
    ) -> StoreFuture<'a, SessionInfo>;

    /// Returns the description of a session.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], [`StoreError::SessionDeleted`].
    fn info<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo>;

    /// Returns the workspace of a session, even of a deleted or expired one; `None` if it has none,
    /// or the session does not exist.
    ///
    /// # Errors
    /// Errors of the engine.
    fn workspace<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<String>>;

    /// Returns the description of a session for a caller that uses it: its idle time starts again.
    /// A listing or a verification does not use it, and does not call this.
    /// # Errors
    /// Errors of [`Self::info`], and [`StoreError::SessionExpired`].
    fn use_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo>;

    /// Returns up to `limit` of a session's ancestors, and of its forks.
    ///
    /// # Errors
    /// Errors of [`Self::info`].
    fn family<'a>(&'a self, key: &'a SessionKey, limit: usize) -> StoreFuture<'a, Family>;

    /// Returns a page of the sessions of a scope, without opening one. It yields to other tasks,
    /// regardless of the number of sessions. A page with [`Listing::only`] may have fewer sessions
    /// than its limit, or none, and be followed by another.
    ///
    /// # Errors
    /// Errors of the engine.
    fn list<'a>(&'a self, scope: &'a Scope, listing: Listing) -> StoreFuture<'a, ListingPage>;

    /// Stores a note of a session durably. One that a caller requested needs the token of the
    /// lease, unless it is a cursor.
    ///
    /// # Errors
    /// Errors of [`Self::append`].
    fn write_note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreFuture<'a, SessionInfo>;

    /// Returns notes of a session, the oldest first; unreadable ones are omitted.
    ///
    /// # Errors
    /// Errors of [`Self::read`], except damage.
    fn notes<'a>(&'a self, key: &'a SessionKey, wanted: NotesQuery) -> StoreFuture<'a, Vec<Note>>;

    /// Takes, renews or releases the lease of a session; the result is durable.
    ///
    /// # Errors
    /// [`StoreError::LeaseHeld`], [`StoreError::LeaseLost`], and those of [`Self::append`].
    fn lease<'a>(
        &'a self,
        key: &'a SessionKey,
        call: LeaseCall,
    ) -> StoreFuture<'a, (SessionLease, SessionInfo)>;

    /// Returns up to `limit` sessions of a scope on which a caller began work and did not finish
    /// it, the last written first.
    ///
    /// # Errors
    /// Errors of the engine.
    fn list_unfinished<'a>(
        &'a self,
        scope: &'a Scope,
        workspace: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionInfo>>;

    /// Returns up to `limit` sessions of all scopes with events after their last checkpoint that
    /// were written to at or after `since`.
    ///
    /// # Errors
    /// Errors of the engine.
    fn list_unmarked(&self, since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<SessionKey>>;

    /// Reads a slice of a session, never past the durable point.
    ///
    /// # Errors
    /// [`StoreError::SessionDamaged`] with the missing positions, and [`StoreError::PrefixErased`]
    /// with the erased positions of a fork's ancestors, unless the read allows gaps.
    fn read<'a>(&'a self, key: &'a SessionKey, read: ReadRequest) -> StoreFuture<'a, Slice>;

    /// Returns the position of the event with that id.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>>;

    /// Returns the position of the first event processed at or after `time`, else the tail.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    fn find_time<'a>(&'a self, key: &'a SessionKey, time: Timestamp) -> StoreFuture<'a, Position>;

    /// Returns a watch on the durable tail of a session.
    ///
    /// # Errors
    /// Errors of [`Self::info`].
    fn watch<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Watch>;

    /// Reads every frame of one session, or of all of a scope, and checks checksums and chains.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`]; damage is a result, not an error.
    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, VerifyResult>;

    /// Runs [`Self::verify`] on one session, and compares its state with an earlier receipt.
    ///
    /// # Errors
    /// Errors of [`Self::verify`].
    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: ChainReceipt,
    ) -> StoreFuture<'a, (VerifyResult, ReceiptState)>;

    /// Makes a session unreadable for good, even if files still hold its bytes, unlike a deletion,
    /// which hides it. Its id returns [`StoreError::SessionDeleted`] until the grace of a deletion
    /// ends. Its forks keep their own events: see [`Self::family`] before.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], [`StoreError::SessionHeld`], and those of an append. After
    /// an error it may be erased or not; a retry erases it.
    fn erase<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()>;

    /// Removes the body of an event for good: no file has it on return, and it is never served
    /// again, even after a restore of older files. Position, id, type, times and chain stay.
    /// Returns the position of the event; `None` when the session has none of that id.
    ///
    /// # Errors
    /// Errors of [`Self::read`], [`StoreError::SessionHeld`], and those of an append. After an
    /// error the body may be left in a file, and is not served once the redaction is durable; a
    /// retry removes it.
    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>>;

    /// Returns a hash of content that only this store can compute, for names derived from content:
    /// always the same, also after a restore from a backup, and useless for testing a guess.
    fn name_hash(&self, content: &[u8]) -> [u8; 32] {
        NameKey::default().hash(content)
    }

    /// Returns the lifetimes of sessions in this store.
    fn lifetimes(&self) -> Lifetimes;

    /// Returns the time that idleness is measured by: wall time without clock jumps.
    fn counted_time(&self) -> Timestamp;

    /// Expires sessions that were not used for too long, and removes the files of those whose grace
    /// has ended: a bounded number in each round, which continues where the previous one stopped.
    ///
    /// # Errors
    /// Errors of the engine; files that could not be removed stay for the next round.
    fn sweep(&self) -> StoreFuture<'_, SweepResult>;

    /// Returns up to `limit` sessions of a scope with a known end, the soonest first. Changes
    /// nothing.
    ///
    /// # Errors
    /// Errors of the engine.
    fn list_aging<'a>(
        &'a self,
        scope: &'a Scope,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ExpiringSession>>;

    /// Returns the usage of a tenant, counted session by session, without that of one user.
    ///
    /// # Errors
    /// Errors of the engine.
    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> StoreFuture<'a, TenantUsage>;

    /// Returns the current health of the store.
    fn health(&self) -> Health;

    /// Returns the database and its nodes, if other processes may write to the store, too.
    fn shared(&self) -> Option<Sharing> {
        None
    }

    /// Runs `make`, which creates a file next to those of the store. While that fails for lack of
    /// space it is run again with a part of the space that the store reserves; the remainder is
    /// reserved again.
    ///
    /// # Errors
    /// The last error of `make`.
    fn with_reserved_space(&self, make: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        make()
    }

    /// Flushes everything and marks a clean stop. Later appends fail.
    fn close(&self) -> BoxFuture<'_, ()>;
}
