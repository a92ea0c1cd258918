//! Rollouts of Codex in each of their formats, items of the API in them, and unknown formats,
//! through the real program. The lines are written after the program's contracts.

use serde_json::{Value, json};

use crate::program::{Place, lines};

const SESSION: &str = "0199f2a4-77aa-7c10-8f3e-2b1c0d9e8f71";

/// Imports lines; returns the exit code and the report.
fn imported(place: &Place, name: &str, text: &str) -> (i32, Value) {
    let file = place.write(name, text);
    let ran = place.run(&["import", "--json", file.to_str().unwrap()]);
    (ran.code, lines(&ran.out).pop().unwrap_or_else(|| panic!("{ran:?}")))
}

fn lines_of(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// Returns a rollout in today's envelope: the session, then these types and payloads.
fn rollout(session: &str, records: &[(&str, Value)]) -> String {
    let meta = ("session_meta", json!({"id": session, "cwd": "/home/ada/mill"}));
    let all = std::iter::once(&meta).chain(records);
    let line = |(at, (kind, payload)): (usize, &(&str, Value))| {
        let time = format!("2026-11-20T09:{:02}:{:02}Z", at / 60, at % 60);
        json!({"timestamp": time, "type": kind, "payload": payload})
    };
    lines_of(&all.enumerate().map(line).collect::<Vec<Value>>())
}

fn said(role: &str, text: &str) -> (&'static str, Value) {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    let content = json!([{"type": kind, "text": text}]);
    ("response_item", json!({"type": "message", "role": role, "content": content}))
}

fn call(id: &str, name: &str, arguments: &Value) -> (&'static str, Value) {
    let item = json!({"type": "function_call", "name": name, "call_id": id,
        "arguments": arguments.to_string()});
    ("response_item", item)
}

fn output(id: &str, output: &str) -> (&'static str, Value) {
    ("response_item", json!({"type": "function_call_output", "call_id": id, "output": output}))
}

fn note(kind: &str, more: Value) -> (&'static str, Value) {
    let mut payload = json!({"type": kind});
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ("event_msg", payload)
}

/// Imports a session of these records; checks that the export is unchanged.
fn import_unchanged(place: &Place, session: &str, records: &[(&str, Value)]) -> Vec<Value> {
    let text = rollout(session, records);
    let (code, report) = imported(place, &format!("rollout-{session}.jsonl"), &text);
    assert_eq!((code, &report["unknown_types"]), (0, &json!({})), "{report}");
    assert_eq!(place.run(&["export", session, "--format", "codex"]).ok(), text);
    place.events(session)
}

fn view(place: &Place, session: &str, name: &str) -> Value {
    place.run(&["view", session, name, "--json"]).json()
}

fn window(place: &Place, session: &str) -> String {
    let ran = place.run(&["view", session, "window", "--format", "openai", "--json"]);
    ran.json()["messages"].to_string()
}

fn texts<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).map(|event| &event["content"]).collect()
}

#[test]
fn a_rollout_without_an_envelope_keeps_its_content_id_and_time() {
    let place = Place::new();
    let context = "<environment_context>\n<cwd>/home/ada/mill</cwd>\n</environment_context>";
    let message = |role: &str, text: &str| said(role, text).1;
    let work = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z0FB"}),
        json!({"type": "local_shell_call", "id": "ls_1", "call_id": "call_0",
            "status": "completed", "action": {"type": "exec", "command": ["ls"]}}),
        json!({"type": "function_call_output", "call_id": "call_0", "output": "wheel.txt"}),
        json!({"type": "function_call", "name": "shell", "call_id": "call_1",
            "arguments": "{\"command\":[\"bash\",\"-lc\",\"wc -l wheel.txt\"]}"}),
        json!({"type": "function_call_output", "call_id": "call_1",
            "output": "{\"output\":\"17 wheel.txt\",\"metadata\":{\"exit_code\":0}}"}),
    ];
    let state = json!({"record_type": "state"});
    for (n, more) in
        [json!({"instructions": null}), json!({"git": {"branch": "main"}})].into_iter().enumerate()
    {
        let session = format!("0198f000-77aa-7c10-8f3e-2b1c0d9e8f7{n}");
        let mut head = json!({"id": session, "timestamp": "2025-07-20T08:00:00Z"});
        head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (first, last) = (message("user", context), message("user", "Count the spokes"));
        let mut records = vec![head, state.clone(), first, last];
        records.extend(work.clone());
        records.extend([state.clone(), message("assistant", "Seventeen spokes.")]);
        let text = lines_of(&records);
        let (code, report) = imported(&place, "rollout-old.jsonl", &text);
        assert_eq!((code, &report["session_ids"]), (0, &json!([session])), "{report}");
        assert_eq!((&report["bad_lines"], &report["unknown_types"]), (&json!([]), &json!({})));
        assert_eq!(place.run(&["export", &session, "--format", "codex"]).ok(), text);
        let window = window(&place, &session);
        for words in ["Count the spokes", "17 wheel.txt", "Seventeen spokes.", "wheel.txt\""] {
            assert!(window.contains(words), "{words}: {window}");
        }
        let events = place.events(&session);
        let is_old =
            |event: &Value| event["created_at"].as_str().unwrap().starts_with("2025-07-20");
        assert!(events.iter().all(is_old), "{events:?}");
        let listed = place.run(&["sessions", "--json"]).json().to_string();
        assert!(listed.contains("Count the spokes") && listed.contains("/home/ada/mill"));
        let (_, again) = imported(&place, "rollout-old.jsonl", &text);
        assert_eq!(again["added"], 0, "{again}");
    }
}

#[test]
fn items_of_the_responses_api_in_any_order_become_messages_calls_and_results() {
    let place = Place::new();
    let items = [
        json!({"type": "message", "role": "user", "content": "Which mill is oldest?"}),
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "look"}]}),
        json!({"type": "function_call", "name": "list", "call_id": "c1", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "1714 post mill"}),
        json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "The post mill."}]}),
    ];
    let list = format!("{}\n", Value::from(items.to_vec()));
    for (name, text) in [("lines", lines_of(&items)), ("list", list)] {
        let (code, report) = imported(&place, &format!("{name}.jsonl"), &text);
        assert_eq!((code, &report["unknown_types"]), (0, &json!({})), "{report}");
        let session = report["session_ids"][0].as_str().unwrap();
        let window = window(&place, session);
        for words in ["oldest?", "1714 post mill", "The post mill."] {
            assert!(window.contains(words), "{name} {words}: {window}");
        }
        let out = place.run(&["export", session, "--format", "openai"]).ok();
        let parsed = |text: &str| -> Vec<Value> { lines(text) };
        assert_eq!(parsed(&out), parsed(&text), "{name}");
        assert!(!place.run(&["wake", session]).out.contains("list at"), "{name}");
    }
}

#[test]
fn commands_and_patches_of_code_mode_become_calls_and_the_models_output_does_not() {
    let place = Place::new();
    let script = |id: &str, text: &str| {
        let item = json!({"type": "custom_tool_call", "call_id": id, "name": "exec",
            "status": "completed", "input": text});
        ("response_item", item)
    };
    let ended = |id: &str, text: &str| {
        let item = json!({"type": "custom_tool_call_output", "call_id": id, "output": text});
        ("response_item", item)
    };
    let shell = |line: &str| json!(["/bin/sh", "-lc", line]);
    let failing = "FAILED tests/test_wheel.py::test_spokes - assert 16 == 17\n1 failed in 0.1s\n";
    let item = |item: Value| note("item_completed", json!({"item": item}));
    let diff = "@@ -1 +1 @@\n-16\n+17\n";
    let now = [
        item(json!({"type": "CommandExecution", "id": "x1", "status": "failed", "exit_code": 1,
            "command": shell("pytest -q tests"), "aggregated_output": failing})),
        item(json!({"type": "CommandExecution", "id": "x2", "status": "failed", "exit_code": 1,
            "command": shell("grep -rn axle src"), "aggregated_output": ""})),
        item(json!({"type": "FileChange", "id": "f1", "status": "completed",
            "changes": {"/home/ada/mill/src/wheel.py": {"type": "update", "unified_diff": diff}}})),
        item(json!({"type": "FileChange", "id": "f2", "status": "failed", "stderr": "no match",
            "changes": {"/home/ada/mill/src/axle.py": {"type": "update", "unified_diff": diff}}})),
    ];
    let before = [
        note(
            "exec_command_end",
            json!({"call_id": "x1", "exit_code": 1, "status": "failed",
            "command": shell("pytest -q tests"), "stdout": failing, "stderr": ""}),
        ),
        note(
            "exec_command_end",
            json!({"call_id": "x2", "exit_code": 1, "status": "failed",
            "command": shell("grep -rn axle src"), "stdout": ""}),
        ),
        note(
            "patch_apply_end",
            json!({"call_id": "f1", "success": true, "stdout": "Success.",
            "changes": {"/home/ada/mill/src/wheel.py": {"update": {"unified_diff": diff}}}}),
        ),
        note(
            "patch_apply_end",
            json!({"call_id": "f2", "success": false, "stderr": "no match",
            "changes": {"/home/ada/mill/src/axle.py": {"update": {"unified_diff": diff}}}}),
        ),
    ];
    for (n, notes) in [now, before].into_iter().enumerate() {
        let session = format!("0199f2a4-77aa-7c10-8f3e-2b1c0d9e8f8{n}");
        let mut records = vec![said("user", "Mend the wheel"), script("c1", "run()")];
        records.extend(notes);
        records.extend([ended("c1", "Script completed"), said("assistant", "Half done.")]);
        import_unchanged(&place, &session, &records);
        let now = view(&place, &session, "continuation");
        let (failures, files) = (now["failures"].to_string(), now["files"].to_string());
        assert!(failures.contains("test_spokes"), "{failures}");
        assert!(!failures.contains("grep"), "it found nothing: {failures}");
        assert!(files.contains("\"src/wheel.py") && !files.contains("axle"), "{files}");
        let why = place.run(&["why", "/home/ada/mill/src/wheel.py"]).ok();
        assert!(why.contains(&session) && why.contains("Mend the wheel"), "{why}");
        let seen = window(&place, &session);
        assert!(seen.contains("Script completed") && !seen.contains("pytest"), "{seen}");
        for format in ["openai", "anthropic"] {
            let out = place.run(&["export", &session, "--format", format]).ok();
            assert!(out.contains("Script completed") && !out.contains("pytest"), "{out}");
        }
    }
}

#[test]
fn a_call_with_response_items_is_not_recorded_again_from_the_programs_report() {
    let place = Place::new();
    let command = json!(["sh", "-c", "cargo test"]);
    let told = json!({"call_id": "c1", "command": command, "exit_code": 0, "status": "completed"});
    let item = json!({"item": {"type": "CommandExecution", "id": "c1", "command": command,
        "status": "completed", "exit_code": 0, "aggregated_output": "ok"}});
    let events = import_unchanged(
        &place,
        SESSION,
        &[
            said("user", "Test it"),
            call("c1", "exec_command", &json!({"cmd": "cargo test"})),
            note("exec_command_end", told.clone()),
            output("c1", "Process exited with code 0\nOutput:\nok"),
            note("exec_command_end", told),
            note("item_completed", item),
        ],
    );
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((of("agent.tool_use"), of("agent.tool_result")), (1, 1), "{events:?}");
}

#[test]
fn a_refused_failed_or_interrupted_call_is_closed_and_counts_as_no_change() {
    let place = Place::new();
    let patch = |id: &str, file: &str| {
        let input = format!("*** Begin Patch\n*** Update File: {file}\n@@\n-a\n+b\n*** End Patch");
        let item = json!({"type": "custom_tool_call", "call_id": id, "name": "apply_patch",
            "status": "completed", "input": input});
        ("response_item", item)
    };
    let result = |id: &str, output: Value| {
        let item = json!({"type": "custom_tool_call_output", "call_id": id, "output": output});
        ("response_item", item)
    };
    let run = |id: &str, line: &str| call(id, "exec_command", &json!({"cmd": line}));
    let events = import_unchanged(
        &place,
        SESSION,
        &[
            note("task_started", json!({})),
            said("user", "Publish the mill"),
            run("r1", "git push origin main"),
            output("r1", "exec command rejected by user"),
            patch("p1", "src/refused.rs"),
            result("p1", json!("patch rejected by user")),
            patch("p2", "src/missed.rs"),
            result("p2", json!("apply_patch verification failed: no such line")),
            patch("p3", "src/coded.rs"),
            result("p3", json!("{\"output\":\"bad\",\"metadata\":{\"exit_code\":1}}")),
            patch("p4", "src/done.rs"),
            result("p4", json!("{\"output\":\"Success.\",\"metadata\":{\"exit_code\":0}}")),
            run("r2", "git commit -m wheel"),
            output("r2", "Process exited with code 0\nOutput:\n[main 1a2b3c4] wheel\n"),
            run("r3", "cargo test --all"),
            note("turn_aborted", json!({"reason": "interrupted"})),
            note("task_started", json!({})),
            said("user", "Leave the push to me"),
            run("r4", "sleep 100"),
            note("task_complete", json!({})),
            // Its program was killed, which only the next turn shows.
            run("r5", "make docs"),
            note("task_started", json!({})),
            run("r6", "make dist"),
            note("turn_aborted", json!({"reason": "replaced"})),
        ],
    );
    let interrupted: Vec<(&str, &str)> = events
        .iter()
        .filter_map(|event| Some((event["call_id"].as_str()?, event["content"].as_str()?)))
        .filter_map(|(id, said)| Some((id, said.strip_prefix("The call was interrupted: ")?)))
        .collect();
    let expected = [
        ("r3", "interrupted"),
        ("r4", "the turn is complete"),
        ("r5", "another turn began"),
        ("r6", "replaced"),
    ];
    assert_eq!(interrupted, expected);
    let now = view(&place, SESSION, "continuation");
    let (changes, files) = (now["changes"].to_string(), now["files"].to_string());
    assert!(changes.contains("commit") && !changes.contains("push"), "{changes}");
    assert!(files.contains("done.rs"), "{files}");
    for file in ["refused.rs", "missed.rs", "coded.rs"] {
        assert!(!files.contains(file), "{file}: {files}");
    }
    let failures = now["failures"].to_string();
    assert!(!failures.contains("cargo test") && !failures.contains("push"), "{failures}");
    let wake = place.run(&["wake", SESSION]).out;
    assert!(!wake.contains("open call"), "{wake}");
    let stats = view(&place, SESSION, "index").to_string();
    assert!(!stats.contains("\"calls\":6"), "{stats}");
    let seen = window(&place, SESSION);
    assert!(!seen.contains("no result was recorded"), "{seen}");
    assert!(now["instructions"].to_string().contains("Leave the push to me"), "{now}");
}

#[test]
fn a_command_that_was_not_started_is_shown_as_refused_by_policy_or_failed() {
    let place = Place::new();
    let run = |id: &str, line: &str| call(id, "exec_command", &json!({"cmd": line}));
    let rejected = |why: &str| {
        format!("exec_command failed: CreateProcess {{ message: \"Rejected(\\\"{why}\\\")\" }}")
    };
    let events = import_unchanged(
        &place,
        SESSION,
        &[
            said("user", "Publish the mill"),
            run("r1", "git push --tags"),
            output("r1", &rejected("`/bin/bash -lc 'git push --tags'` rejected: A person pushes.")),
            run("r2", "cargo fmt --check"),
            output("r2", &rejected("Failed to create unified exec process: no terminal")),
        ],
    );
    let of = |id: &str| {
        let is = |one: &&Value| one["type"] == "agent.tool_result" && one["call_id"] == id;
        let event = events.iter().find(is).unwrap();
        (event["refused"].as_str(), event["is_error"].as_bool())
    };
    assert_eq!(of("r1"), (Some("rule"), Some(true)));
    assert_eq!(of("r2"), (None, Some(true)), "the system did not start it");
    let failures = view(&place, SESSION, "continuation")["failures"].to_string();
    assert!(failures.contains("cargo fmt") && !failures.contains("push"), "{failures}");
    let text = place.run(&["view", SESSION, "continuation"]).ok();
    assert!(text.contains("git push --tags -> refused: A person pushes."), "{text}");
}

#[test]
fn the_programs_own_texts_are_not_instructions_and_a_goals_objective_is_the_task() {
    let place = Place::new();
    let kinds = |text: &str, kinds: Value| {
        let (kind, mut item) = said("user", text);
        item["internal_chat_message_metadata_passthrough"] = json!({"content_item_kinds": kinds});
        (kind, item)
    };
    let goal = |text: &str, used: u64| {
        let goal = json!({"objective": text, "status": "active", "tokens_used": used});
        note("thread_goal_updated", json!({"goal": goal}))
    };
    let element = |name: &str| said("user", &format!("<{name} a=\"1\">\nwords of it\n</{name}>"));
    let both = json!({"type": "message", "role": "user",
        "internal_chat_message_metadata_passthrough":
            {"content_item_kinds": ["environments.environment_context", "user.text"]},
        "content": [{"type": "input_text", "text": "The shell is plain"},
            {"type": "input_text", "text": "Keep the old spokes"}]});
    let elements = [
        "environment_context",
        "user_instructions",
        "turn_aborted",
        "skill",
        "subagent_notification",
        "codex_internal_context",
        "goal_context",
        "recommended_plugins",
        "some_later_context",
    ];
    let mut records = vec![goal("Rebuild the wheel", 1), goal("Rebuild the wheel", 900)];
    records.extend(elements.map(element));
    records.extend([
        said(
            "user",
            "# AGENTS.md instructions for /home/ada/mill\n\n<INSTRUCTIONS>x</INSTRUCTIONS>",
        ),
        kinds("Continue toward the goal.", json!(["goals.context"])),
        ("response_item", both),
        kinds("Paint it green", json!(["user.text"])),
        said("user", "Oil <the_axle> as well"),
    ]);
    let events = import_unchanged(&place, SESSION, &records);
    let typed = texts(&events, "user.message");
    assert_eq!(typed.len(), 4, "{typed:?}");
    let now = view(&place, SESSION, "continuation");
    assert_eq!(now["task"]["text"], "Rebuild the wheel");
    let words: Vec<&Value> =
        now["instructions"].as_array().unwrap().iter().map(|one| &one["text"]).collect();
    assert_eq!(words, ["Keep the old spokes", "Paint it green", "Oil <the_axle> as well"]);
    let listed = place.run(&["sessions", "--json"]).json().to_string();
    assert!(listed.contains("Rebuild the wheel"), "{listed}");
}

#[test]
fn rolled_back_turns_are_in_no_view_but_in_every_export() {
    let place = Place::new();
    let back = |turns: u64| note("thread_rolled_back", json!({"num_turns": turns}));
    let records = [
        said("user", "Rebuild the wheel"),
        said("assistant", "It stands."),
        said("user", "Paint it red"),
        call("c1", "exec_command", &json!({"cmd": "git commit -m red"})),
        output("c1", "Process exited with code 0\nOutput:\n[main 1a2b3c4] red\n"),
        said("assistant", "It is red."),
        said("user", "<turn_aborted>\nstopped\n</turn_aborted>"),
        said("user", "Gild the hub"),
        back(2),
        said("user", "Paint it green"),
        said("assistant", "It is green."),
        said("user", "Add a bell"),
        back(1),
        said("user", "Oil the axle"),
        said("assistant", "Oiled."),
    ];
    import_unchanged(&place, SESSION, &records);
    let now = view(&place, SESSION, "continuation").to_string();
    let seen = window(&place, SESSION);
    for words in ["Rebuild the wheel", "Paint it green", "Oil the axle"] {
        assert!(now.contains(words) && seen.contains(words), "{words}: {now} {seen}");
    }
    for words in ["Paint it red", "Gild the hub", "Add a bell", "git commit", "It is red"] {
        assert!(!now.contains(words) && !seen.contains(words), "{words}: {now} {seen}");
    }
    let events = Value::from(place.events(SESSION)).to_string();
    assert!(events.contains("Paint it red") && events.contains("Add a bell"));
    let text = rollout(SESSION, &records);
    let (_, again) = imported(&place, &format!("rollout-{SESSION}.jsonl"), &text);
    assert_eq!(again["added"], 0, "{again}");
}

#[test]
fn the_summary_of_a_compaction_is_read_from_the_replacement_history() {
    let place = Place::new();
    let summary = "Another language model started to solve this problem and left this: one spoke.";
    let history = json!([said("user", "Count the spokes").1, said("user", summary).1]);
    let compacted = ("compacted", json!({"message": "", "replacement_history": history}));
    import_unchanged(
        &place,
        SESSION,
        &[said("user", "Count the spokes"), compacted, said("user", "Now the hub")],
    );
    let found = view(&place, SESSION, "compactions").to_string();
    assert!(found.contains("one spoke"), "{found}");
}

#[test]
fn a_call_run_outside_the_model_is_complete_without_an_output_item() {
    let place = Place::new();
    let item = |item: Value| ("response_item", item);
    import_unchanged(
        &place,
        SESSION,
        &[
            said("user", "How old is the mill?"),
            item(json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
                "action": {"type": "search", "query": "mill"}})),
            item(json!({"type": "web_search_call", "status": "completed",
                "action": {"type": "open_page", "url": "https://example.org/mill"}})),
            item(json!({"type": "image_generation_call", "id": "ig_1", "status": "completed",
                "revised_prompt": "a mill", "result": "aGk="})),
            item(json!({"type": "file_search_call", "id": "fs_1", "status": "completed",
                "queries": ["mill"], "results": [{"file_id": "f", "text": "built in 1714"}]})),
            item(json!({"type": "mcp_call", "id": "mcp_1", "name": "age", "server_label": "mills",
                "arguments": "{}", "output": "312 years", "error": null})),
            item(json!({"type": "tool_search_call", "call_id": "ts_1", "execution": "client",
                "status": "completed", "arguments": {"query": "mill"}})),
            item(json!({"type": "tool_search_output", "call_id": "ts_1", "status": "completed",
                "execution": "client", "tools": [{"name": "age"}]})),
            item(json!({"type": "web_search_call", "id": "ws_2", "status": "failed"})),
            item(json!({"type": "local_shell_call", "id": "ls_1", "status": "completed",
                "call_id": "call_ls", "action": {"type": "exec", "command": ["ls"]}})),
        ],
    );
    let wake = place.run(&["wake", SESSION, "--json"]).json()["sessions"].to_string();
    let seen = window(&place, SESSION);
    assert_eq!(seen.matches("no result was recorded").count(), 1, "of the shell alone: {seen}");
    for words in ["built in 1714", "312 years"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert!(!wake.contains("web_search") && !wake.contains("ig_1"), "{wake}");
}

#[test]
fn a_server_tool_result_that_reports_an_error_is_a_failed_result() {
    let place = Place::new();
    let talk = json!({"id": "search", "messages": [
        {"role": "user", "content": "How old is the mill?"},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "st_1", "name": "web_search", "input": {"query": "m"}},
            {"type": "web_search_tool_result", "tool_use_id": "st_1",
                "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}},
            {"type": "server_tool_use", "id": "st_2", "name": "web_search", "input": {"query": "m"}},
            {"type": "web_search_tool_result", "tool_use_id": "st_2",
                "content": [{"type": "web_search_result", "url": "https://example.org/mill"}]},
            {"type": "text", "text": "312 years."}]}]});
    imported(&place, "search.jsonl", &talk.to_string());
    let events = place.events("search");
    let failed: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "agent.tool_result")
        .map(|event| &event["is_error"])
        .collect();
    assert_eq!(failed, [&json!(true), &Value::Null]);
}

/// A file of another program: its name, its format, and its records.
type Foreign = (&'static str, &'static str, Vec<Value>);

/// Returns files of programs whose formats are rejected by name.
fn foreign_files() -> Vec<Foreign> {
    vec![
        (
            "copilot",
            "GitHub Copilot",
            vec![
                json!({"type": "session.start", "data": {}, "id": "1", "parentId": null}),
                json!({"type": "user.message", "data": {"content": "Oil the axle"}, "id": "2",
                "parentId": "1"}),
            ],
        ),
        (
            "gemini",
            "Gemini's API",
            vec![json!([
            {"role": "user", "parts": [{"text": "Oil the axle"}]}])],
        ),
        (
            "gemini-lines",
            "Gemini's API",
            vec![
                json!({"role": "user", "parts": [{"text": "Oil the axle"}]}),
                json!({"role": "model", "parts": [{"text": "Oiled"}]}),
            ],
        ),
        (
            "opencode",
            "OpenCode",
            vec![json!({"info": {"id": "s"}, "messages": [
            {"info": {"role": "user"}, "parts": [{"type": "text", "text": "Oil the axle"}]}]})],
        ),
        (
            "exec",
            "codex exec --json",
            vec![
                json!({"type": "thread.started", "thread_id": "t"}),
                json!({"type": "item.completed", "item": {"type": "agent_message", "text": "Oiled"}}),
            ],
        ),
        (
            "qwen",
            "Qwen Code",
            vec![
                json!({"uuid": "1", "sessionId": "s", "type": "user", "cwd": "/x",
                "message": {"role": "user", "parts": [{"text": "Oil the axle"}]}}),
                json!({"uuid": "2", "sessionId": "s", "type": "system", "subtype": "telemetry"}),
            ],
        ),
    ]
}

#[test]
fn an_unsupported_file_format_is_rejected_by_name_and_nothing_is_stored() {
    let place = Place::new();
    let own = json!({"type": "gauge.read", "level": 3, "position": 0, "id": "g1",
        "processed_at": "2026-11-20T09:00:00Z", "origin": "user"});
    let others: [Foreign; 4] = [
        (
            "unknown",
            "not known",
            vec![
                json!({"type": "gauge.read", "level": 3}),
                json!({"type": "gauge.read", "level": 4}),
            ],
        ),
        (
            "enveloped",
            "not known",
            vec![json!({"type": "said", "payload": {"author": "ada", "body": "Oil the axle"}})],
        ),
        (
            "chatgpt",
            "ChatGPT",
            vec![json!({"title": "t", "mapping": {}, "messages": [{"mapping": {}}]})],
        ),
        ("gauge", "", vec![own]),
    ];
    for (name, form, records) in foreign_files().into_iter().chain(others) {
        let file = place.write(&format!("{name}.jsonl"), &lines_of(&records));
        let ran = place.run(&["import", "--json", file.to_str().unwrap()]);
        let report = lines(&ran.out).pop().unwrap();
        if form.is_empty() {
            assert_eq!((ran.code, &report["sessions"]), (0, &json!(1)), "a log of ours: {report}");
            continue;
        }
        assert_eq!((ran.code, &report["sessions"], &report["added"]), (1, &json!(0), &json!(0)));
        let problem = report["bad_lines"].to_string();
        assert!(problem.contains(form) && problem.contains("members: "), "{name}: {problem}");
        let ran = place.run(&["import", file.to_str().unwrap()]);
        assert!(ran.code == 1 && ran.err.contains("nothing was kept"), "{ran:?}");
    }
    let sessions = place.run(&["sessions", "--json"]).json()["data"].as_array().unwrap().len();
    assert_eq!(sessions, 1, "only the log of ours");
}

#[test]
fn unknown_line_types_are_counted_and_named_by_import_and_doctor() {
    let place = Place::new();
    let records = [
        said("user", "Oil the axle"),
        note("weather_report", json!({})),
        note("weather_report", json!({})),
        ("response_item", json!({"type": "hologram"})),
        note("item_completed", json!({"item": {"type": "Dance", "id": "d"}})),
        ("almanac", json!({"moon": "new"})),
    ];
    let text = rollout(SESSION, &records);
    let expected = json!({"almanac": 1, "event_msg weather_report": 2, "item_completed Dance": 1,
        "response_item hologram": 1});
    let (code, report) = imported(&place, "rollout.jsonl", &text);
    assert_eq!((code, &report["unknown_types"]), (0, &expected));
    let claude = lines_of(&[
        json!({"type": "user", "uuid": "1", "sessionId": "c", "message":
            {"role": "user", "content": "Oil the axle"}}),
        json!({"type": "weathercock", "uuid": "2", "sessionId": "c"}),
    ]);
    let (_, report) = imported(&place, "claude.jsonl", &claude);
    assert_eq!(report["unknown_types"], json!({"weathercock": 1}));
    let file = place.write("again.jsonl", &text);
    let ran = place.run(&["import", file.to_str().unwrap()]);
    assert!(ran.err.contains("2 event_msg weather_report"), "{ran:?}");
    let doctor = place.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == "imports").unwrap();
    assert_eq!(found["state"], "warn", "{found}");
    let told = found["found"].as_str().unwrap();
    assert!(told.contains("2 sessions") && told.contains("weather"), "{told}");
    assert_eq!(place.run(&["export", SESSION, "--format", "codex"]).ok(), text);
}

#[test]
fn every_known_line_type_has_a_row_in_the_documents() {
    let page = include_str!("../../docs/agents.md");
    let source = include_str!("../../src/import/known.rs");
    let lists = ["CLAUDE_TYPES", "CODEX_TYPES", "ITEMS_TYPES", "NOTES_TYPES", "COMPLETED_TYPES"];
    for name in lists {
        let (_, rest) = source.split_once(&format!("const {name}: &str = \"")).unwrap();
        let list = rest.split('"').next().unwrap().replace('\\', " ");
        for kind in list.split_whitespace() {
            assert!(page.contains(&format!("`{kind}`")), "{name} {kind} has no row");
        }
    }
}

#[test]
fn text_in_a_patch_is_no_command_and_a_transcript_no_changed_file() {
    let place = Place::new();
    let patch = "*** Begin Patch\n*** Update File: src/wheel.py\n@@\n import os\n+import math\n\
                 +if x:\n     return x\n*** End Patch";
    let diff = "--- a/src/wheel.py\n+++ b/src/wheel.py\n@@ -1 +1 @@\n-import os\n+import sys";
    let path =
        format!("/home/ada/.codex/sessions/2026/11/20/rollout-2026-11-20T09-00-00-{SESSION}.jsonl");
    let words = format!("The log is {path} and /home/ada/mill/src/wheel.py is the file.");
    let script = "if [ -f Makefile ]; then make check; fi\nfor f in *; do wc $f; done";
    import_unchanged(
        &place,
        SESSION,
        &[
            said("user", &words),
            call("c1", "apply_patch", &json!({"command": patch})),
            output("c1", "Success."),
            call("c2", "exec_command", &json!({"cmd": script})),
            output("c2", "Process exited with code 0\nOutput:\nok"),
            call("c3", "apply_diff", &json!({"command": diff})),
            output("c3", "Applied."),
        ],
    );
    let names = |kind: &str| -> Vec<String> {
        let of = ["graph", "/home/ada/mill", "--entities", "--type", kind, "--json"];
        let found = place.run(&of).json();
        let data = found["entities"].as_array().unwrap_or_else(|| panic!("{found}")).clone();
        data.iter().map(|one| one["id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (commands, files) = (names("command"), names("file"));
    assert!(commands.contains(&"make check".to_owned()), "{commands:?}");
    for word in [
        "if", "then", "fi", "for", "done", "[", "+", "+import", "-import", "+if", "***", "@@",
        "import", "return",
    ] {
        assert!(!commands.iter().any(|name| name.split(' ').next() == Some(word)), "{commands:?}");
    }
    assert!(files.iter().any(|name| name.ends_with("src/wheel.py")), "{files:?}");
    assert!(!files.iter().any(|name| name.contains("rollout-")), "{files:?}");
}
