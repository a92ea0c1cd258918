//! How far the work of a session is, beside its research: the task, the plan, what was tried with
//! what outcome, what comes next, and the latest results of tools. It must not dress anything.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    body,
    conversation::words,
    text::{clip, one_line},
};
use crate::event::{Event, Position};

/// Characters kept of the task and of the newest word of a person.
const TASK_CHARS_MAX: usize = 8_000;
/// Latest results kept, and characters of each.
const RESULTS_MAX: usize = 3;
const RESULT_CHARS_MAX: usize = 4_000;
/// Calls remembered until their result comes, and characters of one.
const CALLS_MAX: usize = 64;
const CALL_CHARS_MAX: usize = 300;
/// Lines kept of a list, newest, and characters of a line.
const LINES_MAX: usize = 50;
const LINE_CHARS_MAX: usize = 400;
/// Steps of a plan that are kept.
const PLAN_MAX: usize = 200;

/// Something a person said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where.
    pub position: Position,
    /// The words.
    pub text: String,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// What is to be done.
    pub text: String,
    /// How far it is, in the harness's word; empty when it does not say.
    pub state: String,
}

impl PlanStep {
    /// Whether nothing is left to do of it.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(&*self.state, "done" | "completed" | "complete" | "finished" | "success")
    }
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Where it was recorded last.
    pub position: Position,
    /// Its steps.
    pub steps: Vec<PlanStep>,
    /// The one that is under way, as the harness names it.
    pub current: Option<String>,
}

/// What a call of a tool gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where the result is.
    pub position: Position,
    /// The tool.
    pub tool: String,
    /// What it was asked, in a line.
    pub input: String,
    /// What it answered, shortened.
    pub text: String,
    /// Whether it called that an error.
    pub is_error: bool,
}

/// How far the work is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    task: Option<Word>,
    latest_word: Option<Word>,
    plan: Option<Plan>,
    outputs: VecDeque<Output>,
    calls: VecDeque<(String, String, String)>,
    tried: VecDeque<String>,
    worked: VecDeque<String>,
    failed: VecDeque<String>,
    next: VecDeque<String>,
    outcome_at: Option<Position>,
}

/// The members of calls and results under each of their names.
#[derive(Deserialize)]
struct ToolBody<'a> {
    call_id: Option<String>,
    tool_use_id: Option<String>,
    mcp_tool_use_id: Option<String>,
    custom_tool_use_id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct SaidBody<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PlanBody {
    #[serde(default)]
    steps: Vec<Value>,
    current: Option<Value>,
}

#[derive(Deserialize)]
struct OutcomeBody {
    tried: Option<Value>,
    worked: Option<Value>,
    failed: Option<Value>,
    next: Option<Value>,
}

impl Progress {
    /// The first thing a person said.
    #[must_use]
    pub fn task(&self) -> Option<&Word> {
        self.task.as_ref()
    }

    /// The latest thing a person said, when that is another.
    #[must_use]
    pub fn latest_word(&self) -> Option<&Word> {
        self.latest_word.as_ref()
    }

    /// The plan as it stands.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The latest results of tools, oldest first.
    pub fn outputs(&self) -> impl DoubleEndedIterator<Item = &Output> {
        self.outputs.iter()
    }

    /// What was tried, oldest first.
    pub fn tried(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.tried.iter()
    }

    /// What worked, oldest first.
    pub fn worked(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.worked.iter()
    }

    /// What failed, oldest first.
    pub fn failed(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.failed.iter()
    }

    /// What is to be done next, by the latest outcome.
    pub fn next(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.next.iter()
    }

    /// Where an outcome was recorded last.
    #[must_use]
    pub fn outcome_at(&self) -> Option<Position> {
        self.outcome_at
    }

    pub(super) fn fold(&mut self, event: &Event) {
        // A body that does not fit says nothing.
        let _ = match event.kind.as_str() {
            "user.message" => self.fold_word(event),
            "plan.updated" => self.fold_plan(event),
            "outcome.recorded" => self.fold_outcome(event),
            kind if body::is_call(kind) => self.fold_call(event),
            kind if body::is_result(kind) => self.fold_result(event),
            _ => None,
        };
    }

    fn fold_word(&mut self, event: &Event) -> Option<()> {
        let said: SaidBody<'_> = body::read(&event.body)?;
        let text = clip(words(said.content?).trim(), TASK_CHARS_MAX);
        if text.is_empty() {
            return None;
        }
        let word = Word { position: event.position, text };
        match &self.task {
            None => self.task = Some(word),
            Some(_) => self.latest_word = Some(word),
        }
        Some(())
    }

    fn fold_plan(&mut self, event: &Event) -> Option<()> {
        let plan: PlanBody = body::read(&event.body)?;
        let current = plan.current.as_ref().and_then(|current| match current {
            Value::String(name) => Some(one_line(name, LINE_CHARS_MAX)),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        let steps = plan.steps.iter().take(PLAN_MAX).filter_map(plan_step).collect();
        self.plan = Some(Plan { position: event.position, steps, current });
        Some(())
    }

    fn fold_outcome(&mut self, event: &Event) -> Option<()> {
        let outcome: OutcomeBody = body::read(&event.body)?;
        for (lines, said) in [
            (&mut self.tried, outcome.tried),
            (&mut self.worked, outcome.worked),
            (&mut self.failed, outcome.failed),
        ] {
            for line in said.iter().flat_map(lines_of) {
                // Said again it is the latest.
                lines.retain(|known| *known != line);
                lines.push_back(line);
                if lines.len() > LINES_MAX {
                    lines.pop_front();
                }
            }
        }
        if let Some(next) = outcome.next {
            self.next = lines_of(&next).into_iter().take(LINES_MAX).collect();
        }
        self.outcome_at = Some(event.position);
        Some(())
    }

    fn fold_call(&mut self, event: &Event) -> Option<()> {
        let call: ToolBody<'_> = body::read(&event.body)?;
        let name = one_line(&call.name?, 80);
        let input = one_line(call.input.map_or("", RawValue::get), CALL_CHARS_MAX);
        let id = call.call_id.unwrap_or_else(|| event.id.to_string());
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back((id, name, input));
        Some(())
    }

    fn fold_result(&mut self, event: &Event) -> Option<()> {
        let result: ToolBody<'_> = body::read(&event.body)?;
        let id = result
            .call_id
            .or(result.tool_use_id)
            .or(result.mcp_tool_use_id)
            .or(result.custom_tool_use_id)
            .unwrap_or_default();
        let at = self.calls.iter().rposition(|(known, _, _)| *known == id);
        let (_, tool, input) = at.and_then(|at| self.calls.remove(at)).unwrap_or_default();
        if self.outputs.len() == RESULTS_MAX {
            self.outputs.pop_front();
        }
        self.outputs.push_back(Output {
            position: event.position,
            tool: if tool.is_empty() {
                one_line(&result.name.unwrap_or_default(), 80)
            } else {
                tool
            },
            input,
            text: result
                .content
                .map(|text| clip(&words(text), RESULT_CHARS_MAX))
                .unwrap_or_default(),
            is_error: result.is_error.unwrap_or(false),
        });
        Some(())
    }

    pub(super) fn weight(&self) -> usize {
        let word = |word: &Option<Word>| word.as_ref().map_or(0, |word| word.text.len());
        let plan = self.plan.as_ref().map_or(0, |plan| plan.steps.len() * 200);
        let lists = self.tried.len() + self.worked.len() + self.failed.len() + self.next.len();
        let outputs: usize = self.outputs.iter().map(|one| one.text.len() + 500).sum();
        word(&self.task)
            + word(&self.latest_word)
            + plan
            + lists * 200
            + outputs
            + self.calls.len() * 300
    }
}

/// A step as harnesses write it: a text, or an object with a text and a state.
fn plan_step(step: &Value) -> Option<PlanStep> {
    let member = |names: &[&str]| {
        names.iter().find_map(|name| step.get(*name).and_then(Value::as_str)).map(str::to_owned)
    };
    let text = step.as_str().map(str::to_owned);
    let text = text
        .or_else(|| member(&["text", "step", "title", "description", "content", "name", "task"]))?;
    let text = one_line(&text, LINE_CHARS_MAX);
    let state = member(&["state", "status"]).unwrap_or_default();
    (!text.is_empty()).then(|| PlanStep { text, state: one_line(&state, 40) })
}

/// A text, or a list of texts.
fn lines_of(said: &Value) -> Vec<String> {
    let line = |value: &Value| value.as_str().map(|text| one_line(text, LINE_CHARS_MAX));
    let lines: Vec<Option<String>> = match said {
        Value::Array(all) => all.iter().map(line).collect(),
        one => vec![line(one)],
    };
    lines.into_iter().flatten().filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::tests::event;

    fn folded(events: &[(&str, &str)]) -> Progress {
        let mut progress = Progress::default();
        for (position, (kind, body)) in (0..).zip(events) {
            progress.fold(&event(position, kind, *body));
        }
        progress
    }

    #[test]
    fn the_task_is_the_first_word_and_the_latest_is_another() {
        let progress = folded(&[
            ("user.message", r#"{"content":" "}"#),
            ("user.message", r#"{"content":[{"type":"text","text":"mend it"}]}"#),
            ("agent.message", r#"{"content":"yes"}"#),
            ("user.message", r#"{"content":"and paint it"}"#),
        ]);
        let of = |word: Option<&Word>| word.map(|word| (word.position.0, word.text.clone()));
        assert_eq!(of(progress.task()), Some((1, "mend it".to_owned())));
        assert_eq!(of(progress.latest_word()), Some((3, "and paint it".to_owned())));
    }

    #[test]
    fn a_plan_is_read_as_harnesses_write_it() {
        let progress = folded(&[
            ("plan.updated", r#"{"steps":["old"]}"#),
            (
                "plan.updated",
                r#"{"steps":["a",{"title":"b","status":"completed"},{"step":"c","state":"todo"},7],
                "current":2}"#,
            ),
        ]);
        let plan = progress.plan().expect("a plan");
        let steps: Vec<_> =
            plan.steps.iter().map(|step| (&*step.text, &*step.state, step.is_done())).collect();
        assert_eq!(steps, [("a", "", false), ("b", "completed", true), ("c", "todo", false)]);
        assert_eq!((plan.current.as_deref(), plan.position), (Some("2"), Position(1)));
    }

    #[test]
    fn outcomes_add_up_and_the_latest_says_what_is_next() {
        let progress = folded(&[
            ("outcome.recorded", r#"{"tried":"a","failed":["a","b"],"next":"c"}"#),
            ("outcome.recorded", r#"{"tried":["c","a"],"worked":"c","next":["d","e"]}"#),
            ("outcome.recorded", r#"{"tried":[7,""]}"#),
        ]);
        let all = |lines: Vec<&String>| lines.into_iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(all(progress.tried().collect()), "c a");
        assert_eq!(all(progress.worked().collect()), "c");
        assert_eq!(all(progress.failed().collect()), "a b");
        assert_eq!(all(progress.next().collect()), "d e");
        assert_eq!(progress.outcome_at(), Some(Position(2)));
    }

    #[test]
    fn the_last_three_results_stay_with_what_was_asked() {
        let mut events = Vec::new();
        for n in 0..5 {
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
        let progress = folded(&events);
        let outputs: Vec<_> = progress.outputs().map(|one| (&*one.tool, &*one.input)).collect();
        assert_eq!(outputs, [("f3", "[3]"), ("f4", "[4]"), ("", "")]);
        let first = progress.outputs().next().expect("one");
        assert!(first.is_error && first.text.chars().count() == RESULT_CHARS_MAX);
    }
}
