//! The flags that every verb accepts, and the parser of a session id. It must not know a verb.

use std::path::PathBuf;

use clap::Args;

use super::settings::{EVERY_VERB, Flags};
use crate::event::SessionId;

/// Flags of every verb.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct CommonFlags {
    #[command(flatten)]
    pub(super) flags: Flags,
    /// Print JSON, as the HTTP API answers
    #[arg(long, global = true, help_heading = EVERY_VERB)]
    pub(super) json: bool,
    /// Print errors only: no remarks and no progress
    #[arg(long, short, global = true, help_heading = EVERY_VERB, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Log at level debug to standard error
    #[arg(long, short, global = true, help_heading = EVERY_VERB)]
    pub(super) verbose: bool,
    /// Do not show long output in a pager
    #[arg(long, global = true, help_heading = EVERY_VERB)]
    pub(super) no_pager: bool,
    /// Read settings from this file instead of the default path
    #[arg(long, global = true, help_heading = EVERY_VERB, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

pub(super) fn parse_session_id(text: &str) -> Result<SessionId, String> {
    SessionId::new(text)
        .map_err(|error| format!("{error}; an id is [A-Za-z0-9][A-Za-z0-9._-]{{0,127}}"))
}
