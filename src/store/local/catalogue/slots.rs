//! The two files of `settled/`, written in turn: each flush appends a delta to the older one, so
//! that the newer stays whole if this write fails. Journal files are recycled only before the older
//! one's location. It must not read segments.

use std::{collections::BTreeMap, io, sync::Arc};

use super::super::{
    journal::place::{JournalLocation, min_location},
    layout::{open_error, replace, settled_path},
    options::OpenError,
    session::LoadedSession,
};
use crate::{
    env::{
        Env, File,
        planted::{Defect, is_planted},
    },
    event::{Lsn, SessionHash, Timestamp},
    log::{
        Cipher, Delta, Encryptor, Entry, GenerationEncoder, LogError, SETTLED_AT, SettledIndex,
        encode_delta, reading::read_with_holes, settled_header,
    },
    store::lifetime::LifetimeClockState,
};

/// Minimum bytes of a settled file at which a base is rewritten because its deltas outgrew it.
const BASE_BYTES_MIN: u64 = 1 << 20;
/// Approximate bytes of one write of a base.
const WRITE_BYTES: usize = 1 << 20;

/// Function that passes on the encoded entry of every flushed session.
pub(crate) type EachEntry<'a> = &'a dyn Fn(&mut dyn FnMut(&[u8]));

struct SettledFile {
    salt: u64,
    generation: u64,
    place: JournalLocation,
    /// Byte offset of the next delta.
    end: u64,
    /// Byte offset of the end of its base.
    base: u64,
    /// True if its end is not whole or a write to it failed: only a new base recovers it.
    stale: bool,
    /// Sessions whose entry in this file is not the last flushed one.
    touched: BTreeMap<SessionHash, Arc<LoadedSession>>,
}

/// State of both settled files.
pub(crate) struct SettledFiles {
    store: [u8; 16],
    /// Cipher of the entries, if they are encrypted.
    cipher: Option<Arc<Cipher>>,
    slots: [SettledFile; 2],
}

/// Contents of the settled files at start, without their entries.
pub(crate) struct SettledState {
    pub(crate) clean: bool,
    pub(crate) start: u64,
    pub(crate) place: JournalLocation,
    /// Count of time stored by the last flush.
    pub(crate) stored: LifetimeClockState,
    /// Counts of time with the wall clock at each, oldest first.
    pub(crate) times: Vec<(i64, i64)>,
}

/// Consumer of the store's state, an entry with its encoding, and whether the older file may lack
/// the entry.
type EntryVisitor<'a> = &'a mut dyn FnMut(&SettledState, Entry, &[u8], bool);

/// Settled file that could be read.
struct ReadableFile {
    file: Box<dyn File>,
    cipher: Option<Arc<Cipher>>,
    settled: SettledIndex,
    length: u64,
}

impl SettledFiles {
    /// Reads both files and chooses the newer whole generation. `visit` gets the store's state and
    /// each entry, in the order written, with its encoding and whether the older file may lack it.
    ///
    /// Each delta goes to the older file and holds all changes since that file's last write: so the
    /// older lacks only entries of the newer one's last delta. An older file that is not of the
    /// previous generation lost chunks, though the rest of it is whole.
    pub(crate) fn open(
        env: &Env,
        store: [u8; 16],
        cipher: Option<Arc<Cipher>>,
        visit: EntryVisitor<'_>,
    ) -> Result<(Self, SettledState), OpenError> {
        let read = [read_slot(env, store, &cipher, 0)?, read_slot(env, store, &cipher, 1)?];
        let mut slots = read.each_ref().map(|slot| SettledFile::new(slot.as_ref()));
        let [first, second] = read;
        let swapped = slots[1].generation > slots[0].generation;
        let (young, old) = if swapped { (second, first) } else { (first, second) };
        let damaged = |what: String| OpenError::Damaged { what };
        let read = young.and_then(|young| Some((young.settled.last.clone()?, young)));
        let Some((last, young)) = read else {
            return Err(damaged("no whole generation in settled/".to_owned()));
        };
        // If the newer file ends with its base, that has every entry: the older file is rewritten.
        let based = young.settled.last_at < young.settled.base_end;
        let old = old.and_then(|old| old.settled.last);
        let found = SettledState {
            clean: last.clean,
            start: last.start.max(old.map_or(0, |last| last.start)),
            place: location_of(&last),
            stored: LifetimeClockState {
                counted: Timestamp(last.counted),
                seen: Timestamp(last.seen),
            },
            times: young.settled.times.clone(),
        };
        let mut lacking = false;
        young
            .for_each_entry(&mut |entry, bytes, last| {
                lacking |= last;
                visit(&found, entry, bytes, last && !based);
            })
            .map_err(|error| match error {
                LogError::Io(error) => open_error("reading settled/")(error),
                error @ LogError::Fault { .. } => damaged(format!("settled/: {error}")),
            })?;
        let generation = Some(young.settled.generation);
        if let Some(older) = slots.get_mut(usize::from(!swapped)) {
            older.stale |= based && lacking || older.generation.checked_add(1) != generation;
        }
        Ok((Self { store, cipher, slots }, found))
    }

    /// Marks sessions whose last settled entry the older file may lack.
    pub(crate) fn mark_differing(&mut self, sessions: impl Iterator<Item = Arc<LoadedSession>>) {
        let [first, second] = &mut self.slots;
        let older = if second.generation < first.generation { second } else { first };
        older.touched.extend(sessions.map(|session| (session.hash, session)));
    }

    /// Marks a session whose settled entry changed, in both files.
    pub(crate) fn mark_changed(&mut self, session: &Arc<LoadedSession>) {
        for slot in &mut self.slots {
            slot.touched.insert(session.hash, Arc::clone(session));
        }
    }

    /// Unmarks a session that is not flushed any more because another one has its name.
    pub(crate) fn unmark(&mut self, session: SessionHash) {
        self.slots.iter_mut().for_each(|slot| drop(slot.touched.remove(&session)));
    }

    /// Returns the location in the journal before which everything is flushed in both files.
    pub(crate) fn recyclable_before(&self) -> JournalLocation {
        let [a, b] = [self.slots[0].place, self.slots[1].place];
        let first = min_location(a, b) == a;
        if first != is_planted(Defect::RecyclePastOlder) { a } else { b }
    }

    /// Schedules a rewrite of both files from a new base, one in each of the next two flushes.
    pub(crate) fn schedule_rewrite(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.stale = true);
    }

    /// Reads both files back from the device; a damaged one is rewritten by the following flushes.
    /// Returns the faults.
    pub(crate) fn check_files(&mut self, env: &Env) -> Vec<String> {
        let mut found = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| !slot.stale) {
            let read = read_slot(env, self.store, &self.cipher, number).ok().flatten();
            let whole = read.is_some_and(|read| {
                let end = (read.settled.generation, read.settled.end);
                end == (slot.generation, slot.end) && read.for_each_entry(&mut |_, _, _| {}).is_ok()
            });
            if !whole {
                slot.stale = true;
                found.push(format!("{} is damaged", settled_path(number)));
            }
        }
        found
    }

    /// Returns the location in the journal that the newer file names.
    pub(crate) fn latest_location(&self) -> JournalLocation {
        let [a, b] = &self.slots;
        if a.generation > b.generation { a.place } else { b.place }
    }

    /// Returns the last generation written.
    pub(crate) fn generation(&self) -> u64 {
        self.slots.iter().map(|slot| slot.generation).max().unwrap_or(0)
    }

    /// Returns the generation that both files have reached: entries that changed before it are in
    /// both.
    pub(crate) fn settled_generation(&self) -> u64 {
        let generations = self.slots.iter().map(|slot| slot.generation);
        let either =
            if is_planted(Defect::UnlinkEarly) { generations.max() } else { generations.min() };
        either.unwrap_or(0)
    }

    /// Returns true if both files have the session's state, and no start reads the journal before
    /// `behind`.
    pub(crate) fn both_contain(&self, session: SessionHash, behind: Lsn) -> bool {
        self.slots.iter().all(|slot| {
            !slot.stale && !slot.touched.contains_key(&session) && slot.place.lsn >= behind
        })
    }

    /// Returns true if both files name everything flushed so far.
    pub(crate) fn are_current(&self) -> bool {
        self.slots.iter().all(|slot| slot.touched.is_empty() && !slot.stale)
    }

    /// Writes the older file: a delta of the sessions touched since it was written, or a new base
    /// of `all` if its deltas outgrew the base.
    pub(crate) fn write_older(
        &mut self,
        env: &Env,
        mut delta: Delta,
        all: EachEntry<'_>,
    ) -> io::Result<()> {
        let [first, second] = &self.slots;
        let older = usize::from(second.generation < first.generation);
        let generation = first.generation.max(second.generation) + 1;
        let store = self.store;
        let nonce = || env.random_secret();
        let encryptor = self.cipher.as_deref().map(|cipher| Encryptor { cipher, nonce: &nonce });
        let Some(slot) = self.slots.get_mut(older) else { return Ok(()) };
        assert!(slot.generation < generation, "a generation is written once");
        let outgrown = slot.end > BASE_BYTES_MIN.max(2 * slot.base);
        let place = location_of(&delta);
        if slot.stale || outgrown {
            slot.write_base(env, older, (store, encryptor), generation, &delta, all)?;
        } else {
            let touched = slot.touched.values();
            delta.entries = touched.filter_map(|session| session.state().flushed_entry()).collect();
            slot.append_delta(env, older, generation, &delta, encryptor)?;
        }
        slot.generation = generation;
        slot.place = place;
        slot.touched.clear();
        Ok(())
    }
}

fn location_of(delta: &Delta) -> JournalLocation {
    JournalLocation { order: delta.order, byte_offset: delta.byte_offset, lsn: Lsn(delta.lsn) }
}

/// Reads a settled file; returns `None` if it is missing or not a readable file of this store.
fn read_slot(
    env: &Env,
    store: [u8; 16],
    cipher: &Option<Arc<Cipher>>,
    slot: usize,
) -> Result<Option<ReadableFile>, OpenError> {
    let path = settled_path(slot);
    let file = match env.storage.open_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(open_error(format!("opening {path}"))(error)),
    };
    let length = file.len().map_err(open_error(format!("reading {path}")))?;
    // The page cache may hold writes of a dead process that did not reach the device.
    file.sync().and_then(|()| file.evict()).map_err(open_error(format!("reading {path}")))?;
    let cipher = cipher.clone();
    // An unreadable chunk is not whole: the generations before it are valid.
    let read = |from, to| Ok(read_with_holes(&*file, from, to)?.bytes);
    match SettledIndex::read(store, cipher.as_deref(), &read) {
        Ok(settled) => Ok(Some(ReadableFile { file, cipher, settled, length })),
        Err(error) => {
            tracing::warn!(path, %error, "a settled file could not be read");
            Ok(None)
        }
    }
}

impl ReadableFile {
    fn for_each_entry(&self, visit: &mut dyn FnMut(Entry, &[u8], bool)) -> Result<(), LogError> {
        let read = |from, to| Ok(read_with_holes(&*self.file, from, to)?.bytes);
        let settled = &self.settled;
        settled.for_each_entry(self.cipher.as_deref(), &read, &mut |at, entry, bytes| {
            visit(entry, bytes, at >= settled.last_at);
        })
    }
}

impl SettledFile {
    fn new(found: Option<&ReadableFile>) -> Self {
        let nothing = SettledIndex::default();
        let settled = found.map_or(&nothing, |found| &found.settled);
        let nowhere = JournalLocation { order: 0, byte_offset: 0, lsn: Lsn(0) };
        Self {
            salt: settled.salt,
            generation: settled.generation,
            place: settled.last.as_ref().map_or(nowhere, location_of),
            end: settled.end,
            base: settled.base_end,
            stale: settled.last.is_none() || found.is_none_or(|found| settled.end != found.length),
            touched: BTreeMap::new(),
        }
    }

    fn append_delta(
        &mut self,
        env: &Env,
        slot: usize,
        generation: u64,
        delta: &Delta,
        encryptor: Option<Encryptor<'_>>,
    ) -> io::Result<()> {
        let bytes = encode_delta((self.salt, self.end), generation, delta, encryptor);
        let file = env.storage.open(&settled_path(slot))?;
        assert!(self.end >= SETTLED_AT, "a delta follows the header and the base");
        let written = file.write_at(self.end, &bytes);
        // On a full disk the partial write is ignored and the next write overwrites it: a new base
        // would need more space.
        let full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
        self.stale = !written.as_ref().is_err_and(full);
        written?;
        file.sync()?;
        self.stale = false;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn write_base(
        &mut self,
        env: &Env,
        slot: usize,
        (store, encryptor): ([u8; 16], Option<Encryptor<'_>>),
        generation: u64,
        delta: &Delta,
        all: EachEntry<'_>,
    ) -> io::Result<()> {
        let salt = u64::from_le_bytes(env.random());
        self.stale = true;
        let mut end = 0;
        replace(env, &settled_path(slot), &mut |file| {
            let mut bytes = settled_header(store, salt, encryptor.is_some());
            let mut chunks =
                GenerationEncoder::new((salt, SETTLED_AT), generation, delta, encryptor);
            let mut flush = |bytes: &mut Vec<u8>| {
                file.write_at(end, bytes)?;
                end += bytes.len() as u64;
                bytes.clear();
                Ok(())
            };
            let mut written = Ok(());
            all(&mut |entry| {
                chunks.push(entry, &mut bytes);
                if bytes.len() > WRITE_BYTES && written.is_ok() {
                    written = flush(&mut bytes);
                }
                if written.is_err() {
                    bytes.clear();
                }
            });
            chunks.finish(&mut bytes);
            written.and_then(|()| flush(&mut bytes))
        })?;
        assert!(end > SETTLED_AT, "a base has a chunk, be it without an entry");
        self.stale = false;
        self.salt = salt;
        self.end = end;
        self.base = self.end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_location_in_the_earlier_journal_file_or_at_the_lower_offset_is_the_minimum() {
        let place = |order, byte_offset, lsn| JournalLocation { order, byte_offset, lsn: Lsn(lsn) };
        for (first, second) in [
            (place(1, 8192, 7), place(2, 8192, 7)),
            (place(1, 9000, 7), place(2, 8192, 7)),
            (place(2, 8192, 7), place(2, 9000, 7)),
            (place(1, 8192, 7), place(1, 9000, 8)),
        ] {
            assert_eq!(min_location(first, second), first);
            assert_eq!(min_location(second, first), first);
        }
    }
}
