//! State of one scope's index: its sessions, how far each is indexed, and the parts. It must not
//! block, nor read a store.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
    time::Duration,
};

use super::content::{PASSAGES_MAX, PartContent};
use crate::{
    api::search::{Behind, Complete},
    env::sync::{Mutex, MutexGuard},
    event::{Position, Range, Scope, SessionHash, SessionId, SessionKey, Timestamp},
    search::SessionRef,
    store::{ChangedSession, DerivedFile, DerivedName, HeldEvents, Survival},
};

/// Maximum number of events from which one part is made.
pub(super) const SLICE_EVENTS: usize = 2_048;
/// Number of pending events from which a scope is indexed even if it was never searched.
const WAITING_MAX: u64 = 4_096;
/// Number of parts of similar size that are merged.
const TIER: usize = 11;
/// Maximum number of sessions that a response names as not fully indexed.
const NAMED_MAX: usize = 20;
/// Maximum number of workspaces named.
const WORKSPACES_MAX: usize = 100;

/// Adds an indexed session whose events the log could not return.
pub(crate) fn add_unreadable(complete: &mut Complete, session: SessionId, tail: Position) {
    if let Some(known) = complete.behind.iter_mut().find(|known| known.session == session) {
        complete.sessions_unreadable += u64::from(!known.unreadable);
        known.unreadable = true;
        return;
    }
    complete.is_complete = false;
    complete.sessions_behind += 1;
    complete.sessions_unreadable += 1;
    let behind = Behind { session, indexed_to: tail, tail, unreadable: true };
    complete.behind.insert(0, behind);
    complete.behind.truncate(NAMED_MAX);
}

pub(crate) struct ScopeIndex {
    pub(crate) scope: Scope,
    pub(super) content: PartContent,
    state: Mutex<IndexState>,
}

#[derive(Default)]
struct IndexState {
    sessions: HashMap<SessionHash, FollowedSession>,
    /// Forks of each session that has any.
    forks: HashMap<SessionHash, Vec<SessionHash>>,
    /// Sessions with events that are not indexed.
    behind: BTreeSet<SessionHash>,
    events_behind: u64,
    /// Unreadable sessions among them, each with the time of the next attempt.
    deferred: HashMap<SessionHash, Duration>,
    /// Damaged sessions: events that the log cannot return may be missing.
    damaged: BTreeSet<SessionHash>,
    /// Session that was read last: others come first.
    read_last: Option<SessionHash>,
    parts: Vec<IndexPart>,
    /// True if some parts could not be merged.
    is_incompatible: bool,
    /// Files that are no longer parts.
    obsolete_files: Vec<DerivedName>,
    /// Position by session after the last event that refers to earlier ones.
    final_from: HashMap<SessionHash, Position>,
    /// Indexed ranges in files found at the start, of sessions that are not recorded yet.
    held: HashMap<SessionHash, Vec<(Range, u64)>>,
    /// True if a caller has searched it.
    is_wanted: bool,
}

/// State of a session in the scope.
#[derive(Clone, Debug)]
struct FollowedSession {
    key: SessionKey,
    workspace: Option<String>,
    is_archived: bool,
    /// First position of its own: earlier ones belong to its parent.
    base: Position,
    parent: Option<SessionHash>,
    tail: Position,
    created_at: Timestamp,
    /// End of the indexed positions.
    indexed_to: Position,
    /// Number of its events that are not indexed, as counted in `events_behind`.
    behind: u64,
    /// Number of removals of its content.
    rewritten: u64,
    survival: Survival,
}

impl FollowedSession {
    fn is_alive(&self) -> bool {
        self.survival == Survival::Alive
    }
}

/// Location of a part's bytes.
#[derive(Clone)]
pub(crate) enum PartBytes {
    /// In memory only.
    Fresh(Arc<Vec<u8>>),
    /// In a derived file of the store.
    File(DerivedName),
}

#[derive(Clone)]
struct IndexPart {
    bytes: PartBytes,
    passages: usize,
    sessions: Arc<[SessionHash]>,
    /// Files with the same passages, dropped once this part is written to a file.
    replaces: Vec<DerivedName>,
}

/// Positions that a session wrote, and the live session that returns them.
pub(crate) struct ServedRange {
    pub(crate) hash: SessionHash,
    pub(crate) session: SessionId,
    pub(crate) range: Range,
}

/// A live session that returns events written by itself or by an ancestor.
struct ServingSession<'a> {
    hash: SessionHash,
    session: &'a FollowedSession,
    /// Position up to which it has the events.
    below: Position,
}

/// Events to read for the next part.
pub(crate) struct WantedEvents {
    /// Session that wrote them.
    pub(crate) session: SessionId,
    pub(crate) hash: SessionHash,
    /// Session that returns them: the writer or a fork of it.
    pub(crate) from: SessionKey,
    pub(crate) from_hash: SessionHash,
    pub(crate) rewritten: u64,
    pub(crate) range: Range,
}

/// A part to be written to a file.
pub(super) struct PartToWrite {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) holds: Vec<HeldEvents>,
}

impl IndexPart {
    fn from_bytes(bytes: Vec<u8>, content: &PartContent) -> Self {
        let (passages, holds) = content.passages_and_positions(&bytes).unwrap_or_default();
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

    fn has_bytes(&self, bytes: &PartBytes) -> bool {
        match (&self.bytes, bytes) {
            (PartBytes::Fresh(one), PartBytes::Fresh(other)) => Arc::ptr_eq(one, other),
            (PartBytes::File(one), PartBytes::File(other)) => one == other,
            _ => false,
        }
    }
}

impl ScopeIndex {
    pub(crate) fn new(scope: Scope, content: PartContent) -> Self {
        Self { scope, content, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, IndexState> {
        // Every update leaves the state consistent, so a poisoned lock can be ignored.
        self.state.lock()
    }

    /// Returns the parts with their coverage: that of the index may be more by the next call.
    pub(crate) fn parts(&self) -> (Vec<PartBytes>, Complete) {
        let state = self.state();
        (state.parts.iter().map(|part| part.bytes.clone()).collect(), state.coverage())
    }

    /// Returns the sessions that return what a session wrote, with the positions of each: itself,
    /// or, if it is deleted or expired, the oldest of its forks that has each position. `look`
    /// receives a session's id, workspace and whether it is archived, and returns the end of the
    /// wanted positions.
    pub(crate) fn serving_ranges(
        &self,
        hash: SessionHash,
        look: impl Fn(&SessionId, Option<&str>, bool) -> Option<Position>,
    ) -> Vec<ServedRange> {
        let state = self.state();
        let mut from = Position::ZERO;
        let mut served = Vec::new();
        for ServingSession { hash, session, below } in state.serving_sessions(hash) {
            let id = &session.key.session;
            let wanted = look(id, session.workspace.as_deref(), session.is_archived);
            let to = wanted.map_or(from, |to| to.min(below));
            if from < to {
                served.push(ServedRange { hash, session: id.clone(), range: Range::new(from, to) });
                from = to;
            }
        }
        served
    }

    /// Returns the wanted workspaces of its live sessions, sorted by name.
    pub(crate) fn workspaces(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let state = self.state();
        let alive = state.sessions.values().filter(|session| session.is_alive());
        let names = alive.filter_map(|session| session.workspace.as_deref());
        let names: BTreeSet<&str> = names.filter(|name| is_wanted(name)).collect();
        names.into_iter().take(WORKSPACES_MAX).map(str::to_owned).collect()
    }

    pub(crate) fn coverage(&self) -> Complete {
        self.state().coverage()
    }

    /// Records that a session has gaps, which were skipped.
    pub(super) fn mark_damaged(&self, hash: SessionHash) {
        self.state().damaged.insert(hash);
    }

    pub(crate) fn sizes(&self) -> (usize, usize) {
        let state = self.state();
        (state.parts.iter().map(|part| part.passages).sum(), state.parts.len())
    }

    pub(crate) fn mark_wanted(&self) {
        self.state().is_wanted = true;
    }

    pub(crate) fn is_caught_up(&self) -> bool {
        self.state().is_caught_up()
    }

    /// Returns true if events are pending and should be read now.
    pub(crate) fn has_events(&self) -> bool {
        let state = self.state();
        let is_time = state.is_wanted || state.events_behind >= WAITING_MAX;
        is_time && !state.is_caught_up()
    }

    pub(super) fn has_work(&self) -> bool {
        self.has_events() || self.parts_to_merge().is_some()
    }

    /// Stops merging incompatible parts until another part is added.
    pub(super) fn stop_merging(&self) {
        self.state().is_incompatible = true;
    }

    /// Defers the reading of an unreadable session until a time, unless it changes.
    pub(super) fn defer_session(&self, hash: SessionHash, until: Duration) {
        let mut state = self.state();
        if state.behind.contains(&hash) {
            state.deferred.insert(hash, until);
        }
    }

    /// Ends the deferral of the sessions whose time is over.
    pub(crate) fn retry_deferred(&self, now: Duration) {
        self.state().deferred.retain(|_, until| *until > now);
    }

    /// Removes and returns the files that are no longer parts, to be dropped.
    pub(super) fn take_obsolete_files(&self) -> Vec<DerivedName> {
        std::mem::take(&mut self.state().obsolete_files)
    }

    /// Returns true if events of these sessions, each before a position, are not indexed.
    pub(crate) fn lacks_events_of(&self, sessions: &HashMap<SessionId, Position>) -> bool {
        let state = self.state();
        let mut behind = state.behind.iter().filter_map(|hash| state.sessions.get(hash));
        behind.any(|one| sessions.get(&one.key.session).is_some_and(|to| one.indexed_to < *to))
    }

    /// Returns true if no event in a session that ends at `tail` can refer to an event from that
    /// position on.
    pub(crate) fn is_final_from(&self, hash: SessionHash, from: Position, tail: Position) -> bool {
        let state = self.state();
        let known = state.sessions.get(&hash);
        let is_known = known.is_some_and(|one| one.base <= from && one.indexed_to >= tail);
        is_known && state.final_from.get(&hash).is_none_or(|settled| *settled <= from)
    }

    /// Adopts a file found at the start, before any of its sessions is recorded.
    pub(crate) fn adopt_file(
        &self,
        file: &DerivedFile,
        passages: usize,
        settled: Vec<(SessionHash, Position)>,
    ) {
        let mut state = self.state();
        state.record_final_from(settled);
        for held in file.holds.iter() {
            state.held.entry(held.hash).or_default().push((held.range, held.rewritten));
        }
        let mut sessions: Vec<SessionHash> = file.holds.iter().map(|held| held.hash).collect();
        sessions.dedup();
        let (bytes, sessions) = (PartBytes::File(file.name), sessions.into());
        state.parts.push(IndexPart { bytes, passages, sessions, replaces: Vec::new() });
    }

    pub(crate) fn record_change(&self, moved: ChangedSession) {
        let mut state = self.state();
        let ChangedSession { key, hash, base, parent, tail, created_at, .. } = moved;
        let ChangedSession { rewritten, workspace, is_archived, survival, is_damaged, .. } = moved;
        if !state.sessions.contains_key(&hash) {
            let indexed_to = state.take_indexed_to(hash, base, rewritten);
            let new = FollowedSession {
                key,
                workspace: None,
                is_archived,
                base,
                parent,
                tail: indexed_to,
                created_at,
                indexed_to,
                behind: 0,
                rewritten,
                survival: Survival::Deleted,
            };
            state.sessions.insert(hash, new);
            if let Some(parent) = parent {
                state.forks.entry(parent).or_default().push(hash);
            }
        }
        state.deferred.remove(&hash);
        if is_damaged && survival == Survival::Alive {
            state.damaged.insert(hash);
        } else {
            state.damaged.remove(&hash);
        }
        let is_rewritten =
            state.sessions.get(&hash).is_some_and(|session| session.rewritten != rewritten);
        state.update(hash, |session| {
            if is_rewritten {
                // The indexed passages may contain removed content.
                (session.indexed_to, session.rewritten) = (base, rewritten);
            }
            session.tail = tail.max(session.indexed_to);
            (session.workspace, session.is_archived) = (workspace, is_archived);
            session.survival = survival;
        });
        if is_rewritten {
            state.drop_passages(hash, &self.content);
        }
    }

    /// Returns the events to read for the next part, round-robin by session; empty if none are due.
    pub(crate) fn next_events(&self) -> Vec<WantedEvents> {
        let mut wanted = Vec::new();
        if !self.has_events() {
            return wanted;
        }
        let mut state = self.state();
        let mut left = SLICE_EVENTS as u64;
        let last = state.read_last.unwrap_or(SessionHash([0; 32]));
        let later = state.behind.range((Excluded(last), Unbounded));
        for hash in later.chain(state.behind.range(..=last)) {
            let Some(session) = state.sessions.get(hash).filter(|_| left > 0) else { break };
            if state.deferred.contains_key(hash) {
                continue;
            }
            let from = session.indexed_to;
            let server =
                state.serving_sessions(*hash).into_iter().find(|server| from < server.below);
            let Some(server) = server else { continue };
            let to = session.tail.min(server.below).min(from.plus(left));
            left -= to.0 - from.0;
            wanted.push(WantedEvents {
                session: session.key.session.clone(),
                hash: *hash,
                from: server.session.key.clone(),
                from_hash: server.hash,
                rewritten: session.rewritten,
                range: Range::new(from, to),
            });
        }
        state.read_last = wanted.last().map(|one| one.hash).or(state.read_last);
        wanted
    }

    /// Adds a part made from events, unless content of one of their sessions was removed meanwhile:
    /// then all are read again.
    pub(crate) fn add_part(&self, part: Vec<u8>, read: &[WantedEvents]) {
        let mut state = self.state();
        let is_current = |one: &WantedEvents| {
            let session = state.sessions.get(&one.hash);
            session.is_some_and(|session| session.rewritten == one.rewritten)
        };
        if !read.iter().all(is_current) {
            return;
        }
        for one in read {
            let to = one.range.to;
            state.update(one.hash, |session| {
                session.indexed_to = session.indexed_to.max(to);
                session.tail = session.tail.max(to);
            });
        }
        state.record_final_from(self.content.final_from(&part));
        state.parts.push(IndexPart::from_bytes(part, &self.content));
        state.is_incompatible = false;
    }

    /// Marks a session as deleted until the store reports it again.
    pub(super) fn mark_gone(&self, hash: SessionHash) {
        self.state().update(hash, |session| session.survival = Survival::Deleted);
    }

    /// Drops a lost file: its sessions are read again.
    pub(super) fn drop_lost_file(&self, name: DerivedName) {
        let mut state = self.state();
        let at = state.parts.iter().position(|part| part.file() == Some(name));
        if let Some(at) = at {
            state.drop_part(at);
        }
    }

    pub(super) fn parts_to_merge(&self) -> Option<Vec<PartBytes>> {
        let state = self.state();
        let mut tiers: HashMap<u32, Vec<PartBytes>> = HashMap::new();
        let is_small = |part: &&IndexPart| part.passages < PASSAGES_MAX && !state.is_incompatible;
        for part in state.parts.iter().filter(is_small) {
            let tier = part.passages.max(1).ilog(TIER);
            tiers.entry(tier).or_default().push(part.bytes.clone());
        }
        tiers.into_values().find(|parts| parts.len() >= TIER)
    }

    /// Replaces parts by the merged one, unless one of them changed meanwhile because content was
    /// removed from it.
    pub(super) fn replace_parts(&self, old: &[PartBytes], merged: Vec<u8>) {
        let mut state = self.state();
        let is_old = |part: &IndexPart| old.iter().any(|bytes| part.has_bytes(bytes));
        if state.parts.iter().filter(|part| is_old(part)).count() < old.len() {
            return;
        }
        let mut new = IndexPart::from_bytes(merged, &self.content);
        for part in state.parts.iter().filter(|part| is_old(part)) {
            new.replaces.extend(part.file());
            new.replaces.extend_from_slice(&part.replaces);
        }
        state.parts.retain(|part| !is_old(part));
        state.parts.push(new);
    }

    /// Returns the bytes of the parts that are only in memory.
    pub(super) fn fresh_bytes(&self) -> usize {
        let state = self.state();
        state.parts.iter().filter_map(IndexPart::fresh_bytes).map(|bytes| bytes.len()).sum()
    }

    /// Returns the largest part in memory with at least this many passages.
    pub(super) fn part_to_write(&self, passages_min: usize) -> Option<PartToWrite> {
        let state = self.state();
        let [_, least] = self.content.file_passages_min();
        let least = passages_min.max(least);
        let fresh = state.parts.iter().filter(|part| part.passages >= least);
        let fresh = fresh.filter_map(|part| Some((part.passages, part.fresh_bytes()?)));
        let (_, bytes) = fresh.max_by_key(|(passages, _)| *passages)?;
        let (_, holds) = self.content.passages_and_positions(bytes)?;
        let holds = holds.into_iter().flat_map(|(hash, ranges)| {
            let known = state.sessions.get(&hash);
            let held = known.map(move |known| {
                ranges.into_iter().map(move |range| HeldEvents {
                    key: known.key.clone(),
                    hash,
                    range,
                    rewritten: known.rewritten,
                })
            });
            held.into_iter().flatten()
        });
        Some(PartToWrite { bytes: Arc::clone(bytes), holds: holds.collect() })
    }

    /// Records that a part was written to a file. Returns the files it replaces, or the file itself
    /// if the part no longer exists.
    pub(super) fn mark_written(&self, bytes: &Arc<Vec<u8>>, name: DerivedName) -> Vec<DerivedName> {
        let mut state = self.state();
        let fresh = PartBytes::Fresh(Arc::clone(bytes));
        match state.parts.iter_mut().find(|part| part.has_bytes(&fresh)) {
            Some(part) => {
                part.bytes = PartBytes::File(name);
                std::mem::take(&mut part.replaces)
            }
            None => vec![name],
        }
    }
}

impl IndexState {
    fn is_caught_up(&self) -> bool {
        self.behind.len() == self.deferred.len()
    }

    fn coverage(&self) -> Complete {
        let is_deferred = |hash: &&SessionHash| self.deferred.contains_key(*hash);
        let [deferred, others] = [true, false]
            .map(|deferred| self.behind.iter().filter(move |hash| is_deferred(hash) == deferred));
        let named = deferred.chain(others).filter_map(|hash| {
            let one = self.sessions.get(hash)?;
            Some(Behind {
                session: one.key.session.clone(),
                indexed_to: one.indexed_to,
                tail: one.tail,
                unreadable: is_deferred(&hash),
            })
        });
        let mut complete = Complete {
            is_complete: self.behind.is_empty(),
            sessions_behind: self.behind.len() as u64,
            events_behind: self.events_behind,
            sessions_unreadable: self.deferred.len() as u64,
            behind: named.take(NAMED_MAX).collect(),
            meaning: None,
            vectors_behind: None,
        };
        for hash in self.damaged.iter().filter(|hash| !self.deferred.contains_key(*hash)) {
            let session = self.sessions.get(hash).filter(|session| session.is_alive());
            session.into_iter().for_each(|session| {
                add_unreadable(&mut complete, session.key.session.clone(), session.tail);
            });
        }
        complete
    }

    /// Records the positions from which no later event of the part refers to earlier ones.
    fn record_final_from(&mut self, settled: Vec<(SessionHash, Position)>) {
        for (hash, from) in settled.into_iter().filter(|(_, from)| *from > Position::ZERO) {
            let settled = self.final_from.entry(hash).or_default();
            *settled = from.max(*settled);
        }
    }

    /// Returns the live sessions that return what a session wrote: itself, or else forks, oldest
    /// first.
    fn serving_sessions(&self, hash: SessionHash) -> Vec<ServingSession<'_>> {
        let mut living = Vec::new();
        let mut left = vec![(hash, Position(u64::MAX))];
        while let Some((hash, below)) = left.pop() {
            let Some(session) = self.sessions.get(&hash) else { continue };
            match session.survival {
                Survival::Alive => living.push(ServingSession { hash, session, below }),
                Survival::Erased => {}
                Survival::Deleted | Survival::Expired => {
                    let forks = self.forks.get(&hash).into_iter().flatten();
                    left.extend(forks.filter_map(|fork| {
                        Some((*fork, self.sessions.get(fork)?.base.min(below)))
                    }));
                }
            }
        }
        living.sort_by_key(|one| (one.session.created_at, &one.session.key.session));
        living
    }

    /// Updates a session's state, and recounts its unindexed events and those of its ancestors.
    fn update(&mut self, hash: SessionHash, change: impl FnOnce(&mut FollowedSession)) {
        let Some(session) = self.sessions.get_mut(&hash) else { return };
        let was_alive = session.is_alive();
        change(session);
        let (is_alive, mut above) = (session.is_alive(), session.parent);
        self.recount_behind(hash);
        while let Some(hash) = above.filter(|_| was_alive != is_alive) {
            self.recount_behind(hash);
            let parent = self.sessions.get(&hash);
            above = parent.filter(|parent| !parent.is_alive()).and_then(|parent| parent.parent);
        }
    }

    /// Counts the events of a session that are not indexed. Events that no live session returns are
    /// not read and not counted.
    fn recount_behind(&mut self, hash: SessionHash) {
        let to = self.serving_sessions(hash).into_iter().map(|server| server.below).max();
        let Some(session) = self.sessions.get_mut(&hash) else { return };
        let to = to.map_or(session.indexed_to, |below| below.min(session.tail));
        let behind = to.0.saturating_sub(session.indexed_to.0);
        self.events_behind = self.events_behind - session.behind + behind;
        session.behind = behind;
        if behind > 0 {
            self.behind.insert(hash);
        } else {
            self.behind.remove(&hash);
            self.deferred.remove(&hash);
        }
    }

    /// Removes and returns the end of the indexed positions in files, from the session's first own
    /// position on; called once, when the session is first recorded.
    fn take_indexed_to(&mut self, hash: SessionHash, base: Position, rewritten: u64) -> Position {
        let held = self.held.remove(&hash).unwrap_or_default();
        let mut to = base;
        while let Some((range, _)) =
            held.iter().find(|(range, of)| *of == rewritten && range.contains(to))
        {
            to = range.to;
        }
        to
    }

    /// Drops a part whose file is lost or unusable: its sessions are read again.
    fn drop_part(&mut self, at: usize) {
        let lost = self.parts.remove(at);
        self.obsolete_files.extend(lost.file());
        for hash in lost.sessions.iter() {
            self.update(*hash, |session| session.indexed_to = session.base);
            self.held.remove(hash);
        }
    }

    /// Rebuilds the parts in memory that contain a session without it. Files that contain it are no
    /// longer parts: the store has destroyed those with the removed content.
    fn drop_passages(&mut self, hash: SessionHash, content: &PartContent) {
        let is_gone = |part: &IndexPart| part.file().is_some() && part.sessions.contains(&hash);
        while let Some(at) = self.parts.iter().position(is_gone) {
            self.drop_part(at);
        }
        for part in self.parts.iter_mut().filter(|part| part.sessions.contains(&hash)) {
            let Some(bytes) = part.fresh_bytes() else { continue };
            let bytes = Arc::clone(bytes);
            let keep = |session: SessionRef<'_>, range| match session.hash == hash {
                true => Vec::new(),
                false => vec![range],
            };
            let Some(left) = content.merge_parts(&[&bytes], &keep) else { continue };
            let replaces = std::mem::take(&mut part.replaces);
            *part = IndexPart { replaces, ..IndexPart::from_bytes(left, content) };
        }
    }
}
