//! Creation of a new store in an empty directory. It must not change a directory that has files.

use std::io;

use super::{
    keys,
    layout::{
        BACKUP, DERIVED, JOURNAL, MIGRATING, MOVED, QUARANTINE, RESTORING, SEGMENTS, SETTLED,
        STORE, open_error, read_small, read_store_file, replace, settled_path,
    },
    options::OpenError,
};
use crate::{
    env::Env,
    log::{
        Cipher, Delta, Encryptor, SETTLED_AT, StoreFile, StoreKeys, encode_delta,
        keyring::{MasterKey, OwnKey},
        settled_header,
    },
};

/// Reads `STORE`, or creates a store in an empty directory. Also returns whether the directory has
/// a directory of derived files.
pub(super) fn open_or_create(env: &Env) -> Result<(StoreFile, bool), OpenError> {
    let storage = &env.storage;
    let names = storage.list("").map_err(open_error("listing the data directory"))?;
    let has = |name: &str| names.iter().any(|entry| entry.name == name);
    if has(BACKUP) {
        return Err(OpenError::Backup);
    }
    if has(RESTORING) {
        return Err(OpenError::Unfinished);
    }
    if has(MIGRATING) {
        return Err(OpenError::Migrating);
    }
    if has(MOVED)
        && let Some(place) = read_small(env, MOVED)?
    {
        return Err(OpenError::Moved { place: String::from_utf8_lossy(&place).trim().to_owned() });
    }
    let derived = has(DERIVED);
    if !has(STORE) {
        // STORE is durable before any of these directories has an entry.
        for directory in [JOURNAL, SEGMENTS] {
            let there = has(directory);
            let listed =
                || storage.list(directory).map_err(open_error(format!("listing {directory}/")));
            if there && !listed()?.is_empty() {
                let what = format!("{directory}/ has files, but the file STORE is missing");
                return Err(OpenError::Damaged { what });
            }
        }
        return Ok((create_store(env).map_err(open_error("making a new store"))?, derived));
    }
    let store = read_store_file(env)?;
    let store = store.ok_or_else(|| OpenError::Damaged { what: "STORE is gone".to_owned() })?;
    Ok((store, derived))
}

/// Creates the files of a store, then `STORE`: until its rename is durable the store does not
/// exist, and the next start creates it again.
fn create_store(env: &Env) -> io::Result<StoreFile> {
    let store = create_files(env, env.random(), None)?;
    replace(env, STORE, &mut |file| file.write_at(0, &store.encode()))?;
    Ok(store)
}

/// Creates directories, the files of keys and both settled files, durably; `own` is the own key of
/// a store that is copied.
pub(super) fn create_files(env: &Env, id: [u8; 16], own: Option<&OwnKey>) -> io::Result<StoreFile> {
    let (storage, created_at) = (&env.storage, env.clock.now().0);
    for directory in [JOURNAL, SETTLED, SEGMENTS, QUARANTINE] {
        storage.create_dir(directory)?;
    }
    let store = StoreFile { id, created_at, keys: keys::create_files(env, id, created_at, own)? };
    let cipher = unwrap_store_cipher(env, &store);
    let nonce = || env.random_secret();
    let encryptor = cipher.as_ref().map(|cipher| Encryptor { cipher, nonce: &nonce });
    for slot in 0..2 {
        let salt = u64::from_le_bytes(env.random());
        let mut bytes = settled_header(store.id, salt, encryptor.is_some());
        let nothing = Delta {
            clean: true,
            start: 0,
            order: 0,
            byte_offset: 0,
            lsn: 1,
            at: store.created_at,
            counted: store.created_at,
            seen: store.created_at,
            entries: Vec::new(),
        };
        let place = (salt, SETTLED_AT);
        bytes.extend(encode_delta(place, slot as u64 + 1, &nothing, encryptor));
        replace(env, &settled_path(slot), &mut |file| file.write_at(0, &bytes))?;
    }
    // STORE must not be durable before them: names reach the device in any order.
    storage.sync_dir("")?;
    Ok(store)
}

/// Unwraps the store's own key with its current master key.
fn unwrap_store_cipher(env: &Env, store: &StoreFile) -> Option<Cipher> {
    let (given, StoreKeys { current, .. }) = (env.keys.as_ref()?, store.keys.as_ref()?);
    let own = MasterKey::new(given.current.bytes()).unwrap_own(store.id, store.created_at, current);
    Some(own.ok()?.cipher())
}
