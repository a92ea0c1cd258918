//! Data of the kernel about this machine: the device under a directory, its flushes and bytes,
//! processor time, memory, load. It must not guess: a value that cannot be read is absent.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sessionlog::env::{Clock, files};

/// Maximum bytes of a file of /proc.
const PROC_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a sector in /proc/diskstats, regardless of the device.
const SECTOR_BYTES: u64 = 512;
/// Clock ticks a second in /proc/stat, on all supported architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// Time without activity after which a server is idle: three of its timers.
const REST: Duration = Duration::from_millis(600);
const REST_LOOK: Duration = Duration::from_millis(50);
/// Time limit for waiting until a server is idle.
const REST_MAX: Duration = Duration::from_secs(120);

fn read_proc(path: &str) -> Option<String> {
    files::read_text(Path::new(path), PROC_BYTES_MAX).ok()
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

/// File system of a directory, and its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disk {
    /// Type of the file system: ext4, xfs, tmpfs and so on.
    pub(super) file_system: String,
    /// Name in /proc/diskstats; `None` when the directory is not on a single block device.
    pub(super) device: Option<String>,
}

impl Disk {
    /// Returns the disk of `directory`.
    pub(super) fn under(directory: &Path) -> Self {
        let mounts = read_proc("/proc/self/mountinfo").unwrap_or_default();
        let Some((file_system, number)) = find_mount(&mounts, directory) else {
            return Self::default();
        };
        let device = whole_disk_name(&number).filter(|name| Counters::of(name).is_some());
        Self { file_system, device }
    }

    /// Returns the device's counters since the machine started.
    pub(super) fn counters(&self) -> Option<Counters> {
        Counters::of(self.device.as_ref()?)
    }
}

/// Returns the file system and device number of the mount that contains `directory`.
fn find_mount(mounts: &str, directory: &Path) -> Option<(String, String)> {
    let of_line = |line: &str| {
        let (mount, about) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let (device, _root, point) = (fields.next()?, fields.next()?, fields.next()?);
        let point = PathBuf::from(point.replace("\\040", " "));
        let file_system = about.split(' ').next()?;
        let depth = point.components().count();
        directory.starts_with(&point).then(|| (depth, file_system.to_owned(), device.to_owned()))
    };
    // A later mount hides an earlier one at the same path.
    let found = mounts.lines().filter_map(of_line).max_by_key(|(depth, ..)| *depth)?;
    Some((found.1, found.2))
}

/// Returns the name of the device with that number; for a partition, of the whole disk, because the
/// kernel counts flushes only there.
fn whole_disk_name(number: &str) -> Option<String> {
    let at = files::canonicalize(Path::new(&format!("/sys/dev/block/{number}"))).ok()?;
    let is_partition = files::path_info(&at.join("partition")).ok()?.is_some();
    let device = if is_partition { at.parent()? } else { &at };
    Some(device.file_name()?.to_str()?.to_owned())
}

/// Counters of a device since the machine started, including other programs' work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Number of flushes of its write cache.
    pub(super) flushes: u64,
    /// Bytes written to it.
    pub(super) bytes: u64,
}

impl Counters {
    fn of(device: &str) -> Option<Self> {
        Self::parse(&read_proc("/proc/diskstats")?, device)
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
    /// Used by this process.
    pub(super) own: f64,
    /// Used by all processes of the machine.
    pub(super) all: f64,
}

impl Processor {
    pub(super) fn now() -> Self {
        let all = read_proc("/proc/stat").and_then(|text| {
            let line = text.lines().next()?;
            let ticks = |text: &str| text.parse::<u64>().ok();
            let counts: Vec<u64> = line.split_whitespace().skip(1).filter_map(ticks).collect();
            // Fields four and five are idle and I/O wait; guests are included in the first two.
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

/// Work of a process so far; two equal values, some time apart, mean that it was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Processor seconds.
    pub(super) processor: f64,
    /// Bytes sent towards a disk.
    written: u64,
    /// True if one of its threads is waiting for a disk.
    pub(super) waits: bool,
}

impl Work {
    pub(super) fn of(pid: u32) -> Self {
        let written = read_proc(&format!("/proc/{pid}/io")).and_then(|text| {
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

/// Returns the clock ticks that a process has used.
fn ticks_of(pid: u32) -> Option<u64> {
    let text = read_proc(&format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may contain any character.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(number(fields.next())? + number(fields.next())?)
}

/// Returns the processor seconds of the current threads of a process, to the microsecond.
pub(super) fn busy(pid: u32) -> f64 {
    let threads = files::list(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default();
    let of_thread = |thread: &PathBuf| {
        let text = files::read_text(&thread.join("schedstat"), PROC_BYTES_MAX).ok()?;
        number(text.split_whitespace().next())
    };
    Duration::from_nanos(threads.iter().filter_map(of_thread).sum()).as_secs_f64()
}

/// Processor seconds of a server and of its child processes: PostgreSQL serves each connection with
/// a process.
pub(super) struct Served(HashMap<u32, f64>);

impl Served {
    pub(super) fn of(pid: u32) -> Self {
        let children = read_proc(&format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        Self(children.chain([pid]).map(|one| (one, busy(one))).collect())
    }

    /// Returns the seconds since an earlier reading, of the processes that still run: an ended one,
    /// such as a worker of autovacuum, takes none of them away.
    pub(super) fn since(&self, before: &Self) -> f64 {
        let earlier = |pid| before.0.get(pid).copied().unwrap_or_default();
        self.0.iter().map(|(pid, now)| (now - earlier(pid)).max(0.0)).sum()
    }
}

/// Returns the anonymous memory of a process in bytes, without the page cache.
pub(super) fn own_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "RssAnon:")
}

/// Returns the resident bytes of a process.
pub(super) fn resident_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, name: &str) -> Option<u64> {
    let text = read_proc(&format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    number(line.split_whitespace().next()).map(|kib| kib * 1024)
}

/// Returns the bytes that a process passed to write() and similar calls, for any file.
pub(super) fn written_bytes(pid: u32) -> Option<u64> {
    let text = read_proc(&format!("/proc/{pid}/io"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:"))?;
    number(Some(line.trim()))
}

/// Returns the load average of the last minute.
pub(super) fn load() -> Option<f64> {
    read_proc("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// Returns the kernel's name and version.
pub(super) fn kernel() -> Option<String> {
    Some(read_proc("/proc/sys/kernel/osrelease")?.trim().to_owned())
}

/// Waits until a server is idle, since it flushes and seals after its responses; returns the
/// processor seconds that it used meanwhile.
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
    fn the_disk_of_a_directory_is_that_of_its_longest_mount_path() {
        let of = |path: &str| find_mount(MOUNTS, Path::new(path)).expect("mounted");
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of("/home/me"), pair("ext4", "254:0"));
        assert_eq!(of("/dev/shm/x"), pair("tmpfs", "0:25"));
        assert_eq!(of("/dev/shmx"), pair("ext4", "254:0"));
        assert_eq!(of("/mnt/my disk/y"), pair("xfs", "8:17"));
    }

    #[test]
    fn flushes_and_bytes_are_parsed_from_the_line_of_a_device() {
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
