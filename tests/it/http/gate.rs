//! A store that blocks appends, removals and reads until they are released, or the reads of some
//! sessions; it counts reads, and can be disconnected. It must not change their effect otherwise.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use sessionlog::{
    event::{
        Batch, EventId, Fence, NewNote, Note, Position, Scope, SessionId, SessionKey, TenantId,
        Timestamp, UserId,
    },
    store::{
        AppendResult, ChainReceipt, ChangedSessions, ChangesSeen, Derived, DerivedFile,
        DerivedName, ExpiringSession, Family, Health, HeldEvents, KeyReport, LeaseCall, Lifetimes,
        Listing, ListingPage, Maintain, Mapped, NewSession, NotesQuery, ReadRequest, ReceiptState,
        Recovery, RepairResult, SessionInfo, SessionLease, SessionUpdate, Slice, Store, StoreError,
        StoreResult, SweepResult, TenantUsage, VerifyResult, Watch,
    },
};
use tokio::sync::watch;

/// Returns true for a session whose reads wait.
type IsHeld = fn(&SessionId) -> bool;

pub struct Gate {
    store: Arc<dyn Store>,
    open: watch::Sender<bool>,
    reads_open: watch::Sender<bool>,
    held: watch::Sender<IsHeld>,
    arrived: watch::Sender<usize>,
    passed: AtomicUsize,
    read: AtomicUsize,
    reads: Mutex<Vec<SessionKey>>,
    is_cut: AtomicBool,
    is_unsure: AtomicBool,
}

impl Gate {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let [open, reads_open] = [true; 2].map(|open| watch::channel(open).0);
        let (held, arrived) = (watch::Sender::new((|_| false) as IsHeld), watch::channel(0).0);
        let (passed, read, reads, is_cut, is_unsure) = Default::default();
        Self { store, open, reads_open, held, arrived, passed, read, reads, is_cut, is_unsure }
    }

    pub fn close(&self) {
        self.open.send_replace(false);
        self.arrived.send_replace(0);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Passes reads through while true; else they wait.
    pub fn open_reads(&self, open: bool) {
        self.reads_open.send_replace(open);
    }

    /// Holds the reads of these sessions and of their state, and releases those of others.
    pub fn hold(&self, is_held: IsHeld) {
        self.arrived.send_replace(0);
        self.held.send_replace(is_held);
    }

    /// Waits while the session is held.
    async fn await_release(&self, key: &SessionKey) {
        if (*self.held.borrow())(&key.session) {
            self.arrived.send_modify(|count| *count += 1);
            let released = |held: &IsHeld| !held(&key.session);
            self.held.subscribe().wait_for(released).await.unwrap();
        }
    }

    /// Makes every call that can fail return an error while true: the storage is unreachable.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Abandons appends while true: their outcome is unknown, and they are made once the gate is
    /// open.
    pub fn is_unsure(&self, is_unsure: bool) {
        self.is_unsure.store(is_unsure, Ordering::Relaxed);
    }

    /// Makes an append once the gate is open.
    fn append_later(&self, key: SessionKey, batch: Batch) -> StoreError {
        let (store, mut open) = (Arc::clone(&self.store), self.open.subscribe());
        tokio::spawn(async move {
            open.wait_for(|open| *open).await.unwrap();
            store.append(&key, batch).await.unwrap();
        });
        StoreError::OutcomeUnknown { reason: "nobody waits for it".to_owned() }
    }

    /// Waits until the gate is open.
    async fn pass(&self) -> StoreResult<()> {
        self.arrived.send_modify(|count| *count += 1);
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        self.passed.fetch_add(1, Ordering::Relaxed);
        self.reach()
    }

    fn reach(&self) -> StoreResult<()> {
        let reason = || "the connection was refused".to_owned();
        let cut = || StoreError::Unreachable { reason: reason() };
        if self.is_cut.load(Ordering::Relaxed) { Err(cut()) } else { Ok(()) }
    }

    /// Waits until an append, a removal or a read waits at the closed gate.
    pub async fn reached(&self) {
        self.arrived.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }

    /// Returns the number of released appends and removals.
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    /// Returns the sessions that were read, in order.
    pub fn reads(&self) -> Vec<SessionKey> {
        self.reads.lock().unwrap().clone()
    }

    /// Returns the number of events read since the last call.
    pub fn read_since(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed)
    }
}

/// Methods that forward to the store unchanged, unless it is disconnected.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name<'a>(&'a self $(, $argument: $kind)*) -> BoxFuture<'a, $answer> {
            Box::pin(async move {
                self.reach()?;
                self.store.$name($($argument),*).await
            })
        })*
    };
}

impl Maintain for Gate {
    passed_on! {
        repair(key: &'a SessionKey, accept: bool) -> StoreResult<RepairResult>;
        keys() -> StoreResult<Option<KeyReport>>;
        rotate_keys(keys_max: usize) -> StoreResult<KeyReport>;
        repair_store(accept: bool) -> StoreResult<RepairResult>;
    }

    fn recovery(&self) -> Recovery {
        self.store.recovery()
    }
}

impl Derived for Gate {
    passed_on! {
        put_derived(label: &'a [u8], holds: Vec<HeldEvents>, bytes: &'a [u8])
            -> StoreResult<DerivedName>;
        drop_derived(name: DerivedName) -> StoreResult<()>;
        list_changes(since: ChangesSeen, limit: usize) -> StoreResult<ChangedSessions>;
    }

    fn list_derived(&self) -> StoreResult<Vec<DerivedFile>> {
        self.store.list_derived()
    }

    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        self.store.open_derived(name)
    }

    fn watch_changes(&self) -> watch::Receiver<u64> {
        self.store.watch_changes()
    }
}

impl Store for Gate {
    fn append<'a>(
        &'a self,
        key: &'a SessionKey,
        batch: Batch,
    ) -> BoxFuture<'a, StoreResult<AppendResult>> {
        Box::pin(async move {
            if self.is_unsure.load(Ordering::Relaxed) {
                return Err(self.append_later(key.clone(), batch));
            }
            self.pass().await?;
            self.store.append(key, batch).await
        })
    }

    fn erase<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.pass().await?;
            self.store.erase(key).await
        })
    }

    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<Position>>> {
        Box::pin(async move {
            self.pass().await?;
            self.store.redact(key, event).await
        })
    }

    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: SessionUpdate,
    ) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        Box::pin(async move {
            if change.delete || change.discard || change.restore {
                self.pass().await?;
            }
            self.reach()?;
            self.store.change(key, change).await
        })
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        Box::pin(async move {
            self.await_release(key).await;
            self.reach()?;
            let info = self.store.info(key).await;
            // Other tasks run before the result is returned.
            tokio::task::yield_now().await;
            info
        })
    }

    fn read<'a>(
        &'a self,
        key: &'a SessionKey,
        read: ReadRequest,
    ) -> BoxFuture<'a, StoreResult<Slice>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if !*self.reads_open.borrow() {
                self.arrived.send_modify(|count| *count += 1);
                self.reads_open.subscribe().wait_for(|open| *open).await.unwrap();
            }
            self.await_release(key).await;
            self.reach()?;
            self.reads.lock().unwrap().push(key.clone());
            let slice = self.store.read(key, read).await?;
            self.read.fetch_add(slice.events.len(), Ordering::Relaxed);
            Ok(slice)
        })
    }

    passed_on! {
        create(scope: &'a Scope, new: NewSession) -> StoreResult<(SessionInfo, AppendResult)>;
        workspace(key: &'a SessionKey) -> StoreResult<Option<String>>;
        use_session(key: &'a SessionKey) -> StoreResult<SessionInfo>;
        family(key: &'a SessionKey, limit: usize) -> StoreResult<Family>;
        sweep() -> StoreResult<SweepResult>;
        list_aging(scope: &'a Scope, limit: usize) -> StoreResult<Vec<ExpiringSession>>;
        list(scope: &'a Scope, listing: Listing) -> StoreResult<ListingPage>;
        write_note(key: &'a SessionKey, fence: Option<Fence>, note: NewNote)
            -> StoreResult<SessionInfo>;
        notes(key: &'a SessionKey, wanted: NotesQuery) -> StoreResult<Vec<Note>>;
        lease(key: &'a SessionKey, call: LeaseCall) -> StoreResult<(SessionLease, SessionInfo)>;
        list_unfinished(scope: &'a Scope, name: Option<&'a str>, limit: usize)
            -> StoreResult<Vec<SessionInfo>>;
        list_unmarked(since: Timestamp, limit: usize) -> StoreResult<Vec<SessionKey>>;
        find(key: &'a SessionKey, id: &'a EventId) -> StoreResult<Option<Position>>;
        find_time(key: &'a SessionKey, time: Timestamp) -> StoreResult<Position>;
        watch(key: &'a SessionKey) -> StoreResult<Watch>;
        verify(scope: &'a Scope, session: Option<&'a SessionId>) -> StoreResult<VerifyResult>;
        verify_head(key: &'a SessionKey, expected: ChainReceipt)
            -> StoreResult<(VerifyResult, ReceiptState)>;
        usage(tenant: &'a TenantId, but: &'a UserId) -> StoreResult<TenantUsage>;
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }

    fn lifetimes(&self) -> Lifetimes {
        self.store.lifetimes()
    }

    fn counted_time(&self) -> Timestamp {
        self.store.counted_time()
    }

    fn health(&self) -> Health {
        self.store.health()
    }
}
