//! Troubles of a real database: ended connections under load, schemas and settings that are not
//! accepted, and a node that is cut off. It must not use the server of the other tests where it
//! stops or changes one.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sessionlog::store::{
    Store, StoreError,
    remote::{Durability, PostgresUrl, RemoteOptions, RemoteStore},
};
use sessionlog_sim::{ManualClock, SeededEntropy};

use super::{assert_each_once, relay::Relay};
use crate::{
    engines::{append, batch, create, event, events_of, key, named, postgres_node},
    servers::{Server, give_to_server_user, postgres},
};

/// Opens a node at an address with these options.
pub async fn open(address: &str, options: RemoteOptions) -> Result<RemoteStore, StoreError> {
    let url = PostgresUrl::parse(address).unwrap();
    let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(SeededEntropy::new(3)));
    RemoteStore::open_postgres(&url, clock, entropy, options).await
}

/// What a writer acknowledged: its session, with position and body of each event.
type Acknowledged = (&'static str, Vec<(u64, String)>);

/// Nine writers at two nodes append to three sessions, with ids of their own, each event until it
/// is acknowledged.
async fn write_surely(nodes: [&Arc<dyn Store>; 2]) -> Vec<Acknowledged> {
    let mut writers = Vec::new();
    for writer in 0..9 {
        let node = Arc::clone(nodes[writer % 2]);
        let session = ["s", "t", "u"][writer % 3];
        writers.push(tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..60 {
                let body = format!("\"{writer}-{n}\"");
                let stored = loop {
                    let sent = batch([named(&format!("w{writer}-{n}"), &body)]);
                    match node.append(&key(session), sent).await {
                        Ok(stored) => break stored,
                        Err(
                            StoreError::OutcomeUnknown { .. }
                            | StoreError::Unreachable { .. }
                            | StoreError::Busy,
                        ) => {}
                        Err(other) => panic!("{other}"),
                    }
                };
                acknowledged.push((stored.first_position.0, body));
            }
            (session, acknowledged)
        }));
    }
    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.await.unwrap());
    }
    all
}

/// Asserts that each acknowledged event is in its session once.
async fn assert_all_once(nodes: [&Arc<dyn Store>; 2], all: &[Acknowledged]) {
    for session in ["s", "t", "u"] {
        let of = all.iter().filter(|(one, _)| *one == session);
        let acknowledged: Vec<_> = of.flat_map(|(_, some)| some.clone()).collect();
        assert_eq!(acknowledged.len(), 180);
        super::until_ok(async || nodes[0].info(&key(session)).await).await;
        assert_each_once(&**nodes[0], &key(session), &acknowledged).await;
        assert_eq!(events_of(&**nodes[0], &key(session)).await.len(), 180);
    }
}

/// Backends are ended under the statements of two nodes on the same sessions.
#[tokio::test(flavor = "multi_thread")]
async fn ended_backends_lose_and_double_nothing() {
    let Some(server) = postgres() else { return };
    let (address, clock) = (server.address("&application_name=ended"), Arc::default());
    let a: Arc<dyn Store> = Arc::new(postgres_node(&address, &clock, 31).await.unwrap());
    let b: Arc<dyn Store> = Arc::new(postgres_node(&address, &clock, 32).await.unwrap());
    for session in ["s", "t", "u"] {
        create(&*a, session).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let ending = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            let mut ended = 0;
            while !done.load(Ordering::Relaxed) {
                let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE \
                           application_name = 'ended' AND random() < 0.4";
                ended += server.run(sql).parse::<u64>().unwrap();
            }
            ended
        })
    };
    let all = write_surely([&a, &b]).await;
    done.store(true, Ordering::Relaxed);
    let ended = ending.join().unwrap();
    assert!(ended > 10, "only {ended} connections were ended");
    assert_all_once([&a, &b], &all).await;
}

/// Connections are cut behind statements that the server has: their answers are lost.
#[tokio::test(flavor = "multi_thread")]
async fn connections_cut_behind_a_statement_lose_and_double_nothing() {
    let Some(server) = postgres() else { return };
    let (relay, clock) = (Relay::start(server.socket_directory()), Arc::default());
    let address = relay.address_of("cut");
    let a: Arc<dyn Store> = Arc::new(postgres_node(&address, &clock, 33).await.unwrap());
    let b: Arc<dyn Store> = Arc::new(postgres_node(&address, &clock, 34).await.unwrap());
    for session in ["s", "t", "u"] {
        create(&*a, session).await;
    }
    relay.cut_one_of(12);
    let all = write_surely([&a, &b]).await;
    relay.cut_one_of(0);
    let cuts = relay.cuts();
    assert_all_once([&a, &b], &all).await;
    eprintln!("{cuts} connections cut, 540 acknowledged, 0 lost, 0 doubled");
    assert!(cuts > 10, "only {cuts} connections were cut");
}

/// The tables are on a small file system: a full one refuses appends by name, and the node heals.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_database_refuses_appends_and_takes_them_once_it_has_room() {
    let Some(server) = Server::start(&["-c", "fsync=off"]) else { return };
    let Some(disk) = SmallDisk::mount("8m") else { return };
    give_to_server_user(disk.0.path());
    let place = disk.0.path().display();
    server.run(&format!("CREATE TABLESPACE small LOCATION '{place}'"));
    server.run("ALTER ROLE sl SET default_tablespace = small");
    let node = open(&server.address(""), <_>::default()).await.unwrap();
    create(&node, "s").await;
    let body = format!("\"{}\"", "x".repeat(100_000));
    let mut acknowledged = 0;
    let refused = loop {
        match append(&node, &key("s"), batch([event(&body)])).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StoreError::DiskFull(_)), "{refused}");
    assert_eq!(events_of(&node, &key("s")).await.len(), acknowledged, "it is still read");
    disk.resize("64m");
    append(&node, &key("s"), batch([event(&body)])).await.unwrap();
    assert_eq!(events_of(&node, &key("s")).await.len(), acknowledged + 1);
    let verified = node.verify(&key("s").scope, None).await.unwrap();
    assert_eq!(verified.damage, []);
}

/// A small file system in memory; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts one; `None` where the tests may not.
    fn mount(size: &str) -> Option<Self> {
        let (disk, options) = (Self(tempfile::tempdir().unwrap()), format!("size={size}"));
        if rustix::process::geteuid().is_root()
            && disk.run("mount", &["-t", "tmpfs", "-o", &options])
        {
            return Some(disk);
        }
        eprintln!("SKIPPED: it may not mount file systems here");
        None
    }

    fn resize(&self, size: &str) {
        assert!(self.run("mount", &["-o", &format!("remount,size={size}")]));
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = std::process::Command::new(program);
        command.args(arguments);
        if arguments.contains(&"tmpfs") {
            command.arg("tmpfs");
        }
        command.arg(self.0.path()).status().unwrap().success()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server may still use it.
        self.run("umount", &["-l"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_acceptable_is_refused_with_the_reason() {
    let Some(server) = postgres() else { return };
    let home = server.socket_directory().display();
    let refused = async |address: &str, options| match open(address, options).await {
        Ok(_) => panic!("{address} was accepted"),
        Err(error) => error,
    };
    let unknown = refused(&format!("postgres://sl@/none?host={home}"), <_>::default()).await;
    assert!(
        matches!(&unknown, StoreError::Unreachable { reason } if reason.contains("none")),
        "{unknown}"
    );
    let nobody = refused(&format!("postgres://ada@/postgres?host={home}"), <_>::default()).await;
    assert!(
        matches!(&nobody, StoreError::Unreachable { reason } if reason.contains("ada")),
        "{nobody}"
    );
    let absent = refused("postgres://sl@/postgres?host=/nowhere", <_>::default()).await;
    assert!(matches!(absent, StoreError::Unreachable { .. }), "{absent}");
    // The server of the tests runs with fsync off.
    let weak =
        refused(&format!("postgres://sl@/postgres?host={home}&schema=weak"), <_>::default()).await;
    assert!(matches!(&weak, StoreError::ReadOnly { reason } if reason.contains("fsync")), "{weak}");
    let required = RemoteOptions { required: Some(Durability::Replicated), ..<_>::default() };
    let below = refused(&server.address(""), required).await;
    assert!(
        matches!(&below, StoreError::ReadOnly { reason } if reason.contains("replicated")),
        "{below}"
    );
    let address = server.address_of("newer", "");
    drop(open(&address, <_>::default()).await.unwrap());
    server.run("UPDATE newer.store SET format = 99");
    let newer = refused(&address, <_>::default()).await;
    assert!(matches!(&newer, StoreError::ReadOnly { reason } if reason.contains("99")), "{newer}");
}

/// A server that stops and starts again: nothing is served in between, and the node heals.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_heals_after_its_database_was_read_only() {
    let Some(server) = Server::start(&["-c", "fsync=off"]) else { return };
    let node = open(&server.address(""), <_>::default()).await.unwrap();
    create(&node, "s").await;
    append(&node, &key("s"), batch([event("1")])).await.unwrap();
    server.run("ALTER SYSTEM SET default_transaction_read_only = on");
    server.run("SELECT pg_reload_conf()");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \
               application_name = 'sessionlog'";
    server.run(end);
    // A new connection asks for a server that takes writes, and there is none.
    let refused = loop {
        match append(&node, &key("s"), batch([event("2")])).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let expected =
        matches!(refused, StoreError::Unreachable { .. } | StoreError::OutcomeUnknown { .. });
    assert!(expected, "{refused}");
    server.run("ALTER SYSTEM RESET default_transaction_read_only");
    server.run("SELECT pg_reload_conf()");
    super::until_ok(async || append(&node, &key("s"), batch([event("3")])).await).await;
    let bodies: Vec<_> =
        events_of(&node, &key("s")).await.into_iter().map(|one| one.body).collect();
    assert_eq!((&bodies[0][..], &bodies.last().unwrap()[..]), (&b"1"[..], &b"3"[..]));
}

/// 64 sessions at once: the lanes commit many in one statement, and those of two nodes on the same
/// sessions get through.
#[tokio::test(flavor = "multi_thread")]
async fn many_writers_at_two_nodes_share_sessions() {
    let Some(server) = postgres() else { return };
    let (address, clock) = (server.address(""), Arc::default());
    let mut nodes: Vec<Arc<dyn Store>> = Vec::new();
    for seed in [41, 42] {
        nodes.push(Arc::new(postgres_node(&address, &clock, seed).await.unwrap()));
    }
    for session in 0..16 {
        create(&*nodes[0], &format!("s{session}")).await;
    }
    let mut writers = Vec::new();
    for writer in 0..64 {
        let (node, session) = (Arc::clone(&nodes[writer % 2]), format!("s{}", writer / 4));
        writers.push(tokio::spawn(async move {
            for n in 0..20 {
                let body = format!("\"{writer}-{n}\"");
                append(&*node, &key(&session), batch([event(&body)])).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    for session in 0..16 {
        assert_each_once(&*nodes[1], &key(&format!("s{session}")), &[]).await;
        assert_eq!(events_of(&*nodes[0], &key(&format!("s{session}"))).await.len(), 80);
    }
}
