//! Ids of sessions, digests of requests, and hashes of keys.

use sessionlog::event::{
    BatchKey, Incarnation, Scope, SessionHash, SessionId, SessionKey, TenantId, UserId,
};

#[test]
fn the_digest_of_a_request_depends_on_its_key_and_content() {
    let digest = |key: &str, call: &str| {
        let key = BatchKey::new(key).expect("a key");
        key.with_request_digest(|to| to.write_all(call.as_bytes())).expect("it is written").digest()
    };
    let (known, other) = (digest("a", "x"), digest("b", "x"));
    assert_ne!(known[8..], other[8..], "without the key nothing is learned of the call");
    assert_eq!(BatchKey::is_retry(known, digest("a", "x")), Some(true));
    assert_eq!(BatchKey::is_retry(known, digest("a", "y")), Some(false));
    assert_eq!(BatchKey::is_retry(known, other), None);
}

#[test]
fn a_session_id_outside_its_alphabet_is_rejected() {
    for good in ["a", "A9", "a.b_c-d", &"x".repeat(128)] {
        assert!(SessionId::new(good).is_ok(), "{good}");
    }
    for bad in ["", ".a", "-a", "a/b", "a b", "a:b", "é", "a\0", &"x".repeat(129)] {
        assert!(SessionId::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn names_with_the_same_concatenation_have_different_hashes() {
    let key = |tenant: &str, user: &str| SessionKey {
        scope: Scope { tenant: TenantId::new(tenant).unwrap(), user: UserId::new(user).unwrap() },
        session: SessionId::new("s").unwrap(),
    };
    let hash = |key| SessionHash::new(&key, Incarnation([0; 16]));
    assert_ne!(hash(key("ab", "c")), hash(key("a", "bc")));
}
