//! Sectors of `keys/`: each file replaces the other, and only sessions whose key is in neither are
//! lost.

use std::collections::BTreeMap;

use sessionlog::{
    event::{Event, SessionId},
    store::{Maintain, NewSession, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::Sim;

use crate::engines::{append, batch, create, event, events_of, everything, key, small};

/// Number of keys, more than one page has.
const COUNT: usize = 40;
const PAGES: u64 = 2;

fn session_name(n: usize) -> String {
    format!("session-{n:02}")
}

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

/// Creates sessions in segments and in the journal; returns their events.
async fn encrypted_store() -> (Sim, BTreeMap<String, Vec<Event>>) {
    let sim = Sim::encrypted(57);
    let store = open(&sim);
    let mut events = BTreeMap::new();
    for n in 0..COUNT {
        create(&store, &session_name(n)).await;
        append(&store, &key(&session_name(n)), batch([event(&format!("{{\"n\":{n}}}"))]))
            .await
            .unwrap();
        events.insert(session_name(n), events_of(&store, &key(&session_name(n))).await);
        if n + 3 == COUNT {
            store.flush().unwrap();
        }
    }
    store.write_idle_watermark();
    sim.power_loss();
    (sim, events)
}

async fn check_serves_all(store: &LocalStore, events: &BTreeMap<String, Vec<Event>>, told: &str) {
    for (session, expected) in events {
        let found = events_of(store, &key(session)).await;
        assert_eq!(found[..expected.len()], expected[..], "{told}: {session}");
        append(store, &key(session), batch([event("{}")])).await.unwrap();
    }
}

#[tokio::test]
async fn an_unreadable_sector_of_one_key_file_loses_no_event() {
    for file in ["keys/0", "keys/1"] {
        for page in 0..PAGES {
            for live in [false, true] {
                let told = format!("{file} page {page} live {live}");
                let (sim, events) = encrypted_store().await;
                assert!(sim.read_durable(file).unwrap().len() as u64 > (PAGES - 1) * 4096);
                let mut store = live.then(|| open(&sim));
                sim.spoil_sector(file, page * 8 + 1);
                if live {
                    // The scrubber finds it first.
                    store.as_ref().unwrap().scrub();
                    let found = store.as_ref().unwrap().recovery().scrub.found;
                    assert!(found.iter().any(|what| what.contains(file)), "{told}: {found:?}");
                } else {
                    store = Some(open(&sim));
                }
                let store = store.unwrap();
                check_serves_all(&store, &events, &told).await;
                for n in 0..40 {
                    create(&store, &format!("new-{n}")).await;
                }
                store.scrub();
                let found = store.recovery().scrub.found;
                assert!(found.len() <= 1, "{told}: {found:?}");
                store.scrub();
                assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "{told}: stays");
                sim.power_loss();
                drop(store);
                // Each file alone has every key.
                for gone in ["keys/0", "keys/1"] {
                    let other = Sim::encrypted(57);
                    for path in sim.files().iter().filter(|path| *path != "LOCK" && *path != gone) {
                        other.write_durable(path, 0, &sim.read_durable(path).unwrap());
                    }
                    check_serves_all(&open(&other), &events, &format!("{told}, without {gone}"))
                        .await;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_session_with_its_key_in_neither_file_is_unreadable_and_others_are_served() {
    for page in 0..PAGES {
        let told = format!("page {page}");
        let (sim, events) = encrypted_store().await;
        // All events are in segments: journal frames under a lost key would count as damage.
        open(&sim).close().await;
        sim.spoil_sector("keys/0", page * 8);
        sim.spoil_sector("keys/1", page * 8);
        let store = open(&sim);
        let (mut served, mut gone) = (0, Vec::new());
        for (session, expected) in &events {
            match store.read(&key(session), everything()).await {
                Ok(slice) => {
                    assert_eq!(slice.events, *expected, "{told}: {session}");
                    append(&store, &key(session), batch([event("{}")])).await.unwrap();
                    served += 1;
                }
                Err(StoreError::SessionDamaged { gaps, .. }) => {
                    assert!(gaps[0].reason.contains("keys/"), "{told}: {gaps:?}");
                    let sent = append(&store, &key(session), batch([event("{}")])).await;
                    assert!(matches!(sent, Err(StoreError::SessionDamaged { .. })), "{told}");
                    gone.push(session.clone());
                }
                Err(error) => panic!("{told}: {session}: {error}"),
            }
        }
        assert!(served >= COUNT - 4 && !gone.is_empty(), "{told}: {served} served");
        // A verification reports it by session and by file; no session is marked as damaged.
        let verified = store.verify_all().unwrap();
        let damaged: Vec<String> =
            verified.damage.iter().map(|(owner, _)| owner.session.as_str().to_owned()).collect();
        assert_eq!(damaged, gone, "{told}");
        store.scrub();
        let found = store.recovery().scrub.found;
        for file in ["keys/0", "keys/1"] {
            assert!(found.iter().any(|what| what.starts_with(file)), "{told}: {found:?}");
        }
        // New keys can be created while one file is readable enough to be identified.
        let new = NewSession { id: Some(SessionId::new("new").unwrap()), ..NewSession::default() };
        let created = store.create(&key("new").scope, new).await;
        assert_eq!(created.is_ok(), page > 0, "{told}: {created:?}");
        store.flush().unwrap();
        store.flush().unwrap();
        sim.power_loss();
        drop(store);
        // Once one of them reads again, all is served, and the scrubber repairs the other file.
        sim.restore_sector("keys/1", page * 8);
        let store = open(&sim);
        check_serves_all(&store, &events, &format!("{told}, restored")).await;
        store.scrub();
        store.scrub();
        assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "{told}");
    }
}
