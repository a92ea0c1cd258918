//! The embedded engine on a failing disk: every acknowledged event exists afterwards, batches are
//! complete, and every event was sent. A seed in a message reproduces its failure:
//! `SESSIONLOG_SEED=n cargo test --test it crash::`.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sessionlog::store::{Maintain, Store, local::LocalStore};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    engines::{append, batch, create, event, key, small},
    life::{ROOMY, Run, interrupted, life, runtime, sweep, torn},
    nth::{Nth, cases},
    witness::Flaw,
};

#[test]
fn stores_that_crash_anywhere_keep_every_acknowledged_event_and_add_none() {
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
fn a_crash_within_any_call_keeps_every_acknowledged_event() {
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

/// Runs calls that fail, once or persistently, on a disk that recovers in between.
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
fn a_failing_call_keeps_every_acknowledged_event() {
    sweep(16, async |seed| failing(seed, None).await);
}

/// Sends the same requests, forks among them, with a fault at one call; returns the number of calls
/// without a fault.
async fn run_with_fault(seed: u64, case: Option<Nth>) -> u64 {
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
fn a_failure_of_any_single_call_keeps_every_acknowledged_event() {
    let runtime = runtime();
    // Without forks, and with them in plaintext and encrypted.
    for seed in [1, 2, 3] {
        let calls = runtime.block_on(run_with_fault(seed, None));
        assert!(calls > 200, "{calls} calls are hardly a run");
        for case in cases(calls, 255) {
            let run = AssertUnwindSafe(run_with_fault(seed, Some(case))).catch_unwind();
            assert!(runtime.block_on(run).is_ok(), "seed {seed}, {case:?}");
        }
    }
}

/// Makes a sync fail; a start after a kill serves the bytes on the device, and so does the next.
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
    // The page cache of a killed process shows bytes that the device never received.
    run.sim.kill();
    drop(store);
    let store = run.judge().await;
    run.work(&store, 5).await;
    run.sim.power_loss();
    drop(store);
    run.judge().await;
}

#[test]
fn a_failed_sync_keeps_acknowledged_events_over_a_kill_and_a_power_loss() {
    sweep(30, async |seed| believed(seed, None).await);
}

#[test]
fn a_crash_at_any_call_of_a_flush_keeps_every_event() {
    sweep(10, async |seed| interrupted(seed, None).await);
}

#[test]
fn complete_frames_after_a_torn_frame_are_never_recovered() {
    sweep(20, async |seed| torn(seed, None).await);
}

/// Compares each copy of a torn tail that a start set aside with the journal file it is of. The
/// power may have failed at a call of an earlier start. Returns the number of copies, and true if
/// there was such a call.
async fn check_torn_copies(seed: u64, call: Option<u64>) -> (usize, bool) {
    let sim = Sim::new(seed);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
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
        drop(LocalStore::open_local(&sim.env(), small()));
        fell = sim.strikes() > before;
        sim.heal();
        sim.power_loss();
    }
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
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
fn a_torn_tail_is_quarantined_whole_despite_a_crash_at_any_call_of_recovery() {
    let runtime = runtime();
    let (mut torn, mut died) = (0, 0);
    for seed in 0..20 {
        let (copies, _) = runtime.block_on(check_torn_copies(seed, None));
        if copies == 0 {
            continue;
        }
        torn += 1;
        for call in 0.. {
            let (kept, fell) = runtime.block_on(check_torn_copies(seed, Some(call)));
            assert_eq!(kept, copies, "seed {seed}: after call {call} of a start");
            if !fell {
                break;
            }
            died += 1;
        }
    }
    assert!(torn > 5 && died > 50 * torn, "{torn} torn, {died} starts that died");
}

/// Damages a sector with acknowledged frames by a failed sync; the engine makes one more write.
pub async fn spoiled(seed: u64, flaw: Option<Flaw>) {
    let mut run = Run::flawed(seed, flaw, ROOMY);
    let store = run.judge().await;
    run.work(&store, 10).await;
    // The next sync is the journal's: only the journal rewrites durable bytes.
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
fn a_full_disk_rejects_appends_until_space_is_freed() {
    sweep(20, async |seed| {
        let mut run = Run::new(seed);
        let store = run.judge().await;
        run.work(&store, 10).await;
        run.sim.set_capacity(Some(run.sim.used() + run.below(60_000)));
        run.work(&store, 60).await;
        run.sim.set_capacity(None);
        // As in the background: space reserved for deletions and used by one is reserved again.
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
fn a_second_owner_is_rejected_while_the_first_runs() {
    let sim = Sim::new(1);
    runtime().block_on(async {
        let first = LocalStore::open(&sim.env(), small()).unwrap();
        let second = LocalStore::open(&sim.env(), small()).err();
        let owned = sessionlog::store::local::OpenError::Owned;
        assert_eq!(second.map(|error| error.to_string()), Some(owned.to_string()));
        sim.kill();
        drop(first);
        assert!(LocalStore::open(&sim.env(), small()).is_ok(), "a dead owner holds nothing");
    });
}

/// Runs all kinds of requests with faults; returns every disk call, and a random number.
async fn trace_run(seed: u64) -> (Vec<String>, u64) {
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
fn the_same_seed_makes_the_engine_issue_the_same_calls() {
    sweep(4, async |seed| {
        let (first, second) = (trace_run(seed).await, trace_run(seed).await);
        let apart = first.0.iter().zip(&second.0).position(|(a, b)| a != b);
        assert_eq!(apart.map(|at| (&first.0[at], &second.0[at])), None, "call {apart:?}");
        assert_eq!((first.0.len(), first.1), (second.0.len(), second.1));
    });
}
