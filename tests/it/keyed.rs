//! An encrypted data directory through the real program: where its key comes from, what is refused
//! without it, and that nothing shows it. It must not look into files but for what is in clear.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::program::{Place, kill};

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

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
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
fn a_key_opens_its_store_and_without_it_no_byte_changes() {
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
fn a_key_comes_from_a_private_file_or_a_command_and_a_store_in_plaintext_takes_none() {
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
fn an_erased_session_is_gone_from_every_file() {
    for set in [vec![], vec![("SESSIONLOG_KEY", KEY)]] {
        let place = Place::new();
        append(&place, &set);
        let (code, said) = run(&place, &["erase", "trip", "--json"], &set);
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
