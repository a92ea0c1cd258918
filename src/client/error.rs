//! Failures between a front end and its owner or server, each with advice. It must not choose an
//! exit code: interfaces do.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Code of a refusal that does not say whether anything was done.
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
        /// The owner's process.
        pid: u64,
        /// The data directory.
        data_dir: String,
    },
    /// The owner was started and refused to work.
    #[error("{}", .0.message)]
    OwnerNotStarted(Box<StartReport>),
    /// The owner of the data directory, or the server, does not answer.
    #[error(
        "{who} owns {address} and has not answered for {seconds} s: it is stopped or stuck; let \
         it continue, or end it with `kill -9` (nothing acknowledged is lost){}",
        if *in_doubt { "; what became of this call is not known, send the same again" } else { "" }
    )]
    OwnerSilent {
        /// The process, as far as it is known.
        who: String,
        /// The data directory, or the server's address.
        address: String,
        /// Time it was given.
        seconds: u64,
        /// True if it was given a call that changes something.
        in_doubt: bool,
    },
    /// No process answers, after every retry.
    #[error("no answer from {address}: {reason}")]
    Unreachable {
        /// The address that was asked.
        address: String,
        /// Error of the last attempt.
        reason: String,
    },
    /// The other side does not speak this protocol.
    #[error("{address} answered with something that is not sessionlog's: {reason}")]
    Foreign {
        /// The address that was asked.
        address: String,
        /// The finding.
        reason: String,
    },
    /// No client could be made.
    #[error("no connection can be made: {0}")]
    Setup(String),
}

/// Reason for which an owner did not start, as it said itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartReport {
    /// One of the closed list of codes, or `owned`: another process owns the directory.
    pub code: String,
    /// A sentence for a person.
    pub message: String,
    /// The exit code it ended with.
    pub exit: u8,
}

/// Code of a [`StartReport`] that means: another process owns the directory; connect to it.
pub(super) const OWNED: &str = "owned";

impl StartReport {
    /// The report of an owner that found another one.
    #[must_use]
    pub fn owned() -> Self {
        let message = "another process owns this data directory".to_owned();
        Self { code: OWNED.to_owned(), message, exit: 1 }
    }

    /// The line an owner reports with.
    ///
    /// # Panics
    /// Never: texts and numbers are JSON.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// Reads that line; `None` when it is no such report.
    pub(super) fn read(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// An error answer, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// One of the closed list of codes.
    pub code: String,
    /// A sentence for a person.
    pub message: String,
    /// The whole answer.
    pub body: Value,
}

impl Refusal {
    /// Reads an error answer; `None` when it is not one of ours.
    pub(super) fn read(status: u16, bytes: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(bytes).ok()?;
        let error = body.get("error")?;
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self { status, code: text("type")?, message: text("message")?, body })
    }

    /// Says it in other words, and what to do instead when given; what is answered as JSON, too.
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

    /// Advice, when the answer has one.
    #[must_use]
    pub fn action(&self) -> Option<&str> {
        self.body.get("error")?.get("recovery_hint")?.get("action")?.as_str()
    }
}

impl ClientError {
    /// One of the closed list of codes.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.code,
            Self::OwnerNotStarted(report) => &report.code,
            Self::OwnerSilent { in_doubt: true, .. } => OUTCOME_UNKNOWN,
            _ => "owner_unavailable",
        }
    }

    /// True if the same call may succeed later, unchanged.
    #[must_use]
    pub fn retryable(&self) -> bool {
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

    /// The error as HTTP would answer it.
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
                "recovery_hint": { "retryable": self.retryable() },
            },
            "request_id": null,
        })
    }
}
