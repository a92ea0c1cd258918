//! Sessions that continue one another: what a restore has read of which, and those before one. The
//! links are hidden metadata, so that a listing shows them without reading an event. It must not
//! write one.

use std::collections::BTreeSet;

use super::{RESERVED_METADATA, Service, ServiceError, ServiceResult};
use crate::{
    event::{Event, Position, Range, SessionId, SessionKey, Timestamp, kinds},
    store::{Fill, Read, SessionInfo},
};

/// Sessions of a chain that are followed.
pub(super) const LINKS_MAX: usize = 100;
/// First events of a session among which its work is looked for, and bytes of their bodies.
const LOOK_EVENTS: usize = 32;
const LOOK_BYTES: usize = 1 << 20;

/// A session of a chain, up to where the next one has read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PriorSession {
    pub(super) key: SessionKey,
    pub(super) created_at: Timestamp,
    rewritten: u64,
    pub(super) to: Position,
}

/// Metadata of a session that names the one it has read, and up to where.
pub(super) fn restored_from() -> String {
    format!("{RESERVED_METADATA}restored_from")
}

/// The label of the checkpoint of a save.
pub(super) const SAVED: &str = "saved";

/// Metadata of a session that says where it was saved last.
pub(super) fn saved() -> String {
    format!("{RESERVED_METADATA}saved")
}

/// Metadata of a session that names the one it continues.
pub(super) fn continues() -> String {
    format!("{RESERVED_METADATA}continues")
}

/// The session that this one continues, and up to where it has read it.
pub(super) fn read_before(info: &SessionInfo) -> Option<(SessionId, Position)> {
    let (session, position) = info.metadata.get(&restored_from())?.rsplit_once('@')?;
    Some((SessionId::new(session).ok()?, Position(position.parse().ok()?)))
}

/// The session that this one continues, however it came to do so.
pub(super) fn continued(info: &SessionInfo) -> Option<(SessionId, Option<Position>)> {
    let read = read_before(info).map(|(session, at)| (session, Some(at)));
    let linked = || SessionId::new(info.metadata.get(&continues())?).ok();
    read.or_else(|| linked().map(|session| (session, None)))
}

/// Position of a session's last save.
pub(super) fn saved_at(info: &SessionInfo) -> Option<Position> {
    info.metadata.get(&saved())?.parse().ok().map(Position)
}

/// True if a session was imported beside another one, which has the work itself: a copy of its
/// transcript, or that of a subagent.
pub(super) fn is_beside(info: &SessionInfo) -> bool {
    let of = info.key.session.as_str().rsplit_once('.').map(|(_, of)| of);
    let is_one = of.is_some_and(|of| of == "transcript" || of.starts_with("agent-"));
    is_one && info.metadata.contains_key("import.shape")
}

/// True if an event is work, and not a note of a program that a session begins or continues.
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
    /// True if anything was done in a session. What cannot be read may be work.
    pub(super) async fn has_work(&self, info: &SessionInfo) -> bool {
        if info.tail.0 > LOOK_EVENTS as u64 {
            return true;
        }
        let first = self.first_events(&info.key, info.tail, (LOOK_EVENTS, LOOK_BYTES)).await;
        first.map_or_else(
            |error| error.code == super::Code::SessionDamaged,
            |events| (events.len() as u64) < info.tail.0 || events.iter().any(is_work),
        )
    }

    /// The first events of a session before a position: so many at most, of so many bytes.
    pub(super) async fn first_events(
        &self,
        key: &SessionKey,
        to: Position,
        (events_max, bytes_max): (usize, usize),
    ) -> ServiceResult<Vec<Event>> {
        let read = Read {
            range: Range::new(Position(0), Position(to.0.min(events_max as u64))),
            events_max,
            bytes_max,
            fill: Fill::Forward,
            allow_gaps: true,
        };
        Ok(self.store.read(key, read).await?.events)
    }

    /// The sessions that a session continues, the first one first, each as far as the next has read
    /// it. One that is gone or of another workspace ends the line.
    pub(super) async fn links_before(&self, key: &SessionKey) -> ServiceResult<Vec<PriorSession>> {
        let mut info = self.store.info(key).await?;
        let mut seen = BTreeSet::from([key.session.clone()]);
        let mut line = Vec::new();
        while let Some((session, to)) = read_before(&info).filter(|_| line.len() < LINKS_MAX) {
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

    /// The error of a workspace that has no session to work with, or not the one that was named.
    pub(super) fn none_in(workspace: &str, session: Option<&SessionId>) -> ServiceError {
        let message = match session {
            Some(session) => format!("workspace {workspace:?} has no session {session}"),
            None => format!("workspace {workspace:?} has no session with work"),
        };
        ServiceError::new(super::Code::SessionNotFound, message)
            .action("list sessions for the workspace of each")
    }
}
