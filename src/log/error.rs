//! Faults of bytes read from disk. It must not decide what follows from a fault: torn or damaged is
//! for `journal` and the store.

use std::io;

use crate::env::unreadable;

/// Fault of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes end before the field, header or payload does.
    #[error("the bytes end too early")]
    Short,
    /// Only zeros: nothing was ever written here.
    #[error("nothing but zeros")]
    Zeros,
    /// Not the magic of this kind of file.
    #[error("not a file of this kind")]
    Magic,
    /// A header whose checksum does not fit.
    #[error("header checksum mismatch")]
    HeaderChecksum,
    /// A payload whose checksum does not fit.
    #[error("payload checksum mismatch")]
    PayloadChecksum,
    /// A whole header with a value this version does not know.
    #[error("unknown {what} {value}")]
    Unknown {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// A payload that does not decode although its checksum fits.
    #[error("undecodable payload")]
    Payload,
    /// Bytes of another session, store or place.
    #[error("bytes of another place")]
    Misplaced,
    /// Under a key, where the store has none.
    #[error("encrypted, and there is no key")]
    Encrypted,
    /// Not under a key, where everything is.
    #[error("plaintext in an encrypted store")]
    Plaintext,
    /// Not what was encrypted for this place.
    #[error("authentication failed")]
    Authentication,
    /// The key is gone.
    #[error("its key was destroyed, or is missing")]
    NoKey,
    /// The chain does not lead from one record to the next.
    #[error("chain mismatch")]
    Chain,
    /// The device gives no bytes there. It may do so another time.
    #[error("the device cannot read it")]
    Unreadable,
}

/// Reason for which a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are wrong.
    #[error("at byte {byte_offset}: {fault}")]
    Fault {
        /// Where.
        byte_offset: u64,
        /// What.
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
    /// True if the device could not read it.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        match self {
            Self::Io(error) => unreadable(error),
            Self::Fault { fault, .. } => *fault == Fault::Unreadable,
        }
    }

    /// [`Self::is_unreadable`] for what was made an error of the file system.
    #[must_use]
    pub fn was_unreadable(error: &io::Error) -> bool {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
        unreadable(error) || inner.is_some_and(Self::is_unreadable)
    }
}
