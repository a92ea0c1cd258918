//! Change of the master key: a report on the keys that a store needs, and the rotation that rewraps
//! the store's own key and every session's key under the new one. It must not re-encrypt an event,
//! nor drop the previous key while a key is wrapped under it.
//!
//! First, `STORE` names both master keys: from then on a start needs both. Then the slots of
//! `keys/` are rewrapped, some at a time, in one file and then in the other. When neither file has
//! a slot under the previous key, `STORE` names only the new one. After a crash in any step the
//! next call continues.

use std::{io, sync::Arc};

use super::{
    super::{
        layout::{self, STORE, keys_path, replace},
        options::OpenError,
    },
    EngineKeys, KeyFiles, KeyRing, better_slot,
};
use crate::{
    env::Env,
    event::KeyId,
    log::{
        KeyNumber, LogError, StoreFile, StoreKeys,
        journal::read,
        keyring::{KeySlot, MasterKey, SLOT_BYTES, check_keys_header},
    },
    store::{KeyReport, StoreError, StoreResult},
};

/// Slots read at once.
const SLOTS_AT_ONCE: u64 = 4096;

/// Slot of one key in each of the two files, if readable.
type Pair = [Option<KeySlot>; 2];

/// Returns the keys that a data directory needs and those it has; changes nothing, and needs
/// neither a key nor the lock. `None` for a plaintext store, or without a store.
///
/// # Errors
/// Fault of the file `STORE`, or errors of the file system.
pub fn key_report(env: &Env) -> Result<Option<KeyReport>, OpenError> {
    let Some(store) = layout::read_store_file(env)? else { return Ok(None) };
    let Some(stored) = store.keys else { return Ok(None) };
    let mut report = KeyReport::new(&store, &stored, env.keys.as_deref());
    let counted = for_each_pair(env, store.id, &mut |_, pair| match pair
        .into_iter()
        .flatten()
        .reduce(better_slot)
    {
        None => report.unreadable += 1,
        Some(KeySlot::Empty) => {}
        Some(KeySlot::Destroyed) => report.destroyed += 1,
        Some(KeySlot::Key(_)) => {
            report.keys += 1;
            report.behind += u64::from(pair.iter().any(|slot| needs_rewrap(slot, report.current)));
        }
    });
    counted.map_err(layout::open_error("reading keys/"))?;
    Ok(Some(report))
}

/// Returns true if a slot must be rewrapped.
fn needs_rewrap(slot: &Option<KeySlot>, current: KeyId) -> bool {
    matches!(slot, Some(KeySlot::Key(wrapped)) if wrapped.master != current)
}

/// Passes the slots of every key in both files to `visit`.
fn for_each_pair(
    env: &Env,
    store: [u8; 16],
    visit: &mut dyn FnMut(KeyNumber, Pair),
) -> io::Result<()> {
    let mut from = 1;
    loop {
        let pairs = read_pairs(env, store, from)?;
        let count = pairs.len() as u64;
        (from..).zip(pairs).for_each(|(number, pair)| visit(KeyNumber(number), pair));
        from += count;
        if count < SLOTS_AT_ONCE {
            return Ok(());
        }
    }
}

/// Reads the slots of both files from the number `from` on: as many as one read returns, fewer at
/// the end of the longer file.
fn read_pairs(env: &Env, store: [u8; 16], from: u64) -> io::Result<Vec<Pair>> {
    let mut pairs: Vec<Pair> = Vec::new();
    for file in 0..2 {
        let found = match read_slots(env, store, file, from) {
            Ok(found) => found,
            Err(LogError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error);
            }
            // Slots unreadable now may be readable later, under a dropped master key.
            Err(error) if error.is_unreadable() => return Err(error.into()),
            // The other file has every slot.
            Err(_) => continue,
        };
        pairs.resize(pairs.len().max(found.len()), [None; 2]);
        for (pair, slot) in pairs.iter_mut().zip(found) {
            if let Some(one) = pair.get_mut(file) {
                *one = slot;
            }
        }
    }
    Ok(pairs)
}

/// Returns the slots of a file from a number on; `None` is one that cannot be read.
fn read_slots(
    env: &Env,
    store: [u8; 16],
    file: usize,
    from: u64,
) -> Result<Vec<Option<KeySlot>>, LogError> {
    let handle = env.storage.open_read(&keys_path(file))?;
    let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
    check_keys_header(store, &read(&*handle, 0, SLOT_BYTES)?).map_err(wrong)?;
    let bytes = read(&*handle, SLOT_BYTES * from, SLOT_BYTES * (from + SLOTS_AT_ONCE))?;
    let slots = (from..).zip(bytes.chunks(SLOT_BYTES as usize));
    Ok(slots.map(|(number, slot)| KeySlot::decode(KeyNumber(number), slot).ok()).collect())
}

impl EngineKeys {
    /// Starts a rotation to the current master key given, or continues one: rewraps at most
    /// `keys_max` keys. Returns its progress.
    ///
    /// # Errors
    /// [`StoreError::Plaintext`], or errors of the file system: then the next call continues.
    pub(crate) fn rotate(&self, keys_max: usize) -> StoreResult<KeyReport> {
        let Some(ring) = self.ring() else { return Err(StoreError::Plaintext) };
        let failed = |source| StoreError::Io { doing: "wrapping keys anew", source };
        let mut files = ring.files.lock();
        let begun = self.begin_rotation(ring).map_err(failed)?;
        if begun {
            self.rewrap_some(ring, &mut files, keys_max).map_err(failed)?;
        }
        drop(files);
        let report = key_report(self.env()).map_err(|error| failed(io::Error::other(error)))?;
        report.ok_or(StoreError::Plaintext)
    }

    /// Adds the new master key to `STORE`, next to the previous one; returns whether a rotation is
    /// under way.
    fn begin_rotation(&self, ring: &KeyRing) -> io::Result<bool> {
        let mut stored = ring.stored.lock();
        let Some(keys) = stored.keys else { return Ok(false) };
        if keys.previous.is_some() {
            return Ok(true);
        }
        let Some(given) = &self.env().keys else { return Ok(false) };
        let new = MasterKey::new(given.current.bytes());
        if new.id() == keys.current.id {
            return Ok(false);
        }
        let current = new.wrap_own(&ring.own, self.new_nonce());
        let next = StoreKeys { current, previous: Some(keys.current) };
        // Durable before a key is wrapped under it.
        self.write_store(&mut stored, next)?;
        ring.masters.lock().insert(0, Arc::new(new));
        tracing::info!(to = %next.current.id, from = %keys.current.id, "a rotation of keys began");
        Ok(true)
    }

    /// Rewraps some keys; ends the rotation if neither file has one left.
    fn rewrap_some(&self, ring: &KeyRing, files: &mut KeyFiles, keys_max: usize) -> io::Result<()> {
        let master = ring.current_master();
        let mut changes: Vec<(KeyNumber, Vec<u8>)> = Vec::new();
        let mut wrong = None;
        let from = files.rotated;
        let mut next = from;
        loop {
            let pairs = read_pairs(self.env(), self.store(), next)?;
            let count = pairs.len() as u64;
            for (number, pair) in (next..).map(KeyNumber).zip(pairs) {
                if !pair.iter().any(|slot| needs_rewrap(slot, master.id())) {
                    continue;
                }
                if changes.len() >= keys_max {
                    return self.write_rewrapped(files, &changes, number.0);
                }
                let slot = ring.best_slot(pair.into_iter().flatten());
                match self.rewrap(ring, &master, number, slot) {
                    Ok(slot) => changes.push((number, slot.encode(number))),
                    Err(error) => wrong = Some(error),
                }
            }
            next += count;
            if count < SLOTS_AT_ONCE {
                break;
            }
        }
        self.write_rewrapped(files, &changes, 1)?;
        // A key that cannot be unwrapped still needs the previous master key. A file may have been
        // rewritten from the other meanwhile: only a full pass without changes ends the rotation.
        match wrong {
            Some(error) => Err(error),
            None if changes.is_empty() && from == 1 => self.finish_rotation(ring),
            None => Ok(()),
        }
    }

    /// Writes rewrapped keys to both files; the next call continues at the number `next`.
    fn write_rewrapped(
        &self,
        files: &mut KeyFiles,
        changes: &[(KeyNumber, Vec<u8>)],
        next: u64,
    ) -> io::Result<()> {
        let changes: Vec<(KeyNumber, &[u8])> =
            changes.iter().map(|(number, slot)| (*number, slot.as_slice())).collect();
        if !changes.is_empty() {
            self.write_slots(files, &changes)?;
        }
        files.rotated = next;
        Ok(())
    }

    fn rewrap(
        &self,
        ring: &KeyRing,
        master: &MasterKey,
        number: KeyNumber,
        slot: KeySlot,
    ) -> io::Result<KeySlot> {
        let KeySlot::Key(wrapped) = slot else { return Ok(slot) };
        let unwrapped = ring.unwrap(self.store(), &wrapped);
        let key = unwrapped.map_err(|fault| {
            io::Error::other(format!("the key of number {} cannot be read: {fault}", number.0))
        })?;
        let nonce = self.new_nonce();
        Ok(KeySlot::Key(master.wrap(self.store(), number, wrapped.tag, &key, nonce)))
    }

    /// Removes the previous master key from `STORE`.
    fn finish_rotation(&self, ring: &KeyRing) -> io::Result<()> {
        let mut stored = ring.stored.lock();
        let Some(keys) = stored.keys else { return Ok(()) };
        self.write_store(&mut stored, StoreKeys { previous: None, ..keys })?;
        ring.masters.lock().truncate(1);
        tracing::info!(to = %keys.current.id, "a rotation of keys ended");
        Ok(())
    }

    fn write_store(&self, stored: &mut StoreFile, keys: StoreKeys) -> io::Result<()> {
        assert_ne!(
            keys.previous.map(|key| key.id),
            Some(keys.current.id),
            "a rotation ends under another master key"
        );
        let next = StoreFile { keys: Some(keys), ..*stored };
        replace(self.env(), STORE, &mut |file| file.write_at(0, &next.encode()))?;
        *stored = next;
        Ok(())
    }
}
