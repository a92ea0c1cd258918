//! The arguments of verbs on whole sessions: list, rename, tag, delete, hold and so on. It must not
//! act on them.

use std::path::PathBuf;

use clap::Args;

use super::{
    super::{common::parse_session_id, complete::id_completer},
    values::{SortOrder, parse_pair},
};
use crate::event::SessionId;

#[derive(Debug, Args)]
#[command(after_help = "\
Example: sessionlog why src/parser.rs

It reads the newest 200 sessions of the file's repository, and of none. A change that a person or
another program made is in no session.")]
pub(crate) struct WhyArgs {
    /// Path of the file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Workspace whose sessions a verb reads.
#[derive(Debug, Args)]
pub(crate) struct WorkspaceChoice {
    /// Only sessions of this workspace: a directory in it, or the name that ends its path
    /// [default: that of the working directory, if it has sessions]
    #[arg(value_name = "W")]
    pub(crate) of: Option<String>,
    /// The same as the argument W
    #[arg(long, value_name = "W", conflicts_with = "of")]
    pub(crate) workspace: Option<String>,
    /// Sessions of every workspace
    #[arg(long, conflicts_with_all = ["workspace", "of"])]
    pub(crate) all: bool,
    /// Workspace of the working directory, if no other is given
    #[arg(skip)]
    pub(crate) here: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog sessions                              those of this repository, the latest work first
  sessionlog sessions ~/work/bank -n 5             of another one
  sessionlog sessions --all                        of every workspace

Where a repository has sessions, they are listed with those of no workspace; elsewhere all are.")]
pub(crate) struct SessionsArgs {
    /// Maximum number of sessions
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) choice: WorkspaceChoice,
    /// Only sessions of this client, such as claude-code or codex
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,
    /// Only sessions with this tag; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) tag: Vec<(String, String)>,
    /// Order of the output
    #[arg(long, value_enum, value_name = "ORDER", default_value = "desc")]
    pub(crate) order: SortOrder,
    /// Only sessions in these states
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = ["idle", "running", "rescheduling", "terminated"])]
    pub(crate) state: Vec<String>,
    /// Only sessions created since: an instant, a day such as yesterday, or a duration such as 7d
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only sessions created before: an instant, a day such as yesterday, or a duration such as 7d
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// Include archived sessions
    #[arg(long)]
    pub(crate) archived: bool,
    /// List expired and deleted sessions instead, and until when `restore` works
    #[arg(long, conflicts_with_all = ["workspace", "of", "client", "tag", "order", "state", "since", "until", "archived"])]
    pub(crate) deleted: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: sessionlog rename trip 'A week in Ghent'")]
pub(crate) struct RenameArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// New title; an empty one removes it
    #[arg(value_name = "TITLE")]
    pub(crate) title: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog tag trip team=travel budget=none     set two
  sessionlog tag trip budget=                     remove one
  sessionlog sessions --tag team=travel           list those with it")]
pub(crate) struct TagArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Tags to set; one without a value is removed
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = parse_pair)]
    pub(crate) pairs: Vec<(String, String)>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it asks first; without one --yes is required. Exported files and backups keep their
copies.")]
pub(crate) struct EraseArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer(), required_unless_present = "notebook")]
    pub(crate) session: Option<SessionId>,
    /// Erase the notebook of this workspace, instead of a session
    #[arg(long, value_name = "W", conflicts_with = "session")]
    pub(crate) notebook: Option<String>,
    /// First redact the items of memory that were written from the session
    #[arg(long, conflicts_with = "notebook")]
    pub(crate) with_memory: bool,
    /// Confirm without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Show only parents and forks
    #[arg(long)]
    pub(crate) lineage: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it asks first; without one --yes is required. The session is hidden at once. Until
its grace period ends (setting grace) `sessionlog restore` brings it back; then its bytes are
removed, and its id can be used again.
With --now its bytes are removed at once, which frees disk space, also on a full disk. An expired
session and a deleted one take it too.")]
pub(crate) struct DeleteArgs {
    /// Remove the bytes at once: the session cannot be restored
    #[arg(long)]
    pub(crate) now: bool,
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Confirm without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Release the session; its idle time starts again
    #[arg(long)]
    pub(crate) release: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog retention --dry-run                   what expires, when and why
  sessionlog retention                             expire what is due now
The owner also does this periodically. The limits are the settings ttl, retention and grace, and a
session's own ttl_seconds.")]
pub(crate) struct RetentionArgs {
    /// Show what would expire; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Maximum number of sessions to show
    #[arg(long, short = 'n', value_name = "N", requires = "dry_run", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) limit: Option<u64>,
}
