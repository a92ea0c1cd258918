//! A node behind pgbouncer: it works where each client has a connection of its own, and is refused
//! where a connection is another one after each transaction. It must not use a port.

use sessionlog::store::{Store, StoreError};

use super::servers::open;
use crate::{
    engines::{append, batch, create, event, events_of, key},
    servers::{Running, Server, give_to_server_user, postgres, report_missing},
};

/// A running pgbouncer, with the directory of its socket.
struct Pooler {
    home: tempfile::TempDir,
    _running: Running,
}

impl Pooler {
    /// Starts one before a server, with this mode; `None` if it is not installed.
    fn start(server: &Server, mode: &str) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|program| std::path::Path::new(program).exists());
        let Some(program) = program else {
            report_missing("pgbouncer");
            return None;
        };
        let home = tempfile::tempdir().unwrap();
        give_to_server_user(home.path());
        let (here, there) = (home.path().display(), server.socket_directory().display());
        let settings = format!(
            "[databases]\npostgres = host={there} user=sl\n[pgbouncer]\nunix_socket_dir = {here}\n\
             listen_port = 5432\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = 40\n"
        );
        let path = home.path().join("pgbouncer.ini");
        std::fs::write(&path, settings).unwrap();
        let running = Running::start(&[program.into(), path.into()], home.path(), "INT");
        let socket = home.path().join(".s.PGSQL.5432");
        crate::program::eventually("a pooler", || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
        Some(Self { home, _running: running })
    }

    fn address_of(&self, schema: &str) -> String {
        let home = self.home.path().display();
        format!("postgres://sl@/postgres?host={home}&schema={schema}&durability=weak")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_works_behind_a_pooler_of_sessions() {
    let Some(server) = postgres() else { return };
    let Some(pooler) = Pooler::start(server, "session") else { return };
    let [a, b] = [open(&pooler.address_of("pooled"), <_>::default()).await, {
        open(&server.address_of("pooled", ""), <_>::default()).await
    }]
    .map(Result::unwrap);
    create(&a, "s").await;
    let mut watch = a.watch(&key("s")).await.unwrap();
    watch.borrow_and_update();
    append(&b, &key("s"), batch([event("1")])).await.unwrap();
    // The node behind the pooler hears of it.
    watch.changed().await.unwrap();
    append(&a, &key("s"), batch([event("2")])).await.unwrap();
    assert_eq!(events_of(&b, &key("s")).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_of_transactions_is_refused_with_the_setting_to_change() {
    let Some(server) = postgres() else { return };
    for mode in ["transaction", "statement"] {
        let Some(pooler) = Pooler::start(server, mode) else { return };
        let schema = format!("pooled_by_{mode}");
        let opened = open(&pooler.address_of(&schema), <_>::default()).await;
        let Err(refused) = opened else { panic!("{mode} was accepted") };
        let StoreError::ReadOnly { reason } = &refused else { panic!("{mode}: {refused}") };
        assert!(reason.contains("pool_mode = session"), "{mode}: {reason}");
        let made = server.run(&format!("SELECT to_regclass('{schema}.store') IS NULL"));
        assert_eq!(made, "t", "{mode}: nothing was made");
    }
}
