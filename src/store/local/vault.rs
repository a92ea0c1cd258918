//! A backup as a directory: writing one, part by part, and restoring it to a data directory. The
//! file `BACKUP` lists its files and is written last; they are in a separate directory, laid out as
//! in a data directory. It must not restore files that differ from what was copied, nor write to a
//! directory that has files.

use std::{collections::BTreeSet, io, time::Duration};

use super::{
    engine::LocalStore,
    layout::{
        self, BACKUP, JOURNAL, KEYS, PROBE, QUARANTINE, RESERVE, RESTORING, SEGMENTS, SETTLED,
        STORE,
    },
    open,
    options::{OpenError, StoreOptions},
};
use crate::{
    env::{Env, File, LOCK_FILE, Storage},
    log::{
        journal::read,
        manifest::{BackupFile, FileHasher, Manifest, ManifestError},
    },
    store::{BackupInfo, VerifyResult},
};

/// Maximum bytes of `BACKUP` that are read: some millions of files.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;
/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Reason why a backup was not made or not restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The directory has no backup.
    #[error("there is no file BACKUP in it: it is no backup")]
    Absent,
    /// The manifest is incomplete, damaged or of another kind.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    /// A file of the backup is missing or was changed.
    #[error("the backup is damaged: {path} is missing or not what it was when it was made")]
    Damaged {
        /// Path of the file.
        path: String,
    },
    /// A path that no file of a store has.
    #[error("{path:?} is no file of a store")]
    Strange {
        /// Path of the file.
        path: String,
    },
    /// The target directory has files.
    #[error("there are files in it already")]
    Occupied,
    /// The store in the backup, or the restored one, does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store opened, but its sessions could not be read.
    #[error("reading it back: {what}")]
    Unread {
        /// Error of the store.
        what: String,
    },
    /// Error of the file system.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the file system.
        source: io::Error,
    },
}

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredBackup {
    /// Manifest of the backup.
    pub manifest: Manifest,
    /// Result of reading everything back.
    pub verified: VerifyResult,
    /// True if the remains of an interrupted restore were removed first.
    pub repeated: bool,
}

fn io_error(path: &str) -> impl Fn(io::Error) -> BackupError + '_ {
    |source| BackupError::Io { path: path.to_owned(), source }
}

/// Returns true if a directory and those below it have no file.
///
/// # Errors
/// Errors of the file system.
pub fn is_vacant(env: &Env) -> io::Result<bool> {
    Ok(!has_file(env, &mut |_| true)?)
}

/// Returns true if a file of a directory, or of one below it, satisfies the predicate.
pub(super) fn has_file(env: &Env, is_one: &mut dyn FnMut(&str) -> bool) -> io::Result<bool> {
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for entry in env.storage.list(&directory)? {
            let path = join_path(&directory, &entry.name);
            if entry.is_dir {
                directories.push(path);
            } else if is_one(&path) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn join_path(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Checks that a file of a store may have this path, which comes from an untrusted source.
fn check_path(path: &str) -> Result<(), BackupError> {
    let known = match path.split_once('/') {
        None => path == STORE,
        Some((directory, _)) => [JOURNAL, SETTLED, KEYS, SEGMENTS].contains(&directory),
    };
    if known { Ok(()) } else { Err(BackupError::Strange { path: path.to_owned() }) }
}

/// Creates a file, and its parent directories that are not in `made`.
fn create_file(
    storage: &dyn Storage,
    made: &mut BTreeSet<String>,
    path: &str,
) -> Result<Box<dyn File>, BackupError> {
    check_path(path)?;
    for (end, _) in path.match_indices('/') {
        let directory = path.get(..end).unwrap_or_default();
        if made.insert(directory.to_owned()) {
            storage.create_dir(directory).map_err(io_error(directory))?;
        }
    }
    storage.create(path).map_err(io_error(path))
}

/// Backup that is being written.
pub struct BackupWriter {
    outer: Env,
    inner: Env,
    made: BTreeSet<String>,
    /// File that is being written.
    current: Option<(String, Box<dyn File>, FileHasher)>,
    manifest: Manifest,
}

impl BackupWriter {
    /// Starts a backup in a directory without files; `inner` is the directory below it for the
    /// store's files. The backup is incomplete until it is sealed.
    ///
    /// # Errors
    /// [`BackupError::Occupied`], or errors of the file system.
    pub fn begin(outer: &Env, inner: &Env) -> Result<Self, BackupError> {
        if !is_vacant(outer).map_err(io_error("."))? {
            return Err(BackupError::Occupied);
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

    /// Writes the next part of a file.
    ///
    /// # Errors
    /// [`BackupError::Strange`] for an invalid path, or errors of the file system.
    pub fn write_part(&mut self, path: &str, bytes: &[u8]) -> Result<(), BackupError> {
        if self.current.as_ref().is_none_or(|(current, ..)| current != path) {
            self.finish_file();
            let file = create_file(&*self.inner.storage, &mut self.made, path)?;
            self.current = Some((path.to_owned(), file, FileHasher::default()));
        }
        if let Some((_, file, hashing)) = &mut self.current {
            file.write_at(hashing.bytes(), bytes).map_err(io_error(path))?;
            hashing.update(bytes);
        }
        Ok(())
    }

    fn finish_file(&mut self) {
        if let Some((path, _, hashing)) = self.current.take() {
            self.manifest.files.push(hashing.entry(&path));
        }
    }

    /// Makes all parts durable, after the last one.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn finish_parts(&mut self, backup: &BackupInfo) -> Result<(), BackupError> {
        self.finish_file();
        let BackupInfo { store, at: moment, sessions, key, .. } = backup;
        let files = std::mem::take(&mut self.manifest.files);
        let key = key.map(crate::event::KeyId);
        self.manifest = Manifest { store: *store, at: moment.0, sessions: *sessions, key, files };
        self.inner.storage.sync_all().map_err(io_error("."))
    }

    /// Marks the backup as complete.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn seal(self) -> Result<Manifest, BackupError> {
        let text = self.manifest.encode();
        layout::replace(&self.outer, BACKUP, &mut |file| file.write_at(0, text.as_bytes()))
            .map_err(io_error(BACKUP))?;
        Ok(self.manifest)
    }
}

/// Disables background work in the options.
pub(super) fn without_background(options: StoreOptions) -> StoreOptions {
    StoreOptions { scrub_every: Duration::ZERO, background: false, ..options }
}

fn verify_store(store: &LocalStore) -> Result<VerifyResult, BackupError> {
    store.verify_all().map_err(|error| BackupError::Unread { what: error.to_string() })
}

/// Opens the store in a backup, as a start would, and verifies all of it; changes no file of it.
///
/// # Errors
/// The reason why it does not open.
pub fn check_backup(inner: &Env, options: StoreOptions) -> Result<VerifyResult, BackupError> {
    let store = LocalStore::open_local(inner, without_background(options))?;
    let verified = verify_store(&store);
    drop(store);
    // The lock file is not part of the backup: a restored store creates its own.
    let _ = inner.storage.remove(LOCK_FILE);
    verified
}

fn read_manifest(outer: &Env) -> Result<Manifest, BackupError> {
    let file = match outer.storage.open_read(BACKUP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BackupError::Absent),
        file => file.map_err(io_error(BACKUP))?,
    };
    let bytes = read(&*file, 0, MANIFEST_BYTES_MAX).map_err(|_| ManifestError::Damaged)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| ManifestError::Damaged)?;
    Ok(Manifest::decode(text)?)
}

/// Consumer of pieces of a file, each with its byte offset.
type PieceVisitor<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), BackupError>;

/// Passes a file of a backup to `visit`, piece by piece; fails if it differs from the manifest.
fn for_each_piece(
    inner: &Env,
    kept: &BackupFile,
    visit: PieceVisitor<'_>,
) -> Result<(), BackupError> {
    check_path(&kept.path)?;
    let damaged = || BackupError::Damaged { path: kept.path.clone() };
    let file = inner.storage.open_read(&kept.path).map_err(|_| damaged())?;
    let mut hashing = FileHasher::default();
    while hashing.bytes() < kept.bytes {
        let from = hashing.bytes();
        let to = kept.bytes.min(from + COPY_BYTES);
        let bytes = read(&*file, from, to).map_err(|_| damaged())?;
        if bytes.len() as u64 != to - from {
            return Err(damaged());
        }
        hashing.update(&bytes);
        visit(from, &bytes)?;
    }
    let whole = file.len().is_ok_and(|length| length == kept.bytes);
    if whole && hashing.entry(&kept.path) == *kept { Ok(()) } else { Err(damaged()) }
}

/// Restores a backup to a data directory, reads all of it back, and ends every lease. Until all of
/// that is durable the directory has the file `RESTORING`: it does not open as a store, and a
/// restore into it starts again. `progress` gets the bytes done and the total.
///
/// # Errors
/// The reason for the failure; the directory is emptied again.
pub async fn restore(
    outer: &Env,
    inner: &Env,
    to: &Env,
    options: StoreOptions,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<RestoredBackup, BackupError> {
    let manifest = read_manifest(outer)?;
    is_restore_interrupted(to)?;
    for kept in manifest.files.iter().filter(is_store_file) {
        for_each_piece(inner, kept, &mut |_, _| Ok(()))?;
    }
    LocalStore::check_keys(&inner.clone().with_keys(to.keys.clone()))?;
    let total = manifest.files.iter().map(|kept| 2 * kept.bytes).sum();
    let mut done = 0;
    let mut advance = |bytes: u64| {
        done += bytes;
        progress(done, total);
    };
    for kept in &manifest.files {
        for_each_piece(inner, kept, &mut |_, bytes| {
            advance(bytes.len() as u64);
            Ok(())
        })?;
    }
    let _lock = open::acquire_lock(to)?;
    // Reading the backup took long: another process may have created a store meanwhile.
    let repeated = is_restore_interrupted(to)?;
    let begun = begin_restore(to).and_then(|()| copy_files(inner, to, &manifest, &mut advance));
    let made = match begun {
        Ok(()) => finish_restore(inner, to, options, &manifest).await,
        Err(error) => Err(error),
    };
    if made.is_err() && remove_files(to).is_ok() {
        let _ = to.storage.remove(RESTORING);
        let _ = to.storage.remove(LOCK_FILE);
    }
    Ok(RestoredBackup { verified: made?, manifest, repeated })
}

/// Returns true if a restore was interrupted, false for an empty directory; else fails.
fn is_restore_interrupted(to: &Env) -> Result<bool, BackupError> {
    let (mut begun, mut left) = (false, false);
    let foreign = has_file(to, &mut |path| {
        begun |= path == RESTORING;
        left |= path != LOCK_FILE && !path.starts_with(RESTORING);
        !may_be_restore_file(path)
    });
    match foreign.map_err(io_error("."))? || (left && !begun) {
        true => Err(BackupError::Occupied),
        false => Ok(begun),
    }
}

/// Returns true if a restore, or an owner that refused to open its result, may have made the file.
fn may_be_restore_file(path: &str) -> bool {
    let files = [STORE, LOCK_FILE, RESTORING, RESERVE, PROBE, "owner"];
    let directories = [JOURNAL, SETTLED, KEYS, SEGMENTS, QUARANTINE];
    let first = path.split(['/', '.']).next().unwrap_or_default();
    files.contains(&first) || directories.contains(&first)
}

/// Marks durably that a restore is running, and removes the files of an interrupted one.
fn begin_restore(to: &Env) -> Result<(), BackupError> {
    let text = b"A backup is being restored into this directory: it is no store yet.\n";
    layout::replace(to, RESTORING, &mut |file| file.write_at(0, text))
        .map_err(io_error(RESTORING))?;
    remove_files(to).map_err(io_error("."))
}

fn is_store_file(kept: &&BackupFile) -> bool {
    kept.path == STORE
}

fn copy_file(
    inner: &Env,
    to: &Env,
    made: &mut BTreeSet<String>,
    kept: &BackupFile,
    advance: &mut dyn FnMut(u64),
) -> Result<(), BackupError> {
    let file = create_file(&*to.storage, made, &kept.path)?;
    for_each_piece(inner, kept, &mut |from, bytes| {
        advance(bytes.len() as u64);
        file.write_at(from, bytes).map_err(io_error(&kept.path))
    })
}

/// Copies every file but `STORE`, durably.
fn copy_files(
    inner: &Env,
    to: &Env,
    manifest: &Manifest,
    advance: &mut dyn FnMut(u64),
) -> Result<(), BackupError> {
    let (storage, mut made) = (&*to.storage, BTreeSet::new());
    let mut others = manifest.files.iter().filter(|kept| !is_store_file(kept));
    others.try_for_each(|kept| copy_file(inner, to, &mut made, kept, advance))?;
    for directory in [JOURNAL, SETTLED, SEGMENTS] {
        storage.create_dir(directory).map_err(io_error(directory))?;
    }
    storage.sync_all().map_err(io_error("."))
}

/// Opens the copy as a store, verifies it, ends its leases, copies the file `STORE`, and removes
/// `RESTORING` once all of that is durable: before that it does not open.
async fn finish_restore(
    inner: &Env,
    to: &Env,
    options: StoreOptions,
    manifest: &Manifest,
) -> Result<VerifyResult, BackupError> {
    let named = layout::read_store_file(inner)?;
    let named = named.ok_or_else(|| BackupError::Damaged { path: STORE.to_owned() })?;
    let store =
        LocalStore::from_parts(None, open::open(to, without_background(options), named, false)?);
    let verified = verify_store(&store)?;
    let voided = store.commit.void_leases().await;
    voided.map_err(|error| BackupError::Unread { what: error.to_string() })?;
    // Later writes to the store belong to a new start.
    store.upkeep.close();
    store.stop();
    for kept in manifest.files.iter().filter(is_store_file) {
        copy_file(inner, to, &mut BTreeSet::new(), kept, &mut |_| {})?;
    }
    to.storage.sync_all().map_err(io_error("."))?;
    to.storage
        .remove(RESTORING)
        .and_then(|()| to.storage.sync_dir(""))
        .map_err(io_error(RESTORING))?;
    Ok(verified)
}

/// Removes every file but `RESTORING` and the lock, durably; continues after errors.
fn remove_files(env: &Env) -> io::Result<()> {
    let (mut removed, mut failed) = (false, None);
    has_file(env, &mut |path| {
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
