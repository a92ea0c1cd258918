//! A BASE: the database that several nodes of a store share. It keeps rows, frames and names of
//! sessions, and changes a row only if it still has the revision that the change was planned on. It
//! must not know a rule, nor look into a frame or an entry: `store::remote` decides.

#[cfg(feature = "tests")]
pub(super) mod memory;
#[cfg(feature = "postgres")]
pub(super) mod postgres;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::broadcast;

use super::TenantUsage;
use crate::{
    env::DiskShortage,
    event::{Lsn, Position, Range, Timestamp},
    log::{ChainValue, Fault},
};

/// Half of a hash: of the name of a session, a scope, an event id; or 128 random bits.
pub(crate) type Hash16 = [u8; 16];

/// Where a base keeps the slot of the store itself, instead of a `uid`: its id and its own key.
pub(crate) const STORE_SLOT: Hash16 = [0; 16];

/// Future of a method of a base.
pub(crate) type BaseFuture<'a, T> = BoxFuture<'a, Result<T, BaseError>>;

/// Error of a base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BaseError {
    /// No connection: nothing was written.
    #[error("{0}")]
    Unreachable(String),
    /// The connection was lost, or the wait ended, after the statement was sent: it may have been
    /// committed, and may be committed later.
    #[error("{0}")]
    Unsure(String),
    /// The base refused the statement for now: nothing was written.
    #[error("{0}")]
    Busy(String),
    /// The storage of the base is full: nothing was written.
    #[error("the storage of the base is full")]
    Full(DiskShortage),
    /// The base accepts no writes, of this version or of any.
    #[error("{0}")]
    ReadOnly(String),
    /// Another error: nothing was written.
    #[error("{0}")]
    Failed(String),
}

/// Row of a session: where it ends, and its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRow {
    /// Hash of scope and id.
    pub(crate) name: Hash16,
    /// First half of the session hash: it differs for a later session of the same name.
    pub(crate) uid: Hash16,
    pub(crate) tenant: Hash16,
    pub(crate) scope: Hash16,
    pub(crate) workspace: Option<Hash16>,
    /// `uid` of the session that it is a fork of.
    pub(crate) parent: Option<Hash16>,
    pub(crate) created_at: Timestamp,
    /// Rises by one with each change of the row.
    pub(crate) revision: u64,
    pub(crate) tail: Position,
    /// Number of the session's next record; the first has number 1.
    pub(crate) next: Lsn,
    pub(crate) updated_at: Timestamp,
    pub(crate) used_at: Timestamp,
    pub(crate) bytes: u64,
    pub(crate) stage: RowStage,
    /// True if it is listed among those with unfinished work.
    pub(crate) unfinished: bool,
    pub(crate) chain: ChainValue,
    pub(crate) control_chain: ChainValue,
    /// Encoded [`crate::log::WorkSummary`].
    pub(crate) work: Bytes,
    /// Encoded [`crate::log::Entry`] as of the last change of a member that has no column.
    pub(crate) entry: Bytes,
    /// Ten seconds in which the row changed last, by the clock of the base; set by the base.
    pub(crate) moved_in: i32,
    /// Number of removals from the store when the row was read.
    pub(crate) removals: u64,
    /// Wrapped key of its frames; `None` in plaintext, and once it was destroyed.
    pub(crate) slot: Option<Bytes>,
}

/// Stage of a session in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowStage {
    Alive = 0,
    Expired = 1,
    Deleted = 2,
    Discarded = 3,
    Erased = 4,
    /// Its grace has ended: its frames are being removed.
    Reclaimed = 5,
}

impl RowStage {
    /// Returns the stage with that number.
    pub(crate) fn from_number(number: i16) -> Option<Self> {
        let all = [
            Self::Alive,
            Self::Expired,
            Self::Deleted,
            Self::Discarded,
            Self::Erased,
            Self::Reclaimed,
        ];
        all.into_iter().find(|stage| *stage as i16 == number)
    }
}

/// Frame to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewFrame {
    /// Position of its first event; the tail, if it has none.
    pub(crate) first: Position,
    /// Number of its first record.
    pub(crate) number: Lsn,
    pub(crate) events: u32,
    /// Time of its events.
    pub(crate) at: Timestamp,
    /// True if it has a note.
    pub(crate) noted: bool,
    /// Random: proves that a stored frame is this one.
    pub(crate) attempt: Hash16,
    /// Header and payload, as in docs/format.md.
    pub(crate) bytes: Bytes,
}

/// Stored frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredFrame {
    pub(crate) range: Range,
    pub(crate) number: Lsn,
    pub(crate) bytes: Bytes,
    /// Reason why it could not be decrypted.
    pub(crate) fault: Option<Fault>,
}

/// Stored name: an event id that a caller gave, a batch key, or the key of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownName {
    /// Position of the event, or of the first event of the batch.
    pub(crate) position: Position,
    /// Number of events of a batch; 0 for an event id.
    pub(crate) events: u32,
    /// Digest of a batch, `None` once an event of it was redacted; `uid` of a created session.
    pub(crate) digest: Option<Bytes>,
    /// Count of time at which it was stored.
    pub(crate) at: Timestamp,
}

/// Name that must not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AbsentName {
    /// `uid` of the session that may have it: the session itself, or an ancestor.
    pub(crate) session: Hash16,
    pub(crate) hash: Hash16,
    /// Events from this position on do not count: the fork does not have them.
    pub(crate) below: Position,
    /// A name stored before this count of time has expired.
    pub(crate) live_from: Timestamp,
}

/// Change of one session, done only if its row still has the revision that it was planned on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowWrite {
    /// Revision that it was planned on.
    pub(crate) revision: u64,
    /// The row after the change, with that revision.
    pub(crate) after: SessionRow,
    /// True if entry and workspace of the row change.
    pub(crate) changes_entry: bool,
    pub(crate) frames: Vec<NewFrame>,
    pub(crate) names: Vec<(Hash16, KnownName)>,
    pub(crate) absent: Vec<AbsentName>,
    /// `uid`s of sessions whose revision rises as well.
    pub(crate) touches: Vec<Hash16>,
}

/// Outcome of a [`RowWrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Done,
    /// The row has another revision or is gone.
    Moved,
    /// One of the absent names exists.
    Known,
    /// Another node is changing the row.
    Busy,
}

/// A session to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewRow {
    pub(crate) row: SessionRow,
    pub(crate) frames: Vec<NewFrame>,
    pub(crate) names: Vec<(Hash16, KnownName)>,
    /// Hash of the key of the creation, kept under its scope.
    pub(crate) key: Option<Hash16>,
    /// Count of time at which the key is stored.
    pub(crate) counted: Timestamp,
    /// Name and `uid` of the parent of a fork, which must be alive.
    pub(crate) parent: Option<(Hash16, Hash16)>,
    /// Slot that [`STORE_SLOT`] must have, if any.
    pub(crate) store_slot: Option<Bytes>,
}

/// Outcome of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateOutcome {
    Done,
    /// A session has that name, or the creation has that key.
    Taken,
    /// The parent is not alive, or another node is changing it; or the slot of the store is not
    /// the one that it must be.
    ParentMoved,
}

/// Removal of content: a change of its session with frames that are written anew in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentRemoval {
    pub(crate) write: RowWrite,
    /// First position, number and new bytes of each.
    pub(crate) rewritten: Vec<(Position, Lsn, Bytes)>,
    /// Positions whose batches lose their digest.
    pub(crate) positions: Vec<Position>,
}

/// Selection of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowSelection {
    Names(Vec<Hash16>),
    Uids(Vec<Hash16>),
    /// Forks of a session, by name.
    Children {
        parent: Hash16,
        after: Option<Hash16>,
    },
    /// Living sessions of a scope, by time of creation and name, after a place.
    Page {
        scope: Hash16,
        workspace: Option<Hash16>,
        after: Option<(Timestamp, Hash16)>,
        ascending: bool,
    },
    /// All sessions of a scope, by name.
    Scope {
        scope: Hash16,
        after: Option<Hash16>,
    },
    /// Sessions of a scope with unfinished work, the last written first.
    Unfinished {
        scope: Hash16,
        workspace: Option<Hash16>,
    },
    /// Sessions that changed within the last seconds, by time slot and name, after a place.
    Moved {
        seconds: u64,
        after: Option<(i32, Hash16)>,
    },
    /// All sessions, by name.
    All {
        after: Option<Hash16>,
    },
}

/// Selection of frames of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameQuery {
    /// Frames with events of a range, from its start on.
    Forward { range: Range, frames: usize, bytes: usize },
    /// Frames with events of a range, from its end backwards; returned in ascending order.
    Backward { range: Range, frames: usize, bytes: usize },
    /// Frames with notes, from the one with that number on.
    Noted { from: Lsn, frames: usize, bytes: usize },
    /// All frames, from the one with that number on; its first position is at least `first`.
    All { from: Lsn, first: Position, frames: usize, bytes: usize },
}

/// Step of the removal of a session that is not read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReclaimStep {
    /// Waits for forks of a discarded or erased session that are being created; returns 1 if it is
    /// one.
    AwaitForks { name: Hash16, uid: Hash16 },
    /// Marks it, before its forks are looked for; waits for a fork that is being created.
    Mark { name: Hash16, uid: Hash16, revision: u64 },
    /// Deletes up to `rows` frames and as many names of a session that is not served any more;
    /// returns how many there were: more than 0 until nothing is left.
    Delete { uid: Hash16, rows: usize },
    /// Deletes the row of a marked session without forks and frames; returns 1 if it is gone.
    Free { name: Hash16, uid: Hash16 },
    /// Deletes the key of an earlier creation of a scope, if it was stored at that time.
    Key { scope: Hash16, hash: Hash16, at: Timestamp },
}

/// Change of a slot, a wrapped key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotChange {
    /// `uid` of its session, or [`STORE_SLOT`].
    pub(crate) session: Hash16,
    /// The slot that it must have; `None` if there must be none.
    pub(crate) before: Option<Bytes>,
    pub(crate) after: Bytes,
}

/// Report of a node to the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    pub(crate) node: Hash16,
    /// The node's count of time.
    pub(crate) counted: Timestamp,
    /// Number of removals up to which the node keeps nothing derived.
    pub(crate) confirmed: u64,
    /// Machine and process, for a person.
    pub(crate) place: String,
    /// Version and settings that nodes compare.
    pub(crate) about: String,
    /// True if the node stops.
    pub(crate) leaves: bool,
}

/// Reply to a [`Heartbeat`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseStatus {
    /// The largest count of time of any node.
    pub(crate) counted: Timestamp,
    /// Number of removals from the store.
    pub(crate) removals: u64,
    /// The smallest `confirmed` of the other nodes that are alive; `u64::MAX` without others.
    pub(crate) confirmed_by_others: u64,
    /// Time by the clock of the base.
    pub(crate) now: Timestamp,
    /// The other nodes that are alive.
    pub(crate) others: Vec<OtherNode>,
    /// The durability of a commit.
    pub(crate) durability: Durability,
    /// Reason why no node may write to it: a migration.
    pub(crate) closed: Option<String>,
}

/// Another node that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherNode {
    pub(crate) place: String,
    pub(crate) about: String,
    /// Time since its last report.
    pub(crate) silent: Duration,
}

/// State of a base for a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MigrationStatus {
    pub(crate) counted: Timestamp,
    /// True while a store is being copied into it.
    pub(crate) is_target: bool,
    /// Place that the store was moved to.
    pub(crate) moved_to: Option<String>,
    /// Number of live nodes.
    pub(crate) nodes: u64,
    pub(crate) has_sessions: bool,
}

/// Part of a session that is copied into a base. Its row is stored with the last part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedPart {
    pub(crate) row: SessionRow,
    pub(crate) frames: Vec<NewFrame>,
    pub(crate) names: Vec<(Hash16, KnownName)>,
    /// Name of its creation, in the last part.
    pub(crate) key: Option<(Hash16, KnownName)>,
    pub(crate) is_last: bool,
}

/// Step of a migration. All but the last one need a base that is a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MigrationStep {
    /// Makes a base without sessions and live nodes a target, with that [`STORE_SLOT`].
    Begin(Bytes),
    /// Stores parts of sessions; storing one again changes nothing.
    Copy(Vec<CopiedPart>),
    /// Deletes a session with its frames and names.
    Remove { name: Hash16, uid: Hash16 },
    /// Deletes frames and names without a session, and lets nodes serve the store.
    Finish { counted: Timestamp },
    /// Keeps nodes from serving the store, which was moved to that place.
    MarkMoved(String),
}

/// Durability of an acknowledged write to a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// A crash of the server may lose it.
    Weak,
    /// It survives a crash of its server, not the loss of it.
    Single,
    /// It is on a synchronous standby as well.
    Replicated,
}

impl Durability {
    /// Parses a word of a setting.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Weak, Self::Single, Self::Replicated];
        all.into_iter().find(|one| one.as_str() == word)
    }

    /// Returns its word in settings and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Single => "single",
            Self::Replicated => "replicated",
        }
    }
}

/// The database that the nodes of a store share.
pub(crate) trait Base: Send + Sync {
    /// Changes many sessions in one durable step, each by itself done or not, in the order of
    /// `writes`. With `waits`, waits for rows that other nodes are changing.
    fn commit(&self, writes: Arc<[RowWrite]>, waits: bool) -> BaseFuture<'_, Vec<WriteOutcome>>;

    /// Creates a session.
    fn create(&self, new: Arc<NewRow>) -> BaseFuture<'_, CreateOutcome>;

    /// Returns up to `limit` slots in order, after one.
    fn slots(&self, after: Option<Hash16>, limit: usize) -> BaseFuture<'_, Vec<(Hash16, Bytes)>>;

    /// Changes slots, each if it is as it must be; returns the number of changed ones.
    fn change_slots(&self, changes: Vec<SlotChange>) -> BaseFuture<'_, u64>;

    /// Removes content; returns the number of removals with this one, `None` if the row has another
    /// revision.
    fn remove_content(&self, removal: Arc<ContentRemoval>) -> BaseFuture<'_, Option<u64>>;

    /// Returns up to `limit` rows.
    fn rows(&self, query: RowSelection, limit: usize) -> BaseFuture<'_, Vec<SessionRow>>;

    /// Returns row and frames of one snapshot; `None` for an unknown session.
    fn frames(
        &self,
        uid: Hash16,
        query: FrameQuery,
    ) -> BaseFuture<'_, Option<(SessionRow, Vec<StoredFrame>)>>;

    /// Looks up names, each of a session or a scope.
    fn known(&self, names: Vec<(Hash16, Hash16)>) -> BaseFuture<'_, Vec<Option<KnownName>>>;

    /// Returns range and time of the last frame with events that begins at or before a position.
    fn frame_at(
        &self,
        uid: Hash16,
        position: Position,
    ) -> BaseFuture<'_, Option<(Range, Timestamp)>>;

    /// Returns the `attempt` of a stored frame, once it is as durable as an acknowledged one.
    fn attempt(&self, uid: Hash16, first: Position, number: Lsn) -> BaseFuture<'_, Option<Hash16>>;

    /// Returns once all that a read has shown is as durable as an acknowledged write.
    fn prove(&self) -> BaseFuture<'_, ()>;

    /// Returns the usage of a tenant without that of one scope.
    fn usage(&self, tenant: Hash16, but: Hash16) -> BaseFuture<'_, TenantUsage>;

    /// Runs a step of a removal; returns the number of changed rows.
    fn reclaim(&self, step: ReclaimStep) -> BaseFuture<'_, u64>;

    /// Reports that a node is alive.
    fn beat(&self, beat: Heartbeat) -> BaseFuture<'_, BaseStatus>;

    /// Returns the state of the base for a migration.
    fn migration_status(&self) -> BaseFuture<'_, MigrationStatus> {
        async { Err(BaseError::Failed("it is not migrated".to_owned())) }.boxed()
    }

    /// Runs a step of a migration; returns false if the base is not in the state for it.
    fn migrate(&self, step: MigrationStep) -> BaseFuture<'_, bool> {
        async move { Err(BaseError::Failed(format!("it is not migrated: {step:?}"))) }.boxed()
    }

    /// Tells other nodes that sessions changed. It may be lost.
    fn hint(&self, moved: Vec<Hash16>);

    /// Returns hints of all nodes: names of sessions that changed.
    fn hints(&self) -> broadcast::Receiver<Hash16>;

    /// Closes all connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}
