//! A damaged session among those of a workspace: skipped with a notice by a restore, marked in
//! lists, and named by a search that cannot show it.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::store::{Store, local::LocalStore};
use sessionlog_sim::{ManualClock, Sim};

use super::{BANK, append, said};
use crate::{
    engines::small,
    http::house::{House, Plan},
    memory::{search, session},
};

async fn house(sim: &Sim) -> (House, Arc<LocalStore>) {
    let store = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
    let served: Arc<dyn Store> = store.clone();
    (House::over(served, Arc::new(ManualClock::default()), Plan::default()).await, store)
}

/// Records the work of two days, of which the later one is damaged.
async fn two_days() -> Sim {
    let sim = Sim::new(11);
    let (house, store) = house(&sim).await;
    for (id, word) in [("monday", "heron"), ("tuesday", "osprey")] {
        session(&house, id, "/work/bank").await;
        // Large enough for a separate sealed segment.
        let count = if id == "tuesday" { 80 } else { 1 };
        for n in 0..count {
            let text = format!("Count the {word} of day {n} {}", "in whole cents ".repeat(40));
            append(&house, id, json!([said(&text)])).await;
        }
        house.clock.advance(std::time::Duration::from_secs(3_600));
    }
    search(&house, json!({"q": "osprey"})).await;
    store.flush().unwrap();
    house.stop.cancel();
    store.close().await;
    sim.power_loss();
    drop(store);
    let sealed = sim.files().into_iter().find(|path| path.ends_with(".sealed")).unwrap();
    let bytes = sim.read_durable(&sealed).unwrap().len() as u64;
    sim.flip(&sealed, bytes / 2, 3);
    sim
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_latest_session_is_skipped_with_a_notice_and_marked_in_lists() {
    let sim = two_days().await;
    let (house, _store) = house(&sim).await;
    let found = house.post(&format!("{BANK}/restore"), &json!({"create": false})).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let found = found.json();
    assert_eq!(found["continues"], "monday", "{found}");
    let notice = found["notices"][0].as_str().unwrap_or_default();
    assert!(notice.contains("tuesday") && notice.contains("passed over"), "{found}");
    let named = json!({"create": false, "session_id": "tuesday"});
    let refused = house.post(&format!("{BANK}/restore"), &named).await;
    assert_eq!(refused.code(), "session_damaged", "{}", refused.text);
    // The damage is known from now on, and lists report it.
    for (tool, asked) in [("list_sessions", json!({})), ("review_history", json!({}))] {
        let listed = house.post(&format!("/v1/tools/{tool}"), &asked).await.json();
        let sessions = listed["sessions"].as_array().unwrap();
        let marked: Vec<(&Value, bool)> =
            sessions.iter().map(|one| (&one["sessionId"], one.get("damaged").is_some())).collect();
        assert!(marked.contains(&(&json!("tuesday"), true)), "{tool}: {listed}");
        assert!(marked.contains(&(&json!("monday"), false)), "{tool}: {listed}");
    }
    house.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_with_unreadable_hits_is_reported_as_incomplete() {
    let sim = two_days().await;
    let (house, _store) = house(&sim).await;
    let found = search(&house, json!({"q": "+osprey", "limit": 100})).await;
    let complete = &found["complete"];
    assert_eq!(complete["is_complete"], false, "{complete}");
    assert_eq!(complete["sessions_unreadable"], 1, "{complete}");
    let named = &complete["behind"][0];
    assert_eq!((&named["session"], &named["unreadable"]), (&json!("tuesday"), &json!(true)));
    let whole = search(&house, json!({"q": "+heron"})).await;
    assert_eq!(whole["hits"][0]["session"], "monday", "{whole}");
    house.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_over_a_damaged_range_is_returned_without_a_brief() {
    let sim = Sim::new(12);
    let (before, store) = house(&sim).await;
    session(&before, "long", "/work/bank").await;
    for n in 0..90 {
        let text = |at: usize| format!("Count shelf {at} {}", "in whole cents ".repeat(40));
        let batch: Vec<Value> = (0..10).map(|at| said(&text(10 * n + at))).collect();
        append(&before, "long", json!(batch)).await;
    }
    store.flush().unwrap();
    before.stop.cancel();
    store.close().await;
    sim.power_loss();
    drop(store);
    let sealed: Vec<_> = sim.files().into_iter().filter(|path| path.ends_with(".sealed")).collect();
    let middle = &sealed[sealed.len() / 2];
    let bytes = sim.read_durable(middle).unwrap().len() as u64;
    sim.flip(middle, bytes / 2, 3);
    let (house, _store) = house(&sim).await;
    let refused = house.get("/v1/sessions/long/views/continuation").await;
    assert_eq!(refused.code(), "session_damaged", "{}", refused.text);
    let window = house.get("/v1/sessions/long/views/window?tokens_max=2000&format=openai").await;
    assert_eq!(window.status, 200, "{}", window.text);
    assert!(window.text.contains("Count shelf 0 ") && window.text.contains("Count shelf 899 "));
    assert!(!window.text.contains("The log of this session has more"), "{}", window.text);
    house.stop.cancel();
}
