//! Defects planted into the protocol, one after another, each in a separate process: the checks
//! that the engine passes must detect every one of them. It must not weaken a check so that a
//! defect is detected sooner.

use std::{
    collections::VecDeque,
    ops::Range,
    panic::AssertUnwindSafe,
    process::Command,
    sync::{Mutex, PoisonError},
};

use futures_util::{FutureExt, future::BoxFuture};
use sessionlog::{
    env::planted::{Defect, plant},
    store::Store,
};

use crate::{
    bodies, crash, damage, encrypted, erased,
    life::{Run, interrupted, life, runtime, torn},
    mortal::expiring,
    proof::{parts, regressions},
    redacted,
    witness::Flaw,
};

/// Check that detects a defect: a run decided by one seed, which panics when a promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Lives of a store that end at any call.
    Life,
    /// Lives of a store whose sessions expire, fork and are removed.
    Expiring,
    /// Failing disk calls.
    Failing,
    /// A failed sync, then a kill, then a power loss.
    Believed,
    /// A flush that fails or dies at any call.
    Interrupted,
    /// A failed sync that spoiled other bytes in its sector.
    Spoiled,
    /// Frames of one size that share a write, and power that fails within it.
    Torn,
    /// One settled file missing after a crash.
    Widowed,
    /// One flipped bit on the device.
    Flipped,
    /// Encrypted lives whose nonces are compared.
    Nonces,
    /// An erased session restored from copies of everything but its key.
    Unerased,
    /// The body of a redacted event left in a file.
    Unredacted,
    /// Lives of a store from which bodies are redacted.
    Going,
}

impl Check {
    /// Returns the check with that name in `tests/proof/regressions`.
    pub fn named(name: &str) -> Option<Self> {
        CHECKS.into_iter().find(|check| format!("{check:?}").eq_ignore_ascii_case(name))
    }

    pub fn run(self, seed: u64, flaw: Option<Flaw>) -> BoxFuture<'static, ()> {
        match self {
            Self::Life => life(seed, flaw).map(drop).boxed(),
            Self::Expiring => expiring(seed, flaw).map(drop).boxed(),
            Self::Failing => crash::failing(seed, flaw).boxed(),
            Self::Believed => crash::believed(seed, flaw).boxed(),
            Self::Interrupted => interrupted(seed, flaw).boxed(),
            Self::Spoiled => crash::spoiled(seed, flaw).boxed(),
            Self::Torn => torn(seed, flaw).boxed(),
            Self::Widowed => lives_with_one_settled_file(seed, flaw).boxed(),
            Self::Flipped => damage::flipped(seed).boxed(),
            Self::Nonces => encrypted::nonces(seed, 4).map(drop).boxed(),
            Self::Unerased => erased::put_back(seed).boxed(),
            Self::Unredacted => redacted::not_taken_away_yet(seed).boxed(),
            Self::Going => bodies::going(seed).boxed(),
        }
    }
}

#[derive(Clone, Copy)]
enum Planted {
    Engine(Defect),
    Disk(Flaw),
}

/// Each defect, the check that detects it, and its limit of seeds.
const MUTANTS: &[(&str, Planted, Check)] = &[
    ("no sync", Planted::Disk(Flaw::NoSync), Check::Life),
    ("acknowledge before sync", Planted::Disk(Flaw::AcknowledgeBeforeSync), Check::Life),
    ("retry a failed sync", Planted::Disk(Flaw::RetrySync), Check::Life),
    ("no directory sync", Planted::Disk(Flaw::NoDirectorySync), Check::Life),
    ("trust the page cache at restart", Planted::Disk(Flaw::TrustPageCache), Check::Believed),
    ("sync nothing at restart", Planted::Disk(Flaw::NoSyncAtStart), Check::Life),
    ("serve past the durable point", Planted::Engine(Defect::ServePastDurable), Check::Life),
    ("cut at damage", Planted::Engine(Defect::CutAtDamage), Check::Flipped),
    ("recycle before flushing", Planted::Engine(Defect::RecycleBeforeFlushing), Check::Interrupted),
    ("believe beyond settled/", Planted::Engine(Defect::BelieveBeyondSettled), Check::Interrupted),
    ("no new salt on reuse", Planted::Engine(Defect::NoNewSalt), Check::Torn),
    ("append after a torn tail", Planted::Engine(Defect::AppendAfterTornTail), Check::Torn),
    ("header-only checksum", Planted::Engine(Defect::HeaderOnlyChecksum), Check::Flipped),
    ("recycle past the older", Planted::Engine(Defect::RecyclePastOlder), Check::Widowed),
    ("drop idempotency at restart", Planted::Engine(Defect::DropIdempotency), Check::Life),
    ("reuse positions after poison", Planted::Engine(Defect::ReuseAfterPoison), Check::Life),
    ("forget what shared a block", Planted::Engine(Defect::ForgetShared), Check::Spoiled),
    ("unlink a segment early", Planted::Engine(Defect::UnlinkEarly), Check::Widowed),
    ("encrypt before the key is durable", Planted::Engine(Defect::LateKey), Check::Life),
    ("one nonce for everything", Planted::Engine(Defect::SameNonce), Check::Nonces),
    ("keep the key of an erased session", Planted::Engine(Defect::KeepErasedKey), Check::Unerased),
    ("serve a redacted body", Planted::Engine(Defect::ServeRedacted), Check::Unredacted),
    ("spare the journal's last file", Planted::Engine(Defect::SpareLastFile), Check::Going),
    ("answer before zeros are durable", Planted::Engine(Defect::AnswerBeforeZeros), Check::Going),
    ("zero the frames alone", Planted::Engine(Defect::ZeroFramesAlone), Check::Going),
];

const CHECKS: [Check; 13] = [
    Check::Life,
    Check::Expiring,
    Check::Failing,
    Check::Believed,
    Check::Interrupted,
    Check::Spoiled,
    Check::Torn,
    Check::Widowed,
    Check::Flipped,
    Check::Nonces,
    Check::Unerased,
    Check::Unredacted,
    Check::Going,
];
/// Number of seeds after which a defect counts as missed.
const SEEDS_MAX: u64 = 400;
const MUTANT: &str = "SESSIONLOG_MUTANT";
const SEEDS: &str = "SESSIONLOG_MUTANT_SEEDS";
const SEARCH: &str = "SESSIONLOG_MUTANT_SEARCH";
const NOTHING: &str = "nothing";

/// Runs lives that each lose one settled file while the store is down: the other one is enough.
async fn lives_with_one_settled_file(seed: u64, flaw: Option<Flaw>) {
    let mut run = Run::flawed(seed, flaw, crate::life::TINY);
    for _ in 0..4 {
        let store = run.judge().await;
        let requests = 20 + run.below(60);
        run.work(&store, requests).await;
        for _ in 0..run.below(4) {
            store.flush().unwrap();
            let requests = run.below(20);
            run.work(&store, requests).await;
        }
        if run.below(4) == 0 {
            store.close().await;
        }
        run.die();
        run.sim.remove_durable(if run.below(2) == 0 { "settled/0" } else { "settled/1" });
    }
    run.judge().await;
}

/// Runs a check over seeds; returns the number of seeds up to the first failure.
fn seeds_until_caught(check: Check, flaw: Option<Flaw>, mut seeds: Range<u64>) -> Option<u64> {
    let caught = |seed: &u64| {
        let run = AssertUnwindSafe(check.run(*seed, flaw)).catch_unwind();
        runtime().block_on(run).is_err()
    };
    seeds.find(caught).map(|seed| seed + 1)
}

/// Runs in a child process: plants the defect its parent named and reports when it was caught.
fn run_child(name: &str) {
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    if name == NOTHING {
        let asked = std::env::var(SEEDS).unwrap();
        let failed = CHECKS.into_iter().zip(asked.split(' ')).find_map(|(check, seeds)| {
            let seed = seeds_until_caught(check, None, 0..seeds.parse().unwrap())?;
            Some((check, seed))
        });
        return match failed {
            Some((check, seed)) => panic!("{check:?} fails at seed {} without a defect", seed - 1),
            None => eprintln!("missed"),
        };
    }
    let (_, planted, check) = MUTANTS.iter().find(|(known, ..)| *known == name).unwrap();
    let flaw = match *planted {
        Planted::Disk(flaw) => Some(flaw),
        Planted::Engine(defect) => {
            plant(defect);
            None
        }
    };
    let only = std::env::var(SEEDS).unwrap().parse::<u64>();
    let seeds = only.map_or(0..SEEDS_MAX, |seed| seed..seed + 1);
    match seeds_until_caught(*check, flaw, seeds) {
        Some(seeds) => eprintln!("caught: {seeds}"),
        None => eprintln!("missed"),
    }
}

/// Returns the seed kept for each defect, and the check that detects it.
fn kept_seeds() -> Vec<(&'static str, Check, u64)> {
    let lines = regressions().map(parts);
    lines.filter_map(|(check, seed, name)| Some((name?, check, seed))).collect()
}

/// Runs the child for one defect, at every seed or at the given one; returns the number of seeds it
/// took, `None` if it was missed.
fn plant_in_a_child(name: &str, seeds: &str) -> Option<u64> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mutants::every_planted_defect_is_caught", "--nocapture"])
        .env(MUTANT, name)
        .env(SEEDS, seeds)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let answer = said.lines().find_map(|line| match line.split_once("caught: ") {
        Some((_, seeds)) => Some(seeds.trim().parse().ok()),
        None => line.contains("missed").then_some(None),
    });
    answer.unwrap_or_else(|| panic!("{name}: the child says neither: {said}"))
}

/// Runs each defect at the seed kept for it (`tests/proof/regressions`); with
/// `SESSIONLOG_MUTANT_SEARCH` from seed 0 on, which takes minutes: `tests/proof/run.sh` does.
#[test]
fn every_planted_defect_is_caught() {
    if let Ok(name) = std::env::var(MUTANT) {
        return run_child(&name);
    }
    let searches = std::env::var_os(SEARCH).is_some();
    let kept = kept_seeds();
    let waiting: Mutex<VecDeque<usize>> = Mutex::new((0..MUTANTS.len()).collect());
    let found = Mutex::new(vec![None; MUTANTS.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(at) = next else { return };
                    let (name, _, check) = MUTANTS[at];
                    let seeds = match kept.iter().find(|(of, ..)| *of == name) {
                        _ if searches => plant_in_a_child(name, ""),
                        Some((_, by, seed)) if *by == check => {
                            plant_in_a_child(name, &seed.to_string())
                        }
                        _ => None,
                    };
                    found.lock().unwrap_or_else(PoisonError::into_inner)[at] = seeds;
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    for ((name, ..), seeds) in MUTANTS.iter().zip(&found) {
        let said = seeds.map_or("MISSED".to_owned(), |seeds| format!("after {seeds} seeds"));
        eprintln!("planted {name:<34} caught {said}");
    }
    let caught = found.iter().flatten().count();
    eprintln!("planted {} caught {caught}", MUTANTS.len());
    assert_eq!(caught, MUTANTS.len(), "a defect was missed: record its seed anew");
    assert_eq!(kept.len(), MUTANTS.len(), "a defect has one seed, and a seed a defect");
    if !searches {
        // `proof::seeds_of_fixed_defects_pass` runs the same seeds without a defect.
        return;
    }
    // The protocol without a defect passes the seeds that caught each of them.
    let most = CHECKS.map(|check| {
        let took = MUTANTS.iter().zip(&found).filter(|((.., by), _)| *by == check);
        took.filter_map(|(_, seeds)| *seeds).max().unwrap_or(0)
    });
    assert_eq!(plant_in_a_child(NOTHING, &most.map(|seeds| seeds.to_string()).join(" ")), None);
    eprintln!("seeds without a defect {}", most.iter().sum::<u64>());
}
