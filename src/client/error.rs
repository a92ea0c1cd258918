//! Errors between a front end and its owner or server, each with advice. It must not choose an exit
//! code: interfaces do.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Code of a refusal after which the outcome of the call is unknown.
pub(super) const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// Reason for which a call got no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The owner or server answered with an error.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// The owner of the data directory is another version or was started with other settings.
    #[error(
        "the owner of {data_dir} (process {pid}) has {what} {theirs}, this program has {ours}; \
         end it with `kill {pid}` (nothing acknowledged is lost) and try again, or use the \
         same {what}"
    )]
    OwnerMismatch {
        /// `version` or `configuration`.
        what: &'static str,
        /// Version, or settings that differ, of this program.
        ours: String,
        /// Version, or settings that differ, of the owner.
        theirs: String,
        /// Process id of the owner.
        pid: u64,
        /// Path of the data directory.
        data_dir: String,
    },
    /// The owner was started and exited with a report.
    #[error("{}", .0.message)]
    OwnerNotStarted(Box<StartReport>),
    /// The owner of the data directory, or the server, does not answer.
    #[error(
        "{who} owns {address} and has not answered for {seconds} s: it is stopped or stuck; let \
         it continue, or end it with `kill -9` (nothing acknowledged is lost){}",
        if *in_doubt { "; what became of this call is not known, send the same again" } else { "" }
    )]
    OwnerSilent {
        /// The process that does not answer, for display.
        who: String,
        /// The data directory, or the server's address.
        address: String,
        /// The time limit, in seconds.
        seconds: u64,
        /// True if the process received a call that changes something.
        in_doubt: bool,
    },
    /// No process answers, after every retry.
    #[error("no answer from {address}: {reason}")]
    Unreachable {
        /// The address of the call.
        address: String,
        /// Error of the last attempt.
        reason: String,
    },
    /// The other side does not speak this protocol.
    #[error("{address} answered with something that is not sessionlog's: {reason}")]
    Foreign {
        /// The address of the call.
        address: String,
        /// Reason for display.
        reason: String,
    },
    /// The HTTP client could not be created.
    #[error("no connection can be made: {0}")]
    Setup(String),
}

/// Reason for which an owner did not start, as it reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartReport {
    /// One of the closed list of codes, or `owned`: another process owns the directory.
    pub code: String,
    /// A sentence for the user.
    pub message: String,
    /// The exit code of the owner.
    pub exit: u8,
}

/// Code of a [`StartReport`] of an owner that found the directory owned: connect to that owner.
pub(super) const OWNED: &str = "owned";

impl StartReport {
    /// Returns the report of an owner that found another one.
    #[must_use]
    pub fn for_owned_directory() -> Self {
        let message = "another process owns this data directory".to_owned();
        Self { code: OWNED.to_owned(), message, exit: 1 }
    }

    /// Returns the line of standard output that holds the report.
    ///
    /// # Panics
    /// Never: texts and numbers are JSON.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// Parses a report from a line of standard output; `None` if the line is not a report.
    pub(super) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// Cause of a refused append: the part of it that must change before it can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The store, or the connection to it: the same append may succeed later.
    Store,
    /// The caller: its credential or its quota.
    Caller,
    /// The session in its current state. Other sessions may be written to.
    Session,
    /// The session, permanently.
    Gone,
    /// One of the events: the others may be appended without it.
    Event,
    /// The request: the session does not exist, or a precondition does not hold.
    Request,
}

/// An error answer of the owner or server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// One of the closed list of codes.
    pub code: String,
    /// A sentence for the user.
    pub message: String,
    /// The answer as JSON.
    pub body: Value,
}

impl Refusal {
    /// Parses an error answer; `None` if it is not in this protocol's format.
    pub(super) fn parse(status: u16, bytes: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(bytes).ok()?;
        let error = body.get("error")?;
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self { status, code: text("type")?, message: text("message")?, body })
    }

    /// Replaces the message and, if given, the advice, also in the JSON body.
    pub fn reword(&mut self, message: String, action: Option<String>) {
        if let Some(error) = self.body.get_mut("error").and_then(Value::as_object_mut) {
            error.insert("message".to_owned(), Value::from(message.as_str()));
            if let Some(action) = action {
                let hint = error.entry("recovery_hint").or_insert_with(|| json!({}));
                if let Some(hint) = hint.as_object_mut() {
                    hint.insert("action".to_owned(), Value::from(action));
                }
            }
        }
        self.message = message;
    }

    /// Returns the advice, if the answer has one.
    #[must_use]
    pub fn action(&self) -> Option<&str> {
        self.body.get("error")?.get("recovery_hint")?.get("action")?.as_str()
    }
}

impl ClientError {
    /// Returns one of the closed list of codes.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.code,
            Self::OwnerNotStarted(report) => &report.code,
            Self::OwnerSilent { in_doubt: true, .. } => OUTCOME_UNKNOWN,
            _ => "owner_unavailable",
        }
    }

    /// Returns true if the same call may succeed later, unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal
                .body
                .pointer("/error/recovery_hint/retryable")
                .and_then(Value::as_bool)
                .unwrap_or(refusal.status == 503 || refusal.status == 429),
            Self::Unreachable { .. } | Self::OwnerSilent { .. } => true,
            _ => false,
        }
    }

    /// Returns the obstacle of an append that failed with this error.
    #[must_use]
    pub fn obstacle(&self) -> RefusalCause {
        let Self::Refused(refusal) = self else { return RefusalCause::Store };
        match (refusal.status, &*refusal.code) {
            (_, "idempotency_conflict") | (400 | 413 | 422, _) => RefusalCause::Event,
            // A damaged session blocks until an operator repairs it.
            (_, "lease_held" | "lease_lost") | (423, _) => RefusalCause::Session,
            (410, _) => RefusalCause::Gone,
            (429, _) if !self.is_retryable() => RefusalCause::Caller,
            (401 | 403, _) => RefusalCause::Caller,
            (429 | 500.., _) => RefusalCause::Store,
            _ if self.is_retryable() => RefusalCause::Store,
            _ => RefusalCause::Request,
        }
    }

    /// Returns the error in the form of an HTTP answer.
    #[must_use]
    pub fn to_json(&self) -> Value {
        if let Self::Refused(refusal) = self {
            return refusal.body.clone();
        }
        json!({
            "type": "error",
            "error": {
                "type": self.code(),
                "message": self.to_string(),
                "recovery_hint": { "retryable": self.is_retryable() },
            },
            "request_id": null,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_code_of_a_refusal_determine_the_obstacle() {
        let refused = |status, code: &str, retryable: bool| {
            let hint = json!({ "retryable": retryable });
            let body = json!({ "error": { "recovery_hint": hint } });
            let (code, message) = (code.to_owned(), String::new());
            ClientError::Refused(Box::new(Refusal { status, code, message, body })).obstacle()
        };
        for (status, code, retryable, expected) in [
            (400, "invalid_json", false, RefusalCause::Event),
            (413, "body_too_large", false, RefusalCause::Event),
            (422, "invalid_request", false, RefusalCause::Event),
            (409, "idempotency_conflict", false, RefusalCause::Event),
            (409, "lease_held", true, RefusalCause::Session),
            (409, "lease_lost", false, RefusalCause::Session),
            (423, "session_damaged", false, RefusalCause::Session),
            (410, "session_deleted", false, RefusalCause::Gone),
            (401, "unauthenticated", false, RefusalCause::Caller),
            (403, "forbidden", false, RefusalCause::Caller),
            (429, "quota_exceeded", false, RefusalCause::Caller),
            (429, "rate_limited", true, RefusalCause::Store),
            (408, "invalid_request", true, RefusalCause::Store),
            (500, "internal_error", true, RefusalCause::Store),
            (507, "disk_full", true, RefusalCause::Store),
            (404, "session_not_found", false, RefusalCause::Request),
            (409, "position_conflict", false, RefusalCause::Request),
            (409, "session_exists", false, RefusalCause::Request),
        ] {
            assert_eq!(refused(status, code, retryable), expected, "{status} {code}");
        }
        assert_eq!(ClientError::Setup(String::new()).obstacle(), RefusalCause::Store);
    }
}
