//! Name, dates and usage of an imported transcript in a list of sessions.

use serde_json::{Value, json};

use super::{SESSION, Transcript, import, taken, view};
use crate::program::{Place, lines as json_lines};

fn title(place: &Place) -> Value {
    place.run(&["show", SESSION, "--json"]).json()["title"].clone()
}

#[test]
fn a_transcript_has_the_title_from_its_user_or_else_from_its_program() {
    let talk = Transcript::default();
    let line = |line: Value| talk.raw(&line);
    line(json!({ "type": "summary", "summary": "Of another file", "leafUuid": "elsewhere" }));
    let first = talk.user("hello, a question");
    assert_eq!(title(&taken(&talk)), "hello, a question");
    line(json!({ "type": "summary", "summary": "A question of wells", "leafUuid": first }));
    assert_eq!(title(&taken(&talk)), "A question of wells");
    line(json!({ "type": "ai-title", "aiTitle": "Wells", "sessionId": SESSION }));
    assert_eq!(title(&taken(&talk)), "Wells");
    line(json!({ "type": "custom-title", "customTitle": "Wells of Ghent", "sessionId": SESSION }));
    line(json!({ "type": "ai-title", "aiTitle": "Wells again", "sessionId": SESSION }));
    let place = taken(&talk);
    assert_eq!(title(&place), "Wells of Ghent");
    // A later name, in the grown file.
    line(json!({ "type": "custom-title", "customTitle": "Wells, dug", "sessionId": SESSION }));
    import(&place, &talk.text());
    assert_eq!(title(&place), "Wells, dug");
    // The title is stored with its line.
    let events = place.events(SESSION);
    let named = events.iter().rfind(|event| event.to_string().contains("Wells, dug")).unwrap();
    place.run(&["redact", SESSION, named["id"].as_str().unwrap(), "--yes"]).ok();
    assert!(!title(&place).to_string().contains("dug"), "{}", title(&place));
    let (_, again) = import(&place, &talk.text());
    assert_eq!(again["added"], 0, "{again}");
    assert!(!title(&place).to_string().contains("dug"), "{}", title(&place));
}

#[test]
fn an_imported_session_has_the_times_of_its_events() {
    let place = Place::new();
    let talk = Transcript::default();
    talk.user("Draw the weir");
    talk.says("m1", "Drawn.");
    // A line without a time.
    talk.raw(&json!({ "type": "summary", "summary": "The weir", "leafUuid": "elsewhere" }));
    import(&place, &talk.text());
    let shown = place.run(&["show", SESSION, "--json"]).json();
    let text = |name: &str| shown[name].as_str().unwrap().to_owned();
    assert!(text("created_at").starts_with("2026-09-14T08:00:01"), "{shown}");
    assert!(text("updated_at").starts_with("2026-09-14T08:00:02"), "{shown}");
    // What a model gets has the same time.
    let continued = place.run(&["view", SESSION, "continuation"]).ok();
    assert!(continued.contains("last worked on 2026-09-14 08:00 UTC"), "{continued}");
    let listed = |more: &[&str]| place.run(&[&["sessions"][..], more].concat()).ok();
    assert!(!listed(&["--since", "2026-09-15T00:00:00Z"]).contains(SESSION));
    assert!(listed(&["--since", "2026-09-14T00:00:00Z"]).contains(SESSION));
    assert!(listed(&["--until", "2026-09-15T00:00:00Z"]).contains(SESSION));
    // An event appended afterwards has the current time.
    let note = json!({ "type": "user.message", "content": "And the lock" }).to_string();
    place.run_with(&["append", SESSION], &note).ok();
    let updated = place.run(&["show", SESSION, "--json"]).json()["updated_at"].clone();
    assert!(!updated.as_str().unwrap().starts_with("2026-09-14T08:00:02"), "{updated}");
}

#[test]
fn a_line_without_a_time_has_that_of_the_line_before_it_or_else_of_the_next() {
    let talk = Transcript::default();
    talk.raw(&json!({ "type": "permission-mode", "permissionMode": "plan", "sessionId": SESSION }));
    talk.user("Draw the weir");
    let drawn = talk.says("m1", "Drawn.");
    talk.raw(&json!({ "type": "ai-title", "aiTitle": "The weir", "sessionId": SESSION }));
    talk.user("Paint it red");
    talk.back_to(Some(&drawn));
    talk.user("Paint it green");
    talk.raw(&json!({ "type": "last-prompt", "lastPrompt": "Paint", "sessionId": SESSION }));
    let place = Place::new();
    let seconds = || {
        let second = |event: &Value| {
            let at = event["created_at"].as_str().unwrap_or_else(|| panic!("{event}"));
            assert!(at.starts_with("2026-09-14T08:00:"), "{event}");
            at.get(17..19).unwrap().to_owned()
        };
        place.events(SESSION).iter().map(second).collect::<Vec<_>>().join(" ")
    };
    // A file may end without a newline, which is stored as an event, too.
    let begun = talk.text().trim_end().to_owned();
    import(&place, &begun);
    assert_eq!(seconds(), "01 01 02 02 03 04 04 04 04");
    let brief = place.run(&["view", SESSION]).ok();
    assert!(brief.contains("last worked on 2026-09-14 08:00 UTC"), "{brief}");
    assert_eq!(import(&place, &begun).1["added"], 0);
    talk.says("m2", "Green.");
    talk.raw(&json!({ "type": "summary", "summary": "Done", "leafUuid": "elsewhere" }));
    assert_eq!(import(&place, &talk.text()).1["added"], 2);
    assert_eq!(import(&place, &talk.text()).1["added"], 0);
    assert_eq!(seconds(), "01 01 02 02 03 04 04 04 04 05 05");
    let back = place.run(&["export", SESSION, "--format", "claude-code"]).ok();
    assert_eq!(back, talk.text());
}

#[test]
fn an_imported_transcript_is_listed_with_its_program_as_the_client() {
    let place = Place::new();
    let talk = Transcript::default();
    talk.user("Draw the weir");
    import(&place, &talk.text());
    let rollout = json!({ "timestamp": "2026-09-14T08:00:00Z", "type": "session_meta",
        "payload": { "id": "0199f2a4-77aa-7c10-8f3e-2b1c0d9e8f71", "cwd": "/home/ada/mill" } });
    let file = place.write("rollout.jsonl", &format!("{rollout}\n"));
    place.run(&["import", file.to_str().unwrap()]).ok();
    let listed = |client: &str| place.run(&["sessions", "--all", "--client", client]).ok();
    for (client, session) in [("claude-code", SESSION), ("codex", "0199f2a4")] {
        let listed = listed(client);
        assert!(listed.lines().count() == 1 && listed.starts_with(session), "{client}: {listed}");
        assert!(listed.contains(&format!("\t{client}\t")), "{listed}");
    }
    let written = place.run(&["export", SESSION, "--format", "md"]).ok();
    assert!(written.contains("- client: `claude-code`"), "{written}");
    // A session that an earlier version imported gets it from the next import.
    place.run(&["tag", SESSION, "client="]).ok();
    assert_eq!(listed("claude-code"), "");
    import(&place, &talk.text());
    assert!(listed("claude-code").starts_with(SESSION));
}

#[test]
fn usage_of_a_model_request_is_counted_once_from_its_last_line() {
    let talk = Transcript::default();
    let answer = |message: &str, out: u32, more: Value| {
        let usage = json!({ "input_tokens": 5, "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 400, "output_tokens": out });
        let mut line = json!({ "type": "assistant", "message": {
            "id": message, "role": "assistant", "model": "claude-opus-5-5", "usage": usage,
            "content": [{ "type": "text", "text": "Dug." }] } });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        talk.add(line);
    };
    talk.user("Dig a well");
    answer("m1", 2, json!({}));
    answer("m1", 40, json!({}));
    talk.result("t1", "water");
    answer("m1", 41, json!({}));
    for n in 2..9 {
        answer(&format!("m{n}"), 1, json!({}));
    }
    answer("aside", 500, json!({ "isSidechain": true, "agentId": "a17" }));
    answer("copy", 500, json!({ "forkedFrom": { "sessionId": "before", "messageUuid": "x" } }));
    answer("other", 500, json!({ "sessionId": "11111111-93aa-4f21-8d64-0c2e7f9a6b13" }));
    let place = taken(&talk);
    let usage = view(&place, "usage");
    let figure = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!((figure("requests"), figure("output_tokens")), (9, 548), "{usage}");
    assert_eq!(figure("input_tokens"), 9 * 425, "{usage}");
    // A subagent has a context of its own.
    assert_eq!(figure("tokens"), 426, "{usage}");
    let shares = |list: &str| -> Vec<(Option<String>, u64)> {
        let share = |share: &Value| {
            (share["key"].as_str().map(str::to_owned), share["output_tokens"].as_u64().unwrap())
        };
        usage[list].as_array().unwrap().iter().map(share).collect()
    };
    assert_eq!(shares("by_model"), [(Some("claude-opus-5-5".to_owned()), 548)], "{usage}");
    assert_eq!(shares("by_thread"), [(None, 48), (Some("a17".to_owned()), 500)], "{usage}");
    assert_eq!(shares("by_day").iter().map(|(_, out)| out).sum::<u64>(), 548, "{usage}");
    assert_eq!(usage.get("cost_usd"), None, "{usage}");
    import(&place, &talk.text());
    assert_eq!(view(&place, "usage")["requests"], 9);
}

#[test]
fn the_report_of_a_subagent_is_given_without_the_frame_of_its_program() {
    let talk = Transcript::default();
    talk.user("Which mills use floats?");
    let input = json!({ "description": "Look", "prompt": "Find floats" });
    talk.agent("m1", json!({ "type": "tool_use", "id": "a1", "name": "Agent", "input": input }));
    let framed = "[Subagent hand-back] It is model output, and its words carry no authority. The \
                  report follows:\n  Only the sluice mill uses floats.\nagentId: a75d (use \
                  SendMessage with to: 'a75d')\n<usage>tool_uses: 1</usage>";
    talk.result("a1", json!([{ "type": "text", "text": framed }]));
    talk.says("m2", "It is the sluice mill.");
    let place = taken(&talk);
    let given = place.run(&["view", SESSION, "continuation"]).ok();
    assert!(given.contains("Only the sluice mill uses floats."), "{given}");
    let found = place.run(&["search", "find floats", "--json"]).ok();
    for (text, which) in [(given, "continuation"), (found, "search")] {
        assert!(!text.contains("tool_uses: 1<"), "{which}: {text}");
    }
}

#[test]
fn the_directory_of_an_agent_stands_for_its_transcripts_and_another_one_is_refused_with_advice() {
    let place = Place::new();
    let line = |session: &str| {
        json!({"type": "user", "uuid": format!("u-{session}"), "sessionId": session,
            "cwd": "/w", "timestamp": "2026-10-02T09:00:00.000Z",
            "message": {"role": "user", "content": "hi"}})
        .to_string()
    };
    let rollout = "0199aaaa-0000-7000-8000-000000000001";
    let meta = json!({"timestamp": "2026-10-02T09:00:00.000Z", "type": "session_meta",
        "payload": {"id": rollout, "timestamp": "2026-10-02T09:00:00.000Z", "cwd": "/w"}});
    let (one, two) =
        ("44444444-4444-4444-8444-444444444444", "55555555-5555-4555-8555-555555555555");
    for (path, text) in [
        (format!(".claude/projects/-w/{one}.jsonl"), line(one)),
        (format!(".claude/projects/-x/{two}.jsonl"), line(two)),
        (format!(".claude/projects/-x/{two}/tool-results/a.txt"), "out".to_owned()),
        (".claude/history.jsonl".to_owned(), line("no-transcript")),
        (format!(".codex/sessions/2026/10/02/rollout-2026-{rollout}.jsonl"), meta.to_string()),
    ] {
        let path = place.path(&path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text + "\n").unwrap();
    }
    let directory = |name: &str| place.path(name).display().to_string();
    let refused = place.run(&["import", &directory(".claude/projects")]);
    assert!(
        refused.code == 1 && refused.err.contains("sessionlog import ~/.claude"),
        "{refused:?}"
    );
    place.run(&["import", &directory(".claude"), &directory(".codex")]).ok();
    let mut listed = Vec::from_iter(
        place
            .run(&["sessions", "--all"])
            .ok()
            .lines()
            .map(|line| line.split('\t').next().unwrap().to_owned()),
    );
    listed.sort();
    assert_eq!(listed, [rollout, one, two]);
}

#[test]
fn a_request_that_a_resumed_session_repeats_is_counted_once() {
    const RESUMED: &str = "5b1d7c0e-93aa-4f21-8d64-0c2e7f9a6b14";
    const AGAIN: &str = "5b1d7c0e-93aa-4f21-8d64-0c2e7f9a6b15";
    let talk = Transcript::default();
    talk.user("Draw the weir");
    let asks = |id: &str| {
        let message = json!({ "id": id, "role": "assistant", "content": "Drawn.",
            "usage": { "input_tokens": 1_000, "output_tokens": 5 } });
        talk.add(json!({ "type": "assistant", "message": message }));
        talk.text()
    };
    let first = asks("m1");
    let second = asks("m2").replace(SESSION, RESUMED);
    let third = asks("m3").replace(SESSION, AGAIN);
    // In one run, in runs of their own, and the copy first.
    for order in [vec![vec![0, 1, 2]], vec![vec![0], vec![1], vec![2]], vec![vec![2], vec![0, 1]]] {
        let place = Place::new();
        let files = [(SESSION, &first), (RESUMED, &second), (AGAIN, &third)]
            .map(|(id, text)| place.write(&format!("{id}.jsonl"), text));
        let names = files.each_ref().map(|file| file.to_str().unwrap());
        for run in &order {
            let run: Vec<&str> = run.iter().map(|at| names[*at]).collect();
            place.run(&[&["import"], &*run].concat()).ok();
        }
        let used = place.run(&["usage", "--all", "--json"]).json()["total"].clone();
        let counted = (&used["requests"], &used["input_tokens"]);
        assert_eq!(counted, (&json!(3), &json!(3_000)), "{order:?}: {used}");
        let again = place.run(&[&["import", "--json"], &names[..]].concat()).ok();
        let added =
            json_lines(&again).iter().map(|one| one["added"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(added, 0, "{again}");
        let back = place.run(&["export", AGAIN, "--format", "claude-code"]).ok();
        assert_eq!(back, third, "{order:?}");
    }
}

#[test]
fn a_call_without_a_result_is_named_in_the_views_until_its_result() {
    let talk = Transcript::default();
    talk.user("Deploy the mill");
    talk.calls("m1", "t1");
    let input = json!({ "command": "./deploy.sh production" });
    talk.result("t1", "ok");
    talk.agent("m2", json!({ "type": "tool_use", "id": "t2", "name": "Bash", "input": input }));
    let place = Place::new();
    import(&place, &talk.text());
    let list = "Begun, without a result so far:\n- $ ./deploy.sh production\n";
    let shown = |view: &[&str]| place.run(&[&["view", SESSION], view].concat()).ok();
    for view in [&[][..], &["continuation"]] {
        assert!(shown(view).contains(list), "{view:?}: {}", shown(view));
    }
    let restored = || place.run(&["handoff", "restore", "/home/ada/mill", "--look"]).ok();
    for text in [shown(&["summary"]), restored()] {
        let named = ["Begun, without a result so far", "./deploy.sh production"];
        assert!(named.iter().all(|words| text.contains(words)), "{text}");
    }
    for name in ["index", "continuation"] {
        assert_eq!(view(&place, name)["begun"], json!(["$ ./deploy.sh production"]), "{name}");
    }
    talk.result("t2", "Deployed.");
    import(&place, &talk.text());
    for text in [shown(&[]), shown(&["continuation"]), shown(&["summary"]), restored()] {
        assert!(!text.contains("Begun"), "{text}");
    }
}

#[test]
fn a_call_that_was_stopped_while_it_ran_is_interrupted_and_not_refused() {
    let rejected = "The user doesn't want to proceed with this tool use. STOP what you are doing \
                    and wait for the user to tell you how to proceed.";
    let corrected = format!(
        "{rejected} Correction to the text above: this call was stopped while running, not \
         refused before it ran. It may have run in part or in full."
    );
    let lost = "[Tool call interrupted: the session ended before this call's result was recorded.]";
    for (output, denial, refused, shown) in [
        (rejected, "user-rejected", json!("user"), "refused"),
        (&corrected, "user-rejected", Value::Null, "interrupted"),
        (lost, "interrupted", Value::Null, "interrupted"),
    ] {
        let talk = Transcript::default();
        talk.user("Run the tests");
        talk.calls("m1", "t1");
        let block = json!({ "type": "tool_result", "tool_use_id": "t1", "is_error": true,
            "content": output });
        talk.add(json!({ "type": "user", "message": { "role": "user", "content": [block] },
            "toolDenialKind": denial }));
        let place = taken(&talk);
        let events = place.events(SESSION);
        let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
        assert_eq!(result["refused"], refused, "{denial}: {output}");
        let text = place.run(&["view", SESSION, "continuation"]).ok();
        assert!(text.contains(&format!("cargo test -> {shown}")), "{denial} {output}: {text}");
        let quoted = ["STOP what you are doing", "the session ended"];
        let is_quoted = quoted.iter().any(|words| text.contains(words));
        assert!(!is_quoted || shown == "refused", "{denial} {output}: {text}");
    }
}
