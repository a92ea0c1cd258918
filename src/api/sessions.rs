//! Sessions as clients create, change and read them. It must not hold a rule; `service` checks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{
    events::{Gap, ItemOf, NewEvent, Receipt},
    hosted::{AgentAsked, Hosted},
};

/// A session: its members of the Managed Agents wire, and those that this store adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its name, unique in its scope.
    pub id: String,
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What its `session.status_*` events said last: `idle`, `running`, `rescheduling` or
    /// `terminated`; `idle` before any, `terminated` once archived.
    pub status: String,
    /// A line for people.
    pub title: Option<String>,
    /// Pairs of the client's.
    pub metadata: BTreeMap<String, String>,
    /// What it belongs to.
    pub workspace: Option<String>,
    /// Its own retention, idle seconds; null follows the store, 0 keeps it without end.
    pub ttl_seconds: Option<u64>,
    /// When it was created, RFC 3339.
    pub created_at: String,
    /// When it was last written to, RFC 3339.
    pub updated_at: String,
    /// When it was archived, RFC 3339.
    pub archived_at: Option<String>,
    /// Since when it is held, RFC 3339: it neither expires nor is deleted.
    pub held_at: Option<String>,
    /// The position the next event will get.
    pub tail: u64,
    /// Bytes of its records.
    pub bytes: u64,
    /// Place and chain value of the last durable event.
    pub receipt: Receipt,
    /// Damaged ranges; empty when the session is whole.
    pub damage: Vec<Gap>,
    /// Where it begins, when it is a fork.
    pub forked_from: Option<ForkedFrom>,
    /// What a hosted session has and a stored one has not.
    #[serde(flatten)]
    pub hosted: Hosted,
}

/// Where a fork begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkedFrom {
    /// The parent.
    pub session: String,
    /// Events before it belong to both.
    pub position: u64,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// The sessions.
    pub data: Vec<Session>,
    /// Cursor of the next page; null on the last one.
    pub next_page: Option<String>,
}

/// A new session. Other members of the Managed Agents wire that say what runs it are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreateSession {
    /// The client's id; the server gives one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub id: Option<String>,
    /// A line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// At most 16 pairs of 64 and 512 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// What it belongs to, for example a directory or a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Retention, idle seconds; absent follows the store, 0 keeps it without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Appended in the same frame: the session is created with them, or not created.
    #[schemars(with = "Option<Vec<NewEvent>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_events: Option<Vec<Box<RawValue>>>,
    /// The agent it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentAsked>,
    /// The environment its agent runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// In place of a title: the position of an event whose first words are the title as long as
    /// they are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_of: Option<u64>,
}

/// A change of a session. An absent member stays; `title: null` clears it; a metadata value of
/// null removes its key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UpdateSession {
    /// New title, or null to clear it.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub title: Option<Option<String>>,
    /// In place of a title: the position of an event whose first words are the title as long as
    /// they are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_of: Option<u64>,
    /// Pairs to set, or with null to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Option<String>>>,
}

/// Tells `null` (`Some(None)`) from absence (`None`).
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(input).map(Some)
}

/// What a deleted session leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionDeleted {
    /// The session.
    pub id: String,
    /// `session_deleted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Until when it can be restored; absent where its bytes were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restorable_until: Option<String>,
}

/// What an erased session leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionErased {
    /// The session.
    pub id: String,
    /// `session_erased`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Items of memory that were written from it and are kept in notebooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<ItemOf>,
}
