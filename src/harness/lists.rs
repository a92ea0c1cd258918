//! The lists of a session as shown: index lines, gaps, sources, rejected approaches, branches; and
//! pages of them, newest first, by cursor. They must not choose: a page is in order.

use super::{
    budget::{Purse, fit, json_bytes},
    cursor::{Cursor, List},
};
use crate::projection::{Branch, Confidence, KnowledgeGap, Research, Source};

/// Bytes of a URL that are shown.
const URL_BYTES_MAX: usize = 900;

/// A step in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexLine {
    /// Its number.
    pub number: u64,
    /// Its branch.
    pub branch_id: Option<String>,
    /// Its description in one line.
    pub line: String,
    /// How sure.
    pub confidence: Option<Confidence>,
    /// Number of the step that supersedes it.
    pub superseded_by: Option<u64>,
}

/// A gap, open or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapLine {
    /// Its name, to close it with.
    pub id: String,
    /// The open question.
    pub description: String,
    /// The step that opened it.
    pub step: Option<u64>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// The step that met it first.
    pub step: Option<u64>,
    /// Whether the server recorded it itself.
    pub by_server: bool,
    /// The tool whose result contained it.
    pub tool: Option<String>,
}

/// An approach that was ruled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedLine {
    /// The approach.
    pub text: String,
    /// Number of the step that ruled it out.
    pub step: Option<u64>,
}

/// A branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchLine {
    /// Its name.
    pub id: String,
    /// The step it left from.
    pub from: Option<u64>,
    /// Its latest step.
    pub last: u64,
}

/// Takes items from the newest ordinal below `before` down until the purse is empty; at least one,
/// so that paging advances. Returns them in ascending order with the ordinal of the oldest.
fn newest<T>(
    ordinals: impl Iterator<Item = usize>,
    purse: &mut Purse,
    mut item: impl FnMut(usize) -> Option<(T, usize)>,
    at_least_one: bool,
) -> (Vec<T>, Option<usize>) {
    let (mut items, mut oldest) = (Vec::new(), None);
    for ordinal in ordinals {
        let Some((made, price)) = item(ordinal) else { continue };
        let must = at_least_one && items.is_empty();
        if !purse.pay(price) && !must {
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
) -> (Vec<IndexLine>, Option<Cursor>) {
    let end = before.unwrap_or(usize::MAX).min(research.steps().len());
    let made =
        |ordinal| Some((index_line(research, ordinal)?, index_line_bytes(research, ordinal)?));
    let (lines, next) = newest((0..end).rev(), purse, made, before.is_some());
    (lines, rest_cursor(List::Steps, next))
}

/// Open gaps before an ordinal, or the newest.
#[must_use]
pub fn gaps_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<GapLine>, Option<Cursor>) {
    let open = research.gaps_open().range(..before.unwrap_or(usize::MAX)).rev().copied();
    let made = |ordinal| {
        let gap = research.gaps().get(ordinal)?;
        Some((gap_line(gap), gap_bytes(gap)))
    };
    let (lines, next) = newest(open, purse, made, before.is_some());
    (lines, rest_cursor(List::Gaps, next))
}

/// Sources before an ordinal, or the newest.
#[must_use]
pub fn sources_page(
    research: &Research,
    before: Option<usize>,
    purse: &mut Purse,
) -> (Vec<SourceLine>, Option<Cursor>) {
    let sources = research.sources();
    let end = before.unwrap_or(usize::MAX).min(sources.len());
    let made = |ordinal: usize| {
        let source = sources.get(ordinal)?;
        Some((source_line(source), source_bytes(source)))
    };
    let (lines, next) = newest((0..end).rev(), purse, made, before.is_some());
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
    let made =
        |ordinal| Some((rejected_line(research, ordinal)?, rejected_bytes(research, ordinal)?));
    let (lines, next) = newest((0..end).rev(), purse, made, before.is_some());
    (lines, rest_cursor(List::Rejected, next))
}

/// The step of that ordinal in the index.
#[must_use]
pub(super) fn index_line(research: &Research, ordinal: usize) -> Option<IndexLine> {
    let step = research.steps().get(ordinal)?;
    Some(IndexLine {
        number: step.number,
        branch_id: research.branch_of_step(step).map(|branch| branch.id.to_string()),
        line: step.line.to_string(),
        confidence: step.confidence,
        superseded_by: step.superseded_by,
    })
}

/// The line of a gap.
#[must_use]
pub fn gap_line(gap: &KnowledgeGap) -> GapLine {
    GapLine {
        id: gap.id.to_string(),
        description: gap.description.to_string(),
        step: gap.opened_by,
    }
}

/// The line of a source.
#[must_use]
pub(super) fn source_line(source: &Source) -> SourceLine {
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    SourceLine {
        url: fit(&source.url, URL_BYTES_MAX).text,
        title: text(&source.title),
        kind: text(&source.kind),
        step: source.step,
        by_server: source.by_server,
        tool: text(&source.tool),
    }
}

/// The line of the rejected approach of that ordinal.
#[must_use]
pub(super) fn rejected_line(research: &Research, ordinal: usize) -> Option<RejectedLine> {
    let (step, text) = research.rejected().get(ordinal)?;
    let step = research.steps().get(*step).map(|step| step.number);
    Some(RejectedLine { text: text.to_string(), step })
}

/// The line of a branch.
#[must_use]
pub(super) fn branch_line(branch: &Branch) -> BranchLine {
    BranchLine { id: branch.id.to_string(), from: branch.from, last: branch.last }
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

/// Bytes of a step's index line, in its longest wire form.
#[must_use]
pub(super) fn index_line_bytes(research: &Research, ordinal: usize) -> Option<usize> {
    let step = research.steps().get(ordinal)?;
    let text = r#"{"stepNumber":,"oneLiner":},"#.len() + digits(step.number);
    let branch = research.branch_of_step(step).map(|branch| &*branch.id);
    let bytes = text + json_bytes(&step.line) + named("branchId", branch);
    let confidence = named("confidence", step.confidence.map(|_| "medium"));
    Some(bytes + confidence + numbered("supersededBy", step.superseded_by))
}

/// Bytes of a gap in its longest wire form.
#[must_use]
pub(super) fn gap_bytes(gap: &KnowledgeGap) -> usize {
    bytes_of_gap(&gap.id, &gap.description, gap.opened_by)
}

fn bytes_of_gap(id: &str, description: &str, step: Option<u64>) -> usize {
    let text = r#"{"gapId":,"description":},"#.len();
    text + json_bytes(id) + json_bytes(description) + numbered("foundInStep", step)
}

impl GapLine {
    /// Bytes in the longest wire form.
    #[must_use]
    pub fn bytes(&self) -> usize {
        bytes_of_gap(&self.id, &self.description, self.step)
    }
}

/// Bytes of a source in its longest wire form.
#[must_use]
pub(super) fn source_bytes(source: &Source) -> usize {
    let text = r#"{"url":,"foundBy":"server"},"#.len();
    let url = match source.url.len() <= URL_BYTES_MAX {
        true => json_bytes(&source.url),
        false => json_bytes(&fit(&source.url, URL_BYTES_MAX).text),
    };
    text + url
        + named("title", source.title.as_deref())
        + named("relevance", source.kind.as_deref())
        + named("tool", source.tool.as_deref())
        + numbered("foundInStep", source.step)
}

/// Bytes of a rejected approach in its longest wire form.
#[must_use]
pub(super) fn rejected_bytes(research: &Research, ordinal: usize) -> Option<usize> {
    let (step, text) = research.rejected().get(ordinal)?;
    let step = research.steps().get(*step).map(|step| step.number);
    let frame = r#"{"approach":},"#.len();
    Some(frame + json_bytes(text) + numbered("foundInStep", step))
}

impl BranchLine {
    /// Bytes in the longest wire form.
    pub(super) fn bytes(&self) -> usize {
        let text = r#"{"branchId":},"#.len() + json_bytes(&self.id);
        text + numbered("fromStep", self.from) + numbered("lastStep", Some(self.last))
    }
}
