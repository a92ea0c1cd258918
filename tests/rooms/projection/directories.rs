//! Commands in other directories than the session's: failures that are mended there, and paths of
//! the files that they write.

use serde_json::{Value, json};

use super::work::{fails, folded, run};
use crate::event;
use sessionlog::projection::Facts;

/// Returns the lines that still fail.
fn failing(calls: &[(&str, Value, Value)]) -> Vec<String> {
    folded(calls).failing_commands().map(|fact| fact.line.to_string()).collect()
}

const BROKEN: &str = "FAIL src/cart.test.ts > cart > adds\nTests  1 failed | 3 passed (4)";
const PASSED: &str = "Tests  4 passed (4)";

#[test]
fn a_success_counts_for_failures_of_its_directory_and_of_those_below_it() {
    for (failed, passed, still) in [
        ("cd web && npm test", "cd api && npm test", true),
        ("cd web && npm test", "cd web && npm test", false),
        ("cd web && npm test", "npm test", false),
        ("npm test", "cd api && npm test", true),
        ("(cd web && npm test)", "npm test", false),
        ("(cd web && npm ci); npm test", "cd web && npm test", true),
        ("cd web; (cd lib; ls); npm test", "cd web && npm test", false),
        ("cd /home/ada/shop/web && npm test", "cd web && npm test", false),
        ("cd web && npm test", "cd \"$DIR\" && npm test", false),
        ("cd web && npm run lint", "cd api && npm run lint", true),
        ("cd web && ./check.sh", "cd ../other && ./check.sh", true),
        ("cd wbe && npm test", "cd web && npm test", true),
        ("cd nope || cd web; npm test", "cd web && npm test", false),
        ("cd web && npm start & cd api && npm test", "cd api && npm test", false),
        ("cd web && git push", "git push", false),
        ("cd /srv/a && git push", "cd /srv/b && git push", true),
        ("git push", "cd web && git push", false),
    ] {
        let text = if failed.contains("test") { [BROKEN, PASSED] } else { ["error: no", "done"] };
        let lines = failing(&[fails(failed, text[0]), run(passed, text[1])]);
        assert_eq!(!lines.is_empty(), still, "{failed}, then {passed}: {lines:?}");
    }
}

#[test]
fn a_failure_after_a_change_of_directory_that_failed_ends_with_the_next_success() {
    let lost = "bash: cd: wbe: No such file or directory";
    for line in ["cd wbe && npm test", "cd wbe; npm test"] {
        assert_eq!(failing(&[fails(line, lost), run("cd web && npm test", PASSED)]), [""; 0]);
    }
}

#[test]
fn a_result_is_mended_by_a_run_of_its_directory_only() {
    for (line, is_mended) in [("cd api && npm test", false), ("cd web && npm test", true)] {
        let again = if is_mended { PASSED } else { BROKEN };
        let mut facts = Facts::default();
        let calls = [("cd web && npm test", BROKEN), (line, again), (line, PASSED)];
        for (at, (line, text)) in (0..).zip(calls) {
            let raw = json!({ "cwd": "/home/ada/shop" });
            let input = json!({ "command": line });
            let call = json!({ "name": "Bash", "input": input, "call_id": "c", "raw": raw });
            let answer = json!({ "call_id": "c", "content": text, "is_error": text == BROKEN });
            facts.fold(&event(2 * at, "agent.tool_use", call.to_string()));
            facts.fold(&event(2 * at + 1, "agent.tool_result", answer.to_string()));
        }
        let first = facts.progress.outputs().next().expect("a result");
        assert_eq!(facts.work.is_resolved(first), is_mended, "{line}");
    }
}

#[test]
fn a_directory_that_a_call_asks_for_is_that_of_its_command() {
    let call = |directory: &str, failed: bool| {
        let input = json!({ "command": ["bash", "-lc", "npm test"], "workdir": directory });
        let text = if failed { BROKEN } else { PASSED };
        ("shell", input, json!({ "content": text, "is_error": failed }))
    };
    let [web, api] = ["/home/ada/shop/web", "/home/ada/shop/api"];
    assert_eq!(failing(&[call(web, true), call(api, false)]), ["npm test (in web)"]);
    assert_eq!(failing(&[call(web, true), call("~/api", false)]), [""; 0]);
    assert_eq!(failing(&[call(web, true), call(web, false)]), [""; 0]);
    assert_eq!(failing(&[call("web", true), call(web, false)]), [""; 0]);
    assert_eq!(failing(&[call("~/web", true)]), ["npm test"]);
}

#[test]
fn a_call_without_a_directory_runs_in_that_of_the_latest_call_that_has_one() {
    let mut facts = Facts::default();
    let calls = [(Some("shop"), "ls"), (Some("shop/web"), "ls"), (None, "echo a > a.txt")];
    for (at, (directory, line)) in (0..).zip(calls) {
        let raw = directory.map(|name| json!({ "cwd": format!("/home/ada/{name}") }));
        let input = json!({ "command": line });
        let call = json!({ "name": "Bash", "input": input, "call_id": "c", "raw": raw });
        let answer = json!({ "call_id": "c", "content": "done", "is_error": false });
        facts.fold(&event(2 * at, "agent.tool_use", call.to_string()));
        facts.fold(&event(2 * at + 1, "agent.tool_result", answer.to_string()));
    }
    let paths: Vec<&str> = facts.work.files().map(|file| &*file.path).collect();
    assert_eq!(paths, ["web/a.txt"]);
}

#[test]
fn a_file_that_a_command_writes_has_its_path_from_the_directory_of_the_command() {
    for (line, expected) in [
        ("cd web && echo a > a.txt", &["web/a.txt"][..]),
        ("(cd web && echo a > a.txt); echo b > b.txt", &["web/a.txt", "b.txt"]),
        ("cd web && cd .. && echo a > a.txt", &["a.txt"]),
        ("cd /srv/app && echo a > a.txt", &["/srv/app/a.txt"]),
        ("cd /tmp && echo a > a.txt", &[]),
        ("cd $HOME && echo a > a.txt", &["a.txt"]),
        ("cd web && sed -i s/a/b/ ../lib/b.ts", &["lib/b.ts"]),
        ("cd ../other && rm tax.py", &["/home/ada/other/tax.py"]),
        ("cd .. && echo a > shop/a.txt", &["a.txt"]),
        ("cd ../../../.. && echo a > a.txt", &[]),
    ] {
        let work = folded(&[run(line, "done")]);
        let paths: Vec<&str> = work.files().map(|file| &*file.path).collect();
        assert_eq!(paths, expected, "{line}");
    }
}

#[test]
fn a_statement_that_tests_fail_is_withdrawn_once_all_known_tests_pass() {
    let said = [
        "Two tests of the cart fail now.",
        "The tests fail because the rate is rounded twice.",
        "The invoice rounds each line of the cart by itself.",
        "The importer fails for empty files without any test data.",
        "The tests of invoices fail on Windows.",
    ];
    for (last, is_withdrawn) in [("npm test", true), ("cd ../other && npm test", false)] {
        let mut facts = Facts::default();
        let mut fold = |position: u64, kind: &str, body: Value| {
            facts.fold(&event(position, kind, body.to_string()));
        };
        fold(0, "user.message", json!({ "content": "Fix the cart" }));
        for (at, line, text) in [(1, "npm test", BROKEN), (8, last, PASSED)] {
            let raw = json!({ "cwd": "/home/ada/shop" });
            let input = json!({ "command": line });
            let call = json!({ "name": "Bash", "input": input, "call_id": "c", "raw": raw });
            let answer = json!({ "call_id": "c", "content": text, "is_error": text == BROKEN });
            fold(at, "agent.tool_use", call);
            fold(at + 1, "agent.tool_result", answer);
            for (at, said) in (3..).zip(said).filter(|_| at == 1) {
                fold(at, "agent.message", json!({ "content": said }));
            }
        }
        let known: Vec<&str> = facts.findings.sentences().iter().map(|one| &*one.text).collect();
        let has = |text: &str| known.iter().any(|known| known.contains(text));
        assert_eq!(has("Two tests of the cart fail"), !is_withdrawn, "{last}: {known:?}");
        for kept in ["rounded twice", "by itself", "empty files", "on Windows"] {
            assert!(has(kept), "{last}: {known:?}");
        }
    }
}
