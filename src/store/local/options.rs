//! Options of an operator, and reasons why a data directory does not open. It must not read a
//! configuration file or the environment.

use std::{io, time::Duration};

use crate::store::{KeyProblem, Lifetimes};

/// Options of an operator. The defaults suit a laptop and a server alike.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Size of one journal file in bytes; default 32 MiB, at least 32 KiB (tests).
    pub journal_file_bytes: u64,
    /// Journal bytes that may be unflushed; default 256 MiB.
    pub journal_retained_bytes: u64,
    /// Size in bytes above which a segment is sealed; default 8 MiB.
    pub segment_bytes_max: u64,
    /// Idle time after which unflushed records are flushed; default five seconds.
    pub settle_after: Duration,
    /// Interval of reading everything flushed back; default a day, 0 for never.
    pub scrub_every: Duration,
    /// Memory for recently read events, in bytes; default 32 MiB, 0 for none. More pays off if many
    /// readers read old events repeatedly.
    pub warm_bytes_max: usize,
    /// True to compress blocks of sealed segments, the default. Without compression they take about
    /// three times the space, and their sizes do not reveal how similar events are.
    pub compression: bool,
    /// Lifetimes of sessions.
    pub lifetimes: Lifetimes,
    /// True to flush and write watermarks from background threads; tests call both.
    pub background: bool,
}

impl Default for StoreOptions {
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

/// Reason why a data directory did not open. No byte was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns the data directory.
    #[error("another process owns this data directory")]
    Owned,
    /// A newer version of sessionlog wrote it.
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
    /// A restore into it was interrupted: it is not a store yet.
    #[error("a backup was being restored into it, and that was interrupted")]
    Unfinished,
    /// A store is being copied into it: it is not a store yet.
    #[error("a store is being copied into it, and that is not finished")]
    Migrating,
    /// Its store was moved.
    #[error("its store was moved to {place}")]
    Moved {
        /// The new place: a directory, or the address of a database.
        place: String,
    },
    /// `STORE` exists, but no whole generation of `settled/`, or a needed journal file is missing.
    #[error("the data directory is damaged: {what}")]
    Damaged {
        /// The fault, with its location.
        what: String,
    },
    /// The keys given are not those it needs.
    #[error("{problem}")]
    Key {
        /// Problem of the keys.
        problem: KeyProblem,
    },
    /// Error of the file system.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed, with the path inside the data directory.
        doing: String,
        /// Error of the file system.
        source: io::Error,
    },
}
