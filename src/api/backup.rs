//! Format of a backup: lines of JSON, each followed by the bytes that it announces. The last line
//! says that the backup is complete, or why it failed; without one the answer was cut off. It must
//! not know where the bytes come from, or where they are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ErrorBody;

/// A line of a backup; exactly one member is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackupLine {
    /// Announces bytes of a file that follow this line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<BackupPart>,
    /// Summary, if the backup is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete: Option<BackupMade>,
    /// Error, if the backup failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<ErrorBody>,
}

/// The next bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupPart {
    /// Path of the file relative to the backup, separated by `/`.
    pub path: String,
    /// Number of bytes that follow; the parts of a file are sent one after the other.
    pub bytes: u64,
}

/// Summary of a complete backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupMade {
    /// Id of the store, 32 hex digits.
    pub store: String,
    /// Time of the backup, RFC 3339: it contains everything acknowledged before it began.
    pub at: String,
    /// The same time in microseconds since 1970.
    pub at_micros: i64,
    /// Number of sessions in the backup.
    pub sessions: u64,
    /// Number of them with damage that was not accepted as lost; the store has the same damage.
    pub damaged: u64,
    /// Id of the master key that opens the backup, 16 hex digits; null if it is in plaintext.
    pub key: Option<String>,
}
