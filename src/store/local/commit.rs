//! From a request to its answer: a caller plans, leads the journal or waits for it, and plans again
//! when the answer depends on frames in flight. It must not build frames; `append` does.

use std::{collections::HashSet, sync::Arc};

use super::{
    Shared,
    append::{Planned, Queued},
    blocking,
    catalogue::keys_live_from,
    journal::Told,
    lock,
    read::Opened,
    session::Session,
    trouble::write_error,
};
use crate::{
    event::{Batch, Incarnation, Range, Scope, SessionHash, SessionId, SessionKey},
    log::{Create, Entry, Lineage},
    store::{
        Appended, Fill, ForkPoint, NewSession, Read, SessionInfo, StoreError, StoreResult,
        rules::{Ask, Request, entry::is_redacted},
    },
};

impl Shared {
    /// Drives a request to its answer.
    pub(super) async fn drive(
        &self,
        session: &Arc<Session>,
        request: &mut Request,
    ) -> StoreResult<Appended> {
        self.drive_by(|| self.plan(session, request)).await
    }

    /// Plans, leads or waits, and plans again when the answer depended on frames in flight.
    pub(super) async fn drive_by(
        &self,
        mut plan: impl FnMut() -> StoreResult<Planned>,
    ) -> StoreResult<Appended> {
        loop {
            let rounds = self.journal.rounds();
            self.relieve()?;
            match plan()? {
                Planned::Answered(answer) => return Ok(answer),
                Planned::Queued(queued) => return self.committed(queued).await,
                Planned::Wait => self.journal.round_after(rounds).await,
            }
        }
    }

    /// Whoever writes faster than segments take it waits here, not in memory.
    fn relieve(&self) -> StoreResult<()> {
        let pressed = || self.pressure() > self.options.journal_retained_bytes;
        // Deletions, which alone are taken then, wait for nothing that needs room.
        if !pressed() || self.reserve.is_given() {
            return Ok(());
        }
        let settled = blocking(|| {
            let _turn = lock(&self.relief);
            if pressed() { self.settle(false) } else { Ok(()) }
        });
        settled.map_err(|error| write_error("settling the journal", &error))
    }

    async fn committed(&self, queued: Queued) -> StoreResult<Appended> {
        if queued.lead {
            blocking(|| self.journal.lead(1, &|round, result| self.outcome(round, result)));
        }
        let lost = || StoreError::OutcomeUnknown { reason: "the store was closed".to_owned() };
        if queued.done.await.map_err(|_| lost())?? == Told::Show {
            self.journal.show(&|round, result| self.outcome(round, result));
        }
        Ok(queued.answer)
    }

    /// Enters a session that is about to be created, or answers how it is known already.
    fn enter(
        &self,
        scope: &Scope,
        new: &NewSession,
        lineage: StoreResult<Option<Lineage>>,
    ) -> StoreResult<Entered> {
        let mut catalogue = self.catalogue_mut();
        let create_key = new.key.as_ref().map(|key| key.as_str().to_owned());
        if let Some(known) = create_key.as_ref().and_then(|key| catalogue.created_by(scope, key)) {
            let state = known.state();
            let live = keys_live_from(&self.count, &*self.env.clock);
            if !state.exists {
                return Ok(Entered::Wait);
            }
            if state.entry.created_at >= live.0 {
                drop(state);
                return Ok(Entered::Repeated(known));
            }
        }
        let now = self.env.clock.now();
        let id = match &new.id {
            Some(id) => id.clone(),
            None => SessionId::new(&self.handle("ses_")).expect("minted ids keep to the alphabet"),
        };
        let key = SessionKey { scope: scope.clone(), session: id };
        if let Some(known) = catalogue.get(&key) {
            let state = known.state();
            if !state.exists {
                return Ok(Entered::Wait);
            }
            drop(state);
            drop(known.visible()?);
            return Err(StoreError::SessionExists { session: key.session });
        }
        let lineage = lineage?;
        let create = Create {
            tenant: scope.tenant.as_str().to_owned(),
            user: scope.user.as_str().to_owned(),
            session: key.session.as_str().to_owned(),
            incarnation: self.env.random(),
            title: new.title.clone(),
            metadata: new.metadata.clone(),
            workspace: new.workspace.clone(),
            ttl_seconds: new.ttl_seconds,
            key: create_key.clone(),
            lineage,
        };
        let hash = SessionHash::of(&key, Incarnation(create.incarnation));
        let session = Session::new(key, hash, Entry::begin(&create, hash, now), false);
        catalogue.insert(Arc::clone(&session));
        Ok(Entered::Fresh(session, Box::new(create)))
    }

    pub(super) async fn create(
        &self,
        scope: &Scope,
        new: NewSession,
    ) -> StoreResult<(SessionInfo, Appended)> {
        first_ids(&new.events)?;
        loop {
            self.relieve()?;
            let rounds = self.journal.rounds();
            let (parent, lineage) = match self.origin(scope, &new) {
                Ok((parent, lineage)) => (parent, Ok(lineage)),
                Err(error) => (None, Err(error)),
            };
            let (session, create) = match self.enter(scope, &new, lineage)? {
                Entered::Fresh(session, create) => (session, create),
                Entered::Repeated(session) => return self.created_before(&session, &new).await,
                Entered::Wait => {
                    self.journal.round_after(rounds).await;
                    continue;
                }
            };
            if let Err(error) = parent.map_or(Ok(()), |parent| self.bear(&parent, &session)) {
                self.forget(&session);
                return Err(error);
            }
            let cipher = match blocking(|| self.keys.take(&scope.tenant)) {
                Ok(cipher) => cipher,
                Err(error) => {
                    self.forget(&session);
                    return Err(write_error("making its key", &error));
                }
            };
            let planned = {
                let mut request = self.request(Ask::Create(*create), new.events.clone());
                let mut state = session.state();
                state.entry.key = cipher.as_ref().map_or(0, |cipher| cipher.number().0);
                state.cipher = cipher;
                state.opened = Some(Opened::new(self.env.clock.monotonic()));
                lock(&self.in_use).push_back(Arc::clone(&session));
                self.plan_in(&session, state, &mut request)
            };
            match planned {
                Ok(Planned::Queued(queued)) => {
                    let appended = self.committed(queued).await?;
                    let info = session.info(&session.state());
                    return Ok((info, appended));
                }
                Ok(_) => self.forget(&session),
                Err(error) => {
                    self.forget(&session);
                    return Err(error);
                }
            }
        }
    }

    /// What a new session goes on from, when it is a fork.
    fn origin(
        &self,
        scope: &Scope,
        new: &NewSession,
    ) -> StoreResult<(Option<Arc<Session>>, Option<Lineage>)> {
        let Some(point) = &new.parent else { return Ok((None, None)) };
        let (parent, lineage) = self.lineage(scope, point)?;
        Ok((Some(parent), Some(lineage)))
    }

    /// Notes a fork before anything of it is durable, so that its parent stays: whoever deletes
    /// that one either comes later and meets the fork, or came before and is met here.
    fn bear(&self, parent: &Session, child: &Session) -> StoreResult<()> {
        lock(&self.forks).hold(parent.hash, child.hash, &child.key.session);
        let written = parent.visible()?.entry.updated_at;
        let mut state = child.state();
        // Time does not go back from what it goes on from.
        state.entry.updated_at = state.entry.updated_at.max(written);
        Ok(())
    }

    /// 128 random bits: who has no credential needs a name that cannot be guessed (MCP, SEP-2567).
    fn handle(&self, prefix: &str) -> String {
        format!("{prefix}{:032x}", u128::from_le_bytes(self.env.random()))
    }

    /// Takes back a session that never came into being, and wakes whoever waited for it.
    pub(super) fn forget(&self, session: &Session) {
        self.catalogue_mut().remove(session);
        self.unborn(session);
        self.journal.tell();
    }

    /// The first answer again, for the same `Idempotency-Key` and the same content.
    async fn created_before(
        &self,
        session: &Arc<Session>,
        new: &NewSession,
    ) -> StoreResult<(SessionInfo, Appended)> {
        let info = session.info(&*session.visible()?);
        let (events, base) = (&new.events.events, session.base());
        let read = Read {
            range: Range::new(base, base.plus(events.len() as u64)),
            events_max: usize::MAX,
            bytes_max: usize::MAX,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        let stored = self.slice(session, &read)?.events;
        let redacted = session.state().entry.redacted.clone();
        let same_events = stored.len() == events.len()
            && stored.iter().zip(events).all(|(old, new)| {
                let gone = is_redacted(&redacted, old.position);
                (gone || (&old.kind, &old.body) == (&new.kind, &new.body))
                    && new.id.as_ref().is_none_or(|id| *id == old.id)
            });
        let same_parent = ForkPoint::repeats(info.forked_from.as_ref(), new.parent.as_ref());
        let same = same_events && same_parent;
        if same && new.id.as_ref().is_none_or(|id| *id == session.key.session) {
            return Ok((info.clone(), Appended::repeated(&stored, info.receipt)));
        }
        let what = new.key.as_ref().map(ToString::to_string).unwrap_or_default();
        Err(StoreError::IdempotencyConflict { what, position: None })
    }
}

/// How a session that is to be created stands.
enum Entered {
    Fresh(Arc<Session>, Box<Create>),
    Repeated(Arc<Session>),
    /// Its creation is in flight.
    Wait,
}

/// No event id twice among a new session's first events.
fn first_ids(batch: &Batch) -> StoreResult<()> {
    let mut seen = HashSet::new();
    let ids = batch.events.iter().filter_map(|event| event.id.as_ref());
    match ids.into_iter().find(|id| !seen.insert(*id)) {
        Some(id) => Err(StoreError::DuplicateEventId { id: id.clone() }),
        None => Ok(()),
    }
}
