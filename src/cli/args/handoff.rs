//! The arguments of `handoff`: save, restore, chain. It must not act on them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::{common::parse_session_id, complete::id_completer};
use crate::event::SessionId;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog handoff save                              the work in this directory, as it stands
  sessionlog handoff restore --tokens 8000             continue it in a session of its own
  sessionlog handoff restore ~/work/bank --look        only look: nothing is written
  sessionlog handoff start                             what an agent that starts here receives
  sessionlog handoff chain                             which session continues which

A directory stands for its repository, or for itself where it has none.")]
pub(crate) struct HandoffArgs {
    #[command(subcommand)]
    pub(crate) verb: HandoffVerb,
}

impl HandoffArgs {
    /// Returns the workspace argument.
    pub(crate) fn workspace_mut(&mut self) -> &mut Option<String> {
        match &mut self.verb {
            HandoffVerb::Save(verb) => &mut verb.workspace,
            HandoffVerb::Restore(verb) => &mut verb.workspace,
            HandoffVerb::Start(verb) => &mut verb.workspace,
            HandoffVerb::Chain(verb) => &mut verb.workspace,
        }
    }

    /// Returns the session argument.
    pub(crate) fn session_mut(&mut self) -> Option<&mut SessionId> {
        match &mut self.verb {
            HandoffVerb::Save(verb) => verb.session.as_mut(),
            HandoffVerb::Restore(verb) => verb.session.as_mut(),
            HandoffVerb::Start(_) => None,
            HandoffVerb::Chain(verb) => verb.session.as_mut(),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog workspace move ~/work/shop ~/work/store   after `mv ~/work/shop ~/work/store`

A workspace is its whole name: one below it, as of a repository inside, is moved by a call of its own.")]
pub(crate) struct WorkspaceArgs {
    #[command(subcommand)]
    pub(crate) verb: WorkspaceVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceVerb {
    /// Assign the sessions, memory and graph of a moved directory to its new path
    Move(MoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// Workspace: the former path of the directory, or another name
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// The new path, or another name
    #[arg(value_name = "TO")]
    pub(crate) to: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HandoffVerb {
    /// Save a session of a workspace for the one that continues it
    Save(SaveArgs),
    /// Print the context of a saved session, and create the session that continues it
    Restore(RestoreWorkArgs),
    /// Print the context that a new session of a workspace gets from earlier ones
    Start(StartArgs),
    /// List the sessions that continue one another
    Chain(ChainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    /// Workspace: a directory in it, or its name [default: that of the working directory]
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// Session to save [default: the latest one with work]
    #[arg(long, value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: Option<SessionId>,
    /// Current state of the work, in your words
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,
    /// A file that matters; may be repeated
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// File with the request body of the HTTP API as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreWorkArgs {
    /// Workspace: a directory in it, or its name [default: that of the working directory]
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// Session to continue [default: the one saved last]
    #[arg(long, value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: Option<SessionId>,
    /// Maximum tokens of the answer, 600 to 200 000 [default: 4 000]
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<usize>,
    /// Minimum importance of a context item, 0 to 10 [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) threshold: Option<u8>,
    /// Maximum number of context items [default: 50]
    #[arg(long, value_name = "N")]
    pub(crate) items: Option<usize>,
    /// Method that chooses the context
    #[arg(long, value_name = "NAME", value_parser = ["hybrid", "recency", "importance", "vector"])]
    pub(crate) algorithm: Option<String>,
    /// Do not shorten texts: leave out those that do not fit
    #[arg(long)]
    pub(crate) whole: bool,
    /// Only print the context: write nothing and create no session
    #[arg(long)]
    pub(crate) look: bool,
    /// Print why each item was chosen
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Workspace: a directory in it, or its name [default: that of the working directory]
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// Maximum tokens of the text, 400 to 20 000 [default: 700]
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ChainArgs {
    /// Workspace: a directory in it, or its name [default: that of the working directory]
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// Session whose chain to list [default: the one that `restore` would choose]
    #[arg(long, value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: Option<SessionId>,
}
