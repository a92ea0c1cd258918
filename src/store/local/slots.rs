//! The two files of `settled/`, written in turn: each settling appends a delta to the older one, so
//! that the younger stays whole whatever happens to this write. The journal is recycled only past
//! the older one's place. It must not look into segments.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::Arc,
};

use super::{
    OpenError,
    layout::{doing, replace, settled_path},
    session::Session,
};
use crate::{
    env::Env,
    event::{Lsn, SessionHash},
    log::{Delta, Entry, Settled, decode_settled, encode_delta, journal, settled_header},
};

/// A base is written anew when its deltas are larger than it, but not below this many bytes.
const BASE_BYTES_MIN: u64 = 1 << 20;

/// A place in the journal: everything before it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Order of the journal file; 0 before the first.
    pub(super) order: u64,
    /// Byte offset in it.
    pub(super) byte_offset: u64,
    /// Log sequence number of the next record there.
    pub(super) lsn: Lsn,
}

/// One settled file.
struct Slot {
    salt: u64,
    generation: u64,
    place: Place,
    /// Where the next delta goes.
    end: u64,
    /// Bytes of its base.
    base: u64,
    /// Its end is not whole, or a write to it failed: only a new base makes it good.
    stale: bool,
    /// Sessions whose entry here is not the last settled one.
    touched: BTreeMap<SessionHash, Arc<Session>>,
}

/// Both settled files.
pub(super) struct Slots {
    store: [u8; 16],
    slots: [Slot; 2],
}

/// Tenant, user, session and incarnation.
type Name = (String, String, String, [u8; 16]);

/// What the settled files said at start.
pub(super) struct Found {
    pub(super) clean: bool,
    pub(super) start: u64,
    pub(super) place: Place,
    pub(super) entries: BTreeMap<Name, Entry>,
    /// Sessions whose entry in the older file is another.
    differing: [Vec<Name>; 2],
}

impl Slots {
    /// Reads both files and chooses the younger whole generation.
    pub(super) fn open(env: &Env, store: [u8; 16]) -> Result<(Self, Found), OpenError> {
        let mut read = Vec::new();
        for slot in 0..2 {
            read.push(read_slot(env, store, slot)?);
        }
        let generation = |n: usize| read.get(n).map_or(0, |(settled, _)| settled.generation);
        let chosen = usize::from(generation(1) > generation(0));
        let other = 1 - chosen;
        let mut differing = [Vec::new(), Vec::new()];
        let [(young, _), (old, _)] =
            [chosen, other].map(|n| read.get(n).cloned().unwrap_or_default());
        let Some(last) = young.last.clone() else {
            let what = "no whole generation in settled/".to_owned();
            return Err(OpenError::Damaged { what });
        };
        let keys = young.entries.iter().filter(|(key, entry)| old.entries.get(*key) != Some(entry));
        if let Some(list) = differing.get_mut(other) {
            list.extend(keys.map(|(key, _)| key.clone()));
        }
        let slots = [0, 1].map(|n| {
            let (settled, length) = read.get(n).cloned().unwrap_or_default();
            Slot::of(&settled, length)
        });
        let found = Found {
            clean: last.clean,
            start: last.start.max(old.last.map_or(0, |last| last.start)),
            place: place_of(&last),
            entries: young.entries,
            differing,
        };
        Ok((Self { store, slots }, found))
    }

    /// Marks the sessions whose entry in the older file is not the younger one's.
    pub(super) fn touch_differing(
        &mut self,
        found: &Found,
        by_key: &HashMap<(String, String, String, [u8; 16]), Arc<Session>>,
    ) {
        for (slot, keys) in self.slots.iter_mut().zip(&found.differing) {
            for session in keys.iter().filter_map(|key| by_key.get(key)) {
                slot.touched.insert(session.hash, Arc::clone(session));
            }
        }
    }

    /// A session's settled entry changed.
    pub(super) fn touch(&mut self, session: &Arc<Session>) {
        for slot in &mut self.slots {
            slot.touched.insert(session.hash, Arc::clone(session));
        }
    }

    /// Everything before this place of the journal is settled in both files.
    pub(super) fn recyclable(&self) -> Place {
        let [a, b] = [&self.slots[0].place, &self.slots[1].place];
        if a.lsn <= b.lsn { *a } else { *b }
    }

    /// The place that the younger file names.
    pub(super) fn latest(&self) -> Place {
        let [a, b] = &self.slots;
        if a.generation > b.generation { a.place } else { b.place }
    }

    /// Whether both files name everything settled so far.
    pub(super) fn even(&self) -> bool {
        self.slots.iter().all(|slot| slot.touched.is_empty() && !slot.stale)
    }

    /// Writes the older file: a delta of the sessions touched since it was written, or a new base
    /// of `all` when its deltas outgrew it.
    pub(super) fn write(
        &mut self,
        env: &Env,
        mut delta: Delta,
        all: impl FnOnce() -> Vec<Entry>,
    ) -> io::Result<()> {
        let [first, second] = &self.slots;
        let older = usize::from(second.generation < first.generation);
        let generation = first.generation.max(second.generation) + 1;
        let store = self.store;
        let Some(slot) = self.slots.get_mut(older) else { return Ok(()) };
        let outgrown = slot.end > BASE_BYTES_MIN.max(2 * slot.base);
        let place = place_of(&delta);
        if slot.stale || outgrown {
            delta.entries = all();
            slot.rewrite(env, older, store, generation, &delta)?;
        } else {
            let touched = slot.touched.values();
            delta.entries = touched.filter_map(|session| session.state().settled_entry()).collect();
            slot.append(env, older, generation, &delta)?;
        }
        slot.generation = generation;
        slot.place = place;
        slot.touched.clear();
        Ok(())
    }
}

fn place_of(delta: &Delta) -> Place {
    Place { order: delta.order, byte_offset: delta.byte_offset, lsn: Lsn(delta.lsn) }
}

fn read_slot(env: &Env, store: [u8; 16], slot: usize) -> Result<(Settled, u64), OpenError> {
    let path = settled_path(slot);
    let file = match env.storage.open_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => return Err(doing(format!("opening {path}"))(error)),
    };
    let length = file.len().map_err(doing(format!("reading {path}")))?;
    // The page cache of a process that died may hold what the device never got.
    file.sync().and_then(|()| file.evict()).map_err(doing(format!("reading {path}")))?;
    match journal::read(&*file, 0, length) {
        Ok(bytes) => Ok((decode_settled(store, &bytes).unwrap_or_default(), length)),
        Err(error) => {
            tracing::warn!(path, %error, "a settled file could not be read");
            Ok(Default::default())
        }
    }
}

impl Slot {
    fn of(settled: &Settled, length: u64) -> Self {
        let nowhere = Place { order: 0, byte_offset: 0, lsn: Lsn(0) };
        Self {
            salt: settled.salt,
            generation: settled.generation,
            place: settled.last.as_ref().map_or(nowhere, place_of),
            end: settled.end,
            base: settled.end,
            stale: settled.last.is_none() || settled.end != length,
            touched: BTreeMap::new(),
        }
    }

    fn append(&mut self, env: &Env, slot: usize, generation: u64, delta: &Delta) -> io::Result<()> {
        let bytes = encode_delta(self.salt, generation, delta);
        self.stale = true;
        let file = env.storage.open(&settled_path(slot))?;
        file.write_at(self.end, &bytes)?;
        file.sync()?;
        self.stale = false;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn rewrite(
        &mut self,
        env: &Env,
        slot: usize,
        store: [u8; 16],
        generation: u64,
        delta: &Delta,
    ) -> io::Result<()> {
        let salt = u64::from_le_bytes(env.random());
        let mut bytes = settled_header(store, salt);
        bytes.extend(encode_delta(salt, generation, delta));
        self.stale = true;
        replace(env, &settled_path(slot), &bytes)?;
        self.stale = false;
        self.salt = salt;
        self.end = bytes.len() as u64;
        self.base = self.end;
        Ok(())
    }
}
