//! Where a bounded answer goes on. A cursor names a place that never changes while the session
//! grows, so that paging yields everything once. It must not hold a session: the caller names it.

use std::fmt;

/// Where to go on reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Steps before that ordinal.
    Steps(usize),
    /// Sources before that ordinal.
    Sources(usize),
    /// Gaps before that ordinal.
    Gaps(usize),
    /// Rejected approaches before that ordinal.
    Rejected(usize),
    /// The rest of a step's text, from that byte of it on.
    Step {
        /// Ordinal of the step.
        ordinal: usize,
        /// Byte of its texts, one after the other.
        byte_offset: usize,
    },
}

impl Cursor {
    /// Parses what an answer gave; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let name = parts.next()?;
        let number = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<usize>().ok())?
        };
        let first = number(parts.next()?)?;
        let second = parts.next();
        if parts.next().is_some() || second.is_some() != (name == "step") {
            return None;
        }
        match name {
            "steps" => Some(Self::Steps(first)),
            "sources" => Some(Self::Sources(first)),
            "gaps" => Some(Self::Gaps(first)),
            "rejected" => Some(Self::Rejected(first)),
            "step" => Some(Self::Step { ordinal: first, byte_offset: number(second?)? }),
            _ => None,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(before) => write!(f, "steps:{before}"),
            Self::Sources(before) => write!(f, "sources:{before}"),
            Self::Gaps(before) => write!(f, "gaps:{before}"),
            Self::Rejected(before) => write!(f, "rejected:{before}"),
            Self::Step { ordinal, byte_offset } => write!(f, "step:{ordinal}:{byte_offset}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_parses_back_and_nothing_else_does() {
        for text in ["steps:9", "sources:0", "gaps:1", "rejected:7", "step:3:4096"] {
            assert_eq!(Cursor::parse(text).expect(text).to_string(), text);
        }
        for text in [
            "",
            "steps",
            "steps:",
            "steps:x",
            "steps:-1",
            "steps:1:2",
            "step:1",
            "x:1",
            "step:1:2:3",
            "steps:99999999999999999999999",
        ] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }
}
