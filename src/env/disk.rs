//! The real disk. To be filled.
use super::{Entry, File, Lock, Storage};
use std::{io, path::Path};
/// A data directory on the real disk.
pub struct DataDir;
impl DataDir {
    /// Opens.
    ///
    /// # Errors
    /// io
    pub fn open(_p: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
#[allow(unused_variables)]
impl Storage for DataDir {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open_read(&self, path: &str) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn list(&self, directory: &str) -> io::Result<Vec<Entry>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn create_dir(&self, directory: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_all(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
