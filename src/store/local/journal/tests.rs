//! The journal on the simulated disk, without sessions.

use std::{cell::RefCell, time::Duration};

use super::{lead::ENDLESS, *};
use crate::{
    env::sim::{Fault, Op, Sim},
    event::{Lsn, Position},
    log::{Chain, FrameHeader, FrameKind},
};

impl<S, F: Fn(&mut Vec<Item<S>>, Result<(), Failure>)> Sink<S> for F {
    fn ended(&self, round: &mut Vec<Item<S>>, result: Result<(), Failure>) {
        self(round, result);
    }
}

/// A frame of so many bytes, and who waits for it.
fn item(first_lsn: Lsn, bytes: usize) -> (Item<()>, oneshot::Receiver<StoreResult<Shown>>) {
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
        chain: Chain([0; 32]),
        control_chain: Chain([0; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    let (done, told) = oneshot::channel();
    let frame = Frame { header, payload: Bytes::from(vec![1; bytes]) };
    (Item { session: (), frame, plain: None, effect: None, done: Some(done) }, told)
}

fn journal_on(sim: &Sim, background: bool) -> Journal<()> {
    const FILE_BYTES: u64 = 8 << 20;
    sim.env().storage.create_dir("journal").unwrap();
    let place = Place { order: 0, byte_offset: 0, lsn: Lsn(0) };
    let resume = Resume { place, order: 0, start: 0, ring: Vec::new() };
    let options = Options { journal_file_bytes: FILE_BYTES, background, ..Options::default() };
    Journal::new(sim.env(), options, [3; 16], resume)
}

#[test]
fn who_waits_for_the_lead_gets_it_though_there_is_always_more_to_write() {
    const ROUNDS: usize = 100;
    let sim = Sim::new(1);
    let journal = journal_on(&sim, true);
    let queue = || {
        let mut told = None;
        let queued = journal.enqueue(0, 1, |lsn| {
            let (item, done) = item(lsn, 100);
            told = Some(done);
            item
        });
        assert!(queued.is_ok() && told.is_some());
    };
    let rounds = AtomicU64::new(0);
    // Each round that is shown brings the next.
    let outcome = |round: &mut Vec<Item<()>>, _: Result<(), Failure>| {
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
        let before = journal.alone(
            || rounds.load(Ordering::Relaxed),
            &|round: &mut Vec<Item<()>>, _: Result<(), Failure>| round.clear(),
        );
        assert!(before < ROUNDS as u64, "after {before} rounds");
    });
}

#[test]
fn each_burst_that_the_committer_leads_has_a_watermark_behind_it() {
    let sim = Sim::new(1);
    let journal = journal_on(&sim, true);
    let outcome = |round: &mut Vec<Item<()>>, _: Result<(), Failure>| round.clear();
    let queue = || journal.enqueue(0, 1, |lsn| item(lsn, 100).0);
    let (mut led, mut marked) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| journal.run(&outcome));
        for burst in 0..3 {
            // As behind a round of many: the committer leads this one.
            journal.queue.lock().crowded = true;
            led.push(queue().unwrap_or(true));
            let is_marked = || {
                let written = journal.place().lsn == Lsn(burst + 1);
                let sleeps = || journal.queue.lock().committer == Committer::Asleep;
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
fn what_is_durable_is_shown_before_a_failure_makes_anything_void() {
    let sim = Sim::new(1);
    let journal = journal_on(&sim, false);
    let seen = RefCell::new(Vec::new());
    let outcome = |round: &mut Vec<Item<()>>, result: Result<(), Failure>| {
        seen.borrow_mut().push((round.len(), result.is_ok(), journal.epoch()));
        round.clear();
    };
    let mut waiting = Vec::new();
    let mut queue = |bytes: usize| {
        let queued = journal.enqueue(0, 1, |lsn| {
            let (item, told) = item(lsn, bytes);
            waiting.push(told);
            item
        });
        assert!(queued.is_ok());
    };
    queue(100);
    journal.lead(ENDLESS, &outcome);
    // Two rounds: the first goes into the file that there is, the second finds no other.
    queue(5 << 20);
    queue(5 << 20);
    sim.fail_next(Op::Create, Fault::Io, true);
    journal.lead(ENDLESS, &outcome);
    assert_eq!(seen.take(), [(1, true, 0), (1, true, 0), (1, false, 1)]);
    let mut told = waiting.into_iter().map(|mut told| told.try_recv().map(|told| told.ok()));
    assert!(told.next().is_some(), "the outcome names the first");
    assert_eq!(told.next(), Some(Ok(Some(Shown::Show))), "one of a round that another follows");
    assert_eq!(journal.place().lsn, Lsn(2));
}

/// A journal whose rounds are forgotten once they are written, and one frame written to it.
fn write(journal: &Journal<()>) -> Option<bool> {
    let queued = journal.enqueue(journal.epoch(), 1, |lsn| item(lsn, 100).0);
    let written = std::cell::Cell::new(None);
    if queued.is_ok() {
        journal.lead(ENDLESS, &|round: &mut Vec<Item<()>>, result: Result<(), Failure>| {
            written.set(Some(result.is_ok()));
            round.clear();
        });
    }
    written.take()
}

/// A journal in which two syncs failed in a row: the first in the file that was there, the
/// second in the next, behind so many calls that make one.
fn broken() -> (Sim, Journal<()>) {
    let breaks = |call| {
        let sim = Sim::new(1);
        let journal = journal_on(&sim, false);
        assert_eq!(write(&journal), Some(true));
        for call in [0, call] {
            assert_eq!(journal.refusing(), None);
            sim.fail_call(sim.calls() + call, Fault::Io, false);
            write(&journal);
            sim.heal();
        }
        journal.refusing().is_some().then_some((sim, journal))
    };
    (1..60).find_map(breaks).expect("some call writes to the next file")
}

#[test]
fn a_disk_that_failed_and_healed_takes_writes_again() {
    let (sim, journal) = broken();
    assert_eq!(write(&journal), None, "two syncs failed in a row");
    sim.fail_writing("", Fault::Io);
    let pass = |seconds| {
        sim.clock().advance(Duration::from_secs(seconds));
        journal.probe();
        write(&journal)
    };
    assert_eq!(pass(4), None, "it is not time yet");
    assert_eq!(pass(2), None, "the probe fails");
    sim.heal();
    assert_eq!(pass(2), None, "it is not time yet");
    assert_eq!(pass(20), Some(true));
    assert_eq!(journal.refusing(), None);
    journal.refuse("the store is closed");
    journal.probe();
    assert_eq!(write(&journal), None, "no probe opens a closed store");
}

#[test]
fn a_device_that_fails_now_and_then_does_not_fill_the_disk() {
    let sim = Sim::new(1);
    let journal = journal_on(&sim, false);
    assert_eq!(write(&journal), Some(true));
    let before = sim.used();
    for second in 0..3_600 {
        if second % 2 == 0 {
            sim.fail_next(Op::Sync, Fault::Io, false);
        }
        write(&journal);
        sim.heal();
        sim.clock().advance(Duration::from_secs(1));
        journal.probe();
    }
    let grown = sim.used() - before;
    assert!(grown < 4 << 20, "{grown} bytes in an hour");
}

#[test]
fn a_file_of_another_owner_ends_all_writing() {
    let sim = Sim::new(1);
    let (ours, theirs) = (journal_on(&sim, false), journal_on(&sim, false));
    assert_eq!(write(&ours), Some(true));
    assert_eq!(write(&theirs), Some(false), "it looks before it begins a file");
    assert_eq!(write(&theirs), None);
    assert!(theirs.refusing().is_some_and(|why| why.contains("another process wrote")));
    assert_eq!(write(&ours), Some(true));
}
