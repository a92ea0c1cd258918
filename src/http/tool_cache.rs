//! Remembered answers of tools: lookup of one, and the list under a budget. It must not decide
//! which answer stands for a call.

use axum::{extract::State, response::Response};

use super::{
    Shared,
    body::{InPath, JsonBody, Who},
    describe::Refusals,
    params::Params,
    refuse::Refusal,
    views::answer,
};
use crate::{
    event::Position,
    verbs::routes,
    wire::tool_cache::{LookupAnswer, LookupRequest, OutputsAnswer},
};

/// Bytes that an answer of a tool takes at most, mostly.
const ANSWER_BYTES: usize = 64 << 10;
const TOKEN_BYTES: usize = 8;

/// Asks whether a call of a tool was answered before, and with what. Nothing is written.
#[utoipa::path(
    post, path = routes::LOOKUP_TOOL_CACHE.path, operation_id = routes::LOOKUP_TOOL_CACHE.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
    ),
    request_body = LookupRequest,
    responses((status = 200, description = "The answer from the log, or why there is none", body = LookupAnswer), Refusals)
)]
pub(super) async fn lookup(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    JsonBody(asked): JsonBody<LookupRequest>,
) -> Result<Response, Refusal> {
    let held = door.room.ask(ANSWER_BYTES).await?;
    let (found, memory) = door.app.service.tool_lookup(&caller, &session, asked.into()).await?;
    Ok(answer(held, &LookupAnswer::of(&found, memory)))
}

/// What tools answered in the session, the newest that fit a budget, oldest first.
#[utoipa::path(
    get, path = routes::VIEW_OUTPUTS.path, operation_id = routes::VIEW_OUTPUTS.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("from_position" = Option<u64>, Query, description = "None before this position: for a client that has the others"),
        ("tokens_max" = Option<u32>, Query, maximum = 1000000, description = "Tokens at most, about; 4 000 when not said"),
    ),
    responses((status = 200, description = "Calls with their answers", body = OutputsAnswer), Refusals)
)]
pub(super) async fn outputs(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Response, Refusal> {
    let tokens_max: Option<usize> = params.number("tokens_max")?;
    let from = Position(params.number("from_position")?.unwrap_or(0));
    let held = door.room.ask(tokens_max.unwrap_or(0).saturating_mul(TOKEN_BYTES)).await?;
    let service = &door.app.service;
    let (outputs, memory) = service.tool_outputs(&caller, &session, from, tokens_max).await?;
    Ok(answer(held, &OutputsAnswer::of(&outputs, memory)))
}
