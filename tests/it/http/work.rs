//! Work on a session through HTTP, over every engine: cursors, points, checkpoints, leases, the
//! history.

use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::{
    event::{Scope, SessionId, SessionKey},
    service::Service,
};

use super::house::{House, Plan, Reply, numbers, over_every_engine};
use crate::engines;

async fn put_json(house: &House, path: &str, body: &Value) -> Reply {
    let json = [("content-type", "application/json")];
    house.call("PUT", path, &json, Some(body.to_string().into_bytes())).await
}

/// Sends a POST with the token of a lease.
async fn post_held(house: &House, path: &str, token: u64, body: &Value) -> Reply {
    let token = token.to_string();
    let headers = [("content-type", "application/json"), ("fencing-token", token.as_str())];
    house.call("POST", path, &headers, Some(body.to_string().into_bytes())).await
}

pub fn one_event() -> Value {
    json!({"events": [{"type": "user.message", "n": 1}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_continues_at_its_cursor() {
    over_every_engine(async |house| {
        house.session("s", 10).await;
        let path = "/v1/sessions/s/cursors/me";
        let missing = house.get(path).await;
        assert_eq!((missing.status, missing.code()), (404, "point_not_found".to_owned()));
        assert!(missing.text.contains("cursor:me"), "it names the point: {}", missing.text);
        let cursor = put_json(house, path, &json!({"position": 4})).await.json();
        assert_eq!((&cursor["position"], &cursor["behind"]), (&json!(4), &json!(6)));
        let read = house.get("/v1/sessions/s/events?from=cursor:me&limit=3").await.json();
        assert_eq!(numbers(&read), [4, 5, 6]);
        let next = read["next_position"].as_u64().unwrap();
        let cursor = put_json(house, path, &json!({"at": next.to_string()})).await.json();
        assert_eq!(house.get(path).await.json(), cursor);
        let before = house.get("/v1/sessions/s").await.json();
        assert_eq!(
            put_json(house, path, &json!({"position": next})).await.json(),
            cursor,
            "no news"
        );
        let other = put_json(house, "/v1/sessions/s/cursors/other", &json!({})).await.json();
        assert_eq!((&other["position"], &other["behind"]), (&json!(10), &json!(0)));
        let all = house.get("/v1/sessions/s/cursors").await.json();
        let names: Vec<_> =
            all["data"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["me", "other"]);
        let mut now = house.get("/v1/sessions/s").await.json();
        assert!(now["bytes"].as_u64() > before["bytes"].as_u64(), "a cursor takes room: {now}");
        now["bytes"] = before["bytes"].clone();
        assert_eq!(now, before, "nobody is disturbed");
        let stream = house.get("/v1/sessions/s/events?around=cursor:me&before=1&after=1").await;
        assert_eq!(numbers(&stream.json()), [6, 7, 8]);
        let gone = house.call("DELETE", path, &[], None).await;
        assert_eq!(gone.json(), json!({"name": "me", "type": "cursor_deleted"}));
        assert_eq!(house.call("DELETE", path, &[], None).await.status, 404);
        for (body, field) in [
            (json!({"position": 1, "at": "2"}), "at"),
            (json!({"at": "nowhere"}), "at"),
            (json!({"position": "x"}), "position"),
        ] {
            let refused = put_json(house, path, &body).await;
            assert_eq!(refused.status, 422, "{}", refused.text);
            assert_eq!(refused.json()["error"]["recovery_hint"]["field"], field);
        }
        let named = put_json(house, "/v1/sessions/s/cursors/a%20b", &json!({})).await;
        assert_eq!((named.status, named.code()), (422, "invalid_request".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_a_point_resolves_or_returns_an_error_naming_the_point() {
    over_every_engine(async |house| {
        house.session("s", 9).await;
        let made =
            house.post("/v1/sessions/s/checkpoints", &json!({"label": "l", "at": "4"})).await;
        let id = made.json()["id"].as_str().unwrap().to_owned();
        put_json(house, "/v1/sessions/s/cursors/c", &json!({"position": 5})).await;
        let third = house.get("/v1/sessions/s/events?from=3&limit=1").await.json();
        let time = third["data"][0]["processed_at"].as_str().unwrap().to_owned();
        for (point, wanted) in [
            ("7".to_owned(), 7),
            ("-2".to_owned(), 7),
            ("event:e6".to_owned(), 6),
            (format!("time:{time}"), 0),
            (format!("checkpoint:{id}"), 4),
            ("checkpoint:l".to_owned(), 4),
            ("cursor:c".to_owned(), 5),
            ("action:agent.message".to_owned(), 6),
            ("action:agent.message/3".to_owned(), 0),
        ] {
            let read = house.get(&format!("/v1/sessions/s/events?from={point}&limit=1")).await;
            assert_eq!(numbers(&read.json()), [wanted], "{point}");
        }
        let end = house.get("/v1/sessions/s/events?from=end").await.json();
        assert_eq!((end["data"].as_array().unwrap().len(), &end["tail"]), (0, &json!(9)));
        for point in [
            "event:nobody",
            "checkpoint:none",
            "cursor:none",
            "action:agent.message/9",
            "step:1",
            "step:1@b",
        ] {
            for name in ["from", "to", "around"] {
                let read = house.get(&format!("/v1/sessions/s/events?{name}={point}")).await;
                assert_eq!((read.status, read.code()), (404, "point_not_found".to_owned()));
                let message = read.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains(point), "{point}: {message}");
            }
        }
        // The events that lead to an action.
        let lead = "/v1/sessions/s/events?around=action:agent.message/1&before=2&after=0";
        assert_eq!(numbers(&house.get(lead).await.json()), [4, 5, 6]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_stores_changed_state_and_returns_all_of_it() {
    over_every_engine(async |house| {
        house.session("s", 3).await;
        let path = "/v1/sessions/s/checkpoints";
        let plan = json!({"events": [{"type": "plan.updated", "steps": ["a"], "current": 0}]});
        house.post("/v1/sessions/s/events", &plan).await;
        let first = json!({"label": "start", "state": {"task": "t", "done": [], "deep": {"a": 1}}});
        let first = house.post(path, &first).await;
        assert_eq!(first.status, 201, "{}", first.text);
        let first = first.json();
        assert_eq!((&first["position"], &first["trigger"]), (&json!(4), &json!("manual")));
        let more = json!({"events": [{"type": "plan.updated", "steps": ["a"], "current": 1}]});
        house.post("/v1/sessions/s/events", &more).await;
        let delta = json!({"state_delta": {"done": ["x"], "deep": {"b": 2}}, "thread": null});
        let second = house.post(path, &delta).await.json();
        assert_eq!(second["parent"], first["id"]);
        let whole = json!({"state": {"task": "t", "done": ["x", "y"], "deep": {"b": 2}}});
        let third = house.post(path, &json!({"final": true, "state": whole["state"]})).await.json();
        let get = async |name: &str| house.get(&format!("{path}/{name}")).await.json();
        let found = get(third["id"].as_str().unwrap()).await;
        assert_eq!((&found["state"], &found["final"]), (&whole["state"], &json!(true)));
        assert_eq!(found["plan"]["current"], 1);
        let found = get("start").await;
        assert_eq!(found["state"], json!({"task": "t", "done": [], "deep": {"a": 1}}));
        assert_eq!((&found["plan"]["current"], &found["tail"]), (&json!(0), &json!(5)));
        let found = get(second["id"].as_str().unwrap()).await;
        let merged = json!({"task": "t", "done": ["x"], "deep": {"a": 1, "b": 2}});
        assert_eq!(found["state"], merged);

        let listed = house.get(&format!("{path}?limit=2")).await.json();
        let ids = |page: &Value| -> Vec<Value> {
            page["data"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
        };
        assert_eq!(ids(&listed), [third["id"].clone(), second["id"].clone()]);
        let page = listed["next_page"].as_str().unwrap();
        let rest = house.get(&format!("{path}?limit=2&page={page}")).await.json();
        assert_eq!((ids(&rest), &rest["next_page"]), (vec![first["id"].clone()], &Value::Null));

        // Back to the second checkpoint: the following ones continue it, and the third is kept.
        let resume = async |id: &Value| {
            let path = format!("{path}/{}/resume", id.as_str().unwrap());
            house.post(&path, &json!({})).await.json()
        };
        let back = resume(&second["id"]).await;
        assert_eq!(back["checkpoint"]["state"], merged);
        assert_eq!(back["behind"], json!({"from": 5, "to": 5}));
        assert_eq!(back["resumed_as"]["trigger"], "resume");
        let fourth = house.post(path, &json!({"state_delta": {"other": true}})).await.json();
        assert_eq!(fourth["parent"], back["resumed_as"]["id"]);
        let found = get(fourth["id"].as_str().unwrap()).await;
        assert_eq!(found["state"]["other"], true);
        assert_eq!(
            (&found["state"]["done"], &found["state"]["deep"]["a"]),
            (&json!(["x"]), &json!(1))
        );
        assert_eq!(get(third["id"].as_str().unwrap()).await["state"], whole["state"]);
        let last = resume(&fourth["id"]).await;
        assert_eq!(last["resumed_as"]["id"], fourth["id"], "it is the last already");

        for (body, code) in [
            (json!({"state": {}, "state_delta": {}}), "invalid_request"),
            (json!({"label": ""}), "invalid_request"),
            (json!({"state": [1]}), "invalid_request"),
            (json!({"parent": "none"}), "checkpoint_not_found"),
            (json!({"at": "cursor:none"}), "point_not_found"),
        ] {
            assert_eq!(house.post(path, &body).await.code(), code, "{body}");
        }
        assert_eq!(house.get(&format!("{path}/none")).await.code(), "checkpoint_not_found");
        let none = house.post(&format!("{path}/none/resume"), &json!({})).await;
        assert_eq!((none.status, none.code()), (404, "checkpoint_not_found".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_at_a_checkpoint_has_its_state_and_leaves_the_parent_unchanged() {
    over_every_engine(async |house| {
        house.session("s", 4).await;
        let path = "/v1/sessions/s/checkpoints";
        for (label, at, n) in [("a", "1", 1), ("b", "3", 2)] {
            let made = json!({"label": label, "at": at, "state": {"n": n, "kept": true}});
            assert_eq!(house.post(path, &made).await.status, 201);
        }
        let trunk = house.get(path).await.json();
        for (label, tail, n) in [("a", 1, 1), ("b", 3, 2)] {
            let call = json!({"at": format!("checkpoint:{label}"), "id": format!("from-{label}")});
            let made = house.post("/v1/sessions/s/fork", &call).await;
            assert!(made.status < 300, "{}", made.text);
            let branch = format!("/v1/sessions/from-{label}");
            let events = house.get(&format!("{branch}/events")).await.json();
            assert_eq!(events["tail"], tail);
            let found = house.get(&format!("{branch}/checkpoints/{label}")).await.json();
            assert_eq!(found["state"], json!({"n": n, "kept": true}));
            assert_eq!((&found["position"], &found["trigger"]), (&json!(tail), &json!("resume")));
            let more = json!({"state_delta": {"n": "other"}});
            house.post(&format!("{branch}/checkpoints"), &more).await;
            let woken = house.post(&format!("{branch}/wake"), &json!({})).await.json();
            assert_eq!(woken["last_checkpoint"]["state"], json!({"n": "other", "kept": true}));
            assert_eq!(woken["fencing_token"], 1);
        }
        assert_eq!(house.get(path).await.json(), trunk);
        assert_eq!(house.post("/v1/sessions/s/events", &one_event()).await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_checkpoint_is_created_once() {
    over_every_engine(async |house| {
        house.session("s", 1).await;
        let path = "/v1/sessions/s/checkpoints";
        let keyed = async || {
            let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
            house.call("POST", path, &headers, Some(b"{\"label\":\"l\"}".to_vec())).await.json()
        };
        let first = keyed().await;
        house.post("/v1/sessions/s/events", &one_event()).await;
        assert_eq!(keyed().await, first);
        let all = house.get(path).await.json();
        assert_eq!(all["data"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_call_creates_a_checkpoint_unless_the_session_disables_it() {
    over_every_engine(async |house| {
        let asked = json!({"id": "timer", "metadata": {"checkpoints": "timer"}});
        assert_eq!(house.post("/v1/sessions", &asked).await.status, 201);
        assert_eq!(house.post("/v1/sessions", &json!({"id": "s"})).await.status, 201);
        for session in ["s", "timer"] {
            let path = format!("/v1/sessions/{session}");
            for turn in 0..3 {
                let id = format!("c{turn}");
                let events = json!({"events": [
                    {"type": "agent.tool_use", "name": "f", "call_id": id},
                    {"type": "agent.tool_result", "call_id": id, "content": "ok"},
                ]});
                let sent = house.post(&format!("{path}/events"), &events).await;
                assert_eq!(sent.status, 200, "{}", sent.text);
                house.post(&format!("{path}/events"), &one_event()).await;
            }
            let listed = house.get(&format!("{path}/checkpoints")).await.json();
            let listed = listed["data"].as_array().unwrap().clone();
            let places: Vec<u64> =
                listed.iter().map(|one| one["position"].as_u64().unwrap()).collect();
            let wanted: &[u64] = if session == "s" { &[8, 5, 2] } else { &[] };
            assert_eq!(places, wanted, "{session}");
            assert!(listed.iter().all(|one| one["trigger"] == "tool_call"));
        }
        // A session that is created with a result has its checkpoint too.
        let result = json!([{"type": "agent.tool_result", "call_id": "c", "content": "ok"}]);
        let created = json!({"id": "born", "initial_events": result});
        assert_eq!(house.post("/v1/sessions", &created).await.status, 201);
        let sent = json!({ "events": result });
        assert_eq!(house.post("/v1/sessions/made/events?create=true", &sent).await.status, 200);
        for session in ["born", "made"] {
            let listed = house.get(&format!("/v1/sessions/{session}/checkpoints")).await.json();
            assert_eq!(listed["data"][0]["position"], 1, "{session}: {listed}");
        }
    })
    .await;
}

/// Checks that the tools of a research session, which write, are rejected as well.
async fn check_research_rejected(house: &House) {
    let step = json!({"sessionId": "s", "searchStep": "x", "stepNumber": 1,
        "totalStepsEstimate": 1, "nextStepNeeded": false});
    let sources = json!({"sessionId": "s", "sources": [{"url": "https://a.example/"}]});
    for (tool, arguments) in [("sequential_search", step), ("add_sources", sources)] {
        let refused = house.post(&format!("/v1/tools/{tool}"), &arguments).await;
        assert_eq!(refused.code(), "lease_held", "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_fencing_token_is_rejected_on_every_writing_path() {
    over_every_engine(async |house| {
        house.session("s", 2).await;
        let woken = house.post("/v1/sessions/s/wake", &json!({"ttl_seconds": 60})).await;
        assert_eq!(woken.status, 200, "{}", woken.text);
        let woken = woken.json();
        assert_eq!((&woken["fencing_token"], &woken["tail"]), (&json!(1), &json!(2)));
        assert_eq!((&woken["last_checkpoint"], &woken["unfinished"]), (&Value::Null, &Value::Null));
        assert_eq!(woken["lease"]["ttl_seconds"], 60);
        let again = house.post("/v1/sessions/s/wake", &json!({})).await;
        assert_eq!((again.status, again.code()), (409, "lease_held".to_owned()));
        assert_eq!(again.json()["error"]["recovery_hint"]["retry_after_seconds"], 60);
        let stolen = house.post("/v1/sessions/s/wake", &json!({"steal": true})).await.json();
        assert_eq!(stolen["fencing_token"], 2);
        assert_eq!(stolen["unfinished"]["lease_kept"], true);
        let line = |token: Option<u64>| {
            let mut line = json!({"session": "s", "events": [{"type": "user.message"}]});
            if let Some(token) = token {
                line["fencing_token"] = json!(token);
            }
            line.to_string()
        };
        let append = async |token: Option<u64>| {
            let headers = [("content-type", "application/x-ndjson")];
            let body = Some(line(token).into_bytes());
            house.call("POST", "/v1/append", &headers, body).await.json()
        };
        let emit = json!({"event": {"type": "user.message"}, "sessionId": "s"});
        let with = |token: u64| {
            let mut emit = emit.clone();
            emit["fencingToken"] = json!(token);
            emit
        };
        for (token, code) in [(None, "lease_held"), (Some(1), "lease_lost"), (Some(2), "")] {
            let sent = match token {
                None => house.post("/v1/sessions/s/events", &one_event()).await,
                Some(token) => post_held(house, "/v1/sessions/s/events", token, &one_event()).await,
            };
            assert_eq!(sent.code(), code, "events with {token:?}");
            let line = append(token).await;
            assert_eq!(line["error"]["type"].as_str().unwrap_or_default(), code, "{line}");
            let arguments = token.map_or_else(|| emit.clone(), with);
            let tool = house.post("/v1/tools/emit_event", &arguments).await;
            assert_eq!(tool.code(), code, "emit_event with {token:?}: {}", tool.text);
            let path = "/v1/sessions/s/checkpoints";
            let made = match token {
                None => house.post(path, &json!({})).await,
                Some(token) => post_held(house, path, token, &json!({})).await,
            };
            assert_eq!(made.code(), code, "checkpoints with {token:?}");
        }
        check_research_rejected(house).await;
        let renew = "/v1/sessions/s/lease/renew";
        assert_eq!(post_held(house, renew, 1, &json!({})).await.code(), "lease_lost");
        assert_eq!(house.post(renew, &json!({})).await.code(), "invalid_request");
        let renewed = post_held(house, renew, 2, &json!({"ttl_seconds": 5})).await.json();
        assert_eq!((&renewed["fencing_token"], &renewed["ttl_seconds"]), (&json!(2), &json!(5)));
        let release = async |token: &str| {
            let headers = [("fencing-token", token)];
            house.call("DELETE", "/v1/sessions/s/lease", &headers, None).await
        };
        assert_eq!(release("1").await.code(), "lease_lost");
        assert_eq!((release("2").await.status, release("2").await.status), (200, 200));
        assert_eq!(house.post("/v1/sessions/s/events", &one_event()).await.status, 200);
        let bad = post_held(house, "/v1/sessions/s/wake", 2, &json!({"ttl_seconds": 0})).await;
        assert_eq!(bad.code(), "invalid_request");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_with_its_time_and_a_retried_wake_returns_the_same_lease() {
    over_every_engine(async |house| {
        house.session("s", 1).await;
        let wake = async |key: &str| {
            let headers = [("content-type", "application/json"), ("idempotency-key", key)];
            let body = Some(b"{\"ttl_seconds\":60}".to_vec());
            house.call("POST", "/v1/sessions/s/wake", &headers, body).await
        };
        assert_eq!(wake("a").await.json()["fencing_token"], 1);
        house.clock.advance(Duration::from_secs(20));
        let again = wake("a").await.json();
        assert_eq!(
            (&again["fencing_token"], &again["lease"]["ttl_seconds"]),
            (&json!(1), &json!(40))
        );
        assert_eq!(again["unfinished"], Value::Null, "it is its own lease");
        assert_eq!(wake("b").await.code(), "lease_held");
        house.clock.advance(Duration::from_secs(41));
        let next = wake("b").await.json();
        assert_eq!(
            (&next["fencing_token"], &next["unfinished"]["lease_kept"]),
            (&json!(2), &json!(true))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_receives_the_unfinished_work_of_an_earlier_one() {
    over_every_engine(async |house| {
        house.session("s", 1).await;
        let token =
            house.post("/v1/sessions/s/wake", &json!({})).await.json()["fencing_token"].clone();
        let token = token.as_u64().unwrap();
        let state = json!({"state": {"task": "t"}});
        post_held(house, "/v1/sessions/s/checkpoints", token, &state).await;
        let events = json!({"events": [
            {"type": "agent.tool_use", "name": "a", "call_id": "1"},
            {"type": "agent.tool_result", "call_id": "1", "content": "ok"},
            {"type": "agent.mcp_tool_use", "id": "e", "name": "b", "mcp_server_name": "m"},
        ]});
        assert_eq!(post_held(house, "/v1/sessions/s/events", token, &events).await.status, 200);
        house.clock.advance(Duration::from_secs(3_600));
        let woken = house.post("/v1/sessions/s/wake", &json!({})).await.json();
        let calls = json!([{"call_id": "e", "name": "m/b", "position": 3}]);
        let left = json!({"since_checkpoint": {"from": 4, "to": 4}, "open_calls": calls,
            "lease_kept": true});
        assert_eq!(woken["unfinished"], left);
        assert_eq!(woken["last_checkpoint"]["state"], json!({"task": "t"}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_call_of_a_disconnected_client_is_unfinished_work() {
    over_every_engine(async |house| {
        let call =
            |n: u32| json!({"type": "agent.tool_use", "name": "shell", "call_id": n.to_string()});
        let result = json!({"type": "agent.tool_result", "call_id": "1", "content": "ok"});
        let ended = json!({"type": "session.status_terminated"});
        for (id, events) in [
            ("left", json!([call(1), result, call(2)])),
            ("whole", json!([call(1), result])),
            ("ended", json!([call(1), ended])),
        ] {
            let body = json!({"events": events});
            let path = format!("/v1/sessions/{id}/events?create=true");
            assert_eq!(house.post(&path, &body).await.status, 200);
            house.clock.advance(Duration::from_secs(60));
        }
        let found = house.get("/v1/history").await.json();
        let left = found["unfinished"].as_array().unwrap();
        assert!(matches!(&left[..], [one] if one["id"] == "left"), "{left:?}");
        let tool = house.post("/v1/tools/review_history", &json!({})).await.json();
        assert_eq!(tool["unfinished"][0]["sessionId"], "left", "{tool}");
        let woken = house.post("/v1/sessions/left/wake", &json!({})).await.json();
        assert_eq!(woken["unfinished"]["open_calls"][0]["call_id"], "2", "{woken}");
        let listed = house.get("/v1/history?limit=1").await.json();
        assert_eq!(listed["unfinished"].as_array().unwrap().len(), 1, "{listed}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_session_starts_from_the_latest_work() {
    over_every_engine(async |house| {
        let make = async |id: &str, workspace: &str, checkpoints: &[Value]| {
            house.clock.advance(Duration::from_secs(1));
            let made = json!({"id": id, "workspace": workspace, "title": format!("title {id}"),
                "initial_events": [{"type": "user.message", "content": "hello"}]});
            assert_eq!(house.post("/v1/sessions", &made).await.status, 201);
            for body in checkpoints {
                let made = house.post(&format!("/v1/sessions/{id}/checkpoints"), body).await;
                assert_eq!(made.status, 201, "{}", made.text);
            }
        };
        let empty = house.get("/v1/history").await.json();
        assert_eq!(empty, json!({"data": [], "start_from": null, "unfinished": []}));
        make("old", "w", &[json!({"final": true, "state": {"of": "old"}})]).await;
        let done = json!({"final": true, "state": {"of": "done"}, "label": "end"});
        make("done", "w", &[done, json!({"thread": "aside", "final": true})]).await;
        make("open", "w", &[json!({"state": {"of": "open"}})]).await;
        make("bare", "w", &[]).await;
        make("other", "v", &[json!({"state": {"of": "other"}})]).await;
        let history = house.get("/v1/history?workspace=w").await.json();
        let ids = |list: &Value| -> Vec<Value> {
            list.as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
        };
        assert_eq!(ids(&history["data"]), ["bare", "open", "done", "old"]);
        assert_eq!(ids(&history["unfinished"]), ["open"]);
        assert_eq!(history["unfinished"][0]["last_checkpoint"]["position"], 1);
        assert_eq!(history["start_from"]["session"], "done");
        let all = house.get("/v1/history?limit=1").await.json();
        assert_eq!(
            (ids(&all["data"]), &all["start_from"]["session"]),
            (vec![json!("other")], &json!("other"))
        );
        assert_eq!(house.get("/v1/history?limit=0").await.code(), "invalid_request");
        let review =
            house.post("/v1/tools/review_history", &json!({"workspace": "w"})).await.json();
        assert_eq!(review["startFrom"]["sessionId"], "done");
        assert_eq!(review["unfinished"][0]["sessionId"], "open");
        let one = house.post("/v1/tools/resume", &json!({"sessionId": "open"})).await.json();
        assert_eq!(one["checkpoint"]["state"], json!({"of": "open"}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_changed_sessions_get_a_scheduled_checkpoint() {
    for engine in engines::all() {
        let service = Service::new(engine.store.clone(), engine.clock.clone());
        let plan = Plan { service: Some(service.clone()), ..Plan::default() };
        let house = House::over(engine.store.clone(), engine.clock.clone(), plan).await;
        let every = Duration::from_secs(600);
        house.session("s", 2).await;
        house.session("empty", 0).await;
        let key = SessionKey { scope: Scope::local(), session: SessionId::new("s").unwrap() };
        let used = engine.store.info(&key).await.unwrap();
        engine.clock.advance(every);
        assert_eq!(service.checkpoint_changed(every).await, 1, "{}", engine.name);
        assert_eq!(service.checkpoint_changed(every).await, 0, "nothing changed since");
        let after = engine.store.info(&key).await.unwrap();
        assert_eq!((after.used_at, after.updated_at), (used.used_at, used.updated_at));
        house.post("/v1/sessions/s/wake", &json!({})).await;
        assert_eq!(post_held(&house, "/v1/sessions/s/events", 1, &one_event()).await.status, 200);
        assert_eq!(service.checkpoint_changed(every).await, 1, "no lease stops it");
        let listed = house.get("/v1/sessions/s/checkpoints").await.json();
        let listed: Vec<_> = listed["data"].as_array().unwrap().clone();
        assert_eq!((&listed[0]["position"], &listed[1]["position"]), (&json!(3), &json!(2)));
        assert!(listed.iter().all(|one| one["trigger"] == "timer"));
        post_held(&house, "/v1/sessions/s/events", 1, &one_event()).await;
        engine.clock.advance(every * 3);
        assert_eq!(service.checkpoint_changed(every).await, 0, "nobody works on it any more");
        house.stop.cancel();
        house.served.await.unwrap();
        engine.store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_at_a_point_equals_that_of_a_session_ending_there() {
    over_every_engine(async |house| {
        let step = |number: u64, session: &str| {
            json!({"sessionId": session, "stepNumber": number, "totalStepsEstimate": 9,
                "nextStepNeeded": number < 9, "searchStep": format!("step {number}"),
                "knowledgeGap": format!("gap {number}"),
                "rejectedApproaches": [format!("no {number}")]})
        };
        let starts = async |session: &str| {
            assert_eq!(house.post("/v1/sessions", &json!({"id": session})).await.status, 201);
        };
        starts("whole").await;
        let tail = async |session: &str| {
            let found = house.get(&format!("/v1/sessions/{session}")).await.json();
            found["tail"].as_u64().unwrap()
        };
        let mut stops = Vec::new();
        for number in 1..=9 {
            let made = house.post("/v1/tools/sequential_search", &step(number, "whole")).await;
            assert_eq!(made.status, 200, "{}", made.text);
            let label = json!({"label": format!("after {number}")});
            house.post("/v1/sessions/whole/checkpoints", &label).await;
            stops.push(tail("whole").await);
        }
        for (number, stop) in (1..).zip(&stops) {
            let stopped = format!("stopped-{number}");
            starts(&stopped).await;
            for earlier in 1..=number {
                house.post("/v1/tools/sequential_search", &step(earlier, &stopped)).await;
            }
            assert_eq!(tail(&stopped).await, *stop);
            let view = async |arguments: Value| {
                let mut view =
                    house.post("/v1/tools/get_research_session", &arguments).await.json();
                let members = view.as_object_mut().unwrap();
                assert!(members.contains_key("researchGoal"), "{members:?}");
                members.remove("sessionId");
                members.remove("boundBy");
                // Over HTTP a program reads the members: the response has no separate text.
                assert!(!members.contains_key("text"), "{members:?}");
                view
            };
            let wanted = view(json!({"sessionId": stopped})).await;
            for at in [stop.to_string(), format!("checkpoint:after {number}")] {
                let found = view(json!({"sessionId": "whole", "at": at})).await;
                assert_eq!(found, wanted, "{at}");
            }
        }
    })
    .await;
}
