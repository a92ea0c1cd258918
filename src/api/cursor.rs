//! Cursors of bounded answers. A cursor names a point that stays the same while the session grows,
//! so that paging returns everything once. It must not hold a session: the caller names it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A list of a view that is paged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViewList {
    /// Steps.
    Steps,
    /// Sources.
    Sources,
    /// Open gaps.
    Gaps,
    /// Rejected approaches.
    Rejected,
}

impl ViewList {
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

/// Start of the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCursor {
    /// Older items of a list: those before an ordinal.
    List {
        /// List that is paged.
        list: ViewList,
        /// Ordinal of the oldest item that was returned.
        before: usize,
    },
    /// The rest of a step's text, from a byte offset on.
    Step {
        /// Ordinal of the step.
        ordinal: usize,
        /// Byte offset in the step's texts, one after the other.
        byte_offset: usize,
    },
}

impl PageCursor {
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
        let list = ViewList::ALL.into_iter().find(|list| list.as_str() == name)?;
        Some(Self::List { list, before: number(rest)? })
    }
}

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List { list, before } => write!(f, "{}:{before}", list.as_str()),
            Self::Step { ordinal, byte_offset } => write!(f, "step:{ordinal}:{byte_offset}"),
        }
    }
}
