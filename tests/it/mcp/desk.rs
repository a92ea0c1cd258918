//! Callers of tools, each with the identity of some connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    access::Principal,
    env::Env,
    event::{BatchKey, Origin, Scope, SessionId},
    service::{Caller, ClientIdentity, LastUse, ResearchOptions, Service, ServiceError},
    store::{NewSession, Store, local::LocalStore},
    verbs::{
        OwnerInfo,
        tools::{self, ToolCall},
    },
};
use sessionlog_sim::{ManualClock, SeededEntropy, Sim, model::Model};

use super::bounds::ANSWER_BYTES;
use crate::{engines::small, http::gate::Gate};

pub struct Desk {
    /// The machine, if the store outlives its process.
    machine: Option<Env>,
    pub service: Service,
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub caller: Caller,
    pub via: ClientIdentity,
}

static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

pub fn connection() -> ClientIdentity {
    let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    ClientIdentity { connection: Some(format!("connection-{number}")), ..ClientIdentity::default() }
}

impl Desk {
    /// Creates a desk on the embedded engine and a simulated disk.
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let entropy = Arc::new(SeededEntropy::new(7));
        let storage = Sim::new(7).env().storage;
        let machine = Env { storage, clock: clock.clone(), entropy, keys: None };
        let store = LocalStore::open(&machine, small()).unwrap();
        Self { machine: Some(machine), ..Self::over(store, clock) }
    }

    /// Creates the same over a store whose calls a test can block.
    pub fn gated() -> (Self, Arc<Gate>) {
        let whole = Self::new();
        let gate = Arc::new(Gate::new(Arc::clone(&whole.store)));
        let desk = Self::over(gate.clone(), Arc::clone(&whole.clock));
        (Self { machine: whole.machine, ..desk }, gate)
    }

    /// Creates a desk on the in-memory model.
    pub fn model() -> Self {
        let clock = Arc::new(ManualClock::default());
        let entropy = Arc::new(SeededEntropy::new(7));
        Self::over(Arc::new(Model::new(clock.clone(), entropy)), clock)
    }

    fn over(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let caller = Caller { scope: Scope::local(), origin: Origin::Model, fence: None };
        let service = Service::new(Arc::clone(&store), clock.clone());
        Self { machine: None, service, store, clock, caller, via: connection() }
    }

    /// Returns another front end of the same owner.
    pub fn another(&self) -> Self {
        Self {
            machine: self.machine.clone(),
            service: self.service.clone(),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            caller: self.caller.clone(),
            via: connection(),
        }
    }

    /// Returns the same front end after its owner restarted: the store is opened again from the
    /// disk.
    pub async fn restarted(&self) -> Self {
        let store = match &self.machine {
            Some(machine) => {
                self.store.close().await;
                LocalStore::open(machine, small()).unwrap()
            }
            None => Arc::clone(&self.store),
        };
        let (machine, via) = (self.machine.clone(), self.via.clone());
        Self { machine, via, ..Self::over(store, Arc::clone(&self.clock)) }
    }

    pub fn in_directory(mut self, directory: &str) -> Self {
        self.via.directory = Some(directory.to_owned());
        self
    }

    pub fn started_for(mut self, session: &str) -> Self {
        self.via.session = Some(SessionId::new(session).unwrap());
        self
    }

    pub fn remembering(mut self, session: &str) -> Self {
        let session = Some(SessionId::new(session).unwrap());
        self.via.remembered = Some(LastUse { session, fresh: false });
        self
    }

    pub fn bounded(mut self, options: ResearchOptions) -> Self {
        self.service = self.service.with_research(options);
        self
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ServiceError> {
        self.clock.advance(Duration::from_millis(1));
        self.named(None, tool, arguments).await
    }

    /// Records a first step under the caller's key.
    pub async fn keyed(&self, key: &str, arguments: Value) -> Result<Value, ServiceError> {
        let key = BatchKey::new(key).unwrap();
        self.named(Some(&key), "sequential_search", arguments).await
    }

    /// Calls a tool under a key, if given.
    pub async fn named(
        &self,
        key: Option<&BatchKey>,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, ServiceError> {
        let (service, caller, via) = (&self.service, &self.caller, &self.via);
        let (owner, who) = (&OwnerInfo::default(), &Principal::local());
        let call = ToolCall { service, owner, caller, who, via, key };
        let answer = tools::call(call, tool, arguments.to_string()).await?;
        Ok(members_of(serde_json::from_str(&answer).unwrap()))
    }

    pub async fn ok(&self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments.clone()).await.unwrap_or_else(|error| {
            panic!("{tool} {arguments}: {} {}", error.code.as_str(), error.message)
        })
    }

    /// Creates an empty session with that id.
    pub async fn begin(&self, id: &str) {
        let new = NewSession { id: Some(SessionId::new(id).unwrap()), ..NewSession::default() };
        self.service.create_session(&self.caller, new).await.unwrap();
    }

    pub async fn refused(&self, tool: &str, arguments: Value) -> ServiceError {
        match self.call(tool, arguments.clone()).await {
            Ok(answer) => panic!("{tool} {arguments} answered {answer}"),
            Err(error) => error,
        }
    }

    pub async fn recover(&self) -> Value {
        self.ok("get_research_session", json!({})).await
    }
}

/// Returns the arguments of a plain step.
pub fn step(number: u64) -> Value {
    json!({
        "searchStep": format!("step {number}: looked and found {number}"),
        "stepNumber": number,
        "nextStepNeeded": true,
    })
}

/// Adds members to the arguments.
pub fn with(mut arguments: Value, more: Value) -> Value {
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

pub fn session_of(answer: &Value) -> String {
    answer["sessionId"].as_str().unwrap().to_owned()
}

/// Checks that no member is null: an absent member is omitted, an empty list is a list.
pub fn assert_no_null(value: &Value) {
    match value {
        Value::Null => panic!("a null"),
        Value::Array(items) => items.iter().for_each(assert_no_null),
        Value::Object(members) => members.values().for_each(assert_no_null),
        _ => {}
    }
}

/// Returns the members of an answer without its text, whose size it checks.
pub fn members_of(mut answer: Value) -> Value {
    let text = answer.as_object_mut().and_then(|members| members.remove("text"));
    let bytes = text.as_ref().and_then(Value::as_str).map_or(0, str::len);
    assert!(bytes <= ANSWER_BYTES, "{bytes}: {text:?}");
    answer
}
