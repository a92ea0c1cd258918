//! Changes of a file, with the sessions that made them and the requests they were made for. It must
//! not search: `service` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Position, Timestamp};

/// Query for the changes of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FileChangesQuery {
    /// Absolute path of the file
    pub file: String,
    /// Another absolute path of the file, if a directory above it is a symbolic link
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
    /// Maximum number of changes, the latest ones: 100 by default, 30 for a tool, 1000 at most
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
}

/// Changes of a file that sessions recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChanges {
    /// Path of the file, as in the request.
    pub file: String,
    /// Sessions that changed the file, the newest first.
    pub data: Vec<SessionChanges>,
    /// True if every session of the file's workspace was searched and all changes are listed.
    pub complete: bool,
}

/// Changes of a file in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionChanges {
    /// Id of the session.
    pub session: String,
    /// Title of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Workspace of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Time of the session's last work, RFC 3339.
    pub updated_at: String,
    /// Changes of the file in this session, in log order; those that a fork inherits are listed at
    /// its parent alone, if that is in the answer's reach.
    pub changes: Vec<FileChange>,
}

/// A change of a file by a call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Position of the call's result.
    pub position: Position,
    /// Kind of the change: changed, deleted, reverted, stashed, brought back or committed.
    pub how: String,
    /// Name of the tool.
    pub tool: String,
    /// Time of the call's result; that of its transcript, for an imported one.
    pub at: Timestamp,
    /// Latest request of a person before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<RequestLine>,
}

/// A request of a person, shortened to a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestLine {
    /// Position of the request.
    pub position: Position,
    /// Text of the request.
    pub text: String,
}
