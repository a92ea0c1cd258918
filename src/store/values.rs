//! The values that cross the trait [`super::Store`]: requests of callers and results of an engine.
//! It must not decide anything about a session.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;

use super::KeyId;
use crate::{
    env::DiskShortage,
    event::{
        Batch, BatchKey, Event, EventId, Fence, Lsn, Position, Range, SessionId, SessionKey,
        Timestamp,
    },
};

/// Properties that a caller gives a new session.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// Id chosen by the client; if omitted, the store mints an unguessable one.
    pub id: Option<SessionId>,
    /// Title, one line.
    pub title: Option<String>,
    /// Metadata pairs of the client.
    pub metadata: BTreeMap<String, String>,
    /// Its workspace, for example a directory or a project.
    pub workspace: Option<String>,
    /// Retention of this session, idle seconds; `None` follows the store, 0 keeps it without end.
    pub ttl_seconds: Option<u64>,
    /// Appended in the same frame: the session exists with them or not at all.
    pub events: Batch,
    /// Key of the request: a retry with it returns the same session for 24 h.
    pub key: Option<BatchKey>,
    /// The parent's position where a fork continues. Events below it are read from the parent.
    pub parent: Option<ForkPoint>,
}

impl NewSession {
    /// Returns the bytes of its title, metadata and other texts of the client.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let pairs = self.metadata.iter().map(|(name, value)| name.len() + value.len());
        text(&self.title) + text(&self.workspace) + pairs.sum::<usize>()
    }
}

/// A position of another session of the same scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkPoint {
    /// Id of the session.
    pub session: SessionId,
    /// Position below which both share all events.
    pub at: Position,
}

impl ForkPoint {
    /// Returns true if `again` may be a retry of the request for a fork at `first`: a point counted
    /// from the end has moved on by then.
    #[must_use]
    pub fn may_repeat(first: Option<&Self>, again: Option<&Self>) -> bool {
        match (first, again) {
            (Some(first), Some(again)) => first.session == again.session && first.at <= again.at,
            (first, again) => first == again,
        }
    }
}

/// A change of a session's properties. `None` leaves a field; an inner `None` clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionUpdate {
    /// New title.
    pub title: Option<Option<String>>,
    /// Metadata pairs to set, or to remove.
    pub metadata: BTreeMap<String, Option<String>>,
    /// Archives it (`true`), or makes it writable again (`false`).
    pub archive: Option<bool>,
    /// Deletes it (`true`): hidden at once, `session_deleted` until its grace ends, when its bytes
    /// are removed; until then it can be restored.
    pub delete: bool,
    /// Deletes it (`true`), and removes its bytes at once: it cannot be restored. Applies to an
    /// expired session, and to one that was deleted before, as well.
    pub discard: bool,
    /// Holds it (`true`), so that it neither expires nor is deleted; or releases it (`false`).
    pub hold: Option<bool>,
    /// Restores it (`true`) when it has expired, or was deleted and not discarded.
    pub restore: bool,
}

impl SessionUpdate {
    /// Returns the bytes of the client's texts in it.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let pairs = self.metadata.iter().map(|(name, value)| name.len() + text(value));
        self.title.as_ref().map_or(0, text) + pairs.sum::<usize>()
    }
}

/// Description of a session, sufficient for a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Scope and id of the session.
    pub key: SessionKey,
    /// Title, one line.
    pub title: Option<String>,
    /// Metadata pairs of the client.
    pub metadata: BTreeMap<String, String>,
    /// Workspace of the session, if it has one.
    pub workspace: Option<String>,
    /// Retention of this session in idle seconds, if it has its own.
    pub ttl_seconds: Option<u64>,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of the last append of events.
    pub updated_at: Timestamp,
    /// Time of its archiving.
    pub archived_at: Option<Timestamp>,
    /// Start of its hold.
    pub held_at: Option<Timestamp>,
    /// Time of the last use, by the store's count of time: see [`super::Store::counted_time`].
    pub used_at: Timestamp,
    /// The position the next event will get; everything below it is durable.
    pub tail: Position,
    /// Position and chain value after the last durable event.
    pub receipt: ChainReceipt,
    /// Bytes of its own records before compression.
    pub bytes: u64,
    /// Number of its own redacted events, counted as soon as a redaction is durable, and of its
    /// erasure: a derived file made at a lower count may hold removed content. A fork does not
    /// count removals from the sessions that it reads from.
    pub rewritten: u64,
    /// Damaged ranges; empty if the session is intact.
    pub damage: Vec<SessionGap>,
    /// State of the work on it.
    pub work: WorkState,
    /// The point it continues from, if it is a fork.
    pub forked_from: Option<ForkPoint>,
}

/// Proof of acknowledged events: the chain value after the event before `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainReceipt {
    /// Tail of the session when the receipt was issued.
    pub position: Position,
    /// The chain value at that position.
    pub chain: [u8; 32],
}

impl ChainReceipt {
    /// Parses `POSITION:CHAIN`, the chain value as 64 hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (position, chain) = text.split_once(':')?;
        let digits = position.bytes().all(|byte| byte.is_ascii_digit());
        let position = position.parse().ok().filter(|_| digits)?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(chain.as_bytes().chunks_exact(2)) {
            let mut digits = pair.iter().map(|digit| (*digit as char).to_digit(16));
            let (high, low) = (digits.next()??, digits.next()??);
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        let whole = chain.len() == 2 * bytes.len();
        whole.then_some(Self { position: Position(position), chain: bytes })
    }
}

/// State of a session compared with a receipt that was kept outside of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptState {
    /// Every event that the receipt covers exists, in its order.
    Holds,
    /// The session is shorter: an earlier state was restored.
    Shorter {
        /// Its current tail.
        tail: Position,
    },
    /// Its events differ from those that the receipt covers.
    Differs {
        /// The chain value at the receipt's position.
        chain: [u8; 32],
    },
    /// No chain value is known at the receipt's position: events below it are lost.
    Lost,
}

/// Result of an append; the events are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendResult {
    /// One per event of the batch, in its order: id, position and time as stored.
    pub events: Vec<PlacedEvent>,
    /// Position of the batch's first event (the tail for an empty batch).
    pub first_position: Position,
    /// The tail after the batch.
    pub next_position: Position,
    /// Proof of the append.
    pub receipt: ChainReceipt,
    /// True if the batch was known and nothing was written.
    pub repeated: bool,
}

/// Id and position of a stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEvent {
    /// Id of the event, provided by the client or minted.
    pub id: EventId,
    /// Position in its session.
    pub position: Position,
    /// Time at which the store processed it.
    pub processed_at: Timestamp,
}

/// A damaged or erased part of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionGap {
    /// Positions that cannot be read.
    pub range: Range,
    /// Description of the damage, for the operator.
    pub reason: String,
    /// Time at which an operator accepted the loss: it stays listed and no longer blocks a request.
    pub accepted_at: Option<Timestamp>,
}

/// End of the range from which a bounded read fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillDirection {
    /// From the first event: a limit cuts the end.
    Forward,
    /// From the last event backwards: a limit cuts the start.
    Backward,
}

/// A positional read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// Requested positions; limited to the durable ones.
    pub range: Range,
    /// Maximum events.
    pub events_max: usize,
    /// Maximum bytes of bodies; the first event is returned regardless of its size.
    pub bytes_max: usize,
    /// End that the read fills from.
    pub fill: FillDirection,
    /// True to return the intact part of a damaged range with its gaps, instead of an error.
    pub allow_gaps: bool,
}

/// Result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The events, always in ascending order of position.
    pub events: Vec<Event>,
    /// The positions that this slice covers, gaps included.
    pub covered: Range,
    /// Missing positions within `covered`.
    pub gaps: Vec<SessionGap>,
    /// The durable tail when the slice was read.
    pub tail: Position,
}

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyResult {
    /// Number of sessions read.
    pub sessions: u64,
    /// Number of events read and verified (frame checksums and chain values).
    pub events: u64,
    /// Number of bytes read from the storage.
    pub bytes: u64,
    /// Every damage found, with its session.
    pub damage: Vec<(SessionKey, SessionGap)>,
    /// Losses that were accepted, with their sessions.
    pub accepted: Vec<(SessionKey, SessionGap)>,
}

/// Losses that a repair accepts, or would accept in a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairResult {
    /// Losses of the session.
    pub gaps: Vec<SessionGap>,
    /// Losses of the store that belong to no session.
    pub unnamed: Vec<String>,
    /// Names in `quarantine/` of copies of unreadable bytes.
    pub copies: Vec<String>,
    /// True if they were accepted; `false` for a dry run, and when nothing is lost.
    pub accepted: bool,
}

/// A part of a file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// Path of the file, `/`-separated; the parts of a file come in order.
    pub path: String,
    /// Bytes that follow those of the previous part; empty for an empty file.
    pub bytes: Bytes,
}

/// Description of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupInfo {
    /// Id of the store.
    pub store: [u8; 16],
    /// Moment of the copy, by the store's clock: it has everything acknowledged before the backup
    /// started.
    pub at: Timestamp,
    /// Number of sessions in the backup.
    pub sessions: u64,
    /// Number of these with damage that no operator accepted: the copy has the same damage.
    pub damaged: u64,
    /// The id of the master key that decrypts it.
    pub key: Option<[u8; 8]>,
}

/// Report of the last start; shown by `recovery-report`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// True if the store was stopped cleanly before.
    pub clean: bool,
    /// Number of sessions in the store.
    pub sessions: u64,
    /// Number of journal frames replayed.
    pub frames_replayed: u64,
    /// Number of bytes of torn tails, never acknowledged; copied to quarantine.
    pub torn_bytes: u64,
    /// Number of damaged ranges of the journal without loss: a segment had the same records.
    pub made_good: u64,
    /// Damage to acknowledged bytes, for the operator.
    pub damage: Vec<String>,
    /// Copies of refused bytes in `quarantine/`, of this start and of earlier ones.
    pub quarantined: Vec<String>,
    /// Duration of the start, in microseconds.
    pub micros: u64,
    /// Result of the background scrub since.
    pub scrub: ScrubResult,
}

/// Result of the last background scrub, which reads everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubResult {
    /// Number of complete scrubs since the start.
    pub rounds: u64,
    /// Number of sessions read by the last scrub.
    pub sessions: u64,
    /// Number of bytes read by the last scrub.
    pub bytes: u64,
    /// Damage found by the last scrub, for the operator.
    pub found: Vec<String>,
}

/// Master keys that an encrypted store needs, and the keys wrapped under each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// The id of the current master key.
    pub current: KeyId,
    /// The id of the previous one during a rotation: a start needs both.
    pub previous: Option<KeyId>,
    /// Ids of the master keys that the operator supplied.
    pub given: Vec<KeyId>,
    /// True if the store opens with the given keys.
    pub opens: bool,
    /// Number of session keys, including those created in advance.
    pub keys: u64,
    /// Number of these not yet wrapped under the current master key, in either file.
    pub behind: u64,
    /// Number of destroyed keys: those of erased or removed sessions.
    pub destroyed: u64,
    /// Number of keys that are damaged in both files.
    pub unreadable: u64,
}

/// Number of a tenant's sessions, and bytes of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantUsage {
    /// Existing sessions, of all its users.
    pub sessions: u64,
    /// Bytes of their records before compression.
    pub bytes: u64,
}

/// Stage of a session on its way to removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is served.
    Alive,
    /// It was idle for too long; it can be restored.
    Expired,
    /// A caller deleted it.
    Deleted,
}

/// State of a session's content for sessions that read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// It is served.
    Alive,
    /// It was idle for too long; its forks still read from it.
    Expired,
    /// A caller deleted it; its forks still read from it.
    Deleted,
    /// Its events can no longer be read.
    Erased,
}

/// A session that another one reads from, or that reads from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedSession {
    /// Id of the session.
    pub session: SessionId,
    /// Its title, while it is served.
    pub title: Option<String>,
    /// State of its content.
    pub survival: Survival,
    /// The position where the fork continues from its parent.
    pub at: Position,
    /// The position its next event will get.
    pub tail: Position,
    /// Bytes of its own records before compression.
    pub bytes: u64,
}

/// The ancestors and forks of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// Its ancestors, the nearest first.
    pub ancestors: Vec<RelatedSession>,
    /// Number of its ancestors.
    pub depth: u64,
    /// Forks of the session itself, sorted by id.
    pub children: Vec<RelatedSession>,
    /// Number of its forks.
    pub forks: u64,
}

/// Reason for which a session does not expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// An operator holds it, since then.
    Hold(Timestamp),
    /// Some of its content cannot be read, and no operator accepted that loss.
    Damage,
}

/// A session with a known end. Its times are by [`super::Store::counted_time`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiringSession {
    /// Id of the session.
    pub session: SessionId,
    /// Title, one line.
    pub title: Option<String>,
    /// Stage of the session.
    pub stage: Stage,
    /// Time of its last use, or of its expiry or deletion.
    pub used_at: Timestamp,
    /// When it expires, unless it is used again; when its files are removed, if it expired or was
    /// deleted; `None` if it expired and is kept without end.
    pub ends_at: Option<Timestamp>,
    /// Idle limit of this session in seconds, if it has its own.
    pub ttl_seconds: Option<u64>,
    /// Reason for which it does not expire, if any.
    pub kept: Option<KeepReason>,
}

impl ExpiringSession {
    /// Compares sessions by their end; those without an end come last.
    #[must_use]
    pub fn compare_end(&self, other: &Self) -> std::cmp::Ordering {
        let place = |one: &Self| one.ends_at.map_or(i64::MAX, |at| at.0);
        place(self).cmp(&place(other)).then_with(|| self.session.cmp(&other.session))
    }
}

/// Result of one round of sweeping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// Sessions that expired.
    pub expired: Vec<SessionKey>,
    /// Sessions whose files were removed.
    pub reclaimed: Vec<SessionKey>,
    /// Sessions whose due step failed; the log has the errors.
    pub failed: u64,
    /// True if some sessions were not examined: the next round continues with them.
    pub more: bool,
}

/// Current health of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The store reads and writes.
    Ready,
    /// The store only reads, with the reason.
    ReadOnly(String),
    /// The storage is full: the store reads, and accepts deletions that free bytes. It accepts
    /// writes again once there is space.
    Full(DiskShortage),
    /// The storage has not responded for this time: appends wait.
    Silent(Duration),
}

/// Database that several processes share as a store, as one of them, a node, knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Durability of a commit: `weak`, `single` or `replicated`.
    pub durability: &'static str,
    /// Nodes that are alive, this one first.
    pub nodes: Vec<LiveNode>,
}

/// Node of a shared store that reported within the last ten seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// Machine and process, as `HOST/PID`.
    pub place: String,
    /// Version of the program.
    pub version: String,
    /// Time since its last report to the database.
    pub silent: Duration,
    /// True if it has the version and the lifetimes of this node.
    pub is_alike: bool,
}

/// Watch on the durable tail of a session. Cheap to hold.
pub type Watch = tokio::sync::watch::Receiver<Position>;

/// State of the work on a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkState {
    /// The token of the last lease; 0 if there was none.
    pub fence: Fence,
    /// When the last lease ends, by [`super::Store::counted_time`]; `None` once it was released.
    pub until: Option<Timestamp>,
    /// Digest of the key of the request that took it.
    pub key: Option<[u8; 16]>,
    /// Number of its notes.
    pub notes: u64,
    /// Last checkpoint of the session, if any.
    pub checkpoint: Option<LastCheckpoint>,
}

/// The last checkpoint of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// Number of its note.
    pub number: Lsn,
    /// Position that it marks.
    pub position: Position,
    /// True if the work continues, as its caller declared.
    pub open: bool,
}

/// A lease: the exclusive right to write to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLease {
    /// Fencing token of the lease.
    pub fence: Fence,
    /// When it ends, by [`super::Store::counted_time`]; `None` once it was released.
    pub until: Option<Timestamp>,
    /// Digest of the key of the request that took it.
    pub key: Option<[u8; 16]>,
}

/// Request for a session's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseCall {
    /// Take the lease.
    Take {
        /// True to take it from its current holder.
        steal: bool,
        /// Time until the lease ends unless it is renewed.
        ttl: Duration,
        /// Digest of the request's key: a retry while the lease is valid returns the same lease.
        key: Option<[u8; 16]>,
    },
    /// Extend the lease.
    Renew {
        /// Fencing token of the lease.
        fence: Fence,
        /// Duration from now on.
        ttl: Duration,
    },
    /// Release the lease.
    Release {
        /// Fencing token of the lease.
        fence: Fence,
    },
    /// Invalidate every lease, and skip the tokens issued since the copy from which this store was
    /// restored.
    Void,
}

/// Selection of notes to read, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotesQuery {
    /// Only notes with a higher number.
    pub after: Lsn,
    /// Maximum number of notes.
    pub notes_max: usize,
    /// Maximum bytes of bodies; the first note is returned regardless of its size.
    pub bytes_max: usize,
}
