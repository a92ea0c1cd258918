//! What the kernel tells about this machine: which device is under a directory, its flushes and
//! bytes, processor time, memory, load. It must not guess: what cannot be read is absent.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sessionlog::env::{Clock, files};

/// Largest file of /proc that is read.
const PROC_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a sector in /proc/diskstats, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;
/// Clock ticks in a second of /proc/stat, on every architecture this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server that did nothing for so long has nothing left to do: three of its timers.
const REST: Duration = Duration::from_millis(600);
const REST_LOOK: Duration = Duration::from_millis(50);
/// How long it may take until it is idle.
const REST_MAX: Duration = Duration::from_secs(120);

fn proc(path: &str) -> Option<String> {
    files::read_text(Path::new(path), PROC_BYTES_MAX).ok()
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

/// The file system under a directory, and the device under that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disk {
    /// ext4, xfs, tmpfs and so on.
    pub(super) file_system: String,
    /// Its line in /proc/diskstats; `None` when the directory is on no single block device.
    pub(super) device: Option<String>,
}

impl Disk {
    /// The disk under `directory`.
    pub(super) fn under(directory: &Path) -> Self {
        let mounts = proc("/proc/self/mountinfo").unwrap_or_default();
        let Some((file_system, number)) = mount_of(&mounts, directory) else {
            return Self::default();
        };
        let device = whole_device(&number).filter(|name| Counters::of(name).is_some());
        Self { file_system, device }
    }

    /// What the device did since it was there.
    pub(super) fn counters(&self) -> Option<Counters> {
        Counters::of(self.device.as_ref()?)
    }
}

/// File system and device number of the mount that holds `directory`.
fn mount_of(mounts: &str, directory: &Path) -> Option<(String, String)> {
    let of_line = |line: &str| {
        let (mount, about) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let (device, _root, point) = (fields.next()?, fields.next()?, fields.next()?);
        let point = PathBuf::from(point.replace("\\040", " "));
        let file_system = about.split(' ').next()?;
        let depth = point.components().count();
        directory.starts_with(&point).then(|| (depth, file_system.to_owned(), device.to_owned()))
    };
    // A later mount hides an earlier one at the same place.
    let found = mounts.lines().filter_map(of_line).max_by_key(|(depth, ..)| *depth)?;
    Some((found.1, found.2))
}

/// Name of the device with that number; of the whole disk for a partition, because the kernel
/// counts flushes there only.
fn whole_device(number: &str) -> Option<String> {
    let at = files::canonical(Path::new(&format!("/sys/dev/block/{number}"))).ok()?;
    let is_partition = files::look(&at.join("partition")).ok()?.is_some();
    let device = if is_partition { at.parent()? } else { &at };
    Some(device.file_name()?.to_str()?.to_owned())
}

/// What a device did since the machine started; other programs' work is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Flushes of its write cache.
    pub(super) flushes: u64,
    /// Bytes written to it.
    pub(super) bytes: u64,
}

impl Counters {
    fn of(device: &str) -> Option<Self> {
        Self::parse(&proc("/proc/diskstats")?, device)
    }

    fn parse(statistics: &str, device: &str) -> Option<Self> {
        let line =
            statistics.lines().find(|line| line.split_whitespace().nth(2) == Some(device))?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let sectors = number(fields.get(9).copied())?;
        // Kernels before 5.5 do not count flushes.
        let flushes = number(fields.get(18).copied())?;
        Some(Self { flushes, bytes: sectors.saturating_mul(SECTOR_BYTES) })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            flushes: self.flushes.saturating_sub(before.flushes),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// Processor seconds used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Processor {
    /// By this process.
    pub(super) own: f64,
    /// By everything on the machine.
    pub(super) all: f64,
}

impl Processor {
    pub(super) fn now() -> Self {
        let all = proc("/proc/stat").and_then(|text| {
            let line = text.lines().next()?;
            let ticks = |text: &str| text.parse::<u64>().ok();
            let counts: Vec<u64> = line.split_whitespace().skip(1).filter_map(ticks).collect();
            // The fourth and fifth are idle and waiting for a disk; guests are in the first two.
            let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| counts.get(*at)).sum::<u64>();
            Some(seconds(busy))
        });
        let own = std::process::id();
        Self { own: ticks_of(own).map_or(0.0, seconds), all: all.unwrap_or_default() }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self { own: self.own - before.own, all: self.all - before.all }
    }
}

#[expect(clippy::cast_precision_loss, reason = "ticks since the start are far below 2^52")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS_PER_SECOND
}

/// Work that a process did so far; two equal values, some time apart, mean that it was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Processor seconds.
    pub(super) processor: f64,
    /// Bytes it sent towards a disk.
    written: u64,
    /// Whether one of its threads waits for a disk now.
    pub(super) waits: bool,
}

impl Work {
    pub(super) fn of(pid: u32) -> Self {
        let written = proc(&format!("/proc/{pid}/io")).and_then(|text| {
            number(text.lines().find_map(|line| line.strip_prefix("write_bytes: ")))
        });
        let threads = files::list(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default();
        let waits = |thread: &PathBuf| {
            let text = files::read_text(&thread.join("stat"), PROC_BYTES_MAX).ok();
            text.and_then(|text| Some(text.rsplit_once(')')?.1.trim_start().starts_with('D')))
        };
        Self {
            processor: ticks_of(pid).map_or(0.0, seconds),
            written: written.unwrap_or_default(),
            waits: threads.iter().filter_map(waits).any(|waits| waits),
        }
    }
}

/// Clock ticks a process has used.
fn ticks_of(pid: u32) -> Option<u64> {
    let text = proc(&format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(number(fields.next())? + number(fields.next())?)
}

/// Processor seconds that the threads which a process has now have used, to the microsecond.
pub(super) fn busy(pid: u32) -> f64 {
    let threads = files::list(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default();
    let of_thread = |thread: &PathBuf| {
        let text = files::read_text(&thread.join("schedstat"), PROC_BYTES_MAX).ok()?;
        number(text.split_whitespace().next())
    };
    Duration::from_nanos(threads.iter().filter_map(of_thread).sum()).as_secs_f64()
}

/// Processor seconds that a server and the processes which it has now have used: PostgreSQL serves
/// each connection by a process.
pub(super) fn served(pid: u32) -> f64 {
    let children = proc(&format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.map(busy).fold(busy(pid), |all, one| all + one)
}

/// Bytes of a process that are no file's: beside the page cache.
pub(super) fn own_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "RssAnon:")
}

/// Resident bytes of a process.
pub(super) fn resident_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, name: &str) -> Option<u64> {
    let text = proc(&format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    number(line.split_whitespace().next()).map(|kib| kib * 1024)
}

/// Bytes a process handed to write() and its relatives, whatever the file.
pub(super) fn written_bytes(pid: u32) -> Option<u64> {
    let text = proc(&format!("/proc/{pid}/io"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:"))?;
    number(Some(line.trim()))
}

/// Programs that wanted a processor, over the last minute.
pub(super) fn load() -> Option<f64> {
    proc("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// The kernel's name and version.
pub(super) fn kernel() -> Option<String> {
    Some(proc("/proc/sys/kernel/osrelease")?.trim().to_owned())
}

/// Waits until a server is idle, and returns the processor seconds of that: it flushes and seals
/// after the answers.
pub(super) async fn at_rest(pid: u32, clock: &dyn Clock) -> io::Result<f64> {
    let (began, first) = (clock.monotonic(), Work::of(pid));
    let (mut last, mut since) = (first, began);
    loop {
        tokio::time::sleep(REST_LOOK).await;
        let (work, now) = (Work::of(pid), clock.monotonic());
        if work != last || work.waits {
            (last, since) = (work, now);
        } else if now.saturating_sub(since) >= REST {
            return Ok(work.processor - first.processor);
        }
        if now.saturating_sub(began) > REST_MAX {
            return Err(io::Error::other("the server does not come to rest"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
30 22 0:25 / /dev/shm rw - tmpfs tmpfs rw
31 22 8:17 /data /mnt/my\\040disk rw - xfs /dev/sdb1 rw
";

    #[test]
    fn the_disk_under_a_directory_is_that_of_its_longest_mount() {
        let of = |path: &str| mount_of(MOUNTS, Path::new(path)).expect("mounted");
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of("/home/me"), pair("ext4", "254:0"));
        assert_eq!(of("/dev/shm/x"), pair("tmpfs", "0:25"));
        assert_eq!(of("/dev/shmx"), pair("ext4", "254:0"));
        assert_eq!(of("/mnt/my disk/y"), pair("xfs", "8:17"));
    }

    #[test]
    fn flushes_and_bytes_of_a_device_are_read_from_its_line() {
        let text = "\
 254       1 vda1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
 254       0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 99 17
   8       0 old 1 2 3 4 5 6 7 8 9 10 11
";
        let found = Counters { flushes: 99, bytes: 7 * 512 };
        assert_eq!(Counters::parse(text, "vda"), Some(found));
        assert_eq!(Counters::parse(text, "old"), None);
        assert_eq!(Counters::parse(text, "sda"), None);
    }
}
