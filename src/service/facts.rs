//! Cache of sessions' facts, caught up by reading `[position, tail)` before each use: the first
//! request after a start, a later one, and one as of an earlier position use the same code. It must
//! not affect a response: an eviction costs only time.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::sync::OwnedMutexGuard;

use super::{
    MemoryBudget, ResearchOptions, Reservation, Service, ServiceResult, compute::block_in_place,
    links::PriorSession,
};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::{Event, Lsn, Position, Range, Scope, SessionId, SessionKey, TenantId, Timestamp},
    projection::{
        Facts, Outline, Strip,
        checkpoints::{Checkpoints, State},
    },
    store::{FillDirection, NotesQuery, ReadRequest, SessionInfo, StoreResult},
};

/// Maximum number of events folded before the lock is released for other tasks.
const FOLD_EVENTS: usize = 1_000;
/// Maximum number of body bytes in memory while folding.
const FOLD_BYTES: usize = 4 << 20;
/// Maximum number of a fork's ancestors that are tracked.
pub(super) const ANCESTORS_MAX: usize = 1_000;
/// Number of events, and of their body bytes, folded without a compute slot and between checks for
/// other waiting computations.
const FEW_EVENTS: usize = 64;
const FEW_BYTES: usize = 128 << 10;
/// Typical number of bytes of a session's facts as of a point.
pub(super) const FACTS_BYTES: usize = 4 << 20;
/// Maximum bytes of facts viewed without a compute slot: less than a millisecond's work.
const SMALL_BYTES: usize = 32 << 10;

/// Cache of facts with a memory limit: the least recently used are evicted first. Evicted facts
/// that are still in use are limited by the memory budget.
pub(super) struct FactsCache {
    slots: Mutex<FactsSlots>,
    bytes_max: usize,
    room: MemoryBudget,
}

#[derive(Default)]
struct FactsSlots {
    sessions: HashMap<SessionKey, FactsSlot>,
    /// Sessions being read for events that are due after a batch.
    adding: HashSet<SessionKey>,
    uses: u64,
    bytes: usize,
}

struct FactsSlot {
    cached: Arc<tokio::sync::Mutex<CachedFacts>>,
    /// Other sessions with events in the facts: ancestors of a fork and continued sessions.
    others: Writers,
    used: u64,
    /// Monotonic time of the last use.
    used_at: Duration,
    bytes: usize,
    held: SharedReservation,
}

/// Sessions whose events are in another session's facts; `None` if there are too many to name.
type Writers = Option<BTreeSet<SessionId>>;

/// Memory reserved for the facts of a session. It stays reserved while they are in use, even after
/// their eviction.
type SharedReservation = Arc<Mutex<Option<Reservation>>>;

/// Facts that a computation uses: their memory stays reserved until this is dropped.
pub(super) type PinnedFacts = Arc<tokio::sync::Mutex<CachedFacts>>;

/// Facts, the incarnation of the session that they belong to, and the removals that preceded them.
#[derive(Default)]
pub(super) struct CachedFacts {
    created_at: Option<Timestamp>,
    /// Number of removals from the store before the first event was folded.
    removals: u64,
    facts: Facts,
    /// State of the session's notes.
    pub(super) notes: Checkpoints,
    /// State at the checkpoint with a note's number, and its approximate size in bytes.
    pub(super) state: Option<(Lsn, Arc<State>, usize)>,
    /// Facts of the sessions that it continues, followed by its own.
    chain: Option<(Vec<PriorSession>, Box<Facts>)>,
    /// The session at a glance, once it was asked for.
    pub(super) strip: Option<Box<Strip>>,
    /// Facts that rows need, once they were asked for.
    pub(super) outline: Option<Box<Outline>>,
    held: SharedReservation,
}

impl CachedFacts {
    pub(super) fn weight(&self) -> usize {
        let state = self.state.as_ref().map_or(0, |(_, _, bytes)| *bytes);
        let chain = self.chain.as_ref().map_or(0, |(_, facts)| facts.weight());
        let strip = self.strip.as_ref().map_or(0, |strip| strip.weight());
        let outline = self.outline.as_ref().map_or(0, |outline| outline.weight());
        self.facts.weight() + self.notes.weight() + state + chain + strip + outline
    }
}

impl FactsCache {
    pub(super) fn new(options: ResearchOptions) -> Self {
        let ResearchOptions { facts_bytes_max, held_bytes_max, .. } = options;
        let room = MemoryBudget::for_facts(held_bytes_max.max(2 * facts_bytes_max));
        Self { slots: Mutex::default(), bytes_max: facts_bytes_max, room }
    }

    fn slots(&self) -> MutexGuard<'_, FactsSlots> {
        // Every update leaves the table consistent, so a poisoned lock can be ignored.
        self.slots.lock()
    }

    fn slot(&self, key: &SessionKey, now: Duration) -> Arc<tokio::sync::Mutex<CachedFacts>> {
        let mut slots = self.slots();
        slots.uses += 1;
        let used = slots.uses;
        let slot = slots.sessions.entry(key.clone()).or_insert_with(|| {
            let held = SharedReservation::default();
            let cached = CachedFacts { held: Arc::clone(&held), ..CachedFacts::default() };
            let cached = Arc::new(tokio::sync::Mutex::new(cached));
            let others = Some(BTreeSet::new());
            FactsSlot { cached, others, used, used_at: now, bytes: 0, held }
        });
        (slot.used, slot.used_at) = (used, now);
        Arc::clone(&slot.cached)
    }

    /// Records the size of a session's facts, evicts others until all fit, and reserves memory.
    pub(super) fn resize(&self, key: &SessionKey, bytes: usize) -> ServiceResult<()> {
        let held = {
            let mut slots = self.slots();
            let Some(slot) = slots.sessions.get_mut(key) else { return Ok(()) };
            let held = Arc::clone(&slot.held);
            let before = std::mem::replace(&mut slot.bytes, bytes);
            slots.bytes = slots.bytes - before + bytes;
            while slots.bytes > self.bytes_max {
                let others = slots.sessions.iter().filter(|(other, _)| *other != key);
                let Some(oldest) = others.min_by_key(|(_, slot)| slot.used) else { break };
                let oldest = oldest.0.clone();
                Self::remove(&mut slots, &oldest);
            }
            held
        };
        self.room.resize(&key.scope.tenant, &mut held.lock(), bytes)
    }

    fn remove(slots: &mut FactsSlots, key: &SessionKey) {
        if let Some(slot) = slots.sessions.remove(key) {
            slots.bytes -= slot.bytes;
        }
    }

    /// Marks the session as being read; returns false if another task already reads it.
    pub(super) fn begin_adding(&self, key: &SessionKey) -> bool {
        self.slots().adding.insert(key.clone())
    }

    /// Marks the session as read.
    pub(super) fn finish_adding(&self, key: &SessionKey) {
        self.slots().adding.remove(key);
    }

    pub(super) fn evict(&self, key: &SessionKey) {
        Self::remove(&mut self.slots(), key);
    }

    /// Records the other sessions whose events the facts of a session will contain.
    fn record_writers(&self, key: &SessionKey, others: Writers) {
        if let Some(slot) = self.slots().sessions.get_mut(key) {
            slot.others = slot.others.take().zip(others).map(|(one, other)| &one | &other);
        }
    }

    /// Evicts the facts of a scope that contain events of these sessions; all of them for `None`.
    pub(super) fn evict_writers(&self, scope: &Scope, writers: Option<&[SessionId]>) {
        let mut slots = self.slots();
        let has_events = |key: &SessionKey, slot: &FactsSlot| {
            let Some((writers, others)) = writers.zip(slot.others.as_ref()) else { return true };
            writers.iter().any(|writer| *writer == key.session || others.contains(writer))
        };
        let of_scope = slots.sessions.iter().filter(|(key, _)| key.scope == *scope);
        let gone = of_scope.filter(|(key, slot)| has_events(key, slot));
        let gone: Vec<SessionKey> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| Self::remove(&mut slots, key));
    }

    pub(super) fn evict_unused(&self, since: Duration) {
        let mut slots = self.slots();
        let unused = slots.sessions.iter().filter(|(_, slot)| slot.used_at < since);
        let unused: Vec<SessionKey> = unused.map(|(key, _)| key.clone()).collect();
        unused.iter().for_each(|key| Self::remove(&mut slots, key));
    }

    pub(super) fn clear(&self) {
        *self.slots() = FactsSlots::default();
    }
}

impl Service {
    /// Runs `look` on the current facts of a session and counts as a use of it.
    pub(super) async fn with_facts<T>(
        &self,
        key: &SessionKey,
        look: impl FnOnce(&SessionInfo, &Facts) -> T + Send,
    ) -> ServiceResult<T> {
        let used = self.store.use_session(key).await;
        self.with_current_facts(key, used, look).await
    }

    /// Runs `look` on the current facts, for a verb that reads many sessions: not counted as a use.
    pub(super) async fn peek_facts<T>(
        &self,
        key: &SessionKey,
        look: impl FnOnce(&SessionInfo, &Facts) -> T + Send,
    ) -> ServiceResult<T> {
        let info = self.store.info(key).await;
        self.with_current_facts(key, info, look).await
    }

    /// Runs a `look` whose time is linear in the facts: large facts take a compute slot.
    pub(super) async fn view_facts<T: Send + 'static>(
        &self,
        key: &SessionKey,
        look: impl FnOnce(&SessionInfo, &Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let (info, cached) = self.load_current(key, self.store.use_session(key).await).await?;
        let bytes = cached.facts.weight();
        self.run_view(&key.scope.tenant, bytes, move || look(&info, &cached.facts)).await
    }

    /// Runs `look` as `view_facts` does, for a verb that reads many sessions or has written: it
    /// does not count as a use, and is not rejected under load.
    pub(super) async fn peek_view<T: Send + 'static>(
        &self,
        key: &SessionKey,
        look: impl FnOnce(&SessionInfo, &Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let (info, cached) = self.load_current(key, self.store.info(key).await).await?;
        match cached.facts.weight() <= SMALL_BYTES {
            true => Ok(look(&info, &cached.facts)),
            false => {
                let look = move || look(&info, &cached.facts);
                self.compute_unlimited(&key.scope.tenant, look).await
            }
        }
    }

    /// Folds the facts of a session as of a position and runs `look` on them.
    pub(super) async fn view_facts_at<T: Send + 'static>(
        &self,
        key: &SessionKey,
        at: Position,
        look: impl FnOnce(&Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let tenant = &key.scope.tenant;
        let mut room = Some(self.reserve_memory(tenant, FACTS_BYTES).await?);
        let facts = self.facts_at(key, at).await?;
        self.computations.resize(tenant, &mut room, facts.weight())?;
        self.run_view(tenant, facts.weight(), move || look(&facts)).await
    }

    /// Runs `look` on the facts as of now, or as of the given position.
    pub(super) async fn view_facts_as_of<T: Send + 'static>(
        &self,
        key: &SessionKey,
        at: Option<Position>,
        look: impl FnOnce(&Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        match at {
            Some(position) => self.view_facts_at(key, position, look).await,
            None => self.view_facts(key, |_, facts| look(facts)).await,
        }
    }

    /// Runs `look` over the given number of bytes of facts, in a compute slot if they are large.
    pub(super) async fn run_view<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        bytes: usize,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<T> {
        match bytes <= SMALL_BYTES {
            true => Ok(look()),
            false => self.compute(tenant, look).await,
        }
    }

    async fn with_current_facts<T>(
        &self,
        key: &SessionKey,
        found: StoreResult<SessionInfo>,
        look: impl FnOnce(&SessionInfo, &Facts) -> T + Send,
    ) -> ServiceResult<T> {
        let (info, cached) = self.load_current(key, found).await?;
        Ok(look(&info, &cached.facts))
    }

    /// Returns the current facts of a session.
    async fn load_current(
        &self,
        key: &SessionKey,
        found: StoreResult<SessionInfo>,
    ) -> ServiceResult<(SessionInfo, OwnedMutexGuard<CachedFacts>)> {
        let slot = self.slot(key);
        let mut info = self.convert_info(key, found)?;
        // As of the read of the session: later ones do not hold up this fold.
        let removals = self.store.removal_count();
        loop {
            let mut cached = self.lock_facts(&slot, key, &mut info, removals).await?;
            if self.fold_next(key, &mut cached.facts, info.tail).await? {
                self.facts.resize(key, cached.weight())?;
                return Ok((info, cached));
            }
            self.facts.resize(key, cached.weight())?;
            // Release the lock between slices: an append does not wait for another caller's long
            // fold.
            drop(cached);
            tokio::task::yield_now().await;
        }
    }

    /// Runs `look` on the combined facts of a session and of the sessions that it continues.
    pub(super) async fn view_chain<T: Send + 'static>(
        &self,
        key: &SessionKey,
        look: impl FnOnce(&Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let before = self.prior_sessions(key).await?;
        if before.is_empty() {
            return self.view_facts(key, |_, facts| look(facts)).await;
        }
        let slot = self.slot(key);
        let mut info = self.convert_info(key, self.store.use_session(key).await)?;
        let removals = self.store.removal_count();
        loop {
            let mut cached = self.lock_facts(&slot, key, &mut info, removals).await?;
            let Some((_, facts)) = cached
                .chain
                .as_mut()
                .filter(|(links, facts)| *links == before && facts.next_position() <= info.tail)
            else {
                drop(cached);
                for link in &before {
                    self.record_family(key, &link.key).await?;
                }
                let facts = Facts::from_workspace(info.workspace.as_deref());
                let mut facts = self.fold_links(&before, facts).await?;
                facts.begin_session(key.session.as_str());
                let mut cached = self.lock_facts(&slot, key, &mut info, removals).await?;
                cached.chain = Some((before.clone(), Box::new(facts)));
                continue;
            };
            if self.fold_next(key, facts, info.tail).await? {
                if let Some(again) = facts.for_new_fold() {
                    drop(cached);
                    let mut facts = self.fold_links(&before, again).await?;
                    facts.begin_session(key.session.as_str());
                    let mut cached = self.lock_facts(&slot, key, &mut info, removals).await?;
                    cached.chain = Some((before.clone(), Box::new(facts)));
                    continue;
                }
                let is_small = facts.weight() <= SMALL_BYTES;
                self.facts.resize(key, cached.weight())?;
                let look = move || cached.chain.as_ref().map(|(_, facts)| look(facts));
                let shown = match is_small {
                    true => look(),
                    // This is not rejected under load: the caller may have written already.
                    false => self.compute_unlimited(&key.scope.tenant, look).await?,
                };
                return Ok(shown.expect("its facts were found above"));
            }
            drop(cached);
            tokio::task::yield_now().await;
        }
    }

    /// Runs `look` on the combined facts of the chain, as of a position or as of now.
    pub(super) async fn view_chain_as_of<T: Send + 'static>(
        &self,
        key: &SessionKey,
        at: Option<Position>,
        look: impl FnOnce(&Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let Some(at) = at else { return self.view_chain(key, look).await };
        let mut room = Some(self.reserve_memory(&key.scope.tenant, FACTS_BYTES).await?);
        self.view_chain_with_memory(key, at, (&mut room, 0), look).await
    }

    /// Runs `look` as of a position, in reserved memory of which `taken` bytes are in use.
    pub(super) async fn view_chain_with_memory<T: Send + 'static>(
        &self,
        key: &SessionKey,
        at: Position,
        (room, taken): (&mut Option<Reservation>, usize),
        look: impl FnOnce(&Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let tenant = &key.scope.tenant;
        self.computations.resize(tenant, room, taken + FACTS_BYTES)?;
        let facts = self.chain_facts_at(key, at).await?;
        self.computations.resize(tenant, room, taken + facts.weight())?;
        let looked = self.run_view(tenant, facts.weight(), move || look(&facts)).await;
        self.computations.resize(tenant, room, taken)?;
        looked
    }

    /// Returns the combined facts of a session as of a position and of the sessions it continues.
    async fn chain_facts_at(&self, key: &SessionKey, to: Position) -> ServiceResult<Facts> {
        let before = self.prior_sessions(key).await?;
        if before.is_empty() {
            return self.facts_at(key, to).await;
        }
        let workspace = self.store.info(key).await?.workspace;
        let mut known = Facts::from_workspace(workspace.as_deref());
        loop {
            let mut facts = self.fold_links(&before, known).await?;
            facts.begin_session(key.session.as_str());
            self.fold_to(key, &mut facts, to).await?;
            match facts.for_new_fold() {
                Some(again) => known = again,
                None => return Ok(facts),
            }
        }
    }

    /// Returns the facts of sessions that continue one another, each up to where the next one has
    /// read it. `facts` is empty, except that it may list events to skip.
    async fn fold_links(&self, chain: &[PriorSession], mut facts: Facts) -> ServiceResult<Facts> {
        loop {
            facts = self.fold_links_once(chain, facts).await?;
            match facts.for_new_fold() {
                Some(again) => facts = again,
                None => return Ok(facts),
            }
        }
    }

    async fn fold_links_once(
        &self,
        chain: &[PriorSession],
        mut facts: Facts,
    ) -> ServiceResult<Facts> {
        for (index, link) in chain.iter().enumerate() {
            let known = |facts: &Facts| (facts.position == link.to).then(|| facts.clone());
            let known = match index {
                0 if facts.has_no_ranges() => {
                    self.peek_facts(&link.key, |_, facts| known(facts)).await?
                }
                _ => None,
            };
            if let Some(known) = known {
                facts = known;
                facts.set_session(link.key.session.as_str());
                continue;
            }
            facts.begin_session(link.key.session.as_str());
            self.fold_to(&link.key, &mut facts, link.to).await?;
        }
        Ok(facts)
    }

    /// Runs `look` on the current facts of a session if the remaining reads suffice to catch up;
    /// subtracts the reads made. The folded facts stay in the cache for the next call.
    pub(super) async fn try_with_facts<T>(
        &self,
        key: &SessionKey,
        reads: &mut usize,
        look: impl FnOnce(&SessionInfo, &Facts) -> T + Send,
    ) -> ServiceResult<Option<T>> {
        let slot = self.slot(key);
        let mut info = self.convert_info(key, self.store.info(key).await)?;
        let removals = self.store.removal_count();
        let mut cached = self.lock_facts(&slot, key, &mut info, removals).await?;
        let mut reached = cached.facts.position >= info.tail && !cached.facts.restart_if_stale();
        while !reached && *reads > 0 {
            *reads -= 1;
            reached = self.fold_next(key, &mut cached.facts, info.tail).await?;
        }
        self.facts.resize(key, cached.weight())?;
        Ok(reached.then(|| look(&info, &cached.facts)))
    }

    pub(super) fn slot(&self, key: &SessionKey) -> Arc<tokio::sync::Mutex<CachedFacts>> {
        self.facts.slot(key, self.clock.monotonic())
    }

    /// Converts the store's result for a session; evicts the facts of an unknown session.
    pub(super) fn convert_info(
        &self,
        key: &SessionKey,
        found: StoreResult<SessionInfo>,
    ) -> ServiceResult<SessionInfo> {
        found.map_err(|error| {
            self.facts.evict(key);
            error.into()
        })
    }

    /// Returns the cached facts of a session, reset if they belong to another incarnation, or if
    /// fewer than `removals` removals of content preceded them.
    pub(super) async fn lock_facts(
        &self,
        slot: &Arc<tokio::sync::Mutex<CachedFacts>>,
        key: &SessionKey,
        info: &mut SessionInfo,
        removals: u64,
    ) -> ServiceResult<OwnedMutexGuard<CachedFacts>> {
        let mut cached = Arc::clone(slot).lock_owned().await;
        if cached.facts.position > info.tail {
            // The store's state may have changed meanwhile: use the latest.
            *info = self.convert_info(key, self.store.info(key).await)?;
        }
        let is_moved = cached.facts.workspace() != info.workspace.as_deref();
        // Another node may have removed an event that is in the facts.
        if cached.created_at != Some(info.created_at) || is_moved || cached.removals < removals {
            if info.forked_from.is_some() {
                // Before the first event is folded, so that a later redaction finds the facts.
                self.record_family(key, key).await?;
            }
            let held = Arc::clone(&cached.held);
            let facts = Facts::from_workspace(info.workspace.as_deref());
            *cached = CachedFacts {
                created_at: Some(info.created_at),
                removals: self.store.removal_count(),
                facts,
                held,
                ..CachedFacts::default()
            };
        }
        if cached.facts.position > info.tail {
            cached.facts = Facts::from_workspace(info.workspace.as_deref());
        }
        Ok(cached)
    }

    /// Records that the facts of a session will contain the events of another one and of its
    /// ancestors.
    async fn record_family(&self, key: &SessionKey, of: &SessionKey) -> ServiceResult<()> {
        let family = self.store.family(of, ANCESTORS_MAX).await?;
        let is_whole = family.depth <= family.ancestors.len() as u64;
        let others = family.ancestors.into_iter().map(|one| one.session);
        let others = others.chain([of.session.clone()]).collect();
        self.facts.record_writers(key, is_whole.then_some(others));
        Ok(())
    }

    /// Runs `look` on the notes of a session, at least those that `found` counts.
    pub(super) async fn with_notes<T>(
        &self,
        key: &SessionKey,
        found: StoreResult<SessionInfo>,
        look: impl FnOnce(&SessionInfo, &mut CachedFacts) -> T + Send,
    ) -> ServiceResult<T> {
        let mut info = self.convert_info(key, found)?;
        let removals = self.store.removal_count();
        let mut cached = self.lock_facts(&self.slot(key), key, &mut info, removals).await?;
        while cached.notes.count < info.work.notes {
            let wanted = NotesQuery {
                after: cached.notes.last,
                notes_max: FOLD_EVENTS,
                bytes_max: FOLD_BYTES,
            };
            let notes = self.store.notes(key, wanted).await.inspect_err(|_| {
                // The user may accept a loss before the rest is read.
                (cached.notes, cached.state) = (Checkpoints::default(), None);
            })?;
            if notes.is_empty() {
                // The others are lost, and the user accepted that.
                break;
            }
            notes.iter().for_each(|note| cached.notes.fold(note));
            tokio::task::yield_now().await;
        }
        let answer = look(&info, &mut cached);
        self.facts.resize(key, cached.weight())?;
        Ok(answer)
    }

    /// Returns the facts of a session as of a position: those of all events before it.
    ///
    /// # Errors
    /// Those of reading the session.
    pub async fn facts_at(&self, key: &SessionKey, position: Position) -> ServiceResult<Facts> {
        let info = self.store.info(key).await?;
        let mut facts = Facts::from_workspace(info.workspace.as_deref());
        self.fold_to(key, &mut facts, position).await?;
        Ok(facts)
    }

    /// Folds all events before a position into the facts.
    pub(super) async fn fold_to(
        &self,
        key: &SessionKey,
        facts: &mut Facts,
        to: Position,
    ) -> ServiceResult<()> {
        while !self.fold_next(key, facts, to).await? {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Folds one read of `[facts.next_position(), to)`; returns true at the end. If the future is
    /// dropped, the facts are those of an earlier position. A few events are folded directly, more
    /// in a compute slot.
    async fn fold_next(
        &self,
        key: &SessionKey,
        facts: &mut Facts,
        to: Position,
    ) -> ServiceResult<bool> {
        if facts.next_position() >= to {
            return Ok(!facts.restart_if_stale());
        }
        if to.0 - facts.next_position().0 <= FEW_EVENTS as u64 {
            let events = self.read_unfolded(key, facts, to, FEW_BYTES).await?;
            if events.iter().map(|event| event.body.len()).sum::<usize>() <= FEW_BYTES {
                events.iter().for_each(|event| facts.fold(event));
                return Ok(
                    (events.is_empty() || facts.next_position() >= to) && !facts.restart_if_stale()
                );
            }
        }
        let mut slot = self.compute.acquire_unlimited(&key.scope.tenant).await?;
        let events = self.read_unfolded(key, facts, to, FOLD_BYTES).await?;
        let mut left = events.as_slice();
        while !left.is_empty() {
            let mut bytes = 0;
            let few = left.iter().take(FEW_EVENTS).take_while(|event| {
                let is_first = bytes == 0;
                bytes += event.body.len().max(1);
                is_first || bytes <= FEW_BYTES
            });
            let (few, after) = left.split_at(few.count());
            block_in_place(|| few.iter().for_each(|event| facts.fold(event)));
            left = after;
            slot = slot.yield_if_due().await?;
        }
        Ok((events.is_empty() || facts.next_position() >= to) && !facts.restart_if_stale())
    }

    async fn read_unfolded(
        &self,
        key: &SessionKey,
        facts: &Facts,
        to: Position,
        bytes_max: usize,
    ) -> ServiceResult<Vec<Event>> {
        let read = ReadRequest {
            range: Range::new(facts.next_position(), to),
            events_max: FOLD_EVENTS,
            bytes_max,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        Ok(self.store.read(key, read).await?.events)
    }

    /// Evicts all facts, as a restart would.
    pub fn evict_facts(&self) {
        self.facts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Scope, SessionId},
        service::Code,
    };

    #[test]
    fn facts_in_use_keep_their_memory_reserved_after_eviction() {
        let (facts_bytes_max, held_bytes_max) = (1 << 20, 2 << 20);
        let options =
            ResearchOptions { facts_bytes_max, held_bytes_max, ..ResearchOptions::default() };
        let cache = FactsCache::new(options);
        let key = |name| SessionKey {
            scope: Scope::local(),
            session: SessionId::new(name).expect("an id"),
        };
        let [one, other] = ["one", "other"].map(key);
        let in_use = cache.slot(&one, Duration::ZERO);
        cache.resize(&one, facts_bytes_max).expect("half of the room is the tenant's");
        drop(cache.slot(&other, Duration::ZERO));
        let refused = cache.resize(&other, facts_bytes_max / 2).expect_err("the others are in use");
        assert_eq!((refused.code, refused.hint.retryable), (Code::LimitReached, true));
        assert!(!cache.slots().sessions.contains_key(&one));
        drop(in_use);
        cache.resize(&other, facts_bytes_max / 2).expect("they are gone");
    }
}
