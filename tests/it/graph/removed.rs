//! Entities and relations removed from the graph of a workspace: over HTTP, by a tool and on the
//! command line. Queries show the current graph; the notebook keeps the history.

use serde_json::{Value, json};

use super::{BANK, edges, ids, kept, query, relate};
use crate::{
    cli::with_trip,
    http::house::{House, Reply, over_every_engine},
};

async fn remove(house: &House, path: &str) -> Reply {
    house.call("DELETE", &format!("{BANK}/{path}"), &[], None).await
}

async fn tool(house: &House, name: &str, arguments: Value) -> Reply {
    house.post(&format!("/v1/tools/{name}"), &arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_relation_or_entity_is_in_no_query_and_its_events_stay() {
    over_every_engine(async |house| {
        for id in ["Ada", "Payments", "Ledger"] {
            kept(house, &format!("thing/{id}"), json!({"n": 1})).await;
        }
        let first = relate(house, "Ada", "WORKS_ON", "Payments").await.json();
        relate(house, "Ada", "WORKS_ON", "Ledger").await;
        relate(house, "Payments", "USES", "Ledger").await;
        // A relation ends once, also if the request is repeated.
        let path = format!("relationships/{}", first["id"].as_str().unwrap());
        let [ended, again] = [remove(house, &path).await, remove(house, &path).await];
        assert_eq!((ended.status, ended.json()), (200, again.json()), "{}", ended.text);
        let left = query(house, "relationships", json!({})).await;
        assert_eq!(edges(&left), ["Ada>Ledger", "Payments>Ledger"]);
        // Another workspace has no such relation.
        let other = path.replace("relationships/", "");
        let other = format!("/v1/workspaces/bank/relationships/{other}");
        assert_eq!(house.call("DELETE", &other, &[], None).await.status, 404);
        // Written again it is current again, as another event.
        let second = relate(house, "Ada", "WORKS_ON", "Payments").await.json();
        assert_ne!(second["id"], first["id"]);
        assert_eq!(query(house, "relationships", json!({})).await["total"], 3);
        // Removing an entity by a tool removes its relations.
        let asked = json!({"workspace": "/work/bank", "type": "thing", "id": "Ada"});
        let gone = tool(house, "remove_from_graph", asked.clone()).await;
        assert_eq!(gone.status, 200, "{}", gone.text);
        assert_eq!(tool(house, "remove_from_graph", asked).await.json(), gone.json());
        assert_eq!(edges(&query(house, "relationships", json!({})).await), ["Payments>Ledger"]);
        let left = query(house, "entities", json!({})).await;
        assert_eq!(ids(&left, "entities"), ["Payments", "Ledger"]);
        // It may be written again, without its former properties.
        kept(house, "thing/Ada", json!({"m": 2})).await;
        let found = query(
            house,
            "entities",
            json!({"filters": [
            {"field": "m", "op": "eq", "value": 2}]}),
        )
        .await;
        assert_eq!(found["entities"][0]["properties"], json!({"m": 2}), "{found}");
        assert_eq!(query(house, "relationships", json!({})).await["total"], 1);
        // The history has every event.
        let notebook = first["session"].as_str().unwrap();
        let events = house.get(&format!("/v1/sessions/{notebook}/events?limit=100")).await.json();
        let kinds = events["data"].as_array().unwrap().iter().map(|event| &event["type"]);
        let removals = kinds.filter(|kind| kind.as_str().unwrap().ends_with("_removed")).count();
        assert_eq!(removals, 4, "{events}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_an_unknown_entity_or_relation_is_rejected() {
    over_every_engine(async |house| {
        for path in ["entities/thing/Ada", "relationships/rel_none"] {
            let refused = remove(house, path).await;
            assert_eq!(refused.status, 404, "{path}: {}", refused.text);
        }
        kept(house, "thing/Ada", json!({})).await;
        kept(house, "note/Ada", json!({})).await;
        kept(house, "thing/Book", json!({})).await;
        relate(house, "Ada", "READS", "Book").await;
        assert_eq!(remove(house, "entities/task/Ada").await.status, 404, "another type");
        assert_eq!(remove(house, "entities/1bad/Ada").await.status, 422);
        // An id that another type has as well still ends the relation.
        assert_eq!(remove(house, "entities/note/Ada").await.status, 200);
        assert_eq!(query(house, "relationships", json!({})).await["total"], 1);
    })
    .await;
}

#[test]
fn the_command_line_removes_an_entity_or_a_relation_by_name() {
    let place = with_trip();
    let graph = |more: &[&str]| place.run(&[&["graph", "/w"], more].concat());
    graph(&["--upsert", "task/42"]).ok();
    let related = graph(&["--relate", "42", "OF", "trip", "--json"]).json();
    let removed = graph(&["--remove", related["id"].as_str().unwrap()]).ok();
    assert!(removed.starts_with("removed rel_"), "{removed}");
    assert!(graph(&["--relations"]).err.contains("Nothing matches."));
    graph(&["--remove", "task/42"]).ok();
    assert!(graph(&["--entities", "--source", "told"]).err.contains("Nothing matches."));
    assert!(graph(&["--remove", "task/43"]).err.contains("43"));
}
