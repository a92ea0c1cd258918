//! The values that cross the trait [`super::Store`]: what a caller asks for, what an engine says.
//! It must not decide anything about a session.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;

use super::KeyId;
use crate::{
    env::Short,
    event::{
        Batch, BatchKey, Event, EventId, Fence, Lsn, Position, Range, SessionId, SessionKey,
        Timestamp,
    },
};

/// Properties a caller gives to a new session.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// The client's id for it; the store mints an unguessable one when absent.
    pub id: Option<SessionId>,
    /// A line for people.
    pub title: Option<String>,
    /// Pairs of the client's.
    pub metadata: BTreeMap<String, String>,
    /// Its workspace, for example a directory or a project.
    pub workspace: Option<String>,
    /// Retention of this session, idle seconds; `None` follows the store, 0 keeps it without end.
    pub ttl_seconds: Option<u64>,
    /// Appended in the same frame: the session exists with them or not at all.
    pub events: Batch,
    /// A retry with the same key answers the same session for 24 h.
    pub key: Option<BatchKey>,
    /// It continues from there: a fork. What is below is read where it was written.
    pub parent: Option<ForkPoint>,
}

impl NewSession {
    /// Bytes of what the client says about it.
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
    /// The session.
    pub session: SessionId,
    /// Position below which both share all events.
    pub at: Position,
}

impl ForkPoint {
    /// True if `again` may repeat the request for a fork at `first`: a point counted from the end
    /// is further on by then.
    #[must_use]
    pub fn repeats(first: Option<&Self>, again: Option<&Self>) -> bool {
        match (first, again) {
            (Some(first), Some(again)) => first.session == again.session && first.at <= again.at,
            (first, again) => first == again,
        }
    }
}

/// A change of what a session says about itself. `None` leaves a field; an inner `None` clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// New title.
    pub title: Option<Option<String>>,
    /// Pairs to set, or to remove.
    pub metadata: BTreeMap<String, Option<String>>,
    /// Archive it (`true`), or let it be written to again (`false`).
    pub archive: Option<bool>,
    /// Delete it (`true`): hidden at once, `session_deleted` until its grace ends, when its bytes
    /// are removed; until then it can be restored.
    pub delete: bool,
    /// Delete it (`true`), and remove its bytes at once: it cannot be restored. An expired session,
    /// and one that was deleted before, take this too.
    pub discard: bool,
    /// Hold it (`true`): it neither expires nor is deleted; or let it go (`false`).
    pub hold: Option<bool>,
    /// Bring it back (`true`) when it has expired, or was deleted and not discarded.
    pub restore: bool,
}

impl Change {
    /// Bytes of what the client says in it.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let pairs = self.metadata.iter().map(|(name, value)| name.len() + text(value));
        self.title.as_ref().map_or(0, text) + pairs.sum::<usize>()
    }
}

/// Description of a session; listing needs no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Whose session it is, and its name.
    pub key: SessionKey,
    /// A line for people.
    pub title: Option<String>,
    /// Pairs of the client's.
    pub metadata: BTreeMap<String, String>,
    /// Its workspace.
    pub workspace: Option<String>,
    /// Its own retention, idle seconds.
    pub ttl_seconds: Option<u64>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last written to.
    pub updated_at: Timestamp,
    /// When it was archived.
    pub archived_at: Option<Timestamp>,
    /// Since when it is held.
    pub held_at: Option<Timestamp>,
    /// When it was used last, by the store's count of time: see [`super::Store::counted`].
    pub used_at: Timestamp,
    /// The position the next event will get; everything below it is durable.
    pub tail: Position,
    /// Place and chain value of the last durable event.
    pub receipt: Receipt,
    /// Bytes of its own records before compression.
    pub bytes: u64,
    /// Rises with each event of its own that is redacted, as soon as the redaction is durable, and
    /// with its erasure: what was made from its events at a lower count may hold what is gone. A
    /// fork does not count what was taken away of the sessions that it reads from.
    pub rewritten: u64,
    /// Damaged ranges; an empty list is a whole session.
    pub damage: Vec<Gap>,
    /// State of the work on it.
    pub work: Work,
    /// The point it continues from, when it is a fork.
    pub forked_from: Option<ForkPoint>,
}

/// Proof of what was acknowledged: the chain value after the event before `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The tail when the receipt was given.
    pub position: Position,
    /// The chain value there.
    pub chain: [u8; 32],
}

impl Receipt {
    /// Reads `POSITION:CHAIN`, the chain value as 64 hex digits.
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
pub enum Head {
    /// Everything that the receipt saw is there, in its order.
    Holds,
    /// It is shorter than it was: an earlier state was put back.
    Shorter {
        /// Its tail now.
        tail: Position,
    },
    /// It has another past than it had.
    Differs {
        /// The chain value at the receipt's position.
        chain: [u8; 32],
    },
    /// No chain value is known at the receipt's position: events below it are lost.
    Lost,
}

/// Answer to an append; the events are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// One per event of the batch, in its order: id, position and time as stored.
    pub events: Vec<PlacedEvent>,
    /// Position of the batch's first event (the tail for an empty batch).
    pub first_position: Position,
    /// The tail after the batch.
    pub next_position: Position,
    /// Proof of the append.
    pub receipt: Receipt,
    /// True if the batch was known already and nothing was written.
    pub repeated: bool,
}

/// Id and position of a stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEvent {
    /// Its id, the client's or minted.
    pub id: EventId,
    /// Its position.
    pub position: Position,
    /// The store's clock.
    pub processed_at: Timestamp,
}

/// A part of a session that is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Positions that cannot be served.
    pub range: Range,
    /// The finding, for a person.
    pub reason: String,
    /// When a person gave it up: it stays named and refuses nothing any more.
    pub accepted_at: Option<Timestamp>,
}

/// End of the range from which a bounded read fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// From its first event on: a bound cuts the end.
    Forward,
    /// From its last event back: a bound cuts the start.
    Backward,
}

/// A positional read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Positions wanted; cut to what is durable.
    pub range: Range,
    /// Events at most.
    pub events_max: usize,
    /// Bytes of bodies at most; the first event is returned regardless of its size.
    pub bytes_max: usize,
    /// End that the read fills from; a bound leaves out the other.
    pub fill: Fill,
    /// Serve what is whole of a damaged range and name the gaps, instead of refusing.
    pub allow_gaps: bool,
}

/// Answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The events, always in ascending order of position.
    pub events: Vec<Event>,
    /// The positions this slice accounts for, gaps included.
    pub covered: Range,
    /// Missing positions within `covered`.
    pub gaps: Vec<Gap>,
    /// The durable tail when the slice was read.
    pub tail: Position,
}

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Sessions read.
    pub sessions: u64,
    /// Events read, each frame's checksum and each chain value checked.
    pub events: u64,
    /// Bytes read from the storage.
    pub bytes: u64,
    /// Every damage found, with its session.
    pub damage: Vec<(SessionKey, Gap)>,
    /// Losses that were accepted, with their sessions.
    pub accepted: Vec<(SessionKey, Gap)>,
}

/// Losses that a repair gives up, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Losses of the session.
    pub gaps: Vec<Gap>,
    /// Losses of the store that name no session.
    pub unnamed: Vec<String>,
    /// Names in `quarantine/` of copies of what could not be read.
    pub copies: Vec<String>,
    /// True if they were given up; `false` for a look, and when nothing is lost.
    pub accepted: bool,
}

/// A part of a file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file's place, `/`-separated; the parts of a file come one behind the other.
    pub path: String,
    /// The bytes behind those of the part before; none for a file that is empty.
    pub bytes: Bytes,
}

/// Description of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// The store's id.
    pub store: [u8; 16],
    /// The moment it shows, by the store's clock: what was acknowledged before it began is in it.
    pub at: Timestamp,
    /// Sessions in it.
    pub sessions: u64,
    /// Of these, such as have damage that no person gave up: it is in the copy as in the store.
    pub damaged: u64,
    /// The id of the master key that opens it.
    pub key: Option<[u8; 8]>,
}

/// Report of the last start; kept for `recovery-report`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// True if the store was stopped cleanly before.
    pub clean: bool,
    /// Sessions known.
    pub sessions: u64,
    /// Journal frames replayed.
    pub frames_replayed: u64,
    /// Bytes of torn tails, never acknowledged; copied to quarantine.
    pub torn_bytes: u64,
    /// Bad places of the journal that took nothing with them: a segment had what lay there.
    pub made_good: u64,
    /// Damage to acknowledged bytes, for a person.
    pub damage: Vec<String>,
    /// Copies of refused bytes in `quarantine/`, of this start and of earlier ones.
    pub quarantined: Vec<String>,
    /// Duration in microseconds.
    pub micros: u64,
    /// Result of reading everything back since.
    pub scrub: Scrub,
}

/// Result of the last reading of everything in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// Times everything was read since the start.
    pub rounds: u64,
    /// Sessions read the last time.
    pub sessions: u64,
    /// Bytes read the last time.
    pub bytes: u64,
    /// Damage found the last time, for a person.
    pub found: Vec<String>,
}

/// Master keys that an encrypted store needs, and the keys wrapped under each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// The id of the master key in force.
    pub current: KeyId,
    /// That of the one before, while a rotation is under way: a start wants both.
    pub previous: Option<KeyId>,
    /// Those that were given.
    pub given: Vec<KeyId>,
    /// True if it opens with the keys given.
    pub opens: bool,
    /// Keys of sessions, those made ahead included.
    pub keys: u64,
    /// Of these not yet under the master key in force, in either file.
    pub behind: u64,
    /// Keys that were destroyed: of sessions that were erased, or are gone.
    pub destroyed: u64,
    /// Keys that neither file has whole.
    pub unreadable: u64,
}

/// Number of a tenant's sessions, and bytes of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantUsage {
    /// Sessions that are there, those of all its users.
    pub sessions: u64,
    /// Bytes of their records before compression.
    pub bytes: u64,
}

/// Stage of a session on its way to removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It answers.
    Alive,
    /// It was idle for too long; it can be restored.
    Expired,
    /// A caller deleted it.
    Deleted,
}

/// State of a session's content for those that read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// It answers.
    Alive,
    /// It was idle for too long; its forks read from it all the same.
    Expired,
    /// A caller deleted it; its forks read from it all the same.
    Deleted,
    /// Its events can no longer be read.
    Erased,
}

/// A session that another one reads from, or that reads from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relative {
    /// Its id.
    pub session: SessionId,
    /// A line for people, while it answers.
    pub title: Option<String>,
    /// State of its content.
    pub survival: Survival,
    /// The position where the younger of the two continues from the older.
    pub at: Position,
    /// The position its next event will get.
    pub tail: Position,
    /// Bytes of its own records before compression.
    pub bytes: u64,
}

/// The sessions that one has positions in common with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// Those it reads from, the nearest first.
    pub ancestors: Vec<Relative>,
    /// Number of its ancestors.
    pub depth: u64,
    /// Its own forks, by their ids.
    pub children: Vec<Relative>,
    /// Number of its forks.
    pub forks: u64,
}

/// Reason for which a session does not expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// A person holds it, since then.
    Hold(Timestamp),
    /// Something of it cannot be read, and no person gave that up.
    Damage,
}

/// A session with an end in sight. Its times are by [`super::Store::counted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aging {
    /// Its id.
    pub session: SessionId,
    /// A line for people.
    pub title: Option<String>,
    /// Its stage.
    pub stage: Stage,
    /// When it was used last; when it went, for one that did.
    pub used_at: Timestamp,
    /// When it expires, unless it is used again; when its files are removed, for one that expired
    /// or was deleted; `None` for one that expired and is kept without end.
    pub ends_at: Option<Timestamp>,
    /// Its own limit, idle seconds.
    pub ttl_seconds: Option<u64>,
    /// Reason for which it does not expire, if any.
    pub kept: Option<Keeps>,
}

impl Aging {
    /// The order in which sessions end; those that never do come last.
    #[must_use]
    pub fn soonest(&self, other: &Self) -> std::cmp::Ordering {
        let place = |one: &Self| one.ends_at.map_or(i64::MAX, |at| at.0);
        place(self).cmp(&place(other)).then_with(|| self.session.cmp(&other.session))
    }
}

/// Result of one round of sweeping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Sessions that expired.
    pub expired: Vec<SessionKey>,
    /// Sessions whose files are gone.
    pub reclaimed: Vec<SessionKey>,
    /// Sessions with a step to take that could not take it; the log says why.
    pub failed: u64,
    /// Some sessions were not looked at: the next round continues with them.
    pub more: bool,
}

/// Current health of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes.
    Ready,
    /// Reads only, and why.
    ReadOnly(String),
    /// Reads, and takes deletions that free bytes: the storage is full. It takes writes again by
    /// itself once there is room.
    Full(Short),
    /// Time since which the storage owes an answer: appends wait.
    Silent(Duration),
}

/// Tells a reader that the durable tail of a session moved. Cheap to hold.
pub type Watch = tokio::sync::watch::Receiver<Position>;

/// State of the work on a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The token of the last lease; 0 when there was none.
    pub fence: Fence,
    /// When the last lease ends, by [`super::Store::counted`]; `None` once it was given back.
    pub until: Option<Timestamp>,
    /// Digest of the key of the request that took it.
    pub key: Option<[u8; 16]>,
    /// Number of its notes.
    pub notes: u64,
    /// The last checkpoint.
    pub checkpoint: Option<LastCheckpoint>,
}

/// The last checkpoint of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// Number of its note.
    pub number: Lsn,
    /// The place it names.
    pub position: Position,
    /// True if the work continues, as the caller of the last one said.
    pub open: bool,
}

/// A lease: the right to write to a session alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its token.
    pub fence: Fence,
    /// When it ends, by [`super::Store::counted`]; `None` when it was given back.
    pub until: Option<Timestamp>,
    /// Digest of the key of the request that took it.
    pub key: Option<[u8; 16]>,
}

/// Request for a session's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseCall {
    /// To have it, though another has it when it is to be taken away.
    Take {
        /// Take it from who has it.
        steal: bool,
        /// Duration of the lease.
        ttl: Duration,
        /// Digest of the request's key: asked again while the lease holds, it is the same lease.
        key: Option<[u8; 16]>,
    },
    /// To keep it.
    Renew {
        /// Its token.
        fence: Fence,
        /// Duration from now on.
        ttl: Duration,
    },
    /// To give it back.
    Release {
        /// Its token.
        fence: Fence,
    },
    /// That no caller has it, and that no token given since the copy that this store is from comes
    /// again.
    Void,
}

/// Selection of notes to read, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notes {
    /// Only those with a higher number.
    pub after: Lsn,
    /// Maximum number.
    pub notes_max: usize,
    /// Bytes of bodies at most; the first note is returned regardless of its size.
    pub bytes_max: usize,
}
