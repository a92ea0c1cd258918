//! Failures of verbs: each has an exit code, a message and a remedy. It must not print.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::values::ConfigError;
use crate::{client::ClientError, import::ImportError, wire::FOR_TOOLS};

/// Result of a verb.
pub(super) type Outcome<T = ()> = Result<T, CliError>;

/// Failure of a verb.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The owner or server refused the request, or none responds.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An import stopped.
    #[error(transparent)]
    Import(ImportError),
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// This program itself rejects the request.
    #[error("{message}")]
    Refused { code: &'static str, message: String, action: String },
    /// Acknowledged bytes are damaged.
    #[error("{0}")]
    Damaged(String),
    /// The printed result already explains the failure; this is the exit code.
    #[error("exit code {0}")]
    Silent(u8),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// Standard input or output failed.
    #[error("standard input or output: {0}")]
    Stream(#[from] io::Error),
}

/// Returns the request member that a refusal names.
fn refusal_field(refusal: &crate::client::Refusal) -> Option<&str> {
    refusal.body.pointer("/error/recovery_hint/field")?.as_str()
}

/// Phrases of HTTP hints and their equivalents on the command line.
const COMMAND_LINE_PHRASES: [(&str, &str); 4] = [
    (FOR_TOOLS, ""),
    ("ask again with allow_gaps=true", "with `sessionlog events SESSION --allow-gaps`"),
    ("send the Fencing-Token of the lease", "give the lease's token with --fencing-token"),
    (
        "send the fencing_token of the lease as the header Fencing-Token",
        "give the lease's token with --fencing-token",
    ),
];

/// Request members whose flags have other names.
const FLAGS: [(&str, &[&str]); 12] = [
    ("tokens_max", &["--tokens-max", "--tokens", "--context-tokens"]),
    ("transforms[]", &["--transform"]),
    ("types[]", &["--types", "--type"]),
    ("filters", &["--where"]),
    ("statuses[]", &["--state"]),
    ("metadata[]", &["--tag"]),
    ("types", &["--type"]),
    ("kinds", &["--kind"]),
    ("wait_ms", &["--wait"]),
    ("after", &["--since"]),
    ("before", &["--until"]),
    ("at", &["--to"]),
];

/// Returns the flag that was typed for a member of a request.
fn find_typed_flag(member: &str) -> Option<String> {
    let usual = format!("--{}", member.trim_end_matches("[]").replace('_', "-"));
    let others = FLAGS.iter().find(|(known, _)| *known == member);
    let others =
        others.into_iter().flat_map(|(_, flags)| flags.iter().map(|flag| (*flag).to_owned()));
    let typed: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_typed = |flag: &String| {
        typed.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")))
    };
    std::iter::once(usual).chain(others).find(is_typed)
}

/// Returns the flag that an invalid-request refusal is about.
fn find_refused_flag(refusal: &crate::client::Refusal) -> Option<String> {
    refusal_field(refusal).filter(|_| refusal.code == "invalid_request").and_then(find_typed_flag)
}

/// Exit code of a verb that succeeded.
pub(super) const DONE: u8 = 0;
/// Exit code of a wrong command line or configuration.
pub(super) const USAGE: u8 = 2;
/// Exit code of a verb that was refused.
pub(super) const REFUSED: u8 = 1;
/// Exit code of a verb that found damage.
pub(super) const DAMAGED: u8 = 3;
const NOT_FOUND: u8 = 4;

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Client(error) => Self::Client(error),
            error => Self::Import(error),
        }
    }
}

impl CliError {
    /// Creates a refusal by this program, with the error code that HTTP would return.
    pub(super) fn refusal(
        code: &'static str,
        message: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self::Refused { code, message: message.into(), action: action.into() }
    }

    /// Creates a failure for an invalid request.
    pub(super) fn invalid_request(message: impl Into<String>, action: impl Into<String>) -> Self {
        Self::refusal("invalid_request", message, action)
    }

    /// Creates a failure for contradictory arguments.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// Returns a function that converts an I/O error of `path` into a failure.
    pub(super) fn file(path: &Path) -> impl Fn(io::Error) -> Self + use<'_> {
        |source| Self::File { path: path.to_path_buf(), source }
    }

    /// Replaces the phrases and members of HTTP hints by those of the command line.
    pub(super) fn with_command_line_terms(mut self) -> Self {
        let Self::Client(ClientError::Refused(refusal)) = &mut self else { return self };
        if refusal.code == "unauthenticated" {
            let message = format!("the server wants a token: {}", refusal.message);
            let action = "set SESSIONLOG_TOKEN, or name a file that holds the token with \
                          --token-file (mode 0600); the server's operator makes one with \
                          `sessionlog tokens create`";
            refusal.reword(message, Some(action.to_owned()));
            return self;
        }
        if let Some(flag) = find_refused_flag(refusal) {
            let member = refusal_field(refusal).unwrap_or_default();
            let message = refusal.message.strip_prefix(member).map(|rest| format!("{flag}{rest}"));
            let action = refusal.action().map(str::to_owned);
            refusal.reword(message.unwrap_or_else(|| refusal.message.clone()), action);
        }
        if let Some(action) = refusal.action() {
            let put = |action: String, (said, flag): &(&str, &str)| action.replace(said, flag);
            let action = COMMAND_LINE_PHRASES.iter().fold(action.to_owned(), put);
            refusal.reword(refusal.message.clone(), Some(action));
        }
        self
    }

    /// Returns the exit code of the program for this failure.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Client(ClientError::Refused(refusal)) => match refusal.status {
                _ if find_refused_flag(refusal).is_some() => USAGE,
                404 | 410 => NOT_FOUND,
                423 if refusal.code == "session_damaged" => DAMAGED,
                _ => REFUSED,
            },
            Self::Client(ClientError::OwnerNotStarted(report)) => report.exit,
            Self::Silent(code) => *code,
            Self::Config(_) | Self::Usage(_) => USAGE,
            Self::Damaged(_) => DAMAGED,
            Self::Refused { code: "point_not_found", .. } => NOT_FOUND,
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            _ if self.is_broken_pipe() => DONE,
            _ => REFUSED,
        }
    }

    /// Returns true if nothing more is to be printed.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self, Self::Silent(_)) || self.is_broken_pipe()
    }

    /// Returns true if the reader of standard output closed it.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the error code, one of the closed list.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Client(error) => error.code(),
            Self::Refused { code, .. } => code,
            Self::Damaged(_) => "session_damaged",
            _ => "invalid_request",
        }
    }

    /// Returns the remedy for the failure.
    pub(super) fn action(&self) -> Option<String> {
        match self {
            Self::Client(ClientError::Refused(refusal)) => refusal.action().map(str::to_owned),
            Self::Refused { action, .. } => Some(action.clone()),
            Self::Config(_) => Some(
                "`sessionlog config` lists the settings, `sessionlog help` their flags".to_owned(),
            ),
            _ => None,
        }
    }

    /// Returns the failure in the JSON form of HTTP.
    pub(super) fn to_json(&self) -> Value {
        if let Self::Client(error) = self {
            return error.to_json();
        }
        let mut hint = Map::from_iter([("retryable".to_owned(), Value::from(false))]);
        hint.extend(self.action().map(|action| ("action".to_owned(), Value::from(action))));
        if let Self::Config(error) = self {
            hint.insert("field".to_owned(), Value::from(error.field()));
        }
        json!({
            "type": "error",
            "error": { "type": self.code(), "message": self.to_string(), "recovery_hint": hint },
            "request_id": null,
        })
    }
}
