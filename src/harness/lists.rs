//! The lists of a session as shown: index lines, gaps, sources, rejected approaches, branches; and
//! pages of them, newest first, by cursor. They must not choose: a page is in order.

use super::{
    budget::{Purse, fit, json_bytes},
    gather::LISTED_CHARS,
    select::Form,
};
use crate::{
    api::{
        cursor::{Cursor, List},
        overview::{OpenGap, RejectedLine, SourceOfView},
        research::BranchOut,
        step::StepLine,
    },
    projection::{Branch, KnowledgeGap, Research, ResearchSource, text::one_line},
};

/// Characters of the title of a source in its shortest form.
const TITLE_CHARS: usize = 100;
/// Bytes of a URL that are shown.
const URL_BYTES_MAX: usize = 900;

/// Takes items from the newest ordinal below `before` down until the purse is empty; at least one,
/// so that paging advances. Returns them in ascending order with the ordinal of the oldest.
fn newest<T>(
    ordinals: impl Iterator<Item = usize>,
    purse: &mut Purse,
    item: impl Fn(usize) -> Option<T>,
    price: impl Fn(&T) -> usize,
    at_least_one: bool,
) -> (Vec<T>, Option<usize>) {
    let (mut items, mut oldest) = (Vec::new(), None);
    for ordinal in ordinals {
        let Some(made) = item(ordinal) else { continue };
        let must = at_least_one && items.is_empty();
        if !purse.pay(price(&made)) && !must {
            items.reverse();
            return (items, Some(oldest.unwrap_or(ordinal + 1)));
        }
        items.push(made);
        oldest = Some(ordinal);
    }
    items.reverse();
    (items, None)
}

fn rest_cursor(list: List, before: Option<usize>) -> Option<Cursor> {
    before.map(|before| Cursor::List { list, before })
}

/// Steps before an ordinal, or the newest; the cursor continues with older ones.
#[must_use]
pub fn steps_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<StepLine>, Option<Cursor>) {
    let end = before.unwrap_or(usize::MAX).min(research.steps().len());
    let made = |ordinal| index_line(research, ordinal, Form::Whole);
    let (lines, next) = newest((0..end).rev(), purse, made, line_bytes, before.is_some());
    (lines, rest_cursor(List::Steps, next))
}

/// Open gaps before an ordinal, or the newest.
#[must_use]
pub fn gaps_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<OpenGap>, Option<Cursor>) {
    let open = research.gaps_open().range(..before.unwrap_or(usize::MAX)).rev().copied();
    let made = |ordinal: usize| research.gaps().get(ordinal).map(whole_gap);
    let (lines, next) = newest(open, purse, made, gap_bytes, before.is_some());
    (lines, rest_cursor(List::Gaps, next))
}

/// Sources before an ordinal, or the newest.
#[must_use]
pub fn sources_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<SourceOfView>, Option<Cursor>) {
    let sources = research.sources();
    let end = before.unwrap_or(usize::MAX).min(sources.len());
    let made = |ordinal: usize| Some(source_line(sources.get(ordinal)?, Form::Whole));
    let (lines, next) = newest((0..end).rev(), purse, made, source_bytes, before.is_some());
    (lines, rest_cursor(List::Sources, next))
}

/// Rejected approaches before an ordinal, or the newest.
#[must_use]
pub fn rejected_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<RejectedLine>, Option<Cursor>) {
    let end = before.unwrap_or(usize::MAX).min(research.rejected().len());
    let made = |ordinal| rejected_line(research, ordinal);
    let (lines, next) = newest((0..end).rev(), purse, made, rejected_bytes, before.is_some());
    (lines, rest_cursor(List::Rejected, next))
}

/// The step of that ordinal in the index. In the form of a line it is shorter and without its
/// confidence.
#[must_use]
pub(super) fn index_line(research: &Research, ordinal: usize, form: Form) -> Option<StepLine> {
    let step = research.steps().get(ordinal)?;
    Some(StepLine {
        number: step.number,
        branch_id: research.branch_of_step(step).map(|branch| branch.id.to_string()),
        line: listed(&step.line, form),
        confidence: step.confidence.filter(|_| form > Form::Line),
        superseded_by: step.superseded_by,
    })
}

/// The text of an item of a list: in the form of a line its first [`LISTED_CHARS`].
fn listed(text: &str, form: Form) -> String {
    if form == Form::Line { one_line(text, LISTED_CHARS) } else { text.to_owned() }
}

/// The line of a gap with all that it has.
#[must_use]
pub fn whole_gap(gap: &KnowledgeGap) -> OpenGap {
    gap_line(gap, Form::Whole)
}

/// The line of a gap. In the form of a line it is shorter and without its step.
pub(super) fn gap_line(gap: &KnowledgeGap, form: Form) -> OpenGap {
    OpenGap {
        id: gap.id.to_string(),
        description: listed(&gap.description, form),
        step: gap.opened_by.filter(|_| form > Form::Line),
    }
}

/// The line of a source. In the form of a line it is its address and the beginning of its title.
#[must_use]
pub(super) fn source_line(source: &ResearchSource, form: Form) -> SourceOfView {
    let is_more = form > Form::Line;
    let text = |text: &Option<Box<str>>| text.as_deref().filter(|_| is_more).map(str::to_owned);
    SourceOfView {
        url: fit(&source.url, URL_BYTES_MAX).text,
        title: source.title.as_deref().map(|title| match form {
            Form::Line => one_line(title, TITLE_CHARS),
            _ => title.to_owned(),
        }),
        kind: text(&source.kind),
        step: source.step.filter(|_| is_more),
        by_server: is_more.then_some(source.by_server),
        tool: text(&source.tool),
    }
}

/// The line of the rejected approach of that ordinal.
#[must_use]
pub(super) fn rejected_line(research: &Research, ordinal: usize) -> Option<RejectedLine> {
    let (step, text) = research.rejected().get(ordinal)?;
    let step = research.steps().get(*step).map(|step| step.number);
    Some(RejectedLine { text: text.as_ref().to_owned(), step })
}

/// The line of a branch.
#[must_use]
pub(super) fn branch_line(branch: &Branch) -> BranchOut {
    BranchOut { branch_id: branch.id.to_string(), from_step: branch.from, last_step: branch.last }
}

/// Digits of a number.
fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Bytes of a member with a number, if present.
fn numbered(name: &str, number: Option<u64>) -> usize {
    number.map_or(0, |number| name.len() + 4 + digits(number))
}

/// Bytes of a member with a text, if present.
fn named(name: &str, text: Option<&str>) -> usize {
    text.map_or(0, |text| name.len() + 4 + json_bytes(text))
}

/// Bytes of a step in one line in the longest wire form.
pub(super) fn line_bytes(line: &StepLine) -> usize {
    let text = r#"{"stepNumber":,"oneLiner":},"#.len() + digits(line.number);
    let branch = named("branchId", line.branch_id.as_deref());
    let confidence = named("confidence", line.confidence.map(|_| "medium"));
    text + json_bytes(&line.line)
        + branch
        + confidence
        + numbered("supersededBy", line.superseded_by)
}

/// Bytes of a gap in the longest wire form.
#[must_use]
pub fn gap_bytes(gap: &OpenGap) -> usize {
    let text = r#"{"gapId":,"description":},"#.len();
    text + json_bytes(&gap.id) + json_bytes(&gap.description) + numbered("foundInStep", gap.step)
}

/// Bytes of a source in the longest wire form.
pub(super) fn source_bytes(source: &SourceOfView) -> usize {
    let text = r#"{"url":},"#.len() + json_bytes(&source.url);
    text + named("foundBy", source.by_server.map(|_| "server"))
        + named("title", source.title.as_deref())
        + named("relevance", source.kind.as_deref())
        + named("tool", source.tool.as_deref())
        + numbered("foundInStep", source.step)
}

/// Bytes of an approach that was ruled out in the longest wire form.
pub(super) fn rejected_bytes(line: &RejectedLine) -> usize {
    r#"{"approach":},"#.len() + json_bytes(&line.text) + numbered("foundInStep", line.step)
}

/// Bytes of a branch in the longest wire form.
pub(super) fn branch_bytes(branch: &BranchOut) -> usize {
    let text = r#"{"branchId":},"#.len() + json_bytes(&branch.branch_id);
    text + numbered("fromStep", branch.from_step) + numbered("lastStep", Some(branch.last_step))
}
