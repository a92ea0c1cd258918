//! Session metadata about the agent that runs it, under reserved names hidden from clients. A
//! stored session does not run, so only the agent's identity is stored. It must not hold data that
//! changes over time.

use std::collections::BTreeMap;

use super::{RESERVED_METADATA, ServiceError, ServiceResult, SessionInfo, SessionStatus};
use crate::{
    api::hosted::{
        Agent, AgentAsked, AgentIdentity, AgentModel, AgentModelAsked, HostedFields, Thread,
    },
    event::limits,
};

/// Agent and environment of a session created without one.
const LOCAL: &str = "local";
/// Model of an agent that was named without one.
const UNKNOWN: &str = "unknown";
/// Metadata name for the agent's id.
const AGENT: &str = "sessionlog.agent";
/// Metadata name for the agent's version.
const VERSION: &str = "sessionlog.agent_version";
/// Metadata name for the agent's model.
const MODEL: &str = "sessionlog.agent_model";
/// Metadata name for the environment.
const ENVIRONMENT: &str = "sessionlog.environment";
/// Metadata name that no session has.
const NEVER: &str = "sessionlog.never";

impl From<&SessionInfo> for Thread {
    fn from(info: &SessionInfo) -> Self {
        let session = &info.key.session;
        Self {
            id: format!("sthr_{session}"),
            kind: "session_thread".to_owned(),
            session_id: session.to_string(),
            agent: parse_hosted(&info.metadata).agent,
            status: SessionStatus::from_info(info).as_str().to_owned(),
            created_at: info.created_at.to_string(),
            updated_at: info.worked_at().to_string(),
            archived_at: info.archived_at.map(|time| time.to_string()),
            ..Self::default()
        }
    }
}

/// Reads the agent and environment from the metadata of a session.
pub(super) fn parse_hosted(metadata: &BTreeMap<String, String>) -> HostedFields {
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
    HostedFields { agent, environment_id, ..HostedFields::default() }
}

/// Returns the metadata without reserved names, as the client set it.
pub(super) fn client_metadata(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = |(name, _): &(&String, &String)| !name.starts_with(RESERVED_METADATA);
    metadata.iter().filter(own).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Rejects reserved names.
///
/// # Errors
/// `invalid_request`, naming the pair.
pub(super) fn check_names<'a>(names: impl IntoIterator<Item = &'a String>) -> ServiceResult<()> {
    match names.into_iter().find(|name| name.starts_with(RESERVED_METADATA)) {
        Some(name) => Err(ServiceError::invalid(
            &format!("metadata.{name}"),
            format!("names that begin with {RESERVED_METADATA} are the store's own"),
        )),
        None => Ok(()),
    }
}

/// Returns the metadata for the agent and environment of a new session.
///
/// # Errors
/// `invalid_request` for a name that is empty or too long.
pub(super) fn agent_metadata(
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

/// A metadata pair by which sessions are filtered.
#[derive(Clone, Debug)]
pub struct MetadataPair {
    /// Name of the pair.
    pub name: String,
    /// Value of the pair.
    pub value: String,
    /// Value assumed for a session without the pair.
    pub usual: Option<String>,
}

/// Returns the metadata filter for sessions created for an agent, and for a version of it if given.
/// No stored session has a deployment or a memory store: `unknown` is the id of one, if given.
#[must_use]
pub fn agent_filter(
    agent: Option<&str>,
    version: Option<u64>,
    unknown: Option<&str>,
) -> Vec<MetadataPair> {
    let pair = |name: &str, value: String, usual: Option<&str>| MetadataPair {
        name: name.to_owned(),
        value,
        usual: usual.map(str::to_owned),
    };
    let agent = agent.map(|id| pair(AGENT, id.to_owned(), Some(LOCAL)));
    let version = version.filter(|_| agent.is_some());
    let version = version.map(|version| pair(VERSION, version.to_string(), Some("1")));
    let unknown = unknown.map(|id| pair(NEVER, id.to_owned(), None));
    agent.into_iter().chain(version).chain(unknown).collect()
}
