//! Encryption of what is stored: XChaCha20-Poly1305 with a random nonce each time, bound to the
//! place it is stored at. The only room that names the cipher. It must not choose a key by trial,
//! nor keep a plaintext longer than its caller does.
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
//! ```
//! The session hash stands for tenant, user, session and incarnation: it is a hash of all of them.

use std::fmt;

use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce, aead::AeadInOut};

use super::error::Fault;

/// Number the cipher must never see twice under one key: random, so that neither a crash nor a
/// restored copy repeats one.
pub type Nonce = [u8; NONCE_BYTES];

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 24;
/// Bytes by which an encrypted payload is longer.
pub const TAG_BYTES: usize = 16;
/// The cipher's number on disk.
pub(super) const XCHACHA20_POLY1305: u8 = 1;

/// Number of a key: 0 is the store's own, any other that of a session's key in `keys/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNumber(pub u64);

impl KeyNumber {
    /// The store's own key.
    pub const STORE: Self = Self(0);
}

/// Encryption of a frame, as its header records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encrypted {
    /// Under which key.
    pub key: KeyNumber,
    /// With which nonce.
    pub nonce: Nonce,
}

/// A key ready for use.
pub struct Cipher {
    cipher: XChaCha20Poly1305,
    store: [u8; 16],
    number: KeyNumber,
}

/// A key, and where nonces come from: what a writer needs.
#[derive(Clone, Copy)]
pub struct Encryptor<'a> {
    /// The key.
    pub cipher: &'a Cipher,
    /// A nonce that was not used before.
    pub nonce: &'a dyn Fn() -> Nonce,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Cipher {
    /// The key of that number in a store.
    #[must_use]
    pub fn new(key: &[u8; 32], store: [u8; 16], number: KeyNumber) -> Self {
        Self { cipher: XChaCha20Poly1305::new(key.into()), store, number }
    }

    /// Number of the key.
    #[must_use]
    pub fn number(&self) -> KeyNumber {
        self.number
    }

    /// Encrypts in place and puts the tag behind.
    pub(super) fn seal(&self, nonce: Nonce, place: &[u8], text: &mut Vec<u8>) {
        let plain_bytes = text.len();
        let sealed = self.cipher.encrypt_in_place(&XNonce::from(nonce), place, text);
        sealed.expect("a payload is far below what the cipher takes, and a vector grows");
        assert_eq!(text.len(), plain_bytes + TAG_BYTES, "a tag stands behind every ciphertext");
    }

    /// Decrypts in place and takes the tag away.
    pub(super) fn open(&self, nonce: Nonce, place: &[u8], text: &mut Vec<u8>) -> Result<(), Fault> {
        let opened = self.cipher.decrypt_in_place(&XNonce::from(nonce), place, text);
        opened.map_err(|_| Fault::Authentication)
    }

    /// [`Self::seal`] with the nonce before it.
    pub(super) fn seal_detached(&self, nonce: Nonce, place: &[u8], mut text: Vec<u8>) -> Vec<u8> {
        self.seal(nonce, place, &mut text);
        [nonce.as_slice(), &text].concat()
    }

    /// [`Self::open`] of what has the nonce before it.
    pub(super) fn open_detached(&self, place: &[u8], stored: &[u8]) -> Result<Vec<u8>, Fault> {
        let (nonce, text) = stored.split_first_chunk().ok_or(Fault::Short)?;
        let mut text = text.to_vec();
        self.open(*nonce, place, &mut text)?;
        Ok(text)
    }

    /// The place of stored bytes: what they are, the store, the key, and fields that say the rest.
    pub(super) fn place(&self, what: &str, fields: &[&[u8]]) -> Vec<u8> {
        let mut place = Vec::with_capacity(192);
        place.extend_from_slice(what.as_bytes());
        place.extend_from_slice(&self.store);
        place.extend_from_slice(&self.number.0.to_le_bytes());
        fields.iter().for_each(|field| place.extend_from_slice(field));
        place
    }
}
