//! The status of a session, in the words of the Managed Agents wire: the last one its harness
//! reported. It is stored beside the session, so that a listing reads no event. It must not judge
//! whether a harness still runs.

use super::{RESERVED_METADATA, Service, ServiceResult, store_error::unwritten};
use crate::{
    event::{Batch, Origin, Position, SessionKey, kinds},
    store::{Change, SessionInfo},
};

/// The status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Waits for input.
    Idle,
    /// Its agent is at work.
    Running,
    /// Retries after an error.
    Rescheduling,
    /// Ended, or archived: it can be read.
    Terminated,
}

impl Status {
    const ALL: [Self; 4] = [Self::Idle, Self::Running, Self::Rescheduling, Self::Terminated];

    /// The status as clients see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Rescheduling => "rescheduling",
            Self::Terminated => "terminated",
        }
    }

    /// The status of a session.
    #[must_use]
    pub fn of(info: &SessionInfo) -> Self {
        match recorded(info) {
            _ if info.archived_at.is_some() => Self::Terminated,
            Some((status, _)) => status,
            None => Self::Idle,
        }
    }

    /// The status that a type of event reports.
    fn said(kind: &str) -> Option<Self> {
        match kind {
            kinds::SESSION_STATUS_IDLE => Some(Self::Idle),
            kinds::SESSION_STATUS_RUNNING => Some(Self::Running),
            kinds::SESSION_STATUS_RESCHEDULED => Some(Self::Rescheduling),
            kinds::SESSION_STATUS_TERMINATED => Some(Self::Terminated),
            _ => None,
        }
    }
}

/// The last event of a batch that reports a status, and that status. Imported events are skipped:
/// they report another session's status.
pub(super) fn last(batch: &Batch) -> Option<(usize, Status)> {
    let said = batch.events.iter().enumerate().filter(|(_, event)| event.origin != Origin::Import);
    said.filter_map(|(at, event)| Some((at, Status::said(event.kind.as_str())?))).next_back()
}

/// Metadata with the status, and the position of the event that reported it.
fn name() -> String {
    format!("{RESERVED_METADATA}status")
}

fn recorded(info: &SessionInfo) -> Option<(Status, Position)> {
    let (status, position) = info.metadata.get(&name())?.split_once('@')?;
    let status = Status::ALL.into_iter().find(|known| known.as_str() == status)?;
    Some((status, Position(position.parse().ok()?)))
}

impl Service {
    /// Stores the status that the event at a position reports, unless a later one is stored.
    pub(super) async fn keep_status(
        &self,
        key: &SessionKey,
        status: Status,
        position: Position,
    ) -> ServiceResult<()> {
        // One at a time: an earlier event is not kept over a later one.
        let slot = self.slot(key);
        let _alone = slot.lock().await;
        let info = self.store.info(key).await?;
        if recorded(&info).is_some_and(|(_, at)| at >= position) {
            return Ok(());
        }
        let value = format!("{}@{position}", status.as_str());
        let metadata = [(name(), Some(value))].into();
        let change = Change { metadata, ..Change::default() };
        self.durable(self.store.change(key, change)).await.map_err(unwritten)?;
        Ok(())
    }
}
