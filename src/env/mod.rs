//! OUTSIDE WORLD: files, clock and randomness as small object-safe traits, so that one seed
//! replays a whole run. It must not depend on the content of a file. Nothing outside this module
//! may name `std::fs`, read a clock or draw randomness.

pub mod clock;
pub mod disk;
pub mod entropy;
pub mod file_check;
pub mod files;
pub mod host;
pub mod map;
pub mod parents;
pub mod planted;
pub mod project;
pub mod secrets;
pub mod sync;

use std::{io, path::Path, sync::Arc, time::Duration};

use crate::event::Timestamp;
pub use map::Mapped;
pub use secrets::MasterKeys;

/// An open file. Reads and writes take a byte offset; it has no file position.
pub trait File: Send + Sync {
    /// Writes all bytes at `byte_offset`, growing the file when needed, or fails: then any part of
    /// them may have been written.
    ///
    /// # Errors
    /// The error of the file system; `ErrorKind::StorageFull` for a full disk.
    fn write_at(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads until `buffer` is full or the file ends; returns the number of bytes.
    ///
    /// # Errors
    /// The error of the file system.
    fn read_at(&self, byte_offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Reads the bytes that are available without waiting for a device, from the front of `buffer`
    /// on: possibly fewer than the file has.
    ///
    /// # Errors
    /// The error of the file system; [`Self::read_at`] may still succeed.
    fn read_cached(&self, byte_offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let _ = (byte_offset, buffer);
        Ok(0)
    }

    /// Makes content and size durable (`fdatasync`). After an error the state of every byte written
    /// since the last success is unknown, and a second sync proves nothing.
    ///
    /// # Errors
    /// The error of the file system.
    fn sync(&self) -> io::Result<()>;

    /// Writes all bytes at `byte_offset` and makes them and the size durable, as `write_at` and
    /// `sync` would in one call; bytes of other writes may stay volatile. After an error the state
    /// of all of them is unknown, and a second sync proves nothing.
    ///
    /// # Errors
    /// The error of the file system.
    fn write_durably(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Starts writing dirty bytes back to the device, so that a later sync has less to do. A hint:
    /// it does not block and may have no effect.
    fn start_writeback(&self, byte_offset: u64, bytes: u64);

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// The error of the file system.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if the file is empty.
    ///
    /// # Errors
    /// The error of the file system.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|bytes| bytes == 0)
    }

    /// Drops clean cached pages, so that the next read comes from the device.
    ///
    /// # Errors
    /// The error of the file system.
    fn evict(&self) -> io::Result<()>;

    /// Returns all of a file of that size that is not written to any more: mapped where the system
    /// supports it, else a copy.
    ///
    /// # Errors
    /// The error of the file system; `ErrorKind::InvalidData` for a file of another length, with a
    /// second hard link, or that other users may read or write.
    fn map(&self, bytes: u64) -> io::Result<Box<dyn Mapped>> {
        read_copy(self, bytes)
    }
}

/// Copies all of a file into memory.
fn read_copy(file: &(impl File + ?Sized), bytes: u64) -> io::Result<Box<dyn Mapped>> {
    let mut copy = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let read = file.read_at(0, &mut copy)?;
    if read == copy.len() { Ok(Box::new(copy)) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without its directory.
    pub name: String,
    /// True if it is a directory.
    pub is_dir: bool,
    /// True if it is a regular file.
    pub is_file: bool,
}

/// The file that the owner of a data directory locks.
pub const LOCK_FILE: &str = "LOCK";

/// Locks that a process needs before it owns a data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockRule {
    /// The directory and the file `LOCK`. A file system that cannot lock a directory is rejected.
    #[default]
    Both,
    /// The file `LOCK`, and the directory where its file system can lock one (NFS cannot). An
    /// owner that removes `LOCK` is then not kept out.
    FileOnly,
}

/// Acquired lock of a data directory; dropping it releases the lock.
pub trait Lock: Send + Sync {}

/// A data directory. Paths are relative to it, `/`-separated, never with `..`.
pub trait Storage: Send + Sync {
    /// Creates a file for reading and writing, mode 0600; fails when the name exists. The name is
    /// durable only after `sync_dir` of its directory.
    ///
    /// # Errors
    /// The error of the file system; [`shortage`] returns what a full one lacks.
    fn create(&self, path: &str) -> io::Result<Box<dyn File>>;

    /// Opens an existing file for reading and writing; never follows a symbolic link.
    ///
    /// # Errors
    /// The error of the file system.
    fn open(&self, path: &str) -> io::Result<Box<dyn File>>;

    /// Opens an existing file for reading; never follows a symbolic link.
    ///
    /// # Errors
    /// The error of the file system.
    fn open_read(&self, path: &str) -> io::Result<Box<dyn File>>;

    /// Returns the entries of a directory, sorted.
    ///
    /// # Errors
    /// The error of the file system.
    fn list(&self, directory: &str) -> io::Result<Vec<DirEntry>>;

    /// Creates a directory, mode 0700; an existing one is success.
    ///
    /// # Errors
    /// The error of the file system.
    fn create_dir(&self, directory: &str) -> io::Result<()>;

    /// Renames a file over another, atomically.
    ///
    /// # Errors
    /// The error of the file system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Unlinks a file.
    ///
    /// # Errors
    /// The error of the file system.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a directory durable; `""` is the data directory itself.
    ///
    /// # Errors
    /// The error of the file system.
    fn sync_dir(&self, directory: &str) -> io::Result<()>;

    /// Checks that a file of `bytes` bytes and one more file fit, as far as the file system reports
    /// its free space.
    ///
    /// # Errors
    /// `ErrorKind::StorageFull` if they do not fit.
    fn check_space(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Returns the time of a file's last change, in seconds and nanoseconds: another value after
    /// each write, within the resolution of the file system's clock; `None` if unknown.
    /// # Errors
    /// The error of the file system.
    fn change_time(&self, path: &str) -> io::Result<Option<(i64, i64)>> {
        let _ = path;
        Ok(None)
    }

    /// Makes everything written to this file system durable (`syncfs`), through a descriptor held
    /// open since start, so that no writeback error is missed.
    ///
    /// # Errors
    /// The error of the file system.
    fn sync_all(&self) -> io::Result<()>;

    /// Acquires the exclusive lock of the data directory: of the directory and of the file `LOCK`,
    /// created when absent. Returns `None` when another process holds one of them.
    ///
    /// # Errors
    /// The error of the file system.
    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>>;
}

/// The resource that a full disk lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskShortage {
    /// Free bytes.
    #[default]
    Space,
    /// Free inodes: every file takes one.
    Inodes,
}

/// The disk is out of inodes although it has free bytes.
#[derive(Debug, thiserror::Error)]
#[error("no inode is free on this file system")]
struct OutOfInodes;

/// Returns the exhausted resource of a disk-full error; `None` for any other error.
#[must_use]
pub fn shortage(error: &io::Error) -> Option<DiskShortage> {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let inodes = error.get_ref().is_some_and(|inner| inner.is::<OutOfInodes>());
    full.then_some(if inodes { DiskShortage::Inodes } else { DiskShortage::Space })
}

/// Replaces a disk-full error by one that names inodes, if those are exhausted.
fn with_shortage(error: io::Error, short: impl FnOnce() -> io::Result<DiskShortage>) -> io::Error {
    match shortage(&error).map(|_| short()) {
        Some(Ok(DiskShortage::Inodes)) => io::Error::new(io::ErrorKind::StorageFull, OutOfInodes),
        _ => error,
    }
}

/// Returns true if the process or the system is out of file descriptors: a transient error.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Returns true if the device could not read the requested bytes: other parts may be intact.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Source of time.
pub trait Clock: Send + Sync {
    /// Returns wall time, which may jump in either direction.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed instant; monotonic.
    fn monotonic(&self) -> Duration;
}

/// Source of randomness.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes. They may come from a pool in this process's memory: fit
    /// for ids and salts, not for keys and nonces.
    fn fill(&self, bytes: &mut [u8]);

    /// Fills `bytes` with random bytes that were in no pool, for keys and nonces: a copy of this
    /// process's memory (a snapshot of the machine, a core dump) predicts none of them.
    fn fill_secret(&self, bytes: &mut [u8]);
}

/// Everything outside the process that the engine may use: files, time, randomness, keys.
#[derive(Clone)]
pub struct Env {
    /// The data directory.
    pub storage: Arc<dyn Storage>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The keys that the data directory is encrypted with; `None` for one in plaintext.
    pub keys: Option<Arc<MasterKeys>>,
}

impl Env {
    /// Opens a data directory on the real machine; creates it when absent, mode 0700.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        Self::open_with_lock_rule(data_dir, LockRule::default())
    }

    /// Opens like [`Self::open`], with a rule for the lock of the data directory.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn open_with_lock_rule(data_dir: &Path, rule: LockRule) -> io::Result<Self> {
        Ok(Self {
            storage: Arc::new(disk::DataDir::open(data_dir)?.with_lock_rule(rule)),
            clock: Arc::new(clock::SystemClock::new()),
            entropy: Arc::new(entropy::SystemEntropy),
            keys: None,
        })
    }

    /// Returns the same environment with the keys that encrypt the data directory.
    #[must_use]
    pub fn with_keys(self, keys: Option<Arc<MasterKeys>>) -> Self {
        Self { keys, ..self }
    }

    /// Returns `N` random bytes.
    #[must_use]
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy.fill(&mut bytes);
        bytes
    }

    /// Returns `N` random bytes for a key or a nonce: see [`Entropy::fill_secret`].
    #[must_use]
    pub fn random_secret<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy.fill_secret(&mut bytes);
        bytes
    }
}
