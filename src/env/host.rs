//! Operating system services: the owner's socket and log file, detaching from the terminal, running
//! a command, a scratch directory. It must not touch the content of a data directory: `disk` does,
//! under the lock.

#![expect(clippy::disallowed_types, reason = "one of the rooms of the file system")]

use std::{
    ffi::OsStr,
    fs, io,
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{MetadataExt, OpenOptionsExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{OnceLock, mpsc},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use zeroize::Zeroizing;

use super::{Entropy, disk::DataDir, entropy::SystemEntropy, files, with_shortage};

/// Name of the owner's socket in a data directory.
const SOCKET_FILE: &str = "owner.sock";
/// Maximum bytes of a Unix socket's address on Linux, without its final zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The longest name derived from `SOCKET_FILE` (while it is being bound).
const SOCKET_NEW_FILE: &str = "owner.sock.new";

/// Signal to a process that grows a file beyond its limit; without a handler it ends the process.
pub const FILE_SIZE_SIGNAL: i32 = rustix::process::Signal::XFSZ.as_raw();

/// Socket of the owner of a data directory.
#[derive(Debug)]
pub struct OwnerSocket {
    /// A path short enough to bind and connect to.
    pub path: PathBuf,
    /// Keeps `path` valid: a data directory whose path is too long for a socket's address is
    /// reached through this descriptor.
    pub directory: Option<OwnedFd>,
    /// Device and inode of the socket that this value bound.
    bound: OnceLock<(u64, u64)>,
}

impl OwnerSocket {
    /// Returns the socket of a data directory. A directory with a path too long for a socket's
    /// address is created when absent, because only an open directory gives it a short name.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn new(data_dir: &Path) -> io::Result<Self> {
        let plain = data_dir.join(SOCKET_FILE);
        if data_dir.join(SOCKET_NEW_FILE).as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(Self { path: plain, directory: None, bound: OnceLock::new() });
        }
        drop(DataDir::open(data_dir)?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(data_dir, flags, Mode::empty())?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let path = PathBuf::from(format!("/proc/self/fd/{number}/{SOCKET_FILE}"));
        Ok(Self { path, directory: Some(directory), bound: OnceLock::new() })
    }

    /// Binds the socket, mode 0600, replacing that of a dead owner. Only the holder of the data
    /// directory's lock may call this: it would disconnect a living owner.
    ///
    /// # Errors
    /// The error of the system; [`super::shortage`] returns what a full disk lacks.
    pub fn bind(&self) -> io::Result<UnixListener> {
        let new = self.path.with_file_name(SOCKET_NEW_FILE);
        files::remove(&new)?;
        let free = || Ok(files::free_space(new.parent().unwrap_or(&new))?.shortage());
        let listener = UnixListener::bind(&new).map_err(|error| with_shortage(error, free))?;
        files::make_private(&new)?;
        // Never set before: an owner binds one socket.
        let _ = self.bound.set(file_identity(&new)?);
        // Replaces the stale socket atomically: a client always finds one of them.
        fs::rename(&new, &self.path)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Returns true if the path still names the socket that this value bound; false once another
    /// process removed or recreated the directory.
    ///
    /// # Errors
    /// The error of the file system when the path cannot be checked.
    pub fn is_bound_here(&self) -> io::Result<bool> {
        match file_identity(&self.path) {
            Ok(found) => Ok(self.bound.get() == Some(&found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the socket's name, so that the next client starts an owner at once. Another owner's
    /// socket under the same name is kept.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn remove(&self) -> io::Result<()> {
        if self.is_bound_here()? { files::remove(&self.path) } else { Ok(()) }
    }
}

/// Kills a process group by its leader.
pub fn kill_group(leader: u32) {
    let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
    // A group that has ended already is success.
    let _ = leader.map(|leader| kill_process_group(leader, Signal::KILL));
}

/// Runs a command and returns its output. Splits it into arguments without a shell, removes this
/// program's own variables, and kills a command that prints too much or runs too long.
///
/// # Errors
/// An error when it cannot be run, fails, times out, prints too many bytes, or prints no UTF-8.
pub fn run_command(
    command: &str,
    bytes_max: u64,
    time_max: Duration,
) -> io::Result<Zeroizing<String>> {
    let mut words = command.split_whitespace();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut run = Command::new(program);
    run.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_program_variable(name)) {
        run.env_remove(name);
    }
    let mut child = run.spawn()?;
    let read = read_output(&mut child, bytes_max, time_max);
    if read.is_err() {
        // It may have ended already.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let bytes = read.map_err(|why| io::Error::other(format!("{program} {why}")))?;
    if !status.success() {
        return Err(io::Error::other(format!("{program} ended with {status}")));
    }
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| io::Error::other(format!("{program} did not print text")))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Reads the output of a command until it ends, without reaping it. The reader thread keeps
/// running when another process keeps the pipe open.
fn read_output(
    child: &mut Child,
    bytes_max: u64,
    time_max: Duration,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let (sender, receiver) = mpsc::channel();
    let (stdout, pid) = (child.stdout.take(), Pid::from_child(child));
    std::thread::spawn(move || {
        // With capacity for all of it, no copy of a key remains in freed memory.
        let capacity = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_add(64);
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        let stdout = stdout.ok_or(io::ErrorKind::BrokenPipe.into());
        let mut read = stdout.and_then(|pipe| pipe.take(bytes_max + 1).read_to_end(&mut bytes));
        if read.as_ref().is_ok_and(|read| *read as u64 <= bytes_max) {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            read = read.and_then(|read| Ok(waitid(WaitId::Pid(pid), ended).map(|_| read)?));
        }
        // The receiver was dropped if this took too long.
        let _ = sender.send(read.map(|_| bytes));
    });
    match receiver.recv_timeout(time_max) {
        Ok(Ok(bytes)) if bytes.len() as u64 > bytes_max => {
            Err(format!("printed more than {bytes_max} bytes"))
        }
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(format!("did not end within {} s", time_max.as_secs_f32())),
    }
}

fn is_program_variable(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"SESSIONLOG_")
}

/// Returns the machine's name and this process's id, as `HOST/PID`.
#[must_use]
pub fn process_place() -> String {
    let host = rustix::system::uname();
    format!("{}/{}", host.nodename().to_string_lossy(), std::process::id())
}

/// Returns the number of threads that this process can run at once.
#[must_use]
pub fn processor_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Disables core dumps of this process and lets only root read its memory: it holds keys.
///
/// # Errors
/// The error of the system.
pub fn keep_memory_private() -> io::Result<()> {
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, nothing)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn file_identity(path: &Path) -> io::Result<(u64, u64)> {
    let about = fs::symlink_metadata(path)?;
    Ok((about.dev(), about.ino()))
}

/// Opens a log file for appending, mode 0600; truncates it once it is larger than `bytes_max`.
///
/// # Errors
/// The error of the file system.
pub fn open_log(path: &Path, bytes_max: u64) -> io::Result<impl Write + Send + 'static> {
    let large = fs::metadata(path).is_ok_and(|about| about.len() > bytes_max);
    let mut options = fs::OpenOptions::new();
    options.create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    if large {
        options.write(true).truncate(true)
    } else {
        options.append(true)
    };
    options.open(path)
}

/// Makes this process the leader of a process session and closes every inherited descriptor except
/// the standard three: a terminal that closes does not end it, and no lock or pipe of the parent
/// stays open.
///
/// Call it first in `main`, before anything opens a file.
///
/// # Errors
/// The error of the system.
pub fn detach_from_parent() -> io::Result<()> {
    let numbers: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    // The descriptor that listed the directory is among the numbers, and is closed by now.
    let open = |number: &i32| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    for number in numbers.into_iter().filter(open) {
        close_inherited(number);
    }
    rustix::process::setsid()?;
    Ok(())
}

#[expect(unsafe_code, reason = "an inherited descriptor has no owner that could be dropped")]
fn close_inherited(number: i32) {
    // SAFETY: called before this process opened anything it still holds, so no value of ours owns
    // the number.
    unsafe { rustix::io::close(number) }
}

/// Settings of the binaries' allocator, which reads them from the symbol of this name: freed memory
/// is returned to the system within a second (docs/decisions/0017-an-allocator-of-our-own.md). The
/// environment variable `_RJEM_MALLOC_CONF` overrides them.
#[cfg(feature = "jemalloc")]
#[expect(unsafe_code, reason = "the name of the symbol, and its type, are the allocator's")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 20] = b"dirty_decay_ms:1000\0";

/// Redirects standard output to `/dev/null`, so that its reader gets end of file.
///
/// # Errors
/// The error of the system.
pub fn close_stdout() -> io::Result<()> {
    let nothing = fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nothing)?)
}

/// Maximum attempts to remove a directory into which a process still writes.
const REMOVALS_MAX: usize = 1_000;

/// A private directory that is removed with its contents when dropped.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    kept: bool,
}

impl ScratchDir {
    /// Creates an empty directory, mode 0700, in the machine's directory for temporary files.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), prefix)
    }

    /// Creates an empty directory, mode 0700, in `parent`.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        let mut random = [0; 8];
        SystemEntropy.fill(&mut random);
        let name = format!("{prefix}-{:016x}", u64::from_le_bytes(random));
        let path = parent.join(name);
        drop(DataDir::open(&path)?);
        Ok(Self { path, kept: false })
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Disables the removal; returns the path.
    #[must_use]
    pub fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // A killed process may still finish a call that creates a file. Another error is not
        // reported: the rest remains in the directory for temporary files.
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir_all(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::yield_now();
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt, net::UnixStream};

    use super::*;

    #[test]
    fn a_hanging_or_verbose_command_is_killed_with_an_error_naming_it() {
        let long = Duration::from_secs(600);
        let output = run_command("printf abc", 3, long).expect("it prints that");
        assert_eq!(output.as_str(), "abc");
        for (command, time_max, expected) in [
            ("sleep 100000", Duration::from_millis(1), "sleep did not end within 0.001 s"),
            ("tail -f /dev/null", Duration::from_millis(1), "tail did not end within 0.001 s"),
            ("yes", long, "yes printed more than 3 bytes"),
            ("printf abcd", long, "printf printed more than 3 bytes"),
            ("false", long, "false ended with exit status: 1"),
            ("printf \\377", long, "printf did not print text"),
        ] {
            let error = run_command(command, 3, time_max).expect_err(command).to_string();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_socket_binds_in_a_directory_with_a_long_path_and_replaces_a_stale_one() {
        let home = tempfile::tempdir().expect("a temporary directory");
        for data_dir in [home.path().join("short"), home.path().join("long".repeat(40))] {
            drop(DataDir::open(&data_dir).expect("created"));
            let socket = OwnerSocket::new(&data_dir).expect("named");
            let stale = OwnerSocket::new(&data_dir).expect("named");
            drop(stale.bind().expect("bound"));
            let _listener = socket.bind().expect("a stale socket is replaced");
            let other = OwnerSocket::new(&data_dir).expect("named");
            UnixStream::connect(&other.path).expect("reached");
            let mode = fs::metadata(data_dir.join(SOCKET_FILE)).expect("there").permissions();
            assert_eq!(mode.mode() & 0o077, 0, "nobody else may connect");
            stale.remove().expect("another owner's socket is left alone");
            assert!(socket.is_bound_here().expect("told") && !stale.is_bound_here().expect("told"));
            socket.remove().expect("removed");
            socket.remove().expect("an absent socket is success");
        }
    }

    #[test]
    fn a_dropped_scratch_directory_is_removed() {
        let scratch = ScratchDir::new("sessionlog-test").expect("created");
        let path = scratch.path().to_path_buf();
        fs::write(path.join("file"), b"x").expect("written");
        drop(scratch);
        assert!(!path.exists());
    }
}
