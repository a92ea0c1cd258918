//! The machine under the tests: its tools and rights, mounts and loop devices that are removed with
//! their guard. It must not depend on the program under test.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

/// Longest wait for a condition; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A need of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To be the superuser.
    Root,
    /// To watch and change system calls of a process.
    Strace,
    /// The same of a process that runs already.
    Attach,
    /// To mount.
    Mount,
    /// To make block devices of files.
    Loop,
    /// To serve a file system from this process.
    Fuse,
    /// A program in the path.
    Tool(&'static str),
}

/// True if the machine has all that; if not, reports which test is skipped and what is missing.
pub fn has(test: &str, needs: &[Need]) -> bool {
    let missing = needs.iter().find_map(|need| lacks(*need));
    if let Some(why) = &missing {
        // Past the harness, which hides what passing tests print.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
    }
    missing.is_none()
}

fn lacks(need: Need) -> Option<String> {
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

/// Runs a program to its end; returns its standard output, or its errors.
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
    /// `mount ARGUMENTS PATH`; makes the directory.
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

/// A file system that a small disk may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4 of so many bytes.
    Ext4(u64),
    /// ext4 of so many bytes, with so many inodes.
    FewInodes(u64, u32),
    /// XFS of so many bytes: 300 MiB are the fewest that it takes.
    Xfs(u64),
}

impl Kind {
    /// Needs of a disk with it.
    pub fn needs(self) -> [Need; 4] {
        let program = if matches!(self, Self::Xfs(_)) { "mkfs.xfs" } else { "mkfs.ext4" };
        [Need::Root, Need::Mount, Need::Loop, Need::Tool(program)]
    }
}

/// A small file system in a file, mounted.
pub struct SmallDisk {
    // In this order they go away.
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

/// A path for an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Waits without being woken.
pub fn pause(time: Duration) {
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}

/// Waits for a condition, asking again and again.
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

/// A number a person may set.
pub fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{variable}: {e}")))
}

/// Small reproducible randomness.
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
