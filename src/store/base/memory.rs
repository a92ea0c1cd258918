//! A base in memory, for tests: it can lose answers before and after a commit, refuse, and go back
//! to an earlier state. It must not be reachable from the binary.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::broadcast;

use super::{
    AbsentName, Base, BaseError, BaseFuture, BaseStatus, ContentRemoval, CreateOutcome, Durability,
    FrameQuery, Hash16, Heartbeat, KnownName, NewFrame, NewRow, OtherNode, ReclaimStep,
    RowSelection, RowStage, RowWrite, STORE_SLOT, SessionRow, SlotChange, StoredFrame,
    WriteOutcome,
};
use crate::{
    env::{Clock, clock::SystemClock, sync::Mutex},
    event::{Lsn, Position, Range, Timestamp},
    store::TenantUsage,
};

/// Hints that a node may fall behind by.
const HINTS_MAX: usize = 1_024;
/// A node without a report for this long is not alive.
const ALIVE_MICROS: i64 = 10_000_000;

/// Fault of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The connection is lost before the statement runs.
    LostBefore,
    /// The connection is lost after the statement ran.
    LostAfter,
    /// Nothing is reached.
    Unreachable,
    /// Another node holds the row.
    Busy,
}

/// Decides what happens to the next statement of a kind.
type TroublePlan = Box<dyn FnMut(&'static str) -> Option<Trouble> + Send>;

/// A database in memory that nodes of one process share.
#[derive(Clone)]
pub struct MemoryBase(Arc<SharedTables>);

struct SharedTables {
    tables: Mutex<Tables>,
    plan: Mutex<Option<TroublePlan>>,
    hints: broadcast::Sender<Hash16>,
    clock: SystemClock,
}

#[derive(Clone, Default)]
struct Tables {
    rows: BTreeMap<Hash16, StoredRow>,
    /// Frames by session, first position and number.
    frames: BTreeMap<(Hash16, Position, Lsn), NewFrame>,
    names: HashMap<(Hash16, Hash16), KnownName>,
    slots: BTreeMap<Hash16, Bytes>,
    nodes: HashMap<Hash16, (Timestamp, Heartbeat)>,
    counted: i64,
    removals: u64,
}

#[derive(Clone)]
struct StoredRow {
    row: SessionRow,
    /// Ten seconds in which it changed last.
    moved_in: i32,
}

impl Default for MemoryBase {
    fn default() -> Self {
        let hints = broadcast::channel(HINTS_MAX).0;
        let (tables, plan) = (Mutex::default(), Mutex::default());
        Self(Arc::new(SharedTables { tables, plan, hints, clock: SystemClock::new() }))
    }
}

impl MemoryBase {
    /// Runs `plan` before each statement from now on; its argument is the kind of the statement.
    pub fn set_troubles(&self, plan: impl FnMut(&'static str) -> Option<Trouble> + Send + 'static) {
        *self.0.plan.lock() = Some(Box::new(plan));
    }

    /// Runs every statement from now on.
    pub fn clear_troubles(&self) {
        *self.0.plan.lock() = None;
    }

    /// Returns its content, for [`Self::go_back`].
    #[must_use]
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.0.tables.lock().clone())
    }

    /// Returns to an earlier content, like a standby that was promoted behind its primary.
    pub fn go_back(&self, to: MemorySnapshot) {
        *self.0.tables.lock() = to.0;
    }

    /// Changes a stored byte of the last frame of a session, like a flipped bit.
    ///
    /// # Panics
    /// If no frame is stored.
    pub fn flip_bit(&self) {
        let mut tables = self.0.tables.lock();
        let frame = tables.frames.values_mut().last().expect("a frame is stored");
        let mut bytes = frame.bytes.to_vec();
        // Before the padding.
        if let Some(byte) = bytes.iter_mut().rev().nth(8) {
            *byte ^= 1;
        }
        frame.bytes = bytes.into();
    }

    /// Returns true if some stored bytes contain `text`.
    #[must_use]
    pub fn holds(&self, text: &[u8]) -> bool {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        let tables = self.0.tables.lock();
        tables.frames.values().any(|frame| has(&frame.bytes))
            || tables.rows.values().any(|one| has(&one.row.entry) || has(&one.row.work))
    }

    fn run<T: Send + 'static>(
        &self,
        kind: &'static str,
        run: impl FnOnce(&mut Tables, i64) -> T + Send,
    ) -> Result<T, BaseError> {
        let trouble = self.0.plan.lock().as_mut().and_then(|plan| plan(kind));
        let lost = || Err(BaseError::Unsure("the connection was lost".to_owned()));
        match trouble {
            Some(Trouble::Unreachable) => {
                return Err(BaseError::Unreachable("nothing answers".to_owned()));
            }
            Some(Trouble::LostBefore) => return lost(),
            Some(Trouble::Busy) => return Err(BaseError::Busy("it is locked".to_owned())),
            Some(Trouble::LostAfter) | None => {}
        }
        let now = self.0.clock.now().0;
        let done = run(&mut self.0.tables.lock(), now);
        if trouble.is_some() { lost() } else { Ok(done) }
    }
}

/// Content of a [`MemoryBase`].
#[derive(Clone)]
pub struct MemorySnapshot(Tables);

impl Tables {
    fn is_known(&self, absent: &AbsentName) -> bool {
        let known = self.names.get(&(absent.session, absent.hash));
        known.is_some_and(|known| known.position < absent.below && known.at >= absent.live_from)
    }

    fn check(&self, write: &RowWrite) -> WriteOutcome {
        let stored = self.rows.get(&write.after.name).map(|stored| &stored.row);
        let current =
            |row: &SessionRow| row.uid == write.after.uid && row.revision == write.revision;
        if !stored.is_some_and(current) {
            return WriteOutcome::Moved;
        }
        match write.absent.iter().any(|absent| self.is_known(absent)) {
            true => WriteOutcome::Known,
            false => WriteOutcome::Done,
        }
    }

    fn apply(&mut self, write: &RowWrite, now: i64) {
        let uid = write.after.uid;
        let Some(stored) = self.rows.get_mut(&write.after.name) else { return };
        let (entry, workspace) = (stored.row.entry.clone(), stored.row.workspace);
        stored.row = SessionRow { revision: write.revision + 1, ..write.after.clone() };
        if !write.changes_entry {
            (stored.row.entry, stored.row.workspace) = (entry, workspace);
        }
        stored.moved_in = slot(now);
        self.insert(uid, &write.frames, &write.names);
        for stored in self.rows.values_mut().filter(|one| write.touches.contains(&one.row.uid)) {
            stored.row.revision += 1;
        }
    }

    fn insert(&mut self, uid: Hash16, frames: &[NewFrame], names: &[(Hash16, KnownName)]) {
        for frame in frames {
            let before = self.frames.insert((uid, frame.first, frame.number), frame.clone());
            assert!(before.is_none(), "a frame is stored once");
        }
        self.names.extend(names.iter().map(|(hash, name)| ((uid, *hash), name.clone())));
    }

    fn row(&self, stored: &StoredRow) -> SessionRow {
        let slot = self.slots.get(&stored.row.uid).cloned();
        let (removals, moved_in) = (self.removals, stored.moved_in);
        SessionRow { removals, moved_in, slot, ..stored.row.clone() }
    }

    fn select(&self, query: &RowSelection, limit: usize, now: i64) -> Vec<SessionRow> {
        let matches = |stored: &&StoredRow| {
            let row = &stored.row;
            let in_workspace =
                |wanted: &Option<Hash16>| wanted.is_none() || row.workspace == *wanted;
            match query {
                RowSelection::Names(names) => names.contains(&row.name),
                RowSelection::Uids(uids) => uids.contains(&row.uid),
                RowSelection::Children { parent, after } => {
                    row.parent == Some(*parent) && after.is_none_or(|after| row.name > after)
                }
                RowSelection::Page { scope, workspace, after, ascending } => {
                    let place = (row.created_at, row.name);
                    let is_after = |after| if *ascending { place > after } else { place < after };
                    row.scope == *scope
                        && row.stage == RowStage::Alive
                        && in_workspace(workspace)
                        && after.is_none_or(is_after)
                }
                RowSelection::Scope { scope, after } => {
                    row.scope == *scope && after.is_none_or(|after| row.name > after)
                }
                RowSelection::Unfinished { scope, workspace } => {
                    let alive = row.stage == RowStage::Alive && row.unfinished;
                    row.scope == *scope && alive && in_workspace(workspace)
                }
                RowSelection::Moved { seconds, after } => {
                    let from = slot(now.saturating_sub(
                        i64::try_from(*seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000),
                    ));
                    let place = (stored.moved_in, row.name);
                    stored.moved_in >= from && after.is_none_or(|after| place > after)
                }
                RowSelection::All { after } => after.is_none_or(|after| row.name > after),
            }
        };
        let mut found: Vec<&StoredRow> = self.rows.values().filter(matches).collect();
        match query {
            RowSelection::Page { ascending: true, .. } => {
                found.sort_by_key(|stored| (stored.row.created_at, stored.row.name));
            }
            RowSelection::Page { .. } => found
                .sort_by_key(|stored| std::cmp::Reverse((stored.row.created_at, stored.row.name))),
            RowSelection::Unfinished { .. } => {
                found.sort_by_key(|stored| std::cmp::Reverse(stored.row.updated_at));
            }
            RowSelection::Moved { .. } => {
                found.sort_by_key(|stored| (stored.moved_in, stored.row.name));
            }
            _ => {}
        }
        found.into_iter().take(limit).map(|stored| self.row(stored)).collect()
    }

    fn frames_of(&self, uid: Hash16, query: FrameQuery) -> Vec<StoredFrame> {
        let all = self
            .frames
            .range((uid, Position::ZERO, Lsn(0))..=(uid, Position(u64::MAX), Lsn(u64::MAX)));
        let all = all.map(|(_, frame)| StoredFrame {
            range: Range::new(frame.first, frame.first.plus(frame.events.into())),
            number: frame.number,
            bytes: frame.bytes.clone(),
            fault: None,
        });
        let overlaps = |one: &StoredFrame, range: Range| {
            !one.range.is_empty() && one.range.from < range.to && one.range.to > range.from
        };
        let bounded =
            |found: &mut dyn Iterator<Item = StoredFrame>, frames: usize, bytes: usize| {
                let mut sum = 0;
                let fits = |frame: &StoredFrame| {
                    let before = sum;
                    sum += frame.bytes.len();
                    before == 0 || before < bytes
                };
                found.take(frames).take_while(fits).collect::<Vec<_>>()
            };
        match query {
            FrameQuery::Forward { range, frames, bytes } => {
                bounded(&mut all.filter(|one| overlaps(one, range)), frames, bytes)
            }
            FrameQuery::Backward { range, frames, bytes } => {
                let all: Vec<_> = all.filter(|one| overlaps(one, range)).collect();
                let mut found = bounded(&mut all.into_iter().rev(), frames, bytes);
                found.reverse();
                found
            }
            FrameQuery::Noted { from, frames, bytes } => {
                let noted = |one: &StoredFrame| {
                    let key = (uid, one.range.from, one.number);
                    one.number >= from && self.frames.get(&key).is_some_and(|frame| frame.noted)
                };
                bounded(&mut all.filter(noted), frames, bytes)
            }
            FrameQuery::All { from, frames, bytes, .. } => {
                bounded(&mut all.filter(|one| one.number >= from), frames, bytes)
            }
        }
    }
}

/// Returns the ten seconds that a time is in.
fn slot(micros: i64) -> i32 {
    let slot = micros.div_euclid(10_000_000).clamp(i32::MIN.into(), i32::MAX.into());
    i32::try_from(slot).unwrap_or_default()
}

impl Base for MemoryBase {
    fn commit(&self, writes: Arc<[RowWrite]>, waits: bool) -> BaseFuture<'_, Vec<WriteOutcome>> {
        async move {
            let kind = if waits { "commit_waiting" } else { "commit" };
            self.run(kind, |tables, now| {
                let outcomes: Vec<_> = writes.iter().map(|write| tables.check(write)).collect();
                for (write, outcome) in writes.iter().zip(&outcomes) {
                    if *outcome == WriteOutcome::Done {
                        tables.apply(write, now);
                    }
                }
                outcomes
            })
        }
        .boxed()
    }

    fn create(&self, new: Arc<NewRow>) -> BaseFuture<'_, CreateOutcome> {
        async move {
            self.run("create", |tables, now| {
                let NewRow { row, frames, names, key, counted, parent, store_slot } = &*new;
                let keyed = key.map(|key| (row.scope, key));
                if tables.rows.contains_key(&row.name)
                    || keyed.is_some_and(|key| tables.names.contains_key(&key))
                {
                    return CreateOutcome::Taken;
                }
                let is_alive = |(name, uid): &(Hash16, Hash16)| {
                    let parent = tables.rows.get(name);
                    parent.is_some_and(|up| up.row.uid == *uid && up.row.stage == RowStage::Alive)
                };
                let has_other_slot =
                    store_slot.is_some() && tables.slots.get(&STORE_SLOT) != store_slot.as_ref();
                if has_other_slot || !parent.as_ref().is_none_or(is_alive) {
                    return CreateOutcome::ParentMoved;
                }
                let stored = StoredRow { row: row.clone(), moved_in: slot(now) };
                tables.rows.insert(row.name, stored);
                tables.slots.extend(row.slot.clone().map(|slot| (row.uid, slot)));
                tables.insert(row.uid, frames, names);
                if let Some(key) = keyed {
                    let digest = Some(Bytes::copy_from_slice(&row.uid));
                    let (position, at) = (Position::ZERO, *counted);
                    tables.names.insert(key, KnownName { position, events: 0, digest, at });
                }
                CreateOutcome::Done
            })
        }
        .boxed()
    }

    fn slots(&self, after: Option<Hash16>, limit: usize) -> BaseFuture<'_, Vec<(Hash16, Bytes)>> {
        async move {
            self.run("slots", |tables, _| {
                let is_after = |uid: &Hash16| after.is_none_or(|after| *uid > after);
                let all = tables.slots.iter().filter(|(uid, _)| is_after(uid));
                all.take(limit).map(|(uid, slot)| (*uid, slot.clone())).collect()
            })
        }
        .boxed()
    }

    fn change_slots(&self, changes: Vec<SlotChange>) -> BaseFuture<'_, u64> {
        async move {
            self.run("change_slots", |tables, _| {
                let mut changed = 0;
                for SlotChange { session, before, after } in changes {
                    if tables.slots.get(&session) == before.as_ref() {
                        tables.slots.insert(session, after);
                        changed += 1;
                    }
                }
                changed
            })
        }
        .boxed()
    }

    fn remove_content(&self, removal: Arc<ContentRemoval>) -> BaseFuture<'_, Option<u64>> {
        async move {
            self.run("remove_content", |tables, now| {
                let ContentRemoval { write, rewritten, positions } = &*removal;
                if tables.check(write) != WriteOutcome::Done {
                    return None;
                }
                tables.apply(write, now);
                let uid = write.after.uid;
                if write.after.stage == RowStage::Erased {
                    tables.slots.remove(&uid);
                }
                for (first, number, bytes) in rewritten {
                    if let Some(frame) = tables.frames.get_mut(&(uid, *first, *number)) {
                        frame.bytes = bytes.clone();
                    }
                }
                for ((session, _), name) in &mut tables.names {
                    let end = name.position.plus(name.events.into());
                    let batch = Range::new(name.position, end);
                    if *session == uid && positions.iter().any(|at| batch.contains(*at)) {
                        name.digest = None;
                    }
                }
                tables.removals += 1;
                Some(tables.removals)
            })
        }
        .boxed()
    }

    fn rows(&self, query: RowSelection, limit: usize) -> BaseFuture<'_, Vec<SessionRow>> {
        async move { self.run("rows", |tables, now| tables.select(&query, limit, now)) }.boxed()
    }

    fn frames(
        &self,
        uid: Hash16,
        query: FrameQuery,
    ) -> BaseFuture<'_, Option<(SessionRow, Vec<StoredFrame>)>> {
        async move {
            self.run("frames", |tables, _| {
                let stored = tables.rows.values().find(|stored| stored.row.uid == uid)?;
                Some((tables.row(stored), tables.frames_of(uid, query)))
            })
        }
        .boxed()
    }

    fn known(&self, names: Vec<(Hash16, Hash16)>) -> BaseFuture<'_, Vec<Option<KnownName>>> {
        async move {
            self.run("known", |tables, _| {
                names.iter().map(|name| tables.names.get(name).cloned()).collect()
            })
        }
        .boxed()
    }

    fn frame_at(
        &self,
        uid: Hash16,
        position: Position,
    ) -> BaseFuture<'_, Option<(Range, Timestamp)>> {
        async move {
            self.run("frame_at", |tables, _| {
                let until = (uid, position, Lsn(u64::MAX));
                let before = tables.frames.range((uid, Position::ZERO, Lsn(0))..=until).rev();
                let (_, frame) = before.into_iter().find(|(_, frame)| frame.events > 0)?;
                let range = Range::new(frame.first, frame.first.plus(frame.events.into()));
                Some((range, frame.at))
            })
        }
        .boxed()
    }

    fn attempt(&self, uid: Hash16, first: Position, number: Lsn) -> BaseFuture<'_, Option<Hash16>> {
        async move {
            self.run("attempt", |tables, _| {
                tables.frames.get(&(uid, first, number)).map(|frame| frame.attempt)
            })
        }
        .boxed()
    }

    fn prove(&self) -> BaseFuture<'_, ()> {
        async move { self.run("prove", |_, _| ()) }.boxed()
    }

    fn usage(&self, tenant: Hash16, but: Hash16) -> BaseFuture<'_, TenantUsage> {
        async move {
            self.run("usage", |tables, _| {
                let rows = || tables.rows.values().map(|stored| &stored.row);
                let mut usage = TenantUsage::default();
                for row in rows().filter(|row| row.tenant == tenant && row.scope != but) {
                    usage.sessions += u64::from(row.stage == RowStage::Alive);
                    let is_needed = || rows().any(|child| child.parent == Some(row.uid));
                    if row.stage < RowStage::Discarded || is_needed() {
                        usage.bytes += row.bytes;
                    }
                }
                usage
            })
        }
        .boxed()
    }

    fn reclaim(&self, step: ReclaimStep) -> BaseFuture<'_, u64> {
        async move {
            self.run("reclaim", |tables, now| match step {
                ReclaimStep::AwaitForks { name, uid } => {
                    let ended = |one: &StoredRow| {
                        one.row.uid == uid && one.row.stage >= RowStage::Discarded
                    };
                    u64::from(tables.rows.get(&name).is_some_and(ended))
                }
                ReclaimStep::Mark { name, uid, revision } => {
                    let stored = tables.rows.get_mut(&name);
                    let current =
                        |one: &&mut StoredRow| one.row.uid == uid && one.row.revision == revision;
                    let Some(stored) = stored.filter(current) else { return 0 };
                    stored.row.stage = RowStage::Reclaimed;
                    stored.row.revision += 1;
                    stored.moved_in = slot(now);
                    1
                }
                ReclaimStep::Delete { uid, rows } => {
                    let ended = |one: &&StoredRow| one.row.uid == uid;
                    let stage = tables.rows.values().find(ended).map(|one| one.row.stage);
                    if stage.is_none_or(|stage| stage < RowStage::Discarded) {
                        return 0;
                    }
                    let frames: Vec<_> = tables
                        .frames
                        .keys()
                        .filter(|key| key.0 == uid)
                        .take(rows)
                        .copied()
                        .collect();
                    let names: Vec<_> = tables
                        .names
                        .keys()
                        .filter(|key| key.0 == uid)
                        .take(rows)
                        .copied()
                        .collect();
                    frames.iter().for_each(|key| drop(tables.frames.remove(key)));
                    names.iter().for_each(|key| drop(tables.names.remove(key)));
                    tables.slots.remove(&uid);
                    (frames.len() + names.len()) as u64
                }
                ReclaimStep::Free { name, uid } => {
                    let has_forks = tables.rows.values().any(|one| one.row.parent == Some(uid));
                    let marked = tables.rows.get(&name).is_some_and(|one| {
                        one.row.uid == uid && one.row.stage == RowStage::Reclaimed
                    });
                    let frees = marked && !has_forks;
                    u64::from(frees && tables.rows.remove(&name).is_some())
                }
                ReclaimStep::Key { scope, hash, at } => {
                    let key = (scope, hash);
                    let same = tables.names.get(&key).is_some_and(|name| name.at == at);
                    u64::from(same && tables.names.remove(&key).is_some())
                }
            })
        }
        .boxed()
    }

    fn beat(&self, beat: Heartbeat) -> BaseFuture<'_, BaseStatus> {
        async move {
            self.run("beat", |tables, now| {
                tables.counted = tables.counted.max(beat.counted.0);
                let (node, leaves) = (beat.node, beat.leaves);
                tables.nodes.insert(node, (Timestamp(now), beat));
                if leaves {
                    tables.nodes.remove(&node);
                }
                let is_other = |(id, (seen, _)): &(&Hash16, &(Timestamp, Heartbeat))| {
                    **id != node && now - seen.0 <= ALIVE_MICROS
                };
                let others: Vec<_> =
                    tables.nodes.iter().filter(is_other).map(|(_, other)| other).collect();
                BaseStatus {
                    counted: Timestamp(tables.counted),
                    removals: tables.removals,
                    confirmed_by_others: others
                        .iter()
                        .map(|(_, beat)| beat.confirmed)
                        .min()
                        .unwrap_or(u64::MAX),
                    now: Timestamp(now),
                    others: others
                        .iter()
                        .map(|(seen, beat)| OtherNode {
                            place: beat.place.clone(),
                            about: beat.about.clone(),
                            silent: Duration::from_micros((now - seen.0).max(0).unsigned_abs()),
                        })
                        .collect(),
                    durability: Durability::Single,
                    closed: None,
                }
            })
        }
        .boxed()
    }

    fn hint(&self, moved: Vec<Hash16>) {
        for name in moved {
            let _ = self.0.hints.send(name);
        }
    }

    fn hints(&self) -> broadcast::Receiver<Hash16> {
        self.0.hints.subscribe()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}
