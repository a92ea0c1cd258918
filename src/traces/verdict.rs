//! Parser of a report line with the result of one test, in the formats of many runners. It must not
//! read other lines.

/// Parses the result of a test in a line: true if it passed, and its name.
pub(super) fn parse_verdict(line: &str) -> Option<(bool, &str)> {
    parse_cargo(line)
        .or_else(|| parse_python(line))
        .or_else(|| parse_marks(line))
        .or_else(|| parse_others(line))
}

/// Matches `test a::b ... ok`, `test_x (mod.Class) ... FAIL`, `FAIL [   0.004s] crate a::b`.
fn parse_cargo(line: &str) -> Option<(bool, &str)> {
    if let Some((name, result)) = line.rsplit_once(" ... ") {
        let name = name.strip_prefix("test ").unwrap_or(name);
        let name = name.split(" - should panic").next().unwrap_or(name);
        let name = name.split(" (").next().unwrap_or(name);
        return match result.split_whitespace().next()? {
            "ok" => Some((true, name)),
            "FAILED" | "FAIL" | "ERROR" => Some((false, name)),
            _ => None,
        };
    }
    if let Some(name) =
        line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
    {
        return Some((false, name));
    }
    let (result, rest) = line.split_once(" [")?;
    let name = || rest.split_once("] ").and_then(|(_, name)| name.split_whitespace().last());
    match result {
        "PASS" => Some((true, name()?)),
        "FAIL" => Some((false, name()?)),
        _ => None,
    }
}

/// Matches `FAILED a.py::b - why`, `a.py::b PASSED [ 50%]`, `FAIL: test_x (mod.Class)`.
fn parse_python(line: &str) -> Option<(bool, &str)> {
    for (mark, passed) in [("FAIL: ", false), ("ERROR: ", false)] {
        if let Some((name, _)) = line.strip_prefix(mark).and_then(|rest| rest.split_once(" (")) {
            return (!name.contains(' ')).then_some((passed, name));
        }
    }
    let result = |word: &str| match word {
        "PASSED" => Some(true),
        "FAILED" | "ERROR" => Some(false),
        _ => None,
    };
    let is_name = |word: &str| word.contains("::") || word.ends_with(".py");
    let (first, rest) = line.split_once(' ')?;
    if let Some(passed) = result(first) {
        let name = rest.split(" - ").next().unwrap_or(rest).trim();
        return is_name(name).then_some((passed, name));
    }
    // A parameter in a name may contain spaces.
    for mark in [" PASSED", " FAILED", " ERROR"] {
        let Some((name, rest)) = line.rsplit_once(mark) else { continue };
        let ends = rest.is_empty() || rest.starts_with(' ');
        if ends && is_name(name) && (name.contains('[') || !name.contains(' ')) {
            return Some((result(mark.trim())?, name));
        }
    }
    None
}

/// Matches `✓ name (3 ms)`, `● suite › name`, `--- FAIL: Name (0.00s)`, `not ok 1 - name`.
fn parse_marks(line: &str) -> Option<(bool, &str)> {
    const MARKS: [(&str, bool); 9] = [
        ("✓ ", true),
        ("✔ ", true),
        ("✕ ", false),
        ("✖ ", false),
        ("× ", false),
        ("✗ ", false),
        ("● ", false),
        ("--- FAIL: ", false),
        ("--- PASS: ", true),
    ];
    if let Some((name, passed)) =
        MARKS.iter().find_map(|(mark, passed)| Some((line.strip_prefix(mark)?, *passed)))
    {
        if matches!(name, "Console" | "Test suite failed to run") {
            return None;
        }
        // The duration follows the name.
        let name = match name.rsplit_once(" (") {
            Some((name, took)) if took.ends_with("s)") => name,
            _ => name,
        };
        let name = match name.rsplit_once(' ') {
            Some((name, took)) if is_duration(took) => name,
            _ => name,
        };
        return Some((passed, name.trim()));
    }
    let passed = !line.starts_with("not ok ");
    let rest = line.strip_prefix("not ok ").or_else(|| line.strip_prefix("ok "))?;
    let (number, name) = rest.split_once(' ')?;
    number.parse::<u64>().ok()?;
    Some((passed, name.trim_start_matches("- ")))
}

/// Matches `4ms`, `1.2s`.
fn is_duration(word: &str) -> bool {
    let number = word.strip_suffix("ms").or_else(|| word.strip_suffix('s'));
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Matches Vitest and Jest by file, Gradle, `dotnet`, CTest and `RSpec`.
fn parse_others(line: &str) -> Option<(bool, &str)> {
    for (mark, passed) in [("FAIL ", false), ("PASS ", true)] {
        if let Some(name) = line.strip_prefix(mark).map(str::trim_start) {
            let file = name.split_whitespace().next().unwrap_or_default();
            return file.contains('.').then(|| (passed, name.split(" (").next().unwrap_or(name)));
        }
    }
    if let Some((name, _)) = line.split_once(" FAILED").filter(|(name, _)| name.contains(" > ")) {
        return Some((false, name));
    }
    if let Some(rest) = line.strip_prefix("Failed ").or_else(|| line.strip_prefix("Passed ")) {
        let (name, _) = rest.split_once(" [")?;
        return (!name.contains(' ')).then(|| (line.starts_with("Passed"), name));
    }
    if let Some((_, name)) = line.strip_prefix("rspec ").and_then(|rest| rest.split_once(" # ")) {
        return Some((false, name));
    }
    let (_, test) = line.split_once("Test ").filter(|_| line.contains("***Failed"))?;
    let (_, name) = test.split_once(": ")?;
    Some((false, name.split([' ', '.']).next().unwrap_or(name)))
}
