//! Converts the facts of a session into items for a selection, a bounded number for any length of
//! session, and formats their texts. It must not choose items: recipes and `select` do.

use std::cell::Cell;

use super::{
    budget::{ShortenedText, TOKEN_BYTES},
    narration,
    outcomes::{outcomes_by_tool, recurring_failures},
    priority::{TASK, has_mark, mark_importance},
    requirements::{shorten_request, standing_rules},
    results::{RecurringNames, strip_wrapper},
    select::{Class, INDISPENSABLE_STATUS, Item, ItemForm, Recipe, RecipeRow},
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
        CommandFact, EffectFact, Facts, Finding, FindingSource, ResearchStep, body::StepBody,
        introduced_summary, is_done,
    },
};

/// Percentage of its worth that an item of an earlier session of the chain keeps.
const EARLIER_PERCENT: usize = 40;
/// The same for what sets a rule: it never takes the place of a request of the session itself.
const RULE_PERCENT: usize = INDISPENSABLE_STATUS - 1;
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
/// Most calls without a result that are offered.
const BEGUN_MAX: usize = 3;
/// Most recurring names that add to a result's worth.
const RECURRING_MAX: usize = 6;

/// Facts of a session as items.
pub(super) struct GatheredItems<'a> {
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

impl<'a> GatheredItems<'a> {
    /// Gathers the items of a recipe for a token budget.
    pub(super) fn gather_for_tokens(
        facts: &'a Facts,
        recipe: &Recipe<'_>,
        tokens_max: usize,
    ) -> Self {
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
            next: next_steps(facts, recipe),
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
            known.add_class(row.class, recipe, bytes);
        }
        known.remove_resolved_results();
        known
    }

    /// Removes the results of failed commands that succeeded later.
    fn remove_resolved_results(&mut self) {
        let facts = self.facts;
        if facts.work.resolved_commands().next().is_none() {
            return;
        }
        let outputs: Vec<_> = facts.progress.outputs().collect();
        self.retain(Class::Result, |item| {
            !outputs.get(item.index).is_some_and(|output| facts.work.is_resolved(output))
        });
    }

    fn add_class(&mut self, class: Class, recipe: &Recipe<'_>, bytes: usize) {
        let (facts, progress) = (self.facts, &self.facts.progress);
        let research = &facts.research;
        match class {
            Class::Task
            | Class::Goal
            | Class::Summary
            | Class::Instruction
            | Class::OlderInstruction => self.add_texts(class),
            Class::Next => {
                let count = self.next.len();
                // The first step is the most urgent, and the newest item is served first.
                (0..count).rev().for_each(|at| self.add_list_item(class, at, at, count));
            }
            Class::Plan | Class::PlanDone => self.add_plan(class),
            Class::LastStep => {
                let count = research.full_steps().count();
                (0..count).for_each(|at| self.add_list_item(class, at, at, count));
            }
            Class::StepLine => {
                let steps = research.steps().len();
                let lines = (bytes * LINES_OF_KILOBYTE / 1_024).max(LINES_MIN);
                for at in steps.saturating_sub(lines)..steps {
                    // One price for all, because an index is in order.
                    self.push_item(Item { bytes: 150, ..new_item(class, at, (at, steps)) });
                }
            }
            Class::Finding => self.add_findings(),
            Class::Rejection | Class::Gap | Class::Source => self.add_list(class),
            Class::Done => self.add_items_by_length(class, progress.successes().map(String::len)),
            Class::Tried => self.add_items_by_length(class, progress.attempts().map(String::len)),
            Class::Failed => self.add_items_by_length(class, progress.failures().map(String::len)),
            Class::Result => {
                let latest = progress.outputs().count().saturating_sub(LATEST_RESULTS);
                for (index, one) in progress.outputs().enumerate() {
                    // A file that can be read again is shown only among the latest results.
                    let is_file = self.names.is_rereadable_file(one);
                    if is_file && index < latest {
                        continue;
                    }
                    let recurring =
                        self.names.count_in(&one.text) + self.names.count_in(&one.input);
                    let is_silent = one.ended.is_empty() && strip_wrapper(&one.text).is_empty();
                    let share = if is_silent { 4 } else { 2 };
                    let worth = WORTH / share + WORTH / 4 * recurring.min(RECURRING_MAX);
                    let at = self.item_at(class, index, one.position);
                    self.push_item(Item { worth, bytes: 2 * LINE_CHARS_MAX, ..at });
                }
            }
            Class::Answer => self.add_answers(recipe.newest.contains(&class)),
            Class::Event => {
                // One price for all, because events are in order.
                let recent = facts.conversation.recent.iter().map(|line| line.position).collect();
                self.add_equally_priced(class, LINE_CHARS_MAX, recent);
            }
            Class::Branch => {
                let count = research.branches().len();
                let newest = count.saturating_sub(NEWEST)..count;
                newest.for_each(|at| self.add_list_item(class, at, at, count));
            }
            Class::Pattern | Class::Provider | Class::Count => self.add_computed_list(class),
            Class::State => self.add_state(),
            Class::Begun => {
                for (index, (position, ..)) in self.begun_calls().into_iter().enumerate() {
                    let at = self.item_at(class, index, position);
                    self.push_item(Item { bytes: LINE_CHARS_MAX, ..at });
                }
            }
            Class::Failure | Class::Mended | Class::File | Class::Change => self.add_work(class),
            Class::ContextItem | Class::Context | Class::Reference => self.add_saved(class),
        }
    }

    /// Adds what the client saved: context items, its summary of the conversation, and files
    /// without a known change.
    fn add_saved(&mut self, class: Class) {
        let (facts, saved) = (self.facts, &self.facts.saved);
        match class {
            Class::ContextItem => {
                for (index, one) in saved.items().iter().enumerate() {
                    let at = self.item_at(class, index, one.position);
                    let is_done = has_mark(facts, one.position, MarkKind::Done);
                    if !(is_done && &*one.category == TASK) {
                        let bytes = one.content.len().min(2 * LINE_CHARS_MAX);
                        self.push_item(Item { bytes, ..at });
                    }
                }
            }
            Class::Context => {
                if let Some((text, position)) = self.client_summary() {
                    self.add_text(class, 0, text, position);
                }
            }
            _ => {
                for (index, one) in saved.files().iter().enumerate() {
                    if !facts.work.files().any(|file| is_same_file(&one.path, &file.path)) {
                        let at = self.item_at(class, index, one.position);
                        self.push_item(Item { bytes: one.path.len(), ..at });
                    }
                }
            }
        }
    }

    /// Adds the latest passed tests and the latest commit of the chain.
    fn add_state(&mut self) {
        let work = &self.facts.work;
        let of_commit = work.commit().map(|commit| commit.position);
        let last = work.latest_passed_run().map(|passed| passed.position).max(of_commit);
        if let Some(position) = last {
            let at = self.item_at(Class::State, 0, position);
            self.push_item(Item { bytes: LINE_CHARS_MAX, status: 100, ..at });
        }
    }

    /// Returns the latest calls without a result so far, oldest first: position, tool and input.
    pub(super) fn begun_calls(&self) -> Vec<(Position, &'a str, &'a str)> {
        let mut calls: Vec<_> = self.facts.unfinished_calls().collect();
        calls.split_off(calls.len().saturating_sub(BEGUN_MAX))
    }

    /// Adds messages of the agent: the last one; of the others all or the marked ones, if they have
    /// content that still holds.
    fn add_answers(&mut self, is_all: bool) {
        let answers = self.facts.conversation.answers();
        let last = answers.len().saturating_sub(1);
        for (index, one) in answers.iter().enumerate() {
            let at = self.item_at(Class::Answer, index, one.position);
            let says =
                || !one.is_mostly_withdrawn() && !narration::remove_narration(&one.text).is_empty();
            if index == last || (is_all || at.mark.is_some()) && says() {
                self.push_item(Item { bytes: LINE_CHARS_MAX, ..at });
            }
        }
    }

    /// Adds the texts of the user and the caller.
    fn add_texts(&mut self, class: Class) {
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
            self.add_text(class, 0, text, position);
        }
        let instructions = progress.instructions();
        let words: Vec<_> = match class {
            Class::Instruction => instructions.recent_instructions().enumerate().collect(),
            Class::OlderInstruction => instructions.older_lines().enumerate().collect(),
            _ => Vec::new(),
        };
        for (index, word) in words {
            // The first instruction is the task; of equal ones the latest is shown.
            let is_task = task.is_some_and(|task| task.position == word.position);
            let later = || progress.instructions().recent_instructions().rev();
            let later = || later().take_while(|other| other.position > word.position);
            if !is_task && !later().any(|other| other.text == word.text) {
                self.add_text(class, index, &word.text, word.position);
            }
        }
    }

    fn add_findings(&mut self) {
        for (index, one) in self.facts.findings.sentences().iter().enumerate() {
            if !one.is_idle {
                self.add_finding(index, one);
            }
        }
    }

    /// Adds the lists that are computed for a view, most frequent first.
    fn add_computed_list(&mut self, class: Class) {
        let outcomes = &self.facts.outcomes;
        let count = match class {
            Class::Pattern => {
                self.patterns = recurring_failures(outcomes);
                self.patterns.len()
            }
            Class::Provider => {
                self.providers = outcomes_by_tool(outcomes);
                self.providers.len()
            }
            _ => {
                self.counts = count_by_type(self.facts);
                self.counts.len()
            }
        };
        (0..count).for_each(|at| self.add_list_item(class, at, count - at, count));
    }

    /// Adds items of equal price at their positions.
    fn add_equally_priced(&mut self, class: Class, bytes: usize, positions: Vec<Position>) {
        for (index, position) in positions.into_iter().enumerate() {
            self.push_item(Item { bytes, ..self.item_at(class, index, position) });
        }
    }

    fn add_work(&mut self, class: Class) {
        let work = &self.facts.work;
        let line = |bytes: usize| bytes.min(2 * LINE_CHARS_MAX);
        let of_command = |one: &CommandFact| (line(one.line.len() + one.error.len()), one.last);
        let known: Vec<(usize, Position)> = match class {
            Class::Failure => work.failing_commands().map(of_command).collect(),
            Class::Mended => work.resolved_commands().map(of_command).collect(),
            Class::File => work.files().map(|file| (file.path.len(), file.last)).collect(),
            _ => {
                let bytes =
                    |one: &EffectFact| line(one.tool.len() + one.input.len() + one.result.len());
                work.effects().map(|one| (bytes(one), one.position)).collect()
            }
        };
        let failed: Vec<bool> = match class {
            Class::Change => work.effects().map(|one| one.failed).collect(),
            _ => Vec::new(),
        };
        for (index, (bytes, position)) in known.into_iter().enumerate() {
            let in_vain = failed.get(index).copied().unwrap_or_default();
            let at = self.item_at(class, index, position);
            let status = if in_vain { at.status * IN_VAIN_PERCENT / 100 } else { at.status };
            self.push_item(Item { bytes, status, ..at });
        }
    }

    /// Adds unfinished steps, the next one last as the newest, or finished ones in order.
    fn add_plan(&mut self, class: Class) {
        let Some(plan) = self.facts.progress.plan() else { return };
        let count = plan.steps.len();
        let done = class == Class::PlanDone;
        let indexes = plan.steps.iter().enumerate().filter(|(_, step)| is_done(step) == done);
        let mut indexes: Vec<usize> = indexes.map(|(at, _)| at).collect();
        if !done {
            indexes.reverse();
        }
        indexes.into_iter().for_each(|at| self.add_list_item(class, at, at, count));
    }

    /// Adds the best and the newest items of a list.
    fn add_list(&mut self, class: Class) {
        let (facts, research) = (self.facts, &self.facts.research);
        let (pool, newest): (&[Finding], Vec<usize>) = match class {
            Class::Gap => {
                let open = research.open_gaps().iter().rev().take(NEWEST);
                (facts.findings.gaps(), open.copied().collect())
            }
            Class::Source => {
                let count = research.sources().len();
                (facts.findings.sources(), (count.saturating_sub(NEWEST)..count).collect())
            }
            _ => {
                let count = research.rejected_approaches().len();
                (
                    facts.findings.rejected_approaches(),
                    (count.saturating_sub(NEWEST)..count).collect(),
                )
            }
        };
        let listed = |one: &Finding| match one.source {
            FindingSource::Listed(ordinal) => Some(ordinal),
            FindingSource::Step(_) | FindingSource::At(_) => None,
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
            _ => research.rejected_approaches().len(),
        };
        for (ordinal, judged) in of_list {
            let base = new_item(class, ordinal, (ordinal, count));
            let Some(one) = judged else {
                // An item without a score is worth little.
                self.push_item(Item { worth: WORTH / 5, bytes: LINE_CHARS_MAX, ..base });
                continue;
            };
            let url = research.sources().get(ordinal).filter(|_| class == Class::Source);
            let bytes = one.text.len() + url.map_or(0, |source| source.url.len());
            self.push_item(Item { worth: one.score, bytes, ..base });
        }
    }

    fn add_items_by_length(&mut self, class: Class, lengths: impl Iterator<Item = usize>) {
        let lengths: Vec<usize> = lengths.collect();
        let count = lengths.len();
        for (index, bytes) in lengths.into_iter().enumerate() {
            self.push_item(Item { bytes, ..new_item(class, index, (index, count)) });
        }
    }

    fn add_text(&mut self, class: Class, index: usize, text: &str, position: Position) {
        let bytes = text.len().min(LINE_CHARS_MAX);
        let mut item = self.item_at(class, index, position);
        let is_said = matches!(class, Class::Task | Class::Instruction | Class::OlderInstruction);
        if is_said && (1..100).contains(&item.status) && standing_rules(text).next().is_some() {
            // A rule that the user set holds in the sessions that follow.
            item.status = RULE_PERCENT;
        }
        self.push_item(Item { bytes, ..item });
    }

    fn add_list_item(&mut self, class: Class, index: usize, at: usize, count: usize) {
        self.push_item(Item { bytes: 80, ..new_item(class, index, (at, count)) });
    }

    /// Adds a finding, with the item whose text contains it.
    fn add_finding(&mut self, index: usize, one: &Finding) {
        let (research, talk) = (&self.facts.research, &self.facts.conversation);
        let steps = research.steps();
        let (position, inside) = match one.source {
            FindingSource::Step(step) => {
                let last = step.checked_sub(steps.len() - research.full_steps().count());
                let at_step = steps.get(step).map_or(Position(0), |step| step.position);
                let begins = |step: &&ResearchStep| {
                    step.line.contains(&*one.text)
                        || one.text.starts_with(step.line.trim_end_matches(ELLIPSIS))
                };
                let line = steps.get(step).filter(begins).map(|_| (Class::StepLine, step));
                (at_step, last.map(|at| (Class::LastStep, at)).or(line))
            }
            FindingSource::At(position) => {
                let answer = talk.answers().binary_search_by_key(&position, |one| one.position);
                let context = self.client_summary().filter(|(_, at)| *at == position);
                let answer = answer.ok().map(|at| (Class::Answer, at));
                (position, answer.or(context.map(|_| (Class::Context, 0))))
            }
            FindingSource::Listed(_) => (Position(0), None),
        };
        let (worth, bytes, signature) = (one.score, one.text.len(), Some(one.signature));
        let at = self.item_at(Class::Finding, index, position);
        self.push_item(Item { worth, bytes, signature, inside, ..at });
    }

    /// Builds an item at a position of the session, with the mark of its event.
    fn item_at(&self, class: Class, index: usize, position: Position) -> Item {
        let share = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
        let made = new_item(class, index, (share(position.0), share(self.facts.position.0)));
        let mark = mark_importance(self.facts, position);
        let is_wrong = class != Class::Task && has_mark(self.facts, position, MarkKind::Wrong);
        let status = if is_wrong { 0 } else { made.status };
        let is_earlier = self.facts.to_session_position(position).0.is_some();
        let status = if is_earlier { status * EARLIER_PERCENT / 100 } else { status };
        Item { position: position.0, mark, status, ..made }
    }

    fn push_item(&mut self, item: Item) {
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
        let first_full = steps.len() - facts.research.full_steps().count();
        let of_step = |index: usize| steps.get(index).map(|step| step.position);
        let plan = facts.progress.plan().map(|plan| plan.position);
        self.retain(class, |item| {
            let position = match class {
                Class::StepLine => of_step(item.index),
                Class::LastStep => of_step(first_full + item.index),
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
            let Some((None, at)) = position.map(|at| facts.to_session_position(at)) else {
                return true;
            };
            !is_shown(at)
        });
    }

    /// Removes the findings that these steps contain.
    pub(super) fn remove_findings_of_steps(&mut self, steps: &[usize]) {
        let found = self.facts.findings.sentences();
        let is_shown = |item: &Item| {
            matches!(found.get(item.index).map(|one| one.source),
                Some(FindingSource::Step(step)) if steps.contains(&step))
        };
        self.retain(Class::Finding, |item| !is_shown(item));
    }

    /// Removes the lines of steps that are shown in full.
    pub(super) fn remove_lines_of_last_steps(&mut self) {
        let steps = self.facts.research.steps().len();
        self.lines_hidden = self.facts.research.full_steps().count();
        let first = steps - self.lines_hidden;
        self.retain(Class::StepLine, |item| item.index < first);
    }

    /// Returns a text in a form: its first line, its ends within `bytes_max`, or all of it.
    pub(super) fn shorten_to_form(
        &self,
        text: &str,
        form: ItemForm,
        bytes_max: usize,
    ) -> ShortenedText {
        shorten_to_form(text, form, bytes_max, self.line_chars)
    }

    /// Returns a user's text in a form; requirements stay, within a quarter of the budget.
    pub(super) fn shorten_user_text(
        &self,
        text: &str,
        form: ItemForm,
        bytes_max: usize,
    ) -> ShortenedText {
        match form {
            ItemForm::Line => {
                let cut = shorten_request(text, self.line_chars, self.bound_bytes.min(bytes_max));
                ShortenedText { text: one_line(&cut.text, usize::MAX), ..cut }
            }
            ItemForm::Short => shorten_request(text, bytes_max, self.bound_bytes),
            ItemForm::Part(bytes) => {
                shorten_request(text, bytes_max.max(bytes as usize), self.bound_bytes)
            }
            _ => ShortenedText { text: text.to_owned(), truncated: false },
        }
    }

    /// Returns the client's summary of the conversation: the saved one, else the one of its latest
    /// compaction.
    pub(super) fn client_summary(&self) -> Option<(&'a str, Position)> {
        let facts = self.facts;
        let saved = facts.saved.context();
        let saved = saved.map(|said| (introduced_summary(&said.text), said.position));
        saved.or_else(|| {
            let last = facts.compactions.latest().next_back()?;
            let is_own = last.trigger.as_deref() == Some("continuation");
            let text = last.summary.as_deref().filter(|_| !is_own)?;
            Some((introduced_summary(text), last.position))
        })
    }

    pub(super) fn plan_step(&self, index: usize, form: ItemForm) -> Option<PlanStepOut> {
        let step = self.facts.progress.plan()?.steps.get(index)?;
        let text = self.shorten_to_form(&step.text, form, TEXT_BYTES).text;
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
pub(super) fn step_text_bytes(body: &StepBody) -> usize {
    let rejected: usize = body.rejected.iter().map(String::len).sum();
    body.description.len() + body.reasoning.as_ref().map_or(0, String::len) + rejected
}

/// Builds an item at index `at` of a list with `count` items.
fn new_item(class: Class, index: usize, (at, count): (usize, usize)) -> Item {
    let recency = at.min(count) * 100 / count.max(1);
    Item {
        class,
        index,
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
fn next_steps<'a>(facts: &'a Facts, recipe: &Recipe<'_>) -> Vec<&'a str> {
    let next: Vec<&str> = facts.progress.next_steps().map(String::as_str).collect();
    if !next.is_empty() || recipe.rows.iter().any(|row| row.class == Class::Plan) {
        return next;
    }
    let steps = facts.progress.plan().into_iter().flat_map(|plan| &plan.steps);
    let open = steps.filter(|step| !is_done(step)).map(|step| step.text.as_str());
    open.take(NEXT_OF_PLAN).collect()
}

/// Returns the number of events by type, most frequent first.
fn count_by_type(facts: &Facts) -> Vec<(String, u64)> {
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
pub(super) fn shorten_to_form(
    text: &str,
    form: ItemForm,
    bytes_max: usize,
    line_chars: usize,
) -> ShortenedText {
    let bytes_max = match form {
        ItemForm::Part(bytes) => bytes_max.max(bytes as usize),
        _ => bytes_max,
    };
    match form {
        ItemForm::Line => {
            let line = one_line(text, line_chars);
            ShortenedText {
                truncated: line.ends_with(ELLIPSIS) && line.len() < text.len(),
                text: line,
            }
        }
        ItemForm::Short | ItemForm::Part(_) if text.len() > bytes_max => {
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
            ShortenedText { text, truncated: true }
        }
        _ => ShortenedText { text: text.to_owned(), truncated: false },
    }
}
