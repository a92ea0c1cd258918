//! Save and restore through each interface: the tools by the names of the reference, and the
//! command line.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    http::house::over_every_engine,
    mcp::{
        desk::Desk,
        door::{DOORS, Door},
        server::Server,
    },
    memory::session,
    program::Place,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_have_the_names_and_inputs_of_the_reference_in_each_interface() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for (number, which) in DOORS.into_iter().enumerate() {
        let workspace = format!("shop-{number}");
        let mut door = Door::open(which, &server).await;
        let saved = door
            .ok(
                "save_session",
                json!({
                    "workspaceId": workspace,
                    "conversationContext": "The tax is rounded half up. Ticket SHOP-417 tracks it.",
                    "tokenCount": 9_000,
                    "contextItems": [
                        {"category": "code", "content": "def tax(x): return round(x)", "importance": 8},
                        {"category": "task", "content": "Check the export", "importance": 6},
                    ],
                    "fileReferences": [{"path": "/work/shop/tax.py", "hash": "sha256:ab",
                        "lastModified": "2026-11-20T10:00:00Z"}],
                    "workspaceState": {"activeProject": "shop", "enabledMcps": []},
                }),
            )
            .await;
        let first = saved["sessionId"].as_str().unwrap().to_owned();
        assert_eq!((&saved["items"], &saved["files"]), (&json!(2), &json!(1)), "{which}");
        // The connection is bound to this session now, so that a second save goes there, too.
        let again = door.ok("save_session", json!({"workspaceId": workspace})).await;
        assert_eq!(again["sessionId"], first.as_str(), "{which}");
        desk.clock.advance(Duration::from_secs(60));
        let asked = json!({"workspaceId": workspace, "tokenBudget": 2_000});
        let found = door.ok("restore_session", asked.clone()).await;
        let next = found["sessionId"].as_str().unwrap().to_owned();
        assert_ne!(next, first, "{which}");
        assert_eq!(found["continues"], first.as_str(), "{which}");
        assert!(found["context"].as_str().unwrap().contains("SHOP-417"), "{which}: {found}");
        assert_eq!(found["contextItems"][0]["content"], "def tax(x): return round(x)");
        let file = &found["fileReferences"][0];
        assert_eq!(file["lastModified"], "2026-11-20T10:00:00Z", "{which}: {file}");
        assert_eq!(found["workspaceState"]["activeProject"], "shop", "{which}");
        assert!(found["trust"].is_string() && found["leftOut"].is_array(), "{which}");
        // The connection works in the successor now, and a repeat returns the same.
        assert_eq!(door.ok("restore_session", asked).await["sessionId"], next.as_str(), "{which}");
        let about = door.ok("get_session", json!({})).await;
        assert_eq!((&about["sessionId"], &about["continues"]), (&json!(next), &json!(first)));
        let about = door.ok("get_session", json!({"sessionId": first})).await;
        assert_eq!(about["continuedBy"], json!([next]), "{which}");
        assert_eq!(about["tokenCount"], 9_000, "{which}");
        let listed = json!({"workspaceId": workspace, "limit": 1, "offset": 1});
        let listed = door.ok("list_sessions", listed).await;
        assert_eq!(listed["total"], 2, "{which}: {listed}");
        assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{which}: {listed}");
        assert_eq!(listed["sessions"][0]["sessionId"], first.as_str(), "the newest come first");
        let gone = door.ok("delete_session", json!({"sessionId": next})).await;
        assert_eq!((&gone["sessionId"], &gone["deleted"]), (&json!(next), &json!(true)));
        let error = door.call("get_session", &json!({"sessionId": next})).await.unwrap_err();
        assert_eq!(error["kind"], "session_deleted", "{which}: {error}");
        for (arguments, field) in [
            (json!({"workspaceId": workspace, "tokenBudget": 0}), "tokenBudget"),
            (json!({"workspaceId": workspace, "priorityThreshold": 11}), "priorityThreshold"),
        ] {
            let error = door.call("restore_session", &arguments).await.unwrap_err();
            assert_eq!(error["recoveryHint"]["field"], field, "{which}: {error}");
        }
    }
    server.stop().await;
}

#[test]
fn the_command_line_saves_and_restores_a_session() {
    let place = Place::new();
    let events = [
        json!({"type": "user.message", "content": "Count the money in cents"}),
        json!({"type": "agent.message", "content": "Prices are read as text."}),
    ];
    let events = events.map(|event| event.to_string()).join("\n");
    let saved = place.run(&["handoff", "save", "shop", "--context", "Half done"]).ok();
    assert!(saved.starts_with("saved saved_"), "{saved}");
    let trip = saved.split_whitespace().nth(1).unwrap().to_owned();
    place.run_with(&["append", &trip], &events).ok();
    let saved = place.run(&["handoff", "save", "shop"]).ok();
    let expected = format!("saved {trip} at 4: 0 context items, 0 files");
    assert!(saved.starts_with(&expected), "{saved}");
    let look = place.run(&["handoff", "restore", "shop", "--session", &trip, "--look"]).ok();
    assert!(look.contains("Count the money in cents") && look.contains("read as text"), "{look}");
    assert_eq!(
        place.run(&["handoff", "chain", "shop", "--session", &trip]).ok().lines().count(),
        1
    );
    let made = place.run(&["--json", "handoff", "restore", "shop", "--session", &trip]).ok();
    let made: Value = serde_json::from_str(&made).unwrap();
    let next = made["session_id"].as_str().unwrap();
    let chain = place.run(&["handoff", "chain", "shop", "--session", next]).ok();
    let lines: Vec<&str> = chain.lines().collect();
    assert!(lines[0].starts_with(&format!("{trip}\t\t4\t4\t")), "{chain}");
    assert!(lines[1].starts_with(&format!("{next}\t{trip}@4\t1\t")), "{chain}");
    let refused = place.run(&["handoff", "restore", "nowhere"]);
    assert_eq!(refused.code, 4, "{refused:?}");
}

#[test]
fn a_front_end_checks_files_of_the_workspace_and_records_each_check() {
    let place = Place::new();
    for directory in ["shop/.git", "shop/src", "shared"] {
        std::fs::create_dir_all(place.path(directory)).unwrap();
    }
    for (name, text) in [
        ("shop/src/same.py", "a"),
        ("shop/src/changed.py", "b"),
        ("shop/src/gone.py", "c"),
        ("shop/src/key.pem", "d"),
        ("shared/lib.py", "e"),
        ("secret", "f"),
    ] {
        place.write(name, text);
    }
    let shop = std::fs::canonicalize(place.path("shop")).unwrap();
    let shared = place.path("shared");
    let shared = shared.to_str().unwrap();
    std::os::unix::fs::symlink(place.path("secret"), shop.join("src/link.py")).unwrap();
    std::os::unix::fs::symlink(shop.join("src/same.py"), shop.join("src/inner.py")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(&shop).env("SESSIONLOG_FILES_ROOTS", shared);
        crate::program::ran(command.spawn().unwrap())
    };
    let lib = format!("{shared}/lib.py");
    let secret = place.path("secret").display().to_string();
    let files = [
        ("src/same.py", "same"),
        ("src/changed.py", "changed"),
        ("src/gone.py", "gone"),
        ("src/key.pem", "unchecked"),
        ("src/link.py", "denied"),
        ("src/inner.py", "same"),
        ("src", "denied"),
        (lib.as_str(), "same"),
    ];
    let mut arguments = vec!["handoff", "save", "--context", "Half done"];
    files.iter().for_each(|(path, _)| arguments.extend(["--file", path]));
    arguments.extend(["--file", &secret, "--file", "/etc/hostname"]);
    let saved = run(&arguments);
    assert!(saved.out.contains("8 files"), "{saved:?}");
    assert!(saved.err.contains(&format!("{secret} and 1 more")), "{saved:?}");
    place.write("shop/src/changed.py", "b2");
    std::fs::remove_file(place.path("shop/src/gone.py")).unwrap();
    let found = run(&["--json", "handoff", "restore", "--tokens", "8000"]).json();
    let given = found["file_references"].as_array().unwrap();
    for (path, status) in files {
        let file = given.iter().find(|file| file["path"] == path);
        let file = file.unwrap_or_else(|| panic!("{path}: {found}"));
        assert_eq!(file["status"], status, "{file}");
        let hashes = [&file["hash"], &file["hash_now"]].map(|hash| hash.is_string());
        match status {
            "same" | "changed" => assert_eq!(hashes, [true, true], "{file}"),
            "gone" => assert_eq!(hashes, [true, false], "{file}"),
            _ => assert_eq!(hashes, [false, false], "nothing of it is known: {file}"),
        }
    }
    let next = found["session_id"].as_str().unwrap();
    let events = place.events(next);
    let looks: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "file.checked").collect();
    assert_eq!(looks.len(), 8, "{events:?}");
    assert!(looks.iter().any(|look| look["path"] == "src/link.py" && look["status"] == "denied"));
}

#[test]
fn a_file_check_without_a_successor_is_recorded_in_the_notebook() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("shop/.git")).unwrap();
    place.write("shop/tax.py", "a");
    let shop = std::fs::canonicalize(place.path("shop")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(&shop);
        crate::program::ran(command.spawn().unwrap())
    };
    run(&["handoff", "save", "--context", "Half done", "--file", "tax.py"]).ok();
    run(&["handoff", "save", "elsewhere", "--context", "Other work"]).ok();
    place.write("shop/tax.py", "b");
    let sessions = || run(&["--json", "sessions", "--all"]).json();
    let before = sessions();
    let mut at = Vec::new();
    for number in 1..=2 {
        let looked = run(&["--json", "handoff", "restore", "--look"]).json();
        assert_eq!(looked.get("session_id"), None, "{looked}");
        let file = &looked["file_references"][0];
        assert_eq!((&file["path"], &file["status"]), (&json!("tax.py"), &json!("changed")));
        assert_eq!(sessions(), before, "only looking changes no session");
        let exported = run(&["memory", "--workspace", ".", "--json"]).json();
        let notebook = exported["notebook"].as_str().unwrap_or_else(|| panic!("{exported}"));
        let events = place.events(notebook);
        let looks: Vec<&Value> =
            events.iter().filter(|event| event["type"] == "file.checked").collect();
        assert_eq!(looks.len(), number, "{events:?}");
        let look = looks[number - 1];
        assert_eq!((&look["path"], &look["status"]), (&file["path"], &file["status"]), "{look}");
        assert_eq!([&look["hash"], &look["hash_now"]], [&file["hash"], &file["hash_now"]]);
        at.push(look["id"].clone());
    }
    assert_ne!(at[0], at[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_check_is_rejected_and_a_retry_records_it_once() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        session(house, "other", "/work/mill").await;
        let path = "/v1/workspaces/%2Fwork%2Fbank/looks";
        let look = json!({"path": "src/tax.py", "status": "changed", "hash": "blake3:a"});
        for (asked, status) in [
            (json!({"looks": []}), 422),
            (json!({}), 422),
            (json!({"looks": [{"path": "a", "status": "lost"}]}), 422),
            (json!({"looks": [look], "session_id": "none"}), 404),
            (json!({"looks": [look], "session_id": "other"}), 404),
        ] {
            let refused = house.post(path, &asked).await;
            assert_eq!(refused.status, status, "{asked}: {}", refused.text);
        }
        for (key, asked) in [
            ("one", json!({"looks": [look]})),
            ("two", json!({"looks": [look], "session_id": "one"})),
        ] {
            let key = [("idempotency-key", key), ("content-type", "application/json")];
            let body = || Some(asked.to_string().into_bytes());
            let first = house.call("POST", path, &key, body()).await;
            let again = house.call("POST", path, &key, body()).await;
            assert_eq!((first.status, &first.text), (200, &again.text));
            let session = first.json()["session"].as_str().unwrap().to_owned();
            let events = house.get(&format!("/v1/sessions/{session}/events")).await.json();
            let events = events["data"].as_array().unwrap();
            assert_eq!(events.len(), 1, "{events:?}");
            assert_eq!(events[0]["type"], "file.checked");
            assert_eq!(events[0]["status"], "changed");
        }
        let listed = house.get("/v1/sessions").await.text;
        assert!(!listed.contains("notebook."), "{listed}");
    })
    .await;
}

#[test]
fn a_front_end_does_not_check_files_of_another_workspace() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("shop/.git")).unwrap();
    place.write("shop/same.py", "a");
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(place.path("shop"));
        crate::program::ran(command.spawn().unwrap())
    };
    let far = json!({"file_references": [{"path": "same.py"}], "conversation_context": "c"});
    let far = place.write("far.json", &far.to_string());
    run(&["handoff", "save", "far", "--from", far.to_str().unwrap()]).ok();
    let far = run(&["--json", "handoff", "restore", "far"]).json();
    assert_eq!(far["file_references"][0]["status"], "unchecked", "{far}");
    let events = place.events(far["session_id"].as_str().unwrap());
    assert_eq!(events.len(), 1, "no look is recorded: {events:?}");
}

#[test]
fn settings_are_the_defaults_of_a_restore() {
    let place = Place::new();
    let items: Vec<Value> = (1..=10)
        .map(|n| json!({"category": "data", "content": format!("item {n}"), "importance": n}))
        .collect();
    let file = place.write("items.json", &json!({"context_items": items}).to_string());
    let saved = ["handoff", "save", "shop", "--from", file.to_str().unwrap()];
    place.run(&saved).ok();
    let look = ["--json", "handoff", "restore", "shop", "--look"];
    let count = |found: Value| found["context_items"].as_array().unwrap().len();
    assert_eq!(count(place.run(&look).json()), 8, "3 and more");
    place.kill_owner();
    let set = |more: &[&str]| {
        place.run(&[&["--context-threshold", "9", "--context-items", "1"], more].concat())
    };
    assert_eq!(count(set(&look).json()), 1);
    let asked = [&look[..], &["--threshold", "9", "--items", "50"]].concat();
    assert_eq!(count(set(&asked).json()), 2, "an argument stands for the setting");
    let refused = place.run(&["--context-threshold", "11", "sessions"]);
    assert!(refused.err.contains("context_threshold"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_without_work_shows_the_session_it_continues() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for (number, which) in DOORS.into_iter().enumerate() {
        let workspace = format!("yard-{number}");
        let mut door = Door::open(which, &server).await;
        let saved = json!({"workspaceId": workspace, "conversationContext": "Begun."});
        let first = door.ok("save_session", saved).await["sessionId"].clone();
        let step = json!({"sessionId": first, "stepNumber": 1, "nextStepNeeded": true,
            "searchStep": "The crane lifts 40 tons", "researchGoal": "How strong is the crane?"});
        door.ok("sequential_search", step).await;
        desk.clock.advance(Duration::from_secs(60));
        let asked = json!({"workspaceId": workspace, "sessionId": first});
        let next = door.ok("restore_session", asked).await["sessionId"].clone();
        assert_ne!(next, first, "{which}");
        // Later work of another client in the first session is not part of the handoff.
        let later = json!({"sessionId": first, "stepNumber": 2, "nextStepNeeded": true,
            "searchStep": "The crane was sold"});
        desk.another().ok("sequential_search", later).await;
        let found = door.ok("get_research_session", json!({})).await;
        assert_eq!(found["stepCount"], 1, "{which}: {found}");
        assert!(!found.to_string().contains("was sold"), "{which}: {found}");
        assert_eq!((&found["sessionId"], &found["continues"]), (&next, &first), "{which}: {found}");
        assert_eq!(found["researchGoal"], "How strong is the crane?", "{which}: {found}");
        let found = door.ok("get_research_session", json!({"stepId": 1})).await;
        assert!(found["step"].to_string().contains("40 tons"), "{which}: {found}");
        let continued = json!({"summary": "The hook is next"});
        for _ in 0..2 {
            let found = door.ok("continue_session", continued.clone()).await;
            assert_eq!((&found["sessionId"], &found["continues"]), (&next, &first), "{which}");
            assert!(found.to_string().contains("How strong is the crane?"), "{which}: {found}");
        }
        // Once it has work, its view shows that work.
        let own = json!({"stepNumber": 1, "nextStepNeeded": true, "searchStep": "The hook holds",
            "researchGoal": "How strong is the hook?"});
        door.ok("sequential_search", own).await;
        let found = door.ok("get_research_session", json!({})).await;
        assert_eq!(found["researchGoal"], "How strong is the hook?", "{which}: {found}");
        assert_eq!((&found["sessionId"], &found["continues"]), (&next, &Value::Null), "{which}");
    }
    server.stop().await;
}
