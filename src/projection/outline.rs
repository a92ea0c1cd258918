//! Facts about a whole session that the rows of any part of it need. It reads no more of an event
//! than that takes, since the first rows of a long session wait for it.

use super::{
    DroppedRanges, WithdrawnRanges, compactions::DroppedFold, parse_withdrawn, times::own_time,
};
use crate::{
    event::{Event, Position, Range, Timestamp, kinds, pace},
    traces::ToolBody,
};

/// Maximum number of cells of the times of a session.
const TIME_CELLS_MAX: usize = 1024;

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

/// Latest time of a session's events up to the end of each cell. Cells are as wide as a bounded
/// number of them takes.
#[derive(Clone, Debug)]
struct TimeCells {
    width: u64,
    latest: Vec<Option<Timestamp>>,
}

impl Default for TimeCells {
    fn default() -> Self {
        Self { width: 1, latest: Vec::new() }
    }
}

impl TimeCells {
    fn fold(&mut self, event: &Event) {
        while event.position.0 / self.width >= TIME_CELLS_MAX as u64 {
            self.width *= 2;
            self.latest = self.latest.chunks(2).filter_map(|pair| pair.last().copied()).collect();
        }
        let before = self.latest.last().copied().flatten();
        let cell = usize::try_from(event.position.0 / self.width).unwrap_or(TIME_CELLS_MAX);
        self.latest.resize(cell + 1, before);
        if let Some(latest) = self.latest.last_mut() {
            *latest = before.max(own_time(event));
        }
    }

    /// Returns the cell of the first event at or after a time.
    fn find(&self, time: Timestamp) -> Option<Range> {
        let cell = self.latest.partition_point(|latest| *latest < Some(time)) as u64;
        let range = Range::new(Position(cell * self.width), Position((cell + 1) * self.width));
        (cell < self.latest.len() as u64).then_some(range)
    }
}

/// Ranges out of the model's context, times, and the directory, of a session.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    position: Position,
    times: TimeCells,
    dropped: DroppedFold,
    directory: Option<Box<str>>,
}

impl Outline {
    /// Returns the positions that compactions took out of the model's context.
    #[must_use]
    pub fn dropped(&self) -> &DroppedRanges {
        self.dropped.out()
    }

    /// Returns the positions that the client went back behind.
    #[must_use]
    pub fn withdrawn(&self) -> &WithdrawnRanges {
        self.dropped.withdrawn()
    }

    /// Returns the directory of the session, once a call contained it.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// Returns positions that contain the first event that [happened](own_time) at or after a time,
    /// if there is one.
    #[must_use]
    pub fn find_time(&self, time: Timestamp) -> Option<Range> {
        self.times.find(time)
    }

    /// Returns the approximate memory use in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>()
            + self.dropped.weight()
            + self.times.latest.len() * size_of::<Option<Timestamp>>()
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
        self.times.fold(event);
        self.dropped.fold(event);
        if let Some(withdrawn) = parse_withdrawn(event) {
            self.dropped.withdraw(withdrawn);
        }
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
