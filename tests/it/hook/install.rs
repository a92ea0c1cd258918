//! Installation into agents and its removal: foreign settings are kept, byte for byte.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{Place, Ran};

/// Settings that a user wrote.
const CLAUDE: &str = r#"{
    "model" :   "opus",
    "permissions": {"allow": ["Bash(ls:*)"], "max": 1.0e3},
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "afplay done.wav"}]}
        ]
    },
    "env": { "A": "\u00e9" }
}
"#;
const STATE: &str =
    r#"{"numStartups": 3, "mcpServers": {"other": {"command": "x"}}, "projects": {}}"#;
const CODEX: &str = "# mine\nmodel = \"gpt-5\"   # why\n\n[mcp_servers.other]\ncommand = 'y'\n";

fn write(place: &Place, name: &str, text: &str) {
    let path = place.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(place: &Place, name: &str) -> Option<String> {
    std::fs::read_to_string(place.path(name)).ok()
}

/// Returns the files of each agent, with a user's content.
fn files(agent: &str) -> [(&'static str, &'static str); 2] {
    match agent {
        "claude-code" => [(".claude/settings.json", CLAUDE), (".claude.json", STATE)],
        _ => [(".codex/hooks.json", "{\n\t\"hooks\": {}\n}"), (".codex/config.toml", CODEX)],
    }
}

#[test]
fn an_installation_keeps_other_settings_and_uninstalling_restores_every_byte() {
    for agent in ["claude-code", "codex"] {
        for there in [true, false] {
            let place = Place::new();
            for (name, text) in files(agent).iter().filter(|_| there) {
                write(&place, name, text);
            }
            place.run(&["install", agent, "--yes"]).ok();
            for (name, text) in files(agent) {
                let now = read(&place, name).unwrap();
                assert!(now.contains("sessionlog"), "{name}: {now}");
                if there && name.ends_with("settings.json") {
                    for line in
                        text.lines().filter(|line| line.len() > 12 && !line.ends_with("}]}"))
                    {
                        assert!(now.contains(line), "{line:?} of {name}: {now}");
                    }
                }
            }
            // A second installation changes nothing.
            let before = files(agent).map(|(name, _)| read(&place, name));
            let again = place.run(&["install", agent, "--yes"]).ok();
            assert!(again.contains("Nothing to change"), "{again}");
            assert_eq!(files(agent).map(|(name, _)| read(&place, name)), before);
            place.run(&["uninstall", agent, "--yes"]).ok();
            for (name, text) in files(agent) {
                let expected = there.then(|| text.to_owned());
                assert_eq!(read(&place, name), expected, "{name}");
            }
            let directory = place.path(files(agent)[0].0.split('/').next().unwrap());
            assert_eq!(directory.exists(), there, "{agent}: a directory of its own goes again");
            assert!(place.run(&["uninstall", agent, "--yes"]).ok().contains("Nothing to change"));
        }
    }
}

#[test]
fn uninstalling_restores_every_byte_of_a_settings_file_of_any_layout() {
    let json = [
        "",
        "\n\n",
        "\u{feff}",
        "{}",
        "{ }\n",
        "\u{feff}{\"a\": 1}",
        "{\r\n\t\"a\": 1, // why\r\n\t\"b\": [1, 2,],\r\n}\r\n",
        "{\n  // a comment alone\n}",
        "{\"hooks\": {}, \"mcpServers\": {}}",
        "{\"hooks\": {\"Stop\": [], \"Stop\": [{\"hooks\": []}]}, \"hooks\": {/* none */}}",
        "{\"mcpServers\": {\"a\": {}}, \"mcpServers\": {\"b\": {} /* b */}}\n\n",
        "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{ \"hooks\": [] } // mine\n\t\t]\n\t}\n}",
    ];
    let toml = [
        "",
        "\n",
        "# a comment alone",
        "a = 1",
        "\u{feff}a = 1\r\n# why\r\n[b]\r\n",
        "a = 1\r\nb = 2\n",
        "[b]\n\tc = [\n\t1, # one\n\t]\n# the end",
        "[mcp_servers]\n",
        "mcp_servers = { a = { command = \"x\" } }\n",
        "[mcp_servers.a]\ncommand = \"x\"\n[tui]\n",
    ];
    for agent in ["claude-code", "codex"] {
        for (at, text) in json.iter().enumerate() {
            let place = Place::new();
            let texts = files(agent).map(|(name, _)| match name.ends_with(".toml") {
                true => (name, toml[at.min(toml.len() - 1)]),
                false => (name, *text),
            });
            for (name, text) in texts {
                write(&place, name, text);
            }
            place.run(&["install", agent, "--yes"]).ok();
            let made = texts.map(|(name, _)| read(&place, name).unwrap());
            for ((name, text), made) in texts.iter().zip(&made) {
                assert!(made.contains("sessionlog"), "{name}: {made}");
                for line in text.lines().filter(|line| line.contains("//") || line.contains('#')) {
                    let comment = &line[line.find(['/', '#']).unwrap()..];
                    assert!(made.contains(comment), "{name}: {made}");
                }
            }
            assert!(place.run(&["install", agent, "--yes"]).ok().contains("Nothing to change"));
            // With other settings, and reverted: the original content is still known.
            place.run(&["install", agent, "--yes", "--hook-tokens", "7"]).ok();
            place.run(&["install", agent, "--yes"]).ok();
            place.run(&["uninstall", agent, "--yes"]).ok();
            for (name, text) in texts {
                assert_eq!(read(&place, name).as_deref(), Some(text), "{name}");
            }
        }
    }
}

#[test]
fn installed_hooks_name_the_program_by_its_link_and_not_by_its_version() {
    let place = Place::new();
    let version = place.path("versions/1.2.3/sessionlog");
    std::fs::create_dir_all(version.parent().unwrap()).unwrap();
    std::fs::create_dir(place.path("bin")).unwrap();
    crate::program::copy_program(&version, "");
    let link = place.path("bin/sessionlog");
    std::os::unix::fs::symlink(&version, &link).unwrap();
    let installed = |mut command: std::process::Command| {
        let base = place.command(&["install", "claude-code", "--yes"]);
        let own = base.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let ran = command.args(base.get_args()).env_clear().envs(own);
        let ran = ran.env("PATH", place.path("bin")).current_dir(place.path("")).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let settings: Value =
            serde_json::from_str(&read(&place, ".claude/settings.json").unwrap()).unwrap();
        settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap().to_owned()
    };
    use std::os::unix::process::CommandExt as _;
    let expected = format!("{} hook", link.display());
    assert_eq!(installed(std::process::Command::new(&link)), expected);
    assert_eq!(installed(std::process::Command::new("bin/sessionlog")), expected);
    let mut by_name = std::process::Command::new(&link);
    by_name.arg0("sessionlog");
    assert_eq!(installed(by_name), expected);
    // A program run under another name installs that name.
    let mut by_another = std::process::Command::new(&version);
    by_another.arg0("/bin/sh");
    assert_eq!(installed(by_another), format!("{} hook", version.display()));
}

#[test]
fn uninstalling_keeps_settings_written_after_the_installation() {
    for agent in ["claude-code", "codex"] {
        let place = Place::new();
        for (name, text) in files(agent) {
            write(&place, name, text);
        }
        place.run(&["install", agent, "--yes"]).ok();
        for (name, _) in files(agent) {
            let text = read(&place, name).unwrap();
            let more = match name.ends_with(".toml") {
                true => format!("{text}\n[tui]\nx = 1 # since\n"),
                false => text.replacen('{', "{\"since\": 1,", 1),
            };
            write(&place, name, &more);
        }
        place.run(&["uninstall", agent, "--yes"]).ok();
        for (name, text) in files(agent) {
            let now = read(&place, name).unwrap();
            assert!(now.contains("since") && !now.contains("sessionlog"), "{name}: {now}");
            match name {
                ".codex/hooks.json" => {}
                ".codex/config.toml" => assert!(now.starts_with(CODEX.trim_end()), "{now}"),
                _ => assert_eq!(now.replacen("{\"since\": 1,", "{", 1), text, "{name}"),
            }
        }
    }
}

#[test]
fn installed_files_name_the_program_its_hooks_and_its_tools() {
    let place = Place::new();
    let data = place.data_dir();
    let data = data.to_str().unwrap();
    place.run(&["install", "claude-code", "--yes", "--data-dir", data]).ok();
    let json = |name: &str| serde_json::from_str::<Value>(&read(&place, name).unwrap()).unwrap();
    let settings = json(".claude/settings.json");
    let line = settings["hooks"]["PostToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    assert!(line.ends_with(&format!("sessionlog --data-dir {data} hook")), "{line}");
    assert!(Path::new(line.split(' ').next().unwrap()).is_absolute(), "{line}");
    let server = &json(".claude.json")["mcpServers"]["sessionlog"];
    assert_eq!(server["args"], json!(["--data-dir", data, "mcp", "--toolsets", "agent"]));
    // Another home directory is set by the program's variable.
    let moved = place.path("moved");
    let mut command = place.command(&["install", "codex", "--yes", "--json"]);
    let ran = command.env("CODEX_HOME", &moved).output().unwrap();
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&told["applied"], &told["files"][0]["change"]), (&json!(true), &json!("create")));
    assert!(told["files"][1]["diff"].as_str().unwrap().contains("+[mcp_servers.sessionlog]"));
    assert!(moved.join("config.toml").exists() && !place.path(".codex").exists());
    // Shared project settings use the program's name if PATH finds it, and else its path.
    let project = ["install", "claude-code", "--yes", "--scope", "project"];
    let ours = Path::new(env!("CARGO_BIN_EXE_sessionlog"));
    std::fs::create_dir(place.path("bin")).unwrap();
    std::fs::write(place.path("bin/sessionlog"), "another program").unwrap();
    let other = place.path("bin");
    for (path, named) in
        [(None, ours), (Some(other.as_path()), ours), (ours.parent(), Path::new("sessionlog"))]
    {
        let mut command = place.command(&project);
        path.map(|path| command.env("PATH", path));
        assert!(command.output().unwrap().status.success(), "{path:?}");
        let shared: Value = serde_json::from_str(&read(&place, ".mcp.json").unwrap()).unwrap();
        let command = shared["mcpServers"]["sessionlog"]["command"].as_str().unwrap();
        assert_eq!(Path::new(command), named, "{path:?}: {shared}");
    }
    place.run(&["uninstall", "claude-code", "--yes", "--scope", "project"]).ok();
    assert_eq!(read(&place, ".mcp.json"), None);
}

#[test]
fn installed_files_have_every_setting_that_was_given_as_a_flag() {
    let store = "postgres://sl@127.0.0.1:9/sessions";
    for agent in ["claude-code", "codex"] {
        let place = Place::new();
        let given =
            ["--store", store, "--store-passfile", "pass", "--record", "off", "--log", "debug"];
        place.run(&[&["install", agent, "--yes"], &given[..]].concat()).ok();
        for (name, _) in files(agent) {
            let made = read(&place, name).unwrap();
            let passfile = place.path("pass").display().to_string();
            for value in [store, &*passfile, "--record"] {
                assert!(made.contains(value), "{value}: {made}");
            }
            assert!(!made.contains("--log"), "{made}");
        }
    }
}

#[test]
fn a_change_is_shown_before_it_is_made_and_an_invalid_file_is_unchanged() {
    let place = Place::new();
    write(&place, ".claude/settings.json", CLAUDE);
    let shown = place.run(&["install", "claude-code", "--yes", "--dry-run"]).ok();
    assert!(shown.contains("\n+") && shown.contains("SessionStart"), "{shown}");
    assert!(shown.contains("Nothing was changed"), "{shown}");
    assert_eq!(read(&place, ".claude/settings.json").unwrap(), CLAUDE);
    assert_eq!(read(&place, ".claude.json"), None);
    for (name, text) in [
        (".claude/settings.json", "{\n \"hooks\": nope }"),
        (".claude/settings.json", "[]"),
        (".claude/settings.json", "{\"hooks\": []}"),
        (".claude.json", "{\"mcpServers\": 7}"),
    ] {
        let place = Place::new();
        write(&place, name, text);
        let ran: Ran = place.run(&["install", "claude-code", "--yes", "--json"]);
        assert_eq!(ran.refused(1), "invalid_request", "{text}");
        assert_eq!(read(&place, name).as_deref(), Some(text));
    }
    assert_eq!(place.run(&["install", "emacs"]).code, 2);
}

#[test]
fn a_link_stays_a_link_and_a_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    write(&place, "dotfiles/settings.json", CLAUDE);
    let real = place.path("dotfiles/settings.json");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::create_dir(place.path(".claude")).unwrap();
    std::os::unix::fs::symlink(&real, place.path(".claude/settings.json")).unwrap();
    let said = place.run(&["install", "claude-code", "--yes"]).ok();
    let real_path = std::fs::canonicalize(&real).unwrap();
    assert!(said.contains(&format!("settings.json -> {} (change)", real_path.display())), "{said}");
    assert!(std::fs::symlink_metadata(place.path(".claude/settings.json")).unwrap().is_symlink());
    assert!(read(&place, "dotfiles/settings.json").unwrap().contains("sessionlog"));
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
}

/// Returns the files below a directory, links as their targets.
fn tree(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.display().to_string();
        if let Ok(to) = std::fs::read_link(&entry) {
            found.push((name, format!("-> {}", to.display())));
        } else if entry.is_dir() {
            found.extend(tree(&entry));
            found.push((name, "directory".to_owned()));
        } else {
            found.push((name, std::fs::read_to_string(&entry).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_link_out_of_a_project_is_rejected_with_its_name_and_nothing_changes() {
    use std::os::unix::fs::symlink;
    let cases: [(&str, &str, &str); 8] = [
        ("claude-code", ".claude/settings.json", "mine/settings.json"),
        ("claude-code", ".claude/settings.json", "mine/absent.json"),
        ("claude-code", ".claude", "mine"),
        ("claude-code", ".claude", "mine/absent"),
        ("claude-code", ".mcp.json", "mine/servers.json"),
        ("codex", ".codex/hooks.json", "mine/settings.json"),
        ("codex", ".codex/config.toml", "mine/config.toml"),
        ("codex", ".codex", "mine"),
    ];
    for (agent, link, target) in cases {
        let place = Place::new();
        for (name, text) in [
            ("mine/settings.json", CLAUDE),
            ("mine/servers.json", STATE),
            ("mine/config.toml", CODEX),
            ("mine/hooks.json", "{}"),
            ("project/README", "a project"),
        ] {
            write(&place, name, text);
        }
        let project = place.path("project");
        let at = project.join(link);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        for target in [place.path(target), Path::new("../..").join(target)] {
            let _ = std::fs::remove_file(&at);
            symlink(&target, &at).unwrap();
            let before = tree(&place.path("."));
            for verb in ["install", "uninstall"] {
                let mut command =
                    place.command(&[verb, agent, "--scope", "project", "--yes", "--json"]);
                let ran = crate::program::ran(command.current_dir(&project).spawn().unwrap());
                let said = ran.out.clone();
                assert_eq!(ran.refused(1), "invalid_request", "{verb} {link}");
                assert!(said.contains(link) && said.contains("--scope user"), "{said}");
                assert_eq!(tree(&place.path(".")), before, "{verb} {link} -> {target:?}");
            }
        }
    }
}

#[test]
fn a_link_within_a_project_is_followed_and_a_pipe_is_rejected() {
    let place = Place::new();
    write(&place, "project/shared/settings.json", CLAUDE);
    let project = place.path("project");
    std::os::unix::fs::symlink("shared", project.join(".claude")).unwrap();
    let run = |verb: &str| {
        let mut command = place.command(&[verb, "claude-code", "--scope", "project", "--yes"]);
        crate::program::ran(command.current_dir(&project).spawn().unwrap())
    };
    let said = run("install").ok();
    assert!(said.contains(".claude/settings.json -> ") && said.contains("shared"), "{said}");
    assert!(read(&place, "project/shared/settings.json").unwrap().contains("SessionStart"));
    run("uninstall").ok();
    assert_eq!(read(&place, "project/shared/settings.json").as_deref(), Some(CLAUDE));

    let pipe = std::process::Command::new("mkfifo").arg(project.join(".mcp.json")).status();
    assert!(pipe.unwrap().success());
    let refused = run("install");
    assert!(refused.code == 1 && refused.err.contains("no regular file"), "{}", refused.err);
    let mut doctor = place.command(&["doctor"]);
    let looked = crate::program::ran(doctor.current_dir(&project).spawn().unwrap());
    assert!(looked.out.contains("claude"), "it waits for no writer: {looked:?}");
}

#[test]
fn every_tool_that_a_recovery_text_names_is_installed() {
    use sessionlog::verbs::tools::{Toolset, in_toolsets, tools as all_tools};

    let place = Place::new();
    for (agent, file) in [("claude-code", ".claude.json"), ("codex", ".codex/config.toml")] {
        place.run(&["install", agent, "--yes"]).ok();
        let text = read(&place, file).unwrap();
        let (_, after) = text.split_once("--toolsets\"").unwrap();
        let toolsets = Toolset::parse_list(after.split('"').nth(1).unwrap()).unwrap();
        let tools = || in_toolsets(&toolsets);
        let schema = |tool: &sessionlog::verbs::tools::Tool| {
            let schema = Value::Object(tool.schema_for(&toolsets)).to_string();
            tool.name.len() + tool.about.len() + schema.len()
        };
        let bytes: usize = tools().map(schema).sum();
        assert!(bytes < 5_000, "{bytes} bytes of schemas, at about 3.5 a token");
        let event = super::claude("UserPromptSubmit", &json!({ "prompt": "Paint the wall" }));
        super::quiet(&place, &event);
        let event = super::claude("SessionStart", &json!({ "source": "compact" }));
        let (text, _) = super::told_to_model(&place, &event);
        let named: Vec<_> = all_tools().iter().filter(|tool| text.contains(tool.name)).collect();
        assert!(!named.is_empty(), "{text}");
        for tool in named {
            assert!(tools().any(|offered| offered.name == tool.name), "{}: {text}", tool.name);
        }
    }
}

#[test]
fn rules_for_read_only_tools_are_added_on_request_and_uninstalled() {
    let place = Place::new();
    let [(settings, before), _] = files("claude-code");
    write(&place, settings, before);
    let plain = place.run(&["install", "claude-code", "--yes"]).ok();
    assert!(plain.contains("--allow-reads"), "it is offered: {plain}");
    let allowed = |place: &Place| {
        let now: Value = serde_json::from_str(&read(place, settings).unwrap()).unwrap();
        now["permissions"]["allow"].as_array().unwrap().clone()
    };
    assert_eq!(allowed(&place), [json!("Bash(ls:*)")]);
    for _ in 0..2 {
        place.run(&["install", "claude-code", "--allow-reads", "--yes"]).ok();
        let rules = allowed(&place);
        assert_eq!(rules[0], "Bash(ls:*)");
        for tool in ["get_research_session", "get_events", "memory_search"] {
            let rule = json!(format!("mcp__sessionlog__{tool}"));
            assert_eq!(rules.iter().filter(|one| **one == rule).count(), 1, "{rules:?}");
        }
        for tool in ["sequential_search", "memory_insert", "clear_session", "delete_session"] {
            assert!(!json!(rules).to_string().contains(tool), "{tool}: {rules:?}");
        }
    }
    place.run(&["uninstall", "claude-code", "--yes"]).ok();
    assert_eq!(read(&place, settings).unwrap(), before);
    // An edited file loses only our rules.
    place.run(&["install", "claude-code", "--allow-reads", "--yes"]).ok();
    let edited = read(&place, settings).unwrap().replace("Bash(ls:*)", "Bash(cat:*)");
    write(&place, settings, &edited);
    place.run(&["uninstall", "claude-code", "--yes"]).ok();
    assert_eq!(allowed(&place), [json!("Bash(cat:*)")]);
}

#[test]
fn the_session_end_hook_of_codex_has_its_maximum_timeout() {
    let place = Place::new();
    place.run(&["install", "codex", "--yes"]).ok();
    let timeout = |event: &str| {
        let now: Value = serde_json::from_str(&read(&place, ".codex/hooks.json").unwrap()).unwrap();
        now["hooks"][event][0]["hooks"][0]["timeout"].clone()
    };
    assert_eq!((timeout("SessionEnd"), timeout("Stop")), (json!(3), json!(10)));
    // An older version used the general timeout; a user's value is kept.
    for (written, expected) in [(10, 3), (2, 2)] {
        let now = read(&place, ".codex/hooks.json").unwrap();
        let at = now.find("SessionEnd").unwrap();
        let (before, end) = now.split_at(at);
        let mended = end.replacen(
            &format!("\"timeout\": {}", timeout("SessionEnd")),
            &format!("\"timeout\": {written}"),
            1,
        );
        write(&place, ".codex/hooks.json", &(before.to_owned() + &mended));
        place.run(&["install", "codex", "--yes"]).ok();
        assert_eq!(timeout("SessionEnd"), json!(expected), "{written}");
    }
}

#[test]
fn doctor_reports_the_last_recording_of_installed_hooks_or_its_absence() {
    let place = Place::new();
    place.run(&["install", "codex", "--yes"]).ok();
    let start = super::claude("SessionStart", &json!({ "source": "startup" }));
    super::quiet(&place, &start);
    let check = |name: &str| {
        let found = place.run(&["doctor", "--json"]).json();
        let checks = found["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["check"] == name).unwrap()
    };
    let codex = check("hooks of codex");
    assert_eq!(codex["state"], "warn", "{codex}");
    assert!(codex["found"].to_string().contains("none recorded anything yet"), "{codex}");
    assert!(codex["action"].to_string().contains("/hooks"), "{codex}");
    assert_eq!(check("hooks of claude")["found"], "not installed");
    super::quiet(&place, &super::of("other", super::codex("Stop", &json!({}))));
    let codex = check("hooks of codex");
    assert_eq!(codex["state"], "ok", "{codex}");
    assert!(codex["found"].to_string().contains("last recorded 20"), "{codex}");
}

#[test]
fn doctor_reports_an_owner_of_another_build() {
    let place = Place::new();
    // The owner does not stop when it is idle.
    let server = place.serve();
    let program = place.path("another-sessionlog");
    crate::program::copy_program(&program, "x");
    let owner = |place: &Place| {
        let mut doctor = place.program(program.to_str().unwrap(), &["doctor", "--json"]);
        let found = crate::program::ran(doctor.spawn().unwrap()).json();
        let checks = found["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["check"] == "owner").unwrap()
    };
    let found = owner(&place);
    assert_eq!(found["state"], "warn", "{found}");
    assert!(found["found"].to_string().contains("another build"), "{found}");
    let same = place.run(&["doctor", "--json"]).json();
    assert!(!same.to_string().contains("another build"), "{same}");
    server.stop();
}
