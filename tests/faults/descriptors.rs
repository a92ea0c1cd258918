//! Limits of the process: exhausted file descriptors, a maximum file size. Errors name the cause,
//! and stop without a restart when the resource is available again.

use std::{collections::BTreeMap, io::Write as _, net::TcpStream, sync::mpsc, time::Duration};

use super::{
    http::Wire,
    ledger::{Ledger, Tally},
    machine::{eventually, pause},
    served::{Server, Setup},
    writers::{check_all, send},
};

/// File descriptors that the server may open.
const DESCRIPTORS: usize = 40;
/// Number of requests after which one has needed a new descriptor.
const FULL: u64 = 400;

/// Returns true for a typed error of an exhausted resource.
fn is_typed(verdict: &(u16, String)) -> bool {
    let known = [
        (429, "limit_reached"),
        (503, "store_read_only"),
        (503, "outcome_unknown"),
        (507, "disk_full"),
    ];
    known.contains(&(verdict.0, &*verdict.1))
}

/// Sends requests of one writer up to number `to`, retrying each while it is rejected; returns the
/// rejections.
fn send_requests(
    server: &Server,
    ledger: &mut Ledger,
    numbers: std::ops::Range<u64>,
    tries: usize,
) -> Vec<(u16, String)> {
    let mut wire = server.wire().patient(Duration::from_secs(10));
    let mut tally = Tally::default();
    let mut refused = Vec::new();
    for request in numbers {
        ledger.sends(0, request);
        for _ in 0..tries {
            let Ok(reply) = send(&mut wire, "s", 0, request) else { continue };
            if reply.status == 200 {
                let first = reply.json()["first_position"].as_u64().unwrap();
                ledger.acknowledged(0, request, first, &mut tally);
                break;
            }
            refused.push(reply.verdict());
        }
    }
    tally.assert_nothing_wrong();
    refused
}

#[test]
fn requests_without_a_free_file_descriptor_return_an_error_code() {
    let home = tempfile::tempdir().unwrap();
    let limit = format!("ulimit -n {DESCRIPTORS}; exec \"$@\"");
    let limited = ["sh", "-c", &limit, "sh"];
    let setup = Setup::new(home.path(), &home.path().join("data")).small().before(&limited);
    let mut server = setup.up();
    let mut ledger = Ledger::default();
    assert_eq!(send_requests(&server, &mut ledger, 0..10, 1), []);

    // More streams than descriptors, after our own connection, until none is free.
    let mut wire = server.wire().patient(Duration::from_secs(30));
    assert_eq!(wire.get("/healthz").unwrap().status, 200);
    let stream = || {
        let mut wire = TcpStream::connect(server.address).ok()?;
        let head = "GET /v1/sessions/s/events/stream HTTP/1.1\r\nhost: localhost\r\n\r\n";
        wire.write_all(head.as_bytes()).ok()?;
        Some(wire)
    };
    let streams: Vec<TcpStream> = (0..60).map_while(|_| stream()).collect();
    eventually("the last descriptor", || (server.descriptors() >= DESCRIPTORS - 1).then_some(()));
    // A connection made now is accepted once a descriptor is free, not before.
    let (tell, told) = mpsc::channel();
    let address = server.address;
    std::thread::spawn(move || {
        let mut late = Wire::new(address).patient(Duration::from_secs(120));
        tell.send(late.get("/healthz").map(|reply| reply.status))
    });
    let mut verdicts = Vec::new();
    let mut tally = Tally::default();
    for request in 10..FULL {
        ledger.sends(0, request);
        let reply =
            send(&mut wire, "s", 0, request).expect("a connection that is open is answered");
        if reply.status != 200 {
            verdicts.push(reply.verdict());
            break;
        }
        let first = reply.json()["first_position"].as_u64().unwrap();
        ledger.acknowledged(0, request, first, &mut tally);
    }
    assert!(!verdicts.is_empty(), "no request met the limit: {tally:?}");
    assert!(verdicts.iter().all(is_typed), "{verdicts:?}");
    // At once: a crowded server closes connections that are quiet for a second.
    let read = wire.get("/v1/sessions/s/events?limit=5").unwrap();
    assert!(read.status == 200 || is_typed(&read.verdict()), "{read:?}");
    let waits = told.recv_timeout(Duration::from_secs(1));
    assert!(waits.is_err(), "a connection had a descriptor: {waits:?}");
    assert!(server.descriptors() >= DESCRIPTORS - 1, "descriptors were there all the time");
    drop(streams);

    let late = told.recv_timeout(Duration::from_secs(120)).expect("an answer to who waited");
    assert_eq!(late.unwrap(), 200);
    eventually("connections", || server.wire().get("/readyz").ok().filter(|r| r.status == 200));
    let refused = send_requests(&server, &mut ledger, FULL..FULL + 60, 20);
    assert!(refused.iter().all(is_typed), "{refused:?}");
    let mut known = BTreeMap::from([("s".to_owned(), ledger)]);
    check_all(&mut server.wire(), &mut known, &mut tally);
    server.kill();
    check_all(&mut setup.up().wire(), &mut known, &mut tally);
    tally.assert_nothing_wrong();
}

#[test]
fn thousands_of_sessions_do_not_hold_a_file_descriptor_each() {
    const SESSIONS: usize = 2_000;
    let home = tempfile::tempdir().unwrap();
    let limited = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];
    let setup = Setup::new(home.path(), &home.path().join("data")).small().before(&limited);
    let mut known: BTreeMap<String, Ledger> = BTreeMap::new();
    let mut tally = Tally::default();
    // Written, flushed and read by two processes, with as many sessions in each round.
    for request in 0..2 {
        let mut server = setup.up();
        let mut wire = server.wire();
        for n in 0..SESSIONS {
            let session = format!("s{n}");
            let ledger = known.entry(session.clone()).or_default();
            ledger.sends(0, request);
            let reply = send(&mut wire, &session, 0, request).unwrap();
            assert_eq!(reply.status, 200, "{session}: {reply:?}");
            let first = reply.json()["first_position"].as_u64().unwrap();
            ledger.acknowledged(0, request, first, &mut tally);
        }
        check_all(&mut server.wire(), &mut known, &mut tally);
        let said = server.said();
        assert_eq!(said, "", "nothing to warn of");
        server.kill();
    }
    check_all(&mut setup.up().wire(), &mut known, &mut tally);
    tally.assert_nothing_wrong();
    eprintln!("sessions under 64 descriptors {SESSIONS}, acknowledged {}", tally.acked);
}

#[test]
fn a_file_size_limit_returns_disk_full_and_the_server_survives() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    // In blocks of 512 bytes: less than a journal file.
    let limited = ["sh", "-c", "ulimit -f 96; exec \"$@\"", "sh"];
    let setup = Setup::new(home.path(), &data).small();
    let mut server = setup.clone().before(&limited).up();
    let mut ledger = Ledger::default();
    let refused = send_requests(&server, &mut ledger, 0..3, 1);
    assert_eq!(refused, vec![(507, "disk_full".to_owned()); 3], "{}", server.said());
    assert!(server.is_alive());
    assert_eq!(server.wire().get("/healthz").unwrap().status, 200);
    server.kill();

    // Without the limit it accepts writes; with it, reads still work.
    let mut server = setup.up();
    assert_eq!(send_requests(&server, &mut ledger, 3..30, 1), []);
    pause(Duration::from_millis(50));
    server.kill();
    let server = setup.before(&limited).up();
    let mut known = BTreeMap::from([("s".to_owned(), ledger)]);
    let mut tally = Tally::default();
    check_all(&mut server.wire(), &mut known, &mut tally);
    tally.assert_nothing_wrong();
}
