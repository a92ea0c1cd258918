//! Windows in each interface: parameters, errors, points, and the events they page in.

use serde_json::{Value, json};
use sessionlog::harness::Tokenizer;

use super::{judge, recalled::indexed};
use crate::http::house::{House, over_every_engine};

/// Creates a session with a task and `count` exchanges, each with a long output.
async fn create_exchanges(house: &House, id: &str, count: usize) {
    let made = house.post("/v1/sessions", &json!({ "id": id })).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let mut events = vec![
        json!({"type": "system.message", "content": "You mend things."}),
        json!({"type": "user.message", "content": "Mend the thing, please."}),
    ];
    for n in 0..count {
        events.push(json!({"type": "agent.tool_use", "name": "read", "call_id": format!("c{n}"),
            "input": {"path": format!("part-{n}.txt")}}));
        let text = format!("part {n} is made of wood and  brass\n\n\n").repeat(20);
        events.push(json!({"type": "agent.tool_result", "call_id": format!("c{n}"),
            "content": [{"type": "text", "text": text}]}));
    }
    for batch in events.chunks(500) {
        let path = format!("/v1/sessions/{id}/events");
        let reply = house.post(&path, &json!({ "events": batch })).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

async fn window(house: &House, id: &str, query: &str) -> Value {
    let reply = house.get(&format!("/v1/sessions/{id}/views/window?{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text);
    reply.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_shows_the_task_and_the_newest_events_and_names_omitted_ranges() {
    over_every_engine(async |house| {
        create_exchanges(house, "long", 300).await;
        for format in ["anthropic", "openai"] {
            let query = format!("tokens_max=3000&format={format}");
            let answer = window(house, "long", &query).await;
            let tokens = answer["tokens"].as_u64().unwrap();
            assert!(tokens <= 3_000 && tokens > 2_000, "{tokens}");
            match format {
                "anthropic" => judge::anthropic(&answer),
                _ => judge::openai(&answer),
            }
            let text = answer.to_string();
            for part in ["You mend things.", "Mend the thing, please.", "part-299.txt"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            // Omitted events are read by the range that names them.
            let dropped = answer["dropped"].as_array().unwrap();
            assert_eq!(dropped.len(), 1, "{answer}");
            assert_eq!(dropped[0]["reason"], "budget");
            // The task and the events after it are kept within a fifth of the budget.
            let from = dropped[0]["from"].as_u64().unwrap();
            assert!((3..200).contains(&from), "{from}");
            let to = dropped[0]["to"].as_u64().unwrap();
            assert!(to > 500 && !text.contains(&format!("part-{}.txt", (to - 2) / 2 - 1)));
            let path = format!("/v1/sessions/long/events?from={from}&to={to}");
            let page = house.get(&path).await.json();
            assert_eq!(page["data"].as_array().unwrap().len() as u64, to - from);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_as_of_a_point_equals_that_of_a_session_that_stopped_there() {
    let house = House::plain().await;
    create_exchanges(&house, "whole", 40).await;
    create_exchanges(&house, "part", 10).await;
    indexed(&house).await;
    for (query, at) in [("", "22"), ("&transforms[]=compress&transforms[]=reorder", "-60")] {
        let query = format!("tokens_max=2000&format=anthropic{query}");
        let then = window(&house, "whole", &format!("{query}&at={at}")).await;
        assert_eq!(then, window(&house, "part", &query).await);
    }
    let empty = window(&house, "whole", "format=anthropic&at=0").await;
    assert_eq!((&empty["messages"], &empty["tokens"]), (&json!([]), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn transforms_are_listed_with_parameters_and_do_not_change_the_log() {
    let house = House::plain().await;
    create_exchanges(&house, "s", 12).await;
    let before = house.get("/v1/sessions/s/export").await.text;
    let plain = window(&house, "s", "tokens_max=100000&format=openai").await;
    let tokens = |answer: &Value| answer["tokens"].as_u64().unwrap();
    let mut last = tokens(&plain);
    for transforms in ["compress:whitespace", "compress:whitespace,elide,keep=2,tokens=60"] {
        let query = format!("tokens_max=100000&format=openai&transforms[]={transforms}");
        let answer = window(&house, "s", &query).await;
        assert!(tokens(&answer) < last, "{transforms}: {} of {last}", tokens(&answer));
        last = tokens(&answer);
        assert_eq!(answer["dropped"], json!([]));
    }
    let query = "tokens_max=100000&transforms[]=filter:drop=agent.tool_use&transforms[]=annotate";
    let answer = window(&house, "s", &format!("{query}&format=anthropic")).await;
    assert_eq!(answer["dropped"], json!([{"from": 2, "to": 26, "reason": "filtered"}]));
    assert_eq!(answer["messages"][0]["content"][0]["text"], "[1] Mend the thing, please.");
    // In the events format a shortened output is marked and keeps its position.
    let query = "tokens_max=100000&transforms[]=compress:elide,keep=1,tokens=50";
    let answer = window(&house, "s", query).await;
    let shortened = answer["shortened"].as_array().unwrap();
    assert!(!shortened.is_empty());
    let first = shortened[0].as_u64().unwrap();
    let event = &answer["events"][usize::try_from(first).unwrap()];
    assert_eq!(event["position"], json!(first));
    let note = format!("left out; whole at position {first}]");
    assert!(event["content"].as_str().unwrap().ends_with(&note), "{event}");
    assert_eq!(house.get("/v1/sessions/s/export").await.text, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_has_only_the_latest_of_repeated_calls() {
    let house = House::plain().await;
    let call =
        |id: &str| json!({"type": "agent.tool_use", "name": "f", "call_id": id, "input": {}});
    let result = |id: &str| json!({"type": "agent.tool_result", "call_id": id, "content": "same"});
    let events = json!({"id": "s", "initial_events": [
        {"type": "user.message", "content": "go"}, call("a"), result("a"), call("b"), result("b"),
    ]});
    assert_eq!(house.post("/v1/sessions", &events).await.status, 201);
    let answer = window(&house, "s", "format=anthropic&transforms[]=filter").await;
    assert_eq!(answer["dropped"], json!([{"from": 1, "to": 3, "reason": "filtered"}]));
    assert_eq!(answer["messages"][1]["content"][0]["id"], "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_window_parameter_is_rejected_with_an_error_naming_it() {
    let house = House::plain().await;
    create_exchanges(&house, "s", 1).await;
    for (query, field) in [
        ("tokens_max=63", "tokens_max"),
        ("tokens_max=4000001", "tokens_max"),
        ("tokens_max=many", "tokens_max"),
        ("format=xml", "format"),
        ("tokenizer=gpt", "tokenizer"),
        ("transforms[]=squash", "transforms[]"),
        ("transforms[]=compress:x", "transforms[]"),
        ("at=nowhere", "at"),
    ] {
        let reply = house.get(&format!("/v1/sessions/s/views/window?{query}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_request"), "{query}");
        let hint = &reply.json()["error"]["recovery_hint"];
        assert_eq!(hint["field"], field, "{query}: {}", reply.text);
    }
    let unknown = house.get("/v1/sessions/s/views/window?at=event:x").await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "point_not_found"));
    let none = house.get("/v1/sessions/none/views/window").await;
    assert_eq!((none.status, none.code().as_str()), (404, "session_not_found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_or_output_larger_than_the_budget_is_shown_shortened() {
    let house = House::plain().await;
    let long = "a very long text about nothing ".repeat(2_000);
    let events = json!({"id": "s", "initial_events": [
        {"type": "user.message", "content": long},
        {"type": "agent.tool_use", "name": "f", "call_id": "a", "input": {"text": long}},
        {"type": "agent.tool_result", "call_id": "a", "content": long},
    ]});
    assert_eq!(house.post("/v1/sessions", &events).await.status, 201);
    let answer = window(&house, "s", "format=anthropic&tokens_max=1000").await;
    judge::anthropic(&answer);
    assert_eq!((&answer["dropped"], &answer["shortened"]), (&json!([]), &json!([0, 1, 2])));
    let price = judge::price(&answer, Tokenizer::Claude);
    assert!(price <= 1_000 && price > 600, "{price}");
    let tiny = window(&house, "s", "format=openai&tokens_max=64").await;
    judge::openai(&tiny);
    assert!(judge::price(&tiny, Tokenizer::O200k) <= 64, "{tiny}");
}
