//! JWTs of a foreign issuer, and forgeries.

use std::{path::Path, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use sessionlog::{
    access::{AccessOptions, Authenticator, JwtRules},
    env::Clock as _,
};
use sessionlog_sim::ManualClock;

use super::house::{Wall, Walled};

/// The public key of RFC 7515, A.2, whose signature the unit tests of `access` verify.
const MODULUS: &str = "\
    ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4\
    d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5re\
    xMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxX\
    FvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

fn text(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A signing issuer.
struct Issuer {
    ed: Ed25519KeyPair,
    ec: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
        Self {
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(signing, ec.as_ref(), &random).unwrap(),
            random,
        }
    }

    fn keys(&self) -> Value {
        let (_, point) = self.ec.public_key().as_ref().split_first().unwrap();
        let (x, y) = point.split_at(32);
        json!({"keys": [
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": text(self.ed.public_key().as_ref())},
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": text(x), "y": text(y)},
            {"kty": "RSA", "kid": "rsa", "alg": "RS256", "n": MODULUS, "e": "AQAB"},
        ]})
    }

    fn sign(&self, key: &str, header: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            text(header.to_string().as_bytes()),
            text(claims.to_string().as_bytes())
        );
        let signature = match key {
            "ed" => self.ed.sign(signed.as_bytes()).as_ref().to_vec(),
            "ec" => self.ec.sign(&self.random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            "none" => Vec::new(),
            shared => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, shared.as_bytes());
                hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{signed}.{}", text(&signature))
    }
}

fn rules(path: &Path) -> JwtRules {
    JwtRules {
        keys: path.to_path_buf(),
        issuer: "https://id.example".to_owned(),
        audience: "sessionlog".to_owned(),
        tenant_claim: "tenant".to_owned(),
        user_claim: "sub".to_owned(),
    }
}

fn claims(clock: &ManualClock) -> Value {
    let now = clock.now().0 / 1_000_000;
    json!({"iss": "https://id.example", "aud": ["other", "sessionlog"], "sub": "ada",
        "tenant": "acme", "scope": "openid read", "exp": now + 600, "nbf": now - 5})
}

/// Returns the claims with one changed or removed.
fn with(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_jwt_of_the_issuer_grants_access_and_only_to_its_claims() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("keys.json");
    let issuer = Issuer::new();
    std::fs::write(&path, issuer.keys().to_string()).unwrap();
    let wall = Wall { jwt: Some(rules(&path)), ..Wall::default() };
    let walled = Walled::build(wall).await;
    let said = claims(&walled.clock);
    for (key, alg) in [("ed", "EdDSA"), ("ec", "ES256")] {
        let token = issuer.sign(key, &json!({"alg": alg, "typ": "JWT", "kid": key}), &said);
        let listed = walled.get(&token, "/v1/sessions").await;
        assert_eq!(listed.status, 200, "{alg}: {}", listed.text);
        let refused = walled.post(&token, "/v1/sessions", &json!({})).await;
        assert_eq!(refused.status, 403, "{alg}: read is all it has");
        let no_key_named = issuer.sign(key, &json!({"alg": alg}), &said);
        assert_eq!(walled.get(&no_key_named, "/v1/sessions").await.status, 200, "{alg}");
    }
    let file = issuer.keys().to_string();
    let now = walled.clock.now().0 / 1_000_000;
    let (eddsa, forged) = (json!({"alg": "EdDSA"}), |alg: &str| json!({"alg": alg}));
    let good = issuer.sign("ed", &eddsa, &said);
    let mut tampered = good.clone().into_bytes();
    let last = tampered.len() - 10;
    tampered[last] = if tampered[last] == b'A' { b'B' } else { b'A' };
    let (head, rest) = good.split_once('.').unwrap();
    let other_claims = text(with(&said, "tenant", json!("other")).to_string().as_bytes());
    let signature = rest.split_once('.').unwrap().1;
    for (why, token) in [
        ("no algorithm", issuer.sign("none", &forged("none"), &said)),
        ("none, spelled otherwise", issuer.sign("none", &forged("NoNe"), &said)),
        ("signed with the public key as a secret", issuer.sign(MODULUS, &forged("HS256"), &said)),
        ("with the file of keys as one", issuer.sign(&file, &forged("HS256"), &said)),
        ("HS under the name of RS", issuer.sign(MODULUS, &forged("RS256"), &said)),
        ("one key's signature under another's name", issuer.sign("ed", &forged("ES256"), &said)),
        ("another key's name", issuer.sign("ed", &json!({"alg": "EdDSA", "kid": "ec"}), &said)),
        ("a key of nobody", issuer.sign("ed", &json!({"alg": "EdDSA", "kid": "x"}), &said)),
        ("a key in the token", issuer.sign("none", &json!({"alg": "EdDSA", "jwk": {}}), &said)),
        (
            "what must be understood",
            issuer.sign("ed", &json!({"alg": "EdDSA", "crit": ["x"]}), &said),
        ),
        ("another's signature", Issuer::new().sign("ed", &eddsa, &said)),
        ("a changed signature", String::from_utf8(tampered).unwrap()),
        ("changed claims", format!("{head}.{other_claims}.{signature}")),
        ("padding", format!("{good}=")),
        ("four parts", format!("{good}.x")),
        ("another issuer", issuer.sign("ed", &eddsa, &with(&said, "iss", json!("x")))),
        ("no issuer", issuer.sign("ed", &eddsa, &with(&said, "iss", Value::Null))),
        ("another audience", issuer.sign("ed", &eddsa, &with(&said, "aud", json!("x")))),
        ("no audience", issuer.sign("ed", &eddsa, &with(&said, "aud", Value::Null))),
        ("no end", issuer.sign("ed", &eddsa, &with(&said, "exp", Value::Null))),
        ("an end that is none", issuer.sign("ed", &eddsa, &with(&said, "exp", json!("2099")))),
        ("its end is over", issuer.sign("ed", &eddsa, &with(&said, "exp", json!(now - 31)))),
        ("it begins later", issuer.sign("ed", &eddsa, &with(&said, "nbf", json!(now + 31)))),
        ("no tenant", issuer.sign("ed", &eddsa, &with(&said, "tenant", Value::Null))),
        ("no name of a tenant", issuer.sign("ed", &eddsa, &with(&said, "tenant", json!("../x")))),
        (
            "the server's own user",
            issuer.sign("ed", &eddsa, &with(&said, "sub", json!("sessionlog.audit"))),
        ),
    ] {
        let refused = walled.get(&token, "/v1/sessions").await;
        assert_eq!((refused.status, &*refused.code()), (401, "unauthenticated"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jwt_is_rejected_once_it_expires_or_its_key_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("keys.json");
    let issuer = Issuer::new();
    std::fs::write(&path, issuer.keys().to_string()).unwrap();
    let walled = Walled::build(Wall { jwt: Some(rules(&path)), ..Wall::default() }).await;
    let (said, eddsa) = (claims(&walled.clock), json!({"alg": "EdDSA"}));
    let now = walled.clock.now().0 / 1_000_000;
    let good = issuer.sign("ed", &eddsa, &said);
    let leeway = issuer.sign("ed", &eddsa, &with(&said, "exp", json!(now - 29)));
    assert_eq!(walled.get(&leeway, "/v1/sessions").await.status, 200);
    walled.clock.advance(Duration::from_secs(631));
    assert_eq!(walled.get(&good, "/v1/sessions").await.status, 401, "its time is over");
    // A key removed from the file is no longer accepted.
    let fresh = issuer.sign("ed", &eddsa, &claims(&walled.clock));
    assert_eq!(walled.get(&fresh, "/v1/sessions").await.status, 200);
    std::fs::write(&path, Issuer::new().keys().to_string()).unwrap();
    assert_eq!(walled.get(&fresh, "/v1/sessions").await.status, 401);
}

#[test]
fn an_invalid_jwks_file_or_one_with_a_secret_key_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("keys.json");
    let key = |key: Value| json!({"keys": [key]}).to_string();
    let ed = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    for (why, text) in [
        ("no file of keys", "{}".to_owned()),
        ("none in it", json!({"keys": []}).to_string()),
        ("a shared secret", key(json!({"kty": "oct", "k": "c2VjcmV0"}))),
        ("a private key", key(json!({"kty": "OKP", "crv": "Ed25519", "x": ed, "d": ed}))),
        ("a short key", key(json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}))),
        (
            "another algorithm",
            key(json!({"kty": "OKP", "crv": "Ed25519", "x": ed, "alg": "HS256"})),
        ),
        ("for secrecy", key(json!({"kty": "OKP", "crv": "Ed25519", "x": ed, "use": "enc"}))),
        ("another curve", key(json!({"kty": "EC", "crv": "P-384", "x": ed, "y": ed}))),
        ("a part too short", key(json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}))),
    ] {
        std::fs::write(&path, text).unwrap();
        let options = AccessOptions { jwt: Some(rules(&path)), ..AccessOptions::default() };
        let clock = std::sync::Arc::new(sessionlog::env::clock::SystemClock::new());
        assert!(Authenticator::open(options, clock).is_err(), "{why}");
    }
}
