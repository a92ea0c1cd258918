//! Creates a session: inserts its id in the catalogue, keeps the parent of a fork from being
//! removed, allocates an encryption key, and plans the first frame like any other. It must not
//! validate a creation; `store::rules` does.

use std::sync::Arc;

use super::{
    super::{
        catalogue::oldest_live_key_time,
        journal::trouble::write_error,
        session::{EntryState, LoadedSession, opened::OpenedSession},
        wait::run_blocking,
    },
    CommitPath, PlannedRequest,
};
use crate::{
    event::{Incarnation, Range, Scope, SessionHash, SessionKey},
    log::{CreateRecord, Entry, ForkParent},
    store::{
        AppendResult, FillDirection, NewSession, ReadRequest, SessionInfo, StoreResult,
        rules::{
            EarlierCreation, WriteKind, answer_repeated_creation, check_first_ids,
            check_id_is_free, creation_record, mint_session_id,
        },
    },
};

/// Result of inserting a session to be created.
enum InsertedSession {
    Fresh(Arc<LoadedSession>, Box<CreateRecord>),
    Repeated(Arc<LoadedSession>),
    /// Another creation of that name or key is in flight.
    Wait,
}

impl CommitPath {
    pub(crate) async fn create(
        &self,
        scope: &Scope,
        new: NewSession,
    ) -> StoreResult<(SessionInfo, AppendResult)> {
        check_first_ids(&new.events)?;
        loop {
            self.wait_for_space()?;
            let rounds = self.sessions.journal.ended_rounds();
            let (parent, lineage) = match self.fork_origin(scope, &new) {
                Ok((parent, lineage)) => (parent, Ok(lineage)),
                Err(error) => (None, Err(error)),
            };
            let (session, create) = match self.insert_or_find(scope, &new, lineage)? {
                InsertedSession::Fresh(session, create) => (session, create),
                InsertedSession::Repeated(session) => return self.repeat_creation(&session, &new),
                InsertedSession::Wait => {
                    self.sessions.journal.wait_for_round_after(rounds).await;
                    continue;
                }
            };
            if let Err(error) = parent.map_or(Ok(()), |parent| self.hold_parent(&parent, &session))
            {
                self.sessions.remove_failed_creation(&session);
                return Err(error);
            }
            let cipher = match run_blocking(|| self.context.keys.allocate_key(&scope.tenant)) {
                Ok(cipher) => cipher,
                Err(error) => {
                    self.sessions.remove_failed_creation(&session);
                    return Err(write_error("making its key", &error));
                }
            };
            let planned = {
                let mut request = self.prepare(WriteKind::Create(create), new.events.clone());
                let mut state = session.state();
                state.entry.key = cipher.as_ref().map_or(0, |cipher| cipher.number().0);
                state.cipher = cipher;
                state.opened = Some(OpenedSession::new(self.context.env.clock.monotonic()));
                self.sessions.record_opened(&session);
                self.plan_locked(&session, state, &mut request)
            };
            match planned {
                Ok(PlannedRequest::Queued(queued)) => {
                    let appended = self.wait_until_committed(queued).await?;
                    let info = session.info(&session.state());
                    return Ok((info, appended));
                }
                Ok(_) => self.sessions.remove_failed_creation(&session),
                Err(error) => {
                    self.sessions.remove_failed_creation(&session);
                    return Err(error);
                }
            }
        }
    }

    /// Returns the parent and lineage of a new session that is a fork.
    fn fork_origin(
        &self,
        scope: &Scope,
        new: &NewSession,
    ) -> StoreResult<(Option<Arc<LoadedSession>>, Option<ForkParent>)> {
        let Some(point) = &new.parent else { return Ok((None, None)) };
        let (parent, lineage) = self.segments.lineage(scope, point)?;
        Ok((Some(parent), Some(lineage)))
    }

    /// Records a fork before any of its records is durable, so that its parent stays: a later
    /// deletion of the parent finds the fork, an earlier one is found here.
    fn hold_parent(&self, parent: &LoadedSession, child: &LoadedSession) -> StoreResult<()> {
        self.sessions.hold_parent(parent, child);
        let written = parent.lock_visible()?.entry.updated_at;
        let mut state = child.state();
        // The fork's times must not precede its parent's.
        state.entry.updated_at = state.entry.updated_at.max(written);
        Ok(())
    }

    /// Inserts a session to be created in the catalogue, or finds an earlier creation of it.
    fn insert_or_find(
        &self,
        scope: &Scope,
        new: &NewSession,
        lineage: StoreResult<Option<ForkParent>>,
    ) -> StoreResult<InsertedSession> {
        let mut catalogue = self.sessions.catalogue_mut();
        let create_key = new.key.as_ref();
        if let Some(known) =
            create_key.and_then(|key| catalogue.find_by_create_key(scope, key.as_str()))
        {
            let live_from = oldest_live_key_time(&self.context.count, &*self.context.env.clock);
            let earlier = EarlierCreation::from_key(known.state().stored_entry(), live_from);
            match earlier {
                None => {}
                Some(EarlierCreation::Wait) => return Ok(InsertedSession::Wait),
                Some(EarlierCreation::Repeated) => return Ok(InsertedSession::Repeated(known)),
            }
        }
        let now = self.context.env.clock.now();
        let id = match &new.id {
            Some(id) => id.clone(),
            None => mint_session_id(self.context.env.random()),
        };
        let key = SessionKey { scope: scope.clone(), session: id };
        if let Some(known) = catalogue.get(&key) {
            check_id_is_free(known.state().stored_entry(), &key.session)?;
            return Ok(InsertedSession::Wait);
        }
        let lineage = lineage?;
        let incarnation = self.context.env.random();
        let create = creation_record(scope, &key.session, incarnation, new, lineage);
        let hash = SessionHash::new(&key, Incarnation(create.incarnation));
        let session = LoadedSession::new(
            key,
            hash,
            Entry::from_create(&create, hash, now),
            EntryState::Creating,
        );
        catalogue.insert(Arc::clone(&session));
        Ok(InsertedSession::Fresh(session, Box::new(create)))
    }

    /// Repeats the first answer if the `Idempotency-Key` and the content are the same.
    fn repeat_creation(
        &self,
        session: &Arc<LoadedSession>,
        new: &NewSession,
    ) -> StoreResult<(SessionInfo, AppendResult)> {
        let info = session.info(&*session.lock_visible()?);
        let base = session.base();
        let read = ReadRequest {
            range: Range::new(base, base.plus(new.events.events.len() as u64)),
            events_max: usize::MAX,
            bytes_max: usize::MAX,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let stored = self.segments.read_slice(session, &read)?.events;
        let state = session.state();
        let (first, redacted) = (state.entry.create_key.as_deref(), &state.entry.redacted);
        answer_repeated_creation(new, info, first, redacted, &stored)
    }
}
