//! A store moved by the program: from a data directory to a database and back, in pieces after
//! kills, and refused where it must be. It must not use internals of an engine.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    program::{Place, Ran, Server, eventually, kill, lines},
    servers::{Server as Database, postgres, programs},
};

/// Tenants and users of the store, each with sessions of its own.
const OWNERS: [(&str, &str); 2] = [("acme", "ada"), ("globex", "bob")];
const TRANSCRIPT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts/claude-code.jsonl");
/// Sessions of the first owner that can be read.
const READABLE: [&str; 6] = ["trip", "trip-2", "trip-3", "red", "held", "arch"];

/// A place with a file of tokens, of which each owner has one.
struct Owners {
    place: Place,
    tokens_file: String,
    tokens: Vec<String>,
}

impl Owners {
    fn new() -> Self {
        let place = Place::new();
        let tokens_file = place.path("tokens.json").display().to_string();
        let tokens = OWNERS.map(|(tenant, user)| {
            let scopes = "read,write,delete,admin";
            let made = ["tokens", "create", "--tokens-file", &tokens_file, "--tenant", tenant];
            let more = ["--user", user, "--scopes", scopes, "--json"];
            let made = place.run(&[&made[..], &more].concat()).json();
            made["token"].as_str().unwrap().to_owned()
        });
        Self { place, tokens_file, tokens: tokens.to_vec() }
    }

    /// Serves a store: flags that name it, in the data directory of a place.
    fn serve(&self, place: &Place, store: &[&str]) -> Server {
        place.serve_with(&[store, &["--tokens-file", &self.tokens_file]].concat())
    }

    /// Runs a verb as an owner.
    fn run(&self, server: &Server, owner: usize, verb: &[&str], input: &str) -> Ran {
        let arguments = [&["--url", &server.url], verb].concat();
        let mut command = self.place.command(&arguments);
        command.env("SESSIONLOG_TOKEN", &self.tokens[owner]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that has read enough closes its end.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        crate::program::ran(child)
    }
}

fn message(id: &str, text: &str) -> String {
    format!("{{\"type\":\"user.message\",\"content\":\"{text}\",\"id\":\"{id}\"}}\n")
}

fn batch(name: &str) -> String {
    (0..3).map(|n| message(&format!("{name}-{n}"), &format!("{name} says {n}"))).collect()
}

/// Makes sessions of every kind.
fn fill(owners: &Owners, server: &Server) {
    let run = |verb: &[&str], input: &str| owners.run(server, 0, verb, input).ok();
    for name in ["trip", "red", "era", "del", "held", "arch"] {
        run(&["append", name, "--create"], &batch(name));
    }
    let keyed = ["append", "trip", "--idempotency-key", "key-1"];
    run(&keyed, "{\"type\":\"user.message\",\"content\":\"without an id\"}\n");
    run(&["rename", "trip", "A long way"], "");
    run(&["tag", "trip", "team=travel"], "");
    run(&["checkpoints", "trip", "--create", "--label", "half", "--at", "2"], "");
    run(&["cursors", "trip", "--put", "reader", "--at", "1"], "");
    run(&["fork", "trip", "--at", "2", "--id", "trip-2"], "");
    run(&["append", "trip-2"], &message("own-1", "of the fork"));
    run(&["fork", "trip-2", "--at", "3", "--id", "trip-3"], "");
    run(&["append", "trip-3"], &message("own-2", "of the fork's fork"));
    let keyed = ["append", "red", "--idempotency-key", "key-2"];
    run(&keyed, &message("secret", "canary-4711"));
    run(&["redact", "red", "secret", "--yes"], "");
    run(&["erase", "era", "--yes"], "");
    run(&["delete", "del", "--yes"], "");
    run(&["hold", "held"], "");
    run(&["archive", "arch"], "");
    run(&["memory", "--workspace", "weirs", "--insert", "the heron nests at the weir"], "");
    run(&["import", TRANSCRIPT], "");
    owners.run(server, 1, &["append", "trip", "--create"], &batch("other")).ok();
}

/// What each owner reads of a store: everything that a move must keep.
fn read_all(owners: &Owners, server: &Server) -> Vec<(String, String)> {
    let mut read = Vec::new();
    for owner in 0..OWNERS.len() {
        let run = |verb: &[&str]| owners.run(server, owner, verb, "").ok();
        let listed = run(&["sessions", "--all", "--archived", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let sessions = listed["data"].as_array().unwrap();
        let mut ids: Vec<String> =
            sessions.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        assert!(!ids.is_empty(), "{listed}");
        for id in &ids {
            for verb in [&["events", id][..], &["export", id], &["checkpoints", id, "--json"]] {
                read.push((format!("{owner} {verb:?}"), run(verb)));
            }
            read.push((format!("{owner} cursors {id}"), run(&["cursors", id, "--json"])));
            let mut shown: Value = serde_json::from_str(&run(&["show", id, "--json"])).unwrap();
            for members in ["used_at", "expires_at", "retention"] {
                shown.as_object_mut().unwrap().remove(members);
            }
            read.push((format!("{owner} show {id}"), shown.to_string()));
        }
        read.push((format!("{owner} memory"), run(&["memory", "--workspace", "weirs", "--json"])));
        read.push((format!("{owner} sessions"), ids.join(" ")));
    }
    read
}

fn assert_same(now: &[(String, String)], before: &[(String, String)], place: &str) {
    for (now, before) in now.iter().zip(before) {
        assert_eq!(now, before, "{place}");
    }
    assert_eq!(now.len(), before.len(), "{place}");
}

/// Sends again what was acknowledged before the move: nothing is appended.
fn assert_retries_are_known(owners: &Owners, server: &Server) {
    let run = |verb: &[&str], input: &str| owners.run(server, 0, verb, input);
    let ended = |id: &str| -> u64 {
        let shown: Value = serde_json::from_str(&run(&["show", id, "--json"], "").ok()).unwrap();
        shown["receipt"]["position"].as_u64().unwrap()
    };
    let before = ["trip", "trip-2", "red"].map(ended);
    run(&["append", "trip"], &batch("trip")).ok();
    let sent = "{\"type\":\"user.message\",\"content\":\"without an id\"}\n";
    run(&["append", "trip", "--idempotency-key", "key-1"], sent).ok();
    // An id of its parent, and one that the store minted.
    run(&["append", "trip-2"], &message("trip-1", "trip says 1")).ok();
    let events = lines(&run(&["events", "trip"], "").ok());
    let minted = events.iter().find(|event| event["content"] == "without an id").unwrap();
    let again = json!({"type": "user.message", "content": "without an id", "id": minted["id"]});
    run(&["append", "trip"], &format!("{again}\n")).ok();
    let other = run(&["append", "trip", "--json"], &message("trip-0", "another text"));
    assert_eq!(other.refused(1), "idempotency_conflict");
    assert_eq!(["trip", "trip-2", "red"].map(ended), before);
    run(&["import", TRANSCRIPT], "").ok();
}

fn receipts(owners: &Owners, server: &Server) -> Vec<(String, String)> {
    let receipt = |id: &&str| {
        let shown = owners.run(server, 0, &["show", id, "--json"], "").json();
        let receipt = &shown["receipt"];
        let chain = receipt["chain"].as_str().unwrap();
        ((*id).to_owned(), format!("{}:{chain}", receipt["position"]))
    };
    READABLE.iter().map(receipt).collect()
}

fn assert_receipts_hold(owners: &Owners, server: &Server, receipts: &[(String, String)]) {
    for (id, head) in receipts {
        let verb = ["verify", id, "--expect-head", head];
        let ran = owners.run(server, 0, &verb, "");
        assert_eq!(ran.code, 0, "{id} {head}: {ran:?}");
        assert!(ran.out.contains("the receipt holds"), "{ran:?}");
    }
}

/// Moves a store; returns the result.
fn migrate(place: &Place, from: &str, to: &str, more: &[&str]) -> Ran {
    place.run(&[&["migrate", "--from", from, "--to", to, "--json"], more].concat())
}

#[test]
fn a_store_moved_to_a_database_and_back_is_unchanged() {
    let Some(database) = postgres() else { return };
    let address = database.address("");
    let owners = Owners::new();
    let home = owners.place.data_dir().display().to_string();
    let server = owners.serve(&owners.place, &[]);
    fill(&owners, &server);
    let before = read_all(&owners, &server);
    let heads = receipts(&owners, &server);
    assert_eq!(server.stop(), Some(0));

    let dry = migrate(&owners.place, &home, &address, &["--dry-run"]).json();
    assert_eq!((&dry["was_complete"], &dry["damaged"]), (&json!(false), &json!([])), "{dry}");
    assert!(!owners.place.data_dir().join("MOVED").exists(), "a dry run changes nothing");
    let moved = migrate(&owners.place, &home, &address, &[]).json();
    assert_eq!(moved["sessions"], dry["sessions"], "{moved}");
    assert_eq!(moved["copied"], moved["sessions"], "{moved}");
    // The old place names the new one.
    let refused = owners.place.run(&["serve", "--json"]);
    assert!(refused.out.contains("its store was moved to postgres://"), "{refused:?}");
    assert_eq!(refused.refused(1), "store_read_only");
    let again = migrate(&owners.place, &home, &address, &[]).json();
    assert_eq!((&again["was_complete"], &again["copied"]), (&json!(true), &json!(0)), "{again}");

    let node = Place::new();
    let server = owners.serve(&node, &["--store", &address]);
    assert_same(&read_all(&owners, &server), &before, "in the database");
    assert_receipts_hold(&owners, &server, &heads);
    assert_retries_are_known(&owners, &server);
    let red = || owners.run(&server, 0, &["events", "red"], "").ok();
    let (events, sent) = (red(), "{\"type\":\"user.message\",\"content\":\"canary-4711\"}\n");
    owners.run(&server, 0, &["append", "red", "--idempotency-key", "key-2"], sent);
    assert_eq!(red(), events, "the key of a redacted batch is known");
    owners.run(&server, 0, &["restore", "del"], "").ok();
    assert_eq!(lines(&owners.run(&server, 0, &["events", "del"], "").ok()).len(), 3);
    assert_ne!(owners.run(&server, 0, &["events", "era"], "").code, 0);
    // A fork that is held protects what it reads.
    owners.run(&server, 0, &["hold", "trip-3"], "").ok();
    let refused = owners.run(&server, 0, &["erase", "trip", "--yes", "--json"], "");
    assert_eq!(refused.refused(1), "session_held");
    owners.run(&server, 0, &["hold", "trip-3", "--release"], "").ok();
    owners.run(&server, 0, &["append", "trip"], &message("later", "after the move")).ok();
    assert_eq!(owners.run(&server, 0, &["verify", "--json"], "").json()["damage"], json!([]));
    let before = read_all(&owners, &server);
    let later = receipts(&owners, &server);
    assert_eq!(server.stop(), Some(0));

    let back = owners.place.path("back").display().to_string();
    let moved = migrate(&owners.place, &address, &back, &[]).json();
    assert_eq!(moved["copied"], moved["sessions"], "{moved}");
    let refused = Place::new().run(&["serve", "--json", "--store", &address]);
    assert!(refused.out.contains(&format!("it was moved to {back}")), "{refused:?}");
    assert_eq!(refused.refused(1), "store_read_only");
    let again = migrate(&owners.place, &address, &back, &[]).json();
    assert_eq!(again["was_complete"], json!(true), "{again}");
    let server = owners.serve(&owners.place, &["--data-dir", &back]);
    assert_same(&read_all(&owners, &server), &before, "in the new directory");
    assert_receipts_hold(&owners, &server, &heads);
    assert_receipts_hold(&owners, &server, &later);
    assert_retries_are_known(&owners, &server);
    owners.run(&server, 0, &["append", "trip"], &message("last", "in a directory")).ok();
    assert_eq!(owners.run(&server, 0, &["verify", "--json"], "").json()["damage"], json!([]));
    assert_eq!(server.stop(), Some(0));
    assert_eq!(owners.place.run(&["verify", "--json", "--data-dir", &back]).code, 0);
}

/// Returns the schema of an address.
fn schema_of(address: &str) -> &str {
    address.split("schema=").nth(1).unwrap().split('&').next().unwrap()
}

/// Numbers of a migrated session have gaps, so a lost frame is found by the chains.
#[test]
fn a_missing_frame_of_a_migrated_session_is_reported() {
    let Some(database) = postgres() else { return };
    let place = Place::new();
    for n in 0..3 {
        for session in ["s", "between"] {
            place.run_with(&["append", session, "--create"], &message(&format!("e{n}"), "x")).ok();
        }
        place.run(&["rename", "s", &format!("title {n}")]).ok();
    }
    place.kill_owner();
    let address = database.address("");
    let home = place.data_dir().display().to_string();
    migrate(&place, &home, &address, &[]).json();
    let schema = schema_of(&address);
    let reader = Place::new();
    let verify = || reader.run(&["--store", &address, "verify", "--json"]);
    let frames = format!(
        "SELECT f.session, f.number, f.events FROM {schema}.frame f JOIN
        {schema}.session s ON s.uid = f.session WHERE s.tail = 3 ORDER BY 1, 2"
    );
    let listed = database.run(&frames);
    let frames: Vec<Vec<&str>> = listed.lines().map(|line| line.split('|').collect()).collect();
    let numbers: Vec<u64> = frames.iter().map(|frame| frame[1].parse().unwrap()).collect();
    assert!(numbers.windows(2).any(|two| two[1] > two[0] + 2), "there are gaps: {numbers:?}");
    assert!(frames.iter().filter(|frame| frame[2] == "0").count() >= 3, "{frames:?}");
    assert_eq!(verify().json()["damage"], json!([]));
    for frame in &frames {
        let at = format!("session = '{}' AND number = {}", frame[0], frame[1]);
        database.run(&format!(
            "CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.frame WHERE {at};
             DELETE FROM {schema}.frame WHERE {at}"
        ));
        let found = verify();
        assert_eq!(found.code, 3, "{frame:?}: {found:?}");
        database.run(&format!(
            "INSERT INTO {schema}.frame SELECT * FROM {schema}.kept; DROP TABLE {schema}.kept"
        ));
    }
    assert_eq!(verify().json()["damage"], json!([]));
}

/// Fills a directory with many small sessions and a long one.
fn fill_many(place: &Place) {
    let mut text = String::new();
    for n in 0..700 {
        let messages = json!([{"role": "user", "content": format!("question {n}")}]);
        text.push_str(&format!("{}\n", json!({"id": format!("c{n:03}"), "messages": messages})));
    }
    place.write("chats.jsonl", &text);
    place.run(&["import", "chats.jsonl"]).ok();
    let body = "x".repeat(60_000);
    let long: String = (0..250).map(|n| message(&format!("l{n}"), &body)).collect();
    place.run_with(&["append", "long", "--create"], &long).ok();
}

/// Starts a migration and kills it once `is_there` returns true.
fn kill_when(place: &Place, from: &str, to: &str, mut is_there: impl FnMut() -> bool) {
    let arguments = ["migrate", "--from", from, "--to", to];
    let mut child = place.command(&arguments).spawn().unwrap();
    eventually("a part of the copy", || is_there().then_some(()));
    kill(child.id().into());
    assert_eq!(child.wait().unwrap().code(), None, "it was killed within the copy");
}

/// Lets statements that copy frames wait before they commit, after some that do not.
struct Barrier<'a> {
    database: &'a Database,
    schema: String,
    /// A session of the database that holds a lock; it ends with its standard input.
    holder: Child,
}

impl<'a> Barrier<'a> {
    fn new(database: &'a Database, schema: &str) -> Self {
        let mut holder = Command::new(programs().unwrap().join("psql"))
            .args(["-X", "-A", "-t", "-q", "-U", "sl", "-d", "postgres", "-h"])
            .arg(database.socket_directory())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lock = b"SELECT pg_advisory_lock(4711, 1), 'held';\n";
        holder.stdin.as_mut().unwrap().write_all(lock).unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("held"), "{line}");
        Self { database, schema: schema.to_owned(), holder }
    }

    /// Sets the number of statements that do not wait.
    fn let_pass(&self, statements: u64) {
        let schema = &self.schema;
        self.database.run(&format!(
            "CREATE SEQUENCE IF NOT EXISTS {schema}.passed;
             ALTER SEQUENCE {schema}.passed RESTART;
             CREATE OR REPLACE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
               IF nextval('{schema}.passed') > {statements} THEN
                 PERFORM pg_advisory_xact_lock(4711, 1);
               END IF;
               RETURN NULL;
             END $$;
             DROP TRIGGER IF EXISTS waits ON {schema}.frame;
             CREATE TRIGGER waits AFTER INSERT ON {schema}.frame
               FOR EACH STATEMENT EXECUTE FUNCTION {schema}.wait()"
        ));
    }

    /// Returns true if a statement waits.
    fn is_reached(&self) -> bool {
        let waiting =
            "FROM pg_locks WHERE classid = 4711 AND locktype = 'advisory' AND NOT granted";
        self.database.run(&format!("SELECT count(*) {waiting}")) != "0"
    }

    /// Ends the statement that waits, of a process that was killed.
    fn end_waiting(&self) {
        let waiting =
            "FROM pg_locks WHERE classid = 4711 AND locktype = 'advisory' AND NOT granted";
        self.database.run(&format!("SELECT pg_terminate_backend(pid) {waiting}"));
        eventually("the end of the statement", || (!self.is_reached()).then_some(()));
    }
}

impl Drop for Barrier<'_> {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn read_events(place: &Place, store: &[&str]) -> Vec<String> {
    ["c000", "c350", "c699", "long"]
        .map(|id| place.run(&[store, &["events", id]].concat()).ok())
        .to_vec()
}

fn count_files(directory: &Path) -> u64 {
    let mut open: Vec<PathBuf> = vec![directory.to_owned()];
    let mut count = 0;
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => open.push(entry.path()),
                false => count += 1,
            }
        }
    }
    count
}

#[test]
fn a_migration_killed_again_and_again_is_finished_by_the_next_run() {
    let Some(database) = postgres() else { return };
    let place = Place::new();
    fill_many(&place);
    let before = read_events(&place, &[]);
    // An owner that was killed leaves uses to be counted anew at each start.
    assert_eq!(place.serve().stop(), Some(0));
    let (address, home) = (database.address(""), place.data_dir().display().to_string());
    // An empty store can be moved, too, and leaves its schema empty.
    let empty = Place::new();
    assert_eq!(empty.serve().stop(), Some(0));
    let nothing = empty.data_dir().display().to_string();
    assert_eq!(migrate(&empty, &nothing, &address, &[]).json()["sessions"], json!(0));
    let barrier = Barrier::new(database, schema_of(&address));
    for statements in [0, 1, 1] {
        barrier.let_pass(statements);
        kill_when(&place, &home, &address, || barrier.is_reached());
        barrier.end_waiting();
    }
    barrier.let_pass(u64::from(u32::MAX));
    drop(barrier);
    let reader = Place::new();
    let refused = reader.run(&["serve", "--json", "--store", &address]);
    assert!(refused.out.contains("being copied into it"), "{refused:?}");
    let mut left = migrate(&place, &home, &address, &["--keep"]).json();
    assert!(left["copied"].as_u64() < left["sessions"].as_u64(), "{left}");
    let store = ["--store", address.as_str()];
    assert_eq!(read_events(&reader, &store), before);
    assert_eq!(reader.run(&[&store[..], &["verify"]].concat()).code, 0);
    // The source was kept, so it can be copied to a directory as well.
    let copy = place.path("copy");
    let to = copy.display().to_string();
    for files in [3, 150, 400] {
        kill_when(&place, &home, &to, || count_files(&copy.join("segments")) >= files);
    }
    let refused = place.run(&["--data-dir", &to, "serve", "--json"]);
    assert!(refused.out.contains("being copied into it"), "{refused:?}");
    left = migrate(&place, &home, &to, &[]).json();
    assert_eq!(left["damaged"], json!([]), "{left}");
    assert_eq!(read_events(&place, &["--data-dir", &to]), before);
    assert_eq!(place.run(&["--data-dir", &to, "verify"]).code, 0);
}

#[test]
fn a_place_that_is_in_use_or_not_empty_is_refused_by_name() {
    let Some(database) = postgres() else { return };
    let (place, other) = (Place::new(), Place::new());
    let addresses = [database.address(""), database.address("")];
    let [one, two] = addresses.each_ref().map(String::as_str);
    for (place, store) in [(&place, None), (&other, Some(one))] {
        let flags = store.map_or(Vec::new(), |store| vec!["--store", store]);
        let arguments = [&flags[..], &["append", "s", "--create"]].concat();
        place.run_with(&arguments, &message("e", "text")).ok();
    }
    let node = other.serve_with(&["--store", one]);
    let home = place.data_dir().display().to_string();
    let files = place.path("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("notes.txt"), "mine").unwrap();
    let files = files.display().to_string();
    for (from, to, more, code, part) in [
        // The node on demand of this machine ends by itself; that of another place is named.
        (one, two, &[][..], "owner_unavailable", "1 node(s) reported"),
        (&home, one, &[], "invalid_request", "sessions of another store"),
        (&home, &files, &[], "store_read_only", "there are other files in it"),
        (&home, &home, &[], "invalid_request", "the same place"),
        ("postgres://a:secret@h/d", &home, &[], "invalid_request", "SESSIONLOG_STORE_PASSWORD"),
        (&files, two, &[], "invalid_request", "no store"),
    ] {
        let ran = migrate(&place, from, to, more);
        assert!(ran.out.contains(part), "{from} {to}: {ran:?}");
        assert!(!ran.out.contains("secret"), "{ran:?}");
        let found = ran.code;
        assert_eq!(ran.refused(found), code, "{from} {to}");
    }
    assert!(!place.data_dir().join("MOVED").exists(), "the source stays as it was");
    assert_eq!(place.events("s").len(), 1);
    assert_eq!(node.stop(), Some(0));
    migrate(&place, one, two, &[]).json();
    // A finished copy is not written over.
    let more = migrate(&place, &home, two, &[]);
    assert_eq!(more.refused(1), "invalid_request");
}

#[test]
fn damaged_sessions_are_listed_and_left_out_only_on_request() {
    let place = Place::new();
    for name in ["good", "hurt"] {
        let text = format!("needle {name}");
        place.run_with(&["append", name, "--create"], &message("e", &text)).ok();
    }
    place.run(&["fork", "hurt", "--at", "1", "--id", "fork"]).ok();
    place.kill_owner();
    assert_eq!(place.serve().stop(), Some(0));
    let segments = place.data_dir().join("segments");
    assert!(flip_in_files(&segments, "needle hurt"), "an uncompressed segment has the text");
    let (home, copy) =
        (place.data_dir().display().to_string(), place.path("copy").display().to_string());
    for more in [&["--dry-run"][..], &[]] {
        let refused = migrate(&place, &home, &copy, more);
        for part in ["default/local hurt", "default/local fork: it continues session hurt"] {
            assert!(refused.out.contains(part), "{refused:?}");
        }
        assert!(!refused.out.contains("good"), "{refused:?}");
        assert_eq!(refused.refused(3), "session_damaged");
    }
    assert_eq!(place.events("good").len(), 1, "the source is not moved");
    let left = migrate(&place, &home, &copy, &["--allow-damaged"]);
    assert_eq!(left.code, 3, "{left:?}");
    let listed: Value = serde_json::from_str(&left.out).unwrap();
    let names = listed["damaged"].as_array().unwrap().iter().map(|one| &one["session"]);
    assert_eq!(names.collect::<Vec<_>>(), [&json!("hurt"), &json!("fork")]);
    let copied = place.run(&["--data-dir", &copy, "sessions", "--json"]).json();
    assert_eq!(copied["data"].as_array().unwrap().len(), 1, "{copied}");
    assert_eq!(place.run(&["--data-dir", &copy, "verify"]).code, 0);
}

/// Flips a bit of a text in the files below a directory; returns true if one has it.
fn flip_in_files(directory: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.fold(false, |found, path| {
        if path.is_dir() {
            return flip_in_files(&path, text) || found;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(text.len()).position(|part| part == text.as_bytes());
        if let Some(at) = at {
            bytes[at] ^= 4;
            std::fs::write(&path, bytes).unwrap();
        }
        found || at.is_some()
    })
}

#[test]
fn an_encrypted_store_is_copied_under_its_key_and_in_plaintext_only_when_asked() {
    let Some(database): Option<&Database> = postgres() else { return };
    let place = Place::new();
    let key = [(
        "SESSIONLOG_KEY",
        "9f1c3b7a".repeat(3) + "0d52e86b417fa2c9" + "55e0d4187b3c60f29a8e71c4",
    )];
    let key = key.each_ref().map(|(name, value)| (*name, value.as_str()));
    let canary = "canary-8821";
    place.write("chats.jsonl", &message("e", canary));
    place.run_in(&key, &["import", "chats.jsonl", "--session", "s"]).ok();
    place.run_in(&key, &["import", TRANSCRIPT, "--session", "t"]).ok();
    place.kill_owner();
    let (home, copy) = (place.data_dir(), place.path("copy"));
    let (home, to) = (home.display().to_string(), copy.display().to_string());
    let arguments = ["migrate", "--from", &home, "--to", &to, "--keep", "--json"];
    place.run_in(&key, &arguments).json();
    assert!(!flip_in_files(&copy, canary), "no file of the copy has the text");
    let read = place.run_in(&key, &["--data-dir", &to, "events", "s"]).ok();
    assert!(read.contains(canary), "{read}");
    assert_eq!(place.run_in(&key, &["--data-dir", &to, "verify"]).code, 0);
    let address = database.address("");
    place.run_in(&key, &["migrate", "--from", &home, "--to", &address, "--json"]).json();
    let schema = schema_of(&address);
    let tables = ["session", "frame", "name", "key"].map(|table| {
        format!("SELECT coalesce(string_agg(t::text, ''), '') FROM {schema}.{table} t")
    });
    let stored = tables.map(|query| database.run(&query)).concat();
    let hex: String = canary.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(stored.len() > 500 && !stored.contains(&hex) && !stored.contains(canary), "{stored}");
    let node = Place::new();
    let read = node.run_in(&key, &["--store", &address, "events", "s"]).ok();
    assert!(read.contains(canary), "{read}");
    assert_eq!(node.run_in(&key, &["--store", &address, "verify"]).code, 0);
    // A retry of the same import is known: the names of content are those of the directory.
    let imported = || node.run_in(&key, &["--store", &address, "events", "t"]).ok();
    let before = imported();
    node.run_in(&key, &["--store", &address, "import", TRANSCRIPT, "--session", "t"]).ok();
    assert_eq!(imported(), before);
    let wrong = [("SESSIONLOG_KEY", "5a0e93c1".repeat(8))];
    let wrong = wrong.each_ref().map(|(name, value)| (*name, value.as_str()));
    // A node that leaves is not waited for.
    let file = node.write("key", key[0].1);
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let flags = ["--store", &address, "--key-file", file.to_str().unwrap()];
    assert_eq!(node.serve_with(&flags).stop(), Some(0));
    let back = node.path("back").display().to_string();
    let arguments = ["migrate", "--from", &address, "--to", &back, "--decrypt", "--json"];
    for keys in [&[][..], &wrong] {
        let refused = node.run_in(keys, &arguments);
        assert!(refused.out.contains("encrypted under the key"), "{refused:?}");
    }
    node.run_in(&key, &arguments).json();
    let read = node.run(&["--data-dir", &back, "events", "s"]).ok();
    assert!(read.contains(canary), "{read}");
}
