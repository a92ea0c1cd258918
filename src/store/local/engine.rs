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
    options::{OpenError, Options},
    rank,
    removal::Removal,
    segments::Segments,
    upkeep::Upkeep,
    wait::blocking,
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
    log,
    store::{
        Aging, Appended, Backup, Change, Derived, DerivedFile, DerivedName, Family, FilePart, Head,
        Health, HeldEvents, KeyReport, Lease, LeaseCall, Lifetimes, Listed, Listing, Maintain,
        Mapped, Moves, NewSession, Notes, Read, Receipt, Recovery, Repaired, SessionInfo, Since,
        Slice, Store, StoreError, StoreFuture, StoreResult, Swept, TenantUsage, Verified, Watch,
        rules::Ask,
    },
};

/// The embedded engine. Dropping it without [`Store::close`] acts like a crash: acknowledged events
/// are kept, and the next start replays the journal.
pub struct Local {
    context: Arc<EngineContext>,
    sessions: Arc<Sessions>,
    segments: Arc<Segments>,
    removal: Arc<Removal>,
    pub(super) commit: Arc<CommitPath>,
    pub(super) upkeep: Arc<Upkeep>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl Local {
    /// Takes the lock, replays the journal and opens the store; creates one in an empty directory.
    ///
    /// # Errors
    /// [`OpenError`]; then no file was changed.
    pub fn open(env: &Env, options: Options) -> Result<Arc<dyn Store>, OpenError> {
        Self::open_local(env, options).map(|local| Arc::new(local) as Arc<dyn Store>)
    }

    /// Checks that the store opens with the keys given; changes nothing. A directory without a
    /// store accepts any keys.
    ///
    /// # Errors
    /// [`OpenError::Key`], or errors of reading the file `STORE`.
    pub fn check_keys(env: &Env) -> Result<(), OpenError> {
        layout::known(env)?.map_or(Ok(()), |store| EngineKeys::open(env, &store).map(drop))
    }

    /// Opens like [`Self::open`], for tests that flush by hand on the simulated disk.
    ///
    /// # Errors
    /// [`OpenError`]; then no file was changed.
    pub fn open_local(env: &Env, options: Options) -> Result<Self, OpenError> {
        let lock = open::take_lock(env)?;
        let (store, derived) = making::identify(env)?;
        let opened = open::open(env, options, store, derived)?;
        let local = Self::with_lock(Some(lock), opened);
        if options.background {
            let sessions = Arc::clone(&local.sessions);
            local.spawn("journal", move || sessions.journal.run(&*sessions))?;
            let flusher = Arc::clone(&local.upkeep);
            local.spawn("flusher", move || flusher.flush_in_background())?;
            if !options.scrub_every.is_zero() {
                let scrubber = Arc::clone(&local.upkeep);
                local.spawn("scrubber", move || scrubber.scrub_in_background())?;
            }
        }
        Ok(local)
    }

    pub(super) fn with_lock(lock: Option<Box<dyn Lock>>, upkeep: Upkeep) -> Self {
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
        self.removal.flush_and(false, false)
    }

    /// Reads back everything flushed, without pauses; the scrub thread does so in the background.
    pub fn scrub(&self) {
        self.upkeep.scrub(false);
    }

    /// Reads every session of every scope and checks checksums and chains.
    ///
    /// # Errors
    /// As for [`Store::verify`].
    pub fn verify_all(&self) -> StoreResult<Verified> {
        let mut verified = Verified::default();
        let scopes = self.sessions.catalogue().scopes();
        for scope in scopes {
            self.verify_scope(&scope, &mut verified)?;
        }
        Ok(verified)
    }

    fn verify_scope(&self, scope: &Scope, verified: &mut Verified) -> StoreResult<()> {
        let sessions = self.sessions.catalogue().of_scope(scope);
        for session in sessions {
            let key = SessionKey { scope: scope.clone(), session };
            // Deleted, or not created yet: the caller did not name it.
            let Ok(session) = self.sessions.session(&key) else { continue };
            let found = blocking(|| self.segments.verify_session(&session, verified, None));
            if let Err(error @ StoreError::Io { .. }) = found {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Does the journal's idle work: writes a watermark after the last frame.
    pub fn idle(&self) {
        self.sessions.journal.idle(&*self.sessions);
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

impl Drop for Local {
    fn drop(&mut self) {
        self.sessions.journal.refuse("the store is closed");
        self.stop();
    }
}

fn change_of(change: Change) -> log::Change {
    log::Change {
        title: change.title,
        metadata: change.metadata,
        archive: change.archive,
        delete: change.delete || change.discard,
        life: log::Life {
            hold: change.hold,
            // A session that is deleted and expired at once can be restored like an expired one.
            expire: change.delete && !change.discard,
            restore: change.restore,
        },
    }
}

impl Maintain for Local {
    fn verify_scopes(&self) -> StoreFuture<'_, Verified> {
        async move { self.verify_all() }.boxed()
    }

    fn backup(&self, take: &mut dyn FnMut(FilePart) -> io::Result<()>) -> StoreResult<Backup> {
        blocking(|| self.upkeep.backup(take))
    }

    fn repair<'a>(&'a self, key: &'a SessionKey, accept: bool) -> StoreFuture<'a, Repaired> {
        async move {
            let session = self.sessions.session(key)?;
            self.upkeep.repair(&session, accept).await
        }
        .boxed()
    }

    fn repair_store(&self, accept: bool) -> StoreFuture<'_, Repaired> {
        async move { blocking(|| self.upkeep.repair_store(accept)) }.boxed()
    }

    fn keys(&self) -> StoreFuture<'_, Option<KeyReport>> {
        async move {
            let report = blocking(|| rotate::key_report(&self.context.env));
            let failed = |error| io::Error::other(format!("{error}"));
            let doing = "reading keys/";
            report.map_err(failed).map_err(|source| StoreError::Io { doing, source })
        }
        .boxed()
    }

    fn rotate_keys(&self, keys_max: usize) -> StoreFuture<'_, KeyReport> {
        async move { blocking(|| self.upkeep.rotate_keys(keys_max)) }.boxed()
    }

    fn recovery(&self) -> Recovery {
        Recovery { scrub: self.upkeep.scrubbed.lock().clone(), ..self.upkeep.recovery.clone() }
    }
}

impl Derived for Local {
    fn derived(&self) -> StoreResult<Vec<DerivedFile>> {
        blocking(|| self.segments.derived_files.list())
    }

    fn put_derived<'a>(
        &'a self,
        label: &'a [u8],
        holds: Vec<HeldEvents>,
        bytes: &'a [u8],
    ) -> StoreFuture<'a, DerivedName> {
        async move { blocking(|| self.segments.derived_files.put(label, holds, bytes)) }.boxed()
    }

    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        self.segments.derived_files.open(name)
    }

    fn drop_derived(&self, name: DerivedName) -> StoreFuture<'_, ()> {
        async move {
            let destroyed = blocking(|| self.segments.derived_files.take_away(name));
            let doing = "destroying a derived file";
            destroyed.map_err(|source| StoreError::Io { doing, source })
        }
        .boxed()
    }

    fn moved(&self, since: Since, limit: usize) -> StoreFuture<'_, Moves> {
        async move { Ok(self.sessions.moved(since, limit)) }.boxed()
    }

    fn moved_watch(&self) -> watch::Receiver<u64> {
        self.sessions.moving.watch()
    }
}

impl Store for Local {
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> StoreFuture<'a, (SessionInfo, Appended)> {
        self.commit.create(scope, new).boxed()
    }

    fn append<'a>(&'a self, key: &'a SessionKey, batch: Batch) -> StoreFuture<'a, Appended> {
        async move {
            let session = self.sessions.session(key)?;
            let mut request = self.commit.request(Ask::Append, batch);
            self.commit.find_inherited(&session, &mut request)?;
            self.commit.drive(&session, &mut request).await
        }
        .boxed()
    }

    fn change<'a>(&'a self, key: &'a SessionKey, change: Change) -> StoreFuture<'a, SessionInfo> {
        async move {
            let session = self.sessions.session(key)?;
            let change = change_of(change);
            let holds_fork = change.life.hold == Some(true) && session.origin.is_some();
            let _held = if holds_fork { Some(self.commit.holds.lock().await) } else { None };
            if change.discards() {
                self.commit.discard(&session, change).await?;
            } else {
                self.commit.drive(&session, &mut self.commit.ask(Ask::Change(change))).await?;
            }
            let state = session.state();
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        async move {
            let session = self.sessions.session(key)?;
            let state = session.visible()?;
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

    fn used<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        self.upkeep.used(key).boxed()
    }

    fn family<'a>(&'a self, key: &'a SessionKey, limit: usize) -> StoreFuture<'a, Family> {
        async move {
            let session = self.sessions.session(key)?;
            self.segments.family(&session, limit)
        }
        .boxed()
    }

    fn list<'a>(&'a self, scope: &'a Scope, listing: Listing) -> StoreFuture<'a, Listed> {
        async move { Ok(self.sessions.list(scope, &listing).await) }.boxed()
    }

    fn note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreFuture<'a, SessionInfo> {
        async move {
            let session = self.sessions.session(key)?;
            let batch = Batch { fence, note: Some(note), ..Batch::default() };
            let mut request = self.commit.request(Ask::Append, batch);
            self.commit.drive(&session, &mut request).await?;
            let state = session.state();
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn notes<'a>(&'a self, key: &'a SessionKey, wanted: Notes) -> StoreFuture<'a, Vec<Note>> {
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
    ) -> StoreFuture<'a, (Lease, SessionInfo)> {
        async move {
            let session = self.sessions.session(key)?;
            let mut request = self.commit.ask(Ask::Lease(call));
            self.commit.drive(&session, &mut request).await?;
            let state = session.state();
            let info = session.info(&state);
            let lease = request.lease.expect("a request for a lease is decided with one");
            Ok((lease, info))
        }
        .boxed()
    }

    fn unfinished<'a>(
        &'a self,
        scope: &'a Scope,
        workspace: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionInfo>> {
        async move { Ok(blocking(|| self.segments.unfinished(scope, workspace, limit))) }.boxed()
    }

    fn unmarked(&self, since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<SessionKey>> {
        async move { Ok(blocking(|| self.segments.unmarked(since, limit))) }.boxed()
    }

    fn read<'a>(&'a self, key: &'a SessionKey, read: Read) -> StoreFuture<'a, Slice> {
        async move {
            let session = self.sessions.session(key)?;
            self.segments.slice(&session, &read)
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
            blocking(|| self.segments.find_time(&session, time))
        }
        .boxed()
    }

    fn watch<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Watch> {
        async move {
            let session = self.sessions.session(key)?;
            drop(session.visible()?);
            Ok(session.subscribe())
        }
        .boxed()
    }

    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, Verified> {
        async move {
            let mut verified = Verified::default();
            match session {
                None => self.verify_scope(scope, &mut verified)?,
                Some(id) => {
                    let key = SessionKey { scope: scope.clone(), session: id.clone() };
                    let one = self.sessions.session(&key)?;
                    drop(one.visible()?);
                    blocking(|| self.segments.verify_session(&one, &mut verified, None))?;
                }
            }
            Ok(verified)
        }
        .boxed()
    }

    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: Receipt,
    ) -> StoreFuture<'a, (Verified, Head)> {
        async move {
            let session = self.sessions.session(key)?;
            blocking(|| self.segments.verify_head(&session, expected))
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
        self.context.keys.names().hash(content)
    }

    fn lifetimes(&self) -> Lifetimes {
        self.context.options.lifetimes
    }

    fn counted(&self) -> Timestamp {
        self.context.counted()
    }

    fn sweep(&self) -> StoreFuture<'_, Swept> {
        self.upkeep.sweep().boxed()
    }

    fn aging<'a>(&'a self, scope: &'a Scope, limit: usize) -> StoreFuture<'a, Vec<Aging>> {
        async move { Ok(blocking(|| self.upkeep.aging(scope, limit))) }.boxed()
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> StoreFuture<'a, TenantUsage> {
        async move { Ok(blocking(|| self.upkeep.usage(tenant, but))) }.boxed()
    }

    fn health(&self) -> Health {
        let health = self.sessions.journal.health();
        let lacks = self.sessions.missing().filter(|_| health == Health::Ready);
        lacks.map_or(health, Health::Full)
    }

    fn with_room(&self, make: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.removal.with_room(make)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            blocking(|| {
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
        store::Fill,
    };

    #[tokio::test]
    async fn an_erasure_or_redaction_clears_the_read_cache() {
        for erases in [false, true] {
            let options = Options { background: false, ..Options::default() };
            let home = tempfile::tempdir().unwrap();
            let env = Env::real(home.path()).unwrap();
            let store = Local::open_local(&env, options).unwrap();
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
            let read = Read {
                range: Range::new(Position::ZERO, Position(1)),
                events_max: 1,
                bytes_max: 1,
                fill: Fill::Forward,
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
