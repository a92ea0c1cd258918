//! Encryption of spooled events for a store that has a key: the spool is outside the store.
//! `sealed1` and a line break, 24 bytes of nonce, the text under XChaCha20-Poly1305 with a key
//! derived from the master key for this purpose only. It must not keep a key longer than one use.

use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce, aead::AeadInOut as _};
use zeroize::Zeroizing;

use crate::env::{Entropy, MasterKeys, secrets::Secret};

const MARK: &[u8] = b"sealed1\n";
const NONCE_BYTES: usize = 24;
/// Purpose of the key: it decrypts nothing else.
const PURPOSE: &str = "sessionlog 2026-11-22 spool of hooks";

fn cipher(key: &Secret) -> XChaCha20Poly1305 {
    let key = Zeroizing::new(blake3::derive_key(PURPOSE, key.bytes()));
    XChaCha20Poly1305::new((&*key).into())
}

/// Encrypts a text with the current key.
pub(super) fn seal(keys: &MasterKeys, entropy: &dyn Entropy, text: &str) -> Vec<u8> {
    let mut nonce = [0; NONCE_BYTES];
    entropy.fill_secret(&mut nonce);
    let mut body = text.as_bytes().to_vec();
    let sealed = cipher(&keys.current).encrypt_in_place(&XNonce::from(nonce), MARK, &mut body);
    sealed.expect("a text of a spool is shorter than what the cipher takes");
    [MARK, &nonce, &body].concat()
}

/// Returns true if the bytes are encrypted.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK)
}

/// Decrypts the text; `None` if no available key opens it.
pub(super) fn open(keys: Option<&MasterKeys>, bytes: Vec<u8>) -> Option<String> {
    let Some(rest) = bytes.strip_prefix(MARK) else { return String::from_utf8(bytes).ok() };
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let keys = keys?;
    [Some(&keys.current), keys.previous.as_ref()].into_iter().flatten().find_map(|key| {
        let mut body = sealed.to_vec();
        let opened = cipher(key).decrypt_in_place(&XNonce::from(*nonce), MARK, &mut body);
        opened.ok().and_then(|()| String::from_utf8(body).ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::entropy::SystemEntropy;

    #[test]
    fn a_sealed_text_opens_only_with_its_own_key() {
        let key = |byte: u8| Secret::new([byte; 32]);
        let keys = |current, previous: Option<u8>| MasterKeys {
            current: key(current),
            previous: previous.map(key),
        };
        let sealed = seal(&keys(1, None), &SystemEntropy, "a text");
        assert!(!sealed.windows(6).any(|part| part == b"a text"));
        assert_ne!(sealed, seal(&keys(1, None), &SystemEntropy, "a text"));
        let opened = |keys: Option<MasterKeys>| open(keys.as_ref(), sealed.clone());
        assert_eq!(opened(Some(keys(1, None))).as_deref(), Some("a text"));
        assert_eq!(opened(Some(keys(2, Some(1)))).as_deref(), Some("a text"));
        assert_eq!(opened(Some(keys(2, None))), None);
        assert_eq!(opened(None), None);
        let mut broken = sealed.clone();
        *broken.last_mut().expect("bytes") ^= 1;
        assert_eq!(open(Some(&keys(1, None)), broken), None);
        assert_eq!(open(None, b"{}".to_vec()).as_deref(), Some("{}"), "what was never sealed");
    }
}
