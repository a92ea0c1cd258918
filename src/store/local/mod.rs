//! The embedded engine: every session of one data directory, owned by one process. It must not
//! interpret the body of an event.
//!
//! The engine is made of parts; each owns its locks and calls only the parts listed before it:
//! `keys`, `context`, `session`, `journal`, `catalogue`, `derived`, `segments`, `removal`,
//! `commit`, `upkeep`. Above them, `engine` implements the trait `Store`.

mod catalogue;
mod commit;
mod context;
mod derived;
mod engine;
mod inspect;
mod journal;
mod keys;
mod layout;
mod making;
#[cfg(feature = "cli")]
mod migrate;
mod open;
mod options;
mod recovery;
mod removal;
mod segments;
mod session;
mod upkeep;
mod vault;
mod wait;

/// The locks of the engine, each with its rank: a thread takes them in rising order, and debug
/// builds check that (`env::sync`). Gaps between the numbers allow for new locks.
mod rank {
    use crate::env::sync::Rank;

    /// Threads of the engine, while they are joined.
    pub(super) const THREADS: Rank = Rank(0, "engine.threads");
    /// A repair, a rotation of keys or a scrub of keys; closing waits for it.
    pub(super) const REPAIRING: Rank = Rank(10, "upkeep.repairing");
    /// The writer that flushes while the journal is full.
    pub(super) const RELIEF: Rank = Rank(20, "commit.relief");
    /// Retry time of a removal; held while its steps run.
    pub(super) const PAUSE: Rank = Rank(30, "removal.pause");
    /// Erasures and redactions, one after the other.
    pub(super) const TURN: Rank = Rank(40, "removal.turn");
    /// A flush, and everything that must not run concurrently with one.
    pub(super) const FLUSHING: Rank = Rank(50, "segments.flushing");
    /// One derived file, while it is read or its bytes are removed, or the directory of them while
    /// it is read.
    pub(super) const DERIVED_FILES: Rank = Rank(55, "derived.reading");
    /// The keys at which the rounds over evicted sessions stopped.
    pub(super) const ROUNDS: Rank = Rank(60, "upkeep.looked_to and swept_to");
    /// Journal bytes up to the last settled location.
    pub(super) const PLACE_WRITTEN: Rank = Rank(70, "segments.place_written");
    /// Both settled files: their writer reads the catalogue and every session.
    pub(super) const SLOTS: Rank = Rank(80, "sessions.slots");
    /// Sessions to be sealed.
    pub(super) const FULL: Rank = Rank(90, "backlog.full");
    /// The reserve, while it is released or reserved again.
    pub(super) const RESERVE: Rank = Rank(95, "reserve.turn");
    /// The journal's writer: held across a write and its sync.
    pub(super) const WRITER: Rank = Rank(100, "journal.writer");
    /// Both files of keys.
    pub(super) const KEY_FILES: Rank = Rank(110, "keys.files");
    /// The cached parent of a fork.
    pub(super) const FOUND: Rank = Rank(120, "origin.found");
    /// The catalogue.
    pub(super) const NAMES: Rank = Rank(130, "sessions.names");
    /// State of disk failures.
    pub(super) const TROUBLE: Rank = Rank(140, "journal.trouble");
    /// The last durable round, while it becomes visible.
    pub(super) const LAST_ROUND: Rank = Rank(150, "journal.last");
    /// The state of one session; a thread never locks two.
    pub(super) const STATE: Rank = Rank(160, "state of a session");
    pub(super) const QUEUE: Rank = Rank(170, "journal.queue");
    /// Sessions whose files are open.
    pub(super) const IN_USE: Rank = Rank(180, "sessions.in_use");
    /// Sessions to be flushed.
    pub(super) const DIRTY: Rank = Rank(190, "backlog.dirty");
    /// The other lists of pending work.
    pub(super) const BACKLOG: Rank = Rank(200, "backlog");
    /// Sessions that forks need.
    pub(super) const FORKS: Rank = Rank(210, "sessions.forks");
    /// The file `STORE`.
    pub(super) const STORED: Rank = Rank(220, "keys.stored");
    /// The master keys in use.
    pub(super) const MASTERS: Rank = Rank(230, "keys.masters");
    /// Locks under which no other is taken.
    pub(super) const LAST: Rank = Rank::LAST;
}

pub use engine::LocalStore;
pub use inspect::{Inspection, InspectionLine, Versioned, inspect, list_versions};
pub use keys::rotate::key_report;
#[cfg(feature = "cli")]
pub(crate) use migrate::{DirectorySource, DirectoryTarget};
pub use options::{OpenError, StoreOptions};
pub use vault::{BackupError, BackupWriter, RestoredBackup, check_backup, is_vacant, restore};
