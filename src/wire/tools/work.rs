//! Answers of the checkpoint tools, and checkpoints in a history. A state that does not fit the
//! answer is truncated. They must not choose a checkpoint.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::parts::none;
use crate::{
    api::work::{Checkpoint, CheckpointState, Lease, OpenCall, StartFrom, Unfinished},
    event::{Position, Timestamp},
    harness::fit,
    service::{ResumeResult, UnfinishedSession},
};

/// Maximum bytes of a state, and of a plan, in an answer.
const STATE_BYTES_MAX: usize = 8_000;
/// Maximum bytes of a state in a history.
const HISTORY_STATE_BYTES_MAX: usize = 1_500;
/// Maximum bytes of a title in a history.
const TITLE_BYTES_MAX: usize = 120;
/// Maximum number of calls without a result in an answer.
const OPEN_CALLS_MAX: usize = 10;

/// Answer to a new checkpoint.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckpointMade {
    checkpoint_id: String,
    /// Position of the checkpoint: events before it are covered.
    position: Position,
    #[serde(skip_serializing_if = "none")]
    parent_id: Option<String>,
    tail: Position,
}

impl From<(Checkpoint, Position)> for CheckpointMade {
    fn from((made, tail): (Checkpoint, Position)) -> Self {
        let Checkpoint { id, position, parent, .. } = made;
        Self { checkpoint_id: id, position, parent_id: parent, tail }
    }
}

/// Answer to a resumed session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResumedOut {
    /// Absent if a session without a checkpoint was woken.
    #[serde(skip_serializing_if = "none")]
    checkpoint: Option<CheckpointShown>,
    /// Id of the checkpoint to continue from.
    #[serde(skip_serializing_if = "none")]
    resumed_as: Option<String>,
    /// Number of events after the checkpoint: get_events from its position.
    events_behind: u64,
    tail: Position,
    /// Exclusive right to write to the session.
    #[serde(skip_serializing_if = "none")]
    lease: Option<Lease>,
    /// Work that an earlier harness left unfinished; absent if there is none.
    #[serde(skip_serializing_if = "none")]
    unfinished: Option<UnfinishedOut>,
}

impl From<ResumeResult> for ResumedOut {
    fn from(taken: ResumeResult) -> Self {
        let events_behind = taken.resumed.as_ref().map_or(taken.tail.0, |from| from.behind.len());
        let resumed = taken.resumed.map(|from| (from.checkpoint, from.resumed_as.id));
        let (checkpoint, resumed_as) = resumed.unzip();
        Self {
            checkpoint: checkpoint.map(|found| CheckpointShown::new(found, STATE_BYTES_MAX)),
            resumed_as,
            events_behind,
            tail: taken.tail,
            lease: taken.lease,
            unfinished: taken.unfinished.map(UnfinishedOut::from),
        }
    }
}

/// A checkpoint with its state, as far as it fits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckpointShown {
    id: String,
    #[serde(skip_serializing_if = "none")]
    label: Option<String>,
    position: u64,
    created_at: String,
    /// True if it marks the work as done.
    #[serde(rename = "final")]
    done: bool,
    /// State as it was sent.
    #[serde(skip_serializing_if = "none")]
    state: Option<Map<String, Value>>,
    /// Beginning of a state that is too large for the answer.
    #[serde(skip_serializing_if = "none")]
    state_preview: Option<String>,
    /// Current plan.
    #[serde(skip_serializing_if = "none")]
    plan: Option<Map<String, Value>>,
    /// Beginning of a plan that is too large for the answer.
    #[serde(skip_serializing_if = "none")]
    plan_preview: Option<String>,
}

impl CheckpointShown {
    fn new(found: CheckpointState, bytes_max: usize) -> Self {
        let CheckpointState { checkpoint: one, state, plan, .. } = found;
        let state = Some(state).filter(|state| !state.is_empty()).map(Value::Object);
        let (state, state_preview) = fit_value(state, bytes_max);
        let (plan, plan_preview) = fit_value(plan, bytes_max);
        // A plan is the body of an event, which is an object as well.
        let members = |value: Option<Value>| match value {
            Some(Value::Object(members)) => Some(members),
            _ => None,
        };
        Self {
            id: one.id,
            label: one.label,
            position: one.position.0,
            created_at: one.created_at,
            done: one.done,
            state: members(state),
            state_preview,
            plan: members(plan),
            plan_preview,
        }
    }
}

/// Returns a value that fits, or the beginning of its text.
fn fit_value(value: Option<Value>, bytes_max: usize) -> (Option<Value>, Option<String>) {
    let Some(value) = value else { return (None, None) };
    let text = value.to_string();
    if text.len() <= bytes_max {
        return (Some(value), None);
    }
    (None, Some(fit(&text, bytes_max).text))
}

/// Unfinished work of an earlier harness.
#[derive(Debug, Serialize, JsonSchema)]
struct UnfinishedOut {
    /// First event that no checkpoint covers.
    since_checkpoint: u64,
    /// Calls without a result, the newest first.
    open_calls: Vec<OpenCall>,
    open_call_count: u64,
    /// True if its lease was not released.
    lease_kept: bool,
}

impl From<Unfinished> for UnfinishedOut {
    fn from(left: Unfinished) -> Self {
        let calls = left.open_calls.iter().rev().take(OPEN_CALLS_MAX).map(|call| OpenCall {
            call_id: fit(&call.call_id, TITLE_BYTES_MAX).text,
            name: fit(&call.name, TITLE_BYTES_MAX).text,
            position: call.position,
        });
        Self {
            since_checkpoint: left.since_checkpoint.from.0,
            open_calls: calls.collect(),
            open_call_count: left.open_calls.len() as u64,
            lease_kept: left.lease_kept,
        }
    }
}

/// Starting point for the next session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartOut {
    session_id: String,
    checkpoint: CheckpointShown,
}

impl From<StartFrom> for StartOut {
    fn from(start: StartFrom) -> Self {
        let checkpoint = CheckpointShown::new(start.checkpoint, HISTORY_STATE_BYTES_MAX);
        Self { session_id: start.session, checkpoint }
    }
}

/// A session with unfinished work.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UnfinishedSessionOut {
    session_id: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    updated_at: Timestamp,
    tail: u64,
    /// Id of its last checkpoint: resume continues from there.
    #[serde(skip_serializing_if = "none")]
    checkpoint_id: Option<String>,
    /// True if its lease is still held.
    leased: bool,
}

impl From<&UnfinishedSession> for UnfinishedSessionOut {
    fn from(left: &UnfinishedSession) -> Self {
        let title = left.info.title.as_ref();
        Self {
            session_id: left.info.key.session.to_string(),
            title: title.map(|text| fit(text, TITLE_BYTES_MAX).text),
            updated_at: left.info.worked_at(),
            tail: left.info.tail.0,
            checkpoint_id: left.checkpoint.as_ref().map(|one| one.id.clone()),
            leased: left.leased,
        }
    }
}
