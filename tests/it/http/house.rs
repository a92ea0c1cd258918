//! A server over an engine, and a client that sends exactly the given bytes. It must not assert
//! more than that a response is HTTP.

use std::{sync::Arc, time::Duration};

use axum::Router;
use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use sessionlog::{
    api::admin::Owner,
    http::{App, HttpOptions, Listener, ServeOptions, router, serve},
    service::{SearchOptions, Service},
    store::Store,
    verbs::OwnerInfo,
};
use sessionlog_sim::ManualClock;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{engines, say};

/// Longer than any operation here; a test that hangs fails instead.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a separate loopback port.
pub struct House {
    pub address: String,
    pub stop: CancellationToken,
    pub step_down: CancellationToken,
    pub served: JoinHandle<()>,
    pub clock: Arc<ManualClock>,
    client: reqwest::Client,
}

/// A response, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    pub bytes: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    /// Returns the code of an error, or an empty text.
    pub fn code(&self) -> String {
        self.json()["error"]["type"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Settings of a house.
pub struct Plan {
    pub options: HttpOptions,
    pub serving: ServeOptions,
    pub on_demand: bool,
    pub more: Router,
    /// The service, if it is not the default one over the store.
    pub service: Option<Service>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            options: HttpOptions::default(),
            serving: ServeOptions::default(),
            on_demand: false,
            more: Router::new(),
            service: None,
        }
    }
}

impl House {
    /// Starts a house over the model.
    pub async fn plain() -> Self {
        Self::build(Plan::default()).await
    }

    pub async fn build(plan: Plan) -> Self {
        let engine = engines::all().into_iter().next().unwrap();
        Self::over(engine.store, engine.clock, plan).await
    }

    pub async fn over(store: Arc<dyn Store>, clock: Arc<ManualClock>, plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let step_down = CancellationToken::new();
        let app = App {
            // A search waits until the index has everything, however busy the machine is.
            service: plan.service.unwrap_or_else(|| {
                let search = SearchOptions { catch_up: PATIENCE / 2, ..SearchOptions::default() };
                Service::new(store, clock.clone()).with_search(search)
            }),
            owner: OwnerInfo {
                about: Owner {
                    version: "1.2.3".to_owned(),
                    pid: std::process::id(),
                    on_demand: plan.on_demand,
                    data_dir: "/somewhere".to_owned(),
                    url: None,
                    config_digest: "abc".to_owned(),
                    settings: Vec::new(),
                    shared: None,
                },
                step_down: step_down.clone(),
            },
            options: plan.options,
        };
        let stop = CancellationToken::new();
        let listeners = vec![Listener::Tcp(listener)];
        let serving = serve(listeners, router(app, plan.more), plan.serving, stop.clone());
        let client = say::http_client().timeout(PATIENCE).build().unwrap();
        let served = tokio::spawn(serving);
        Self { address, stop, step_down, served, clock, client }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request unchanged.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> reqwest::Response {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.unwrap()
    }

    /// Sends a request and reads the response.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Reply {
        let answer = self.send(method, path, headers, body).await;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = answer.bytes().await.unwrap().to_vec();
        Reply { status, headers, text: String::from_utf8_lossy(&bytes).into_owned(), bytes }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &[], None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string()).await
    }

    pub async fn post_text(&self, path: &str, body: &str) -> Reply {
        let json = [("content-type", "application/json")];
        self.call("POST", path, &json, Some(body.as_bytes().to_vec())).await
    }

    /// Creates a session with `count` events whose bodies are `{"n": 0}` and so on; every third is
    /// an `agent.message`, the others are `user.message`s.
    pub async fn session(&self, id: &str, count: usize) {
        let created = self.post("/v1/sessions", &json!({"id": id})).await;
        assert_eq!(created.status, 201, "{}", created.text);
        for from in (0..count).step_by(1_000) {
            let events: Vec<Value> = (from..count.min(from + 1_000))
                .map(|n| json!({"type": kind(n), "id": format!("e{n}"), "n": n}))
                .collect();
            let path = format!("/v1/sessions/{id}/events");
            let reply = self.post(&path, &json!({ "events": events })).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
        }
    }

    /// Sends bytes and reads until the server closes.
    pub async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        // A server that closes with unread input resets; its earlier response counts.
        let _ = tokio::time::timeout(PATIENCE, read).await.expect("the server closes");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Returns the type of the n-th event of a test's session.
pub fn kind(n: usize) -> &'static str {
    if n.is_multiple_of(3) { "agent.message" } else { "user.message" }
}

/// Returns the numbers in the bodies of a slice.
pub fn numbers(slice: &Value) -> Vec<u64> {
    slice["data"].as_array().unwrap().iter().map(|event| event["n"].as_u64().unwrap()).collect()
}

/// Runs a check on a house over every engine.
pub async fn over_every_engine(check: impl AsyncFn(&House)) {
    for engine in engines::with_servers().await {
        eprintln!("engine: {}", engine.name);
        let store = engine.store.clone();
        let house = House::over(store.clone(), engine.clock.clone(), Plan::default()).await;
        check(&house).await;
        house.stop.cancel();
        house.served.await.unwrap();
        store.close().await;
    }
}
