//! A server that requires credentials, and the tokens it accepts. It must not assert anything.

use std::{path::PathBuf, sync::Arc};

use sessionlog::{
    access::{
        self, AccessOptions, Authenticator, Grant, JwtRules, NewToken, PerTenant, TenantLimits,
    },
    env::{Clock as _, entropy::SystemEntropy},
    http::HttpOptions,
    mcp,
    service::{Quotas, Service},
    store::Store,
};
use sessionlog_sim::ManualClock;

use crate::{
    engines,
    http::house::{House, Plan, Reply},
};

/// Settings of a server that requires credentials.
#[derive(Default)]
pub struct Wall {
    pub limits: PerTenant<TenantLimits>,
    pub quotas: PerTenant<Quotas>,
    pub jwt: Option<JwtRules>,
    /// The service, if it is not the default one over the store.
    pub service: Option<Service>,
}

/// A server that requires credentials.
pub struct Walled {
    pub house: House,
    pub tokens: PathBuf,
    pub clock: Arc<ManualClock>,
    pub store: Arc<dyn Store>,
    _home: tempfile::TempDir,
}

impl Walled {
    pub async fn plain() -> Self {
        Self::build(Wall::default()).await
    }

    pub async fn build(wall: Wall) -> Self {
        let engine = engines::all().into_iter().next().unwrap();
        Self::over(engine.store, engine.clock, wall).await
    }

    pub async fn over(store: Arc<dyn Store>, clock: Arc<ManualClock>, wall: Wall) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tokens = home.path().join("tokens.json");
        // A server starts with a tokens file, even an empty one.
        token(&tokens, &clock, ("nobody", "nobody"), &[Grant::Read]);
        let options =
            AccessOptions { tokens: Some(tokens.clone()), jwt: wall.jwt, limits: wall.limits };
        let access = Authenticator::open(options, clock.clone()).unwrap();
        let options = HttpOptions { access: Some(Arc::new(access)), ..HttpOptions::default() };
        let service = wall.service.unwrap_or_else(|| Service::new(store.clone(), clock.clone()));
        let service = service.with_quotas(wall.quotas);
        let more = mcp::http_router_with(service.clone(), mcp::McpHttpOptions::default());
        let plan = Plan { options, more, service: Some(service), ..Plan::default() };
        let house = House::over(store.clone(), clock.clone(), plan).await;
        Self { house, tokens, clock, store, _home: home }
    }

    /// Creates a token of a user of a tenant.
    pub fn token(&self, who: (&str, &str), grants: &[Grant]) -> String {
        token(&self.tokens, &self.clock, who, grants)
    }

    /// Creates a token with every grant in its tenant.
    pub fn admin(&self, who: (&str, &str)) -> String {
        self.token(who, &[Grant::Admin])
    }

    pub async fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Reply {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = body.map(|body| body.to_string().into_bytes());
        self.house.call(method, path, &headers, body).await
    }

    pub async fn get(&self, token: &str, path: &str) -> Reply {
        self.call(token, "GET", path, None).await
    }

    pub async fn post(&self, token: &str, path: &str, body: &serde_json::Value) -> Reply {
        self.call(token, "POST", path, Some(body)).await
    }
}

fn token(path: &std::path::Path, clock: &ManualClock, who: (&str, &str), of: &[Grant]) -> String {
    let new = NewToken {
        tenant: who.0.to_owned(),
        user: who.1.to_owned(),
        scopes: of.to_vec(),
        label: None,
        expires_at: None,
    };
    access::create_token(path, new, clock.now(), &SystemEntropy).unwrap().0
}
