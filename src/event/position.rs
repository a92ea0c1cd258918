//! Positions in a session and in a store. It must not know byte offsets: those belong to files.

use std::fmt;

/// 0-based, dense, permanent index of an event in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The first position of every session.
    pub const ZERO: Self = Self(0);

    /// Returns the position `count` later; saturates at the end of the number range.
    #[must_use]
    pub fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Returns the position `count` earlier, or the first one.
    #[must_use]
    pub fn minus(self, count: u64) -> Self {
        Self(self.0.saturating_sub(count))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Log sequence number of a record, event or control, among all records of one store. Never reused,
/// not even for a record that was rolled back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// Half-open range `[from, to)` of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First position in the range.
    pub from: Position,
    /// First position after the range.
    pub to: Position,
}

impl Range {
    /// Returns the range `[from, to)`; empty when `to` is not after `from`.
    #[must_use]
    pub fn new(from: Position, to: Position) -> Self {
        Self { from, to: to.max(from) }
    }

    /// Returns the number of positions in the range.
    #[must_use]
    pub fn len(self) -> u64 {
        self.to.0 - self.from.0
    }

    /// Returns true if the range contains no position.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.to <= self.from
    }

    /// Returns true if `position` is in the range.
    #[must_use]
    pub fn contains(self, position: Position) -> bool {
        self.from <= position && position < self.to
    }

    /// Returns true if all of `other` is in this range; an empty range may be at its end.
    #[must_use]
    pub fn contains_range(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}
