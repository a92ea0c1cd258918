//! Queues of sessions and files with pending work, for the next flush or a round of upkeep. It must
//! not do the work.

use std::{collections::BTreeMap, sync::Arc};

use super::super::{rank, session::LoadedSession};
use crate::{env::sync::Mutex, event::SessionHash};

/// Deleted sessions whose files are to be unlinked, each with the last generation of `settled/`
/// that may lack its deletion.
pub(crate) type Deleted = BTreeMap<SessionHash, (Arc<LoadedSession>, u64)>;

/// Sessions with full segments, by their hashes.
pub(crate) type Full = BTreeMap<SessionHash, Arc<LoadedSession>>;

/// Erased session of which bytes may remain.
pub(crate) struct ErasedSession {
    pub(crate) session: Arc<LoadedSession>,
    /// True once the backups that started before its key was destroyed, or its tombstone written,
    /// were invalidated. Later backups contain none of its bytes.
    pub(crate) taken: bool,
}

/// Sessions and files with pending work.
pub(crate) struct Backlog {
    /// Sessions with unflushed frames.
    dirty: Mutex<Vec<Arc<LoadedSession>>>,
    /// Sessions whose settled entry changed since the last flush.
    touched: Mutex<Vec<Arc<LoadedSession>>>,
    /// Sessions with full segments to be sealed.
    full: Mutex<Full>,
    /// Replaced files, each with the last generation of `settled/` that may still name it.
    retired: Mutex<BTreeMap<String, u64>>,
    /// Sessions whose files are to be unlinked.
    deleted: Mutex<Deleted>,
    /// Sessions whose tombstone is durable and of which bytes may remain.
    erasing: Mutex<Vec<ErasedSession>>,
    /// Sessions with a redacted event whose body may remain in a file.
    redacting: Mutex<Vec<Arc<LoadedSession>>>,
}

impl Backlog {
    /// Creates the backlog from the pending work found at a start.
    pub(crate) fn new(
        dirty: Vec<Arc<LoadedSession>>,
        touched: Vec<Arc<LoadedSession>>,
        redacting: Vec<Arc<LoadedSession>>,
    ) -> Self {
        Self {
            dirty: Mutex::new(rank::DIRTY, dirty),
            touched: Mutex::new(rank::BACKLOG, touched),
            full: Mutex::new(rank::FULL, Full::new()),
            retired: Mutex::new(rank::BACKLOG, BTreeMap::new()),
            deleted: Mutex::new(rank::BACKLOG, Deleted::new()),
            erasing: Mutex::new(rank::BACKLOG, Vec::new()),
            redacting: Mutex::new(rank::BACKLOG, redacting),
        }
    }

    /// Adds a session with frames to be flushed.
    pub(crate) fn add_dirty(&self, session: Arc<LoadedSession>) {
        self.dirty.lock().push(session);
    }

    /// Adds sessions again whose frames were not flushed.
    pub(crate) fn return_dirty(&self, sessions: Vec<Arc<LoadedSession>>) {
        self.dirty.lock().extend(sessions);
    }

    /// Drains the sessions to be flushed; the caller flushes them or adds them again.
    pub(crate) fn take_dirty(&self) -> Vec<Arc<LoadedSession>> {
        std::mem::take(&mut *self.dirty.lock())
    }

    /// Returns the number of sessions to flush.
    pub(crate) fn count_dirty(&self) -> usize {
        self.dirty.lock().len()
    }

    /// Adds a session whose settled entry changed: the next flush writes it.
    pub(crate) fn add_touched(&self, session: &Arc<LoadedSession>) {
        self.touched.lock().push(Arc::clone(session));
    }

    /// Returns true if a settled entry changed.
    pub(crate) fn has_touched(&self) -> bool {
        !self.touched.lock().is_empty()
    }

    /// Drains the sessions whose settled entry changed; the caller marks them in both settled
    /// files.
    pub(crate) fn take_touched(&self) -> Vec<Arc<LoadedSession>> {
        std::mem::take(&mut *self.touched.lock())
    }

    /// Adds sessions with segments to be sealed.
    pub(crate) fn add_full(&self, sessions: impl Iterator<Item = Arc<LoadedSession>>) {
        self.full.lock().extend(sessions.map(|session| (session.hash, session)));
    }

    /// Drains the sessions with segments to be sealed; the caller seals them or adds them again.
    pub(crate) fn take_full(&self) -> Full {
        std::mem::take(&mut *self.full.lock())
    }

    /// Removes a session from those to be sealed, because it was removed.
    pub(crate) fn remove_full(&self, session: SessionHash) {
        self.full.lock().remove(&session);
    }

    /// Adds replaced files: settled files up to this generation may name them.
    pub(crate) fn add_retired(&self, paths: impl Iterator<Item = String>, generation: u64) {
        self.retired.lock().extend(paths.map(|path| (path, generation)));
    }

    /// Returns true if the file was replaced and is to be unlinked.
    pub(crate) fn is_retired(&self, path: &str) -> bool {
        self.retired.lock().contains_key(path)
    }

    /// Keeps the replaced files for whose path and generation `keep` returns true.
    pub(crate) fn retain_retired(&self, keep: &mut dyn FnMut(&str, u64) -> bool) {
        self.retired.lock().retain(|path, generation| keep(path, *generation));
    }

    /// Adds a session to be unlinked once both settled files are newer than this generation.
    pub(crate) fn add_deleted(&self, session: &Arc<LoadedSession>, generation: u64) {
        self.deleted.lock().insert(session.hash, (Arc::clone(session), generation));
    }

    /// Drains the sessions to be unlinked; the caller unlinks them or adds them again.
    pub(crate) fn take_deleted(&self) -> Deleted {
        std::mem::take(&mut *self.deleted.lock())
    }

    /// Adds sessions again that were not unlinked; those deleted meanwhile keep their generation.
    pub(crate) fn return_deleted(&self, sessions: Deleted) {
        let mut deleted = self.deleted.lock();
        for (hash, one) in sessions {
            deleted.entry(hash).or_insert(one);
        }
    }

    /// Returns true if the session's settled entry is to be written or its files are to be
    /// unlinked.
    pub(crate) fn has_pending_work(&self, session: SessionHash) -> bool {
        self.touched.lock().iter().any(|one| one.hash == session)
            || self.deleted.lock().contains_key(&session)
    }

    /// Adds an erased session of which bytes may remain.
    pub(crate) fn add_pending_erasure(&self, begun: ErasedSession) {
        let mut erasing = self.erasing.lock();
        match erasing.iter_mut().find(|one| Arc::ptr_eq(&one.session, &begun.session)) {
            Some(one) => one.taken |= begun.taken,
            None => erasing.push(begun),
        }
    }

    /// Drains the sessions to be erased; the caller erases them or adds them again.
    pub(crate) fn take_pending_erasures(&self) -> Vec<ErasedSession> {
        std::mem::take(&mut *self.erasing.lock())
    }

    /// Adds a session with a redacted event whose body may remain in a file.
    pub(crate) fn add_pending_redaction(&self, session: Arc<LoadedSession>) {
        self.redacting.lock().push(session);
    }

    /// Drains the sessions with bodies to be removed; the caller removes them or adds the sessions
    /// again.
    pub(crate) fn take_pending_redactions(&self) -> Vec<Arc<LoadedSession>> {
        std::mem::take(&mut *self.redacting.lock())
    }
}
