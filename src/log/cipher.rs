//! Encryption of stored bytes: XChaCha20-Poly1305 with a random nonce each time; the storage
//! location is associated data. The only module that names the cipher. It must not try keys until
//! one fits, nor keep a plaintext longer than its caller does.
//!
//! ```text
//! stored: ciphertext, tag 16; the nonce (24) is in the frame's header, elsewhere before it
//! associated data, in this order, all fixed-width:
//!   frame    "sessionlog v1 frame" store id 16  key number u64  kind u8  codec u8  compression u8
//!            cipher u8  count u32  events u32  first position u64  session hash 32
//!            event chain before 32  control chain before 32
//!   tables   "sessionlog v1 tables" store id 16  key number u64  header 16..192  footer 16..144
//!   settled  "sessionlog v1 settled" store id 16  zero 8  salt u64  generation u64  byte offset u64
//!   keys     see `keyring`
//!   rows     see `store::remote::sealed`
//! ```
//! The session hash covers tenant, user, session and incarnation.

use std::fmt;

use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce, aead::AeadInOut};

use super::error::Fault;

/// Nonce, unique for each encryption under one key: random, so that neither a crash nor a restored
/// copy repeats one.
pub type Nonce = [u8; NONCE_BYTES];

/// Length of a nonce in bytes.
pub const NONCE_BYTES: usize = 24;
/// Bytes that encryption adds to a payload: the authentication tag.
pub const TAG_BYTES: usize = 16;
/// Number of the cipher as stored on disk.
pub(super) const XCHACHA20_POLY1305: u8 = 1;

/// Number of a key: 0 is the store's own, any other is a session's key in `keys/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNumber(pub u64);

impl KeyNumber {
    /// Number of the store's own key.
    pub const STORE: Self = Self(0);
}

/// Encryption of a frame, as recorded in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEncryption {
    /// Number of the key that the payload is encrypted under.
    pub key: KeyNumber,
    /// Nonce of the payload.
    pub nonce: Nonce,
}

/// Encryption key, with its number and its store.
pub struct Cipher {
    cipher: XChaCha20Poly1305,
    store: [u8; 16],
    number: KeyNumber,
}

/// Key and source of nonces for a writer.
#[derive(Clone, Copy)]
pub struct Encryptor<'a> {
    /// Cipher of the key.
    pub cipher: &'a Cipher,
    /// Source of fresh nonces.
    pub nonce: &'a dyn Fn() -> Nonce,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Cipher {
    /// Creates the cipher of the key `number` of a store.
    #[must_use]
    pub fn new(key: &[u8; 32], store: [u8; 16], number: KeyNumber) -> Self {
        Self { cipher: XChaCha20Poly1305::new(key.into()), store, number }
    }

    /// Returns the number of the key.
    #[must_use]
    pub fn number(&self) -> KeyNumber {
        self.number
    }

    /// Encrypts `text` in place and appends the tag.
    pub(super) fn seal(&self, nonce: Nonce, aad: &[u8], text: &mut Vec<u8>) {
        let plain_bytes = text.len();
        let sealed = self.cipher.encrypt_in_place(&XNonce::from(nonce), aad, text);
        sealed.expect("a payload is far below what the cipher takes, and a vector grows");
        assert_eq!(text.len(), plain_bytes + TAG_BYTES, "a tag stands behind every ciphertext");
    }

    /// Decrypts `text` in place and removes the tag.
    pub(super) fn open(&self, nonce: Nonce, aad: &[u8], text: &mut Vec<u8>) -> Result<(), Fault> {
        let opened = self.cipher.decrypt_in_place(&XNonce::from(nonce), aad, text);
        opened.map_err(|_| Fault::Authentication)
    }

    /// Encrypts like [`Self::seal`] and prepends the nonce.
    pub(crate) fn seal_with_nonce(&self, nonce: Nonce, aad: &[u8], mut text: Vec<u8>) -> Vec<u8> {
        self.seal(nonce, aad, &mut text);
        [nonce.as_slice(), &text].concat()
    }

    /// Decrypts the output of [`Self::seal_with_nonce`].
    pub(crate) fn open_with_nonce(&self, aad: &[u8], stored: &[u8]) -> Result<Vec<u8>, Fault> {
        let (nonce, text) = stored.split_first_chunk().ok_or(Fault::Short)?;
        let mut text = text.to_vec();
        self.open(*nonce, aad, &mut text)?;
        Ok(text)
    }

    /// Returns the associated data of stored bytes: purpose, store id, key number, `fields`.
    pub(crate) fn associated_data(&self, what: &str, fields: &[&[u8]]) -> Vec<u8> {
        let mut aad = Vec::with_capacity(192);
        aad.extend_from_slice(what.as_bytes());
        aad.extend_from_slice(&self.store);
        aad.extend_from_slice(&self.number.0.to_le_bytes());
        fields.iter().for_each(|field| aad.extend_from_slice(field));
        aad
    }
}
