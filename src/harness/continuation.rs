//! The continuation: what a reader without any other context needs to continue a session. Task,
//! later instructions, plan, last steps, failures, findings, next steps. A recipe over [`select`]
//! whose budget is tokens. It must not cost more for a longer session.

use super::{
    brief::{Brief, Made, heading},
    gather::Known,
    render::{LeftOut, PlanView, Quote, ResultView, Why},
    select::{Class, Recipe, Row, Share, row, shape},
    step::StepView,
    tokens::Tokenizer,
};
use crate::{event::Position, projection::Facts};

/// Default tokens of a continuation.
pub const CONTINUATION_TOKENS: usize = 2_000;
/// The least a continuation is built for.
pub const CONTINUATION_TOKENS_MIN: usize = 400;

/// Upper bound of the bytes of a token: bounds how many items are offered.
const TOKEN_BYTES: usize = 4;

/// The recipe: the indispensable in this order, then the rest by weight and worth.
const CONTINUATION: Recipe<'static> = Recipe {
    newest: &[Class::Answer, Class::Result],
    newest_percent: 25,
    shares: &[Share { name: "changes", classes: &[&[Class::File, Class::Change]], percent: 20 }],
    ..Recipe::new(&ROWS, 68)
};

const ROWS: [Row; 26] = [
    shape(Class::Task, 1, 0),
    shape(Class::Goal, 1, 0),
    row(Class::Next, 5, 1_200),
    row(Class::Plan, 40, 800),
    row(Class::Instruction, 64, 500),
    row(Class::LastStep, 3, 0),
    row(Class::Summary, 1, 0),
    row(Class::Context, 1, 0),
    row(Class::State, 1, 0),
    row(Class::Failure, 12, 1_500),
    row(Class::Failed, 8, 1_200),
    row(Class::Change, 8, 1_600),
    row(Class::Result, 1, 400),
    row(Class::File, 0, 1_000),
    row(Class::Gap, 0, 1_400),
    row(Class::Finding, 0, 1_000),
    row(Class::Rejection, 0, 1_000),
    row(Class::Done, 8, 800),
    row(Class::Source, 0, 600),
    row(Class::Answer, 1, 700),
    row(Class::Tried, 8, 500),
    row(Class::OlderInstruction, 0, 300),
    row(Class::Branch, 0, 300),
    row(Class::PlanDone, 0, 200),
    row(Class::Mended, 0, 100),
    row(Class::StepLine, 0, 60).in_order(),
];

/// What an agent needs to continue the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// The user's first request; without one, the goal of the research.
    pub task: Option<Quote>,
    /// What the research is for, where the task is another text.
    pub goal: Option<Quote>,
    /// The user's later messages, oldest first.
    pub instructions: Vec<Quote>,
    /// The plan.
    pub plan: Option<PlanView>,
    /// Next steps: from the last outcome, else from the plan.
    pub next: Vec<String>,
    /// Commands and tests that failed and were not mended, the latest last.
    pub failures: Vec<String>,
    /// Those that were mended.
    pub mended: Vec<String>,
    /// Files that were changed, the latest last.
    pub files: Vec<String>,
    /// Calls that changed something else, the latest last.
    pub changes: Vec<String>,
    /// The last steps of the research.
    pub last_steps: Vec<StepView>,
    /// The steps before these in a line each.
    pub steps: Vec<String>,
    /// The best sentences of steps and messages.
    pub findings: Vec<String>,
    /// Approaches that were ruled out.
    pub rejected: Vec<String>,
    /// Open questions.
    pub gaps: Vec<String>,
    /// Sources.
    pub sources: Vec<String>,
    /// Branches of the research.
    pub branches: Vec<String>,
    /// Completed work, the newest last.
    pub done: Vec<String>,
    /// Attempts, the newest last.
    pub tried: Vec<String>,
    /// Failures in the agent's words, the newest last.
    pub failed: Vec<String>,
    /// The last results of tools, oldest first.
    pub results: Vec<ResultView>,
    /// The caller's own summary.
    pub summary: String,
    /// The agent's last message.
    pub answer: Option<Quote>,
    /// Its messages before that, oldest first.
    pub messages: Vec<Quote>,
    /// Items left out, by class.
    pub left_out: Vec<LeftOut>,
    /// Why each item was chosen, in the order of choice.
    pub why: Vec<Why>,
    /// The view covers everything before this position.
    pub position: Position,
    /// All of it as one text in Markdown.
    pub text: String,
    /// Tokens of that text.
    pub tokens: usize,
    /// The budget.
    pub tokens_max: usize,
    /// Whether anything indispensable was cut or left out, or a list is not whole.
    pub truncated: bool,
}

/// The continuation of a session within a budget of tokens; with `explain` also why each item was
/// chosen.
#[must_use]
pub fn continuation(
    facts: &Facts,
    session: &str,
    tokens_max: usize,
    tokenizer: Tokenizer,
    explain: bool,
) -> Continuation {
    let mut known = Known::gather(facts, &CONTINUATION, tokens_max * TOKEN_BYTES);
    known.without_lines_of_last_steps();
    let known = known;
    let head = heading(facts, session, None);
    let Made { chosen, left_out, text, tokens } =
        Brief::new(&known, tokenizer, head).make(&CONTINUATION, tokens_max, 0);
    let lines = |class| known.lines(&chosen, class);
    let (mut task, mut goal) =
        (known.quotes(&chosen, Class::Task).pop(), known.quotes(&chosen, Class::Goal).pop());
    if task.is_none() {
        task = goal.take();
    }
    let of = |class| chosen.of(class).into_iter();
    let steps = of(Class::LastStep).filter_map(|(at, form)| known.last_step(at, form));
    let mut messages = known.quotes(&chosen, Class::Answer);
    let last = facts.conversation.answers().back().map(|word| word.position);
    let answer = messages.pop_if(|quote| quote.position == last);
    let results: Vec<ResultView> =
        of(Class::Result).filter_map(|(at, form)| known.result(at, form)).collect();
    let is_short = results.iter().any(|one| one.truncated)
        || answer.iter().chain(&messages).any(|quote| quote.cut.truncated);
    Continuation {
        task,
        goal,
        instructions: known.instructions(&chosen),
        plan: known.plan_view(&chosen),
        next: lines(Class::Next),
        failures: lines(Class::Failure),
        mended: lines(Class::Mended),
        files: lines(Class::File),
        changes: lines(Class::Change),
        last_steps: steps.collect(),
        steps: lines(Class::StepLine),
        findings: lines(Class::Finding),
        rejected: lines(Class::Rejection),
        gaps: lines(Class::Gap),
        sources: lines(Class::Source),
        branches: lines(Class::Branch),
        done: lines(Class::Done),
        tried: lines(Class::Tried),
        failed: lines(Class::Failed),
        results,
        summary: lines(Class::Summary).pop().unwrap_or_default(),
        answer,
        messages,
        why: if explain { known.why(&chosen) } else { Vec::new() },
        position: facts.reached(),
        text,
        tokens,
        tokens_max,
        truncated: chosen.is_cut || is_short || !left_out.is_empty(),
        left_out,
    }
}

/// A brief of what a reader of the newest of a session is not shown, within a budget of tokens;
/// `is_shown` says which positions that reader sees. `None` where nothing is left to tell, or fits.
#[must_use]
pub fn rest_of(
    facts: &Facts,
    is_shown: impl Fn(Position) -> bool,
    tokens_max: usize,
    tokenizer: Tokenizer,
) -> Option<String> {
    let mut known = Known::gather(facts, &CONTINUATION, tokens_max * TOKEN_BYTES);
    known.without_lines_of_last_steps();
    for row in &ROWS {
        known.retain_unshown(row.class, &is_shown);
    }
    let known = known;
    let made = Brief::new(&known, tokenizer, String::new()).make(&CONTINUATION, tokens_max, 0);
    (!made.chosen.chosen.is_empty() && made.tokens <= tokens_max).then_some(made.text)
}
