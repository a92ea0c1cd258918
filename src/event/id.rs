//! Names of tenants, users, sessions and events, checked when they are made. No user text ever
//! reaches a path: files are named by `SessionHash`. It must not mint ids (env has the randomness).

use std::{fmt, io, sync::Arc};

use super::limits;

/// Reason why a text is not a valid id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text is longer than the limit, in bytes.
    #[error("it is {length} bytes long; {max} are allowed")]
    TooLong {
        /// Bytes of the text.
        length: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The text has a character outside the allowed set.
    #[error("the character {found:?} is not allowed")]
    Character {
        /// The first character that is not allowed.
        found: char,
    },
    /// The text is not an event type: parts separated by dots.
    #[error("it is not domain.action, such as user.message")]
    Parts,
}

/// Checks the id of a session: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`.
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

/// Checks the id of an event or the key of a batch: text without control characters.
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
            /// Creates an id from a valid text.
            ///
            /// # Errors
            /// [`IdError`] if the text is invalid.
            pub fn new(text: &str) -> Result<Self, IdError> {
                $check(text).map(|()| Self(text.into()))
            }

            /// Returns the id as text.
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

/// Delimiter before and after the hash in an id that a recorder derives from content.
const CONTENT_MARK: char = '~';
/// Minimum characters of such a hash.
const HASH_CHARS_MIN: usize = 16;

/// An id that a recorder derived from content, as it is sent: `NAME~HASH~PART`, a form that no
/// other id has. Anyone who sees such a hash can test guesses of the content, so a store keeps
/// `NAME`, a keyed hash of `HASH`, and `PART`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentId<'a> {
    /// Kind of the event, as `line-`.
    pub name: &'a str,
    /// A hash of the content.
    pub hash: &'a str,
    /// Suffix of the event among those derived from the content, as `.1`; empty for the first.
    pub part: &'a str,
}

impl ContentId<'_> {
    /// Formats the id as a recorder sends it.
    #[must_use]
    pub fn to_sent_id(self) -> String {
        let Self { name, hash, part } = self;
        format!("{name}{CONTENT_MARK}{hash}{CONTENT_MARK}{part}")
    }

    /// Formats the id as it is stored, with `hash` instead of the hash of the content.
    #[must_use]
    pub fn to_stored_id(self, hash: &str) -> Option<EventId> {
        EventId::new(&format!("{}{hash}{}", self.name, self.part)).ok()
    }
}

impl EventId {
    /// Parses an id that is derived from content; returns `None` for any other id.
    #[must_use]
    pub fn parse_content_id(&self) -> Option<ContentId<'_>> {
        let mut parts = self.0.split(CONTENT_MARK);
        let (name, hash, part) = (parts.next()?, parts.next()?, parts.next()?);
        let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        let is_hash = hash.len() >= HASH_CHARS_MIN && hash.bytes().all(is_digit);
        (is_hash && parts.next().is_none()).then_some(ContentId { name, hash, part })
    }

    /// Returns the id of the first event of the same record, if this id may be of a later one.
    #[must_use]
    pub fn first_id_of_record(&self) -> Option<Self> {
        let name = self.0.trim_end_matches(|last: char| last.is_ascii_digit());
        let is_part = name.len() < self.0.len();
        let first = name.strip_suffix(['.', '-']).filter(|_| is_part)?;
        Self::new(first).ok()
    }
}

/// A client's key of one request (`Idempotency-Key`), stored for 24 h, with a digest of the request
/// where the request itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    text: Arc<str>,
    call: Option<[u8; 8]>,
}

/// Separator between a key and the digest of its request where both are stored as one text. No key
/// has a control character.
const DIGEST_MARK: char = '\0';

impl BatchKey {
    /// Creates a key from a valid text.
    ///
    /// # Errors
    /// [`IdError`] if the text is invalid.
    pub fn new(text: &str) -> Result<Self, IdError> {
        check_text(text).map(|()| Self { text: text.into(), call: None })
    }

    /// Returns the key of the request that `write` serializes, with the first half of its digest.
    /// The digest depends on the key itself: where it is stored without the key, as in the id of a
    /// checkpoint, the request cannot be guessed from it unless the key can be.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn with_request_digest<E>(
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

    /// Returns the key as the client wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Formats the key and the digest of its request as one text, for storage.
    #[must_use]
    pub fn to_stored(&self) -> String {
        match self.call {
            None => self.text.to_string(),
            Some(call) => format!("{}{DIGEST_MARK}{:016x}", self.text, u64::from_be_bytes(call)),
        }
    }

    /// Parses the output of [`Self::to_stored`].
    ///
    /// # Errors
    /// [`IdError`] if the key is invalid.
    pub fn parse_stored(text: &str) -> Result<Self, IdError> {
        let (text, call) = match text.split_once(DIGEST_MARK) {
            None => (text, None),
            Some((text, call)) => (text, u64::from_str_radix(call, 16).ok()),
        };
        Ok(Self { call: call.map(u64::to_be_bytes), ..Self::new(text)? })
    }

    /// Returns 16 bytes that identify the key and its request, half of them for each.
    #[must_use]
    pub fn digest(&self) -> [u8; 16] {
        Self::join_digests(*blake3::hash(self.text.as_bytes()).as_bytes(), self.call)
    }

    /// Computes [`Self::digest`] with the keyed hash of a store: recorders derive keys from
    /// content, which the digest must not reveal.
    #[must_use]
    pub fn digest_with(&self, hash: impl Fn(&[u8]) -> [u8; 32]) -> [u8; 16] {
        let request_half = self.call.map(|_| hash(self.to_stored().as_bytes()));
        let request_half = request_half.as_ref().and_then(|hash| hash.first_chunk().copied());
        Self::join_digests(hash(self.text.as_bytes()), request_half)
    }

    fn join_digests(key_half: [u8; 32], request_half: Option<[u8; 8]>) -> [u8; 16] {
        let mut both: [u8; 16] = *key_half.first_chunk().expect("a hash has twice as many bytes");
        if let Some(request_half) = request_half {
            let (_, half) = both.split_at_mut(8);
            half.copy_from_slice(&request_half);
        }
        both
    }

    /// Compares two digests: returns `None` if the keys differ, true for a retry of the same
    /// request, false for another request with the same key. Decides this for all requests whose
    /// content is not stored.
    #[must_use]
    pub fn is_retry(known: [u8; 16], sent: [u8; 16]) -> Option<bool> {
        (known.first_chunk::<8>() == sent.first_chunk::<8>()).then_some(known == sent)
    }
}

impl fmt::Display for BatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The tenant and user that a request acts for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The tenant.
    pub tenant: TenantId,
    /// The user.
    pub user: UserId,
}

impl Scope {
    /// Returns the scope of a store without credentials: `default` / `local`.
    #[must_use]
    pub fn local() -> Self {
        Self { tenant: TenantId("default".into()), user: UserId("local".into()) }
    }
}

/// A session of a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// Scope of the session.
    pub scope: Scope,
    /// Id of the session, unique in the scope.
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
    /// Computes the hash of one incarnation of a session.
    #[must_use]
    pub fn new(key: &SessionKey, incarnation: Incarnation) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 session hash");
        let names = [key.scope.tenant.as_str(), key.scope.user.as_str(), key.session.as_str()];
        for part in names.map(str::as_bytes).into_iter().chain([incarnation.0.as_slice()]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

/// Returns half of a hash of these texts; `purpose` is a constant that no other hash has.
#[must_use]
pub fn short_hash(purpose: &'static str, texts: &[&str]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key(purpose);
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    half
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
