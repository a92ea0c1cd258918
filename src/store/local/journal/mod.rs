//! The shared commit journal: one sequential write and one sync for all callers that wait. A
//! caller that comes while no thread commits leads: it writes what is queued, its own frame among
//! it. Under load the committer thread leads, so that no caller's tasks wait for it. It must not
//! know sessions, nor files: `commit` makes frames visible once this module says they are durable.
//!
//! `queue` has the frames that wait, `lead` writes them, `outside_rounds` writes what no caller
//! waits for, `health` says how the disk does; `writer` and `ring` are the files, `recover` reads
//! them.

mod health;
mod lead;
mod outside_rounds;
pub(super) mod place;
mod queue;
pub(super) mod recover;
pub(super) mod ring;
pub(super) mod trouble;
pub(super) mod writer;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

pub(super) use self::queue::NotQueued;
use self::{
    place::JournalPlace,
    queue::{CommitQueue, Committer, Lead},
    ring::RingFile,
    trouble::Trouble,
    writer::{JournalWriter, RoundFailure},
};
use super::{options::Options, rank};
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
    store::{StoreError, StoreResult, rules::Effect},
};

/// A frame in flight, and the caller that waits for it.
pub(super) struct QueuedFrame<S> {
    pub(super) session: S,
    pub(super) frame: Frame,
    /// The payload as memory keeps it, where the frame's is encrypted.
    pub(super) plain: Option<Bytes>,
    /// Its effect on the session; `None` for a copy of a frame that was durable before.
    pub(super) effect: Option<Effect>,
    /// `None` once the caller was answered before the others.
    pub(super) done: Option<oneshot::Sender<StoreResult<ShowStep>>>,
}

/// Result for a caller whose frame is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShowStep {
    /// Readers see it.
    Seen,
    /// Readers see it once this caller has shown its round: [`Journal::show`].
    Show,
}

/// The last round that is durable, until it is visible, too.
struct Last<S> {
    /// Its frames; none once they are visible.
    items: Vec<QueuedFrame<S>>,
    /// End of the frames.
    end: JournalPlace,
    /// The end of what is durable and visible to readers.
    visible: JournalPlace,
}

/// Receiver of the frames of a round that has ended.
pub(super) trait Sink<S> {
    /// Makes the frames of a round visible, or void; leaves the list empty.
    fn ended(&self, round: &mut Vec<QueuedFrame<S>>, result: Result<(), RoundFailure>);
}

type Outcome<'a, S> = &'a dyn Sink<S>;

/// The queue and the files behind it.
pub(super) struct Journal<S> {
    env: Env,
    /// True if a committer thread runs.
    background: bool,
    queue: Mutex<CommitQueue<S>>,
    wake: Condvar,
    /// Wakes a thread that waits for the lead.
    offered: Condvar,
    /// Held across a write and its sync: what an append asks for is beside it.
    writer: Mutex<JournalWriter>,
    /// Held while a round is made visible, so that one becomes so behind the other.
    last: Mutex<Last<S>>,
    /// The start of this owner.
    start: u64,
    /// Frames that were queued in an earlier epoch are void.
    epoch: AtomicU64,
    /// Bytes written since start, for the flush trigger.
    written: AtomicU64,
    trouble: Mutex<Trouble>,
    /// When the write or sync under way began, in microseconds of the monotonic clock; 0 when none
    /// is.
    busy_since: AtomicU64,
    progress: watch::Sender<u64>,
}

/// Point where the journal continues, as recovery found it.
pub(super) struct Resume {
    /// End of the frames of the last file.
    pub(super) place: JournalPlace,
    /// The largest order any file of the ring has.
    pub(super) order: u64,
    /// The last start.
    pub(super) start: u64,
    /// Files of the ring, each with the order of its last use and its size.
    pub(super) ring: Vec<RingFile>,
}

impl<S> Journal<S> {
    pub(super) fn new(env: Env, options: Options, store: [u8; 16], resume: Resume) -> Self {
        let start = resume.start + 1;
        let Resume { place, order, ring, .. } = resume;
        let bytes = options.journal_file_bytes;
        let writer = JournalWriter::new(env.clone(), (store, start), bytes, ring, order, place);
        let queue = CommitQueue {
            items: Vec::new(),
            bytes: 0,
            next_lsn: place.lsn,
            lead: Lead::Free,
            waiting: 0,
            crowded: false,
            committer: Committer::Asleep,
            refuse: None,
        };
        let last = Last { items: Vec::new(), end: place, visible: place };
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
            trouble: Mutex::new(rank::TROUBLE, Trouble::default()),
            busy_since: AtomicU64::new(0),
            progress: watch::channel(0).0,
        }
    }

    /// The current epoch: what is queued now is void when it changes.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Number of rounds that ended, whatever their outcome.
    pub(super) fn rounds(&self) -> u64 {
        *self.progress.borrow()
    }

    /// Waits until more rounds have ended than `seen`.
    pub(super) async fn round_after(&self, seen: u64) {
        let mut progress = self.progress.subscribe();
        // The sender lives as long as this journal.
        let _ = progress.wait_for(|rounds| *rounds > seen).await;
    }

    /// Lets no payload of such frames be repeated in another file: see [`JournalWriter::blank`].
    pub(super) fn blank(&self, session: SessionHash, wanted: &dyn Fn(u64, u64) -> bool) {
        self.writer.lock().blank(session, wanted);
    }

    /// The place of the journal up to which everything is durable and visible.
    pub(super) fn place(&self) -> JournalPlace {
        self.last.lock().visible
    }

    /// The start of this owner.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Lets a file of the ring not be used again by this process.
    pub(super) fn condemn(&self, number: u32) {
        self.writer.lock().condemn(number);
    }

    /// True if the number is of a file of the ring that this process does not use again.
    pub(super) fn is_condemned(&self, number: Option<u32>) -> bool {
        number.is_some_and(|number| self.writer.lock().is_condemned(number))
    }

    /// Lets a file of the ring that failed, if it is one, not be written to any more. The caller
    /// leads.
    pub(super) fn abandon(&self, number: Option<u32>) {
        number.into_iter().for_each(|number| self.writer.lock().abandon(number));
    }

    /// The files of the ring that were used: number and order.
    pub(super) fn files(&self) -> Vec<(u32, u64)> {
        self.writer.lock().used()
    }

    /// Makes new files of the ring small while true: space is short.
    pub(super) fn set_small_files(&self, sparing: bool) {
        self.writer.lock().set_small_files(sparing);
    }

    /// Files before this order hold nothing that is not flushed twice.
    pub(super) fn recycle(&self, order: u64) {
        self.writer.lock().recycle(order);
    }

    /// Bytes written since start.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// Bytes of the frames of a round.
fn bytes_of<S>(round: &[QueuedFrame<S>]) -> u64 {
    round.iter().map(|item| item.frame.header.stride()).sum()
}

/// Error for those who waited for a failed round.
pub(super) fn error_of(failure: &RoundFailure) -> StoreError {
    match failure {
        RoundFailure::Unknown(error) => StoreError::OutcomeUnknown { reason: error.to_string() },
        RoundFailure::Refused(error) => trouble::write_error("opening a journal file", error),
    }
}

#[cfg(test)]
mod tests;
