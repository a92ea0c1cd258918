//! Receipts stored out of reach of writers to the disk: they detect a session that is shorter than
//! it was or has another past. It must not use internals of the engine.

use std::collections::BTreeMap;

use sessionlog::{
    event::EventId,
    store::{ChainReceipt, Maintain, ReceiptState, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::Sim;

use crate::{
    engines::{append, batch, create, event, key, named, small},
    life::{machine, runtime},
    store::on_every_engine,
};

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

fn tree(sim: &Sim) -> BTreeMap<String, Vec<u8>> {
    let read = |path: String| Some((path.clone(), sim.read_durable(&path)?));
    sim.files().into_iter().filter_map(read).collect()
}

fn put_back(sim: &Sim, files: &BTreeMap<String, Vec<u8>>) {
    sim.files().iter().for_each(|path| sim.remove_durable(path));
    files.iter().for_each(|(path, bytes)| sim.write_durable(path, 0, bytes));
}

/// Appends events one by one; returns the receipt of each.
async fn write(store: &LocalStore, from: usize, to: usize, word: &str) -> Vec<ChainReceipt> {
    let mut receipts = Vec::new();
    for n in from..to {
        let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", word.repeat(90));
        let sent = batch([named(&format!("{word}{n}"), &body)]);
        receipts.push(append(store, &key("s"), sent).await.unwrap().receipt);
    }
    receipts
}

async fn heads(store: &LocalStore, receipts: &[ChainReceipt]) -> Vec<ReceiptState> {
    let mut heads = Vec::new();
    for receipt in receipts {
        let (verified, head) = store.verify_head(&key("s"), *receipt).await.unwrap();
        assert_eq!(verified.damage, []);
        heads.push(head);
    }
    heads
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_holds_until_an_event_it_covers_is_lost() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let mut receipts = vec![store.info(&key("s")).await.unwrap().receipt];
        for n in 0..5 {
            let sent = batch((0..=n).map(|n| event(&format!("{{\"n\":{n}}}"))));
            receipts.push(append(store, &key("s"), sent).await.unwrap().receipt);
        }
        for receipt in &receipts {
            let (verified, head) = store.verify_head(&key("s"), *receipt).await.unwrap();
            assert_eq!((verified.damage, head), (vec![], ReceiptState::Holds), "{receipt:?}");
            let text = receipt.chain.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let text = format!("{}:{text}", receipt.position);
            assert_eq!(ChainReceipt::parse(&text), Some(*receipt));
        }
        let last = receipts[5];
        let beyond = ChainReceipt { position: last.position.plus(1), ..last };
        let found = store.verify_head(&key("s"), beyond).await.unwrap().1;
        assert_eq!(found, ReceiptState::Shorter { tail: last.position });
        let forged = ChainReceipt { chain: receipts[4].chain, ..last };
        let found = store.verify_head(&key("s"), forged).await.unwrap().1;
        assert_eq!(found, ReceiptState::Differs { chain: last.chain });
        let unknown = store.verify_head(&key("nobody"), last).await.unwrap_err();
        assert!(matches!(unknown, StoreError::SessionNotFound { .. }), "{unknown}");
    })
    .await;
    let hash = "ab".repeat(32);
    for wrong in ["", "5", ":", "5:", "-5:ab", "+5:ab", "5:ab", " 5:ab", "5:ab:cd"] {
        assert_eq!(ChainReceipt::parse(wrong), None, "{wrong}");
        let long = wrong.replace("ab", &hash);
        assert!(wrong == "5:ab" || ChainReceipt::parse(&long).is_none(), "{long}");
    }
}

#[test]
fn every_receipt_holds_after_flushes_redactions_and_stops() {
    for encrypted in [false, true] {
        let sim = machine(101, encrypted);
        runtime().block_on(async {
            let mut store = open(&sim);
            create(&store, "s").await;
            let mut receipts = vec![store.info(&key("s")).await.unwrap().receipt];
            for stop in 0..5 {
                receipts.extend(write(&store, 8 * stop, 8 * stop + 8, "word").await);
                if stop % 2 == 0 {
                    store.flush().unwrap();
                }
                if stop == 2 {
                    let id = EventId::new("word5").unwrap();
                    store.redact(&key("s"), &id).await.unwrap();
                }
                let holds = heads(&store, &receipts).await;
                assert!(holds.iter().all(|head| *head == ReceiptState::Holds), "{holds:?}");
                match stop % 3 {
                    0 => store.close().await,
                    1 => sim.kill(),
                    _ => sim.power_loss(),
                }
                drop(store);
                store = open(&sim);
            }
            let holds = heads(&store, &receipts).await;
            assert!(holds.iter().all(|head| *head == ReceiptState::Holds), "{holds:?}");
        });
    }
}

#[test]
fn a_receipt_detects_a_store_that_was_rolled_back_and_continued_differently() {
    for encrypted in [false, true] {
        let sim = machine(102, encrypted);
        runtime().block_on(async {
            let store = open(&sim);
            create(&store, "s").await;
            let old = write(&store, 0, 10, "old").await;
            store.flush().unwrap();
            drop(store);
            sim.power_loss();
            let before = tree(&sim);
            let store = open(&sim);
            let new = write(&store, 10, 20, "new").await;
            store.close().await;
            drop(store);
            sim.power_loss();
            put_back(&sim, &before);
            let store = open(&sim);
            assert!(store.recovery().damage.is_empty(), "it is the store it was then");
            assert!(heads(&store, &old).await.iter().all(|head| *head == ReceiptState::Holds));
            for head in heads(&store, &new).await {
                assert_eq!(head, ReceiptState::Shorter { tail: old[9].position });
            }
            // The session becomes as long again, with another past.
            write(&store, 10, 24, "other").await;
            assert!(heads(&store, &old).await.iter().all(|head| *head == ReceiptState::Holds));
            for head in heads(&store, &new).await {
                assert!(matches!(head, ReceiptState::Differs { .. }), "{head:?}");
            }
            append(&store, &key("s"), batch([event("{}")])).await.unwrap();
        });
    }
}

#[test]
fn a_receipt_over_lost_events_holds_for_the_rest_or_reports_the_loss() {
    let sim = machine(103, true);
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "s").await;
        let receipts = write(&store, 0, 200, "word").await;
        store.close().await;
        drop(store);
        sim.kill();
        for path in sim.files().iter().filter(|path| path.ends_with(".sealed")) {
            // Damage a block in the middle.
            let bytes = sim.read_durable(path).unwrap().len() as u64;
            sim.flip(path, bytes / 4, 3);
        }
        let store = open(&sim);
        let mut found = Vec::new();
        for receipt in &receipts {
            let (verified, head) = store.verify_head(&key("s"), *receipt).await.unwrap();
            assert!(!verified.damage.is_empty());
            found.push(head);
        }
        let lost = found.iter().filter(|head| **head == ReceiptState::Lost).count();
        assert!(
            found.iter().all(|head| matches!(head, ReceiptState::Holds | ReceiptState::Lost)),
            "{found:?}"
        );
        assert!((1..=64).contains(&lost), "{lost} lost");
    });
}
