//! Files changed, commands that failed or were mended, effects.

use serde_json::{Value, json};

use crate::event;
use sessionlog::projection::{CommandFact, Facts, WorkFacts};

/// Folds calls with their results, at positions 0 and 1, 2 and 3 and so on.
pub(super) fn folded(calls: &[(&str, Value, Value)]) -> WorkFacts {
    let mut facts = Facts::default();
    let mut fold = |position: usize, kind: &str, body: Value| {
        facts.fold(&event(position as u64, kind, body.to_string()));
    };
    for (at, (tool, input, answer)) in calls.iter().enumerate() {
        let mut result = json!({ "call_id": at.to_string(), "is_error": false });
        let members = result.as_object_mut().expect("an object");
        match answer {
            Value::Object(answer) => members.extend(answer.clone()),
            text => drop(members.insert("content".to_owned(), text.clone())),
        }
        let raw = json!({ "cwd": "/home/ada/shop" });
        let call = json!({ "name": tool, "input": input, "call_id": at.to_string(), "raw": raw });
        fold(2 * at, "agent.tool_use", call);
        fold(2 * at + 1, "agent.tool_result", result);
    }
    facts.work
}

pub(super) fn run(command: &str, output: &str) -> (&'static str, Value, Value) {
    ("Bash", json!({ "command": command }), json!(output))
}

pub(super) fn fails(command: &str, output: &str) -> (&'static str, Value, Value) {
    let answer = json!({ "content": output, "is_error": true });
    ("Bash", json!({ "command": command }), answer)
}

#[test]
fn a_command_result_is_failed_if_its_output_reports_failure() {
    let output = "FAIL: test_tax (test_tax.Test.test_tax)\nAssertionError: 9 != 10\n\n\
                  Ran 1 test in 0.001s\n\nFAILED (failures=1)\n";
    let missing = json!({ "content": "", "is_error": true, "exit_code": 1 });
    for (command, answer, failed) in [
        ("python3 -m unittest test_tax", json!({ "content": output }), true),
        ("python3 -m unittest test_tax", json!({ "content": "Ran 1 test\n\nOK\n" }), false),
        ("cat test.log", json!({ "content": output }), false),
        ("./mill /none", missing, true),
        ("echo ok; exit 3", json!({ "content": "ok", "is_error": true, "exit_code": 3 }), true),
        ("echo ok; exit 0", json!({ "content": "ok", "is_error": false, "exit_code": 0 }), false),
    ] {
        let mut facts = Facts::default();
        let call = json!({ "name": "Bash", "input": { "command": command }, "call_id": "c" });
        let mut result = json!({ "call_id": "c", "is_error": false });
        let members = result.as_object_mut().expect("an object");
        members.extend(answer.as_object().expect("an object").clone());
        facts.fold(&event(0, "agent.tool_use", call.to_string()));
        facts.fold(&event(1, "agent.tool_result", result.to_string()));
        let tool_event: Vec<bool> =
            facts.progress.outputs().map(|one| !one.ended.is_empty()).collect();
        assert_eq!(tool_event, [failed], "{command}");
    }
}

/// Returns each command that failed once, with its current state.
fn commands(work: &WorkFacts) -> Vec<String> {
    let tool_event = |fact: &CommandFact| {
        let state = if fact.failed { "fails" } else { "mended" };
        let of = format!("{} {}", fact.failures, fact.error);
        format!("{} {state} {}", fact.line, of.trim_end())
    };
    work.commands().map(tool_event).collect()
}

#[test]
fn only_files_changed_by_calls_are_listed() {
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n+b\n*** Add File: b.rs\n\
                 +c\n*** Update File: c.rs\n*** Move to: d.rs\n*** Delete File: e.rs\n\
                 *** End Patch";
    let done = || json!("done");
    let work = folded(&[
        ("Edit", json!({ "file_path": "/home/ada/shop/src/a.rs", "old_string": "x" }), done()),
        ("Read", json!({ "file_path": "read.rs" }), done()),
        ("Write", json!({ "file_path": "/etc/hosts" }), json!({ "is_error": true })),
        ("MultiEdit", json!({ "file_path": "multi.rs", "edits": [{ "old_string": "a" }] }), done()),
        ("NotebookEdit", json!({ "notebook_path": "n.ipynb" }), done()),
        ("str_replace_editor", json!({ "command": "view", "path": "seen.rs" }), done()),
        ("str_replace_based_edit_tool", json!({ "command": "insert", "path": "in.rs" }), done()),
        ("mcp__filesystem__move_file", json!({ "source": "s.rs", "destination": "t.rs" }), done()),
        ("write_file", json!({ "path": "gone.rs" }), json!("Error: access denied")),
        ("shell", json!({ "command": ["apply_patch", patch] }), json!("Success.")),
        ("apply_patch", json!(patch), done()),
        ("shell", json!({ "command": ["bash", "-lc", "touch made.rs"] }), json!("Exit code: 1")),
        ("exec_command", json!({ "cmd": "sed -i s/a/b/ in.rs" }), done()),
        (
            "shell",
            json!({ "cmd": "apply_patch <<EOF\n*** Begin Patch\nEOF" }),
            json!("Exit code: 1"),
        ),
        ("push", json!({ "files": [{ "path": "x.rs" }], "repo": "r" }), done()),
        ("write_files", json!({ "files": [{ "path": "y.rs" }, "z.rs"] }), done()),
    ]);
    let files: Vec<_> = work.files().map(|file| (&*file.path, file.times, file.last.0)).collect();
    let expected = [
        ("multi.rs", 1, 7),
        ("n.ipynb", 1, 9),
        ("s.rs", 1, 15),
        ("t.rs", 1, 15),
        ("src/a.rs", 3, 21),
        ("b.rs", 2, 21),
        ("c.rs", 2, 21),
        ("d.rs", 2, 21),
        ("e.rs", 2, 21),
        ("in.rs", 2, 25),
        ("y.rs", 1, 31),
        ("z.rs", 1, 31),
    ];
    assert_eq!(files, expected);
    let failing: Vec<_> = work.failing_commands().map(|fact| &*fact.line).collect();
    assert_eq!(failing, ["touch made.rs"], "a patch is tool_event by its files alone");
}

#[test]
fn a_command_is_failed_according_to_its_result() {
    let work = folded(&[
        fails("make", "Exit code 2\ncc: no such file: a.c"),
        run("shell: never mind", "all is well"),
        ("shell", json!({ "command": ["mill", "x"] }), json!("Exit code: 1\nOutput:\nno x")),
        (
            "exec_command",
            json!({ "cmd": "mill y" }),
            json!("Process exited with code 1\nOutput:\nno y"),
        ),
        (
            "shell",
            json!({ "command": "mill z" }),
            json!(r#"{"output":"no z\n","metadata":{"exit_code":1}}"#),
        ),
        run(
            "pytest -q | tail -3",
            "E   assert 3 == 4\nFAILED t.py::test_tax - assert 3 == 4\n1 failed",
        ),
        run("cargo build 2>&1 | tail -1", "error: could not compile `shop` (lib)"),
        run("cat log.txt", "FAILED (failures=2)\nerror: could not compile"),
        fails("grep -rn tax src", "Exit code 1"),
        fails("rm -rf /", "The user doesn't want to proceed with this tool use."),
        run("pytest ok.py", "test_retry: 1 failed attempt of the network is repeated\n3 passed"),
    ]);
    assert_eq!(
        commands(&work),
        [
            "make fails 1 cc: no such file: a.c",
            "mill x fails 1 no x",
            "mill y fails 1 no y",
            "mill z fails 1 no z",
            "pytest -q | tail -3 fails 1 t.py::test_tax: assert 3 == 4",
            "cargo build 2>&1 | tail -1 fails 1 error: could not compile `shop` (lib)",
        ]
    );
}

#[test]
fn a_failure_is_mended_by_the_same_run_or_one_that_includes_it() {
    let work = folded(&[
        fails("make", "no"),
        fails("cd ~/shop && make", "still no"),
        fails("pytest tests/test_a.py", "FAILED tests/test_a.py::test_tax - assert 3 == 4"),
        fails("pytest tests/test_b.py", "FAILED tests/test_b.py::test_sum - assert 1 == 2"),
        fails("cargo test cart", "test cart::tax ... FAILED\ntest cart::sum ... FAILED"),
        fails("npm test", "1 failing"),
        run("make 2>&1 | tail -1", "made"),
        run("pytest", "12 passed"),
        run("cargo test other", "test cart::tax ... ok"),
        run("cargo test more", "test cart::sum ... ok"),
        fails("npm test", "2 failing"),
    ]);
    assert_eq!(
        commands(&work),
        [
            "pytest tests/test_a.py mended 1",
            "pytest tests/test_b.py mended 1",
            "cargo test cart mended 1",
            "cd ~/shop && make mended 2",
            "npm test fails 2 2 failing",
        ]
    );
    assert_eq!(work.failing_commands().count(), 1);
    let again = folded(&[fails("make", "a"), run("make", "b"), fails("make", "c")]);
    let fact = again.commands().next().expect("one");
    assert!(fact.failed && &*fact.error == "c" && fact.failures == 1);
}

#[test]
fn a_background_command_fails_or_passes_when_it_exits() {
    let starts = "Process running with session ID 73\nOutput:\nstill compiling";
    let poll = json!({ "session_id": 73, "chars": "" });
    let work = folded(&[
        ("exec_command", json!({ "cmd": "cargo test" }), json!(starts)),
        ("write_stdin", poll.clone(), json!(starts)),
        (
            "write_stdin",
            poll.clone(),
            json!("Process exited with code 101\nOutput:\ntest cart::tax ... FAILED"),
        ),
        ("write_stdin", poll, json!("Process exited with code 1")),
    ]);
    assert_eq!(commands(&work), ["cargo test fails 1 cart::tax"]);
}

#[test]
fn effects_are_calls_that_changed_something_other_than_files() {
    let book = json!({ "flights": [{ "no": "HAT1" }], "payment": { "amount": 375 } });
    let work = folded(&[
        ("book_reservation", book, json!(r#"{"reservation_id":"HATHAT","total":375}"#)),
        ("get_order", json!({ "id": "A1" }), json!("{}")),
        ("cancel_order", json!({ "id": "A1" }), json!("Error: order A1 is shipped")),
        ("Edit", json!({ "file_path": "a" }), json!("done")),
        ("Bash", json!({ "command": "curl -X POST x" }), json!("done")),
        ("mcp__sessionlog__emit_event", json!({}), json!("done")),
    ]);
    let tool_event: Vec<_> = work
        .effects()
        .map(|one| (one.position.0, &*one.tool, &*one.input, &*one.result, one.failed))
        .collect();
    let booked = "flights: [HAT1], payment: {amount: 375}";
    assert_eq!(
        tool_event,
        [
            (1, "book_reservation", booked, "reservation_id: HATHAT, total: 375", false),
            (5, "cancel_order", "id: A1", "Error: order A1 is shipped", true),
            (9, "Bash", "curl -X POST x", "done", false),
        ]
    );
}

#[test]
fn a_tool_call_is_an_effect_unless_declared_or_named_read_only() {
    let mut facts = Facts::default();
    for (position, (name, read_only)) in [
        ("send_mail", None),
        ("create_report", Some(true)),
        ("tariff", Some(false)),
        ("lookup", Some(false)),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({ "name": name, "read_only": read_only, "server": "s" });
        facts.fold(&event(position as u64, "agent.mcp_tool_use", body.to_string()));
    }
    let tool_event: Vec<_> = facts.work.effects().map(|one| (one.position.0, &*one.tool)).collect();
    assert_eq!(tool_event, [(0, "send_mail"), (2, "tariff")]);
}

#[test]
fn kept_outcomes_are_bounded_and_failures_are_kept_longer_than_mended_ones() {
    let mut calls = vec![fails("make first", "no"), fails("make second", "no")];
    calls.push(run("make first", "yes"));
    for n in 0..300 {
        calls.push(("Write", json!({ "file_path": format!("{n}.rs") }), json!("done")));
        calls.push(("send_mail", json!({ "to": n }), json!("sent")));
        calls.push(fails(&format!("make {n}"), "no"));
    }
    calls.push(fails("make 299", "no"));
    let work = folded(&calls);
    assert_eq!(
        (work.files().count(), work.files().next_back().map(|f| &*f.path)),
        (256, Some("299.rs"))
    );
    assert_eq!(
        (work.effects().count(), &*work.effects().nth(63).expect("one").input),
        (64, "to: 299")
    );
    assert_eq!((work.commands().count(), work.resolved_commands().count()), (256, 0));
    let few = folded(&calls[..3 + 3 * 255]);
    assert_eq!((few.commands().count(), few.resolved_commands().count()), (256, 0));
    assert_eq!(few.commands().next().map(|fact| &*fact.line), Some("make second"));
}
