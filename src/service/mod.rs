//! VERBS: one method for each client request. The only module that uses both the store and the
//! meaning of events. It must not depend on HTTP, MCP or a command line, nor format a response for
//! a client.

mod added;
mod admit;
mod agent;
mod append;
mod audit;
mod bind;
mod chain;
mod changes;
mod checkpoints;
mod compare;
mod compute;
mod continuing;
mod convert;
mod copies;
mod cursors;
mod diff;
mod directory;
mod embedding;
mod emit;
mod error;
mod facts;
mod find;
mod flow;
mod folds;
mod fork;
mod graph;
mod history;
mod hit_doubts;
mod hit_text;
mod hits;
mod hosted;
mod indexing;
mod injected;
mod links;
mod marking;
mod marks;
mod memory;
mod memory_budget;
mod memory_items;
mod monitor;
mod names;
mod notebook;
mod notes;
mod options;
mod page;
mod paging;
mod point;
mod quota;
mod reading;
mod recalling;
mod recover;
mod relocating;
mod removal;
mod research;
mod restoring;
mod retention;
mod rows;
mod saving;
mod search;
mod session_summary;
mod sessions;
mod slice;
mod sources;
mod starting;
mod status;
mod step;
mod store_error;
mod strip;
mod titles;
mod tool_cache;
mod total_usage;
pub mod values;
mod verify;
mod via;
mod views;
mod wake;
mod window;
mod workspace_memory;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

pub use audit::AuditEntry;
pub use chain::ChainLink;
pub use checkpoints::NewCheckpoint;
pub use continuing::{ContinueCall, ContinueResult};
pub use convert::hex;
pub use embedding::{EmbedError, Embedder};
pub use emit::EmitResult;
pub use error::{
    CandidateSession, Code, Hint, NextAction, ServiceError, ServiceResult, SuggestedCall,
};
pub use flow::{BatchFlow, FlowAnswer, FlowRequest};
pub use fork::ForkCall;
pub use history::{History, UnfinishedSession};
pub use hosted::{MetadataPair, agent_filter};
pub use indexing::{IndexCounts, SearchOptions};
pub use memory::MemoryTarget;
pub use memory_budget::{BudgetFull, MemoryBudget, Reservation};
pub use monitor::ContextLimits;
pub use notebook::is_notebook;
pub use options::ResearchOptions;
pub use paging::PageInCall;
pub use quota::Quotas;
pub use recalling::RecallView;
pub use recover::{RecoverAnswer, RecoverCall, RecoveredSession};
pub use research::RecordedStep;
pub use restoring::RestoreOptions;
pub use rows::{CONTENT_PAGE_BYTES, RowsCall};
pub use session_summary::SessionSummary;
pub use sessions::{SessionPage, SessionQuery};
pub use slice::{AroundPoint, EventQuery, EventSlice, FollowStep, Follower, TimeWindow};
pub use sources::SourcesAdded;
pub use status::SessionStatus;
pub use step::StepCall;
pub use store_error::{disk_full_advice, disk_full_error};
pub use tool_cache::{CacheMiss, REMEMBERED_TOKENS, ToolHit, ToolOutput};
pub use total_usage::UsageSelection;
pub use values::parse_session_id;
pub use verify::OperationCounts;
pub use via::{BoundBy, ClientIdentity, LastUse};
pub use wake::{ResumeCall, ResumeResult};
pub use window::{WINDOW_TOKENS_MAX, WindowCall, WindowView};

pub use crate::search::EntityKind;
pub use crate::store::{
    AppendResult, BEGAN_KEY, ChainReceipt, ENDED_KEY, Health, NewSession, PlacedEvent, SessionGap,
    SessionInfo, SessionUpdate, TAIL_KEY,
};
use crate::{
    access::PerTenant,
    env::{Clock, host::processor_count},
    event::{Fence, Origin, Scope, SessionId, SessionKey, Timestamp},
    store::{Store, StoreError, StoreResult},
};

/// Prefix of metadata names reserved for interfaces. They count towards no limit.
pub const RESERVED_METADATA: &str = "sessionlog.";
/// Time that a verb waits for a write to be durable; after that its outcome is unknown.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Caller of a verb: scope and origin, set by the interface from the credential and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Scope in which it acts.
    pub scope: Scope,
    /// Origin that the interface writes into events.
    pub origin: Origin,
    /// Fencing token of its lease, if any.
    pub fence: Option<Fence>,
}

impl Caller {
    /// Returns the key of one of the caller's sessions.
    #[must_use]
    pub fn key(&self, session: &SessionId) -> SessionKey {
        SessionKey { scope: self.scope.clone(), session: session.clone() }
    }
}

/// Counters of operations through the verbs since the process started.
#[derive(Debug, Default)]
struct OperationCounters {
    appends: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    expired: AtomicU64,
    reclaimed: AtomicU64,
    /// Counter for unique generated names.
    names: AtomicU64,
}

/// The verbs. Each family of verbs has a separate file with an `impl Service` block.
#[derive(Clone)]
pub struct Service {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    counters: Arc<OperationCounters>,
    options: ResearchOptions,
    monitor: ContextLimits,
    facts: Arc<facts::FactsCache>,
    computations: Arc<MemoryBudget>,
    bindings: Arc<bind::Bindings>,
    agents: Arc<agent::AgentStarts>,
    ledger: Arc<quota::UsageLedger>,
    restoring: RestoreOptions,
    indexing: Arc<indexing::Indexing>,
    /// Vectors, if an embedder is configured.
    embedding: Option<Arc<embedding::EmbeddingTask>>,
    compute: Arc<compute::ComputeSlots>,
    titles: Arc<titles::Titles>,
}

impl Service {
    /// Creates the service over a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let options = ResearchOptions::default();
        let compute = compute::ComputeSlots::for_processors(Arc::clone(&clock), processor_count());
        Self {
            store,
            clock,
            counters: Arc::default(),
            options,
            monitor: ContextLimits::default(),
            facts: Arc::new(facts::FactsCache::new(options)),
            computations: Arc::new(MemoryBudget::for_computations(
                options.held_bytes_max,
                options.held_patience,
            )),
            bindings: Arc::default(),
            agents: Arc::default(),
            ledger: Arc::default(),
            restoring: RestoreOptions::default(),
            indexing: Arc::default(),
            embedding: None,
            compute,
            titles: Arc::default(),
        }
    }

    /// Returns the service with other limits of research sessions.
    #[must_use]
    pub fn with_research(mut self, options: ResearchOptions) -> Self {
        let answer_bytes_max = options.answer_bytes_max.max(crate::harness::ANSWER_BYTES_MIN);
        self.options = ResearchOptions { answer_bytes_max, ..options };
        self.facts = Arc::new(facts::FactsCache::new(options));
        self.computations =
            Arc::new(MemoryBudget::for_computations(options.held_bytes_max, options.held_patience));
        self
    }

    /// Returns the service with other limits of a model's context window.
    #[must_use]
    pub fn with_monitor(mut self, monitor: ContextLimits) -> Self {
        self.monitor = monitor;
        self
    }

    /// Returns the service with other defaults for a restore.
    #[must_use]
    pub fn with_restoring(mut self, options: RestoreOptions) -> Self {
        self.restoring = options;
        self
    }

    /// Returns the service with other search settings.
    #[must_use]
    pub fn with_search(mut self, options: SearchOptions) -> Self {
        self.indexing = Arc::new(indexing::Indexing::new(options));
        self
    }

    /// Returns the service with a given number of compute slots.
    #[must_use]
    pub fn with_compute_slots(mut self, at_once: usize) -> Self {
        self.compute = compute::ComputeSlots::new(Arc::clone(&self.clock), at_once);
        self
    }

    /// Returns the service with storage quotas for tenants.
    #[must_use]
    pub fn with_quotas(mut self, quotas: impl Into<PerTenant<Quotas>>) -> Self {
        self.ledger =
            Arc::new(quota::UsageLedger::new(quotas.into(), self.store.shared().is_some()));
        self
    }

    /// Waits for a write for a limited time, because failing storage may block for longer; then the
    /// outcome is reported as unknown, and the write continues in the background.
    async fn await_durable<T>(
        &self,
        write: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        tokio::time::timeout(WRITE_PATIENCE, write).await.unwrap_or_else(|_| {
            let seconds = WRITE_PATIENCE.as_secs();
            let reason = format!("the storage has not answered for {seconds} s");
            Err(StoreError::OutcomeUnknown { reason })
        })
    }

    /// Runs several steps in a separate task, which completes even if its caller stops waiting. A
    /// caller that waits for too long gets an unknown outcome.
    async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = ServiceResult<T>> + Send + 'static,
    ) -> ServiceResult<T> {
        let seconds = WRITE_PATIENCE.as_secs();
        let under_way = |_| {
            let message = format!("this has been under way for {seconds} s and is carried out");
            let mut error = ServiceError::new(Code::OutcomeUnknown, message)
                .action("ask again: the answer says when it is done");
            error.hint.retryable = true;
            Err(error)
        };
        let done = tokio::time::timeout(WRITE_PATIENCE, spawn_and_wait(work)).await;
        done.unwrap_or_else(under_way)
    }

    /// Returns the wall-clock time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the monotonic time since a fixed instant.
    #[must_use]
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// Runs a future in a task that outlives its caller.
async fn spawn_and_wait<T: Send + 'static>(
    task: impl Future<Output = ServiceResult<T>> + Send + 'static,
) -> ServiceResult<T> {
    let done = tokio::spawn(task).await;
    done.unwrap_or_else(|error| Err(ServiceError::new(Code::InternalError, error.to_string())))
}
