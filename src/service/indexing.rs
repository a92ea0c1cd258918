//! The follower of a store: reads what sessions wrote and keeps it as parts of an index, a list of
//! parts for each scope. It must not rank, and all it keeps may be lost at any time: the log has
//! everything.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Service, ServiceResult};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::{Position, Range, Scope, SessionHash, SessionId, SessionKey},
    search::{Part, PartBuilder, SessionRef, merge},
    store::{Fill, Moved, Read, Since, StoreError, Survival},
};

/// Events and bytes of bodies that one part is made of; other tasks run between parts.
const SLICE_EVENTS: usize = 1_000;
const SLICE_BYTES: usize = 4 << 20;
/// Sessions that the store is asked for at once.
const MOVED_MAX: usize = 1_000;
/// Events of a scope that may wait before it is indexed without having been searched.
const WAITING_MAX: u64 = 4_096;
/// How many parts of about the same size become one, and the passages of a part that stays.
const TIER: usize = 8;
const PASSAGES_MAX: usize = 32_768;
/// How long what changed may gather before it is followed.
const GATHERED: Duration = Duration::from_millis(200);
/// Sessions that are named as behind.
const NAMED_MAX: usize = 20;

/// The indexes of all scopes, and the one task that feeds them.
pub(super) struct Indexing {
    scopes: Mutex<HashMap<Scope, Arc<ScopeIndex>>>,
    /// How far the store was followed; held by the task that follows it.
    since: tokio::sync::Mutex<Since>,
    turns: Mutex<Turns>,
    /// The last turn at whose begin every change was noted.
    noted: watch::Sender<u64>,
}

/// Who asked the task to look again, and whether it runs.
#[derive(Default)]
struct Turns {
    asked: u64,
    runs: bool,
}

impl Default for Indexing {
    fn default() -> Self {
        Self {
            scopes: Mutex::default(),
            since: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            noted: watch::Sender::new(0),
        }
    }
}

/// How much of a scope is in its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Sessions that are not wholly in it.
    pub sessions_behind: u64,
    /// Events that are not in it.
    pub events_behind: u64,
    /// Those sessions, up to 20.
    pub behind: Vec<BehindSession>,
}

/// A session that is not wholly in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BehindSession {
    /// Its id.
    pub session: SessionId,
    /// What is below is in the index.
    pub indexed_to: Position,
    /// The position of its next event.
    pub tail: Position,
}

/// The index of one scope.
#[derive(Default)]
pub(super) struct ScopeIndex(Mutex<State>);

#[derive(Default)]
struct State {
    sessions: HashMap<SessionHash, Followed>,
    /// Those with events that are not in the index.
    behind: BTreeSet<SessionHash>,
    events_behind: u64,
    parts: Vec<Arc<Vec<u8>>>,
    /// Whether a caller has searched it.
    is_wanted: bool,
}

/// What is known of a session of the scope.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    pub(super) key: SessionKey,
    pub(super) workspace: Option<String>,
    pub(super) is_archived: bool,
    tail: Position,
    /// What is below is in the index, from its first own position on.
    indexed_to: Position,
    /// How often something of it was taken away. A part that was made before holds nothing of it.
    rewritten: u64,
    /// Whether it answers.
    pub(super) is_alive: bool,
}

/// Events to read for the next part.
struct Wanted {
    key: SessionKey,
    hash: SessionHash,
    rewritten: u64,
    range: Range,
}

impl ScopeIndex {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state whole, so a panic elsewhere does not spoil it.
        self.0.lock()
    }

    /// The parts as they are now, and the sessions whose events may be shown.
    pub(super) fn snapshot(&self) -> (Vec<Arc<Vec<u8>>>, HashMap<SessionHash, Followed>) {
        let state = self.state();
        let alive = state.sessions.iter().filter(|(_, session)| session.is_alive);
        (state.parts.clone(), alive.map(|(hash, one)| (*hash, one.clone())).collect())
    }

    pub(super) fn coverage(&self) -> Coverage {
        let state = self.state();
        let named = state.behind.iter().filter_map(|hash| state.sessions.get(hash));
        let named = named.take(NAMED_MAX).map(|one| BehindSession {
            session: one.key.session.clone(),
            indexed_to: one.indexed_to,
            tail: one.tail,
        });
        Coverage {
            sessions_behind: state.behind.len() as u64,
            events_behind: state.events_behind,
            behind: named.collect(),
        }
    }

    fn note(&self, moved: Moved) {
        let mut state = self.state();
        let Moved { key, hash, base, tail, rewritten, workspace, is_archived, survival } = moved;
        let session = state.sessions.entry(hash).or_insert_with(|| Followed {
            key,
            workspace: None,
            is_archived: false,
            tail: base,
            indexed_to: base,
            rewritten,
            is_alive: false,
        });
        // What was read before may hold what was taken away.
        let is_rewritten = session.rewritten != rewritten;
        state.change(hash, |session| {
            if is_rewritten {
                (session.indexed_to, session.rewritten) = (base, rewritten);
            }
            (session.tail, session.is_alive) = (tail.max(base), survival == Survival::Alive);
            (session.workspace, session.is_archived) = (workspace, is_archived);
        });
        if is_rewritten {
            state.drop_passages(hash);
        }
    }

    /// What to read for the next part, and whether it is time to.
    fn next(&self) -> Vec<Wanted> {
        let state = self.state();
        let mut left = SLICE_EVENTS as u64;
        let mut wanted = Vec::new();
        if !state.is_wanted && state.events_behind < WAITING_MAX {
            return wanted;
        }
        for hash in &state.behind {
            let Some(session) = state.sessions.get(hash).filter(|_| left > 0) else { break };
            let to = session.tail.min(session.indexed_to.plus(left));
            left -= to.0 - session.indexed_to.0;
            wanted.push(Wanted {
                key: session.key.clone(),
                hash: *hash,
                rewritten: session.rewritten,
                range: Range::new(session.indexed_to, to),
            });
        }
        wanted
    }

    /// Takes a part of events that were read, unless something of one of their sessions was taken
    /// away meanwhile: then all are read again.
    fn add(&self, part: Vec<u8>, read: &[Wanted]) {
        let mut state = self.state();
        let is_current = |one: &Wanted| {
            let session = state.sessions.get(&one.hash);
            session.is_some_and(|session| session.rewritten == one.rewritten)
        };
        if !read.iter().all(is_current) {
            return;
        }
        for one in read {
            let to = one.range.to;
            state.change(one.hash, |session| session.indexed_to = session.indexed_to.max(to));
        }
        state.parts.push(Arc::new(part));
    }

    /// A session does not answer any more: the store will say when it does.
    fn hide(&self, hash: SessionHash) {
        self.state().change(hash, |session| session.is_alive = false);
    }
}

impl State {
    /// Changes what is known of a session, and whether it counts as behind. What is hidden is not
    /// read, and is not behind.
    fn change(&mut self, hash: SessionHash, change: impl FnOnce(&mut Followed)) {
        let Some(session) = self.sessions.get_mut(&hash) else { return };
        let lacks = |session: &Followed| session.tail.0 - session.indexed_to.0;
        if self.behind.remove(&hash) {
            self.events_behind -= lacks(session);
        }
        change(session);
        if session.is_alive && session.indexed_to < session.tail {
            self.behind.insert(hash);
            self.events_behind += lacks(session);
        }
    }

    /// Makes the parts that hold something of a session anew without it.
    fn drop_passages(&mut self, hash: SessionHash) {
        for bytes in &mut self.parts {
            let Ok(part) = Part::read(bytes) else { continue };
            if part.sessions().any(|session| session.hash == hash) {
                let keep = |session: SessionRef<'_>, range| match session.hash == hash {
                    true => Vec::new(),
                    false => vec![range],
                };
                *bytes = Arc::new(merge(&[part], &keep));
            }
        }
    }

    /// Some parts of about the same size, to be made one.
    fn tier(&self) -> Option<Vec<Arc<Vec<u8>>>> {
        let class = |bytes: &Arc<Vec<u8>>| {
            let passages = Part::read(bytes).map_or(0, |part| part.len());
            (passages < PASSAGES_MAX).then(|| (passages.max(1)).ilog(TIER))
        };
        let mut classes: HashMap<u32, Vec<Arc<Vec<u8>>>> = HashMap::new();
        for part in &self.parts {
            if let Some(class) = class(part) {
                classes.entry(class).or_default().push(Arc::clone(part));
            }
        }
        classes.into_values().find(|parts| parts.len() >= TIER)
    }
}

impl Indexing {
    fn scopes(&self) -> MutexGuard<'_, HashMap<Scope, Arc<ScopeIndex>>> {
        self.scopes.lock()
    }

    /// The index of a scope, which is searched from now on.
    pub(super) fn of(&self, scope: &Scope) -> Arc<ScopeIndex> {
        let index = Arc::clone(self.scopes().entry(scope.clone()).or_default());
        index.state().is_wanted = true;
        index
    }

    fn note(&self, moved: Moved) {
        let scope = moved.key.scope.clone();
        let index = Arc::clone(self.scopes().entry(scope).or_default());
        index.note(moved);
    }

    /// The next index with something to read, and what.
    fn next(&self) -> Option<(Arc<ScopeIndex>, Vec<Wanted>)> {
        let all: Vec<Arc<ScopeIndex>> = self.scopes().values().cloned().collect();
        let mut with_work = all.into_iter().map(|index| {
            let wanted = index.next();
            (index, wanted)
        });
        with_work.find(|(_, wanted)| !wanted.is_empty())
    }
}

impl Service {
    /// Follows the store until it is stopped, so that a search finds little to catch up with.
    pub async fn follow_index(self, stop: CancellationToken) {
        let mut moved = self.store.moved_watch();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = moved.changed() => if changed.is_err() { return },
            }
            self.look_again();
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(GATHERED) => {}
            }
        }
    }

    /// The index of a scope, once everything that was acknowledged before is in it, or once `wait`
    /// is over.
    pub(super) async fn caught_up(&self, scope: &Scope, wait: Duration) -> Arc<ScopeIndex> {
        let index = self.indexing.of(scope);
        let mut noted = self.indexing.noted.subscribe();
        let turn = self.look_again();
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        loop {
            let is_noted = *noted.borrow_and_update() >= turn;
            if is_noted && index.state().behind.is_empty() {
                return index;
            }
            tokio::select! {
                () = &mut over => return index,
                changed = noted.changed() => if changed.is_err() { return index },
            }
        }
    }

    /// Has the task look at what changed, and starts it when it does not run. Returns the turn at
    /// whose end every change before this call is noted.
    fn look_again(&self) -> u64 {
        let mut turns = self.indexing.turns.lock();
        turns.asked += 1;
        if !std::mem::replace(&mut turns.runs, true) {
            tokio::spawn(self.clone().take_turns());
        }
        turns.asked
    }

    async fn take_turns(self) {
        loop {
            let turn = self.indexing.turns.lock().asked;
            let followed = self.follow_once(turn).await;
            if let Err(error) = &followed {
                tracing::warn!(%error, "the search index is behind");
            }
            // Those who wait look at what there is.
            self.indexing.noted.send_modify(|noted| *noted = (*noted).max(turn));
            let mut turns = self.indexing.turns.lock();
            if turns.asked == turn || followed.is_err() {
                turns.runs = false;
                return;
            }
        }
    }

    /// Notes every change, then reads until there is nothing to read.
    async fn follow_once(&self, turn: u64) -> ServiceResult<()> {
        loop {
            self.note_changes().await?;
            self.indexing.noted.send_modify(|noted| *noted = (*noted).max(turn));
            let Some((index, wanted)) = self.indexing.next() else { return Ok(()) };
            self.read_part(&index, wanted).await?;
            merge_some(&index).await;
            self.indexing.noted.send_modify(|_| {});
            tokio::task::yield_now().await;
        }
    }

    async fn note_changes(&self) -> ServiceResult<()> {
        let mut since = self.indexing.since.lock().await;
        loop {
            let moves = self.store.moved(since.clone(), MOVED_MAX).await?;
            moves.sessions.into_iter().for_each(|moved| self.indexing.note(moved));
            *since = moves.since;
            if !moves.more {
                return Ok(());
            }
        }
    }

    async fn read_part(&self, index: &ScopeIndex, wanted: Vec<Wanted>) -> ServiceResult<()> {
        let mut slices = Vec::new();
        let mut bytes_left = SLICE_BYTES;
        for mut one in wanted {
            let read = Read {
                range: one.range,
                events_max: SLICE_EVENTS,
                bytes_max: bytes_left,
                fill: Fill::Forward,
                allow_gaps: true,
            };
            let slice = match self.store.read(&one.key, read).await {
                Ok(slice) => slice,
                Err(
                    StoreError::SessionNotFound { .. }
                    | StoreError::SessionDeleted { .. }
                    | StoreError::SessionExpired { .. },
                ) => {
                    index.hide(one.hash);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let bytes: usize = slice.events.iter().map(|event| event.body.len()).sum();
            bytes_left = bytes_left.saturating_sub(bytes);
            // Positions that cannot be served are passed over.
            one.range.to = slice.covered.to.max(one.range.from.plus(1));
            slices.push((one, slice.events));
            if bytes_left == 0 {
                break;
            }
        }
        let made = tokio::task::spawn_blocking(move || {
            let mut builder = PartBuilder::new();
            for (one, events) in &slices {
                let session = SessionRef { hash: one.hash, id: one.key.session.as_str() };
                events.iter().for_each(|event| builder.add_event(session, event));
                builder.cover(session, one.range);
            }
            let read: Vec<Wanted> = slices.into_iter().map(|(one, _)| one).collect();
            (builder.finish(), read)
        });
        if let Ok((part, read)) = made.await {
            index.add(part, &read);
        }
        Ok(())
    }
}

/// Makes parts of about the same size one, as long as there are such.
async fn merge_some(index: &Arc<ScopeIndex>) {
    loop {
        let Some(small) = index.state().tier() else { return };
        let taken = small.clone();
        let merged = tokio::task::spawn_blocking(move || {
            let parts: Vec<Part<'_>> =
                small.iter().filter_map(|bytes| Part::read(bytes).ok()).collect();
            merge(&parts, &|_, range| vec![range])
        });
        let Ok(merged) = merged.await else { return };
        let mut state = index.state();
        // One of them was made anew meanwhile: the merged part holds what was taken away.
        let is_there = |part: &Arc<Vec<u8>>| state.parts.iter().any(|one| Arc::ptr_eq(one, part));
        if taken.iter().all(is_there) {
            state.parts.retain(|one| !taken.iter().any(|part| Arc::ptr_eq(one, part)));
            state.parts.push(Arc::new(merged));
        }
    }
}
