//! Names that a route does not accept: rejected, with the closest known name. The official client
//! of the Managed Agents wire may send members that are not stored.

use serde_json::{Value, json};
use sessionlog::{mcp, service::Service};

use super::house::{House, Plan};
use crate::engines;

const JSON: (&str, &str) = ("content-type", "application/json");

/// Checks a rejection as `invalid_request` that names the field; returns the message.
async fn check_rejection(
    house: &House,
    method: &str,
    path: &str,
    body: &str,
    field: &str,
) -> String {
    let sent = (!body.is_empty()).then(|| body.as_bytes().to_vec());
    let headers: &[(&str, &str)] = if body.is_empty() { &[] } else { &[JSON] };
    let reply = house.call(method, path, headers, sent).await;
    assert_eq!(reply.status, 422, "{method} {path} {body}: {}", reply.text);
    let error = reply.json();
    assert_eq!(error["error"]["type"], "invalid_request", "{path} {body}: {error}");
    assert_eq!(error["error"]["recovery_hint"]["field"], field, "{path} {body}: {error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_body_member_is_rejected_with_the_closest_known_name() {
    let house = House::plain().await;
    house.session("s", 3).await;
    let session = "/v1/sessions/s";
    for (method, path, body, field, meant) in [
        ("POST", "/checkpoints", r#"{"lable":"x"}"#, "lable", "label"),
        ("POST", "/checkpoints", r#"{"LABEL":"x"}"#, "LABEL", "label"),
        ("POST", "/fork", r#"{"at":"1","titel":"x"}"#, "titel", "title"),
        ("POST", "/wake", r#"{"ttlSeconds":5}"#, "ttlSeconds", "ttl_seconds"),
        ("POST", "/lease/renew", r#"{"ttl":5}"#, "ttl", ""),
        ("PUT", "/cursors/c", r#"{"positon":1}"#, "positon", "position"),
        ("POST", "", r#"{"titl":"x"}"#, "titl", "title"),
        ("POST", "/events", r#"{"event":[],"events":[{"type":"a.b"}]}"#, "event", "events"),
        ("POST", "/events", r#"{"events":[{"type":"a.b"}],"crate":true}"#, "crate", ""),
        ("POST", "/tool-cache/lookup", r#"{"name":"x","inptu":{},"input":{}}"#, "inptu", "input"),
    ] {
        let text = check_rejection(&house, method, &format!("{session}{path}"), body, field).await;
        if !meant.is_empty() {
            assert!(text.contains(&format!("did you mean {meant}?")), "{body}: {text}");
        }
    }
    let text = check_rejection(&house, "POST", "/v1/sessions", r#"{"ID":"typo"}"#, "ID").await;
    assert!(text.contains("did you mean id?"), "{text}");
    check_rejection(&house, "POST", "/v1/admin/verify", r#"{"sesion":"s"}"#, "sesion").await;
    check_rejection(
        &house,
        "POST",
        "/v1/admin/repair",
        r#"{"session":"s","accept":true}"#,
        "accept",
    )
    .await;
    let listed = house.get("/v1/sessions").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    let events = house.get("/v1/sessions/s/events").await.json();
    assert_eq!(events["tail"], 3, "nothing was recorded: {events}");
    // Members of an event are not restricted.
    let free = json!({"events": [{"type": "a.b", "lable": "x", "n": 1}]});
    assert_eq!(house.post("/v1/sessions/s/events", &free).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_query_parameter_is_rejected_with_the_closest_known_name() {
    let house = House::plain().await;
    house.session("s", 3).await;
    for (path, field, meant) in [
        ("/v1/sessions/s/events?form=3", "form", "from"),
        ("/v1/sessions/s/events?from=0&limt=1", "limt", "limit"),
        ("/v1/sessions/s/events?type=user.message", "type", "types[]"),
        ("/v1/sessions/s/events?created_at[ge]=2026-01-01T00:00:00Z", "created_at[ge]", ""),
        ("/v1/sessions?limt=1", "limt", "limit"),
        ("/v1/sessions/s?at=1", "at", ""),
        ("/v1/sessions/s/views/window?tokensMax=500", "tokensMax", "tokens_max"),
        ("/v1/sessions/s/events/stream?form=0", "form", "from"),
        ("/v1/history?workspce=x", "workspce", "workspace"),
    ] {
        let text = check_rejection(&house, "GET", path, "", field).await;
        if !meant.is_empty() {
            assert!(text.contains(&format!("did you mean {meant}?")), "{path}: {text}");
        }
    }
    let body = r#"{"events":[{"type":"a.b"}]}"#;
    check_rejection(&house, "POST", "/v1/sessions/new/events?craete=true", body, "craete").await;
    for path in [
        "/v1/sessions/s/events?types[]=user.message&created_at%5Bgt%5D=2020-01-01T00:00:00Z",
        "/v1/sessions/s/events?types=user.message&created_at[lte]=2030-01-01T00:00:00Z",
        "/v1/sessions?statuses=idle&limit=1",
        "/v1/sessions/s/views/window?transforms=compress&tokens_max=500&format=openai",
    ] {
        let reply = house.get(path).await;
        assert!(reply.status == 200 || !reply.text.contains("no such"), "{path}: {}", reply.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_sent_by_the_official_client_are_accepted_although_not_stored() {
    let house = House::plain().await;
    let body = r#"{"agent":"a","environment_id":"e","vault_ids":[],"resources":[]}"#.as_bytes();
    let beta = [JSON, ("anthropic-beta", "managed-agents-2026-04-01")];
    let reply = house.call("POST", "/v1/sessions?beta=true", &beta, Some(body.to_vec())).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let session = reply.json()["id"].as_str().unwrap().to_owned();
    let list = house.call("GET", "/v1/sessions?beta=true&deployment_id=d", &beta, None).await;
    assert_eq!(list.status, 200, "{}", list.text);
    let threads = house.get(&format!("/v1/sessions/{session}/threads?limit=3&page=")).await;
    assert_eq!(threads.status, 200, "{}", threads.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_accepts_a_number_as_its_point_and_requires_at() {
    let house = House::plain().await;
    house.session("s", 3).await;
    let fork = house.post("/v1/sessions/s/fork", &json!({"at": 1})).await;
    assert_eq!(fork.status, 201, "{}", fork.text);
    assert_eq!(fork.json()["forked_from"]["position"], 1, "{}", fork.text);
    check_rejection(&house, "POST", "/v1/sessions/s/fork", r#"{"title":"x"}"#, "at").await;
    check_rejection(&house, "POST", "/v1/sessions/s/fork", r#"{"at":1.5}"#, "at").await;
    check_rejection(&house, "POST", "/v1/sessions/s/fork", r#"{"at":true}"#, "at").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_error_names_the_missing_or_misplaced_argument() {
    let house = House::plain().await;
    let tool = "/v1/tools/sequential_search";
    let step = |more: &str| {
        format!(
            r#"{{"searchStep":"looked","nextStepNeeded":true{}{more}}}"#,
            if more.is_empty() { "" } else { "," }
        )
    };
    check_rejection(&house, "POST", tool, &step(""), "stepNumber").await;
    let first = house.post_text(tool, &step(r#""stepNumber":1"#)).await;
    assert_eq!(first.status, 200, "{}", first.text);
    let sources = step(r#""stepNumber":2,"sources":[{"url":"https://a.example"}]"#);
    let text = check_rejection(&house, "POST", tool, &sources, "sources").await;
    assert!(text.contains("add_sources"), "{text}");
    let revision = step(r#""stepNumber":2,"isRevision":true"#);
    check_rejection(&house, "POST", tool, &revision, "revisesStep").await;
    let look = "/v1/tools/get_research_session";
    check_rejection(&house, "POST", look, r#"{"branchId":"b"}"#, "stepId").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_an_mcp_connection_returns_status_200_or_204() {
    let engine = engines::all().into_iter().next().unwrap();
    let service = Service::new(engine.store.clone(), engine.clock.clone());
    let more = mcp::http_router_with(service.clone(), mcp::McpHttpOptions::default());
    let plan = Plan { more, service: Some(service), ..Plan::default() };
    let house = House::over(engine.store, engine.clock, plan).await;
    let accept = ("accept", "application/json, text/event-stream");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    let body = Some(hello.to_string().into_bytes());
    let reply = house.call("POST", "/mcp", &[JSON, accept], body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let connection = reply.header("mcp-session-id");
    assert!(!connection.is_empty(), "{:?}", reply.headers);
    let ended = house.call("DELETE", "/mcp", &[("mcp-session-id", connection)], None).await;
    assert!([200, 204].contains(&ended.status), "{}", ended.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cross_site_request_without_an_origin_is_rejected() {
    let house = House::plain().await;
    house.session("s", 3).await;
    for (site, mode, status) in [
        ("cross-site", "no-cors", 403),
        ("Cross-Site", "navigate", 403),
        ("same-site", "cors", 200),
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ] {
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode)];
        let reply = house.call("POST", "/v1/sessions/s/wake", &headers, None).await;
        let expected = if status == 200 { [200, 409] } else { [403, 403] };
        assert!(expected.contains(&reply.status), "{site}: {} {}", reply.status, reply.text);
        if status == 403 {
            let error: Value = reply.json();
            assert_eq!(error["error"]["type"], "forbidden", "{site}: {error}");
        }
    }
}
