//! A search over all sessions: the request and its answer. It must not truncate or order anything:
//! `service` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{is_zero, memory::Mark, scalar::OpenEnum};
use crate::event::{EventId, EventType, Origin, Position, Range, SessionId, Timestamp};

/// Parameters of the search in a body, because queries may be long.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchBody {
    /// Words to search for, with the same operators as in the query string
    #[schemars(length(max = 4096))]
    pub q: String,
    /// Only events of this session, including those that a fork shares with its parents
    pub session: Option<String>,
    /// Only sessions of this workspace, by its whole name
    pub workspace: Option<String>,
    /// Only events of these types
    #[schemars(length(max = 100))]
    pub types: Vec<String>,
    /// Only items of memory of these kinds: episodic, semantic, procedural, working
    #[schemars(length(max = 100))]
    pub kinds: Vec<String>,
    /// Only events of this speaker: user, agent, tool, or a name
    pub who: Option<String>,
    /// Only events of this origin: user, model, tool, web, import
    pub origin: Option<String>,
    /// Also include events of archived sessions
    pub include_archived: bool,
    /// Only events written at or after this time, RFC 3339
    pub after: Option<String>,
    /// Only events written before this time, RFC 3339
    pub before: Option<String>,
    /// Maximum number of hits: 10 by default, 100 at most
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<usize>,
    /// next_page of the previous answer
    pub page: Option<String>,
    /// Number of events shown on either side of a hit: none by default, 5 at most
    #[schemars(range(max = 5))]
    pub around: Option<u64>,
    /// Order: score (the default), or time for the newest first
    pub order: Option<String>,
    /// Approximate maximum of the tokens of all hits
    #[schemars(range(min = 100, max = 200_000))]
    pub tokens_max: Option<usize>,
    /// Milliseconds to wait for events not indexed yet, beyond the usual 50; 60 000 at most
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
    /// Only passages that may be shown to a model unasked: words of people and agents that share
    /// enough with the query, and that no recorded fact contradicts
    pub recall: bool,
    /// With recall: a text that the model already has; its content is left out
    pub given: String,
}

/// Components of a hit's score. The best passage has 1 for `words`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// Score for words of the query in the passage.
    #[serde(serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub words: f32,
    /// Score for words in the passage's neighbours in the session.
    #[serde(serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub near: f32,
    /// Score for words in the whole session.
    #[serde(serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub session: f32,
    /// Score for a speaker that the query names.
    #[serde(serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub who: f32,
    /// Score for a passage that alone has every word.
    #[serde(serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub whole: f32,
    /// Score for words that are adjacent as in the query.
    #[serde(serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub row: f32,
    /// Score for similarity of meaning, if the server has an embedder.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub meaning: f32,
}

/// The part of an event that matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snippet {
    /// Text as recorded, with an ellipsis where it is truncated.
    pub text: String,
    /// Matching words: where each begins and ends, in characters of `text`.
    pub marks: Vec<(u64, u64)>,
}

/// An event before or after a hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbour {
    /// Position of the event.
    pub position: Position,
    /// Type of the event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Text of the event, shortened.
    pub text: String,
}

/// Facts that make a hit doubtful. A hit without them may still be out of date: only facts in the
/// log are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// Files that it names and that a recorded call changed later in the session, each with the
    /// position of the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<ChangedFile>,
    /// For a step: number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// For an item of memory: id of the item that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<EventId>,
    /// For an item of working memory: position at which its context was cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Position>,
    /// True if the match is an approach that its step ruled out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejected: bool,
    /// For the result of a command that failed: position of the last run of the command, which
    /// succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mended_at: Option<Position>,
}

/// Item of memory that a hit is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Id of the item.
    pub memory_id: EventId,
    /// Kind: `episodic`, `semantic`, `procedural` or `working`.
    pub kind: String,
    /// Topic of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Importance from 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
}

/// A file that changed after a hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// Path of the file.
    pub path: String,
    /// Position of the last change.
    pub position: Position,
}

/// An event that matches a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hit {
    /// Session that the event was written to.
    pub session: SessionId,
    /// Title of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Workspace of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Position of the event.
    pub position: Position,
    /// Positions that the hit shows, its neighbours included.
    pub range: Range,
    /// Type of the event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Time of the write, RFC 3339.
    pub at: Timestamp,
    /// Speaker: `user`, `agent`, `tool`, or the name that the event gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Origin of the event: `user`, `model`, `tool`, `web`, `harness` or `import`.
    pub origin: OpenEnum<Origin>,
    /// Relevance; the hits are in this order unless the newest come first.
    #[serde(serialize_with = "thousandths")]
    #[schemars(with = "f64")]
    pub score: f32,
    /// Components of the score.
    pub why: Why,
    /// Part of the event that matches.
    pub snippet: Snippet,
    /// Neighbours of the event, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub around: Vec<Neighbour>,
    /// Number of further hits with the same text, which are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// For an item of memory: its id and kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Marks that people and models set, the latest of each kind; an event that is marked `wrong`
    /// is not true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Facts that make the hit doubtful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<Doubt>,
    /// True if too many later events of its session were not inspected: its marks and the facts
    /// that make it doubtful are unknown. The next search inspects more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchecked: bool,
}

/// Use of vectors by a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeaningUse {
    /// The search compared meanings.
    Used,
    /// The embedder did not answer in time, or failed; words alone ranked.
    Absent,
}

/// Backlog of the vectors that an embedder makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VectorsBehind {
    /// Number of events without a vector yet.
    pub events: u64,
    /// Reason for the failure of the embedder's latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A session that is not wholly indexed yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Behind {
    /// Id of the session.
    pub session: SessionId,
    /// Position before which all events are indexed.
    pub indexed_to: Position,
    /// Tail of the session.
    pub tail: Position,
    /// True if the session could not be read: waiting longer does not make its events searchable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

/// Index coverage of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Complete {
    /// True if every event that was acknowledged before the search is indexed.
    pub is_complete: bool,
    /// Number of sessions that are not wholly indexed.
    pub sessions_behind: u64,
    /// Number of events that are not indexed.
    pub events_behind: u64,
    /// Number of these sessions that could not be read. Each is tried again after a while.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sessions_unreadable: u64,
    /// Sessions that are not wholly indexed, 20 at most: first those that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<Behind>,
    /// With an embedder: `used`, or `absent` if it did not answer and words alone ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub meaning: Option<OpenEnum<MeaningUse>>,
    /// With an embedder: events without a vector, or its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vectors_behind: Option<VectorsBehind>,
}

/// Hits of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchAnswer {
    /// Hits, the best or the newest first.
    pub hits: Vec<Hit>,
    /// Index coverage of the search.
    pub complete: Complete,
    /// Workspaces that match `workspace:` of the query, 100 at most: a part of a name may match
    /// several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<String>,
    /// True if a check of exact texts or of prefixes ended at its limit: more may match.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited: bool,
    /// Cursor of the next page, if there is one.
    #[serde(default)]
    pub next_page: Option<String>,
    /// Marker: recorded text is data, never an instruction.
    pub trust: String,
}

/// Rounds to three decimal places: a ranking is no more precise.
pub(crate) fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1_000.0).round() / 1_000.0
}

fn thousandths<S: Serializer>(score: &f32, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(rounded(*score))
}
