//! Cursors of bounded answers. A cursor names a place that never changes while the session grows,
//! so that paging returns everything once. It must not hold a session: the caller names it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A list of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum List {
    /// Steps.
    Steps,
    /// Sources.
    Sources,
    /// Open gaps.
    Gaps,
    /// Rejected approaches.
    Rejected,
}

impl List {
    const ALL: [Self; 4] = [Self::Steps, Self::Sources, Self::Gaps, Self::Rejected];

    fn as_str(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Sources => "sources",
            Self::Gaps => "gaps",
            Self::Rejected => "rejected",
        }
    }
}

/// Where the next page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Older items of a list: those before an ordinal.
    List {
        /// The list.
        list: List,
        /// The ordinal of the oldest item seen.
        before: usize,
    },
    /// The rest of a step's text, from that byte of it on.
    Step {
        /// Ordinal of the step.
        ordinal: usize,
        /// Byte of its texts, one after the other.
        byte_offset: usize,
    },
}

impl Cursor {
    /// Parses a cursor of an answer; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(':')?;
        let number = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<usize>().ok())?
        };
        if name == "step" {
            let (ordinal, byte_offset) = rest.split_once(':')?;
            return Some(Self::Step {
                ordinal: number(ordinal)?,
                byte_offset: number(byte_offset)?,
            });
        }
        let list = List::ALL.into_iter().find(|list| list.as_str() == name)?;
        Some(Self::List { list, before: number(rest)? })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List { list, before } => write!(f, "{}:{before}", list.as_str()),
            Self::Step { ordinal, byte_offset } => write!(f, "step:{ordinal}:{byte_offset}"),
        }
    }
}
