//! The follower of a store: reads what sessions wrote and keeps it as parts of an index, a list of
//! parts for each scope, the large ones in derived files. It must not rank, and all it keeps may be
//! lost at any time: the log has everything.

mod holding;
mod scope;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch};
use tokio_util::sync::CancellationToken;

use self::scope::SLICE_EVENTS;
pub use self::scope::{BehindSession, Coverage};
pub(super) use self::{
    holding::Holding,
    scope::{PartBytes, ScopeIndex, Served, Wanted},
};
use super::{Code, Service, ServiceError, ServiceResult};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::Scope,
    search::{PartBuilder, SessionRef},
    store::{DerivedName, Fill, Mapped, Moved, Read, Since, Slice, StoreError},
};

/// Bytes of bodies that one part is made of; other tasks run between parts.
const SLICE_BYTES: usize = 4 << 20;
/// Sessions that the store is asked for at once.
const MOVED_MAX: usize = 1_000;
/// How long what changed may gather before it is followed.
const GATHERED: Duration = Duration::from_millis(200);

/// The indexes of all scopes, and the one task that feeds them.
pub(super) struct Indexing {
    scopes: Mutex<HashMap<Scope, Arc<ScopeIndex>>>,
    /// How far the store was followed; held by the task that follows it.
    since: tokio::sync::Mutex<Since>,
    turns: Mutex<Turns>,
    /// The last turn at whose begin every change was noted.
    noted: watch::Sender<u64>,
    /// Files that were found to be lost.
    lost: AtomicU64,
    options: SearchOptions,
}

/// What the operator decides about searching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchOptions {
    /// Whether sessions can be searched. Without it nothing is indexed.
    pub enabled: bool,
    /// Bytes of the parts of all indexes that are in memory alone.
    pub memory_bytes_max: usize,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { enabled: true, memory_bytes_max: 64 << 20 }
    }
}

/// Counts of the indexes of all scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// Passages that can be found.
    pub passages: u64,
    /// Parts, in files and in memory.
    pub parts: u64,
    /// Bytes of the parts that are in memory alone.
    pub memory_bytes: u64,
    /// Events that are not indexed yet, of scopes that are searched.
    pub events_behind: u64,
    /// Files that were lost, so that their events were read again.
    pub lost: u64,
}

/// Who asked the task to look again, and whether it runs.
#[derive(Default)]
struct Turns {
    asked: u64,
    runs: bool,
}

impl Default for Indexing {
    fn default() -> Self {
        Self::new(SearchOptions::default())
    }
}

impl Indexing {
    pub(super) fn new(options: SearchOptions) -> Self {
        Self {
            options,
            lost: AtomicU64::new(0),
            scopes: Mutex::default(),
            since: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            noted: watch::Sender::new(0),
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    pub(super) fn counts(&self) -> IndexCounts {
        let mut counts =
            IndexCounts { lost: self.lost.load(Ordering::Relaxed), ..IndexCounts::default() };
        for index in self.all() {
            let (passages, parts) = index.sizes();
            counts.passages += passages as u64;
            counts.parts += parts as u64;
            counts.memory_bytes += index.fresh_bytes() as u64;
            counts.events_behind += index.coverage().events_behind;
        }
        counts
    }

    fn scopes(&self) -> MutexGuard<'_, HashMap<Scope, Arc<ScopeIndex>>> {
        self.scopes.lock()
    }

    /// The index of a scope.
    pub(super) fn of(&self, scope: &Scope) -> Arc<ScopeIndex> {
        let mut scopes = self.scopes();
        let new = || Arc::new(ScopeIndex::new(scope.clone(), Holding::Words));
        Arc::clone(scopes.entry(scope.clone()).or_insert_with(new))
    }

    fn note(&self, moved: Moved) {
        self.of(&moved.key.scope).note(moved);
    }

    fn all(&self) -> Vec<Arc<ScopeIndex>> {
        self.scopes().values().cloned().collect()
    }

    /// The next index with something to read, and what.
    fn next(&self) -> Option<(Arc<ScopeIndex>, Vec<Wanted>)> {
        let mut with_work = self.all().into_iter().map(|index| {
            let wanted = index.next();
            (index, wanted)
        });
        with_work.find(|(_, wanted)| !wanted.is_empty())
    }
}

impl Service {
    /// Follows the store until it is stopped, so that a search finds little to catch up with.
    pub async fn follow_index(self, stop: CancellationToken) {
        if !self.indexing.is_enabled() {
            return;
        }
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

    /// The index of a scope, once it has enough of what was acknowledged before, or once `wait` is
    /// over; and whether it is known what was acknowledged.
    pub(super) async fn caught_up(
        &self,
        scope: &Scope,
        wait: Duration,
        has_enough: impl Fn(&ScopeIndex) -> bool,
    ) -> (Arc<ScopeIndex>, bool) {
        let index = self.indexing.of(scope);
        index.want();
        if let Some(embedding) = &self.embedding {
            embedding.of(scope).want();
        }
        let mut noted = self.indexing.noted.subscribe();
        let turn = self.look_again();
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        loop {
            let is_noted = *noted.borrow_and_update() >= turn;
            if is_noted && has_enough(&index) {
                return (index, true);
            }
            tokio::select! {
                () = &mut over => return (index, is_noted),
                changed = noted.changed() => if changed.is_err() { return (index, is_noted) },
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
            // Vectors come after the words.
            self.embed_soon();
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
            let service = self.clone();
            let add = async move {
                service.read_part(&index, wanted).await?;
                service.settle_parts(&index).await
            };
            apart(add).await?;
            self.indexing.noted.send_modify(|_| {});
            tokio::task::yield_now().await;
        }
    }

    /// Takes what was erased or redacted out of the parts in memory, before a verb answers.
    pub(super) async fn forget_indexed(&self) {
        if *self.indexing.since.lock().await == Since::default() {
            return;
        }
        if let Err(error) = self.note_changes().await {
            tracing::warn!(%error, "the search index is behind");
        }
    }

    async fn note_changes(&self) -> ServiceResult<()> {
        let mut since = self.indexing.since.lock().await;
        if *since == Since::default() {
            for foreign in self.adopt_files() {
                self.store.drop_derived(foreign).await?;
            }
        }
        loop {
            let moves = self.store.moved(since.clone(), MOVED_MAX).await?;
            for moved in moves.sessions {
                if let Some(embedding) = &self.embedding {
                    embedding.note(moved.clone());
                }
                self.indexing.note(moved);
            }
            *since = moves.since;
            if !moves.more {
                return Ok(());
            }
        }
    }

    /// Takes the files that an earlier process left, those of another version left out. Returns
    /// those with vectors of another embedder than this one.
    fn adopt_files(&self) -> Vec<DerivedName> {
        let mut foreign = Vec::new();
        for file in self.store.derived().unwrap_or_default() {
            let Some((scope, holding)) = Holding::labelled(&file.label) else { continue };
            let Ok(part) = self.store.open_derived(file.name) else { continue };
            match (&holding, &self.embedding) {
                (Holding::Words, _) => {
                    if let Some(passages) = holding.checked(part.bytes()) {
                        let settled = holding.settled(part.bytes());
                        self.indexing.of(&scope).adopt(&file, passages, settled);
                    }
                }
                (Holding::Vectors(_), Some(embedding)) => {
                    if !embedding.adopt(&holding, &scope, &file, part.bytes()) {
                        foreign.push(file.name);
                    }
                }
                (Holding::Vectors(_), None) => {}
            }
        }
        foreign
    }

    /// The indexes of all scopes, of words and of vectors.
    fn all_indexes(&self) -> Vec<Arc<ScopeIndex>> {
        let vectors = self.embedding.iter().flat_map(|embedding| embedding.all());
        self.indexing.all().into_iter().chain(vectors).collect()
    }

    /// The bytes of a part; `None` when its file is gone: then its sessions are read again.
    pub(super) fn open_part(
        &self,
        index: &ScopeIndex,
        bytes: PartBytes,
    ) -> Option<Arc<dyn Mapped>> {
        let name = match bytes {
            PartBytes::Fresh(bytes) => return Some(bytes),
            PartBytes::File(name) => name,
        };
        let mapped = self.store.open_derived(name).ok().filter(|mapped| !mapped.is_hurt());
        if mapped.is_none() {
            index.lose(name);
            self.indexing.lost.fetch_add(1, Ordering::Relaxed);
        }
        mapped
    }

    /// Makes parts of about the same size one, and large ones files.
    pub(super) async fn settle_parts(&self, index: &ScopeIndex) -> ServiceResult<()> {
        self.merge_some(index);
        self.keep_some().await
    }

    /// Makes parts of about the same size one, as long as there are such.
    fn merge_some(&self, index: &ScopeIndex) {
        while let Some(small) = index.tier() {
            let bytes: Option<Vec<Arc<dyn Mapped>>> =
                small.iter().map(|bytes| self.open_part(index, bytes.clone())).collect();
            let Some(bytes) = bytes else { return };
            let parts: Vec<&[u8]> = bytes.iter().map(|bytes| bytes.bytes()).collect();
            let merged = index.holding.merged(&parts, &|_, range| vec![range]);
            let is_whole = bytes.iter().all(|bytes| !bytes.is_hurt());
            let Some(merged) = merged.filter(|_| is_whole) else { return };
            index.replace(&small, merged);
        }
    }

    /// Makes parts files: the large ones, and the largest when all together are too many bytes. A
    /// large one that cannot be kept, as on a full disk, stays in memory while there is room.
    async fn keep_some(&self) -> ServiceResult<()> {
        loop {
            let all = self.all_indexes();
            let bytes: usize = all.iter().map(|index| index.fresh_bytes()).sum();
            let is_full = bytes > self.indexing.options.memory_bytes_max;
            let mut is_kept = false;
            for index in all {
                let least = if is_full { 0 } else { index.holding.kept_from()[0] };
                match self.keep_one(&index, least).await {
                    Ok(kept) => is_kept |= kept,
                    Err(error) if is_full => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "a part of the search index is in memory alone");
                        return Ok(());
                    }
                }
            }
            if !is_kept {
                return Ok(());
            }
        }
    }

    /// Makes the largest part of a scope a file, when it has so many passages; whether it did.
    async fn keep_one(&self, index: &ScopeIndex, passages_min: usize) -> ServiceResult<bool> {
        let Some(part) = index.to_keep(passages_min) else { return Ok(false) };
        let label = index.holding.label(&index.scope);
        let name = match self.store.put_derived(&label, part.holds, &part.bytes).await {
            Ok(name) => name,
            // The next round notes what was taken away.
            Err(StoreError::Outdated { .. } | StoreError::NotOffered { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for gone in index.kept(&part.bytes, name) {
            self.store.drop_derived(gone).await?;
        }
        Ok(true)
    }

    /// Keeps what is in memory, before a stop: what is not kept is read again.
    pub async fn keep_index(&self) {
        for index in self.all_indexes() {
            while matches!(self.keep_one(&index, 0).await, Ok(true)) {}
        }
    }

    async fn read_part(&self, index: &ScopeIndex, wanted: Vec<Wanted>) -> ServiceResult<()> {
        let mut slices = Vec::new();
        let mut bytes_left = SLICE_BYTES;
        for mut one in wanted {
            let read = self.read_wanted(index, &one, SLICE_EVENTS, bytes_left).await?;
            let Some(slice) = read else { continue };
            let bytes: usize = slice.events.iter().map(|event| event.body.len()).sum();
            bytes_left = bytes_left.saturating_sub(bytes);
            // Positions that cannot be served are passed over.
            one.range.to = slice.covered.to.max(one.range.from.plus(1));
            slices.push((one, slice.events));
            if bytes_left == 0 {
                break;
            }
        }
        let mut builder = PartBuilder::new();
        for (one, events) in &slices {
            let session = SessionRef { hash: one.hash, id: one.session.as_str() };
            events.iter().for_each(|event| builder.add_event(session, event));
            builder.cover(session, one.range);
        }
        let read: Vec<Wanted> = slices.into_iter().map(|(one, _)| one).collect();
        index.add(builder.finish(), &read);
        Ok(())
    }

    /// Reads the first of some events; `None` when their session does not answer any more.
    pub(super) async fn read_wanted(
        &self,
        index: &ScopeIndex,
        one: &Wanted,
        events_max: usize,
        bytes_max: usize,
    ) -> ServiceResult<Option<Slice>> {
        let (range, fill, allow_gaps) = (one.range, Fill::Forward, true);
        let read = Read { range, events_max, bytes_max, fill, allow_gaps };
        match self.store.read(&one.from, read).await {
            Ok(slice) => Ok(Some(slice)),
            Err(
                StoreError::SessionNotFound { .. }
                | StoreError::SessionDeleted { .. }
                | StoreError::SessionExpired { .. },
            ) => {
                index.hide(one.from_hash);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Runs a task that takes a processor for a while on a blocking thread, so that no other task of
/// the runtime waits for it.
pub(super) async fn apart<T: Send + 'static>(
    task: impl Future<Output = ServiceResult<T>> + Send + 'static,
) -> ServiceResult<T> {
    let runtime = Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(task)).await;
    done.unwrap_or_else(|error| Err(ServiceError::new(Code::InternalError, error.to_string())))
}
