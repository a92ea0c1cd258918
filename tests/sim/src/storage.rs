//! The `env` traits of the simulated disk. It must not decide anything: `disk` does.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use sessionlog::env::{DirEntry, File, LOCK_FILE, Lock, Storage, disk::check_path};

use super::{
    Call, Op,
    disk::{Disk, lock},
};

/// The data directory as seen by one life of a process.
#[derive(Clone)]
pub(super) struct SimStorage {
    disk: Arc<Mutex<Disk>>,
    life: u64,
}

impl SimStorage {
    pub(super) fn new(disk: &Arc<Mutex<Disk>>) -> Self {
        let life = lock(disk).life();
        Self { disk: Arc::clone(disk), life }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    fn run<T>(
        &self,
        op: Op,
        path: &str,
        act: impl FnOnce(&mut Disk, &Arc<str>) -> io::Result<T>,
    ) -> io::Result<T> {
        let may_be_root = matches!(op, Op::List | Op::SyncDir | Op::SyncAll);
        if !(path.is_empty() && may_be_root) {
            check_path(path)?;
        }
        let path: Arc<str> = path.into();
        let call = Call { op, path: Arc::clone(&path), byte_offset: 0, bytes: 0 };
        self.disk().run(self.life, call, |disk| act(disk, &path))
    }

    fn file(&self, path: &str, file: usize, writable: bool) -> Box<dyn File> {
        Box::new(SimFile { storage: self.clone(), path: path.into(), file, writable })
    }
}

impl Storage for SimStorage {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file = self.run(Op::Create, path, |disk, path| disk.create(path))?;
        Ok(self.file(path, file, true))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file = self.run(Op::Open, path, |disk, path| disk.open(path))?;
        Ok(self.file(path, file, true))
    }

    fn open_read(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file = self.run(Op::OpenRead, path, |disk, path| disk.open(path))?;
        Ok(self.file(path, file, false))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirEntry>> {
        self.run(Op::List, directory, |disk, directory| disk.list(directory))
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        self.run(Op::CreateDir, directory, Disk::create_dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_path(to)?;
        self.run(Op::Rename, from, |disk, from| disk.rename(from, &to.into()))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.run(Op::Remove, path, Disk::remove)
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        self.run(Op::SyncDir, directory, |disk, directory| disk.sync_dir(directory))
    }

    fn sync_all(&self) -> io::Result<()> {
        let call = Call { op: Op::SyncAll, path: "".into(), byte_offset: 0, bytes: 0 };
        self.disk().sync(self.life, None, call)
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        let granted = self.run(Op::Lock, LOCK_FILE, |disk, _| disk.lock())?;
        Ok(granted.then(|| Box::new(SimLock { storage: self.clone() }) as Box<dyn Lock>))
    }
}

struct SimLock {
    storage: SimStorage,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.storage.disk().unlock(self.storage.life);
    }
}

struct SimFile {
    storage: SimStorage,
    path: Arc<str>,
    /// Number of the file; it stays valid after the name is removed, like an open file.
    file: usize,
    writable: bool,
}

impl SimFile {
    fn call(&self, op: Op, byte_offset: u64, bytes: usize) -> Call {
        Call { op, path: Arc::clone(&self.path), byte_offset, bytes: bytes as u64 }
    }

    fn run<T>(&self, call: Call, act: impl FnOnce(&mut Disk) -> T) -> io::Result<T> {
        self.storage.disk().run(self.storage.life, call, |disk| Ok(act(disk)))
    }
}

impl File for SimFile {
    fn write_at(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()> {
        if !self.writable {
            return Err(rustix::io::Errno::BADF.into());
        }
        let call = self.call(Op::Write, byte_offset, bytes.len());
        self.storage.disk().write(self.storage.life, self.file, call, bytes)
    }

    fn read_at(&self, byte_offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let call = self.call(Op::Read, byte_offset, buffer.len());
        self.storage
            .disk()
            .run(self.storage.life, call, |disk| disk.read(self.file, byte_offset, buffer))
    }

    fn sync(&self) -> io::Result<()> {
        let call = self.call(Op::Sync, 0, 0);
        self.storage.disk().sync(self.storage.life, Some(self.file), call)
    }

    /// Makes two calls, so that a fault may come between them and each of the two may fail.
    fn write_durably(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(byte_offset, bytes)?;
        let call = self.call(Op::Sync, byte_offset, bytes.len());
        self.storage.disk().sync(self.storage.life, Some(self.file), call)
    }

    /// Does nothing: the simulated kernel writes back at random.
    fn start_writeback(&self, _byte_offset: u64, _bytes: u64) {}

    fn len(&self) -> io::Result<u64> {
        self.run(self.call(Op::Len, 0, 0), |disk| disk.len(self.file))
    }

    fn evict(&self) -> io::Result<()> {
        self.run(self.call(Op::Evict, 0, 0), |disk| disk.evict(self.file))
    }
}
