//! Changes of a file, with the sessions that made them and the requests they were made for. It must
//! not hold a rule; `service` finds them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Position, Timestamp};

/// Question for the changes of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FileChangesQuery {
    /// The file: its absolute path
    pub file: String,
    /// Another absolute path of it, where a directory above it is a link
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
    /// Changes at most, the latest: 100 by default, 30 for a tool, 1000 at most
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
}

/// Changes of a file that sessions recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChanges {
    /// The file that was asked for.
    pub file: String,
    /// The sessions that changed it, the newest first.
    pub data: Vec<SessionChanges>,
    /// True if every session of the file's workspace was looked at and all changes are listed.
    pub complete: bool,
}

/// Changes of a file in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionChanges {
    /// The session.
    pub session: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// When it was last written to, RFC 3339.
    pub updated_at: String,
    /// Its changes of the file, in their order.
    pub changes: Vec<FileChange>,
}

/// A change of a file by a call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Position of the call's result.
    pub position: Position,
    /// Kind of the change: changed, deleted, reverted, stashed, brought back or committed.
    pub how: String,
    /// The tool.
    pub tool: String,
    /// When the call's result was recorded.
    pub at: Timestamp,
    /// The latest request of a person before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<RequestLine>,
}

/// A request of a person, shortened to a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestLine {
    /// Position of the request.
    pub position: Position,
    /// Its text.
    pub text: String,
}
