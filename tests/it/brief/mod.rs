//! The brief: one text in Markdown with the state of a session. Recorded text cannot break its
//! frame, its budget is counted on the text and used up, and it contains the user's messages.

mod frame;
mod spent;
mod state;
mod words;

use serde_json::{Value, json};

use crate::http::house::House;

/// Returns the text of a view, which is Markdown.
async fn brief(house: &House, id: &str, view: &str, tokens: usize) -> String {
    let path = format!("/v1/sessions/{id}/views/{view}?format=text&tokens_max={tokens}");
    let reply = house.get(&path).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.header("content-type"), "text/markdown; charset=utf-8");
    reply.text
}

/// Returns the text of a restore that writes nothing.
async fn restored(house: &House, id: &str, tokens: usize) -> String {
    let asked = json!({"session_id": id, "create": false, "tokens_max": tokens});
    let reply = house.post("/v1/workspaces/%2Fw/restore?format=text", &asked).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.text
}

/// Creates a session of these events in the workspace `/w`.
async fn session(house: &House, id: &str, events: &[Value]) {
    let new = json!({"id": id, "workspace": "/w", "initial_events": events});
    let made = house.post("/v1/sessions", &new).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

fn said(kind: &str, text: &str) -> Value {
    json!({"type": kind, "content": text})
}

/// Returns the events of a shell call and its result.
fn ran(n: usize, command: &str, output: &str, failed: bool) -> [Value; 2] {
    let call = format!("c{n}");
    [
        json!({"type": "agent.tool_use", "call_id": call, "name": "Bash",
            "input": {"command": command, "description": "it is run"}}),
        json!({"type": "agent.tool_result", "call_id": call, "content": output,
            "is_error": failed}),
    ]
}
