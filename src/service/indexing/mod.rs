//! The index follower of a store: reads the events that sessions wrote and keeps them as index
//! parts, a list for each scope; large parts are derived files. It must not rank, nor hold data
//! that is not in the log: all its data may be lost at any time.

mod holding;
mod parts;
mod rota;
mod scope;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::scope::SLICE_EVENTS;
pub(super) use self::{
    holding::Holding,
    parts::apart,
    rota::Rota,
    scope::{ScopeIndex, Served, WantedEvents, add_hurt},
};
use super::{Service, ServiceResult};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::Scope,
    search::{PartBuilder, SessionRef},
    store::{DerivedFile, Moved, Since},
};

/// Body bytes from which one part is made; other tasks run between parts.
const SLICE_BYTES: usize = 4 << 20;
/// Maximum number of changed sessions requested from the store at once.
const MOVED_MAX: usize = 1_000;
/// Time for which changes accumulate before they are processed.
const GATHERED: Duration = Duration::from_millis(200);

/// Indexes of all scopes, and the task that feeds them.
pub(super) struct Indexing {
    scopes: Mutex<HashMap<Scope, Arc<ScopeIndex>>>,
    rota: Rota,
    /// Point up to which the store was followed; locked by the task that follows it.
    since: tokio::sync::Mutex<Since>,
    turns: Mutex<Turns>,
    /// Notified when changes were noted, and when a part was added.
    fed: watch::Sender<()>,
    /// Number of files found to be lost.
    lost: AtomicU64,
    options: SearchOptions,
}

/// Search settings of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchOptions {
    /// True if sessions can be searched; otherwise nothing is indexed.
    pub enabled: bool,
    /// Maximum bytes of all index parts that are only in memory.
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
    /// Number of searchable passages.
    pub passages: u64,
    /// Number of parts, in files and in memory.
    pub parts: u64,
    /// Bytes of the parts that are only in memory.
    pub memory_bytes: u64,
    /// Number of events not indexed yet, in scopes that are searched.
    pub events_behind: u64,
    /// Number of sessions that could not be read and are only partly indexed.
    pub sessions_unreadable: u64,
    /// Number of lost files, whose events were read again.
    pub lost: u64,
}

/// Number of requests for the task to run; true if it is running.
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
            rota: Rota::default(),
            since: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            fed: watch::Sender::new(()),
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
            let coverage = index.coverage();
            counts.events_behind += coverage.events_behind;
            counts.sessions_unreadable += coverage.sessions_unreadable;
        }
        counts
    }

    fn scopes(&self) -> MutexGuard<'_, HashMap<Scope, Arc<ScopeIndex>>> {
        self.scopes.lock()
    }

    /// Returns the index of a scope.
    pub(super) fn index_of(&self, scope: &Scope) -> Arc<ScopeIndex> {
        let mut scopes = self.scopes();
        let new = || Arc::new(ScopeIndex::new(scope.clone(), Holding::Words));
        Arc::clone(scopes.entry(scope.clone()).or_insert_with(new))
    }

    fn note(&self, moved: Moved) {
        self.index_of(&moved.key.scope).note(moved);
    }

    fn all(&self) -> Vec<Arc<ScopeIndex>> {
        self.scopes().values().cloned().collect()
    }

    /// Returns the index whose turn it is.
    fn next(&self) -> Option<Arc<ScopeIndex>> {
        self.rota.next(self.all().into_iter().filter(|index| index.has_work()))
    }
}

impl Service {
    /// Follows the store until it is stopped, so that a search has little to catch up with.
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

    /// Returns the index of a scope once `has_enough` of the earlier writes, or once `wait` is
    /// over; and whether all earlier writes are known. If there is nothing to read, it does not
    /// wait for another task, which might not be scheduled for a while.
    pub(super) async fn caught_up(
        &self,
        scope: &Scope,
        wait: Duration,
        has_enough: impl Fn(&ScopeIndex) -> bool,
    ) -> (Arc<ScopeIndex>, bool) {
        let index = self.indexing.index_of(scope);
        index.want();
        index.try_again(self.monotonic());
        if let Some(embedding) = &self.embedding {
            embedding.index_of(scope).want();
            self.look_again();
        }
        let mut fed = self.indexing.fed.subscribe();
        let (mut is_noted, mut is_asked) = (false, false);
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        loop {
            if !is_noted {
                is_noted = tokio::select! {
                    () = &mut over => return (index, false),
                    noted = self.note_if_begun() => noted,
                };
            }
            if is_noted && has_enough(&index) {
                return (index, true);
            }
            if !std::mem::replace(&mut is_asked, true) {
                self.look_again();
            }
            tokio::select! {
                () = &mut over => return (index, is_noted),
                changed = fed.changed() => if changed.is_err() { return (index, is_noted) },
            }
        }
    }

    /// Requests another run of the task, and starts it if it is not running.
    fn look_again(&self) {
        let mut turns = self.indexing.turns.lock();
        turns.asked += 1;
        if !std::mem::replace(&mut turns.runs, true) {
            tokio::spawn(self.clone().take_turns());
        }
    }

    async fn take_turns(self) {
        loop {
            let mut turn = 0;
            if let Err(error) = self.follow_once(&mut turn).await {
                tracing::warn!(%error, "the search index is behind");
            }
            // Vectors are made after the words.
            self.embed_soon();
            let mut turns = self.indexing.turns.lock();
            if turns.asked == turn {
                turns.runs = false;
                return;
            }
        }
    }

    /// Notes every change, then feeds one index after another until none has work. Sets `turn` to
    /// the last request number.
    async fn follow_once(&self, turn: &mut u64) -> ServiceResult<()> {
        loop {
            *turn = self.indexing.turns.lock().asked;
            self.note_changes().await?;
            let now = self.monotonic();
            self.indexing.all().iter().for_each(|index| index.try_again(now));
            self.indexing.fed.send_replace(());
            let Some(index) = self.indexing.next() else { return Ok(()) };
            let service = self.clone();
            apart(async move { service.feed(&index).await }).await?;
            self.indexing.fed.send_replace(());
            tokio::task::yield_now().await;
        }
    }

    /// Runs one turn of an index: reads a slice of events, and stores its parts.
    async fn feed(&self, index: &ScopeIndex) -> ServiceResult<()> {
        self.make_room().await?;
        let wanted = index.next();
        if !wanted.is_empty() {
            self.read_part(index, wanted).await;
        }
        self.store_parts(index).await;
        Ok(())
    }

    /// Removes erased and redacted content from the parts in memory before a verb returns.
    pub(super) async fn forget_indexed(&self) {
        self.note_if_begun().await;
    }

    /// Notes every change, if the task has started to follow the store; returns true on success.
    async fn note_if_begun(&self) -> bool {
        if *self.indexing.since.lock().await == Since::default() {
            return false;
        }
        let noted = self.note_changes().await;
        noted.inspect_err(|error| tracing::warn!(%error, "the search index is behind")).is_ok()
    }

    async fn note_changes(&self) -> ServiceResult<()> {
        let mut since = self.indexing.since.lock().await;
        if *since == Since::default() {
            self.adopt_files().await;
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

    /// Adopts the files that an earlier process left, and drops the unreadable ones: those of
    /// another version, damaged, or with vectors of another embedder.
    async fn adopt_files(&self) {
        let mut unread = Vec::new();
        for file in self.store.derived().unwrap_or_default() {
            if !self.adopt(&file) {
                unread.push(file.name);
            }
        }
        self.drop_files(unread).await;
    }

    /// Adopts an existing file; returns true if it is to be kept.
    fn adopt(&self, file: &DerivedFile) -> bool {
        let Some((scope, holding)) = Holding::labelled(&file.label) else { return false };
        if self.embedding.is_none() && holding != Holding::Words {
            // Vectors are costly, and an embedder may be configured again.
            return true;
        }
        // A file that cannot be opened is gone, or a later start may open it.
        let Ok(part) = self.store.open_derived(file.name) else { return true };
        match &self.embedding {
            Some(embedding) if holding != Holding::Words => {
                embedding.adopt(&holding, &scope, file, part.bytes())
            }
            _ => holding.checked(part.bytes()).is_some_and(|passages| {
                let settled = holding.settled(part.bytes());
                self.indexing.index_of(&scope).adopt(file, passages, settled);
                true
            }),
        }
    }

    /// Returns the indexes of all scopes, of words and of vectors.
    fn all_indexes(&self) -> Vec<Arc<ScopeIndex>> {
        let vectors = self.embedding.iter().flat_map(|embedding| embedding.all());
        self.indexing.all().into_iter().chain(vectors).collect()
    }

    /// Writes the largest part to a file while all parts exceed the memory limit.
    ///
    /// # Errors
    /// The error if no part can be written: then no more events may be read.
    async fn make_room(&self) -> ServiceResult<()> {
        let of = |index: Arc<ScopeIndex>| (index.fresh_bytes(), index);
        let mut all: Vec<_> = self.all_indexes().into_iter().map(of).collect();
        let bytes: usize = all.iter().map(|(bytes, _)| bytes).sum();
        if bytes <= self.indexing.options.memory_bytes_max {
            return Ok(());
        }
        all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut failed = Ok(());
        for (_, index) in all {
            match self.keep_one(&index, 0).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// Writes the parts in memory to files before a shutdown; the others are rebuilt later.
    pub async fn keep_index(&self) {
        for index in self.all_indexes() {
            while matches!(self.keep_one(&index, 0).await, Ok(true)) {}
            self.drop_files(index.take_left()).await;
        }
    }

    async fn read_part(&self, index: &ScopeIndex, wanted: Vec<WantedEvents>) {
        let mut slices = Vec::new();
        let mut bytes_left = SLICE_BYTES;
        for mut one in wanted {
            let read = self.read_wanted(index, &one, SLICE_EVENTS, bytes_left).await;
            let Some(slice) = read else { continue };
            let bytes: usize = slice.events.iter().map(|event| event.body.len()).sum();
            bytes_left = bytes_left.saturating_sub(bytes);
            if slice.gaps.iter().any(|gap| gap.accepted_at.is_none()) {
                index.note_damage(one.hash);
            }
            // Unreadable positions are skipped.
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
        let read: Vec<WantedEvents> = slices.into_iter().map(|(one, _)| one).collect();
        index.add(builder.finish(), &read);
    }
}
