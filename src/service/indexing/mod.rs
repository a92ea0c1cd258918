//! The index follower of a store: reads the events that sessions wrote and keeps them as index
//! parts, a list for each scope; large parts are derived files. It must not rank, nor hold data
//! that is not in the log: all its data may be lost at any time.

mod content;
mod parts;
mod scheduler;
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
    content::PartContent,
    parts::run_blocking,
    scheduler::Scheduler,
    scope::{ScopeIndex, ServedRange, WantedEvents, add_unreadable},
};
use super::{Service, ServiceResult};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::Scope,
    search::{PartBuilder, SessionRef},
    store::{ChangedSession, ChangesSeen, DerivedFile},
};

/// Body bytes from which one part is made; other tasks run between parts.
const SLICE_BYTES: usize = 4 << 20;
/// Maximum number of changed sessions requested from the store at once.
const MOVED_MAX: usize = 1_000;
/// Time for which changes accumulate before they are processed.
const GATHERED: Duration = Duration::from_millis(200);

/// Indexes of all scopes, and the task that updates them.
pub(super) struct Indexing {
    scopes: Mutex<HashMap<Scope, Arc<ScopeIndex>>>,
    scheduler: Scheduler,
    /// Point up to which the store was followed; locked by the task that follows it.
    since: tokio::sync::Mutex<ChangesSeen>,
    turns: Mutex<TaskTurns>,
    /// Notified when changes were recorded, and when a part was added.
    progress: watch::Sender<()>,
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
    /// Time that a search waits for earlier writes to be in the index, besides what its caller
    /// asks for. A window or a brief that recalls passages waits no longer.
    pub catch_up: Duration,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { enabled: true, memory_bytes_max: 64 << 20, catch_up: Duration::from_millis(50) }
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
struct TaskTurns {
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
            scheduler: Scheduler::default(),
            since: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            progress: watch::Sender::new(()),
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    pub(super) fn counts(&self) -> IndexCounts {
        let mut counts =
            IndexCounts { lost: self.lost.load(Ordering::Relaxed), ..IndexCounts::default() };
        for index in self.indexes() {
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

    pub(super) fn index_of(&self, scope: &Scope) -> Arc<ScopeIndex> {
        let mut scopes = self.scopes();
        let new = || Arc::new(ScopeIndex::new(scope.clone(), PartContent::Words));
        Arc::clone(scopes.entry(scope.clone()).or_insert_with(new))
    }

    fn record_change(&self, moved: ChangedSession) {
        self.index_of(&moved.key.scope).record_change(moved);
    }

    fn indexes(&self) -> Vec<Arc<ScopeIndex>> {
        self.scopes().values().cloned().collect()
    }

    fn next_index(&self) -> Option<Arc<ScopeIndex>> {
        self.scheduler.next(self.indexes().into_iter().filter(|index| index.has_work()))
    }
}

impl Service {
    /// Follows the store until it is stopped, so that a search has little to catch up with.
    pub async fn follow_index(self, stop: CancellationToken) {
        if !self.indexing.is_enabled() {
            return;
        }
        let mut moved = self.store.watch_changes();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = moved.changed() => if changed.is_err() { return },
            }
            self.request_follow();
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(GATHERED) => {}
            }
        }
    }

    /// Returns the index of a scope once `has_enough` of the earlier writes, or once the time to
    /// catch up and `wait` are over; true if all earlier writes are recorded. If there is nothing
    /// to read, it does not wait for another task, which might not be scheduled for a while.
    pub(super) async fn wait_for_index(
        &self,
        scope: &Scope,
        wait: Duration,
        has_enough: impl Fn(&ScopeIndex) -> bool,
    ) -> (Arc<ScopeIndex>, bool) {
        let index = self.indexing.index_of(scope);
        index.mark_wanted();
        index.retry_deferred(self.monotonic());
        if let Some(embedding) = &self.embedding {
            embedding.index_of(scope).mark_wanted();
            self.request_follow();
        }
        let mut progress = self.indexing.progress.subscribe();
        let (mut has_all_changes, mut is_asked) = (false, false);
        let wait = self.indexing.options.catch_up + wait;
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        loop {
            if !has_all_changes {
                has_all_changes = tokio::select! {
                    () = &mut over => return (index, false),
                    noted = self.record_changes_if_started() => noted,
                };
            }
            if has_all_changes && has_enough(&index) {
                return (index, true);
            }
            if !std::mem::replace(&mut is_asked, true) {
                self.request_follow();
            }
            tokio::select! {
                () = &mut over => return (index, has_all_changes),
                changed = progress.changed() => if changed.is_err() {
                    return (index, has_all_changes);
                },
            }
        }
    }

    /// Requests another run of the task, and starts it if it is not running.
    fn request_follow(&self) {
        let mut turns = self.indexing.turns.lock();
        turns.asked += 1;
        if !std::mem::replace(&mut turns.runs, true) {
            tokio::spawn(self.clone().follow_until_done());
        }
    }

    async fn follow_until_done(self) {
        loop {
            let mut turn = 0;
            if let Err(error) = self.follow_once(&mut turn).await {
                tracing::warn!(%error, "the search index is behind");
            }
            // Vectors are made after the words.
            self.spawn_embedding();
            let mut turns = self.indexing.turns.lock();
            if turns.asked == turn {
                turns.runs = false;
                return;
            }
        }
    }

    /// Records every change, then updates one index after another until none has work. Sets `turn`
    /// to the last request number.
    async fn follow_once(&self, turn: &mut u64) -> ServiceResult<()> {
        loop {
            *turn = self.indexing.turns.lock().asked;
            self.record_changes().await?;
            let now = self.monotonic();
            self.indexing.indexes().iter().for_each(|index| index.retry_deferred(now));
            self.indexing.progress.send_replace(());
            let Some(index) = self.indexing.next_index() else { return Ok(()) };
            let service = self.clone();
            run_blocking(async move { service.update_index(&index).await }).await?;
            self.indexing.progress.send_replace(());
            tokio::task::yield_now().await;
        }
    }

    /// Runs one turn of an index: reads a slice of events, and stores its parts.
    async fn update_index(&self, index: &ScopeIndex) -> ServiceResult<()> {
        self.free_memory().await?;
        let wanted = index.next_events();
        if !wanted.is_empty() {
            self.build_part(index, wanted).await;
        }
        self.store_parts(index).await;
        Ok(())
    }

    /// Removes erased and redacted content from the parts in memory before a verb returns.
    pub(super) async fn drop_removed_passages(&self) -> bool {
        let is_started = *self.indexing.since.lock().await != ChangesSeen::default();
        !is_started || self.record_changes_if_started().await
    }

    /// Records every change, if the task has started to follow the store; returns true on success.
    async fn record_changes_if_started(&self) -> bool {
        if *self.indexing.since.lock().await == ChangesSeen::default() {
            return false;
        }
        let noted = self.record_changes().await;
        noted.inspect_err(|error| tracing::warn!(%error, "the search index is behind")).is_ok()
    }

    async fn record_changes(&self) -> ServiceResult<()> {
        let mut since = self.indexing.since.lock().await;
        if *since == ChangesSeen::default() {
            self.adopt_files().await;
        }
        loop {
            let moves = self.store.list_changes(since.clone(), MOVED_MAX).await?;
            for moved in moves.sessions {
                if let Some(embedding) = &self.embedding {
                    embedding.record_change(moved.clone());
                }
                self.indexing.record_change(moved);
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
        for file in self.store.list_derived().unwrap_or_default() {
            if !self.adopt_file(&file) {
                unread.push(file.name);
            }
        }
        self.drop_files(unread).await;
    }

    /// Adopts an existing file as a part; returns false if the file must be dropped.
    fn adopt_file(&self, file: &DerivedFile) -> bool {
        let Some((scope, content)) = PartContent::parse_label(&file.label) else { return false };
        if self.embedding.is_none() && content != PartContent::Words {
            // Vectors are costly, and an embedder may be configured again.
            return true;
        }
        // The file does not exist any more, or a later start may open it.
        let Ok(part) = self.store.open_derived(file.name) else { return true };
        match &self.embedding {
            Some(embedding) if content != PartContent::Words => {
                embedding.adopt_file(&content, &scope, file, part.bytes())
            }
            _ => content.count_passages(part.bytes()).is_some_and(|passages| {
                let settled = content.final_from(part.bytes());
                self.indexing.index_of(&scope).adopt_file(file, passages, settled);
                true
            }),
        }
    }

    /// Returns the indexes of all scopes, of words and of vectors.
    fn all_indexes(&self) -> Vec<Arc<ScopeIndex>> {
        let vectors = self.embedding.iter().flat_map(|embedding| embedding.indexes());
        self.indexing.indexes().into_iter().chain(vectors).collect()
    }

    /// Writes the largest part to a file while all parts exceed the memory limit.
    ///
    /// # Errors
    /// The error if no part can be written: then no more events may be read.
    async fn free_memory(&self) -> ServiceResult<()> {
        let of = |index: Arc<ScopeIndex>| (index.fresh_bytes(), index);
        let mut all: Vec<_> = self.all_indexes().into_iter().map(of).collect();
        let bytes: usize = all.iter().map(|(bytes, _)| bytes).sum();
        if bytes <= self.indexing.options.memory_bytes_max {
            return Ok(());
        }
        all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut failed = Ok(());
        for (_, index) in all {
            match self.write_largest_part(&index, 0).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// Writes the parts in memory to files before a shutdown; the others are rebuilt later.
    pub async fn write_index(&self) {
        for index in self.all_indexes() {
            while matches!(self.write_largest_part(&index, 0).await, Ok(true)) {}
            self.drop_files(index.take_obsolete_files()).await;
        }
    }

    async fn build_part(&self, index: &ScopeIndex, wanted: Vec<WantedEvents>) {
        let mut slices = Vec::new();
        let mut bytes_left = SLICE_BYTES;
        for mut one in wanted {
            let read = self.read_wanted(index, &one, SLICE_EVENTS, bytes_left).await;
            let Some(slice) = read else { continue };
            let bytes: usize = slice.events.iter().map(|event| event.body.len()).sum();
            bytes_left = bytes_left.saturating_sub(bytes);
            if slice.gaps.iter().any(|gap| gap.accepted_at.is_none()) {
                index.mark_damaged(one.hash);
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
            builder.mark_indexed(session, one.range);
        }
        let read: Vec<WantedEvents> = slices.into_iter().map(|(one, _)| one).collect();
        index.add_part(builder.finish(), &read);
    }
}
