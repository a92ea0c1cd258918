//! What is known of one scope: its sessions, how far each is in the index, and the parts that the
//! index is made of. It must not wait, nor read a store.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::holding::{Holding, PASSAGES_MAX};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::{Position, Range, Scope, SessionHash, SessionId, SessionKey},
    search::SessionRef,
    store::{DerivedFile, DerivedName, Held, Moved, Survival},
};

/// Events that one part is made of.
pub(super) const SLICE_EVENTS: usize = 1_000;
/// Events of a scope that may wait before it is indexed without having been searched.
const WAITING_MAX: u64 = 4_096;
/// How many parts of about the same size become one.
const TIER: usize = 8;
/// Sessions that are named as behind.
const NAMED_MAX: usize = 20;

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
pub(crate) struct ScopeIndex {
    pub(crate) scope: Scope,
    pub(super) holding: Holding,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionHash, Followed>,
    /// Those with events that are not in the index.
    behind: BTreeSet<SessionHash>,
    events_behind: u64,
    parts: Vec<IndexPart>,
    /// What the files that were there at the start hold of sessions that are not noted yet.
    held: HashMap<SessionHash, Vec<(Range, u64)>>,
    /// Whether a caller has searched it.
    is_wanted: bool,
}

/// What is known of a session of the scope.
#[derive(Clone, Debug)]
struct Followed {
    key: SessionKey,
    workspace: Option<String>,
    is_archived: bool,
    /// Its first own position: what is below is its parent's.
    base: Position,
    tail: Position,
    /// What is below is in the index.
    indexed_to: Position,
    /// How often something of it was taken away.
    rewritten: u64,
    /// Whether it answers.
    is_alive: bool,
}

/// Where the bytes of a part are.
#[derive(Clone)]
pub(crate) enum PartBytes {
    /// In memory alone.
    Fresh(Arc<Vec<u8>>),
    /// In a derived file of the store.
    File(DerivedName),
}

/// A part of the index.
#[derive(Clone)]
struct IndexPart {
    bytes: PartBytes,
    passages: usize,
    sessions: Arc<[SessionHash]>,
    /// Files with the same passages, which go once this part is a file.
    replaces: Vec<DerivedName>,
}

/// Events to read for the next part.
pub(crate) struct Wanted {
    pub(crate) key: SessionKey,
    pub(crate) hash: SessionHash,
    pub(crate) rewritten: u64,
    pub(crate) range: Range,
}

/// A part that is to become a file.
pub(super) struct ToKeep {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) holds: Vec<Held>,
}

impl IndexPart {
    fn fresh(bytes: Vec<u8>, holding: &Holding) -> Self {
        let (passages, holds) = holding.holds(&bytes).unwrap_or_default();
        let sessions = holds.into_iter().map(|(hash, _)| hash).collect();
        let bytes = PartBytes::Fresh(Arc::new(bytes));
        Self { bytes, passages, sessions, replaces: Vec::new() }
    }

    fn fresh_bytes(&self) -> Option<&Arc<Vec<u8>>> {
        match &self.bytes {
            PartBytes::Fresh(bytes) => Some(bytes),
            PartBytes::File(_) => None,
        }
    }

    fn file(&self) -> Option<DerivedName> {
        match self.bytes {
            PartBytes::Fresh(_) => None,
            PartBytes::File(name) => Some(name),
        }
    }

    fn is(&self, bytes: &PartBytes) -> bool {
        match (&self.bytes, bytes) {
            (PartBytes::Fresh(one), PartBytes::Fresh(other)) => Arc::ptr_eq(one, other),
            (PartBytes::File(one), PartBytes::File(other)) => one == other,
            _ => false,
        }
    }
}

impl ScopeIndex {
    pub(crate) fn new(scope: Scope, holding: Holding) -> Self {
        Self { scope, holding, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state whole, so a panic elsewhere does not spoil it.
        self.state.lock()
    }

    /// The parts as they are now.
    pub(crate) fn parts(&self) -> Vec<PartBytes> {
        self.state().parts.iter().map(|part| part.bytes.clone()).collect()
    }

    /// Looks at a session whose events may be shown: its name, its workspace, whether it is
    /// archived.
    pub(crate) fn session<T>(
        &self,
        hash: SessionHash,
        look: impl FnOnce(&SessionId, Option<&str>, bool) -> T,
    ) -> Option<T> {
        let state = self.state();
        let session = state.sessions.get(&hash).filter(|session| session.is_alive)?;
        let (id, workspace) = (&session.key.session, session.workspace.as_deref());
        Some(look(id, workspace, session.is_archived))
    }

    pub(crate) fn coverage(&self) -> Coverage {
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

    /// How many passages there are, and parts.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let state = self.state();
        (state.parts.iter().map(|part| part.passages).sum(), state.parts.len())
    }

    pub(crate) fn want(&self) {
        self.state().is_wanted = true;
    }

    pub(crate) fn is_caught_up(&self) -> bool {
        self.state().behind.is_empty()
    }

    /// Whether it lacks something of these sessions, each below a position.
    pub(crate) fn lacks(&self, sessions: &HashMap<SessionId, Position>) -> bool {
        let state = self.state();
        let mut behind = state.behind.iter().filter_map(|hash| state.sessions.get(hash));
        behind.any(|one| sessions.get(&one.key.session).is_some_and(|to| one.indexed_to < *to))
    }

    /// Takes a file that was there at the start, before any session of it is noted.
    pub(crate) fn adopt(&self, file: &DerivedFile, passages: usize) {
        let mut state = self.state();
        for held in file.holds.iter() {
            state.held.entry(held.hash).or_default().push((held.range, held.rewritten));
        }
        let mut sessions: Vec<SessionHash> = file.holds.iter().map(|held| held.hash).collect();
        sessions.dedup();
        let (bytes, sessions) = (PartBytes::File(file.name), sessions.into());
        state.parts.push(IndexPart { bytes, passages, sessions, replaces: Vec::new() });
    }

    /// Notes how a session is now.
    pub(crate) fn note(&self, moved: Moved) {
        let mut state = self.state();
        let Moved { key, hash, base, tail, rewritten, workspace, is_archived, survival } = moved;
        if !state.sessions.contains_key(&hash) {
            let indexed_to = state.take_held(hash, base, rewritten);
            let (workspace, is_alive) = (None, false);
            let tail = indexed_to;
            let new = Followed {
                key,
                workspace,
                is_archived,
                base,
                tail,
                indexed_to,
                rewritten,
                is_alive,
            };
            state.sessions.insert(hash, new);
        }
        let is_rewritten =
            state.sessions.get(&hash).is_some_and(|session| session.rewritten != rewritten);
        state.change(hash, |session| {
            if is_rewritten {
                // What was read before may hold what was taken away.
                (session.indexed_to, session.rewritten) = (base, rewritten);
            }
            session.tail = tail.max(session.indexed_to);
            (session.workspace, session.is_archived) = (workspace, is_archived);
            session.is_alive = survival == Survival::Alive;
        });
        if is_rewritten {
            state.drop_passages(hash, &self.holding);
        }
    }

    /// What to read for the next part, when it is time to.
    pub(crate) fn next(&self) -> Vec<Wanted> {
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
    pub(crate) fn add(&self, part: Vec<u8>, read: &[Wanted]) {
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
            state.change(one.hash, |session| {
                session.indexed_to = session.indexed_to.max(to);
                session.tail = session.tail.max(to);
            });
        }
        state.parts.push(IndexPart::fresh(part, &self.holding));
    }

    /// A session does not answer any more: the store reports when it does again.
    pub(super) fn hide(&self, hash: SessionHash) {
        self.state().change(hash, |session| session.is_alive = false);
    }

    /// A file is gone: its sessions are read again.
    pub(super) fn lose(&self, name: DerivedName) {
        let mut state = self.state();
        let at = state.parts.iter().position(|part| part.file() == Some(name));
        if let Some(at) = at {
            state.lose(at);
        }
    }

    /// Some parts of about the same size, to be made one.
    pub(super) fn tier(&self) -> Option<Vec<PartBytes>> {
        let state = self.state();
        let mut tiers: HashMap<u32, Vec<PartBytes>> = HashMap::new();
        for part in state.parts.iter().filter(|part| part.passages < PASSAGES_MAX) {
            let tier = part.passages.max(1).ilog(TIER);
            tiers.entry(tier).or_default().push(part.bytes.clone());
        }
        tiers.into_values().find(|parts| parts.len() >= TIER)
    }

    /// Takes a part in place of those that it was made of, unless one of them is another by now: it
    /// held something that was taken away.
    pub(super) fn replace(&self, old: &[PartBytes], merged: Vec<u8>) {
        let mut state = self.state();
        let is_old = |part: &IndexPart| old.iter().any(|bytes| part.is(bytes));
        if state.parts.iter().filter(|part| is_old(part)).count() < old.len() {
            return;
        }
        let mut new = IndexPart::fresh(merged, &self.holding);
        for part in state.parts.iter().filter(|part| is_old(part)) {
            new.replaces.extend(part.file());
            new.replaces.extend_from_slice(&part.replaces);
        }
        state.parts.retain(|part| !is_old(part));
        state.parts.push(new);
    }

    /// Bytes of the parts that are in memory alone.
    pub(super) fn fresh_bytes(&self) -> usize {
        let state = self.state();
        state.parts.iter().filter_map(IndexPart::fresh_bytes).map(|bytes| bytes.len()).sum()
    }

    /// The largest part of at least so many passages that is in memory alone.
    pub(super) fn to_keep(&self, passages_min: usize) -> Option<ToKeep> {
        let state = self.state();
        let [_, least] = self.holding.kept_from();
        let least = passages_min.max(least);
        let fresh = state.parts.iter().filter(|part| part.passages >= least);
        let fresh = fresh.filter_map(|part| Some((part.passages, part.fresh_bytes()?)));
        let (_, bytes) = fresh.max_by_key(|(passages, _)| *passages)?;
        let (_, holds) = self.holding.holds(bytes)?;
        let holds = holds.into_iter().flat_map(|(hash, ranges)| {
            let known = state.sessions.get(&hash);
            let held = known.map(move |known| {
                ranges.into_iter().map(move |range| Held {
                    key: known.key.clone(),
                    hash,
                    range,
                    rewritten: known.rewritten,
                })
            });
            held.into_iter().flatten()
        });
        Some(ToKeep { bytes: Arc::clone(bytes), holds: holds.collect() })
    }

    /// A part is a file now. Returns the files that go for it; itself when it is none of the parts
    /// any more.
    pub(super) fn kept(&self, bytes: &Arc<Vec<u8>>, name: DerivedName) -> Vec<DerivedName> {
        let mut state = self.state();
        let fresh = PartBytes::Fresh(Arc::clone(bytes));
        match state.parts.iter_mut().find(|part| part.is(&fresh)) {
            Some(part) => {
                part.bytes = PartBytes::File(name);
                std::mem::take(&mut part.replaces)
            }
            None => vec![name],
        }
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

    /// How far the files hold a session, from its first own position on: asked once, when the
    /// session is noted first.
    fn take_held(&mut self, hash: SessionHash, base: Position, rewritten: u64) -> Position {
        let held = self.held.remove(&hash).unwrap_or_default();
        let mut to = base;
        while let Some((range, _)) =
            held.iter().find(|(range, of)| *of == rewritten && range.contains(to))
        {
            to = range.to;
        }
        to
    }

    /// Drops a part whose file is gone: its sessions are read again.
    fn lose(&mut self, at: usize) {
        let lost = self.parts.remove(at);
        for hash in lost.sessions.iter() {
            self.change(*hash, |session| session.indexed_to = session.base);
            self.held.remove(hash);
        }
    }

    /// Makes the parts in memory that hold something of a session anew without it. The store has
    /// destroyed the files that do.
    fn drop_passages(&mut self, hash: SessionHash, holding: &Holding) {
        let is_gone = |part: &IndexPart| part.file().is_some() && part.sessions.contains(&hash);
        while let Some(at) = self.parts.iter().position(is_gone) {
            self.lose(at);
        }
        for part in self.parts.iter_mut().filter(|part| part.sessions.contains(&hash)) {
            let Some(bytes) = part.fresh_bytes() else { continue };
            let bytes = Arc::clone(bytes);
            let keep = |session: SessionRef<'_>, range| match session.hash == hash {
                true => Vec::new(),
                false => vec![range],
            };
            let Some(left) = holding.merged(&[&bytes], &keep) else { continue };
            let replaces = std::mem::take(&mut part.replaces);
            *part = IndexPart { replaces, ..IndexPart::fresh(left, holding) };
        }
    }
}
