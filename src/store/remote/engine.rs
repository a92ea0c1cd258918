//! The trait `Store` over a node. It must not contain a rule, nor a statement of the base.

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

use super::{
    lane::WriteAnswer,
    node::{Node, RemoteOptions},
};
use crate::{
    env::{Clock, Entropy},
    event::{
        Batch, EventId, Fence, NewNote, Note, Position, Scope, SessionId, SessionKey, TenantId,
        Timestamp, UserId,
    },
    log::ChangeRecord,
    store::{
        AppendResult, ChainReceipt, ChangedSessions, ChangesSeen, Derived, DerivedFile,
        DerivedName, ExpiringSession, Family, Health, HeldEvents, KeyReport, LeaseCall, Lifetimes,
        Listing, ListingPage, Maintain, Mapped, NewSession, NotesQuery, ReadRequest, ReceiptState,
        Recovery, RepairResult, SessionInfo, SessionLease, SessionUpdate, Sharing, Slice, Store,
        StoreError, StoreFuture, StoreResult, SweepResult, TenantUsage, VerifyResult, Watch,
        base::Base,
        rules::{WriteKind, WriteRequest},
    },
};

/// A node of a store that several nodes share.
pub struct RemoteStore(Arc<Node>);

impl RemoteStore {
    /// Connects a node to a base. It needs a tokio runtime, also later.
    pub(crate) async fn open(
        base: Arc<dyn Base>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: RemoteOptions,
    ) -> StoreResult<Self> {
        Node::open(base, clock, entropy, options).await.map(Self)
    }

    /// Connects a node to a base in memory.
    ///
    /// # Errors
    /// Errors that the base was set to return.
    #[cfg(feature = "tests")]
    pub async fn open_memory(
        base: &super::MemoryBase,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: RemoteOptions,
    ) -> StoreResult<Self> {
        Self::open(Arc::new(base.clone()), clock, entropy, options).await
    }

    /// Connects a node to a PostgreSQL database; makes its schema if there is none.
    ///
    /// # Errors
    /// Errors of the connection; [`StoreError::Key`] for other keys than the store needs;
    /// [`StoreError::ReadOnly`] for a schema of a newer version, and for a server that may lose
    /// what it commits, unless the address accepts that.
    #[cfg(feature = "postgres")]
    pub async fn open_postgres(
        url: &super::PostgresUrl,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: RemoteOptions,
    ) -> StoreResult<Self> {
        let accepted = url.accepted_durability();
        let required = Some(options.required.map_or(accepted, |one| one.max(accepted)));
        let options = RemoteOptions { required, ..options };
        let base = crate::store::base::postgres::PostgresBase::open(url, true).await;
        let base = base.map_err(super::store_error)?.expect("a schema is made if there is none");
        Self::open(Arc::new(base), clock, entropy, options).await
    }

    /// Returns how often a session was found behind what this node had acknowledged: the database
    /// lost commits, as when an asynchronous standby takes over.
    #[must_use]
    pub fn set_back_count(&self) -> u64 {
        self.0.set_back.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn prepare(&self, ask: WriteKind, batch: Batch) -> WriteRequest {
        WriteRequest::new(ask, batch, self.0.clock.now(), &*self.0.entropy)
    }

    /// Commits a request that is answered with the state of its session.
    async fn submit_for_info(
        &self,
        key: &SessionKey,
        request: WriteRequest,
    ) -> StoreResult<(SessionInfo, Option<SessionLease>)> {
        match self.0.submit(key, request, true).await? {
            WriteAnswer::Done { info: Some(info), lease, .. } => Ok((*info, lease)),
            WriteAnswer::Done { .. } | WriteAnswer::Batch(..) | WriteAnswer::Events(..) => {
                Ok((self.0.fetch_visible(key).await?.info(), None))
            }
        }
    }
}

impl Maintain for RemoteStore {
    fn verify_scopes(&self) -> StoreFuture<'_, VerifyResult> {
        self.0.verify_all(None).boxed()
    }

    fn repair<'a>(&'a self, key: &'a SessionKey, accept: bool) -> StoreFuture<'a, RepairResult> {
        self.0.repair(key, accept).boxed()
    }

    fn repair_store(&self, accept: bool) -> StoreFuture<'_, RepairResult> {
        // Every row and frame belongs to a session.
        let _ = accept;
        async { Ok(RepairResult::default()) }.boxed()
    }

    fn keys(&self) -> StoreFuture<'_, Option<KeyReport>> {
        self.0.keys.report(&*self.0.base).boxed()
    }

    fn rotate_keys(&self, keys_max: usize) -> StoreFuture<'_, KeyReport> {
        self.0.rotate_keys(keys_max).boxed()
    }

    fn recovery(&self) -> Recovery {
        Recovery { clean: true, ..Recovery::default() }
    }
}

impl Derived for RemoteStore {
    fn list_derived(&self) -> StoreResult<Vec<DerivedFile>> {
        Ok(self.0.files.list())
    }

    fn put_derived<'a>(
        &'a self,
        label: &'a [u8],
        holds: Vec<HeldEvents>,
        bytes: &'a [u8],
    ) -> StoreFuture<'a, DerivedName> {
        self.0.put_derived(label, holds, bytes).boxed()
    }

    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        self.0.check_open()?;
        self.0.files.open(name)
    }

    fn drop_derived(&self, name: DerivedName) -> StoreFuture<'_, ()> {
        async move {
            self.0.files.remove(name);
            Ok(())
        }
        .boxed()
    }

    fn list_changes(&self, since: ChangesSeen, limit: usize) -> StoreFuture<'_, ChangedSessions> {
        self.0.list_changes(since, limit).boxed()
    }

    fn watch_changes(&self) -> watch::Receiver<u64> {
        self.0.feed.watch()
    }

    fn follow_removals(&self) -> watch::Receiver<u64> {
        self.0.follow_removals()
    }

    fn confirm_removals(&self, removals: u64) {
        self.0.confirm_removals(removals);
    }

    fn removal_count(&self) -> u64 {
        *self.0.removals.borrow()
    }
}

impl Store for RemoteStore {
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> StoreFuture<'a, (SessionInfo, AppendResult)> {
        self.0.create(scope, new).boxed()
    }

    fn append<'a>(&'a self, key: &'a SessionKey, batch: Batch) -> StoreFuture<'a, AppendResult> {
        async move {
            let mut request = self.prepare(WriteKind::Append, batch);
            self.0.find_minted_ids(key, &mut request).await?;
            match self.0.submit(key, request, false).await? {
                WriteAnswer::Done { result, .. } => Ok(result),
                WriteAnswer::Batch(known, batch) => {
                    self.0.answer_known_batch(key, &batch, &known).await
                }
                WriteAnswer::Events(known, batch) => {
                    self.0.answer_known_events(key, &batch, &known).await
                }
            }
        }
        .boxed()
    }

    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: SessionUpdate,
    ) -> StoreFuture<'a, SessionInfo> {
        async move {
            let change = ChangeRecord::from(change);
            let discards = change.is_discard();
            let request = self.prepare(WriteKind::Change(change), Batch::default());
            let (info, _) = self.submit_for_info(key, request).await?;
            if discards {
                let head = self.0.fetch_head(key).await?;
                if let Err(error) = self.0.free_discarded(&head).await {
                    tracing::warn!(session = %head.hash, %error, "its bytes are freed later");
                }
            }
            Ok(info)
        }
        .boxed()
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        async move { Ok(self.0.fetch_visible(key).await?.info()) }.boxed()
    }

    fn workspace<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<String>> {
        async move {
            match self.0.fetch_head(key).await {
                Ok(head) => Ok(head.entry.workspace),
                Err(StoreError::SessionNotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn use_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        self.0.use_session(key).boxed()
    }

    fn family<'a>(&'a self, key: &'a SessionKey, limit: usize) -> StoreFuture<'a, Family> {
        self.0.family(key, limit).boxed()
    }

    fn list<'a>(&'a self, scope: &'a Scope, listing: Listing) -> StoreFuture<'a, ListingPage> {
        async move { self.0.list(scope, &listing).await }.boxed()
    }

    fn write_note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreFuture<'a, SessionInfo> {
        async move {
            let batch = Batch { fence, note: Some(note), ..Batch::default() };
            let request = self.prepare(WriteKind::Append, batch);
            Ok(self.submit_for_info(key, request).await?.0)
        }
        .boxed()
    }

    fn notes<'a>(&'a self, key: &'a SessionKey, wanted: NotesQuery) -> StoreFuture<'a, Vec<Note>> {
        self.0.list_notes(key, wanted).boxed()
    }

    fn lease<'a>(
        &'a self,
        key: &'a SessionKey,
        call: LeaseCall,
    ) -> StoreFuture<'a, (SessionLease, SessionInfo)> {
        async move {
            let request = self.prepare(WriteKind::Lease(call), Batch::default());
            let (info, lease) = self.submit_for_info(key, request).await?;
            Ok((lease.expect("a request for a lease is decided with one"), info))
        }
        .boxed()
    }

    fn list_unfinished<'a>(
        &'a self,
        scope: &'a Scope,
        workspace: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionInfo>> {
        self.0.list_unfinished(scope, workspace, limit).boxed()
    }

    fn list_unmarked(&self, since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<SessionKey>> {
        self.0.list_unmarked(since, limit).boxed()
    }

    fn read<'a>(&'a self, key: &'a SessionKey, read: ReadRequest) -> StoreFuture<'a, Slice> {
        async move { self.0.read_slice(key, &read).await }.boxed()
    }

    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        async move {
            let head = self.0.fetch_visible(key).await?;
            Ok(self.0.find_event(&head, id).await?.map(|(_, at)| at))
        }
        .boxed()
    }

    fn find_time<'a>(&'a self, key: &'a SessionKey, time: Timestamp) -> StoreFuture<'a, Position> {
        self.0.find_time(key, time).boxed()
    }

    fn watch<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Watch> {
        async move {
            let head = self.0.fetch_visible(key).await?;
            Ok(self.0.hub.watch(head.row.name, head.row.tail))
        }
        .boxed()
    }

    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, VerifyResult> {
        async move {
            let Some(session) = session else { return self.0.verify_all(Some(scope)).await };
            let key = SessionKey { scope: scope.clone(), session: session.clone() };
            let (head, mut verified) = (self.0.fetch_visible(&key).await?, VerifyResult::default());
            self.0.verify_session(&head, &mut verified, None).await?;
            Ok(verified)
        }
        .boxed()
    }

    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: ChainReceipt,
    ) -> StoreFuture<'a, (VerifyResult, ReceiptState)> {
        self.0.verify_head(key, expected).boxed()
    }

    fn erase<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()> {
        self.0.erase(key).boxed()
    }

    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        self.0.redact(key, event).boxed()
    }

    fn name_hash(&self, content: &[u8]) -> [u8; 32] {
        self.0.keys.names.hash(content)
    }

    fn lifetimes(&self) -> Lifetimes {
        self.0.options.lifetimes
    }

    fn counted_time(&self) -> Timestamp {
        self.0.counted_time()
    }

    fn sweep(&self) -> StoreFuture<'_, SweepResult> {
        self.0.sweep().boxed()
    }

    fn list_aging<'a>(
        &'a self,
        scope: &'a Scope,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ExpiringSession>> {
        self.0.list_aging(scope, limit).boxed()
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> StoreFuture<'a, TenantUsage> {
        self.0.usage(tenant, but).boxed()
    }

    fn health(&self) -> Health {
        self.0.health()
    }

    fn shared(&self) -> Option<Sharing> {
        Some(self.0.shared())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close().boxed()
    }
}
