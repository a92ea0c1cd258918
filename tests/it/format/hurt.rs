//! The fixture `damaged`: a bit flipped in a sealed segment, one in an open segment, and an
//! accepted loss, each in a separate session next to an intact one. Later builds must return the
//! same of each. It must not change a directory under version control.

use std::{fs, path::Path};

use serde_json::{Value, json};
use sessionlog::{
    event::SessionKey,
    store::{Maintain, Store, StoreError, local::LocalStore},
};

use super::{copy, decoded, expected, files, fixture, open_anew, varied};
use crate::{
    engines::{append, batch, create, event, everything, key, whole_of},
    say::skipped,
};

/// Name of each session, true if a loss of it was accepted, and true if it accepts events.
const SESSIONS: [(&str, bool, bool); 4] = [
    ("active", false, false),
    ("given-up", true, true),
    ("sealed", false, false),
    ("whole", false, true),
];

/// Returns the segments of a session in the catalogue's order, and the suffixes of their names.
fn segments(directory: &Path, before: &[String], end: &str) -> Vec<String> {
    let all = files(&directory.join("segments"));
    let names = all.iter().map(|(path, _)| path.to_str().unwrap().to_owned());
    names.filter(|path| path.ends_with(end) && !before.contains(path)).collect()
}

fn flip(path: &str, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Creates the fixture's data directory.
async fn create_damaged_fixture(directory: &Path) {
    let mut known = Vec::new();
    let mut flips = Vec::new();
    for (start, (name, ..)) in (1..).zip(SESSIONS) {
        let store = open_anew("plain", directory, start);
        create(&store, name).await;
        let (count, text) = match name {
            // Smaller than a block of the file system: a stop leaves it open.
            "active" => (5, "short".to_owned()),
            _ => (60, "lorem ipsum ".repeat(40)),
        };
        for n in 0..count {
            append(&store, &key(name), batch([varied(n, &text)])).await.unwrap();
            if n % 15 == 14 {
                store.flush().unwrap();
            }
        }
        store.close().await;
        let end = if name == "active" { ".seg" } else { ".sealed" };
        let own = segments(directory, &known, end);
        match name {
            // The payload of a frame in the middle, and that of a block.
            "active" => flips.push((own[0].clone(), 192 + 2 * 320 + 200)),
            "sealed" | "given-up" => flips.push((own[0].clone(), 192 + 192 + 300)),
            _ => {}
        }
        known.extend(segments(directory, &known, ""));
        if name == "given-up" {
            let (path, at) = flips.pop().unwrap();
            flip(&path, at);
            let store = open_anew("plain", directory, 10 + start);
            let lost = store.repair(&key(name), true).await.unwrap();
            assert!(lost.accepted);
            append(&store, &key(name), batch([varied(60, "behind"), event("{}")])).await.unwrap();
            store.close().await;
            known.extend(segments(directory, &known, ""));
        }
    }
    flips.iter().for_each(|(path, at)| flip(path, *at));
}

/// Returns a session as a store describes it: its intact events, and its gaps.
async fn describe_session(store: &dyn Store, key: &SessionKey) -> Value {
    let events = whole_of(store, key).await.into_iter().map(|event| {
        json!({
            "position": event.position.0, "id": event.id.as_str(),
            "body": String::from_utf8(event.body.to_vec()).unwrap(),
        })
    });
    let events = events.collect::<Vec<_>>();
    let info = store.info(key).await.unwrap();
    let gaps = info.damage.iter().map(|gap| {
        json!({
            "from": gap.range.from.0, "to": gap.range.to.0,
            "accepted_at": gap.accepted_at.map(|time| time.0),
        })
    });
    let chain: String = info.receipt.chain.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "id": key.session.as_str(), "tail": info.tail.0, "chain": chain,
        "gaps": gaps.collect::<Vec<_>>(), "events": events,
    })
}

async fn describe_all(store: &LocalStore) -> Value {
    let mut all = Vec::new();
    for (name, ..) in SESSIONS {
        all.push(describe_session(store, &key(name)).await);
    }
    Value::Array(all)
}

#[tokio::test]
async fn an_old_damaged_directory_returns_intact_events_and_reports_the_gaps() {
    let home = tempfile::tempdir().unwrap();
    if std::env::var_os("UPDATE").is_some() && !fixture("damaged").exists() {
        let new = home.path().join("new");
        create_damaged_fixture(&new).await;
        copy(&new, &fixture("damaged").join("data"));
        let store = open_anew("plain", &new, 20);
        let text = serde_json::to_string_pretty(&describe_all(&store).await).unwrap();
        fs::write(fixture("damaged").join("expected.json"), text + "\n").unwrap();
    }
    let expected = expected("damaged");
    let data = home.path().join("data");
    copy(&fixture("damaged").join("data"), &data);
    for start in 0..2 {
        let store = open_anew("plain", &data, 30 + start);
        assert_eq!(store.recovery().damage, Vec::<String>::new(), "nothing of the journal is lost");
        for ((name, given_up, takes), expected) in SESSIONS.iter().zip(expected.as_array().unwrap())
        {
            let told = format!("{name}, start {start}");
            assert_eq!(describe_session(&store, &key(name)).await, *expected, "{told}");
            // Each gap is between served events, and no position is missing outside a gap.
            let gaps = expected["gaps"].as_array().unwrap();
            assert_eq!(gaps.len(), usize::from(*name != "whole"), "{told}");
            let lost = |gap: &Value| gap["to"].as_u64().unwrap() - gap["from"].as_u64().unwrap();
            let served = expected["events"].as_array().unwrap().len() as u64;
            let lost: u64 = gaps.iter().map(lost).sum();
            assert_eq!(expected["tail"].as_u64().unwrap(), served + lost, "{told}");
            let read = store.read(&key(name), everything()).await;
            match read {
                Ok(slice) => {
                    assert!(*takes, "{told}");
                    let accepted = slice.gaps.iter().all(|gap| gap.accepted_at.is_some());
                    assert_eq!((accepted, slice.gaps.is_empty()), (true, !given_up), "{told}");
                }
                Err(StoreError::SessionDamaged { gaps, .. }) => {
                    assert!(!takes && !gaps.is_empty(), "{told}");
                }
                Err(other) => panic!("{told}: {other}"),
            }
            if !takes {
                let refused = append(&store, &key(name), batch([event("{}")])).await;
                assert!(matches!(refused, Err(StoreError::SessionDamaged { .. })), "{told}");
            }
        }
        let verified = store.verify(&key("whole").scope, None).await.unwrap();
        assert_eq!((verified.damage.len(), verified.accepted.len()), (2, 1), "start {start}");
        store.close().await;
    }
    let store = open_anew("plain", &data, 40);
    for (name, _, takes) in SESSIONS {
        let answer = append(&store, &key(name), batch([event("{}")])).await;
        assert_eq!(answer.is_ok(), takes, "{name}");
    }
}

#[test]
fn a_decoder_written_from_the_document_reports_the_same_gaps() {
    let Some(document) = decoded(&fixture("damaged").join("data")) else { return };
    let problems = document["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "one a degraded session: {problems:?}");
    let expected = expected("damaged");
    let found = document["sessions"].as_array().unwrap();
    assert_eq!(found.len(), SESSIONS.len());
    for (found, expected) in found.iter().zip(expected.as_array().unwrap()) {
        for name in ["id", "tail", "chain", "gaps"] {
            assert_eq!(found[name], expected[name], "{name} of {}", expected["id"]);
        }
        if found["frames_skipped"] != json!(0) {
            skipped("the events of compressed blocks: there is no zstd for the decoder");
            continue;
        }
        let bodies = |session: &Value| {
            let events = session["events"].as_array().unwrap().iter();
            events.map(|event| (event["position"].clone(), event["body"].clone())).collect()
        };
        let (found, wanted): (Vec<_>, Vec<_>) = (bodies(found), bodies(expected));
        assert_eq!(found, wanted, "{}", expected["id"]);
    }
}
