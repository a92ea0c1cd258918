//! The front end on a pair of streams: it answers at once, forwards calls to the owner of the
//! store, and continues when the owner is replaced.

use serde_json::{Value, json};
use sessionlog::{
    client::{Client, ClientTarget},
    mcp::{StdioOptions, serve_streams},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    task::JoinHandle,
};

use super::{
    bounds::values,
    desk::{Desk, step},
    server::{Server, initialize},
};

/// The client's side of a front end's streams.
pub struct Pipes {
    to: DuplexStream,
    from: tokio::io::Lines<BufReader<DuplexStream>>,
    front_end: JoinHandle<()>,
}

impl Pipes {
    pub fn open(server: &str, options: StdioOptions) -> Self {
        // Idempotency keys begin with the client's name, which is random in the program.
        let name = options.connection.clone();
        let client = Client::new(ClientTarget::Server(server.parse().unwrap()), name).unwrap();
        let (to, input) = tokio::io::duplex(1 << 20);
        let (output, from) = tokio::io::duplex(1 << 20);
        let front_end = tokio::spawn(async move {
            serve_streams((input, output), client, options).await.unwrap();
        });
        Self { to, from: BufReader::new(from).lines(), front_end }
    }

    async fn say(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub async fn hear(&mut self) -> Value {
        let line = self.from.next_line().await.unwrap().expect("an answer");
        serde_json::from_str(&line).unwrap()
    }

    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.say(&json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params})).await;
        self.hear().await
    }

    /// Writes a line unchanged.
    pub async fn write(&mut self, line: &[u8]) {
        self.to.write_all(line).await.unwrap();
        self.to.write_all(b"\n").await.unwrap();
    }

    /// Writes a line and returns the next one received.
    pub async fn text_for(&mut self, line: &[u8]) -> String {
        self.write(line).await;
        self.from.next_line().await.unwrap().expect("an answer")
    }

    pub async fn ask_in(&mut self, line: &[u8]) -> Value {
        serde_json::from_str(&self.text_for(line).await).unwrap()
    }

    pub async fn initialize(&mut self) {
        let opened = self.ask_first(&initialize("2025-11-25")).await;
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    }

    /// Initializes the protocol; returns the whole message.
    pub async fn ask_first(&mut self, message: &Value) -> Value {
        self.say(message).await;
        let answer = self.hear().await;
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    /// Calls a tool with `_meta`.
    pub async fn call_with(&mut self, name: &str, arguments: Value, meta: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        self.ask("tools/call", params).await["result"].take()
    }

    pub async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        answer["result"].clone()
    }
}

pub fn named(connection: &str) -> StdioOptions {
    StdioOptions { connection: connection.to_owned(), ..StdioOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_initializes_and_lists_tools_without_an_owner() {
    let mut pipes = Pipes::open("http://127.0.0.1:9/", named("alone"));
    pipes.initialize().await;
    let listed = pipes.ask("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 6);
    let refused = pipes.call("get_research_session", json!({})).await;
    assert_eq!(refused["isError"], true);
    let text = refused["content"][0]["text"].as_str().unwrap();
    let facts: Value = serde_json::from_str(text.split_once("\n\n").unwrap().1).unwrap();
    assert_eq!(facts["error"]["kind"], "owner_unavailable");
    assert_eq!(facts["error"]["retryable"], true);
    drop(pipes.to);
    pipes.front_end.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_keeps_its_session_when_the_owner_is_replaced() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let mut pipes = Pipes::open(&server.url("/"), named("a"));
    let mut other = Pipes::open(&server.url("/"), named("b"));
    pipes.initialize().await;
    other.initialize().await;
    let first = pipes.call("sequential_search", step(1)).await;
    let session = first["structuredContent"]["sessionId"].clone();
    other.call("sequential_search", step(1)).await;

    let address = server.stop().await;
    let next = desk.restarted().await;
    let starting = tokio::spawn(async move { (Server::start_at(&next, address).await, next) });
    let second = pipes.call("sequential_search", step(2)).await;
    assert_eq!(second["structuredContent"]["sessionId"], session, "{second}");
    assert_eq!(second["structuredContent"]["boundBy"], "connection");

    let cleared = pipes.call("clear_session", json!({})).await;
    assert_eq!(cleared["structuredContent"]["clearedSessionId"], session);
    let (server, next) = starting.await.unwrap();
    let address = server.stop().await;
    let _server = Server::start_at(&next.restarted().await, address).await;
    let refused = pipes.call("get_research_session", json!({})).await;
    assert_eq!(refused["isError"], true, "a fresh start outlives the owner too");
    let fresh = pipes.call("sequential_search", step(1)).await;
    assert_ne!(fresh["structuredContent"]["sessionId"], session);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_the_same_through_a_front_end_and_over_http() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let mut pipes = Pipes::open(&server.url("/"), named("a"));
    pipes.initialize().await;
    let mut speaker = super::server::Speaker::new(&server, "/mcp");
    speaker.initialize("2025-11-25").await;
    pipes.call("sequential_search", step(1)).await;
    for (name, arguments) in [
        ("get_research_session", json!({"stepId": 4, "sessionId": "none"})),
        ("sequential_search", json!({"searchStep": 1})),
        ("sequential_search", step(5)),
    ] {
        let here = pipes.call(name, arguments.clone()).await;
        let there = speaker.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        if name == "sequential_search" && arguments == step(5) {
            assert_eq!(
                (&here["isError"], &there["result"]["isError"]),
                (&json!(true), &json!(true))
            );
        } else {
            assert_eq!(here["content"], there["result"]["content"], "{name}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_with_too_many_json_values_is_rejected_under_its_id() {
    let mut pipes = Pipes::open("http://127.0.0.1:9/", named("alone"));
    pipes.initialize().await;
    for arguments in [values(100_000), json!({"searchStep": "x".repeat(2 << 20)})] {
        let params = json!({"name": "sequential_search", "arguments": arguments});
        let refused = pipes.ask("tools/call", params).await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(9), &json!(-32600)));
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("100000 values") || why.contains("1048576 bytes"), "{why}");
    }
    let listed = pipes.ask("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 6);
    drop(pipes.to);
    pipes.front_end.await.unwrap();
}
