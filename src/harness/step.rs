//! A research step within a byte budget: its texts from a byte offset, and the cursor of the rest.
//! It must not read the log.

use super::{
    budget::{Budget, find_nonzero_end, fit, json_bytes},
    gather::{STEP_BYTES, shorten_to_form},
    select::ItemForm,
};
use crate::{
    api::{scalar::OpenEnum, step::StepOfView},
    event::{Position, Timestamp},
    projection::body::StepBody,
};

/// Bytes of JSON of a step's small members: names, numbers, times, quotes.
const FRAME_BYTES: usize = 420;
/// Bytes of JSON of a step's number, confidence, time and position with their names, in an
/// overview.
const SMALL_BYTES: usize = 195;
/// Most bytes of a branch's name that are shown.
const BRANCH_BYTES_MAX: usize = 300;
/// Bytes of JSON around each rejected approach.
const ITEM_BYTES: usize = 1;

/// Facts about a step that its body does not contain.
#[derive(Clone, Copy, Debug)]
pub struct StepContext {
    /// Position of its event.
    pub position: Position,
    /// Time of its recording.
    pub at: Timestamp,
    /// Number of the step that supersedes it.
    pub superseded_by: Option<u64>,
}

/// Returns the step in a form: its texts within `bytes_min`, or with 0 its description on one line;
/// within [`STEP_BYTES`]; or in full. In a shortened step, the reasoning and the rejected
/// approaches have a share each.
#[must_use]
pub(super) fn shorten_step(
    body: &StepBody,
    place: StepContext,
    form: ItemForm,
    (bytes_min, line_chars): (usize, usize),
) -> StepOfView {
    let branch_id = body.branch_id.as_deref().map(|name| fit(name, BRANCH_BYTES_MAX).text);
    let rejected_bytes: usize = body.rejected.iter().map(String::len).sum();
    let reasoning_bytes = body.reasoning.as_ref().map_or(0, String::len);
    let bytes = body.description.len() + reasoning_bytes + rejected_bytes;
    if form == ItemForm::Line && bytes_min == 0 {
        let description = shorten_to_form(&body.description, form, 0, line_chars).text;
        let truncated = description.len() < bytes;
        let texts = StepTexts { description, reasoning: None, rejected: Vec::new() };
        return build_view(body, place, branch_id, texts, truncated);
    }
    let max = match form {
        ItemForm::Line => bytes_min,
        ItemForm::Short => STEP_BYTES,
        _ => usize::MAX,
    };
    let fits = bytes <= max;
    let cut = |text: &str, max: usize| match fits {
        true => text.to_owned(),
        false => shorten_to_form(text, ItemForm::Short, max, line_chars).text,
    };
    let mut budget = Budget::new(if fits { usize::MAX } else { max / 6 });
    let rejected = body.rejected.iter().take_while(|approach| budget.spend(approach.len()));
    let rejected: Vec<String> = rejected.cloned().collect();
    // An unused part of one text's share goes to the other.
    let max = max - rejected.iter().map(String::len).sum::<usize>();
    let reasoning_max = max.saturating_sub(body.description.len()).max(max / 4);
    let reasoning = body.reasoning.as_deref().map(|text| cut(text, reasoning_max));
    let description = cut(&body.description, max - reasoning_bytes.min(reasoning_max));
    build_view(body, place, branch_id, StepTexts { description, reasoning, rejected }, !fits)
}

/// Returns the bytes of a step in the longest wire form.
pub(super) fn step_bytes(step: &StepOfView) -> usize {
    let text =
        |name: &str, text: Option<&str>| text.map_or(0, |text| name.len() + 4 + json_bytes(text));
    let member = |name: &str, there: bool| if there { name.len() + 9 } else { 0 };
    let rejected: usize = step.rejected.iter().map(|text| json_bytes(text) + ITEM_BYTES).sum();
    SMALL_BYTES
        + json_bytes(&step.description)
        + text("reasoning", step.reasoning.as_deref())
        + text("branchId", step.branch_id.as_deref())
        + member("revisesStep", step.revises.is_some())
        + member("supersededBy", step.superseded_by.is_some())
        + member("branchFromStep", step.branch_from.is_some())
        + member("isRevision", step.is_revision)
        + member("isFinal", step.is_final)
        + member("truncated", step.truncated)
        + rejected
}

/// Returns the step from byte `byte_offset` of its concatenated texts (description, reasoning,
/// rejected approaches), and the byte offset of the rest if it does not fit.
#[must_use]
pub fn step_page(
    body: &StepBody,
    place: StepContext,
    byte_offset: usize,
    bytes_max: usize,
) -> (StepOfView, Option<usize>) {
    let mut budget = Budget::new(bytes_max);
    let branch_id = fit_branch_name(body, &mut budget);
    budget.spend_up_to(FRAME_BYTES);
    let mut window = TextWindow { skip: byte_offset, at: 0, full: false, budget };
    let description = window.show_part(&body.description).unwrap_or_default();
    let reasoning = body.reasoning.as_ref().and_then(|text| window.show_part(text));
    let rejected = body.rejected.iter().filter_map(|text| window.show_part(text)).collect();
    let truncated = window.full || byte_offset > 0;
    let next = window.full.then_some(window.at);
    (
        build_view(
            body,
            place,
            branch_id,
            StepTexts { description, reasoning, rejected },
            truncated,
        ),
        next,
    )
}

/// Byte window over concatenated texts, from one byte offset until the budget is spent.
struct TextWindow {
    /// Number of bytes still to skip.
    skip: usize,
    /// Number of bytes skipped or shown.
    at: usize,
    /// True if something did not fit.
    full: bool,
    budget: Budget,
}

impl TextWindow {
    fn show_part(&mut self, text: &str) -> Option<String> {
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
        if self.budget.remaining() <= frame + 12 {
            self.full = true;
            self.at += start;
            return None;
        }
        let end = find_nonzero_end(rest, self.budget.remaining() - frame);
        let shown = rest.get(..end).unwrap_or_default().to_owned();
        self.budget.spend_up_to(json_bytes(&shown) + ITEM_BYTES);
        self.at += start + end;
        self.full = end < rest.len();
        Some(shown)
    }
}

struct StepTexts {
    description: String,
    reasoning: Option<String>,
    rejected: Vec<String>,
}

fn fit_branch_name(body: &StepBody, budget: &mut Budget) -> Option<String> {
    let name = fit(body.branch_id.as_deref()?, BRANCH_BYTES_MAX).text;
    budget.spend_up_to(json_bytes(&name));
    Some(name)
}

fn build_view(
    body: &StepBody,
    place: StepContext,
    branch_id: Option<String>,
    texts: StepTexts,
    truncated: bool,
) -> StepOfView {
    StepOfView {
        number: body.number,
        description: texts.description,
        reasoning: texts.reasoning,
        confidence: body.confidence.map(OpenEnum::from),
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

    const MIN: (usize, usize) = (640, 120);

    fn step_place() -> StepContext {
        StepContext { position: Position(7), at: Timestamp(0), superseded_by: None }
    }

    #[test]
    fn concatenated_pages_of_a_step_equal_the_step() {
        let body = StepBody {
            number: 5,
            description: "find 👨‍👩‍👧 \"it\"\n".repeat(1_000),
            reasoning: Some("because ".repeat(700)),
            rejected: (0..300).map(|n| format!("approach {n}")).collect(),
            ..StepBody::default()
        };
        let (mut texts, mut offset, mut pages) = (String::new(), Some(0), 0);
        while let Some(from) = offset {
            let (view, next) = step_page(&body, step_place(), from, 3_000);
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
    fn a_short_step_is_shown_in_full() {
        let body = StepBody {
            number: 1,
            description: "d".to_owned(),
            rejected: vec!["r".to_owned()],
            ..StepBody::default()
        };
        let (paged, next) = step_page(&body, step_place(), 0, 3_000);
        assert_eq!((next, paged.truncated), (None, false));
        assert_eq!(shorten_step(&body, step_place(), ItemForm::Short, MIN), paged);
        assert_eq!(shorten_step(&body, step_place(), ItemForm::Line, MIN), paged);
        assert_eq!(shorten_step(&body, step_place(), ItemForm::Line, (0, 120)).rejected.len(), 0);
    }

    #[test]
    fn a_shortened_step_keeps_its_beginning_and_end() {
        let body = StepBody {
            number: 1,
            description: format!("begin {} end", "d ".repeat(45_000)),
            reasoning: Some("r ".repeat(45_000)),
            rejected: vec!["x".repeat(100); 90],
            ..StepBody::default()
        };
        let view = shorten_step(&body, step_place(), ItemForm::Short, MIN);
        assert!(view.truncated && step_bytes(&view) < STEP_BYTES + 400, "{}", step_bytes(&view));
        assert!(view.description.starts_with("begin") && view.description.ends_with("end"));
        assert_eq!(view.rejected.len(), 2);
        let whole = shorten_step(&body, step_place(), ItemForm::Whole, MIN);
        assert!(!whole.truncated && whole.rejected.len() == 90);
        let line = shorten_step(&body, step_place(), ItemForm::Line, MIN);
        assert!(line.truncated && step_bytes(&line) < 950, "{}", step_bytes(&line));
    }
}
