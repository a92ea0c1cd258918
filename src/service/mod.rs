//! VERBS: one method per thing a client can ask. The only room that sees both the store and what
//! events mean. It must not know HTTP, MCP or a command line, and must not format for a client.

mod error;

use std::sync::Arc;

pub use error::{Code, Hint, ServiceError, ServiceResult};

use crate::{
    env::Clock,
    event::{Origin, Scope},
    store::Store,
};

/// Who asks: scope and origin, set by the door from the credential and its own nature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// On whose behalf.
    pub scope: Scope,
    /// What the door writes as the origin of events.
    pub origin: Origin,
}

/// The verbs. Verb families live in files of their own, each an `impl Service` block.
#[derive(Clone)]
pub struct Service {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Service {
    /// The verbs over a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }
}
