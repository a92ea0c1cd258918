//! All programs of an agent without the agent: its hooks are delivered and its front ends started
//! here, over one server. All its work is in one session, anywhere in its repository.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    client::{Client, ClientTarget},
    env::{clock::SystemClock, entropy::SystemEntropy, project::Project},
    hook::{Hook, HookOutcome, Payload, Spool},
    mcp::StdioOptions,
    secrets::Recogniser,
};

use super::{
    desk::{Desk, step},
    front_end::{Pipes, named},
    server::Server,
};

const SESSION: &str = "0198c5d2-f0a0-7a1b-8c3d-4e5f60718293";

/// Delivers one event of an agent that works in a directory.
pub async fn hook(
    server: &Server,
    spool: &Path,
    (directory, process): (&Path, &[&str]),
    name: &str,
    more: Value,
) -> HookOutcome {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let target = ClientTarget::Server(server.url("/").parse().unwrap());
    // Each hook is a separate program, and its idempotency keys begin with the client's name.
    let client = Client::new(target, format!("hook-{}", TOLD.fetch_add(1, Ordering::Relaxed)));
    let hook = Hook {
        secrets: Arc::default(),
        client: Ok(client.unwrap()),
        spool: Spool::new(
            vec![spool.to_path_buf()],
            Box::new(|| Ok(None)),
            Arc::new(SystemEntropy),
        ),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        transcripts: Box::new(|_, _| Ok(None)),
        directory: None,
        process: process.iter().map(|name| (*name).to_owned()).collect(),
        home: None,
        wait: Duration::from_secs(60),
        timeout: Duration::from_secs(100),
        tokens_max: 0,
        recall_max: 0,
        spent: Duration::ZERO,
        gap: None,
    };
    let mut event = json!({
        "session_id": SESSION, "cwd": directory.display().to_string(), "hook_event_name": name,
        "transcript_path": "/home/ada/.codex/sessions/2026/11/22/rollout-1.jsonl",
        "model": "gpt-5", "turn_id": "turn-1",
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let payload =
        Payload::read(&event.to_string().into_bytes().into(), &Recogniser::default()).unwrap();
    let done = hook.run(&payload).await;
    assert_eq!((done.spooled, &done.trouble), (0, &None), "{name}");
    done
}

/// Starts a front end as the program does in a directory.
async fn front_end(server: &Server, connection: &str, directory: &Path) -> Pipes {
    let project = Project::from_directory(directory, None);
    let text = |path: &Path| path.display().to_string();
    let options = StdioOptions {
        directory: Some(text(&project.directory)),
        root: project.root.as_deref().map(text),
        ..named(connection)
    };
    let mut pipes = Pipes::open(&server.url("/"), options);
    pipes.initialize().await;
    pipes
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_front_ends_of_one_agent_share_one_session() {
    for (hooks_in, tools_in, repository) in [
        (".", ".", false),
        (".", ".", true),
        ("src/deep", ".", true),
        (".", "src/deep", true),
        ("src/deep", "tests", true),
    ] {
        let case = format!("hooks in {hooks_in}, tools in {tools_in}, repository: {repository}");
        let desk = Desk::new();
        let server = Server::start(&desk).await;
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("project");
        for name in ["src/deep", "tests"] {
            std::fs::create_dir_all(project.join(name)).unwrap();
        }
        if repository {
            std::fs::create_dir(project.join(".git")).unwrap();
        }
        let (hooks_in, tools_in) = (project.join(hooks_in), project.join(tools_in));
        let spool = place.path().join("spool");
        let tell = async |name: &str, more: Value| {
            hook(&server, &spool, (&hooks_in, &[]), name, more).await;
        };

        tell("SessionStart", json!({ "source": "startup" })).await;
        tell("UserPromptSubmit", json!({ "prompt": "Measure the wall" })).await;
        let mut first = front_end(&server, "first", &tools_in).await;
        for number in [1, 2] {
            let call = json!({
                "tool_name": "mcp__sessionlog__sequential_search", "tool_use_id": number.to_string(),
                "tool_input": step(number),
            });
            tell("PreToolUse", call.clone()).await;
            let answer = first.call("sequential_search", step(number)).await;
            assert_eq!(answer["structuredContent"]["sessionId"], SESSION, "{case}: {answer}");
            tell("PostToolUse", call).await;
        }
        tell("SessionEnd", json!({ "reason": "other" })).await;
        drop(first);

        // The agent is resumed: another program, another front end.
        tell("SessionStart", json!({ "source": "resume" })).await;
        tell("UserPromptSubmit", json!({ "prompt": "Go on", "turn_id": "turn-2" })).await;
        let mut second = front_end(&server, "second", &tools_in).await;
        let answer = second.call("sequential_search", step(3)).await;
        let content = &answer["structuredContent"];
        assert_eq!(
            (&content["sessionId"], &content["stepCount"], &content["boundBy"]),
            (&json!(SESSION), &json!(3), &json!("directory")),
            "{case}: {answer}"
        );
        let listed = second.call("list_sessions", json!({})).await;
        let sessions = listed["structuredContent"]["sessions"].as_array().unwrap().len();
        assert_eq!(sessions, 1, "{case}: {listed}");
        let arguments = json!({ "sessionId": SESSION, "maxBytes": 100_000 });
        let events = desk.ok("get_events", arguments).await["events"].clone();
        let count = |kind: &str| {
            events.as_array().unwrap().iter().filter(|event| event["type"] == kind).count()
        };
        assert_eq!((count("research.step"), count("user.message")), (3, 2), "{case}");
        server.stop().await;
    }
}
