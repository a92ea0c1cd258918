//! Errors of a server and of a connection as those of a base. It must not lose the difference
//! between what was not written and what may have been.

use tokio_postgres::error::SqlState;

use super::super::BaseError;
use crate::env::DiskShortage;

/// Begin of the reason of a violated uniqueness.
pub(super) const UNIQUE: &str = "a key exists already";

/// Error of a statement.
#[derive(Debug)]
pub(super) enum StatementError {
    /// No connection: the statement was not sent.
    NotSent(String),
    /// Error after it was sent.
    Sent(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sent(error)
    }
}

/// Converts an error of a statement that writes.
pub(super) fn write_error(error: StatementError) -> BaseError {
    match error {
        StatementError::NotSent(reason) => BaseError::Unreachable(reason),
        StatementError::Sent(error) => convert(&error, true),
    }
}

/// Converts an error of a statement that reads.
pub(super) fn read_error(error: StatementError) -> BaseError {
    match error {
        StatementError::NotSent(reason) => BaseError::Unreachable(reason),
        StatementError::Sent(error) => convert(&error, false),
    }
}

fn convert(error: &tokio_postgres::Error, writes: bool) -> BaseError {
    let text = describe(error);
    let lost = |text| if writes { BaseError::Unsure(text) } else { BaseError::Unreachable(text) };
    let Some(state) = error.code() else { return lost(text) };
    let class = state.code().get(..2).unwrap_or_default();
    match *state {
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
        | SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN => lost(text),
        SqlState::CANNOT_CONNECT_NOW | SqlState::READ_ONLY_SQL_TRANSACTION => {
            BaseError::Unreachable(text)
        }
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::OUT_OF_MEMORY => BaseError::Busy(text),
        SqlState::DISK_FULL => BaseError::Full(DiskShortage::Space),
        SqlState::CHECK_VIOLATION => {
            BaseError::ReadOnly(format!("the schema takes no writes of this version: {text}"))
        }
        SqlState::INSUFFICIENT_PRIVILEGE => BaseError::ReadOnly(text),
        SqlState::UNIQUE_VIOLATION => BaseError::Failed(format!("{UNIQUE}: {text}")),
        _ if class == "08" => lost(text),
        _ => BaseError::Failed(text),
    }
}

/// Describes an error with the server's own words, and the reason of a lost connection.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", server.message(), server.code().code());
    }
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
