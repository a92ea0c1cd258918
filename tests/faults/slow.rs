//! A slow disk: the server serves reads, reports that it is not ready, limits every wait and its
//! memory, and continues when the disk responds. It must not lose an acknowledged event.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{self, TryRecvError},
    },
    time::Duration,
};

use super::{
    http::{Reply, Wire},
    ledger::{Ledger, Tally},
    machine::{Need, eventually, has},
    served::{Server, Setup},
    writers::{check_all, send},
};

/// Starts a server in which the syncs `which` of a thread take that many seconds.
fn delayed_server(home: &tempfile::TempDir, seconds: u64, which: &str) -> Server {
    let fault = format!("inject=fdatasync:delay_enter={}:when={which}", seconds * 1_000_000);
    let words = ["strace", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e"];
    // Written and synced by separate calls, so that the syncs are counted.
    let apart = "inject=pwritev2:error=EOPNOTSUPP";
    let calls = "trace=fdatasync,pwritev2";
    let words = [&words[..], &[calls, "-e", apart, "-e", &fault]].concat();
    Setup::new(home.path(), &home.path().join("data")).before(&words).up()
}

fn status(server: &Server, path: &str) -> (u16, String) {
    server.wire().get(path).unwrap().verdict()
}

#[test]
fn with_a_hanging_disk_readiness_fails_and_no_caller_waits_for_it() {
    if !has("a disk that is silent for 50 s", &[Need::Strace]) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let server = delayed_server(&home, 50, "7");
    let mut wire = server.wire().patient(Duration::from_secs(120));
    let (mut ledger, mut tally) = (Ledger::default(), Tally::default());
    assert_eq!(wire.post("/v1/sessions", r#"{"id":"t"}"#).unwrap().status, 201);
    // One writer after the other, until one of them blocks.
    let (answers, waits) = mpsc::channel::<(u64, Reply)>();
    let mut sent = 0;
    let stuck = loop {
        ledger.sends(0, sent);
        let (answers, address) = (answers.clone(), server.address);
        std::thread::spawn(move || {
            let mut wire = Wire::new(address).patient(Duration::from_secs(120));
            let _ = answers.send((sent, send(&mut wire, "s", 0, sent).unwrap()));
        });
        let answered =
            eventually("an answer, or a disk that gives none", || match waits.try_recv() {
                Ok(answer) => Some(Some(answer)),
                Err(_) => (status(&server, "/readyz").0 == 503).then_some(None),
            });
        let Some((request, reply)) = answered else { break sent };
        let first = reply.json()["first_position"].as_u64().unwrap();
        ledger.acknowledged(0, request, first, &mut tally);
        sent += 1;
        assert!(sent < 500, "no sync was slow");
    };
    // Other requests wait for the running sync; their result is that the outcome is unknown, in
    // every interface.
    let address = server.address;
    let tool = std::thread::spawn(move || {
        let event = r#"{"sessionId":"t","event":{"type":"a.b","n":1}}"#;
        let mut wire = Wire::new(address).patient(Duration::from_secs(120));
        wire.post("/v1/tools/emit_event", event).unwrap()
    });
    ledger.sends(2, 0);
    let told = send(&mut wire, "s", 2, 0).unwrap();
    assert_eq!(told.verdict(), (503, "outcome_unknown".to_owned()));
    assert!(told.head.contains("retry-after: "), "{}", told.head);
    assert_eq!(tool.join().unwrap().verdict(), told.verdict());
    assert!(matches!(waits.try_recv(), Err(TryRecvError::Empty)), "it waited for the disk");
    let mut reader = server.wire();
    let ready = reader.get("/readyz").unwrap();
    assert_eq!(ready.verdict(), (503, "store_read_only".to_owned()));
    assert!(ready.body.contains("has not answered"), "{}", ready.body);
    assert_eq!(status(&server, "/healthz"), (200, String::new()));
    let read = reader.get("/v1/sessions/s/events?from=0").unwrap();
    assert_eq!(read.status, 200);
    ledger.saw(0, &read.json(), ledger.tail(), &mut tally);

    // The disk responds: waiting requests are answered, a retry finds the outcome.
    let (request, reply) = waits.recv_timeout(Duration::from_secs(120)).unwrap();
    assert_eq!((request, reply.status), (stuck, 200), "{reply:?}");
    let first = reply.json()["first_position"].as_u64().unwrap();
    ledger.acknowledged(0, stuck, first, &mut tally);
    let again = eventually("an answer to the retry", || {
        send(&mut server.wire(), "s", 2, 0).ok().filter(|reply| reply.status == 200)
    });
    let first = again.json()["first_position"].as_u64().unwrap();
    ledger.acknowledged(2, 0, first, &mut tally);
    eventually("readiness", || (status(&server, "/readyz").0 == 200).then_some(()));
    let mut known = BTreeMap::from([("s".to_owned(), ledger)]);
    check_all(&mut server.wire(), &mut known, &mut tally);
    tally.assert_nothing_wrong();
}

/// Number of appends to a hanging disk, and the bytes of each.
const APPENDS: usize = 200;
const APPEND_BYTES: u64 = 3 << 20;
/// Maximum queued bytes; the append that exceeds it is still accepted.
const WAITING_BYTES_MAX: u64 = (64 << 20) + APPEND_BYTES;
/// Concurrent requests: the waiting ones, and this number being read and rejected.
const BEING_READ: u64 = 6;
const AT_ONCE: u64 = WAITING_BYTES_MAX / APPEND_BYTES + BEING_READ;
/// Maximum wait for the first response; after it all of them wait for the disk, and more arrive.
const ANSWERED_WITHIN: Duration = Duration::from_millis(300);

#[test]
fn requests_that_wait_for_a_hanging_disk_are_bounded() {
    if !has("a queue before a silent disk", &[Need::Strace]) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    // Long enough for all of them to arrive; on a busy machine fewer wait.
    let server = delayed_server(&home, 12, "4");
    let text = "x".repeat(APPEND_BYTES as usize);
    let event = Arc::new(format!(r#"{{"events":[{{"type":"a.b","text":"{text}"}}]}}"#));
    assert_eq!(server.wire().post("/v1/sessions", r#"{"id":"s"}"#).unwrap().status, 201);
    let before = server.status("VmRSS");
    let (answers, told) = mpsc::channel::<(u16, String, bool)>();
    let mut verdicts = Vec::new();
    for sent in 0..APPENDS {
        if (sent - verdicts.len()) as u64 >= AT_ONCE {
            verdicts.extend(told.recv_timeout(ANSWERED_WITHIN));
        }
        let (answers, event, address) = (answers.clone(), Arc::clone(&event), server.address);
        std::thread::spawn(move || {
            let mut wire = Wire::new(address).patient(Duration::from_secs(120));
            let Ok(reply) = wire.post("/v1/sessions/s/events", &event) else { return };
            let (status, code) = reply.verdict();
            let _ = answers.send((status, code, reply.head.contains("retry-after: ")));
        });
    }
    let early = verdicts.len();
    let peak = server.status("VmHWM");
    drop(answers);
    verdicts.extend(told.iter());
    let refused: Vec<_> = verdicts.iter().filter(|(status, ..)| *status != 200).collect();
    let grown = peak.saturating_sub(before) << 10;
    let grown_mib = grown >> 20;
    eprintln!("{APPENDS} appends of 3 MiB before a silent disk: {early} refused, {grown_mib} MiB");
    assert!(refused.iter().any(|(_, code, _)| code == "rate_limited"), "{refused:?}");
    assert!(refused.iter().all(|(_, _, later)| *later), "{refused:?}");
    assert!(verdicts.len() > refused.len(), "nothing was taken when the disk came back");
    // Bodies take 256 MiB from reading to the response, frames 64; the rest is parsed bodies.
    // Without a bound, frames would take as much again as the bodies.
    let room = (256 << 20) + WAITING_BYTES_MAX + (128 << 20);
    assert!(grown < room, "memory grew by {grown_mib} MiB of {}", room >> 20);
}
