//! Members whose names mark their values as secrets, and other members.

use sessionlog::secrets::{MaskingReport, Recogniser};

/// Returns true if a value is removed because of its member's name.
fn is_removed(name: &str, value: impl Into<serde_json::Value>) -> bool {
    let mut report = MaskingReport::default();
    let text = serde_json::json!({ name: value.into() }).to_string();
    let _ = Recogniser::default().mask_json(&text, &mut report);
    report.rules().any(|(rule, _)| rule == "secret-member")
}

#[test]
fn members_named_like_secrets_have_their_values_removed() {
    for (name, value) in [
        ("password", "hunter2"),
        ("dbPassword", "hunter2"),
        ("password2", "hunter2"),
        ("userpassword", "correct horse battery staple"),
        ("passphrase", "correct horse battery staple of many words"),
        ("passwordConfirmation", "hunter2"),
        ("db_pass", "correcthorse"),
        ("smtpPass", "x1"),
        ("db_pwd", "hunter2"),
        ("token", "a8Kd03jf"),
        ("bot-token", "12345:abcdef"),
        ("TOKEN_VALUE", "a8Kd03jf"),
        ("access_token", "abc"),
        ("page_access_token", "abc"),
        ("tokens", "a8Kd03jf"),
        ("secret", "my-own"),
        ("webhook_secret", "whatever"),
        ("SecretString", "s3cr3t"),
        ("credential", "a8Kd03jf"),
        ("credentials", "dXNlcjpodW50ZXIy"),
        ("api_key", "k1"),
        ("API_KEY_PROD", "k1"),
        ("openaiApiKey", "k1"),
        ("x-api-key", "k1"),
        ("encryptionKey", "9f8e7d6c5b4a"),
        ("authorization", "Digest username=\"a\", realm=\"b\", nonce=\"9\" c"),
        ("Proxy-Authorization", "Basic eA=="),
        ("cookie", "sid=1"),
        ("jwt", "abc123def4"),
        ("connectionString", "Server=a;Pwd=b"),
    ] {
        assert!(is_removed(name, value), "{name}: {value}");
    }
}

#[test]
fn members_with_other_names_or_other_values_are_kept() {
    for (name, value) in [
        ("max_tokens", "4096"),
        ("max_tokens", "4096tokens"),
        ("token_count", "a8Kd03jf"),
        ("tokenizer", "o200k_base"),
        ("next_page_token", "CAUQAA9f8e7d6c5b4a"),
        ("nextToken", "CAUQAA9f8e7d6c5b4a"),
        ("continuationToken", "9f8e7d6c5b4a"),
        ("pad_token", "<pad0>abcd1"),
        ("eos_token_id", "50256abcd"),
        ("token", "identifier"),
        ("token", "abc"),
        ("token", "$TOKEN"),
        ("token_type", "bearer1234"),
        ("password", ""),
        ("password", "Please enter your password here"),
        ("password", "<password>"),
        ("password_hash_algorithm", "argon2id1"),
        ("password_file", "/run/secrets/db1"),
        ("secret", "a long sentence about it"),
        ("secret_name", "db-credentials1"),
        ("secretary", "Ada1 Lovelace"),
        ("credentials", "same-origin"),
        ("pass", "yes"),
        ("first_pass", "12:30"),
        ("bypass", "no"),
        ("compass", "north"),
        ("pwd", "/home/ada"),
        ("old_pwd", "/home/ada"),
        ("public_key", "9f8e7d6c5b4a"),
        ("primary_key", "9f8e7d6c5b4a"),
        ("key", "9f8e7d6c5b4a"),
        ("author", "hunter2"),
        ("", "hunter2"),
    ] {
        assert!(!is_removed(name, value), "{name}: {value}");
    }
    assert!(
        !is_removed("tokens", vec!["node-0012"]) && is_removed("tokens", vec!["x8Kq0pL2mN4vB6"])
    );
}

#[test]
fn a_placeholder_instead_of_a_secret_is_kept() {
    for text in [
        "<your key>",
        "${TOKEN}",
        "$TOKEN",
        "{{ token }}",
        "%TOKEN%",
        "xxxxxxxxxxxx",
        "****",
        "your-api-key-here",
        "YOUR_API_KEY",
        "changeme",
        "self.password",
        "get_token()",
        "process.env.TOKEN",
        "string",
        "null",
        "sk-...",
        "[hidden]",
        "aaaaaaaa",
    ] {
        assert!(!is_removed("api_key", text), "{text}");
    }
    for text in ["hunter2", "correct horse", "Tr0ub4dor&3", "a.8fk2.q0z9x1m3"] {
        assert!(is_removed("api_key", text), "{text}");
    }
}
