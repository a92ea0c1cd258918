//! ONE SESSION ON DISK, and the frames it shares with the journal: codecs and scans over bytes.
//! docs/format.md specifies each of them. It must not know scopes, owners or other sessions, parse
//! a body, or be async; it accesses files only through `env`.

mod bytes;
mod chain;
mod cipher;
mod columns;
mod control;
mod damage;
mod derived;
mod encoding;
mod encrypted;
mod entry;
mod error;
pub mod frame;
pub mod inspect;
pub mod journal;
pub mod keyring;
pub mod manifest;
mod payload;
pub mod reading;
pub mod record;
pub mod scan;
pub mod seal;
pub mod segment;
mod settled;
mod stage;
mod work;

pub use chain::Chain;
pub use cipher::{Cipher, Encrypted, Encryptor, KeyNumber, NONCE_BYTES, Nonce, TAG_BYTES};
pub use control::{
    Change, Control, Create, KnownBatch, Life, Lineage, Loss, Redact, Tombstone, batch_digest,
};
pub use damage::Damage;
pub use derived::{
    DERIVED_AT, DERIVED_KEY, Derived, DerivedDescription, HeldRecord, Seals, encode_derived,
};
pub use entry::{Entry, FORMAT, Listed, Packed, Redaction, SegmentEntry, StoreFile, StoreKeys};
pub use error::{Fault, LogError};
pub use frame::{Frame, FrameHeader, FrameKind};
pub use record::{REDACTED, Record, RecordBody, RecordHead, body_digest};
pub use settled::{
    Chunks, Delta, SETTLED_AT, Settled, decode_settled, encode_delta, settled_header,
};
pub use stage::{End, Ending, Stage};
pub use work::{CheckpointMark, LeaseRecord, NoteRecord, WorkSummary};
