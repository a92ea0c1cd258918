//! The answer that is a backup: lines of JSON, each followed by the bytes that it announces. The
//! last line says that the backup is complete, or why it is not; without one the answer was cut. It
//! must not know where the bytes come from, or where they are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ErrorBody;

/// A line of the answer: one of its members is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackupLine {
    /// So many bytes of a file follow this line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<BackupPart>,
    /// All of it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete: Option<BackupMade>,
    /// It broke off, and this is why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<ErrorBody>,
}

/// The next bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupPart {
    /// The file's place in the directory, `/`-separated.
    pub path: String,
    /// Bytes that follow; the parts of a file are sent one after the other.
    pub bytes: u64,
}

/// What a backup holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupMade {
    /// The store's id, 32 hex digits.
    pub store: String,
    /// The moment it shows, RFC 3339: what was acknowledged before it began is in it.
    pub at: String,
    /// The same in microseconds since 1970.
    pub at_micros: i64,
    /// Sessions in it.
    pub sessions: u64,
    /// How many of them have damage that was not accepted as lost; the store has the same.
    pub damaged: u64,
    /// The id of the master key that opens it, 16 hex digits; null where it is in plaintext.
    pub key: Option<String>,
}
