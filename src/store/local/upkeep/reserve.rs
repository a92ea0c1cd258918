//! Deletions that free bytes at once: what is unlinked of a discarded session, and the room kept
//! back so that one can be written on a full disk. The reserve is a small file, given away when
//! such a deletion finds no room, and made again when there is some; until then the store takes
//! nothing else. It must not unlink a file before both settled files know that its session is
//! discarded, and must not decide what is deleted.

use std::{collections::BTreeSet, io, sync::Arc};

use super::super::{
    catalogue::sessions::is_full, clearing::Clearing, commit::Commit, layout::RESERVE,
    segments::Segments, session::Session, wait::blocking,
};
use crate::{
    env::sync::atomic::Ordering,
    event::SessionHash,
    log::{self, KeyNumber, segment},
    store::{StoreError, StoreResult, rules::Ask},
};

/// Room for the tombstones of some thousand sessions and what makes them known.
const RESERVE_BYTES: u64 = 1 << 20;

impl Clearing {
    /// Makes the reserve unless it is there. Where there is no room the store does without.
    pub(crate) fn keep_reserve(&self) {
        let kept = &self.sessions.reserve.kept;
        let stopped =
            self.base.closed.load(Ordering::Acquire) || self.base.frozen.load(Ordering::Acquire);
        if stopped || kept.load(Ordering::Acquire) {
            return;
        }
        match self.make_reserve() {
            Ok(()) => {
                kept.store(true, Ordering::Release);
                if self.sessions.reserve.given.swap(false, Ordering::AcqRel) {
                    self.sessions.journal.sparing(false);
                    tracing::info!("there is room again: the reserve is kept, appends are taken");
                }
            }
            Err(error) => tracing::debug!(%error, "no room is kept back for deletions"),
        }
    }

    fn make_reserve(&self) -> io::Result<()> {
        let storage = &self.base.env.storage;
        let bytes = RESERVE_BYTES.min(self.base.options.journal_file_bytes);
        let there = storage.open_read(RESERVE).and_then(|file| file.len());
        match there {
            Ok(length) if length >= bytes => return Ok(()),
            // A start was killed while it made it.
            Ok(_) => storage.remove(RESERVE)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = storage.create(RESERVE)?;
        // What does not compress takes its room on any file system.
        let mut noise = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.base.env.entropy.fill(&mut noise);
        let made = file.write_at(0, &noise).and_then(|()| file.sync());
        // Else a power loss on a full disk could take the name, and the room with it.
        let made = made.and_then(|()| storage.sync_dir(""));
        made.inspect_err(|_| {
            let _ = storage.remove(RESERVE);
        })
    }

    /// Gives the reserve away; answers whether there was one.
    fn give_reserve(&self) -> bool {
        if let Err(error) = self.base.env.storage.remove(RESERVE) {
            tracing::debug!(%error, "there is no reserve to be given away");
            return false;
        }
        self.sessions.reserve.kept.store(false, Ordering::Release);
        self.sessions.reserve.given.store(true, Ordering::Release);
        self.sessions.journal.sparing(true);
        tracing::warn!("the disk is full: the room kept back is given to deletions");
        true
    }

    /// Lets nothing be settled but deletions while the room kept back is theirs: segments would
    /// take what is left of it.
    ///
    /// # Errors
    /// That the disk is full.
    pub(crate) fn leave_room(&self) -> io::Result<()> {
        if self.sessions.reserve.is_given() {
            self.make_room();
        }
        let given = self.sessions.reserve.is_given();
        if given { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Frees what deleted sessions had, although nothing else can be settled for want of room.
    fn make_room(&self) {
        let settled = match self.settle_deleted() {
            Err(error) if is_full(&error) && self.give_reserve() => self.settle_deleted(),
            other => other,
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "what a deletion frees is not free yet");
        }
        self.keep_reserve();
    }

    /// Settles the sessions that were deleted, and no other, into both files: what the others wait
    /// for may need room that only these have.
    fn settle_deleted(&self) -> io::Result<()> {
        let _settling = self.segments.settling.lock();
        self.base.check_writable()?;
        let mut dirty = std::mem::take(&mut *self.sessions.backlog.dirty.lock());
        dirty.retain(|session| !self.sessions.forget_frames(session));
        self.sessions.backlog.dirty.lock().append(&mut dirty);
        self.segments.touch_settled();
        (0..2).try_for_each(|_| self.write_settled())?;
        self.segments.unlink_retired();
        Ok(())
    }

    /// Settles what is known of sessions but for their frames: the journal's place stays.
    pub(crate) fn write_settled(&self) -> io::Result<()> {
        let mut slots = self.sessions.slots.lock();
        let (place, told) = (slots.latest(), self.base.count_state());
        let delta = self.segments.delta(false, place, told);
        slots.write(&self.base.env, delta, &|take| self.sessions.catalogue().each_settled(take))?;
        self.base.count.keep(told);
        Ok(())
    }
}

impl Commit {
    /// Discards a session, on a full disk, too: then what it frees is free when this returns.
    pub(crate) async fn discard(
        &self,
        session: &Arc<Session>,
        change: log::Change,
    ) -> StoreResult<()> {
        let mut request = self.ask(Ask::Change(change));
        let mut deleted = self.drive(session, &mut request).await;
        if matches!(deleted, Err(StoreError::DiskFull)) && blocking(|| self.clearing.give_reserve())
        {
            deleted = self.drive(session, &mut request).await;
        }
        deleted?;
        if self.sessions.reserve.is_given() || self.sessions.reserve.cramped.load(Ordering::Acquire)
        {
            blocking(|| self.clearing.make_room());
        }
        Ok(())
    }
}

impl Segments {
    /// Unlinks the files of sessions whose deletion both settled files know, those included that no
    /// entry names because a crash came before it did. The entry forgets its segments after that:
    /// a start that finds one that does not unlinks what is left.
    pub(crate) fn unlink_deleted(&self, settled: u64) {
        let mut waiting = std::mem::take(&mut *self.sessions.backlog.deleted.lock());
        let known = waiting.values().filter(|(_, generation)| *generation < settled);
        let numbers: Vec<_> =
            known.map(|(session, _)| KeyNumber(session.state().entry.key)).collect();
        let destroyed = self.base.keys.destroy(&numbers);
        if let Err(error) = &destroyed {
            tracing::warn!(%error, "keys of deleted sessions are left");
        }
        waiting.retain(|_, (session, generation)| {
            if *generation >= settled || destroyed.is_err() {
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
                self.sessions.backlog.touched.lock().push(Arc::clone(session));
            }
            false
        });
        // Those deleted meanwhile are younger.
        let mut deleted = self.sessions.backlog.deleted.lock();
        for (hash, one) in waiting {
            deleted.entry(hash).or_insert(one);
        }
    }

    /// Unlinks the files of a session but those of these paths, durably.
    pub(crate) fn unlink_files(
        &self,
        session: SessionHash,
        but: &BTreeSet<String>,
    ) -> io::Result<()> {
        let (storage, directory) = (&self.base.env.storage, segment::directory(session));
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
        // Else a power loss could bring back what no entry names any more; names that are gone
        // already may be so because this failed before.
        storage.sync_dir(&directory)
    }
}
