//! Known bugs of stores with the same design (docs/trials.md, "What others got wrong"): one test
//! for each.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{Either, select},
};
use sessionlog::{
    event::{BatchKey, Lsn, Position, SessionHash},
    log::{ChainValue, Frame, FrameHeader, FrameKind},
    store::{Health, Maintain, SessionUpdate, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, key, named, small},
    nth::Nth,
};

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

#[tokio::test]
async fn a_start_overwrites_no_file_that_holds_data() {
    let sim = Sim::new(51);
    let store = open(&sim);
    create(&store, "s").await;
    for _ in 0..60 {
        let body = format!("\"{}\"", "x".repeat(2_000));
        append(&store, &key("s"), batch([event(&body)])).await.unwrap();
    }
    sim.power_loss();
    drop(store);
    let (before, files) = (sim.calls(), sim.files());
    let expected: Vec<_> = files.iter().map(|path| sim.read_durable(path)).collect();
    let store = open(&sim);
    let writes = |op| matches!(op, Op::Write | Op::Create | Op::Rename | Op::Remove);
    let trace = sim.trace().split_off(usize::try_from(before).unwrap());
    let written: Vec<_> = trace.iter().filter(|call| writes(call.op)).collect();
    assert!(written.iter().all(|call| &*call.path == "LOCK"), "{written:?}");
    let now: Vec<_> = files.iter().map(|path| sim.read_durable(path)).collect();
    assert!(expected == now, "a start writes nothing");
    assert_eq!(events_of(&store, &key("s")).await.len(), 60);
}

#[test]
fn a_frame_with_a_zeroed_payload_is_invalid() {
    let header = FrameHeader {
        kind: FrameKind::Request,
        length: 64,
        compressed: false,
        count: 1,
        events: 1,
        first_lsn: Lsn(1),
        synced_lsn: Lsn(1),
        first_position: Position(0),
        session: SessionHash([1; 32]),
        chain: ChainValue([2; 32]),
        control_chain: ChainValue([3; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    let mut bytes = Vec::new();
    header.write(9, &[7; 64], &mut bytes);
    assert!(Frame::read(9, &Bytes::from(bytes.clone())).is_ok());
    // The file size reached the disk and the data did not.
    let payload = bytes.len() - 64;
    bytes[payload..].fill(0);
    assert!(Frame::read(9, &Bytes::from(bytes)).is_err());
}

#[tokio::test]
async fn a_torn_write_of_a_quiet_session_is_dropped() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let store = open(&sim);
        for session in ["quiet", "busy"] {
            create(&store, session).await;
        }
        append(&store, &key("quiet"), batch([event("{\"n\":0}")])).await.unwrap();
        store.flush().unwrap();
        // A power loss tears its last write, which was not acknowledged.
        sim.fail_next(Op::Write, Fault::PowerLoss, false);
        let torn = format!("{{\"torn\":\"{}\"}}", "x".repeat(3_000));
        append(&store, &key("quiet"), batch([event(&torn)])).await.unwrap_err();
        drop(store);
        let mut kept = None;
        for start in 0..4 {
            let store = open(&sim);
            assert_eq!(store.recovery().damage, Vec::<String>::new(), "seed {seed}");
            let events = events_of(&store, &key("quiet")).await;
            // The write may be complete on the device; later starts must agree with the first.
            let before = kept.get_or_insert_with(|| events.clone());
            assert_eq!(&events, before, "seed {seed}, start {start}");
            append(&store, &key("busy"), batch([event(&torn)])).await.unwrap();
            store.flush().unwrap();
            sim.power_loss();
        }
    }
}

#[tokio::test]
async fn an_acknowledged_delete_survives_every_restart() {
    for flushed_before in [false, true] {
        for flushed_after in [false, true] {
            let sim = Sim::new(53);
            let store = open(&sim);
            create(&store, "s").await;
            append(&store, &key("s"), batch([event("{}")])).await.unwrap();
            if flushed_before {
                store.flush().unwrap();
            }
            let delete = SessionUpdate { discard: true, ..SessionUpdate::default() };
            store.change(&key("s"), delete).await.unwrap();
            if flushed_after {
                store.flush().unwrap();
            }
            for start in 0..4 {
                sim.power_loss();
                let store = open(&sim);
                let found = store.info(&key("s")).await;
                assert!(matches!(found, Err(StoreError::SessionDeleted { .. })), "start {start}");
                store.flush().unwrap();
            }
        }
    }
}

/// Yields to other tasks `count` times.
async fn yield_turns(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_cancelled_request_leaves_no_reader_running() {
    let sim = Sim::new(54);
    let store: Arc<dyn Store> = LocalStore::open(&sim.env(), small()).unwrap();
    create(&*store, "s").await;
    for n in 0..100 {
        let mut watch = store.watch(&key("s")).await.unwrap();
        watch.borrow_and_update();
        assert!(watch.changed().now_or_never().is_none(), "nothing moved");
        drop(watch);
        // An append whose answer is not awaited: it happens completely or not at all.
        let sent = batch([named(&format!("e{n}"), "{}")]);
        drop(append(&*store, &key("s"), sent.clone()).now_or_never());
        let session = key("s");
        let again = Box::pin(append(&*store, &session, sent));
        let Either::Left((again, _)) = select(again, Box::pin(yield_turns(100))).await else {
            panic!("what was given up holds up what comes after it");
        };
        let again = again.unwrap();
        assert_eq!(again.first_position, Position(n), "no second one");
    }
    assert_eq!(events_of(&*store, &key("s")).await.len(), 100);
}

/// Runs a flush whose n-th call fails, then checks that nothing acknowledged is lost; returns true
/// if that call was made.
async fn flushing_fails_at(case: Nth) -> bool {
    let (sim, why) = (Sim::new(55 + case.call), format!("{case:?}"));
    let store = open(&sim);
    for session in ["a", "b"] {
        create(&store, session).await;
        append(&store, &key(session), batch([event("{}")])).await.unwrap();
    }
    let before = sim.calls();
    case.plan(&sim);
    let _ = store.flush();
    let fell = sim.calls() > before + case.call;
    sim.heal();
    // Both writers wrap the journal around: events that were not flushed would be lost.
    for _ in 0..60 {
        let body = format!("\"{}\"", "x".repeat(2_000));
        append(&store, &key("b"), batch([event(&body)])).await.unwrap();
    }
    for _ in 0..3 {
        store.flush().unwrap();
    }
    for _ in 0..60 {
        let body = format!("\"{}\"", "y".repeat(2_000));
        append(&store, &key("b"), batch([event(&body)])).await.unwrap();
    }
    sim.power_loss();
    drop(store);
    let store = open(&sim);
    assert_eq!(store.recovery().damage, Vec::<String>::new(), "{why}");
    assert_eq!(events_of(&store, &key("a")).await.len(), 1, "{why}");
    assert_eq!(events_of(&store, &key("b")).await.len(), 121, "{why}");
    fell
}

#[tokio::test]
async fn a_failed_flush_keeps_every_acknowledged_event() {
    for fault in [Fault::Io, Fault::Full, Fault::Short] {
        for lasting in [false, true] {
            let mut call = 0;
            while flushing_fails_at(Nth { call, fault, lasting }).await {
                call += 1;
            }
            // A persistent fault ends earlier, at the call where the engine gives up the rest.
            assert!(call > 3, "{fault:?}: {call} calls are hardly a flush");
        }
    }
}

#[tokio::test]
async fn a_failed_sync_is_not_retried_on_the_same_file() {
    let sim = Sim::new(56);
    let store = open(&sim);
    create(&store, "s").await;
    append(&store, &key("s"), batch([event("{}")])).await.unwrap();
    sim.fail_next(Op::Sync, Fault::Io, false);
    let before = usize::try_from(sim.calls()).unwrap();
    let unknown = append(&store, &key("s"), batch([named("x", "{}")])).await;
    assert!(matches!(unknown, Err(StoreError::OutcomeUnknown { .. })));
    append(&store, &key("s"), batch([named("x", "{}")])).await.unwrap();
    assert_eq!(store.health(), Health::Ready);
    let trace = sim.trace().split_off(before);
    let syncs: Vec<_> = trace.iter().filter(|call| call.op == Op::Sync).collect();
    let again = syncs.iter().skip(1).any(|call| call.path == syncs[0].path);
    assert!(syncs.len() > 1 && !again, "{syncs:?}");
    sim.kill();
    drop(store);
    assert_eq!(events_of(&open(&sim), &key("s")).await.len(), 2);
}

#[tokio::test]
async fn a_retry_of_a_failed_write_is_not_answered_as_a_duplicate() {
    for fault in [Fault::Io, Fault::Full, Fault::Short] {
        let sim = Sim::new(57);
        let store = open(&sim);
        create(&store, "s").await;
        let mut sent = batch([named("a", "{}"), event("{\"n\":1}")]);
        sent.key = Some(BatchKey::new("turn").unwrap());
        sim.fail_next(Op::Write, fault, false);
        append(&store, &key("s"), sent.clone()).await.unwrap_err();
        sim.heal();
        let retried = append(&store, &key("s"), sent.clone()).await.unwrap();
        assert!(!retried.repeated, "{fault:?}: nothing of the failed one is known");
        let known = append(&store, &key("s"), sent).await.unwrap();
        assert!(known.repeated && known.first_position == retried.first_position, "{fault:?}");
        sim.power_loss();
        drop(store);
        assert_eq!(events_of(&open(&sim), &key("s")).await.len(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn a_torn_settled_file_loses_no_event() {
    let sim = Sim::new(58);
    let store = open(&sim);
    for n in 0..4 {
        create(&store, &format!("s{n}")).await;
        append(&store, &key(&format!("s{n}")), batch([event("{}")])).await.unwrap();
        store.flush().unwrap();
    }
    sim.power_loss();
    drop(store);
    let before = sim.files();
    for number in 0..2 {
        let path = format!("settled/{number}");
        let whole = sim.read_durable(&path).unwrap();
        for cut in [0, 10, 64, whole.len() / 2, whole.len() - 1] {
            sim.truncate_durable(&path, cut as u64);
            let store = open(&sim);
            for n in 0..4 {
                let events = events_of(&store, &key(&format!("s{n}"))).await;
                assert_eq!(events.len(), 1, "{path} cut to {cut}: s{n}");
            }
            drop(store);
            sim.kill();
            for path in &before {
                assert!(sim.files().contains(path), "{path} was deleted");
            }
            sim.truncate_durable(&path, 0);
            sim.write_durable(&path, 0, &whole);
        }
    }
}
