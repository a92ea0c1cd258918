//! Exclusions by the user from every record: private spans, excluded paths, and times in which
//! recording is paused or off. Each test reads every remaining file.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{SESSION, claude, hook, kinds, of, quiet};
use crate::{
    bytes::holds,
    program::{Place, Ran, ran},
};

/// Returns every file below the home directory that contains one of the words, except those named.
pub(super) fn holding(place: &Place, words: &[&str], except: &[&str]) -> Vec<String> {
    fn walk(directory: &Path, words: &[&str], except: &[&str], found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            let is_left_out = except.iter().any(|name| path.ends_with(name));
            if path.is_dir() && !path.is_symlink() {
                walk(&path, words, except, found);
            } else if !is_left_out {
                let Ok(bytes) = fs::read(&path) else { continue };
                let has = |word: &&&str| holds(&bytes, word);
                found.extend(words.iter().filter(has).map(|word| format!("{path:?}: {word}")));
            }
        }
    }
    let mut found = Vec::new();
    walk(&place.path(""), words, except, &mut found);
    found
}

fn run_hook_with(place: &Place, event: &Value, variables: &[(&str, &str)]) -> Ran {
    let mut command = place.command(&["hook", "--hook-wait", super::PATIENT]);
    command.envs(variables.iter().copied()).stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), event.to_string().as_bytes())
        .unwrap();
    let ran = ran(child);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    ran
}

#[test]
fn a_private_span_is_in_no_file_for_every_interface() {
    // Uncompressed, so that a search finds text in a file.
    let place = Place::new();
    place.write("c.toml", "compression = \"off\"\nsecrets = \"off\"\n");
    let variables = [("SESSIONLOG_CONFIG", place.path("c.toml").display().to_string())];
    let variables: Vec<(&str, &str)> = variables.iter().map(|(n, v)| (*n, &**v)).collect();
    let transcript = place.path("t.jsonl");
    let hidden = |event: &Value| {
        let mut event = event.clone();
        event["transcript_path"] = json!(transcript.to_str().unwrap());
        let ran = run_hook_with(&place, &event, &variables);
        assert_eq!((&*ran.out, &*ran.err), ("", ""), "{event}");
    };
    let say =
        |text: &str| format!("Before <Private>{text}<private>x</private>{text}</PRIVATE> after");
    hidden(&claude("UserPromptSubmit", &json!({ "prompt": say("aardvark-1"), "prompt_id": "p" })));
    let call = json!({
        "tool_name": "Bash", "tool_use_id": "t", "tool_input": { "command": say("aardvark-2") },
    });
    hidden(&claude("PreToolUse", &call));
    let mut result = call;
    let inner = json!({ "note": say("aardvark-3"), "<private>aardvark-4": 1 }).to_string();
    result["tool_response"] = json!({ "stdout": inner, "stderr": "<private>aardvark-5" });
    hidden(&claude("PostToolUse", &result));
    let line = json!({
        "type": "assistant", "uuid": "u1", "sessionId": SESSION, "timestamp": "2026-11-20T09:00:00Z",
        "message": { "id": "m", "role": "assistant", "content": [
            { "type": "text", "text": say("aardvark-6") },
        ] },
    });
    fs::write(&transcript, format!("{line}\n")).unwrap();
    hidden(&claude("Stop", &json!({ "last_assistant_message": say("aardvark-7") })));
    // Into the spool, since no owner can be started.
    let blocked = [("SESSIONLOG_DATA_DIR", "/dev/null/data"), ("SESSIONLOG_SECRETS", "off")];
    let spooled = claude("UserPromptSubmit", &json!({ "prompt": say("aardvark-8") }));
    run_hook_with(&place, &of("elsewhere", spooled), &blocked);
    let chat = json!({ "id": "chat", "title": say("aardvark-9"), "messages": [
        { "role": "user", "content": say("aardvark-10") },
    ] });
    let file = place.write("chat.jsonl", &format!("{chat}\n"));
    let mut import =
        place.command(&["import", file.to_str().unwrap(), transcript.to_str().unwrap()]);
    ran(import.envs(variables.iter().copied()).spawn().unwrap()).ok();
    let events = place.events(SESSION);
    // The original lines that the import stored contain them, too.
    let recorded = events.iter().filter(|event| event["origin"] != "import");
    let spans = recorded.filter(|event| event.to_string().contains("[private]"));
    let counts: Vec<&Value> = spans.map(|event| &event["redactions"]["private"]).collect();
    assert_eq!(counts, [1, 1, 4, 1, 1], "{events:#?}");
    assert_eq!(events[0]["content"], "Before [private] after");
    let chat = place.events("chat");
    assert!(chat[0]["redactions"]["private"].as_u64().unwrap() >= 1, "{chat:#?}");
    place.run(&["export", "chat", "--format", "openai"]).ok();
    place.run(&["sessions"]).ok();
    assert!(!holding(&place, &["Before [private]"], &[]).is_empty(), "files are readable");
    let holding = holding(&place, &["aardvark"], &["t.jsonl", "chat.jsonl"]);
    assert_eq!(holding, Vec::<String>::new());
}

#[test]
fn hooks_record_nothing_while_paused_and_that_time_is_not_read_later() {
    let place = Place::new();
    let transcript = place.path("t.jsonl");
    let event = |name: &str, mut more: Value| {
        more["transcript_path"] = json!(transcript.to_str().unwrap());
        claude(name, &more)
    };
    let mut lines = String::new();
    let mut says = |text: &str| {
        let number = lines.lines().count();
        // The clock of this machine, as in the program's lines.
        let now = now_as_text();
        let line = json!({
            "type": "assistant", "uuid": format!("u{number}"), "sessionId": SESSION,
            "timestamp": now, "message": { "id": format!("m{number}"), "role": "assistant",
                "content": [{ "type": "text", "text": text }] },
        });
        lines.push_str(&format!("{line}\n"));
        fs::write(&transcript, &lines).unwrap();
    };
    quiet(&place, &event("UserPromptSubmit", json!({ "prompt": "Begin", "prompt_id": "1" })));
    says("Read before the pause.");
    let told = place.run(&["pause"]).ok();
    assert!(told.contains("paused everywhere, until"), "{told}");
    says("aardvark between.");
    quiet(&place, &event("UserPromptSubmit", json!({ "prompt": "aardvark", "prompt_id": "2" })));
    quiet(&place, &event("Stop", json!({ "last_assistant_message": "aardvark between." })));
    let status = place.run(&["status"]).ok();
    assert!(status.contains("recording      paused everywhere"), "{status}");
    let doctor = place.run(&["doctor"]).out;
    assert!(doctor.contains("sessionlog unpause"), "{doctor}");
    place.run(&["unpause"]).ok();
    says("Read after the pause.");
    quiet(&place, &event("UserPromptSubmit", json!({ "prompt": "Go on", "prompt_id": "3" })));
    quiet(&place, &event("Stop", json!({ "last_assistant_message": "Done." })));
    let events = place.events(SESSION);
    let said: Vec<&Value> =
        events.iter().map(|one| &one["content"]).filter(|text| text.is_string()).collect();
    let expected = ["Begin", "Read before the pause.", "Read after the pause.", "Go on", "Done."];
    assert_eq!(said, expected, "{events:#?}");
    let gap = events.iter().find(|one| one["type"] == "session.error").unwrap();
    assert_eq!(
        (&gap["error"]["type"], &gap["error"]["why"]),
        (&json!("recording_gap"), &json!("paused"))
    );
    let go_on = events.iter().find(|one| one["content"] == "Go on").unwrap();
    assert!(gap["position"].as_u64() < go_on["position"].as_u64(), "{events:#?}");
    assert_eq!(kinds(&place, SESSION).iter().filter(|kind| *kind == "session.error").count(), 1);
    // One program, and one directory.
    let off = run_hook_with(
        &place,
        &event("UserPromptSubmit", json!({ "prompt": "aardvark" })),
        &[("SESSIONLOG_RECORD", "off")],
    );
    assert_eq!((&*off.out, &*off.err), ("", ""));
    place.run(&["pause", "/home/ada", "--for", "2h"]).ok();
    quiet(&place, &of("other", event("SessionStart", json!({ "source": "startup" }))));
    place.run(&["pause", "/home/ada/projects"]).ok();
    place.run(&["unpause", "/home/ada"]).ok();
    quiet(&place, &of("other", event("UserPromptSubmit", json!({ "prompt": "Hello" }))));
    assert_eq!(place.events("other")[0]["error"]["why"], "paused");
    assert_eq!(holding(&place, &["aardvark"], &["t.jsonl"]), Vec::<String>::new());
}

#[test]
fn an_excluded_directory_is_not_recorded_and_calls_on_it_keep_only_their_tool() {
    let place = Place::new();
    let home = place.path("");
    let inside = home.join("secret/project");
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir_all(home.join("open")).unwrap();
    let config = home.join(".config/sessionlog");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("sessionlog.toml"), "exclude = [\n \"~/secret\",\n \"*.pem\"\n]\n")
        .unwrap();
    let at = |directory: &Path, name: &str, mut more: Value| {
        more["cwd"] = json!(directory.to_str().unwrap());
        claude(name, &more)
    };
    let excluded = at(&inside, "UserPromptSubmit", json!({ "prompt": "aardvark" }));
    quiet(&place, &of("never", excluded));
    assert_eq!(place.run(&["show", "never"]).code, 4);
    let open = home.join("open");
    for (number, input) in [
        json!({ "command": "cat ~/secret/notes # aardvark" }),
        json!({ "file_path": "../secret/notes", "aardvark": 1 }),
        json!({ "file_path": "server.pem", "content": "aardvark" }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut call = json!({
            "tool_name": "Bash", "tool_use_id": format!("t{number}"), "tool_input": input,
        });
        quiet(&place, &at(&open, "PreToolUse", call.clone()));
        call["tool_response"] = json!({ "stdout": "aardvark" });
        quiet(&place, &at(&open, "PostToolUse", call));
    }
    let call =
        json!({ "tool_name": "Read", "tool_input": { "file_path": "a" }, "tool_use_id": "u" });
    hook(&place, &at(&open, "PreToolUse", call));
    let events = place.events(SESSION);
    assert_eq!(events.len(), 7, "{events:#?}");
    for event in &events[..6] {
        assert_eq!(event["withheld"], "excluded", "{event}");
        assert_eq!(
            (&event["input"], &event["raw"], &event["content"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }
    assert_eq!((&events[0]["name"], &events[0]["call_id"]), (&json!("Bash"), &json!("t0")));
    assert_eq!(events[6]["input"]["file_path"], "a");
    assert_eq!(holding(&place, &["aardvark"], &[]), Vec::<String>::new());
    // A list that cannot be read whole excludes every path.
    fs::write(config.join("sessionlog.toml"), "exclude = [\n \"~/secret\",\n").unwrap();
    let ran =
        hook(&place, &of("broken", at(&open, "UserPromptSubmit", json!({ "prompt": "aardvark" }))));
    assert!(ran.err.contains("exclude"), "{}", ran.err);
    assert_eq!(holding(&place, &["aardvark"], &[]), Vec::<String>::new());
}

#[test]
fn a_malformed_call_on_an_excluded_path_or_with_a_secret_member_is_not_recorded() {
    let place = Place::new();
    let config = place.path("").join(".config/sessionlog");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("sessionlog.toml"), "exclude = [\"~/secret\"]\n").unwrap();
    let path = place.path("secret/a");
    let call = |id: &str, input: Value| {
        let call = json!({ "tool_name": "Write", "tool_use_id": id, "tool_input": input });
        claude("PreToolUse", &call).to_string()
    };
    let send = |text: &str| {
        let mut command = place.command(&["hook", "--hook-wait", super::PATIENT]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert_eq!(ran(child).code, 0, "{text}");
    };
    let excluded = call("t0", json!({ "file_path": path, "content": "aardvark-1" }));
    let secret = call("t1", json!({ "headers": { "authorization": "k9f2-77ab-aardvark" } }));
    for (whole, broken) in [
        (&excluded, "\"aardvark-1\",}"),
        (&excluded, "\"aardvark-1\",\"x\":1e999}"),
        (&secret, "\"k9f2-77ab-aardvark\",}"),
    ] {
        let value = if *whole == excluded { "\"aardvark-1\"}" } else { "\"k9f2-77ab-aardvark\"}" };
        assert!(whole.contains(value), "{whole}");
        send(&whole.replacen(value, broken, 1));
    }
    assert!(place.events(SESSION).len() >= 2);
    assert_eq!(holding(&place, &["aardvark"], &[]), Vec::<String>::new());
}

/// Returns the time in the format of a transcript line.
fn now_as_text() -> String {
    use sessionlog::env::{Clock as _, clock::SystemClock};
    SystemClock::new().now().to_string()
}
