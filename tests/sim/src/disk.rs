//! The state of the simulated disk: names, durable names, files, planned faults, trace. Every call
//! goes through `run`, which counts it and applies faults. It must only be accessed under its lock.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::io::Errno;
use sessionlog::env::{DirEntry, LOCK_FILE};

use super::{Call, Fault, Op, clock::Dice, image::Image};

/// Locks a part of the simulation, even after a thread panicked while holding it. These locks are
/// the standard library's: the scheduler of tests/shuttle.rs switches threads between calls of the
/// disk, not inside them.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Trigger of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    Call(u64),
    Next(Op),
    /// At every call that writes below this path.
    Writing(Arc<str>),
}

/// A planned fault.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) when: When,
    pub(super) fault: Fault,
    pub(super) persistent: bool,
}

impl Planned {
    fn strikes(&self, number: u64, call: &Call) -> bool {
        let due = match &self.when {
            When::Call(first) => *first == number || self.persistent && *first < number,
            When::Next(wanted) => *wanted == call.op,
            When::Writing(path) => {
                let writes = matches!(call.op, Op::Create | Op::Open | Op::Write | Op::Sync);
                writes && call.path.starts_with(&**path)
            }
        };
        due && self.fault.strikes(call.op)
    }
}

/// Target of a name. Files are numbered; a number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

type Names = BTreeMap<Arc<str>, Node>;

/// A change of names that is not durable until `sync_dir`.
#[derive(Clone, Debug)]
enum Change {
    Insert(Arc<str>, Node),
    Remove(Arc<str>),
    Move { from: Arc<str>, to: Arc<str>, node: Node },
}

impl Change {
    fn concerns(&self, directory: &str) -> bool {
        match self {
            Self::Insert(path, _) | Self::Remove(path) => parent(path) == directory,
            Self::Move { from, to, .. } => parent(from) == directory || parent(to) == directory,
        }
    }

    fn apply(self, names: &mut Names) {
        match self {
            Self::Insert(path, node) => {
                names.insert(path, node);
            }
            Self::Remove(path) => {
                names.remove(&path);
            }
            Self::Move { from, to, node } => {
                names.remove(&from);
                names.insert(to, node);
            }
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns the error that a process gets after its simulated end.
fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the simulated process is gone")
}

pub(super) struct Disk {
    dice: Dice,
    files: Vec<Image>,
    /// Names that a process sees.
    names: Names,
    /// Names that the device has.
    durable: Names,
    pending: Vec<Change>,
    /// Number of crashes; a handle of an earlier life returns errors.
    life: u64,
    locked: bool,
    trace: Vec<Call>,
    planned: Vec<Planned>,
    /// Number of planned faults that were triggered.
    strikes: u64,
    power_losses: u64,
    capacity: u64,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            files: Vec::new(),
            names: Names::new(),
            durable: Names::new(),
            pending: Vec::new(),
            life: 0,
            locked: false,
            trace: Vec::new(),
            planned: Vec::new(),
            strikes: 0,
            power_losses: 0,
            capacity: u64::MAX,
        }
    }

    pub(super) fn life(&self) -> u64 {
        self.life
    }

    pub(super) fn trace(&self) -> &[Call] {
        &self.trace
    }

    pub(super) fn plan(&mut self, planned: Planned) {
        self.planned.push(planned);
    }

    pub(super) fn heal(&mut self) {
        self.planned.clear();
    }

    pub(super) fn strikes(&self) -> u64 {
        self.strikes
    }

    pub(super) fn power_losses(&self) -> u64 {
        self.power_losses
    }

    pub(super) fn set_capacity(&mut self, bytes: Option<u64>) {
        self.capacity = bytes.unwrap_or(u64::MAX);
    }

    pub(super) fn used(&self) -> u64 {
        self.names.values().filter_map(|node| self.image(*node)).map(Image::len).sum()
    }

    fn image(&self, node: Node) -> Option<&Image> {
        match node {
            Node::Directory => None,
            Node::File(number) => self.files.get(number),
        }
    }

    // -- calls ---------------------------------------------------------------------------------

    /// Counts a call and returns the fault that applies to it.
    fn count_call(&mut self, life: u64, call: Call) -> io::Result<Option<Fault>> {
        if life != self.life {
            return Err(gone());
        }
        let number = self.trace.len() as u64;
        let index = self.planned.iter().position(|planned| planned.strikes(number, &call));
        self.trace.push(call);
        let Some(index) = index else { return Ok(None) };
        self.strikes += 1;
        let fault = self.planned.get(index).map(|planned| planned.fault);
        if self.planned.get(index).is_some_and(|planned| !planned.persistent) {
            self.planned.remove(index);
        }
        Ok(fault)
    }

    /// Runs a call that takes effect completely or not at all.
    pub(super) fn run<T>(
        &mut self,
        life: u64,
        call: Call,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.count_call(life, call)? {
            None => act(self),
            Some(fault @ (Fault::Kill | Fault::PowerLoss)) => {
                if self.dice.chance(50) {
                    // The call took effect and its result is lost.
                    drop(act(self));
                }
                Err(self.crash(fault))
            }
            Some(fault) => Err(error_of(fault)),
        }
    }

    pub(super) fn write(
        &mut self,
        life: u64,
        file: usize,
        call: Call,
        bytes: &[u8],
    ) -> io::Result<()> {
        let byte_offset = call.byte_offset;
        let fault = self.count_call(life, call)?;
        let room = match self.capacity {
            u64::MAX => u64::MAX >> 1,
            capacity => capacity.saturating_sub(self.used()),
        };
        let image = self.files.get_mut(file).ok_or_else(gone)?;
        let fits = (image.len() + room).saturating_sub(byte_offset).min(bytes.len() as u64);
        let part = match fault {
            None => fits,
            Some(_) => self.dice.below(fits + 1),
        };
        let part = bytes.get(..usize::try_from(part).unwrap_or(usize::MAX)).unwrap_or(bytes);
        if !part.is_empty() {
            image.write(byte_offset, part);
        }
        if self.dice.chance(10) {
            image.write_back(&self.dice);
        }
        match fault {
            Some(fault @ (Fault::Kill | Fault::PowerLoss)) => Err(self.crash(fault)),
            Some(fault) => Err(error_of(fault)),
            None if part.len() < bytes.len() => Err(error_of(Fault::Full)),
            None => Ok(()),
        }
    }

    /// Syncs one file, or with `None` every file; only a range if the call has one.
    pub(super) fn sync(&mut self, life: u64, file: Option<usize>, call: Call) -> io::Result<()> {
        let part = call.byte_offset..call.byte_offset + call.bytes;
        let part = Some(part).filter(|part| !part.is_empty());
        let fault = self.count_call(life, call)?;
        let succeeds = match fault {
            None => true,
            Some(Fault::Io | Fault::Spoil) => false,
            // The crash may come after the device finished; otherwise random sectors were kept.
            Some(_) => self.dice.chance(50),
        };
        let wanted = self.files.iter_mut().enumerate();
        for (_, image) in wanted.filter(|(number, _)| file.is_none_or(|file| file == *number)) {
            match fault {
                Some(Fault::Io) => image.fail_sync(&self.dice, false),
                Some(Fault::Spoil) => image.fail_sync(&self.dice, true),
                _ if succeeds => image.sync(part.clone()),
                _ => {}
            }
        }
        if succeeds && file.is_none() {
            self.pending.drain(..).for_each(|change| change.apply(&mut self.durable));
        }
        match fault {
            None => Ok(()),
            Some(fault @ (Fault::Kill | Fault::PowerLoss)) => Err(self.crash(fault)),
            Some(fault) => Err(error_of(fault)),
        }
    }

    pub(super) fn read(
        &self,
        file: usize,
        byte_offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let image = self.files.get(file).ok_or_else(gone)?;
        image.read(byte_offset, buffer).ok_or_else(|| Errno::IO.into())
    }

    pub(super) fn len(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, Image::len)
    }

    pub(super) fn evict(&mut self, file: usize) {
        if let Some(image) = self.files.get_mut(file) {
            image.evict();
        }
    }

    // -- names ---------------------------------------------------------------------------------

    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.names);
        self.pending.push(change);
    }

    fn check_directory(&self, path: &str) -> io::Result<()> {
        match self.names.get(path) {
            _ if path.is_empty() => Ok(()),
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(Errno::NOTDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    pub(super) fn create(&mut self, path: &Arc<str>) -> io::Result<usize> {
        self.check_directory(parent(path))?;
        if self.names.contains_key(path) {
            return Err(Errno::EXIST.into());
        }
        let number = self.files.len();
        self.files.push(Image::default());
        self.change(Change::Insert(path.clone(), Node::File(number)));
        Ok(number)
    }

    pub(super) fn open(&self, path: &str) -> io::Result<usize> {
        match self.names.get(path) {
            Some(Node::File(number)) => Ok(*number),
            Some(Node::Directory) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    pub(super) fn list(&self, directory: &str) -> io::Result<Vec<DirEntry>> {
        self.check_directory(directory)?;
        let inside = self.names.iter().filter(|(path, _)| parent(path) == directory);
        Ok(inside
            .map(|(path, node)| DirEntry {
                name: path.rsplit('/').next().unwrap_or(path).to_owned(),
                is_dir: *node == Node::Directory,
                is_file: *node != Node::Directory,
            })
            .collect())
    }

    pub(super) fn create_dir(&mut self, path: &Arc<str>) -> io::Result<()> {
        self.check_directory(parent(path))?;
        match self.names.get(path) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(Errno::NOTDIR.into()),
            None => {
                self.change(Change::Insert(path.clone(), Node::Directory));
                Ok(())
            }
        }
    }

    pub(super) fn rename(&mut self, from: &Arc<str>, to: &Arc<str>) -> io::Result<()> {
        let node = Node::File(self.open(from)?);
        self.check_directory(parent(to))?;
        if self.names.get(to) == Some(&Node::Directory) {
            return Err(Errno::ISDIR.into());
        }
        if from != to {
            self.change(Change::Move { from: from.clone(), to: to.clone(), node });
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Arc<str>) -> io::Result<()> {
        self.open(path)?;
        self.change(Change::Remove(path.clone()));
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, directory: &str) -> io::Result<()> {
        self.check_directory(directory)?;
        let (synced, rest): (Vec<_>, Vec<_>) =
            self.pending.drain(..).partition(|change| change.concerns(directory));
        self.pending = rest;
        synced.into_iter().for_each(|change| change.apply(&mut self.durable));
        Ok(())
    }

    pub(super) fn lock(&mut self) -> io::Result<bool> {
        let path: Arc<str> = LOCK_FILE.into();
        if !self.names.contains_key(&path) {
            self.create(&path)?;
        }
        Ok(!std::mem::replace(&mut self.locked, true))
    }

    pub(super) fn unlock(&mut self, life: u64) {
        if life == self.life {
            self.locked = false;
        }
    }

    // -- crashes -------------------------------------------------------------------------------

    pub(super) fn kill(&mut self) {
        self.life += 1;
        self.locked = false;
    }

    pub(super) fn power_loss(&mut self) {
        self.kill();
        self.power_losses += 1;
        let pending = std::mem::take(&mut self.pending);
        let prefix = self.dice.below(pending.len() as u64 + 1);
        let in_order = self.dice.chance(50);
        for (number, change) in (0_u64..).zip(pending) {
            let kept = if in_order { number < prefix } else { self.dice.chance(50) };
            if kept {
                change.apply(&mut self.durable);
            }
        }
        // A name in a missing directory is missing. Sorted, so a directory comes before its names.
        let mut whole = Names::new();
        for (path, node) in std::mem::take(&mut self.durable) {
            let above = parent(&path);
            if above.is_empty() || whole.get(above) == Some(&Node::Directory) {
                whole.insert(path, node);
            }
        }
        self.names.clone_from(&whole);
        self.durable = whole;
        for image in &mut self.files {
            image.power_loss(&self.dice);
        }
    }

    fn crash(&mut self, fault: Fault) -> io::Error {
        match fault {
            Fault::PowerLoss => self.power_loss(),
            _ => self.kill(),
        }
        gone()
    }

    // -- unseen by the process ----------------------------------------------------------------

    pub(super) fn files(&self) -> Vec<String> {
        let files = self.names.iter().filter(|(_, node)| **node != Node::Directory);
        files.map(|(path, _)| path.to_string()).collect()
    }

    pub(super) fn read_durable(&self, path: &str) -> Option<Vec<u8>> {
        let node = self.durable.get(path)?;
        self.image(*node).map(|image| image.durable().to_vec())
    }

    pub(super) fn read_cached(&self, path: &str) -> Option<Vec<u8>> {
        self.image(*self.names.get(path)?).map(|image| image.cached().to_vec())
    }

    /// Changes the device's bytes of a file, created with its directories when absent.
    pub(super) fn rot(&mut self, path: &str, act: impl FnOnce(&mut Image)) {
        for (end, _) in path.match_indices('/') {
            let directory: Arc<str> = path.get(..end).unwrap_or_default().into();
            self.names.entry(directory.clone()).or_insert(Node::Directory);
            self.durable.entry(directory).or_insert(Node::Directory);
        }
        let next = self.files.len();
        let node = *self.names.entry(path.into()).or_insert(Node::File(next));
        self.durable.entry(path.into()).or_insert(node);
        if node == Node::File(next) {
            self.files.push(Image::default());
        }
        if let Node::File(number) = node
            && let Some(image) = self.files.get_mut(number)
        {
            act(image);
        }
    }

    pub(super) fn remove_durable(&mut self, path: &str) {
        self.names.remove(path);
        self.durable.remove(path);
        self.pending.retain(|change| match change {
            Change::Insert(at, _) | Change::Remove(at) => &**at != path,
            Change::Move { to, .. } => &**to != path,
        });
    }
}

fn error_of(fault: Fault) -> io::Error {
    match fault {
        Fault::Io | Fault::Spoil => Errno::IO.into(),
        Fault::Full => Errno::NOSPC.into(),
        Fault::Short => io::ErrorKind::WriteZero.into(),
        Fault::Denied => Errno::ACCESS.into(),
        Fault::Kill | Fault::PowerLoss => gone(),
    }
}
