//! Workspaces with similar names: no verb, tool or command that names one returns content of
//! another, and no session continues one of another workspace.

use serde_json::{Value, json};

use crate::{
    http::house::{House, Plan},
    mcp::{
        desk::Desk,
        door::{DOORS, Door},
        server::Server,
    },
    memory::{search, session},
    program::Place,
};

/// Workspace names that a careless comparison confuses, each with the word that only its sessions
/// contain.
const WORKSPACES: [(&str, &str); 7] = [
    ("/proj/secret/bank", "otterhound"),
    ("/proj/bank", "wolfsbane"),
    ("bank", "marigold"),
    ("/proj/banker", "sandpiper"),
    ("/proj/bank/", "kestrel"),
    ("/PROJ/bank", "juniper"),
    ("/proj/./bank", "saffron"),
];

/// Method, path and body of every published operation that takes a workspace, except those that
/// create a session in it, name a relation by its id or move the workspace.
const OPERATIONS: [(&str, &str, &str, &str); 19] = [
    ("listSessions", "GET", "/v1/sessions?workspace={w}", ""),
    ("getHistory", "GET", "/v1/history?workspace={w}", ""),
    ("getUsage", "GET", "/v1/usage?by=session&workspace={w}", ""),
    ("search", "GET", "/v1/search?q=ledger&workspace={w}", ""),
    ("searchWith", "POST", "/v1/search", r#"{"q": "ledger", "limit": 100, "workspace": "{n}"}"#),
    ("pageIn", "POST", "/v1/memory/page", r#"{"query": "ledger", "workspace": "{n}"}"#),
    ("listMemoryOfWorkspace", "GET", "/v1/workspaces/{w}/memory", ""),
    ("getChain", "GET", "/v1/workspaces/{w}/chain", ""),
    ("analytics", "GET", "/v1/workspaces/{w}/analytics", ""),
    ("queryEntities", "POST", "/v1/workspaces/{w}/entities/query", r#"{"include_sessions": true}"#),
    ("queryRelationships", "POST", "/v1/workspaces/{w}/relationships/query", "{}"),
    ("restoreWork", "POST", "/v1/workspaces/{w}/restore", r#"{"create": false}"#),
    ("startWork", "POST", "/v1/workspaces/{w}/start", "{}"),
    ("saveSession", "POST", "/v1/workspaces/{w}/save", "{}"),
    (
        "recordLooks",
        "POST",
        "/v1/workspaces/{w}/looks",
        r#"{"looks": [{"path": "{word}.rs", "status": "gone"}]}"#,
    ),
    (
        "rememberInWorkspace",
        "POST",
        "/v1/workspaces/{w}/memory",
        r#"{"kind": "semantic", "text": "The {word} ledger rounds its cents half up"}"#,
    ),
    ("upsertEntity", "PUT", "/v1/workspaces/{w}/entities/task/{word}", r#"{"properties": {}}"#),
    (
        "createRelationship",
        "POST",
        "/v1/workspaces/{w}/relationships",
        r#"{"type": "CONCERNS", "from_id": "s-{word}", "to_id": "{word}"}"#,
    ),
    ("removeEntity", "DELETE", "/v1/workspaces/{w}/entities/note/{word}", ""),
];

/// Every tool that takes a workspace, and its arguments.
const TOOLS: [(&str, &str); 13] = [
    ("list_sessions", r#"{"workspace": "{n}"}"#),
    ("review_history", r#"{"workspace": "{n}"}"#),
    ("memory_search", r#"{"query": "ledger", "limit": 100, "workspace": "{n}"}"#),
    ("memory_page", r#"{"direction": "in", "query": "ledger", "workspace": "{n}"}"#),
    ("query_entities", r#"{"includeSessions": true, "workspace": "{n}"}"#),
    ("query_relationships", r#"{"workspace": "{n}"}"#),
    ("restore_session", r#"{"create": false, "workspaceId": "{n}"}"#),
    (
        "memory_insert",
        r#"{"kind": "semantic", "text": "The {word} ledger has a cents column", "workspace": "{n}"}"#,
    ),
    (
        "save_skill",
        r#"{"name": "{word}", "description": "ledger", "body": "{word}", "workspace": "{n}"}"#,
    ),
    ("upsert_entity", r#"{"type": "task", "id": "{word}", "workspace": "{n}"}"#),
    (
        "create_relationship",
        r#"{"type": "CONCERNS", "from_id": "s-{word}", "to_id": "{word}", "workspace": "{n}"}"#,
    ),
    ("remove_from_graph", r#"{"type": "note", "id": "{word}", "workspace": "{n}"}"#),
    ("save_session", r#"{"workspaceId": "{n}"}"#),
];

/// Command lines with the name of a workspace.
const COMMANDS: [&[&str]; 10] = [
    &["sessions", "--workspace", "{n}"],
    &["history", "--workspace", "{n}"],
    &["usage", "--by", "session", "--workspace", "{n}"],
    &["memory", "--workspace", "{n}"],
    &["memory", "--workspace", "{n}", "--page", "ledger"],
    &["graph", "{n}"],
    &["graph", "{n}", "--entities", "--sessions"],
    &["graph", "{n}", "--relations"],
    &["handoff", "restore", "{n}", "--look"],
    &["handoff", "chain", "{n}"],
];

fn escaped(name: &str) -> String {
    name.replace('/', "%2F")
}

/// Fills in a call: `{n}` is the workspace's name, `{w}` the same in a path, `{word}` its word.
fn of(text: &str, (name, word): (&str, &str)) -> String {
    text.replace("{n}", name).replace("{w}", &escaped(name)).replace("{word}", word)
}

/// Returns the words of other workspaces that a response contains.
fn words_of_others<'a>(answer: &str, word: &str) -> Vec<&'a str> {
    let others = WORKSPACES.iter().map(|(_, other)| *other).filter(|other| *other != word);
    others.filter(|other| answer.contains(other)).collect()
}

/// Writes to each workspace a session, an item of memory, an entity and a relation.
async fn fill_workspaces(house: &House) {
    for (name, word) in WORKSPACES {
        session(house, &format!("s-{word}"), name).await;
        let events = json!({"events": [
            {"type": "user.message", "content": format!("Round the {word} ledger to cents")},
            {"type": "agent.message",
                "content": format!("The {word} ledger is rounded in src/{word}.rs now")},
            {"type": "span.model_request_end", "model_usage": {"output_tokens": 9}},
        ]});
        let path = format!("/v1/sessions/s-{word}/events");
        assert_eq!(house.post(&path, &events).await.status, 200);
        let note = format!("/v1/workspaces/{}/entities/note/{word}", escaped(name));
        assert_eq!(call(house, "PUT", &note, "{}").await.0, 200);
        for (operation, method, path, body) in OPERATIONS.iter().skip(12) {
            let (path, body) = (of(path, (name, word)), of(body, (name, word)));
            let sent = call(house, method, &path, &body).await;
            assert_eq!(sent.0, 200, "{operation} {name}: {}", sent.1);
        }
    }
    search(house, json!({"q": "ledger"})).await;
}

async fn call(house: &House, method: &str, path: &str, body: &str) -> (u16, String) {
    let json = [("content-type", "application/json")];
    let body = (!body.is_empty()).then(|| body.as_bytes().to_vec());
    let reply = house.call(method, path, &json, body).await;
    (reply.status, reply.text)
}

/// Starts a server, and a house over the same store.
async fn start_server(desk: &Desk) -> (Server, House) {
    let server = Server::start(desk).await;
    let plan = Plan { service: Some(desk.service.clone()), ..Plan::default() };
    let house = House::over(desk.store.clone(), desk.clock.clone(), plan).await;
    (server, house)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_for_one_workspace_has_no_content_of_similarly_named_ones() {
    let desk = Desk::new();
    let (server, house) = start_server(&desk).await;
    fill_workspaces(&house).await;
    for one @ (name, word) in WORKSPACES {
        for (operation, method, path, body) in OPERATIONS {
            let (path, body) = (of(path, one), of(body, one));
            let (status, answer) = call(&house, method, &path, &body).await;
            assert_eq!(status, 200, "{operation} {name}: {answer}");
            assert_eq!(words_of_others(&answer, word), [""; 0], "{operation} {name}: {answer}");
            let is_place =
                ["rememberInWorkspace", "createRelationship", "recordLooks"].contains(&operation);
            let is_shown = answer.contains(word) || is_place;
            assert!(is_shown, "{operation} {name}: {answer}");
        }
    }
    for which in DOORS {
        let mut door = Door::open(which, &server).await;
        for one @ (name, word) in WORKSPACES {
            for (tool, arguments) in TOOLS {
                let arguments: Value = serde_json::from_str(&of(arguments, one)).unwrap();
                let answer = door.ok(tool, arguments).await.to_string();
                assert_eq!(
                    words_of_others(&answer, word),
                    [""; 0],
                    "{which} {tool} {name}: {answer}"
                );
            }
            // The session of another workspace is not the requested one.
            door.ok("clear_session", json!({})).await;
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_needs_the_full_workspace_name_and_a_search_reports_the_one_it_used() {
    let desk = Desk::new();
    let (server, house) = start_server(&desk).await;
    fill_workspaces(&house).await;
    let url = server.url("");
    tokio::task::spawn_blocking(move || check_commands(&url)).await.unwrap();
    server.stop().await;
}

fn check_commands(url: &str) {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let ran = place.run(&[&["--url", url], arguments].concat());
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    for one @ (name, word) in WORKSPACES {
        for command in COMMANDS {
            let command: Vec<String> = command.iter().map(|word| of(word, one)).collect();
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            let (code, said) = run(&command);
            assert_eq!(code, 0, "{command:?}: {said}");
            assert_eq!(words_of_others(&said, word), [""; 0], "{command:?}: {said}");
            assert!(said.contains(word), "{command:?}: {said}");
        }
        if name.starts_with('/') {
            let (_, said) = run(&["search", "ledger", "-n", "100", "--workspace", name]);
            assert_eq!(words_of_others(&said, word), [""; 0], "{name}: {said}");
            assert!(said.contains(word), "{name}: {said}");
        }
    }
    // A partial name typed by a user may match several workspaces, and the response lists them.
    let meant = ["/PROJ/bank", "/proj/./bank", "/proj/bank", "/proj/secret/bank", "bank"];
    let meant = format!("Looked in the workspaces {}.", meant.join(", "));
    let (_, said) = run(&["search", "ledger", "-n", "100", "--workspace", "bank"]);
    assert!(said.contains(&meant), "{said}");
    assert!(said.contains("otterhound") && said.contains("marigold"), "{said}");
    assert!(!said.contains("sandpiper") && !said.contains("kestrel"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_workspace_name_in_a_query_never_widens_the_parameter() {
    let house = House::plain().await;
    fill_workspaces(&house).await;
    let expected = json!(["/proj/secret/bank"]);
    let found = search(&house, json!({"q": "ledger workspace:secret/bank", "limit": 100})).await;
    assert_eq!(found["workspaces"], expected, "{found}");
    assert_eq!(words_of_others(&found.to_string(), "otterhound"), [""; 0], "{found}");
    let paged = json!({"query": "ledger workspace:secret/bank"});
    let paged = house.post("/v1/memory/page", &paged).await.json();
    assert_eq!(paged["workspaces"], expected, "{paged}");
    // Both limit the result: the filter is not expanded outside the parameter.
    let both = json!({"q": "ledger workspace:secret/bank", "workspace": "/proj/bank"});
    let found = search(&house, both).await;
    assert_eq!((&found["hits"], found.get("workspaces")), (&json!([]), None), "{found}");
    // The session of a range belongs to the workspace.
    let range = |session: &str| {
        let ranges = json!([{"session": session, "from": 0, "to": 1}]);
        json!({"workspace": "/proj/bank", "ranges": ranges})
    };
    let own = house.post("/v1/memory/page", &range("s-wolfsbane")).await;
    assert_eq!(own.status, 200, "{}", own.text);
    let other = house.post("/v1/memory/page", &range("s-otterhound")).await;
    assert_eq!(other.code(), "session_not_found", "{}", other.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_a_workspace_leaves_similarly_named_ones_unchanged() {
    let house = House::plain().await;
    fill_workspaces(&house).await;
    let (moved, own) = WORKSPACES[0];
    let path = format!("/v1/workspaces/{}/move", escaped(moved));
    let answer = house.post(&path, &json!({"to": "/elsewhere"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    for (name, word) in [&[("/elsewhere", own)][..], &WORKSPACES[1..]].concat() {
        for (operation, method, path, body) in OPERATIONS.iter().take(11) {
            let (path, body) = (of(path, (name, word)), of(body, (name, word)));
            let (status, answer) = call(&house, method, &path, &body).await;
            assert_eq!(status, 200, "{operation} {name}: {answer}");
            assert_eq!(words_of_others(&answer, word), [""; 0], "{operation} {name}: {answer}");
            assert!(answer.contains(word), "{operation} {name}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_recalls_only_from_its_workspace() {
    let house = House::plain().await;
    fill_workspaces(&house).await;
    for one @ (name, word) in WORKSPACES {
        let long = "Of shelves and their numbers nothing is to be said here. ".repeat(20);
        let turns =
            (0..40).map(|n| json!({"type": "agent.message", "content": format!("{n} {long}")}));
        let ask = json!({"type": "user.message", "content": "Round the ledger to cents, half up"});
        let events: Vec<Value> = turns.chain([ask]).collect();
        let id = format!("w-{word}");
        let new = json!({"id": id, "workspace": name, "initial_events": events});
        assert_eq!(house.post("/v1/sessions", &new).await.status, 201);
        search(&house, json!({"q": "ledger"})).await;
        let window = of(
            "/v1/sessions/w-{word}/views/window?format=anthropic&recall=workspace&tokens_max=6000",
            one,
        );
        let answer = house.get(&window).await.text;
        assert_eq!(words_of_others(&answer, word), [""; 0], "{name}: {answer}");
        assert!(answer.contains(word), "{name}: {answer}");
    }
}

#[test]
fn the_test_covers_every_verb_and_tool_with_a_workspace() {
    let published: Value =
        serde_json::from_str(include_str!("../../../proto/openapi.json")).unwrap();
    let mut operations = Vec::new();
    for (path, of_path) in published["paths"].as_object().unwrap() {
        for operation in of_path.as_object().unwrap().values() {
            let Some(id) = operation["operationId"].as_str() else { continue };
            let has = |list: &Value| {
                list.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "workspace"))
            };
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            let named = body["$ref"].as_str().and_then(|name| name.rsplit('/').next());
            let body = named.map_or(body, |name| &published["components"]["schemas"][name]);
            if path.contains("{workspace}")
                || has(&operation["parameters"])
                || !body["properties"]["workspace"].is_null()
            {
                operations.push(id);
            }
        }
    }
    operations.sort_unstable();
    let mut asked: Vec<&str> = OPERATIONS.iter().map(|(id, ..)| *id).collect();
    asked.extend(["createSession", "moveWorkspace", "removeRelationship"]);
    asked.sort_unstable();
    assert_eq!(operations, asked);
    let published: Value =
        serde_json::from_str(include_str!("../../../proto/mcp/tools.json")).unwrap();
    let tools = published["tools"].as_array().unwrap().iter();
    let takes = |tool: &&Value| {
        let properties = &tool["inputSchema"]["properties"];
        ["workspace", "workspaceId"].iter().any(|name| !properties[name].is_null())
    };
    let mut tools: Vec<&str> =
        tools.filter(takes).map(|tool| tool["name"].as_str().unwrap()).collect();
    tools.sort_unstable();
    let mut asked: Vec<&str> = TOOLS.iter().map(|(tool, _)| *tool).collect();
    asked.push("move_workspace");
    asked.sort_unstable();
    assert_eq!(tools, asked);
}

/// Sessions that are not work of `/proj/bank`, each rejected with its id in the error.
async fn refuses_successors(house: &House, restore: &str, notebook: &str) {
    for (successor, code) in [
        ("s-otterhound", "session_not_found"),
        ("s-marigold", "session_not_found"),
        ("s-kestrel", "session_not_found"),
        ("bare", "session_not_found"),
        (notebook, "session_not_found"),
        ("audit", "session_not_found"),
        ("none", "session_not_found"),
        ("away", "session_deleted"),
        ("put", "session_archived"),
    ] {
        for create in [true, false] {
            let asked = json!({"session_id": "s-wolfsbane", "successor_id": successor,
                "create": create});
            if successor == "put" && !create {
                continue;
            }
            let refused = house.post(restore, &asked).await;
            assert_eq!(refused.code(), code, "{successor}: {}", refused.text);
            assert!(!refused.text.contains("cents"), "{successor}: {}", refused.text);
            if code == "session_not_found" {
                let hint = &refused.json()["error"]["recovery_hint"];
                assert_eq!(hint["field"], "successor_id", "{successor}: {hint}");
                assert!(refused.text.contains(successor), "{}", refused.text);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_work_session_of_the_same_workspace_becomes_a_successor() {
    let house = House::plain().await;
    fill_workspaces(&house).await;
    session(&house, "own", "/proj/bank").await;
    session(&house, "bare", "").await;
    session(&house, "away", "/proj/bank").await;
    house.call("DELETE", "/v1/sessions/away", &[], None).await;
    session(&house, "put", "/proj/bank").await;
    house.post("/v1/sessions/put/archive", &json!({})).await;
    let restore = "/v1/workspaces/%2Fproj%2Fbank/restore";
    let kept = house.get("/v1/workspaces/%2Fproj%2Fbank/memory").await.json();
    let notebook = kept["notebook"].as_str().unwrap();
    refuses_successors(&house, restore, notebook).await;
    // Nothing was written or linked, so the other workspaces contain nothing of this one.
    let other = house.post("/v1/workspaces/%2Fproj%2Fsecret%2Fbank/restore", &json!({})).await;
    assert_eq!(words_of_others(&other.text, "otterhound"), [""; 0], "{}", other.text);
    // A notebook cannot be restored or saved, and has no chain.
    for (path, asked) in [
        ("restore", json!({"session_id": notebook, "create": false})),
        ("save", json!({"session_id": notebook})),
    ] {
        let refused = house.post(&format!("/v1/workspaces/%2Fproj%2Fbank/{path}"), &asked).await;
        assert_eq!(refused.code(), "session_not_found", "{path}: {}", refused.text);
    }
    let chain = format!("/v1/workspaces/%2Fproj%2Fbank/chain?session={notebook}");
    assert_eq!(house.get(&chain).await.code(), "session_not_found");
    // A work session is linked, and one that others have read keeps its link.
    let asked = json!({"session_id": "s-wolfsbane", "successor_id": "own"});
    assert_eq!(house.post(restore, &asked).await.json()["session_id"], "own");
    session(&house, "far", "/proj/bank").await;
    let events = json!({"events": [{"type": "user.message", "content": "Feed the hens"}]});
    house.post("/v1/sessions/far/events", &events).await;
    let asked = json!({"session_id": "far", "successor_id": "s-wolfsbane"});
    let kept = house.post(restore, &asked).await.json();
    assert_eq!(kept["notices"][0], "session own continues s-wolfsbane already: nothing was linked");
    // Metadata of that name is reserved for the store.
    let links = json!({"sessionlog.restored_from": "s-otterhound@2"});
    let new = json!({"id": "forged", "workspace": "/proj/bank", "metadata": links});
    assert_eq!(house.post("/v1/sessions", &new).await.code(), "invalid_request");
    let change = house.post("/v1/sessions/own", &json!({"metadata": links})).await;
    assert_eq!(change.code(), "invalid_request", "{}", change.text);
    // An endpoint of a relation must be a session of the workspace.
    let relation = json!({"type": "CONCERNS", "from_id": "s-wolfsbane", "to_id": "s-otterhound"});
    let refused = house.post("/v1/workspaces/%2Fproj%2Fbank/relationships", &relation).await;
    assert_eq!(refused.code(), "entity_not_found", "{}", refused.text);
    // A tool in one workspace that restores another one creates a session there.
    let headers = [("content-type", "application/json"), ("sessionlog-session", "s-otterhound")];
    let asked = json!({"workspaceId": "/proj/bank", "sessionId": "s-wolfsbane"});
    let asked = asked.to_string().into_bytes();
    let there = house.call("POST", "/v1/tools/restore_session", &headers, Some(asked)).await;
    let next = there.json()["sessionId"].as_str().unwrap().to_owned();
    assert!(next.starts_with("next_"), "{}", there.text);
    let chain = house.get("/v1/workspaces/%2Fproj%2Fsecret%2Fbank/chain").await.text;
    assert_eq!(words_of_others(&chain, "otterhound"), [""; 0], "{chain}");
}
