//! Unused sessions, and closed ones, in each interface: which are offered, which are rejected, and
//! that the suggested call works.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    desk::{Desk, session_of, step, with},
    door::{DOORS, Door, next_call},
    server::Server,
};

const HOUR: Duration = Duration::from_secs(3_600);
/// Longer than the retention of an unused session.
const LONG: Duration = Duration::from_secs(31 * 24 * 3_600);

/// Records a first step with its own text; returns the session.
async fn start_session(door: &mut Door, words: &str) -> Value {
    let first = with(step(1), json!({ "searchStep": words }));
    door.ok("sequential_search", first).await["sessionId"].clone()
}

fn candidates(error: &Value) -> usize {
    error["recoveryHint"].get("candidates").and_then(Value::as_array).map_or(0, Vec::len)
}

/// Returns calls about a session, each by a caller bound to it.
fn calls() -> [(&'static str, Value); 5] {
    [
        ("get_research_session", json!({})),
        ("sequential_search", step(2)),
        ("get_events", json!({})),
        ("add_sources", json!({"sources": [{"url": "https://a.org"}]})),
        ("emit_event", json!({"event": {"type": "user.message", "content": "hi"}})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recovery_call_for_an_expired_session_works_through_each_interface() {
    for which in DOORS {
        let desk = Desk::new();
        let server = Server::start(&desk).await;
        let mut doors = Vec::new();
        for (tool, arguments) in calls() {
            let mut door = Door::open(which, &server).await;
            let session = start_session(&mut door, tool).await;
            doors.push((door, session, tool, arguments));
        }
        desk.clock.advance(LONG);
        assert_eq!(desk.service.sweep().await.unwrap().expired.len(), doors.len());
        for (door, session, tool, arguments) in &mut doors {
            let case = format!("{which}: {tool}");
            let error = door.call(tool, arguments).await.expect_err(&case);
            assert_eq!(error["kind"], "session_expired", "{case}: {error}");
            assert_eq!(error["retryable"], false, "{case}");
            let action = error["recoveryHint"]["action"].as_str().unwrap();
            assert!(action.contains("stepNumber 1"), "{case}: {action}");
            let id = session.as_str().unwrap();
            assert!(action.contains(&format!("`sessionlog restore {id}`")), "{case}: {action}");
            assert_eq!(candidates(&error), 0, "no other session is meant: {case}: {error}");
            let (next, with_arguments) = next_call(arguments, &error).expect(&case);
            let found = door.ok(&next, with_arguments).await;
            match found.get("sessions") {
                Some(listed) => assert_eq!(*listed, json!([]), "{case}: {session} is not listed"),
                None => assert_eq!(found["clearedSessionId"], *session, "{case}"),
            }
        }
        // Another session could be continued; the hint does not choose it.
        let other = start_session(&mut Door::open(which, &server).await, "another matter").await;
        for (door, session, tool, arguments) in &mut doors {
            let case = format!("{which}: {tool}");
            let named = with(arguments.clone(), json!({ "sessionId": session }));
            let error = door.call(tool, &named).await.expect_err(&case);
            let (next, with_arguments) = next_call(arguments, &error).expect(&case);
            let listed = door.ok(&next, with_arguments).await;
            assert_eq!(listed["sessions"][0]["sessionId"], other, "{case}");
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_session_is_not_offered_but_readable_by_id_through_each_interface() {
    for which in DOORS {
        let desk = Desk::new();
        let server = Server::start(&desk).await;
        let session = start_session(&mut Door::open(which, &server).await, "looked for X").await;
        for (after, offered) in [(HOUR * 3, 1), (HOUR * 5, 0)] {
            desk.clock.advance(after);
            let mut stranger = Door::open(which, &server).await;
            let error = stranger.call("get_research_session", &json!({})).await.unwrap_err();
            assert_eq!(error["kind"], "session_required", "{which}");
            assert_eq!(candidates(&error), offered, "{which}: {after:?} later: {error}");
            let (tool, arguments) = next_call(&json!({}), &error).unwrap();
            let found = stranger.ok(&tool, arguments).await;
            assert_eq!(found["sessions"][0]["sessionId"], session, "{which}");
        }
        let mut owner = Door::open(which, &server).await;
        let by_id = owner.ok("get_research_session", json!({ "sessionId": session })).await;
        assert_eq!(by_id["stepCount"], 1, "{which}");
        let mut stranger = Door::open(which, &server).await;
        let error = stranger.call("get_research_session", &json!({})).await.unwrap_err();
        assert_eq!(candidates(&error), 1, "{which}: who reads it warms it");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_caller_bound_to_an_expired_session_can_start_a_new_one() {
    for started_for in [true, false] {
        let desk = Desk::new();
        let desk = if started_for { desk.started_for("claude-1") } else { desk };
        let session = session_of(&desk.ok("sequential_search", step(1)).await);
        desk.clock.advance(LONG);
        desk.service.sweep().await.unwrap();
        let error = desk.refused("sequential_search", step(2)).await;
        assert_eq!(error.code.as_str(), "session_expired", "{started_for}");
        let call = error.hint.call.expect("a way out");
        desk.ok(call.tool, Value::Object(call.arguments)).await;
        let fresh = session_of(&desk.ok("sequential_search", step(1)).await);
        assert_ne!(fresh, session);
        assert_eq!(session_of(&desk.ok("sequential_search", step(2)).await), fresh);
    }
    let desk = Desk::new();
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    desk.clock.advance(LONG);
    desk.service.sweep().await.unwrap();
    let fresh = session_of(&desk.ok("sequential_search", step(1)).await);
    assert_ne!(fresh, session, "a first step starts a session whatever the connection used last");
}

#[tokio::test]
async fn a_cold_session_is_not_bound_as_the_directorys_latest() {
    let desk = Desk::new().in_directory("/p");
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    desk.clock.advance(HOUR * 5);
    let neighbour = desk.another().in_directory("/p");
    let error = neighbour.refused("get_research_session", json!({})).await;
    assert_eq!((error.code.as_str(), error.hint.candidates.len()), ("session_required", 0));
    assert_eq!(session_of(&desk.recover().await), session, "a connection keeps its own");
    // Reading is a use, but not work: the session is offered, and not bound.
    let error = neighbour.refused("get_research_session", json!({})).await;
    let call = error.hint.call.unwrap();
    let found = neighbour.ok(call.tool, Value::Object(call.arguments)).await;
    assert_eq!((session_of(&found), &found["boundBy"]), (session, &json!("argument")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_session_is_readable_and_the_recovery_call_starts_another_one() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for which in DOORS {
        let mut door = Door::open(which, &server).await;
        let session = start_session(&mut door, which).await;
        let id = session.as_str().unwrap();
        let archive = crate::say::http_client()
            .build()
            .unwrap()
            .post(server.url(&format!("/v1/sessions/{id}/archive")));
        assert!(archive.send().await.unwrap().status().is_success());
        assert_eq!(door.ok("get_research_session", json!({})).await["stepCount"], 1, "{which}");
        for (tool, arguments) in calls() {
            let answer = door.call(tool, &arguments).await;
            if tool.starts_with("get") {
                assert!(answer.is_ok(), "{which}: {tool}");
                continue;
            }
            let error = answer.unwrap_err();
            assert_eq!(error["kind"], "session_archived", "{which}: {tool}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("archived"), "{which}: {message}");
            let (next, with_arguments) = next_call(&arguments, &error).unwrap();
            assert_eq!(
                door.ok(&next, with_arguments).await["clearedSessionId"],
                session,
                "{which}"
            );
            let fresh = start_session(&mut door, &format!("{which} after {tool}")).await;
            assert_ne!(fresh, session, "{which}");
            door.ok("get_research_session", json!({ "sessionId": session })).await;
        }
    }
    server.stop().await;
}
