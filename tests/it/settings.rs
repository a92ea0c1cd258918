//! The settings of the command line: their sources, and which values are rejected. It must not
//! start an owner for them.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;

use crate::program::Place;

/// Returns the program's command with these variables, a home, and no other configuration.
fn command(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = place.command(arguments);
    command.env_clear().env("HOME", "/h").envs(variables.iter().copied());
    command
}

/// Returns the settings as `config --json` prints them.
fn settings(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let arguments = [arguments, &["config", "--json"]].concat();
    let ran = command(place, &arguments, variables).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();
    printed["settings"].clone()
}

#[test]
fn a_flag_overrides_the_environment_then_the_file_then_the_default() {
    let place = Place::new();
    let text = "listen = \"127.0.0.1:1\"\nlog = \"warn\"\ndata_dir = \"d\"\n";
    let file = place.write("sessionlog.toml", text);
    let arguments = ["--config", file.to_str().unwrap(), "--listen", "127.0.0.1:3"];
    let variables = [("SESSIONLOG_LISTEN", "127.0.0.1:2"), ("SESSIONLOG_LOG", "debug")];
    let found = settings(&place, &arguments, &variables);
    for (name, value, source) in [
        ("listen", "127.0.0.1:3", "flag --listen"),
        ("log", "debug", "environment SESSIONLOG_LOG"),
        ("data_dir", "d", &format!("file {}", file.display())),
        ("owner_idle", "60s", "default"),
    ] {
        assert_eq!(found[name]["value"], value, "{name}");
        assert_eq!(found[name]["source"], source, "{name}");
    }
}

#[test]
fn every_setting_has_a_flag_of_its_name_before_and_after_the_verb() {
    let place = Place::new();
    for (name, text) in [("x", ""), ("key", &*"ab".repeat(32))] {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(place.write(name, text), private).unwrap();
    }
    let all = settings(&place, &[], &[]);
    for (name, setting) in all.as_object().unwrap() {
        if setting["help"].as_str().unwrap().contains("environment only") {
            continue;
        }
        let value = match name.as_str() {
            "url" => "http://127.0.0.1:1",
            "store" => "postgres://ada@127.0.0.1/logs",
            "require_durability" => "single",
            "embedder_url" => "http://127.0.0.1:1/v1/embeddings",
            "key_file" => "key",
            "key_command" => "cat key",
            _ => setting["value"].as_str().unwrap_or("x"),
        };
        let flag = format!("--{}", name.replace('_', "-"));
        let before = settings(&place, &[&flag, value], &[]);
        let ran = command(&place, &["config", "--json", &flag, value], &[]).output().unwrap();
        let after: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(before[name]["source"], format!("flag {flag}"));
        assert_eq!(after["settings"], before, "{name}");
    }
}

#[test]
fn an_empty_environment_variable_counts_as_unset() {
    let place = Place::new();
    let all = settings(&place, &[], &[]);
    // An empty key is rejected: the command that should have set it failed.
    let is_key = |name: &&String| name.starts_with("key");
    let names: Vec<&String> =
        all.as_object().unwrap().keys().filter(|name| !is_key(name)).collect();
    let variables: Vec<String> =
        names.iter().map(|name| format!("SESSIONLOG_{}", name.to_uppercase())).collect();
    let empty: Vec<(&str, &str)> = variables.iter().map(|name| (&**name, "")).collect();
    let found = settings(&place, &[], &empty);
    assert!(names.iter().all(|name| found[name.as_str()]["source"] == "default"), "{found}");
}

#[test]
fn an_invalid_value_and_an_unknown_setting_are_rejected_with_an_error_naming_them() {
    let place = Place::new();
    let key = "ab".repeat(32);
    for (name, value, named) in [
        ("LISTEN", "7717", "listen"),
        ("OWNER_IDLE", "soon", "owner_idle"),
        ("TTL", "4 hours", "ttl"),
        ("RETENTION", "for ever", "retention"),
        ("GRACE", "-1d", "grace"),
        ("MAX_STEPS", "many", "max_steps"),
        ("TOKEN_LIMIT", "-1", "token_limit"),
        ("TOKEN_THRESHOLD", "75", "token_threshold"),
        ("TOKEN_MARGIN", "some", "token_margin"),
        ("LOG", "rmcp=trace", "log"),
        ("LOG", "3", "log"),
        ("URL", "ftp://x", "url"),
        ("JOURNAL_FILE_BYTES", "1KiB", "journal_file_bytes"),
        ("SEGMENT_BYTES_MAX", "many", "segment_bytes_max"),
        ("KEY", "secret", "key"),
        ("KEY_PREVIOUS", &key, "key"),
    ] {
        let variable = format!("SESSIONLOG_{name}");
        let ran = command(&place, &["sessions", "--json"], &[(&variable, value)]).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{variable}: {ran:?}");
        let error: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(error["error"]["recovery_hint"]["field"], named, "{error}");
    }
    for (text, named) in
        [(Some("listne = \"x\""), "listne"), (Some("listen ="), "toml"), (None, "")]
    {
        let file = place.path("odd.toml");
        match text {
            Some(text) => drop(place.write("odd.toml", text)),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let arguments = ["sessions", "--config", file.to_str().unwrap()];
        let ran = command(&place, &arguments, &[]).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        assert!(String::from_utf8_lossy(&ran.stderr).contains(named), "{ran:?}");
    }
}

#[test]
fn the_example_configuration_file_has_every_setting_with_its_default() {
    let place = Place::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sessionlog.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let shown: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.strip_prefix('#')?.split_once(" = "))
        .filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        .collect();
    let file = ["--config", file.to_str().unwrap()];
    let usual = settings(&place, &file, &[]);
    let usual = usual.as_object().unwrap();
    assert!(usual.values().all(|setting| setting["source"] == "default"), "{usual:?}");
    let secret = |name: &str| usual[name]["help"].as_str().unwrap().contains("environment only");
    let wanted: BTreeSet<&str> =
        usual.keys().map(String::as_str).filter(|name| !secret(name)).collect();
    assert_eq!(shown.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), wanted);
    assert_eq!(shown.len(), wanted.len(), "one comes twice");
    // A configured rules file must exist.
    let rules = place.write("secrets", "");
    let rules = format!("\"{}\"", rules.display());
    // These exclude each other.
    let exclusive = ["key_file", "key_command", "store"];
    for kept in exclusive {
        let left_out = |name: &str| exclusive.contains(&name) && name != kept;
        let lines = shown.iter().filter(|(name, _)| !left_out(name)).map(|(name, value)| {
            format!("{name} = {}\n", if *name == "secrets_file" { &rules } else { *value })
        });
        let whole = place.write("whole.toml", &lines.collect::<String>());
        let found = settings(&place, &["--config", whole.to_str().unwrap()], &[]);
        for name in wanted.iter().filter(|name| !left_out(name)) {
            let source = found[*name]["source"].as_str().unwrap();
            assert!(source.starts_with("file "), "{name}: {source}");
            let (value, default) = (&found[*name]["value"], &usual[*name]["value"]);
            let value = value.as_str().unwrap().replace('~', "/h");
            let is_default = default.as_str().is_none_or(|default| default == value);
            assert!(is_default, "{name}: {value} is shown, not {default}");
        }
    }
}

#[cfg(feature = "jemalloc")]
#[test]
fn the_allocator_settings_return_memory_within_a_second() {
    let place = Place::new();
    let told = [("_RJEM_MALLOC_CONF", "confirm_conf:true")];
    let ran = command(&place, &["--version"], &told).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    for setting in ["background_thread:true", "dirty_decay_ms:1000"] {
        assert!(said.contains(&format!("Set conf value: {setting}\n")), "{setting}: {said}");
    }
}

#[test]
fn a_variable_of_another_program_is_reported_at_start_and_ignored() {
    let place = Place::new();
    let others = [
        ("SESSION_TTL", "1h"),
        ("SESSION_MAX_STEPS", "3"),
        ("REDIS_URL", "redis://localhost"),
        ("CACHE_ENCRYPTION_KEY_PREV", "old"),
    ];
    let run = |arguments: &[&str], set: &[(&str, &str)]| {
        let mut command = place.command(arguments);
        command.envs(set.iter().copied());
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stderr).unwrap()
    };
    let said = run(&["append", "s", "--create"], &others);
    for (name, _) in others {
        assert_eq!(said.matches(&format!("{name} is not read")).count(), 1, "{name}: {said}");
    }
    assert!(said.contains("the variable of sessionlog is SESSIONLOG_TTL"), "{said}");
    // The owner is already running: this is not a start.
    assert_eq!(run(&["show", "s"], &others), "");
    let both = [("SESSION_TTL", "1h"), ("SESSIONLOG_TTL", "1h")];
    place.kill_owner();
    assert_eq!(run(&["show", "s"], &both), "", "it is set under its own name, too");
}

#[test]
fn a_key_in_another_programs_variable_prevents_a_plaintext_store() {
    let place = Place::new();
    let key: String = (0..32_u32).map(|n| format!("{:02x}", (n * 37 + 11) % 256)).collect();
    for verb in [&["append", "s", "--create"][..], &["serve"], &["mcp"], &["sessions"]] {
        let ran = place.command(verb).env("CACHE_ENCRYPTION_KEY", &key).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{verb:?}: {ran:?}");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(said.contains("CACHE_ENCRYPTION_KEY") && said.contains("SESSIONLOG_KEY"), "{said}");
        assert!(!said.contains(&key), "{said}");
        assert!(!place.data_dir().join("STORE").exists(), "{verb:?}");
    }
    // With its own key variable the store is encrypted, and the other variable is only reported.
    let both = [("CACHE_ENCRYPTION_KEY", &key), ("SESSIONLOG_KEY", &key)];
    let ran = place.command(&["append", "s", "--create"]).envs(both).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}
