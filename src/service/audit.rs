//! The audit log of a tenant: a session of the server in a scope that no credential has, so that
//! only the verbs here append to it and read it. It must not hold a body, a token or any text of a
//! client besides names.

use serde_json::{Map, Value};

use super::{Caller, Code, EventQuery, EventSlice, Service, ServiceError, ServiceResult};
use crate::{
    access::AUDIT_USER,
    event::{
        Batch, EventType, NewEvent, Origin, Position, Scope, SessionId, TenantId, UserId, kinds,
    },
    store::{NewSession, StoreError},
};

/// Id of the audit session in its scope.
const SESSION: &str = "audit";
const TITLE: &str = "What was ruled, deleted and refused here";

/// An entry of an audit log.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    kind: &'static str,
    body: Map<String, Value>,
}

impl AuditEntry {
    /// Builds the entry of a call: caller, target and outcome.
    #[must_use]
    pub fn from_call(
        credential: &str,
        method: &str,
        route: &str,
        session: Option<&str>,
        status: Option<u16>,
        refused: Option<Code>,
    ) -> Self {
        let kind = match refused {
            Some(Code::Unauthenticated) => kinds::AUDIT_CREDENTIAL_REFUSED,
            Some(Code::Forbidden) => kinds::AUDIT_FORBIDDEN,
            _ => kinds::AUDIT_CALL,
        };
        let outcome = refused.map_or("done", |code| code.as_str());
        let mut body = Map::new();
        for (name, text) in
            [("credential", credential), ("method", method), ("route", route), ("outcome", outcome)]
        {
            body.insert(name.to_owned(), Value::from(text));
        }
        // An invalid session id is omitted, because the client chose the text.
        if let Some(session) = session.filter(|text| SessionId::new(text).is_ok()) {
            body.insert("session".to_owned(), Value::from(session));
        }
        body.extend(status.map(|status| ("status".to_owned(), Value::from(status))));
        Self { kind, body }
    }

    /// Builds the entry of a token that was created, revoked, changed or removed.
    #[must_use]
    pub fn from_token(id: &str, change: &str) -> Self {
        let pair = |name: &str, text: &str| (name.to_owned(), Value::from(text));
        let body = [pair("credential", id), pair("change", change)].into_iter().collect();
        Self { kind: kinds::AUDIT_TOKEN, body }
    }

    /// Adds the request's id to the entry.
    #[must_use]
    pub fn with_request(mut self, request: &str) -> Self {
        self.body.insert("request".to_owned(), Value::from(request));
        self
    }
}

/// Returns the caller that owns the audit log: the server's own user in the tenant.
fn audit_caller(tenant: &TenantId) -> (Caller, SessionId) {
    let user = UserId::new(AUDIT_USER).expect("a constant that is a name");
    let session = SessionId::new(SESSION).expect("a constant that is a name");
    let scope = Scope { tenant: tenant.clone(), user };
    (Caller { scope, origin: Origin::Harness, fence: None }, session)
}

impl Service {
    /// Appends an entry to a tenant's audit log; durable on return. A storage error does not fail
    /// the audited call: the entry then goes to the process log.
    pub async fn audit(&self, tenant: &TenantId, audit: AuditEntry) {
        let (kind, body) = (audit.kind, Value::Object(audit.body).to_string());
        if let Err(error) = self.append_entry(tenant, kind, &body).await {
            tracing::error!(%tenant, kind, line = %body, %error, "the audit log took no line");
        }
    }

    async fn append_entry(&self, tenant: &TenantId, kind: &str, body: &str) -> ServiceResult<()> {
        let (caller, session) = audit_caller(tenant);
        let kind = EventType::new(kind).map_err(|error| ServiceError::invalid("type", error))?;
        let event = NewEvent {
            id: None,
            position: None,
            kind,
            origin: caller.origin,
            created_at: None,
            body: bytes::Bytes::copy_from_slice(body.as_bytes()),
        };
        let batch = || Batch { events: [event.clone()].into(), ..Batch::default() };
        let key = caller.key(&session);
        let appended = match self.await_durable(self.store.append(&key, batch())).await {
            Err(StoreError::SessionNotFound { .. }) => {
                let new = NewSession {
                    id: Some(session),
                    title: Some(TITLE.to_owned()),
                    ttl_seconds: Some(0),
                    events: batch(),
                    ..NewSession::default()
                };
                match self.await_durable(self.store.create(&caller.scope, new)).await {
                    Err(StoreError::SessionExists { .. }) => {
                        self.await_durable(self.store.append(&key, batch())).await.map(drop)
                    }
                    created => created.map(drop),
                }
            }
            appended => appended.map(drop),
        };
        Ok(appended?)
    }

    /// Returns a slice of the audit log of the caller's tenant; empty if nothing was written yet.
    ///
    /// # Errors
    /// Those of [`Self::get_events`].
    pub async fn audit_log(
        &self,
        caller: &Caller,
        query: &EventQuery,
    ) -> ServiceResult<EventSlice> {
        let (owner, session) = audit_caller(&caller.scope.tenant);
        match self.get_events(&owner, &session, query).await {
            Err(error) if error.code == Code::SessionNotFound => Ok(EventSlice {
                events: Vec::new(),
                next_page: None,
                next_position: Position::ZERO,
                tail: Position::ZERO,
                gaps: Vec::new(),
                types_seen: Vec::new(),
            }),
            answer => answer,
        }
    }
}
