//! The embedded engine over stops of every kind, on the simulated disk.

use sessionlog::{
    env::sim::Sim,
    event::Position,
    store::{Store, local::Local},
};

use crate::engines::{append, batch, create, event, events_of, key, named, small};

#[tokio::test]
async fn acknowledged_events_survive_stops_kills_and_power_losses_in_turn() {
    let sim = Sim::new(7);
    let mut expected = Vec::new();
    for round in 0..24_u32 {
        let store = Local::open_local(&sim.env(), small()).unwrap();
        if round == 0 {
            create(&store, "s").await;
        }
        assert_eq!(events_of(&store, &key("s")).await, expected, "round {round}");
        for n in 0..20_u32 {
            let id = format!("e{round}-{n}");
            let body = format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(200));
            let sent = batch([named(&id, &body), event(&body)]);
            append(&store, &key("s"), sent.clone()).await.unwrap();
            assert!(
                append(&store, &key("s"), batch([sent.events[0].clone()])).await.unwrap().repeated
            );
            if n % 7 == 3 {
                store.settle().unwrap();
            }
            if n == 11 {
                store.idle();
            }
        }
        expected = events_of(&store, &key("s")).await;
        assert_eq!(expected.len() as u32, (round + 1) * 40);
        let verified = store.verify(&sessionlog::event::Scope::local(), None).await.unwrap();
        assert_eq!((verified.events as usize, verified.damage.len()), (expected.len(), 0));
        match round % 3 {
            0 => store.close().await,
            1 => {
                sim.kill();
            }
            _ => {
                sim.power_loss();
            }
        }
        drop(store);
    }
    let store = Local::open_local(&sim.env(), small()).unwrap();
    assert_eq!(store.info(&key("s")).await.unwrap().tail, Position(24 * 40));
    let sealed = sim.files().iter().filter(|name| name.ends_with(".sealed")).count();
    assert!(sealed > 0, "a run of this length seals segments: {:?}", sim.files());
}
