//! Authentication and authorization on every route: a credential becomes a principal before a
//! handler runs, and has the grants that the route's declaration asks for. It must not look at a
//! body; a tenant and a user come from the credential alone.

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

/// A connection of this machine's user, over the owner's socket: it needs no credential.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSocket;

/// Name in the guard for the route of a path that has none.
pub(super) const NO_ROUTE: &str = "none";
/// Header for a key beside `Authorization`.
const API_KEY: &str = "x-api-key";
/// Principal that was let in, and its place among its tenant's requests until it is answered.
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
    /// Lets a request in: its principal goes with it.
    pub(super) fn let_in(&self, route: &str, request: &mut Request) -> Result<Admitted, Refusal> {
        let need = self.need(request.method(), route);
        let who = self.authenticate(need, request)?;
        let now = self.app.service.monotonic();
        let place = who.tenant.enter(now).map_err(|full| refused(full, &who.tenant))?;
        if let Err(lacking) = who.require(need.grants()) {
            let refusal = Refusal::from(ServiceError::from(lacking));
            return Err(self.noting(refusal, &who.tenant, &who.name));
        }
        request.extensions_mut().insert(Arc::clone(&who));
        Ok(Admitted { who, _place: place })
    }

    /// Grants that a route declares. A path without a route is refused to those who show a
    /// credential; to all others it is not said that there is no such route.
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

    /// A refusal of a credential, noted where it is known whose it was.
    fn refuse_credential(&self, denied: Denied) -> Refusal {
        let refusal = missing_credential(denied.problem);
        match denied.known {
            Some((tenant, name)) => self.noting(refusal, &tenant, &name),
            None => refusal,
        }
    }

    /// The refusal, to go into the tenant's audit log unless one went there just now.
    fn noting(&self, mut refusal: Refusal, tenant: &Arc<Tenant>, name: &Arc<str>) -> Refusal {
        if tenant.notes(self.app.service.monotonic()) {
            refusal.noted = Some((Arc::clone(tenant), Arc::clone(name)));
        }
        refusal
    }

    pub(super) fn audited(&self, method: &Method, route: &str) -> bool {
        self.registered.find(method.as_str(), route).is_some_and(Route::audited)
    }

    /// Writes down what was done, or refused, before it is answered.
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

/// A request as the audit log has it.
pub(super) struct Noted<'a> {
    pub(super) who: Option<&'a Principal>,
    pub(super) refusal: Option<&'a Refusal>,
    pub(super) method: &'a Method,
    pub(super) route: &'a str,
    pub(super) session: Option<&'a str>,
    pub(super) status: StatusCode,
    pub(super) request: &'a str,
}

/// The one credential a request shows.
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
    // Some clients send one under both names.
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

/// The refusal of a request of a tenant that takes too much.
fn refused(full: Full, tenant: &Tenant) -> Refusal {
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

/// On whose behalf something is read.
pub(super) fn caller_of(who: &Principal) -> Caller {
    Caller { scope: who.scope.clone(), origin: Origin::Harness, fence: None }
}

/// A place among its tenant's readers.
pub(super) fn reader(who: &Principal) -> Result<Option<Reading>, Refusal> {
    who.tenant.read().map_err(|full| refused(full, &who.tenant))
}
