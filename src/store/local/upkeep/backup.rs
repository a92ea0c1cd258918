//! A backup: a consistent copy of the store at one moment, made while others write. The moment is a
//! location of the journal. A separate settled file of the copy names what was flushed up to it,
//! and the segments it names are not unlinked meanwhile; unflushed frames are in the copy's
//! journal. It must not block an append, nor write to the data directory.

use std::{io, sync::Arc};

use bytes::Bytes;

use super::super::{
    journal::place::JournalLocation,
    layout::{STORE, journal_path, keys_path, settled_path},
    segments::pins::Pin,
    session::{EntryState, HeldFrame, LoadedSession, hash_of},
};
use super::Upkeep;
use crate::{
    env::sync::atomic::Ordering,
    event::{Lsn, Position, SessionHash, Timestamp},
    log::{
        ChainValue, Delta, Encryptor, Entry, FrameHeader, FrameKind, GenerationEncoder, SETTLED_AT,
        SegmentEntry, SettledIndex,
        journal::{self, JournalHeader},
        reading::{FileReading, read_with_holes},
        scan::WATERMARK_ALIGN_BYTES,
        segment, settled_header,
    },
    store::{BackupInfo, FilePart, StoreError, StoreResult},
};

/// Maximum bytes of a part.
const PART_BYTES: usize = 1 << 20;
/// Order of the copy's only journal file.
const ORDER: u64 = 1;

/// State of the store at one moment, without the segments.
struct BackupPoint<'a> {
    /// Keeps the segments named at that moment.
    pin: Pin<'a>,
    at: Timestamp,
    sessions: u64,
    /// Settled file of the copy.
    settled: Bytes,
    /// Journal file of the copy.
    journal: Vec<u8>,
    /// Content of both files of keys; `None` in a plaintext store.
    keys: Option<Vec<u8>>,
    store: Vec<u8>,
}

/// Consumer of parts of files.
type PartSink<'a> = &'a mut dyn FnMut(FilePart) -> io::Result<()>;

fn backup_error(source: io::Error) -> StoreError {
    StoreError::Io { doing: "making a backup", source }
}

impl Upkeep {
    /// Passes a copy of everything acknowledged so far to `sink`, file by file, `STORE` last.
    pub(crate) fn backup(&self, sink: PartSink<'_>) -> StoreResult<BackupInfo> {
        if self.context.frozen.load(Ordering::Acquire) {
            let reason = "acknowledged records are lost and name no session: copy the directory \
                          as it is, and repair it first";
            return Err(StoreError::ReadOnly { reason: reason.to_owned() });
        }
        if let Err(error) = self.removal.flush(false) {
            // Unflushed frames are copied from memory.
            tracing::warn!(%error, "a backup begins with what could not be flushed");
        }
        let Some(moment) = self.capture_moment().map_err(backup_error)? else {
            return Err(StoreError::Busy);
        };
        let mut backup = BackupInfo {
            store: self.context.store.id,
            at: moment.at,
            sessions: moment.sessions,
            damaged: 0,
            key: self.context.keys.current_key_id(),
        };
        let mut sink = |part: FilePart| match moment.pin.is_valid() {
            true => sink(part),
            false => Err(io::Error::other(
                "something was erased or redacted meanwhile and must not be in a copy, or went to \
                 make room on a full disk: make the backup again",
            )),
        };
        let copied = self.send_files(&moment, &mut backup, &mut sink);
        copied.map_err(backup_error)?;
        tracing::info!(sessions = backup.sessions, "a backup was made");
        Ok(backup)
    }

    fn send_files(
        &self,
        moment: &BackupPoint<'_>,
        backup: &mut BackupInfo,
        sink: PartSink<'_>,
    ) -> io::Result<()> {
        send_file(&journal_path(0), &moment.journal, sink)?;
        send_file(&journal_path(1), &[], sink)?;
        send_file(&settled_path(0), &moment.settled, sink)?;
        let bytes = &moment.settled;
        let read = |from: u64, to: u64| Ok(slice_bytes(bytes, from, to));
        let own = self.context.keys.store_cipher().map(|own| &**own);
        let settled = SettledIndex::read(self.context.store.id, own, &read)?;
        let mut copied = Ok(());
        let each = &mut |_, entry: Entry, _: &[u8]| {
            if copied.is_ok() {
                copied = self.send_session(&entry, sink).map(|whole| {
                    backup.damaged += u64::from(!whole || entry.is_degraded());
                });
            }
        };
        settled.for_each_entry(own, &read, each)?;
        copied?;
        if let Some(keys) = &moment.keys {
            (0..2).try_for_each(|file| send_file(&keys_path(file), keys, sink))?;
        }
        send_file(STORE, &moment.store, sink)
    }

    /// Passes the segments of a session to `sink`; none if it was erased. Returns whether all were
    /// readable.
    fn send_session(&self, entry: &Entry, sink: PartSink<'_>) -> io::Result<bool> {
        let Some(hash) = hash_of(entry).filter(|_| !entry.stage.is_erased()) else {
            return Ok(true);
        };
        let mut whole = true;
        for one in &entry.segments {
            whole &= self.send_segment(hash, one, sink)?;
        }
        Ok(whole)
    }

    /// Passes the durable bytes of a segment to `sink`. Unreadable pages become bytes in the copy
    /// that no checksum matches. Returns whether all were readable.
    fn send_segment(
        &self,
        session: SessionHash,
        one: &SegmentEntry,
        sink: PartSink<'_>,
    ) -> io::Result<bool> {
        let path = segment::path(session, Position(one.base), one.start, one.sealed);
        let file = match self.context.env.storage.open_read(&path) {
            // It was lost before, and the copy reports so, too; or its session was deleted, and is
            // not read again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            file => file?,
        };
        let end = one.bytes.min(file.len()?);
        let (mut at, mut whole) = (0, true);
        while at < end {
            let to = end.min(at + PART_BYTES as u64);
            let FileReading { bytes, holes } = read_with_holes(&*file, at, to)?;
            at = to;
            whole &= !holes.has_pages();
            sink(FilePart { path: path.clone(), bytes })?;
        }
        Ok(whole)
    }

    /// Captures the store at one moment; returns `None` while a session is being erased.
    fn capture_moment(&self) -> io::Result<Option<BackupPoint<'_>>> {
        // No thread flushes, seals or erases meanwhile; appends continue.
        let _flushing = self.segments.flushing.lock();
        let pin = Pin::new(&self.segments.pins);
        let place = self.sessions.journal.visible_location();
        let own = self.context.keys.store_cipher();
        let count = self.context.count_state();
        let copy =
            JournalLocation { order: ORDER, byte_offset: journal::FRAMES_AT, lsn: place.lsn };
        let delta: Delta = self.sessions.build_delta(false, copy, count);
        let salt = u64::from_le_bytes(self.context.env.random());
        let mut settled = settled_header(self.context.store.id, salt, own.is_some());
        let mut sessions = 0;
        self.context.keys.with_encryptor(own, |encryptor| {
            let mut chunks = GenerationEncoder::new((salt, SETTLED_AT), 1, &delta, encryptor);
            self.sessions.catalogue().for_each_flushed(&mut |entry| {
                sessions += 1;
                chunks.push(entry, &mut settled);
            });
            chunks.finish(&mut settled);
        });
        let loaded = self.sessions.catalogue().all_loaded();
        let mut frames = Vec::new();
        for session in loaded {
            let Some((held, fresh)) = unflushed_before(&session, place.lsn) else {
                return Ok(None);
            };
            sessions += u64::from(fresh && !held.is_empty());
            frames.extend(held.into_iter().map(|one| (Arc::clone(&session), one)));
        }
        // In the order of their numbers, so that a session's creation comes first.
        frames.sort_by_key(|(_, held)| held.header.first_lsn);
        let journal = self.encode_journal(frames, place.lsn)?;
        // After the location is fixed: a key is durable before a frame is written under it.
        let (store, keys) = self.context.keys.read_for_backup()?;
        let at = Timestamp(delta.at);
        Ok(Some(BackupPoint { pin, at, sessions, settled: settled.into(), journal, keys, store }))
    }

    /// Encodes a journal of one file with copies of frames, from the number `lsn` on.
    fn encode_journal(
        &self,
        frames: Vec<(Arc<LoadedSession>, Arc<HeldFrame>)>,
        lsn: Lsn,
    ) -> io::Result<Vec<u8>> {
        let salt = u64::from_le_bytes(self.context.env.random());
        let header = JournalHeader {
            store: self.context.store.id,
            salt,
            order: ORDER,
            start: self.sessions.journal.start_number(),
            first_lsn: lsn,
            previous_order: 0,
            previous_end: 0,
            previous_end_lsn: lsn,
            opens: true,
            file_bytes: 0,
        };
        let mut bytes = header.encode();
        let mut next = lsn;
        for (session, held) in frames {
            let cipher = self.segments.cipher(&session)?;
            let frame = held.to_frame();
            let encrypted = |one: Option<Encryptor<'_>>| one.map(|one| frame.encrypt(one));
            let frame =
                self.context.keys.with_encryptor(cipher.as_ref(), encrypted).unwrap_or(frame);
            let header = FrameHeader { copy_lsn: next, synced_lsn: next, ..frame.header };
            header.write(salt, &frame.payload, &mut bytes);
            next = Lsn(next.0 + 1);
        }
        let end = bytes.len() as u64;
        assert!(end >= journal::FRAMES_AT, "a header and frames come before the watermark");
        bytes.resize(end.next_multiple_of(WATERMARK_ALIGN_BYTES) as usize, 0);
        watermark_header(end, next).write(salt, &[], &mut bytes);
        bytes.resize(bytes.len().next_multiple_of(WATERMARK_ALIGN_BYTES as usize), 0);
        Ok(bytes)
    }
}

/// Returns the unflushed frames of a session before a number, and whether no settled file names the
/// session. `None` if it is being erased.
fn unflushed_before(session: &LoadedSession, before: Lsn) -> Option<(Vec<Arc<HeldFrame>>, bool)> {
    let state = session.state();
    if state.entry.stage.is_erased() && !state.unflushed.is_empty() {
        return None;
    }
    let held = state.unflushed.iter().filter(|one| one.header.end_lsn() <= before);
    Some((held.cloned().collect(), matches!(state.durable, EntryState::Fresh)))
}

/// Returns the header of a watermark, which marks everything before it as durable.
fn watermark_header(end: u64, next: Lsn) -> FrameHeader {
    FrameHeader {
        kind: FrameKind::Watermark,
        length: 0,
        compressed: false,
        count: 0,
        events: 0,
        first_lsn: next,
        synced_lsn: next,
        first_position: Position(end),
        session: SessionHash([0; 32]),
        chain: ChainValue([0; 32]),
        control_chain: ChainValue([0; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    }
}

/// Returns the bytes `[from, to)`, or as many as exist.
fn slice_bytes(bytes: &Bytes, from: u64, to: u64) -> Bytes {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(place(from).min(place(to))..place(to))
}

/// Passes a file in memory to `sink`, in parts.
fn send_file(path: &str, bytes: &[u8], sink: PartSink<'_>) -> io::Result<()> {
    if bytes.is_empty() {
        return sink(FilePart { path: path.to_owned(), bytes: Bytes::new() });
    }
    bytes.chunks(PART_BYTES).try_for_each(|part| {
        sink(FilePart { path: path.to_owned(), bytes: Bytes::copy_from_slice(part) })
    })
}
