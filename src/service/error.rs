//! Closed list of error codes, each with a hint for the client. It must not depend on HTTP status
//! codes or exit codes: each interface maps the codes itself.

use crate::{
    access::MissingGrant,
    event::{Point, Position, SessionId, limits},
};

/// Result of a verb.
pub type ServiceResult<T> = Result<T, ServiceError>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Error codes: closed, documented in docs/http.md, and identical in every interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// All codes, alphabetically.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the code as clients see it.
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
    /// The body is larger than the limit.
    BodyTooLarge = "body_too_large",
    /// The checkpoint does not exist.
    CheckpointNotFound = "checkpoint_not_found",
    /// The storage has no space left.
    DiskFull = "disk_full",
    /// The graph has no such entity.
    EntityNotFound = "entity_not_found",
    /// The event does not exist.
    EventNotFound = "event_not_found",
    /// The credential lacks a grant.
    Forbidden = "forbidden",
    /// An event id or batch key was reused with other content.
    IdempotencyConflict = "idempotency_conflict",
    /// Internal defect of the server.
    InternalError = "internal_error",
    /// The request is not JSON.
    InvalidJson = "invalid_json",
    /// The JSON is not a valid request; the message names the field.
    InvalidRequest = "invalid_request",
    /// Another harness holds the session.
    LeaseHeld = "lease_held",
    /// Another caller took the lease over.
    LeaseLost = "lease_lost",
    /// A limit of the store is reached.
    LimitReached = "limit_reached",
    /// The request was accepted, but some of the bytes to remove are still in the storage.
    NotFinished = "not_finished",
    /// The append may or may not have been written.
    OutcomeUnknown = "outcome_unknown",
    /// No owner could be reached or started.
    OwnerUnavailable = "owner_unavailable",
    /// The point refers to nothing.
    PointNotFound = "point_not_found",
    /// The expected position is not the current tail.
    PositionConflict = "position_conflict",
    /// The parent of a fork was erased.
    PrefixErased = "prefix_erased",
    /// A quota of the tenant is exceeded.
    QuotaExceeded = "quota_exceeded",
    /// Too many requests.
    RateLimited = "rate_limited",
    /// The session is archived: it can be read, not written.
    SessionArchived = "session_archived",
    /// Acknowledged bytes are damaged.
    SessionDamaged = "session_damaged",
    /// The session was deleted and is in its grace period.
    SessionDeleted = "session_deleted",
    /// A session with the id exists.
    SessionExists = "session_exists",
    /// The session is past its retention and in its grace period.
    SessionExpired = "session_expired",
    /// A hold prevents the operation.
    SessionHeld = "session_held",
    /// The session is unknown or belongs to another scope.
    SessionNotFound = "session_not_found",
    /// No session is bound to this caller.
    SessionRequired = "session_required",
    /// The step number was used with other content.
    StepConflict = "step_conflict",
    /// The step does not exist.
    StepNotFound = "step_not_found",
    /// The store accepts no writes now.
    StoreReadOnly = "store_read_only",
    /// The storage does not respond; nothing was written.
    StoreUnreachable = "store_unreachable",
    /// The credential is missing or invalid.
    Unauthenticated = "unauthenticated",
}

impl Code {
    /// Returns true if the session does not exist, or no longer.
    #[must_use]
    pub fn is_gone(self) -> bool {
        matches!(self, Self::SessionNotFound | Self::SessionDeleted | Self::SessionExpired)
    }

    /// Returns true if events of the session are lost: what reads several sessions leaves it out,
    /// and says so.
    #[must_use]
    pub fn has_lost_events(self) -> bool {
        matches!(self, Self::SessionDamaged | Self::PrefixErased)
    }
}

/// Recovery hint of an error, as facts; `recovery_hint` on the wire omits absent ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Next action for a user or a model, in one sentence.
    pub action: Option<String>,
    /// Call that performs the action; each interface words it.
    pub next: Option<NextAction>,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// Seconds until a retry may succeed, when known.
    pub retry_after_seconds: Option<u64>,
    /// Position that the next event will get.
    pub tail: Option<Position>,
    /// Intact half-open ranges.
    pub whole: Vec<crate::event::Range>,
    /// Missing half-open ranges, each with its reason.
    pub missing: Vec<(crate::event::Range, String)>,
    /// Last step of the session, if the error concerns steps.
    pub last_step: Option<u64>,
    /// Step number that would be accepted instead, if only the order was wrong.
    pub next_step: Option<u64>,
    /// Sessions to choose from: those of the caller's workspace first, then the latest.
    pub candidates: Vec<CandidateSession>,
    /// Workspace that has no candidate.
    pub workspace: Option<String>,
    /// True if a first step would create a session without hiding research of the workspace.
    pub may_begin: bool,
    /// Rejected field.
    pub field: Option<String>,
    /// Tool call to make next. Set where tools are dispatched: verbs do not depend on tools.
    pub call: Option<SuggestedCall>,
}

/// A call that the caller, or a user for it, should make next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Restore a deleted or expired session.
    RestoreSession(SessionId),
    /// Release the hold of a session.
    ReleaseHold(SessionId),
    /// Acquire the lease of a session.
    Wake(SessionId),
    /// Acquire the lease although another caller holds it.
    Steal(SessionId),
    /// Delete a session permanently.
    DeleteNow(SessionId),
    /// Continue a damaged session without the lost events.
    AcceptLoss,
    /// Take a session out of the archive.
    Unarchive(SessionId),
}

/// A tool call that recovers from an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedCall {
    /// Name of the tool.
    pub tool: &'static str,
    /// Arguments of the tool.
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// True if the other arguments of the rejected call are kept.
    pub others_unchanged: bool,
}

/// A session offered to a caller without an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateSession {
    /// Session id.
    pub session: SessionId,
    /// Goal or title.
    pub title: Option<String>,
    /// Workspace of the session.
    pub workspace: Option<String>,
    /// True if that is the caller's own workspace.
    pub here: bool,
    /// Tail of the session.
    pub tail: Position,
    /// Time of the last write.
    pub updated_at: crate::event::Timestamp,
}

/// Error of a verb.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    /// Error code.
    pub code: Code,
    /// Message for a user.
    pub message: String,
    /// Recovery hint.
    pub hint: Box<Hint>,
}

impl From<MissingGrant> for ServiceError {
    fn from(lacking: MissingGrant) -> Self {
        let action = format!("use a credential with the scope {}", lacking.0.as_str());
        Self::new(Code::Forbidden, lacking.to_string()).action(action)
    }
}

impl ServiceError {
    /// Creates an error with an empty hint.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: Box::default() }
    }

    /// Sets the next action and removes the next call.
    #[must_use]
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.hint.action = Some(action.into());
        self.hint.next = None;
        self
    }

    /// Sets the call to make next.
    #[must_use]
    pub fn next(mut self, next: NextAction) -> Self {
        self.hint.next = Some(next);
        self
    }

    /// Creates an `invalid_request` error that names the field.
    #[must_use]
    pub fn invalid(field: &str, problem: impl std::fmt::Display) -> Self {
        let mut error = Self::new(Code::InvalidRequest, format!("{field}: {problem}"));
        error.hint.field = Some(field.to_owned());
        error
    }

    /// Creates a `point_not_found` error that names the point.
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

/// Rejects a list with more values than a filter allows.
pub(super) fn check_count(field: &str, count: usize) -> ServiceResult<()> {
    if count <= limits::FILTER_VALUES_MAX {
        return Ok(());
    }
    let problem = format!("{count} values; {} are allowed", limits::FILTER_VALUES_MAX);
    Err(ServiceError::invalid(field, problem))
}

/// Rejects a text longer than a filter allows.
pub(super) fn check_chars(field: &str, text: Option<&str>) -> ServiceResult<()> {
    let chars = text.map_or(0, |text| text.chars().count());
    if chars <= limits::FILTER_CHARS_MAX {
        return Ok(());
    }
    let problem = format!("{chars} characters; {} are allowed", limits::FILTER_CHARS_MAX);
    Err(ServiceError::invalid(field, problem))
}
