//! Tests of the journal alone, without sessions.

use std::{
    cell::RefCell,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tempfile::{TempDir, tempdir};

use super::{lead::ENDLESS, *};
use crate::{
    env::Clock,
    event::{Lsn, Position, Timestamp},
    log::{ChainValue, FrameHeader, FrameKind},
};

impl<S, F: Fn(&mut Vec<QueuedFrame<S>>, Result<(), RoundFailure>)> Sink<S> for F {
    fn finish_round(&self, round: &mut Vec<QueuedFrame<S>>, result: Result<(), RoundFailure>) {
        self(round, result);
    }
}

/// Returns a frame of `bytes` bytes, and the receiver of its outcome.
fn queued_frame(
    first_lsn: Lsn,
    bytes: usize,
) -> (QueuedFrame<()>, oneshot::Receiver<StoreResult<VisibilityStep>>) {
    let header = FrameHeader {
        kind: FrameKind::Request,
        length: bytes as u32,
        compressed: false,
        count: 1,
        events: 0,
        first_lsn,
        synced_lsn: Lsn(0),
        first_position: Position(0),
        session: SessionHash([7; 32]),
        chain: ChainValue([0; 32]),
        control_chain: ChainValue([0; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    let (done, receiver) = oneshot::channel();
    let frame = Frame { header, payload: Bytes::from(vec![1; bytes]) };
    (QueuedFrame { session: (), frame, plain: None, effect: None, done: Some(done) }, receiver)
}

/// Clock whose monotonic time is a number of microseconds that a test sets.
#[derive(Default)]
struct WriteClock(std::sync::atomic::AtomicU64);

impl Clock for WriteClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }
}

fn open_journal(home: &TempDir, background: bool) -> Journal<()> {
    open_journal_on(home, background, |_| {})
}

fn open_journal_on(home: &TempDir, background: bool, change: impl FnOnce(&mut Env)) -> Journal<()> {
    const FILE_BYTES: u64 = 8 << 20;
    let mut env = Env::open(home.path()).unwrap();
    change(&mut env);
    env.storage.create_dir("journal").unwrap();
    let place = JournalLocation { order: 0, byte_offset: 0, lsn: Lsn(0) };
    let resume = JournalResume { place, order: 0, start: 0, ring: Vec::new() };
    let options =
        StoreOptions { journal_file_bytes: FILE_BYTES, background, ..StoreOptions::default() };
    Journal::new(env, options, [3; 16], resume)
}

#[test]
fn a_thread_waiting_for_the_lead_gets_it_under_constant_writes() {
    const ROUNDS: usize = 100;
    let home = tempdir().unwrap();
    let journal = open_journal(&home, true);
    let queue = || {
        let mut receiver = None;
        let queued = journal.enqueue(0, 1, |lsn| {
            let (item, done) = queued_frame(lsn, 100);
            receiver = Some(done);
            item
        });
        assert!(queued.is_ok() && receiver.is_some());
    };
    let rounds = AtomicU64::new(0);
    // Each round that is shown queues the next.
    let outcome = |round: &mut Vec<QueuedFrame<()>>, _: Result<(), RoundFailure>| {
        round.clear();
        match rounds.fetch_add(1, Ordering::Relaxed) as usize {
            2 => {
                while journal.queue.lock().waiting == 0 {
                    std::thread::yield_now();
                }
            }
            ROUNDS.. => return,
            _ => {}
        }
        queue();
    };
    queue();
    std::thread::scope(|scope| {
        scope.spawn(|| journal.lead(ENDLESS, &outcome));
        let before =
            journal.run_exclusively(|| rounds.load(Ordering::Relaxed), &|round: &mut Vec<
                QueuedFrame<()>,
            >,
                                                                         _: Result<
                (),
                RoundFailure,
            >| {
                round.clear()
            });
        assert!(before < ROUNDS as u64, "after {before} rounds");
    });
}

#[test]
fn the_committer_writes_a_watermark_after_each_burst_it_leads() {
    let home = tempdir().unwrap();
    let journal = open_journal(&home, true);
    let outcome = |round: &mut Vec<QueuedFrame<()>>, _: Result<(), RoundFailure>| round.clear();
    let queue = || journal.enqueue(0, 1, |lsn| queued_frame(lsn, 100).0);
    let (mut led, mut marked) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| journal.run_committer(&outcome));
        for burst in 0..3 {
            // As after a round of many frames: the committer leads this one.
            let mut state = journal.queue.lock();
            (state.expected, state.round_start) = (2, Duration::MAX);
            drop(state);
            led.push(queue().unwrap_or(true));
            let is_marked = || {
                let written = journal.visible_location().lsn == Lsn(burst + 1);
                let sleeps = || journal.queue.lock().committer == CommitterState::Asleep;
                written && journal.writer.lock().watermarked && sleeps()
            };
            marked.push((0..20_000_000).any(|_| {
                std::thread::yield_now();
                is_marked()
            }));
        }
        journal.stop();
    });
    assert_eq!(led, [false; 3]);
    assert_eq!(marked, [true; 3]);
}

#[test]
fn durable_rounds_are_visible_before_a_failure_voids_later_rounds() {
    let home = tempdir().unwrap();
    let journal = open_journal(&home, false);
    let seen = RefCell::new(Vec::new());
    let outcome = |round: &mut Vec<QueuedFrame<()>>, result: Result<(), RoundFailure>| {
        seen.borrow_mut().push((round.len(), result.is_ok(), journal.epoch()));
        round.clear();
    };
    let mut waiting = Vec::new();
    let mut queue = |bytes: usize| {
        let queued = journal.enqueue(0, 1, |lsn| {
            let (item, receiver) = queued_frame(lsn, bytes);
            waiting.push(receiver);
            item
        });
        assert!(queued.is_ok());
    };
    queue(100);
    journal.lead(ENDLESS, &outcome);
    // Two rounds: the first goes into the existing file, the second finds no other.
    queue(5 << 20);
    queue(5 << 20);
    std::fs::rename(home.path().join("journal"), home.path().join("gone")).unwrap();
    journal.lead(ENDLESS, &outcome);
    assert_eq!(seen.take(), [(1, true, 0), (1, true, 0), (1, false, 1)]);
    let mut receiver =
        waiting.into_iter().map(|mut receiver| receiver.try_recv().map(|receiver| receiver.ok()));
    assert!(receiver.next().is_some(), "the outcome names the first");
    assert_eq!(
        receiver.next(),
        Some(Ok(Some(VisibilityStep::Show))),
        "one of a round that another follows"
    );
    assert_eq!(journal.visible_location().lsn, Lsn(2));
}

/// Queues and writes a frame; returns whether its round succeeded, `None` if it was refused.
fn write_frame(journal: &Journal<()>) -> Option<bool> {
    let queued = journal.enqueue(journal.epoch(), 1, |lsn| queued_frame(lsn, 100).0);
    let written = std::cell::Cell::new(None);
    if queued.is_ok() {
        journal.lead(ENDLESS, &|round: &mut Vec<QueuedFrame<()>>,
                                result: Result<(), RoundFailure>| {
            written.set(Some(result.is_ok()));
            round.clear();
        });
    }
    written.take()
}

#[test]
fn writes_are_refused_once_another_owner_wrote_a_journal_file() {
    let home = tempdir().unwrap();
    let (ours, theirs) = (open_journal(&home, false), open_journal(&home, false));
    assert_eq!(write_frame(&ours), Some(true));
    assert_eq!(write_frame(&theirs), Some(false), "it looks before it begins a file");
    assert_eq!(write_frame(&theirs), None);
    assert!(theirs.refusal_reason().is_some_and(|why| why.contains("another process wrote")));
    assert_eq!(write_frame(&ours), Some(true));
}

#[test]
fn a_task_leads_in_place_while_recent_writes_are_quick_and_the_committer_watches() {
    let home = tempdir().unwrap();
    let clock = Arc::new(WriteClock::default());
    let journal = open_journal_on(&home, true, |env| env.clock = Arc::clone(&clock) as _);
    let write = |micros| journal.run_timed(|| clock.0.fetch_add(micros, Relaxed));
    let [one, two] = [1, 2].map(|workers| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(workers).build().unwrap()
    });
    let leads_in_place = || journal.leads_in_place(two.handle());
    (0..20).for_each(|_| _ = write(100));
    assert!(!leads_in_place(), "the committer sleeps");
    journal.queue.lock().committer = CommitterState::Watching;
    (0..20).for_each(|_| _ = write(100));
    assert!(leads_in_place());
    assert!(!journal.leads_in_place(one.handle()), "no other worker can run other tasks");
    write(8_000);
    assert!(!leads_in_place(), "one slow write counts for several quick ones");
    (0..20).for_each(|_| _ = write(100));
    assert!(leads_in_place());
    (0..20).for_each(|_| _ = write(600));
    assert!(!leads_in_place());
}

#[test]
fn a_round_is_expected_to_be_at_least_half_of_the_one_expected_before_in_a_burst() {
    let home = tempdir().unwrap();
    let journal = open_journal(&home, true);
    let mut queue = journal.queue.lock();
    let mut now = Duration::from_secs(1);
    let mut begin = |count, pause| {
        now += Duration::from_millis(pause);
        queue.begin_round(count, now);
        queue.expected
    };
    assert_eq!(begin(64, 1), 64);
    assert_eq!([begin(1, 1), begin(1, 1), begin(40, 1), begin(3, 49)], [32, 16, 40, 20]);
    assert_eq!(begin(1, 50), 1, "rounds far apart expect nothing of each other");
    assert_eq!(queue.cycle, Duration::ZERO);
}

#[test]
fn the_committer_waits_until_half_of_the_expected_frames_are_queued() {
    let home = tempdir().unwrap();
    let journal = open_journal(&home, true);
    let queue = || journal.enqueue(0, 1, |lsn| queued_frame(lsn, 100).0).is_ok();
    // The wait has a limit of a millisecond, within which one of many attempts sees it.
    let is_ended_by_a_frame = |_| {
        let mut state = journal.queue.lock();
        state.items.clear();
        state.lead = LeaderState::Taken;
        (state.expected, state.cycle) = (4, Duration::from_millis(40));
        drop(state);
        assert!(queue() && journal.queue.lock().is_thin());
        std::thread::scope(|scope| {
            let gathers = scope.spawn(|| journal.gather());
            while !journal.queue.lock().gathers && !gathers.is_finished() {
                std::thread::yield_now();
            }
            let waits = journal.queue.lock().gathers;
            assert!(queue());
            let state = journal.queue.lock();
            assert!(!state.gathers && !state.is_thin(), "the second frame of two ends the wait");
            waits
        })
    };
    assert!((0..1_000).any(is_ended_by_a_frame));
}
