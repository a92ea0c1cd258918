//! Rot in a live store: found by reading everything back from the device, told with its session,
//! and nobody else is hurt.

use sessionlog::{
    env::sim::Sim,
    store::{Store, StoreError, local::Local},
};

use crate::engines::{append, batch, create, event, events_of, key, small};

async fn store(sim: &Sim) -> Local {
    let store = Local::open_local(&sim.env(), small()).unwrap();
    for session in ["hurt", "other"] {
        create(&store, session).await;
        for n in 0..60 {
            let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(40));
            append(&store, &key(session), batch([event(&body)])).await.unwrap();
        }
        store.settle().unwrap();
    }
    // Until both files of `settled/` say the same, and nothing is left to be said.
    for _ in 0..6 {
        store.settle().unwrap();
    }
    store
}

#[tokio::test]
async fn rot_in_a_live_store_is_found_before_anybody_asks() {
    let sim = Sim::new(41);
    let store = store(&sim).await;
    store.scrub();
    let scrub = store.recovery().scrub;
    assert_eq!((scrub.rounds, scrub.sessions, scrub.found.len()), (1, 2, 0), "{scrub:?}");
    assert!(scrub.bytes > 0);
    let sealed: Vec<_> = sim.files().into_iter().filter(|path| path.ends_with(".sealed")).collect();
    let other = events_of(&store, &key("other")).await;
    sim.flip(&sealed[0], 1_000, 2);
    store.scrub();
    let scrub = store.recovery().scrub;
    assert_eq!((scrub.rounds, scrub.found.len()), (2, 1), "{scrub:?}");
    let (hurt, well) = match scrub.found[0].contains("session hurt,") {
        true => ("hurt", "other"),
        false => ("other", "hurt"),
    };
    let refused = append(&store, &key(hurt), batch([event("{}")])).await;
    assert!(matches!(refused, Err(StoreError::SessionDamaged { .. })), "nobody read it yet");
    assert_ne!(store.info(&key(hurt)).await.unwrap().damage, []);
    append(&store, &key(well), batch([event("{}")])).await.unwrap();
    if well == "other" {
        assert_eq!(events_of(&store, &key(well)).await[..60], other);
    }
    // What it found is known at the next start.
    store.settle().unwrap();
    sim.power_loss();
    drop(store);
    let store = Local::open_local(&sim.env(), small()).unwrap();
    assert_ne!(store.info(&key(hurt)).await.unwrap().damage, []);
}

#[tokio::test]
async fn a_damaged_settled_file_is_written_anew() {
    for number in 0..2 {
        let sim = Sim::new(42);
        let store = store(&sim).await;
        let path = format!("settled/{number}");
        let bytes = sim.read_durable(&path).unwrap();
        sim.flip(&path, bytes.len() as u64 / 2, 4);
        store.scrub();
        let found = store.recovery().scrub.found;
        assert_eq!(found, [format!("{path} is damaged")]);
        store.settle().unwrap();
        store.settle().unwrap();
        store.scrub();
        assert_eq!(store.recovery().scrub.found, Vec::<String>::new());
        // Either is enough, as ever.
        sim.power_loss();
        drop(store);
        sim.remove_durable(&format!("settled/{}", 1 - number));
        let store = Local::open_local(&sim.env(), small()).unwrap();
        assert_eq!(events_of(&store, &key("hurt")).await.len(), 60);
        assert_eq!(events_of(&store, &key("other")).await.len(), 60);
    }
}
