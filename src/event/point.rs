//! One grammar for a position in a session, the same in every interface. It must not resolve a
//! point: service does, because that needs the log and its facts.

use std::fmt;

use super::{EventId, Position, Timestamp};

/// A reference to a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// `17`: the position itself.
    At(Position),
    /// `end`: the tail.
    End,
    /// `-5`: that many events before the tail.
    BeforeEnd(u64),
    /// `event:<id>`: the position of that event.
    Event(EventId),
    /// `time:<RFC 3339>`: the first event that happened at or after.
    Time(Timestamp),
    /// `step:<n>` or `step:<n>@<branch>`: the position of that research step.
    Step {
        /// 1-based step number.
        number: u64,
        /// The branch, if the step is on one.
        branch: Option<String>,
    },
    /// `checkpoint:<id or label>`: the latest checkpoint of that label.
    Checkpoint(String),
    /// `cursor:<name>`: the position of that cursor.
    Cursor(String),
    /// `action:<event type>[/<n>]`: the n-th last such event, 1 = last.
    Action {
        /// The event type.
        kind: String,
        /// Number counted from the end, from 1.
        nth: u64,
    },
}

/// A text that does not match the grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a point: write a position (17), end, -5, event:<id>, time:<RFC 3339>, \
     step:<n>[@branch], checkpoint:<id>, cursor:<name> or action:<type>[/n]"
)]
pub struct PointError {
    /// Start of the text, at most 200 characters.
    pub text: String,
}

impl Point {
    /// The first position of any session.
    pub const BEGINNING: Self = Self::At(Position::ZERO);

    /// Parses a point.
    ///
    /// # Errors
    /// [`PointError`] when the text does not match the grammar.
    pub fn parse(text: &str) -> Result<Self, PointError> {
        Self::parse_forms(text).ok_or_else(|| PointError { text: text.chars().take(200).collect() })
    }

    fn parse_forms(text: &str) -> Option<Self> {
        if text == "end" {
            return Some(Self::End);
        }
        if let Some(digits) = text.strip_prefix('-') {
            return parse_number(digits).map(Self::BeforeEnd);
        }
        let Some((form, rest)) = text.split_once(':') else {
            return parse_number(text).map(|position| Self::At(Position(position)));
        };
        if rest.is_empty() {
            return None;
        }
        match form {
            "event" => EventId::new(rest).ok().map(Self::Event),
            "time" => Timestamp::parse(rest).map(Self::Time),
            "step" => {
                let (digits, branch) = match rest.split_once('@') {
                    Some((_, "")) => return None,
                    Some((digits, branch)) => (digits, Some(branch.to_owned())),
                    None => (rest, None),
                };
                parse_number(digits).map(|number| Self::Step { number, branch })
            }
            "checkpoint" => Some(Self::Checkpoint(rest.to_owned())),
            "cursor" => Some(Self::Cursor(rest.to_owned())),
            "action" => {
                let (kind, nth) = match rest.split_once('/') {
                    Some((kind, digits)) => (kind, parse_number(digits).filter(|nth| *nth > 0)?),
                    None => (rest, 1),
                };
                Some(Self::Action { kind: kind.to_owned(), nth })
            }
            _ => None,
        }
    }
}

/// Parses decimal digits only: `u64::from_str` would accept a sign.
fn parse_number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(position) => position.fmt(f),
            Self::End => f.write_str("end"),
            Self::BeforeEnd(count) => write!(f, "-{count}"),
            Self::Event(id) => write!(f, "event:{id}"),
            Self::Time(time) => write!(f, "time:{time}"),
            Self::Step { number, branch: None } => write!(f, "step:{number}"),
            Self::Step { number, branch: Some(branch) } => write!(f, "step:{number}@{branch}"),
            Self::Checkpoint(name) => write!(f, "checkpoint:{name}"),
            Self::Cursor(name) => write!(f, "cursor:{name}"),
            Self::Action { kind, nth } => write!(f, "action:{kind}/{nth}"),
        }
    }
}
