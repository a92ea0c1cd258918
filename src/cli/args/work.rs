//! The arguments of verbs on the work on a session: checkpoints, cursors, leases, history. It must
//! not act on them.

use std::path::PathBuf;

use clap::Args;

use super::{
    super::{common::parse_session_id, complete::id_completer},
    WorkspaceChoice,
    values::parse_point,
};
use crate::event::SessionId;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog checkpoints trip                      newest first
  sessionlog checkpoints trip --create --label 'tests pass' --state state.json
  sessionlog checkpoints trip --show 'tests pass'  with its state
  sessionlog checkpoints trip --resume chk_…       continue from it; nothing is removed")]
pub(crate) struct CheckpointsArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Create a checkpoint
    #[arg(long, conflicts_with_all = ["show", "resume"])]
    pub(crate) create: bool,
    /// Show a checkpoint with its state, by id or label
    #[arg(long, value_name = "C")]
    pub(crate) show: Option<String>,
    /// Include checkpoints without a label
    #[arg(long, conflicts_with_all = ["create", "show", "resume"])]
    pub(crate) all: bool,
    /// Resume from a checkpoint by id or label
    #[arg(long, value_name = "C", conflicts_with = "show")]
    pub(crate) resume: Option<String>,
    /// Label of the new checkpoint
    #[arg(long, value_name = "TEXT", requires = "create")]
    pub(crate) label: Option<String>,
    /// Thread of the new checkpoint, or of those to list
    #[arg(long, value_name = "T")]
    pub(crate) thread: Option<String>,
    /// Parent of the new checkpoint [default: the last of its thread]
    #[arg(long, value_name = "C", requires = "create")]
    pub(crate) parent: Option<String>,
    /// Position of the new checkpoint [default: the end]
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true, requires = "create")]
    pub(crate) at: Option<String>,
    /// File with the agent's whole state as a JSON object; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "create", conflicts_with = "state_delta")]
    pub(crate) state: Option<PathBuf>,
    /// File with the change of the state as a JSON merge patch; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "create")]
    pub(crate) state_delta: Option<PathBuf>,
    /// Mark the work as done at this checkpoint
    #[arg(long, requires = "create")]
    pub(crate) r#final: bool,
    /// Fencing token of the session's lease, as `wake` prints it
    #[arg(long, value_name = "N")]
    pub(crate) fencing_token: Option<u64>,
    /// Maximum number of checkpoints
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog cursors trip                          where each reader continues
  sessionlog cursors trip --put me --at end
  sessionlog events trip --from cursor:me          events it has not read
  sessionlog cursors trip --delete me")]
pub(crate) struct CursorsArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Set the cursor with this name
    #[arg(long, value_name = "NAME", conflicts_with = "delete")]
    pub(crate) put: Option<String>,
    /// Position of the cursor [default: the end]
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true, requires = "put")]
    pub(crate) at: Option<String>,
    /// Delete the cursor with this name
    #[arg(long, value_name = "NAME")]
    pub(crate) delete: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog wake trip                             prints the fencing token that writers must send
  sessionlog append trip --fencing-token 1 < more.jsonl
  sessionlog wake trip --renew 1
  sessionlog wake trip --release 1
If another harness holds the lease, wait until it expires or take it with --steal. Later writes of
the other harness are refused.")]
pub(crate) struct WakeArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Take the lease from its current holder
    #[arg(long, conflicts_with_all = ["renew", "release"])]
    pub(crate) steal: bool,
    /// Seconds until the lease expires unless it is renewed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// Renew the lease with this token
    #[arg(long, value_name = "TOKEN", conflicts_with = "release")]
    pub(crate) renew: Option<u64>,
    /// Release the lease with this token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) release: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog usage                         tokens of this project, by day
  sessionlog usage --all --by workspace    of every project
  sessionlog usage --since 7d --by model   of the last week

Only what a harness reports is counted; a cost is shown where it reports one.")]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    pub(crate) choice: WorkspaceChoice,
    /// Key of the rows
    #[arg(long, value_name = "KEY", value_parser = ["day", "model", "session", "workspace"])]
    pub(crate) by: Option<String>,
    /// Only requests since that day of UTC, as listed: an instant, a day such as yesterday, or a
    /// duration such as 7d
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only requests up to that day of UTC, inclusive
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) choice: WorkspaceChoice,
    /// Maximum number of sessions
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) limit: Option<u64>,
}
