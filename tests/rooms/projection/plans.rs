//! An agent's to-do list, as the plan of a session.

use serde_json::{Value, json};

use crate::event;
use sessionlog::projection::{AgentPlan, Facts};

/// Maximum steps of a plan.
const PLAN_MAX: usize = 200;

/// Folds a call of a tool with this input, and its result.
fn fold_call(facts: &mut Facts, tool: &str, input: &str, result: &str) {
    let input: Value = serde_json::from_str(input).expect("JSON");
    let id = facts.position.0.to_string();
    let call = json!({ "name": tool, "call_id": id, "input": input }).to_string();
    facts.fold(&event(facts.position.0, "agent.tool_use", call));
    let result = json!({ "call_id": id, "content": result }).to_string();
    facts.fold(&event(facts.position.0, "agent.tool_result", result));
}

fn plan(facts: &Facts) -> &AgentPlan {
    facts.progress.plan().expect("a plan")
}

fn plan_lines(facts: &Facts) -> String {
    let plan = plan(facts);
    let steps = plan.steps.iter().map(|step| format!("{}:{}", step.text, step.state));
    let current = plan.current.clone().unwrap_or_default();
    format!("{} now {current}", steps.collect::<Vec<_>>().join(" "))
}

#[test]
fn a_todo_list_of_an_agent_under_any_name_is_the_plan() {
    for (tool, input) in [
        (
            "TodoWrite",
            r#"{"todos":[{"content":"a","status":"completed","activeForm":"Doing a"},
                {"content":"b","status":"in_progress","activeForm":"Doing b"}]}"#,
        ),
        (
            "update_plan",
            r#"{"explanation":"why","plan":[{"step":"a","status":"completed"},
                {"step":"b","status":"in_progress"}]}"#,
        ),
        (
            "manage_todo_list",
            r#"{"todoList":[{"id":1,"title":"a","status":"completed"},
                {"id":2,"title":"b","status":"in_progress"}]}"#,
        ),
    ] {
        let mut facts = Facts::default();
        fold_call(&mut facts, tool, r#"{"todos":[{"content":"old"}]}"#, "done");
        fold_call(&mut facts, tool, input, "done");
        let at = plan(&facts).position;
        assert_eq!(plan_lines(&facts), "a:completed b:in_progress now b", "{tool}");
        fold_call(&mut facts, tool, r#"{"x":1}"#, "done");
        assert_eq!(plan(&facts).position, at, "no list changes nothing");
    }
}

#[test]
fn tasks_are_updated_by_their_ids() {
    let mut facts = Facts::default();
    fold_call(&mut facts, "TodoWrite", r#"{"todos":[{"content":"old"}]}"#, "done");
    let task = |subject: &str| format!(r#"{{"subject":"{subject}","description":"long"}}"#);
    fold_call(&mut facts, "TaskCreate", &task("a"), "Task #4 created successfully: a");
    fold_call(&mut facts, "TaskCreate", &task("b"), r#"{"task":{"id":"5","subject":"b"}}"#);
    fold_call(&mut facts, "TaskCreate", &task("c"), "done");
    assert_eq!(plan_lines(&facts), "a:pending b:pending c:pending now ");
    let mut update = |json: &str| fold_call(&mut facts, "TaskUpdate", json, "done");
    update(r#"{"id":"4","taskId":"4","status":"completed"}"#);
    update(r#"{"taskId":null,"task_id":5,"status":"in_progress","subject":"B"}"#);
    update(r#"{"taskId":"6","status":"deleted"}"#);
    update(r#"{"taskId":"99","status":"completed"}"#);
    assert_eq!(plan_lines(&facts), "a:completed B:in_progress now B");
    for n in 0..300 {
        fold_call(&mut facts, "TaskCreate", &task("x"), &format!("Task #{} created", 100 + n));
    }
    assert_eq!((plan(&facts).steps.len(), &*plan(&facts).steps[0].text), (PLAN_MAX, "x"));
}

#[test]
fn a_merged_list_changes_only_its_named_tasks() {
    let mut facts = Facts::default();
    let list = r#"{"merge":false,"todos":[{"id":"1","content":"a","status":"pending"},
        {"id":"2","content":"b","status":"pending"}]}"#;
    fold_call(&mut facts, "todo_write", list, "done");
    let list = r#"{"merge":true,"todos":[{"id":"1","status":"completed"},
        {"id":"3","content":"c","status":"in_progress"}]}"#;
    fold_call(&mut facts, "todo_write", list, "done");
    assert_eq!(plan_lines(&facts), "a:completed b:pending c:in_progress now c");
}

/// Claude Code counts the tasks of each session from 1.
#[test]
fn the_tasks_of_a_next_session_replace_none_of_the_session_before() {
    let mut facts = Facts::default();
    facts.begin_session("one");
    let create = |facts: &mut Facts, id: u64, text: &str| {
        let input = json!({ "subject": text }).to_string();
        fold_call(facts, "TaskCreate", &input, &format!("Task #{id} created successfully: {text}"));
    };
    create(&mut facts, 1, "moor");
    create(&mut facts, 2, "unload");
    fold_call(&mut facts, "TaskUpdate", r#"{"taskId":"1","status":"completed"}"#, "Updated");
    facts.begin_session("two");
    // The agent may keep its list: nothing else has that id yet.
    fold_call(&mut facts, "TaskUpdate", r#"{"taskId":"2","status":"in_progress"}"#, "Updated");
    assert_eq!(plan_lines(&facts), "moor:completed unload:in_progress now unload");
    create(&mut facts, 1, "paint");
    create(&mut facts, 2, "unload");
    fold_call(&mut facts, "TaskUpdate", r#"{"taskId":"1","status":"completed"}"#, "Updated");
    assert_eq!(plan_lines(&facts), "moor:completed unload:pending paint:completed now ");
}

#[test]
fn a_refused_change_of_a_plan_changes_nothing() {
    let mut facts = Facts::default();
    fold_call(&mut facts, "TaskCreate", r#"{"subject":"moor"}"#, "Task #1 created successfully");
    let missing = r#"{"success":false,"taskId":"1","error":"Task not found"}"#;
    fold_call(&mut facts, "TaskUpdate", r#"{"taskId":"1","status":"completed"}"#, missing);
    let list = r#"{"todos":[{"content":"sail","status":"completed"}]}"#;
    fold_call(
        &mut facts,
        "TodoWrite",
        list,
        "<tool_use_error>InputValidationError</tool_use_error>",
    );
    assert_eq!(plan_lines(&facts), "moor:pending now ");
}
