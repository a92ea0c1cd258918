//! Memory that outlives a conversation, and marks on single events: over HTTP, by tools and on the
//! command line.

mod marks;
mod superseded;

use serde_json::{Value, json};
use sessionlog::access::Grant;

use crate::{
    access::house::Walled,
    cli::{event, with_trip},
    http::house::{House, over_every_engine},
};

const JSON: (&str, &str) = ("content-type", "application/json");
const BANK: &str = "/v1/workspaces/%2Fwork%2Fbank/memory";

/// Creates a session, with a workspace unless it is empty.
pub async fn session(house: &House, id: &str, workspace: &str) {
    let mut new = json!({"id": id, "title": id});
    if !workspace.is_empty() {
        new["workspace"] = json!(workspace);
    }
    let created = house.post("/v1/sessions", &new).await;
    assert_eq!(created.status, 201, "{}", created.text);
}

/// Stores an item of memory through a session.
async fn insert(house: &House, session: &str, item: Value) -> Value {
    let kept = house.post(&format!("/v1/sessions/{session}/memory"), &item).await;
    assert_eq!(kept.status, 200, "{}", kept.text);
    kept.json()
}

async fn list(house: &House, path: &str) -> Value {
    let found = house.get(path).await;
    assert_eq!(found.status, 200, "{}", found.text);
    found.json()
}

fn texts(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect()
}

/// Searches until the index is complete.
pub async fn search(house: &House, mut asked: Value) -> Value {
    asked["wait_ms"] = json!(60_000);
    let found = house.post("/v1/search", &asked).await;
    assert_eq!(found.status, 200, "{}", found.text);
    found.json()
}

fn semantic(text: &str) -> Value {
    json!({"kind": "semantic", "text": text})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fact_belongs_to_the_workspace_and_an_episode_to_its_session() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        session(house, "two", "/work/bank").await;
        session(house, "farm", "/work/farm").await;
        session(house, "lone", "").await;
        let fact = json!({"kind": "semantic", "text": "Staging listens on 8443",
            "topic": "staging", "tags": ["ports"], "importance": 8});
        let fact = insert(house, "one", fact).await;
        let notebook = fact["session"].as_str().unwrap().to_owned();
        assert!(notebook.starts_with("notebook."), "{fact}");
        let what = json!({"kind": "episodic", "text": "The deploy failed twice"});
        assert_eq!(insert(house, "one", what).await["session"], "one");
        let alone = insert(house, "lone", semantic("Pears ripen in September")).await;
        assert_eq!(alone["session"], "lone", "without a workspace it stays in the session");
        let own = house.post(BANK, &semantic("Ada signs the releases")).await.json();
        assert_eq!(own["session"], notebook.as_str(), "{own}");
        // Another session of the workspace has the facts, and not the episodes of the first.
        let found = list(house, "/v1/sessions/two/memory").await;
        assert_eq!(texts(&found), ["Ada signs the releases", "Staging listens on 8443"]);
        let item = &found["data"][1];
        assert_eq!(item["from"], json!({"session": "one", "position": 0}), "{item}");
        assert_eq!(
            (&item["topic"], &item["tags"], &item["importance"]),
            (&json!("staging"), &json!(["ports"]), &json!(8))
        );
        let found = list(house, "/v1/sessions/one/memory").await;
        assert_eq!(texts(&found).len(), 3, "{found}");
        assert_eq!(texts(&list(house, BANK).await).len(), 2);
        for other in ["/v1/sessions/farm/memory", "/v1/workspaces/%2Fwork%2Ffarm/memory"] {
            assert!(texts(&list(house, other).await).is_empty(), "{other}");
        }
        // One item in full, from any session of the workspace.
        let id = fact["memory_id"].as_str().unwrap();
        let one = list(house, &format!("/v1/sessions/two/memory/{id}")).await;
        assert_eq!(
            (&one["text"], &one["session"]),
            (&json!("Staging listens on 8443"), &json!(notebook))
        );
        let missing = house.get(&format!("/v1/sessions/farm/memory/{id}")).await;
        assert_eq!((missing.status, missing.code().as_str()), (404, "event_not_found"));
        // Pages, and kinds.
        let page = list(house, "/v1/sessions/one/memory?limit=2").await;
        let next = page["next_page"].as_str().unwrap();
        let rest = list(house, &format!("/v1/sessions/one/memory?limit=2&page={next}")).await;
        assert_eq!((texts(&rest).len(), &rest["next_page"]), (1, &Value::Null), "{rest}");
        let only = list(house, "/v1/sessions/one/memory?kinds[]=episodic").await;
        assert_eq!(texts(&only), ["The deploy failed twice"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notebook_is_never_listed_offered_or_bound_and_does_not_expire() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let kept = insert(house, "one", semantic("Staging listens on 8443")).await;
        let notebook = kept["session"].as_str().unwrap();
        let about = list(house, &format!("/v1/sessions/{notebook}")).await;
        assert_eq!(about["ttl_seconds"], 0, "{about}");
        for path in [
            "/v1/sessions",
            "/v1/history",
            "/v1/admin/retention",
            "/v1/sessions?workspace=%2Fwork%2Fbank",
        ] {
            let found = list(house, path).await.to_string();
            assert!(!found.contains("notebook."), "{path}: {found}");
        }
        let listed = house.post("/v1/tools/list_sessions", &json!({})).await;
        let required = house.post("/v1/tools/get_events", &json!({})).await;
        assert_eq!(required.code(), "session_required", "{}", required.text);
        // Naming it once does not bind the caller to it.
        let connection = [JSON, ("sessionlog-connection", "c1")];
        let asked = json!({"sessionId": notebook}).to_string();
        let named =
            house.call("POST", "/v1/tools/get_events", &connection, Some(asked.into())).await;
        assert_eq!(named.status, 200, "{}", named.text);
        let again =
            house.call("POST", "/v1/tools/get_events", &connection, Some("{}".into())).await;
        assert_eq!(again.code(), "session_required", "{}", again.text);
        for answer in [&listed.text, &required.text, &again.text] {
            assert!(!answer.contains("notebook."), "{answer}");
        }
        // A client cannot create a session with its id.
        let other = house.post("/v1/workspaces/%2Fwork%2Ffarm/memory", &semantic("Pears")).await;
        let farm = other.json()["session"].as_str().unwrap().to_owned();
        house.call("POST", &format!("/v1/sessions/{farm}/erase"), &[], None).await;
        let event = json!({"events": [{"type": "user.message", "content": "x"}]});
        for (path, body, code) in [
            ("/v1/sessions".to_owned(), json!({"id": farm}), "invalid_request"),
            (
                "/v1/sessions/one/fork".to_owned(),
                json!({"id": farm, "at": "end"}),
                "invalid_request",
            ),
            (format!("/v1/sessions/{farm}/events?create=true"), event, "session_deleted"),
        ] {
            let refused = house.post(&path, &body).await;
            assert_eq!(refused.code(), code, "{path}: {}", refused.text);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_replaces_or_repeats_another_names_it() {
    over_every_engine(async |house| {
        session(house, "one", "").await;
        let first = insert(house, "one", semantic("Staging listens on port 8443")).await;
        let id = first["memory_id"].as_str().unwrap();
        assert_eq!(first["similar"], json!([]));
        let like = insert(house, "one", semantic("staging listens on port 9000")).await;
        assert_eq!(
            like["similar"],
            json!([{"memory_id": id, "text": "Staging listens on port 8443"}])
        );
        assert_eq!(texts(&list(house, "/v1/sessions/one/memory").await).len(), 2, "both stay");
        let mut item = semantic("Staging listens on port 443");
        item["supersedes"] = json!(id);
        let last = insert(house, "one", item).await;
        assert_eq!(last["similar"][0]["memory_id"], like["memory_id"], "{last}");
        assert_eq!(last["similar"].as_array().unwrap().len(), 1, "not the one it replaces");
        let old = list(house, &format!("/v1/sessions/one/memory/{id}")).await;
        assert_eq!(old["superseded_by"], last["memory_id"], "{old}");
        // The same name, and a cleared context.
        let named = |text: &str| json!({"kind": "procedural", "text": text, "name": "deploy"});
        insert(house, "one", named("push, then wait")).await;
        insert(house, "one", named("wait, then push")).await;
        let working = json!({"kind": "working", "text": "at step 3 of 5"});
        insert(house, "one", working).await;
        let kinds = "/v1/sessions/one/memory?kinds[]=procedural&kinds[]=working";
        assert_eq!(texts(&list(house, kinds).await), ["at step 3 of 5", "wait, then push"]);
        let cleared = json!({"events": [{"type": "context.cleared", "by": "user"}]});
        house.post("/v1/sessions/one/events", &cleared).await;
        assert_eq!(texts(&list(house, kinds).await), ["wait, then push"]);
        let all = list(house, &format!("{kinds}&include_ended=true")).await;
        assert_eq!(all["data"][0]["ended_at"], 6, "{all}");
        assert_eq!(all["data"][2]["superseded_by"], all["data"][1]["memory_id"], "{all}");
        // A search hit shows it, too.
        let hit = &search(house, json!({"q": "8443"})).await["hits"][0];
        assert_eq!(hit["stale"]["replaced_by"], last["memory_id"], "{hit}");
        assert_eq!(hit["memory"], json!({"memory_id": id, "kind": "semantic"}), "{hit}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_item_is_no_longer_shown() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let kept = insert(house, "one", semantic("The vault opens at noon")).await;
        let (id, notebook) =
            (kept["memory_id"].as_str().unwrap(), kept["session"].as_str().unwrap());
        assert_eq!(search(house, json!({"q": "vault"})).await["hits"][0]["session"], notebook);
        let path = format!("/v1/sessions/one/memory/{id}");
        for _ in 0..2 {
            let gone = house.call("DELETE", &path, &[], None).await;
            assert_eq!(gone.status, 200, "{}", gone.text);
            assert_eq!(gone.json()["session"], notebook);
        }
        assert!(texts(&list(house, "/v1/sessions/one/memory?include_ended=true").await).is_empty());
        let one = list(house, &path).await;
        assert_eq!((&one["forgotten_at"], &one["text"]), (&json!(1), &json!("")), "{one}");
        let found = search(house, json!({"q": "vault"})).await;
        assert!(!found.to_string().contains("vault opens"), "{found}");
        insert(house, "one", semantic("The ferry leaves at 9")).await;
        let beside = search(house, json!({"q": "ferry", "around": 5})).await;
        assert!(!beside.to_string().contains("vault opens"), "nor beside another: {beside}");
        let events = list(house, &format!("/v1/sessions/{notebook}/events")).await;
        assert_eq!(events["data"].as_array().unwrap().len(), 3, "it is forgotten once: {events}");
        let unknown = house.call("DELETE", "/v1/sessions/one/memory/none", &[], None).await;
        assert_eq!((unknown.status, unknown.code().as_str()), (404, "event_not_found"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_with_the_same_key_stores_one_item() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let key = [JSON, ("idempotency-key", "k1")];
        let send = async |text: &str| {
            let body = semantic(text).to_string();
            house.call("POST", "/v1/sessions/one/memory", &key, Some(body.into())).await
        };
        let first = send("Staging listens on 8443").await.json();
        let event = json!({"events": [{"type": "user.message", "content": "meanwhile"}]});
        house.post("/v1/sessions/one/events", &event).await;
        assert_eq!(send("Staging listens on 8443").await.json(), first);
        let other = send("Staging listens on 9000").await;
        assert_eq!((other.status, other.code().as_str()), (409, "idempotency_conflict"));
        assert_eq!(texts(&list(house, BANK).await), ["Staging listens on 8443"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_item_is_rejected_with_an_error_naming_the_member() {
    let house = House::plain().await;
    session(&house, "one", "/work/bank").await;
    let with = |name: &str, value: Value| {
        let mut item = semantic("x");
        item[name] = value;
        item
    };
    for (path, item, field) in [
        ("/v1/sessions/one/memory", with("kind", json!("other")), "kind"),
        ("/v1/sessions/one/memory", with("text", json!(" ")), "text"),
        ("/v1/sessions/one/memory", with("text", json!("x".repeat(8_001))), "text"),
        ("/v1/sessions/one/memory", with("importance", json!(11)), "importance"),
        ("/v1/sessions/one/memory", with("importance", json!(0)), "importance"),
        ("/v1/sessions/one/memory", with("name", json!("")), "name"),
        ("/v1/sessions/one/memory", with("topic", json!("x".repeat(121))), "topic"),
        ("/v1/sessions/one/memory", with("tags", json!(vec!["x"; 33])), "tags"),
        ("/v1/sessions/one/memory", with("supersedes", json!("none")), "supersedes"),
        (BANK, with("kind", json!("working")), "kind"),
        (BANK, with("supersedes", json!("none")), "supersedes"),
        ("/v1/sessions/one/skills", json!({"name": "a", "description": "", "body": ""}), "body"),
    ] {
        let refused = house.post(path, &item).await;
        assert_eq!(refused.status, 422, "{item}: {}", refused.text);
        let hint = &refused.json()["error"]["recovery_hint"]["field"];
        assert_eq!(hint, field, "{item}: {}", refused.text);
    }
    let unknown = house.post("/v1/sessions/none/memory", &semantic("x")).await;
    assert_eq!(unknown.code(), "session_not_found");
    assert!(texts(&list(&house, BANK).await).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_has_a_separate_notebook() {
    let walled = Walled::plain().await;
    let ada = walled.token(("acme", "ada"), &[Grant::Read, Grant::Write]);
    let eve = walled.token(("acme", "eve"), &[Grant::Read, Grant::Write]);
    let kept = walled.post(&ada, BANK, &semantic("The vault opens at noon")).await.json();
    assert!(kept["memory_id"].is_string(), "{kept}");
    let theirs = walled.post(&eve, BANK, &semantic("The vault opens at noon")).await.json();
    assert_eq!(theirs["similar"], json!([]), "{theirs}");
    let asked = json!({"q": "vault", "wait_ms": 60_000});
    for (who, own) in [(&ada, &kept), (&eve, &theirs)] {
        assert_eq!(texts(&walled.get(who, BANK).await.json()).len(), 1);
        let found = walled.post(who, "/v1/search", &asked).await.json();
        assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{found}");
        assert_eq!(found["hits"][0]["memory"]["memory_id"], own["memory_id"]);
    }
    let (session, id) = (kept["session"].as_str().unwrap(), kept["memory_id"].as_str().unwrap());
    let path = format!("/v1/sessions/{session}/memory/{id}");
    assert_eq!(walled.get(&eve, &path).await.code(), "event_not_found");
    let reads = walled.token(("acme", "ada"), &[Grant::Read]);
    assert_eq!(walled.post(&reads, BANK, &semantic("x")).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_stores_and_finds_items_with_tools() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let fact = json!({"text": "Staging listens on 8443", "kind": "semantic",
            "topic": "staging", "importance": 9, "sessionId": "one"});
        let kept = house.post("/v1/tools/memory_insert", &fact).await.json();
        assert!(kept["memoryId"].is_string() && kept["similar"] == json!([]), "{kept}");
        let skill = json!({"name": "deploy", "description": "Deploy to staging",
            "body": "1. push\n2. wait", "tags": ["ops"], "workspace": "/work/bank"});
        let saved = house.post("/v1/tools/save_skill", &skill).await.json();
        assert_eq!(saved["sessionId"], kept["sessionId"], "the notebook: {saved}");
        let again = house.post("/v1/tools/save_skill", &skill).await.json();
        assert_ne!(again["memoryId"], saved["memoryId"], "{again}");
        search(house, json!({"q": "staging"})).await;
        let asked = json!({"query": "staging", "kinds": ["semantic"], "around": 0});
        let found = house.post("/v1/tools/memory_search", &asked).await.json();
        let blocks = found["blocks"].as_array().unwrap();
        assert_eq!(blocks.len(), 1, "{found}");
        for (member, value) in [
            ("kind", json!("semantic")),
            ("topic", json!("staging")),
            ("importance", json!(9)),
            ("memoryId", kept["memoryId"].clone()),
            ("sessionId", kept["sessionId"].clone()),
        ] {
            assert_eq!(blocks[0][member], value, "{member}: {found}");
        }
        let asked = json!({"query": "deploy", "kinds": ["procedural", "working"], "around": 0});
        let found = house.post("/v1/tools/memory_search", &asked).await.json();
        let replaced: Vec<bool> = found["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["stale"]["replaced_by"] == again["memoryId"])
            .collect();
        assert_eq!(replaced.iter().filter(|is| **is).count(), 1, "{found}");
        assert_eq!(replaced.len(), 2, "{found}");
        let refused = json!({"query": "x", "kinds": ["other"]});
        let refused = house.post("/v1/tools/memory_search", &refused).await;
        assert_eq!(refused.json()["error"]["recovery_hint"]["field"], "kinds", "{}", refused.text);
        // Without a session or a workspace the item cannot be stored.
        let alone = json!({"text": "x", "kind": "semantic"});
        let refused = house.post("/v1/tools/memory_insert", &alone).await;
        assert_eq!(refused.code(), "session_required", "{}", refused.text);
        // A directory is the workspace only for items that outlive a session.
        let here =
            [JSON, ("sessionlog-directory", "%2Fwork%2Fbank"), ("sessionlog-connection", "new")];
        let cleared = house.call("POST", "/v1/tools/clear_session", &here, Some("{}".into())).await;
        assert_eq!(cleared.status, 200, "{}", cleared.text);
        let alone = |kind: &str| json!({"text": "Ada signs", "kind": kind}).to_string();
        let send = async |kind: &str| {
            let body = Some(alone(kind).into());
            house.call("POST", "/v1/tools/memory_insert", &here, body).await
        };
        assert_eq!(send("working").await.code(), "session_required");
        assert_eq!(send("semantic").await.json()["sessionId"], kept["sessionId"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_given_to_a_model_are_recorded_in_its_session_and_not_searchable() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        session(house, "other", "/work/bank").await;
        let item =
            json!({"text": "The quokka sleeps at noon", "kind": "episodic", "sessionId": "one"});
        let kept = house.post("/v1/tools/memory_insert", &item).await.json();
        search(house, json!({"q": "quokka"})).await;
        let own = [JSON, ("sessionlog-session", "one")];
        let page = async |asked: Value| {
            let body = Some(asked.to_string().into());
            let paged = house.call("POST", "/v1/tools/memory_page", &own, body).await;
            assert_eq!(paged.status, 200, "{}", paged.text);
            paged.json()
        };
        let asked = json!({"direction": "in", "query": "quokka hibernation"});
        let paged = page(asked).await;
        assert_eq!(paged["blocks"][0]["memoryId"], kept["memoryId"], "{paged}");
        page(json!({"direction": "in", "query": "nothing of the kind xyzzy"})).await;
        let events = house.get("/v1/sessions/one/events?types[]=memory.paged_in").await.json();
        let noted = events["data"].as_array().unwrap();
        assert_eq!(noted.len(), 1, "an empty answer is not noted: {events}");
        assert_eq!(
            (&noted[0]["by"], &noted[0]["query"]),
            (&json!("model"), &json!("quokka hibernation"))
        );
        assert_eq!(noted[0]["tokens"], paged["tokens"], "{events}");
        let block = json!({"positions": {"from": 0, "to": 1}, "item": kept["memoryId"]});
        assert_eq!(noted[0]["blocks"], json!([block]), "{events}");
        let one = format!("/v1/sessions/one/memory/{}", kept["memoryId"].as_str().unwrap());
        assert_eq!(house.get(&one).await.json()["paged_in"], 1);
        // A block of another session is recorded by name only; no search and no window shows it.
        house
            .post(
                "/v1/sessions/other/events",
                &json!({"events": [
            {"type": "user.message", "content": "A wombat digs"}]}),
            )
            .await;
        page(json!({"direction": "in", "ranges": [{"sessionId": "other", "from": 0, "to": 1}]}))
            .await;
        let events = house.get("/v1/sessions/one/events?types[]=memory.paged_in").await.json();
        assert_eq!(events["data"][1]["blocks"][0]["session"], "other", "{events}");
        let found = search(house, json!({"q": "hibernation"})).await;
        assert_eq!(found["hits"], json!([]), "{found}");
        let window = house.get("/v1/sessions/one/views/window?format=anthropic").await;
        assert!(!window.text.contains("hibernation"), "{}", window.text);
    })
    .await;
}

#[test]
fn a_user_stores_lists_and_forgets_items_on_the_command_line() {
    let place = with_trip();
    let kept =
        place.run(&["memory", "trip", "--insert", "The ferry leaves at 9", "--topic", "ferry"]);
    let kept = kept.ok();
    assert!(kept.starts_with("remembered: "), "{kept}");
    let found = place.run(&["memory", "trip"]).ok();
    for words in ["ferry", "semantic, ", "The ferry leaves at 9"] {
        assert!(found.contains(words), "{words}: {found}");
    }
    let like = place.run(&["memory", "trip", "--insert", "the ferry leaves at 10"]);
    assert!(like.err.contains("similar: "), "{like:?}");
    let all = place.run(&["memory", "trip", "--json"]).json();
    let id = all["data"][0]["memory_id"].as_str().unwrap();
    assert!(place.run(&["memory", "trip", "--show", id]).ok().contains("leaves at 10"));
    place.run(&["memory", "trip", "--forget", id]).ok();
    let all = place.run(&["memory", "trip", "--json"]).json();
    assert_eq!(all["data"].as_array().unwrap().len(), 1, "{all}");
    // The notebook of a workspace, and its deletion.
    let words = ["memory", "--workspace", "/w", "--insert", "Pears ripen in September"];
    let kept = place.run(&[&words[..], &["--json"]].concat()).json();
    let notebook = kept["session"].as_str().unwrap();
    assert!(notebook.starts_with("notebook."), "{kept}");
    assert!(!place.run(&["sessions"]).ok().contains(notebook));
    assert!(place.run(&["memory", "--workspace", "/w"]).ok().contains("Pears ripen"));
    place.run(&["erase", "--notebook", "/w", "--yes"]).ok();
    assert!(place.run(&["memory", "--workspace", "/w"]).err.contains("Nothing is remembered."));
    let found = place.run(&["search", "pears", "--wait", "60s"]);
    assert!(found.err.contains("Nothing matches."), "{found:?}");
    place.run(&words).ok();
    assert!(place.run(&["memory", "--workspace", "/w"]).ok().contains("Pears ripen"));
    for (arguments, exit) in [
        (vec!["memory"], 2),
        (vec!["memory", "trip", "--workspace", "/w"], 2),
        (vec!["memory", "trip", "--insert", "x", "--kind", "semantic,working"], 2),
        (vec!["memory", "trip", "--forget", "none"], 4),
        (vec!["erase", "--yes"], 2),
        (vec!["mark", "trip", "0", "--as", "splendid"], 2),
    ] {
        assert_eq!(place.run(&arguments).code, exit, "{arguments:?}");
    }
    let message = event("user.message", "We sail at noon");
    place.run_with(&["append", "trip"], &message).ok();
    let marked = place.run(&["mark", "trip", "end", "--as", "wrong", "--note", "we sail at 9"]);
    let marked = marked.ok();
    assert!(marked.ends_with("of trip: wrong\n"), "{marked}");
    let found = place.run(&["search", "noon", "--wait", "60s"]).ok();
    assert!(found.contains("marked wrong at ") && found.contains("we sail at 9"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_paged_in_within_their_budget_and_the_rest_is_listed() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let short = insert(house, "one", semantic("Staging listens on 8443")).await;
        let long = insert(house, "one", semantic(&"the ledger of staging ".repeat(200))).await;
        let ids = json!([short["memory_id"], long["memory_id"]]);
        let page = async |asked: Value| house.post("/v1/memory/page", &asked).await;
        let paged = page(json!({"session": "one", "ids": ids, "tokens_max": 200})).await.json();
        assert_eq!(paged["blocks"].as_array().unwrap().len(), 1, "{paged}");
        let block = &paged["blocks"][0];
        assert_eq!(
            (&block["text"], &block["memory_id"], &block["kind"]),
            (&json!("Staging listens on 8443"), &short["memory_id"], &json!("semantic"))
        );
        assert!(paged["tokens"].as_u64().unwrap() <= 200, "{paged}");
        let left = &paged["left_out"][0];
        assert_eq!(left["memory_id"], long["memory_id"], "{paged}");
        assert!(left["tokens"].as_u64().unwrap() > 200 && left.get("text").is_none(), "{paged}");
        let all = page(json!({"workspace": "/work/bank", "ids": ids, "tokens_max": 9_000})).await;
        assert_eq!(all.json()["blocks"].as_array().unwrap().len(), 2, "{}", all.text);
        // Ranges of events, and a query over all sessions.
        let events = json!({"events": [
            {"type": "user.message", "content": "Which port?"},
            {"type": "agent.message", "content": "The heron of staging nests in March"},
        ]});
        house.post("/v1/sessions/one/events", &events).await;
        let ranges = json!([{"from": 0, "to": 2}]);
        let paged = page(json!({"session": "one", "ranges": ranges})).await.json();
        assert_eq!(
            paged["blocks"][0]["text"],
            "0 user.message: Which port?\n1 agent.message: The heron of staging nests in March\n"
        );
        search(house, json!({"q": "heron"})).await;
        let asked = json!({"direction": "in", "query": "heron march"});
        let paged = house.post("/v1/tools/memory_page", &asked).await.json();
        assert_eq!(paged["blocks"][0]["text"], "The heron of staging nests in March", "{paged}");
        let asked = json!({"direction": "in", "ids": [long["memory_id"]], "sessionId": "one"});
        let paged = house.post("/v1/tools/memory_page", &asked).await.json();
        assert_eq!(paged["blocks"][0]["memoryId"], long["memory_id"], "{paged}");
        // Paging out drops the same events as continue_session.
        let asked = json!({"direction": "out", "sessionId": "one", "summary": "herons"});
        let out = house.post("/v1/tools/memory_page", &asked).await.json();
        assert_eq!(out["pagedOut"], json!({"from": 0, "to": 2}), "{out}");
        let kept = list(house, "/v1/sessions/one/memory?kinds[]=episodic").await;
        assert_eq!(texts(&kept), ["herons"], "{kept}");
        assert_eq!(kept["data"][0]["positions"], json!({"from": 0, "to": 2}), "{kept}");
        for (asked, field) in [
            (json!({"session": "one"}), "ids"),
            (json!({"session": "one", "ids": ids, "query": "x"}), "ids"),
            (json!({"ids": ids}), "session"),
            (json!({"ranges": ranges}), "ranges"),
            (json!({"session": "one", "ranges": [{"from": 2, "to": 2}]}), "ranges"),
            (json!({"session": "one", "ranges": [{"from": 0, "to": 1_001}]}), "ranges"),
            (json!({"session": "one", "ids": ids, "tokens_max": 99}), "tokens_max"),
            (json!({"session": "one", "workspace": "w", "query": "x"}), "workspace"),
        ] {
            let refused = page(asked.clone()).await;
            assert_eq!(refused.status, 422, "{asked}: {}", refused.text);
            assert_eq!(refused.json()["error"]["recovery_hint"]["field"], field, "{asked}");
        }
        // A forgotten item is not paged in.
        let id = short["memory_id"].as_str().unwrap();
        house.call("DELETE", &format!("/v1/sessions/one/memory/{id}"), &[], None).await;
        let gone = page(json!({"session": "one", "ids": [id]})).await;
        assert_eq!(gone.code(), "event_not_found", "{}", gone.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_lists_or_redacts_the_items_written_from_the_session() {
    over_every_engine(async |house| {
        for id in ["one", "two", "three"] {
            session(house, id, "w").await;
            insert(house, id, semantic(&format!("The wolpertinger of {id}"))).await;
        }
        let erased = house.post("/v1/sessions/one/erase", &json!({})).await.json();
        assert_eq!(erased["memory"].as_array().unwrap().len(), 1, "{erased}");
        assert_eq!(erased["memory"][0]["redacted"], false, "{erased}");
        let named = erased["memory"][0]["memory_id"].as_str().unwrap();
        let item = house.get(&format!("/v1/sessions/two/memory/{named}")).await.json();
        assert_eq!(item["text"], "The wolpertinger of one");
        let erased = house.post("/v1/sessions/two/erase?with_memory=true", &json!({})).await;
        assert_eq!(erased.json()["memory"][0]["redacted"], true, "{}", erased.text);
        let left = list(house, "/v1/workspaces/w/memory").await;
        assert_eq!(texts(&left), ["The wolpertinger of three", "The wolpertinger of one"]);
        let erased = house.post("/v1/sessions/three/erase?with_memory=true", &json!({})).await;
        let items = erased.json()["memory"].as_array().unwrap().len();
        assert_eq!(items, 1, "those of others are not named: {}", erased.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_result_labels_each_member_of_an_item() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let skill = json!({"name": "deploy", "description": "ship it", "body": "make ship"});
        let kept = house.post("/v1/sessions/one/skills", &skill).await;
        assert_eq!(kept.status, 200, "{}", kept.text);
        let found = search(house, json!({"q": "ship"})).await;
        let text = found["hits"][0]["snippet"]["text"].as_str().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let expected =
            ["ship it", "", "make ship", "kind: procedural", "name: deploy", "from: one 0"];
        assert_eq!(lines, expected, "{text}");
        // And so has a range of the notebook that is paged in.
        let ranges = json!([{"session": kept.json()["session"], "from": 0, "to": 1}]);
        let paged = house.post("/v1/memory/page", &json!({"ranges": ranges})).await;
        assert_eq!(paged.status, 200, "{}", paged.text);
        let text = paged.json()["blocks"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("\nname: deploy\n"), "{text}");
    })
    .await;
}

#[test]
fn the_first_remembered_item_creates_the_store() {
    let place = crate::program::Place::new();
    std::fs::create_dir(place.path("shop")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(place.path("shop"));
        command.env_remove("SESSIONLOG_DATA_DIR").arg("--data-dir").arg(place.data_dir());
        crate::program::ran(command.spawn().unwrap())
    };
    run(&["memory", "--insert", "Prices are cents"]).ok();
    let listed = run(&["memory", "."]).ok();
    assert!(listed.contains("Prices are cents"), "{listed}");
    assert_eq!(run(&["memory", "--workspace", "other"]).ok(), "");
}
