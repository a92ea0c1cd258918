//! Errors of this interface: one match from code to status, one format. A handler returns a
//! `HttpError`; guard writes it, because only guard knows the request's id. It must not contain a
//! message that service could contain.

use std::{any::Any, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};

use crate::{
    access::Tenant,
    service::{Code, ServiceError},
    wire::convert,
};

/// Every HTTP status of an error, with its causes.
pub(super) const REFUSALS: &[(&str, &str)] = &[
    ("400", "Not JSON (`invalid_json`), or not HTTP"),
    ("401", "No valid credential (`unauthenticated`)"),
    ("403", "The host, origin or credential may not do this (`forbidden`)"),
    ("404", "What was asked for is not known (`session_not_found`, `point_not_found`, …)"),
    ("405", "The path does not take this method"),
    ("408", "The body stopped coming"),
    ("409", "It conflicts with what is there (`position_conflict`, `session_exists`, …)"),
    ("410", "It was there (`session_deleted`, `session_expired`, `prefix_erased`)"),
    ("413", "The body is too large (`body_too_large`)"),
    ("415", "The body's media type is not taken"),
    ("422", "JSON, but not what the verb takes (`invalid_request`, naming the field)"),
    ("423", "Damaged, held or archived (`session_damaged`, `session_held`, `session_archived`)"),
    ("429", "Too much at once (`rate_limited`, `limit_reached`, `quota_exceeded`)"),
    ("500", "A defect of the server (`internal_error`)"),
    (
        "503",
        "Not now (`outcome_unknown`, `not_finished`, `store_read_only`, `store_unreachable`, \
         `owner_unavailable`)",
    ),
    ("507", "The storage is full (`disk_full`)"),
];

/// A refused or failed request.
#[derive(Clone, Debug)]
pub(super) struct HttpError {
    status: StatusCode,
    error: ServiceError,
    /// Tenant whose audit log the refusal is written to, and name of the credential.
    pub(super) audit: Option<(Arc<Tenant>, Arc<str>)>,
}

/// Maps a code to its status.
fn status_of(code: Code) -> StatusCode {
    match code {
        Code::InvalidJson => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::SessionNotFound
        | Code::EntityNotFound
        | Code::EventNotFound
        | Code::StepNotFound
        | Code::PointNotFound
        | Code::CheckpointNotFound => StatusCode::NOT_FOUND,
        Code::PositionConflict
        | Code::StepConflict
        | Code::IdempotencyConflict
        | Code::SessionExists
        | Code::LeaseHeld
        | Code::LeaseLost => StatusCode::CONFLICT,
        Code::SessionExpired | Code::SessionDeleted | Code::PrefixErased => StatusCode::GONE,
        Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::InvalidRequest | Code::SessionRequired => StatusCode::UNPROCESSABLE_ENTITY,
        Code::SessionDamaged | Code::SessionHeld | Code::SessionArchived => StatusCode::LOCKED,
        Code::RateLimited | Code::LimitReached | Code::QuotaExceeded => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Code::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
        Code::OutcomeUnknown
        | Code::NotFinished
        | Code::StoreReadOnly
        | Code::StoreUnreachable
        | Code::OwnerUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

/// Returns the HTTP status of a code, unless a route sets a more specific one.
#[must_use]
pub fn status(code: Code) -> u16 {
    status_of(code).as_u16()
}

impl HttpError {
    /// Creates an error with a more specific status than that of its code.
    pub(super) fn with_status(status: StatusCode, error: ServiceError) -> Self {
        Self { status, error, audit: None }
    }

    /// Creates an `invalid_request` that names the field.
    pub(super) fn invalid(field: &str, problem: impl std::fmt::Display) -> Self {
        ServiceError::invalid(field, problem).into()
    }

    /// Sets the status if the code is `invalid_request` and `status` is given.
    pub(super) fn with_invalid_status(self, status: Option<u16>) -> Self {
        let status = status.filter(|_| self.code() == Code::InvalidRequest);
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        Self { status: status.unwrap_or(self.status), ..self }
    }

    pub(super) fn code(&self) -> Code {
        self.error.code
    }

    /// Converts the error to the response for the client.
    pub(super) fn to_response(&self, request_id: &str) -> Response<Body> {
        let body = convert::error_body(&self.error, Some(request_id));
        let text = serde_json::to_vec(&body).expect("an error body is JSON");
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::TOO_MANY_REQUESTS
            || self.status == StatusCode::SERVICE_UNAVAILABLE
        {
            let seconds = self.error.hint.retry_after_seconds.unwrap_or(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // For clients that would guess from the status. A possibly written request is not marked
        // for a retry: the client may not know if its events have ids.
        let again = self.error.hint.retryable && self.error.code != Code::OutcomeUnknown;
        let again = HeaderValue::from_static(if again { "true" } else { "false" });
        headers.insert("x-should-retry", again);
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"sessionlog\"");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<ServiceError> for HttpError {
    fn from(error: ServiceError) -> Self {
        Self { status: status_of(error.code), error, audit: None }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.extensions_mut().insert(self);
        response
    }
}

/// Handles a path that no route has.
pub(super) async fn refuse_path() -> HttpError {
    let error = ServiceError::invalid("path", "no route has this path")
        .action("GET /openapi.json lists the routes");
    HttpError::with_status(StatusCode::NOT_FOUND, error)
}

/// Handles a method that the path does not have.
pub(super) async fn refuse_method() -> HttpError {
    let error = ServiceError::invalid("method", "this path does not take this method")
        .action("GET /openapi.json lists the routes");
    HttpError::with_status(StatusCode::METHOD_NOT_ALLOWED, error)
}

/// Logs the panic of a handler, and returns an internal error.
pub(super) fn answer_panic(panic: Box<dyn Any + Send>) -> Response<Body> {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(panic = %text, "a handler panicked");
    let error = ServiceError::new(Code::InternalError, "a defect of this server; it is logged")
        .action("report it with the request_id");
    HttpError::from(error).into_response()
}
