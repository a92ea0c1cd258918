//! Argument and answer of `fork_session`. It must not resolve a point.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NOTICE, TRUST, answer::bound_by, parts::none};
use crate::{api::sessions::Session, event::SessionId, service::BoundBy};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ForkSession {
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    /// Point to continue from, such as step:3, -5, end.
    #[serde(deserialize_with = "crate::api::point::text")]
    pub(crate) at: String,
    /// A line for people.
    pub(crate) title: Option<String>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForkAnswer {
    /// The fork: name it to continue there.
    session_id: String,
    /// The session it continues.
    parent_session_id: String,
    bound_by: &'static str,
    /// Events below it are common to both.
    position: u64,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    message: &'static str,
    trust: &'static str,
    notice: &'static str,
}

impl ForkAnswer {
    pub(crate) fn of(parent: &SessionId, by: BoundBy, fork: Session) -> Self {
        Self {
            session_id: fork.id,
            parent_session_id: parent.to_string(),
            bound_by: bound_by(by),
            position: fork.tail,
            title: fork.title,
            message: "this connection stays with the parent; send sessionId to continue in the fork",
            trust: TRUST,
            notice: NOTICE,
        }
    }
}
