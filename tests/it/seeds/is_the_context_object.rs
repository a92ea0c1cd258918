//! The session is the object that a harness calls for context: written by one, read in slices by
//! another from where it last stopped, viewed as of before a moment, transformed on the way to a
//! model, and never changed by that. Another reader gets what one context window lost.

use serde_json::{Value, json};

use crate::{
    http::house::{House, over_every_engine},
    views::judge,
};

async fn get(house: &House, path: &str) -> Value {
    let reply = house.get(&format!("/v1/sessions/job/{path}")).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    reply.json()
}

async fn emit(house: &House, events: &[Value]) -> u64 {
    let path = "/v1/sessions/job/events?create=true";
    let reply = house.post(path, &json!({ "events": events })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["next_position"].as_u64().unwrap()
}

/// Returns turns of work: a call, its long result, a message of the model.
fn turns(from: usize, to: usize) -> Vec<Value> {
    let turn = |n: usize| {
        let output = format!("measured part {n}:   42 mm\n\n\n").repeat(40);
        [
            json!({"type": "agent.tool_use", "id": format!("use-{n}"), "name": "measure",
                "call_id": format!("c{n}"), "input": {"part": n}}),
            json!({"type": "agent.tool_result", "call_id": format!("c{n}"), "content": output}),
            json!({"type": "agent.message", "content": format!("Part {n} is 42 mm.")}),
        ]
    };
    (from..to).flat_map(turn).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_provides_context_to_several_harnesses_without_changing() {
    over_every_engine(async |house| {
        let task = json!({"type": "user.message", "content": "Measure all parts."});
        let mut first = vec![task];
        first.extend(turns(0, 40));
        let read = emit(house, &first).await;

        // Another harness starts where the last read ended, while the first continues.
        emit(house, &turns(40, 60)).await;
        let page = get(house, &format!("events?from={read}&limit=5")).await;
        assert_eq!(page["data"][0]["id"], "use-40");
        let next = page["next_position"].as_u64().unwrap();
        assert_eq!(next, read + 5);

        // The events before a specific action, and an arbitrary slice.
        let around = get(house, "events?around=event:use-17&before=2&after=1").await;
        let kinds: Vec<&Value> =
            around["data"].as_array().unwrap().iter().map(|event| &event["type"]).collect();
        assert_eq!(
            kinds,
            ["agent.tool_result", "agent.message", "agent.tool_use", "agent.tool_result"]
        );
        let slice = get(house, "events?from=7&to=11").await;
        assert_eq!(slice["data"].as_array().unwrap().len(), 4);

        // The context as of before a moment has no later events.
        let query = "views/window?tokens_max=6000&format=anthropic&transforms[]=compress";
        let before = get(house, &format!("{query}&at=event:use-17")).await;
        judge::anthropic(&before);
        let text = before.to_string();
        assert!(text.contains("Part 16 is 42 mm.") && !text.contains("Part 17"), "{text}");

        // Transforms may change from one request to the next; the log does not.
        let log = get(house, "events?limit=1000").await;
        let plain = get(house, "views/window?tokens_max=6000&format=anthropic").await;
        let more = get(house, query).await;
        judge::anthropic(&plain);
        let shown = |answer: &Value| 181 - left_out(answer);
        assert!(shown(&more) > shown(&plain), "compressed, more of it fits");
        assert_eq!(get(house, "events?limit=1000").await, log);

        // A compaction loses nothing: the dropped ranges are named and readable.
        let kept = json!([[0, 1], [175, 181]]);
        emit(
            house,
            &[json!({"type": "context.compacted", "trigger": "auto", "kept": kept,
            "summary": "58 parts were measured."})],
        )
        .await;
        let lost = get(house, "views/compactions").await["lost"].clone();
        assert_eq!(lost, json!([{"from": 1, "to": 175}]));
        let back = get(house, "events?from=1&to=175").await;
        assert_eq!(back["data"], Value::Array(log["data"].as_array().unwrap()[1..175].to_vec()));
    })
    .await;
}

fn left_out(answer: &Value) -> u64 {
    let ranges = answer["dropped"].as_array().unwrap().iter();
    ranges.map(|range| range["to"].as_u64().unwrap() - range["from"].as_u64().unwrap()).sum()
}
