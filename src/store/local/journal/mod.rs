//! The shared commit journal: one sequential write and one sync for all waiting callers. A caller
//! that arrives while no thread leads becomes the leader: it writes the queued frames, its own
//! among them. Under load the committer thread leads, so that no caller's task does. It must not
//! access session state or segments: its sink makes frames visible once they are durable.
//!
//! `queue` has the pending frames, `lead` writes them, `outside_rounds` writes without a waiting
//! caller, `health` tracks the disk; `writer` and `ring` are the files, `recover` reads them.

mod health;
mod lead;
mod outside_rounds;
pub(super) mod place;
mod queue;
pub(super) mod recover;
pub(super) mod ring;
pub(super) mod trouble;
pub(super) mod writer;

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
};

pub(super) use self::queue::QueueRefusal;
use self::{
    place::JournalLocation,
    queue::{CommitQueue, CommitterState, LeaderState},
    ring::RingFile,
    trouble::DiskTrouble,
    writer::{JournalWriter, RoundFailure},
};
use super::{options::StoreOptions, rank};
use crate::{
    env::{
        Env,
        sync::{
            Condvar, Mutex,
            atomic::{AtomicU64, Ordering},
        },
    },
    event::SessionHash,
    log::Frame,
    store::{StoreError, StoreResult, rules::FrameEffect},
};

/// Frame in flight, and the caller that waits for it.
pub(super) struct QueuedFrame<S> {
    pub(super) session: S,
    pub(super) frame: Frame,
    /// Plaintext payload for use in memory, if the frame's is encrypted.
    pub(super) plain: Option<Bytes>,
    /// Its effect on the session; `None` for a copy of a frame that was durable before.
    pub(super) effect: Option<FrameEffect>,
    /// Channel to the caller; `None` once it was notified to show the round.
    pub(super) done: Option<oneshot::Sender<StoreResult<VisibilityStep>>>,
}

/// Result for a caller with a durable frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisibilityStep {
    /// The frame is visible to readers.
    Seen,
    /// The frame becomes visible once this caller calls [`Journal::show_last_round`].
    Show,
}

/// Last durable round, until it is visible.
struct LastRound<S> {
    /// Frames of the round; empty once they are visible.
    items: Vec<QueuedFrame<S>>,
    /// Journal location after the frames.
    end: JournalLocation,
    /// Journal location before which everything is durable and visible to readers.
    visible: JournalLocation,
}

/// Receiver of the frames of a round that has ended.
pub(super) trait Sink<S> {
    /// Makes the frames of a round visible, or void; drains the list.
    fn finish_round(&self, round: &mut Vec<QueuedFrame<S>>, result: Result<(), RoundFailure>);
}

type Outcome<'a, S> = &'a dyn Sink<S>;

/// Commit journal: the queue and the ring of files.
pub(super) struct Journal<S> {
    env: Env,
    /// True if a committer thread runs.
    background: bool,
    queue: Mutex<CommitQueue<S>>,
    wake: Condvar,
    /// Condition that wakes a thread waiting for the lead.
    offered: Condvar,
    /// Held across a write and its sync; fields that appends read are outside of it.
    writer: Mutex<JournalWriter>,
    /// Held while a round is made visible, so that rounds become visible in order.
    last: Mutex<LastRound<S>>,
    /// Number of this owner's start.
    start: u64,
    /// Current epoch; frames queued in an earlier one are void.
    epoch: AtomicU64,
    /// Number of bytes written since the start, for the flush trigger.
    written: AtomicU64,
    trouble: Mutex<DiskTrouble>,
    /// Start of the write or sync in progress, in microseconds of the monotonic clock; 0 for none.
    busy_since: AtomicU64,
    /// Moving average of how long a write or sync takes, in microseconds.
    usual_micros: AtomicU64,
    /// Runtime of the last task that led in place.
    runtime: Mutex<Option<Handle>>,
    progress: watch::Sender<u64>,
}

/// State from which the journal continues, as recovery found it.
pub(super) struct JournalResume {
    /// Journal location after the frames of the last file.
    pub(super) place: JournalLocation,
    /// Largest order of any file of the ring.
    pub(super) order: u64,
    /// Number of the last start.
    pub(super) start: u64,
    /// Files of the ring, each with the order of its last use and its size.
    pub(super) ring: Vec<RingFile>,
}

impl<S> Journal<S> {
    pub(super) fn new(
        env: Env,
        options: StoreOptions,
        store: [u8; 16],
        resume: JournalResume,
    ) -> Self {
        let start = resume.start + 1;
        let JournalResume { place, order, ring, .. } = resume;
        let bytes = options.journal_file_bytes;
        let writer = JournalWriter::new(env.clone(), (store, start), bytes, ring, order, place);
        let queue = CommitQueue {
            items: Vec::new(),
            bytes: 0,
            next_lsn: place.lsn,
            lead: LeaderState::Free,
            waiting: 0,
            expected: 0,
            round_start: Duration::ZERO,
            cycle: Duration::ZERO,
            gathers: false,
            committer: CommitterState::Asleep,
            refuse: None,
        };
        let last = LastRound { items: Vec::new(), end: place, visible: place };
        Self {
            env,
            background: options.background,
            queue: Mutex::new(rank::QUEUE, queue),
            wake: Condvar::new(),
            offered: Condvar::new(),
            writer: Mutex::new(rank::WRITER, writer),
            last: Mutex::new(rank::LAST_ROUND, last),
            start,
            epoch: AtomicU64::new(0),
            written: AtomicU64::new(0),
            trouble: Mutex::new(rank::TROUBLE, DiskTrouble::default()),
            busy_since: AtomicU64::new(0),
            // Slow until it is known.
            usual_micros: AtomicU64::new(2 * health::QUICK_MAX.as_micros() as u64),
            runtime: Mutex::new(rank::LAST, None),
            progress: watch::channel(0).0,
        }
    }

    /// Returns the current epoch: frames queued now are void once it changes.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the number of rounds that ended, whatever their outcome.
    pub(super) fn ended_rounds(&self) -> u64 {
        *self.progress.borrow()
    }

    /// Waits until the number of ended rounds exceeds `seen`.
    pub(super) async fn wait_for_round_after(&self, seen: u64) {
        let mut progress = self.progress.subscribe();
        // The sender lives as long as this journal.
        let _ = progress.wait_for(|rounds| *rounds > seen).await;
    }

    /// Zeroes payloads kept to be repeated in another file: see [`JournalWriter::zero_payloads`].
    pub(super) fn zero_payloads(&self, session: SessionHash, wanted: &dyn Fn(u64, u64) -> bool) {
        self.writer.lock().zero_payloads(session, wanted);
    }

    /// Returns the journal location up to which everything is durable and visible.
    pub(super) fn visible_location(&self) -> JournalLocation {
        self.last.lock().visible
    }

    /// Returns the number of this owner's start.
    pub(super) fn start_number(&self) -> u64 {
        self.start
    }

    /// Excludes a file of the ring from further use by this process.
    pub(super) fn exclude_file(&self, number: u32) {
        self.writer.lock().exclude_file(number);
    }

    /// Returns true if the number is that of a file excluded from further use by this process.
    pub(super) fn is_excluded(&self, number: Option<u32>) -> bool {
        number.is_some_and(|number| self.writer.lock().is_excluded(number))
    }

    /// Excludes a failed file from further writes, if it is one of the ring. The caller leads.
    pub(super) fn abandon_file(&self, number: Option<u32>) {
        number.into_iter().for_each(|number| self.writer.lock().abandon_file(number));
    }

    /// Returns the files of the ring that were used: number and order.
    pub(super) fn used_files(&self) -> Vec<(u32, u64)> {
        self.writer.lock().used_files()
    }

    /// Sets whether new files of the ring are small, because space is short.
    pub(super) fn set_small_files(&self, sparing: bool) {
        self.writer.lock().set_small_files(sparing);
    }

    /// Allows reuse of files before this order: both settled files cover them.
    pub(super) fn recycle(&self, order: u64) {
        self.writer.lock().recycle(order);
    }

    /// Returns the number of bytes written since the start.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

fn bytes_of<S>(round: &[QueuedFrame<S>]) -> u64 {
    round.iter().map(|item| item.frame.header.stride()).sum()
}

/// Returns the error for callers of a failed round.
pub(super) fn error_of(failure: &RoundFailure) -> StoreError {
    match failure {
        RoundFailure::Unknown(error) => StoreError::OutcomeUnknown { reason: error.to_string() },
        RoundFailure::Refused(error) => trouble::write_error("opening a journal file", error),
    }
}

#[cfg(test)]
mod tests;
