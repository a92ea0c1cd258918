//! The fixtures `forked` and `encrypted-forked`: forks of forks, of a deleted and of an erased
//! parent, notes and a lease, in settled files of version 4 and in the journal. It must not change
//! a directory under version control: `UPDATE=1` creates missing ones.

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use sessionlog::{
    event::{Lsn, NewNote, NoteKind},
    store::{
        LeaseCall, Maintain, NotesQuery, ReadRequest, SessionUpdate, Store, StoreError,
        local::LocalStore,
    },
};

use super::{copy, decoded, expected, fixture, open, varied, versions};
use crate::{
    engines::{append, batch, create, event, everything, key},
    forks::fork,
};

const FIXTURES: [&str; 2] = ["forked", "encrypted-forked"];
const NAMES: [&str; 7] = ["root", "middle", "leaf", "hidden", "of_hidden", "erased", "of_erased"];

async fn append_numbers(store: &LocalStore, session: &str, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let text = "lorem ipsum ".repeat(20);
        append(store, &key(session), batch([varied(n, &text)])).await.unwrap();
    }
}

async fn note(store: &LocalStore, session: &str, kind: NoteKind, name: &str) {
    let body = Bytes::from_static(b"{\"plan\":[\"look\",\"tell\"]}");
    let note =
        NewNote { kind, name: name.to_owned(), position: None, body, idle: false, if_notes: None };
    store.write_note(&key(session), None, note).await.unwrap();
}

/// Creates the directory and returns the last content of the store, without a clean stop.
async fn fill(name: &str, directory: &Path) -> Value {
    let (store, clock) = open(name, directory);
    for root in ["root", "hidden", "erased"] {
        create(&store, root).await;
        append_numbers(&store, root, 0..30).await;
    }
    store.flush().unwrap();
    fork(&store, "root", 17, "middle").await.unwrap();
    append_numbers(&store, "middle", 30..40).await;
    fork(&store, "hidden", 30, "of_hidden").await.unwrap();
    fork(&store, "erased", 5, "of_erased").await.unwrap();
    append_numbers(&store, "of_erased", 40..43).await;
    note(&store, "middle", NoteKind::Checkpoint, "half way").await;
    clock.advance(Duration::from_secs(5));
    let take = LeaseCall::Take { steal: false, ttl: Duration::from_secs(600), key: Some([7; 16]) };
    store.lease(&key("root"), take).await.unwrap();
    let delete = SessionUpdate { discard: true, ..SessionUpdate::default() };
    store.change(&key("hidden"), delete).await.unwrap();
    store.erase(&key("erased")).await.unwrap();
    (0..3).for_each(|_| store.flush().unwrap());
    // These are in the journal only.
    fork(&store, "middle", 20, "leaf").await.unwrap();
    append(&store, &key("leaf"), batch([event("{\"leaf\":1}")])).await.unwrap();
    note(&store, "leaf", NoteKind::Cursor, "reader").await;
    store.write_idle_watermark();
    describe_sessions(&store).await
}

/// Returns the sessions as a store describes them.
async fn describe_sessions(store: &LocalStore) -> Value {
    let mut all = Vec::new();
    for session in NAMES {
        let one = match store.info(&key(session)).await {
            Ok(info) => {
                let chain = info.receipt.chain.iter().map(|byte| format!("{byte:02x}"));
                let read = ReadRequest { allow_gaps: true, ..everything() };
                let slice = store.read(&key(session), read).await.unwrap();
                let wanted = NotesQuery { after: Lsn(0), notes_max: 100, bytes_max: usize::MAX };
                let notes = store.notes(&key(session), wanted).await.unwrap();
                let from = info.forked_from.as_ref();
                json!({
                    "chain": chain.collect::<String>(), "tail": info.tail.0,
                    "forked_from": from.map(|one| (one.session.as_str(), one.at.0)),
                    "bytes": info.bytes, "fence": info.work.fence.0,
                    "until": info.work.until.map(|at| at.0),
                    "ids": slice.events.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
                    "gaps": slice.gaps.iter().map(|gap| gap.range.to_string()).collect::<Vec<_>>(),
                    "notes": notes.iter().map(|one| (&one.name, one.position.0)).collect::<Vec<_>>(),
                })
            }
            Err(StoreError::SessionDeleted { .. }) => json!("deleted"),
            Err(other) => panic!("{session}: {other}"),
        };
        all.push(json!({ "id": session, "says": one }));
    }
    Value::Array(all)
}

#[tokio::test]
async fn an_old_directory_of_forks_notes_and_a_lease_returns_the_same_content() {
    for name in FIXTURES {
        let home = tempfile::tempdir().unwrap();
        if std::env::var_os("UPDATE").is_some() && !fixture(name).exists() {
            let expected = fill(name, &home.path().join("new")).await;
            copy(&home.path().join("new"), &fixture(name).join("data"));
            let text = serde_json::to_string_pretty(&expected).unwrap();
            fs::write(fixture(name).join("expected.json"), text + "\n").unwrap();
        }
        let expected = expected(name);
        let data = home.path().join("data");
        copy(&fixture(name).join("data"), &data);
        assert_eq!(versions(&data), [4, 4], "{name}");
        for start in 0..2 {
            let (store, _) = open(name, &data);
            assert_eq!(describe_sessions(&store).await, expected, "{name}, start {start}");
            assert_eq!(store.recovery().damage, Vec::<String>::new(), "{name}, start {start}");
            let verified = store.verify(&key("root").scope, None).await.unwrap();
            assert_eq!((verified.damage, verified.sessions), (Vec::new(), 6), "{name}");
            store.close().await;
        }
    }
}

#[test]
fn a_decoder_written_from_the_document_reads_forks_notes_and_a_lease() {
    for name in FIXTURES {
        let Some(document) = decoded(&fixture(name).join("data")) else { return };
        assert_eq!(document["problems"], json!([]), "{name}");
        let sessions = document["sessions"].as_array().unwrap();
        for one in expected(name).as_array().unwrap() {
            let says = &one["says"];
            let found = sessions.iter().find(|session| session["id"] == one["id"]).unwrap();
            if says == "deleted" {
                assert!(found["deleted_at"].is_number(), "{name}: {found}");
                continue;
            }
            for member in ["tail", "chain"] {
                assert_eq!(found[member], says[member], "{name}: {}", one["id"]);
            }
            let from = &found["forked_from"];
            let from = from.is_object().then(|| json!([from["session"], from["position"]]));
            assert_eq!(from.unwrap_or_default(), says["forked_from"], "{name}: {}", one["id"]);
        }
    }
}
