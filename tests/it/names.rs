//! Sessions listed and selected by a prefix of their ids, and the health of the store, on the
//! command line.

use serde_json::{Value, json};

use crate::{
    cli::{event, with_trip},
    program::Place,
    pty::Terminal,
};

fn on_terminal(place: &Place, arguments: &[&str], size: (u16, u16)) -> Vec<String> {
    Terminal::start(place.command(arguments), size).end().lines()
}

#[test]
fn a_session_without_a_title_is_listed_by_its_first_prompt_on_one_line() {
    let place = Place::new();
    let prompt = "Plan a walk in Ghent that passes three museums and ends at the harbour, please";
    let started = json!({"type": "session.status_running"}).to_string();
    let id = "ses_0198c5d2f0a07a1b8c3d4e5f60718293";
    place
        .run_with(&["append", id, "--create"], &[started, event("user.message", prompt)].join("\n"))
        .ok();
    place.run(&["fork", id, "--at", "end", "--id", "own", "--title", "Named by hand"]).ok();
    let start = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": "9b7d7d53-0b0e-4f53-8d5c-0d6d3c4f1a11",
        "cwd": place.path("").to_str().unwrap(), "prompt": "Fix the flaky test",
        "transcript_path": place.path("t.jsonl").to_str().unwrap(),
    });
    place.run_with(&["hook"], &start.to_string()).ok();
    let piped = place.run(&["ls"]).ok();
    for title in [prompt, "Named by hand", "Fix the flaky test"] {
        assert!(piped.lines().any(|line| line.ends_with(title)), "{title}: {piped}");
    }
    assert!(piped.lines().all(|line| line.split('\t').nth(3).unwrap().ends_with('Z')), "{piped}");
    for (columns, whole) in [(80, false), (200, true)] {
        let lines = on_terminal(&place, &["list"], (columns, 24));
        assert_eq!(lines.len(), 4, "{lines:#?}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= usize::from(columns)),
            "{lines:#?}"
        );
        assert_eq!(lines.iter().any(|line| line.contains(id)), whole, "{lines:#?}");
        assert_eq!(lines.iter().any(|line| line.ends_with(prompt)), whole, "{lines:#?}");
        assert!(lines[1..].iter().all(|line| line.contains("just now") || line.contains(" ago")));
    }
    assert_eq!(place.run(&["sessions", "-n", "1"]).ok().lines().count(), 1);
}

#[test]
fn a_list_of_many_pages_is_one_json_document() {
    let place = Place::new();
    let chats: Vec<String> = (0..1_001)
        .map(|n| {
            json!({"id": format!("c{n}"), "messages": [{"role": "user", "content": "hi"}]})
                .to_string()
        })
        .collect();
    let file = place.write("chats.jsonl", &chats.join("\n"));
    place.run(&["import", file.to_str().unwrap()]).ok();
    let all = place.run(&["sessions", "--json"]).json();
    assert_eq!((all["data"].as_array().unwrap().len(), &all["next_page"]), (1_001, &Value::Null));
    let some = place.run(&["sessions", "--json", "-n", "3"]).json();
    assert!(some["data"].as_array().unwrap().len() == 3 && some["next_page"].is_string(), "{some}");
}

#[test]
fn a_unique_prefix_of_an_id_selects_the_session_but_creates_none() {
    let place = with_trip();
    place.run(&["fork", "trip", "--at", "end", "--id", "travel-notes"]).ok();
    place.run(&["fork", "trip", "--at", "end", "--id", "trainset"]).ok();
    let two = event("user.message", "x");
    assert_eq!(place.run(&["events", "trav"]).ok().lines().count(), 3);
    assert!(place.run(&["show", "travel"]).ok().contains("travel-notes"));
    assert!(place.run_with(&["append", "travel"], &two).ok().contains("to travel-notes at 3..4"));
    assert!(
        place
            .run(&["fork", "trav", "--at", "1", "--id", "tra"])
            .ok()
            .contains("created tra from travel-notes")
    );
    assert_eq!(place.run(&["events", "tra"]).ok().lines().count(), 1, "an exact id comes first");
    let many = place.run(&["show", "tr"]);
    assert_eq!(many.code, 2, "{many:?}");
    for id in ["trip", "travel-notes", "trainset"] {
        assert!(many.err.contains(id), "{many:?}");
    }
    place.run_with(&["append", "trave", "--create"], &two).ok();
    assert_eq!(place.run(&["events", "trave"]).ok().lines().count(), 1, "a new session");
}

#[test]
fn an_unknown_id_is_rejected_with_a_list_of_similar_ids() {
    let place = with_trip();
    let ran = place.run(&["show", "tirp"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.err.contains("session \"tirp\" not found") && ran.err.contains("did you mean trip?")
    );
    let ran = place.run_with(&["append", "newone"], &event("user.message", "x"));
    assert!(ran.code == 4 && ran.err.contains("--create"), "{ran:?}");
    assert_eq!(place.run(&["erase", "other", "--yes", "--json"]).refused(4), "session_not_found");
    let past = place.run(&["fork", "trip", "--at", "5000"]);
    assert!(past.err.contains("position 5000 is out of range (tail is 3)"), "{past:?}");
}

#[test]
fn status_fits_one_screen_and_doctor_reports_every_fault() {
    let place = Place::new();
    let empty = place.run(&["status", "--json"]).json();
    assert_eq!((&empty["exists"], &empty["sessions"]), (&json!(false), &json!(0)), "{empty}");
    assert!(!place.data_dir().exists(), "looking makes no store");
    let place = with_trip();
    let status = place.run(&["status", "--json"]).json();
    assert_eq!((&status["sessions"], &status["encrypted"]), (&json!(1), &json!(false)), "{status}");
    assert_eq!(status["owner"]["pid"].as_u64(), place.owner_pid());
    assert!(
        status["bytes_on_disk"].as_u64() > Some(0) && status["bytes_free"].is_u64(),
        "{status}"
    );
    let lines = on_terminal(&place, &["status"], (80, 24));
    assert!(lines.len() <= 24 && lines.iter().any(|line| line.starts_with("sessions       1")));
    // The journal is preallocated; the server has no address.
    let told = lines.join("\n");
    assert!(told.contains("of it the journal's files") && told.contains("url            none"));
    place.kill_owner();
    let alone = place.run(&["status", "--json"]).json();
    assert_eq!((&alone["owner"], &alone["sessions"]), (&Value::Null, &Value::Null), "{alone}");
    assert_eq!(place.owner_pid(), None, "looking starts no owner");
    let server = place.serve();
    let told = place.run(&["status"]).ok();
    assert!(told.contains(&format!("url            {}\n", server.url)), "{told}");
    server.stop();
    let healthy = place.run(&["doctor", "--json"]).json();
    assert_eq!(healthy["ok"], json!(true), "{healthy}");
    place.run(&["install", "claude-code", "--yes"]).ok();
    assert_eq!(place.run(&["doctor"]).code, 0);
    let state = place.path(".claude.json").display().to_string();
    let program = env!("CARGO_BIN_EXE_sessionlog");
    // A path is not broken, at any width of the terminal.
    let shown = on_terminal(&place, &["doctor"], (60, 24));
    assert!(shown.iter().any(|line| line.starts_with("ok    tools of claude")), "{shown:?}");
    for path in [state.as_str(), program] {
        assert!(shown.iter().any(|line| line.contains(path)), "{path}: {shown:?}");
    }
    let settings = place.path(".claude/settings.json");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("/sessionlog ", "/gone/sessionlog ")).unwrap();
    let sick = place.run(&["doctor"]);
    assert_eq!(sick.code, 1, "{sick:?}");
    assert!(sick.out.contains("fail  hooks of claude"), "{sick:?}");
    assert!(sick.out.contains("to do: run `sessionlog install claude-code --yes`"), "{sick:?}");
    let json = place.run(&["doctor", "--json"]);
    let told: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &told["ok"]), (1, &json!(false)), "{told}");
}

#[test]
fn a_shell_completes_verbs_flags_and_session_ids() {
    let place = Place::new();
    for id in ["trip-ghent", "trip-oslo", "other"] {
        place.run_with(&["append", id, "--create"], &event("user.message", "x")).ok();
    }
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_sessionlog")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let complete = |words: &str| {
        let last = words.rsplit(' ').next().unwrap();
        let script = format!(
            "source <(sessionlog completions bash); COMP_WORDS=({words} {}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _clap_complete_sessionlog sessionlog '{last}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            if last.is_empty() { "''" } else { "" },
        );
        let mut bash = place.program("bash", &["-c", &script]);
        let output = bash.env("PATH", &path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(complete("sessionlog show tr"), ["trip-oslo", "trip-ghent"]);
    assert_eq!(complete("sessionlog --json events ot"), ["other"]);
    assert_eq!(complete("sessionlog rest"), ["restore"]);
    assert_eq!(complete("sessionlog delete --no"), ["--now", "--no-pager"]);
    // Bash splits a word at its colons.
    assert_eq!(complete("sessionlog fork other --at checkpoint : "), [""]);
    assert_eq!(complete("sessionlog fork other --at checkpoint :"), [""]);
    let elsewhere = format!("sessionlog --data-dir {} show tr", place.path("none").display());
    assert_eq!(complete(&elsewhere), [""]);
}
