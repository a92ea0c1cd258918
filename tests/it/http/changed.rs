//! Changes of a file over the sessions of its workspace, with the requests behind them.

use std::time::Duration;

use serde_json::{Value, json};

use super::house::over_every_engine;

#[tokio::test(flavor = "multi_thread")]
async fn file_changes_are_listed_with_the_preceding_user_request() {
    over_every_engine(async |house| {
        let edit = |id: &str, path: &str| {
            json!([
                {"type": "agent.tool_use", "name": "Edit", "call_id": id,
                    "input": {"file_path": path}},
                {"type": "agent.tool_result", "call_id": id, "content": "ok"}
            ])
        };
        for (id, workspace, events) in [
            ("early", json!("/w"), edit("1", "/w/a.rs")),
            ("other", json!("/x"), edit("2", "/w/a.rs")),
            ("late", Value::Null, edit("3", "/w/sub/../a.rs")),
            ("aside", json!("/w"), edit("4", "/w/b.rs")),
        ] {
            house.clock.advance(Duration::from_secs(1));
            let mut all = vec![json!({"type": "user.message", "content": format!("Ask {id}")})];
            all.extend(events.as_array().unwrap().iter().cloned());
            let made = json!({"id": id, "workspace": workspace, "initial_events": all});
            let made = house.post("/v1/sessions", &made).await;
            assert_eq!(made.status, 201, "{}", made.text);
        }
        let found = house.get("/v1/file-changes?file=/w/a.rs").await.json();
        let rows = |found: &Value| -> Vec<(Value, Value, Value)> {
            let data = found["data"].as_array().unwrap().iter();
            let row = |one: &Value| {
                let change = &one["changes"][0];
                (one["session"].clone(), change["position"].clone(), change["asked"].clone())
            };
            data.map(row).collect()
        };
        let asked = |text: &str| json!({"position": 0, "text": text});
        assert_eq!(
            rows(&found),
            [
                (json!("late"), json!(2), asked("Ask late")),
                (json!("early"), json!(2), asked("Ask early")),
            ]
        );
        assert_eq!(found["complete"], true);
        let latest = house.get("/v1/file-changes?file=/w/a.rs&limit=1").await.json();
        assert_eq!((rows(&latest).len(), &latest["complete"]), (1, &json!(false)), "{latest}");
        let also = house.get("/v1/file-changes?file=/w/link.rs&also=/w/b.rs").await.json();
        assert_eq!(rows(&also)[0].0, "aside", "{also}");
        for wrong in ["file=a.rs", "file=/w/a.rs&limit=0", "limit=1"] {
            let refused = house.get(&format!("/v1/file-changes?{wrong}")).await;
            assert_eq!(refused.code(), "invalid_request", "{wrong}");
        }
        let forked = json!({"at": 3, "id": "fork"});
        assert_eq!(house.post("/v1/sessions/early/fork", &forked).await.status, 201);
        let more = json!({"events": edit("5", "/w/a.rs")});
        assert_eq!(house.post("/v1/sessions/fork/events", &more).await.status, 200);
        let found = house.get("/v1/file-changes?file=/w/a.rs").await.json();
        let fork = found["data"].as_array().unwrap().iter().find(|one| one["session"] == "fork");
        let changes = fork.unwrap()["changes"].as_array().unwrap();
        assert_eq!((changes.len(), &changes[0]["position"]), (1, &json!(4)), "{found}");
        assert_eq!(changes[0]["asked"]["text"], "Ask early", "{found}");
        assert_eq!(house.call("DELETE", "/v1/sessions/early", &[], None).await.status, 200);
        let found = house.get("/v1/file-changes?file=/w/a.rs").await.json();
        assert_eq!(found["data"][0]["changes"].as_array().unwrap().len(), 2, "{found}");
        let tool = json!({"file": "/w/a.rs"});
        let tool = house.post("/v1/tools/find_file_changes", &tool).await.json();
        assert_eq!(tool["data"][0]["changes"][0]["asked"]["text"], "Ask early", "{tool}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_moves_a_file_is_one_change_of_it() {
    over_every_engine(async |house| {
        let input = json!({"command": "mv cart.py basket.py && rm notes.md"});
        let call =
            json!({"type": "agent.tool_use", "name": "Bash", "call_id": "1", "input": input});
        let done = json!({"type": "agent.tool_result", "call_id": "1", "content": ""});
        let made = json!({"id": "s", "workspace": "/w", "initial_events": [call, done]});
        assert_eq!(house.post("/v1/sessions", &made).await.status, 201);
        for (file, how) in
            [("cart.py", "deleted"), ("basket.py", "changed"), ("notes.md", "deleted")]
        {
            let found = house.get(&format!("/v1/file-changes?file=/w/{file}")).await.json();
            let changes = found["data"][0]["changes"].as_array().unwrap();
            assert_eq!((changes.len(), &changes[0]["how"]), (1, &json!(how)), "{file}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_in_lower_case_finds_the_file_unless_one_is_spelled_so() {
    over_every_engine(async |house| {
        let edit = async |id: &str, path: &str| {
            let events = json!([
                {"type": "agent.tool_use", "name": "Edit", "call_id": id,
                    "input": {"file_path": path}},
                {"type": "agent.tool_result", "call_id": id, "content": "ok"}
            ]);
            let made = json!({"id": id, "workspace": "/w", "initial_events": events});
            assert_eq!(house.post("/v1/sessions", &made).await.status, 201);
        };
        let sessions = async |file: &str| -> Vec<Value> {
            let found = house.get(&format!("/v1/file-changes?file={file}")).await.json();
            found["data"].as_array().unwrap().iter().map(|one| one["session"].clone()).collect()
        };
        edit("upper", "/w/CHANGES.md").await;
        assert_eq!(sessions("/w/changes.md").await, ["upper"]);
        assert_eq!(sessions("/w/Changes.md").await, Vec::<Value>::new());
        edit("lower", "/w/changes.md").await;
        assert_eq!(sessions("/w/changes.md").await, ["lower"]);
        assert_eq!(sessions("/w/CHANGES.md").await, ["upper"]);
    })
    .await;
}
