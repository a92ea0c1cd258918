//! Erasure: destroys the key of a session, then removes its files and copies and, in a plaintext
//! store, zeroes its bytes in the journal. It must not change a byte of another session.
//!
//! The tombstone is durable before the first step; a start that reads it runs the remaining steps.

use std::{collections::BTreeSet, io};

use super::{
    super::{catalogue::backlog::ErasedSession, session::SessionState},
    Removal,
    steps::{FLUSHING, RemovalStep, StepError},
};
use crate::{
    env::planted::{Defect, is_planted},
    log::KeyNumber,
};

/// First steps, run for one session after the other: remove its key, copies, names and files.
const FIRST_STEPS: [RemovalStep<ErasedSession>; 7] = [
    RemovalStep { doing: "destroying its key", run: Removal::destroy_key },
    RemovalStep { doing: "ending backups", run: Removal::invalidate_backups },
    RemovalStep { doing: "dropping it from memory", run: Removal::drop_from_memory },
    RemovalStep {
        doing: "taking away what is derived from it",
        run: |removal, one| removal.drop_copies(&one.session, None),
    },
    RemovalStep {
        doing: "removing its copies from quarantine",
        run: |removal, one| Ok(removal.clear_quarantine(one.session.hash)?),
    },
    RemovalStep {
        doing: "writing the settled files without it",
        run: Removal::rewrite_settled_files,
    },
    RemovalStep { doing: "unlinking its files", run: Removal::unlink_erased },
];

/// Last steps, once no start needs the journal: remove its frames from the journal.
const LAST_STEPS: [RemovalStep<ErasedSession>; 2] = [
    RemovalStep {
        doing: "writing zeros over its frames in the journal",
        run: Removal::zero_erased,
    },
    RemovalStep { doing: "noting that it is erased", run: Removal::record_erased },
];

impl Removal {
    /// Runs the remaining steps for sessions whose tombstone is durable; a later flush retries
    /// failed ones.
    pub(crate) fn finish_erasures(&self) -> Result<(), StepError> {
        // Another thread may be running a caller's erasure: the caller must wait for it.
        let _turn = self.turn.lock();
        let mut begun = self.sessions.backlog.take_pending_erasures();
        begun.retain(|one| one.session.state().entry.stage.is_erasing());
        let mut done = Ok(());
        let mut put_back = |one: ErasedSession, failed: StepError| {
            let StepError { doing, source } = &failed;
            tracing::error!(session = %one.session.hash, doing, error = %source, "an erasure is not finished");
            self.sessions.backlog.add_pending_erasure(one);
            done = Err(failed);
        };
        let mut taken = Vec::new();
        for mut one in begun {
            match self.run_first_steps(&mut one) {
                Ok(()) => taken.push(one),
                Err(failed) => put_back(one, failed),
            }
        }
        // No start may need the ranges to be zeroed, for any session. The removals freed space for
        // this flush.
        let zeroes = self.writes_zeros() && !taken.is_empty();
        let settled = if zeroes { self.flush_before_zeroing() } else { Ok(()) };
        for mut one in taken {
            let finished = match &settled {
                Ok(()) => self.run_last_steps(&mut one),
                Err(error) => Err(StepError::from(io::Error::new(error.kind(), error.to_string()))
                    .with_step(FLUSHING)),
            };
            if let Err(failed) = finished {
                put_back(one, failed);
            }
        }
        done
    }

    /// Returns true if an erasure writes zeros because there is no key to destroy.
    pub(crate) fn writes_zeros(&self) -> bool {
        self.context.keys.store_cipher().is_none()
    }

    fn run_first_steps(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        let _flushing = self.segments.flushing.lock();
        self.check_writable()?;
        self.run_steps(&FIRST_STEPS, one)
    }

    fn run_last_steps(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        let _flushing = self.segments.flushing.lock();
        self.run_steps(&LAST_STEPS, one)
    }

    fn destroy_key(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        let number = KeyNumber(one.session.state().entry.key);
        if !is_planted(Defect::KeepErasedKey) {
            self.context.keys.destroy(&[number])?;
        }
        Ok(())
    }

    fn invalidate_backups(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        if !std::mem::replace(&mut one.taken, true) {
            self.segments.pins.invalidate();
        }
        Ok(())
    }

    fn drop_from_memory(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        self.sessions.drop_discarded(&one.session);
        let mut state = one.session.state();
        let SessionState { opened, cipher, .. } = &mut *state;
        (*opened, *cipher) = (None, None);
        Ok(())
    }

    /// Rewrites both settled files without the session's title and metadata.
    fn rewrite_settled_files(&self, _: &mut ErasedSession) -> Result<(), StepError> {
        self.sessions.schedule_settled_rewrite();
        self.sessions.mark_changed_entries();
        (0..2).try_for_each(|_| self.sessions.write_settled())?;
        Ok(())
    }

    fn unlink_erased(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        self.segments.unlink_files(one.session.hash, &BTreeSet::new())?;
        one.session.state().entry.segments.clear();
        Ok(())
    }

    fn zero_erased(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        if self.writes_zeros() {
            let tombstone = one.session.state().entry.end_lsn.saturating_sub(1);
            self.zero_journal(one.session.hash, &|first, _| first != tombstone)?;
        }
        Ok(())
    }

    fn record_erased(&self, one: &mut ErasedSession) -> Result<(), StepError> {
        one.session.state().entry.stage.finish_erasure();
        self.sessions.backlog.add_touched(&one.session);
        tracing::info!(session = %one.session.hash, "a session was erased");
        Ok(())
    }
}
