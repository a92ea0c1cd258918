//! The order of things, seen from outside: no answer leaves the process before the bytes it
//! acknowledges were written to the journal and a sync of that file, begun afterwards, succeeded,
//! nor before the name of a new journal file was synced. A tracer writes the calls down; here they
//! are read. It must not ask the program.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    sync::Arc,
};

use super::{
    machine::{Need, eventually, has, text},
    served::Setup,
    writers::Board,
};

/// What a trace says.
#[derive(Debug, Default)]
struct Verdict {
    answers: u64,
    syncs: u64,
    created: u64,
    violations: Vec<String>,
}

/// A trace read line by line.
#[derive(Default)]
struct Oracle<'a> {
    /// Where each event was written, and when that was done.
    written: HashMap<&'a str, (&'a str, usize)>,
    /// Events written by a call that syncs what it writes.
    durable: HashSet<&'a str>,
    /// When the last successful sync of a file began.
    synced: HashMap<&'a str, usize>,
    /// Journal files made during the trace, and when.
    created: HashMap<&'a str, usize>,
    /// Calls that have not returned: by thread, what they began with and when.
    open: BTreeMap<&'a str, (&'a str, usize)>,
    verdict: Verdict,
}

impl<'a> Oracle<'a> {
    fn read(trace: &'a str) -> Verdict {
        let mut oracle = Self::default();
        for (at, line) in trace.lines().enumerate() {
            let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
            let rest = rest.trim_start();
            if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
                oracle.begins(begun, at);
                oracle.open.insert(thread, (begun, at));
            } else if let Some(end) = rest.strip_prefix("<... ") {
                if let Some((begun, since)) = oracle.open.remove(thread) {
                    oracle.ends(begun, end, since, at);
                }
            } else {
                oracle.begins(rest, at);
                oracle.ends(rest, rest, at, at);
            }
        }
        oracle.verdict
    }

    /// A call that begins: an answer must be right now.
    fn begins(&mut self, call: &'a str, _at: usize) {
        if !["write(", "writev(", "sendto(", "sendmsg("].iter().any(|name| call.starts_with(name))
            || !call.contains("HTTP/1.1 200")
        {
            return;
        }
        for mark in after(call, r#"{\"id\":\""#).filter(|mark| mark.starts_with('w')) {
            self.verdict.answers += 1;
            let why = match self.written.get(mark) {
                None => Some("was never written to the journal".to_owned()),
                Some((file, done)) => self.unsafe_because(mark, file, *done),
            };
            self.verdict.violations.extend(why.map(|why| format!("{mark} {why}")));
        }
    }

    fn unsafe_because(&self, mark: &str, file: &str, done: usize) -> Option<String> {
        let synced = self.synced.get(file).is_some_and(|began| *began >= done);
        if !synced && !self.durable.contains(mark) {
            return Some(format!("was answered before {file} was synced"));
        }
        let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
        let unnamed = |made: &usize| self.synced.get(directory).is_none_or(|began| began < made);
        let unnamed = self.created.get(file).is_some_and(unnamed);
        unnamed.then(|| format!("was answered before the name of {file} was synced"))
    }

    /// A call that returned.
    fn ends(&mut self, call: &'a str, end: &'a str, since: usize, at: usize) {
        let Some((_, result)) = end.rsplit_once(" = ") else { return };
        let failed = result.starts_with('-') || result.contains("(INJECTED)");
        let file = path(call);
        if failed {
        } else if call.starts_with("pwrite64(") || call.starts_with("pwritev2(") {
            // It syncs what it wrote itself, and nothing else.
            let durable = call.contains("RWF_DSYNC") || end.contains("RWF_DSYNC");
            self.verdict.syncs += u64::from(durable);
            for mark in after(call, r#"\"mark\":\""#).filter(|_| file.contains("/journal/")) {
                self.written.insert(mark, (file, at));
                if durable {
                    self.durable.insert(mark);
                }
            }
        } else if call.starts_with("fdatasync(") || call.starts_with("fsync(") {
            self.verdict.syncs += 1;
            self.synced.insert(file, since);
        } else if call.starts_with("openat(") && call.contains("O_CREAT") {
            let file = path(result);
            if file.contains("/journal/") {
                self.verdict.created += 1;
                self.created.insert(file, at);
            }
        }
    }
}

/// The path in `7</path>`.
fn path(text: &str) -> &str {
    text.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(path, _)| path)
}

/// What follows each `lead` up to the next backslash.
fn after<'a>(text: &'a str, lead: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(lead).skip(1).filter_map(|rest| rest.split('\\').next())
}

/// The calls of a server under load; `fault` may change them.
fn trace(fault: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    let calls = "trace=pwrite64,pwritev2,fdatasync,fsync,openat,write,writev,sendto,sendmsg";
    let mut words = vec!["strace", "-f", "-qq", "-y", "-s", "200000", "-o", text(&trace)];
    words.extend(["-e", calls]);
    words.extend(fault);
    let setup = Setup::new(home.path(), &home.path().join("data")).small().before(&words);
    let mut server = setup.up();
    let board = Arc::new(Board::default());
    board.move_to(Some(server.address));
    let writers: Vec<_> = [0, 2, 4, 6]
        .into_iter()
        .map(|writer| {
            let board = Arc::clone(&board);
            std::thread::spawn(move || board.write("s", writer))
        })
        .collect();
    eventually("answers", || (board.tally.lock().unwrap().acked > 300).then_some(()));
    board.stop();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    server.stop();
    fs::read_to_string(&trace).unwrap()
}

#[test]
fn no_answer_leaves_before_what_it_acknowledges_is_synced() {
    if !has("the order of syncs and answers", &[Need::Strace]) {
        return;
    }
    let trace = trace(&[]);
    let verdict = Oracle::read(&trace);
    assert_eq!(verdict.violations, Vec::<String>::new());
    assert!(verdict.answers > 200 && verdict.syncs > 50 && verdict.created > 1, "{verdict:?}");
    eprintln!(
        "events answered {}, syncs {}, journal files made {}, violations 0",
        verdict.answers, verdict.syncs, verdict.created
    );
}

#[test]
fn the_oracle_sees_syncs_that_do_not_happen() {
    if !has("the order of syncs and answers, without syncs", &[Need::Strace]) {
        return;
    }
    for call in ["fdatasync", "fsync"] {
        let apart = "inject=pwritev2:error=EOPNOTSUPP";
        let trace = trace(&["-e", apart, "-e", &format!("inject={call}:retval=0")]);
        let verdict = Oracle::read(&trace);
        assert!(!verdict.violations.is_empty(), "{call}: {verdict:?}");
    }
}

#[test]
fn the_oracle_tells_early_answers_from_safe_ones() {
    let write = r#"1 pwrite64(7</d/journal/0>, "\"mark\":\"w0r0e0\"", 20, 0) = 20"#;
    let both = r#"1 pwritev2(7</d/journal/0>, [{iov_base="\"mark\":\"w0r0e0\"", iov_len=20}], 1, 0, RWF_DSYNC) = 20"#;
    let sync = "1 fdatasync(7</d/journal/0>) = 0";
    let answer =
        r#"2 sendto(9<socket:[1]>, "HTTP/1.1 200 OK {\"data\":[{\"id\":\"w0r0e0\"", 9) = 9"#;
    let make = r#"1 openat(5</d/journal>, "0", O_RDWR|O_CREAT|O_EXCL, 0600) = 7</d/journal/0>"#;
    let name = "1 fsync(5</d/journal>) = 0";
    let (begun, ended) =
        ("1 fdatasync(7</d/journal/0> <unfinished ...>", "1 <... fdatasync resumed>) = 0");
    let cases: &[(&[&str], usize)] = &[
        (&[make, name, write, sync, answer], 0),
        (&[write, begun, ended, answer], 0),
        (&[make, name, both, answer], 0),
        (&[make, both, answer], 1),
        (&[answer, both], 1),
        (&[write, "1 pwritev2(7</d/journal/0>, [], 1, 64, RWF_DSYNC) = 64", answer], 1),
        (&[make, write, sync, answer], 1),
        (&[write, answer, sync], 1),
        (&[sync, write, answer], 1),
        (&[write, begun, answer, ended], 1),
        (&[begun, write, ended, answer], 1),
        (&[write, "1 fdatasync(7</d/journal/0>) = -1 EIO (Input/output error)", answer], 1),
        (&[write, "1 fdatasync(7</d/journal/0>) = 0 (INJECTED)", answer], 1),
        (&[write, "1 fdatasync(8</d/journal/1>) = 0", answer], 1),
        (&[answer], 1),
    ];
    for (lines, expected) in cases {
        let trace = lines.join("\n");
        let verdict = Oracle::read(&trace);
        assert_eq!(verdict.violations.len(), *expected, "{trace}\n{verdict:?}");
        assert_eq!(verdict.answers, 1);
    }
}
