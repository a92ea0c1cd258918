//! One step in full, within a budget: its texts are shown from some byte on, and the view says
//! where to go on. It must not read the log.

use super::budget::{Cut, Purse, end_of_some, fit, json_bytes};
use crate::{
    event::{Position, Timestamp},
    projection::{Confidence, body::StepBody},
};

/// Bytes of JSON of a step's small members: names, numbers, times, quotes.
const FRAME_BYTES: usize = 420;
/// Bytes of JSON around each rejected approach.
const ITEM_BYTES: usize = 1;

/// A step, as far as the budget went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepView {
    /// Its number.
    pub number: u64,
    /// What was done and found.
    pub description: String,
    /// Why.
    pub reasoning: Option<String>,
    /// How sure.
    pub confidence: Option<Confidence>,
    /// What was ruled out.
    pub rejected: Vec<String>,
    /// Whether it revises.
    pub is_revision: bool,
    /// Number of the step it supersedes.
    pub revises: Option<u64>,
    /// Number of the step that supersedes it.
    pub superseded_by: Option<u64>,
    /// Its branch.
    pub branch_id: Option<String>,
    /// Where its branch left.
    pub branch_from: Option<u64>,
    /// Whether it was said to be the last.
    pub is_final: bool,
    /// Where it lies.
    pub position: Position,
    /// When it was recorded.
    pub at: Timestamp,
    /// Whether text is missing here.
    pub truncated: bool,
}

/// Facts about a step that its body does not hold.
#[derive(Clone, Copy, Debug)]
pub struct StepPlace {
    /// Where it lies.
    pub position: Position,
    /// When it was recorded.
    pub at: Timestamp,
    /// Number of the step that supersedes it.
    pub superseded_by: Option<u64>,
}

/// The step with its texts cut to shares of the budget, for an overview.
#[must_use]
pub fn brief(body: &StepBody, place: StepPlace, purse: &mut Purse) -> StepView {
    let branch_id = branch_of(body, purse);
    purse.pay(FRAME_BYTES.min(purse.left()));
    let whole = purse.left();
    let mut cut_any = false;
    let mut take = |text: &str, purse: &mut Purse, bytes: usize| {
        let Cut { text, truncated } = fit(text, bytes.min(purse.left()));
        cut_any |= truncated;
        purse.pay(json_bytes(&text).min(purse.left()));
        text
    };
    let reasoning_share = if body.reasoning.is_some() { whole * 25 / 100 } else { 0 };
    let rejected_share = if body.rejected.is_empty() { 0 } else { whole * 15 / 100 };
    let share = whole - reasoning_share - rejected_share;
    let description = take(&body.description, purse, share);
    let reasoning = body.reasoning.as_ref().map(|text| take(text, purse, reasoning_share));
    let mut rejected = Vec::new();
    let mut left = rejected_share.min(purse.left());
    for approach in &body.rejected {
        if left < 16 {
            break;
        }
        let text = take(approach, purse, left - ITEM_BYTES);
        left = left.saturating_sub(json_bytes(&text) + ITEM_BYTES);
        rejected.push(text);
    }
    let truncated = cut_any || rejected.len() < body.rejected.len();
    view(body, place, branch_id, Texts { description, reasoning, rejected }, truncated)
}

/// The step from byte `byte_offset` of its texts on (description, reasoning and rejected
/// approaches, one after the other), and where to go on when it does not fit.
#[must_use]
pub fn page(
    body: &StepBody,
    place: StepPlace,
    byte_offset: usize,
    bytes_max: usize,
) -> (StepView, Option<usize>) {
    let mut purse = Purse::new(bytes_max);
    let branch_id = branch_of(body, &mut purse);
    purse.pay(FRAME_BYTES.min(purse.left()));
    let mut window = Window { skip: byte_offset, at: 0, full: false, purse };
    let description = window.show(&body.description).unwrap_or_default();
    let reasoning = body.reasoning.as_ref().and_then(|text| window.show(text));
    let rejected = body.rejected.iter().filter_map(|text| window.show(text)).collect();
    let truncated = window.full || byte_offset > 0;
    let next = window.full.then_some(window.at);
    (view(body, place, branch_id, Texts { description, reasoning, rejected }, truncated), next)
}

/// A view through which texts, laid end to end, are seen from one byte on until the purse is empty.
struct Window {
    /// Bytes still to leave out.
    skip: usize,
    /// Bytes accounted for: left out or shown.
    at: usize,
    /// Whether something did not fit.
    full: bool,
    purse: Purse,
}

impl Window {
    fn show(&mut self, text: &str) -> Option<String> {
        if self.full {
            return None;
        }
        if self.skip > 0 && self.skip >= text.len() {
            self.skip -= text.len();
            self.at += text.len();
            return None;
        }
        let skip = std::mem::take(&mut self.skip);
        let start = (skip..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let rest = text.get(start..).unwrap_or_default();
        let frame = 2 + ITEM_BYTES;
        if self.purse.left() <= frame + 12 {
            self.full = true;
            self.at += start;
            return None;
        }
        let end = end_of_some(rest, self.purse.left() - frame);
        let shown = rest.get(..end).unwrap_or_default().to_owned();
        self.purse.pay((json_bytes(&shown) + ITEM_BYTES).min(self.purse.left()));
        self.at += start + end;
        self.full = end < rest.len();
        Some(shown)
    }
}

struct Texts {
    description: String,
    reasoning: Option<String>,
    rejected: Vec<String>,
}

fn branch_of(body: &StepBody, purse: &mut Purse) -> Option<String> {
    let name = fit(body.branch_id.as_deref()?, 300).text;
    purse.pay(json_bytes(&name).min(purse.left()));
    Some(name)
}

fn view(
    body: &StepBody,
    place: StepPlace,
    branch_id: Option<String>,
    texts: Texts,
    truncated: bool,
) -> StepView {
    StepView {
        number: body.number,
        description: texts.description,
        reasoning: texts.reasoning,
        confidence: body.confidence,
        rejected: texts.rejected,
        is_revision: body.is_revision || body.revises.is_some(),
        revises: body.revises,
        superseded_by: place.superseded_by,
        branch_id,
        branch_from: body.branch_from,
        is_final: body.is_final,
        position: place.position,
        at: place.at,
        truncated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> StepPlace {
        StepPlace { position: Position(7), at: Timestamp(0), superseded_by: None }
    }

    #[test]
    fn pages_of_a_step_put_together_are_the_step() {
        let body = StepBody {
            number: 5,
            description: "find 👨‍👩‍👧 \"it\"\n".repeat(1_000),
            reasoning: Some("because ".repeat(700)),
            rejected: (0..300).map(|n| format!("approach {n}")).collect(),
            ..StepBody::default()
        };
        let (mut texts, mut offset, mut pages) = (String::new(), Some(0), 0);
        while let Some(from) = offset {
            let (view, next) = page(&body, place(), from, 3_000);
            let mut shown = view.description.clone();
            shown.push_str(view.reasoning.as_deref().unwrap_or_default());
            shown.extend(view.rejected.iter().map(String::as_str));
            let bytes =
                serde_json::to_string(&(&view.description, &view.reasoning, &view.rejected));
            assert!(bytes.expect("texts").len() + FRAME_BYTES <= 3_000 + 30);
            assert!(view.truncated);
            texts.push_str(&shown);
            assert!(next.is_none_or(|next| next > from), "{from} {next:?}");
            offset = next;
            pages += 1;
        }
        let whole = [body.description, body.reasoning.unwrap_or_default(), body.rejected.concat()];
        assert_eq!(texts, whole.concat());
        assert!(pages > 3);
    }

    #[test]
    fn a_short_step_is_whole() {
        let body = StepBody {
            number: 1,
            description: "d".to_owned(),
            rejected: vec!["r".to_owned()],
            ..StepBody::default()
        };
        let (paged, next) = page(&body, place(), 0, 3_000);
        assert_eq!((next, paged.truncated), (None, false));
        assert_eq!(brief(&body, place(), &mut Purse::new(900)), paged);
    }

    #[test]
    fn a_brief_step_shares_its_budget_out() {
        let body = StepBody {
            number: 1,
            description: "d".repeat(90_000),
            reasoning: Some("r".repeat(90_000)),
            rejected: vec!["x".repeat(90_000); 90],
            ..StepBody::default()
        };
        let view = brief(&body, place(), &mut Purse::new(1_200));
        assert!(view.truncated);
        assert!(view.description.len() > 300 && view.description.ends_with('…'));
        assert!(view.reasoning.is_some_and(|text| text.ends_with('…')));
        assert_eq!(view.rejected.len(), 1);
    }
}
