//! Events that could not be delivered, each in a file of its own, named by when it happened: so
//! that any number of hooks write at once without waiting for each other, and what is read back is
//! whole. It must not deliver, nor lie inside a data directory: that one may be what is broken.
//!
//! A place: `TIME-ID.json` waits, `refused/TIME-ID.json` was refused for good, `failed` holds when
//! delivering failed last, `drain.lock` is held by whoever delivers.

use std::{
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{deliver::Delivery, sealed};
use crate::{
    env::{Entropy, MasterKeys, files},
    event::Timestamp,
};

const FAILED: &str = "failed";
const REFUSED: &str = "refused";
const DRAIN: &str = "drain";
/// Bytes of one file at most.
const FILE_BYTES_MAX: u64 = 80 << 20;

/// Why an event could not even wait.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct SpoolError {
    path: PathBuf,
    source: io::Error,
}

/// The keys of the store, read when they are needed; none for a store without.
pub type Keys = Arc<dyn Fn() -> io::Result<Option<Arc<MasterKeys>>> + Send + Sync>;

/// Places where events wait, the best one first.
#[derive(Clone)]
pub struct Spool {
    places: Vec<PathBuf>,
    keys: Keys,
    entropy: Arc<dyn Entropy>,
}

impl fmt::Display for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.places.iter().find(|place| matches!(files::look(place), Ok(Some(_))));
        let place = used.or(self.places.first());
        place.map_or(Ok(()), |place| write!(f, "{}", place.display()))
    }
}

impl Spool {
    /// A spool in these places: the first that takes an event has it, all are read. Under a key
    /// where the store has one: nothing that it would not show lies there.
    #[must_use]
    pub fn new(places: Vec<PathBuf>, keys: Keys, entropy: Arc<dyn Entropy>) -> Self {
        Self { places, keys, entropy }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Files that wait, in the order in which their events happened.
    #[must_use]
    pub fn waiting(&self) -> Vec<PathBuf> {
        let inside = |place: &PathBuf| files::list(place).unwrap_or_default();
        let is_one = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
        let mut all: Vec<PathBuf> = self.places.iter().flat_map(inside).filter(is_one).collect();
        all.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        all
    }

    /// Keeps an event until it can be delivered; it is durable then. Answers the place.
    ///
    /// # Errors
    /// What the first place said, when none takes it.
    pub fn put(&self, delivery: &Delivery, at: Timestamp) -> Result<PathBuf, SpoolError> {
        self.write(delivery, &format!("{:020}-{}.json", at.0, delivery.name()), None)
    }

    /// Keeps an event that was refused for good, for a person to look at.
    ///
    /// # Errors
    /// What the first place said, when none takes it.
    pub fn refuse(&self, delivery: &Delivery) -> Result<PathBuf, SpoolError> {
        self.write(delivery, &format!("{}.json", delivery.name()), Some(REFUSED))
    }

    fn write(
        &self,
        delivery: &Delivery,
        name: &str,
        below: Option<&str>,
    ) -> Result<PathBuf, SpoolError> {
        let text = delivery.to_text();
        let keys =
            (self.keys)().map_err(|source| SpoolError { path: PathBuf::from("key"), source });
        let bytes = match keys? {
            Some(keys) => sealed::seal(&keys, &*self.entropy, &text),
            None => text.into_bytes(),
        };
        let mut first = None;
        for place in &self.places {
            let place = below.map_or_else(|| place.clone(), |below| place.join(below));
            match write(&place, name, &bytes) {
                Ok(()) => return Ok(place),
                Err(source) => {
                    first.get_or_insert(SpoolError { path: place, source });
                }
            }
        }
        let nowhere = || SpoolError {
            path: PathBuf::new(),
            source: io::Error::new(io::ErrorKind::NotFound, "there is no place to spool to"),
        };
        Err(first.unwrap_or_else(nowhere))
    }

    /// An event that waits; `None` when it is gone or is none.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Delivery> {
        let bytes = files::read(path, FILE_BYTES_MAX).ok()?;
        let keys = (self.keys)().ok().flatten();
        Delivery::read(&sealed::open(keys.as_deref(), bytes)?)
    }

    /// Forgets an event that was delivered.
    ///
    /// # Errors
    /// What the file system said.
    pub fn forget(&self, path: &Path) -> io::Result<()> {
        files::remove(path)
    }

    /// Notes that delivering failed.
    ///
    /// # Errors
    /// What the first place said.
    pub fn pause(&self, at: Timestamp) -> io::Result<()> {
        let Some(place) = self.places.iter().find(|place| is_ours(place)) else { return Ok(()) };
        files::remove(&place.join(FAILED))?;
        files::append(&place.join(FAILED), at.0.to_string().as_bytes())
    }

    /// Forgets that delivering failed.
    pub fn unpause(&self) {
        for place in &self.places {
            // The pause ends by itself.
            let _ = files::remove(&place.join(FAILED));
        }
    }

    /// Whether delivering failed after `since`.
    #[must_use]
    pub fn is_paused(&self, since: Timestamp) -> bool {
        let failed = |place: &PathBuf| {
            let text = files::read_text(&place.join(FAILED), 64).ok()?;
            text.trim().parse::<i64>().ok()
        };
        self.places.iter().filter_map(failed).any(|at| at > since.0)
    }

    /// The right to deliver what waits, until it is dropped; `None` while somebody has it.
    ///
    /// # Errors
    /// What the file system said.
    pub fn take(&self) -> io::Result<Option<impl Sized + use<>>> {
        match self.places.iter().find(|place| is_ours(place)) {
            Some(place) => files::try_lock_beside(&place.join(DRAIN)),
            None => Ok(None),
        }
    }
}

/// Whether a place is there and nobody else's.
fn is_ours(place: &Path) -> bool {
    matches!(files::look(place), Ok(Some(found)) if found.is_dir && found.mode & 0o022 == 0)
}

fn write(place: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    files::create_dir(place)?;
    if !is_ours(place) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write there"));
    }
    let mut file = files::create(&place.join(name))?;
    file.write_all(bytes)?;
    file.finish()
}
