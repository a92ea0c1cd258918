//! First use of the program: it reports what it did and what is lost, and creates no file without a
//! request.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use sessionlog::client::HttpRequest;

use crate::{
    cli::{chat, event, with_id, with_trip},
    program::{McpClient, Place, eventually, lines, signal},
};

#[test]
fn an_import_reports_the_sessions_it_wrote_to() {
    let place = Place::new();
    let file =
        place.write("c.jsonl", &[chat("one", "a", &["x"]), chat("two", "b", &["y"])].join("\n"));
    let file = file.to_str().unwrap();
    let told = place.run(&["import", file]).ok();
    assert!(told.contains("2 sessions (one, two), 2 records: 2 events added, 0 known"), "{told}");
    let told = place.run(&["import", file, "--json"]).json();
    assert_eq!((&told["sessions"], &told["session_ids"]), (&json!(2), &json!(["one", "two"])));
    let own = place.write("own.jsonl", &event("user.message", "c"));
    let told = place.run(&["import", own.to_str().unwrap()]).ok();
    assert!(told.contains("1 session (own), 1 record: 1 event added"), "{told}");
}

#[test]
fn a_demo_that_is_ended_early_leaves_no_files() {
    for wanted in ["1.", "3.", "5."] {
        let place = Place::new();
        std::fs::create_dir(place.path("tmp")).unwrap();
        let mut demo = place.command(&["demo"]).env("TMPDIR", place.path("tmp")).spawn().unwrap();
        let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        let step = lines.find(|line| line.as_ref().unwrap().trim_start().starts_with(wanted));
        assert!(step.is_some(), "{wanted}");
        signal(demo.id().into(), Signal::INT);
        assert_eq!(demo.wait().unwrap().code(), Some(130));
        let left: Vec<_> = std::fs::read_dir(place.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{wanted} {left:?}");
    }
}

#[test]
fn a_verb_that_only_reads_creates_no_store() {
    let place = with_trip();
    let backup = place.path("backup");
    place.run(&["backup", "create", backup.to_str().unwrap()]).ok();
    std::fs::create_dir(place.path("papers")).unwrap();
    place.write("papers/letter.txt", "dear");
    for (name, told) in [("papers", "other files"), ("backup", "backup"), ("absent", "no store")] {
        let directory = place.path(name);
        let names = || {
            let inside = std::fs::read_dir(&directory).into_iter().flatten().flatten();
            inside.map(|entry| entry.file_name()).collect::<BTreeSet<_>>()
        };
        let before = names();
        for verb in [&["sessions"][..], &["show", "trip"], &["delete", "trip"], &["verify"]] {
            let ran = place.run(&[verb, &["--data-dir", directory.to_str().unwrap()]].concat());
            assert!(ran.code == 1 && ran.err.contains(told), "{name} {verb:?}: {ran:?}");
        }
        assert_eq!(names(), before, "{name}");
    }
    let empty = Place::new();
    let ran = empty.run(&["sessions"]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("No sessions yet"), "{ran:?}");
}

#[test]
fn the_program_alone_shows_ten_verbs_and_view_alone_the_overview() {
    let place = with_trip();
    let ran = place.run(&[]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    let verbs = ran.out.lines().filter(|line| line.starts_with("  ")).count();
    assert!(verbs == 10 && ran.out.contains("sessionlog --help"), "{ran:?}");
    let index = place.run(&["view", "trip", "index"]).ok();
    assert_eq!(place.run(&["view", "trip"]).ok(), index);
    assert_eq!(place.run(&["tokens"]).code, 2);
}

#[test]
fn a_list_counts_its_hidden_sessions_and_shows_them_on_request() {
    let place = with_trip();
    place.run_with(&["append", "old", "--create"], &event("user.message", "x")).ok();
    place.run(&["archive", "old"]).ok();
    place.run(&["delete", "trip", "--yes"]).ok();
    let ran = place.run(&["ls"]);
    assert!(ran.code == 0 && ran.out.is_empty(), "{ran:?}");
    for told in ["1 deleted (`sessionlog sessions --deleted`)", "1 archived (`sessionlog sessions"]
    {
        assert!(ran.err.contains(told), "{told}: {ran:?}");
    }
    let deleted = place.run(&["ls", "--deleted"]).ok();
    assert!(deleted.starts_with("trip\tdeleted\t2") && deleted.lines().count() == 1, "{deleted}");
    assert_eq!(place.run(&["ls", "--deleted", "--json"]).json()[0]["session"], "trip");
    assert!(place.run(&["ls", "--archived"]).ok().starts_with("old\t"));
    // A session that expired by its own limit.
    let server = place.serve();
    let body = r#"{"id": "short", "ttl_seconds": 1}"#.to_owned();
    let request = HttpRequest::post("/v1/sessions").body(body, "application/json");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.client().send(request)).unwrap();
    eventually("its end", || {
        place.run(&["retention"]).ok().contains("expired short").then_some(())
    });
    let ran = place.run(&["ls"]);
    assert!(ran.err.contains("1 expired (`sessionlog sessions --deleted`)"), "{ran:?}");
    assert!(place.run(&["ls", "--deleted"]).ok().contains("short\texpired\t"));
}

#[test]
fn a_diff_counts_the_tokens_that_a_model_reads() {
    let place = Place::new();
    let words = "one two three four five";
    place.run_with(&["append", "s", "--create"], &event("user.message", words)).ok();
    let told = place.run(&["diff", "s", "0", "end", "--json"]).json();
    let tokens = told["window"]["to"]["tokens"].as_u64().unwrap();
    assert!(tokens < 40, "{told}");
}

#[test]
fn an_event_tool_rejects_an_unknown_argument_by_its_name() {
    let place = with_trip();
    let mut client = McpClient::start(&place, &["--toolsets", "events"]);
    let wrong = json!({ "sessionId": "trip", "type": "a.b", "content": "x" });
    let said = client.refused("emit_event", &wrong);
    assert!(said.starts_with("type: unknown field `type`"), "{said}");
}

#[test]
fn a_list_is_filtered_and_a_session_renamed_and_archived() {
    let place = with_trip();
    let ids = |arguments: &[&str]| {
        let listed = place.run(&[&["ls"], arguments].concat()).ok();
        listed.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--since", "1h"]), ["trip"]);
    assert_eq!(ids(&["--until", "1h"]), [""; 0]);
    assert_eq!(
        ids(&["--until", "2999-01-01T00:00:00Z", "--since", "2020-01-01T00:00:00Z"]),
        ["trip"]
    );
    assert_eq!(place.run(&["ls", "--since", "soon"]).code, 2);
    assert_eq!(ids(&["--state", "running,idle"]), ["trip"]);
    let none = place.run(&["ls", "--state", "rescheduling"]);
    assert!(none.code == 0 && none.err.contains("No session matches"), "{none:?}");
    let told = place.run(&["rename", "trip", "A week in Ghent"]).ok();
    assert_eq!(told, "renamed trip: A week in Ghent\n");
    assert_eq!(place.run(&["show", "trip", "--json"]).json()["title"], "A week in Ghent");
    place.run(&["rename", "trip", ""]).ok();
    assert_eq!(place.run(&["show", "trip", "--json"]).json()["title"], Value::Null);
    place.run(&["archive", "trip"]).ok();
    assert_eq!(ids(&[]), [""; 0]);
    assert_eq!(ids(&["--archived"]), ["trip"]);
    let refused = place.run_with(&["append", "trip"], &event("a.b", "x"));
    assert!(refused.code == 1 && refused.err.contains("unarchive"), "{refused:?}");
    assert!(place.run(&["unarchive", "trip"]).ok().contains("can be written again"));
    place.run_with(&["append", "trip"], &event("a.b", "x")).ok();
    assert_eq!(ids(&[]), ["trip"]);
    let call = json!({
        "session_id": "agent", "hook_event_name": "UserPromptSubmit", "prompt": "Mend it",
        "cwd": "/w",
    });
    place.run_with(&["hook"], &call.to_string()).ok();
    assert_eq!(ids(&["--client", "claude-code"]), ["agent"]);
    assert_eq!(ids(&["--client", "codex"]), [""; 0]);
    let tagged = place.run(&["tag", "trip", "team=travel", "budget=none = 0"]).ok();
    assert_eq!(tagged, "trip has the tags budget=none = 0 team=travel\n");
    assert_eq!(ids(&["--tag", "team=travel", "--tag", "budget=none = 0"]), ["trip"]);
    assert_eq!(ids(&["--tag", "team=travel", "--client", "claude-code"]), [""; 0]);
    assert_eq!(place.run(&["tag", "trip", "budget="]).ok(), "trip has the tags team=travel\n");
    assert_eq!(place.run(&["tag", "trip", "team="]).ok(), "trip has no tags\n");
    assert_eq!(place.run(&["tag", "trip", "team"]).code, 2);
}

#[test]
fn a_session_is_exported_as_a_document_without_secrets() {
    let place = Place::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let long = "line of output\n".repeat(900);
    let events = [
        json!({ "type": "user.message", "content": "Deploy <private>at noon</private> please" }),
        json!({ "type": "agent.tool_use", "name": "Bash", "call_id": "c",
            "input": { "command": format!("curl -H 'Authorization: token {token}' x") } }),
        json!({ "type": "agent.tool_result", "call_id": "c", "content": format!("```\n{long}") }),
        json!({ "type": "agent.message", "content": "It is deployed." }),
        json!({ "type": "transcript.entry", "entry": {} }),
    ];
    let lines = events.map(|event| event.to_string()).join("\n");
    place.run_with(&["append", "s", "--create"], &lines).ok();
    let ran = place.run(&["export", "s", "--format", "md"]);
    let text = ran.out.clone();
    ran.ok();
    assert!(text.starts_with("# Deploy \\[private\\] please\n"), "{text}");
    for part in [
        "- session: `s`",
        "\n## User\n",
        "\n## Agent\n",
        "It is deployed.",
        "\n### Call of `Bash`\n",
        "[redacted:",
        "````\n```\nline of output",
        "characters …]",
        "Not shown: 1 event of the recording itself.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(&token) && !text.contains("noon") && text.len() < 6_000, "{text}");
}

#[test]
fn a_changed_file_is_traced_to_the_sessions_and_prompts_that_changed_it() {
    let place = Place::new();
    let at = |name: &str| place.path(name).display().to_string();
    std::fs::create_dir_all(place.path("repo/.git")).unwrap();
    let file = place.write("repo/a.rs", "fn main() {}\n");
    let hook = |session: &str, name: &str, mut more: Value| {
        more["session_id"] = json!(session);
        more["hook_event_name"] = json!(name);
        more["cwd"] = json!(at("repo"));
        place.run_with(&["hook"], &more.to_string()).ok();
    };
    for (session, prompt, tool, input, answer) in [
        ("one", "Write the program", "Write", json!({ "file_path": at("repo/a.rs") }), "ok"),
        ("two", "Rename it", "Bash", json!({ "command": "sed -i s/x/y/ a.rs" }), "ok"),
        ("three", "Read it", "Read", json!({ "file_path": at("repo/a.rs") }), "ok"),
        ("four", "Change b", "Edit", json!({ "file_path": at("repo/b.rs") }), "ok"),
    ] {
        hook(session, "UserPromptSubmit", json!({ "prompt": prompt }));
        let call = json!({ "tool_name": tool, "tool_use_id": session, "tool_input": input });
        hook(session, "PreToolUse", call.clone());
        let mut result = call;
        result["tool_response"] = json!({ "stdout": answer, "stderr": "" });
        hook(session, "PostToolUse", result);
    }
    let found = place.run(&["why", file.to_str().unwrap(), "--json"]).json();
    let data = found["data"].as_array().unwrap();
    let rows: Vec<_> =
        data.iter().map(|one| (&one["session"], &one["tool"], &one["asked"]["text"])).collect();
    assert_eq!(
        rows,
        [
            (&json!("two"), &json!("Bash"), &json!("Rename it")),
            (&json!("one"), &json!("Write"), &json!("Write the program")),
        ]
    );
    let told = place.run(&["why", file.to_str().unwrap()]).ok();
    assert!(told.contains("asked at 0: Write the program"), "{told}");
    let none = place.run(&["why", &at("repo/c.rs")]);
    assert!(none.code == 0 && none.err.contains("No recorded call changed"), "{none:?}");
}

#[test]
fn a_change_after_going_back_names_no_withdrawn_request() {
    let place = Place::new();
    let edit = |n: u8| {
        let call = json!({"type": "agent.tool_use", "call_id": format!("c{n}"), "name": "Edit",
            "input": {"file_path": "/work/a.rs", "old_string": "a", "new_string": "b"}});
        let result = json!({"type": "agent.tool_result", "call_id": format!("c{n}"),
            "content": "done"});
        [call, result]
    };
    let said = |text: &str| json!({"type": "user.message", "content": text});
    let mut events = vec![said("Add a parser")];
    events.extend(edit(1));
    events.push(said("Rewrite every module with the new framework"));
    events.extend(edit(2));
    events.push(said("Yes, go ahead"));
    events.extend(edit(3));
    events.push(said("Do it right"));
    events.extend(edit(4));
    // An import lists what was withdrawn at its end.
    events.push(json!({"type": "context.rewound", "withdrawn": [{"from": 3, "to": 6}]}));
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    place.run_with(&["append", "s", "--create"], &lines.join("\n")).ok();
    let found = place.run(&["why", "/work/a.rs", "--json"]).json();
    let changes = found["data"].as_array().unwrap();
    let asked: Vec<_> = changes.iter().map(|one| one["asked"]["text"].as_str().unwrap()).collect();
    let withdrawn = "Rewrite every module with the new framework";
    assert_eq!(asked, ["Add a parser", withdrawn, "Add a parser", "Do it right"]);
}

#[test]
fn a_history_shows_whole_lines_and_marks_shortened_titles() {
    let place = Place::new();
    let words = "please mend the build of the whole project, which fails since the merge of May";
    let never = "and never push with --force to a branch that other people work on, whatever";
    let say = |role: &str, text: &str| json!({ "role": role, "content": text });
    let messages = [say("user", &format!("{words} {words}")), say("user", never)];
    let file = place.write("c.jsonl", &json!({ "id": "c", "messages": messages }).to_string());
    place.run(&["import", file.to_str().unwrap()]).ok();
    let title = place.run(&["show", "c", "--json"]).json()["title"].as_str().unwrap().to_owned();
    assert!(title.ends_with('…') && title.chars().count() <= 80, "{title}");
    let history = place.run(&["history"]).ok();
    assert!(history.contains(never), "{history}");
    // A heading without a line below it is omitted.
    let plan = json!({ "type": "plan.updated", "steps": [{ "title": "mend", "status": "todo" }] });
    let said = ["mend it", "and the door", "and the roof"].map(|text| event("user.message", text));
    place.run_with(&["append", "p", "--create"], &format!("{}\n{plan}", said.join("\n"))).ok();
    let history = place.run(&["history"]).ok();
    let lines: Vec<&str> = history.lines().map(str::trim).collect();
    let is_bare = |pair: &&[&str]| pair[0].ends_with(':') && !pair[1].starts_with("- ");
    assert_eq!(lines.windows(2).find(is_bare), None, "{history}");
    assert!(history.contains("- and the roof"), "{history}");
    // A title that equals the goal is shown once.
    place.run_with(&["append", "s", "--create"], &event("user.message", "mend it")).ok();
    place.run(&["rename", "s", "mend it"]).ok();
    assert_eq!(place.run(&["show", "s"]).ok().matches("mend it").count(), 1);
}

#[test]
fn a_wrong_argument_is_reported_with_its_location() {
    let place = with_trip();
    let lines = [event("a.b", "c"), "{}".to_owned()].join("\n");
    let ran = place.run_with(&["append", "trip"], &lines);
    assert!(ran.err.contains("line 2: type: it is missing"), "{ran:?}");
    assert_eq!(place.run(&["view", "trip", "window", "--transform", "nonsense"]).code, 2);
    let ran = place.run(&["rewind", "trip", "--to", "time:2999-01-01T00:00:00Z"]);
    assert!(ran.code == 4 && ran.err.contains("is in the future"), "{ran:?}");
    // The session has nothing to repair, and the verb accepts the flag of other verbs.
    place.run(&["repair", "trip", "--accept-loss", "--yes"]).ok();
    // An empty variable counts as unset.
    let mut command = place.command(&["ls"]);
    for name in ["URL", "CONFIG", "TTL", "OWNER_IDLE", "TOKEN"] {
        command.env(format!("SESSIONLOG_{name}"), "");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The command prints each page that the manual names.
    let manual = place.run(&["man"]).ok();
    let pages = manual.lines().filter_map(|line| line.strip_prefix("sessionlog\\-"));
    let verbs: Vec<&str> = pages.filter_map(|line| line.strip_suffix("(1)")).collect();
    assert!(verbs.len() > 30, "{manual}");
    for verb in [verbs[0], verbs[20]] {
        let page = place.run(&["man", verb]).ok();
        assert!(page.contains(&format!("sessionlog\\-{verb} \\- ")), "{page}");
    }
    assert_eq!(place.run(&["man", "nonsense"]).code, 2);
    for verb in [&["checkpoints", "trip", "--create"][..], &["cursors", "trip", "--put", "me"]] {
        place.run(verb).ok();
        let shown = place.run(&verb[..2]).ok();
        let day = shown.split(['\t', '\n']).find(|cell| cell.starts_with("20"));
        assert!(day.is_some_and(|day| day.contains('T') && day.ends_with('Z')), "{shown}");
    }
}

#[test]
fn an_empty_session_list_names_its_workspace() {
    let place = Place::new();
    place.run_with(&["append", "s", "--create"], r#"{"type": "user.message"}"#).ok();
    let ran = place.run(&["sessions", "--workspace", "/w/shop"]);
    assert!(ran.code == 0 && ran.err.contains("No session in workspace /w/shop"), "{ran:?}");
}

#[test]
fn a_compaction_is_printed_with_or_without_the_ranges_that_it_kept() {
    let place = Place::new();
    let lines = [
        json!({ "type": "user.message" }),
        json!({ "type": "user.message" }),
        json!({ "type": "context.compacted", "kept": [[1, 2]] }),
        json!({ "type": "context.compacted" }),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    place.run_with(&["append", "s", "--create"], &lines).ok();
    let shown = place.run(&["view", "s", "compactions"]).ok();
    assert_eq!(shown.matches("the client said what it kept").count(), 1, "{shown}");
    assert_eq!(shown.matches("did not say what it dropped").count(), 1, "{shown}");
}

#[test]
fn a_line_that_is_already_stored_or_repeated_is_not_counted_as_appended() {
    let place = Place::new();
    let append = |arguments: &[&str], lines: &[String]| {
        let arguments = [&["append", "s", "--create"], arguments].concat();
        place.run_with(&arguments, &lines.join("\n")).ok()
    };
    let (a, b, c) = (with_id("a", "a"), with_id("b", "b"), with_id("c", "c"));
    assert_eq!(append(&[], std::slice::from_ref(&a)), "appended 1 event to s at 0..1\n");
    assert_eq!(append(&[], std::slice::from_ref(&a)), "appended 0 events to s, 1 known\n");
    assert_eq!(append(&[], &[a, b]), "appended 1 event to s at 1..2, 1 known\n");
    let plain = [event("user.message", "plain")];
    let key = ["--idempotency-key", "k"];
    assert_eq!(append(&key, &plain), "appended 1 event to s at 2..3\n");
    assert_eq!(append(&key, &plain), "appended 0 events to s, 1 known\n");
    // Lines with one key are one batch, at any speed of input.
    let key = ["--idempotency-key", "twice"];
    let twice = [c.clone(), c, with_id("end", "end")];
    assert_eq!(append(&key, &twice), "appended 2 events to s at 3..5, 1 known\n");
    let other = [with_id("d", "one"), with_id("d", "other")].join("\n");
    let ran = place.run_with(&["append", "s", "--idempotency-key", "o", "--json"], &other);
    assert_eq!(ran.refused(1), "idempotency_conflict");
}

/// Checks that each way to read the session reports its lost events at their positions.
pub fn lost_events_are_told_in_their_place(place: &Place) {
    let exported = lines(&place.run(&["export", "trip"]).ok());
    let positions = |line: &Value| [&line["position"], &line["from"]].map(Value::as_u64);
    let order: Vec<Option<u64>> =
        exported.iter().flat_map(positions).filter(Option::is_some).collect();
    assert!(order.is_sorted() && order.len() == exported.len(), "{exported:?}");
    let gap = exported.iter().find(|line| line["type"] == "gap");
    let gap = gap.unwrap_or_else(|| panic!("{exported:?}"));
    assert!(gap["accepted_at"].is_string() && gap["reason"].is_string(), "{gap}");
    let range = format!("{}..{}", gap["from"], gap["to"]);
    let replayed = place.run(&["replay", "trip"]).ok();
    assert!(replayed.contains(&range), "{range}: {replayed}");
    let events = exported.len() - exported.iter().filter(|line| line["type"] == "gap").count();
    let limit = events.to_string();
    let followed = ["events", "trip", "--follow", "--from", "0", "--limit", &limit];
    assert_eq!(lines(&place.run(&followed).ok()), exported);
    let chat = place.run(&["export", "trip", "--format", "openai"]);
    assert!(chat.code == 0 && chat.err.contains(&range), "{chat:?}");
}

#[test]
fn an_unknown_flag_suggests_a_flag_that_the_help_of_the_verb_shows_and_no_other() {
    let place = Place::new();
    for (arguments, suggested) in [
        (&["search", "--all", "x"][..], None),
        (&["search", "--lisen", "x"], None),
        (&["serve", "--lisen", "x"], Some("--listen")),
        (&["search", "--worksp", "x"], Some("--workspace")),
        (&["backup", "create", "--jsn"], Some("--json")),
        (&["--jsn", "sessions"], Some("--json")),
    ] {
        let refused = place.run(arguments);
        assert_eq!(refused.code, 2, "{refused:?}");
        let tip = refused.err.lines().find(|line| line.contains("similar argument exists"));
        assert_eq!(tip.is_some(), suggested.is_some(), "{arguments:?}: {refused:?}");
        assert!(tip.is_none_or(|tip| tip.contains(suggested.unwrap())), "{arguments:?}: {tip:?}");
    }
}

#[test]
fn a_hit_says_how_often_the_same_was_said() {
    let place = Place::new();
    for (count, words) in [(2, ", the same once more"), (3, ", the same 2 times more")] {
        let said = event("user.message", "deploy the frobnicator");
        let session = format!("s{count}");
        place.run_with(&["append", &session, "--create"], &vec![said; count].join("\n")).ok();
        let found = place.run(&["search", "frobnicator", "--session", &session]).ok();
        assert!(found.contains(words), "{found}");
    }
}
