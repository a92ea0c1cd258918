//! A server as `serve` runs one, on a separate port, over a store that outlives it.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use sessionlog::{
    api::admin::Owner,
    http::{self, App, HttpOptions, Listener, ServeOptions},
    mcp,
    verbs::OwnerInfo,
};
use tokio_util::sync::CancellationToken;

use super::desk::Desk;

/// Protocol revision without connections.
pub const NEWER: &str = "2026-07-28";

pub struct Server {
    pub address: SocketAddr,
    stop: CancellationToken,
    done: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(desk: &Desk) -> Self {
        Self::start_at(desk, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub async fn start_at(desk: &Desk, address: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let about = Owner {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            ..Owner::default()
        };
        let owner = OwnerInfo { about, step_down: CancellationToken::new() };
        let service = desk.service.clone();
        let options = mcp::McpHttpOptions { stop: stop.clone(), ..Default::default() };
        let tools = mcp::http_router_with(service.clone(), options);
        let router = http::router(App { service, owner, options: HttpOptions::default() }, tools);
        let serving = ServeOptions { drain: Duration::from_millis(200), ..Default::default() };
        let listeners = vec![Listener::Tcp(listener)];
        let done = tokio::spawn(http::serve(listeners, router, serving, stop.clone()));
        Self { address, stop, done }
    }

    /// Stops it and waits until its port is free.
    pub async fn stop(self) -> SocketAddr {
        self.stop.cancel();
        self.done.await.unwrap();
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Answer to one protocol message over HTTP: status, headers, body.
pub struct Answer {
    pub status: u16,
    pub session: Option<String>,
    pub form: String,
    pub body: Value,
}

/// A plain HTTP client of the protocol.
pub struct Speaker {
    http: reqwest::Client,
    url: String,
    pub headers: Vec<(&'static str, String)>,
}

impl Speaker {
    pub fn new(server: &Server, path: &str) -> Self {
        Self {
            http: crate::say::http_client().build().unwrap(),
            url: server.url(path),
            headers: Vec::new(),
        }
    }

    pub async fn post(&self, message: &Value) -> Answer {
        self.post_with(&[], message).await
    }

    async fn post_with(&self, more: &[(&'static str, &str)], message: &Value) -> Answer {
        self.send(more, message.to_string().into_bytes()).await
    }

    /// Sends a body unchanged.
    pub async fn send(&self, more: &[(&'static str, &str)], body: Vec<u8>) -> Answer {
        let mut headers = reqwest::header::HeaderMap::new();
        let own = self.headers.iter().map(|(name, text)| (*name, text.as_str()));
        let usual = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        for (name, text) in usual.into_iter().chain(own).chain(more.iter().copied()) {
            headers.insert(name, text.parse().unwrap());
        }
        let request = self.http.post(&self.url).headers(headers).body(body);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let session = header("mcp-session-id");
        let form = header("content-type").unwrap_or_default();
        let streamed = form.starts_with("text/event");
        let text = response.text().await.unwrap();
        let message = |line: &str| {
            let data = line.strip_prefix("data:")?.trim();
            serde_json::from_str::<Value>(data).ok().filter(|value| value.get("id").is_some())
        };
        let body = if streamed {
            text.lines().find_map(message).unwrap_or(Value::Null)
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        Answer { status, session, form, body }
    }

    /// Opens a connection with `initialize` of that revision; returns its result.
    pub async fn initialize(&mut self, version: &str) -> Value {
        let answer = self.post(&initialize(version)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.headers.push(("mcp-session-id", answer.session.expect("a connection's name")));
        self.headers.push(("mcp-protocol-version", version.to_owned()));
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&initialized).await.status, 202);
        answer.body["result"].clone()
    }

    /// Sends a request; returns the whole message.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.post(&message).await.body
    }

    /// Sends a request by the MCP revision that has no transport sessions, with the headers that it
    /// requires; returns the whole response.
    pub async fn ask_alone(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NEWER,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().or_else(|| params["uri"].as_str()).map(str::to_owned);
        let mut headers = vec![("mcp-protocol-version", NEWER), ("mcp-method", method)];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.post_with(&headers, &message).await.body
    }
}

pub fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}
