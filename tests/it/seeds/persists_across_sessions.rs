//! One project in three sessions over days: a user and an agent work, save, and continue in the
//! next session; in between the owner is killed, a file is moved and another one edited. Under each
//! budget the next session gets the required facts, and no retracted one as current.

use std::fs;

use serde_json::{Value, json};

use crate::program::{McpClient, Place};

const TOOLS: &[&str] = &["--toolsets", "research,events,workspace"];

/// Starts a front end in the project's directory, as a client does.
fn front_end(place: &Place) -> McpClient {
    McpClient::start_in(place, "shop", TOOLS)
}

fn record(front: &mut McpClient, session: &str, day: u32, event: Value) {
    let mut event = event;
    event["created_at"] = json!(format!("2026-11-{day:02}T10:00:00Z"));
    front.call("emit_event", &json!({"sessionId": session, "event": event}));
}

fn said(text: &str) -> Value {
    json!({"type": "user.message", "content": text})
}

fn answered(text: &str) -> Value {
    json!({"type": "agent.message", "content": text})
}

fn command_run(call: &str, command: &str, output: &str, is_error: bool) -> [Value; 2] {
    [
        json!({"type": "agent.tool_use", "call_id": call, "name": "Bash",
            "input": {"command": command}}),
        json!({"type": "agent.tool_result", "call_id": call, "content": output,
            "is_error": is_error}),
    ]
}

fn file_edit(call: &str, path: &str) -> [Value; 2] {
    [
        json!({"type": "agent.tool_use", "call_id": call, "name": "Edit",
            "input": {"file_path": path, "old_string": "a", "new_string": "b"}}),
        json!({"type": "agent.tool_result", "call_id": call, "content": "ok"}),
    ]
}

/// Records messages and work unrelated to the project.
fn filler(front: &mut McpClient, session: &str, day: u32, count: usize) {
    for n in 0..count {
        let looked = command_run(&format!("f{day}-{n}"), &format!("ls dir{n}"), "a b c", false);
        for event in looked {
            record(front, session, day, event);
        }
        record(front, session, day, answered(&format!("I looked into directory dir{n} as well.")));
    }
}

/// Records the first day: the task, instructions, a decision, a failing test, files.
fn first_day(place: &Place) -> String {
    let mut front = front_end(place);
    let begun = front.call(
        "save_session",
        &json!({"conversationContext": "The shop is made to count in cents."}),
    );
    let session = begun["sessionId"].as_str().unwrap().to_owned();
    for event in [
        said("Make the shop count money in cents, never in floats"),
        said("Round the tax half up, its rate is 19 percent"),
        said("Leave the module billing alone, another team owns it"),
        json!({"type": "plan.updated", "steps": [
            {"text": "Read prices without floats", "state": "completed"},
            {"text": "Round the tax", "state": "in_progress"},
            {"text": "Migrate the ledger", "state": "pending"}]}),
        answered("The float cuts 1.15 to 114 cents, so the text itself is read."),
        json!({"type": "research.gap_opened", "gap_id": "g1",
            "description": "Which currency does a receipt name?"}),
    ] {
        record(&mut front, &session, 1, event);
    }
    filler(&mut front, &session, 1, 20);
    let mut work = file_edit("a1", "src/tax.py").to_vec();
    work.extend(file_edit("a2", "src/stock.py"));
    work.extend(command_run("a3", "pytest -q", "FAILED test_tax.py::test_half - 9 != 10", true));
    for event in work {
        record(&mut front, &session, 1, event);
    }
    front.call(
        "save_session",
        &json!({
            "contextItems": [
                {"id": "db", "category": "concept", "content": "The ledger is kept in SQLite",
                    "importance": 8},
                {"category": "code", "content": "def cents(text): return int(text.replace('.', ''))",
                    "importance": 9},
                {"category": "data", "content": "colour of the week: teal", "importance": 1},
            ],
            "fileReferences": [{"path": "src/tax.py"}, {"path": "src/stock.py"},
                {"path": "src/price.py"}, {"path": ".env"}, {"path": "out/passwd"}],
            "workspaceState": {"activeProject": "shop", "branch": "cents"},
        }),
    );
    session
}

/// Records the next session: the test is mended, the decision changes, the gap is closed.
fn third_day(place: &Place, first: &str) -> String {
    let mut front = front_end(place);
    let found = front.call("restore_session", &json!({"tokenBudget": 2_000}));
    assert_eq!(found["continues"], first, "{found}");
    let session = found["sessionId"].as_str().unwrap().to_owned();
    let files = found["fileReferences"].as_array().unwrap();
    let status = |path: &str| {
        let file = files.iter().find(|file| file["path"] == path);
        file.unwrap_or_else(|| panic!("{path}: {files:?}"))["status"].clone()
    };
    let seen = ["src/tax.py", "src/stock.py", "src/price.py", ".env", "out/passwd"].map(status);
    assert_eq!(seen, ["changed", "gone", "same", "unchecked", "denied"]);
    for event in [
        said("Call the release Kingfisher"),
        json!({"type": "research.gap_closed", "gap_id": "g1"}),
        answered("A receipt names CHF, as the register of 2019 asks."),
    ] {
        record(&mut front, &session, 3, event);
    }
    filler(&mut front, &session, 3, 20);
    for event in command_run("b1", "pytest -q", "12 passed", false) {
        record(&mut front, &session, 3, event);
    }
    for event in
        command_run("b2", "pytest -q test_export.py", "FAILED test_export.py::test_zeros", true)
    {
        record(&mut front, &session, 3, event);
    }
    front.call(
        "save_session",
        &json!({"contextItems": [{"id": "db", "category": "concept",
            "content": "The ledger is kept in Postgres 16", "importance": 8}]}),
    );
    let looked =
        front.call("get_events", &json!({"sessionId": session, "types": ["file.checked"]}));
    assert_eq!(looked["events"].as_array().map(Vec::len), Some(files.len()), "{looked}");
    session
}

#[test]
fn a_project_over_three_sessions_continues_with_all_required_facts() {
    let place = Place::new();
    for directory in ["shop/.git", "shop/src", "shop/out"] {
        fs::create_dir_all(place.path(directory)).unwrap();
    }
    for (name, text) in [
        ("shop/src/tax.py", "rate = 19"),
        ("shop/src/stock.py", "stock = 0"),
        ("shop/src/price.py", "price = 1"),
        ("shop/.env", "TOKEN=heron"),
        ("elsewhere", "root:x"),
    ] {
        place.write(name, text);
    }
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("shop/out/passwd")).unwrap();
    let first = first_day(&place);

    // Days pass: the owner dies, a file is moved, another one is edited.
    place.kill_owner();
    fs::rename(place.path("shop/src/stock.py"), place.path("shop/src/store.py")).unwrap();
    place.write("shop/src/tax.py", "rate = 19  # percent");
    let second = third_day(&place, &first);
    place.kill_owner();

    let mut front = front_end(&place);
    let mut third = None;
    for (tokens, facts) in [(2_000, 9), (8_000, 13), (32_000, 13)] {
        let found = front.call("restore_session", &json!({"tokenBudget": tokens}));
        assert_eq!(found["continues"], second.as_str(), "{tokens}: {found}");
        third = third.or_else(|| Some(found["sessionId"].clone()));
        assert_eq!(third, Some(found["sessionId"].clone()), "{tokens}");
        assert!(found["tokens"].as_u64() <= Some(tokens), "{tokens}: {found}");
        let parts = ["context", "contextItems", "workspaceState", "fileReferences"];
        let all = parts.map(|name| found[name].to_string()).join("\n");
        let known = [
            "count money in cents",
            "Round the tax half up, its rate is 19 percent",
            "Leave the module billing alone",
            "Call the release Kingfisher",
            "[ ] Round the tax (in progress)",
            "test_export.py::test_zeros",
            "Postgres 16",
            "def cents(text)",
            "activeProject",
            "names CHF",
            "1.15 to 114",
            "src/tax.py",
            "src/stock.py",
        ];
        let count = known.iter().filter(|fact| all.contains(*fact)).count();
        let missing: Vec<_> = known.iter().filter(|fact| !all.contains(*fact)).collect();
        assert!(count >= facts, "{tokens}: {missing:?} {all}");
        for taken_back in ["SQLite", "test_half", "Which currency", "colour of the week", "heron"] {
            assert!(!all.contains(taken_back), "{tokens}: {taken_back}: {all}");
        }
    }
}
