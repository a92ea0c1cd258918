//! Bit rot in a live store: the scrubber finds it by reading everything from the device, reports it
//! with its session, and no other session is affected.

use std::time::Duration;

use sessionlog::store::{
    Health, Maintain, Store, StoreError,
    local::{LocalStore, StoreOptions},
};
use sessionlog_sim::Sim;

use crate::engines::{append, batch, create, event, events_of, key, small};

async fn store(sim: &Sim) -> LocalStore {
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for session in ["hurt", "other"] {
        create(&store, session).await;
        for n in 0..60 {
            let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(40));
            append(&store, &key(session), batch([event(&body)])).await.unwrap();
        }
        store.flush().unwrap();
    }
    // Flush until both files of `settled/` are equal and complete.
    for _ in 0..6 {
        store.flush().unwrap();
    }
    store
}

#[tokio::test]
async fn a_scrub_reports_bit_rot_before_a_request_reads_it() {
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
    // The next start knows the damage.
    store.flush().unwrap();
    sim.power_loss();
    drop(store);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    assert_ne!(store.info(&key(hurt)).await.unwrap().damage, []);
}

#[tokio::test]
async fn a_damaged_settled_file_is_rewritten_by_the_next_flushes() {
    for number in 0..2 {
        let sim = Sim::new(42);
        let store = store(&sim).await;
        let path = format!("settled/{number}");
        let bytes = sim.read_durable(&path).unwrap();
        sim.flip(&path, bytes.len() as u64 / 2, 4);
        store.scrub();
        let found = store.recovery().scrub.found;
        assert_eq!(found, [format!("{path} is damaged")]);
        store.flush().unwrap();
        store.flush().unwrap();
        store.scrub();
        assert_eq!(store.recovery().scrub.found, Vec::<String>::new());
        // Either file alone is sufficient.
        sim.power_loss();
        drop(store);
        sim.remove_durable(&format!("settled/{}", 1 - number));
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        assert_eq!(events_of(&store, &key("hurt")).await.len(), 60);
        assert_eq!(events_of(&store, &key("other")).await.len(), 60);
    }
}

/// Location of the damage in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The payload of a frame that no segment has.
    Payload,
    /// Its header: without it the session is unknown.
    Header,
    /// The last frame, which no later frame confirms.
    Last,
    /// One copy of the file header.
    Copy,
    /// Both copies of the file header.
    Copies,
    /// Frames that are flushed.
    Settled,
}

#[tokio::test]
async fn a_scrub_repairs_bit_rot_in_the_journal_from_memory() {
    let places =
        [Place::Payload, Place::Header, Place::Last, Place::Copy, Place::Copies, Place::Settled];
    for place in places {
        let told = format!("{place:?}");
        let sim = Sim::new(43);
        let store = store(&sim).await;
        for word in ["first", "words", "third"] {
            for session in ["hurt", "other"] {
                let body = format!("{{\"late\":\"{word} of {session}\"}}");
                append(&store, &key(session), batch([event(&body)])).await.unwrap();
            }
        }
        let events = events_of(&store, &key("hurt")).await;
        store.scrub();
        assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "{told}");
        let used = |text: &str| {
            let journal = sim.files().into_iter().filter(|path| path.starts_with("journal/"));
            let mut all = journal.filter_map(|path| {
                let bytes = sim.read_durable(&path).unwrap();
                let at = bytes.windows(text.len()).position(|part| part == text.as_bytes())?;
                Some((path, at as u64))
            });
            all.next().unwrap_or_else(|| panic!("{text} is in the journal"))
        };
        let (path, at) = match place {
            Place::Payload => used("words of hurt"),
            Place::Header => used("words of hurt"),
            Place::Last => used("third of other"),
            Place::Copy | Place::Copies => (used("words of hurt").0, 40),
            Place::Settled => used("lorem ipsum"),
        };
        let at = if place == Place::Header { at - 100 } else { at };
        sim.flip(&path, at, 3);
        if place == Place::Copies {
            sim.flip(&path, at + 4096, 3);
        }
        store.scrub();
        let found = store.recovery().scrub.found;
        if place == Place::Settled && found.is_empty() {
            // That file is free: a start does not read it.
            continue;
        }
        assert_eq!(found.len(), 1, "{told}: {found:?}");
        assert!(found[0].starts_with(&path), "{told}: {found:?}");
        assert!(found[0].ends_with("nothing is lost"), "{told}: {found:?}");
        store.scrub();
        assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "{told}: made good");
        append(&store, &key("hurt"), batch([event("{\"behind\":1}")])).await.unwrap();
        for start in 0..2 {
            sim.power_loss();
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            assert_eq!(store.health(), Health::Ready, "{told}, start {start}");
            assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}, start {start}");
            let now = events_of(&store, &key("hurt")).await;
            assert_eq!(now[..now.len() - 1], events, "{told}, start {start}");
            store.flush().unwrap();
        }
    }
}

/// The scrubber and a close need the same lock. Each must end, however often they collide.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_closed_during_a_scrub_stops_without_deadlock() {
    let sim = Sim::new(45);
    drop(store(&sim).await);
    let options =
        StoreOptions { background: true, scrub_every: Duration::from_nanos(1), ..small() };
    for _ in 0..50 {
        let store = LocalStore::open_local(&sim.env(), options).unwrap();
        append(&store, &key("other"), batch([event("{}")])).await.unwrap();
        store.close().await;
    }
}

/// The store's own thread finds it, without a read or another request.
#[tokio::test(flavor = "multi_thread")]
async fn the_scrub_thread_reports_bit_rot_that_no_request_has_read() {
    let sim = Sim::new(44);
    drop(store(&sim).await);
    let options =
        StoreOptions { background: true, scrub_every: Duration::from_millis(1), ..small() };
    let store = LocalStore::open_local(&sim.env(), options).unwrap();
    let rounds = |least: u64| {
        while store.recovery().scrub.rounds < least {
            std::thread::yield_now();
        }
        store.recovery().scrub
    };
    let before = rounds(2);
    assert_eq!((before.found, before.sessions), (Vec::new(), 2));
    let sealed: Vec<_> = sim.files().into_iter().filter(|path| path.ends_with(".sealed")).collect();
    sim.flip(&sealed[0], 1_000, 2);
    let scrub = rounds(before.rounds + 2);
    assert_eq!(scrub.found.len(), 1, "{scrub:?}");
    // The damage is known without a read, and a stop ends the thread.
    let hurt = store.info(&key("hurt")).await.unwrap().damage.len();
    let other = store.info(&key("other")).await.unwrap().damage.len();
    assert_eq!(hurt + other, 1);
    store.close().await;
}
