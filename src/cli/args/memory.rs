//! The arguments of the verbs on memory and on marks of events. It must not act on them.

use clap::Args;

use super::{
    super::{common::parse_session_id, complete::id_completer},
    values::{parse_event_id, parse_point},
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
    /// Session id, a unique prefix of one, or a path: the notebook of its workspace
    /// [default: the workspace of the working directory]
    #[arg(value_name = "S|PATH", add = id_completer())]
    pub(crate) of: Option<String>,
    #[arg(skip)]
    pub(crate) session: Option<SessionId>,
    /// The notebook of this workspace, instead of a session
    #[arg(long, value_name = "W", conflicts_with = "of")]
    pub(crate) workspace: Option<String>,
    /// Store this text as an item of memory
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["forget", "show"])]
    pub(crate) insert: Option<String>,
    /// Only items of these kinds; with --insert, kind of the item [default: semantic]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = ["episodic", "semantic", "procedural", "working"])]
    pub(crate) kind: Vec<String>,
    /// With --insert: subject of the item
    #[arg(long, value_name = "TEXT", requires = "insert")]
    pub(crate) topic: Option<String>,
    /// With --insert: tags for lookups
    #[arg(long, value_name = "TAG", value_delimiter = ',', requires = "insert")]
    pub(crate) tags: Vec<String>,
    /// With --insert: importance of the item, from 1 to 10
    #[arg(long, value_name = "N", requires = "insert", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(crate) importance: Option<u8>,
    /// With --insert: name of the item, which supersedes an item of that name
    #[arg(long, value_name = "NAME", requires = "insert")]
    pub(crate) name: Option<String>,
    /// With --insert: id of the item to supersede
    #[arg(long, value_name = "ID", requires = "insert")]
    pub(crate) supersedes: Option<String>,
    /// Forget the item with this id
    #[arg(long, value_name = "ID", value_parser = parse_event_id, conflicts_with = "show")]
    pub(crate) forget: Option<EventId>,
    /// Show the item with this id in full
    #[arg(long, value_name = "ID", value_parser = parse_event_id)]
    pub(crate) show: Option<EventId>,
    /// Print the texts that match this query in full, within --tokens
    #[arg(long, value_name = "QUERY", conflicts_with_all = ["insert", "forget", "show"])]
    pub(crate) page: Option<String>,
    /// With --page: maximum tokens of all texts [default: 2 000]
    #[arg(long, value_name = "N", requires = "page", value_parser = clap::value_parser!(u64).range(100..=200_000))]
    pub(crate) tokens: Option<u64>,
    /// Include superseded, forgotten and ended items
    #[arg(long)]
    pub(crate) all: bool,
    /// Maximum number of items [default: 100]
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
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Position or another point of the event
    #[arg(value_name = "POSITION", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) at: String,
    /// Kind of the mark
    #[arg(long = "as", value_name = "MARK", value_parser = ["important", "wrong", "done"])]
    pub(crate) mark: String,
    /// Importance of the event, from 1 to 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(crate) importance: Option<u8>,
    /// Reason for the mark
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}
