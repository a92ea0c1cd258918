//! Authentication and authorization on every route: a credential becomes a principal before a
//! handler runs, and must have the grants that the route declares. It must not read a body; tenant
//! and user come from the credential alone.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
};

use super::{Server, refuse::Refusal};
use crate::{
    access::{Denied, Full, Principal, Reading, Tenant},
    event::Origin,
    service::{Audit, Caller, Code, ServiceError},
    verbs::{Need, Route},
};

/// Marks a connection of this machine's user, over the owner's socket: it needs no credential.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSocket;

/// Name of the route of a path that matches none.
pub(super) const NO_ROUTE: &str = "none";
/// Header for a key, as an alternative to `Authorization`.
const API_KEY: &str = "x-api-key";
/// Admitted principal, and its slot among its tenant's requests until the answer.
pub(super) struct Admitted {
    pub(super) who: Arc<Principal>,
    _place: Option<Reading>,
}

/// Principal of the request, for handlers.
pub(super) struct Asking(pub(super) Arc<Principal>);

impl FromRequestParts<Arc<Server>> for Asking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Server>) -> Result<Self, Refusal> {
        // Without the guard no credential was checked: the request is refused.
        parts
            .extensions
            .get()
            .cloned()
            .map(Self)
            .ok_or_else(|| missing_credential("the request was not authenticated"))
    }
}

impl Server {
    /// Admits a request, and adds its principal to it.
    pub(super) fn let_in(&self, route: &str, request: &mut Request) -> Result<Admitted, Refusal> {
        let need = self.need(request.method(), route);
        let who = self.authenticate(need, request)?;
        let now = self.app.service.monotonic();
        let place = who.tenant.enter(now).map_err(|full| limit_refusal(full, &who.tenant))?;
        if let Err(lacking) = who.require(need.grants()) {
            let refusal = Refusal::from(ServiceError::from(lacking));
            return Err(self.mark_for_audit(refusal, &who.tenant, &who.name));
        }
        request.extensions_mut().insert(Arc::clone(&who));
        Ok(Admitted { who, _place: place })
    }

    /// Returns the grants that a route declares. A path without a route needs a credential: callers
    /// without one do not learn that no route matches.
    fn need(&self, method: &Method, route: &str) -> Need {
        if route == NO_ROUTE {
            return Need::Credential;
        }
        self.registered.need(method.as_str(), route)
    }

    fn authenticate(&self, need: Need, request: &Request) -> Result<Arc<Principal>, Refusal> {
        let Some(access) = &self.app.options.access else { return Ok(Arc::clone(&self.local)) };
        if request.extensions().get::<OwnSocket>().is_some() || need == Need::Nothing {
            return Ok(Arc::clone(&self.local));
        }
        let credential = credential(request.headers())?;
        access.authenticate(credential).map_err(|denied| self.refuse_credential(denied))
    }

    /// Refuses a credential; audits the refusal if the credential's tenant is known.
    fn refuse_credential(&self, denied: Denied) -> Refusal {
        let refusal = missing_credential(denied.problem);
        match denied.known {
            Some((tenant, name)) => self.mark_for_audit(refusal, &tenant, &name),
            None => refusal,
        }
    }

    /// Marks a refusal for the tenant's audit log, unless one was logged just before.
    fn mark_for_audit(
        &self,
        mut refusal: Refusal,
        tenant: &Arc<Tenant>,
        name: &Arc<str>,
    ) -> Refusal {
        if tenant.notes(self.app.service.monotonic()) {
            refusal.noted = Some((Arc::clone(tenant), Arc::clone(name)));
        }
        refusal
    }

    pub(super) fn audited(&self, method: &Method, route: &str) -> bool {
        self.registered.find(method.as_str(), route).is_some_and(Route::audited)
    }

    /// Writes an action or a refusal to the audit log, before the answer.
    pub(super) async fn note(&self, noted: Noted<'_>) {
        let Some(access) = &self.app.options.access else { return };
        for change in access.changes() {
            let audit = Audit::token(&change.id, change.change);
            self.app.service.audit(&change.tenant, audit).await;
        }
        let Noted { who, refusal, method, route, session, status, request } = noted;
        let refused_for = refusal.and_then(|refusal| refusal.noted.as_ref());
        let (tenant, name): (&Tenant, &str) = match (who, refused_for) {
            (_, Some((tenant, name))) => (tenant, name),
            (Some(who), None) if self.audited(method, route) => (&who.tenant, &who.name),
            _ => return,
        };
        let (method, status) = (method.as_str(), Some(status.as_u16()));
        let code = refusal.map(Refusal::code);
        let audit = Audit::call(name, method, route, session, status, code);
        self.app.service.audit(tenant.id(), audit.of_request(request)).await;
    }
}

/// A request as written to the audit log.
pub(super) struct Noted<'a> {
    pub(super) who: Option<&'a Principal>,
    pub(super) refusal: Option<&'a Refusal>,
    pub(super) method: &'a Method,
    pub(super) route: &'a str,
    pub(super) session: Option<&'a str>,
    pub(super) status: StatusCode,
    pub(super) request: &'a str,
}

/// Returns the only credential of a request.
fn credential(headers: &HeaderMap) -> Result<&str, Refusal> {
    let bearers = headers.get_all(header::AUTHORIZATION).iter().map(|value| {
        let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim_start_matches(' '))
    });
    let keys = headers.get_all(API_KEY).iter().map(|value| value.to_str().ok());
    let mut shown = bearers.chain(keys);
    let Some(first) = shown.next() else {
        return Err(missing_credential("no credential was sent"));
    };
    let first = first.ok_or_else(|| missing_credential("the credential is no bearer token"))?;
    // Some clients send the same one in both headers.
    if shown.any(|other| other != Some(first)) {
        return Err(missing_credential("two credentials were sent"));
    }
    Ok(first)
}

fn missing_credential(problem: &str) -> Refusal {
    let action = "send `Authorization: Bearer TOKEN` or `X-Api-Key: TOKEN` with a token of this \
                  server; its operator makes one with `sessionlog tokens create`";
    ServiceError::new(Code::Unauthenticated, problem).action(action).into()
}

/// Refuses a request of a tenant that exceeds a limit.
fn limit_refusal(full: Full, tenant: &Tenant) -> Refusal {
    let tenant = tenant.id();
    let (code, message, wait) = match full {
        Full::Requests(max) => {
            (Code::LimitReached, format!("{max} requests of tenant {tenant} are under way"), None)
        }
        Full::Readers(max) => {
            (Code::LimitReached, format!("{max} readers of tenant {tenant} are connected"), None)
        }
        Full::Pace(rate, wait) => (
            Code::RateLimited,
            format!("tenant {tenant} may ask {rate} times a second"),
            Some(wait),
        ),
    };
    let action = match full {
        Full::Readers(_) => "end streams that are not read, or come back later",
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

/// Returns the caller of a read.
pub(super) fn caller_of(who: &Principal) -> Caller {
    Caller { scope: who.scope.clone(), origin: Origin::Harness, fence: None }
}

/// Takes a slot among its tenant's readers.
pub(super) fn reader(who: &Principal) -> Result<Option<Reading>, Refusal> {
    who.tenant.read().map_err(|full| limit_refusal(full, &who.tenant))
}
