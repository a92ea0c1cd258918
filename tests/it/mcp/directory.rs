//! The session of its directory that a caller without an id uses, and the session of a first step.
//! Callers without a directory are tested in `binding`.

use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::{
    event::{Batch, EventType, NewEvent, Origin, Point, Scope, SessionId},
    service::{ClientIdentity, Code, ForkCall},
    store::NewSession,
};

use super::desk::{Desk, session_of, step, with};

const PROJECT: &str = "/home/ada/project";
const HOUR: Duration = Duration::from_secs(3_600);

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn new_event(kind: &str, origin: Origin) -> NewEvent {
    let kind = EventType::new(kind).unwrap();
    let body = br#"{"content":"hi"}"#.as_slice().into();
    NewEvent { id: None, kind, origin, created_at: None, position: None, body }
}

fn batch(kind: &str, origin: Origin) -> Batch {
    Batch { events: [new_event(kind, origin)].into(), ..Batch::default() }
}

/// Creates a session as the hooks of an agent do.
async fn create_agent_session(desk: &Desk, name: &str, workspace: &str) {
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

/// Appends a later event of its hooks.
async fn append_event(desk: &Desk, name: &str, kind: &str) {
    desk.clock.advance(Duration::from_millis(1));
    desk.service.emit(&desk.caller, &id(name), batch(kind, Origin::Harness), false).await.unwrap();
}

/// Opens a front end that starts in the project.
fn open_front_end(desk: &Desk) -> Desk {
    desk.another().in_directory(PROJECT)
}

fn first(words: &str, goal: Option<&str>) -> Value {
    let mut more = json!({ "searchStep": words });
    if let Some(goal) = goal {
        more["researchGoal"] = json!(goal);
    }
    with(step(1), more)
}

async fn found_session(desk: &Desk) -> String {
    session_of(&desk.recover().await)
}

#[test]
fn the_workspaces_of_a_caller_are_its_directory_and_parents_up_to_the_repository_root() {
    let via = |directory: &str, root: Option<&str>| ClientIdentity {
        directory: Some(directory.to_owned()),
        root: root.map(str::to_owned),
        ..ClientIdentity::default()
    };
    for (directory, root, all, workspace) in [
        ("/p/a/b", Some("/p"), &["/p/a/b", "/p/a", "/p"][..], Some("/p")),
        ("/p", Some("/p"), &["/p"], Some("/p")),
        ("/p/a", None, &["/p/a"], Some("/p/a")),
        // Not its repository: a front end may send any path.
        ("/p/a", Some("/q"), &["/p/a"], Some("/p/a")),
        ("/p/ab", Some("/p/a"), &["/p/ab"], Some("/p/ab")),
        ("/p/a", Some("/"), &["/p/a", "/p"], Some("/p")),
        ("/", None, &[], None),
    ] {
        let via = via(directory, root);
        assert_eq!(via.workspaces(), all, "{directory} {root:?}");
        assert_eq!(via.workspace().as_deref(), workspace, "{directory} {root:?}");
    }
    assert_eq!(ClientIdentity::default().workspaces(), Vec::<String>::new());
    let long = format!("/{}", "d".repeat(600));
    assert_eq!(via(&long, None).workspace(), None, "too long for a workspace");
}

#[tokio::test]
async fn a_first_step_is_recorded_in_the_directorys_live_session_even_after_a_restart() {
    let desk = Desk::new();
    create_agent_session(&desk, "hooked", PROJECT).await;
    let front_end = open_front_end(&desk);
    let answer = front_end.ok("sequential_search", step(1)).await;
    assert_eq!((session_of(&answer).as_str(), &answer["boundBy"]), ("hooked", &json!("directory")));
    front_end.ok("sequential_search", step(2)).await;
    append_event(&desk, "hooked", "user.message").await;
    let third = open_front_end(&desk).ok("sequential_search", step(3)).await;
    assert_eq!((&third["sessionId"], &third["stepCount"]), (&json!("hooked"), &json!(3)));
    // The same after the owner is replaced.
    let later = open_front_end(&desk.restarted().await);
    let fourth = later.ok("sequential_search", step(4)).await;
    assert_eq!((&fourth["sessionId"], &fourth["stepCount"]), (&json!("hooked"), &json!(4)));
    assert_eq!(later.ok("list_sessions", json!({})).await["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn sessions_of_a_repository_are_bound_only_below_its_root() {
    let desk = Desk::new();
    create_agent_session(&desk, "hooked", PROJECT).await;
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
    // A session started in a subdirectory belongs to the repository.
    let begun = within("/home/ada/other/src", Some("/home/ada/other"));
    let session = session_of(&begun.ok("sequential_search", step(1)).await);
    assert_eq!(found_session(&within("/home/ada/other", Some("/home/ada/other"))).await, session);
}

#[tokio::test]
async fn a_session_with_research_is_preferred_to_one_without_even_if_older() {
    for research_first in [true, false] {
        let desk = Desk::new();
        if !research_first {
            create_agent_session(&desk, "hooked", PROJECT).await;
        }
        open_front_end(&desk).started_for("beside").ok("sequential_search", step(1)).await;
        if research_first {
            create_agent_session(&desk, "hooked", PROJECT).await;
        }
        for kind in ["user.message", "agent.message"] {
            append_event(&desk, "hooked", kind).await;
            assert_eq!(found_session(&open_front_end(&desk)).await, "beside", "{research_first}");
        }
        let second = open_front_end(&desk).ok("sequential_search", step(2)).await;
        assert_eq!(second["sessionId"], "beside");
    }
}

#[tokio::test]
async fn with_two_live_sessions_none_is_chosen_until_one_ends() {
    let desk = Desk::new();
    create_agent_session(&desk, "one", PROJECT).await;
    create_agent_session(&desk, "two", PROJECT).await;
    create_agent_session(&desk, "elsewhere", "/home/ada/other").await;
    for (tool, arguments) in
        [("sequential_search", step(1)), ("sequential_search", step(3)), ("get_events", json!({}))]
    {
        let error = open_front_end(&desk).refused(tool, arguments).await;
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
    append_event(&desk, "two", "session.status_terminated").await;
    assert_eq!(session_of(&open_front_end(&desk).ok("sequential_search", step(1)).await), "one");
    // It is running: its harness reports so.
    append_event(&desk, "two", "session.status_running").await;
    assert_eq!(found_session(&open_front_end(&desk)).await, "one", "the other holds no research");
}

#[tokio::test]
async fn a_first_step_with_its_own_goal_starts_a_separate_session() {
    let desk = Desk::new();
    let about = |goal: &str| {
        let mut step = step(1);
        step["researchGoal"] = json!(goal);
        step
    };
    let one = session_of(&open_front_end(&desk).ok("sequential_search", about("organs")).await);
    let two = session_of(&open_front_end(&desk).ok("sequential_search", about("bells")).await);
    // Research that continues after another session took it over counts too.
    let mut more = step(2);
    more["sessionId"] = json!(one);
    open_front_end(&desk).ok("sequential_search", more).await;
    let three = session_of(&open_front_end(&desk).ok("sequential_search", about("clocks")).await);
    assert!(one != two && two != three && one != three);
    for arguments in [about("Bells"), step(1), step(2)] {
        let error = open_front_end(&desk).refused("sequential_search", arguments).await;
        assert_eq!(error.code, Code::SessionRequired);
    }
}

#[tokio::test]
async fn an_ended_cold_imported_or_archived_session_is_not_bound_to_its_directory() {
    let cases = ["ended", "cold", "imported", "temporary", "forked", "archived"];
    for case in cases {
        let desk = Desk::new();
        match case {
            "imported" => begun(&desk, case, PROJECT, Origin::Import, None).await,
            "temporary" => begun(&desk, case, PROJECT, Origin::Harness, Some(86_400)).await,
            _ => create_agent_session(&desk, case, PROJECT).await,
        }
        match case {
            "ended" => append_event(&desk, case, "session.status_terminated").await,
            "cold" => {
                desk.clock.advance(HOUR * 5);
                // A read is a use and writes nothing.
                desk.ok("get_research_session", json!({ "sessionId": case })).await;
            }
            "forked" => {
                let at = Point::At(sessionlog::event::Position(1));
                let call = ForkCall { at, id: Some(id("fork")), title: None, key: None };
                desk.service.fork_session(&desk.caller, &id(case), call).await.unwrap();
                append_event(&desk, case, "session.status_terminated").await;
            }
            "archived" => {
                desk.service.archive_session(&desk.caller, &id(case), true).await.unwrap();
            }
            _ => {}
        }
        let error = open_front_end(&desk).refused("get_research_session", json!({})).await;
        assert_eq!(error.code, Code::SessionRequired, "{case}");
        let fresh = open_front_end(&desk).ok("sequential_search", step(1)).await;
        assert_eq!(fresh["boundBy"], "new", "{case}");
    }
}

#[tokio::test]
async fn the_hint_names_the_only_recently_used_session_of_the_directory() {
    let desk = Desk::new();
    create_agent_session(&desk, "ended", PROJECT).await;
    append_event(&desk, "ended", "session.status_terminated").await;
    create_agent_session(&desk, "newer", "/home/ada/other").await;
    let caller = open_front_end(&desk);
    let error = caller.refused("get_research_session", json!({})).await;
    let call = error.hint.call.unwrap();
    assert_eq!(
        (call.tool, &call.arguments["sessionId"]),
        ("get_research_session", &json!("ended"))
    );
    caller.ok(call.tool, Value::Object(call.arguments)).await;
}

#[tokio::test]
async fn a_session_of_another_project_is_listed_but_never_in_the_hint() {
    let desk = Desk::new();
    create_agent_session(&desk, "elsewhere", "/home/ada/other").await;
    for (caller, tool, arguments, expected) in [
        (open_front_end(&desk), "get_research_session", json!({}), "list_sessions"),
        (open_front_end(&desk), "sequential_search", step(4), "sequential_search"),
        (desk.another(), "get_research_session", json!({}), "list_sessions"),
        (desk.another(), "sequential_search", step(4), "list_sessions"),
        (open_front_end(&desk), "get_events", json!({"sessionId": "none"}), "list_sessions"),
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
async fn no_hint_suggests_a_new_session_in_a_directory_with_research() {
    for cold in [true, false] {
        let desk = Desk::new();
        let research = session_of(&open_front_end(&desk).ok("sequential_search", step(1)).await);
        if cold {
            desk.clock.advance(HOUR * 5);
        } else {
            append_event(&desk, &research, "session.status_terminated").await;
        }
        let caller = open_front_end(&desk);
        let error = caller.refused("sequential_search", step(2)).await;
        let hint = error.hint;
        assert!(!hint.action.unwrap().contains("stepNumber 1"), "{cold}");
        let call = hint.call.unwrap();
        let answer = caller.ok(call.tool, Value::Object(call.arguments)).await;
        match cold {
            true => assert_eq!(answer["sessions"][0]["sessionId"], research),
            false => assert_eq!(answer["sessionId"], research),
        }
        // The same where another session without research is bound.
        create_agent_session(&desk, "hooked", PROJECT).await;
        let caller = open_front_end(&desk);
        let error = caller.refused("sequential_search", step(2)).await;
        assert_eq!((error.code, error.hint.next_step), (Code::StepConflict, None), "{cold}");
        assert!(!error.hint.action.unwrap().contains("stepNumber 1"), "{cold}");
        let call = error.hint.call.unwrap();
        let answer = caller.ok(call.tool, Value::Object(call.arguments)).await;
        assert_eq!((session_of(&answer), &answer["stepCount"]), (research, &json!(1)));
    }
    let desk = Desk::new();
    create_agent_session(&desk, "hooked", PROJECT).await;
    let error = open_front_end(&desk).refused("sequential_search", step(2)).await;
    assert_eq!(error.hint.next_step, Some(1), "nothing has begun");
}

#[tokio::test]
async fn a_first_step_is_recognised_as_retry_lost_context_or_other_work() {
    for started in [false, true] {
        let desk = Desk::new();
        let caller = || {
            if started { open_front_end(&desk).started_for("begun") } else { open_front_end(&desk) }
        };
        create_agent_session(&desk, "begun", PROJECT).await;
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
        // A restarted front end uses the latest successor, even if hooks report the first session.
        append_event(&desk, "begun", "user.message").await;
        assert_eq!(session_of(&caller().ok("sequential_search", step(3)).await), next, "{started}");
        assert_eq!(found_session(&caller()).await, next);
    }
}

#[tokio::test]
async fn research_continued_after_its_successor_started_is_still_a_candidate() {
    let desk = Desk::new();
    let one = open_front_end(&desk);
    let begun = session_of(&one.ok("sequential_search", first("a", Some("A"))).await);
    let other = open_front_end(&desk);
    let linked = session_of(&other.ok("sequential_search", first("b", Some("B"))).await);
    assert_eq!(found_session(&open_front_end(&desk)).await, linked);
    one.ok("sequential_search", step(2)).await;
    let error = open_front_end(&desk).refused("sequential_search", step(3)).await;
    let named: Vec<_> = error.hint.candidates.iter().map(|one| one.session.as_str()).collect();
    assert_eq!((error.code, named), (Code::SessionRequired, vec![&*begun, &*linked]));
}

#[tokio::test]
async fn a_first_step_after_complete_research_starts_other_work() {
    let desk = Desk::new();
    let done = json!({"nextStepNeeded": false});
    let complete =
        session_of(&open_front_end(&desk).ok("sequential_search", with(step(1), done)).await);
    let next = open_front_end(&desk).ok("sequential_search", first("something else", None)).await;
    assert_eq!((&next["continues"], &next["boundBy"]), (&json!(complete), &json!("new")));
}

#[tokio::test]
async fn other_work_is_recorded_in_the_agents_session_if_it_has_no_research() {
    let desk = Desk::new();
    let research =
        session_of(&open_front_end(&desk).ok("sequential_search", first("a", Some("A"))).await);
    create_agent_session(&desk, "hooked", PROJECT).await;
    let other = open_front_end(&desk).ok("sequential_search", first("b", Some("B"))).await;
    assert_eq!((session_of(&other).as_str(), &other["continues"]), ("hooked", &json!(research)));
    assert_eq!(session_of(&open_front_end(&desk).ok("sequential_search", step(2)).await), "hooked");
}

#[tokio::test]
async fn other_work_in_the_same_connection_is_linked_unless_after_a_fresh_start() {
    let desk = Desk::new();
    let one = open_front_end(&desk);
    let begun = session_of(&one.ok("sequential_search", first("a", Some("A"))).await);
    let linked = one.ok("sequential_search", first("b", Some("B"))).await;
    assert_eq!(linked["continues"], begun.as_str());
    one.ok("clear_session", json!({})).await;
    let fresh = one.ok("sequential_search", first("c", None)).await;
    assert_eq!((fresh.get("continues"), &fresh["boundBy"]), (None, &json!("new")));
}

#[tokio::test]
async fn another_users_session_of_the_same_directory_is_invisible() {
    let desk = Desk::new();
    create_agent_session(&desk, "hooked", PROJECT).await;
    let mut foreign = open_front_end(&desk);
    let user = sessionlog::event::UserId::new("someone").unwrap();
    foreign.caller.scope = Scope { user, ..Scope::local() };
    let error = foreign.refused("get_research_session", json!({})).await;
    assert_eq!((error.code, error.hint.candidates.len()), (Code::SessionRequired, 0));
}
