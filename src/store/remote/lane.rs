//! The queue of a lane: requests that wait for their commit, and what the lane remembers of its
//! sessions. It must not plan a request, nor commit.

use std::collections::{HashSet, VecDeque};

use quick_cache::unsync::Cache;
use tokio::sync::oneshot;

use super::{plan::PlanOutcome, row::Head};
use crate::{
    env::sync::Mutex,
    event::{Batch, Position, SessionKey},
    log::KnownBatch,
    store::{
        AppendResult, SessionInfo, SessionLease, StoreResult, base::Hash16, rules::WriteRequest,
    },
};

/// Maximum requests and bytes of bodies in one step.
const STEP_REQUESTS_MAX: usize = 256;
const STEP_BYTES_MAX: usize = 4 << 20;

/// Requests to sessions of one lane.
#[derive(Default)]
pub(super) struct Lane(pub(super) Mutex<LaneQueue>);

#[derive(Default)]
pub(super) struct LaneQueue {
    pub(super) waiting: VecDeque<PendingWrite>,
    pub(super) bytes: usize,
    /// True while a task commits the requests of the lane.
    pub(super) running: bool,
    /// Sessions that another node, or this one outside of the lane, changed.
    moved: HashSet<Hash16>,
    pub(super) heads: Option<Heads>,
}

pub(super) type Heads = Cache<Hash16, Head>;

/// A request that waits for its answer.
pub(super) struct PendingWrite {
    pub(super) key: SessionKey,
    pub(super) name: Hash16,
    pub(super) request: WriteRequest,
    pub(super) wants_info: bool,
    /// Sequence number at its arrival.
    pub(super) since: u64,
    /// True if it must be planned on a row that is read after its arrival, and after a look at the
    /// names that it gives.
    pub(super) fresh: bool,
    /// Times that its session was locked by another node.
    pub(super) busy: u32,
    pub(super) reply: oneshot::Sender<StoreResult<WriteAnswer>>,
}

/// Answer to a request.
pub(super) enum WriteAnswer {
    Done {
        result: AppendResult,
        /// The session after the request, if it was wanted.
        info: Option<Box<SessionInfo>>,
        lease: Option<SessionLease>,
        /// True if a frame was written.
        wrote: bool,
    },
    /// The batch is known: the caller reads the stored events.
    Batch(KnownBatch, Batch),
    /// Events of the batch are known.
    Events(Vec<Option<Position>>, Batch),
}

impl Lane {
    /// Records that a session changed outside of the lane.
    pub(super) fn mark_moved(&self, name: Hash16) {
        let mut queue = self.0.lock();
        match &mut queue.heads {
            Some(heads) => drop(heads.remove(&name)),
            None => drop(queue.moved.insert(name)),
        }
    }

    /// Takes the requests of the next step; marks the lane as idle if there is none.
    pub(super) fn take(&self, heads: &mut Option<Heads>) -> Vec<PendingWrite> {
        let mut queue = self.0.lock();
        if let Some(heads) = heads {
            queue.moved.drain().for_each(|name| drop(heads.remove(&name)));
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(next) = queue.waiting.front() {
            bytes += request_bytes(&next.request);
            if taken.len() >= STEP_REQUESTS_MAX || !taken.is_empty() && bytes > STEP_BYTES_MAX {
                break;
            }
            taken.extend(queue.waiting.pop_front());
        }
        queue.bytes -= taken.iter().map(|one| request_bytes(&one.request)).sum::<usize>();
        if taken.is_empty() {
            queue.running = false;
            queue.heads = heads.take();
        }
        taken
    }

    /// Returns requests to the front of the queue, in their order.
    pub(super) fn put_back(&self, requests: Vec<PendingWrite>) {
        let mut queue = self.0.lock();
        queue.bytes += requests.iter().map(|one| request_bytes(&one.request)).sum::<usize>();
        requests.into_iter().rev().for_each(|one| queue.waiting.push_front(one));
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

/// Marks a lane as idle if its task ends by a panic.
pub(super) struct RunningLane<'a>(pub(super) &'a Lane);

impl Drop for RunningLane<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = self.0.0.lock();
            queue.running = false;
            queue.waiting.clear();
            queue.bytes = 0;
        }
    }
}

/// Returns the bytes of the bodies of a request.
pub(super) fn request_bytes(request: &WriteRequest) -> usize {
    request.batch.events.iter().map(|event| event.body.len()).sum()
}

impl PendingWrite {
    pub(super) fn answer(self, answer: StoreResult<WriteAnswer>) {
        // The caller may have stopped waiting.
        let _ = self.reply.send(answer);
    }

    pub(super) fn answer_done(self, result: AppendResult, head: &Head, wrote: bool) {
        let info = self.wants_info.then(|| Box::new(head.info()));
        let lease = self.request.lease;
        self.answer(Ok(WriteAnswer::Done { result, info, lease, wrote }));
    }

    /// Answers a request that writes nothing.
    pub(super) fn answer_planned(self, planned: StoreResult<PlanOutcome>, head: &Head) {
        match planned {
            Ok(PlanOutcome::Unchanged(result)) => self.answer_done(result, head, false),
            Ok(PlanOutcome::Batch(known)) => {
                let batch = self.request.batch;
                let _ = self.reply.send(Ok(WriteAnswer::Batch(known, batch)));
            }
            Ok(PlanOutcome::Events(known)) => {
                let batch = self.request.batch;
                let _ = self.reply.send(Ok(WriteAnswer::Events(known, batch)));
            }
            Err(error) => self.answer(Err(error)),
            Ok(PlanOutcome::Framed(_) | PlanOutcome::Later) => {
                unreachable!("a planned frame is answered with its commit")
            }
        }
    }
}
