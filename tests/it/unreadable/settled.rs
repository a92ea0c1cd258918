//! Sectors of `settled/`: the other file, or an earlier generation, and the journal replace them.

use std::collections::BTreeMap;

use sessionlog::{
    event::SessionId,
    store::{Maintain, NewSession, Store, local::LocalStore},
};
use sessionlog_sim::Sim;

use super::{Image, Left, Lived, SESSIONS, machine};
use crate::engines::{append, batch, event, events_of, key, small};

/// Creates entries of several pages, in several generations.
async fn settled_image(encrypted: bool, left: Left) -> Image {
    let sim = machine(encrypted);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for session in SESSIONS {
        let long = |n: u32| (format!("k{n}"), "words ".repeat(150));
        let new = NewSession {
            id: Some(SessionId::new(session).unwrap()),
            metadata: (0..3).map(long).collect(),
            ..NewSession::default()
        };
        store.create(&key(session).scope, new).await.unwrap();
    }
    for n in 0..5_u32 {
        for session in SESSIONS {
            let body = format!("{{\"n\":{n}}}");
            append(&store, &key(session), batch([event(&body)])).await.unwrap();
        }
        store.flush().unwrap();
    }
    append(&store, &key("journal"), batch([event("{}")])).await.unwrap();
    let mut events = BTreeMap::new();
    for session in SESSIONS {
        events.insert(session, events_of(&store, &key(session)).await);
    }
    Image::left(Lived { sim, store, events }, encrypted, left).await
}

async fn check_serves_all(image: &Image, store: &LocalStore, more: usize, told: &str) {
    for (session, expected) in &image.events {
        let events = events_of(store, &key(session)).await;
        assert_eq!(events[..expected.len()], expected[..], "{told}: {session}");
        assert_eq!(events.len(), expected.len() + more, "{told}: {session}");
        append(store, &key(session), batch([event("{}")])).await.unwrap();
    }
}

fn with_spoiled(image: &Image, pages: &[(String, u64)]) -> Sim {
    let sim = image.machine();
    pages.iter().for_each(|(path, sector)| sim.spoil_sector(path, *sector));
    sim
}

#[tokio::test]
async fn an_unreadable_sector_of_one_settled_file_loses_no_event() {
    for encrypted in [false, true] {
        for left in [Left::Busy, Left::Clean] {
            let image = settled_image(encrypted, left).await;
            let pages = image.pages("settled/");
            assert!(pages.len() > 6, "{pages:?}");
            for page in &pages {
                let told = format!("{page:?} {left:?} encrypted {encrypted}");
                // At a start.
                let sim = with_spoiled(&image, std::slice::from_ref(page));
                let store = LocalStore::open_local(&sim.env(), small()).unwrap();
                check_serves_all(&image, &store, 0, &told).await;
                store.flush().unwrap();
                store.flush().unwrap();
                store.scrub();
                assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "{told}: stays");
                sim.power_loss();
                drop(store);
                let store = LocalStore::open_local(&sim.env(), small()).unwrap();
                check_serves_all(&image, &store, 1, &format!("{told}, again")).await;
                // Live.
                let sim = image.machine();
                let store = LocalStore::open_local(&sim.env(), small()).unwrap();
                sim.spoil_sector(&page.0, page.1);
                store.scrub();
                let found = store.recovery().scrub.found;
                assert!(found.iter().any(|what| what.contains(&page.0)), "{told}: {found:?}");
                check_serves_all(&image, &store, 0, &told).await;
                store.flush().unwrap();
                store.flush().unwrap();
                store.scrub();
                assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "{told}: live");
                sim.power_loss();
                drop(store);
                let store = LocalStore::open_local(&sim.env(), small()).unwrap();
                check_serves_all(&image, &store, 1, &format!("{told}, live and again")).await;
            }
        }
    }
}

/// Two sectors at once: a start serves every event, or fails and changes no byte.
#[tokio::test]
async fn unreadable_sectors_of_both_settled_files_are_reported_or_lose_no_event() {
    let image = settled_image(false, Left::Busy).await;
    let pages = image.pages("settled/");
    let (first, second): (Vec<_>, Vec<_>) =
        pages.into_iter().partition(|(path, _)| path == "settled/0");
    let (mut served, mut refused) = (0, 0);
    for (one, other) in first.iter().flat_map(|one| second.iter().map(move |two| (one, two))) {
        let told = format!("{one:?} {other:?}");
        let sim = with_spoiled(&image, &[one.clone(), other.clone()]);
        match LocalStore::open_local(&sim.env(), small()) {
            Ok(store) => {
                served += 1;
                check_serves_all(&image, &store, 0, &told).await;
            }
            Err(_) => {
                refused += 1;
                for (path, bytes) in &image.files {
                    assert_eq!(sim.read_durable(path).unwrap(), *bytes, "{told}: {path}");
                }
                sim.restore_sector(&one.0, one.1);
                let store = LocalStore::open_local(&sim.env(), small()).unwrap();
                check_serves_all(&image, &store, 0, &format!("{told}, one restored")).await;
            }
        }
    }
    assert!(served > 10 * refused && refused > 0, "{served} served, {refused} refused");
}
