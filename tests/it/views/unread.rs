//! Windows that show little, and the reason they give; and results that name no call.

use serde_json::{Value, json};

use super::judge;
use crate::http::house::House;

async fn house_with(events: &Value) -> House {
    let house = House::plain().await;
    let made = house.post("/v1/sessions", &json!({"id": "s", "initial_events": events})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    house
}

async fn view(house: &House, path: &str) -> Value {
    let reply = house.get(&format!("/v1/sessions/s/views/{path}")).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    reply.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_window_lists_the_types_it_renders_and_omits() {
    let house = house_with(&json!([
        {"type": "assistant.message", "content": "hi"},
        {"type": "assistant.message", "content": "ho"},
        {"type": "tool.call", "name": "f"},
    ]))
    .await;
    for format in ["anthropic", "openai"] {
        let answer = view(&house, &format!("window?format={format}")).await;
        assert_eq!(answer["messages"], json!([]), "{answer}");
        let empty = &answer["empty"];
        let left_out = json!([
            {"type": "assistant.message", "count": 2}, {"type": "tool.call", "count": 1}
        ]);
        assert_eq!(empty["left_out"], left_out, "{answer}");
        let renders = empty["renders"].as_array().unwrap();
        assert!(renders.contains(&json!("agent.message")), "{answer}");
        assert!(renders.contains(&json!("user.message")), "{answer}");
    }
    let spoken = house_with(&json!([{"type": "user.message", "content": "hi"}])).await;
    assert_eq!(view(&spoken, "window?format=anthropic").await.get("empty"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_events_omits_the_raw_member_of_imported_events() {
    let house = house_with(&json!([
        {"type": "user.message", "content": "hi", "raw": {"role": "user", "content": "hi there"}},
        {"type": "agent.message", "content": "ho", "raw": {"much": "x".repeat(9_000)}},
    ]))
    .await;
    let answer = view(&house, "window?format=events&tokens_max=600").await;
    let events = answer["events"].as_array().unwrap();
    assert_eq!(events.len(), 2, "{answer}");
    assert!(events.iter().all(|event| event.get("raw").is_none()), "{answer}");
    assert_eq!(events[1]["content"], "ho");
    let kept = house.get("/v1/sessions/s/events").await.json();
    assert_eq!(kept["data"][0]["raw"]["content"], "hi there", "the log has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_without_an_id_closes_the_same_call_in_every_view() {
    let house = house_with(&json!([
        {"type": "user.message", "content": "do it"},
        {"type": "agent.tool_use", "name": "read", "call_id": "c1", "input": {"path": "a"}},
        {"type": "agent.tool_use", "name": "grep", "call_id": "c2", "input": {"q": "b"}},
        {"type": "agent.tool_use", "name": "read", "call_id": "c3", "input": {"path": "c"}},
        {"type": "agent.tool_result", "name": "read", "content": "FIRST"},
        {"type": "agent.tool_result", "call_id": "c3", "content": "THIRD"},
        {"type": "agent.tool_result", "content": "SECOND"},
        {"type": "agent.tool_result", "content": "OF NO CALL"},
    ]))
    .await;
    let answer = view(&house, "window?format=anthropic").await;
    judge::anthropic(&answer);
    let results: Vec<(String, String)> = answer["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["content"].as_array().unwrap())
        .filter(|block| block["type"] == "tool_result")
        .map(|block| (block["tool_use_id"].to_string(), block["content"].to_string()))
        .collect();
    for (id, said) in [("c1", "FIRST"), ("c2", "SECOND"), ("c3", "THIRD")] {
        let fits = |one: &&(String, String)| one.0.contains(id) && one.1.contains(said);
        assert!(results.iter().any(|one| fits(&one)), "{id} {said}: {results:?}");
    }
    let woken = house.post("/v1/sessions/s/wake", &json!({})).await.json();
    assert_eq!(woken["unfinished"], Value::Null, "{woken}");
    let continued = view(&house, "continuation").await.to_string();
    assert!(!continued.contains(r#""tool":"""#), "{continued}");
}
