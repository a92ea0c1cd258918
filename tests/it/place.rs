//! Workspaces on the command line: a path selects the workspace of its repository in every verb,
//! and lists begin with the sessions of the current repository.

use serde_json::Value;

use crate::program::{Place, Ran, ran};

/// Creates two repositories with work in them, and a session without a workspace.
fn create_two_shops() -> Place {
    let place = Place::new();
    for name in ["shop/.git", "shop/src", "bank/.git", "empty"] {
        std::fs::create_dir_all(place.path(name)).unwrap();
    }
    for (name, word) in [("shop", "otterhound"), ("bank", "kestrel")] {
        let save = ["handoff", "save", "--context", word];
        run(&place, name, &save).ok();
        run(&place, name, &["memory", "--insert", &format!("The {word} is told")]).ok();
        run(&place, name, &["graph", "--upsert", &format!("task/{word}")]).ok();
    }
    let said = r#"{"type": "user.message", "content": "of no workspace"}"#;
    place.run_with(&["append", "loose", "--create"], said).ok();
    place
}

fn run(place: &Place, directory: &str, arguments: &[&str]) -> Ran {
    ran(place.command(arguments).current_dir(place.path(directory)).spawn().unwrap())
}

#[test]
fn every_verb_takes_a_path_as_workspace_and_defaults_to_the_current_directory() {
    let place = create_two_shops();
    let shop = place.path("shop").display().to_string();
    for verb in [
        &["graph", "{}", "--entities"][..],
        &["handoff", "restore", "{}", "--look"],
        &["handoff", "chain", "{}"],
        &["search", "otterhound", "--workspace", "{}"],
        &["history", "{}"],
        &["history", "--workspace", "{}"],
        &["memory", "{}"],
        &["memory", "--workspace", "{}"],
        &["memory", "{}", "--page", "otterhound"],
        &["sessions", "{}"],
        &["sessions", "--workspace", "{}"],
    ] {
        let shown = |directory: &str, path: &str| {
            let arguments: Vec<String> = verb.iter().map(|one| one.replace("{}", path)).collect();
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let shown = run(&place, directory, &arguments).ok();
            assert!(!shown.contains("kestrel"), "{verb:?} {path}: {shown}");
            shown
        };
        let expected = shown("bank", &shop);
        assert!(!expected.trim().is_empty(), "{verb:?}");
        for (directory, path) in [
            ("shop", "."),
            ("shop/src", ".."),
            ("shop/src", "."),
            ("", "./shop/"),
            ("empty", "../shop"),
        ] {
            assert_eq!(shown(directory, path), expected, "{verb:?} {path} in {directory}");
        }
    }
    for verb in
        [&["graph", "--entities"][..], &["handoff", "restore", "--look"], &["memory"], &["history"]]
    {
        let here = run(&place, "shop/src", verb).ok();
        let named = run(&place, "bank", &[verb, &[shop.as_str()]].concat()).ok();
        assert_eq!(here, named, "{verb:?}");
    }
    // A name that is not a directory is used unchanged; outside of a project a name is required.
    let refused = run(&place, "", &["graph"]);
    assert!(refused.code == 2 && refused.err.contains("name the workspace"), "{refused:?}");
    assert!(run(&place, "", &["graph", "shops"]).ok().contains("shops"));
}

fn listed_sessions(ran: &Ran) -> Vec<String> {
    ran.out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn sessions_are_listed_by_latest_work_and_those_of_the_repository_first() {
    let place = Place::new();
    for name in ["shop/.git", "empty"] {
        std::fs::create_dir_all(place.path(name)).unwrap();
    }
    let server = place.serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = server.client();
    let make = |id: &str, workspace: Option<String>| {
        let mut new = serde_json::json!({"id": id, "title": id, "metadata": {"client": "codex"}});
        new["workspace"] = workspace.map_or(Value::Null, Value::from);
        let request = sessionlog::client::HttpRequest::post("/v1/sessions").json(&new);
        runtime.block_on(client.send(request)).unwrap();
    };
    let shop = place.path("shop").display().to_string();
    make("first", Some(shop.clone()));
    make("other", Some("/elsewhere".to_owned()));
    make("second", Some(shop.clone()));
    make("loose", None);
    let said = r#"{"type": "user.message", "content": "again"}"#;
    place.run_with(&["append", "first", "--url", &server.url], said).ok();
    let of = |directory: &str, more: &[&str]| {
        run(&place, directory, &[&["sessions", "--url", &server.url][..], more].concat())
    };
    let here = of("shop", &[]);
    assert_eq!(listed_sessions(&here), ["first", "loose", "second"], "{here:?}");
    assert!(here.err.contains("--all lists the others"), "{here:?}");
    let row: Vec<&str> = here.out.lines().next().unwrap().split('\t').collect();
    assert!(row.contains(&shop.as_str()) && row.contains(&"codex"), "{row:?}");
    let all = of("shop", &["--all"]);
    assert_eq!(listed_sessions(&all), ["first", "loose", "second", "other"], "{all:?}");
    assert_eq!(all.err, "");
    assert_eq!(listed_sessions(&of("shop", &["-n", "2"])), ["first", "loose"]);
    assert_eq!(listed_sessions(&of("shop", &["--order", "asc"])), ["second", "loose", "first"]);
    // In a directory without work everything is listed.
    for directory in ["empty", ""] {
        assert_eq!(listed_sessions(&of(directory, &[])).len(), 4, "{directory}");
    }
    let get = |page: Option<&str>| -> Value {
        let request = sessionlog::client::HttpRequest::get("/v1/sessions");
        let request = request.query("sort", "updated").query("limit", 3);
        let request = page.into_iter().fold(request, |request, page| request.query("page", page));
        let reply = runtime.block_on(client.send(request)).unwrap();
        serde_json::from_slice(&reply.body).unwrap()
    };
    let page = get(None);
    let rest = get(page["next_page"].as_str());
    let ids = |page: &Value| -> Vec<String> {
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&page), ["first", "loose", "second"]);
    assert_eq!(ids(&rest), ["other"]);
}

#[test]
fn the_name_that_ends_the_path_of_one_workspace_stands_for_it_and_any_other_is_refused() {
    let place = create_two_shops();
    let shop = place.path("shop").display().to_string();
    for verb in ["sessions", "history", "usage"] {
        let expected = run(&place, "bank", &[verb, &shop]).ok();
        for asked in [&[verb, "shop"][..], &[verb, "--workspace", "shop"]] {
            assert_eq!(run(&place, "bank", asked).ok(), expected, "{asked:?}");
        }
        let refused = run(&place, "bank", &[verb, "hop"]);
        assert!(refused.code == 1 && refused.err.contains("no session is of a workspace"));
        assert!(!refused.err.contains("No sessions yet"), "{refused:?}");
    }
    let elsewhere = place.path("empty").display().to_string();
    for verb in ["history", "usage"] {
        let none = run(&place, "bank", &[verb, &elsewhere]).ok();
        assert!(none.contains(&format!("in workspace {elsewhere}")), "{verb}: {none}");
    }
    std::fs::create_dir_all(place.path("old/shop/.git")).unwrap();
    run(&place, "old/shop", &["handoff", "save", "--context", "kestrel"]).ok();
    let refused = run(&place, "bank", &["sessions", "shop"]);
    let both = format!("2 workspaces: {}, {shop}", place.path("old/shop").display());
    assert!(refused.code == 2 && refused.err.contains(&both), "{refused:?}");
    let old = run(&place, "bank", &["sessions", "old/shop"]);
    assert_eq!(listed_sessions(&old).len(), 1, "{old:?}");
}
