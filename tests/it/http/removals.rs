//! Permanent removal, as callers see it: caches of others are kept, a started removal is finished
//! after its client disconnects, and only sessions that may name the removed event are read.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::store::Store;

use super::{
    gate::Gate,
    house::{House, PATIENCE, Plan},
};
use crate::{
    access::house::{Wall, Walled},
    engines::{self, Engine},
    memory::session,
};

const BANK: &str = "/v1/workspaces/%2Fwork%2Fbank";

/// Returns a gate over an engine, which counts reads and blocks removals; and a house over it.
async fn gated_house(engine: &Engine) -> (House, Arc<Gate>) {
    let gate = Arc::new(Gate::new(engine.store.clone()));
    let store: Arc<dyn Store> = gate.clone();
    (House::over(store, engine.clock.clone(), Plan::default()).await, gate)
}

/// Returns the same with required credentials.
async fn walled(engine: &Engine) -> (Walled, Arc<Gate>) {
    let gate = Arc::new(Gate::new(engine.store.clone()));
    let store: Arc<dyn Store> = gate.clone();
    (Walled::over(store, engine.clock.clone(), Wall::default()).await, gate)
}

fn first_engine() -> Engine {
    engines::all().into_iter().next().unwrap()
}

async fn append_messages(house: &House, id: &str, words: &[&str]) -> Vec<String> {
    let event = |text: &&str| json!({"type": "user.message", "content": text});
    let events: Vec<Value> = words.iter().map(event).collect();
    let path = format!("/v1/sessions/{id}/events");
    let sent = house.post(&path, &json!({ "events": events })).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let data = sent.json()["data"].as_array().unwrap().clone();
    data.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

async fn redact(house: &House, session: &str, event: &str) -> u16 {
    let path = format!("/v1/sessions/{session}/events/{event}/redact");
    house.call("POST", &path, &[], None).await.status
}

/// Reads the continuation of a session, which uses its facts.
async fn read_continuation(house: &House, session: &str) -> String {
    let found = house.get(&format!("/v1/sessions/{session}/views/continuation")).await;
    assert_eq!(found.status, 200, "{}", found.text);
    found.text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_drops_cached_facts_of_its_tenant_only() {
    let engine = first_engine();
    let (walled, gate) = walled(&engine).await;
    let [ours, theirs] = [("a", "ada"), ("b", "bob")].map(|who| walled.admin(who));
    let event = json!({"type": "user.message", "content": "Count the money in cents"});
    let new = json!({"id": "s", "workspace": "w", "initial_events": [event, event]});
    let mut ids = Vec::new();
    for token in [&ours, &theirs] {
        assert_eq!(walled.post(token, "/v1/sessions", &new).await.status, 201);
        let events = walled.get(token, "/v1/sessions/s/events").await.json();
        ids.push(events["data"][0]["id"].as_str().unwrap().to_owned());
        walled.post(token, "/v1/sessions", &json!({"id": "away"})).await;
        walled.post(token, "/v1/sessions", &json!({"id": "held"})).await;
        walled.call(token, "PUT", "/v1/sessions/held/hold", None).await;
    }
    let view = "/v1/sessions/s/views/continuation";
    let look = async |token: &str| {
        assert_eq!(walled.get(token, view).await.status, 200);
        gate.read_since()
    };
    for token in [&ours, &theirs] {
        look(token).await;
        assert_eq!(look(token).await, 0, "the facts are kept");
    }
    for (path, expected) in [
        ("/v1/sessions/s/events/none/redact", 404),
        ("/v1/sessions/none/events/none/redact", 404),
        ("/v1/sessions/none/erase", 404),
        ("/v1/sessions/held/erase", 423),
    ] {
        let refused = walled.post(&ours, path, &json!({})).await;
        assert_eq!(refused.status, expected, "{path}: {}", refused.text);
        assert_eq!([look(&ours).await, look(&theirs).await], [0, 0], "{path}");
    }
    // A removal in another session of the same user leaves this one's facts cached as well.
    for path in
        [format!("/v1/sessions/s/events/{}/redact", ids[1]), "/v1/sessions/away/erase".into()]
    {
        let done = walled.post(&theirs, &path, &json!({})).await;
        assert_eq!(done.status, 200, "{}", done.text);
        gate.read_since();
        assert_eq!(look(&ours).await, 0, "{path}");
    }
    look(&theirs).await;
    walled.post(&theirs, "/v1/sessions", &json!({"id": "more", "initial_events": [event]})).await;
    assert_eq!(walled.post(&theirs, "/v1/sessions/more/erase", &json!({})).await.status, 200);
    assert_eq!(look(&theirs).await, 0, "it has no event of the erased one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_drops_cached_facts_of_forks_and_successors() {
    for engine in engines::all() {
        let name = engine.name;
        let (house, gate) = gated_house(&engine).await;
        session(&house, "one", "/work/bank").await;
        let ids =
            append_messages(&house, "one", &["Wolpertingers feed at six", "Count the hens"]).await;
        let fork = async |parent: &str, id: &str| {
            let asked = json!({"at": "end", "id": id});
            let made = house.post(&format!("/v1/sessions/{parent}/fork"), &asked).await;
            assert_eq!(made.status, 201, "{name}: {}", made.text);
        };
        fork("one", "two").await;
        fork("two", "three").await;
        fork("two", "four").await;
        let own = append_messages(&house, "four", &["Herons nest in March"]).await;
        // A session that continues a fork.
        let asked = json!({"session_id": "three", "tokens_max": 2_000});
        let next = house.post(&format!("{BANK}/restore"), &asked).await.json();
        let next = next["session_id"].as_str().unwrap().to_owned();
        let given = async |session: &str| {
            let asked = json!({"session_id": session, "create": false});
            let found = house.post(&format!("{BANK}/restore"), &asked).await;
            assert_eq!(found.status, 200, "{name}: {}", found.text);
            found.text
        };
        for session in ["one", "two", "three", "four", &next] {
            assert!(given(session).await.contains("Wolpertingers"), "{name} {session}");
        }
        assert!(given("four").await.contains("Herons"), "{name}");
        for session in ["one", "two", "three"] {
            read_continuation(&house, session).await;
        }
        // An event of a fork itself is not in its parent, nor in the parent's other forks.
        assert_eq!(redact(&house, "four", &own[0]).await, 200, "{name}");
        gate.read_since();
        for session in ["one", "two", "three"] {
            read_continuation(&house, session).await;
        }
        assert_eq!(gate.read_since(), 0, "{name}: their facts are kept");
        assert!(!given("four").await.contains("Herons"), "{name}");
        // An event that all share is removed from all, through any session that redacts it.
        assert_eq!(redact(&house, "three", &ids[0]).await, 200, "{name}");
        for session in ["one", "two", "three", "four", &next] {
            let text = given(session).await;
            assert!(!text.contains("Wolpertingers"), "{name} {session}: {text}");
            assert!(
                !read_continuation(&house, session).await.contains("Wolpertingers"),
                "{name} {session}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_reads_only_the_notebook_of_its_workspace() {
    let engine = first_engine();
    let (house, gate) = gated_house(&engine).await;
    for n in 0..20 {
        let path = format!("/v1/workspaces/w{n}/memory");
        let kept =
            house.post(&path, &json!({"kind": "semantic", "text": format!("Fact {n}")})).await;
        assert_eq!(kept.status, 200, "{}", kept.text);
    }
    for (id, workspace) in [("one", "w0"), ("gone", "w0"), ("none", "")] {
        session(&house, id, workspace).await;
        let item = json!({"kind": "semantic", "text": format!("Written from {id}")});
        house.post(&format!("/v1/sessions/{id}/memory"), &item).await;
    }
    // A deleted session still has its workspace.
    assert_eq!(house.call("DELETE", "/v1/sessions/gone", &[], None).await.status, 200);
    gate.read_since();
    for (id, named) in [("one", 1), ("gone", 1), ("none", 0)] {
        let erased = house.post(&format!("/v1/sessions/{id}/erase"), &json!({})).await;
        assert_eq!(erased.status, 200, "{id}: {}", erased.text);
        let items = erased.json()["memory"].as_array().map_or(0, Vec::len);
        assert_eq!(items, named, "{id}: {}", erased.text);
    }
    // Its three items, once, and no event of the nineteen other notebooks.
    assert!(gate.read_since() <= 3);
    let listed = house.get("/v1/workspaces/w0/memory").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 3, "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_started_removal_is_finished_after_its_client_disconnects() {
    for (begin, path, status) in [
        ("POST /v1/sessions/s/erase", "/v1/sessions/s", 410),
        ("POST /v1/sessions/s/erase?with_memory=true", "/v1/sessions/s", 410),
        ("DELETE /v1/sessions/s", "/v1/sessions/s", 410),
        ("DELETE /v1/sessions/s?now=true", "/v1/sessions/s", 410),
        ("POST /v1/tools/delete_session", "/v1/sessions/s", 410),
        ("POST /v1/sessions/s/events/{event}/redact", "", 200),
        ("POST /v1/sessions/away/restore", "/v1/sessions/away", 200),
    ] {
        let engine = first_engine();
        let (house, gate) = gated_house(&engine).await;
        session(&house, "s", "w").await;
        let ids = append_messages(&house, "s", &["The wolpertinger is out"]).await;
        let item = json!({"kind": "semantic", "text": "A fact"});
        house.post("/v1/sessions/s/memory", &item).await;
        session(&house, "away", "w").await;
        house.call("DELETE", "/v1/sessions/away", &[], None).await;
        gate.close();
        let (method, target) = begin.split_once(' ').unwrap();
        let target = target.replace("{event}", &ids[0]);
        let json = [("content-type", "application/json")];
        let body = target.contains("tools").then(|| br#"{"sessionId": "s"}"#.to_vec());
        {
            let mut asked = Box::pin(house.call(method, &target, &json, body));
            tokio::select! {
                reply = &mut asked => panic!("{begin}: it did not wait: {}", reply.text),
                () = gate.reached() => {}
            }
            // The client closes its connection.
        }
        for _ in 0..20 {
            house.get("/healthz").await;
        }
        gate.open();
        let is_done = async || match path {
            "" => !house.get("/v1/sessions/s/events").await.text.contains("wolpertinger"),
            path => house.get(path).await.status == status,
        };
        let done = async {
            while !is_done().await {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE / 6, done).await;
        assert!(waited.is_ok(), "{begin}: it was begun and is not finished");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_is_audited_after_its_client_disconnects() {
    let engine = first_engine();
    let (walled, gate) = walled(&engine).await;
    let token = walled.admin(("a", "ada"));
    walled.post(&token, "/v1/sessions", &json!({"id": "s"})).await;
    gate.close();
    {
        let none = json!({});
        let mut asked = Box::pin(walled.post(&token, "/v1/sessions/s/erase", &none));
        tokio::select! {
            reply = &mut asked => panic!("it did not wait: {}", reply.text),
            () = gate.reached() => {}
        }
    }
    for _ in 0..20 {
        walled.get(&token, "/healthz").await;
    }
    gate.open();
    let noted = async {
        while !walled.get(&token, "/v1/admin/audit").await.text.contains("/erase") {
            tokio::task::yield_now().await;
        }
    };
    let noted = tokio::time::timeout(PATIENCE / 6, noted).await;
    assert!(noted.is_ok(), "the erasure is not in the audit log");
}
