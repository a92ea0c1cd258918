//! Repeated `kill -9` while writers write and readers read over HTTP. Files are small, so that
//! kills hit rotations, flushes and sealings as well.

use std::{sync::Arc, time::Duration};

use super::{
    machine::{Dice, number, pause},
    served::Setup,
    writers::{Board, check_all},
};

/// Kills between two checks of everything; each such round has separate sessions.
const ROUND: u64 = 50;
const WRITERS: u64 = 6;
const SESSIONS: u64 = 3;

#[test]
fn kill_9_under_load_neither_loses_nor_duplicates_acknowledged_events() {
    kill_repeatedly("kills", Board::write);
}

#[test]
fn kill_9_under_append_streams_keeps_each_acknowledged_line_once_in_order() {
    kill_repeatedly("kills under streams", Board::stream);
}

/// Repeatedly kills servers while clients write with `write`, and checks the remaining events.
fn kill_repeatedly(what: &str, write: fn(&Board, &str, u64)) {
    let kills = number("SESSIONLOG_KILLS", 30);
    let mut dice = Dice(number("SESSIONLOG_SEED", 7) | 1);
    let home = tempfile::tempdir().unwrap();
    let setup = Setup::new(home.path(), &home.path().join("data")).small();
    let (mut done, mut round, mut total) = (0, 0, super::ledger::Tally::default());
    while done < kills {
        let board = Arc::new(Board::default());
        let clients: Vec<_> = clients(&board, round, write);
        for _ in 0..ROUND.min(kills - done) {
            let mut server = setup.up();
            board.move_to(Some(server.address));
            // Every fourth server dies early, the others behind what they acknowledged.
            if !done.is_multiple_of(4) {
                board.wait_for_acknowledged(2 + dice.roll(6));
            }
            pause(Duration::from_millis(dice.roll(40)));
            server.kill();
            board.move_to(None);
            done += 1;
        }
        board.stop();
        clients.into_iter().for_each(|client| client.join().unwrap());
        let server = setup.up();
        let mut ledgers = std::mem::take(&mut *board.ledgers.lock().unwrap());
        let mut tally = board.tally.lock().unwrap();
        check_all(&mut server.wire(), &mut ledgers, &mut tally);
        let damage = server.wire().post("/v1/admin/verify", "{}").unwrap().json();
        if damage["damage"] != serde_json::json!([]) {
            tally.complain(format!("damage after round {round}: {damage}"));
        }
        total.add(&tally);
        round += 1;
        total.assert_nothing_wrong();
    }
    assert!(total.acked > kills, "too little was written to prove anything: {total:?}");
    eprintln!(
        "{what} {done}, acknowledged {}, retries {}, reads {}, wrong {}",
        total.acked, total.retries, total.reads, total.wrong
    );
}

/// Starts writers and readers of this round's sessions.
fn clients(
    board: &Arc<Board>,
    round: u64,
    write: fn(&Board, &str, u64),
) -> Vec<std::thread::JoinHandle<()>> {
    let writers = (0..WRITERS).map(|writer| {
        let board = Arc::clone(board);
        let session = format!("s{round}-{}", writer % SESSIONS);
        std::thread::spawn(move || write(&board, &session, writer))
    });
    let readers = (0..SESSIONS).map(|reader| {
        let board = Arc::clone(board);
        std::thread::spawn(move || board.read(&format!("s{round}-{reader}")))
    });
    writers.chain(readers).collect()
}
