//! The files of the journal's ring, numbered from 0 without a gap. A file gets its name when it is
//! whole, and an empty file with the next number, the *spare*, exists before records are
//! acknowledged in it. So a file that goes missing leaves a gap, and a truncated one is shorter
//! than its header records. It must not decide which file is free; the writer does.

use std::{collections::HashMap, io, ops::Range};

use super::super::{
    layout::{JOURNAL, PROBE, journal_path, open_error},
    options::OpenError,
};
use crate::{
    env::{Env, File},
    log::{
        Fault, LogError,
        journal::{FRAMES_AT, JournalHeader},
    },
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RingFile {
    pub(crate) number: u32,
    /// Order of its last use; 0 if it was never used.
    pub(crate) order: u64,
    /// Size in bytes; 0 for the spare.
    pub(crate) bytes: u64,
    /// True if this process must not use it again: a write to it failed, or it is evidence.
    pub(crate) poisoned: bool,
}

impl RingFile {
    /// Returns true if it is the empty file above the ring, and not a truncated one.
    fn is_spare(&self) -> bool {
        self.bytes == 0 && !self.poisoned
    }
}

pub(crate) struct JournalFile {
    pub(crate) header: JournalHeader,
    pub(crate) file: Box<dyn File>,
    pub(crate) bytes: u64,
}

/// Ring as found by a start.
#[derive(Default)]
pub(crate) struct JournalRing {
    pub(crate) files: Vec<RingFile>,
    /// Files with a whole header, by order.
    pub(crate) used: HashMap<u64, JournalFile>,
    /// Damaged or missing files: their numbers and the fault. Their content is unknown.
    pub(crate) damaged: Vec<(Range<u32>, String)>,
}

/// Parses the name of a ring file: a decimal number without leading zeros below the maximum.
fn parse_file_number(name: &str) -> Option<u32> {
    let number = name.parse::<u32>().ok().filter(|number| *number < u32::MAX)?;
    (number.to_string() == name).then_some(number)
}

/// Returns the message for missing files.
fn missing_message(Range { start, end }: &Range<u32>) -> String {
    let (first, last) = (journal_path(*start), journal_path(end - 1));
    if first == last {
        return format!("{first} is missing");
    }
    format!("{first} to {last} are missing")
}

/// Reads the header of every file of the ring. Files of an order below `needed` are not needed.
pub(crate) fn read(env: &Env, store: [u8; 16], needed: u64) -> Result<JournalRing, OpenError> {
    let mut numbers: Vec<u32> = Vec::new();
    for entry in env.storage.list(JOURNAL).map_err(open_error("listing journal/"))? {
        numbers.extend(parse_file_number(&entry.name));
    }
    numbers.sort_unstable();
    let top = numbers.last().copied().unwrap_or(0);
    let mut ring = JournalRing::default();
    let mut next = 0;
    for number in &numbers {
        let gap = std::mem::replace(&mut next, number + 1)..*number;
        ring.damaged.extend((!gap.is_empty()).then(|| (gap.clone(), missing_message(&gap))));
    }
    for number in numbers {
        let path = journal_path(number);
        let named = |error: io::Error| open_error(format!("reading {path}"))(error);
        let file = env.storage.open(&path).map_err(named)?;
        // Writes dirty pages of a dead process to the device, then reads the device, not the cache.
        file.sync().and_then(|()| file.evict()).map_err(named)?;
        let bytes = file.len().map_err(named)?;
        let header = match JournalHeader::read(&*file) {
            Err(LogError::Io(error)) => return Err(named(error)),
            Err(LogError::Fault { fault, .. }) => Err(fault),
            Ok(header) => Ok(header),
        };
        let wrong = match &header {
            Err(Fault::Zeros) if bytes >= FRAMES_AT => None,
            Err(_) if bytes == 0 && number == top => None,
            Err(fault) => Some(format!("header unreadable: {fault}")),
            Ok(header) if header.store != store => Some("header of another store".to_owned()),
            Ok(header) if bytes < header.file_bytes && header.order >= needed => {
                Some(format!("cut from {} bytes to {bytes}", header.file_bytes))
            }
            Ok(header) if ring.used.contains_key(&header.order) => {
                Some(format!("a second file of order {}", header.order))
            }
            Ok(_) => None,
        };
        let header = header.ok().filter(|header| header.store == store);
        let order = header.map_or(0, |header| header.order);
        let poisoned = wrong.is_some();
        let damage = |wrong| (number..number + 1, format!("{path}: {wrong}"));
        ring.damaged.extend(wrong.map(damage));
        if let Some(header) = header {
            ring.used.entry(order).or_insert(JournalFile { header, file, bytes });
        }
        ring.files.push(RingFile { number, order, bytes, poisoned });
    }
    Ok(ring)
}

/// Returns the path of a file of the ring whose header is of this store and matches. Files that
/// cannot be listed or read are skipped: a start reports their faults.
pub(crate) fn find_file_by_header(
    env: &Env,
    store: [u8; 16],
    wanted: impl Fn(u32, &JournalHeader) -> bool,
) -> Option<String> {
    let numbers = env.storage.list(JOURNAL).unwrap_or_default();
    let mut numbers = numbers.iter().filter_map(|entry| parse_file_number(&entry.name));
    let found = numbers.find(|number| {
        let file = env.storage.open_read(&journal_path(*number));
        let header = file.ok().and_then(|file| JournalHeader::read(&*file).ok());
        header.is_some_and(|header| header.store == store && wanted(*number, &header))
    });
    found.map(journal_path)
}

/// Writes, syncs and removes a file outside of the ring, to test if the disk works again. Removes
/// the file of an interrupted probe first.
pub(crate) fn probe(env: &Env) -> io::Result<()> {
    const BYTES: [u8; 4096] = [0x5a; 4096];
    match env.storage.remove(PROBE) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = env.storage.create(PROBE)?;
    let written = file.write_at(0, &BYTES).and_then(|()| file.sync());
    let removed = env.storage.remove(PROBE);
    written.and(removed).and_then(|()| env.storage.sync_dir(""))
}

/// Creates the spare unless it exists: no record may be acknowledged in the last file of the ring.
pub(crate) fn ensure_spare(env: &Env, ring: &mut Vec<RingFile>) -> io::Result<()> {
    if ring.iter().any(RingFile::is_spare) {
        return Ok(());
    }
    let number = ring.iter().map(|file| file.number + 1).max().unwrap_or(0);
    match env.storage.create(&journal_path(number)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => env.storage.sync_dir(JOURNAL)?,
    }
    debug_assert!(ring.iter().all(|file| file.number < number), "the spare stands above the ring");
    ring.push(RingFile { number, order: 0, bytes: 0, poisoned: false });
    Ok(())
}

/// Grows the spare to `bytes` bytes and creates another spare; returns its number.
pub(crate) fn grow_spare(env: &Env, ring: &mut Vec<RingFile>, bytes: u64) -> io::Result<u32> {
    let next = ring.iter().map(|file| file.number + 1).max().unwrap_or(0);
    let spare = ring.iter().find(|file| file.is_spare()).map_or(next, |file| file.number);
    create_zeroed(env, spare, bytes)?;
    ring.retain(|file| file.number != spare);
    assert!(bytes >= FRAMES_AT, "a journal file has room for its header");
    ring.push(RingFile { number: spare, order: 0, bytes, poisoned: false });
    ensure_spare(env, ring)?;
    Ok(spare)
}

/// Creates a journal file of zeros and renames it once it is durable: appending to a growing file
/// costs 20 times as much at the 99th percentile.
pub(crate) fn create_zeroed(env: &Env, number: u32, bytes: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let path = journal_path(number);
    let fresh = format!("{path}.new");
    let write = || -> io::Result<()> {
        match env.storage.remove(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = env.storage.create(&fresh)?;
        let zeros = vec![0; CHUNK.min(bytes) as usize];
        let mut at = 0;
        while at < bytes {
            let part = zeros.get(..CHUNK.min(bytes - at) as usize).unwrap_or(&zeros);
            file.write_at(at, part)?;
            at += part.len() as u64;
        }
        file.sync()?;
        env.storage.rename(&fresh, &path)?;
        env.storage.sync_dir(JOURNAL)
    };
    write().inspect_err(|_| {
        // An incomplete file is useless, and its space may be needed.
        let _ = env.storage.remove(&fresh);
    })
}
