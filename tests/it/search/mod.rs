//! Searching all sessions, over HTTP: acknowledged events are found or their session is reported as
//! not indexed yet; hidden, erased, redacted or foreign ones are not found; filters, pages, errors.

mod aside;
mod kept;
mod meaning;
mod meanwhile;
mod restored;
mod said;
mod turns;
mod words;

use serde_json::{Value, json};
use sessionlog::{
    access::Grant,
    service::{SearchOptions, Service},
};

use crate::{
    access::house::Walled,
    cli::{event, with_trip},
    engines,
    http::house::{House, Plan, over_every_engine},
};

/// Creates a session with messages of a user and an agent in turn.
async fn talk(house: &House, id: &str, workspace: &str, lines: &[&str]) {
    let kinds = ["user.message", "agent.message"];
    let events: Vec<Value> = lines
        .iter()
        .zip(kinds.iter().cycle())
        .map(|(line, kind)| json!({"type": kind, "content": line}))
        .collect();
    let new = json!({"id": id, "title": format!("About {id}"), "workspace": workspace,
        "initial_events": events});
    let created = house.post("/v1/sessions", &new).await;
    assert_eq!(created.status, 201, "{}", created.text);
}

/// Searches until the index is complete.
async fn search(house: &House, asked: Value) -> Value {
    let mut asked = asked;
    asked["wait_ms"] = json!(60_000);
    let found = house.post("/v1/search", &asked).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let found = found.json();
    assert_eq!(found["complete"]["is_complete"], true, "{found}");
    found
}

/// Returns `session position` of each hit.
fn places(found: &Value) -> Vec<String> {
    let hits = found["hits"].as_array().unwrap();
    let place = |hit: &Value| format!("{} {}", hit["session"].as_str().unwrap(), hit["position"]);
    hits.iter().map(place).collect()
}

async fn three(house: &House) {
    let lines = [
        "We deploy the ledger on Fridays at noon",
        "The flush_ledger function in src/store/ledger.rs loses its lock",
        "Nothing else came up",
    ];
    talk(house, "ledger", "/work/bank", &lines).await;
    let lines = ["What did Ada say of the orchard?", "Ada planted 40 pear trees in the orchard"];
    talk(house, "orchard", "/work/farm", &lines).await;
    talk(house, "empty", "/work/farm", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_event_is_a_hit_or_its_session_is_listed_as_behind() {
    over_every_engine(async |house| {
        three(house).await;
        let found = search(house, json!({"q": "pear trees"})).await;
        assert_eq!(places(&found)[0], "orchard 1", "{found}");
        let hit = &found["hits"][0];
        assert_eq!(hit["type"], "agent.message");
        assert_eq!(
            (&hit["title"], &hit["workspace"]),
            (&json!("About orchard"), &json!("/work/farm"))
        );
        assert_eq!(hit["snippet"]["text"], "Ada planted 40 pear trees in the orchard");
        assert_eq!(hit["snippet"]["marks"], json!([[15, 19], [20, 25]]), "{hit}");
        assert_eq!(hit["why"]["words"], 1.0, "{hit}");
        assert_eq!(hit["why"]["whole"], 0.5, "{hit}");
        // The next search finds each append, unless its answer reports the session as behind.
        for n in 0..20 {
            let word = format!("quokka{n}");
            let events = json!({"events": [{"type": "user.message", "content": word}]});
            house.post("/v1/sessions/empty/events", &events).await;
            let found = house.get(&format!("/v1/search?q={word}")).await.json();
            let complete = &found["complete"];
            let is_behind = complete["behind"][0]["session"] == "empty"
                // The store did not list the changed sessions in time, so none can be named.
                || complete["is_complete"] == false && complete["sessions_behind"] == 0;
            let place = format!("empty {n}");
            assert!(places(&found).first() == Some(&place) || is_behind, "{found}");
            let found = search(house, json!({"q": word})).await;
            assert_eq!(places(&found)[0], place, "{found}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_and_parameters_narrow_the_hits() {
    over_every_engine(async |house| {
        three(house).await;
        for (asked, expected) in [
            (json!({"q": "flush ledger"}), vec!["ledger 1", "ledger 0"]),
            (json!({"q": "ledger -lock"}), vec!["ledger 0"]),
            (json!({"q": "+ledger +lock"}), vec!["ledger 1"]),
            (json!({"q": "\"on Fridays\""}), vec!["ledger 0"]),
            (json!({"q": "\"Fridays on\""}), vec![]),
            (json!({"q": "orch* who:user"}), vec!["orchard 0"]),
            (json!({"q": "ada", "who": "agent"}), vec!["orchard 1"]),
            (json!({"q": "type:user.message ledger"}), vec!["ledger 0"]),
            (json!({"q": "ada", "types": ["user.message"]}), vec!["orchard 0"]),
            (json!({"q": "file:src/store/ledger.rs"}), vec!["ledger 1"]),
            (json!({"q": "ledger", "workspace": "/work/farm"}), vec![]),
            (json!({"q": "workspace:farm ada planted"}), vec!["orchard 1", "orchard 0"]),
            (json!({"q": "ada", "session": "ledger"}), vec![]),
            (json!({"q": "session:orchard planted"}), vec!["orchard 1"]),
            (json!({"q": "planted", "before": "2001-01-01T00:00:00Z"}), vec![]),
            (json!({"q": "planted", "origin": "tool"}), vec![]),
            (json!({"session": "orchard", "order": "time"}), vec!["orchard 1", "orchard 0"]),
        ] {
            let mut places = places(&search(house, asked.clone()).await);
            // Neighbours of the hits follow.
            places.truncate(expected.len().max(usize::from(expected.is_empty())));
            assert_eq!(places, expected, "{asked}");
        }
        let query = "/v1/search?q=ada&types[]=user.message&wait_ms=60000";
        assert_eq!(places(&house.get(query).await.json()), ["orchard 0"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_neighbours_show_each_hit_once_within_their_limits() {
    over_every_engine(async |house| {
        let lines: Vec<String> =
            (0..30).map(|n| format!("Line {n} speaks of the heron{}", ".".repeat(n))).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        talk(house, "long", "w", &lines).await;
        let (mut seen, mut asked) = (Vec::new(), json!({"q": "heron", "limit": 7}));
        for _ in 0..5 {
            let found = search(house, asked.clone()).await;
            seen.extend(places(&found));
            asked["page"] = found["next_page"].clone();
        }
        assert_eq!(asked["page"], Value::Null);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 30);
        let found = search(house, json!({"q": "\"Line 12\"", "around": 2})).await;
        let around = found["hits"][0]["around"].as_array().unwrap();
        let beside: Vec<u64> = around.iter().map(|one| one["position"].as_u64().unwrap()).collect();
        assert_eq!(beside, [10, 11, 13, 14], "{found}");
        assert_eq!(found["hits"][0]["range"], json!({"from": 10, "to": 15}));
        // Equal texts of several sessions are one hit.
        for id in ["one", "two", "three"] {
            talk(house, id, "w", &["The egret stands in the reeds", id]).await;
        }
        let found = search(house, json!({"q": "egret reeds"})).await;
        let alike = found["hits"].as_array().unwrap();
        let alike = alike.iter().filter(|hit| hit["position"] == 0);
        let alike: Vec<&Value> = alike.map(|hit| &hit["repeated"]).collect();
        assert_eq!(alike, [2], "{found}");
        let small = search(house, json!({"q": "heron", "tokens_max": 300})).await;
        let hits = small["hits"].as_array().unwrap().len();
        assert!((1..7).contains(&hits) && small["next_page"].is_string(), "{small}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn phrase_matches_come_first_in_the_same_order_on_every_page() {
    over_every_engine(async |house| {
        let lines = [
            "old red gate stands",
            "gate old stands red",
            "stands gate old red",
            "red stands old gate",
            "gate stands red old",
            "stands old, red gate",
            "stands red old gate",
        ];
        talk(house, "gate", "/work/farm", &lines).await;
        let found = search(house, json!({"q": "old red gate stands"})).await;
        // All have the same words; the first has no neighbour before it, and is the oldest.
        assert_eq!(places(&found)[..2], ["gate 0", "gate 5"], "{found}");
        let rows = |at: usize| found["hits"][at]["why"]["row"].as_f64().unwrap();
        assert_eq!((rows(0), rows(1)), (1.0, 0.444), "{found}");
        let score = |at: usize| found["hits"][at]["score"].as_f64().unwrap();
        assert!((1..lines.len()).all(|at| score(at - 1) >= score(at)), "{found}");
        let mut asked = json!({"q": "old red gate stands", "limit": 1});
        let mut pages = Vec::new();
        loop {
            let page = search(house, asked.clone()).await;
            pages.extend(places(&page));
            let Some(next) = page["next_page"].as_str() else { break };
            asked["page"] = json!(next);
        }
        assert_eq!(pages, places(&found));
        let newest = search(house, json!({"q": "old red gate stands", "order": "time"})).await;
        assert_eq!(places(&newest)[0], "gate 6", "{newest}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redacted_events_and_archived_or_deleted_sessions_are_no_hits() {
    over_every_engine(async |house| {
        three(house).await;
        search(house, json!({"q": "ada"})).await;
        // Redacted.
        let events = house.get("/v1/sessions/orchard/events").await.json();
        let id = events["data"][1]["id"].as_str().unwrap().to_owned();
        let redact = format!("/v1/sessions/orchard/events/{id}/redact");
        let redacted = house.call("POST", &redact, &[], None).await;
        assert_eq!(redacted.status, 200, "{}", redacted.text);
        let found = search(house, json!({"q": "pear trees"})).await;
        assert!(!found.to_string().contains("pear"), "{found}");
        assert_eq!(places(&search(house, json!({"q": "ada"})).await), ["orchard 0"]);
        // Archived.
        house.call("POST", "/v1/sessions/ledger/archive", &[], None).await;
        assert!(places(&search(house, json!({"q": "fridays"})).await).is_empty());
        let found = search(house, json!({"q": "fridays", "include_archived": true})).await;
        assert_eq!(places(&found)[0], "ledger 0");
        // Deleted, and restored.
        house.call("DELETE", "/v1/sessions/orchard", &[], None).await;
        assert!(places(&search(house, json!({"q": "ada"})).await).is_empty());
        house.call("POST", "/v1/sessions/orchard/restore", &[], None).await;
        assert_eq!(places(&search(house, json!({"q": "ada"})).await), ["orchard 0"]);
        // Erased.
        let erased = house.call("POST", "/v1/sessions/orchard/erase", &[], None).await;
        assert!(erased.status < 300, "{}", erased.text);
        assert!(places(&search(house, json!({"q": "ada"})).await).is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_shared_by_a_fork_is_one_hit() {
    over_every_engine(async |house| {
        talk(house, "trunk", "w", &["An osprey above", "the river bank", "after the fork"]).await;
        let fork = json!({"id": "branch", "at": "2"});
        let forked = house.post("/v1/sessions/trunk/fork", &fork).await;
        assert!(forked.status < 300, "{}", forked.text);
        let own = json!({"events": [{"type": "user.message", "content": "An osprey of my own"}]});
        house.post("/v1/sessions/branch/events", &own).await;
        let found = search(house, json!({"q": "osprey"})).await;
        let mut all = places(&found);
        all.sort();
        assert_eq!(all[..2], ["branch 2", "trunk 0"], "{found}");
        // Within the fork its shared events are found, and no other event of the parent.
        let mut found = places(&search(house, json!({"q": "osprey", "session": "branch"})).await);
        found.retain(|place| place != "trunk 1");
        found.sort();
        assert_eq!(found, ["branch 2", "trunk 0"]);
        let after = search(house, json!({"q": "\"after the fork\"", "session": "branch"})).await;
        assert!(places(&after).is_empty(), "{after}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_deleted_session_is_a_hit_of_the_oldest_fork_that_has_it() {
    over_every_engine(async |house| {
        talk(house, "trunk", "w", &["An osprey above", "the river bank", "a heron", "an owl"])
            .await;
        for (fork, at) in [("early", "2"), ("late", "3")] {
            let new = json!({"id": fork, "at": at});
            assert!(house.post("/v1/sessions/trunk/fork", &new).await.status < 300);
        }
        let place = async |words: &str, session: Option<&str>| {
            let found = search(house, json!({"q": format!("+{words}"), "session": session})).await;
            places(&found).join(", ")
        };
        // Deleted before it was searched: the index reads its events through its forks.
        assert_eq!(house.call("DELETE", "/v1/sessions/trunk", &[], None).await.status, 200);
        assert_eq!(place("osprey", None).await, "early 0");
        assert_eq!(place("osprey", Some("late")).await, "late 0");
        assert_eq!(place("heron", None).await, "late 2");
        assert_eq!(place("heron", Some("early")).await, "");
        assert_eq!(place("owl", None).await, "", "no fork has it");
        assert_eq!(house.call("DELETE", "/v1/sessions/early", &[], None).await.status, 200);
        assert_eq!(place("osprey", None).await, "late 0");
        assert_eq!(house.post("/v1/sessions/trunk/restore", &json!({})).await.status, 200);
        assert_eq!(place("osprey", None).await, "trunk 0");
        assert_eq!(place("owl", None).await, "trunk 3");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_scope_are_no_hits_and_change_no_score() {
    let walled = Walled::plain().await;
    let ada = walled.token(("acme", "ada"), &[Grant::Read, Grant::Write]);
    let eve = walled.token(("acme", "eve"), &[Grant::Read, Grant::Write]);
    let mut scores = Vec::new();
    for round in 0..2 {
        let event = |n: usize| json!({"type": "user.message", "content": format!("vault {n}")});
        let events: Vec<Value> = (0..10).map(event).collect();
        let (who, id) = if round == 0 { (&ada, "mine") } else { (&eve, "theirs") };
        let new = json!({"id": id, "initial_events": events});
        assert_eq!(walled.post(who, "/v1/sessions", &new).await.status, 201);
        let asked = json!({"q": "vault 3", "wait_ms": 60_000});
        let found = walled.post(&ada, "/v1/search", &asked).await.json();
        assert!(places(&found).iter().all(|place| place.starts_with("mine ")), "{found}");
        assert_eq!(found["complete"]["is_complete"], true);
        scores.push(found["hits"].clone());
    }
    // A foreign scope does not change how rare a word is either.
    assert_eq!(scores[0], scores[1]);
    let asked = json!({"q": "vault", "session": "theirs"});
    assert_eq!(walled.post(&ada, "/v1/search", &asked).await.status, 404);
    let write_only = walled.token(("acme", "bob"), &[Grant::Write]);
    assert_eq!(walled.get(&write_only, "/v1/search?q=x").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_query_is_rejected_with_an_error_naming_its_parameter() {
    let house = House::plain().await;
    for (asked, field) in [
        (json!({}), "q"),
        (json!({"q": ""}), "q"),
        (json!({"q": "\"never closed"}), "q"),
        (json!({"q": "x".repeat(5_000)}), "q"),
        (json!({"q": "after:whenever x"}), "q"),
        (json!({"q": "x", "limit": 0}), "limit"),
        (json!({"q": "x", "limit": 101}), "limit"),
        (json!({"q": "x", "around": 6}), "around"),
        (json!({"q": "x", "order": "best"}), "order"),
        (json!({"q": "x", "page": "abc"}), "page"),
        (json!({"q": "x", "wait_ms": 60_001}), "wait_ms"),
        (json!({"q": "x", "origin": "robot"}), "origin"),
        (json!({"q": "x", "before": "noon"}), "created_at[lt]"),
        (json!({"q": "x", "types": ["A B"]}), "types[]"),
    ] {
        let refused = house.post("/v1/search", &asked).await;
        assert_eq!(refused.status, 422, "{asked}: {}", refused.text);
        assert_eq!(refused.code(), "invalid_request", "{asked}");
        let hint = refused.json()["error"]["recovery_hint"]["field"].clone();
        assert_eq!(hint, field, "{asked}: {}", refused.text);
    }
    let unknown = house.post("/v1/search", &json!({"q": "x", "session": "none"})).await;
    assert_eq!((unknown.status, unknown.code()), (404, "session_not_found".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_searches_past_sessions_with_a_tool() {
    over_every_engine(async |house| {
        let lines = ["Which port does staging use?", "Staging listens on 8443 behind the proxy"];
        talk(house, "past", "w", &lines).await;
        search(house, json!({"q": "staging"})).await;
        let asked = json!({"query": "8443", "limit": 1});
        let found = house.post("/v1/tools/memory_search", &asked).await.json();
        let block = &found["blocks"][0];
        assert_eq!((&block["sessionId"], &block["position"]), (&json!("past"), &json!(1)));
        assert_eq!(block["around"], json!(["0 user.message: Which port does staging use?"]));
        assert_eq!(found["trust"], "untrusted-external-content");
        assert_eq!(found["complete"]["is_complete"], true);
        let refused = house.post("/v1/tools/memory_search", &json!({"query": ""})).await;
        assert_eq!(refused.json()["error"]["recovery_hint"]["field"], "query", "{}", refused.text);
    })
    .await;
}

#[test]
fn a_user_searches_on_the_command_line() {
    let place = with_trip();
    place.run_with(&["append", "trip"], &event("user.message", "Book the ferry to Texel")).ok();
    let found = place.run(&["search", "ferry", "texel", "--around", "1", "--wait", "60s"]).ok();
    for words in ["trip 3", "user, user.message", "Book the ferry to Texel", "2 agent.tool_use: f"]
    {
        assert!(found.contains(words), "{words}: {found}");
    }
    let found = place.run(&["search", "ferry", "--json", "--session", "trip"]).json();
    assert_eq!(found["hits"][0]["position"], 3, "{found}");
    let nothing = place.run(&["search", "unicorn"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (0, ""), "{nothing:?}");
    assert!(nothing.err.contains("No event has"), "{nothing:?}");
    for (arguments, exit) in [
        (vec!["search"], 2),
        (vec!["search", "\"open"], 1),
        (vec!["search", "x", "--since", "?"], 2),
    ] {
        assert_eq!(place.run(&arguments).code, exit, "{arguments:?}");
    }
}

/// Reads a figure from the metrics.
async fn figure(house: &House, name: &str) -> u64 {
    let text = house.get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_and_redacted_events_leave_the_index_before_the_verb_returns() {
    over_every_engine(async |house| {
        three(house).await;
        search(house, json!({"q": "ada"})).await;
        let passages = "sessionlog_search_passages";
        assert_eq!(figure(house, passages).await, 5);
        house.call("POST", "/v1/sessions/orchard/erase", &[], None).await;
        assert_eq!(figure(house, passages).await, 3);
        let events = house.get("/v1/sessions/ledger/events").await.json();
        let redact = async |at: usize| {
            let id = events["data"][at]["id"].as_str().unwrap();
            let path = format!("/v1/sessions/ledger/events/{id}/redact");
            house.call("POST", &path, &[], None).await;
        };
        redact(1).await;
        // All passages of its session are removed, and the remaining events are indexed again.
        search(house, json!({"q": "ledger"})).await;
        assert_eq!(figure(house, passages).await, 2);
        redact(0).await;
        redact(2).await;
        assert_eq!(figure(house, passages).await, 0);
        search(house, json!({"q": "ledger"})).await;
        assert_eq!(figure(house, passages).await, 0);
        assert_eq!(figure(house, "sessionlog_search_events_behind").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_search_turned_off_reports_it() {
    let engine = engines::all().into_iter().next().unwrap();
    let service = Service::new(engine.store.clone(), engine.clock.clone());
    let off = SearchOptions { enabled: false, ..SearchOptions::default() };
    let plan = Plan { service: Some(service.with_search(off)), ..Plan::default() };
    let house = House::over(engine.store.clone(), engine.clock.clone(), plan).await;
    let refused = house.get("/v1/search?q=x").await;
    assert_eq!((refused.status, refused.code()), (422, "invalid_request".to_owned()));
    assert!(refused.text.contains("the setting search"), "{}", refused.text);
}
