//! A workspace whose directory was moved: sessions, memory, graph and saves follow, and an
//! interrupted move is repeated.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sessionlog::store::local::LocalStore;
use sessionlog_sim::{Fault, ManualClock, Sim};

use super::{BANK, append, given, said, work};
use crate::{
    engines::small,
    hook::{claude, of, quiet, told_to_model},
    http::house::{House, Plan, over_every_engine},
    memory::session,
    program::Place,
    say,
};

const STORE: &str = "/v1/workspaces/%2Fwork%2Fstore";

async fn post(house: &House, path: &str, body: Value) -> Value {
    let answer = house.post(path, &body).await;
    assert!(answer.status < 300, "{path} {body}: {}", answer.text);
    answer.json()
}

async fn insert_memory(house: &House, workspace: &str, text: &str) {
    let item = json!({"text": text, "kind": "semantic"});
    post(house, &format!("{workspace}/memory"), item).await;
}

/// Returns the memory of a workspace, as one text.
async fn read_memory(house: &House, workspace: &str) -> String {
    house.get(&format!("{workspace}/memory")).await.text
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_moved_workspace_are_listed_only_under_its_new_name() {
    over_every_engine(async |house| {
        session(house, "old", "/work/bank").await;
        append(house, "old", json!(work())).await;
        house.clock.advance(Duration::from_secs(60));
        session(house, "new", "/work/bank").await;
        append(house, "new", json!([said("Paint the door of the shop green")])).await;
        session(house, "below", "/work/bank/vault").await;
        append(house, "below", json!([said("Count the gold")])).await;
        insert_memory(house, BANK, "Cents are whole numbers").await;
        insert_memory(house, STORE, "The store has a cat").await;
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
        let memory = read_memory(house, STORE).await;
        assert!(memory.contains("whole numbers") && memory.contains("a cat"), "{memory}");
        let memory = read_memory(house, BANK).await;
        assert!(!memory.contains("whole numbers"), "{memory}");
        let found = house.post(&format!("{BANK}/restore"), &json!({"create": false})).await;
        assert_eq!(found.status, 404, "{}", found.text);

        // A repeated move finds nothing; later content under the old name belongs to another move.
        let again = post(house, &format!("{BANK}/move"), json!({"to": "/work/store"})).await;
        assert_eq!((&again["sessions"], &again["notebooks"]), (&json!(0), &json!(0)), "{again}");
        insert_memory(house, BANK, "The bank is shut").await;
        assert!(!read_memory(house, STORE).await.contains("is shut"));
        post(house, &format!("{BANK}/move"), json!({"to": "/work/store"})).await;
        post(house, &format!("{STORE}/move"), json!({"to": "/work/bank"})).await;
        let memory = read_memory(house, BANK).await;
        for words in ["whole numbers", "a cat", "is shut"] {
            assert!(memory.contains(words), "{words}: {memory}");
        }
        assert!(!read_memory(house, STORE).await.contains("a cat"));
        assert_eq!(of("old").await["workspace"], "/work/bank");
        for (to, status) in [("/work/bank", 422), ("", 422)] {
            let answer = house.post(&format!("{BANK}/move"), &json!({"to": to})).await;
            assert_eq!(answer.status, status, "{to:?}: {}", answer.text);
        }
    })
    .await;
}

/// Number of sessions moved together, so that some disk calls are between two of them.
const MANY: usize = 70;

async fn house_on(sim: &Sim) -> House {
    let store = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
    House::over(store, Arc::new(ManualClock::default()), Plan::default()).await
}

/// Moves a workspace while the machine crashes at a disk call, counted from the start of the move;
/// returns the number of calls, and of moved sessions.
async fn interrupt_move(at: Option<(u64, Fault)>) -> (u64, usize) {
    let sim = Sim::new(31);
    let house = house_on(&sim).await;
    for n in 0..MANY {
        session(&house, &format!("s{n}"), "/work/bank").await;
    }
    append(&house, "s0", json!([said("Prices are whole cents")])).await;
    insert_memory(&house, BANK, "Cents are whole numbers").await;
    let begun = sim.calls();
    at.into_iter().for_each(|(call, fault)| sim.fail_call(begun + call, fault, false));
    let (moving, asked) = (format!("{BANK}/move"), json!({"to": "/work/store"}));
    let answer = house.post(&moving, &asked).await;
    let calls = sim.calls() - begun;
    assert!(answer.status == 200 || at.is_some(), "{}", answer.text);
    house.stop.cancel();
    house.served.await.unwrap();
    if sim.lives() == 0 {
        sim.kill();
    }

    let house = &house_on(&sim).await;
    let workspaces = async || {
        let mut all = Vec::new();
        for n in 0..MANY {
            let session = house.get(&format!("/v1/sessions/s{n}")).await.json();
            all.push(session["workspace"].as_str().unwrap_or_default().to_owned());
        }
        all
    };
    let found = workspaces().await;
    let of = |name: &str| found.iter().filter(|one| *one == name).count();
    let (old, new) = (of("/work/bank"), of("/work/store"));
    assert_eq!(old + new, MANY, "{at:?}: {found:?}");
    let memory = [read_memory(house, BANK).await, read_memory(house, STORE).await];
    let held = memory.iter().filter(|text| text.contains("whole numbers")).count();
    assert_eq!(held, 1, "{at:?}: {memory:?}");

    let again = post(house, &moving, asked).await;
    assert_eq!((&again["sessions"], &again["left_total"]), (&json!(old), &json!(0)), "{at:?}");
    assert!(workspaces().await.iter().all(|one| one == "/work/store"), "{at:?}");
    assert!(read_memory(house, STORE).await.contains("whole numbers"), "{at:?}");
    assert!(!read_memory(house, BANK).await.contains("whole numbers"), "{at:?}");
    let asked = json!({"create": false, "session_id": "s0"});
    let work = post(house, &format!("{STORE}/restore"), asked).await;
    assert!(given(&work).contains("whole cents"), "{at:?}: {work}");
    (calls, new)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_interrupted_by_a_crash_keeps_every_session_and_can_be_repeated() {
    let (calls, moved) = interrupt_move(None).await;
    assert_eq!(moved, MANY);
    let mut halves = 0;
    // A sample of them, from the first to the last, or all if few.
    let step = usize::try_from(calls / 16).unwrap().max(1);
    for call in (0..calls).step_by(step) {
        let fault = if call % 2 == 0 { Fault::Kill } else { Fault::PowerLoss };
        let (_, moved) = interrupt_move(Some((call, fault))).await;
        halves += usize::from(0 < moved && moved < MANY);
    }
    assert!(halves > 0, "of {calls} calls none was between two sessions");
}

#[test]
fn a_killed_server_keeps_every_session_of_a_move_and_can_repeat_it() {
    let place = Place::new();
    let server = place.serve();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = say::http_client().build().unwrap();
    let post = async |url: String, body: Value| {
        let sent = client.post(url).body(body.to_string());
        let answer = sent.header("content-type", "application/json").send().await.unwrap();
        (answer.status().is_success(), answer.json::<Value>().await.unwrap())
    };
    let get = async |url: String| -> Value {
        client.get(url).send().await.unwrap().json().await.unwrap()
    };
    runtime.block_on(async {
        let create = |n: usize| {
            let event = json!({"type": "user.message", "content": format!("Count crate {n}")});
            let new = json!({"id": format!("s{n}"), "workspace": "/work/bank",
                "initial_events": [event]});
            post(format!("{}/v1/sessions", server.url), new)
        };
        let created = futures_util::future::join_all((0..MANY).map(create)).await;
        assert!(created.iter().all(|(is_done, _)| *is_done), "{created:?}");
        let item = json!({"text": "Cents are whole numbers", "kind": "semantic"});
        assert!(post(format!("{}{BANK}/memory", server.url), item).await.0);
        let asked = client.post(format!("{}{BANK}/move", server.url));
        let asked = asked.header("content-type", "application/json");
        let moving = tokio::spawn(asked.body(r#"{"to": "/work/store"}"#).send());
        // Until the first has moved.
        while !moving.is_finished() {
            let list = "/v1/sessions?limit=1&workspace=%2Fwork%2Fstore";
            let found = get(format!("{}{list}", server.url)).await;
            if !found["data"].as_array().unwrap().is_empty() {
                break;
            }
        }
    });
    server.kill();

    let server = place.serve();
    runtime.block_on(async {
        let url = &server.url;
        let count = async |workspace: &str| {
            let list = format!("{url}/v1/sessions?limit=1000&workspace={workspace}");
            get(list).await["data"].as_array().unwrap().len()
        };
        let (old, new) = (count("%2Fwork%2Fbank").await, count("%2Fwork%2Fstore").await);
        assert_eq!(old + new, MANY);
        let asked = json!({"to": "/work/store"});
        let (is_done, again) = post(format!("{url}{BANK}/move"), asked).await;
        assert!(is_done && again["sessions"] == old && again["left_total"] == 0, "{again}");
        assert_eq!(count("%2Fwork%2Fstore").await, MANY);
        for n in 0..MANY {
            let events = get(format!("{url}/v1/sessions/s{n}/events")).await;
            let content = &events["data"][0]["content"];
            assert_eq!(*content, json!(format!("Count crate {n}")), "{events}");
        }
        let memory = get(format!("{url}{STORE}/memory")).await.to_string();
        assert!(memory.contains("whole numbers"), "{memory}");
    });
}

#[test]
fn a_start_in_a_moved_directory_offers_its_earlier_work() {
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
fn work_in_a_worktree_belongs_to_the_main_checkout() {
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
    // The worktree is removed once its branch is merged.
    std::fs::remove_dir_all(&tree).unwrap();
    let start = at("two", &main, "SessionStart", json!({ "source": "startup" }));
    let (text, _) = told_to_model(&place, &start);
    assert!(text.contains("whole cents everywhere"), "{text}");
}
