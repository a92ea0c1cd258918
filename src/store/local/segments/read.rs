//! Opening a session: reads the tables of its files on first access. Bytes past the durable point
//! are not read. It must not write segments, and must not return slices (`slice` does).

use std::sync::Arc;

use super::super::{
    layout::{concerns_one_file, quarantine},
    session::{
        HeldFrame, LoadedSession, SessionState,
        names::SessionNames,
        opened::{OpenSegment, OpenedSession, UnreadableRange, index_entry, read_whole_frames},
    },
    wait::run_blocking,
};
use super::Segments;
use crate::{
    env::{
        File,
        planted::{Defect, is_planted},
        sync::MutexGuard,
    },
    event::{Position, Range, SessionHash, Timestamp},
    log::{
        Cipher, Entry, Fault, KeyNumber, LogError, SegmentEntry,
        reading::read_with_holes,
        scan::{ScanPiece, scan_file},
        seal::SealedTables,
        segment::{self, FRAMES_AT, SegmentHeader},
    },
    store::{SessionGap, StoreError, StoreResult},
};

/// Maximum number of bytes copied of a damaged range.
const COPY_BYTES: u64 = 64 << 10;

impl Segments {
    /// Returns the locked state of a session visible to readers, with its files open. They are read
    /// without its lock, since the committer takes it to make frames visible.
    pub(crate) fn open_visible<'a>(
        &self,
        session: &'a Arc<LoadedSession>,
    ) -> StoreResult<MutexGuard<'a, SessionState>> {
        let opened = self.open_when(session, &|| session.lock_visible().map(Some))?;
        opened.ok_or_else(|| session.not_found_error())
    }

    /// Opens like [`Self::opened`], for the session's forks, though it may be deleted; returns
    /// `None` once it was erased, or removed because no fork needs it.
    pub(crate) fn open_for_forks<'a>(
        &self,
        session: &'a Arc<LoadedSession>,
    ) -> StoreResult<Option<MutexGuard<'a, SessionState>>> {
        let stays = |state: &MutexGuard<'_, SessionState>| {
            let entry = &state.entry;
            !entry.stage.is_discarded() && !entry.stage.is_reclaimed()
                || self.sessions.is_read_by_forks(session.hash)
        };
        self.open_when(session, &|| Ok(session.lock_for_forks().filter(stays)))
    }

    fn open_when<'a>(
        &self,
        session: &'a Arc<LoadedSession>,
        enter: &dyn Fn() -> StoreResult<Option<MutexGuard<'a, SessionState>>>,
    ) -> StoreResult<Option<MutexGuard<'a, SessionState>>> {
        loop {
            let (segments, waiting, cipher) = {
                let Some(mut state) = enter()? else { return Ok(None) };
                if let Some(opened) = &mut state.opened {
                    opened.used_at = self.context.env.clock.monotonic();
                    return Ok(Some(state));
                }
                let waiting: Vec<Arc<HeldFrame>> = state.unflushed.iter().cloned().collect();
                let cipher = self.client_cipher(session, &mut state)?;
                (state.entry.segments.clone(), waiting, cipher)
            };
            let load = || self.load_tables(session.hash, cipher.as_deref(), &segments, &waiting);
            let (mut opened, flaws) = run_blocking(load)?;
            let Some(mut state) = enter()? else { return Ok(None) };
            // Flushed, sealed or opened meanwhile: the tables read are outdated.
            let same = state.entry.segments == segments && state.unflushed.len() == waiting.len();
            if same && state.opened.is_none() {
                opened.unread = self.record_flaws(session, &mut state, flaws);
                state.opened = Some(opened);
                self.sessions.record_opened(session);
            }
        }
    }

    /// Reads the tables of a session's files, and the names in its unflushed frames.
    fn load_tables(
        &self,
        session: SessionHash,
        cipher: Option<&Cipher>,
        segments: &[SegmentEntry],
        waiting: &[Arc<HeldFrame>],
    ) -> StoreResult<(OpenedSession, Vec<UnreadableRange>)> {
        let mut opened = OpenedSession::new(self.context.env.clock.monotonic());
        let mut flaws = Vec::new();
        for file in segments {
            match self.open_segment((session, cipher), file, &mut opened.names) {
                Ok((segment, found)) => {
                    flaws.extend(found);
                    opened.segments.push(segment);
                }
                Err(LogError::Io(source)) if !concerns_one_file(&source) => {
                    return Err(StoreError::Io { doing: "opening a segment", source });
                }
                Err(error) => {
                    let range = Range::new(Position(file.base), Position(file.end));
                    let reason = format!("segment {} is unreadable: {error}", file.base);
                    flaws.push(UnreadableRange { range, reason, unread: error.is_unreadable() });
                }
            }
        }
        for held in waiting {
            let frame = held.to_frame();
            if let Ok(records) = frame.records() {
                opened.names.add(held.header.first_position, &records);
            }
        }
        if is_planted(Defect::DropIdempotency) {
            opened.names = SessionNames::default();
        }
        Ok((opened, flaws))
    }

    fn open_segment(
        &self,
        (session, cipher): (SessionHash, Option<&Cipher>),
        entry: &SegmentEntry,
        names: &mut SessionNames,
    ) -> Result<(OpenSegment, Vec<UnreadableRange>), LogError> {
        let path = segment::path(session, Position(entry.base), entry.start, entry.sealed);
        let file = self.context.env.storage.open_read(&path)?;
        let header = SegmentHeader::read(&*file)?;
        let misplaced = header.store != self.context.store.id
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
            match read_sealed_tables(&*file, &header, entry, names, cipher) {
                Ok(sealed) => {
                    segment.index.clone_from(&sealed.index);
                    segment.sealed = Some(sealed);
                    return Ok((segment, Vec::new()));
                }
                // With damaged tables, its blocks are walked like frames of an open segment.
                Err(LogError::Fault { fault, .. }) => tables = Some(fault),
                Err(error) => return Err(error),
            }
        }
        let beyond = is_planted(Defect::BelieveBeyondSettled);
        let end = if beyond { file.len()? } else { entry.bytes };
        let file = (&*file, end, tables);
        let flaws = self.index_segment(&mut segment, (session, cipher), file, names)?;
        Ok((segment, flaws))
    }

    /// Walks the frames of a segment that is open, or whose `tables` have a fault. Any fault within
    /// the durable bytes is damage.
    fn index_segment(
        &self,
        segment: &mut OpenSegment,
        (session, cipher): (SessionHash, Option<&Cipher>),
        (file, end, tables): (&dyn File, u64, Option<Fault>),
        names: &mut SessionNames,
    ) -> Result<Vec<UnreadableRange>, LogError> {
        let mut flaws = Vec::new();
        let mut expected = Position(segment.file.base);
        let mut wrong = None;
        let mut flaw = |from: Position, to: Position, wrong: Option<(u64, Fault)>| {
            let (at, fault) = wrong.unwrap_or((0, Fault::Misplaced));
            let reason = format!("segment {} at byte {at}: {fault}", segment.file.base);
            let unread = fault == Fault::Unreadable;
            if !unread {
                let start = at.max(FRAMES_AT);
                let copy = read_with_holes(file, start, end.min(start.saturating_add(COPY_BYTES)));
                let copy = copy.map(|copy| copy.bytes).unwrap_or_default();
                let name = format!("{session}-{}-{at}.damaged", segment.file.base);
                quarantine(&self.context.env, &name, &copy, &reason);
            }
            flaws.push(UnreadableRange { range: Range::new(from, to), reason, unread });
        };
        let found = scan_file(file, segment.salt, FRAMES_AT, end)?;
        for piece in found.pieces {
            let (byte_offset, frame) = match piece {
                ScanPiece::Frame { byte_offset, frame } => (byte_offset, frame),
                ScanPiece::Bad { byte_offset, fault, .. } => {
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
            segment.index.push(index_entry(byte_offset, &header, first_time));
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

    /// Returns the cipher of a session; `None` in a plaintext store.
    pub(crate) fn cipher(&self, session: &LoadedSession) -> Result<Option<Arc<Cipher>>, LogError> {
        self.locked_cipher(&mut session.state())
    }

    /// Returns [`Self::cipher`] for a caller with the session's lock; reads `keys/` on first use.
    pub(crate) fn locked_cipher(
        &self,
        state: &mut SessionState,
    ) -> Result<Option<Arc<Cipher>>, LogError> {
        if self.context.keys.store_cipher().is_none() {
            return Ok(None);
        }
        if state.cipher.is_none() {
            let (number, tenant) = (KeyNumber(state.entry.key), state.entry.tenant.as_str());
            state.cipher = Some(self.context.keys.tenant_cipher(number, tenant)?);
        }
        Ok(state.cipher.clone())
    }

    /// Returns [`Self::locked_cipher`] for a client: a session whose key is gone is damaged.
    pub(crate) fn client_cipher(
        &self,
        session: &Arc<LoadedSession>,
        state: &mut SessionState,
    ) -> StoreResult<Option<Arc<Cipher>>> {
        match self.locked_cipher(state) {
            Ok(cipher) => Ok(cipher),
            Err(error) if error.is_unreadable() => {
                Err(session.damage_error_with(state, vec![missing_key_gap(&state.entry, &error)]))
            }
            Err(LogError::Io(source)) => Err(StoreError::Io { doing: "reading its key", source }),
            Err(LogError::Fault { fault, .. }) => {
                let range = Range::new(Position::ZERO, Position(state.entry.tail));
                self.record_damage(session, state, range, &fault.to_string());
                Err(session.damage_error(state))
            }
        }
    }

    /// Records flaws as damage, except unreadable ranges: returns those of them that no operator
    /// accepted. They are reported and not recorded, since a later read may succeed.
    pub(crate) fn record_flaws(
        &self,
        session: &Arc<LoadedSession>,
        state: &mut SessionState,
        flaws: Vec<UnreadableRange>,
    ) -> Vec<SessionGap> {
        let (unread, wrong): (Vec<_>, Vec<_>) = flaws.into_iter().partition(|flaw| flaw.unread);
        for flaw in wrong {
            self.record_damage(session, state, flaw.range, &flaw.reason);
        }
        state.gaps_not_in_entry(unread.into_iter().map(UnreadableRange::into_gap).collect())
    }

    /// Records damage of a session, and schedules its flush if it is new.
    pub(crate) fn record_damage(
        &self,
        session: &Arc<LoadedSession>,
        state: &mut SessionState,
        range: Range,
        reason: &str,
    ) {
        if state.add_damage(range, reason) {
            tracing::error!(session = %session.hash, %range, reason, "acknowledged bytes are damaged");
            self.sessions.backlog.add_touched(session);
        }
    }
}

/// Returns the gap of a session whose key is readable in neither file.
pub(crate) fn missing_key_gap(entry: &Entry, error: &LogError) -> SessionGap {
    let reason = format!(
        "its key cannot be read in either file of keys/ ({error}): it is whole once one of them \
         reads again; else bring keys/ back from a backup"
    );
    let range = Range::new(Position::ZERO, Position(entry.tail));
    SessionGap { range, reason, accepted_at: None }
}

/// Reads the tables of a sealed segment; without a table of ids, adds the names in its one block.
fn read_sealed_tables(
    file: &dyn File,
    header: &SegmentHeader,
    entry: &SegmentEntry,
    names: &mut SessionNames,
    cipher: Option<&Cipher>,
) -> Result<SealedTables, LogError> {
    let sealed = SealedTables::read(file, header, entry.bytes, cipher)?;
    if sealed.without_ids {
        let wrong = |fault| LogError::Fault { byte_offset: FRAMES_AT, fault };
        for frame in read_whole_frames(file, header, entry, cipher)? {
            names.add(frame.header.first_position, &frame.records().map_err(wrong)?);
        }
    }
    Ok(sealed)
}
