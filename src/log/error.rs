//! Faults of bytes read from disk. It must not decide whether a fault means torn or damaged;
//! `journal` and the store do.

use std::io;

use crate::env::is_unreadable;

/// Fault in bytes read from disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes end before the field, header or payload does.
    #[error("the bytes end too early")]
    Short,
    /// All bytes are zeros: this range was never written.
    #[error("nothing but zeros")]
    Zeros,
    /// The magic is not that of the expected kind of file.
    #[error("not a file of this kind")]
    Magic,
    /// The header does not match its checksum.
    #[error("header checksum mismatch")]
    HeaderChecksum,
    /// The payload does not match its checksum.
    #[error("payload checksum mismatch")]
    PayloadChecksum,
    /// A header field has a value that this version does not know.
    #[error("unknown {what} {value}")]
    Unknown {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: u32,
    },
    /// The payload does not decode although its checksum matches.
    #[error("undecodable payload")]
    Payload,
    /// The bytes belong to another session, store or file.
    #[error("bytes of another place")]
    Misplaced,
    /// The bytes are encrypted, but the store is in plaintext.
    #[error("encrypted, and there is no key")]
    Encrypted,
    /// The bytes are in plaintext, but the store is encrypted.
    #[error("plaintext in an encrypted store")]
    Plaintext,
    /// The authentication tag does not match the bytes and their associated data.
    #[error("authentication failed")]
    Authentication,
    /// The key was destroyed or is missing.
    #[error("its key was destroyed, or is missing")]
    NoKey,
    /// A chain value does not match the records before it.
    #[error("chain mismatch")]
    Chain,
    /// The device could not read the bytes; a later read may succeed.
    #[error("the device cannot read it")]
    Unreadable,
}

/// Reason why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Error of the file system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes have a fault.
    #[error("at byte {byte_offset}: {fault}")]
    Fault {
        /// Byte offset of the fault.
        byte_offset: u64,
        /// Fault in them.
        fault: Fault,
    },
}

impl From<LogError> for io::Error {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Io(error) => error,
            wrong @ LogError::Fault { .. } => Self::other(wrong),
        }
    }
}

impl LogError {
    /// Returns true if the device could not read the bytes.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        match self {
            Self::Io(error) => is_unreadable(error),
            Self::Fault { fault, .. } => *fault == Fault::Unreadable,
        }
    }

    /// Returns [`Self::is_unreadable`] for an [`io::Error`] that may have been a [`LogError`].
    #[must_use]
    pub fn is_unreadable_io(error: &io::Error) -> bool {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
        is_unreadable(error) || inner.is_some_and(Self::is_unreadable)
    }
}
