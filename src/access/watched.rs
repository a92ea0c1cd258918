//! Files that are read again when they change. Each use checks the file with one system call, so a
//! revoked credential is refused at the next request. It must not use a file's earlier content when
//! the file cannot be read, unless the caller asks for that.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;

use crate::env::{
    files::{self, FileIdentity},
    sync::Mutex,
};

/// A file that cannot be used, and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// Path of the file.
    pub path: PathBuf,
    /// Description of the problem.
    pub problem: String,
}

impl FileError {
    pub(super) fn new(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self { path: path.to_path_buf(), problem: problem.to_string() }
    }
}

/// Rights that users other than the owner may have on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Privacy {
    /// None: the file holds secrets, or decides which credentials are accepted.
    Private,
    /// Others may read it.
    Readable,
}

/// Reads a file after checking its owner, mode and size.
pub(super) fn read(path: &Path, privacy: Privacy, bytes_max: u64) -> Result<Vec<u8>, FileError> {
    let wrong = |problem: String| FileError::new(path, problem);
    let found = files::path_info(path).map_err(|error| wrong(error.to_string()))?;
    let found = found.ok_or_else(|| wrong("there is no such file".to_owned()))?;
    let (others, rights) = match privacy {
        Privacy::Private => (0o077, "others than its owner have rights on it; chmod 600 it"),
        Privacy::Readable => (0o022, "others than its owner may write to it; chmod 644 it"),
    };
    if found.is_dir {
        return Err(wrong("it is a directory".to_owned()));
    }
    if found.mode & others != 0 {
        return Err(wrong(rights.to_owned()));
    }
    files::read(path, bytes_max).map_err(|error| wrong(error.to_string()))
}

/// Builds the value from the content of the files and the previous value.
type Make<T> = Box<dyn Fn(Option<&Arc<T>>) -> Result<T, FileError> + Send + Sync>;

/// A value built from files.
pub(super) struct Watched<T> {
    paths: Vec<PathBuf>,
    make: Make<T>,
    /// True if the previous value stays in use while the files cannot be read.
    lenient: bool,
    seen: ArcSwap<WatchedValue<T>>,
    making: Mutex<()>,
}

struct WatchedValue<T> {
    identities: Vec<Option<FileIdentity>>,
    value: Option<Arc<T>>,
}

impl<T> Watched<T> {
    /// Reads the files for the first time.
    pub(super) fn open(
        paths: Vec<PathBuf>,
        lenient: bool,
        make: Make<T>,
    ) -> Result<Self, FileError> {
        let identities = identities(&paths);
        let value = Some(Arc::new(make(None)?));
        let seen = ArcSwap::from_pointee(WatchedValue { identities, value });
        Ok(Self { paths, make, lenient, seen, making: Mutex::from(()) })
    }

    /// Returns the current value; `None` while the files cannot be used.
    pub(super) fn current(&self) -> Option<Arc<T>> {
        let seen = self.seen.load();
        if seen.identities == identities(&self.paths) {
            return seen.value.clone();
        }
        self.rebuild()
    }

    fn rebuild(&self) -> Option<Arc<T>> {
        let _one_at_a_time = self.making.lock();
        let seen = self.seen.load_full();
        // Taken before the files are read: a change in between is detected at the next use.
        let identities = identities(&self.paths);
        if seen.identities == identities {
            return seen.value.clone();
        }
        let value = match (self.make)(seen.value.as_ref()) {
            Ok(value) => Some(Arc::new(value)),
            Err(error) => {
                let stays = self.lenient;
                tracing::error!(%error, stays, "a file that decides who is let in cannot be used");
                seen.value.clone().filter(|_| stays)
            }
        };
        self.seen.store(Arc::new(WatchedValue { identities, value: value.clone() }));
        value
    }
}

fn identities(paths: &[PathBuf]) -> Vec<Option<FileIdentity>> {
    paths.iter().map(|path| files::identity(path).ok()).collect()
}
