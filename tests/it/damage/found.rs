//! Faults found by the sweeps over a damaged store, each reproduced alone. It must not sweep.

use sessionlog::{
    env::{MasterKeys, secrets::Secret},
    event::Position,
    store::{Health, Maintain, ReadRequest, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::Sim;

use super::image::{frames, used};
use crate::{
    engines::{append, batch, create, event, events_of, everything, key, small, whole_of},
    forks::fork,
};

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

fn replace_file(sim: &Sim, path: &str, bytes: &[u8]) {
    sim.truncate_durable(path, 0);
    sim.write_durable(path, 0, bytes);
}

async fn append_body(store: &LocalStore, session: &str, body: &str) {
    append(store, &key(session), batch([event(body)])).await.unwrap();
}

#[tokio::test]
async fn a_settled_file_without_its_last_generations_is_rewritten() {
    for path in ["settled/0", "settled/1"] {
        let sim = Sim::new(41);
        let store = open(&sim);
        let before = sim.read_durable(path).unwrap();
        let names = ["a", "b", "c", "d"];
        for name in names {
            create(&store, name).await;
            append_body(&store, name, "{}").await;
            store.flush().unwrap();
        }
        sim.power_loss();
        drop(store);
        replace_file(&sim, path, &before);
        for start in 1..4 {
            let store = open(&sim);
            append_body(&store, "a", "{}").await;
            store.flush().unwrap();
            for name in names {
                let count = if name == "a" { 1 + start } else { 1 };
                assert_eq!(events_of(&store, &key(name)).await.len(), count, "{path} {start}");
            }
            sim.power_loss();
        }
    }
}

#[tokio::test]
async fn a_watermark_covers_the_last_frame_of_a_full_journal_file_once_idle() {
    let sim = Sim::new(42);
    let store = open(&sim);
    create(&store, "s").await;
    let file_bytes = small().journal_file_bytes as usize;
    let (mut last, mut said) = (0..0, 0);
    while last.end + 4096 <= file_bytes {
        append_body(&store, "s", &format!("\"{}\"", "x".repeat(700))).await;
        said += 1;
        let bytes = sim.read_durable("journal/0").unwrap();
        let frames = frames(used(&bytes).unwrap().salt, &bytes);
        last = frames.last().unwrap().0.clone();
    }
    store.write_idle_watermark();
    sim.power_loss();
    drop(store);
    sim.flip("journal/0", last.start as u64 + 300, 0);
    let store = open(&sim);
    let info = store.info(&key("s")).await.unwrap();
    assert_eq!((info.tail, info.damage.len()), (Position(said), 1), "{:?}", store.recovery());
    assert_eq!(whole_of(&store, &key("s")).await.len() as u64, said - 1);
}

fn master(current: u8, previous: Option<u8>) -> Option<MasterKeys> {
    let secret = |byte| Secret::new([byte; 32]);
    Some(MasterKeys { current: secret(current), previous: previous.map(secret) })
}

#[tokio::test]
async fn a_keys_file_from_before_a_rotation_does_not_hide_newer_keys() {
    for path in ["keys/0", "keys/1"] {
        let sim = Sim::new(43);
        sim.set_keys(master(1, None));
        let store = open(&sim);
        create(&store, "s").await;
        append_body(&store, "s", "{}").await;
        let before = sim.read_durable(path).unwrap();
        drop(store);
        for next in [2, 3] {
            sim.kill();
            sim.set_keys(master(next, Some(next - 1)));
            let store = open(&sim);
            while store.rotate_keys(9).await.unwrap().previous.is_some() {}
            drop(store);
            sim.kill();
            sim.set_keys(master(next, None));
            replace_file(&sim, path, &before);
            assert_eq!(events_of(&open(&sim), &key("s")).await.len(), 1, "{path} {next}");
        }
    }
}

#[tokio::test]
async fn a_fork_of_a_session_with_a_lost_key_serves_its_own_events() {
    for flushed in [true, false] {
        let sim = Sim::encrypted(44);
        let store = open(&sim);
        create(&store, "parent").await;
        append_body(&store, "parent", "\"of the parent\"").await;
        fork(&store, "parent", 1, "child").await.unwrap();
        append_body(&store, "child", "\"of the child\"").await;
        if flushed {
            store.flush().unwrap();
        }
        sim.power_loss();
        drop(store);
        for path in ["keys/0", "keys/1"] {
            // The first key is the parent's.
            sim.flip(path, 128 + 70, 0);
        }
        let store = open(&sim);
        assert_eq!(store.health() == Health::Ready, flushed, "its creation cannot be read");
        let strict = store.read(&key("child"), everything()).await;
        assert!(matches!(strict, Err(StoreError::SessionDamaged { .. })), "{flushed}: {strict:?}");
        let lenient = ReadRequest { allow_gaps: true, ..everything() };
        let slice = store.read(&key("child"), lenient).await.unwrap();
        let bodies: Vec<_> = slice.events.iter().map(|event| event.body.clone()).collect();
        assert_eq!(bodies, ["\"of the child\""], "{flushed}");
        assert_eq!(slice.gaps.len(), 1, "{flushed}: {:?}", slice.gaps);
        if flushed {
            let slice = store.read(&key("parent"), lenient).await.unwrap();
            assert_eq!((slice.events.len(), slice.gaps.len()), (0, 1), "{:?}", slice.gaps);
        }
    }
}

#[tokio::test]
async fn positions_of_a_lost_frame_before_a_damaged_frame_are_reported_as_lost() {
    let sim = Sim::new(45);
    let store = open(&sim);
    create(&store, "s").await;
    for word in ["\"first\"", "\"second\"", "\"third\""] {
        append_body(&store, "s", word).await;
    }
    store.write_idle_watermark();
    sim.power_loss();
    drop(store);
    let bytes = sim.read_durable("journal/0").unwrap();
    let frames = frames(used(&bytes).unwrap().salt, &bytes);
    // The second loses its header, the third its payload.
    sim.flip("journal/0", frames[2].0.start as u64 + 60, 0);
    sim.flip("journal/0", frames[3].0.start as u64 + 200, 0);
    let store = open(&sim);
    let slice =
        store.read(&key("s"), ReadRequest { allow_gaps: true, ..everything() }).await.unwrap();
    let lost: Vec<u64> =
        slice.gaps.iter().flat_map(|gap| gap.range.from.0..gap.range.to.0).collect();
    assert_eq!((slice.tail, lost), (Position(3), vec![1, 2]), "{:?}", slice.gaps);
}
