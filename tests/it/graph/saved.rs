//! Effect of a save on the graph of its workspace: the documented entities and relations, which are
//! derived from the log and removed with it.

use serde_json::{Value, json};

use super::{BANK, edges, ids, kept, query};
use crate::{
    http::house::{House, over_every_engine},
    memory::session,
};

async fn save(house: &House, asked: Value) -> Value {
    let saved = house.post(&format!("{BANK}/save"), &asked).await;
    assert_eq!(saved.status, 200, "{}", saved.text);
    saved.json()
}

async fn of_type(house: &House, kind: &str) -> Vec<Value> {
    let found = query(house, "entities", json!({"types": [kind]})).await;
    found["entities"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_returns_the_entities_and_relations_of_its_items() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        save(house, json!({
            "session_id": "one", "conversation_context": "The tax is being rounded", "token_count": 1_200,
            "context_items": [
                {"id": "cents", "category": "concept", "content": "Cents are whole", "importance": 9},
                {"category": "task", "content": "Round the tax half up"},
                {"category": "code", "content": "fn cents() {}"},
            ],
            "file_references": [{"path": "/work/bank/src/./tax.py", "hash": "blake3:00"}],
            "workspace_state": {"active_project": "shop"},
        }))
        .await;
        let next = house.post(&format!("{BANK}/restore"), &json!({})).await.json();
        let next = next["session_id"].as_str().unwrap().to_owned();

        let sessions = of_type(house, "session").await;
        assert_eq!(sessions[0]["id"], "one");
        assert_eq!(sessions[0]["source"], "extracted", "nothing was written");
        assert_eq!(sessions[0]["properties"]["token_count"], 1_200, "{sessions:?}");
        let said = of_type(house, "conversation").await;
        assert_eq!(said[0]["id"], "conversation_one");
        assert_eq!(said[0]["properties"]["context"], "The tax is being rounded");
        let concept = json!({"types": ["context_item"],
            "filters": [{"field": "category", "op": "eq", "value": "concept"}]});
        let concepts = query(house, "entities", concept).await;
        assert_eq!(ids(&concepts, "entities"), ["context_one_cents"]);
        assert_eq!(concepts["entities"][0]["properties"]["importance"], 9);
        assert_eq!(of_type(house, "context_item").await.len(), 3);
        let files = of_type(house, "file_reference").await;
        assert_eq!(files[0]["id"], "src/tax.py", "{files:?}");
        let state = of_type(house, "workspace_state").await;
        assert_eq!(state[0]["properties"]["active_project"], "shop", "{state:?}");

        for (kind, expected) in [
            ("SESSION_IN_WORKSPACE", "one>/work/bank".to_owned()),
            ("SESSION_HAS_CONVERSATION", "one>conversation_one".to_owned()),
            ("CONVERSATION_REFERENCES_FILE", "conversation_one>src/tax.py".to_owned()),
            ("SESSION_HAS_WORKSPACE_STATE", "one>workspace_state_one".to_owned()),
            ("SESSION_CONTINUES", format!("{next}>one")),
        ] {
            let found = query(house, "relationships", json!({"types": [kind]})).await;
            assert_eq!(edges(&found), [expected], "{kind}: {found}");
        }
        let items = json!({"types": ["CONVERSATION_REFERENCES_ITEM"], "from_id": "conversation_one"});
        assert_eq!(query(house, "relationships", items).await["total"], 3);
        let written = query(house, "entities", json!({"source": "told"})).await;
        assert_eq!(written["total"], 0, "{written}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redacted_item_of_a_save_is_not_in_the_graph() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        let items = json!([{"id": "a", "category": "data", "content": "otterhound"}]);
        save(house, json!({"session_id": "one", "context_items": items})).await;
        // An entity that a caller wrote takes precedence, and is kept.
        kept(house, "session/one", json!({"owner": "Ada"})).await;
        let all = query(house, "entities", json!({"types": ["session", "context_item"]})).await;
        assert_eq!(ids(&all, "entities"), ["one", "context_one_a"], "{all}");
        assert_eq!(all["entities"][0]["properties"], json!({"owner": "Ada"}));
        let events = house.get("/v1/sessions/one/events").await.json();
        let item = events["data"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/sessions/one/events/{item}/redact");
        let gone = house.post(&path, &json!({})).await;
        assert_eq!(gone.status, 200, "{}", gone.text);
        let left = query(house, "entities", json!({})).await;
        assert!(!left.to_string().contains("otterhound"), "{left}");
        assert!(of_type(house, "context_item").await.is_empty(), "{left}");
    })
    .await;
}
