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

pub use chain::ChainValue;
pub use cipher::{Cipher, Encryptor, FrameEncryption, KeyNumber, NONCE_BYTES, Nonce, TAG_BYTES};
pub use control::{
    AcceptedLoss, ChangeRecord, Control, CreateRecord, ForkParent, KnownBatch, LifetimeChange,
    RedactRecord, Tombstone, batch_digest,
};
pub use damage::LostRange;
pub use derived::{
    DERIVED_AT, DERIVED_KEY, DerivedDescription, DerivedHeader, HeldRecord, Seals, encode_derived,
};
pub use entry::{
    Entry, FORMAT, ListingFields, PackedEntry, Redaction, SegmentEntry, StoreFile, StoreKeys,
};
pub use error::{Fault, LogError};
pub use frame::{Frame, FrameHeader, FrameKind};
pub use record::{REDACTED, Record, RecordBody, RecordHead, body_digest};
pub use settled::{
    Delta, GenerationEncoder, SETTLED_AT, SettledIndex, decode_settled, encode_delta,
    settled_header,
};
pub use stage::{EndReason, LifeStage, SessionEnd};
pub use work::{CheckpointMark, LeaseRecord, NoteRecord, WorkSummary};
