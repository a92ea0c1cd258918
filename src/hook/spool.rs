//! Events that could not be delivered, each in a separate file named by its time. Any number of
//! hooks write concurrently, and a file is read whole or not at all. It must not deliver, nor be
//! inside a data directory: that directory may be damaged.
//!
//! A spool directory: `TIME-ID.json` is a spooled event, `refused/` holds rejected events and
//! unreadable files, `failed` exists after a failed delivery, the delivering process holds
//! `drain.lock`. A directory that belongs to another user, or that another user may write to, is
//! neither read nor written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use super::{delivery::Delivery, sealed};
use crate::{
    env::{Entropy, MasterKeys, files},
    event::Timestamp,
};

const FAILED: &str = "failed";
const REFUSED: &str = "refused";
const DRAIN: &str = "drain";
/// Maximum bytes of one spool file.
const FILE_BYTES_MAX: u64 = 80 << 20;

/// Reason for which an event could not be spooled.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct SpoolError {
    path: PathBuf,
    source: io::Error,
}

/// The keys of the store; `None` for a store without a key.
type KnownKeys = Option<Arc<MasterKeys>>;

/// Reader of the keys: called once, on first use.
pub type Keys = Box<dyn Fn() -> io::Result<KnownKeys> + Send + Sync>;

/// Reason for which a spooled event was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpoolReadError {
    /// The file no longer exists: another process delivered it.
    Gone,
    /// Encrypted, and no key is available.
    Sealed,
    /// The file is not a spooled event, or is encrypted with an unknown key.
    Broken,
}

/// Directories of spooled events, the preferred one first.
pub struct Spool {
    places: Vec<PathBuf>,
    keys: Keys,
    /// The keys or the error of reading them; a read may run a command, so it is done once.
    known: OnceLock<Result<KnownKeys, String>>,
    entropy: Arc<dyn Entropy>,
}

impl fmt::Display for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.private_dirs().next().or(self.places.first());
        place.map_or(Ok(()), |place| write!(f, "{}", place.display()))
    }
}

impl Spool {
    /// Creates a spool in these directories: an event goes to the first that accepts it, all are
    /// read. Encrypted if the store has a key, so that it reveals nothing that the store hides.
    #[must_use]
    pub fn new(places: Vec<PathBuf>, keys: Keys, entropy: Arc<dyn Entropy>) -> Self {
        Self { places, keys, known: OnceLock::new(), entropy }
    }

    /// Returns the suffix of spool directories for a server, so that servers do not share them.
    #[must_use]
    pub fn server_suffix(server: &str) -> String {
        format!("-{:.16}", blake3::hash(server.as_bytes()).to_hex())
    }

    /// Returns the directories that exist and belong to this user alone.
    fn private_dirs(&self) -> impl Iterator<Item = &PathBuf> {
        self.places.iter().filter(|place| files::is_private_dir(place))
    }

    fn read_keys(&self) -> io::Result<Option<&MasterKeys>> {
        let known = self.known.get_or_init(|| (self.keys)().map_err(|error| error.to_string()));
        match known {
            Ok(keys) => Ok(keys.as_deref()),
            Err(why) => Err(io::Error::other(why.clone())),
        }
    }

    /// Returns true if no event is spooled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spooled_paths().is_empty()
    }

    /// Returns the paths of spooled events, in the order of their times.
    #[must_use]
    pub fn spooled_paths(&self) -> Vec<PathBuf> {
        let inside = |place: &PathBuf| files::list(place).unwrap_or_default();
        let all = self.private_dirs().flat_map(inside);
        let mut all: Vec<PathBuf> = all.filter(|path| is_event_file(path)).collect();
        all.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        all
    }

    /// Stores an event durably until it is delivered. Returns its directory.
    ///
    /// # Errors
    /// The error of the first directory, when all of them fail.
    pub fn put(&self, delivery: &Delivery, at: Timestamp) -> Result<PathBuf, SpoolError> {
        self.write_delivery(delivery, &format!("{:020}-{}.json", at.0, delivery.id()), None)
    }

    /// Keeps a rejected event in `refused/`, with the reason, until [`Self::readmit`].
    ///
    /// # Errors
    /// The error of the first directory, when all of them fail.
    pub(super) fn put_rejected(
        &self,
        delivery: Delivery,
        why: &impl fmt::Display,
        at: Timestamp,
    ) -> Result<PathBuf, SpoolError> {
        let name = format!("{:020}-{}.json", at.0, delivery.id());
        self.store_rejected(delivery, why, Path::new(&name))
    }

    /// Keeps a rejected event that was spooled in the file `path`.
    pub(super) fn store_rejected(
        &self,
        delivery: Delivery,
        why: &impl fmt::Display,
        path: &Path,
    ) -> Result<PathBuf, SpoolError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let delivery = Delivery { refused: Some(why.to_string()), ..delivery };
        self.write_delivery(&delivery, &name, Some(REFUSED))
    }

    /// Returns the paths of the events that were set aside.
    #[must_use]
    pub fn refused_paths(&self) -> Vec<PathBuf> {
        let inside = |place: &PathBuf| files::list(&place.join(REFUSED)).unwrap_or_default();
        self.private_dirs().flat_map(inside).filter(|path| is_event_file(path)).collect()
    }

    /// Returns the sessions that refused the events that were set aside, each with the reasons.
    #[must_use]
    pub fn refusal_reasons(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut reasons = BTreeMap::<String, BTreeSet<String>>::new();
        for path in self.refused_paths() {
            let Ok(delivery) = self.read(&path) else { continue };
            reasons.entry(delivery.session).or_default().extend(delivery.refused);
        }
        reasons
    }

    /// Moves the events that were set aside back among those that wait. Returns their number.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn readmit(&self) -> io::Result<usize> {
        let paths = self.refused_paths();
        for path in &paths {
            let place = path.parent().and_then(Path::parent);
            if let (Some(place), Some(name)) = (place, path.file_name()) {
                files::rename(path, &place.join(name))?;
            }
        }
        Ok(paths.len())
    }

    fn write_delivery(
        &self,
        delivery: &Delivery,
        name: &str,
        below: Option<&str>,
    ) -> Result<PathBuf, SpoolError> {
        let text = delivery.to_text();
        let keys =
            self.read_keys().map_err(|source| SpoolError { path: PathBuf::from("key"), source });
        let bytes = match keys? {
            Some(keys) => sealed::seal(keys, &*self.entropy, &text),
            None => text.into_bytes(),
        };
        let mut first = None;
        for place in &self.places {
            match write_file(place, below, name, &bytes) {
                Ok(()) => return Ok(place.clone()),
                Err(source) => {
                    first.get_or_insert(SpoolError { path: place.clone(), source });
                }
            }
        }
        let nowhere = || SpoolError {
            path: PathBuf::new(),
            source: io::Error::new(io::ErrorKind::NotFound, "there is no place to spool to"),
        };
        Err(first.unwrap_or_else(nowhere))
    }

    /// Reads a spooled event.
    pub(super) fn read(&self, path: &Path) -> Result<Delivery, SpoolReadError> {
        let bytes = files::read(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpoolReadError::Gone,
            _ => SpoolReadError::Broken,
        })?;
        let keys = match sealed::is_sealed(&bytes) {
            true => Some(self.read_keys().ok().flatten().ok_or(SpoolReadError::Sealed)?),
            false => None,
        };
        let text = sealed::open(keys, bytes).ok_or(SpoolReadError::Broken)?;
        Delivery::parse(&text).ok_or(SpoolReadError::Broken)
    }

    /// Moves an unreadable file to `refused/`, for the user to examine.
    pub(super) fn move_unreadable(&self, path: &Path) -> io::Result<()> {
        let (Some(place), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let aside = place.join(REFUSED);
        files::create_dir(&aside)?;
        files::rename(path, &aside.join(name))
    }

    /// Removes a delivered event.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn remove_delivered(&self, path: &Path) -> io::Result<()> {
        files::remove(path)
    }

    /// Records that a delivery failed.
    ///
    /// # Errors
    /// The error of the first directory.
    pub fn record_failure(&self, at: Timestamp) -> io::Result<()> {
        let Some(place) = self.private_dirs().next() else { return Ok(()) };
        files::remove(&place.join(FAILED))?;
        files::append(&place.join(FAILED), at.0.to_string().as_bytes())
    }

    /// Removes the record of a failed delivery.
    pub fn clear_failure(&self) {
        for place in self.private_dirs() {
            // An error is ignored: the pause ends by time as well.
            let _ = files::remove(&place.join(FAILED));
        }
    }

    /// Returns true if a delivery failed after `since`.
    #[must_use]
    pub fn has_failed_since(&self, since: Timestamp) -> bool {
        let failed = |place: &PathBuf| {
            let text = files::read_text(&place.join(FAILED), 64).ok()?;
            text.trim().parse::<i64>().ok()
        };
        self.private_dirs().filter_map(failed).any(|at| at > since.0)
    }

    /// Locks delivery until the guard is dropped; `None` if another process delivers.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn try_lock(&self) -> io::Result<Option<impl Sized + use<>>> {
        match self.private_dirs().next() {
            Some(place) => files::try_acquire_file_lock(&place.join(DRAIN)),
            None => Ok(None),
        }
    }
}

fn is_event_file(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

fn write_file(place: &Path, below: Option<&str>, name: &str, bytes: &[u8]) -> io::Result<()> {
    files::create_dir(place)?;
    if !files::is_private_dir(place) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a directory that you alone may write to",
        ));
    }
    let place = below.map_or_else(|| place.to_path_buf(), |below| place.join(below));
    files::create_dir(&place)?;
    let mut file = files::create(&place.join(name))?;
    file.write_all(bytes)?;
    file.finish()
}
