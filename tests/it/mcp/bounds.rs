//! Answers stay small for any recorded content, and omitted parts can be read.

use serde_json::{Value, json};
use sessionlog::{
    mcp::StdioOptions,
    service::{Code, ResearchOptions},
    verbs::tools::{Toolset, tools},
};

use super::{
    desk::{Desk, assert_no_null, session_of, step, with},
    door::{PATH, steps_listed},
    front_end::{Pipes, named},
    server::{Server, Speaker},
};

/// Limit of one answer's structured content in bytes.
pub const ANSWER_BYTES: usize = 10_000;
/// Limit of the answer to a recorded step in bytes.
const STEP_ANSWER_BYTES: usize = 5_000;

pub fn hostile(bytes: usize) -> String {
    "\u{1}\"\\\n👨‍👩‍👧 wide ".repeat(bytes / 32)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_argument_beyond_its_limit_is_rejected_with_an_error_naming_it() {
    const MANY: usize = 20_000;
    // Recorded verbatim: the limit is on bytes.
    const SAID: [&str; 6] = ["rejectedApproaches", "sources", "tried", "worked", "failed", "next"];
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let toolsets = Toolset::ALL.to_vec();
    let mut pipes = Pipes::open(&server.url("/"), StdioOptions { toolsets, ..named("lists") });
    pipes.initialize().await;
    desk.begin("trip").await;
    desk.ok("sequential_search", with(step(1), json!({"sessionId": "trip"}))).await;
    let needs = |tool: &str| match tool {
        "sequential_search" => with(step(2), json!({"sessionId": "trip"})),
        "memory_search" => json!({"query": "tide"}),
        "memory_insert" => {
            json!({"kind": "semantic", "text": "High water at six", "sessionId": "trip"})
        }
        "memory_page" => json!({"direction": "in", "sessionId": "trip"}),
        "save_skill" => json!({"name": "row", "trigger": "a boat", "steps": "row",
            "sessionId": "trip"}),
        "get_events" => json!({"sessionId": "trip"}),
        _ => json!({"workspaceId": "/work/bank"}),
    };
    let item = |list: &str| match list {
        "ranges" => json!({"sessionId": "trip", "from": 0, "to": 1}),
        "filters" => json!({"field": "name", "op": "eq", "value": "a"}),
        "sort" => json!({"field": "name"}),
        "contextItems" => json!({"category": "data", "content": "a"}),
        "fileReferences" => json!({"path": "a"}),
        "kinds" => json!("semantic"),
        _ => json!("a.b"),
    };
    let mut count = 0;
    for tool in tools() {
        let schema = json!(tool.input_schema());
        let lists = schema["properties"].as_object().unwrap().iter().filter(|(_, member)| {
            member["type"] == "array"
                || member["type"].as_array().is_some_and(|types| types.contains(&json!("array")))
        });
        for (list, _) in lists.filter(|(list, _)| !SAID.contains(&list.as_str())) {
            let many = json!({ list: vec![item(list); MANY] });
            let refused = pipes.call(tool.name, with(needs(tool.name), many)).await;
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert_eq!(refused["isError"], true, "{} takes {MANY} {list}", tool.name);
            assert!(text.contains(list.as_str()), "{} {list}: {text}", tool.name);
            count += 1;
        }
    }
    assert!(count > 10, "{count} lists");
    // A list at the limit is accepted.
    let types = vec!["a.b"; 100];
    let found = pipes.call("get_events", json!({"sessionId": "trip", "types": types})).await;
    assert_eq!(found["isError"], false, "{found}");
    let types = vec!["a.b"; 101];
    let found = pipes.call("get_events", json!({"sessionId": "trip", "types": types})).await;
    let text = found["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("101 values; 100 are allowed"), "{found}");
    server.stop().await;
}

#[tokio::test]
async fn no_answer_exceeds_its_size_limit() {
    let desk = Desk::new().in_directory(&hostile(2_000));
    for number in 1..=40 {
        let text = hostile(if number % 10 == 0 { 60_000 } else { 3_000 });
        let more = json!({
            "searchStep": text, "reasoning": text, "knowledgeGap": format!("{number} {text}"),
            "rejectedApproaches": vec![format!("{number} {text}"); 20], "sessionSummary": text,
            "researchGoal": text, "confidence": "medium", "totalStepsEstimate": 100,
            "responseMode": if number % 2 == 0 { "full" } else { "summary" },
        });
        let aside =
            json!({"branchId": format!("{number}{}", "👩".repeat(62)), "searchStep": "aside"});
        let mut answer = desk.ok("sequential_search", with(step(number), more)).await;
        if number > 1 {
            answer = desk.ok("sequential_search", with(step(number + 1), aside)).await;
        }
        assert_no_null(&answer);
        let bytes = answer.to_string().len();
        assert!(bytes <= STEP_ANSWER_BYTES, "{number}: {bytes}");
        let sources: Vec<Value> = (0..5)
            .map(|n| {
                json!({"url": format!("https://x.org/{number}/{n}?{}", "q".repeat(900)),
                "title": text, "relevance": "scraped"})
            })
            .collect();
        desk.ok("add_sources", json!({"sources": sources})).await;
        let event = json!({"type": "user.message", "content": text});
        desk.ok("emit_event", json!({"event": event})).await;
    }
    let mut answers = vec![desk.recover().await];
    answers.push(desk.ok("get_research_session", json!({"stepId": 10})).await);
    answers.push(desk.ok("get_events", json!({})).await);
    answers.push(desk.ok("get_events", json!({"order": "desc"})).await);
    answers.push(desk.ok("list_sessions", json!({})).await);
    for cursor in ["steps:30", "sources:150", "gaps:30", "rejected:30"] {
        answers.push(desk.ok("get_research_session", json!({"cursor": cursor})).await);
    }
    for answer in answers {
        assert_no_null(&answer);
        assert!(
            answer.to_string().len() <= ANSWER_BYTES,
            "{} {}",
            answer.to_string().len(),
            answer
        );
    }
}

#[tokio::test]
async fn text_with_any_number_of_leading_list_markers_round_trips() {
    let desk = Desk::new();
    let marks = "- ".repeat(100_000) + "clay";
    let more = json!({"rejectedApproaches": [marks], "knowledgeGap": marks});
    desk.ok("sequential_search", with(step(1), more)).await;
    let answer = desk.recover().await;
    assert_eq!(answer["gaps"].as_array().unwrap().len(), 1, "{answer}");
}

#[tokio::test]
async fn a_history_shows_the_goals_of_the_latest_sessions() {
    let desk = Desk::new().in_directory("/p");
    for number in 1..=7 {
        let other = desk.another().in_directory(if number == 7 { "/q" } else { "/p" });
        let text = format!("{number} {}", hostile(5_000));
        let more = json!({"searchStep": text, "researchGoal": text, "knowledgeGap": "open", "sessionSummary": hostile(5_000)});
        other.ok("sequential_search", with(step(1), more)).await;
    }
    let all = desk.ok("review_history", json!({})).await;
    assert!(all.to_string().len() <= ANSWER_BYTES, "{}", all.to_string().len());
    assert_no_null(&all);
    let sessions = all["sessions"].as_array().unwrap();
    let goals: Vec<_> =
        sessions.iter().map(|past| &past["researchGoal"].as_str().unwrap()[..1]).collect();
    assert_eq!(goals, ["7", "6", "5", "4", "3"]);
    assert_eq!((&sessions[0]["stepCount"], &sessions[0]["openGaps"]), (&json!(1), &json!(1)));
    let some = desk.ok("review_history", json!({"workspace": "/p", "limit": 1})).await;
    assert!(some["sessions"][0]["researchGoal"].as_str().unwrap().starts_with('6'));
    let error = desk.refused("review_history", json!({"limit": 6})).await;
    assert_eq!(error.hint.field.as_deref(), Some("limit"));
}

#[tokio::test]
async fn paging_an_overview_yields_every_step_once() {
    let desk = Desk::new();
    for number in 1..=300 {
        desk.ok("sequential_search", with(step(number), json!({"delta": true}))).await;
    }
    let ask = async |arguments| desk.ok("get_research_session", arguments).await;
    let seen = steps_listed(ask).await;
    assert_eq!(seen, (1..=300).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_long_step_can_be_read_to_its_end() {
    let desk = Desk::new();
    let (text, reasoning) = (hostile(50_000), hostile(9_000));
    let more = json!({"searchStep": text, "reasoning": reasoning,
        "rejectedApproaches": ["a", "b"], "knowledgeGap": "k"});
    desk.ok("sequential_search", with(step(1), more)).await;
    let (mut described, mut reasoned, mut rejected) = (String::new(), String::new(), Vec::new());
    let mut arguments = json!({"stepId": 1});
    loop {
        let page = desk.ok("get_research_session", arguments).await;
        assert!(page.to_string().len() <= ANSWER_BYTES);
        described.push_str(page["step"]["description"].as_str().unwrap());
        reasoned.push_str(page["step"]["reasoning"].as_str().unwrap_or_default());
        rejected.extend(page["step"]["rejectedApproaches"].as_array().unwrap().clone());
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        arguments = json!({ "cursor": cursor });
    }
    assert_eq!((described, reasoned), (text, reasoning));
    assert_eq!(rejected, [json!("a"), json!("b")]);
}

#[tokio::test]
async fn an_unknown_step_cursor_or_point_is_rejected_with_an_error_naming_it() {
    let desk = Desk::new();
    desk.ok("sequential_search", step(1)).await;
    let error = desk.refused("get_research_session", json!({"stepId": 99})).await;
    assert_eq!((error.code, error.hint.last_step), (Code::StepNotFound, Some(1)));
    for (arguments, field) in [
        (json!({"stepId": 0}), "stepId"),
        (json!({"stepId": -1}), "stepId"),
        (json!({"cursor": "nonsense"}), "cursor"),
        (json!({"cursor": "step:7:0"}), "cursor"),
        (json!({"at": "yesterday"}), "at"),
    ] {
        let error = desk.refused("get_research_session", arguments.clone()).await;
        assert_eq!(error.code, Code::InvalidRequest, "{arguments}");
        assert_eq!(error.hint.field.as_deref(), Some(field), "{arguments}");
    }
    for cursor in ["steps:0", "steps:999", "sources:5", "gaps:18446744073709551615"] {
        desk.ok("get_research_session", json!({ "cursor": cursor })).await;
    }
    let error = desk.refused("no_such_tool", json!({})).await;
    assert_eq!(error.code, Code::InvalidRequest);
}

#[tokio::test]
async fn an_overview_is_available_as_of_an_earlier_point() {
    let desk = Desk::new();
    let mut earlier = Vec::new();
    for number in 1..=5 {
        desk.ok("sequential_search", step(number)).await;
        earlier.push(desk.recover().await);
    }
    for (at, expected) in [("1", &earlier[0]), ("step:3", &earlier[2]), ("end", &earlier[4])] {
        let found = desk.ok("get_research_session", json!({ "at": at })).await;
        assert_eq!(found, *expected, "{at}");
    }
}

#[tokio::test]
async fn reading_events_continues_where_the_answer_stopped() {
    let desk = Desk::new().bounded(ResearchOptions::default());
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    for number in 1..=60 {
        let event =
            json!({"type": "user.message", "content": format!("{number} {}", "x".repeat(400))});
        desk.ok("emit_event", json!({"event": event})).await;
    }
    let large = json!({"type": "agent.message", "content": "y".repeat(50_000)});
    let large = desk.ok("emit_event", json!({"event": large, "ifPosition": 61})).await;
    assert_eq!(large["position"], 61);
    let error = desk
        .refused("emit_event", json!({"event": {"type": "user.message"}, "ifPosition": 5}))
        .await;
    assert_eq!(error.code, Code::PositionConflict);

    let (mut positions, mut from) = (Vec::new(), 0);
    loop {
        let arguments = json!({"from": from.to_string(), "sessionId": session});
        let page = desk.ok("get_events", arguments).await;
        assert!(page.to_string().len() <= ANSWER_BYTES);
        for event in page["events"].as_array().unwrap() {
            positions.push(event["position"].as_u64().unwrap());
        }
        from = page["nextPosition"].as_u64().unwrap();
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(positions, (0..62).collect::<Vec<_>>());
    let shown = desk.ok("get_events", json!({"from": "61"})).await;
    assert_eq!(
        (&shown["events"][0]["truncated"], &shown["events"][0]["body_bytes"]),
        (&json!(true), &json!(50_014))
    );
    let whole = desk.ok("get_events", json!({"from": "61", "maxBytes": 100_000})).await;
    assert_eq!(whole["events"][0]["content"].as_str().unwrap().len(), 50_000);
    let typed =
        desk.ok("get_events", json!({"types": ["agent.message"], "maxBytes": 100_000})).await;
    assert_eq!(typed["events"].as_array().unwrap().len(), 1);
    let newest = desk.ok("get_events", json!({"order": "desc", "limit": 2, "to": "61"})).await;
    assert_eq!(
        (&newest["events"][0]["position"], &newest["nextPosition"]),
        (&json!(60), &json!(59))
    );
}

#[tokio::test]
async fn sources_are_stored_once_and_recovered() {
    let desk = Desk::new();
    desk.ok("sequential_search", step(1)).await;
    let sources = json!([
        {"url": "https://a.org/x/", "title": "X", "relevance": "academic"},
        {"url": "https://a.org/x#part"},
        {"url": "https://b.org"},
    ]);
    let added = desk.ok("add_sources", json!({ "sources": sources })).await;
    assert_eq!((&added["added"], &added["sourceCount"]), (&json!(2), &json!(2)));
    let found = desk.recover().await;
    assert_eq!(
        found["sources"][0],
        json!({"url": "https://a.org/x/", "title": "X", "relevance": "academic",
            "foundInStep": 1, "foundBy": "model"})
    );
    let claim = json!({"type": "source.found", "url": "https://c.org", "found_by": "server"});
    let error = desk.refused("emit_event", json!({ "event": claim })).await;
    assert_eq!(error.hint.field.as_deref(), Some("found_by"));
    for sources in [json!([]), json!([{"url": " "}])] {
        let error = desk.refused("add_sources", json!({ "sources": sources })).await;
        assert_eq!(error.hint.field.as_deref(), Some("sources"));
    }
}

#[tokio::test]
async fn several_spellings_of_one_address_in_a_call_are_one_source() {
    let desk = Desk::new();
    desk.ok("sequential_search", step(1)).await;
    let spellings = [
        "https://example.org/guide/tax",
        "HTTPS://Example.org:443/guide/tax/",
        "http://example.org/guide/%74ax#rates",
        "https://example.org/x/../guide/tax?utm_source=mail",
    ];
    let sources: Vec<Value> = spellings.iter().map(|url| json!({ "url": url })).collect();
    let mut sources = json!(sources);
    sources[3]["title"] = json!("Rates of tax");
    let added = desk.ok("add_sources", json!({ "sources": sources })).await;
    assert_eq!((&added["added"], &added["sourceCount"]), (&json!(1), &json!(1)));
    let written = desk.ok("get_events", json!({"types": ["source.found"]})).await;
    let written = written["events"].as_array().unwrap();
    assert!(matches!(&written[..], [one] if one["title"] == "Rates of tax"), "{written:?}");
    // And each spelling alone is a known source later.
    for url in spellings {
        desk.ok("add_sources", json!({"sources": [{ "url": url }]})).await;
    }
    let again = desk.ok("get_events", json!({"types": ["source.found"]})).await;
    assert_eq!(again["events"].as_array().unwrap().len(), 1, "{again}");
}

/// Returns a list of so many values.
pub fn values(count: usize) -> Value {
    Value::Array(vec![json!([]); count - 1])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_too_many_json_values_is_rejected_but_a_large_event_accepted() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let mut speaker = Speaker::new(&server, PATH);
    speaker.initialize("2025-11-25").await;
    let call = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    };
    let deep = (0..130).fold(json!(1), |inner, _| json!([inner]));
    let large = "x".repeat(3 << 20);
    for (message, status, code) in [
        (call("no_such_tool", values(100_000)), 422, "invalid_request"),
        (call("no_such_tool", deep), 422, "invalid_request"),
        (call("sequential_search", json!({"searchStep": large})), 413, "body_too_large"),
        (call("emit_event", json!({"event": {"x": "x".repeat(6 << 20)}})), 413, "body_too_large"),
    ] {
        let answer = speaker.post(&message).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.body["error"]["type"], code, "{}", answer.body);
    }
    speaker.post(&call("sequential_search", step(1))).await;
    for event in [json!({"type": "a.b", "x": large}), json!({"type": "a.b", "x": values(90_000)})] {
        let arguments = json!({"event": event});
        let answer = speaker.post(&call("emit_event", arguments)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["result"]["isError"], false, "{}", answer.body);
    }
    // The same tools without the protocol.
    let url = server.url("/v1/tools/sequential_search");
    let body = json!({"sessionSummary": values(100_000)}).to_string();
    let plain = crate::say::http_client().build().unwrap().post(url);
    let plain = plain.header("content-type", "application/json").body(body).send().await.unwrap();
    assert_eq!(plain.status().as_u16(), 422);
    server.stop().await;
}
