//! Encryption of a frame's payload, with the identifying fields of its header as associated data
//! (listed in `cipher`). It must not choose the key.

use bytes::Bytes;

use super::{
    cipher::{Cipher, Encryptor, FrameEncryption, TAG_BYTES, XCHACHA20_POLY1305},
    error::Fault,
    frame::{Frame, FrameHeader, FrameKind},
};

impl Frame {
    /// Returns the frame with its payload encrypted.
    ///
    /// # Panics
    /// If the frame is already encrypted.
    #[must_use]
    pub fn encrypt(&self, encryptor: Encryptor<'_>) -> Self {
        let Encryptor { cipher, nonce } = encryptor;
        assert!(self.header.encrypted.is_none(), "a frame is encrypted once");
        assert_eq!(self.header.length as usize, self.payload.len());
        let nonce = nonce();
        let mut text = Vec::with_capacity(self.payload.len() + TAG_BYTES);
        text.extend_from_slice(&self.payload);
        cipher.seal(nonce, &frame_aad(cipher, &self.header), &mut text);
        let header = FrameHeader {
            length: self.header.length + TAG_BYTES as u32,
            encrypted: Some(FrameEncryption { key: cipher.number(), nonce }),
            ..self.header
        };
        Self { header, payload: Bytes::from(text) }
    }

    /// Returns the frame with the given plaintext payload, if any, for use in memory.
    #[must_use]
    pub fn with_plaintext(self, plain: Option<Bytes>) -> Self {
        let Some(payload) = plain else { return self };
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let header = FrameHeader { length, encrypted: None, ..self.header };
        Self { header, payload }
    }

    /// Decrypts the frame; returns it unchanged if there is no cipher.
    ///
    /// # Errors
    /// [`Fault::Plaintext`] and [`Fault::Encrypted`] if the store is encrypted differently,
    /// [`Fault::Misplaced`] if it is encrypted with another key, [`Fault::Authentication`] if it
    /// was not encrypted for this header.
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
        cipher.open(encrypted.nonce, &frame_aad(cipher, &self.header), &mut text)?;
        let length = u32::try_from(text.len()).map_err(|_| Fault::Payload)?;
        let header = FrameHeader { length, encrypted: None, ..self.header };
        Ok(Self { header, payload: Bytes::from(text) })
    }
}

/// Returns the associated data of a frame.
fn frame_aad(cipher: &Cipher, header: &FrameHeader) -> Vec<u8> {
    let [kind, codec] = header.kind.ordinals();
    let form = [kind, codec, u8::from(header.compressed), XCHACHA20_POLY1305];
    cipher.associated_data(
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
