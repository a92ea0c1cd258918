//! The keys of an encrypted store: its master keys, and a random key for each session, stored
//! wrapped in two files that are changed one after the other. It must not be called on the path of
//! an append, return a key that is not durable, nor expose key bytes other than as a cipher.
//!
//! Keys are created in advance, each time twice as many: a creation waits for an extra sync at the
//! first, second, fourth, … session of a tenant, and later at about each thousandth.

pub(super) mod rotate;

use std::{collections::BTreeMap, io, sync::Arc};

use super::{
    layout::{KEYS, STORE, concerns_one_file, keys_path, open_error, replace},
    options::OpenError,
    rank,
};
use crate::{
    env::{
        Env,
        planted::{Defect, is_planted},
        sync::Mutex,
    },
    event::{KeyId, TenantId},
    log::{
        Cipher, Encryptor, Fault, Frame, KeyNumber, LogError, Nonce, StoreFile, StoreKeys,
        journal::read,
        keyring::{
            KeySlot, MasterKey, NameKey, OwnKey, SLOT_BYTES, TenantTag, WrappedKey,
            check_keys_header, keys_header,
        },
        reading::{FileReading, read_with_holes},
    },
    store::{KeyProblem, keys::choose_masters},
};

/// Error text for a loss that only an operator can repair.
const NEITHER: &str = "neither file in keys/ can be read: bring keys/ back from a backup";
/// Slots read back at once.
const CHECK_SLOTS: usize = 4096;
/// Maximum number of keys created at once.
const MADE_AT_ONCE_MAX: u64 = 1024;

/// Keys of a store.
pub(super) struct EngineKeys {
    env: Env,
    store: [u8; 16],
    names: NameKey,
    ring: Option<KeyRing>,
}

/// Keys of an encrypted store.
pub(super) struct KeyRing {
    /// Master keys in use. The first is the current one, which wraps all new keys.
    pub(super) masters: Mutex<Vec<Arc<MasterKey>>>,
    /// Durable content of the file `STORE`.
    pub(super) stored: Mutex<StoreFile>,
    pub(super) own: OwnKey,
    cipher: Arc<Cipher>,
    pub(super) files: Mutex<KeyFiles>,
}

/// State of the two files of keys.
pub(super) struct KeyFiles {
    /// During a rotation: keys below this number were rewrapped.
    pub(super) rotated: u64,
    /// Number of the next key.
    next: u64,
    /// True for a file with faults: it is rewritten from both files before the next write to it.
    stale: [bool; 2],
    /// Keys created in advance, not assigned to a session.
    made: BTreeMap<TenantTag, MadeKeys>,
}

#[derive(Default)]
struct MadeKeys {
    /// Number of keys created the last time.
    count: u64,
    keys: Vec<Arc<Cipher>>,
}

/// Creates the files of keys and the wrapped own key of a new store, that of the store that it
/// copies if any; `None` without a master key.
pub(super) fn create_files(
    env: &Env,
    store: [u8; 16],
    created_at: i64,
    copied: Option<&OwnKey>,
) -> io::Result<Option<StoreKeys>> {
    let Some(keys) = &env.keys else { return Ok(None) };
    let new = || OwnKey::new(env.random_secret(), store, created_at);
    let own = copied.map_or_else(new, |own| own.for_copy(created_at));
    let current = MasterKey::new(keys.current.bytes()).wrap_own(&own, env.random_secret());
    env.storage.create_dir(KEYS)?;
    for file in 0..2 {
        let header = keys_header(store);
        replace(env, &keys_path(file), &mut |file| file.write_at(0, &header))?;
    }
    Ok(Some(StoreKeys { current, previous: None }))
}

impl EngineKeys {
    /// Opens the keys of a store with the master keys given; changes no file.
    pub(super) fn open(env: &Env, store: &StoreFile) -> Result<Self, OpenError> {
        let problem = |problem| OpenError::Key { problem };
        let (stored, given) = match (&store.keys, &env.keys) {
            (None, None) => {
                let names = NameKey::new(store.id, None);
                return Ok(Self { env: env.clone(), store: store.id, names, ring: None });
            }
            (None, Some(_)) => return Err(problem(KeyProblem::Plaintext)),
            (Some(stored), None) => {
                return Err(problem(KeyProblem::Missing { wanted: stored.current.id }));
            }
            (Some(stored), Some(given)) => (stored, given),
        };
        let (masters, own) = choose_masters(store, stored, given).map_err(problem)?;
        let mut files = KeyFiles { rotated: 1, next: 1, stale: [false; 2], made: BTreeMap::new() };
        let mut unread = false;
        for (file, stale) in files.stale.iter_mut().enumerate() {
            let header = count_slots(env, store.id, file).and_then(|(slots, header)| {
                files.next = files.next.max(slots);
                header
            });
            match header {
                Ok(()) => {}
                Err(LogError::Io(error)) if !concerns_one_file(&error) => {
                    return Err(open_error(format!("reading {}", keys_path(file)))(error));
                }
                Err(error) => {
                    tracing::warn!(file, %error, "a file of keys is damaged");
                    *stale = true;
                    unread |= error.is_unreadable();
                }
            }
        }
        // If the header is unreadable, the checksum of each slot suffices.
        if files.stale == [true; 2] && !unread {
            return Err(OpenError::Damaged { what: NEITHER.to_owned() });
        }
        let cipher = Arc::new(own.cipher());
        let names = NameKey::new(store.id, Some(&own));
        let masters = Mutex::new(rank::MASTERS, masters);
        let stored = Mutex::new(rank::STORED, *store);
        let files = Mutex::new(rank::KEY_FILES, files);
        let ring = Some(KeyRing { masters, stored, own, cipher, files });
        // Keys used again must be read from the device, not from a cache.
        Ok(Self { env: env.clone(), store: store.id, names, ring })
    }

    /// Returns the key of content hashes.
    pub(super) fn name_key(&self) -> &NameKey {
        &self.names
    }

    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    pub(super) fn store(&self) -> [u8; 16] {
        self.store
    }

    pub(super) fn ring(&self) -> Option<&KeyRing> {
        self.ring.as_ref()
    }

    /// Returns the cipher of the store's own key; `None` in a plaintext store.
    pub(super) fn store_cipher(&self) -> Option<&Arc<Cipher>> {
        self.ring.as_ref().map(|ring| &ring.cipher)
    }

    /// Returns a random nonce.
    pub(super) fn new_nonce(&self) -> Nonce {
        if is_planted(Defect::SameNonce) { [7; 24] } else { self.env.random_secret() }
    }

    /// Runs `write` with an encryptor for the key, if any.
    pub(super) fn with_encryptor<T>(
        &self,
        cipher: Option<&Arc<Cipher>>,
        write: impl FnOnce(Option<Encryptor<'_>>) -> T,
    ) -> T {
        let nonce = || self.new_nonce();
        write(cipher.map(|cipher| Encryptor { cipher, nonce: &nonce }))
    }

    /// Returns a key for a new session of the tenant; `None` in a plaintext store.
    ///
    /// # Errors
    /// Errors of the file system if keys had to be created.
    pub(super) fn allocate_key(&self, tenant: &TenantId) -> io::Result<Option<Arc<Cipher>>> {
        let Some(ring) = &self.ring else { return Ok(None) };
        let tag = ring.own.tenant_tag(tenant.as_str());
        let mut files = ring.files.lock();
        let ready = files.made.entry(tag).or_default().keys.pop();
        if ready.is_some() {
            return Ok(ready);
        }
        self.create_keys(ring, &mut files, tag)?;
        Ok(files.made.entry(tag).or_default().keys.pop())
    }

    /// Creates keys for a tenant, durable in both files.
    fn create_keys(&self, ring: &KeyRing, files: &mut KeyFiles, tag: TenantTag) -> io::Result<()> {
        let made = files.made.entry(tag).or_default();
        let count = (made.count * 2).clamp(1, MADE_AT_ONCE_MAX);
        let first = files.next;
        // Numbers are never reused, even if this write fails.
        files.next += count;
        let master = ring.current_master();
        let (mut slots, mut keys) = (Vec::new(), Vec::new());
        for number in (first..first + count).map(KeyNumber) {
            let key = zeroize::Zeroizing::new(self.env.random_secret());
            let wrapped = master.wrap(self.store, number, tag, &key, self.env.random_secret());
            slots.extend(KeySlot::Key(wrapped).encode(number));
            keys.push(Arc::new(Cipher::new(&key, self.store, number)));
        }
        assert_eq!(slots.len() as u64, count * SLOT_BYTES, "each key has a slot");
        keys.reverse();
        if !is_planted(Defect::LateKey) {
            self.write_slots(files, &[(KeyNumber(first), &slots)])?;
        }
        let made = files.made.entry(tag).or_default();
        made.count = count;
        made.keys = keys;
        Ok(())
    }

    /// Writes slots into one file and then into the other, each durably, so that one of them is
    /// whole at any time.
    pub(super) fn write_slots(
        &self,
        files: &mut KeyFiles,
        changes: &[(KeyNumber, &[u8])],
    ) -> io::Result<()> {
        for (file, path) in [(0, keys_path(0)), (1, keys_path(1))] {
            let stale = files.stale.get(file).copied().unwrap_or(false);
            if stale {
                let bytes = self.merge_files()?;
                replace(&self.env, &path, &mut |file| file.write_at(0, &bytes))?;
            }
            let write = || -> io::Result<()> {
                let file = self.env.storage.open(&path)?;
                for (first, slots) in changes {
                    assert!(*first != KeyNumber::STORE, "the header is no slot");
                    assert!(slots.len().is_multiple_of(SLOT_BYTES as usize), "slots are whole");
                    file.write_at(SLOT_BYTES * first.0, slots)?;
                }
                file.sync()
            };
            let written = write();
            if let Some(stale) = files.stale.get_mut(file) {
                *stale = written.is_err();
            }
            written?;
        }
        Ok(())
    }

    /// Merges both files: of each key the whole slot of either, or destroyed if either marks it so.
    fn merge_files(&self) -> io::Result<Vec<u8>> {
        let Some(ring) = &self.ring else { return Ok(Vec::new()) };
        let mut bytes = keys_header(self.store);
        let files = [self.read_slots(0), self.read_slots(1)];
        let count = files.iter().flatten().map(Vec::len).max().unwrap_or(0);
        if files.iter().all(Result::is_err) {
            return Err(io::Error::other(NEITHER));
        }
        for number in 1..count {
            let found = || files.iter().flatten().filter_map(|slots| slots.get(number).copied());
            let readable = found().flatten().next().is_some();
            if !readable && found().any(|slot| slot == Err(Fault::Unreadable)) {
                // A rewritten file without it would record that the key never existed.
                let what = format!("the device cannot read key {number} in either file of keys/");
                return Err(io::Error::other(what));
            }
            let merged = ring.best_slot(found().flatten());
            bytes.extend(merged.encode(KeyNumber(number as u64)));
        }
        Ok(bytes)
    }

    /// Returns the id of the current master key; `None` in a plaintext store.
    pub(super) fn current_key_id(&self) -> Option<[u8; 8]> {
        self.ring.as_ref()?.stored.lock().keys.map(|keys| keys.current.id.0)
    }

    /// Reads `STORE` and the keys for a backup, consistently: no key is rewrapped in between.
    pub(super) fn read_for_backup(&self) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
        let _turn = self.ring.as_ref().map(|ring| ring.files.lock());
        let file = self.env.storage.open_read(STORE)?;
        let store = read(&*file, 0, u64::MAX).map_err(io::Error::other)?;
        let keys = self.ring.as_ref().map(|_| self.merge_files()).transpose()?;
        Ok((store.into(), keys))
    }

    /// Reads the slots of a file by number, each with its own fault; slot 0 is the header.
    fn read_slots(&self, file: usize) -> Result<Vec<Result<KeySlot, Fault>>, LogError> {
        let handle = self.env.storage.open_read(&keys_path(file))?;
        let FileReading { bytes, holes } = read_with_holes(&*handle, 0, u64::MAX)?;
        let unread = |number: u64| holes.overlaps(SLOT_BYTES * number, SLOT_BYTES * (number + 1));
        if !unread(0) {
            let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
            check_keys_header(self.store, &bytes).map_err(wrong)?;
        }
        let slots = (0..).zip(bytes.chunks(SLOT_BYTES as usize));
        let slot = |(number, slot)| match unread(number) {
            true => Err(Fault::Unreadable),
            false => KeySlot::decode(KeyNumber(number), slot),
        };
        Ok(slots.map(slot).collect())
    }

    /// Reads both files back from the device; with `repairs`, rewrites a damaged one from the
    /// other. Returns the faults found.
    pub(super) fn check_files(&self, repairs: bool) -> Vec<String> {
        let Some(ring) = &self.ring else { return Vec::new() };
        let mut found = Vec::new();
        for file in 0..2 {
            if self.read_back(file).is_ok() {
                continue;
            }
            // Under the lock: a fault may come from a write during the first read.
            let mut files = ring.files.lock();
            let Err(error) = self.read_back(file) else { continue };
            let mut anew = || {
                // If a slot is readable in neither file, no file is rewritten.
                self.merge_files()?;
                files.stale.get_mut(file).into_iter().for_each(|stale| *stale = true);
                self.write_slots(&mut files, &[])
            };
            let then = match repairs.then(&mut anew) {
                Some(Ok(())) => "written anew from the other, nothing is lost".to_owned(),
                Some(Err(error)) => format!("it cannot be written anew: {error}"),
                None => "it stays as it is in a store that takes no writes".to_owned(),
            };
            found.push(format!("{} {error}; {then}", keys_path(file)));
        }
        found
    }

    /// Reads a file from the device, not the cache, some slots at a time.
    fn read_back(&self, file: usize) -> Result<(), LogError> {
        let (slots, header) = count_slots(&self.env, self.store, file)?;
        header?;
        let handle = self.env.storage.open_read(&keys_path(file))?;
        for first in (1..slots).step_by(CHECK_SLOTS) {
            let (from, to) = (first, first + CHECK_SLOTS as u64);
            let bytes = read(&*handle, SLOT_BYTES * from, SLOT_BYTES * to)?;
            for (number, slot) in (from..).zip(bytes.chunks(SLOT_BYTES as usize)) {
                let wrong = |fault| LogError::Fault { byte_offset: SLOT_BYTES * number, fault };
                KeySlot::decode(KeyNumber(number), slot).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// Returns the cipher of the key with that number.
    ///
    /// # Errors
    /// Errors of the file system, or the fault of the key in both files.
    pub(super) fn cipher(&self, number: KeyNumber) -> Result<Arc<Cipher>, LogError> {
        self.read_key(number).map(|(_, cipher)| cipher)
    }

    /// Decrypts a frame of any session with the key in its header.
    ///
    /// # Errors
    /// Fault of the frame, or of its key.
    pub(super) fn decrypt_frame(&self, frame: &Frame) -> Result<Frame, LogError> {
        let encrypted = frame.header.encrypted.filter(|_| self.ring.is_some());
        let cipher = match encrypted.map(|encrypted| encrypted.key) {
            None => self.store_cipher().map(Arc::clone),
            Some(KeyNumber::STORE) => self.store_cipher().map(Arc::clone),
            Some(number) => Some(self.cipher(number)?),
        };
        let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
        frame.clone().decrypt(cipher.as_deref()).map_err(wrong)
    }

    /// Returns [`Self::cipher`], and fails if the key is not of that tenant.
    pub(super) fn tenant_cipher(
        &self,
        number: KeyNumber,
        tenant: &str,
    ) -> Result<Arc<Cipher>, LogError> {
        let (tag, cipher) = self.read_key(number)?;
        let own = self.ring.as_ref().map(|ring| ring.own.tenant_tag(tenant));
        if own != Some(tag) {
            return Err(LogError::Fault { byte_offset: 0, fault: Fault::Misplaced });
        }
        Ok(cipher)
    }

    fn read_key(&self, number: KeyNumber) -> Result<(TenantTag, Arc<Cipher>), LogError> {
        let byte_offset = SLOT_BYTES.saturating_mul(number.0);
        let wrong = |fault| LogError::Fault { byte_offset, fault };
        let ring = self.ring.as_ref().ok_or_else(|| wrong(Fault::Encrypted))?;
        if number == KeyNumber::STORE {
            return Err(wrong(Fault::Plaintext));
        }
        let mut trouble = None;
        let mut slots = Vec::new();
        for path in [keys_path(0), keys_path(1)] {
            let found = || -> Result<KeySlot, LogError> {
                let file = self.env.storage.open_read(&path)?;
                let bytes = read(&*file, byte_offset, byte_offset + SLOT_BYTES)?;
                KeySlot::decode(number, &bytes).map_err(wrong)
            };
            match found() {
                Ok(found) => slots.push(found),
                Err(error) if error.is_unreadable() => trouble = Some(error),
                Err(LogError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                    trouble = Some(LogError::Io(error));
                }
                Err(_) => {}
            }
        }
        match ring.best_slot(slots.into_iter()) {
            KeySlot::Key(wrapped) => {
                let key = ring.unwrap(self.store, &wrapped).map_err(wrong)?;
                Ok((wrapped.tag, Arc::new(Cipher::new(&key, self.store, number))))
            }
            // A slot never written: report the key as gone, or the trouble of the other file.
            KeySlot::Empty => Err(trouble.unwrap_or_else(|| wrong(Fault::NoKey))),
            KeySlot::Destroyed => Err(wrong(Fault::NoKey)),
        }
    }

    /// Destroys keys in both files, durably: bytes encrypted under them become unreadable.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn destroy(&self, numbers: &[KeyNumber]) -> io::Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        let slots: Vec<(KeyNumber, Vec<u8>)> = numbers
            .iter()
            .filter(|number| **number != KeyNumber::STORE)
            .map(|number| (*number, KeySlot::Destroyed.encode(*number)))
            .collect();
        if slots.is_empty() {
            return Ok(());
        }
        let changes: Vec<(KeyNumber, &[u8])> =
            slots.iter().map(|(number, slot)| (*number, slot.as_slice())).collect();
        self.write_slots(&mut ring.files.lock(), &changes)
    }
}

impl KeyRing {
    /// Returns the current master key, which wraps all new keys.
    pub(super) fn current_master(&self) -> Arc<MasterKey> {
        let masters = self.masters.lock();
        Arc::clone(masters.first().expect("a ring has a master key"))
    }

    /// Returns the best of the copies of a slot, and of two keys one under a master key in use: a
    /// file of keys may be restored from before a rotation.
    pub(super) fn best_slot(&self, slots: impl Iterator<Item = KeySlot>) -> KeySlot {
        let masters: Vec<KeyId> = self.masters.lock().iter().map(|master| master.id()).collect();
        slots.fold(KeySlot::Empty, |one, other| match (one, other) {
            (KeySlot::Key(key), KeySlot::Key(_)) if !masters.contains(&key.master) => other,
            (one, other) => better_slot(one, other),
        })
    }

    pub(super) fn unwrap(
        &self,
        store: [u8; 16],
        wrapped: &WrappedKey,
    ) -> Result<zeroize::Zeroizing<[u8; 32]>, Fault> {
        let masters = self.masters.lock();
        let master = masters.iter().find(|master| master.id() == wrapped.master).cloned();
        drop(masters);
        master.ok_or(Fault::Misplaced)?.unwrap(store, wrapped)
    }
}

/// Returns the better of two copies of a slot: destroyed wins over a key, a key over empty.
pub(super) fn better_slot(one: KeySlot, other: KeySlot) -> KeySlot {
    match (one, other) {
        (KeySlot::Destroyed, _) | (_, KeySlot::Destroyed) => KeySlot::Destroyed,
        (KeySlot::Empty, other) => other,
        (one, _) => one,
    }
}

/// Returns the number of slots of a file, its header included, and the fault of the file, if any.
fn count_slots(
    env: &Env,
    store: [u8; 16],
    file: usize,
) -> Result<(u64, Result<(), LogError>), LogError> {
    let handle = env.storage.open_read(&keys_path(file))?;
    // Writes dirty pages of a dead process to the device, then reads the device, not the cache.
    handle.sync()?;
    handle.evict()?;
    let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
    let header = read(&*handle, 0, SLOT_BYTES);
    let header = header.and_then(|header| check_keys_header(store, &header).map_err(wrong));
    Ok((handle.len()?.div_ceil(SLOT_BYTES), header))
}
