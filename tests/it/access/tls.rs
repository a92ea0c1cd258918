//! TLS: a certificate that is renewed while the server runs, and clients that verify it.

use std::path::{Path, PathBuf};

use crate::program::{Place, ran};

/// Creates a self-signed certificate for this machine, and its key.
fn certificate(home: &Path, name: &str) -> (PathBuf, PathBuf, String) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (home.join(format!("{name}.pem")), home.join(format!("{name}.key")));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    (certificate, key, made.cert.pem())
}

#[test]
fn tls_is_verified_and_a_renewed_certificate_needs_no_restart() {
    let place = Place::new();
    let home = place.path("tls");
    std::fs::create_dir(&home).unwrap();
    let (certificate_path, key_path, _) = certificate(&home, "server");
    let (other, other_key, _) = certificate(&home, "other");
    let text = |path: &Path| path.display().to_string();
    let tokens = text(&place.path("tokens.json"));
    let made = ["tokens", "create", "--tokens-file", &tokens, "--user", "ada", "--json"];
    let token = place.run(&made).json()["token"].as_str().unwrap().to_owned();
    let (certificate_text, key_text) = (text(&certificate_path), text(&key_path));
    let served = place.serve_with(&[
        "--tokens-file",
        &tokens,
        "--tls-cert",
        &certificate_text,
        "--tls-key",
        &key_text,
    ]);
    assert!(served.url.starts_with("https://"), "{}", served.url);
    let sessions = |url: &str, ca: &Path| {
        let ca = text(ca);
        let mut command = place.command(&["sessions", "--url", url, "--ca", &ca, "--json"]);
        ran(command.env("SESSIONLOG_TOKEN", &token).spawn().unwrap()).code
    };
    assert_eq!(sessions(&served.url, &certificate_path), 0);
    assert_eq!(sessions(&served.url, &other), 1, "a certificate nobody vouches for");
    let plain = served.url.replace("https://", "http://");
    assert_eq!(sessions(&plain, &certificate_path), 1, "plain HTTP is not spoken there");
    // A renewal in two steps: a certificate and a key that do not match keep the current pair.
    let before = place.path("before.pem");
    std::fs::copy(&certificate_path, &before).unwrap();
    std::fs::rename(&other, &certificate_path).unwrap();
    assert_eq!(sessions(&served.url, &before), 0, "the old one still");
    std::fs::rename(&other_key, &key_path).unwrap();
    assert_eq!(sessions(&served.url, &certificate_path), 0, "the new one at once");
    assert_eq!(sessions(&served.url, &before), 1);
    served.stop();
    let open = ["--tls-cert", &certificate_text, "--json"];
    let alone = [&["serve", "--listen", "127.0.0.1:0"][..], &open].concat();
    assert_eq!(place.run(&alone).code, 2, "a certificate without a key");
    std::fs::set_permissions(&key_path, std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .unwrap();
    let refused = place.run(&[&alone[..], &["--tls-key", &key_text]].concat());
    assert!(refused.out.contains("chmod 600"), "{}", refused.out);
}
