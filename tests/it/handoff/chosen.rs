//! Saved items in a restore: those that a user marked, those related to the request; the rest is
//! counted, and one figure is the share of returned items.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::service::Service;

use super::{append, ok, said};
use crate::{
    engines,
    http::house::{House, Plan, over_every_engine},
    memory::session,
};

const PATH: &str = "/v1/sessions/one/events";

/// Returns items of one importance, none related to another.
fn items(count: usize, importance: u8) -> Vec<Value> {
    const SUBJECTS: [&str; 8] =
        ["gravel", "orchard", "ledger", "turbine", "heron", "basalt", "quarry", "lantern"];
    let of = |n: usize| {
        let content = format!("{} {n} stands at dock {}", SUBJECTS[n % 8], n * 3);
        json!({"id": format!("i{n}"), "category": "data", "content": content,
            "importance": importance})
    };
    (0..count).map(of).collect()
}

async fn saved(house: &House, items: Vec<Value>) {
    session(house, "one", "/work/bank").await;
    ok(house, "/save", json!({"session_id": "one", "context_items": items})).await;
}

async fn mark(house: &House, event: &str, body: Value) {
    let marked = house.post(&format!("{PATH}/{event}/mark"), &body).await;
    assert_eq!(marked.status, 200, "{}", marked.text);
}

fn given(found: &Value) -> Vec<&str> {
    let items = found["context_items"].as_array().unwrap();
    items.iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// Returns the number of items of a class that were left out.
fn left(found: &Value, class: &str) -> u64 {
    let all = found["left_out"].as_array().unwrap();
    let one = all.iter().find(|one| one["class"] == class);
    one.map_or(0, |one| one["count"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn omitted_items_and_state_are_counted_as_left_out() {
    over_every_engine(async |house| {
        let mut all = items(120, 7);
        // These are below the threshold: they were not requested.
        all.iter_mut().take(24).for_each(|item| item["importance"] = json!(1));
        saved(house, all).await;
        let state = json!({"settings": "x ".repeat(9_000)});
        ok(house, "/save", json!({"session_id": "one", "workspace_state": state})).await;
        for (asked, count) in [
            (json!({"tokens_max": 20_000}), 50),
            (json!({"tokens_max": 20_000, "max_context_items": 90}), 90),
            (json!({"tokens_max": 20_000, "max_context_items": 0}), 0),
        ] {
            let mut asked = asked;
            asked["create"] = json!(false);
            let found = ok(house, "/restore", asked.clone()).await;
            assert_eq!(given(&found).len(), count, "{asked}");
            assert_eq!(left(&found, "context_items"), 96 - count as u64, "{asked}: {found}");
            assert_eq!(left(&found, "workspace_state"), 1, "{asked}");
            let text = found["context"].as_str().unwrap();
            assert!(text.contains(&format!("{} context_items", 96 - count)), "{text}");
        }
        let all = json!({"tokens_max": 200_000, "max_context_items": 500, "create": false,
            "priority_threshold": 0});
        let all = ok(house, "/restore", all).await;
        assert_eq!((given(&all).len(), &all["left_out"]), (120, &json!([])), "all is given");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_preservation_is_the_share_of_held_items_in_the_response() {
    over_every_engine(async |house| {
        saved(house, items(78, 7)).await;
        let long = format!("Keep the harbour open. {}", "Each berth has a number. ".repeat(70));
        append(
            house,
            "one",
            json!([
                said("Move the ledger to the new quay"),
                said(&long),
                {"type": "plan.updated", "steps": [{"text": "Count the berths", "state": "pending"}]},
            ]),
        )
        .await;
        let ask = async |tokens: u64, items: u64| {
            let asked = json!({"tokens_max": tokens, "max_context_items": items, "create": false});
            ok(house, "/restore", asked).await["preservation"].clone()
        };
        // Task, instruction, step of the plan and 78 items.
        let all = ask(100_000, 500).await;
        assert_eq!(all, json!({"held": 81, "told": 81, "share": 1.0}));
        let few = ask(100_000, 6).await;
        assert_eq!((&few["held"], &few["told"]), (&json!(81), &json!(9)), "{few}");
        assert_eq!(few["share"], 0.11, "nine of 81, each whole");
        // A cut text counts by its remaining part.
        let cut = ask(640, 0).await;
        assert_eq!(cut["told"], 3, "{cut}");
        assert!(cut["share"].as_f64() <= Some(0.03), "{cut}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_marked_by_a_user_comes_first_with_the_importance_of_its_mark() {
    over_every_engine(async |house| {
        let mut all = items(81, 10);
        all[40]["importance"] = json!(1);
        saved(house, all).await;
        let events = house.get(&format!("{PATH}?limit=100")).await.json();
        let event = &events["data"][40];
        assert_eq!(event["item_id"], "i40", "{event}");
        mark(house, event["id"].as_str().unwrap(), json!({"mark": "important"})).await;
        for algorithm in ["hybrid", "recency", "importance", "vector"] {
            let asked = json!({"algorithm": algorithm, "create": false, "explain": true,
                "tokens_max": 4_000});
            let found = ok(house, "/restore", asked).await;
            let first = &found["context_items"][0];
            assert_eq!(first["id"], "i40", "{algorithm}: {first}");
            assert_eq!((&first["importance"], &first["score"]), (&json!(10), &json!(100)));
            let parts = first["parts"].as_object().unwrap();
            let sum: u64 = parts.values().map(|part| part.as_u64().unwrap()).sum();
            assert_eq!(sum, 100, "{algorithm}: {first}");
            assert_eq!(parts["importance"], 30, "{algorithm}: {first}");
        }
        // A lower mark raises an item by less.
        let other = events["data"][41]["id"].as_str().unwrap();
        mark(house, other, json!({"mark": "important", "importance": 4})).await;
        let asked = json!({"create": false, "tokens_max": 20_000, "max_context_items": 100});
        let found = ok(house, "/restore", asked).await;
        let items = found["context_items"].as_array().unwrap();
        let item = items.iter().find(|item| item["id"] == "i41").unwrap();
        assert_eq!(item["importance"], 10, "its own importance is higher: {item}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_marked_by_a_user_are_returned_at_the_smallest_budgets() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let mut events = vec![said("Rebuild the tide table")];
        for n in 0..40 {
            let text = format!("Berth {n} takes {} ships of line L{n}. ", n * 11);
            events.push(said(&format!("Look at berth {n}: {}", text.repeat(4))));
            events.push(json!({"type": "agent.message", "content": text.repeat(8)}));
        }
        let ids = append(house, "one", json!(events)).await;
        let (of_user, of_agent) = (5, 12);
        for at in [of_user, of_agent] {
            mark(house, &ids[at], json!({"mark": "important"})).await;
        }
        for tokens in [1_000, 2_000] {
            let asked = json!({"tokens_max": tokens, "create": false});
            let found = ok(house, "/restore", asked).await;
            let text = found["context"].as_str().unwrap();
            for wanted in ["Look at berth 2:", "Berth 5 takes 55 ships"] {
                assert!(text.contains(wanted), "{tokens} {wanted}: {text}");
            }
            let view = format!("/v1/sessions/one/views/continuation?tokens_max={tokens}");
            let text = house.get(&view).await.text;
            for wanted in ["Look at berth 2:", "Berth 5 takes 55 ships"] {
                assert!(text.contains(wanted), "{tokens} {wanted}: {text}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_marked_message_of_a_long_session_is_returned() {
    // Facts are the same over every engine.
    for engine in engines::all().into_iter().take(1) {
        let service = Service::new(Arc::clone(&engine.store), engine.clock.clone());
        let plan = Plan { service: Some(service.clone()), ..Plan::default() };
        let house = &House::over(engine.store, engine.clock, plan).await;
        session(house, "one", "/work/bank").await;
        let mut events = vec![said("Rebuild the tide table")];
        let details = |n: usize, who: &str| {
            let line = |k: usize| format!("{who} {n}.{k} moves {} tons past gate G{n}", n * 7 + k);
            (0..12).map(line).collect::<Vec<_>>().join("; ")
        };
        for n in 0..150 {
            events.push(said(&format!("Now at pier {n}: {}", details(n, "crane"))));
            events.push(json!({"type": "agent.message", "content": details(n, "barge")}));
        }
        let ids = append(house, "one", json!(events)).await;
        // The user's message whole, and a line of the agent's.
        let wanted = |n: usize| {
            let line: String = details(n, "barge").chars().take(100).collect();
            [details(n, "crane"), line]
        };
        let mut marked = Vec::new();
        // One at a time, each long after the facts dropped the message.
        for n in [3, 20, 61] {
            for at in [1 + 2 * n, 2 + 2 * n] {
                mark(house, &ids[at], json!({"mark": "important"})).await;
            }
            marked.push(n);
            let asked = json!({"tokens_max": 16_000, "create": false});
            let found = ok(house, "/restore", asked).await;
            let text = found["context"].as_str().unwrap();
            for whole in marked.iter().flat_map(|n| wanted(*n)) {
                assert!(text.contains(&whole), "{marked:?} {whole}: {text}");
            }
        }
        let view = "/v1/sessions/one/views/continuation?tokens_max=8000";
        let before = house.get(view).await.text;
        for n in &marked {
            for line in [format!("crane {n}.0 moves"), format!("barge {n}.0 moves")] {
                assert!(before.contains(&line), "{line}: {before}");
            }
        }
        // Folded again, with or without the later events, the same messages are kept.
        append(house, "one", json!([said("Now the last pier")])).await;
        let warm = house.get(view).await.text;
        service.evict_facts();
        assert_eq!(house.get(view).await.text, warm);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_similar_to_the_request_is_returned_with_its_similarity() {
    let request = "Now mend the rounding of the Danish tax on invoices";
    let about = "The Danish tax is rounded on each line of invoices, not on the sum";
    // The request is the user's latest message, the client's description of the work, or the
    // message of the session in which the caller works.
    for way in ["said", "saved", "caller"] {
        over_every_engine(async |house| {
            let mut all = items(81, 8);
            all[0] = json!({"id": "tax", "category": "concept", "content": about, "importance": 4});
            saved(house, all).await;
            let mut asked = json!({"tokens_max": 8_000, "create": false, "explain": true});
            match way {
                "said" => drop(append(house, "one", json!([said(request)])).await),
                "saved" => {
                    let save = json!({"session_id": "one", "conversation_context": request});
                    ok(house, "/save", save).await;
                }
                _ => {
                    session(house, "two", "/work/bank").await;
                    append(house, "two", json!([said(request)])).await;
                    asked["session_id"] = json!("one");
                    asked["successor_id"] = json!("two");
                }
            }
            let hybrid = ok(house, "/restore", asked.clone()).await;
            assert_eq!(given(&hybrid).len(), 50);
            let items = hybrid["context_items"].as_array().unwrap();
            let item = items.iter().find(|item| item["id"] == "tax");
            let item = item.unwrap_or_else(|| panic!("{way}: {:?}", given(&hybrid)));
            assert!(item["parts"]["relevance"].as_u64() > Some(15), "{way}: {item}");
            asked["algorithm"] = json!("vector");
            let vector = ok(house, "/restore", asked).await;
            assert_eq!(given(&vector)[0], "tax", "{way}");
            let alike: Vec<f64> = vector["context_items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["similarity"].as_f64().unwrap())
                .collect();
            assert!(alike[0] > 0.3 && alike.is_sorted_by(|a, b| a >= b), "{way}: {alike:?}");
        })
        .await;
    }
}
