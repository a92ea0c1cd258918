//! Views of commands that hooks recorded: each test with its last outcome, by any command; a file
//! with reverted changes as reverted; changes of external systems. The outputs are those of real
//! runners.

use serde_json::{Value, json};

use super::{claude, of, quiet};
use crate::program::Place;

/// A command with its output, and true if it failed.
type Run<'a> = (&'a str, &'a str, bool);

fn call(place: &Place, session: &str, id: usize, tool: &str, input: &Value, end: (&str, &Value)) {
    let id = format!("toolu_{id}");
    let mut event = json!({ "tool_name": tool, "tool_use_id": id, "tool_input": input });
    quiet(place, &of(session, claude("PreToolUse", &event)));
    let (member, said) = end;
    let name = if member == "error" { "PostToolUseFailure" } else { "PostToolUse" };
    event[member] = said.clone();
    quiet(place, &of(session, claude(name, &event)));
}

/// Returns the continuation of a session in which these commands were run.
fn continuation_after(place: &Place, session: &str, runs: &[Run<'_>]) -> Value {
    for (at, (command, output, failed)) in runs.iter().enumerate() {
        let end = match failed {
            true => ("error", json!(format!("Exit code 1\n{output}"))),
            false => ("tool_response", json!({ "stdout": output, "stderr": "" })),
        };
        let input = json!({ "command": command });
        call(place, session, at, "Bash", &input, (end.0, &end.1));
    }
    view(place, session)
}

fn view(place: &Place, session: &str) -> Value {
    place.run(&["view", session, "continuation", "--json"]).json()
}

fn lines(view: &Value, member: &str) -> Vec<String> {
    let list = view[member].as_array().cloned().unwrap_or_default();
    list.iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

const PYTEST: &str = "\
F.F.F.                                                                   [100%]
=================================== FAILURES ===================================
___________________________________ test_one ___________________________________

>   def test_one(): assert 3 == 4
                    ^^^^^^^^^^^^^
E   assert 3 == 4

tests/orders/test_a.py:2: AssertionError
=========================== short test summary info ============================
FAILED tests/orders/test_a.py::test_one - assert 3 == 4
FAILED tests/orders/test_a.py::test_par[a b] - AssertionError: assert 'a b' =...
FAILED tests/test_b.py::TestB::test_sum - assert 1 == 2
3 failed, 3 passed in 0.06s
";
const SUM: &str = "FAILED tests/test_b.py::TestB::test_sum - assert 1 == 2\n\
                   1 failed, 5 passed in 0.04s\n";
const CARGO: &str = "
running 2 tests
test cart::sum ... ok
test cart::tax ... FAILED

failures:

---- cart::tax stdout ----

thread 'cart::tax' (15029) panicked at src/lib.rs:3:20:
assertion `left == right` failed
  left: 3
 right: 4

failures:
    cart::tax

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.17s
";
const CARGO_NONE: &str = "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; \
                          0 measured; 2 filtered out; finished in 0.00s\n";
const CARGO_QUIET: &str = "\nrunning 1 test\n.\ntest result: ok. 1 passed; 0 failed; 0 ignored; \
                           0 measured; 1 filtered out; finished in 0.00s\n";
const GO: &str = "--- FAIL: TestTax (0.00s)\n    cart_test.go:12: got 3, want 4\nFAIL\n\
                  FAIL\tshop.example/cart\t0.005s\nok  \tshop.example/order\t0.003s\nFAIL\n";
const VITEST: &str = "
\u{1b}[1m\u{1b}[46m RUN \u{1b}[49m\u{1b}[22m v4.1.12 /home/ada/proj

 \u{1b}[31m❯\u{1b}[39m src/cart.test.js (3 tests | 1 failed) 8ms
     ✓ adds 1ms
     × adds tax 5ms
   ✓ alone 0ms
 ✓ src/order.test.js (1 test) 3ms

 FAIL  src/cart.test.js > cart > adds tax
AssertionError: expected 3 to be 4 // Object.is equality

 Test Files  1 failed | 1 passed (2)
      Tests  1 failed | 3 passed (4)
";
const VITEST_PASSES: &str = " ✓ src/cart.test.js (3 tests) 4ms\n\n Test Files  1 passed (1)\n      \
                             Tests  3 passed (3)\n";
const JEST: &str = "PASS j/order.test.cjs
FAIL j/cart.test.cjs
  ● cart › adds tax

    expect(received).toBe(expected) // Object.is equality

    Expected: 4
    Received: 3

      at Object.<anonymous> (j/cart.test.cjs:1:94)

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 5 passed, 6 total
";
const JEST_NAMES: &str = "PASS j/cart.test.cjs\n  ✓ alone (1 ms)\n  cart\n    ✓ adds (2 ms)\n    \
                          ✓ adds tax (1 ms)\n\nTest Suites: 1 passed, 1 total\nTests:       3 \
                          passed, 3 total\n";

/// A session: its name, its commands, the tests that fail at its end, the tests that do not.
type Case<'a> = (&'a str, &'a [Run<'a>], &'a [&'a str], &'a [&'a str]);

fn passed(command: &str) -> Run<'_> {
    (command, "4 passed in 0.04s\n", false)
}

const FAILS: Run<'_> = ("pytest -q", PYTEST, true);
const ONE: &str = "test_a.py::test_one";
const PAR: &str = "test_par[a b]";
const SUM_TEST: &str = "TestB::test_sum";

#[test]
fn a_failed_test_is_mended_by_any_passing_run_that_selects_it() {
    each(&[
        (
            "a directory of them",
            &[FAILS, passed("pytest -q tests/orders")],
            &[SUM_TEST],
            &[ONE, PAR],
        ),
        (
            "with options",
            &[FAILS, passed("pytest -xvs --tb=short -n 4 tests/orders/")],
            &[SUM_TEST],
            &[ONE],
        ),
        (
            "one of them",
            &[FAILS, passed("pytest tests/orders/test_a.py::test_one")],
            &[PAR],
            &[ONE],
        ),
        (
            "by a keyword",
            &[FAILS, passed("python -m pytest -k 'one or sum'")],
            &[PAR],
            &[ONE, SUM_TEST],
        ),
        (
            "by a path from the root",
            &[FAILS, passed("cd /home/ada/proj && uv run pytest /home/ada/proj/tests/orders")],
            &[SUM_TEST],
            &[ONE, PAR],
        ),
        ("others", &[FAILS, passed("pytest tests/test_c.py")], &[ONE, PAR, SUM_TEST], &[]),
        ("with a mark", &[FAILS, passed("pytest -m fast")], &[ONE, PAR, SUM_TEST], &[]),
    ]);
}

#[test]
fn a_test_failing_in_two_runs_is_shown_once_and_a_partial_run_mends_none() {
    each(&[
        (
            "all, but one fails again",
            &[("pytest tests/orders", PYTEST, true), ("pytest -q", SUM, true)],
            &[SUM_TEST],
            &[ONE, PAR],
        ),
        ("stopped early", &[FAILS, ("pytest -x tests", SUM, true)], &[ONE, PAR, SUM_TEST], &[]),
        ("by a target", &[FAILS, passed("make test")], &[], &[ONE, PAR, SUM_TEST]),
        (
            "one whose target passes",
            &[("make test", PYTEST, true), passed("pytest tests")],
            &[],
            &[ONE],
        ),
    ]);
}

#[test]
fn a_cargo_test_is_mended_by_a_passing_run_of_it() {
    each(&[
        (
            "cargo by name",
            &[
                ("cargo test", CARGO, true),
                ("cargo test -q tax -- --nocapture", CARGO_QUIET, false),
            ],
            &[],
            &["cart::tax"],
        ),
        (
            "cargo, but none",
            &[("cargo test", CARGO, true), ("cargo test taxes", CARGO_NONE, false)],
            &["cart::tax"],
            &[],
        ),
        (
            "cargo, none of that name",
            &[("cargo test", CARGO, true), ("cargo test -q sum", CARGO_QUIET, false)],
            &["cart::tax"],
            &[],
        ),
    ]);
}

#[test]
fn a_go_test_is_mended_by_a_passing_run_of_its_package() {
    each(&[
        (
            "go by package",
            &[
                ("go test ./...", GO, true),
                ("go test -count=1 ./cart", "ok  \tshop.example/cart\t0.004s\n", false),
            ],
            &[],
            &["TestTax"],
        ),
        (
            "go by name",
            &[
                ("go test ./...", GO, true),
                ("go test ./... -run '^TestTax$'", "ok  \tshop.example/cart\t0.004s\n", false),
            ],
            &[],
            &["TestTax"],
        ),
        (
            "go, another package",
            &[
                ("go test ./...", GO, true),
                ("go test ./order", "ok  \tshop.example/order\t0.004s\n", false),
            ],
            &["TestTax"],
            &[],
        ),
    ]);
}

#[test]
fn a_vitest_or_jest_test_is_mended_by_a_passing_run_selecting_it() {
    each(&[
        (
            "vitest by file",
            &[
                ("npm test", VITEST, true),
                ("npx vitest run src/cart.test.js", VITEST_PASSES, false),
            ],
            &[],
            &["adds tax"],
        ),
        (
            "vitest by name",
            &[
                ("npm test", VITEST, true),
                ("npx vitest run -t 'adds tax'", " Tests  1 passed | 3 skipped (4)\n", false),
            ],
            &[],
            &["adds tax"],
        ),
        (
            "jest by its names",
            &[("npx jest", JEST, true), ("npx jest --verbose j/cart", JEST_NAMES, false)],
            &[],
            &["adds tax"],
        ),
        (
            "jest, another file",
            &[
                ("npx jest", JEST, true),
                (
                    "npx jest order",
                    "PASS j/order.test.cjs\nTests:       3 passed, 3 total\n",
                    false,
                ),
            ],
            &["j/cart.test.cjs > cart › adds tax"],
            &[],
        ),
    ]);
}

#[track_caller]
fn each(cases: &[Case<'_>]) {
    let place = Place::new();
    for (at, (name, runs, failing, mended)) in cases.iter().enumerate() {
        let view = continuation_after(&place, &format!("s{at}"), runs);
        let failures = lines(&view, "failures");
        for test in *failing {
            let count = failures.iter().filter(|line| line.contains(test)).count();
            assert_eq!(count, 1, "{name}: {test} fails: {view}");
        }
        for test in *mended {
            let fails = failures.iter().any(|line| line.contains(test));
            assert!(!fails, "{name}: {test} is mended: {failures:?}");
        }
        if failing.is_empty() {
            assert_eq!(failures, [""; 0], "{name}");
        }
        for line in lines(&view, "mended") {
            assert!(!failures.iter().any(|one| one.starts_with(&line)), "{name}: {view}");
        }
    }
}

#[test]
fn a_file_with_reverted_changes_is_shown_as_reverted() {
    let place = Place::new();
    let done = ("tool_response", &json!({ "stdout": "", "stderr": "" }));
    let files = ["a.py", "b.py", "src/c.py", "d.py", "e.py"];
    for (at, file) in files.iter().enumerate() {
        let input = json!({ "file_path": format!("/home/ada/proj/{file}"), "old_string": "x" });
        call(&place, "s", at, "Edit", &input, ("tool_response", &json!("updated")));
    }
    for (at, command) in [
        "git checkout main",
        "git checkout -- a.py && git restore --staged d.py",
        "rm -f b.py",
        "git restore src",
        "git commit -m 'keep e' e.py",
    ]
    .iter()
    .enumerate()
    {
        call(&place, "s", 10 + at, "Bash", &json!({ "command": command }), done);
    }
    let shown = lines(&view(&place, "s"), "files");
    for (file, said) in [
        ("a.py", "(reverted @13)"),
        ("b.py", "(deleted @15)"),
        ("src/c.py", "(reverted @17)"),
        ("d.py", "@7"),
        ("e.py", "@9"),
    ] {
        assert!(shown.contains(&format!("{file} {said}")), "{file}: {shown:?}");
    }
    let edit = json!({ "file_path": "/home/ada/proj/f.py", "old_string": "x" });
    call(&place, "s", 20, "Edit", &edit, ("tool_response", &json!("updated")));
    let run = |id, command: &str| {
        call(&place, "s", id, "Bash", &json!({ "command": command }), done);
        lines(&view(&place, "s"), "files")
    };
    let shown = run(21, "git stash");
    assert!(shown.contains(&"f.py (stashed @23)".to_owned()), "{shown:?}");
    assert!(shown.contains(&"e.py @9".to_owned()), "what was committed stays: {shown:?}");
    let shown = run(22, "git stash pop");
    assert!(shown.contains(&"f.py @25".to_owned()), "{shown:?}");
    let shown = run(23, "git reset -q --hard");
    assert!(shown.contains(&"f.py (reverted @27)".to_owned()), "{shown:?}");
}

#[test]
fn shell_commands_that_change_external_systems_are_changes() {
    let place = Place::new();
    let index = "psql -h staging -c 'CREATE INDEX orders_day ON orders (day)'";
    let commit = "git add -A && git commit -m 'Round the tax once'";
    let view = continuation_after(
        &place,
        "s",
        &[
            (index, "CREATE INDEX\n", false),
            ("psql -h staging -c 'SELECT 1'", "1\n", false),
            (commit, "[tax 1a2b3c4] Round the tax once\n 2 files changed\n", false),
            ("kubectl -n prod apply -f web.yaml", "deployment.apps/web configured\n", false),
            ("curl -s -X POST https://a.example/hooks", "500 Server Error", true),
        ],
    );
    let changes = lines(&view, "changes");
    assert_eq!(changes.len(), 4, "the branch is a state: {view}");
    let has = |text: &str| changes.iter().any(|line| line.contains(text));
    assert!(has(&format!("Bash {index} -> CREATE INDEX")), "{changes:?}");
    assert!(has("git commit -> 1a2b3c4 on tax: Round the tax once"), "{changes:?}");
    assert!(has("deployment.apps/web configured"), "{changes:?}");
    assert!(has("a.example/hooks -> failed"), "{changes:?}");
}

#[test]
fn repeated_test_failures_are_not_an_error_pattern() {
    let place = Place::new();
    let fails = ("pytest -q", PYTEST, true);
    continuation_after(&place, "s", &[fails; 4]);
    let asked = json!({ "sessionId": "s" });
    let shown = crate::program::McpClient::start(&place, &[]).call("get_research_session", &asked);
    assert!(shown["failures"][0].as_str().unwrap().contains("test_one"), "{shown}");
    assert_eq!(shown["errorPatterns"], Value::Null, "{shown}");
}

#[test]
fn changes_beyond_the_limit_are_counted_as_omitted() {
    let place = Place::new();
    let call =
        |n: usize| json!({ "type": "agent.tool_use", "name": "send_mail", "input": { "n": n } });
    let calls: Vec<String> = (0..100).map(|n| call(n).to_string()).collect();
    place.run_with(&["append", "s", "--create"], &calls.join("\n")).ok();
    let view = view(&place, "s");
    let shown = lines(&view, "changes").len();
    assert_eq!(view["left_out"]["changes"], json!(100 - shown), "{view}");
}

#[test]
fn a_command_in_the_background_mends_nothing_until_it_ends() {
    let place = Place::new();
    let failed = "make: *** [check] Error 1: price.py:3: wrong";
    continuation_after(&place, "begun", &[("make check", failed, true)]);
    let begin = |id: usize, command: &str, task: &str| {
        let input = json!({ "command": command, "run_in_background": true });
        let answer = json!({ "stdout": "", "stderr": "", "backgroundTaskId": task });
        call(&place, "begun", id, "Bash", &input, ("tool_response", &answer));
    };
    let notice = |task: &str, status: &str, end: &str| {
        let text = format!(
            "<task-notification>\n<task-id>{task}</task-id>\n<status>{status}</status>\n\
             <summary>Background command \"check\" {end}</summary>\n</task-notification>"
        );
        let said = json!({ "type": "user.message", "content": text }).to_string();
        place.run_with(&["append", "begun"], &said).ok();
    };
    begin(10, "make check 2>&1 | tail -1", "b0");
    begin(11, "make check", "b1");
    let mended = || lines(&view(&place, "begun"), "mended");
    let failing = || lines(&view(&place, "begun"), "failures").len();
    assert_eq!((mended(), failing()), (vec![], 1), "{}", view(&place, "begun"));
    // The exit code is that of `tail`.
    notice("b0", "completed", "completed (exit code 0)");
    assert_eq!((mended(), failing()), (vec![], 1), "{}", view(&place, "begun"));
    notice("b1", "failed", "failed with exit code 2");
    assert_eq!((mended(), failing()), (vec![], 1), "{}", view(&place, "begun"));
    begin(12, "make check", "b2");
    notice("b2", "completed", "completed (exit code 0)");
    assert_eq!((mended().len(), failing()), (1, 0), "{}", view(&place, "begun"));
    let text = place.run(&["view", "begun", "continuation"]).ok();
    assert!(text.contains("running in background with ID: b2"), "{text}");
}
