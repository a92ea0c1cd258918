//! Each event of both programs, as their contracts define it, and its recorded event type.

use std::{io::Write as _, process::Stdio};

use serde_json::{Value, json};

use super::{PATIENT, SESSION, claude, codex, hook, kinds, of, quiet, waiting_for};
use crate::program::{Place, ran};

/// Returns the events of a day of Claude Code.
fn day_of_claude() -> Vec<(Value, &'static [&'static str])> {
    let call = json!({
        "tool_name": "Bash", "tool_use_id": "toolu_1", "prompt_id": "p1",
        "tool_input": { "command": "cargo test" },
    });
    let result = json!({
        "tool_name": "Bash", "tool_use_id": "toolu_1", "prompt_id": "p1", "duration_ms": 12,
        "tool_input": { "command": "cargo test" },
        "tool_response": {
            "stdout": "2 passed", "stderr": "warning", "interrupted": false, "isImage": false,
        },
    });
    let fetch = json!({
        "tool_name": "mcp__web__fetch", "tool_use_id": "toolu_2",
        "tool_input": { "url": "https://example.org/a" },
    });
    let failed = json!({
        "tool_name": "mcp__web__fetch", "tool_use_id": "toolu_2", "error": "HTTP 404",
        "tool_input": { "url": "https://example.org/a" }, "is_interrupt": false,
    });
    let agent = json!({ "agent_id": "a7", "agent_type": "Explore", "stop_hook_active": false,
        "last_assistant_message": "found it" });
    vec![
        (
            claude("SessionStart", &json!({ "source": "startup", "model": "m" })),
            &["session.status_running"],
        ),
        (
            claude("UserPromptSubmit", &json!({ "prompt": "Mend it", "prompt_id": "p1" })),
            &["user.message"],
        ),
        (claude("PreToolUse", &call), &["agent.tool_use"]),
        (claude("PostToolUse", &result), &["agent.tool_result"]),
        (claude("PreToolUse", &fetch), &["agent.tool_use"]),
        (claude("PostToolUseFailure", &failed), &["agent.tool_result"]),
        (claude("SubagentStart", &agent), &["session.thread_status_running"]),
        (claude("SubagentStop", &agent), &["session.thread_status_idle"]),
        (
            claude(
                "Stop",
                &json!({ "stop_hook_active": false, "last_assistant_message": "Done." }),
            ),
            &["agent.message", "session.status_idle"],
        ),
        (
            claude("PreCompact", &json!({ "trigger": "manual", "custom_instructions": "" })),
            &["transcript.entry"],
        ),
        (
            claude(
                "PostCompact",
                &json!({ "trigger": "manual", "compact_summary": "we mended it" }),
            ),
            &["context.compacted"],
        ),
        (claude("CwdChanged", &json!({ "new_cwd": "/tmp" })), &["transcript.entry"]),
        (claude("NeverHeardOf", &json!({ "anything": [1, { "b": null }] })), &["transcript.entry"]),
        (claude("SessionEnd", &json!({ "reason": "other" })), &["session.status_terminated"]),
    ]
}

/// Returns the events of a day of Codex.
fn day_of_codex() -> Vec<(Value, &'static [&'static str])> {
    let call = json!({
        "tool_name": "Bash", "tool_use_id": "call_1", "tool_input": { "command": "ls" },
    });
    let result = json!({
        "tool_name": "Bash", "tool_use_id": "call_1", "tool_input": { "command": "ls" },
        "tool_response": "src\n",
    });
    let agent = json!({ "agent_id": "a1", "agent_type": "worker" });
    vec![
        (codex("SessionStart", &json!({ "source": "startup" })), &["session.status_running"]),
        (codex("UserPromptSubmit", &json!({ "prompt": "List" })), &["user.message"]),
        (codex("PreToolUse", &call), &["agent.tool_use"]),
        (codex("PermissionRequest", &call), &["transcript.entry"]),
        (codex("PostToolUse", &result), &["agent.tool_result"]),
        (codex("PreCompact", &json!({ "trigger": "auto" })), &["transcript.entry"]),
        (codex("PostCompact", &json!({ "trigger": "auto" })), &["context.compacted"]),
        (codex("SubagentStart", &agent), &["session.thread_status_running"]),
        (codex("SubagentStop", &agent), &["session.thread_status_idle"]),
        (
            codex("Stop", &json!({ "stop_hook_active": false, "last_assistant_message": "One." })),
            &["agent.message", "session.status_idle"],
        ),
        (codex("SessionEnd", &json!({ "reason": "exit" })), &["session.status_terminated"]),
    ]
}

#[test]
fn every_hook_event_of_both_programs_is_recorded_with_its_event_type() {
    for (client, day, asked) in
        [("claude-code", day_of_claude(), "Mend it"), ("codex", day_of_codex(), "List")]
    {
        let place = Place::new();
        let mut expected = Vec::new();
        for (event, kinds) in &day {
            quiet(&place, event);
            expected.extend(kinds.iter().map(|kind| (*kind).to_owned()));
        }
        assert_eq!(kinds(&place, SESSION), expected, "{client}");
        let shown = place.run(&["show", SESSION, "--json"]).json();
        assert_eq!(shown["workspace"], "/home/ada/proj", "{shown}");
        assert_eq!(shown["metadata"]["client"], client, "{shown}");
        assert_eq!(shown["title"], asked, "{shown}");
        // The original of each is stored, whole.
        let events = place.events(SESSION);
        let originals: Vec<&Value> =
            events.iter().filter_map(|event| event.get("raw").or(event.get("entry"))).collect();
        assert_eq!(originals, day.iter().map(|(event, _)| event).collect::<Vec<_>>());
    }
}

#[test]
fn calls_results_and_messages_have_the_members_that_folds_read() {
    let place = Place::new();
    for (event, _) in &day_of_claude() {
        quiet(&place, event);
    }
    let events = place.events(SESSION);
    let found = |kind: &str, nth: usize| {
        events.iter().filter(|event| event["type"] == kind).nth(nth).unwrap().clone()
    };
    assert_eq!(found("user.message", 0)["content"], "Mend it");
    assert_eq!(found("agent.message", 0)["content"], "Done.");
    let call = found("agent.tool_use", 0);
    assert_eq!((&call["name"], &call["call_id"]), (&json!("Bash"), &json!("toolu_1")));
    assert_eq!(call["input"], json!({ "command": "cargo test" }));
    let result = found("agent.tool_result", 0);
    assert_eq!(
        (&result["content"], &result["call_id"]),
        (&json!("2 passed\nwarning"), &json!("toolu_1"))
    );
    assert_eq!((&result["is_error"], &result["duration_ms"]), (&json!(false), &json!(12)));
    let fetch = found("agent.tool_use", 1);
    assert_eq!((&fetch["name"], &fetch["server"]), (&json!("fetch"), &json!("web")));
    let failed = found("agent.tool_result", 1);
    assert_eq!((&failed["content"], &failed["is_error"]), (&json!("HTTP 404"), &json!(true)));
    let compacted = found("context.compacted", 0);
    assert_eq!(
        (&compacted["trigger"], &compacted["summary"]),
        (&json!("manual"), &json!("we mended it"))
    );
    assert_eq!(found("session.thread_status_idle", 0)["session_thread_id"], "a7");
    // The views show the calls: the folds understood the events.
    let view = place.run(&["view", SESSION, "--json", "compactions"]);
    let view = view.json();
    assert_eq!(view["count"], 1, "{view}");
    let checkpoints = place.run(&["checkpoints", SESSION, "--json"]).json();
    let labels: Vec<&str> = checkpoints["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["label"].as_str())
        .collect();
    assert_eq!(labels, ["final", "compaction", "prompt"], "{checkpoints}");
    assert_eq!(checkpoints["data"][0]["final"], true);
    // Each follows its event directly.
    let behind: Vec<&Value> = checkpoints["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["label"].is_string())
        .map(|one| &one["position"])
        .collect();
    assert_eq!(behind, [15, 11, 2], "{checkpoints}");
}

#[test]
fn the_pages_that_results_name_are_recorded_by_the_server_with_their_tool() {
    let place = Place::new();
    for (program, tool, said) in [
        (claude as fn(&str, &Value) -> Value, "WebSearch", "[The mill](https://example.org/mill)"),
        (codex, "mcp__web__fetch", "Of https://example.org/mill?utm_source=x and example.org/quay"),
        (claude, "mcp__web__open", "https://example.org/quay#north, HTTPS://example.org:443/mill"),
    ] {
        let call = json!({ "tool_name": tool, "tool_use_id": tool, "tool_input": { "q": "mill" } });
        quiet(&place, &program("PreToolUse", &call));
        let mut done = call;
        done["tool_response"] = json!(said.replace(" example", " https://example"));
        quiet(&place, &program("PostToolUse", &done));
    }
    let events = place.events(SESSION);
    let found = events.iter().filter(|event| event["type"] == "source.found");
    let found: Vec<[&Value; 3]> =
        found.map(|source| ["url", "tool", "found_by"].map(|name| &source[name])).collect();
    let (server, mill) = (json!("server"), json!("https://example.org/mill"));
    let (quay, search, fetch) =
        (json!("https://example.org/quay"), json!("WebSearch"), json!("fetch"));
    assert_eq!(found, [[&mill, &search, &server], [&quay, &fetch, &server]], "{events:?}");
}

#[test]
fn an_event_reported_twice_by_a_hook_is_recorded_once() {
    let place = Place::new();
    let call = json!({ "tool_name": "Bash", "tool_use_id": "t1", "tool_input": {} });
    for _ in 0..2 {
        quiet(&place, &claude("PreToolUse", &call));
        quiet(&place, &claude("UserPromptSubmit", &json!({ "prompt": "go", "prompt_id": "p" })));
    }
    // Equal texts at two times are two events.
    for _ in 0..2 {
        quiet(&place, &claude("Notification", &json!({ "message": "waiting" })));
    }
    let expected = ["agent.tool_use", "user.message", "transcript.entry", "transcript.entry"];
    assert_eq!(kinds(&place, SESSION), expected);
}

#[test]
fn invalid_input_is_reported_on_standard_error_and_the_hook_succeeds() {
    let place = Place::new();
    for input in
        ["", "not JSON", "[]", "{}", r#"{"session_id":"s"}"#, "{\"hook_event_name\":7}", "\u{0}"]
    {
        let ran = place.run_with(&["hook"], input);
        assert_eq!((ran.code, &*ran.out), (0, ""), "{input:?}");
        assert!(ran.err.contains("sessionlog hook:"), "{input:?}: {}", ran.err);
    }
    // Exit code 2 would stop the agent's next action.
    let ran = place.run_with(&["hook", "--no-such-flag"], "{}");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(place.run(&["--json", "--ttl", "1h", "hook", "--no-such-flag"]).code, 0);
    assert_eq!(place.run(&["show", "hook", "--no-such-flag"]).code, 2, "another verb's hook");
    // An unknown event name still has a session.
    let odd = of("über/../x", claude("Notification", &json!({})));
    hook(&place, &odd);
    let sessions = place.run(&["sessions", "--json"]).json();
    assert_eq!(sessions["data"].as_array().unwrap().len(), 1, "{sessions}");
}

#[test]
fn an_event_of_invalid_or_oversized_json_is_recorded_in_part() {
    let place = Place::new();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let event = |id: &str, response: &[u8]| {
        let before = format!(
            r#"{{"session_id":"{SESSION}","hook_event_name":"PostToolUse","tool_name":"Bash","tool_response":"#
        );
        let behind = format!(r#","tool_use_id":"{id}"}}"#);
        [before.as_bytes(), response, behind.as_bytes()].concat()
    };
    let deep = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat().into_bytes();
    let long = [b"\"begins ", &b"0123456789abcdef".repeat(70 << 16)[..], b"\""].concat();
    let torn = |secret: &str| {
        let whole = event("gone", format!("\"cut of {secret} and").as_bytes());
        whole[..whole.len() - ",\"tool_use_id\":\"gone\"}".len()].to_vec()
    };
    let mut told = 0;
    for (id, input, content, why) in [
        ("half", event("half", br#""a\ud83d b""#), "a\u{fffd} b", "hex escape"),
        ("bytes", event("bytes", b"\"a\xff\xc3(b\""), "a\u{fffd}\u{fffd}(b", "not UTF-8"),
        ("raw", event("raw", b"\"a\nb\x01\""), "a\nb\u{1}", "control character"),
        ("number", event("number", b"1e999"), "1e999", "number out of range"),
        ("deep100", event("deep100", &deep(99)), "[[[", ""),
        ("deep119", event("deep119", &deep(119)), "[[[", "deeper"),
        ("deep9999", event("deep9999", &deep(9_999)), "[[[", "recursion limit"),
        ("", torn("x"), "cut of x and", "EOF"),
        ("", torn(secret), "cut of [redacted:github-token] and", "EOF"),
        ("long", event("long", &long), "begins 0123", ""),
    ] {
        let ran = place.fed(&["hook", "--hook-wait", PATIENT], &input);
        assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""), "{id} {content}");
        let events = place.events(SESSION);
        told += 1;
        assert_eq!(events.len(), told, "{id} {content}");
        let last = events.last().unwrap();
        assert_eq!(last["type"], "agent.tool_result", "{last}");
        assert_eq!(last["call_id"].as_str().unwrap_or_default(), id);
        assert!(last["content"].as_str().unwrap().starts_with(content), "{id}: {last:.300}");
        match why {
            "" => assert_eq!(last["mended"], Value::Null),
            why => assert!(last["mended"].as_str().unwrap().contains(why), "{}", last["mended"]),
        }
        let cut = (id == "long").then_some(input.len());
        assert_eq!(last["truncated"]["bytes"].as_u64(), cut.map(|bytes| bytes as u64));
    }
}

#[test]
fn a_secret_in_an_event_is_not_on_disk_and_its_removal_is_recorded() {
    let place = Place::new();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let result = json!({
        "tool_name": "Bash", "tool_use_id": "t1", "tool_input": { "command": format!("echo {secret}") },
        "tool_response": { "stdout": format!("token {secret}"), "stderr": "" },
    });
    quiet(&place, &claude("PostToolUse", &result));
    // Spooled events have no secrets either.
    let owner = crate::program::eventually("an owner", || place.owner_pid());
    crate::program::signal(owner, rustix::process::Signal::STOP);
    let prompt = claude("UserPromptSubmit", &json!({ "prompt": format!("use {secret}") }));
    waiting_for(&place, &prompt, "100ms");
    let found = files_with(&place.path(""), secret.as_bytes());
    crate::program::signal(owner, rustix::process::Signal::CONT);
    assert_eq!(found, Vec::<std::path::PathBuf>::new());
    let events = crate::program::eventually("what waited", || {
        Some(place.events(SESSION)).filter(|events| events.len() == 2)
    });
    for event in events {
        assert!(!event.to_string().contains(secret), "{event}");
        assert!(event.to_string().contains("[redacted:"), "{event}");
        let told = event["redactions"].as_object().unwrap();
        assert_eq!(told.len(), 1, "{event}");
    }
    // Stored only on request.
    let event = claude("Notification", &json!({ "message": secret })).to_string();
    let ran = place.run_with(&["hook", "--hook-wait", PATIENT, "--secrets", "off"], &event);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    assert!(place.events(SESSION)[2].to_string().contains(secret));
}

/// Returns the files below a directory that contain some bytes.
fn files_with(directory: &std::path::Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_with(&path, bytes)),
            kind if kind.is_file() => {
                let all = std::fs::read(&path).unwrap();
                found.extend(all.windows(bytes.len()).any(|part| part == bytes).then_some(path));
            }
            _ => {}
        }
    }
    found
}

/// Returns a list of this many empty lists.
fn nested(count: usize) -> String {
    format!("[{}]", vec!["[]"; count].join(","))
}

#[test]
fn a_member_with_too_many_values_stays_text_and_the_others_are_parsed() {
    let place = Place::new();
    let response = nested(200_000);
    let event = claude(
        "PostToolUse",
        &json!({ "tool_name": "Bash", "tool_use_id": "t", "tool_input": { "command": "ls" } }),
    );
    let text = event.to_string();
    let head = text.strip_suffix('}').unwrap();
    let text = format!("{head},\"tool_response\":{response},\"last\":[1]}}");
    let ran = place.run_with(&["hook", "--hook-wait", PATIENT], &text);
    assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
    let events = place.events(SESSION);
    let event = &events[0];
    assert_eq!(event["content"].as_str(), Some(&*response));
    assert_eq!(event["raw"]["tool_response"].as_str(), Some(&*response));
    let rest = (&event["raw"]["tool_input"]["command"], &event["raw"]["last"]);
    assert_eq!(rest, (&json!("ls"), &json!([1])));
    assert_eq!(event["mended"], "it has more values or levels than the store takes");
    assert_eq!(event["truncated"], Value::Null);
}

#[test]
fn an_input_of_millions_of_values_is_recorded_in_bounded_memory() {
    let place = Place::new();
    let event = json!({
        "session_id": SESSION, "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_use_id": "t", "tool_input": { "command": "ls" },
    });
    let text = event.to_string();
    let text =
        format!("{},\"tool_response\":{}}}", text.strip_suffix('}').unwrap(), nested(8_000_000));
    // A parsed tree would use three times as much.
    let limited = "ulimit -d 786432 && exec \"$0\" hook --hook-wait 60s";
    let binary = env!("CARGO_BIN_EXE_sessionlog");
    let mut child = place.program("sh", &["-c", limited, binary]);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ran = ran(child);
    assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
    let events = place.events(SESSION);
    assert_eq!(events[0]["truncated"]["bytes"], text.len());
    assert!(events[0]["content"].as_str().unwrap().starts_with("[[],[],"));
}

#[test]
fn an_input_full_of_secrets_is_recorded_up_to_the_size_limit_without_them() {
    let place = Place::new();
    let secret = |n: usize| format!("ghp_{n:036}");
    let secrets: String = (0..500_000).map(|n| format!("token {} ", secret(n))).collect();
    // Shorter without the private span, so that its end is where the input was cut.
    let span = format!("<private>{}</private>{secrets}", "x".repeat((4 << 20) - 9_000));
    let many: String = (0..500_000).map(|n| format!("\"{}\",", secret(n))).collect();
    for (at, response) in [
        json!({ "stdout": secrets }).to_string(),
        json!({ "stdout": span }).to_string(),
        json!({ "stdout": "", "stderr": "x".repeat(100), "list": [secrets, span] }).to_string(),
        format!("[{many}1]"),
    ]
    .iter()
    .enumerate()
    {
        let session = format!("s{at}");
        let event = of(
            &session,
            claude(
                "PostToolUse",
                &json!({
                    "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_response": "",
                }),
            ),
        );
        let text = event.to_string().replace(
            "\"tool_response\":\"\"",
            &format!("\"tool_response\":{response},\"tool_use_id\":\"t\""),
        );
        assert!(text.len() > 20 << 20, "{}", text.len());
        // All of it, with its secrets removed, would be several times as much.
        let limited = "ulimit -d 262144 && exec \"$0\" hook --hook-wait 60s";
        let mut child = place.program("sh", &["-c", limited, env!("CARGO_BIN_EXE_sessionlog")]);
        child.stdin(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let ran = ran(child);
        assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
        let events = place.events(&session);
        let recorded = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
        assert_eq!(recorded["truncated"]["bytes"], text.len(), "{at}");
        if at < 3 {
            assert_eq!(recorded["call_id"], "t", "what follows a long text is kept");
        }
        let recorded = recorded.to_string();
        assert!(!recorded.contains("ghp_") && !recorded.contains("xxxx</private>"), "{at}");
    }
    assert_eq!(files_with(&place.data_dir(), b"ghp_0"), Vec::<std::path::PathBuf>::new());
}
