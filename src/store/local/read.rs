//! Opening a session: the tables of its files are read when somebody first asks for it. Nothing
//! past the durable point is ever seen. It must not write, and must not slice (`slice` does).

use std::{io, sync::Arc, time::Duration};

use super::{
    Shared, blocking,
    layout::quarantine,
    lock,
    names::Names,
    session::{Held, Session, State},
    settle::whole_frames,
};
use crate::{
    env::{
        File,
        planted::{Defect, planted},
        sync::MutexGuard,
        unreadable,
    },
    event::{Position, Range, SessionHash, Timestamp},
    log::{
        Cipher, Entry, Fault, FrameHeader, KeyNumber, KnownBatch, LogError, SegmentEntry,
        reading::read_around,
        scan::{Piece, scan_file},
        seal::Sealed,
        segment::{self, FRAMES_AT, FrameIndex, SegmentHeader},
    },
    store::{Gap, StoreError, StoreResult},
};

/// What is copied of a damaged place, at most.
const COPY_BYTES: u64 = 64 << 10;

/// A session's files and names, in memory while it is in use.
pub(super) struct Opened {
    pub(super) segments: Vec<OpenSegment>,
    /// Names in segments that are not sealed, and in frames not settled yet.
    pub(super) names: Names,
    /// When somebody asked for it last, by the clock that never goes back.
    pub(super) used_at: Duration,
    /// What the device did not give of its files: the next to open them may get it.
    pub(super) unread: Vec<Gap>,
}

/// What is wrong with some positions of a session.
pub(super) struct Flaw {
    pub(super) range: Range,
    pub(super) reason: String,
    /// The device did not give them: another time it may.
    pub(super) unread: bool,
}

impl Flaw {
    pub(super) fn gap(self) -> Gap {
        Gap { range: self.range, reason: self.reason, accepted_at: None }
    }
}

/// A segment that can be read.
pub(super) struct OpenSegment {
    pub(super) file: SegmentEntry,
    pub(super) path: String,
    pub(super) salt: u64,
    pub(super) index: Vec<FrameIndex>,
    sealed: Option<Sealed>,
}

impl OpenSegment {
    pub(super) fn sealed(file: SegmentEntry, path: String, salt: u64, sealed: Sealed) -> Self {
        Self { file, path, salt, index: sealed.index.clone(), sealed: Some(sealed) }
    }
}

impl Opened {
    /// The salt of a segment, if it is open.
    pub(super) fn salt(&self, segment: &SegmentEntry) -> Option<u64> {
        let known = self.segments.iter().rev().find(|open| open.file == *segment);
        known.map(|open| open.salt)
    }

    /// That of a session without a file, at `now`.
    pub(super) fn new(now: Duration) -> Self {
        let (segments, unread) = (Vec::new(), Vec::new());
        Self { segments, names: Names::default(), used_at: now, unread }
    }

    /// A sealed segment took the place of a run of others; its names are in its own table, if it
    /// has one.
    pub(super) fn sealed(&mut self, run: &[SegmentEntry], sealed: OpenSegment) {
        let at = self.segments.iter().position(|segment| Some(&segment.file) == run.first());
        let Some(at) = at.filter(|at| at + run.len() <= self.segments.len()) else { return };
        let range = Range::new(Position(sealed.file.base), Position(sealed.file.end));
        if sealed.sealed.as_ref().is_some_and(|sealed| !sealed.nameless) {
            self.names.forget(range);
        }
        self.segments.splice(at..at + run.len(), [sealed]);
    }

    /// Where the event of that id hash lies.
    pub(super) fn find(&mut self, hash: &[u8; 16]) -> Option<Position> {
        let sealed = self.segments.iter().rev().filter_map(|segment| segment.sealed.as_ref());
        let known = self.names.find(hash);
        known.or_else(|| sealed.into_iter().find_map(|sealed| sealed.find(hash)))
    }

    /// The batch of that key, if it was written at or after `from`.
    pub(super) fn batch(&self, key: &str, from: Timestamp) -> Option<&KnownBatch> {
        let sealed = self.segments.iter().filter_map(|segment| segment.sealed.as_ref());
        let sealed = sealed.flat_map(|sealed| &sealed.batches);
        let known = self.names.batches.get(key).map(|(time, batch)| (time, batch));
        known
            .into_iter()
            .chain(sealed.map(|(time, batch)| (time, batch)))
            .find(|(time, batch)| batch.key == key && **time >= from)
            .map(|(_, batch)| batch)
    }

    /// A settled segment grew, or is new.
    pub(super) fn settled(
        &mut self,
        file: &SegmentEntry,
        path: &str,
        salt: u64,
        new: &[FrameIndex],
    ) {
        let known = self.segments.last_mut().filter(|segment| segment.path == path);
        match known {
            Some(segment) => {
                segment.file = file.clone();
                segment.index.extend_from_slice(new);
            }
            None => self.segments.push(OpenSegment {
                file: file.clone(),
                path: path.to_owned(),
                salt,
                index: new.to_vec(),
                sealed: None,
            }),
        }
    }
}

/// The index entry of a frame at a byte offset.
pub(super) fn index_of(
    byte_offset: u64,
    header: &FrameHeader,
    first_time: Timestamp,
) -> FrameIndex {
    FrameIndex {
        byte_offset,
        stride: u32::try_from(header.stride()).unwrap_or(u32::MAX),
        first_position: header.first_position,
        events: header.events,
        count: header.count,
        first_lsn: header.first_lsn,
        first_time,
    }
}

impl Shared {
    /// The session as a reader may know it, its files open. They are read while nobody waits for
    /// its lock: the committer takes it to make frames visible.
    pub(super) fn opened<'a>(
        &self,
        session: &'a Arc<Session>,
    ) -> StoreResult<MutexGuard<'a, State>> {
        let opened = self.opened_when(session, &|| session.visible().map(Some))?;
        opened.ok_or_else(|| session.not_found())
    }

    /// [`Self::opened`] for its forks, whoever else may not know it; `None` once it was erased, or
    /// went because no fork needs it any more.
    pub(super) fn opened_kept<'a>(
        &self,
        session: &'a Arc<Session>,
    ) -> StoreResult<Option<MutexGuard<'a, State>>> {
        let stays = |state: &MutexGuard<'_, State>| {
            let entry = &state.entry;
            !entry.is_discarded() && !entry.reclaimed || self.is_needed(session.hash)
        };
        self.opened_when(session, &|| Ok(session.kept().filter(stays)))
    }

    fn opened_when<'a>(
        &self,
        session: &'a Arc<Session>,
        enter: &dyn Fn() -> StoreResult<Option<MutexGuard<'a, State>>>,
    ) -> StoreResult<Option<MutexGuard<'a, State>>> {
        loop {
            let (segments, waiting, cipher) = {
                let Some(mut state) = enter()? else { return Ok(None) };
                if let Some(opened) = &mut state.opened {
                    opened.used_at = self.env.clock.monotonic();
                    return Ok(Some(state));
                }
                let waiting: Vec<Arc<Held>> = state.unsettled.iter().cloned().collect();
                let cipher = self.key_of(session, &mut state)?;
                (state.entry.segments.clone(), waiting, cipher)
            };
            let load = || self.load(session.hash, cipher.as_deref(), &segments, &waiting);
            let (mut opened, flaws) = blocking(load)?;
            let Some(mut state) = enter()? else { return Ok(None) };
            // Settled, sealed or opened meanwhile: what was read is not how it is now.
            let same = state.entry.segments == segments && state.unsettled.len() == waiting.len();
            if same && state.opened.is_none() {
                opened.unread = self.note_all(session, &mut state, flaws);
                state.opened = Some(opened);
                lock(&self.in_use).push_back(Arc::clone(session));
            }
        }
    }

    /// Reads the tables of a session's files, and the names in the frames that wait.
    fn load(
        &self,
        session: SessionHash,
        cipher: Option<&Cipher>,
        segments: &[SegmentEntry],
        waiting: &[Arc<Held>],
    ) -> StoreResult<(Opened, Vec<Flaw>)> {
        let mut opened = Opened::new(self.env.clock.monotonic());
        let mut flaws = Vec::new();
        for file in segments {
            match self.open_segment((session, cipher), file, &mut opened.names) {
                Ok((segment, found)) => {
                    flaws.extend(found);
                    opened.segments.push(segment);
                }
                Err(LogError::Io(source)) if !is_of_the_file(&source) => {
                    return Err(StoreError::Io { doing: "opening a segment", source });
                }
                Err(error) => {
                    let range = Range::new(Position(file.base), Position(file.end));
                    let reason = format!("segment {} is unreadable: {error}", file.base);
                    flaws.push(Flaw { range, reason, unread: error.is_unreadable() });
                }
            }
        }
        for held in waiting {
            let frame = held.frame();
            if let Ok(records) = frame.records() {
                opened.names.add(held.header.first_position, &records);
            }
        }
        if planted(Defect::DropIdempotency) {
            opened.names = Names::default();
        }
        Ok((opened, flaws))
    }

    fn open_segment(
        &self,
        (session, cipher): (SessionHash, Option<&Cipher>),
        entry: &SegmentEntry,
        names: &mut Names,
    ) -> Result<(OpenSegment, Vec<Flaw>), LogError> {
        let path = segment::path(session, Position(entry.base), entry.start, entry.sealed);
        let file = self.env.storage.open_read(&path)?;
        let header = SegmentHeader::of(&*file)?;
        let misplaced = header.store != self.store.id
            || header.session != session
            || (header.base.0, header.start, header.sealed)
                != (entry.base, entry.start, entry.sealed);
        if misplaced {
            return Err(LogError::Fault { byte_offset: 0, fault: Fault::Misplaced });
        }
        let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
        header.check_key(cipher.map(Cipher::number)).map_err(wrong)?;
        if file.len()? < entry.bytes {
            return Err(LogError::Fault { byte_offset: file.len()?, fault: Fault::Short });
        }
        let mut segment = OpenSegment {
            file: entry.clone(),
            path,
            salt: header.salt,
            index: Vec::new(),
            sealed: None,
        };
        let mut tables = None;
        if entry.sealed {
            match sealed_tables(&*file, &header, entry, names, cipher) {
                Ok(sealed) => {
                    segment.index.clone_from(&sealed.index);
                    segment.sealed = Some(sealed);
                    return Ok((segment, Vec::new()));
                }
                // Its tables are damaged: its blocks are walked like frames of an open segment.
                Err(LogError::Fault { fault, .. }) => tables = Some(fault),
                Err(error) => return Err(error),
            }
        }
        let beyond = planted(Defect::BelieveBeyondSettled);
        let end = if beyond { file.len()? } else { entry.bytes };
        let file = (&*file, end, tables);
        let flaws = self.index_segment(&mut segment, (session, cipher), file, names)?;
        Ok((segment, flaws))
    }

    /// Walks the frames of a segment that is not sealed, or whose `tables` are wrong. Whatever is
    /// wrong below the believed bytes is damage.
    fn index_segment(
        &self,
        segment: &mut OpenSegment,
        (session, cipher): (SessionHash, Option<&Cipher>),
        (file, end, tables): (&dyn File, u64, Option<Fault>),
        names: &mut Names,
    ) -> Result<Vec<Flaw>, LogError> {
        let mut flaws = Vec::new();
        let mut expected = Position(segment.file.base);
        let mut wrong = None;
        let mut flaw = |from: Position, to: Position, wrong: Option<(u64, Fault)>| {
            let (at, fault) = wrong.unwrap_or((0, Fault::Misplaced));
            let reason = format!("segment {} at byte {at}: {fault}", segment.file.base);
            let unread = fault == Fault::Unreadable;
            if !unread {
                let start = at.max(FRAMES_AT);
                let copy = read_around(file, start, end.min(start.saturating_add(COPY_BYTES)));
                let copy = copy.map(|copy| copy.bytes).unwrap_or_default();
                let name = format!("{session}-{}-{at}.damaged", segment.file.base);
                quarantine(&self.env, &name, &copy, &reason);
            }
            flaws.push(Flaw { range: Range::new(from, to), reason, unread });
        };
        let found = scan_file(file, segment.salt, FRAMES_AT, end)?;
        for piece in found.pieces {
            let (byte_offset, frame) = match piece {
                Piece::Frame { byte_offset, frame } => (byte_offset, frame),
                Piece::Bad { byte_offset, fault, .. } => {
                    wrong = Some((byte_offset, fault));
                    continue;
                }
            };
            let header = frame.header;
            let records = match frame.decrypt(cipher).and_then(|frame| frame.records()) {
                Ok(records) if header.session == session => records,
                Ok(_) => {
                    wrong = Some((byte_offset, Fault::Misplaced));
                    continue;
                }
                Err(fault) => {
                    wrong = Some((byte_offset, fault));
                    continue;
                }
            };
            if header.first_position != expected || wrong.is_some() {
                flaw(expected, header.first_position, wrong.take());
            }
            names.add(header.first_position, &records);
            let first_time =
                records.first().map_or(Timestamp(0), |(_, first)| first.processed_at());
            segment.index.push(index_of(byte_offset, &header, first_time));
            expected = header.range().to;
        }
        let end = Position(segment.file.end);
        if expected != end || wrong.is_some() || found.rest.is_some() {
            let tables = tables.filter(|_| expected == end);
            let rest = found.rest.map(|fault| (found.end, tables.unwrap_or(fault)));
            flaw(expected, end.max(expected), wrong.or(rest));
        }
        Ok(flaws)
    }

    /// The key of a session, where it has one.
    pub(super) fn cipher(&self, session: &Session) -> Result<Option<Arc<Cipher>>, LogError> {
        self.cipher_in(&mut session.state())
    }

    /// [`Self::cipher`] for who holds its lock: the first time it is read from `keys/`.
    pub(super) fn cipher_in(&self, state: &mut State) -> Result<Option<Arc<Cipher>>, LogError> {
        if self.keys.own().is_none() {
            return Ok(None);
        }
        if state.cipher.is_none() {
            let (number, tenant) = (KeyNumber(state.entry.key), state.entry.tenant.as_str());
            state.cipher = Some(self.keys.cipher_of(number, tenant)?);
        }
        Ok(state.cipher.clone())
    }

    /// [`Self::cipher_in`] for a client: a session whose key is gone is damaged.
    pub(super) fn key_of(
        &self,
        session: &Arc<Session>,
        state: &mut State,
    ) -> StoreResult<Option<Arc<Cipher>>> {
        match self.cipher_in(state) {
            Ok(cipher) => Ok(cipher),
            Err(error) if error.is_unreadable() => {
                Err(session.lacks(state, vec![without_key(&state.entry, &error)]))
            }
            Err(LogError::Io(source)) => Err(StoreError::Io { doing: "reading its key", source }),
            Err(LogError::Fault { fault, .. }) => {
                let range = Range::new(Position::ZERO, Position(state.entry.tail));
                self.note(session, state, range, &fault.to_string());
                Err(session.damaged(state))
            }
        }
    }

    /// [`Self::note`] for all that was met; answers what the device did not give, and nobody gave
    /// up. That is told and not kept: another time the device may give it.
    pub(super) fn note_all(
        &self,
        session: &Arc<Session>,
        state: &mut State,
        flaws: Vec<Flaw>,
    ) -> Vec<Gap> {
        let (unread, wrong): (Vec<_>, Vec<_>) = flaws.into_iter().partition(|flaw| flaw.unread);
        for flaw in wrong {
            self.note(session, state, flaw.range, &flaw.reason);
        }
        state.unknown(unread.into_iter().map(Flaw::gap).collect())
    }

    /// Remembers damage of a session, and has it settled when it is new.
    pub(super) fn note(
        &self,
        session: &Arc<Session>,
        state: &mut State,
        range: Range,
        reason: &str,
    ) {
        if state.damage(range, reason) {
            tracing::error!(session = %session.hash, %range, reason, "acknowledged bytes are damaged");
            lock(&self.touched).push(Arc::clone(session));
        }
    }
}

/// What is missing of a session whose key the device does not give, in neither file.
pub(super) fn without_key(entry: &Entry, error: &LogError) -> Gap {
    let reason = format!(
        "its key cannot be read in either file of keys/ ({error}): it is whole once one of them \
         reads again; else bring keys/ back from a backup"
    );
    let range = Range::new(Position::ZERO, Position(entry.tail));
    Gap { range, reason, accepted_at: None }
}

/// Whether what the file system said is of that file alone: it is not there, or the device cannot
/// read it.
pub(super) fn is_of_the_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || unreadable(error)
}

/// The tables of a sealed segment; the names in its one block, where it has no table of them.
fn sealed_tables(
    file: &dyn File,
    header: &SegmentHeader,
    entry: &SegmentEntry,
    names: &mut Names,
    cipher: Option<&Cipher>,
) -> Result<Sealed, LogError> {
    let sealed = Sealed::of(file, header, entry.bytes, cipher)?;
    if sealed.nameless {
        let wrong = |fault| LogError::Fault { byte_offset: FRAMES_AT, fault };
        for frame in whole_frames(file, header, entry, cipher)? {
            names.add(frame.header.first_position, &frame.records().map_err(wrong)?);
        }
    }
    Ok(sealed)
}
