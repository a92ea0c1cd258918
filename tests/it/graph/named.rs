//! Entities named in the sessions of a workspace, and its statistics: over HTTP, by tools and on
//! the command line.

use serde_json::{Value, json};
use sessionlog::{access::Grant, event::Timestamp};

use super::{BANK, JSON, field, ids, kept, query};
use crate::{
    access::house::Walled,
    cli::{event, with_trip},
    http::house::{House, PATIENCE, Plan, over_every_engine},
    memory::session,
    say,
};

/// Appends events to a session.
async fn append(house: &House, session: &str, events: Value) {
    let path = format!("/v1/sessions/{session}/events");
    let sent = house.post(&path, &json!({"events": events})).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
}

fn message_event(text: &str) -> Value {
    json!({"type": "agent.message", "content": text, "created_at": "2025-05-01T10:00:00Z"})
}

/// Queries entities once the index is complete.
async fn query_indexed_entities(house: &House, mut asked: Value) -> Value {
    asked["wait_ms"] = json!(60_000);
    let found = query(house, "entities", asked).await;
    assert_eq!(found["complete"]["is_complete"], true, "{found}");
    found
}

fn row<'a>(found: &'a Value, id: &str) -> &'a Value {
    let rows = found["entities"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id}: {found}"))
}

/// Creates two sessions of a workspace, and one of another.
async fn create_sessions(house: &House) {
    for (id, workspace) in [("one", "/work/bank"), ("two", "/work/bank"), ("far", "/work/farm")] {
        session(house, id, workspace).await;
    }
    let call = json!({"type": "agent.tool_use", "name": "Bash", "id": "c1",
        "created_at": "2025-05-01T11:00:00Z",
        "input": {"command": "cd /x && cargo test --locked | tail -3 && git commit -m x"}});
    append(
        house,
        "one",
        json!([
            message_event("I changed src/tax.rs and `round_half`. See https://lib.example/tax"),
            message_event("/work/bank/src/tax.rs again, by Ada Lovelace <ada@lib.example>"),
            call,
        ]),
    )
    .await;
    let mut later =
        message_event("src/tax.rs\nerror[E0308]: mismatched types\n$ npm install left-pad");
    later["created_at"] = json!("2025-05-02T10:00:00Z");
    append(house, "two", json!([later])).await;
    append(house, "far", json!([message_event("src/tax.rs and src/pears.rs")])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_errors_commands_and_people_in_conversations_are_counted() {
    over_every_engine(async |house| {
        create_sessions(house).await;
        let found = query_indexed_entities(house, json!({"source": "extracted"})).await;
        let file = row(&found, "src/tax.rs");
        assert_eq!((&file["type"], &file["source"]), (&json!("file"), &json!("extracted")));
        assert_eq!((&file["sessions"], &file["count"]), (&json!(2), &json!(3)), "{file}");
        assert!(file["first_at"].as_str() <= file["last_at"].as_str(), "{file}");
        assert!(file.get("named_in").is_none(), "not asked for: {file}");
        assert_eq!(ids(&found, "entities")[0], "src/tax.rs", "most sessions name it");
        let found_ids = ids(&found, "entities");
        for (kind, id) in [
            ("symbol", "round_half"),
            ("url", "lib.example/tax"),
            ("person", "Ada Lovelace"),
            ("person", "ada@lib.example"),
            ("command", "cargo test"),
            ("command", "git commit"),
            ("error", "E0308"),
            ("error", "error[E0308]: mismatched types"),
            ("package", "left-pad"),
            ("command", "npm install"),
        ] {
            assert!(found_ids.iter().any(|known| known == id), "{id}: {found_ids:?}");
            let only = query_indexed_entities(house, json!({"types": [kind]})).await;
            assert_eq!(row(&only, id)["type"], kind, "{only}");
            assert!(only["entities"].as_array().unwrap().iter().all(|one| one["type"] == kind));
        }
        assert!(
            !found_ids.contains(&"src/pears.rs".to_owned()),
            "another workspace: {found_ids:?}"
        );
        // Filters and orders can use the counts.
        let asked = json!({"types": ["file", "url"], "sort": [{"field": "count", "order": "desc"}],
            "filters": [{"field": "sessions", "op": "gte", "value": 1}], "limit": 1});
        let most = query_indexed_entities(house, asked).await;
        assert_eq!(
            (ids(&most, "entities"), &most["total"]),
            (vec!["src/tax.rs".to_owned()], &json!(2))
        );
        // The sessions that name it, the latest first.
        let asked = json!({"types": ["file"], "include_sessions": true,
            "filters": [{"field": "id", "op": "eq", "value": "src/tax.rs"}]});
        let named = query_indexed_entities(house, asked).await;
        let sessions = named["entities"][0]["named_in"].as_array().unwrap();
        let of = |n: usize| (sessions[n]["session"].clone(), sessions[n]["count"].clone());
        assert_eq!((of(0), of(1)), ((json!("two"), json!(1)), (json!("one"), json!(2))), "{named}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_written_entity_is_listed_once_with_the_events_that_name_it() {
    over_every_engine(async |house| {
        create_sessions(house).await;
        kept(house, "file/src%2FTax.rs", json!({"owner": "ada"})).await;
        kept(house, "task/42", json!({})).await;
        let all = query_indexed_entities(house, json!({})).await;
        assert_eq!(ids(&all, "entities")[..2], ["src/Tax.rs", "42"], "what is written comes first");
        let file = row(&all, "src/Tax.rs");
        assert_eq!((&file["source"], &file["sessions"]), (&json!("told"), &json!(2)), "{file}");
        assert_eq!(file["properties"]["owner"], "ada", "{file}");
        assert!(!ids(&all, "entities").contains(&"src/tax.rs".to_owned()), "once: {all}");
        assert!(row(&all, "42").get("sessions").is_none(), "{all}");
        let only = query_indexed_entities(house, json!({"source": "extracted"})).await;
        let only = ids(&only, "entities");
        assert!(only.iter().any(|id| id == "src/tax.rs"), "{only:?}");
        assert!(only.iter().all(|id| id != "42" && id != "src/Tax.rs"), "{only:?}");
        let written = query(house, "entities", json!({"source": "told"})).await;
        assert_eq!((&written["total"], written.get("complete")), (&json!(2), None), "{written}");
        let asked = json!({"q": "file:tax.rs ada", "wait_ms": 60_000});
        let found = house.post("/v1/search", &asked).await.json();
        let hits = found["hits"].as_array().unwrap();
        let is_written = |hit: &&Value| hit["type"] == "graph.entity_upserted";
        assert!(hits.iter().any(|hit| is_written(&hit)), "its event is found: {found}");
        let found = house.post("/v1/search", &json!({"q": "42", "wait_ms": 60_000})).await.json();
        assert!(found["hits"].as_array().unwrap().iter().any(|hit| is_written(&hit)), "{found}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_can_be_limited_to_events_that_name_an_entity() {
    let house = House::plain().await;
    create_sessions(&house).await;
    for (asked, expected) in [
        ("symbol:round_half", 1),
        ("command:cargo", 1),
        ("command:\"cargo test\"", 1),
        ("command:\"cargo build\"", 0),
        ("error:E0308", 1),
        ("error:\"error[E0308]\"", 1),
        ("person:\"Ada Lovelace\"", 1),
        ("person:ADA@lib.example", 1),
        ("package:left-pad", 1),
        ("package:right-pad", 0),
        ("file:tax.rs -error:E0308", 3),
    ] {
        let found = house.post("/v1/search", &json!({"q": asked, "wait_ms": 60_000})).await;
        let hits = found.json()["hits"].as_array().unwrap().len();
        assert_eq!(hits, expected, "{asked}: {}", found.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_or_redacted_event_names_no_entity() {
    over_every_engine(async |house| {
        create_sessions(house).await;
        let all = query_indexed_entities(house, json!({"types": ["symbol", "error"]})).await;
        assert!(ids(&all, "entities").contains(&"round_half".to_owned()), "{all}");
        let events = house.get("/v1/sessions/one/events").await.json();
        let id = events["data"][0]["id"].as_str().unwrap();
        let path = format!("/v1/sessions/one/events/{id}/redact");
        assert_eq!(house.call("POST", &path, &[], None).await.status, 200);
        house.call("POST", "/v1/sessions/two/erase", &[], None).await;
        let left = query_indexed_entities(house, json!({"types": ["symbol", "error"]})).await;
        assert_eq!(left["total"], 0, "{left}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_statistics_count_sessions_by_day() {
    over_every_engine(async |house| {
        let empty = house.get(&format!("{BANK}/analytics")).await;
        assert_eq!(
            (empty.status, empty.json()["sessions"].clone()),
            (200, json!(0)),
            "{}",
            empty.text
        );
        create_sessions(house).await;
        let old = json!({"type": "user.message", "content": "we begin with docs/plan.md",
            "created_at": "2025-01-05T10:00:00Z"});
        append(house, "one", json!([old])).await;
        kept(house, "task/42", json!({})).await;
        let path = format!("{BANK}/analytics?wait_ms=60000");
        let found = house.get(&path).await.json();
        assert_eq!((&found["sessions"], &found["events"]), (&json!(2), &json!(5)), "{found}");
        assert_eq!((&found["entities"], &found["relationships"]), (&json!(1), &json!(0)));
        assert_eq!(found["files"][0]["id"], "src/tax.rs", "{found}");
        assert_eq!(found["commands"][0]["sessions"], 1, "{found}");
        assert!((20..150).contains(&found["tokens"].as_u64().unwrap()), "{found}");
        let days = found["days"].as_array().unwrap();
        assert_eq!((days.len(), &days[0]["day"]), (3, &json!("2025-01-05")), "{found}");
        assert_eq!((&days[1]["events"], &days[1]["sessions"]), (&json!(3), &json!(1)), "{found}");
        let path = format!("{path}&since=2025-01-06T00:00:00Z");
        let found = house.get(&path).await.json();
        assert_eq!((&found["events"], found["days"].as_array().unwrap().len()), (&json!(4), 2));
        assert!(!found["files"].to_string().contains("plan.md"), "{found}");
        for (query, named) in [("since=monday", "since"), ("wait_ms=60001", "wait_ms")] {
            let refused = house.get(&format!("{BANK}/analytics?{query}")).await;
            assert_eq!((refused.status, &*field(&refused)), (422, named), "{}", refused.text);
        }
        for asked in [json!({"source": "guessed"}), json!({"source": "all", "wait_ms": 60_001})] {
            let refused = house.post(&format!("{BANK}/entities/query"), &asked).await;
            assert_eq!(refused.status, 422, "{}", refused.text);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_show_the_latest_days_and_the_first_names_and_sessions() {
    let house = House::plain().await;
    session(&house, "one", "/work/bank").await;
    let event = |day: i64| {
        let at = Timestamp(day * 24 * 3_600 * 1_000_000).to_string();
        let text = if day < 12 { format!("see src/a{day}.rs") } else { "on we go".to_owned() };
        json!({"type": "agent.message", "content": text, "created_at": at})
    };
    append(&house, "one", Value::Array((0..370).map(event).collect())).await;
    let found = house.get(&format!("{BANK}/analytics?wait_ms=60000")).await.json();
    let days = found["days"].as_array().unwrap();
    assert_eq!((days.len(), &found["events"]), (366, &json!(370)), "{found}");
    assert_eq!((&days[0]["day"], &days[365]["day"]), (&json!("1970-01-05"), &json!("1971-01-05")));
    assert_eq!(found["files"].as_array().unwrap().len(), 10, "{found}");
    for n in 0..22 {
        let id = format!("many{n}");
        session(&house, &id, "/work/bank").await;
        append(&house, &id, json!([message_event("see src/many.rs")])).await;
    }
    let asked = json!({"types": ["file"], "include_sessions": true, "limit": 1});
    let found = query_indexed_entities(&house, asked).await;
    let file = row(&found, "src/many.rs");
    let named_in = file["named_in"].as_array().unwrap().len();
    assert_eq!((&file["sessions"], named_in), (&json!(22), 20), "{file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_scope_name_no_entity_of_this_one() {
    let walled = Walled::plain().await;
    let ada = walled.token(("acme", "ada"), &[Grant::Read, Grant::Write]);
    let eve = walled.token(("acme", "eve"), &[Grant::Read, Grant::Write]);
    let new = json!({"id": "s", "workspace": "/work/bank",
        "initial_events": [message_event("the vault is src/vault.rs")]});
    assert_eq!(walled.post(&ada, "/v1/sessions", &new).await.status, 201);
    let asked = json!({"wait_ms": 60_000, "include_sessions": true});
    let path = format!("{BANK}/entities/query");
    assert_eq!(walled.post(&ada, &path, &asked).await.json()["total"], 1);
    assert_eq!(walled.post(&eve, &path, &asked).await.json()["total"], 0);
    let path = format!("{BANK}/analytics?wait_ms=60000");
    assert_eq!(walled.get(&ada, &path).await.json()["sessions"], 1);
    assert_eq!(walled.get(&eve, &path).await.json()["sessions"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_written_by_callers_are_listed_without_a_search_index() {
    let engine = crate::engines::all().into_iter().next().unwrap();
    let service = sessionlog::service::Service::new(engine.store.clone(), engine.clock.clone());
    let options = sessionlog::service::SearchOptions { enabled: false, ..Default::default() };
    let plan = Plan { service: Some(service.with_search(options)), ..Plan::default() };
    let house = House::over(engine.store.clone(), engine.clock.clone(), plan).await;
    kept(&house, "task/42", json!({})).await;
    let found = query(&house, "entities", json!({})).await;
    assert_eq!((&found["total"], found.get("complete")), (&json!(1), None), "{found}");
    let asked = json!({"source": "extracted"});
    let refused = house.post(&format!("{BANK}/entities/query"), &asked).await;
    assert_eq!((refused.status, &*field(&refused)), (422, "source"), "{}", refused.text);
    let refused = house.get(&format!("{BANK}/analytics")).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_lists_the_sessions_that_name_a_file() {
    let house = House::plain().await;
    create_sessions(&house).await;
    let here = [JSON, ("sessionlog-session", "one")];
    let asked = json!({"types": ["file"], "source": "extracted", "includeSessions": true});
    let path = "/v1/tools/query_entities";
    let found = house.call("POST", path, &here, Some(asked.to_string().into())).await.json();
    assert_eq!(found["entities"][0]["named_in"].as_array().unwrap().len(), 2, "{found}");
    assert!(found["complete"].is_object() && found["notice"].is_string(), "{found}");
}

#[test]
fn the_command_line_shows_workspace_statistics_in_eighty_columns() {
    let place = with_trip();
    let server = place.serve();
    let made = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = say::http_client().timeout(PATIENCE).build().unwrap();
        let new = json!({"id": "one", "workspace": "/w"});
        client.post(format!("{}/v1/sessions", server.url)).json(&new).send().await.unwrap()
    });
    assert_eq!(made.status().as_u16(), 201);
    let line = format!("src/{}.rs", "very_long_name_of_a_module_".repeat(5));
    let events = [
        event("user.message", &format!("see {line} and docs/plan.md")),
        event("agent.message", "error: the ferry is gone\n$ cargo test"),
    ];
    place.run_with(&["append", "one"], &events.join("\n")).ok();
    let found = place.run(&["graph", "/w"]).ok();
    for words in [
        "/w",
        "1 session, 2 events, ",
        "written: 0 entities, 0 relations",
        "docs/plan.md",
        "error: the ferry is gone",
        "cargo test",
        "Days",
        "###",
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
    assert!(found.lines().all(|line| line.chars().count() <= 80), "{found}");
    let found = place.run(&["graph", "/w", "--json"]).json();
    assert_eq!(found["files"].as_array().unwrap().len(), 2, "{found}");
    let found = place.run(&["graph", "/w", "--type", "file", "--sessions"]).ok();
    assert!(found.contains("in 1 session, 1 event, last "), "{found}");
    assert!(found.contains("- one, 1 event"), "{found}");
    let found = place.run(&["graph", "/w", "--entities", "--source", "told"]);
    assert!(found.err.contains("Nothing matches."), "{found:?}");
    assert_eq!(place.run(&["graph", "/w", "--since", "1h", "--json"]).json()["sessions"], 1);
    assert_eq!(place.run(&["graph", "/w", "--since", "monday"]).code, 2);
}
