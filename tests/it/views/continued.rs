//! `continue_session` and its prompt: past the limit, in every interface that serves it, once for
//! each call, and always with the same session.

use serde_json::json;

use crate::mcp::{
    desk::Desk,
    door::{DOORS, Door},
    server::Server,
};

#[tokio::test(flavor = "multi_thread")]
async fn continuing_through_each_interface_keeps_the_session() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for which in DOORS {
        let mut door = Door::open(which, &server).await;
        let first = json!({"searchStep": "looked around", "stepNumber": 1, "nextStepNeeded": true,
            "researchGoal": "what is there?", "knowledgeGap": "is there a door?"});
        let id = door.ok("sequential_search", first).await["sessionId"].clone();
        let result = json!({"event": {"type": "agent.tool_result", "call_id": "x",
            "content": "a wall"}});
        door.ok("emit_event", result).await;
        let asked = json!({"tried": ["knocking"], "failed": ["nobody opens"],
            "next": ["look for a window"], "summary": "walls all around", "tokensMax": 1500});
        let answer = door.ok("continue_session", asked).await;
        assert_eq!((&answer["sessionId"], &answer["boundBy"]), (&id, &json!("connection")));
        assert_eq!(answer["task"]["text"], "what is there?");
        assert_eq!(answer["next"], json!(["look for a window"]));
        assert_eq!(answer["failed"], json!(["nobody opens"]));
        assert_eq!(answer["gaps"], json!(["(g1) is there a door?"]));
        assert_eq!(answer["results"][0]["text"], "a wall");
        assert_eq!(answer["trust"], "untrusted-external-content");
        let to = answer["pagedOut"]["to"].as_u64().unwrap();
        assert_eq!(answer["pagedOut"]["from"], 0);
        // Events paged out are remembered, listed as dropped, and readable.
        let events = door.ok("get_events", json!({"from": to.to_string()})).await;
        let kinds: Vec<_> =
            events["events"].as_array().unwrap().iter().map(|event| &event["type"]).collect();
        let wanted = ["outcome.recorded", "research.summary", "memory.item", "context.compacted"];
        assert_eq!(kinds, wanted);
        assert_eq!(events["events"][2]["text"], "walls all around");
        // The caller's own summary is returned, here and in the overview.
        let overview = door.ok("get_research_session", json!({})).await;
        for told in [&answer, &overview] {
            assert!(told["summary"].as_str().unwrap().contains("walls all around"), "{told}");
        }
        let back = door.ok("get_events", json!({"from": "0", "to": to.to_string()})).await;
        assert_eq!(back["events"].as_array().unwrap().len() as u64, to);
        // The checkpoint can be resumed like any other.
        let resumed = door.ok("resume", json!({"checkpoint": "continuation"})).await;
        assert_eq!(resumed["checkpoint"]["id"], answer["checkpoint"], "{resumed}");
        assert_eq!(resumed["checkpoint"]["position"], to + 4);
        // A second call without new events writes nothing.
        let again = door.ok("continue_session", json!({})).await;
        assert_eq!((&again["pagedOut"], &again["position"]), (&json!(null), &answer["position"]));
        // The research continues at the next step.
        let next = json!({"searchStep": "a window", "stepNumber": 2, "nextStepNeeded": true});
        assert_eq!(door.ok("sequential_search", next).await["sessionId"], id);
        let looked = door.ok("continue_session", json!({"pageOut": false})).await;
        assert!(looked.get("pagedOut").is_none());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_continuation_call_retried_with_its_key_is_recorded_once() {
    let desk = Desk::new();
    desk.ok("sequential_search", crate::mcp::desk::step(1)).await;
    let id = desk.recover().await["sessionId"].clone();
    let count = async || {
        desk.ok("get_events", json!({"sessionId": id})).await["events"].as_array().unwrap().len()
    };
    let key = sessionlog::event::BatchKey::new("once").unwrap();
    for _ in 0..3 {
        let arguments = json!({"sessionId": id, "tried": ["a"]});
        desk.named(Some(&key), "continue_session", arguments).await.unwrap();
    }
    assert_eq!(count().await, 4);
    let refused = desk.refused("continue_session", json!({"tokensMax": 1})).await;
    assert_eq!(refused.hint.field.as_deref(), Some("tokensMax"));
    let other = desk.another();
    let none = other.refused("continue_session", json!({})).await;
    assert_eq!(none.code.as_str(), "session_required");
}
