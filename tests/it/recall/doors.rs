//! A complete research session, written through one interface and read through another, before and
//! after the server is replaced.

use serde_json::{Value, json};

use super::planted::{SHAPES, session};
use crate::mcp::{
    desk::{Desk, assert_no_null, with},
    door::steps_listed,
    server::{Server, Speaker},
};

/// An interface to call a tool: the protocol, or a plain request.
enum Door {
    Protocol(Speaker),
    Plain { address: String },
}

impl Door {
    async fn protocol(server: &Server) -> Self {
        let mut speaker = Speaker::new(server, "/mcp?toolsets=research,events");
        speaker.headers.push(("sessionlog-directory", "/home/me/recall".to_owned()));
        speaker.initialize("2025-11-25").await;
        Self::Protocol(speaker)
    }

    fn plain(server: &Server) -> Self {
        Self::Plain { address: server.url("/v1/tools/") }
    }

    /// Calls a tool; returns its answer or its error.
    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Value> {
        match self {
            Self::Protocol(speaker) => {
                let params = json!({"name": tool, "arguments": arguments});
                let result = speaker.ask("tools/call", params).await["result"].take();
                let text = result["content"][0]["text"].as_str().unwrap().to_owned();
                if result["isError"] == true {
                    let (_, object) = text.split_once("\n\n").unwrap();
                    return Err(serde_json::from_str::<Value>(object).unwrap()["error"].take());
                }
                let structured = result["structuredContent"].clone();
                if !text.contains("\n<sessionlog trust=") {
                    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), structured);
                }
                Ok(structured)
            }
            Self::Plain { address } => {
                let request = crate::say::http_client()
                    .build()
                    .unwrap()
                    .post(format!("{address}{tool}"))
                    .header("sessionlog-directory", "/home/me/recall")
                    .header("content-type", "application/json")
                    .body(arguments.to_string());
                let response = request.send().await.unwrap();
                let good = response.status().is_success();
                let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
                if good { Ok(body) } else { Err(body["error"].clone()) }
            }
        }
    }

    async fn ok(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments).await.unwrap();
        assert_no_null(&answer);
        assert!(answer.to_string().len() <= 10_000, "{tool}: {}", answer.to_string().len());
        answer
    }

    async fn recover(&self) -> Value {
        self.ok("get_research_session", json!({})).await
    }
}

fn step(number: u64, text: &str, more: Value) -> Value {
    with(json!({"searchStep": text, "stepNumber": number, "nextStepNeeded": true}), more)
}

/// Records a small research session with every kind of item.
async fn record(door: &Door) {
    let steps = [
        step(
            1,
            "looked for X",
            json!({"researchGoal": "when was X?", "totalStepsEstimate": 11,
            "knowledgeGap": "who wrote A?"}),
        ),
        step(2, "A says 1931", json!({"confidence": "high", "reasoning": "A is the oldest"})),
        step(3, "B has no date", json!({"rejectedApproaches": ["dating by paper", "asking C"]})),
        step(
            4,
            "A misread its source: 1929",
            json!({"isRevision": true, "revisesStep": 2,
            "confidence": "high", "rejectedApproaches": ["asking C"]}),
        ),
        step(5, "aside from 2", json!({"branchId": "aside", "branchFromStep": 2})),
        step(5, "Ferrante wrote A", json!({"closesGap": "who wrote A?"})),
        step(6, "one gap more", json!({"knowledgeGap": "where is B kept?"})),
        step(7, "summed up", json!({"sessionSummary": "1929, by Ferrante; B is open"})),
    ];
    for (at, call) in steps.into_iter().enumerate() {
        let answer = door.ok("sequential_search", call).await;
        assert_eq!(answer["responseMode"], "full", "{at}");
        assert!(answer["steps"].is_array() && answer.get("summary").is_none());
    }
    let sources = json!([
        {"url": "HTTPS://Lib.example:443/a/?utm_source=x", "title": "A", "relevance": "academic"},
        {"url": "https://lib.example/a#page=3"},
    ]);
    let added = door.ok("add_sources", json!({ "sources": sources })).await;
    assert_eq!((&added["added"], &added["sourceCount"]), (&json!(1), &json!(1)));
}

/// Records tool calls that succeed and fail, as hooks do.
async fn fare(door: &Door) {
    for (number, (name, error)) in [
        ("fetch", Some("HTTP 429")),
        ("fetch", Some("429 again")),
        ("find", None),
        ("fetch", Some("Too Many Requests")),
        ("fetch", Some("404")),
        ("find", None),
    ]
    .into_iter()
    .enumerate()
    {
        let (id, url) = (format!("c{number}"), format!("https://a.example/{number}"));
        let used = json!({"type": "agent.tool_use", "name": name, "call_id": id,
            "input": {"url": url}});
        let result = json!({"type": "agent.tool_result", "call_id": id,
            "content": error.unwrap_or("fine, 404 pages"), "is_error": error.is_some()});
        for event in [used, result] {
            door.ok("emit_event", json!({ "event": event })).await;
        }
    }
}

fn check_recovered(found: &Value) {
    assert_eq!(found["responseMode"], "summary");
    assert_eq!(found["researchGoal"], "when was X?");
    assert_eq!((&found["stepCount"], &found["totalStepsEstimate"]), (&json!(8), &json!(11)));
    let index = found["stepIndex"].as_array().unwrap();
    assert_eq!(index.len(), 8);
    assert_eq!(index[1]["supersededBy"], 4);
    assert_eq!(index[4]["branchId"], "aside");
    assert_eq!(found["branches"], json!([{"branchId": "aside", "fromStep": 2, "lastStep": 5}]));
    assert_eq!(
        found["gaps"],
        json!([{"gapId": "g6", "description": "where is B kept?", "foundInStep": 6}])
    );
    assert_eq!(
        found["rejectedApproaches"],
        json!([{"approach": "dating by paper", "foundInStep": 3},
            {"approach": "asking C", "foundInStep": 3}])
    );
    assert_eq!(
        found["sources"][0],
        json!({"url": "HTTPS://Lib.example:443/a/?utm_source=x", "title": "A",
            "relevance": "academic", "foundInStep": 7, "foundBy": "model"})
    );
    let summary = found["summary"].as_str().unwrap();
    for part in ["1929, by Ferrante", "8 steps of about 11", "1 superseded"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    let fourth = "A misread its source: 1929";
    assert_eq!(found["stepIndex"][3]["oneLiner"], fourth);
    assert!(!summary.contains(fourth), "it is said once: {summary}");
    assert!(!summary.contains("1931"), "{summary}");
    let last: Vec<_> =
        found["lastSteps"].as_array().unwrap().iter().map(|s| &s["description"]).collect();
    assert_eq!(last, ["Ferrante wrote A", "one gap more", "summed up"]);
}

fn check_outcomes(found: &Value) {
    let patterns = found["errorPatterns"].as_array().unwrap();
    assert_eq!(patterns.len(), 1, "a kind that came once is no pattern: {patterns:?}");
    assert_eq!((&patterns[0]["kind"], &patterns[0]["count"]), (&json!("rate_limited"), &json!(3)));
    let urls = json!(["https://a.example/3", "https://a.example/1", "https://a.example/0"]);
    assert_eq!(patterns[0]["affectedUrls"], urls);
    assert!(patterns[0]["suggestion"].is_string() && patterns[0]["lastSeen"].is_string());
    let fared =
        json!({"fetch": {"attempts": 4, "successes": 0}, "find": {"attempts": 2, "successes": 2}});
    assert_eq!(found["providerStats"], fared);
    let page = |n: u32| {
        let url = format!("https://a.example/{n}");
        json!({"url": url, "foundInStep": 7, "foundBy": "server", "tool": "find"})
    };
    let sources = found["sources"].as_array().unwrap();
    assert_eq!(sources[1..], [page(2), page(5)], "the pages of the calls that went well");
}

/// Checks steps nine and ten: the answer becomes a summary, unless a mode is set.
async fn check_modes(door: &Door) {
    let ninth = door.ok("sequential_search", step(8, "the ninth", json!({}))).await;
    assert_eq!((&ninth["stepCount"], &ninth["responseMode"]), (&json!(9), &json!("summary")));
    assert!(ninth["summary"].is_string() && ninth["stepIndex"].is_array());
    let full = json!({"responseMode": "full"});
    let tenth = door.ok("sequential_search", step(9, "the tenth", full)).await;
    assert_eq!(tenth["responseMode"], "full");
    let delta = json!({"delta": true, "closesGap": "g6"});
    let last = door.ok("sequential_search", step(10, "B is in Varna", delta)).await;
    assert_eq!(
        (&last["responseMode"], &last["gapClosed"]["gapId"]),
        (&json!("delta"), &json!("g6"))
    );
    assert!(last.get("stepIndex").is_none() && last.get("gaps").is_none());
    let one = door.ok("get_research_session", json!({"stepId": 2})).await;
    assert_eq!(
        (&one["responseMode"], &one["step"]["reasoning"]),
        (&json!("step"), &json!("A is the oldest"))
    );
    assert_eq!(one["step"]["supersededBy"], 4);
    let aside = door.ok("get_research_session", json!({"stepId": 5, "branchId": "aside"})).await;
    assert_eq!(aside["step"]["description"], "aside from 2");
    let missing = door.call("get_research_session", json!({"stepId": 99})).await.unwrap_err();
    let kind = missing.get("kind").or(missing.get("type")).unwrap();
    assert_eq!(kind, "step_not_found");
}

#[tokio::test]
async fn a_session_written_through_one_interface_round_trips_through_each_and_a_restart() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let (writer, reader) = (Door::protocol(&server).await, Door::plain(&server));
    record(&writer).await;
    check_recovered(&reader.recover().await);
    fare(&writer).await;
    let before = reader.recover().await;
    check_recovered(&before);
    check_outcomes(&before);
    server.stop().await;

    let desk = desk.restarted().await;
    let server = Server::start(&desk).await;
    let reader = Door::protocol(&server).await;
    assert_eq!(reader.recover().await, before, "a restart changes nothing");
    check_modes(&reader).await;
    server.stop().await;
}

#[tokio::test]
async fn a_session_started_by_a_plain_call_can_be_continued_over_mcp() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let (plain, protocol) = (Door::plain(&server), Door::protocol(&server).await);
    plain.ok("sequential_search", step(1, "looked for X", json!({"knowledgeGap": "who?"}))).await;
    let found = protocol.recover().await;
    assert_eq!((&found["stepCount"], &found["boundBy"]), (&json!(1), &json!("directory")));
    let next = json!({"closesGap": "who?"});
    let second = protocol.ok("sequential_search", step(2, "Ferrante did", next)).await;
    assert_eq!(second["gapClosed"]["gapId"], "g1");
    assert_eq!(plain.recover().await["gaps"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn two_hundred_steps_are_bounded_paged_and_readable_over_mcp() {
    let made = session(&SHAPES[0], 77);
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let door = Door::protocol(&server).await;
    for (tool, call) in &made.calls {
        door.ok(tool, call.clone()).await;
    }
    let found = door.recover().await;
    let index = found["stepIndex"].as_array().unwrap().iter();
    let lines = index.map(|step| step["oneLiner"].as_str().unwrap());
    let lines = found["summary"].as_str().unwrap().lines().chain(lines);
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let told = super::facts::told(&lines, &made).len();
    assert!(told >= 14, "the summary and the lines of steps tell {told} of 40: {lines:#?}");

    let ask = async |arguments| door.ok("get_research_session", arguments).await;
    let seen = steps_listed(ask).await;
    assert_eq!(seen, (1..=200).rev().collect::<Vec<_>>());
    server.stop().await;
}
