//! Creation of a session: inserts its name in the catalogue, holds the parent of a fork, takes a
//! key, and plans the first frame like any other. It must not validate a creation; `store::rules`
//! does.

use std::sync::Arc;

use super::{
    super::{
        catalogue::keys_live_from,
        journal::trouble::write_error,
        session::{Durable, Session, opened::Opened},
        wait::blocking,
    },
    CommitPath, Planned,
};
use crate::{
    event::{Incarnation, Range, Scope, SessionHash, SessionKey},
    log::{Create, Entry, Lineage},
    store::{
        Appended, Fill, NewSession, Read, SessionInfo, StoreResult,
        rules::{
            Ask, Earlier, check_first_ids, check_name, create as creation, created_before, minted,
        },
    },
};

/// Result of inserting a session to be created.
enum Entered {
    Fresh(Arc<Session>, Box<Create>),
    Repeated(Arc<Session>),
    /// Another creation of that name or key is in flight.
    Wait,
}

impl CommitPath {
    pub(crate) async fn create(
        &self,
        scope: &Scope,
        new: NewSession,
    ) -> StoreResult<(SessionInfo, Appended)> {
        check_first_ids(&new.events)?;
        loop {
            self.wait_for_space()?;
            let rounds = self.sessions.journal.rounds();
            let (parent, lineage) = match self.fork_origin(scope, &new) {
                Ok((parent, lineage)) => (parent, Ok(lineage)),
                Err(error) => (None, Err(error)),
            };
            let (session, create) = match self.insert_or_find(scope, &new, lineage)? {
                Entered::Fresh(session, create) => (session, create),
                Entered::Repeated(session) => return self.created_before(&session, &new),
                Entered::Wait => {
                    self.sessions.journal.round_after(rounds).await;
                    continue;
                }
            };
            if let Err(error) = parent.map_or(Ok(()), |parent| self.hold_parent(&parent, &session))
            {
                self.sessions.forget(&session);
                return Err(error);
            }
            let cipher = match blocking(|| self.context.keys.take(&scope.tenant)) {
                Ok(cipher) => cipher,
                Err(error) => {
                    self.sessions.forget(&session);
                    return Err(write_error("making its key", &error));
                }
            };
            let planned = {
                let mut request = self.request(Ask::Create(create), new.events.clone());
                let mut state = session.state();
                state.entry.key = cipher.as_ref().map_or(0, |cipher| cipher.number().0);
                state.cipher = cipher;
                state.opened = Some(Opened::new(self.context.env.clock.monotonic()));
                self.sessions.note_opened(&session);
                self.plan_in(&session, state, &mut request)
            };
            match planned {
                Ok(Planned::Queued(queued)) => {
                    let appended = self.wait_committed(queued).await?;
                    let info = session.info(&session.state());
                    return Ok((info, appended));
                }
                Ok(_) => self.sessions.forget(&session),
                Err(error) => {
                    self.sessions.forget(&session);
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
    ) -> StoreResult<(Option<Arc<Session>>, Option<Lineage>)> {
        let Some(point) = &new.parent else { return Ok((None, None)) };
        let (parent, lineage) = self.segments.lineage(scope, point)?;
        Ok((Some(parent), Some(lineage)))
    }

    /// Records a fork before any of its records is durable, so that its parent stays: a later
    /// deletion of the parent finds the fork, an earlier one is found here.
    fn hold_parent(&self, parent: &Session, child: &Session) -> StoreResult<()> {
        self.sessions.hold_parent(parent, child);
        let written = parent.visible()?.entry.updated_at;
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
        lineage: StoreResult<Option<Lineage>>,
    ) -> StoreResult<Entered> {
        let mut catalogue = self.sessions.catalogue_mut();
        let asked = new.key.as_ref();
        if let Some(known) = asked.and_then(|key| catalogue.created_by(scope, key.as_str())) {
            let live_from = keys_live_from(&self.context.count, &*self.context.env.clock);
            let earlier = Earlier::of_key(known.state().stored(), live_from);
            match earlier {
                None => {}
                Some(Earlier::Wait) => return Ok(Entered::Wait),
                Some(Earlier::Repeated) => return Ok(Entered::Repeated(known)),
            }
        }
        let now = self.context.env.clock.now();
        let id = match &new.id {
            Some(id) => id.clone(),
            None => minted(self.context.env.random()),
        };
        let key = SessionKey { scope: scope.clone(), session: id };
        if let Some(known) = catalogue.get(&key) {
            check_name(known.state().stored(), &key.session)?;
            return Ok(Entered::Wait);
        }
        let lineage = lineage?;
        let incarnation = self.context.env.random();
        let create = creation(scope, &key.session, incarnation, new, lineage);
        let hash = SessionHash::new(&key, Incarnation(create.incarnation));
        let session = Session::new(key, hash, Entry::begin(&create, hash, now), Durable::Creating);
        catalogue.insert(Arc::clone(&session));
        Ok(Entered::Fresh(session, Box::new(create)))
    }

    /// Repeats the first answer if the `Idempotency-Key` and the content are the same.
    fn created_before(
        &self,
        session: &Arc<Session>,
        new: &NewSession,
    ) -> StoreResult<(SessionInfo, Appended)> {
        let info = session.info(&*session.visible()?);
        let base = session.base();
        let read = Read {
            range: Range::new(base, base.plus(new.events.events.len() as u64)),
            events_max: usize::MAX,
            bytes_max: usize::MAX,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        let stored = self.segments.slice(session, &read)?.events;
        let state = session.state();
        let (first, redacted) = (state.entry.create_key.as_deref(), &state.entry.redacted);
        created_before(new, info, first, redacted, &stored)
    }
}
