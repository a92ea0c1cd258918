//! Unreadable journal sectors under an erased session: bytes that cannot be read cannot be shown to
//! be gone, so the whole journal file is retired and zeroed.

use sessionlog::{
    event::Event,
    store::{Health, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::Sim;

use crate::{
    bytes::holds,
    engines::{append, batch, create, event, events_of, key, small},
};

const CANARY: &str = "canary-70c1d9";

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

/// Creates two sessions in the same journal file; returns the events of the remaining one.
async fn two_sessions() -> (Sim, LocalStore, Vec<Event>) {
    let sim = Sim::new(53);
    let store = open(&sim);
    for session in ["gone", "stays"] {
        create(&store, session).await;
    }
    for n in 0..24_u32 {
        for (session, word) in [("gone", CANARY), ("stays", "other")] {
            let text = format!("{word} ").repeat(if n == 5 { 800 } else { 40 });
            let body = format!("{{\"n\":{n},\"text\":\"{text}\"}}");
            append(&store, &key(session), batch([event(&body)])).await.unwrap();
        }
    }
    let stays = events_of(&store, &key("stays")).await;
    store.write_idle_watermark();
    (sim, store, stays)
}

/// Returns the files that still contain its text, readable or not.
fn files_with_text(sim: &Sim) -> Vec<String> {
    let holds = |path: &String| {
        let bytes = sim.read_durable(path).unwrap();
        holds(&bytes, CANARY)
    };
    sim.files().into_iter().filter(holds).collect()
}

#[tokio::test]
async fn an_unreadable_sector_hides_no_bytes_of_an_erased_session() {
    let (sim, store, _) = two_sessions().await;
    drop(store);
    let mut pages = Vec::new();
    for path in sim.files().into_iter().filter(|path| path.starts_with("journal/")) {
        let bytes = sim.read_durable(&path).unwrap();
        let sectors = bytes.len() as u64 / 512;
        pages.extend((0..sectors).step_by(8).map(|sector| (path.clone(), sector + sector / 8 % 8)));
    }
    let (mut erased, mut frozen) = (0, 0);
    for restarted in [false, true] {
        for (path, sector) in &pages {
            let told = format!("{path} sector {sector} restarted {restarted}");
            let (sim, mut store, stays) = two_sessions().await;
            if restarted {
                sim.kill();
                drop(store);
                sim.spoil_sector(path, *sector);
                store = open(&sim);
            } else {
                sim.spoil_sector(path, *sector);
            }
            if store.health() != Health::Ready {
                // It changes no byte, and returns an error.
                let refused = store.erase(&key("gone")).await;
                let unknown = matches!(refused, Err(StoreError::SessionNotFound { .. }));
                let waits = matches!(refused, Err(StoreError::ReadOnly { .. }));
                assert!(waits || unknown, "{told}: {refused:?}");
                frozen += 1;
                continue;
            }
            if store.info(&key("gone")).await.is_err() {
                continue;
            }
            store.erase(&key("gone")).await.unwrap_or_else(|error| panic!("{told}: {error}"));
            assert_eq!(files_with_text(&sim), Vec::<String>::new(), "{told}");
            erased += 1;
            for start in 0..2 {
                let found = store.read(&key("stays"), crate::engines::everything()).await;
                match found {
                    Ok(slice) => assert_eq!(slice.events, stays, "{told} start {start}"),
                    Err(StoreError::SessionDamaged { .. }) => assert!(restarted, "{told}"),
                    Err(error) => panic!("{told} start {start}: {error}"),
                }
                assert!(store.info(&key("gone")).await.is_err(), "{told} start {start}");
                sim.power_loss();
                drop(store);
                store = open(&sim);
                assert_eq!(store.health(), Health::Ready, "{told} start {start}");
                assert_eq!(files_with_text(&sim), Vec::<String>::new(), "{told} start {start}");
            }
        }
    }
    assert!(erased > 20 && frozen > 0, "{erased} erased, {frozen} frozen");
}
