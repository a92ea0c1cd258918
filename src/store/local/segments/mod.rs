//! The segments of sessions. It must not write rounds of the journal.

pub(super) mod ancestry;
pub(super) mod flush;
pub(super) mod forward;
pub(super) mod notes;
pub(super) mod pins;
pub(super) mod policy;
pub(super) mod read;
pub(super) mod read_cache;
pub(super) mod sealing;
pub(super) mod slice;
pub(super) mod unlink;
pub(super) mod verify;

use std::{collections::HashSet, sync::Arc};

use self::{pins::Pins, read_cache::ReadCache};
use super::{catalogue::sessions::Sessions, context::EngineContext, derived::DerivedFiles};
use crate::env::sync::{Mutex, atomic::AtomicBool};

/// Segments of every session, and the state shared in reading and writing them.
pub(super) struct Segments {
    pub(super) context: Arc<EngineContext>,
    pub(super) sessions: Arc<Sessions>,
    /// Derived files of sessions; they are removed before the files of the session.
    pub(super) derived_files: Arc<DerivedFiles>,
    /// Held while frames are flushed; locked before the locks of sessions and files.
    pub(super) flushing: Mutex<()>,
    /// Directories of segments whose names are durable.
    pub(super) directories: Mutex<HashSet<String>>,
    /// Journal bytes written up to the location that the last flush recorded.
    pub(super) place_written: Mutex<u64>,
    /// True if the last sync of everything failed: the next flush syncs file by file.
    pub(super) sync_each: AtomicBool,
    /// Cache of recently read events.
    pub(super) read_cache: ReadCache,
    /// Running backups, whose files are not unlinked.
    pub(super) pins: Pins,
    /// Largest order of a journal file before this start.
    pub(super) orders_before: u64,
}
