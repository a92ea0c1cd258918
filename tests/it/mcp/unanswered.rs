//! Every request with a readable id is answered, even if the rest cannot be read: on streams, over
//! HTTP, and as a plain call of a tool.

use serde_json::{Value, json};
use sessionlog::{mcp::StdioOptions, verbs::tools::Toolset};

use super::{
    desk::Desk,
    front_end::{Pipes, named},
    server::{Server, Speaker, initialize},
};

const LARGE_ID: &str = "12345678901234567890123";

fn step(id: &str, arguments: &[u8]) -> Vec<u8> {
    let head = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"sequential_search","arguments":"#
    );
    [head.as_bytes(), arguments, b"}}"].concat()
}

/// Returns requests that are not quite JSON or not quite the protocol: the line, the id, and the
/// error code, or none if the request succeeds.
fn odd_requests() -> Vec<(Vec<u8>, Value, Option<i64>)> {
    let mut cut = step("\"cut\"", br#"{"searchStep":"looked at the gauge"#);
    cut.truncate(cut.len() - 2);
    vec![
        (
            step("2", br#"{"searchStep":"the gauge shows \ud83d","stepNumber":1,"nextStepNeeded":true,"researchGoal":"date the gauge"}"#),
            json!(2),
            None,
        ),
        (
            step("3", b"{\"searchStep\":\"caf\xe9 by the weir\",\"stepNumber\":2,\"nextStepNeeded\":true}"),
            json!(3),
            None,
        ),
        (cut, json!("cut"), Some(-32700)),
        (step("4", br#"{"searchStep":7"#), json!(4), Some(-32700)),
        (br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}"#.to_vec(), json!(5), Some(-32600)),
        (step("6", b"[1]"), json!(6), Some(-32602)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_line_is_answered_under_its_id() {
    let server = Server::start(&Desk::new()).await;
    let mut pipes = Pipes::open(&server.url("/"), named("odd"));
    pipes.initialize().await;
    for (line, id, code) in odd_requests() {
        let answer = pipes.ask_in(&line).await;
        let shown = String::from_utf8_lossy(&line);
        assert_eq!(answer["id"], id, "{shown}: {answer}");
        assert_eq!(answer["error"]["code"].as_i64(), code, "{shown}: {answer}");
        assert!(code.is_some() || answer["result"]["isError"] == false, "{shown}: {answer}");
    }
    let whole = pipes.call("get_research_session", json!({})).await.to_string();
    assert!(whole.contains("shows \u{fffd}") && whole.contains("caf\u{fffd} by"), "{whole}");
    // An id beyond every integer type, and a number in an argument.
    let line = format!(r#"{{"jsonrpc":"2.0","id":{LARGE_ID},"method":"ping"}}"#);
    assert!(pipes.text_for(line.as_bytes()).await.contains(&format!("\"id\":{LARGE_ID},")));
    let refused = pipes
        .ask_in(&step("7", br#"{"searchStep":"x","stepNumber":1e400,"nextStepNeeded":true}"#))
        .await;
    assert!(refused["result"]["content"][0]["text"].as_str().unwrap().starts_with("stepNumber: "));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_of_a_batch_line_is_answered() {
    let mut pipes = Pipes::open("http://127.0.0.1:9/", named("several"));
    pipes.initialize().await;
    let ping = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    for (line, ids) in [
        (format!("{}{}", ping(2), ping(3)), vec![2, 3]),
        (format!("[{},{}]", ping(4), ping(5)), vec![4, 5]),
        (
            format!(r#"{{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{{"na{}"#, ping(7)),
            vec![6, 7],
        ),
        (format!("\u{feff}\u{feff}{}", ping(8)), vec![8]),
    ] {
        let first = pipes.ask_in(line.as_bytes()).await;
        let mut answered = vec![first["id"].as_u64().unwrap()];
        for _ in 1..ids.len() {
            answered.push(pipes.hear().await["id"].as_u64().unwrap());
        }
        answered.sort_unstable();
        assert_eq!(answered, ids, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlong_line_is_rejected_under_its_id_and_the_next_one_served() {
    let mut pipes = Pipes::open("http://127.0.0.1:9/", named("long"));
    pipes.initialize().await;
    let long = "x".repeat(17 << 20);
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{{"p":"{long}"}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"p":"{long}","id":1}},"id":11}}"#
        ),
    ] {
        let refused = pipes.ask_in(line.as_bytes()).await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(11), &json!(-32600)));
    }
    // A message that expects no response gets none: the next response is that of the next request.
    for line in
        ["{\"jsonrpc\":\"2.0\",\"method\":\"x", "not JSON", r#"{"jsonrpc":"2.0","id":1,"result":{"#]
    {
        pipes.write(line.as_bytes()).await;
    }
    assert_eq!(pipes.ask_in(br#"{"jsonrpc":"2.0","id":12,"method":"ping"}"#).await["id"], 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_http_request_is_rejected_with_400_and_its_id() {
    let server = Server::start(&Desk::new()).await;
    let mut speaker = Speaker::new(&server, "/mcp");
    speaker.initialize("2025-11-25").await;
    for (body, id, code) in odd_requests() {
        let answer = speaker.send(&[], body.clone()).await;
        let shown = String::from_utf8_lossy(&body);
        let is_read = code.is_none_or(|code| code == -32602);
        assert_eq!(answer.status, if is_read { 200 } else { 400 }, "{shown}");
        assert_eq!(answer.body["id"], id, "{shown}: {}", answer.body);
        assert_eq!(answer.body["error"]["code"].as_i64(), code, "{shown}: {}", answer.body);
    }
    for body in ["{\"jsonrpc\":", "", "7", "[]", "{\"jsonrpc\":\"2.0\"}"] {
        assert_eq!(speaker.send(&[], body.into()).await.status, 400, "{body}");
    }
    // A plain call of the tool accepts an unpaired surrogate, too.
    let plain = Speaker::new(&server, "/v1/tools/sequential_search");
    let body =
        br#"{"searchStep":"half \udc00","stepNumber":1,"nextStepNeeded":true,"researchGoal":"g"}"#;
    let answer = plain.send(&[], body.to_vec()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_a_content_type_that_its_client_accepts() {
    let server = Server::start(&Desk::new()).await;
    let speaker = Speaker::new(&server, "/mcp");
    let both = "application/json, text/event-stream";
    for (accept, form) in [
        (both, Some("text/event-stream")),
        ("*/*", Some("text/event-stream")),
        ("text/event-stream", Some("text/event-stream")),
        ("text/*", Some("text/event-stream")),
        ("application/json", Some("application/json")),
        ("application/json;q=0.5, text/event-stream;q=0", Some("application/json")),
        ("*/*, text/event-stream;q=0.0", Some("application/json")),
        ("application/json;q=0, text/event-stream", Some("text/event-stream")),
        ("*/*;q=0", None),
        ("text/html", None),
    ] {
        let answer =
            speaker.send(&[("accept", accept)], initialize("2025-11-25").to_string().into()).await;
        assert_eq!(answer.status, if form.is_some() { 200 } else { 406 }, "{accept}");
        assert!(form.is_none_or(|form| answer.form.starts_with(form)), "{accept}: {}", answer.form);
        assert!(form.is_none() || answer.body["result"]["serverInfo"].is_object(), "{accept}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_in_a_tools_arguments_keeps_its_original_text() {
    let server = Server::start(&Desk::new()).await;
    let toolsets = vec![Toolset::Events];
    let mut pipes = Pipes::open(&server.url("/"), StdioOptions { toolsets, ..named("numbers") });
    pipes.initialize().await;
    let event = r#"{"type":"meter.read","id":"m1","wei":12345678901234567890123,"price":1.10,"flake":1915883588174806058,"least":-0.0}"#;
    let line = |event: &str| {
        let arguments = format!("{{\"sessionId\":\"meter\",\"event\":{event}}}");
        let head = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"emit_event","arguments":"#;
        format!("{head}{arguments}}}}}")
    };
    let open = json!({"id": "meter"});
    let created = Speaker::new(&server, "/v1/sessions").send(&[], open.to_string().into()).await;
    assert!(created.status < 300, "{}", created.body);
    let answer = pipes.ask_in(line(event).as_bytes()).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    // An event sent as text keeps them, and so does one over HTTP.
    let text = Value::from(event.replace("m1", "m2")).to_string();
    pipes.ask_in(line(&text).as_bytes()).await;
    let mut speaker = Speaker::new(&server, "/mcp?toolsets=events");
    speaker.initialize("2025-11-25").await;
    speaker.send(&[], line(&event.replace("m1", "m3")).into()).await;
    let read =
        pipes.call("get_events", json!({"sessionId": "meter", "types": ["meter.read"]})).await;
    let read = read["content"][0]["text"].as_str().unwrap();
    for number in ["12345678901234567890123", "1.10", "1915883588174806058", "-0.0"] {
        assert_eq!(read.matches(&format!(":{number}")).count(), 3, "{number}: {read}");
    }
    server.stop().await;
}

#[tokio::test]
async fn arguments_of_another_json_type_are_converted_or_rejected_with_an_error_naming_them() {
    let desk = Desk::new();
    let first = json!({"searchStep": "read the register", "stepNumber": "1", "nextStepNeeded": "true", "researchGoal": "g"});
    desk.ok("sequential_search", first).await;
    let second = json!({"searchStep": "read the map", "stepNumber": 2.0, "nextStepNeeded": true,
        "totalStepsEstimate": "10", "rejectedApproaches": "[\"the mill\"]"});
    desk.ok("sequential_search", second).await;
    let source = json!({"url": "https://x.org/a", "title": "a", "foundInStep": "2"});
    desk.ok("add_sources", json!({"sources": [source]})).await;
    desk.ok("memory_search", json!({"query": "register", "limit": "5"})).await;
    desk.ok("get_events", json!({"limit": "3", "types": "[\"research.step\"]"})).await;
    // A point sent as a number fits beside an argument that is converted.
    desk.ok("get_events", json!({"from": 1, "limit": "3"})).await;
    desk.ok("checkpoint", json!({"label": "read", "at": 1, "final": "true"})).await;
    for (tool, arguments, field, problem) in [
        (
            "sequential_search",
            json!({"searchStep": "x", "stepNumber": 3, "nextStepNeeded": "perhaps"}),
            "nextStepNeeded",
            "true or false is expected, not \"perhaps\"",
        ),
        (
            "sequential_search",
            json!({"searchStep": "x", "stepNumber": "third", "nextStepNeeded": true}),
            "stepNumber",
            "a whole number is expected, not \"third\"",
        ),
        (
            "sequential_search",
            json!({"searchStep": "x", "stepNumber": -1, "nextStepNeeded": true}),
            "stepNumber",
            "a whole number from 0 on is expected, not -1",
        ),
        (
            "add_sources",
            json!({"sources": [{"url": "https://x.org/b", "foundInStep": "two"}]}),
            "sources[0].foundInStep",
            "a whole number is expected, not \"two\"",
        ),
        (
            "memory_search",
            json!({"query": "x", "limit": "many"}),
            "limit",
            "a whole number is expected, not \"many\"",
        ),
        (
            "memory_page",
            json!({"direction": "in", "ranges": [{"sessionID": "s", "from": 0, "to": 5}]}),
            "ranges",
            "expected one of `sessionId`, `from`, `to`",
        ),
        ("get_events", json!({"limit": [1]}), "limit", "a whole number is expected, not [1]"),
    ] {
        let error = desk.refused(tool, arguments.clone()).await;
        assert_eq!(error.hint.field.as_deref(), Some(field), "{tool} {arguments}: {error}");
        assert!(error.to_string().contains(problem), "{tool} {arguments}: {error}");
    }
}
