//! A device whose syncs fail, now and then or for a while: when the store stops to take writes,
//! and when it takes them again.

use std::time::Duration;

use sessionlog::store::{Store, StoreError, local::Local};
use sessionlog_sim::{Fault, Op, Sim};

use crate::engines::{append, batch, create, event, key, small};

/// Outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Append {
    Acknowledged,
    Failed,
    /// The disk is not tried: the store takes no writes.
    Refused,
}
use Append::{Acknowledged, Failed, Refused};

async fn write(store: &Local) -> Append {
    match append(store, &key("s"), batch([event("{}")])).await {
        Ok(_) => Acknowledged,
        Err(StoreError::ReadOnly { .. }) => Refused,
        Err(_) => Failed,
    }
}

async fn open(sim: &Sim) -> Local {
    let store = Local::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    store
}

/// A store in which two syncs failed in a row: the first in the file that was there, the second in
/// the next, after so many calls that make one.
async fn broken() -> (Sim, Local) {
    for call in 1..60 {
        let sim = Sim::new(1);
        let store = open(&sim).await;
        for call in [0, call] {
            sim.fail_call(sim.calls() + call, Fault::Io, false);
            assert_ne!(write(&store).await, Refused);
            sim.heal();
        }
        if write(&store).await == Refused {
            return (sim, store);
        }
    }
    panic!("no call writes to the next file");
}

#[tokio::test]
async fn after_two_failed_syncs_writes_are_refused_until_a_probe_of_the_disk_succeeds() {
    let (sim, store) = broken().await;
    sim.fail_writing("", Fault::Io);
    let after = async |seconds| {
        sim.clock().advance(Duration::from_secs(seconds));
        let _ = store.flush();
        write(&store).await
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
async fn a_device_whose_syncs_fail_now_and_then_does_not_fill_the_disk() {
    let sim = Sim::new(1);
    let store = open(&sim).await;
    let before = sim.used();
    for second in 0..3_600 {
        if second % 2 == 0 {
            sim.fail_next(Op::Sync, Fault::Io, false);
        }
        write(&store).await;
        sim.heal();
        sim.clock().advance(Duration::from_secs(1));
        let _ = store.flush();
    }
    let grown = sim.used() - before;
    assert!(grown < 4 << 20, "{grown} bytes in an hour");
}
