//! The passages of an event, field by field and piece by piece: steps, reasons, gaps, sources,
//! messages, calls and results of tools, and the strings and numbers of any other event. It must
//! not rank.

use std::fmt::Write as _;

use super::{
    pieces::pieces,
    text::{body_with_words, words_in},
};
use crate::{
    event::{Event, kinds},
    projection::body::{self, GapBody, SourceBody, StepBody},
};

/// Bytes below which sentences and lines are joined into a piece.
const PROSE_BYTES_MIN: usize = 24;
const PRINTED_BYTES_MIN: usize = 160;
/// Members whose text is not prefixed by their name.
const NOT_NAMED: [&str; 3] = ["content", "text", "name"];

/// Source of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
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

impl Field {
    /// Returns its name.
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

    /// Returns true if it is prose, which is split into sentences.
    fn is_prose(self) -> bool {
        !matches!(self, Self::Call | Self::Result | Self::Event)
    }
}

/// A piece of an event's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Its field.
    pub field: Field,
    /// Its index among the passages of the event, from 0.
    pub ordinal: u32,
    /// True if it is the first piece of a text.
    pub is_first: bool,
    /// Its text: one sentence, or some lines.
    pub text: &'a str,
}

/// Calls `visit` with every passage of the event, in the same order each time. An event without
/// text, and a call of one of this program's own tools, has none.
pub fn passages(event: &Event, mut visit: impl FnMut(Passage<'_>)) {
    let mut ordinal = 0;
    let mut say = |field: Field, text: &str| {
        let bytes_min = if field.is_prose() { PROSE_BYTES_MIN } else { PRINTED_BYTES_MIN };
        let mut is_first = true;
        pieces(text, bytes_min, |text| {
            visit(Passage { field, ordinal, is_first, text });
            is_first = false;
            ordinal += 1;
        });
    };
    match event.kind.as_str() {
        kinds::RESEARCH_STEP => {
            let Some(step) = body::read::<StepBody>(&event.body) else { return };
            say(Field::Step, &step.description);
            say(Field::Reason, step.reasoning.as_deref().unwrap_or_default());
            step.rejected.iter().for_each(|approach| say(Field::Rejected, approach));
        }
        kinds::RESEARCH_GAP_OPENED => {
            let Some(gap) = body::read::<GapBody>(&event.body) else { return };
            say(Field::Gap, gap.description.as_deref().unwrap_or_default());
        }
        // The text is in the event that opened the gap.
        kinds::RESEARCH_GAP_CLOSED => {}
        kinds::SOURCE_FOUND => {
            let Some(source) = body::read::<SourceBody>(&event.body) else { return };
            let title = source.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
            let source =
                title.map_or_else(|| source.url.clone(), |t| format!("{t} {}", source.url));
            say(Field::Source, &source);
        }
        other => {
            let Some(body) = body_with_words(event) else { return };
            let mut text = String::new();
            words_in(other, &body, &mut |name, said| {
                // Writing to a string cannot fail.
                let _ = match name.filter(|name| !NOT_NAMED.contains(name)) {
                    Some(name) => writeln!(text, "{name}: {said}"),
                    None => writeln!(text, "{said}"),
                };
            });
            say(field_for(other), &text);
        }
    }
}

fn field_for(kind: &str) -> Field {
    match kind {
        kinds::USER_MESSAGE => Field::Instruction,
        kinds::AGENT_MESSAGE | kinds::AGENT_THINKING => Field::Answer,
        kind if kinds::is_call(kind) => Field::Call,
        kind if kinds::is_result(kind) => Field::Result,
        _ => Field::Event,
    }
}
