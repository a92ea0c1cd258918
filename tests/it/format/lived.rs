//! The fixture `lived`: sessions that are held, read long after they were written, expired,
//! restored, deleted and reclaimed, and one whose name was used before, in settled files and in the
//! journal. It must not change a directory under version control: `UPDATE=1` creates it if it is
//! missing.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use sessionlog::{
    event::SessionId,
    store::{NewSession, SessionUpdate, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::ManualClock;

use super::{copy, decoded, expected, files, fixture, open};
use crate::engines::{append, batch, event, events_of, key};

const NAME: &str = "lived";
const NAMES: [&str; 8] =
    ["back", "deleted", "expired", "held", "idle", "late_hold", "named_again", "went"];
const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn create_session(store: &LocalStore, session: &str, ttl_seconds: Option<u64>) {
    let new = NewSession {
        id: Some(SessionId::new(session).unwrap()),
        ttl_seconds,
        events: batch([event("{\"first\":1}"), event("{\"second\":2}")]),
        ..NewSession::default()
    };
    store.create(&key(session).scope, new).await.unwrap();
}

async fn change(store: &LocalStore, session: &str, change: SessionUpdate) {
    store.change(&key(session), change).await.unwrap();
}

/// Advances a day, with the sweeps and flushes that remove sessions.
async fn day(store: &LocalStore, clock: &ManualClock) {
    clock.advance(DAY);
    for _ in 0..2 {
        store.sweep().await.unwrap();
        store.flush().unwrap();
    }
}

/// Creates the directory and returns the last content of the store, without a clean stop.
async fn fill(directory: &Path) -> Value {
    let (store, clock) = open("plain", directory);
    for session in ["went", "named_again"] {
        create_session(&store, session, Some(3_600)).await;
    }
    for _ in 0..9 {
        day(&store, &clock).await;
    }
    create_session(&store, "named_again", Some(0)).await;
    append(&store, &key("named_again"), batch([event("\"anew\"")])).await.unwrap();
    for (session, limit) in [("expired", 3_600), ("back", 3_600), ("held", 60), ("idle", 0)] {
        create_session(&store, session, Some(limit)).await;
    }
    create_session(&store, "late_hold", None).await;
    create_session(&store, "deleted", None).await;
    let hold = || SessionUpdate { hold: Some(true), ..SessionUpdate::default() };
    change(&store, "held", hold()).await;
    change(&store, "deleted", SessionUpdate { discard: true, ..SessionUpdate::default() }).await;
    day(&store, &clock).await;
    clock.advance(Duration::from_millis(3_600_500));
    store.use_session(&key("idle")).await.unwrap();
    (0..2).for_each(|_| store.flush().unwrap());
    // These are in the journal only.
    change(&store, "back", SessionUpdate { restore: true, ..SessionUpdate::default() }).await;
    change(&store, "late_hold", hold()).await;
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
                let bodies = events_of(store, &key(session)).await.into_iter();
                json!({
                    "is": "alive", "held_at": info.held_at.map(|at| at.0),
                    "used_at": info.used_at.0, "tail": info.tail.0,
                    "ttl_seconds": info.ttl_seconds, "chain": chain.collect::<String>(),
                    "bodies": bodies.map(|event| String::from_utf8(event.body.to_vec()).unwrap())
                        .collect::<Vec<_>>(),
                })
            }
            Err(StoreError::SessionExpired { .. }) => json!({ "is": "expired" }),
            Err(StoreError::SessionDeleted { .. }) => json!({ "is": "deleted" }),
            Err(StoreError::SessionNotFound { .. }) => json!({ "is": "unknown" }),
            Err(other) => panic!("{session}: {other}"),
        };
        all.push(json!({ "id": session, "says": one }));
    }
    Value::Array(all)
}

#[tokio::test]
async fn an_old_directory_keeps_held_expired_and_reclaimed_sessions() {
    let home = tempfile::tempdir().unwrap();
    if std::env::var_os("UPDATE").is_some() && !fixture(NAME).exists() {
        let expected = fill(&home.path().join("new")).await;
        copy(&home.path().join("new"), &fixture(NAME).join("data"));
        let text = serde_json::to_string_pretty(&expected).unwrap();
        fs::write(fixture(NAME).join("expected.json"), text + "\n").unwrap();
    }
    let data = fixture(NAME).join("data");
    for (path, bytes) in files(&data.join("settled")) {
        assert_eq!(bytes[8], 4, "{}", path.display());
    }
    copy(&data, &home.path().join("data"));
    let (store, clock) = open("plain", &home.path().join("data"));
    let expected = expected(NAME);
    let found = describe_sessions(&store).await;
    for (found, expected) in found.as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
        let (mut found, mut expected) = (found["says"].clone(), expected["says"].clone());
        let [used, before] = [&mut found, &mut expected].map(|says| says["used_at"].take());
        // A start counts replayed frames as uses at that start.
        assert!(used.as_i64() >= before.as_i64(), "{used} {before}");
        // An entry of a reclaimed session is kept until the next base, and is removed again.
        let again = expected["is"] == "unknown" && found["is"] == "expired";
        assert!(again || found == expected, "{found} {expected}");
    }
    // It works: the expired session is restored, the deleted one is removed, the held one is kept.
    change(&store, "expired", SessionUpdate { restore: true, ..SessionUpdate::default() }).await;
    assert_eq!(events_of(&store, &key("expired")).await.len(), 2);
    for _ in 0..12 {
        day(&store, &clock).await;
    }
    let after = describe_sessions(&store).await;
    let is: Vec<_> =
        after.as_array().unwrap().iter().map(|one| one["says"]["is"].clone()).collect();
    assert_eq!(
        is,
        ["unknown", "unknown", "unknown", "alive", "alive", "alive", "alive", "unknown"]
    );
    assert_eq!(store.verify(&key("held").scope, None).await.unwrap().damage, []);
}

#[test]
fn the_decoder_reads_held_expired_and_reclaimed_sessions() {
    let Some(document) = decoded(&fixture(NAME).join("data")) else { return };
    assert_eq!(document["problems"], json!([]));
    let mut known = Vec::new();
    for one in expected(NAME).as_array().unwrap() {
        let (id, says) = (&one["id"], &one["says"]);
        let of_name = document["sessions"].as_array().unwrap().iter();
        let found: Vec<_> = of_name.filter(|session| session["id"] == *id).collect();
        if says["is"] == "unknown" {
            assert_eq!(found.len(), 0, "{id}");
            continue;
        }
        assert_eq!(found.len(), 1, "{id}");
        let session = found[0];
        let ends = ["expired_at", "deleted_at"].map(|end| !session[end].is_null());
        assert_eq!(ends, ["expired", "deleted"].map(|is| says["is"] == is), "{id}");
        if says["is"] == "alive" {
            for name in ["held_at", "tail", "chain"] {
                assert_eq!(session[name], says[name], "{id}: {name}");
            }
            let bodies = session["events"].as_array().unwrap().iter().map(|e| e["body"].clone());
            assert_eq!(Value::Array(bodies.collect()), says["bodies"], "{id}");
            known.push(id.clone());
        }
        // A frame after the settled entry counts as a use; the others have none.
        if ["held", "idle", "named_again"].iter().any(|name| *id == *name) {
            assert_eq!(session["used_at"], says["used_at"], "{id}");
        }
    }
    assert_eq!(known.len(), 5);
}
