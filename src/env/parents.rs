//! The processes that may have started this one as a tool: its parent and, where that is a shell,
//! the shell's parent. A hook and a front end of one agent's program name the same process this
//! way. It must not name a process by its id alone where the system reports its start time: ids are
//! reused.

use std::{collections::BTreeSet, os::unix::process::parent_id, path::Path};

use super::files;

/// Maximum number of processes named.
const NAMED_MAX: usize = 8;
/// Maximum bytes of the system's record of a process.
const STAT_BYTES_MAX: u64 = 4 << 10;
/// Hexadecimal digits of a name.
const DIGITS: usize = 16;
/// Prefix of the name of a machine.
pub const MACHINE: &str = "machine:";
/// Programs that only run another program: they are not agents.
const RUNNERS: [&str; 14] = [
    "ash", "bash", "busybox", "dash", "env", "fish", "ksh", "mksh", "nice", "nohup", "sh",
    "stdbuf", "timeout", "zsh",
];
/// Programs that adopt orphaned processes: they are not agents.
const REAPERS: [&str; 6] = ["dumb-init", "init", "launchd", "runit", "systemd", "tini"];

/// Returns the names of the parent processes, the direct parent first. Each is a hash of the
/// machine's boot, the container, and the process with its start time, which makes it unique.
#[must_use]
pub fn parent_process_names() -> Vec<String> {
    names_around(&surroundings())
}

/// Returns the names of the parent processes, and that of this machine and container.
#[must_use]
pub fn names_with_machine() -> Vec<String> {
    let around = surroundings();
    let mut names = names_around(&around);
    names.push(machine_name(&around));
    names
}

fn names_around(around: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut next = Some(parent_id());
    while let Some(pid) = next.filter(|pid| *pid > 0 && names.len() < NAMED_MAX) {
        let process = Process::read(pid);
        // On a system without `/proc`, only the parent is named.
        let Some(process) = process else {
            if names.is_empty() {
                names.push(process_name(around, pid, ""));
            }
            break;
        };
        if REAPERS.contains(&&*process.program) {
            break;
        }
        names.push(process_name(around, pid, &process.started));
        next = RUNNERS.contains(&&*process.program).then_some(process.parent);
    }
    names
}

/// Returns the boot of the machine, and the container.
fn surroundings() -> String {
    let boot = files::read_text(Path::new("/proc/sys/kernel/random/boot_id"), STAT_BYTES_MAX);
    let container = files::identity(Path::new("/proc/self/ns/pid")).map(|found| found.file);
    format!("{} {:?}", boot.unwrap_or_default().trim(), container.ok())
}

/// Returns the name of a machine and container, which no process has.
fn machine_name(around: &str) -> String {
    format!("{MACHINE}{}", process_name(around, 0, ""))
}

/// Returns the names of all processes of this machine and container, and its own; `None` on a
/// system that does not list them.
#[must_use]
pub fn running_names() -> Option<BTreeSet<String>> {
    let around = surroundings();
    let pids = files::list(Path::new("/proc")).ok()?.into_iter();
    let pids = pids.filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    let name = |pid| Some(process_name(&around, pid, &Process::read(pid)?.started));
    let mut names: BTreeSet<String> = pids.filter_map(name).collect();
    names.insert(machine_name(&around));
    (names.len() > 1).then_some(names)
}

fn process_name(around: &str, pid: u32, started: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 name of a process");
    hasher.update(format!("{around} {pid} {started}").as_bytes());
    hasher.finalize().to_hex().chars().take(DIGITS).collect()
}

/// State of a process, as the system reports it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    program: String,
    parent: u32,
    /// Start time, in clock ticks since boot.
    started: String,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = files::read(Path::new(&format!("/proc/{pid}/stat")), STAT_BYTES_MAX).ok()?;
        Self::parse(&String::from_utf8_lossy(&stat))
    }

    /// Parses `/proc/PID/stat`: the program's name is in parentheses and may contain some.
    fn parse(stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(')')?;
        let program = head.split_once('(')?.1.to_owned();
        let mut members = rest.split_whitespace();
        let parent = members.nth(1)?.parse().ok()?;
        let started = members.nth(17)?.to_owned();
        Some(Self { program, parent, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_brackets_and_spaces_in_its_name_is_parsed() {
        let rest = "S 41 42 42 0 -1 4194560 1 0 0 0 2 1 0 0 20 0 9 0 8812345 1 2";
        for program in ["claude", "a (b) c", ") S 1", ""] {
            let expected =
                Process { program: program.to_owned(), parent: 41, started: "8812345".to_owned() };
            assert_eq!(Process::parse(&format!("7 ({program}) {rest}")), Some(expected));
        }
        for odd in ["", "7 (claude", "7 (claude) S", "7 (claude) S x 1"] {
            assert_eq!(Process::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn process_names_are_stable_and_differ_by_start_time_and_machine() {
        let first = parent_process_names();
        assert!(!first.is_empty() && first.len() <= NAMED_MAX, "{first:?}");
        assert_eq!(parent_process_names(), first);
        let running = running_names().expect("this system lists them");
        assert!(first.iter().all(|name| running.contains(name)), "{first:?}");
        let machine = machine_name(&surroundings());
        assert!(running.contains(&machine) && !first.contains(&machine));
        assert_eq!(names_with_machine(), [first.clone(), vec![machine]].concat());
        assert_ne!(
            process_name("a", 7, "1"),
            process_name("a", 7, "2"),
            "a number that is used again"
        );
        assert_ne!(
            process_name("a", 7, "1"),
            process_name("b", 7, "1"),
            "another machine or container"
        );
    }
}
