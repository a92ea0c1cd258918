//! Repeated calls answered from the log: which ones, how they are marked, and exceptions; a fresh
//! start; outputs of earlier connections; and the same over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::proxy::{ContextTiming, ProxyOptions, RepeatRules};

use super::wrapped::{Store, Wrapped, options, session};

fn mark(result: &Value) -> &Value {
    &result["_meta"]["sessionlog/cache"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_read_only_call_is_answered_from_the_log_and_marked() {
    let store = Store::start().await;
    let mut wrapped = Wrapped::of(&store, options());
    wrapped.tools().await;
    let first = wrapped.call("read", json!({"a": 1, "b": [2]})).await;
    assert!(mark(&first).is_null());
    store.holds("tmp-p0-0", 2).await;
    store.desk.clock.advance(Duration::from_secs(3));
    let again = wrapped.call("read", json!({"b": [2], "a": 1})).await;
    assert_eq!(wrapped.calls("read"), 1, "the server was not asked again");
    assert_eq!(again["structuredContent"], first["structuredContent"]);
    let blocks = again["content"].as_array().unwrap();
    assert_eq!((blocks.len(), &blocks[0]), (2, &first["content"][0]));
    let said = blocks[1]["text"].as_str().unwrap();
    assert!(said.contains("from the log, 3 s old"), "the model reads it, too: {said}");
    assert_eq!(again["_meta"]["own"], 1, "what the server marked stays");
    let age = mark(&again)["age_ms"].as_u64().unwrap();
    assert!((3_000..60_000).contains(&age), "{again}");
    assert_eq!((&mark(&again)["hits"], &mark(&again)["position"]), (&json!(1), &json!(1)));
    wrapped.call("read", json!({"a": 1, "b": [2]})).await;
    wrapped.call("read", json!({"a": 2})).await;
    assert_eq!(wrapped.calls("read"), 2, "another input is another call");
    store.holds("tmp-p0-0", 8).await;
    store.desk.clock.advance(Duration::from_secs(61));
    wrapped.call("read", json!({"a": 1, "b": [2]})).await;
    assert_eq!(wrapped.calls("read"), 3, "too old");
    wrapped.leave().await;
    let session = store.only_session().await;
    let asked = json!({ "sessionId": session });
    let overview = store.post("/v1/tools/get_research_session", asked).await;
    let fared = &overview["providerStats"];
    let calls = fared.as_object().and_then(|all| all.values().next()).cloned();
    assert_eq!(
        calls.unwrap()["attempts"],
        3,
        "an answer from the log is none of the tool: {fared}"
    );
    let events = store.events(&session).await;
    let ages: Vec<_> = events.iter().filter_map(|event| event.get("cached")).collect();
    assert_eq!(ages.len(), 4, "two calls and two results say where they come from");
    assert!(ages.iter().all(|cached| cached["position"] == 1 && cached["age_ms"].is_u64()));
    assert_eq!(events.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_writes_is_never_answered_from_the_log_and_invalidates_earlier_reads() {
    let store = Store::start().await;
    let rule = Some(Duration::from_secs(600));
    let tools = [("write", rule), ("plain", rule), ("read2", None)];
    let tools = tools.map(|(name, rule)| (name.to_owned(), rule)).into();
    let repeats = RepeatRules { tools, ..options().repeats };
    let mut wrapped = Wrapped::of(&store, ProxyOptions { repeats, ..options() });
    wrapped.tools().await;
    for (tool, calls, why) in [
        ("read", 1, "first"),
        ("read", 1, "repeat"),
        ("write", 1, "a write"),
        ("write", 2, "a tool that says it writes, whatever the rule"),
        ("read", 2, "something was written since"),
        ("read", 2, "repeat"),
        ("plain", 1, "it does not say that it only reads: it may write"),
        ("plain", 2, "so it stands for nothing"),
        ("read", 3, "and ends what was read"),
    ] {
        wrapped.call(tool, json!({})).await;
        assert_eq!(wrapped.calls(tool), calls, "{tool}: {why}");
    }
    wrapped.call("read", json!({"fail": true})).await;
    wrapped.call("read", json!({"fail": true})).await;
    assert_eq!(wrapped.calls("read"), 5, "an error is no answer");
    wrapped.call("read", json!({"password": "hunter2"})).await;
    wrapped.call("read", json!({"password": "hunter3"})).await;
    assert_eq!(wrapped.calls("read"), 7, "what had secrets is not what it seems");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_may_have_changed_outside_is_requested_again() {
    let store = Store::start().await;
    let mut wrapped = Wrapped::of(&store, options());
    wrapped.tools().await;
    for calls in 1..=2 {
        wrapped.call("look", json!({})).await;
        assert_eq!(wrapped.calls("look"), calls, "it does not say that its answers stay");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.md");
    std::fs::write(&file, "one").unwrap();
    let of_file = json!({"path": file});
    for (calls, why) in [(1, "first"), (1, "an unchanged file")] {
        wrapped.call("read", of_file.clone()).await;
        assert_eq!(wrapped.calls("read"), calls, "{why}");
    }
    std::fs::write(&file, "other").unwrap();
    wrapped.call("read", of_file.clone()).await;
    assert_eq!(wrapped.calls("read"), 2, "another program wrote the file");
    std::fs::remove_file(&file).unwrap();
    wrapped.call("read", of_file.clone()).await;
    assert_eq!(wrapped.calls("read"), 3, "another program removed the file");
    for calls in 4..=5 {
        wrapped.call("read", json!({"path": directory.path()})).await;
        assert_eq!(wrapped.calls("read"), calls, "what is below a directory is unseen");
    }
    wrapped.leave().await;
    // By naming tools on the command line the user asserts that their answers stay valid.
    let rule = [("look".to_owned(), Some(Duration::from_secs(600)))].into();
    let repeats = RepeatRules { tools: rule, ..options().repeats };
    let named = ProxyOptions { name: "p1".to_owned(), repeats, ..options() };
    let mut wrapped = Wrapped::of(&store, named);
    wrapped.tools().await;
    wrapped.call("look", json!({"path": directory.path()})).await;
    wrapped.call("look", json!({"path": directory.path()})).await;
    assert_eq!(wrapped.calls("look"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_start_drops_cached_answers_and_keeps_the_log() {
    let store = Store::start().await;
    let named = || ProxyOptions { session: Some(session("kept")), ..options() };
    let mut wrapped = Wrapped::of(&store, named());
    wrapped.tools().await;
    wrapped.call("read", json!({})).await;
    let cleared = wrapped.call("clear_session", json!({})).await;
    assert_eq!(cleared["structuredContent"]["clearedSessionId"], "kept");
    wrapped.call("read", json!({})).await;
    assert_eq!(wrapped.calls("read"), 2);
    wrapped.leave().await;
    let events = store.events("kept").await;
    assert_eq!(events.len(), 5, "{events:?}");
    assert_eq!(events[2]["type"], "context.cleared");
    // A second proxy of the same session, at the same minute of another day.
    let mut wrapped = Wrapped::of(&store, ProxyOptions { name: "p1".to_owned(), ..named() });
    wrapped.tools().await;
    let again = wrapped.call("read", json!({})).await;
    assert_eq!(mark(&again)["position"], 4, "{again}");
    // A session without a name is not continued.
    let mut wrapped = Wrapped::of(&store, options());
    wrapped.tools().await;
    wrapped.call("read", json!({})).await;
    let first = wrapped.call("clear_session", json!({})).await;
    let second = wrapped.call("clear_session", json!({})).await;
    assert_ne!(first["structuredContent"], second["structuredContent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_outputs_are_sent_once_per_connection_or_on_request() {
    let store = Store::start().await;
    let named = |name: &str, context| ProxyOptions {
        name: name.to_owned(),
        session: Some(session("long")),
        context,
        ..options()
    };
    let mut first = Wrapped::of(&store, named("p1", ContextTiming::Append));
    first.tools().await;
    let answer = first.call("plain", json!({"q": "early"})).await;
    assert_eq!(answer["content"].as_array().unwrap().len(), 1, "there is nothing earlier");
    first.call("plain", json!({"q": "later"})).await;
    first.leave().await;
    let mut second = Wrapped::of(&store, named("p2", ContextTiming::Append));
    second.tools().await;
    let answer = second.call("plain", json!({"q": "new"})).await;
    let text = answer["content"][1]["text"].as_str().unwrap();
    assert!(text.contains("early") && text.contains("later") && text.contains("data"), "{text}");
    // A tool's text is in a code block that nothing in the text can close.
    let headings = text.lines().filter(|line| line.starts_with('#')).count();
    assert!(headings == 2 && text.matches("\n```").count() == 4, "{text}");
    let answer = second.call("plain", json!({"q": "newer"})).await;
    assert_eq!(answer["content"].as_array().unwrap().len(), 1, "it has them");
    // The model that lost them requests them, and gets all.
    let recovered = second.call("get_research_session", json!({})).await;
    assert_eq!(recovered["structuredContent"]["sessionId"], "long");
    let text = recovered["content"][1]["text"].as_str().unwrap();
    assert!(text.contains("early") && text.contains("newer"), "{text}");
    let mut third = Wrapped::of(&store, named("p3", ContextTiming::Request));
    let answer = third.call("plain", json!({})).await;
    assert_eq!(answer["content"].as_array().unwrap().len(), 1, "nobody asked");
    let asked = json!({"sessionlog/context": true});
    let answer = third.call_with("plain", json!({"q": 2}), asked).await;
    let text = answer["content"][1]["text"].as_str().unwrap();
    assert!(text.contains("early") && !text.contains("plain {}"), "it has its own: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_outputs_come_with_a_first_answer_from_the_log() {
    let store = Store::start().await;
    let named = |name: &str| ProxyOptions {
        name: name.to_owned(),
        session: Some(session("long")),
        context: ContextTiming::Append,
        ..options()
    };
    let mut first = Wrapped::of(&store, named("p1"));
    first.tools().await;
    first.call("read", json!({"n": 1})).await;
    first.call("read", json!({"n": 22})).await;
    first.leave().await;
    let mut second = Wrapped::of(&store, named("p2"));
    second.tools().await;
    let answer = second.call("read", json!({"n": 1})).await;
    assert_eq!(mark(&answer)["position"], 1, "the log answers: {answer}");
    let blocks = answer["content"].as_array().unwrap();
    let texts: Vec<_> = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect();
    assert!(texts.len() == 3 && texts[1].contains("from the log"), "{texts:?}");
    assert!(texts[2].contains("read {\"n\":22}"), "{texts:?}");
    let answer = second.call("read", json!({"n": 3})).await;
    assert_eq!(answer["content"].as_array().unwrap().len(), 1, "it has them: {answer}");
    assert_eq!(second.calls("read"), 1);
    second.leave().await;
    // Text appended to an answer is not recorded as part of it.
    let mut third = Wrapped::of(&store, named("p3"));
    third.tools().await;
    let answer = third.call("read", json!({"n": 3})).await;
    let text = answer["content"][2]["text"].as_str().unwrap();
    assert_eq!(text.matches("read {\"n\":22}").count(), 1, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_or_possibly_stale_answer_is_requested_again() {
    let store = Store::start().await;
    let named = || ProxyOptions { session: Some(session("s")), ..options() };
    // The oldest answers are dropped beyond a budget.
    let repeats = RepeatRules { tokens_max: 1, ..options().repeats };
    let mut wrapped = Wrapped::of(&store, ProxyOptions { repeats, ..named() });
    wrapped.tools().await;
    wrapped.call("read", json!({"n": 1})).await;
    wrapped.call("read", json!({"n": 2})).await;
    wrapped.call("read", json!({"n": 2})).await;
    assert_eq!(wrapped.calls("read"), 2, "the newest is kept");
    wrapped.call("read", json!({"n": 1})).await;
    assert_eq!(wrapped.calls("read"), 3, "the oldest is not");
    // A client that requests an MCP task gets no reused result.
    let task = json!({"name": "read", "arguments": {"n": 1}, "task": {"ttl": 1}});
    wrapped.ask("tools/call", task).await;
    assert_eq!(wrapped.calls("read"), 4);
    wrapped.leave().await;
    // A change may be recorded in another session.
    let mut wrapped = Wrapped::of(&store, ProxyOptions { name: "p1".to_owned(), ..named() });
    wrapped.tools().await;
    wrapped.call_with("write", json!({}), json!({"session_id": "other"})).await;
    wrapped.call("read", json!({"n": 1})).await;
    assert_eq!(wrapped.calls("read"), 1);
    // A server whose tool list changed may have changed their behaviour.
    let mut script = super::wrapped::tools();
    let changing = move |line: &str| match line.contains("\"poke\"") {
        true => {
            let changed = json!({"method": "notifications/tools/list_changed"});
            Some(vec![changed.to_string(), line.to_owned()])
        }
        false => script(line),
    };
    let third = ProxyOptions { name: "p2".to_owned(), ..named() };
    let mut wrapped = Wrapped::new(&store.server.url("/"), third, Box::new(changing));
    wrapped.tools().await;
    wrapped.call("read", json!({"n": 5})).await;
    wrapped.call("read", json!({"n": 5})).await;
    assert_eq!(wrapped.calls("read"), 1);
    wrapped.say(r#"{"method":"poke"}"#).await;
    assert!(wrapped.hear().await.unwrap().contains("list_changed"));
    wrapped.hear().await;
    wrapped.call("read", json!({"n": 5})).await;
    assert_eq!(wrapped.calls("read"), 2, "nobody has listed it since");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_over_http_is_answered_from_the_log() {
    let store = Store::start().await;
    let event = |id: &str, n: u64, words: usize| {
        let text = "word ".repeat(words);
        json!([
            {"type": "agent.tool_use", "name": "search", "input": {"q": n}, "call_id": id},
            {"type": "agent.tool_result", "call_id": id, "content": [{"type": "text", "text": text}]},
        ])
    };
    store.post("/v1/sessions", json!({"id": "s"})).await;
    let emit = |events: Value| store.post("/v1/sessions/s/events", json!({ "events": events }));
    emit(event("a", 1, 100)).await;
    emit(event("b", 2, 100)).await;
    store.desk.clock.advance(Duration::from_secs(10));
    let look = |body: Value| store.post("/v1/sessions/s/tool-cache/lookup", body);
    let hit = look(json!({"name": "search", "input": {"q": 1}})).await;
    assert_eq!((&hit["hit"], &hit["result"]["position"]), (&json!(true), &json!(1)), "{hit}");
    assert_eq!(hit["trust"], "untrusted-external-content");
    assert!(hit["age_ms"].as_u64().unwrap() >= 10_000);
    for (asked, reason) in [
        (json!({"name": "search", "input": {"q": 3}}), "unknown"),
        (json!({"name": "other", "input": {"q": 1}}), "unknown"),
        (json!({"name": "search", "input": {"q": 1}, "server": "x"}), "unknown"),
        (json!({"name": "search", "input": {"q": 1}, "max_age_seconds": 9}), "too_old"),
        (json!({"name": "search", "input": {"q": 1}, "tokens_max": 200}), "trimmed"),
    ] {
        let miss = look(asked.clone()).await;
        assert_eq!((&miss["hit"], &miss["reason"]), (&json!(false), &json!(reason)), "{asked}");
    }
    let figures = look(json!({"name": "search", "input": {"q": 2}, "tokens_max": 200})).await;
    assert_eq!(
        figures["remembered"],
        json!({"count": 1, "tokens": 150, "tokens_max": 200, "trimmed": 1, "hits": 0})
    );
    let outputs = store.get("/v1/sessions/s/views/outputs?from_position=2").await;
    let outputs = outputs["outputs"].as_array().unwrap();
    assert_eq!((outputs.len(), &outputs[0]["call"]["input"]["q"]), (1, &json!(2)));
    // An event recorded late has the age that it states.
    let late = json!([
        {"type": "agent.tool_use", "name": "search", "input": {"q": 9}, "call_id": "late"},
        {"type": "agent.tool_result", "call_id": "late", "content": "x",
            "created_at": "2025-12-31T23:00:00Z"},
    ]);
    emit(late).await;
    let miss = look(json!({"name": "search", "input": {"q": 9}, "max_age_seconds": 3_600})).await;
    assert_eq!(miss["reason"], "too_old", "{miss}");
    emit(json!([{"type": "context.cleared"}])).await;
    let miss = look(json!({"name": "search", "input": {"q": 1}})).await;
    assert_eq!(miss["reason"], "unknown", "a fresh start");
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_whole_within_their_limit_and_only_the_newest_is_shortened() {
    let store = Store::start().await;
    let long = |name: &str| {
        let text = format!("{name} {}", "tide \"7\" ".repeat(120_000));
        json!([{"type": "text", "text": text}])
    };
    let script = move |line: &str| {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let asked = &message["params"]["arguments"]["q"];
        let result = match asked.as_str() {
            _ if message["method"] == "tools/list" => json!({"tools": []}),
            Some(name) if name.starts_with("long") => json!({"content": long(name),
                "structuredContent": {"all": "x".repeat(90_000)}}),
            _ => json!({"content": [{"type": "text", "text": format!("short {asked}")}]}),
        };
        Some(vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()])
    };
    let named = |name: &str| ProxyOptions {
        name: name.to_owned(),
        session: Some(session("long")),
        context: ContextTiming::Append,
        ..options()
    };
    // Four bytes a token, and the text around the outputs.
    let most = 4 * 4_000 + 500;
    let (url, path) = (store.server.url("/"), "/v1/sessions/long/views/outputs");
    // The arguments of a call may be as long as its answer.
    let wide = format!("wide {}", "q".repeat(400_000));
    for (number, last) in [(1, "one"), (2, "long last"), (3, wide.as_str())] {
        let mut wrapped = Wrapped::new(&url, named(&format!("p{number}")), Box::new(script));
        for q in ["long first", "small", "tiny", last] {
            wrapped.call("tides", json!({"q": q, "n": number})).await;
        }
        wrapped.leave().await;
        let seen = store.get(path).await;
        let tokens = seen["remembered"]["tokens"].as_u64().unwrap();
        assert!(tokens <= 4_000, "{number}: {}", seen["remembered"]);
        let outputs = seen["outputs"].as_array().unwrap();
        let bytes: usize =
            outputs.iter().map(|one| one["result"]["content"].to_string().len()).sum();
        assert!(bytes <= most && seen.to_string().len() <= most + 600 * outputs.len());
        let texts: Vec<&str> = outputs
            .iter()
            .map(|one| one["result"]["content"][0]["text"].as_str().unwrap())
            .collect();
        let newest = texts.last().unwrap();
        assert!(texts.contains(&"short \"small\"") && texts.contains(&"short \"tiny\""));
        assert!(!texts.iter().any(|text| text.starts_with("long first")), "{number}");
        match number {
            1 => assert_eq!(*newest, "short \"one\""),
            2 => {
                assert!(newest.starts_with("long last tide") && newest.len() > 6_000);
                assert!(outputs.last().unwrap()["result"]["truncated"]["bytes"].is_u64());
            }
            _ => {
                let call = &outputs.last().unwrap()["call"];
                assert!(call["input"].as_str().unwrap().contains("wide qqq"), "{call}");
            }
        }
        let mut next = Wrapped::new(&url, named(&format!("n{number}")), Box::new(script));
        let answer = next.call("tides", json!({"q": "new", "n": number})).await;
        let added = answer["content"][1]["text"].as_str().unwrap();
        assert!(added.len() <= most && added.contains("small"), "{number}: {}", added.len());
        let found = next.call("get_research_session", json!({})).await;
        let earlier = found["content"][1]["text"].as_str().unwrap();
        assert!(earlier.len() <= most && found.to_string().len() < 2 * most + 10_000, "{number}");
        next.leave().await;
    }
}
