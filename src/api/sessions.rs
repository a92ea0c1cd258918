//! Sessions as clients create, change and read them. It must not validate: `service` does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{
    events::{Gap, ItemOf, NewEvent, Receipt},
    hosted::{AgentAsked, HostedFields},
};

/// A session: its members in the Managed Agents API, and those that this store adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Id of the session, unique in its scope.
    pub id: String,
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status from its last `session.status_*` event: `idle`, `running`, `rescheduling` or
    /// `terminated`; `idle` before any, `terminated` once archived.
    pub status: String,
    /// Title for people.
    pub title: Option<String>,
    /// Metadata of the client.
    pub metadata: BTreeMap<String, String>,
    /// Workspace of the session, for example a directory or a project.
    pub workspace: Option<String>,
    /// Retention of its own, in idle seconds; null follows the store, 0 keeps it without end.
    pub ttl_seconds: Option<u64>,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Time of the last work, RFC 3339: of the latest events, marks left out. A title or the
    /// archive does not move it.
    pub updated_at: String,
    /// Time at which it was archived, RFC 3339.
    pub archived_at: Option<String>,
    /// Time since which it is held, RFC 3339: it neither expires nor is deleted.
    pub held_at: Option<String>,
    /// Position that the next event will get.
    pub tail: u64,
    /// Bytes of its records.
    pub bytes: u64,
    /// Proof of its durable events.
    pub receipt: Receipt,
    /// Damaged ranges; empty if the session is intact.
    pub damage: Vec<Gap>,
    /// Parent and first position, if it is a fork.
    pub forked_from: Option<ForkedFrom>,
    /// Members that describe what runs a hosted session.
    #[serde(flatten)]
    pub hosted: HostedFields,
}

/// Parent and first position of a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkedFrom {
    /// Id of the parent.
    pub session: String,
    /// First position of the fork: events before it belong to both.
    pub position: u64,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// Sessions of this page.
    pub data: Vec<Session>,
    /// Cursor of the next page; null on the last page.
    pub next_page: Option<String>,
}

/// A new session. Other members of the Managed Agents API that describe what runs it are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreateSession {
    /// Client's id for the session; the server generates one if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub id: Option<String>,
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Metadata: at most 16 pairs of 64 and 512 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Workspace of the session, for example a directory or a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Retention in idle seconds; if omitted it follows the store, 0 keeps it without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// First events, in the same frame: the session is created with them, or not created.
    #[schemars(with = "Option<Vec<NewEvent>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_events: Option<Vec<Box<RawValue>>>,
    /// Agent that the session is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentAsked>,
    /// Environment that its agent runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// Position of an event whose first words are the title while they exist, in place of `title`;
    /// if it is of a type without words, the first message of the user after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_of: Option<u64>,
}

/// A change of a session. An absent member stays; `title: null` clears the title; a metadata value
/// of null removes its key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UpdateSession {
    /// New title, or null to clear it.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub title: Option<Option<String>>,
    /// Position of an event whose first words are the title while they exist, in place of `title`;
    /// if it is of a type without words, the first message of the user after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_of: Option<u64>,
    /// Metadata to set, or with null to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Option<String>>>,
}

/// Distinguishes `null` (`Some(None)`) from absence (`None`).
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(input).map(Some)
}

/// Answer to the deletion of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionDeleted {
    /// Id of the session.
    pub id: String,
    /// Always `session_deleted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time until which it can be restored; absent if its bytes were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restorable_until: Option<String>,
}

/// Answer to the erasure of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionErased {
    /// Id of the session.
    pub id: String,
    /// Always `session_erased`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Items of memory in notebooks that were written from the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<ItemOf>,
}
