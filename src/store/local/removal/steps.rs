//! Bytes are taken away by lists of named steps, run in order. Each step may be the last before a
//! crash, and all of them may be taken again: a step finds what is left, and does nothing where
//! nothing is. It must not know what a list is for.

use std::{collections::BTreeSet, io, sync::Arc};

use super::{super::session::Session, Removal};
use crate::store::HeldEvents;

/// A step of a list; `T` is what the list takes away.
pub(super) struct RemovalStep<T> {
    /// The action, as errors name it.
    pub(super) doing: &'static str,
    pub(super) run: fn(&Removal, &mut T) -> Result<(), Failed>,
}

/// The step that is in no list, for it is taken once for all sessions: no start needs to read the
/// journal after it.
pub(super) const FLUSHING: &str = "settling what waits in the journal";

/// A step that failed; those behind it were not taken.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The action of the step; empty until the list names it.
    pub(crate) doing: &'static str,
    pub(crate) source: io::Error,
}

impl From<io::Error> for Failed {
    fn from(source: io::Error) -> Self {
        Self { doing: "", source }
    }
}

impl Failed {
    /// Names the step, unless a list within it did.
    pub(crate) fn with_step(self, doing: &'static str) -> Self {
        Self { doing: if self.doing.is_empty() { doing } else { self.doing }, ..self }
    }
}

/// Copies of a session's events outside its segments and the journal. An erasure and a redaction
/// drop them before they change the files of the session.
pub(super) const DERIVED: [RemovalStep<Holding>; 2] = [
    RemovalStep { doing: "dropping events read lately", run: Removal::clear_read_cache },
    RemovalStep { doing: "destroying derived files", run: Removal::destroy_derived },
];

/// Whose events are not to be held any more.
pub(super) struct Holding {
    session: Arc<Session>,
    /// Those at these positions; all of its own when `None`.
    positions: Option<BTreeSet<u64>>,
}

impl Removal {
    /// Takes the steps of a list. The caller has `flushing` locked: no thread flushes or seals
    /// meanwhile.
    pub(super) fn take_steps<T>(&self, steps: &[RemovalStep<T>], of: &mut T) -> Result<(), Failed> {
        steps.iter().try_for_each(|step| {
            (step.run)(self, of).map_err(|failed| failed.with_step(step.doing))
        })
    }

    /// Takes away what is derived from a session, or from its events at these positions.
    pub(super) fn take_derived(
        &self,
        session: &Arc<Session>,
        positions: Option<&BTreeSet<u64>>,
    ) -> Result<(), Failed> {
        let positions = positions.cloned();
        self.take_steps(&DERIVED, &mut Holding { session: Arc::clone(session), positions })
    }

    /// The step before all others.
    pub(super) fn ask_writable(&self) -> Result<(), Failed> {
        let asked = self.context.check_writable().map_err(Failed::from);
        asked.map_err(|failed| failed.with_step("asking whether the store takes writes"))
    }

    fn clear_read_cache(&self, _: &mut Holding) -> Result<(), Failed> {
        self.segments.read_cache.clear();
        Ok(())
    }

    fn destroy_derived(&self, of: &mut Holding) -> Result<(), Failed> {
        let (hash, positions) = (of.session.hash, of.positions.as_ref());
        let holds = |holds: &[HeldEvents]| holds.iter().any(|held| held.is_of(hash, positions));
        Ok(self.segments.derived_files.destroy(&holds)?)
    }

    /// Has the users of what is derived from a session, or from its events at these positions, give
    /// way. The steps wait for none of them, since other sessions wait for the steps.
    pub(crate) fn withdraw_derived(&self, session: &Session, positions: Option<&BTreeSet<u64>>) {
        let holds =
            |holds: &[HeldEvents]| holds.iter().any(|held| held.is_of(session.hash, positions));
        if let Err(error) = self.segments.derived_files.withdraw(&holds) {
            tracing::warn!(session = %session.hash, %error, "what is derived from it stays in use");
        }
    }
}
