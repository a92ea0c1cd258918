//! Configuration files of agents with and without our entries, and the diff shown to the user.

use serde_json::{Value, json};
use sessionlog::hook::install::{
    AgentProgram, EntryKind, InstalledCommand, PlanError, add_entries, diff, fold_equal_blocks,
    remove_entries,
};

fn command(program: &str, arguments: &[&str]) -> InstalledCommand {
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    InstalledCommand { program: program.to_owned(), arguments, allows_reads: false }
}

#[test]
fn hooks_of_the_user_are_kept_and_ours_replaced_or_removed() {
    let with = |text: &str, program: &str| {
        add_entries(Some(text), EntryKind::Hooks, AgentProgram::ClaudeCode, &command(program, &[]))
            .expect("JSON")
    };
    let stop = |text: &str| {
        let read: Value = serde_json::from_str(&text.replace("// c\n", "")).expect("JSON");
        read["hooks"].get("Stop").cloned().unwrap_or_else(|| json!([]))
    };
    let ours = |program: &str| {
        let line = format!("{program} hook");
        json!({ "type": "command", "command": line, "timeout": 10 })
    };
    for (written, after, left) in [
        // With a matcher: the user's own, regardless of its command.
        (
            r#"[{"matcher":"Bash","hooks":[{"command":"/a/sessionlog hook"}]}]"#,
            json!([
                { "matcher": "Bash", "hooks": [{ "command": "/a/sessionlog hook" }] },
                { "hooks": [ours("/b/sessionlog")] },
            ]),
            json!([{ "matcher": "Bash", "hooks": [{ "command": "/a/sessionlog hook" }] }]),
        ),
        // Among others, with a timeout that the user set.
        (
            r#"[{"hooks":[{"command":"afplay x"},{"command":"/a/sessionlog hook","timeout":3}]}]"#,
            json!([{ "hooks": [
                { "command": "afplay x" }, { "command": "/b/sessionlog hook", "timeout": 3 },
            ] }]),
            json!([{ "hooks": [{ "command": "afplay x" }] }]),
        ),
        // Written by an older version of ours, with a comment in it.
        (
            "[{\"hooks\":[{\"type\":\"command\",// c\n\"command\":\"sessionlog hook\",\"timeout\":10}]}]",
            json!([{ "hooks": [ours("/b/sessionlog")] }]),
            json!([]),
        ),
    ] {
        let text = format!("{{\"hooks\": {{\"Stop\": {written}}}, \"x\": 1}}");
        let made = with(&text, "/b/sessionlog");
        assert_eq!(stop(&made), after, "{made}");
        assert_eq!(with(&made, "/b/sessionlog"), made, "twice is once");
        let moved = with(&made, "/c/sessionlog");
        assert_eq!(with(&moved, "/b/sessionlog"), made);
        let gone = remove_entries(&made, EntryKind::Hooks).expect("JSON");
        assert_eq!(stop(&gone), left, "{gone}");
        assert!(gone.ends_with("\"x\": 1}") && !gone.contains("SessionStart"), "{gone}");
    }
}

#[test]
fn replacing_our_server_entry_keeps_members_the_user_added() {
    let command = command("/b/sessionlog", &[]);
    let text = r#"{"mcpServers": {"sessionlog": {"command": "old", "env": {"A": "1"}}}}"#;
    let made = add_entries(Some(text), EntryKind::Servers, AgentProgram::ClaudeCode, &command)
        .expect("JSON");
    let read: Value = serde_json::from_str(&made).expect("JSON");
    let server = &read["mcpServers"]["sessionlog"];
    assert_eq!((&server["command"], &server["env"]["A"]), (&json!("/b/sessionlog"), &json!("1")));
    assert_eq!(
        add_entries(Some(&made), EntryKind::Servers, AgentProgram::ClaudeCode, &command),
        Ok(made)
    );
}

/// Adds our server to a TOML text.
fn set_server(text: &str, program: &str, words: &[&str]) -> Result<String, PlanError> {
    add_entries(Some(text), EntryKind::ServersToml, AgentProgram::Codex, &command(program, words))
}

fn remove_server(text: &str) -> Result<String, PlanError> {
    remove_entries(text, EntryKind::ServersToml)
}

#[test]
fn a_toml_server_entry_is_added_once_and_removed_byte_for_byte() {
    let words = ["--data-dir", "/a b"];
    for text in [
        "",
        "# mine\nmodel = \"x\" # why\n\n[mcp_servers.other]\ncommand = 'y'\n",
        "[profiles.a]\nmodel='m'\n\n\n[tui]\nnotifications = true\n",
        "a = 1",
        "\u{feff}a = 1\r\n\r\n[b]\r\nc = \"\"\"\r\nd\"\"\"\r\n",
        "[b]\n\tc = [ 1, ] # why\n",
        "# without sessionlog\na = 1\n",
    ] {
        let made = set_server(text, "/opt/sessionlog", &words).expect("TOML");
        assert!(made.starts_with(text.trim_end()), "{made}");
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
        assert!(made.contains(&format!("[mcp_servers.sessionlog]{line}")), "{made}");
        assert_eq!(made.matches('\n').count(), made.matches(line).count(), "{made}");
        assert_eq!(set_server(&made, "/opt/sessionlog", &words).as_deref(), Ok(&*made));
        let back = remove_server(&made).expect("TOML");
        assert_eq!(back.trim_end(), text.trim_end());
        assert_eq!(remove_server(&back).as_deref(), Ok(&*back));
    }
    let old = "[mcp_servers.sessionlog]\ncommand = \"old\"\nenv = { A = \"1\" }\n";
    let moved = set_server(old, "new", &words).expect("TOML");
    assert!(moved.contains("command = \"new\"") && moved.contains("A = \"1\""), "{moved}");
    // Comments are kept, in the text or at the end.
    for text in ["a = 1\n# the end\n", "# mine\n[mcp_servers.sessionlog]\ncommand = \"x\"\n[b]\n"] {
        let made = set_server(text, "/opt/sessionlog", &words).expect("TOML");
        let back = remove_server(&made).expect("TOML");
        assert!(made.contains('#') && back.contains('#'), "{made}{back}");
    }
    for wrong in ["a = 1\na = 2\n", "mcp_servers = 7", "[a\n"] {
        assert!(set_server(wrong, "p", &words).is_err(), "{wrong}");
    }
}

#[test]
fn equal_diff_blocks_are_shown_once() {
    let one = |name: &str| format!("+  \"{name}\": [\n+    {{ \"a\": 1 }}\n+  ],\n");
    let last = one("C").replace("],", "]");
    let diff = format!("@@ line 1 @@\n+{{\n{}{}{last}+}}\n", one("A"), one("B"));
    let expected = format!("@@ line 1 @@\n+{{\n{}  (the same in 2 more: B, C)\n+}}\n", one("A"));
    assert_eq!(fold_equal_blocks(&diff), expected);
    let place = |line: usize| format!("@@ line {line} @@\n-a\n+b\n");
    let diff = format!("{}{}@@ line 9 @@\n-c\n", place(1), place(5));
    let expected = format!("{}  (the same in 1 more: line 5)\n@@ line 9 @@\n-c\n", place(1));
    assert_eq!(fold_equal_blocks(&diff), expected);
}

#[test]
fn a_diff_has_removed_and_added_lines_with_context() {
    assert_eq!(diff("a\nb\n", "a\nb\n"), "");
    assert_eq!(diff("", "a\n"), "@@ line 1 @@\n+a\n");
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let after = "1\n2\n3\n4\nnew\n5\n6\n7\n8\nother\n";
    let shown = diff(before, after);
    assert_eq!(shown, "@@ line 2 @@\n 2\n 3\n 4\n+new\n 5\n 6\n 7\n 8\n-9\n+other\n");
    // The parts must add up to either text; the first line of both is not shown.
    let side = |mark: char| -> String {
        let of = shown.lines().filter_map(|line| line.strip_prefix([' ', mark]));
        std::iter::once("1").chain(of).map(|line| format!("{line}\n")).collect()
    };
    assert_eq!((side('-'), side('+')), (before.to_owned(), after.to_owned()));
}
