//! Unlinking of replaced files, and of files of deleted sessions. It must not unlink a file that a
//! settled file may still name.

use std::{collections::BTreeSet, io};

use super::{super::session::LoadedSession, Segments};
use crate::{
    event::SessionHash,
    log::{KeyNumber, segment},
    store::HeldEvents,
};

impl Segments {
    /// Unlinks files of deleted sessions and replaced files that no settled file names.
    pub(crate) fn unlink_retired(&self) {
        if self.pins.is_held() {
            if !self.sessions.reserve.is_released() {
                return;
            }
            // Freeing space has priority: running backups are invalidated.
            self.pins.invalidate();
        }
        let settled = self.sessions.settled_generation();
        self.unlink_deleted(settled);
        self.sessions.backlog.retain_retired(&mut |path, replaced| {
            let gone = replaced < settled;
            if gone && let Err(error) = self.context.env.storage.remove(path) {
                tracing::warn!(path, %error, "a replaced segment could not be unlinked");
            }
            !gone
        });
    }

    /// Unlinks the files of sessions whose deletion is in both settled files, including files that
    /// no entry names because of a crash. Then clears the segments in the entry: a start unlinks
    /// the rest for an entry that still has segments.
    fn unlink_deleted(&self, settled: u64) {
        let mut waiting = self.sessions.backlog.take_deleted();
        let known = waiting.iter().filter(|(_, (_, generation))| *generation < settled);
        let number = |session: &LoadedSession| KeyNumber(session.state().entry.key);
        let numbers: Vec<_> = known.clone().map(|(_, (session, _))| number(session)).collect();
        let destroyed = self.context.keys.destroy(&numbers);
        if let Err(error) = &destroyed {
            tracing::warn!(%error, "keys of deleted sessions are left");
        }
        let goes: BTreeSet<SessionHash> = known.map(|(hash, _)| *hash).collect();
        let holds = |holds: &[HeldEvents]| holds.iter().any(|held| goes.contains(&held.hash));
        let derived = if goes.is_empty() { Ok(()) } else { self.derived_files.destroy(&holds) };
        if let Err(error) = &derived {
            tracing::warn!(%error, "derived files of deleted sessions are left");
        }
        let begun = destroyed.and(derived);
        waiting.retain(|_, (session, generation)| {
            if *generation >= settled || begun.is_err() {
                return true;
            }
            if let Err(error) = self.unlink_files(session.hash, &BTreeSet::new()) {
                tracing::warn!(session = %session.hash, %error, "a deleted file is left");
                return true;
            }
            let mut state = session.state();
            state.opened = None;
            state.cipher = None;
            if !std::mem::take(&mut state.entry.segments).is_empty() {
                self.sessions.backlog.add_touched(session);
            }
            false
        });
        self.sessions.backlog.return_deleted(waiting);
    }

    /// Unlinks the files of a session except these paths, durably.
    pub(crate) fn unlink_files(
        &self,
        session: SessionHash,
        but: &BTreeSet<String>,
    ) -> io::Result<()> {
        let (storage, directory) = (&self.context.env.storage, segment::directory(session));
        let names = match storage.list(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        let own = format!("{session}-");
        let of_it = names.iter().filter(|entry| entry.name.starts_with(&own));
        let paths = of_it.map(|entry| format!("{directory}/{}", entry.name));
        for path in paths.filter(|path| !but.contains(path)) {
            match storage.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // Otherwise a power loss could bring back unnamed files. Synced even if none was removed
        // now, since an earlier call may have failed after a removal.
        storage.sync_dir(&directory)
    }
}
