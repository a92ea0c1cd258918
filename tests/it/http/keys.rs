//! Idempotency keys through HTTP, over every engine: a repeated call has the first response,
//! another call with the same key is a conflict. It must not list verbs: the published description
//! does.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::house::{PATIENCE, over_every_engine};
use crate::{
    program::{Place, Server},
    say,
};

/// An operation or a tool, a call, and other calls that must not be taken for it.
type Row = (&'static str, (&'static str, Value), Vec<(&'static str, Value)>);

/// Returns every operation and every tool that accepts an idempotency key.
fn rows() -> Vec<Row> {
    let fork = "/v1/sessions/s/fork";
    let points = "/v1/sessions/s/checkpoints";
    let wake = "/v1/sessions/w/wake";
    let event = |n: u64| json!({"type": "user.message", "n": n});
    let create = json!({"title": "a", "initial_events": [event(1), event(2)]});
    let mut rows = vec![
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
    ];
    rows.extend(memory_rows());
    rows.extend(graph_rows());
    rows.extend(handoff_rows());
    // Last, because `continue_session` returns the tail: no row after it appends to `s`.
    rows.extend(tools());
    rows
}

/// Returns the operations of memory and marks.
fn memory_rows() -> Vec<Row> {
    let (memory, skills) = ("/v1/sessions/s/memory", "/v1/sessions/s/skills");
    vec![
        (
            "remember",
            (memory, json!({"text": "a", "kind": "episodic"})),
            vec![
                (memory, json!({"text": "b", "kind": "episodic"})),
                (memory, json!({"text": "a", "kind": "working"})),
            ],
        ),
        (
            "rememberInWorkspace",
            ("/v1/workspaces/w/memory", json!({"text": "a", "kind": "semantic"})),
            vec![("/v1/workspaces/w/memory", json!({"text": "b", "kind": "semantic"}))],
        ),
        (
            "saveSkill",
            (skills, json!({"name": "a", "description": "b", "body": "c"})),
            vec![(skills, json!({"name": "a", "description": "b", "body": "d"}))],
        ),
        (
            "markEvent",
            ("/v1/sessions/s/events/s-1/mark", json!({"mark": "done"})),
            vec![
                ("/v1/sessions/s/events/s-1/mark", json!({"mark": "wrong"})),
                ("/v1/sessions/s/events/s-2/mark", json!({"mark": "done"})),
            ],
        ),
    ]
}

/// Returns the operations of the graph of a workspace; the first of them creates the notebook.
fn graph_rows() -> Vec<Row> {
    let (one, other) = ("/v1/workspaces/g/entities/task/a", "/v1/workspaces/g/entities/task/b");
    let relations = "/v1/workspaces/g/relationships";
    let relation = |to: &str| json!({"type": "USES", "from_id": "s", "to_id": to});
    vec![
        (
            "upsertEntity",
            (one, json!({"properties": {"n": 1}})),
            vec![
                (one, json!({"properties": {"n": 2}})),
                (other, json!({"properties": {"n": 1}})),
                (relations, relation("g")),
            ],
        ),
        (
            "createRelationship",
            (relations, relation("w")),
            vec![(relations, relation("g")), (one, json!({"properties": {"n": 1}}))],
        ),
    ]
}

/// Returns the operations that save, restore and continue a session.
fn handoff_rows() -> Vec<Row> {
    let (save, restore) = ("/v1/workspaces/shop/save", "/v1/workspaces/shop/restore");
    let looks = "/v1/workspaces/shop/looks";
    let look = |status: &str| json!({"looks": [{"path": "a.rs", "status": status}]});
    vec![
        (
            "saveSession",
            (save, json!({"conversation_context": "a"})),
            vec![
                (save, json!({"conversation_context": "b"})),
                (save, json!({"conversation_context": "a", "token_count": 1})),
            ],
        ),
        (
            "restoreWork",
            (restore, json!({"tokens_max": 1_000})),
            vec![(restore, json!({"tokens_max": 2_000})), (restore, json!({"create": false}))],
        ),
        ("recordLooks", (looks, look("gone")), vec![(looks, look("same"))]),
    ]
}

/// Returns the tools that accept a key.
fn tools() -> Vec<Row> {
    let fork = "/v1/sessions/s/fork";
    let tool = "/v1/tools/checkpoint";
    vec![
        (
            "callTool",
            (tool, json!({"sessionId": "s", "label": "t"})),
            vec![
                (tool, json!({"sessionId": "s", "label": "u"})),
                ("/v1/tools/resume", json!({"sessionId": "s", "checkpoint": "first"})),
            ],
        ),
        (
            "callTool",
            ("/v1/tools/fork_session", json!({"sessionId": "s", "at": "4"})),
            vec![
                ("/v1/tools/fork_session", json!({"sessionId": "s", "at": "5"})),
                ("/v1/tools/fork_session", json!({"sessionId": "s", "at": "4", "title": "b"})),
                (fork, json!({"at": "4"})),
            ],
        ),
        (
            "callTool",
            ("/v1/tools/continue_session", json!({"sessionId": "s", "tried": ["a"]})),
            vec![
                ("/v1/tools/continue_session", json!({"sessionId": "s", "tried": ["b"]})),
                ("/v1/tools/continue_session", json!({"sessionId": "s", "pageOut": false})),
                (tool, json!({"sessionId": "s", "label": "t"})),
            ],
        ),
    ]
}

/// A client, and the address of a server.
struct At(reqwest::Client, String);

fn at(url: &str) -> At {
    At(say::http_client().timeout(PATIENCE).build().unwrap(), url.to_owned())
}

/// Sends a call with a key; returns the status, the code, and the created object.
async fn call_with_key(at: &At, key: &str, call: &(&str, Value)) -> (u16, String, Value) {
    let method = if call.0.contains("/entities/") { Method::PUT } else { Method::POST };
    let request = at.0.request(method, format!("{}{}", at.1, call.0));
    let request = request.header("idempotency-key", key).json(&call.1);
    let reply = request.send().await.unwrap();
    let status = reply.status().as_u16();
    let answer: Value = reply.json().await.unwrap();
    let ids = [
        "id",
        "memory_id",
        "position",
        "fencing_token",
        "checkpointId",
        "first_position",
        "sessionId",
    ];
    let lease = &answer["lease"]["fencing_token"];
    let made = &answer["as_checkpoint"]["id"];
    let same: Vec<&Value> = ids.iter().map(|id| &answer[*id]).chain([lease, made]).collect();
    let code = answer["error"]["type"].as_str().unwrap_or_default();
    (status, code.to_owned(), json!(same))
}

fn message(session: &str, n: usize) -> Value {
    json!({"id": format!("{session}-{n}"), "type": "user.message", "n": n})
}

/// Creates the sessions and checkpoints that the rows name.
async fn create_row_objects(at: &At) {
    for (session, events) in [("s", 9), ("w", 1)] {
        let events: Vec<Value> = (0..events).map(|n| message(session, n)).collect();
        let new = json!({"id": session, "initial_events": events});
        assert_eq!(call_with_key(at, session, &("/v1/sessions", new)).await.0, 201);
    }
    for label in ["first", "second", "third"] {
        let point = ("/v1/sessions/s/checkpoints", json!({"label": label, "at": "1"}));
        assert_eq!(call_with_key(at, label, &point).await.0, 201);
    }
}

/// Repeats each row's call and expects the first response, and a conflict for each other call.
async fn repeat_calls(at: &At, first: &[(u16, String, Value)]) {
    for (n, ((operation, call, others), first)) in rows().iter().zip(first).enumerate() {
        let key = format!("row {n}");
        assert_eq!(call_with_key(at, &key, call).await, *first, "{operation}: a retry");
        for other in others {
            let (status, code, _) = call_with_key(at, &key, other).await;
            assert_eq!((status, code.as_str()), (409, "idempotency_conflict"), "{other:?}");
        }
        assert_eq!(call_with_key(at, &key, call).await, *first, "{operation}: still");
    }
}

async fn send_first_calls(at: &At) -> Vec<(u16, String, Value)> {
    let mut all = Vec::new();
    for (n, (operation, call, _)) in rows().iter().enumerate() {
        let first = call_with_key(at, &format!("row {n}"), call).await;
        assert!(first.0 < 300, "{operation}: {first:?}");
        all.push(first);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn reusing_an_idempotency_key_for_another_call_is_a_conflict() {
    over_every_engine(async |house| {
        let document = house.get("/openapi.json").await.json();
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|path| path.as_object().unwrap().values());
        let taking = operations.filter(|operation| {
            let parameters = operation["parameters"].as_array();
            parameters.is_some_and(|all| all.iter().any(|one| one["name"] == "Idempotency-Key"))
        });
        let taking: BTreeSet<_> = taking.map(|one| one["operationId"].as_str().unwrap()).collect();
        assert_eq!(taking, rows().iter().map(|row| row.0).collect(), "each has a row");
        let at = &at(&house.url(""));
        create_row_objects(at).await;
        let first = send_first_calls(at).await;
        repeat_calls(at, &first).await;
    })
    .await;
}

#[test]
fn an_idempotency_key_is_remembered_over_a_restart_and_a_kill() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ends: [fn(Server); 2] = [|server| assert_eq!(server.stop(), Some(0)), Server::kill];
    for end in ends {
        let place = Place::new();
        let server = place.serve();
        let first = runtime.block_on(async {
            let at = &at(&server.url);
            create_row_objects(at).await;
            send_first_calls(at).await
        });
        end(server);
        let server = place.serve();
        runtime.block_on(repeat_calls(&at(&server.url), &first));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_with_one_key_create_one_checkpoint() {
    const AT_ONCE: usize = 8;
    over_every_engine(async |house| {
        let at = &at(&house.url(""));
        create_row_objects(at).await;
        let point = |n| ("/v1/sessions/s/checkpoints", json!({"at": "2", "state": {"n": n}}));
        let tried = |n: usize| json!({"sessionId": "s", "tried": [n.to_string()]});
        for round in 0..4 {
            let page = || async { house.get("/v1/sessions/s/checkpoints?limit=100").await.json() };
            let count = async || page().await["data"].as_array().unwrap().len();
            for others in [1, 2] {
                let before = count().await;
                let call = |n: usize| match others {
                    1 => point(n % 2),
                    _ => ("/v1/tools/continue_session", tried(n % 2)),
                };
                let key = &*format!("round {round} {others}");
                let all =
                    (0..AT_ONCE).map(|n| async move { call_with_key(at, key, &call(n)).await });
                let all = futures_util::future::join_all(all).await;
                let done: Vec<_> = all.iter().filter(|one| one.0 < 300).collect();
                assert_eq!(done.len(), AT_ONCE / 2, "one of both calls is refused: {all:?}");
                assert!(done.windows(2).all(|two| two[0].2 == two[1].2), "{all:?}");
                let refused = all.iter().filter(|one| one.1 == "idempotency_conflict").count();
                assert_eq!((refused, count().await), (AT_ONCE / 2, before + 1), "{all:?}");
            }
        }
    })
    .await;
}
