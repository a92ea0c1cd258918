//! Requests and answers as clients write and read them. Both directions: the server serializes what
//! the client deserializes. It must not hold a rule; service checks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::hosted::{AgentAsked, Hosted};
use crate::event::Range;

/// Proof of what was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The tail when the receipt was given.
    pub position: u64,
    /// Chain value of the event before it, 64 hex digits.
    pub chain: String,
}

/// Positions that cannot be served, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// First position of the gap.
    pub from: u64,
    /// First position after the gap.
    pub to: u64,
    /// What was found.
    pub reason: String,
    /// When a person accepted the loss: it refuses nothing any more, and stays named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<String>,
}

/// A gap among the events of a stream or an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapLine {
    /// `gap`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is lost, and since when that is accepted.
    #[serde(flatten)]
    pub gap: Gap,
}

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

/// A redacted event as it is served from now on, and what was made of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventRedacted {
    /// What was made of it.
    #[serde(flatten)]
    pub beside: RedactedBeside,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// What was made of a redacted event.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RedactedBeside {
    /// Events that had words of it: the rest of the record it was made of, sources that the server
    /// found in it, answers given again; and what models of its workspace were given by hooks after
    /// it, which may repeat it. They were redacted with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyOf>,
    /// Items of memory that stand for it or were written from its session after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<ItemOf>,
}

/// An event that had words of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyOf {
    /// Its id.
    pub id: String,
    /// Its position.
    pub position: u64,
    /// Its session, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// An item of memory that was written from an erased session or may repeat a redacted event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemOf {
    /// Id of the item, which is an event.
    pub memory_id: String,
    /// The session that keeps it: a notebook for most.
    pub notebook: String,
    /// Its position in the notebook.
    pub position: u64,
    /// Whether its text was removed.
    pub redacted: bool,
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

/// An event as a client sends it: the members named here, and any others as its body.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewEvent {
    /// The client's name for it: a retry answers the same position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `{domain}.{action}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Precondition: the event must get exactly this position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The client's clock, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The body.
    #[serde(flatten)]
    pub body: BTreeMap<String, serde_json::Value>,
}

/// An event as the store returns it: the members named here first, then its body unchanged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its name, unique in the session.
    pub id: String,
    /// `{domain}.{action}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its place in the session: 0-based, dense, permanent.
    pub position: u64,
    /// The store's clock, RFC 3339; never decreases in a session.
    pub processed_at: String,
    /// The client's clock, when it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// `user`, `model`, `tool`, `web`, `harness` or `import`: set by the interface that received
    /// it.
    pub origin: String,
    /// The body.
    #[serde(flatten)]
    pub body: BTreeMap<String, serde_json::Value>,
}

/// A batch to append.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitRequest {
    /// 1 to 1 000 events: all are appended or none.
    #[schemars(with = "Vec<NewEvent>", length(min = 1, max = 1000))]
    pub events: Vec<Box<RawValue>>,
}

/// Answer to an append; the events are durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitAnswer {
    /// The events as they are kept, in the batch's order.
    #[schemars(with = "Vec<Event>")]
    pub data: Vec<Box<RawValue>>,
    /// Position of the batch's first event.
    pub first_position: u64,
    /// The tail after the batch.
    pub next_position: u64,
    /// Proof of the append.
    pub receipt: Receipt,
    /// Whether the batch was known already and nothing was written.
    pub repeated: bool,
    /// Notices about the events, such as a type that no view shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A line of an append stream: a batch for a session. Another member is refused.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AppendLine {
    /// The session.
    pub session: String,
    /// 1 to 1 000 events: all are appended or none.
    #[schemars(with = "Vec<NewEvent>")]
    pub events: Vec<Box<RawValue>>,
    /// The batch's first event must get this position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_position: Option<u64>,
    /// A retry with the same key within 24 h answers the same positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Token of the session's lease, when one is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// What the client calls the line, a text of at most 128 bytes or a whole number; it comes
    /// back with the answer.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
}

/// Answer to a line of an append stream; its events are durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LineAppended {
    /// Always `appended`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The line, from 1.
    pub line: u64,
    /// What the client called it.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
    /// The session.
    pub session: String,
    /// Position of the batch's first event.
    pub first_position: u64,
    /// The position after the batch's last event.
    pub next_position: u64,
    /// Proof of the append; it may cover batches that became durable together with this one.
    pub receipt: Receipt,
    /// Whether the batch was known already and nothing was written.
    pub repeated: bool,
}

/// Answer to a refused line; the lines after it are still read.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LineRefused {
    /// The error, as on any route.
    #[serde(flatten)]
    pub error: ErrorBody,
    /// The line, from 1.
    pub line: u64,
    /// What the client called it, as far as the line could be read.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
    /// The session, as far as the line could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// A slice of a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventsAnswer {
    /// The events, in the order asked for.
    #[schemars(with = "Vec<Event>")]
    pub data: Vec<Box<RawValue>>,
    /// Cursor of the next page; null when the range is done.
    pub next_page: Option<String>,
    /// The next `from`; newest first, the next `to`.
    pub next_position: u64,
    /// The position the next event of the session will get.
    pub tail: u64,
    /// What is missing among the positions answered for; only with `allow_gaps=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Where `types[]` matched no event of the range: the types of the session's last 200 events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types_seen: Vec<String>,
}

/// Any error, on any route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Always `error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What went wrong.
    pub error: ErrorDetail,
    /// The request, as in `x-request-id` and in the server's log.
    pub request_id: Option<String>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// One of the closed list of codes.
    #[serde(rename = "type")]
    pub code: String,
    /// A sentence for a person.
    pub message: String,
    /// What to do.
    #[serde(default)]
    pub recovery_hint: RecoveryHint,
}

/// What to do about an error, in facts; absent ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RecoveryHint {
    /// What to do next, one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Whether the same call may succeed later, unchanged.
    pub retryable: bool,
    /// After how many seconds, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The field that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The position the next event will get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// What is whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<Range>,
    /// What is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Gap>,
    /// The last step of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_step: Option<u64>,
    /// The number the refused step may have instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<u64>,
    /// Sessions to choose from: those of the caller's own workspace first, then the latest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// The tool call to make next, where the refused one was a tool's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<NextCall>,
}

/// A tool call that leads out of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// `unchanged`: send the refused call's other arguments with them. Absent: these are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_arguments: Option<String>,
}

/// A session that a caller without an id may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its id.
    pub session: String,
    /// Its goal or title.
    pub title: Option<String>,
    /// What it belongs to, for example a project's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Its tail.
    pub tail: u64,
    /// When it was last written to, RFC 3339.
    pub updated_at: String,
}

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
    pub position: u64,
    /// Where a shorter session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// The chain value at the receipt's position, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
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
    pub from: u64,
    /// First position after it.
    pub to: u64,
    /// What was found.
    pub reason: String,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
