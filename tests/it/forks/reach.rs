//! Holds and redactions reach through forks: events that a held fork reads are not removed, and an
//! event is redacted through any session that reads it. It must not depend on an interface.

use sessionlog::{
    event::{EventId, Position},
    store::{Store, StoreError, StoreResult},
};

use super::{change, delete, fork, open, words};
use crate::{
    engines::{all, append, batch, create, key, named},
    life::{machine, runtime},
};

/// Creates `root` with a, b, c; `middle` at 2 of it with m; `leaf` at 3 and `beside` at 2 of that.
async fn create_family(store: &dyn Store) {
    let say = async |session: &str, ids: &[&str]| {
        let events = ids.iter().map(|id| named(id, &format!("\"the body of {id}\"")));
        append(store, &key(session), batch(events)).await.unwrap();
    };
    create(store, "root").await;
    say("root", &["a", "b", "c"]).await;
    fork(store, "root", 2, "middle").await.unwrap();
    say("middle", &["m"]).await;
    fork(store, "middle", 3, "leaf").await.unwrap();
    say("leaf", &["l"]).await;
    fork(store, "middle", 2, "beside").await.unwrap();
}

fn id(event: &str) -> EventId {
    EventId::new(event).unwrap()
}

/// Returns the held session that a request was rejected for.
fn held<T: std::fmt::Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Err(StoreError::SessionHeld { session }) => session.as_str().to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_read_by_a_held_fork_are_neither_erased_nor_redacted() {
    for engine in all() {
        let (store, name) = (&*engine.store, engine.name);
        create_family(store).await;
        store.change(&key("leaf"), change(false, Some(true))).await.unwrap();
        for writer in ["root", "middle", "leaf"] {
            assert_eq!(held(store.erase(&key(writer)).await), "leaf", "{name}: {writer}");
        }
        for (session, event) in [("root", "a"), ("middle", "m"), ("beside", "b"), ("leaf", "a")] {
            let answer = store.redact(&key(session), &id(event)).await;
            assert_eq!(held(answer), "leaf", "{name}: {event} through {session}");
        }
        assert_eq!(words(store, "leaf").await.len(), 4, "{name}");
        let behind = store.redact(&key("root"), &id("c")).await.unwrap();
        assert_eq!(behind, Some(Position(2)), "{name}: no fork reads it");
        store.erase(&key("beside")).await.unwrap();
        store.change(&key("leaf"), change(false, Some(false))).await.unwrap();
        assert_eq!(store.redact(&key("root"), &id("a")).await.unwrap(), Some(Position(0)));
        store.erase(&key("middle")).await.unwrap();
        store.erase(&key("root")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_redacted_through_a_fork_although_its_writer_is_deleted() {
    for engine in all() {
        let (store, name) = (&*engine.store, engine.name);
        create_family(store).await;
        delete(store, "root").await;
        assert_eq!(store.redact(&key("leaf"), &id("c")).await.unwrap(), None, "{name}: not read");
        assert_eq!(store.redact(&key("leaf"), &id("b")).await.unwrap(), Some(Position(1)));
        for reader in ["middle", "leaf", "beside"] {
            let words = words(store, reader).await;
            assert!(words[1].contains("redacted"), "{name}: {reader}: {words:?}");
            assert_eq!(words[0], "the body of a", "{name}: {reader}");
        }
        let again = store.redact(&key("beside"), &id("b")).await.unwrap();
        assert_eq!(again, Some(Position(1)), "{name}: a retry");
        let gone = store.redact(&key("root"), &id("a")).await;
        assert!(matches!(gone, Err(StoreError::SessionDeleted { .. })), "{name}: {gone:?}");
    }
}

#[test]
fn a_body_redacted_through_a_fork_is_in_no_file_after_a_restart() {
    for encrypted in [false, true] {
        let sim = machine(91, encrypted);
        let told = format!("encrypted: {encrypted}");
        runtime().block_on(async {
            let store = open(&sim);
            create_family(&store).await;
            delete(&store, "root").await;
            (0..2).for_each(|_| store.flush().unwrap());
            let at = store.redact(&key("leaf"), &id("b")).await.unwrap();
            assert_eq!(at, Some(Position(1)), "{told}");
            let held = sim.files().into_iter().filter(|path| {
                let bytes = sim.read_durable(path).unwrap_or_default();
                bytes.windows(13).any(|part| part == b"the body of b")
            });
            assert_eq!(held.collect::<Vec<_>>(), Vec::<String>::new(), "{told}");
            drop(store);
            sim.power_loss();
            let store = open(&sim);
            for reader in ["middle", "leaf", "beside"] {
                let words = words(&store, reader).await;
                assert!(words[1].contains("redacted"), "{told}: {reader}: {words:?}");
                assert_eq!(words[0], "the body of a", "{told}: {reader}");
            }
        });
    }
}
