//! RECORDING PROXY: forwards every message between an MCP client and a server unchanged, and
//! records calls of tools and their results. It must not depend on a revision of the protocol,
//! decode more of a message than it needs, or fail the server's calls when the store fails.
//!
//! Two kinds of messages are inspected: lists of tools, to which two are added, and calls of tools,
//! of which a repeat may be answered from the log. All others are forwarded as bytes.

mod front;
mod lines;
mod message;
mod own_tools;
mod recorder;
mod state;
mod stdio;
mod upstream;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use front::serve_http;
pub use stdio::{ProgramEnd, relay_streams, wrap_program};
pub use upstream::{Upstream, wrap_http_server};

use serde_json::Value;

use crate::{env::Clock, event::SessionId, secrets::Recogniser};

/// Callback that reports a problem to the user who started the proxy, mostly on standard error.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// When earlier outputs are sent to a client with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextTiming {
    /// Never.
    Off,
    /// With an answer of `get_research_session`, or if a call's `_meta` requests it.
    Request,
    /// Also with a connection's first answer: outputs that the session's other connections got.
    Append,
}

/// Rules for answering a call from the log.
#[derive(Clone, Debug)]
pub struct RepeatRules {
    /// Maximum age of a result that is reused; `None` for no reuse.
    pub age_max: Option<Duration>,
    /// Maximum age for single tools; `None` for no reuse. It replaces the declaration of a closed
    /// world, but applies only to tools that declare that they only read.
    pub tools: BTreeMap<String, Option<Duration>>,
    /// Maximum tokens of a reused answer and of earlier outputs.
    pub tokens_max: usize,
}

/// Rules of the user for recording calls.
pub trait Gate: Send + Sync {
    /// Decides if an event of a session is recorded now. Returns `None` if not; else the error
    /// event that reports a gap before it, if any.
    fn admit_event(&self, session: &SessionId) -> Option<Option<Value>>;
    /// Returns true if a call with this input (`None` if too large to parse) is recorded without
    /// its input and its result.
    fn is_excluded(&self, input: Option<&Value>) -> bool;
}

/// Options of a proxy.
#[derive(Clone)]
pub struct ProxyOptions {
    /// The session of messages that do not name one; without it, a temporary one.
    pub session: Option<SessionId>,
    /// Names of the parent processes, whose agent may have moved to another session; none if the
    /// user chose the session.
    pub process: Vec<String>,
    /// Random text that makes this proxy's ids differ from every other's.
    pub name: String,
    /// Name of the wrapped server in the log.
    pub server: String,
    /// The working directory.
    pub directory: Option<String>,
    /// Rules for answering a call from the log.
    pub repeats: RepeatRules,
    /// Time for which a call waits for the log before it is sent to the server.
    pub patience: Duration,
    /// When earlier outputs are sent to the client.
    pub context: ContextTiming,
    /// True if an answer waits until its record is durable.
    pub durable: bool,
    /// Rules for removing secrets before an event is recorded.
    pub secrets: Arc<Recogniser>,
    /// Rules for recording.
    pub gate: Arc<dyn Gate>,
    /// Callback for reports of problems.
    pub notify: Notify,
    /// Clock for timestamps and ages of answers.
    pub clock: Arc<dyn Clock>,
}
