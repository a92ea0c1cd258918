//! Writer of the commit journal: writes the frames of a round durably to the current file, and
//! continues in the next file of the ring when that one is full. It must not notify callers.
//!
//! A failed write is never repeated on the same file: the file is poisoned. The next file records
//! where it ends, and first repeats the acknowledged frames in its last block.

use std::{collections::HashMap, io};

use super::super::layout::journal_path;
use super::{
    place::JournalLocation,
    ring::{self, RingFile},
};
use crate::{
    env::{
        Env, File,
        planted::{Defect, is_planted},
    },
    event::{Lsn, Position, SessionHash},
    log::{
        ChainValue, Frame, FrameHeader, FrameKind, frame,
        journal::{FRAMES_AT, JournalHeader},
        scan::WATERMARK_ALIGN_BYTES,
    },
};

/// Bytes of a file system block: a failed write may damage other bytes of the same block.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of a new file on a full disk, for deletions.
const SPARING_BYTES: u64 = 64 << 10;

/// Reason why a round failed.
#[derive(Debug)]
pub(crate) enum RoundFailure {
    /// No byte was written.
    Refused(io::Error),
    /// Bytes may have been written: the outcome is unknown.
    Unknown(io::Error),
}

/// Writer of frames to the ring.
pub(crate) struct JournalWriter {
    env: Env,
    store: [u8; 16],
    start: u64,
    /// Bytes of a new file.
    file_bytes: u64,
    /// True if new files are as small as possible, because space is short.
    sparing: bool,
    /// True if new files are as small as possible, because a sync failed recently.
    careful: bool,
    files: Vec<RingFile>,
    current: Option<CurrentFile>,
    /// Order of the last use of a file.
    order: u64,
    /// Journal location after the last durable frame.
    durable: JournalLocation,
    started: bool,
    recyclable_order: u64,
    /// Acknowledged frames that end in the file's last block, to be repeated if it is poisoned.
    recent: Vec<(u64, Frame)>,
    repeat: bool,
    /// Number of failed syncs since the last successful one.
    failures: u32,
    /// Number of failed syncs of this process.
    failed: u64,
    /// Salt of the latest use of each file by this process, by the file's number.
    salts: HashMap<u32, u64>,
    /// Evidence that another process writes to this ring.
    foreign: Option<String>,
    pub(crate) watermarked: bool,
    /// Buffer in which a round is assembled; its memory is kept between rounds.
    buffer: Vec<u8>,
}

struct CurrentFile {
    file: Box<dyn File>,
    number: u32,
    order: u64,
    salt: u64,
    bytes: u64,
    /// Byte offset of the next frame.
    end: u64,
}

impl JournalWriter {
    /// Creates the writer from the recovered ring: `files`, the largest order among them, and the
    /// end of the frames of the last file.
    pub(crate) fn new(
        env: Env,
        (store, start): ([u8; 16], u64),
        file_bytes: u64,
        files: Vec<RingFile>,
        order: u64,
        end: JournalLocation,
    ) -> Self {
        Self {
            current: file_to_continue(&env, &files, end),
            store,
            start,
            file_bytes,
            sparing: false,
            careful: false,
            files,
            env,
            order,
            durable: end,
            started: false,
            recyclable_order: 0,
            recent: Vec::new(),
            repeat: false,
            failures: 0,
            failed: 0,
            salts: HashMap::new(),
            foreign: None,
            watermarked: true,
            buffer: Vec::new(),
        }
    }

    /// Returns the journal location after the last durable frame.
    pub(crate) fn durable_end(&self) -> JournalLocation {
        self.durable
    }

    /// Returns true if this start is durable.
    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    /// Returns the number of failed syncs of this process, and of those since the last success.
    pub(crate) fn failure_counts(&self) -> (u64, u32) {
        (self.failed, self.failures)
    }

    /// Sets whether new files are as small as possible, because a sync failed recently.
    pub(crate) fn set_careful(&mut self, careful: bool) {
        self.careful = careful;
    }

    /// Resets the count of consecutive failures, after a successful sync.
    pub(crate) fn reset_failures(&mut self) {
        self.failures = 0;
    }

    /// Returns the evidence, if any, that another process writes to this ring.
    pub(crate) fn foreign_evidence(&self) -> Option<&str> {
        self.foreign.as_deref()
    }

    /// Allows reuse of files before this order: both settled files cover them.
    pub(crate) fn recycle(&mut self, order: u64) {
        self.recyclable_order = order;
    }

    /// Sets whether new files are as small as possible, because space is short.
    pub(crate) fn set_small_files(&mut self, sparing: bool) {
        self.sparing = sparing;
    }

    /// Writes the frames of a round and makes them durable.
    pub(crate) fn commit<'a>(
        &mut self,
        round: impl Iterator<Item = &'a Frame> + Clone,
    ) -> Result<(), RoundFailure> {
        let Some(first) = round.clone().next() else { return Ok(()) };
        let need: u64 = round.clone().map(|frame| frame.header.stride()).sum();
        let fits = self.current.as_ref().is_some_and(|file| file.end + need <= file.bytes);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        if !fits {
            self.open_file(need, first.header.lsn_range().0, &mut buffer)
                .map_err(RoundFailure::Refused)?;
        }
        let Some(current) = &self.current else {
            return Err(RoundFailure::Refused(io::Error::other("no journal file is open")));
        };
        let at = current.end;
        let end = at + buffer.len() as u64 + need;
        buffer.reserve(need as usize);
        let block = end - end % BLOCK_BYTES;
        let (mut last, mut next) = (Vec::new(), self.durable.lsn);
        for frame in round {
            let header = FrameHeader { synced_lsn: self.durable.lsn, ..frame.header };
            assert!(next <= header.lsn_range().0, "numbers only grow along the journal");
            header.write(current.salt, &frame.payload, &mut buffer);
            next = header.lsn_range().1;
            let end = at + buffer.len() as u64;
            if end > block {
                last.push((end, Frame { header, payload: frame.payload.clone() }));
            }
        }
        assert_eq!(at + buffer.len() as u64, end, "a round takes the room that was found for it");
        if let Err(error) = self.write(&buffer, at) {
            self.abandon_failed_file();
            return Err(RoundFailure::Unknown(error));
        }
        self.durable.lsn = next;
        self.recent.retain(|(end, _)| *end > block);
        self.recent.append(&mut last);
        self.watermarked = false;
        self.buffer = buffer;
        Ok(())
    }

    /// Makes this start durable by writing the header of a new file. `next` is the number of the
    /// next record.
    pub(crate) fn record_start(&mut self, next: Lsn) -> io::Result<()> {
        let mut header = Vec::new();
        // No file is poisoned if none could be opened: space may become free.
        self.open_file(0, next, &mut header)?;
        self.write(&header, 0).inspect_err(|_| self.abandon_failed_file())
    }

    /// Continues in another file.
    pub(crate) fn switch_file(&mut self, next: Lsn) -> io::Result<()> {
        self.current = None;
        self.record_start(next)
    }

    /// Excludes a file from further use by this process.
    pub(crate) fn exclude_file(&mut self, number: u32) {
        let files = self.files.iter_mut().filter(|file| file.number == number);
        files.for_each(|file| file.poisoned = true);
    }

    /// Returns true if the file is excluded from further use by this process.
    pub(crate) fn is_excluded(&self, number: u32) -> bool {
        self.files.iter().any(|file| file.number == number && file.poisoned)
    }

    /// Excludes a file to which another thread failed to write; its last frames are repeated.
    pub(crate) fn abandon_file(&mut self, number: u32) {
        self.exclude_file(number);
        if self.current.take_if(|current| current.number == number).is_some() {
            self.repeat = true;
        }
    }

    /// Returns the files that were used: number and order.
    pub(crate) fn used_files(&self) -> Vec<(u32, u64)> {
        let used = self.files.iter().filter(|file| file.order > 0);
        used.map(|file| (file.number, file.order)).collect()
    }

    /// Zeroes the payloads of frames kept to be repeated whose record numbers `wanted` selects: no
    /// start reads these any more.
    pub(crate) fn zero_payloads(
        &mut self,
        session: SessionHash,
        wanted: &dyn Fn(u64, u64) -> bool,
    ) {
        for (_, Frame { header, payload }) in &mut self.recent {
            if header.session == session && wanted(header.first_lsn.0, header.end_lsn().0) {
                *payload = vec![0; payload.len()].into();
            }
        }
    }

    /// Writes at a byte offset, durably, and moves the end after it.
    fn write(&mut self, buffer: &[u8], at: u64) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if is_planted(Defect::ReuseAfterPoison) {
            self.durable.byte_offset = at + buffer.len() as u64;
        }
        assert!(current.end <= at, "no write touches what is durable in its file");
        assert!(at + buffer.len() as u64 <= current.bytes, "a journal file keeps its size");
        assert!(at.is_multiple_of(frame::ALIGN_BYTES), "frames start aligned");
        current.file.write_durably(at, buffer)?;
        current.end = at + buffer.len() as u64;
        self.durable.order = current.order;
        self.durable.byte_offset = current.end;
        self.started = true;
        self.failures = 0;
        Ok(())
    }

    /// Syncs an empty frame at the next 4 KiB boundary, once after the last round. At the end of
    /// the file it starts the next one, whose header records this one's end.
    pub(crate) fn write_watermark(&mut self) -> io::Result<()> {
        self.buffer = Vec::new();
        let Some(current) = &self.current else { return Ok(()) };
        let boundary = current.end.next_multiple_of(WATERMARK_ALIGN_BYTES);
        if std::mem::replace(&mut self.watermarked, true) {
            return Ok(());
        }
        if boundary + frame::HEADER_BYTES as u64 > current.bytes {
            return self.switch_file(self.durable.lsn);
        }
        let header = FrameHeader {
            kind: FrameKind::Watermark,
            length: 0,
            compressed: false,
            count: 0,
            events: 0,
            first_lsn: self.durable.lsn,
            synced_lsn: self.durable.lsn,
            first_position: Position(current.end),
            session: SessionHash([0; 32]),
            chain: ChainValue([0; 32]),
            control_chain: ChainValue([0; 32]),
            copy_lsn: Lsn(0),
            encrypted: None,
        };
        let mut buffer = Vec::new();
        header.write(current.salt, &[], &mut buffer);
        self.write(&buffer, boundary).inspect_err(|_| self.abandon_failed_file())
    }

    /// Abandons a failed file; the next one repeats the acknowledged frames in its last block.
    fn abandon_failed_file(&mut self) {
        if let Some(failed) = self.current.take() {
            self.exclude_file(failed.number);
        }
        self.repeat = true;
        self.failures += 1;
        self.failed += 1;
    }

    /// Fails if another process wrote to the ring since this owner's start. The lock prevents that;
    /// this check detects a removed lock.
    fn check_sole_writer(&mut self) -> io::Result<()> {
        let own = |number, salt| self.is_excluded(number) || self.salts.get(&number) == Some(&salt);
        let is_foreign = |number, header: &JournalHeader| {
            header.start >= self.start && !own(number, header.salt)
        };
        if self.foreign.is_none() {
            let found = ring::find_file_by_header(&self.env, self.store, is_foreign);
            self.foreign = found.map(|path| {
                format!("another process wrote {path} while this one owns the data directory; stop both, then verify")
            });
        }
        self.foreign.clone().map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    /// Makes another file of the ring current and appends its first bytes to `buffer`: both copies
    /// of its header, and the frames to repeat. Writes nothing yet. `next` is the first number that
    /// no earlier file has: numbers of failed frames are skipped.
    fn open_file(&mut self, need: u64, next: Lsn, buffer: &mut Vec<u8>) -> io::Result<()> {
        let again: u64 = self.recent.iter().map(|(_, frame)| frame.header.stride()).sum();
        self.check_sole_writer()?;
        ring::ensure_spare(&self.env, &mut self.files)?;
        let number = self.get_or_grow_file(FRAMES_AT + need + again)?;
        let file = self.env.storage.open(&journal_path(number))?;
        let bytes = file.len()?;
        self.order += 1;
        let header = JournalHeader {
            store: self.store,
            salt: self.new_salt(),
            order: self.order,
            start: self.start,
            first_lsn: next,
            previous_order: self.durable.order,
            previous_end: self.durable.byte_offset,
            previous_end_lsn: self.durable.lsn,
            opens: !self.started,
            file_bytes: bytes,
        };
        assert!(header.previous_order < header.order, "each use of a file has a higher order");
        assert!(header.previous_end_lsn <= header.first_lsn, "numbers only grow along the journal");
        buffer.extend(header.encode());
        let shared = std::mem::take(&mut self.recent);
        if std::mem::take(&mut self.repeat) && !is_planted(Defect::ForgetShared) {
            for (_, Frame { header: old, payload }) in shared {
                let again = FrameHeader { synced_lsn: self.durable.lsn, ..old };
                again.write(header.salt, &payload, buffer);
                self.recent.push((buffer.len() as u64, Frame { header: again, payload }));
            }
        }
        for entry in self.files.iter_mut().filter(|entry| entry.number == number) {
            entry.order = header.order;
        }
        let (order, salt) = (header.order, header.salt);
        self.salts.insert(number, salt);
        self.current = Some(CurrentFile { file, number, order, salt, bytes, end: 0 });
        Ok(())
    }

    /// Returns a random salt for a use: frames of earlier uses do not match it.
    fn new_salt(&self) -> u64 {
        let salt = u64::from_le_bytes(self.env.random());
        if is_planted(Defect::NoNewSalt) { 1 } else { salt }
    }

    /// Returns a reusable file of at least `need` bytes.
    fn find_reusable_file(&self, need: u64) -> Option<u32> {
        let free = |file: &&RingFile| {
            let needed = file.order >= self.recyclable_order.max(1) || file.poisoned;
            !needed && file.bytes >= need
        };
        self.files.iter().find(free).map(|file| file.number)
    }

    /// Checks, without writing, that the next frames have space.
    pub(crate) fn check_space(&self) -> io::Result<()> {
        let current = self.current.as_ref().is_some_and(|file| file.end + BLOCK_BYTES < file.bytes);
        if current || self.find_reusable_file(FRAMES_AT + BLOCK_BYTES).is_some() {
            return Ok(());
        }
        self.env.storage.check_space(self.file_bytes)
    }

    /// Finds or creates a file for the next frames, like a round that does not fit the current one.
    pub(crate) fn ensure_file(&mut self) -> io::Result<()> {
        ring::ensure_spare(&self.env, &mut self.files)?;
        self.get_or_grow_file(FRAMES_AT + BLOCK_BYTES).map(drop)
    }

    /// Returns a reusable file of at least `need` bytes, or a new one.
    fn get_or_grow_file(&mut self, need: u64) -> io::Result<u32> {
        if let Some(number) = self.find_reusable_file(need) {
            return Ok(number);
        }
        let sparing = SPARING_BYTES.min(self.file_bytes / 4);
        // Each failure of a device poisons a file, so the files are small.
        let small = self.sparing || self.careful;
        let usual = if small { sparing } else { self.file_bytes };
        let bytes = usual.max(need).next_multiple_of(BLOCK_BYTES);
        ring::grow_spare(&self.env, &mut self.files, bytes)
    }
}

/// Returns `None`: the last file of an earlier start is not written to. A planted defect in tests
/// returns that file.
fn file_to_continue(env: &Env, files: &[RingFile], end: JournalLocation) -> Option<CurrentFile> {
    let wrong = |file: &&RingFile| {
        is_planted(Defect::AppendAfterTornTail) && file.order == end.order.max(1)
    };
    let RingFile { number, order, bytes, .. } = *files.iter().find(wrong)?;
    let file = env.storage.open(&journal_path(number)).ok()?;
    let salt = JournalHeader::read(&*file).ok()?.salt;
    Some(CurrentFile { file, number, order, salt, bytes, end: end.byte_offset.max(FRAMES_AT) })
}
