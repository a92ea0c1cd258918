//! Names of tenants, users, sessions and events, checked when they are made. No user text ever
//! reaches a path: files are named by `SessionHash`. It must not mint ids (env has the randomness).

use std::{fmt, sync::Arc};

use super::limits;

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// No character at all.
    #[error("it is empty")]
    Empty,
    /// Longer than the limit, in bytes.
    #[error("it is {length} bytes long; {max} are allowed")]
    TooLong {
        /// Bytes found.
        length: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A character outside the allowed set.
    #[error("the character {found:?} is not allowed")]
    Character {
        /// The first character that is not allowed.
        found: char,
    },
    /// A type of an event that is not parts with dots between them.
    #[error("it is not domain.action, such as user.message")]
    Parts,
}

/// `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`: what a client may call a session.
fn check_name(text: &str) -> Result<(), IdError> {
    if text.len() > limits::ID_BYTES_MAX {
        return Err(IdError::TooLong { length: text.len(), max: limits::ID_BYTES_MAX });
    }
    let first = text.chars().next().ok_or(IdError::Empty)?;
    if !first.is_ascii_alphanumeric() {
        return Err(IdError::Character { found: first });
    }
    match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
        Some(found) => Err(IdError::Character { found }),
        None => Ok(()),
    }
}

/// Printable text without control characters: what a client may call an event or a batch.
fn check_text(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > limits::EVENT_ID_BYTES_MAX {
        return Err(IdError::TooLong { length: text.len(), max: limits::EVENT_ID_BYTES_MAX });
    }
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    match text.chars().find(|c| c.is_control()) {
        Some(found) => Err(IdError::Character { found }),
        None => Ok(()),
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text.
            ///
            /// # Errors
            /// [`IdError`] says what is wrong with it.
            pub fn new(text: &str) -> Result<Self, IdError> {
                $check(text).map(|()| Self(text.into()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }
    };
}

id!(
    /// Name of a session, unique in its scope: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`.
    SessionId,
    check_name
);
id!(
    /// A tenant, from the credential only.
    TenantId,
    check_name
);
id!(
    /// A user of a tenant, from the credential only.
    UserId,
    check_name
);
id!(
    /// Id of an event, unique in its session for ever; drawn by the store when the client gives
    /// none. Any printable text of at most 128 bytes.
    EventId,
    check_text
);
id!(
    /// A client's name for one batch (`Idempotency-Key`), remembered for 24 h.
    BatchKey,
    check_text
);

impl BatchKey {
    /// A 16-byte hash of the key.
    #[must_use]
    pub fn digest(&self) -> [u8; 16] {
        let hash = blake3::hash(self.0.as_bytes());
        let half = hash.as_bytes().first_chunk();
        *half.expect("a hash has twice as many bytes")
    }
}

/// The tenant and user that a verb acts for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The tenant.
    pub tenant: TenantId,
    /// The user.
    pub user: UserId,
}

impl Scope {
    /// The scope of a store without credentials: `default` / `local`.
    #[must_use]
    pub fn local() -> Self {
        Self { tenant: TenantId("default".into()), user: UserId("local".into()) }
    }
}

/// A session of a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The session's scope.
    pub scope: Scope,
    /// Its name in that scope.
    pub session: SessionId,
}

/// 128 random bits, drawn when a session is created. An id used again after a reclaim has another
/// incarnation, so it never names the files of the earlier session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub [u8; 16]);

/// Name of a session on disk: blake3 of length-prefixed tenant, user, session and incarnation, so
/// that `a:b`,`c` and `a`,`b:c` differ and no user text reaches a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionHash(pub [u8; 32]);

impl SessionHash {
    /// Hash of one life of a session.
    #[must_use]
    pub fn of(key: &SessionKey, incarnation: Incarnation) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 session hash");
        let names = [key.scope.tenant.as_str(), key.scope.user.as_str(), key.session.as_str()];
        for part in names.map(str::as_bytes).into_iter().chain([incarnation.0.as_slice()]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Display for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        blake3::Hash::from_bytes(self.0).to_hex().fmt(f)
    }
}

impl fmt::Debug for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_keeps_to_its_alphabet() {
        for good in ["a", "A9", "a.b_c-d", &"x".repeat(128)] {
            assert!(SessionId::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".a", "-a", "a/b", "a b", "a:b", "é", "a\0", &"x".repeat(129)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_that_join_alike_hash_apart() {
        let key = |tenant: &str, user: &str| SessionKey {
            scope: Scope { tenant: TenantId(tenant.into()), user: UserId(user.into()) },
            session: SessionId("s".into()),
        };
        let hash = |key| SessionHash::of(&key, Incarnation([0; 16]));
        assert_ne!(hash(key("ab", "c")), hash(key("a", "bc")));
    }
}
