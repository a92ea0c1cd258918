//! Sessions and files with work that waits: for the next flush, or for a round of upkeep. It
//! must not do any of it.

use std::{collections::BTreeMap, sync::Arc};

use super::super::{rank, session::Session};
use crate::{env::sync::Mutex, event::SessionHash};

/// Sessions whose files are to be unlinked, each with the generation of `settled/` that may not
/// know of its deletion yet.
pub(crate) type Deleted = BTreeMap<SessionHash, (Arc<Session>, u64)>;

/// Sessions by their hashes.
pub(crate) type Full = BTreeMap<SessionHash, Arc<Session>>;

/// A session of which something may be left.
pub(crate) struct Erasing {
    pub(crate) session: Arc<Session>,
    /// Backups that began before its key was destroyed, or its tombstone written, have ended. Those
    /// that begin later have nothing of it, however long the rest may take.
    pub(crate) taken: bool,
}

/// Sessions and files with work that waits.
pub(crate) struct Backlog {
    /// Sessions with frames that wait to be flushed.
    dirty: Mutex<Vec<Arc<Session>>>,
    /// Sessions whose settled entry changed since the last flush.
    touched: Mutex<Vec<Arc<Session>>>,
    /// Sessions with full segments that wait to be sealed.
    full: Mutex<Full>,
    /// Replaced files, each with the generation of `settled/` that may still name it.
    retired: Mutex<BTreeMap<String, u64>>,
    /// Sessions whose files are to be unlinked.
    deleted: Mutex<Deleted>,
    /// Sessions whose tombstone is durable and of which bytes may be left.
    erasing: Mutex<Vec<Erasing>>,
    /// Sessions with a redacted event whose body may be left in a file.
    redacting: Mutex<Vec<Arc<Session>>>,
}

impl Backlog {
    /// Backlog as a start found it.
    pub(crate) fn new(
        dirty: Vec<Arc<Session>>,
        touched: Vec<Arc<Session>>,
        redacting: Vec<Arc<Session>>,
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

    /// A session has frames to be flushed.
    pub(crate) fn add_dirty(&self, session: Arc<Session>) {
        self.dirty.lock().push(session);
    }

    /// Sessions have frames that were not flushed.
    pub(crate) fn return_dirty(&self, sessions: Vec<Arc<Session>>) {
        self.dirty.lock().extend(sessions);
    }

    /// The sessions to be flushed; the caller flushes them or returns them.
    pub(crate) fn take_dirty(&self) -> Vec<Arc<Session>> {
        std::mem::take(&mut *self.dirty.lock())
    }

    /// Number of sessions to flush.
    pub(crate) fn count_dirty(&self) -> usize {
        self.dirty.lock().len()
    }

    /// The settled entry of a session changed: the next flush writes it.
    pub(crate) fn touch(&self, session: &Arc<Session>) {
        self.touched.lock().push(Arc::clone(session));
    }

    /// True if a settled entry changed.
    pub(crate) fn is_touched(&self) -> bool {
        !self.touched.lock().is_empty()
    }

    /// The sessions whose settled entry changed; the caller has both settled files note them.
    pub(crate) fn take_touched(&self) -> Vec<Arc<Session>> {
        std::mem::take(&mut *self.touched.lock())
    }

    /// Sessions have segments to be sealed.
    pub(crate) fn add_full(&self, sessions: impl Iterator<Item = Arc<Session>>) {
        self.full.lock().extend(sessions.map(|session| (session.hash, session)));
    }

    /// The sessions with segments to be sealed; the caller seals them or adds them again.
    pub(crate) fn take_full(&self) -> Full {
        std::mem::take(&mut *self.full.lock())
    }

    /// Nothing of a session is to be sealed: it is gone.
    pub(crate) fn forget_full(&self, session: SessionHash) {
        self.full.lock().remove(&session);
    }

    /// Files were replaced: a settled file up to this generation may name them.
    pub(crate) fn retire(&self, paths: impl Iterator<Item = String>, generation: u64) {
        self.retired.lock().extend(paths.map(|path| (path, generation)));
    }

    /// True if the file was replaced and waits to be unlinked.
    pub(crate) fn is_retired(&self, path: &str) -> bool {
        self.retired.lock().contains_key(path)
    }

    /// Keeps the replaced files for which `keep` is true: of a path and its generation.
    pub(crate) fn retain_retired(&self, keep: &mut dyn FnMut(&str, u64) -> bool) {
        self.retired.lock().retain(|path, generation| keep(path, *generation));
    }

    /// A session is to be unlinked once both settled files are younger than this generation.
    pub(crate) fn add_deleted(&self, session: &Arc<Session>, generation: u64) {
        self.deleted.lock().insert(session.hash, (Arc::clone(session), generation));
    }

    /// The sessions to be unlinked; the caller unlinks them or returns them.
    pub(crate) fn take_deleted(&self) -> Deleted {
        std::mem::take(&mut *self.deleted.lock())
    }

    /// Sessions that are not unlinked yet. Those deleted meanwhile are younger.
    pub(crate) fn return_deleted(&self, sessions: Deleted) {
        let mut deleted = self.deleted.lock();
        for (hash, one) in sessions {
            deleted.entry(hash).or_insert(one);
        }
    }

    /// True if the session waits for its settled entry to be written or its files to be unlinked.
    pub(crate) fn names(&self, session: SessionHash) -> bool {
        self.touched.lock().iter().any(|one| one.hash == session)
            || self.deleted.lock().contains_key(&session)
    }

    /// A session of which something may be left is to be erased.
    pub(crate) fn add_erasing(&self, begun: Erasing) {
        let mut erasing = self.erasing.lock();
        match erasing.iter_mut().find(|one| Arc::ptr_eq(&one.session, &begun.session)) {
            Some(one) => one.taken |= begun.taken,
            None => erasing.push(begun),
        }
    }

    /// The sessions to be erased; the caller erases them or adds them again.
    pub(crate) fn take_erasing(&self) -> Vec<Erasing> {
        std::mem::take(&mut *self.erasing.lock())
    }

    /// A redacted event of a session may have a body left.
    pub(crate) fn add_redacting(&self, session: Arc<Session>) {
        self.redacting.lock().push(session);
    }

    /// The sessions with bodies to be taken away; the caller does or adds them again.
    pub(crate) fn take_redacting(&self) -> Vec<Arc<Session>> {
        std::mem::take(&mut *self.redacting.lock())
    }
}
