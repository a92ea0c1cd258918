//! Grants of a credential: five scopes, each a bit. It must not know a route.

use std::fmt;

/// One thing a credential may allow; clients know it as a scope of their token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Reading sessions and listing them.
    Read,
    /// Creating sessions, appending, changing a session's title and metadata.
    Write,
    /// Deleting, erasing and redacting.
    Delete,
    /// The tenant's affairs: holds, retention, verification, repair, the audit log.
    Admin,
    /// The server's affairs, of all tenants together: metrics, reports, the owner.
    Operator,
}

impl Grant {
    /// Every grant.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Delete, Self::Admin, Self::Operator];

    /// Its name in tokens and messages.
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

    /// The grant of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grant| grant.as_str() == name)
    }
}

/// A set of grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants(u8);

impl Grants {
    /// All of them.
    pub const ALL: Self = Self(0b1_1111);

    /// True if the grant is in the set. `Admin` of a tenant implies read, write and delete there;
    /// what concerns all tenants needs a grant of its own.
    #[must_use]
    pub fn has(self, grant: Grant) -> bool {
        let named = |grant: Grant| self.0 & 1 << grant as u8 != 0;
        named(grant) || grant != Grant::Operator && named(Grant::Admin)
    }

    /// The set with one more.
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
