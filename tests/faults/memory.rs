//! A server with little memory and demanding clients: large batches from many connections, large
//! responses, more sessions than it should keep open. It must not die. The limit is set in the
//! kernel, on the writable memory of the process: an allocation beyond it fails, and a failed
//! allocation ends the program.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    http::Wire,
    served::{Server, Setup},
};

/// Records to be flushed, requests and responses have 256 MiB each; the rest is for everything
/// else, and for the allocator's overhead.
const LIMIT_KIB: u64 = 1_280 << 10;
const CLIENTS: u64 = 24;
/// Maximum events of one request.
const EVENTS: usize = 15;

/// Number of clients that send concurrently: together they hold more than the limit.
const HOLDING: usize = 96;

/// Starts a server whose memory the kernel limits to that.
fn limited_server(home: &std::path::Path) -> Server {
    let limit = format!("ulimit -d {LIMIT_KIB} && exec \"$@\"");
    let setup = Setup::new(home, &home.join("data"));
    setup.before(&["sh", "-c", &limit, "sh"]).up()
}

fn large_batch() -> String {
    let event = format!(r#"{{"type":"a.b","text":"{}"}}"#, "x".repeat(1 << 20));
    format!(r#"{{"events":[{}]}}"#, vec![&*event; EVENTS].join(","))
}

/// Sends a request except its last byte; `None` when the server closes before.
fn send_most(address: SocketAddr, client: usize, body: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(60));
    stream.set_write_timeout(patience).unwrap();
    stream.set_read_timeout(patience).unwrap();
    let head = format!(
        "POST /v1/sessions/s{client}/events?create=true HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let most = &body.as_bytes()[..body.len() - 1];
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(most)).ok()?;
    Some(stream)
}

#[test]
fn concurrent_requests_stay_within_their_memory_budget() {
    let home = tempfile::tempdir().unwrap();
    let mut server = limited_server(home.path());
    let (batch, address) = (large_batch(), server.address);
    // Every client has sent its request before any of them completes: they cannot be served one by
    // one.
    let (sent, measured) = (Barrier::new(HOLDING + 1), Barrier::new(HOLDING + 1));
    let (taken, peak) = std::thread::scope(|scope| {
        let one = |client| {
            let (batch, sent, measured) = (&batch, &sent, &measured);
            move || {
                let stream = send_most(address, client, batch);
                sent.wait();
                measured.wait();
                let Some(mut stream) = stream else { return false };
                // A rejected client has its response already.
                let mut answer = [0; 12];
                let end = &batch.as_bytes()[batch.len() - 1..];
                stream.write_all(end).is_ok()
                    && stream.read_exact(&mut answer).is_ok()
                    && &answer == b"HTTP/1.1 200"
            }
        };
        let clients: Vec<_> = (0..HOLDING).map(|client| scope.spawn(one(client))).collect();
        sent.wait();
        let peak = server.status("VmHWM") >> 10;
        measured.wait();
        let taken = clients.into_iter().map(|one| one.join().unwrap());
        (taken.filter(|taken| *taken).count(), peak)
    });
    assert!(server.is_alive(), "{}", server.said());
    assert!(taken > 0, "somebody is served");
    let all = (HOLDING * batch.len()) >> 20;
    assert!(peak < 512, "{peak} MiB resident while {all} MiB were under way");
    eprintln!("{taken} of {HOLDING} taken, {all} MiB under way at once: {peak} MiB resident");
    server.kill();
}

/// Returns a list of empty lists of that many bytes.
fn nested_list(bytes: usize) -> String {
    format!("[{}]", vec!["[]"; bytes / 3].join(","))
}

#[test]
fn concurrent_nested_lists_stay_within_their_memory_budget() {
    let home = tempfile::tempdir().unwrap();
    let mut server = limited_server(home.path());
    let address = server.address;
    let mcp = |tool: &str, arguments: &str| {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
    };
    let event =
        |bytes| format!(r#"{{"type":"agent.tool_result","content":{}}}"#, nested_list(bytes));
    let small = format!(r#"{{"event":{}}}"#, event(290_000));
    // Path, body, statuses: 400 where the protocol was not initialised.
    let shapes: [(&str, String, &[u16]); 6] = [
        (
            "/v1/sessions/s{}/events?create=true",
            format!(r#"{{"events":[{}]}}"#, event(4_000_000)),
            &[200],
        ),
        ("/mcp", mcp("no_such_tool", &nested_list(15_000_000)), &[413]),
        ("/mcp", mcp("emit_event", &nested_list(4_000_000)), &[422]),
        ("/mcp?toolsets=events", mcp("emit_event", &small), &[200, 400, 422]),
        ("/v1/tools/emit_event", nested_list(15_000_000), &[422]),
        ("/v1/tools/emit_event", small.clone(), &[200, 422]),
    ];
    let (full, refused) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
    let ask = |client: u64, path: &str, body: &str, expected: &[u16]| {
        let path = &path.replace("{}", &client.to_string());
        let mut wire = Wire::new(address).patient(Duration::from_secs(120));
        let accept = [("accept", "application/json, text/event-stream")];
        let method = if body.is_empty() { "GET" } else { "POST" };
        let reply = wire.call(method, path, &accept, body).expect("an answer");
        match reply.verdict() {
            (_, code) if code == "limit_reached" => {
                full.fetch_add(1, Ordering::Relaxed);
                refused.lock().unwrap().insert(path.clone());
            }
            (status, _) => assert!(expected.contains(&status), "{path}: {}", reply.head),
        }
    };
    let ask = &ask;
    let at_once = |clients: &[u64], path: &str, body: &str, expected: &[u16]| {
        std::thread::scope(|scope| {
            for client in clients.iter().copied() {
                scope.spawn(move || ask(client, path, body, expected));
            }
        });
    };
    let clients: Vec<u64> = (0..CLIENTS).collect();
    for (path, body, expected) in &shapes {
        at_once(&clients, path, body, expected);
        eprintln!("{path}: {} MiB resident", server.status("VmHWM") >> 10);
    }
    // A session whose first append was rejected does not exist.
    let append = |client: &u64| shapes[0].0.replace("{}", &client.to_string());
    let made = |client: &u64| !refused.lock().unwrap().contains(&append(client));
    let made: Vec<u64> = clients.into_iter().filter(made).collect();
    let export = "/v1/sessions/s{}/export?format=anthropic";
    at_once(&made, export, "", &[200]);
    eprintln!("{export}: {} MiB resident", server.status("VmHWM") >> 10);
    for path in ["/v1/sessions/s{}/views/window", "/v1/sessions/s{}/views/index"] {
        ask(made[0], path, "", &[200]);
        eprintln!("{path}: {} MiB resident", server.status("VmHWM") >> 10);
    }
    assert!(server.is_alive(), "{}", server.said());
    let peak = server.status("VmHWM") >> 10;
    assert!(peak < 1_024, "{peak} MiB resident");
    eprintln!("{} had to come back", full.into_inner());
    server.kill();
}

/// Returns properties of an entity of maximum size: eight texts that differ only in the last one,
/// or eight lists of empty lists.
fn large_properties(row: usize) -> String {
    let text = |at: usize| format!(r#""p{at}":"{}""#, "\\n".repeat(4_000));
    let list = |at: usize| format!(r#""p{at}":{}"#, nested_list(8_000));
    let all: Vec<String> = match row % 4 {
        0 => (0..7).map(text).collect(),
        _ => (0..7).map(list).collect(),
    };
    format!(r#"{{"properties":{{{},"p7":"{}{row:04}"}}}}"#, all.join(","), "x".repeat(7_000))
}

#[test]
fn concurrent_queries_sorted_by_large_properties_do_not_exhaust_memory() {
    const ROWS: usize = 500;
    let home = tempfile::tempdir().unwrap();
    let mut server = limited_server(home.path());
    let address = server.address;
    let wire = || Wire::new(address).patient(Duration::from_secs(120));
    std::thread::scope(|scope| {
        for client in 0..8 {
            scope.spawn(move || {
                for row in (client..ROWS).step_by(8) {
                    let path = format!("/v1/workspaces/w/entities/thing/e{row:04}");
                    let json = [("content-type", "application/json")];
                    let reply = wire().call("PUT", &path, &json, &large_properties(row));
                    let reply = reply.expect("an answer");
                    assert_eq!(reply.status, 200, "{}", reply.body);
                }
            });
        }
    });
    let before = server.status("VmRSS") >> 10;
    let sorts: Vec<String> =
        (0..8).map(|at| format!(r#"{{"field":"p{at}","order":"desc"}}"#)).collect();
    let query = format!(r#"{{"source":"told","limit":1,"sort":[{}]}}"#, sorts.join(","));
    let full = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (query, full) = (&query, &full);
            scope.spawn(move || {
                for _ in 0..2 {
                    let reply = wire().post("/v1/workspaces/w/entities/query", query);
                    let reply = reply.expect("an answer");
                    if reply.verdict() == (429, "limit_reached".to_owned()) {
                        full.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    assert_eq!(reply.status, 200, "{}", reply.body);
                    let found = reply.json();
                    // Lists sort after texts, so the greatest row is the last one with lists.
                    let first = (&found["entities"][0]["id"], &found["total"]);
                    assert_eq!(first, (&"e0499".into(), &ROWS.into()));
                }
            });
        }
    });
    assert!(server.is_alive(), "{}", server.said());
    let peak = server.status("VmHWM") >> 10;
    eprintln!("{before} MiB resident, {peak} at most; {} had to come back", full.into_inner());
    assert!(peak < before + 256, "{peak} MiB resident, {before} before");
    server.kill();
}

#[test]
fn clients_with_large_requests_do_not_exhaust_a_small_memory() {
    let home = tempfile::tempdir().unwrap();
    let mut server = limited_server(home.path());
    let batch = large_batch();
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
