//! State of an agent at a checkpoint, built from the notes of its session. It must not interpret a
//! checkpoint.

use std::{collections::HashSet, sync::Arc};

use super::{Code, Service, ServiceError, ServiceResult, store_error::write_error};
use crate::{
    event::{Fence, Lsn, NewNote, SessionKey, Timestamp},
    projection::checkpoints::{self, CheckpointBody, Checkpoints, State},
    store::{NotesQuery, SessionInfo},
};

/// Maximum number of notes read at once while a state is built.
const READ_NOTES: usize = 256;
/// Maximum bytes of notes in memory while a state is built.
const READ_BYTES: usize = 8 << 20;

impl Service {
    /// Writes a note for a caller, within the tenant's quota.
    pub(super) async fn put_note(
        &self,
        key: &SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> ServiceResult<()> {
        // Deleting a cursor uses no quota.
        if note.position.is_some() || note.kind.is_checkpoint() {
            let bytes = note.name.len() + note.body.len();
            self.reserve_quota(&key.scope.tenant, 0, 1, bytes).await?;
        }
        self.await_durable(self.store.write_note(key, fence, note)).await.map_err(write_error)?;
        Ok(())
    }

    /// Runs `look` on the current notes of a session.
    pub(super) async fn peek_notes<T>(
        &self,
        key: &SessionKey,
        look: impl FnOnce(&Checkpoints, &SessionInfo) -> T + Send,
    ) -> ServiceResult<T> {
        let found = self.store.info(key).await;
        self.with_notes(key, found, |info, kept| look(&kept.notes, info)).await
    }

    /// Builds the state from the notes with these numbers, in order; notes of other chains between
    /// them are skipped.
    pub(super) async fn build_state(
        &self,
        key: &SessionKey,
        chain: &[Lsn],
    ) -> ServiceResult<State> {
        let mut state = State::new();
        let (Some(first), Some(last)) = (chain.first(), chain.last()) else { return Ok(state) };
        let wanted: HashSet<Lsn> = chain.iter().copied().collect();
        let mut after = Lsn(first.0.saturating_sub(1));
        let mut found = 0;
        while after < *last {
            let notes_max = if chain.len() == 1 { 1 } else { READ_NOTES };
            let read = NotesQuery { after, notes_max, bytes_max: READ_BYTES };
            let notes = self.store.notes(key, read).await?;
            let Some(end) = notes.last() else { break };
            after = end.number;
            for note in notes.iter().filter(|note| wanted.contains(&note.number)) {
                found += 1;
                if let Ok(body) = serde_json::from_slice::<CheckpointBody>(&note.body) {
                    checkpoints::apply(&mut state, body);
                }
            }
        }
        if found < chain.len() {
            let message = "a part of the state at this checkpoint cannot be read";
            return Err(ServiceError::new(Code::SessionDamaged, message)
                .action("go back to an earlier checkpoint: list them, the newest first"));
        }
        Ok(state)
    }

    /// Returns the state built from these notes, cached for the next read or append of the chain.
    pub(super) async fn get_state(
        &self,
        key: &SessionKey,
        chain: &[Lsn],
    ) -> ServiceResult<Arc<State>> {
        let Some(last) = chain.last().copied() else { return Ok(Arc::default()) };
        let known = self
            .with_notes(key, self.store.info(key).await, |_, kept| {
                let (number, state, _) = kept.state.as_ref()?;
                (*number == last).then(|| Arc::clone(state))
            })
            .await?;
        if let Some(state) = known {
            return Ok(state);
        }
        let state = Arc::new(self.build_state(key, chain).await?);
        self.cache_state(key, last, &state).await?;
        Ok(state)
    }

    pub(super) async fn cache_state(
        &self,
        key: &SessionKey,
        number: Lsn,
        state: &Arc<State>,
    ) -> ServiceResult<()> {
        // A parsed tree takes several times as much memory as its text.
        let bytes = 4 * to_json_text(state).len();
        let kept = (number, Arc::clone(state), bytes);
        self.with_notes(key, self.store.info(key).await, |_, all| all.state = Some(kept)).await
    }
}

/// Returns the time when a loss of a session was last accepted. Notes until then may be older than
/// acknowledged ones: a note that replaced them may be lost.
pub(super) fn uncertain_until(info: &SessionInfo) -> Option<Timestamp> {
    info.damage.iter().filter_map(|gap| gap.accepted_at).max()
}

/// Adds advice to an error about an unknown name, which may be among accepted losses.
pub(super) fn with_name_advice(
    error: ServiceError,
    info: &SessionInfo,
    action: &str,
) -> ServiceError {
    match uncertain_until(info) {
        None => error.action(action),
        Some(_) => {
            error.action(format!("{action}; a loss of this session was accepted, with notes"))
        }
    }
}

pub(super) fn to_json_text(object: &State) -> String {
    serde_json::to_string(object).expect("an object of JSON values is JSON")
}
