//! Notes and leases of the model, as plain vectors.

use std::sync::atomic::Ordering;

use super::{Model, Session, gone};
use sessionlog::{
    event::{Fence, Lsn, NewNote, Note, NoteKind, Position, Scope, SessionKey, Timestamp},
    store::{
        LastCheckpoint, LeaseCall, NotesQuery, SessionInfo, SessionLease, StoreError, StoreResult,
    },
};

impl Model {
    /// Stores a note; numbers count the notes of all sessions.
    pub(super) fn keep(&self, session: &mut Session, note: NewNote) {
        let number = Lsn(self.numbers.fetch_add(1, Ordering::Relaxed) + 1);
        let (info, kind) = (&mut session.info, note.kind);
        let position = note.position.map_or(info.tail, |position| position.min(info.tail));
        info.work.notes += 1;
        info.bytes += (note.name.len() + note.body.len()) as u64;
        let is_past = info.work.checkpoint.is_some_and(|mark| position < mark.position);
        if kind.is_checkpoint() && !is_past {
            let before = info.work.checkpoint.is_some_and(|mark| mark.open);
            let open = if note.idle { before } else { kind != NoteKind::Final };
            info.work.checkpoint = Some(LastCheckpoint { number, position, open });
        }
        if !note.idle {
            info.used_at = self.counted_time();
        }
        let at = self.clock.now().max(info.updated_at);
        let (name, body) = (note.name, note.body);
        session.notes.push(Note { number, kind, name, position, at, body });
    }

    pub(super) fn note_of(
        &self,
        key: &SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreResult<SessionInfo> {
        let counted = self.counted_time();
        self.with(key, |session| {
            let id = key.session.clone();
            if session.info.archived_at.is_some() {
                return Err(StoreError::SessionArchived { session: id });
            }
            if note.kind.is_checkpoint() && !note.idle {
                session.info.work.check_writer(&id, fence, counted)?;
            }
            check_notes(session, Some(&note))?;
            self.keep(session, note);
            Ok(session.info.clone())
        })
    }

    pub(super) fn notes_of(&self, key: &SessionKey, wanted: NotesQuery) -> StoreResult<Vec<Note>> {
        self.with(key, |session| {
            let mut bytes = 0;
            let behind = session.notes.iter().filter(|note| note.number > wanted.after);
            let fits = |(n, note): &(usize, &Note)| {
                bytes += note.body.len();
                *n == 0 || bytes <= wanted.bytes_max
            };
            let some = behind.take(wanted.notes_max).enumerate().take_while(fits);
            Ok(some.map(|(_, note)| note.clone()).collect())
        })
    }

    pub(super) fn lease_of(
        &self,
        key: &SessionKey,
        call: LeaseCall,
    ) -> StoreResult<(SessionLease, SessionInfo)> {
        let counted = self.counted_time();
        self.with(key, |session| {
            let id = key.session.clone();
            let (lease, changes) = session.info.work.apply_call(&id, call, counted)?;
            if changes && session.info.archived_at.is_some() {
                return Err(StoreError::SessionArchived { session: id });
            }
            if changes {
                let work = &mut session.info.work;
                (work.fence, work.until, work.key) = (lease.fence, lease.until, lease.key);
                session.info.used_at = counted;
            }
            Ok((lease, session.info.clone()))
        })
    }

    pub(super) fn unfinished_of(
        &self,
        scope: &Scope,
        workspace: Option<&str>,
        limit: usize,
    ) -> Vec<SessionInfo> {
        let sessions = self.sessions();
        let open = sessions.values().filter(|one| gone(one).is_ok()).map(|one| &one.info);
        let mut found: Vec<SessionInfo> = open
            .filter(|info| info.key.scope == *scope && info.archived_at.is_none())
            .filter(|info| workspace.is_none_or(|name| info.workspace.as_deref() == Some(name)))
            .filter(|info| info.work.is_unfinished())
            .cloned()
            .collect();
        found.sort_by(|a, b| (b.updated_at, &b.key.session).cmp(&(a.updated_at, &a.key.session)));
        found.truncate(limit);
        found
    }

    pub(super) fn unmarked_since(&self, since: Timestamp, limit: usize) -> Vec<SessionKey> {
        let sessions = self.sessions();
        let open = sessions.values().filter(|one| gone(one).is_ok()).map(|one| &one.info);
        let unmarked = open.filter(|info| {
            let marked = info.work.checkpoint.map_or(Position::ZERO, |mark| mark.position);
            info.archived_at.is_none() && info.tail > marked && info.updated_at >= since
        });
        unmarked.take(limit).map(|info| info.key.clone()).collect()
    }
}

/// Checks that the session has as many notes as a new one expects.
pub(super) fn check_notes(session: &Session, note: Option<&NewNote>) -> StoreResult<()> {
    let notes = session.info.work.notes;
    let expected = note.and_then(|note| note.if_notes).filter(|expected| *expected != notes);
    expected.map_or(Ok(()), |expected| Err(StoreError::NotesConflict { expected, notes }))
}
