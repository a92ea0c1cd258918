//! The closed list of error codes, each with a hint for the client. It must not depend on HTTP's
//! status codes or exit codes: each interface maps them itself.

use crate::{
    access::Lacking,
    event::{Point, Position, SessionId, limits},
};

/// Result of a verb.
pub type ServiceResult<T> = Result<T, ServiceError>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Error codes; closed, documented in docs/http.md, the same in every interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code, alphabetically.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as clients see it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// A larger body than the limit allows.
    BodyTooLarge = "body_too_large",
    /// No such checkpoint.
    CheckpointNotFound = "checkpoint_not_found",
    /// The storage has no space left.
    DiskFull = "disk_full",
    /// No such entity of a graph.
    EntityNotFound = "entity_not_found",
    /// No such event.
    EventNotFound = "event_not_found",
    /// The credential is missing a grant.
    Forbidden = "forbidden",
    /// An event id or batch key that was used with other content.
    IdempotencyConflict = "idempotency_conflict",
    /// A defect of ours.
    InternalError = "internal_error",
    /// Not JSON.
    InvalidJson = "invalid_json",
    /// Valid JSON, but not a valid request; the message names the field.
    InvalidRequest = "invalid_request",
    /// Another harness holds the session.
    LeaseHeld = "lease_held",
    /// Another caller took the lease over.
    LeaseLost = "lease_lost",
    /// A limit of the store.
    LimitReached = "limit_reached",
    /// Accepted; bytes that it takes away are left in the storage.
    NotFinished = "not_finished",
    /// The append may or may not survive.
    OutcomeUnknown = "outcome_unknown",
    /// No owner could be reached or started.
    OwnerUnavailable = "owner_unavailable",
    /// A point that names nothing.
    PointNotFound = "point_not_found",
    /// Compare-and-append met another tail.
    PositionConflict = "position_conflict",
    /// The parent of a fork was erased.
    PrefixErased = "prefix_erased",
    /// A quota of the tenant.
    QuotaExceeded = "quota_exceeded",
    /// Too many requests.
    RateLimited = "rate_limited",
    /// Acknowledged bytes are damaged.
    SessionDamaged = "session_damaged",
    /// Deleted, in its grace.
    SessionDeleted = "session_deleted",
    /// A session with the id exists.
    SessionExists = "session_exists",
    /// Past its retention, in its grace.
    SessionExpired = "session_expired",
    /// A hold stops it.
    SessionHeld = "session_held",
    /// Unknown or foreign.
    SessionNotFound = "session_not_found",
    /// No session is bound to this caller.
    SessionRequired = "session_required",
    /// The same step number with other content.
    StepConflict = "step_conflict",
    /// No such step.
    StepNotFound = "step_not_found",
    /// No writes now.
    StoreReadOnly = "store_read_only",
    /// The storage of the store does not answer; nothing was written.
    StoreUnreachable = "store_unreachable",
    /// No valid credential.
    Unauthenticated = "unauthenticated",
}

impl Code {
    /// True if the session does not exist, or not any more.
    #[must_use]
    pub fn is_gone(self) -> bool {
        matches!(self, Self::SessionNotFound | Self::SessionDeleted | Self::SessionExpired)
    }
}

/// Way out of an error, in facts; `recovery_hint` on the wire leaves absent ones out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Next action of a person or a model, one sentence.
    pub action: Option<String>,
    /// The call by which it is done; each interface words it.
    pub next: Option<Next>,
    /// True if the same call may succeed later, unchanged.
    pub retryable: bool,
    /// Seconds until a retry may succeed, when known.
    pub retry_after_seconds: Option<u64>,
    /// The position the next event will get.
    pub tail: Option<Position>,
    /// Intact half-open ranges.
    pub whole: Vec<crate::event::Range>,
    /// Missing half-open ranges, each with its reason.
    pub missing: Vec<(crate::event::Range, String)>,
    /// The last step of the session, where steps are the matter.
    pub last_step: Option<u64>,
    /// The number the refused step may have instead, where it only came out of turn.
    pub next_step: Option<u64>,
    /// Sessions to choose from: those of the caller's own workspace first, then the latest.
    pub candidates: Vec<Candidate>,
    /// The workspace in which there is no candidate.
    pub workspace: Option<String>,
    /// True if a first step would begin a session now, and hide no research of the workspace.
    pub may_begin: bool,
    /// The field that was refused.
    pub field: Option<String>,
    /// The tool call to make next. Set where tools are dispatched: verbs do not depend on tools.
    pub call: Option<NextCall>,
}

/// A call that a caller, or a person for it, should make next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Restore a deleted or an expired session.
    RestoreSession(SessionId),
    /// Release the hold of a session.
    ReleaseHold(SessionId),
    /// Acquire the lease of a session.
    Wake(SessionId),
    /// Acquire the lease although another caller holds it.
    Steal(SessionId),
    /// Delete a session without the possibility of restoring it.
    DeleteNow(SessionId),
    /// Continue a damaged session without what was lost.
    AcceptLoss,
    /// Begin another session.
    BeginAnother,
}

/// A tool call that leads out of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextCall {
    /// The tool.
    pub tool: &'static str,
    /// Its arguments.
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// True if the refused call's other arguments go with them.
    pub others_unchanged: bool,
}

/// A session offered to a caller without an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub session: SessionId,
    /// Its goal or title.
    pub title: Option<String>,
    /// Its workspace.
    pub workspace: Option<String>,
    /// True if that is the caller's own workspace.
    pub here: bool,
    /// Its tail.
    pub tail: Position,
    /// Time of the last write to it.
    pub updated_at: crate::event::Timestamp,
}

/// Refusal or failure of a verb.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    /// One of the closed list.
    pub code: Code,
    /// A sentence for a person.
    pub message: String,
    /// Way out of it.
    pub hint: Box<Hint>,
}

impl From<Lacking> for ServiceError {
    fn from(lacking: Lacking) -> Self {
        let action = format!("use a credential with the scope {}", lacking.0.as_str());
        Self::new(Code::Forbidden, lacking.to_string()).action(action)
    }
}

impl ServiceError {
    /// An error with an empty hint.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: Box::default() }
    }

    /// Sets what to do next, in place of what was set before.
    #[must_use]
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.hint.action = Some(action.into());
        self.hint.next = None;
        self
    }

    /// Adds the call to make next.
    #[must_use]
    pub fn next(mut self, next: Next) -> Self {
        self.hint.next = Some(next);
        self
    }

    /// `invalid_request`, naming the field.
    #[must_use]
    pub fn invalid(field: &str, problem: impl std::fmt::Display) -> Self {
        let mut error = Self::new(Code::InvalidRequest, format!("{field}: {problem}"));
        error.hint.field = Some(field.to_owned());
        error
    }

    /// `point_not_found`, naming the point.
    #[must_use]
    pub fn point_not_found(point: &Point, tail: Position) -> Self {
        let message = match point {
            Point::At(_) => format!("position {point} is out of range (tail is {tail})"),
            _ => format!("{point} not found (tail is {tail})"),
        };
        let mut error = Self::new(Code::PointNotFound, message);
        error.hint.tail = Some(tail);
        error
    }
}

/// Refuses a list with more values than a request filters by.
pub(super) fn check_count(field: &str, count: usize) -> ServiceResult<()> {
    if count <= limits::FILTER_VALUES_MAX {
        return Ok(());
    }
    let problem = format!("{count} values; {} are allowed", limits::FILTER_VALUES_MAX);
    Err(ServiceError::invalid(field, problem))
}

/// Refuses a text that is longer than one that a request filters by.
pub(super) fn check_chars(field: &str, text: Option<&str>) -> ServiceResult<()> {
    let chars = text.map_or(0, |text| text.chars().count());
    if chars <= limits::FILTER_CHARS_MAX {
        return Ok(());
    }
    let problem = format!("{chars} characters; {} are allowed", limits::FILTER_CHARS_MAX);
    Err(ServiceError::invalid(field, problem))
}
