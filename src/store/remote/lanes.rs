//! Lanes: each commits the changes of many sessions in one step of the base, one step at a time. A
//! session belongs to one lane of a node. Requests that arrive while a step is under way are planned
//! for the next one. It must not decide a request; `plan` does, with the rules.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use indexmap::IndexMap;
use quick_cache::unsync::Cache;
use tokio::sync::oneshot;

use super::{
    node::Node,
    plan::{Plan, PlanContext, PlannedRequest, batch_of_name, has_names},
    row::{Head, session_name, uid_of},
    store_error,
};
use crate::{
    env::{Clock, sync::Mutex},
    event::{Batch, Position, SessionKey},
    log::KnownBatch,
    store::{
        AppendResult, SessionInfo, SessionLease, StoreError, StoreResult,
        base::{BaseError, Hash16, RowWrite, WriteOutcome},
        rules::{RequestFacts, WriteKind, WriteRequest, names::key_hash},
    },
};

/// Lanes of a node.
pub(super) const LANES: usize = 2;
/// Maximum requests and bytes of bodies in one step.
const STEP_REQUESTS_MAX: usize = 256;
const STEP_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes of bodies that wait in a lane.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Sessions whose rows a lane remembers.
const HEADS_MAX: usize = 8_192;
/// A lane waits for requests of those it just answered for at most this part of the last step.
const TURN_PART: u32 = 8;
/// Times that a session is found locked by another node before its change waits for the lock.
const BUSY_MAX: u32 = 2;
/// Time after which a commit without a known outcome is reported as such.
const UNSURE_MAX: Duration = Duration::from_secs(30);
/// First and longest pause before a commit without a known outcome is sent again.
const UNSURE_PAUSE: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// Requests to sessions of one lane.
#[derive(Default)]
pub(super) struct Lane(Mutex<LaneQueue>);

#[derive(Default)]
struct LaneQueue {
    waiting: VecDeque<PendingRequest>,
    bytes: usize,
    /// True while a task commits the requests of the lane.
    running: bool,
    /// Sessions that another node, or this one outside of the lane, changed.
    moved: HashSet<Hash16>,
    heads: Option<Heads>,
}

type Heads = Cache<Hash16, Head>;

/// A request that waits for its answer.
struct PendingRequest {
    key: SessionKey,
    name: Hash16,
    request: WriteRequest,
    wants_info: bool,
    /// Sequence number at its arrival.
    since: u64,
    /// True if it must be planned on a row that is read after its arrival, and after a look at the
    /// names that it gives.
    fresh: bool,
    /// Times that its session was locked by another node.
    busy: u32,
    reply: oneshot::Sender<StoreResult<Answer>>,
}

/// Answer to a request.
pub(super) enum Answer {
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

/// A change that is being committed, with the requests that it answers.
struct Step {
    after: Head,
    framed: Vec<(PendingRequest, AppendResult)>,
}

impl Lane {
    /// Records that a session changed outside of the lane.
    pub(super) fn mark_moved(&self, name: Hash16) {
        self.0.lock().moved.insert(name);
    }

    /// Takes the requests of the next step; marks the lane as idle if there is none.
    fn take(&self, heads: &mut Option<Heads>) -> Vec<PendingRequest> {
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
    fn put_back(&self, requests: Vec<PendingRequest>) {
        let mut queue = self.0.lock();
        queue.bytes += requests.iter().map(|one| request_bytes(&one.request)).sum::<usize>();
        requests.into_iter().rev().for_each(|one| queue.waiting.push_front(one));
    }

    fn len(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

/// Marks a lane as idle if its task ends by a panic.
struct RunningLane<'a>(&'a Lane);

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

fn request_bytes(request: &WriteRequest) -> usize {
    request.batch.events.iter().map(|event| event.body.len()).sum()
}

impl Node {
    /// Commits a request to a session and returns its answer.
    pub(super) async fn submit(
        self: &Arc<Self>,
        key: &SessionKey,
        request: WriteRequest,
        wants_info: bool,
    ) -> StoreResult<Answer> {
        self.check_writable()?;
        let name = session_name(key);
        let (reply, answer) = oneshot::channel();
        let pending = PendingRequest {
            key: key.clone(),
            name,
            request,
            wants_info,
            since: self.next_sequence(),
            fresh: false,
            busy: 0,
            reply,
        };
        let lane = self.lane_index(name);
        let starts = {
            let mut queue = self.lane(lane).0.lock();
            let bytes = request_bytes(&pending.request);
            if queue.bytes + bytes > WAITING_BYTES_MAX && !queue.waiting.is_empty() {
                return Err(StoreError::Busy);
            }
            queue.bytes += bytes;
            queue.waiting.push_back(pending);
            !mem::replace(&mut queue.running, true)
        };
        if starts {
            // In a task of its own: it serves other callers, too, and this one may stop waiting.
            tokio::spawn(Arc::clone(self).run_lane(lane));
        }
        let lost = || StoreError::OutcomeUnknown { reason: "the store was closed".to_owned() };
        answer.await.map_err(|_| lost())?
    }

    async fn run_lane(self: Arc<Self>, index: usize) {
        let lane = self.lane(index);
        let running = RunningLane(lane);
        let mut heads = lane.0.lock().heads.take().or_else(|| Some(Cache::new(HEADS_MAX)));
        loop {
            let requests = lane.take(&mut heads);
            let Some(known) = heads.as_mut().filter(|_| !requests.is_empty()) else { break };
            let began = self.real.monotonic();
            let count = requests.len();
            let later = self.run_step(known, requests).await;
            let answered = count - later.len();
            lane.put_back(later);
            let took = self.real.monotonic() - began;
            let until = self.real.monotonic() + took / TURN_PART;
            while lane.len() < answered && self.real.monotonic() < until {
                tokio::task::yield_now().await;
            }
        }
        drop(running);
    }

    /// Plans and commits requests; returns those to be planned again.
    async fn run_step(
        self: &Arc<Self>,
        heads: &mut Heads,
        requests: Vec<PendingRequest>,
    ) -> Vec<PendingRequest> {
        let mut sessions: IndexMap<Hash16, Vec<PendingRequest>> = IndexMap::new();
        for pending in requests {
            if pending.fresh {
                heads.remove(&pending.name);
            }
            sessions.entry(pending.name).or_default().push(pending);
        }
        let missing: Vec<Hash16> =
            sessions.keys().filter(|name| heads.get(*name).is_none()).copied().collect();
        if let Err(error) = self.load_heads(heads, missing).await {
            sessions.into_values().flatten().for_each(|one| one.answer(Err(copy_error(&error))));
            return Vec::new();
        }
        let (mut names, mut refused) = (HashMap::new(), None);
        match self.look_up_names(heads, &sessions).await {
            Ok(found) => names = found,
            Err(error) => refused = Some(error),
        }
        let context = PlanContext {
            counted: self.counted_time(),
            keys_live_from: self.keys_live_from(),
            entropy: &*self.entropy,
        };
        let (mut steps, mut writes, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for (name, requests) in sessions {
            let Some(head) = heads.get(&name).cloned() else {
                for one in requests {
                    let session = one.key.session.clone();
                    one.answer(Err(StoreError::SessionNotFound { session }));
                }
                continue;
            };
            let (mut plan, mut framed) = (Plan::new(head), Vec::new());
            for mut pending in requests {
                if let (true, Some(error)) = (pending.fresh, &refused) {
                    pending.answer(Err(copy_error(error)));
                    continue;
                }
                let Some(facts) = facts_of(&pending, &plan.head, &names, &context) else {
                    later.push(pending);
                    continue;
                };
                if let WriteKind::Expire = pending.request.ask
                    && !self.is_due_to_expire(&plan.head.entry, context.counted)
                {
                    let result = AppendResult::unchanged(plan.head.entry.receipt());
                    pending.answer_done(result, &plan.head, false);
                    continue;
                }
                let is_first = plan.is_empty();
                let planned = plan.add(&mut pending.request, facts, &context);
                if let Ok(PlannedRequest::Framed(result)) = planned {
                    framed.push((pending, result));
                    continue;
                }
                let needs_names = has_names(&pending.request) && !pending.fresh;
                let is_fresh = plan.head.checked > pending.since && !needs_names;
                if !is_first || !is_fresh || matches!(planned, Ok(PlannedRequest::Later)) {
                    // It may rest on a row that is out of date, or on a frame that may fail.
                    pending.fresh = true;
                    later.push(pending);
                    continue;
                }
                pending.answer_planned(planned, &plan.head);
            }
            if !plan.is_empty() {
                let (write, after) = plan.finish();
                writes.push(write);
                steps.push(Step { after, framed });
            }
        }
        later.extend(self.commit_steps(heads, steps, writes).await);
        later
    }

    /// Reads the rows of sessions that the lane does not know.
    async fn load_heads(&self, heads: &mut Heads, names: Vec<Hash16>) -> StoreResult<()> {
        if names.is_empty() {
            return Ok(());
        }
        for head in self.fetch_heads(names).await? {
            heads.insert(head.row.name, head);
        }
        Ok(())
    }

    /// Looks up the names that requests give, where they must be looked at.
    async fn look_up_names(
        &self,
        heads: &Heads,
        sessions: &IndexMap<Hash16, Vec<PendingRequest>>,
    ) -> StoreResult<HashMap<(Hash16, Hash16), crate::store::base::KnownName>> {
        let mut wanted = Vec::new();
        for (name, requests) in sessions {
            let Some(head) = heads.get(name) else { continue };
            for pending in requests.iter().filter(|one| one.fresh && has_names(&one.request)) {
                wanted.extend(names_of(&pending.request, head));
            }
        }
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.base.known(wanted.clone()).await.map_err(store_error)?;
        let found = wanted.into_iter().zip(found);
        Ok(found.filter_map(|(name, known)| Some((name, known?))).collect())
    }

    /// Commits planned changes and answers their requests; returns requests to be planned again.
    async fn commit_steps(
        &self,
        heads: &mut Heads,
        steps: Vec<Step>,
        writes: Vec<RowWrite>,
    ) -> Vec<PendingRequest> {
        let mut later = Vec::new();
        if steps.is_empty() {
            return later;
        }
        let checked = self.next_sequence();
        let is_locked = |step: &Step| step.framed.iter().any(|(one, _)| one.busy > BUSY_MAX);
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for (step, write) in steps.into_iter().zip(writes) {
            let part = if is_locked(&step) { &mut alone } else { &mut together };
            part.push((step, write));
        }
        let mut parts = vec![(together, false)];
        parts.extend(alone.into_iter().map(|one| (vec![one], true)));
        while let Some((part, waits)) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let writes: Arc<[RowWrite]> = part.iter().map(|(_, write)| write.clone()).collect();
            match self.commit_surely(Arc::clone(&writes), waits).await {
                Ok(outcomes) => {
                    for ((step, _), outcome) in part.into_iter().zip(outcomes) {
                        later.extend(self.end_step(heads, step, outcome, checked));
                    }
                }
                // One of them may be the reason.
                Err(BaseError::Failed(_)) if part.len() > 1 => {
                    parts.extend(part.into_iter().map(|one| (vec![one], waits)));
                }
                Err(error) => {
                    let error = store_error(error);
                    for (Step { after, framed }, _) in part {
                        heads.remove(&after.row.name);
                        framed.into_iter().for_each(|(one, _)| one.answer(Err(copy_error(&error))));
                    }
                }
            }
        }
        later
    }

    /// Answers the requests of a change that was committed, or returns them to be planned again.
    fn end_step(
        &self,
        heads: &mut Heads,
        step: Step,
        outcome: WriteOutcome,
        checked: u64,
    ) -> Vec<PendingRequest> {
        let Step { mut after, framed } = step;
        let name = after.row.name;
        if outcome == WriteOutcome::Done {
            after.row.revision += 1;
            after.checked = checked;
            self.record_commit(&after);
            for (pending, result) in framed {
                pending.answer_done(result, &after, true);
            }
            heads.insert(name, after);
            return Vec::new();
        }
        if outcome != WriteOutcome::Busy {
            heads.remove(&name);
        }
        let again = framed.into_iter().map(|(mut pending, result)| {
            pending.request.placed = result.events;
            pending.busy += u32::from(outcome == WriteOutcome::Busy);
            pending.fresh = outcome != WriteOutcome::Busy;
            pending
        });
        again.collect()
    }

    /// Commits changes until their outcome is known: a commit that may have happened is sent again,
    /// and its own condition keeps it from happening twice.
    pub(super) async fn commit_surely(
        &self,
        writes: Arc<[RowWrite]>,
        waits: bool,
    ) -> Result<Vec<WriteOutcome>, BaseError> {
        let until = self.real.monotonic() + UNSURE_MAX;
        let [mut pause, longest] = UNSURE_PAUSE;
        let mut unsure = None;
        loop {
            let outcomes = match self.base.commit(Arc::clone(&writes), waits).await {
                Ok(outcomes) if unsure.is_none() => return Ok(outcomes),
                Ok(outcomes) if !outcomes.contains(&WriteOutcome::Busy) => {
                    self.find_own_commits(&writes, outcomes).await
                }
                // The statement whose answer was lost may still hold the rows.
                Ok(_) => Err(BaseError::Unsure("the rows stay locked".to_owned())),
                Err(error) => Err(error),
            };
            match outcomes {
                Ok(outcomes) => return Ok(outcomes),
                Err(error @ BaseError::Unsure(_)) => unsure = Some(error),
                Err(error) if unsure.is_none() => return Err(error),
                Err(_) => {}
            }
            self.unsure_commits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if self.real.monotonic() >= until || self.is_closed() {
                return Err(unsure.unwrap_or_else(|| BaseError::Unsure("it was closed".into())));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Replaces the outcome of changes that had happened before they were sent again.
    async fn find_own_commits(
        &self,
        writes: &[RowWrite],
        mut outcomes: Vec<WriteOutcome>,
    ) -> Result<Vec<WriteOutcome>, BaseError> {
        for (write, outcome) in writes.iter().zip(&mut outcomes) {
            let Some(frame) = write.frames.first().filter(|_| *outcome == WriteOutcome::Moved)
            else {
                continue;
            };
            let stored = self.base.attempt(write.after.uid, frame.first, frame.number).await;
            match stored {
                Ok(stored) if stored == Some(frame.attempt) => *outcome = WriteOutcome::Done,
                Ok(_) => {}
                // It may have happened: ask again.
                Err(error) => return Err(BaseError::Unsure(error.to_string())),
            }
        }
        Ok(outcomes)
    }
}

impl PendingRequest {
    fn answer(self, answer: StoreResult<Answer>) {
        // The caller may have stopped waiting.
        let _ = self.reply.send(answer);
    }

    fn answer_done(self, result: AppendResult, head: &Head, wrote: bool) {
        let info = self.wants_info.then(|| Box::new(head.info()));
        let lease = self.request.lease;
        self.answer(Ok(Answer::Done { result, info, lease, wrote }));
    }

    /// Answers a request that writes nothing.
    fn answer_planned(self, planned: StoreResult<PlannedRequest>, head: &Head) {
        match planned {
            Ok(PlannedRequest::Unchanged(result)) => self.answer_done(result, head, false),
            Ok(PlannedRequest::Batch(known)) => {
                let batch = self.request.batch;
                let _ = self.reply.send(Ok(Answer::Batch(known, batch)));
            }
            Ok(PlannedRequest::Events(known)) => {
                let batch = self.request.batch;
                let _ = self.reply.send(Ok(Answer::Events(known, batch)));
            }
            Err(error) => self.answer(Err(error)),
            Ok(PlannedRequest::Framed(_) | PlannedRequest::Later) => {
                unreachable!("a planned frame is answered with its commit")
            }
        }
    }
}

/// Returns the names that a request gives, of its session and of the ones that a fork reads from.
fn names_of(request: &WriteRequest, head: &Head) -> Vec<(Hash16, Hash16)> {
    let own = head.uid();
    let given: Vec<Hash16> = request.names.iter().filter_map(|name| name.given_hash()).collect();
    let uids = head.ancestors.iter().map(|one| uid_of(one.hash)).chain([own]);
    let mut names: Vec<_> =
        uids.flat_map(|uid| given.iter().map(move |hash| (uid, *hash))).collect();
    names.extend(request.batch.key.as_ref().map(|key| (own, key_hash(key.as_str()))));
    names
}

/// Returns the known names of a request; `None` if one is newer than the row.
fn facts_of(
    pending: &PendingRequest,
    head: &Head,
    known: &HashMap<(Hash16, Hash16), crate::store::base::KnownName>,
    context: &PlanContext<'_>,
) -> Option<RequestFacts> {
    let (request, own) = (&pending.request, head.uid());
    let mut facts = RequestFacts::default();
    if !has_names(request) {
        return Some(facts);
    }
    if pending.fresh {
        let key = request.batch.key.as_ref().map(|key| key.as_str());
        let batch = key.and_then(|key| known.get(&(own, key_hash(key))).map(|name| (key, name)));
        let batch = batch.filter(|(_, name)| name.at >= context.keys_live_from);
        if batch.is_some_and(|(_, name)| name.position >= head.row.tail) {
            return None;
        }
        facts.batch = batch.map(|(key, name)| batch_of_name(key, name));
    }
    let mut positions = Vec::with_capacity(request.names.len());
    for (n, name) in request.names.iter().enumerate() {
        let mut found = request.inherited.get(n).copied().flatten();
        if let Some(hash) = name.given_hash().filter(|_| pending.fresh) {
            let mine = known.get(&(own, hash)).map(|name| name.position);
            if mine.is_some_and(|at| at >= head.row.tail) {
                return None;
            }
            let inherited = head.ancestors.iter().find_map(|one| {
                let name = known.get(&(uid_of(one.hash), hash))?;
                (name.position < one.range.to).then_some(name.position)
            });
            found = mine.or(inherited).or(found);
        }
        positions.push(found);
    }
    if positions.iter().any(Option::is_some) {
        facts.known = positions;
    }
    Some(facts)
}

/// Copies an error of the base for another caller.
fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unreachable { reason } => StoreError::Unreachable { reason: reason.clone() },
        StoreError::OutcomeUnknown { reason } => {
            StoreError::OutcomeUnknown { reason: reason.clone() }
        }
        StoreError::Busy => StoreError::Busy,
        StoreError::DiskFull(short) => StoreError::DiskFull(*short),
        StoreError::ReadOnly { reason } => StoreError::ReadOnly { reason: reason.clone() },
        other => {
            let source = std::io::Error::other(other.to_string());
            StoreError::Io { doing: "a statement of the base", source }
        }
    }
}
