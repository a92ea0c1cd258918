//! Lanes: each commits the changes of many sessions in one step of the base, one step at a time. A
//! session belongs to one lane of a node. Requests that arrive during a step are planned for the
//! next one. It must not decide a request; `plan` does, with the rules.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use indexmap::IndexMap;
use quick_cache::unsync::Cache;
use tokio::sync::oneshot;

use super::{
    lane::{Heads, PendingWrite, RunningLane, WriteAnswer, request_bytes},
    node::Node,
    plan::{Plan, PlanContext, PlanOutcome, batch_of_name, has_names},
    row::{DamagedRow, Head, session_name, uid_of},
    store_error,
};
use crate::{
    env::Clock,
    event::SessionKey,
    store::{
        AppendResult, StoreError, StoreResult,
        base::{BaseError, Hash16, KnownName, RowWrite, WriteOutcome},
        rules::{RequestFacts, WriteKind, WriteRequest, names::key_hash},
    },
};

/// Maximum bytes of bodies that wait in a lane.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Sessions whose rows a lane remembers.
const HEADS_MAX: usize = 8_192;
/// A lane waits for requests of those it just answered for at most this part of the last step.
const TURN_PART: u32 = 8;
const TURN_MAX: Duration = Duration::from_millis(1);
/// Times that a session is found locked by another node before its change waits for the lock.
const BUSY_MAX: u32 = 2;
/// Time after which a commit without a known outcome is reported as such.
const UNSURE_MAX: Duration = Duration::from_secs(30);
/// First and longest pause before a commit without a known outcome is sent again.
const UNSURE_PAUSE: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// Known names, each of a session.
type KnownNames = HashMap<(Hash16, Hash16), KnownName>;

/// A change that is being committed, with the requests that it answers.
struct Step {
    after: Head,
    framed: Vec<(PendingWrite, AppendResult)>,
}

impl Node {
    /// Commits a request to a session and returns its answer.
    pub(super) async fn submit(
        self: &Arc<Self>,
        key: &SessionKey,
        request: WriteRequest,
        wants_info: bool,
    ) -> StoreResult<WriteAnswer> {
        self.check_writable()?;
        let name = session_name(&self.keys.names, key);
        let (reply, answer) = oneshot::channel();
        let pending = PendingWrite {
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
        {
            let mut queue = self.lane(lane).0.lock();
            let bytes = request_bytes(&pending.request);
            if queue.bytes + bytes > WAITING_BYTES_MAX && !queue.waiting.is_empty() {
                return Err(StoreError::Busy);
            }
            queue.bytes += bytes;
            queue.waiting.push_back(pending);
        }
        self.start_lane(lane);
        let lost = || StoreError::OutcomeUnknown { reason: "the store was closed".to_owned() };
        answer.await.map_err(|_| lost())?
    }

    /// Starts the task of a lane, unless it runs or has no request. A task of its own, because it
    /// serves all callers, and any of them may stop waiting.
    fn start_lane(self: &Arc<Self>, index: usize) {
        let mut queue = self.lane(index).0.lock();
        if !queue.waiting.is_empty() && !mem::replace(&mut queue.running, true) {
            tokio::spawn(Arc::clone(self).run_lane(index));
        }
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
            let until = self.real.monotonic() + (took / TURN_PART).min(TURN_MAX);
            while lane.len() < answered && self.real.monotonic() < until {
                tokio::task::yield_now().await;
            }
        }
        drop(running);
    }

    /// Plans and commits requests; returns those to be planned again.
    async fn run_step(
        self: &Arc<Self>,
        remembered: &mut Heads,
        requests: Vec<PendingWrite>,
    ) -> Vec<PendingWrite> {
        let mut sessions: IndexMap<Hash16, Vec<PendingWrite>> = IndexMap::new();
        // The rows of this step: a remembered one may be evicted at any time.
        let mut heads: HashMap<Hash16, Head> = HashMap::new();
        for pending in requests {
            if pending.fresh {
                remembered.remove(&pending.name);
            }
            sessions.entry(pending.name).or_default().push(pending);
        }
        let known = sessions.keys().filter_map(|name| Some((*name, remembered.get(name)?.clone())));
        heads.extend(known);
        let missing: Vec<Hash16> =
            sessions.keys().filter(|name| !heads.contains_key(*name)).copied().collect();
        let mut damaged = HashMap::new();
        let found = match missing.is_empty() {
            true => Ok(Vec::new()),
            false => self.fetch_rows(missing).await,
        };
        match found {
            Ok(found) => {
                for (name, found) in found {
                    match found {
                        Ok(head) => drop(heads.insert(name, head)),
                        Err(error) => drop(damaged.insert(name, error)),
                    }
                }
            }
            Err(error) => {
                let all = sessions.into_values().flatten();
                all.for_each(|one| one.answer(Err(copy_error(&error))));
                return Vec::new();
            }
        }
        let names = self.look_up_names(&heads, &sessions).await;
        let context = PlanContext {
            counted: self.counted_time(),
            keys_live_from: self.keys_live_from(),
            entropy: &*self.entropy,
        };
        let (mut steps, mut writes, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for (name, requests) in sessions {
            let Some(head) = heads.remove(&name) else {
                for one in requests {
                    let session = one.key.session.clone();
                    let unknown = || StoreError::SessionNotFound { session };
                    let damaged =
                        damaged.get(&name).map(|row: &DamagedRow| row.error(&one.key.session));
                    one.answer(Err(damaged.unwrap_or_else(unknown)));
                }
                continue;
            };
            let (plan, framed) =
                self.plan_session(head.clone(), requests, &names, &context, &mut later);
            remembered.insert(name, head);
            if !plan.is_empty() {
                let (write, after) = plan.finish(&self.keys.names);
                writes.push(write);
                steps.push(Step { after, framed });
            }
        }
        later.extend(self.commit_steps(remembered, steps, writes).await);
        later
    }

    /// Plans the requests to one session: answers those that write nothing, and returns the plan
    /// with those that it commits; adds to `later` those to be planned again.
    fn plan_session(
        &self,
        head: Head,
        requests: Vec<PendingWrite>,
        names: &StoreResult<KnownNames>,
        context: &PlanContext<'_>,
        later: &mut Vec<PendingWrite>,
    ) -> (Plan, Vec<(PendingWrite, AppendResult)>) {
        let (mut plan, mut framed) = (Plan::new(head), Vec::new());
        let nothing = KnownNames::new();
        for mut pending in requests {
            let known = match names {
                Ok(known) => known,
                Err(error) if pending.fresh => {
                    pending.answer(Err(copy_error(error)));
                    continue;
                }
                Err(_) => &nothing,
            };
            let Some(facts) = facts_of(&pending, &plan.head, known, context) else {
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
            let planned = plan.add(&mut pending.request, facts, context);
            if let Ok(PlanOutcome::Framed(result)) = planned {
                framed.push((pending, result));
                continue;
            }
            let needs_names = has_names(&pending.request) && !pending.fresh;
            let is_fresh = plan.head.checked > pending.since && !needs_names;
            if !is_first || !is_fresh || matches!(planned, Ok(PlanOutcome::Later)) {
                // It may rest on a row that is out of date, or on a frame that may fail.
                pending.fresh = true;
                later.push(pending);
                continue;
            }
            pending.answer_planned(planned, &plan.head);
        }
        (plan, framed)
    }

    /// Looks up the names that requests give, where they must be looked at.
    async fn look_up_names(
        &self,
        heads: &HashMap<Hash16, Head>,
        sessions: &IndexMap<Hash16, Vec<PendingWrite>>,
    ) -> StoreResult<KnownNames> {
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
        self: &Arc<Self>,
        heads: &mut Heads,
        steps: Vec<Step>,
        writes: Vec<RowWrite>,
    ) -> Vec<PendingWrite> {
        let checked = self.next_sequence();
        let is_locked = |step: &Step| step.framed.iter().any(|(one, _)| one.busy > BUSY_MAX);
        let (mut together, mut parts) = (Vec::new(), Vec::new());
        for (step, write) in steps.into_iter().zip(writes) {
            if is_locked(&step) {
                // The lane does not wait for the lock.
                heads.remove(&step.after.row.name);
                tokio::spawn(Arc::clone(self).commit_locked(step, write));
            } else if write.touches.is_empty() {
                together.push((step, write));
            } else {
                parts.push(vec![(step, write)]);
            }
        }
        parts.push(together);
        let mut later = Vec::new();
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let writes: Arc<[RowWrite]> = part.iter().map(|(_, write)| write.clone()).collect();
            match self.commit_surely(writes, false).await {
                Ok(outcomes) => {
                    for ((step, _), outcome) in part.into_iter().zip(outcomes) {
                        later.extend(self.end_step(Some(heads), step, outcome, checked));
                    }
                }
                // One of them may be the reason.
                Err(BaseError::Failed(_)) if part.len() > 1 => {
                    parts.extend(part.into_iter().map(|one| vec![one]));
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

    /// Commits the change of a session that another node holds, outside of its lane.
    async fn commit_locked(self: Arc<Self>, step: Step, write: RowWrite) {
        let (name, checked) = (step.after.row.name, self.next_sequence());
        let outcome = self.commit_surely(Arc::new([write]), true).await;
        let lane = self.lane_index(name);
        self.lane(lane).mark_moved(name);
        match outcome {
            Ok(outcomes) => {
                let outcome = outcomes.first().copied().unwrap_or(WriteOutcome::Moved);
                let again = self.end_step(None, step, outcome, checked);
                self.lane(lane).put_back(again);
                self.start_lane(lane);
            }
            Err(error) => {
                let error = store_error(error);
                let requests = step.framed.into_iter();
                requests.for_each(|(one, _)| one.answer(Err(copy_error(&error))));
            }
        }
    }

    /// Answers the requests of a change that was committed, or returns them to be planned again.
    fn end_step(
        &self,
        heads: Option<&mut Heads>,
        step: Step,
        outcome: WriteOutcome,
        checked: u64,
    ) -> Vec<PendingWrite> {
        let Step { mut after, framed } = step;
        let name = after.row.name;
        if outcome == WriteOutcome::Done {
            after.row.revision += 1;
            after.checked = checked;
            self.record_commit(&after);
            for (pending, result) in framed {
                pending.answer_done(result, &after, true);
            }
            if let Some(heads) = heads {
                heads.insert(name, after);
            }
            return Vec::new();
        }
        if let Some(heads) = heads.filter(|_| outcome != WriteOutcome::Busy) {
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
        let mut until = None;
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
            self.unsure_commits.fetch_add(1, Ordering::Relaxed);
            let now = self.real.monotonic();
            if now >= *until.get_or_insert(now + UNSURE_MAX) || self.is_closed() {
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
    pending: &PendingWrite,
    head: &Head,
    known: &KnownNames,
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
