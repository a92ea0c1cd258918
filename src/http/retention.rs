//! Routes on how long sessions live. It must not decide when one expires.

use axum::{Json, extract::State};

use super::{
    Shared,
    body::{InPath, Who},
    describe::Refusals,
    params::Params,
    refuse::Refusal,
};
use crate::{
    verbs::routes,
    wire::{
        retention::{Restored, RetentionAnswer},
        types,
    },
};

/// Holds a session: it neither expires nor is deleted until the hold is released.
#[utoipa::path(
    put, path = routes::HOLD_SESSION.path, operation_id = routes::HOLD_SESSION.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "The session, held", body = types::Session), Refusals)
)]
pub(super) async fn hold(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<types::Session>, Refusal> {
    let info = door.app.service.hold_session(&caller, &session, true).await?;
    Ok(Json((&info).into()))
}

/// Releases a hold: the session's idle time begins anew.
#[utoipa::path(
    delete, path = routes::RELEASE_SESSION.path, operation_id = routes::RELEASE_SESSION.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "The session, not held", body = types::Session), Refusals)
)]
pub(super) async fn release(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<types::Session>, Refusal> {
    let info = door.app.service.hold_session(&caller, &session, false).await?;
    Ok(Json((&info).into()))
}

/// Brings an expired session back, or one that was deleted and whose grace has not ended.
#[utoipa::path(
    post, path = routes::RESTORE_SESSION.path, operation_id = routes::RESTORE_SESSION.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "The session, there again", body = Restored), Refusals)
)]
pub(super) async fn restore(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<Restored>, Refusal> {
    let (info, restored) = door.app.service.restore_session(&caller, &session).await?;
    Ok(Json(Restored { session: (&info).into(), restored }))
}

/// What is to come of idle sessions: which expire, when and why. Changes nothing.
#[utoipa::path(
    get, path = routes::GET_RETENTION.path, operation_id = routes::GET_RETENTION.id, tag = "operations",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Sessions at most: 100 when not said, 1 000 at most")),
    responses((status = 200, description = "Sessions with an end in sight, the soonest first", body = RetentionAnswer), Refusals)
)]
pub(super) async fn look(
    State(door): Shared,
    Who(caller): Who,
    params: Params,
) -> Result<Json<RetentionAnswer>, Refusal> {
    let limit = params.number("limit")?;
    Ok(Json(door.app.service.retention(&caller, limit).await?.into()))
}

/// Lets sessions expire at once whose time has come, and removes what is left of those that went.
#[utoipa::path(
    post, path = routes::SWEEP_RETENTION.path, operation_id = routes::SWEEP_RETENTION.id, tag = "operations",
    responses((status = 200, description = "What was done, and what is to come", body = RetentionAnswer), Refusals)
)]
pub(super) async fn sweep(
    State(door): Shared,
    Who(caller): Who,
) -> Result<Json<RetentionAnswer>, Refusal> {
    Ok(Json(door.app.service.sweep_all(&caller, None).await?.into()))
}
