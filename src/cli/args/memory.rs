//! The arguments of the verbs on memory and on marks of events. It must not act on them.

use clap::Args;

use super::{
    super::{common::session, complete::ids},
    values::{event, point},
};
use crate::event::{EventId, SessionId};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog memory trip                               what the session and its workspace remember
  sessionlog memory trip --insert 'Staging listens on 8443' --topic staging
  sessionlog memory --workspace ~/work/bank --kind procedural
  sessionlog memory trip --forget memory_5ad0f1c2

A fact (semantic) or a skill (procedural) of a session with a workspace is kept in the notebook of
the workspace; episodic and working items stay in the session.")]
pub(crate) struct MemoryArgs {
    /// Session id, a unique prefix of one, or a path: the notebook of its workspace; default: that
    /// of the working directory
    #[arg(value_name = "S|PATH", add = ids())]
    pub(crate) of: Option<String>,
    #[arg(skip)]
    pub(crate) session: Option<SessionId>,
    /// Instead of a session: the notebook of this workspace
    #[arg(long, value_name = "W", conflicts_with = "of")]
    pub(crate) workspace: Option<String>,
    /// Remember this text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["forget", "show"])]
    pub(crate) insert: Option<String>,
    /// Only these kinds; with --insert the kind of the item, semantic by default
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = ["episodic", "semantic", "procedural", "working"])]
    pub(crate) kind: Vec<String>,
    /// With --insert: what it is about
    #[arg(long, value_name = "TEXT", requires = "insert")]
    pub(crate) topic: Option<String>,
    /// With --insert: tags for lookups
    #[arg(long, value_name = "TAG", value_delimiter = ',', requires = "insert")]
    pub(crate) tags: Vec<String>,
    /// With --insert: how much it matters, from 1 to 10
    #[arg(long, value_name = "N", requires = "insert", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(crate) importance: Option<u8>,
    /// With --insert: its name; the item of that name is superseded
    #[arg(long, value_name = "NAME", requires = "insert")]
    pub(crate) name: Option<String>,
    /// With --insert: the id of the item that it supersedes
    #[arg(long, value_name = "ID", requires = "insert")]
    pub(crate) supersedes: Option<String>,
    /// Forget the item of this id
    #[arg(long, value_name = "ID", value_parser = event, conflicts_with = "show")]
    pub(crate) forget: Option<EventId>,
    /// Show the item of this id in full
    #[arg(long, value_name = "ID", value_parser = event)]
    pub(crate) show: Option<EventId>,
    /// Print what these words find in full, within --tokens
    #[arg(long, value_name = "QUERY", conflicts_with_all = ["insert", "forget", "show"])]
    pub(crate) page: Option<String>,
    /// With --page: tokens of all blocks; default 2 000
    #[arg(long, value_name = "N", requires = "page", value_parser = clap::value_parser!(u64).range(100..=200_000))]
    pub(crate) tokens: Option<u64>,
    /// Also items that were superseded or ended
    #[arg(long)]
    pub(crate) all: bool,
    /// Maximum number of items; default 100
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog mark trip 17 --as wrong --note 'the ferry leaves at 9'
  sessionlog mark trip end --as important --importance 9

A search that finds the event shows its marks. A later mark of the same kind replaces the earlier.")]
pub(crate) struct MarkArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(crate) session: SessionId,
    /// Position or another point of the event
    #[arg(value_name = "POSITION", value_parser = point, allow_hyphen_values = true)]
    pub(crate) at: String,
    /// What to say of it
    #[arg(long = "as", value_name = "MARK", value_parser = ["important", "wrong", "done"])]
    pub(crate) mark: String,
    /// How much it matters, from 1 to 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(crate) importance: Option<u8>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}
