//! The session of a caller without an id, and the answer if it has none.

use serde_json::json;
use sessionlog::{
    event::{Scope, UserId},
    service::Code,
};

use super::desk::{Desk, session_of, step, with};

#[tokio::test]
async fn a_session_is_chosen_by_argument_then_startup_then_connection_then_directory() {
    let desk = Desk::new().in_directory("/home/me/project");
    let first = session_of(&desk.ok("sequential_search", step(1)).await);

    let neighbour = desk.another().in_directory("/home/me/project");
    let found = neighbour.recover().await;
    assert_eq!((session_of(&found), &found["boundBy"]), (first.clone(), &json!("directory")));

    neighbour.ok("clear_session", json!({})).await;
    let second = session_of(
        &neighbour
            .ok(
                "sequential_search",
                with(
                    step(1),
                    json!({
                        "searchStep": "another matter"
                    }),
                ),
            )
            .await,
    );
    assert_ne!(first, second);
    let found = neighbour.recover().await;
    assert_eq!((session_of(&found), &found["boundBy"]), (second.clone(), &json!("connection")));
    let found = desk.recover().await;
    assert_eq!(session_of(&found), first, "a connection keeps its own");

    let mut started = desk.another().in_directory("/home/me/project").started_for(&first);
    let found = started.recover().await;
    assert_eq!((session_of(&found), &found["boundBy"]), (first.clone(), &json!("started")));
    let found = started.ok("get_research_session", json!({"sessionId": second})).await;
    assert_eq!((session_of(&found), &found["boundBy"]), (second.clone(), &json!("argument")));
    started.via.session = None;
    assert_eq!(session_of(&started.recover().await), second, "what it used last");
}

#[tokio::test]
async fn a_directory_is_bound_to_its_own_session_after_a_restart() {
    let desk = Desk::new().in_directory("/p/a");
    let a = session_of(&desk.ok("sequential_search", step(1)).await);
    let other = desk.another().in_directory("/p/b");
    let b = session_of(&other.ok("sequential_search", step(1)).await);
    let later = desk.restarted().await.another();
    let found = later.another().in_directory("/p/a").recover().await;
    assert_eq!(session_of(&found), a);
    assert_eq!(session_of(&later.another().in_directory("/p/b").recover().await), b);
    let error = later.another().in_directory("/p").refused("get_research_session", json!({})).await;
    assert_eq!(error.code, Code::SessionRequired);
}

#[tokio::test]
async fn a_front_end_keeps_its_session_after_the_owner_restarts() {
    let desk = Desk::new().in_directory("/p");
    let mine = session_of(&desk.ok("sequential_search", step(1)).await);
    let other = desk.another().in_directory("/p");
    let words = with(step(1), json!({"searchStep": "of another", "researchGoal": "another"}));
    other.ok("sequential_search", words).await;
    let after = desk.restarted().await.remembering(&mine);
    let answer = after.ok("sequential_search", step(2)).await;
    assert_eq!((session_of(&answer), &answer["boundBy"]), (mine, &json!("connection")));
}

#[tokio::test]
async fn without_a_binding_the_latest_five_sessions_are_offered_and_none_is_chosen() {
    let desk = Desk::new();
    let error = desk.refused("get_research_session", json!({})).await;
    assert_eq!((error.code, error.hint.candidates.len()), (Code::SessionRequired, 0));
    for number in 1..=7 {
        let words = json!({"searchStep": format!("matter {number}")});
        desk.another().ok("sequential_search", with(step(1), words)).await;
    }
    for (tool, arguments) in [
        ("get_research_session", json!({})),
        ("get_research_session", json!({"stepId": 1})),
        ("sequential_search", step(2)),
        ("get_events", json!({})),
        ("emit_event", json!({"event": {"type": "user.message"}})),
        ("add_sources", json!({"sources": [{"url": "https://a.org"}]})),
    ] {
        let error = desk.refused(tool, arguments).await;
        assert_eq!(error.code, Code::SessionRequired, "{tool}");
        let titles: Vec<_> =
            error.hint.candidates.iter().filter_map(|found| found.title.as_deref()).collect();
        assert_eq!(titles, ["matter 7", "matter 6", "matter 5", "matter 4", "matter 3"]);
    }
}

#[tokio::test]
async fn a_session_the_caller_was_started_for_is_created_with_its_first_step() {
    let desk = Desk::new().started_for("claude-1").in_directory("/p");
    let answer = desk.ok("sequential_search", step(1)).await;
    assert_eq!(
        (answer["sessionId"].as_str(), &answer["boundBy"]),
        (Some("claude-1"), &json!("started"))
    );
    let desk = desk.restarted().await;
    let again = desk.ok("sequential_search", step(2)).await;
    assert_eq!(again["sessionId"], "claude-1");
    let error =
        desk.refused("sequential_search", with(step(1), json!({"searchStep": "new"}))).await;
    assert_eq!(error.code, Code::StepConflict);

    let cleared = desk.ok("clear_session", json!({})).await;
    assert_eq!(cleared["clearedSessionId"], "claude-1");
    let error = desk.refused("get_research_session", json!({})).await;
    assert_eq!(error.code, Code::SessionRequired, "a fresh start is bound to nothing");
    let fresh = desk.ok("sequential_search", with(step(1), json!({"searchStep": "new"}))).await;
    assert_ne!(fresh["sessionId"], "claude-1");
    let next = desk.ok("sequential_search", step(2)).await;
    assert_eq!(next["sessionId"], fresh["sessionId"]);
    let old = desk.ok("get_research_session", json!({"sessionId": "claude-1"})).await;
    assert_eq!(old["stepCount"], 2, "the log keeps everything");
    let told = json!({"sessionId": "claude-1", "order": "desc", "limit": 1});
    let told = &desk.ok("get_events", told).await["events"][0];
    assert_eq!((&told["type"], &told["by"]), (&json!("context.cleared"), &json!("clear_session")));
}

#[tokio::test]
async fn a_fresh_start_writes_nothing_to_a_session_bound_by_directory() {
    let desk = Desk::new().in_directory("/p");
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let other = desk.another().in_directory("/p");
    assert_eq!(other.ok("clear_session", json!({})).await["clearedSessionId"], session);
    let asked = json!({"sessionId": session, "order": "desc", "limit": 1});
    let told = &desk.ok("get_events", asked).await["events"][0];
    assert_ne!(told["type"], "context.cleared", "another one's");
}

#[tokio::test]
async fn a_session_of_another_user_is_reported_as_unknown() {
    let desk = Desk::new().in_directory("/p");
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let mut foreign = desk.another().in_directory("/p");
    foreign.caller.scope = Scope { user: UserId::new("someone").unwrap(), ..Scope::local() };
    let look = |id: &str| json!({"sessionId": id});
    let known = foreign.refused("get_research_session", look(&session)).await;
    let unknown = foreign.refused("get_research_session", look("ses_unknown")).await;
    assert_eq!(known.code, Code::SessionNotFound);
    assert_eq!(known.hint, unknown.hint);
    let error = foreign.refused("get_research_session", json!({})).await;
    assert_eq!((error.code, error.hint.candidates.len()), (Code::SessionRequired, 0));
    foreign.via = desk.via.clone();
    let error = foreign.refused("get_research_session", json!({})).await;
    assert_eq!(error.code, Code::SessionRequired, "a connection's name is not a right");
}

#[tokio::test]
async fn an_unknown_session_is_rejected_with_sessions_to_continue() {
    let desk = Desk::new();
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let gone = with(step(7), json!({"sessionId": "ses_gone"}));
    let error = desk.refused("sequential_search", gone).await;
    assert_eq!((error.code, error.hint.last_step), (Code::SessionNotFound, Some(6)));
    let candidate = error.hint.candidates[0].session.to_string();
    assert_eq!(candidate, session);
    desk.ok("sequential_search", with(step(2), json!({"sessionId": candidate}))).await;
}

#[tokio::test]
async fn a_session_without_steps_is_recovered_from_its_messages() {
    let desk = Desk::new().in_directory("/q");
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let new = sessionlog::store::NewSession {
        id: Some(sessionlog::event::SessionId::new("hooked").unwrap()),
        workspace: Some("/p".to_owned()),
        ..Default::default()
    };
    desk.clock.advance(std::time::Duration::from_secs(1));
    desk.store.create(&Scope::local(), new).await.unwrap();
    for content in ["book me a flight", "to Oslo"] {
        let event = json!({"type": "user.message", "content": content});
        desk.ok("emit_event", json!({"sessionId": "hooked", "event": event})).await;
    }
    let found = desk.another().in_directory("/p").recover().await;
    assert_eq!(found["sessionId"], "hooked");
    assert_ne!(session, "hooked");
    assert_eq!(found["researchGoal"], "book me a flight");
    assert_eq!((&found["stepCount"], &found["stepIndex"]), (&json!(0), &json!([])));
    assert_eq!(found["activity"]["types"][0], json!({"type": "user.message", "count": 2}));
    assert_eq!(found["activity"]["recent"][1]["text"], "to Oslo");
    let error =
        desk.refused("get_research_session", json!({"sessionId": "hooked", "stepId": 1})).await;
    assert_eq!(error.code, Code::StepNotFound);
}
