//! ALL SESSIONS: the trait every engine implements, and the values that cross it. One conformance
//! suite (tests/it/store.rs) runs against every implementation. It must not look inside a body.

pub mod derived;
mod error;
pub mod lifetime;
mod listing;
pub mod local;
mod maintain;
mod rules;
mod values;

use std::io;

use futures_util::future::BoxFuture;

pub use derived::{Derived, DerivedFile, DerivedName, HeldEvents, Mapped, Moved, Moves, Since};
pub use error::{StoreError, StoreFuture, StoreResult};
pub use listing::{
    BEGAN_KEY, Criterion, ENDED_KEY, Filling, Listed, Listing, ListingOrder, Place, TAIL_KEY,
};
pub use maintain::Maintain;
pub use rules::Lifetimes;
pub use values::{
    Aging, Appended, Backup, Change, Family, FilePart, Fill, ForkPoint, Gap, Head, Health, Keeps,
    KeyReport, LastCheckpoint, Lease, LeaseCall, NewSession, Notes, PlacedEvent, Read, Receipt,
    Recovery, Relative, Repaired, Scrub, SessionInfo, Slice, Stage, Survival, Swept, TenantUsage,
    Verified, Watch, Work,
};

pub use crate::event::KeyId;
use crate::event::{
    Batch, EventId, Fence, NewNote, Note, Position, Scope, SessionId, SessionKey, TenantId,
    Timestamp, UserId,
};
use crate::log::keyring::NameKey;

/// An engine that keeps sessions. Every answer rests on durable bytes only. A session of another
/// scope is not found: unknown and foreign are the same to every method. Where an engine
/// keeps its bytes elsewhere, all that can fail may answer [`StoreError::Unreachable`].
pub trait Store: Maintain + Derived {
    /// Creates a session, with its first events, all or nothing. With a parent it is a fork: it has
    /// the parent's events below that position without a copy of them, and no key of a batch.
    ///
    /// # Errors
    /// [`StoreError::SessionExists`], [`StoreError::SessionDeleted`], and those of
    /// [`Self::append`]; those of [`Self::read`] for the parent, and
    /// [`StoreError::PositionConflict`] for a position that it does not have yet.
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> StoreFuture<'a, (SessionInfo, Appended)>;

    /// Appends a batch, all or nothing. Order of checks: idempotency, lease, precondition, limits.
    ///
    /// # Errors
    /// Any [`StoreError`]; after `OutcomeUnknown` a retry with the same ids or key is safe.
    fn append<'a>(&'a self, key: &'a SessionKey, batch: Batch) -> StoreFuture<'a, Appended>;

    /// Changes what a session says about itself.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn change<'a>(&'a self, key: &'a SessionKey, change: Change) -> StoreFuture<'a, SessionInfo>;

    /// Description of a session.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], [`StoreError::SessionDeleted`].
    fn info<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo>;

    /// The workspace of a session, which may be deleted or expired; `None` where it has none, or
    /// there is no such session.
    ///
    /// # Errors
    /// Those of the engine.
    fn workspace<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<String>>;

    /// Description of a session for a caller that uses it: its idle time begins anew. A listing or
    /// a verification does not use it, and does not call this.
    ///
    /// # Errors
    /// Those of [`Self::info`], and [`StoreError::SessionExpired`].
    fn used<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo>;

    /// The sessions that one reads from and those that read from it, up to `limit` of each.
    ///
    /// # Errors
    /// Those of [`Self::info`].
    fn family<'a>(&'a self, key: &'a SessionKey, limit: usize) -> StoreFuture<'a, Family>;

    /// A page of the sessions of a scope, without opening one. Other tasks run meanwhile, however
    /// many sessions there are. A page with [`Listing::only`] may have fewer sessions than its
    /// limit, or none, and be followed by another.
    ///
    /// # Errors
    /// Those of the engine.
    fn list<'a>(&'a self, scope: &'a Scope, listing: Listing) -> StoreFuture<'a, Listed>;

    /// Keeps a note of a session; it is durable. One that a caller asked for needs the token of the
    /// lease, unless it is a cursor.
    ///
    /// # Errors
    /// Those of [`Self::append`].
    fn note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreFuture<'a, SessionInfo>;

    /// Notes of a session, the oldest first; those that cannot be read are left out.
    ///
    /// # Errors
    /// Those of [`Self::read`], damage aside.
    fn notes<'a>(&'a self, key: &'a SessionKey, wanted: Notes) -> StoreFuture<'a, Vec<Note>>;

    /// Takes, renews or gives back the lease of a session; what it answers is durable.
    ///
    /// # Errors
    /// [`StoreError::LeaseHeld`], [`StoreError::LeaseLost`], and those of [`Self::append`].
    fn lease<'a>(
        &'a self,
        key: &'a SessionKey,
        call: LeaseCall,
    ) -> StoreFuture<'a, (Lease, SessionInfo)>;

    /// Sessions of a scope on which a caller began to work and did not say that it is done, the
    /// one written to last first, up to `limit`.
    ///
    /// # Errors
    /// Those of the engine.
    fn unfinished<'a>(
        &'a self,
        scope: &'a Scope,
        workspace: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionInfo>>;

    /// Sessions of all scopes with events behind their last checkpoint that were written to at or
    /// after `since`, up to `limit`.
    ///
    /// # Errors
    /// Those of the engine.
    fn unmarked(&self, since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<SessionKey>>;

    /// A slice of a session, never past the durable point.
    ///
    /// # Errors
    /// [`StoreError::SessionDamaged`] names what is whole, and [`StoreError::PrefixErased`] what a
    /// fork cannot read of others, unless the read allows gaps.
    fn read<'a>(&'a self, key: &'a SessionKey, read: Read) -> StoreFuture<'a, Slice>;

    /// Position of the event of that id.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>>;

    /// Position of the first event processed at or after `time`; the tail when there is none.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    fn find_time<'a>(&'a self, key: &'a SessionKey, time: Timestamp) -> StoreFuture<'a, Position>;

    /// A watch on the durable tail of a session.
    ///
    /// # Errors
    /// Those of [`Self::info`].
    fn watch<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Watch>;

    /// Reads every frame of one session, or of all of a scope, and checks checksums and chains.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`]; damage is an answer, not an error.
    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, Verified>;

    /// [`Self::verify`] of one session, and its state compared with a receipt that was given
    /// before.
    ///
    /// # Errors
    /// Those of [`Self::verify`].
    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: Receipt,
    ) -> StoreFuture<'a, (Verified, Head)>;

    /// Makes a session unreadable for good, whatever files still hold: not what a deletion does,
    /// which hides it. Its id answers [`StoreError::SessionDeleted`] until the grace of a deletion
    /// ends. Its forks keep what they wrote themselves: see [`Self::family`] before.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], [`StoreError::SessionHeld`], and those of an append. After
    /// an error it may be erased or not; asked again, it is.
    fn erase<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()>;

    /// Takes the body of an event away for good: no file has it once this answers, and it is never
    /// served again, whatever is put back. Place, id, type, times and chain stay. Returns the
    /// position of the event; `None` when the session has none of that id.
    ///
    /// # Errors
    /// Those of [`Self::read`], [`StoreError::SessionHeld`], and those of an append. After an error
    /// the body may be left in a file, and is served no more once the redaction is durable; asked
    /// again, it is gone.
    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>>;

    /// A hash of content that only this store can make, for what it names after content: always the
    /// same, also once the store is restored from a backup, and of no use to test a guess with.
    fn name_hash(&self, content: &[u8]) -> [u8; 32] {
        NameKey::default().hash(content)
    }

    /// Lifetimes of sessions here.
    fn lifetimes(&self) -> Lifetimes;

    /// The time that idleness is measured by: wall time, but for what the clock jumped over.
    fn counted(&self) -> Timestamp;

    /// Lets sessions expire that were not used for too long, and removes what is left of those
    /// whose grace has ended: a bounded number in each round, which continues where the last one
    /// stopped.
    ///
    /// # Errors
    /// Those of the engine; what could not go stays for the next round.
    fn sweep(&self) -> StoreFuture<'_, Swept>;

    /// Sessions of a scope with an end in sight, the soonest first, up to `limit`. Changes nothing.
    ///
    /// # Errors
    /// Those of the engine.
    fn aging<'a>(&'a self, scope: &'a Scope, limit: usize) -> StoreFuture<'a, Vec<Aging>>;

    /// Usage of a tenant, counted session by session, without that of one user.
    ///
    /// # Errors
    /// Those of the engine.
    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> StoreFuture<'a, TenantUsage>;

    /// Current health of the store.
    fn health(&self) -> Health;

    /// Runs what makes a file beside those of the store. While that fails for want of room it is
    /// run again with a part of the room that the store keeps back; what is left over is kept back
    /// again.
    ///
    /// # Errors
    /// The last error of `make`.
    fn with_room(&self, make: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        make()
    }

    /// Makes everything durable where it belongs and marks a clean stop. Appends afterwards fail.
    fn close(&self) -> BoxFuture<'_, ()>;
}
