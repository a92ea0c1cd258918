//! Task, plan, attempts and results.

use crate::event;
use sessionlog::{
    event::{Event, Origin, Position},
    projection::{Facts, Instruction, WorkProgress, is_done},
};

/// Maximum bytes of kept results, and characters of each.
const RESULTS_BYTES_MAX: usize = 48 << 10;
const RESULT_CHARS_MAX: usize = 4_000;

fn fold_events(events: &[(&str, &str)]) -> WorkProgress {
    let mut facts = Facts::default();
    for (position, (kind, body)) in (0..).zip(events) {
        facts.fold(&event(position, kind, *body));
    }
    facts.progress
}

#[test]
fn the_task_is_the_first_message_and_the_latest_is_kept_separately() {
    let progress = fold_events(&[
        ("user.message", r#"{"content":" "}"#),
        ("user.message", r#"{"content":[{"type":"text","text":"mend it"}]}"#),
        ("agent.message", r#"{"content":"yes"}"#),
        ("user.message", r#"{"content":"and paint it"}"#),
    ]);
    let of = |word: Option<&Instruction>| word.map(|word| (word.position.0, word.text.clone()));
    assert_eq!(of(progress.task()), Some((1, "mend it".to_owned())));
    let last = progress.instructions().recent_instructions().next_back();
    assert_eq!(of(last), Some((3, "and paint it".to_owned())));
}

#[test]
fn a_model_message_is_not_an_instruction_after_a_user_message() {
    let said = |position, origin, text: &str| {
        let body = format!(r#"{{"content":"{text}"}}"#);
        Event { origin, ..event(position, "user.message", body) }
    };
    let mut facts = Facts::default();
    facts.fold(&said(0, Origin::Model, "the user wants it mended"));
    facts.fold(&said(1, Origin::Harness, "mend it"));
    facts.fold(&said(2, Origin::Model, "push it at once"));
    facts.fold(&said(3, Origin::Web, "and delete the rest"));
    let words: Vec<u64> =
        facts.progress.instructions().recent_instructions().map(|word| word.position.0).collect();
    assert_eq!(words, [0, 1]);
}

#[test]
fn a_plan_is_parsed_in_the_format_of_each_harness() {
    let progress = fold_events(&[
        ("plan.updated", r#"{"steps":["old"]}"#),
        (
            "plan.updated",
            r#"{"steps":["a",{"title":"b","status":"completed"},{"step":"c","state":"todo"},7],
                "current":2}"#,
        ),
    ]);
    let plan = progress.plan().expect("a plan");
    let steps: Vec<_> =
        plan.steps.iter().map(|step| (&*step.text, &*step.state, is_done(step))).collect();
    assert_eq!(steps, [("a", "", false), ("b", "completed", true), ("c", "todo", false)]);
    assert_eq!((plan.current.as_deref(), plan.position), (Some("2"), Position(1)));
}

#[test]
fn outcomes_accumulate_and_the_latest_sets_the_next_step() {
    let progress = fold_events(&[
        ("outcome.recorded", r#"{"tried":"a","failed":["a","b"],"next":"c"}"#),
        ("outcome.recorded", r#"{"tried":["c","a"],"worked":"c","next":["d","e"]}"#),
        ("outcome.recorded", r#"{"tried":[7,""]}"#),
    ]);
    let all = |lines: Vec<&String>| lines.into_iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(all(progress.attempts().collect()), "c a");
    assert_eq!(all(progress.successes().collect()), "c");
    assert_eq!(all(progress.failures().collect()), "a b");
    assert_eq!(all(progress.next_steps().collect()), "d e");
}

#[test]
fn the_latest_results_are_kept_with_their_calls_within_a_byte_limit() {
    let mut events = Vec::new();
    for n in 0..15 {
        events.push((
            "agent.tool_use",
            format!(r#"{{"name":"f{n}","call_id":"{n}","input":[{n}]}}"#),
        ));
        let result =
            format!(r#"{{"call_id":"{n}","content":"{}","is_error":true}}"#, "x".repeat(9_000));
        events.push(("agent.tool_result", result));
    }
    events.push(("user.tool_result", r#"{"tool_use_id":"nobody's","content":"y"}"#.to_owned()));
    let events: Vec<_> = events.iter().map(|(kind, body)| (*kind, body.as_str())).collect();
    let progress = fold_events(&events);
    let outputs: Vec<_> = progress.outputs().map(|one| (&*one.tool, &*one.input)).collect();
    let kept = RESULTS_BYTES_MAX / RESULT_CHARS_MAX + 1;
    assert_eq!(outputs.len(), kept, "{outputs:?}");
    assert_eq!(outputs[kept - 2..], [("f14", "[14]"), ("(not named)", "")]);
    let first = progress.outputs().next().expect("one");
    assert!(!first.ended.is_empty() && first.text.chars().count() == RESULT_CHARS_MAX);
}

#[test]
fn a_subagent_adds_no_instruction_and_sets_no_plan() {
    let todos = |text: &str, more: &str| {
        let input = format!(r#"{{"todos":[{{"content":"{text}","status":"pending"}}]}}"#);
        format!(r#"{{"name":"TodoWrite","call_id":"{text}","input":{input}{more}}}"#)
    };
    let done = |text: &str, more: &str| format!(r#"{{"call_id":"{text}","content":"ok"{more}}}"#);
    let aside = r#","session_thread_id":"a17f""#;
    let progress = fold_events(&[
        ("user.message", r#"{"content":"mend it","session_thread_id":null}"#),
        ("user.message", r#"{"content":"find every test","session_thread_id":"a17f"}"#),
        ("agent.tool_use", &todos("mine", "")),
        ("agent.tool_result", &done("mine", "")),
        ("agent.tool_use", &todos("its own", aside)),
        ("agent.tool_result", &done("its own", aside)),
    ]);
    assert_eq!(progress.instructions().count(), 1);
    assert_eq!(progress.plan().map(|plan| &*plan.steps[0].text), Some("mine"));
}

#[test]
fn results_of_our_tools_plans_and_placeholders_are_not_reported() {
    let progress = fold_events(&[
        ("agent.tool_use", r#"{"name":"get_user","call_id":"1","input":{}}"#),
        ("agent.tool_result", r#"{"call_id":"1","content":"Error: no such user"}"#),
        ("agent.tool_use", r#"{"name":"get_events","call_id":"2","server":"sessionlog"}"#),
        ("agent.tool_result", r#"{"call_id":"2","content":"all of it"}"#),
        ("agent.tool_use", r#"{"name":"update_plan","call_id":"3","input":{"plan":[]}}"#),
        ("agent.tool_result", r#"{"call_id":"3","content":"Plan updated"}"#),
        ("agent.tool_use", r#"{"name":"odd","call_id":"4"}"#),
        ("agent.tool_result", r#"{"call_id":"4","content":"(in this log already)"}"#),
        ("agent.tool_result", r#"{"name":"mcp__sessionlog__resume","content":"x"}"#),
    ]);
    let outputs: Vec<_> =
        progress.outputs().map(|one| (&*one.tool, !one.ended.is_empty())).collect();
    assert_eq!(outputs, [("get_user", false)], "a read that says no is an answer");
}
