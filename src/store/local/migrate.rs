//! A data directory as the source and as the target of a migration. A target has the file
//! `MIGRATING` until it is whole: the file `STORE` under another name, so that it does not open. It
//! must not decide what is copied, nor change a source, except for the file `MOVED`.

use std::{collections::BTreeMap, io, sync::Arc};

use futures_util::FutureExt;

use super::{
    catalogue::slots::SettledFiles,
    engine::LocalStore,
    keys::EngineKeys,
    layout::{self, MIGRATING, MOVED, STORE, read_small},
    making, open,
    options::{OpenError, StoreOptions},
    session::LoadedSession,
    vault::{has_file, without_background},
    wait::run_blocking,
};
use crate::{
    env::{Env, LOCK_FILE, Lock, shortage, sync::atomic::Ordering},
    event::{Lsn, SessionHash, SessionKey, Timestamp, limits},
    log::{
        Cipher, Delta, Entry, FrameHeader, KnownBatch, LogError, Record, SegmentEntry, StoreFile,
        keyring::OwnKey,
        scan::ScanPiece,
        seal,
        segment::{self, SegmentHeader},
    },
    store::{
        StoreError, StoreFuture, StoreResult,
        migrate::{
            MigratedSession, MigrationSource, MigrationTarget, ReadPlace, SessionPart, TargetState,
            records_of,
        },
        rules::FrameEffect,
    },
};

/// Sessions returned at once.
const SESSIONS_MAX: usize = 500;
/// Bytes of segments, and sessions, that are made durable together.
const FLUSH_BYTES: u64 = 32 << 20;
const FLUSH_SESSIONS: usize = 500;

/// A data directory that is read for a migration. Its lock is held.
pub(crate) struct DirectorySource {
    store: LocalStore,
    moved_to: Option<String>,
    /// Every session, in order.
    keys: Vec<SessionKey>,
}

impl DirectorySource {
    /// Takes the lock of a data directory with a store, even of one that was moved, and reads its
    /// catalogue and its journal.
    ///
    /// # Errors
    /// [`OpenError`]; [`OpenError::Damaged`] if records are lost that name no session.
    pub(crate) fn open(env: &Env, options: StoreOptions) -> Result<Self, OpenError> {
        let lock = open::acquire_lock(env)?;
        let store = layout::read_store_file(env)?;
        let missing = || OpenError::Damaged { what: "there is no file STORE".to_owned() };
        let store = store.ok_or_else(missing)?;
        let moved_to = match making::open_or_create(env) {
            Ok(_) => None,
            Err(OpenError::Moved { place }) => Some(place),
            Err(error) => return Err(error),
        };
        let source = Self::open_files(env, options, store, Some(lock))?;
        if source.store.upkeep.context.frozen.load(Ordering::Acquire) {
            let what = "acknowledged records are lost and name no session: repair it first";
            return Err(OpenError::Damaged { what: what.to_owned() });
        }
        Ok(Self { moved_to, ..source })
    }

    fn open_files(
        env: &Env,
        options: StoreOptions,
        store: StoreFile,
        lock: Option<Box<dyn Lock>>,
    ) -> Result<Self, OpenError> {
        let opened = open::open(env, without_background(options), store, false)?;
        let store = LocalStore::from_parts(lock, opened);
        let mut keys = Vec::new();
        {
            let catalogue = store.upkeep.sessions.catalogue();
            for scope in catalogue.scopes() {
                let names = catalogue.session_ids(&scope).into_iter();
                keys.extend(names.map(|session| SessionKey { scope: scope.clone(), session }));
            }
        }
        Ok(Self { store, moved_to: None, keys })
    }

    /// Reads a part of a session: a segment, or the frames that are in the journal alone.
    fn read_part(
        &self,
        session: &MigratedSession,
        part: usize,
    ) -> StoreResult<Option<SessionPart>> {
        let upkeep = &self.store.upkeep;
        let loaded = upkeep.sessions.session(&session.key)?;
        let (segments, held) = {
            let state = loaded.state();
            (state.entry.segments.clone(), state.unflushed.clone())
        };
        let mut found = SessionPart::default();
        let Some(file) = segments.get(part) else {
            let is_journal = part == segments.len() && !held.is_empty();
            found.frames.extend(held.iter().map(|frame| frame.to_frame()));
            return Ok(is_journal.then_some(found));
        };
        let scanned = upkeep.segments.cipher(&loaded).and_then(|cipher| {
            let scanned = upkeep.segments.scan_segment(session.hash, file, cipher.as_deref())?;
            Ok((scanned, cipher))
        });
        match scanned {
            Ok(((region, tables), cipher)) => {
                for piece in region.pieces {
                    match piece {
                        ScanPiece::Frame { frame, .. } => match frame.decrypt(cipher.as_deref()) {
                            Ok(frame) => found.frames.push(frame),
                            Err(fault) => found.faults.push(fault.to_string()),
                        },
                        ScanPiece::Bad { fault, .. } => found.faults.push(fault.to_string()),
                    }
                }
                let batches = tables.ok().flatten().map(|tables| tables.batches);
                let hidden = batches.into_iter().flatten().filter(|(_, one)| one.has_no_digest());
                found.batches = hidden.collect();
            }
            Err(LogError::Io(source)) if !layout::concerns_one_file(&source) => {
                return Err(StoreError::Io { doing: "reading a segment", source });
            }
            Err(error) => found.faults.push(error.to_string()),
        }
        Ok(Some(found))
    }
}

impl MigrationSource for DirectorySource {
    fn store_id(&self) -> [u8; 16] {
        self.store.upkeep.context.store.id
    }

    fn counted_time(&self) -> Timestamp {
        self.store.upkeep.context.counted_time()
    }

    fn own_key(&self) -> Option<&OwnKey> {
        self.store.upkeep.context.keys.ring().map(|ring| &ring.own)
    }

    fn moved_to(&self) -> Option<String> {
        self.moved_to.clone()
    }

    fn sessions<'a>(
        &'a self,
        after: Option<&'a SessionKey>,
    ) -> StoreFuture<'a, Vec<MigratedSession>> {
        async move {
            let from = after.map_or(0, |after| self.keys.partition_point(|key| key <= after));
            let catalogue = self.store.upkeep.sessions.catalogue();
            let keys = self.keys.get(from..).unwrap_or_default().iter();
            let entries = keys.filter_map(|key| catalogue.entry(key));
            Ok(entries
                .filter_map(|(entry, _)| MigratedSession::new(entry))
                .take(SESSIONS_MAX)
                .collect())
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        session: &'a MigratedSession,
        place: &'a mut ReadPlace,
    ) -> StoreFuture<'a, Option<SessionPart>> {
        async move {
            let found = run_blocking(|| self.read_part(session, place.parts));
            place.parts += 1;
            found
        }
        .boxed()
    }

    fn count_users(&self) -> StoreFuture<'_, u64> {
        // Its lock is held.
        async { Ok(0) }.boxed()
    }

    fn mark_moved<'a>(&'a self, place: &'a str) -> StoreFuture<'a, ()> {
        async move {
            let (env, text) = (&self.store.upkeep.context.env, format!("{place}\n"));
            let written =
                layout::replace(env, MOVED, &mut |file| file.write_at(0, text.as_bytes()));
            written.map_err(write_error)
        }
        .boxed()
    }
}

fn write_error(source: io::Error) -> StoreError {
    match shortage(&source) {
        Some(short) => StoreError::DiskFull(short),
        None => StoreError::Io { doing: "writing a copy", source },
    }
}

fn open_error(error: OpenError) -> StoreError {
    match error {
        OpenError::Io { source, .. } => write_error(source),
        error => StoreError::ReadOnly { reason: error.to_string() },
    }
}

/// A data directory that a store is copied to.
pub(crate) struct DirectoryTarget {
    /// `None` for a directory that does not exist and is not to be made.
    env: Option<Env>,
    options: StoreOptions,
    _lock: Option<Box<dyn Lock>>,
    copy: Option<DirectoryCopy>,
}

/// A copy of a store that is being made.
struct DirectoryCopy {
    env: Env,
    compresses: bool,
    segment_bytes_max: u64,
    store: StoreFile,
    keys: EngineKeys,
    slots: SettledFiles,
    /// The sessions that were copied.
    entries: BTreeMap<SessionHash, Entry>,
    /// Sessions and bytes that are not durable yet.
    sessions: usize,
    bytes: u64,
    /// The session that is being copied.
    writer: Option<SegmentsWriter>,
    counted: Timestamp,
    /// Time before which keys of batches have expired.
    live_from: Timestamp,
}

/// The segments of a session that is being copied.
struct SegmentsWriter {
    hash: SessionHash,
    cipher: Option<Arc<Cipher>>,
    segments: Vec<SegmentEntry>,
    /// Header of the first frame of the next segment, and the effect of its last one.
    open: Option<(FrameHeader, FrameEffect)>,
    records: Vec<(Lsn, Record)>,
    bytes: u64,
    batches: Vec<(Timestamp, KnownBatch)>,
}

impl DirectoryTarget {
    /// Opens a directory; `env` is `None` if it does not exist, and nothing is to be made.
    ///
    /// # Errors
    /// [`OpenError::Owned`] if another process has its lock.
    pub(crate) fn open(env: Option<Env>, options: StoreOptions) -> Result<Self, OpenError> {
        let lock = env.as_ref().map(open::acquire_lock).transpose()?;
        Ok(Self { env, options, _lock: lock, copy: None })
    }

    fn find_state(&self) -> StoreResult<TargetState> {
        let Some(env) = &self.env else { return Ok(TargetState::Vacant) };
        if let Some(begun) = read_small(env, MIGRATING).map_err(open_error)? {
            // It is empty until the files of keys are there.
            let begun = StoreFile::decode(&begun).ok();
            return Ok(begun.map_or(TargetState::Vacant, |store| TargetState::Begun(store.id)));
        }
        if layout::read_store_file(env).map_err(open_error)?.is_some() {
            let (store, _) = making::open_or_create(env).map_err(open_error)?;
            return Ok(TargetState::Complete(store.id));
        }
        match has_file(env, &mut |path| path != LOCK_FILE).map_err(write_error)? {
            false => Ok(TargetState::Vacant),
            true => {
                let reason = "there are other files in it: name an empty directory".to_owned();
                Err(StoreError::ReadOnly { reason })
            }
        }
    }

    fn begin_copy(&mut self, source: &dyn MigrationSource) -> Result<(), OpenError> {
        let env = self.env.as_ref().ok_or(OpenError::Migrating)?;
        let begun = read_small(env, MIGRATING)?.and_then(|begun| StoreFile::decode(&begun).ok());
        let store = match begun {
            Some(store) => store,
            None => create_copy(env, source).map_err(layout::open_error("making it"))?,
        };
        let keys = EngineKeys::open(env, &store)?;
        let mut entries = BTreeMap::new();
        let (mut slots, _) = SettledFiles::open(
            env,
            store.id,
            keys.store_cipher().cloned(),
            &mut |_, entry, _, _| {
                let session = MigratedSession::new(entry.clone());
                entries.extend(session.map(|session| (session.hash, entry)));
            },
        )?;
        // An earlier run may have ended within a write.
        slots.schedule_rewrite();
        self.copy = Some(DirectoryCopy {
            env: env.clone(),
            compresses: self.options.compression,
            segment_bytes_max: self.options.segment_bytes_max,
            store,
            keys,
            slots,
            entries,
            sessions: 0,
            bytes: 0,
            writer: None,
            counted: source.counted_time(),
            live_from: env.clock.now().plus_micros(-limits::BATCH_KEY_MICROS),
        });
        Ok(())
    }

    fn copy(&mut self) -> StoreResult<&mut DirectoryCopy> {
        let reason = "no copy was begun".to_owned();
        self.copy.as_mut().ok_or(StoreError::ReadOnly { reason })
    }

    /// Runs a step of the copy.
    fn step<'a>(
        &'a mut self,
        run: impl FnOnce(&mut DirectoryCopy) -> io::Result<()> + Send + 'a,
    ) -> StoreFuture<'a, ()> {
        async move {
            let copy = self.copy()?;
            run_blocking(|| run(copy)).map_err(write_error)
        }
        .boxed()
    }
}

/// Makes the files of a copy; until `MIGRATING` is whole they are made again.
fn create_copy(env: &Env, source: &dyn MigrationSource) -> io::Result<StoreFile> {
    layout::replace(env, MIGRATING, &mut |_| Ok(()))?;
    let store = making::create_files(env, source.store_id(), source.own_key())?;
    layout::replace(env, MIGRATING, &mut |file| file.write_at(0, &store.encode()))?;
    Ok(store)
}

impl DirectoryCopy {
    /// Adds the frames of a session to its segments.
    fn write(&mut self, session: &MigratedSession, part: SessionPart) -> io::Result<()> {
        let mut writer = self.writer_of(session)?;
        writer.batches.extend(part.batches);
        for frame in part.frames {
            let (records, hidden) = records_of(&frame, &session.entry);
            writer.batches.extend(hidden);
            let effect = FrameEffect::from_records(&frame.header, &records);
            let has_room = writer.bytes < self.segment_bytes_max;
            let follows = |(first, last): &(FrameHeader, FrameEffect)| {
                // A segment without an event would get the name of the next.
                let takes = has_room || first.first_position == last.tail;
                let ends = (last.tail, last.chain, last.control_chain);
                let header = &frame.header;
                takes && ends == (header.first_position, header.chain, header.control_chain)
            };
            if !writer.open.as_ref().is_some_and(follows) {
                self.seal(&mut writer)?;
            }
            let first = writer.open.take().map_or(frame.header, |(first, _)| first);
            writer.open = Some((first, effect));
            writer.bytes += records.iter().map(|(_, one)| one.session_bytes() + 64).sum::<u64>();
            writer.records.extend(records);
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// Returns the writer of a session; drops that of a session that was not ended.
    fn writer_of(&mut self, session: &MigratedSession) -> io::Result<SegmentsWriter> {
        if let Some(writer) = self.writer.take().filter(|writer| writer.hash == session.hash) {
            return Ok(writer);
        }
        let cipher = self.keys.allocate_key(&session.key.scope.tenant)?;
        Ok(SegmentsWriter {
            hash: session.hash,
            cipher,
            segments: Vec::new(),
            open: None,
            records: Vec::new(),
            bytes: 0,
            batches: Vec::new(),
        })
    }

    /// Writes the records of a session as a sealed segment.
    fn seal(&mut self, writer: &mut SegmentsWriter) -> io::Result<()> {
        let Some((first, last)) = writer.open.take() else { return Ok(()) };
        // A segment has the number of no later start.
        let start = writer.segments.len() as u64 + 1;
        let header = SegmentHeader {
            store: self.store.id,
            salt: u64::from_le_bytes(self.env.random()),
            session: writer.hash,
            base: first.first_position,
            start,
            first_lsn: first.first_lsn,
            chain: first.chain,
            control_chain: first.control_chain,
            sealed: true,
            key: None,
        };
        let (records, batches) =
            (std::mem::take(&mut writer.records), std::mem::take(&mut writer.batches));
        let bytes = self.keys.with_encryptor(writer.cipher.as_ref(), |encryptor| {
            seal::seal(header, &records, batches, self.live_from, self.compresses, encryptor)
        });
        let path = segment::path(writer.hash, header.base, start, true);
        let storage = &self.env.storage;
        storage.create_dir(&segment::directory(writer.hash))?;
        let file = match storage.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.remove(&path)?;
                storage.create(&path)?
            }
            created => created?,
        };
        file.write_at(0, &bytes)?;
        let (base, end, bytes) = (header.base.0, last.tail.0, bytes.len() as u64);
        writer.segments.push(SegmentEntry { base, start, sealed: true, bytes, end });
        self.bytes += bytes;
        writer.bytes = 0;
        Ok(())
    }

    /// Adds the entry of a session; its segments are durable before it is.
    fn end(&mut self, session: &MigratedSession) -> io::Result<()> {
        let mut writer = self.writer_of(session)?;
        self.seal(&mut writer)?;
        let key = writer.cipher.map_or(0, |cipher| cipher.number().0);
        let entry = Entry { segments: writer.segments, key, ..session.entry.clone() };
        let loaded = LoadedSession::from_entry(session.key.clone(), entry.clone());
        self.slots.mark_changed(&loaded);
        self.entries.insert(session.hash, entry);
        self.sessions += 1;
        if self.sessions >= FLUSH_SESSIONS || self.bytes >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn remove(&mut self, session: &MigratedSession) {
        self.slots.unmark(session.hash);
        self.entries.remove(&session.hash);
        self.slots.schedule_rewrite();
        self.sessions += 1;
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.sessions == 0 {
            return Ok(());
        }
        self.env.storage.sync_all()?;
        self.write_settled()?;
        (self.sessions, self.bytes) = (0, 0);
        Ok(())
    }

    /// Writes the older settled file.
    fn write_settled(&mut self) -> io::Result<()> {
        let now = self.env.clock.now();
        let starts = self.entries.values().flat_map(|one| one.segments.iter().map(|one| one.start));
        let delta = Delta {
            clean: true,
            start: starts.max().unwrap_or(0),
            order: 0,
            byte_offset: 0,
            // Later records have higher numbers than those of any copied session.
            lsn: self.entries.values().map(|one| one.end_lsn).max().unwrap_or(0).max(1),
            at: now.0,
            counted: self.counted.0,
            seen: now.0,
            entries: Vec::new(),
        };
        let entries = &self.entries;
        self.slots.write_older(&self.env, delta, &|visit| {
            entries.values().for_each(|entry| visit(&entry.encode()));
        })
    }

    /// Writes both settled files with all entries, and names the store.
    fn finish(&mut self, counted: Timestamp) -> io::Result<()> {
        self.counted = counted;
        self.env.storage.sync_all()?;
        self.slots.schedule_rewrite();
        (0..2).try_for_each(|_| self.write_settled())?;
        self.env.storage.rename(MIGRATING, STORE)?;
        self.env.storage.sync_dir("")
    }
}

impl MigrationTarget for DirectoryTarget {
    fn state(&mut self) -> StoreFuture<'_, TargetState> {
        async move { self.find_state() }.boxed()
    }

    fn begin<'a>(&'a mut self, source: &'a dyn MigrationSource) -> StoreFuture<'a, ()> {
        async move { self.begin_copy(source).map_err(open_error) }.boxed()
    }

    fn reader(&mut self) -> StoreFuture<'_, Box<dyn MigrationSource>> {
        async move {
            let env = self.env.as_ref().ok_or(OpenError::Migrating).map_err(open_error)?;
            let store = match &self.copy {
                Some(copy) => copy.store,
                None => {
                    let stored = layout::read_store_file(env).map_err(open_error)?;
                    stored.ok_or(OpenError::Migrating).map_err(open_error)?
                }
            };
            let opened = DirectorySource::open_files(env, self.options, store, None);
            Ok(Box::new(opened.map_err(open_error)?) as Box<dyn MigrationSource>)
        }
        .boxed()
    }

    fn remove<'a>(&'a mut self, session: &'a MigratedSession) -> StoreFuture<'a, ()> {
        self.step(|copy| {
            copy.remove(session);
            Ok(())
        })
    }

    fn write<'a>(
        &'a mut self,
        session: &'a MigratedSession,
        part: SessionPart,
    ) -> StoreFuture<'a, ()> {
        self.step(|copy| copy.write(session, part))
    }

    fn end<'a>(&'a mut self, session: &'a MigratedSession) -> StoreFuture<'a, ()> {
        self.step(|copy| copy.end(session))
    }

    fn flush(&mut self) -> StoreFuture<'_, ()> {
        self.step(DirectoryCopy::flush)
    }

    fn finish(&mut self, counted: Timestamp) -> StoreFuture<'_, ()> {
        self.step(move |copy| copy.finish(counted))
    }
}
