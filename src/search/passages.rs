//! The passages of an event, field by field and piece by piece: steps, reasons, gaps, sources,
//! messages, calls and results of tools, and the strings and numbers of any other event. It must
//! not rank.

use std::fmt::Write as _;

use super::{
    pieces::visit_pieces,
    text::{searchable_body, visit_values},
};
use crate::{
    event::{Event, kinds},
    projection::body::{self, GapBody, SourceBody, StepBody},
};

/// Minimum bytes of a piece of prose, and of printed lines: shorter ones are joined to the next.
const PROSE_BYTES_MIN: usize = 24;
const PRINTED_BYTES_MIN: usize = 160;
/// Members whose text is indexed without their name before it.
const NOT_NAMED: [&str; 3] = ["content", "text", "name"];

/// The part of an event that a passage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassageField {
    /// Description of a step.
    Step,
    /// Reason of a step.
    Reason,
    /// An approach that a step ruled out.
    Rejected,
    /// A knowledge gap.
    Gap,
    /// A source: its title and address.
    Source,
    /// A call of a tool: its name and arguments.
    Call,
    /// Result of a tool.
    Result,
    /// A user's message.
    Instruction,
    /// The agent's message.
    Answer,
    /// Any other text.
    Event,
}

impl PassageField {
    /// Returns the name of the field in responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Reason => "reason",
            Self::Rejected => "rejected",
            Self::Gap => "gap",
            Self::Source => "source",
            Self::Call => "call",
            Self::Result => "result",
            Self::Instruction => "instruction",
            Self::Answer => "answer",
            Self::Event => "event",
        }
    }

    /// Returns true if the field holds prose, which is split into sentences.
    fn is_prose(self) -> bool {
        !matches!(self, Self::Call | Self::Result | Self::Event)
    }
}

/// A piece of an event's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Field that the text comes from.
    pub field: PassageField,
    /// Index among the passages of the event, from 0.
    pub ordinal: u32,
    /// True for the first piece of a field's text.
    pub is_first: bool,
    /// One sentence, or some lines.
    pub text: &'a str,
}

/// Calls `visit` with every passage of the event, in the same order each time. An event without
/// text, and a call of one of this program's own tools, has none.
pub fn visit_passages(event: &Event, mut visit: impl FnMut(Passage<'_>)) {
    let mut ordinal = 0;
    let mut visit_field = |field: PassageField, text: &str| {
        let bytes_min = if field.is_prose() { PROSE_BYTES_MIN } else { PRINTED_BYTES_MIN };
        let mut is_first = true;
        visit_pieces(text, bytes_min, |text| {
            visit(Passage { field, ordinal, is_first, text });
            is_first = false;
            ordinal += 1;
        });
    };
    match event.kind.as_str() {
        kinds::RESEARCH_STEP => {
            let Some(step) = body::read::<StepBody>(&event.body) else { return };
            visit_field(PassageField::Step, &step.description);
            visit_field(PassageField::Reason, step.reasoning.as_deref().unwrap_or_default());
            step.rejected.iter().for_each(|approach| visit_field(PassageField::Rejected, approach));
        }
        kinds::RESEARCH_GAP_OPENED => {
            let Some(gap) = body::read::<GapBody>(&event.body) else { return };
            visit_field(PassageField::Gap, gap.description.as_deref().unwrap_or_default());
        }
        // The text is in the event that opened the gap.
        kinds::RESEARCH_GAP_CLOSED => {}
        kinds::SOURCE_FOUND => {
            let Some(source) = body::read::<SourceBody>(&event.body) else { return };
            let title = source.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
            let source =
                title.map_or_else(|| source.url.clone(), |t| format!("{t} {}", source.url));
            visit_field(PassageField::Source, &source);
        }
        other => {
            let Some(body) = searchable_body(event) else { return };
            let mut text = String::new();
            visit_values(other, &body, &mut |name, value| {
                // Writing to a string cannot fail.
                let _ = match name.filter(|name| !NOT_NAMED.contains(name)) {
                    Some(name) => writeln!(text, "{name}: {value}"),
                    None => writeln!(text, "{value}"),
                };
            });
            visit_field(field_for_type(other), &text);
        }
    }
}

fn field_for_type(kind: &str) -> PassageField {
    match kind {
        kinds::USER_MESSAGE => PassageField::Instruction,
        kinds::AGENT_MESSAGE | kinds::AGENT_THINKING => PassageField::Answer,
        kind if kinds::is_call(kind) => PassageField::Call,
        kind if kinds::is_result(kind) => PassageField::Result,
        _ => PassageField::Event,
    }
}
