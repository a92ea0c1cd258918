//! Facts about a whole session that the rows of any part of it need. It reads no more of an event
//! than that takes, since the first rows of a long session wait for it.

use super::DroppedRanges;
use crate::{
    event::{Event, Position, Range, kinds, pace},
    traces::ToolBody,
};

/// Fold of all events of a session, gaps included, which continues at a position.
pub trait SessionFold {
    /// Number of reads folded before the session is released for other requests.
    const READS_AT_ONCE: usize;

    /// Creates the fold of a session without events.
    fn new(workspace: Option<&str>) -> Self;

    /// Returns the first position that is not folded yet.
    fn position(&self) -> Position;

    /// Folds the next event.
    fn fold(&mut self, event: &Event);

    /// Records positions that cannot be read.
    fn fold_gap(&mut self, range: Range, reason: &str);

    /// Moves on to a position behind which nothing else precedes `to`.
    fn advance(&mut self, to: Position);
}

/// Ranges out of the model's context, and the directory, of a session.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    position: Position,
    dropped: DroppedRanges,
    directory: Option<Box<str>>,
}

impl Outline {
    /// Returns the positions that compactions took out of the model's context.
    #[must_use]
    pub fn dropped(&self) -> &DroppedRanges {
        &self.dropped
    }

    /// Returns the directory of the session, once a call contained it.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// Returns the approximate memory use in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.dropped.weight()
    }
}

impl SessionFold for Outline {
    const READS_AT_ONCE: usize = 16;

    fn new(_: Option<&str>) -> Self {
        Self::default()
    }

    fn position(&self) -> Position {
        self.position
    }

    fn fold(&mut self, event: &Event) {
        self.position = event.position.plus(1);
        self.dropped.fold(event);
        if self.directory.is_none() && kinds::is_call(event.kind.as_str()) {
            pace::steps(1 + event.body.len() / 256);
            let event = event.with_paired_surrogates();
            self.directory = ToolBody::parse(&event.body).and_then(|call| call.directory());
        }
    }

    fn fold_gap(&mut self, _: Range, _: &str) {}

    fn advance(&mut self, to: Position) {
        self.position = self.position.max(to);
    }
}
