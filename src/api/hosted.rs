//! The members of the Managed Agents wire about what runs a session: agent, environment and others.
//! A stored session does not run, so that most of them are empty. It must not hold anything that
//! changes with time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
