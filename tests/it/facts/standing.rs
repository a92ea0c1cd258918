//! The state at the end of a session, as Claude Code, Codex and clients of the OpenAI API record
//! it: failures by their outcome with the error line, current statements, changes, and each user
//! message once.

use serde_json::{Value, json};

use crate::program::Place;

const PROGRAMS: [&str; 3] = ["claude", "codex", "openai"];
const REFUSED: &str = "The user doesn't want to proceed with this tool use. The tool use was \
                       rejected (eg. if it was a file edit, the new_string was NOT written to the \
                       file). To tell you how to proceed, the user said:\n";

/// A step of a session.
#[derive(Clone, Copy)]
enum Step<'a> {
    User(&'a str),
    Agent(&'a str),
    /// A command with its output and its exit code.
    Run(&'a str, &'a str, i64),
    /// A tool with its input, its result, and true if it failed.
    Tool(&'a str, &'a str, &'a str, bool),
}
use Step::{Agent, Run, Tool, User};

fn claude(at: usize, step: Step<'_>) -> Vec<Value> {
    let line = |kind: &str, part: usize, content: Value| {
        json!({
            "type": kind, "sessionId": "day", "uuid": format!("u{at}-{part}"), "isSidechain": false,
            "cwd": "/home/ada/mill", "timestamp": format!("2026-11-20T09:{:02}:{:02}.000Z", at / 60, at % 60),
            "message": { "id": format!("m{at}"), "role": kind, "content": content },
        })
    };
    let used = |name: &str, input: Value| {
        line(
            "assistant",
            0,
            json!([{ "type": "tool_use", "id": format!("t{at}"), "name": name, "input": input }]),
        )
    };
    let answered = |text: String, is_error: bool| {
        line(
            "user",
            1,
            json!([{ "type": "tool_result", "tool_use_id": format!("t{at}"), "content": text, "is_error": is_error }]),
        )
    };
    match step {
        User(text) => vec![line("user", 0, json!(text))],
        Agent(text) => vec![line("assistant", 0, json!([{ "type": "text", "text": text }]))],
        Run(command, output, 0) => {
            vec![used("Bash", json!({ "command": command })), answered(output.to_owned(), false)]
        }
        Run(command, output, code) => vec![
            used("Bash", json!({ "command": command })),
            answered(format!("Exit code {code}\n{output}"), true),
        ],
        Tool(name, input, output, is_error) => vec![
            used(name, serde_json::from_str(input).unwrap()),
            answered(output.to_owned(), is_error),
        ],
    }
}

fn codex(at: usize, step: Step<'_>) -> Vec<Value> {
    let item = |payload: Value| {
        json!({ "timestamp": format!("2026-11-20T09:{:02}:{:02}.003Z", at / 60, at % 60),
                "type": "response_item", "payload": payload })
    };
    let message = |role: &str, kind: &str, text: &str| {
        item(
            json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] }),
        )
    };
    let called = |name: &str, arguments: String| {
        item(
            json!({ "type": "function_call", "name": name, "call_id": format!("c{at}"), "arguments": arguments }),
        )
    };
    let answered = |text: String| {
        item(json!({ "type": "function_call_output", "call_id": format!("c{at}"), "output": text }))
    };
    match step {
        User(text) => vec![message("user", "input_text", text)],
        Agent(text) => vec![message("assistant", "output_text", text)],
        Run(command, output, code) => vec![
            called("exec_command", json!({ "cmd": command }).to_string()),
            answered(format!(
                "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code {code}\nOriginal token count: 9\nOutput:\n{output}"
            )),
        ],
        Tool(name, input, output, _) => {
            vec![called(name, input.to_owned()), answered(output.to_owned())]
        }
    }
}

fn openai(at: usize, step: Step<'_>) -> Vec<Value> {
    let called = |name: &str, arguments: String| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": format!("c{at}"), "type": "function", "function": function }] })
    };
    let answered =
        |text: String| json!({ "role": "tool", "tool_call_id": format!("c{at}"), "content": text });
    match step {
        User(text) => vec![json!({ "role": "user", "content": text })],
        Agent(text) => vec![json!({ "role": "assistant", "content": text })],
        Run(command, output, code) => vec![
            called("bash", json!({ "command": command }).to_string()),
            answered(format!("<returncode>{code}</returncode>\n<output>\n{output}\n</output>")),
        ],
        Tool(name, input, output, _) => {
            vec![called(name, input.to_owned()), answered(output.to_owned())]
        }
    }
}

/// Returns the continuation of a session that a program recorded.
fn continued(place: &Place, program: &str, name: &str, steps: &[Step<'_>]) -> Value {
    let write = match program {
        "claude" => claude,
        "codex" => codex,
        _ => openai,
    };
    let meta = json!({ "timestamp": "2026-11-20T08:59:59.003Z", "type": "session_meta",
                       "payload": { "id": name, "cwd": "/home/ada/mill" } });
    let mut lines = if program == "codex" { vec![meta] } else { Vec::new() };
    lines.extend(steps.iter().enumerate().flat_map(|(at, step)| write(at, *step)));
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let path = place.write(&format!("{name}.jsonl"), &(text.join("\n") + "\n"));
    place.run(&["import", "--session", name, path.to_str().unwrap()]).ok();
    place.run(&["view", name, "continuation", "--tokens-max", "8000", "--json"]).json()
}

fn list(view: &Value, member: &str) -> Vec<String> {
    let lines = view[member].as_array().cloned().unwrap_or_default();
    let text = |line: &Value| match line {
        Value::String(text) => text.clone(),
        other => other["text"].as_str().unwrap_or_default().to_owned(),
    };
    lines.iter().map(text).collect()
}

/// Name of a case, its steps, and the text of each failure at its end.
type Case<'a> = (&'a str, &'a [Step<'a>], &'a [&'a str]);

#[track_caller]
fn each(cases: &[Case<'_>]) {
    let place = Place::new();
    for (at, (name, steps, expected)) in cases.iter().enumerate() {
        for program in PROGRAMS {
            let view = continued(&place, program, &format!("{program}-{at}"), steps);
            let failures = list(&view, "failures");
            assert_eq!(failures.len(), expected.len(), "{name}, {program}: {failures:?}");
            for (line, text) in failures.iter().zip(*expected) {
                assert!(line.contains(text), "{name}, {program}: {text}: {failures:?}");
            }
        }
    }
}

#[test]
fn a_read_only_command_is_no_failure_at_any_exit_code() {
    each(&[
        (
            "nothing found",
            &[Run("rg -n rounding src", "", 1), Run("grep -rn x . | head -3", "", 1)],
            &[],
        ),
        (
            "no file",
            &[Run("ls docs", "ls: cannot access 'docs': No such file or directory", 2)],
            &[],
        ),
        (
            "no file to print",
            &[Run("cat a.txt && wc -l a.txt", "cat: a.txt: No such file or directory", 1)],
            &[],
        ),
        (
            "a difference",
            &[Run("git diff --exit-code", "diff --git a/a b/a", 1), Run("diff a b", "1c1", 1)],
            &[],
        ),
        ("a condition", &[Run("[ -f Makefile ] && make all", "", 1), Run("test -d x", "", 1)], &[]),
        ("a program", &[Run("which mix", "", 1), Run("command -v mix", "", 1)], &[]),
        (
            "errors in a log",
            &[Run(
                "grep -n Traceback log.txt; cat log.txt",
                "Traceback (most recent call last):\nValueError: 3",
                0,
            )],
            &[],
        ),
        ("a filter found nothing", &[Run("make all 2>&1 | grep -i warning", "", 1)], &[]),
    ]);
}

#[test]
fn a_failure_is_detected_in_output_despite_a_pipe_or_or_true() {
    each(&[
        (
            "a compiler",
            &[Run(
                "npx tsc --noEmit 2>&1 | head -5",
                "src/a.ts(1,2): error TS2304: Cannot find name 'mill'.",
                0,
            )],
            &["error TS2304"],
        ),
        (
            "go",
            &[Run(
                "go build ./... 2>&1 | head -20",
                "# mill.example/cart\ncart/cart.go:6:2: not enough arguments",
                0,
            )],
            &["not enough arguments"],
        ),
        (
            "rust",
            &[Run("cargo build 2>&1 | tail -3 || true", "error[E0308]: mismatched types", 0)],
            &["error[E0308]: mismatched types"],
        ),
        (
            "a script",
            &[Run(
                "python load.py 2>&1 | tail -2",
                "Traceback (most recent call last):\n  File \"load.py\", line 1\nKeyError: 'mill'",
                0,
            )],
            &["KeyError: 'mill'"],
        ),
        (
            "a panic",
            &[Run(
                "cargo run -q; echo done",
                "thread 'main' panicked at src/main.rs:3:5:\nno mill",
                0,
            )],
            &["no mill"],
        ),
        (
            "a code",
            &[Run(
                "./deploy.sh staging; echo \"exit code: $?\"",
                "no space left on device\nexit code: 1",
                0,
            )],
            &["no space left"],
        ),
        (
            "tests",
            &[Run(
                "pytest -q | tail -2 || true",
                "FAILED a.py::test_tax - assert 3 == 4\n1 failed in 0.1s",
                0,
            )],
            &["test_tax"],
        ),
    ]);
}

#[test]
fn a_failure_shows_its_error_line_and_not_a_stack_frame() {
    let hook = "mix format --check-formatted\n╭──────────────╮\n│ pre-commit │\n╰──────────────╯\n\
                Code is not formatted. Run `mix format`\nhusky - pre-commit script failed (code 1)";
    let ignored = "The following paths are ignored by one of your .gitignore files:\ndocs\n\
                   hint: Use -f if you really want to add them.\n\
                   hint: Disable this message with \"git config set advice.addIgnoredFile false\"";
    each(&[
        (
            "a hook of git",
            &[Run("git commit -m 'Round once'", hook, 1)],
            &["Code is not formatted. Run `mix format`"],
        ),
        (
            "an ignored file",
            &[Run("git add docs/a.md && git commit -m 'Add a'", ignored, 1)],
            &["ignored by one of your .gitignore files: docs"],
        ),
        (
            "a box",
            &[Run(
                "npm run build",
                "┌────┐\n│ Cannot find module './mill' │\n└────┘\nnpm ERR! code ELIFECYCLE\nnpm ERR! errno 1",
                1,
            )],
            &["Cannot find module './mill'"],
        ),
        (
            "time",
            &[Run("./deploy.sh staging", "starting\nCommand timed out after 60 seconds\n", 124)],
            &["timed out after 60 seconds"],
        ),
        (
            "the last exception",
            &[Run(
                "python load.py",
                "Traceback (most recent call last):\nKeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\nValueError: no mill",
                1,
            )],
            &["ValueError: no mill"],
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_git_failure_is_mended_once_the_repository_has_the_intended_state() {
    let refused = "error: hook declined";
    let conflict =
        "CONFLICT (content): Merge conflict in a.rs\nerror: could not apply 1a2b3c4... Round";
    let rejected =
        " ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs";
    let made = "[main 1a2b3c4] Round once\n 1 file changed";
    each(&[
        (
            "a commit",
            &[
                Run("git commit -m 'Round once'", refused, 1),
                Run("mix format", "", 0),
                Run("git commit -qam 'Round once'", "", 0),
            ],
            &[],
        ),
        (
            "the same message",
            &[
                Run("git commit -m 'Round once'", refused, 1),
                Run("git log --oneline -2", "1a2b3c4 Round once\n0a0a0a0 Begin", 0),
            ],
            &[],
        ),
        (
            "a rebase",
            &[
                Run("git rebase origin/main", conflict, 1),
                Run(
                    "git add a.rs && git rebase --continue",
                    "Successfully rebased and updated refs/heads/tax.",
                    0,
                ),
            ],
            &[],
        ),
        (
            "a rebase, by the status",
            &[
                Run("git rebase origin/main", conflict, 1),
                Run("git status", "On branch tax\nnothing to commit, working tree clean", 0),
            ],
            &[],
        ),
        (
            "a rebase that is under way",
            &[
                Run("git rebase origin/main", conflict, 1),
                Run(
                    "git status",
                    "interactive rebase in progress; onto 1a2b3c4\nYou have unmerged paths.",
                    0,
                ),
            ],
            &["git rebase"],
        ),
        (
            "a push",
            &[
                Run("git push", rejected, 1),
                Run(
                    "git pull --rebase && git push origin main",
                    "To mill.example\n   1..2  main -> main",
                    0,
                ),
            ],
            &[],
        ),
        (
            "nothing to commit",
            &[Run(
                "git commit -m 'Round once'",
                "On branch main\nnothing to commit, working tree clean",
                1,
            )],
            &[],
        ),
        (
            "a merge",
            &[
                Run("git merge tax", "CONFLICT (content): Merge conflict in a.rs", 1),
                Run("git add -A && git commit -m 'Merge tax'", made, 0),
            ],
            &[],
        ),
        (
            "one that is open",
            &[Run("git push", rejected, 1), Run("git log --oneline -1", "1a2b3c4 Round once", 0)],
            &["git push"],
        ),
    ]);
}

#[test]
fn a_failure_is_mended_by_an_equivalent_command() {
    each(&[
        (
            "beside others",
            &[
                Run(
                    "git checkout HEAD -- a.go && go build ./... 2>&1",
                    "a.go:1:2: undefined: mill",
                    1,
                ),
                Run("go build ./...", "", 0),
            ],
            &[],
        ),
        (
            "an interpreter",
            &[
                Run("python load.py", "ValueError: 1", 1),
                Run("cd /home/ada/mill && PYTHONPATH=. python3 ./load.py", "ok", 0),
            ],
            &[],
        ),
        (
            "a manager of packages",
            &[Run("npm run build", "Error: no mill", 1), Run("pnpm build", "built", 0)],
            &[],
        ),
        (
            "a wider build",
            &[
                Run("cargo check -p cart", "error[E0308]: x", 101),
                Run("cargo build 2>&1 | tail -1", "Finished", 0),
            ],
            &[],
        ),
        (
            "by its tests",
            &[
                Run("go build ./cart", "a.go:1:2: undefined: mill", 1),
                Run("go test ./...", "ok  \tmill.example/cart\t0.1s", 0),
            ],
            &[],
        ),
        (
            "a package",
            &[
                Run("python -c 'import pytz'", "ModuleNotFoundError: No module named 'pytz'", 1),
                Run("pip install -q pytz", "", 0),
            ],
            &[],
        ),
        (
            "another one",
            &[Run("python load.py", "ValueError: 1", 1), Run("python store.py", "ok", 0)],
            &["load.py"],
        ),
        (
            "a dry run",
            &[Run("make deploy", "no space left", 2), Run("make --dry-run deploy", "ok", 0)],
            &["no space left"],
        ),
    ]);
}

#[test]
fn a_test_run_with_an_import_error_mends_no_failure() {
    let fails = Run(
        "pytest -q tests/test_a.py",
        "FAILED tests/test_a.py::test_tax - assert 3 == 4\n1 failed, 3 passed in 0.1s",
        1,
    );
    let broken = "ImportError while importing test module 'tests/test_a.py'.\nE   ModuleNotFoundError: No module named 'mill'\nERROR tests/test_a.py\n!!! Interrupted: 1 error during collection !!!\n1 error in 0.1s";
    each(&[
        ("the same run", &[fails, Run("pytest -q tests/test_a.py", broken, 2)], &["test_tax"]),
        (
            "a wider run",
            &[fails, Run("pytest -q tests | tail -3", "ERROR tests/test_a.py\n1 error in 0.1s", 0)],
            &["test_tax", "tests/test_a.py"],
        ),
        (
            "no runner",
            &[
                fails,
                Run("python -m pytest -q | tail -1", "/usr/bin/python: No module named pytest", 0),
            ],
            &["test_tax", "No module named pytest"],
        ),
        (
            "mended in the end",
            &[
                fails,
                Run("pytest -q tests/test_a.py", broken, 2),
                Run("pytest -q", "4 passed in 0.1s", 0),
            ],
            &[],
        ),
    ]);
}

#[test]
fn the_count_of_a_failure_is_of_the_test_and_not_of_the_command() {
    let run =
        |name: &str| format!("FAILED a.py::{name} - assert 3 == 4\n1 failed, 3 passed in 0.1s");
    let (one, two) = (run("test_one"), run("test_two"));
    let fails = Run("pytest -q", &one, 1);
    let steps = [fails, fails, fails, Run("pytest -q", &two, 1), Run("pytest -q a.py", &two, 1)];
    let place = Place::new();
    for program in PROGRAMS {
        let view = continued(&place, program, program, &steps);
        let failures = list(&view, "failures");
        let is_right = failures.len() == 1
            && failures[0].contains("test_two")
            && failures[0].contains("2 times");
        assert!(is_right, "{program}: {failures:?}");
    }
}

#[test]
fn a_trial_that_was_given_up_is_dropped_and_a_failing_test_is_kept() {
    let steps = |first: Step<'static>| {
        let looks = (0..14).map(|_| Run("cat src/mill.rs", "fn mill() {}", 0));
        [first].into_iter().chain(looks).collect::<Vec<_>>()
    };
    let script = [
        Run("cat > trial.py <<'EOF'\nprint(mill)\nEOF", "", 0),
        Run("python trial.py", "NameError: name 'mill' is not defined", 1),
    ];
    let removed = [script[0], script[1], Run("rm trial.py", "", 0)];
    let long: Vec<Step<'_>> = script.into_iter().chain(steps(User("Now the docs"))).collect();
    each(&[
        ("at once", &script, &["trial.py"]),
        ("its script is gone", &removed, &[]),
        ("left alone", &long, &[]),
        (
            "an installation",
            &steps(Run("pip install mill", "ERROR: No matching distribution found for mill", 1)),
            &[],
        ),
        (
            "a script on the command line",
            &steps(Run(
                "python -c 'import mill'",
                "ModuleNotFoundError: No module named 'mill'",
                1,
            )),
            &[],
        ),
        (
            "a test",
            &steps(Run("pytest -q", "FAILED a.py::test_tax - assert 3 == 4\n1 failed in 0.1s", 1)),
            &["test_tax"],
        ),
        ("a build", &steps(Run("cargo build", "error[E0308]: mismatched types", 101)), &["E0308"]),
        (
            "a commit that a person flushed",
            &[
                Run("git commit -m 'Add a'", "error: hook declined", 1),
                User("leave it local"),
                Run("ls", "a", 0),
                Run("ls", "a", 0),
                Run("ls", "a", 0),
                Run("ls", "a", 0),
                Run("ls", "a", 0),
                Run("ls", "a", 0),
            ],
            &[],
        ),
    ]);
}

#[test]
fn a_tool_that_does_not_start_is_a_failure_until_it_succeeds() {
    let gone = "ENOENT: no such file or directory, posix_spawn '/opt/agent/bin/agent'";
    let fails = Tool("Grep", r#"{"pattern":"mill"}"#, gone, true);
    let works = Tool("Grep", r#"{"pattern":"mill"}"#, "src/mill.rs:1", false);
    let missing = Tool(
        "Read",
        r#"{"file_path":"/home/ada/mill/b"}"#,
        "<tool_use_error>File does not exist.",
        true,
    );
    let place = Place::new();
    for (at, (steps, expected)) in
        [(&[fails, missing][..], &["Grep: ENOENT"][..]), (&[fails, works], &[])]
            .into_iter()
            .enumerate()
    {
        let view = continued(&place, "claude", &format!("tool-{at}"), steps);
        let failures = list(&view, "failures");
        assert_eq!(failures.len(), expected.len(), "{failures:?}");
        assert!(
            failures.iter().zip(expected).all(|(line, text)| line.contains(text)),
            "{failures:?}"
        );
    }
}

#[test]
fn a_rejected_call_is_no_change_and_its_text_is_one_instruction() {
    let place = Place::new();
    let said = format!("{REFUSED}Sweep the quay with the north broom");
    let steps = [
        User("Mend the mill"),
        Tool("Bash", r#"{"command":"git push"}"#, &said, true),
        Run("cargo build", "Finished", 0),
    ];
    for program in PROGRAMS {
        let view = continued(&place, program, program, &steps);
        let words = list(&view, "instructions");
        let mine: Vec<&String> = words.iter().filter(|text| text.contains("north broom")).collect();
        assert_eq!(mine, ["Sweep the quay with the north broom"], "{program}: {view}");
        assert_eq!(list(&view, "failures"), [""; 0], "{program}");
        assert!(!view["changes"].to_string().contains("push"), "{program}: {view}");
    }
}

#[test]
fn equal_instructions_are_kept_once_with_a_count() {
    let place = Place::new();
    let steps = [
        User("/mode"),
        User("Mend the mill"),
        User("Check the sails"),
        Agent("The sails hold."),
        User("Check the sails"),
        User("/model large"),
        User("Check the sails"),
    ];
    for program in PROGRAMS {
        let view = continued(&place, program, program, &steps);
        assert_eq!(view["task"]["text"], "Mend the mill", "{program}: {view}");
        assert_eq!(list(&view, "instructions"), ["Check the sails (3 times)"], "{program}: {view}");
    }
}

#[test]
fn narration_and_courtesies_are_neither_findings_nor_answers() {
    let place = Place::new();
    let narrated = [
        "Now let me look at line 602 of the mill.",
        "I run the tests again.",
        "Perfect!",
        "I'll check the sails.",
    ];
    let mut steps = vec![
        User("Mend the mill"),
        Agent("The mill stalls because the sails are wired to the quay."),
    ];
    steps.extend(narrated.map(Agent));
    steps.push(Agent("You're welcome! If anything comes up, feel free to reach out."));
    for program in PROGRAMS {
        let view = continued(&place, program, program, &steps);
        let text = view.to_string();
        assert!(text.contains("wired to the quay"), "{program}: {view}");
        for said in narrated.iter().chain(&["welcome"]) {
            assert!(!text.contains(said), "{program}: {said}: {view}");
        }
    }
}

#[test]
fn a_retracted_statement_is_no_finding_and_is_marked_in_quotes() {
    let place = Place::new();
    let steps = [
        User("Mend the mill"),
        Agent("The mill does not compile because the stash conflicts with the main branch."),
        Run("go build ./...", "", 0),
        Agent("The mill compiles with the stash on the main branch."),
        Agent("The header applies to error paths and early exits, too."),
        User("only on the first answer, not on error or early exit paths"),
    ];
    for program in PROGRAMS {
        let view = continued(&place, program, program, &steps);
        let text = view.to_string();
        for gone in ["The mill does not compile", "The header applies to error paths"] {
            let marked = text.matches(&format!("(no longer holds) {gone}")).count();
            assert_eq!(text.matches(gone).count(), marked, "{program}: {gone}: {view}");
        }
        assert!(view.to_string().contains("The mill compiles with the stash"), "{program}: {view}");
    }
}

#[test]
fn undo_commands_and_search_tools_are_not_changes() {
    let place = Place::new();
    let steps = [
        Run("git checkout -- src/mill.rs && git restore src/quay.rs", "", 0),
        Run("git checkout src/mill.rs", "Updated 1 path from the index", 0),
        Run("git stash && git stash pop", "", 0),
        Run("git reset --hard HEAD", "HEAD is now at 1a2b3c4", 0),
        Run("git status", "On branch main\nnothing to commit", 0),
        Run("bd close mill-7 --reason done", "closed mill-7", 0),
        Run("git checkout -b tax", "Switched to a new branch 'tax'", 0),
        Tool("web_search", r#"{"query":"sails"}"#, "[]", false),
    ];
    for program in PROGRAMS {
        let view = continued(&place, program, program, &steps);
        let changes = list(&view, "changes");
        assert_eq!(changes.len(), 2, "{program}: {changes:?}");
        assert!(changes[0].contains("bd close mill-7"), "{program}: {changes:?}");
        assert!(changes[1].contains("git checkout -b tax"), "{program}: {changes:?}");
    }
}

#[test]
fn files_written_by_any_shell_construct_are_changed() {
    let place = Place::new();
    let patch = "git apply <<'EOF'\n--- a/src/quay.rs\n+++ b/src/quay.rs\n@@ -1 +1 @@\n-a\n+b\nEOF";
    let script = "python3 - <<'PY'\nfrom pathlib import Path\np = Path('src/sail.rs')\np.write_text(p.read_text().replace('a', 'b'))\nPY";
    let steps = [
        Run("cat > a.md <<'EOF'\n# A\nEOF\nls nowhere && cargo build", "error[E0308]: x", 101),
        Run("sed -i 's/a/b/' src/mill.rs && python -c 'x'", "NameError: x", 1),
        Run("echo b | tee -a b.md", "b", 0),
        Run(patch, "", 0),
        Run(script, "", 0),
        Run("cp src/mill.rs src/mill2.rs", "", 0),
    ];
    for program in PROGRAMS {
        let view = continued(&place, program, program, &steps);
        let files = list(&view, "files");
        for path in ["a.md", "src/mill.rs", "b.md", "src/quay.rs", "src/sail.rs", "src/mill2.rs"] {
            let is_there = files.iter().any(|line| line.starts_with(path));
            assert!(is_there, "{program}: {path}: {files:?}");
        }
    }
}
