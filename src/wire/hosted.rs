//! The members of the Managed Agents wire about what runs a session: agent, environment and others.
//! A stored session does not run, so only the name of its agent is kept, as metadata under reserved
//! names that clients do not see; other members that the official client expects are empty. It must
//! not hold anything that changes with time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    event::limits,
    service::{RESERVED_METADATA, ServiceError, ServiceResult, SessionInfo, Status, Wanted},
};

/// Agent and environment of a session that was created without one.
const LOCAL: &str = "local";
/// The model of an agent that was named without one.
const UNKNOWN: &str = "unknown";

/// Metadata that holds the agent's id.
const AGENT: &str = "sessionlog.agent";
/// Metadata that holds the agent's version.
const VERSION: &str = "sessionlog.agent_version";
/// Metadata that holds the agent's model.
const MODEL: &str = "sessionlog.agent_model";
/// Metadata that holds the environment.
const ENVIRONMENT: &str = "sessionlog.environment";
/// Metadata that no session has.
const NEVER: &str = "sessionlog.never";

/// Members of a hosted session that say what runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Hosted {
    /// The agent it was created for.
    pub agent: Agent,
    /// The environment it was created for; `local` when none was named.
    pub environment_id: String,
    /// Always null.
    pub deployment_id: Option<String>,
    /// Always null.
    pub budget: Option<String>,
    /// Always empty.
    pub resources: Vec<String>,
    /// Always empty.
    pub vault_ids: Vec<String>,
    /// Always empty.
    pub outcome_evaluations: Vec<String>,
    /// Always empty.
    pub stats: BTreeMap<String, String>,
    /// Always empty.
    pub usage: BTreeMap<String, String>,
}

/// An agent by its name; other members are known only where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Agent {
    /// Its id; `local` when none was named.
    pub id: String,
    /// Always `agent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its version; 1 when none was named.
    pub version: u64,
    /// Its id again.
    pub name: String,
    /// Its model.
    pub model: AgentModel,
    /// Always null.
    pub description: Option<String>,
    /// Always null.
    pub system: Option<String>,
    /// Always null.
    pub multiagent: Option<String>,
    /// Always empty.
    pub tools: Vec<String>,
    /// Always empty.
    pub mcp_servers: Vec<String>,
    /// Always empty.
    pub skills: Vec<String>,
    /// Always `service_account`.
    pub execution_identity: AgentIdentity,
}

/// A model by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentModel {
    /// Its id; `unknown` when none was named.
    pub id: String,
}

/// On whose behalf an agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentIdentity {
    /// Always `service_account`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The agent of a new session: its id, or an object with it. Other members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentAsked {
    /// Its id.
    Id(String),
    /// Its id, and which version of it.
    Named {
        /// Its id.
        id: String,
        /// Its version.
        #[serde(default)]
        #[schemars(range(min = 1))]
        version: Option<u64>,
        /// The model it runs on instead of its own.
        #[serde(default)]
        model: Option<AgentModelAsked>,
    },
}

/// The model of an agent: its id, or an object with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentModelAsked {
    /// Its id.
    Id(String),
    /// Its id, and how it is to run.
    Named {
        /// Its id.
        id: String,
    },
}

/// A thread of a session, as the Managed Agents wire has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Its id.
    pub id: String,
    /// Always `session_thread`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The session.
    pub session_id: String,
    /// The session's agent.
    pub agent: Agent,
    /// The session's status.
    pub status: String,
    /// Always null: it is the session's own.
    pub parent_thread_id: Option<String>,
    /// Always null.
    pub workflow_run_id: Option<String>,
    /// When the session was created, RFC 3339.
    pub created_at: String,
    /// When it was last written to, RFC 3339.
    pub updated_at: String,
    /// When it was archived, RFC 3339.
    pub archived_at: Option<String>,
    /// Always null.
    pub stats: Option<BTreeMap<String, String>>,
    /// Always null.
    pub usage: Option<BTreeMap<String, String>>,
}

impl Thread {
    /// The thread that a session is.
    #[must_use]
    pub fn of(info: &SessionInfo) -> Self {
        let session = &info.key.session;
        Self {
            id: format!("sthr_{session}"),
            kind: "session_thread".to_owned(),
            session_id: session.to_string(),
            agent: Hosted::of(&info.metadata).agent,
            status: Status::of(info).as_str().to_owned(),
            created_at: info.created_at.to_string(),
            updated_at: info.updated_at.to_string(),
            archived_at: info.archived_at.map(|time| time.to_string()),
            ..Self::default()
        }
    }
}

/// Threads of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadList {
    /// The threads.
    pub data: Vec<Thread>,
    /// Always null.
    pub next_page: Option<String>,
}

/// Resources of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceList {
    /// Always empty.
    pub data: Vec<String>,
    /// Always null.
    pub next_page: Option<String>,
}

impl Hosted {
    /// Read from the metadata of a session.
    pub(super) fn of(metadata: &BTreeMap<String, String>) -> Self {
        let named = |name: &str| metadata.get(name).cloned();
        let id = named(AGENT).unwrap_or_else(|| LOCAL.to_owned());
        let model = AgentModel { id: named(MODEL).unwrap_or_else(|| UNKNOWN.to_owned()) };
        let agent = Agent {
            name: id.clone(),
            id,
            kind: "agent".to_owned(),
            version: named(VERSION).and_then(|text| text.parse().ok()).unwrap_or(1),
            model,
            execution_identity: AgentIdentity { kind: "service_account".to_owned() },
            ..Agent::default()
        };
        let environment_id = named(ENVIRONMENT).unwrap_or_else(|| LOCAL.to_owned());
        Self { agent, environment_id, ..Self::default() }
    }
}

/// Metadata as its client gave it.
pub(super) fn visible(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = |(name, _): &(&String, &String)| !name.starts_with(RESERVED_METADATA);
    metadata.iter().filter(own).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Refuses names that are reserved.
///
/// # Errors
/// `invalid_request`, naming the pair.
pub fn check_names<'a>(names: impl IntoIterator<Item = &'a String>) -> ServiceResult<()> {
    match names.into_iter().find(|name| name.starts_with(RESERVED_METADATA)) {
        Some(name) => Err(ServiceError::invalid(
            &format!("metadata.{name}"),
            format!("names that begin with {RESERVED_METADATA} are the store's own"),
        )),
        None => Ok(()),
    }
}

/// The metadata that keeps agent and environment of a new session.
///
/// # Errors
/// `invalid_request` for a name that is empty or too long.
pub fn metadata(
    agent: Option<AgentAsked>,
    environment: Option<String>,
) -> ServiceResult<BTreeMap<String, String>> {
    let (id, version, model) = match agent {
        None => (None, None, None),
        Some(AgentAsked::Id(id)) => (Some(id), None, None),
        Some(AgentAsked::Named { id, version, model }) => (Some(id), version, model),
    };
    let model = model.map(|model| match model {
        AgentModelAsked::Id(id) | AgentModelAsked::Named { id } => id,
    });
    let version = version.map(|version| version.to_string());
    let mut kept = BTreeMap::new();
    for (name, field, value) in [
        (AGENT, "agent", id),
        (VERSION, "agent.version", version),
        (MODEL, "agent.model", model),
        (ENVIRONMENT, "environment_id", environment),
    ] {
        let Some(value) = value else { continue };
        let (chars, max) = (value.chars().count(), limits::METADATA_VALUE_CHARS_MAX);
        if chars == 0 || chars > max {
            let problem = format!("{chars} characters; 1 to {max} are allowed");
            return Err(ServiceError::invalid(field, problem));
        }
        kept.insert(name.to_owned(), value);
    }
    Ok(kept)
}

/// Which sessions a client asks for by what runs them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunBy<'a> {
    /// Id of the agent.
    pub agent: Option<&'a str>,
    /// Its version; says nothing without an agent.
    pub version: Option<u64>,
    /// A deployment or a memory store: no stored session has one.
    pub unknown: Option<&'a str>,
}

/// The pairs of metadata that a listing by what runs a session asks for.
#[must_use]
pub fn wanted(by: RunBy<'_>) -> Vec<Wanted> {
    let pair = |name: &str, value: String, usual: Option<&str>| Wanted {
        name: name.to_owned(),
        value,
        usual: usual.map(str::to_owned),
    };
    let agent = by.agent.map(|id| pair(AGENT, id.to_owned(), Some(LOCAL)));
    let version = by.version.filter(|_| agent.is_some());
    let version = version.map(|version| pair(VERSION, version.to_string(), Some("1")));
    let unknown = by.unknown.map(|id| pair(NEVER, id.to_owned(), None));
    agent.into_iter().chain(version).chain(unknown).collect()
}
