//! Transcripts of agents' programs through the real program: import, export, repeated import, and
//! views. The files are written after the programs' contracts; no user's session is in them.

use serde_json::{Value, json};

use sessionlog::client::HttpRequest;

use crate::program::{Place, lines, ran};

const CLAUDE: &str = include_str!("../fixtures/transcripts/claude-code.jsonl");
const CODEX: &str = include_str!("../fixtures/transcripts/codex.jsonl");
const CLAUDE_SESSION: &str = "3f0c1d9e-52a7-4b8e-9c33-0d5f6a7b8c91";
const CODEX_SESSION: &str = "0199f2a4-77aa-7c10-8f3e-2b1c0d9e8f70";

/// Imports one text; returns the exit code and the report.
fn imported(place: &Place, name: &str, text: &str, more: &[&str]) -> (i32, Value) {
    let file = place.write(name, text);
    let ran = place.run(&[&["import", "--json", file.to_str().unwrap()], more].concat());
    (ran.code, lines(&ran.out).pop().unwrap_or_else(|| panic!("{ran:?}")))
}

#[test]
fn a_growing_transcript_is_imported_once_and_exported_unchanged() {
    let place = Place::new();
    for (name, text, session, format) in [
        (format!("{CLAUDE_SESSION}.jsonl"), CLAUDE, CLAUDE_SESSION, "claude-code"),
        (format!("rollout-2026-{CODEX_SESSION}.jsonl"), CODEX, CODEX_SESSION, "codex"),
    ] {
        // Its program is in the middle of writing a line.
        let (code, torn) = imported(&place, &name, &text[..text.len() / 2], &[]);
        assert_eq!((code, &torn["torn"], &torn["bad_lines"]), (0, &json!(true), &json!([])));
        let (_, grown) = imported(&place, &name, text, &[]);
        assert_eq!((&grown["known"], &grown["torn"]), (&torn["added"], &json!(false)), "{grown}");
        let added = |report: &Value| report["added"].as_u64().unwrap();
        let all = added(&grown) + added(&torn);
        let (_, again) = imported(&place, &name, text, &[]);
        assert_eq!((&again["added"], &again["known"]), (&json!(0), &json!(all)), "{again}");
        assert_eq!(place.run(&["export", session, "--format", format]).ok(), text);
        // A file that resumes it repeats it under another session id.
        let more = text.lines().last().unwrap().replace("2026-11-20", "2026-11-21");
        let moved = format!("{}{more}\n", text.replace(session, "another-session"));
        let (_, resumed) = imported(&place, "resumed.jsonl", &moved, &["--session", session]);
        let new = u64::from(more != text.lines().last().unwrap());
        assert!(
            resumed["added"].as_u64().unwrap() <= 2 && resumed["bad_lines"] == json!([]),
            "{resumed}"
        );
        assert!(resumed["added"].as_u64().unwrap() >= new, "{resumed}");
    }
}

#[test]
fn line_ends_blanks_and_byte_order_marks_of_a_growing_transcript_round_trip() {
    let place = Place::new();
    let (server, runtime) = (place.serve(), tokio::runtime::Runtime::new().unwrap());
    let line = |n: usize| format!(r#"{{"type":"mode","mode":"plan","uuid":"u{n}"}}"#);
    let (one, two) = (line(1), line(2));
    let large = format!(r#"{{"type":"mode","uuid":"l","text":"{}"}}"#, "x".repeat(5 << 20));
    let crlf = CLAUDE.replace('\n', "\r\n");
    let mark = '\u{feff}';
    let files: Vec<Vec<String>> = vec![
        vec![crlf.clone()],
        vec![format!("{mark}{CLAUDE}")],
        vec![format!("{mark}{crlf}").trim_end().to_owned()],
        vec![format!("{one}\r\n{two}\n{one}\r\n")],
        vec![format!("\n \r\n{mark}{one}\n\n\r\n{two} \t\n{mark} {one}\n \n\r\n")],
        vec![format!("{mark}\r\n{one}\r\n{large}\r\n{two}")],
        // The same file, imported repeatedly while it grows.
        vec![one.clone(), format!("{one}\n{two}\n")],
        vec![one.clone(), format!("{one}\n")],
        vec![one.clone(), format!("{one}\n"), format!("{one}\n\n"), format!("{one}\n\n{two}")],
        vec![format!("{one}\r\n{two}"), format!("{one}\r\n{two}\r\n{}\r\n", line(3))],
        vec![format!("{one}\r\n{}", &two[..9]), format!("{one}\r\n{two}\r\n")],
    ];
    for (n, states) in files.iter().enumerate() {
        let session = format!("around-{n}");
        for text in states {
            let into = ["--session", &session];
            let (code, first) = imported(&place, "file.jsonl", text, &into);
            assert_eq!((code, &first["bad_lines"]), (0, &json!([])), "{n}: {first}");
            let (_, again) = imported(&place, "file.jsonl", text, &into);
            assert_eq!(again["added"], 0, "{n}: {again}");
        }
        let text = states.last().unwrap();
        let out = place.run(&["export", &session, "--format", "claude-code"]).ok();
        assert!(out == *text, "{n}: {:?}", out.get(..200));
        let path = format!("/v1/sessions/{session}/export");
        let request = HttpRequest::get(path).query("format", "claude-code");
        let out = runtime.block_on(server.client().send(request)).unwrap().body;
        assert!(out == *text, "{n}: over HTTP");
    }
    // A file in the usual form needs no additional record of its lines.
    let (_, usual) = imported(&place, "usual.jsonl", &format!("{one}\n{two}\n"), &[]);
    let session = usual["session_ids"][0].as_str().unwrap();
    let events = place.events(session);
    let around = |event: &Value| event.to_string().contains("raw_before");
    assert!(events.len() == 2 && !events.iter().any(around), "{events:?}");
}

#[test]
fn views_show_tasks_and_results_of_an_imported_session() {
    let place = Place::new();
    // This JSON reader cannot hold one of the numbers.
    imported(&place, "talk.jsonl", &CLAUDE.replace("1e400", "1e40"), &[]);
    let events = place.events(CLAUDE_SESSION);
    let said = events.iter().find(|event| event["type"] == "user.message").unwrap();
    assert_eq!((&said["origin"], said["created_at"].is_string()), (&json!("import"), true));
    assert!(said["created_at"].as_str().unwrap().starts_with("2026-11-20T09:00"));
    let view = |name: &str| place.run(&["view", CLAUDE_SESSION, name, "--json"]).json();
    let compactions = view("compactions").to_string();
    assert!(compactions.contains("manual") && compactions.contains("starts at the Museum"));
    let window = place.run(&["view", CLAUDE_SESSION, "window", "--format", "anthropic", "--json"]);
    let window = window.json().to_string();
    for word in ["Plan a walk", "WebSearch", "The canteen of the museum", "starts at the Museum"] {
        assert!(window.contains(word), "{word}: {window}");
    }
    assert!(!window.contains("One mill is left.\"}],\"role\":\"assistant"), "a subagent's words");
    assert!(view("summary").to_string().contains("Plan a walk"));
    let listed = place.run(&["sessions", "--json"]).json().to_string();
    assert!(listed.contains("A walk past old machines"), "its summary names it: {listed}");
    assert!(listed.contains("/home/ada/ghent"), "{listed}");
}

#[test]
fn messages_of_anthropics_api_round_trip_and_can_be_exported_from_any_session() {
    let place = Place::new();
    let talk = json!({
        "id": "talk", "system": "be brief", "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": false},
                {"type": "text", "text": "and?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        ],
    });
    let (code, _) = imported(&place, "talk.jsonl", &talk.to_string(), &[]);
    assert_eq!(code, 0);
    let (_, again) = imported(&place, "talk.jsonl", &talk.to_string(), &[]);
    assert_eq!(again["added"], json!(0), "{again}");
    let export = |session: &str, format: &str| place.run(&["export", session, "--format", format]);
    assert_eq!(export("talk", "anthropic").json(), talk);
    let kinds: Vec<Value> =
        place.events("talk").iter().map(|event| event["type"].clone()).collect();
    let expected = [
        "user.message",
        "agent.thinking",
        "agent.message",
        "agent.tool_use",
        "agent.tool_result",
        "user.message",
        "agent.message",
    ];
    assert_eq!(kinds, expected);
    let chat = export("talk", "openai").json();
    assert_eq!(chat["messages"][1]["tool_calls"][0]["id"], "t1", "{chat}");
    assert_eq!(chat["messages"][2]["role"], "tool", "{chat}");
    imported(&place, "rollout.jsonl", CODEX, &[]);
    let made = export(CODEX_SESSION, "anthropic").json();
    assert_eq!(made["messages"][0]["content"][0]["text"], "Count the mills", "{made}");
    assert!(made["system"].to_string().contains("sandbox rules"), "{made}");
    assert_eq!(export("talk", "codex").code, 2, "nothing of it came from there");
}

#[test]
fn a_transcript_is_not_imported_into_a_session_with_other_content() {
    let place = Place::new();
    imported(&place, "own.jsonl", "{\"type\":\"user.message\",\"content\":\"x\"}\n", &[]);
    let (code, report) = imported(&place, "talk.jsonl", CLAUDE, &["--session", "own"]);
    assert_eq!((code, &report["added"]), (1, &json!(0)), "{report}");
    assert!(report["bad_lines"][0]["problem"].as_str().unwrap().contains("own"), "{report}");
    assert_eq!(place.events("own").len(), 1);
}

#[test]
fn messages_preserved_by_a_compaction_are_recorded_by_position() {
    let place = Place::new();
    let line = |uuid: &str, kind: &str, more: Value| {
        let mut line = json!({"uuid": uuid, "type": kind, "sessionId": "s", "isSidechain": false});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{line}\n")
    };
    let said =
        |uuid: &str| line(uuid, "user", json!({"message": {"role": "user", "content": uuid}}));
    let two = |uuid: &str| {
        let blocks = json!([{"type": "text", "text": uuid},
            {"type": "tool_use", "id": uuid, "name": "f", "input": {}}]);
        line(uuid, "assistant", json!({"message": {"role": "assistant", "content": blocks}}))
    };
    let boundary = |uuid: &str, about: Value| {
        line(uuid, "system", json!({"subtype": "compact_boundary", "compactMetadata": about}))
    };
    let summary = |uuid: &str| {
        let message = json!({"role": "user", "content": "in short"});
        line(uuid, "user", json!({"isCompactSummary": true, "message": message}))
    };
    let segment = json!({"trigger": "auto",
        "preservedSegment": {"headUuid": "b", "anchorUuid": "z", "tailUuid": "c"}});
    let listed = json!({"preservedMessages": {"uuids": ["f", "gone", "a", "e"]},
        "preservedSegment": {"headUuid": "a", "tailUuid": "f"}});
    // a 0, b 1-2, c 3-4, d 5, boundary 6, summary 7, e 8, f 9-10, boundary 11, summary 12
    let text = [said("a"), two("b"), two("c"), said("d"), boundary("x", segment), summary("y")]
        .concat()
        + &[said("e"), two("f"), boundary("x2", listed), summary("y2"), summary("y3")].concat();
    let cut = text.find("\"x2\"").unwrap();
    let (code, first) = imported(&place, "s.jsonl", &text[..cut], &[]);
    assert_eq!((code, &first["torn"]), (0, &json!(true)));
    let (code, grown) = imported(&place, "s.jsonl", &text, &[]);
    assert_eq!((code, &grown["known"]), (0, &first["added"]));
    assert_eq!(imported(&place, "s.jsonl", &text, &[]).1["added"], 0);
    let events = place.events("s");
    let kept: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "context.compacted")
        .map(|event| &event["kept"])
        .collect();
    let range = |from: u64, to: u64| json!({"from": from, "to": to});
    assert_eq!(kept, [&json!([range(1, 5)]), &json!([range(0, 1), range(8, 11)]), &Value::Null]);
    let view = place.run(&["view", "s", "compactions", "--json"]).json();
    assert_eq!(view["compactions"][0]["kept"], json!([range(1, 5)]), "{view}");
    assert_eq!(place.run(&["export", "s", "--format", "claude-code"]).ok(), text);
}

#[test]
fn the_transcript_of_a_session_recorded_by_hooks_goes_to_a_second_session() {
    let place = Place::new();
    let event = json!({"type": "user.message", "content": "as it happened"}).to_string();
    place.run_with(&["append", CLAUDE_SESSION, "--create"], &event).ok();
    let beside = format!("{CLAUDE_SESSION}.transcript");
    let (code, first) = imported(&place, &format!("{CLAUDE_SESSION}.jsonl"), CLAUDE, &[]);
    let told = json!({"recorded": CLAUDE_SESSION, "transcript": beside});
    assert_eq!((code, &first["beside"]), (0, &told), "{first}");
    let (_, again) = imported(&place, &format!("{CLAUDE_SESSION}.jsonl"), CLAUDE, &[]);
    assert_eq!((&again["added"], &again["beside"]), (&json!(0), &told));
    assert_eq!(place.events(CLAUDE_SESSION).len(), 1, "what was recorded stays as it is");
    assert_eq!(place.run(&["export", &beside, "--format", "claude-code"]).ok(), CLAUDE);
    let file = place.path(&format!("{CLAUDE_SESSION}.jsonl"));
    let said = place.run(&["import", file.to_str().unwrap()]);
    assert!(said.err.contains(&beside), "{said:?}");
    // With a session named by the caller no second session is created.
    let (code, refused) = imported(&place, "x.jsonl", CLAUDE, &["--session", CLAUDE_SESSION]);
    assert_eq!((code, &refused["beside"]), (1, &Value::Null), "{refused}");
    // Without recorded events there is no second session.
    assert_eq!(imported(&place, "rollout.jsonl", CODEX, &[]).1["beside"], Value::Null);
}

#[test]
fn the_work_of_a_subagent_is_not_in_its_parents_conversation() {
    let place = Place::new();
    let text = CLAUDE.replace("1e400", "1e40");
    imported(&place, "talk.jsonl", &text, &[]);
    let shown = |arguments: &[&str]| place.run(arguments).ok();
    for (what, seen) in [
        ("window", shown(&["view", CLAUDE_SESSION, "window", "--format", "openai", "--json"])),
        ("window", shown(&["view", CLAUDE_SESSION, "window", "--format", "anthropic", "--json"])),
        ("export", shown(&["export", CLAUDE_SESSION, "--format", "openai"])),
        ("export", shown(&["export", CLAUDE_SESSION, "--format", "anthropic"])),
    ] {
        assert!(seen.contains("toolu_2"), "the call of the subagent itself: {what}: {seen}");
        assert!(!seen.contains("toolu_3"), "a call of the subagent's: {what}: {seen}");
        assert!(!seen.contains("no such mill"), "its result: {what}: {seen}");
    }
}

#[test]
fn a_session_of_any_client_is_exported_as_messages_of_either_api() {
    let place = Place::new();
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    let events = [
        json!({"type": "system.message", "content": "be brief"}),
        json!({"type": "user.message", "content": [{"type": "text", "text": "look"}, image]}),
        json!({"type": "agent.thinking"}),
        json!({"type": "agent.message", "content": [{"type": "text", "text": "I look"}]}),
        json!({"type": "agent.tool_use", "id": "evt_1", "name": "f", "input": {"a": 1}}),
        json!({"type": "agent.mcp_tool_use", "id": "evt_2", "name": "g", "input": {}, "mcp_server_name": "m"}),
        json!({"type": "agent.custom_tool_use", "id": "evt_3", "name": "h", "input": {}}),
        json!({"type": "agent.tool_use", "id": "evt_4", "name": "theirs", "input": {}, "session_thread_id": "t"}),
        json!({"type": "user.tool_result", "tool_use_id": "evt_1", "content": [{"type": "text", "text": "one"}]}),
        json!({"type": "agent.mcp_tool_result", "mcp_tool_use_id": "evt_2", "is_error": true, "content": "two"}),
        json!({"type": "user.custom_tool_result", "custom_tool_use_id": "evt_3"}),
        json!({"type": "context.compacted", "summary": "in short"}),
        json!({"type": "session.status_idle", "stop_reason": {"type": "end_turn"}}),
    ];
    let input: String = events.iter().map(|event| format!("{event}\n")).collect();
    place.run_with(&["append", "s", "--create"], &input).ok();
    let export = |format: &str| place.run(&["export", "s", "--format", format]).json();
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}});
    assert_eq!(
        export("openai"),
        json!({"id": "s", "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, url]},
            {"role": "assistant", "content": text("I look"), "tool_calls": [
                call("evt_1", "f", "{\"a\":1}"), call("evt_2", "g", "{}"), call("evt_3", "h", "{}")]},
            {"role": "tool", "tool_call_id": "evt_1", "content": text("one")},
            {"role": "tool", "tool_call_id": "evt_2", "content": "two"},
            {"role": "tool", "tool_call_id": "evt_3", "content": ""},
            {"role": "user", "content": "in short"},
        ]})
    );
    let used = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    assert_eq!(
        export("anthropic"),
        json!({"id": "s", "system": text("be brief"), "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
            {"role": "assistant", "content": [{"type": "text", "text": "I look"},
                used("evt_1", "f", json!({"a": 1})), used("evt_2", "g", json!({})),
                used("evt_3", "h", json!({}))]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "evt_1", "content": text("one")},
                {"type": "tool_result", "tool_use_id": "evt_2", "content": text("two"), "is_error": true},
                {"type": "tool_result", "tool_use_id": "evt_3", "content": []},
                {"type": "text", "text": "in short"}]},
        ]})
    );
    let refused = place.run(&["export", "s", "--format", "claude-code"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--format openai"), "{}", refused.err);
}

#[test]
fn an_exported_log_with_server_sources_is_imported_unchanged_into_another_session() {
    let place = Place::new();
    let events = [
        json!({"type": "agent.tool_use", "name": "web_search", "call_id": "1", "input": {}}),
        json!({"type": "agent.tool_result", "call_id": "1", "content": "http://a.org http://b.org"}),
        json!({"type": "user.message", "content": "thanks"}),
    ];
    let input: String = events.iter().map(|event| format!("{event}\n")).collect();
    place.run_with(&["append", "s", "--create"], &input).ok();
    let log = place.run(&["export", "s"]).ok();
    assert_eq!(log.matches("source.found").count(), 2, "{log}");
    let (code, report) = imported(&place, "log.jsonl", &log, &["--session", "copy"]);
    assert_eq!((code, &report["added"]), (0, &json!(5)), "{report}");
    let bare = |session: &str| -> Vec<Value> {
        let mut events = place.events(session);
        for event in &mut events {
            let event = event.as_object_mut().unwrap();
            event.retain(|name, _| !matches!(&**name, "processed_at" | "origin" | "created_at"));
        }
        events
    };
    assert_eq!(bare("copy"), bare("s"));
    assert!(place.events("copy").iter().all(|event| event["origin"] == "import"));
}

/// Lists the messages, calls and results of a conversation in either API's format.
fn conversation_of(messages: &Value) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let words = |content: &Value| match content {
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    for message in messages.as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            let text = words(&message["content"]);
            all.push(format!("answer {}: {text}", message["tool_call_id"].as_str().unwrap()));
            continue;
        }
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        let text = words(&message["content"]);
        if !text.is_empty() {
            all.push(format!("{role}: {text}"));
        }
        for block in &blocks {
            match block["type"].as_str().unwrap() {
                "tool_use" => all.push(format!(
                    "call {} {} {}",
                    block["id"].as_str().unwrap(),
                    block["name"].as_str().unwrap(),
                    block["input"]
                )),
                "tool_result" => all.push(format!(
                    "answer {}: {}",
                    block["tool_use_id"].as_str().unwrap(),
                    words(&block["content"])
                )),
                _ => {}
            }
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            all.push(format!(
                "call {} {} {arguments}",
                call["id"].as_str().unwrap(),
                call["function"]["name"].as_str().unwrap()
            ));
        }
    }
    all
}

#[test]
fn real_conversations_round_trip_through_the_other_api() {
    let Some(path) = crate::main_job::conversations() else {
        return crate::say::skipped("conversations: ../shared/data/tau-airline.jsonl is not there");
    };
    let place = Place::new();
    let path = path.to_str().unwrap();
    place.run(&["import", path]).ok();
    let export =
        |session: &str, format: &str| place.run(&["export", session, "--format", format]).json();
    let mut calls = 0;
    for line in lines(&std::fs::read_to_string(path).unwrap()) {
        let id = line["id"].as_str().unwrap();
        assert_eq!(export(id, "openai"), line, "{id}: as it was");
        let mut there = export(id, "anthropic");
        let said = conversation_of(&line["messages"]);
        let system = there["system"][0]["text"].as_str().unwrap_or_default().to_owned();
        let told =
            [vec![format!("system: {system}")], conversation_of(&there["messages"])].concat();
        assert_eq!(told, said, "{id}: in Anthropic's messages");
        calls += said.iter().filter(|one| one.starts_with("call ")).count();
        // From there into a separate session, and back.
        let other = format!("{id}-back");
        there["id"] = json!(other);
        place.write("there.jsonl", &there.to_string());
        place.run(&["import", place.path("there.jsonl").to_str().unwrap()]).ok();
        assert_eq!(export(&other, "anthropic"), there, "{id}: as it was");
        assert_eq!(conversation_of(&export(&other, "openai")["messages"]), said[1..], "{id}: back");
    }
    assert!(calls > 200, "{calls} calls of tools");
}

/// Returns lines of a Claude Code transcript with these numbers of characters per message.
fn claude_lines(name: &str, messages: &[usize]) -> String {
    let line = |(number, chars): (usize, &usize)| {
        let content = "x".repeat(*chars);
        let message = json!({ "role": "user", "content": content });
        let line = json!({
            "type": "user", "uuid": format!("u{number}"), "sessionId": name, "message": message,
        });
        format!("{line}\n")
    };
    messages.iter().enumerate().map(line).collect()
}

#[test]
fn an_import_ends_when_its_last_line_fills_a_batch_exactly() {
    let place = Place::new();
    let mib = 1 << 20;
    for (name, messages) in [
        ("m999", vec![1; 999]),
        ("m1000", vec![1; 1_000]),
        ("m1001", vec![1; 1_001]),
        ("m2000", vec![1; 2_000]),
        ("below-8mib", vec![100_000; 83]),
        ("over-8mib", vec![100_000; 84]),
        ("line-of-9mb", vec![9_000_000]),
        ("line-of-10mib", vec![10 * mib, 1]),
    ] {
        let text = claude_lines(name, &messages);
        let (code, report) = imported(&place, &format!("{name}.jsonl"), &text, &[]);
        let found = (code, &report["session_ids"], &report["records"], &report["bad_lines"]);
        assert_eq!(found, (0, &json!([name]), &json!(messages.len()), &json!([])), "{report}");
        let back = place.run(&["export", name, "--format", "claude-code"]).ok();
        assert!(back == text, "{name} does not come back as it was");
    }
}

#[test]
fn an_import_can_end_at_a_full_batch_and_reports_an_overlong_line() {
    let place = Place::new();
    for (name, line) in [
        ("native", r#"{"type":"user.message","content":"?"}"#),
        ("messages", r#"{"role":"user","content":"?"}"#),
    ] {
        let text = format!("{line}\n").repeat(1_000);
        let (code, report) = imported(&place, &format!("{name}.jsonl"), &text, &[]);
        assert_eq!((code, &report["added"]), (0, &json!(1_000)), "{report}");
        let long = line.replace('?', &"x".repeat(9_000_000));
        let (code, report) = imported(&place, &format!("{name}-long.jsonl"), &long, &[]);
        let bad = &report["bad_lines"][0];
        if name == "messages" {
            // A message is stored in pieces, with its text next to them.
            assert_eq!((code, bad), (0, &Value::Null), "{report}");
            continue;
        }
        assert_eq!((code, &bad["line"], &report["sessions"]), (1, &json!(1), &json!(0)));
        assert!(bad["problem"].as_str().unwrap().contains("4194304 are allowed"), "{report}");
    }
    let long = format!("{{\"type\":\"{}\"}}", "x".repeat(9_000_000));
    let (_, report) = imported(&place, "type.jsonl", &long, &[]);
    let problem = report["bad_lines"][0]["problem"].as_str().unwrap();
    assert!(problem.len() < 300, "the problem repeats the line: {} bytes", problem.len());
}

#[test]
fn a_conversation_without_messages_becomes_an_empty_session() {
    let place = Place::new();
    let line = "{\"id\":\"empty\",\"messages\":[]}\n";
    for _ in 0..2 {
        let (code, report) = imported(&place, "a.jsonl", line, &[]);
        assert_eq!((code, &report["session_ids"]), (0, &json!(["empty"])), "{report}");
        assert_eq!((&report["added"], &report["known"]), (&json!(0), &json!(0)));
        assert!(place.events("empty").is_empty());
    }
}

#[test]
fn an_unpaired_surrogate_is_shown_as_a_replacement_character_and_stored_unchanged() {
    let place = Place::new();
    let line = r#"{"type":"user.message","content":"half \ud83d of \\ud83d and \ud83d\ude00"}"#;
    place.run_with(&["append", "--create", "half"], line).ok();
    for view in ["index", "summary", "continuation", "window", "usage", "compactions"] {
        place.run(&["view", "half", view]).ok();
    }
    let shown = place.run(&["view", "half", "window"]).ok();
    assert!(shown.contains("half \u{fffd} of \\ud83d and \u{1f600}"), "{shown}");
    let printed = place.run(&["events", "half", "--json"]).ok();
    assert!(printed.contains(r"half \ud83d of \\ud83d and \ud83d\ude00"), "{printed}");
    place.run(&["rewind", "half", "--to", "end"]).ok();
}

#[test]
fn content_with_too_many_values_is_exported_as_text() {
    let place = Place::new();
    let content = format!("[{}]", vec!["[]"; 150_000].join(","));
    let line = format!(r#"{{"type":"agent.tool_result","call_id":"c","content":{content}}}"#);
    let line = format!("{{\"type\":\"user.message\",\"content\":\"go\"}}\n{line}\n");
    assert_eq!(place.run_with(&["append", "s", "--create"], &line).code, 0);
    let made = place.run(&["export", "s", "--format", "anthropic"]).json();
    let block = &made["messages"].as_array().unwrap().last().unwrap()["content"];
    let block = block.as_array().unwrap().last().unwrap();
    assert_eq!(block["content"][0]["text"].as_str(), Some(&*content));
    let view = place.run(&["view", "s", "window", "--tokens-max", "2000"]);
    assert_eq!(view.code, 0, "{}", view.err);
}

#[test]
fn millions_of_bad_lines_are_counted_and_the_first_named_within_bounded_memory() {
    let place = Place::new();
    // Storing a reason for each of two million lines would need three times as much.
    let limited = "ulimit -d 131072 && exec \"$0\" \"$@\"";
    for (count, more) in [(20_000, &[][..]), (2_000_000, &["--json"])] {
        let file = place.write("junk.jsonl", &"x\n".repeat(count));
        let import = [env!("CARGO_BIN_EXE_sessionlog"), "import", file.to_str().unwrap()];
        let arguments = [&["-c", limited], &import[..], more].concat();
        let ran = ran(place.program("sh", &arguments).spawn().unwrap());
        assert_eq!(ran.code, 1, "{}", ran.err);
        if more.is_empty() {
            assert_eq!(ran.err.lines().count(), 6, "{}", ran.err);
            let left_out = "19995 more lines were left out; --json names the first 20";
            assert!(ran.err.contains(left_out), "{}", ran.err);
            continue;
        }
        let report = &lines(&ran.out)[0];
        assert_eq!(report["left_out"], json!({ "lines": count, "conversations": 0 }));
        let named = report["bad_lines"].as_array().unwrap();
        assert_eq!(
            (named.len(), &named[0]["line"], &named[19]["line"]),
            (20, &json!(1), &json!(20))
        );
        assert!(ran.out.len() < 4_096, "{}", ran.out);
    }
}

#[test]
fn skipped_conversations_are_counted_and_the_first_ones_named() {
    let place = Place::new();
    let long = "x".repeat(100_000);
    let one = |n: usize| {
        let message = json!({ "role": "user", "content": format!("{n} {long}") });
        json!({ "id": "same", "messages": [message] }).to_string() + "\n"
    };
    let text: String = (0..31).map(one).collect();
    let file = place.write("same.jsonl", &text);
    let ran = place.run(&["import", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("skipped 30 of 31 conversations"), "{}", ran.err);
    assert!(ran.err.contains("and 10 more") && ran.err.lines().count() == 22, "{}", ran.err);
    let (_, report) = imported(&place, "again.jsonl", &text, &[]);
    assert_eq!(report["left_out"], json!({ "lines": 0, "conversations": 30 }));
    assert_eq!(report["bad_lines"].as_array().unwrap().len(), 20, "{report}");
    assert!(report.to_string().len() < 20_000, "{report}");
}
