//! Stages in the life of a session, and their form in its settled entry: three optional times and a
//! flag. It must not decide when a stage ends; `store::rules` does.

/// Stage in the life cycle of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LifeStage {
    /// Callers may read the session.
    #[default]
    Alive,
    /// Callers can no longer read the session. Its files stay until its grace period ends.
    Ended(SessionEnd),
    /// The grace period has ended: the entry stays until the files are removed.
    Reclaimed(SessionEnd),
}

/// How and when a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    pub(crate) how: EndReason,
    /// Time of the end, in microseconds by the store's clock.
    pub(crate) at: i64,
}

/// Reason why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It was idle for its retention. It can be restored until its grace period ends.
    Expired,
    /// A caller deleted it. It can be restored until its grace period ends.
    Deleted,
    /// A caller deleted it for good; it cannot be restored.
    Discarded,
    /// A caller erased it; it is unreadable for good.
    Erased {
        /// True if a file may still hold bytes of the session.
        unfinished: bool,
    },
}

impl LifeStage {
    /// Returns how and when the session ended; `None` while it is alive.
    #[must_use]
    pub fn end(self) -> Option<SessionEnd> {
        match self {
            Self::Alive => None,
            Self::Ended(end) | Self::Reclaimed(end) => Some(end),
        }
    }

    /// Returns true if callers may read the session.
    #[must_use]
    pub fn is_alive(self) -> bool {
        self == Self::Alive
    }

    /// Returns true if the grace period has ended.
    #[must_use]
    pub fn is_reclaimed(self) -> bool {
        matches!(self, Self::Reclaimed(_))
    }

    /// Returns true if a caller can restore the session.
    #[must_use]
    pub fn is_restorable(self) -> bool {
        let ends = |end: SessionEnd| matches!(end.how, EndReason::Expired | EndReason::Deleted);
        !self.is_reclaimed() && self.end().is_some_and(ends)
    }

    /// Returns true if the session was discarded or erased: it cannot be restored.
    #[must_use]
    pub fn is_discarded(self) -> bool {
        let ends =
            |end: SessionEnd| matches!(end.how, EndReason::Discarded | EndReason::Erased { .. });
        self.end().is_some_and(ends)
    }

    /// Returns true if the session was erased: it is unreadable for good.
    #[must_use]
    pub fn is_erased(self) -> bool {
        self.end().is_some_and(|end| matches!(end.how, EndReason::Erased { .. }))
    }

    /// Returns true if the session was erased and a file may still hold bytes of it.
    #[must_use]
    pub fn is_erasing(self) -> bool {
        self.end().is_some_and(|end| end.how == EndReason::Erased { unfinished: true })
    }

    /// Marks the session as ended for the reason `how`; an erased session stays erased.
    pub(crate) fn mark_ended(&mut self, how: EndReason, at: i64) {
        if !self.is_erased() {
            self.set_end(SessionEnd { how, at });
        }
    }

    /// Records that no file holds bytes of an erased session.
    pub(crate) fn finish_erasure(&mut self) {
        assert!(self.is_erased(), "only an erasure is finished");
        if let Some(end) = self.end() {
            self.set_end(SessionEnd { how: EndReason::Erased { unfinished: false }, ..end });
        }
    }

    /// Ends the grace period of an ended session; a living session is unchanged.
    pub(crate) fn reclaim(&mut self) {
        *self = self.end().map_or(Self::Alive, Self::Reclaimed);
    }

    fn set_end(&mut self, end: SessionEnd) {
        *self = if self.is_reclaimed() { Self::Reclaimed(end) } else { Self::Ended(end) };
    }
}

/// Stage as encoded in a settled entry. Frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageV4 {
    pub(super) deleted_at: Option<i64>,
    pub(super) expired_at: Option<i64>,
    pub(super) reclaimed: bool,
    pub(super) erased_at: Option<i64>,
    /// True if the entry has redactions; of an erased session: while the erasure is unfinished.
    pub(super) redacted: bool,
}

impl From<LifeStage> for StageV4 {
    fn from(stage: LifeStage) -> Self {
        let at = |ends: &[EndReason]| stage.end().filter(|end| ends.contains(&end.how));
        let at = |ends: &[EndReason]| at(ends).map(|end| end.at);
        let [unfinished, finished] =
            [true, false].map(|unfinished| EndReason::Erased { unfinished });
        Self {
            deleted_at: at(&[EndReason::Deleted, EndReason::Discarded, unfinished, finished]),
            expired_at: at(&[EndReason::Expired, EndReason::Deleted]),
            reclaimed: stage.is_reclaimed(),
            erased_at: at(&[unfinished, finished]),
            redacted: stage.is_erasing(),
        }
    }
}

impl StageV4 {
    /// Returns the stage; `None` if a living session is marked as reclaimed.
    pub(super) fn stage(self) -> Option<LifeStage> {
        let how = match (self.erased_at, self.deleted_at, self.expired_at) {
            (Some(at), _, _) => Some((EndReason::Erased { unfinished: self.redacted }, at)),
            (None, Some(at), Some(_)) => Some((EndReason::Deleted, at)),
            (None, Some(at), None) => Some((EndReason::Discarded, at)),
            (None, None, Some(at)) => Some((EndReason::Expired, at)),
            (None, None, None) => None,
        };
        match how.map(|(how, at)| SessionEnd { how, at }) {
            Some(end) if self.reclaimed => Some(LifeStage::Reclaimed(end)),
            Some(end) => Some(LifeStage::Ended(end)),
            None => (!self.reclaimed).then_some(LifeStage::Alive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_round_trips() {
        let erased = |unfinished| EndReason::Erased { unfinished };
        let mut stages = vec![LifeStage::Alive];
        for how in [
            EndReason::Expired,
            EndReason::Deleted,
            EndReason::Discarded,
            erased(true),
            erased(false),
        ] {
            stages.extend(
                [LifeStage::Ended, LifeStage::Reclaimed]
                    .map(|stage| stage(SessionEnd { how, at: 7 })),
            );
        }
        for stage in stages {
            assert_eq!(StageV4::from(stage).stage(), Some(stage));
        }
        let reclaimed = StageV4 { reclaimed: true, ..LifeStage::Alive.into() };
        assert_eq!(reclaimed.stage(), None);
    }

    #[test]
    fn an_erased_stage_ignores_later_ends_and_a_reclaimed_one_stays_reclaimed() {
        let mut stage = LifeStage::Alive;
        stage.reclaim();
        assert_eq!(stage, LifeStage::Alive);
        stage.mark_ended(EndReason::Expired, 1);
        assert!(stage.is_restorable());
        stage.reclaim();
        assert!(!stage.is_restorable());
        stage.mark_ended(EndReason::Erased { unfinished: true }, 2);
        stage.mark_ended(EndReason::Deleted, 3);
        stage.finish_erasure();
        let end = SessionEnd { how: EndReason::Erased { unfinished: false }, at: 2 };
        assert_eq!(stage, LifeStage::Reclaimed(end));
    }
}
