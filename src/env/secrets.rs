//! Master keys as given in the configuration: thirty-two bytes, wiped when dropped. It must not
//! depend on what they decrypt, nor print one.

use std::fmt;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use zeroize::Zeroizing;

/// Bytes of a master key.
pub const KEY_BYTES: usize = 32;

/// A key that is wiped from memory when it is dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; KEY_BYTES]>);

impl Secret {
    /// Creates a key from its bytes.
    #[must_use]
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Parses a key as `openssl rand -hex 32` or `openssl rand -base64 32` write one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = if text.len() == 2 * KEY_BYTES { from_hex(text) } else { from_base64(text) }?;
        // Equal bytes are a placeholder, not a random key.
        let random = bytes.iter().any(|byte| Some(byte) != bytes.first());
        random.then_some(Self(bytes))
    }

    /// Returns the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The keys a store is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterKeys {
    /// Key that encrypts what is written.
    pub current: Secret,
    /// Key that decrypts what was written before the rotation.
    pub previous: Option<Secret>,
}

fn from_hex(text: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let mut digits = pair.iter().map(|digit| (*digit as char).to_digit(16));
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(key)
}

/// Decodes base64 of either alphabet; the bits after the last byte are ignored.
fn from_base64(text: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let text: Zeroizing<Vec<u8>> = Zeroizing::new(
        text.bytes()
            .map(|digit| match digit {
                b'-' => b'+',
                b'_' => b'/',
                digit => digit,
            })
            .collect(),
    );
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let decoded = GeneralPurpose::new(&STANDARD, config).decode_slice(&*text, &mut *key).ok()?;
    (decoded == KEY_BYTES).then_some(key)
}
