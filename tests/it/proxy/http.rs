//! A server on HTTP wrapped by the proxy: our own, which supports both generations of the
//! transport, for a client on streams and for clients on HTTP.

use serde_json::{Value, json};
use sessionlog::proxy::{Upstream, serve_http, wrap_http_server};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    sync::oneshot,
};

use super::wrapped::{Store, client, options};
use crate::mcp::server::initialize;

fn upstream(store: &Store) -> Upstream {
    Upstream { url: store.server.url("/mcp").parse().unwrap(), headers: Vec::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_http_is_wrapped_for_a_client_on_streams() {
    // The wrapped server has its own store; the proxy records in another.
    let (wrapped, store) = (Store::start().await, Store::start().await);
    for newer in [false, true] {
        let (mut to, input) = tokio::io::duplex(1 << 20);
        let (output, from) = tokio::io::duplex(1 << 20);
        let (upstream, client) = (upstream(&wrapped), client(&store.server.url("/")));
        let options = sessionlog::proxy::ProxyOptions { name: format!("p{newer}"), ..options() };
        let proxy = tokio::spawn(async move {
            wrap_http_server((input, output), &upstream, client, options, std::future::pending())
                .await
        });
        let mut from = BufReader::new(from).lines();
        let mut ask = async |id: u64, method: &str, mut params: Value| {
            if newer {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
            }
            let ask = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            to.write_all(format!("{ask}\n").as_bytes()).await.unwrap();
            let line = from.next_line().await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(answer["id"], id, "{answer}");
            answer["result"].clone()
        };
        if newer {
            let found = ask(0, "server/discover", json!({})).await;
            assert!(found["serverInfo"].is_object() || found.is_object(), "{found}");
        } else {
            let params = initialize("2025-11-25")["params"].clone();
            let opened = ask(0, "initialize", params).await;
            assert_eq!(opened["serverInfo"]["name"], "sessionlog");
        }
        let listed = ask(1, "tools/list", json!({})).await;
        let names: Vec<_> =
            listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert!(names.contains(&&json!("sessionlog_clear_session")), "{names:?}");
        let step = json!({"searchStep": "looked", "stepNumber": 1, "nextStepNeeded": true});
        let call = json!({"name": "sequential_search", "arguments": step});
        let answer = ask(2, "tools/call", call).await;
        assert_eq!(answer["structuredContent"]["currentStep"], 1, "{answer}");
        drop((to, from));
        proxy.await.unwrap().unwrap();
    }
    let listed = store.get("/v1/sessions").await;
    let sessions = listed["data"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{listed}");
    for session in sessions {
        let events = store.events(session["id"].as_str().unwrap()).await;
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(events[0]["name"], "sequential_search");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_server_is_proxied_to_http_clients() {
    let (wrapped, store) = (Store::start().await, Store::start().await);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (upstream, client) = (upstream(&wrapped), client(&store.server.url("/")));
    let proxy = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        serve_http(listener, &upstream, client, options(), stop).await
    });
    let http = crate::say::http_client().build().unwrap();
    let post = async |message: &Value, headers: &[(&'static str, String)]| {
        let mut request = http
            .post(format!("http://{address}/mcp"))
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string());
        for (name, text) in headers {
            request = request.header(*name, text);
        }
        let response = request.send().await.unwrap();
        let session = response.headers().get("mcp-session-id").cloned();
        let text = response.text().await.unwrap();
        let data = text.lines().find_map(|line| line.strip_prefix("data: {"));
        let text = data.map_or(text.clone(), |data| format!("{{{data}"));
        (session, serde_json::from_str::<Value>(&text).unwrap_or_default())
    };
    let (connection, opened) = post(&initialize("2025-11-25"), &[]).await;
    assert_eq!(opened["result"]["serverInfo"]["name"], "sessionlog", "{opened}");
    let connection = connection.unwrap().to_str().unwrap().to_owned();
    let headers = [
        ("mcp-session-id", connection),
        ("mcp-protocol-version", "2025-11-25".to_owned()),
        ("sessionlog-session", "named".to_owned()),
    ];
    post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), &headers).await;
    let ask = async |id: u64, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (_, answer) = post(&message, &headers).await;
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    };
    let call = json!({"name": "sessionlog_clear_session", "arguments": {}});
    let cleared = ask(5, "tools/call", call).await;
    assert_eq!(cleared["structuredContent"]["clearedSessionId"], "named", "{cleared}");
    let listed = ask(6, "tools/list", json!({})).await;
    assert_eq!(listed["tools"].as_array().unwrap().len(), 8);
    let call = || json!({"name": "list_sessions", "arguments": {}});
    let first = ask(7, "tools/call", call()).await;
    assert!(first["_meta"].is_null(), "{first}");
    let again = ask(8, "tools/call", call()).await;
    assert!(again["_meta"]["sessionlog/cache"]["age_ms"].is_u64(), "{again}");
    let strange = http.get(format!("http://{address}/mcp")).header("host", "evil.example.com");
    assert_eq!(strange.send().await.unwrap().status(), 403);
    stop.send(()).unwrap();
    proxy.await.unwrap().unwrap();
    let events = store.events("named").await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let (call, result) = ("agent.tool_use", "agent.tool_result");
    assert_eq!(kinds, ["context.cleared", call, result, call, result]);
}
