//! One system call after another is the one that does not happen: the process dies there, or the
//! call fails, once or from then on. Points are counted for each thread on its own, as the tracer
//! does. What was acknowledged must be there after each. It must not judge what a call that lies
//! leaves: nobody can keep what a write only claims to have written.

use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    ledger::{Ledger, Tally},
    machine::{Need, has, number, pause, text},
    served::Server,
    story::{Before, Plot, REQUESTS, SESSIONS},
    writers::{check_all, whole},
};

/// Calls that change what is on disk.
const CHANGING: &[&str] = &[
    "pwrite64",
    "pwritev2",
    "fdatasync",
    "fsync",
    "syncfs",
    "openat",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdirat",
];

/// Errors each call may give, and short writes.
const FAILING: &[(&str, &[&str])] = &[
    ("pwrite64", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EFBIG"]),
    ("pwritev2", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EFBIG"]),
    ("fdatasync", &["error=EIO", "error=ENOSPC", "error=EDQUOT"]),
    ("fsync", &["error=EIO"]),
    ("syncfs", &["error=EIO"]),
    ("renameat", &["error=EIO", "error=ENOSPC", "error=EROFS"]),
    ("unlinkat", &["error=EIO", "error=EROFS"]),
    ("mkdirat", &["error=ENOSPC"]),
];
/// Errors of opening, injected once the server listens: before, the loader opens libraries.
const UNOPENED: &[&str] =
    &["error=EMFILE", "error=ENFILE", "error=EIO", "error=ENOSPC", "error=EROFS"];

/// Points of a sweep left out between two that are tried, unless `SESSIONLOG_STRIDE` says.
const STRIDE: u64 = 40;

/// `strace` with one fault, writing nothing down.
fn tracer(call: &str, fault: &str) -> Vec<String> {
    let words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e"];
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if !fault.starts_with("signal") {
        // Faster, but an injected signal does not arrive this way.
        words.insert(1, "--seccomp-bpf".to_owned());
    }
    words.extend([format!("trace={call}"), "-e".to_owned(), format!("inject={call}:{fault}")]);
    words
}

/// How often the busiest thread made each of the calls in one run of the story.
fn counted(before: &Before) -> BTreeMap<String, u64> {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    let all = format!("trace={}", CHANGING.join(","));
    let words = ["strace", "-f", "-qq", "-o", text(&trace), "-e", &all];
    let (_copy, setup) = before.under(&words.map(str::to_owned));
    let mut known = before.known.clone();
    let mut server = setup.up();
    before.story(&mut known).tell(&mut server, before.next + REQUESTS);
    server.stop();
    let mut calls: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in fs::read_to_string(&trace).unwrap().lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        *calls.entry((call.to_owned(), thread.to_owned())).or_default() += 1;
    }
    let mut most = BTreeMap::new();
    for ((call, _), count) in calls {
        let entry = most.entry(call).or_insert(0);
        *entry = count.max(*entry);
    }
    most
}

/// Every point of a sweep that this run tries.
fn points(most: &BTreeMap<String, u64>, faults: &[(&str, String)]) -> Vec<(String, String)> {
    let stride = number("SESSIONLOG_STRIDE", STRIDE);
    let mut all = Vec::new();
    for (call, fault) in faults {
        let count = most.get(*call).copied().unwrap_or(0);
        all.extend((1..=count).map(|n| ((*call).to_owned(), fault.replace('N', &n.to_string()))));
    }
    all.into_iter().step_by(stride as usize).collect()
}

/// The process dies at one call after another; what it answered stands, and is counted.
fn dies_anywhere(plot: Plot) {
    let before = Before::new(plot);
    let most = counted(&before);
    let faults: Vec<_> =
        CHANGING.iter().map(|call| (*call, "signal=SIGKILL:when=N".to_owned())).collect();
    let (mut deaths, mut acked) = (0, 0);
    let points = points(&most, &faults);
    for (call, fault) in &points {
        let (copy, setup) = before.under(&tracer(call, fault));
        let mut known = before.known.clone();
        let mut story = before.story(&mut known);
        match setup.start() {
            Ok(mut server) => {
                story.tell(&mut server, before.next + REQUESTS);
                deaths += u64::from(server.stop().is_none_or(|code| code != 0));
            }
            Err(_) => deaths += 1,
        }
        let (mut tally, next) = (story.tally.clone(), story.next);
        before.judge(copy.path(), &mut known, next, &mut tally);
        acked += tally.acked;
        assert_eq!(tally.wrong, 0, "{plot:?} {call} {fault}: {:#?}", tally.complaints);
    }
    let tried = points.len() as u64;
    assert!(deaths * 4 > tried, "{deaths} of {tried} faults fell: {most:?}");
    eprintln!("{plot:?}: points {tried}, deaths {deaths}, acknowledged {acked}, lost 0");
}

#[test]
fn a_process_that_dies_at_any_call_loses_nothing_acknowledged() {
    if has("death at every system call", &[Need::Strace]) {
        dies_anywhere(Plot::Appends);
    }
}

#[test]
fn a_process_that_dies_while_bodies_go_and_keys_change_takes_nothing_back() {
    if has("death at every system call of redactions and rotations", &[Need::Strace]) {
        dies_anywhere(Plot::Redactions);
        dies_anywhere(Plot::Rotation);
    }
}

#[test]
fn a_call_that_fails_is_told_by_name_and_loses_nothing() {
    if !has("every system call fails once and for good", &[Need::Strace]) {
        return;
    }
    let before = Before::new(Plot::Appends);
    let most = counted(&before);
    let mut faults = Vec::new();
    for (call, errors) in FAILING {
        for error in *errors {
            faults.push((*call, format!("{error}:when=N")));
            faults.push((*call, format!("{error}:when=N+")));
        }
    }
    let (mut refused, mut acked) = (0, 0);
    let points = points(&most, &faults);
    for (call, fault) in &points {
        let (copy, setup) = before.under(&tracer(call, fault));
        let mut known = before.known.clone();
        let mut tally = Tally::default();
        let mut next = before.next;
        if let Ok(server) = setup.start() {
            (next, refused) = endure(server, &before, &mut known, refused, &mut tally);
        }
        before.judge(copy.path(), &mut known, next, &mut tally);
        acked += tally.acked;
        assert_eq!(tally.wrong, 0, "{call} {fault}: {:#?}", tally.complaints);
    }
    assert!(refused > 0, "no fault was felt: {most:?}");
    eprintln!("points {}, refusals {refused}, acknowledged {acked}, lost 0", points.len());
}

/// The story on a server whose calls fail, then its reads, then its death.
fn endure(
    mut server: Server,
    before: &Before,
    known: &mut BTreeMap<String, Ledger>,
    refused: u64,
    tally: &mut Tally,
) -> (u64, u64) {
    let mut story = before.story(known);
    story.tell(&mut server, before.next + REQUESTS);
    let (next, refused) = (story.next, refused + story.refused.len() as u64);
    tally.add(&story.tally);
    if !server.is_alive() {
        tally.complain(format!("the server ended: {}", server.said()));
        return (next, refused);
    }
    for session in SESSIONS {
        // What is read while calls fail is right, or refused as a whole.
        let mut wire = server.wire();
        match whole(&mut wire, session) {
            Ok(slices) if !slices.is_empty() => {
                known.entry(session.to_owned()).or_default().check(&slices, tally);
            }
            Ok(_) => tally.complain(format!("{session} is unknown")),
            Err(why) if why.contains("store_read_only") || why.contains("retryable\":true") => {}
            Err(why) => tally.complain(why),
        }
    }
    server.kill();
    (next, refused)
}

/// A tracer that came after the server's start; it leaves when dropped.
struct Attached(Child);

impl Attached {
    /// Comes to a running server; `None` when it does not come soon, as on a busy machine.
    fn to(server: &Server, call: &str, fault: &str) -> Option<Self> {
        let words = tracer(call, fault);
        let child = Command::new(&words[0])
            .args(words[1..].iter().filter(|word| *word != "--seccomp-bpf"))
            .args(["-p", &server.pid.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let traced = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n")
        };
        // A thread that is born while the tracer comes may stay without it.
        let attached = Self(child);
        let come = (0..500).any(|_| {
            pause(Duration::from_millis(10));
            let tasks = fs::read_dir(format!("/proc/{}/task", server.pid)).unwrap();
            let tasks: Vec<bool> = tasks.flatten().map(traced).collect();
            tasks.iter().filter(|traced| **traced).count() * 4 > tasks.len() * 3
        });
        come.then_some(attached)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn files_that_cannot_be_opened_are_told_by_name_and_heal() {
    if !has("opening fails on a running server", &[Need::Strace, Need::Attach]) {
        return;
    }
    let before = Before::new(Plot::Appends);
    let most = BTreeMap::from([("openat".to_owned(), 12)]);
    let faults: Vec<_> = UNOPENED
        .iter()
        .flat_map(|e| [("openat", format!("{e}:when=N")), ("openat", format!("{e}:when=N+"))])
        .collect();
    let mut tried = 0;
    for (call, fault) in &points(&most, &faults) {
        let (copy, setup) = before.under(&[]);
        let mut server = setup.up();
        let mut known = before.known.clone();
        let mut story = before.story(&mut known);
        let Some(attached) = Attached::to(&server, call, fault) else { continue };
        tried += 1;
        story.tell(&mut server, before.next + REQUESTS);
        drop(attached);
        // The same process goes on once files open again.
        let goal = story.next + 3;
        story.tell(&mut server, goal);
        assert_eq!(story.next, goal, "{call} {fault} does not heal: {:?}", story.refused);
        let (mut tally, next) = (story.tally.clone(), story.next);
        check_all(&mut server.wire(), &mut known, &mut tally);
        server.kill();
        before.judge(copy.path(), &mut known, next, &mut tally);
        assert_eq!(tally.wrong, 0, "{call} {fault}: {:#?}", tally.complaints);
    }
    match tried {
        0 => eprintln!("SKIPPED: opening fails on a running server: the tracer never came"),
        points => eprintln!("points {points} of files that do not open, wrong 0"),
    }
}
