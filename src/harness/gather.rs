//! Converts the facts of a session into items for a selection, a bounded number for any length of
//! session, and formats their texts. It must not choose items: recipes and `select` do.

use std::cell::Cell;

use super::{
    asked::within,
    budget::{Cut, TOKEN_BYTES},
    narration,
    outcomes::{patterns, providers},
    priority::{TASK, important, is_marked},
    results::{RecurringNames, unwrapped},
    select::{Class, Form, Item, Recipe, RecipeRow},
};
use crate::{
    api::{
        memory::MarkKind,
        research::{PatternOut, ProviderOut},
        views::PlanStepOut,
    },
    event::{
        Position, pace,
        text::{ELLIPSIS, one_line, whole_graphemes},
    },
    projection::{
        CommandFact, Effect, Facts, Finding, FoundIn, ResearchStep, body::StepBody, is_done,
    },
};

/// Percentage of its worth that an item of an earlier session of the chain keeps.
const EARLIER_PERCENT: usize = 40;
/// Number of the newest items of a list that are offered, in addition to its best.
const NEWEST: usize = 32;
/// Lines of steps offered per kilobyte of the budget, and the least number.
const LINES_OF_KILOBYTE: usize = 12;
const LINES_MIN: usize = 32;
/// Most unfinished plan steps that count as next steps if no outcome contains any.
const NEXT_OF_PLAN: usize = 3;
/// Most and least characters of a line; a small budget has shorter ones.
const LINE_CHARS_MAX: usize = 120;
const LINE_CHARS_MIN: usize = 24;
/// Most characters of a step's line and of a gap in their shortest form.
pub(super) const LISTED_CHARS: usize = 60;
/// Bytes of a step in the shape of a view for each character of a line, 600 for the longest lines;
/// and an allowance for the word that is cut.
const STEP_BYTES_OF_CHAR: usize = 5;
const WORD_BYTES: usize = 40;
/// Bytes of the budget for each character of a line.
const BYTES_OF_CHAR: usize = 50;
/// Bytes of a step, and of another text, that are shown before longer forms are considered.
pub(super) const STEP_BYTES: usize = 1_500;
pub(super) const TEXT_BYTES: usize = 600;
/// Bytes of an agent's message in its short form.
pub(super) const ANSWER_BYTES: usize = 1_500;
/// Percentage of its worth that a failed change has.
const IN_VAIN_PERCENT: usize = 30;
/// Worth of an item that is not scored by its text.
const WORTH: usize = 500;
/// Divisor of the budget for the most bytes of one result.
const RESULT_PART: usize = 10;
/// Number of the newest results that are shown even if they contain little.
const LATEST_RESULTS: usize = 3;
/// Most recurring names that add to a result's worth.
const RECURRING_MAX: usize = 6;

/// Facts of a session as items.
pub(super) struct Gathered<'a> {
    pub(super) facts: &'a Facts,
    pub(super) items: Vec<Item>,
    /// Number of items of each class.
    counts_of: [usize; Class::COUNT],
    pub(super) patterns: Vec<PatternOut>,
    pub(super) providers: Vec<(String, ProviderOut)>,
    pub(super) counts: Vec<(String, u64)>,
    pub(super) next: Vec<&'a str>,
    /// Recurring names by which results are scored, in a view with results.
    pub(super) names: RecurringNames,
    /// Most characters of a line.
    pub(super) line_chars: usize,
    /// Bytes that requirements may take of a user message beyond its form: a quarter of the budget.
    bound_bytes: usize,
    /// Most bytes of a result.
    pub(super) result_bytes: Cell<usize>,
    /// Bytes of a step in its shortest form; 0 for one line.
    pub(super) step_bytes: usize,
    /// Number of the newest steps that have no line because they are shown in full.
    pub(super) lines_hidden: usize,
}

impl<'a> Gathered<'a> {
    /// Gathers the items of a recipe for a token budget.
    pub(super) fn gather_for(facts: &'a Facts, recipe: &Recipe<'_>, tokens_max: usize) -> Self {
        Self::gather(facts, recipe, tokens_max * TOKEN_BYTES)
    }

    /// Gathers the items of a recipe for a budget of about `bytes` bytes.
    pub(super) fn gather(facts: &'a Facts, recipe: &Recipe<'_>, bytes: usize) -> Self {
        let line_chars = (bytes / BYTES_OF_CHAR).clamp(LINE_CHARS_MIN, LINE_CHARS_MAX);
        let is_shape = |row: &RecipeRow| row.class == Class::LastStep && row.shape > 0;
        let has_steps = recipe.rows.iter().any(is_shape);
        let mut known = Self {
            facts,
            items: Vec::with_capacity(512),
            counts_of: [0; Class::COUNT],
            patterns: Vec::new(),
            providers: Vec::new(),
            counts: Vec::new(),
            next: next(facts, recipe),
            names: RecurringNames::default(),
            line_chars,
            bound_bytes: bytes / 4,
            result_bytes: Cell::new((bytes / RESULT_PART).max(TEXT_BYTES)),
            step_bytes: if has_steps { line_chars * STEP_BYTES_OF_CHAR + WORD_BYTES } else { 0 },
            lines_hidden: 0,
        };
        if recipe.rows.iter().any(|row| row.class == Class::Result) {
            known.names = RecurringNames::from_facts(facts);
        }
        for row in recipe.rows {
            known.add(row.class, recipe, bytes);
        }
        known.without_mended_results();
        known
    }

    /// Removes the results of failed commands that succeeded later.
    fn without_mended_results(&mut self) {
        let facts = self.facts;
        if facts.work.mended().next().is_none() {
            return;
        }
        let outputs: Vec<_> = facts.progress.outputs().collect();
        self.retain(Class::Result, |item| {
            !outputs.get(item.place).is_some_and(|output| facts.work.has_mended(output))
        });
    }

    fn add(&mut self, class: Class, recipe: &Recipe<'_>, bytes: usize) {
        let (facts, progress) = (self.facts, &self.facts.progress);
        let research = &facts.research;
        match class {
            Class::Task
            | Class::Goal
            | Class::Summary
            | Class::Instruction
            | Class::OlderInstruction => self.words(class),
            Class::Next => {
                let count = self.next.len();
                // The first step is the most urgent, and the newest item is served first.
                (0..count).rev().for_each(|at| self.listed(class, at, at, count));
            }
            Class::Plan | Class::PlanDone => self.plan(class),
            Class::LastStep => {
                let count = research.full().count();
                (0..count).for_each(|at| self.listed(class, at, at, count));
            }
            Class::StepLine => {
                let steps = research.steps().len();
                let lines = (bytes * LINES_OF_KILOBYTE / 1_024).max(LINES_MIN);
                for at in steps.saturating_sub(lines)..steps {
                    // One price for all, because an index is in order.
                    self.item(Item { bytes: 150, ..item(class, at, (at, steps)) });
                }
            }
            Class::Finding => self.findings(),
            Class::Rejection | Class::Gap | Class::Source => self.add_list(class),
            Class::Done => self.said(class, progress.worked().map(String::len)),
            Class::Tried => self.said(class, progress.tried().map(String::len)),
            Class::Failed => self.said(class, progress.failed().map(String::len)),
            Class::Result => {
                let latest = progress.outputs().count().saturating_sub(LATEST_RESULTS);
                for (place, one) in progress.outputs().enumerate() {
                    // A file that can be read again is shown only among the latest results.
                    let is_file = self.names.is_file_elsewhere(one);
                    if one.is_aside || is_file && place < latest {
                        continue;
                    }
                    let recurring = self.names.in_text(&one.text) + self.names.in_text(&one.input);
                    let is_silent = one.ended.is_empty() && unwrapped(&one.text).is_empty();
                    let share = if is_silent { 4 } else { 2 };
                    let worth = WORTH / share + WORTH / 4 * recurring.min(RECURRING_MAX);
                    let at = self.at(class, place, one.position);
                    self.item(Item { worth, bytes: 2 * LINE_CHARS_MAX, ..at });
                }
            }
            Class::Answer => self.answers(recipe.newest.contains(&class)),
            Class::Event => {
                // One price for all, because events are in order.
                let recent = facts.conversation.recent.iter().map(|line| line.position).collect();
                self.add_equal(class, LINE_CHARS_MAX, recent);
            }
            Class::Branch => {
                let count = research.branches().len();
                let newest = count.saturating_sub(NEWEST)..count;
                newest.for_each(|at| self.listed(class, at, at, count));
            }
            Class::Pattern | Class::Provider | Class::Count => self.add_counted(class),
            Class::State => self.state(),
            Class::Failure | Class::Mended | Class::File | Class::Change => self.work(class),
            Class::ContextItem | Class::Context | Class::Reference => self.saved(class),
        }
    }

    /// Adds what the client saved: context items, its summary of the conversation, and files
    /// without a known change.
    fn saved(&mut self, class: Class) {
        let (facts, saved) = (self.facts, &self.facts.saved);
        match class {
            Class::ContextItem => {
                for (place, one) in saved.items().iter().enumerate() {
                    let at = self.at(class, place, one.position);
                    let is_done = is_marked(facts, one.position, MarkKind::Done);
                    if !(is_done && &*one.category == TASK) {
                        let bytes = one.content.len().min(2 * LINE_CHARS_MAX);
                        self.item(Item { bytes, ..at });
                    }
                }
            }
            Class::Context => {
                if let Some((text, position)) = self.saved_words() {
                    self.text(class, 0, text, position);
                }
            }
            _ => {
                for (place, one) in saved.files().iter().enumerate() {
                    if !facts.work.files().any(|file| is_same_file(&one.path, &file.path)) {
                        let at = self.at(class, place, one.position);
                        self.item(Item { bytes: one.path.len(), ..at });
                    }
                }
            }
        }
    }

    /// Adds the latest passed tests and the latest commit of the chain.
    fn state(&mut self) {
        let work = &self.facts.work;
        let of_commit = work.commit().map(|commit| commit.position);
        let last = work.passed().map(|passed| passed.position).max(of_commit);
        if let Some(position) = last {
            let at = self.at(Class::State, 0, position);
            self.item(Item { bytes: LINE_CHARS_MAX, status: 100, ..at });
        }
    }

    /// Adds messages of the agent: the last one; of the others all or the marked ones, if they have
    /// content that still holds.
    fn answers(&mut self, is_all: bool) {
        let answers = self.facts.conversation.answers();
        let last = answers.len().saturating_sub(1);
        for (place, one) in answers.iter().enumerate() {
            let at = self.at(Class::Answer, place, one.position);
            let says = || !one.is_withdrawn() && !narration::without(&one.text).is_empty();
            if place == last || (is_all || at.mark.is_some()) && says() {
                self.item(Item { bytes: LINE_CHARS_MAX, ..at });
            }
        }
    }

    /// Adds the texts of the user and the caller.
    fn words(&mut self, class: Class) {
        let (facts, progress) = (self.facts, &self.facts.progress);
        let task = progress.task();
        let said = match class {
            Class::Task => task.map(|task| (task.text.as_str(), task.position)),
            Class::Goal => facts.research.goal().map(|goal| (goal, Position(0))),
            Class::Summary => {
                facts.research.summary().map(|said| (said.text.as_str(), facts.position))
            }
            _ => None,
        };
        if let Some((text, position)) = said.filter(|(text, _)| !text.is_empty()) {
            self.text(class, 0, text, position);
        }
        let instructions = progress.instructions();
        let words: Vec<_> = match class {
            Class::Instruction => instructions.whole().enumerate().collect(),
            Class::OlderInstruction => instructions.lines().enumerate().collect(),
            _ => Vec::new(),
        };
        for (place, word) in words {
            // The first instruction is the task; of equal ones the latest is shown.
            let is_task = task.is_some_and(|task| task.position == word.position);
            let later = || progress.instructions().whole().rev();
            let later = || later().take_while(|other| other.position > word.position);
            if !is_task && !later().any(|other| other.text == word.text) {
                self.text(class, place, &word.text, word.position);
            }
        }
    }

    fn findings(&mut self) {
        for (place, one) in self.facts.findings.found().iter().enumerate() {
            if !one.is_idle {
                self.judged(place, one);
            }
        }
    }

    /// Adds the lists that are computed for a view, most frequent first.
    fn add_counted(&mut self, class: Class) {
        let outcomes = &self.facts.outcomes;
        let count = match class {
            Class::Pattern => {
                self.patterns = patterns(outcomes);
                self.patterns.len()
            }
            Class::Provider => {
                self.providers = providers(outcomes);
                self.providers.len()
            }
            _ => {
                self.counts = counts(self.facts);
                self.counts.len()
            }
        };
        (0..count).for_each(|at| self.listed(class, at, count - at, count));
    }

    /// Adds items of equal price at their positions.
    fn add_equal(&mut self, class: Class, bytes: usize, positions: Vec<Position>) {
        for (place, position) in positions.into_iter().enumerate() {
            self.item(Item { bytes, ..self.at(class, place, position) });
        }
    }

    fn work(&mut self, class: Class) {
        let work = &self.facts.work;
        let line = |bytes: usize| bytes.min(2 * LINE_CHARS_MAX);
        let of_command = |one: &CommandFact| (line(one.line.len() + one.error.len()), one.last);
        let known: Vec<(usize, Position)> = match class {
            Class::Failure => work.failing().map(of_command).collect(),
            Class::Mended => work.mended().map(of_command).collect(),
            Class::File => work.files().map(|file| (file.path.len(), file.last)).collect(),
            _ => {
                let bytes =
                    |one: &Effect| line(one.tool.len() + one.input.len() + one.result.len());
                work.effects().map(|one| (bytes(one), one.position)).collect()
            }
        };
        let failed: Vec<bool> = match class {
            Class::Change => work.effects().map(|one| one.failed).collect(),
            _ => Vec::new(),
        };
        for (place, (bytes, position)) in known.into_iter().enumerate() {
            let in_vain = failed.get(place).copied().unwrap_or_default();
            let at = self.at(class, place, position);
            let status = if in_vain { at.status * IN_VAIN_PERCENT / 100 } else { at.status };
            self.item(Item { bytes, status, ..at });
        }
    }

    /// Adds unfinished steps, the next one last as the newest, or finished ones in order.
    fn plan(&mut self, class: Class) {
        let Some(plan) = self.facts.progress.plan() else { return };
        let count = plan.steps.len();
        let done = class == Class::PlanDone;
        let places = plan.steps.iter().enumerate().filter(|(_, step)| is_done(step) == done);
        let mut places: Vec<usize> = places.map(|(at, _)| at).collect();
        if !done {
            places.reverse();
        }
        places.into_iter().for_each(|at| self.listed(class, at, at, count));
    }

    /// Adds the best and the newest items of a list.
    fn add_list(&mut self, class: Class) {
        let (facts, research) = (self.facts, &self.facts.research);
        let (pool, newest): (&[Finding], Vec<usize>) = match class {
            Class::Gap => {
                let open = research.gaps_open().iter().rev().take(NEWEST);
                (facts.findings.gaps(), open.copied().collect())
            }
            Class::Source => {
                let count = research.sources().len();
                (facts.findings.sources(), (count.saturating_sub(NEWEST)..count).collect())
            }
            _ => {
                let count = research.rejected().len();
                (facts.findings.ruled_out(), (count.saturating_sub(NEWEST)..count).collect())
            }
        };
        let listed = |one: &Finding| match one.said {
            FoundIn::Listed(ordinal) => Some(ordinal),
            FoundIn::Step(_) | FoundIn::At(_) => None,
        };
        let mut of_list: Vec<(usize, Option<&Finding>)> =
            pool.iter().filter_map(|one| Some((listed(one)?, Some(one)))).collect();
        of_list.extend(newest.into_iter().map(|ordinal| (ordinal, None)));
        // Of a pair the scored one comes first.
        of_list.sort_by_key(|(ordinal, judged)| (*ordinal, judged.is_none()));
        of_list.dedup_by_key(|(ordinal, _)| *ordinal);
        let count = match class {
            Class::Gap => research.gaps().len(),
            Class::Source => research.sources().len(),
            _ => research.rejected().len(),
        };
        for (ordinal, judged) in of_list {
            let base = item(class, ordinal, (ordinal, count));
            let Some(one) = judged else {
                // An item without a score is worth little.
                self.item(Item { worth: WORTH / 5, bytes: LINE_CHARS_MAX, ..base });
                continue;
            };
            let url = research.sources().get(ordinal).filter(|_| class == Class::Source);
            let bytes = one.text.len() + url.map_or(0, |source| source.url.len());
            self.item(Item { worth: one.score, bytes, ..base });
        }
    }

    fn said(&mut self, class: Class, lengths: impl Iterator<Item = usize>) {
        let lengths: Vec<usize> = lengths.collect();
        let count = lengths.len();
        for (place, bytes) in lengths.into_iter().enumerate() {
            self.item(Item { bytes, ..item(class, place, (place, count)) });
        }
    }

    fn text(&mut self, class: Class, place: usize, text: &str, position: Position) {
        let bytes = text.len().min(LINE_CHARS_MAX);
        self.item(Item { bytes, ..self.at(class, place, position) });
    }

    fn listed(&mut self, class: Class, place: usize, at: usize, count: usize) {
        self.item(Item { bytes: 80, ..item(class, place, (at, count)) });
    }

    /// Adds a finding, with the item whose text contains it.
    fn judged(&mut self, place: usize, one: &Finding) {
        let (research, talk) = (&self.facts.research, &self.facts.conversation);
        let steps = research.steps();
        let (position, inside) = match one.said {
            FoundIn::Step(step) => {
                let last = step.checked_sub(steps.len() - research.full().count());
                let place = steps.get(step).map_or(Position(0), |step| step.position);
                let begins = |step: &&ResearchStep| {
                    step.line.contains(&*one.text)
                        || one.text.starts_with(step.line.trim_end_matches(ELLIPSIS))
                };
                let line = steps.get(step).filter(begins).map(|_| (Class::StepLine, step));
                (place, last.map(|at| (Class::LastStep, at)).or(line))
            }
            FoundIn::At(position) => {
                let answer = talk.answers().binary_search_by_key(&position, |one| one.position);
                let context = self.saved_words().filter(|(_, at)| *at == position);
                let answer = answer.ok().map(|at| (Class::Answer, at));
                (position, answer.or(context.map(|_| (Class::Context, 0))))
            }
            FoundIn::Listed(_) => (Position(0), None),
        };
        let (worth, bytes, signature) = (one.score, one.text.len(), Some(one.signature));
        let at = self.at(Class::Finding, place, position);
        self.item(Item { worth, bytes, signature, inside, ..at });
    }

    /// Builds an item at a position of the session, with the mark of its event.
    fn at(&self, class: Class, place: usize, position: Position) -> Item {
        let share = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
        let made = item(class, place, (share(position.0), share(self.facts.position.0)));
        let mark = important(self.facts, position);
        let is_wrong = class != Class::Task && is_marked(self.facts, position, MarkKind::Wrong);
        let status = if is_wrong { 0 } else { made.status };
        let is_earlier = self.facts.place(position).0.is_some();
        let status = if is_earlier { status * EARLIER_PERCENT / 100 } else { status };
        Item { position: position.0, mark, status, ..made }
    }

    fn item(&mut self, item: Item) {
        pace::step();
        if item.status == 0 {
            return;
        }
        if let Some(count) = self.counts_of.get_mut(item.class as usize) {
            *count += 1;
        }
        self.items.push(item);
    }

    /// Returns the number of items of a class.
    pub(super) fn count(&self, class: Class) -> usize {
        self.counts_of.get(class as usize).copied().unwrap_or_default()
    }

    /// Keeps the items of a class that pass a test, as if no others existed.
    pub(super) fn retain(&mut self, class: Class, wanted: impl Fn(&Item) -> bool) {
        self.items.retain(|item| item.class != class || wanted(item));
        let left = self.items.iter().filter(|item| item.class == class).count();
        if let Some(count) = self.counts_of.get_mut(class as usize) {
            *count = left;
        }
    }

    /// Keeps the items of a class whose events a reader has not seen; `is_shown` returns true for a
    /// seen position.
    pub(super) fn retain_unshown(&mut self, class: Class, is_shown: impl Fn(Position) -> bool) {
        let facts = self.facts;
        let steps = facts.research.steps();
        let first_full = steps.len() - facts.research.full().count();
        let of_step = |place: usize| steps.get(place).map(|step| step.position);
        let plan = facts.progress.plan().map(|plan| plan.position);
        self.retain(class, |item| {
            let position = match class {
                Class::StepLine => of_step(item.place),
                Class::LastStep => of_step(first_full + item.place),
                Class::Plan | Class::PlanDone => plan,
                // These classes summarize many events, or none.
                Class::Goal
                | Class::Next
                | Class::Gap
                | Class::Source
                | Class::Rejection
                | Class::Done
                | Class::Tried
                | Class::Failed
                | Class::Branch => None,
                _ => Some(Position(item.position)),
            };
            let Some((None, at)) = position.map(|at| facts.place(at)) else { return true };
            !is_shown(at)
        });
    }

    /// Removes the findings that these steps contain.
    pub(super) fn without_findings_of(&mut self, steps: &[usize]) {
        let found = self.facts.findings.found();
        let is_shown = |item: &Item| {
            matches!(found.get(item.place).map(|one| one.said),
                Some(FoundIn::Step(step)) if steps.contains(&step))
        };
        self.retain(Class::Finding, |item| !is_shown(item));
    }

    /// Removes the lines of steps that are shown in full.
    pub(super) fn without_lines_of_last_steps(&mut self) {
        let steps = self.facts.research.steps().len();
        self.lines_hidden = self.facts.research.full().count();
        let first = steps - self.lines_hidden;
        self.retain(Class::StepLine, |item| item.place < first);
    }

    /// Returns a text in a form: its first line, its ends within `bytes_max`, or all of it.
    pub(super) fn formed(&self, text: &str, form: Form, bytes_max: usize) -> Cut {
        formed(text, form, bytes_max, self.line_chars)
    }

    /// Returns a user's text in a form; requirements stay, within a quarter of the budget.
    pub(super) fn bounded(&self, text: &str, form: Form, bytes_max: usize) -> Cut {
        match form {
            Form::Line => {
                let cut = within(text, self.line_chars, self.bound_bytes.min(bytes_max));
                Cut { text: one_line(&cut.text, usize::MAX), ..cut }
            }
            Form::Short => within(text, bytes_max, self.bound_bytes),
            Form::Part(bytes) => within(text, bytes_max.max(bytes as usize), self.bound_bytes),
            _ => Cut { text: text.to_owned(), truncated: false },
        }
    }

    /// Returns the client's summary of the conversation: the saved one, else the one of its latest
    /// compaction.
    pub(super) fn saved_words(&self) -> Option<(&'a str, Position)> {
        let facts = self.facts;
        let saved = facts.saved.context().map(|said| (&*said.text, said.position));
        saved.or_else(|| {
            let last = facts.compactions.latest().next_back()?;
            let is_own = last.trigger.as_deref() == Some("continuation");
            let text = last.summary.as_deref().filter(|_| !is_own)?;
            Some((text, last.position))
        })
    }

    /// Returns the step of the plan at that index, in a form.
    pub(super) fn plan_step(&self, place: usize, form: Form) -> Option<PlanStepOut> {
        let step = self.facts.progress.plan()?.steps.get(place)?;
        let text = self.formed(&step.text, form, TEXT_BYTES).text;
        Some(PlanStepOut { text, state: step.state.clone() })
    }
}

/// Returns true if a path may be of a file whose path relative to the session is `below`.
pub(super) fn is_same_file(path: &str, below: &str) -> bool {
    // Without a known workspace, an absolute and a relative path may be of one file.
    let before = path.strip_suffix(below);
    before
        .is_some_and(|before| before.is_empty() || before.starts_with('/') && before.ends_with('/'))
}

/// Returns the bytes of a step's texts.
pub(super) fn bytes_of(body: &StepBody) -> usize {
    let rejected: usize = body.rejected.iter().map(String::len).sum();
    body.description.len() + body.reasoning.as_ref().map_or(0, String::len) + rejected
}

/// Builds an item at index `at` of a list with `count` items.
fn item(class: Class, place: usize, (at, count): (usize, usize)) -> Item {
    let recency = at.min(count) * 100 / count.max(1);
    Item {
        class,
        place,
        bytes: 0,
        worth: WORTH,
        recency,
        status: 100,
        mark: None,
        signature: None,
        inside: None,
        position: 0,
    }
}

/// Returns the next steps: of the last outcome, else of the plan in a view without one.
fn next<'a>(facts: &'a Facts, recipe: &Recipe<'_>) -> Vec<&'a str> {
    let next: Vec<&str> = facts.progress.next().map(String::as_str).collect();
    if !next.is_empty() || recipe.rows.iter().any(|row| row.class == Class::Plan) {
        return next;
    }
    let steps = facts.progress.plan().into_iter().flat_map(|plan| &plan.steps);
    let open = steps.filter(|step| !is_done(step)).map(|step| step.text.as_str());
    open.take(NEXT_OF_PLAN).collect()
}

/// Returns the number of events by type, most frequent first.
fn counts(facts: &Facts) -> Vec<(String, u64)> {
    let talk = &facts.conversation;
    let mut counts: Vec<(String, u64)> =
        talk.counts.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
    if talk.other > 0 {
        counts.push(("other".to_owned(), talk.other));
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

/// Returns a text in a form: its first `line_chars` characters, its ends within `bytes_max` or the
/// form's bytes, or all of it.
#[must_use]
pub(super) fn formed(text: &str, form: Form, bytes_max: usize, line_chars: usize) -> Cut {
    let bytes_max = match form {
        Form::Part(bytes) => bytes_max.max(bytes as usize),
        _ => bytes_max,
    };
    match form {
        Form::Line => {
            let line = one_line(text, line_chars);
            Cut { truncated: line.ends_with(ELLIPSIS) && line.len() < text.len(), text: line }
        }
        Form::Short | Form::Part(_) if text.len() > bytes_max => {
            let head =
                text.get(..whole_graphemes(text, text.floor_char_boundary(bytes_max * 2 / 3)));
            let from = text.ceil_char_boundary(text.len() - bytes_max / 3);
            let tail = text.get(from..).unwrap_or_default();
            // A partial word has no meaning.
            let head = head
                .map(|head| head.rsplit_once(char::is_whitespace).map_or(head, |(head, _)| head));
            let tail = tail.split_once(char::is_whitespace).map_or(tail, |(_, rest)| rest);
            let head = head.unwrap_or_default().trim_end();
            let left_out = text.len() - head.len() - tail.len();
            let text =
                format!("{head} {ELLIPSIS}[{left_out} bytes]{ELLIPSIS} {}", tail.trim_start());
            Cut { text, truncated: true }
        }
        _ => Cut { text: text.to_owned(), truncated: false },
    }
}
