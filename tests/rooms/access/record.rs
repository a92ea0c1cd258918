//! The file of tokens: private, without secrets, with validated names.

use sessionlog::{
    access::{Grant, NewToken, TokensError, create_token, read_tokens, revoke_token},
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
    let (token, record) =
        create_token(&path, new("ada"), Timestamp(0), &SystemEntropy).expect("made");
    assert_eq!(token.split('_').nth(1), Some(&*record.id));
    assert_eq!(files::path_info(&path).expect("looked").expect("there").mode, 0o600);
    let text = files::read_text(&path, 1 << 20).expect("read");
    let secret = token.rsplit('_').next().expect("a part");
    assert!(!text.contains(secret) && text.contains(&record.id), "{text}");
    let revoked = revoke_token(&path, &format!("sl_{}", record.id), Timestamp(1)).expect("revoked");
    assert_eq!(revoke_token(&path, &record.id, Timestamp(2)).expect("again"), revoked);
    assert!(matches!(revoke_token(&path, "nobody", Timestamp(2)), Err(TokensError::Unknown)));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .expect("changed");
    assert!(read_tokens(&path).expect_err("refused").problem.contains("chmod 600"));
}

#[test]
fn invalid_names_are_rejected_before_anything_is_written() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("tokens.json");
    for user in ["", "../x", "a b", "sessionlog.audit", "a\u{202e}b", &"x".repeat(129)] {
        let refused = create_token(&path, new(user), Timestamp(0), &SystemEntropy);
        assert!(matches!(refused, Err(TokensError::Wrong("tenant, user", _))), "{user:?}");
    }
    assert_eq!(files::path_info(&path).expect("looked"), None);
}
