//! Edge cases of the command line: directories that are not a store, flags with wrong values,
//! misspelt settings, events that no view shows.

use serde_json::{Value, json};

use crate::{
    cli::{event, with_trip},
    http::house::House,
    program::Place,
};

#[test]
fn a_directory_with_foreign_files_is_rejected_as_a_store_and_keeps_its_mode() {
    let place = Place::new();
    let shared = place.path("shared");
    std::fs::create_dir(&shared).unwrap();
    let shown = shared.to_str().unwrap();
    std::fs::write(shared.join("letters.txt"), "a").unwrap();
    let set = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o755);
    let doctor = place.run(&["doctor", "--data-dir", shown]);
    assert!(doctor.out.contains("has other files, and no store"), "{}", doctor.out);
    assert!(!doctor.out.contains("chmod"), "{}", doctor.out);
    // The size of foreign files is not counted: the directory may be huge.
    let status = place.run(&["status", "--data-dir", shown, "--json"]).json();
    assert_eq!(status["bytes_on_disk"], 0, "{status}");
    // `doctor` reports a store that other users can read.
    let trip = with_trip();
    std::fs::set_permissions(trip.data_dir(), {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::Permissions::from_mode(0o755)
    })
    .unwrap();
    assert!(trip.run(&["doctor"]).out.contains("chmod 700"));
}

#[test]
fn an_invalid_value_is_a_usage_error_that_names_its_flag() {
    let place = with_trip();
    for (arguments, flag) in [
        (&["handoff", "restore", "/w", "--tokens", "100"][..], "--tokens"),
        (&["view", "trip", "window", "--tokens-max", "1"], "--tokens-max"),
        (&["events", "trip", "--types", "no type!"], "--types"),
        (&["search", "two", "--type", "no type!"], "--type"),
        (&["sessions", "--since", "whenever"], "whenever"),
        (&["search", "two", "--since", "whenever"], "whenever"),
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(flag), "{arguments:?}: {}", ran.err);
        assert!(!ran.err.contains("tokens_max"), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_list_beyond_its_limit_is_rejected_with_an_error_naming_its_flag() {
    let place = with_trip();
    let graph = ["graph", "/w", "--entities"];
    for (verb, flag, value) in [
        (&["events", "trip"][..], "--types", "a.t"),
        (&["search", "two"], "--type", "a.t"),
        (&["search", "two"], "--kind", "semantic"),
        (&["sessions", "--all"], "--state", "idle"),
        (&["sessions", "--all"], "--tag", "a=b"),
        (&["memory", "trip"], "--kind", "semantic"),
        (&["view", "trip", "window"], "--transform", "annotate"),
        (&graph, "--type", "person"),
        (&graph, "--where", "state eq open"),
    ] {
        let asked = |count: usize| {
            let many = (0..count).flat_map(|_| [flag, value]);
            place.run(&verb.iter().copied().chain(many).collect::<Vec<_>>())
        };
        let ran = asked(101);
        assert_eq!(ran.code, 2, "{verb:?} {flag}: {ran:?}");
        let bound = if flag == "--where" { "32" } else { "100" };
        assert!(ran.err.contains(flag) && ran.err.contains(bound), "{verb:?}: {}", ran.err);
        assert_eq!(asked(2).code, 0, "{verb:?} {flag}");
    }
}

#[test]
fn a_filter_accepts_a_prefix_of_event_types() {
    let place = with_trip();
    for (types, count) in
        [("user", 1), ("agent", 2), ("agent.*", 2), ("agent.tool_use,user", 2), ("use", 0)]
    {
        let found = place.run(&["events", "trip", "--types", types]);
        assert_eq!(found.out.lines().count(), count, "{types}: {}", found.err);
    }
}

#[test]
fn a_misspelt_setting_is_rejected_with_the_closest_name() {
    let place = Place::new();
    let ran = place.run_in(&[("SESSIONLOG_TOKEN_LIMT", "5")], &["sessions"]);
    assert!(ran.err.contains("did you mean SESSIONLOG_TOKEN_LIMIT?"), "{}", ran.err);
    let ran = place.run_in(&[("SESSIONLOG_DATA", "/srv/data")], &["sessions"]);
    assert!(ran.err.contains("did you mean SESSIONLOG_DATA_DIR?"), "{}", ran.err);
    let ran = place.run_in(&[("SESSIONLOG_QUITE_ANOTHER", "5")], &["sessions"]);
    assert!(!ran.err.contains("did you mean"), "{}", ran.err);
    assert!(ran.err.contains("`sessionlog config` lists the settings"), "{}", ran.err);
}

#[test]
fn the_help_of_each_verb_has_examples_of_that_verb() {
    let place = Place::new();
    let help = place.run(&["uninstall", "--help"]).ok();
    assert!(help.contains("sessionlog uninstall codex"), "{help}");
    assert!(!help.contains("sessionlog install"), "{help}");
    let help = place.run(&["mcp", "--help"]).ok();
    for toolset in ["research", "events", "memory", "graph", "workspace"] {
        assert!(help.contains(toolset), "{toolset}: {help}");
    }
}

#[test]
fn checkpoints_with_a_label_are_listed_before_automatic_ones() {
    let place = with_trip();
    let made = |more: &[&str]| {
        place.run(&[&["checkpoints", "trip", "--create"], more].concat()).ok();
    };
    (0..5).for_each(|_| made(&[]));
    assert_eq!(place.run(&["checkpoints", "trip"]).ok().lines().count(), 5, "none has a label");
    made(&["--label", "before the move"]);
    let listed = place.run(&["checkpoints", "trip"]);
    assert_eq!(listed.out.lines().count(), 1, "{}", listed.out);
    assert!(listed.err.contains("5 more without a label"), "{}", listed.err);
    assert_eq!(place.run(&["checkpoints", "trip", "--all"]).ok().lines().count(), 6);
}

#[test]
fn a_view_as_of_a_step_includes_that_step() {
    let place = Place::new();
    let lines: Vec<String> = (1..=3)
        .map(|number| {
            json!({"type": "research.step", "number": number, "description": format!("step {number}")})
                .to_string()
        })
        .collect();
    place.run_with(&["append", "dig", "--create"], &lines.join("\n")).ok();
    let then = place.run(&["rewind", "dig", "--to", "step:2", "--json"]).json();
    assert_eq!((&then["steps_total"], &then["position"]), (&json!(2), &json!(2)), "{then}");
    for arguments in [
        &["fork", "dig", "--at", "step:2", "--id", "dig-2"][..],
        &["rewind", "dig", "--to", "step:2", "--fork"],
    ] {
        let fork = place.run(&[arguments, &["--json"]].concat()).json();
        assert_eq!(fork["tail"], 2, "{fork}");
    }
    // A point given as a number is unchanged.
    let fork = place.run(&["fork", "dig", "--at", "2", "--json"]).json();
    assert_eq!(fork["tail"], 2, "{fork}");
}

#[test]
fn a_misspelt_event_type_is_stored_and_the_known_type_suggested() {
    let place = with_trip();
    let odd = event("assistant.message", "hello");
    let ran = place.run_with(&["append", "trip"], &odd);
    assert!(ran.err.contains("agent.message"), "{}", ran.err);
    let ran = place.run_with(&["append", "trip", "--json"], &odd);
    let answer: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    assert!(answer["notices"][0].as_str().unwrap().contains("assistant.message"), "{answer}");
    let ran = place.run_with(&["append", "trip", "--json"], &event("order.seen", "1"));
    assert!(!ran.out.contains("notices"), "{}", ran.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_describes_itself_at_its_root() {
    let house = House::plain().await;
    let index = house.get("/").await;
    assert_eq!(index.status, 200, "{}", index.text);
    assert!(index.text.len() < 40_000, "{}", index.text.len());
    let index = index.json();
    let routes = index["routes"].as_array().unwrap();
    let has = |text: &str| routes.iter().any(|one| one.as_str().unwrap().starts_with(text));
    assert!(has("POST /v1/sessions: ") && has("GET /healthz: "), "{index}");
    assert_eq!(index["openapi"], "/openapi.json");
}
