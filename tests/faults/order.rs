//! The order of system calls, observed from outside: no response leaves the process before the
//! bytes it acknowledges were written to the journal and a sync of that file, started afterwards,
//! succeeded, nor before the name of a new journal file was synced. A response is a 200 with
//! events, a 201 with a session and its first events, and every line of an append stream. A tracer
//! records the calls; they are parsed here. It must not query the program.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    http::Wire,
    ledger::{self, Mark, batch},
    machine::{Need, eventually, has, text},
    served::Setup,
    trace::{Call, each},
    writers::Board,
};

/// Calls that send data.
const SENDING: &[&str] = &["write", "writev", "sendto", "sendmsg"];
/// Kinds of the responses to be judged.
const KINDS: [&str; 3] = ["events", "creation", "line"];

/// Result of analysing a trace.
#[derive(Debug, Default)]
struct Verdict {
    /// Number of acknowledged events, by the kind of response.
    answers: BTreeMap<&'static str, u64>,
    syncs: u64,
    created: u64,
    /// Kind of response, and the violation.
    violations: Vec<(&'static str, String)>,
}

/// State of a trace that is read call by call.
#[derive(Default)]
struct Oracle<'a> {
    /// File and time of the write of each event.
    written: HashMap<&'a str, (&'a str, usize)>,
    /// Events written by a call that also syncs.
    durable: HashSet<&'a str>,
    /// Start time of the last successful sync of each file.
    synced: HashMap<&'a str, usize>,
    /// Journal files created during the trace, with the time.
    created: HashMap<&'a str, usize>,
    verdict: Verdict,
}

impl<'a> Oracle<'a> {
    fn read(trace: &'a str) -> Verdict {
        let mut oracle = Self::default();
        each(trace, |call| match call.ended {
            None => oracle.call_started(call),
            Some((end, at)) => oracle.call_returned(call, end, at),
        });
        oracle.verdict
    }

    /// Processes the start of a call: a response must be correct now.
    fn call_started(&mut self, call: Call<'a>) {
        if !SENDING.contains(&call.name()) {
            return;
        }
        let sent = call.begun;
        if sent.contains("HTTP/1.1 200") {
            let marks = texts_after(sent, r#"{\"id\":\""#).filter_map(Mark::parse);
            self.judge("events", marks.collect());
        }
        if sent.contains("HTTP/1.1 201") {
            for name in texts_after(sent, r#"{\"id\":\""#) {
                self.judge("creation", batch_of(name).collect());
            }
        }
        for line in sent.split(r#"{\"type\":\"appended\""#).skip(1) {
            let request = line.split(r#"\"ref\":"#).nth(1).and_then(|rest| rest.split(',').next());
            let session = texts_after(line, r#"\"session\":\""#).next();
            let name =
                session.zip(request).map(|(session, request)| format!("{session}r{request}"));
            self.judge("line", name.iter().flat_map(|name| batch_of(name)).collect());
        }
    }

    /// Judges a response that acknowledges these events.
    fn judge(&mut self, kind: &'static str, marks: Vec<Mark>) {
        *self.verdict.answers.entry(kind).or_default() += marks.len() as u64;
        for mark in marks.iter().map(|mark| mark.name()) {
            let why = match self.written.get(&*mark) {
                None => Some("was never written to the journal".to_owned()),
                Some((file, done)) => self.unsafe_because(&mark, file, *done),
            };
            self.verdict.violations.extend(why.map(|why| (kind, format!("{mark} {why}"))));
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

    /// Processes the return of a call.
    fn call_returned(&mut self, call: Call<'a>, end: &'a str, at: usize) {
        let file = path(call.begun);
        match call.name() {
            _ if !call.succeeded() => {}
            "pwrite64" | "pwritev2" => {
                // It syncs only its own bytes.
                let durable = call.begun.contains("RWF_DSYNC") || end.contains("RWF_DSYNC");
                self.verdict.syncs += u64::from(durable);
                let marks = texts_after(call.begun, r#"\"mark\":\""#);
                for mark in marks.filter(|_| file.contains("/journal/")) {
                    self.written.insert(mark, (file, at));
                    if durable {
                        self.durable.insert(mark);
                    }
                }
            }
            "fdatasync" | "fsync" => {
                self.verdict.syncs += 1;
                self.synced.insert(file, call.since);
            }
            "openat" if call.begun.contains("O_CREAT") => {
                let file = path(call.result().unwrap_or_default());
                if file.contains("/journal/") {
                    self.verdict.created += 1;
                    self.created.insert(file, at);
                }
            }
            _ => {}
        }
    }
}

/// Returns the path in `7</path>`.
fn path(text: &str) -> &str {
    text.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(path, _)| path)
}

/// Returns the text after each `lead` up to the next backslash.
fn texts_after<'a>(text: &'a str, lead: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(lead).skip(1).filter_map(|rest| rest.split('\\').next())
}

/// Returns the marks of the request `w1r2`.
fn batch_of(name: &str) -> impl Iterator<Item = Mark> + use<> {
    let first = Mark::parse(&format!("{name}e0"));
    first.into_iter().flat_map(|first| batch(first.writer, first.request))
}

/// Creates sessions until the board stops, each with a batch of events and its name.
fn create(board: &Board, writer: u64) {
    for request in 0.. {
        let Some(address) = board.address() else { return };
        let session = format!("w{writer}r{request}");
        let first: Value = serde_json::from_str(&ledger::body(writer, request, true)).unwrap();
        let body = json!({"id": session, "initial_events": first["events"]}).to_string();
        let reply = Wire::new(address).post("/v1/sessions", &body).unwrap();
        board.with(&session, |ledger, tally| {
            ledger.sends(writer, request);
            match reply.status {
                201 => ledger.acknowledged(writer, request, 0, tally),
                _ => tally.complain(format!("no creation: {reply:?}")),
            }
        });
    }
}

/// Traces the calls of a server under load; `fault` may change them.
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
    type Client = fn(&Board, u64);
    let write: Client = |board, writer| board.write("s", writer);
    // The name of its session is that of its lines without their number.
    let stream: Client = |board, writer| board.stream(&format!("w{writer}"), writer);
    let clients = [(0, write), (2, write), (4, write), (6, stream), (8, create)];
    let clients: Vec<_> = clients
        .into_iter()
        .map(|(writer, run)| {
            let board = Arc::clone(&board);
            std::thread::spawn(move || run(&board, writer))
        })
        .collect();
    let known = |start: char| {
        let ledgers = board.ledgers.lock().unwrap();
        let those = ledgers.iter().filter(|(name, _)| name.starts_with(start));
        those.map(|(_, ledger)| ledger.acked).sum::<u64>()
    };
    let streamed = || board.with("w6", |ledger, _| ledger.acked);
    eventually("answers", || {
        let enough = known('s') > 200 && streamed() > 100 && known('w') > streamed() + 100;
        enough.then_some(())
    });
    board.stop();
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.stop();
    board.tally.lock().unwrap().assert_nothing_wrong();
    fs::read_to_string(&trace).unwrap()
}

#[test]
fn no_response_is_sent_before_its_writes_are_synced() {
    if !has("the order of syncs and answers", &[Need::Strace]) {
        return;
    }
    let trace = trace(&[]);
    let verdict = Oracle::read(&trace);
    assert_eq!(verdict.violations, []);
    let judged = KINDS.map(|kind| verdict.answers.get(kind).copied().unwrap_or(0));
    assert!(judged.iter().all(|events| *events > 50), "{verdict:?}");
    assert!(verdict.syncs > 50 && verdict.created > 1, "{verdict:?}");
    eprintln!(
        "events answered {} ({KINDS:?}: {judged:?}), syncs {}, journal files made {}, violations 0",
        judged.iter().sum::<u64>(),
        verdict.syncs,
        verdict.created
    );
}

/// A kernel or a sandbox may lack the call that writes and syncs in one, or its flag.
#[test]
fn without_a_combined_call_each_write_is_followed_by_a_sync() {
    if !has("the order of syncs and answers, apart", &[Need::Strace]) {
        return;
    }
    for error in ["ENOSYS", "EINVAL"] {
        let verdict = Oracle::read(&trace(&["-e", &format!("inject=pwritev2:error={error}")]));
        assert_eq!(verdict.violations, [], "{error}");
        assert!(verdict.syncs > 50, "{error}: {verdict:?}");
    }
}

/// The process that created the directory may have died before syncing its name.
#[test]
fn every_start_syncs_the_parent_of_its_data_directory() {
    if !has("the syncs of a start", &[Need::Strace]) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    let words = ["strace", "-f", "-qq", "-y", "-o", text(&trace), "-e", "trace=fsync"];
    let name = format!("<{}>)", text(&home.path().canonicalize().unwrap()));
    for start in 0..2 {
        Setup::new(home.path(), &home.path().join("data")).before(&words).up().stop();
        let calls = fs::read_to_string(&trace).unwrap();
        let synced = |line: &str| line.contains(&name) && line.ends_with(" = 0");
        assert!(calls.lines().any(synced), "start {start}: {calls}");
    }
}

#[test]
fn the_oracle_detects_skipped_syncs() {
    if !has("the order of syncs and answers, without syncs", &[Need::Strace]) {
        return;
    }
    for call in ["fdatasync", "fsync"] {
        let apart = "inject=pwritev2:error=EOPNOTSUPP";
        let trace = trace(&["-e", apart, "-e", &format!("inject={call}:retval=0")]);
        let verdict = Oracle::read(&trace);
        // Without syncs of files every kind of response is early; without those of names, the
        // responses before the next sync.
        let kinds = if call == "fdatasync" { &KINDS[..] } else { &KINDS[..1] };
        for kind in kinds {
            let told = verdict.violations.iter().any(|(early, _)| early == kind);
            assert!(told, "{call}: {kind}: {:?}", verdict.answers);
        }
    }
}

#[test]
fn the_oracle_distinguishes_responses_before_and_after_the_sync() {
    let write = r#"1 pwrite64(7</d/journal/0>, "\"mark\":\"w0r0e0\"", 20, 0) = 20"#;
    let both = r#"1 pwritev2(7</d/journal/0>, [{iov_base="\"mark\":\"w0r0e0\"", iov_len=20}], 1, 0, RWF_DSYNC) = 20"#;
    let sync = "1 fdatasync(7</d/journal/0>) = 0";
    let answer =
        r#"2 sendto(9<socket:[1]>, "HTTP/1.1 200 OK {\"data\":[{\"id\":\"w0r0e0\"", 9) = 9"#;
    let made = r#"2 writev(9<socket:[1]>, [{iov_base="HTTP/1.1 201 Created\r\n", iov_len=20}, {iov_base="{\"id\":\"w0r0\",\"type\":\"session\"", iov_len=9}], 2) = 9"#;
    let line = r#"2 writev(9<socket:[1]>, [{iov_base="{\"type\":\"appended\",\"line\":1,\"ref\":0,\"session\":\"w0\"", iov_len=9}], 1) = 9"#;
    let make = r#"1 openat(5</d/journal>, "0", O_RDWR|O_CREAT|O_EXCL, 0600) = 7</d/journal/0>"#;
    let name = "1 fsync(5</d/journal>) = 0";
    let (begun, ended) =
        ("1 fdatasync(7</d/journal/0> <unfinished ...>", "1 <... fdatasync resumed>) = 0");
    let cases: &[(&[&str], usize)] = &[
        (&[both, made], 0),
        (&[both, line], 0),
        (&[made, both], 1),
        (&[line, both], 1),
        (&[write, line], 1),
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
        assert_eq!(verdict.answers.values().sum::<u64>(), 1);
    }
}
