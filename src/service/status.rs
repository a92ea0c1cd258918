//! The status of a session, in the terms of the Managed Agents wire: the last one its harness
//! reported. It is stored in the session's metadata, so a listing reads no event. It must not
//! detect a dead harness.

use super::RESERVED_METADATA;
use crate::{
    event::{Batch, EventId, HOOK_ID, NewEvent, Origin, kinds},
    store::{Criterion, SessionInfo},
};

/// Status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    /// Waiting for input.
    Idle,
    /// Agent is working.
    Running,
    /// Retrying after an error.
    Rescheduling,
    /// Ended or archived: read-only.
    Terminated,
}

impl SessionStatus {
    const ALL: [Self; 4] = [Self::Idle, Self::Running, Self::Rescheduling, Self::Terminated];

    /// Returns the status as clients see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Rescheduling => "rescheduling",
            Self::Terminated => "terminated",
        }
    }

    /// Returns the status of a session.
    #[must_use]
    pub fn from_info(info: &SessionInfo) -> Self {
        match recorded_status(info) {
            _ if info.archived_at.is_some() => Self::Terminated,
            Some(status) => status,
            None => Self::Idle,
        }
    }

    /// Parses the name of a status.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// Returns the condition that selects sessions with this status.
    pub(super) fn criterion(self) -> Criterion {
        let recorded = |status: Self| Criterion::Pair(status_name(), status.as_str().to_owned());
        if self == Self::Terminated {
            return Criterion::Any(vec![Criterion::Archived, recorded(self)]);
        }
        let own = match self {
            Self::Idle => {
                let others = Self::ALL.into_iter().filter(|other| *other != Self::Idle);
                Criterion::negate(Criterion::Any(others.map(recorded).collect()))
            }
            _ => recorded(self),
        };
        Criterion::All(vec![Criterion::negate(Criterion::Archived), own])
    }

    /// Returns the status that an event reports. Agents that hooks record say when they stop, and
    /// begin again with the next request.
    fn reported_by(event: &NewEvent) -> Option<Self> {
        match event.kind.as_str() {
            kinds::USER_MESSAGE => {
                let id = event.id.as_ref().map(EventId::as_str).unwrap_or_default();
                id.starts_with(HOOK_ID).then_some(Self::Running)
            }
            kinds::SESSION_STATUS_IDLE => Some(Self::Idle),
            kinds::SESSION_STATUS_RUNNING => Some(Self::Running),
            kinds::SESSION_STATUS_RESCHEDULED => Some(Self::Rescheduling),
            kinds::SESSION_STATUS_TERMINATED => Some(Self::Terminated),
            _ => None,
        }
    }
}

fn status_name() -> String {
    format!("{RESERVED_METADATA}status")
}

fn recorded_status(info: &SessionInfo) -> Option<SessionStatus> {
    SessionStatus::parse(info.metadata.get(&status_name())?)
}

/// Adds the status that a batch reports to the session's metadata. Imported events are skipped:
/// they report another session's status.
pub(super) fn record_status(batch: &mut Batch) {
    let events = batch.events.iter().filter(|event| event.origin != Origin::Import);
    let status = events.filter_map(SessionStatus::reported_by).next_back();
    batch.metadata.extend(status.map(|status| (status_name(), Some(status.as_str().to_owned()))));
    if batch.events.iter().any(|event| event.kind.as_str() == kinds::CONTEXT_REWOUND) {
        batch.metadata.insert(rewound_name(), Some("yes".to_owned()));
    }
}

/// Returns the metadata name that marks a rewound session, so that others read no event for that.
pub(super) fn rewound_name() -> String {
    format!("{RESERVED_METADATA}rewound")
}
