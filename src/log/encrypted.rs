//! A frame under a key: its payload encrypted, bound to the fields of its header that say where it
//! belongs (`cipher` draws them). It must not choose the key.

use bytes::Bytes;

use super::{
    cipher::{Cipher, Encrypted, Encryptor, TAG_BYTES, XCHACHA20_POLY1305},
    error::Fault,
    frame::{Frame, FrameHeader, FrameKind},
};

impl Frame {
    /// The frame as it goes to disk under a key.
    ///
    /// # Panics
    /// When it is encrypted already.
    #[must_use]
    pub fn encrypt(&self, encryptor: Encryptor<'_>) -> Self {
        let Encryptor { cipher, nonce } = encryptor;
        assert!(self.header.encrypted.is_none(), "a frame is encrypted once");
        assert_eq!(self.header.length as usize, self.payload.len());
        let nonce = nonce();
        let mut text = Vec::with_capacity(self.payload.len() + TAG_BYTES);
        text.extend_from_slice(&self.payload);
        cipher.seal(nonce, &place_of(cipher, &self.header), &mut text);
        let header = FrameHeader {
            length: self.header.length + TAG_BYTES as u32,
            encrypted: Some(Encrypted { key: cipher.number(), nonce }),
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
        if encrypted.key != cipher.number() {
            return Err(Fault::Misplaced);
        }
        let mut text = self.payload.to_vec();
        cipher.open(encrypted.nonce, &place_of(cipher, &self.header), &mut text)?;
        let length = u32::try_from(text.len()).map_err(|_| Fault::Payload)?;
        let header = FrameHeader { length, encrypted: None, ..self.header };
        Ok(Self { header, payload: Bytes::from(text) })
    }
}

/// The associated data of a frame.
fn place_of(cipher: &Cipher, header: &FrameHeader) -> Vec<u8> {
    let [kind, codec] = header.kind.ordinals();
    let form = [kind, codec, u8::from(header.compressed), XCHACHA20_POLY1305];
    cipher.place(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Lsn, Position, SessionHash},
        log::{Chain, KeyNumber},
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
