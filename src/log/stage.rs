//! Stages in the life of a session, and their form in its settled entry: three optional times and a
//! flag. It must not decide when a session moves on; `store::rules` does.

/// Stage in the life of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Callers may read it.
    #[default]
    Alive,
    /// Callers no longer read it. Its files stay until its grace ends.
    Ended(End),
    /// Its grace has ended: its entry stays until its files are gone.
    Reclaimed(End),
}

/// End of the life of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub(crate) how: Ending,
    /// Microseconds, by the store's clock.
    pub(crate) at: i64,
}

/// The ways in which the life of a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was idle for too long. It can be restored until its grace ends.
    Expired,
    /// A caller deleted it. It can be restored until its grace ends.
    Deleted,
    /// A caller deleted it for good.
    Discarded,
    /// It is unreadable for good; `unfinished` while a file may still hold bytes of it.
    Erased {
        /// True if a file may still hold bytes of it.
        unfinished: bool,
    },
}

impl Stage {
    /// End of its life; `None` while it is alive.
    #[must_use]
    pub fn end(self) -> Option<End> {
        match self {
            Self::Alive => None,
            Self::Ended(end) | Self::Reclaimed(end) => Some(end),
        }
    }

    /// True if callers may read it.
    #[must_use]
    pub fn is_alive(self) -> bool {
        self == Self::Alive
    }

    /// True if its grace has ended.
    #[must_use]
    pub fn is_reclaimed(self) -> bool {
        matches!(self, Self::Reclaimed(_))
    }

    /// True if a caller can bring it back.
    #[must_use]
    pub fn is_restorable(self) -> bool {
        let ends = |end: End| matches!(end.how, Ending::Expired | Ending::Deleted);
        !self.is_reclaimed() && self.end().is_some_and(ends)
    }

    /// True if it was deleted or erased and nothing restores it: its files are removed.
    #[must_use]
    pub fn is_discarded(self) -> bool {
        let ends = |end: End| matches!(end.how, Ending::Discarded | Ending::Erased { .. });
        self.end().is_some_and(ends)
    }

    /// True if it is unreadable for good.
    #[must_use]
    pub fn is_erased(self) -> bool {
        self.end().is_some_and(|end| matches!(end.how, Ending::Erased { .. }))
    }

    /// True if it was erased and a file may still hold bytes of it.
    #[must_use]
    pub fn is_erasing(self) -> bool {
        self.end().is_some_and(|end| end.how == Ending::Erased { unfinished: true })
    }

    /// Ends its life in that way; what was erased stays erased.
    pub(crate) fn end_by(&mut self, how: Ending, at: i64) {
        if !self.is_erased() {
            self.set_end(End { how, at });
        }
    }

    /// Notes that no file holds bytes of an erased session.
    pub(crate) fn finish_erasure(&mut self) {
        assert!(self.is_erased(), "only an erasure is finished");
        if let Some(end) = self.end() {
            self.set_end(End { how: Ending::Erased { unfinished: false }, ..end });
        }
    }

    /// Ends its grace; a living session has none.
    pub(crate) fn reclaim(&mut self) {
        *self = self.end().map_or(Self::Alive, Self::Reclaimed);
    }

    fn set_end(&mut self, end: End) {
        *self = if self.is_reclaimed() { Self::Reclaimed(end) } else { Self::Ended(end) };
    }
}

/// A stage as a settled entry holds it. Frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageV4 {
    pub(super) deleted_at: Option<i64>,
    pub(super) expired_at: Option<i64>,
    pub(super) reclaimed: bool,
    pub(super) erased_at: Option<i64>,
    /// The entry of an erased session has a redaction while the erasure is unfinished.
    pub(super) redacted: bool,
}

impl From<Stage> for StageV4 {
    fn from(stage: Stage) -> Self {
        let at = |ends: &[Ending]| stage.end().filter(|end| ends.contains(&end.how));
        let at = |ends: &[Ending]| at(ends).map(|end| end.at);
        let [unfinished, finished] = [true, false].map(|unfinished| Ending::Erased { unfinished });
        Self {
            deleted_at: at(&[Ending::Deleted, Ending::Discarded, unfinished, finished]),
            expired_at: at(&[Ending::Expired, Ending::Deleted]),
            reclaimed: stage.is_reclaimed(),
            erased_at: at(&[unfinished, finished]),
            redacted: stage.is_erasing(),
        }
    }
}

impl StageV4 {
    /// The stage; `None` where a living session is said to be reclaimed.
    pub(super) fn stage(self) -> Option<Stage> {
        let how = match (self.erased_at, self.deleted_at, self.expired_at) {
            (Some(at), _, _) => Some((Ending::Erased { unfinished: self.redacted }, at)),
            (None, Some(at), Some(_)) => Some((Ending::Deleted, at)),
            (None, Some(at), None) => Some((Ending::Discarded, at)),
            (None, None, Some(at)) => Some((Ending::Expired, at)),
            (None, None, None) => None,
        };
        match how.map(|(how, at)| End { how, at }) {
            Some(end) if self.reclaimed => Some(Stage::Reclaimed(end)),
            Some(end) => Some(Stage::Ended(end)),
            None => (!self.reclaimed).then_some(Stage::Alive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_reads_back_as_it_was_written() {
        let erased = |unfinished| Ending::Erased { unfinished };
        let mut stages = vec![Stage::Alive];
        for how in
            [Ending::Expired, Ending::Deleted, Ending::Discarded, erased(true), erased(false)]
        {
            stages.extend([Stage::Ended, Stage::Reclaimed].map(|stage| stage(End { how, at: 7 })));
        }
        for stage in stages {
            assert_eq!(StageV4::from(stage).stage(), Some(stage));
        }
        let reclaimed = StageV4 { reclaimed: true, ..Stage::Alive.into() };
        assert_eq!(reclaimed.stage(), None);
    }

    #[test]
    fn an_erased_or_reclaimed_session_stays_so_after_a_later_end() {
        let mut stage = Stage::Alive;
        stage.reclaim();
        assert_eq!(stage, Stage::Alive);
        stage.end_by(Ending::Expired, 1);
        assert!(stage.is_restorable());
        stage.reclaim();
        assert!(!stage.is_restorable());
        stage.end_by(Ending::Erased { unfinished: true }, 2);
        stage.end_by(Ending::Deleted, 3);
        stage.finish_erasure();
        let end = End { how: Ending::Erased { unfinished: false }, at: 2 };
        assert_eq!(stage, Stage::Reclaimed(end));
    }
}
