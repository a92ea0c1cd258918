//! Sealing: full segments are re-encoded into blocks under a new name, read back record by record
//! and verified against the chains, and only then replace the old ones. It must not unlink a
//! segment that a settled file may still name.

use std::{collections::BTreeSet, io, sync::Arc};

use super::super::{
    catalogue::{oldest_live_key_time, sessions::FEW_SESSIONS_MAX},
    session::{
        LoadedSession,
        opened::{OpenSegment, read_whole_frames},
    },
};
use super::{Segments, flush::concerns_whole_store, policy::SealingPolicy};
use crate::{
    env::{File, sync::atomic::Ordering},
    event::{Lsn, Position},
    log::{
        ChainValue, Cipher, Fault, LogError, Record, SegmentEntry,
        seal::{self, SealedTables},
        segment::{self, SegmentHeader},
    },
    store::rules::redact_records,
};

/// Maximum number of runs written before one sync.
const SEALED_AT_ONCE: usize = 64;

pub(crate) type Records = Vec<(Lsn, Record)>;

impl Segments {
    /// Seals the full segments of flushed sessions, unless the journal is under pressure: sealing
    /// saves space, and may wait.
    pub(crate) fn seal_full_segments(
        &self,
        settled: Vec<Arc<LoadedSession>>,
        quiet: bool,
    ) -> io::Result<()> {
        let full = settled.into_iter().filter(|session| self.full_run(session).is_some());
        self.sessions.backlog.add_full(full);
        if !quiet {
            return Ok(());
        }
        let mut sessions = self.sessions.backlog.take_full();
        while let Some((hash, session)) = sessions.pop_first() {
            let mut last = None;
            while let Some(run) = self.full_run(&session).filter(|run| last.as_ref() != Some(run)) {
                if self.sessions.unflushed_bytes()
                    > self.context.options.journal_retained_bytes / 16
                {
                    sessions.insert(hash, session);
                    self.sessions.backlog.add_full(sessions.into_values());
                    return Ok(());
                }
                self.seal_runs(vec![(Arc::clone(&session), run.clone())])?;
                // A run that is returned again was not sealed.
                last = Some(run);
            }
        }
        Ok(())
    }

    /// Returns the segments worth sealing of a session in use.
    fn full_run(&self, session: &LoadedSession) -> Option<Vec<SegmentEntry>> {
        let state = session.state();
        let living = !state.entry.stage.is_discarded() && !state.entry.stage.is_reclaimed();
        living.then(|| self.policy(false).choose_run(&state.entry.segments, &state.entry.damage))?
    }

    /// Returns the policy that chooses the segments worth sealing now.
    pub(crate) fn policy(&self, idle: bool) -> SealingPolicy {
        let (start, bytes_max) =
            (self.sessions.journal.start_number(), self.context.options.segment_bytes_max);
        SealingPolicy { start, bytes_max, idle }
    }

    /// Seals each run of segments of a session: writes one sealed segment, verified against the
    /// chains, makes it durable, reads it back, and replaces the run by it.
    pub(crate) fn seal_runs(
        &self,
        runs: Vec<(Arc<LoadedSession>, Vec<SegmentEntry>)>,
    ) -> io::Result<()> {
        let mut runs = runs.into_iter().peekable();
        while runs.peek().is_some() && !self.context.closed.load(Ordering::Acquire) {
            let mut written = Vec::new();
            for (session, run) in runs.by_ref().take(SEALED_AT_ONCE) {
                if let Some(one) = ignore_session_error(&session, self.write_sealed(&session, run))?
                {
                    written.push((session, one));
                }
            }
            self.sync_sealed(&written)?;
            for (session, one) in written {
                let read = read_back(&*one.file, &one.entry, &one.records, one.cipher.as_deref());
                if let Some((salt, sealed)) = ignore_session_error(&session, read)? {
                    // The names of replaced tables are not in memory: a reader loads them again.
                    let forget = sealed.without_ids && one.run.iter().any(|old| old.sealed);
                    let sealed = OpenSegment::from_sealed(one.entry, one.path, salt, sealed);
                    self.replace_run(&session, &one.run, sealed, forget);
                }
            }
        }
        Ok(())
    }

    /// Writes a run as one sealed segment, without the bodies of redacted events. Its name has this
    /// start, since the first segment's start may be in use by a sealed one.
    fn write_sealed(
        &self,
        session: &LoadedSession,
        run: Vec<SegmentEntry>,
    ) -> Result<PendingSeal, LogError> {
        let short = LogError::Fault { byte_offset: 0, fault: Fault::Short };
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Err(short) };
        let start = self.sealing_start(session, first.base);
        let path = self.new_segment_path(session, Position(first.base), start, true)?;
        let cipher = self.cipher(session)?;
        let (bytes, records) = self.encode_sealed(session, &run, start, cipher.as_ref())?;
        let storage = &self.context.env.storage;
        let file = match storage.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.remove(&path)?;
                storage.create(&path)?
            }
            other => other?,
        };
        file.write_at(0, &bytes)?;
        let (base, end, bytes) = (first.base, last.end, bytes.len() as u64);
        let entry = SegmentEntry { base, start, sealed: true, bytes, end };
        assert!(!run.contains(&entry), "a sealed segment never replaces itself");
        Ok(PendingSeal { run, entry, path, file, records, cipher })
    }

    /// Returns the start for the name of a new sealed segment: this one, or the previous one if
    /// this one is in use for that base. At most one of the two names is in use.
    fn sealing_start(&self, session: &LoadedSession, base: u64) -> u64 {
        let start = self.sessions.journal.start_number();
        let named = |one: &SegmentEntry| (one.base, one.start, one.sealed) == (base, start, true);
        start - u64::from(session.state().entry.segments.iter().any(named))
    }

    fn sync_sealed(&self, written: &[(Arc<LoadedSession>, PendingSeal)]) -> io::Result<()> {
        if written.len() > FEW_SESSIONS_MAX {
            return self.context.env.storage.sync_all();
        }
        let mut directories = BTreeSet::new();
        for (session, one) in written {
            one.file.sync()?;
            directories.insert(segment::directory(session.hash));
        }
        directories.iter().try_for_each(|directory| self.context.env.storage.sync_dir(directory))
    }

    fn replace_run(
        &self,
        session: &Arc<LoadedSession>,
        run: &[SegmentEntry],
        sealed: OpenSegment,
        forget: bool,
    ) {
        assert!(sealed.file.sealed && sealed.sealed.is_some(), "what replaces a run is sealed");
        let mut locked = session.state();
        let state = &mut *locked;
        for entry in state.entries_mut() {
            let at = entry.segments.iter().position(|segment| Some(segment) == run.first());
            if let Some(at) = at {
                entry.segments.splice(at..at + run.len(), [sealed.file.clone()]);
            }
        }
        if forget {
            state.opened = None;
        } else if let Some(opened) = &mut state.opened {
            opened.replace_by_sealed(run, sealed);
        }
        drop(locked);
        let paths = run
            .iter()
            .map(|old| segment::path(session.hash, Position(old.base), old.start, old.sealed));
        self.sessions.schedule_unlink(session, paths);
    }

    /// Encodes a sealed segment, verified against the chains; also returns its records.
    fn encode_sealed(
        &self,
        session: &LoadedSession,
        run: &[SegmentEntry],
        start: u64,
        cipher: Option<&Arc<Cipher>>,
    ) -> Result<(Vec<u8>, Records), LogError> {
        let mut header: Option<SegmentHeader> = None;
        let (mut records, mut known) = (Records::new(), Vec::new());
        let redacted = session.state().entry.redacted.clone();
        for entry in run {
            let path = segment::path(session.hash, Position(entry.base), entry.start, entry.sealed);
            let file = self.context.env.storage.open_read(&path)?;
            let found = SegmentHeader::read(&*file)?;
            header.get_or_insert(found);
            for frame in read_whole_frames(&*file, &found, entry, cipher.map(|cipher| &**cipher))? {
                let fault = |fault| LogError::Fault { byte_offset: 0, fault };
                records.extend(frame.records().map_err(fault)?);
            }
            if entry.sealed && !redacted.is_empty() {
                let tables =
                    SealedTables::read(&*file, &found, entry.bytes, cipher.map(|one| &**one))?;
                known.extend(tables.batches.into_iter().filter(|(_, one)| one.has_no_digest()));
            }
        }
        let Some(first) = header else {
            return Err(LogError::Fault { byte_offset: 0, fault: Fault::Short });
        };
        let salt = u64::from_le_bytes(self.context.env.random());
        let header = SegmentHeader { salt, start, sealed: true, ..first };
        let end = run.last().map_or(0, |last| last.end);
        check_chains(&header, &records, end, self.chains_after(session, run)?)?;
        known.extend(redact_records(header.base, &mut records, &redacted));
        let live = oldest_live_key_time(&self.context.count, &*self.context.env.clock);
        let compressed = self.context.options.compression;
        let bytes = self.context.keys.with_encryptor(cipher, |encryptor| {
            seal::seal(header, &records, known, live, compressed, encryptor)
        });
        Ok((bytes, records))
    }

    /// Returns the chains expected after a run: those before the next segment, before the first
    /// unflushed frame, or at the end of the session.
    fn chains_after(
        &self,
        session: &LoadedSession,
        run: &[SegmentEntry],
    ) -> Result<[ChainValue; 2], LogError> {
        let next = {
            let state = session.state();
            let segments = &state.entry.segments;
            let at = segments.iter().position(|segment| Some(segment) == run.last());
            match (at.and_then(|at| segments.get(at + 1)), state.unflushed.front()) {
                (Some(next), _) => next.clone(),
                (None, Some(held)) => return Ok([held.header.chain, held.header.control_chain]),
                (None, None) => {
                    return Ok([
                        ChainValue(state.entry.chain),
                        ChainValue(state.entry.control_chain),
                    ]);
                }
            }
        };
        let path = segment::path(session.hash, Position(next.base), next.start, next.sealed);
        let header = SegmentHeader::read(&*self.context.env.storage.open_read(&path)?)?;
        Ok([header.chain, header.control_chain])
    }
}

/// Sealed segment that is written, but not yet part of the session.
struct PendingSeal {
    /// Segments that it replaces.
    run: Vec<SegmentEntry>,
    entry: SegmentEntry,
    path: String,
    file: Box<dyn File>,
    records: Records,
    cipher: Option<Arc<Cipher>>,
}

/// Logs and ignores errors of one session: its next reader reports them, and its open segments are
/// sealed later. Returns errors of the whole store.
fn ignore_session_error<T>(
    session: &LoadedSession,
    result: Result<T, LogError>,
) -> io::Result<Option<T>> {
    match result {
        Ok(one) => Ok(Some(one)),
        Err(LogError::Io(error)) if concerns_whole_store(&error) => Err(error),
        Err(error) => {
            tracing::warn!(session = %session.hash, %error, "a segment is not sealed");
            Ok(None)
        }
    }
}

/// Computes both chains over the records to be sealed, and compares them with the expected ones.
fn check_chains(
    header: &SegmentHeader,
    records: &Records,
    end: u64,
    behind: [ChainValue; 2],
) -> Result<(), LogError> {
    let (mut position, mut chains) = (header.base, [header.chain, header.control_chain]);
    let [events, controls] = &mut chains;
    for (lsn, record) in records {
        if record.is_event() {
            *events = events.with_record(position.0, record);
            position = position.plus(1);
        } else {
            *controls = controls.with_record(lsn.0, record);
        }
    }
    if position == Position(end) && chains == behind {
        return Ok(());
    }
    Err(LogError::Fault { byte_offset: 0, fault: Fault::Chain })
}

/// Reads a sealed segment back and compares every record.
fn read_back(
    file: &dyn File,
    entry: &SegmentEntry,
    records: &Records,
    cipher: Option<&Cipher>,
) -> Result<(u64, SealedTables), LogError> {
    let header = SegmentHeader::read(file)?;
    let sealed = SealedTables::read(file, &header, entry.bytes, cipher)?;
    let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
    let mut read = Records::new();
    for frame in read_whole_frames(file, &header, entry, cipher)? {
        read.extend(frame.records().map_err(wrong)?);
    }
    if read != *records || sealed.end != Position(entry.end) {
        return Err(wrong(Fault::Payload));
    }
    Ok((header.salt, sealed))
}
