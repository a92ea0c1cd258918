//! The embedded engine: every session of one data directory, owned by one process. It must not
//! know what an event means.

mod append;
mod backup;
mod catalogue;
mod commit;
mod erase;
mod forks;
mod forward;
mod inspect;
mod journal;
mod keys;
mod layout;
mod lifetimes;
mod mend;
mod names;
mod notes;
mod open;
mod policy;
mod read;
mod recover;
mod redact;
mod repair;
mod reserve;
mod rest;
mod ring;
mod rotate;
mod scrub;
mod sealing;
mod session;
mod settle;
mod slice;
mod slots;
mod strays;
mod trouble;
mod vault;
mod verify;
mod warm;
mod writer;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
};

use catalogue::Catalogue;
use journal::{Item, Journal, Told, error_of};
use keys::Keys;
use session::Session;
use slots::Slots;
use warm::Warm;
use writer::Failure;

pub use inspect::{Inspection, InspectionLine, Versioned, inspect, versions};
pub use keys::KeyProblem;
pub use rotate::{key_ids, key_report};
pub use vault::{Incoming, NoBackup, Restored, check_backup, is_vacant, restore};

use super::{
    Aging, Appended, Backup, Change, Family, Head, Health, KeyReport, Lease, LeaseCall, Lifetimes,
    Listing, NewSession, Notes, Part, Read, Receipt, Recovery, Repaired, Scrub, SessionInfo, Slice,
    Store, StoreError, StoreResult, Swept, Usage, Verified, Watch,
    lifetime::Count,
    rules::{Ask, Effect},
};
use crate::{
    env::{
        Env, Lock,
        planted::{Defect, planted},
        sync::{
            Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
            atomic::{AtomicBool, AtomicU64, Ordering},
            thread::{self, JoinHandle},
        },
    },
    event::{
        Batch, EventId, Fence, NewNote, Note, Position, Scope, SessionHash, SessionId, SessionKey,
        TenantId, Timestamp, UserId,
    },
    log::{self, StoreFile},
};

/// What an operator may tune. The defaults suit a laptop and a server alike.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size of one journal file in bytes; default 32 MiB, at least 32 KiB (tests).
    pub journal_file_bytes: u64,
    /// Journal bytes that may wait for settling; default 256 MiB.
    pub journal_retained_bytes: u64,
    /// A segment is sealed once it is larger; default 8 MiB.
    pub segment_bytes_max: u64,
    /// What waits is settled once nothing was written for so long; default five seconds.
    pub settle_after: Duration,
    /// How often everything settled is read back; default a day, 0 for never.
    pub scrub_every: Duration,
    /// Memory for events that were read lately, in bytes; default 32 MiB, 0 for none. More is worth
    /// its price where many readers go over old events again and again.
    pub warm_bytes_max: usize,
    /// Compress blocks of sealed segments; on. Off, they take about three times the room, and
    /// their sizes tell nothing of how alike events are.
    pub compression: bool,
    /// How long sessions live.
    pub lifetimes: Lifetimes,
    /// Settle and write watermarks from background threads; tests drive them by hand instead.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_file_bytes: 32 << 20,
            journal_retained_bytes: 256 << 20,
            segment_bytes_max: 8 << 20,
            settle_after: Duration::from_secs(5),
            scrub_every: Duration::from_secs(24 * 3600),
            warm_bytes_max: 32 << 20,
            compression: true,
            lifetimes: Lifetimes::default(),
            background: true,
        }
    }
}

/// Why a data directory did not open. No byte was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns it.
    #[error("another process owns this data directory")]
    Owned,
    /// Written by a newer version of sessionlog.
    #[error("the data directory has format {found}; this version reads up to {supported}")]
    Newer {
        /// Format found.
        found: u32,
        /// Newest format this version reads.
        supported: u32,
    },
    /// It is a backup, not a store.
    #[error("it is a backup: it is brought back with `sessionlog backup restore`")]
    Backup,
    /// STORE is there and no generation of `settled/` is, or the journal has a hole before it.
    #[error("the data directory is damaged: {what}")]
    Damaged {
        /// What was found, where.
        what: String,
    },
    /// The keys given are not those it wants.
    #[error("{problem}")]
    Key {
        /// What is wrong with them.
        problem: KeyProblem,
    },
    /// The file system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, with the path inside the data directory.
        doing: String,
        /// What the file system said.
        source: io::Error,
    },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the settler.
#[derive(Default)]
struct Signal {
    state: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    wanted: bool,
    stop: bool,
}

/// The engine, shared by callers and its two threads.
struct Shared {
    env: Env,
    options: Options,
    store: StoreFile,
    keys: Keys,
    journal: Journal<Arc<Session>>,
    catalogue: RwLock<Catalogue>,
    slots: Mutex<Slots>,
    /// Held by whoever settles; taken before any other lock.
    settling: Mutex<()>,
    /// Sessions with frames that wait to be settled.
    dirty: Mutex<Vec<Arc<Session>>>,
    /// Sessions whose settled entry changed since the last settling.
    touched: Mutex<Vec<Arc<Session>>>,
    /// Files that were replaced, each with the generation of `settled/` that may still name it.
    retired: Mutex<BTreeMap<String, u64>>,
    deleted: Mutex<reserve::Deleted>,
    /// Who is needed by forks; locked last, for a moment.
    forks: Mutex<forks::Forks>,
    reserve: reserve::Reserve,
    /// The last order of a journal file before this start.
    orders_before: u64,
    /// Directories of segments that are durable.
    directories: Mutex<HashSet<String>>,
    /// Journal bytes written when the last settling began.
    settled_written: AtomicU64,
    /// Journal bytes written up to the place the last settling named.
    place_written: Mutex<u64>,
    /// The last sync of everything failed: the next settling finds out whose file it is.
    sync_each: AtomicBool,
    settle_now: Signal,
    /// Ends the scrubber.
    scrub_now: Signal,
    /// What the last scrub found.
    scrubbed: Mutex<Scrub>,
    /// Held by the one writer that settles because everybody writes faster than that.
    relief: Mutex<()>,
    /// Events read lately.
    warm: Warm,
    /// Sessions whose files and names are in memory, the one opened first in front.
    in_use: Mutex<VecDeque<Arc<Session>>>,
    /// Where the last round that looked for idle sessions to seal stopped.
    looked_to: Mutex<Option<SessionKey>>,
    /// Where the last round that looked for sessions past their time stopped.
    swept_to: Mutex<Option<SessionKey>>,
    /// The time that idleness is measured by.
    count: Count,
    /// Sessions with full segments that wait to be sealed.
    full: Mutex<BTreeMap<SessionHash, Arc<Session>>>,
    /// The lock is given back: nothing may be written any more.
    closed: AtomicBool,
    /// Acknowledged records are lost and name no session: the evidence stays as it is.
    frozen: AtomicBool,
    refused: Mutex<repair::Refused>,
    /// Sessions whose tombstone is durable and of which something may be left.
    erasing: Mutex<Vec<erase::Erasing>>,
    /// Sessions with a redacted event whose body may be left in a file.
    redacting: Mutex<Vec<Arc<Session>>>,
    /// Held by whoever takes bytes away that were erased or redacted; taken before `settling`.
    clearing: Mutex<()>,
    /// When what failed of that is tried again.
    pause: Mutex<erase::Pause>,
    pins: backup::Pins,
    /// Held by a repair of the store or a rotation of keys, and by the close that ends all of them.
    repairing: Mutex<()>,
    recovery: Recovery,
}

/// The embedded engine. Dropping it without [`Store::close`] is a crash: nothing acknowledged is
/// lost, and the next start replays the journal.
pub struct Local {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl Local {
    /// Takes the lock, replays the journal, opens the store; makes a new one in an empty directory.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed then.
    pub fn open(env: &Env, options: Options) -> Result<Arc<dyn Store>, OpenError> {
        Self::open_local(env, options).map(|local| Arc::new(local) as Arc<dyn Store>)
    }

    /// Whether the store would open with the keys given; changes nothing. A directory without a
    /// store takes any.
    ///
    /// # Errors
    /// [`OpenError::Key`], or what else is wrong with the file that says which key it wants.
    pub fn check_keys(env: &Env) -> Result<(), OpenError> {
        layout::known(env)?.map_or(Ok(()), |store| Keys::open(env, &store).map(drop))
    }

    /// [`Self::open`] for those who settle by hand: tests on the simulated disk.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed then.
    pub fn open_local(env: &Env, options: Options) -> Result<Self, OpenError> {
        let lock = open::own(env)?;
        let local = Self::holding(Some(lock), open::open(env, options, layout::identify(env)?)?);
        let shared = Arc::clone(&local.shared);
        if options.background {
            let committer = Arc::clone(&shared);
            local.spawn("journal", move || {
                committer.journal.run(&|round, result| committer.outcome(round, result));
            })?;
            let scrubber = Arc::clone(&shared);
            local.spawn("settler", move || shared.settle_in_background())?;
            if !options.scrub_every.is_zero() {
                local.spawn("scrubber", move || scrubber.scrub_in_background())?;
            }
        }
        Ok(local)
    }

    fn holding(lock: Option<Box<dyn Lock>>, shared: Shared) -> Self {
        Self { shared: Arc::new(shared), threads: Mutex::default(), lock: Mutex::new(lock) }
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        lock(&self.threads).push(thread.map_err(layout::doing("starting a thread"))?);
        Ok(())
    }

    /// Settles what is acknowledged; the settler does it on its own in the background.
    ///
    /// # Errors
    /// What the file system said; everything acknowledged stays in the journal.
    pub fn settle(&self) -> io::Result<()> {
        self.shared.settle(false)?;
        self.shared.rest();
        Ok(())
    }

    /// [`Self::settle`] as under load: what is full is left to be sealed by the next.
    ///
    /// # Errors
    /// What the file system said; everything acknowledged stays in the journal.
    pub fn settle_under_load(&self) -> io::Result<()> {
        self.shared.settle_and(false, false)
    }

    /// Ends every lease that was ever given: for a store that was brought back from a copy.
    ///
    /// # Errors
    /// Those of an append; asked again, it ends them.
    pub async fn void_leases(&self) -> StoreResult<()> {
        self.shared.void_leases().await
    }

    /// Reads everything settled back, at once; the scrubber does it on its own in the background.
    pub fn scrub(&self) {
        self.shared.scrub(false);
    }

    /// Reads every session of every scope and checks checksums and chains.
    ///
    /// # Errors
    /// Those of [`Store::verify`].
    pub fn verify_all(&self) -> StoreResult<Verified> {
        let mut verified = Verified::default();
        let scopes = self.shared.catalogue().scopes();
        for scope in scopes {
            self.verify_scope(&scope, &mut verified)?;
        }
        Ok(verified)
    }

    fn verify_scope(&self, scope: &Scope, verified: &mut Verified) -> StoreResult<()> {
        let sessions = self.shared.catalogue().of_scope(scope);
        for session in sessions {
            let key = SessionKey { scope: scope.clone(), session };
            // Deleted, or not created yet: nobody asked for it by name.
            let Ok(session) = self.shared.session(&key) else { continue };
            let found = blocking(|| self.shared.verify_session(&session, verified, None));
            if let Err(error @ StoreError::Io { .. }) = found {
                return Err(error);
            }
        }
        Ok(())
    }

    /// What the journal does when nobody appends: a watermark behind the last frame.
    pub fn idle(&self) {
        let shared = &self.shared;
        shared.journal.idle(&|round, result| shared.outcome(round, result));
    }

    /// Stops threads and gives the lock back; without settling it is a crash.
    fn stop(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.journal.stop();
        lock(&self.shared.settle_now.state).stop = true;
        self.shared.settle_now.changed.notify_all();
        lock(&self.shared.scrub_now.state).stop = true;
        self.shared.scrub_now.changed.notify_all();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        // Whoever takes bytes away or settles ends first.
        let _clearing = lock(&self.shared.clearing);
        let _settling = lock(&self.shared.settling);
        lock(&self.lock).take();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.shared.journal.refuse("the store is closed");
        self.stop();
    }
}

impl Shared {
    fn catalogue(&self) -> RwLockReadGuard<'_, Catalogue> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalogue_mut(&self) -> RwLockWriteGuard<'_, Catalogue> {
        self.catalogue.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self, key: &SessionKey) -> StoreResult<Arc<Session>> {
        let unknown = || StoreError::SessionNotFound { session: key.session.clone() };
        let awake = self.catalogue().awake(key);
        awake.or_else(|| self.catalogue_mut().get(key)).ok_or_else(unknown)
    }

    /// Makes the frames of a round visible, or void; then tells who waits.
    fn outcome(&self, round: &mut Vec<Item<Arc<Session>>>, result: Result<(), Failure>) {
        match result {
            Ok(()) => {
                // Nobody waits any more when a client went away: the frame stands all the same.
                self.publish(round).into_iter().for_each(|done| drop(done.send(Ok(Told::Seen))));
            }
            Err(failure) => {
                let (Failure::Refused(error) | Failure::Unknown(error)) = &failure;
                self.reserve.note(Some(error));
                let epoch = self.journal.epoch();
                for item in round.drain(..) {
                    item.session.state().forget_void(epoch);
                    if item.effect.as_ref().is_some_and(Effect::is_creation) {
                        self.forget(&item.session);
                    } else if planted(Defect::ServePastDurable) {
                        let frame = std::iter::once((item.frame.as_kept(item.plain), item.effect));
                        item.session.publish(frame, self.counted());
                    }
                    let _ = item.done.map(|done| done.send(Err(error_of(&failure))));
                }
            }
        }
        if self.pressed() {
            lock(&self.settle_now.state).wanted = true;
            self.settle_now.changed.notify_one();
        }
    }

    /// Makes the frames of a round visible, those of one session together. Answers who waits.
    fn publish(
        &self,
        round: &mut Vec<Item<Arc<Session>>>,
    ) -> Vec<oneshot::Sender<StoreResult<Told>>> {
        let counted = self.counted();
        let mut waiting = Vec::with_capacity(round.len());
        let mut items = round.drain(..).peekable();
        while let Some(item) = items.next() {
            let session = Arc::clone(&item.session);
            let mut next = Some(item);
            let frames = std::iter::from_fn(|| {
                let same = |item: &Item<Arc<Session>>| Arc::ptr_eq(&item.session, &session);
                let item = next.take().or_else(|| items.next_if(same))?;
                waiting.extend(item.done);
                let frame = item.frame.as_kept(item.plain);
                #[cfg(feature = "sim")]
                self.check_effect(&frame, item.effect.as_ref());
                Some((frame, item.effect))
            });
            if session.publish(frames, counted) {
                lock(&self.dirty).push(session);
            }
        }
        waiting
    }

    /// A replay reads the effect of a frame from its records: on the simulated disk it must be the
    /// effect that the request decided on.
    #[cfg(feature = "sim")]
    fn check_effect(&self, frame: &log::Frame, effect: Option<&Effect>) {
        let Some(effect) = effect.filter(|_| !self.options.background) else { return };
        let records = frame.records().expect("a frame of this process holds records");
        let read = Effect::of(&frame.header, &records);
        assert!(effect.is_same(&read), "decided on {effect:?}, read back {read:?}");
    }

    /// Journal bytes written since the last settling.
    fn pressure(&self) -> u64 {
        self.journal.written().saturating_sub(self.settled_written.load(Ordering::Relaxed))
    }

    /// Whether so much waits that it is settled while others write: an eighth of the room when it
    /// is of few sessions, half of it when it is of many. A settling costs by the session, so many
    /// are worth a large one; the rest of the room is for what comes meanwhile.
    fn pressed(&self) -> bool {
        let (pressure, room) = (self.pressure(), self.options.journal_retained_bytes);
        let few = || lock(&self.dirty).len() <= settle::FEW_SESSIONS_MAX;
        pressure > room / 2 || pressure > room / 8 && few()
    }

    /// Settles when so much waits that it presses, or when nobody wrote for a while: a sync of
    /// segments between two of the journal is time that a writer waits.
    fn settle_in_background(&self) {
        self.keep_reserve();
        let mut written = 0;
        let mut wanted = lock(&self.settle_now.state);
        while !wanted.stop {
            if !wanted.wanted {
                let every = self.options.settle_after;
                let waited = self.settle_now.changed.wait_timeout(wanted, every);
                wanted = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if wanted.stop {
                return;
            }
            let woken = std::mem::take(&mut wanted.wanted);
            drop(wanted);
            let before = std::mem::replace(&mut written, self.journal.written());
            let settle = self.pressed() || !woken && before == written;
            if settle {
                // A failure is logged there; the next try comes with the timer.
                let _ = self.settle(false);
            }
            if settle || !woken {
                self.rest();
            }
            wanted = lock(&self.settle_now.state);
        }
    }

    /// Ends all writing, settles into both files, and says that the stop was clean.
    fn close(&self) {
        self.journal.refuse("the store is closed");
        self.journal.drain(&|round, result| self.outcome(round, result));
        let settled = self.settle(false).and_then(|()| {
            self.seal_leaving();
            (0..2).try_for_each(|_| self.settle(false))
        });
        let clean = settled.and_then(|()| (0..2).try_for_each(|_| self.settle(true)));
        if let Err(error) = clean {
            tracing::warn!(%error, "the store could not settle while closing; a start replays");
        }
    }
}

/// Runs what may wait for the disk without holding up the other tasks of this thread.
fn blocking<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
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
            // What is deleted and expired at once can be restored as an expired session can.
            expire: change.delete && !change.discard,
            restore: change.restore,
        },
    }
}

impl Store for Local {
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> BoxFuture<'a, StoreResult<(SessionInfo, Appended)>> {
        self.shared.create(scope, new).boxed()
    }

    fn append<'a>(
        &'a self,
        key: &'a SessionKey,
        batch: Batch,
    ) -> BoxFuture<'a, StoreResult<Appended>> {
        async move {
            let session = self.shared.session(key)?;
            let mut request = self.shared.request(Ask::Append, batch);
            self.shared.inherit(&session, &mut request)?;
            self.shared.drive(&session, &mut request).await
        }
        .boxed()
    }

    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: Change,
    ) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        async move {
            let session = self.shared.session(key)?;
            let change = change_of(change);
            if change.discards() {
                self.shared.discard(&session, change).await?;
            } else {
                self.shared.drive(&session, &mut self.shared.ask(Ask::Change(change))).await?;
            }
            let state = session.state();
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        async move {
            let session = self.shared.session(key)?;
            let state = session.visible()?;
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn used<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        self.shared.used(key).boxed()
    }

    fn family<'a>(
        &'a self,
        key: &'a SessionKey,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Family>> {
        async move {
            let session = self.shared.session(key)?;
            self.shared.family(&session, limit)
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        scope: &'a Scope,
        listing: Listing,
    ) -> BoxFuture<'a, StoreResult<Vec<SessionInfo>>> {
        async move { Ok(self.shared.catalogue().list(scope, &listing)) }.boxed()
    }

    fn note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        async move {
            let session = self.shared.session(key)?;
            let batch = Batch { fence, note: Some(note), ..Batch::default() };
            let mut request = self.shared.request(Ask::Append, batch);
            self.shared.drive(&session, &mut request).await?;
            let state = session.state();
            Ok(session.info(&state))
        }
        .boxed()
    }

    fn notes<'a>(
        &'a self,
        key: &'a SessionKey,
        wanted: Notes,
    ) -> BoxFuture<'a, StoreResult<Vec<Note>>> {
        async move {
            let session = self.shared.session(key)?;
            self.shared.notes(&session, wanted)
        }
        .boxed()
    }

    fn lease<'a>(
        &'a self,
        key: &'a SessionKey,
        call: LeaseCall,
    ) -> BoxFuture<'a, StoreResult<(Lease, SessionInfo)>> {
        async move {
            let session = self.shared.session(key)?;
            let mut request = self.shared.ask(Ask::Lease(call));
            self.shared.drive(&session, &mut request).await?;
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
    ) -> BoxFuture<'a, StoreResult<Vec<SessionInfo>>> {
        async move { Ok(blocking(|| self.shared.unfinished(scope, workspace, limit))) }.boxed()
    }

    fn unmarked(&self, since: Timestamp, limit: usize) -> BoxFuture<'_, Vec<SessionKey>> {
        async move { blocking(|| self.shared.unmarked(since, limit)) }.boxed()
    }

    fn read<'a>(&'a self, key: &'a SessionKey, read: Read) -> BoxFuture<'a, StoreResult<Slice>> {
        async move {
            let session = self.shared.session(key)?;
            self.shared.slice(&session, &read)
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<Position>>> {
        async move {
            let session = self.shared.session(key)?;
            self.shared.find(&session, id)
        }
        .boxed()
    }

    fn find_time<'a>(
        &'a self,
        key: &'a SessionKey,
        time: Timestamp,
    ) -> BoxFuture<'a, StoreResult<Position>> {
        async move {
            let session = self.shared.session(key)?;
            blocking(|| self.shared.find_time(&session, time))
        }
        .boxed()
    }

    fn watch<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<Watch>> {
        async move {
            let session = self.shared.session(key)?;
            drop(session.visible()?);
            Ok(session.subscribe())
        }
        .boxed()
    }

    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> BoxFuture<'a, StoreResult<Verified>> {
        async move {
            let mut verified = Verified::default();
            match session {
                None => self.verify_scope(scope, &mut verified)?,
                Some(id) => {
                    let key = SessionKey { scope: scope.clone(), session: id.clone() };
                    let one = self.shared.session(&key)?;
                    drop(one.visible()?);
                    blocking(|| self.shared.verify_session(&one, &mut verified, None))?;
                }
            }
            Ok(verified)
        }
        .boxed()
    }

    fn verify_scopes(&self) -> BoxFuture<'_, StoreResult<Verified>> {
        async move { self.verify_all() }.boxed()
    }

    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: Receipt,
    ) -> BoxFuture<'a, StoreResult<(Verified, Head)>> {
        async move {
            let session = self.shared.session(key)?;
            blocking(|| self.shared.verify_head(&session, expected))
        }
        .boxed()
    }

    fn backup(&self, take: &mut dyn FnMut(Part) -> io::Result<()>) -> StoreResult<Backup> {
        blocking(|| self.shared.backup(take))
    }

    fn erase<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<()>> {
        async move {
            let session = self.shared.session(key)?;
            self.shared.erase(&session).await
        }
        .boxed()
    }

    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<Position>>> {
        async move {
            let session = self.shared.session(key)?;
            self.shared.redact(&session, event).await
        }
        .boxed()
    }

    fn repair<'a>(
        &'a self,
        key: &'a SessionKey,
        accept: bool,
    ) -> BoxFuture<'a, StoreResult<Repaired>> {
        async move {
            let session = self.shared.session(key)?;
            self.shared.repair(&session, accept).await
        }
        .boxed()
    }

    fn repair_store(&self, accept: bool) -> BoxFuture<'_, StoreResult<Repaired>> {
        async move { blocking(|| self.shared.repair_store(accept)) }.boxed()
    }

    fn lifetimes(&self) -> Lifetimes {
        self.shared.options.lifetimes
    }

    fn counted(&self) -> Timestamp {
        self.shared.counted()
    }

    fn sweep(&self) -> BoxFuture<'_, StoreResult<Swept>> {
        self.shared.sweep().boxed()
    }

    fn aging<'a>(
        &'a self,
        scope: &'a Scope,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Aging>>> {
        async move { Ok(self.shared.aging(scope, limit)) }.boxed()
    }

    fn keys(&self) -> BoxFuture<'_, StoreResult<Option<KeyReport>>> {
        async move {
            let report = blocking(|| rotate::key_report(&self.shared.env));
            let failed = |error| io::Error::other(format!("{error}"));
            let doing = "reading keys/";
            report.map_err(failed).map_err(|source| StoreError::Io { doing, source })
        }
        .boxed()
    }

    fn rotate_keys(&self, keys_max: usize) -> BoxFuture<'_, StoreResult<KeyReport>> {
        async move { blocking(|| self.shared.rotate_keys(keys_max)) }.boxed()
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> BoxFuture<'a, Usage> {
        async move { blocking(|| self.shared.usage(tenant, but)) }.boxed()
    }

    fn recovery(&self) -> Recovery {
        Recovery { scrub: lock(&self.shared.scrubbed).clone(), ..self.shared.recovery.clone() }
    }

    fn health(&self) -> Health {
        self.shared.journal.health()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            blocking(|| {
                // A repair under way ends first, and a later one finds the store closed. The
                // scrubber waits for this lock, too: it is free before threads are joined.
                let turn = lock(&self.shared.repairing);
                self.shared.close();
                self.shared.closed.store(true, Ordering::Release);
                drop(turn);
                self.stop();
            });
        }
        .boxed()
    }
}
