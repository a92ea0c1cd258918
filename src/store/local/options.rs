//! Options of an operator, and reasons why a data directory does not open. It must not read a
//! configuration; the command line does.

use std::{io, time::Duration};

use crate::store::{KeyId, Lifetimes};

/// Options of an operator. The defaults suit a laptop and a server alike.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size of one journal file in bytes; default 32 MiB, at least 32 KiB (tests).
    pub journal_file_bytes: u64,
    /// Journal bytes that may wait for flushing; default 256 MiB.
    pub journal_retained_bytes: u64,
    /// A segment is sealed once it is larger; default 8 MiB.
    pub segment_bytes_max: u64,
    /// Idle time after which waiting records are flushed; default five seconds.
    pub settle_after: Duration,
    /// Interval of reading everything flushed back; default a day, 0 for never.
    pub scrub_every: Duration,
    /// Memory for events that were read lately, in bytes; default 32 MiB, 0 for none. More is worth
    /// its price where many readers go over old events again and again.
    pub warm_bytes_max: usize,
    /// Compress blocks of sealed segments; on. Off, they take about three times the room, and
    /// their sizes tell nothing of how alike events are.
    pub compression: bool,
    /// Lifetimes of sessions.
    pub lifetimes: Lifetimes,
    /// Flush and write watermarks from background threads; tests drive them by hand instead.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_file_bytes: 32 << 20,
            journal_retained_bytes: 256 << 20,
            segment_bytes_max: 8 << 20,
            settle_after: Duration::from_secs(5),
            scrub_every: Duration::from_secs(24 * 3600),
            warm_bytes_max: 32 << 20,
            compression: true,
            lifetimes: Lifetimes::default(),
            background: true,
        }
    }
}

/// Reason for which a data directory did not open. No byte was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns it.
    #[error("another process owns this data directory")]
    Owned,
    /// Written by a newer version of sessionlog.
    #[error("the data directory has format {found}; this version reads up to {supported}")]
    Newer {
        /// Format found.
        found: u32,
        /// Newest format this version reads.
        supported: u32,
    },
    /// It is a backup, not a store.
    #[error("it is a backup: it is brought back with `sessionlog backup restore`")]
    Backup,
    /// A restore into it has not ended: it is no store yet.
    #[error("a backup was being restored into it, and that was interrupted")]
    Unfinished,
    /// STORE is there and no generation of `settled/` is, or the journal has a hole before it.
    #[error("the data directory is damaged: {what}")]
    Damaged {
        /// The finding, with its place.
        what: String,
    },
    /// The keys given are not those it wants.
    #[error("{problem}")]
    Key {
        /// Fault of the keys.
        problem: KeyProblem,
    },
    /// The file system refused.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed, with the path inside the data directory.
        doing: String,
        /// Error of the file system.
        source: io::Error,
    },
}

/// Reason for which a data directory is not opened with the keys given. No byte was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// It is encrypted.
    #[error("the data directory is encrypted under the key {wanted}, and no key is set")]
    Missing {
        /// The id of the key it wants.
        wanted: KeyId,
    },
    /// It is encrypted under another key.
    #[error("the data directory is encrypted under the key {wanted}; the keys given are {given:?}")]
    Wrong {
        /// The id of the key it wants.
        wanted: KeyId,
        /// The ids of those it was given.
        given: Vec<KeyId>,
    },
    /// A rotation was interrupted: both keys are needed to end it.
    #[error("a rotation to the key {current} is under way: the key before, {previous}, is needed")]
    Rotating {
        /// The key that the rotation leads to.
        current: KeyId,
        /// The one it comes from.
        previous: KeyId,
    },
    /// A key is set, and it is in plaintext.
    #[error("a key is set, and the data directory is in plaintext")]
    Plaintext,
}
