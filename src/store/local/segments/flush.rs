//! Flushing: writes acknowledged frames to the sessions' segments, makes them durable, records them
//! in `settled/`, and only then frees journal files. Starts the sealing of full segments. It must
//! not be called on the path of an append.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use super::super::{
    catalogue::sessions::FEW_SESSIONS_MAX,
    session::{EntryState, LoadedSession, opened::index_entry},
    wait::WaitOutcome,
};
use super::Segments;
use crate::{
    env::{
        File,
        planted::{Defect, is_planted},
        sync::atomic::Ordering,
    },
    event::{Lsn, Position, SessionHash},
    log::{
        Encryptor, Entry, Frame, FrameHeader, KeyNumber, SegmentEntry,
        segment::{self, FRAMES_AT, FrameIndex, SegmentHeader},
    },
};

/// Bytes of frames collected for one write.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes of frames encoded per lock of their session.
const PART_BYTES: usize = 32 << 10;
/// Bytes that a flush may write for each byte that concurrent appends write.
const PACE: u64 = 2;
/// Bytes that a flush may write beyond what [`PACE`] allows: a few writes.
const PACE_AHEAD_BYTES: u64 = 4 * WRITE_BYTES as u64;
/// Poll interval while throttled to the pace of writers; the throttle ends once no append arrives
/// within it.
const PACE_LOOK: Duration = Duration::from_millis(1);

/// Result of a flush for one session, not yet durable.
struct WrittenSegments {
    session: Arc<LoadedSession>,
    /// Entry with the segments after the flush.
    entry: Entry,
    path: String,
    salt: u64,
    new: Vec<FrameIndex>,
    /// Segment file to be synced; `None` if one sync of everything follows, or if it was synced.
    file: Option<Box<dyn File>>,
    synced: bool,
    /// Number of the session's unflushed frames that were written.
    frames: usize,
    created: bool,
}

/// Writer of a flush, throttled to the pace of concurrent appends, since they wait for its writes.
struct PacedWriter<'a> {
    segments: &'a Segments,
    /// Buffer in which a write is assembled.
    buffer: Vec<u8>,
    /// Journal bytes written when the flush started.
    began: u64,
    done: u64,
    /// True while concurrent appends arrive.
    paced: bool,
}

impl PacedWriter<'_> {
    /// Writes the buffer, and waits while the flush is ahead of the pace.
    fn write(&mut self, file: &dyn File, at: u64) -> io::Result<u64> {
        let bytes = self.buffer.len() as u64;
        file.write_at(at, &self.buffer)?;
        file.start_writeback(at, bytes);
        self.buffer.clear();
        self.done += bytes;
        while self.is_ahead() {
            self.wait_for_appends();
        }
        Ok(at + bytes)
    }

    fn is_ahead(&self) -> bool {
        let written = self.segments.sessions.journal.written_bytes().saturating_sub(self.began);
        // When the journal is nearly full, a fast flush is better than blocked appends.
        let room = self.segments.sessions.unflushed_bytes()
            < self.segments.context.options.journal_retained_bytes / 8 * 7;
        self.paced && room && self.done > PACE_AHEAD_BYTES + PACE * written
    }

    fn wait_for_appends(&mut self) {
        let before = self.segments.sessions.journal.written_bytes();
        self.paced = match self.segments.sessions.flusher.pause(PACE_LOOK) {
            WaitOutcome::Stopped => false,
            WaitOutcome::Woken => true,
            WaitOutcome::Elapsed => self.segments.sessions.journal.written_bytes() > before,
        };
    }
}

impl Segments {
    /// Flushes everything acknowledged; does not run the steps of erasures and redactions.
    pub(crate) fn flush_frames(&self, clean: bool, quiet: bool) -> io::Result<()> {
        let backlog = &self.sessions.backlog;
        let idle = backlog.count_dirty() == 0 && !backlog.has_touched();
        if idle && self.sessions.settled_is_current() && !clean && !self.context.is_count_due() {
            return Ok(());
        }
        self.context.check_writable()?;
        if backlog.count_dirty() > 0 {
            self.sessions.journal.record_start(&*self.sessions)?;
        }
        let _flushing = self.flushing.lock();
        self.context.check_writable()?;
        let written_before = self.sessions.journal.written_bytes();
        let place = self.sessions.journal.visible_location();
        if is_planted(Defect::RecycleBeforeFlushing) {
            self.sessions.journal.recycle(place.order);
        }
        let dirty = backlog.take_dirty();
        dirty.iter().for_each(|session| session.state().listed = false);
        let settled = self.write_sessions(&dirty).and_then(|(written, mut stuck)| {
            let written = self.sync_written(written, &mut stuck)?;
            self.record_durable(written);
            let (place, copied) = self.location_to_record(&stuck, place, written_before)?;
            self.sessions.flush_to(clean && stuck.is_empty(), place)?;
            Ok((stuck, copied))
        });
        self.sessions.reserve.record_write(settled.as_ref().err());
        let copied = match settled {
            Ok((stuck, copied)) => {
                self.relist_unflushed(stuck);
                copied
            }
            Err(error) => {
                self.relist_unflushed(dirty);
                tracing::warn!(%error, "a flush failed; the journal keeps what is acknowledged");
                return Err(error);
            }
        };
        self.sessions.record_flushed(written_before + copied);
        self.unlink_retired();
        self.seal_full_segments(dirty, quiet)
    }

    /// Lists the sessions with unflushed frames for the next flush.
    fn relist_unflushed(&self, sessions: Vec<Arc<LoadedSession>>) {
        let waiting: Vec<_> =
            sessions.into_iter().filter(|session| session.state().mark_listed()).collect();
        self.sessions.backlog.return_dirty(waiting);
    }

    /// Writes the unflushed frames; also returns the sessions whose segment could not be written.
    fn write_sessions(
        &self,
        dirty: &[Arc<LoadedSession>],
    ) -> io::Result<(Vec<WrittenSegments>, Vec<Arc<LoadedSession>>)> {
        let keep_open = dirty.len() <= FEW_SESSIONS_MAX;
        let sync_each = self.take_sync_each();
        let (began, paced) =
            (self.sessions.journal.written_bytes(), self.context.options.background);
        let mut writer = PacedWriter { segments: self, buffer: Vec::new(), began, done: 0, paced };
        let (mut written, mut stuck) = (Vec::new(), Vec::new());
        for session in dirty {
            if self.sessions.drop_discarded(session) {
                continue;
            }
            let one = self.write_session(session, &mut writer).and_then(|one| {
                let file = one.as_ref().and_then(|one| one.file.as_ref()).filter(|_| sync_each);
                file.map_or(Ok(()), |file| file.sync()).map(|()| one)
            });
            match one {
                Ok(None) => {}
                Ok(Some(mut one)) => {
                    one.synced = sync_each;
                    if sync_each || !keep_open {
                        one.file = None;
                    }
                    written.push(one);
                }
                Err(error) if concerns_whole_store(&error) => return Err(error),
                Err(error) => {
                    self.mark_unwritable(session, &error);
                    stuck.push(Arc::clone(session));
                }
            }
        }
        Ok((written, stuck))
    }

    /// Writes a session's unflushed frames to its segment.
    fn write_session(
        &self,
        session: &Arc<LoadedSession>,
        writer: &mut PacedWriter<'_>,
    ) -> io::Result<Option<WrittenSegments>> {
        let (mut entry, first, frames, failed, salt) = {
            let state = session.state();
            let Some(first) = state.unflushed.front() else { return Ok(None) };
            let last = state.entry.segments.last();
            let salt =
                state.opened.as_ref().zip(last).and_then(|(opened, last)| opened.salt_of(last));
            let failed = state.unwritable.is_some();
            (state.entry.clone(), first.header, state.unflushed.len(), failed, salt)
        };
        let cipher = self.cipher(session).map_err(io::Error::other)?;
        let key = cipher.as_ref().map(|cipher| cipher.number());
        let start = self.sessions.journal.start_number();
        let active = entry.segments.last().filter(|segment| {
            let room = segment.bytes < self.context.options.segment_bytes_max;
            // A segment without an event would get the same name as the next.
            let takes = room && !failed || segment.is_empty();
            segment.start == start && !segment.sealed && takes
        });
        let base = active.map_or(first.first_position.0, |segment| segment.base);
        let (path, salt, at, file, created) = match active {
            Some(segment) => {
                let base = Position(segment.base);
                let path = segment::path(session.hash, base, start, false);
                let file = self.context.env.storage.open(&path)?;
                let salt = match salt {
                    Some(salt) => salt,
                    None => SegmentHeader::read(&*file).map_err(io::Error::other)?.salt,
                };
                (path, salt, segment.bytes, file, false)
            }
            None => {
                let (path, salt, file) = self.create_segment(session, &first, start, key)?;
                (path, salt, FRAMES_AT, file, true)
            }
        };
        let (new, bytes) = self.context.keys.with_encryptor(cipher.as_ref(), |encryptor| {
            write_frames(session, frames, &*file, (salt, at), encryptor, writer)
        })?;
        assert_eq!(new.len(), frames, "every frame that waits is in the index");
        let segment = SegmentEntry { base, start, sealed: false, bytes, end: entry.tail };
        match entry.segments.last_mut().filter(|_| !created) {
            Some(last) => *last = segment,
            None => entry.segments.push(segment),
        }
        let session = Arc::clone(session);
        debug_assert!(bytes > at, "a session that waits has a frame");
        let (file, synced) = (Some(file), false);
        Ok(Some(WrittenSegments { session, entry, path, salt, new, file, synced, frames, created }))
    }

    /// Creates a segment file, or reuses one left by a failed attempt of this start.
    fn create_segment(
        &self,
        session: &LoadedSession,
        first: &FrameHeader,
        start: u64,
        key: Option<KeyNumber>,
    ) -> io::Result<(String, u64, Box<dyn File>)> {
        let storage = &self.context.env.storage;
        let header = SegmentHeader {
            store: self.context.store.id,
            salt: u64::from_le_bytes(self.context.env.random()),
            session: session.hash,
            base: first.first_position,
            start,
            first_lsn: first.first_lsn,
            chain: first.chain,
            control_chain: first.control_chain,
            sealed: false,
            key,
        };
        let path = self.new_segment_path(session, header.base, start, false)?;
        self.make_directory(session.hash)?;
        let file = match storage.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => storage.open(&path)?,
            other => other?,
        };
        file.write_at(0, &header.encode())?;
        Ok((path, header.salt, file))
    }

    /// Returns the path for a new segment; fails if a segment of the session or a file to be
    /// unlinked has that path.
    pub(crate) fn new_segment_path(
        &self,
        session: &LoadedSession,
        base: Position,
        start: u64,
        sealed: bool,
    ) -> io::Result<String> {
        let path = segment::path(session.hash, base, start, sealed);
        let named =
            |one: &SegmentEntry| (one.base, one.start, one.sealed) == (base.0, start, sealed);
        if session.state().entry.segments.iter().any(named) {
            return Err(io::Error::other("a segment of that name is in use"));
        }
        if self.sessions.backlog.is_retired(&path) {
            return Err(io::Error::other("a file of that name is about to be unlinked"));
        }
        Ok(path)
    }

    fn make_directory(&self, session: SessionHash) -> io::Result<()> {
        let directory = segment::directory(session);
        if self.directories.lock().insert(directory.clone()) {
            let made =
                self.context.env.storage.create_dir(&directory).and_then(|()| {
                    self.context.env.storage.sync_dir(super::super::layout::SEGMENTS)
                });
            return made.inspect_err(|_| {
                self.directories.lock().remove(&directory);
            });
        }
        Ok(())
    }

    /// Syncs the written segments; sessions whose file cannot be synced go to `stuck`.
    fn sync_written(
        &self,
        written: Vec<WrittenSegments>,
        stuck: &mut Vec<Arc<LoadedSession>>,
    ) -> io::Result<Vec<WrittenSegments>> {
        if written.iter().any(|one| one.file.is_none() && !one.synced) {
            let synced = self.context.env.storage.sync_all();
            self.sync_each.store(synced.is_err(), Ordering::Release);
            return synced.map(|()| written);
        }
        let mut directories: BTreeMap<String, Result<(), String>> = BTreeMap::new();
        let mut durable = Vec::new();
        for one in written {
            let file = one.file.as_ref().map_or(Ok(()), |file| file.sync());
            let synced = file.and_then(|()| {
                if !one.created {
                    return Ok(());
                }
                let directory = segment::directory(one.session.hash);
                let sync = |error: io::Error| error.to_string();
                let known = directories.entry(directory).or_insert_with_key(|directory| {
                    self.context.env.storage.sync_dir(directory).map_err(sync)
                });
                known.clone().map_err(io::Error::other)
            });
            match synced {
                Ok(()) => durable.push(one),
                Err(error) => {
                    self.mark_unwritable(&one.session, &error);
                    stuck.push(one.session);
                }
            }
        }
        Ok(durable)
    }

    /// Records the durable writes: drops frames from memory and updates the entries' segments.
    fn record_durable(&self, written: Vec<WrittenSegments>) {
        let mut again = Vec::new();
        for one in written {
            let mut locked = one.session.state();
            let state = &mut *locked;
            let done = state.take_flushed(one.frames);
            state.entry.segments.clone_from(&one.entry.segments);
            state.unwritable = None;
            if let (Some(opened), Some(file)) = (&mut state.opened, one.entry.segments.last()) {
                opened.add_flushed(file, &one.path, one.salt, &one.new);
            }
            let mut settled = one.entry;
            settled.damage.clone_from(&state.entry.damage);
            settled.record_use(state.entry.used_at());
            if state.unflushed.is_empty() {
                state.durable = EntryState::Settled;
            } else {
                state.durable = EntryState::Behind(Box::new(settled));
                if state.mark_listed() {
                    again.push(Arc::clone(&one.session));
                }
            }
            drop(locked);
            // Freeing many frames takes long, so the lock is released before.
            drop(done);
            self.sessions.backlog.add_touched(&one.session);
        }
        self.sessions.mark_changed_entries();
        self.sessions.backlog.return_dirty(again);
    }
}

/// Writes the first `frames` unflushed frames of a session to its segment, from byte `at` on, in
/// parts: appends wait for the session's lock no longer than a part takes. Returns their index and
/// the end. Only the flush thread removes frames, so their order stays the same.
fn write_frames(
    session: &LoadedSession,
    frames: usize,
    file: &dyn File,
    (salt, mut at): (u64, u64),
    encryptor: Option<Encryptor<'_>>,
    writer: &mut PacedWriter<'_>,
) -> io::Result<(Vec<FrameIndex>, u64)> {
    writer.buffer.clear();
    let mut new = Vec::with_capacity(frames);
    while new.len() < frames {
        let (state, part) = (session.state(), writer.buffer.len() + PART_BYTES);
        for held in state.unflushed.range(new.len()..frames) {
            if writer.buffer.len() >= part {
                break;
            }
            let header = FrameHeader { copy_lsn: Lsn(0), ..held.header };
            let mut frame = Frame { header, payload: held.payload.clone() };
            if let Some(encryptor) = encryptor {
                frame = frame.encrypt(encryptor);
            }
            new.push(index_entry(at + writer.buffer.len() as u64, &frame.header, held.first_time));
            frame.header.write(salt, &frame.payload, &mut writer.buffer);
        }
        drop(state);
        if writer.buffer.len() >= WRITE_BYTES || new.len() == frames {
            at = writer.write(file, at)?;
        }
    }
    Ok((new, at))
}

/// Returns true if a write error is not specific to a file: space, limits, read-only file system.
pub(crate) fn concerns_whole_store(error: &io::Error) -> bool {
    const TOO_MANY_OPEN_FILES: [i32; 2] = [23, 24];
    let full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::FileTooLarge
    );
    full || error.raw_os_error().is_some_and(|number| TOO_MANY_OPEN_FILES.contains(&number))
}
