//! Servers on HTTP that answer by a test's script, and the proxy wrapping one.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, Method},
    response::{IntoResponse as _, Response},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use sessionlog::proxy::{ProxyOptions, Upstream, serve_http};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use super::wrapped::{Store, client};

/// A request as received.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub message: Value,
}

impl Asked {
    pub fn says(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    /// Returns the answer with this result.
    pub fn answer(&self, result: Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).to_string()
    }
}

/// A server, and the requests it received.
pub struct Scripted {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scripted {
    pub async fn start<F>(script: F) -> Self
    where
        F: Fn(Asked) -> BoxFuture<'static, Response> + Clone + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let router = Router::new().fallback(move |request: Request| {
            let (script, heard) = (script.clone(), Arc::clone(&heard));
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let message = serde_json::from_slice(&body).unwrap_or_default();
                let (method, path) = (parts.method, parts.uri.path().to_owned());
                let query = parts.uri.query().map(str::to_owned);
                let asked = Asked { method, path, query, headers: parts.headers, message };
                heard.lock().unwrap().push(asked.clone());
                script(asked).await
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, asked }
    }

    pub fn upstream(&self) -> Upstream {
        Upstream { url: self.url.parse().unwrap(), headers: Vec::new() }
    }

    /// Returns the number of calls of a tool.
    pub fn calls(&self, tool: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|one| one.message["params"]["name"] == tool).count()
    }
}

/// Returns a response with a JSON text.
pub fn json_text(text: String) -> Response {
    ([("content-type", "application/json")], text).into_response()
}

/// Returns a stream of events that stays open.
pub fn open_stream(events: String) -> Response {
    let said = futures_util::stream::once(async move { Ok::<_, std::io::Error>(events) });
    let silence = futures_util::stream::pending();
    let body = Body::from_stream(futures_util::StreamExt::chain(said, silence));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// Returns a server with one read-only tool, `read`, which returns the caller and the number of the
/// call; `wait` is never answered.
pub fn reader() -> impl Fn(Asked) -> BoxFuture<'static, Response> + Clone + Send + Sync + 'static {
    let count = Arc::new(Mutex::new(0));
    move |asked| {
        let count = Arc::clone(&count);
        async move {
            let name = asked.message["params"]["name"].as_str().unwrap_or_default();
            match asked.message["method"].as_str().unwrap_or_default() {
                "tools/list" => {
                    let reads = json!({
                        "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
                    let tools = [json!({"name": "read", "inputSchema": {}, "annotations": reads})];
                    json_text(asked.answer(json!({ "tools": tools })))
                }
                "tools/call" if name == "wait" => std::future::pending().await,
                "tools/call" => {
                    let who = asked.headers.get("authorization");
                    let who = who.map_or("nobody", |who| who.to_str().unwrap());
                    let number = {
                        let mut count = count.lock().unwrap();
                        *count += 1;
                        *count
                    };
                    let text = format!("for {who}: {number}");
                    let content = json!([{"type": "text", "text": text}]);
                    json_text(asked.answer(json!({ "content": content })))
                }
                _ => json_text(asked.answer(json!({}))),
            }
        }
        .boxed()
    }
}

/// The proxy, listening in front of a server.
pub struct Listening {
    pub address: String,
    stop: oneshot::Sender<()>,
    proxy: JoinHandle<std::io::Result<()>>,
}

impl Listening {
    pub async fn start(store: &Store, upstream: Upstream, options: ProxyOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let client = client(&store.server.url("/"));
        let proxy = tokio::spawn(async move {
            serve_http(listener, &upstream, client, options, stopped.map(drop)).await
        });
        Self { address, stop, proxy }
    }

    /// Stops the proxy after everything is recorded.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.proxy.await.unwrap().unwrap();
    }
}

/// Sends a message as a client, with headers; returns the answer's text.
pub async fn say(
    http: &reqwest::Client,
    to: &str,
    message: &Value,
    headers: &[(&str, &str)],
) -> String {
    let mut request = http
        .post(to)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(message.to_string());
    for (name, text) in headers {
        request = request.header(*name, *text);
    }
    request.send().await.unwrap().text().await.unwrap()
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn call(id: u64, name: &str) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": {}}))
}
