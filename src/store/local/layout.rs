//! Names inside a data directory, and how a file of it is written whole. It must not open sessions.

use std::io;

use super::options::OpenError;
use crate::{
    env::{Env, File, unreadable},
    log::{FORMAT, Fault, StoreFile, journal},
};

/// The file that makes a directory a data directory.
pub(super) const STORE: &str = "STORE";
/// The file that makes a directory a backup.
pub(super) const BACKUP: &str = "BACKUP";
/// The file of a directory that a backup is being brought back into: it is no store yet.
pub(super) const RESTORING: &str = "RESTORING";
pub(super) const JOURNAL: &str = "journal";
pub(super) const SETTLED: &str = "settled";
pub(super) const SEGMENTS: &str = "segments";
/// Files that were made from events, and may be lost.
pub(super) const DERIVED: &str = "derived";
pub(super) const QUARANTINE: &str = "quarantine";
/// The first file of the room kept back; the others have a number behind it.
pub(super) const RESERVE: &str = "reserve";
/// A file that is written to see whether a disk that failed syncs again.
pub(super) const PROBE: &str = "probe";
pub(super) const KEYS: &str = "keys";

/// Path of a journal file of the ring.
pub(super) fn journal_path(number: u32) -> String {
    format!("{JOURNAL}/{number}")
}

/// Path of one of the two settled files.
pub(super) fn settled_path(slot: usize) -> String {
    format!("{SETTLED}/{slot}")
}

/// Path of one of the two files of keys.
pub(super) fn keys_path(file: usize) -> String {
    format!("{KEYS}/{file}")
}

/// Names what was being done when the file system refused.
pub(super) fn open_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
    let doing = what.into();
    move |source| OpenError::Io { doing, source }
}

/// Reads `STORE`, where there is one.
pub(super) fn known(env: &Env) -> Result<Option<StoreFile>, OpenError> {
    let file = match env.storage.open_read(STORE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(open_error("opening STORE"))?,
    };
    let bytes = match journal::read(&*file, 0, 4096) {
        Ok(bytes) => bytes,
        Err(error) => return Err(OpenError::Damaged { what: format!("STORE: {error}") }),
    };
    StoreFile::decode(&bytes).map(Some).map_err(|fault| match fault {
        Fault::Unknown { value, .. } if value > FORMAT => {
            OpenError::Newer { found: value, supported: FORMAT }
        }
        other => OpenError::Damaged { what: format!("STORE: {other}") },
    })
}

/// Makes the names durable that this start finds. Its predecessor may have been killed between
/// making one and syncing it, and acknowledgements of this start will rest on them.
pub(super) fn sync_names(env: &Env) -> io::Result<()> {
    let keys = env.keys.is_some().then_some(KEYS);
    // What a start that was killed began has keys that may be destroyed later.
    (0..2).filter(|_| keys.is_some()).try_for_each(|file| remove_begun(env, &keys_path(file)))?;
    let mut directories = ["", JOURNAL, SETTLED].into_iter().chain(keys);
    directories.try_for_each(|directory| env.storage.sync_dir(directory))
}

/// Writes a file whole: under another name, synced, renamed over the old one, the name synced.
pub(super) fn replace(
    env: &Env,
    path: &str,
    write: &mut dyn FnMut(&dyn File) -> io::Result<()>,
) -> io::Result<()> {
    let storage = &env.storage;
    let fresh = format!("{path}.new");
    let made = remove_begun(env, path).and_then(|()| {
        let file = storage.create(&fresh)?;
        write(&*file)?;
        file.sync()?;
        storage.rename(&fresh, path)?;
        storage.sync_dir(path.rsplit_once('/').map_or("", |(directory, _)| directory))
    });
    made.inspect_err(|_| {
        // A file that is not whole is of no use, and on a full disk its bytes are.
        let _ = storage.remove(&fresh);
    })
}

/// Removes what was begun of a file that was to be written whole.
fn remove_begun(env: &Env, path: &str) -> io::Result<()> {
    match env.storage.remove(&format!("{path}.new")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Keeps a copy of bytes that were refused, with the reason beside it, durable. One that is there
/// in full already is enough.
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
            // It gets its name when it is whole: a power loss leaves sizes without bytes.
            _ => replace(env, &path, &mut |file| file.write_at(0, content))?,
        }
    }
    // The name of one that is there may be known to the page cache alone.
    env.storage.sync_dir(QUARANTINE)
}

/// [`keep`] for a start or a reader: a copy that cannot be made is reported and stops nothing, the
/// bytes themselves stay where they are.
pub(super) fn quarantine(env: &Env, name: &str, bytes: &[u8], reason: &str) {
    if let Err(error) = write_quarantined(env, name, bytes, reason) {
        tracing::warn!(name, %error, "refused bytes could not be copied to quarantine");
    }
}

/// Names of the copies in `quarantine/`, as far as they can be listed.
pub(super) fn quarantined(env: &Env) -> Vec<String> {
    let copies = env.storage.list(QUARANTINE).unwrap_or_default().into_iter();
    let named = |name: &String| !name.ends_with(".reason") && !name.ends_with(".new");
    copies.map(|copy| copy.name).filter(named).collect()
}

/// True if the error concerns that file alone: it is missing, or the device cannot read it.
pub(super) fn is_of_the_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || unreadable(error)
}
