//! Links between sessions that continue one another, and how far a restore has read the earlier
//! one. They are hidden metadata, so a listing shows them without reading an event. It must not
//! write a link.

use std::collections::BTreeSet;

use super::{RESERVED_METADATA, Service, ServiceError, ServiceResult};
use crate::{
    event::{Event, Position, Range, SessionId, SessionKey, Timestamp, kinds},
    store::{FillDirection, ReadRequest, SessionInfo},
};

/// Maximum number of links of a chain followed.
pub(super) const LINKS_MAX: usize = 100;
/// Maximum number of first events, and of their body bytes, examined for work.
const LOOK_EVENTS: usize = 32;
const LOOK_BYTES: usize = 1 << 20;

/// A session of a chain, and the position up to which the next one has read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PriorSession {
    pub(super) key: SessionKey,
    pub(super) created_at: Timestamp,
    rewritten: u64,
    pub(super) to: Position,
}

/// Returns the metadata name for the session that was restored, and the position read up to.
pub(super) fn restored_from_name() -> String {
    format!("{RESERVED_METADATA}restored_from")
}

/// Label of a save's checkpoint.
pub(super) const SAVED: &str = "saved";

/// Returns the metadata name for the position of a session's last save.
pub(super) fn saved_name() -> String {
    format!("{RESERVED_METADATA}saved")
}

/// Returns the metadata name for the session that this one continues.
pub(super) fn continues_name() -> String {
    format!("{RESERVED_METADATA}continues")
}

/// Returns the session that this one restored, and the position up to which it read it.
pub(super) fn restored_session(info: &SessionInfo) -> Option<(SessionId, Position)> {
    let (session, position) = info.metadata.get(&restored_from_name())?.rsplit_once('@')?;
    Some((SessionId::new(session).ok()?, Position(position.parse().ok()?)))
}

/// Returns the session that this one continues, through a restore or a link.
pub(super) fn continued_session(info: &SessionInfo) -> Option<(SessionId, Option<Position>)> {
    let read = restored_session(info).map(|(session, at)| (session, Some(at)));
    let linked = || SessionId::new(info.metadata.get(&continues_name())?).ok();
    read.or_else(|| linked().map(|session| (session, None)))
}

pub(super) fn saved_at(info: &SessionInfo) -> Option<Position> {
    info.metadata.get(&saved_name())?.parse().ok().map(Position)
}

/// Returns true if a session is a secondary import: a copy of another session's transcript, or the
/// transcript of a subagent.
pub(super) fn is_secondary_import(info: &SessionInfo) -> bool {
    let of = info.key.session.as_str().rsplit_once('.').map(|(_, of)| of);
    let is_one = of.is_some_and(|of| of == "transcript" || of.starts_with("agent-"));
    is_one && info.metadata.contains_key("import.shape")
}

/// Returns true if an event is work, and not an automatic note at a session's start.
pub(super) fn is_work(event: &Event) -> bool {
    !matches!(
        event.kind.as_str(),
        kinds::SESSION_RESTORED
            | kinds::FILE_CHECKED
            | kinds::CONTEXT_INJECTED
            | kinds::TRANSCRIPT_ENTRY
            | kinds::SESSION_STATUS_RUNNING
            | kinds::SESSION_STATUS_IDLE
            | kinds::SESSION_STATUS_RESCHEDULED
            | kinds::SESSION_STATUS_TERMINATED
    )
}

impl Service {
    /// Returns true if a session has work. An unreadable session may have some.
    pub(super) async fn has_work(&self, info: &SessionInfo) -> bool {
        if info.tail.0 > LOOK_EVENTS as u64 {
            return true;
        }
        let first = self.read_first_events(&info.key, info.tail, (LOOK_EVENTS, LOOK_BYTES)).await;
        first.map_or_else(
            |error| error.code.has_lost_events(),
            |events| (events.len() as u64) < info.tail.0 || events.iter().any(is_work),
        )
    }

    /// Returns the first events of a session before a position, limited in number and bytes.
    pub(super) async fn read_first_events(
        &self,
        key: &SessionKey,
        to: Position,
        (events_max, bytes_max): (usize, usize),
    ) -> ServiceResult<Vec<Event>> {
        let read = ReadRequest {
            range: Range::new(Position(0), Position(to.0.min(events_max as u64))),
            events_max,
            bytes_max,
            fill: FillDirection::Forward,
            allow_gaps: true,
        };
        Ok(self.store.read(key, read).await?.events)
    }

    /// Returns the sessions that a session continues, the earliest first, each up to where the next
    /// has read it. The chain ends at a deleted session or another workspace.
    pub(super) async fn prior_sessions(
        &self,
        key: &SessionKey,
    ) -> ServiceResult<Vec<PriorSession>> {
        let mut info = self.store.info(key).await?;
        let mut seen = BTreeSet::from([key.session.clone()]);
        let mut line = Vec::new();
        while let Some((session, to)) = restored_session(&info).filter(|_| line.len() < LINKS_MAX) {
            let before = SessionKey { scope: key.scope.clone(), session };
            let Ok(found) = self.store.info(&before).await else { break };
            if found.workspace != info.workspace || !seen.insert(before.session.clone()) {
                break;
            }
            let (created_at, rewritten) = (found.created_at, found.rewritten);
            line.push(PriorSession { key: before, created_at, rewritten, to: to.min(found.tail) });
            info = found;
        }
        line.reverse();
        Ok(line)
    }

    /// Returns the error for a workspace without a session to work with, or without the named one.
    pub(super) fn no_session_error(workspace: &str, session: Option<&SessionId>) -> ServiceError {
        let message = match session {
            Some(session) => format!("workspace {workspace:?} has no session {session}"),
            None => format!("workspace {workspace:?} has no session with work"),
        };
        ServiceError::new(super::Code::SessionNotFound, message)
            .action("list sessions for the workspace of each")
    }
}
