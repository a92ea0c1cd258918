//! The README, followed by a newcomer: its commands are extracted from the page and run in a clean
//! directory with the built program. Only the server's address is replaced, so that tests may run
//! in parallel.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    program::Place,
    say::{read, skipped},
};

const ADDRESS: &str = "http://127.0.0.1:7717";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the code blocks of the page in one language.
fn blocks(language: &str) -> Vec<String> {
    let page = read(&root().join("README.md"));
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(found)) if found == language => open = Some(String::new()),
            (None, _) => {}
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(text), None) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    blocks
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|found| found.status.success())
}

/// Runs a code block as a user pastes it; every command must succeed.
fn run_block(place: &Place, block: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_sessionlog")).parent().unwrap();
    let output = Command::new("/bin/sh")
        .args(["-e", "-c", block])
        .env_clear()
        .env("HOME", place.path(""))
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()))
        .env("SESSIONLOG_DATA_DIR", place.data_dir())
        .env("SESSIONLOG_OWNER_IDLE", "5s")
        .current_dir(place.path("clone"))
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{block}\n{out}\n{err}");
    out
}

#[test]
fn the_two_commands_of_the_readme_run_the_main_job_and_the_tests() {
    let commands = blocks("sh");
    assert_eq!(commands[0], "cargo run -- demo\n");
    assert_eq!(commands[1], "cargo test --locked\n");
    assert_eq!(commands[2], "cargo install --locked --path .\n");
    // The verb that the first command runs, once built.
    let place = Place::new();
    let ran = place.run(&["demo"]).ok();
    assert!(ran.contains("acknowledged events are back"), "{ran}");
}

#[test]
fn the_first_events_of_the_readme_are_appended_and_read() {
    if !is_installed("curl") {
        skipped("the README's first events: there is no curl");
        return;
    }
    let place = Place::new();
    std::fs::create_dir_all(place.path("clone/examples")).unwrap();
    let sample = "examples/conversation.jsonl";
    std::fs::copy(root().join(sample), place.path("clone").join(sample)).unwrap();
    let commands = blocks("sh");
    let serve = commands.iter().position(|block| block == "sessionlog serve\n").unwrap();
    let server = place.serve();
    let curl = commands[serve + 1].replace(ADDRESS, &server.url);
    assert!(curl.contains("curl"), "{curl}");
    let answers = run_block(&place, &curl);
    assert!(answers.contains("\"first_position\":0"), "{answers}");
    assert!(answers.contains("Where were we?"), "{answers}");
    let verbs = &commands[serve + 2];
    assert!(verbs.contains("sessionlog append first"), "{verbs}");
    let told = run_block(&place, verbs);
    for words in ["At the second museum.", "Museum of Industry", "ghent-walk", "whole: "] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let travels = &commands[serve + 3];
    assert!(travels.contains("sessionlog fork"), "{travels}");
    let told = run_block(&place, travels);
    for words in ["Museum of Industry", "lunch", "ghent-again", "By boat this time."] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(server.stop(), Some(0));
    let again = run_block(&place, "sessionlog events first");
    assert_eq!(again.lines().count(), 2, "without a server the same: {again}");
}

#[test]
fn the_mcp_configurations_of_the_readme_start_a_working_server() {
    let commands = blocks("sh");
    let installs: Vec<&String> =
        commands.iter().filter(|block| block.starts_with("sessionlog install")).collect();
    assert_eq!(installs.len(), 2, "{installs:?}");
    let person = Place::new();
    std::fs::create_dir(person.path("clone")).unwrap();
    for install in installs {
        assert!(
            run_block(&person, &install.replace("\n", " --yes\n")).contains("Done."),
            "{install}"
        );
    }
    let file = read(&person.path(".claude.json"));
    let installed: Value = serde_json::from_str(&file).unwrap();
    let installed = &installed["mcpServers"]["sessionlog"];
    assert!(installed["command"].as_str().unwrap().ends_with("/sessionlog"), "{installed}");
    assert!(read(&person.path(".codex/config.toml")).contains("[mcp_servers.sessionlog]"));
    let configurations = blocks("json");
    let parsed = configurations.iter().map(|block| serde_json::from_str::<Value>(block).unwrap());
    let servers: Vec<Value> = parsed.map(|one| one["mcpServers"]["sessionlog"].clone()).collect();
    let server = servers.iter().find(|server| !server.is_null()).unwrap();
    let mut configured = vec![server["command"].as_str().unwrap().to_owned()];
    let arguments = server["args"].as_array().unwrap().iter();
    configured.extend(arguments.map(|argument| argument.as_str().unwrap().to_owned()));
    assert_eq!(installed["args"], server["args"]);
    let place = Place::new();
    let arguments: Vec<&str> = configured[1..].iter().map(String::as_str).collect();
    let mut child = place.command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "newcomer", "version": "0" },
        },
    });
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{hello}\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"serverInfo\""), "{line}");
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0), "it leaves with its client");
}
