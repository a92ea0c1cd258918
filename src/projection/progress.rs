//! Progress of a session's work other than its research: task, plan, attempts with their outcomes,
//! next steps, and the latest tool results. It must not format anything.

use std::collections::VecDeque;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use super::{
    Instruction, Marks, body,
    conversation::keep_newest,
    instructions::Instructions,
    plans::{AgentPlan, Plans},
    user_text,
};
use crate::{
    event::{
        Event, Origin, Position, kinds, push_bounded,
        text::{clip, one_line},
    },
    traces::{
        ToolEvent, TracedCall, TracedResult, content_text, is_notice_of_interruption,
        parse_refusal, parse_user_answers, refusal_comment, tools::ToolKind, unquoted,
    },
};

/// Most results kept, most bytes of them together, and most characters of each.
const RESULTS_MAX: usize = 64;
const RESULTS_BYTES_MAX: usize = 48 << 10;
const RESULT_CHARS_MAX: usize = 4_000;
/// Most lines kept of a list, and most characters of a line.
const LINES_MAX: usize = 50;
const LINE_CHARS_MAX: usize = 400;

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutput {
    /// Position of the result.
    pub position: Position,
    /// Name of the tool.
    pub tool: String,
    /// Input on one line.
    pub input: String,
    /// Text, shortened; JSON data without the marks that only a parser needs.
    pub text: String,
    /// How the call ended, in one word, if it did not succeed: failed, refused or interrupted; else
    /// empty.
    pub ended: &'static str,
    /// Files that it shows, relative to the session's directory if they are below it.
    pub reads: Box<[Box<str>]>,
    /// Key and directory of each simple command that was run, by which runs are compared.
    pub(super) commands: Box<[(u64, Box<str>)]>,
}

/// Progress of a session's work.
#[derive(Clone, Debug, Default)]
pub struct WorkProgress {
    instructions: Instructions,
    /// True once a client recorded a user message itself: from then on user messages from a model,
    /// a tool or a web page are ignored.
    has_heard: bool,
    plans: Plans,
    outputs: VecDeque<CallOutput>,
    tried: VecDeque<String>,
    worked: VecDeque<String>,
    failed: VecDeque<String>,
    next: VecDeque<String>,
    /// Numbers of dropped lines: attempts, successes and failures.
    dropped: [u64; 3],
}

#[derive(Deserialize)]
struct MessageBody<'a> {
    session_thread_id: Option<IgnoredAny>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SubagentEndBody<'a> {
    agent_name: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct LooseOutcome {
    tried: Option<Value>,
    worked: Option<Value>,
    failed: Option<Value>,
    next: Option<Value>,
}

impl WorkProgress {
    /// Returns the instructions of the user.
    #[must_use]
    pub fn instructions(&self) -> &Instructions {
        &self.instructions
    }

    /// Returns the first instruction.
    #[must_use]
    pub fn task(&self) -> Option<&Instruction> {
        self.instructions.task()
    }

    /// Begins the next session of a chain.
    pub(super) fn begin_session(&mut self) {
        self.plans.begin_session();
    }

    /// Returns the current plan.
    #[must_use]
    pub fn plan(&self) -> Option<&AgentPlan> {
        self.plans.plan()
    }

    /// Returns the latest tool results, oldest first.
    pub fn outputs(&self) -> impl DoubleEndedIterator<Item = &CallOutput> {
        self.outputs.iter()
    }

    /// Returns the attempts, oldest first.
    pub fn attempts(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.tried.iter()
    }

    /// Returns the successes, oldest first.
    pub fn successes(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.worked.iter()
    }

    /// Returns the failures, oldest first.
    pub fn failures(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.failed.iter()
    }

    /// Returns the numbers of attempts, successes and failures dropped because of the bound.
    #[must_use]
    pub fn dropped_counts(&self) -> [u64; 3] {
        self.dropped
    }

    /// Returns the next steps, from the latest recorded outcome.
    pub fn next_steps(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.next.iter()
    }

    pub(super) fn fold(
        &mut self,
        event: &Event,
        tool_event: Option<&ToolEvent<'_>>,
        marks: &Marks,
    ) {
        // A body that does not parse is ignored.
        let _ = match (event.kind.as_str(), tool_event) {
            (kinds::USER_MESSAGE, _) => self.fold_user_message(event, marks),
            (kinds::PLAN_UPDATED, _) => self.plans.fold(event),
            (kinds::OUTCOME_RECORDED, _) => self.fold_outcome(event),
            (kinds::SESSION_THREAD_STATUS_IDLE, _) => self.fold_subagent(event),
            (_, Some(tool_event)) => self.fold_tool(tool_event, marks),
            _ => None,
        };
    }

    fn fold_user_message(&mut self, event: &Event, marks: &Marks) -> Option<()> {
        let said: MessageBody<'_> = body::read(&event.body)?;
        let is_claimed = matches!(event.origin, Origin::Model | Origin::Tool | Origin::Web);
        if said.session_thread_id.is_some() || is_claimed && self.has_heard {
            return None;
        }
        self.has_heard |= !is_claimed;
        self.instructions.add(
            event.position,
            user_text::extract_typed_text(said.content?).trim(),
            marks,
        );
        Some(())
    }

    fn fold_tool(&mut self, tool_event: &ToolEvent<'_>, marks: &Marks) -> Option<()> {
        match tool_event {
            // Of a list that is too long to be kept until its result.
            ToolEvent::Call(call, input) if call.does == ToolKind::Plan && !call.is_aside() => {
                let input = input.filter(|_| call.plan.is_none())?;
                self.plans.fold_call(call.position, &call.tool, input.get())
            }
            ToolEvent::Call(..) => None,
            ToolEvent::Result(call, answer) => match call.does {
                // A subagent's would take the place of one that the session's agent has seen.
                _ if call.is_aside() => None,
                ToolKind::Plan if answer.failed => None,
                ToolKind::Plan => {
                    let input = call.plan.as_deref()?;
                    match call.tool.eq_ignore_ascii_case("TaskCreate") {
                        true => self.plans.fold_created_task(answer.position, input, &answer.text),
                        false => self.plans.fold_call(answer.position, &call.tool, input),
                    }
                }
                // A changed file is listed with the files; its echo adds nothing.
                ToolKind::Edits if !answer.failed => None,
                ToolKind::Own => None,
                _ if answer.unrun.is_some() => {
                    if let Some(said) = refusal_comment(&answer.text) {
                        self.instructions.add_refusal_comment(answer.position, said, marks);
                    }
                    self.fold_output(call, answer)
                }
                _ => match parse_user_answers(&call.tool, &answer.text) {
                    Some(said) => {
                        self.instructions.add(answer.position, &said, marks);
                        Some(())
                    }
                    None => self.fold_output(call, answer),
                },
            },
        }
    }

    /// Records the last message of a subagent as a success. A subagent with an empty name is the
    /// program's own, which wrote a compaction summary.
    fn fold_subagent(&mut self, event: &Event) -> Option<()> {
        let ended: SubagentEndBody<'_> = body::read(&event.body)?;
        if ended.agent_name.as_deref() == Some("") {
            return None;
        }
        let said = content_text(ended.content?);
        if said.trim().is_empty() {
            return None;
        }
        let name = ended.agent_name.unwrap_or_default();
        let line = format!("subagent {name}: {said}");
        let [_, dropped, _] = &mut self.dropped;
        add_line(&mut self.worked, one_line(&line, LINE_CHARS_MAX), dropped);
        Some(())
    }

    fn fold_output(&mut self, call: &TracedCall, answer: &TracedResult) -> Option<()> {
        if answer.is_placeholder() && !answer.failed {
            return None;
        }
        // Of a refusal, only the quoted reason is kept.
        let reason = answer.unrun.and_then(|_| parse_refusal(&answer.text)?.reason);
        let text = match is_notice_of_interruption(&answer.text) {
            true => "",
            false => reason.as_deref().unwrap_or(&answer.text),
        };
        // Files and command output are quoted verbatim.
        let is_data = call.reads.is_empty() && call.does != ToolKind::Runs;
        let text = if is_data { unquoted(text) } else { text.into() };
        self.outputs.push_back(CallOutput {
            position: answer.position,
            tool: call.tool.to_string(),
            input: call.input.to_string(),
            text: clip(&text, RESULT_CHARS_MAX),
            ended: answer.outcome(),
            reads: call.reads.clone(),
            commands: call
                .command
                .iter()
                .flat_map(|of| of.1.runs.iter().map(|run| (run.key, run.directory.clone())))
                .collect(),
        });
        keep_newest(&mut self.outputs, RESULTS_MAX, RESULTS_BYTES_MAX, |one| one.text.len());
        Some(())
    }

    fn fold_outcome(&mut self, event: &Event) -> Option<()> {
        let outcome: LooseOutcome = body::read(&event.body)?;
        let [tried, worked, failed] = &mut self.dropped;
        for (lines, said, dropped) in [
            (&mut self.tried, outcome.tried, tried),
            (&mut self.worked, outcome.worked, worked),
            (&mut self.failed, outcome.failed, failed),
        ] {
            for line in said.iter().flat_map(parse_lines) {
                add_line(lines, line, dropped);
            }
        }
        if let Some(next) = outcome.next {
            self.next = parse_lines(&next).into_iter().take(LINES_MAX).collect();
        }
        Some(())
    }

    pub(super) fn weight(&self) -> usize {
        let lists = self.tried.len() + self.worked.len() + self.failed.len() + self.next.len();
        let of_reads =
            |one: &CallOutput| one.reads.iter().map(|file| file.len() + 16).sum::<usize>();
        let outputs: usize =
            self.outputs.iter().map(|one| one.text.len() + 500 + of_reads(one)).sum();
        self.instructions.weight() + self.plans.weight() + lists * 200 + outputs
    }
}

/// Adds a line, or moves a repeated one to the end; counts a dropped line.
fn add_line(lines: &mut VecDeque<String>, line: String, dropped: &mut u64) {
    lines.retain(|known| *known != line);
    *dropped += u64::from(push_bounded(lines, line, LINES_MAX));
}

/// Returns the lines of a string or of a list of strings.
fn parse_lines(said: &Value) -> Vec<String> {
    let line = |value: &Value| value.as_str().map(|text| one_line(text, LINE_CHARS_MAX));
    let lines: Vec<Option<String>> = match said {
        Value::Array(all) => all.iter().map(line).collect(),
        one => vec![line(one)],
    };
    lines.into_iter().flatten().filter(|line| !line.is_empty()).collect()
}
