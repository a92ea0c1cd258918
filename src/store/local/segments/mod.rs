//! The files of sessions: what they share. It must not know the journal's rounds.

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

/// The segments of every session, and what is shared in reading and writing them.
pub(super) struct Segments {
    pub(super) context: Arc<EngineContext>,
    pub(super) sessions: Arc<Sessions>,
    /// Derived files of sessions; they are removed before the files of the session.
    pub(super) derived_files: Arc<DerivedFiles>,
    /// Held while frames are flushed; locked before any other lock.
    pub(super) flushing: Mutex<()>,
    /// Directories of segments that are durable.
    pub(super) directories: Mutex<HashSet<String>>,
    /// Journal bytes written up to the place that the last flush named.
    pub(super) place_written: Mutex<u64>,
    /// The last sync of everything failed: the next flush finds the file that fails.
    pub(super) sync_each: AtomicBool,
    /// Events read lately.
    pub(super) read_cache: ReadCache,
    /// Files that a backup reads: they are not unlinked.
    pub(super) pins: Pins,
    /// The last order of a journal file before this start.
    pub(super) orders_before: u64,
}
