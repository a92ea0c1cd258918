//! Routes on whole sessions. It must not know how a session is kept.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    body::{Conditions, InPath, JsonBody, Who, session_id},
    describe::Refusals,
    params::Params,
    refuse::Refusal,
};
use crate::{
    event::{Batch, Origin},
    service::{NewSession, ServiceError},
    verbs::routes,
    wire::{hosted, json, types},
};

/// Creates a session, with its first events: all or nothing.
#[utoipa::path(
    post, path = routes::CREATE_SESSION.path, operation_id = routes::CREATE_SESSION.id, tag = "sessions",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 128, description = "A retry with the same key within 24 h answers the same session")),
    request_body(content = Option<types::CreateSession>, description = "What the session says about itself"),
    responses((status = 201, description = "The session, durable", body = types::Session), Refusals)
)]
pub(super) async fn create(
    State(door): Shared,
    Who(caller): Who,
    conditions: Conditions,
    JsonBody(asked): JsonBody<types::CreateSession>,
) -> Result<Response, Refusal> {
    let new = NewSession { key: conditions.key, ..new_session(asked, caller.origin)? };
    let (info, _) = door.app.service.create_session(&caller, new).await?;
    Ok((StatusCode::CREATED, Json(types::Session::from(&info))).into_response())
}

fn new_session(asked: types::CreateSession, origin: Origin) -> Result<NewSession, Refusal> {
    let mut events = Vec::new();
    for (index, text) in asked.initial_events.unwrap_or_default().iter().enumerate() {
        let event = json::event(text.get(), origin);
        events.push(event.map_err(|error| within(&format!("initial_events[{index}]"), error))?);
    }
    let mut metadata = asked.metadata.unwrap_or_default();
    hosted::check_names(metadata.keys())?;
    metadata.extend(hosted::metadata(asked.agent, asked.environment_id)?);
    Ok(NewSession {
        id: asked.id.as_deref().map(session_id).transpose()?,
        title: asked.title,
        metadata,
        workspace: asked.workspace,
        ttl_seconds: asked.ttl_seconds,
        events: Batch { events: events.into(), ..Batch::default() },
        ..NewSession::default()
    })
}

/// Puts the event's place before the field an error names.
fn within(place: &str, mut error: ServiceError) -> ServiceError {
    error.message = format!("{place}.{}", error.message);
    error.hint.field = error.hint.field.map(|field| format!("{place}.{field}"));
    error
}

/// Lists sessions by creation, the newest first.
#[utoipa::path(
    get, path = routes::LIST_SESSIONS.path, operation_id = routes::LIST_SESSIONS.id, tag = "sessions",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Sessions at most: 100 when not said, 1 000 at most"),
        ("page" = Option<String>, Query, description = "next_page of the answer before"),
        ("order" = Option<String>, Query, description = "desc (the newest first) or asc"),
        ("workspace" = Option<String>, Query, description = "Only of this workspace"),
        ("include_archived" = Option<bool>, Query, description = "Also archived sessions"),
        ("statuses[]" = Option<Vec<String>>, Query, description = "Only of these statuses"),
        ("created_at[gte]" = Option<String>, Query, description = "Created at or after; also gt, lt, lte"),
        ("agent_id" = Option<String>, Query, description = "Only created for this agent"),
        ("agent_version" = Option<u64>, Query, description = "With agent_id: only for this version of it"),
    ),
    responses((status = 200, description = "A page of sessions", body = types::SessionList), Refusals)
)]
pub(super) async fn list(
    State(door): Shared,
    Who(caller): Who,
    params: Params,
) -> Result<Json<types::SessionList>, Refusal> {
    let page = door.app.service.list_sessions(&caller, params.sessions()?).await?;
    Ok(Json(page.into()))
}

/// What a session says about itself.
#[utoipa::path(
    get, path = routes::GET_SESSION.path, operation_id = routes::GET_SESSION.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "The session", body = types::Session), Refusals)
)]
pub(super) async fn get(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<types::Session>, Refusal> {
    let info = door.app.service.get_session(&caller, &session).await?;
    Ok(Json((&info).into()))
}

/// Changes title and metadata.
#[utoipa::path(
    post, path = routes::UPDATE_SESSION.path, operation_id = routes::UPDATE_SESSION.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    request_body(content = Option<types::UpdateSession>, description = "What changes"),
    responses((status = 200, description = "The session as changed", body = types::Session), Refusals)
)]
pub(super) async fn update(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    JsonBody(change): JsonBody<types::UpdateSession>,
) -> Result<Json<types::Session>, Refusal> {
    let metadata = change.metadata.unwrap_or_default();
    hosted::check_names(metadata.keys())?;
    let verb = door.app.service.update_session(&caller, &session, change.title, metadata);
    let info = verb.await?;
    Ok(Json((&info).into()))
}

/// Archives a session: it can be read, not written.
#[utoipa::path(
    post, path = routes::ARCHIVE_SESSION.path, operation_id = routes::ARCHIVE_SESSION.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "The archived session", body = types::Session), Refusals)
)]
pub(super) async fn archive(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<types::Session>, Refusal> {
    let info = door.app.service.archive_session(&caller, &session).await?;
    Ok(Json((&info).into()))
}

/// Deletes a session: hidden at once. It can be restored until its grace ends, when its bytes are
/// removed.
#[utoipa::path(
    delete, path = routes::DELETE_SESSION.path, operation_id = routes::DELETE_SESSION.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("now" = Option<bool>, Query, description = "Remove its bytes at once: it cannot be restored. Takes an expired session and a deleted one too, and works on a full disk"),
    ),
    responses((status = 200, description = "The session is deleted", body = types::SessionDeleted), Refusals)
)]
pub(super) async fn delete(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<types::SessionDeleted>, Refusal> {
    let now = params.flag("now")?;
    let until = door.app.service.delete_session(&caller, &session, now).await?;
    let kind = "session_deleted".to_owned();
    let restorable_until = until.map(|until| until.to_string());
    Ok(Json(types::SessionDeleted { id: session.to_string(), kind, restorable_until }))
}

/// Erases a session: nothing of it can be read once this is answered, and nothing brings it back.
#[utoipa::path(
    post, path = routes::ERASE_SESSION.path, operation_id = routes::ERASE_SESSION.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "The session is erased", body = types::SessionDeleted), Refusals)
)]
pub(super) async fn erase(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<types::SessionDeleted>, Refusal> {
    door.app.service.erase_session(&caller, &session).await?;
    let kind = "session_erased".to_owned();
    Ok(Json(types::SessionDeleted { id: session.to_string(), kind, restorable_until: None }))
}
