//! Formats selected items: the parts that several views share, and the number left out of each
//! class. It must not choose, and it must not depend on the price of a text.

use std::collections::{BTreeMap, HashMap};

use super::{
    budget::ShortenedText,
    call_text::format_call,
    gather::{ANSWER_BYTES, GatheredItems, TEXT_BYTES, step_text_bytes},
    lists::index_line,
    narration,
    results::strip_wrapper,
    select::{ChosenItem, Class, Item, ItemForm, Recipe, Selection, explain},
    step::{StepContext, shorten_step},
};
use crate::{
    api::{
        cursor::{PageCursor, ViewList},
        step::StepOfView,
        views::{PlanOut, ResultOut, WhyOut, WordOut},
    },
    event::{Position, text::one_line},
    projection::{
        CallOutput, CommandFact, EffectFact, FileFact, FileState, FindingSource, is_done,
    },
};

/// Most bytes of a step that is shown in full.
const WHOLE_BYTES_MAX: usize = 32 << 10;
/// Most characters of an item in an explanation.
const WHY_CHARS_MAX: usize = 80;
/// Most bytes of a command, an input or an error in the short form.
const INPUT_BYTES: usize = 200;
/// Most characters of a call without a result.
const BEGUN_CHARS: usize = 100;

/// Most characters of a change's result in one line.
const RESULT_CHARS_MAX: usize = 40;

/// Formats a failing command: the error, its position, and the number of failures.
fn format_failure(known: &GatheredItems<'_>, one: &CommandFact, form: ItemForm) -> String {
    let line = known.shorten_to_form(&one.line, form, INPUT_BYTES).text;
    let error = known.shorten_to_form(&one.error, form, INPUT_BYTES).text;
    let times = if one.failures > 1 { format!(", {} times", one.failures) } else { String::new() };
    let error = if error.is_empty() { "failed".to_owned() } else { error };
    format!("{line}: {error} ({}{times})", known.format_position(one.last))
}

/// Formats a file: the number and position of its changes, or how they were undone.
fn format_file(known: &GatheredItems<'_>, file: &FileFact) -> String {
    let (path, last) = (&file.path, known.format_position(file.last));
    match (file.state, file.times) {
        (FileState::Changed, 1) => format!("{path} {last}"),
        (FileState::Changed, times) => format!("{path} ({times} times, last {last})"),
        (state, _) => format!("{path} ({} {last})", state.as_str()),
    }
}

/// Formats a call that changed something: input, result and position.
fn format_change(known: &GatheredItems<'_>, one: &EffectFact, form: ItemForm) -> String {
    // The fold keeps ids and amounts in the input's line, so none of it can be cut.
    let input = &one.input;
    let result = match form {
        ItemForm::Line => one_line(&one.result, RESULT_CHARS_MAX),
        _ => known.shorten_to_form(&one.result, form, INPUT_BYTES).text,
    };
    let outcome = format_outcome(one, &result, " ");
    format!("{} {input}{outcome} ({})", one.tool, known.format_position(one.position))
}

/// Formats the outcome of a change after its call; `between` separates a failure from its result.
pub(super) fn format_outcome(one: &EffectFact, result: &str, between: &str) -> String {
    match (one.failed, result.is_empty()) {
        (false, true) => String::new(),
        (true, true) => " -> failed".to_owned(),
        (true, false) => format!(" -> failed{between}{result}"),
        (false, false) => format!(" -> {result}"),
    }
}

/// Formats a list under a heading, from the start of a line.
pub(super) fn format_list(heading: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    format!("{heading}:\n{lines}")
}

/// A class with items that a view left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedClass {
    /// Name of the class in the view.
    pub class: &'static str,
    /// Number of items that are not shown.
    pub count: u64,
    /// Cursor with which they can be listed.
    pub cursor: Option<PageCursor>,
}

/// Returns the number of left-out items of each class, by its name in the view.
pub(super) fn count_left_out(all: &[OmittedClass]) -> BTreeMap<String, u64> {
    all.iter().map(|one| (one.class.to_owned(), one.count)).collect()
}

impl GatheredItems<'_> {
    /// Formats a position, with the session's number for an earlier one.
    pub(super) fn format_position(&self, at: Position) -> String {
        match self.facts.to_session_position(at) {
            (None, position) => format!("@{position}"),
            (Some(number), position) => format!("S{number}@{position}"),
        }
    }

    /// Returns the text of an item on a separate line, with its step or position.
    pub(super) fn format_line(&self, class: Class, index: usize, form: ItemForm) -> String {
        let (facts, research) = (self.facts, &self.facts.research);
        let made = match class {
            Class::Finding => facts.findings.sentences().get(index).map(|one| match one.source {
                FindingSource::Step(step) => self.prefix_step(step, &one.text),
                FindingSource::At(position) => {
                    format!("{} {}", self.format_position(position), one.text)
                }
                FindingSource::Listed(_) => one.text.to_string(),
            }),
            Class::Rejection => research
                .rejected_approaches()
                .get(index)
                .map(|(step, text)| self.prefix_step(*step, text)),
            Class::Gap => {
                research.gaps().get(index).map(|gap| format!("({}) {}", gap.id, gap.description))
            }
            Class::Source => research.sources().get(index).map(|source| {
                let title = source.title.as_deref();
                let named = title.map_or_else(String::new, |title| format!("{title} — "));
                let step = source.step.map_or_else(String::new, |step| format!("[{step}] "));
                format!("{step}{named}{}", source.url)
            }),
            Class::Next => self.next.get(index).map(|text| (*text).to_owned()),
            Class::Done => facts.progress.successes().nth(index).cloned(),
            Class::Tried => facts.progress.attempts().nth(index).cloned(),
            Class::Failed => facts.progress.failures().nth(index).cloned(),
            Class::Branch => research.branches().get(index).map(|branch| {
                let from =
                    branch.from.map_or_else(String::new, |from| format!(" from step {from}"));
                format!("{}{from}, last step {}", branch.id, branch.last)
            }),
            Class::StepLine => research.steps().get(index).map(|step| match step.superseded_by {
                // The text of a superseded step no longer holds.
                Some(by) => self.prefix_step(index, &format!("taken back by step {by}")),
                None => self.prefix_step(index, &step.line),
            }),
            Class::Plan | Class::PlanDone => self.plan_step(index, form).map(|step| step.text),
            Class::Failure => {
                facts.work.failing_commands().nth(index).map(|one| format_failure(self, one, form))
            }
            Class::Mended => facts
                .work
                .resolved_commands()
                .nth(index)
                .map(|one| self.shorten_to_form(&one.line, form, INPUT_BYTES).text),
            Class::File => facts.work.files().nth(index).map(|one| format_file(self, one)),
            Class::Result => self.tool_result(index, form).map(|(one, _)| {
                let ended = self.call_status(index);
                let mark = if ended.is_empty() { "" } else { ": " };
                format!("{} -> {ended}{mark}{}", format_call(&one.tool, &one.input), one.text)
            }),
            Class::Begun => {
                let call = self.begun_calls().get(index).copied();
                call.map(|(_, tool, input)| one_line(&format_call(tool, input), BEGUN_CHARS))
            }
            Class::Change => {
                facts.work.effects().nth(index).map(|one| format_change(self, one, form))
            }
            _ => self.quote_item(class, index, form).map(|quote| quote.text),
        };
        made.unwrap_or_default()
    }

    /// Returns the position of the step or message that contains an item.
    pub(super) fn item_position(&self, item: &Item) -> Option<Position> {
        let research = &self.facts.research;
        let numbered = |number: Option<u64>| research.find_step(number?, None);
        let step = match item.class {
            Class::Gap => numbered(research.gaps().get(item.index)?.opened_by)?,
            Class::Source => numbered(research.sources().get(item.index)?.step)?,
            Class::Rejection => research.rejected_approaches().get(item.index)?.0,
            _ => return Some(Position(item.position)),
        };
        research.steps().get(step).map(|step| step.position)
    }

    /// Returns true if the shown line of a finding's step, one of `lines`, contains it.
    pub(super) fn is_in_shown_line(&self, item: &Item, lines: &HashMap<usize, ItemForm>) -> bool {
        let found = self.facts.findings.sentences().get(item.index);
        let Some(found) = found.filter(|_| item.class == Class::Finding) else { return false };
        let FindingSource::Step(ordinal) = found.source else { return false };
        let line =
            lines.get(&ordinal).and_then(|form| index_line(&self.facts.research, ordinal, *form));
        line.is_some_and(|line| line.line.contains(&*found.text))
    }

    /// Prefixes a text with the number of its step.
    fn prefix_step(&self, ordinal: usize, text: &str) -> String {
        let research = &self.facts.research;
        let Some(step) = research.steps().get(ordinal) else { return text.to_owned() };
        if let (Some(_), _) = self.facts.to_session_position(step.position) {
            // Steps of different sessions may have equal numbers.
            return format!("{} {text}", self.format_position(step.position));
        }
        match research.branch_of_step(step) {
            Some(branch) => format!("[{}@{}] {text}", step.number, one_line(&branch.id, 16)),
            None => format!("[{}] {text}", step.number),
        }
    }

    /// Returns the text of an item that is a quotation, in a form.
    pub(super) fn quote_item(&self, class: Class, index: usize, form: ItemForm) -> Option<WordOut> {
        let (facts, progress) = (self.facts, &self.facts.progress);
        let quote = |ShortenedText { text, truncated }: ShortenedText, position| {
            Some(WordOut { text, position, truncated })
        };
        let said = |text: &str, position: Option<Position>, bytes_max: usize| {
            quote(self.shorten_to_form(text, form, bytes_max), position)
        };
        let typed = |text: &str, position: Position, bytes_max: usize| {
            quote(self.shorten_user_text(text, form, bytes_max), Some(position))
        };
        match class {
            Class::Instruction => {
                let word = progress.instructions().recent_instructions().nth(index)?;
                typed(&word.text_with_count(), word.position, TEXT_BYTES)
            }
            Class::OlderInstruction => {
                let word = progress.instructions().older_lines().nth(index)?;
                typed(&word.text_with_count(), word.position, TEXT_BYTES)
            }
            Class::Task => {
                let task = progress.task()?;
                typed(&task.text, task.position, 2 * TEXT_BYTES)
            }
            Class::Goal => said(facts.research.goal()?, None, 2 * TEXT_BYTES),
            Class::Summary => said(&facts.research.summary()?.text, None, 2 * TEXT_BYTES),
            Class::Answer => {
                let answers = facts.conversation.answers();
                let answer = answers.get(index)?;
                let is_last = index + 1 == answers.len();
                let marked = answer.text_with_marks();
                let told = (!is_last).then(|| narration::remove_narration(&marked));
                let text = told.as_deref().unwrap_or(&marked);
                said(text, Some(answer.position), ANSWER_BYTES)
            }
            Class::Event => {
                let line = facts.conversation.recent.get(index)?;
                said(&line.text, Some(line.position), TEXT_BYTES)
            }
            _ => None,
        }
    }

    pub(super) fn last_step(&self, index: usize, form: ItemForm) -> Option<StepOfView> {
        let (step, body, at) = self.facts.research.full_steps().nth(index)?;
        // A step of megabytes is read by its number: the cost of a view must not depend on it.
        let huge = form == ItemForm::Whole && step_text_bytes(body) > WHOLE_BYTES_MAX;
        let form = if huge { ItemForm::Short } else { form };
        let superseded_by = step.superseded_by;
        let context = StepContext { position: step.position, at, superseded_by };
        Some(shorten_step(body, context, form, (self.step_bytes, self.line_chars)))
    }

    /// Returns a tool's result in a form, and true if its input or text is cut.
    pub(super) fn tool_result(&self, index: usize, form: ItemForm) -> Option<(ResultOut, bool)> {
        let output = self.facts.progress.outputs().nth(index)?;
        let input = self.shorten_to_form(&output.input, form, INPUT_BYTES);
        let text = self.result_text(output, form);
        let files = self.facts.work.files().filter(|file| file.last > output.position);
        let changed = files.filter(|file| output.reads.contains(&file.path)).map(|file| file.last);
        let is_cut = input.truncated || text.truncated;
        let shown = ResultOut {
            position: output.position,
            tool: output.tool.clone(),
            input: input.text,
            text: text.text,
            failed: !output.ended.is_empty(),
            changed_at: changed.max(),
        };
        Some((shown, is_cut))
    }

    /// Returns how a call ended, in one word, if it did not succeed: failed, refused or
    /// interrupted; else an empty text.
    pub(super) fn call_status(&self, index: usize) -> &'static str {
        self.facts.progress.outputs().nth(index).map_or("", |output| output.ended)
    }

    /// Returns the text of a result: all of it if it is short or the form is long, else its most
    /// useful line; for an irrelevant file that can be read again, its number of lines.
    fn result_text(&self, output: &CallOutput, form: ItemForm) -> ShortenedText {
        let text = strip_wrapper(&output.text);
        if self.names.is_rereadable_file(output) {
            let text = format!("{} lines", text.lines().count());
            return ShortenedText { text, truncated: true };
        }
        let is_line = match form {
            ItemForm::Line => text.len() > self.line_chars || text.contains('\n'),
            ItemForm::Short => text.len() > TEXT_BYTES,
            ItemForm::Part(_) | ItemForm::Bare | ItemForm::Squeezed | ItemForm::Whole => false,
        };
        if is_line {
            let text = one_line(self.names.most_useful_line(text), 2 * self.line_chars);
            return ShortenedText { text, truncated: true };
        }
        match form {
            ItemForm::Part(_) => self.shorten_to_form(text, form, TEXT_BYTES),
            // One result must not use the budget of all others.
            _ => self.shorten_to_form(text, ItemForm::Short, self.result_bytes.get()),
        }
    }

    /// Returns true if a selected result was cut to leave budget to others.
    pub(super) fn has_cut_results(&self, chosen: &Selection) -> bool {
        let outputs: Vec<_> = self.facts.progress.outputs().collect();
        chosen.indexes(Class::Result).iter().any(|(index, _)| {
            outputs.get(*index).is_some_and(|output| {
                strip_wrapper(&output.text).len() > self.result_bytes.get()
                    && !self.names.is_rereadable_file(output)
            })
        })
    }

    /// Returns the plan with its selected steps.
    pub(super) fn plan_view(&self, selection: &Selection) -> Option<PlanOut> {
        let plan = self.facts.progress.plan()?;
        let mut indexes = selection.indexes(Class::Plan);
        indexes.extend(selection.indexes(Class::PlanDone));
        indexes.sort_unstable_by_key(|(index, _)| *index);
        let steps = indexes.iter().filter_map(|(index, form)| self.plan_step(*index, *form));
        Some(PlanOut {
            steps: steps.collect(),
            current: self.current_plan_step(),
            done: plan.steps.iter().filter(|step| is_done(step)).count() as u64,
            total: plan.steps.len() as u64,
        })
    }

    /// Returns the step of the plan that is in progress, as the harness names it.
    pub(super) fn current_plan_step(&self) -> Option<String> {
        let current = self.facts.progress.plan()?.current.as_deref()?;
        Some(one_line(current, self.line_chars))
    }

    pub(super) fn selected_lines(&self, selection: &Selection, class: Class) -> Vec<String> {
        let chosen = self.selected_in_order(selection, class).into_iter();
        chosen.map(|(index, form)| self.format_line(class, index, form)).collect()
    }

    /// Returns the selected items of a class in reading order.
    pub(super) fn selected_in_order(
        &self,
        selection: &Selection,
        class: Class,
    ) -> Vec<(usize, ItemForm)> {
        let mut chosen = selection.indexes(class);
        if class == Class::Finding {
            // The list of findings has no order.
            let found = self.facts.findings.sentences();
            chosen.sort_by_key(|(index, _)| found.get(*index).map(|one| (one.source, one.order)));
        }
        chosen
    }

    pub(super) fn selected_quotes(&self, selection: &Selection, class: Class) -> Vec<WordOut> {
        let chosen = selection.indexes(class).into_iter();
        chosen.filter_map(|(index, form)| self.quote_item(class, index, form)).collect()
    }

    /// Returns the selected later messages of the user, oldest first.
    pub(super) fn selected_instructions(&self, selection: &Selection) -> Vec<WordOut> {
        let mut quotes = self.selected_quotes(selection, Class::OlderInstruction);
        quotes.extend(self.selected_quotes(selection, Class::Instruction));
        quotes
    }

    /// Returns the left-out items of each class of the recipe.
    pub(super) fn left_out_classes(
        &self,
        selection: &Selection,
        recipe: &Recipe<'_>,
    ) -> Vec<OmittedClass> {
        let mut made: Vec<OmittedClass> = Vec::new();
        // Only findings are contained in other texts.
        let contained = self.items.iter().filter(|item| selection.contains(item)).count();
        for class in recipe.rows.iter().map(|row| row.class) {
            let shown = selection.indexes(class);
            let inside = if class == Class::Finding { contained } else { 0 };
            let count = self.total_count(class).saturating_sub((shown.len() + inside) as u64);
            let name = class.as_str();
            if let Some(known) = made.iter_mut().find(|one| one.class == name) {
                known.count += count;
            } else if count > 0 {
                let cursor = self.rest_cursor(class, &shown);
                made.push(OmittedClass { class: name, count, cursor });
            }
        }
        made
    }

    /// Returns the number of items of a class that the folds dropped because of their bounds.
    pub(super) fn dropped_count(&self, class: Class) -> u64 {
        let [files, failures, changes] = self.facts.work.dropped_counts();
        let [tried, done, failed] = self.facts.progress.dropped_counts();
        let [items, references] = self.facts.saved.dropped_counts();
        match class {
            Class::File => files,
            Class::Failure => failures,
            Class::Change => changes,
            Class::Tried => tried,
            Class::Done => done,
            Class::Failed => failed,
            Class::ContextItem => items,
            Class::Reference => references,
            Class::OlderInstruction => self.facts.progress.instructions().dropped_count(),
            _ => 0,
        }
    }

    /// Returns the total number of items of a class.
    pub(super) fn total_count(&self, class: Class) -> u64 {
        let research = &self.facts.research;
        let count = match class {
            // The list of steps ends before the last steps, which are shown in full.
            Class::StepLine => research.steps().len() - self.lines_hidden,
            Class::Gap => research.open_gaps().len(),
            Class::Source => research.sources().len(),
            Class::Rejection => research.rejected_approaches().len(),
            Class::Branch => research.branches().len(),
            Class::Result => self.facts.progress.outputs().count(),
            Class::Event | Class::Count => 0,
            _ => self.count(class),
        };
        count as u64 + self.dropped_count(class)
    }

    /// Returns the cursor of the left-out items: after the newest of them.
    fn rest_cursor(&self, class: Class, shown: &[(usize, ItemForm)]) -> Option<PageCursor> {
        let research = &self.facts.research;
        let is_shown = |at: usize| shown.binary_search_by_key(&at, |(index, _)| *index).is_ok();
        let newest = |count: usize| (0..count).rev().find(|at| !is_shown(*at));
        let (list, at) = match class {
            Class::StepLine => (ViewList::Steps, newest(research.steps().len())),
            Class::Source => (ViewList::Sources, newest(research.sources().len())),
            Class::Rejection => (ViewList::Rejected, newest(research.rejected_approaches().len())),
            Class::Gap => {
                let mut open = research.open_gaps().iter().rev();
                (ViewList::Gaps, open.find(|at| !is_shown(**at)).copied())
            }
            _ => return None,
        };
        at.map(|at| PageCursor::List { list, before: at + 1 })
    }

    /// Returns the reasons for the selected items.
    pub(super) fn explain_selection(&self, selection: &Selection) -> Vec<WhyOut> {
        selection.chosen.iter().map(|one| self.explain_item(one)).collect()
    }

    fn explain_item(&self, one: &ChosenItem) -> WhyOut {
        let (class, index) = (one.item.class, one.item.index);
        let step =
            (class == Class::LastStep).then(|| self.last_step(index, ItemForm::Line)).flatten();
        let quote = self.quote_item(class, index, ItemForm::Line);
        let position = step.as_ref().map(|step| step.position);
        let position = position.or_else(|| quote.as_ref().and_then(|quote| quote.position));
        let text = match step {
            Some(step) => step.description,
            None => self.format_line(class, index, ItemForm::Line),
        };
        WhyOut {
            class: class.as_str().to_owned(),
            position,
            text: one_line(&text, WHY_CHARS_MAX),
            form: one.form.as_str().to_owned(),
            score: one.score as u64,
            why: explain(one),
        }
    }
}
