//! Settling: what the journal acknowledged is written to the sessions' own segments, made durable
//! there, named in `settled/`, and only then are journal files free again. Also sealing of full
//! segments. It must not be on the path of an append.

use std::{collections::HashSet, io, sync::Arc};

use super::{
    Shared, lock,
    read::index_of,
    session::{Held, Session},
};
use crate::{
    env::File,
    event::{Lsn, Position, SessionHash, limits},
    log::{
        Chain, Delta, Entry, Fault, Frame, LogError, Record, SegmentEntry,
        journal::read as read_bytes,
        scan::{Piece, scan},
        seal::{self, Sealed},
        segment::{self, FRAMES_AT, FrameIndex, SegmentHeader},
    },
};

/// Up to so many files are synced one by one; more of them by one `syncfs`.
const SYNCED_ONE_BY_ONE_MAX: usize = 32;
/// So many small segments of one session, left by restarts, are sealed into one.
const SMALL_SEGMENTS_MAX: usize = 8;

/// What one settling wrote of a session, not yet synced.
struct Written {
    session: Arc<Session>,
    /// The entry with the segments as they will be.
    entry: Entry,
    path: String,
    salt: u64,
    new: Vec<FrameIndex>,
    file: Option<Box<dyn File>>,
    /// Frames written: what is settled of the session's waiting frames.
    frames: usize,
    created: bool,
}

/// A segment replaced by a sealed one: unlinked once neither settled file names it.
pub(super) struct Retired {
    pub(super) path: String,
    /// Settlings still to come before nobody names it.
    pub(super) settlings: u8,
}

impl Shared {
    /// Settles everything acknowledged so far.
    pub(super) fn settle(&self, clean: bool) -> io::Result<()> {
        if self.frozen {
            return Ok(());
        }
        let idle = lock(&self.dirty).is_empty() && lock(&self.touched).is_empty();
        if idle && lock(&self.slots).even() && !clean {
            return Ok(());
        }
        if !lock(&self.dirty).is_empty() {
            self.journal.begin(&|round, result| self.outcome(round, result))?;
        }
        let _settling = lock(&self.settling);
        let written_before = self.journal.written();
        let place = self.journal.place();
        let dirty = std::mem::take(&mut *lock(&self.dirty));
        let settled = self.write_sessions(&dirty).and_then(|written| {
            self.sync_written(&written)?;
            self.account(written);
            let delta = Delta {
                clean,
                start: self.journal.start(),
                order: place.order,
                byte_offset: place.byte_offset,
                lsn: place.lsn.0,
                at: self.env.clock.now().0,
                entries: Vec::new(),
            };
            let mut slots = lock(&self.slots);
            slots.write(&self.env, delta, || self.all_settled())?;
            self.journal.recycle(slots.recyclable().order);
            Ok(())
        });
        if let Err(error) = settled {
            self.list_again(dirty);
            tracing::warn!(%error, "settling failed; the journal keeps what is acknowledged");
            return Err(error);
        }
        *lock(&self.settled_written) = written_before;
        self.unlink_retired();
        self.seal_full(&dirty)
    }

    /// Every session with frames that wait is listed for the next settling.
    fn list_again(&self, sessions: Vec<Arc<Session>>) {
        let waiting = sessions.into_iter().filter(|session| !session.state().unsettled.is_empty());
        let waiting: Vec<_> = waiting.collect();
        lock(&self.dirty).extend(waiting);
    }

    fn all_settled(&self) -> Vec<Entry> {
        let sessions = self.catalogue().all();
        sessions.iter().filter_map(|session| session.state().settled_entry()).collect()
    }

    fn write_sessions(&self, dirty: &[Arc<Session>]) -> io::Result<Vec<Written>> {
        let keep_open = dirty.len() <= SYNCED_ONE_BY_ONE_MAX;
        let mut written = Vec::new();
        for session in dirty {
            if let Some(mut one) = self.write_session(session)? {
                if !keep_open {
                    one.file = None;
                }
                written.push(one);
            }
        }
        Ok(written)
    }

    /// Writes a session's waiting frames to its segment.
    fn write_session(&self, session: &Arc<Session>) -> io::Result<Option<Written>> {
        let (entry, frames) = {
            let state = session.state();
            (state.entry.clone(), state.unsettled.iter().cloned().collect::<Vec<Held>>())
        };
        let Some(first) = frames.first() else { return Ok(None) };
        let start = self.journal.start();
        let active = entry.segments.last().filter(|segment| {
            segment.start == start
                && !segment.sealed
                && segment.bytes < self.options.segment_bytes_max
        });
        let (path, salt, mut at, file, created) = match active {
            Some(segment) => {
                let base = Position(segment.base);
                let path = segment::path(session.hash, base, start, false);
                let file = self.env.storage.open(&path)?;
                let header = SegmentHeader::of(&*file).map_err(io::Error::other)?;
                (path, header.salt, segment.bytes, file, false)
            }
            None => {
                let (path, salt, file) = self.create_segment(session, first, start)?;
                (path, salt, FRAMES_AT, file, true)
            }
        };
        let base = active.map_or(first.header.first_position.0, |segment| segment.base);
        let begin = at;
        let (mut buffer, mut new) = (Vec::new(), Vec::new());
        for held in &frames {
            new.push(index_of(at, held));
            held.header.write(salt, &held.payload, &mut buffer);
            at = begin + buffer.len() as u64;
        }
        file.write_at(begin, &buffer)?;
        let segment = SegmentEntry { base, start, sealed: false, bytes: at, end: entry.tail };
        let mut entry = entry;
        match entry.segments.last_mut().filter(|_| !created) {
            Some(last) => *last = segment,
            None => entry.segments.push(segment),
        }
        let session = Arc::clone(session);
        let (frames, file) = (frames.len(), Some(file));
        Ok(Some(Written { session, entry, path, salt, new, file, frames, created }))
    }

    /// Creates a segment file, or begins one anew that an earlier try of this start left.
    fn create_segment(
        &self,
        session: &Session,
        first: &Held,
        start: u64,
    ) -> io::Result<(String, u64, Box<dyn File>)> {
        let storage = &self.env.storage;
        let header = SegmentHeader {
            store: self.store.id,
            salt: u64::from_le_bytes(self.env.random()),
            session: session.hash,
            base: first.header.first_position,
            start,
            first_lsn: first.header.first_lsn,
            chain: first.header.chain,
            control_chain: first.header.control_chain,
            sealed: false,
        };
        let path = segment::path(session.hash, header.base, start, false);
        self.make_directory(session.hash)?;
        let file = match storage.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => storage.open(&path)?,
            other => other?,
        };
        file.write_at(0, &header.encode())?;
        Ok((path, header.salt, file))
    }

    fn make_directory(&self, session: SessionHash) -> io::Result<()> {
        let directory = segment::directory(session);
        if lock(&self.directories).insert(directory.clone()) {
            let made = self
                .env
                .storage
                .create_dir(&directory)
                .and_then(|()| self.env.storage.sync_dir(super::layout::SEGMENTS));
            return made.inspect_err(|_| {
                lock(&self.directories).remove(&directory);
            });
        }
        Ok(())
    }

    fn sync_written(&self, written: &[Written]) -> io::Result<()> {
        if written.iter().any(|one| one.file.is_none()) {
            return self.env.storage.sync_all();
        }
        for file in written.iter().filter_map(|one| one.file.as_ref()) {
            file.sync()?;
        }
        let created = written.iter().filter(|one| one.created);
        let directories: HashSet<String> =
            created.map(|one| segment::directory(one.session.hash)).collect();
        for directory in directories {
            self.env.storage.sync_dir(&directory)?;
        }
        Ok(())
    }

    /// What was written is durable: the frames leave memory, the segments are believed.
    fn account(&self, written: Vec<Written>) {
        let mut again = Vec::new();
        for one in written {
            let mut state = one.session.state();
            let state = &mut *state;
            state.unsettled.drain(..one.frames.min(state.unsettled.len()));
            state.entry.segments.clone_from(&one.entry.segments);
            state.ever_settled = true;
            if let (Some(opened), Some(file)) = (&mut state.opened, one.entry.segments.last()) {
                opened.settled(file, &one.path, one.salt, &one.new);
            }
            let mut settled = one.entry;
            settled.damage.clone_from(&state.entry.damage);
            if state.unsettled.is_empty() {
                state.settled = None;
            } else {
                state.settled = Some(Box::new(settled));
                again.push(Arc::clone(&one.session));
            }
            lock(&self.touched).push(Arc::clone(&one.session));
        }
        let mut slots = lock(&self.slots);
        for session in std::mem::take(&mut *lock(&self.touched)) {
            slots.touch(&session);
        }
        lock(&self.dirty).extend(again);
    }

    fn unlink_retired(&self) {
        let mut retired = lock(&self.retired);
        retired.iter_mut().for_each(|one| one.settlings = one.settlings.saturating_sub(1));
        retired.retain(|one| {
            let gone = one.settlings == 0;
            if gone && let Err(error) = self.env.storage.remove(&one.path) {
                tracing::warn!(path = one.path, %error, "a replaced segment could not be unlinked");
            }
            !gone
        });
    }

    /// Seals the full segments of sessions that were just settled.
    fn seal_full(&self, sessions: &[Arc<Session>]) -> io::Result<()> {
        for session in sessions {
            while let Some(run) = self.full_run(session) {
                if !self.seal_run(session, &run)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adjacent segments that are worth sealing: one that is full, or many small ones. The active
    /// segment is never among them, nor any segment of a damaged session.
    fn full_run(&self, session: &Session) -> Option<Vec<SegmentEntry>> {
        let state = session.state();
        if !state.entry.damage.is_empty() {
            return None;
        }
        let segments = &state.entry.segments;
        let full = |segment: &SegmentEntry| segment.bytes >= self.options.segment_bytes_max;
        let active = segments.last().filter(|last| !full(last)).map_or(0, |_| 1);
        let old = segments.get(..segments.len() - active)?;
        let mut run: Vec<SegmentEntry> = Vec::new();
        for segment in old {
            let bytes: u64 = run.iter().map(|one| one.bytes).sum();
            if segment.sealed || bytes >= self.options.segment_bytes_max {
                if bytes >= self.options.segment_bytes_max || run.len() >= SMALL_SEGMENTS_MAX {
                    break;
                }
                run.clear();
                continue;
            }
            run.push(segment.clone());
        }
        let bytes: u64 = run.iter().map(|one| one.bytes).sum();
        let worth = bytes >= self.options.segment_bytes_max || run.len() >= SMALL_SEGMENTS_MAX;
        worth.then_some(run)
    }

    /// Writes a run of segments as one sealed segment, proves it against the chain, and lets it
    /// take their place. Answers whether it did.
    fn seal_run(&self, session: &Arc<Session>, run: &[SegmentEntry]) -> io::Result<bool> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(false) };
        let sealed = match self.encode_sealed(session, run) {
            Ok(sealed) => sealed,
            Err(LogError::Io(error)) => return Err(error),
            Err(error) => {
                tracing::warn!(session = %session.hash, %error, "a segment is not sealed: unreadable");
                return Ok(false);
            }
        };
        let path = segment::path(session.hash, Position(first.base), first.start, true);
        let storage = &self.env.storage;
        let file = match storage.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.remove(&path)?;
                storage.create(&path)?
            }
            other => other?,
        };
        file.write_at(0, &sealed)?;
        file.sync()?;
        storage.sync_dir(&segment::directory(session.hash))?;
        let entry = SegmentEntry {
            base: first.base,
            start: first.start,
            sealed: true,
            bytes: sealed.len() as u64,
            end: last.end,
        };
        let proven = SegmentHeader::of(&*file)
            .and_then(|header| Sealed::of(&*file, &header, entry.bytes))
            .is_ok_and(|tables| tables.end == Position(entry.end));
        if !proven {
            tracing::warn!(path, "a sealed segment does not read back; the old ones stay");
            return Ok(false);
        }
        self.swap(session, run, entry);
        Ok(true)
    }

    fn swap(&self, session: &Arc<Session>, run: &[SegmentEntry], sealed: SegmentEntry) {
        let mut state = session.state();
        let state = &mut *state;
        let entries = [Some(&mut state.entry), state.settled.as_deref_mut()];
        for entry in entries.into_iter().flatten() {
            let at = entry.segments.iter().position(|segment| Some(segment) == run.first());
            if let Some(at) = at {
                entry.segments.splice(at..at + run.len(), [sealed.clone()]);
            }
        }
        // The tables in memory are those of the old files: read anew when next asked for.
        state.opened = None;
        let paths = run
            .iter()
            .map(|old| segment::path(session.hash, Position(old.base), old.start, old.sealed));
        let retired = paths.map(|path| Retired { path, settlings: 3 });
        lock(&self.retired).extend(retired);
        lock(&self.touched).push(Arc::clone(session));
    }

    fn encode_sealed(&self, session: &Session, run: &[SegmentEntry]) -> Result<Vec<u8>, LogError> {
        let mut header: Option<SegmentHeader> = None;
        let mut records: Vec<(Lsn, Record)> = Vec::new();
        for entry in run {
            let path = segment::path(session.hash, Position(entry.base), entry.start, entry.sealed);
            let file = self.env.storage.open_read(&path)?;
            let found = SegmentHeader::of(&*file)?;
            header.get_or_insert(found);
            for frame in whole_frames(&*file, &found, entry)? {
                let fault = |fault| LogError::Fault { byte_offset: 0, fault };
                records.extend(frame.records().map_err(fault)?);
            }
        }
        let Some(first) = header else {
            return Err(LogError::Fault { byte_offset: 0, fault: Fault::Short });
        };
        let salt = u64::from_le_bytes(self.env.random());
        let header = SegmentHeader { salt, sealed: true, ..first };
        let end = run.last().map_or(0, |last| last.end);
        let end_chain = self.chain_at(session, run)?;
        prove(&header, &records, end, end_chain)?;
        let live = self.env.clock.now().plus_micros(-limits::BATCH_KEY_MICROS);
        Ok(seal::seal(header, &records, live))
    }

    /// The chains that must stand behind a run: those before the next segment, or the entry's.
    fn chain_at(&self, session: &Session, run: &[SegmentEntry]) -> Result<Option<Chain>, LogError> {
        let next = {
            let state = session.state();
            let segments = &state.entry.segments;
            let at = segments.iter().position(|segment| Some(segment) == run.last());
            at.and_then(|at| segments.get(at + 1).cloned())
        };
        let Some(next) = next else { return Ok(None) };
        let path = segment::path(session.hash, Position(next.base), next.start, next.sealed);
        let file = self.env.storage.open_read(&path)?;
        SegmentHeader::of(&*file).map(|header| Some(header.chain))
    }
}

/// The frames of a segment, all whole, or the first fault.
pub(super) fn whole_frames(
    file: &dyn File,
    header: &SegmentHeader,
    entry: &SegmentEntry,
) -> Result<Vec<Frame>, LogError> {
    let end = match entry.sealed {
        false => entry.bytes,
        true => seal::frames_end(&Sealed::of(file, header, entry.bytes)?.index),
    };
    let region = read_bytes(file, FRAMES_AT, end)?;
    let found = scan(header.salt, &region, FRAMES_AT);
    if let Some((fault, _)) = found.rest {
        return Err(LogError::Fault { byte_offset: found.end, fault });
    }
    let whole = |piece| match piece {
        Piece::Frame { frame, .. } => Ok(frame),
        Piece::Bad { byte_offset, fault, .. } => Err(LogError::Fault { byte_offset, fault }),
    };
    found.pieces.into_iter().map(whole).collect()
}

/// Follows the chain over records that are to be sealed.
fn prove(
    header: &SegmentHeader,
    records: &[(Lsn, Record)],
    end: u64,
    end_chain: Option<Chain>,
) -> Result<(), LogError> {
    let (mut position, mut chain) = (header.base, header.chain);
    for (_, record) in records.iter().filter(|(_, record)| record.is_event()) {
        chain = chain.after(position.0, record);
        position = position.plus(1);
    }
    let fits = position == Position(end) && end_chain.is_none_or(|expected| expected == chain);
    let fault = LogError::Fault { byte_offset: 0, fault: Fault::Chain };
    if fits { Ok(()) } else { Err(fault) }
}
