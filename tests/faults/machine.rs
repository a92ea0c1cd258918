//! The machine that runs the tests: its tools and rights, mounts and loop devices that are removed
//! with their guard. It must not depend on the program under test.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

/// Maximum wait for a condition; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A requirement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root privileges.
    Root,
    /// Tracing of a process by `strace`.
    Strace,
    /// Attaching `strace` to a running process.
    Attach,
    /// Mounting file systems.
    Mount,
    /// Loop devices.
    Loop,
    /// Serving a file system by FUSE.
    Fuse,
    /// A program in the path.
    Tool(&'static str),
}

/// Returns true if every requirement is met; otherwise reports the skipped test and the missing
/// one.
pub fn has(test: &str, needs: &[Need]) -> bool {
    let missing = needs.iter().find_map(|need| missing_reason(*need));
    if let Some(why) = &missing {
        // Bypasses the test harness, which hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
    }
    missing.is_none()
}

fn missing_reason(need: Need) -> Option<String> {
    static STRACE: OnceLock<bool> = OnceLock::new();
    static MOUNT: OnceLock<bool> = OnceLock::new();
    let works = |program: &str, arguments: &[&str]| run(program, arguments).is_ok();
    let root = || rustix::process::geteuid().is_root();
    let (there, why) = match need {
        Need::Root => (root(), "it needs root".to_owned()),
        Need::Strace => (
            *STRACE.get_or_init(|| works("strace", &["-f", "-o", "/dev/null", "true"])),
            "strace is missing or may not trace".to_owned(),
        ),
        Need::Attach => (
            root()
                || fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
                    .is_ok_and(|scope| scope.trim() == "0"),
            "it may not trace a running process".to_owned(),
        ),
        Need::Mount => (
            root() && *MOUNT.get_or_init(may_mount),
            "it may not mount file systems here".to_owned(),
        ),
        Need::Loop => {
            (root() && works("losetup", &["--find"]), "there are no loop devices here".to_owned())
        }
        Need::Fuse => {
            (root() && fs::File::open("/dev/fuse").is_ok(), "there is no /dev/fuse here".to_owned())
        }
        Need::Tool(name) => {
            (works("sh", &["-c", &format!("command -v {name}")]), format!("{name} is missing"))
        }
    };
    (!there).then_some(why)
}

fn may_mount() -> bool {
    let place = tempfile::tempdir().unwrap();
    Mounted::new(&["-t", "tmpfs", "-o", "size=64k", "none"], &place.path().join("m")).is_ok()
}

/// Runs a program to its end; returns its standard output, or its standard error.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{program} {arguments:?}: {}", text(&output.stderr))),
    }
}

/// A mounted file system; unmounted when dropped.
pub struct Mounted {
    pub path: PathBuf,
}

impl Mounted {
    /// Runs `mount ARGUMENTS PATH`, after creating the directory.
    pub fn new(arguments: &[&str], path: &Path) -> Result<Self, String> {
        fs::create_dir_all(path).map_err(|error| error.to_string())?;
        run("mount", &[arguments, &[text(path)]].concat())?;
        Ok(Self { path: path.to_owned() })
    }

    /// Mounts the file system of a block device.
    pub fn device(device: &Loop, options: &str, path: &Path) -> Result<Self, String> {
        Self::new(&["-o", options, &device.device], path)
    }

    /// Unmounts; waits while a process still uses it.
    pub fn unmount(self) {
        drop(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let gone = |_: &u32| {
            let done = run("umount", &[text(&self.path)]).is_ok();
            if !done {
                pause(Duration::from_millis(50));
            }
            done
        };
        if (0..40).find(gone).is_none() {
            let _ = run("umount", &["-l", text(&self.path)]);
        }
    }
}

/// A file as a block device; detached when dropped.
pub struct Loop {
    pub device: String,
}

impl Loop {
    pub fn over(file: &Path) -> Result<Self, String> {
        Ok(Self { device: run("losetup", &["-f", "--show", text(file)])? })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["-d", &self.device]);
    }
}

/// A file system of a small disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4 of that many bytes.
    Ext4(u64),
    /// ext4 of that many bytes and inodes.
    FewInodes(u64, u32),
    /// XFS of that many bytes; its minimum is 300 MiB.
    Xfs(u64),
}

impl Kind {
    /// Returns the requirements of a disk with it.
    pub fn needs(self) -> [Need; 4] {
        let program = if matches!(self, Self::Xfs(_)) { "mkfs.xfs" } else { "mkfs.ext4" };
        [Need::Root, Need::Mount, Need::Loop, Need::Tool(program)]
    }
}

/// A small file system in a file, mounted.
pub struct SmallDisk {
    // Dropped in this order.
    pub mounted: Mounted,
    _device: Loop,
}

impl SmallDisk {
    pub fn new(home: &Path, kind: Kind) -> Self {
        let image = home.join("disk.img");
        let (Kind::Ext4(bytes) | Kind::FewInodes(bytes, _) | Kind::Xfs(bytes)) = kind;
        fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let ext4 = ["-q", "-F", "-m", "0", text(&image)];
        match kind {
            Kind::Ext4(_) => run("mkfs.ext4", &ext4),
            Kind::FewInodes(_, inodes) => {
                run("mkfs.ext4", &[&["-N", &*inodes.to_string()], &ext4[..]].concat())
            }
            Kind::Xfs(_) => run("mkfs.xfs", &["-q", text(&image)]),
        }
        .unwrap();
        let device = Loop::over(&image).unwrap();
        let mounted = Mounted::device(&device, "noatime", &home.join("disk")).unwrap();
        Self { mounted, _device: device }
    }
}

/// Returns a path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Sleeps.
pub fn pause(time: Duration) {
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}

/// Polls until a condition holds; panics after [`PATIENCE`].
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let step = Duration::from_millis(10);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if let Some(found) = ask() {
            return found;
        }
        pause(step);
    }
    panic!("waited in vain for {what}");
}

/// Reads a number from an environment variable.
pub fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{variable}: {e}")))
}

/// A small reproducible random generator.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }
}
