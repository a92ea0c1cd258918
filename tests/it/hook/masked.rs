//! Secrets in every member of hook events: escaped, in a branch's name, in the lines of a patch, in
//! a truncated input, and in the text given to a model. Each test reads every file.

use std::fs;

use serde_json::json;

use super::{PATIENT, SESSION, claude, private::holding, quiet, told_to_model};
use crate::program::Place;

/// Returns a token that is in no file of this project, and the part of it to search for.
fn token(at: usize) -> (String, String) {
    let random: String =
        (0..36).map(|n| char::from(b'a' + ((n * 7 + at * 5 + n / 5) % 26) as u8)).collect();
    (format!("ghp_{random}"), random[8..].to_owned())
}

/// Creates a place without compression, so that a search finds text in a file.
fn place() -> Place {
    let place = Place::new();
    let config = place.path(".config/sessionlog");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("sessionlog.toml"), "compression = \"off\"\n").unwrap();
    place
}

#[test]
fn a_token_is_in_no_file_for_every_escape_and_member() {
    let place = place();
    let (tokens, parts): (Vec<String>, Vec<String>) = (0..14).map(token).unzip();
    let unicode = |text: &str| text.replace('_', "\\u005f");
    let result = json!({
        "tool_name": "Bash", "tool_use_id": "t1",
        "tool_input": {
            "command": format!("echo 'a\\n{}'", tokens[0]), "description": unicode(&tokens[1]),
        },
        "tool_response": {
            "stdout": format!("Answer: {}", json!({ "out": format!("x\n{}", tokens[2]) })),
            "stderr": format!("%22token%22%3A%22{}%22", tokens[3]),
            (tokens[4].clone()): [{ "title": [format!("-\\t{}", tokens[5])] }],
        },
        "agent_type": unicode(&tokens[6]),
    });
    quiet(&place, &claude("PostToolUse", &result));
    quiet(&place, &claude("PreCompact", &json!({ "summary": { "of": unicode(&tokens[7]) } })));
    let directory = format!("/home/ada/{}", tokens[8]);
    quiet(&place, &claude("UserPromptSubmit", &json!({ "prompt": "Go on", "cwd": directory })));
    let transcript = place.path("t.jsonl");
    let line = json!({
        "type": "assistant", "uuid": "u1", "parentUuid": tokens[9], "sessionId": SESSION,
        "gitBranch": format!("fix/{}", tokens[10]), "timestamp": "2026-11-20T09:00:00Z",
        "message": { "id": tokens[11], "model": tokens[12], "role": "assistant",
            "content": [{ "type": "text", "text": format!("It says {}", unicode(&tokens[13])) }],
            "usage": { "input_tokens": 3 } },
    });
    fs::write(&transcript, format!("{line}\n")).unwrap();
    let stop = json!({ "transcript_path": transcript.to_str().unwrap() });
    quiet(&place, &claude("Stop", &stop));
    let events = place.events(SESSION);
    assert_eq!(events.last().unwrap()["git_branch"], "fix/[redacted:github-token]", "{events:#?}");
    let said = events.iter().find(|event| event["type"] == "agent.message").unwrap();
    assert_eq!(said["content"], "It says [redacted:github-token]");
    assert_eq!(said["redactions"]["github-token"], 2, "{said}");
    assert!(!holding(&place, &["redacted:github-token"], &[]).is_empty(), "files are readable");
    let words: Vec<&str> = parts.iter().map(String::as_str).collect();
    assert_eq!(holding(&place, &words, &["t.jsonl"]), Vec::<String>::new());
    // The directory that the program reports separately from the event.
    let prompt = claude("UserPromptSubmit", &json!({ "prompt": "Again" })).to_string();
    let mut command = place.command(&["hook", "--hook-wait", PATIENT]);
    command.env("CLAUDE_PROJECT_DIR", &directory).stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(
        &mut child.stdin.take().unwrap(),
        super::of("two", serde_json::from_str(&prompt).unwrap()).to_string().as_bytes(),
    )
    .unwrap();
    crate::program::ran(child).ok();
    assert_eq!(place.events("two").len(), 1);
    assert_eq!(holding(&place, &words, &["t.jsonl"]), Vec::<String>::new());
}

#[test]
fn a_private_span_is_in_no_file_for_every_spelling_of_its_tag() {
    let place = place();
    let long =
        format!("<private why=\"{}\" and='>'>aardvark-1</private>", "so > it is ".repeat(40));
    for (at, text) in [
        &*long,
        "<private/>aardvark-2</private>",
        "<PRIVATE note='aardvark-3'/>aardvark-3",
        "<private\n\twhy=\"aardvark-4",
        "&lt;private a=&quot;>&quot;&gt;aardvark-5&lt;/private&gt;",
        "\\u003cprivate why=\\\"x\\\"\\u003eaardvark-6\\u003c\\/private\\u003e",
        "%3Cprivate%20why%3D%22x%22%3Eaardvark-7%3C%2Fprivate%3E",
        "<private a=it's>aardvark-8<private/>aardvark-8</private>aardvark-8</private>",
    ]
    .into_iter()
    .enumerate()
    {
        let prompt = json!({ "prompt": format!("Before {text}"), "prompt_id": at.to_string() });
        quiet(&place, &claude("UserPromptSubmit", &prompt));
    }
    let lines = json!(["+<private>", "+aardvark-9", "+</private>", "+after"]);
    let patch = json!({
        "tool_name": "Edit", "tool_use_id": "t", "tool_input": { "file_path": "a" },
        "tool_response": { "structuredPatch": [{ "oldStart": 1, "oldLines": 0, "newStart": 1,
            "newLines": 4, "lines": lines }] },
    });
    quiet(&place, &claude("PostToolUse", &patch));
    let events = place.events(SESSION);
    for event in &events[..8] {
        assert_eq!(event["content"], "Before [private]", "{event}");
    }
    assert!(events[8]["content"].as_str().unwrap().ends_with("[private]\n+after\n"), "{events:#?}");
    assert_eq!(holding(&place, &["aardvark"], &[]), Vec::<String>::new());
}

#[test]
fn a_private_key_in_a_patch_is_in_no_file() {
    let place = place();
    let body: Vec<String> =
        (0..8).map(|at| (token(at).0 + &token(at + 9).0)[..64].replace('_', "/")).collect();
    for (sign, begins) in [("+", 0), ("-", 3), (" ", 5)] {
        let mut lines = vec![format!("{sign}-----BEGIN OPENSSH {} KEY-----", "PRIVATE")];
        lines.extend(body.iter().map(|line| format!("{sign}{line}")));
        lines.push(format!("{sign}-----END OPENSSH {} KEY-----", "PRIVATE"));
        let hunk = json!({ "oldStart": 1, "oldLines": 9, "newStart": 1, "newLines": 9,
            "lines": lines[begins..] });
        let patch = json!({
            "tool_name": "Edit", "tool_use_id": format!("t{begins}"),
            "tool_input": { "file_path": "key" }, "tool_response": { "structuredPatch": [hunk] },
        });
        quiet(&place, &claude("PostToolUse", &patch));
    }
    let events = place.events(SESSION);
    assert!(events.iter().all(|event| event["redactions"]["private-key"] == 1), "{events:#?}");
    let words: Vec<&str> = body.iter().map(String::as_str).collect();
    assert_eq!(holding(&place, &words, &[]), Vec::<String>::new());
}

#[test]
fn a_model_receives_no_secret_stored_through_another_interface() {
    let place = place();
    let (token, part) = token(3);
    let prompt = claude("UserPromptSubmit", &json!({ "prompt": "Fix the tax", "prompt_id": "1" }));
    quiet(&place, &prompt);
    let event = json!({ "type": "user.message", "content": format!("Use {token} for it") });
    place.run_with(&["append", SESSION], &event.to_string()).ok();
    quiet(&place, &claude("PostCompact", &json!({ "trigger": "auto" })));
    let start = claude("SessionStart", &json!({ "source": "compact" }));
    let (text, data) = told_to_model(&place, &start);
    assert!(text.contains("Use [redacted:github-token]"), "{data}");
    assert!(!text.contains(&part), "{data}");
}
