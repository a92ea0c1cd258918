//! The graph of a workspace: entities and relations over HTTP, by tools and on the command line.

mod named;
mod removed;
mod saved;

use std::fmt::Write as _;

use serde_json::{Value, json};
use sessionlog::{
    access::Grant,
    event::{Scope, SessionId},
    store::NewSession,
};

use crate::{
    access::house::Walled,
    cli::with_trip,
    engines,
    http::house::{House, Plan, Reply, over_every_engine},
    memory::session,
};

const JSON: (&str, &str) = ("content-type", "application/json");
const BANK: &str = "/v1/workspaces/%2Fwork%2Fbank";

/// Writes an entity.
async fn put(house: &House, path: &str, properties: Value) -> Reply {
    let body = json!({"properties": properties}).to_string();
    house.call("PUT", &format!("{BANK}/entities/{path}"), &[JSON], Some(body.into())).await
}

async fn kept(house: &House, path: &str, properties: Value) -> Value {
    let reply = put(house, path, properties).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn relate(house: &House, from: &str, kind: &str, to: &str) -> Reply {
    let asked = json!({"type": kind, "from_id": from, "to_id": to});
    house.post(&format!("{BANK}/relationships"), &asked).await
}

/// Returns the result of a query of `entities` or `relationships`.
async fn query(house: &House, of: &str, asked: Value) -> Value {
    let found = house.post(&format!("{BANK}/{of}/query"), &asked).await;
    assert_eq!(found.status, 200, "{asked}: {}", found.text);
    found.json()
}

fn ids(found: &Value, of: &str) -> Vec<String> {
    let rows = found[of].as_array().unwrap();
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the relations as `from>to`.
fn edges(found: &Value) -> Vec<String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let rows = found["relationships"].as_array().unwrap();
    rows.iter().map(|row| format!("{}>{}", text(row, "from_id"), text(row, "to_id"))).collect()
}

/// Returns the field that an error names.
fn field(refused: &Reply) -> String {
    let field = &refused.json()["error"]["recovery_hint"]["field"];
    field.as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_entities_are_written_changed_and_queried() {
    over_every_engine(async |house| {
        let nothing = query(house, "entities", json!({})).await;
        assert_eq!((&nothing["entities"], &nothing["total"]), (&json!([]), &json!(0)));
        let session = json!({"created_at": "2025-05-01T10:00:00Z", "workspace_id": "/work/bank",
            "token_count": 1200, "summary": "The tax test was mended"});
        for (path, properties) in [
            ("session/session_1", session),
            ("conversation/conversation_1", json!({"context": "…", "token_count": 900})),
            (
                "context_item/context_1",
                json!({"category": "code", "content": "fn tax()", "importance": 8}),
            ),
            ("file_reference/file_9f", json!({"path": "/work/bank/src/tax.rs", "hash": "9f"})),
            (
                "workspace_state/workspace_state_1",
                json!({"active_project": "bank", "settings": {"theme": "dark"}}),
            ),
            ("Ticket_2/src%2Fa%20b.rs", json!({})),
        ] {
            let kept = kept(house, path, properties).await;
            assert!(kept["session"].as_str().unwrap().starts_with("notebook."), "{kept}");
        }
        let found = query(house, "entities", json!({})).await;
        let all = ["session_1", "conversation_1", "context_1", "file_9f", "workspace_state_1"];
        assert_eq!(ids(&found, "entities"), [&all[..], &["src/a b.rs"]].concat());
        assert_eq!((&found["total"], &found["entities"][3]["source"]), (&json!(6), &json!("told")));
        // A patch changes, adds and removes; the other properties stay.
        let patch = json!({"hash": "a0", "last_modified": "2025-05-02T00:00:00Z", "path": null});
        kept(house, "file_reference/file_9f", patch).await;
        let found = query(house, "entities", json!({"types": ["file_reference"]})).await;
        let properties = json!({"hash": "a0", "last_modified": "2025-05-02T00:00:00Z"});
        assert_eq!(found["entities"][0]["properties"], properties, "{found}");
        assert_eq!(found["total"], 1);
        let found = query(house, "entities", json!({})).await;
        assert_eq!(ids(&found, "entities")[3], "file_9f", "its place is that of its first event");
        // A patch without effect is not written.
        let [first, again] = [
            kept(house, "file_reference/file_9f", json!({"hash": "a0", "none": null})).await,
            kept(house, "file_reference/file_9f", json!({})).await,
        ];
        assert_eq!((&first["position"], &first), (&json!(6), &again));
        // The notebook is read like a session, and erasing it removes its graph.
        let notebook = first["session"].as_str().unwrap();
        let events = house.get(&format!("/v1/sessions/{notebook}/events")).await.json();
        assert_eq!(events["data"].as_array().unwrap().len(), 7, "{events}");
        assert_eq!(events["data"][3]["type"], "graph.entity_upserted", "{events}");
        house.call("POST", &format!("/v1/sessions/{notebook}/erase"), &[], None).await;
        assert_eq!(query(house, "entities", json!({})).await["total"], 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_filters_sorts_and_pages() {
    over_every_engine(async |house| {
        for (n, path) in ["src/a.rs", "src/b.rs", "docs/c.md", "src/d.rs"].into_iter().enumerate() {
            let mut properties = json!({"path": path, "importance": n, "meta": {"open": n > 1}});
            if n == 3 {
                properties["tags"] = json!(["slow"]);
            }
            kept(house, &format!("context_item/item_{n}"), properties).await;
        }
        kept(house, "task/item_0", json!({"importance": "high"})).await;
        let is =
            |field: &str, op: &str, value: Value| json!({"field": field, "op": op, "value": value});
        for (asked, expected) in [
            (json!({"filters": [is("path", "contains", json!("src/"))]}), "0 1 3"),
            (
                json!({"filters": [is("importance", "gte", json!(1)),
                    is("importance", "lt", json!(3))]}),
                "1 2",
            ),
            (json!({"filters": [is("importance", "in", json!([0, "high"]))]}), "0 0"),
            (json!({"filters": [is("tags", "contains", json!("slow"))]}), "3"),
            (json!({"filters": [is("meta.open", "eq", json!(true))]}), "2 3"),
            (json!({"filters": [is("tags", "exists", json!(false))], "types": ["task"]}), "0"),
            (json!({"filters": [is("id", "ne", json!("item_0"))]}), "1 2 3"),
            (json!({"filters": [is("type", "eq", json!("task"))]}), "0"),
            (json!({"sort": [{"field": "importance", "order": "desc"}]}), "0 3 2 1 0"),
            (json!({"sort": [{"field": "path"}, {"field": "id"}]}), "2 0 1 3 0"),
            (json!({"limit": 2, "offset": 1}), "1 2"),
            (json!({"offset": 99}), ""),
        ] {
            let found = query(house, "entities", asked.clone()).await;
            let found: Vec<String> =
                ids(&found, "entities").iter().map(|id| id.replace("item_", "")).collect();
            assert_eq!(found.join(" "), expected, "{asked}");
        }
        let page = query(house, "entities", json!({"limit": 2, "offset": 1})).await;
        assert_eq!((&page["total"], &page["next_offset"]), (&json!(5), &json!(3)), "{page}");
        let page = query(house, "entities", json!({"limit": 2, "offset": 3})).await;
        assert!(page.get("next_offset").is_none(), "{page}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relation_is_written_once_and_listed_for_either_entity() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        kept(house, "file_reference/f", json!({})).await;
        kept(house, "task/t", json!({})).await;
        let first = relate(house, "one", "SESSION_REFERENCES", "f").await.json();
        assert!(first["id"].as_str().unwrap().starts_with("rel_"), "{first}");
        assert_eq!(relate(house, "one", "SESSION_REFERENCES", "f").await.json(), first);
        relate(house, "t", "CONCERNS", "f").await;
        relate(house, "one", "SESSION_IN_WORKSPACE", "/work/bank").await;
        // Other properties or directions are another relation; another order of them is not.
        let asked = |properties: Value| {
            json!({"type": "CONCERNS", "from_id": "t", "to_id": "f", "properties": properties})
        };
        let path = format!("{BANK}/relationships");
        let lined = house.post(&path, &asked(json!({"line": 3, "by": "x"}))).await.json();
        let again = house.post(&path, &asked(json!({"by": "x", "line": 3}))).await.json();
        assert_eq!(lined, again);
        relate(house, "f", "CONCERNS", "t").await;
        let all = query(house, "relationships", json!({})).await;
        assert_eq!(edges(&all), ["one>f", "t>f", "one>/work/bank", "t>f", "f>t"], "{all}");
        for (asked, expected) in [
            (json!({"entity_id": "t"}), vec!["t>f", "t>f", "f>t"]),
            (json!({"from_id": "t"}), vec!["t>f", "t>f"]),
            (json!({"to_id": "t"}), vec!["f>t"]),
            (json!({"from_id": "t", "to_id": "f", "types": ["USES"]}), vec![]),
            (json!({"entity_id": "/work/bank"}), vec!["one>/work/bank"]),
            (json!({"filters": [{"field": "line", "op": "eq", "value": 3}]}), vec!["t>f"]),
            (
                json!({"types": ["CONCERNS"], "sort": [{"field": "from_id"}], "limit": 1}),
                vec!["f>t"],
            ),
            (json!({"entity_id": "none"}), vec![]),
        ] {
            let found = query(house, "relationships", asked.clone()).await;
            assert_eq!(edges(&found), expected, "{asked}");
        }
        let notebook = first["session"].as_str().unwrap();
        let events = house.get(&format!("/v1/sessions/{notebook}/events")).await.json();
        assert_eq!(events["data"].as_array().unwrap().len(), 7, "each is written once");
        let other = relate(house, "t", "USES", "f").await.json();
        let known = relate(house, "t", "CONCERNS", "f").await.json();
        assert_ne!(other["id"], known["id"], "another type is another relation");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_is_related_to_the_session_it_continues() {
    for engine in engines::all() {
        let store = engine.store.clone();
        let house = House::over(store.clone(), engine.clock.clone(), Plan::default()).await;
        // As only the server links them: no client may.
        for (id, before, workspace) in [
            ("first", None, "/work/bank"),
            ("second", Some("first"), "/work/bank"),
            ("third", Some("second"), "/work/bank"),
            ("far", Some("first"), "/far"),
        ] {
            let link = before.map(|before| ("sessionlog.continues".to_owned(), before.to_owned()));
            let new = NewSession {
                id: Some(SessionId::new(id).unwrap()),
                workspace: Some(workspace.to_owned()),
                metadata: link.into_iter().collect(),
                ..NewSession::default()
            };
            store.create(&Scope::local(), new).await.unwrap();
        }
        // An archived session still continues it.
        let archived = house.call("POST", "/v1/sessions/third/archive", &[], None).await;
        assert_eq!(archived.status, 200, "{}", archived.text);
        for (asked, expected) in [
            (json!({}), vec!["second>first", "third>second"]),
            (json!({"entity_id": "second"}), vec!["second>first", "third>second"]),
            (json!({"to_id": "first"}), vec!["second>first"]),
            (json!({"from_id": "third"}), vec!["third>second"]),
            (json!({"types": ["USES"]}), vec![]),
        ] {
            let found = query(&house, "relationships", asked.clone()).await;
            assert_eq!(edges(&found), expected, "{asked}");
        }
        // A relation that a caller wrote as well is listed once.
        relate(&house, "second", "SESSION_CONTINUES", "first").await;
        for (asked, source) in [("second", "told"), ("third", "extracted")] {
            let found = query(&house, "relationships", json!({"from_id": asked})).await;
            assert_eq!(found["total"], 1, "{found}");
            assert_eq!(found["relationships"][0]["source"], source, "{found}");
        }
        house.stop.cancel();
        house.served.await.unwrap();
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_call_is_rejected_with_an_error_naming_its_member() {
    let house = House::plain().await;
    let deep = (0..40).fold(json!(1), |inner, _| json!({"in": inner}));
    for (path, properties, expected) in [
        ("9task/a", json!({}), "type"),
        ("a-b/a", json!({}), "type"),
        (&*format!("{}/a", "x".repeat(65)), json!({}), "type"),
        (&*format!("task/{}", "x".repeat(513)), json!({}), "id"),
        ("task/a%0Ab", json!({}), "id"),
        ("task/a", json!({"text": "x".repeat(64 << 10)}), "properties"),
        ("task/a", json!({"deep": deep}), "properties"),
        ("task/a", json!([1]), "properties"),
    ] {
        let refused = put(&house, path, properties).await;
        assert_eq!((refused.status, &*field(&refused)), (422, expected), "{}", refused.text);
    }
    // Two patches that fit individually, but not together.
    kept(&house, "task/a", json!({"one": "x".repeat(40 << 10)})).await;
    let refused = put(&house, "task/a", json!({"two": "x".repeat(40 << 10)})).await;
    assert_eq!((refused.status, &*field(&refused)), (422, "properties"), "{}", refused.text);
    let notebook = kept(&house, "task/a", json!({"two": 2})).await["session"].clone();
    let notebook = notebook.as_str().unwrap();
    for (from, kind, to, status, expected) in [
        ("a", "USES", notebook, 404, "to_id"),
        ("none", "USES", "a", 404, "from_id"),
        ("a", "USES", "none", 404, "to_id"),
        ("a", "USES", "/work/farm", 404, "to_id"),
        ("a", "US ES", "a", 422, "type"),
        ("", "USES", "a", 422, "from_id"),
    ] {
        let refused = relate(&house, from, kind, to).await;
        assert_eq!((refused.status, &*field(&refused)), (status, expected), "{}", refused.text);
        let code = if status == 404 { "entity_not_found" } else { "invalid_request" };
        assert_eq!(refused.code(), code);
    }
    let many: Vec<Value> = vec![json!({"field": "a", "op": "eq", "value": 1}); 33];
    for (asked, expected) in [
        (json!({"filters": [{"field": "a", "op": "like", "value": 1}]}), "filters[0].op"),
        (json!({"filters": many}), "filters"),
        (
            json!({"filters": [{"field": "a", "op": "in", "value": vec![1; 1_001]}]}),
            "filters[0].value",
        ),
        (json!({"sort": [{"field": "a", "order": "up"}]}), "sort[0].order"),
        (json!({"types": ["a b"]}), "types"),
        (json!({"types": vec!["a"; 101]}), "types"),
        (json!({"limit": 0}), "limit"),
        (json!({"limit": 1_001}), "limit"),
        (json!({"source": 1, "none": 2}), "none"),
    ] {
        for of in ["entities", "relationships"] {
            let refused = house.post(&format!("{BANK}/{of}/query"), &asked).await;
            assert_eq!(refused.status, 422, "{asked}: {}", refused.text);
            if expected != "none" {
                assert_eq!(field(&refused), expected, "{asked}: {}", refused.text);
            }
        }
    }
    let long = "w".repeat(513);
    let refused = house.post(&format!("/v1/workspaces/{long}/entities/query"), &json!({})).await;
    assert_eq!((refused.status, &*field(&refused)), (422, "workspace"), "{}", refused.text);
    assert_eq!(query(&house, "entities", json!({})).await["total"], 1);
    assert_eq!(query(&house, "relationships", json!({})).await["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_beyond_the_limit_is_rejected_and_known_ones_can_change() {
    let house = House::plain().await;
    let kept = kept(&house, "task/0", json!({})).await;
    let notebook = kept["session"].as_str().unwrap();
    // Written as events, a thousand at once, as an import would.
    for batch in 0..100 {
        let event = |n: u64| {
            let id = n.to_string();
            json!({"type": "graph.entity_upserted", "entity_type": "task", "entity_id": id})
        };
        let events: Vec<Value> = (batch * 1_000..(batch + 1) * 1_000).map(event).collect();
        let (path, events) = (format!("/v1/sessions/{notebook}/events"), json!({"events": events}));
        let sent = house.post(&path, &events).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
    }
    let refused = put(&house, "task/beyond", json!({})).await;
    assert_eq!((refused.status, &*refused.code()), (429, "limit_reached"), "{}", refused.text);
    assert_eq!(put(&house, "task/99999", json!({"state": "done"})).await.status, 200);
    let done = json!({"filters": [{"field": "state", "op": "eq", "value": "done"}]});
    let found = query(&house, "entities", done).await;
    assert_eq!(ids(&found, "entities"), ["99999"], "{found}");
    let last = query(&house, "entities", json!({"offset": 99_999, "limit": 1_000})).await;
    assert_eq!((&last["total"], ids(&last, "entities").len()), (&json!(100_000), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_at_its_memory_limit_rejects_relations_and_entities() {
    let house = House::plain().await;
    let first = kept(&house, "task/0", json!({})).await;
    let notebook = first["session"].as_str().unwrap();
    let text = "x".repeat((4 << 20) - 4_096);
    for batch in 0..9 {
        let event = |n: u64| {
            json!({"type": "graph.relationship_created", "relation_type": "USES", "from_id": "0",
                "to_id": (3 * batch + n).to_string(), "properties": {"text": text}})
        };
        let events: Vec<Value> = (0..3).map(event).collect();
        let path = format!("/v1/sessions/{notebook}/events");
        let sent = house.post(&path, &json!({"events": events})).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
    }
    for refused in
        [relate(&house, "0", "USES", "/work/bank").await, put(&house, "task/1", json!({})).await]
    {
        assert_eq!((refused.status, &*refused.code()), (429, "limit_reached"), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_entities_ends_early_with_a_continuation() {
    let house = House::plain().await;
    for n in 0..70 {
        kept(&house, &format!("task/{n}"), json!({"text": "x".repeat(63 << 10)})).await;
    }
    let (mut offset, mut found) = (json!(0), Vec::new());
    for pages in 1.. {
        let page = query(&house, "entities", json!({"offset": offset, "limit": 1_000})).await;
        found.extend(ids(&page, "entities"));
        match page.get("next_offset") {
            Some(next) => offset = next.clone(),
            None => {
                assert_eq!(pages, 2, "{} entities", found.len());
                break;
            }
        }
    }
    assert_eq!(found, (0..70).map(|n| n.to_string()).collect::<Vec<_>>());
    let asked = json!({"workspace": "/work/bank"});
    let answer = house.post("/v1/tools/query_entities", &asked).await;
    assert!(answer.text.len() < 70 << 10, "a model gets less: {}", answer.text.len());
    assert_eq!(answer.json()["nextOffset"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_has_a_separate_graph() {
    let walled = Walled::plain().await;
    let ada = walled.token(("acme", "ada"), &[Grant::Read, Grant::Write]);
    let eve = walled.token(("acme", "eve"), &[Grant::Read, Grant::Write]);
    let upsert = json!({"type": "task", "id": "t", "properties": {"vault": "noon"},
        "workspace": "/work/bank"});
    let kept = walled.post(&ada, "/v1/tools/upsert_entity", &upsert).await;
    assert_eq!(kept.status, 200, "{}", kept.text);
    walled.post(&ada, "/v1/sessions", &json!({"id": "hers", "workspace": "/work/bank"})).await;
    let edge = json!({"type": "USES", "from_id": "hers", "to_id": "t"});
    let made = walled.post(&ada, &format!("{BANK}/relationships"), &edge).await;
    assert_eq!(made.status, 200, "{}", made.text);
    for of in ["entities", "relationships"] {
        let path = format!("{BANK}/{of}/query");
        assert_eq!(walled.post(&ada, &path, &json!({})).await.json()["total"], 1);
        let theirs = walled.post(&eve, &path, &json!({})).await;
        assert_eq!(theirs.json()["total"], 0, "{}", theirs.text);
    }
    for end in ["t", "hers"] {
        let asked = json!({"type": "USES", "from_id": end, "to_id": "/work/bank"});
        let refused = walled.post(&eve, &format!("{BANK}/relationships"), &asked).await;
        assert_eq!(refused.code(), "entity_not_found", "{}", refused.text);
    }
    let reads = walled.token(("acme", "ada"), &[Grant::Read]);
    assert_eq!(walled.post(&reads, "/v1/tools/upsert_entity", &upsert).await.status, 403);
    let asked = json!({"workspace": "/work/bank"});
    let found = walled.post(&reads, "/v1/tools/query_entities", &asked).await;
    assert_eq!(found.json()["total"], 1, "{}", found.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_writes_and_queries_a_graph_with_the_documented_arguments() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let here = [JSON, ("sessionlog-session", "one")];
        let call = async |tool: &str, asked: Value| {
            let path = format!("/v1/tools/{tool}");
            let reply = house.call("POST", &path, &here, Some(asked.to_string().into())).await;
            assert_eq!(reply.status, 200, "{asked}: {}", reply.text);
            reply.json()
        };
        let file = json!({"type": "file_reference", "id": "file_9f",
            "properties": {"path": "/work/bank/tax.rs", "hash": "9f"}});
        assert_eq!(call("upsert_entity", file).await["id"], "file_9f");
        let talk = json!({"type": "conversation", "id": "conversation_one", "properties": {}});
        call("upsert_entity", talk).await;
        let edge = json!({"from_id": "conversation_one", "to_id": "file_9f",
            "type": "CONVERSATION_REFERENCES_FILE", "properties": {"at": 3}});
        let made = call("create_relationship", edge.clone()).await;
        assert_eq!(call("create_relationship", edge).await, made);
        let asked = json!({"types": ["file_reference"], "limit": 10, "offset": 0,
            "filters": [{"field": "path", "op": "contains", "value": "tax"}],
            "sort": [{"field": "created_at", "order": "desc"}]});
        let found = call("query_entities", asked).await;
        assert_eq!((&found["total"], &found["entities"][0]["id"]), (&json!(1), &json!("file_9f")));
        assert_eq!(found["trust"], "untrusted-external-content");
        let found = call("query_relationships", json!({"to_id": "file_9f"})).await;
        assert_eq!(found["relationships"][0]["from_id"], "conversation_one", "{found}");
        let both = json!({"entityId": "file_9f", "workspaceId": "/work/bank"});
        assert_eq!(call("query_relationships", both).await["total"], 1);
        // Without a session or a directory a workspace must be named; a directory is one.
        let nowhere = house.post("/v1/tools/query_entities", &json!({})).await;
        assert_eq!((nowhere.status, &*field(&nowhere)), (422, "workspace"), "{}", nowhere.text);
        let there =
            [JSON, ("sessionlog-directory", "%2Fwork%2Fbank"), ("sessionlog-connection", "n")];
        let found = house.call("POST", "/v1/tools/query_entities", &there, Some("{}".into())).await;
        assert_eq!(found.json()["total"], 2, "{}", found.text);
        let refused = json!({"from_id": "file_9f", "to_id": "none", "type": "USES"});
        let refused = house.call(
            "POST",
            "/v1/tools/create_relationship",
            &here,
            Some(refused.to_string().into()),
        );
        let refused = refused.await;
        assert_eq!((refused.status, &*field(&refused)), (404, "to_id"), "{}", refused.text);
    })
    .await;
}

#[test]
fn the_command_line_writes_and_lists_a_graph() {
    let place = with_trip();
    let graph = |more: &[&str]| place.run(&[&["graph", "/w"], more].concat());
    assert!(graph(&["--entities"]).err.contains("Nothing matches."));
    let kept = graph(&["--upsert", "task/42", "--properties", r#"{"state": "open", "n": 2}"#]).ok();
    assert!(kept.starts_with("entity 42: position 0 of notebook."), "{kept}");
    graph(&["--upsert", "file/src/ledger.rs"]).ok();
    let kept = graph(&["--relate", "42", "CONCERNS", "src/ledger.rs"]).ok();
    assert!(kept.starts_with("relation rel_"), "{kept}");
    graph(&["--relate", "trip", "USES", "42"]).ok();
    let found = graph(&["--entities"]).ok();
    for words in ["task 42", "state: open", "n: 2", "file src/ledger.rs"] {
        assert!(found.contains(words), "{words}: {found}");
    }
    let found =
        graph(&["--type", "task", "--where", "n gte 2", "--sort", "n:desc", "--json"]).json();
    assert_eq!(
        (&found["total"], &found["entities"][0]["id"]),
        (&json!(1), &json!("42")),
        "{found}"
    );
    let found = graph(&["--of", "42"]).ok();
    assert_eq!(found, "42 CONCERNS src/ledger.rs\ntrip USES 42\n");
    assert_eq!(graph(&["--to", "42", "--json"]).json()["total"], 1);
    assert!(graph(&["-n", "1"]).err.contains("1 of 2: --offset 1 shows more."));
    let mut words = String::new();
    for n in 0..3 {
        write!(words, "{n}\u{1b}[31m").unwrap();
    }
    let shown = json!({"text": words}).to_string();
    graph(&["--upsert", "task/42", "--properties", &shown]).ok();
    assert!(!graph(&["--entities"]).ok().contains('\u{1b}'), "no property steers a terminal");
    for (arguments, exit) in [
        (vec!["--upsert", "task"], 2),
        (vec!["--upsert", "task/1", "--properties", "[1]"], 2),
        (vec!["--upsert", "9/1"], 1),
        (vec!["--relate", "42", "USES"], 2),
        (vec!["--relate", "42", "USES", "none"], 4),
        (vec!["--where", "state"], 2),
        (vec!["--where", "state like x"], 1),
    ] {
        assert_eq!(graph(&arguments).code, exit, "{arguments:?}");
    }
}
