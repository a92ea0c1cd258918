//! A server in little memory before clients that want much: large batches from many connections,
//! large answers, more sessions than it should keep open. It must live on. The limit is the
//! kernel's, on the memory that the process may write to: who asks for more is refused, and a
//! program that is refused memory ends.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{http::Wire, served::Setup};

/// What waits to be settled, requests and answers have 256 MiB each; the rest is for everything
/// else, and for what an allocator keeps.
const LIMIT_KIB: u64 = 1_280 << 10;
const CLIENTS: u64 = 24;
/// As much as one request may hold.
const EVENTS: usize = 15;

#[test]
fn clients_that_want_much_do_not_exhaust_a_small_memory() {
    let home = tempfile::tempdir().unwrap();
    let limit = format!("ulimit -d {LIMIT_KIB} && exec \"$@\"");
    let limited = ["sh", "-c", &limit, "sh"];
    let setup = Setup::new(home.path(), &home.path().join("data"));
    let mut server = setup.before(&limited).up();
    let event = format!(r#"{{"type":"a.b","text":"{}"}}"#, "x".repeat(1 << 20));
    let batch = format!(r#"{{"events":[{}]}}"#, vec![&*event; EVENTS].join(","));
    let (written, told) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (batch, address, written, told) = (&batch, server.address, &written, &told);
            scope.spawn(move || {
                let mut wire = Wire::new(address).patient(Duration::from_secs(120));
                for number in 0..4 {
                    let path = format!("/v1/sessions/s{client}/events");
                    let sent = wire.post(&format!("{path}?create=true"), batch).expect("an answer");
                    let count = if sent.status == 200 { written } else { told };
                    count.fetch_add(1, Ordering::Relaxed);
                    let typed = sent.status == 200 || sent.verdict().1 == "limit_reached";
                    assert!(typed, "{number}: {:?}", sent.verdict());
                    let read = wire.get(&format!("{path}?from=0"));
                    assert!(read.is_ok(), "{number}: {read:?}");
                }
            });
        }
    });
    assert!(server.is_alive(), "{}", server.said());
    let written = written.into_inner();
    assert!(written > 0, "somebody is served");
    let peak = server.status("VmHWM") >> 10;
    let told = told.into_inner();
    eprintln!("{written} batches of 15 MiB written, {told} told to come back: {peak} MiB resident");
    server.kill();
}
