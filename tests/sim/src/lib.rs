//! The simulated disk: the faults that tests run the engine on. One seed decides every outcome, so
//! a failing seed is a bug report. It must not be kinder than a real disk. Next to it is the model
//! that tests compare an engine with.
//!
//! Faults that it simulates:
//! - At a power loss every 512-byte sector written and not synced is old or new, each on its own; a
//!   file may have kept its new size without its new bytes (zeros); every name created, renamed or
//!   removed and not made durable by `sync_dir` is there or not. At times a sector is written back
//!   early, so that an older version of its unsynced contents is there.
//! - A `kill` keeps the page cache, so what was written is still visible, and still not durable.
//! - A failed sync marks the pages clean: reads return the new bytes, the device has the old ones
//!   or some of the new, the next sync succeeds and proves nothing. `evict` makes reads return what
//!   the device has.
//! - A full disk accepts a part of a write; so do short writes, failed writes and a crash within
//!   one.
//! - Any call may fail, once or persistently, selected by its number or its kind.
//! - Bits rot, sectors turn to zeros, change places or cannot be read, files vanish: by hand, on
//!   the durable image.
//!
//! Faults that it does not simulate: bytes reordered within a sector, a sync that reports success
//! and did not happen, or the loss of a sector that was not being written.

mod clock;
mod disk;
mod image;
pub mod model;
mod storage;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

pub use clock::{ManualClock, SeededEntropy};
use disk::{Disk, Planned, When, lock};
use sessionlog::env::{Env, MasterKeys, secrets::Secret};

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `Storage::create`
    Create,
    /// `Storage::open`
    Open,
    /// `Storage::open_read`
    OpenRead,
    /// `Storage::list`
    List,
    /// `Storage::create_dir`
    CreateDir,
    /// `Storage::rename`
    Rename,
    /// `Storage::remove`
    Remove,
    /// `Storage::sync_dir`
    SyncDir,
    /// `Storage::sync_all`
    SyncAll,
    /// `Storage::lock`
    Lock,
    /// `File::write_at`
    Write,
    /// `File::read_at`
    Read,
    /// `File::sync`
    Sync,
    /// `File::len`
    Len,
    /// `File::evict`
    Evict,
}

/// One call in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub op: Op,
    /// The file or directory it concerns.
    pub path: Arc<str>,
    /// The byte offset in the file; 0 if it has none.
    pub byte_offset: u64,
    /// The number of bytes; 0 if it has none.
    pub bytes: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, path, byte_offset, bytes } = self;
        write!(f, "{op:?} {path:?} {byte_offset}+{bytes}")
    }
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO. A write may have written a part; a sync leaves the pages clean, durable or not.
    Io,
    /// ENOSPC, on calls that need space; a write may have written a part.
    Full,
    /// A write that stops early and reports it.
    Short,
    /// EACCES, on calls that open a file.
    Denied,
    /// EIO on a sync, and one of the sectors it tried to write is zeroed, including its durable
    /// bytes. No engine can repair that before its next write: a test lets it make one.
    Spoil,
    /// The process is killed within the call.
    Kill,
    /// The power fails within the call.
    PowerLoss,
}

impl Fault {
    fn strikes(self, op: Op) -> bool {
        match self {
            Self::Io | Self::Kill | Self::PowerLoss => true,
            Self::Full => matches!(op, Op::Write | Op::Create | Op::CreateDir | Op::Rename),
            Self::Short => op == Op::Write,
            Self::Denied => matches!(op, Op::Open | Op::OpenRead),
            Self::Spoil => matches!(op, Op::Sync | Op::SyncAll),
        }
    }
}

/// A machine with one data directory, a clock and randomness, all decided by one seed. Clones are
/// the same machine.
#[derive(Clone)]
pub struct Sim {
    disk: Arc<Mutex<Disk>>,
    clock: Arc<ManualClock>,
    entropy: Arc<SeededEntropy>,
    keys: Arc<Mutex<Option<Arc<MasterKeys>>>>,
}

impl Sim {
    /// Creates a machine with an empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            disk: Arc::new(Mutex::new(Disk::new(seed))),
            clock: Arc::new(ManualClock::default()),
            entropy: Arc::new(SeededEntropy::new(seed)),
            keys: Arc::default(),
        }
    }

    /// Creates a machine with a master key derived from its seed.
    #[must_use]
    pub fn encrypted(seed: u64) -> Self {
        let sim = Self::new(seed);
        let key = std::array::from_fn(|n| (seed as u8).wrapping_mul(31).wrapping_add(n as u8));
        sim.set_keys(Some(MasterKeys { current: Secret::new(key), previous: None }));
        sim
    }

    /// Sets the keys of the next start.
    pub fn set_keys(&self, keys: Option<MasterKeys>) {
        *lock(&self.keys) = keys.map(Arc::new);
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    /// Returns the environment of a process on this machine, until the next crash: then every call
    /// through it and the files it opened fails.
    #[must_use]
    pub fn env(&self) -> Env {
        Env {
            storage: Arc::new(storage::SimStorage::new(&self.disk)),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            keys: lock(&self.keys).clone(),
        }
    }

    /// Returns the clock of the machine.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Cuts the power: only durable bytes and a random part of the others survive.
    pub fn power_loss(&self) {
        self.disk().power_loss();
    }

    /// Kills the process: the page cache survives, the lock is released.
    pub fn kill(&self) {
        self.disk().kill();
    }

    /// Fails call number `call` (the first ever is 0; [`Self::calls`] is the next one), and every
    /// later one if `persistent`.
    pub fn fail_call(&self, call: u64, fault: Fault, persistent: bool) {
        self.disk().plan(Planned { when: When::Call(call), fault, persistent });
    }

    /// Fails the next call of that kind, and every later one if `persistent`.
    pub fn fail_next(&self, op: Op, fault: Fault, persistent: bool) {
        self.disk().plan(Planned { when: When::Next(op), fault, persistent });
    }

    /// Fails every call that writes below `path` (creates, opens for writing, writes, syncs), until
    /// it is healed: a damaged area of the device, under a file or under all of a session's.
    pub fn fail_writing(&self, path: &str, fault: Fault) {
        self.disk().plan(Planned { when: When::Writing(path.into()), fault, persistent: true });
    }

    /// Returns the number of crashes: a process that saw another number is dead.
    #[must_use]
    pub fn lives(&self) -> u64 {
        self.disk().life()
    }

    /// Removes every planned fault.
    pub fn heal(&self) {
        self.disk().heal();
    }

    /// Returns true if a planned fault was triggered since the start.
    #[must_use]
    pub fn struck(&self) -> bool {
        self.strikes() > 0
    }

    /// Returns the number of planned faults that were triggered.
    #[must_use]
    pub fn strikes(&self) -> u64 {
        self.disk().strikes()
    }

    /// Returns the number of crashes that were power losses.
    #[must_use]
    pub fn power_losses(&self) -> u64 {
        self.disk().power_losses()
    }

    /// Sets the capacity of the disk in bytes; `None` is unlimited.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().set_capacity(bytes);
    }

    /// Returns the bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.disk().used()
    }

    /// Returns the number of calls made.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.disk().trace().len() as u64
    }

    /// Returns the last call made.
    #[must_use]
    pub fn last_call(&self) -> Option<Call> {
        self.disk().trace().last().cloned()
    }

    /// Returns every call made, in order.
    #[must_use]
    pub fn trace(&self) -> Vec<Call> {
        self.disk().trace().to_vec()
    }

    /// Returns the paths of the files that a process sees, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        self.disk().files()
    }

    /// Returns the bytes of a file on the device; `None` when its name is not durable.
    #[must_use]
    pub fn read_durable(&self, path: &str) -> Option<Vec<u8>> {
        self.disk().read_durable(path)
    }

    /// Returns the bytes that a process would read of a file; `None` when it sees none of that
    /// name.
    #[must_use]
    pub fn read_cached(&self, path: &str) -> Option<Vec<u8>> {
        self.disk().read_cached(path)
    }

    /// Writes bytes to the device, bypassing the process: a file is created, with its directories,
    /// when absent. Cached copies of the sectors are dropped, unless they are dirty.
    pub fn write_durable(&self, path: &str, byte_offset: u64, bytes: &[u8]) {
        self.disk().rot(path, |image| image.write_durable(byte_offset, bytes));
    }

    /// Flips one bit of a byte on the device; does nothing beyond its end.
    pub fn flip(&self, path: &str, byte_offset: u64, bit: u8) {
        self.disk().rot(path, |image| {
            if let Some(byte) = image.durable_byte(byte_offset) {
                image.write_durable(byte_offset, &[byte ^ (1 << (bit % 8))]);
            }
        });
    }

    /// Zeroes one 512-byte sector on the device.
    pub fn zero_sector(&self, path: &str, sector: u64) {
        self.disk().rot(path, |image| image.zero_sector(sector));
    }

    /// Swaps two 512-byte sectors of a file on the device, if it has both completely.
    pub fn swap_sectors(&self, path: &str, one: u64, other: u64) {
        self.disk().rot(path, |image| image.swap_sectors(one, other));
    }

    /// Makes every read of a 512-byte sector fail with EIO until it is written and synced.
    pub fn spoil_sector(&self, path: &str, sector: u64) {
        self.disk().rot(path, |image| image.spoil_sector(sector));
    }

    /// Makes a sector readable again, unchanged.
    pub fn restore_sector(&self, path: &str, sector: u64) {
        self.disk().rot(path, |image| image.restore_sector(sector));
    }

    /// Truncates a file on the device.
    pub fn truncate_durable(&self, path: &str, bytes: u64) {
        self.disk().rot(path, |image| image.truncate(bytes));
    }

    /// Removes a file, bypassing the process.
    pub fn remove_durable(&self, path: &str) {
        self.disk().remove_durable(path);
    }
}
