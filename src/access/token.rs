//! A token: `sl_` + an id of 8 characters + `_` + 32 random characters + 4 of a checksum that
//! catches typing errors. It must not keep the secret: only its hash is stored.
//!
//! ```text
//! sl_5kq0v7rz_3m9w…………………………8d2tq
//!    name     160 random bits    check
//! ```

use crate::env::Entropy;

const MARK: &str = "sl_";
const NAME_CHARS: usize = 8;
const SECRET_CHARS: usize = 32;
const CHECK_CHARS: usize = 4;
/// Digits and lower-case letters, without those that are easily confused.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The stored hash of a token. Compared in constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenHash(blake3::Hash);

impl TokenHash {
    /// Hashes a whole token.
    pub(super) fn new(token: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 token");
        hasher.update(token.as_bytes());
        Self(hasher.finalize())
    }

    pub(super) fn parse(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(Self)
    }

    pub(super) fn to_hex(self) -> String {
        self.0.to_hex().to_string()
    }
}

/// Returns true if a credential has the form of a token.
pub(super) fn has_token_prefix(credential: &str) -> bool {
    credential.starts_with(MARK)
}

/// Returns the id of a well-formed token; `None` for any other text.
pub(super) fn parse_id(token: &str) -> Option<&str> {
    let (name, rest) = token.strip_prefix(MARK)?.split_once('_')?;
    let fits = name.len() == NAME_CHARS && rest.len() == SECRET_CHARS + CHECK_CHARS;
    let (body, check) = token.split_at_checked(token.len().checked_sub(CHECK_CHARS)?)?;
    let plain = token.bytes().all(|byte| byte == b'_' || ALPHABET.contains(&byte) || byte == b'l');
    (fits && plain && checksum(body) == check).then_some(name)
}

/// Creates a token; returns it and its id.
pub(super) fn mint(entropy: &dyn Entropy) -> (String, String) {
    let mut random = [0; 25];
    entropy.fill_secret(&mut random);
    let (name, secret) = random.split_at(5);
    let (name, secret) = (encode(name), encode(secret));
    let body = format!("{MARK}{name}_{secret}");
    let token = format!("{body}{}", checksum(&body));
    (token, name)
}

fn checksum(body: &str) -> String {
    let hash = blake3::derive_key("sessionlog v1 token check", body.as_bytes());
    encode(hash.get(..5).unwrap_or_default()).chars().take(CHECK_CHARS).collect()
}

/// Encodes five bits as one character, most significant bits first.
fn encode(bytes: &[u8]) -> String {
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let symbol = |at: usize| (at..at + 5).fold(0, |value, at| value << 1 | usize::from(bit(at)));
    let symbols = (0..bytes.len() * 8 / 5).map(|number| symbol(number * 5));
    symbols.filter_map(|symbol| ALPHABET.get(symbol).map(|byte| char::from(*byte))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::entropy::SystemEntropy;

    #[test]
    fn a_minted_token_parses_and_a_mistyped_one_is_rejected() {
        let (token, name) = mint(&SystemEntropy);
        assert_eq!((token.len(), parse_id(&token)), (48, Some(&*name)));
        assert_eq!(
            TokenHash::parse(&TokenHash::new(&token).to_hex()),
            Some(TokenHash::new(&token))
        );
        for at in 0..token.len() {
            let mut wrong = token.clone().into_bytes();
            wrong[at] = if wrong[at] == b'q' { b'r' } else { b'q' };
            let wrong = String::from_utf8(wrong).expect("ASCII");
            assert_eq!(parse_id(&wrong), None, "{wrong}");
        }
        for other in ["", "sl_", "sl__", "sl_é", &token[..40], &format!("{token}0")] {
            assert_eq!(parse_id(other), None, "{other}");
        }
        assert_ne!(mint(&SystemEntropy), mint(&SystemEntropy));
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_token_with_a_wrong_secret_is_rejected() {
        use crate::access::{AccessOptions, Authenticator, Grant, NewToken, create_token};
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().join("tokens.json");
        let new = NewToken {
            tenant: "acme".to_owned(),
            user: "ada".to_owned(),
            scopes: vec![Grant::Read],
            label: None,
            expires_at: None,
        };
        let now = crate::event::Timestamp(0);
        let (token, record) = create_token(&path, new, now, &SystemEntropy).expect("made");
        let options = AccessOptions { tokens: Some(path), ..AccessOptions::default() };
        let clock = std::sync::Arc::new(crate::env::clock::SystemClock::new());
        let access = Authenticator::open(options, clock).expect("opened");
        assert_eq!(&*access.authenticate(&token).expect("let in").name, &*record.id);
        for _ in 0..100 {
            // Well-formed with a known id: only the secret differs.
            let (other, name) = mint(&SystemEntropy);
            let body = other[..other.len() - CHECK_CHARS].replace(&name, &record.id);
            let forged = format!("{body}{}", checksum(&body));
            assert_eq!(parse_id(&forged), Some(&*record.id));
            let refused = access.authenticate(&forged).expect_err("refused");
            assert_eq!(refused.problem, "the credential is not valid");
        }
    }
}
