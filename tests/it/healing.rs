//! A device whose syncs fail, occasionally or for a while: when the store starts to reject writes,
//! and when it accepts them again.

use std::time::Duration;

use sessionlog::store::{Store, StoreError, local::LocalStore};
use sessionlog_sim::{Fault, Op, Sim};

use crate::engines::{append, batch, create, event, key, small};

/// Outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Append {
    Acknowledged,
    Failed,
    /// The disk is not tried: the store rejects writes.
    Refused,
}
use Append::{Acknowledged, Failed, Refused};

async fn append_event(store: &LocalStore) -> Append {
    match append(store, &key("s"), batch([event("{}")])).await {
        Ok(_) => Acknowledged,
        Err(StoreError::ReadOnly { .. }) => Refused,
        Err(_) => Failed,
    }
}

async fn open(sim: &Sim) -> LocalStore {
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    store
}

/// Creates a store in which two syncs failed in a row: the first in the existing file, the second
/// in the next one, after this many calls that create one.
async fn store_after_two_failed_syncs() -> (Sim, LocalStore) {
    for call in 1..60 {
        let sim = Sim::new(1);
        let store = open(&sim).await;
        for call in [0, call] {
            sim.fail_call(sim.calls() + call, Fault::Io, false);
            assert_ne!(append_event(&store).await, Refused);
            sim.heal();
        }
        if append_event(&store).await == Refused {
            return (sim, store);
        }
    }
    panic!("no call writes to the next file");
}

#[tokio::test]
async fn after_two_failed_syncs_writes_are_rejected_until_a_disk_probe_succeeds() {
    let (sim, store) = store_after_two_failed_syncs().await;
    sim.fail_writing("", Fault::Io);
    let after = async |seconds| {
        sim.clock().advance(Duration::from_secs(seconds));
        let _ = store.flush();
        append_event(&store).await
    };
    assert_eq!(after(4).await, Refused, "it is not time yet");
    assert_eq!(after(2).await, Refused, "the probe fails");
    sim.heal();
    assert_eq!(after(2).await, Refused, "it is not time yet");
    assert_eq!(after(20).await, Acknowledged);
    store.close().await;
    assert_ne!(after(600).await, Acknowledged, "no probe opens a closed store");
}

#[tokio::test]
async fn a_device_with_occasional_sync_failures_does_not_fill_the_disk() {
    let sim = Sim::new(1);
    let store = open(&sim).await;
    let before = sim.used();
    for second in 0..3_600 {
        if second % 2 == 0 {
            sim.fail_next(Op::Sync, Fault::Io, false);
        }
        append_event(&store).await;
        sim.heal();
        sim.clock().advance(Duration::from_secs(1));
        let _ = store.flush();
    }
    let grown = sim.used() - before;
    assert!(grown < 4 << 20, "{grown} bytes in an hour");
}
