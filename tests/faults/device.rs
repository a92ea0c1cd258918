//! A block device with faults: a file that this process serves through FUSE, made a device by the
//! loop driver. It tracks the sectors written since the last flush, so that its image at any moment
//! is what a power cut would leave, and it fails the writes chosen by the test. It must not depend
//! on a file system.
//!
//! It implements the smallest part of the FUSE protocol: one regular file, the root, without names,
//! opened with direct I/O.

use std::{
    collections::HashMap,
    fs,
    io::{Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use super::machine::{Dice, Loop, run, text};

const SECTOR: usize = 512;
/// Maximum bytes of a write of the kernel, with space for its header.
const WRITE_BYTES_MAX: usize = 128 << 10;
const REQUEST_BYTES_MAX: usize = WRITE_BYTES_MAX + 8192;

type Sector = [u8; SECTOR];

/// Selection of the writes that fail.
#[derive(Default)]
enum Failing {
    #[default]
    None,
    /// Writes that contain these bytes.
    With(Vec<u8>),
    All,
}

#[derive(Default)]
struct Disk {
    sectors: HashMap<u64, Sector>,
    /// Earlier contents of sectors written since the last flush, oldest first.
    unflushed: Vec<(u64, Option<Sector>)>,
    failing: Failing,
    failed: u64,
}

impl Disk {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), i32> {
        let fails = match &self.failing {
            Failing::None => false,
            Failing::With(needle) => bytes.windows(needle.len()).any(|part| part == needle),
            Failing::All => true,
        };
        if fails {
            self.failed += 1;
            return Err(rustix::io::Errno::IO.raw_os_error());
        }
        for (sector, part) in (at / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            let mut new = self.sectors.get(&sector).copied().unwrap_or([0; SECTOR]);
            new[..part.len()].copy_from_slice(part);
            let old = self.sectors.insert(sector, new);
            self.unflushed.push((sector, old));
        }
        Ok(())
    }

    fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (sector, part) in (at / SECTOR as u64..).zip(bytes.chunks_mut(SECTOR)) {
            if let Some(found) = self.sectors.get(&sector) {
                part.copy_from_slice(&found[..part.len()]);
            }
        }
        bytes
    }

    /// Returns the state after a power cut: some sectors written since the last flush, chosen by
    /// `dice`, have their earlier content.
    fn after_power_cut(&self, dice: &mut Dice) -> HashMap<u64, Sector> {
        let mut sectors = self.sectors.clone();
        let keeps = dice.roll(3);
        for (sector, old) in self.unflushed.iter().rev() {
            if dice.roll(2) < keeps {
                continue;
            }
            match old {
                Some(old) => sectors.insert(*sector, *old),
                None => sectors.remove(sector),
            };
        }
        sectors
    }
}

/// The device; removed when dropped.
pub struct Device {
    disk: Arc<Mutex<Disk>>,
    bytes: u64,
    home: PathBuf,
    // Dropped in this order.
    looped: Option<Loop>,
    file: PathBuf,
}

impl Device {
    pub fn new(home: &Path, bytes: u64) -> Self {
        let disk = Arc::new(Mutex::new(Disk::default()));
        let channel = fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let file = home.join("device");
        fs::File::create(&file).unwrap();
        // The kernel takes the descriptor from the mounting process: `mount` inherits this copy.
        let inherited = rustix::io::dup(&channel).unwrap();
        let number = inherited.as_raw_fd();
        let options = format!("fd={number},rootmode=100000,user_id=0,group_id=0,allow_other");
        run("mount", &["-i", "-t", "fuse", "-o", &options, "faulty", text(&file)]).unwrap();
        drop(inherited);
        let served = Arc::clone(&disk);
        std::thread::spawn(move || serve_requests(channel, &served, bytes));
        let looped = Some(Loop::over(&file).unwrap());
        Self { disk, bytes, home: home.to_owned(), looped, file }
    }

    pub fn device(&self) -> &Loop {
        self.looped.as_ref().unwrap()
    }

    /// Fails every write that contains these bytes from now on.
    pub fn fail_writes_with(&self, needle: &str) {
        self.disk.lock().unwrap().failing = Failing::With(needle.as_bytes().to_owned());
    }

    /// Fails every write from now on.
    pub fn fail_every_write(&self) {
        self.disk.lock().unwrap().failing = Failing::All;
    }

    /// Lets writes succeed again; returns the number of failed ones.
    pub fn heal(&self) -> u64 {
        let mut disk = self.disk.lock().unwrap();
        disk.failing = Failing::None;
        disk.failed
    }

    /// Cuts the power on a copy: writes the remaining content to a file.
    pub fn power_cut(&self, dice: &mut Dice) -> PathBuf {
        let sectors = self.disk.lock().unwrap().after_power_cut(dice);
        let path = self.home.join("cut.img");
        let _ = fs::remove_file(&path);
        let image = fs::File::create(&path).unwrap();
        image.set_len(self.bytes).unwrap();
        for (sector, bytes) in sectors {
            image.write_all_at(&bytes, sector * SECTOR as u64).unwrap();
        }
        path
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(self.looped.take());
        let _ = run("umount", &["-l", text(&self.file)]);
    }
}

/// One request of the kernel.
struct Request<'a> {
    operation: u32,
    unique: u64,
    arguments: &'a [u8],
}

impl<'a> Request<'a> {
    fn parse(bytes: &'a [u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let unique = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        Self { operation: word(4), unique, arguments: &bytes[40..] }
    }

    fn word(&self, at: usize) -> u64 {
        u64::from(u32::from_le_bytes(self.arguments[at..at + 4].try_into().unwrap()))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.arguments[at..at + 8].try_into().unwrap())
    }
}

/// Serves requests of the kernel until the file is unmounted.
fn serve_requests(mut channel: fs::File, disk: &Mutex<Disk>, bytes: u64) {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    while let Ok(length) = channel.read(&mut buffer) {
        let request = Request::parse(&buffer[..length]);
        let Some(answer) = answer(&request, disk, bytes) else { continue };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (-error, Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend((16 + body.len() as u32).to_le_bytes());
        reply.extend(error.to_le_bytes());
        reply.extend(request.unique.to_le_bytes());
        reply.extend(body);
        // An interrupted request needs no reply.
        let _ = channel.write(&reply);
    }
}

fn answer(request: &Request, disk: &Mutex<Disk>, bytes: u64) -> Option<Result<Vec<u8>, i32>> {
    const FORGET: u32 = 2;
    const GETATTR: u32 = 3;
    const SETATTR: u32 = 4;
    const OPEN: u32 = 14;
    const READ: u32 = 15;
    const WRITE: u32 = 16;
    const STATFS: u32 = 17;
    const RELEASE: u32 = 18;
    const FSYNC: u32 = 20;
    const FLUSH: u32 = 25;
    const INIT: u32 = 26;
    const INTERRUPT: u32 = 36;
    const BATCH_FORGET: u32 = 42;
    const DIRECT_IO: u32 = 1;
    Some(match request.operation {
        FORGET | INTERRUPT | BATCH_FORGET => return None,
        INIT => {
            let words = [7, 31, 0, 0, 16 | 12 << 16, WRITE_BYTES_MAX as u32, 1];
            let mut body: Vec<u8> = words.iter().flat_map(|w: &u32| w.to_le_bytes()).collect();
            body.resize(64, 0);
            Ok(body)
        }
        GETATTR | SETATTR => Ok(attributes(bytes)),
        OPEN => {
            let mut body = vec![0; 16];
            body[8..12].copy_from_slice(&DIRECT_IO.to_le_bytes());
            Ok(body)
        }
        READ => {
            let (at, length) = (request.long(8), request.word(16));
            let length = length.min(bytes.saturating_sub(at));
            Ok(disk.lock().unwrap().read(at, length as usize))
        }
        WRITE => {
            let (at, length) = (request.long(8), request.word(16) as usize);
            let written = disk.lock().unwrap().write(at, &request.arguments[40..40 + length]);
            written.map(|()| [(length as u32).to_le_bytes(), [0; 4]].concat())
        }
        FSYNC => {
            disk.lock().unwrap().unflushed.clear();
            Ok(Vec::new())
        }
        FLUSH | RELEASE => Ok(Vec::new()),
        STATFS => Ok(vec![0; 80]),
        _ => Err(rustix::io::Errno::NOSYS.raw_os_error()),
    })
}

fn attributes(bytes: u64) -> Vec<u8> {
    const REGULAR_0600: u32 = 0o100_600;
    let mut body = vec![0; 16];
    body[0..8].copy_from_slice(&3600_u64.to_le_bytes());
    for long in [1, bytes, bytes / SECTOR as u64, 0, 0, 0] {
        body.extend(long.to_le_bytes());
    }
    for word in [0, 0, 0, REGULAR_0600, 1, 0, 0, 0, SECTOR as u32, 0] {
        body.extend(word.to_le_bytes());
    }
    body
}
