//! Requests and answers for operators, and for front ends that look for an owner. It must not
//! decide which losses are accepted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::events::Gap;
use crate::event::Position;

/// Request for a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VerifyRequest {
    /// Id of the session to verify. If omitted: every session of the caller, or of every tenant if
    /// the credential has the scope `operator`.
    pub session: Option<String>,
    /// Receipt of that session that was kept elsewhere, as `POSITION:CHAIN`.
    pub expect_head: Option<String>,
}

/// Result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyAnswer {
    /// Number of sessions read.
    pub sessions: u64,
    /// Number of events read.
    pub events: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Damage found; empty if the data is intact.
    pub damage: Vec<Damage>,
    /// Damage that a person has accepted as lost.
    pub accepted: Vec<Damage>,
    /// Result for the receipt, if one was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadAnswer>,
}

/// Damage found in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// Id of the damaged session.
    pub session: String,
    /// Tenant of the session, if it is not the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// User of the session, if it is not the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// First damaged position.
    pub from: Position,
    /// First position after the damage.
    pub to: Position,
    /// Description of the damage.
    pub reason: String,
}

/// Result of comparing a session with a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeadAnswer {
    /// True if the session has every event that the receipt covers, in the same order.
    pub holds: bool,
    /// `holds`; `shorter`: an earlier state was restored; `differs`: the events are different ones;
    /// `lost`: the event at the position cannot be read; `damaged`: the chain matches, but earlier
    /// events are lost.
    pub state: String,
    /// Position of the receipt.
    pub position: Position,
    /// Tail of a session that is shorter than the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Position>,
    /// Chain value of the session at the receipt's position, if it differs from the receipt's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
}

/// Request for a repair of a session, or of damage that cannot be attributed to a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RepairRequest {
    /// Id of the session.
    pub session: Option<String>,
    /// True for the damage that cannot be attributed to a session; `session` must be absent.
    pub store: bool,
    /// True to accept the loss; false only lists it.
    pub accept_loss: bool,
}

/// Losses that a repair accepted, or would accept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairAnswer {
    /// True if the loss was accepted.
    pub accepted: bool,
    /// Number of lost events.
    pub events_lost: u64,
    /// Lost parts of the session; a gap without a position is a control record or a table.
    pub gaps: Vec<Gap>,
    /// Descriptions of losses that cannot be attributed to a session.
    pub unnamed: Vec<String>,
    /// Names of files in `quarantine/` with copies of the unreadable bytes.
    pub copies: Vec<String>,
}

/// Master keys that a data directory needs, and those that the server has. An id reveals nothing
/// about its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeysAnswer {
    /// True if the data directory is encrypted.
    pub encrypted: bool,
    /// Id of the current master key, 16 hex digits.
    pub current: Option<String>,
    /// Id of the previous master key during a rotation: a start needs both keys.
    pub previous: Option<String>,
    /// Ids of the master keys that were given to the server.
    pub given: Vec<String>,
    /// True if the given keys open the data directory.
    pub opens: bool,
    /// Number of session keys, including those generated ahead of use.
    pub keys: u64,
    /// Number of session keys that are not yet wrapped with the current master key.
    pub behind: u64,
    /// Number of destroyed keys: of sessions that were erased or no longer exist.
    pub destroyed: u64,
    /// Number of keys that are intact in neither of the two key files.
    pub unreadable: u64,
}

/// Findings and actions of the last start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryReport {
    /// True if the store was stopped cleanly before the start.
    pub clean: bool,
    /// Number of known sessions.
    pub sessions: u64,
    /// Number of journal frames replayed.
    pub frames_replayed: u64,
    /// Bytes of torn tails, which were never acknowledged; copied to quarantine.
    pub torn_bytes: u64,
    /// Number of damaged journal regions that lost nothing: a segment had their content.
    pub made_good: u64,
    /// Descriptions of damage to acknowledged bytes, for a person.
    pub damage: Vec<String>,
    /// Names of copies of refused bytes in `quarantine/`, from this start and earlier ones.
    pub quarantined: Vec<String>,
    /// Duration of the start, in microseconds.
    pub micros: u64,
    /// Findings of the background scrub since the start.
    pub scrub: ScrubReport,
}

/// Findings of the background scrub, which reads all data, in its latest round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubReport {
    /// Number of complete rounds since the start.
    pub rounds: u64,
    /// Number of sessions read in the latest round.
    pub sessions: u64,
    /// Number of bytes read in the latest round.
    pub bytes: u64,
    /// Descriptions of damage found in the latest round, for a person.
    pub found: Vec<String>,
}

/// Process that owns the data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// True if a front end started the process; it exits when idle.
    pub on_demand: bool,
    /// Path of the data directory.
    pub data_dir: String,
    /// URL for HTTP and MCP; null for an owner that a front end started.
    pub url: Option<String>,
    /// Settings that front ends must share with the owner, as `name=value` separated by blanks.
    pub config_digest: String,
    /// Every setting that the process started with.
    pub settings: Vec<EffectiveSetting>,
    /// Database that several nodes share as the store; null for a store in the data directory.
    #[serde(default)]
    pub shared: Option<SharedStore>,
}

/// Database that several nodes share as a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedStore {
    /// Durability of a commit: `weak` (a crash of the server may lose it), `single` (the loss of
    /// the server does) or `replicated` (a synchronous standby has it as well).
    pub durability: String,
    /// Nodes that reported within the last ten seconds; first the one that answers.
    pub nodes: Vec<StoreNode>,
}

/// Process that serves a shared store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreNode {
    /// Machine and process id, as `HOST/PID`.
    pub place: String,
    /// Version of the program.
    pub version: String,
    /// Milliseconds since its last report to the database.
    pub silent_ms: u64,
    /// True if it has the version and the lifetimes of the node that answers, as it should.
    pub alike: bool,
}

/// A setting as a process uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveSetting {
    /// Name of the setting.
    pub name: String,
    /// Value as given; null if it is not set, without its text for a secret.
    pub value: Option<String>,
    /// Source of the value: `default`, a flag, a variable of the environment, or a file.
    pub source: String,
}

/// A server, and the addresses of its interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Name of the program: `sessionlog`.
    pub name: String,
    /// Path of the OpenAPI description.
    pub openapi: String,
    /// Path of the MCP endpoint.
    pub mcp: String,
    /// Every route, as its method, path and description.
    pub routes: Vec<String>,
}

/// Condition of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// `ok` or `ready`.
    pub status: String,
}
