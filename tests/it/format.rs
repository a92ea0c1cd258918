//! The bytes of a data directory: directories of earlier builds open and return the same events,
//! and a decoder written from docs/format.md and not from the engine's code reads old and new ones
//! and agrees with the store. The layouts are in `layouts`. It must not change a directory under
//! version control: `UPDATE=1` creates missing ones.

mod backup;
mod ciphered;
mod erased;
mod forged;
mod forked;
mod gone;
mod hurt;
mod layouts;
mod lineage;
mod lived;
mod sealed;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    env::{Env, MasterKeys, disk::DataDir, secrets::Secret},
    event::{BatchKey, EventType, NewEvent, Origin, Scope, SessionKey, Timestamp},
    store::{
        Maintain, NewSession, SessionUpdate, Store, StoreError,
        local::{LocalStore, OpenError},
    },
};
use sessionlog_sim::{Fault, ManualClock, Op, SeededEntropy, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, key, machine, named, other_scope, small},
    say::{read, skipped},
};

const ORIGINS: [(Origin, &str); 6] = [
    (Origin::User, "user"),
    (Origin::Model, "model"),
    (Origin::Tool, "tool"),
    (Origin::Web, "web"),
    (Origin::Harness, "harness"),
    (Origin::Import, "import"),
];

/// State in which an owner leaves its data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Clean,
    /// Frames of the journal are not flushed yet, and a watermark follows them.
    Killed,
    /// The same, followed by a torn write.
    Torn,
}

/// Directories, and the state in which each was left.
const STOPS: [(&str, Stop); 5] = [
    ("plain", Stop::Clean),
    ("killed", Stop::Killed),
    ("torn", Stop::Torn),
    ("encrypted", Stop::Clean),
    ("encrypted-killed", Stop::Killed),
];

/// The master key of the encrypted ones, in the format of a setting.
const KEY: &str = "a1c3e5f708192a3b4c5d6e7f8091a2b3c4d5e6f70819fa0b1c2d3e4f50617283";

/// Returns the keys of a directory: by its name, since another test may have copied it anywhere.
fn keys_of(name: &str) -> Option<Arc<MasterKeys>> {
    let current = Secret::parse(KEY).unwrap();
    name.starts_with("encrypted").then(|| Arc::new(MasterKeys { current, previous: None }))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-v1").join(name)
}

fn expected(name: &str) -> Value {
    serde_json::from_str(&read(&fixture(name).join("expected.json"))).unwrap()
}

fn sessions() -> [SessionKey; 3] {
    [key("open"), key("sealed"), SessionKey { scope: other_scope(), ..key("journal") }]
}

fn open(name: &str, directory: &Path) -> (LocalStore, Arc<ManualClock>) {
    let (env, clock) = machine(Arc::new(DataDir::open(directory).unwrap()));
    (free(&env.with_keys(keys_of(name))), clock)
}

/// Opens a store once its lock is free. A child process that another test just forked holds the
/// lock until it executes its program.
fn free(env: &Env) -> LocalStore {
    let mut tries = (0..10_000).map(|_| {
        std::thread::yield_now();
        LocalStore::open_local(env, small())
    });
    let owned = |opened: &Result<LocalStore, OpenError>| matches!(opened, Err(OpenError::Owned));
    tries.find(|opened| !owned(opened)).expect("it is given up").unwrap()
}

/// Creates a start with unique random bytes, as on a real machine: a repeated salt would make
/// frames of an earlier use valid.
fn open_anew(name: &str, directory: &Path, start: u64) -> LocalStore {
    let (mut env, _) = machine(Arc::new(DataDir::open(directory).unwrap()));
    env.entropy = Arc::new(SeededEntropy::new(100 + start));
    free(&env.with_keys(keys_of(name)))
}

/// Returns the content of all sessions, in the decoder's format.
async fn said(store: &dyn Store) -> Value {
    let mut all = Vec::new();
    for key in sessions() {
        let info = store.info(&key).await.unwrap();
        let chain: String = info.receipt.chain.iter().map(|byte| format!("{byte:02x}")).collect();
        let events = events_of(store, &key).await.into_iter().map(|event| {
            let origin = ORIGINS.iter().find(|(origin, _)| *origin == event.origin).unwrap().1;
            json!({
                "position": event.position.0, "id": event.id.as_str(), "type": event.kind.as_str(),
                "origin": origin, "created_at": event.created_at.map(|time| time.0),
                "processed_at": event.processed_at.0,
                "body": String::from_utf8(event.body.to_vec()).unwrap(),
            })
        });
        all.push(json!({
            "tenant": key.scope.tenant.as_str(), "user": key.scope.user.as_str(),
            "id": key.session.as_str(), "tail": info.tail.0, "chain": chain, "title": info.title,
            "metadata": info.metadata, "workspace": info.workspace,
            "archived_at": info.archived_at.map(|time| time.0),
            "events": events.collect::<Vec<_>>(),
        }));
    }
    Value::Array(all)
}

/// Returns an event that differs from the one before in every field.
fn varied(n: usize, text: &str) -> NewEvent {
    NewEvent {
        kind: EventType::new(["user.message", "agent.tool_use", "x.y"][n % 3]).unwrap(),
        origin: ORIGINS[n % ORIGINS.len()].0,
        created_at: (!n.is_multiple_of(4)).then(|| Timestamp(n as i64 * 1_000_003 - 5_000_000)),
        ..named(&format!("e{n}"), &format!("{{\"n\":{n},\"text\":\"{text} ü→𝄞\"}}"))
    }
}

fn pairs<V>(pairs: impl IntoIterator<Item = (&'static str, V)>) -> BTreeMap<String, V> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Creates a data directory: one session with sealed segments, one with open ones, one that is only
/// in the journal, and one that was deleted. Returns the last content of the store.
async fn fill(name: &str, directory: &Path, stop: Stop) -> Value {
    let (store, clock) = open(name, directory);
    let [open, sealed, journal] = sessions();
    let new = NewSession {
        id: Some(sealed.session.clone()),
        title: Some("A long walk".to_owned()),
        metadata: pairs([("kept", "ünï".to_owned()), ("dropped", "2".to_owned())]),
        workspace: Some("/work/ghent".to_owned()),
        ttl_seconds: Some(0),
        events: batch([event("{\"first\":true}")]),
        key: Some(BatchKey::new("creation").unwrap()),
        ..NewSession::default()
    };
    store.create(&sealed.scope, new).await.unwrap();
    create(&store, "open").await;
    create(&store, "gone").await;
    append(&store, &key("gone"), batch([event("{}")])).await.unwrap();
    let delete = SessionUpdate { discard: true, ..SessionUpdate::default() };
    store.change(&key("gone"), delete).await.unwrap();
    for n in 0..60 {
        clock.advance(Duration::from_millis(1_500));
        let text = "lorem ipsum ".repeat(40);
        let mut sent = batch([varied(n, &text)]);
        sent.key = (n % 20 == 7).then(|| BatchKey::new(&format!("turn-{n}")).unwrap());
        append(&store, &sealed, sent).await.unwrap();
        if n % 10 == 0 {
            append(&store, &open, batch([varied(n, "short"), event("{}")])).await.unwrap();
        }
        if n % 15 == 14 {
            store.flush().unwrap();
        }
    }
    store.flush().unwrap();
    let seals = files(directory)
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|end| end == "sealed"))
        .count();
    assert!(seals > 0, "a session of this length has sealed segments");
    let renamed = SessionUpdate {
        title: Some(Some("Renamed".to_owned())),
        metadata: pairs([("dropped", None), ("new", Some("3".to_owned()))]),
        archive: Some(true),
        ..SessionUpdate::default()
    };
    store.change(&sealed, renamed).await.unwrap();
    let new = NewSession { id: Some(journal.session.clone()), ..NewSession::default() };
    store.create(&journal.scope, new).await.unwrap();
    for n in 0..4 {
        clock.advance(Duration::from_millis(10));
        append(&store, &journal, batch([varied(n, "late"), event("{}")])).await.unwrap();
        append(&store, &open, batch([varied(100 + n, "late")])).await.unwrap();
    }
    store.write_idle_watermark();
    let said = said(&store).await;
    let gone = store.info(&key("gone")).await;
    assert!(matches!(gone, Err(StoreError::SessionDeleted { .. })), "{gone:?}");
    match stop {
        Stop::Clean => store.close().await,
        Stop::Killed => {}
        Stop::Torn => tear(directory, &store).await,
    }
    said
}

/// Appends, then keeps only the first sector of that write.
async fn tear(directory: &Path, store: &LocalStore) {
    let before = files(&directory.join("journal"));
    append(store, &key("open"), batch([event(&"lost ".repeat(200))])).await.unwrap();
    for ((path, old), (_, mut new)) in before.iter().zip(files(&directory.join("journal"))) {
        let Some(first) = old.iter().zip(&new).position(|(old, new)| old != new) else { continue };
        let kept = (first + 1).next_multiple_of(512);
        assert_ne!(old[kept..], new[kept..], "the frame reaches over its first sector");
        new[kept..].copy_from_slice(&old[kept..]);
        fs::write(path, new).unwrap();
        return;
    }
    panic!("the journal took the frame");
}

/// Returns every file below `directory`, in order.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Copies a data directory, without the lock file.
fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let path = path.strip_prefix(from).unwrap();
        if path != Path::new("LOCK") {
            fs::create_dir_all(to.join(path).parent().unwrap()).unwrap();
            fs::write(to.join(path), bytes).unwrap();
        }
    }
}

/// Writes the files of a simulated disk below `directory`.
fn lay_out(sim: &Sim, directory: &Path) {
    for path in sim.files() {
        let to = directory.join(&path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, sim.read_durable(&path).unwrap()).unwrap();
    }
}

/// Returns the versions of both settled files.
fn versions(data: &Path) -> [u32; 2] {
    ["settled/0", "settled/1"].map(|name| {
        let bytes = fs::read(data.join(name)).unwrap();
        u32::from_le_bytes(bytes[8..12].try_into().unwrap())
    })
}

async fn versions_of_a_new_store(name: &str) -> [u32; 2] {
    let home = tempfile::tempdir().unwrap();
    let (store, _) = open(name, home.path());
    store.close().await;
    versions(home.path())
}

#[tokio::test]
async fn old_data_directories_open_and_return_the_same_events() {
    for (name, stop) in STOPS {
        let home = tempfile::tempdir().unwrap();
        if std::env::var_os("UPDATE").is_some() && !fixture(name).exists() {
            let expected = fill(name, &home.path().join("new"), stop).await;
            copy(&home.path().join("new"), &fixture(name).join("data"));
            let text = serde_json::to_string_pretty(&expected).unwrap();
            fs::write(fixture(name).join("expected.json"), text + "\n").unwrap();
        }
        let expected = expected(name);
        let data = home.path().join("data");
        copy(&fixture(name).join("data"), &data);
        let (store, _) = open(name, &data);
        assert_eq!(said(&store).await, expected, "{name}");
        let recovery = store.recovery();
        let found = (recovery.clean, recovery.frames_replayed > 0, recovery.torn_bytes > 0);
        assert_eq!(found, (stop == Stop::Clean, stop != Stop::Clean, stop == Stop::Torn), "{name}");
        assert_eq!(recovery.damage, Vec::<String>::new(), "{name}");
        // It accepts writes, and earlier events keep their positions.
        append(&store, &key("open"), batch([event("{\"new\":1}")])).await.unwrap();
        store.close().await;
        assert_eq!(versions(&data), versions_of_a_new_store(name).await, "{name}: it is upgraded");
        let (store, _) = open(name, &data);
        let mut after = said(&store).await;
        let events = after[0]["events"].as_array_mut().unwrap();
        assert_eq!(events.pop().unwrap()["body"], "{\"new\":1}", "{name}");
        (after[0]["tail"], after[0]["chain"]) =
            (expected[0]["tail"].clone(), expected[0]["chain"].clone());
        assert_eq!(after, expected, "{name}");
        for scope in [Scope::local(), other_scope()] {
            assert_eq!(store.verify(&scope, None).await.unwrap().damage, [], "{name}");
        }
    }
}

/// Returns the output of the decoder for a data directory; without Python `None`, and prints that.
fn decoded(directory: &Path) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decoder/decode.py");
    // -B: it leaves no compiled files next to the sources.
    let mut run = Command::new("python3");
    let run = run.arg("-B").arg(script).arg(directory).env("SESSIONLOG_KEY", KEY);
    let run = run.output();
    let Ok(run) = run else {
        skipped("the independent decoder of docs/format.md: there is no python3");
        return None;
    };
    let text = String::from_utf8_lossy(&run.stderr);
    Some(serde_json::from_slice(&run.stdout).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Returns true if the decoder's sessions, except deleted ones, equal those of the store.
fn agree(document: &Value, expected: &Value) -> bool {
    let (mut whole, mut expected) = (true, expected.as_array().unwrap().clone());
    let all = document["sessions"].as_array().unwrap().iter();
    let here = |name: &str, session: &Value| session[name].is_null();
    let all = all.filter(|one| here("deleted_at", one) && here("expired_at", one));
    let living = all.map(|session| {
        let mut session = session.as_object().unwrap().clone();
        for name in ["deleted_at", "erased_at", "expired_at", "held_at", "used_at", "forked_from"] {
            session.remove(name);
        }
        session.remove("control_records");
        assert_eq!(session.remove("gaps"), Some(json!([])));
        whole &= session.remove("frames_skipped") == Some(json!(0));
        Value::Object(session)
    });
    let mut living: Vec<Value> = living.collect();
    if !whole {
        skipped("the events of compressed blocks: there is no zstd for the decoder");
        for session in living.iter_mut().chain(&mut expected) {
            session["events"] = Value::Null;
        }
    }
    living == expected
}

/// Checks that the decoder returns the same of `directory`.
fn check_decoder(directory: &Path, expected: &Value, told: &str) {
    let Some(document) = decoded(directory) else { return };
    assert_eq!(document["problems"], json!([]), "{told}");
    assert!(agree(&document, expected), "{told}: {document:#}\nis not {expected:#}");
}

#[test]
fn a_decoder_written_from_the_document_reads_old_data_directories() {
    for (name, stop) in STOPS {
        let expected = expected(name);
        check_decoder(&fixture(name).join("data"), &expected, name);
        let Some(document) = decoded(&fixture(name).join("data")) else { return };
        assert_eq!(document["clean"], json!(stop == Stop::Clean), "{name}");
        let notes = document["notes"].as_array().unwrap();
        assert_eq!(notes.len(), usize::from(stop == Stop::Torn), "{name}: {notes:?}");
        let gone = document["sessions"].as_array().unwrap().iter();
        assert_eq!(gone.filter(|session| !session["deleted_at"].is_null()).count(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_decoder_written_from_the_document_reads_a_newly_written_directory() {
    for (name, stop) in STOPS {
        let home = tempfile::tempdir().unwrap();
        let expected = fill(name, home.path(), stop).await;
        check_decoder(home.path(), &expected, name);
        // Another start, after the journal reused its files.
        let (store, _) = open(name, home.path());
        for n in 0..80 {
            append(&store, &key("open"), batch([varied(1_000 + n, &"again ".repeat(80))]))
                .await
                .unwrap();
            if n % 16 == 15 {
                store.flush().unwrap();
            }
        }
        let expected = said(&store).await;
        drop(store);
        check_decoder(home.path(), &expected, &format!("{name}, a second start"));
        // Another session, of many events a request: its sealed segments have several blocks.
        let store = open_anew(name, home.path(), 1);
        for n in 0..8 {
            let events = (0..25).map(|m| varied(2_000 + 25 * n + m, "much"));
            append(&store, &key("open"), batch(events)).await.unwrap();
        }
        let expected = said(&store).await;
        store.close().await;
        let sealed = files(home.path()).into_iter();
        let sealed = sealed.filter(|(path, _)| path.extension().is_some_and(|end| end == "sealed"));
        let versions: BTreeSet<u8> =
            sealed.map(|(_, bytes)| bytes[bytes.len() - 192 + 12]).collect();
        assert_eq!(versions, BTreeSet::from([1, 2]), "{name}");
        check_decoder(home.path(), &expected, &format!("{name}, a third start"));
    }
}

#[tokio::test]
async fn the_decoder_follows_the_journal_past_a_failed_file() {
    for seed in 1..6 {
        let sim = Sim::new(seed);
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        for session in sessions() {
            let new = NewSession { id: Some(session.session.clone()), ..NewSession::default() };
            store.create(&session.scope, new).await.unwrap();
        }
        let mut refused = 0;
        for n in 0..24 {
            if n % 7 == 3 {
                sim.fail_next(Op::Sync, Fault::Spoil, false);
            }
            let sent = batch([varied(n, &"words ".repeat(n * 9))]);
            refused += usize::from(append(&store, &sessions()[n % 3], sent).await.is_err());
        }
        assert_eq!(refused, 3, "every sync that failed was told");
        let expected = said(&store).await;
        sim.kill();
        drop(store);
        let home = tempfile::tempdir().unwrap();
        lay_out(&sim, home.path());
        check_decoder(home.path(), &expected, &format!("seed {seed}"));
    }
}

/// The first write to a journal file was torn: it has no acknowledged frame.
#[test]
fn the_decoder_treats_a_journal_file_with_half_a_header_as_unused() {
    let home = tempfile::tempdir().unwrap();
    copy(&fixture("plain").join("data"), home.path());
    let journal = home.path().join("journal");
    let next = journal.join(fs::read_dir(&journal).unwrap().count().to_string());
    for (copies, used) in [(1, false), (2, true)] {
        let mut torn = vec![0; 32_768];
        (0..copies).for_each(|copy| torn[copy * 4096..][..512].fill(7));
        fs::write(&next, torn).unwrap();
        let Some(document) = decoded(home.path()) else { return };
        assert_eq!(document["problems"] != json!([]), used, "{copies}");
    }
}

#[test]
fn the_decoder_reports_a_changed_byte() {
    let expected = expected("plain");
    let live = |path: &&(PathBuf, Vec<u8>)| {
        let path = path.0.to_str().unwrap();
        path.ends_with("STORE") || path.ends_with(".sealed") || path.contains("settled/")
    };
    let mut told = 0;
    let data = fixture("plain").join("data");
    for (path, bytes) in files(&data).iter().filter(live) {
        let home = tempfile::tempdir().unwrap();
        copy(&data, home.path());
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 0x10;
        fs::write(home.path().join(path.strip_prefix(&data).unwrap()), changed).unwrap();
        let Some(document) = decoded(home.path()) else { return };
        let quiet = document["problems"] == json!([]);
        assert!(!quiet || agree(&document, &expected), "{}", path.display());
        told += usize::from(!quiet);
    }
    assert!(told > 0, "sealed segments are read");
}
