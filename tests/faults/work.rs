//! Processes killed while harnesses work: sessions are forked, checkpointed, leased, bodies are
//! redacted, and in an encrypted store master keys are rotated. It must not lose an acknowledged
//! request, and started work continues after the next start.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;

use super::{
    harness::Harness,
    http::Wire,
    ledger::Tally,
    machine::{Dice, number, pause},
    served::{Server, Setup},
    writers::{Board, check_all},
};

/// Kills between two checks of everything; each such round has separate sessions.
const ROUND: u64 = 25;
const SESSIONS: u64 = 4;

/// The successive master keys of a store.
#[derive(Default)]
struct Keys {
    /// Number of the current one.
    current: u64,
    /// True if no key is wrapped under the previous one any more.
    done: bool,
    rotations: u64,
}

/// Returns the master key of that number.
pub fn key(number: u64) -> String {
    format!("{number:064x}")
}

impl Keys {
    /// Configures the next start: with the next key once the previous one is not needed.
    fn next(&mut self, setup: &Setup) -> Setup {
        if self.done {
            self.current += 1;
            self.rotations += 1;
        }
        self.done = self.current == 0;
        let setup = setup.clone().with("SESSIONLOG_KEY", &key(self.current + 1));
        match self.current {
            0 => setup,
            current => setup.with("SESSIONLOG_KEY_PREVIOUS", &key(current)),
        }
    }
}

/// Continues the rotation of the running server until the board stops.
fn rotate(board: &Board, keys: &Mutex<Keys>) {
    while let Some(address) = board.address() {
        let asked = Wire::new(address).patient(Duration::from_secs(20));
        if !keys.lock().unwrap().done {
            match { asked }.post("/v1/admin/keys/rotate", "{}") {
                Ok(reply) if reply.status == 200 => {
                    let told = reply.json();
                    keys.lock().unwrap().done = told["previous"].is_null() && told["behind"] == 0;
                }
                Ok(reply) if reply.status < 500 => {
                    board.tally.lock().unwrap().complain(format!("no rotation: {reply:?}"));
                    return;
                }
                _ => {}
            }
        }
        pause(Duration::from_millis(3));
    }
}

/// Makes the server index everything; returns the number of index files. A separate session makes
/// every part of the index large enough for a file.
fn index_all(server: &Server, number: u64, setup: &Setup) -> u64 {
    let event = json!({"type": "test.other", "text": "a fulmar"});
    let new = json!({"id": format!("other{number}"), "initial_events": vec![event; 600]});
    let created = server.wire().post("/v1/sessions", &new.to_string()).unwrap().status;
    assert!(matches!(created, 201 | 409), "{created}");
    let found = server.wire().post("/v1/search", r#"{"q":"fulmar","wait_ms":20000}"#).unwrap();
    assert_eq!(found.status, 200, "{found:?}");
    fs::read_dir(setup.data.join("derived")).map_or(0, Iterator::count) as u64
}

/// Reports every file that contains one of these words.
pub fn search(directory: &Path, words: &[String], tally: &mut Tally) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, words, tally);
        } else if let Ok(bytes) = fs::read(&path) {
            let bytes = String::from_utf8_lossy(&bytes);
            for word in words.iter().filter(|word| bytes.contains(word.as_str())) {
                tally.complain(format!("{} has {word:.40}", path.display()));
            }
        }
    }
}

/// Runs one round: that many kills under harnesses, then a check of everything.
fn run_round(
    setup: &Setup,
    keys: Option<&Arc<Mutex<Keys>>>,
    number: u64,
    kills: u64,
    dice: &mut Dice,
) -> Tally {
    let board = Arc::new(Board::default());
    let harnesses: Vec<_> = (0..SESSIONS)
        .map(|n| {
            let harness = Harness::new(&board, format!("h{number}-{n}"), number * SESSIONS + n + 1);
            std::thread::spawn(move || harness.work())
        })
        .collect();
    let rotation = keys.cloned().map(|keys| {
        let board = Arc::clone(&board);
        std::thread::spawn(move || rotate(&board, &keys))
    });
    let up = || -> Server {
        keys.map_or_else(|| setup.up(), |keys| keys.lock().unwrap().next(setup).up())
    };
    let mut files = 0;
    for _ in 0..kills {
        let mut server = up();
        files += index_all(&server, number, setup);
        board.move_to(Some(server.address));
        board.wait_for_acknowledged(2);
        pause(Duration::from_millis(dice.roll(200)));
        server.kill();
        board.move_to(None);
    }
    board.stop();
    let harnesses: Vec<Harness> = harnesses.into_iter().map(|one| one.join().unwrap()).collect();
    rotation.into_iter().for_each(|rotation| rotation.join().unwrap());
    assert!(files > 0, "no index was in a file when the process died");
    let server = up();
    let mut tally = std::mem::take(&mut *board.tally.lock().unwrap());
    let mut ledgers = board.ledgers.lock().unwrap().clone();
    check_all(&mut server.wire(), &mut ledgers, &mut tally);
    for harness in &harnesses {
        harness.judge(&mut server.wire(), &mut tally);
        search(&setup.data, &harness.canaries(keys.is_some()), &mut tally);
        let derived = setup.data.join("derived");
        if derived.is_dir() {
            search(&derived, &harness.gone(), &mut tally);
        }
    }
    let verified = server.wire().post("/v1/admin/verify", "{}").unwrap().json();
    if verified["damage"] != serde_json::json!([]) {
        tally.complain(format!("damage after round {number}: {verified}"));
    }
    tally
}

#[test]
fn kill_9_under_forks_leases_redactions_and_rotations_undoes_no_acknowledged_request() {
    let kills = number("SESSIONLOG_KILLS", 30);
    let mut dice = Dice(number("SESSIONLOG_SEED", 11) | 1);
    let home = tempfile::tempdir().unwrap();
    // Uncompressed, so that a remaining body would be found.
    let stores = ["plain", "encrypted"].map(|name| {
        Setup::new(home.path(), &home.path().join(name))
            .small()
            .with("SESSIONLOG_COMPRESSION", "off")
            .with("SESSIONLOG_SEARCH_MEMORY", "0B")
    });
    let keys = Arc::new(Mutex::new(Keys::default()));
    let (mut done, mut total, mut rounds) = (0, Tally::default(), 0);
    while done < kills {
        // Each store gets its share of the kills.
        let now = ROUND.min((kills / 2).max(1)).min(kills - done);
        let keys = (rounds % 2 == 1).then_some(&keys);
        total.add(&run_round(&stores[rounds % 2], keys, rounds as u64, now, &mut dice));
        total.assert_nothing_wrong();
        (done, rounds) = (done + now, rounds + 1);
    }
    assert!(total.acked > kills, "too little was answered to prove anything: {total:?}");
    eprintln!(
        "kills under work {done}, acknowledged {}, retries {}, keys changed {}, wrong {}",
        total.acked,
        total.retries,
        keys.lock().unwrap().rotations,
        total.wrong
    );
}
