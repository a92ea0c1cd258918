//! Damage that an operator gives up: the loss is named in advance and stays a gap, no other event
//! is lost, later appends succeed, copies are kept, and a crash in the middle has no effect.

use sessionlog::{
    event::{Batch, BatchKey, Event, Position, Range},
    store::{
        FillDirection, Maintain, ReadRequest, RepairResult, Slice, Store, StoreError,
        local::LocalStore,
    },
};
use sessionlog_sim::{Fault, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, key, named, small, whole_of},
    nth::cases,
};

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

async fn slice(store: &dyn Store, session: &str, allow_gaps: bool) -> Result<Slice, StoreError> {
    let range = Range::new(Position::ZERO, Position(u64::MAX));
    let (events_max, bytes_max, fill) = (usize::MAX, usize::MAX, FillDirection::Forward);
    store.read(&key(session), ReadRequest { range, events_max, bytes_max, fill, allow_gaps }).await
}

/// Kind of damage to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Within a block of a sealed segment.
    Sealed,
    /// In the tables after the blocks: every event can still be read.
    Tables,
    /// Within a frame of an open segment.
    Open,
    /// A missing segment.
    Missing,
    /// The payload of the session's last frame in the journal.
    Journal,
}

const PLACES: [Place; 5] =
    [Place::Sealed, Place::Tables, Place::Open, Place::Missing, Place::Journal];

/// Creates a store with damage to `hurt`, and an intact `other`; returns the events of `hurt`.
async fn damaged_store(place: Place) -> (Sim, Vec<Event>) {
    let sim = Sim::new(31);
    let store = open(&sim);
    for session in ["hurt", "other"] {
        create(&store, session).await;
    }
    let before = sim.files();
    for n in 0..90_u32 {
        let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(40));
        append(&store, &key("hurt"), batch([named(&format!("e{n}"), &body)])).await.unwrap();
        if n % 15 == 14 {
            store.flush().unwrap();
        }
    }
    append(&store, &key("other"), batch([event("{}")])).await.unwrap();
    store.flush().unwrap();
    store.flush().unwrap();
    append(&store, &key("hurt"), batch([named("late", "{\"late\":\"words\"}")])).await.unwrap();
    append(&store, &key("other"), batch([event("{}")])).await.unwrap();
    let events = events_of(&store, &key("hurt")).await;
    if place != Place::Journal {
        for _ in 0..4 {
            store.flush().unwrap();
        }
    }
    sim.power_loss();
    drop(store);
    let new = sim.files().into_iter().filter(|path| !before.contains(path));
    let bytes = |path: &str| sim.read_durable(path).unwrap();
    let sizes = new.map(|path| (bytes(&path).len() as u64, path));
    let mut files: Vec<_> = sizes.filter(|(_, path)| path.starts_with("segments/")).collect();
    files.sort();
    let sealed = files.iter().find(|(_, path)| path.ends_with(".sealed")).unwrap().clone();
    match place {
        Place::Sealed => sim.flip(&sealed.1, 300, 3),
        Place::Tables => sim.flip(&sealed.1, sealed.0 - 100, 3),
        Place::Missing => sim.remove_durable(&sealed.1),
        Place::Open => {
            let own = sealed.1.split_once('-').unwrap().0;
            let open =
                files.iter().filter(|(_, path)| path.ends_with(".seg") && path.starts_with(own));
            let (_, last) = open.max_by_key(|(_, path)| path.clone()).unwrap();
            sim.flip(last, 192 + 192 + 30, 3);
        }
        Place::Journal => {
            let journal = sim.files().into_iter().filter(|path| path.starts_with("journal/"));
            for path in journal {
                let words = bytes(&path).windows(5).position(|part| part == b"words");
                words.into_iter().for_each(|at| sim.flip(&path, at as u64, 0));
            }
        }
    }
    (sim, events)
}

/// Compares a session with its events: all served or named missing, and later appends present.
async fn check_session(
    store: &dyn Store,
    events: &[Event],
    lost: &RepairResult,
    more: usize,
    told: &str,
) {
    let slice = slice(store, "hurt", false).await.unwrap();
    let gone = |at: u64| lost.gaps.iter().any(|gap| gap.range.contains(Position(at)));
    let whole = events.iter().filter(|event| !gone(event.position.0));
    let mut found = slice.events.iter();
    assert!(whole.eq(found.by_ref().take(slice.events.len() - more)), "{told}: others are served");
    let behind: Vec<u64> = found.map(|event| event.position.0).collect();
    let tail = events.len() as u64;
    assert_eq!(behind, (tail..tail + more as u64).collect::<Vec<_>>(), "{told}");
    let named: Vec<Range> = slice.gaps.iter().map(|gap| gap.range).collect();
    let lost: Vec<Range> =
        lost.gaps.iter().map(|gap| gap.range).filter(|range| !range.is_empty()).collect();
    assert_eq!(named, lost, "{told}: a gap is answered from then on");
    assert!(slice.gaps.iter().all(|gap| gap.accepted_at.is_some()), "{told}");
}

#[tokio::test]
async fn an_accepted_loss_stays_a_gap_and_later_appends_succeed() {
    for place in PLACES {
        let told = format!("{place:?}");
        let (sim, events) = damaged_store(place).await;
        let store = open(&sim);
        let served = whole_of(&store, &key("hurt")).await;
        let looked = store.repair(&key("hurt"), false).await.unwrap();
        assert!(!looked.accepted && !looked.gaps.is_empty(), "{told}");
        let refused = append(&store, &key("hurt"), batch([event("{}")])).await;
        assert!(matches!(refused, Err(StoreError::SessionDamaged { .. })), "{told}: looked only");
        assert!(slice(&store, "hurt", false).await.is_err() || place == Place::Tables, "{told}");
        let lost: u64 = looked.gaps.iter().map(|gap| gap.range.len()).sum();
        assert_eq!(served.len() as u64 + lost, events.len() as u64, "{told}: no more than is lost");

        let repaired = store.repair(&key("hurt"), true).await.unwrap();
        assert!(repaired.accepted && repaired.gaps == looked.gaps, "{told}");
        for copy in &repaired.copies {
            assert!(sim.read_durable(&format!("quarantine/{copy}")).is_some(), "{told}: {copy}");
        }
        let kept = sim.files().iter().filter(|path| path.starts_with("quarantine/")).count();
        assert!(kept > 0 || place == Place::Missing, "{told}: copies come first");
        check_session(&store, &events, &repaired, 0, &told).await;
        append(&store, &key("hurt"), batch([event("{\"behind\":0}")])).await.unwrap();
        let again = store.repair(&key("hurt"), true).await.unwrap();
        assert_eq!(again, RepairResult::default(), "{told}: a second repair finds nothing to do");
        for start in 0..4_usize {
            if start == 2 {
                store_closes(&sim).await;
            }
            sim.power_loss();
            let store = open(&sim);
            check_session(&store, &events, &repaired, 1 + start, &format!("{told} start {start}"))
                .await;
            append(&store, &key("hurt"), batch([event("{}")])).await.unwrap();
            let verified = store.verify(&key("hurt").scope, None).await.unwrap();
            assert_eq!(verified.damage, [], "{told} start {start}");
            assert_eq!(verified.accepted.len(), repaired.gaps.len(), "{told} start {start}");
            assert_eq!(whole_of(&store, &key("other")).await.len(), 2);
            if start % 2 == 1 {
                store.flush().unwrap();
                store.flush().unwrap();
            }
        }
    }
}

/// A segment of several blocks has its ids even without a block; the block's events are lost.
#[tokio::test]
async fn a_retry_of_an_event_given_up_by_repair_is_not_answered_as_stored() {
    let keyed = |n: u64| {
        let key = Some(BatchKey::new(&format!("k{n}")).unwrap());
        Batch { key, ..batch([named(&format!("e{n}"), "{}")]) }
    };
    let sim = Sim::new(33);
    let store = open(&sim);
    create(&store, "hurt").await;
    for n in 0..300 {
        append(&store, &key("hurt"), keyed(n)).await.unwrap();
        if n % 15 == 14 {
            store.flush().unwrap();
        }
    }
    store.close().await;
    let sealed = sim.files().into_iter().find(|path| path.ends_with(".sealed")).unwrap();
    sim.flip(&sealed, 300, 3);
    let store = open(&sim);
    let _ = whole_of(&store, &key("hurt")).await;
    let lost = store.repair(&key("hurt"), true).await.unwrap();
    let known = lost.gaps.iter().map(|gap| gap.range).find(|range| !range.is_empty()).unwrap();
    let retried = append(&store, &key("hurt"), keyed(known.from.0)).await;
    assert!(matches!(retried, Err(StoreError::SessionDamaged { .. })), "{retried:?}");
    append(&store, &key("hurt"), keyed(300)).await.unwrap();
}

async fn store_closes(sim: &Sim) {
    sim.kill();
    open(sim).close().await;
}

/// Crashes the machine with that fault's effect.
pub fn crash(sim: &Sim, fault: Fault) {
    if fault == Fault::Kill { sim.kill() } else { sim.power_loss() }
}

/// Returns another machine with the same device contents.
fn twin(sim: &Sim, seed: u64) -> Sim {
    let twin = Sim::new(seed);
    for path in sim.files().into_iter().filter(|path| path != "LOCK") {
        twin.write_durable(&path, 0, &sim.read_durable(&path).unwrap());
    }
    twin
}

#[tokio::test]
async fn a_crashed_repair_is_complete_or_has_no_effect() {
    for place in PLACES {
        let (image, events) = damaged_store(place).await;
        let calls = {
            let sim = twin(&image, 1);
            let store = open(&sim);
            let before = sim.calls();
            store.repair(&key("hurt"), true).await.unwrap();
            sim.calls() - before
        };
        for case in cases(calls, 11) {
            let sim = twin(&image, case.call);
            let told = format!("{place:?}, {case:?}");
            let store = open(&sim);
            case.plan(&sim);
            let _ = store.repair(&key("hurt"), true).await;
            sim.heal();
            crash(&sim, case.fault);
            drop(store);
            let store = open(&sim);
            let mut lost = store.repair(&key("hurt"), true).await.unwrap();
            if !lost.accepted {
                // The repair had completed.
                lost.gaps = store.info(&key("hurt")).await.unwrap().damage;
            }
            check_session(&store, &events, &lost, 0, &told).await;
            append(&store, &key("hurt"), batch([event("{}")])).await.unwrap();
        }
    }
}
