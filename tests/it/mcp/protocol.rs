//! The protocol over streamable HTTP, both generations, and tools over plain HTTP.

use serde_json::{Value, json};

use super::{
    desk::{Desk, step},
    server::{NEWER, Server, Speaker},
};

const OLDER: [&str; 2] = ["2025-06-18", "2025-11-25"];

/// Sends a request of the newer generation.
async fn ask_stateless(server: &Server, method: &str, params: Value) -> Value {
    Speaker::new(server, "/mcp").ask_alone(method, params).await
}

#[tokio::test(flavor = "multi_thread")]
async fn both_older_protocol_revisions_initialize_list_and_call() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for version in OLDER {
        let mut speaker = Speaker::new(&server, "/mcp");
        let opened = speaker.initialize(version).await;
        assert_eq!(opened["protocolVersion"], version);
        assert_eq!(opened["serverInfo"]["name"], "sessionlog");
        for declared in ["tools", "resources", "prompts"] {
            assert!(opened["capabilities"][declared].is_object(), "{declared}");
        }
        let listed = speaker.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "sequential_search",
                "get_research_session",
                "add_sources",
                "list_sessions",
                "review_history",
                "clear_session"
            ]
        );
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], false, "it writes");
        assert_eq!(tools[1]["annotations"]["readOnlyHint"], true);
        assert!(tools.iter().all(|tool| tool["outputSchema"]["type"] == "object"));

        let call = json!({"name": "sequential_search", "arguments": step(1)});
        let called = speaker.ask("tools/call", call).await;
        let result = &called["result"];
        assert_eq!(result["isError"], false, "{called}");
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"], "the same twice");
        let call = json!({"name": "get_research_session", "arguments": {}});
        let found = speaker.ask("tools/call", call).await;
        let found = &found["result"]["structuredContent"];
        assert_eq!(found["boundBy"], "connection");
        assert_eq!(found["sessionId"], result["structuredContent"]["sessionId"]);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newer_protocol_revision_is_served_without_a_connection() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let found = ask_stateless(&server, "server/discover", json!({})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!(NEWER)), "{found}");
    let listed = ask_stateless(&server, "tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 6, "{listed}");
    assert!(listed["result"]["ttlMs"].is_u64() && listed["result"]["cacheScope"].is_string());
    let call = json!({"name": "sequential_search", "arguments": step(1)});
    let called = ask_stateless(&server, "tools/call", call).await;
    let session = called["result"]["structuredContent"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(called["result"]["resultType"], "complete");

    let call = json!({"name": "get_research_session", "arguments": {}});
    let refused = ask_stateless(&server, "tools/call", call).await;
    let result = &refused["result"];
    assert_eq!(result["isError"], true, "no connection, no binding: {refused}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let facts: Value = serde_json::from_str(text.split_once("\n\n").unwrap().1).unwrap();
    assert_eq!(facts["error"]["kind"], "session_required");
    let candidate = &facts["error"]["recoveryHint"]["candidates"][0];
    assert_eq!(
        (&candidate["session"], &facts["error"]["recoveryHint"]["canResume"]),
        (&json!(session), &json!(true))
    );

    let uri = format!("session://{session}/index");
    let read = ask_stateless(&server, "resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("step 1: looked"), "{text}");
    let unknown =
        ask_stateless(&server, "resources/read", json!({"uri": "session://none/index"})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_declared_capability_is_implemented() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let mut speaker = Speaker::new(&server, "/mcp?toolsets=research,events");
    speaker.initialize("2025-11-25").await;
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let called = speaker.ask("tools/call", call("sequential_search", step(1))).await;
    let session = called["result"]["structuredContent"]["sessionId"].as_str().unwrap().to_owned();

    let listed = speaker.ask("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], format!("session://{session}/index"));
    let templates = speaker.ask("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 2);
    let uri = format!("session://{session}/events/0-1");
    let read = speaker.ask("resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let slice: Value = serde_json::from_str(text).unwrap();
    assert_eq!(slice["events"][0]["type"], "research.step");
    let unknown = speaker.ask("resources/read", json!({"uri": "session://none/index"})).await;
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");

    let prompts = speaker.ask("prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"][0]["name"], "continue");
    let prompt = speaker.ask("prompts/get", json!({"name": "continue"})).await;
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("step 1: looked") && text.contains("not instructions"), "{text}");
    let unknown = speaker.ask("prompts/get", json!({"name": "begin"})).await;
    assert_eq!(unknown["error"]["code"], -32602);

    let event = json!({"event": {"type": "user.message", "content": "hi"}});
    let emitted = speaker.ask("tools/call", call("emit_event", event)).await;
    assert_eq!(emitted["result"]["structuredContent"]["position"], 1);
    let unknown = speaker.ask("tools/call", call("no_such_tool", json!({}))).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let plain = Speaker::new(&server, "/mcp?toolsets=memoir");
    let refused = plain.post(&super::server::initialize("2025-11-25")).await;
    assert_eq!(refused.status, 200, "a toolset matters to lists and calls only");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_foreign_host_or_origin_is_rejected() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for (name, text) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let mut speaker = Speaker::new(&server, "/mcp");
        speaker.headers.push((name, text.to_owned()));
        let answer = speaker.post(&super::server::initialize("2025-11-25")).await;
        assert_eq!(answer.status, 403, "{name}: {}", answer.body);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_can_be_called_over_plain_http() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let mut speaker = Speaker::new(&server, "/v1/tools/sequential_search");
    speaker.headers.push(("sessionlog-directory", "/home/%C3%A9".to_owned()));
    speaker.headers.push(("idempotency-key", "call-1".to_owned()));
    let first = speaker.post(&step(1)).await;
    assert_eq!(first.status, 200, "{}", first.body);

    let mut reader = Speaker::new(&server, "/v1/tools/get_research_session");
    reader.headers.push(("sessionlog-directory", "/home/é".to_owned()));
    let found = reader.post(&json!({})).await;
    assert_eq!(found.status, 422, "a header is ASCII: {}", found.body);
    reader.headers = vec![("sessionlog-directory", "/home/%C3%A9".to_owned())];
    let found = reader.post(&json!({})).await;
    assert_eq!(found.body["sessionId"], first.body["sessionId"]);
    assert_eq!(found.body["boundBy"], "directory");

    for (path, body, status, code) in [
        (
            "get_research_session",
            json!({"stepId": 9, "sessionId": first.body["sessionId"]}),
            404,
            "step_not_found",
        ),
        ("get_research_session", json!({"sessionId": "none"}), 404, "session_not_found"),
        ("sequential_search", step(2), 422, "session_required"),
        ("sequential_search", json!({"stepNumber": 2}), 422, "invalid_request"),
        ("no_such_tool", json!({}), 422, "invalid_request"),
    ] {
        let answer = Speaker::new(&server, &format!("/v1/tools/{path}")).post(&body).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["type"]),
            (status, &json!(code)),
            "{path}"
        );
    }
    server.stop().await;
}
