//! A backup as a directory: how one comes to be, part by part, and how a data directory is made of
//! it. `BACKUP` says what belongs to it and is written last; the rest is in a directory of its
//! own, as in a data directory. It must not make a store of what is not exactly what was copied,
//! nor write where anything is.

use std::{collections::BTreeSet, io, time::Duration};

use super::{
    engine::Local,
    layout::{
        self, BACKUP, JOURNAL, KEYS, PROBE, QUARANTINE, RESERVE, RESTORING, SEGMENTS, SETTLED,
        STORE,
    },
    open,
    options::{OpenError, Options},
};
use crate::{
    env::{Env, File, LOCK_FILE, Storage},
    log::{
        journal::read,
        manifest::{BackupFile, Hashing, Manifest, NoManifest},
    },
    store::{Backup, Verified},
};

/// Bytes of `BACKUP` that are read at most: some millions of files.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Reason for which a backup is not made, or not restored.
#[derive(Debug, thiserror::Error)]
pub enum NoBackup {
    /// There is none.
    #[error("there is no file BACKUP in it: it is no backup")]
    Absent,
    /// It is incomplete, damaged or of another kind.
    #[error("{0}")]
    Manifest(#[from] NoManifest),
    /// A file of it is missing, or not what it was.
    #[error("the backup is damaged: {path} is missing or not what it was when it was made")]
    Damaged {
        /// Which.
        path: String,
    },
    /// A name that no file of a store has.
    #[error("{path:?} is no file of a store")]
    Strange {
        /// Which.
        path: String,
    },
    /// There is something already.
    #[error("there are files in it already")]
    Occupied,
    /// The store in the backup, or the restored one, does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It opened, and its sessions could not be read.
    #[error("reading it back: {what}")]
    Unread {
        /// Error of the store.
        what: String,
    },
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// Its path.
        path: String,
        /// Error of the file system.
        source: io::Error,
    },
}

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Manifest of the backup.
    pub manifest: Manifest,
    /// Result of reading everything back.
    pub verified: Verified,
    /// True if the remains of an interrupted restore were removed first.
    pub repeated: bool,
}

fn io_error(path: &str) -> impl Fn(io::Error) -> NoBackup + '_ {
    |source| NoBackup::Io { path: path.to_owned(), source }
}

/// True if a directory and those below it have no file.
///
/// # Errors
/// Errors of the file system.
pub fn is_vacant(env: &Env) -> io::Result<bool> {
    Ok(!any_file(env, &mut |_| true)?)
}

/// True if a file of a directory, or of one below it, satisfies the predicate.
fn any_file(env: &Env, is_one: &mut dyn FnMut(&str) -> bool) -> io::Result<bool> {
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for entry in env.storage.list(&directory)? {
            let path = joined(&directory, &entry.name);
            if entry.is_dir {
                directories.push(path);
            } else if is_one(&path) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// A path that a file of a store may have; who sends it is not believed.
fn checked(path: &str) -> Result<(), NoBackup> {
    let known = match path.split_once('/') {
        None => path == STORE,
        Some((directory, _)) => [JOURNAL, SETTLED, KEYS, SEGMENTS].contains(&directory),
    };
    if known { Ok(()) } else { Err(NoBackup::Strange { path: path.to_owned() }) }
}

/// Creates a file, and the directories above it that `made` does not have yet.
fn create(
    storage: &dyn Storage,
    made: &mut BTreeSet<String>,
    path: &str,
) -> Result<Box<dyn File>, NoBackup> {
    checked(path)?;
    for (end, _) in path.match_indices('/') {
        let directory = path.get(..end).unwrap_or_default();
        if made.insert(directory.to_owned()) {
            storage.create_dir(directory).map_err(io_error(directory))?;
        }
    }
    storage.create(path).map_err(io_error(path))
}

/// A backup on its way in.
pub struct Incoming {
    outer: Env,
    inner: Env,
    made: BTreeSet<String>,
    /// The file that is being written.
    current: Option<(String, Box<dyn File>, Hashing)>,
    manifest: Manifest,
}

impl Incoming {
    /// Begins a backup in a directory without files: `inner` is the one below it for the store's.
    /// Until it is sealed it is an incomplete one.
    ///
    /// # Errors
    /// [`NoBackup::Occupied`], or what the file system said.
    pub fn begin(outer: &Env, inner: &Env) -> Result<Self, NoBackup> {
        if !is_vacant(outer).map_err(io_error("."))? {
            return Err(NoBackup::Occupied);
        }
        let begun = Manifest::placeholder();
        layout::replace(outer, BACKUP, &mut |file| file.write_at(0, begun.as_bytes()))
            .map_err(io_error(BACKUP))?;
        Ok(Self {
            outer: outer.clone(),
            inner: inner.clone(),
            made: BTreeSet::new(),
            current: None,
            manifest: Manifest::default(),
        })
    }

    /// Takes the next part of a file.
    ///
    /// # Errors
    /// A path that is none of a store's, or what the file system said.
    pub fn take(&mut self, path: &str, bytes: &[u8]) -> Result<(), NoBackup> {
        if self.current.as_ref().is_none_or(|(current, ..)| current != path) {
            self.end_file();
            let file = create(&*self.inner.storage, &mut self.made, path)?;
            self.current = Some((path.to_owned(), file, Hashing::default()));
        }
        if let Some((_, file, hashing)) = &mut self.current {
            file.write_at(hashing.bytes(), bytes).map_err(io_error(path))?;
            hashing.take(bytes);
        }
        Ok(())
    }

    fn end_file(&mut self) {
        if let Some((path, _, hashing)) = self.current.take() {
            self.manifest.files.push(hashing.entry(&path));
        }
    }

    /// All parts came: makes them durable.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn end(&mut self, backup: &Backup) -> Result<(), NoBackup> {
        self.end_file();
        let Backup { store, at: moment, sessions, key, .. } = backup;
        let files = std::mem::take(&mut self.manifest.files);
        let key = key.map(crate::event::KeyId);
        self.manifest = Manifest { store: *store, at: moment.0, sessions: *sessions, key, files };
        self.inner.storage.sync_all().map_err(io_error("."))
    }

    /// Says that it is complete.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn seal(self) -> Result<Manifest, NoBackup> {
        let text = self.manifest.encode();
        layout::replace(&self.outer, BACKUP, &mut |file| file.write_at(0, text.as_bytes()))
            .map_err(io_error(BACKUP))?;
        Ok(self.manifest)
    }
}

/// Nothing happens by itself.
fn without_background(options: Options) -> Options {
    Options { scrub_every: Duration::ZERO, background: false, ..options }
}

fn read_back(store: &Local) -> Result<Verified, NoBackup> {
    store.verify_all().map_err(|error| NoBackup::Unread { what: error.to_string() })
}

/// Opens what a backup has of a store, as a start would, and reads all of it; changes nothing.
///
/// # Errors
/// The reason for which it does not open.
pub fn check_backup(inner: &Env, options: Options) -> Result<Verified, NoBackup> {
    let store = Local::open_local(inner, without_background(options))?;
    let verified = read_back(&store);
    drop(store);
    // It is no store's: a restored store makes its own.
    let _ = inner.storage.remove(LOCK_FILE);
    verified
}

/// Reads the manifest of a backup.
fn manifest(outer: &Env) -> Result<Manifest, NoBackup> {
    let file = match outer.storage.open_read(BACKUP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NoBackup::Absent),
        file => file.map_err(io_error(BACKUP))?,
    };
    let bytes = read(&*file, 0, MANIFEST_BYTES_MAX).map_err(|_| NoManifest::Damaged)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| NoManifest::Damaged)?;
    Ok(Manifest::decode(text)?)
}

/// Takes pieces of a file, each with the byte it begins at.
type TakePiece<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), NoBackup>;

/// Hands out a file of a backup, piece by piece, and fails where it is not what was copied.
fn each_piece(inner: &Env, kept: &BackupFile, take: TakePiece<'_>) -> Result<(), NoBackup> {
    checked(&kept.path)?;
    let damaged = || NoBackup::Damaged { path: kept.path.clone() };
    let file = inner.storage.open_read(&kept.path).map_err(|_| damaged())?;
    let mut hashing = Hashing::default();
    while hashing.bytes() < kept.bytes {
        let from = hashing.bytes();
        let to = kept.bytes.min(from + COPY_BYTES);
        let bytes = read(&*file, from, to).map_err(|_| damaged())?;
        if bytes.len() as u64 != to - from {
            return Err(damaged());
        }
        hashing.take(&bytes);
        take(from, &bytes)?;
    }
    let whole = file.len().is_ok_and(|length| length == kept.bytes);
    if whole && hashing.entry(&kept.path) == *kept { Ok(()) } else { Err(damaged()) }
}

/// Makes a data directory of a backup, reads all of it back, and ends every lease it has. Until all
/// of that is durable the directory has the file `RESTORING`: it opens as no store, and a restore
/// into it begins anew. `progress` gets bytes done and to be done.
///
/// # Errors
/// The reason for the failure; the directory is vacant again.
pub async fn restore(
    outer: &Env,
    inner: &Env,
    to: &Env,
    options: Options,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Restored, NoBackup> {
    let manifest = manifest(outer)?;
    was_begun(to)?;
    for kept in manifest.files.iter().filter(is_store) {
        each_piece(inner, kept, &mut |_, _| Ok(()))?;
    }
    Local::check_keys(&inner.clone().with_keys(to.keys.clone()))?;
    let total = manifest.files.iter().map(|kept| 2 * kept.bytes).sum();
    let mut done = 0;
    let mut told = |bytes: u64| {
        done += bytes;
        progress(done, total);
    };
    for kept in &manifest.files {
        each_piece(inner, kept, &mut |_, bytes| {
            told(bytes.len() as u64);
            Ok(())
        })?;
    }
    let _lock = open::take_lock(to)?;
    // Reading the backup took long: another process may have made a store meanwhile.
    let repeated = was_begun(to)?;
    let begun = begin(to).and_then(|()| copy(inner, to, &manifest, &mut told));
    let made = match begun {
        Ok(()) => finish(inner, to, options, &manifest).await,
        Err(error) => Err(error),
    };
    if made.is_err() && clear(to).is_ok() {
        let _ = to.storage.remove(RESTORING);
        let _ = to.storage.remove(LOCK_FILE);
    }
    Ok(Restored { verified: made?, manifest, repeated })
}

/// True if a restore into the directory was interrupted, false if it has no file; else an error.
fn was_begun(to: &Env) -> Result<bool, NoBackup> {
    let (mut begun, mut left) = (false, false);
    let foreign = any_file(to, &mut |path| {
        begun |= path == RESTORING;
        left |= path != LOCK_FILE && !path.starts_with(RESTORING);
        !is_of_a_restore(path)
    });
    match foreign.map_err(io_error("."))? || (left && !begun) {
        true => Err(NoBackup::Occupied),
        false => Ok(begun),
    }
}

/// True if a restore, or an owner that refused to open its result, may have made the file.
fn is_of_a_restore(path: &str) -> bool {
    let files = [STORE, LOCK_FILE, RESTORING, RESERVE, PROBE, "owner"];
    let directories = [JOURNAL, SETTLED, KEYS, SEGMENTS, QUARANTINE];
    let first = path.split(['/', '.']).next().unwrap_or_default();
    files.contains(&first) || directories.contains(&first)
}

/// Says durably that a restore is under way, and removes what an interrupted one left.
fn begin(to: &Env) -> Result<(), NoBackup> {
    let said = b"A backup is being restored into this directory: it is no store yet.\n";
    layout::replace(to, RESTORING, &mut |file| file.write_at(0, said))
        .map_err(io_error(RESTORING))?;
    clear(to).map_err(io_error("."))
}

fn is_store(kept: &&BackupFile) -> bool {
    kept.path == STORE
}

/// Copies one file.
fn copy_one(
    inner: &Env,
    to: &Env,
    made: &mut BTreeSet<String>,
    kept: &BackupFile,
    told: &mut dyn FnMut(u64),
) -> Result<(), NoBackup> {
    let file = create(&*to.storage, made, &kept.path)?;
    each_piece(inner, kept, &mut |from, bytes| {
        told(bytes.len() as u64);
        file.write_at(from, bytes).map_err(io_error(&kept.path))
    })
}

/// Copies every file but `STORE`, durably.
fn copy(
    inner: &Env,
    to: &Env,
    manifest: &Manifest,
    told: &mut dyn FnMut(u64),
) -> Result<(), NoBackup> {
    let (storage, mut made) = (&*to.storage, BTreeSet::new());
    let mut others = manifest.files.iter().filter(|kept| !is_store(kept));
    others.try_for_each(|kept| copy_one(inner, to, &mut made, kept, told))?;
    for directory in [JOURNAL, SETTLED, SEGMENTS] {
        storage.create_dir(directory).map_err(io_error(directory))?;
    }
    storage.sync_all().map_err(io_error("."))
}

/// Reads the copy back as the store that it is to be, ends the leases of the one it was taken of,
/// gives it the file `STORE`, and only then, when all of that is durable, removes `RESTORING`:
/// before that it does not open.
async fn finish(
    inner: &Env,
    to: &Env,
    options: Options,
    manifest: &Manifest,
) -> Result<Verified, NoBackup> {
    let named = layout::known(inner)?;
    let named = named.ok_or_else(|| NoBackup::Damaged { path: STORE.to_owned() })?;
    let store = Local::with_lock(None, open::open(to, without_background(options), named, false)?);
    let verified = read_back(&store)?;
    let voided = store.commit.void_leases().await;
    voided.map_err(|error| NoBackup::Unread { what: error.to_string() })?;
    // Whatever is written to it from now on is of a start of its own.
    store.upkeep.close();
    store.stop();
    for kept in manifest.files.iter().filter(is_store) {
        copy_one(inner, to, &mut BTreeSet::new(), kept, &mut |_| {})?;
    }
    to.storage.sync_all().map_err(io_error("."))?;
    to.storage
        .remove(RESTORING)
        .and_then(|()| to.storage.sync_dir(""))
        .map_err(io_error(RESTORING))?;
    Ok(verified)
}

/// Removes every file but the two that keep others out, durably, as far as that can be done.
fn clear(env: &Env) -> io::Result<()> {
    let (mut removed, mut failed) = (false, None);
    any_file(env, &mut |path| {
        if path != LOCK_FILE && path != RESTORING {
            match env.storage.remove(path) {
                Ok(()) => removed = true,
                Err(error) => failed = Some(error),
            }
        }
        false
    })?;
    match failed {
        Some(error) => Err(error),
        None if removed => env.storage.sync_all(),
        None => Ok(()),
    }
}
