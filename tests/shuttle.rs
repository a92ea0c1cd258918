//! The engine's threads under a scheduler that tries one interleaving after another: writers,
//! readers, the committer, the flusher and a close. A lost wake-up, a leadership that no thread
//! holds, and two locks taken in both orders are reported as a deadlock: no timer fires here. It
//! must be built with `RUSTFLAGS="--cfg shuttle"`; without it no test runs.

#![cfg(shuttle)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use sessionlog::{
    env::planted::{Defect, plant},
    event::{Batch, EventType, NewEvent, Origin, Position, Range, Scope, SessionId, SessionKey},
    store::{
        FillDirection, NewSession, ReadRequest, Store, StoreError,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::{Fault, Op, Sim};
use shuttle::{
    Config, Runner,
    future::block_on,
    scheduler::{PctScheduler, RandomScheduler},
    thread,
};

fn options() -> StoreOptions {
    StoreOptions {
        journal_file_bytes: 32 << 10,
        journal_retained_bytes: 64 << 10,
        segment_bytes_max: 4 << 10,
        ..StoreOptions::default()
    }
}

fn key(session: &str) -> SessionKey {
    SessionKey { scope: Scope::local(), session: SessionId::new(session).unwrap() }
}

fn one_event() -> Batch {
    let event = NewEvent {
        id: None,
        kind: EventType::new("user.message").unwrap(),
        origin: Origin::User,
        created_at: None,
        position: None,
        body: Bytes::from_static(b"{}"),
    };
    Batch { events: [event].into(), ..Batch::default() }
}

/// Three writers of two sessions, one that goes away while its frame is under way, a reader, and a
/// close behind them; with `fails` a sync fails.
fn side_by_side(fails: bool) {
    let sim = Sim::new(1);
    let store = LocalStore::open(&sim.env(), options()).unwrap();
    for session in ["a", "b"] {
        let new = NewSession { id: Some(key(session).session), ..NewSession::default() };
        block_on(store.create(&Scope::local(), new)).unwrap();
    }
    if fails {
        sim.fail_next(Op::Sync, Fault::Io, false);
    }
    let write = |session: &'static str| {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let mut kept: u64 = 0;
            for _ in 0..2 {
                match block_on(store.append(&key(session), one_event())) {
                    Ok(_) => kept += 1,
                    Err(StoreError::OutcomeUnknown { .. }) if fails => {}
                    Err(error) => panic!("{error}"),
                }
            }
            kept
        })
    };
    let writers = [("a", write("a")), ("a", write("a")), ("b", write("b"))];
    let gone = {
        let store = Arc::clone(&store);
        thread::spawn(move || match store.append(&key("b"), one_event()).now_or_never() {
            None | Some(Ok(_)) => {}
            Some(Err(error)) => assert!(fails, "{error}"),
        })
    };
    let seen = seen(&store, "a");
    let mut kept = [("a", 0), ("b", 0)];
    for (session, writer) in writers {
        let done = writer.join().unwrap();
        kept.iter_mut().filter(|(name, _)| *name == session).for_each(|(_, all)| *all += done);
    }
    gone.join().unwrap();
    // A frame of a writer that died is there or not, and no other frame depends on it.
    match block_on(store.append(&key("b"), one_event())) {
        Ok(_) => kept[1].1 += 1,
        Err(error) => assert!(fails, "{error}"),
    }
    for ((session, kept), open) in kept.into_iter().zip([0, 1]) {
        let there = self::seen(&store, session);
        let more = there.checked_sub(kept);
        assert!(more.is_some_and(|more| fails || more <= open), "{session}: {kept}, {there} there");
    }
    assert!(self::seen(&store, "a") >= seen, "what was seen is seen ever after");
    block_on(store.close());
}

/// Number of events a reader sees; they lie side by side from the first on.
fn seen(store: &Arc<dyn Store>, session: &str) -> u64 {
    let read = ReadRequest {
        range: Range::new(Position::ZERO, Position(u64::MAX)),
        events_max: usize::MAX,
        bytes_max: usize::MAX,
        fill: FillDirection::Forward,
        allow_gaps: false,
    };
    let events = block_on(store.read(&key(session), read)).unwrap().events;
    assert!((0..).zip(&events).all(|(position, event)| event.position == Position(position)));
    events.len() as u64
}

/// Number of orders of the threads that each way of choosing them tries.
fn interleavings() -> usize {
    std::env::var("SESSIONLOG_INTERLEAVINGS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// Random orders, then such as change hands seldom.
fn in_many_orders(fails: bool) {
    let mut config = Config::new();
    // What opens a store needs more than a scheduler's tasks usually do.
    config.stack_size = 1 << 20;
    let random = RandomScheduler::new(interleavings());
    Runner::new(random, config.clone()).run(move || side_by_side(fails));
    let seldom = PctScheduler::new(3, interleavings());
    Runner::new(seldom, config).run(move || side_by_side(fails));
    eprintln!("orders of threads {}", 2 * interleavings());
}

#[test]
fn writers_readers_and_a_close_wait_for_each_other_in_every_order_tried() {
    in_many_orders(false);
}

#[test]
fn a_failed_sync_leaves_no_caller_waiting() {
    in_many_orders(true);
}

#[test]
fn a_lost_wake_up_is_detected() {
    const CHILD: &str = "SESSIONLOG_LOSES_WAKE_UPS";
    if std::env::var(CHILD).is_ok() {
        plant(Defect::LoseWakeUp);
        return in_many_orders(false);
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_lost_wake_up_is_detected"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(!child.status.success() && said.contains("deadlock"), "{said}");
}
