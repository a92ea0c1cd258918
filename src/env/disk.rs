//! The real disk: one data directory reached through a descriptor that stays open, so that a
//! directory moved or replaced under a running owner is never written by accident. It must not
//! follow a symbolic link below that directory, nor create anything others can read.

#![expect(clippy::disallowed_types, reason = "one of the rooms of the file system")]

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt, FileExt, MetadataExt},
    },
    path::Path,
};

use rustix::{
    fs::{Advice, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags},
    io::{Errno, ReadWriteFlags},
};

use super::{
    DirEntry, DiskShortage, File, LOCK_FILE, Lock, LockRule, Mapped, Storage, files::FreeSpace,
    map, read_copy, with_shortage,
};

/// Flags of every file opened: no link is followed, no child process inherits it, and opening a
/// pipe left at the path does not block.
const FILE_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
const DIRECTORY_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;

/// Inodes that a new file needs until it is renamed: its own and that of its temporary file.
const INODES_MIN: u64 = 2;

/// A data directory on the real disk.
pub struct DataDir {
    /// Open since the start: paths are resolved from here, and `syncfs` through it reports every
    /// writeback error since then.
    root: OwnedFd,
    lock_rule: LockRule,
}

impl DataDir {
    /// Opens a data directory; creates it, mode 0700, when it is absent. An existing one keeps its
    /// mode: the caller warns about a shared directory.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn open(path: &Path) -> io::Result<Self> {
        create_durably(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { root, lock_rule: LockRule::default() })
    }

    /// Returns the same directory with another rule for its lock.
    #[must_use]
    pub fn with_lock_rule(self, lock_rule: LockRule) -> Self {
        Self { lock_rule, ..self }
    }

    /// Locks the directory itself. Returns `None` when another process holds it; `Some(None)` when
    /// the file system cannot lock a directory and the rule accepts that.
    ///
    /// The descriptor is read-only, which `flock` takes and an open-file-description lock does
    /// not. The lock belongs to the directory's inode, so that it holds across bind mounts, process
    /// namespaces and a `LOCK` that was removed.
    fn lock_directory(&self) -> io::Result<Option<Option<OwnedFd>>> {
        let opened = rustix::fs::openat(&self.root, ".", DIRECTORY_FLAGS, Mode::empty())?;
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Some(opened))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(_) if self.lock_rule == LockRule::FileOnly => Ok(Some(None)),
            Err(error) => Err(directory_lock_error(error)),
        }
    }

    /// Calls `act` with the parent directory and the last name of `path`.
    fn with_parent<T>(
        &self,
        path: &str,
        act: impl FnOnce(BorrowedFd<'_>, &str) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        check_path(path)?;
        match path.rsplit_once('/') {
            None => Ok(act(self.root.as_fd(), path)?),
            Some((parent, name)) => Ok(act(self.open_directory(parent)?.as_fd(), name)?),
        }
    }

    /// Opens a directory name by name: `O_NOFOLLOW` applies only to the last name of a path.
    fn open_directory(&self, path: &str) -> io::Result<OwnedFd> {
        let mut at = rustix::fs::openat(&self.root, ".", DIRECTORY_FLAGS, Mode::empty())?;
        if !path.is_empty() {
            check_path(path)?;
            for name in path.split('/') {
                at = rustix::fs::openat(&at, name, DIRECTORY_FLAGS, Mode::empty())?;
            }
        }
        Ok(at)
    }

    /// Opens an existing file in one call that follows no link at any depth; `None` where the
    /// system lacks the call (Linux before 5.6, a sandbox), or when a new file is requested.
    fn open_existing(&self, path: &str, flags: OFlags) -> Option<io::Result<OwnedFd>> {
        if flags.contains(OFlags::CREATE) {
            return None;
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let open = || {
            check_path(path)?;
            let flags = flags | FILE_FLAGS;
            Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?)
        };
        let known = |error: &io::Error| {
            ![Errno::NOSYS, Errno::PERM, Errno::AGAIN]
                .map(Errno::raw_os_error)
                .contains(&error.raw_os_error().unwrap_or_default())
        };
        let opened: io::Result<OwnedFd> = open();
        opened.as_ref().err().is_none_or(known).then_some(opened)
    }

    /// Returns the free space of the file system.
    fn free_space(&self) -> io::Result<FreeSpace> {
        Ok(FreeSpace::from_statvfs(&rustix::fs::fstatvfs(&self.root)?))
    }

    fn open_file(&self, path: &str, flags: OFlags) -> io::Result<DiskFile> {
        let walk = || {
            self.with_parent(path, |directory, name| {
                rustix::fs::openat(directory, name, flags | FILE_FLAGS, FILE_MODE)
            })
        };
        let opened = match self.open_existing(path, flags) {
            Some(opened) => opened?,
            None => walk()?,
        };
        let file = fs::File::from(opened);
        let known = file.metadata()?;
        let writes = flags.contains(OFlags::RDWR);
        let why = if !known.is_file() {
            "is not a regular file"
        } else if writes && known.nlink() > 1 {
            "is a hard link: what is written there would change another file, too; put a copy in its place"
        } else {
            return Ok(DiskFile { file });
        };
        let why = format!("{path} in the data directory {why}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

/// Creates the error for a file system that cannot lock a directory: NFS requires a writable
/// descriptor (`EBADF`), others have no locks.
fn directory_lock_error(error: Errno) -> io::Error {
    let why = format!(
        "this file system cannot lock a directory ({error}), so two servers could own it at once; \
         move the data directory to a local file system, or set lock_file_only to true"
    );
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Rejects a path that could leave the data directory or that has two spellings.
///
/// # Errors
/// `ErrorKind::InvalidInput`.
pub fn check_path(path: &str) -> io::Result<()> {
    let good = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    if path.split('/').all(good) {
        return Ok(());
    }
    let why = format!("{path:?} is not a plain path inside the data directory");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Creates `path` and its missing parents, mode 0700, and syncs each parent before it creates the
/// next level: a data directory that vanishes in a power loss would take acknowledged events with
/// it. The name of an existing directory is synced at every start: the process that created it may
/// have died before its sync.
fn create_durably(path: &Path) -> io::Result<()> {
    let gone = |at: &&Path| !at.as_os_str().is_empty() && !at.exists();
    let mut missing: Vec<&Path> = path.ancestors().take_while(gone).collect();
    match sync_name(path.ancestors().nth(missing.len()).unwrap_or(path)) {
        // A process that may not read or sync the parent directory did not create anything in it.
        Err(error) if cannot_sync(&error) => {}
        synced => synced?,
    }
    while let Some(next) = missing.pop() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(next)?;
        sync_name(next)?;
    }
    Ok(())
}

/// Returns true if a directory cannot be synced by this user, or on this file system.
fn cannot_sync(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    [InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported].contains(&error.kind())
}

/// Makes the name of a directory durable by syncing its parent.
fn sync_name(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // Resolved, because the path may end in a link or in "..".
    let found = fs::canonicalize(path)?;
    fs::File::open(found.parent().unwrap_or(&found))?.sync_all()
}

impl Storage for DataDir {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let created = self.open_file(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
        let created =
            created.map_err(|error| with_shortage(error, || Ok(self.free_space()?.shortage())))?;
        Ok(Box::new(created))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.open_file(path, OFlags::RDWR)?))
    }

    fn open_read(&self, path: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.open_file(path, OFlags::RDONLY)?))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirEntry>> {
        let opened = self.open_directory(directory)?;
        let mut entries = Vec::new();
        for found in Dir::read_from(&opened)? {
            let found = found?;
            let Ok(name) = found.file_name().to_str().map(str::to_owned) else {
                continue; // Not a file of this program: its names are ASCII.
            };
            if matches!(&*name, "." | "..") {
                continue;
            }
            let kind = match found.file_type() {
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&opened, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            entries.push(DirEntry { name, is_dir: kind.is_dir(), is_file: kind.is_file() });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        self.with_parent(directory, |parent, name| {
            match rustix::fs::mkdirat(parent, name, DIRECTORY_MODE) {
                Err(Errno::EXIST) => {
                    rustix::fs::openat(parent, name, DIRECTORY_FLAGS, Mode::empty()).map(drop)
                }
                made => made,
            }
        })
        .map_err(|error| with_shortage(error, || Ok(self.free_space()?.shortage())))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.with_parent(from, |from_directory, from_name| {
            Ok(self.with_parent(to, |to_directory, to_name| {
                rustix::fs::renameat(from_directory, from_name, to_directory, to_name)
            }))
        })?
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.with_parent(path, |directory, name| {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        })
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open_directory(directory)?)?)
    }

    fn check_space(&self, bytes: u64) -> io::Result<()> {
        let free = self.free_space()?;
        if free.bytes >= bytes && free.inodes.is_none_or(|inodes| inodes >= INODES_MIN) {
            return Ok(());
        }
        let short = if free.bytes < bytes { DiskShortage::Space } else { DiskShortage::Inodes };
        Err(with_shortage(Errno::NOSPC.into(), || Ok(short)))
    }

    fn change_time(&self, path: &str) -> io::Result<Option<(i64, i64)>> {
        let known = self.open_file(path, OFlags::RDONLY)?.file.metadata()?;
        Ok(Some((known.ctime(), known.ctime_nsec())))
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        let Some(directory) = self.lock_directory()? else { return Ok(None) };
        let held = self.open_file(LOCK_FILE, OFlags::RDWR | OFlags::CREATE)?;
        match held.file.try_lock() {
            Ok(()) => Ok(Some(Box::new(HeldLock { file: held.file, directory }))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Held locks. The kernel releases each when its last descriptor closes, also after `kill -9`.
struct HeldLock {
    file: fs::File,
    directory: Option<OwnedFd>,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // A child process between its fork and its exec has the descriptors too: closing these
        // alone would leave the locks held until then.
        let _ = self.file.unlock();
        if let Some(directory) = &self.directory {
            let _ = rustix::fs::flock(directory, FlockOperation::Unlock);
        }
    }
}

impl Lock for HeldLock {}

struct DiskFile {
    file: fs::File,
}

impl File for DiskFile {
    fn write_at(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, byte_offset)
    }

    fn read_at(&self, byte_offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, byte_offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_cached(&self, byte_offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut parts = [io::IoSliceMut::new(buffer)];
        let flags = ReadWriteFlags::NOWAIT;
        Ok(rustix::io::preadv2(&self.file, &mut parts, byte_offset, flags)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_durably(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut at, mut rest) = (byte_offset, bytes);
        while !rest.is_empty() {
            let parts = [io::IoSlice::new(rest)];
            match rustix::io::pwritev2(&self.file, &parts, at, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    at += written as u64;
                    rest = rest.get(written..).unwrap_or_default();
                }
                // The signal arrived before the first byte was written, so no sync is lost.
                Err(Errno::INTR) => {}
                // The file system lacks the flag, or the kernel or sandbox lacks the call: nothing
                // was written.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.file.write_all_at(rest, at)?;
                    return self.file.sync_data();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn start_writeback(&self, byte_offset: u64, bytes: u64) {
        // Writes dirty pages of the range back first: only clean pages can be dropped.
        if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
            let _ = rustix::fs::fadvise(&self.file, byte_offset, Some(bytes), Advice::DontNeed);
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn evict(&self) -> io::Result<()> {
        // No length means "to the end of the file".
        Ok(rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }

    fn map(&self, bytes: u64) -> io::Result<Box<dyn Mapped>> {
        let known = self.file.metadata()?;
        let others = Mode::RWXG.union(Mode::RWXO).bits();
        if known.len() != bytes || known.nlink() != 1 || known.mode() & others != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        map::map(&self.file, bytes)?.map_or_else(|| read_copy(self, bytes), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_unlockable_directory_names_the_cause_and_the_setting() {
        let message = directory_lock_error(Errno::BADF).to_string();
        assert!(message.contains("cannot lock a directory") && message.contains("lock_file_only"));
    }
}
