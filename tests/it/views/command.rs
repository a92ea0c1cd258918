//! The verb `view`: HTTP's answer with `--json`, and readable text without.

use serde_json::{Value, json};

use crate::program::Place;

fn create_session(place: &Place) {
    let lines = [
        json!({"type": "user.message", "content": "mend \u{1b}[31mit"}),
        json!({"type": "plan.updated", "steps": [{"text": "look", "state": "done"}, "paint"]}),
        json!({"type": "agent.tool_use", "name": "f", "call_id": "c", "input": {}}),
        json!({"type": "agent.tool_result", "call_id": "c", "content": "it is red"}),
        json!({"type": "research.step", "number": 1, "description": "looked at it"}),
        json!({"type": "context.compacted", "dropped": [[1, 3]], "trigger": "auto"}),
        json!({"type": "span.model_request_end", "model_usage": {"input_tokens": 90}}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    place.run_with(&["append", "--create", "s"], &input).ok();
}

#[test]
fn the_command_line_prints_every_view_as_http_returns_it() {
    let place = Place::new();
    create_session(&place);
    let server = place.serve_with(&["--token-limit", "100", "--token-margin", "0"]);
    let view = |arguments: &[&str]| {
        let all = [&["view", "s"], arguments, &["--url", &server.url]].concat();
        (place.run(&[&all[..], &["--json"]].concat()).json(), place.run(&all).ok())
    };
    for (arguments, member, expected, shown) in [
        (&["index"][..], "/steps_total", json!(1), "looked at it"),
        (&["index", "--find", "RED"], "/matches/0/kind", json!("result"), "it is red"),
        (
            &["index", "--find", "look", "--at", "1"],
            "/searched_from",
            json!(0),
            "0 passages for \"look\" in the whole session",
        ),
        (&["summary"], "/is_complete", json!(false), "looked at it"),
        (&["step", "--step", "1"], "/step/description", json!("looked at it"), "looked at it"),
        (&["continuation"], "/plan/steps/1/text", json!("paint"), "it is red"),
        (&["continuation", "--at", "3"], "/results", json!([]), "mend \u{fffd}[31mit"),
        (
            &["window", "--format", "openai", "--tokens-max", "900"],
            "/messages/2/tool_call_id",
            json!("c"),
            "it is red",
        ),
        (
            &["window", "--from", "3", "--at", "-2", "--tokens-max", "900"],
            "/dropped/0/reason",
            json!("before"),
            "it is red",
        ),
        (
            &["window", "--format", "anthropic", "--transform", "annotate", "--tokens-max", "900"],
            "/messages/0/content/0/text",
            json!("[0] mend \u{1b}[31mit"),
            "[0] mend",
        ),
        (&["usage"], "/threshold", json!(75), "threshold 75 tokens: reached"),
        (&["compactions"], "/lost", json!([{"from": 1, "to": 3}]), "auto"),
    ] {
        let (answer, text) = view(arguments);
        assert_eq!(answer.pointer(member), Some(&expected), "{arguments:?}: {answer}");
        assert!(text.contains(shown), "{arguments:?}: {text}");
        assert!(!text.contains('\u{1b}'), "{arguments:?}: {text}");
        let path = match arguments {
            ["step", ..] => "steps/1",
            [name] => name,
            ["index", "--find", "RED"] => "index?find=RED",
            _ => continue,
        };
        let body = reqwest_text(&format!("{}/v1/sessions/s/views/{path}", server.url));
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), answer);
    }
    // The level of a report from before this server had a limit: no event records it.
    assert_eq!(view(&["usage"]).0["tokens"], 90);
    let refused = ["view", "s", "window", "--transform", "squash", "--json"];
    assert_eq!(place.run(&refused).refused(2), "invalid_request");
    assert_eq!(place.run(&["view", "none", "index", "--json"]).refused(4), "session_not_found");
    assert_eq!(place.run(&["view", "s", "step"]).code, 2);
    assert_eq!(place.run(&["view", "s", "summary", "--find", "red"]).code, 2);
    let refused = ["view", "s", "index", "--find", "?", "--json"];
    assert_eq!(place.run(&refused).refused(2), "invalid_request");
}

#[test]
fn a_result_with_outdated_file_content_is_marked_and_left_out_of_texts() {
    let place = Place::new();
    let call = |id: &str, name: &str, path: &str| {
        json!({"type": "agent.tool_use", "name": name, "call_id": id,
            "input": {"file_path": path}, "raw": {"cwd": "/p"}})
    };
    let result =
        |id: &str, text: &str| json!({"type": "agent.tool_result", "call_id": id, "content": text});
    let lines = [
        json!({"type": "user.message", "content": "mend it"}),
        call("c1", "Read", "/p/a.rs"),
        result("c1", "fn a() {}"),
        call("c2", "Read", "/p/b.rs"),
        result("c2", "fn b() {}"),
        call("c3", "Edit", "/p/a.rs"),
        result("c3", "done"),
        call("c4", "Read", "/p/a.rs"),
        result("c4", "fn a() { b() }"),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    place.run_with(&["append", "--create", "s"], &input).ok();
    let view = place.run(&["view", "s", "continuation", "--json"]).json();
    let changed: Vec<(&Value, &Value)> = view["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["text"], &one["changed_at"]))
        .filter(|(text, _)| text.as_str().is_some_and(|text| text.starts_with("fn")))
        .collect();
    let expected = [
        (&json!("fn a() {}"), &json!(6)),
        (&json!("fn b() {}"), &Value::Null),
        (&json!("fn a() { b() }"), &Value::Null),
    ];
    assert_eq!(changed, expected, "{view}");
    let text = place.run(&["view", "s", "continuation"]).ok();
    // The text has only the current content of the file.
    assert!(text.contains("Read a.rs") || text.contains("Read /p/a.rs"), "{text}");
    assert!(text.contains("fn a() { b() }") && !text.contains("fn a() {}"), "{text}");
}

#[test]
fn a_long_result_does_not_displace_several_short_ones() {
    let place = Place::new();
    let pair = |id: &str, name: &str, input: Value, found: String| {
        [
            json!({"type": "agent.tool_use", "name": name, "call_id": id, "input": input}),
            json!({"type": "agent.tool_result", "call_id": id, "content": found}),
        ]
    };
    let flight = |no: u32| json!({"no": format!("HAT{no}"), "seats": no / 10, "at": "14:00"});
    let flights: Vec<Value> = (100..150).map(flight).collect();
    let cards: Vec<Value> = (0..24).map(|no| json!({"id": format!("card_97410{no:02}")})).collect();
    let mut lines = vec![json!({"type": "user.message", "content": "Take the cheapest to Oslo"})];
    // A destination is not a file that could be read again.
    let to = json!({"origin": "SEA", "destination": "OSL"});
    let cards = json!({"name": "Ann Lee", "cards": cards}).to_string();
    lines.extend(pair("c1", "get_user", json!({"id": "ann_1"}), cards));
    lines.extend(pair("c2", "search_flights", to, json!(flights).to_string()));
    for no in 0..4 {
        let input = json!({"expression": format!("{no} + 1")});
        lines.extend(pair(&format!("s{no}"), "calculate", input, format!("{}.0", no + 1)));
    }
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    place.run_with(&["append", "--create", "s"], &input).ok();
    let shown = |tokens: &str| {
        let text = place.run(&["view", "s", "continuation", "--tokens-max", tokens]).ok();
        text.replace("\n  ", " ")
    };
    let (small, large) = (shown("620"), shown("8000"));
    for text in [&small, &large] {
        assert!(text.contains("{name: Ann Lee, cards: [{id: card_9741000}"), "{text}");
        assert!(text.contains("{id: card_9741023}]}"), "{text}");
    }
    assert!(!small.contains("HAT149"), "{small}");
    let whole = "search_flights SEA destination=OSL -> [{no: HAT100, seats: 10, at: 14:00}";
    assert!(large.contains(whole) && large.contains("HAT149"), "{large}");
}

fn reqwest_text(url: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = crate::say::http_client().build().unwrap();
        client.get(url).send().await.unwrap().text().await.unwrap()
    })
}
