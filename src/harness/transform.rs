//! Transforms of a conversation before it enters a window: pure functions from units to units,
//! applied in the given order. The log is unchanged: a shortened text contains the position of the
//! original. It must not choose what fits: the window does.

use std::collections::HashSet;

use super::{
    conversation_event::{ContentBlock, ConversationEvent, Speech},
    squeeze::{self, CommentSyntax},
    tokens::Counter,
    unit::Unit,
};
use crate::event::{Position, json};

/// Default number of the latest exchanges that stay complete, and default tokens of older outputs.
const KEEP: usize = 3;
const TOKENS: usize = 100;
/// Tokens reserved for the note in a shortened text.
const NOTE_TOKENS: usize = 40;
/// Default and maximum percentage of the budget that may stay free for a stable beginning.
const SLACK_PERCENT: usize = 25;
const SLACK_PERCENT_MAX: usize = 75;

/// A transform of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transform {
    /// Shortens texts.
    Compress(Compression),
    /// Leaves units out.
    Filter(UnitFilter),
    /// Moves constant texts to the front and keeps the previous beginning as long as possible, for
    /// a prompt cache.
    Reorder {
        /// Percentage of the budget that may stay free for it.
        slack: usize,
    },
    /// Adds the position of each message, and a note on what is not shown.
    Annotate {
        /// True to add the time as well.
        times: bool,
    },
}

/// Ways of shortening texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// True to remove needless white space.
    pub whitespace: bool,
    /// True to remove comment lines of code, in tool results or fenced blocks.
    pub comments: bool,
    /// Most tokens of older tool results; `None` leaves them.
    pub elide: Option<usize>,
    /// Least number of the latest exchanges that stay complete.
    pub keep: usize,
}

/// Units that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitFilter {
    /// Types that are kept; empty for all.
    pub types: Vec<String>,
    /// Types that are dropped.
    pub drop: Vec<String>,
    /// True to drop a repeated call with the same result.
    pub duplicates: bool,
}

/// Error for a text that is not a transform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no transform: write compress[:whitespace,comments,elide,keep=N,tokens=N], \
     filter[:types=A|B,drop=A|B,duplicates], reorder[:slack=PERCENT] or annotate[:times]"
)]
pub struct TransformError {
    /// Text that was given.
    pub text: String,
}

impl Transform {
    /// Parses a name and its parameters.
    ///
    /// # Errors
    /// [`TransformError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, TransformError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let parameters: Vec<(&str, &str)> = parameters
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .collect();
        let parsed = match name.trim() {
            "compress" => parse_compress(&parameters),
            "filter" => parse_filter(&parameters),
            "reorder" => match parameters.as_slice() {
                [] => Some(Self::Reorder { slack: SLACK_PERCENT }),
                [("slack", percent)] => percent
                    .parse()
                    .ok()
                    .filter(|percent| *percent <= SLACK_PERCENT_MAX)
                    .map(|slack| Self::Reorder { slack }),
                _ => None,
            },
            "annotate" => match parameters.as_slice() {
                [] => Some(Self::Annotate { times: false }),
                [("times", "")] => Some(Self::Annotate { times: true }),
                _ => None,
            },
            _ => None,
        };
        parsed.ok_or_else(|| TransformError { text: text.chars().take(200).collect() })
    }

    /// Returns true if it drops events of a type.
    #[must_use]
    pub fn drops_type(&self, kind: &str) -> bool {
        let Self::Filter(filter) = self else { return false };
        let is = |types: &[String]| types.iter().any(|name| matches_type(name, kind));
        !filter.types.is_empty() && !is(&filter.types) || is(&filter.drop)
    }

    /// Applies the transform to units.
    #[must_use]
    pub fn apply(&self, units: Vec<Unit>, counter: &dyn Counter) -> Vec<Unit> {
        match self {
            Self::Compress(compress) => compress.apply(units, counter),
            Self::Filter(filter) => filter.apply(units),
            Self::Reorder { .. } => {
                let (mut first, others): (Vec<Unit>, Vec<Unit>) =
                    units.into_iter().partition(Unit::is_system);
                first.extend(others);
                first
            }
            Self::Annotate { times } => annotate(units, *times),
        }
    }
}

fn parse_compress(parameters: &[(&str, &str)]) -> Option<Transform> {
    let none = Compression { whitespace: false, comments: false, elide: None, keep: KEEP };
    let (mut made, mut elide, mut tokens) = (none, false, TOKENS);
    for (name, value) in parameters {
        match (*name, *value) {
            ("whitespace", "") => made.whitespace = true,
            ("comments", "") => made.comments = true,
            ("elide", "") => elide = true,
            ("keep", number) => made.keep = number.parse().ok()?,
            ("tokens", number) => tokens = number.parse().ok()?,
            _ => return None,
        }
    }
    if !(made.whitespace || made.comments || elide) {
        (made.whitespace, made.comments, elide) = (true, true, true);
    }
    made.elide = elide.then_some(tokens);
    Some(Transform::Compress(made))
}

fn parse_filter(parameters: &[(&str, &str)]) -> Option<Transform> {
    let mut made = UnitFilter { duplicates: parameters.is_empty(), ..UnitFilter::default() };
    let list = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    for (name, value) in parameters {
        match (*name, *value) {
            ("duplicates", "") => made.duplicates = true,
            (_, "") => return None,
            ("types", types) => made.types = list(types),
            ("drop", types) => made.drop = list(types),
            _ => return None,
        }
    }
    Some(Transform::Filter(made))
}

impl Compression {
    fn apply(&self, mut units: Vec<Unit>, counter: &dyn Counter) -> Vec<Unit> {
        let whole_from = start_of_complete_exchanges(&units, self.keep);
        for unit in &mut units {
            let language = unit.said.iter().find_map(guess_language);
            let old = unit.is_exchange() && unit.position() < whole_from;
            for one in &mut unit.said {
                let is_result = matches!(one.speech, Speech::Result(_));
                if self.comments {
                    one.rewrite_texts(|text| match language.filter(|_| is_result) {
                        Some(language) => squeeze::remove_comment_lines(text, language),
                        None => squeeze::remove_fenced_comments(text),
                    });
                }
                if self.whitespace {
                    one.rewrite_texts(squeeze::remove_whitespace);
                }
                if let Some(tokens) = self.elide.filter(|_| old && is_result) {
                    shorten_event(one, tokens, counter);
                }
            }
        }
        units
    }
}

/// Returns the language of the file that a call names, since its output is likely that file.
fn guess_language(one: &ConversationEvent) -> Option<CommentSyntax> {
    let Speech::Call(call) = &one.speech else { return None };
    let input: serde_json::Value = serde_json::from_str(json::check(&call.input)?).ok()?;
    let path = ["path", "file_path", "file", "filename"].into_iter().find_map(|name| {
        input.get(name).and_then(serde_json::Value::as_str).filter(|path| path.contains('.'))
    });
    CommentSyntax::for_name(path?)
}

/// Returns the position from which exchanges stay complete: at least the last `keep`, at most twice
/// as many. It moves rarely, so that a model's prompt cache stays valid.
fn start_of_complete_exchanges(units: &[Unit], keep: usize) -> Position {
    let exchanges: Vec<Position> =
        units.iter().filter(|unit| unit.is_exchange()).map(Unit::position).collect();
    let last = |count: usize| exchanges.len().checked_sub(count).and_then(|at| exchanges.get(at));
    match (last(keep.saturating_mul(2)), last(keep)) {
        (Some(from), Some(to)) => align_position(*from, *to),
        // With none to keep, all outputs are shortened.
        (_, None) if keep == 0 => Position(u64::MAX),
        _ => Position::ZERO,
    }
}

/// Returns the position in `from..=to` that is divisible by the highest power of two: it stays the
/// same while the range advances, until the range has passed it.
pub(super) fn align_position(from: Position, to: Position) -> Position {
    let multiple = |power: u32| (to.0 >> power) << power;
    let highest = (0..u64::BITS).rev().map(multiple).find(|multiple| *multiple >= from.0);
    Position(highest.unwrap_or(to.0))
}

/// Cuts each text to a number of tokens, including the note with the original's position. A number
/// too small for the note is raised to its cost.
pub(super) fn shorten_event(one: &mut ConversationEvent, tokens: usize, counter: &dyn Counter) {
    let position = one.position;
    let mut cut = false;
    for block in one.blocks_mut().into_iter().flatten() {
        let ContentBlock::Text(text) = block else { continue };
        // A token has at least one byte.
        if text.len() <= tokens || counter.prefix_within(text, tokens).len() == text.len() {
            continue;
        }
        let kept = counter.prefix_within(text, tokens.saturating_sub(NOTE_TOKENS)).trim_end();
        let bytes = text.len() - kept.len();
        *text = format!("{kept} [… {bytes} bytes left out; whole at position {position}]");
        cut = true;
    }
    one.cut |= cut;
    one.changed |= cut;
}

impl UnitFilter {
    fn apply(&self, units: Vec<Unit>) -> Vec<Unit> {
        let mut seen = HashSet::new();
        let mut kept: Vec<Unit> = units
            .into_iter()
            .rev()
            .filter(|unit| self.allows(unit))
            .filter(|unit| {
                !self.duplicates || !unit.is_exchange() || seen.insert(comparison_text(unit))
            })
            .collect();
        kept.reverse();
        kept
    }

    fn allows(&self, unit: &Unit) -> bool {
        let is = |types: &[String]| {
            unit.said
                .iter()
                .any(|one| types.iter().any(|name| matches_type(name, one.kind.as_str())))
        };
        (self.types.is_empty() || is(&self.types)) && !is(&self.drop)
    }
}

/// Returns true if a type is the named one, or begins with a name that ends in `*`.
fn matches_type(name: &str, kind: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => kind.starts_with(beginning),
        None => name == kind,
    }
}

/// Returns a text that is equal for two equal exchanges.
fn comparison_text(unit: &Unit) -> String {
    let parts = unit.said.iter().map(|one| match &one.speech {
        Speech::Call(call) => format!("{:?} {:?}", call.name, call.input),
        _ => format!("{:?}", one.blocks()),
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn annotate(mut units: Vec<Unit>, times: bool) -> Vec<Unit> {
    for one in units.iter_mut().flat_map(|unit| &mut unit.said) {
        if !matches!(one.speech, Speech::User(_) | Speech::Result(_)) {
            continue;
        }
        let mark = match times {
            true => format!("[{} {}] ", one.position, one.at),
            false => format!("[{}] ", one.position),
        };
        let blocks = one.blocks_mut();
        let first = blocks.and_then(|blocks| {
            blocks.iter_mut().find_map(|block| match block {
                ContentBlock::Text(text) => Some(text),
                ContentBlock::Image(_) => None,
            })
        });
        if let Some(text) = first {
            text.insert_str(0, &mark);
            one.changed = true;
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_position_is_stable_while_the_range_advances() {
        let at = |from, to| align_position(Position(from), Position(to)).0;
        assert_eq!((at(0, 9), at(5, 9), at(9, 9), at(13, 15), at(7, 70)), (0, 8, 9, 14, 64));
        let aligned: Vec<u64> = (0..1_000).map(|from| at(from, from + 32)).collect();
        let moves = aligned.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(aligned.iter().zip(0..).all(|(at, from)| (from..=from + 32).contains(at)));
        assert!(moves < 1_000 / 16, "{moves}");
    }
}
