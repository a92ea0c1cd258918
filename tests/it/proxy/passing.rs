//! Messages that the proxy forwards: all of them, unchanged.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::wrapped::{Store, Wrapped, options};

/// An address without a listener.
const NOWHERE: &str = "http://127.0.0.1:9/";

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_either_side_are_forwarded_byte_for_byte() {
    let said = [
        r#"{ "jsonrpc":"2.0", "id" : "a\u0062", "method":"sampling/createMessage","params":{"n":1.50e3,"n2":123456789012345678901234567890}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.1,"x-unknown":{"deep":[{}]}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":null},"extra":true}"#,
        r#"[{"jsonrpc":"2.0","id":5,"result":{}},{"jsonrpc":"2.0","method":"notifications/x"}]"#,
        r#"{"id":1,"id":2,"method":"twice"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"ω 🦀"}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{\"roots\":[]}}\r",
        "this is no JSON {",
        "",
        "[]",
        "17",
    ];
    // The server echoes each message.
    let echo = |line: &str| Some(vec![line.to_owned()]);
    let mut wrapped = Wrapped::new(NOWHERE, options(), Box::new(echo));
    for line in said {
        wrapped.say(line).await;
        assert_eq!(wrapped.hear().await.unwrap(), line.trim_end_matches('\r'));
    }
    let long = format!("{{\"id\":9,\"method\":\"x\",\"params\":\"{}\"}}", "y".repeat(33 << 20));
    let mut to = wrapped.take_to();
    let line = format!("{long}\n");
    let writing = tokio::spawn(async move {
        to.write_all(line.as_bytes()).await.unwrap();
        to
    });
    assert!(wrapped.hear().await.unwrap() == long, "a long line is whole");
    drop(writing.await.unwrap());
    let told = wrapped.told.lock().unwrap().clone();
    assert_eq!(told[..said.len()], said);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_store_is_reported_and_delays_no_call() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let notify = std::sync::Arc::new(move |text: &str| {
        let _ = tell.send(text.to_owned());
    });
    let script = Box::new(super::wrapped::tools());
    let patience = std::time::Duration::from_millis(20);
    let options = sessionlog::proxy::ProxyOptions { notify, patience, ..options() };
    let mut wrapped = Wrapped::new(NOWHERE, options, script);
    wrapped.tools().await;
    for n in 0..50 {
        let result = wrapped.call("read", json!({ "n": n % 2 })).await;
        assert_eq!(result["structuredContent"]["n"], n + 1);
    }
    assert!(told.recv().await.unwrap().starts_with("recording is interrupted, calls continue"));
    let refused = wrapped.call("get_research_session", json!({})).await;
    assert_eq!(refused["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_tools_are_added_to_the_servers_without_name_clashes() {
    let store = Store::start().await;
    let mut wrapped = Wrapped::of(&store, options());
    let names = wrapped.tools().await;
    assert_eq!(names, ["read", "look", "write", "plain", "clear_session", "get_research_session"]);
    let script = |line: &str| {
        let message: Value = serde_json::from_str(line).unwrap();
        let tools = json!({"tools": [{"name": "clear_session", "inputSchema": {}}]});
        let result = match message["method"].as_str().unwrap() {
            "tools/list" if message["params"]["cursor"] == "2" => tools,
            "tools/list" if message["params"].get("page").is_some() => {
                json!({"tools": [], "nextCursor": "2"})
            }
            "tools/list" => tools,
            _ => json!({"content": [{"type": "text", "text": "the server's"}]}),
        };
        Some(vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()])
    };
    // The tools were not listed: the proxy lists them before it answers a call itself.
    let mut wrapped = Wrapped::new(&store.server.url("/"), options(), Box::new(script));
    let theirs = wrapped.call("clear_session", json!({})).await;
    assert_eq!(theirs["content"][0]["text"], "the server's");
    let ours = wrapped.call("sessionlog_clear_session", json!({})).await;
    assert!(ours["structuredContent"]["clearedSessionId"].is_string(), "{ours}");
    let first = wrapped.ask("tools/list", json!({"page": 1})).await;
    assert_eq!(first["result"], json!({"tools": [], "nextCursor": "2"}), "ours come last");
    let last = wrapped.ask("tools/list", json!({"cursor": "2"})).await;
    let names: Vec<_> =
        last["result"]["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["clear_session", "sessionlog_clear_session", "get_research_session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_the_servers_tools_is_read_before_our_tools_are_named() {
    let store = Store::start().await;
    for list_first in [false, true] {
        let script = |line: &str| {
            let message: Value = serde_json::from_str(line).unwrap();
            let tool = |name: &str| json!([{"name": name, "inputSchema": {}}]);
            let cursor = message["params"]["cursor"].as_str().unwrap_or_default();
            let result = match (message["method"].as_str().unwrap(), cursor) {
                ("tools/list", "") => json!({"tools": tool("a"), "nextCursor": "2"}),
                ("tools/list", "2") => json!({"tools": tool("b"), "nextCursor": "3"}),
                ("tools/list", "3") => json!({"tools": tool("clear_session")}),
                _ => json!({"content": [{"type": "text", "text": "the server's"}]}),
            };
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            Some(vec![answer.to_string()])
        };
        let mut wrapped = Wrapped::new(&store.server.url("/"), options(), Box::new(script));
        if list_first {
            let first = wrapped.ask("tools/list", json!({})).await;
            assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 1, "not the last page");
        }
        let theirs = wrapped.call("clear_session", json!({})).await;
        assert_eq!(theirs["content"][0]["text"], "the server's");
        let ours = wrapped.call("sessionlog_clear_session", json!({})).await;
        assert!(ours["structuredContent"]["clearedSessionId"].is_string(), "{ours}");
    }
}
