//! State of a session as plain text: a recipe over [`select`] whose items are lines under headings.
//! No model: every word was recorded, equal facts give equal texts. It must not iterate over the
//! steps: its cost does not depend on their number.

use std::fmt::Write as _;

use super::{
    budget::{fit, json_bytes},
    gather::GatheredItems,
    quote,
    render::format_list,
    select::{Class, Item, ItemForm, Price, Recipe, Selection, row, select, shape},
};
use crate::{event::text::one_line, projection::Facts};

/// Most characters of the latest step's line.
const LATEST_CHARS_MAX: usize = 100;
/// Bytes in JSON of a line end, a dash and a space, and a heading's share per line.
const LINE_BYTES: usize = 6;
const HEADINGS_BYTES: usize = 120;

/// Heading of the calls without a result.
pub(super) const BEGUN: &str = "Begun, without a result so far";

/// Recipe of a text for a reader without other context.
const TEXT: Recipe<'static> = Recipe::new(
    &[
        row(Class::Summary, 1, 0),
        shape(Class::Goal, 1, 0),
        shape(Class::Task, 1, 0),
        row(Class::Instruction, 1, 900),
        row(Class::Next, 1, 900),
        row(Class::Begun, 1, 1_500),
        row(Class::Failure, 0, 1_500),
        row(Class::Change, 0, 1_200),
        row(Class::Failed, 0, 1_000),
        row(Class::Gap, 0, 1_400),
        row(Class::Finding, 0, 1_000),
        row(Class::Rejection, 0, 900),
        row(Class::File, 0, 700),
        row(Class::Done, 0, 700),
        row(Class::Answer, 0, 700),
        row(Class::Tried, 0, 400),
        row(Class::OlderInstruction, 0, 300),
    ],
    60,
);

/// Section of a text: classes under a heading.
pub(super) struct Section {
    pub(super) heading: &'static str,
    pub(super) classes: &'static [Class],
    /// True for a list; false for one text after the heading.
    pub(super) is_list: bool,
}

impl Section {
    /// Creates a section with lines below the heading.
    pub(super) const fn with_list(heading: &'static str, classes: &'static [Class]) -> Self {
        Self { heading, classes, is_list: true }
    }

    /// Creates a section with one text after the heading.
    pub(super) const fn with_text(heading: &'static str, classes: &'static [Class]) -> Self {
        Self { heading, classes, is_list: false }
    }
}

/// Writes the state of a session within `bytes_max` bytes of JSON.
#[must_use]
pub fn summary(facts: &Facts, bytes_max: usize) -> String {
    summary_in_lines(facts, bytes_max, 0)
}

/// Writes the state in fewer and longer lines, each of at least `line_chars_min` characters of its
/// text.
#[must_use]
pub fn summary_in_lines(facts: &Facts, bytes_max: usize, line_chars_min: usize) -> String {
    let head = progress_line(facts, true);
    let budget = bytes_max.saturating_sub(json_bytes(&head) + HEADINGS_BYTES);
    let mut known = GatheredItems::gather(facts, &TEXT, budget);
    known.line_chars = known.line_chars.max(line_chars_min);
    let latest = facts.research.full_steps().next_back();
    let is_whole = latest.is_some_and(|(step, body, _)| *step.line == *body.description.trim());
    if let Some(last) = facts.research.steps().len().checked_sub(1).filter(|_| is_whole) {
        // The first line contains the whole step.
        known.remove_findings_of_steps(&[last]);
    }
    let items = std::mem::take(&mut known.items);
    let chosen = select(&items, &TEXT, budget, &mut LineBytes { known: &known });
    let lead =
        [Section::with_text("Goal", &[Class::Goal]), Section::with_text("Task", &[Class::Task])];
    let parts = [
        Section::with_list("The user said", &[Class::OlderInstruction, Class::Instruction]),
        Section::with_list("Next", &[Class::Next]),
        Section::with_list(BEGUN, &[Class::Begun]),
        Section::with_list("Still failing", &[Class::Failure]),
        Section::with_list("Changed", &[Class::Change]),
        Section::with_list("Files changed", &[Class::File]),
        Section::with_list("Found", &[Class::Finding]),
        Section::with_list("Ruled out", &[Class::Rejection]),
        Section::with_list("Open", &[Class::Gap]),
        Section::with_list("Failed", &[Class::Failed]),
        Section::with_list("Done", &[Class::Done]),
        Section::with_list("Tried", &[Class::Tried]),
        Section::with_text("The agent said last", &[Class::Answer]),
    ];
    let head = format_sections(&known, &chosen, &lead) + &head;
    fit(&compose_text(&known, &chosen, &head, &parts), bytes_max).text
}

/// Formats a number with its noun.
pub(super) fn format_count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Returns the progress of a session on one line, optionally with its latest step.
pub(super) fn progress_line(facts: &Facts, with_latest: bool) -> String {
    let research = &facts.research;
    let steps = research.steps();
    if steps.is_empty() {
        return format!("{}, no research steps.", format_count(facts.position.0, "event"));
    }
    let mut text = format_count(steps.len() as u64, "step");
    if let Some(estimate) = research.estimate() {
        let _ = write!(text, " of about {estimate}");
    }
    if research.superseded_count() > 0 {
        let _ = write!(text, ", {} superseded", research.superseded_count());
    }
    if !research.branches().is_empty() {
        let _ = write!(text, ", {} branch(es)", research.branches().len());
    }
    let complete = research.completed_at().is_some();
    text.push_str(if complete { "; complete." } else { "; not complete." });
    if let Some(step) = steps.last().filter(|_| with_latest) {
        let line = one_line(&step.line, LATEST_CHARS_MAX);
        let _ = write!(text, " Latest: [{}] {line}", step.number);
    }
    text
}

/// Writes the caller's summary, the first line, and each section with chosen items.
pub(super) fn compose_text(
    known: &GatheredItems<'_>,
    chosen: &Selection,
    head: &str,
    parts: &[Section],
) -> String {
    let mut text = String::new();
    if let Some(said) = known.selected_quotes(chosen, Class::Summary).pop() {
        let step = known.facts.research.summary().and_then(|said| said.step);
        let step = step.map(|step| format!(" after step {step}")).unwrap_or_default();
        let _ =
            writeln!(text, "Caller's summary{step}: {}", quote::indent_continuation(&said.text));
    }
    text.push_str(head);
    let parts = format_sections(known, chosen, parts);
    if !parts.is_empty() {
        text.push('\n');
        text.push_str(parts.trim_end());
    }
    text
}

/// Writes the sections with chosen items, each below or after its heading.
fn format_sections(known: &GatheredItems<'_>, chosen: &Selection, parts: &[Section]) -> String {
    let mut text = String::new();
    for part in parts {
        let of_class = |class: &Class| known.selected_lines(chosen, *class);
        let lines = part.classes.iter().flat_map(of_class);
        let lines: Vec<String> = lines.map(|line| quote::indent_continuation(&line)).collect();
        if lines.is_empty() {
            continue;
        }
        match part.is_list {
            true => text.push_str(&format_list(part.heading, &lines)),
            false => {
                let _ = writeln!(text, "{}: {}", part.heading, lines.join(" "));
            }
        }
    }
    text
}

/// Prices of items as lines of a text.
struct LineBytes<'k, 'f> {
    known: &'k GatheredItems<'f>,
}

impl Price for LineBytes<'_, '_> {
    fn price(&mut self, item: &Item, form: ItemForm) -> usize {
        LINE_BYTES
            + json_bytes(&quote::indent_continuation(
                &self.known.format_line(item.class, item.index, form),
            ))
    }
}
