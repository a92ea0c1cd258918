//! The overview and its relatives: what a model gets after it lost its context, within a budget of
//! bytes. It is a recipe over [`select`]: the table below orders the indispensable items and weighs
//! the rest. It must not cost more for a longer session.

use std::collections::{BTreeMap, HashMap};

use super::{
    brief::{Brief, BriefText, heading},
    budget::{ANSWER_BYTES_MIN, Cut, TOKEN_BYTES, json_bytes},
    gather::Gathered,
    lists::{
        branch_bytes, branch_line, gap_bytes, gap_line, index_line, line_bytes, rejected_bytes,
        rejected_line, source_bytes, source_line,
    },
    outcomes::pattern_bytes,
    render,
    select::{Class, Form, Item, Price, Recipe, RecipeRow, Selection, Share, row, select, shape},
    step::step_bytes,
    summary::{Section, head, sections},
    tokens::Tokenizer,
};
use crate::{
    api::{
        overview::OverviewAnswer,
        research::{BranchOut, PatternOut, ProviderOut},
        step::StepOfView,
    },
    event::{Position, Timestamp},
    projection::Facts,
};

/// Most steps of a session whose full view is the default.
pub const FULL_STEPS_MAX: usize = 8;

/// Bytes of the constant parts: times, marker, notice, cursors, names of lists, and an id of eleven
/// characters; a caller leaves room for longer ones.
const FRAME_BYTES: usize = 480;
/// Bytes of the name of a class, and of how many of it are left out; of a cursor of one.
const CLASS_BYTES: usize = 24;
const CURSOR_BYTES: usize = 28;
/// Classes that are listed with a cursor.
const LISTED: [Class; 4] = [Class::StepLine, Class::Gap, Class::Source, Class::Rejection];
/// Bytes of a quote's position and mark.
const QUOTE_BYTES: usize = 48;

/// Bytes of a budget from which on an overview has its whole shape.
const SHAPE_BYTES: usize = 7_500;

/// The recipe: its shape is the goal, the last steps, open gaps, a line of each step and sources;
/// then come the other indispensable items, and the rest by weight and worth.
const OVERVIEW: Recipe<'static> = Recipe::new(&ROWS, 75);

const ROWS: [RecipeRow; 26] = [
    shape(Class::Task, 1, 0),
    shape(Class::Goal, 1, 0),
    row(Class::Next, 3, 900),
    shape(Class::LastStep, 3, 0).grows_last(),
    shape(Class::Gap, 12, 1_400),
    row(Class::Plan, 40, 800),
    row(Class::Instruction, 64, 500),
    row(Class::Summary, 1, 0),
    row(Class::Failure, 8, 1_500),
    shape(Class::StepLine, 40, 110).in_order().grows_last(),
    shape(Class::Source, 5, 900).grows_last(),
    row(Class::Change, 0, 1_600),
    row(Class::Failed, 0, 1_000),
    row(Class::File, 0, 900),
    row(Class::Finding, 0, 1_000),
    row(Class::Rejection, 3, 1_000),
    row(Class::Done, 0, 700),
    row(Class::Tried, 0, 400),
    row(Class::Answer, 0, 700),
    row(Class::Pattern, 0, 700),
    row(Class::Branch, 0, 400),
    row(Class::OlderInstruction, 0, 300),
    row(Class::PlanDone, 0, 150),
    row(Class::Provider, 0, 110),
    row(Class::Event, 0, 150).in_order(),
    row(Class::Count, 0, 60),
];

/// The same within a smaller budget, that of an answer to a step: its caller has just written the
/// last step.
const SMALL: Recipe<'static> = Recipe::new(&small(ROWS), 75);

const fn small<const COUNT: usize>(mut rows: [RecipeRow; COUNT]) -> [RecipeRow; COUNT] {
    let mut rest: &mut [RecipeRow] = &mut rows;
    while let [row, after @ ..] = rest {
        (row.shape, row.first) = match row.class {
            Class::LastStep => (1, 3),
            Class::StepLine => (15, 15),
            Class::Source => (3, 3),
            _ => (row.shape, row.first),
        };
        rest = after;
    }
    rows
}

/// The same within a budget of tokens, which is spent on what was said last: no bookkeeping.
const IN_TOKENS: Recipe<'static> = Recipe {
    newest: &[Class::Answer, Class::Result],
    newest_percent: 25,
    shares: &[Share { name: "changes", classes: &[&[Class::File, Class::Change]], percent: 20 }],
    ..Recipe::new(
        &[
            shape(Class::Task, 1, 0),
            shape(Class::Goal, 1, 0),
            row(Class::Next, 3, 900),
            shape(Class::LastStep, 3, 0).grows_last(),
            shape(Class::Gap, 12, 1_400),
            row(Class::Plan, 40, 800),
            row(Class::Instruction, 64, 500),
            row(Class::Summary, 1, 0),
            row(Class::Context, 1, 0),
            row(Class::State, 1, 0),
            row(Class::Failure, 8, 1_500),
            shape(Class::StepLine, 40, 110).in_order().grows_last(),
            shape(Class::Source, 5, 900).grows_last(),
            row(Class::Change, 8, 1_600),
            row(Class::Failed, 0, 1_000),
            row(Class::Result, 1, 400),
            row(Class::File, 0, 900),
            row(Class::Finding, 0, 1_000),
            row(Class::Rejection, 3, 1_000),
            row(Class::Done, 8, 700),
            row(Class::Tried, 0, 400),
            row(Class::Answer, 1, 700),
            row(Class::Branch, 0, 400),
            row(Class::OlderInstruction, 0, 300),
            row(Class::PlanDone, 0, 150),
        ],
        75,
    )
};

/// The summary on the level of steps: no lists, and the sentences of the last steps as well.
const SUMMARY: Recipe<'static> = Recipe::new(
    &[
        shape(Class::Task, 1, 0),
        shape(Class::Goal, 1, 0),
        row(Class::Next, 3, 900),
        row(Class::Plan, 40, 800),
        row(Class::Instruction, 64, 500),
        row(Class::Summary, 1, 0),
        row(Class::Failure, 8, 1_500),
        row(Class::Change, 0, 1_600),
        row(Class::Failed, 0, 1_000),
        row(Class::File, 0, 900),
        row(Class::Gap, 0, 1_400),
        row(Class::Finding, 0, 1_000),
        row(Class::Rejection, 0, 1_000),
        row(Class::Done, 0, 700),
        row(Class::Tried, 0, 400),
        row(Class::Answer, 0, 700),
        row(Class::OlderInstruction, 0, 300),
        row(Class::PlanDone, 0, 150),
    ],
    75,
);

/// The full view of a few steps: an index instead of a summary.
const FULL: Recipe<'static> = Recipe::new(
    &[
        shape(Class::Task, 1, 0),
        shape(Class::Goal, 1, 0),
        shape(Class::LastStep, 3, 0),
        shape(Class::Gap, 12, 1_400),
        shape(Class::StepLine, FULL_STEPS_MAX, 900).in_order().grows_last(),
        shape(Class::Source, 6, 900).grows_last(),
        row(Class::Rejection, 3, 1_000),
        row(Class::Pattern, 0, 700),
        row(Class::Branch, 0, 400),
        row(Class::Instruction, 0, 300),
        row(Class::Provider, 0, 110),
        row(Class::Event, 0, 150).in_order(),
        row(Class::Count, 0, 60),
    ],
    75,
);

/// Events between a match and what is near it, and the share of the worth of what is not, in
/// percent.
const NEAR_EVENTS: u64 = 4;
const FAR_PERCENT: usize = 60;

/// Items for which an overview of a long session has no room.
const LEFT_OUT: Recipe<'static> = Recipe::new(
    &[
        row(Class::Gap, 0, 1_400),
        row(Class::Finding, 0, 1_000),
        row(Class::Rejection, 0, 1_000),
        row(Class::Source, 0, 1_400),
    ],
    0,
);

/// Messages and events besides the research, and in a session without any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalkView {
    /// Events that are not of research.
    pub events: u64,
    /// Number of events of each type, the most frequent first.
    pub counts: Vec<(String, u64)>,
}

/// The overview of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Part of it that every interface shows.
    pub shown: OverviewAnswer,
    /// Steps the caller expects.
    pub estimate: Option<u64>,
    /// Time at which its latest step was marked as the last.
    pub completed_at: Option<Timestamp>,
    /// Branches, the newest.
    pub branches: Vec<BranchOut>,
    /// Kinds of failures that keep coming, the most frequent first.
    pub patterns: Vec<PatternOut>,
    /// Outcomes of each tool.
    pub providers: BTreeMap<String, ProviderOut>,
    /// Everything else that happened.
    pub talk: Option<TalkView>,
}

/// The overview of a session within a budget of bytes. A full view leaves the summary out.
#[must_use]
pub fn overview(facts: &Facts, full: bool, bytes_max: usize) -> Overview {
    explained(facts, full, bytes_max, false)
}

/// The overview; with `explain`, why each item is shown.
#[must_use]
pub fn explained(facts: &Facts, full: bool, bytes_max: usize, explain: bool) -> Overview {
    made(facts, recipe_of(full, bytes_max), bytes_max, explain)
}

/// The overview of a session within a budget of tokens, with its text.
#[must_use]
pub fn overview_in_tokens(
    facts: &Facts,
    session: &str,
    tokens_max: usize,
    explain: bool,
) -> Overview {
    let known = Gathered::gather_for(facts, &IN_TOKENS, tokens_max);
    let brief = Brief::new(&known, Tokenizer::O200k, heading(facts, session, None));
    let BriefText { chosen, text, .. } = brief.make(&IN_TOKENS, tokens_max, 0);
    let mut view = assembled(&known, &chosen, &IN_TOKENS);
    if explain {
        view.shown.why = known.why(&chosen);
    }
    view.shown.summary = summary_beside(&known, &chosen, false);
    view.shown.text = Some(text);
    view
}

/// The text of an overview, of so many bytes at most as long as its first line has no more. It has
/// what was said and done last as well, which its reader does not look up.
#[must_use]
pub fn overview_text(facts: &Facts, session: &str, bytes_max: usize) -> String {
    let mut tokens_max = bytes_max.max(ANSWER_BYTES_MIN) / TOKEN_BYTES;
    loop {
        let known = Gathered::gather_for(facts, &IN_TOKENS, tokens_max);
        let brief = Brief::new(&known, Tokenizer::O200k, heading(facts, session, None));
        let text = brief.make(&IN_TOKENS, tokens_max, 0).text;
        if text.len() <= bytes_max || tokens_max == 0 {
            return text;
        }
        tokens_max = (tokens_max * bytes_max / text.len()).min(tokens_max * 9 / 10);
    }
}

/// The overview within a budget of bytes, with [its text](overview_text). `explain` is of the
/// members.
#[must_use]
pub fn overview_in_text(facts: &Facts, session: &str, bytes_max: usize, explain: bool) -> Overview {
    let mut view = explained(facts, false, bytes_max, explain);
    view.shown.text = Some(overview_text(facts, session, bytes_max));
    view
}

fn recipe_of(full: bool, bytes_max: usize) -> &'static Recipe<'static> {
    match full {
        true => &FULL,
        false if bytes_max < SHAPE_BYTES => &SMALL,
        false => &OVERVIEW,
    }
}

/// The summary of a session on the level of steps, within a budget of bytes.
#[must_use]
pub(super) fn step_summary(facts: &Facts, bytes_max: usize) -> OverviewAnswer {
    made(facts, &SUMMARY, bytes_max, false).shown
}

/// A sentence, gap, rejected approach or source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutLine {
    /// Its text on a line, with its step or position.
    pub text: String,
    /// Start of its words in the line.
    pub words_from: usize,
}

/// The most informative sentences, gaps, rejected approaches and sources that the overview of that
/// size leaves out, within a budget of bytes of JSON strings; those near one of these positions,
/// which ascend, come before others that are as informative.
#[must_use]
pub fn beyond_overview(
    facts: &Facts,
    overview_bytes: usize,
    bytes_max: usize,
    around: &[Position],
) -> Vec<LeftOutLine> {
    let budget = overview_bytes.max(ANSWER_BYTES_MIN) - FRAME_BYTES;
    let (known, chosen) = chosen(facts, recipe_of(false, overview_bytes), budget);
    let lines: HashMap<usize, Form> = chosen.places(Class::StepLine).into_iter().collect();
    let is_shown = |item: &Item| {
        chosen.chosen.iter().any(|one| one.item.is(item))
            || chosen.contains(item)
            || known.is_in_line(item, &lines)
    };
    let has_row = |item: &&Item| LEFT_OUT.rows.iter().any(|row| row.class == item.class);
    let left = known.items.iter().filter(has_row).filter(|item| !is_shown(item));
    let left = left.map(|item| {
        let is_near = known.position(item).is_some_and(|at| is_near(at, around));
        Item { status: if is_near { 100 } else { FAR_PERCENT }, ..*item }
    });
    let left: Vec<Item> = left.collect();
    let mut price = LeftOutPrice(&known);
    let made = select(&left, &LEFT_OUT, bytes_max, &mut price);
    made.chosen.iter().map(|one| left_out_line(&known, &one.item)).collect()
}

/// True if a position is at most `NEAR_EVENTS` away from one of these, which ascend.
fn is_near(at: Position, around: &[Position]) -> bool {
    let after = around.partition_point(|one| *one < at);
    let nearest = [after.checked_sub(1), Some(after)].into_iter().flatten();
    nearest.filter_map(|place| around.get(place)).any(|one| one.0.abs_diff(at.0) <= NEAR_EVENTS)
}

fn left_out_line(known: &Gathered<'_>, item: &Item) -> LeftOutLine {
    let line = known.line(item.class, item.place, Form::Whole);
    let kind = match item.class {
        Class::Gap => "open gap: ",
        Class::Rejection => "ruled out: ",
        Class::Source => "source: ",
        _ => "",
    };
    let label = line.find(' ').filter(|_| line.starts_with(['[', '(', '@'])).map_or(0, |at| at + 1);
    LeftOutLine { words_from: kind.len() + label, text: format!("{kind}{line}") }
}

/// Costs of the lines of left out items.
struct LeftOutPrice<'k, 'f>(&'k Gathered<'f>);

impl Price for LeftOutPrice<'_, '_> {
    fn price(&mut self, item: &Item, _: Form) -> usize {
        json_bytes(&left_out_line(self.0, item).text) + 1
    }
}

/// The items of a recipe and those of them that it chooses within a budget.
fn chosen<'a>(facts: &'a Facts, recipe: &Recipe<'_>, budget: usize) -> (Gathered<'a>, Selection) {
    let mut known = Gathered::gather(facts, recipe, budget);
    let present = recipe.rows.iter().filter(|row| known.count(row.class) > 0).count();
    let current = known.plan_current().map_or(0, |name| json_bytes(&name));
    let listed = LISTED.iter().filter(|class| known.count(**class) > 0).count();
    let around = current + present * CLASS_BYTES + listed * CURSOR_BYTES;
    let budget = budget.saturating_sub(around);
    let items = std::mem::take(&mut known.items);
    let mut price = WireBytes { known: &known, last_steps: HashMap::new() };
    let chosen = select(&items, recipe, budget, &mut price);
    known.items = items;
    (known, chosen)
}

fn made(facts: &Facts, recipe: &Recipe<'_>, bytes_max: usize, explain: bool) -> Overview {
    let budget = bytes_max.max(ANSWER_BYTES_MIN) - FRAME_BYTES;
    let (known, chosen) = chosen(facts, recipe, budget);
    let has_row = |class: Class| recipe.rows.iter().any(|row| row.class == class);
    let mut view = assembled(&known, &chosen, recipe);
    if explain {
        view.shown.why = known.why(&chosen);
    }
    if has_row(Class::Finding) {
        view.shown.summary = summary_beside(&known, &chosen, !has_row(Class::LastStep));
    }
    view
}

fn assembled(known: &Gathered<'_>, chosen: &Selection, recipe: &Recipe<'_>) -> Overview {
    let (facts, research) = (known.facts, &known.facts.research);
    let places = |class| chosen.places(class).into_iter();
    let patterns = places(Class::Pattern).filter_map(|(at, _)| known.patterns.get(at).cloned());
    let providers = places(Class::Provider).filter_map(|(at, _)| known.providers.get(at).cloned());
    let branches =
        places(Class::Branch).filter_map(|(at, _)| research.branches().get(at).map(branch_line));
    let counts = places(Class::Count).filter_map(|(at, _)| known.counts.get(at).cloned());
    let events = facts.conversation.events;
    Overview {
        shown: shown(known, chosen, recipe),
        estimate: research.estimate(),
        completed_at: research.completed_at(),
        branches: branches.collect(),
        patterns: patterns.collect(),
        providers: providers.collect(),
        talk: (events > 0).then(|| TalkView { events, counts: counts.collect() }),
    }
}

fn shown(known: &Gathered<'_>, chosen: &Selection, recipe: &Recipe<'_>) -> OverviewAnswer {
    let (facts, research) = (known.facts, &known.facts.research);
    let places = |class| chosen.places(class).into_iter();
    let task = known.quotes(chosen, Class::Task).pop();
    let goal = known.quotes(chosen, Class::Goal).pop();
    let (goal, task) = match goal {
        Some(goal) => (goal.text, task),
        None => (task.map(|task| task.text).unwrap_or_default(), None),
    };
    let left_out = known.left_out(chosen, recipe);
    let cursors = left_out.iter().filter_map(|one| Some((one.class.to_owned(), one.cursor?)));
    let last_steps: Vec<StepOfView> =
        places(Class::LastStep).filter_map(|(at, form)| known.last_step(at, form)).collect();
    let is_cut = chosen.is_cut || last_steps.iter().any(|step| step.truncated);
    let index =
        places(Class::StepLine).filter_map(|(at, form)| index_line(research, at, form)).collect();
    let gaps = places(Class::Gap)
        .filter_map(|(at, form)| research.gaps().get(at).map(|gap| gap_line(gap, form)));
    let sources = places(Class::Source)
        .filter_map(|(at, form)| research.sources().get(at).map(|one| source_line(one, form)));
    let rejected = places(Class::Rejection).filter_map(|(at, _)| rejected_line(research, at));
    let talk = &facts.conversation;
    let recent = places(Class::Event).filter_map(|(at, _)| talk.recent.get(at).cloned());
    OverviewAnswer {
        position: facts.position,
        goal,
        task,
        instructions: known.instructions(chosen),
        plan: known.plan_view(chosen),
        next: known.lines(chosen, Class::Next),
        failures: known.lines(chosen, Class::Failure),
        files: known.lines(chosen, Class::File),
        changes: known.lines(chosen, Class::Change),
        steps_total: research.steps().len() as u64,
        is_complete: research.completed_at().is_some(),
        started_at: research.started_at().or(facts.times.map(|(first, _)| first)),
        updated_at: facts.times.map(|(_, last)| last),
        summary: String::new(),
        steps: Some(index),
        last_steps: Some(last_steps),
        gaps: gaps.collect(),
        sources: Some(sources.collect()),
        rejected: rejected.collect(),
        recent: (talk.events > 0).then(|| recent.collect()),
        cursors: cursors.collect(),
        left_out: render::left_out(&left_out),
        truncated: is_cut || !left_out.is_empty(),
        why: Vec::new(),
        text: None,
    }
}

/// The summary of an overview: what its other members do not contain; with the latest step where
/// none is shown.
fn summary_beside(known: &Gathered<'_>, chosen: &Selection, with_latest: bool) -> String {
    let beside = [
        Section::words("The agent said", &[Class::Answer]),
        Section::list("Found", &[Class::Finding]),
        Section::list("Failed", &[Class::Failed]),
        Section::list("Done", &[Class::Done]),
        Section::list("Tried", &[Class::Tried]),
        Section::list("Results of tools", &[Class::Result]),
    ];
    sections(known, chosen, &head(known.facts, with_latest), &beside)
}

/// The goal of a session: as given, or the first message of a person.
#[must_use]
pub fn goal(facts: &Facts, bytes_max: usize) -> Cut {
    let task = || facts.progress.task().map(|task| task.text.as_str());
    super::budget::fit(facts.research.goal().or_else(task).unwrap_or_default(), bytes_max)
}

/// Costs of items in the longest of their wire forms.
struct WireBytes<'k, 'f> {
    known: &'k Gathered<'f>,
    /// Prices of the last steps by index and form: each is used several times.
    last_steps: HashMap<(usize, Form), Option<usize>>,
}

impl Price for WireBytes<'_, '_> {
    fn price(&mut self, item: &Item, form: Form) -> usize {
        let (known, at) = (self.known, item.place);
        let (facts, research) = (known.facts, &known.facts.research);
        let bytes = match item.class {
            Class::LastStep => {
                let price = || known.last_step(at, form).map(|step| step_bytes(&step));
                *self.last_steps.entry((at, form)).or_insert_with(price)
            }
            Class::StepLine => index_line(research, at, form).map(|one| line_bytes(&one)),
            Class::Gap => research.gaps().get(at).map(|one| gap_bytes(&gap_line(one, form))),
            Class::Source => {
                research.sources().get(at).map(|one| source_bytes(&source_line(one, form)))
            }
            Class::Rejection => rejected_line(research, at).map(|one| rejected_bytes(&one)),
            Class::Branch => research.branches().get(at).map(|one| branch_bytes(&branch_line(one))),
            Class::Pattern => known.patterns.get(at).map(pattern_bytes),
            Class::Provider => known.providers.get(at).map(|(name, _)| 45 + json_bytes(name)),
            Class::Count => known.counts.get(at).map(|(kind, _)| 50 + json_bytes(kind)),
            Class::Event => facts
                .conversation
                .recent
                .get(at)
                .map(|line| 110 + json_bytes(&line.text) + json_bytes(line.kind.as_str())),
            Class::Task | Class::Instruction | Class::OlderInstruction => {
                known.quote(item.class, at, form).map(|quote| QUOTE_BYTES + json_bytes(&quote.text))
            }
            Class::Plan | Class::PlanDone => known
                .plan_step(at, form)
                .map(|step| 24 + json_bytes(&step.text) + json_bytes(&step.state)),
            // A line of a list, or of the summary with its dash and number.
            _ => Some(8 + json_bytes(&known.line(item.class, at, form))),
        };
        bytes.unwrap_or_default()
    }
}
