//! The queue of the journal: frames to be written, in the order of their numbers, and the thread
//! that leads. It must not write.

use std::time::Duration;

use super::{Journal, QueuedFrame, bytes_of, writer::RoundFailure};
use crate::{env::sync::atomic::Ordering, event::Lsn};

/// Maximum bytes of frames in one round, unless a single frame is larger.
const ROUND_BYTES_MAX: u64 = 8 << 20;
/// Bytes of queued frames at which a further caller is rejected as busy.
const QUEUE_BYTES_MAX: u64 = 64 << 20;

/// Bounds of the time for which the committer waits for half of the expected frames, and the share
/// of the last cycle that it waits: docs/decisions/0097. Timers of the kernel are late by up to 50
/// microseconds.
const GATHER_MIN: Duration = Duration::from_micros(50);
const GATHER_MAX: Duration = Duration::from_millis(1);
const GATHER_SHARE: u32 = 4;
/// Time between two rounds after which the frames of the first say nothing of the second.
const BURST_CYCLE_MAX: Duration = Duration::from_millis(50);

/// Reason why a frame was not queued.
pub(crate) enum QueueRefusal {
    /// A failure voided the frames that this one was built on: it must be built again.
    Stale,
    /// The store refuses writes, for this reason.
    ReadOnly(String),
    /// The queue is full.
    Full,
}

/// Reason why appends are refused.
pub(super) struct WriteRefusal {
    pub(super) reason: String,
    /// True if a successful probe ends the refusal.
    pub(super) passes: bool,
}

pub(super) struct CommitQueue<S> {
    pub(super) items: Vec<QueuedFrame<S>>,
    /// Bytes of the queued frames.
    pub(super) bytes: u64,
    pub(super) next_lsn: Lsn,
    pub(super) lead: LeaderState,
    /// Number of threads that wait for the lead; the committer hands it over between two rounds.
    pub(super) waiting: usize,
    /// Frames expected in a round: those of the last one, or, if more, half of those expected of
    /// it. With several the committer leads, and waits for half of them.
    pub(super) expected: usize,
    /// Start of the last round, on the monotonic clock.
    pub(super) round_start: Duration,
    /// Time from the start of the round before to that of the last one.
    pub(super) cycle: Duration,
    /// True while the committer waits for half of the expected frames.
    pub(super) gathers: bool,
    pub(super) committer: CommitterState,
    pub(super) refuse: Option<WriteRefusal>,
}

/// Thread that leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderState {
    /// None: the queue is empty.
    Free,
    /// A thread leads.
    Taken,
    /// The first of the threads that wait for the lead.
    Offered,
    /// The committer thread, once it wakes.
    HandedOver,
}

impl LeaderState {
    /// Returns true if a thread that waits for the lead may take it.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Free | Self::Offered)
    }
}

/// Activity of the committer thread while it does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitterState {
    /// It sleeps until woken: no round was committed since the last watermark.
    Asleep,
    /// It writes a watermark once no round was committed for a while.
    Watching,
    /// The thread ends.
    Stopped,
}

impl<S> CommitQueue<S> {
    pub(super) fn push(&mut self, item: QueuedFrame<S>) {
        self.bytes += item.frame.header.stride();
        self.items.push(item);
    }

    /// Returns true if the queue has less than half of the frames expected in a round.
    pub(super) fn is_thin(&self) -> bool {
        let few = self.items.len() < self.expected / 2 && self.bytes < ROUND_BYTES_MAX;
        !self.items.is_empty() && few
    }

    /// Expects nothing of the next round if the last one is long ago.
    fn end_burst(&mut self, now: Duration) {
        if now.saturating_sub(self.round_start) >= BURST_CYCLE_MAX {
            (self.expected, self.cycle) = (0, Duration::ZERO);
            self.round_start = now;
        }
    }

    /// Records that a round starts for `count` callers; expects as many of the next, and in a burst
    /// at least half of what was expected of this one.
    pub(super) fn begin_round(&mut self, count: usize, now: Duration) {
        self.end_burst(now);
        self.cycle = now.saturating_sub(self.round_start);
        self.round_start = now;
        self.expected = count.max(self.expected / 2);
    }

    /// Makes the committer watch for idleness, to write a watermark; returns whether it was asleep.
    pub(super) fn wake_committer(&mut self) -> bool {
        let sleeps = self.committer == CommitterState::Asleep;
        if sleeps {
            self.committer = CommitterState::Watching;
        }
        sleeps
    }
}

impl<S> Journal<S> {
    /// Returns the reason for which appends are refused, if they are.
    pub(crate) fn refusal_reason(&self) -> Option<String> {
        self.queue.lock().refuse.as_ref().map(|refusal| refusal.reason.clone())
    }

    /// Refuses appends until [`Self::accept_writes`]; the first reason that no probe can end stays.
    pub(crate) fn refuse(&self, reason: &str) {
        self.refuse_for(reason, false);
    }

    pub(super) fn refuse_for(&self, reason: &str, passes: bool) {
        let mut queue = self.queue.lock();
        if queue.refuse.as_ref().is_none_or(|refusal| refusal.passes && !passes) {
            queue.refuse = Some(WriteRefusal { reason: reason.to_owned(), passes });
        }
    }

    /// Accepts appends again, after the reason for the refusal was resolved.
    pub(crate) fn accept_writes(&self) {
        self.queue.lock().refuse = None;
    }

    /// Queues a frame built in `epoch`; `build` gets its first log sequence number. Returns whether
    /// the caller must lead.
    pub(crate) fn enqueue(
        &self,
        epoch: u64,
        records: u32,
        build: impl FnOnce(Lsn) -> QueuedFrame<S>,
    ) -> Result<bool, QueueRefusal> {
        let mut queue = self.queue.lock();
        if let Some(refusal) = &queue.refuse {
            return Err(QueueRefusal::ReadOnly(refusal.reason.clone()));
        }
        if self.epoch() != epoch {
            return Err(QueueRefusal::Stale);
        }
        if queue.bytes >= QUEUE_BYTES_MAX {
            return Err(QueueRefusal::Full);
        }
        let first = queue.next_lsn;
        queue.next_lsn = Lsn(first.0 + u64::from(records));
        let item = build(first);
        assert_eq!(
            item.frame.header.lsn_range(),
            (first, queue.next_lsn),
            "a frame has the numbers that it was given"
        );
        queue.push(item);
        if queue.gathers && !queue.is_thin() {
            queue.gathers = false;
            self.wake.notify_one();
        }
        if queue.lead != LeaderState::Free {
            return Ok(false);
        }
        queue.end_burst(self.env.clock.monotonic());
        if !(self.background && queue.expected > 1) {
            queue.lead = LeaderState::Taken;
            return Ok(true);
        }
        queue.lead = LeaderState::HandedOver;
        drop(queue);
        self.wake.notify_one();
        Ok(false)
    }

    /// Waits for half of the expected frames, a share of a cycle at most, so that one sync serves
    /// callers that were answered together. The caller leads as the committer does.
    pub(super) fn gather(&self) {
        let mut queue = self.queue.lock();
        let limit = (queue.cycle / GATHER_SHARE).min(GATHER_MAX);
        // While the clock stands still nothing waits: the tests of thread orders have no timer.
        if !queue.is_thin() || queue.waiting > 0 || limit < GATHER_MIN {
            return;
        }
        queue.gathers = true;
        (queue, _) = self.wake.wait_timeout(queue, limit);
        queue.gathers = false;
    }

    /// Takes the next round into an empty list. Returns `None` if the leadership ends, because the
    /// queue is empty or because the leader's part is done and another thread waits.
    pub(super) fn take_round(
        &self,
        mut round: Vec<QueuedFrame<S>>,
        done: bool,
    ) -> Option<Vec<QueuedFrame<S>>> {
        debug_assert!(round.is_empty(), "the round before was published");
        let mut queue = self.queue.lock();
        assert_eq!(queue.lead, LeaderState::Taken, "only the leader takes a round");
        let mut bytes = 0;
        let fits = |item: &&QueuedFrame<S>| {
            let first = bytes == 0;
            bytes += item.frame.header.stride();
            first || bytes <= ROUND_BYTES_MAX
        };
        let count = queue.items.iter().take_while(fits).count();
        if queue.waiting > 0 && (done || count == 0) {
            queue.lead = LeaderState::Offered;
            self.offered.notify_one();
            return None;
        }
        if count == 0 {
            queue.lead = LeaderState::Free;
            return None;
        }
        let callers = queue.items.iter().take(count).filter(|item| item.effect.is_some()).count();
        queue.begin_round(callers, self.env.clock.monotonic());
        if count == queue.items.len() {
            std::mem::swap(&mut round, &mut queue.items);
        } else {
            round.extend(queue.items.drain(..count));
        }
        queue.bytes -= bytes_of(&round);
        debug_assert!(!queue.items.is_empty() || queue.bytes == 0);
        Some(round)
    }

    /// Starts a new epoch after a failure and drains the frames queued after the failed round.
    pub(super) fn start_epoch(
        &self,
        failure: &RoundFailure,
        round: &[QueuedFrame<S>],
    ) -> Vec<QueuedFrame<S>> {
        let mut queue = self.queue.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        if let (RoundFailure::Refused(_), Some(first)) = (failure, round.first()) {
            // No record with these numbers was written.
            queue.next_lsn = first.frame.header.lsn_range().0;
        }
        queue.bytes = 0;
        std::mem::take(&mut queue.items)
    }

    /// Returns the number of the next record that is written.
    pub(super) fn next_number(&self) -> Lsn {
        let queue = self.queue.lock();
        queue.items.first().map_or(queue.next_lsn, |item| item.frame.header.lsn_range().0)
    }

    /// Returns true if another round is queued and need not wait for more frames.
    pub(super) fn has_next_round(&self) -> bool {
        let queue = self.queue.lock();
        !queue.items.is_empty() && !queue.is_thin()
    }
}
