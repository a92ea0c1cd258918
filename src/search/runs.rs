//! Merged view of several parts: for each session its positions ascending, each event once, as runs
//! of consecutive passages in one part. It must not read a term.

use super::part::{Part, SessionRef};
use crate::event::{Position, Range, pace};

/// Returns the positions of a session's range that may be used: none of a session that is not to be
/// searched, else all except redacted ones and those below a fork.
pub type Keep<'k> = dyn Fn(SessionRef<'_>, Range) -> Vec<Range> + 'k;

/// A range of positions in a part, and its passages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PositionRun {
    /// Index in [`Runs::sessions`].
    pub(super) session: usize,
    /// Index of the part.
    pub(super) part: usize,
    /// Index of the session in the part.
    pub(super) index_in_part: usize,
    pub(super) range: Range,
    /// Indexes of the passages in the part.
    pub(super) passages: std::ops::Range<usize>,
}

/// Sessions ascending by hash, and their runs ascending by session and position.
#[derive(Debug, Default)]
pub(super) struct Runs<'a> {
    pub(super) sessions: Vec<SessionRef<'a>>,
    pub(super) runs: Vec<PositionRun>,
}

impl<'a> Runs<'a> {
    /// Returns the runs of the positions that `keep` returns; where two parts overlap, the run of
    /// the earlier part.
    pub(super) fn new(parts: &[Part<'a>], keep: &Keep<'_>) -> Self {
        let mut held: Vec<(SessionRef<'a>, Range, usize, usize)> = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            for (index, session) in part.sessions().enumerate() {
                for range in part.ranges_of(index) {
                    pace::step();
                    let kept = keep(session, range).into_iter();
                    held.extend(kept.map(|kept| (session, kept, at, index)));
                }
            }
        }
        // The runs of each part are sorted already.
        held.sort_by_key(|(session, range, part, _)| (*session, range.from, *part));
        let mut all = Self::default();
        let mut end = Position::ZERO;
        for (session, range, part, index) in held {
            if all.sessions.last().is_none_or(|last| last.hash != session.hash) {
                all.sessions.push(session);
                end = Position::ZERO;
            }
            let range = Range::new(range.from.max(end), range.to);
            if let Some(of) = parts.get(part).filter(|_| !range.is_empty()) {
                end = range.to;
                let passages = of.passages_in(index, range);
                let session = all.sessions.len() - 1;
                all.runs.push(PositionRun { session, part, index_in_part: index, range, passages });
            }
        }
        all
    }
}
