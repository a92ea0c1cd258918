//! Authentication and authorization on every route: a credential becomes a principal before a
//! handler runs, and must have the grants that the route declares. It must not read a body; tenant
//! and user come from the credential alone.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
};

use super::{Server, refuse::HttpError};
use crate::{
    access::{DeniedCredential, ExceededLimit, Principal, Tenant, TenantSlot},
    event::Origin,
    service::{AuditEntry, Caller, Code, ServiceError},
    verbs::{RequiredGrant, Route},
};

/// Marks a connection of this machine's user, over the owner's socket: it needs no credential.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSocket;

/// Route name of a path that matches no route.
pub(super) const NO_ROUTE: &str = "none";
/// Header with a token, as an alternative to `Authorization`.
const API_KEY: &str = "x-api-key";
/// Principal of an admitted request, and the slot that it holds until the answer.
pub(super) struct AdmittedRequest {
    pub(super) who: Arc<Principal>,
    _request_slot: Option<TenantSlot>,
}

/// Extractor of the authenticated principal.
pub(super) struct RequestPrincipal(pub(super) Arc<Principal>);

impl FromRequestParts<Arc<Server>> for RequestPrincipal {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Server>) -> Result<Self, HttpError> {
        // Refused if the guard did not run, because then no credential was checked.
        parts
            .extensions
            .get()
            .cloned()
            .map(Self)
            .ok_or_else(|| credential_error("the request was not authenticated"))
    }
}

impl Server {
    /// Authenticates and admits a request, and adds its principal to it.
    pub(super) fn admit_request(
        &self,
        route: &str,
        request: &mut Request,
    ) -> Result<AdmittedRequest, HttpError> {
        let need = self.declared_grant(request.method(), route);
        let who = self.authenticate(need, request)?;
        let now = self.app.service.monotonic();
        let request_slot = who.tenant.admit(now).map_err(|full| limit_error(full, &who.tenant))?;
        if let Err(lacking) = who.require(need.grants()) {
            let refusal = HttpError::from(ServiceError::from(lacking));
            return Err(self.mark_for_audit(refusal, &who.tenant, &who.name));
        }
        request.extensions_mut().insert(Arc::clone(&who));
        Ok(AdmittedRequest { who, _request_slot: request_slot })
    }

    /// Returns the grants that a route declares. A path without a route needs a credential, so that
    /// only authenticated callers learn that no route matches.
    fn declared_grant(&self, method: &Method, route: &str) -> RequiredGrant {
        if route == NO_ROUTE {
            return RequiredGrant::Credential;
        }
        self.registered.need(method.as_str(), route)
    }

    fn authenticate(
        &self,
        need: RequiredGrant,
        request: &Request,
    ) -> Result<Arc<Principal>, HttpError> {
        let Some(access) = &self.app.options.access else { return Ok(Arc::clone(&self.local)) };
        if request.extensions().get::<OwnSocket>().is_some() || need == RequiredGrant::Nothing {
            return Ok(Arc::clone(&self.local));
        }
        let credential = parse_credential(request.headers())?;
        access.authenticate(credential).map_err(|denied| self.refuse_credential(denied))
    }

    /// Refuses a credential; audits the refusal if the credential's tenant is known.
    fn refuse_credential(&self, denied: DeniedCredential) -> HttpError {
        let refusal = credential_error(denied.problem);
        match denied.known {
            Some((tenant, name)) => self.mark_for_audit(refusal, &tenant, &name),
            None => refusal,
        }
    }

    /// Marks a refusal for the tenant's audit log, unless one was logged recently.
    fn mark_for_audit(
        &self,
        mut refusal: HttpError,
        tenant: &Arc<Tenant>,
        name: &Arc<str>,
    ) -> HttpError {
        if tenant.should_audit_refusal(self.app.service.monotonic()) {
            refusal.audit = Some((Arc::clone(tenant), Arc::clone(name)));
        }
        refusal
    }

    pub(super) fn is_audited(&self, method: &Method, route: &str) -> bool {
        self.registered.find(method.as_str(), route).is_some_and(Route::is_audited)
    }

    /// Writes an action or a refusal to the audit log, before the answer.
    pub(super) async fn write_audit(&self, request_record: AuditedRequest<'_>) {
        let Some(access) = &self.app.options.access else { return };
        for change in access.take_changes() {
            let audit = AuditEntry::from_token(&change.id, change.change);
            self.app.service.audit(&change.tenant, audit).await;
        }
        let AuditedRequest { who, refusal, method, route, session, status, request } =
            request_record;
        let refused_for = refusal.and_then(|refusal| refusal.audit.as_ref());
        let (tenant, name): (&Tenant, &str) = match (who, refused_for) {
            (_, Some((tenant, name))) => (tenant, name),
            (Some(who), None) if self.is_audited(method, route) => (&who.tenant, &who.name),
            _ => return,
        };
        let (method, status) = (method.as_str(), Some(status.as_u16()));
        let code = refusal.map(HttpError::code);
        let audit = AuditEntry::from_call(name, method, route, session, status, code);
        self.app.service.audit(tenant.id(), audit.with_request(request)).await;
    }
}

/// Request to be written to the audit log.
pub(super) struct AuditedRequest<'a> {
    pub(super) who: Option<&'a Principal>,
    pub(super) refusal: Option<&'a HttpError>,
    pub(super) method: &'a Method,
    pub(super) route: &'a str,
    pub(super) session: Option<&'a str>,
    pub(super) status: StatusCode,
    pub(super) request: &'a str,
}

/// Parses the credential of a request; refuses none or several.
fn parse_credential(headers: &HeaderMap) -> Result<&str, HttpError> {
    let bearers = headers.get_all(header::AUTHORIZATION).iter().map(|value| {
        let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim_start_matches(' '))
    });
    let keys = headers.get_all(API_KEY).iter().map(|value| value.to_str().ok());
    let mut credentials = bearers.chain(keys);
    let Some(first) = credentials.next() else {
        return Err(credential_error("no credential was sent"));
    };
    let first = first.ok_or_else(|| credential_error("the credential is no bearer token"))?;
    // Some clients send the same one in both headers.
    if credentials.any(|other| other != Some(first)) {
        return Err(credential_error("two credentials were sent"));
    }
    Ok(first)
}

fn credential_error(problem: &str) -> HttpError {
    let action = "send `Authorization: Bearer TOKEN` or `X-Api-Key: TOKEN` with a token of this \
                  server; its operator makes one with `sessionlog tokens create`";
    ServiceError::new(Code::Unauthenticated, problem).action(action).into()
}

/// Creates the error for a request of a tenant that exceeds a limit.
fn limit_error(full: ExceededLimit, tenant: &Tenant) -> HttpError {
    let tenant = tenant.id();
    let (code, message, wait) = match full {
        ExceededLimit::Requests(max) => {
            (Code::LimitReached, format!("{max} requests of tenant {tenant} are under way"), None)
        }
        ExceededLimit::Readers(max) => {
            (Code::LimitReached, format!("{max} readers of tenant {tenant} are connected"), None)
        }
        ExceededLimit::Pace(rate, wait) => (
            Code::RateLimited,
            format!("tenant {tenant} may ask {rate} times a second"),
            Some(wait),
        ),
    };
    let action = match full {
        ExceededLimit::Readers(_) => "end streams that are not read, or come back later",
        _ => "come back after Retry-After, with less at once",
    };
    let mut error = ServiceError::new(code, message).action(action);
    error.hint.retryable = true;
    error.hint.retry_after_seconds = Some(whole_seconds(wait.unwrap_or_default()));
    error.into()
}

fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// Creates the caller of a read, without a fencing token.
pub(super) fn reader_caller(who: &Principal) -> Caller {
    Caller { scope: who.scope.clone(), origin: Origin::Harness, fence: None }
}

/// Acquires a slot among the readers of the principal's tenant.
pub(super) fn acquire_reader_slot(who: &Principal) -> Result<Option<TenantSlot>, HttpError> {
    who.tenant.acquire_reader().map_err(|full| limit_error(full, &who.tenant))
}
