//! The embedded engine: its parts, its threads, and its implementation of [`Store`], whose methods
//! look up the session and call one part. It must not implement storage logic.

use std::{io, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

use super::{
    catalogue::sessions::Sessions,
    commit::CommitPath,
    context::EngineContext,
    keys::{EngineKeys, rotate},
    layout, making, open,
    options::{OpenError, StoreOptions},
    rank,
    removal::Removal,
    segments::Segments,
    upkeep::Upkeep,
    wait::run_blocking,
};
use crate::{
    env::{
        Env, Lock,
        sync::{
            Mutex,
            atomic::Ordering,
            thread::{self, JoinHandle},
        },
    },
    event::{
        Batch, EventId, Fence, NewNote, Note, Position, Scope, SessionId, SessionKey, TenantId,
        Timestamp, UserId,
    },
    log::ChangeRecord,
    store::{
        AppendResult, BackupInfo, ChainReceipt, ChangedSessions, ChangesSeen, Derived, DerivedFile,
        DerivedName, ExpiringSession, Family, FilePart, Health, HeldEvents, KeyReport, LeaseCall,
        Lifetimes, Listing, ListingPage, Maintain, Mapped, NewSession, NotesQuery, ReadRequest,
        ReceiptState, Recovery, RepairResult, SessionInfo, SessionLease, SessionUpdate, Slice,
        Store, StoreError, StoreFuture, StoreResult, SweepResult, TenantUsage, VerifyResult, Watch,
        rules::WriteKind,
    },
};

/// The embedded engine. Dropping it without [`Store::close`] acts like a crash: acknowledged events
/// are kept, and the next start replays the journal.
pub struct LocalStore {
    context: Arc<EngineContext>,
    sessions: Arc<Sessions>,
    segments: Arc<Segments>,
    removal: Arc<Removal>,
    pub(super) commit: Arc<CommitPath>,
    pub(super) upkeep: Arc<Upkeep>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl LocalStore {
    /// Takes the lock, replays the journal and opens the store; creates one in an empty directory.
    ///
    /// # Errors
    /// [`OpenError`]; then no file was changed.
    pub fn open(env: &Env, options: StoreOptions) -> Result<Arc<dyn Store>, OpenError> {
        Self::open_local(env, options).map(|local| Arc::new(local) as Arc<dyn Store>)
    }

    /// Checks that the store opens with the keys given; changes nothing. A directory without a
    /// store accepts any keys.
    ///
    /// # Errors
    /// [`OpenError::Key`], or errors of reading the file `STORE`.
    pub fn check_keys(env: &Env) -> Result<(), OpenError> {
        layout::read_store_file(env)?
            .map_or(Ok(()), |store| EngineKeys::open(env, &store).map(drop))
    }

    /// Returns true if a directory has a store in plaintext.
    #[must_use]
    pub fn is_plaintext(env: &Env) -> bool {
        matches!(layout::read_store_file(env), Ok(Some(store)) if store.keys.is_none())
    }

    /// Opens like [`Self::open`], but returns the engine itself, for tests that flush explicitly.
    ///
    /// # Errors
    /// [`OpenError`]; then no file was changed.
    pub fn open_local(env: &Env, options: StoreOptions) -> Result<Self, OpenError> {
        let lock = open::acquire_lock(env)?;
        let (store, derived) = making::open_or_create(env)?;
        let opened = open::open(env, options, store, derived)?;
        let local = Self::from_parts(Some(lock), opened);
        if options.background {
            let sessions = Arc::clone(&local.sessions);
            local.spawn("journal", move || sessions.journal.run_committer(&*sessions))?;
            let flusher = Arc::clone(&local.upkeep);
            local.spawn("flusher", move || flusher.flush_in_background())?;
            if !options.scrub_every.is_zero() {
                let scrubber = Arc::clone(&local.upkeep);
                local.spawn("scrubber", move || scrubber.scrub_in_background())?;
            }
        }
        Ok(local)
    }

    pub(super) fn from_parts(lock: Option<Box<dyn Lock>>, upkeep: Upkeep) -> Self {
        Self {
            context: Arc::clone(&upkeep.context),
            sessions: Arc::clone(&upkeep.sessions),
            segments: Arc::clone(&upkeep.segments),
            removal: Arc::clone(&upkeep.removal),
            commit: Arc::clone(&upkeep.commit),
            upkeep: Arc::new(upkeep),
            threads: Mutex::new(rank::THREADS, Vec::new()),
            lock: Mutex::new(rank::LAST, lock),
        }
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads.lock().push(thread.map_err(layout::open_error("starting a thread"))?);
        Ok(())
    }

    /// Flushes everything acknowledged; the flush thread does so in the background.
    ///
    /// # Errors
    /// Errors of the file system; everything acknowledged stays in the journal.
    pub fn flush(&self) -> io::Result<()> {
        let settled = self.removal.flush(false);
        self.upkeep.evict();
        settled
    }

    /// Flushes as under load: full segments are left to be sealed by a later flush.
    ///
    /// # Errors
    /// Errors of the file system; everything acknowledged stays in the journal.
    pub fn flush_under_load(&self) -> io::Result<()> {
        self.removal.flush_with(false, false)
    }

    /// Reads back everything flushed, without pauses; the scrub thread does so in the background.
    pub fn scrub(&self) {
        self.upkeep.scrub(false);
    }

    /// Reads every session of every scope and checks checksums and chains.
    ///
    /// # Errors
    /// As for [`Store::verify`].
    pub fn verify_all(&self) -> StoreResult<VerifyResult> {
        let mut verified = VerifyResult::default();
        let scopes = self.sessions.catalogue().scopes();
        for scope in scopes {
            self.verify_scope(&scope, &mut verified)?;
        }
        Ok(verified)
    }

    fn verify_scope(&self, scope: &Scope, verified: &mut VerifyResult) -> StoreResult<()> {
        let sessions = self.sessions.catalogue().session_ids(scope);
        for session in sessions {
            let key = SessionKey { scope: scope.clone(), session };
            // Deleted, or not created yet: the caller did not name it.
            let Ok(session) = self.sessions.session(&key) else { continue };
            let found = run_blocking(|| self.segments.verify_session(&session, verified, None));
            if let Err(error @ StoreError::Io { .. }) = found {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Does the journal's idle work: writes a watermark after the last frame.
    pub fn write_idle_watermark(&self) {
        self.sessions.journal.write_idle_watermark(&*self.sessions);
    }

    /// Stops the threads and releases the lock; without a flush before, this acts like a crash.
    pub(super) fn stop(&self) {
        self.context.closed.store(true, Ordering::Release);
        self.sessions.journal.stop();
        self.sessions.flusher.stop();
        self.upkeep.scrubber.stop();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        // A thread that removes bytes or flushes ends first.
        let _clearing = self.removal.turn.lock();
        let _flushing = self.segments.flushing.lock();
        self.lock.lock().take();
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.sessions.journal.refuse("the store is closed");
        self.stop();
    }
}

impl Maintain for LocalStore {
    fn verify_scopes(&self) -> StoreFuture<'_, VerifyResult> {
        async move { self.verify_all() }.boxed()
    }

    fn backup(&self, sink: &mut dyn FnMut(FilePart) -> io::Result<()>) -> StoreResult<BackupInfo> {
        run_blocking(|| self.upkeep.backup(sink))
    }

    fn repair<'a>(&'a self, key: &'a SessionKey, accept: bool) -> StoreFuture<'a, RepairResult> {
        async move {
            let session = self.sessions.session(key)?;
            self.upkeep.repair(&session, accept).await
        }
        .boxed()
    }

    fn repair_store(&self, accept: bool) -> StoreFuture<'_, RepairResult> {
        async move { run_blocking(|| self.upkeep.repair_store(accept)) }.boxed()
    }

    fn keys(&self) -> StoreFuture<'_, Option<KeyReport>> {
        async move {
            let report = run_blocking(|| rotate::key_report(&self.context.env));
            let failed = |error| io::Error::other(format!("{error}"));
            let doing = "reading keys/";
            report.map_err(failed).map_err(|source| StoreError::Io { doing, source })
        }
        .boxed()
    }

    fn rotate_keys(&self, keys_max: usize) -> StoreFuture<'_, KeyReport> {
        async move { run_blocking(|| self.upkeep.rotate_keys(keys_max)) }.boxed()
    }

    fn recovery(&self) -> Recovery {
        Recovery { scrub: self.upkeep.scrubbed.lock().clone(), ..self.upkeep.recovery.clone() }
    }
}

impl Derived for LocalStore {
    fn list_derived(&self) -> StoreResult<Vec<DerivedFile>> {
        run_blocking(|| self.segments.derived_files.list())
    }

    fn put_derived<'a>(
        &'a self,
        label: &'a [u8],
        holds: Vec<HeldEvents>,
        bytes: &'a [u8],
    ) -> StoreFuture<'a, DerivedName> {
        async move { run_blocking(|| self.segments.derived_files.put(label, holds, bytes)) }.boxed()
    }

    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        self.segments.derived_files.open(name)
    }

    fn drop_derived(&self, name: DerivedName) -> StoreFuture<'_, ()> {
        async move {
            let destroyed = run_blocking(|| self.segments.derived_files.remove(name));
            let doing = "destroying a derived file";
            destroyed.map_err(|source| StoreError::Io { doing, source })
        }
        .boxed()
    }

    fn list_changes(&self, since: ChangesSeen, limit: usize) -> StoreFuture<'_, ChangedSessions> {
        async move { Ok(self.sessions.changes_since(since, limit)) }.boxed()
    }

    fn watch_changes(&self) -> watch::Receiver<u64> {
        self.sessions.moving.watch()
    }
}

impl Store for LocalStore {
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> StoreFuture<'a, (SessionInfo, AppendResult)> {
        self.commit.create(scope, new).boxed()
    }

    fn append<'a>(&'a self, key: &'a SessionKey, batch: Batch) -> StoreFuture<'a, AppendResult> {
        async move {
            let session = self.sessions.session(key)?;
            let mut request = self.commit.prepare(WriteKind::Append, batch);
            self.commit.find_inherited(&session, &mut request)?;
            self.commit.submit(&session, &mut request).await
        }
        .boxed()
    }

    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: SessionUpdate,
    ) -> StoreFuture<'a, SessionInfo> {
        async move {
            let session = self.sessions.session(key)?;
            let change = ChangeRecord::from(change);
            let holds_fork = change.life.hold == Some(true) && session.origin.is_some();
            let _held = if holds_fork { Some(self.commit.holds.lock().await) } else { None };
            if change.is_discard() {
                self.commit.discard(&session, change).await?;
            } else {
                self.commit
                    .submit(&session, &mut self.commit.prepare_eventless(WriteKind::Change(change)))
                    .await?;
            }
            let state = session.state();
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        async move {
            let session = self.sessions.session(key)?;
            let state = session.lock_visible()?;
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn workspace<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<String>> {
        async move {
            match self.sessions.session(key) {
                Ok(session) => Ok(session.state().entry.workspace.clone()),
                Err(StoreError::SessionNotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn use_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        self.upkeep.use_session(key).boxed()
    }

    fn family<'a>(&'a self, key: &'a SessionKey, limit: usize) -> StoreFuture<'a, Family> {
        async move {
            let session = self.sessions.session(key)?;
            self.segments.family(&session, limit)
        }
        .boxed()
    }

    fn list<'a>(&'a self, scope: &'a Scope, listing: Listing) -> StoreFuture<'a, ListingPage> {
        async move { Ok(self.sessions.list(scope, &listing).await) }.boxed()
    }

    fn write_note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreFuture<'a, SessionInfo> {
        async move {
            let session = self.sessions.session(key)?;
            let batch = Batch { fence, note: Some(note), ..Batch::default() };
            let mut request = self.commit.prepare(WriteKind::Append, batch);
            self.commit.submit(&session, &mut request).await?;
            let state = session.state();
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn notes<'a>(&'a self, key: &'a SessionKey, wanted: NotesQuery) -> StoreFuture<'a, Vec<Note>> {
        async move {
            let session = self.sessions.session(key)?;
            self.segments.notes(&session, wanted)
        }
        .boxed()
    }

    fn lease<'a>(
        &'a self,
        key: &'a SessionKey,
        call: LeaseCall,
    ) -> StoreFuture<'a, (SessionLease, SessionInfo)> {
        async move {
            let session = self.sessions.session(key)?;
            let mut request = self.commit.prepare_eventless(WriteKind::Lease(call));
            self.commit.submit(&session, &mut request).await?;
            let state = session.state();
            let info = session.info(&state);
            let lease = request.lease.expect("a request for a lease is decided with one");
            Ok((lease, info))
        }
        .boxed()
    }

    fn list_unfinished<'a>(
        &'a self,
        scope: &'a Scope,
        workspace: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionInfo>> {
        async move { Ok(run_blocking(|| self.segments.list_unfinished(scope, workspace, limit))) }
            .boxed()
    }

    fn list_unmarked(&self, since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<SessionKey>> {
        async move { Ok(run_blocking(|| self.segments.list_unmarked(since, limit))) }.boxed()
    }

    fn read<'a>(&'a self, key: &'a SessionKey, read: ReadRequest) -> StoreFuture<'a, Slice> {
        async move {
            let session = self.sessions.session(key)?;
            self.segments.read_slice(&session, &read)
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        async move {
            let session = self.sessions.session(key)?;
            self.segments.find(&session, id)
        }
        .boxed()
    }

    fn find_time<'a>(&'a self, key: &'a SessionKey, time: Timestamp) -> StoreFuture<'a, Position> {
        async move {
            let session = self.sessions.session(key)?;
            run_blocking(|| self.segments.find_time(&session, time))
        }
        .boxed()
    }

    fn watch<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Watch> {
        async move {
            let session = self.sessions.session(key)?;
            drop(session.lock_visible()?);
            Ok(session.subscribe())
        }
        .boxed()
    }

    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, VerifyResult> {
        async move {
            let mut verified = VerifyResult::default();
            match session {
                None => self.verify_scope(scope, &mut verified)?,
                Some(id) => {
                    let key = SessionKey { scope: scope.clone(), session: id.clone() };
                    let one = self.sessions.session(&key)?;
                    drop(one.lock_visible()?);
                    run_blocking(|| self.segments.verify_session(&one, &mut verified, None))?;
                }
            }
            Ok(verified)
        }
        .boxed()
    }

    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: ChainReceipt,
    ) -> StoreFuture<'a, (VerifyResult, ReceiptState)> {
        async move {
            let session = self.sessions.session(key)?;
            run_blocking(|| self.segments.verify_head(&session, expected))
        }
        .boxed()
    }

    fn erase<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()> {
        async move {
            let session = self.sessions.session(key)?;
            self.upkeep.erase(&session).await
        }
        .boxed()
    }

    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        async move {
            let session = self.sessions.session(key)?;
            self.upkeep.redact(&session, event).await
        }
        .boxed()
    }

    fn name_hash(&self, content: &[u8]) -> [u8; 32] {
        self.context.keys.name_key().hash(content)
    }

    fn lifetimes(&self) -> Lifetimes {
        self.context.options.lifetimes
    }

    fn counted_time(&self) -> Timestamp {
        self.context.counted_time()
    }

    fn sweep(&self) -> StoreFuture<'_, SweepResult> {
        self.upkeep.sweep().boxed()
    }

    fn list_aging<'a>(
        &'a self,
        scope: &'a Scope,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ExpiringSession>> {
        async move { Ok(run_blocking(|| self.upkeep.list_aging(scope, limit))) }.boxed()
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> StoreFuture<'a, TenantUsage> {
        async move { Ok(run_blocking(|| self.upkeep.usage(tenant, but))) }.boxed()
    }

    fn health(&self) -> Health {
        let health = self.sessions.journal.health();
        let lacks = self.sessions.shortage().filter(|_| health == Health::Ready);
        lacks.map_or(health, Health::Full)
    }

    fn with_reserved_space(&self, make: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.removal.with_reserved_space(make)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            run_blocking(|| {
                // A running repair ends first, and a later one finds the store closed. The scrub
                // thread takes this lock, too, so it is released before threads are joined.
                let turn = self.upkeep.repairing.lock();
                self.upkeep.close();
                self.context.closed.store(true, Ordering::Release);
                drop(turn);
                self.stop();
            });
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        event::{EventType, NewEvent, Origin, Range},
        store::FillDirection,
    };

    #[tokio::test]
    async fn an_erasure_or_redaction_clears_the_read_cache() {
        for erases in [false, true] {
            let options = StoreOptions { background: false, ..StoreOptions::default() };
            let home = tempfile::tempdir().unwrap();
            let env = Env::open(home.path()).unwrap();
            let store = LocalStore::open_local(&env, options).unwrap();
            let id = EventId::new("e").unwrap();
            let event = NewEvent {
                id: Some(id.clone()),
                kind: EventType::new("a.b").unwrap(),
                origin: Origin::User,
                created_at: None,
                position: None,
                body: Bytes::from_static(b"{}"),
            };
            let events = Batch { events: [event].into(), ..Batch::default() };
            let new = NewSession { events, ..NewSession::default() };
            let key = store.create(&Scope::local(), new).await.unwrap().0.key;
            store.flush().unwrap();
            let read = ReadRequest {
                range: Range::new(Position::ZERO, Position(1)),
                events_max: 1,
                bytes_max: 1,
                fill: FillDirection::Forward,
                allow_gaps: false,
            };
            assert_eq!(store.read(&key, read).await.unwrap().events.len(), 1);
            assert!(!store.segments.read_cache.is_empty(), "what was read stays in memory");
            if erases {
                store.erase(&key).await.unwrap();
            } else {
                store.redact(&key, &id).await.unwrap();
            }
            assert!(store.segments.read_cache.is_empty(), "erased: {erases}");
        }
    }
}
