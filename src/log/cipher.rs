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

use bytes::Bytes;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce, aead::AeadInOut};

use super::{
    error::Fault,
    frame::{Frame, FrameHeader, FrameKind},
};

/// What the cipher must never see twice under one key: random, so that no crash and no copy put
/// back from before brings one again.
pub type Nonce = [u8; NONCE_BYTES];

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 24;
/// Bytes by which an encrypted payload is longer.
pub const TAG_BYTES: usize = 16;
/// The cipher's number on disk.
pub(super) const XCHACHA20_POLY1305: u8 = 1;

/// Which key: 0 is the store's own, any other the number of a session's key in `keys/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNumber(pub u64);

impl KeyNumber {
    /// The store's own key.
    pub const STORE: Self = Self(0);
}

/// What the header of an encrypted frame says of it.
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

    /// Which key it is.
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
    pub(super) fn seal_apart(&self, nonce: Nonce, place: &[u8], mut text: Vec<u8>) -> Vec<u8> {
        self.seal(nonce, place, &mut text);
        [nonce.as_slice(), &text].concat()
    }

    /// [`Self::open`] of what has the nonce before it.
    pub(super) fn open_apart(&self, place: &[u8], stored: &[u8]) -> Result<Vec<u8>, Fault> {
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

    fn frame_place(&self, header: &FrameHeader) -> Vec<u8> {
        let [kind, codec] = header.kind.ordinals();
        let form = [kind, codec, u8::from(header.compressed), XCHACHA20_POLY1305];
        self.place(
            "sessionlog v1 frame",
            &[
                &form,
                &header.count.to_le_bytes(),
                &header.events.to_le_bytes(),
                &header.first_position.0.to_le_bytes(),
                &header.session.0,
                &header.chain.0,
                &header.control_chain.0,
            ],
        )
    }
}

impl Frame {
    /// The frame as it goes to disk under a key.
    #[must_use]
    pub fn encrypt(&self, encryptor: Encryptor<'_>) -> Self {
        let Encryptor { cipher, nonce } = encryptor;
        assert!(self.header.encrypted.is_none(), "a frame is encrypted once");
        assert_eq!(self.header.length as usize, self.payload.len());
        let nonce = nonce();
        let mut text = Vec::with_capacity(self.payload.len() + TAG_BYTES);
        text.extend_from_slice(&self.payload);
        cipher.seal(nonce, &cipher.frame_place(&self.header), &mut text);
        let header = FrameHeader {
            length: self.header.length + TAG_BYTES as u32,
            encrypted: Some(Encrypted { key: cipher.number, nonce }),
            ..self.header
        };
        Self { header, payload: Bytes::from(text) }
    }

    /// The frame as memory keeps it: with the payload before encryption, if there is one.
    #[must_use]
    pub fn as_kept(self, plain: Option<Bytes>) -> Self {
        let Some(payload) = plain else { return self };
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let header = FrameHeader { length, encrypted: None, ..self.header };
        Self { header, payload }
    }

    /// The frame as it was before [`Self::encrypt`]; as it is where there is no key.
    ///
    /// # Errors
    /// [`Fault::Plaintext`] and [`Fault::Encrypted`] when it is not as the store is,
    /// [`Fault::Misplaced`] when it is under another key, [`Fault::Authentication`] when it is not
    /// what was written for this place.
    pub fn decrypt(self, cipher: Option<&Cipher>) -> Result<Self, Fault> {
        if self.header.kind == FrameKind::Watermark && self.payload.is_empty() {
            return Ok(self);
        }
        let (cipher, encrypted) = match (cipher, self.header.encrypted) {
            (None, None) => return Ok(self),
            (Some(_), None) => return Err(Fault::Plaintext),
            (None, Some(_)) => return Err(Fault::Encrypted),
            (Some(cipher), Some(encrypted)) => (cipher, encrypted),
        };
        if encrypted.key != cipher.number {
            return Err(Fault::Misplaced);
        }
        let mut text = self.payload.to_vec();
        cipher.open(encrypted.nonce, &cipher.frame_place(&self.header), &mut text)?;
        let length = u32::try_from(text.len()).map_err(|_| Fault::Payload)?;
        let header = FrameHeader { length, encrypted: None, ..self.header };
        Ok(Self { header, payload: Bytes::from(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Lsn, Position, SessionHash},
        log::Chain,
    };

    fn cipher(key: u8, store: u8, number: u64) -> Cipher {
        Cipher::new(&[key; 32], [store; 16], KeyNumber(number))
    }

    fn frame() -> Frame {
        let payload = Bytes::from_static(b"what an agent said");
        let header = FrameHeader {
            kind: FrameKind::Request,
            length: payload.len() as u32,
            compressed: false,
            count: 2,
            events: 1,
            first_lsn: Lsn(9),
            synced_lsn: Lsn(3),
            first_position: Position(7),
            session: SessionHash([1; 32]),
            chain: Chain([2; 32]),
            control_chain: Chain([3; 32]),
            copy_lsn: Lsn(0),
            encrypted: None,
        };
        Frame { header, payload }
    }

    fn encrypted() -> Frame {
        frame().encrypt(Encryptor { cipher: &cipher(5, 6, 4), nonce: &|| [8; 24] })
    }

    #[test]
    fn what_is_encrypted_reads_back_under_its_key_at_its_place() {
        let stored = encrypted();
        assert_eq!(stored.header.length as usize, stored.payload.len());
        assert!(!stored.payload.windows(5).any(|part| part == b"agent"));
        let read = stored.decrypt(Some(&cipher(5, 6, 4))).expect("it is its own");
        assert_eq!((read.header, read.payload), (frame().header, frame().payload));
    }

    #[test]
    fn every_field_that_says_where_a_frame_lies_binds_it() {
        type Change = (&'static str, fn(&mut FrameHeader));
        let changes: [Change; 9] = [
            ("kind", |header| header.kind = FrameKind::Block),
            ("codec", |header| header.kind = FrameKind::Columns),
            ("compression", |header| header.compressed = true),
            ("count", |header| header.count += 1),
            ("events", |header| header.events += 1),
            ("first position", |header| header.first_position = Position(8)),
            ("session", |header| header.session = SessionHash([9; 32])),
            ("event chain", |header| header.chain = Chain([9; 32])),
            ("control chain", |header| header.control_chain = Chain([9; 32])),
        ];
        for (field, change) in changes {
            let mut moved = encrypted();
            change(&mut moved.header);
            let read = moved.decrypt(Some(&cipher(5, 6, 4))).map(drop);
            assert_eq!(read, Err(Fault::Authentication), "{field}");
        }
        for (told, other) in [("key", cipher(1, 6, 4)), ("store", cipher(5, 1, 4))] {
            let read = encrypted().decrypt(Some(&other)).map(drop);
            assert_eq!(read, Err(Fault::Authentication), "{told}");
        }
        let renumbered = |frame: &mut Frame| {
            if let Some(encrypted) = &mut frame.header.encrypted {
                encrypted.key = KeyNumber(1);
            }
        };
        assert_eq!(encrypted().decrypt(Some(&cipher(5, 6, 1))).map(drop), Err(Fault::Misplaced));
        let mut moved = encrypted();
        renumbered(&mut moved);
        let read = moved.decrypt(Some(&cipher(5, 6, 1))).map(drop);
        assert_eq!(read, Err(Fault::Authentication), "key number");
        for byte in 0..encrypted().payload.len() {
            let mut changed = encrypted();
            let mut payload = changed.payload.to_vec();
            payload[byte] ^= 1;
            changed.payload = payload.into();
            let read = changed.decrypt(Some(&cipher(5, 6, 4))).map(drop);
            assert_eq!(read, Err(Fault::Authentication), "byte {byte}");
        }
    }

    #[test]
    fn plaintext_where_there_is_a_key_and_the_other_way_round_are_refused() {
        assert_eq!(frame().decrypt(Some(&cipher(5, 6, 4))).map(drop), Err(Fault::Plaintext));
        assert_eq!(encrypted().decrypt(None).map(drop), Err(Fault::Encrypted));
        assert!(frame().decrypt(None).is_ok());
        assert_eq!(encrypted().records().map(drop), Err(Fault::Encrypted));
    }

    #[test]
    fn a_cipher_shows_nothing_of_its_key() {
        assert_eq!(format!("{:?}", cipher(5, 6, 4)), "Cipher { number: KeyNumber(4), .. }");
    }
}
