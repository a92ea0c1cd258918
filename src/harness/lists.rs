//! Lines of a session's lists: index lines, gaps, sources, rejected approaches, branches; and pages
//! of them by cursor, newest first. It must not choose: a page is in order.

use super::{
    budget::{Budget, fit, json_bytes},
    gather::LISTED_CHARS,
    select::ItemForm,
};
use crate::{
    api::{
        cursor::{PageCursor, ViewList},
        overview::{OpenGap, PageAnswer, RejectedLine, SourceOfView},
        research::BranchOut,
        scalar::OpenEnum,
        step::StepLine,
    },
    event::text::one_line,
    projection::{Branch, KnowledgeGap, Research, ResearchSource},
};

/// Most characters of a source's title in its shortest form.
const TITLE_CHARS: usize = 100;
/// Most bytes of a URL that are shown.
const URL_BYTES_MAX: usize = 900;

/// Returns a page of a list: the newest items before an ordinal that fit, at least one; the cursor
/// continues with older ones.
#[must_use]
pub fn list_page(
    research: &Research,
    list: ViewList,
    before: usize,
    bytes_max: usize,
) -> PageAnswer {
    let (mut steps, mut sources, mut gaps, mut rejected) = (vec![], vec![], vec![], vec![]);
    let below = |count: usize| (0..before.min(count)).rev();
    let rest = match list {
        ViewList::Steps => {
            let line = |at| index_line(research, at, ItemForm::Whole);
            collect_newest(below(research.steps().len()), bytes_max, line, line_bytes, &mut steps)
        }
        ViewList::Sources => {
            let line = |at: usize| Some(source_line(research.sources().get(at)?, ItemForm::Whole));
            collect_newest(
                below(research.sources().len()),
                bytes_max,
                line,
                source_bytes,
                &mut sources,
            )
        }
        ViewList::Gaps => {
            let open = research.open_gaps().range(..before).rev().copied();
            let line = |at: usize| research.gaps().get(at).map(full_gap_line);
            collect_newest(open, bytes_max, line, gap_bytes, &mut gaps)
        }
        ViewList::Rejected => {
            let line = |at| rejected_line(research, at);
            collect_newest(
                below(research.rejected_approaches().len()),
                bytes_max,
                line,
                rejected_bytes,
                &mut rejected,
            )
        }
    };
    let next_cursor = rest.map(|before| PageCursor::List { list, before });
    PageAnswer { list, steps, sources, gaps, rejected, next_cursor }
}

/// Collects items in descending order until the budget is spent; at least one, so that paging
/// advances. Stores them in ascending order; returns the ordinal of the oldest if older ones
/// remain.
fn collect_newest<T>(
    ordinals: impl Iterator<Item = usize>,
    bytes_max: usize,
    item: impl Fn(usize) -> Option<T>,
    price: impl Fn(&T) -> usize,
    items: &mut Vec<T>,
) -> Option<usize> {
    let (mut budget, mut oldest, mut rest) = (Budget::new(bytes_max), None, None);
    for ordinal in ordinals {
        let Some(made) = item(ordinal) else { continue };
        if !budget.spend(price(&made)) && oldest.is_some() {
            rest = oldest;
            break;
        }
        items.push(made);
        oldest = Some(ordinal);
    }
    items.reverse();
    rest
}

/// Returns the index line of a step. `ItemForm::Line` is shorter and has no confidence.
#[must_use]
pub(super) fn index_line(research: &Research, ordinal: usize, form: ItemForm) -> Option<StepLine> {
    let step = research.steps().get(ordinal)?;
    Some(StepLine {
        number: step.number,
        branch_id: research.branch_of_step(step).map(|branch| branch.id.to_string()),
        line: list_text(&step.line, form),
        confidence: step.confidence.filter(|_| form > ItemForm::Line).map(OpenEnum::from),
        superseded_by: step.superseded_by,
    })
}

/// Returns the text of a list item; `ItemForm::Line` has the first [`LISTED_CHARS`].
fn list_text(text: &str, form: ItemForm) -> String {
    if form == ItemForm::Line { one_line(text, LISTED_CHARS) } else { text.to_owned() }
}

/// Returns the complete line of a gap.
#[must_use]
pub fn full_gap_line(gap: &KnowledgeGap) -> OpenGap {
    gap_line(gap, ItemForm::Whole)
}

/// Returns the line of a gap. `ItemForm::Line` is shorter and has no step.
pub(super) fn gap_line(gap: &KnowledgeGap, form: ItemForm) -> OpenGap {
    OpenGap {
        id: gap.id.to_string(),
        description: list_text(&gap.description, form),
        step: gap.opened_by.filter(|_| form > ItemForm::Line),
    }
}

/// Returns the line of a source. `ItemForm::Line` has the URL and the beginning of the title.
#[must_use]
pub(super) fn source_line(source: &ResearchSource, form: ItemForm) -> SourceOfView {
    let is_more = form > ItemForm::Line;
    let text = |text: &Option<Box<str>>| text.as_deref().filter(|_| is_more).map(str::to_owned);
    SourceOfView {
        url: fit(&source.url, URL_BYTES_MAX).text,
        title: source.title.as_deref().map(|title| match form {
            ItemForm::Line => one_line(title, TITLE_CHARS),
            _ => title.to_owned(),
        }),
        kind: text(&source.kind),
        step: source.step.filter(|_| is_more),
        by_server: is_more.then_some(source.by_server),
        tool: text(&source.tool),
    }
}

/// Returns the line of the rejected approach with that ordinal.
#[must_use]
pub(super) fn rejected_line(research: &Research, ordinal: usize) -> Option<RejectedLine> {
    let (step, text) = research.rejected_approaches().get(ordinal)?;
    let step = research.steps().get(*step).map(|step| step.number);
    Some(RejectedLine { text: text.as_ref().to_owned(), step })
}

#[must_use]
pub(super) fn branch_line(branch: &Branch) -> BranchOut {
    BranchOut { branch_id: branch.id.to_string(), from_step: branch.from, last_step: branch.last }
}

/// Returns the number of decimal digits.
fn count_digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Returns the bytes of a number member, if present.
fn number_bytes(name: &str, number: Option<u64>) -> usize {
    number.map_or(0, |number| name.len() + 4 + count_digits(number))
}

/// Returns the bytes of a text member, if present.
fn text_bytes(name: &str, text: Option<&str>) -> usize {
    text.map_or(0, |text| name.len() + 4 + json_bytes(text))
}

/// Returns the bytes of a step's line in the longest wire form.
pub(super) fn line_bytes(line: &StepLine) -> usize {
    let text = r#"{"stepNumber":,"oneLiner":},"#.len() + count_digits(line.number);
    let branch = text_bytes("branchId", line.branch_id.as_deref());
    let confidence = text_bytes("confidence", line.confidence.as_ref().map(|_| "medium"));
    text + json_bytes(&line.line)
        + branch
        + confidence
        + number_bytes("supersededBy", line.superseded_by)
}

/// Returns the bytes of a gap in the longest wire form.
#[must_use]
pub fn gap_bytes(gap: &OpenGap) -> usize {
    let text = r#"{"gapId":,"description":},"#.len();
    text + json_bytes(&gap.id)
        + json_bytes(&gap.description)
        + number_bytes("foundInStep", gap.step)
}

/// Returns the bytes of a source in the longest wire form.
pub(super) fn source_bytes(source: &SourceOfView) -> usize {
    let text = r#"{"url":},"#.len() + json_bytes(&source.url);
    text + text_bytes("foundBy", source.by_server.map(|_| "server"))
        + text_bytes("title", source.title.as_deref())
        + text_bytes("relevance", source.kind.as_deref())
        + text_bytes("tool", source.tool.as_deref())
        + number_bytes("foundInStep", source.step)
}

/// Returns the bytes of a rejected approach in the longest wire form.
pub(super) fn rejected_bytes(line: &RejectedLine) -> usize {
    r#"{"approach":},"#.len() + json_bytes(&line.text) + number_bytes("foundInStep", line.step)
}

/// Returns the bytes of a branch in the longest wire form.
pub(super) fn branch_bytes(branch: &BranchOut) -> usize {
    let text = r#"{"branchId":},"#.len() + json_bytes(&branch.branch_id);
    text + number_bytes("fromStep", branch.from_step)
        + number_bytes("lastStep", Some(branch.last_step))
}
