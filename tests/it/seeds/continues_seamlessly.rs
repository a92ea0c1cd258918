//! An agent with a context window far too small for its task, hundreds of tool calls on real files:
//! it is killed at random, its server is killed meanwhile, and each time it continues the same
//! session, until it ends with the result of an undisturbed run.

#[allow(dead_code, reason = "the program's own main")]
#[path = "../../../examples/agent.rs"]
mod agent;

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agent::{Agent, Model, State, Turn, scripted};
use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};

use crate::{
    program::{Place, Server},
    say,
    views::judge,
};

/// Token limit of the agent's context window.
const LIMIT: &str = "3000";
const PATIENCE: Duration = Duration::from_secs(120);
/// Largest number of starts of the agent.
const TURNS: u64 = 400;

fn work() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/env")
}

fn serve(place: &Place) -> Server {
    place.serve_with(&["--token-limit", LIMIT, "--settle-after", "1s"])
}

async fn events(url: &str, session: &str, types: &str) -> Vec<Value> {
    let path = format!("{url}/v1/sessions/{session}/events?limit=10000&types[]={types}");
    let answer = say::http_client().build().unwrap().get(path).send().await.unwrap();
    let mut page: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    page["data"].as_array_mut().unwrap().drain(..).collect()
}

/// Returns a number below `below`, always the same for a turn.
fn random_below(turn: u64, below: u64) -> u64 {
    let mut x = turn.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % below
}

/// Outcome of an agent that was killed repeatedly.
struct Killed {
    server: Server,
    answer: Option<String>,
    kills: u64,
    servers: u64,
}

/// Starts an agent for a moment until it finishes; sometimes kills its server.
fn killed(
    runtime: &tokio::runtime::Runtime,
    (place, mut server): (&Place, Server),
    session: &str,
    model: impl Fn() -> Option<Model>,
) -> Killed {
    let (mut kills, mut servers) = (0, 0);
    for turn in 0..TURNS {
        let agent = Agent::new(&server.url, session, &work(), model()).unwrap();
        // Each life is longer, so that a slow machine finishes, too.
        let pause = Duration::from_millis((50 + random_below(turn, 800)) * (1 + turn / 50));
        // The agent is dropped at any await, and leaves only its session.
        let ended = runtime.block_on(async { tokio::time::timeout(pause, agent.run()).await });
        match ended {
            Ok(Ok(answer)) => return Killed { server, answer: Some(answer), kills, servers },
            // A pending write of the previous agent arrived meanwhile: start it again.
            Ok(Err(failure)) if failure.to_string().contains("position_conflict") => {}
            Ok(Err(failure)) => panic!("turn {turn}: {failure}"),
            Err(_) => {}
        }
        kills += 1;
        if random_below(turn + 1_000, 4) == 0 {
            server.kill();
            server = serve(place);
            servers += 1;
        }
    }
    Killed { server, answer: None, kills, servers }
}

fn expected(runtime: &tokio::runtime::Runtime, server: &Server) -> String {
    let plain = Agent::new(&server.url, "plain", &work(), None).unwrap();
    let expected = runtime.block_on(async { tokio::time::timeout(PATIENCE, plain.run()).await });
    let expected = expected.unwrap().unwrap();
    let lines = std::fs::read_dir(work()).unwrap().map(|file| {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        text.lines().count()
    });
    assert!(expected.starts_with(&format!("{} lines", lines.sum::<usize>())), "{expected}");
    expected
}

#[test]
fn an_agent_killed_at_random_ends_with_the_result_of_an_undisturbed_one() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = Place::new();
    let server = serve(&place);
    let expected = expected(&runtime, &server);
    let Killed { server, answer, kills, servers } =
        killed(&runtime, (&place, server), "killed", || None);
    assert_eq!(answer.as_deref(), Some(expected.as_str()));
    let count = |types: &str| runtime.block_on(events(&server.url, "killed", types)).len();
    let (calls, continued) = (count("agent.tool_use"), count("context.compacted"));
    assert!(calls > 150 && kills > 5 && continued > 10, "{calls} {kills} {continued}");
    say::told(&format!(
        "an agent of {LIMIT} tokens: {calls} calls of tools, killed {kills} times, its server \
         {servers} times, continued {continued} times in one session; {expected}"
    ));
    server.kill();
}

/// A model that speaks the Messages API: it rejects what the API rejects, is sometimes overloaded,
/// and works only from the messages it is sent.
#[derive(Default)]
struct Api {
    asked: AtomicU64,
    busy: AtomicU64,
    /// Number of requests for its state.
    stood: AtomicU64,
    refused: Mutex<Option<String>>,
}

type Reply = (StatusCode, [(&'static str, String); 1], String);

impl Api {
    fn answer(&self, headers: &HeaderMap, body: &Value) -> Reply {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let kind = [("content-type", "application/json".to_owned())];
        if number % 9 == 4 {
            self.busy.fetch_add(1, Ordering::SeqCst);
            let (status, name) = match number % 2 {
                0 => (StatusCode::from_u16(529).unwrap(), "overloaded_error"),
                _ => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error"),
            };
            let error = json!({ "type": "error", "error": { "type": name, "message": "later" } });
            return (status, [("retry-after", "0".to_owned())], error.to_string());
        }
        let judged = std::panic::catch_unwind(|| check_request(headers, body));
        if let Err(panic) = judged {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            *self.refused.lock().unwrap() = said;
            let error = json!({ "type": "error",
                "error": { "type": "invalid_request_error", "message": "refused" } });
            return (StatusCode::BAD_REQUEST, kind, error.to_string());
        }
        let messages = body["messages"].as_array().unwrap();
        let (content, stop) = if body["tool_choice"]["type"] == "none" {
            self.stood.fetch_add(1, Ordering::SeqCst);
            let text = format!("I read files line by line; so far {}.", State::of(messages));
            (vec![json!({ "type": "text", "text": text })], "end_turn")
        } else {
            match scripted(messages) {
                Turn::Call { note, name, input } => {
                    let id = format!("toolu_{number:06}");
                    let call =
                        json!({ "type": "tool_use", "id": id, "name": name, "input": input });
                    (vec![json!({ "type": "text", "text": note }), call], "tool_use")
                }
                Turn::Answer(text) => {
                    let text = text.trim_start_matches("DONE ");
                    (vec![json!({ "type": "text", "text": text })], "end_turn")
                }
            }
        };
        let answer = json!({
            "id": format!("msg_{number:06}"), "type": "message", "role": "assistant",
            "model": body["model"], "content": content, "stop_reason": stop,
            "stop_sequence": null, "usage": { "input_tokens": 100, "output_tokens": 20 },
        });
        (StatusCode::OK, kind, answer.to_string())
    }
}

/// Checks a request as the API does; panics where the API rejects it.
fn check_request(headers: &HeaderMap, body: &Value) {
    assert_eq!(headers["x-api-key"], "k", "authentication_error");
    assert_eq!(headers["anthropic-version"], "2023-06-01");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(body["model"], "a-model", "{body}");
    assert!(body["max_tokens"].as_u64().is_some_and(|most| most > 0), "{body}");
    for tool in body["tools"].as_array().unwrap() {
        assert!(tool["name"].is_string() && tool["input_schema"]["type"] == "object", "{tool}");
    }
    let mut conversation = body.clone();
    conversation["system"] = json!([]);
    judge::anthropic(&conversation);
    let last = body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "user", "a model answers a user: {last}");
}

#[test]
fn an_agent_using_the_messages_api_ends_with_the_same_result() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = Place::new();
    let server = serve(&place);
    let expected = expected(&runtime, &server);
    let api = Arc::new(Api::default());
    let shared = Arc::clone(&api);
    let answers = move |headers: HeaderMap, Json(body): Json<Value>| {
        let answer = shared.answer(&headers, &body);
        async move { answer }
    };
    let app = Router::new().route("/v1/messages", post(answers));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    runtime.spawn(async move { axum::serve(listener, app).await });
    let model = || {
        let (key, name) = ("k".to_owned(), "a-model".to_owned());
        Some(Model { key, name, base: base.clone() })
    };
    let Killed { server, answer, kills, servers } =
        killed(&runtime, (&place, server), "asked", model);
    assert_eq!(*api.refused.lock().unwrap(), None, "the API refused what was sent");
    assert_eq!(answer.as_deref(), Some(expected.as_str()));
    let count = |types: &str| runtime.block_on(events(&server.url, "asked", types)).len();
    let (calls, continued) = (count("agent.tool_use"), count("context.compacted"));
    let [asked, busy, stood] =
        [&api.asked, &api.busy, &api.stood].map(|one| one.load(Ordering::SeqCst));
    assert!(calls > 150 && kills > 5 && continued > 10, "{calls} {kills} {continued}");
    assert!(busy > 10 && stood as usize >= continued, "{busy} {stood} {continued}");
    say::told(&format!(
        "an agent with a model behind the Messages API: asked {asked} times, busy {busy} times, \
         {calls} calls of tools, killed {kills} times, its server {servers} times, continued \
         {continued} times in one session"
    ));
    server.kill();
}
