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

use super::assert_each_once;
use crate::{
    engines::{append, batch, create, event, events_of, key, named, postgres_node},
    servers::{Server, postgres},
};

/// Opens a node at an address with these options.
async fn open(address: &str, options: RemoteOptions) -> Result<RemoteStore, StoreError> {
    let url = PostgresUrl::parse(address).unwrap();
    let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(SeededEntropy::new(3)));
    RemoteStore::open_postgres(&url, clock, entropy, options).await
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
    let mut writers = Vec::new();
    for writer in 0..9 {
        let node = Arc::clone(if writer % 2 == 0 { &a } else { &b });
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
    done.store(true, Ordering::Relaxed);
    let ended = ending.join().unwrap();
    assert!(ended > 10, "only {ended} connections were ended");
    for session in ["s", "t", "u"] {
        let of = all.iter().filter(|(one, _)| *one == session);
        let acknowledged: Vec<_> = of.flat_map(|(_, some)| some.clone()).collect();
        assert_eq!(acknowledged.len(), 180);
        let (mut node, mut tries) = (&a, 0);
        while node.info(&key(session)).await.is_err() && tries < 50 {
            tries += 1;
            node = if tries % 2 == 0 { &a } else { &b };
        }
        assert_each_once(&**node, &key(session), &acknowledged).await;
        assert_eq!(events_of(&**node, &key(session)).await.len(), 180);
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
