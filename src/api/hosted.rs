//! Members of the Managed Agents API that describe what runs a session: agent, environment and
//! others. A stored session does not run, so that most of them are empty. It must not hold anything
//! that changes with time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Members that describe what runs a hosted session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostedFields {
    /// Agent that the session was created for.
    pub agent: Agent,
    /// Environment that the session was created for; `local` if none was named.
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

/// An agent by its id; its other members are known only where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Agent {
    /// Id of the agent; `local` if none was named.
    pub id: String,
    /// Always `agent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version of the agent; 1 if none was named.
    pub version: u64,
    /// Id of the agent again.
    pub name: String,
    /// Model of the agent.
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

/// A model by its id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentModel {
    /// Id of the model; `unknown` if none was named.
    pub id: String,
}

/// Identity under which an agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentIdentity {
    /// Always `service_account`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Agent of a new session: its id, or an object with it. Other members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentAsked {
    /// Id of the agent.
    Id(String),
    /// Id of the agent, with its version and its model.
    Named {
        /// Id of the agent.
        id: String,
        /// Version of the agent.
        #[serde(default)]
        #[schemars(range(min = 1))]
        version: Option<u64>,
        /// Model that is used instead of the agent's own.
        #[serde(default)]
        model: Option<AgentModelAsked>,
    },
}

/// Model of an agent: its id, or an object with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentModelAsked {
    /// Id of the model.
    Id(String),
    /// Object with the id of the model.
    Named {
        /// Id of the model.
        id: String,
    },
}

/// A thread of a session, as in the Managed Agents API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Id of the thread.
    pub id: String,
    /// Always `session_thread`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Id of the session.
    pub session_id: String,
    /// Agent of the session.
    pub agent: Agent,
    /// Status of the session.
    pub status: String,
    /// Always null: the thread is the session's own.
    pub parent_thread_id: Option<String>,
    /// Always null.
    pub workflow_run_id: Option<String>,
    /// Creation time of the session, RFC 3339.
    pub created_at: String,
    /// Time of the session's last work, RFC 3339.
    pub updated_at: String,
    /// Time at which the session was archived, RFC 3339.
    pub archived_at: Option<String>,
    /// Always null.
    pub stats: Option<BTreeMap<String, String>>,
    /// Always null.
    pub usage: Option<BTreeMap<String, String>>,
}

/// Threads of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadList {
    /// Threads of the session: only its own.
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
