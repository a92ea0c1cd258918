//! The embedded engine on a disk that breaks: whatever was acknowledged is there afterwards,
//! batches are whole, and every event was sent. A seed in a message reproduces its failure:
//! `SESSIONLOG_SEED=n cargo test --test it crash::`.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sessionlog::store::{Maintain, Store, local::Local};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    engines::{append, batch, create, event, key, small},
    life::{ROOMY, Run, interrupted, life, runtime, sweep, torn},
    nth::{Nth, cases},
    witness::Flaw,
};

#[test]
fn lives_that_end_anywhere_lose_nothing_and_invent_nothing() {
    sweep(20, async |seed| drop(life(seed, None).await));
}

#[test]
fn acknowledged_events_survive_kills_and_power_losses() {
    sweep(20, async |seed| {
        let mut run = Run::new(seed);
        for _ in 0..5 {
            let store = run.judge().await;
            let requests = run.below(60);
            run.work(&store, requests).await;
            if run.below(4) == 0 {
                store.close().await;
            }
            run.die();
            drop(store);
        }
        run.judge().await;
    });
}

#[test]
fn a_crash_within_any_call_loses_nothing() {
    sweep(30, async |seed| {
        let mut run = Run::new(seed);
        for _ in 0..4 {
            let fault = if run.below(2) == 0 { Fault::Kill } else { Fault::PowerLoss };
            run.sim.fail_call(run.sim.calls() + run.below(150), fault, false);
            if let Some(store) = run.open() {
                let requests = 20 + run.below(60);
                run.work(&store, requests).await;
            }
            run.die();
            drop(run.judge().await);
            run.sim.kill();
        }
    });
}

/// Calls that fail, once or persistently, and a disk that heals in between.
pub async fn failing(seed: u64, flaw: Option<Flaw>) {
    let mut run = Run::flawed(seed, flaw, ROOMY);
    for _ in 0..4 {
        let faults = [Fault::Io, Fault::Full, Fault::Short];
        let fault = faults[usize::try_from(run.below(3)).unwrap()];
        let persistent = run.below(3) == 0;
        run.sim.fail_call(run.sim.calls() + run.below(200), fault, persistent);
        if let Some(store) = run.open() {
            let requests = 20 + run.below(40);
            run.work(&store, requests).await;
            run.sim.heal();
            let requests = run.below(20);
            run.work(&store, requests).await;
        }
        run.die();
        drop(run.judge().await);
        run.sim.kill();
    }
}

#[test]
fn a_failing_call_loses_nothing() {
    sweep(16, async |seed| failing(seed, None).await);
}

/// The same requests, forks among them, with a fault at one call of them; answers how many calls
/// they make without.
async fn one_fault(seed: u64, case: Option<Nth>) -> u64 {
    let mut run = Run::new(seed);
    if let Some(case) = case {
        case.plan(&run.sim);
    }
    if let Some(store) = run.open() {
        run.work(&store, 25).await;
        store.close().await;
    }
    if run.sim.lives() == 0 {
        run.sim.kill();
    }
    if let Some(store) = run.open() {
        run.work(&store, 25).await;
    }
    let calls = run.sim.calls();
    run.die();
    drop(run.judge().await);
    calls
}

#[test]
fn every_call_of_a_run_may_be_the_one_that_fails() {
    let runtime = runtime();
    // Without forks, and with them in plaintext and encrypted.
    for seed in [1, 2, 3] {
        let calls = runtime.block_on(one_fault(seed, None));
        assert!(calls > 200, "{calls} calls are hardly a run");
        for case in cases(calls, 255) {
            let run = AssertUnwindSafe(one_fault(seed, Some(case))).catch_unwind();
            assert!(runtime.block_on(run).is_ok(), "seed {seed}, {case:?}");
        }
    }
}

/// A sync fails; a start after a kill serves what the device has, and so does the next.
pub async fn believed(seed: u64, flaw: Option<Flaw>) {
    let mut run = Run::flawed(seed, flaw, ROOMY);
    let store = run.judge().await;
    run.work(&store, 10).await;
    let op = [Op::Sync, Op::Sync, Op::SyncAll, Op::SyncDir];
    run.sim.fail_next(op[usize::try_from(run.below(4)).unwrap()], Fault::Io, false);
    for _ in 0..40 {
        run.work(&store, 1).await;
        if run.sim.struck() {
            break;
        }
    }
    let requests = [0, 1, 2, 20][usize::try_from(run.below(4)).unwrap()];
    run.work(&store, requests).await;
    // The page cache of a killed process shows what the device never got.
    run.sim.kill();
    drop(store);
    let store = run.judge().await;
    run.work(&store, 5).await;
    run.sim.power_loss();
    drop(store);
    run.judge().await;
}

#[test]
fn a_failed_sync_is_believed() {
    sweep(30, async |seed| believed(seed, None).await);
}

#[test]
fn flushing_may_end_at_any_call() {
    sweep(10, async |seed| interrupted(seed, None).await);
}

#[test]
fn whole_frames_after_a_torn_frame_are_never_recovered() {
    sweep(20, async |seed| torn(seed, None).await);
}

/// Compares each copy of a torn tail that a start set aside with the journal file it is of. The
/// power may have failed at a call of an earlier start. Returns the number of copies, and true if
/// there was such a call.
async fn set_aside(seed: u64, call: Option<u64>) -> (usize, bool) {
    let sim = Sim::new(seed);
    let store = Local::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    append(&store, &key("s"), batch([event("{}")])).await.unwrap();
    sim.fail_next(Op::Write, Fault::PowerLoss, false);
    let torn = format!("{{\"torn\":\"{}\"}}", "x".repeat(9_000));
    append(&store, &key("s"), batch([event(&torn)])).await.unwrap_err();
    drop(store);
    let mut fell = false;
    if let Some(call) = call {
        let before = sim.strikes();
        sim.fail_call(sim.calls() + call, Fault::PowerLoss, false);
        drop(Local::open_local(&sim.env(), small()));
        fell = sim.strikes() > before;
        sim.heal();
        sim.power_loss();
    }
    let store = Local::open_local(&sim.env(), small()).unwrap();
    sim.power_loss();
    let journal = sim.files().into_iter().filter(|path| path.starts_with("journal/"));
    let journal: Vec<_> = journal.filter_map(|path| sim.read_durable(&path)).collect();
    let copies = &store.recovery().quarantined;
    assert_eq!(copies.is_empty(), store.recovery().torn_bytes == 0, "seed {seed}, {call:?}");
    for name in copies {
        let at = name.strip_suffix(".torn").and_then(|name| name.rsplit('-').next()).unwrap();
        let at: usize = at.parse().unwrap();
        let kept = sim.read_durable(&format!("quarantine/{name}")).unwrap();
        let whole = journal.iter().filter_map(|file| file.get(at..)).any(|torn| {
            let rest = torn.strip_prefix(&*kept);
            rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
        });
        assert!(whole, "seed {seed}, {call:?}: {name} has not what was torn");
        let reason = sim.read_durable(&format!("quarantine/{name}.reason")).unwrap();
        assert!(!reason.contains(&0), "seed {seed}, {call:?}: {name} has no reason");
    }
    (copies.len(), fell)
}

#[test]
fn a_torn_tail_is_kept_to_its_last_byte_wherever_the_start_dies() {
    let runtime = runtime();
    let (mut torn, mut died) = (0, 0);
    for seed in 0..20 {
        let (copies, _) = runtime.block_on(set_aside(seed, None));
        if copies == 0 {
            continue;
        }
        torn += 1;
        for call in 0.. {
            let (kept, fell) = runtime.block_on(set_aside(seed, Some(call)));
            assert_eq!(kept, copies, "seed {seed}: after call {call} of a start");
            if !fell {
                break;
            }
            died += 1;
        }
    }
    assert!(torn > 5 && died > 50 * torn, "{torn} torn, {died} starts that died");
}

/// A failed sync spoils a sector that held acknowledged frames; the engine makes one more write.
pub async fn spoiled(seed: u64, flaw: Option<Flaw>) {
    let mut run = Run::flawed(seed, flaw, ROOMY);
    let store = run.judge().await;
    run.work(&store, 10).await;
    // The next sync is the journal's: only there is what was durable before repeated.
    run.sim.fail_next(Op::Sync, Fault::Spoil, false);
    while !run.sim.struck() {
        let sizes = run.sizes();
        let Some(session) = run.ledger.sessions().pop() else {
            run.ledger.create(&*store, &sizes, || false).await;
            continue;
        };
        let (key, number, batch) = run.ledger.send(&session, &sizes);
        let answer = store.append(&key, batch).await;
        run.ledger.answered(&key, number, answer, false);
    }
    let before = run.ledger.acknowledged;
    while run.ledger.acknowledged == before {
        run.work(&store, 1).await;
    }
    run.die();
    drop(store);
    run.judge().await;
}

#[test]
fn frames_of_a_failed_sync_are_written_to_another_file() {
    sweep(100, async |seed| spoiled(seed, None).await);
}

#[test]
fn a_full_disk_refuses_appends_until_there_is_room() {
    sweep(20, async |seed| {
        let mut run = Run::new(seed);
        let store = run.judge().await;
        run.work(&store, 10).await;
        run.sim.set_capacity(Some(run.sim.used() + run.below(60_000)));
        run.work(&store, 60).await;
        run.sim.set_capacity(None);
        // As it does in the background: where a deletion took the room kept back, it is made again.
        drop(store.flush());
        let before = run.ledger.acknowledged;
        run.work(&store, 30).await;
        assert!(run.ledger.acknowledged > before, "appends go on without a restart");
        run.sim.power_loss();
        drop(store);
        run.judge().await;
    });
}

#[test]
fn a_second_owner_is_refused_while_the_first_lives() {
    let sim = Sim::new(1);
    runtime().block_on(async {
        let first = Local::open(&sim.env(), small()).unwrap();
        let second = Local::open(&sim.env(), small()).err();
        let owned = sessionlog::store::local::OpenError::Owned;
        assert_eq!(second.map(|error| error.to_string()), Some(owned.to_string()));
        sim.kill();
        drop(first);
        assert!(Local::open(&sim.env(), small()).is_ok(), "a dead owner holds nothing");
    });
}

/// One run of everything at once; answers every call the engine made of its disk, and what it drew.
async fn traced(seed: u64) -> (Vec<String>, u64) {
    let mut run = Run::new(seed);
    for round in 0..6 {
        let fault = [Fault::Kill, Fault::PowerLoss, Fault::Io][round % 3];
        run.sim.fail_call(run.sim.calls() + run.below(300), fault, false);
        if let Some(store) = run.open() {
            run.work(&store, 60).await;
            store.close().await;
        }
        run.sim.power_loss();
        drop(run.judge().await);
        run.sim.kill();
    }
    let trace = run.sim.trace().iter().map(ToString::to_string).collect();
    (trace, u64::from_le_bytes(run.sim.env().random()))
}

#[test]
fn the_same_seed_gives_the_same_calls_of_the_engine() {
    sweep(4, async |seed| {
        let (first, second) = (traced(seed).await, traced(seed).await);
        let apart = first.0.iter().zip(&second.0).position(|(a, b)| a != b);
        assert_eq!(apart.map(|at| (&first.0[at], &second.0[at])), None, "call {apart:?}");
        assert_eq!((first.0.len(), first.1), (second.0.len(), second.1));
    });
}
