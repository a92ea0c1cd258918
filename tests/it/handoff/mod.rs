//! A session saved and restored by its successor: saved, restored within a budget, and the chain of
//! both; over HTTP, by tools and on the command line.

mod chosen;
mod clients;
mod damaged;
mod doors;
mod extractors;
mod moved;
mod paths;

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    http::house::{House, over_every_engine},
    memory::session,
};

pub const BANK: &str = "/v1/workspaces/%2Fwork%2Fbank";

/// Appends events and returns their ids.
pub async fn append(house: &House, id: &str, events: Value) -> Vec<String> {
    let sent = house.post(&format!("/v1/sessions/{id}/events"), &json!({"events": events})).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let data = sent.json()["data"].as_array().unwrap().clone();
    data.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

async fn ok(house: &House, path: &str, body: Value) -> Value {
    let answer = house.post(&format!("{BANK}{path}"), &body).await;
    assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text);
    answer.json()
}

async fn events(house: &House, session: &str) -> Vec<Value> {
    let found = house.get(&format!("/v1/sessions/{session}/events")).await;
    assert_eq!(found.status, 200, "{}", found.text);
    found.json()["data"].as_array().unwrap().clone()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn said(text: &str) -> Value {
    json!({"type": "user.message", "content": text})
}

fn answered(text: &str) -> Value {
    json!({"type": "agent.message", "content": text})
}

/// Returns the events of a shell call and its result.
fn ran(id: &str, command: &str, output: &str, is_error: bool) -> [Value; 2] {
    [
        json!({"type": "agent.tool_use", "call_id": id, "name": "Bash", "input": {"command": command}}),
        json!({"type": "agent.tool_result", "call_id": id, "content": output, "is_error": is_error}),
    ]
}

fn edited(id: &str, path: &str) -> [Value; 2] {
    [
        json!({"type": "agent.tool_use", "call_id": id, "name": "Edit",
            "input": {"file_path": path, "old_string": "a", "new_string": "b"}}),
        json!({"type": "agent.tool_result", "call_id": id, "content": "ok"}),
    ]
}

/// Returns work on a shop: an instruction, a plan, a failing test, an edited file.
fn work() -> Vec<Value> {
    let mut work = vec![
        said("Count the money of the shop in cents"),
        said("Round the tax half up at 19 percent"),
        json!({"type": "plan.updated", "steps": [
            {"text": "Read prices without floats", "state": "completed"},
            {"text": "Round the tax", "state": "in_progress"}]}),
    ];
    work.extend(edited("c1", "price.py"));
    work.extend(ran("c2", "pytest -q", "FAILED test_tax.py::test_tax - 9 != 10", true));
    work.push(answered("The float cuts 1.15 to 114, so the text is read."));
    work
}

/// Returns all parts of the answer to a restore as one text.
fn given(answer: &Value) -> String {
    let parts = ["context", "context_items", "file_references", "workspace_state"];
    parts.map(|name| answer[name].to_string()).join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_is_one_batch_and_a_restore_gives_it_to_the_successor() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        append(house, "one", json!(work())).await;
        let saved = ok(
            house,
            "/save",
            json!({
                "session_id": "one",
                "conversation_context": "The tax is being rounded. Prices are read as text.",
                "token_count": 1_234,
                "context_items": [
                    {"category": "concept", "content": "Cents are whole numbers", "importance": 9},
                    {"category": "code", "content": "fn cents(text) { 114 }", "importance": 2},
                ],
                "file_references": [{"path": "src/./tax.py", "hash": "blake3:00"}],
                "workspace_state": {"active_project": "shop", "enabled_mcps": ["sessionlog"]},
            }),
        )
        .await;
        assert_eq!((&saved["session_id"], &saved["is_new"]), (&json!("one"), &json!(false)));
        let all = events(house, "one").await;
        let new = &all[work().len()..];
        let expected =
            ["context.item", "context.item", "file.referenced", "workspace.state", "session.saved"];
        assert_eq!(kinds(new), expected);
        assert_eq!(new[2]["path"], "src/tax.py", "{}", new[2]);
        let said = json!({"tokens": 1_234, "items": 2, "files": 1});
        for (name, value) in said.as_object().unwrap() {
            assert_eq!(new[4][name], *value, "{}", new[4]);
        }
        let points = house.get("/v1/sessions/one/checkpoints").await.json();
        assert_eq!(points["data"][0]["label"], "saved", "{points}");
        assert_eq!(points["data"][0]["id"], saved["checkpoint"]);

        let found = ok(house, "/restore", json!({"tokens_max": 4_000})).await;
        let next = found["session_id"].as_str().unwrap().to_owned();
        assert_eq!(found["continues"], "one");
        assert_eq!(found["position"], saved["position"]);
        let all = given(&found);
        for fact in [
            "Count the money of the shop in cents",
            "Round the tax half up at 19 percent",
            "[ ] Round the tax (in progress)",
            "test_tax.py::test_tax",
            "price.py",
            "The float cuts 1.15 to 114",
            "Prices are read as text",
            "Cents are whole numbers",
            "src/tax.py",
            "active_project",
        ] {
            assert!(all.contains(fact), "{fact}: {all}");
        }
        // Below the threshold of 3.
        assert!(!all.contains("fn cents"), "{all}");
        assert_eq!(found["context_items"][0]["importance"], 9);
        assert_eq!(found["file_references"][0]["status"], "unchecked");
        assert!(found["tokens"].as_u64() <= Some(4_000), "{found}");

        // The successor begins with the restored content.
        let first = events(house, &next).await;
        assert_eq!(kinds(&first), ["session.restored"]);
        assert_eq!(first[0]["from"], json!({"session": "one", "position": saved["position"]}));
        assert!(first[0]["chosen"].as_array().is_some_and(|all| !all.is_empty()));
        let about = house.get(&format!("/v1/sessions/{next}")).await.json();
        assert_eq!(about["workspace"], "/work/bank", "{about}");
        assert_eq!(about["metadata"], json!({}), "the link is hidden: {about}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_is_the_sum_of_its_listed_parts() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let items = json!([
            {"category": "concept", "content": "Cents are whole numbers", "importance": 9},
            {"category": "code", "content": "fn cents(text) { 114 }", "importance": 2},
        ]);
        ok(house, "/save", json!({"session_id": "one", "context_items": items.clone()})).await;
        let low = json!({"priority_threshold": 0, "create": false, "explain": true});
        let low = ok(house, "/restore", low).await;
        assert!(given(&low).contains("fn cents"), "{low}");
        let item = &low["context_items"][0];
        let parts = item["parts"].as_object().unwrap();
        for name in ["importance", "relevance", "recency", "frequency", "specificity", "category"] {
            assert!(parts.contains_key(name), "{name}: {item}");
        }
        let sum: u64 = parts.values().map(|part| part.as_u64().unwrap()).sum();
        assert_eq!(Some(sum), item["score"].as_u64(), "{item}");
        // A repeated save raises the score of an item.
        let of = |found: &Value| {
            let items = found["context_items"].as_array().unwrap();
            let item = items.iter().find(|item| item["content"] == "fn cents(text) { 114 }");
            item.unwrap_or_else(|| panic!("{found}"))["parts"]["frequency"].as_u64().unwrap()
        };
        let before = of(&low);
        let again = json!({"session_id": "one", "context_items": [items[1]]});
        ok(house, "/save", again).await;
        let asked = json!({"priority_threshold": 0, "create": false, "explain": true});
        let after = of(&ok(house, "/restore", asked).await);
        assert!(after > before, "{before} {after}");
        assert!(low["why"].as_array().is_some_and(|why| !why.is_empty()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_without_content_uses_the_events_of_the_log() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        append(house, "one", json!(work())).await;
        // A later session of the workspace has no work, and one of another workspace has.
        session(house, "empty", "/work/bank").await;
        session(house, "farm", "/work/farm").await;
        append(house, "farm", json!([said("Plant the pears in March")])).await;
        let found = ok(house, "/restore", json!({})).await;
        assert_eq!(found["continues"], "one", "the latest with work: {found}");
        let saved = ok(house, "/save", json!({})).await;
        assert_eq!((&saved["session_id"], &saved["items"]), (&json!("one"), &json!(0)), "{saved}");
        // A saved session precedes one that was written to later.
        house.clock.advance(Duration::from_secs(60));
        session(house, "two", "/work/bank").await;
        append(house, "two", json!([said("Paint the door of the shop green")])).await;
        let found = ok(house, "/restore", json!({"create": false})).await;
        assert_eq!(found["continues"], "one", "{found}");
        assert!(found["notices"][0].as_str().unwrap().contains("session two"), "{found}");
        assert!(found.get("session_id").is_none());
        let named = ok(house, "/restore", json!({"session_id": "two", "create": false})).await;
        assert!(given(&named).contains("door of the shop green"), "{named}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_without_a_session_is_saved_in_the_latest_session_or_a_new_one() {
    over_every_engine(async |house| {
        let content = json!({"conversation_context": "We chose Postgres 16 for the ledger."});
        let saved = ok(house, "/save", content.clone()).await;
        assert_eq!(saved["is_new"], true, "there is no work: {saved}");
        let first = saved["session_id"].clone();
        let found = ok(house, "/restore", json!({"create": false})).await;
        assert_eq!(found["continues"], first);

        house.clock.advance(Duration::from_secs(60));
        session(house, "one", "/work/bank").await;
        append(house, "one", json!(work())).await;
        let headers = [("content-type", "application/json"), ("Idempotency-Key", "save-1")];
        let save = async || {
            let body = Some(content.to_string().into_bytes());
            house.call("POST", &format!("{BANK}/save"), &headers, body).await.json()
        };
        let saved = save().await;
        assert_eq!((&saved["is_new"], &saved["session_id"]), (&json!(false), &json!("one")));
        let found = ok(house, "/restore", json!({"create": false})).await;
        assert_eq!(found["continues"], "one", "{found}");
        let given = given(&found);
        for words in ["We chose Postgres 16", "money of the shop", "test_tax"] {
            assert!(given.contains(words), "{words}: {found}");
        }
        // A retry saves the same as its first call, despite later events.
        house.clock.advance(Duration::from_secs(60));
        session(house, "two", "/work/bank").await;
        append(house, "two", json!([said("Paint the door")])).await;
        let again = save().await;
        assert_eq!((&again["session_id"], &again["position"]), (&json!("one"), &saved["position"]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_effect_keeps_the_order_of_sessions() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        append(house, "one", json!(work())).await;
        house.clock.advance(Duration::from_secs(60));
        session(house, "two", "/work/bank").await;
        append(house, "two", json!([said("Paint the door of the shop green")])).await;
        let of = async |id: &str| house.get(&format!("/v1/sessions/{id}")).await.json();
        let call = async |method: &str, path: &str, body: &Value| {
            let json = [("content-type", "application/json")];
            let body = Some(body).filter(|body| !body.is_null()).map(ToString::to_string);
            let path = format!("/v1/sessions/one{path}");
            house.call(method, &path, &json, body.map(String::into_bytes)).await
        };
        let named = json!({"title": "Bank", "metadata": {"ward": "north"}});
        house.post("/v1/sessions/one", &named).await;
        append(house, "two", json!([answered("It is green.")])).await;
        let before = of("one").await;
        house.clock.advance(Duration::from_secs(60));
        for (method, path, body) in [
            ("POST", "/restore", json!(null)),
            ("DELETE", "/hold", json!(null)),
            ("POST", "/unarchive", json!(null)),
            ("POST", "", named.clone()),
            ("POST", "", json!({"metadata": {"nothing": null}})),
        ] {
            let answer = call(method, path, &body).await;
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
            let after = of("one").await;
            assert_eq!(after["updated_at"], before["updated_at"], "{method} {path}");
        }
        let held = call("PUT", "/hold", &Value::Null).await.json();
        house.clock.advance(Duration::from_secs(60));
        call("PUT", "/hold", &Value::Null).await;
        assert_eq!(of("one").await["updated_at"], held["updated_at"], "held already");
        call("DELETE", "/hold", &Value::Null).await;
        append(house, "two", json!([answered("And the window.")])).await;
        call("POST", "/restore", &Value::Null).await;
        let found = ok(house, "/restore", json!({"create": false})).await;
        assert_eq!(found["continues"], "two", "{found}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_returns_current_facts_and_no_withdrawn_ones() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let mut all = work();
        all.extend(ran("c3", "pytest -q", "FAILED test_price.py::test_price - 1 != 2", true));
        all.extend(ran("c4", "pytest -q test_tax.py", "1 passed", false));
        all.extend(edited("c5", "stock.py"));
        all.extend(ran("c6", "git checkout stock.py", "", false));
        all.push(json!({"type": "research.gap_opened", "gap_id": "g1",
            "description": "Which currency does a receipt name?"}));
        all.push(json!({"type": "research.gap_opened", "gap_id": "g2",
            "description": "Does the export keep trailing zeros?"}));
        all.push(json!({"type": "research.gap_closed", "gap_id": "g1"}));
        all.push(answered("The heron ledger nests in Riga7."));
        let ids = append(house, "one", json!(all)).await;
        let path = format!("/v1/sessions/one/events/{}/mark", ids.last().unwrap());
        let marked = house.post(&path, &json!({"mark": "wrong"})).await;
        assert_eq!(marked.status, 200, "{}", marked.text);
        let item = |text: &str, importance: u8| {
            json!({"context_items": [{"id": "port", "category": "data", "content": text,
                "importance": importance}], "session_id": "one"})
        };
        ok(house, "/save", item("Staging listens on 8080", 9)).await;
        ok(house, "/save", item("Staging listens on 8443", 7)).await;
        let found = ok(house, "/restore", json!({"tokens_max": 8_000})).await;
        let context = found["context"].as_str().unwrap();
        let (_, failing) = context.split_once("Still failing:").unwrap();
        let failing = failing.split("\n\n").next().unwrap();
        let failing = failing.split(":\n").next().unwrap();
        assert!(failing.contains("test_price"), "{context}");
        assert!(!failing.contains("test_tax.py::test_tax"), "{context}");
        assert!(context.contains("Does the export keep trailing zeros?"), "{context}");
        assert!(!context.contains("Which currency"), "{context}");
        assert!(!context.contains("Riga7"), "{context}");
        let items = found["context_items"].to_string();
        assert!(items.contains("8443") && !items.contains("8080"), "{items}");
        let files = found["file_references"].as_array().unwrap();
        let change = |path: &str| {
            let file = files.iter().find(|file| file["path"] == path);
            file.unwrap_or_else(|| panic!("{path}: {files:?}"))["change"].clone()
        };
        assert_eq!((change("price.py"), change("stock.py")), (json!("changed"), json!("reverted")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_has_facts_of_the_whole_chain_and_links_both_ways() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let mut first = work();
        first.push(json!({"type": "research.step", "number": 1,
            "description": "The ledger rounds to 7 digits"}));
        append(house, "one", json!(first)).await;
        let two = ok(house, "/restore", json!({})).await["session_id"].clone();
        let two = two.as_str().unwrap();
        let mut second = vec![said("Call the release Kingfisher")];
        second.extend(ran("d1", "pytest -q", "2 passed", false));
        // Step numbers restart: this revises nothing of the previous session.
        second.push(json!({"type": "research.step", "number": 2, "revises": 1,
            "description": "The export keeps zeros"}));
        append(house, two, json!(second)).await;
        // The successor has more facts than the session.
        let three = ok(house, "/restore", json!({"tokens_max": 6_000})).await;
        assert_eq!(three["continues"], two, "{three}");
        let all = given(&three);
        for fact in [
            "Count the money of the shop in cents",
            "Round the tax half up at 19 percent",
            "Call the release Kingfisher",
            "The ledger rounds to 7 digits",
            "The export keeps zeros",
            "price.py",
            "(S1@1)",
        ] {
            assert!(all.contains(fact), "{fact}: {all}");
        }
        assert!(!all.contains("Still failing"), "mended in the second: {all}");
        let three = three["session_id"].as_str().unwrap();
        let chain = house.get(&format!("{BANK}/chain?session={two}")).await.json();
        let ids: Vec<&str> = chain["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|link| link["session"]["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["one", two, three], "{chain}");
        assert_eq!(chain["data"][1]["continues"], "one");
        assert_eq!(chain["data"][1]["continued_by"], json!([three]));
        assert_eq!(chain["data"][1]["continues_from"], first.len(), "{chain}");
        // A removed session of the chain ends it, and its content is removed with it.
        let gone = house.call("DELETE", "/v1/sessions/one", &[], None).await;
        assert_eq!(gone.status, 200, "{}", gone.text);
        let asked = json!({"session_id": two, "create": false});
        let all = given(&ok(house, "/restore", asked).await);
        assert!(all.contains("Kingfisher") && !all.contains("19 percent"), "{all}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_and_repeated_restores_create_one_successor() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        append(house, "one", json!(work())).await;
        let asked = json!({"session_id": "one", "tokens_max": 3_000});
        let path = format!("{BANK}/restore");
        let writes = async {
            for n in 0..20 {
                append(house, "one", json!([answered(&format!("Note {n}"))])).await;
            }
        };
        let (first, second, ()) =
            tokio::join!(house.post(&path, &asked), house.post(&path, &asked), writes);
        let (first, second) = (first.json(), second.json());
        assert_eq!(first["session_id"], second["session_id"], "{first} {second}");
        let next = first["session_id"].as_str().unwrap();
        let again = ok(house, "/restore", asked.clone()).await;
        assert_eq!(again["session_id"], next);
        assert_eq!(again["position"], work().len() as u64 + 20);
        assert_eq!(ok(house, "/restore", asked.clone()).await, again, "a repeat");
        let chain = house.get(&format!("{BANK}/chain?session=one")).await.json();
        assert_eq!(chain["data"][0]["continued_by"], json!([next]), "{chain}");
        // Once it has work, another session continues the same one.
        append(house, next, json!([said("Paint it green")])).await;
        let other = ok(house, "/restore", asked).await;
        assert_ne!(other["session_id"], next);
        assert_eq!(other["continues"], "one");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_by_an_active_session_continues_in_it() {
    over_every_engine(async |house| {
        for id in ["one", "own", "far"] {
            session(house, id, "/work/bank").await;
        }
        append(house, "one", json!(work())).await;
        append(house, "far", json!([said("Feed the hens at 6")])).await;
        append(house, "own", json!([said("go on with the shop")])).await;
        let into = |from: &str| json!({"session_id": from, "successor_id": "own"});
        let found = ok(house, "/restore", into("one")).await;
        assert_eq!(found["session_id"], "own");
        assert_eq!(kinds(&events(house, "own").await), ["user.message", "session.restored"]);
        ok(house, "/restore", into("one")).await;
        assert_eq!(events(house, "own").await.len(), 2, "a repeat writes nothing");
        // It continues only one session, and no cycle is created.
        let other = ok(house, "/restore", into("far")).await;
        assert!(other["notices"][0].as_str().unwrap().contains("nothing was linked"), "{other}");
        let circle = json!({"session_id": "own", "successor_id": "one"});
        let circle = ok(house, "/restore", circle).await;
        assert!(circle["notices"][0].as_str().unwrap().contains("nothing was linked"));
        // The session itself, after its context was lost: it continues unchanged.
        let same = ok(house, "/restore", into("own")).await;
        assert_eq!((&same["session_id"], &same["continues"]), (&json!("own"), &json!("own")));
        assert_eq!(events(house, "own").await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_never_exceeded() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        for turn in 0..60 {
            let text =
                format!("Decision {turn}: vault{turn} holds {} coins of lot L{turn}. ", turn * 7);
            append(house, "one", json!([said(&text.repeat(4)), answered(&text.repeat(9))])).await;
        }
        let items: Vec<Value> = (0..60)
            .map(|n| {
                let content = format!("// note {n}\nlet  vault{n} = {n};\n\n\n").repeat(20);
                json!({"category": "code", "content": content, "importance": 3 + n % 8})
            })
            .collect();
        let state = json!({"settings": "x".repeat(3_000)});
        let save = json!({"session_id": "one", "context_items": items, "workspace_state": state,
            "file_references": (0..90).map(|n| json!({"path": format!("src/f{n}.rs")}))
                .collect::<Vec<_>>()});
        ok(house, "/save", save).await;
        let mut before = 0;
        for tokens in [600, 1_000, 2_000, 8_000, 32_000, 10_000_000] {
            let found = ok(house, "/restore", json!({"tokens_max": tokens, "create": false})).await;
            let most = tokens.min(200_000);
            assert_eq!(found["tokens_max"], most);
            let spent = found["tokens"].as_u64().unwrap();
            assert!(spent <= most, "{spent} of {tokens}");
            // The text, and the members next to it.
            let count = |text: &str| bpe_openai::o200k_base().count(text) as u64;
            let items = found["context_items"].as_array().unwrap().iter();
            let items: u64 = items.map(|item| count(item["content"].as_str().unwrap())).sum();
            let counted = count(found["context"].as_str().unwrap_or_default()) + items;
            assert!(counted <= spent, "{tokens}: {counted} counted, {spent} said");
            assert!(spent >= before, "{tokens}");
            before = spent;
            assert!(found["context_items"].as_array().unwrap().len() <= 50);
        }
        let few = json!({"max_context_items": 2, "tokens_max": 32_000, "create": false});
        assert_eq!(ok(house, "/restore", few).await["context_items"].as_array().unwrap().len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_input_is_rejected_with_the_name_of_its_field() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        for (path, body, field) in [
            ("/restore", json!({"tokens_max": 0}), "tokens_max"),
            ("/restore", json!({"tokens_max": 599}), "tokens_max"),
            ("/restore", json!({"priority_threshold": 11}), "priority_threshold"),
            ("/restore", json!({"max_context_items": 501}), "max_context_items"),
            ("/restore", json!({"algorithm": "astrology"}), "algorithm"),
            ("/restore", json!({"session_id": "no such"}), "session_id"),
            (
                "/save",
                json!({"context_items": [{"category": "code", "content": " "}]}),
                "context_items[0].content",
            ),
            (
                "/save",
                json!({"context_items": [{"category": "code", "content": "x",
                "importance": 11}]}),
                "context_items[0].importance",
            ),
            (
                "/save",
                json!({"file_references": [{"path": "../../etc/passwd"}]}),
                "file_references[0].path",
            ),
            ("/save", json!({"file_references": [{"path": "a\u{0}b"}]}), "file_references[0].path"),
            ("/save", json!({"workspace_state": {"a": "x".repeat(70_000)}}), "workspace_state"),
        ] {
            let refused = house.post(&format!("{BANK}{path}"), &body).await;
            assert_eq!(refused.code(), "invalid_request", "{body}: {}", refused.text);
            let named = &refused.json()["error"]["recovery_hint"]["field"];
            assert_eq!(*named, field, "{}", refused.text);
        }
        for (path, body) in [
            ("/v1/workspaces/nowhere/restore", json!({})),
            ("/v1/workspaces/nowhere/save", json!({})),
            ("/v1/workspaces/nowhere/restore", json!({"session_id": "one"})),
            ("/v1/workspaces/nowhere/save", json!({"session_id": "one"})),
        ] {
            let refused = house.post(path, &body).await;
            assert_eq!((refused.status, refused.code().as_str()), (404, "session_not_found"));
        }
        assert_eq!(house.get("/v1/workspaces/nowhere/chain").await.code(), "session_not_found");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_shortened_only_as_far_as_the_budget_requires() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let line =
            "// adds the rate of the year to the price of the shop\nlet  price  =  base;\n\n\n";
        let code = format!("{}let rate = 19;", line.repeat(40));
        let bare = "let price = base;\n\n".len() * 40 + "let rate = 19;".len();
        let items = json!([{"category": "code", "content": code, "importance": 9}]);
        ok(house, "/save", json!({"session_id": "one", "context_items": items})).await;
        let mut forms = Vec::new();
        for tokens in [700, 1_000, 1_500, 1_900, 2_200, 2_700, 8_000] {
            let asked = json!({"tokens_max": tokens, "create": false});
            let found = ok(house, "/restore", asked).await;
            let item = &found["context_items"][0];
            let content = item["content"].as_str().unwrap_or_default();
            let form = item["form"].as_str().unwrap_or("whole").to_owned();
            match form.as_str() {
                "whole" => assert_eq!(content, code),
                "squeezed" => assert!(content.contains("// adds") && !content.contains("  ")),
                "bare" => assert!(!content.contains("// adds") && content.contains("price = base")),
                // Shortened without its comments, and as long as the budget allows.
                _ => assert!(!content.contains("// adds") && content.len() < bare, "{form}"),
            }
            forms.push(form);
            let whole = json!({"tokens_max": tokens, "create": false, "summarize": false});
            let whole = ok(house, "/restore", whole).await;
            let items = whole["context_items"].as_array().unwrap();
            assert!(items.iter().all(|item| item["content"] == code.as_str()), "{tokens}");
        }
        let mut order = forms.clone();
        order.dedup();
        let known = ["line", "short", "bare", "squeezed", "whole"];
        let places: Vec<usize> =
            order.iter().map(|form| known.iter().position(|one| one == form).unwrap()).collect();
        assert!(places.is_sorted(), "{forms:?}");
        assert!(
            order.contains(&"bare".to_owned()) && order.contains(&"whole".to_owned()),
            "{forms:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_does_not_fit_is_cut_to_the_remaining_budget() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let line = |n: usize| format!("# step {n} of the audit\ntotal_{n} = ledger[{n}].cents()\n");
        let code: String = (0..200).map(line).collect();
        let words: String =
            (0..400).map(|n| format!("The auditor asked  for entry {n}. ")).collect();
        for (name, asked) in [
            (
                "code",
                json!({"context_items": [{"category": "code", "content": code, "importance": 9}]}),
            ),
            ("words", json!({"conversation_context": words})),
        ] {
            let mut asked = asked;
            asked["session_id"] = json!("one");
            ok(house, "/save", asked).await;
            for tokens in [1_000, 1_500, 2_200] {
                let asked = json!({"tokens_max": tokens, "create": false});
                let found = ok(house, "/restore", asked).await;
                let used = found["tokens"].as_u64().unwrap();
                assert!(used <= tokens && used + tokens / 10 > tokens, "{name} {tokens}: {used}");
                // The text is cut after needless white space was removed.
                let text = found["context"].as_str().unwrap();
                assert!(!text.contains("asked  for"), "{tokens}: {text}");
                assert!(name == "code" || text.contains("asked for"), "{tokens}: {text}");
            }
        }
        let found = ok(house, "/restore", json!({"tokens_max": 2_000, "create": false})).await;
        assert!(!found["context_items"].to_string().contains("# step"), "{found}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn budget_shares_depend_on_the_kind_of_the_session() {
    over_every_engine(async |house| {
        for id in ["code", "talk"] {
            session(house, id, "/work/bank").await;
            let messages: Vec<Value> = (0..60)
                .map(|n| {
                    answered(&format!("Heron{n} of lot L{n} nests at {} in harbour{n}.", n * 7))
                })
                .collect();
            append(house, id, json!(messages)).await;
            let category = if id == "code" { "code" } else { "concept" };
            let items: Vec<Value> = (0..60)
                .map(|n| {
                    let content = format!("let vault{n} = open(\"lot{n}\", {n});");
                    json!({"category": category, "content": content, "importance": 9})
                })
                .collect();
            ok(house, "/save", json!({"session_id": id, "context_items": items})).await;
        }
        let ask = async |session: &str, tokens: u64| {
            let asked = json!({"session_id": session, "tokens_max": tokens, "create": false});
            ok(house, "/restore", asked).await["budget"].clone()
        };
        let code = ask("code", 3_000).await;
        let percents = ["code", "conversation", "metadata"].map(|name| &code[name]["percent"]);
        assert_eq!(percents, [&json!(60), &json!(30), &json!(10)]);
        // Context items would use all of it, and the conversation has its share nevertheless.
        let talk = code["conversation"]["tokens"].as_u64().unwrap();
        assert!(talk >= 600, "{code}");
        let talk = ask("talk", 3_000).await;
        let percents = ["conversation", "metadata"].map(|name| &talk[name]["percent"]);
        assert_eq!(percents, [&json!(70), &json!(30)], "{talk}");
        // Another share uses the unused part of one.
        assert!(talk["conversation"]["tokens"].as_u64() > Some(2_100), "{talk}");
    })
    .await;
}
