//! Subagents of a session.

use crate::event;
use sessionlog::{
    api::views::SubagentOut,
    event::{Position, kinds},
    projection::Facts,
};

fn fold_events(events: &[(&str, &str)]) -> Vec<SubagentOut> {
    let mut facts = Facts::default();
    for (position, (kind, body)) in (0..).zip(events) {
        facts.fold(&event(position, kind, *body));
    }
    facts.threads.list()
}

const START: &str = r#"{"session_thread_id":"a1","agent_name":"Explore"}"#;
const AGENT: &str = r#"{"call_id":"t1","name":"Agent","input":{"subagent_type":"Explore",
    "description":"Find the lock","prompt":"Where is the lock?"}}"#;

#[test]
fn a_subagent_has_the_call_that_started_it_and_its_own_calls_and_failures() {
    let inner =
        r#"{"call_id":"t2","name":"Read","input":{"file_path":"a.rs"},"session_thread_id":"a1"}"#;
    let failed = r#"{"call_id":"t2","content":"no","is_error":true,"session_thread_id":"a1"}"#;
    let answer = r#"{"call_id":"t1","content":"It is in lock.rs\nagentId: a1 (for resuming)"}"#;
    let events = [
        (kinds::AGENT_TOOL_USE, AGENT),
        (kinds::SESSION_THREAD_STATUS_RUNNING, START),
        (kinds::AGENT_TOOL_USE, inner),
        (kinds::AGENT_TOOL_RESULT, failed),
        (kinds::SESSION_THREAD_STATUS_IDLE, START),
        (kinds::AGENT_TOOL_RESULT, answer),
        (kinds::AGENT_MESSAGE, r#"{"content":"Done"}"#),
    ];
    let found = fold_events(&events);
    let expected = SubagentOut {
        thread: "a1".to_owned(),
        call: Some(Position(0)),
        kind: Some("Explore".to_owned()),
        description: Some("Find the lock".to_owned()),
        depth: 1,
        calls: 1,
        failures: 1,
        from: Position(1),
        to: Position(5),
        ..SubagentOut::default()
    };
    assert_eq!(found, [expected]);
    let running = fold_events(events.get(..3).expect("events"));
    let [one] = &*running else { panic!("{running:?}") };
    assert!(one.is_running && one.call == Some(Position(0)), "{one:?}");
}

#[test]
fn of_two_open_calls_the_result_that_names_a_subagent_is_its_call_and_the_caller_its_parent() {
    let second = AGENT
        .replace("t1", "t5")
        .replace("Find the lock", "Find the key")
        .replace("\"input\"", "\"session_thread_id\":\"a1\",\"input\"");
    let inner = START.replace("a1", "b2");
    let answer = r#"{"call_id":"t5","content":[{"type":"text","text":"agentId: b2"}],
        "session_thread_id":"a1"}"#;
    let found = fold_events(&[
        (kinds::AGENT_TOOL_USE, AGENT),
        (kinds::AGENT_TOOL_USE, &second),
        (kinds::SESSION_THREAD_STATUS_RUNNING, &inner),
        (kinds::AGENT_TOOL_RESULT, answer),
    ]);
    let two = found.iter().find(|one| one.thread == "b2").expect("a subagent");
    assert_eq!((two.call, two.parent.as_deref(), two.depth), (Some(Position(1)), Some("a1"), 2));
    assert_eq!(two.description.as_deref(), Some("Find the key"));
}

#[test]
fn parents_in_a_circle_and_members_of_a_wrong_type_make_no_endless_walk() {
    let call = |id: &str, thread: &str| {
        AGENT
            .replace("t1", id)
            .replace("\"input\"", &format!("\"session_thread_id\":\"{thread}\",\"input\""))
    };
    let answer =
        |id: &str, agent: &str| format!(r#"{{"call_id":"{id}","content":"agentId: {agent}"}}"#);
    let events = [
        (kinds::AGENT_TOOL_USE, call("t1", "a")),
        (kinds::AGENT_TOOL_USE, call("t2", "b")),
        (kinds::AGENT_TOOL_RESULT, answer("t1", "b")),
        (kinds::AGENT_TOOL_RESULT, answer("t2", "a")),
        (kinds::AGENT_MESSAGE, r#"{"session_thread_id":{"a":1},"content":"x"}"#.to_owned()),
    ];
    let events: Vec<(&str, &str)> = events.iter().map(|(kind, body)| (*kind, &**body)).collect();
    let found = fold_events(&events);
    let names: Vec<&str> = found.iter().map(|one| one.thread.as_str()).collect();
    assert_eq!(names, ["a", "b", r#"{"a":1}"#]);
    assert!(found.iter().take(2).all(|one| one.depth <= 3 && one.parent.is_some()), "{found:?}");
}

#[test]
fn a_result_that_names_a_subagent_before_its_first_event_links_its_call() {
    let second = AGENT.replace("t1", "t5").replace("Find the lock", "Find the key");
    let answer =
        |id: &str, agent: &str| format!(r#"{{"call_id":"{id}","content":"agentId: {agent}"}}"#);
    let (first, last) = (answer("t1", "a1"), answer("t5", "b2"));
    let said = |agent: &str| format!(r#"{{"session_thread_id":"{agent}","content":"Look"}}"#);
    let found = fold_events(&[
        (kinds::AGENT_TOOL_USE, AGENT),
        (kinds::AGENT_TOOL_USE, &second),
        (kinds::AGENT_TOOL_RESULT, &first),
        (kinds::AGENT_TOOL_RESULT, &last),
        (kinds::AGENT_THREAD_MESSAGE_SENT, &said("b2")),
        (kinds::AGENT_THREAD_MESSAGE_SENT, &said("a1")),
    ]);
    let calls: Vec<_> = found.iter().map(|one| (one.thread.as_str(), one.call)).collect();
    assert_eq!(calls, [("b2", Some(Position(1))), ("a1", Some(Position(0)))]);
}

#[test]
fn parallel_subagents_are_those_of_the_calls_with_their_prompts_or_whose_results_name_them() {
    let second = AGENT.replace("t1", "t5").replace("Find the lock", "Find the key");
    let other = second.replace("Where is the lock", "Where is the key");
    let said = |agent: &str, prompt: &str| {
        format!(r#"{{"session_thread_id":"{agent}","content":"Where is the {prompt}?"}}"#)
    };
    let answer = |id: &str, agent: &str| {
        format!(r#"{{"call_id":"{id}","content":"Found.","agent_id":"{agent}"}}"#)
    };
    let calls_of = |second: &str, answers: &[String]| {
        let said = [said("b2", "key"), said("a1", "lock")];
        let mut events = vec![(kinds::AGENT_TOOL_USE, AGENT), (kinds::AGENT_TOOL_USE, second)];
        events.extend(said.iter().map(|said| (kinds::AGENT_THREAD_MESSAGE_SENT, said.as_str())));
        events.extend(answers.iter().map(|one| (kinds::AGENT_TOOL_RESULT, one.as_str())));
        let found = fold_events(&events);
        found.into_iter().map(|one| one.call.map(|at| at.0)).collect::<Vec<_>>()
    };
    assert_eq!(calls_of(&other, &[]), [Some(1), Some(0)]);
    // Two calls have one prompt: only their results tell which is which.
    assert_eq!(calls_of(&second, &[]), [None, None]);
    let answers = [answer("t1", "a1"), answer("t5", "b2")];
    assert_eq!(calls_of(&second, &answers), [Some(1), Some(0)]);
}
