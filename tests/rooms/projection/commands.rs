//! Commands and their output, as facts of a session: effects, files, failures and their mending.

use serde_json::json;

use super::work::{fails, folded, run};
use sessionlog::projection::WorkFacts;

/// Returns the facts of commands that succeeded without relevant output.
fn facts_of_commands(lines: &[&str]) -> WorkFacts {
    folded(&lines.iter().map(|line| run(line, "done")).collect::<Vec<_>>())
}

/// Returns the error of tests that printed this.
fn error(text: &str) -> String {
    let work = folded(&[run("make check", text)]);
    work.failing_commands().next().map(|fact| fact.error.to_string()).unwrap_or_default()
}

#[test]
fn a_command_with_effects_beyond_files_is_recognised_by_its_words() {
    for line in [
        "psql $URL -c 'CREATE INDEX orders_day ON orders (day)'",
        "psql -h db -U ada <<'EOF'\nBEGIN;\nDROP INDEX orders_day;\nCOMMIT;\nEOF\n",
        "echo \"delete from carts\" | mysql shop",
        "sqlite3 shop.db 'update carts set n = 1'",
        "cd /srv && git commit -am 'test: round the tax'",
        "git -C /srv push origin main",
        "git checkout -b tax",
        "kubectl -n prod apply -f web.yaml",
        "helm upgrade web ./chart",
        "terraform apply -auto-approve",
        "docker compose up -d",
        "docker run --rm -it web",
        "npm install left-pad",
        "uv pip install httpx",
        "pip install -r requirements.txt",
        "sudo apt-get install -y jq",
        "cargo add serde",
        "curl -s -X POST https://a.example/hooks",
        "curl https://a.example -d '{\"a\":1}'",
        "python manage.py migrate",
        "alembic upgrade head",
        "bundle exec rails db:migrate",
        "npx prisma migrate deploy",
        "gh pr create --fill",
        "systemctl restart web",
    ] {
        assert_eq!(facts_of_commands(&[line]).effects().count(), 1, "{line}");
    }
    for line in [
        "psql $URL -c 'SELECT * FROM updates'",
        "psql -c '\\d orders'",
        "git status --short",
        "git log --grep commit",
        "git stash list",
        "kubectl get pods -n apply",
        "docker ps",
        "docker compose logs web",
        "npm test",
        "npm run build",
        "cargo build",
        "curl https://a.example/put",
        "ls git commit",
        "echo git push",
        "go test ./...",
        "pip list",
        "git checkout -- a.rs",
        "git checkout src/a.rs",
        "git restore a.rs",
        "git stash && git stash pop",
        "git reset -q --hard",
    ] {
        assert_eq!(facts_of_commands(&[line]).effects().count(), 0, "{line}");
    }
}

#[test]
fn a_command_is_recognised_inside_any_wrapper() {
    let same = |a: &str, b: &str| folded(&[fails(a, "no"), fails(b, "no")]).commands().count() == 1;
    for (a, b) in [
        ("cargo test", "cd /home/ada/shop && cargo  test 2>&1 | tail -20"),
        ("cargo test --lib cart", "cargo test -q --lib cart; echo $?"),
        ("npm test", "npm run test"),
        ("python -m pytest a.py", "pytest -x a.py"),
        ("./mill  src", "cd $PWD; ./mill src 2>/dev/null | head"),
    ] {
        assert!(same(a, b), "{a} / {b}");
    }
    for (a, b) in [
        ("cargo test a", "cargo test b"),
        ("./mill src", "./mill tests"),
        ("python - <<'EOF'\nprint(1)\nEOF\n", "python - <<'EOF'\nprint(2)\nEOF\n"),
    ] {
        assert!(!same(a, b), "{a} / {b}");
    }
}

#[test]
fn a_test_run_covers_a_run_that_it_includes() {
    let covers = |a: &str, b: &str| {
        folded(&[fails(b, "no"), run(a, "done")]).failing_commands().count() == 0
    };
    for (a, b) in [
        ("pytest", "pytest tests/test_a.py -k tax"),
        ("pytest tests", "pytest tests/test_a.py::test_tax"),
        ("cargo test", "cargo test --test it cart::tax"),
        ("cargo test cart", "cargo test cart::tax"),
        ("npm test", "npm test -- cart.test.ts"),
        ("go test ./...", "go test ./cart"),
    ] {
        assert!(covers(a, b), "{a} / {b}");
        assert!(!covers(b, a), "{b} / {a}");
    }
    for (a, b) in [
        ("cargo test", "pytest"),
        ("pytest test_a.py", "pytest test_b.py"),
        ("pytest test_a", "pytest test_ab"),
        ("cargo test --lib", "cargo test --test it"),
    ] {
        assert!(!covers(a, b), "{a} / {b}");
    }
}

#[test]
fn files_that_a_command_plainly_writes_are_recorded() {
    for (line, expected) in [
        ("sed -i 's/a/b/' src/a.rs", "src/a.rs"),
        ("sed -i '' -e 's/a/b; c/' a.rs b.rs", "a.rs b.rs"),
        ("perl -pi -e 's/a/b/' a.rs", "a.rs"),
        ("sed -n 1,5p a.rs", ""),
        ("cat > src/new.rs <<'EOF'\nrm other.rs\nEOF\ntouch b.rs", "src/new.rs b.rs"),
        ("cat <<EOF >> \"my notes.md\"\nhi\nEOF\n", "my notes.md"),
        ("echo hi | tee -a log.txt", "log.txt"),
        ("git mv a.rs b.rs && rm -rf c.rs", "a.rs b.rs c.rs"),
        ("mv a.rs src/", "a.rs src/a.rs"),
        ("echo hi > /dev/null 2> err.txt", ""),
        ("rm *.o $FILE /tmp/x", ""),
        ("cargo test > out.txt", ""),
        ("grep 'a > b' c.rs # > d.rs", ""),
        ("echo a>b.txt&&echo c>|d.txt", "b.txt d.txt"),
    ] {
        let work = facts_of_commands(&[line]);
        let changed: Vec<&str> = work.files().map(|fact| &*fact.path).collect();
        assert_eq!(changed.join(" "), expected, "{line}");
    }
}

#[test]
fn parsing_any_command_text_terminates() {
    for line in ["", "'", "\"\\", "<<", "cat <<EOF", ">", "a |||| b &&& c", "((((", "\\"] {
        facts_of_commands(&[line]);
    }
    facts_of_commands(&[&";a".repeat(100_000)]);
    facts_of_commands(&[&"é".repeat(10_000)]);
}

#[test]
fn the_exit_code_is_read_from_the_output_of_each_harness() {
    for (text, expected) in [
        ("Exit code 1\ngrep: no such file", Some(1)),
        ("Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 101\nOutput:\n", Some(101)),
        ("Exit code: 0\nWall time: 2 seconds\nOutput:\nexit code 7 is bad", Some(0)),
        (r#"{"output":"boom","metadata":{"exit_code":2,"duration_seconds":0.1}}"#, Some(2)),
        (r#"{"stdout":"","stderr":"boom","exitCode":3}"#, Some(3)),
        (
            r#"{"stdout":null,"stderr":"boom","exit_code":null,"returncode":3,"exitCode":3}"#,
            Some(3),
        ),
        (r#"{"stdout":7,"exit_code":"n/a","metadata":{"exit_code":null,"exitCode":2}}"#, Some(2)),
        ("out\n[exit code: 5]", Some(5)),
        ("<returncode>1</returncode>\n<output>x</output>", Some(1)),
        ("Command failed with exit code 127: not found", Some(127)),
        ("exit code handling was changed", None),
        ("all is well", None),
    ] {
        let failed = folded(&[run("odd", text)]).failing_commands().count() == 1;
        assert_eq!(failed, expected.is_some_and(|code| code != 0), "{text}");
    }
    let json = r#"{"output":"boom","metadata":{"exit_code":2}}"#;
    assert_eq!(error(json), "boom");
}

#[test]
fn a_failed_call_is_recognised_by_the_prefix_of_its_output() {
    let failed = |text: &str| {
        let work = folded(&[("book_flight", json!({}), json!(text))]);
        work.effects().next().is_some_and(|effect| effect.failed)
    };
    for text in [
        "Error: payment amount does not add up",
        "<tool_use_error>String to replace not found in file.</tool_use_error>",
        r#"{"error":"no such order"}"#,
        r#"{"success":false}"#,
        "apply_patch verification failed: no such line",
    ] {
        assert!(failed(text), "{text}");
    }
    for text in [
        r#"{"error":null,"id":7}"#,
        r#"{"errors":0}"#,
        "The file a.rs has been updated. error: is a word of it",
        "Errors were mended",
        "",
    ] {
        assert!(!failed(text), "{text}");
    }
}

#[test]
fn failing_tests_come_first_and_then_the_reason() {
    for (text, expected) in [
        (
            "running 2 tests\ntest a::good ... ok\ntest a::rounding ... FAILED\n\nfailures:\n\n\
             ---- a::rounding stdout ----\nthread 'a::rounding' panicked at src/a.rs:7:9:\n\
             assertion `left == right` failed\n  left: 3\n right: 4\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored",
            "a::rounding: assertion `left == right` failed",
        ),
        (
            "        FAIL [   0.004s] shop cart::tax\n        PASS [   0.001s] shop cart::ok\n\
             Summary [ 0.1s] 2 tests run: 1 passed, 1 failed",
            "cart::tax",
        ),
        (
            "tests/test_a.py::test_ok PASSED [ 50%]\ntests/test_a.py::test_tax FAILED [100%]\n\
             E       assert 3 == 4\n==== short test summary info ====\n\
             FAILED tests/test_a.py::test_tax - assert 3 == 4\n=== 1 failed, 1 passed in 0.1s ===",
            "tests/test_a.py::test_tax: assert 3 == 4",
        ),
        (
            "FAIL: test_tax (shop.CartTest.test_tax)\n-----\nAssertionError: 3 != 4\n\n\
             Ran 2 tests in 0.1s\n\nFAILED (failures=1)",
            "test_tax: AssertionError: 3 != 4",
        ),
        (
            " FAIL  src/cart.test.ts > cart > adds tax\nAssertionError: expected 3 to be 4\n\
             Tests  1 failed | 2 passed (3)",
            "src/cart.test.ts > cart > adds tax: AssertionError: expected 3 to be 4",
        ),
        (
            "  ✓ adds (3 ms)\n  ✕ adds tax (12 ms)\n\nTests:       1 failed, 1 passed, 2 total",
            "adds tax",
        ),
        (
            "--- FAIL: TestTax (0.00s)\n    cart_test.go:12: got 3\nFAIL\nFAIL\tshop/cart\t0.01s",
            "shop/cart > TestTax",
        ),
        ("ok 1 - adds\nnot ok 2 - adds tax\n# failed 1", "adds tax"),
        ("CartTest > addsTax() FAILED\n2 tests completed, 1 failed", "CartTest > addsTax()"),
        ("  Failed Shop.AddsTax [3 ms]\nFailed!  - Failed:     1, Passed:     2", "Shop.AddsTax"),
        ("rspec ./spec/cart_spec.rb:12 # Cart adds tax\n3 examples, 1 failure", "Cart adds tax"),
    ] {
        let told = error(text);
        // Vitest and Jest name the file of a test as well.
        assert!(told.starts_with(expected), "{told}\n{text}");
    }
}

#[test]
fn a_passed_command_is_not_a_failure() {
    for text in [
        "test result: ok. 5 passed; 0 failed; 0 ignored",
        "=== 12 passed, 1 skipped in 3.1s ===",
        "Tests:       3 passed, 3 total",
        "Ran 2 tests in 0.1s\n\nOK",
        "Tests run: 3, Failures: 0, Errors: 0, Skipped: 0",
        "test retry::after_failure ... ok",
        "ok  \tshop/cart\t0.01s",
        "0 failing",
        "PASS src/cart.test.ts",
    ] {
        assert_eq!(folded(&[run("make check", text)]).commands().count(), 0, "{text}");
    }
}

#[test]
fn many_failing_tests_are_counted_and_a_failed_build_is_shown_with_the_compiler_error() {
    let many: String = (0..50).map(|n| format!("test name_{n} ... FAILED\n")).collect();
    let told = error(&many);
    assert!(told.starts_with("name_0, name_1, ") && told.contains(" more"), "{told}");
    assert!(told.chars().count() <= 300, "{told}");
    let built = "error[E0308]: mismatched types\n --> src/a.rs:3:5\n\
                 error: could not compile `shop` (lib) due to 1 previous error";
    assert_eq!(error(built), "error[E0308]: mismatched types");
    let listed = folded(&[fails("mill b", "a\nmill: cannot open b\n\n")]);
    assert_eq!(
        listed.failing_commands().next().map(|fact| &*fact.error),
        Some("mill: cannot open b")
    );
}

#[test]
fn a_mended_command_is_named_by_the_line_that_failed() {
    let tests = "FAILED test_price.py::test_price - assert 114 == 115\n1 failed in 0.08s";
    let passes = "cat: notes.txt: No such file or directory\n1 passed in 0.02s";
    let work = folded(&[fails("pytest -q", tests), run("cat notes.txt; pytest -q", passes)]);
    let lines: Vec<_> = work.resolved_commands().map(|one| one.line.to_string()).collect();
    assert_eq!((lines, work.failing_commands().count()), (vec!["pytest -q".to_owned()], 0));
}

#[test]
fn a_tool_that_does_not_work_is_no_command_and_its_error_has_no_tag() {
    let text = "<tool_use_error>Error: No such tool available: Grep.</tool_use_error>";
    let answer = json!({ "content": text, "is_error": true });
    let work = folded(&[("Grep", json!({ "pattern": "def" }), answer)]);
    let fact = work.failing_commands().next().expect("a failure");
    assert_eq!((&*fact.line, fact.is_command()), ("Grep", false));
    assert_eq!(&*fact.error, "Error: No such tool available: Grep.");
}
