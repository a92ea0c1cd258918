//! Clients that identify themselves in each request or not at all, and clients with some of the
//! tools: each is offered only what it can call.

use serde_json::{Value, json};
use sessionlog::{
    mcp::StdioOptions,
    verbs::tools::{Toolset, tools},
};

use super::{
    desk::{Desk, step, with},
    front_end::{Pipes, named},
    server::{Server, Speaker, initialize},
};

const ONE: &str = "01a20765-39c9-7061-9a22-b0733b61ccb1";
const TWO: &str = "01a20765-39c9-7061-9a22-b0733b61ccb2";

fn call(tool: &str, arguments: Value, meta: Value) -> Value {
    json!({ "name": tool, "arguments": arguments, "_meta": meta })
}

/// Makes a call over a separate connection, as clients of stateless HTTP do.
async fn call_once(server: &Server, params: Value) -> Value {
    let mut speaker = Speaker::new(server, "/mcp");
    speaker.initialize("2025-06-18").await;
    speaker.ask("tools/call", params).await["result"].take()
}

fn facts(refused: &Value) -> Value {
    let text = refused["content"][0]["text"].as_str().unwrap();
    serde_json::from_str::<Value>(text.split_once("\n\n").unwrap().1).unwrap()["error"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_conversation_share_a_session_over_any_number_of_connections() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    // In Codex's notation, and in strings that are not valid session ids.
    for member in ["sessionId", "threadId", "openai/session"] {
        let meta = |id: &str| match member {
            "openai/session" => json!({ member: format!("v1/{id}"), "progressToken": 7 }),
            _ => json!({ member: format!("{id}-{member}"), "progressToken": 7 }),
        };
        let mut sessions = Vec::new();
        for id in [ONE, TWO] {
            let first = call_once(&server, call("sequential_search", step(1), meta(id))).await;
            sessions.push(first["structuredContent"]["sessionId"].clone());
        }
        assert_ne!(sessions[0], sessions[1], "{member}");
        for (id, session) in [(ONE, &sessions[0]), (TWO, &sessions[1])] {
            let second = call_once(&server, call("sequential_search", step(2), meta(id))).await;
            let content = &second["structuredContent"];
            assert_eq!((&content["sessionId"], &content["stepCount"]), (session, &json!(2)));
        }
    }
    // A value that differs from call to call binds nothing.
    let meta = json!({ "progressToken": 7, "callId": "call_1", "itemId": ONE });
    call_once(&server, call("sequential_search", step(1), meta.clone())).await;
    let refused = call_once(&server, call("sequential_search", step(2), meta)).await;
    let error = facts(&refused);
    assert_eq!(error["kind"], "session_required", "{refused}");
    let action = error["recoveryHint"]["action"].as_str().unwrap();
    assert!(action.contains("send sessionId as an argument with each call"), "{action}");
    assert_eq!(error["recoveryHint"]["call"]["tool"], "list_sessions");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_front_end_is_bound_only_to_the_session_of_its_conversation() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let open = async |server: &Server, name: &str| {
        let mut pipes = Pipes::open(&server.url("/"), named(name));
        pipes.initialize().await;
        pipes
    };
    let mut pipes = open(&server, "a").await;
    let of = |id: &str| json!({ "sessionId": id });
    let told = |answer: &Value| answer["structuredContent"]["sessionId"].clone();
    let first = pipes.call_with("sequential_search", step(1), of(ONE)).await;
    assert_eq!(told(&first), ONE);
    // The same program starts another conversation.
    let other = with(step(1), json!({ "searchStep": "other" }));
    let second = pipes.call_with("sequential_search", other, of(TWO)).await;
    assert_eq!(told(&second), TWO);
    assert_eq!(told(&pipes.call_with("sequential_search", step(2), of(ONE)).await), ONE);
    // After a fresh start it is bound to nothing, under any owner; the other keeps its session.
    pipes.call_with("clear_session", json!({}), of(TWO)).await;
    let address = server.stop().await;
    let desk = desk.restarted().await;
    let server = Server::start_at(&desk, address).await;
    let fresh = pipes.call_with("get_research_session", json!({}), of(TWO)).await;
    assert_eq!(fresh["isError"], true, "{fresh}");
    assert_eq!(told(&pipes.call_with("sequential_search", step(3), of(ONE)).await), ONE);

    let mut next = open(&server, "b").await;
    let found = next.call_with("sequential_search", step(4), of(ONE)).await;
    assert_eq!((told(&found), &found["structuredContent"]["stepCount"]), (json!(ONE), &json!(4)));
    server.stop().await;
}

/// Returns the tools that a text names; names that are English words only if marked as names.
fn named_in(text: &str) -> Vec<&'static str> {
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words: Vec<&str> = text.split(word).filter(|word| word.contains('_')).collect();
    tools().iter().map(|tool| tool.name).filter(|name| words.contains(name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clause_with_an_id_or_recorded_text_like_a_tools_name_is_kept() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let toolsets = vec![Toolset::Research];
    let mut pipes = Pipes::open(&server.url("/"), StdioOptions { toolsets, ..named("research") });
    pipes.ask_first(&initialize("2025-11-25")).await;
    // Session ids: the name of a tool, alone and within a longer one.
    for id in ["list_sessions", "trip.list_sessions", "get_events-2", "my_trip"] {
        desk.begin(id).await;
        desk.ok("delete_session", json!({ "sessionId": id })).await;
        let refused =
            pipes.call("sequential_search", with(step(2), json!({"sessionId": id}))).await;
        let action = &facts(&refused)["recoveryHint"]["action"];
        let wanted = format!("`sessionlog restore {id}`");
        assert!(action.as_str().unwrap_or_default().contains(&wanted), "{id}: {refused}");
    }
    // Recorded text between quotes.
    for gap in ["does list_sessions show it", "a; then \"save_session\"; b", "`get_events"] {
        let id = gap.len().to_string();
        desk.begin(&id).await;
        let begun = with(step(1), json!({ "sessionId": id }));
        pipes.call("sequential_search", with(begun.clone(), json!({ "knowledgeGap": gap }))).await;
        let wrong = json!({ "stepNumber": 2, "closesGap": "another" });
        let refused = pipes.call("sequential_search", with(begun, wrong)).await;
        let action = &facts(&refused)["recoveryHint"]["action"];
        let wanted = format!("g1 ({gap:?})");
        assert!(action.as_str().unwrap_or_default().contains(&wanted), "{gap}: {refused}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_names_only_tools_that_its_client_is_offered() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for toolsets in [
        vec![Toolset::Research],
        vec![Toolset::Events],
        vec![Toolset::Memory],
        vec![Toolset::Research, Toolset::Events],
        vec![Toolset::Agent],
    ] {
        let is_offered = |name: &&str| {
            tools()
                .iter()
                .any(|tool| tool.name == *name && toolsets.iter().any(|set| set.contains(tool)))
        };
        let names: Vec<_> = toolsets.iter().map(|set| set.as_str()).collect();
        let options = StdioOptions { toolsets: toolsets.clone(), ..named(&names.join("-")) };
        let mut pipes = Pipes::open(&server.url("/"), options);
        let opened = pipes.ask_first(&initialize("2025-11-25")).await;
        let mut texts = vec![opened["result"]["instructions"].as_str().unwrap().to_owned()];
        let speaker = Speaker::new(&server, &format!("/mcp?toolsets={}", names.join(",")));
        let opened = speaker.post(&initialize("2025-11-25")).await.body;
        texts.push(opened["result"]["instructions"].as_str().unwrap().to_owned());
        let opened = speaker.ask_alone("server/discover", json!({})).await;
        texts.push(opened["result"]["instructions"].as_str().unwrap().to_owned());
        let mut refusals = 0;
        for (tool, arguments) in [
            ("sequential_search", step(3)),
            ("sequential_search", with(step(3), json!({"sessionId": "none"}))),
            ("get_research_session", json!({})),
            ("get_events", json!({})),
            ("get_events", json!({"sessionId": "none"})),
            ("emit_event", json!({"event": {"type": "user.message"}})),
            ("continue_session", json!({})),
            ("continue_session", json!({"sessionId": "none"})),
        ] {
            if !is_offered(&tool) {
                continue;
            }
            let refused = pipes.call(tool, arguments).await;
            assert_eq!(refused["isError"], true, "{tool}");
            let text = refused["content"][0]["text"].as_str().unwrap().to_owned();
            let call = &facts(&refused)["recoveryHint"]["call"]["tool"];
            assert!(call.as_str().is_none_or(|name| is_offered(&name)), "{toolsets:?}: {text}");
            texts.push(text);
            refusals += 1;
        }
        assert!(refusals > 1, "{toolsets:?}");
        for text in texts {
            let named = named_in(&text);
            assert!(named.iter().all(is_offered), "{toolsets:?} {named:?}: {text}");
        }
    }
    server.stop().await;
}

/// Initializes the protocol as the program with that name does.
async fn open_as(server: &Server, client: &str, toolsets: Vec<Toolset>) -> (Pipes, Value) {
    let options = StdioOptions { toolsets, ..named(client) };
    let mut pipes = Pipes::open(&server.url("/"), options);
    let mut first = initialize("2025-11-25");
    first["params"]["clientInfo"]["name"] = json!(client);
    let opened = pipes.ask_first(&first).await;
    (pipes, opened["result"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_agent_is_offered_six_tools_in_five_kilobytes() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let agent = Toolset::parse_list("agent").unwrap();
    let (mut pipes, opened) = open_as(&server, "claude-code", agent.clone()).await;
    let listed = pipes.ask("tools/list", json!({})).await["result"]["tools"].take();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "sequential_search",
        "get_research_session",
        "get_events",
        "checkpoint",
        "memory_search",
        "memory_insert",
    ];
    assert_eq!(names, expected);
    // A model pays for names, descriptions and schemas with each request.
    let bytes = listed.to_string().len();
    assert!(bytes <= 5_120, "{bytes} bytes: {listed}");
    for tool in listed.as_array().unwrap() {
        let about = tool["description"].as_str().unwrap();
        assert!(
            ["When ", "After ", "Before "].iter().any(|when| about.starts_with(when)),
            "{about}"
        );
    }
    let instructions = opened["instructions"].as_str().unwrap();
    assert!(names.iter().all(|name| instructions.contains(name)), "{instructions}");
    // An unlisted argument is still accepted, and another tool does not exist.
    let step = with(step(1), json!({ "branchFromStep": 7, "branchId": "b" }));
    let refused = pipes.call("sequential_search", step).await;
    assert!(refused.to_string().contains("step"), "{refused}");
    assert!(pipes.ask("tools/call", json!({"name": "resume"})).await["error"].is_object());
    // One setting offers all tools.
    let (mut pipes, _) = open_as(&server, "other", Toolset::parse_list("all").unwrap()).await;
    let listed = pipes.ask("tools/list", json!({})).await["result"]["tools"].take();
    assert_eq!(listed.as_array().unwrap().len(), tools().len());
    let speaker = Speaker::new(&server, "/mcp?toolsets=agent");
    let listed = speaker.ask_alone("tools/list", json!({})).await["result"]["tools"].take();
    assert_eq!(listed.as_array().unwrap().len(), 6);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_would_show_json_gets_only_the_text_of_an_answer() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for (client, is_text) in [("claude-code", true), ("codex-mcp-client", true), ("test", false)] {
        let (mut pipes, _) = open_as(&server, client, Toolset::ALL.to_vec()).await;
        let listed = pipes.ask("tools/list", json!({})).await["result"]["tools"].take();
        for tool in listed.as_array().unwrap() {
            assert_eq!(tool.get("outputSchema").is_none(), is_text, "{client}: {tool}");
        }
        pipes.call("sequential_search", step(1)).await;
        let found = pipes.call("memory_search", json!({"query": "unicorn"})).await;
        assert_eq!(found.get("structuredContent").is_none(), is_text, "{client}: {found}");
        let text = found["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("\nNothing: no recorded event"), "{client}: {text}");
        let structured = &found["structuredContent"];
        assert!(structured["text"].is_null() && (is_text || structured["blocks"].is_array()));
    }
    server.stop().await;
}
