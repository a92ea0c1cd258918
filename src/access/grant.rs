//! Grants of a credential: five scopes, each a bit. It must not depend on routes.

use std::fmt;

/// One kind of operation that a credential allows; clients know it as a scope of their token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Read and list sessions.
    Read,
    /// Create sessions, append, change a session's title and metadata.
    Write,
    /// Delete, erase and redact.
    Delete,
    /// Administration of a tenant: holds, retention, verification, repair, the audit log.
    Admin,
    /// Administration of the server for all tenants: metrics, reports, the owner.
    Operator,
}

impl Grant {
    /// Every grant.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Delete, Self::Admin, Self::Operator];

    /// Returns the name of the grant in tokens and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Admin => "admin",
            Self::Operator => "operator",
        }
    }

    /// Parses the name of a grant.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grant| grant.as_str() == name)
    }
}

/// A set of grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants(u8);

impl Grants {
    /// The set of every grant.
    pub const ALL: Self = Self(0b1_1111);

    /// Returns true if the set has the grant. `Admin` of a tenant implies read, write and delete in
    /// it; operations on all tenants require `Operator`.
    #[must_use]
    pub fn has(self, grant: Grant) -> bool {
        let is_set = |grant: Grant| self.0 & 1 << grant as u8 != 0;
        is_set(grant) || grant != Grant::Operator && is_set(Grant::Admin)
    }

    /// Returns the set with the grant added.
    #[must_use]
    pub fn with_grant(self, grant: Grant) -> Self {
        Self(self.0 | 1 << grant as u8)
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        grants.into_iter().fold(Self::default(), Self::with_grant)
    }
}

impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Grant::ALL.into_iter().filter(|grant| self.0 & 1 << *grant as u8 != 0);
        let names: Vec<&str> = named.map(Grant::as_str).collect();
        f.write_str(&names.join(","))
    }
}
