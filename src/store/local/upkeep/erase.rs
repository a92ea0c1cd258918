//! Erasing a session: a tombstone first, then its key, then everything that is encrypted under it
//! or, in a store in plaintext, every byte of it that is left. It must not answer before the
//! session is unreadable, nor touch a byte of another one's.
//!
//! The tombstone is the session's last control record, in a frame that is readable without the
//! session's key. A start that meets it first finishes what was begun: the steps below may each be
//! the last before a crash, and all of them may be taken again.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use super::super::{
    catalogue::sessions::{Erasing, is_full},
    clearing::Clearing,
    layout::{JOURNAL, QUARANTINE},
    session::{Session, State},
    wait::blocking,
};
use super::Upkeep;
use crate::{
    env::{
        Entry as Listed, File,
        planted::{Defect, planted},
    },
    event::SessionHash,
    log::{
        Fault, KeyNumber, LogError,
        journal::{self, JournalHeader},
        reading::{Reading, read_around},
        scan::{gaps_of, payloads_of, whole_to},
    },
    store::{StoreError, StoreResult, rules::Ask},
};

/// Bytes that are looked at together for what an earlier use left.
const BLOCK_BYTES: usize = 4096;

impl Upkeep {
    /// Erases a session; it is unreadable once this returns.
    pub(crate) async fn erase(&self, session: &Arc<Session>) -> StoreResult<()> {
        if session.origin.is_some() && self.sessions.is_needed(session.hash) {
            // Its forks read on from its own parent: what it continues from must outlive its key.
            let failed = |source| StoreError::Io { doing: "settling before an erasure", source };
            blocking(|| self.clearing.settle(false)).map_err(failed)?;
        }
        {
            let _held = self.commit.holds.lock().await;
            if !session.state().entry.stage.is_erased() {
                self.sessions.check_readers(session, None)?;
            }
            self.commit.drive_with_reserve(session, Ask::Erase).await?;
        }
        if !session.state().entry.stage.is_erasing() {
            return Ok(());
        }
        self.sessions.note_erasing(session);
        let failed = |source| StoreError::Unfinished { what: "erasure", source };
        blocking(|| {
            let mut finished = self.clearing.finish_erasures();
            if finished.as_ref().is_err_and(is_full) && self.clearing.give_reserve() {
                finished = self.clearing.finish_erasures();
            }
            if finished.as_ref().is_err_and(LogError::was_unreadable) {
                // Of a journal that no start needs any more all may go, read or not.
                finished =
                    self.clearing.leave_journal(&[]).and_then(|()| self.clearing.finish_erasures());
            }
            if session.state().entry.stage.is_erasing() {
                return Err(finished.err().unwrap_or_else(|| io::Error::other("it may be left")));
            }
            // Where payloads are zeros now, no start needs to read.
            let zeroed = self.base.keys.own().is_none();
            let settled = (0..2).filter(|_| zeroed).try_for_each(|_| self.clearing.settle(false));
            settled.unwrap_or_else(|error| tracing::warn!(%error, "zeros stay in the journal"));
            if self.sessions.reserve.is_given() {
                self.clearing.make_room();
            }
            Ok(())
        })
        .map_err(failed)
    }
}

impl Clearing {
    /// Takes what is left of sessions whose tombstone is durable; what fails is taken again by a
    /// later settling.
    pub(crate) fn finish_erasures(&self) -> io::Result<()> {
        // A caller may find its own erasure taken by another thread, and must wait for it.
        let _turn = self.turn.lock();
        let mut begun = std::mem::take(&mut *self.sessions.backlog.erasing.lock());
        begun.retain(|one| one.session.state().entry.stage.is_erasing());
        let mut done = Ok(());
        let mut take = |session: &Session, step: io::Result<()>| {
            let Err(error) = step else { return true };
            tracing::error!(session = %session.hash, %error, "an erasure is not finished");
            done = Err(error);
            false
        };
        let mut taken = Vec::new();
        for mut one in begun {
            let finished = self.take_away(&mut one);
            match take(&one.session, finished) {
                true => taken.push(one),
                false => self.sessions.note_begun(one),
            }
        }
        let zeroes = self.base.keys.own().is_none() && !taken.is_empty();
        // Where zeros are to be written no start needs to read, of any session. What went made
        // room.
        let settled = if zeroes { self.settle_to_zero() } else { Ok(()) };
        for one in taken {
            let finished = match &settled {
                Ok(()) => self.clear_away(&one.session, zeroes),
                Err(error) => {
                    let what = format!("what waits in the journal could not be settled: {error}");
                    Err(io::Error::new(error.kind(), what))
                }
            };
            if !take(&one.session, finished) {
                self.sessions.note_begun(one);
            }
        }
        done
    }

    /// Takes a session's key, copies, names and files.
    fn take_away(&self, begun: &mut Erasing) -> io::Result<()> {
        let session = &begun.session;
        // No thread settles or seals it meanwhile.
        let _settling = self.segments.settling.lock();
        self.base.check_writable()?;
        let number = KeyNumber(session.state().entry.key);
        if !planted(Defect::KeepErasedKey) {
            self.base.keys.destroy(&[number])?;
        }
        if !std::mem::replace(&mut begun.taken, true) {
            self.segments.pins.take_away();
        }
        self.sessions.forget_frames(session);
        {
            let mut state = session.state();
            let State { opened, cipher, .. } = &mut *state;
            (*opened, *cipher) = (None, None);
        }
        self.segments.warm.clear();
        self.clear_quarantine(session.hash)?;
        // Titles and metadata lie in both settled files: they are written anew without them.
        self.sessions.slots.lock().spoil();
        self.segments.touch_settled();
        for _ in 0..2 {
            let mut slots = self.sessions.slots.lock();
            let place = slots.latest();
            let delta = self.segments.delta(false, place, self.base.count_state());
            slots.write(&self.base.env, delta, &|take| {
                self.sessions.catalogue().each_settled(take)
            })?;
        }
        self.segments.unlink_files(session.hash, &BTreeSet::new())?;
        session.state().entry.segments.clear();
        Ok(())
    }

    /// Takes what the journal has of a session that is in no segment any more.
    fn clear_away(&self, session: &Arc<Session>, zeroes: bool) -> io::Result<()> {
        // No thread settles meanwhile.
        let _settling = self.segments.settling.lock();
        if zeroes {
            let tombstone = session.state().entry.end_lsn.saturating_sub(1);
            self.zero_journal(session.hash, &|first, _| first != tombstone)?;
        }
        session.state().entry.stage.finish_erasure();
        self.sessions.backlog.touched.lock().push(Arc::clone(session));
        tracing::info!(session = %session.hash, "a session was erased");
        Ok(())
    }

    /// Removes copies of refused bytes that may be the session's. Other files there stay,
    /// and a passing failure (no memory, no rights) says nothing of a copy.
    pub(crate) fn clear_quarantine(&self, session: SessionHash) -> io::Result<()> {
        let storage = &self.base.env.storage;
        let copies = match storage.list(QUARANTINE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            copies => copies?,
        };
        let own = session.to_string();
        let is_copy = |copy: &&Listed| copy.is_file && !copy.name.ends_with(".reason");
        for copy in copies.iter().filter(is_copy) {
            let path = format!("{QUARANTINE}/{}", copy.name);
            let bytes =
                storage.open_read(&path).and_then(|file| Ok(journal::read(&*file, 0, u64::MAX)?));
            let may_be_its = match bytes {
                // The session of a copy that was begun or cannot be read is unknown.
                Err(error) if LogError::was_unreadable(&error) => true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
                Ok(bytes) => {
                    let named = bytes.windows(session.0.len()).any(|part| part == session.0);
                    // A place of the journal may have a payload whose header did not arrive.
                    let headless = copy.name.starts_with("journal-");
                    named || headless || copy.name.starts_with(&own) || copy.name.ends_with(".new")
                }
            };
            if may_be_its {
                storage.remove(&path)?;
                let _ = storage.remove(&format!("{path}.reason"));
            }
        }
        // What is gone may have gone before a crash, or before this failed.
        storage.sync_dir(QUARANTINE)
    }

    /// Settles everything twice, so that no start reads what is to be zeroed. A use that failed, of
    /// this start or another, has no end that a later one names: where a start would read such a
    /// one, the journal leaves it.
    pub(crate) fn settle_to_zero(&self) -> io::Result<()> {
        (0..2).try_for_each(|_| self.segments.settle_frames(false, false))?;
        let (files, ends) = self.journal_files()?;
        let needed = self.sessions.slots.lock().recyclable().order;
        if files.iter().any(|file| file.is_endless(needed, &ends)) {
            self.leave_journal(&[])?;
        }
        Ok(())
    }

    /// Every file in the journal's directory, and where the frames of each use end, as far as the
    /// use after it says so.
    fn journal_files(&self) -> io::Result<(Vec<Used>, BTreeMap<u64, u64>)> {
        let place = self.sessions.journal.place();
        let mut ends = BTreeMap::from([(place.order, place.byte_offset)]);
        let mut files = Vec::new();
        for Listed { name, .. } in self.base.env.storage.list(JOURNAL)? {
            let file = self.base.env.storage.open(&format!("{JOURNAL}/{name}"))?;
            let header = match JournalHeader::of(&*file) {
                Err(LogError::Io(error)) => return Err(error),
                Err(LogError::Fault { fault, .. }) => Err(fault),
                Ok(header) => Ok(header),
            };
            if let Ok(header) = &header {
                ends.entry(header.previous_order).or_insert(header.previous_end);
            }
            files.push(Used { name, file, header });
        }
        Ok((files, ends))
    }

    /// Zeroes the payloads of a session's frames in every journal file. `wanted` says by the log
    /// sequence numbers of a frame's records (the first, and the one after the last) whether its
    /// payload goes. Zeroes as well what earlier uses of a file left behind and between its frames:
    /// no header may be left there that names a session. No thread writes to a file meanwhile.
    pub(crate) fn zero_journal(
        &self,
        session: SessionHash,
        wanted: &dyn Fn(u64, u64) -> bool,
    ) -> io::Result<()> {
        let zero = || -> io::Result<()> {
            self.sessions.journal.blank(session, wanted);
            let (files, ends) = self.journal_files()?;
            let needed = self.sessions.slots.lock().recyclable().order;
            let mut zeroed = Ok(());
            let last = self.sessions.journal.place().order;
            for file in files {
                let is_last = file.header.as_ref().is_ok_and(|header| header.order == last);
                if planted(Defect::SpareLastFile) && is_last {
                    continue;
                }
                let left = |bytes: &[u8]| {
                    let mut parts = payloads_of(bytes, session, wanted);
                    parts.extend(file.header.iter().flat_map(|header| gaps_of(bytes, header.salt)));
                    parts
                };
                let number = file.name.parse().ok();
                if self.sessions.journal.is_condemned(number) {
                    // The cache may have what a failed sync did not bring to the device.
                    file.file.evict()?;
                }
                // Nothing is acknowledged on a file that failed.
                let failed = || self.sessions.journal.abandon(number);
                let mut zero = zero_file(&file, needed, &ends, left, failed);
                if file.is_endless(needed, &ends) {
                    zero = zero.and(Err(io::Error::other("no use says where a failed one ends")));
                }
                // What fails in one hides nothing in another.
                zeroed = zero.and(zeroed);
            }
            zeroed
        };
        self.sessions.journal.alone(zero, &*self.sessions)
    }
}

/// A file of the journal, and its header or what is wrong with it.
struct Used {
    name: String,
    file: Box<dyn File>,
    header: Result<JournalHeader, Fault>,
}

impl Used {
    /// Whether no start needs it, where one needs all from the order `needed` on.
    fn is_free(&self, needed: u64) -> bool {
        match &self.header {
            Ok(header) => header.order < needed,
            Err(fault) => *fault == Fault::Zeros,
        }
    }

    /// Whether a start would read it, and nothing says where its frames end.
    fn is_endless(&self, needed: u64, ends: &BTreeMap<u64, u64>) -> bool {
        let order = self.header.as_ref().map(|header| header.order);
        order.is_ok_and(|order| order >= needed && !ends.contains_key(&order))
    }

    /// Where its frames end, where these are its bytes. A free file is believed as far as its
    /// frames are whole: a later use that was torn may be over the rest, without its header. In
    /// one that a start may read and whose end is unknown, nothing is stale.
    fn end(&self, needed: u64, ends: &BTreeMap<u64, u64>, bytes: &Reading) -> u64 {
        let header = self.header.as_ref().ok();
        let end = header.and_then(|header| ends.get(&header.order)).copied();
        if !self.is_free(needed) {
            return end.unwrap_or(u64::MAX);
        }
        // Where the device does not give it all, the sessions of its frames are unknown.
        let believed = header.filter(|_| !bytes.holes.any());
        believed.map_or(0, |header| end.unwrap_or(0).min(whole_to(&bytes.bytes, header.salt)))
    }
}

/// Zeroes in one file of the journal the `parts` of its frames that are to go, and what other uses
/// left behind the frames. A write that fails is reported at once.
fn zero_file(
    used: &Used,
    needed: u64,
    ends: &BTreeMap<u64, u64>,
    parts: impl Fn(&[u8]) -> Vec<(usize, usize)>,
    failed: impl FnOnce(),
) -> io::Result<()> {
    let file = &*used.file;
    let read = read_around(file, 0, u64::MAX)?;
    let end = used.end(needed, ends, &read);
    let Reading { bytes, holes } = read;
    let end = end.max(journal::FRAMES_AT).min(bytes.len() as u64) as usize;
    let parts = parts(bytes.get(..end).unwrap_or_default());
    let stale_to = if planted(Defect::ZeroFramesAlone) { end } else { bytes.len() };
    let stale = (end..stale_to).step_by(BLOCK_BYTES);
    let stale = stale.map(|at| (at, bytes.len().min(at + BLOCK_BYTES)));
    let left = parts.into_iter().chain(stale).filter(|(from, to)| {
        bytes.get(*from..*to).unwrap_or_default().iter().any(|byte| *byte != 0)
    });
    write_zeros(file, left).inspect_err(|_| failed())?;
    if holes.touch(journal::FRAMES_AT, journal::FRAMES_AT.max(end as u64)) {
        // What cannot be read cannot be shown to be gone.
        let (byte_offset, fault) = (journal::FRAMES_AT, Fault::Unreadable);
        return Err(LogError::Fault { byte_offset, fault }.into());
    }
    Ok(())
}

/// Writes zeros over these parts of a file, durably.
fn write_zeros(file: &dyn File, parts: impl Iterator<Item = (usize, usize)>) -> io::Result<()> {
    let mut changed = false;
    for (from, to) in parts {
        assert!(from < to, "a part that is zeroed has bytes");
        file.write_at(from as u64, &vec![0; to - from])?;
        changed = true;
    }
    if changed && !planted(Defect::AnswerBeforeZeros) { file.sync() } else { Ok(()) }
}
