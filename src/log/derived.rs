//! A derived file: bytes computed from events, and the list of these events. It is written once,
//! and later only overwritten by zeros. It must not interpret the bytes, nor read a file.
//!
//! ```text
//! derived   0  magic "SLDERIV1"   8  version u32  12  checksum u32 of 16..184  16  store id 16
//!          32  name u64          40  cipher u8   41  zero 7
//!          48  length u32 and checksum u32 of the description as stored
//!          56  length u64 of the body as stored  64  blake3 of the body as stored 32
//!          96  zero 16          112  nonce 24 and 48 of the file's key; zeros without a cipher
//!         184  description, then body
//! description: bincode of DerivedDescription
//! with a cipher: both in pieces of 65 536 bytes and a rest, each followed by a tag 16, under
//!   the file's own random key; the nonce is the piece's number u64 and zeros: the description is
//!   piece 0, or more of it, and the body continues from there. Associated data:
//!   "sessionlog v1 derived" store id 16, name u64, number u64, bytes of the description u32, bytes
//!   of the body u64
//! the file's key: under the store's own, "sessionlog v1 derived key" store id 16, zero 8, name u64
//! removed: zeros over 112..184 with a cipher, over all of it without one
//! ```

use std::ops::Range;

use bincode::{Decode, Encode};
use zeroize::Zeroizing;

use super::{
    bytes::{FieldReader, checksum, file_header, open_file_header},
    cipher::{Cipher, Encryptor, KeyNumber, NONCE_BYTES, Nonce, TAG_BYTES, XCHACHA20_POLY1305},
    encoding::{decode_value, encode_value},
    error::Fault,
};

const MAGIC: [u8; 8] = *b"SLDERIV1";
const VERSION: u32 = 1;
/// Byte offset of the description.
pub const DERIVED_AT: u64 = 184;
/// Byte range of the file's wrapped key, in an encrypted store.
pub const DERIVED_KEY: Range<u64> = 112..DERIVED_AT;
/// Bytes of plaintext in a piece.
const PIECE_BYTES: usize = 65_536;

/// Description of a derived file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct DerivedDescription {
    /// Label chosen by the caller.
    pub label: Vec<u8>,
    /// Events that the file was computed from.
    pub holds: Vec<HeldRecord>,
}

/// Range of events of one session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HeldRecord {
    /// Tenant of the session.
    pub tenant: String,
    /// User of the session.
    pub user: String,
    /// Id of the session.
    pub session: String,
    /// Hash of the session.
    pub hash: [u8; 32],
    /// First position of the range.
    pub from: u64,
    /// Position after the last event of the range.
    pub to: u64,
    /// Number of redactions in the session before the events were read.
    pub rewritten: u64,
}

/// Header of a derived file.
pub struct DerivedHeader {
    description_bytes: u32,
    description_checksum: u32,
    body_bytes: u64,
    digest: [u8; 32],
    /// Cipher of the file's own key, in an encrypted store.
    key: Option<Cipher>,
}

/// Encryptor of the store, and a source of random bytes for the key of a new file.
pub type Seals<'a> = (Encryptor<'a>, &'a dyn Fn() -> [u8; 32]);

/// Encodes a derived file.
#[must_use]
pub fn encode_derived(
    (store, name): ([u8; 16], u64),
    description: &DerivedDescription,
    body: &[u8],
    seals: Option<Seals<'_>>,
) -> Vec<u8> {
    let mut described = Vec::new();
    encode_value(description, &mut described);
    let (description_bytes, body_bytes) = match &seals {
        None => (described.len(), body.len()),
        Some(_) => (sealed_bytes(described.len()), sealed_bytes(body.len())),
    };
    let description_bytes = u32::try_from(description_bytes).unwrap_or(u32::MAX);
    let sizes = (description_bytes, body_bytes as u64);
    let mut wrapped = vec![0; NONCE_BYTES + 32 + TAG_BYTES];
    let mut stored = Vec::with_capacity(description_bytes as usize + body_bytes);
    match seals {
        None => stored.extend([&described, body].concat()),
        Some((own, secret)) => {
            let key = Zeroizing::new(secret());
            wrapped =
                own.cipher.seal_with_nonce((own.nonce)(), &key_aad(own.cipher, name), key.to_vec());
            let cipher = Cipher::new(&key, store, KeyNumber(name));
            let number = encrypt(&cipher, sizes, 0, &described, &mut stored);
            encrypt(&cipher, sizes, number, body, &mut stored);
        }
    }
    let (front, rest) = stored.split_at(description_bytes as usize);
    let mut header = store.to_vec();
    header.extend_from_slice(&name.to_le_bytes());
    let encrypted = wrapped.iter().any(|byte| *byte != 0);
    header.extend_from_slice(&[
        if encrypted { XCHACHA20_POLY1305 } else { 0 },
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    header.extend_from_slice(&description_bytes.to_le_bytes());
    header.extend_from_slice(&checksum(0, &[front]).to_le_bytes());
    header.extend_from_slice(&(rest.len() as u64).to_le_bytes());
    header.extend_from_slice(blake3::hash(rest).as_bytes());
    header.resize(DERIVED_KEY.start as usize - 16, 0);
    header.extend_from_slice(&wrapped);
    let mut file = file_header(MAGIC, VERSION, &header);
    assert_eq!(file.len() as u64, DERIVED_AT, "a header has its length");
    file.append(&mut stored);
    file
}

impl DerivedHeader {
    /// Decodes the header at the front of a file.
    ///
    /// # Errors
    /// The fault of the header; [`Fault::NoKey`] if the file was removed.
    pub fn decode(
        (store, name): ([u8; 16], u64),
        bytes: &[u8],
        own: Option<&Cipher>,
    ) -> Result<Self, Fault> {
        let header = bytes.get(..DERIVED_AT as usize).ok_or(Fault::Short)?;
        let mut fields = open_file_header(MAGIC, VERSION, header)?;
        let read = |fields: &mut FieldReader<'_>| {
            let identity = (fields.array()?, fields.u64()?);
            let [cipher, ..] = fields.array::<8>()?;
            let (description_bytes, description_checksum) = (fields.u32()?, fields.u32()?);
            let (body_bytes, digest) = (fields.u64()?, fields.array()?);
            fields.array::<16>()?;
            let new =
                Self { description_bytes, description_checksum, body_bytes, digest, key: None };
            Some((identity, cipher, new))
        };
        let (identity, cipher, mut new) = read(&mut fields).ok_or(Fault::Short)?;
        let wrapped = fields.0;
        if identity != (store, name) {
            return Err(Fault::Misplaced);
        }
        match (cipher, own) {
            (0, None) => {}
            (0, Some(_)) => return Err(Fault::Plaintext),
            (XCHACHA20_POLY1305, None) => return Err(Fault::Encrypted),
            (XCHACHA20_POLY1305, Some(own)) => {
                let key = Zeroizing::new(own.open_with_nonce(&key_aad(own, name), wrapped)?);
                let key: &[u8; 32] = key.as_slice().try_into().map_err(|_| Fault::Short)?;
                new.key = Some(Cipher::new(key, store, KeyNumber(name)));
            }
            (other, _) => {
                return Err(Fault::Unknown { what: "cipher", value: u32::from(other) });
            }
        }
        Ok(new)
    }

    /// Returns the byte offset of the body, where the description ends.
    #[must_use]
    pub fn body_offset(&self) -> u64 {
        DERIVED_AT + u64::from(self.description_bytes)
    }

    /// Returns the byte offset of the end of the file.
    #[must_use]
    pub fn end_offset(&self) -> u64 {
        self.body_offset().saturating_add(self.body_bytes)
    }

    /// Decodes the description, which is stored between [`DERIVED_AT`] and [`Self::body_offset`].
    ///
    /// # Errors
    /// The fault of the description.
    pub fn decode_description(&self, stored: &[u8]) -> Result<DerivedDescription, Fault> {
        if stored.len() as u64 != u64::from(self.description_bytes)
            || checksum(0, &[stored]) != self.description_checksum
        {
            return Err(Fault::PayloadChecksum);
        }
        match &self.key {
            None => decode_value(stored).ok_or(Fault::Payload),
            Some(cipher) => {
                let mut plain = Zeroizing::new(Vec::new());
                decrypt(cipher, self.sizes(), 0, stored, &mut plain)?;
                decode_value(&plain).ok_or(Fault::Payload)
            }
        }
    }

    /// Returns the length of the body in plaintext, in bytes.
    #[must_use]
    pub fn plain_bytes(&self) -> u64 {
        match &self.key {
            None => self.body_bytes,
            Some(_) => {
                let piece = (PIECE_BYTES + TAG_BYTES) as u64;
                self.body_bytes.saturating_sub(self.body_bytes.div_ceil(piece) * TAG_BYTES as u64)
            }
        }
    }

    /// Returns the blake3 of a body stored in plaintext, to be compared; `None` if encrypted.
    #[must_use]
    pub fn plain_digest(&self) -> Option<[u8; 32]> {
        self.key.is_none().then_some(self.digest)
    }

    /// Decrypts the body.
    ///
    /// # Errors
    /// The fault of the body.
    pub fn open_body(&self, stored: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let cipher = self.key.as_ref().ok_or(Fault::NoKey)?;
        if stored.len() as u64 != self.body_bytes {
            return Err(Fault::Short);
        }
        let capacity = usize::try_from(self.plain_bytes()).unwrap_or_default();
        // With full capacity from the start, no reallocation leaves plaintext in freed memory.
        let mut plain = Zeroizing::new(Vec::with_capacity(capacity));
        let first = u64::from(self.description_bytes).div_ceil((PIECE_BYTES + TAG_BYTES) as u64);
        decrypt(cipher, self.sizes(), first, stored, &mut plain)?;
        Ok(plain)
    }

    fn sizes(&self) -> (u32, u64) {
        (self.description_bytes, self.body_bytes)
    }
}

fn sealed_bytes(plain: usize) -> usize {
    plain + plain.div_ceil(PIECE_BYTES) * TAG_BYTES
}

fn key_aad(own: &Cipher, name: u64) -> Vec<u8> {
    own.associated_data("sessionlog v1 derived key", &[&name.to_le_bytes()])
}

/// Returns the nonce of a piece. It is unique: each file has its own key and is written once.
fn piece_nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_BYTES];
    nonce.iter_mut().zip(number.to_le_bytes()).for_each(|(byte, of)| *byte = of);
    nonce
}

fn piece_aad(cipher: &Cipher, sizes: (u32, u64), number: u64) -> Vec<u8> {
    let fields = [&number.to_le_bytes()[..], &sizes.0.to_le_bytes(), &sizes.1.to_le_bytes()];
    cipher.associated_data("sessionlog v1 derived", &fields)
}

/// Encrypts `plain` in pieces numbered from `first` on, and appends them; returns the next number.
fn encrypt(cipher: &Cipher, sizes: (u32, u64), first: u64, plain: &[u8], out: &mut Vec<u8>) -> u64 {
    let mut next = first;
    for piece in plain.chunks(PIECE_BYTES) {
        let mut text = Vec::with_capacity(piece.len() + TAG_BYTES);
        text.extend_from_slice(piece);
        cipher.seal(piece_nonce(next), &piece_aad(cipher, sizes, next), &mut text);
        out.append(&mut text);
        next += 1;
    }
    next
}

fn decrypt(
    cipher: &Cipher,
    sizes: (u32, u64),
    number: u64,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    for (next, piece) in (number..).zip(stored.chunks(PIECE_BYTES + TAG_BYTES)) {
        let mut text = Zeroizing::new(piece.to_vec());
        cipher.open(piece_nonce(next), &piece_aad(cipher, sizes, next), &mut text)?;
        out.extend_from_slice(&text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: [u8; 16] = [6; 16];
    const NAME: u64 = 0x0123_4567_89ab_cdef;

    fn description() -> DerivedDescription {
        let held = HeldRecord {
            tenant: "t".to_owned(),
            user: "u".to_owned(),
            session: "s".to_owned(),
            hash: [9; 32],
            from: 3,
            to: 77,
            rewritten: 2,
        };
        DerivedDescription { label: b"scope".to_vec(), holds: vec![held; 700] }
    }

    fn store_cipher() -> Cipher {
        Cipher::new(&[1; 32], STORE, KeyNumber::STORE)
    }

    fn encode(body: &[u8], encrypted: bool) -> Vec<u8> {
        let (cipher, nonce, secret) = (store_cipher(), || [4; 24], || [5; 32]);
        let encryptor = Encryptor { cipher: &cipher, nonce: &nonce };
        let seals: Option<Seals<'_>> = encrypted.then_some((encryptor, &secret));
        encode_derived((STORE, NAME), &description(), body, seals)
    }

    fn decode(file: &[u8], encrypted: bool) -> Result<(DerivedDescription, Vec<u8>), Fault> {
        let own = store_cipher();
        let head = DerivedHeader::decode((STORE, NAME), file, encrypted.then_some(&own))?;
        let (at, end) = (head.body_offset() as usize, head.end_offset() as usize);
        if file.len() != end {
            return Err(Fault::Short);
        }
        let description = head.decode_description(&file[DERIVED_AT as usize..at])?;
        let stored = &file[at..];
        let body = match head.plain_digest() {
            None => head.open_body(stored)?.to_vec(),
            Some(digest) if digest == *blake3::hash(stored).as_bytes() => stored.to_vec(),
            Some(_) => return Err(Fault::PayloadChecksum),
        };
        assert_eq!(head.plain_bytes(), body.len() as u64);
        Ok((description, body))
    }

    #[test]
    fn a_derived_file_round_trips() {
        for encrypted in [false, true] {
            for bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
                let body: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
                let file = encode(&body, encrypted);
                let (read_description, read_body) = decode(&file, encrypted).expect("it is whole");
                assert_eq!(
                    (read_description, read_body),
                    (description(), body),
                    "{bytes}, {encrypted}"
                );
            }
        }
    }

    #[test]
    fn a_modified_or_truncated_derived_file_is_rejected() {
        for encrypted in [false, true] {
            let file = encode(&[7; 100], encrypted);
            for at in (0..file.len()).step_by(if encrypted { 97 } else { 13 }) {
                let mut changed = file.clone();
                changed[at] ^= 1;
                assert!(decode(&changed, encrypted).is_err(), "byte {at}, {encrypted}");
                assert!(decode(&file[..at], encrypted).is_err(), "cut at {at}, {encrypted}");
            }
        }
    }

    #[test]
    fn an_encrypted_derived_file_is_rejected_under_a_wrong_key_or_name() {
        let mut file = encode(b"canary", true);
        assert!(!file.windows(6).any(|part| part == b"canary"));
        for at in DERIVED_KEY {
            file[at as usize] = 0;
        }
        assert!(decode(&file, true).is_err());
        let mut header = file_header(MAGIC, VERSION, &file[16..DERIVED_AT as usize]);
        header.extend_from_slice(&file[DERIVED_AT as usize..]);
        assert_eq!(decode(&header, true).map(drop), Err(Fault::Authentication), "whatever it says");
        let store = encode(b"canary", true);
        let other = Cipher::new(&[2; 32], STORE, KeyNumber::STORE);
        let opened = DerivedHeader::decode((STORE, NAME), &store, Some(&other)).map(drop);
        assert_eq!(opened, Err(Fault::Authentication));
        let opened =
            DerivedHeader::decode((STORE, NAME + 1), &store, Some(&store_cipher())).map(drop);
        assert_eq!(opened, Err(Fault::Misplaced));
    }
}
