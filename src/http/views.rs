//! Views of a session: what is worth knowing of it, within a budget, now or as of a point. It must
//! not dress anything.

use axum::{
    Json,
    extract::{Path, State},
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    body::{InPath, Who},
    describe::Refusals,
    hold::Held,
    params::Params,
    refuse::Refusal,
};
use crate::{
    service::{RecoverCall, ServiceError},
    verbs::routes,
    wire::{
        find::IndexAnswer,
        overview::{OverviewAnswer, PageAnswer, StepAnswer, SummaryAnswer},
        views::{CompactionsAnswer, ContinuationAnswer, UsageAnswer},
        window::WindowAnswer,
    },
};

/// Bytes that a token stands for in an answer, mostly.
const TOKEN_BYTES: usize = 8;

/// What a model sees of the session within a budget of tokens.
#[utoipa::path(
    get, path = routes::VIEW_WINDOW.path, operation_id = routes::VIEW_WINDOW.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("tokens_max" = Option<u32>, Query, minimum = 64, maximum = 4000000, description = "Tokens at most; what the token monitor leaves when not said"),
        ("transforms[]" = Option<Vec<String>>, Query, description = "What is done on the way, in this order: `compress[:whitespace,comments,elide,keep=N,tokens=N]`, `filter[:types=A|B,drop=A|B,duplicates]`, `reorder[:slack=PERCENT]`, `annotate[:times]`"),
        ("format" = Option<String>, Query, description = "`events` (the default), `anthropic` or `openai`"),
        ("from" = Option<String>, Query, description = "Point: nothing before it, for a window that goes on where an earlier one was left"),
        ("tokenizer" = Option<String>, Query, description = "By whose count: `o200k_base`, or `claude`, which is a bound; by the format when not said"),
        ("at" = Option<String>, Query, description = "Point: as of then"),
    ),
    responses(
        (status = 200, description = "Events or messages, what they cost, and every position they leave out", body = WindowAnswer),
        Refusals
    )
)]
pub(super) async fn window(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Response, Refusal> {
    let query = params.view_window(true)?;
    let shape = query.shape;
    let bytes = query.tokens_max.unwrap_or(0).saturating_mul(TOKEN_BYTES);
    let held = door.room.ask(bytes).await?;
    let view = door.app.service.window(&caller, &session, query).await?;
    Ok(answer(held, &WindowAnswer::of(&view, shape)))
}

/// Where the session stands: goal, summary, its steps in a line each, open gaps, sources. With
/// `find` instead what it says of some words: passages of steps, reasons, gaps, sources, calls,
/// results and messages, the best match first.
#[utoipa::path(
    get, path = routes::VIEW_INDEX.path, operation_id = routes::VIEW_INDEX.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("at" = Option<String>, Query, description = "Point: as of then"),
        ("tokens_max" = Option<u32>, Query, description = "Tokens at most, about; the answer's usual size when not said"),
        ("explain" = Option<bool>, Query, description = "Whether to say why each item is shown"),
        ("cursor" = Option<String>, Query, description = "One of `cursors` of the overview: a page of that list instead"),
        ("find" = Option<String>, Query, max_length = 4096, description = "Words to look up; what is in double quotes must be there as it is"),
    ),
    responses((status = 200, description = "The overview, or what matches", body = IndexAnswer), Refusals)
)]
pub(super) async fn index(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<IndexAnswer>, Refusal> {
    let (at, tokens_max) = (params.point("at")?, params.number("tokens_max")?);
    let (service, at) = (&door.app.service, at.as_ref());
    let (explain, cursor) = (params.flag("explain")?, params.cursor()?);
    let find = params.given("find")?;
    if find.is_some() && (explain || cursor.is_some()) {
        let field = if explain { "explain" } else { "cursor" };
        return Err(Refusal::invalid(field, "it does not go with find"));
    }
    Ok(Json(match find {
        Some(words) => service.find_view(&caller, &session, words, at, tokens_max).await?.into(),
        None if cursor.is_some() => {
            let call = RecoverCall { cursor, ..RecoverCall::default() };
            let recovered = service.step_view(&caller, &session, call, at).await?;
            let foreign = || ServiceError::invalid("cursor", "it is no cursor of a list");
            PageAnswer::of(recovered).ok_or_else(foreign)?.into()
        }
        None => {
            let view = service.overview(&caller, &session, at, tokens_max, explain).await?;
            OverviewAnswer::from(view).into()
        }
    }))
}

/// Where the session stands, without the lists that the summary stands for.
#[utoipa::path(
    get, path = routes::VIEW_SUMMARY.path, operation_id = routes::VIEW_SUMMARY.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("at" = Option<String>, Query, description = "Point: as of then"),
        ("tokens_max" = Option<u32>, Query, description = "Tokens at most, about; the answer's usual size when not said"),
        ("level" = Option<String>, Query, description = "`step` (the default), `phase`, `session`, or `auto`: the finest that leaves nothing out"),
    ),
    responses((status = 200, description = "The summary on that level, open gaps and what was ruled out", body = SummaryAnswer), Refusals)
)]
pub(super) async fn summary(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<SummaryAnswer>, Refusal> {
    let (at, tokens_max) = (params.point("at")?, params.number("tokens_max")?);
    let (service, level) = (&door.app.service, params.level()?);
    let view = service.summary_view(&caller, &session, at.as_ref(), tokens_max, level).await?;
    Ok(Json(view.into()))
}

/// One step in full, or as much of it as one answer takes.
#[utoipa::path(
    get, path = routes::VIEW_STEP.path, operation_id = routes::VIEW_STEP.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("at" = Option<String>, Query, description = "Point: as of then"),
        ("number" = u64, Path, description = "The step's number, from 1"),
        ("branch" = Option<String>, Query, description = "The step's branch, when several have that number"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the answer before"),
    ),
    responses((status = 200, description = "The step, and where its text goes on", body = StepAnswer), Refusals)
)]
pub(super) async fn step(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    Path((_, number)): Path<(String, String)>,
    params: Params,
) -> Result<Json<StepAnswer>, Refusal> {
    let (call, at) = (params.view_step(&number)?, params.point("at")?);
    let recovered = door.app.service.step_view(&caller, &session, call, at.as_ref()).await?;
    let foreign = || ServiceError::invalid("cursor", "it is no cursor of a step");
    Ok(Json(StepAnswer::of(recovered).ok_or_else(foreign)?))
}

/// What is needed to go on: task, instructions, plan, last steps, failures, findings, what is next.
#[utoipa::path(
    get, path = routes::VIEW_CONTINUATION.path, operation_id = routes::VIEW_CONTINUATION.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("at" = Option<String>, Query, description = "Point: as of then"),
        ("tokens_max" = Option<u32>, Query, minimum = 400, maximum = 200000, description = "Tokens at most; 2 000 when not said"),
        ("explain" = Option<bool>, Query, description = "Whether to say why each item is told"),
    ),
    responses((status = 200, description = "How to go on", body = ContinuationAnswer), Refusals)
)]
pub(super) async fn continuation(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<ContinuationAnswer>, Refusal> {
    let (at, tokens_max) = (params.point("at")?, params.number("tokens_max")?);
    let explain = params.flag("explain")?;
    let service = &door.app.service;
    let view = service.continuation(&caller, &session, at.as_ref(), tokens_max, explain).await?;
    Ok(Json(view.into()))
}

/// How full the model's context window is, by what the harness reports in `span.model_request_end`.
#[utoipa::path(
    get, path = routes::VIEW_USAGE.path, operation_id = routes::VIEW_USAGE.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("at" = Option<String>, Query, description = "Point: as of then"),
    ),
    responses((status = 200, description = "The token monitor", body = UsageAnswer), Refusals)
)]
pub(super) async fn usage(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<UsageAnswer>, Refusal> {
    let at = params.point("at")?;
    let view = door.app.service.usage(&caller, &session, at.as_ref()).await?;
    Ok(Json(view.into()))
}

/// What the client's compactions took out of its context, and what of it is out now.
#[utoipa::path(
    get, path = routes::VIEW_COMPACTIONS.path, operation_id = routes::VIEW_COMPACTIONS.id, tag = "views",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("at" = Option<String>, Query, description = "Point: as of then"),
    ),
    responses((status = 200, description = "The compactions, and what is lost to the context", body = CompactionsAnswer), Refusals)
)]
pub(super) async fn compactions(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Json<CompactionsAnswer>, Refusal> {
    let at = params.point("at")?;
    let view = door.app.service.compactions(&caller, &session, at.as_ref()).await?;
    Ok(Json(view.into()))
}

pub(super) fn answer(held: Held, answer: &impl serde::Serialize) -> Response {
    let text = serde_json::to_vec(answer).expect("a view is JSON and memory takes it");
    ([(CONTENT_TYPE, "application/json")], held.answer(text)).into_response()
}
