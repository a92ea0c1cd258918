//! The running hash of a session's records. It is computed over plaintext, regardless of encoding,
//! compression and cipher, so that segments can be re-encoded, a body redacted, and a fork started
//! from a chain value, with the chain still verifiable. It must not read files.

use std::fmt;

use super::record::{Record, RecordHead};
use crate::event::SessionHash;

/// Value of a chain: `h_n = blake3(h_(n-1) ‖ fixed fields ‖ blake3(salt ‖ body))`. Events have one
/// chain, control records another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChainValue(pub [u8; 32]);

impl ChainValue {
    /// Returns the chain value before the first event of a session.
    #[must_use]
    pub fn start_of_events(session: SessionHash) -> Self {
        Self(blake3::derive_key("sessionlog v1 event chain", &session.0))
    }

    /// Returns the chain value before the first control record of a session.
    #[must_use]
    pub fn start_of_controls(session: SessionHash) -> Self {
        Self(blake3::derive_key("sessionlog v1 control chain", &session.0))
    }

    /// Returns the chain extended by `record`. `ordinal` is the position of an event, or the log
    /// sequence number of a control record.
    #[must_use]
    pub fn with_record(self, ordinal: u64, record: &Record) -> Self {
        self.with_record_digest(ordinal, record.head(), &record.body.digest())
    }

    /// Extends the chain like [`Self::with_record`], by a record whose body digest is known.
    #[must_use]
    pub fn with_record_digest(self, ordinal: u64, head: RecordHead<'_>, digest: &[u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(&ordinal.to_le_bytes());
        hasher.update(&[head.kind, head.origin, u8::from(head.created_at.is_some())]);
        hasher.update(&head.created_at.unwrap_or_default().to_le_bytes());
        hasher.update(&head.processed_at.to_le_bytes());
        for text in [head.name, head.id] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(digest);
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Debug for ChainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", blake3::Hash::from_bytes(self.0).to_hex())
    }
}
