//! The arguments of the verb that searches every session. It must not act on them.

use std::time::Duration;

use clap::Args;

use super::super::{
    common::parse_session_id, complete::id_completer, values::parse_duration_argument,
};
use crate::event::SessionId;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog search connection pool                 the best matches of all sessions
  sessionlog search '\"lock order\" -draft' --around 2  that text exactly, with what is around it
  sessionlog search 'who:user deadline' --since 7d   what a person said of it this week

In QUERY: \"exact text\" and +word must be there, -word must not, pre* is the beginning of a word;
type:, session:, workspace:, who:, origin:, file:, url:, after: and before: filter; day: and words
like yesterday prefer a day. A day is one of this machine's time zone.")]
pub(crate) struct SearchArgs {
    /// Terms to search for
    #[arg(value_name = "QUERY", required = true, num_args = 1..)]
    pub(crate) query: Vec<String>,
    /// Only this session, including events shared with its parents
    #[arg(long, value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: Option<SessionId>,
    /// Only sessions of this workspace: a directory in it, or the last parts of its path
    #[arg(long, value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// Only events of these types
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// Only items of memory of these kinds: episodic, semantic, procedural, working
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Only events by this speaker: user, agent, tool, or a name
    #[arg(long, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// Only events of this origin: user, model, tool, web, import
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) origin: Option<String>,
    /// Only events since then: an instant, a day such as yesterday, or a duration such as 7d
    #[arg(long, value_name = "WHEN", alias = "after")]
    pub(crate) since: Option<String>,
    /// Only events before then: an instant, a day such as yesterday, or a duration such as 7d
    #[arg(long, value_name = "WHEN", alias = "before")]
    pub(crate) until: Option<String>,
    /// Include archived sessions
    #[arg(long)]
    pub(crate) archived: bool,
    /// Number of events to show before and after each hit [default: 1, with --json 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=5))]
    pub(crate) around: Option<u64>,
    /// Maximum number of hits [default: 10]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) limit: Option<u64>,
    /// Newest first instead of best first
    #[arg(long)]
    pub(crate) newest: bool,
    /// Maximum wait for events that are not indexed yet [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_argument)]
    pub(crate) wait: Option<Duration>,
}
