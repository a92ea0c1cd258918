//! An erasure while the other node cannot let go: frozen, cut off from the database, or stopped.
//! The real program; a node that was away serves nothing of what was erased, and has it in no file.
//! It must not rest on how long a node is away.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    program::{Place, Ran, Server as Program, eventually, signal},
    servers::{Server, postgres},
};

use super::relay::Relay;

const CANARY: &str = "canary-5519-quokka";

/// Two nodes, the session `s` with the canary, and views and a search index of it at node B.
struct Erasing {
    server: &'static Server,
    schema: &'static str,
    places: [Place; 2],
    a: Program,
    b: Program,
    client: Place,
}

impl Erasing {
    fn new(schema: &'static str, address_of_b: Option<String>) -> Option<Self> {
        let (server, places) = (postgres()?, [Place::new(), Place::new()]);
        let address = server.address_of(schema, "");
        let a = places[0].serve_with(&["--store", &address]);
        let b = places[1].serve_with(&["--store", &address_of_b.unwrap_or(address)]);
        let erasing = Self { server, schema, places, a, b, client: Place::new() };
        let sent = format!("{{\"type\":\"user.message\",\"content\":\"{CANARY}\"}}\n");
        let to_a = ["--url", &erasing.a.url, "append", "s", "--create"];
        erasing.client.run_with(&to_a, &sent).ok();
        assert!(erasing.at_b(&["view", "s"]).ok().contains(CANARY));
        assert!(erasing.at_b(&["search", "quokka", "--json"]).ok().contains(CANARY));
        Some(erasing)
    }

    fn at_a(&self, arguments: &[&str]) -> Ran {
        self.client.run(&[&["--url", &self.a.url], arguments].concat())
    }

    fn at_b(&self, arguments: &[&str]) -> Ran {
        self.client.run(&[&["--url", &self.b.url], arguments].concat())
    }

    fn signal_b(&self, signal_of_b: Signal) {
        signal(self.b.child.id().into(), signal_of_b);
    }

    /// Returns how many nodes are alive to the others.
    fn live_nodes(&self) -> u64 {
        let sql = format!(
            "SELECT count(*) FROM {}.node WHERE seen > clock_timestamp() - interval '10 s'",
            self.schema
        );
        self.server.run(&sql).parse().unwrap()
    }

    /// Asks node B for everything until it serves again; none of its answers may have the canary.
    fn assert_b_has_nothing(&self) {
        for asked in [&["search", "quokka", "--json"][..], &["view", "s"], &["events", "s"]] {
            eventually("node B to serve again", || {
                let ran = self.at_b(asked);
                let text = format!("{}{}", ran.out, ran.err);
                assert!(!text.contains(CANARY), "{asked:?}: {text}");
                (!text.contains("unreachable") && !text.contains("database")).then_some(())
            });
        }
        self.assert_no_file_of_b();
    }

    fn assert_no_file_of_b(&self) {
        let mut grep = std::process::Command::new("grep");
        let held = grep.args(["-r", "-l", CANARY]).arg(self.places[1].data_dir()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&held.stdout), "", "no file of node B has it");
    }
}

/// A frozen node is waited for while it is alive to the others, and no longer.
#[test]
fn an_erasure_does_not_wait_for_a_frozen_node_that_is_no_longer_alive() {
    let Some(erasing) = Erasing::new("erased_frozen", None) else { return };
    erasing.signal_b(Signal::STOP);
    erasing.at_a(&["erase", "s", "--yes"]).ok();
    assert_eq!(erasing.live_nodes(), 1, "a node that is alive has confirmed it");
    erasing.signal_b(Signal::CONT);
    erasing.assert_b_has_nothing();
}

/// The row of the frozen node is kept alive, as that of a node that reports and does not let go.
#[test]
fn an_erasure_is_not_finished_while_a_live_node_is_silent_and_a_retry_finishes_it() {
    let Some(erasing) = Erasing::new("erased_silent", None) else { return };
    erasing.signal_b(Signal::STOP);
    let asking = std::thread::scope(|scope| {
        let asking = scope.spawn(|| erasing.at_a(&["erase", "s", "--yes", "--json"]));
        while !asking.is_finished() {
            erasing.server.run("UPDATE erased_silent.node SET seen = clock_timestamp()");
        }
        asking.join().unwrap()
    });
    assert_ne!(asking.code, 0, "{asking:?}");
    assert!(asking.out.contains("not_finished"), "{asking:?}");
    // It is gone from the database all the same.
    assert!(!erasing.at_a(&["events", "s"]).out.contains(CANARY));
    erasing.signal_b(Signal::CONT);
    eventually("a retry", || (erasing.at_a(&["erase", "s", "--yes"]).code == 0).then_some(()));
    erasing.assert_b_has_nothing();
}

/// A node that is cut off serves nothing once the others do not wait for it.
#[test]
fn a_node_that_is_cut_off_serves_nothing_that_was_erased_meanwhile() {
    let Some(server) = postgres() else { return };
    let relay = Relay::start(server.socket_directory());
    let to_b = relay.address_of("erased_cut_off");
    let Some(erasing) = Erasing::new("erased_cut_off", Some(to_b)) else { return };
    relay.set_silent(true);
    erasing.at_a(&["erase", "s", "--yes"]).ok();
    assert_eq!(erasing.live_nodes(), 1, "the erasure waited for the node while it was alive");
    let found = erasing.at_b(&["search", "quokka", "--json"]).json();
    assert_eq!((&found["hits"], &found["complete"]["is_complete"]), (&json!([]), &json!(false)));
    for asked in [["view", "s"], ["events", "s"]] {
        let ran = erasing.at_b(&asked);
        assert_ne!(ran.code, 0, "{asked:?}: {ran:?}");
        assert!(!ran.out.contains(CANARY) && !ran.err.contains(CANARY), "{asked:?}: {ran:?}");
    }
    relay.set_silent(false);
    erasing.assert_b_has_nothing();
}

#[test]
fn a_node_that_starts_after_an_erasure_has_nothing_of_it() {
    let Some(mut erasing) = Erasing::new("erased_restarted", None) else { return };
    erasing.b.child.kill().unwrap();
    erasing.b.child.wait().unwrap();
    erasing.assert_no_file_of_b();
    eventually("an erasure without the dead node", || {
        (erasing.at_a(&["erase", "s", "--yes"]).code == 0).then_some(())
    });
    let address = erasing.server.address_of(erasing.schema, "");
    erasing.b = erasing.places[1].serve_with(&["--store", &address]);
    erasing.assert_b_has_nothing();
}
