//! A workspace whose directory was moved: sessions, memory, graph and handoff follow, and a move
//! that was cut short is repeated.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BANK, append, given, said, work};
use crate::{
    hook::{claude, of, quiet, told_to_model},
    http::house::{House, over_every_engine},
    memory::session,
    program::Place,
};

const STORE: &str = "/v1/workspaces/%2Fwork%2Fstore";

async fn post(house: &House, path: &str, body: Value) -> Value {
    let answer = house.post(path, &body).await;
    assert!(answer.status < 300, "{path} {body}: {}", answer.text);
    answer.json()
}

async fn remember(house: &House, workspace: &str, text: &str) {
    let item = json!({"text": text, "kind": "semantic"});
    post(house, &format!("{workspace}/memory"), item).await;
}

/// What is remembered in a workspace, as one text.
async fn remembered(house: &House, workspace: &str) -> String {
    house.get(&format!("{workspace}/memory")).await.text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_workspace_is_found_under_its_new_name_and_not_under_the_old_one() {
    over_every_engine(async |house| {
        session(house, "old", "/work/bank").await;
        append(house, "old", json!(work())).await;
        house.clock.advance(Duration::from_secs(60));
        session(house, "new", "/work/bank").await;
        append(house, "new", json!([said("Paint the door of the shop green")])).await;
        session(house, "below", "/work/bank/vault").await;
        append(house, "below", json!([said("Count the gold")])).await;
        remember(house, BANK, "Cents are whole numbers").await;
        remember(house, STORE, "The store has a cat").await;
        let of = async |id: &str| house.get(&format!("/v1/sessions/{id}")).await.json();
        let before = of("old").await;
        house.clock.advance(Duration::from_secs(60));

        let moved = post(house, &format!("{BANK}/move"), json!({"to": "/work/store"})).await;
        let counts = (&moved["sessions"], &moved["notebooks"], &moved["left_total"]);
        assert_eq!(counts, (&json!(2), &json!(1), &json!(0)), "{moved}");
        let after = of("old").await;
        assert_eq!(after["workspace"], "/work/store", "{after}");
        assert_eq!(after["updated_at"], before["updated_at"], "a move is no work in a session");
        assert_eq!(of("below").await["workspace"], "/work/bank/vault");
        let found = post(house, &format!("{STORE}/restore"), json!({"create": false})).await;
        assert_eq!(found["continues"], "new", "{found}");
        assert!(given(&found).contains("door of the shop"), "{found}");
        let memory = remembered(house, STORE).await;
        assert!(memory.contains("whole numbers") && memory.contains("a cat"), "{memory}");
        let memory = remembered(house, BANK).await;
        assert!(!memory.contains("whole numbers"), "{memory}");
        let found = house.post(&format!("{BANK}/restore"), &json!({"create": false})).await;
        assert_eq!(found.status, 404, "{}", found.text);

        // Repeated it finds nothing; what is written under the old name since is another move's.
        let again = post(house, &format!("{BANK}/move"), json!({"to": "/work/store"})).await;
        assert_eq!((&again["sessions"], &again["notebooks"]), (&json!(0), &json!(0)), "{again}");
        remember(house, BANK, "The bank is shut").await;
        assert!(!remembered(house, STORE).await.contains("is shut"));
        post(house, &format!("{BANK}/move"), json!({"to": "/work/store"})).await;
        post(house, &format!("{STORE}/move"), json!({"to": "/work/bank"})).await;
        let memory = remembered(house, BANK).await;
        for words in ["whole numbers", "a cat", "is shut"] {
            assert!(memory.contains(words), "{words}: {memory}");
        }
        assert!(!remembered(house, STORE).await.contains("a cat"));
        assert_eq!(of("old").await["workspace"], "/work/bank");
        for (to, status) in [("/work/bank", 422), ("", 422)] {
            let answer = house.post(&format!("{BANK}/move"), &json!({"to": to})).await;
            assert_eq!(answer.status, status, "{to:?}: {}", answer.text);
        }
    })
    .await;
}

#[test]
fn after_a_directory_was_moved_its_work_is_offered_at_a_start_there() {
    let place = Place::new();
    let [from, to] = ["shop", "store"].map(|name| place.path(name));
    std::fs::create_dir_all(from.join(".git")).unwrap();
    let from = from.canonicalize().unwrap();
    let at = |session: &str, directory: &std::path::Path, event: Value| {
        let mut event = of(session, event);
        event["cwd"] = json!(directory.to_str().unwrap());
        event
    };
    let start = claude("SessionStart", &json!({ "source": "startup" }));
    quiet(&place, &at("one", &from, start.clone()));
    let prompt = json!({ "prompt": "Prices are whole cents everywhere", "prompt_id": "p" });
    quiet(&place, &at("one", &from, claude("UserPromptSubmit", &prompt)));
    quiet(&place, &at("one", &from, claude("SessionEnd", &json!({ "reason": "other" }))));
    std::fs::rename(&from, &to).unwrap();
    let to = to.canonicalize().unwrap();
    let arguments = ["workspace", "move", from.to_str().unwrap(), to.to_str().unwrap()];
    let moved = place.run(&arguments).ok();
    assert!(moved.contains("1 session"), "{moved}");
    let killed = place.kill_owner();
    assert!(killed > 0);
    let (text, _) = told_to_model(&place, &at("two", &to, start));
    assert!(text.contains("whole cents everywhere"), "{text}");
    let again = place.run(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(again["sessions"], 0, "{again}");
}

#[test]
fn work_in_a_worktree_is_work_of_the_main_checkout() {
    let place = Place::new();
    let main = place.path("app");
    let own = main.join(".git/worktrees/noble");
    std::fs::create_dir_all(&own).unwrap();
    let main = main.canonicalize().unwrap();
    let tree = main.join(".claude/worktrees/noble");
    std::fs::create_dir_all(&tree).unwrap();
    let write = |path: std::path::PathBuf, text: String| std::fs::write(path, text).unwrap();
    write(tree.join(".git"), format!("gitdir: {}\n", main.join(".git/worktrees/noble").display()));
    write(own.join("commondir"), "../..\n".to_owned());
    write(own.join("gitdir"), format!("{}\n", tree.join(".git").display()));
    let at = |session: &str, directory: &std::path::Path, name: &str, more: Value| {
        let mut event = of(session, claude(name, &more));
        event["cwd"] = json!(directory.to_str().unwrap());
        event
    };
    quiet(&place, &at("one", &tree, "SessionStart", json!({ "source": "startup" })));
    let prompt = json!({ "prompt": "Prices are whole cents everywhere", "prompt_id": "p" });
    quiet(&place, &at("one", &tree, "UserPromptSubmit", prompt));
    quiet(&place, &at("one", &tree, "SessionEnd", json!({ "reason": "other" })));
    // Once its branch is merged, it is gone.
    std::fs::remove_dir_all(&tree).unwrap();
    let start = at("two", &main, "SessionStart", json!({ "source": "startup" }));
    let (text, _) = told_to_model(&place, &start);
    assert!(text.contains("whole cents everywhere"), "{text}");
}
