//! Promises of tools, in each interface that serves them: a front end's streams, the two
//! generations of streamable HTTP, and plain HTTP. Decisions of a verb are tested where they are
//! made; here each interface is shown to keep them.

use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::service::ResearchOptions;

use super::{
    bounds::{ANSWER_BYTES, hostile},
    desk::{Desk, step, with},
    door::{DOORS, Door, PATH, next_call, steps_listed},
    server::{Server, Speaker},
};

#[tokio::test(flavor = "multi_thread")]
async fn no_interface_returns_an_answer_beyond_its_size_limit() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for which in DOORS {
        let mut door = Door::open(which, &server).await;
        let mut answers = Vec::new();
        for number in 1..=40 {
            let text = hostile(if number % 20 == 5 { 10_000 } else { 1_000 });
            let more = json!({
                "searchStep": text, "reasoning": text, "knowledgeGap": format!("{number} {text}"),
                "rejectedApproaches": vec![format!("{number} {text}"); 20], "researchGoal": text,
                "sessionSummary": text, "responseMode": if number % 2 == 0 { "full" } else { "summary" },
            });
            answers.push(door.ok("sequential_search", with(step(number), more)).await);
            let source = json!({"url": format!("https://x.org/{number}"), "title": text});
            answers.push(door.ok("add_sources", json!({ "sources": [source] })).await);
        }
        for (tool, arguments) in [
            ("get_research_session", json!({})),
            ("get_research_session", json!({"stepId": 5})),
            ("get_research_session", json!({"cursor": "gaps:9"})),
            ("list_sessions", json!({})),
            ("review_history", json!({})),
            ("get_events", json!({})),
        ] {
            answers.push(door.ok(tool, arguments).await);
        }
        for answer in answers {
            let bytes = answer.to_string().len();
            assert!(bytes <= ANSWER_BYTES, "{which}: {bytes} {answer}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paging_yields_every_step_once_through_each_interface() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for which in DOORS {
        let mut door = Door::open(which, &server).await;
        for number in 1..=150 {
            let answer = door.ok("sequential_search", with(step(number), json!({"delta": true})));
            assert_eq!(answer.await["responseMode"], "delta", "{which}");
        }
        let first = door.ok("get_research_session", json!({})).await;
        let more = &first["cursors"]["steps"];
        assert!(more.is_string(), "{which}: 150 steps do not fit one answer");
        let ask = async |arguments| door.ok("get_research_session", arguments).await;
        let seen = steps_listed(ask).await;
        assert_eq!(seen, (1..=150).rev().collect::<Vec<_>>(), "{which}");
        let one = door.ok("get_research_session", json!({"stepId": 77})).await;
        assert_eq!(one["step"]["description"], step(77)["searchStep"], "{which}");
    }
    server.stop().await;
}

/// Sends step 2 through all of them at once, each with its own text; checks that exactly one
/// succeeded, that the others got the conflict, and that all of them can read the winner.
async fn race(which: &str, doors: Vec<Door>, session: &str) {
    let mut calls = Vec::new();
    for (caller, mut door) in doors.into_iter().enumerate() {
        let words = json!({"searchStep": format!("caller {caller}"), "sessionId": session});
        let arguments = with(step(2), words);
        calls.push(tokio::spawn(async move {
            let answer = door.call("sequential_search", &arguments).await;
            (door, arguments, answer)
        }));
    }
    let (mut won, mut refused) = (Vec::new(), Vec::new());
    for call in calls {
        match call.await.unwrap() {
            (_, arguments, Ok(_)) => won.push(arguments["searchStep"].clone()),
            (door, arguments, Err(error)) => refused.push((door, arguments, error)),
        }
    }
    assert_eq!((won.len(), refused.len()), (1, 15), "{which}");
    for (mut door, arguments, error) in refused {
        assert_eq!(error["kind"], "step_conflict", "{which}: {error}");
        assert_eq!(error["recoveryHint"]["lastKnownStep"], 2, "{which}: {error}");
        let (tool, next) = next_call(&arguments, &error).unwrap();
        assert_eq!(door.ok(&tool, next).await["step"]["description"], won[0], "{which}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixteen_callers_of_one_step_number_one_succeeds_through_each_interface() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for which in DOORS.into_iter().chain(["all"]) {
        let mut doors = Vec::new();
        for caller in 0..16 {
            let door = if which == "all" { DOORS[caller % 4] } else { which };
            doors.push(Door::open(door, &server).await);
        }
        let first = with(step(1), json!({"searchStep": format!("started through {which}")}));
        let started = doors[0].ok("sequential_search", first).await;
        let session = started["sessionId"].as_str().unwrap().to_owned();
        race(which, doors, &session).await;
        let mut door = Door::open("/v1/tools", &server).await;
        let found = door.ok("get_research_session", json!({ "sessionId": session })).await;
        assert_eq!(found["stepCount"], 2, "{which}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_returns_the_same_answer_through_the_same_or_another_interface() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for which in DOORS {
        let mut door = Door::open(which, &server).await;
        let mut session = Value::Null;
        for arguments in [
            with(step(1), json!({"researchGoal": which, "knowledgeGap": "when?"})),
            with(step(2), json!({"closesGap": "when?", "sessionSummary": "begun"})),
            with(step(3), json!({"isRevision": true, "revisesStep": 2})),
            with(step(3), json!({"branchId": "aside", "branchFromStep": 2})),
        ] {
            let first = door.ok("sequential_search", arguments.clone()).await;
            let again = door.ok("sequential_search", arguments.clone()).await;
            session = first["sessionId"].clone();
            for other in DOORS {
                let mut other = Door::open(other, &server).await;
                let named = with(arguments.clone(), json!({ "sessionId": session }));
                let there = other.ok("sequential_search", named).await;
                for answer in [&again, &there] {
                    assert_eq!(answer["repeated"], true, "{which}: {arguments}");
                    assert_eq!(answer["position"], first["position"], "{which}: {arguments}");
                }
            }
        }
        let found = door.ok("get_research_session", json!({ "sessionId": session })).await;
        assert_eq!(found["stepCount"], 4, "{which}");
        assert_eq!(found["gaps"], json!([]), "{which}: the gap is closed");
        assert_eq!(found["stepIndex"][1]["supersededBy"], 3, "{which}");
        let aside = json!([{"branchId": "aside", "fromStep": 2, "lastStep": 3}]);
        assert_eq!(found["branches"], aside, "{which}");
        assert!(found["summary"].as_str().unwrap().contains("begun"), "{which}: {found}");
    }
    server.stop().await;
}

/// Returns calls that are rejected and their codes, in a session of two steps, one of them also on
/// a branch, and an event called `message`; `gone` names a session that does not exist.
fn rejected_calls() -> Vec<(&'static str, Value, &'static str)> {
    let message =
        |id: &str, content: &str| json!({"type": "user.message", "id": id, "content": content});
    vec![
        ("sequential_search", step(9), "step_conflict"),
        ("sequential_search", with(step(2), json!({"searchStep": "other"})), "step_conflict"),
        (
            "sequential_search",
            with(step(2), json!({"branchId": "a", "branchFromStep": 1, "searchStep": "other"})),
            "step_conflict",
        ),
        ("sequential_search", with(step(8), json!({"branchId": "b"})), "step_conflict"),
        ("sequential_search", with(step(7), json!({"sessionId": "gone"})), "session_not_found"),
        ("get_research_session", json!({"sessionId": "gone"}), "session_not_found"),
        ("get_events", json!({"sessionId": "gone"}), "session_not_found"),
        (
            "add_sources",
            json!({"sessionId": "gone", "sources": [{"url": "https://a.org"}]}),
            "session_not_found",
        ),
        (
            "emit_event",
            json!({"sessionId": "gone", "event": message("m", "x")}),
            "session_not_found",
        ),
        ("get_research_session", json!({"stepId": 99}), "step_not_found"),
        ("get_research_session", json!({"stepId": 1, "branchId": "z"}), "step_not_found"),
        ("get_research_session", json!({"at": "step:77"}), "point_not_found"),
        ("get_events", json!({"from": "event:none"}), "point_not_found"),
        ("get_research_session", json!({"cursor": "nonsense"}), "invalid_request"),
        ("get_research_session", json!({"cursor": "step:70:0"}), "invalid_request"),
        ("list_sessions", json!({"cursor": "nonsense"}), "invalid_request"),
        ("emit_event", json!({"event": message("n", "x"), "ifPosition": 1}), "position_conflict"),
        ("emit_event", json!({"event": message("n", "x"), "ifPosition": 99}), "position_conflict"),
        ("emit_event", json!({"event": message("message", "other")}), "idempotency_conflict"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_suggested_by_an_error_works_through_each_interface() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    for which in DOORS {
        for (tool, arguments, kind) in rejected_calls() {
            desk.clock.advance(Duration::from_millis(1));
            let mut door = Door::open(which, &server).await;
            let case = format!("{which}: {tool} {arguments}");
            let first = with(step(1), json!({ "searchStep": case }));
            let session = door.ok("sequential_search", first).await["sessionId"].clone();
            let aside = json!({"branchId": "a", "branchFromStep": 1});
            door.ok("sequential_search", step(2)).await;
            door.ok("sequential_search", with(step(2), aside)).await;
            let event = json!({"type": "user.message", "id": "message", "content": "hi"});
            door.ok("emit_event", json!({ "event": event })).await;

            let error = door.call(tool, &arguments).await.expect_err(&case);
            assert_eq!(error["kind"], kind, "{case}: {error}");
            let (next, with_arguments) =
                next_call(&arguments, &error).unwrap_or_else(|| panic!("{case}: {error}"));
            let answer = door.ok(&next, with_arguments).await;
            if let Some(found) = answer.get("sessionId") {
                assert_eq!(*found, session, "{case}: it leads to the session it came from");
            }
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_lead_a_caller_without_a_session_to_one_through_each_interface() {
    for which in DOORS {
        let desk = Desk::new();
        let server = Server::start(&desk).await;
        let mut door = Door::open(which, &server).await;
        let arguments = step(2);
        let error = door.call("sequential_search", &arguments).await.unwrap_err();
        assert_eq!(error["kind"], "session_required", "{which}");
        let (tool, next) = next_call(&arguments, &error).unwrap();
        assert_eq!(next, with(step(2), json!({"stepNumber": 1})), "{which}: a session starts at 1");
        let started = door.ok(&tool, next).await;

        for (tool, arguments) in [
            ("sequential_search", step(2)),
            ("get_research_session", json!({})),
            ("get_events", json!({})),
        ] {
            let mut other = Door::open(which, &server).await;
            let error = other.call(tool, &arguments).await.unwrap_err();
            assert_eq!(error["kind"], "session_required", "{which}: {tool}");
            let (tool, next) = next_call(&arguments, &error).unwrap();
            let found = other.ok(&tool, next).await;
            assert_eq!(found["sessions"][0]["sessionId"], started["sessionId"], "{which}");
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_suggested_for_a_full_session_starts_another_one() {
    let options = ResearchOptions { steps_max: 1, ..ResearchOptions::default() };
    let desk = Desk::new().bounded(options);
    let server = Server::start(&desk).await;
    for which in DOORS {
        let mut door = Door::open(which, &server).await;
        let first = with(step(1), json!({"searchStep": which}));
        let full = door.ok("sequential_search", first).await;
        let error = door.call("sequential_search", &step(2)).await.unwrap_err();
        assert_eq!(error["kind"], "limit_reached", "{which}");
        let (tool, next) = next_call(&step(2), &error).unwrap();
        let left = door.ok(&tool, next).await;
        assert_eq!(left["clearedSessionId"], full["sessionId"], "{which}");
        let fresh = with(step(1), json!({"searchStep": format!("{which} again")}));
        let fresh = door.ok("sequential_search", fresh).await;
        assert_ne!(fresh["sessionId"], full["sessionId"], "{which}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_of_a_tool_match_its_effects() {
    let desk = Desk::new();
    let server = Server::start(&desk).await;
    let mut speaker = Speaker::new(&server, PATH);
    speaker.initialize("2025-11-25").await;
    let listed = speaker.ask("tools/list", json!({})).await;
    let mut door = Door::Connected(speaker);
    door.ok("sequential_search", step(1)).await;
    let sessions = door.ok("list_sessions", json!({})).await["sessions"].clone();
    let session = json!({"sessionId": sessions[0]["sessionId"]});
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let arguments = match name {
            "sequential_search" => step(2),
            "add_sources" => json!({"sources": [{"url": "https://a.org"}]}),
            "emit_event" => json!({"event": {"type": "user.message", "content": "hi"}}),
            "fork_session" => json!({"at": "end"}),
            "find_file_changes" => json!({"file": "/w/a.rs"}),
            "memory_search" => json!({"query": "wall"}),
            "memory_insert" => json!({"text": "It is high", "kind": "semantic"}),
            "memory_page" => json!({"direction": "out"}),
            "save_skill" => json!({"name": "n", "description": "d", "body": "b"}),
            "save_session" => json!({"workspaceId": "w", "conversationContext": "c"}),
            "restore_session" => json!({"workspaceId": "w"}),
            // It writes to no session.
            "move_workspace" => continue,
            "delete_session" => {
                assert_eq!(tool["annotations"]["destructiveHint"], true, "{tool}");
                continue;
            }
            _ => json!({}),
        };
        let mut counts = Vec::new();
        for _ in 0..3 {
            let tail = door.ok("get_events", session.clone()).await["tail"].clone();
            let history = door.ok("review_history", json!({})).await;
            let sessions = door.ok("list_sessions", json!({})).await["sessions"].clone();
            let count = json!(sessions.as_array().map(Vec::len));
            counts.push([tail, history["startFrom"]["checkpoint"]["id"].clone(), count]);
            door.ok(name, arguments.clone()).await;
        }
        let hints = &tool["annotations"];
        let (read_only, idempotent) = (&hints["readOnlyHint"], &hints["idempotentHint"]);
        let writes = counts[0] != counts[1];
        let writes_again = counts[1] != counts[2];
        // Resuming at the last checkpoint writes nothing, at an earlier one it does.
        let aside = name == "resume";
        assert_eq!(*read_only, !writes && !aside, "{name}: {counts:?}");
        // A lease taken over twice has two tokens.
        let again = writes_again || name == "resume";
        assert_eq!(*idempotent, !again, "{name}: {counts:?}");
        assert_eq!(hints["destructiveHint"], false, "{name}: the log keeps everything");
        door.ok("get_research_session", session.clone()).await;
    }
    server.stop().await;
}
