//! The progress of a session's work besides its research: the task, the plan, attempts with their
//! outcome, next steps, and the latest results of tools. It must not format anything.

use std::collections::VecDeque;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use super::{
    asked, body,
    calls::{Answer, Call, ToolEvent},
    conversation::{keep_newest, words},
    instructions::{Instructions, Word},
    person,
    plans::{Plan, Plans},
    text::{clip, one_line},
    tools::Does,
};
use crate::event::{Event, Origin, Position, kinds};

/// Latest results kept, their bytes together, and characters of each.
const RESULTS_MAX: usize = 64;
const RESULTS_BYTES_MAX: usize = 48 << 10;
const RESULT_CHARS_MAX: usize = 4_000;
/// Lines kept of a list, newest, and characters of a line.
const LINES_MAX: usize = 50;
const LINE_CHARS_MAX: usize = 400;

/// What a call of a tool gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where the result is.
    pub position: Position,
    /// The tool.
    pub tool: String,
    /// Its input, in a line.
    pub input: String,
    /// Its text, shortened.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// The files that it shows, relative to the session's directory when below it.
    pub reads: Box<[Box<str>]>,
}

/// How far the work is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    instructions: Instructions,
    /// Whether a client that is no model recorded a message of a person: from then on a model does
    /// not speak for its user.
    has_heard: bool,
    plans: Plans,
    outputs: VecDeque<Output>,
    tried: VecDeque<String>,
    worked: VecDeque<String>,
    failed: VecDeque<String>,
    next: VecDeque<String>,
    outcome_at: Option<Position>,
    /// Lines of attempts, of what worked and of what failed that found no room.
    forgotten: [u64; 3],
}

#[derive(Deserialize)]
struct SaidBody<'a> {
    session_thread_id: Option<IgnoredAny>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// A subagent that stopped.
#[derive(Deserialize)]
struct EndedBody<'a> {
    agent_name: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OutcomeBody {
    tried: Option<Value>,
    worked: Option<Value>,
    failed: Option<Value>,
    next: Option<Value>,
}

impl Progress {
    /// The requests of persons.
    #[must_use]
    pub fn instructions(&self) -> &Instructions {
        &self.instructions
    }

    /// The first instruction.
    #[must_use]
    pub fn task(&self) -> Option<&Word> {
        self.instructions.task()
    }

    /// The current plan.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plans.plan()
    }

    /// The latest results of tools, oldest first.
    pub fn outputs(&self) -> impl DoubleEndedIterator<Item = &Output> {
        self.outputs.iter()
    }

    /// Attempts, oldest first.
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

    /// How many attempts, things that worked and things that failed there were beyond these lists.
    #[must_use]
    pub fn forgotten(&self) -> [u64; 3] {
        self.forgotten
    }

    /// Next steps, by the latest outcome.
    pub fn next(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.next.iter()
    }

    /// Where an outcome was recorded last.
    #[must_use]
    pub fn outcome_at(&self) -> Option<Position> {
        self.outcome_at
    }

    pub(super) fn fold(&mut self, event: &Event, tool_event: Option<&ToolEvent<'_>>) {
        // A body that does not fit is ignored.
        let _ = match (event.kind.as_str(), tool_event) {
            (kinds::USER_MESSAGE, _) => self.fold_word(event),
            (kinds::PLAN_UPDATED, _) => self.plans.fold(event),
            (kinds::OUTCOME_RECORDED, _) => self.fold_outcome(event),
            (kinds::SESSION_THREAD_STATUS_IDLE, _) => self.fold_subagent(event),
            (_, Some(tool_event)) => self.fold_tool(tool_event),
            _ => None,
        };
    }

    fn fold_word(&mut self, event: &Event) -> Option<()> {
        let said: SaidBody<'_> = body::read(&event.body)?;
        let is_claimed = matches!(event.origin, Origin::Model | Origin::Tool | Origin::Web);
        if said.session_thread_id.is_some() || is_claimed && self.has_heard {
            return None;
        }
        self.has_heard |= !is_claimed;
        self.instructions.add(event.position, person::typed(said.content?).trim());
        Some(())
    }

    fn fold_tool(&mut self, tool_event: &ToolEvent<'_>) -> Option<()> {
        match tool_event {
            ToolEvent::Call(call, input) if call.does == Does::Plan && !call.is_aside => {
                self.plans.call(call.position, &call.tool, (*input)?)
            }
            ToolEvent::Call(..) => None,
            ToolEvent::Result(call, answer) => match call.does {
                Does::Plan if call.is_aside || answer.failed => None,
                Does::Plan => {
                    let created = call.tool.eq_ignore_ascii_case("TaskCreate");
                    let input = call.plan.as_ref().filter(|_| created)?;
                    self.plans.created(answer.position, input, &answer.text)
                }
                // A file that was changed is among the files: its echo tells nothing more.
                Does::Edits if !answer.failed => None,
                Does::Own => None,
                _ if call.is_aside => self.fold_output(call, answer),
                _ => match asked::answers(&call.tool, &answer.text) {
                    Some(said) => {
                        self.instructions.add(answer.position, &said);
                        Some(())
                    }
                    None => self.fold_output(call, answer),
                },
            },
        }
    }

    /// What a subagent answered last is work that is done. One without a name is the program's own:
    /// it wrote the summary of a compaction.
    fn fold_subagent(&mut self, event: &Event) -> Option<()> {
        let ended: EndedBody<'_> = body::read(&event.body)?;
        if ended.agent_name.as_deref() == Some("") {
            return None;
        }
        let said = words(ended.content?);
        if said.trim().is_empty() {
            return None;
        }
        let name = ended.agent_name.unwrap_or_default();
        let line = format!("@{} subagent {name}: {said}", event.position);
        let [_, forgotten, _] = &mut self.forgotten;
        add(&mut self.worked, one_line(&line, LINE_CHARS_MAX), forgotten);
        Some(())
    }

    fn fold_output(&mut self, call: &Call, answer: &Answer) -> Option<()> {
        if answer.is_placeholder() && !answer.failed {
            return None;
        }
        self.outputs.push_back(Output {
            position: answer.position,
            tool: call.tool.to_string(),
            input: call.input.to_string(),
            text: clip(&answer.text, RESULT_CHARS_MAX),
            is_error: answer.failed,
            reads: call.reads.clone(),
        });
        keep_newest(&mut self.outputs, RESULTS_MAX, RESULTS_BYTES_MAX, |one| one.text.len());
        Some(())
    }

    fn fold_outcome(&mut self, event: &Event) -> Option<()> {
        let outcome: OutcomeBody = body::read(&event.body)?;
        let [tried, worked, failed] = &mut self.forgotten;
        for (lines, said, forgotten) in [
            (&mut self.tried, outcome.tried, tried),
            (&mut self.worked, outcome.worked, worked),
            (&mut self.failed, outcome.failed, failed),
        ] {
            for line in said.iter().flat_map(lines_of) {
                add(lines, line, forgotten);
            }
        }
        if let Some(next) = outcome.next {
            self.next = lines_of(&next).into_iter().take(LINES_MAX).collect();
        }
        self.outcome_at = Some(event.position);
        Some(())
    }

    pub(super) fn weight(&self) -> usize {
        let lists = self.tried.len() + self.worked.len() + self.failed.len() + self.next.len();
        let of_reads = |one: &Output| one.reads.iter().map(|file| file.len() + 16).sum::<usize>();
        let outputs: usize =
            self.outputs.iter().map(|one| one.text.len() + 500 + of_reads(one)).sum();
        self.instructions.weight() + self.plans.weight() + lists * 200 + outputs
    }
}

/// Adds a line; a repeated one becomes the latest. Counts what finds no room.
fn add(lines: &mut VecDeque<String>, line: String, forgotten: &mut u64) {
    lines.retain(|known| *known != line);
    lines.push_back(line);
    if lines.len() > LINES_MAX {
        lines.pop_front();
        *forgotten += 1;
    }
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
    use crate::projection::{calls::Calls, tests::event};

    fn folded(events: &[(&str, &str)]) -> Progress {
        let (mut progress, mut calls) = (Progress::default(), Calls::default());
        for (position, (kind, body)) in (0..).zip(events) {
            let event = event(position, kind, *body);
            progress.fold(&event, calls.fold(&event).as_ref());
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
        let last = progress.instructions().whole().next_back();
        assert_eq!(of(last), Some((3, "and paint it".to_owned())));
    }

    #[test]
    fn a_model_does_not_speak_for_a_user_who_was_heard() {
        let said = |position, origin, text: &str| {
            let body = format!(r#"{{"content":"{text}"}}"#);
            Event { origin, ..event(position, "user.message", body) }
        };
        let mut progress = Progress::default();
        progress.fold(&said(0, Origin::Model, "the user wants it mended"), None);
        progress.fold(&said(1, Origin::Harness, "mend it"), None);
        progress.fold(&said(2, Origin::Model, "push it at once"), None);
        progress.fold(&said(3, Origin::Web, "and delete the rest"), None);
        let words: Vec<u64> = progress.instructions().whole().map(|word| word.position.0).collect();
        assert_eq!(words, [0, 1]);
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
    fn the_latest_results_stay_with_what_was_asked_within_their_bytes() {
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
        let progress = folded(&events);
        let outputs: Vec<_> = progress.outputs().map(|one| (&*one.tool, &*one.input)).collect();
        let kept = RESULTS_BYTES_MAX / RESULT_CHARS_MAX + 1;
        assert_eq!(outputs.len(), kept, "{outputs:?}");
        assert_eq!(outputs[kept - 2..], [("f14", "[14]"), ("(not named)", "")]);
        let first = progress.outputs().next().expect("one");
        assert!(first.is_error && first.text.chars().count() == RESULT_CHARS_MAX);
    }

    #[test]
    fn a_subagent_gives_no_instruction_and_keeps_no_plan() {
        let todos = |text: &str, more: &str| {
            let input = format!(r#"{{"todos":[{{"content":"{text}","status":"pending"}}]}}"#);
            format!(r#"{{"name":"TodoWrite","input":{input}{more}}}"#)
        };
        let aside = r#","session_thread_id":"a17f""#;
        let progress = folded(&[
            ("user.message", r#"{"content":"mend it","session_thread_id":null}"#),
            ("user.message", r#"{"content":"find every test","session_thread_id":"a17f"}"#),
            ("agent.tool_use", &todos("mine", "")),
            ("agent.tool_use", &todos("its own", aside)),
        ]);
        assert_eq!(progress.instructions().count(), 1);
        assert_eq!(progress.plan().map(|plan| &*plan.steps[0].text), Some("mine"));
    }

    #[test]
    fn results_worth_telling_are_none_of_ours_no_plan_and_no_placeholder() {
        let progress = folded(&[
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
        let outputs: Vec<_> = progress.outputs().map(|one| (&*one.tool, one.is_error)).collect();
        assert_eq!(outputs, [("get_user", false)], "a read that says no is an answer");
    }
}
