//! Lists of named steps, run in order, that remove bytes. A crash may follow any step, and all of
//! them may be run again: each step is idempotent. It must not define the steps of erasure or
//! redaction.

use std::{collections::BTreeSet, io, sync::Arc};

use super::{super::session::LoadedSession, Removal};
use crate::store::HeldEvents;

/// Step of a list; `T` is the object that the list removes.
pub(super) struct RemovalStep<T> {
    /// Name of the action, for errors.
    pub(super) doing: &'static str,
    pub(super) run: fn(&Removal, &mut T) -> Result<(), StepError>,
}

/// Name of the flush, which is not in a list, since it runs once for all sessions: after it no
/// start needs the journal.
pub(super) const FLUSHING: &str = "settling what waits in the journal";

/// Error of a failed step; later steps were not run.
#[derive(Debug)]
pub(crate) struct StepError {
    /// Name of the step's action; empty until the list sets it.
    pub(crate) doing: &'static str,
    pub(crate) source: io::Error,
}

impl From<io::Error> for StepError {
    fn from(source: io::Error) -> Self {
        Self { doing: "", source }
    }
}

impl StepError {
    /// Sets the step's name, unless a nested list did.
    pub(crate) fn with_step(self, doing: &'static str) -> Self {
        Self { doing: if self.doing.is_empty() { doing } else { self.doing }, ..self }
    }
}

/// Steps that drop copies of a session's events outside its segments and the journal. An erasure
/// and a redaction run them before they change the session's files.
pub(super) const DERIVED: [RemovalStep<CopyHolder>; 2] = [
    RemovalStep { doing: "dropping events read lately", run: Removal::clear_read_cache },
    RemovalStep { doing: "destroying derived files", run: Removal::destroy_derived },
];

/// Session and events whose copies are to be dropped.
pub(super) struct CopyHolder {
    session: Arc<LoadedSession>,
    /// Positions of the events; `None` for all of the session's own.
    positions: Option<BTreeSet<u64>>,
}

impl Removal {
    /// Runs the steps of a list. The caller holds `flushing`, so that no thread flushes or seals
    /// meanwhile.
    pub(super) fn run_steps<T>(
        &self,
        steps: &[RemovalStep<T>],
        of: &mut T,
    ) -> Result<(), StepError> {
        steps.iter().try_for_each(|step| {
            (step.run)(self, of).map_err(|failed| failed.with_step(step.doing))
        })
    }

    /// Removes copies of a session's events, of all or of those at these positions.
    pub(super) fn drop_copies(
        &self,
        session: &Arc<LoadedSession>,
        positions: Option<&BTreeSet<u64>>,
    ) -> Result<(), StepError> {
        let positions = positions.cloned();
        self.run_steps(&DERIVED, &mut CopyHolder { session: Arc::clone(session), positions })
    }

    /// Fails if the store takes no writes; runs before all other steps.
    pub(super) fn check_writable(&self) -> Result<(), StepError> {
        let asked = self.context.check_writable().map_err(StepError::from);
        asked.map_err(|failed| failed.with_step("asking whether the store takes writes"))
    }

    fn clear_read_cache(&self, _: &mut CopyHolder) -> Result<(), StepError> {
        self.segments.read_cache.clear();
        Ok(())
    }

    fn destroy_derived(&self, of: &mut CopyHolder) -> Result<(), StepError> {
        let (hash, positions) = (of.session.hash, of.positions.as_ref());
        let holds =
            |holds: &[HeldEvents]| holds.iter().any(|held| held.holds_events_of(hash, positions));
        Ok(self.segments.derived_files.destroy(&holds)?)
    }

    /// Stops the users of files derived from a session, or from its events at these positions, and
    /// waits for them. The steps do not wait, since other sessions wait for the steps.
    pub(crate) fn stop_derived_users(
        &self,
        session: &LoadedSession,
        positions: Option<&BTreeSet<u64>>,
    ) {
        let holds = |holds: &[HeldEvents]| {
            holds.iter().any(|held| held.holds_events_of(session.hash, positions))
        };
        if let Err(error) = self.segments.derived_files.hide_and_wait(&holds) {
            tracing::warn!(session = %session.hash, %error, "what is derived from it stays in use");
        }
    }
}
