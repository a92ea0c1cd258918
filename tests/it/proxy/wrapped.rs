//! A proxy on streams: a client on one side, a scripted MCP server on the other, and a store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    client::{Client, ClientTarget, HttpRequest},
    env::clock::SystemClock,
    event::SessionId,
    proxy::{ContextTiming, Gate, ProxyOptions, RepeatRules, relay_streams},
    secrets::Recogniser,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines},
    task::JoinHandle,
};

use crate::mcp::{desk::Desk, server::Server};

const STREAM_BYTES: usize = 1 << 20;
/// Longest wait for a condition; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store served by our own server.
pub struct Store {
    pub desk: Desk,
    pub server: Server,
    client: Client,
}

impl Store {
    pub async fn start() -> Self {
        let desk = Desk::new();
        let server = Server::start(&desk).await;
        let client = client(&server.url("/"));
        Self { desk, server, client }
    }

    pub async fn get(&self, path: &str) -> Value {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let request =
            pairs.fold(HttpRequest::get(path), |request, (name, value)| request.query(name, value));
        self.client.json(request).await.unwrap()
    }

    /// Waits until a proxy's own session has so many events: they are recorded after the answer.
    pub async fn holds(&self, session: &str, count: usize) {
        let path = format!("/v1/sessions/{session}/events");
        let holds = async {
            loop {
                let found = self.client.json(HttpRequest::get(&path)).await.unwrap_or_default();
                if found["data"].as_array().is_some_and(|events| events.len() >= count) {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, holds).await.unwrap();
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        self.client.json(HttpRequest::post(path).json(&body)).await.unwrap()
    }

    /// Returns the id of the only session.
    pub async fn only_session(&self) -> String {
        let listed = self.get("/v1/sessions").await;
        let [session] = &listed["data"].as_array().unwrap()[..] else { panic!("{listed}") };
        session["id"].as_str().unwrap().to_owned()
    }

    pub async fn events(&self, session: &str) -> Vec<Value> {
        let path = format!("/v1/sessions/{session}/events");
        self.get(&path).await["data"].as_array().unwrap().clone()
    }
}

pub fn client(url: &str) -> Client {
    static CLIENTS: AtomicU64 = AtomicU64::new(0);
    let name = format!("proxy-test-{}", CLIENTS.fetch_add(1, Ordering::Relaxed));
    Client::new(ClientTarget::Server(url.parse().unwrap()), name).unwrap()
}

/// A user who consents to every recording.
struct Open;

impl Gate for Open {
    fn admit_event(&self, _: &SessionId) -> Option<Option<Value>> {
        Some(None)
    }

    fn is_excluded(&self, _: Option<&Value>) -> bool {
        false
    }
}

pub fn options() -> ProxyOptions {
    let tools = BTreeMap::new();
    ProxyOptions {
        session: None,
        process: Vec::new(),
        name: "p0".to_owned(),
        server: "scripted".to_owned(),
        directory: Some("/work/here".to_owned()),
        repeats: RepeatRules { age_max: Some(Duration::from_secs(60)), tools, tokens_max: 4_000 },
        patience: PATIENCE,
        context: ContextTiming::Request,
        durable: false,
        secrets: Arc::new(Recogniser::default()),
        gate: Arc::new(Open),
        notify: Arc::new(|_| {}),
        clock: Arc::new(SystemClock::new()),
    }
}

/// Answers of a scripted server to a line; `None` ends it.
type Script = Box<dyn FnMut(&str) -> Option<Vec<String>> + Send>;

/// The client's side of a proxy.
pub struct Wrapped {
    to: Option<DuplexStream>,
    from: Lines<BufReader<DuplexStream>>,
    /// The lines that the server received.
    pub told: Arc<Mutex<Vec<String>>>,
    proxy: JoinHandle<bool>,
    asked: u64,
}

impl Wrapped {
    pub fn new(url: &str, options: ProxyOptions, script: Script) -> Self {
        let (to, from_client) = tokio::io::duplex(STREAM_BYTES);
        let (to_client, from) = tokio::io::duplex(STREAM_BYTES);
        let (server_in, to_server) = tokio::io::duplex(STREAM_BYTES);
        let (from_server, server_out) = tokio::io::duplex(STREAM_BYTES);
        let told = Arc::default();
        tokio::spawn(serve(server_in, server_out, script, Arc::clone(&told)));
        let client = client(url);
        let proxy = tokio::spawn(async move {
            let streams = ((from_client, to_client), (from_server, to_server));
            let stop = std::future::pending();
            relay_streams(streams.0, streams.1, client, options, stop).await.unwrap()
        });
        let from = BufReader::new(from).lines();
        Self { to: Some(to), from, told, proxy, asked: 0 }
    }

    /// Starts a proxy of a server with a few tools.
    pub fn of(store: &Store, options: ProxyOptions) -> Self {
        Self::new(&store.server.url("/"), options, Box::new(tools()))
    }

    pub async fn say(&mut self, line: &str) {
        let to = self.to.as_mut().unwrap();
        to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Takes the stream to the proxy, for a test that writes without reading.
    pub fn take_to(&mut self) -> DuplexStream {
        self.to.take().unwrap()
    }

    pub async fn hear(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.from.next_line()).await.unwrap().unwrap()
    }

    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let ask = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        self.say(&ask.to_string()).await;
        let answer: Value = serde_json::from_str(&self.hear().await.unwrap()).unwrap();
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    pub async fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub async fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.call_with(name, arguments, json!({})).await
    }

    pub async fn call_with(&mut self, name: &str, arguments: Value, meta: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        self.ask("tools/call", params).await["result"].clone()
    }

    /// Returns the number of calls that the server received.
    pub fn calls(&self, tool: &str) -> usize {
        let mark = format!("\"name\":\"{tool}\"");
        self.told.lock().unwrap().iter().filter(|line| line.contains(&mark)).count()
    }

    /// Closes the client's input and waits for the proxy; returns true if the client left first.
    pub async fn leave(mut self) -> bool {
        drop(self.to.take());
        tokio::time::timeout(PATIENCE, self.proxy).await.unwrap().unwrap()
    }

    /// Waits for the proxy to end after its server.
    pub async fn ended(self) -> bool {
        tokio::time::timeout(PATIENCE, self.proxy).await.unwrap().unwrap()
    }
}

async fn serve(
    from: DuplexStream,
    mut to: DuplexStream,
    mut script: Script,
    told: Arc<Mutex<Vec<String>>>,
) {
    let mut lines = BufReader::new(from).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line).into_owned();
        told.lock().unwrap().push(line.clone());
        let Some(answers) = script(&line) else { return };
        for answer in answers {
            to.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }
}

/// Returns a server of a few tools: `read` only reads and always returns the same, `look` only
/// reads, `write` does not, `plain` declares nothing.
pub fn tools() -> impl FnMut(&str) -> Option<Vec<String>> {
    let mut answered = 0;
    move |line| {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let id = &message["id"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": {"name": "files", "version": "1"}}),
            "tools/list" => json!({"tools": [
                {"name": "read", "inputSchema": {}, "annotations":
                    {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}},
                {"name": "look", "inputSchema": {}, "annotations": {"readOnlyHint": true}},
                {"name": "write", "inputSchema": {}, "annotations": {"readOnlyHint": false}},
                {"name": "plain", "inputSchema": {}, "x-unknown": [1.50]},
            ]}),
            "tools/call" if message["params"]["name"] == "die" => return None,
            "tools/call" if message["params"]["name"] == "wait" => return Some(Vec::new()),
            "tools/call" => {
                answered += 1;
                let text = format!("{} {answered}", message["params"]["arguments"]);
                let failed = message["params"]["arguments"]["fail"] == true;
                json!({"content": [{"type": "text", "text": text}], "isError": failed,
                    "structuredContent": {"n": answered}, "_meta": {"own": 1}})
            }
            _ => return Some(Vec::new()),
        };
        Some(vec![json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()])
    }
}

pub fn session(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}
