//! Names of tenants, users, sessions and events, checked when they are made. No user text ever
//! reaches a path: files are named by `SessionHash`. It must not mint ids (env has the randomness).

use std::{fmt, io, sync::Arc};

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
    /// Id of an event, unique in its session for good; drawn by the store when the client gives
    /// none. Any printable text of at most 128 bytes.
    EventId,
    check_text
);
/// A client's name for one call (`Idempotency-Key`): of a batch, remembered for 24 h. With it comes
/// a digest of the call, where nothing else that is stored says what the call was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    text: Arc<str>,
    call: Option<[u8; 8]>,
}

/// Stands between a key and the digest of its call where both are stored as one text. No key has a
/// control character.
const CALL: char = '\0';

impl BatchKey {
    /// Checks the text.
    ///
    /// # Errors
    /// [`IdError`] says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, IdError> {
        check_text(text).map(|()| Self { text: text.into(), call: None })
    }

    /// The key of the call that `write` writes: the first half of a digest stands for everything
    /// it asks for. The digest depends on the key itself: where it is kept without the key, as in
    /// the id of a checkpoint, nothing can be guessed of what it stands for unless the key can be.
    ///
    /// # Errors
    /// That of the writer.
    pub fn of_call<E>(
        self,
        write: impl FnOnce(&mut dyn io::Write) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 call with a key");
        for text in [self.as_str(), "\0"] {
            hasher.update(text.as_bytes());
        }
        write(&mut hasher)?;
        Ok(Self { call: hasher.finalize().as_bytes().first_chunk().copied(), ..self })
    }

    /// The key as the client wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The key with the digest of its call, as one text.
    #[must_use]
    pub fn stored(&self) -> String {
        match self.call {
            None => self.text.to_string(),
            Some(call) => format!("{}{CALL}{:016x}", self.text, u64::from_be_bytes(call)),
        }
    }

    /// The key that was [stored](Self::stored).
    ///
    /// # Errors
    /// [`IdError`] when it is no key.
    pub fn of_stored(text: &str) -> Result<Self, IdError> {
        let (text, call) = match text.split_once(CALL) {
            None => (text, None),
            Some((text, call)) => (text, u64::from_str_radix(call, 16).ok()),
        };
        Ok(Self { call: call.map(u64::to_be_bytes), ..Self::new(text)? })
    }

    /// 16 bytes that stand for the key and its call: half of them for each.
    #[must_use]
    pub fn digest(&self) -> [u8; 16] {
        let hash = blake3::hash(self.text.as_bytes());
        let half = hash.as_bytes().first_chunk();
        let mut both: [u8; 16] = *half.expect("a hash has twice as many bytes");
        if let Some(call) = self.call {
            let (_, of_call) = both.split_at_mut(8);
            of_call.copy_from_slice(&call);
        }
        both
    }

    /// What a call with the digest `sent` is to one with the digest `known`: `None` when their
    /// keys differ, else whether it is the same call, and so a retry. This is the one place that
    /// decides it for calls whose content is not stored to compare with.
    #[must_use]
    pub fn retries(known: [u8; 16], sent: [u8; 16]) -> Option<bool> {
        (known.first_chunk::<8>() == sent.first_chunk::<8>()).then_some(known == sent)
    }
}

impl fmt::Display for BatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
