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
        ("cd web && git push", "git push", false),
        ("git push", "cd web && git push", false),
    ] {
        let text = if failed.contains("test") { [BROKEN, PASSED] } else { ["error: no", "done"] };
        let lines = failing(&[fails(failed, text[0]), run(passed, text[1])]);
        assert_eq!(!lines.is_empty(), still, "{failed}, then {passed}: {lines:?}");
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
    assert_eq!(failing(&[call(web, true), call(api, false)]), ["npm test"]);
    assert_eq!(failing(&[call(web, true), call(web, false)]), [""; 0]);
    assert_eq!(failing(&[call("web", true), call(web, false)]), [""; 0]);
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
    ];
    for (last, is_withdrawn) in [("npm test", true), ("cd ../other && npm test", false)] {
        let mut facts = Facts::default();
        let mut fold = |position: u64, kind: &str, body: Value| {
            facts.fold(&event(position, kind, body.to_string()));
        };
        fold(0, "user.message", json!({ "content": "Fix the cart" }));
        for (at, line, text) in [(1, "npm test", BROKEN), (6, last, PASSED)] {
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
        assert!(has("rounded twice") && has("by itself"), "{last}: {known:?}");
    }
}
