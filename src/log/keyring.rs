//! Hierarchy from a master key to the key of a session: derived keys, random wrapped keys, and
//! their encoding in `STORE` and `keys/`. It must not read files, keep a master key longer than the
//! store is open, nor derive a key that must be destroyable.
//!
//! ```text
//! HKDF-SHA-256 of a master key, salt = store id (none for the key id), info:
//!   "sessionlog v1 key id"                  8 bytes   identifies it
//!   "sessionlog v1 key check"              16 bytes   checks it before anything is decrypted
//!   "sessionlog v1 store key"              32 bytes   wraps the store's own key
//!   "sessionlog v1 tenant key" tag 16      32 bytes   wraps the keys of that tenant's sessions
//! of the store's own key, salt = store id, info:
//!   "sessionlog v1 tenant" tenant          16 bytes   the tag of a tenant
//!   "sessionlog v1 names of content"       32 bytes   key of content hashes; derived from the
//!                                                     store id in a plaintext store
//!
//! keys file   0  magic "SLKEYS01"   8  version u32  12  checksum u32 of 16..128  16  store id 16
//! slot n    128·n: checksum u32 of 4..128   4  state u8: 1 a key, 2 destroyed   5  zero 3
//!             8  number u64    16  tenant tag 16    32  key id 8    40  nonce 24
//!            64  wrapped key 48 (32 and a tag)     112  zero 16
//! wrapped: XChaCha20-Poly1305; associated data: "sessionlog v1 session key" store id 16, number
//!   u64, key id 8, tenant tag 16; for the store's own "sessionlog v1 own key" store id 16, zero 8,
//!   key id 8, created at i64
//! ```

use std::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{
    bytes::{FieldReader, checksum, file_header, open_file_header},
    cipher::{Cipher, KeyNumber, Nonce, TAG_BYTES},
    error::Fault,
};
use crate::event::KeyId;

/// Length of a slot of `keys/` and of its header, in bytes.
pub const SLOT_BYTES: u64 = 128;
/// Length of a wrapped key with its tag, in bytes.
const WRAPPED_BYTES: usize = 32 + TAG_BYTES;
/// Length of a wrapped key in `STORE`, in bytes.
pub(super) const STORED_BYTES: usize = 8 + 16 + 24 + WRAPPED_BYTES;
const KEYS_MAGIC: [u8; 8] = *b"SLKEYS01";
const KEYS_VERSION: u32 = 1;
const KEY: u8 = 1;
const DESTROYED: u8 = 2;

/// Keyed hash of a tenant, stored with a wrapped key: without the store's own key it does not
/// reveal the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantTag(pub [u8; 16]);

/// Master key in use.
pub struct MasterKey {
    key: Zeroizing<[u8; 32]>,
    id: KeyId,
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Master").field("id", &self.id).finish_non_exhaustive()
    }
}

fn derive<const N: usize>(key: &[u8], salt: &[u8], info: &[&[u8]]) -> Zeroizing<[u8; N]> {
    let mut out = Zeroizing::new([0; N]);
    let expanded = Hkdf::<Sha256>::new(Some(salt), key).expand_multi_info(info, &mut *out);
    expanded.expect("what is derived is a few bytes long");
    out
}

impl MasterKey {
    /// Creates a master key from its 32 bytes.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let id = KeyId(*derive(key, &[], &[b"sessionlog v1 key id"]));
        Self { key: Zeroizing::new(*key), id }
    }

    /// Returns the id of the key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    fn derive_check(&self, store: [u8; 16]) -> [u8; 16] {
        *derive(&*self.key, &store, &[b"sessionlog v1 key check"])
    }

    /// Wraps the store's own key.
    #[must_use]
    pub fn wrap_own(&self, own: &OwnKey, nonce: Nonce) -> StoredKey {
        let mut wrapped = own.key.to_vec();
        let wrap = self.own_key_cipher(own.store);
        wrap.seal(nonce, &self.own_key_aad(&wrap, own.created_at), &mut wrapped);
        let check = self.derive_check(own.store);
        StoredKey { id: self.id, check, nonce, wrapped: array(&wrapped) }
    }

    /// Returns true if `stored` was wrapped under this master key: compares id and check value,
    /// without decrypting.
    #[must_use]
    pub fn has_wrapped(&self, store: [u8; 16], stored: &StoredKey) -> bool {
        stored.id == self.id && stored.check == self.derive_check(store)
    }

    /// Unwraps the store's own key.
    ///
    /// # Errors
    /// [`Fault::Authentication`] if another master key wrapped it.
    pub fn unwrap_own(
        &self,
        store: [u8; 16],
        at: i64,
        stored: &StoredKey,
    ) -> Result<OwnKey, Fault> {
        if !self.has_wrapped(store, stored) {
            return Err(Fault::Authentication);
        }
        let mut text = stored.wrapped.to_vec();
        let wrap = self.own_key_cipher(store);
        wrap.open(stored.nonce, &self.own_key_aad(&wrap, at), &mut text)?;
        Ok(OwnKey { key: Zeroizing::new(array(&Zeroizing::new(text))), store, created_at: at })
    }

    fn own_key_cipher(&self, store: [u8; 16]) -> Cipher {
        let key = derive(&*self.key, &store, &[b"sessionlog v1 store key"]);
        Cipher::new(&key, store, KeyNumber::STORE)
    }

    fn own_key_aad(&self, wrap: &Cipher, created_at: i64) -> Vec<u8> {
        wrap.associated_data("sessionlog v1 own key", &[&self.id.0, &created_at.to_le_bytes()])
    }

    /// Wraps the key of a session.
    #[must_use]
    pub fn wrap(
        &self,
        store: [u8; 16],
        number: KeyNumber,
        tag: TenantTag,
        key: &[u8; 32],
        nonce: Nonce,
    ) -> WrappedKey {
        let mut wrapped = key.to_vec();
        let tenant = self.tenant_cipher(store, tag, number);
        tenant.seal(nonce, &self.session_key_aad(&tenant, tag), &mut wrapped);
        WrappedKey { number, tag, master: self.id, nonce, wrapped: array(&wrapped) }
    }

    /// Unwraps the key of a session.
    ///
    /// # Errors
    /// [`Fault::Misplaced`] if another master key wrapped it, [`Fault::Authentication`] if it was
    /// not wrapped for this store, number and tenant.
    pub fn unwrap(
        &self,
        store: [u8; 16],
        wrapped: &WrappedKey,
    ) -> Result<Zeroizing<[u8; 32]>, Fault> {
        if wrapped.master != self.id {
            return Err(Fault::Misplaced);
        }
        let tenant = self.tenant_cipher(store, wrapped.tag, wrapped.number);
        let mut text = wrapped.wrapped.to_vec();
        tenant.open(wrapped.nonce, &self.session_key_aad(&tenant, wrapped.tag), &mut text)?;
        Ok(Zeroizing::new(array(&Zeroizing::new(text))))
    }

    fn tenant_cipher(&self, store: [u8; 16], tag: TenantTag, number: KeyNumber) -> Cipher {
        let key = derive(&*self.key, &store, &[b"sessionlog v1 tenant key", &tag.0]);
        Cipher::new(&key, store, number)
    }

    fn session_key_aad(&self, tenant: &Cipher, tag: TenantTag) -> Vec<u8> {
        tenant.associated_data("sessionlog v1 session key", &[&self.id.0, &tag.0])
    }
}

/// The store's own key: random, so that a rotation of the master key re-encrypts no data.
pub struct OwnKey {
    key: Zeroizing<[u8; 32]>,
    store: [u8; 16],
    created_at: i64,
}

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Own")
    }
}

impl OwnKey {
    /// Creates the own key of a store from 32 random bytes.
    #[must_use]
    pub fn new(key: [u8; 32], store: [u8; 16], created_at: i64) -> Self {
        Self { key: Zeroizing::new(key), store, created_at }
    }

    /// Returns this key for a copy of its store, so that names derived from content stay.
    #[must_use]
    pub fn for_copy(&self, created_at: i64) -> Self {
        Self { key: self.key.clone(), store: self.store, created_at }
    }

    /// Returns the cipher of this key.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        Cipher::new(&self.key, self.store, KeyNumber::STORE)
    }

    /// Returns the tag of a tenant in `keys/`.
    #[must_use]
    pub fn tenant_tag(&self, tenant: &str) -> TenantTag {
        let info: [&[u8]; 2] = [b"sessionlog v1 tenant", tenant.as_bytes()];
        TenantTag(*derive(&*self.key, &self.store, &info))
    }
}

/// Key of the hashes by which a store names content: without it no guess of the content can be
/// tested. It stays the same for the life of a store, also under another master key, and in stores
/// restored from its backups.
#[derive(Clone, Default)]
pub struct NameKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameKey")
    }
}

impl NameKey {
    const INFO: &[u8] = b"sessionlog v1 names of content";

    /// Derives the key of a store from its own key, if it has one; else from the store's id, which
    /// is random and only in its files.
    #[must_use]
    pub fn new(store: [u8; 16], own: Option<&OwnKey>) -> Self {
        let key = own.map_or(&store[..], |own| &own.key[..]);
        Self(derive(key, &store, &[Self::INFO]))
    }

    /// Returns the keyed hash of content.
    #[must_use]
    pub fn hash(&self, content: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.0, content).as_bytes()
    }
}

/// Wrapped own key of a store, as stored in `STORE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// Id of the master key it is wrapped under.
    pub id: KeyId,
    check: [u8; 16],
    nonce: Nonce,
    wrapped: [u8; WRAPPED_BYTES],
}

impl StoredKey {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.check);
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.wrapped);
    }

    pub(super) fn decode(fields: &mut FieldReader<'_>) -> Option<Self> {
        Some(Self {
            id: KeyId(fields.array()?),
            check: fields.array()?,
            nonce: fields.array()?,
            wrapped: fields.array()?,
        })
    }
}

/// Wrapped key of a session, as stored in `keys/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Number of the key.
    pub number: KeyNumber,
    /// Tag of the session's tenant.
    pub tag: TenantTag,
    /// Id of the master key it is wrapped under.
    pub master: KeyId,
    nonce: Nonce,
    wrapped: [u8; WRAPPED_BYTES],
}

/// Content of a slot of `keys/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySlot {
    /// The slot was never written.
    Empty,
    /// A wrapped key.
    Key(WrappedKey),
    /// The key was destroyed.
    Destroyed,
}

impl KeySlot {
    /// Encodes the slot for the key `number`.
    ///
    /// # Panics
    /// If the slot holds a key of another number.
    #[must_use]
    pub fn encode(&self, number: KeyNumber) -> Vec<u8> {
        assert!(
            !matches!(self, Self::Key(key) if key.number != number),
            "a key is written to its own slot"
        );
        let mut body = Vec::with_capacity(SLOT_BYTES as usize);
        let state = match self {
            Self::Empty => return vec![0; SLOT_BYTES as usize],
            Self::Key(_) => KEY,
            Self::Destroyed => DESTROYED,
        };
        body.extend_from_slice(&[state, 0, 0, 0]);
        body.extend_from_slice(&number.0.to_le_bytes());
        if let Self::Key(key) = self {
            body.extend_from_slice(&key.tag.0);
            body.extend_from_slice(&key.master.0);
            body.extend_from_slice(&key.nonce);
            body.extend_from_slice(&key.wrapped);
        }
        assert!(body.len() <= SLOT_BYTES as usize - 4, "a wrapped key fits into its slot");
        body.resize(SLOT_BYTES as usize - 4, 0);
        let mut slot = checksum(0, &[&body]).to_le_bytes().to_vec();
        slot.append(&mut body);
        slot
    }

    /// Decodes the slot for the key `number`.
    ///
    /// # Errors
    /// The fault of the slot.
    pub fn decode(number: KeyNumber, bytes: &[u8]) -> Result<Self, Fault> {
        let slot = bytes.get(..SLOT_BYTES as usize).ok_or(Fault::Short)?;
        if slot.iter().all(|byte| *byte == 0) {
            return Ok(Self::Empty);
        }
        let mut fields = FieldReader(slot);
        if fields.u32() != Some(checksum(0, &[slot.get(4..).unwrap_or_default()])) {
            return Err(Fault::PayloadChecksum);
        }
        Self::decode_fields(number, &mut fields).ok_or(Fault::Short)?
    }

    fn decode_fields(
        number: KeyNumber,
        fields: &mut FieldReader<'_>,
    ) -> Option<Result<Self, Fault>> {
        let [state, ..] = fields.array::<4>()?;
        if fields.u64()? != number.0 {
            return Some(Err(Fault::Misplaced));
        }
        Some(Ok(match state {
            DESTROYED => Self::Destroyed,
            KEY => Self::Key(WrappedKey {
                number,
                tag: TenantTag(fields.array()?),
                master: KeyId(fields.array()?),
                nonce: fields.array()?,
                wrapped: fields.array()?,
            }),
            other => {
                let value = u32::from(other);
                return Some(Err(Fault::Unknown { what: "state of a key", value }));
            }
        }))
    }
}

/// Encodes the header of a keys file.
#[must_use]
pub fn keys_header(store: [u8; 16]) -> Vec<u8> {
    let mut body = store.to_vec();
    body.resize(SLOT_BYTES as usize - 16, 0);
    file_header(KEYS_MAGIC, KEYS_VERSION, &body)
}

/// Checks that `bytes` start with the header of a keys file of that store.
///
/// # Errors
/// The fault of the header.
pub fn check_keys_header(store: [u8; 16], bytes: &[u8]) -> Result<(), Fault> {
    let header = bytes.get(..SLOT_BYTES as usize).ok_or(Fault::Short)?;
    let mut fields = open_file_header(KEYS_MAGIC, KEYS_VERSION, header)?;
    (fields.array() == Some(store)).then_some(()).ok_or(Fault::Misplaced)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("a wrapped key has its length")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: [u8; 16] = [6; 16];

    fn master(byte: u8) -> MasterKey {
        MasterKey::new(&[byte; 32])
    }

    #[test]
    fn only_the_right_master_key_unwraps_the_stores_own_key() {
        let own = OwnKey::new([3; 32], STORE, 77);
        let stored = master(1).wrap_own(&own, [4; 24]);
        let mut bytes = Vec::new();
        stored.encode(&mut bytes);
        assert_eq!(bytes.len(), STORED_BYTES);
        assert_eq!(StoredKey::decode(&mut FieldReader(&bytes)), Some(stored));
        let read = master(1).unwrap_own(STORE, 77, &stored).expect("its own");
        assert_eq!(*read.key, [3; 32]);
        for (case, found) in [
            ("another master key", master(2).unwrap_own(STORE, 77, &stored)),
            ("another store", master(1).unwrap_own([7; 16], 77, &stored)),
            ("another time", master(1).unwrap_own(STORE, 78, &stored)),
        ] {
            assert_eq!(found.map(drop), Err(Fault::Authentication), "{case}");
        }
    }

    #[test]
    fn a_wrapped_key_opens_only_for_its_number_tenant_store_and_master_key() {
        let own = OwnKey::new([3; 32], STORE, 77);
        let (tag, other) = (own.tenant_tag("acme"), own.tenant_tag("Acme"));
        assert_ne!(tag, other);
        let wrapped = master(1).wrap(STORE, KeyNumber(5), tag, &[9; 32], [4; 24]);
        let bytes = KeySlot::Key(wrapped).encode(KeyNumber(5));
        assert_eq!(KeySlot::decode(KeyNumber(5), &bytes), Ok(KeySlot::Key(wrapped)));
        assert_eq!(KeySlot::decode(KeyNumber(6), &bytes), Err(Fault::Misplaced));
        assert_eq!(*master(1).unwrap(STORE, &wrapped).expect("its own"), [9; 32]);
        let wrong = |wrapped: WrappedKey| master(1).unwrap(STORE, &wrapped).map(drop);
        let authentication = Err(Fault::Authentication);
        assert_eq!(wrong(WrappedKey { number: KeyNumber(6), ..wrapped }), authentication);
        assert_eq!(wrong(WrappedKey { tag: other, ..wrapped }), authentication);
        assert_eq!(wrong(WrappedKey { master: KeyId([0; 8]), ..wrapped }), Err(Fault::Misplaced));
        assert_eq!(master(1).unwrap([7; 16], &wrapped).map(drop), authentication);
    }

    #[test]
    fn a_slot_round_trips_and_a_changed_byte_is_rejected() {
        for slot in [KeySlot::Empty, KeySlot::Destroyed] {
            let bytes = slot.encode(KeyNumber(2));
            assert_eq!(bytes.len() as u64, SLOT_BYTES);
            assert_eq!(KeySlot::decode(KeyNumber(2), &bytes), Ok(slot));
        }
        let bytes = KeySlot::Destroyed.encode(KeyNumber(2));
        for byte in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[byte] ^= 4;
            assert!(KeySlot::decode(KeyNumber(2), &changed).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn a_keys_file_of_another_store_is_rejected() {
        let header = keys_header(STORE);
        assert_eq!(check_keys_header(STORE, &header), Ok(()));
        assert_eq!(check_keys_header([7; 16], &header), Err(Fault::Misplaced));
    }
}
