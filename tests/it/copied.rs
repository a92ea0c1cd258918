//! Backups through the real program: made of an owner in use, by command line and by HTTP, restored
//! elsewhere, and rejected where they must be. The content of a backup is tested with the engine
//! (`backup`). It must not open store files except to change them.

use serde_json::{Value, json};

use crate::{
    program::{Place, lines},
    say,
};

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const EVENTS: usize = 40;

/// Runs the program with a key, if one is given, and another data directory.
fn run(place: &Place, key: Option<&str>, data: &str, arguments: &[&str]) -> crate::program::Ran {
    let mut command = place.command(arguments);
    command.env("SESSIONLOG_DATA_DIR", place.path(data));
    command.envs(key.map(|key| ("SESSIONLOG_KEY", key)));
    crate::program::ran(command.spawn().unwrap())
}

fn fill_session(place: &Place, key: Option<&str>, session: &str) {
    let text: String =
        (0..EVENTS).map(|n| json!({"type": "user.message", "n": n}).to_string() + "\n").collect();
    let mut command = place.command(&["append", "--create", session]);
    command.envs(key.map(|key| ("SESSIONLOG_KEY", key)));
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    crate::program::ran(child).ok();
}

/// Stops the owner of a data directory other than the place's.
fn stop_owner(place: &Place, data: &str) {
    let socket = place.path(data).join("owner.sock");
    let _ = std::fs::remove_file(socket);
}

#[test]
fn a_store_in_use_is_backed_up_and_restored_by_the_program() {
    for key in [None, Some(KEY)] {
        let place = Place::new();
        fill_session(&place, key, "trip");
        let before = run(&place, key, "data", &["events", "trip"]).ok();
        let made = std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| (0..3).for_each(|n| fill_session(&place, key, &format!("w{n}"))));
            let to = place.path("copy").display().to_string();
            let made = run(&place, key, "data", &["backup", "create", &to, "--json"]).json();
            writer.join().unwrap();
            made
        });
        assert_eq!(made["verified"]["damage"], json!([]), "{made}");
        assert!(made["verified"]["events"].as_u64().unwrap() >= EVENTS as u64, "{made}");
        assert_eq!(made["key"].is_string(), key.is_some(), "{made}");
        let from = place.path("copy").display().to_string();
        let told = run(&place, key, "back", &["backup", "restore", &from, "--json"]).json();
        assert_eq!(told["verified"]["damage"], json!([]), "{told}");
        assert_eq!(run(&place, key, "back", &["events", "trip"]).ok(), before);
        let verified = run(&place, key, "back", &["verify", "--json"]).json();
        assert_eq!(verified["damage"], json!([]), "{verified}");
        stop_owner(&place, "back");
        check_refusals(&place, key, &from);
    }
}

#[test]
fn an_interrupted_restore_is_rejected_as_a_store_and_can_be_repeated() {
    let place = Place::new();
    fill_session(&place, None, "trip");
    let before = place.run(&["events", "trip"]).ok();
    let from = place.path("copy").display().to_string();
    place.run(&["backup", "create", &from]).ok();
    // States that a kill may leave: only the mark, one part, and all parts.
    for left in [&[][..], &["settled"], &["settled", "journal"], &["settled", "journal", "STORE"]] {
        let name = format!("back{}", left.len());
        let back = place.path(&name);
        for path in left {
            copy(&place.path("copy").join("data").join(path), &back.join(path));
        }
        std::fs::create_dir_all(&back).unwrap();
        std::fs::write(back.join("RESTORING"), "").unwrap();
        for verb in [&["sessions"][..], &["append", "new", "--create"], &["serve"]] {
            let refused = run(&place, None, &name, &[verb, &["--json"]].concat());
            assert!(refused.out.contains("interrupted"), "{verb:?}: {refused:?}");
            assert_eq!(refused.refused(1), "invalid_request");
        }
        let told = run(&place, None, &name, &["backup", "restore", &from, "--json"]).json();
        assert_eq!((&told["repeated"], &told["verified"]["damage"]), (&json!(true), &json!([])));
        assert_eq!(run(&place, None, &name, &["events", "trip"]).ok(), before);
        stop_owner(&place, &name);
        let over = run(&place, None, &name, &["backup", "restore", &from, "--json"]);
        assert_eq!(over.refused(1), "invalid_request");
    }
    // Files of other programs are not removed, even next to the mark.
    let other = place.path("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("RESTORING"), "").unwrap();
    std::fs::write(other.join("notes.txt"), "mine").unwrap();
    let refused = run(&place, None, "other", &["backup", "restore", &from, "--json"]);
    assert_eq!(refused.refused(1), "invalid_request");
    assert_eq!(std::fs::read_to_string(other.join("notes.txt")).unwrap(), "mine");
}

/// Copies a file, or a directory of files.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    if from.is_file() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

#[test]
fn a_backup_into_the_data_directory_is_rejected_for_every_spelling_of_the_path() {
    let place = Place::new();
    fill_session(&place, None, "trip");
    std::os::unix::fs::symlink(place.data_dir(), place.path("link")).unwrap();
    for inside in ["data/copy", "data/segments/a/b", "data/../data/copy", "link/copy", "data"] {
        let refused = place.run(&["backup", "create", inside, "--json"]);
        assert!(refused.out.contains("inside the data directory"), "{inside}: {refused:?}");
        assert_eq!(refused.refused(1), "invalid_request");
    }
    assert!(!place.data_dir().join("copy").exists());
    place.run(&["backup", "create", "data-copy", "--json"]).json();
}

fn check_refusals(place: &Place, key: Option<&str>, from: &str) {
    // Nothing is overwritten, in either direction.
    let again = run(place, key, "data", &["backup", "create", from, "--json"]);
    assert_eq!(again.refused(1), "invalid_request");
    let over = run(place, key, "data", &["backup", "restore", from, "--json"]);
    assert_eq!(over.refused(1), "invalid_request");
    let none = place.path("none").display().to_string();
    let absent = run(place, key, "new", &["backup", "restore", &none, "--json"]);
    assert_eq!(absent.refused(4), "invalid_request");
    if key.is_some() {
        for other in [None, Some(KEY.replace("00", "a5"))] {
            let refused =
                run(place, other.as_deref(), "new", &["backup", "restore", from, "--json"]);
            assert!(refused.out.contains("key"), "it says what it needs: {}", refused.out);
            assert_eq!(refused.refused(1), "forbidden");
        }
    }
    // A backup is not a data directory.
    let opened = run(place, key, "copy", &["sessions", "--json"]);
    assert!(opened.code == 1 && opened.out.contains("backup restore"), "{}", opened.out);
    // A changed, then a truncated backup.
    let store = place.path("copy").join("data/settled/0");
    let mut bytes = std::fs::read(&store).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    std::fs::write(&store, bytes).unwrap();
    let damaged = run(place, key, "new", &["backup", "restore", from, "--json"]);
    assert_eq!(damaged.refused(3), "session_damaged");
    let manifest = place.path("copy").join("BACKUP");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    let cut = run(place, key, "new", &["backup", "restore", from]);
    assert!(cut.code == 1 && cut.err.contains("incomplete"), "{}", cut.err);
    let left = std::fs::read_dir(place.path("new")).unwrap().count();
    assert_eq!(left, 0, "nothing was written");
}

#[test]
fn a_server_allows_backups_to_operators_only() {
    let place = Place::new();
    let tokens = place.path("tokens.json").display().to_string();
    let token = |scopes: &str| {
        let made = ["tokens", "create", "--tokens-file", &tokens, "--user", "ada", "--json"];
        let made = place.run(&[&made[..], &["--scopes", scopes]].concat()).json();
        made["token"].as_str().unwrap().to_owned()
    };
    let (operator, admin) = (token("operator,read,write"), token("admin"));
    let served = place.serve_with(&["--tokens-file", &tokens]);
    let with = |token: &str, arguments: &[&str]| {
        let mut command = place.command(&[arguments, &["--url", &served.url]].concat());
        command.env("SESSIONLOG_TOKEN", token);
        crate::program::ran(command.spawn().unwrap())
    };
    let line = json!({"type": "user.message"}).to_string();
    let mut command = place.command(&["append", "--create", "s", "--url", &served.url]);
    command.env("SESSIONLOG_TOKEN", &operator).stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), line.as_bytes()).unwrap();
    crate::program::ran(child).ok();
    let to = place.path("copy").display().to_string();
    assert_eq!(with(&admin, &["backup", "create", &to, "--json"]).refused(1), "forbidden");
    assert!(!place.path("copy").exists(), "nothing came into being");
    let made = with(&operator, &["backup", "create", &to, "--json"]).json();
    // The audit log of the tenant is a session, too.
    assert!(made["sessions"].as_u64().unwrap() >= 1, "{made}");
    let client = say::http_client().build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let last = runtime.block_on(async {
        let url = format!("{}/v1/admin/backup", served.url);
        let answer = client.post(url).bearer_auth(&operator).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/vnd.sessionlog.backup");
        let bytes = answer.bytes().await.unwrap();
        let at = bytes.iter().rposition(|byte| *byte == b'{').unwrap();
        let from = bytes[..at].iter().rposition(|byte| *byte == b'{').unwrap_or(at);
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    });
    let last = lines(last.trim()).pop().unwrap_or(Value::Null);
    assert!(last["complete"]["store"].is_string(), "{last}");
    served.stop();
}
