//! Files outside the data directory: paths named on a command line, configuration, a spool, the
//! path of a socket. It must not be used for anything inside a data directory: that is `Storage`.

#![expect(clippy::disallowed_types, reason = "one of the rooms of the file system")]

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use zeroize::Zeroizing;

use super::DiskShortage;

/// A file opened for reading, with its size for a progress bar.
pub struct InputFile {
    /// Reader of the content.
    pub reader: Box<dyn BufRead + Send>,
    /// Size in bytes when it was opened; `None` for a pipe.
    pub bytes: Option<u64>,
}

/// Opens a file for reading.
///
/// # Errors
/// The error of the file system; `IsADirectory` for a directory.
pub fn open(path: &Path) -> io::Result<InputFile> {
    let file = fs::File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok(InputFile { reader: Box::new(BufReader::with_capacity(256 << 10, file)), bytes })
}

/// Opens a regular file of this user for reading; `None` when it does not exist.
///
/// # Errors
/// The error of the file system.
pub fn open_user_file(path: &Path) -> io::Result<Option<impl Read + io::Seek + use<>>> {
    // A pipe is opened without waiting for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let about = file.metadata()?;
    let own = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
    Ok(own.then_some(file))
}

/// Opens a regular file for reading, with its size; `None` for a link and any other kind of file.
///
/// # Errors
/// The error of the file system.
pub fn open_regular(path: &Path) -> io::Result<Option<(impl Read + use<>, u64)>> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = flags.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    Ok(about.is_file().then_some((file, about.len())))
}

/// Reads a regular file of at most `bytes_max` bytes below a directory, through directories of
/// these names; `None` when a name of the path does not exist, is a link, or is of another kind.
///
/// # Errors
/// The error of the file system; `FileTooLarge` for a larger file.
pub fn read_below(directory: &Path, names: &[&str], bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let Some((name, folders)) = names.split_last() else { return Ok(None) };
    let is_name =
        |name: &&str| !name.is_empty() && *name != "." && *name != ".." && !name.contains('/');
    if !names.iter().all(is_name) {
        return Ok(None);
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    let (folder, file) =
        (flags | rustix::fs::OFlags::DIRECTORY, flags | rustix::fs::OFlags::NONBLOCK);
    let none = rustix::fs::Mode::empty();
    let open = || {
        let mut at = rustix::fs::open(directory, rustix::fs::OFlags::DIRECTORY, none)?;
        for name in folders {
            at = rustix::fs::openat(&at, *name, folder, none)?;
        }
        rustix::fs::openat(&at, *name, file, none)
    };
    let file = match open() {
        Ok(file) => fs::File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    read_bounded(file, bytes_max).map(Some)
}

/// Metadata by which a changed file differs from an unchanged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// True if it is a regular file.
    pub is_file: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// Device and inode.
    inode: (u64, u64),
    /// Times of the last change of content and of inode, in seconds and nanoseconds.
    changed: [(i64, i64); 2],
}

/// Returns the stamp of the file at a path, links followed; `None` if it cannot be read.
#[must_use]
pub fn file_stamp(path: &Path) -> Option<FileStamp> {
    let about = fs::metadata(path).ok()?;
    Some(FileStamp {
        is_file: about.is_file(),
        bytes: about.len(),
        inode: (about.dev(), about.ino()),
        changed: [(about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec())],
    })
}

/// Reads a whole file of at most `bytes_max` bytes.
///
/// # Errors
/// The error of the file system; `FileTooLarge` for a larger one.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_bounded(fs::File::open(path)?, bytes_max)
}

fn read_bounded(file: fs::File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Reads a whole UTF-8 file of at most `bytes_max` bytes.
///
/// # Errors
/// Those of [`read`]; `InvalidData` when it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    decode_text(read(path, bytes_max)?)
}

/// Reads a whole UTF-8 file that another user may have created; does not wait for a pipe.
///
/// # Errors
/// Those of [`read_text`]; `InvalidInput` for anything but a regular file.
pub fn read_regular_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    decode_text(read_bounded(file, bytes_max)?)
}

fn decode_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a whole UTF-8 file of at most `bytes_max` bytes that only its owner may read.
///
/// # Errors
/// Those of [`read_text`]; `PermissionDenied` when others may read or write it, or it is not a
/// file.
pub fn read_private(path: &Path, bytes_max: u64) -> io::Result<Zeroizing<String>> {
    let mut file = fs::File::open(path)?;
    let about = file.metadata()?;
    let mode = about.permissions().mode() & 0o777;
    if !about.is_file() || mode & 0o077 != 0 {
        let what = format!("it is no file of mode 0600 but {mode:04o}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut text = Zeroizing::new(String::new());
    (&mut file).take(bytes_max.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// A file being written under a temporary name in the same directory until
/// [`OutputFile::finish`] renames it.
pub struct OutputFile {
    writer: io::BufWriter<fs::File>,
    part: PathBuf,
    path: PathBuf,
    finished: bool,
}

/// Starts writing `path`, mode 0600. An existing file is unchanged until [`OutputFile::finish`].
///
/// # Errors
/// The error of the file system.
pub fn create(path: &Path) -> io::Result<OutputFile> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".part-{}", std::process::id()));
    let part = path.with_file_name(name);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    let writer = io::BufWriter::with_capacity(256 << 10, file);
    Ok(OutputFile { writer, part, path: path.to_path_buf(), finished: false })
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl OutputFile {
    /// Makes the bytes durable and renames the file.
    ///
    /// # Errors
    /// The error of the file system; the existing file is unchanged then.
    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()?;
        self.writer.get_ref().sync_all()?;
        fs::rename(&self.part, &self.path)?;
        self.finished = true;
        sync_parent(&self.path)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.finished {
            // The partial output of a failed export is useless.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Replaces or creates a file atomically. A link remains a link, and an existing file keeps its
/// mode; a new one has `mode`.
///
/// # Errors
/// The error of the file system; the file is unchanged then.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (path, mode) = match path_info(path)? {
        Some(found) => (canonicalize(path)?, found.mode),
        None => (path.to_path_buf(), mode),
    };
    let mut output = create(&path)?;
    output.write_all(bytes)?;
    output.writer.get_ref().set_permissions(fs::Permissions::from_mode(mode))?;
    output.finish()
}

/// Appends to a file, created with mode 0600, and makes it durable: for a spool.
///
/// # Errors
/// The error of the file system; a part of the bytes may have been written.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let created = !path.exists();
    let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    if created { sync_parent(path) } else { Ok(()) }
}

/// Creates a directory and its missing parents, mode 0700.
///
/// # Errors
/// The error of the file system.
pub fn create_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns the paths in a directory, sorted.
///
/// # Errors
/// The error of the file system.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Removes a file; an absent one is success.
///
/// # Errors
/// The error of the file system.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a directory if it is empty; an absent one is success.
///
/// # Errors
/// The error of the file system.
pub fn remove_empty_dir(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{DirectoryNotEmpty, NotFound};
    match fs::remove_dir(path) {
        Err(error) if matches!(error.kind(), DirectoryNotEmpty | NotFound) => Ok(()),
        removed => removed,
    }
}

/// Removes all rights of group and others from a newly bound socket.
///
/// # Errors
/// The error of the file system.
pub fn make_private(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o700;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Metadata of a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// True for a directory.
    pub is_dir: bool,
    /// True for a Unix socket.
    pub is_socket: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
}

/// Returns the metadata of a path; `None` when it does not exist.
///
/// # Errors
/// The error of the file system.
pub fn path_info(path: &Path) -> io::Result<Option<PathInfo>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    Ok(Some(PathInfo {
        is_dir: metadata.is_dir(),
        is_socket: metadata.file_type().is_socket(),
        bytes: metadata.len(),
        mode: metadata.permissions().mode() & 0o7777,
        uid: metadata.uid(),
    }))
}

/// Returns true if a path is a directory, not a link, that belongs to this user and that no
/// other user may write to.
#[must_use]
pub fn is_private_dir(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == own && found.permissions().mode() & 0o022 == 0
    })
}

/// Returns the user id of a path's owner, links followed; `None` when it is this user, or when the
/// path does not exist.
///
/// # Errors
/// The error of the file system.
pub fn foreign_owner(path: &Path) -> io::Result<Option<u32>> {
    let own = rustix::process::geteuid().as_raw();
    Ok(path_info(path)?.map(|found| found.uid).filter(|uid| *uid != own))
}

/// Returns true if this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Renames a file within its file system; replaces the target.
///
/// # Errors
/// The error of the file system.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Identity of a file, by which a replaced or changed file at the same path is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub(super) file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

/// Returns the identity of the file at a path, links followed.
///
/// # Errors
/// The error of the file system.
pub fn identity(path: &Path) -> io::Result<FileIdentity> {
    let about = fs::metadata(path)?;
    Ok(FileIdentity {
        file: (about.dev(), about.ino()),
        bytes: about.len(),
        written: (about.mtime(), about.mtime_nsec()),
        changed: (about.ctime(), about.ctime_nsec()),
    })
}

/// Free bytes below which a disk counts as full: a small directory needs as much to add a name.
const SPACE_MIN: u64 = 256 << 10;

/// Free space of a file system for this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that can be written.
    pub bytes: u64,
    /// Number of files that can be created; `None` where the file system does not count them.
    pub inodes: Option<u64>,
}

impl FreeSpace {
    pub(super) fn from_statvfs(about: &rustix::fs::StatVfs) -> Self {
        let bytes = about.f_bavail.saturating_mul(about.f_frsize);
        Self { bytes, inodes: (about.f_files > 0).then_some(about.f_favail) }
    }

    /// Returns the resource that is exhausted, for a write that failed for lack of space.
    #[must_use]
    pub fn shortage(&self) -> DiskShortage {
        let space = self.bytes < SPACE_MIN || self.inodes != Some(0);
        if space { DiskShortage::Space } else { DiskShortage::Inodes }
    }
}

/// Returns the free space of the file system of a path.
///
/// # Errors
/// The error of the system.
pub fn free_space(path: &Path) -> io::Result<FreeSpace> {
    Ok(FreeSpace::from_statvfs(&rustix::fs::statvfs(path)?))
}

/// Blocks until this process has acquired the lock of a file; dropping the result releases it.
/// The lock is on a separate file, `NAME.lock`, because the file itself is replaced.
///
/// # Errors
/// The error of the file system.
pub fn acquire_file_lock(path: &Path) -> io::Result<FileLock> {
    let file = open_lock_file(path)?;
    file.lock()?;
    Ok(FileLock(file))
}

/// Acquires the same lock without blocking; returns `None` while another process holds it.
///
/// # Errors
/// The error of the file system.
pub fn try_acquire_file_lock(path: &Path) -> io::Result<Option<FileLock>> {
    let file = open_lock_file(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// A lock file next to a file; the lock is released when dropped.
pub struct FileLock(fs::File);

impl Drop for FileLock {
    fn drop(&mut self) {
        // A child process between its fork and its exec has the descriptor as well: closing this
        // one alone would leave the lock held until then.
        let _ = self.0.unlock();
    }
}

fn open_lock_file(path: &Path) -> io::Result<fs::File> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".lock");
    let path = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Returns the absolute path of an existing file: links, `.` and `..` resolved.
///
/// # Errors
/// The error of the file system.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Returns true if a path itself is a link.
#[must_use]
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Finds the first link below a directory on a path that leads out of that directory or does
/// not resolve; returns the link and its target.
///
/// # Errors
/// The error of the file system; `InvalidInput` for a path that is not below the directory.
pub fn find_escaping_link(directory: &Path, path: &Path) -> io::Result<Option<(PathBuf, PathBuf)>> {
    let inside = fs::canonicalize(directory)?;
    let below = path.strip_prefix(directory).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut at = directory.to_path_buf();
    for part in below.components() {
        at.push(part);
        let leads_out = || fs::canonicalize(&at).map_or(true, |to| !to.starts_with(&inside));
        if is_link(&at) && leads_out() {
            let names = fs::read_link(&at)?;
            return Ok(Some((at, names)));
        }
    }
    Ok(None)
}

/// Resolves a path whose last components need not exist yet to an absolute path.
///
/// # Errors
/// The error of the file system; `InvalidInput` for `..` below what exists.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for there in path.ancestors() {
        match fs::canonicalize(there) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) => {
                let rest = path.strip_prefix(there).map_err(|_| io::ErrorKind::InvalidInput)?;
                let up = |part| part == Component::ParentDir;
                return match rest.components().any(up) {
                    true => Err(io::ErrorKind::InvalidInput.into()),
                    false if rest.as_os_str().is_empty() => Ok(found),
                    false => Ok(found.join(rest)),
                };
            }
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Removes `.` and `..` from a path without following links; `..` of the root is the root.
#[must_use]
pub fn remove_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns true if an error means that the file does not exist.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::File::open(parent)?.sync_all()
}
