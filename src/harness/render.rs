//! Formats selected items: the parts that several views share, and the number left out of each
//! class. It must not choose, and it must not depend on the price of a text.

use std::collections::{BTreeMap, HashMap};

use super::{
    budget::Cut,
    called::called,
    gather::{ANSWER_BYTES, Gathered, TEXT_BYTES, bytes_of},
    lists::index_line,
    narration,
    results::unwrapped,
    select::{Chosen, Class, Form, Item, Recipe, Selection, why},
    step::{StepPlace, brief},
};
use crate::{
    api::{
        cursor::{Cursor, List},
        step::StepOfView,
        views::{PlanOut, ResultOut, WhyOut, WordOut},
    },
    event::{Position, text::one_line},
    projection::{CommandFact, Effect, FileFact, FileState, FoundIn, Output, is_done},
};

/// Most bytes of a step that is shown in full.
const WHOLE_BYTES_MAX: usize = 32 << 10;
/// Most characters of an item in an explanation.
const WHY_CHARS_MAX: usize = 80;
/// Most bytes of a command, an input or an error in the short form.
const INPUT_BYTES: usize = 200;

/// Most characters of a change's result in one line.
const RESULT_CHARS_MAX: usize = 40;

/// Formats a failing command: the error, its position, and the number of failures.
fn format_failure(known: &Gathered<'_>, one: &CommandFact, form: Form) -> String {
    let line = known.formed(&one.line, form, INPUT_BYTES).text;
    let error = known.formed(&one.error, form, INPUT_BYTES).text;
    let times = if one.failures > 1 { format!(", {} times", one.failures) } else { String::new() };
    let error = if error.is_empty() { "failed".to_owned() } else { error };
    format!("{line}: {error} ({}{times})", known.place(one.last))
}

/// Formats a file: the number and position of its changes, or how they were undone.
fn file(known: &Gathered<'_>, file: &FileFact) -> String {
    let (path, last) = (&file.path, known.place(file.last));
    match (file.state, file.times) {
        (FileState::Changed, 1) => format!("{path} {last}"),
        (FileState::Changed, times) => format!("{path} ({times} times, last {last})"),
        (state, _) => format!("{path} ({} {last})", state.as_str()),
    }
}

/// Formats a call that changed something: input, result and position.
fn change(known: &Gathered<'_>, one: &Effect, form: Form) -> String {
    // The fold keeps ids and amounts in the input's line, so none of it can be cut.
    let input = &one.input;
    let result = match form {
        Form::Line => one_line(&one.result, RESULT_CHARS_MAX),
        _ => known.formed(&one.result, form, INPUT_BYTES).text,
    };
    let outcome = outcome_of(one, &result, " ");
    format!("{} {input}{outcome} ({})", one.tool, known.place(one.position))
}

/// Formats the outcome of a change after its call; `between` separates a failure from its result.
pub(super) fn outcome_of(one: &Effect, result: &str, between: &str) -> String {
    match (one.failed, result.is_empty()) {
        (false, true) => String::new(),
        (true, true) => " -> failed".to_owned(),
        (true, false) => format!(" -> failed{between}{result}"),
        (false, false) => format!(" -> {result}"),
    }
}

/// Formats a list under a heading, from the start of a line.
pub(super) fn list(heading: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    format!("{heading}:\n{lines}")
}

/// A class with items that a view left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the class in the view.
    pub class: &'static str,
    /// Number of items that are not shown.
    pub count: u64,
    /// Cursor with which they can be listed.
    pub cursor: Option<Cursor>,
}

/// Returns the number of left-out items of each class, by its name in the view.
pub(super) fn left_out(all: &[LeftOut]) -> BTreeMap<String, u64> {
    all.iter().map(|one| (one.class.to_owned(), one.count)).collect()
}

impl Gathered<'_> {
    /// Formats a position, with the session's number for an earlier one.
    pub(super) fn place(&self, at: Position) -> String {
        match self.facts.place(at) {
            (None, position) => format!("@{position}"),
            (Some(number), position) => format!("S{number}@{position}"),
        }
    }

    /// Returns the text of an item on a separate line, with its step or position.
    pub(super) fn line(&self, class: Class, place: usize, form: Form) -> String {
        let (facts, research) = (self.facts, &self.facts.research);
        let made = match class {
            Class::Finding => facts.findings.found().get(place).map(|one| match one.said {
                FoundIn::Step(step) => self.with_step(step, &one.text),
                FoundIn::At(position) => format!("{} {}", self.place(position), one.text),
                FoundIn::Listed(_) => one.text.to_string(),
            }),
            Class::Rejection => {
                research.rejected().get(place).map(|(step, text)| self.with_step(*step, text))
            }
            Class::Gap => {
                research.gaps().get(place).map(|gap| format!("({}) {}", gap.id, gap.description))
            }
            Class::Source => research.sources().get(place).map(|source| {
                let title = source.title.as_deref();
                let named = title.map_or_else(String::new, |title| format!("{title} — "));
                let step = source.step.map_or_else(String::new, |step| format!("[{step}] "));
                format!("{step}{named}{}", source.url)
            }),
            Class::Next => self.next.get(place).map(|text| (*text).to_owned()),
            Class::Done => facts.progress.worked().nth(place).cloned(),
            Class::Tried => facts.progress.tried().nth(place).cloned(),
            Class::Failed => facts.progress.failed().nth(place).cloned(),
            Class::Branch => research.branches().get(place).map(|branch| {
                let from =
                    branch.from.map_or_else(String::new, |from| format!(" from step {from}"));
                format!("{}{from}, last step {}", branch.id, branch.last)
            }),
            Class::StepLine => research.steps().get(place).map(|step| match step.superseded_by {
                // The text of a superseded step no longer holds.
                Some(by) => self.with_step(place, &format!("taken back by step {by}")),
                None => self.with_step(place, &step.line),
            }),
            Class::Plan | Class::PlanDone => self.plan_step(place, form).map(|step| step.text),
            Class::Failure => {
                facts.work.failing().nth(place).map(|one| format_failure(self, one, form))
            }
            Class::Mended => facts
                .work
                .mended()
                .nth(place)
                .map(|one| self.formed(&one.line, form, INPUT_BYTES).text),
            Class::File => facts.work.files().nth(place).map(|one| file(self, one)),
            Class::Result => self.result(place, form).map(|(one, _)| {
                let ended = self.ended(place);
                let mark = if ended.is_empty() { "" } else { ": " };
                format!("{} -> {ended}{mark}{}", called(&one.tool, &one.input), one.text)
            }),
            Class::Change => facts.work.effects().nth(place).map(|one| change(self, one, form)),
            _ => self.quote(class, place, form).map(|quote| quote.text),
        };
        made.unwrap_or_default()
    }

    /// Returns the position of the step or message that contains an item.
    pub(super) fn position(&self, item: &Item) -> Option<Position> {
        let research = &self.facts.research;
        let numbered = |number: Option<u64>| research.find(number?, None);
        let step = match item.class {
            Class::Gap => numbered(research.gaps().get(item.place)?.opened_by)?,
            Class::Source => numbered(research.sources().get(item.place)?.step)?,
            Class::Rejection => research.rejected().get(item.place)?.0,
            _ => return Some(Position(item.position)),
        };
        research.steps().get(step).map(|step| step.position)
    }

    /// Returns true if the shown line of a finding's step, one of `lines`, contains it.
    pub(super) fn is_in_line(&self, item: &Item, lines: &HashMap<usize, Form>) -> bool {
        let found = self.facts.findings.found().get(item.place);
        let Some(found) = found.filter(|_| item.class == Class::Finding) else { return false };
        let FoundIn::Step(ordinal) = found.said else { return false };
        let line =
            lines.get(&ordinal).and_then(|form| index_line(&self.facts.research, ordinal, *form));
        line.is_some_and(|line| line.line.contains(&*found.text))
    }

    /// Prefixes a text with the number of its step.
    fn with_step(&self, ordinal: usize, text: &str) -> String {
        let research = &self.facts.research;
        let Some(step) = research.steps().get(ordinal) else { return text.to_owned() };
        if let (Some(_), _) = self.facts.place(step.position) {
            // Steps of different sessions may have equal numbers.
            return format!("{} {text}", self.place(step.position));
        }
        match research.branch_of_step(step) {
            Some(branch) => format!("[{}@{}] {text}", step.number, one_line(&branch.id, 16)),
            None => format!("[{}] {text}", step.number),
        }
    }

    /// Returns the text of an item that is a quotation, in a form.
    pub(super) fn quote(&self, class: Class, place: usize, form: Form) -> Option<WordOut> {
        let (facts, progress) = (self.facts, &self.facts.progress);
        let quote =
            |Cut { text, truncated }: Cut, position| Some(WordOut { text, position, truncated });
        let said = |text: &str, position: Option<Position>, bytes_max: usize| {
            quote(self.formed(text, form, bytes_max), position)
        };
        let typed = |text: &str, position: Position, bytes_max: usize| {
            quote(self.bounded(text, form, bytes_max), Some(position))
        };
        match class {
            Class::Instruction => {
                let word = progress.instructions().whole().nth(place)?;
                typed(&word.counted(), word.position, TEXT_BYTES)
            }
            Class::OlderInstruction => {
                let word = progress.instructions().lines().nth(place)?;
                typed(&word.counted(), word.position, TEXT_BYTES)
            }
            Class::Task => {
                let task = progress.task()?;
                typed(&task.text, task.position, 2 * TEXT_BYTES)
            }
            Class::Goal => said(facts.research.goal()?, None, 2 * TEXT_BYTES),
            Class::Summary => said(&facts.research.summary()?.text, None, 2 * TEXT_BYTES),
            Class::Answer => {
                let answers = facts.conversation.answers();
                let answer = answers.get(place)?;
                let is_last = place + 1 == answers.len();
                let marked = answer.marked();
                let told = (!is_last).then(|| narration::without(&marked));
                let text = told.as_deref().unwrap_or(&marked);
                said(text, Some(answer.position), ANSWER_BYTES)
            }
            Class::Event => {
                let line = facts.conversation.recent.get(place)?;
                said(&line.text, Some(line.position), TEXT_BYTES)
            }
            _ => None,
        }
    }

    /// Returns one of the last steps, in a form.
    pub(super) fn last_step(&self, place: usize, form: Form) -> Option<StepOfView> {
        let (step, body, at) = self.facts.research.full().nth(place)?;
        // A step of megabytes is read by its number: the cost of a view must not depend on it.
        let huge = form == Form::Whole && bytes_of(body) > WHOLE_BYTES_MAX;
        let form = if huge { Form::Short } else { form };
        let superseded_by = step.superseded_by;
        let place = StepPlace { position: step.position, at, superseded_by };
        Some(brief(body, place, form, (self.step_bytes, self.line_chars)))
    }

    /// Returns a tool's result in a form, and true if its input or text is cut.
    pub(super) fn result(&self, place: usize, form: Form) -> Option<(ResultOut, bool)> {
        let output = self.facts.progress.outputs().nth(place)?;
        let input = self.formed(&output.input, form, INPUT_BYTES);
        let text = self.outcome(output, form);
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
    pub(super) fn ended(&self, place: usize) -> &'static str {
        self.facts.progress.outputs().nth(place).map_or("", |output| output.ended)
    }

    /// Returns the text of a result: all of it if it is short or the form is long, else its most
    /// useful line; for an irrelevant file that can be read again, its number of lines.
    fn outcome(&self, output: &Output, form: Form) -> Cut {
        let text = unwrapped(&output.text);
        if self.names.is_file_elsewhere(output) {
            let text = format!("{} lines", text.lines().count());
            return Cut { text, truncated: true };
        }
        let is_line = match form {
            Form::Line => text.len() > self.line_chars || text.contains('\n'),
            Form::Short => text.len() > TEXT_BYTES,
            Form::Part(_) | Form::Bare | Form::Squeezed | Form::Whole => false,
        };
        if is_line {
            let text = one_line(self.names.useful_line(text), 2 * self.line_chars);
            return Cut { text, truncated: true };
        }
        match form {
            Form::Part(_) => self.formed(text, form, TEXT_BYTES),
            // One result must not use the budget of all others.
            _ => self.formed(text, Form::Short, self.result_bytes.get()),
        }
    }

    /// Returns true if a selected result was cut to leave budget to others.
    pub(super) fn cuts_results(&self, chosen: &Selection) -> bool {
        let outputs: Vec<_> = self.facts.progress.outputs().collect();
        chosen.places(Class::Result).iter().any(|(place, _)| {
            outputs.get(*place).is_some_and(|output| {
                unwrapped(&output.text).len() > self.result_bytes.get()
                    && !self.names.is_file_elsewhere(output)
            })
        })
    }

    /// Returns the plan with its selected steps.
    pub(super) fn plan_view(&self, selection: &Selection) -> Option<PlanOut> {
        let plan = self.facts.progress.plan()?;
        let mut places = selection.places(Class::Plan);
        places.extend(selection.places(Class::PlanDone));
        places.sort_unstable_by_key(|(place, _)| *place);
        let steps = places.iter().filter_map(|(place, form)| self.plan_step(*place, *form));
        Some(PlanOut {
            steps: steps.collect(),
            current: self.plan_current(),
            done: plan.steps.iter().filter(|step| is_done(step)).count() as u64,
            total: plan.steps.len() as u64,
        })
    }

    /// Returns the step of the plan that is in progress, as the harness names it.
    pub(super) fn plan_current(&self) -> Option<String> {
        let current = self.facts.progress.plan()?.current.as_deref()?;
        Some(one_line(current, self.line_chars))
    }

    /// Returns the lines of the selected items of a class.
    pub(super) fn lines(&self, selection: &Selection, class: Class) -> Vec<String> {
        let chosen = self.in_order(selection, class).into_iter();
        chosen.map(|(place, form)| self.line(class, place, form)).collect()
    }

    /// Returns the selected items of a class in reading order.
    pub(super) fn in_order(&self, selection: &Selection, class: Class) -> Vec<(usize, Form)> {
        let mut chosen = selection.places(class);
        if class == Class::Finding {
            // The list of findings has no order.
            let found = self.facts.findings.found();
            chosen.sort_by_key(|(place, _)| found.get(*place).map(|one| (one.said, one.order)));
        }
        chosen
    }

    /// Returns the quotes of the selected items of a class.
    pub(super) fn quotes(&self, selection: &Selection, class: Class) -> Vec<WordOut> {
        let chosen = selection.places(class).into_iter();
        chosen.filter_map(|(place, form)| self.quote(class, place, form)).collect()
    }

    /// Returns the selected later messages of the user, oldest first.
    pub(super) fn instructions(&self, selection: &Selection) -> Vec<WordOut> {
        let mut quotes = self.quotes(selection, Class::OlderInstruction);
        quotes.extend(self.quotes(selection, Class::Instruction));
        quotes
    }

    /// Returns the left-out items of each class of the recipe.
    pub(super) fn left_out(&self, selection: &Selection, recipe: &Recipe<'_>) -> Vec<LeftOut> {
        let mut made: Vec<LeftOut> = Vec::new();
        // Only findings are contained in other texts.
        let contained = self.items.iter().filter(|item| selection.contains(item)).count();
        for class in recipe.rows.iter().map(|row| row.class) {
            let shown = selection.places(class);
            let inside = if class == Class::Finding { contained } else { 0 };
            let count = self.total(class).saturating_sub((shown.len() + inside) as u64);
            let name = class.as_str();
            if let Some(known) = made.iter_mut().find(|one| one.class == name) {
                known.count += count;
            } else if count > 0 {
                let cursor = self.rest_cursor(class, &shown);
                made.push(LeftOut { class: name, count, cursor });
            }
        }
        made
    }

    /// Returns the number of items of a class that the folds dropped because of their bounds.
    pub(super) fn forgotten(&self, class: Class) -> u64 {
        let [files, failures, changes] = self.facts.work.forgotten();
        let [tried, done, failed] = self.facts.progress.forgotten();
        let [items, references] = self.facts.saved.forgotten();
        match class {
            Class::File => files,
            Class::Failure => failures,
            Class::Change => changes,
            Class::Tried => tried,
            Class::Done => done,
            Class::Failed => failed,
            Class::ContextItem => items,
            Class::Reference => references,
            Class::OlderInstruction => self.facts.progress.instructions().forgotten(),
            _ => 0,
        }
    }

    /// Returns the total number of items of a class.
    pub(super) fn total(&self, class: Class) -> u64 {
        let research = &self.facts.research;
        let count = match class {
            // The list of steps ends before the last steps, which are shown in full.
            Class::StepLine => research.steps().len() - self.lines_hidden,
            Class::Gap => research.gaps_open().len(),
            Class::Source => research.sources().len(),
            Class::Rejection => research.rejected().len(),
            Class::Branch => research.branches().len(),
            Class::Result => self.facts.progress.outputs().filter(|one| !one.is_aside).count(),
            Class::Event | Class::Count => 0,
            _ => self.count(class),
        };
        count as u64 + self.forgotten(class)
    }

    /// Returns the cursor of the left-out items: after the newest of them.
    fn rest_cursor(&self, class: Class, shown: &[(usize, Form)]) -> Option<Cursor> {
        let research = &self.facts.research;
        let is_shown = |at: usize| shown.binary_search_by_key(&at, |(place, _)| *place).is_ok();
        let newest = |count: usize| (0..count).rev().find(|at| !is_shown(*at));
        let (list, at) = match class {
            Class::StepLine => (List::Steps, newest(research.steps().len())),
            Class::Source => (List::Sources, newest(research.sources().len())),
            Class::Rejection => (List::Rejected, newest(research.rejected().len())),
            Class::Gap => {
                let mut open = research.gaps_open().iter().rev();
                (List::Gaps, open.find(|at| !is_shown(**at)).copied())
            }
            _ => return None,
        };
        at.map(|at| Cursor::List { list, before: at + 1 })
    }

    /// Returns the reasons for the selected items.
    pub(super) fn why(&self, selection: &Selection) -> Vec<WhyOut> {
        selection.chosen.iter().map(|one| self.why_of(one)).collect()
    }

    fn why_of(&self, one: &Chosen) -> WhyOut {
        let (class, place) = (one.item.class, one.item.place);
        let step = (class == Class::LastStep).then(|| self.last_step(place, Form::Line)).flatten();
        let quote = self.quote(class, place, Form::Line);
        let position = step.as_ref().map(|step| step.position);
        let position = position.or_else(|| quote.as_ref().and_then(|quote| quote.position));
        let text = match step {
            Some(step) => step.description,
            None => self.line(class, place, Form::Line),
        };
        WhyOut {
            class: class.as_str().to_owned(),
            position,
            text: one_line(&text, WHY_CHARS_MAX),
            form: one.form.as_str().to_owned(),
            score: one.score as u64,
            why: why(one),
        }
    }
}
