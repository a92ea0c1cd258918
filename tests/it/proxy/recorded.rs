//! Calls that a proxy records, and the sessions it records them in.

use serde_json::{Value, json};
use sessionlog::proxy::ProxyOptions;

use super::wrapped::{Store, Wrapped, options, session};

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_and_its_result_is_recorded_in_a_session_that_expires() {
    let store = Store::start().await;
    let mut wrapped = Wrapped::of(&store, options());
    wrapped.ask("initialize", json!({})).await;
    wrapped.tools().await;
    wrapped.call("read", json!({"path": "/a", "big": 1.50})).await;
    wrapped.call("plain", json!({"fail": true, "password": "hunter2"})).await;
    assert!(wrapped.leave().await, "the client left first");
    let id = store.only_session().await;
    assert!(id.starts_with("tmp-"), "{id}");
    let info = store.get(&format!("/v1/sessions/{id}")).await;
    assert_eq!((&info["ttl_seconds"], &info["workspace"]), (&json!(86_400), &json!("/work/here")));
    let events = store.events(&id).await;
    let [call, result, second, failed] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        types(&events),
        ["agent.tool_use", "agent.tool_result", "agent.tool_use", "agent.tool_result"]
    );
    assert_eq!(call["name"], "read");
    assert_eq!(call["server"], "files");
    assert_eq!(call["read_only"], true);
    assert_eq!(call["input"], json!({"path": "/a", "big": 1.5}));
    assert_eq!(result["call_id"], call["call_id"]);
    assert_eq!(result["content"][0]["text"], r#"{"path":"/a","big":1.5} 1"#);
    assert_eq!(result["result"], json!({"structuredContent": {"n": 1}, "_meta": {"own": 1}}));
    assert!(result["duration_ms"].is_u64());
    assert_eq!((&second["read_only"], &failed["is_error"]), (&json!(false), &json!(true)));
    assert_eq!(second["input"]["password"], "[redacted:secret-member]");
    assert_eq!(second["redactions"], json!({"secret-member": 1}));
    assert!(!format!("{events:?}").contains("hunter2"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_any_member_of_a_call_in_any_escaping_is_not_recorded() {
    let store = Store::start().await;
    let random: String = (0..36u8).map(|n| char::from(b'a' + (n * 7 + n / 5) % 26)).collect();
    let token = format!("ghp_{random}");
    let mut wrapped = Wrapped::of(&store, options());
    let escaped = token.replace('_', "\\u005f");
    let input = json!({
        "command": format!("a\\n{token}"), "lines": [[format!("%5F%22{escaped}%22")]],
        (token.clone()): escaped,
        "tag": format!("<private why=\"{}\">{random}</private>", "why ".repeat(80)),
        "empty": format!("<private/>{random}"),
        "patch": [format!("-----BEGIN {} KEY-----", "PRIVATE"), random, random],
    });
    wrapped.call("plain", input).await;
    // A secret is not used as a session id.
    wrapped.call_with("plain", json!({"n": 2}), json!({"session_id": token})).await;
    assert!(wrapped.leave().await, "the client left first");
    let id = store.only_session().await;
    assert!(id.starts_with("tmp-"), "{id}");
    let events = store.events(&id).await;
    assert_eq!(events.len(), 4, "{events:#?}");
    assert!(!format!("{events:?}").contains(&random[4..16]), "{events:#?}");
    let taken = &events[0]["redactions"];
    assert!(
        taken["github-token"] == 4 && taken["private"] == 2 && taken["private-key"] == 1,
        "{taken}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_recorded_in_the_session_its_message_names_or_else_the_proxys() {
    let store = Store::start().await;
    let started = ProxyOptions { session: Some(session("started")), ..options() };
    let mut wrapped = Wrapped::of(&store, started);
    wrapped.call("plain", json!({"n": 1})).await;
    for (meta, n) in [
        (json!({"session_id": "of seed/2"}), 2),
        (json!({"sessionlog/session": "ours", "session_id": "x"}), 3),
        (json!({"progressToken": 1}), 4),
    ] {
        wrapped.call_with("plain", json!({ "n": n }), meta).await;
    }
    wrapped.leave().await;
    for (id, calls) in [("started", vec![1, 4]), ("of-seed-2", vec![2]), ("ours", vec![3])] {
        let events = store.events(id).await;
        let uses = events.iter().filter(|event| event["type"] == "agent.tool_use");
        assert_eq!(uses.map(|event| &event["input"]["n"]).collect::<Vec<_>>(), calls, "{id}");
        let info = store.get(&format!("/v1/sessions/{id}")).await;
        assert!(info["ttl_seconds"].is_null(), "{info}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_without_an_answer_is_recorded_as_unanswered() {
    let store = Store::start().await;
    let mut wrapped = Wrapped::of(&store, options());
    let call = |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    wrapped.say(&call(70, "wait").to_string()).await;
    let reason = json!({"requestId": 70, "reason": "no longer wanted"});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": reason});
    wrapped.say(&cancel.to_string()).await;
    wrapped.say(&call(71, "die").to_string()).await;
    assert_eq!(wrapped.hear().await, None, "the client sees that the server is gone");
    let told = wrapped.told.lock().unwrap().clone();
    assert_eq!(told[1], cancel.to_string());
    assert!(!wrapped.ended().await, "the server left first");
    let events = store.events(&store.only_session().await).await;
    let results: Vec<_> =
        events.iter().filter(|event| event["type"] == "agent.tool_result").collect();
    let texts: Vec<_> = results.iter().map(|result| &result["content"][0]["text"]).collect();
    assert_eq!(texts, ["no longer wanted", "the connection ended first"]);
    assert!(results.iter().all(|result| result["is_error"] == true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_too_long_to_inspect_is_recorded_shortened() {
    let store = Store::start().await;
    let long = "y".repeat(33 << 20);
    let script = move |line: &str| {
        let message: Value = serde_json::from_str(line).unwrap();
        let answer =
            |result: &str| format!("{{\"jsonrpc\":\"2.0\",{result},\"id\":{}}}", message["id"]);
        let content = format!("\"content\":[{{\"type\":\"text\",\"text\":\"{long}\"}}]");
        Some(vec![match message["params"]["name"].as_str().unwrap() {
            "fails" => answer(&format!("\"result\":{{{content},\"isError\":true}}")),
            "breaks" => answer(&format!("\"error\":{{\"code\":-1,\"message\":\"{long}\"}}")),
            _ => answer(&format!("\"result\":{{{content}}}")),
        }])
    };
    let mut wrapped = Wrapped::new(&store.server.url("/"), options(), Box::new(script));
    let mut sizes = Vec::new();
    for (name, is_error) in [("reads", false), ("fails", true), ("breaks", true)] {
        let params = json!({"name": name, "arguments": {}});
        let answer = wrapped.ask("tools/call", params).await;
        sizes.push((answer.to_string().len() + 1, is_error));
    }
    assert!(wrapped.leave().await);
    let events = store.events(&store.only_session().await).await;
    let results: Vec<_> =
        events.iter().filter(|event| event["type"] == "agent.tool_result").collect();
    assert_eq!(results.len(), sizes.len(), "{results:?}");
    for (result, (bytes, is_error)) in results.iter().zip(sizes) {
        assert_eq!(result["truncated"]["bytes"], bytes, "{result}");
        assert_eq!(result["is_error"], is_error, "{result}");
        let said = format!("[{bytes} bytes, too long to be recorded]");
        assert_eq!(result["content"][0]["text"], said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_waits_for_its_record_with_that_setting() {
    let store = Store::start().await;
    let durable = ProxyOptions { durable: true, session: Some(session("s")), ..options() };
    let mut wrapped = Wrapped::of(&store, durable);
    for n in 1..=5 {
        wrapped.call("plain", json!({ "n": n })).await;
        assert_eq!(store.events("s").await.len(), 2 * n);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_in_results_are_recorded_as_sources_with_their_tool() {
    let store = Store::start().await;
    let started = ProxyOptions { session: Some(session("s")), ..options() };
    let mut wrapped = Wrapped::of(&store, started);
    let step =
        json!({"sessionId": "s", "searchStep": "begun", "stepNumber": 1, "nextStepNeeded": true});
    wrapped.call("plain", json!({"title": "One", "url": "https://a.org/1?utm_source=x"})).await;
    wrapped.leave().await;
    store.post("/v1/tools/sequential_search", step).await;
    let result = |id: &str, text: &str| {
        json!({"events": [
            {"type": "agent.tool_use", "name": "web_search", "call_id": id, "input": {}},
            {"type": "agent.tool_result", "call_id": id, "content": text},
        ]})
    };
    let emitted = store.post("/v1/sessions/s/events", result("1", "[Two](https://b.org/2)")).await;
    store.post("/v1/sessions/s/events", result("2", "https://a.org/1 https://b.org/2#x")).await;
    let found = store.get("/v1/sessions/s/events?types[]=source.found").await;
    let found: Vec<_> = found["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            (event["url"].as_str().unwrap(), event["tool"].as_str().unwrap(), &event["found_by"])
        })
        .collect();
    let server = &json!("server");
    assert_eq!(
        found,
        [
            ("https://a.org/1?utm_source=x", "plain", server),
            ("https://b.org/2", "web_search", server),
        ]
    );
    let tail = store.get("/v1/sessions/s/events?limit=1").await["tail"].as_u64().unwrap();
    assert_eq!(emitted["next_position"], tail - 2, "the answer counts what the server added");
    let overview = store.post("/v1/tools/get_research_session", json!({"sessionId": "s"})).await;
    let second =
        &overview["sources"].as_array().unwrap().iter().find(|source| source["title"] == "Two");
    assert_eq!(second.unwrap()["foundInStep"], 1, "{overview}");
    assert_eq!(second.unwrap()["tool"], "web_search");
    assert_eq!(second.unwrap()["foundBy"], "server");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_recorded_in_the_session_that_its_tool_argument_names() {
    let store = Store::start().await;
    let script = |line: &str| {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let named = |name: &str, member: &str| {
            json!({"name": name, "inputSchema": {"type": "object",
                "properties": {"query": {"type": "string"}, (member): {"type": "string"}}}})
        };
        let result = match message["method"].as_str().unwrap_or_default() {
            "tools/list" => json!({"tools": [named("web_search", "sessionId"),
                named("news_search", "session_id"), named("plain", "other")]}),
            _ => json!({"content": [{"type": "text", "text": "Tides: https://tides.test/table"}]}),
        };
        Some(vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()])
    };
    let named = |name: &str| ProxyOptions { name: name.to_owned(), ..options() };
    // With a list of the tools, and by a client that calls without one.
    for (number, lists) in [(1, true), (2, false)] {
        let research = format!("research-{number}");
        let step = json!({"sessionId": research, "stepNumber": 1, "searchStep": "Look for tides",
            "nextStepNeeded": true});
        store.post("/v1/sessions", json!({"id": research})).await;
        store.post("/v1/tools/sequential_search", step).await;
        let url = store.server.url("/");
        let mut wrapped = Wrapped::new(&url, named(&format!("p{number}")), Box::new(script));
        if lists {
            wrapped.tools().await;
        }
        wrapped.call("web_search", json!({"query": "tides", "sessionId": research})).await;
        wrapped.call("news_search", json!({"query": "tides", "session_id": research})).await;
        // An argument that the tool does not declare is ignored; `_meta` takes precedence.
        wrapped.call("plain", json!({"query": "tides", "sessionId": research})).await;
        let meta = json!({"session_id": format!("meta-{number}")});
        wrapped.call_with("web_search", json!({"sessionId": research}), meta).await;
        assert!(wrapped.leave().await);
        let events = store.events(&research).await;
        let calls = events.iter().filter(|event| event["type"] == "agent.tool_use");
        let calls: Vec<&str> = calls.map(|call| call["name"].as_str().unwrap()).collect();
        assert_eq!(calls, ["web_search", "news_search"], "{lists}: {events:?}");
        let asked = json!({"sessionId": research});
        let overview = store.post("/v1/tools/get_research_session", asked).await;
        assert_eq!(overview["sources"][0]["url"], "https://tides.test/table", "{overview}");
        assert_eq!(types(&store.events(&format!("meta-{number}")).await)[0], "agent.tool_use");
    }
}
