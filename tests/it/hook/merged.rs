//! A transcript imported into the session that hooks recorded: no duplicates, every line kept, no
//! content that the user excluded.

use serde_json::{Value, json};

use super::{SESSION, claude, quiet, told_to_model};
use crate::program::Place;

const RESTORED: &str = "sessionlog kept earlier sessions of this directory.\n<sessionlog \
                        trust=\"untrusted-external-content\">\n{\"walrus\":1}\n</sessionlog>\n\
                        Continue one only when the user wants that.";

fn line(kind: &str, at: &str, more: &Value) -> String {
    let mut line = json!({
        "type": kind, "sessionId": SESSION, "uuid": format!("u{at}"), "isSidechain": false,
        "timestamp": format!("2026-03-10T{at}.000Z"), "cwd": "/home/ada/proj",
    });
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line.to_string() + "\n"
}

fn user(at: &str, content: Value) -> String {
    line("user", at, &json!({ "message": { "role": "user", "content": content } }))
}

fn agent(at: &str, block: Value) -> String {
    let message = json!({ "id": format!("m{at}"), "role": "assistant", "content": [block] });
    line("assistant", at, &json!({ "message": message }))
}

/// Returns the transcript of [`work`], with events that no hook reports.
fn transcript() -> String {
    let context = json!({ "attachment": {
        "type": "hook_additional_context", "hookEvent": "SessionStart", "content": [RESTORED],
    } });
    [
        line("attachment", "09:00:00", &context),
        user("09:00:01", json!("Weigh the anchor of the barge")),
        agent("09:00:02", json!({ "type": "text", "text": "I look at the winch." })),
        agent(
            "09:00:03",
            json!({ "type": "tool_use", "id": "b1", "name": "Bash",
                "input": { "command": "cat winch.txt" } }),
        ),
        user(
            "09:00:04",
            json!([{ "type": "tool_result", "tool_use_id": "b1", "content": "seven fathoms" }]),
        ),
        agent("09:00:05", json!({ "type": "text", "text": "It is at seven fathoms." })),
        user("09:00:06", json!("Weigh the anchor of the barge")),
        agent("09:00:07", json!({ "type": "text", "text": "It is at seven fathoms." })),
    ]
    .concat()
}

fn work(place: &Place) {
    let tell = |name: &str, more: Value| quiet(place, &claude(name, &more));
    tell("SessionStart", json!({ "source": "startup" }));
    let prompt = json!({ "prompt": "Weigh the anchor of the barge", "prompt_id": "p1" });
    tell("UserPromptSubmit", prompt);
    let call = json!({ "tool_name": "Bash", "tool_use_id": "b1",
        "tool_input": { "command": "cat winch.txt" } });
    tell("PreToolUse", call.clone());
    let mut result = call;
    result["tool_response"] = json!({ "stdout": "seven fathoms", "stderr": "" });
    tell("PostToolUse", result);
    tell("Stop", json!({ "last_assistant_message": "It is at seven fathoms." }));
    let again = json!({ "prompt": "Weigh the anchor of the barge", "prompt_id": "p2" });
    tell("UserPromptSubmit", again);
    tell("Stop", json!({ "last_assistant_message": "It is at seven fathoms." }));
    tell("SessionEnd", json!({ "reason": "other" }));
}

fn import(place: &Place, text: &str) -> Value {
    let path = place.write(&format!("{SESSION}.jsonl"), text);
    place.run(&["import", path.to_str().unwrap(), "--json"]).json()
}

fn sessions(place: &Place) -> Vec<Value> {
    place.run(&["sessions", "--json"]).json()["data"].as_array().unwrap().clone()
}

#[test]
fn a_transcript_merges_into_its_recorded_session_without_duplicates() {
    let place = Place::new();
    work(&place);
    let report = import(&place, &transcript());
    assert_eq!((&report["beside"], &report["session_ids"]), (&Value::Null, &json!([SESSION])));
    assert_eq!(sessions(&place).len(), 1, "{:?}", sessions(&place));
    let events = place.events(SESSION);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    let counts =
        ["user.message", "agent.message", "agent.tool_use", "agent.tool_result"].map(count);
    assert_eq!(counts, [2, 3, 1, 1], "{events:#?}");
    // The event that no hook reported has the time of its line.
    let winch = events.iter().find(|event| event["content"].to_string().contains("winch")).unwrap();
    assert_eq!(winch["created_at"], "2026-03-10T09:00:02.000000Z", "{winch}");
    let export = place.run(&["export", SESSION, "--format", "claude-code"]).ok();
    assert_eq!(export, transcript());
    // Imported again, and with one more line.
    let grown = transcript() + &user("09:00:08", json!("And the bollard?"));
    assert_eq!(import(&place, &transcript())["added"], 0);
    import(&place, &grown);
    assert_eq!(import(&place, &grown)["added"], 0);
    assert_eq!(place.run(&["export", SESSION, "--format", "claude-code"]).ok(), grown);
    let found = place.run(&["search", "fathoms", "--json"]).json();
    let mut hits: Vec<u64> = found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|hit| hit["snippet"].to_string().contains("fathoms"))
        .filter_map(|hit| hit["position"].as_u64())
        .collect();
    hits.sort_unstable();
    hits.dedup();
    let of = |at: &u64| events[usize::try_from(*at).unwrap()]["type"].clone();
    assert!(hits.iter().all(|at| of(at) != "transcript.entry"), "{found}");
    for word in ["walrus", "hook_additional_context"] {
        let found = place.run(&["search", word, "--json"]).ok();
        assert!(!found.contains("\"position\""), "{word}: {found}");
    }
    let title = sessions(&place)[0]["title"].clone();
    assert!(!title.to_string().contains('<'), "{title}");
}

#[test]
fn an_import_withdraws_recorded_events_of_an_abandoned_branch() {
    let place = Place::new();
    let tell = |name: &str, more: Value| quiet(&place, &claude(name, &more));
    let turn = |n: u32, typed: &str| {
        tell("UserPromptSubmit", json!({ "prompt": typed, "prompt_id": n.to_string() }));
        let call = json!({ "tool_name": "Bash", "tool_use_id": format!("b{n}"),
            "tool_input": { "command": format!("paint {n}") } });
        tell("PreToolUse", call.clone());
        let mut result = call;
        result["tool_response"] = json!({ "stdout": format!("coat {n}"), "stderr": "" });
        tell("PostToolUse", result);
        tell("Stop", json!({ "last_assistant_message": format!("Coat {n} is dry.") }));
    };
    tell("SessionStart", json!({ "source": "startup" }));
    turn(1, "Paint the hull black");
    turn(2, "Paint the mast scarlet");
    // The user withdraws the second prompt where no hook runs.
    let lines = |n: u32, behind: &str, typed: &str| {
        let at = |s: u32| format!("09:{n:02}:{s:02}");
        let input = json!({ "command": format!("paint {n}") });
        let call = json!({ "type": "tool_use", "id": format!("b{n}"), "name": "Bash",
            "input": input });
        let result = json!([{ "type": "tool_result", "tool_use_id": format!("b{n}"),
            "content": format!("coat {n}") }]);
        let said = json!({ "type": "text", "text": format!("Coat {n} is dry.") });
        let all = [
            user(&at(0), json!(typed)),
            agent(&at(1), call),
            user(&at(2), result),
            agent(&at(3), said),
        ];
        let mut parent = behind.to_owned();
        let mut text = String::new();
        for line in all {
            let mut line: Value = serde_json::from_str(&line).unwrap();
            line["parentUuid"] = if parent.is_empty() { Value::Null } else { json!(parent) };
            parent = line["uuid"].as_str().unwrap().to_owned();
            text += &(line.to_string() + "\n");
        }
        (text, parent)
    };
    let (first, end) = lines(1, "", "Paint the hull black");
    let (second, _) = lines(2, &end, "Paint the mast scarlet");
    let (third, _) = lines(3, &end, "Paint the mast white");
    let text = first + &second + &third;
    for again in [false, true] {
        let report = import(&place, &text);
        assert!(!again || report["added"] == 0, "{report}");
        let continuation = place.run(&["view", SESSION, "continuation", "--json"]).ok();
        let window = ["view", SESSION, "window", "--format", "openai", "--json"];
        let window = place.run(&window).json()["messages"].to_string();
        for text in [&continuation, &window] {
            for words in ["scarlet", "paint 2", "coat 2", "Coat 2"] {
                assert!(!text.contains(words), "{again} {words}: {text}");
            }
            assert!(text.contains("hull black") && text.contains("mast white"), "{text}");
        }
        assert!(window.contains("coat 1") && window.contains("coat 3"), "{window}");
    }
    assert_eq!(place.run(&["export", SESSION, "--format", "claude-code"]).ok(), text);
    let events = Value::from(place.events(SESSION)).to_string();
    assert!(events.contains("scarlet") && events.contains("coat 2"), "it stays in the log");
}

#[test]
fn a_resumed_imported_session_imports_its_transcript_again_without_duplicates() {
    let place = Place::new();
    let first = user("08:00:00", json!("Weigh the anchor of the barge"))
        + &agent("08:00:05", json!({ "type": "text", "text": "It is at seven fathoms." }));
    import(&place, &first);
    work(&place);
    let whole = first + &transcript().replace("2026-03-10", "2026-11-27");
    import(&place, &whole);
    assert_eq!(place.run(&["export", SESSION, "--format", "claude-code"]).ok().lines().count(), 10);
    assert_eq!(import(&place, &whole)["added"], 0);
}

#[test]
fn an_import_omits_paused_times_and_excluded_paths() {
    let place = Place::new();
    work(&place);
    let config = place.write("c.toml", "exclude = \"**/vault/**\"\n");
    let text = transcript()
        + &agent(
            "09:00:08",
            json!({ "type": "tool_use", "id": "v1", "name": "Read",
                "input": { "file_path": "/home/ada/proj/vault/tide.txt" } }),
        )
        + &user(
            "09:00:09",
            json!([{ "type": "tool_result", "tool_use_id": "v1", "content": "springtide" }]),
        )
        + &user("09:00:10", json!("The vault is shut"));
    let path = place.write(&format!("{SESSION}.jsonl"), &text);
    let config = config.to_str().unwrap();
    let report =
        place.run(&["import", path.to_str().unwrap(), "--json", "--config", config]).json();
    assert_eq!(report["kept_out"], 2, "{report}");
    let events = json!(place.events(SESSION)).to_string();
    assert!(!events.contains("springtide") && !events.contains("tide.txt"), "{events}");
    assert!(events.contains("The vault is shut"), "{events}");
    // An excluded directory excludes its whole transcript; a pause excludes its time.
    let other = "0198c5d2-f0a0-7a1b-8c3d-000000000002";
    let config = place.write("d.toml", "exclude = \"/home/ada/proj\"\n");
    let text = transcript().replace(SESSION, other);
    let path = place.write(&format!("{other}.jsonl"), &text);
    let config = config.to_str().unwrap();
    let report =
        place.run(&["import", path.to_str().unwrap(), "--json", "--config", config]).json();
    assert_eq!((&report["kept_out"], &report["added"]), (&json!(8), &json!(0)), "{report}");
    place.run(&["pause"]).ok();
    let now = transcript().replace(SESSION, other).replace("2026-03-10", "2999-03-10");
    let path = place.write(&format!("{other}.jsonl"), &now);
    let report = place.run(&["import", path.to_str().unwrap(), "--json"]).json();
    assert_eq!((&report["kept_out"], &report["added"]), (&json!(8), &json!(0)), "{report}");
}

#[test]
fn an_old_transcript_imported_today_is_not_the_latest_work() {
    let place = Place::new();
    work(&place);
    for number in 2..5 {
        let other = format!("0198c5d2-f0a0-7a1b-8c3d-00000000000{number}");
        let text = transcript().replace(SESSION, &other).replace("anchor", "bollard");
        let path = place.write(&format!("{other}.jsonl"), &text);
        place.run(&["import", path.to_str().unwrap()]).ok();
    }
    let restored = place.run(&["handoff", "restore", "/home/ada/proj", "--look", "--json"]).json();
    assert_eq!(restored["continues"], SESSION, "{restored}");
    assert_eq!(restored["notices"].as_array().map_or(0, Vec::len), 0, "{restored}");
    let start = claude("SessionStart", &json!({ "source": "startup" }));
    let (text, data) = told_to_model(&place, &super::of("new", start));
    assert!(data.contains(&format!("(session {SESSION},")), "{data}");
    let (last, others) = text.split_once("\nOther sessions:").unwrap();
    assert!(last.contains("anchor") && !last.contains("bollard"), "{text}");
    assert!(others.contains("bollard"), "{text}");
    assert!(!text.contains("Your user also said in other sessions"), "{text}");
    // A rule holds in whichever transcript its user said it.
    let other = "0198c5d2-f0a0-7a1b-8c3d-000000000005";
    let ruled = transcript().replace(SESSION, other);
    let ruled = ruled.replace("the anchor", "the buoy, and never paint it");
    let path = place.write(&format!("{other}.jsonl"), &ruled);
    place.run(&["import", path.to_str().unwrap()]).ok();
    let start = claude("SessionStart", &json!({ "source": "startup" }));
    let (text, _) = told_to_model(&place, &super::of("newer", start));
    let (last, rules) = text.split_once("\nYour user also said in other sessions").unwrap();
    assert!(last.contains("anchor") && rules.contains("never paint it"), "{text}");
    // A session with events recorded since is the latest work.
    let resumed = "0198c5d2-f0a0-7a1b-8c3d-000000000003";
    let prompt = json!({ "prompt": "Weigh the bollard, too", "prompt_id": "p9" });
    super::hook(&place, &super::of(resumed, claude("UserPromptSubmit", &prompt)));
    let restored = place.run(&["handoff", "restore", "/home/ada/proj", "--look", "--json"]).json();
    assert_eq!(restored["continues"], resumed, "{restored}");
}

#[test]
fn the_files_of_recorded_subagents_add_their_words_and_tokens_once() {
    let place = Place::new();
    let tell = |name: &str, more: Value| quiet(&place, &claude(name, &more));
    let agent = json!({ "subagent_type": "Explore", "description": "Sound the channel" });
    let with = |base: &Value, more: Value| {
        let mut base = base.clone();
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        base
    };
    tell("SessionStart", json!({ "source": "startup" }));
    tell("UserPromptSubmit", json!({ "prompt": "Sound the channel", "prompt_id": "p1" }));
    let start = json!({ "tool_name": "Agent", "tool_use_id": "b1", "tool_input": agent });
    tell("PreToolUse", start.clone());
    let by = json!({ "agent_id": "a1", "agent_type": "Explore" });
    tell("SubagentStart", by.clone());
    let look = json!({ "tool_name": "Bash", "tool_use_id": "b2", "agent_id": "a1",
        "tool_input": { "command": "cat chart.txt" } });
    tell("PreToolUse", look.clone());
    tell("PostToolUse", with(&look, json!({ "tool_response": { "stdout": "six", "stderr": "" } })));
    tell("SubagentStop", with(&by, json!({ "last_assistant_message": "It is six deep." })));
    let answer = json!([{ "type": "text", "text": "Six deep.\nagentId: a1" }]);
    tell("PostToolUse", with(&start, json!({ "tool_response": { "content": answer } })));
    tell("Stop", json!({ "last_assistant_message": "The channel is six deep." }));
    let aside = |line: String| {
        let line = serde_json::from_str::<Value>(&line).unwrap();
        let mut line = with(&line, json!({ "isSidechain": true, "agentId": "a1" }));
        if line["type"] == "assistant" {
            line["message"]["usage"] = json!({ "input_tokens": 30, "output_tokens": 2 });
        }
        line.to_string() + "\n"
    };
    let main = [
        user("09:00:01", json!("Sound the channel")),
        agent_call("09:00:02", "b1", "Agent", &agent),
        user(
            "09:00:06",
            json!([{ "type": "tool_result", "tool_use_id": "b1", "content": answer }]),
        ),
        self::agent("09:00:07", json!({ "type": "text", "text": "The channel is six deep." })),
    ]
    .concat();
    let result = json!([{ "type": "tool_result", "tool_use_id": "b2", "content": "six" }]);
    let file = [
        user("09:00:03", json!("Measure by the buoys")),
        agent_call("09:00:04", "b2", "Bash", &json!({ "command": "cat chart.txt" })),
        user("09:00:05", result),
        self::agent("09:00:05", json!({ "type": "text", "text": "It is six deep." })),
    ];
    let file: String = file.map(aside).concat();
    std::fs::create_dir_all(place.path(&format!("{SESSION}/subagents"))).unwrap();
    place.write(&format!("{SESSION}/subagents/agent-a1.jsonl"), &file);
    let before = place.events(SESSION).len();
    import(&place, &main);
    assert_eq!(import(&place, &main)["added"], 0);
    let events = place.events(SESSION);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(["agent.tool_use", "agent.tool_result", "user.message"].map(count), [2, 2, 1]);
    let said = ["agent.thread_message_sent", "agent.thread_message_received"].map(count);
    assert_eq!((said, count("span.model_request_end")), ([1, 1], 2), "{events:#?}");
    assert_eq!(place.run(&["export", SESSION, "--format", "claude-code"]).ok(), main);
    let usage = place.run(&["view", SESSION, "usage", "--json"]).json();
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(60), &json!(4)));
    // Four lines of either file, the words and reports of the subagent.
    assert_eq!(events.len() - before, 4 + 4 + 2, "{events:#?}");
    let threads = place.run(&["view", SESSION, "threads", "--json"]).json();
    assert_eq!(
        (&threads["threads"][0]["call"], &threads["threads"][0]["calls"]),
        (&json!(2), &json!(1))
    );
}

fn agent_call(at: &str, id: &str, tool: &str, input: &Value) -> String {
    agent(at, json!({ "type": "tool_use", "id": id, "name": tool, "input": input }))
}
