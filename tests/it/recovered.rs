//! A frame of the journal is damaged while a segment holds the same one: it is served from the
//! segment, and only if equal. And the journal's files: a truncated, missing or duplicated one is
//! reported before anything is written.

use sessionlog::{
    event::Event,
    store::{Health, Maintain, Store, local::LocalStore},
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::engines::{append, batch, create, event, events_of, key, small, whole_of};

const WORDS: [&str; 3] = ["first", "second", "last"];

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

/// Creates a store whose last flush wrote the segments and was interrupted before it named them.
async fn interrupted(seed: u64, words: [&str; 3], created_before: bool) -> (Sim, Vec<Event>) {
    let sim = Sim::new(seed);
    let store = open(&sim);
    create(&store, "other").await;
    append(&store, &key("other"), batch([event("{}")])).await.unwrap();
    if created_before {
        create(&store, "hurt").await;
        append(&store, &key("hurt"), batch([event("{\"n\":0}")])).await.unwrap();
    }
    store.flush().unwrap();
    store.flush().unwrap();
    if !created_before {
        create(&store, "hurt").await;
    }
    for word in words {
        let body = format!("{{\"word\":\"{word}\"}}");
        append(&store, &key("hurt"), batch([event(&body)])).await.unwrap();
        append(&store, &key("other"), batch([event(&body)])).await.unwrap();
    }
    sim.fail_writing("settled/", Fault::Io);
    store.flush().unwrap_err();
    let events = events_of(&store, &key("hurt")).await;
    sim.power_loss();
    sim.heal();
    (sim, events)
}

/// Returns the journal file and byte offset of the first frame with a text.
fn place_of(sim: &Sim, word: &str) -> (String, u64) {
    let found =
        sim.files().into_iter().filter(|path| path.starts_with("journal/")).find_map(|path| {
            let bytes = sim.read_durable(&path)?;
            let at = bytes.windows(word.len()).position(|part| part == word.as_bytes())?;
            Some((path, at as u64))
        });
    found.unwrap()
}

/// A killed flush left the segment only in the page cache: what is served of it must be durable by
/// then, because the journal no longer has it.
#[tokio::test]
async fn frames_restored_from_a_segment_survive_the_next_power_loss() {
    let mut made_good = 0;
    for seed in 0..40 {
        let sim = Sim::new(seed);
        let store = open(&sim);
        create(&store, "hurt").await;
        for word in WORDS {
            append(&store, &key("hurt"), batch([event(&format!("{{\"word\":\"{word}\"}}"))]))
                .await
                .unwrap();
        }
        let events = events_of(&store, &key("hurt")).await;
        sim.fail_writing("settled/", Fault::Kill);
        sim.fail_next(Op::Sync, Fault::Kill, false);
        store.flush().unwrap_err();
        drop(store);
        sim.heal();
        let (path, at) = place_of(&sim, WORDS[1]);
        sim.flip(&path, at, 1);
        let store = open(&sim);
        if whole_of(&store, &key("hurt")).await != events {
            continue;
        }
        made_good += 1;
        sim.power_loss();
        drop(store);
        let store = open(&sim);
        assert_eq!(events_of(&store, &key("hurt")).await, events, "seed {seed}");
    }
    assert!(made_good > 5, "{made_good} of 40 were made good");
}

#[tokio::test]
async fn a_damaged_journal_frame_is_recovered_from_a_segment() {
    for created_before in [true, false] {
        for word in WORDS {
            // Damage in the payload, and in the header, which then names no session.
            for back in [0, 150] {
                let (sim, events) = interrupted(21, WORDS, created_before).await;
                let (path, at) = place_of(&sim, word);
                sim.flip(&path, at - back, 1);
                for start in 0..3 {
                    let store = open(&sim);
                    let told = format!("{word} {back} start {start}");
                    assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
                    assert_eq!(store.health(), Health::Ready, "{told}");
                    assert_eq!(events_of(&store, &key("hurt")).await, events, "{told}");
                    if start > 0 {
                        store.flush().unwrap();
                        store.flush().unwrap();
                    }
                    sim.power_loss();
                }
                let store = open(&sim);
                assert_eq!(store.verify(&key("hurt").scope, None).await.unwrap().damage, []);
            }
        }
    }
}

/// Two stores that differ in one text: same ids, numbers, sizes and chains before it.
#[tokio::test]
async fn a_segment_with_different_content_recovers_no_frame() {
    // A frame without a readable header is judged by its successor; the last frame has none.
    let cases = [
        (0, ["first", "secund", "last"], "second"),
        (150, ["first", "secund", "last"], "second"),
        (0, ["first", "second", "lust"], "last"),
    ];
    for (back, words, damaged) in cases {
        let (sim, events) = interrupted(22, WORDS, true).await;
        let (twin, _) = interrupted(22, words, true).await;
        let segments = || sim.files().into_iter().filter(|path| path.starts_with("segments/"));
        for path in segments() {
            if let Some(bytes) = twin.read_durable(&path) {
                sim.write_durable(&path, 0, &bytes);
            }
        }
        let (path, at) = place_of(&sim, damaged);
        sim.flip(&path, at - back, 1);
        let store = open(&sim);
        let told = !store.recovery().damage.is_empty();
        assert!(told, "what is lost is told");
        let info = store.info(&key("hurt")).await.unwrap();
        for event in whole_of(&store, &key("hurt")).await {
            assert_eq!(event, events[event.position.0 as usize], "nothing of the twin is served");
        }
        assert!(store.health() != Health::Ready || !info.damage.is_empty());
    }
}

#[tokio::test]
async fn a_changed_cut_or_missing_last_journal_file_is_reported() {
    let rotated = async || {
        let sim = Sim::new(23);
        let store = open(&sim);
        create(&store, "a").await;
        let mut last = String::new();
        for n in 0..40_u32 {
            append(&store, &key("a"), batch([event(&format!("\"{}\"", "x".repeat(900)))]))
                .await
                .unwrap();
            let used: Vec<String> = sim
                .files()
                .into_iter()
                .filter(|path| path.starts_with("journal/"))
                .filter(|path| {
                    sim.read_durable(path).is_some_and(|bytes| bytes.iter().any(|b| *b > 0))
                })
                .collect();
            last = used.last().unwrap().clone();
            if n > 20 && used.len() > 1 {
                break;
            }
        }
        append(&store, &key("a"), batch([event("{}")])).await.unwrap();
        sim.power_loss();
        drop(store);
        (sim, last)
    };
    type Change = fn(&Sim, &str);
    let changes: [(&str, Change); 7] = [
        ("gone", |sim, path| sim.remove_durable(path)),
        ("cut to nothing", |sim, path| sim.truncate_durable(path, 0)),
        ("cut in its header", |sim, path| sim.truncate_durable(path, 4100)),
        ("cut in its frames", |sim, path| sim.truncate_durable(path, 8200)),
        ("cut at its end", |sim, path| {
            let bytes = sim.read_durable(path).unwrap().len() as u64;
            sim.truncate_durable(path, bytes - 1);
        }),
        ("without its headers", |sim, path| {
            sim.flip(path, 40, 0);
            sim.flip(path, 4096 + 40, 0);
        }),
        ("overwritten by its predecessor", |sim, path| {
            let bytes = sim.read_durable("journal/0").unwrap();
            sim.write_durable(path, 0, &bytes);
        }),
    ];
    for (what, change) in changes {
        let (sim, last) = rotated().await;
        change(&sim, &last);
        let before: Vec<_> = sim.files().into_iter().map(|path| sim.read_durable(&path)).collect();
        let store = open(&sim);
        assert!(matches!(store.health(), Health::ReadOnly(_)), "{what}: {:?}", store.health());
        assert!(!store.recovery().damage.is_empty(), "{what}");
        append(&store, &key("a"), batch([event("{}")])).await.unwrap_err();
        drop(store);
        let after: Vec<_> = sim.files().into_iter().map(|path| sim.read_durable(&path)).collect();
        assert_eq!(before.len(), after.len(), "{what}: nothing is deleted or made");
        assert!(before == after, "{what}: no byte is changed");
    }
}
