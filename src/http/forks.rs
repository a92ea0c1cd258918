//! Routes on what sessions have in common: forks, lineage, and what came between two points. It
//! must not know how a fork is kept.

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
    event::Point,
    service::{ForkCall, ServiceError},
    verbs::routes,
    wire::{
        fork::{DiffAnswer, ForkRequest, Lineage},
        types,
    },
};

/// Makes a session that goes on from a point of this one. No event is copied: what lies below the
/// point is common to both, and what either appends is its own.
#[utoipa::path(
    post, path = routes::FORK_SESSION.path, operation_id = routes::FORK_SESSION.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The parent's id"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 128, description = "A retry with the same key within 24 h answers the same fork"),
    ),
    request_body(content = ForkRequest, description = "Where it goes on from"),
    responses((status = 201, description = "The fork, durable", body = types::Session), Refusals)
)]
pub(super) async fn fork(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    conditions: Conditions,
    JsonBody(asked): JsonBody<ForkRequest>,
) -> Result<Response, Refusal> {
    let call = ForkCall {
        at: Point::parse(&asked.at).map_err(|error| ServiceError::invalid("at", error))?,
        id: asked.id.as_deref().map(session_id).transpose()?,
        title: asked.title,
        key: conditions.key,
    };
    let info = door.app.service.fork_session(&caller, &session, call).await?;
    Ok((StatusCode::CREATED, Json(types::Session::from(&info))).into_response())
}

/// The sessions that this one reads from, and those that read from it.
#[utoipa::path(
    get, path = routes::GET_LINEAGE.path, operation_id = routes::GET_LINEAGE.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "Its ancestors and its forks", body = Lineage), Refusals)
)]
pub(super) async fn lineage(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<Lineage>, Refusal> {
    let family = door.app.service.family(&caller, &session).await?;
    Ok(Json(Lineage::of(session.to_string(), &family)))
}

/// What came between two points of a session: its events by type, what its facts have more, and
/// what a model sees at one and not at the other. The points may come in either order.
#[utoipa::path(
    get, path = routes::DIFF_SESSION.path, operation_id = routes::DIFF_SESSION.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("from" = Option<String>, Query, description = "A point; the beginning when absent"),
        ("to" = Option<String>, Query, description = "A point; the end when absent"),
        ("tokens_max" = Option<u32>, Query, minimum = 64, maximum = 4000000, description = "Tokens of the windows compared; what the token monitor leaves when not said"),
        ("transforms[]" = Option<Vec<String>>, Query, description = "Transforms of the windows compared, as viewWindow takes them"),
        ("format" = Option<String>, Query, description = "Format of the windows compared: `events` (the default), `anthropic` or `openai`"),
        ("tokenizer" = Option<String>, Query, description = "Who counts their tokens: `o200k_base` or `claude`; by the format when not said"),
    ),
    responses((status = 200, description = "What came between them", body = DiffAnswer), Refusals)
)]
pub(super) async fn diff(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<DiffAnswer>, Refusal> {
    let from = params.point("from")?.unwrap_or(Point::BEGINNING);
    let to = params.point("to")?.unwrap_or(Point::End);
    let plan = params.view_window()?;
    Ok(Json(door.app.service.diff(&caller, &session, (&from, &to), plan).await?.into()))
}
