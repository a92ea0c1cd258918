//! The authenticated caller of a request. It must not hold a credential.

use std::sync::Arc;

use super::{Grant, Grants, Tenant, TenantLimits};
use crate::event::{Scope, TenantId, UserId};

/// The user that owns a tenant's audit log. No credential has it.
pub const AUDIT_USER: &str = "sessionlog.audit";
/// Prefix of the server's own users.
const RESERVED: &str = "sessionlog.";

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Tenant and user.
    pub scope: Scope,
    /// Operations that the credential allows.
    pub grants: Grants,
    /// Name of the credential in logs: a token's id, a JWT's user, or `local`.
    pub name: Arc<str>,
    /// Limits and usage counters of the tenant.
    pub tenant: Arc<Tenant>,
    /// True if its administrative and destructive requests are audited: the server has credentials.
    pub is_audited: bool,
}

/// The missing grant of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this credential lacks the scope {}", .0.as_str())]
pub struct MissingGrant(pub Grant);

impl Principal {
    /// Returns the user of this machine, with every grant.
    #[must_use]
    pub fn local() -> Self {
        let scope = Scope::local();
        let tenant = Arc::new(Tenant::new(scope.tenant.clone(), TenantLimits::default()));
        Self { scope, grants: Grants::ALL, name: "local".into(), tenant, is_audited: false }
    }

    /// Checks that the principal has all grants of `needed`.
    ///
    /// # Errors
    /// The first missing grant.
    pub fn require(&self, needed: &[Grant]) -> Result<(), MissingGrant> {
        match needed.iter().find(|grant| !self.grants.has(**grant)) {
            Some(grant) => Err(MissingGrant(*grant)),
            None => Ok(()),
        }
    }
}

/// Returns true if a user id is reserved for the server.
#[must_use]
pub fn is_reserved(user: &UserId) -> bool {
    user.as_str().starts_with(RESERVED)
}

/// Parses tenant and user of a credential; returns `None` if one is invalid or reserved.
#[must_use]
pub fn parse_scope(tenant: &str, user: &str) -> Option<Scope> {
    let (tenant, user) = (TenantId::new(tenant).ok()?, UserId::new(user).ok()?);
    (!is_reserved(&user)).then_some(Scope { tenant, user })
}
