//! Idempotency keys through HTTP, over every engine: the same call again has the first answer,
//! another call with the same key is a conflict. It must not list verbs: the published description
//! does.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::house::{House, over_every_engine};

/// An operation, or a tool; a call, and others that must not be taken for it.
type Row = (&'static str, (&'static str, Value), Vec<(&'static str, Value)>);

/// Every operation and every tool that keeps what an idempotency key came with.
fn rows() -> Vec<Row> {
    let fork = "/v1/sessions/s/fork";
    let points = "/v1/sessions/s/checkpoints";
    let wake = "/v1/sessions/w/wake";
    let event = |n: u64| json!({"type": "user.message", "n": n});
    let create = json!({"title": "a", "initial_events": [event(1), event(2)]});
    let tool = "/v1/tools/checkpoint";
    vec![
        (
            "createSession",
            ("/v1/sessions", create),
            vec![
                ("/v1/sessions", json!({"title": "b", "initial_events": [event(1), event(2)]})),
                ("/v1/sessions", json!({"title": "a", "initial_events": [event(1)]})),
                ("/v1/sessions", json!({"title": "a", "initial_events": [event(1), event(3)]})),
                (fork, json!({"at": "1"})),
            ],
        ),
        (
            "forkSession",
            (fork, json!({"at": "4"})),
            vec![
                (fork, json!({"at": "5"})),
                (fork, json!({"at": "4", "title": "b"})),
                ("/v1/sessions", json!({})),
            ],
        ),
        (
            "createCheckpoint",
            (points, json!({"at": "2", "state": {"a": 1}})),
            vec![
                (points, json!({"at": "2", "state": {"a": 2}})),
                (points, json!({"at": "3", "state": {"a": 1}})),
                ("/v1/sessions/s/checkpoints/first/resume", json!({})),
            ],
        ),
        (
            "resumeCheckpoint",
            ("/v1/sessions/s/checkpoints/first/resume", json!({})),
            vec![("/v1/sessions/s/checkpoints/second/resume", json!({})), (points, json!({}))],
        ),
        (
            "wakeSession",
            (wake, json!({"ttl_seconds": 60})),
            vec![
                (wake, json!({"ttl_seconds": 61})),
                (wake, json!({"ttl_seconds": 60, "steal": true})),
            ],
        ),
        (
            "emitEvent",
            ("/v1/sessions/s/events", json!({"events": [event(1)]})),
            vec![("/v1/sessions/s/events", json!({"events": [event(2)]}))],
        ),
        (
            "callTool",
            (tool, json!({"sessionId": "s", "label": "t"})),
            vec![
                (tool, json!({"sessionId": "s", "label": "u"})),
                ("/v1/tools/resume", json!({"sessionId": "s", "checkpoint": "first"})),
            ],
        ),
    ]
}

async fn keyed(house: &House, key: &str, call: &(&str, Value)) -> (u16, String, Value) {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    let body = Some(call.1.to_string().into_bytes());
    let reply = house.call("POST", call.0, &headers, body).await;
    let answer = reply.json();
    let ids = ["id", "fencing_token", "checkpointId", "first_position"];
    let lease = &answer["lease"]["fencing_token"];
    let made = &answer["as_checkpoint"]["id"];
    let same: Vec<&Value> = ids.iter().map(|id| &answer[*id]).chain([lease, made]).collect();
    (reply.status, reply.code(), json!(same))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_with_another_call_is_a_conflict_for_every_operation_that_takes_one() {
    over_every_engine(async |house| {
        let document = house.get("/openapi.json").await.json();
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|path| path.as_object().unwrap().values());
        let taking = operations.filter(|operation| {
            let parameters = operation["parameters"].as_array();
            parameters.is_some_and(|all| all.iter().any(|one| one["name"] == "Idempotency-Key"))
        });
        let taking: BTreeSet<_> = taking.map(|one| one["operationId"].as_str().unwrap()).collect();
        let rows = rows();
        assert_eq!(taking, rows.iter().map(|row| row.0).collect(), "each has a row");
        house.session("s", 9).await;
        house.session("w", 1).await;
        for label in ["first", "second", "third"] {
            house.post("/v1/sessions/s/checkpoints", &json!({"label": label, "at": "1"})).await;
        }
        for (operation, call, others) in &rows {
            let first = keyed(house, operation, call).await;
            assert!(first.0 < 300, "{operation}: {first:?}");
            assert_eq!(keyed(house, operation, call).await, first, "{operation}: a retry");
            for other in others {
                let (status, code, _) = keyed(house, operation, other).await;
                assert_eq!((status, code.as_str()), (409, "idempotency_conflict"), "{other:?}");
            }
            assert_eq!(keyed(house, operation, call).await, first, "{operation}: still");
        }
    })
    .await;
}
