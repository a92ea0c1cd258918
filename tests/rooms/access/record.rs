//! The file of tokens: private, without secrets, with validated names.

use sessionlog::{
    access::{Grant, NewToken, TokensError, create, list, revoke},
    env::{entropy::SystemEntropy, files},
    event::Timestamp,
};

fn new(user: &str) -> NewToken {
    NewToken {
        tenant: "acme".to_owned(),
        user: user.to_owned(),
        scopes: vec![Grant::Write, Grant::Read],
        label: None,
        expires_at: None,
    }
}

#[test]
fn the_token_file_is_private_and_stores_only_hashes() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("tokens.json");
    let (token, record) = create(&path, new("ada"), Timestamp(0), &SystemEntropy).expect("made");
    assert_eq!(token.split('_').nth(1), Some(&*record.id));
    assert_eq!(files::look(&path).expect("looked").expect("there").mode, 0o600);
    let text = files::read_text(&path, 1 << 20).expect("read");
    let secret = token.rsplit('_').next().expect("a part");
    assert!(!text.contains(secret) && text.contains(&record.id), "{text}");
    let revoked = revoke(&path, &format!("sl_{}", record.id), Timestamp(1)).expect("revoked");
    assert_eq!(revoke(&path, &record.id, Timestamp(2)).expect("again"), revoked);
    assert!(matches!(revoke(&path, "nobody", Timestamp(2)), Err(TokensError::Unknown)));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .expect("changed");
    assert!(list(&path).expect_err("refused").problem.contains("chmod 600"));
}

#[test]
fn invalid_names_are_rejected_before_anything_is_written() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("tokens.json");
    for user in ["", "../x", "a b", "sessionlog.audit", "a\u{202e}b", &"x".repeat(129)] {
        let refused = create(&path, new(user), Timestamp(0), &SystemEntropy);
        assert!(matches!(refused, Err(TokensError::Wrong("tenant, user", _))), "{user:?}");
    }
    assert_eq!(files::look(&path).expect("looked"), None);
}
