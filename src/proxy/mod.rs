//! RECORDING PROXY: between an MCP client and a server, forwards every message unchanged, and
//! records calls of tools and their results. It must not depend on a revision of the protocol,
//! decode more of a message than it needs, or fail the server's calls when the store fails.
//!
//! Two kinds of messages are inspected: lists of tools, to which two are added, and calls of tools,
//! of which a repeat may be answered from the log. All others are forwarded as bytes.

mod front;
mod lines;
mod message;
mod own;
mod recorder;
mod state;
mod stdio;
mod upstream;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use front::in_front_of;
pub use stdio::{Ended, over_streams, with_program};
pub use upstream::{Upstream, with_upstream};

use serde_json::Value;

use crate::{env::Clock, event::SessionId, secrets::Recogniser};

/// Reports to the person who started the proxy, mostly on standard error.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// When earlier outputs are sent to a client with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Nothing.
    Off,
    /// With an answer of `get_research_session`, or where a call's `_meta` asks for it.
    Request,
    /// With the first answer of a connection, too: what other connections of the session got.
    Append,
}

/// Rules for answering a call from the log.
#[derive(Clone, Debug)]
pub struct Repeats {
    /// Maximum age of a result that is reused; `None`: no result is.
    pub age_max: Option<Duration>,
    /// The same for single tools: `None` never. It also applies where a tool does not declare
    /// whether it only reads, and never where a tool declares that it writes.
    pub tools: BTreeMap<String, Option<Duration>>,
    /// Tokens of answers that are remembered.
    pub tokens_max: usize,
}

/// Rules of the user for recording calls.
pub trait Gate: Send + Sync {
    /// Decides if an event of a session is recorded now; with the error that reports a gap before
    /// it.
    fn admits(&self, session: &SessionId) -> Option<Option<Value>>;
    /// True if a call with that input, or with one that is too much for a tree, is recorded without
    /// its input and its result.
    fn withholds(&self, input: Option<&Value>) -> bool;
}

/// Options of a proxy.
#[derive(Clone)]
pub struct Options {
    /// The session to record into where a message does not name one; else a temporary one.
    pub session: Option<SessionId>,
    /// Names of the processes that it is a tool of, whose agent may have moved to another session;
    /// none where the session was chosen.
    pub process: Vec<String>,
    /// Random text: what makes this proxy's names differ from every other's.
    pub name: String,
    /// Name of the wrapped server in the log.
    pub server: String,
    /// The working directory.
    pub directory: Option<String>,
    /// Rules for answering a call from the log.
    pub repeats: Repeats,
    /// Time for which a call waits for the log before it goes to the server.
    pub patience: Duration,
    /// When earlier outputs are sent to the client.
    pub context: Context,
    /// True if an answer waits until its record is durable.
    pub durable: bool,
    /// Rules for removing secrets before an event is recorded.
    pub secrets: Arc<Recogniser>,
    /// Rules for recording.
    pub gate: Arc<dyn Gate>,
    /// Receives reports of trouble.
    pub notify: Notify,
    /// The time.
    pub clock: Arc<dyn Clock>,
}
