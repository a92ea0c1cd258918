//! An encrypted data directory through the real program: sources of its key, refusal without it,
//! and no plaintext on disk. It must not decode files, only search them for plaintext.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::{
    bytes::holds,
    program::{Place, kill},
};

const KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeeff0";
const OTHER: &str = "ff1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeeff0";
const CANARY: &str = "canary-9b1d7e33";

fn run(place: &Place, arguments: &[&str], set: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = place.command(arguments).envs(set.iter().copied()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

fn tree(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else if path.is_file() {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[expect(clippy::disallowed_types, reason = "a program reads what it appends there")]
fn append(place: &Place, set: &[(&str, &str)]) {
    let file = place.write("one", &json!({"type":"user.message","content":CANARY}).to_string());
    let file = file.to_str().unwrap().to_owned();
    let mut command = place.command(&["append", "trip", "--create"]);
    let input = fs::File::open(file).unwrap();
    let output = command.envs(set.iter().copied()).stdin(input).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_encrypted_store_opens_only_with_its_key_and_is_otherwise_unchanged() {
    let place = Place::new();
    let key = [("SESSIONLOG_KEY", KEY)];
    append(&place, &key);
    let pid = place.owner_pid().unwrap();
    let process = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    assert!(!holds(&process("cmdline"), KEY));
    assert!(!holds(&process("environ"), KEY) || rustix::process::geteuid().is_root());
    let limits = String::from_utf8(process("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(core.split_whitespace().nth(4) == Some("0"), "{core}");
    kill(place.kill_owner());
    let before = tree(&place.data_dir());
    for (path, bytes) in &before {
        assert!(!holds(bytes, CANARY) && !holds(bytes, KEY), "{path}");
    }
    for (set, word) in [
        (vec![], "no key is set"),
        (vec![("SESSIONLOG_KEY", OTHER)], "the keys given are"),
        (vec![("SESSIONLOG_KEY_PREVIOUS", KEY)], "only the one before"),
    ] {
        let (code, said) = run(&place, &["events", "trip"], &set);
        assert!(matches!(code, Some(1 | 2)), "{code:?} {said}");
        assert!(said.contains(word) && !said.contains(KEY) && !said.contains(OTHER), "{said}");
        assert_eq!(tree(&place.data_dir()), before, "{word}");
    }
    let rotated = [("SESSIONLOG_KEY", OTHER), ("SESSIONLOG_KEY_PREVIOUS", KEY)];
    let (code, said) = run(&place, &["events", "trip"], &rotated);
    assert!(code == Some(0) && said.contains(CANARY), "{said}");
}

#[test]
fn a_key_comes_from_a_private_file_or_command_and_a_plaintext_store_rejects_it() {
    let place = Place::new();
    let file = place.write("key", &format!("{KEY}\n"));
    let path = file.to_str().unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let (code, said) = run(&place, &["sessions"], &[("SESSIONLOG_KEY_FILE", path)]);
    assert!(code == Some(1) && said.contains("0600"), "{said}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    append(&place, &[("SESSIONLOG_KEY_FILE", path)]);
    kill(place.kill_owner());
    let command = format!("cat {path}");
    let (code, said) = run(&place, &["events", "trip"], &[("SESSIONLOG_KEY_COMMAND", &command)]);
    assert!(code == Some(0) && said.contains(CANARY), "{said}");
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let (code, said) = run(&place, &serve, &[("SESSIONLOG_KEY_COMMAND", "yes")]);
    let expected = "key_command: yes printed more than 4096 bytes";
    assert!(code == Some(1) && said.contains(expected), "{said}");
    let both = [("SESSIONLOG_KEY", KEY), ("SESSIONLOG_KEY_FILE", path)];
    let (code, said) = run(&place, &["config"], &both);
    assert!(code == Some(2) && said.contains("two of them"), "{said}");

    let plain = Place::new();
    append(&plain, &[]);
    kill(plain.kill_owner());
    let before = tree(&plain.data_dir());
    let (code, said) = run(&plain, &["events", "trip"], &[("SESSIONLOG_KEY", KEY)]);
    assert!(code == Some(1) && said.contains("plaintext") && said.contains("import"), "{said}");
    assert_eq!(tree(&plain.data_dir()), before);
}

#[test]
fn an_erased_session_is_removed_from_every_file() {
    for set in [vec![], vec![("SESSIONLOG_KEY", KEY)]] {
        let place = Place::new();
        append(&place, &set);
        let (code, said) = run(&place, &["erase", "trip", "--yes", "--json"], &set);
        assert_eq!(code, Some(0), "{said}");
        let answer: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(answer, json!({"id":"trip","type":"session_erased"}));
        let (code, said) = run(&place, &["events", "trip"], &set);
        assert!(code == Some(4) && said.contains("deleted"), "{said}");
        for (path, bytes) in tree(&place.data_dir()) {
            assert!(!holds(&bytes, CANARY), "{path}");
        }
    }
}

#[test]
fn a_redacted_event_is_removed_from_every_file_and_its_session_accepts_appends() {
    for set in [vec![], vec![("SESSIONLOG_KEY", KEY)]] {
        let place = Place::new();
        append(&place, &set);
        let (_, said) = run(&place, &["events", "trip"], &set);
        let event: Value = serde_json::from_str(said.trim()).unwrap();
        let id = event["id"].as_str().unwrap();
        let (code, said) = run(&place, &["redact", "trip", id, "--yes", "--json"], &set);
        assert_eq!(code, Some(0), "{said}");
        let answer: Value = serde_json::from_str(&said).unwrap();
        let mut expected = event.clone();
        expected.as_object_mut().unwrap().remove("content");
        expected["redacted"] = json!(true);
        assert_eq!(answer, expected);
        let (code, said) = run(&place, &["events", "trip"], &set);
        assert_eq!((code, serde_json::from_str(said.trim()).ok()), (Some(0), Some(expected)));
        let (code, said) = run(&place, &["redact", "trip", id, "--yes"], &set);
        assert!(code == Some(0) && said.contains("position 0 of trip"), "{said}");
        for unknown in ["nobody", "a/b ?%#é", "0"] {
            let (code, said) = run(&place, &["redact", "trip", unknown, "--yes"], &set);
            assert!(code == Some(4) && said.contains("has no event"), "{code:?} {said}");
        }
        let (code, said) = run(&place, &["verify", "trip"], &set);
        assert_eq!(code, Some(0), "{said}");
        let data = place.data_dir().display().to_string();
        let (code, said) = run(&place, &["inspect", &data], &[]);
        assert_eq!(code, Some(0), "what was taken away is no damage: {said}");
        let (_, said) = run(&place, &["inspect", &format!("{data}/journal/0")], &[]);
        assert!(said.contains("cleared"), "{said}");
        for (path, bytes) in tree(&place.data_dir()) {
            assert!(!holds(&bytes, CANARY), "{path}");
        }
    }
}

#[test]
fn keys_are_checked_and_rotated_on_the_command_line() {
    let place = Place::new();
    let (old, new) = ([("SESSIONLOG_KEY", KEY)], [("SESSIONLOG_KEY", OTHER)]);
    let both = [("SESSIONLOG_KEY", OTHER), ("SESSIONLOG_KEY_PREVIOUS", KEY)];
    let checked = |set: &[(&str, &str)]| {
        let (code, said) = run(&place, &["keys", "check", "--json"], set);
        let answer: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        assert!(!said.contains(KEY) && !said.contains(OTHER), "{said}");
        (code.unwrap(), answer)
    };
    let (code, _) = run(&place, &["keys", "check"], &old);
    assert_eq!(code, Some(4), "there is no data directory, and none is made");
    append(&place, &old);
    let (code, first) = checked(&old);
    assert_eq!((code, &first["encrypted"], &first["opens"]), (0, &json!(true), &json!(true)));
    assert_eq!((&first["behind"], &first["given"]), (&json!(0), &json!([first["current"]])));
    kill(place.kill_owner());
    let before = tree(&place.data_dir());
    let (code, without) = checked(&[]);
    assert_eq!((code, &without["opens"], &without["given"]), (1, &json!(false), &json!([])));
    assert_eq!(checked(&new).0, 1);
    let (code, said) = run(&place, &["keys", "check"], &[]);
    assert!(code == Some(1) && said.contains("not given"), "{said}");
    assert_eq!(tree(&place.data_dir()), before, "a look changes nothing");
    let (code, said) = run(&place, &["keys", "rotate", "--json"], &both);
    assert_eq!(code, Some(0), "{said}");
    let done: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&done["previous"], &done["behind"]), (&Value::Null, &json!(0)));
    assert_ne!(done["current"], first["current"]);
    let (code, said) = run(&place, &["keys", "rotate"], &both);
    assert!(code == Some(0) && said.contains("may go"), "{said}");
    kill(place.kill_owner());
    let (code, said) = run(&place, &["events", "trip"], &old);
    assert!(code == Some(1) && said.contains("the keys given are"), "{said}");
    let (code, said) = run(&place, &["events", "trip"], &new);
    assert!(code == Some(0) && said.contains(CANARY), "{said}");
    // Here an owner was started before the key change.
    let third = KEY.replace('0', "a");
    let changed = [("SESSIONLOG_KEY", third.as_str()), ("SESSIONLOG_KEY_PREVIOUS", OTHER)];
    let (code, said) = run(&place, &["keys", "rotate"], &changed);
    assert!(code == Some(1) && said.contains("started with other keys"), "{said}");
    let plain = Place::new();
    append(&plain, &[]);
    let (code, said) = run(&plain, &["keys", "check"], &[]);
    assert!(code == Some(0) && said.contains("is not encrypted"), "{said}");
    let (code, said) = run(&plain, &["keys", "rotate"], &[]);
    assert!(code == Some(1) && said.contains("plaintext"), "{said}");
}

#[test]
fn verify_with_a_receipt_kept_elsewhere_reports_an_older_store() {
    let place = Place::new();
    let key = [("SESSIONLOG_KEY", KEY)];
    let receipt = || {
        let (_, said) = run(&place, &["show", "trip", "--json"], &key);
        let shown: Value = serde_json::from_str(&said).unwrap();
        let receipt = &shown["receipt"];
        format!("{}:{}", receipt["position"], receipt["chain"].as_str().unwrap())
    };
    append(&place, &key);
    let first = receipt();
    kill(place.kill_owner());
    let before = tree(&place.data_dir());
    append(&place, &key);
    let second = receipt();
    let verify = |head: &str| run(&place, &["verify", "trip", "--expect-head", head], &key);
    for head in [&first, &second] {
        let (code, said) = verify(head);
        assert!(code == Some(0) && said.contains("the receipt holds"), "{said}");
    }
    kill(place.kill_owner());
    for (path, _) in tree(&place.data_dir()) {
        fs::remove_file(path).unwrap();
    }
    for (path, bytes) in &before {
        fs::write(path, bytes).unwrap();
    }
    let (code, said) = verify(&first);
    assert!(code == Some(0) && said.contains("the receipt holds"), "{said}");
    let (code, said) = verify(&second);
    assert!(code == Some(3) && said.contains("ends at 1"), "{said}");
    append(&place, &key);
    let (code, said) = run(&place, &["verify", "trip", "--expect-head", &second, "--json"], &key);
    let answer: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &answer["head"]["state"]), (Some(3), &json!("differs")), "{said}");
    for wrong in ["5", "x:y", "1:abc"] {
        let (code, said) = verify(wrong);
        assert!(code == Some(2) && said.contains("POSITION:HASH"), "{said}");
    }
    let (code, said) = run(&place, &["verify", "--expect-head", &second], &key);
    assert_eq!(code, Some(2), "{said}");
}
