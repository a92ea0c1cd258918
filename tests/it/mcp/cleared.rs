//! Agents that work in another session than their front end was started for: after `/clear`, after
//! `/resume`, and concurrently with another agent in the same directory.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use sessionlog::{event::SessionId, mcp::StdioOptions, proxy::ProxyOptions};

use super::{
    agents::hook,
    desk::{Desk, step},
    front_end::{Pipes, named},
    server::{Server, Speaker},
};
use crate::{
    hook::{claude, of, quiet},
    http::house::PATIENCE,
    program::{McpClient, Place},
    proxy::wrapped::{Wrapped, options, tools},
};

const FIRST: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const NEXT: &str = "aaaaaaaa-0000-4000-8000-000000000002";
const OTHER: &str = "bbbbbbbb-0000-4000-8000-000000000001";

/// A directory in which agents work.
struct Yard {
    desk: Desk,
    server: Server,
    place: tempfile::TempDir,
    /// Number of front ends opened.
    opened: AtomicU32,
}

impl Yard {
    async fn new() -> Self {
        Self::of(Desk::new()).await
    }

    async fn of(desk: Desk) -> Self {
        let server = Server::start(&desk).await;
        let (place, opened) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
        Self { desk, server, place, opened }
    }

    fn directory(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap()
    }

    /// Delivers a hook of an agent's process in one of its sessions.
    async fn tell(&self, process: &[&str], session: &str, name: &str, more: Value) {
        let mut event = json!({ "session_id": session, "prompt_id": session });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spool = self.place.path().join("spool");
        let at = self.directory();
        hook(&self.server, &spool, (&at, process), name, event).await;
    }

    async fn start(&self, process: &[&str], session: &str, source: &str) {
        self.tell(process, session, "SessionStart", json!({ "source": source })).await;
        self.tell(process, session, "UserPromptSubmit", json!({ "prompt": session })).await;
    }

    /// Opens the front end that an agent's process starts for its current session.
    async fn tools(&self, process: &[&str], session: Option<&str>) -> Pipes {
        let count = self.opened.fetch_add(1, Ordering::Relaxed);
        let connection = format!("{process:?} {session:?} {count}");
        let options = StdioOptions {
            session: session.map(|session| SessionId::new(session).unwrap()),
            process: process.iter().map(|name| (*name).to_owned()).collect(),
            directory: Some(self.directory().display().to_string()),
            ..named(&connection.replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
        };
        let mut pipes = Pipes::open(&self.server.url("/"), options);
        pipes.initialize().await;
        pipes
    }

    async fn kinds(&self, session: &str) -> Vec<String> {
        let arguments = json!({ "sessionId": session, "maxBytes": 100_000 });
        let events = self.desk.ok("get_events", arguments).await["events"].clone();
        let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
        events.as_array().unwrap().iter().map(kind).collect()
    }
}

/// Returns the session that tools without an id use.
async fn bound_session(tools: &mut Pipes) -> Value {
    let answer = tools.call("get_research_session", json!({})).await;
    answer["structuredContent"]["sessionId"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_use_the_current_session_of_their_agent_after_clear_and_resume() {
    for (started, ends) in [(Some(FIRST), true), (Some(FIRST), false), (None, true)] {
        let yard = Yard::new().await;
        let case = format!("started for {started:?}, its end reported: {ends}");
        let process = ["p1"];
        yard.start(&process, FIRST, "startup").await;
        let mut tools = yard.tools(&process, started).await;
        let first = tools.call("sequential_search", step(1)).await;
        assert_eq!(first["structuredContent"]["sessionId"], FIRST, "{case}: {first}");

        if ends {
            yard.tell(&process, FIRST, "SessionEnd", json!({ "reason": "clear" })).await;
        }
        let before = yard.kinds(FIRST).await;
        yard.start(&process, NEXT, "clear").await;
        assert_eq!(bound_session(&mut tools).await, NEXT, "{case}");
        for (tool, arguments) in [
            ("sequential_search", step(1)),
            ("checkpoint", json!({ "label": "here" })),
            ("memory_insert", json!({ "text": "The dock is dry" })),
            ("get_events", json!({})),
        ] {
            let answer = tools.call(tool, arguments).await;
            let session = &answer["structuredContent"]["sessionId"];
            assert!(session == NEXT || session.is_null(), "{case}, {tool}: {answer}");
        }
        assert_eq!(yard.kinds(FIRST).await, before, "{case}: the ended one stays as it was");
        assert!(yard.kinds(NEXT).await.contains(&"research.step".to_owned()), "{case}");
        // A restarted front end of the agent still has its first session in its environment.
        let mut again = yard.tools(&process, started).await;
        assert_eq!(bound_session(&mut again).await, NEXT, "{case}");

        yard.tell(&process, NEXT, "SessionEnd", json!({ "reason": "resume" })).await;
        yard.start(&process, FIRST, "resume").await;
        assert_eq!(bound_session(&mut tools).await, FIRST, "{case}");
        yard.server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_clear_a_proxy_records_in_the_current_session_of_its_agent() {
    let yard = Yard::new().await;
    yard.start(&["p1"], FIRST, "startup").await;
    let options = |process: &[&str]| ProxyOptions {
        session: Some(SessionId::new(FIRST).unwrap()),
        process: process.iter().map(|name| (*name).to_owned()).collect(),
        directory: Some(yard.directory().display().to_string()),
        ..options()
    };
    let url = yard.server.url("/");
    let mut follows = Wrapped::new(&url, options(&["p1"]), Box::new(tools()));
    // A user chose its session.
    let chosen = ProxyOptions { name: "p1".to_owned(), ..options(&[]) };
    let mut stays = Wrapped::new(&url, chosen, Box::new(tools()));
    for wrapped in [&mut follows, &mut stays] {
        wrapped.call("plain", json!({ "n": 1 })).await;
        assert_eq!(wrapped.calls("plain"), 1);
    }
    yard.tell(&["p1"], FIRST, "SessionEnd", json!({ "reason": "clear" })).await;
    yard.start(&["p1"], NEXT, "clear").await;
    // One call at a time, each with its result; a call that names a session stays there.
    for n in 2..4 {
        follows.call("plain", json!({ "n": n })).await;
    }
    follows.call_with("plain", json!({ "n": 4 }), json!({ "sessionId": OTHER })).await;
    stays.call("plain", json!({ "n": 5 })).await;
    follows.leave().await;
    stays.leave().await;
    let count = async |session: &str| {
        let kinds = yard.kinds(session).await;
        let of = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
        (of("agent.tool_use"), of("agent.tool_result"))
    };
    assert_eq!(count(FIRST).await, (3, 3), "both first calls, and that of the chosen session");
    assert_eq!(count(NEXT).await, (2, 2));
    assert_eq!(count(OTHER).await, (1, 1));
    yard.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_in_one_directory_always_write_to_their_own_sessions() {
    for (mine, theirs) in [
        (&["p1"][..], &["p2"][..]),
        // Two shells of one terminal, neither of which runs the other.
        (&["shell-1", "terminal"][..], &["shell-2", "terminal"][..]),
        // Two restarted under one process: the environment of the tools decides.
        (&["p"][..], &["p"][..]),
    ] {
        let yard = Yard::new().await;
        yard.start(mine, FIRST, "startup").await;
        let mut tools = yard.tools(mine, Some(FIRST)).await;
        yard.start(theirs, OTHER, "startup").await;
        let mut others = yard.tools(theirs, Some(OTHER)).await;
        for (tools, session) in [(&mut tools, FIRST), (&mut others, OTHER)] {
            let answer = tools.call("sequential_search", step(1)).await;
            assert_eq!(answer["structuredContent"]["sessionId"], session, "{mine:?}: {answer}");
        }
        yard.tell(mine, FIRST, "SessionEnd", json!({ "reason": "clear" })).await;
        yard.start(mine, NEXT, "clear").await;
        assert_eq!(bound_session(&mut tools).await, NEXT, "{mine:?}");
        assert_eq!(bound_session(&mut others).await, OTHER, "{mine:?}");
        yard.server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_common_process_name_tools_use_the_moved_session_of_the_directory() {
    let yard = Yard::new().await;
    yard.start(&["hook-1"], FIRST, "startup").await;
    yard.start(&["hook-2"], OTHER, "startup").await;
    let mut tools = yard.tools(&["wrapper"], Some(FIRST)).await;
    assert_eq!(bound_session(&mut tools).await, FIRST);
    yard.tell(&["hook-1"], FIRST, "SessionEnd", json!({ "reason": "clear" })).await;
    assert_eq!(bound_session(&mut tools).await, FIRST, "of the others none is known to be its own");
    yard.start(&["hook-3"], NEXT, "clear").await;
    assert_eq!(bound_session(&mut tools).await, NEXT);
    // A session that a user chose is used, regardless of the agent.
    let mut chosen = yard.tools(&[], Some(FIRST)).await;
    assert_eq!(bound_session(&mut chosen).await, FIRST);
    yard.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_an_unknown_outcome_takes_effect_once_stored() {
    let (desk, gate) = Desk::gated();
    let yard = Yard::of(desk).await;
    let process = ["p1"];
    for (session, source) in [(FIRST, "startup"), (OTHER, "clear"), (NEXT, "clear")] {
        yard.start(&process, session, source).await;
        if session != NEXT {
            yard.tell(&process, session, "SessionEnd", json!({ "reason": "clear" })).await;
        }
    }
    let mut tools = yard.tools(&process, Some(OTHER)).await;
    assert_eq!(bound_session(&mut tools).await, NEXT);
    yard.tell(&process, NEXT, "SessionEnd", json!({ "reason": "resume" })).await;

    // Its agent resumes the first one, and the storage times out.
    gate.close();
    gate.is_unsure(true);
    let start = json!({ "type": "session.status_running", "process": process,
        "source": "resume", "created_at": "2099-01-01T00:00:00Z" });
    let path = format!("/v1/sessions/{FIRST}/events");
    let told = Speaker::new(&yard.server, &path).post(&json!({ "events": [start] })).await;
    assert_eq!((told.status, &told.body["error"]["type"]), (503, &json!("outcome_unknown")));
    assert_ne!(bound_session(&mut tools).await, FIRST, "nothing is stored yet");

    let before = yard.kinds(FIRST).await.len();
    gate.is_unsure(false);
    gate.open();
    let stored = async {
        while yard.kinds(FIRST).await.len() == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, stored).await.expect("it is stored");
    assert_eq!(bound_session(&mut tools).await, FIRST, "what was looked up before is not kept");
    yard.server.stop().await;
}

#[test]
fn programs_of_one_agent_are_matched_by_their_common_parent_process() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("yard")).unwrap();
    let here = place.path("yard").canonicalize().unwrap();
    let tell = |session: &str, name: &str, more: Value| {
        let mut event = of(session, claude(name, &more));
        event["cwd"] = json!(here.to_str().unwrap());
        event["prompt_id"] = json!(session);
        quiet(&place, &event);
    };
    tell(FIRST, "SessionStart", json!({ "source": "startup" }));
    tell(FIRST, "UserPromptSubmit", json!({ "prompt": "Sweep the yard" }));
    let mut tools = McpClient::start_in(&place, "yard", &[]);
    let found = tools.call("get_research_session", &json!({}));
    assert_eq!(found["sessionId"], FIRST, "{found}");
    // Its end is not reported: with two live sessions in the directory neither would be chosen.
    tell(NEXT, "SessionStart", json!({ "source": "clear" }));
    tell(NEXT, "UserPromptSubmit", json!({ "prompt": "Paint the gate" }));
    let found = tools.call("get_research_session", &json!({}));
    assert_eq!((&found["sessionId"], &found["boundBy"]), (&json!(NEXT), &json!("started")));
    tell(FIRST, "SessionEnd", json!({ "reason": "clear" }));
    let history = place.run(&["history", "--json"]).json();
    let unfinished = history["unfinished"].to_string();
    assert!(!unfinished.contains(FIRST) && unfinished.contains(NEXT), "{history}");
    let start = place.events(NEXT).into_iter().next().unwrap();
    assert!(!start["process"].as_array().unwrap().is_empty(), "{start}");
}
