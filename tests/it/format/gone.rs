//! The fixtures `redacted` and `encrypted-redacted`: events without a body, one of them in a batch
//! with a key. It must not change a directory under version control: `UPDATE=1` creates missing
//! ones.

use std::fs;

use serde_json::{Value, json};
use sessionlog::{
    event::{BatchKey, EventId, Position},
    store::{NewSession, Store, local::LocalStore},
};

use super::{check_decoder, copy, expected, fixture, open, said, sessions};
use crate::{
    bytes::holds,
    engines::{append, batch, events_of, key, named},
};

const NAMES: [&str; 2] = ["redacted", "encrypted-redacted"];
const CANARY: &str = "canary-4e1d22";

/// Creates three sessions of which two have a redacted event, without a clean stop.
async fn fill(name: &str, directory: &std::path::Path) -> Value {
    let (mut store, _) = open(name, directory);
    for session in sessions() {
        let new = NewSession { id: Some(session.session.clone()), ..NewSession::default() };
        store.create(&session.scope, new).await.unwrap();
        for n in 0..4 {
            let taken = n == 2 && session != sessions()[2];
            let word = if taken { CANARY } else { "word" };
            let events = (2 * n..2 * n + 2)
                .map(|n| named(&format!("e{n}"), &format!("{{\"n\":{n},\"text\":\"{word}\"}}")));
            let mut sent = batch(events);
            sent.key = Some(BatchKey::new(&format!("turn {n}")).unwrap());
            append(&store, &session, sent).await.unwrap();
        }
        if session == key("sealed") {
            store.close().await;
            drop(store);
            store = open(name, directory).0;
        }
    }
    for session in [key("sealed"), key("open")] {
        for id in ["e4", "e5"] {
            store.redact(&session, &EventId::new(id).unwrap()).await.unwrap();
        }
    }
    append(&store, &key("open"), batch([named("last", "{}")])).await.unwrap();
    store.write_idle_watermark();
    said(&store).await
}

async fn is_gone(store: &LocalStore) {
    for session in [key("sealed"), key("open")] {
        let events = events_of(store, &session).await;
        for (n, event) in events.iter().take(8).enumerate() {
            let gone = *event.body == b"{\"redacted\":true}"[..];
            assert_eq!(gone, matches!(n, 4 | 5), "{n}");
        }
        let again = batch([named("e4", "{\"another\":1}")]);
        let known = append(store, &session, again).await.unwrap();
        assert!(known.repeated && known.first_position == Position(4));
    }
}

#[tokio::test]
async fn the_store_and_the_decoder_read_an_old_directory_of_redacted_events() {
    for name in NAMES {
        let home = tempfile::tempdir().unwrap();
        if std::env::var_os("UPDATE").is_some() && !fixture(name).exists() {
            let expected = fill(name, &home.path().join("new")).await;
            copy(&home.path().join("new"), &fixture(name).join("data"));
            let text = serde_json::to_string_pretty(&expected).unwrap();
            fs::write(fixture(name).join("expected.json"), text + "\n").unwrap();
        }
        // As stored in the fixture, and as written now.
        let expected = expected(name);
        check_decoder(&fixture(name).join("data"), &expected, name);
        let written = fill(name, &home.path().join("now")).await;
        check_decoder(&home.path().join("now"), &written, &format!("{name}, now"));
        for (place, expected) in [("old", &expected), ("now", &written)] {
            let directory = home.path().join(place);
            if place == "old" {
                copy(&fixture(name).join("data"), &directory);
            }
            for (path, bytes) in super::files(&directory) {
                let holds = holds(&bytes, CANARY);
                assert!(!holds, "{}", path.display());
            }
            let (store, _) = open(name, &directory);
            assert_eq!(said(&store).await, *expected, "{name}, {place}");
            is_gone(&store).await;
            for session in sessions() {
                let verified = store.verify(&session.scope, Some(&session.session)).await.unwrap();
                assert_eq!(json!(verified.damage.len()), json!(0), "{name}, {place}");
            }
        }
    }
}
