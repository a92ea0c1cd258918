//! The queue of the journal: frames that wait for the disk, in the order of their numbers, and the
//! thread that is to write them. It must not write.

use super::{Journal, QueuedFrame, bytes_of, writer::RoundFailure};
use crate::{env::sync::atomic::Ordering, event::Lsn};

/// Bytes of frames that one write takes at most, a larger single frame aside.
const ROUND_BYTES_MAX: u64 = 8 << 20;
/// Bytes of frames that wait for the disk at most: a later caller is refused as busy.
const QUEUE_BYTES_MAX: u64 = 64 << 20;

/// Reason for which a frame was not queued.
pub(crate) enum NotQueued {
    /// A failure made what the frame was built on void: build it again.
    Stale,
    /// The store takes no writes.
    ReadOnly(String),
    /// As much as may wait for the disk waits.
    Full,
}

/// Reason for which appends are refused.
pub(super) struct WriteRefusal {
    pub(super) reason: String,
    /// True if a probe that succeeds ends it.
    pub(super) passes: bool,
}

pub(super) struct CommitQueue<S> {
    pub(super) items: Vec<QueuedFrame<S>>,
    /// Bytes of their frames.
    pub(super) bytes: u64,
    pub(super) next_lsn: Lsn,
    pub(super) lead: Lead,
    /// Threads that wait for the lead; the committer hands it over between two rounds.
    pub(super) waiting: usize,
    /// The last round had several frames: the committer leads the next.
    pub(super) crowded: bool,
    pub(super) committer: Committer,
    pub(super) refuse: Option<WriteRefusal>,
}

/// Thread that writes the frames of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// None: the queue is empty.
    Free,
    /// One that leads now.
    Taken,
    /// The first of the threads that wait for the lead.
    Offered,
    /// The committer thread, once it wakes.
    HandedOver,
}

impl Lead {
    /// True if a thread that waits for the lead may take it.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Free | Self::Offered)
    }
}

/// Activity of the committer thread while it does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Committer {
    /// It sleeps until it is woken: nothing was committed since the last watermark.
    Asleep,
    /// It writes a watermark once nothing was committed for a while.
    Watching,
    /// It ends.
    Stopped,
}

impl<S> CommitQueue<S> {
    pub(super) fn push(&mut self, item: QueuedFrame<S>) {
        self.bytes += item.frame.header.stride();
        self.items.push(item);
    }

    /// Has the committer watch for the time to write a watermark; returns whether it sleeps.
    pub(super) fn wake_committer(&mut self) -> bool {
        let sleeps = self.committer == Committer::Asleep;
        if sleeps {
            self.committer = Committer::Watching;
        }
        sleeps
    }
}

impl<S> Journal<S> {
    /// Reason for which appends are refused, if they are.
    pub(crate) fn refusing(&self) -> Option<String> {
        self.queue.lock().refuse.as_ref().map(|refusal| refusal.reason.clone())
    }

    /// Refuses appends from now on; the first reason that does not pass stays.
    pub(crate) fn refuse(&self, reason: &str) {
        self.refuse_for(reason, false);
    }

    pub(super) fn refuse_for(&self, reason: &str, passes: bool) {
        let mut queue = self.queue.lock();
        if queue.refuse.as_ref().is_none_or(|refusal| refusal.passes && !passes) {
            queue.refuse = Some(WriteRefusal { reason: reason.to_owned(), passes });
        }
    }

    /// Takes appends again, after what was refused for is given up.
    pub(crate) fn allow(&self) {
        self.queue.lock().refuse = None;
    }

    /// Queues a frame built in `epoch`; `build` gets its first log sequence number. Returns whether
    /// the caller must lead.
    pub(crate) fn enqueue(
        &self,
        epoch: u64,
        records: u32,
        build: impl FnOnce(Lsn) -> QueuedFrame<S>,
    ) -> Result<bool, NotQueued> {
        let mut queue = self.queue.lock();
        if let Some(refusal) = &queue.refuse {
            return Err(NotQueued::ReadOnly(refusal.reason.clone()));
        }
        if self.epoch() != epoch {
            return Err(NotQueued::Stale);
        }
        if queue.bytes >= QUEUE_BYTES_MAX {
            return Err(NotQueued::Full);
        }
        let first = queue.next_lsn;
        queue.next_lsn = Lsn(first.0 + u64::from(records));
        let item = build(first);
        assert_eq!(
            item.frame.header.numbers(),
            (first, queue.next_lsn),
            "a frame has the numbers that it was given"
        );
        queue.push(item);
        if queue.lead != Lead::Free {
            return Ok(false);
        }
        if !(self.background && queue.crowded) {
            queue.lead = Lead::Taken;
            return Ok(true);
        }
        queue.lead = Lead::HandedOver;
        drop(queue);
        self.wake.notify_one();
        Ok(false)
    }

    /// Takes the next round into an empty list; `None` ends the leadership, which goes to the
    /// thread that waits for it once the leader's part is done.
    pub(super) fn take(
        &self,
        mut round: Vec<QueuedFrame<S>>,
        done: bool,
    ) -> Option<Vec<QueuedFrame<S>>> {
        debug_assert!(round.is_empty(), "the round before was published");
        let mut queue = self.queue.lock();
        assert_eq!(queue.lead, Lead::Taken, "only the leader takes a round");
        let mut bytes = 0;
        let fits = |item: &&QueuedFrame<S>| {
            let first = bytes == 0;
            bytes += item.frame.header.stride();
            first || bytes <= ROUND_BYTES_MAX
        };
        let count = queue.items.iter().take_while(fits).count();
        if queue.waiting > 0 && (done || count == 0) {
            queue.lead = Lead::Offered;
            self.offered.notify_one();
            return None;
        }
        if count == 0 {
            queue.lead = Lead::Free;
            return None;
        }
        queue.crowded = count > 1;
        if count == queue.items.len() {
            std::mem::swap(&mut round, &mut queue.items);
        } else {
            round.extend(queue.items.drain(..count));
        }
        queue.bytes -= bytes_of(&round);
        debug_assert!(!queue.items.is_empty() || queue.bytes == 0);
        Some(round)
    }

    /// Starts a new epoch after a failure and takes what was queued behind the failed round.
    pub(super) fn start_epoch(
        &self,
        failure: &RoundFailure,
        round: &[QueuedFrame<S>],
    ) -> Vec<QueuedFrame<S>> {
        let mut queue = self.queue.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        if let (RoundFailure::Refused(_), Some(first)) = (failure, round.first()) {
            // Nothing of these numbers was ever written.
            queue.next_lsn = first.frame.header.numbers().0;
        }
        queue.bytes = 0;
        std::mem::take(&mut queue.items)
    }

    /// The number of the next record that is written.
    pub(super) fn next_number(&self) -> Lsn {
        let queue = self.queue.lock();
        queue.items.first().map_or(queue.next_lsn, |item| item.frame.header.numbers().0)
    }

    /// True if another round is queued.
    pub(super) fn is_awaited(&self) -> bool {
        !self.queue.lock().items.is_empty()
    }
}
