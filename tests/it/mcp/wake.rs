//! A harness that speaks MCP takes a session over: lease, token, unfinished work. It must not test
//! the rules of leases: `http/work` and the store's own tests do.

use serde_json::{Value, json};

use super::{
    desk::{Desk, with},
    door::{DOORS, Door},
    server::Server,
};

fn kind(answer: Result<Value, Value>) -> String {
    answer.map_or_else(|error| error["kind"].as_str().unwrap().to_owned(), |_| "done".to_owned())
}

fn step(session: &str, number: u64) -> Value {
    json!({"sessionId": session, "searchStep": format!("step {number}"), "stepNumber": number,
        "nextStepNeeded": true})
}

/// Returns every tool that writes, with arguments that write something new each time.
fn writing_tools(session: &str, number: u64) -> Vec<(&'static str, Value)> {
    let of = |more: Value| with(json!({"sessionId": session}), more);
    let url = format!("https://a.example/{number}");
    vec![
        ("sequential_search", step(session, number)),
        ("add_sources", of(json!({"sources": [{"url": url}]}))),
        ("emit_event", of(json!({"event": {"type": "user.message", "content": "hi"}}))),
        ("checkpoint", of(json!({"label": format!("c{number}")}))),
        ("resume", of(json!({"checkpoint": "first"}))),
        ("continue_session", of(json!({"tried": [format!("{number}")]}))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_wakes_a_session_and_every_tool_rejects_the_stale_one() {
    for which in DOORS {
        let desk = Desk::new();
        let server = Server::start(&desk).await;
        let mut old = Door::open(which, &server).await;
        let mut new = Door::open(which, &server).await;
        let started = json!({"searchStep": "begin", "stepNumber": 1, "nextStepNeeded": true});
        let session = old.ok("sequential_search", started).await["sessionId"].clone();
        let id = session.as_str().unwrap().to_owned();
        let of = |more: Value| with(json!({"sessionId": id}), more);
        // An unknown checkpoint takes no lease.
        let unknown = of(json!({"wake": true, "checkpoint": "nowhere"}));
        assert_eq!(kind(old.call("resume", &unknown).await), "checkpoint_not_found", "{which}");
        for label in ["first", "second"] {
            old.ok("checkpoint", of(json!({ "label": label }))).await;
        }
        let woken = old.ok("resume", json!({"wake": true, "ttlSeconds": 60})).await;
        assert_eq!(woken["lease"]["fencingToken"], 1, "{which}: {woken}");
        assert_eq!(woken["lease"]["ttlSeconds"], 60, "{which}");
        assert_eq!(woken["checkpoint"]["label"], "second", "{which}");
        let kept = of(json!({"wake": true, "ttlSeconds": 90, "fencingToken": 1}));
        let kept = old.ok("resume", kept).await;
        assert_eq!(
            (&kept["lease"]["fencingToken"], &kept["lease"]["ttlSeconds"]),
            (&json!(1), &json!(90)),
            "{which}"
        );
        let call = json!({"type": "agent.tool_use", "name": "grep", "call_id": "7"});
        old.ok("emit_event", of(json!({"event": call, "fencingToken": 1}))).await;

        let wake = of(json!({"wake": true}));
        assert_eq!(kind(new.call("resume", &wake).await), "lease_held", "{which}");
        let stolen = new.ok("resume", of(json!({"wake": true, "steal": true}))).await;
        assert_eq!(stolen["lease"]["fencingToken"], 2, "{which}");
        assert_eq!(stolen["unfinished"]["leaseKept"], true, "{which}");
        assert_eq!(stolen["unfinished"]["openCalls"][0]["name"], "grep", "{which}: {stolen}");
        assert_eq!(stolen["eventsBehind"], 1, "{which}");

        for (token, code) in [(None, "lease_held"), (Some(1), "lease_lost"), (Some(2), "done")] {
            for (tool, arguments) in writing_tools(&id, 2) {
                let shown = token.map_or(json!({}), |token| json!({"fencingToken": token}));
                let answer = new.call(tool, &with(arguments, shown)).await;
                assert_eq!(kind(answer), code, "{which}: {tool} with {token:?}");
            }
        }
        // A fork is a read; an expired token is refused.
        for (token, code) in [(None, "done"), (Some(1), "lease_lost"), (Some(2), "done")] {
            let shown = token.map_or(json!({}), |token| json!({"fencingToken": token}));
            let fork = with(of(json!({"at": "checkpoint:first"})), shown);
            assert_eq!(kind(new.call("fork_session", &fork).await), code, "{which} {token:?}");
        }
        // `clear_session` with the token releases the lease.
        let leave = json!({"fencingToken": 1});
        assert_eq!(kind(new.call("clear_session", &leave).await), "lease_lost", "{which}");
        new.ok("clear_session", json!({"fencingToken": 2})).await;
        old.ok("sequential_search", step(&id, 3)).await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_checkpoint_can_be_woken_and_how_requires_wake() {
    let desk = Desk::new();
    let first = json!({"searchStep": "begin", "stepNumber": 1, "nextStepNeeded": true});
    desk.call("sequential_search", first).await.unwrap();
    for (argument, value) in [("steal", json!(true)), ("ttlSeconds", json!(5))] {
        let alone = desk.call("resume", json!({ argument: value })).await.unwrap_err();
        assert_eq!(alone.hint.field.as_deref(), Some(argument));
    }
    let long = desk.call("resume", json!({"wake": true, "ttlSeconds": 90_000})).await.unwrap_err();
    assert_eq!(long.hint.field.as_deref(), Some("ttlSeconds"));
    let woken = desk.call("resume", json!({"wake": true})).await.unwrap();
    assert_eq!((woken.get("checkpoint"), woken.get("resumedAs")), (None, None));
    assert_eq!(woken["eventsBehind"], woken["tail"]);
    assert_eq!(woken["lease"]["ttlSeconds"], 300);
}
