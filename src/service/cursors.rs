//! Verbs on named cursors: the position where a reader continues, stored apart from the events. No
//! lease blocks a cursor, and no event's position changes. It must not read events.

use bytes::Bytes;

use super::{
    Caller, Code, Service, ServiceError, ServiceResult,
    notes::{uncertain_until, with_name_advice},
};
use crate::{
    api::work::{Cursor, CursorList},
    event::{NewNote, NoteKind, Point, Position, Range, SessionId, SessionKey, limits},
    projection::checkpoints::{self, Checkpoints},
    store::SessionInfo,
};

impl Service {
    /// Sets a cursor to a point. Writes nothing if it is already there.
    ///
    /// # Errors
    /// `invalid_request` for an invalid name, `point_not_found`, `limit_reached`, `quota_exceeded`,
    /// and those of the session.
    pub async fn put_cursor(
        &self,
        caller: &Caller,
        session: &SessionId,
        name: &str,
        point: &Point,
    ) -> ServiceResult<Cursor> {
        let key = caller.key(session);
        let name = check_name(name)?;
        let tail = self.store.use_session(&key).await?.tail;
        let position = self.resolve_within(&key, point, tail).await?;
        let known = |notes: &Checkpoints, info: &SessionInfo| {
            let old = notes.cursor(&name).map(|old| to_cursor(&name, old, info));
            (old, notes.cursors().len())
        };
        let (old, count) = self.peek_notes(&key, known).await?;
        let there = |old: &&Cursor| old.position == position && !old.uncertain;
        if let Some(old) = old.as_ref().filter(there) {
            return Ok(Cursor { tail, behind: unread_count(position, tail), ..old.clone() });
        }
        if old.is_none() && count >= limits::CURSORS_MAX {
            let message = format!("the session has {count} cursors; so many are allowed");
            return Err(ServiceError::new(Code::LimitReached, message)
                .action("delete cursors that no reader uses any more"));
        }
        let body = Bytes::from_static(b"{}");
        self.write_cursor(&key, &name, Some(position), body).await?;
        self.read_cursor(&key, &name).await
    }

    /// Returns a cursor.
    ///
    /// # Errors
    /// `point_not_found`, and those of the session.
    pub async fn get_cursor(
        &self,
        caller: &Caller,
        session: &SessionId,
        name: &str,
    ) -> ServiceResult<Cursor> {
        let key = caller.key(session);
        self.store.use_session(&key).await?;
        self.read_cursor(&key, name).await
    }

    /// Returns all cursors of a session, by name.
    ///
    /// # Errors
    /// Those of the session.
    pub async fn list_cursors(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<CursorList> {
        let key = caller.key(session);
        self.store.use_session(&key).await?;
        let all = |notes: &Checkpoints, info: &SessionInfo| {
            let all = notes.cursors().iter();
            CursorList { data: all.map(|(name, cursor)| to_cursor(name, *cursor, info)).collect() }
        };
        self.peek_notes(&key, all).await
    }

    /// Deletes a cursor.
    ///
    /// # Errors
    /// `point_not_found`, and those of the session.
    pub async fn delete_cursor(
        &self,
        caller: &Caller,
        session: &SessionId,
        name: &str,
    ) -> ServiceResult<()> {
        let key = caller.key(session);
        self.store.use_session(&key).await?;
        self.read_cursor(&key, name).await?;
        self.write_cursor(&key, name, None, Bytes::new()).await
    }

    /// Returns a cursor's position, for a caller that has already marked the session as used.
    async fn read_cursor(&self, key: &SessionKey, name: &str) -> ServiceResult<Cursor> {
        let found = |notes: &Checkpoints, info: &SessionInfo| {
            let found = notes.cursor(name).map(|cursor| to_cursor(name, cursor, info));
            found.ok_or_else(|| {
                let point = Point::Cursor(name.to_owned());
                let error = ServiceError::point_not_found(&point, info.tail);
                with_name_advice(error, info, "list the session's cursors for their names")
            })
        };
        self.peek_notes(key, found).await?
    }

    async fn write_cursor(
        &self,
        key: &SessionKey,
        name: &str,
        position: Option<Position>,
        body: Bytes,
    ) -> ServiceResult<()> {
        let (kind, name) = (NoteKind::Cursor, name.to_owned());
        let note = NewNote { kind, name, position, body, idle: false, if_notes: None };
        self.put_note(key, None, note).await
    }
}

fn to_cursor(name: &str, cursor: checkpoints::NotedCursor, info: &SessionInfo) -> Cursor {
    let checkpoints::NotedCursor { position, at } = cursor;
    Cursor {
        name: name.to_owned(),
        position,
        updated_at: at.to_string(),
        tail: info.tail,
        behind: unread_count(position, info.tail),
        uncertain: uncertain_until(info).is_some_and(|until| at <= until),
    }
}

fn unread_count(position: Position, tail: Position) -> u64 {
    Range::new(position, tail).len()
}

/// Checks a cursor's name. It is used in paths and points, so it has the form of a session id.
fn check_name(name: &str) -> ServiceResult<String> {
    match SessionId::new(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(error) => Err(ServiceError::invalid("name", error)
            .action("names of cursors are [A-Za-z0-9][A-Za-z0-9._-]{0,127}")),
    }
}
