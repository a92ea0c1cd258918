//! ONE SESSION ON DISK, and the frames it shares with the journal: codecs and scans over bytes.
//! docs/format.md draws every one of them. It must not know scopes, owners or other sessions, look
//! inside a body, or be async; it touches files only through env.

mod bytes;
mod chain;
mod cipher;
mod columns;
mod damage;
mod entry;
mod error;
pub mod frame;
pub mod inspect;
pub mod journal;
pub mod keyring;
pub mod manifest;
pub mod reading;
pub mod record;
pub mod scan;
pub mod seal;
pub mod segment;
mod settled;
mod stage;
mod work;

pub use chain::{Chain, body_digest};
pub use cipher::{Cipher, Encrypted, Encryptor, KeyNumber, NONCE_BYTES, Nonce, TAG_BYTES};
pub use damage::Damage;
pub use entry::{Entry, FORMAT, Listed, Packed, Redaction, SegmentEntry, StoreFile, StoreKeys};
pub use error::{Fault, LogError};
pub use frame::{Frame, FrameHeader, FrameKind};
pub use record::{
    Change, Control, Create, Head, KnownBatch, Life, Lineage, Loss, REDACTED, Record, RecordBody,
    Redact, Tombstone,
};
pub use settled::{
    Chunks, Delta, SETTLED_AT, Settled, decode_settled, encode_delta, settled_header,
};
pub use stage::{End, Ending, Stage};
pub use work::{LeaseRecord, Mark, NoteRecord, Work};
