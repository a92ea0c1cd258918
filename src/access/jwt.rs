//! JSON Web Tokens of a foreign issuer, checked against a file of public keys (JWKS): signature,
//! issuer, audience and time. Each key has one algorithm, and a token must name it, so that no key
//! is used with another one; shared keys and `none` are refused. It must not fetch anything.

use std::{path::PathBuf, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    FileError, Grant, Grants, principal,
    watched::{self, Privacy, Watched},
};
use crate::event::{Scope, Timestamp};

const FILE_BYTES_MAX: u64 = 1 << 20;
/// Tolerance for the issuer's clock.
const LEEWAY_SECONDS: f64 = 30.0;

/// Rules for accepting a token.
#[derive(Clone, Debug)]
pub struct JwtRules {
    /// File of public keys, a JWK Set.
    pub keys: PathBuf,
    /// Issuer that a token must name (`iss`).
    pub issuer: String,
    /// Audience that a token must name (`aud`), as the only value or in a list.
    pub audience: String,
    /// Name of the claim with the tenant.
    pub tenant_claim: String,
    /// Name of the claim with the user.
    pub user_claim: String,
}

/// Scope and grants of an accepted token.
pub(super) struct JwtClaims {
    pub(super) scope: Scope,
    pub(super) grants: Grants,
}

/// The rules, and the current keys of the file.
pub(super) struct JwtVerifier {
    rules: JwtRules,
    keys: Watched<Vec<JwtKey>>,
}

/// Algorithms that are accepted; the list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    EdDsa,
    Es256,
    Rs256,
}

impl Algorithm {
    fn as_str(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

struct JwtKey {
    id: Option<String>,
    algorithm: Algorithm,
    public: PublicKey,
}

enum PublicKey {
    Ed25519(Vec<u8>),
    /// The public point, uncompressed.
    P256(Vec<u8>),
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
struct JwtHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl JwtVerifier {
    pub(super) fn open(rules: JwtRules) -> Result<Self, FileError> {
        let path = rules.keys.clone();
        let make = Box::new(move |_: Option<&Arc<Vec<JwtKey>>>| {
            let bytes = watched::read(&path, Privacy::Readable, FILE_BYTES_MAX)?;
            parse_keys(&bytes).map_err(|problem| FileError::new(&path, problem))
        });
        let keys = Watched::open(vec![rules.keys.clone()], false, make)?;
        Ok(Self { rules, keys })
    }

    /// Returns the claims of a token that is valid at `now`, else an error text for its bearer.
    pub(super) fn check(&self, token: &str, now: Timestamp) -> Result<JwtClaims, &'static str> {
        let keys = self.keys.current().ok_or("the keys of this server cannot be read now")?;
        let claims =
            verify_token(&keys, token).ok_or("it is not signed by a key of this server's")?;
        self.rules.check(&claims, now)
    }
}

/// Returns the claims if one of the keys signed the token and it has no critical extensions.
fn verify_token(keys: &[JwtKey], token: &str) -> Option<Map<String, Value>> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, payload) = signed.split_once('.')?;
    if payload.contains('.') {
        return None;
    }
    let header: JwtHeader = serde_json::from_slice(&decode(header)?).ok()?;
    let (payload, signature) = (decode(payload)?, decode(signature)?);
    if header.crit.is_some() {
        return None;
    }
    let mut named = keys.iter().filter(|key| {
        key.algorithm.as_str() == header.alg && (header.kid.is_none() || key.id == header.kid)
    });
    named.find(|key| key.verify(signed.as_bytes(), &signature))?;
    serde_json::from_slice(&payload).ok()
}

impl JwtKey {
    fn verify(&self, text: &[u8], signature: &[u8]) -> bool {
        match &self.public {
            PublicKey::Ed25519(public) => {
                UnparsedPublicKey::new(&signature::ED25519, public).verify(text, signature).is_ok()
            }
            PublicKey::P256(public) => {
                let algorithm = &signature::ECDSA_P256_SHA256_FIXED;
                UnparsedPublicKey::new(algorithm, public).verify(text, signature).is_ok()
            }
            PublicKey::Rsa { modulus, exponent } => {
                let public = RsaPublicKeyComponents { n: modulus, e: exponent };
                let algorithm = &signature::RSA_PKCS1_2048_8192_SHA256;
                public.verify(algorithm, text, signature).is_ok()
            }
        }
    }
}

impl JwtRules {
    fn check(
        &self,
        claims: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<JwtClaims, &'static str> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&self.issuer) {
            return Err("it is of another issuer");
        }
        let is_audience = match claims.get("aud") {
            Some(Value::String(one)) => *one == self.audience,
            Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(&self.audience)),
            _ => false,
        };
        if !is_audience {
            return Err("it is for another audience");
        }
        let now = now.0 as f64 / 1e6;
        let instant = |name: &str| claims.get(name).map(|value| value.as_f64().unwrap_or(f64::NAN));
        match instant("exp") {
            Some(end) if now < end + LEEWAY_SECONDS => {}
            Some(end) if !end.is_nan() => return Err("it has expired"),
            _ => return Err("it does not say when it expires"),
        }
        if instant("nbf").is_some_and(|begin| begin.is_nan() || now < begin - LEEWAY_SECONDS) {
            return Err("it is not valid yet");
        }
        let tenant = text(&self.tenant_claim).unwrap_or_default();
        let user = text(&self.user_claim).unwrap_or_default();
        let scope = principal::parse_scope(tenant, user);
        let scope = scope.ok_or("its tenant or user is missing, or is no name of one here")?;
        Ok(JwtClaims { scope, grants: parse_grants(claims) })
    }
}

/// Returns the grants that a token names, in `scope` separated by spaces or in the list `scopes`;
/// unknown names are skipped.
fn parse_grants(claims: &Map<String, Value>) -> Grants {
    let words = claims.get("scope").and_then(Value::as_str).unwrap_or_default().split(' ');
    let list = claims.get("scopes").and_then(Value::as_array).into_iter().flatten();
    words.chain(list.filter_map(Value::as_str)).filter_map(Grant::parse).collect()
}

fn parse_keys(bytes: &[u8]) -> Result<Vec<JwtKey>, String> {
    let set: KeySet =
        serde_json::from_slice(bytes).map_err(|_| "it is no JWK Set: {\"keys\":[…]}".to_owned())?;
    let keys: Vec<JwtKey> = set.keys.iter().map(parse_key).collect::<Result<_, _>>()?;
    if keys.is_empty() { Err("it holds no key".to_owned()) } else { Ok(keys) }
}

fn parse_key(jwk: &Map<String, Value>) -> Result<JwtKey, String> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let id = text("kid").map(str::to_owned);
    let wrong = |problem: &str| format!("key {:?}: {problem}", id.as_deref().unwrap_or_default());
    if jwk.contains_key("d") || jwk.contains_key("k") {
        return Err(wrong("it is not public; only public keys belong here"));
    }
    if text("use").is_some_and(|usage| usage != "sig") {
        return Err(wrong("it is not for signatures"));
    }
    let part = |name: &str| text(name).and_then(decode).ok_or_else(|| wrong("a part is missing"));
    let sized = |name: &str, bytes: usize| {
        part(name).and_then(|part| {
            if part.len() == bytes { Ok(part) } else { Err(wrong("a part has another length")) }
        })
    };
    let (algorithm, public) = match (text("kty"), text("crv")) {
        (Some("OKP"), Some("Ed25519")) => (Algorithm::EdDsa, PublicKey::Ed25519(sized("x", 32)?)),
        (Some("EC"), Some("P-256")) => {
            let point = [vec![4], sized("x", 32)?, sized("y", 32)?].concat();
            (Algorithm::Es256, PublicKey::P256(point))
        }
        (Some("RSA"), None) => {
            let modulus = part("n")?;
            if modulus.len() < 256 {
                return Err(wrong("2048 bits are the least"));
            }
            (Algorithm::Rs256, PublicKey::Rsa { modulus, exponent: part("e")? })
        }
        _ => return Err(wrong("taken are OKP Ed25519, EC P-256 and RSA")),
    };
    if text("alg").is_some_and(|named| named != algorithm.as_str()) {
        return Err(wrong("taken are the algorithms EdDSA, ES256 and RS256, each with its key"));
    }
    Ok(JwtKey { id, algorithm, public })
}

/// Decodes base64url without padding; rejects every non-canonical encoding.
fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNv\
        bS9pc19yb290Ijp0cnVlfQ";
    const RSA: &str = r#"{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji\
        9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32\
        690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg\
        665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkM\
        Ls91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#;
    const EC: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    const BY_RSA: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh\
        -0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h\
        6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7n\
        oOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77\
        Rw";
    const BY_EC: &str = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJ\
        qPP3-Kg6NU1Q";

    #[test]
    fn a_non_canonical_base64url_text_is_rejected() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("-_8", &[0xfb, 0xff])]
        {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for bad in ["Z", "Zh", "Zm9", "Zg==", "+/8", "Zg\n", "Zm9vY"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    /// Test vectors of RFC 7515, A.2 and A.3.
    #[test]
    fn rfc_7515_signatures_are_accepted_and_altered_ones_rejected() {
        let plain = |text: &str| text.replace(['\\', '\n', ' '], "");
        let keys = parse_keys(format!(r#"{{"keys":[{},{}]}}"#, plain(RSA), plain(EC)).as_bytes())
            .expect("both are public keys");
        for (head, signature) in [("eyJhbGciOiJSUzI1NiJ9", BY_RSA), ("eyJhbGciOiJFUzI1NiJ9", BY_EC)]
        {
            let token = format!("{head}.{CLAIMS}.{signature}");
            let claims = verify_token(&keys, &token).expect("it is the standard's");
            assert_eq!(claims.get("iss").and_then(Value::as_str), Some("joe"));
            for at in head.len() + 1..token.len() {
                let mut changed = token.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).expect("it is ASCII");
                assert!(verify_token(&keys, &changed).is_none(), "{at}");
            }
        }
    }
}
