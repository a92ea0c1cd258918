//! Two nodes of one store that serve call by call: every test of an engine then shows that any node
//! serves any session. It must not know an engine. Derived files, watches and sweeps belong to the
//! first node: the clock of a test jumps over the second in which another one learns of them.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::{FutureExt, future::BoxFuture};
use sessionlog::{
    event::{
        Batch, EventId, Fence, NewNote, Note, Position, Scope, SessionId, SessionKey, TenantId,
        Timestamp, UserId,
    },
    store::{
        AppendResult, BackupInfo, ChainReceipt, ChangedSessions, ChangesSeen, Derived, DerivedFile,
        DerivedName, ExpiringSession, Family, FilePart, Health, HeldEvents, KeyReport, LeaseCall,
        Lifetimes, Listing, ListingPage, Maintain, Mapped, NewSession, NotesQuery, ReadRequest,
        ReceiptState, Recovery, RepairResult, SessionInfo, SessionLease, SessionUpdate, Sharing,
        Slice, Store, StoreFuture, StoreResult, SweepResult, TenantUsage, VerifyResult, Watch,
    },
};
use tokio::sync::watch;

/// Nodes of one store, by turns.
pub struct ByTurns {
    nodes: Vec<Arc<dyn Store>>,
    calls: AtomicUsize,
}

impl ByTurns {
    pub fn new(nodes: Vec<Arc<dyn Store>>) -> Self {
        Self { nodes, calls: AtomicUsize::new(0) }
    }

    /// Returns the node of the next call.
    fn next(&self) -> &dyn Store {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        &*self.nodes[call % self.nodes.len()]
    }

    fn first(&self) -> &dyn Store {
        &*self.nodes[0]
    }
}

impl Maintain for ByTurns {
    fn verify_scopes(&self) -> StoreFuture<'_, VerifyResult> {
        self.next().verify_scopes()
    }

    fn backup(&self, sink: &mut dyn FnMut(FilePart) -> io::Result<()>) -> StoreResult<BackupInfo> {
        self.next().backup(sink)
    }

    fn repair<'a>(&'a self, key: &'a SessionKey, accept: bool) -> StoreFuture<'a, RepairResult> {
        self.next().repair(key, accept)
    }

    fn repair_store(&self, accept: bool) -> StoreFuture<'_, RepairResult> {
        self.next().repair_store(accept)
    }

    fn keys(&self) -> StoreFuture<'_, Option<KeyReport>> {
        self.next().keys()
    }

    fn rotate_keys(&self, keys_max: usize) -> StoreFuture<'_, KeyReport> {
        self.next().rotate_keys(keys_max)
    }

    fn recovery(&self) -> Recovery {
        self.next().recovery()
    }
}

impl Derived for ByTurns {
    fn list_derived(&self) -> StoreResult<Vec<DerivedFile>> {
        self.first().list_derived()
    }

    fn put_derived<'a>(
        &'a self,
        label: &'a [u8],
        holds: Vec<HeldEvents>,
        bytes: &'a [u8],
    ) -> StoreFuture<'a, DerivedName> {
        self.first().put_derived(label, holds, bytes)
    }

    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        self.first().open_derived(name)
    }

    fn drop_derived(&self, name: DerivedName) -> StoreFuture<'_, ()> {
        self.first().drop_derived(name)
    }

    fn list_changes(&self, since: ChangesSeen, limit: usize) -> StoreFuture<'_, ChangedSessions> {
        self.first().list_changes(since, limit)
    }

    fn watch_changes(&self) -> watch::Receiver<u64> {
        self.first().watch_changes()
    }

    fn removal_count(&self) -> u64 {
        self.first().removal_count()
    }

    fn follow_removals(&self) -> watch::Receiver<u64> {
        self.first().follow_removals()
    }

    fn confirm_removals(&self, removals: u64) {
        self.first().confirm_removals(removals);
    }
}

impl Store for ByTurns {
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> StoreFuture<'a, (SessionInfo, AppendResult)> {
        self.next().create(scope, new)
    }

    fn append<'a>(&'a self, key: &'a SessionKey, batch: Batch) -> StoreFuture<'a, AppendResult> {
        self.next().append(key, batch)
    }

    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: SessionUpdate,
    ) -> StoreFuture<'a, SessionInfo> {
        self.next().change(key, change)
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        self.next().info(key)
    }

    fn workspace<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<String>> {
        self.next().workspace(key)
    }

    fn use_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        self.next().use_session(key)
    }

    fn family<'a>(&'a self, key: &'a SessionKey, limit: usize) -> StoreFuture<'a, Family> {
        self.next().family(key, limit)
    }

    fn list<'a>(&'a self, scope: &'a Scope, listing: Listing) -> StoreFuture<'a, ListingPage> {
        self.next().list(scope, listing)
    }

    fn write_note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreFuture<'a, SessionInfo> {
        self.next().write_note(key, fence, note)
    }

    fn notes<'a>(&'a self, key: &'a SessionKey, wanted: NotesQuery) -> StoreFuture<'a, Vec<Note>> {
        self.next().notes(key, wanted)
    }

    fn lease<'a>(
        &'a self,
        key: &'a SessionKey,
        call: LeaseCall,
    ) -> StoreFuture<'a, (SessionLease, SessionInfo)> {
        self.next().lease(key, call)
    }

    fn list_unfinished<'a>(
        &'a self,
        scope: &'a Scope,
        workspace: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionInfo>> {
        self.next().list_unfinished(scope, workspace, limit)
    }

    fn list_unmarked(&self, since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<SessionKey>> {
        self.next().list_unmarked(since, limit)
    }

    fn read<'a>(&'a self, key: &'a SessionKey, read: ReadRequest) -> StoreFuture<'a, Slice> {
        self.next().read(key, read)
    }

    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        self.next().find(key, id)
    }

    fn find_time<'a>(&'a self, key: &'a SessionKey, time: Timestamp) -> StoreFuture<'a, Position> {
        self.next().find_time(key, time)
    }

    fn watch<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Watch> {
        self.first().watch(key)
    }

    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, VerifyResult> {
        self.next().verify(scope, session)
    }

    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: ChainReceipt,
    ) -> StoreFuture<'a, (VerifyResult, ReceiptState)> {
        self.next().verify_head(key, expected)
    }

    fn erase<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()> {
        self.next().erase(key)
    }

    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        self.next().redact(key, event)
    }

    fn lifetimes(&self) -> Lifetimes {
        self.next().lifetimes()
    }

    fn counted_time(&self) -> Timestamp {
        self.next().counted_time()
    }

    fn sweep(&self) -> StoreFuture<'_, SweepResult> {
        self.first().sweep()
    }

    fn list_aging<'a>(
        &'a self,
        scope: &'a Scope,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ExpiringSession>> {
        self.next().list_aging(scope, limit)
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> StoreFuture<'a, TenantUsage> {
        self.next().usage(tenant, but)
    }

    fn health(&self) -> Health {
        self.next().health()
    }

    fn shared(&self) -> Option<Sharing> {
        self.next().shared()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            for node in &self.nodes {
                node.close().await;
            }
        }
        .boxed()
    }
}
