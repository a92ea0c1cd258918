//! Fault injection at one system call after another: the process dies there, or the call fails,
//! once or persistently, or a write is short. Calls are counted per thread, as the tracer does.
//! Acknowledged events must exist after each fault. It must not judge a call that falsely reports
//! success: bytes that a write only claims to have written are lost.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    ledger::{Ledger, Tally},
    machine::{Need, has, number, pause, text},
    served::Server,
    story::{Before, Plot, REQUESTS, SESSIONS},
    trace::each,
    writers::{check_all, whole},
};

/// Calls that change the disk, by kind. Not every machine has all of them.
const CHANGING: &[(&str, &[&str])] = &[
    ("write", &["pwrite64", "pwritev2"]),
    ("sync", &["fdatasync", "fsync", "syncfs"]),
    ("open", &["openat"]),
    ("rename", &["renameat", "renameat2", "rename"]),
    ("unlink", &["unlinkat", "unlink"]),
    ("mkdir", &["mkdirat", "mkdir"]),
];

/// Errors that each call may return.
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

/// File size limits that cut writes: within a journal file, two or three of its sectors, and no
/// multiple of a sector.
const LARGEST: &[u64] = &[20_011, 33_333, 40_961, 50_003, 65_001];

/// Points of a sweep skipped between two tries, unless `SESSIONLOG_STRIDE` is set.
const STRIDE: u64 = 40;

/// Returns an `strace` command with one fault and without a log.
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

/// Calls of one run: for each name, whether the first, second, third … call of a thread succeeded
/// in every thread that made so many.
type Calls = BTreeMap<String, Vec<bool>>;

/// Returns the calls of a run of the story without faults.
fn count_calls(before: &Before) -> Calls {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    let names: Vec<&str> = CHANGING.iter().flat_map(|(_, calls)| *calls).copied().collect();
    let all = format!("trace=?{}", names.join(",?"));
    let words = ["strace", "-f", "-qq", "-o", text(&trace), "-e", &all];
    let (_copy, setup) = before.under(&words.map(str::to_owned));
    let mut known = before.known.clone();
    let mut server = setup.up();
    before.story(&mut known).tell(&mut server, before.next + REQUESTS);
    server.stop();
    let mut reached: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut calls = Calls::new();
    each(&fs::read_to_string(&trace).unwrap(), |call| {
        let number = reached.entry((call.name().to_owned(), call.thread.to_owned())).or_default();
        let outcomes = calls.entry(call.name().to_owned()).or_default();
        match call.ended {
            None => *number += 1,
            Some(_) => outcomes[*number - 1] &= call.succeeded(),
        }
        outcomes.resize(outcomes.len().max(*number), true);
    });
    calls
}

/// A call to be failed.
struct Point {
    call: String,
    fault: String,
    /// True if it changes something in a run without faults.
    succeeds: bool,
}

/// Returns every point of a sweep.
fn points(calls: &Calls, faults: &[(&str, String)]) -> Vec<Point> {
    let mut all = Vec::new();
    for (call, fault) in faults {
        let outcomes = calls.get(*call).map_or(&[][..], Vec::as_slice);
        all.extend((1..).zip(outcomes).map(|(n, succeeds)| Point {
            call: (*call).to_owned(),
            fault: fault.replace("=N", &format!("={n}")),
            succeeds: *succeeds,
        }));
    }
    all
}

/// Returns the points that this run tries.
fn sample_points(points: Vec<Point>) -> Vec<Point> {
    points.into_iter().step_by(number("SESSIONLOG_STRIDE", STRIDE) as usize).collect()
}

/// Results of crashes at one call after another.
struct Deaths<'a> {
    before: &'a Before,
    /// Number of crashes by the effect of the call; `other` if it changes nothing.
    fell: BTreeMap<&'static str, u64>,
    tried: u64,
    acked: u64,
}

impl Deaths<'_> {
    /// Kills the process at this point, if a thread reaches it, and checks every acknowledged
    /// event.
    fn at(&mut self, Point { call, fault, succeeds }: &Point) {
        let before = self.before;
        let (copy, setup) = before.under(&tracer(call, fault));
        let mut known = before.known.clone();
        let mut story = before.story(&mut known);
        let code = match setup.start() {
            Ok(mut server) => {
                story.tell(&mut server, before.next + REQUESTS);
                server.stop()
            }
            Err(ended) => ended.code,
        };
        self.tried += 1;
        // The tracer ends like its program: by the signal.
        if code.is_none() {
            *self.fell.entry(if *succeeds { call_kind(call) } else { "other" }).or_default() += 1;
        }
        let (mut tally, next) = (story.tally.clone(), story.next);
        before.judge(copy.path(), &mut known, next, &mut tally);
        self.acked += tally.acked;
        assert_eq!(tally.wrong, 0, "{call} {fault}: {:#?}", tally.complaints);
    }
}

/// Returns the kind of a call that changes the disk.
fn call_kind(call: &str) -> &'static str {
    CHANGING.iter().find(|(_, calls)| calls.contains(&call)).unwrap().0
}

/// Kills the process at one call after another, and checks every acknowledged event. It must have
/// died at calls of each of these kinds that change something.
fn crash_at_each_call(plot: Plot, kinds: &[&str]) {
    let before = Before::new(plot);
    let calls = count_calls(&before);
    let names = CHANGING.iter().flat_map(|(_, calls)| *calls);
    let faults: Vec<_> = names.map(|call| (*call, "signal=SIGKILL:when=N".to_owned())).collect();
    let mut deaths = Deaths { before: &before, fell: BTreeMap::new(), tried: 0, acked: 0 };
    let stride = number("SESSIONLOG_STRIDE", STRIDE) as usize;
    let (mut left, mut sweep) = (Vec::new(), Vec::new());
    for (at, point) in points(&calls, &faults).into_iter().enumerate() {
        if at % stride == 0 { sweep.push(point) } else { left.push(point) }
    }
    sweep.iter().for_each(|point| deaths.at(point));
    // The assignment of calls to threads varies, so a point may not be reached. The first call of
    // some thread always is: it comes last.
    for wanted in kinds {
        while !deaths.fell.contains_key(wanted) {
            let of_kind = |point: &Point| point.succeeds && call_kind(&point.call) == *wanted;
            let places: Vec<usize> = (0..left.len()).filter(|at| of_kind(&left[*at])).collect();
            let Some(at) = places.get(places.len() / 2) else {
                panic!("{plot:?}: no death at a {wanted} that does something: {:?}", deaths.fell);
            };
            deaths.at(&left.remove(*at));
        }
    }
    let Deaths { fell, tried, acked, .. } = deaths;
    let died = fell.values().sum::<u64>();
    assert!(died * 4 > tried, "{died} of {tried} faults fell: {calls:?}");
    eprintln!("{plot:?}: points {tried}, deaths {died}, acknowledged {acked}, lost 0, {fell:?}");
}

#[test]
fn a_crash_at_any_system_call_keeps_every_acknowledged_event() {
    if has("death at every system call", &[Need::Strace]) {
        crash_at_each_call(Plot::Appends, &["write", "sync", "open", "rename", "unlink"]);
    }
}

#[test]
fn a_crash_while_a_store_is_created_leaves_a_store_that_starts() {
    if has("death at every system call of making a store", &[Need::Strace]) {
        crash_at_each_call(Plot::Creation, &["write", "sync", "open", "rename", "mkdir"]);
    }
}

#[test]
fn a_crash_during_redaction_and_key_rotation_undoes_no_acknowledged_request() {
    if has("death at every system call of redactions and rotations", &[Need::Strace]) {
        let kinds = ["write", "sync", "open", "rename", "unlink"];
        crash_at_each_call(Plot::Redactions, &kinds);
        crash_at_each_call(Plot::Rotation, &kinds);
    }
}

#[test]
fn a_failed_system_call_returns_an_error_code_and_keeps_every_event() {
    if !has("every system call fails once and for good", &[Need::Strace]) {
        return;
    }
    let before = Before::new(Plot::Appends);
    let calls = count_calls(&before);
    let mut faults = Vec::new();
    for (call, errors) in FAILING {
        for error in *errors {
            faults.push((*call, format!("{error}:when=N")));
            faults.push((*call, format!("{error}:when=N+")));
        }
    }
    let (mut refused, mut unstarted, mut acked) = (0, 0, 0);
    let points = sample_points(points(&calls, &faults));
    for Point { call, fault, .. } in &points {
        let (copy, setup) = before.under(&tracer(call, fault));
        let mut known = before.known.clone();
        let mut tally = Tally::default();
        let mut next = before.next;
        match setup.start() {
            Ok(server) => {
                (next, refused) = run_with_faults(server, &before, &mut known, refused, &mut tally);
            }
            Err(ended) => {
                assert!(!ended.err.contains("strace:"), "{ended:?}");
                unstarted += 1;
            }
        }
        before.judge(copy.path(), &mut known, next, &mut tally);
        acked += tally.acked;
        assert_eq!(tally.wrong, 0, "{call} {fault}: {:#?}", tally.complaints);
    }
    assert!(refused > 0, "no fault was felt: {calls:?}");
    let tried = points.len();
    eprintln!(
        "points {tried}, refusals {refused}, starts refused {unstarted}, acknowledged {acked}, lost 0"
    );
}

#[test]
fn a_short_write_returns_an_error_code_and_keeps_every_event() {
    if !has("writes end half way", &[Need::Strace, Need::Tool("prlimit")]) {
        return;
    }
    let before = Before::new(Plot::Appends);
    let (mut short, mut refused, mut acked) = (0, 0, 0);
    for bytes in LARGEST {
        let home = tempfile::tempdir().unwrap();
        let trace = home.path().join("trace");
        // A write across the size limit ends at it; the next byte is rejected.
        let limit = format!("--fsize={bytes}");
        let words = ["strace", "-f", "-qq", "-s", "0", "-o", text(&trace)];
        let words = [&words[..], &["-e", "trace=pwrite64,pwritev2", "prlimit", &limit]].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let (copy, setup) = before.under(&words);
        let mut known = before.known.clone();
        let mut tally = Tally::default();
        let mut next = before.next;
        if let Ok(server) = setup.start() {
            (next, refused) = run_with_faults(server, &before, &mut known, refused, &mut tally);
        }
        each(&fs::read_to_string(&trace).unwrap(), |call| {
            short += u64::from(call.is_short_write())
        });
        before.judge(copy.path(), &mut known, next, &mut tally);
        acked += tally.acked;
        assert_eq!(tally.wrong, 0, "files of {bytes} bytes: {:#?}", tally.complaints);
    }
    assert!(short > 0 && refused > 0, "{short} writes were cut, {refused} requests refused");
    eprintln!("writes cut short {short}, refusals {refused}, acknowledged {acked}, lost 0");
}

/// Runs the story on a server whose calls fail, then its reads, then kills it.
fn run_with_faults(
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
        // A read while calls fail is correct, or rejected as a whole.
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

/// A tracer attached to a running server; it detaches when dropped.
struct Attached {
    tracer: Child,
    trace: PathBuf,
}

impl Attached {
    /// Attaches to a running server, logging the changed calls to `trace`; `None` when it is not
    /// attached in time, as on a busy machine.
    fn to(server: &Server, call: &str, fault: &str, trace: PathBuf) -> Option<Self> {
        let tracer = Command::new("strace")
            .args(["-f", "-qq", "-o", text(&trace), "-e", &format!("trace={call}")])
            .args(["-e", &format!("inject={call}:{fault}"), "-p", &server.pid.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let traced = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n")
        };
        // A thread that starts during the attach may remain untraced.
        let attached = Self { tracer, trace };
        let come = (0..3000).any(|_| {
            pause(Duration::from_millis(10));
            let tasks = fs::read_dir(format!("/proc/{}/task", server.pid)).unwrap();
            let tasks: Vec<bool> = tasks.flatten().map(traced).collect();
            tasks.iter().filter(|traced| **traced).count() * 4 > tasks.len() * 3
        });
        come.then_some(attached)
    }

    /// Returns the number of calls it changed.
    fn injected(&self) -> u64 {
        let trace = fs::read_to_string(&self.trace).unwrap();
        trace.lines().filter(|line| line.ends_with("(INJECTED)")).count() as u64
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.tracer);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.tracer.wait();
    }
}

#[test]
fn a_failed_open_returns_an_error_code_until_files_can_be_opened() {
    if !has("opening fails on a running server", &[Need::Strace, Need::Attach]) {
        return;
    }
    let before = Before::new(Plot::Appends);
    // Directories and new files are opened by one call, existing files by the other.
    const OPENS: &str = "openat,openat2";
    let calls = Calls::from([(OPENS.to_owned(), vec![true; 12])]);
    let from_then_on = UNOPENED.iter().map(|error| (OPENS, format!("{error}:when=N+")));
    let once = UNOPENED.iter().map(|error| (OPENS, format!("{error}:when=N")));
    let points = sample_points(points(&calls, &from_then_on.chain(once).collect::<Vec<_>>()));
    let (mut tried, mut injected, mut refused) = (0, 0, 0);
    for Point { call, fault, .. } in &points {
        let (copy, setup) = before.under(&[]);
        let mut server = setup.up();
        let mut known = before.known.clone();
        let mut story = before.story(&mut known);
        let trace = copy.path().join("trace");
        let Some(attached) = Attached::to(&server, call, fault, trace) else { continue };
        tried += 1;
        story.tell(&mut server, before.next + 2 * REQUESTS);
        injected += attached.injected();
        refused += story.refused.len();
        drop(attached);
        // The same process continues once files can be opened again.
        let goal = story.next + 3;
        story.tell(&mut server, goal);
        assert_eq!(story.next, goal, "{call} {fault} does not heal: {:?}", story.refused);
        let (mut tally, next) = (story.tally.clone(), story.next);
        check_all(&mut server.wire(), &mut known, &mut tally);
        server.kill();
        before.judge(copy.path(), &mut known, next, &mut tally);
        assert_eq!(tally.wrong, 0, "{call} {fault}: {:#?}", tally.complaints);
    }
    assert!(tried > 0, "the tracer never came");
    assert!(injected > 0 && refused > 0, "{injected} opens failed, {refused} requests refused");
    eprintln!(
        "points {tried} of files that do not open, opens failed {injected}, refusals {refused}, wrong 0"
    );
}

#[test]
fn a_failed_device_accepts_writes_again_without_a_restart() {
    if !has("writes fail on a running server", &[Need::Strace, Need::Attach]) {
        return;
    }
    let before = Before::new(Plot::Appends);
    let (copy, setup) = before.under(&[]);
    let mut server = setup.up();
    let mut known = before.known.clone();
    let mut story = before.story(&mut known);
    let trace = copy.path().join("trace");
    // Each write with sync fails: two in a row make the store read-only.
    let Some(attached) = Attached::to(&server, "pwritev2", "error=EIO", trace) else { return };
    story.tell(&mut server, before.next + 4 * REQUESTS);
    assert!(attached.injected() >= 2 && !story.refused.is_empty(), "{:?}", story.refused);
    drop(attached);
    let goal = story.next + 3;
    // The disk is retried five seconds after the failure, and then at growing intervals.
    let healed = (0..60).any(|_| {
        pause(Duration::from_secs(1));
        story.tell(&mut server, goal);
        story.next >= goal
    });
    assert!(healed, "the store stays read-only: {:?}", story.refused.last());
    let (mut tally, next) = (story.tally.clone(), story.next);
    check_all(&mut server.wire(), &mut known, &mut tally);
    server.kill();
    before.judge(copy.path(), &mut known, next, &mut tally);
    assert_eq!(tally.wrong, 0, "{:#?}", tally.complaints);
}
