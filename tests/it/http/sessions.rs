//! Whole sessions: created, listed, changed, archived, deleted; and the routes of operators.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::store::local::LocalStore;
use sessionlog_sim::{ManualClock, Sim};

use super::house::{House, Plan, numbers, over_every_engine};
use crate::engines::small;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_read_changed_archived_and_deleted() {
    over_every_engine(async |house| {
        let asked = json!({
            "id": "s.1", "title": "A title", "metadata": {"k": "v"}, "workspace": "w",
            "ttl_seconds": 60, "agent": "agent_1", "environment_id": "env_1",
            "initial_events": [{"type": "user.message", "content": "hello"}],
        });
        let created = house.post("/v1/sessions", &asked).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let session = created.json();
        assert_eq!(session["type"], "session");
        assert_eq!(session["status"], "idle");
        for (name, value) in [("title", "A title"), ("workspace", "w"), ("id", "s.1")] {
            assert_eq!(session[name], value);
        }
        assert_eq!((&session["tail"], &session["ttl_seconds"]), (&json!(1), &json!(60)));
        assert_eq!(session["receipt"]["position"], 1);
        assert_eq!(session["receipt"]["chain"].as_str().map(str::len), Some(64));
        assert_eq!(house.get("/v1/sessions/s.1").await.json(), session);

        let change = json!({"title": null, "metadata": {"k": null, "l": "m"}});
        let changed = house.post("/v1/sessions/s.1", &change).await.json();
        assert_eq!((&changed["title"], &changed["metadata"]), (&Value::Null, &json!({"l": "m"})));
        let same = house.post("/v1/sessions/s.1", &json!({})).await.json();
        assert_eq!(same, changed);

        let archived = house.call("POST", "/v1/sessions/s.1/archive", &[], None).await.json();
        assert_eq!(archived["status"], "terminated");
        assert!(archived["archived_at"].is_string());
        let again = house.call("POST", "/v1/sessions/s.1/archive", &[], None).await.json();
        assert_eq!(again["archived_at"], archived["archived_at"]);
        let open = house.call("POST", "/v1/sessions/s.1/unarchive", &[], None).await.json();
        assert_eq!((&open["archived_at"], &open["status"]), (&Value::Null, &json!("idle")));
        let again = house.call("POST", "/v1/sessions/s.1/unarchive", &[], None).await;
        assert_eq!((again.status, &again.json()["archived_at"]), (200, &Value::Null));
        house.call("POST", "/v1/sessions/s.1/archive", &[], None).await;
        let events = json!({"events": [{"type": "a.b"}]});
        let refused = house.post("/v1/sessions/s.1/events", &events).await;
        assert_eq!((refused.status, refused.code()), (423, "session_archived".to_owned()));
        assert_eq!(house.get("/v1/sessions/s.1/events").await.json()["tail"], 1);

        let deleted = house.call("DELETE", "/v1/sessions/s.1", &[], None).await;
        let until = deleted.json()["restorable_until"].clone();
        assert!(until.is_string(), "{until}");
        assert_eq!(
            deleted.json(),
            json!({"id": "s.1", "type": "session_deleted", "restorable_until": until})
        );
        for path in
            ["/v1/sessions/s.1", "/v1/sessions/s.1/events", "/v1/sessions/s.1/events/stream"]
        {
            let gone = house.get(path).await;
            assert_eq!((gone.status, gone.code()), (410, "session_deleted".to_owned()), "{path}");
        }
        assert_eq!(house.post("/v1/sessions", &asked).await.status, 410);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_records_its_agent_and_is_listed_by_it() {
    over_every_engine(async |house| {
        let pairs: serde_json::Map<String, Value> =
            (0..16).map(|n| (format!("k{n}"), json!("v"))).collect();
        let agents = [
            (json!({"id": "none", "metadata": pairs}), ("local", 1, "unknown", "local")),
            (json!({"id": "id", "agent": "a", "environment_id": "e"}), ("a", 1, "unknown", "e")),
            (
                json!({"id": "object", "metadata": pairs, "agent": {
                    "id": "a", "type": "agent_with_overrides", "version": 2, "model": "m",
                    "system": "be brief"}}),
                ("a", 2, "m", "local"),
            ),
            (
                json!({"id": "model", "agent": {"id": "b", "model": {"id": "m", "speed": "fast"}}}),
                ("b", 1, "m", "local"),
            ),
        ];
        for (asked, (id, version, model, environment)) in agents {
            let session = house.post("/v1/sessions", &asked).await.json();
            let agent = &session["agent"];
            assert_eq!((&agent["id"], &agent["name"]), (&json!(id), &json!(id)), "{asked}");
            assert_eq!((&agent["version"], &agent["type"]), (&json!(version), &json!("agent")));
            assert_eq!(agent["model"]["id"], model);
            assert_eq!(session["environment_id"], environment);
            let given = asked.get("metadata").cloned().unwrap_or_else(|| json!({}));
            assert_eq!(session["metadata"], given, "what is kept of it is not shown as metadata");
        }
        for (query, expected) in [
            ("agent_id=a", vec!["id", "object"]),
            ("agent_id=a&agent_version=1", vec!["id"]),
            ("agent_id=local", vec!["none"]),
            ("agent_version=2", vec!["id", "model", "none", "object"]),
            ("memory_store_id=x&beta=true", vec![]),
        ] {
            let listed = house.get(&format!("/v1/sessions?order=asc&{query}")).await.json();
            let mut ids: Vec<&str> = listed["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|s| s["id"].as_str().unwrap())
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, expected, "{query}");
        }
        for (path, refused) in [
            ("/v1/sessions", json!({"metadata": {"sessionlog.agent": "x"}})),
            ("/v1/sessions/id", json!({"metadata": {"sessionlog.agent": null}})),
            ("/v1/sessions", json!({"agent": ""})),
            ("/v1/sessions", json!({"environment_id": "x".repeat(513)})),
            ("/v1/sessions", json!({"agent": {"version": 1}})),
        ] {
            let answer = house.post(path, &refused).await;
            assert_eq!((answer.status, answer.code()), (422, "invalid_request".to_owned()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_id_generated_by_the_server_is_unguessable() {
    let house = House::plain().await;
    let first = house.post("/v1/sessions", &json!({})).await.json();
    let second = house.call("POST", "/v1/sessions", &[], None).await.json();
    assert_ne!(first["id"], second["id"]);
    assert!(first["id"].as_str().unwrap().len() >= 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn listing_pages_through_every_session_once_in_either_order() {
    over_every_engine(async |house| {
        for n in 0..7_u32 {
            house.clock.advance(std::time::Duration::from_secs(1));
            let workspace = if n < 5 { "w" } else { "x" };
            let client = json!({"client": if n.is_multiple_of(2) { "codex" } else { "other" }});
            let asked = json!({"id": format!("s{n}"), "workspace": workspace, "metadata": client});
            assert_eq!(house.post("/v1/sessions", &asked).await.status, 201);
        }
        house.call("POST", "/v1/sessions/s1/archive", &[], None).await;
        for (query, expected) in [
            ("order=asc", vec!["s0", "s2", "s3", "s4", "s5", "s6"]),
            ("", vec!["s6", "s5", "s4", "s3", "s2", "s0"]),
            ("workspace=w&order=asc&include_archived=true", vec!["s0", "s1", "s2", "s3", "s4"]),
            ("statuses[]=terminated", vec!["s1"]),
            ("statuses%5B%5D=running", vec![]),
            ("workspace=nothing", vec![]),
            ("metadata[]=client%3Dcodex&order=asc", vec!["s0", "s2", "s4", "s6"]),
            ("metadata[]=client=codex&workspace=x", vec!["s6"]),
            ("metadata[]=client%3Dclaude-code", vec![]),
            ("metadata[]=client%3Dcodex&metadata[]=client%3Dother", vec![]),
        ] {
            let mut found = Vec::new();
            let mut page = String::new();
            loop {
                let path = format!("/v1/sessions?limit=2&beta=true&{query}&page={page}");
                let answer = house.get(&path).await.json();
                let data = answer["data"].as_array().unwrap();
                assert!(data.len() <= 2);
                found.extend(data.iter().map(|s| s["id"].as_str().unwrap().to_owned()));
                match answer["next_page"].as_str() {
                    Some(next) => page = next.to_owned(),
                    None => break,
                }
            }
            assert_eq!(found, expected, "{query}");
        }
        let third =
            house.get("/v1/sessions/s3").await.json()["created_at"].as_str().unwrap().to_owned();
        for (bound, expected) in [("gte", 4), ("gt", 3), ("lt", 2), ("lte", 3)] {
            let path = format!("/v1/sessions?created_at[{bound}]={third}");
            let count = house.get(&path).await.json()["data"].as_array().unwrap().len();
            assert_eq!(count, expected, "{bound}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_can_read_health_counts_owner_and_api_description() {
    over_every_engine(async |house| {
        house.session("s", 5).await;
        assert_eq!(house.get("/healthz").await.json(), json!({"status": "ok"}));
        assert_eq!(house.get("/readyz").await.json(), json!({"status": "ready"}));
        let owner = house.get("/v1/admin/owner").await.json();
        assert_eq!((&owner["version"], &owner["on_demand"]), (&json!("1.2.3"), &json!(false)));
        assert_eq!(owner["pid"], std::process::id());
        let verified = house.call("POST", "/v1/admin/verify", &[], None).await.json();
        assert_eq!((&verified["sessions"], &verified["events"]), (&json!(1), &json!(5)));
        assert_eq!(verified["damage"], json!([]));
        let one = house.post("/v1/admin/verify", &json!({"session": "s"})).await.json();
        assert_eq!(one["events"], 5);
        assert_eq!(house.post("/v1/admin/verify", &json!({"session": "t"})).await.status, 404);
        assert!(house.get("/v1/admin/recovery-report").await.json()["damage"].is_array());
        let metrics = house.get("/metrics").await.text;
        for line in [
            "sessionlog_events_appended_total 5",
            "sessionlog_appends_total 1",
            "sessionlog_http_requests_total{method=\"POST\",route=\"/v1/sessions/{session}/events\",status=\"200\"} 1",
            "sessionlog_readers 0",
        ] {
            assert!(metrics.contains(line), "{line} is not in\n{metrics}");
        }
        let document = house.get("/openapi.json").await.json();
        let emit = &document["paths"]["/v1/sessions/{session}/events"]["post"];
        assert_eq!(emit["operationId"], "emitEvent");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_on_demand_owner_steps_down() {
    let house = House::plain().await;
    let refused = house.call("POST", "/v1/admin/step-down", &[], None).await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_request".to_owned()));
    assert!(!house.step_down.is_cancelled());
    let house = House::build(Plan { on_demand: true, ..Plan::default() }).await;
    assert_eq!(house.call("POST", "/v1/admin/step-down", &[], None).await.status, 202);
    assert!(house.step_down.is_cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn storing_a_status_needs_no_additional_disk_calls() {
    let sim = Sim::new(23);
    let store = LocalStore::open(&sim.env(), small()).unwrap();
    let house = House::over(store, Arc::new(ManualClock::default()), Plan::default()).await;
    house.session("s", 1).await;
    let calls = async |kind: &str| {
        let before = sim.calls();
        let sent = json!({"events": [{"type": kind}]});
        assert_eq!(house.post("/v1/sessions/s/events", &sent).await.status, 200);
        sim.calls() - before
    };
    let plain = calls("user.message").await;
    assert_eq!(calls("session.status_running").await, plain);
    assert_eq!(house.get("/v1/sessions/s").await.json()["status"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_the_last_status_that_its_harness_reported() {
    over_every_engine(async |house| {
        house.session("s", 0).await;
        let status = async |id: &str| house.get(&format!("/v1/sessions/{id}")).await.json();
        let of = |kind: &str| json!({"type": format!("session.status_{kind}")});
        assert_eq!(status("s").await["status"], "idle");
        let named = json!([{"type": "session.status_running", "id": "run"}]);
        for (events, expected) in [
            (named.clone(), "running"),
            (json!([{"type": "user.message"}]), "running"),
            (json!([of("idle"), of("rescheduled"), {"type": "user.message"}]), "rescheduling"),
            (json!([of("idle"), of("unheard_of")]), "idle"),
            // Repeated with the same id, it has no effect.
            (named, "idle"),
            (json!([of("running"), of("terminated")]), "terminated"),
            (json!([of("running")]), "running"),
        ] {
            house.post("/v1/sessions/s/events", &json!({ "events": events })).await;
            let now = status("s").await;
            assert_eq!(now["status"], expected, "{events}");
            assert_eq!(now["metadata"], json!({}), "nothing of it is the client's");
        }
        let begun = json!({"id": "t", "initial_events": [of("running")]});
        assert_eq!(house.post("/v1/sessions", &begun).await.json()["status"], "running");
        let listed = async |query: &str| -> Vec<Value> {
            let page = house.get(&format!("/v1/sessions?{query}")).await.json();
            page["data"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
        };
        assert_eq!(listed("statuses[]=running&order=asc").await, ["s", "t"]);
        assert_eq!(listed("statuses[]=idle").await, Vec::<Value>::new());
        // A fork has no harness yet, and a transcript reports another session's status.
        house.post("/v1/sessions/s/fork", &json!({"at": "end", "id": "f"})).await;
        let headers = [("content-type", "application/json"), ("sessionlog-origin", "import")];
        let body = json!({"events": [of("running")]}).to_string().into_bytes();
        let path = "/v1/sessions/i/events?create=true";
        house.call("POST", path, &headers, Some(body)).await;
        assert_eq!(listed("statuses[]=idle&order=asc").await.len(), 2);
        house.post("/v1/sessions/s/archive", &json!({})).await;
        assert_eq!(status("s").await["status"], "terminated");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_one_thread_and_has_no_resources() {
    over_every_engine(async |house| {
        house.session("s", 3).await;
        let threads = house.get("/v1/sessions/s/threads").await.json();
        let thread = &threads["data"][0];
        assert_eq!((&thread["id"], &thread["status"]), (&json!("sthr_s"), &json!("idle")));
        assert_eq!(
            house.get("/v1/sessions/s/threads?statuses[]=running").await.json()["data"],
            json!([])
        );
        assert_eq!(&house.get("/v1/sessions/s/threads/sthr_s").await.json(), thread);
        let events = house.get("/v1/sessions/s/threads/sthr_s/events?limit=2").await.json();
        assert_eq!(numbers(&events), [0, 1]);
        let empty = json!({"data": [], "next_page": null});
        assert_eq!(house.get("/v1/sessions/s/resources").await.json(), empty);
        for (method, path, status) in [
            ("GET", "s/threads/other", 404),
            ("GET", "s/threads/other/events", 404),
            ("GET", "s/threads/other/stream", 404),
            ("POST", "s/threads/other/archive", 404),
            ("POST", "s/threads/sthr_s/archive", 422),
            ("POST", "s/resources", 422),
        ] {
            let reply = house.call(method, &format!("/v1/sessions/{path}"), &[], None).await;
            assert_eq!(
                (reply.status, reply.code()),
                (status, "invalid_request".to_owned()),
                "{path}"
            );
            assert!(reply.json()["error"]["recovery_hint"]["action"].is_string(), "{path}");
            let unknown = format!("/v1/sessions/{}", path.replacen('s', "nobody", 1));
            let reply = house.call(method, &unknown, &[], None).await;
            assert_eq!(
                (reply.status, reply.code()),
                (404, "session_not_found".to_owned()),
                "{path}"
            );
        }
        for method in ["GET", "POST", "DELETE"] {
            let reply = house.call(method, "/v1/sessions/s/resources/r", &[], None).await;
            assert_eq!((reply.status, reply.code()), (404, "invalid_request".to_owned()));
            assert!(reply.json()["error"]["recovery_hint"]["action"].is_string(), "{method}");
        }
    })
    .await;
}
