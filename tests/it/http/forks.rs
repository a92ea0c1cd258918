//! Forks over HTTP: created, read across the boundary in every way, listed, compared, and the
//! effect of erasing a parent on them.

use serde_json::{Value, json};

use super::house::{House, kind, numbers, over_every_engine};

/// Creates a session of ten events, and a fork of it at six with three events after it.
async fn forked(house: &House) {
    house.session("s", 10).await;
    let asked = json!({"at": "6", "id": "f", "title": "another way"});
    let made = house.post("/v1/sessions/s/fork", &asked).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let fork = made.json();
    assert_eq!(fork["forked_from"], json!({"session": "s", "position": 6}));
    let bytes = json!("another way".len());
    assert_eq!((&fork["tail"], &fork["bytes"]), (&json!(6), &bytes), "no event is copied");
    assert_eq!(fork["title"], "another way");
    let events: Vec<Value> =
        (100..103).map(|n| json!({"type": kind(n), "id": format!("f{n}"), "n": n})).collect();
    let said = house.post("/v1/sessions/f/events", &json!({ "events": events })).await;
    assert_eq!(said.json()["first_position"], 6, "{}", said.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_read_across_the_boundary_by_every_point_page_and_order() {
    over_every_engine(async |house| {
        forked(house).await;
        for (query, expected) in [
            ("", vec![0, 1, 2, 3, 4, 5, 100, 101, 102]),
            ("?from=event:e4", vec![4, 5, 100, 101, 102]),
            ("?from=event:e4&to=event:f101", vec![4, 5, 100]),
            ("?from=-4", vec![5, 100, 101, 102]),
            ("?around=6&before=2&after=1", vec![4, 5, 100, 101]),
            ("?order=desc&limit=4", vec![102, 101, 100, 5]),
            ("?from=action:agent.message/2", vec![3, 4, 5, 100, 101, 102]),
            ("?types[]=agent.message", vec![0, 3, 102]),
            ("?from=time:2000-01-01T00:00:00Z", vec![0, 1, 2, 3, 4, 5, 100, 101, 102]),
        ] {
            let slice = house.get(&format!("/v1/sessions/f/events{query}")).await;
            assert_eq!(slice.status, 200, "{query}: {}", slice.text);
            assert_eq!(numbers(&slice.json()), expected, "{query}");
        }
        let (mut page, mut seen) = (String::new(), Vec::new());
        loop {
            let slice = house.get(&format!("/v1/sessions/f/events?limit=2{page}")).await.json();
            seen.extend(numbers(&slice));
            let Some(next) = slice["next_page"].as_str() else { break };
            page = format!("&page={next}");
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 100, 101, 102]);
        let missing = house.get("/v1/sessions/f/events?from=event:e7").await;
        assert_eq!(missing.code(), "point_not_found", "what lies above is not its own");
        let export = house.get("/v1/sessions/f/export").await.text;
        assert_eq!(export.lines().count(), 9, "{export}");
        assert_eq!(numbers(&house.get("/v1/sessions/s/events").await.json()).len(), 10);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_and_a_long_poll_continue_from_inherited_to_own_events_of_a_fork() {
    over_every_engine(async |house| {
        forked(house).await;
        let path = "/v1/sessions/f/events/stream?from=4";
        let mut answer = house.send("GET", path, &[], None).await;
        let waiting = house.get("/v1/sessions/f/events?from=9&wait_ms=20000");
        let event = json!({"events": [{"type": "user.message", "n": 200}]});
        let said = house.post("/v1/sessions/f/events", &event);
        let (waited, said) = tokio::join!(waiting, said);
        assert_eq!(said.status, 200);
        assert_eq!(numbers(&waited.json()), [200]);
        let mut text = String::new();
        while text.matches("\nid: ").count() < 6 {
            let next = tokio::time::timeout(super::house::PATIENCE, answer.chunk()).await;
            text.push_str(std::str::from_utf8(&next.unwrap().unwrap().unwrap()).unwrap());
        }
        let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        assert_eq!(ids, ["4", "5", "6", "7", "8", "9"], "{text}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_at_an_unknown_point_is_rejected_and_creates_nothing() {
    over_every_engine(async |house| {
        house.session("s", 3).await;
        for (asked, status, code) in [
            (json!({"at": "4"}), 404, "point_not_found"),
            (json!({"at": "event:none"}), 404, "point_not_found"),
            (json!({"at": "here"}), 422, "invalid_request"),
            (json!({"at": 3.5}), 422, "invalid_request"),
            (json!({}), 422, "invalid_request"),
            (json!({"at": "end", "id": "s"}), 409, "session_exists"),
            (json!({"at": "end", "id": "../x"}), 422, "invalid_request"),
            (json!({"at": "end", "title": "x".repeat(600)}), 422, "invalid_request"),
        ] {
            let refused = house.post("/v1/sessions/s/fork", &asked).await;
            assert_eq!((refused.status, &*refused.code()), (status, code), "{asked}");
        }
        let nobody = house.post("/v1/sessions/nobody/fork", &json!({"at": "end"})).await;
        assert_eq!((nobody.status, &*nobody.code()), (404, "session_not_found"));
        let listed = house.get("/v1/sessions").await.json();
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(1));
        let key = [("content-type", "application/json"), ("idempotency-key", "once")];
        let mut ids = Vec::new();
        for _ in 0..2 {
            let body = Some(json!({"at": "end"}).to_string().into_bytes());
            let made = house.call("POST", "/v1/sessions/s/fork", &key, body).await;
            ids.push(made.json()["id"].clone());
            house.post("/v1/sessions/s/events", &json!({"events": [{"type": "a.b"}]})).await;
        }
        assert_eq!(ids[0], ids[1], "asked for again with its key it is the same fork");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_is_listed_and_an_erased_parent_removes_its_part_of_the_prefix() {
    over_every_engine(async |house| {
        forked(house).await;
        house.post("/v1/sessions/f/fork", &json!({"at": "8", "id": "g"})).await;
        let family = house.get("/v1/sessions/f/lineage").await.json();
        assert_eq!((&family["depth"], &family["forks"]), (&json!(1), &json!(1)), "{family}");
        assert_eq!(family["ancestors"][0]["id"], "s");
        assert_eq!(family["ancestors"][0]["position"], 6);
        assert_eq!(family["children"][0]["id"], "g");
        assert_eq!(family["children"][0]["position"], 8);
        assert_eq!(family["children"][0]["stage"], "alive");
        // The cached facts of the fork must be removed when its parent is erased.
        let ask = json!({"sessionId": "g"});
        assert_eq!(house.post("/v1/tools/get_research_session", &ask).await.status, 200);
        let erased = house.call("POST", "/v1/sessions/f/erase", &[], None).await;
        assert_eq!(erased.status, 200, "{}", erased.text);
        let refused = house.get("/v1/sessions/g/events").await;
        assert_eq!((refused.status, &*refused.code()), (410, "prefix_erased"), "{}", refused.text);
        let missing = &refused.json()["error"]["recovery_hint"]["missing"][0];
        assert_eq!((&missing["from"], &missing["to"]), (&json!(6), &json!(8)));
        let view = house.post("/v1/tools/get_research_session", &ask).await;
        assert_eq!((view.status, &*view.code()), (410, "prefix_erased"), "{}", view.text);
        let below = house.get("/v1/sessions/g/events?to=6").await.json();
        assert_eq!(numbers(&below), [0, 1, 2, 3, 4, 5], "its own parent's stays");
        let gaps = house.get("/v1/sessions/g/events?allow_gaps=true").await.json();
        assert_eq!((&gaps["gaps"][0]["from"], &gaps["gaps"][0]["to"]), (&json!(6), &json!(8)));
        let family = house.get("/v1/sessions/g/lineage").await.json();
        assert_eq!(family["ancestors"][0]["stage"], "erased", "{family}");
        assert_eq!(family["ancestors"][0]["title"], Value::Null);
        let event = json!({"events": [{"type": "user.message", "n": 1}]});
        assert_eq!(house.post("/v1/sessions/g/events", &event).await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_an_erased_session_closes_no_list_of_sessions_and_keeps_no_lease() {
    over_every_engine(async |house| {
        let asked = json!({"id": "par", "workspace": "/work/w"});
        assert_eq!(house.post("/v1/sessions", &asked).await.status, 201);
        let said = |text: &str| json!({"events": [{"type": "user.message", "content": text}]});
        house.post("/v1/sessions/par/events", &said("mend the roof")).await;
        house.post("/v1/sessions/par/fork", &json!({"at": "end", "id": "kid"})).await;
        for n in 0..3 {
            house.post("/v1/sessions/kid/events", &said(&format!("tile {n}"))).await;
        }
        house.post("/v1/sessions/kid/checkpoints", &json!({"label": "roof"})).await;
        let erased = house.call("POST", "/v1/sessions/par/erase", &[], None).await;
        assert_eq!(erased.status, 200, "{}", erased.text);
        // What is whole of it is read to its last event.
        for (query, status) in [("order=desc&limit=3", 200), ("order=desc&limit=4", 410)] {
            let slice = house.get(&format!("/v1/sessions/kid/events?{query}")).await;
            assert_eq!(slice.status, status, "{query}: {}", slice.text);
        }
        let usage = house.get("/v1/usage").await;
        assert_eq!((usage.status, &usage.json()["complete"]), (200, &json!(false)));
        let history = house.get("/v1/history").await;
        assert_eq!(history.status, 200, "{}", history.text);
        for (path, body) in [
            ("/v1/workspaces/%2Fwork%2Fw/start", json!({})),
            ("/v1/tools/review_history", json!({})),
            ("/v1/tools/query_entities", json!({"workspace": "/work/w"})),
        ] {
            let reply = house.post(path, &body).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        }
        for path in ["/v1/sessions/kid/wake", "/v1/sessions/kid/resume"] {
            let body = json!({"ttl_seconds": 86_400, "wake": {"ttl_seconds": 86_400}});
            let refused = house.post(path, &body).await;
            let is_refused = refused.status >= 400;
            let said = house.post("/v1/sessions/kid/events", &said("more")).await;
            assert!(is_refused && said.status == 200, "{path}: {} {}", refused.text, said.text);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_behind_the_last_event_is_refused_wherever_a_place_of_it_is_named() {
    over_every_engine(async |house| {
        house.session("s", 2).await;
        for view in ["index", "usage", "threads", "window", "continuation", "compactions"] {
            let reply = house.get(&format!("/v1/sessions/s/views/{view}?at=3")).await;
            assert_eq!((reply.status, &*reply.code()), (404, "point_not_found"), "{view}");
            let reply = house.get(&format!("/v1/sessions/s/views/{view}?at=2")).await;
            assert_eq!(reply.status, 200, "{view}: {}", reply.text);
        }
        let json = [("content-type", "application/json")];
        for (method, path) in [("POST", "fork"), ("POST", "checkpoints"), ("PUT", "cursors/x")] {
            let body = Some(json!({"at": "3"}).to_string().into_bytes());
            let reply = house.call(method, &format!("/v1/sessions/s/{path}"), &json, body).await;
            assert_eq!((reply.status, &*reply.code()), (404, "point_not_found"), "{path}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_names_the_first_event_that_happened_then_not_the_one_recorded_then() {
    over_every_engine(async |house| {
        let at = |minute: u64, text: &str| {
            json!({"type": "user.message", "content": text,
                "created_at": format!("2020-05-01T09:{minute:02}:00Z")})
        };
        let events: Vec<Value> = (0..60).map(|minute| at(minute, "go")).collect();
        for part in events.chunks(20) {
            house.post("/v1/sessions/s/events?create=true", &json!({"events": part})).await;
        }
        for (time, position) in [
            ("2020-05-01T08:00:00Z", 0),
            ("2020-05-01T09:30:00Z", 30),
            ("2020-05-01T09:30:01Z", 31),
            ("2020-05-01T10:00:00Z", 60),
        ] {
            let slice = house.get(&format!("/v1/sessions/s/events?from=time:{time}")).await.json();
            assert_eq!(numbers_of(&slice), (position..60).collect::<Vec<_>>(), "{time}");
            let slice = house.get(&format!("/v1/sessions/s/events?to=time:{time}")).await.json();
            assert_eq!(numbers_of(&slice), (0..position).collect::<Vec<_>>(), "{time}");
            let at = json!({"at": format!("time:{time}")});
            let fork = house.post("/v1/sessions/s/fork", &at).await;
            assert_eq!(fork.json()["tail"], position, "{time}");
        }
    })
    .await;
}

fn numbers_of(slice: &Value) -> Vec<u64> {
    let positions = slice["data"].as_array().unwrap().iter();
    positions.map(|event| event["position"].as_u64().unwrap()).collect()
}

async fn step(house: &House, number: u64, more: Value) {
    let mut step = json!({"sessionId": "r", "searchStep": format!("step {number}"),
        "stepNumber": number, "nextStepNeeded": true});
    for (name, value) in more.as_object().unwrap() {
        step[name] = value.clone();
    }
    let made = house.post("/v1/tools/sequential_search", &step).await;
    assert_eq!(made.status, 200, "{}", made.text);
}

/// Returns the positions that a window at a point shows: all below it except omitted ones.
async fn seen(house: &House, at: u64, plan: &str) -> Vec<u64> {
    let window = house.get(&format!("/v1/sessions/w/views/window?at={at}&{plan}")).await.json();
    let dropped: Vec<(u64, u64)> = window["dropped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|range| (range["from"].as_u64().unwrap(), range["to"].as_u64().unwrap()))
        .collect();
    (0..at).filter(|at| !dropped.iter().any(|(from, to)| (*from..*to).contains(at))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_shows_window_content_of_only_one_point() {
    over_every_engine(async |house| {
        assert_eq!(house.post("/v1/sessions", &json!({"id": "w"})).await.status, 201);
        let words = "the quick brown fox jumps over the lazy dog ".repeat(4);
        let events: Vec<Value> = (0..40)
            .map(|n| {
                let kind = if n % 2 == 0 { "user.message" } else { "agent.message" };
                json!({"type": kind, "content": format!("{n} {words}")})
            })
            .collect();
        let sent = house.post("/v1/sessions/w/events", &json!({"events": events})).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
        for plan in [
            "tokens_max=700",
            "tokens_max=700&format=anthropic",
            "tokens_max=900&transforms[]=filter:types=user.message",
        ] {
            let ask = format!("/v1/sessions/w/diff?from=12&to=end&{plan}");
            let found = house.get(&ask).await.json()["window"].clone();
            let other = ask.replace("from=12&to=end", "from=end&to=12");
            assert_eq!(found, house.get(&other).await.json()["window"], "in either order");
            let places = |name: &str| -> Vec<u64> {
                let ranges = found[name]["data"].as_array().unwrap();
                let all = ranges.iter().flat_map(|range| {
                    range["from"].as_u64().unwrap()..range["to"].as_u64().unwrap()
                });
                let all: Vec<u64> = all.collect();
                assert_eq!(found[name]["events"], all.len(), "{plan}: {name}");
                all
            };
            let (before, after) = (seen(house, 12, plan).await, seen(house, 40, plan).await);
            let only = |one: &[u64], other: &[u64]| -> Vec<u64> {
                one.iter().filter(|at| !other.contains(at)).copied().collect()
            };
            assert_eq!(places("left"), only(&before, &after), "{plan}: {found}");
            assert_eq!(places("entered"), only(&after, &before), "{plan}: {found}");
            assert!(!places("left").is_empty() && !places("entered").is_empty(), "{plan}");
            assert_eq!(found["from"]["events"], before.len(), "{plan}");
            assert_eq!(found["to"]["events"], after.len(), "{plan}");
            assert!(found["to"]["tokens"].as_u64() <= found["tokens_max"].as_u64(), "{plan}");
        }
        let whole = house.get("/v1/sessions/w/diff?from=12&to=end").await.json()["window"].clone();
        assert_eq!(
            (&whole["left"]["events"], &whole["entered"]["events"]),
            (&json!(0), &json!(28))
        );
        let refused = house.get("/v1/sessions/w/diff?tokens_max=1").await;
        assert_eq!(refused.code(), "invalid_request");
        assert_eq!(refused.json()["error"]["recovery_hint"]["field"], "tokens_max");
    })
    .await;
}

/// Forks a leased session; the fencing token of the request is checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_needs_the_current_fencing_token_if_one_is_given() {
    over_every_engine(async |house| {
        house.session("h", 3).await;
        let state = json!({"label": "here", "state": {"task": "t"}});
        house.post("/v1/sessions/h/checkpoints", &state).await;
        house.post("/v1/sessions/h/wake", &json!({})).await;
        for (token, code) in [("1", ""), ("7", "lease_lost")] {
            let headers = [("content-type", "application/json"), ("fencing-token", token)];
            let body = json!({"at": "checkpoint:here", "id": format!("f{token}")});
            let body = Some(body.to_string().into_bytes());
            let forked = house.call("POST", "/v1/sessions/h/fork", &headers, body).await;
            assert_eq!(forked.code(), code, "{token}: {}", forked.text);
        }
        let brought = house.get("/v1/sessions/f1/checkpoints/here").await.json();
        assert_eq!(brought["state"]["task"], "t", "{brought}");
        assert_eq!(
            house.post("/v1/sessions/f1/events", &super::work::one_event()).await.status,
            200
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_shows_the_events_and_the_facts_between_two_points() {
    over_every_engine(async |house| {
        assert_eq!(house.post("/v1/sessions", &json!({"id": "r"})).await.status, 201);
        step(house, 1, json!({"researchGoal": "find it", "knowledgeGap": "where"})).await;
        step(house, 2, json!({"rejectedApproaches": ["guessing"]})).await;
        let sources = json!({"sessionId": "r", "sources": [{"url": "https://example.org/a"}]});
        house.post("/v1/tools/add_sources", &sources).await;
        step(house, 3, json!({"isRevision": true, "revisesStep": 1, "nextStepNeeded": false}))
            .await;
        let tail = house.get("/v1/sessions/r").await.json()["tail"].as_u64().unwrap();
        let diff = async |query: &str| house.get(&format!("/v1/sessions/r/diff{query}")).await;
        let found = diff("?from=step:1&to=end").await.json();
        assert_eq!(found, diff("?from=end&to=step:1").await.json(), "in either order");
        assert_eq!(found["to"], tail);
        let facts = &found["facts"];
        let said = |list: &str, name: &str| {
            let data = facts[list]["data"].as_array().unwrap();
            let said: Vec<String> = data.iter().map(|one| one[name].to_string()).collect();
            assert_eq!(facts[list]["total"], said.len(), "{list}");
            said.join(",")
        };
        assert_eq!(said("steps", "step"), "2,3", "{found}");
        assert_eq!(said("superseded", "step"), "1", "{found}");
        assert_eq!(said("rejected", "text"), "\"guessing\"");
        assert_eq!(said("sources", "url"), "\"https://example.org/a\"");
        assert_eq!((said("gaps_opened", "id"), &facts["complete"]), (String::new(), &json!(true)));
        assert_eq!(found["events"]["types"]["research.step"], 2, "{found}");
        let count = tail - found["from"].as_u64().unwrap();
        assert_eq!(found["events"]["count"], count);
        let all = diff("").await.json();
        assert_eq!((&all["from"], &all["facts"]["goal"]["to"]), (&json!(0), &json!("find it")));
        assert_eq!(all["facts"]["goal"]["from"], Value::Null);
        let nothing = diff("?from=3&to=3").await.json();
        assert_eq!(nothing["events"]["count"], 0);
        for (query, status, code) in
            [("?from=900", 404, "point_not_found"), ("?from=nowhere", 422, "invalid_request")]
        {
            let refused = diff(query).await;
            assert_eq!((refused.status, &*refused.code()), (status, code), "{query}");
        }
        // Facts of a fork continue across the boundary.
        house.post("/v1/sessions/r/fork", &json!({"at": "step:1", "id": "rf"})).await;
        let ask = json!({"sessionId": "rf"});
        let overview = house.post("/v1/tools/get_research_session", &ask).await.json();
        assert_eq!(
            (&overview["stepCount"], &overview["researchGoal"]),
            (&json!(1), &json!("find it"))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_forks_its_session_continues_in_the_parent() {
    over_every_engine(async |house| {
        assert_eq!(house.post("/v1/sessions", &json!({"id": "r"})).await.status, 201);
        step(house, 1, json!({"researchGoal": "find it"})).await;
        step(house, 2, json!({})).await;
        let call = async |tool: &str, arguments: Value| {
            let headers = [
                ("content-type", "application/json"),
                ("sessionlog-connection", "c"),
                ("sessionlog-session", "r"),
            ];
            let body = Some(arguments.to_string().into_bytes());
            house.call("POST", &format!("/v1/tools/{tool}"), &headers, body).await
        };
        let forked = call("fork_session", json!({"at": "step:1", "title": "two"})).await.json();
        assert_eq!(forked["parentSessionId"], "r", "{forked}");
        assert_eq!(forked["title"], "two");
        let fork = forked["sessionId"].as_str().unwrap();
        let bound = call("get_research_session", json!({})).await.json();
        assert_eq!((&bound["sessionId"], &bound["stepCount"]), (&json!("r"), &json!(2)));
        // A step number that the fork did not inherit is free there.
        let again = json!({"sessionId": fork, "searchStep": "another second step",
            "stepNumber": 2, "nextStepNeeded": true});
        let step = call("sequential_search", again).await;
        assert_eq!(step.json()["stepCount"], 2, "{}", step.text);
        let refused = call("fork_session", json!({"at": "somewhere"})).await;
        assert_eq!(refused.code(), "invalid_request");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_protects_the_prefix_of_a_fork_and_a_fork_can_redact_it() {
    over_every_engine(async |house| {
        forked(house).await;
        let call = async |method, path: &str| house.call(method, path, &[], None).await;
        assert_eq!(call("PUT", "/v1/sessions/f/hold").await.status, 200);
        for path in ["/v1/sessions/s/erase", "/v1/sessions/s/events/e3/redact"] {
            let refused = house.post(path, &json!({})).await;
            assert_eq!(
                (refused.status, refused.code()),
                (423, "session_held".to_owned()),
                "{path}"
            );
        }
        let behind = house.post("/v1/sessions/s/events/e7/redact", &json!({})).await;
        assert_eq!(behind.status, 200, "{}", behind.text);
        assert_eq!(call("DELETE", "/v1/sessions/f/hold").await.status, 200);
        assert_eq!(call("DELETE", "/v1/sessions/s?now=true").await.status, 200);
        let redacted = house.post("/v1/sessions/f/events/e3/redact", &json!({})).await;
        assert_eq!(redacted.status, 200, "{}", redacted.text);
        assert_eq!(
            (&redacted.json()["position"], &redacted.json()["redacted"]),
            (&json!(3), &json!(true))
        );
        let served = house.get("/v1/sessions/f/events?from=3&to=4").await.json();
        assert_eq!(served["data"][0]["redacted"], true, "{served}");
        let unknown = house.post("/v1/sessions/f/events/e8/redact", &json!({})).await;
        assert_eq!((unknown.status, unknown.code()), (404, "event_not_found".to_owned()));
    })
    .await;
}
