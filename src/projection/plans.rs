//! Plan of a session: as harnesses record it (`plan.updated`), and as agents keep it with tools
//! (`TodoWrite`, `TaskCreate`, `TaskUpdate`, `update_plan`). It must not change the text of a step
//! except to shorten it.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::body;
use crate::{
    api::views::PlanStepOut,
    event::{Event, Position, json, text::one_line},
    traces::{
        parse_string,
        tools::{self, Members, read_first},
    },
};

/// Most steps of a plan kept.
const PLAN_MAX: usize = 200;
/// Most characters kept of a step.
const LINE_CHARS_MAX: usize = 400;
/// Prefix of the id of a step from an earlier session; no harness has such an id.
const EARLIER: &str = "earlier session's ";
/// Names of the member that contains the steps.
const LISTS: [&str; 7] = ["todos", "plan", "todoList", "todo_list", "steps", "items", "tasks"];

/// Returns true if a step is finished.
#[must_use]
pub fn is_done(step: &PlanStepOut) -> bool {
    matches!(&*step.state, "done" | "completed" | "complete" | "finished" | "success")
}

/// Returns true if a step is in progress.
#[must_use]
pub fn is_in_progress(step: &PlanStepOut) -> bool {
    matches!(&*step.state, "in_progress" | "in-progress" | "doing" | "active" | "running")
}

/// Plan of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPlan {
    /// Position of the last update.
    pub position: Position,
    /// Steps in order.
    pub steps: Vec<PlanStepOut>,
    /// Step in progress, as the harness names it.
    pub current: Option<String>,
}

/// Latest plan, and the ids of its steps if they have any.
#[derive(Clone, Debug, Default)]
pub(super) struct Plans {
    plan: Option<AgentPlan>,
    ids: Vec<String>,
}

#[derive(Deserialize)]
struct PlanBody {
    #[serde(default)]
    steps: Vec<Value>,
    current: Option<Value>,
}

impl Plans {
    pub(super) fn plan(&self) -> Option<&AgentPlan> {
        self.plan.as_ref()
    }

    /// Folds a plan that a harness recorded.
    pub(super) fn fold(&mut self, event: &Event) -> Option<()> {
        let plan: PlanBody = body::read_tree(&event.body)?;
        let current = plan.current.as_ref().and_then(parse_name);
        let steps = plan.steps.iter().take(PLAN_MAX).filter_map(parse_step).collect();
        self.plan = Some(AgentPlan { position: event.position, steps, current });
        self.ids.clear();
        Some(())
    }

    /// Folds a call of a tool that keeps a plan, once it succeeded.
    pub(super) fn fold_call(&mut self, position: Position, tool: &str, input: &str) -> Option<()> {
        let members = tools::parse_object(input)?;
        if tool.eq_ignore_ascii_case("TaskUpdate") {
            return self.update_task(position, &members);
        }
        let parse_list = |list: &RawValue| serde_json::from_str(json::check(list.get())?).ok();
        let listed: Vec<Value> = read_first(&members, &LISTS, parse_list)?;
        let merges = members.get("merge").is_some_and(|merges| merges.get() == "true");
        if !merges {
            self.plan = None;
            self.ids.clear();
        }
        for value in listed.iter().take(PLAN_MAX) {
            let id = value.get("id").and_then(parse_name).unwrap_or_default();
            let state = value.get("status").and_then(Value::as_str);
            match parse_step(value) {
                Some(step) => self.put_step(&id, step),
                None => self.set_state(&id, state.unwrap_or_default()),
            }
        }
        self.set_current(position);
        Some(())
    }

    /// Folds the result of `TaskCreate`, which contains the id.
    pub(super) fn fold_created_task(
        &mut self,
        position: Position,
        input: &str,
        answer: &str,
    ) -> Option<()> {
        let subject = parse_string(tools::parse_object(input)?.get("subject")?)?;
        let text = one_line(&subject, LINE_CHARS_MAX);
        // Formats: `Task #3 created successfully: …`, or `{"task":{"id":"3",…}}`.
        let after = answer.split_once('#').or_else(|| answer.split_once("\"id\":"));
        let id = after.map(|(_, rest)| rest.trim_start_matches(['"', ' ']));
        let id = id.map(|id| id.chars().take_while(char::is_ascii_digit).collect::<String>());
        let last = self.ids.iter().filter_map(|id| id.parse::<u64>().ok()).max();
        let next = || last.unwrap_or(0).saturating_add(1).to_string();
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(next);
        if self.ids.iter().all(String::is_empty) {
            // The current plan was not made with `TaskCreate`.
            self.plan = None;
            self.ids.clear();
        }
        self.put_step(&id, PlanStepOut { text, state: "pending".to_owned() });
        self.set_current(position);
        Some(())
    }

    fn update_task(&mut self, position: Position, task: &Members<'_>) -> Option<()> {
        let parse_id =
            |id: &RawValue| parse_name(&serde_json::from_str(json::check(id.get())?).ok()?);
        let id = read_first(task, &["taskId", "task_id", "id"], parse_id)?;
        let (subject, status) = (
            read_first(task, &["subject"], parse_string),
            read_first(task, &["status"], parse_string),
        );
        let own = self.ids.iter().position(|known| *known == id);
        // A list that the agent keeps across sessions, to which this session added nothing.
        let is_kept = self.ids.iter().all(|id| id.is_empty() || id.starts_with(EARLIER));
        let kept = || self.ids.iter().position(|known| known.strip_prefix(EARLIER) == Some(&*id));
        let at = own.or_else(|| if is_kept { kept() } else { None })?;
        let plan = self.plan.as_mut()?;
        if status.as_deref() == Some("deleted") {
            plan.steps.remove(at);
            self.ids.remove(at);
        } else {
            let step = plan.steps.get_mut(at)?;
            if let Some(subject) = subject {
                step.text = one_line(&subject, LINE_CHARS_MAX);
            }
            if let Some(status) = status {
                step.state = one_line(&status, 40);
            }
        }
        self.set_current(position);
        Some(())
    }

    /// Separates the ids so far from those of the session that begins: each counts from 1.
    pub(super) fn begin_session(&mut self) {
        for id in self.ids.iter_mut().filter(|id| !id.is_empty() && !id.starts_with(EARLIER)) {
            id.insert_str(0, EARLIER);
        }
    }

    /// Replaces the step with that id, or the open one with that text from an earlier session, or
    /// appends it.
    fn put_step(&mut self, id: &str, step: PlanStepOut) {
        let plan = self.plan.get_or_insert_default();
        // Steps without ids get empty ones.
        self.ids.resize(plan.steps.len(), String::new());
        let own = self.ids.iter().position(|known| !id.is_empty() && known == id);
        let again = || {
            self.ids.iter().zip(&plan.steps).position(|(known, old)| {
                known.starts_with(EARLIER) && !is_done(old) && old.text == step.text
            })
        };
        let at = own.or_else(again);
        if let Some((known, name)) =
            at.and_then(|at| plan.steps.get_mut(at).zip(self.ids.get_mut(at)))
        {
            *known = step;
            id.clone_into(name);
            return;
        }
        if plan.steps.len() == PLAN_MAX {
            let at = plan.steps.iter().position(is_done).unwrap_or(0);
            plan.steps.remove(at);
            self.ids.remove(at);
        }
        plan.steps.push(step);
        self.ids.push(id.to_owned());
    }

    fn set_state(&mut self, id: &str, state: &str) {
        let at = self.ids.iter().position(|known| !id.is_empty() && known == id);
        let steps = self.plan.as_mut().map(|plan| &mut plan.steps);
        if let Some(step) = at.zip(steps).and_then(|(at, steps)| steps.get_mut(at)) {
            step.state = one_line(state, 40);
        }
    }

    /// Sets the position of the change, and the current step.
    fn set_current(&mut self, position: Position) {
        let plan = self.plan.get_or_insert_default();
        plan.position = position;
        plan.current =
            plan.steps.iter().find(|step| is_in_progress(step)).map(|step| step.text.clone());
    }

    pub(super) fn weight(&self) -> usize {
        let steps = self.plan.iter().flat_map(|plan| &plan.steps);
        steps.map(|step| step.text.len() + step.state.len() + 80).sum()
    }
}

/// Returns a string or a number as a name.
fn parse_name(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(one_line(name, LINE_CHARS_MAX)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Parses a step as harnesses write it: a string, or an object with a text and a state.
fn parse_step(step: &Value) -> Option<PlanStepOut> {
    let member = |names: &[&str]| {
        names.iter().find_map(|name| step.get(*name).and_then(Value::as_str)).map(str::to_owned)
    };
    let text = step.as_str().map(str::to_owned);
    let text = text.or_else(|| {
        member(&["text", "step", "title", "content", "subject", "description", "name", "task"])
    })?;
    let text = one_line(&text, LINE_CHARS_MAX);
    let state = member(&["state", "status"]).unwrap_or_default();
    (!text.is_empty()).then(|| PlanStepOut { text, state: one_line(&state, 40) })
}
