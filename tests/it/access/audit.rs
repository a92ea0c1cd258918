//! The audit log, and what no log may hold.

use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::{access, access::Grant, env::Clock as _};

use super::house::Walled;

async fn read_audit_log(walled: &Walled, token: &str) -> Vec<Value> {
    let log = walled.get(token, "/v1/admin/audit").await;
    assert_eq!(log.status, 200, "{}", log.text);
    log.json()["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_of_a_tenant_has_access_changes_deletions_and_refusals() {
    let walled = Walled::plain().await;
    let ada = walled.admin(("acme", "ada"));
    assert_eq!(read_audit_log(&walled, &ada).await, Vec::<Value>::new());
    assert_eq!(walled.post(&ada, "/v1/sessions", &json!({"id": "s"})).await.status, 201);
    let path = "/v1/sessions/s/events";
    let secret = json!({"events": [{"type": "user.message", "text": "canary-of-a-body"}]});
    assert_eq!(walled.post(&ada, path, &secret).await.status, 200);
    walled.call(&ada, "PUT", "/v1/sessions/s/hold", None).await;
    assert_eq!(walled.call(&ada, "DELETE", "/v1/sessions/s", None).await.status, 423);
    walled.call(&ada, "DELETE", "/v1/sessions/s/hold", None).await;
    assert_eq!(walled.call(&ada, "DELETE", "/v1/sessions/s", None).await.status, 200);
    walled.call(&ada, "POST", "/v1/admin/retention", None).await;
    walled.post(&ada, "/v1/admin/verify", &json!({})).await;
    let reader = walled.token(("acme", "bob"), &[Grant::Read]);
    assert_eq!(walled.post(&reader, "/v1/sessions", &json!({})).await.status, 403);
    walled.clock.advance(Duration::from_secs(60));
    let id = reader.split('_').nth(1).unwrap();
    access::revoke_token(&walled.tokens, id, walled.clock.now()).unwrap();
    for _ in 0..20 {
        assert_eq!(walled.get(&reader, "/v1/sessions").await.status, 401);
    }
    let log = read_audit_log(&walled, &ada).await;
    let told: Vec<String> = log
        .iter()
        .map(|line| {
            let of = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            match line["type"].as_str().unwrap() {
                "audit.token" => format!("token {} {}", of("change"), of("credential") == id),
                kind => format!("{kind} {} {} {}", of("method"), of("route"), of("outcome")),
            }
        })
        .collect();
    assert_eq!(
        told,
        [
            "token created false",
            "audit.call PUT /v1/sessions/{session}/hold done",
            "audit.call DELETE /v1/sessions/{session} session_held",
            "audit.call DELETE /v1/sessions/{session}/hold done",
            "audit.call DELETE /v1/sessions/{session} done",
            "audit.call POST /v1/admin/retention done",
            "audit.call POST /v1/admin/verify done",
            "token created true",
            "audit.forbidden POST /v1/sessions forbidden",
            "token revoked true",
            "audit.credential_refused GET /v1/sessions unauthenticated",
        ]
    );
    assert!(log.iter().all(|line| line["position"].is_u64()), "in order");
    let text = Value::from(log).to_string();
    assert!(!text.contains("canary") && !text.contains(&ada) && !text.contains(&reader[12..]));
    // The record is of its tenant, and in no session of a user.
    let other = walled.admin(("other", "eve"));
    assert_eq!(read_audit_log(&walled, &other).await, Vec::<Value>::new());
    let listed = walled.get(&ada, "/v1/sessions?include_archived=true").await.json();
    assert_eq!(listed["data"], json!([]));
    assert_eq!(walled.get(&ada, "/v1/sessions/audit").await.status, 404);
    for (method, path) in [("POST", "/v1/admin/audit"), ("DELETE", "/v1/admin/audit")] {
        assert_eq!(walled.call(&ada, method, path, None).await.status, 405, "{method}");
    }
    // A session of the same name is not the audit log.
    assert_eq!(walled.post(&ada, "/v1/sessions", &json!({"id": "audit"})).await.status, 201);
    let event = json!({"events": [{"type": "audit.call", "outcome": "forged"}]});
    assert_eq!(walled.post(&ada, "/v1/sessions/audit/events", &event).await.status, 200);
    assert!(!read_audit_log(&walled, &ada).await.iter().any(|line| line["outcome"] == "forged"));
}

/// Calls a tool by `POST /v1/tools/{name}` or by MCP; returns true if it was rejected.
async fn tool(walled: &Walled, by: &str, token: &str, name: &str, arguments: Value) -> bool {
    if by == "http" {
        let reply = walled.post(token, &format!("/v1/tools/{name}"), &arguments).await;
        return reply.status != 200;
    }
    const VERSION: &str = "2026-07-28";
    let params = json!({"name": name, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", VERSION),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ];
    let body = Some(message.to_string().into_bytes());
    let reply = walled.house.call("POST", "/mcp?toolsets=workspace", &headers, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.text.contains("\"isError\":true")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_by_a_tool_is_audited_for_every_interface() {
    for by in ["http", "mcp"] {
        let walled = Walled::plain().await;
        let ada = walled.admin(("acme", "ada"));
        assert_eq!(walled.post(&ada, "/v1/sessions", &json!({"id": "s"})).await.status, 201);
        walled.call(&ada, "PUT", "/v1/sessions/s/hold", None).await;
        let named = || json!({"sessionId": "s"});
        assert!(tool(&walled, by, &ada, "delete_session", named()).await, "it is held");
        walled.call(&ada, "DELETE", "/v1/sessions/s/hold", None).await;
        let bob = walled.token(("acme", "bob"), &[Grant::Read, Grant::Write]);
        for _ in 0..20 {
            assert!(tool(&walled, by, &bob, "delete_session", named()).await, "bob may not");
        }
        let unknown = json!({"sessionId": "none"});
        assert!(tool(&walled, by, &ada, "delete_session", unknown).await);
        assert!(!tool(&walled, by, &ada, "delete_session", named()).await);
        // Tools that only read or append are not audited.
        assert!(!tool(&walled, by, &ada, "list_sessions", json!({})).await || by == "mcp");
        let log = read_audit_log(&walled, &ada).await;
        let of_tools = log.iter().filter(|line| line["route"] == "/v1/tools/delete_session");
        let of_tools: Vec<(&str, &str, Option<&str>)> = of_tools
            .map(|line| {
                let kind = line["type"].as_str().unwrap();
                (kind, line["outcome"].as_str().unwrap(), line["session"].as_str())
            })
            .collect();
        assert_eq!(
            of_tools,
            [
                ("audit.call", "session_held", Some("s")),
                ("audit.forbidden", "forbidden", None),
                ("audit.call", "session_not_found", Some("none")),
                ("audit.call", "done", Some("s")),
            ],
            "{by}"
        );
        let calls = log.iter().filter(|line| line["type"] == "audit.call").count();
        assert_eq!(calls, 5, "each call once: {log:?}");
        assert!(!Value::from(log).to_string().contains(&ada), "no token is in it");
    }
}
