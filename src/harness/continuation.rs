//! The continuation: everything that a reader without other context needs to continue a session.
//! Task, later instructions, plan, last steps, failures, findings, next steps. A recipe over
//! [`select`] with a token budget. It must not cost more for a longer session.

use super::{
    brief::{Brief, BriefText, format_heading},
    gather::GatheredItems,
    render,
    select::{Class, ClassShare, Recipe, RecipeRow, row, shape},
    tokens::Tokenizer,
};
use crate::{
    api::{
        step::{LastStepOut, StepOfView},
        views::{ContinuationView, ResultOut},
    },
    event::Position,
    projection::Facts,
};

/// Default token budget of a continuation.
pub const CONTINUATION_TOKENS: usize = 2_000;
/// Smallest token budget of a continuation.
pub const CONTINUATION_TOKENS_MIN: usize = 400;

/// Recipe: indispensable items in this order, then the rest by weight and worth.
const CONTINUATION: Recipe<'static> = Recipe {
    newest: &[Class::Answer, Class::Result],
    newest_percent: 25,
    shares: &[ClassShare {
        name: "changes",
        classes: &[&[Class::File, Class::Change]],
        percent: 20,
    }],
    ..Recipe::new(&ROWS, 68)
};

const ROWS: [RecipeRow; 27] = [
    shape(Class::Task, 1, 0),
    shape(Class::Goal, 1, 0),
    row(Class::Next, 5, 1_200),
    row(Class::Begun, 3, 1_500),
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
    row(Class::StepLine, 0, 60).keep_order(),
];

/// Builds the continuation of a session within a token budget, as members and as one Markdown text;
/// with `explain` also the reason for each item.
#[must_use]
pub fn continuation(
    facts: &Facts,
    session: &str,
    tokens_max: usize,
    tokenizer: Tokenizer,
    explain: bool,
) -> (ContinuationView, String) {
    let mut known = GatheredItems::gather_for_tokens(facts, &CONTINUATION, tokens_max);
    known.remove_lines_of_last_steps();
    let known = known;
    let head = format_heading(facts, session, None);
    let BriefText { chosen, left_out, text, tokens } =
        Brief::new(&known, tokenizer, head).make(&CONTINUATION, tokens_max, 0);
    let lines = |class| known.selected_lines(&chosen, class);
    let (mut task, mut goal) = (
        known.selected_quotes(&chosen, Class::Task).pop(),
        known.selected_quotes(&chosen, Class::Goal).pop(),
    );
    if task.is_none() {
        task = goal.take();
    }
    let of = |class| chosen.indexes(class).into_iter();
    let steps = of(Class::LastStep).filter_map(|(at, form)| known.last_step(at, form));
    let mut messages = known.selected_quotes(&chosen, Class::Answer);
    let last = facts.conversation.answers().back().map(|word| word.position);
    let answer = messages.pop_if(|quote| quote.position == last);
    let results: Vec<(ResultOut, bool)> =
        of(Class::Result).filter_map(|(at, form)| known.tool_result(at, form)).collect();
    let is_short = results.iter().any(|(_, is_cut)| *is_cut)
        || answer.iter().chain(&messages).any(|quote| quote.truncated);
    let view = ContinuationView {
        position: facts.next_position(),
        task,
        goal: goal.map(|goal| goal.text),
        instructions: known.selected_instructions(&chosen),
        plan: known.plan_view(&chosen),
        next: lines(Class::Next),
        begun: lines(Class::Begun),
        failures: lines(Class::Failure),
        mended: lines(Class::Mended),
        files: lines(Class::File),
        changes: lines(Class::Change),
        last_steps: steps.map(to_last_step).collect(),
        steps: lines(Class::StepLine),
        findings: lines(Class::Finding),
        rejected: lines(Class::Rejection),
        gaps: lines(Class::Gap),
        sources: lines(Class::Source),
        branches: lines(Class::Branch),
        done: lines(Class::Done),
        tried: lines(Class::Tried),
        failed: lines(Class::Failed),
        results: results.into_iter().map(|(result, _)| result).collect(),
        summary: lines(Class::Summary).pop().unwrap_or_default(),
        answer,
        messages,
        left_out: render::count_left_out(&left_out),
        tokens: tokens as u64,
        truncated: chosen.is_cut || is_short || !left_out.is_empty(),
        why: if explain { known.explain_selection(&chosen) } else { Vec::new() },
    };
    (view, text)
}

/// Converts one of the last steps to the form of this view.
fn to_last_step(step: StepOfView) -> LastStepOut {
    LastStepOut {
        number: step.number,
        branch: step.branch_id,
        description: step.description,
        reasoning: step.reasoning,
        confidence: step.confidence,
        rejected: step.rejected,
        superseded_by: step.superseded_by,
        truncated: step.truncated,
    }
}

/// Writes a brief of a session without the positions for which `is_shown` returns true, within a
/// token budget. `None` if nothing is left, or it does not fit.
#[must_use]
pub fn write_unshown_brief(
    facts: &Facts,
    is_shown: impl Fn(Position) -> bool,
    tokens_max: usize,
    tokenizer: Tokenizer,
) -> Option<String> {
    let mut known = GatheredItems::gather_for_tokens(facts, &CONTINUATION, tokens_max);
    known.remove_lines_of_last_steps();
    for row in &ROWS {
        known.retain_unshown(row.class, &is_shown);
    }
    let known = known;
    let made = Brief::new(&known, tokenizer, String::new()).make(&CONTINUATION, tokens_max, 0);
    (!made.chosen.chosen.is_empty() && made.tokens <= tokens_max).then_some(made.text)
}
