//! Names inside a data directory, and atomic replacement of a file. It must not open sessions.

use std::io;

use bytes::Bytes;

use super::options::OpenError;
use crate::{
    env::{Env, File, is_unreadable},
    log::{FORMAT, Fault, StoreFile, journal},
};

/// Name of the file that identifies a data directory.
pub(super) const STORE: &str = "STORE";
/// Name of the file that identifies a backup.
pub(super) const BACKUP: &str = "BACKUP";
/// Name of the file that marks a directory during a restore: it is not a store yet.
pub(super) const RESTORING: &str = "RESTORING";
/// Name of the file `STORE` of a directory that a store is being copied into.
pub(super) const MIGRATING: &str = "MIGRATING";
/// Name of the file with the place that the store of a directory was moved to.
pub(super) const MOVED: &str = "MOVED";
pub(super) const JOURNAL: &str = "journal";
pub(super) const SETTLED: &str = "settled";
pub(super) const SEGMENTS: &str = "segments";
/// Directory of files computed from events, which may be lost.
pub(super) const DERIVED: &str = "derived";
pub(super) const QUARANTINE: &str = "quarantine";
/// First file of the reserve; the others append a number to this name.
pub(super) const RESERVE: &str = "reserve";
/// File written to test if a failed disk syncs again.
pub(super) const PROBE: &str = "probe";
pub(super) const KEYS: &str = "keys";

/// Returns the path of a journal file of the ring.
pub(super) fn journal_path(number: u32) -> String {
    format!("{JOURNAL}/{number}")
}

/// Returns the path of one of the two settled files.
pub(super) fn settled_path(slot: usize) -> String {
    format!("{SETTLED}/{slot}")
}

/// Returns the path of one of the two files of keys.
pub(super) fn keys_path(file: usize) -> String {
    format!("{KEYS}/{file}")
}

/// Returns a function that adds the operation to an error of the file system.
pub(super) fn open_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
    let doing = what.into();
    move |source| OpenError::Io { doing, source }
}

/// Reads a short file, if it exists.
pub(super) fn read_small(env: &Env, name: &str) -> Result<Option<Bytes>, OpenError> {
    let file = match env.storage.open_read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(open_error(format!("opening {name}")))?,
    };
    let damaged = |error| OpenError::Damaged { what: format!("{name}: {error}") };
    journal::read(&*file, 0, 4096).map(Some).map_err(damaged)
}

/// Reads `STORE`, if it exists.
pub(super) fn read_store_file(env: &Env) -> Result<Option<StoreFile>, OpenError> {
    let Some(bytes) = read_small(env, STORE)? else { return Ok(None) };
    StoreFile::decode(&bytes).map(Some).map_err(|fault| match fault {
        Fault::Unknown { value, .. } if value > FORMAT => {
            OpenError::Newer { found: value, supported: FORMAT }
        }
        other => OpenError::Damaged { what: format!("STORE: {other}") },
    })
}

/// Syncs the directories. The previous owner may have been killed between creating a name and
/// syncing it, and acknowledgements of this start depend on these names.
pub(super) fn sync_directories(env: &Env) -> io::Result<()> {
    let keys = env.keys.is_some().then_some(KEYS);
    // An incomplete file of a killed start has keys that may be destroyed later.
    (0..2)
        .filter(|_| keys.is_some())
        .try_for_each(|file| remove_incomplete(env, &keys_path(file)))?;
    let mut directories = ["", JOURNAL, SETTLED].into_iter().chain(keys);
    directories.try_for_each(|directory| env.storage.sync_dir(directory))
}

/// Replaces a file atomically: writes and syncs another one, renames it, syncs the directory.
pub(super) fn replace(
    env: &Env,
    path: &str,
    write: &mut dyn FnMut(&dyn File) -> io::Result<()>,
) -> io::Result<()> {
    let storage = &env.storage;
    let fresh = format!("{path}.new");
    let made = remove_incomplete(env, path).and_then(|()| {
        let file = storage.create(&fresh)?;
        write(&*file)?;
        file.sync()?;
        storage.rename(&fresh, path)?;
        storage.sync_dir(path.rsplit_once('/').map_or("", |(directory, _)| directory))
    });
    made.inspect_err(|_| {
        // An incomplete file is useless, and its space may be needed.
        let _ = storage.remove(&fresh);
    })
}

/// Removes the incomplete new version of a file.
fn remove_incomplete(env: &Env, path: &str) -> io::Result<()> {
    match env.storage.remove(&format!("{path}.new")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Writes a copy of refused bytes and a file with the reason to quarantine, durably. Keeps an
/// existing complete copy.
pub(super) fn write_quarantined(
    env: &Env,
    name: &str,
    bytes: &[u8],
    reason: &str,
) -> io::Result<()> {
    // A copy of a data directory may lack empty directories.
    env.storage.create_dir(QUARANTINE)?;
    env.storage.sync_dir("")?;
    let path = format!("{QUARANTINE}/{name}");
    for (path, content) in [(path.clone(), bytes), (path + ".reason", reason.as_bytes())] {
        match env.storage.open_read(&path) {
            Ok(file) if file.len()? >= content.len() as u64 => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Renamed when it is whole: a power loss may leave a size without bytes.
            _ => replace(env, &path, &mut |file| file.write_at(0, content))?,
        }
    }
    // The name of an existing copy may be only in the page cache.
    env.storage.sync_dir(QUARANTINE)
}

/// Calls [`write_quarantined`] for a start or a reader: logs an error and continues; the bytes
/// themselves stay in their file.
pub(super) fn quarantine(env: &Env, name: &str, bytes: &[u8], reason: &str) {
    if let Err(error) = write_quarantined(env, name, bytes, reason) {
        tracing::warn!(name, %error, "refused bytes could not be copied to quarantine");
    }
}

/// Returns the names of the copies in `quarantine/`; none if they cannot be listed.
pub(super) fn list_quarantined(env: &Env) -> Vec<String> {
    let copies = env.storage.list(QUARANTINE).unwrap_or_default().into_iter();
    let named = |name: &String| !name.ends_with(".reason") && !name.ends_with(".new");
    copies.map(|copy| copy.name).filter(named).collect()
}

/// Returns true if the error concerns that file alone: it is missing, or the device cannot read it.
pub(super) fn concerns_one_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || is_unreadable(error)
}
