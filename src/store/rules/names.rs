//! Names of events: ids that callers provide, ids that the store mints, and the keys of batches, as
//! hashes. It must not know the position of an event.

use crate::{
    event::{EventId, Timestamp},
    log::{KnownBatch, segment::name_hash},
};

/// Stored form of the id of a new event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredId {
    /// The hash of an id that the caller provided: it may be known already.
    Given([u8; 16]),
    /// The bits of an id that the store minted: no caller has it before the event is durable.
    Minted([u8; 16]),
}

impl StoredId {
    /// Returns the hash of an id that a caller provided.
    pub(crate) fn given_hash(&self) -> Option<[u8; 16]> {
        match self {
            Self::Given(hash) => Some(*hash),
            Self::Minted(_) => None,
        }
    }
}

/// Mints an id: `evt_` and a version 7 UUID, sortable by time and unguessable.
pub(crate) fn mint_event_id(now: Timestamp, random: [u8; 10]) -> (EventId, StoredId) {
    let millis = u64::try_from(now.0 / 1_000).unwrap_or(0);
    let bits = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    (event_id_from_bits(bits.into_bytes()), StoredId::Minted(bits.into_bytes()))
}

/// Returns the event id with these bits.
pub(crate) fn event_id_from_bits(bits: [u8; 16]) -> EventId {
    let mut text = *b"evt_00000000000000000000000000000000";
    if let Some(digits) = text.get_mut(4..) {
        uuid::Uuid::from_bytes(bits).simple().encode_lower(digits);
    }
    let id = str::from_utf8(&text).ok().and_then(|text| EventId::new(text).ok());
    id.expect("letters and digits keep to the alphabet")
}

/// Returns the names that a frame registers and that a caller may repeat: the event ids and the
/// batch key that its caller provided.
pub(crate) fn repeatable_names(
    names: &[StoredId],
    batch: Option<&KnownBatch>,
) -> impl Iterator<Item = [u8; 16]> {
    let key = batch.map(|batch| key_hash(&batch.key));
    names.iter().filter_map(StoredId::given_hash).chain(key)
}

/// Hashes a batch key. The hash differs from every id's: no event id has a control character.
pub(crate) fn key_hash(key: &str) -> [u8; 16] {
    name_hash(&format!("\0{key}"))
}
