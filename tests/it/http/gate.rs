//! A store whose appends wait until they are let through. It must not change what they do.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use sessionlog::{
    event::{Batch, EventId, Position, Scope, SessionId, SessionKey, Timestamp},
    store::{
        Appended, Change, Health, Listing, NewSession, Read, Recovery, Repaired, SessionInfo,
        Slice, Store, StoreResult, Verified, Watch,
    },
};
use tokio::sync::watch;

pub struct Gate {
    store: Arc<dyn Store>,
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
    passed: AtomicUsize,
}

impl Gate {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let (open, arrived) = (watch::channel(true).0, watch::channel(0).0);
        Self { store, open, arrived, passed: AtomicUsize::new(0) }
    }

    pub fn close(&self) {
        self.open.send_replace(false);
        self.arrived.send_replace(0);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Returns when an append stands at the closed gate.
    pub async fn reached(&self) {
        self.arrived.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }

    /// Appends that were let through.
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }
}

impl Store for Gate {
    fn append<'a>(
        &'a self,
        key: &'a SessionKey,
        batch: Batch,
    ) -> BoxFuture<'a, StoreResult<Appended>> {
        Box::pin(async move {
            self.arrived.send_modify(|count| *count += 1);
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
            self.passed.fetch_add(1, Ordering::Relaxed);
            self.store.append(key, batch).await
        })
    }

    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> BoxFuture<'a, StoreResult<(SessionInfo, Appended)>> {
        self.store.create(scope, new)
    }

    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: Change,
    ) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        self.store.change(key, change)
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<SessionInfo>> {
        self.store.info(key)
    }

    fn list<'a>(
        &'a self,
        scope: &'a Scope,
        listing: Listing,
    ) -> BoxFuture<'a, StoreResult<Vec<SessionInfo>>> {
        self.store.list(scope, listing)
    }

    fn read<'a>(&'a self, key: &'a SessionKey, read: Read) -> BoxFuture<'a, StoreResult<Slice>> {
        self.store.read(key, read)
    }

    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<Position>>> {
        self.store.find(key, id)
    }

    fn find_time<'a>(
        &'a self,
        key: &'a SessionKey,
        time: Timestamp,
    ) -> BoxFuture<'a, StoreResult<Position>> {
        self.store.find_time(key, time)
    }

    fn watch<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<Watch>> {
        self.store.watch(key)
    }

    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> BoxFuture<'a, StoreResult<Verified>> {
        self.store.verify(scope, session)
    }

    fn repair<'a>(
        &'a self,
        key: &'a SessionKey,
        accept: bool,
    ) -> BoxFuture<'a, StoreResult<Repaired>> {
        self.store.repair(key, accept)
    }

    fn repair_store(&self, accept: bool) -> BoxFuture<'_, StoreResult<Repaired>> {
        self.store.repair_store(accept)
    }

    fn recovery(&self) -> Recovery {
        self.store.recovery()
    }

    fn health(&self) -> Health {
        self.store.health()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}
