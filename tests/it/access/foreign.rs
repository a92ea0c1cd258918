//! Sessions of another scope are reported like absent ones, by every published route and tool, with
//! the same status, headers and body. The lists are made from the published descriptions, so that a
//! new route or tool is included.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sessionlog::{access::Grant, verbs::tools};

use super::house::Walled;
use crate::{engines, http::house::Reply, say};

/// Ids of equal length, so that no length reveals one.
const FOREIGN: &str = "foreign-session-1";
const UNKNOWN: &str = "unknown-session-1";
/// Every grant.
const ALL: &[Grant] = &Grant::ALL;
const RECORDED: &str = "canary-of-ada";

/// A response without the parts that differ between requests, with the session id blanked.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    headers: BTreeMap<String, String>,
    text: String,
}

fn strip_variable_parts(reply: &Reply, id: &str) -> Seen {
    let headers = reply.headers.iter().filter_map(|(name, value)| {
        let passing = ["x-request-id", "request-id", "date", "mcp-session-id"];
        let value = value.to_str().unwrap().to_owned();
        (!passing.contains(&name.as_str())).then(|| (name.to_string(), value))
    });
    let text = reply.text.replace(id, "ID");
    Seen { status: reply.status, headers: headers.collect(), text: without_chains(&text) }
}

/// Replaces chain values, which are random bits.
fn without_chains(text: &str) -> String {
    let digits = |c: char| c.is_ascii_hexdigit();
    let words = text.split_inclusive(|c: char| !digits(c)).map(|word| {
        let hex = word.trim_end_matches(|c: char| !digits(c));
        if hex.len() == 64 { word.replace(hex, "CHAIN") } else { word.to_owned() }
    });
    words.collect()
}

/// One request about a session.
struct Asked {
    name: String,
    method: String,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<String>,
}

/// Returns every HTTP request about one session.
fn list_session_requests(document: &Value, id: &str) -> Vec<Asked> {
    let json = || vec![("content-type", "application/json".to_owned())];
    let mut all = Vec::new();
    let mut ask = |name: &str, method: &str, path: String, headers, body: Option<Value>| {
        let (name, method) = (name.to_owned(), method.to_uppercase());
        all.push(Asked { name, method, path, headers, body: body.map(|body| body.to_string()) });
    };
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            if path.contains("{session}") {
                let path = path.replace("{session}", id).replace("{event}", "e0");
                let path = path.replace("{number}", "1");
                let path = path.replace("{name}", "n");
                let bodies = match name {
                    "emitEvent" => {
                        let events = json!({"events": [{"type": "user.message", "n": 1}]});
                        vec![Some(events), Some(json!({"events": []}))]
                    }
                    "forkSession" => {
                        ["end", "event:e0", "-1", "0"].map(|at| Some(json!({ "at": at }))).to_vec()
                    }
                    _ if matches!(&**method, "get" | "delete") => vec![None],
                    _ => vec![None, Some(json!({}))],
                };
                for body in bodies {
                    ask(name, method, path.clone(), json(), body);
                }
                let points = ["event:e0", "step:1", "end", "-1", "0", "time:2020-01-01T00:00:00Z"]
                    .map(|p| p);
                for point in points.iter().filter(|_| method == "get") {
                    let more = format!("{path}?from={point}&at={point}&wait_ms=1&allow_gaps=true");
                    ask(name, method, more, json(), None);
                }
            }
        }
    }
    let verify = json!({"session": id});
    ask("verify", "post", "/v1/admin/verify".to_owned(), json(), Some(verify));
    for accept in [false, true] {
        let repair = json!({"session": id, "accept_loss": accept});
        ask("repair", "post", "/v1/admin/repair".to_owned(), json(), Some(repair));
    }
    let line = json!({"session": id, "events": [{"type": "user.message"}]});
    let lines = vec![("content-type", "application/x-ndjson".to_owned())];
    ask("appendStream", "post", "/v1/append".to_owned(), lines, Some(line));
    for tool in tools::tools() {
        for arguments in calls(tool, id) {
            let path = format!("/v1/tools/{}", tool.name);
            ask("callTool", "post", path.clone(), json(), Some(arguments));
            // A front end binds the session instead of an argument.
            for header in ["sessionlog-session", "sessionlog-connection-session"] {
                let mut headers = json();
                headers.extend([
                    (header, id.to_owned()),
                    ("sessionlog-connection", "ada-connection".to_owned()),
                    ("sessionlog-directory", "%2Fhome%2Fada".to_owned()),
                ]);
                ask("callTool", "post", path.clone(), headers, Some(json!({})));
            }
        }
    }
    all
}

/// Calls of every tool that names a session, with the least arguments that its schema accepts.
pub(super) fn calls(tool: &tools::Tool, id: &str) -> Vec<Value> {
    let schema = Value::Object(tool.input_schema());
    // A tool without arguments names no session.
    let named = schema["properties"].as_object().cloned().unwrap_or_default();
    let mut least = json!({});
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        least[name] = match named[name]["type"].as_str() {
            Some("integer" | "number") => json!(2),
            Some("boolean") => json!(true),
            Some("array") => json!([{"url": "https://example.org/a"}]),
            Some("object") => json!({"type": "user.message"}),
            _ if name == "at" => json!("end"),
            _ => json!("user.message"),
        };
    }
    if !named.contains_key("sessionId") {
        return vec![least];
    }
    least["sessionId"] = json!(id);
    let mut step = least.clone();
    step["stepId"] = json!(1);
    if named.contains_key("stepId") { vec![least, step] } else { vec![least] }
}

async fn create_foreign_session(walled: &Walled, ada: &str) {
    let events = json!({"id": FOREIGN, "title": RECORDED, "workspace": "/home/ada",
        "initial_events": [{"type": "user.message", "id": "e0", "text": RECORDED}]});
    let made = walled.post(ada, "/v1/sessions", &events).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let checkpoint = json!({"label": "n", "state": {"text": RECORDED}});
    let path = format!("/v1/sessions/{FOREIGN}/checkpoints");
    assert_eq!(walled.post(ada, &path, &checkpoint).await.status, 201);
    for number in 1..=3 {
        let step = json!({"sessionId": FOREIGN, "searchStep": RECORDED, "stepNumber": number,
            "totalStepsEstimate": 3, "nextStepNeeded": true});
        let path = "/v1/tools/sequential_search";
        let bearer = format!("Bearer {ada}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("sessionlog-connection", "ada-connection"),
            ("sessionlog-directory", "%2Fhome%2Fada"),
        ];
        let body = Some(step.to_string().into_bytes());
        let reply = walled.house.call("POST", path, &headers, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

/// Guarantee G11: a principal with every grant in its own tenant learns nothing of another tenant's
/// sessions, nor of another user's of its tenant.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_and_tool_returns_not_found_for_a_session_of_another_scope() {
    let (mut compared, mut names) = (0, std::collections::BTreeSet::new());
    for engine in engines::with_servers().await {
        let walled = Walled::over(engine.store.clone(), engine.clock.clone(), Default::default());
        let walled = walled.await;
        let ada = walled.token(("acme", "ada"), ALL);
        create_foreign_session(&walled, &ada).await;
        let document = walled.get(&ada, "/openapi.json").await.json();
        let export = format!("/v1/sessions/{FOREIGN}/export");
        let before = walled.get(&ada, &export).await.text;
        for who in [("other", "eve"), ("other", "ada"), ("acme", "eve")] {
            let eve = walled.token(who, ALL);
            let bearer = format!("Bearer {eve}");
            let both = list_session_requests(&document, FOREIGN)
                .into_iter()
                .zip(list_session_requests(&document, UNKNOWN));
            for (foreign, unknown) in both {
                let mut answers = Vec::new();
                for (request, id) in [(&foreign, FOREIGN), (&unknown, UNKNOWN)] {
                    let mut headers =
                        vec![("authorization", bearer.as_str()), ("x-request-id", "the-same")];
                    headers.extend(request.headers.iter().map(|(name, text)| (*name, &**text)));
                    let body = request.body.clone().map(String::into_bytes);
                    let reply =
                        walled.house.call(&request.method, &request.path, &headers, body).await;
                    assert!(!reply.text.contains(RECORDED), "{} {}", request.path, reply.text);
                    answers.push(strip_variable_parts(&reply, id));
                }
                assert_eq!(answers[0], answers[1], "{} {}", foreign.method, foreign.path);
                names.insert(foreign.name);
                compared += 1;
            }
            let listed = walled.get(&eve, "/v1/sessions?include_archived=true").await;
            assert_eq!(listed.json()["data"], json!([]), "{who:?}: nothing came into being");
        }
        assert_eq!(walled.get(&ada, &export).await.text, before, "nothing was done to it");
        walled.store.close().await;
    }
    // A route with a session that is not in the list of requests would not be tested.
    assert!(compared > 600 && names.contains("emitEvent"), "{compared}");
    say::told(&format!(
        "G11: {compared} pairs of answers over {} verbs, 0 differences",
        names.len()
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_names_lists_pages_and_idempotency_keys_are_separate_for_each_scope() {
    let walled = Walled::plain().await;
    let (ada, eve) = (walled.token(("acme", "ada"), ALL), walled.token(("other", "eve"), ALL));
    create_foreign_session(&walled, &ada).await;
    for number in 0..3 {
        let made = json!({"id": format!("own-{number}")});
        assert_eq!(walled.post(&ada, "/v1/sessions", &made).await.status, 201);
    }
    let made = walled.post(&eve, "/v1/sessions", &json!({"id": FOREIGN})).await;
    assert_eq!((made.status, &made.json()["tail"]), (201, &json!(0)));
    let path = format!("/v1/sessions/{FOREIGN}/events");
    let event = json!({"events": [{"type": "user.message", "id": "e0", "text": "of eve"}]});
    assert_eq!(walled.post(&eve, &path, &event).await.json()["first_position"], 0);
    let own = walled.get(&eve, &path).await.text;
    assert!(own.contains("of eve") && !own.contains(RECORDED), "{own}");
    // A page token of another scope's listing continues in the caller's listing.
    let page = walled.get(&ada, "/v1/sessions?limit=1").await.json();
    let next = page["next_page"].as_str().unwrap();
    let taken = walled.get(&eve, &format!("/v1/sessions?page={next}")).await.text;
    assert!(!taken.contains("own-") && !taken.contains(RECORDED), "{taken}");
    // The same key used by another user creates a session, and returns nothing of the first one.
    let with_key = async |token: &str, id: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "the-same"),
        ];
        let body = Some(json!({"id": id}).to_string().into_bytes());
        walled.house.call("POST", "/v1/sessions", &headers, body).await.json()["id"].clone()
    };
    assert_eq!(with_key(&ada, "keyed-a").await, "keyed-a");
    assert_eq!(with_key(&eve, "keyed-e").await, "keyed-e");
    // Deleted by one user, it still exists for the other.
    let gone = walled.call(&eve, "DELETE", &format!("/v1/sessions/{FOREIGN}"), None).await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    assert_eq!(walled.get(&ada, &path).await.status, 200);
    assert_eq!(walled.get(&eve, &path).await.status, 410);
}

/// Sends one MCP message over HTTP; returns the response and its session header.
async fn say_mcp(
    walled: &Walled,
    token: &str,
    connection: Option<&str>,
    message: &Value,
) -> (Reply, Value) {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    headers.extend(connection.map(|name| ("mcp-session-id", name)));
    let body = Some(message.to_string().into_bytes());
    let reply = walled.house.call("POST", "/mcp", &headers, body).await;
    let data = |line: &str| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok();
    let told: Option<Value> = reply.text.lines().find_map(data);
    let told = told.or_else(|| serde_json::from_str(&reply.text).ok()).unwrap_or_default();
    (reply, told)
}

async fn open_mcp_connection(walled: &Walled, token: &str) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"}}});
    let (reply, _) = say_mcp(walled, token, None, &hello).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let connection = reply.header("mcp-session-id").to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    say_mcp(walled, token, Some(&connection), &ready).await;
    connection
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_tools_resources_prompts_and_connections_stay_within_their_principal() {
    let walled = Walled::plain().await;
    let (ada, eve) = (walled.token(("acme", "ada"), ALL), walled.token(("other", "eve"), ALL));
    create_foreign_session(&walled, &ada).await;
    let (of_ada, of_eve) =
        (open_mcp_connection(&walled, &ada).await, open_mcp_connection(&walled, &eve).await);
    // A connection of another principal is not found, for every method.
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let (stolen, _) = say_mcp(&walled, &eve, Some(&of_ada), &ping).await;
    let (none, _) =
        say_mcp(&walled, &eve, Some("11111111-2222-3333-4444-555555555555"), &ping).await;
    assert_eq!((stolen.status, &stolen.text), (none.status, &none.text));
    assert_eq!(stolen.status, 404);
    assert_eq!(say_mcp(&walled, &ada, Some(&of_ada), &ping).await.0.status, 200);
    let mut compared = 0;
    let asks = |id: &str| {
        let mut all = vec![
            ("resources/read", json!({"uri": format!("session://{id}/index")})),
            ("resources/read", json!({"uri": format!("session://{id}/events/0-9")})),
            ("prompts/get", json!({"name": "continue", "arguments": {"sessionId": id}})),
        ];
        for tool in tools::tools() {
            for arguments in calls(tool, id) {
                all.push(("tools/call", json!({"name": tool.name, "arguments": arguments})));
            }
        }
        all
    };
    for (foreign, unknown) in asks(FOREIGN).into_iter().zip(asks(UNKNOWN)) {
        let mut answers = Vec::new();
        for ((method, params), id) in [(&foreign, FOREIGN), (&unknown, UNKNOWN)] {
            let ask = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            let (reply, told) = say_mcp(&walled, &eve, Some(&of_eve), &ask).await;
            assert!(!reply.text.contains(RECORDED), "{method} {params}: {}", reply.text);
            answers.push((reply.status, told.to_string().replace(id, "ID")));
        }
        assert_eq!(answers[0], answers[1], "{foreign:?}");
        compared += 1;
    }
    let list = json!({"jsonrpc": "2.0", "id": 8, "method": "resources/list", "params": {}});
    let (listed, _) = say_mcp(&walled, &eve, Some(&of_eve), &list).await;
    assert!(!listed.text.contains(FOREIGN) && listed.status == 200, "{}", listed.text);
    let (own, _) = say_mcp(&walled, &ada, Some(&of_ada), &list).await;
    assert!(own.text.contains(FOREIGN), "its own are listed: {}", own.text);
    // A tool that writes needs the grant, through each interface.
    let reader = walled.token(("acme", "ada"), &[Grant::Read]);
    let connection = open_mcp_connection(&walled, &reader).await;
    let arguments = json!({"sessionId": FOREIGN, "searchStep": "x", "stepNumber": 4,
        "totalStepsEstimate": 4, "nextStepNeeded": false});
    let params = json!({"name": "sequential_search", "arguments": arguments});
    let step = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params});
    let (refused, told) = say_mcp(&walled, &reader, Some(&connection), &step).await;
    assert!(told["result"]["isError"] == json!(true), "{}", refused.text);
    assert!(refused.text.contains("lacks the scope write"), "{}", refused.text);
    assert!(compared > 10);
}
