//! Session of its directory that a caller without an id means, and the session of a first step.
//! Callers without a directory are tested in `binding`.

use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::{
    event::{Batch, EventType, NewEvent, Origin, Point, Scope, SessionId},
    service::{Code, ForkCall, Via},
    store::NewSession,
};

use super::desk::{Desk, session_of, step, with};

const PROJECT: &str = "/home/ada/project";
const HOUR: Duration = Duration::from_secs(3_600);

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn said(kind: &str, origin: Origin) -> NewEvent {
    let kind = EventType::new(kind).unwrap();
    let body = br#"{"content":"hi"}"#.as_slice().into();
    NewEvent { id: None, kind, origin, created_at: None, position: None, body }
}

fn batch(kind: &str, origin: Origin) -> Batch {
    Batch { events: [said(kind, origin)].into(), ..Batch::default() }
}

/// A session as the hooks of an agent begin it.
async fn agent(desk: &Desk, name: &str, workspace: &str) {
    begun(desk, name, workspace, Origin::Harness, None).await;
}

async fn begun(desk: &Desk, name: &str, workspace: &str, origin: Origin, ttl: Option<u64>) {
    let new = NewSession {
        id: Some(id(name)),
        workspace: Some(workspace.to_owned()),
        ttl_seconds: ttl,
        events: batch("session.status_running", origin),
        ..NewSession::default()
    };
    desk.clock.advance(Duration::from_millis(1));
    desk.service.create_session(&desk.caller, new).await.unwrap();
}

/// A later event of its hooks.
async fn tells(desk: &Desk, name: &str, kind: &str) {
    desk.clock.advance(Duration::from_millis(1));
    desk.service.emit(&desk.caller, &id(name), batch(kind, Origin::Harness), false).await.unwrap();
}

/// A front end that starts in the project.
fn starts(desk: &Desk) -> Desk {
    desk.another().in_directory(PROJECT)
}

fn first(words: &str, goal: Option<&str>) -> Value {
    let mut more = json!({ "searchStep": words });
    if let Some(goal) = goal {
        more["researchGoal"] = json!(goal);
    }
    with(step(1), more)
}

async fn found(desk: &Desk) -> String {
    session_of(&desk.recover().await)
}

#[test]
fn a_directory_stands_for_those_above_it_up_to_the_root_of_its_repository() {
    let via = |directory: &str, root: Option<&str>| Via {
        directory: Some(directory.to_owned()),
        root: root.map(str::to_owned),
        ..Via::default()
    };
    for (directory, root, all, workspace) in [
        ("/p/a/b", Some("/p"), &["/p/a/b", "/p/a", "/p"][..], Some("/p")),
        ("/p", Some("/p"), &["/p"], Some("/p")),
        ("/p/a", None, &["/p/a"], Some("/p/a")),
        // No repository of its: a front end may say anything.
        ("/p/a", Some("/q"), &["/p/a"], Some("/p/a")),
        ("/p/ab", Some("/p/a"), &["/p/ab"], Some("/p/ab")),
        ("/p/a", Some("/"), &["/p/a", "/p"], Some("/p")),
        ("/", None, &[], None),
    ] {
        let via = via(directory, root);
        assert_eq!(via.workspaces(), all, "{directory} {root:?}");
        assert_eq!(via.workspace().as_deref(), workspace, "{directory} {root:?}");
    }
    assert_eq!(Via::default().workspaces(), Vec::<String>::new());
    let long = format!("/{}", "d".repeat(600));
    assert_eq!(via(&long, None).workspace(), None, "too long for a workspace");
}

#[tokio::test]
async fn a_first_step_goes_into_the_live_session_of_the_directory_and_a_restart_finds_it() {
    let desk = Desk::new();
    agent(&desk, "hooked", PROJECT).await;
    let front_end = starts(&desk);
    let answer = front_end.ok("sequential_search", step(1)).await;
    assert_eq!((session_of(&answer).as_str(), &answer["boundBy"]), ("hooked", &json!("directory")));
    front_end.ok("sequential_search", step(2)).await;
    tells(&desk, "hooked", "user.message").await;
    let third = starts(&desk).ok("sequential_search", step(3)).await;
    assert_eq!((&third["sessionId"], &third["stepCount"]), (&json!("hooked"), &json!(3)));
    // Its owner may be another one, too.
    let later = starts(&desk.restarted().await);
    let fourth = later.ok("sequential_search", step(4)).await;
    assert_eq!((&fourth["sessionId"], &fourth["stepCount"]), (&json!("hooked"), &json!(4)));
    assert_eq!(later.ok("list_sessions", json!({})).await["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn from_below_the_root_of_a_repository_its_sessions_are_found_and_not_from_beside_it() {
    let desk = Desk::new();
    agent(&desk, "hooked", PROJECT).await;
    let within = |directory: &str, root: Option<&str>| {
        let mut desk = desk.another().in_directory(directory);
        desk.via.root = root.map(str::to_owned);
        desk
    };
    let below = within("/home/ada/project/src/deep", Some(PROJECT));
    assert_eq!(session_of(&below.ok("sequential_search", step(1)).await), "hooked");
    for (directory, root) in [
        ("/home/ada/project/src", None),
        ("/home/ada", Some("/home/ada")),
        ("/home/ada/project2", Some("/home/ada/project2")),
    ] {
        let error = within(directory, root).refused("get_research_session", json!({})).await;
        assert_eq!(error.code, Code::SessionRequired, "{directory}");
    }
    // What begins below belongs to the repository.
    let begun = within("/home/ada/other/src", Some("/home/ada/other"));
    let session = session_of(&begun.ok("sequential_search", step(1)).await);
    assert_eq!(found(&within("/home/ada/other", Some("/home/ada/other"))).await, session);
}

#[tokio::test]
async fn research_is_preferred_to_a_session_without_and_no_later_event_changes_that() {
    for research_first in [true, false] {
        let desk = Desk::new();
        if !research_first {
            agent(&desk, "hooked", PROJECT).await;
        }
        starts(&desk).started_for("beside").ok("sequential_search", step(1)).await;
        if research_first {
            agent(&desk, "hooked", PROJECT).await;
        }
        for kind in ["user.message", "agent.message"] {
            tells(&desk, "hooked", kind).await;
            assert_eq!(found(&starts(&desk)).await, "beside", "{research_first}");
        }
        let second = starts(&desk).ok("sequential_search", step(2)).await;
        assert_eq!(second["sessionId"], "beside");
    }
}

#[tokio::test]
async fn of_two_live_sessions_none_is_chosen_until_one_has_ended() {
    let desk = Desk::new();
    agent(&desk, "one", PROJECT).await;
    agent(&desk, "two", PROJECT).await;
    agent(&desk, "elsewhere", "/home/ada/other").await;
    for (tool, arguments) in
        [("sequential_search", step(1)), ("sequential_search", step(3)), ("get_events", json!({}))]
    {
        let error = starts(&desk).refused(tool, arguments).await;
        assert_eq!(error.code, Code::SessionRequired, "{tool}");
        let named: Vec<_> = error
            .hint
            .candidates
            .iter()
            .map(|one| (one.session.as_str(), one.workspace.as_deref().unwrap()))
            .collect();
        let expected = [("two", PROJECT), ("one", PROJECT), ("elsewhere", "/home/ada/other")];
        assert_eq!(named, expected, "its own workspace first");
        assert_eq!(error.hint.call, None, "none of several is the call to make");
        assert!(!error.hint.action.unwrap().contains("stepNumber 1"));
    }
    tells(&desk, "two", "session.status_terminated").await;
    assert_eq!(session_of(&starts(&desk).ok("sequential_search", step(1)).await), "one");
    // It is running: its harness reports so.
    tells(&desk, "two", "session.status_running").await;
    assert_eq!(found(&starts(&desk)).await, "one", "the other holds no research");
}

#[tokio::test]
async fn a_first_step_with_a_goal_of_its_own_begins_a_session_beside_several() {
    let desk = Desk::new();
    let about = |goal: &str| {
        let mut step = step(1);
        step["researchGoal"] = json!(goal);
        step
    };
    let one = session_of(&starts(&desk).ok("sequential_search", about("organs")).await);
    let two = session_of(&starts(&desk).ok("sequential_search", about("bells")).await);
    // Research that continues beside its continuation counts too.
    let mut more = step(2);
    more["sessionId"] = json!(one);
    starts(&desk).ok("sequential_search", more).await;
    let three = session_of(&starts(&desk).ok("sequential_search", about("clocks")).await);
    assert!(one != two && two != three && one != three);
    for arguments in [about("Bells"), step(1), step(2)] {
        let error = starts(&desk).refused("sequential_search", arguments).await;
        assert_eq!(error.code, Code::SessionRequired);
    }
}

#[tokio::test]
async fn an_ended_cold_imported_or_archived_session_is_not_bound_by_its_directory() {
    let cases = ["ended", "cold", "imported", "temporary", "forked", "archived"];
    for case in cases {
        let desk = Desk::new();
        match case {
            "imported" => begun(&desk, case, PROJECT, Origin::Import, None).await,
            "temporary" => begun(&desk, case, PROJECT, Origin::Harness, Some(86_400)).await,
            _ => agent(&desk, case, PROJECT).await,
        }
        match case {
            "ended" => tells(&desk, case, "session.status_terminated").await,
            "cold" => {
                desk.clock.advance(HOUR * 5);
                // A read is a use; it writes nothing.
                desk.ok("get_research_session", json!({ "sessionId": case })).await;
            }
            "forked" => {
                let at = Point::At(sessionlog::event::Position(1));
                let call = ForkCall { at, id: Some(id("fork")), title: None, key: None };
                desk.service.fork_session(&desk.caller, &id(case), call).await.unwrap();
                tells(&desk, case, "session.status_terminated").await;
            }
            "archived" => {
                desk.service.archive_session(&desk.caller, &id(case), true).await.unwrap();
            }
            _ => {}
        }
        let error = starts(&desk).refused("get_research_session", json!({})).await;
        assert_eq!(error.code, Code::SessionRequired, "{case}");
        let fresh = starts(&desk).ok("sequential_search", step(1)).await;
        assert_eq!(fresh["boundBy"], "new", "{case}");
    }
}

#[tokio::test]
async fn the_only_session_of_the_directory_that_was_used_lately_is_the_call_to_make() {
    let desk = Desk::new();
    agent(&desk, "ended", PROJECT).await;
    tells(&desk, "ended", "session.status_terminated").await;
    agent(&desk, "newer", "/home/ada/other").await;
    let caller = starts(&desk);
    let error = caller.refused("get_research_session", json!({})).await;
    let call = error.hint.call.unwrap();
    assert_eq!(
        (call.tool, &call.arguments["sessionId"]),
        ("get_research_session", &json!("ended"))
    );
    caller.ok(call.tool, Value::Object(call.arguments)).await;
}

#[tokio::test]
async fn another_project_s_session_is_offered_and_never_the_call_to_make() {
    let desk = Desk::new();
    agent(&desk, "elsewhere", "/home/ada/other").await;
    for (caller, tool, arguments, expected) in [
        (starts(&desk), "get_research_session", json!({}), "list_sessions"),
        (starts(&desk), "sequential_search", step(4), "sequential_search"),
        (desk.another(), "get_research_session", json!({}), "list_sessions"),
        (desk.another(), "sequential_search", step(4), "list_sessions"),
        (starts(&desk), "get_events", json!({"sessionId": "none"}), "list_sessions"),
    ] {
        let error = caller.refused(tool, arguments.clone()).await;
        assert_eq!(error.hint.candidates[0].session.as_str(), "elsewhere");
        assert_eq!(error.hint.candidates[0].workspace.as_deref(), Some("/home/ada/other"));
        let call = error.hint.call.unwrap();
        assert_eq!(call.tool, expected, "{tool} {arguments}");
        assert!(!json!(call.arguments).to_string().contains("elsewhere"), "{tool}");
    }
}

#[tokio::test]
async fn no_hint_says_to_begin_where_the_directory_holds_research() {
    for cold in [true, false] {
        let desk = Desk::new();
        let research = session_of(&starts(&desk).ok("sequential_search", step(1)).await);
        if cold {
            desk.clock.advance(HOUR * 5);
        } else {
            tells(&desk, &research, "session.status_terminated").await;
        }
        let caller = starts(&desk);
        let error = caller.refused("sequential_search", step(2)).await;
        let hint = error.hint;
        assert!(!hint.action.unwrap().contains("stepNumber 1"), "{cold}");
        let call = hint.call.unwrap();
        let answer = caller.ok(call.tool, Value::Object(call.arguments)).await;
        match cold {
            true => assert_eq!(answer["sessions"][0]["sessionId"], research),
            false => assert_eq!(answer["sessionId"], research),
        }
        // The same where another session is bound that holds none.
        agent(&desk, "hooked", PROJECT).await;
        let caller = starts(&desk);
        let error = caller.refused("sequential_search", step(2)).await;
        assert_eq!((error.code, error.hint.next_step), (Code::StepConflict, None), "{cold}");
        assert!(!error.hint.action.unwrap().contains("stepNumber 1"), "{cold}");
        let call = error.hint.call.unwrap();
        let answer = caller.ok(call.tool, Value::Object(call.arguments)).await;
        assert_eq!((session_of(&answer), &answer["stepCount"]), (research, &json!(1)));
    }
    let desk = Desk::new();
    agent(&desk, "hooked", PROJECT).await;
    let error = starts(&desk).refused("sequential_search", step(2)).await;
    assert_eq!(error.hint.next_step, Some(1), "nothing has begun");
}

#[tokio::test]
async fn a_first_step_is_a_retry_a_lost_context_or_other_work() {
    for started in [false, true] {
        let desk = Desk::new();
        let caller = || if started { starts(&desk).started_for("begun") } else { starts(&desk) };
        agent(&desk, "begun", PROJECT).await;
        let begun = first("looked at the wall", Some("Measure the wall"));
        caller().ok("sequential_search", begun.clone()).await;
        caller().ok("sequential_search", step(2)).await;

        let again = caller().ok("sequential_search", begun).await;
        assert_eq!((session_of(&again).as_str(), &again["repeated"]), ("begun", &json!(true)));

        for goal in [None, Some("measure  the WALL")] {
            let caller = caller();
            let error = caller.refused("sequential_search", first("looked around", goal)).await;
            assert_eq!((error.code, error.hint.last_step), (Code::StepConflict, Some(2)));
            let action = error.hint.action.unwrap();
            for word in ["get_research_session", "stepNumber 3", "clear_session", "researchGoal"] {
                assert!(action.contains(word), "{action}");
            }
            let call = error.hint.call.unwrap();
            let answer = caller.ok(call.tool, Value::Object(call.arguments)).await;
            assert_eq!((session_of(&answer).as_str(), &answer["stepCount"]), ("begun", &json!(2)));
        }

        let other = caller();
        let painted = other.ok("sequential_search", first("red", Some("Paint the wall"))).await;
        let next = session_of(&painted);
        assert_ne!(next, "begun");
        assert_eq!((&painted["continues"], &painted["stepCount"]), (&json!("begun"), &json!(1)));
        let info = desk.store.info(&desk.caller.key(&id(&next))).await.unwrap();
        assert_eq!(info.metadata.get("sessionlog.continues").map(String::as_str), Some("begun"));
        assert_eq!(info.workspace.as_deref(), Some(PROJECT));
        assert_eq!(session_of(&other.ok("sequential_search", step(2)).await), next);
        // A restarted front end continues the end of the line, whatever hooks report of its begin.
        tells(&desk, "begun", "user.message").await;
        assert_eq!(session_of(&caller().ok("sequential_search", step(3)).await), next, "{started}");
        assert_eq!(found(&caller()).await, next);
    }
}

#[tokio::test]
async fn research_that_continues_beside_its_continuation_is_a_candidate_too() {
    let desk = Desk::new();
    let one = starts(&desk);
    let begun = session_of(&one.ok("sequential_search", first("a", Some("A"))).await);
    let other = starts(&desk);
    let linked = session_of(&other.ok("sequential_search", first("b", Some("B"))).await);
    assert_eq!(found(&starts(&desk)).await, linked);
    one.ok("sequential_search", step(2)).await;
    let error = starts(&desk).refused("sequential_search", step(3)).await;
    let named: Vec<_> = error.hint.candidates.iter().map(|one| one.session.as_str()).collect();
    assert_eq!((error.code, named), (Code::SessionRequired, vec![&*begun, &*linked]));
}

#[tokio::test]
async fn research_that_is_complete_is_followed_by_other_work() {
    let desk = Desk::new();
    let done = json!({"nextStepNeeded": false});
    let complete = session_of(&starts(&desk).ok("sequential_search", with(step(1), done)).await);
    let next = starts(&desk).ok("sequential_search", first("something else", None)).await;
    assert_eq!((&next["continues"], &next["boundBy"]), (&json!(complete), &json!("new")));
}

#[tokio::test]
async fn other_work_goes_into_the_session_of_an_agent_that_has_begun_none() {
    let desk = Desk::new();
    let research = session_of(&starts(&desk).ok("sequential_search", first("a", Some("A"))).await);
    agent(&desk, "hooked", PROJECT).await;
    let other = starts(&desk).ok("sequential_search", first("b", Some("B"))).await;
    assert_eq!((session_of(&other).as_str(), &other["continues"]), ("hooked", &json!(research)));
    assert_eq!(session_of(&starts(&desk).ok("sequential_search", step(2)).await), "hooked");
}

#[tokio::test]
async fn other_work_begins_in_the_same_connection_and_after_a_fresh_start_it_is_not_linked() {
    let desk = Desk::new();
    let one = starts(&desk);
    let begun = session_of(&one.ok("sequential_search", first("a", Some("A"))).await);
    let linked = one.ok("sequential_search", first("b", Some("B"))).await;
    assert_eq!(linked["continues"], begun.as_str());
    one.ok("clear_session", json!({})).await;
    let fresh = one.ok("sequential_search", first("c", None)).await;
    assert_eq!((fresh.get("continues"), &fresh["boundBy"]), (None, &json!("new")));
}

#[tokio::test]
async fn another_user_s_session_of_the_same_directory_is_not_there() {
    let desk = Desk::new();
    agent(&desk, "hooked", PROJECT).await;
    let mut foreign = starts(&desk);
    let user = sessionlog::event::UserId::new("someone").unwrap();
    foreign.caller.scope = Scope { user, ..Scope::local() };
    let error = foreign.refused("get_research_session", json!({})).await;
    assert_eq!((error.code, error.hint.candidates.len()), (Code::SessionRequired, 0));
}
