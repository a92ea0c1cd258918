//! The overview and related views, for a model that lost its context, within a byte budget. A
//! recipe over [`select`]: its table orders the indispensable items and weighs the rest. It must
//! not cost more for a longer session.

use std::collections::{BTreeMap, HashMap};

use super::{
    brief::{Brief, BriefText, format_heading},
    budget::{ANSWER_BYTES_MIN, ShortenedText, TOKEN_BYTES, json_bytes},
    gather::GatheredItems,
    lists::{
        branch_bytes, branch_line, gap_bytes, gap_line, index_line, line_bytes, rejected_bytes,
        rejected_line, source_bytes, source_line,
    },
    outcomes::pattern_bytes,
    render,
    select::{
        Class, ClassShare, Item, ItemForm, Price, Recipe, RecipeRow, Selection, row, select, shape,
    },
    step::step_bytes,
    summary::{Section, compose_text, progress_line},
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

/// Most steps of a session whose default view is the full one.
pub const FULL_STEPS_MAX: usize = 8;

/// Bytes of the constant parts: times, marker, notice, cursors, list names, and an id of eleven
/// characters; a caller reserves space for longer ids.
const FRAME_BYTES: usize = 480;
/// Bytes of a class's name and count of left-out items; `CURSOR_BYTES` are of its cursor.
const CLASS_BYTES: usize = 24;
const CURSOR_BYTES: usize = 28;
/// Classes that are listed with a cursor.
const LISTED: [Class; 4] = [Class::StepLine, Class::Gap, Class::Source, Class::Rejection];
/// Bytes of a quote's position and mark.
const QUOTE_BYTES: usize = 48;

/// Least budget in bytes of an overview with its full shape.
const SHAPE_BYTES: usize = 7_500;

/// Recipe: the shape is the goal, last steps, open gaps, one line per step, and sources; then the
/// other indispensable items, and the rest by weight and worth.
const OVERVIEW: Recipe<'static> = Recipe::new(&ROWS, 75);

const ROWS: [RecipeRow; 27] = [
    shape(Class::Task, 1, 0),
    shape(Class::Goal, 1, 0),
    row(Class::Next, 3, 900),
    row(Class::Begun, 3, 1_500),
    shape(Class::LastStep, 3, 0).grow_last(),
    shape(Class::Gap, 12, 1_400),
    row(Class::Plan, 40, 800),
    row(Class::Instruction, 64, 500),
    row(Class::Summary, 1, 0),
    row(Class::Failure, 8, 1_500),
    shape(Class::StepLine, 40, 110).keep_order().grow_last(),
    shape(Class::Source, 5, 900).grow_last(),
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
    row(Class::Event, 0, 150).keep_order(),
    row(Class::Count, 0, 60),
];

/// Recipe of the response to a step, with a smaller budget: its caller has just written the last
/// step.
const SMALL: Recipe<'static> = Recipe::new(&shrink_rows(ROWS), 75);

const fn shrink_rows<const COUNT: usize>(mut rows: [RecipeRow; COUNT]) -> [RecipeRow; COUNT] {
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

/// Recipe for a token budget, which favours the latest messages and results.
const IN_TOKENS: Recipe<'static> = Recipe {
    newest: &[Class::Answer, Class::Result],
    newest_percent: 25,
    shares: &[ClassShare {
        name: "changes",
        classes: &[&[Class::File, Class::Change]],
        percent: 20,
    }],
    ..Recipe::new(
        &[
            shape(Class::Task, 1, 0),
            shape(Class::Goal, 1, 0),
            row(Class::Next, 3, 900),
            row(Class::Begun, 3, 1_500),
            shape(Class::LastStep, 3, 0).grow_last(),
            shape(Class::Gap, 12, 1_400),
            row(Class::Plan, 40, 800),
            row(Class::Instruction, 64, 500),
            row(Class::Summary, 1, 0),
            row(Class::Context, 1, 0),
            row(Class::State, 1, 0),
            row(Class::Failure, 8, 1_500),
            shape(Class::StepLine, 40, 110).keep_order().grow_last(),
            shape(Class::Source, 5, 900).grow_last(),
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

/// Recipe of the summary at step level: no lists, but sentences of the last steps as well.
const SUMMARY: Recipe<'static> = Recipe::new(
    &[
        shape(Class::Task, 1, 0),
        shape(Class::Goal, 1, 0),
        row(Class::Next, 3, 900),
        row(Class::Begun, 3, 1_500),
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

/// Recipe of the full view of a few steps: an index instead of a summary.
const FULL: Recipe<'static> = Recipe::new(
    &[
        shape(Class::Task, 1, 0),
        shape(Class::Goal, 1, 0),
        row(Class::Begun, 3, 1_500),
        shape(Class::LastStep, 3, 0),
        shape(Class::Gap, 12, 1_400),
        shape(Class::StepLine, FULL_STEPS_MAX, 900).keep_order().grow_last(),
        shape(Class::Source, 6, 900).grow_last(),
        row(Class::Rejection, 3, 1_000),
        row(Class::Pattern, 0, 700),
        row(Class::Branch, 0, 400),
        row(Class::Instruction, 0, 300),
        row(Class::Provider, 0, 110),
        row(Class::Event, 0, 150).keep_order(),
        row(Class::Count, 0, 60),
    ],
    75,
);

/// Most events between a match and an item near it, and the percentage of its worth that an item
/// elsewhere keeps.
const NEAR_EVENTS: u64 = 4;
const FAR_PERCENT: usize = 60;

/// Recipe for items that do not fit into the overview of a long session.
const LEFT_OUT: Recipe<'static> = Recipe::new(
    &[
        row(Class::Gap, 0, 1_400),
        row(Class::Finding, 0, 1_000),
        row(Class::Rejection, 0, 1_000),
        row(Class::Source, 0, 1_400),
    ],
    0,
);

/// Messages and events outside of the research.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationView {
    /// Number of events that are not research events.
    pub events: u64,
    /// Number of events of each type, most frequent first.
    pub counts: Vec<(String, u64)>,
}

/// Overview of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Part that every interface shows.
    pub shown: OverviewAnswer,
    /// Number of steps that the caller expects.
    pub estimate: Option<u64>,
    /// Time at which its latest step was marked as the last.
    pub completed_at: Option<Timestamp>,
    /// Newest branches.
    pub branches: Vec<BranchOut>,
    /// Kinds of failures that recur, most frequent first.
    pub patterns: Vec<PatternOut>,
    /// Outcomes of each tool.
    pub providers: BTreeMap<String, ProviderOut>,
    /// Messages and events outside of the research.
    pub talk: Option<ConversationView>,
}

/// Builds the overview of a session within a byte budget. A full view has no summary.
#[must_use]
pub fn overview(facts: &Facts, full: bool, bytes_max: usize) -> Overview {
    build_overview(facts, full, bytes_max, false)
}

/// Builds the overview; with `explain`, also the reason for each item.
#[must_use]
pub fn build_overview(facts: &Facts, full: bool, bytes_max: usize, explain: bool) -> Overview {
    build_from_recipe(facts, choose_recipe(full, bytes_max), bytes_max, explain)
}

/// Builds the overview of a session within a token budget, with its text.
#[must_use]
pub fn overview_in_tokens(
    facts: &Facts,
    session: &str,
    tokens_max: usize,
    explain: bool,
) -> Overview {
    let known = GatheredItems::gather_for_tokens(facts, &IN_TOKENS, tokens_max);
    let brief = Brief::new(&known, Tokenizer::O200k, format_heading(facts, session, None));
    let BriefText { chosen, text, .. } = brief.make(&IN_TOKENS, tokens_max, 0);
    let mut view = assemble(&known, &chosen, &IN_TOKENS);
    if explain {
        view.shown.why = known.explain_selection(&chosen);
    }
    view.shown.summary = write_summary(&known, &chosen, false);
    view.shown.text = Some(text);
    view
}

/// Writes the text of an overview in at most `bytes_max` bytes, or only its first line if that is
/// longer. It also has the latest messages and results, which its reader does not look up.
#[must_use]
pub fn overview_text(facts: &Facts, session: &str, bytes_max: usize) -> String {
    let mut tokens_max = bytes_max.max(ANSWER_BYTES_MIN) / TOKEN_BYTES;
    loop {
        let mut known = GatheredItems::gather_for_tokens(facts, &IN_TOKENS, tokens_max);
        // A text has one line for a step.
        known.remove_lines_of_last_steps();
        let brief = Brief::new(&known, Tokenizer::O200k, format_heading(facts, session, None));
        let text = brief.make(&IN_TOKENS, tokens_max, 0).text;
        if text.len() <= bytes_max || tokens_max == 0 {
            return text;
        }
        tokens_max = (tokens_max * bytes_max / text.len()).min(tokens_max * 9 / 10);
    }
}

/// Builds the overview within a byte budget, with [its text](overview_text). `explain` applies to
/// the members.
#[must_use]
pub fn overview_in_text(facts: &Facts, session: &str, bytes_max: usize, explain: bool) -> Overview {
    let mut view = build_overview(facts, false, bytes_max, explain);
    view.shown.text = Some(overview_text(facts, session, bytes_max));
    view
}

fn choose_recipe(full: bool, bytes_max: usize) -> &'static Recipe<'static> {
    match full {
        true => &FULL,
        false if bytes_max < SHAPE_BYTES => &SMALL,
        false => &OVERVIEW,
    }
}

/// Builds the summary of a session at step level, within a byte budget.
#[must_use]
pub(super) fn step_summary(facts: &Facts, bytes_max: usize) -> OverviewAnswer {
    build_from_recipe(facts, &SUMMARY, bytes_max, false).shown
}

/// A sentence, gap, rejected approach or source that an overview leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutLine {
    /// Text on one line, with its step or position.
    pub text: String,
    /// Byte offset of the item's text in the line.
    pub words_from: usize,
}

/// Returns the most informative items that an overview of that size leaves out, within a byte
/// budget of JSON strings; those near one of the ascending positions `around` precede equally
/// informative ones.
#[must_use]
pub fn select_left_out(
    facts: &Facts,
    overview_bytes: usize,
    bytes_max: usize,
    around: &[Position],
) -> Vec<LeftOutLine> {
    let budget = overview_bytes.max(ANSWER_BYTES_MIN) - FRAME_BYTES;
    let (known, chosen) = gather_and_select(facts, choose_recipe(false, overview_bytes), budget);
    let lines: HashMap<usize, ItemForm> = chosen.indexes(Class::StepLine).into_iter().collect();
    let is_shown = |item: &Item| {
        chosen.chosen.iter().any(|one| one.item.is_same(item))
            || chosen.contains(item)
            || known.is_in_shown_line(item, &lines)
    };
    let has_row = |item: &&Item| LEFT_OUT.rows.iter().any(|row| row.class == item.class);
    let left = known.items.iter().filter(has_row).filter(|item| !is_shown(item));
    let left = left.map(|item| {
        let is_near = known.item_position(item).is_some_and(|at| is_near(at, around));
        Item { status: if is_near { 100 } else { FAR_PERCENT }, ..*item }
    });
    let left: Vec<Item> = left.collect();
    let mut price = LeftOutPrice(&known);
    let made = select(&left, &LEFT_OUT, bytes_max, &mut price);
    made.chosen.iter().map(|one| format_left_out_line(&known, &one.item)).collect()
}

/// Returns true if a position is at most `NEAR_EVENTS` from one of these, which ascend.
fn is_near(at: Position, around: &[Position]) -> bool {
    let after = around.partition_point(|one| *one < at);
    let nearest = [after.checked_sub(1), Some(after)].into_iter().flatten();
    nearest.filter_map(|index| around.get(index)).any(|one| one.0.abs_diff(at.0) <= NEAR_EVENTS)
}

fn format_left_out_line(known: &GatheredItems<'_>, item: &Item) -> LeftOutLine {
    let line = known.format_line(item.class, item.index, ItemForm::Whole);
    let kind = match item.class {
        Class::Gap => "open gap: ",
        Class::Rejection => "ruled out: ",
        Class::Source => "source: ",
        _ => "",
    };
    let label = line.find(' ').filter(|_| line.starts_with(['[', '(', '@'])).map_or(0, |at| at + 1);
    LeftOutLine { words_from: kind.len() + label, text: format!("{kind}{line}") }
}

/// Prices of the lines of left-out items.
struct LeftOutPrice<'k, 'f>(&'k GatheredItems<'f>);

impl Price for LeftOutPrice<'_, '_> {
    fn price(&mut self, item: &Item, _: ItemForm) -> usize {
        json_bytes(&format_left_out_line(self.0, item).text) + 1
    }
}

/// Gathers the items of a recipe and selects among them within a budget.
fn gather_and_select<'a>(
    facts: &'a Facts,
    recipe: &Recipe<'_>,
    budget: usize,
) -> (GatheredItems<'a>, Selection) {
    let mut known = GatheredItems::gather(facts, recipe, budget);
    let present = recipe.rows.iter().filter(|row| known.count(row.class) > 0).count();
    let current = known.current_plan_step().map_or(0, |name| json_bytes(&name));
    let listed = LISTED.iter().filter(|class| known.count(**class) > 0).count();
    let around = current + present * CLASS_BYTES + listed * CURSOR_BYTES;
    let budget = budget.saturating_sub(around);
    let items = std::mem::take(&mut known.items);
    let mut price = WireBytes { known: &known, last_steps: HashMap::new() };
    let chosen = select(&items, recipe, budget, &mut price);
    known.items = items;
    (known, chosen)
}

fn build_from_recipe(
    facts: &Facts,
    recipe: &Recipe<'_>,
    bytes_max: usize,
    explain: bool,
) -> Overview {
    let budget = bytes_max.max(ANSWER_BYTES_MIN) - FRAME_BYTES;
    let (known, chosen) = gather_and_select(facts, recipe, budget);
    let has_row = |class: Class| recipe.rows.iter().any(|row| row.class == class);
    let mut view = assemble(&known, &chosen, recipe);
    if explain {
        view.shown.why = known.explain_selection(&chosen);
    }
    if has_row(Class::Finding) {
        view.shown.summary = write_summary(&known, &chosen, !has_row(Class::LastStep));
    }
    view
}

fn assemble(known: &GatheredItems<'_>, chosen: &Selection, recipe: &Recipe<'_>) -> Overview {
    let (facts, research) = (known.facts, &known.facts.research);
    let indexes = |class| chosen.indexes(class).into_iter();
    let patterns = indexes(Class::Pattern).filter_map(|(at, _)| known.patterns.get(at).cloned());
    let providers = indexes(Class::Provider).filter_map(|(at, _)| known.providers.get(at).cloned());
    let branches =
        indexes(Class::Branch).filter_map(|(at, _)| research.branches().get(at).map(branch_line));
    let counts = indexes(Class::Count).filter_map(|(at, _)| known.counts.get(at).cloned());
    let events = facts.conversation.events;
    Overview {
        shown: build_answer(known, chosen, recipe),
        estimate: research.estimate(),
        completed_at: research.completed_at(),
        branches: branches.collect(),
        patterns: patterns.collect(),
        providers: providers.collect(),
        talk: (events > 0).then(|| ConversationView { events, counts: counts.collect() }),
    }
}

fn build_answer(
    known: &GatheredItems<'_>,
    chosen: &Selection,
    recipe: &Recipe<'_>,
) -> OverviewAnswer {
    let (facts, research) = (known.facts, &known.facts.research);
    let indexes = |class| chosen.indexes(class).into_iter();
    let task = known.selected_quotes(chosen, Class::Task).pop();
    let goal = known.selected_quotes(chosen, Class::Goal).pop();
    let (goal, task) = match goal {
        Some(goal) => (goal.text, task),
        None => (task.map(|task| task.text).unwrap_or_default(), None),
    };
    let left_out = known.left_out_classes(chosen, recipe);
    let cursors = left_out.iter().filter_map(|one| Some((one.class.to_owned(), one.cursor?)));
    let last_steps: Vec<StepOfView> =
        indexes(Class::LastStep).filter_map(|(at, form)| known.last_step(at, form)).collect();
    let is_cut = chosen.is_cut || last_steps.iter().any(|step| step.truncated);
    let index =
        indexes(Class::StepLine).filter_map(|(at, form)| index_line(research, at, form)).collect();
    let gaps = indexes(Class::Gap)
        .filter_map(|(at, form)| research.gaps().get(at).map(|gap| gap_line(gap, form)));
    let sources = indexes(Class::Source)
        .filter_map(|(at, form)| research.sources().get(at).map(|one| source_line(one, form)));
    let rejected = indexes(Class::Rejection).filter_map(|(at, _)| rejected_line(research, at));
    let talk = &facts.conversation;
    let recent = indexes(Class::Event).filter_map(|(at, _)| talk.recent.get(at).cloned());
    OverviewAnswer {
        position: facts.position,
        goal,
        task,
        instructions: known.selected_instructions(chosen),
        plan: known.plan_view(chosen),
        next: known.selected_lines(chosen, Class::Next),
        begun: known.selected_lines(chosen, Class::Begun),
        failures: known.selected_lines(chosen, Class::Failure),
        files: known.selected_lines(chosen, Class::File),
        changes: known.selected_lines(chosen, Class::Change),
        steps_total: research.steps().len() as u64,
        is_complete: research.completed_at().is_some(),
        started_at: research.started_at().or(facts.times.range().map(|(first, _)| first)),
        updated_at: facts.times.range().map(|(_, last)| last),
        summary: String::new(),
        steps: Some(index),
        last_steps: Some(last_steps),
        gaps: gaps.collect(),
        sources: Some(sources.collect()),
        rejected: rejected.collect(),
        recent: (talk.events > 0).then(|| recent.collect()),
        cursors: cursors.collect(),
        left_out: render::count_left_out(&left_out),
        truncated: is_cut || !left_out.is_empty(),
        why: Vec::new(),
        text: None,
    }
}

/// Writes the summary of an overview: what its other members do not contain; with the latest step
/// if none is shown.
fn write_summary(known: &GatheredItems<'_>, chosen: &Selection, with_latest: bool) -> String {
    let beside = [
        Section::with_text("The agent said", &[Class::Answer]),
        Section::with_list("Found", &[Class::Finding]),
        Section::with_list("Failed", &[Class::Failed]),
        Section::with_list("Done", &[Class::Done]),
        Section::with_list("Tried", &[Class::Tried]),
        Section::with_list("Results of tools", &[Class::Result]),
    ];
    compose_text(known, chosen, &progress_line(known.facts, with_latest), &beside)
}

/// Returns the goal of a session, or else the first user message.
#[must_use]
pub fn goal_or_task(facts: &Facts, bytes_max: usize) -> ShortenedText {
    let task = || facts.progress.task().map(|task| task.text.as_str());
    super::budget::fit(facts.research.goal().or_else(task).unwrap_or_default(), bytes_max)
}

/// Prices of items in their longest wire form.
struct WireBytes<'k, 'f> {
    known: &'k GatheredItems<'f>,
    /// Prices of the last steps by index and form, each of which is used several times.
    last_steps: HashMap<(usize, ItemForm), Option<usize>>,
}

impl Price for WireBytes<'_, '_> {
    fn price(&mut self, item: &Item, form: ItemForm) -> usize {
        let (known, at) = (self.known, item.index);
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
            Class::Task | Class::Instruction | Class::OlderInstruction => known
                .quote_item(item.class, at, form)
                .map(|quote| QUOTE_BYTES + json_bytes(&quote.text)),
            Class::Plan | Class::PlanDone => known
                .plan_step(at, form)
                .map(|step| 24 + json_bytes(&step.text) + json_bytes(&step.state)),
            // A list item, or a summary line with its dash and number.
            _ => Some(8 + json_bytes(&known.format_line(item.class, at, form))),
        };
        bytes.unwrap_or_default()
    }
}
