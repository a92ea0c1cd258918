//! The lists of a session as shown: index lines, gaps, sources, rejected approaches, branches; and
//! pages of them, newest first, by cursor. They must not choose: a page is in order.

use super::{
    budget::{Budget, fit, json_bytes},
    gather::LISTED_CHARS,
    select::Form,
};
use crate::{
    api::{
        cursor::{Cursor, List},
        overview::{OpenGap, PageAnswer, RejectedLine, SourceOfView},
        research::BranchOut,
        scalar::Word,
        step::StepLine,
    },
    event::text::one_line,
    projection::{Branch, KnowledgeGap, Research, ResearchSource},
};

/// Characters of the title of a source in its shortest form.
const TITLE_CHARS: usize = 100;
/// Bytes of a URL that are shown.
const URL_BYTES_MAX: usize = 900;

/// A page of a list: its items before an ordinal, the newest that fit, at least one; the cursor
/// continues with older ones.
#[must_use]
pub fn list_page(research: &Research, list: List, before: usize, bytes_max: usize) -> PageAnswer {
    let (mut steps, mut sources, mut gaps, mut rejected) = (vec![], vec![], vec![], vec![]);
    let below = |count: usize| (0..before.min(count)).rev();
    let rest = match list {
        List::Steps => {
            let line = |at| index_line(research, at, Form::Whole);
            newest(below(research.steps().len()), bytes_max, line, line_bytes, &mut steps)
        }
        List::Sources => {
            let line = |at: usize| Some(source_line(research.sources().get(at)?, Form::Whole));
            newest(below(research.sources().len()), bytes_max, line, source_bytes, &mut sources)
        }
        List::Gaps => {
            let open = research.gaps_open().range(..before).rev().copied();
            let line = |at: usize| research.gaps().get(at).map(whole_gap);
            newest(open, bytes_max, line, gap_bytes, &mut gaps)
        }
        List::Rejected => {
            let line = |at| rejected_line(research, at);
            newest(below(research.rejected().len()), bytes_max, line, rejected_bytes, &mut rejected)
        }
    };
    let next_cursor = rest.map(|before| Cursor::List { list, before });
    PageAnswer { list, steps, sources, gaps, rejected, next_cursor }
}

/// Takes items in descending order until the budget is spent; at least one, so that paging
/// advances. Leaves them in ascending order; returns the ordinal of the oldest if older ones are
/// left.
fn newest<T>(
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

/// The step of that ordinal in the index. In the form of a line it is shorter and without its
/// confidence.
#[must_use]
pub(super) fn index_line(research: &Research, ordinal: usize, form: Form) -> Option<StepLine> {
    let step = research.steps().get(ordinal)?;
    Some(StepLine {
        number: step.number,
        branch_id: research.branch_of_step(step).map(|branch| branch.id.to_string()),
        line: listed(&step.line, form),
        confidence: step.confidence.filter(|_| form > Form::Line).map(Word::from),
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
    let confidence = named("confidence", line.confidence.as_ref().map(|_| "medium"));
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
