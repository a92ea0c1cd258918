//! Losses of unknown session: the store takes no writes until an operator gives them up for the
//! whole store. No needed frame is given up with them, and a crash in the middle has no effect.

use sessionlog::{
    event::{Event, EventId},
    store::{
        Health, Maintain, RepairResult, Store, StoreError,
        local::{LocalStore, OpenError},
    },
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, key, named, small},
    nth::cases,
    repair::crash,
};

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

/// A damaged frame header in the journal leaves its session unknown.
#[tokio::test]
async fn a_loss_of_unknown_session_keeps_the_store_read_only_until_repaired() {
    type Change = fn(&Sim);
    let changes: [(&str, Change); 3] = [
        ("a header", |sim| {
            let bytes = sim.read_durable("journal/0").unwrap();
            let at = bytes.windows(5).position(|part| part == b"words").unwrap();
            sim.flip("journal/0", at as u64 - 100, 0);
        }),
        ("the file is cut", |sim| sim.truncate_durable("journal/0", 12_000)),
        ("a file is gone", |sim| {
            let numbers = sim
                .files()
                .into_iter()
                .filter_map(|path| path.strip_prefix("journal/")?.parse::<u32>().ok());
            let last = numbers.max().unwrap();
            sim.write_durable(&format!("journal/{}", last + 1), 0, &[]);
            sim.remove_durable(&format!("journal/{last}"));
        }),
    ];
    for (what, change) in changes {
        let sim = Sim::new(33);
        let store = open(&sim);
        for session in ["hurt", "other"] {
            create(&store, session).await;
            append(&store, &key(session), batch([event("{\"n\":0}")])).await.unwrap();
        }
        append(&store, &key("hurt"), batch([event("{\"lost\":\"words\"}")])).await.unwrap();
        for n in 1..9 {
            let body = format!("\"{}\"", "x".repeat(n * 100));
            append(&store, &key("other"), batch([event(&body)])).await.unwrap();
        }
        store.write_idle_watermark();
        sim.power_loss();
        drop(store);
        change(&sim);
        let store = open(&sim);
        assert!(matches!(store.health(), Health::ReadOnly(_)), "{what}");
        let refused = append(&store, &key("other"), batch([event("{}")])).await.unwrap_err();
        assert!(
            refused.to_string().contains("repair --whole-store --accept-loss"),
            "{what}: {refused}"
        );
        let looked = store.repair_store(false).await.unwrap();
        assert!(!looked.accepted && !looked.unnamed.is_empty(), "{what}");
        assert!(matches!(store.health(), Health::ReadOnly(_)), "{what}: looked only");
        let served = events_of(&store, &key("other")).await;
        let repaired = store.repair_store(true).await.unwrap();
        assert!(repaired.accepted && repaired.unnamed == looked.unnamed, "{what}");
        for copy in &repaired.copies {
            assert!(sim.read_durable(&format!("quarantine/{copy}")).is_some(), "{what}: {copy}");
        }
        assert_eq!(store.health(), Health::Ready, "{what}");
        assert_eq!(store.repair_store(true).await.unwrap(), RepairResult::default(), "{what}");
        append(&store, &key("other"), batch([event("{\"behind\":1}")])).await.unwrap();
        for start in 0..3 {
            sim.power_loss();
            let store = open(&sim);
            assert_eq!(store.health(), Health::Ready, "{what}, start {start}");
            assert_eq!(store.recovery().damage, Vec::<String>::new(), "{what}, start {start}");
            let found = events_of(&store, &key("other")).await;
            assert_eq!(found[..served.len()], served, "{what}, start {start}");
            assert_eq!(found.len(), served.len() + 1 + start, "{what}, start {start}");
            append(&store, &key("other"), batch([event("{}")])).await.unwrap();
            store.flush().unwrap();
        }
    }
}

#[tokio::test]
async fn a_crashed_repair_of_the_store_is_complete_or_has_no_effect() {
    let make = async || {
        let sim = Sim::new(34);
        let store = open(&sim);
        create(&store, "a").await;
        append(&store, &key("a"), batch([event("{\"lost\":\"words\"}")])).await.unwrap();
        create(&store, "b").await;
        append(&store, &key("b"), batch([event("{}")])).await.unwrap();
        append(&store, &key("b"), batch([event("{}")])).await.unwrap();
        sim.power_loss();
        drop(store);
        let bytes = sim.read_durable("journal/0").unwrap();
        let at = bytes.windows(5).position(|part| part == b"words").unwrap();
        sim.flip("journal/0", at as u64 - 100, 0);
        sim
    };
    let calls = {
        let sim = make().await;
        let store = open(&sim);
        let before = sim.calls();
        store.repair_store(true).await.unwrap();
        sim.calls() - before
    };
    for case in cases(calls, 3) {
        let told = format!("{case:?}");
        let sim = make().await;
        let store = open(&sim);
        case.plan(&sim);
        let _ = store.repair_store(true).await;
        sim.heal();
        crash(&sim, case.fault);
        drop(store);
        let store = match LocalStore::open_local(&sim.env(), small()) {
            Ok(store) => store,
            Err(OpenError::Damaged { what }) => panic!("{told}: {what}"),
            Err(other) => panic!("{told}: {other}"),
        };
        let _ = store.repair_store(true).await.unwrap();
        assert_eq!(store.health(), Health::Ready, "{told}");
        assert_eq!(events_of(&store, &key("b")).await.len(), 2, "{told}");
        append(&store, &key("b"), batch([event("{}")])).await.unwrap();
        sim.power_loss();
        let store = open(&sim);
        assert_eq!(store.health(), Health::Ready, "{told}: for good");
        assert_eq!(events_of(&store, &key("b")).await.len(), 3, "{told}");
    }
}

/// Creates a store that was flushed once, then took events that fill more than one journal file,
/// then lost power; returns the events of session `kept`.
async fn flushed_then_written() -> (Sim, Vec<Event>) {
    let sim = Sim::new(35);
    let store = open(&sim);
    for session in ["kept", "other"] {
        create(&store, session).await;
        append(&store, &key(session), batch([event("{\"n\":0}")])).await.unwrap();
    }
    store.flush().unwrap();
    append(&store, &key("kept"), batch([event("{\"n\":1}")])).await.unwrap();
    let text = format!("\"{}\"", "x".repeat(3_000));
    for _ in 0..12 {
        append(&store, &key("other"), batch([event(&text)])).await.unwrap();
    }
    store.write_idle_watermark();
    let kept = events_of(&store, &key("kept")).await;
    sim.power_loss();
    let files: Vec<_> =
        sim.files().into_iter().filter(|path| path.starts_with("journal/")).collect();
    assert_eq!(
        files,
        ["journal/0", "journal/1", "journal/2"],
        "the second is used, the third spare"
    );
    (sim, kept)
}

/// An emptied file looks like the spare. It is evidence: if appends used it, the repair would
/// overwrite acknowledged events.
#[tokio::test]
async fn a_repaired_store_keeps_later_appends_after_a_power_loss() {
    let (sim, kept) = flushed_then_written().await;
    sim.truncate_durable("journal/1", 0);
    let store = open(&sim);
    assert!(matches!(store.health(), Health::ReadOnly(_)));
    assert!(store.repair_store(true).await.unwrap().accepted);
    for n in 0..3 {
        let body = format!("{{\"behind\":{n}}}");
        append(&store, &key("kept"), batch([event(&body)])).await.unwrap();
    }
    sim.power_loss();
    let store = open(&sim);
    assert_eq!(store.recovery().damage, Vec::<String>::new());
    assert_eq!(events_of(&store, &key("kept")).await.len(), kept.len() + 3);
}

/// A session that cannot be flushed has its last event in the file that the repair replaces.
#[tokio::test]
async fn a_repair_keeps_journal_frames_that_a_session_still_needs() {
    let (sim, kept) = flushed_then_written().await;
    sim.truncate_durable("journal/0", 31_000);
    let store = open(&sim);
    assert!(matches!(store.health(), Health::ReadOnly(_)));
    assert_eq!(events_of(&store, &key("kept")).await, kept);
    sim.fail_writing("segments/", Fault::Io);
    let failed = store.repair_store(true).await;
    assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
    assert!(matches!(store.health(), Health::ReadOnly(_)), "as it was before");
    sim.power_loss();
    drop(store);
    sim.heal();
    let store = open(&sim);
    assert_eq!(events_of(&store, &key("kept")).await, kept);
    assert!(store.repair_store(true).await.unwrap().accepted, "once the disk is well");
    sim.power_loss();
    assert_eq!(events_of(&open(&sim), &key("kept")).await, kept);
}

#[tokio::test]
async fn a_closed_store_rejects_a_repair() {
    let (sim, _) = flushed_then_written().await;
    sim.truncate_durable("journal/1", 0);
    let store = open(&sim);
    assert!(!store.repair_store(false).await.unwrap().unnamed.is_empty());
    store.close().await;
    let before = sim.calls();
    let refused = store.repair_store(true).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    assert_eq!(sim.calls(), before, "another owner may be there by now");
    let refused = append(&store, &key("kept"), batch([event("{}")])).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
}

/// A pending redaction must not cause a write to a read-only store: the next start must find the
/// loss, too.
#[tokio::test]
async fn a_read_only_store_does_not_finish_a_pending_redaction() {
    let sim = Sim::new(36);
    let store = open(&sim);
    create(&store, "hurt").await;
    create(&store, "other").await;
    append(&store, &key("other"), batch([named("secret", "{\"said\":1}")])).await.unwrap();
    append(&store, &key("hurt"), batch([event("{\"lost\":\"words\"}")])).await.unwrap();
    sim.fail_writing("segments", Fault::Io);
    let secret = EventId::new("secret").unwrap();
    let failed = store.redact(&key("other"), &secret).await;
    assert!(matches!(failed, Err(StoreError::Unfinished { .. })), "{failed:?}");
    store.write_idle_watermark();
    sim.heal();
    sim.power_loss();
    drop(store);
    let bytes = sim.read_durable("journal/0").unwrap();
    let at = bytes.windows(5).position(|part| part == b"words").unwrap();
    sim.flip("journal/0", at as u64 - 100, 0);
    for start in 0..3 {
        let store = open(&sim);
        assert!(matches!(store.health(), Health::ReadOnly(_)), "start {start}");
        let before = write_calls(&sim);
        let refused = store.redact(&key("other"), &secret).await;
        assert!(refused.is_err(), "start {start}: {refused:?}");
        assert_eq!(write_calls(&sim), before, "start {start}");
        sim.power_loss();
    }
}

/// Returns the number of calls that change a file.
fn write_calls(sim: &Sim) -> usize {
    let changes =
        [Op::Create, Op::Write, Op::Sync, Op::SyncAll, Op::SyncDir, Op::Remove, Op::Rename];
    sim.trace().iter().filter(|call| changes.contains(&call.op)).count()
}

#[tokio::test]
async fn a_closed_store_rejects_erase_redact_and_key_rotation() {
    let sim = Sim::encrypted(37);
    let store = open(&sim);
    for session in ["erased", "redacted"] {
        create(&store, session).await;
        append(&store, &key(session), batch([named("secret", "{}")])).await.unwrap();
    }
    let secret = EventId::new("secret").unwrap();
    // Both are durable, but cannot be finished.
    sim.fail_writing("segments", Fault::Io);
    sim.fail_writing("keys", Fault::Io);
    assert!(store.redact(&key("redacted"), &secret).await.is_err());
    assert!(store.erase(&key("erased")).await.is_err());
    store.close().await;
    sim.heal();
    let before = write_calls(&sim);
    let refused = store.redact(&key("redacted"), &secret).await;
    assert!(refused.is_err(), "{refused:?}");
    let refused = store.erase(&key("erased")).await;
    assert!(refused.is_err(), "{refused:?}");
    let refused = store.rotate_keys(100).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(write_calls(&sim), before, "another owner may be there by now");
}

/// A flush dies after its segments are durable and before `settled/` names them; then the device
/// cannot read the journal's tail. Events recovered from the segments have its numbers: none may be
/// assigned again, or the next start would confuse the two.
#[tokio::test]
async fn no_sequence_number_is_reused_after_an_unreadable_journal_tail() {
    const SECTORS: usize = 512;
    for (seed, power) in [(91, false), (92, true), (93, false), (94, true)] {
        let sim = Sim::new(seed);
        let told = format!("seed {seed}");
        let store = open(&sim);
        for session in ["one", "other"] {
            create(&store, session).await;
            append(&store, &key(session), batch([event("{}")])).await.unwrap();
        }
        (0..2).for_each(|_| store.flush().unwrap());
        for n in 0..6 {
            for session in ["one", "other"] {
                let body = format!("{{\"late\":{n}}}");
                append(&store, &key(session), batch([event(&body)])).await.unwrap();
            }
        }
        let mut expected = Vec::new();
        for session in ["one", "other"] {
            expected.push(events_of(&store, &key(session)).await);
        }
        sim.fail_writing("settled/", if power { Fault::PowerLoss } else { Fault::Kill });
        store.flush().unwrap_err();
        drop(store);
        sim.heal();
        let mut spoiled = Vec::new();
        for path in sim.files().into_iter().filter(|path| path.starts_with("journal/")) {
            let bytes = sim.read_durable(&path).unwrap();
            let at = bytes.windows(6).position(|part| part == b"\"late\"");
            let from = at.map_or(usize::MAX, |at| at / 4096 * 4096 / SECTORS);
            let sectors = from..bytes.len() / SECTORS;
            spoiled.extend(sectors.map(|sector| (path.clone(), sector as u64)));
        }
        spoiled.iter().for_each(|(path, sector)| sim.spoil_sector(path, *sector));
        let mut store = open(&sim);
        assert!(matches!(store.health(), Health::ReadOnly(_)), "{told}: more may be lost");
        for (session, expected) in ["one", "other"].iter().zip(&expected) {
            assert_eq!(events_of(&store, &key(session)).await, *expected, "{told}");
        }
        assert!(store.repair_store(true).await.unwrap().accepted, "{told}");
        // The file is reused: only the numbers are checked.
        spoiled.iter().for_each(|(path, sector)| sim.restore_sector(path, *sector));
        for start in 0..3 {
            assert_eq!(store.health(), Health::Ready, "{told}, start {start}");
            for (session, expected) in ["one", "other"].iter().zip(&mut expected) {
                assert_eq!(events_of(&store, &key(session)).await, *expected, "{told}, {start}");
                append(&store, &key(session), batch([event("{\"behind\":1}")])).await.unwrap();
                *expected = events_of(&store, &key(session)).await;
            }
            if power {
                sim.power_loss()
            } else {
                sim.kill()
            }
            store = open(&sim);
        }
        for (session, expected) in ["one", "other"].iter().zip(&expected) {
            assert_eq!(events_of(&store, &key(session)).await, *expected, "{told}");
        }
        assert_eq!(store.verify(&key("one").scope, None).await.unwrap().damage, [], "{told}");
    }
}
