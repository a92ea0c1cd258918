//! Arguments and answers of the checkpoint tools, and what a history tells of checkpoints. A state
//! that does not fit the answer is shown by its beginning. They must not decide which checkpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    NOTICE, TRUST,
    answer::bound_by,
    parts::{none, time},
};
use crate::{
    api::work::{self, CheckpointState, Lease, StartFrom, Unfinished, WakeRequest},
    event::{BatchKey, Position, SessionId},
    harness::fit,
    service::{BoundBy, Left, ServiceError, ServiceResult, TakeUp, TakenUp},
};

/// Bytes of a state, and of a plan, in an answer.
const STATE_BYTES_MAX: usize = 8_000;
/// Bytes of a state in a history.
const HISTORY_STATE_BYTES_MAX: usize = 1_500;
/// Bytes of a title in a history.
const TITLE_BYTES_MAX: usize = 120;
/// Calls without a result in an answer.
const OPEN_CALLS_MAX: usize = 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Checkpoint {
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    pub(crate) label: Option<String>,
    /// A line of work of its own.
    pub(crate) thread: Option<String>,
    /// Id or label; default the last.
    pub(crate) parent: Option<String>,
    /// Point; default end.
    #[serde(default, deserialize_with = "crate::api::point::option")]
    pub(crate) at: Option<String>,
    /// Task, done, next: all of it.
    pub(crate) state: Option<Map<String, Value>>,
    /// Instead: its changes (merge patch).
    pub(crate) state_delta: Option<Map<String, Value>>,
    /// The work is done.
    #[serde(rename = "final")]
    pub(crate) done: Option<bool>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckpointAnswer {
    session_id: String,
    bound_by: &'static str,
    checkpoint_id: String,
    /// Events before it are part of it.
    position: u64,
    #[serde(skip_serializing_if = "none")]
    parent_id: Option<String>,
    tail: u64,
}

impl CheckpointAnswer {
    pub(crate) fn of(
        session: &SessionId,
        by: BoundBy,
        (made, tail): (work::Checkpoint, Position),
    ) -> Self {
        Self {
            session_id: session.to_string(),
            bound_by: bound_by(by),
            checkpoint_id: made.id,
            position: made.position.0,
            parent_id: made.parent,
            tail: tail.0,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Resume {
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    /// Id or label; default the last one.
    checkpoint: Option<String>,
    /// Take the session's lease: no other caller writes until it ends. With your token: renew it.
    wake: Option<bool>,
    /// With wake: take the lease from its holder.
    steal: Option<bool>,
    /// With wake: its lifetime; default 300.
    #[schemars(range(min = 1, max = 86_400))]
    ttl_seconds: Option<u64>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl Resume {
    pub(crate) fn into_call(self, key: Option<BatchKey>) -> ServiceResult<TakeUp> {
        let wake = self.wake.unwrap_or(false);
        let alone =
            [("steal", self.steal == Some(true)), ("ttlSeconds", self.ttl_seconds.is_some())];
        if let Some((field, _)) = alone.into_iter().find(|(_, said)| *said && !wake) {
            let problem = "it says how to take the lease, which goes with wake";
            return Err(ServiceError::invalid(field, problem).action("send wake: true with it"));
        }
        let wake = wake.then(|| WakeRequest {
            steal: self.steal.unwrap_or(false),
            ttl_seconds: self.ttl_seconds,
        });
        Ok(TakeUp { checkpoint: self.checkpoint, wake, key })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeAnswer {
    session_id: String,
    bound_by: &'static str,
    /// Absent when a session was woken that has none.
    #[serde(skip_serializing_if = "none")]
    checkpoint: Option<CheckpointShown>,
    /// The checkpoint to continue from.
    #[serde(skip_serializing_if = "none")]
    resumed_as: Option<String>,
    /// Events after the checkpoint: get_events from its position.
    events_behind: u64,
    tail: u64,
    /// The right to write to the session alone.
    #[serde(skip_serializing_if = "none")]
    lease: Option<LeaseOut>,
    /// Work that an earlier harness did not end; absent when there is none.
    #[serde(skip_serializing_if = "none")]
    unfinished: Option<UnfinishedOut>,
    trust: &'static str,
    notice: &'static str,
}

/// A checkpoint with its state, as far as it fits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckpointShown {
    id: String,
    #[serde(skip_serializing_if = "none")]
    label: Option<String>,
    position: u64,
    created_at: String,
    /// Whether it marks the work as done.
    #[serde(rename = "final")]
    done: bool,
    /// The state as it was sent.
    #[serde(skip_serializing_if = "none")]
    state: Option<Map<String, Value>>,
    /// The beginning of a state too large for the answer.
    #[serde(skip_serializing_if = "none")]
    state_preview: Option<String>,
    /// The plan in force.
    #[serde(skip_serializing_if = "none")]
    plan: Option<Map<String, Value>>,
    /// The beginning of a plan too large for the answer.
    #[serde(skip_serializing_if = "none")]
    plan_preview: Option<String>,
}

impl CheckpointShown {
    fn of(found: CheckpointState, bytes_max: usize) -> Self {
        let CheckpointState { checkpoint: one, state, plan, .. } = found;
        let state = Some(state).filter(|state| !state.is_empty()).map(Value::Object);
        let (state, state_preview) = fitting(state, bytes_max);
        let (plan, plan_preview) = fitting(plan, bytes_max);
        // A plan is the body of an event, which is an object, too.
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

/// A value, or the beginning of its text.
fn fitting(value: Option<Value>, bytes_max: usize) -> (Option<Value>, Option<String>) {
    let Some(value) = value else { return (None, None) };
    let text = value.to_string();
    if text.len() <= bytes_max {
        return (Some(value), None);
    }
    (None, Some(fit(&text, bytes_max).text))
}

impl ResumeAnswer {
    pub(crate) fn of(session: &SessionId, by: BoundBy, taken: TakenUp) -> Self {
        let events_behind = taken.resumed.as_ref().map_or(taken.tail.0, |from| from.behind.len());
        let resumed = taken.resumed.map(|from| (from.checkpoint, from.resumed_as.id));
        let (checkpoint, resumed_as) = resumed.unzip();
        Self {
            session_id: session.to_string(),
            bound_by: bound_by(by),
            checkpoint: checkpoint.map(|found| CheckpointShown::of(found, STATE_BYTES_MAX)),
            resumed_as,
            events_behind,
            tail: taken.tail.0,
            lease: taken.lease.map(LeaseOut::from),
            unfinished: taken.unfinished.map(UnfinishedOut::from),
            trust: TRUST,
            notice: NOTICE,
        }
    }
}

/// A lease that a harness got or kept.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LeaseOut {
    /// Send it with every call that writes.
    fencing_token: u64,
    ttl_seconds: u64,
    expires_at: String,
}

impl From<Lease> for LeaseOut {
    fn from(lease: Lease) -> Self {
        let Lease { fencing_token, ttl_seconds, expires_at } = lease;
        Self { fencing_token, ttl_seconds, expires_at }
    }
}

/// Work of a harness that did not mark it as done.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UnfinishedOut {
    /// First event that no checkpoint covers.
    since_checkpoint: u64,
    /// Calls without a result, the newest first.
    open_calls: Vec<OpenCallOut>,
    open_call_count: u64,
    /// Its lease was not released.
    lease_kept: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OpenCallOut {
    call_id: String,
    name: String,
    position: u64,
}

impl From<Unfinished> for UnfinishedOut {
    fn from(left: Unfinished) -> Self {
        let calls = left.open_calls.iter().rev().take(OPEN_CALLS_MAX).map(|call| OpenCallOut {
            call_id: fit(&call.call_id, TITLE_BYTES_MAX).text,
            name: fit(&call.name, TITLE_BYTES_MAX).text,
            position: call.position.0,
        });
        Self {
            since_checkpoint: left.since_checkpoint.from.0,
            open_calls: calls.collect(),
            open_call_count: left.open_calls.len() as u64,
            lease_kept: left.lease_kept,
        }
    }
}

/// What a next session starts from.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartOut {
    session_id: String,
    checkpoint: CheckpointShown,
}

impl From<StartFrom> for StartOut {
    fn from(start: StartFrom) -> Self {
        let checkpoint = CheckpointShown::of(start.checkpoint, HISTORY_STATE_BYTES_MAX);
        Self { session_id: start.session, checkpoint }
    }
}

/// A session with work that was not ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeftOut {
    session_id: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    updated_at: String,
    tail: u64,
    /// Its last checkpoint: resume continues from there.
    #[serde(skip_serializing_if = "none")]
    checkpoint_id: Option<String>,
    /// Whether its lease is still held.
    leased: bool,
}

impl From<&Left> for LeftOut {
    fn from(left: &Left) -> Self {
        let title = left.info.title.as_ref();
        Self {
            session_id: left.info.key.session.to_string(),
            title: title.map(|text| fit(text, TITLE_BYTES_MAX).text),
            updated_at: time(left.info.updated_at),
            tail: left.info.tail.0,
            checkpoint_id: left.checkpoint.as_ref().map(|one| one.id.clone()),
            leased: left.leased,
        }
    }
}
