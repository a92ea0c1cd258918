//! Requests and answers of operators, and of front ends that look for an owner. It must not decide
//! what is given up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::events::Gap;
use crate::event::Position;

/// What to verify.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VerifyRequest {
    /// One session; when absent every session of the caller's, or of every tenant where the
    /// credential has the scope `operator`.
    pub session: Option<String>,
    /// A receipt of that session that was kept elsewhere, as `POSITION:CHAIN`.
    pub expect_head: Option<String>,
}

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyAnswer {
    /// Sessions read.
    pub sessions: u64,
    /// Events read.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Every damage found; empty when all is whole.
    pub damage: Vec<Damage>,
    /// Losses that were accepted.
    pub accepted: Vec<Damage>,
    /// Whether the session has what the receipt proves, when one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadAnswer>,
}

/// Damage found in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// The session.
    pub session: String,
    /// Its tenant, where it is not the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its user, where it is not the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// First position of the damage.
    pub from: Position,
    /// First position after it.
    pub to: Position,
    /// What was found.
    pub reason: String,
}

/// Whether a session has what a receipt proves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeadAnswer {
    /// Whether everything that the receipt saw is there, in its order.
    pub holds: bool,
    /// `holds`; `shorter`: an earlier state was restored; `differs`: its events are others; `lost`:
    /// the event there cannot be read; `damaged`: the chain is the same, and events before it are
    /// lost.
    pub state: String,
    /// The receipt's position.
    pub position: Position,
    /// Where a shorter session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Position>,
    /// The chain value at the receipt's position, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
}

/// What to repair: a session, or what of the store names none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RepairRequest {
    /// The session.
    pub session: Option<String>,
    /// `true`, and no session: what is lost of the store and names no session.
    pub store: bool,
    /// Give it up; `false` only answers what is lost.
    pub accept_loss: bool,
}

/// What a repair gave up, or would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairAnswer {
    /// Whether it was given up.
    pub accepted: bool,
    /// Events lost.
    pub events_lost: u64,
    /// What is lost of the session; a gap without a position is a control record or a table.
    pub gaps: Vec<Gap>,
    /// What is lost of the store and names no session.
    pub unnamed: Vec<String>,
    /// Names in `quarantine/` of copies of what could not be read.
    pub copies: Vec<String>,
}

/// What a data directory wants of master keys, and what there is of them. An id tells nothing of
/// its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeysAnswer {
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The id of the master key in force: 16 hex digits.
    pub current: Option<String>,
    /// That of the one before, while a rotation is under way: a start wants both.
    pub previous: Option<String>,
    /// Those that were given.
    pub given: Vec<String>,
    /// Whether it opens with the keys given.
    pub opens: bool,
    /// Keys of sessions, those made ahead included.
    pub keys: u64,
    /// Of these not yet under the master key in force.
    pub behind: u64,
    /// Keys that were destroyed: of sessions that were erased, or are gone.
    pub destroyed: u64,
    /// Keys that neither file has whole.
    pub unreadable: u64,
}

/// What the last start found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryReport {
    /// Whether the store was stopped cleanly before.
    pub clean: bool,
    /// Sessions known.
    pub sessions: u64,
    /// Journal frames replayed.
    pub frames_replayed: u64,
    /// Bytes of torn tails, never acknowledged; copied to quarantine.
    pub torn_bytes: u64,
    /// Bad places of the journal that took nothing with them: a segment had what lay there.
    pub made_good: u64,
    /// Damage to acknowledged bytes, for a person.
    pub damage: Vec<String>,
    /// Copies of refused bytes in `quarantine/`, of this start and of earlier ones.
    pub quarantined: Vec<String>,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// What reading everything back in the background found since.
    pub scrub: ScrubReport,
}

/// What reading everything back in the background found, the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubReport {
    /// Times everything was read since the start.
    pub rounds: u64,
    /// Sessions read the last time.
    pub sessions: u64,
    /// Bytes read the last time.
    pub bytes: u64,
    /// Damage found the last time, for a person.
    pub found: Vec<String>,
}

/// Who owns the data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Whether it was started for a front end and leaves when idle.
    pub on_demand: bool,
    /// The data directory.
    pub data_dir: String,
    /// Where it listens for HTTP and MCP; null for one that was started for a front end.
    pub url: Option<String>,
    /// Its settings that front ends must have alike, `name=value` with blanks between.
    pub config_digest: String,
}

/// A server, and where its things are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// `sessionlog`.
    pub name: String,
    /// Where the whole description is.
    pub openapi: String,
    /// Where MCP is spoken.
    pub mcp: String,
    /// Every route: its method, its path, and what it does.
    pub routes: Vec<String>,
}

/// Whether something works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// `ok` or `ready`.
    pub status: String,
}
