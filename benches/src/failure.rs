//! Reasons for which a run ends without its figures, and the exit code of each. It must not print.

use std::{io, path::PathBuf};

use sessionlog::{client::ClientError, import::ImportError};

/// Result of a step of a run.
pub(super) type Outcome<T = ()> = Result<T, Failure>;

/// Reason for which a run failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Our server refused a request, or did not respond.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A conversation could not be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The command line names a row or a directory that does not exist.
    #[error("{0}")]
    Usage(String),
    /// A row failed, or a signal ended the run; the second text is the remedy.
    #[error("{0}\n{1}")]
    Ended(String, &'static str),
    /// A store lost acknowledged events.
    #[error("{0}")]
    Damaged(String),
    /// A target is missed under `--check`; the report names it.
    #[error("a target is missed")]
    Missed,
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of a data set has an unexpected format.
    #[error("{}: {place}: {problem}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Location in the file: a line, or members from the top.
        place: String,
        /// Description of the error.
        problem: String,
    },
    /// Input or output failed.
    #[error(transparent)]
    Stream(#[from] io::Error),
}

impl Failure {
    /// Returns the exit code of the program.
    pub(super) fn exit(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Damaged(_) => 3,
            _ => 1,
        }
    }
}
