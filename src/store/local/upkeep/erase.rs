//! Requests to erase a session or redact an event: writes a control record, then runs the steps of
//! `removal`. It must not return success before the bytes are gone, nor remove bytes itself.
//!
//! An erasure starts with a tombstone, the session's last control record, in a frame that is
//! readable without the session's key. A start that reads it finishes the erasure.

use std::{collections::BTreeSet, io, sync::Arc};

use super::super::{
    catalogue::reserve::is_storage_full, removal::steps::StepError, session::LoadedSession,
    wait::run_blocking,
};
use super::Upkeep;
use crate::{
    event::{EventId, Position},
    log::LogError,
    store::{StoreError, StoreResult, rules::WriteKind},
};

impl Upkeep {
    /// Erases a session; it is unreadable once this returns.
    pub(crate) async fn erase(&self, session: &Arc<LoadedSession>) -> StoreResult<()> {
        if session.origin.is_some() && self.sessions.is_read_by_forks(session.hash) {
            // Its forks still read its ancestors' events: its lineage must outlive its key.
            let failed = |source| StoreError::Io { doing: "settling before an erasure", source };
            run_blocking(|| self.removal.flush(false)).map_err(failed)?;
        }
        {
            let _held = self.commit.holds.lock().await;
            if !session.state().entry.stage.is_erased() {
                self.sessions.check_held_forks(session, None)?;
            }
            self.commit.submit_with_reserve(session, WriteKind::Erase).await?;
        }
        if !session.state().entry.stage.is_erasing() {
            return Ok(());
        }
        self.sessions.queue_erasure(session);
        let unfinished = |StepError { doing, source }| {
            let what = "erasure";
            StoreError::Unfinished { what, doing, source }
        };
        run_blocking(|| {
            self.removal.stop_derived_users(session, None);
            let mut finished = self.removal.finish_erasures();
            let failed = |of: &Result<(), StepError>, is: fn(&io::Error) -> bool| {
                of.as_ref().is_err_and(|failed| is(&failed.source))
            };
            if failed(&finished, is_storage_full) && self.removal.release_reserve() {
                finished = self.removal.finish_erasures();
            }
            if failed(&finished, LogError::is_unreadable_io) {
                // Once no start needs the journal's files, unreadable ranges may be zeroed, too.
                let left = self.removal.switch_journal_file(&[]).map_err(StepError::from);
                let left = left.map_err(|failed| failed.with_step("leaving the journal"));
                finished = left.and_then(|()| self.removal.finish_erasures());
            }
            if session.state().entry.stage.is_erasing() {
                return Err(finished.err().unwrap_or_else(unknown_outcome));
            }
            // No start may need to read the zeroed payloads.
            let zeroed = self.removal.writes_zeros();
            let settled = (0..2).filter(|_| zeroed).try_for_each(|_| self.removal.flush(false));
            settled.unwrap_or_else(|error| tracing::warn!(%error, "zeros stay in the journal"));
            if self.sessions.reserve.is_released() {
                self.removal.free_deleted_space();
            }
            Ok(())
        })
        .map_err(unfinished)
    }

    /// Redacts an event, in the session that wrote it; no file has its body once this returns.
    pub(crate) async fn redact(
        &self,
        session: &Arc<LoadedSession>,
        id: &EventId,
    ) -> StoreResult<Option<Position>> {
        let Some((writer, position)) = self.segments.find_with_writer(session, id)? else {
            let state = session.lock_visible()?;
            // The event may be in an unreadable range.
            return if state.is_degraded() { Err(session.damage_error(&state)) } else { Ok(None) };
        };
        {
            let _held = self.commit.holds.lock().await;
            self.sessions.check_held_forks(&writer, Some(position))?;
            self.commit
                .submit(&writer, &mut self.commit.prepare_eventless(WriteKind::Redact(position)))
                .await?;
        }
        self.sessions.backlog.add_pending_redaction(Arc::clone(&writer));
        let finished = run_blocking(|| {
            self.removal.stop_derived_users(&writer, Some(&BTreeSet::from([position.0])));
            self.removal.finish_redactions()
        });
        let state = writer.state();
        let mut those = state.entry.redacted.iter().filter(|one| one.position == position.0);
        if those.all(|one| one.cleared) {
            return Ok(Some(position));
        }
        let StepError { doing, source } = finished.err().unwrap_or_else(unknown_outcome);
        Err(StoreError::Unfinished { what: "redaction", doing, source })
    }
}

/// Returns the error if another thread ran the steps and its result is unknown.
fn unknown_outcome() -> StepError {
    let source = io::Error::other("bytes may be left");
    StepError { doing: "waiting for another thread", source }
}
