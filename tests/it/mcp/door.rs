//! The interfaces that serve tools, each with its own connection, and operations of a caller: call,
//! follow a hint, read a list to its end. It must not depend on what a test expects.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use sessionlog::{
    api::error::ErrorBody, mcp::StdioOptions, verbs::tools::Toolset, wire::tools::ToolFailure,
};

use super::{
    desk::{assert_no_null, members_of, with},
    front_end::{Pipes, named},
    server::{Server, Speaker},
};

pub const PATH: &str = "/mcp?toolsets=research,events,memory,workspace";
/// The endpoint with every toolset.
const EVERY: &str = "/mcp?toolsets=research,events,memory,graph,workspace";

/// An interface to the tools, with its own connection.
pub enum Door {
    Stdio(Pipes),
    Connected(Speaker),
    Alone(Speaker),
    Plain(String, String),
}

pub const DOORS: [&str; 4] = ["stdio", "/mcp 2025-11-25", "/mcp 2026-07-28", "/v1/tools"];

impl Door {
    pub async fn open(which: &str, server: &Server) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let name = format!("door-{}", OPENED.fetch_add(1, Ordering::Relaxed));
        match which {
            "stdio" => {
                let toolsets = Toolset::ALL.to_vec();
                let options = StdioOptions { toolsets, ..named(&name) };
                let mut pipes = Pipes::open(&server.url("/"), options);
                pipes.initialize().await;
                Self::Stdio(pipes)
            }
            "/mcp 2025-11-25" => {
                let mut speaker = Speaker::new(server, EVERY);
                speaker.initialize("2025-11-25").await;
                Self::Connected(speaker)
            }
            "/mcp 2026-07-28" => {
                let mut speaker = Speaker::new(server, EVERY);
                speaker.headers.push(("sessionlog-connection", name));
                Self::Alone(speaker)
            }
            _ => Self::Plain(server.url("/v1/tools/"), name),
        }
    }

    /// Calls a tool; returns its structured answer, or the facts of the error.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = match self {
            Self::Stdio(pipes) => pipes.call(tool, arguments.clone()).await,
            Self::Connected(speaker) => result_of(speaker.ask("tools/call", params).await),
            Self::Alone(speaker) => result_of(speaker.ask_alone("tools/call", params).await),
            Self::Plain(url, name) => return plain(&format!("{url}{tool}"), name, arguments).await,
        };
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        if result["isError"] == true {
            let (_, facts) = text.split_once("\n\n").unwrap();
            return Err(serde_json::from_str::<Value>(facts).unwrap()["error"].take());
        }
        // An answer with its own text has no JSON in the text; any other has the same JSON twice.
        let structured = result["structuredContent"].clone();
        if let Ok(told) = serde_json::from_str::<Value>(text) {
            assert_eq!(told, structured, "the same twice");
        }
        assert!(structured.is_object() && structured["text"].is_null(), "{result}");
        Ok(structured)
    }

    pub async fn ok(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, &arguments).await;
        let answer = answer.unwrap_or_else(|error| panic!("{tool} {arguments}: {error}"));
        assert_no_null(&answer);
        answer
    }
}

async fn plain(url: &str, connection: &str, arguments: &Value) -> Result<Value, Value> {
    let request = crate::say::http_client()
        .build()
        .unwrap()
        .post(url)
        .header("sessionlog-connection", connection);
    let request = request.header("content-type", "application/json").body(arguments.to_string());
    let response = request.send().await.unwrap();
    let refused = !response.status().is_success();
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    if !refused {
        return Ok(members_of(body));
    }
    // The same facts as through the others, in HTTP's notation.
    let body: ErrorBody = serde_json::from_value(body).unwrap();
    let text = ToolFailure::from_body(&body).text();
    Err(serde_json::from_str::<Value>(text.split_once("\n\n").unwrap().1).unwrap()["error"].take())
}

/// Makes the tool call that a hint names, unchanged.
pub fn next_call(refused: &Value, error: &Value) -> Option<(String, Value)> {
    let call = error["recoveryHint"].get("call")?;
    let arguments = match call.get("otherArguments").map(|others| others == "unchanged") {
        Some(true) => with(refused.clone(), call["arguments"].clone()),
        Some(false) => panic!("{call}"),
        None => call["arguments"].clone(),
    };
    Some((call["tool"].as_str().unwrap().to_owned(), arguments))
}

/// Returns the numbers of all steps as the index lists them, page by page, newest first; `ask`
/// calls get_research_session.
pub async fn steps_listed(mut ask: impl AsyncFnMut(Value) -> Value) -> Vec<u64> {
    let mut page = ask(json!({})).await;
    let mut cursor = page["cursors"]["steps"].clone();
    let mut seen = Vec::new();
    loop {
        let lines = page["stepIndex"].as_array().unwrap();
        seen.extend(lines.iter().rev().map(|line| line["stepNumber"].as_u64().unwrap()));
        let Some(text) = cursor.as_str() else { return seen };
        page = ask(json!({ "cursor": text })).await;
        assert_eq!(page["responseMode"], "page");
        cursor = page["nextCursor"].clone();
    }
}

/// Returns the result of an answer, which must not be a protocol error.
fn result_of(mut answer: Value) -> Value {
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].take()
}
