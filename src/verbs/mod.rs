//! VERBS: what a client can ask for, declared once. A declaration says how a verb is reached
//! (method, path, operation id) and what its caller needs; every interface and the client read it
//! from here. It must not know HTTP's types, MCP or a terminal.

pub mod routes;

use std::collections::HashMap;

use crate::access::Grant;

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Does something; a retry carries an idempotency key.
    Post,
    /// Sets something; sent twice it is as sent once.
    Put,
    /// Removes something.
    Delete,
    /// The route answers every method itself.
    Any,
}

impl Method {
    /// Its name on the wire; `None` of [`Method::Any`].
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Get => Some("GET"),
            Self::Post => Some("POST"),
            Self::Put => Some("PUT"),
            Self::Delete => Some("DELETE"),
            Self::Any => None,
        }
    }

    /// The declared method that serves a request's; a GET route serves HEAD.
    fn serves(self, requested: &str) -> bool {
        let requested = if requested == "HEAD" { "GET" } else { requested };
        self.as_str().is_none_or(|name| name == requested)
    }
}

/// What the caller of a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No credential: the route says nothing about any tenant.
    Nothing,
    /// Any valid credential. The handler asks for more where more is needed.
    Credential,
    /// A credential with this grant.
    Grant(Grant),
}

impl Need {
    /// The grants that the credential must have.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        match self {
            Self::Nothing | Self::Credential => &[],
            Self::Grant(grant) => std::slice::from_ref(grant),
        }
    }
}

/// How a verb is reached, and what that needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, its parameters in braces.
    pub path: &'static str,
    /// The operation id of the published description.
    pub id: &'static str,
    /// What the caller needs.
    pub need: Need,
}

impl Route {
    /// A route that reads.
    #[must_use]
    pub const fn get(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Get, path, id, need }
    }

    /// A route that does something.
    #[must_use]
    pub const fn post(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Post, path, id, need }
    }

    /// A route that sets something.
    #[must_use]
    pub const fn put(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Put, path, id, need }
    }

    /// A route that removes something.
    #[must_use]
    pub const fn delete(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Delete, path, id, need }
    }

    /// A route that answers every method itself.
    #[must_use]
    pub const fn any(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Any, path, id, need }
    }

    /// Whether each call goes into the tenant's audit log: it changes something, and reading and
    /// writing sessions is not enough for it.
    #[must_use]
    pub fn audited(&self) -> bool {
        let beyond = |grant: &Grant| !matches!(grant, Grant::Read | Grant::Write);
        self.method != Method::Get && self.need.grants().iter().any(beyond)
    }
}

/// The routes that a server has registered, by path.
#[derive(Debug, Default)]
pub struct Registered(HashMap<&'static str, Vec<Route>>);

impl Registered {
    /// Adds a route.
    ///
    /// # Panics
    /// When its method and path are registered already.
    pub fn add(&mut self, route: Route) {
        let same = self.0.entry(route.path).or_default();
        let twice = same.iter().any(|known| known.method == route.method);
        assert!(!twice, "{} is registered twice", route.id);
        same.push(route);
    }

    /// The route that a request's method and matched path lead to.
    #[must_use]
    pub fn find(&self, method: &str, path: &str) -> Option<&Route> {
        self.0.get(path)?.iter().find(|route| route.method.serves(method))
    }

    /// What a request needs. A method that a registered path does not take needs a credential only:
    /// it is refused by the router. A path without a declaration needs an operator, so that a
    /// forgotten declaration opens nothing.
    #[must_use]
    pub fn need(&self, method: &str, path: &str) -> Need {
        match self.find(method, path) {
            Some(route) => route.need,
            None if self.0.contains_key(path) => Need::Credential,
            None => Need::Grant(Grant::Operator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Route = Route::get("/a", "readA", Need::Grant(Grant::Read));
    const HOLD: Route = Route::put("/a", "holdA", Need::Grant(Grant::Admin));

    fn registered() -> Registered {
        let mut all = Registered::default();
        all.add(READ);
        all.add(HOLD);
        all
    }

    #[test]
    fn what_a_request_needs_is_what_its_route_declares() {
        for (method, path, need) in [
            ("GET", "/a", READ.need),
            ("HEAD", "/a", READ.need),
            ("PUT", "/a", HOLD.need),
            ("DELETE", "/a", Need::Credential),
            ("GET", "/a/hold", Need::Grant(Grant::Operator)),
        ] {
            assert_eq!(registered().need(method, path), need, "{method} {path}");
        }
        assert!(HOLD.audited() && !READ.audited());
    }

    #[test]
    #[should_panic(expected = "readA is registered twice")]
    fn a_route_is_registered_once() {
        registered().add(READ);
    }
}
