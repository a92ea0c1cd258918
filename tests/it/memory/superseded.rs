//! Of items that supersede one another, one is current: also when two callers correct the same one
//! concurrently.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{BANK, insert, list, semantic, session, texts};
use crate::{cli::with_trip, http::house::over_every_engine};

fn superseding(text: &str, of: &Value) -> Value {
    let mut item = semantic(text);
    item["supersedes"] = of["memory_id"].clone();
    item
}

#[tokio::test(flavor = "multi_thread")]
async fn superseding_an_outdated_item_is_rejected_naming_the_current_one() {
    over_every_engine(async |house| {
        session(house, "one", "").await;
        let first = insert(house, "one", semantic("The gate opens at six")).await;
        let second = insert(house, "one", superseding("The gate opens at seven", &first)).await;
        let third = insert(house, "one", superseding("The gate opens at eight", &second)).await;
        let path = "/v1/sessions/one/memory";
        for item in [&first, &second] {
            let refused = house.post(path, &superseding("The gate opens at nine", item)).await;
            assert_eq!(refused.status, 422, "{}", refused.text);
            let error = &refused.json()["error"];
            assert_eq!(error["recovery_hint"]["field"], "supersedes", "{error}");
            let holds = third["memory_id"].as_str().unwrap();
            assert!(error["message"].as_str().unwrap().contains(holds), "{error}");
        }
        assert_eq!(texts(&list(house, path).await), ["The gate opens at eight"]);
        // A forgotten item has no replacement; a retry does not forget twice.
        let forgotten = format!("{path}/{}", third["memory_id"].as_str().unwrap());
        house.call("DELETE", &forgotten, &[], None).await;
        let refused = house.post(path, &superseding("The gate is shut", &third)).await;
        assert!(refused.status == 422 && refused.text.contains("forgotten"), "{}", refused.text);
        let open = insert(house, "one", semantic("The gate is open")).await;
        let keyed = |text: &str| {
            let item = superseding(text, &open);
            let key = [("content-type", "application/json"), ("idempotency-key", "again")];
            async move { house.call("POST", path, &key, Some(item.to_string().into())).await }
        };
        let [once, twice] = [keyed("The gate is ajar").await, keyed("The gate is ajar").await];
        assert_eq!(
            (once.status, once.json()["memory_id"].clone()),
            (200, twice.json()["memory_id"].clone())
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_corrections_of_one_item_exactly_one_succeeds() {
    over_every_engine(async |house| {
        let kept = house.post(BANK, &semantic("The service listens on 8080")).await.json();
        let kept = Arc::new(kept);
        let asked = (0..12).map(|port| {
            let kept = Arc::clone(&kept);
            async move {
                let item = superseding(&format!("The service listens on {port}"), &kept);
                house.post(BANK, &item).await
            }
        });
        let replies = join_all(asked).await;
        let states: Vec<u16> = replies.iter().map(|one| one.status).collect();
        assert_eq!(states.iter().filter(|state| **state == 200).count(), 1, "{states:?}");
        let holds = replies.iter().find(|one| one.status == 200).unwrap().json();
        let named = |text: &str| text.contains(holds["memory_id"].as_str().unwrap());
        let refused = replies.iter().filter(|one| one.status != 200);
        assert!(refused.clone().all(|one| one.status == 422 && named(&one.text)));
        assert_eq!(texts(&list(house, BANK).await).len(), 1);
    })
    .await;
}

#[test]
fn of_two_events_that_supersede_one_item_the_last_is_current() {
    // Possible with a client's own events, or with those of two stores.
    let place = with_trip();
    let item = |id: &str, text: &str, of: Option<&str>| {
        json!({"id": id, "type": "memory.item", "kind": "semantic", "text": text, "supersedes": of})
            .to_string()
    };
    let lines = [
        item("m1", "at six", None),
        item("m2", "at seven", Some("m1")),
        item("m3", "at eight", Some("m1")),
    ];
    place.run_with(&["append", "trip"], &lines.join("\n")).ok();
    let shown = place.run(&["memory", "trip", "--json"]).json();
    assert_eq!(texts(&shown), ["at eight"], "{shown}");
}
