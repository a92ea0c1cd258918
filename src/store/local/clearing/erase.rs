//! Erasing: the key of a session, then everything that is encrypted under it or, in a store in
//! plaintext, every byte of it that is left. It must not touch a byte of another session.
//!
//! The tombstone is durable before the first step; a start that meets it takes the steps that are
//! left.

use std::{collections::BTreeSet, io};

use super::{
    super::{catalogue::backlog::Erasing, session::State},
    Clearing,
    steps::{Failed, SETTLING, Step},
};
use crate::{
    env::planted::{Defect, planted},
    log::KeyNumber,
};

/// First steps, one session after the other: remove its key, copies, names and files.
const OWN: [Step<Erasing>; 7] = [
    Step { doing: "destroying its key", run: Clearing::destroy_key },
    Step { doing: "ending backups", run: Clearing::end_backups },
    Step { doing: "dropping it from memory", run: Clearing::forget_erased },
    Step {
        doing: "taking away what is derived from it",
        run: |clearing, one| clearing.take_derived(&one.session, None),
    },
    Step {
        doing: "removing its copies from quarantine",
        run: |clearing, one| Ok(clearing.clear_quarantine(one.session.hash)?),
    },
    Step { doing: "writing the settled files without it", run: Clearing::settle_without },
    Step { doing: "unlinking its files", run: Clearing::unlink_erased },
];

/// Last steps, once no start needs the journal: remove its frames from the journal.
const SHARED: [Step<Erasing>; 2] = [
    Step { doing: "writing zeros over its frames in the journal", run: Clearing::zero_erased },
    Step { doing: "noting that it is erased", run: Clearing::note_erased },
];

impl Clearing {
    /// Takes what is left of sessions whose tombstone is durable; what fails is taken again by a
    /// later settling.
    pub(crate) fn finish_erasures(&self) -> Result<(), Failed> {
        // A caller may find its own erasure taken by another thread, and must wait for it.
        let _turn = self.turn.lock();
        let mut begun = self.sessions.backlog.take_erasing();
        begun.retain(|one| one.session.state().entry.stage.is_erasing());
        let mut done = Ok(());
        let mut put_back = |one: Erasing, failed: Failed| {
            let Failed { doing, source } = &failed;
            tracing::error!(session = %one.session.hash, doing, error = %source, "an erasure is not finished");
            self.sessions.backlog.add_erasing(one);
            done = Err(failed);
        };
        let mut taken = Vec::new();
        for mut one in begun {
            match self.take_own(&mut one) {
                Ok(()) => taken.push(one),
                Err(failed) => put_back(one, failed),
            }
        }
        // Where zeros are to be written no start needs to read, of any session. What went made
        // room.
        let zeroes = self.writes_zeros() && !taken.is_empty();
        let settled = if zeroes { self.settle_to_zero() } else { Ok(()) };
        for mut one in taken {
            let finished = match &settled {
                Ok(()) => self.take_shared(&mut one),
                Err(error) => Err(Failed::from(io::Error::new(error.kind(), error.to_string()))
                    .with_step(SETTLING)),
            };
            if let Err(failed) = finished {
                put_back(one, failed);
            }
        }
        done
    }

    /// True if an erasure writes zeros because there is no key to destroy.
    pub(crate) fn writes_zeros(&self) -> bool {
        self.ground.keys.own().is_none()
    }

    fn take_own(&self, one: &mut Erasing) -> Result<(), Failed> {
        let _settling = self.segments.settling.lock();
        self.ask_writable()?;
        self.take_steps(&OWN, one)
    }

    fn take_shared(&self, one: &mut Erasing) -> Result<(), Failed> {
        let _settling = self.segments.settling.lock();
        self.take_steps(&SHARED, one)
    }

    fn destroy_key(&self, one: &mut Erasing) -> Result<(), Failed> {
        let number = KeyNumber(one.session.state().entry.key);
        if !planted(Defect::KeepErasedKey) {
            self.ground.keys.destroy(&[number])?;
        }
        Ok(())
    }

    fn end_backups(&self, one: &mut Erasing) -> Result<(), Failed> {
        if !std::mem::replace(&mut one.taken, true) {
            self.segments.pins.take_away();
        }
        Ok(())
    }

    fn forget_erased(&self, one: &mut Erasing) -> Result<(), Failed> {
        self.sessions.forget_frames(&one.session);
        let mut state = one.session.state();
        let State { opened, cipher, .. } = &mut *state;
        (*opened, *cipher) = (None, None);
        Ok(())
    }

    /// Titles and metadata are in both settled files: they are written anew without them.
    fn settle_without(&self, _: &mut Erasing) -> Result<(), Failed> {
        self.sessions.spoil_settled();
        self.sessions.touch_settled();
        (0..2).try_for_each(|_| self.sessions.write_settled())?;
        Ok(())
    }

    fn unlink_erased(&self, one: &mut Erasing) -> Result<(), Failed> {
        self.segments.unlink_files(one.session.hash, &BTreeSet::new())?;
        one.session.state().entry.segments.clear();
        Ok(())
    }

    fn zero_erased(&self, one: &mut Erasing) -> Result<(), Failed> {
        if self.writes_zeros() {
            let tombstone = one.session.state().entry.end_lsn.saturating_sub(1);
            self.zero_journal(one.session.hash, &|first, _| first != tombstone)?;
        }
        Ok(())
    }

    fn note_erased(&self, one: &mut Erasing) -> Result<(), Failed> {
        one.session.state().entry.stage.finish_erasure();
        self.sessions.backlog.touch(&one.session);
        tracing::info!(session = %one.session.hash, "a session was erased");
        Ok(())
    }
}
