//! The authenticated caller of a request. It must not hold a credential.

use std::sync::Arc;

use super::{Grant, Grants, Limits, Tenant};
use crate::event::{Scope, TenantId, UserId};

/// The user that owns a tenant's audit log. No credential has it.
pub const AUDIT_USER: &str = "sessionlog.audit";
/// Prefix of the server's own users.
const RESERVED: &str = "sessionlog.";

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Its scope.
    pub scope: Scope,
    /// Its grants.
    pub grants: Grants,
    /// Name of the credential in logs: a token's id, a JWT's user, or `local`.
    pub name: Arc<str>,
    /// Current usage of the server by its tenant.
    pub tenant: Arc<Tenant>,
    /// True if its administrative and destructive requests are audited: the server has credentials.
    pub is_audited: bool,
}

/// The missing grant of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this credential lacks the scope {}", .0.as_str())]
pub struct Lacking(pub Grant);

impl Principal {
    /// Returns the user of this machine, with every grant.
    #[must_use]
    pub fn local() -> Self {
        let scope = Scope::local();
        let tenant = Arc::new(Tenant::new(scope.tenant.clone(), Limits::default()));
        Self { scope, grants: Grants::ALL, name: "local".into(), tenant, is_audited: false }
    }

    /// Checks that it has all of these grants.
    ///
    /// # Errors
    /// Returns an error with the first missing grant.
    pub fn require(&self, needed: &[Grant]) -> Result<(), Lacking> {
        match needed.iter().find(|grant| !self.grants.has(**grant)) {
            Some(grant) => Err(Lacking(*grant)),
            None => Ok(()),
        }
    }
}

/// Returns true if a user is one of the server's own.
#[must_use]
pub fn is_reserved(user: &UserId) -> bool {
    user.as_str().starts_with(RESERVED)
}

/// Returns the scope of a credential; `None` when a name is invalid or reserved.
#[must_use]
pub fn scope(tenant: &str, user: &str) -> Option<Scope> {
    let (tenant, user) = (TenantId::new(tenant).ok()?, UserId::new(user).ok()?);
    (!is_reserved(&user)).then_some(Scope { tenant, user })
}
