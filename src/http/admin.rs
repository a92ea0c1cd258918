//! Routes of operators and of front ends looking for their owner. It must not decide what is given
//! up.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    body::{JsonBody, Who, session_id},
    describe::Refusals,
    gate::Asking,
    params::Params,
    refuse::Refusal,
};
use crate::{
    access::Grant,
    service::{Code, Health, Receipt, ServiceError},
    verbs::routes,
    wire::{answer, types},
};

/// Who owns the data directory.
#[utoipa::path(
    get, path = routes::GET_OWNER.path, operation_id = routes::GET_OWNER.id, tag = "operations",
    responses((status = 200, description = "The owner", body = types::Owner), Refusals)
)]
pub(super) async fn owner(State(door): Shared) -> Json<types::Owner> {
    let owner = &door.app.owner;
    Json(types::Owner {
        version: owner.version.clone(),
        pid: std::process::id(),
        on_demand: owner.on_demand,
        data_dir: owner.data_dir.clone(),
        config_digest: owner.config_digest.clone(),
    })
}

/// Asks an on-demand owner to drain and leave, so that another may own the directory.
#[utoipa::path(
    post, path = routes::STEP_DOWN.path, operation_id = routes::STEP_DOWN.id, tag = "operations",
    responses((status = 202, description = "The owner drains and leaves", body = types::Owner), Refusals)
)]
pub(super) async fn step_down(State(door): Shared) -> Result<Response, Refusal> {
    let owner = &door.app.owner;
    if !owner.on_demand {
        let error = ServiceError::invalid("owner", "it was started by a person and stays")
            .action("stop that server, or talk to it instead");
        return Err(Refusal::with_status(StatusCode::CONFLICT, error));
    }
    tracing::info!("asked to step down");
    owner.step_down.cancel();
    Ok((StatusCode::ACCEPTED, self::owner(State(door)).await).into_response())
}

/// Reads every frame of one session, or of all, and checks checksums and chains; with a receipt
/// that was kept elsewhere also that nothing it saw was taken back. All are those of the caller, or
/// of every tenant where the credential has the scope `operator`, as has the user of this machine.
#[utoipa::path(
    post, path = routes::VERIFY.path, operation_id = routes::VERIFY.id, tag = "operations",
    request_body(content = Option<types::VerifyRequest>, description = "Which session; all when absent"),
    responses((status = 200, description = "What was read and what was found", body = types::VerifyAnswer), Refusals)
)]
pub(super) async fn verify(
    State(door): Shared,
    Asking(who): Asking,
    Who(caller): Who,
    JsonBody(asked): JsonBody<types::VerifyRequest>,
) -> Result<Json<types::VerifyAnswer>, Refusal> {
    let session = asked.session.as_deref().map(session_id).transpose()?;
    let Some(text) = asked.expect_head else {
        let service = &door.app.service;
        let verified = match session.as_ref() {
            None if who.require(&[Grant::Operator]).is_ok() => service.verify_store().await?,
            session => service.verify(&caller, session).await?,
        };
        return Ok(Json(types::VerifyAnswer::of(verified, &caller.scope)));
    };
    let wrong = |problem| ServiceError::invalid("expect_head", problem);
    let expected = Receipt::parse(&text)
        .ok_or_else(|| wrong("POSITION:CHAIN of a receipt is expected, the chain 64 hex digits"))?;
    let session = session.ok_or_else(|| wrong("a receipt is of one session: name it"))?;
    let (verified, head) = door.app.service.verify_head(&caller, &session, expected).await?;
    let hurt = verified.damage.iter().chain(&verified.accepted);
    let hurt = hurt.map(|(_, gap)| gap.range.from).any(|from| from < expected.position);
    let head = Some(types::HeadAnswer::of(expected.position, head, hurt));
    Ok(Json(types::VerifyAnswer { head, ..types::VerifyAnswer::of(verified, &caller.scope) }))
}

/// Answers what is lost of a session, or of the store where no session is named; gives it up when
/// told to. A loss stays a gap for ever.
#[utoipa::path(
    post, path = routes::REPAIR.path, operation_id = routes::REPAIR.id, tag = "operations",
    request_body(content = types::RepairRequest, description = "What, and whether to give it up"),
    responses((status = 200, description = "What is lost, and whether it was given up", body = types::RepairAnswer), Refusals)
)]
pub(super) async fn repair(
    State(door): Shared,
    Asking(who): Asking,
    Who(caller): Who,
    JsonBody(asked): JsonBody<types::RepairRequest>,
) -> Result<Json<types::RepairAnswer>, Refusal> {
    let session = asked.session.as_deref().map(session_id).transpose()?;
    if session.is_some() == asked.store {
        let error = ServiceError::invalid("session", "name a session, or say store: true");
        return Err(error.into());
    }
    if asked.store {
        who.require(&[Grant::Operator]).map_err(ServiceError::from)?;
    }
    let repaired = door.app.service.repair(&caller, session.as_ref(), asked.accept_loss).await?;
    Ok(Json(repaired.into()))
}

/// The tenant's audit log: what was ruled, deleted and refused, in order. Nobody writes to it.
#[utoipa::path(
    get, path = routes::GET_AUDIT.path, operation_id = routes::GET_AUDIT.id, tag = "operations",
    params(
        ("from" = Option<String>, Query, description = "Point of the first event; 0 when not said"),
        ("to" = Option<String>, Query, description = "Point after the last event; the tail when not said"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Events at most: 1 000 when not said, 10 000 at most"),
        ("order" = Option<String>, Query, description = "asc, or desc for the newest first"),
        ("types[]" = Option<Vec<String>>, Query, description = "Only these types"),
        ("created_at[gte]" = Option<String>, Query, description = "Processed at or after; also gt, lt, lte"),
        ("page" = Option<String>, Query, description = "next_page of the answer before"),
    ),
    responses((status = 200, description = "The events, where to go on, and the tail", body = types::EventsAnswer), Refusals)
)]
pub(super) async fn audit(
    State(door): Shared,
    Who(caller): Who,
    params: Params,
) -> Result<Response, Refusal> {
    let mut query = params.events()?;
    query.wait = std::time::Duration::ZERO;
    let slice = door.app.service.audit_log(&caller, &query).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], answer::slice(&slice)).into_response())
}

/// What the data directory wants of master keys, and what there is of them.
#[utoipa::path(
    get, path = routes::GET_KEYS.path, operation_id = routes::GET_KEYS.id, tag = "operations",
    responses((status = 200, description = "Ids of keys, and how many keys of sessions are under which", body = types::KeysAnswer), Refusals)
)]
pub(super) async fn keys(State(door): Shared) -> Result<Json<types::KeysAnswer>, Refusal> {
    Ok(Json(door.app.service.keys().await?.into()))
}

/// Wraps some keys of sessions anew, under the master key that the server was given as the current
/// one; asked again it goes on, until none is behind and the key before is wanted no more.
#[utoipa::path(
    post, path = routes::ROTATE_KEYS.path, operation_id = routes::ROTATE_KEYS.id, tag = "operations",
    responses((status = 200, description = "How far it is", body = types::KeysAnswer), Refusals)
)]
pub(super) async fn rotate_keys(State(door): Shared) -> Result<Json<types::KeysAnswer>, Refusal> {
    Ok(Json(Some(door.app.service.rotate_keys().await?).into()))
}

/// What the last start found and did.
#[utoipa::path(
    get, path = routes::GET_RECOVERY_REPORT.path, operation_id = routes::GET_RECOVERY_REPORT.id, tag = "operations",
    responses((status = 200, description = "The report of the last start", body = types::RecoveryReport), Refusals)
)]
pub(super) async fn recovery_report(State(door): Shared) -> Json<types::RecoveryReport> {
    Json(door.app.service.recovery_report().into())
}

/// Whether the process answers.
#[utoipa::path(
    get, path = routes::GET_HEALTH.path, operation_id = routes::GET_HEALTH.id, tag = "operations",
    responses((status = 200, description = "The process answers", body = types::Condition), Refusals)
)]
pub(super) async fn healthz() -> Json<types::Condition> {
    Json(types::Condition { status: "ok".to_owned() })
}

/// Whether the store reads and writes.
#[utoipa::path(
    get, path = routes::GET_READINESS.path, operation_id = routes::GET_READINESS.id, tag = "operations",
    responses((status = 200, description = "The store reads and writes", body = types::Condition), Refusals)
)]
pub(super) async fn readyz(State(door): Shared) -> Result<Json<types::Condition>, Refusal> {
    match door.app.service.health() {
        Health::Ready => Ok(Json(types::Condition { status: "ready".to_owned() })),
        Health::ReadOnly(reason) => {
            let message = format!("the store is read-only: {reason}");
            let error = ServiceError::new(Code::StoreReadOnly, message)
                .action("reading works; look at the disk, then restart");
            Err(error.into())
        }
        Health::Silent(silence) => {
            let seconds = silence.as_secs();
            let message = format!("the disk has not answered for {seconds} s; appends wait");
            let mut error = ServiceError::new(Code::StoreReadOnly, message)
                .action("reading works; look at the disk");
            error.hint.retryable = true;
            Err(error.into())
        }
    }
}

/// Counts in the Prometheus text format.
#[utoipa::path(
    get, path = routes::GET_METRICS.path, operation_id = routes::GET_METRICS.id, tag = "operations",
    responses((status = 200, description = "Counts since the process started", body = String, content_type = "text/plain"), Refusals)
)]
pub(super) async fn metrics(State(door): Shared) -> Response {
    let free = door.readers.available_permits();
    let readers = door.app.options.readers_max.saturating_sub(free);
    let scrub = door.app.service.recovery_report().scrub;
    let text = door.metrics.render(door.app.service.counts(), readers, &scrub);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// This description of the API.
#[utoipa::path(
    get, path = routes::GET_OPENAPI.path, operation_id = routes::GET_OPENAPI.id, tag = "operations",
    responses((status = 200, description = "An OpenAPI 3.1 document", body = serde_json::Value), Refusals)
)]
pub(super) async fn openapi(State(door): Shared) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], door.document.clone()).into_response()
}
