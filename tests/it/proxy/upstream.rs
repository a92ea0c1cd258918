//! A server on HTTP for a client on streams: the order of requests, and how the connection ends.

use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use sessionlog::proxy::wrap_http_server;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines},
    task::JoinHandle,
};

use super::{
    scripted::{Asked, Listening, Scripted, call, json_text, open_stream, request, say},
    wrapped::{Store, client, options},
};

struct Linked {
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    proxy: JoinHandle<std::io::Result<()>>,
}

fn linked(store: &Store, server: &Scripted) -> Linked {
    let (to, input) = tokio::io::duplex(1 << 20);
    let (output, from) = tokio::io::duplex(1 << 20);
    let (upstream, client) = (server.upstream(), client(&store.server.url("/")));
    let proxy = tokio::spawn(async move {
        let stop = std::future::pending();
        wrap_http_server((input, output), &upstream, client, options(), stop).await
    });
    Linked { to, from: BufReader::new(from).lines(), proxy }
}

impl Linked {
    async fn say(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.from.next_line().await.unwrap().unwrap()).unwrap()
    }
}

/// Starts a server with streams that stay open; it answers calls once the client disconnected.
async fn lingering_server() -> Scripted {
    let script = |asked: Asked| {
        async move {
            let mut response = match asked.message["method"].as_str() {
                Some("initialize") => {
                    let opened = asked.answer(json!({"protocolVersion": "2025-11-25"}));
                    open_stream(format!("data: {opened}\n\n"))
                }
                Some("notifications/initialized") => open_stream(String::new()),
                _ => json_text(asked.answer(json!({"content": []}))),
            };
            response.headers_mut().insert("mcp-session-id", "one".parse().unwrap());
            response
        }
        .boxed()
    };
    Scripted::start(script).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_initialize_request_blocks_no_other_once_answered() {
    let (server, store) = (lingering_server().await, Store::start().await);
    let mut linked = linked(&store, &server);
    linked.say(&request(1, "initialize", json!({}))).await;
    assert_eq!(linked.hear().await["id"], 1);
    linked.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    linked.say(&call(2, "any")).await;
    // Shorter than the time for which a pending request may delay the next.
    let soon = tokio::time::timeout(Duration::from_secs(20), linked.hear()).await;
    assert_eq!(soon.unwrap()["id"], 2, "neither stream has ended");
    let asked = server.asked.lock().unwrap().clone();
    let last = asked.iter().find(|one| one.says("tools/call")).unwrap();
    assert_eq!(last.headers["mcp-session-id"], "one");
    assert_eq!(last.headers["mcp-protocol-version"], "2025-11-25");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_is_resumed_and_unsolicited_messages_arrive() {
    let script = |asked: Asked| {
        async move {
            let from = asked.headers.get("last-event-id").map(|id| id.to_str().unwrap().to_owned());
            let mut response = match (asked.method.as_str(), from.as_deref()) {
                ("GET", Some("7")) => {
                    let result = json!({"content": [{"type": "text", "text": "late"}]});
                    let answer = json!({"jsonrpc": "2.0", "id": 2, "result": result});
                    open_stream(format!("id: 8\ndata: {answer}\n\n"))
                }
                ("GET", None) => {
                    let news = json!({"jsonrpc": "2.0", "method": "notifications/news"});
                    open_stream(format!("data: {news}\n\n"))
                }
                _ if asked.says("initialize") => json_text(asked.answer(json!({}))),
                _ => {
                    let mut broken = json_text("retry: 1\nid: 7\ndata: {}\n\n".to_owned());
                    let kind = "text/event-stream".parse().unwrap();
                    broken.headers_mut().insert("content-type", kind);
                    broken
                }
            };
            response.headers_mut().insert("mcp-session-id", "one".parse().unwrap());
            response
        }
        .boxed()
    };
    let (server, store) = (Scripted::start(script).await, Store::start().await);
    let mut linked = linked(&store, &server);
    linked.say(&request(1, "initialize", json!({}))).await;
    assert_eq!(linked.hear().await["id"], 1);
    assert_eq!(linked.hear().await["method"], "notifications/news");
    linked.say(&call(2, "any")).await;
    assert_eq!(linked.hear().await, json!({}), "what came before it broke off");
    assert_eq!(linked.hear().await["result"]["content"][0]["text"], "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_before_the_connection_to_the_server_closes() {
    let (server, store) = (lingering_server().await, Store::start().await);
    let mut linked = linked(&store, &server);
    linked.say(&request(1, "initialize", json!({}))).await;
    linked.hear().await;
    linked.say(&call(2, "any")).await;
    linked.say(&call(3, "clear_session")).await;
    let Linked { to, mut from, proxy } = linked;
    drop(to);
    let mut heard = Vec::new();
    while let Some(line) = from.next_line().await.unwrap() {
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer["result"].is_object(), "{answer}");
        heard.push(answer["id"].as_u64().unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, [2, 3]);
    proxy.await.unwrap().unwrap();
    let asked = server.asked.lock().unwrap().clone();
    assert_eq!(asked.last().unwrap().method, "DELETE", "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_the_length_limit_is_answered_with_an_error() {
    let (server, store) = (lingering_server().await, Store::start().await);
    let Linked { mut to, from, .. } = linked(&store, &server);
    let long = json!({"id": "a", "method": "tools/call", "params": "x".repeat(33 << 20)});
    let writing = tokio::spawn(async move {
        to.write_all(format!("{long}\n{}\n", call(2, "any")).as_bytes()).await.unwrap();
        to
    });
    let mut linked =
        Linked { to: writing.await.unwrap(), from, proxy: tokio::spawn(async { Ok(()) }) };
    let refused = linked.hear().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("a"), &json!(-32600)));
    assert_eq!(linked.hear().await["id"], 2, "what comes after it is said");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlong_answer_from_an_http_server_is_shortened_in_the_record_or_rejected() {
    let script = |asked: Asked| {
        async move {
            let text = "y".repeat(if asked.says("tools/call") { 33 << 20 } else { 0 });
            json_text(asked.answer(json!({"content": [{"type": "text", "text": text}]})))
        }
        .boxed()
    };
    let (server, store) = (Scripted::start(script).await, Store::start().await);
    let proxy = Listening::start(&store, server.upstream(), options()).await;
    let http = crate::say::http_client().build().unwrap();
    let answer = say(&http, &proxy.address, &call(2, "any"), &[("sessionlog-session", "s")]).await;
    assert!(answer.len() > 33 << 20, "it is passed on whole");
    proxy.stop().await;
    let events = store.events("s").await;
    let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    let said = format!("[{} bytes, too long to be recorded]", answer.len());
    assert_eq!(result["content"][0]["text"], said, "it is not read whole");
    // Its line exceeds the length limit of a line.
    let mut linked = linked(&store, &server);
    linked.say(&call(3, "any")).await;
    let refused = linked.hear().await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("longer than"), "{refused}");
}
