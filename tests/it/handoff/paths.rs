//! Files of a save under one path each for every spelling, and those left out because they are
//! outside of the workspace.

use serde_json::{Value, json};

use super::{append, edited, events, ok, said};
use crate::{http::house::over_every_engine, memory::session, program::Place};

fn paths(found: &Value) -> Vec<&str> {
    let files = found["file_references"].as_array().unwrap();
    files.iter().map(|file| file["path"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_one_path_in_a_response_for_every_spelling() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let files = json!([
            {"path": "src/./tax.py", "hash": "blake3:00"},
            {"path": "/work/bank/src/tax.py", "hash": "blake3:11"},
            {"path": "lib//../notes.txt"},
        ]);
        let saved =
            ok(house, "/save", json!({"session_id": "one", "file_references": files})).await;
        assert_eq!(saved["files"], 2, "{saved}");
        // The agent's program names files by absolute paths, a shell by relative ones.
        let mut work = vec![said("Round the tax half up")];
        work.extend(edited("c1", "/work/bank/src/tax.py"));
        work.extend(edited("c2", "./src/../src/tax.py"));
        work.extend(edited("c3", "/work/bank/price.py"));
        work.extend(edited("c4", "/srv/shared/price.py"));
        append(house, "one", json!(work)).await;
        let found = ok(house, "/restore", json!({"create": false})).await;
        let mut all = paths(&found);
        all.sort_unstable();
        assert_eq!(all, ["/srv/shared/price.py", "notes.txt", "price.py", "src/tax.py"], "{found}");
        let files = found["file_references"].as_array().unwrap();
        let tax = files.iter().find(|file| file["path"] == "src/tax.py").unwrap();
        assert_eq!((&tax["hash"], &tax["change"]), (&json!("blake3:11"), &json!("changed")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_outside_the_workspace_is_reported_and_is_not_a_reference() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let files = json!([
            {"path": "/etc/passwd", "hash": "blake3:00"},
            {"path": "/work/banking/tax.py"},
            {"path": "/work/bank/../secrets/key"},
            {"path": "src/tax.py"},
        ]);
        let saved =
            ok(house, "/save", json!({"session_id": "one", "file_references": files})).await;
        assert_eq!(saved["files"], 1, "{saved}");
        let notice = saved["notices"][0].as_str().unwrap();
        assert!(notice.contains("/etc/passwd") && notice.contains("2 more"), "{notice}");
        let kept: Vec<Value> = events(house, "one").await;
        let kept: Vec<&Value> =
            kept.iter().filter(|one| one["type"] == "file.referenced").collect();
        assert!(matches!(kept[..], [one] if one["path"] == "src/tax.py"), "{kept:?}");
        // A name is not a directory: files outside cannot be determined.
        let named = "/v1/workspaces/shop/save";
        let asked = json!({"file_references": [{"path": "/srv/shop/tax.py"}]});
        let saved = house.post(named, &asked).await.json();
        assert_eq!((&saved["files"], saved.get("notices")), (&json!(1), None), "{saved}");
    })
    .await;
}

#[test]
fn a_typed_path_is_relative_to_the_working_directory() {
    let place = Place::new();
    for directory in ["shop/.git", "shop/src", "other"] {
        std::fs::create_dir_all(place.path(directory)).unwrap();
    }
    place.write("shop/src/tax.py", "a");
    place.write("other/lib.py", "b");
    let run = |directory: &str, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(place.path(directory));
        crate::program::ran(command.spawn().unwrap())
    };
    let lib = place.path("other/lib.py").display().to_string();
    let save = ["--json", "handoff", "save", "--context", "x", "--file", "tax.py", "--file", &lib];
    let saved = run("shop/src", &save).json();
    assert_eq!(saved["files"], 1, "{saved}");
    assert!(saved["notices"][0].as_str().unwrap().contains("lib.py"), "{saved}");
    let found = run("shop", &["--json", "handoff", "restore"]).json();
    let file = &found["file_references"][0];
    assert_eq!((&file["path"], &file["status"]), (&json!("src/tax.py"), &json!("same")), "{found}");
}

#[test]
fn a_file_of_a_worktree_belongs_to_the_workspace() {
    let place = Place::new();
    let own = place.path("shop/.git/worktrees/tree");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::create_dir_all(place.path("tree")).unwrap();
    let own = own.canonicalize().unwrap();
    let mark = place.path("tree").canonicalize().unwrap().join(".git");
    std::fs::write(&mark, format!("gitdir: {}\n", own.display())).unwrap();
    std::fs::write(own.join("commondir"), "../..\n").unwrap();
    std::fs::write(own.join("gitdir"), format!("{}\n", mark.display())).unwrap();
    place.write("tree/tax.py", "a");
    let whole = std::fs::canonicalize(place.path("tree/tax.py")).unwrap().display().to_string();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(place.path("tree"));
        crate::program::ran(command.spawn().unwrap())
    };
    let saved = run(&["--json", "handoff", "save", "--file", &whole, "--context", "x"]).json();
    assert_eq!((&saved["files"], saved.get("notices")), (&json!(1), None), "{saved}");
    let found = run(&["--json", "handoff", "restore"]).json();
    let file = &found["file_references"][0];
    assert_eq!((&file["path"], &file["status"]), (&json!("tax.py"), &json!("same")), "{found}");
}
