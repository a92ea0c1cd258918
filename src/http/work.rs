//! Routes on the work on a session: cursors, checkpoints, leases, and the history. It must not
//! decide who may write.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    body::{Conditions, InPath, JsonBody, NameInPath, Who},
    describe::Refusals,
    params::Params,
    refuse::Refusal,
};
use crate::{
    event::{Point, Position},
    service::{NewCheckpoint, ServiceError},
    verbs::routes,
    wire::work::{
        Checkpoint, CheckpointList, CheckpointState, CreateCheckpoint, Cursor, CursorDeleted,
        CursorList, HistoryAnswer, Lease, LeaseReleased, PutCursor, RenewRequest, ResumeAnswer,
        WakeAnswer, WakeRequest,
    },
};

/// A point that a body names.
fn point(field: &str, text: &str) -> Result<Point, ServiceError> {
    Point::parse(text).map_err(|error| ServiceError::invalid(field, error))
}

/// Puts a cursor: where a reader goes on.
#[utoipa::path(
    put, path = routes::PUT_CURSOR.path, operation_id = routes::PUT_CURSOR.id, tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The cursor's name"),
    ),
    request_body(content = Option<PutCursor>, description = "Where; the tail when nothing is said"),
    responses((status = 200, description = "The cursor, durable", body = Cursor), Refusals)
)]
pub(super) async fn put_cursor(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
    JsonBody(asked): JsonBody<PutCursor>,
) -> Result<Json<Cursor>, Refusal> {
    let at = match (asked.position, asked.at.as_deref()) {
        (Some(_), Some(_)) => {
            return Err(Refusal::invalid("at", "it takes the place of position"));
        }
        (Some(position), None) => Point::At(Position(position)),
        (None, Some(text)) => point("at", text)?,
        (None, None) => Point::End,
    };
    Ok(Json(door.app.service.put_cursor(&caller, &session, &name, &at).await?.into()))
}

/// Where a cursor is.
#[utoipa::path(
    get, path = routes::GET_CURSOR.path, operation_id = routes::GET_CURSOR.id, tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The cursor's name"),
    ),
    responses((status = 200, description = "The cursor", body = Cursor), Refusals)
)]
pub(super) async fn get_cursor(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<Cursor>, Refusal> {
    Ok(Json(door.app.service.get_cursor(&caller, &session, &name).await?.into()))
}

/// Takes a cursor away.
#[utoipa::path(
    delete, path = routes::DELETE_CURSOR.path, operation_id = routes::DELETE_CURSOR.id, tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The cursor's name"),
    ),
    responses((status = 200, description = "The cursor is gone", body = CursorDeleted), Refusals)
)]
pub(super) async fn delete_cursor(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<CursorDeleted>, Refusal> {
    door.app.service.delete_cursor(&caller, &session, &name).await?;
    Ok(Json(CursorDeleted { name, kind: "cursor_deleted".to_owned() }))
}

/// Every cursor of a session, by name.
#[utoipa::path(
    get, path = routes::LIST_CURSORS.path, operation_id = routes::LIST_CURSORS.id, tag = "events",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "The cursors", body = CursorList), Refusals)
)]
pub(super) async fn list_cursors(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<CursorList>, Refusal> {
    let cursors = door.app.service.list_cursors(&caller, &session).await?;
    Ok(Json(CursorList { data: cursors.into_iter().map(Cursor::from).collect() }))
}

/// Makes a checkpoint: a place to come back to, and what changed of the agent's state.
#[utoipa::path(
    post, path = routes::CREATE_CHECKPOINT.path, operation_id = routes::CREATE_CHECKPOINT.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("Fencing-Token" = Option<u64>, Header, description = "Token of the lease, when one is held"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 128, description = "A retry with the same key makes no second checkpoint"),
    ),
    request_body(content = Option<CreateCheckpoint>, description = "What it says"),
    responses((status = 201, description = "The checkpoint, durable", body = Checkpoint), Refusals)
)]
pub(super) async fn create_checkpoint(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    conditions: Conditions,
    JsonBody(asked): JsonBody<CreateCheckpoint>,
) -> Result<Response, Refusal> {
    let new = NewCheckpoint {
        at: asked.at.as_deref().map(|text| point("at", text)).transpose()?,
        label: asked.label,
        thread: asked.thread,
        parent: asked.parent,
        state: asked.state,
        delta: asked.state_delta,
        done: asked.done,
        key: conditions.key,
        ..NewCheckpoint::default()
    };
    let made = door.app.service.checkpoint(&caller, &session, new).await?;
    Ok((StatusCode::CREATED, Json(Checkpoint::from(&made))).into_response())
}

/// The checkpoints of a session, the newest first, their states left out.
#[utoipa::path(
    get, path = routes::LIST_CHECKPOINTS.path, operation_id = routes::LIST_CHECKPOINTS.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Checkpoints at most: 100 when not said, 1 000 at most"),
        ("page" = Option<String>, Query, description = "next_page of the answer before"),
        ("thread" = Option<String>, Query, description = "Only of this line of work"),
    ),
    responses((status = 200, description = "A page of checkpoints", body = CheckpointList), Refusals)
)]
pub(super) async fn list_checkpoints(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<CheckpointList>, Refusal> {
    let limit = params.number("limit")?;
    let (page, thread) = (params.text("page")?, params.text("thread")?);
    let verb = door.app.service.list_checkpoints(&caller, &session, limit, page, thread);
    Ok(Json(verb.await?.into()))
}

/// A checkpoint by its id or label, with the state and the plan there.
#[utoipa::path(
    get, path = routes::GET_CHECKPOINT.path, operation_id = routes::GET_CHECKPOINT.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "Id or label of the checkpoint"),
    ),
    responses((status = 200, description = "The checkpoint", body = CheckpointState), Refusals)
)]
pub(super) async fn get_checkpoint(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<CheckpointState>, Refusal> {
    let found = door.app.service.get_checkpoint(&caller, &session, &name).await?;
    Ok(Json((&found).into()))
}

/// Goes on from a checkpoint: its state, and what lies behind it. When it is not the last one, what
/// comes next follows it all the same.
#[utoipa::path(
    post, path = routes::RESUME_CHECKPOINT.path, operation_id = routes::RESUME_CHECKPOINT.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "Id or label of the checkpoint"),
        ("Fencing-Token" = Option<u64>, Header, description = "Token of the lease, when one is held"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 128, description = "A retry with the same key goes back once"),
    ),
    responses((status = 200, description = "The checkpoint, and what comes follows which", body = ResumeAnswer), Refusals)
)]
pub(super) async fn resume(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
    conditions: Conditions,
) -> Result<Json<ResumeAnswer>, Refusal> {
    let verb = door.app.service.resume(&caller, &session, Some(&name), conditions.key);
    Ok(Json(verb.await?.into()))
}

/// Takes a session up: its lease, where it stands, and what an earlier harness left.
#[utoipa::path(
    post, path = routes::WAKE_SESSION.path, operation_id = routes::WAKE_SESSION.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 128, description = "A retry with the same key, while the lease holds, answers the same lease"),
    ),
    request_body(content = Option<WakeRequest>, description = "How"),
    responses((status = 200, description = "The lease, durable, and what to go on from", body = WakeAnswer), Refusals)
)]
pub(super) async fn wake(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    conditions: Conditions,
    JsonBody(asked): JsonBody<WakeRequest>,
) -> Result<Json<WakeAnswer>, Refusal> {
    let (steal, ttl, key) = (asked.steal, asked.ttl_seconds, conditions.key.as_ref());
    let woken = door.app.service.wake(&caller, &session, steal, ttl, key).await?;
    Ok(Json((&woken).into()))
}

/// Keeps a lease for longer.
#[utoipa::path(
    post, path = routes::RENEW_LEASE.path, operation_id = routes::RENEW_LEASE.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("Fencing-Token" = u64, Header, description = "Token of the lease"),
    ),
    request_body(content = Option<RenewRequest>, description = "For how long"),
    responses((status = 200, description = "The lease as it is now, durable", body = Lease), Refusals)
)]
pub(super) async fn renew(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    JsonBody(asked): JsonBody<RenewRequest>,
) -> Result<Json<Lease>, Refusal> {
    let granted = door.app.service.renew_lease(&caller, &session, asked.ttl_seconds).await?;
    Ok(Json((&granted).into()))
}

/// Gives a lease back: the harness is done with the session for now.
#[utoipa::path(
    delete, path = routes::RELEASE_LEASE.path, operation_id = routes::RELEASE_LEASE.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("Fencing-Token" = u64, Header, description = "Token of the lease"),
    ),
    responses((status = 200, description = "Anybody may write", body = LeaseReleased), Refusals)
)]
pub(super) async fn release(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<LeaseReleased>, Refusal> {
    door.app.service.release_lease(&caller, &session).await?;
    let kind = "lease_released".to_owned();
    Ok(Json(LeaseReleased { session: session.to_string(), kind }))
}

/// What was done lately, what a next session starts from, and what nobody ended.
#[utoipa::path(
    get, path = routes::GET_HISTORY.path, operation_id = routes::GET_HISTORY.id, tag = "sessions",
    params(
        ("workspace" = Option<String>, Query, description = "Only of this workspace"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Sessions at most: 20 when not said, 100 at most"),
    ),
    responses((status = 200, description = "The sessions written to last", body = HistoryAnswer), Refusals)
)]
pub(super) async fn history(
    State(door): Shared,
    Who(caller): Who,
    params: Params,
) -> Result<Json<HistoryAnswer>, Refusal> {
    let workspace = params.text("workspace")?.map(str::to_owned);
    let limit = params.number("limit")?;
    let history = door.app.service.history(&caller, workspace.as_ref(), limit).await?;
    Ok(Json((&history).into()))
}
